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
	DATUM_MISSING,					/* unchanged, out of line, and not in the change */
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

/* For the others it is looked at when they are converted. */
static inline bool
may_expand(const ColumnConversion *column)
{
	return column->kind == CONVERT_ARRAY || (column->holds_arrays && !column->guarded);
}

/* ---------------------------------------------------------------- values that can fail */

typedef struct GuardedColumns
{
	const RowConversion *conversion;
	const RowSource *source;
	const int *positions;		/* NULL: all */
	int			count;
	SyncArena  *scratch;
	SyncValue  *values;
	Size		room;			/* of the limit */
	bool		too_large;
	const ColumnConversion *present;	/* being converted */
} GuardedColumns;

static void
convert_guarded_columns(void *arg)
{
	GuardedColumns *work = arg;

	for (int i = 0; i < work->count; i++)
	{
		int			position = work->positions == NULL ? i : work->positions[i];
		const ColumnConversion *column = &work->conversion->columns[position];
		Datum		datum;
		Size		size;

		if (!column->guarded || find_datum(work->source, column, &datum) != DATUM_THERE)
			continue;
		work->present = column;
		size = datum_expansion(column, datum);
		if (size > work->room)
		{
			work->too_large = true;
			return;
		}
		work->room -= size;
		work->values[position] = datum_value(work->conversion, column, datum, work->scratch);
	}
}

static RowValueResult
failed(const RowConversion *conversion, const ColumnConversion *column)
{
	set_failure(conversion, psprintf("column \"%s\" cannot be converted: %s",
									 column != NULL ? column->name : "?", conversion->failure));
	return ROW_FAILED;
}

/* All guarded columns of a row at once: a subtransaction for each would be dear. */
static RowValueResult
convert_guarded(GuardedColumns *work, bool foreign)
{
	const RowConversion *conversion = work->conversion;

	if (run_guarded(conversion, foreign, convert_guarded_columns, work))
		return work->too_large ? ROW_TOO_LARGE : ROW_COMPLETE;
	return failed(conversion, work->present);
}

/* ---------------------------------------------------------------- rows */

RowValueResult
row_convert(const RowConversion *conversion, const Datum *datums, const bool *nulls,
			const Datum *old_datums, const bool *old_nulls, Size limit, bool in_stream,
			SyncArena *scratch, SyncValue *values, bool *out_of_line)
{
	const RowSource source = {datums, nulls, old_datums, old_nulls, in_stream};
	RowValueResult result = ROW_COMPLETE;
	bool		guarded = false;
	bool		foreign = false;
	Size		size = 0;
	Datum		datum;

	*out_of_line = false;
	/* sizes first: a row over the limit must not be detoasted to learn that */
	for (int i = 0; i < conversion->count; i++)
	{
		const ColumnConversion *column = &conversion->columns[i];

		if (find_datum(&source, column, &datum) == DATUM_THERE)
			size += value_size(column, datum);
	}
	for (int i = 0; i < conversion->count && size <= limit; i++)
	{
		const ColumnConversion *column = &conversion->columns[i];

		if (may_expand(column) && find_datum(&source, column, &datum) == DATUM_THERE)
			size += datum_expansion(column, datum);
	}
	if (size > limit)
		return ROW_TOO_LARGE;

	for (int i = 0; i < conversion->count; i++)
	{
		const ColumnConversion *column = &conversion->columns[i];
		Presence	presence = find_datum(&source, column, &datum);

		if (presence == DATUM_NULL)
		{
			values[i] = value_null();
			continue;
		}
		if (column->typlen == -1 && VARATT_IS_EXTERNAL(DatumGetPointer(datums[column->attnum - 1])))
			*out_of_line = true;
		if (presence == DATUM_MISSING)
		{
			values[i] = (SyncValue) {.type = SYNC_UNDEFINED};
			result = ROW_INCOMPLETE;
		}
		else if (column->guarded)
		{
			guarded = true;
			foreign |= column->foreign;
		}
		else
		{
			values[i] = datum_value(conversion, column, datum, scratch);
			if (values[i].type == SYNC_UNDEFINED)
				return failed(conversion, column);
		}
	}
	if (guarded)
	{
		GuardedColumns work = {.conversion = conversion,.source = &source,
			.count = conversion->count,.scratch = scratch,.values = values,.room = limit - size};
		RowValueResult guarded_result = convert_guarded(&work, foreign);

		if (guarded_result != ROW_COMPLETE)
			return guarded_result;
	}
	return result;
}

bool
row_convert_some(const RowConversion *conversion, const Datum *datums, const bool *nulls,
				 const int *positions, int count, Size limit, SyncArena *scratch,
				 SyncValue *values)
{
	const RowSource source = {.datums = datums,.nulls = nulls};
	GuardedColumns work = {.conversion = conversion,.source = &source,.positions = positions,
		.count = count,.scratch = scratch,.values = values};
	bool		guarded = false;
	bool		foreign = false;
	Size		size = 0;

	for (int i = 0; i < count; i++)
	{
		const ColumnConversion *column = &conversion->columns[positions[i]];

		if (nulls[column->attnum - 1])
			continue;
		size += value_size(column, datums[column->attnum - 1]);
		if (size <= limit && may_expand(column))
			size += datum_expansion(column, datums[column->attnum - 1]);
	}
	if (size > limit)
		return false;
	for (int i = 0; i < count; i++)
	{
		const ColumnConversion *column = &conversion->columns[positions[i]];
		int			a = column->attnum - 1;

		if (nulls[a])
			values[positions[i]] = value_null();
		else if (column->guarded)
		{
			guarded = true;
			foreign |= column->foreign;
		}
		else
		{
			values[positions[i]] = datum_value(conversion, column, datums[a], scratch);
			if (values[positions[i]].type == SYNC_UNDEFINED)
				return false;
		}
	}
	work.room = limit - size;
	return !guarded || convert_guarded(&work, foreign) == ROW_COMPLETE;
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
