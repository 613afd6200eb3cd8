/*-------------------------------------------------------------------------
 *
 * integer.c
 *	  Integers of any size: INTEGER (64 bits) and BIGINT (decimal digits).
 *
 * GMP is used on its lowest level only, with all memory from the arena: its
 * ordinary interface ends the process when malloc fails.  For the same reason
 * decimal text is converted here, a limb's worth of digits at a time: GMP's own
 * conversion takes heap memory for long numbers.  Multiplication and division
 * keep their scratch space on the stack up to INTEGER_MAX_DIGITS.
 *
 * Invariant: a value that fits 64 bits is never a BIGINT, and a BIGINT's text
 * is canonical (no plus sign, no leading zero), so equal integers are equal
 * bytes.
 *
 *-------------------------------------------------------------------------
 */
#include <math.h>
#include <string.h>

#include <gmp.h>

#include "number.h"

_Static_assert(GMP_LIMB_BITS == 64, "64-bit limbs are expected");
_Static_assert(GMP_NAIL_BITS == 0, "limbs without nails are expected");

/* 2^63 */
#define INT64_BOUND 9223372036854775808.0

/* the largest power of ten in a limb */
#define CHUNK_DIGITS	19
#define CHUNK			UINT64_C(10000000000000000000)

/* sign and magnitude; no leading zero limbs, zero has none */
typedef struct Limbs
{
	bool		negative;
	mp_size_t	count;
	mp_limb_t  *limb;
} Limbs;

static SyncValue
bigint(const char *data, size_t len)
{
	return (SyncValue) {.type = SYNC_BIGINT, .len = (uint32_t) len, .data = data};
}

SyncValue
integer_from_digits(const char *s, size_t len, SyncArena *arena)
{
	bool		negative = len > 0 && s[0] == '-';
	size_t		i = len > 0 && (s[0] == '-' || s[0] == '+') ? 1 : 0;
	char	   *digits;

	while (i < len && s[i] == '0')
		i++;
	s += i;
	len -= i;
	if (len <= 19)
	{
		uint64_t	value = 0;
		uint64_t	limit = (uint64_t) INT64_MAX + (negative ? 1 : 0);

		for (i = 0; i < len; i++)
			value = value * 10 + (uint64_t) (s[i] - '0');
		if (value <= limit)
			return value_integer((int64_t) (negative ? 0 - value : value));
	}
	if (len >= UINT32_MAX)
		arena_fail(arena);
	digits = arena_alloc(arena, len + 1);
	digits[0] = '-';
	memcpy(digits + 1, s, len);
	return negative ? bigint(digits, len + 1) : bigint(digits + 1, len);
}

/* limbs of an INTEGER or BIGINT; the caller has checked the number of digits */
static Limbs
limbs_from_value(SyncValue value, SyncArena *arena)
{
	Limbs		result = {0};
	const char *s = value.data;
	size_t		len = value.len;
	size_t		n;

	if (value.type == SYNC_INTEGER)
	{
		result.limb = arena_alloc(arena, sizeof(mp_limb_t));
		result.negative = value.integer < 0;
		result.limb[0] = result.negative ? 0 - (mp_limb_t) value.integer :
			(mp_limb_t) value.integer;
		result.count = value.integer != 0;
		return result;
	}

	if (s[0] == '-')
	{
		result.negative = true;
		s++;
		len--;
	}
	result.limb = arena_alloc(arena, (len / CHUNK_DIGITS + 1) * sizeof(mp_limb_t));
	/* the first chunk takes what is left over by whole ones */
	for (n = (len - 1) % CHUNK_DIGITS + 1; len > 0; n = CHUNK_DIGITS)
	{
		mp_limb_t	chunk = 0;
		mp_limb_t	carry = 0;

		for (size_t i = 0; i < n; i++)
			chunk = chunk * 10 + (mp_limb_t) (s[i] - '0');
		s += n;
		len -= n;
		if (result.count > 0)
		{
			carry = mpn_mul_1(result.limb, result.limb, result.count, CHUNK);
			carry += mpn_add_1(result.limb, result.limb, result.count, chunk);
		}
		else
			carry = chunk;
		if (carry > 0)
			result.limb[result.count++] = carry;
	}
	return result;
}

/*
 * Writes the digits of a positive number backwards, ending before end.
 * Destroys the limbs.  A limb makes at most twenty digits.
 */
static char *
limbs_write(mp_limb_t *limb, mp_size_t count, char *end)
{
	while (count > 0 && limb[count - 1] == 0)
		count--;
	while (count > 0)
	{
		mp_limb_t	chunk = mpn_divrem_1(limb, 0, limb, count, CHUNK);

		if (limb[count - 1] == 0)
			count--;
		for (int i = 0; i < CHUNK_DIGITS && (count > 0 || chunk > 0); i++)
		{
			*--end = (char) ('0' + chunk % 10);
			chunk /= 10;
		}
	}
	return end;
}

/* destroys the limbs */
static SyncValue
limbs_to_value(Limbs limbs, SyncArena *arena)
{
	size_t		room = (size_t) limbs.count * 20 + 1;
	char	   *end = (char *) arena_alloc(arena, room) + room;
	char	   *digits = limbs_write(limbs.limb, limbs.count, end);

	if (limbs.negative)
		*--digits = '-';
	return integer_from_digits(digits, (size_t) (end - digits), arena);
}

SyncValue
integer_from_double(double value, SyncArena *arena)
{
	Limbs		limbs;
	int			exponent;
	double		fraction;
	uint64_t	mantissa;
	int			shift;

	if (value >= -INT64_BOUND && value < INT64_BOUND)
		return value_integer((int64_t) value);

	fraction = frexp(fabs(value), &exponent);
	mantissa = (uint64_t) ldexp(fraction, 53);
	shift = exponent - 53;		/* positive: the value has more than 63 bits */
	limbs.negative = value < 0;
	limbs.count = shift / 64 + 2;
	limbs.limb = arena_alloc0(arena, (size_t) limbs.count * sizeof(mp_limb_t));
	limbs.limb[shift / 64] = mantissa << (shift % 64);
	if (shift % 64 > 0)
		limbs.limb[shift / 64 + 1] = mantissa >> (64 - shift % 64);
	return limbs_to_value(limbs, arena);
}

double
integer_to_double(SyncValue value)
{
	if (value.type == SYNC_INTEGER)
		return (double) value.integer;
	return number_parse(value.data, value.len);
}

int
integer_compare(SyncValue a, SyncValue b)
{
	bool		a_negative;
	bool		b_negative;
	int			order;

	if (a.type == SYNC_INTEGER && b.type == SYNC_INTEGER)
		return (a.integer > b.integer) - (a.integer < b.integer);
	/* a BIGINT is outside of all INTEGERs */
	if (a.type == SYNC_INTEGER)
		return b.data[0] == '-' ? 1 : -1;
	if (b.type == SYNC_INTEGER)
		return a.data[0] == '-' ? -1 : 1;

	a_negative = a.data[0] == '-';
	b_negative = b.data[0] == '-';
	if (a_negative != b_negative)
		return a_negative ? -1 : 1;
	if (a.len != b.len)
		order = a.len < b.len ? -1 : 1;
	else
		order = memcmp(a.data, b.data, a.len);
	order = (order > 0) - (order < 0);
	return a_negative ? -order : order;
}

/* a finite double's integral part has at most 1,024 bits and 309 digits */
#define DOUBLE_LIMBS	17

/*
 * A BIGINT with a finite double, exactly: the double's integral part is
 * written out, which takes at most 309 digits.
 */
static int
bigint_compare_double(SyncValue a, double b)
{
	mp_limb_t	limb[DOUBLE_LIMBS] = {0};
	char		text[DOUBLE_LIMBS * 20];
	const char *digits;
	bool		negative = a.data[0] == '-';
	const char *s = a.data + (negative ? 1 : 0);
	size_t		len = a.len - (negative ? 1 : 0);
	size_t		n;
	int			exponent;
	uint64_t	mantissa;
	int			shift;
	int			order;

	if (b > -INT64_BOUND && b < INT64_BOUND)
		return negative ? -1 : 1;
	if ((b < 0) != negative)
		return negative ? -1 : 1;

	/* both have the same sign and b is integral */
	mantissa = (uint64_t) ldexp(frexp(fabs(b), &exponent), 53);
	shift = exponent - 53;
	limb[shift / 64] = mantissa << (shift % 64);
	if (shift % 64 > 0)
		limb[shift / 64 + 1] = mantissa >> (64 - shift % 64);
	digits = limbs_write(limb, DOUBLE_LIMBS, text + sizeof(text));
	n = (size_t) (text + sizeof(text) - digits);
	if (len != n)
		order = len < n ? -1 : 1;
	else
		order = memcmp(s, digits, len);
	order = (order > 0) - (order < 0);
	return negative ? -order : order;
}

int
integer_compare_double(SyncValue a, double b)
{
	double		whole;
	int64_t		i;

	if (isinf(b))
		return b > 0 ? -1 : 1;
	if (a.type == SYNC_BIGINT)
		return bigint_compare_double(a, b);
	if (b >= INT64_BOUND)
		return -1;
	if (b < -INT64_BOUND)
		return 1;
	whole = trunc(b);
	i = (int64_t) whole;
	if (a.integer != i)
		return a.integer < i ? -1 : 1;
	return b > whole ? -1 : b < whole ? 1 : 0;
}

int64_t
integer_low_bits(SyncValue value)
{
	uint64_t	bits = 0;
	uint32_t	i = 0;

	if (value.type == SYNC_INTEGER)
		return value.integer;
	if (value.data[0] == '-')
		i++;
	for (; i < value.len; i++)
		bits = bits * 10 + (uint64_t) (value.data[i] - '0');	/* mod 2^64 */
	return (int64_t) (value.data[0] == '-' ? 0 - bits : bits);
}

/* ---------------------------------------------------------------- arithmetic */

static Limbs
limbs_add(Limbs a, Limbs b, SyncArena *arena)
{
	Limbs		result;

	if (a.count < b.count)
	{
		Limbs		swap = a;

		a = b;
		b = swap;
	}
	result.negative = a.negative;
	result.count = a.count + 1;
	result.limb = arena_alloc0(arena, (size_t) result.count * sizeof(mp_limb_t));
	if (b.count == 0)
	{
		memcpy(result.limb, a.limb, (size_t) a.count * sizeof(mp_limb_t));
		return result;
	}
	if (a.negative == b.negative)
		result.limb[a.count] = mpn_add(result.limb, a.limb, a.count, b.limb, b.count);
	else if (a.count == b.count && mpn_cmp(a.limb, b.limb, a.count) < 0)
	{
		result.negative = b.negative;
		mpn_sub_n(result.limb, b.limb, a.limb, a.count);
	}
	else
		mpn_sub(result.limb, a.limb, a.count, b.limb, b.count);
	return result;
}

static Limbs
limbs_multiply(Limbs a, Limbs b, SyncArena *arena)
{
	Limbs		result = {.negative = a.negative != b.negative};

	if (a.count == 0 || b.count == 0)
		return result;
	result.count = a.count + b.count;
	result.limb = arena_alloc(arena, (size_t) result.count * sizeof(mp_limb_t));
	if (a.count >= b.count)
		mpn_mul(result.limb, a.limb, a.count, b.limb, b.count);
	else
		mpn_mul(result.limb, b.limb, b.count, a.limb, a.count);
	return result;
}

/* toward zero; b is not zero */
static Limbs
limbs_divide(Limbs a, Limbs b, SyncArena *arena)
{
	Limbs		result = {.negative = a.negative != b.negative};
	mp_limb_t  *rest;

	if (a.count < b.count)
		return result;
	result.count = a.count - b.count + 1;
	result.limb = arena_alloc(arena, (size_t) result.count * sizeof(mp_limb_t));
	rest = arena_alloc(arena, (size_t) b.count * sizeof(mp_limb_t));
	mpn_tdiv_qr(result.limb, rest, 0, a.limb, a.count, b.limb, b.count);
	return result;
}

static bool
small_arithmetic(char op, int64_t a, int64_t b, int64_t *result)
{
	switch (op)
	{
		case '+':
			return !__builtin_add_overflow(a, b, result);
		case '-':
			return !__builtin_sub_overflow(a, b, result);
		case '*':
			return !__builtin_mul_overflow(a, b, result);
		default:
			if (a == INT64_MIN && b == -1)
				return false;
			*result = a / b;
			return true;
	}
}

bool
integer_arithmetic(char op, SyncValue a, SyncValue b, SyncArena *arena,
				   SyncValue *result, SyncError *error)
{
	int64_t		small;
	Limbs		x;
	Limbs		y;

	if (a.type == SYNC_INTEGER && b.type == SYNC_INTEGER &&
		small_arithmetic(op, a.integer, b.integer, &small))
	{
		*result = value_integer(small);
		return true;
	}
	if ((a.type == SYNC_BIGINT && a.len > INTEGER_MAX_DIGITS) ||
		(b.type == SYNC_BIGINT && b.len > INTEGER_MAX_DIGITS))
	{
		sync_error_set(error, SYNC_ERROR_LIMIT, "integer of more than %d digits in arithmetic",
					   INTEGER_MAX_DIGITS);
		return false;
	}

	x = limbs_from_value(a, arena);
	y = limbs_from_value(b, arena);
	switch (op)
	{
		case '-':
			y.negative = !y.negative;
			/* FALLTHROUGH */
		case '+':
			x = limbs_add(x, y, arena);
			break;
		case '*':
			x = limbs_multiply(x, y, arena);
			break;
		default:
			x = limbs_divide(x, y, arena);
			break;
	}
	*result = limbs_to_value(x, arena);
	return true;
}
