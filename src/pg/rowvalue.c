/*-------------------------------------------------------------------------
 *
 * rowvalue.c
 *	  Row values: a row's Datums -> SQLite values (sync-rules.md, section 10).
 *
 * One function serves the copy and the stream, so both agree.  How the values of a
 * type are converted is in value_type.c, the conversion itself in value_direct.c and
 * value_output.c.
 *
 * Invariant: the result depends on the value, the table's shape and the rules'
 * compatibility options alone, never on the server's settings.  The one exception
 * is lc_monetary: without it a money value is no amount of anything.  It is that of
 * the database, as long as the worker runs, and part of the table's shape.
 *
 *-------------------------------------------------------------------------
 */
#include "value.h"

#include "access/detoast.h"
#include "catalog/pg_attribute.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

/* below it the text of no value, of whatever type, comes near what the server can print */
#define LARGE_VALUE			1024

/* of a row, as values of the rules language; a row as JSON is far smaller */
#define LARGEST_CONVERSION	((size_t) 256 * 1024 * 1024)

/* ---------------------------------------------------------------- settings */

/*
 * Output functions that we call must not depend on the database's settings.  No
 * search_path: names of functions and types are printed with their schemas, and what
 * foreign code looks up is not found in a schema where anybody can put things.
 */
static const char *const format_settings[][2] = {
	{"datestyle", "ISO, YMD"},
	{"intervalstyle", "postgres"},
	{"timezone", "UTC"},
	{"extra_float_digits", "1"},
	{"bytea_output", "hex"},
	{"xmlbinary", "base64"},
	{"quote_all_identifiers", "off"},
	{"search_path", ""},
};

int
row_conversion_settings_begin(void)
{
	int			level = NewGUCNestLevel();

	for (int i = 0; i < (int) lengthof(format_settings); i++)
		(void) set_config_option(format_settings[i][0], format_settings[i][1], PGC_SUSET,
								 PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	(void) set_config_option("lc_monetary", GetConfigOptionResetString("lc_monetary"), PGC_SUSET,
							 PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	return level;
}

void
row_conversion_settings_end(int level)
{
	AtEOXact_GUC(true, level);
}

void
row_conversion_settings(void)
{
	static const char *const settings[][2] = {
		/* a worker's transactions end when their work does */
		{"statement_timeout", "0"},
		{"lock_timeout", "0"},
		{"idle_in_transaction_session_timeout", "0"},
#if PG_VERSION_NUM >= 170000
		{"transaction_timeout", "0"},
#endif
		{"default_transaction_isolation", "read committed"},
		{"default_transaction_read_only", "off"},
		{"default_transaction_deferrable", "off"},
	};

	for (int i = 0; i < (int) lengthof(format_settings); i++)
		SetConfigOption(format_settings[i][0], format_settings[i][1], PGC_SUSET, PGC_S_OVERRIDE);
	for (int i = 0; i < (int) lengthof(settings); i++)
		SetConfigOption(settings[i][0], settings[i][1], PGC_SUSET, PGC_S_OVERRIDE);
	/* not by a reload: rows would come out in two ways */
	SetConfigOption("lc_monetary", GetConfigOption("lc_monetary", false, false), PGC_SUSET,
					PGC_S_OVERRIDE);
}

/* ---------------------------------------------------------------- creation */

RowConversion *
row_conversion_create(TupleDesc desc, Oid owner, const SyncCompatibility *compatibility)
{
	RowConversion *conversion = palloc0(sizeof(RowConversion));

	conversion->owner = owner;
	conversion->failure = palloc0(ROW_FAILURE_SIZE);
	conversion->custom_types = compatibility->custom_postgres_types;
	conversion->iso8601 = compatibility->timestamps_iso8601;
	conversion->fraction_digits = 6;
	if (compatibility->timestamp_precision >= 0 && compatibility->timestamp_precision < 6)
		conversion->fraction_digits = compatibility->timestamp_precision;
	conversion->columns = palloc0(sizeof(ColumnConversion) * Max(desc->natts, 1));
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute attribute = TupleDescAttr(desc, i);
		ColumnConversion *column;

		if (attribute->attisdropped)
			continue;
#if PG_VERSION_NUM >= 180000
		if (attribute->attgenerated == ATTRIBUTE_GENERATED_VIRTUAL)
			continue;
#endif
		column = &conversion->columns[conversion->count++];
		column->attnum = attribute->attnum;
		column->name = pstrdup(NameStr(attribute->attname));
		column_conversion_init(column, attribute->atttypid, attribute->atttypmod,
							   compatibility->custom_postgres_types);
	}
	return conversion;
}

/* ---------------------------------------------------------------- what a row consists of */

/* where a row's values come from: see row_convert() */
typedef struct RowSource
{
	const Datum *datums;
	const bool *nulls;
	const Datum *old_datums;
	const bool *old_nulls;
	bool		in_stream;
} RowSource;

typedef enum Presence
{
	DATUM_NULL,
	DATUM_MISSING,				/* unchanged, out of line, and not in the change */
	DATUM_THERE
} Presence;

static inline bool
is_unchanged_external(const ColumnConversion *column, Datum datum, bool in_stream)
{
	return in_stream && column->typlen == -1 &&
		VARATT_IS_EXTERNAL_ONDISK(DatumGetPointer(datum));
}

static inline Presence
find_datum(const RowSource *source, const ColumnConversion *column, Datum *datum)
{
	int			a = column->attnum - 1;

	if (source->nulls[a])
		return DATUM_NULL;
	*datum = source->datums[a];
	if (!is_unchanged_external(column, *datum, source->in_stream))
		return DATUM_THERE;
	if (source->old_datums == NULL || source->old_nulls[a] ||
		is_unchanged_external(column, source->old_datums[a], true))
		return DATUM_MISSING;
	*datum = source->old_datums[a];
	return DATUM_THERE;
}

/* Bytes of a value as it would be after detoasting. */
static inline Size
value_size(const ColumnConversion *column, Datum datum)
{
	if (column->typlen == -1)
		return toast_raw_datum_size(datum);
	if (column->typlen == -2)
		return strlen(DatumGetCString(datum)) + 1;
	return column->typlen;
}

/*
 * Can converting this value fail?  A small one cannot, unless code that is not built
 * in has a part in it: the server prints a gigabyte.
 */
static inline bool
needs_guard(const ColumnConversion *column, Datum datum)
{
	return column->guarded || (column->guard_large && value_size(column, datum) >= LARGE_VALUE);
}

/* ---------------------------------------------------------------- conversion */

/* a row, or some of its columns, being converted */
typedef struct RowWork
{
	const RowConversion *conversion;
	RowSource	source;
	const int  *positions;		/* NULL: all */
	int			count;
	Size		limit;
	Size		size;			/* so far */
	SyncArena  *scratch;
	SyncValue  *values;
	RowValueResult result;
	bool		out_of_line;
	bool		guarded;		/* some values were left for convert_guarded() */
	bool		foreign;
	const ColumnConversion *present;	/* being converted */
	ArenaGuard	guard;
	bool		guard_set;
} RowWork;

static inline int
position_of(const RowWork *work, int i)
{
	return work->positions == NULL ? i : work->positions[i];
}

static void
failed(RowWork *work)
{
	const RowConversion *conversion = work->conversion;

	set_failure(conversion, psprintf("column \"%s\" cannot be converted: %s",
									 work->present != NULL ? work->present->name : "?",
									 conversion->failure));
	work->result = ROW_FAILED;
}

/* Sizes first: a row over the limit must not be detoasted to learn that. */
static void
check_sizes(RowWork *work)
{
	Datum		datum;

	for (int i = 0; i < work->count; i++)
	{
		const ColumnConversion *column = &work->conversion->columns[position_of(work, i)];

		if (find_datum(&work->source, column, &datum) == DATUM_THERE)
			work->size += value_size(column, datum);
	}
	for (int i = 0; i < work->count && work->size <= work->limit; i++)
	{
		const ColumnConversion *column = &work->conversion->columns[position_of(work, i)];

		if (column->expands && find_datum(&work->source, column, &datum) == DATUM_THERE &&
			!needs_guard(column, datum))
			work->size += datum_expansion(column, datum);
	}
	if (work->size > work->limit)
		work->result = ROW_TOO_LARGE;
}

/* All but those that can fail. */
static void
convert_columns(RowWork *work)
{
	Datum		datum;

	for (int i = 0; i < work->count; i++)
	{
		int			position = position_of(work, i);
		const ColumnConversion *column = &work->conversion->columns[position];
		Presence	presence = find_datum(&work->source, column, &datum);

		if (presence == DATUM_NULL)
		{
			work->values[position] = value_null();
			continue;
		}
		if (column->typlen == -1 &&
			VARATT_IS_EXTERNAL(DatumGetPointer(work->source.datums[column->attnum - 1])))
			work->out_of_line = true;
		if (presence == DATUM_MISSING)
		{
			work->values[position] = (SyncValue) {.type = SYNC_UNDEFINED};
			work->result = ROW_INCOMPLETE;
		}
		else if (needs_guard(column, datum))
		{
			work->guarded = true;
			work->foreign |= column->foreign;
		}
		else
		{
			work->values[position] = datum_value(work->conversion, column, datum, work->scratch);
			if (work->values[position].type == SYNC_UNDEFINED)
			{
				work->present = column;
				failed(work);
				return;
			}
		}
	}
}

static void
convert_guarded_columns(RowWork *work)
{
	Datum		datum;

	for (int i = 0; i < work->count; i++)
	{
		int			position = position_of(work, i);
		const ColumnConversion *column = &work->conversion->columns[position];

		if (find_datum(&work->source, column, &datum) != DATUM_THERE ||
			!needs_guard(column, datum))
			continue;
		work->present = column;
		if (column->expands)
			work->size += datum_expansion(column, datum);
		if (work->size > work->limit)
		{
			work->result = ROW_TOO_LARGE;
			return;
		}
		work->values[position] = datum_value(work->conversion, column, datum, work->scratch);
		if (work->values[position].type == SYNC_UNDEFINED)
		{
			failed(work);
			return;
		}
	}
}

/* Also after an error, which jumped over the end of within_limit(). */
static void
lift_limit(RowWork *work)
{
	bool		reached = arena_limit_reached(work->scratch);

	if (!work->guard_set)
		return;
	arena_guard_pop(work->scratch, &work->guard);
	work->guard_set = false;
	arena_limit(work->scratch, 0);
	if (work->result == ROW_TOO_LARGE && !reached && work->size <= work->limit)
		ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory")));
}

/*
 * Within what a row may take: an array of names, or of labels, is many times its
 * size.  The jump out of the arena crosses nothing but our own code.
 */
static void
within_limit(RowWork *work, void (*convert) (RowWork *work))
{
	arena_limit(work->scratch, LARGEST_CONVERSION);
	arena_guard_push(work->scratch, &work->guard);
	work->guard_set = true;
	if (setjmp(work->guard.jump) == 0)
		convert(work);
	else
		work->result = ROW_TOO_LARGE;
	lift_limit(work);
}

static void
convert_guarded(void *arg)
{
	within_limit(arg, convert_guarded_columns);
}

static void
convert(RowWork *work)
{
	check_sizes(work);
	if (work->result == ROW_TOO_LARGE)
		return;
	within_limit(work, convert_columns);
	/* all at once: a subtransaction for each would be dear */
	if (work->guarded && work->result != ROW_FAILED && work->result != ROW_TOO_LARGE &&
		!run_guarded(work->conversion, work->foreign, convert_guarded, work))
	{
		lift_limit(work);
		failed(work);
	}
}

RowValueResult
row_convert(const RowConversion *conversion, const Datum *datums, const bool *nulls,
			const Datum *old_datums, const bool *old_nulls, Size limit, bool in_stream,
			SyncArena *scratch, SyncValue *values, bool *out_of_line)
{
	RowWork		work = {.conversion = conversion,
		.source = {datums, nulls, old_datums, old_nulls, in_stream},
		.count = conversion->count,.limit = limit,.scratch = scratch,.values = values,
		.result = ROW_COMPLETE};

	convert(&work);
	*out_of_line = work.out_of_line;
	return work.result;
}

bool
row_convert_some(const RowConversion *conversion, const Datum *datums, const bool *nulls,
				 const int *positions, int count, Size limit, SyncArena *scratch,
				 SyncValue *values)
{
	RowWork		work = {.conversion = conversion,.source = {.datums = datums,.nulls = nulls},
		.positions = positions,.count = count,.limit = limit,.scratch = scratch,
		.values = values,.result = ROW_COMPLETE};

	convert(&work);
	return work.result == ROW_COMPLETE;
}

const SyncValue *
row_key_values(const RowConversion *conversion, const Datum *datums, const bool *nulls,
			   const int *positions, int count, SyncArena *scratch, const SyncValue *values)
{
	SyncValue  *keys = arena_array(scratch, SyncValue, conversion->count);

	for (int i = 0; i < count; i++)
	{
		int			position = positions[i];
		const ColumnConversion *column = &conversion->columns[position];
		int			a = column->attnum - 1;

		keys[position] = column->inexact && !nulls[a] ?
			datum_key_value(conversion, column, datums[a], values[position]) : values[position];
	}
	return keys;
}
