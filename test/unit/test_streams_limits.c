/*-------------------------------------------------------------------------
 *
 * test_streams_limits.c
 *	  Streams of edition 3 that are too large, nest too deep or come to too many
 *	  alternatives: refused where that shows, soon, and without a fault.
 *
 *-------------------------------------------------------------------------
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "rules.h"

#define AUTH "auth.user_id()"

static SyncArena *arena;
static RulesMessage *messages;
static const SyncPlan *plan;

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

/* ---------------------------------------------------------------- helpers */

static bool
compile_text(const char *yaml)
{
	RulesOptions options = {.default_schema = "public"};

	plan = rules_compile(yaml, strlen(yaml), &options, arena, &messages);
	return plan != NULL;
}

static const char *
one_query(const char *query)
{
	return arena_printf(arena, "config:\n  edition: 3\nstreams:\n  s:\n    query: >-\n      %s\n",
						query);
}

static int
count_fatal(void)
{
	int			count = 0;

	for (const RulesMessage *m = messages; m != NULL; m = m->next)
		count += m->level == RULES_FATAL;
	return count;
}

static const char *
repeated(const char *before, const char *part, int count, const char *separator, const char *after)
{
	SyncBuffer	buffer;

	buffer_init(&buffer, arena, 100000);
	buffer_append(&buffer, before, strlen(before));
	for (int i = 0; i < count; i++)
	{
		if (i > 0)
			buffer_append(&buffer, separator, strlen(separator));
		buffer_append(&buffer, part, strlen(part));
	}
	buffer_append(&buffer, after, strlen(after) + 1);
	return buffer.data;
}

/* either way, but within seconds and without a fault */
static void
assert_bounded(const char *yaml)
{
	clock_t		start = clock();

	compile_text(yaml);
	if (plan == NULL)
		assert_int_equal(messages->level, RULES_FATAL);
	if ((double) (clock() - start) / CLOCKS_PER_SEC > 20)
		fail_msg("too slow: %.60s", yaml);
	arena_reset(arena);
}

/* a AND b AND ..., in parentheses so that it is not high */
static const char *
balanced(const char *part, const char *operator, int levels)
{
	const char *inner;

	if (levels == 0)
		return part;
	inner = balanced(part, operator, levels - 1);
	return arena_printf(arena, "(%s %s %s)", inner, operator, inner);
}

/* ---------------------------------------------------------------- limits */

static void
test_product_limit(void **state)
{
	SyncBuffer	query;

	(void) state;
	/* 10 * 10 alternatives are the most */
	for (int factor = 10; factor <= 11; factor++)
	{
		buffer_init(&query, arena, 4000);
		buffer_append(&query, "SELECT id FROM t WHERE (", 24);
		for (int i = 0; i < 10; i++)
			buffer_append(&query, i == 0 ? "a = 1" : " OR a = 1", i == 0 ? 5 : 9);
		buffer_append(&query, ") AND (", 7);
		for (int i = 0; i < factor; i++)
			buffer_append(&query, i == 0 ? "b = 2" : " OR b = 2", i == 0 ? 5 : 9);
		buffer_append(&query, ")", 2);
		assert_int_equal(compile_text(one_query(query.data)), factor == 10);
	}
	assert_int_equal(messages->error.code, SYNC_ERROR_LIMIT);
	assert_non_null(strstr(messages->error.message, "100 alternatives"));
}

/* no two of them alike */
static const char *
many_streams(int count)
{
	SyncBuffer	buffer;

	buffer_init(&buffer, arena, 1000000);
	buffer_append(&buffer, "config:\n  edition: 3\nstreams:\n", 30);
	for (int i = 0; i < count; i++)
	{
		const char *stream = arena_printf(arena, "  s%d: {query: SELECT id FROM t%d WHERE a = 1}\n",
										  i, i);

		buffer_append(&buffer, stream, strlen(stream));
	}
	buffer_append_char(&buffer, '\0');
	return buffer.data;
}

static void
test_hostile(void **state)
{
	static const char before[] = "SELECT id FROM t WHERE ";

	(void) state;
	for (int i = 0; i < 2; i++)
	{
		const char *operator = i == 0 ? "AND" : "OR";

		assert_bounded(one_query(arena_printf(arena, "%s%s", before,
											  balanced("x = 1", operator, 13))));
		assert_bounded(one_query(arena_printf(arena, "%s%s", before,
											  balanced("x = auth.user_id()", operator, 12))));
		assert_bounded(one_query(arena_printf(arena, "%s%s", before,
											  balanced("x IN y", operator, 12))));
		assert_bounded(one_query(arena_printf(arena, "%s%s", before,
											  balanced("x IN (SELECT a FROM b WHERE c)", operator,
													   12))));
		assert_bounded(one_query(arena_printf(arena, "%sNOT %s", before,
											  balanced("(a OR b)", operator, 12))));
	}
	assert_bounded(one_query(repeated(before, "(a OR b)", 900, " AND ", "")));
	assert_bounded(one_query(repeated(before, "(a AND b)", 900, " OR ", "")));
	assert_bounded(one_query(repeated(before, "NOT ", 190, "", "x")));
	assert_bounded(one_query(repeated("SELECT id FROM t, ", "t AS x", 20000, ", ", "")));
	assert_bounded(one_query(repeated("SELECT ", "id", 20000, ", ", " FROM t")));
	assert_bounded(one_query(repeated("SELECT * FROM ", "(SELECT x FROM ", 190, "", "t")));
	assert_bounded(repeated("config:\n  edition: 3\nwith:\n  c: ", "SELECT x FROM t WHERE ", 1, "",
							arena_printf(arena, "%s\nstreams:\n  s:\n    query: %s%s\n",
										 balanced("x = 1", "AND", 10), before,
										 balanced("x IN c", "AND", 10))));
	assert_bounded(many_streams(14000));
	assert_bounded(repeated("config:\n  edition: 3\nstreams:\n  s:\n    queries:\n",
							"      - SELECT id FROM t WHERE x = auth.parameter('a')\n", 10000, "", ""));
}

/* a condition that stands in many products makes a small text a large plan */
static bool
compile_repeated_list(const char *element, int count)
{
	const char *where = repeated("x IN ARRAY[", element, count, ", ", "] AND (a");

	for (int i = 0; i < 60; i++)
		where = arena_printf(arena, "%s OR a%d", where, i);
	return compile_text(one_query(arena_printf(arena, "SELECT id FROM t WHERE %s)", where)));
}

static void
test_plan_size(void **state)
{
	(void) state;
	assert_false(compile_repeated_list("'abc'", 20000));
	assert_int_equal(messages->error.code, SYNC_ERROR_LIMIT);
	assert_non_null(strstr(messages->error.message, "larger than"));

	/* of the largest JSON the BSON fits, unless it is much larger: it numbers what is in a list */
	assert_true(compile_repeated_list("'abcdefghijklmnopqrst'", 3000));
	assert_true(compile_repeated_list("NULL", 6000));
	assert_false(compile_repeated_list("NULL", 8700));
	assert_int_equal(messages->error.code, SYNC_ERROR_LIMIT);
	assert_non_null(strstr(messages->error.message, "larger than"));
}

static void
test_event_names(void **state)
{
	static const char head[] = "config:\n  edition: 3\nstreams:\n  s:\n    query: SELECT id FROM t\n"
		"event_definitions:\n";

	(void) state;
	assert_true(compile_text(arena_printf(arena, "%s  \"a\\x01b\": {payloads: [SELECT id FROM t]}\n", head)));
	assert_false(compile_text(arena_printf(arena, "%s  \"a\\0b\": {payloads: [SELECT id FROM t]}\n", head)));
	assert_non_null(strstr(messages->error.message, "must not contain NUL"));
	assert_int_equal(messages->error.line, 7);
}

/* what cannot be stored is refused where it is written */
static void
test_depth(void **state)
{
	(void) state;
	for (int count = 75; count <= 85; count += 10)
	{
		const char *query = repeated("SELECT id, x", " -> 'k'", count, "", " AS y FROM t");

		assert_int_equal(compile_text(one_query(query)), count == 75);
	}
	assert_int_equal(messages->error.code, SYNC_ERROR_LIMIT);
	assert_int_equal(messages->error.line, 6);
	for (int count = 159; count <= 160; count++)
		assert_int_equal(compile_text(one_query(repeated("SELECT id FROM t WHERE ", "a = 1", count,
														 " AND ", ""))), count == 159);
	assert_int_equal(messages->error.code, SYNC_ERROR_LIMIT);
	assert_non_null(strstr(messages->error.message, "more than 160 levels"));
	assert_int_equal(messages->error.line, 6);
}

static void
test_resolver_limit(void **state)
{
	static const char head[] = "config:\n  edition: 3\nstreams:\n  s:\n    queries:\n";
	SyncBuffer	yaml;

	(void) state;
	for (int count = 100; count <= 120; count += 20)
	{
		buffer_init(&yaml, arena, 10000);
		buffer_append(&yaml, head, strlen(head));
		for (int i = 0; i < count; i++)
		{
			const char *query =
				arena_printf(arena, "    - SELECT id FROM t WHERE x = auth.parameter('%d')\n", i);

			buffer_append(&yaml, query, strlen(query));
		}
		buffer_append(&yaml, "", 1);
		assert_int_equal(compile_text(yaml.data), count == 100);
	}
	assert_int_equal(count_fatal(), 1);
	assert_int_equal(messages->error.line, 4);
}

/* at whatever moment memory ends */
static void
test_out_of_memory(void **state)
{
	RulesOptions options = {.default_schema = "public"};
	const char *yaml = one_query("SELECT a.id FROM a JOIN b ON b.x = a.x, json_each(a.l) AS e WHERE "
								 "(b.u = " AUTH " OR a.p) AND e.value IN (SELECT k FROM m)");
	bool		done = false;

	(void) state;
	for (size_t budget = 1; !done; budget += 997)
	{
		SyncArena  *small = arena_create(budget);

		assert_true(budget < 4000000);
		if (small == NULL)
			continue;
		done = rules_compile(yaml, strlen(yaml), &options, small, &messages) != NULL;
		if (!done)
			assert_int_equal(messages->error.code, SYNC_ERROR_OUT_OF_MEMORY);
		arena_destroy(small);
	}
}

#define limit_test(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		limit_test(test_product_limit),
		limit_test(test_resolver_limit),
		limit_test(test_plan_size),
		limit_test(test_event_names),
		limit_test(test_depth),
		limit_test(test_hostile),
		limit_test(test_out_of_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
