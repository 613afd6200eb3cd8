/*-------------------------------------------------------------------------
 *
 * test_printed.c
 *	  Values that PostgreSQL has printed: sync-rules.md, section 10.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "printed.h"

#include "core_test.h"

static const PrintedType plain = {.kind = PRINTED_TEXT};
static const PrintedType integer = {.kind = PRINTED_INTEGER};
static const PrintedType real = {.kind = PRINTED_REAL};
static const PrintedType boolean = {.kind = PRINTED_BOOL};
static const PrintedType bytea = {.kind = PRINTED_BYTEA};
static const PrintedType a_json = {.kind = PRINTED_JSON};
static const PrintedType time_of_day = {.kind = PRINTED_TIME};
static const PrintedType timestamp = {.kind = PRINTED_TIMESTAMP};
static const PrintedType timestamptz = {.kind = PRINTED_TIMESTAMPTZ};
static const PrintedType date = {.kind = PRINTED_DATE};
static const PrintedType lsn = {.kind = PRINTED_LSN};

static const PrintedOptions legacy = {.fraction_digits = 6};
static const PrintedOptions iso = {.iso8601 = true,.fraction_digits = 6};
static const PrintedOptions millis = {.iso8601 = true,.fraction_digits = 3};
static const PrintedOptions whole = {.iso8601 = true,.fraction_digits = 0};

static SyncArena *arena;

static SyncValue
read_value(const PrintedType *type, const PrintedOptions *options, const char *s)
{
	SyncValue	value;
	SyncError	error = {0};
	ArenaGuard	guard;
	volatile bool ok = false;

	arena_guard_push(arena, &guard);
	if (setjmp(guard.jump) == 0)
		ok = printed_value(type, options, (SyncString) {s, (uint32_t) strlen(s)}, arena, &value,
						   &error);
	arena_guard_pop(arena, &guard);
	if (!ok)
	{
		assert_int_equal(error.code, SYNC_ERROR_LIMIT);
		return (SyncValue) {.type = SYNC_UNDEFINED};
	}
	return value;
}

static void
expect_with(const PrintedType *type, const PrintedOptions *options, const char *s,
			const char *expected)
{
	SyncValue	value = read_value(type, options, s);

	if (expected == NULL)
	{
		assert_int_equal(value.type, SYNC_NULL);
		return;
	}
	assert_int_equal(value.type, SYNC_TEXT);
	if (value.len != strlen(expected) || memcmp(value.data, expected, value.len) != 0)
		fail_msg("%s: got %.*s, expected %s", s, (int) value.len, value.data, expected);
}

static void
expect(const PrintedType *type, const char *s, const char *expected)
{
	expect_with(type, &legacy, s, expected);
}

static void
test_scalars(void **state)
{
	(void) state;
	assert_int_equal(read_value(&integer, &legacy, "-7").integer, -7);
	assert_int_equal(read_value(&integer, &legacy, " 0x1F ").integer, 31);
	assert_int_equal(read_value(&integer, &legacy, "").integer, 0);
	assert_int_equal(read_value(&integer, &legacy, "99999999999999999999").type, SYNC_BIGINT);
	expect(&integer, "1.5", "1.5");
	expect(&integer, "-", "-");
	expect(&integer, "0x", "0x");
	assert_true(read_value(&real, &legacy, "1e-7").real == 1e-7);
	assert_true(read_value(&real, &legacy, "-Infinity").real < 0);
	assert_true(read_value(&real, &legacy, "(1,2)").real != read_value(&real, &legacy, "(1,2)").real);
	assert_int_equal(read_value(&boolean, &legacy, "t").integer, 1);
	assert_int_equal(read_value(&boolean, &legacy, "f").integer, 0);
	assert_int_equal(read_value(&bytea, &legacy, "\\x00ff").len, 2);
	expect(&bytea, "\\000", "\\000");
	expect(&lsn, "16/B374D848", "00000016/B374D848");
	expect(&date, "infinity", "9999-12-31");
	expect(&date, "0044-03-15 BC", "0044-03-15 BC");
	expect(&a_json, "{\"a\": 1}", "{\"a\": 1}");
}

static void
test_times(void **state)
{
	(void) state;
	expect(&time_of_day, "24:00:00", "24:00:00");
	expect_with(&time_of_day, &iso, "13:14:15.5", "13:14:15.500000");
	expect_with(&time_of_day, &whole, "13:14:15.5", "13:14:15");
	expect(&time_of_day, "13:14:15+02", NULL);
	expect(&timestamp, "294276-12-31 23:59:59", "294276-12-31 23:59:59");
	expect(&timestamp, "0044-03-15 12:00:00 BC", NULL);
	expect_with(&timestamp, &millis, "2024-02-29 13:14:15.9999", "2024-02-29T13:14:15.999");
	expect_with(&timestamp, &iso, "-infinity", "0000-01-01T00:00:00.000000");
	expect(&timestamptz, "2024-02-29 13:14:15.5+00", "2024-02-29 13:14:15.5Z");
	expect_with(&timestamptz, &iso, "2024-02-29 13:14:15.5+00", "2024-02-29T13:14:15.500000Z");
	expect(&timestamptz, "10000-01-01 00:00:00+00", NULL);
	expect(&timestamptz, "infinity", "9999-12-31 23:59:59Z");
	expect(&timestamptz, "2024-02-29 13:14:15.+00", NULL);
	expect(&timestamptz, "", NULL);
}

static void
test_arrays(void **state)
{
	const PrintedType texts = {.kind = PRINTED_ARRAY,.delimiter = ',',.element = &plain};
	const PrintedType integers = {.kind = PRINTED_ARRAY,.delimiter = ',',.element = &integer};
	const PrintedType blobs = {.kind = PRINTED_ARRAY,.delimiter = ',',.element = &bytea};
	const PrintedType boxes = {.kind = PRINTED_ARRAY,.delimiter = ';',.element = &real};

	(void) state;
	expect(&texts, "{}", "[]");
	expect(&texts, "{a,NULL,\"NULL\",\"\",\"x\\\"y\\\\z\"}", "[\"a\",null,\"NULL\",\"\",\"x\\\"y\\\\z\"]");
	expect(&texts, "[2:3]={\"a=b\",c}", "[\"a=b\",\"c\"]");
	expect(&integers, "{{1,2},{3,NULL}}", "[[1,2],[3,null]]");
	expect(&integers, "{1,x}", "{1,x}");
	expect(&blobs, "{\"\\\\x00\"}", "[null]");
	expect(&boxes, "{(2,2),(0,0);NULL}", "[NaN,null]");
	/* what does not fit stays */
	expect(&texts, "(1,2)", "(1,2)");
	expect(&texts, "", "");
	expect(&texts, "{", "{");
	expect(&texts, "{a", "{a");
	expect(&texts, "{a}b", "{a}b");
	expect(&texts, "{\"a", "{\"a");
	expect(&texts, "{\"a\\x\"}", "{\"a\\x\"}");
	expect(&texts, "[1:2]", "[1:2]");
}

static void
test_composites(void **state)
{
	const SyncString names[] = {sync_string_literal("a"), sync_string_literal("b"),
	sync_string_literal("c d")};
	const PrintedType *const members[] = {&integer, &plain, &boolean};
	const PrintedType composite = {.kind = PRINTED_COMPOSITE,.member_count = 3,.names = names,
	.members = members};
	const PrintedType *const with_blob[] = {&bytea, &a_json, &timestamptz};
	const PrintedType blob_first = {.kind = PRINTED_COMPOSITE,.member_count = 3,.names = names,
	.members = with_blob};
	const PrintedType array = {.kind = PRINTED_ARRAY,.delimiter = ',',.element = &composite};

	(void) state;
	expect(&composite, "(1,two,t)", "{\"a\":1,\"b\":\"two\",\"c d\":1}");
	expect(&composite, "(,,)", "{\"a\":null,\"b\":null,\"c d\":null}");
	expect(&composite, "(1,\"\",f)", "{\"a\":1,\"b\":\"\",\"c d\":0}");
	expect(&composite, "(1,\"x \"\"y\"\" \\\\z\",f)", "{\"a\":1,\"b\":\"x \\\"y\\\" \\\\z\",\"c d\":0}");
	expect(&composite, "(1,\"\"\"\",f)", "{\"a\":1,\"b\":\"\\\"\",\"c d\":0}");
	expect(&composite, "(1,NULL,f)", "{\"a\":1,\"b\":\"NULL\",\"c d\":0}");
	/* more fields than names, and fewer */
	expect(&composite, "(1,2,t,4)", "{\"a\":1,\"b\":\"2\",\"c d\":1}");
	expect(&composite, "(1,2)", "{\"a\":1,\"b\":\"2\"}");
	expect(&composite, "(x,2,t)", "(x,2,t)");
	expect(&composite, "(1,2,t", "(1,2,t");
	expect(&composite, "(1,2,t)x", "(1,2,t)x");
	expect(&blob_first, "(\"\\\\x00\",\"{\"\"k\"\": 1.0}\",\"2024-02-29 13:14:15+00\")",
		   "{\"b\":{\"k\": 1.0},\"c d\":\"2024-02-29 13:14:15Z\"}");
	expect(&blob_first, "(,,)", "{\"a\":null,\"b\":null,\"c d\":null}");
	expect(&array, "{\"(1,\\\"x y\\\",t)\",NULL}", "[{\"a\":1,\"b\":\"x y\",\"c d\":1},null]");
}

static void
test_member_order(void **state)
{
	const SyncString names[] = {sync_string_literal("b"), sync_string_literal("10"),
		sync_string_literal("01"), sync_string_literal("9")};
	const PrintedType *const members[] = {&plain, &plain, &plain, &plain};
	PrintedType composite = {.kind = PRINTED_COMPOSITE,.member_count = 4,.names = names,
	.members = members};
	int			order[4];

	(void) state;
	assert_true(printed_order_members(&composite, order));
	composite.order = order;
	expect(&composite, "(1,2,3,4)", "{\"9\":\"4\",\"10\":\"2\",\"b\":\"1\",\"01\":\"3\"}");
	composite.member_count = 1;
	assert_false(printed_order_members(&composite, order));
}

static void
test_ranges(void **state)
{
	const PrintedType range = {.kind = PRINTED_RANGE,.element = &integer};
	const PrintedType texts = {.kind = PRINTED_RANGE,.element = &plain};
	const PrintedType blobs = {.kind = PRINTED_RANGE,.element = &bytea};
	const PrintedType several = {.kind = PRINTED_MULTIRANGE,.element = &integer};
	const PrintedType array = {.kind = PRINTED_ARRAY,.delimiter = ',',.element = &range};

	(void) state;
	expect(&range, "[1,5)", "{\"lower\":1,\"upper\":5,\"lower_exclusive\":0,\"upper_exclusive\":1}");
	expect(&range, "(,)", "{\"lower\":null,\"upper\":null,\"lower_exclusive\":1,\"upper_exclusive\":1}");
	expect(&range, "empty", "empty");
	expect(&array, "{empty,\"[1,2]\"}",
		   "[\"empty\",{\"lower\":1,\"upper\":2,\"lower_exclusive\":0,\"upper_exclusive\":0}]");
	expect(&texts, "[\"\",\"a,\"\"b\"\"\")",
		   "{\"lower\":\"\",\"upper\":\"a,\\\"b\\\"\",\"lower_exclusive\":0,\"upper_exclusive\":1}");
	expect(&blobs, "[\"\\\\x00\",\"\\\\x01\")", "{\"lower_exclusive\":0,\"upper_exclusive\":1}");
	expect(&several, "{}", "[]");
	expect(&several, "{[1,3),[5,7)}",
		   "[{\"lower\":1,\"upper\":3,\"lower_exclusive\":0,\"upper_exclusive\":1},"
		   "{\"lower\":5,\"upper\":7,\"lower_exclusive\":0,\"upper_exclusive\":1}]");
	expect(&range, "[1,5", "[1,5");
	expect(&range, "[1", "[1");
	expect(&range, "1,5)", "1,5)");
	expect(&several, "{[1,3)", "{[1,3)");
}

static void
test_depth(void **state)
{
	const PrintedType array = {.kind = PRINTED_ARRAY,.delimiter = ',',.element = &integer};
	char		s[4096];

	(void) state;
	expect(&array, "{{{{{{{{{{1}}}}}}}}}}", "[[[[[[[[[[1]]]]]]]]]]");
	assert_int_equal(read_value(&array, &legacy, "{{{{{{{{{{{1}}}}}}}}}}}").type, SYNC_UNDEFINED);
	assert_int_equal(read_value(&array, &legacy, "{{{{{{{{{{{NULL}}}}}}}}}}}").type, SYNC_UNDEFINED);
	/* nothing stands in the eleventh */
	expect(&array, "{{{{{{{{{{{}}}}}}}}}}}", "[[[[[[[[[[[]]]]]]]]]]]");
	/* unreadable before it is too deep */
	expect(&array, "{{{{{{{{{{{x}}}}}}}}}}}", "{{{{{{{{{{{x}}}}}}}}}}}");
	memset(s, '{', sizeof(s) - 1);
	s[sizeof(s) - 1] = '\0';
	assert_int_equal(read_value(&array, &legacy, s).type, SYNC_UNDEFINED);
}

static void
test_limit(void **state)
{
	const SyncString names[] = {sync_string_literal("a name of some length")};
	const PrintedType *const members[] = {&plain};
	const PrintedType composite = {.kind = PRINTED_COMPOSITE,.member_count = 1,.names = names,
	.members = members};
	const PrintedType array = {.kind = PRINTED_ARRAY,.delimiter = ',',.element = &composite};
	const PrintedOptions limited = {.limit = 100};

	(void) state;
	assert_int_equal(read_value(&array, &limited, "{(1),(2)}").type, SYNC_TEXT);
	assert_int_equal(read_value(&array, &limited, "{(1),(2),(3),(4),(5)}").type, SYNC_UNDEFINED);
}

/* what is read as a number can be any text, where fields and attributes do not belong together */
static void
test_many_spaces(void **state)
{
	size_t		len = 1000 * 1000;
	char	   *s = arena_alloc(arena, len + 1);
	clock_t		start;

	(void) state;
	assert_int_equal(read_value(&integer, &legacy, "  12 \t\n ").integer, 12);
	assert_true(read_value(&real, &legacy, " 1.5\xc2\xa0").real == 1.5);
	expect(&integer, "1 5 ", "1 5 ");
	memset(s, ' ', len);
	s[0] = s[len - 1] = '1';
	s[len] = '\0';
	start = clock();
	expect(&integer, s, s);
	assert_true(clock() - start < 10 * CLOCKS_PER_SEC);
}

/* a type can have far more attributes than its values have fields */
static void
test_many_attributes(void **state)
{
	enum
	{
		ATTRIBUTES = 1600, VALUES = 20000
	};
	SyncString	names[ATTRIBUTES];
	const PrintedType *members[ATTRIBUTES];
	const PrintedType composite = {.kind = PRINTED_COMPOSITE,.member_count = ATTRIBUTES,
	.names = names,.members = members};
	const PrintedType array = {.kind = PRINTED_ARRAY,.delimiter = ',',.element = &composite};
	SyncBuffer	text;
	size_t		used;

	(void) state;
	for (int i = 0; i < ATTRIBUTES; i++)
	{
		names[i] = sync_string_literal("a");
		members[i] = &plain;
	}
	buffer_init(&text, arena, 4 * VALUES + 2);
	for (int i = 0; i < VALUES; i++)
		buffer_append(&text, i == 0 ? "{(1)" : ",(1)", 4);
	buffer_append(&text, "}", 2);
	used = arena_used(arena);
	assert_int_equal(read_value(&array, &legacy, text.data).type, SYNC_TEXT);
	assert_true(arena_used(arena) - used < 40 * text.len);
}

/* every beginning of a text, and every text with a character changed, is read to an end */
static void
test_mutilated(void **state)
{
	const SyncString names[] = {sync_string_literal("a"), sync_string_literal("b")};
	const PrintedType range = {.kind = PRINTED_RANGE,.element = &timestamptz};
	const PrintedType ranges = {.kind = PRINTED_ARRAY,.delimiter = ',',.element = &range};
	const PrintedType *const members[] = {&ranges, &bytea};
	const PrintedType composite = {.kind = PRINTED_COMPOSITE,.member_count = 2,.names = names,
	.members = members};
	static const char whole_text[] =
	"(\"{\"\"[\\\\\"\"2024-01-01 10:00:00+00\\\\\"\",\\\\\"\"2024-01-02 10:00:00.5+00\\\\\"\")\"\",NULL}\",\"\\\\x00ff\")";
	static const char changes[] = "{}()[],;\"\\ 0x=N";
	char		s[sizeof(whole_text)];

	(void) state;
	expect(&composite, whole_text,
		   "{\"a\":[{\"lower\":\"2024-01-01 10:00:00Z\",\"upper\":\"2024-01-02 10:00:00.5Z\","
		   "\"lower_exclusive\":0,\"upper_exclusive\":1},null]}");
	for (size_t n = 0; n < sizeof(whole_text); n++)
	{
		char	   *part = arena_strndup(arena, whole_text, n);

		(void) read_value(&composite, &iso, part);
		for (const char *c = changes; *c != '\0' && n + 1 < sizeof(whole_text); c++)
		{
			memcpy(s, whole_text, sizeof(s));
			s[n] = *c;
			(void) read_value(&composite, &iso, s);
		}
	}
}

static int
setup(void **state)
{
	(void) state;
	arena = arena_create(0);
	return arena == NULL;
}

static int
teardown(void **state)
{
	(void) state;
	arena_destroy(arena);
	return 0;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_scalars, setup, teardown),
		cmocka_unit_test_setup_teardown(test_times, setup, teardown),
		cmocka_unit_test_setup_teardown(test_arrays, setup, teardown),
		cmocka_unit_test_setup_teardown(test_composites, setup, teardown),
		cmocka_unit_test_setup_teardown(test_member_order, setup, teardown),
		cmocka_unit_test_setup_teardown(test_ranges, setup, teardown),
		cmocka_unit_test_setup_teardown(test_depth, setup, teardown),
		cmocka_unit_test_setup_teardown(test_limit, setup, teardown),
		cmocka_unit_test_setup_teardown(test_many_spaces, setup, teardown),
		cmocka_unit_test_setup_teardown(test_many_attributes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_mutilated, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
