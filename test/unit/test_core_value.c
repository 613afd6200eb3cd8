/*-------------------------------------------------------------------------
 *
 * test_core_value.c
 *	  Values: sync-rules.md, section 5; integers of any size.
 *
 *-------------------------------------------------------------------------
 */
#include <math.h>

#include "core_test.h"
#include "number.h"
#include "text.h"
#include "value.h"

static SyncValue
integer(SyncArena *arena, const char *digits)
{
	return integer_from_digits(digits, strlen(digits), arena);
}

#define UNDEFINED ((SyncValue) {.type = SYNC_UNDEFINED})
#define BLOB(s) value_blob(s, sizeof(s) - 1)

/* ---------------------------------------------------------------- integers */

static void
integers_from_digits(void **state)
{
	SyncValue	v;

	v = integer(*state, "9223372036854775807");
	assert_int_equal(v.type, SYNC_INTEGER);
	assert_true(v.integer == INT64_MAX);
	v = integer(*state, "-9223372036854775808");
	assert_int_equal(v.type, SYNC_INTEGER);
	assert_true(v.integer == INT64_MIN);
	v = integer(*state, "9223372036854775808");
	assert_int_equal(v.type, SYNC_BIGINT);
	assert_bytes(value_to_text(v, *state), "9223372036854775808");
	v = integer(*state, "-009223372036854775809");
	assert_int_equal(v.type, SYNC_BIGINT);
	assert_bytes(value_to_text(v, *state), "-9223372036854775809");
	v = integer(*state, "-000000000000000000000000000000");
	assert_int_equal(v.type, SYNC_INTEGER);
	assert_int_equal(v.integer, 0);
	assert_int_equal(integer(*state, "+7").integer, 7);
	assert_int_equal(integer(*state, "").integer, 0);
}

static void
integers_from_doubles(void **state)
{
	SyncValue	max;

	assert_true(integer_from_double(-9223372036854775808.0, *state).integer == INT64_MIN);
	assert_bytes(value_to_text(integer_from_double(9223372036854775808.0, *state), *state),
				 "9223372036854775808");
	assert_bytes(value_to_text(integer_from_double(1e21, *state), *state),
				 "1000000000000000000000");
	assert_bytes(value_to_text(integer_from_double(-1e23, *state), *state),
				 "-99999999999999991611392");
	assert_bytes(value_to_text(integer_from_double(123456789012345680000.0, *state), *state),
				 "123456789012345683968");
	/* the largest: all of it, read back */
	max = integer_from_double(1.7976931348623157e308, *state);
	assert_int_equal(max.len, 309);
	assert_true(integer_to_double(max) == 1.7976931348623157e308);
}

static void
expect(SyncArena *arena, const char *a, char op, const char *b, const char *result)
{
	SyncValue	v;

	assert_true(integer_arithmetic(op, integer(arena, a), integer(arena, b), arena, &v, NULL));
	assert_bytes(value_to_text(v, arena), result);
	/* a small result is never a BIGINT */
	assert_int_equal(v.type, strlen(result) < 19 ? SYNC_INTEGER : v.type);
}

static void
integer_arithmetic_has_no_bounds(void **state)
{
	expect(*state, "9223372036854775807", '+', "1", "9223372036854775808");
	expect(*state, "9223372036854775808", '-', "1", "9223372036854775807");
	expect(*state, "-9223372036854775808", '-', "1", "-9223372036854775809");
	expect(*state, "-9223372036854775809", '+', "1", "-9223372036854775808");
	expect(*state, "-9223372036854775808", '/', "-1", "9223372036854775808");
	expect(*state, "-9223372036854775808", '*', "-9223372036854775808",
		   "85070591730234615865843651857942052864");
	expect(*state, "18446744073709551616", '-', "18446744073709551616", "0");
	expect(*state, "18446744073709551616", '-', "18446744073709551617", "-1");
	expect(*state, "18446744073709551616", '*', "0", "0");
	expect(*state, "0", '-', "18446744073709551616", "-18446744073709551616");
	expect(*state, "-7", '/', "2", "-3");
	expect(*state, "-70000000000000000000000", '/', "20000000000000000000000", "-3");
	expect(*state, "7", '/', "20000000000000000000000", "0");
	expect(*state, "100000000000000000000000000000000000000", '/', "10000000000000000000",
		   "10000000000000000000");
	expect(*state, "99999999999999999999999999999999999999", '+', "1",
		   "100000000000000000000000000000000000000");
}

/* against 128-bit arithmetic of the compiler */
static void
integer_arithmetic_agrees(void **state)
{
	static const char ops[] = "+-*/";
	uint64_t	seed = 12345;
	SyncArena  *arena = *state;

	for (int i = 0; i < 20000; i++)
	{
		int64_t		n[2];
		__int128	x;
		SyncValue	big[2];
		SyncValue	result;
		char		text[50];
		int			len = 0;
		bool		negative;
		char		op = ops[i % 4];

		for (int k = 0; k < 2; k++)
		{
			seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407U;
			n[k] = (int64_t) seed >> (seed >> 58);
			/* made a BIGINT and brought back by arithmetic */
			assert_true(integer_arithmetic('+', integer(arena, "100000000000000000000000000"),
										   value_integer(n[k]), arena, &big[k], NULL));
			assert_true(integer_arithmetic('-', big[k],
										   integer(arena, "100000000000000000000000000"),
										   arena, &big[k], NULL));
			assert_int_equal(big[k].type, SYNC_INTEGER);
			assert_true(big[k].integer == n[k]);
		}
		if (op == '/' && n[1] == 0)
			continue;
		assert_true(integer_arithmetic(op, big[0], big[1], arena, &result, NULL));
		x = op == '+' ? (__int128) n[0] + n[1] : op == '-' ? (__int128) n[0] - n[1] :
			op == '*' ? (__int128) n[0] * n[1] : (__int128) n[0] / n[1];
		negative = x < 0;
		do
			text[len++] = (char) ('0' + (negative ? -(x % 10) : x % 10));
		while ((x /= 10) != 0);
		if (negative)
			text[len++] = '-';
		for (int a = 0, b = len - 1; a < b; a++, b--)
		{
			char		swap = text[a];

			text[a] = text[b];
			text[b] = swap;
		}
		text[len] = '\0';
		assert_bytes(value_to_text(result, arena), text);
		if (i % 500 == 0)
			arena_reset(arena);
	}
}

static void
integer_arithmetic_is_limited(void **state)
{
	SyncArena  *arena = *state;
	char	   *digits = arena_alloc(arena, INTEGER_MAX_DIGITS + 1);
	SyncValue	v;
	SyncError	error;

	memset(digits, '9', INTEGER_MAX_DIGITS + 1);
	v = integer_from_digits(digits, INTEGER_MAX_DIGITS, arena);
	assert_true(integer_arithmetic('*', v, v, arena, &v, &error));
	assert_int_equal(v.len, 2 * INTEGER_MAX_DIGITS);
	assert_memory_equal(v.data + INTEGER_MAX_DIGITS - 1, "8000", 4);	/* (10^n - 1)^2 */
	assert_int_equal(v.data[v.len - 1], '1');
	/* too long now, though it was computed */
	assert_false(integer_arithmetic('/', v, value_integer(3), arena, &v, &error));
	assert_int_equal(error.code, SYNC_ERROR_LIMIT);

	v = integer_from_digits(digits, INTEGER_MAX_DIGITS, arena);
	assert_true(integer_arithmetic('/', v, integer_from_digits(digits, 5000, arena),
								   arena, &v, &error));
	assert_int_equal(v.len, 5001);	/* 10^5000 + 1 */
	assert_int_equal(v.data[0], '1');
	assert_int_equal(v.data[5000], '1');
	for (int i = 1; i < 5000; i++)
		assert_int_equal(v.data[i], '0');
}

static void
integers_low_bits(void **state)
{
	assert_true(integer_low_bits(integer(*state, "100000000000000000000")) ==
				INT64_C(7766279631452241920));
	assert_true(integer_low_bits(integer(*state, "-18446744073709551617")) == -1);
	assert_true(integer_low_bits(value_integer(-5)) == -5);
}

/* ---------------------------------------------------------------- section 5 */

static void
texts_of_values(void **state)
{
	assert_bytes(value_to_text(value_null(), *state), "");
	assert_bytes(value_to_text(value_integer(-42), *state), "-42");
	assert_bytes(value_to_text(value_real(1.0), *state), "1");
	assert_bytes(value_to_text(value_real(1e21), *state), "1e+21");
	assert_bytes(value_to_text(text("x"), *state), "x");
	assert_bytes(value_to_text(BLOB("\xEF\xBB\xBF" "a\xFF"), *state), "a\xEF\xBF\xBD");
}

static void
truth_of_values(void **state)
{
	assert_false(value_is_true(UNDEFINED));
	assert_false(value_is_true(value_null()));
	assert_false(value_is_true(value_real(NAN)));
	assert_false(value_is_true(value_real(-0.0)));
	assert_true(value_is_true(value_real(0.5)));
	assert_true(value_is_true(value_integer(-1)));
	assert_true(value_is_true(integer(*state, "99999999999999999999")));
	assert_true(value_is_true(text("1abc")));
	assert_false(value_is_true(text("0.5")));
	assert_false(value_is_true(BLOB("1")));
}

static int
compare(SyncValue a, SyncValue b)
{
	int			order = 99;

	assert_true(value_compare(a, b, &order, NULL));
	return order;
}

static void
comparison_is_exact(void **state)
{
	SyncArena  *arena = *state;
	SyncError	error;
	int			order;

	assert_int_equal(compare(value_integer(INT64_C(9007199254740993)),
							 value_real(9007199254740992.0)), 1);
	assert_int_equal(compare(value_real(9007199254740992.0),
							 value_integer(INT64_C(9007199254740993))), -1);
	assert_int_equal(compare(value_integer(INT64_MAX), value_real(9223372036854775808.0)), -1);
	assert_int_equal(compare(value_integer(INT64_MIN), value_real(-9223372036854775808.0)), 0);
	assert_int_equal(compare(value_integer(-2), value_real(-2.5)), 1);
	assert_int_equal(compare(value_integer(2), value_real(2.5)), -1);
	assert_int_equal(compare(value_integer(5), value_real(HUGE_VAL)), -1);
	assert_int_equal(compare(integer(arena, "1000000000000000000000"), value_real(1e21)), 0);
	assert_int_equal(compare(integer(arena, "1000000000000000000001"), value_real(1e21)), 1);
	assert_int_equal(compare(integer(arena, "-1000000000000000000001"), value_real(-1e21)), -1);
	assert_int_equal(compare(integer(arena, "99999999999999999999"), value_real(-1e300)), 1);
	assert_int_equal(compare(integer(arena, "99999999999999999999"), value_real(1e300)), -1);
	assert_int_equal(compare(integer(arena, "99999999999999999999"), value_real(-HUGE_VAL)), 1);
	assert_int_equal(compare(integer(arena, "9223372036854775808"),
							 value_real(9223372036854775808.0)), 0);
	assert_int_equal(compare(integer(arena, "99999999999999999999"),
							 integer(arena, "100000000000000000000")), -1);
	assert_int_equal(compare(integer(arena, "-99999999999999999999"), value_integer(0)), -1);
	assert_int_equal(compare(value_real(0.0), value_real(-0.0)), 0);
	assert_int_equal(compare(value_real(NAN), value_real(1)), -1);
	assert_int_equal(compare(value_integer(1), value_real(NAN)), -1);

	/* classes */
	assert_int_equal(compare(UNDEFINED, value_null()), 0);
	assert_int_equal(compare(value_null(), value_integer(-5)), -1);
	assert_int_equal(compare(text("7"), value_integer(7)), 1);
	assert_int_equal(compare(text("z"), BLOB("a")), -1);
	assert_false(value_compare(BLOB("a"), BLOB("a"), &order, &error));
	assert_int_equal(error.code, SYNC_ERROR_VALUE);
}

static int64_t
holds(ValueComparison op, SyncValue a, SyncValue b)
{
	SyncValue	result;

	assert_true(value_compare_operator(op, a, b, &result, NULL));
	return value_is_null(result) ? -1 : result.integer;
}

static void
comparison_operators(void **state)
{
	SyncValue	nan = value_real(NAN);
	SyncValue	one = value_integer(1);
	SyncValue	result;

	(void) state;
	assert_int_equal(holds(VALUE_EQ, one, value_real(1.0)), 1);
	assert_int_equal(holds(VALUE_EQ, one, value_null()), -1);
	assert_int_equal(holds(VALUE_NE, UNDEFINED, one), -1);
	assert_int_equal(holds(VALUE_EQ, nan, nan), 0);
	assert_int_equal(holds(VALUE_NE, nan, one), 1);
	assert_int_equal(holds(VALUE_LT, nan, one), 1);
	assert_int_equal(holds(VALUE_LE, nan, one), 1);
	assert_int_equal(holds(VALUE_LT, one, nan), 1);
	assert_int_equal(holds(VALUE_GT, one, nan), 0);
	assert_int_equal(holds(VALUE_GE, text("b"), text("a")), 1);
	assert_true(value_is(value_null(), UNDEFINED, &result, NULL));
	assert_int_equal(result.integer, 1);
	assert_true(value_is(value_null(), one, &result, NULL));
	assert_int_equal(result.integer, 0);
}

static SyncValue
calculate(SyncArena *arena, SyncValue a, char op, SyncValue b)
{
	SyncValue	result;

	assert_true(value_arithmetic(op, a, b, arena, &result, NULL));
	return result;
}

static void
arithmetic(void **state)
{
	SyncArena  *arena = *state;
	SyncValue	v;

	assert_true(value_is_null(calculate(arena, value_null(), '+', value_integer(1))));
	assert_true(value_is_null(calculate(arena, value_integer(1), '/', value_real(-0.0))));
	assert_true(value_is_null(calculate(arena, value_integer(1), '/', text("abc"))));
	assert_int_equal(calculate(arena, value_integer(-7), '/', value_integer(2)).integer, -3);
	assert_int_equal(calculate(arena, text(" 12x"), '+', text("0x1F")).integer, 12);
	v = calculate(arena, text("1e3"), '*', value_integer(2));
	assert_int_equal(v.type, SYNC_REAL);
	assert_true(v.real == 2000);
	v = calculate(arena, integer(arena, "99999999999999999999"), '+', value_real(0.5));
	assert_true(v.type == SYNC_REAL && v.real == 1e20);
	v = calculate(arena, value_integer(INT64_MAX), '+', value_integer(1));
	assert_int_equal(v.type, SYNC_BIGINT);
}

static void
concatenation(void **state)
{
	SyncArena  *arena = *state;
	SyncValue	v;

	assert_true(value_is_null(value_concat(text("a"), UNDEFINED, arena)));
	v = value_concat(value_real(2.0), BLOB("\xFF"), arena);
	assert_bytes(value_to_text(v, arena), "2\xEF\xBF\xBD");
	/* halves of one character */
	v = value_concat(text("\xED\xA0\xBD"), text("\xED\xB8\x80"), arena);
	assert_bytes(value_to_text(v, arena), "\xF0\x9F\x98\x80");
	v = value_concat(text(""), text(""), arena);
	assert_int_equal(v.type, SYNC_TEXT);
	assert_int_equal(v.len, 0);
}

static SyncValue
cast(SyncArena *arena, ValueCast target, SyncValue v)
{
	SyncValue	result;

	assert_true(value_cast(target, v, arena, &result, NULL));
	return result;
}

static void
casts(void **state)
{
	SyncArena  *arena = *state;
	SyncValue	v;
	SyncError	error;

	assert_true(value_is_null(cast(arena, VALUE_CAST_TEXT, UNDEFINED)));
	assert_int_equal(cast(arena, VALUE_CAST_INTEGER, value_real(-2.5)).integer, -3);
	assert_int_equal(cast(arena, VALUE_CAST_INTEGER, text("\n-12.9")).integer, -12);
	assert_int_equal(cast(arena, VALUE_CAST_INTEGER, text(".5")).integer, 0);
	assert_bytes(value_to_text(cast(arena, VALUE_CAST_INTEGER, value_real(1e21)), arena),
				 "1000000000000000000000");
	assert_false(value_cast(VALUE_CAST_INTEGER, value_real(NAN), arena, &v, &error));
	assert_int_equal(error.code, SYNC_ERROR_VALUE);
	assert_false(value_cast(VALUE_CAST_INTEGER, value_real(-HUGE_VAL), arena, &v, &error));

	assert_int_equal(cast(arena, VALUE_CAST_NUMERIC, text("12")).type, SYNC_INTEGER);
	assert_int_equal(cast(arena, VALUE_CAST_NUMERIC, text("12.")).type, SYNC_REAL);
	assert_int_equal(cast(arena, VALUE_CAST_NUMERIC, text("99999999999999999999")).type,
					 SYNC_BIGINT);
	assert_int_equal(cast(arena, VALUE_CAST_NUMERIC, text("Infinity")).integer, 0);
	assert_true(cast(arena, VALUE_CAST_REAL, text("Infinity")).real == HUGE_VAL);
	assert_true(cast(arena, VALUE_CAST_REAL, value_integer(INT64_C(9007199254740993))).real ==
				9007199254740992.0);
	v = cast(arena, VALUE_CAST_BLOB, text("a\xED\xA0\x80"));
	assert_int_equal(v.type, SYNC_BLOB);
	assert_int_equal(v.len, 4);
	assert_memory_equal(v.data, "a\xEF\xBF\xBD", 4);
}

static void
normalisation(void **state)
{
	SyncArena  *arena = *state;
	SyncValue	v = value_normalize_lookup(value_real(-0.0), arena);

	assert_int_equal(v.type, SYNC_INTEGER);
	assert_int_equal(v.integer, 0);
	assert_int_equal(value_normalize_lookup(value_real(3.5), arena).type, SYNC_REAL);
	assert_int_equal(value_normalize_lookup(value_real(NAN), arena).type, SYNC_REAL);
	assert_int_equal(value_normalize_lookup(value_real(HUGE_VAL), arena).type, SYNC_REAL);
	assert_int_equal(value_normalize_lookup(value_real(1e20), arena).type, SYNC_BIGINT);
	assert_int_equal(value_normalize_lookup(text("3.0"), arena).type, SYNC_TEXT);
}

static void
equalities(void **state)
{
	SyncArena  *arena = *state;
	SyncValue	json_true = {.type = SYNC_JSON, .len = 4, .data = "true"};
	SyncValue	json_array = {.type = SYNC_JSON, .len = 3, .data = "[1]"};

	assert_false(value_identical(value_integer(1), value_real(1)));
	assert_true(value_identical(value_real(NAN), value_real(NAN)));
	assert_true(value_identical(value_real(0.0), value_real(-0.0)));
	assert_false(value_identical(text("1"), BLOB("1")));
	assert_true(value_identical(integer(arena, "99999999999999999999"),
								integer(arena, "099999999999999999999")));

	assert_true(value_loosely_equal(value_integer(5), value_real(5)));
	assert_true(value_loosely_equal(value_integer(5), text(" 5 ")));
	assert_true(value_loosely_equal(text("5.0"), value_real(5)));
	assert_false(value_loosely_equal(text("5.0"), text("5")));
	assert_false(value_loosely_equal(text("5x"), value_integer(5)));
	assert_true(value_loosely_equal(text(""), value_integer(0)));
	assert_true(value_loosely_equal(json_true, value_integer(1)));
	assert_false(value_loosely_equal(json_array, json_array));
	assert_true(value_loosely_equal(UNDEFINED, value_null()));
	assert_false(value_loosely_equal(value_null(), value_integer(0)));
	assert_false(value_loosely_equal(value_real(NAN), value_real(NAN)));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		arena_test(integers_from_digits),
		arena_test(integers_from_doubles),
		arena_test(integer_arithmetic_has_no_bounds),
		arena_test(integer_arithmetic_agrees),
		arena_test(integer_arithmetic_is_limited),
		arena_test(integers_low_bits),
		arena_test(texts_of_values),
		arena_test(truth_of_values),
		arena_test(comparison_is_exact),
		arena_test(comparison_operators),
		arena_test(arithmetic),
		arena_test(concatenation),
		arena_test(casts),
		arena_test(normalisation),
		arena_test(equalities),
	};

	return cmocka_run_group_tests_name("core: values", tests, NULL, NULL);
}
