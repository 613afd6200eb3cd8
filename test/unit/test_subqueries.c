/*-------------------------------------------------------------------------
 *
 * test_subqueries.c
 *	  What edition 3 says of subqueries and CTEs, the columns of json_each(), and in
 *	  which order edition 2 looks at the parts of a subquery.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>

#include "evaluate.h"
#include "plan.h"
#include "rules_test.h"

static int
count(RulesLevel level)
{
	int			found = 0;

	for (const RulesMessage *message = messages; message != NULL; message = message->next)
		found += message->level == level;
	return found;
}

static void
assert_messages(const char *yaml, int fatal, int warnings)
{
	const SyncPlan *plan = compile_rules(yaml);

	if (count(RULES_FATAL) != fatal || count(RULES_WARNING) != warnings ||
		(plan == NULL) != (fatal > 0))
		fail_msg("%s\n%d fatal, %d warnings: %s", yaml, count(RULES_FATAL), count(RULES_WARNING),
				 messages == NULL ? "" : messages->error.message);
}

/* with the SELECT as a CTE that no query uses, that one does, and that two do */
static void
assert_cte(const char *select, int fatal, int warnings)
{
	static const char *const queries[] = {
		"SELECT id FROM t", "SELECT id FROM t WHERE x IN a",
		"SELECT id FROM t WHERE x IN a AND y IN a"};
	static const char *const places[] = {
		"config: {edition: 3}\nwith: {a: \"%s\"}\nstreams:\n  s: {query: \"%s\"}\n",
		"config: {edition: 3}\nstreams:\n  s:\n    with: {a: \"%s\"}\n    query: \"%s\"\n"};

	for (int place = 0; place < 2; place++)
	{
		for (int used = 0; used < 3; used++)
		{
			char		yaml[400];

			snprintf(yaml, sizeof(yaml), places[place], select, queries[used]);
			assert_messages(yaml, fatal, warnings + (used == 0));
		}
	}
}

/* a CTE is looked at where it is defined: once, and also when nothing uses it */
static void
test_definition_of_cte(void **state)
{
	(void) state;
	assert_cte("SELECT id FROM u", 0, 0);
	assert_cte("SELECT upper(id) FROM u", 0, 1);
	assert_cte("SELECT upper(id) AS x FROM u", 0, 0);
	assert_cte("SELECT zz.id FROM u", 1, 0);
	assert_cte("SELECT id FROM u WHERE zz.x = 1", 1, 0);
	assert_cte("SELECT id FROM u WHERE nosuch(x)", 1, 0);
	assert_messages("config: {edition: 3}\nwith: {a: \"SELECT * FROM u\"}\n"
					"streams:\n  s: {query: SELECT id FROM t}\n", 1, 1);
	assert_messages("config: {edition: 3}\nwith: {a: \"SELECT id FROM u, v\"}\n"
					"streams:\n  s: {query: SELECT id FROM t}\n", 1, 1);
}

static void
assert_from(const char *source, int fatal, int warnings)
{
	char		yaml[400];

	snprintf(yaml, sizeof(yaml), "config: {edition: 3}\nstreams:\n"
			 "  s: {query: 'SELECT t.id FROM t, %s WHERE t.id = s.a'}\n", source);
	assert_messages(yaml, fatal, warnings);
}

static void
test_columns_of_subquery(void **state)
{
	(void) state;
	assert_from("(SELECT a, b FROM u) AS s", 0, 0);
	assert_from("(SELECT a, a FROM u) AS s", 1, 0);
	assert_from("(SELECT a, b AS a FROM u) AS s", 1, 0);
	assert_from("(SELECT a, b AS \"A\" FROM u) AS s", 0, 0);
	assert_from("(SELECT b, b FROM u) AS s(a, c)", 0, 0);
	assert_from("(SELECT b, c FROM u) AS s(a, a)", 1, 0);
	assert_from("(SELECT b, c FROM u) AS s(a)", 1, 0);
	assert_from("(SELECT b, c FROM u) AS s(a, b, d)", 1, 0);
	assert_from("(SELECT a, upper(b) FROM u) AS s", 0, 1);
	assert_from("(SELECT a, upper(b) FROM u) AS s(a, c)", 0, 0);
	assert_messages("config: {edition: 3}\nstreams:\n"
					"  s: {query: SELECT id FROM t WHERE x IN (SELECT upper(a) FROM u)}\n", 0, 0);
}

/* others than value and key are no error and have no value */
static void
test_columns_of_json_each(void **state)
{
	static const char *const conditions[] = {
		"j.value = 'x' AND j.key = 0", "j.value = 'x' AND j.atom IS NULL", "j.atom = 'x'",
		"auth.user_id() = j.atom"};
	static const int expected[] = {1, 1, 0, 0};
	BucketNaming naming = {.prefix = {"", 0}};
	SyncValue	values[] = {value_text("1", 1), value_text("[\"x\"]", 5)};

	(void) state;
	for (int i = 0; i < 4; i++)
	{
		const SyncPlan *plan =
			compile_rules(arena_printf(arena, "config: {edition: 3}\nstreams:\n  s:\n    query: "
									   "SELECT t.id FROM t, json_each(t.a) AS j WHERE %s\n",
									   conditions[i]));
		const TableBinding *binding;
		EvaluatedRow row;
		SyncError	error;

		assert_non_null(plan);
		binding = plan_bind(plan, "public", "t", shape("id a"), &naming, arena, &error);
		assert_non_null(binding);
		memset(&row, 0, sizeof(row));
		assert_int_equal(table_evaluate(binding, values, arena, &row), SYNC_OK);
		assert_int_equal(row.error_count, 0);
		assert_int_equal(row.bucket_row_count, expected[i]);
	}
}

/* an array of the request is found by one comparison; more would be an index of it */
static void
test_arrays_of_the_request(void **state)
{
	static const char *const conditions[] = {
		"w.id = j.key AND w.x = t.y AND j.value = t.x", "w.id = j.key AND w.id = j.value AND w.x = t.y",
		"w.id = j.key AND w.x = t.y AND j.value = 'a'",
		"w.id = j.key AND j.value = t.y AND w.x = auth.user_id()",
		"j.value = t.x AND w.id = j.key AND w.x = t.y",
		"j.value = t.y AND j.key = auth.user_id() AND w.id = t.id"};

	(void) state;
	for (int i = 0; i < 6; i++)
		assert_messages(arena_printf(arena, "config: {edition: 3}\nstreams:\n  s:\n    query: >-\n"
									 "      SELECT t.id FROM t, json_each(auth.parameter('l')) AS j, w "
									 "WHERE %s\n", conditions[i]), i < 3 ? 0 : 1, 0);
}

/* the value first: without one, or when it fails, nothing else is looked at */
static void
assert_alpha(const char *value, SyncValue a, SyncValue b, int entries, int errors)
{
	const SyncPlan *plan =
		compile_rules(arena_printf(arena, "config: {edition: 2}\nstreams:\n  s:\n    query: "
								   "SELECT id FROM t WHERE x IN (SELECT %s FROM u WHERE "
								   "auth.user_id() IN b)\n", value));
	BucketNaming naming = {.prefix = {"", 0}};
	const TableBinding *binding;
	EvaluatedRow row;
	SyncError	error;

	assert_non_null(plan);
	binding = plan_bind(plan, "public", "u", shape("a b"), &naming, arena, &error);
	assert_non_null(binding);
	memset(&row, 0, sizeof(row));
	assert_int_equal(table_evaluate(binding, (SyncValue[]) {a, b}, arena, &row), SYNC_OK);
	assert_int_equal(row.parameter_row_count, entries);
	assert_int_equal(row.error_count, errors);
}

static void
test_order_of_edition_2(void **state)
{
	(void) state;
	assert_alpha("a", value_text("x", 1), value_text("[1,2]", 5), 2, 0);
	assert_alpha("a", value_text("x", 1), value_text("bad", 3), 0, 1);
	assert_alpha("a", value_blob("x", 1), value_text("bad", 3), 0, 0);
	assert_alpha("a -> '$.k'", value_text("bad", 3), value_text("[]", 2), 0, 1);
	assert_alpha("a -> '$.k'", value_text("{}", 2), value_text("[]", 2), 0, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		rules_test(test_definition_of_cte),
		rules_test(test_columns_of_subquery),
		rules_test(test_columns_of_json_each),
		rules_test(test_arrays_of_the_request),
		rules_test(test_order_of_edition_2),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
