/*-------------------------------------------------------------------------
 *
 * test_ignored.c
 *	  SQL that the service accepts and does not look at: it must deploy here, too,
 *	  and make the same rows as without it.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>

#include "evaluate.h"
#include "plan.h"
#include "rules_test.h"

/* what the query makes of a row of t_1, as "table id json" */
static const char *
result(const char *format, const char *query)
{
	char		yaml[500];
	const SyncPlan *plan;
	const TableBinding *binding;
	BucketNaming naming = {.prefix = {"", 0}};
	SyncValue	values[] = {value_text("1", 1), value_text("5a", 2), value_text("[\"5a\"]", 6)};
	EvaluatedRow row;
	SyncError	error;

	snprintf(yaml, sizeof(yaml), format, query);
	plan = compile_rules(yaml);
	if (plan == NULL)
		fail_msg("%s\nrefused: %s", query, messages->error.message);
	binding = plan_bind(plan, "public", "t_1", shape("id x y"), &naming, arena, &error);
	assert_non_null(binding);
	memset(&row, 0, sizeof(row));
	assert_int_equal(table_evaluate(binding, values, arena, &row), SYNC_OK);
	assert_int_equal(row.error_count, 0);
	if (row.bucket_row_count == 0)
		return "";
	assert_int_equal(row.bucket_row_count, 1);
	return arena_printf(arena, "%.*s %.*s %.*s", (int) row.bucket_rows[0].table.len,
						row.bucket_rows[0].table.data, (int) row.bucket_rows[0].row_id.len,
						row.bucket_rows[0].row_id.data, (int) row.bucket_rows[0].json.len,
						row.bucket_rows[0].json.data);
}

#define LEGACY	"bucket_definitions:\n  b:\n    data:\n      - >-\n        %s\n"
#define ALPHA	"config: {edition: 2}\nstreams:\n  s:\n    query: >-\n        %s\n"
#define STREAM	"config: {edition: 3}\nstreams:\n  s:\n    query: >-\n        %s\n"

static void
assert_same(const char *format, const char *query, const char *plain)
{
	assert_string_equal(result(format, query), result(format, plain));
	assert_string_not_equal(result(format, query), "");
}

static void
test_bucket_definitions(void **state)
{
	static const char *const formats[] = {LEGACY, ALPHA};

	(void) state;
	for (int i = 0; i < 2; i++)
	{
		/* an alias that repeats the name of a wildcard table */
		assert_string_equal(result(formats[i], "SELECT id FROM \"t_%\" AS \"t_%\""),
							"t_1 1 {\"id\":\"1\"}");
		assert_same(formats[i], "SELECT z.id FROM t_1 AS z(a, b)", "SELECT z.id FROM t_1 AS z");
		assert_same(formats[i], "SELECT id, upper(DISTINCT x) AS v FROM t_1",
					"SELECT id, upper(x) AS v FROM t_1");
		assert_same(formats[i], "SELECT id, upper(x ORDER BY x) AS v FROM t_1",
					"SELECT id, upper(x) AS v FROM t_1");
		assert_same(formats[i], "SELECT id, upper(x) FILTER (WHERE x) AS v FROM t_1",
					"SELECT id, upper(x) AS v FROM t_1");
		assert_same(formats[i], "SELECT id, upper(x) OVER () AS v FROM t_1",
					"SELECT id, upper(x) AS v FROM t_1");
	}
}

static void
test_parameter_queries(void **state)
{
	static const char *const queries[] = {
		"SELECT id AS p FROM u AS u", "SELECT id AS p FROM u AS u(a)",
		"SELECT upper(DISTINCT request.user_id()) AS p",
		"SELECT nope AS p FROM json_each(request.jwt() -> 'l')",
		"SELECT value AS p FROM json_each(request.jwt() -> 'l') AS j(a)"};

	(void) state;
	for (size_t i = 0; i < sizeof(queries) / sizeof(queries[0]); i++)
	{
		char		yaml[300];

		snprintf(yaml, sizeof(yaml), "bucket_definitions:\n  b:\n    parameters: \"%s\"\n"
				 "    data: [SELECT id FROM t WHERE x = bucket.p]\n", queries[i]);
		if (compile_rules(yaml) == NULL)
			fail_msg("%s\nrefused: %s", queries[i], messages->error.message);
	}
	assert_null(compile_rules("bucket_definitions:\n  b:\n    parameters: SELECT id AS p FROM u AS v\n"
							  "    data: [SELECT id FROM t WHERE x = bucket.p]\n"));
}

static void
test_streams(void **state)
{
	(void) state;
	assert_same(STREAM, "SELECT other.t_1.id FROM t_1 WHERE other.t_1.x = '5a'",
				"SELECT id FROM t_1 WHERE x = '5a'");
	assert_same(STREAM, "SELECT public.t_1.* FROM t_1", "SELECT * FROM t_1");
	assert_same(STREAM, "SELECT z.id FROM t_1 AS z(a, b)", "SELECT z.id FROM t_1 AS z");
	assert_same(STREAM, "SELECT DISTINCT ON (nosuch(x)) id FROM t_1", "SELECT id FROM t_1");
	assert_same(STREAM, "SELECT id, \"Upper\"(x) AS v FROM t_1",
				"SELECT id, upper(x) AS v FROM t_1");
	assert_same(STREAM, "SELECT t_1.id FROM t_1, public.json_each(t_1.y) WITH ORDINALITY AS j(a, b) "
				"WHERE j.value = t_1.x",
				"SELECT t_1.id FROM t_1, json_each(t_1.y) AS j WHERE j.value = t_1.x");
	assert_non_null(compile_rules("config: {edition: 3}\nstreams:\n"
								  "  s: {query: SELECT FROM t WHERE x = auth.\"USER_ID\"()}\n"));
	assert_null(compile_rules("config: {edition: 3}\nstreams:\n"
							  "  s: {query: SELECT FROM t WHERE nosuch(x)}\n"));
}

/* a + before a value changes nothing, and is no negation */
static void
test_unary_plus(void **state)
{
	(void) state;
	assert_string_equal(result(STREAM, "SELECT id, +x AS a, + +x AS b, +'7b' AS c, 1 + +1 AS d FROM t_1"),
						"t_1 1 {\"id\":\"1\",\"a\":\"5a\",\"b\":\"5a\",\"c\":\"7b\",\"d\":2}");
	assert_same(STREAM, "SELECT id FROM t_1 WHERE +x", "SELECT id FROM t_1 WHERE x");
	assert_string_equal(result(STREAM, "SELECT id FROM t_1 WHERE NOT (+x)"), "");
	assert_null(compile_rules("config: {edition: 3}\nstreams:\n"
							  "  s: {query: 'SELECT id, -x AS v FROM t'}\n"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		rules_test(test_bucket_definitions),
		rules_test(test_parameter_queries),
		rules_test(test_streams),
		rules_test(test_unary_plus),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
