/*-------------------------------------------------------------------------
 *
 * functions.c
 *	  The functions that queries can call: sync-rules.md, 6.1.
 *
 * Functions of JSON are thin wrappers around json.h; those of time and
 * geometry have files of their own.
 *
 * Invariant: a function never fails on a number of arguments: what is not
 * given is undefined, what is too much is ignored, as editions 1 and 2 want.
 * Positions and lengths of text are in UTF-16 code units.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include <unicode/ustring.h>

#include "expr.h"
#include "functions.h"
#include "json.h"
#include "number.h"
#include "report.h"
#include "text.h"

/* ---------------------------------------------------------------- UTF-16 */

typedef struct Utf16
{
	UChar	   *units;
	int32_t		len;
} Utf16;

static Utf16
utf16_from_text(SyncString text, SyncArena *arena)
{
	Utf16		result;
	size_t		at = 0;

	/* never more units than bytes */
	result.units = arena_alloc(arena, sizeof(UChar) * ((size_t) text.len + 1));
	result.len = 0;
	while (at < text.len)
	{
		int			size;
		uint32_t	c = text_code_point(text.data + at, text.len - at, &size);

		at += (size_t) size;
		if (c >= 0x10000)
		{
			result.units[result.len++] = (UChar) (0xD7C0 + (c >> 10));
			result.units[result.len++] = (UChar) (0xDC00 + (c & 0x3FF));
		}
		else
			result.units[result.len++] = (UChar) c;
	}
	return result;
}

static SyncValue
text_from_utf16(const UChar *units, int32_t len, SyncArena *arena)
{
	SyncBuffer	buffer;

	buffer_init(&buffer, arena, (size_t) len + 8);
	for (int32_t i = 0; i < len; i++)
	{
		uint32_t	c = units[i];

		if (c >= 0xD800 && c < 0xDC00 && i + 1 < len &&
			units[i + 1] >= 0xDC00 && units[i + 1] < 0xE000)
			c = 0x10000 + ((c - 0xD800) << 10) + (units[++i] - 0xDC00u);
		text_append_code_point(&buffer, c);
	}
	return value_text(buffer.data, buffer.len);
}

static bool
text_is_ascii(SyncString text)
{
	for (uint32_t i = 0; i < text.len; i++)
	{
		if ((unsigned char) text.data[i] >= 0x80)
			return false;
	}
	return true;
}

/* ---------------------------------------------------------------- text */

static SyncValue
change_ascii_case(SyncString text, bool upper, SyncArena *arena)
{
	char	   *result = arena_strndup(arena, text.data, text.len);

	for (uint32_t i = 0; i < text.len; i++)
	{
		if (upper && result[i] >= 'a' && result[i] <= 'z')
			result[i] = (char) (result[i] - 'a' + 'A');
		else if (!upper && result[i] >= 'A' && result[i] <= 'Z')
			result[i] = (char) (result[i] - 'A' + 'a');
	}
	return value_text(result, text.len);
}

/* ICU's full case mapping in the root locale: one character may become three */
static bool
change_case(ExprContext *context, SyncValue value, bool upper, SyncValue *result)
{
	SyncString	text;
	Utf16		source;
	UChar	   *target;
	int32_t		capacity;
	int32_t		len;
	UErrorCode	status = U_ZERO_ERROR;

	*result = value_null();
	if (value_is_null(value))
		return true;
	text = value_to_text(value, context->arena);
	if (text_is_ascii(text))
	{
		*result = change_ascii_case(text, upper, context->arena);
		return true;
	}
	if (text.len > INT32_MAX / 8)
	{
		sync_error_set(context->error, SYNC_ERROR_LIMIT, "the text is too long for %s()",
					   upper ? "upper" : "lower");
		return false;
	}
	source = utf16_from_text(text, context->arena);
	capacity = source.len * 3 + 1;
	target = arena_alloc(context->arena, sizeof(UChar) * (size_t) capacity);
	len = upper ? u_strToUpper(target, capacity, source.units, source.len, "", &status) :
		u_strToLower(target, capacity, source.units, source.len, "", &status);
	if (status == U_MEMORY_ALLOCATION_ERROR)
		arena_fail(context->arena);
	if (U_FAILURE(status))
	{
		sync_error_set(context->error, SYNC_ERROR_VALUE, "%s() failed: %s",
					   upper ? "upper" : "lower", u_errorName(status));
		return false;
	}
	*result = text_from_utf16(target, len, context->arena);
	return true;
}

static bool
function_upper(ExprContext *context, int arg_count, const SyncValue *args, SyncValue *result)
{
	(void) arg_count;
	return change_case(context, args[0], true, result);
}

static bool
function_lower(ExprContext *context, int arg_count, const SyncValue *args, SyncValue *result)
{
	(void) arg_count;
	return change_case(context, args[0], false, result);
}

/* a position or length: beyond any text's length the exact value does not matter */
static bool
integer_argument(ExprContext *context, SyncValue value, int64_t *result)
{
	const int64_t limit = INT64_C(1) << 40;
	SyncValue	integer;
	double		d;

	if (!value_cast(VALUE_CAST_INTEGER, value, context->arena, &integer, context->error))
		return false;
	d = integer_to_double(integer);
	*result = d > (double) limit ? limit : d < (double) -limit ? -limit : (int64_t) d;
	return true;
}

static int64_t
clamp(int64_t value, int64_t low, int64_t high)
{
	return value < low ? low : value > high ? high : value;
}

/* units from and up to `to`; may cut a pair in two */
static SyncValue
utf16_slice(SyncString text, int64_t from, int64_t to, SyncArena *arena)
{
	Utf16		units;

	if (text_is_ascii(text))
		return value_text(text.data + from, (size_t) (to - from));
	units = utf16_from_text(text, arena);
	/* the same count as the caller's, were the text ever no valid WTF-8 */
	to = clamp(to, 0, units.len);
	from = clamp(from, 0, to);
	return text_from_utf16(units.units + from, (int32_t) (to - from), arena);
}

static bool
function_substring(ExprContext *context, int arg_count, const SyncValue *args, SyncValue *result)
{
	SyncString	text;
	int64_t		n;
	int64_t		start;
	int64_t		from;
	int64_t		to;
	int64_t		len = 0;

	*result = value_null();
	/* a column that the row does not have is no argument; NULL is one */
	if (arg_count >= 3 && args[2].type == SYNC_UNDEFINED)
		arg_count = 2;
	if (value_is_null(args[0]) || value_is_null(args[1]) ||
		(arg_count >= 3 && value_is_null(args[2])))
		return true;
	if (!integer_argument(context, args[1], &start) ||
		(arg_count >= 3 && !integer_argument(context, args[2], &len)))
		return false;
	text = value_to_text(args[0], context->arena);
	n = (int64_t) text_utf16_length(text.data, text.len);
	from = start > 0 ? start - 1 : start == 0 ? 0 : clamp(n + start, 0, n);
	if (start == 0)
		len--;
	if (arg_count < 3)
		to = n;
	else
		to = from + len;
	from = clamp(from, 0, n);
	to = clamp(to, 0, n);
	*result = utf16_slice(text, from < to ? from : to, from < to ? to : from, context->arena);
	return true;
}

static bool
function_length(ExprContext *context, int arg_count, const SyncValue *args, SyncValue *result)
{
	SyncString	text;

	(void) arg_count;
	*result = value_null();
	if (value_is_null(args[0]))
		return true;
	if (args[0].type == SYNC_BLOB)
	{
		*result = value_integer(args[0].len);
		return true;
	}
	text = value_to_text(args[0], context->arena);
	*result = value_integer((int64_t) text_utf16_length(text.data, text.len));
	return true;
}

/* half of a pair that stands alone: then bytes cannot be compared */
static bool
has_lone_surrogate(SyncString text)
{
	for (uint32_t i = 0; i + 1 < text.len; i++)
	{
		if ((unsigned char) text.data[i] == 0xED && (unsigned char) text.data[i + 1] >= 0xA0)
			return true;
	}
	return false;
}

/* units of 1 or 2 bytes */
static inline uint32_t
unit_at(const void *s, int size, size_t i)
{
	return size == 1 ? ((const unsigned char *) s)[i] : ((const uint16_t *) s)[i];
}

/* Knuth, Morris and Pratt's: how much of a beginning is its own end, too */
static uint32_t *
search_table(const void *what, size_t len, int size, SyncArena *arena)
{
	uint32_t   *table = arena_alloc(arena, sizeof(uint32_t) * len);
	uint32_t	k = 0;

	table[0] = 0;
	for (size_t i = 1; i < len; i++)
	{
		while (k > 0 && unit_at(what, size, i) != unit_at(what, size, k))
			k = table[k - 1];
		if (unit_at(what, size, i) == unit_at(what, size, k))
			k++;
		table[i] = k;
	}
	return table;
}

/* longer ones are searched for in linear time: text against text could take hours otherwise */
#define PLAIN_SEARCH	32

/* units before the first occurrence, or -1; lengths in units, whose size is 1 or 2 bytes */
static int64_t
find_units(const void *s, size_t len, const void *what, size_t what_len, int size, SyncArena *arena)
{
	uint32_t   *table;
	size_t		k = 0;

	if (what_len == 0)
		return 0;
	if (what_len > len)
		return -1;
	if (what_len <= PLAIN_SEARCH)
	{
		for (size_t i = 0; i + what_len <= len; i++)
		{
			if (memcmp((const char *) s + i * (size_t) size, what, what_len * (size_t) size) == 0)
				return (int64_t) i;
		}
		return -1;
	}
	table = search_table(what, what_len, size, arena);
	for (size_t i = 0; i < len; i++)
	{
		while (k > 0 && unit_at(s, size, i) != unit_at(what, size, k))
			k = table[k - 1];
		if (unit_at(s, size, i) == unit_at(what, size, k) && ++k == what_len)
			return (int64_t) (i + 1 - what_len);
	}
	return -1;
}

static int64_t
find_bytes(SyncString s, SyncString what, SyncArena *arena)
{
	return find_units(s.data, s.len, what.data, what.len, 1, arena);
}

static int64_t
find_utf16(SyncString text, SyncString what, SyncArena *arena)
{
	Utf16		a = utf16_from_text(text, arena);
	Utf16		b = utf16_from_text(what, arena);

	return find_units(a.units, (size_t) a.len, b.units, (size_t) b.len, 2, arena);
}

static bool
function_instr(ExprContext *context, int arg_count, const SyncValue *args, SyncValue *result)
{
	SyncString	text;
	SyncString	what;
	int64_t		at;

	(void) arg_count;
	*result = value_null();
	if (value_is_null(args[0]) || value_is_null(args[1]))
		return true;
	if (args[0].type == SYNC_BLOB && args[1].type == SYNC_BLOB)
	{
		at = find_bytes((SyncString) {args[0].data, args[0].len},
						(SyncString) {args[1].data, args[1].len}, context->arena);
		*result = value_integer(at + 1);
		return true;
	}
	text = value_to_text(args[0], context->arena);
	what = value_to_text(args[1], context->arena);
	if (has_lone_surrogate(what))
		at = find_utf16(text, what, context->arena);
	else
	{
		at = find_bytes(text, what, context->arena);
		if (at > 0)
			at = (int64_t) text_utf16_length(text.data, (size_t) at);
	}
	*result = value_integer(at + 1);
	return true;
}

/* ---------------------------------------------------------------- bytes */

/* bytes of a blob, or of a value's text in UTF-8; nothing for NULL */
static SyncString
bytes_of(SyncValue value, SyncArena *arena)
{
	if (value.type == SYNC_BLOB)
		return (SyncString) {value.data, value.len};
	return text_well_formed(value_to_text(value, arena), arena);
}

static bool
function_hex(ExprContext *context, int arg_count, const SyncValue *args, SyncValue *result)
{
	static const char digits[] = "0123456789ABCDEF";
	SyncString	bytes = bytes_of(args[0], context->arena);
	char	   *text = arena_alloc(context->arena, 2 * (size_t) bytes.len + 1);

	(void) arg_count;
	for (uint32_t i = 0; i < bytes.len; i++)
	{
		text[2 * (size_t) i] = digits[(unsigned char) bytes.data[i] >> 4];
		text[2 * (size_t) i + 1] = digits[(unsigned char) bytes.data[i] & 15];
	}
	*result = value_text(text, 2 * (size_t) bytes.len);
	return true;
}

static bool
function_base64(ExprContext *context, int arg_count, const SyncValue *args, SyncValue *result)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	SyncString	bytes = bytes_of(args[0], context->arena);
	char	   *text = arena_alloc(context->arena, ((size_t) bytes.len + 2) / 3 * 4 + 1);
	size_t		len = 0;

	(void) arg_count;
	for (uint32_t i = 0; i < bytes.len; i += 3)
	{
		uint32_t	left = bytes.len - i;
		uint32_t	group = (uint32_t) (unsigned char) bytes.data[i] << 16;

		if (left > 1)
			group |= (uint32_t) (unsigned char) bytes.data[i + 1] << 8;
		if (left > 2)
			group |= (unsigned char) bytes.data[i + 2];
		text[len++] = digits[group >> 18];
		text[len++] = digits[group >> 12 & 63];
		text[len++] = left > 1 ? digits[group >> 6 & 63] : '=';
		text[len++] = left > 2 ? digits[group & 63] : '=';
	}
	*result = value_text(text, len);
	return true;
}

/* the 16 bytes of a UUID's text form, whatever its version */
static bool
uuid_parse(SyncString text, unsigned char bytes[16])
{
	int			digits = 0;

	if (text.len != 36)
		return false;
	for (int i = 0; i < 36; i++)
	{
		int			digit = hex_digit(text.data[i]);

		if (i == 8 || i == 13 || i == 18 || i == 23)
		{
			if (text.data[i] != '-')
				return false;
			continue;
		}
		if (digit < 0)
			return false;
		if (digits % 2 == 0)
			bytes[digits / 2] = (unsigned char) (digit << 4);
		else
			bytes[digits / 2] |= (unsigned char) digit;
		digits++;
	}
	return true;
}

static bool
uuid_is_valid(const unsigned char bytes[16])
{
	bool		all_zero = true;
	bool		all_one = true;
	int			version = bytes[6] >> 4;

	for (int i = 0; i < 16; i++)
	{
		all_zero &= bytes[i] == 0x00;
		all_one &= bytes[i] == 0xFF;
	}
	return all_zero || all_one || (version >= 1 && version <= 8 && bytes[8] >> 6 == 2);
}

static bool
function_uuid_blob(ExprContext *context, int arg_count, const SyncValue *args, SyncValue *result)
{
	unsigned char bytes[16];

	(void) arg_count;
	*result = value_null();
	if (value_is_null(args[0]))
		return true;
	if (!uuid_parse(value_to_text(args[0], context->arena), bytes) || !uuid_is_valid(bytes))
	{
		sync_error_set(context->error, SYNC_ERROR_VALUE, "uuid_blob() needs a UUID");
		return false;
	}
	*result = value_blob(arena_strndup(context->arena, (const char *) bytes, sizeof(bytes)),
						 sizeof(bytes));
	return true;
}

/* ---------------------------------------------------------------- any value */

static bool
function_typeof(ExprContext *context, int arg_count, const SyncValue *args, SyncValue *result)
{
	(void) context;
	(void) arg_count;
	switch (args[0].type)
	{
		case SYNC_UNDEFINED:
		case SYNC_NULL:
			*result = value_text("null", 4);
			return true;
		case SYNC_INTEGER:
		case SYNC_BIGINT:
			*result = value_text("integer", 7);
			return true;
		case SYNC_REAL:
			*result = value_text("real", 4);
			return true;
		case SYNC_TEXT:
		case SYNC_JSON:
			*result = value_text("text", 4);
			return true;
		case SYNC_BLOB:
			*result = value_text("blob", 4);
			return true;
	}
	return false;
}

static bool
function_ifnull(ExprContext *context, int arg_count, const SyncValue *args, SyncValue *result)
{
	(void) context;
	(void) arg_count;
	*result = value_is_null(args[0]) ? args[1] : args[0];
	return true;
}

static bool
function_iif(ExprContext *context, int arg_count, const SyncValue *args, SyncValue *result)
{
	(void) context;
	(void) arg_count;
	*result = value_is_true(args[0]) ? args[1] : args[2];
	return true;
}

/* ---------------------------------------------------------------- JSON */

static bool
function_json_extract(ExprContext *context, int arg_count, const SyncValue *args,
					  SyncValue *result)
{
	(void) arg_count;
	return json_get(JSON_EXTRACT, context->fixed_json, args[0], args[1], context->arena, result,
					context->error);
}

static bool
function_json_array_length(ExprContext *context, int arg_count, const SyncValue *args,
						   SyncValue *result)
{
	bool		has_path = arg_count >= 2 && !value_is_null(args[1]);

	return json_count_elements(context->fixed_json, args[0], has_path ? &args[1] : NULL,
							   context->arena, result, context->error);
}

static bool
function_json_keys(ExprContext *context, int arg_count, const SyncValue *args, SyncValue *result)
{
	(void) arg_count;
	return json_keys(args[0], context->arena, result, context->error);
}

static bool
function_json_valid(ExprContext *context, int arg_count, const SyncValue *args, SyncValue *result)
{
	(void) arg_count;
	*result = json_valid(args[0], context->arena);
	return true;
}

/* ---------------------------------------------------------------- table */

static const FunctionInfo functions[] = {
	{"upper", function_upper, 1, 1, false},
	{"lower", function_lower, 1, 1, false},
	{"substring", function_substring, 2, 3, false},
	{"hex", function_hex, 1, 1, false},
	{"base64", function_base64, 1, 1, false},
	{"length", function_length, 1, 1, false},
	{"uuid_blob", function_uuid_blob, 1, 1, false},
	{"typeof", function_typeof, 1, 1, false},
	{"ifnull", function_ifnull, 2, -1, false},
	{"iif", function_iif, 3, 3, false},
	{"instr", function_instr, 2, 2, false},
	{"json_extract", function_json_extract, 2, -1, false},
	{"json_array_length", function_json_array_length, 1, 2, false},
	{"json_keys", function_json_keys, 1, 1, false},
	{"json_valid", function_json_valid, 1, 1, true},
	{"unixepoch", function_unixepoch, 1, -1, false},
	{"datetime", function_datetime, 1, -1, false},
	{"st_asgeojson", function_st_asgeojson, 1, 1, false},
	{"st_astext", function_st_astext, 1, 1, false},
	{"st_x", function_st_x, 1, 1, false},
	{"st_y", function_st_y, 1, 1, false},
};

#define FUNCTION_COUNT	(sizeof(functions) / sizeof(functions[0]))

const FunctionInfo *
function_find(SyncString name)
{
	for (size_t i = 0; i < FUNCTION_COUNT; i++)
	{
		if (strlen(functions[i].name) == name.len &&
			memcmp(functions[i].name, name.data, name.len) == 0)
			return &functions[i];
	}
	return NULL;
}

const char *
function_suggest(SyncString name)
{
	const char *nearest = NULL;
	int			nearest_distance = 3;

	for (size_t i = 0; i < FUNCTION_COUNT; i++)
	{
		int			distance = report_distance(name, functions[i].name);

		if (distance < nearest_distance)
		{
			nearest = functions[i].name;
			nearest_distance = distance;
		}
	}
	return nearest;
}
