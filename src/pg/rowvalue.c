/*-------------------------------------------------------------------------
 *
 * rowvalue.c
 *	  Row values: Datum -> SQLite value (sync-rules.md, section 10).
 *
 * One function serves the copy and the stream, so both agree.  Common types
 * are converted from their internal form; other built-in types by their output
 * function's text.  The output function of a type that is not built in runs as
 * the table's owner in a security-restricted context, because the worker itself
 * has a superuser's rights.
 *
 * What is not here: composites, ranges and multiranges as JSON
 * (custom_postgres_types); their text is given as printed.
 *
 * Invariant: the result depends on the value, the table's shape and the rules'
 * compatibility options alone, never on the server's settings.
 *
 *-------------------------------------------------------------------------
 */
#include "worker.h"

#include <math.h>

#include "access/detoast.h"
#include "access/transam.h"
#include "catalog/pg_type.h"
#include "common/shortest_dec.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/date.h"
#include "utils/datetime.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
#include "utils/pg_lsn.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"
#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

#include "core/json.h"

/* ColumnConversion.kind */
#define CONVERT_BOOL		'b'
#define CONVERT_INT2		'2'
#define CONVERT_INT4		'4'
#define CONVERT_INT8		'8'
#define CONVERT_OID			'o'
#define CONVERT_FLOAT4		'f'
#define CONVERT_FLOAT8		'd'
#define CONVERT_TEXT		't'
#define CONVERT_JSONB		'j'
#define CONVERT_UUID		'u'
#define CONVERT_TIMESTAMP	'T'
#define CONVERT_TIMESTAMPTZ	'Z'
#define CONVERT_DATE		'D'
#define CONVERT_TIME		'M'
#define CONVERT_BYTEA		'y'
#define CONVERT_LSN			'L'
#define CONVERT_ARRAY		'a'
#define CONVERT_OUTPUT		'x'

/* longest text of a timestamp of ours, with room */
#define TIMESTAMP_LEN		64

/* output functions that we call must not depend on the database's settings */
static const char *const format_settings[][2] = {
	{"datestyle", "ISO, YMD"},
	{"intervalstyle", "postgres"},
	{"timezone", "UTC"},
	{"extra_float_digits", "1"},
	{"bytea_output", "hex"},
	{"lc_monetary", "C"},
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
}

/* ---------------------------------------------------------------- creation */

static char
conversion_kind(Oid type)
{
	switch (type)
	{
		case BOOLOID:
			return CONVERT_BOOL;
		case INT2OID:
			return CONVERT_INT2;
		case INT4OID:
			return CONVERT_INT4;
		case INT8OID:
			return CONVERT_INT8;
		case OIDOID:
			return CONVERT_OID;
		case FLOAT4OID:
			return CONVERT_FLOAT4;
		case FLOAT8OID:
			return CONVERT_FLOAT8;
		case TEXTOID:
		case VARCHAROID:
		case BPCHAROID:
		case JSONOID:
		case XMLOID:
			return CONVERT_TEXT;
		case JSONBOID:
			return CONVERT_JSONB;
		case UUIDOID:
			return CONVERT_UUID;
		case TIMESTAMPOID:
			return CONVERT_TIMESTAMP;
		case TIMESTAMPTZOID:
			return CONVERT_TIMESTAMPTZ;
		case DATEOID:
			return CONVERT_DATE;
		case TIMEOID:
			return CONVERT_TIME;
		case BYTEAOID:
			return CONVERT_BYTEA;
		case PG_LSNOID:
			return CONVERT_LSN;
		default:
			return CONVERT_OUTPUT;
	}
}

/*
 * Arrays of built-in base types are JSON in every edition; a type counts as
 * built in when its oid is assigned by initdb.  The vector types print as
 * text without braces and stay text.
 */
static Oid
array_element_for_json(Oid type)
{
	Oid			element;

	if (type == INT2VECTOROID || type == OIDVECTOROID)
		return InvalidOid;
	element = get_element_type(type);
	if (!OidIsValid(element) || element >= FirstUnpinnedObjectId)
		return InvalidOid;
	if (get_typtype(element) != TYPTYPE_BASE)
		return InvalidOid;
	return element;
}

static void
column_conversion_init(ColumnConversion *column, Oid type, int32 typmod, bool custom_types)
{
	Oid			element;
	bool		is_varlena;

	if (custom_types)
		type = getBaseTypeAndTypmod(type, &typmod);
	column->type = type;
	column->typmod = typmod;
	column->typlen = get_typlen(type);
	column->kind = conversion_kind(type);
	element = array_element_for_json(type);
	if (OidIsValid(element))
	{
		column->kind = CONVERT_ARRAY;
		column->element = palloc0(sizeof(ColumnConversion));
		column_conversion_init(column->element, element, -1, custom_types);
	}
	if (column->kind == CONVERT_OUTPUT)
	{
		getTypeOutputInfo(type, &column->output_function, &is_varlena);
		column->output_is_builtin = column->output_function < FirstUnpinnedObjectId &&
			type < FirstNormalObjectId;

		/*
		 * enum_out and its like are built in, but composites, domains and
		 * ranges call the output functions of their parts.
		 */
		if (!column->output_is_builtin && get_typtype(type) == TYPTYPE_ENUM)
			column->output_is_builtin = true;
	}
}

SchemaValue
row_schema_value(Oid type, bool custom_types)
{
	ColumnConversion column = {0};

	column_conversion_init(&column, type, -1, custom_types);
	switch (column.kind)
	{
		case CONVERT_BOOL:
			return SCHEMA_BOOLEAN;
		case CONVERT_INT2:
		case CONVERT_INT4:
		case CONVERT_INT8:
		case CONVERT_OID:
			return SCHEMA_INTEGER;
		case CONVERT_FLOAT4:
		case CONVERT_FLOAT8:
			return SCHEMA_REAL;
		case CONVERT_JSONB:
			return SCHEMA_JSON;
		case CONVERT_UUID:
			return SCHEMA_UUID;
		case CONVERT_TIMESTAMP:
			return SCHEMA_TIMESTAMP;
		case CONVERT_TIMESTAMPTZ:
			return SCHEMA_TIMESTAMPTZ;
		case CONVERT_DATE:
			return SCHEMA_DATE;
		case CONVERT_TIME:
			return SCHEMA_TIME;
		case CONVERT_BYTEA:
			return SCHEMA_BLOB;
		case CONVERT_ARRAY:
			return SCHEMA_JSON_ARRAY;
		case CONVERT_TEXT:
			return column.type == JSONOID ? SCHEMA_JSON :
				column.type == XMLOID ? SCHEMA_PRINTED : SCHEMA_TEXT;
		default:
			break;
	}
	if (column.type == NUMERICOID)
		return SCHEMA_NUMERIC;
	/* domains print as what is under them, which need not be an array */
	return get_typtype(column.type) == TYPTYPE_BASE && OidIsValid(get_element_type(column.type)) ?
		SCHEMA_RAW_ARRAY : SCHEMA_PRINTED;
}

RowConversion *
row_conversion_create(TupleDesc desc, Oid owner, const SyncCompatibility *compatibility)
{
	RowConversion *conversion = palloc0(sizeof(RowConversion));

	conversion->owner = owner;
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
		column_conversion_init(column, attribute->atttypid, attribute->atttypmod,
							   compatibility->custom_postgres_types);
	}
	return conversion;
}

/* ---------------------------------------------------------------- times */

/*
 * Fraction of a second.  As printed: without trailing zeros, nothing if zero;
 * with iso8601: exactly the digits asked for, cut and not rounded.
 */
static char *
append_fraction(char *p, fsec_t fraction, bool fixed, int digits)
{
	char		text[16];

	if (!fixed && fraction == 0)
		return p;
	if (fixed && digits == 0)
		return p;
	snprintf(text, sizeof(text), "%06d", (int) fraction);
	if (fixed)
		text[digits] = '\0';
	else
	{
		int			n = 6;

		while (n > 0 && text[n - 1] == '0')
			text[--n] = '\0';
	}
	*p++ = '.';
	strcpy(p, text);
	return p + strlen(text);
}

/*
 * sync-rules.md, 10.3.  NULL for what the service cannot read: years before
 * Christ and years of five digits.  The session's zone is never used: a
 * timestamptz is shown in UTC.
 */
static SyncValue
timestamp_value(const RowConversion *conversion, Timestamp timestamp, bool with_zone)
{
	struct pg_tm tm;
	fsec_t		fraction;
	char	   *text;
	char	   *p;
	char		separator = conversion->iso8601 ? 'T' : ' ';

	text = palloc(TIMESTAMP_LEN);
	if (TIMESTAMP_NOT_FINITE(timestamp))
	{
		p = text + sprintf(text, "%s%c%s",
						   TIMESTAMP_IS_NOEND(timestamp) ? "9999-12-31" : "0000-01-01",
						   separator,
						   TIMESTAMP_IS_NOEND(timestamp) ? "23:59:59" : "00:00:00");
		p = append_fraction(p, 0, conversion->iso8601, conversion->fraction_digits);
	}
	else
	{
		if (timestamp2tm(timestamp, NULL, &tm, &fraction, NULL, NULL) != 0)
			ereport(ERROR,
					(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
					 errmsg("timestamp out of range")));
		if (tm.tm_year <= 0 || tm.tm_year > 9999)
			return value_null();
		p = text + sprintf(text, "%04d-%02d-%02d%c%02d:%02d:%02d",
						   tm.tm_year, tm.tm_mon, tm.tm_mday, separator,
						   tm.tm_hour, tm.tm_min, tm.tm_sec);
		p = append_fraction(p, fraction, conversion->iso8601, conversion->fraction_digits);
	}
	if (with_zone)
		*p++ = 'Z';
	return value_text(text, p - text);
}

static SyncValue
date_value(DateADT date)
{
	struct pg_tm tm;
	char	   *text;

	if (DATE_IS_NOEND(date))
		return value_text("9999-12-31", 10);
	if (DATE_IS_NOBEGIN(date))
		return value_text("0000-01-01", 10);
	memset(&tm, 0, sizeof(tm));
	j2date(date + POSTGRES_EPOCH_JDATE, &tm.tm_year, &tm.tm_mon, &tm.tm_mday);
	text = palloc(MAXDATELEN + 1);
	EncodeDateOnly(&tm, USE_ISO_DATES, text);
	return value_text(text, strlen(text));
}

static SyncValue
time_value(const RowConversion *conversion, TimeADT time)
{
	struct pg_tm tm;
	fsec_t		fraction;
	char	   *text = palloc(TIMESTAMP_LEN);
	char	   *p;

	time2tm(time, &tm, &fraction);
	p = text + sprintf(text, "%02d:%02d:%02d", tm.tm_hour, tm.tm_min, tm.tm_sec);
	p = append_fraction(p, fraction, conversion->iso8601, conversion->fraction_digits);
	return value_text(text, p - text);
}

/* ---------------------------------------------------------------- values */

/*
 * The text of a value by its type's output function.  Code that is not built
 * in runs with the table owner's rights only.
 */
static SyncValue
output_value(const RowConversion *conversion, const ColumnConversion *column, Datum datum)
{
	char	   *text;

	if (column->output_is_builtin)
		text = OidOutputFunctionCall(column->output_function, datum);
	else
	{
		Oid			user;
		int			security_context;

		GetUserIdAndSecContext(&user, &security_context);
		SetUserIdAndSecContext(conversion->owner,
							   security_context | SECURITY_RESTRICTED_OPERATION);
		text = OidOutputFunctionCall(column->output_function, datum);
		SetUserIdAndSecContext(user, security_context);
	}
	return value_text(text, strlen(text));
}

static SyncValue
varlena_text(Datum datum)
{
	struct varlena *text = PG_DETOAST_DATUM_PACKED(datum);

	return value_text(VARDATA_ANY(text), VARSIZE_ANY_EXHDR(text));
}

static SyncValue array_value(const RowConversion *conversion, const ColumnConversion *column,
							 Datum datum, SyncArena *scratch);

static SyncValue
datum_value(const RowConversion *conversion, const ColumnConversion *column, Datum datum,
			SyncArena *scratch)
{
	switch (column->kind)
	{
		case CONVERT_BOOL:
			return value_integer(DatumGetBool(datum) ? 1 : 0);
		case CONVERT_INT2:
			return value_integer(DatumGetInt16(datum));
		case CONVERT_INT4:
			return value_integer(DatumGetInt32(datum));
		case CONVERT_INT8:
			return value_integer(DatumGetInt64(datum));
		case CONVERT_OID:
			return value_integer(DatumGetObjectId(datum));
		case CONVERT_FLOAT4:
			{
				/* the service reads the printed text: 0.1, not 0.10000000149 */
				char		text[FLOAT_SHORTEST_DECIMAL_LEN];
				float4		value = DatumGetFloat4(datum);

				if (isnan(value) || isinf(value))
					return value_real(value);
				float_to_shortest_decimal_buf(value, text);
				return value_real(strtod(text, NULL));
			}
		case CONVERT_FLOAT8:
			return value_real(DatumGetFloat8(datum));
		case CONVERT_TEXT:
			return varlena_text(datum);
		case CONVERT_JSONB:
			{
				Jsonb	   *jsonb = DatumGetJsonbP(datum);
				char	   *text = JsonbToCString(NULL, &jsonb->root, VARSIZE(jsonb));

				return value_text(text, strlen(text));
			}
		case CONVERT_UUID:
			{
				static const char hex[] = "0123456789abcdef";
				const pg_uuid_t *uuid = DatumGetUUIDP(datum);
				char	   *text = palloc(2 * UUID_LEN + 4);
				char	   *p = text;

				for (int i = 0; i < UUID_LEN; i++)
				{
					if (i == 4 || i == 6 || i == 8 || i == 10)
						*p++ = '-';
					*p++ = hex[uuid->data[i] >> 4];
					*p++ = hex[uuid->data[i] & 15];
				}
				return value_text(text, p - text);
			}
		case CONVERT_TIMESTAMP:
			return timestamp_value(conversion, DatumGetTimestamp(datum), false);
		case CONVERT_TIMESTAMPTZ:
			return timestamp_value(conversion, DatumGetTimestampTz(datum), true);
		case CONVERT_DATE:
			return date_value(DatumGetDateADT(datum));
		case CONVERT_TIME:
			return time_value(conversion, DatumGetTimeADT(datum));
		case CONVERT_BYTEA:
			{
				struct varlena *bytes = PG_DETOAST_DATUM_PACKED(datum);

				return value_blob(VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes));
			}
		case CONVERT_LSN:
			{
				XLogRecPtr	lsn = DatumGetLSN(datum);
				char	   *text = psprintf("%08X/%08X", LSN_FORMAT_ARGS(lsn));

				return value_text(text, strlen(text));
			}
		case CONVERT_ARRAY:
			return array_value(conversion, column, datum, scratch);
		default:
			return output_value(conversion, column, datum);
	}
}

/*
 * Elements of one dimension, from *next on (sync-rules.md, 10.2).
 */
static void
append_dimension(const RowConversion *conversion, const ColumnConversion *element,
				 const int *dims, int ndim, Datum **next_datum, bool **next_null,
				 SyncBuffer *buffer, SyncArena *scratch)
{
	check_stack_depth();
	buffer_append_char(buffer, '[');
	for (int i = 0; i < dims[0]; i++)
	{
		if (i > 0)
			buffer_append_char(buffer, ',');
		if (ndim > 1)
		{
			append_dimension(conversion, element, dims + 1, ndim - 1, next_datum, next_null,
							 buffer, scratch);
			continue;
		}
		if (**next_null)
			buffer_append(buffer, "null", 4);
		else
		{
			SyncValue	value = datum_value(conversion, element, **next_datum, scratch);

			/* blobs have no JSON; json and jsonb are embedded as they are printed */
			if (value.type == SYNC_BLOB)
				buffer_append(buffer, "null", 4);
			else if (element->type == JSONOID || element->type == JSONBOID)
				buffer_append(buffer, value.data, value.len);
			else
				json_append_value(buffer, value);
		}
		(*next_datum)++;
		(*next_null)++;
	}
	buffer_append_char(buffer, ']');
}

static SyncValue
array_value(const RowConversion *conversion, const ColumnConversion *column, Datum datum,
			SyncArena *scratch)
{
	ArrayType  *array = DatumGetArrayTypeP(datum);
	int16		typlen;
	bool		typbyval;
	char		typalign;
	Datum	   *datums;
	bool	   *nulls;
	int			count;
	SyncBuffer	buffer;
	SyncString	text;

	buffer_init(&buffer, scratch, 64);
	if (ARR_NDIM(array) == 0)
		buffer_append(&buffer, "[]", 2);
	else
	{
		get_typlenbyvalalign(ARR_ELEMTYPE(array), &typlen, &typbyval, &typalign);
		deconstruct_array(array, ARR_ELEMTYPE(array), typlen, typbyval, typalign,
						  &datums, &nulls, &count);
		append_dimension(conversion, column->element, ARR_DIMS(array), ARR_NDIM(array),
						 &datums, &nulls, &buffer, scratch);
	}
	text = buffer_string(&buffer);
	return value_text(text.data, text.len);
}

/* ---------------------------------------------------------------- rows */

static inline bool
is_unchanged_external(const ColumnConversion *column, Datum datum, bool in_stream)
{
	return in_stream && column->typlen == -1 &&
		VARATT_IS_EXTERNAL_ONDISK(DatumGetPointer(datum));
}

/*
 * The least that an array's JSON can have: its nulls take a bit each where they
 * are stored, but five bytes there.  Only the array's head is detoasted.
 */
static Size
array_json_size(Datum datum)
{
	struct varlena *head = PG_DETOAST_DATUM_SLICE(datum, 0, (int32) (sizeof(ArrayType) +
																	 2 * MAXDIM * sizeof(int)));
	ArrayType  *array = (ArrayType *) head;
	int			ndim;

	if (VARSIZE(head) < sizeof(ArrayType))
		return 0;
	ndim = ARR_NDIM(array);
	if (ndim <= 0 || ndim > MAXDIM)
		return 0;
	return (Size) ArrayGetNItems(ndim, ARR_DIMS(array)) * 5;
}

/* Bytes of a value as it would be after detoasting. */
static inline Size
value_size(const ColumnConversion *column, Datum datum)
{
	if (column->kind == CONVERT_ARRAY)
		return Max(toast_raw_datum_size(datum), array_json_size(datum));
	if (column->typlen == -1)
		return toast_raw_datum_size(datum);
	if (column->typlen == -2)
		return strlen(DatumGetCString(datum)) + 1;
	return column->typlen;
}

RowValueResult
row_convert(const RowConversion *conversion, const Datum *datums, const bool *nulls,
			const Datum *old_datums, const bool *old_nulls, Size limit, bool in_stream,
			SyncArena *scratch, SyncValue *values, bool *out_of_line)
{
	RowValueResult result = ROW_COMPLETE;
	Size		size = 0;

	*out_of_line = false;
	/* sizes first: a row over the limit must not be detoasted to learn that */
	for (int i = 0; i < conversion->count; i++)
	{
		const ColumnConversion *column = &conversion->columns[i];
		int			a = column->attnum - 1;
		Datum		datum = datums[a];

		if (nulls[a])
			continue;
		if (is_unchanged_external(column, datum, in_stream))
		{
			if (old_datums == NULL || old_nulls[a] ||
				is_unchanged_external(column, old_datums[a], in_stream))
				continue;
			datum = old_datums[a];
		}
		size += value_size(column, datum);
	}
	if (size > limit)
		return ROW_TOO_LARGE;

	for (int i = 0; i < conversion->count; i++)
	{
		const ColumnConversion *column = &conversion->columns[i];
		int			a = column->attnum - 1;
		Datum		datum = datums[a];

		if (nulls[a])
		{
			values[i] = value_null();
			continue;
		}
		if (column->typlen == -1 && VARATT_IS_EXTERNAL(DatumGetPointer(datum)))
			*out_of_line = true;
		if (is_unchanged_external(column, datum, in_stream))
		{
			if (old_datums == NULL || old_nulls[a] ||
				is_unchanged_external(column, old_datums[a], in_stream))
			{
				values[i] = (SyncValue) {.type = SYNC_UNDEFINED};
				result = ROW_INCOMPLETE;
				continue;
			}
			datum = old_datums[a];
		}
		values[i] = datum_value(conversion, column, datum, scratch);
	}
	return result;
}

bool
row_convert_some(const RowConversion *conversion, const Datum *datums, const bool *nulls,
				 const int *positions, int count, Size limit, SyncArena *scratch,
				 SyncValue *values)
{
	Size		size = 0;

	for (int i = 0; i < count; i++)
	{
		const ColumnConversion *column = &conversion->columns[positions[i]];

		if (!nulls[column->attnum - 1])
			size += value_size(column, datums[column->attnum - 1]);
	}
	if (size > limit)
		return false;
	for (int i = 0; i < count; i++)
	{
		const ColumnConversion *column = &conversion->columns[positions[i]];
		int			a = column->attnum - 1;

		values[positions[i]] = nulls[a] ? value_null() :
			datum_value(conversion, column, datums[a], scratch);
	}
	return true;
}
