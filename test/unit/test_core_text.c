/*-------------------------------------------------------------------------
 *
 * test_core_text.c
 *	  UTF-8 and UTF-16, numbers to text and back, WAL positions.
 *
 *-------------------------------------------------------------------------
 */
#include <float.h>
#include <locale.h>
#include <math.h>

#include "core_test.h"
#include "lsn.h"
#include "number.h"
#include "text.h"

static void
utf8_validity(void **state)
{
	static const char *const valid[] = {
		"", "abc", "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80", "\xED\x9F\xBF",
		"\xEE\x80\x80", "\xF4\x8F\xBF\xBF", "12345678\xC3\xA9_12345678"
	};
	static const char *const invalid[] = {
		"\x80", "\xC0\x80", "\xC1\xBF", "\xC3", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF",
		"\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "12345678\xFF", "1234567\xC3"
	};

	(void) state;
	for (size_t i = 0; i < sizeof(valid) / sizeof(valid[0]); i++)
		assert_true(utf8_is_valid(valid[i], strlen(valid[i])));
	for (size_t i = 0; i < sizeof(invalid) / sizeof(invalid[0]); i++)
		assert_false(utf8_is_valid(invalid[i], strlen(invalid[i])));
}

static void
utf16_length(void **state)
{
	(void) state;
	assert_int_equal(text_utf16_length("", 0), 0);
	assert_int_equal(text_utf16_length("abcdefghij", 10), 10);
	assert_int_equal(text_utf16_length("\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80x", 10), 5);
	assert_int_equal(text_utf16_length("\xED\xA0\xBD", 3), 1);
	/* a character over the border of eight bytes */
	assert_int_equal(text_utf16_length("1234567\xF0\x9F\x98\x80" "12345678", 19), 17);
}

static int
order(const char *a, const char *b)
{
	int			left = text_compare(str(a), str(b));
	int			right = text_compare(str(b), str(a));

	assert_int_equal((left > 0) - (left < 0), (right < 0) - (right > 0));
	return left;
}

/* code units, not code points */
static void
text_order(void **state)
{
	(void) state;
	assert_int_equal(order("", ""), 0);
	assert_true(order("", "a") < 0);
	assert_true(order("a", "b") < 0);
	assert_true(order("ab", "a") > 0);
	assert_true(order("Z", "a") < 0);
	assert_true(order("\xC3\xA4", "z") > 0);
	assert_true(order("\xF0\x9F\x98\x80", "\xEF\xBF\xBF") < 0);	/* D83D < FFFF */
	assert_true(order("\xF0\x9F\x98\x80", "\xEE\x80\x80") < 0);	/* D83D < E000 */
	assert_true(order("\xF0\x9F\x98\x80", "\xED\x9F\xBF") > 0);	/* D83D > D7FF */
	assert_true(order("\xF0\x9F\x98\x80", "\xED\xB8\x80") < 0);	/* D83D < DE00 */
	assert_true(order("\xF0\x9F\x98\x80", "\xED\xA0\xBD") > 0);	/* D83D DE00 > D83D */
	assert_true(order("\xF0\x9F\x98\x80", "\xED\xA0\xBD\xEE\x80\x80") < 0);	/* DE00 < E000 */
	assert_true(order("\xF0\x9F\x98\x80", "\xF0\x9F\x98\x81") < 0);
}

static void
halves_of_a_character_join(void **state)
{
	SyncBuffer	buffer;

	buffer_init(&buffer, *state, 0);
	text_append(&buffer, "x\xED\xA0\xBD", 4);
	text_append(&buffer, "\xED\xB8\x80y", 4);
	assert_bytes(buffer_string(&buffer), "x\xF0\x9F\x98\x80y");
	buffer.len = 0;
	text_append(&buffer, "\xED\xB8\x80", 3);
	text_append(&buffer, "\xED\xA0\xBD", 3);	/* the wrong way round */
	assert_bytes(buffer_string(&buffer), "\xED\xB8\x80\xED\xA0\xBD");
}

static void
bytes_become_text(void **state)
{
	assert_bytes(text_from_bytes("abc", 3, *state), "abc");
	assert_bytes(text_from_bytes("\xEF\xBB\xBF" "abc", 6, *state), "abc");
	assert_bytes(text_from_bytes("\xFF\x41\xFE", 3, *state), "\xEF\xBF\xBD" "A\xEF\xBF\xBD");
	/* one for an unfinished character, one for each byte of a surrogate */
	assert_bytes(text_from_bytes("\xE2\x82" "A", 3, *state), "\xEF\xBF\xBD" "A");
	assert_bytes(text_from_bytes("\xF0\x9F\x98", 3, *state), "\xEF\xBF\xBD");
	assert_bytes(text_from_bytes("\xED\xA0\x80", 3, *state),
				 "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
}

static void
surrogates_are_replaced(void **state)
{
	SyncString	plain = str("a\xED\x9F\xBF");

	assert_ptr_equal(text_well_formed(plain, *state).data, plain.data);
	assert_bytes(text_well_formed(str("\xED\xA0\x80x\xED\xBF\xBF"), *state),
				 "\xEF\xBF\xBDx\xEF\xBF\xBD");
}

static void
array_indexes(void **state)
{
	static const char *const others[] = {"", "a", "-1", "01", "1.0", "4294967295", "99999999999"};
	uint32_t	index;

	(void) state;
	assert_true(text_array_index(str("0"), &index));
	assert_int_equal(index, 0);
	assert_true(text_array_index(str("4294967294"), &index));
	assert_true(index == 4294967294U);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		assert_false(text_array_index(str(others[i]), &index));
}

/* ---------------------------------------------------------------- numbers */

static const struct
{
	double		value;
	const char *text;
	const char *json;
}			numbers[] = {
	{0.0, "0", "0.0"},
	{-0.0, "0", "0.0"},
	{1.0, "1", "1.0"},
	{-2.5, "-2.5", "-2.5"},
	{0.1, "0.1", "0.1"},
	{1e-6, "0.000001", "0.000001"},
	{1e-7, "1e-7", "1e-7"},
	{1.5e-10, "1.5e-10", "1.5e-10"},
	{123456789.125, "123456789.125", "123456789.125"},
	{9007199254740991.0, "9007199254740991", "9007199254740991.0"},
	{9007199254740992.0, "9007199254740992", "9007199254740992.0"},
	{-9223372036854775808.0, "-9223372036854776000", "-9223372036854776000.0"},
	{1e20, "100000000000000000000", "100000000000000000000.0"},
	{123456789012345680000.0, "123456789012345680000", "123456789012345680000.0"},
	{1e21, "1e+21", "1e+21"},
	{1.2345e+30, "1.2345e+30", "1.2345e+30"},
	/* exactly half way between two doubles: where PostgreSQL prints more digits */
	{1e23, "1e+23", "1e+23"},
	{-1e23, "-1e+23", "-1e+23"},
	{5e22, "5e+22", "5e+22"},
	{2e23, "2e+23", "2e+23"},
	{DBL_MAX, "1.7976931348623157e+308", "1.7976931348623157e+308"},
	{DBL_MIN, "2.2250738585072014e-308", "2.2250738585072014e-308"},
	{5e-324, "5e-324", "5e-324"},
	{1.0 / 3, "0.3333333333333333", "0.3333333333333333"},
	{HUGE_VAL, "Infinity", "Infinity"},
	{-HUGE_VAL, "-Infinity", "-Infinity"},
	{NAN, "NaN", "NaN"}
};

static void
numbers_to_text(void **state)
{
	char		text[NUMBER_TEXT_LEN];

	(void) state;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
	{
		size_t		len = number_to_text(numbers[i].value, text);

		assert_bytes(((SyncString) {text, (uint32_t) len}), numbers[i].text);
		if (isfinite(numbers[i].value))
			assert_true(number_parse(text, len) == numbers[i].value);
		len = number_to_json(numbers[i].value, text);
		assert_bytes(((SyncString) {text, (uint32_t) len}), numbers[i].json);
	}
}

static double
parse(const char *s)
{
	return number_parse(s, strlen(s));
}

static void
numbers_from_text(void **state)
{
	char		digits[2000];

	(void) state;
	assert_true(parse("1.5") == 1.5);
	assert_true(parse("-.5e1") == -5);
	assert_true(parse("1.") == 1);
	assert_true(parse("+00012e+2") == 1200);
	assert_true(parse("1e400") == HUGE_VAL);
	assert_true(parse("-1e99999999999999999999") == -HUGE_VAL);
	assert_true(parse("1e-99999999999999999999") == 0);
	assert_true(parse("0e999999") == 0);
	assert_true(parse("123456789012345678901234567890") == 123456789012345678901234567890.0);
	assert_true(parse("2.2250738585072011e-308") == 2.2250738585072011e-308);

	/* half way between 1 and the next double, then a digit far behind decides */
	memset(digits, '0', sizeof(digits));
	memcpy(digits, "1.00000000000000011102230246251565404236316680908203125", 55);
	assert_true(number_parse(digits, 1900) == 1.0);
	digits[1899] = '1';
	assert_true(number_parse(digits, 1900) == 1.0 + DBL_EPSILON);

	/* zeros in front do not use up the digits */
	memset(digits, '0', sizeof(digits));
	digits[1500] = '7';
	assert_true(number_parse(digits, 1501) == 7);
	digits[1] = '.';
	assert_true(number_parse(digits, 1501) == 0);
}

static void
prefixes_of_numbers(void **state)
{
	static const struct
	{
		const char *text;
		size_t		len;
		bool		is_integer;
	}			cases[] = {
		{"12", 2, true}, {"12.5x", 4, false}, {" 7", 2, true}, {"7 ", 1, true}, {"+5", 2, true},
		{"-3x", 2, true}, {".5", 2, false}, {"1e3", 3, false}, {"1E-2z", 4, false},
		{"1e", 1, true}, {"1e+", 1, true}, {"1.", 2, false}, {"0x1F", 1, true},
		{"\xC2\xA0\xE3\x80\x80" "9", 6, true}
	};
	static const char *const none[] = {"", " ", "abc", ".", "-", "+.", "e5", "- 1", "."};

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		DecimalPrefix prefix = number_scan(cases[i].text, strlen(cases[i].text));

		assert_int_equal(prefix.len, cases[i].len);
		assert_int_equal(prefix.is_integer, cases[i].is_integer);
	}
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
		assert_int_equal(number_scan(none[i], strlen(none[i])).len, 0);
	/* nothing is read behind the length */
	assert_int_equal(number_scan("12345", 2).len, 2);
}

static void
parse_float_and_truth(void **state)
{
	static const char *const truths[] = {"1", "-1", " 12x", "0x1F", "0X0a", "1e3", "+9", "001"};
	static const char *const lies[] = {"", "0", "-0", "0.5", ".5", "abc", "true", "0x", "0x0g",
		"Infinity", "x1"};

	(void) state;
	assert_true(number_parse_float("  1.5abc", 8) == 1.5);
	assert_true(number_parse_float("-Infinityx", 10) == -HUGE_VAL);
	assert_true(number_parse_float("Infinit", 7) == 0);
	assert_true(number_parse_float("0x1F", 4) == 0);
	assert_true(signbit(number_parse_float("-0", 2)));
	for (size_t i = 0; i < sizeof(truths) / sizeof(truths[0]); i++)
		assert_true(number_parse_int_truth(truths[i], strlen(truths[i])));
	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++)
		assert_false(number_parse_int_truth(lies[i], strlen(lies[i])));
}

/*
 * The linker puts this in the place of strtod(): what a locale could read in
 * another way must never get there.
 */
extern double __real_strtod(const char *s, char **end);
extern double __wrap_strtod(const char *s, char **end);
static int	strtod_calls;

double
__wrap_strtod(const char *s, char **end)
{
	strtod_calls++;
	assert_int_equal(strspn(s, "0123456789e-"), strlen(s));
	return __real_strtod(s, end);
}

static void
strtod_sees_no_radix_character(void **state)
{
	strtod_calls = 0;
	numbers_to_text(state);
	numbers_from_text(state);
	assert_true(strtod_calls > 10);
}

/*
 * The numbers again in a locale with a decimal comma, where the system has
 * one.
 */
static void
numbers_know_no_locale(void **state)
{
	static const char *const locales[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "de_DE"};
	const char *found = NULL;

	for (size_t i = 0; i < sizeof(locales) / sizeof(locales[0]) && found == NULL; i++)
		found = setlocale(LC_NUMERIC, locales[i]);
	if (found == NULL)
		skip();
	assert_string_equal(localeconv()->decimal_point, ",");
	numbers_to_text(state);
	numbers_from_text(state);
	setlocale(LC_NUMERIC, "C");
}

/* ---------------------------------------------------------------- positions */

static void
positions(void **state)
{
	static const char *const wrong[] = {
		"", "/", "0", "0/", "/0", "123456789/0", "0/123456789", "g/0", "0/0 ", " 0/0", "0/-1", "0/0/0"
	};
	char		out[LSN_TEXT_LEN + 1];
	uint64_t	lsn;

	(void) state;
	lsn_format(0, out);
	assert_string_equal(out, "00000000/00000000");
	lsn_format(UINT64_C(0x16B374D848), out);
	assert_string_equal(out, "00000016/B374D848");
	assert_true(lsn_parse(str("16/b374d848"), &lsn) && lsn == UINT64_C(0x16B374D848));
	assert_true(lsn_parse(str("FFFFFFFF/FFFFFFFF"), &lsn) && lsn == UINT64_MAX);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_false(lsn_parse(str(wrong[i]), &lsn));
}

/* of A to Z, and no other letters */
static void
case_of_names(void **state)
{
	SyncArena  *arena = *state;

	assert_bytes(text_ascii_lower(str("AbZ_@[`{9\xC3\x84"), arena), "abz_@[`{9\xC3\x84");
	assert_true(text_equal_but_for_case(str("AbZ9"), str("aBz9")));
	assert_false(text_equal_but_for_case(str("@a"), str("`a")));
	assert_false(text_equal_but_for_case(str("[a"), str("{a")));
	assert_false(text_equal_but_for_case(str("\xC3\x84"), str("\xC3\xA4")));
	assert_false(text_equal_but_for_case(str("a"), str("ab")));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(utf8_validity),
		cmocka_unit_test(utf16_length),
		cmocka_unit_test(text_order),
		arena_test(halves_of_a_character_join),
		arena_test(bytes_become_text),
		arena_test(surrogates_are_replaced),
		cmocka_unit_test(array_indexes),
		arena_test(case_of_names),
		cmocka_unit_test(numbers_to_text),
		cmocka_unit_test(numbers_from_text),
		cmocka_unit_test(prefixes_of_numbers),
		cmocka_unit_test(parse_float_and_truth),
		cmocka_unit_test(strtod_sees_no_radix_character),
		cmocka_unit_test(numbers_know_no_locale),
		cmocka_unit_test(positions),
	};

	return cmocka_run_group_tests_name("core: text, numbers, positions", tests, NULL, NULL);
}
