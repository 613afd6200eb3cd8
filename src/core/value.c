/*-------------------------------------------------------------------------
 *
 * value.c
 *	  What can be done with one or two values: sync-rules.md, section 5.
 *
 * Does not know expressions, functions or JSON.
 *
 * Invariant: a SYNC_TEXT result is WTF-8 (see text.h); no integer is ever
 * rounded unless it meets a real.
 *
 *-------------------------------------------------------------------------
 */
#include <math.h>
#include <string.h>

#include "number.h"
#include "text.h"
#include "value.h"

static inline SyncString
value_bytes(SyncValue value)
{
	return (SyncString) {value.data, value.len};
}

static inline bool
is_integer(SyncValue value)
{
	return value.type == SYNC_INTEGER || value.type == SYNC_BIGINT;
}

SyncString
value_to_text(SyncValue value, SyncArena *arena)
{
	SyncBuffer	buffer;

	switch (value.type)
	{
		case SYNC_INTEGER:
			buffer_init(&buffer, arena, 20);
			buffer_append_int(&buffer, value.integer);
			return buffer_string(&buffer);
		case SYNC_REAL:
			{
				char	   *text = arena_alloc(arena, NUMBER_TEXT_LEN);

				return (SyncString) {text, (uint32_t) number_to_text(value.real, text)};
			}
		case SYNC_BIGINT:
		case SYNC_TEXT:
		case SYNC_JSON:
			return value_bytes(value);
		case SYNC_BLOB:
			return text_from_bytes(value.data, value.len, arena);
		case SYNC_UNDEFINED:
		case SYNC_NULL:
			break;
	}
	return sync_string_literal("");
}

bool
value_is_true(SyncValue value)
{
	switch (value.type)
	{
		case SYNC_INTEGER:
			return value.integer != 0;
		case SYNC_BIGINT:
			return true;
		case SYNC_REAL:
			return value.real != 0 && !isnan(value.real);
		case SYNC_TEXT:
			return number_parse_int_truth(value.data, value.len);
		case SYNC_UNDEFINED:
		case SYNC_NULL:
		case SYNC_BLOB:
		case SYNC_JSON:
			break;
	}
	return false;
}

/* ---------------------------------------------------------------- comparison */

/* order of the classes: NULL < number < text < blob */
static int
value_class(SyncValue value)
{
	switch (value.type)
	{
		case SYNC_UNDEFINED:
		case SYNC_NULL:
			return 0;
		case SYNC_INTEGER:
		case SYNC_BIGINT:
		case SYNC_REAL:
			return 1;
		case SYNC_TEXT:
		case SYNC_JSON:
			return 2;
		case SYNC_BLOB:
			break;
	}
	return 3;
}

static int
compare_numbers(SyncValue a, SyncValue b)
{
	if (is_integer(a) && is_integer(b))
		return integer_compare(a, b);
	if ((a.type == SYNC_REAL && isnan(a.real)) || (b.type == SYNC_REAL && isnan(b.real)))
		return -1;
	if (a.type == SYNC_REAL && b.type == SYNC_REAL)
		return (a.real > b.real) - (a.real < b.real);
	if (a.type == SYNC_REAL)
		return -integer_compare_double(b, a.real);
	return integer_compare_double(a, b.real);
}

bool
value_compare(SyncValue a, SyncValue b, int *order, SyncError *error)
{
	int			left = value_class(a);
	int			right = value_class(b);

	if (left != right)
	{
		*order = left < right ? -1 : 1;
		return true;
	}
	switch (left)
	{
		case 0:
			*order = 0;
			return true;
		case 1:
			*order = compare_numbers(a, b);
			return true;
		case 2:
			*order = text_compare(value_bytes(a), value_bytes(b));
			return true;
		default:
			sync_error_set(error, SYNC_ERROR_VALUE, "two blobs cannot be compared");
			return false;
	}
}

bool
value_compare_operator(ValueComparison op, SyncValue a, SyncValue b,
					   SyncValue *result, SyncError *error)
{
	int			order;
	bool		holds = false;

	if (value_is_null(a) || value_is_null(b))
	{
		*result = value_null();
		return true;
	}
	if (!value_compare(a, b, &order, error))
		return false;
	switch (op)
	{
		case VALUE_EQ:
			holds = order == 0;
			break;
		case VALUE_NE:
			holds = order != 0;
			break;
		case VALUE_LT:
			holds = order < 0;
			break;
		case VALUE_LE:
			holds = order <= 0;
			break;
		case VALUE_GT:
			holds = order > 0;
			break;
		case VALUE_GE:
			holds = order >= 0;
			break;
	}
	*result = value_boolean(holds);
	return true;
}

bool
value_is(SyncValue a, SyncValue b, SyncValue *result, SyncError *error)
{
	int			order;

	if (!value_compare(a, b, &order, error))
		return false;
	*result = value_boolean(order == 0);
	return true;
}

/* ---------------------------------------------------------------- arithmetic */

/* as CAST AS numeric; never fails */
static SyncValue
to_numeric(SyncValue value, SyncArena *arena)
{
	SyncString	text;
	DecimalPrefix prefix;

	if (value_class(value) == 1)
		return value;
	text = value_to_text(value, arena);
	prefix = number_scan(text.data, text.len);
	if (prefix.len == 0)
		return value_integer(0);
	text.data += prefix.start;
	text.len = (uint32_t) (prefix.len - prefix.start);
	if (prefix.is_integer)
		return integer_from_digits(text.data, text.len, arena);
	return value_real(number_parse(text.data, text.len));
}

static double
to_double(SyncValue number)
{
	return number.type == SYNC_REAL ? number.real : integer_to_double(number);
}

static bool
is_zero(SyncValue number)
{
	if (number.type == SYNC_REAL)
		return number.real == 0;
	return number.type == SYNC_INTEGER && number.integer == 0;
}

bool
value_arithmetic(char op, SyncValue a, SyncValue b, SyncArena *arena,
				 SyncValue *result, SyncError *error)
{
	double		x;
	double		y;

	*result = value_null();
	if (value_is_null(a) || value_is_null(b))
		return true;
	a = to_numeric(a, arena);
	b = to_numeric(b, arena);
	if (op == '/' && is_zero(b))
		return true;
	if (is_integer(a) && is_integer(b))
		return integer_arithmetic(op, a, b, arena, result, error);

	x = to_double(a);
	y = to_double(b);
	switch (op)
	{
		case '+':
			x += y;
			break;
		case '-':
			x -= y;
			break;
		case '*':
			x *= y;
			break;
		default:
			x /= y;
			break;
	}
	*result = value_real(x);
	return true;
}

SyncValue
value_concat(SyncValue a, SyncValue b, SyncArena *arena)
{
	SyncString	left;
	SyncString	right;
	SyncBuffer	buffer;

	if (value_is_null(a) || value_is_null(b))
		return value_null();
	left = value_to_text(a, arena);
	right = value_to_text(b, arena);
	buffer_init(&buffer, arena, (size_t) left.len + right.len);
	buffer_append(&buffer, left.data, left.len);
	text_append(&buffer, right.data, right.len);
	return value_string(buffer_string(&buffer));
}

/* ---------------------------------------------------------------- casts */

static bool
cast_integer(SyncValue value, SyncArena *arena, SyncValue *result, SyncError *error)
{
	SyncString	text;
	size_t		start;
	size_t		end;

	if (is_integer(value))
	{
		*result = value;
		return true;
	}
	if (value.type == SYNC_REAL)
	{
		if (!isfinite(value.real))
		{
			sync_error_set(error, SYNC_ERROR_VALUE,
						   "a number that is not finite cannot become an integer");
			return false;
		}
		*result = integer_from_double(floor(value.real), arena);
		return true;
	}
	text = value_to_text(value, arena);
	start = text_skip_space(text.data, text.len);
	end = start;
	if (end < text.len && (text.data[end] == '+' || text.data[end] == '-'))
		end++;
	while (end < text.len && text.data[end] >= '0' && text.data[end] <= '9')
		end++;
	*result = integer_from_digits(text.data + start, end - start, arena);
	return true;
}

bool
value_cast(ValueCast target, SyncValue value, SyncArena *arena,
		   SyncValue *result, SyncError *error)
{
	SyncString	text;

	*result = value_null();
	if (value_is_null(value))
		return true;
	switch (target)
	{
		case VALUE_CAST_TEXT:
			*result = value_string(value_to_text(value, arena));
			return true;
		case VALUE_CAST_NUMERIC:
			*result = to_numeric(value, arena);
			return true;
		case VALUE_CAST_INTEGER:
			return cast_integer(value, arena, result, error);
		case VALUE_CAST_REAL:
			if (value_class(value) == 1)
				*result = value_real(to_double(value));
			else
			{
				text = value_to_text(value, arena);
				*result = value_real(number_parse_float(text.data, text.len));
			}
			return true;
		case VALUE_CAST_BLOB:
			if (value.type == SYNC_BLOB)
				*result = value;
			else
			{
				text = text_well_formed(value_to_text(value, arena), arena);
				*result = value_blob(text.data, text.len);
			}
			return true;
	}
	return true;
}

/* ---------------------------------------------------------------- keys */

SyncValue
value_normalize_lookup(SyncValue value, SyncArena *arena)
{
	if (value.type == SYNC_REAL && isfinite(value.real) && value.real == trunc(value.real))
		return integer_from_double(value.real, arena);
	return value;
}

bool
value_identical(SyncValue a, SyncValue b)
{
	if (a.type != b.type)
		return false;
	switch (a.type)
	{
		case SYNC_UNDEFINED:
		case SYNC_NULL:
			return true;
		case SYNC_INTEGER:
			return a.integer == b.integer;
		case SYNC_REAL:
			return a.real == b.real || (isnan(a.real) && isnan(b.real));
		case SYNC_BIGINT:
		case SYNC_TEXT:
		case SYNC_BLOB:
		case SYNC_JSON:
			break;
	}
	return sync_string_equal(value_bytes(a), value_bytes(b));
}

/* JavaScript's Number(text); *number false when it is NaN */
static SyncValue
text_to_number(SyncString text, bool *is_number)
{
	size_t		start = text_skip_space(text.data, text.len);
	const char *s = text.data + start;
	size_t		len = text.len - start;
	DecimalPrefix prefix;

	*is_number = true;
	if (len == 0)
		return value_integer(0);
	prefix = number_scan(s, len);
	if (prefix.len > 0 && prefix.len + text_skip_space(s + prefix.len, len - prefix.len) == len)
		return value_real(number_parse(s, prefix.len));
	*is_number = false;
	return value_null();
}

/* numbers as they are; JSON true and false as 1 and 0; texts by their number */
static bool
loose_number(SyncValue value, SyncValue *number)
{
	bool		is_number = true;

	if (value_class(value) == 1)
		*number = value;
	else if (value.type == SYNC_TEXT)
		*number = text_to_number(value_bytes(value), &is_number);
	else if (value.type == SYNC_JSON && value.len == 4 && memcmp(value.data, "true", 4) == 0)
		*number = value_integer(1);
	else if (value.type == SYNC_JSON && value.len == 5 && memcmp(value.data, "false", 5) == 0)
		*number = value_integer(0);
	else
		is_number = false;
	return is_number;
}

bool
value_loosely_equal(SyncValue a, SyncValue b)
{
	SyncValue	x;
	SyncValue	y;

	if (value_is_null(a) || value_is_null(b))
		return value_is_null(a) && value_is_null(b);
	if (a.type == SYNC_TEXT && b.type == SYNC_TEXT)
		return sync_string_equal(value_bytes(a), value_bytes(b));
	return loose_number(a, &x) && loose_number(b, &y) && compare_numbers(x, y) == 0;
}
