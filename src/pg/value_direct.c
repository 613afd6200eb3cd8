/*-------------------------------------------------------------------------
 *
 * value_direct.c
 *	  Values of common types from their internal form, without their output
 *	  functions: the hot part of a row's way.
 *
 * Everything comes out as the service makes it of the printed text
 * (sync-rules.md, 10.1 to 10.3).  What a type's output function does beyond that
 * (the session's formats, its time zone) has no place here.
 *
 *-------------------------------------------------------------------------
 */
#include "value.h"

#include <math.h>

#include "access/detoast.h"
#include "access/htup_details.h"
#include "access/tupmacs.h"
#include "catalog/pg_type.h"
#include "common/shortest_dec.h"
#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/date.h"
#include "utils/datetime.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
#include "utils/multirangetypes.h"
#include "utils/numeric.h"
#include "utils/pg_lsn.h"
#include "utils/rangetypes.h"
#include "utils/timestamp.h"
#include "utils/typcache.h"
#include "utils/uuid.h"
#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

#include "core/json.h"

/* longest text of a timestamp of ours, with room */
#define TIMESTAMP_LEN		64

/* ---------------------------------------------------------------- times */

static inline char *
append_two_digits(char *p, int number)
{
	*p++ = (char) ('0' + number / 10);
	*p++ = (char) ('0' + number % 10);
	return p;
}

static char *
append_year(char *p, int year)
{
	if (year > 9999)
		return p + sprintf(p, "%d", year);
	return append_two_digits(append_two_digits(p, year / 100), year % 100);
}

static char *
append_clock(char *p, const struct pg_tm *tm)
{
	p = append_two_digits(p, tm->tm_hour);
	*p++ = ':';
	p = append_two_digits(p, tm->tm_min);
	*p++ = ':';
	return append_two_digits(p, tm->tm_sec);
}

/*
 * Fraction of a second.  As printed: without trailing zeros, nothing if zero;
 * with iso8601: exactly the digits asked for, cut and not rounded.
 */
static char *
append_fraction(char *p, fsec_t fraction, const RowConversion *conversion)
{
	int			digits = 6;

	if (conversion->iso8601)
		digits = conversion->fraction_digits;
	else
		while (digits > 0 && fraction % 10 == 0)
		{
			fraction /= 10;
			digits--;
		}
	if (digits == 0)
		return p;
	for (int i = 6; conversion->iso8601 && i > digits; i--)
		fraction /= 10;
	*p++ = '.';
	for (int i = digits - 1; i >= 0; i--)
	{
		p[i] = (char) ('0' + fraction % 10);
		fraction /= 10;
	}
	return p + digits;
}

/*
 * sync-rules.md, 10.3.  NULL for what the service cannot read: years before
 * Christ, and with a zone years of five digits.  The session's zone is never used:
 * a timestamptz is shown in UTC.
 */
static SyncValue
timestamp_value(const RowConversion *conversion, Timestamp timestamp, bool with_zone,
				SyncArena *scratch)
{
	struct pg_tm tm;
	fsec_t		fraction;
	char	   *text;
	char	   *p;
	char		separator = conversion->iso8601 ? 'T' : ' ';

	text = arena_alloc(scratch, TIMESTAMP_LEN);
	if (TIMESTAMP_NOT_FINITE(timestamp))
	{
		p = text + sprintf(text, "%s%c%s",
						   TIMESTAMP_IS_NOEND(timestamp) ? "9999-12-31" : "0000-01-01",
						   separator,
						   TIMESTAMP_IS_NOEND(timestamp) ? "23:59:59" : "00:00:00");
		fraction = 0;
	}
	else
	{
		if (timestamp2tm(timestamp, NULL, &tm, &fraction, NULL, NULL) != 0)
			ereport(ERROR,
					(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
					 errmsg("timestamp out of range")));
		if (tm.tm_year <= 0 || (with_zone && tm.tm_year > 9999))
			return value_null();
		p = append_year(text, tm.tm_year);
		*p++ = '-';
		p = append_two_digits(p, tm.tm_mon);
		*p++ = '-';
		p = append_two_digits(p, tm.tm_mday);
		*p++ = separator;
		p = append_clock(p, &tm);
	}
	p = append_fraction(p, fraction, conversion);
	if (with_zone)
		*p++ = 'Z';
	return value_text(text, p - text);
}

static SyncValue
date_value(DateADT date, SyncArena *scratch)
{
	struct pg_tm tm;
	char	   *text;

	if (DATE_IS_NOEND(date))
		return value_text("9999-12-31", 10);
	if (DATE_IS_NOBEGIN(date))
		return value_text("0000-01-01", 10);
	memset(&tm, 0, sizeof(tm));
	j2date(date + POSTGRES_EPOCH_JDATE, &tm.tm_year, &tm.tm_mon, &tm.tm_mday);
	text = arena_alloc(scratch, MAXDATELEN + 1);
	EncodeDateOnly(&tm, USE_ISO_DATES, text);
	return value_text(text, strlen(text));
}

static SyncValue
time_value(const RowConversion *conversion, TimeADT time, SyncArena *scratch)
{
	struct pg_tm tm;
	fsec_t		fraction;
	char	   *text = arena_alloc(scratch, TIMESTAMP_LEN);
	char	   *p;

	time2tm(time, &tm, &fraction);
	p = append_clock(text, &tm);
	p = append_fraction(p, fraction, conversion);
	return value_text(text, p - text);
}

/* ---------------------------------------------------------------- scalars */

static SyncValue
varlena_text(Datum datum)
{
	struct varlena *text = PG_DETOAST_DATUM_PACKED(datum);

	return value_text(VARDATA_ANY(text), VARSIZE_ANY_EXHDR(text));
}

static SyncValue
uuid_value(Datum datum, SyncArena *scratch)
{
	static const char hex[] = "0123456789abcdef";
	const pg_uuid_t *uuid = DatumGetUUIDP(datum);
	char	   *text = arena_alloc(scratch, 2 * UUID_LEN + 4);
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

static SyncValue
float4_value(float4 number)
{
	char		text[FLOAT_SHORTEST_DECIMAL_LEN];

	/* the service reads the printed text: 0.1, not 0.10000000149 */
	if (isnan(number) || isinf(number))
		return value_real(number);
	float_to_shortest_decimal_buf(number, text);
	return value_real(strtod(text, NULL));
}

static SyncValue array_value(const RowConversion *conversion, const ColumnConversion *column,
							 Datum datum, SyncArena *scratch);

SyncValue
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
			return float4_value(DatumGetFloat4(datum));
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
			return uuid_value(datum, scratch);
		case CONVERT_TIMESTAMP:
			return timestamp_value(conversion, DatumGetTimestamp(datum), false, scratch);
		case CONVERT_TIMESTAMPTZ:
			return timestamp_value(conversion, DatumGetTimestampTz(datum), true, scratch);
		case CONVERT_DATE:
			return date_value(DatumGetDateADT(datum), scratch);
		case CONVERT_TIME:
			return time_value(conversion, DatumGetTimeADT(datum), scratch);
		case CONVERT_BYTEA:
			{
				struct varlena *bytes = PG_DETOAST_DATUM_PACKED(datum);

				return value_blob(VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes));
			}
		case CONVERT_LSN:
			{
				char	   *text = arena_printf(scratch, "%08X/%08X",
												LSN_FORMAT_ARGS(DatumGetLSN(datum)));

				return value_text(text, 17);
			}
		case CONVERT_ARRAY:
			return array_value(conversion, column, datum, scratch);
		default:
			return output_value(conversion, column, datum, scratch);
	}
}

/* ---------------------------------------------------------------- keys */

/* Is a part of the second, in microseconds, not in the text? */
static bool
is_cut(const RowConversion *conversion, int64 microseconds)
{
	int64		unit = 1;

	for (int i = conversion->fraction_digits; i < 6; i++)
		unit *= 10;
	return microseconds % unit != 0;
}

/*
 * Times are as they are converted, as long as they can be told apart by that; others
 * are numbers, which no text is.
 */
SyncValue
datum_key_value(const RowConversion *conversion, const ColumnConversion *column, Datum datum,
				SyncValue value)
{
	struct varlena *bytes;

	if (column->typlen == -1)
	{
		bytes = PG_DETOAST_DATUM_PACKED(datum);
		return value_blob(VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes));
	}
	switch (column->kind)
	{
		case CONVERT_TIMESTAMP:
		case CONVERT_TIMESTAMPTZ:
			if (value.type == SYNC_TEXT && !TIMESTAMP_NOT_FINITE(DatumGetTimestamp(datum)) &&
				!is_cut(conversion, DatumGetTimestamp(datum)))
				return value;
			return value_integer(DatumGetTimestamp(datum));
		case CONVERT_TIME:
			return is_cut(conversion, DatumGetTimeADT(datum)) ?
				value_integer(DatumGetTimeADT(datum)) : value;
		case CONVERT_DATE:
			return DATE_NOT_FINITE(DatumGetDateADT(datum)) ?
				value_integer(DatumGetDateADT(datum)) : value;
		default:
			/* printed as the name of what has this oid; domains over times are printed whole */
			return column->typlen == sizeof(Oid) ? value_integer(DatumGetObjectId(datum)) : value;
	}
}

/* ---------------------------------------------------------------- arrays */

/* an array being walked */
typedef struct ArrayWalk
{
	const RowConversion *conversion;
	const ColumnConversion *element;
	const char *data;			/* next element */
	const bits8 *nulls;			/* NULL: there are none */
	int			position;
	int16		typlen;
	bool		typbyval;
	char		typalign;
	SyncBuffer *buffer;
	SyncArena  *scratch;
} ArrayWalk;

static void
append_element(ArrayWalk *walk)
{
	int			i = walk->position++;
	Datum		datum;
	SyncValue	value;

	if (walk->nulls != NULL && (walk->nulls[i / 8] & (1 << (i % 8))) == 0)
	{
		buffer_append(walk->buffer, "null", 4);
		return;
	}
	datum = fetch_att(walk->data, walk->typbyval, walk->typlen);
	walk->data = att_addlength_pointer(walk->data, walk->typlen, walk->data);
	walk->data = (const char *) att_align_nominal(walk->data, walk->typalign);
	value = datum_value(walk->conversion, walk->element, datum, walk->scratch);
	/* blobs have no JSON; json and jsonb are embedded as they are printed */
	if (walk->element->type == JSONOID || walk->element->type == JSONBOID)
		buffer_append(walk->buffer, value.data, value.len);
	else
		json_append_value(walk->buffer, value);
}

/* sync-rules.md, 10.2; the server itself limits the number of dimensions to 6 */
static void
append_dimension(ArrayWalk *walk, const int *dims, int ndim)
{
	buffer_append_char(walk->buffer, '[');
	for (int i = 0; i < dims[0]; i++)
	{
		if (i > 0)
			buffer_append_char(walk->buffer, ',');
		if (ndim > 1)
			append_dimension(walk, dims + 1, ndim - 1);
		else
			append_element(walk);
	}
	buffer_append_char(walk->buffer, ']');
}

static SyncValue
array_value(const RowConversion *conversion, const ColumnConversion *column, Datum datum,
			SyncArena *scratch)
{
	ArrayType  *array = DatumGetArrayTypeP(datum);
	SyncBuffer	buffer;
	SyncString	text;
	ArrayWalk	walk = {.conversion = conversion, .element = column->element,.buffer = &buffer,
	.scratch = scratch};

	if (ARR_NDIM(array) == 0)
		return value_text("[]", 2);
	buffer_init(&buffer, scratch, 64);
	get_typlenbyvalalign(ARR_ELEMTYPE(array), &walk.typlen, &walk.typbyval, &walk.typalign);
	walk.data = ARR_DATA_PTR(array);
	walk.nulls = ARR_NULLBITMAP(array);
	append_dimension(&walk, ARR_DIMS(array), ARR_NDIM(array));
	text = buffer_string(&buffer);
	return value_text(text.data, text.len);
}

/* ---------------------------------------------------------------- sizes */

/* in so few bytes is nothing that matters: a hundred numerics at most */
#define SMALL_VALUE		1024

/* of a numeric's header (utils/adt/numeric.c, the format on disk) */
#define NUMERIC_HEADER_SHORT	0x8000
#define NUMERIC_HEADER_SPECIAL	0xC000

/*
 * Digits of a numeric: 1e100000 takes two bytes.  The zeros behind the last digit
 * and those of the scale are not in it.
 */
static Size
numeric_expansion(Datum datum)
{
	struct varlena *numeric = PG_DETOAST_DATUM_PACKED(datum);
	Size		len = VARSIZE_ANY_EXHDR(numeric);
	uint16		header;
	int			weight;
	int			scale;

	if (len < sizeof(header))
		return 0;
	memcpy(&header, VARDATA_ANY(numeric), sizeof(header));
	if ((header & NUMERIC_HEADER_SPECIAL) == NUMERIC_HEADER_SPECIAL)
		return 0;
	if (header & NUMERIC_HEADER_SHORT)
	{
		weight = (header & 0x003F) - (header & 0x0040);
		scale = (header & 0x1F80) >> 7;
	}
	else
	{
		int16		stored = 0;

		if (len >= 2 * sizeof(header))
			memcpy(&stored, VARDATA_ANY(numeric) + sizeof(header), sizeof(stored));
		weight = stored;
		scale = header & 0x3FFF;
	}
	return (Size) (Max(weight, 0) * 4 + scale);
}

static Size
jsonb_expansion(Datum datum)
{
	Jsonb	   *jsonb = DatumGetJsonbP(datum);
	JsonbIterator *iterator = JsonbIteratorInit(&jsonb->root);
	JsonbIteratorToken token;
	JsonbValue	value;
	Size		size = 0;

	while ((token = JsonbIteratorNext(&iterator, &value, false)) != WJB_DONE)
		if ((token == WJB_ELEM || token == WJB_VALUE) && value.type == jbvNumeric)
			size += numeric_expansion(NumericGetDatum(value.val.numeric));
	return size;
}

static Size type_expansion(Oid type, Datum datum);

/* no others hold what expands */
static bool
type_expands(Oid type)
{
	char		kind;

	type = getBaseType(type);
	kind = get_typtype(type);
	return kind == TYPTYPE_COMPOSITE || kind == TYPTYPE_RANGE || kind == TYPTYPE_MULTIRANGE ||
		type == NUMERICOID || type == JSONBOID ||
		(get_typlen(type) == -1 && OidIsValid(get_element_type(type)));
}

/* A null takes a bit, or nothing where there are many, and five bytes as text. */
static Size
null_expansion(ArrayType *array)
{
	int			count = ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array));
	const bits8 *bitmap = ARR_NULLBITMAP(array);
	Size		present;

	if (bitmap == NULL)
		return 0;
	present = pg_popcount((const char *) bitmap, count / 8);
	for (int i = count / 8 * 8; i < count; i++)
		present += (bitmap[i / 8] >> (i % 8)) & 1;
	return ((Size) count - present) * 5;
}

static Size
array_expansion(Datum datum)
{
	ArrayType  *array = DatumGetArrayTypeP(datum);
	Size		size = null_expansion(array);
	int16		typlen;
	bool		typbyval;
	char		typalign;
	Datum	   *datums;
	bool	   *nulls;
	int			count;

	if (!type_expands(ARR_ELEMTYPE(array)))
		return size;
	get_typlenbyvalalign(ARR_ELEMTYPE(array), &typlen, &typbyval, &typalign);
	deconstruct_array(array, ARR_ELEMTYPE(array), typlen, typbyval, typalign, &datums, &nulls,
					  &count);
	for (int i = 0; i < count; i++)
		if (!nulls[i])
			size += type_expansion(ARR_ELEMTYPE(array), datums[i]);
	pfree(datums);
	pfree(nulls);
	return size;
}

static Size
composite_expansion(Datum datum)
{
	HeapTupleHeader header = DatumGetHeapTupleHeader(datum);
	TupleDesc	desc = lookup_rowtype_tupdesc(HeapTupleHeaderGetTypeId(header),
											  HeapTupleHeaderGetTypMod(header));
	HeapTupleData tuple = {.t_len = HeapTupleHeaderGetDatumLength(header),.t_data = header};
	Datum	   *datums = palloc(sizeof(Datum) * Max(desc->natts, 1));
	bool	   *nulls = palloc(sizeof(bool) * Max(desc->natts, 1));
	Size		size = 0;

	heap_deform_tuple(&tuple, desc, datums, nulls);
	for (int i = 0; i < desc->natts; i++)
		if (!nulls[i] && !TupleDescAttr(desc, i)->attisdropped)
			size += type_expansion(TupleDescAttr(desc, i)->atttypid, datums[i]);
	pfree(datums);
	pfree(nulls);
	ReleaseTupleDesc(desc);
	return size;
}

static Size
bounds_expansion(TypeCacheEntry *type, const RangeType *range)
{
	RangeBound	lower;
	RangeBound	upper;
	bool		empty;
	Size		size = 0;

	range_deserialize(type, range, &lower, &upper, &empty);
	if (!empty && !lower.infinite)
		size += type_expansion(type->rngelemtype->type_id, lower.val);
	if (!empty && !upper.infinite)
		size += type_expansion(type->rngelemtype->type_id, upper.val);
	return size;
}

static Size
multirange_expansion(Oid type, Datum datum)
{
	TypeCacheEntry *ranges_type = lookup_type_cache(type, TYPECACHE_MULTIRANGE_INFO)->rngtype;
	RangeType **ranges;
	int32		count;
	Size		size = 0;

	if (!type_expands(ranges_type->rngelemtype->type_id))
		return 0;
	multirange_deserialize(ranges_type, DatumGetMultirangeTypeP(datum), &count, &ranges);
	for (int32 i = 0; i < count; i++)
		size += bounds_expansion(ranges_type, ranges[i]);
	return size;
}

static Size
type_expansion(Oid type, Datum datum)
{
	type = getBaseType(type);
	if (type == NUMERICOID)
		return numeric_expansion(datum);
	if (type == JSONBOID)
		return jsonb_expansion(datum);
	switch (get_typtype(type))
	{
		case TYPTYPE_COMPOSITE:
			return composite_expansion(datum);
		case TYPTYPE_RANGE:
			return bounds_expansion(lookup_type_cache(type, TYPECACHE_RANGE_INFO),
									DatumGetRangeTypeP(datum));
		case TYPTYPE_MULTIRANGE:
			return multirange_expansion(type, datum);
		default:
			return get_typlen(type) == -1 && OidIsValid(get_element_type(type)) ?
				array_expansion(datum) : 0;
	}
}

Size
datum_expansion(const ColumnConversion *column, Datum datum)
{
	if (column->type == NUMERICOID)
		return numeric_expansion(datum);
	if (column->too_deep || toast_raw_datum_size(datum) < SMALL_VALUE)
		return 0;
	return type_expansion(column->type, datum);
}
