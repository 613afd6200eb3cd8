/*-------------------------------------------------------------------------
 *
 * test_alpha_limits.c
 *	  Streams of edition 2 that multiply out to too much, nest too deep or meet too
 *	  little memory.
 *
 *-------------------------------------------------------------------------
 */
#include "alpha_test.h"

/* ---------------------------------------------------------------- limits */

/* a condition of `count` ORs under AND */
static const char *
product(int count, const char *left, const char *right)
{
	SyncBuffer	query;

	buffer_init(&query, arena, 1000);
	buffer_append(&query, "SELECT id FROM t WHERE ", 23);
	for (int i = 0; i < count; i++)
	{
		const char *factor = arena_printf(arena, "%s(%s OR %s)", i > 0 ? " AND " : "", left, right);

		buffer_append(&query, factor, strlen(factor));
	}
	buffer_append_char(&query, '\0');
	return query.data;
}

static void
test_products_are_bounded(void **state)
{
	const char *long_condition;
	SyncBuffer	text;

	(void) state;
	assert_int_equal(compile_ok(product(9, "x = auth.user_id()", "n = 1"))->bucket_count, 512);
	assert_refused(product(10, "x = auth.user_id()", "n = 1"), SYNC_ERROR_LIMIT, 25, "1000");
	assert_refused(product(900, "x = auth.user_id()", "n = 1"), SYNC_ERROR_LIMIT, 25, "1000");

	/* few variants, but long ones */
	buffer_init(&text, arena, 10000);
	for (int i = 0; i < 900; i++)
		buffer_append(&text, i == 0 ? "x = 'abcd'" : " OR x = 'abcd'", i == 0 ? 10 : 14);
	buffer_append_char(&text, '\0');
	long_condition = arena_printf(arena, "(%s)", text.data);
	assert_int_equal(compile_ok(product(4, "x = auth.user_id()", long_condition))->bucket_count, 16);
	assert_refused(product(8, "x = auth.user_id()", long_condition), SYNC_ERROR_LIMIT, 25, "longer");
}

/* the same bytes are not allowed to each of many streams */
static void
test_streams_share_the_bound(void **state)
{
	const char *query = product(9, "x = auth.user_id()", "n = 1");
	SyncBuffer	yaml;

	(void) state;
	buffer_init(&yaml, arena, 10000);
	buffer_append(&yaml, "config:\n  edition: 2\nstreams:\n", 30);
	for (int i = 0; i < 100; i++)
	{
		const char *stream = arena_printf(arena, "  s%d:\n    query: %s\n", i, query);

		buffer_append(&yaml, stream, strlen(stream));
	}
	buffer_append_char(&yaml, '\0');
	assert_null(compile_rules(yaml.data));
	for (const RulesMessage *message = messages; message != NULL; message = message->next)
	{
		if (message->level == RULES_FATAL)
			assert_int_equal(message->error.code, SYNC_ERROR_LIMIT);
	}
}

/* as deep as the parser lets it be */
static void
test_deep_conditions(void **state)
{
	SyncBuffer	query;
	const SyncPlan *plan;
	EvaluatedRow row;

	(void) state;
	buffer_init(&query, arena, 10000);
	buffer_append(&query, "SELECT id FROM t WHERE ", 23);
	for (int i = 0; i < 150; i++)
		buffer_append(&query, "NOT ", 4);
	buffer_append(&query, "x = auth.user_id()", 18);
	for (int i = 0; i < 800; i++)
	{
		buffer_append(&query, " AND ", 5);
		if (i % 2 == 0)
			buffer_append(&query, "n = 1", 5);
		else
			buffer_append(&query, "y = auth.user_id()", 18);
	}
	buffer_append_char(&query, '\0');
	plan = compile_ok(query.data);
	assert_int_equal(plan->bucket_count, 1);
	row = evaluate(plan, "t", "id x y n", ROW(text("X"), text("Y"), value_integer(1)));
	assert_int_equal(row.bucket_row_count, 1);
	assert_int_equal(row.error_count, 0);
}

/* wherever memory ends, there is a fatal message and no plan, or no binding, or no row */
static void
test_memory(void **state)
{
	static const char yaml[] = "config:\n  edition: 2\nstreams:\n  s:\n    query: SELECT id FROM t "
		"WHERE (x = auth.user_id() OR n = 1) AND (a && (SELECT k FROM u WHERE uid = auth.user_id()) "
		"OR auth.user_id() IN (SELECT uid FROM u WHERE k = auth.parameter('a')))";
	RulesOptions options = {.default_schema = "public"};
	BucketNaming naming = {.prefix = str("")};
	const SyncValue values[] = {text("1"), text("X"), value_integer(1), text("[1,2]")};
	bool		done = false;
	int			failures = 0;

	(void) state;
	for (size_t budget = 256; !done; budget += 61)
	{
		SyncArena  *small = arena_create(budget);
		const SyncPlan *plan;
		const TableBinding *binding;
		EvaluatedRow row;
		SyncError	error;

		if (small == NULL)
			continue;
		plan = rules_compile(yaml, strlen(yaml), &options, small, &messages);
		if (plan == NULL)
			assert_int_equal(messages->error.code, SYNC_ERROR_OUT_OF_MEMORY);
		else
		{
			binding = plan_bind(plan, "public", "t", shape("id x n a"), &naming, small, &error);
			if (binding == NULL)
				assert_int_equal(error.code, SYNC_ERROR_OUT_OF_MEMORY);
			else if (table_evaluate(binding, values, small, &row) == SYNC_OK)
			{
				assert_string_equal(buckets_of(&row), "s|0[\"X\",1] s|0[\"X\",2] s|1[\"X\"] "
									"s|2[1] s|2[2] s|3[]");
				done = true;
			}
		}
		failures += !done;
		arena_destroy(small);
	}
	assert_true(failures > 10);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		rules_test(test_products_are_bounded),
		rules_test(test_streams_share_the_bound),
		rules_test(test_deep_conditions),
		rules_test(test_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
