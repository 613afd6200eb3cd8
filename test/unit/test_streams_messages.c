/*-------------------------------------------------------------------------
 *
 * test_streams_messages.c
 *	  What is said of streams of edition 3, and where: errors, hints, warnings.
 *
 *-------------------------------------------------------------------------
 */
#include "streams_test.h"

/* ---------------------------------------------------------------- messages */

static void
test_positions(void **state)
{
	(void) state;
	assert_refused("SELECT id FROM t WHERE x > " AUTH, SYNC_ERROR_CONFIG, 24, "mixes");
	assert_refused("SELECT id FROM t WHERE a AND b LIKE 'x'", SYNC_ERROR_CONFIG, 30, "LIKE");
	assert_refused("SELECT id FROM t LEFT JOIN u ON u.a = t.a", SYNC_ERROR_CONFIG, 28, "inner");
	assert_refused("SELECT id FROM t ORDER BY id", SYNC_ERROR_CONFIG, 18, "ORDER BY");
	assert_refused("SELECT t.id, u.id FROM t, u", SYNC_ERROR_CONFIG, 14, "same table");
	assert_refused("SELECT 1 AS id FROM t", SYNC_ERROR_CONFIG, 1, "no column");
	assert_refused("SELECT id, " AUTH " AS u FROM t", SYNC_ERROR_CONFIG, 12, "request");
	assert_refused("SELECT * FROM t, u", SYNC_ERROR_CONFIG, 8, "one table only");
	assert_refused("SELECT id FROM t WHERE x IN (SELECT a, b FROM u)", SYNC_ERROR_CONFIG, 30,
				   "exactly one column");
	assert_refused("SELECT id FROM t WHERE x = (SELECT a FROM u)", SYNC_ERROR_CONFIG, 29,
				   "subquery");
	assert_refused("SELECT id, x IN y AS z FROM t", SYNC_ERROR_CONFIG, 12, "elements");
	assert_refused("SELECT id, substring(x FROM 2) AS y FROM t", SYNC_ERROR_UNSUPPORTED, 12, "FROM");
	assert_refused("SELECT id FROM t WHERE upper(a, b)", SYNC_ERROR_CONFIG, 24, "1 argument, not 2");
	assert_refused("SELECT id FROM t WHERE subscription.user_id() = x", SYNC_ERROR_CONFIG, 24,
				   "unknown function");
	assert_refused("SELECT id FROM generate_series(1, 2)", SYNC_ERROR_UNSUPPORTED, 16, "FROM");
	assert_refused("INSERT INTO t VALUES (1)", SYNC_ERROR_CONFIG, 1, "SELECT");
}

static void
test_hints(void **state)
{
	static const char *const cases[][2] = {
		{"x = auth.user_id", "Write auth.user_id() or auth.parameter(name)."},
		{"x = subscription.p", "Write subscription.parameter(name)."},
		{"x = token_parameters.user_id",
		"Values of the request are in auth, subscription and connection."},
		{"x = request.user_id()", "Values of the request are in auth, subscription and connection."},
		{"x = current_user", "Values of the request are in auth, subscription and connection."},
		{"tt.x = 1", "Did you mean \"tx\"?"},
		{"x IN (1, 2)", "Write ARRAY[...]."},
		{"x::int = 1", "Casts are possible to text, numeric, integer, real and blob."},
	};

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		assert_false(compile_text(one_query(arena_printf(arena, "SELECT id FROM tx WHERE %s",
														 cases[i][0]))));
		assert_string_equal(messages->error.hint, cases[i][1]);
		assert_null(messages->next);
	}
}

/* everything that is wrong in all streams, and each thing once */
static void
test_all_errors_at_once(void **state)
{
	(void) state;
	assert_false(compile_text("config:\n  edition: 3\nstreams:\n"
							  "  a:\n    query: SELECT q.id FROM t WHERE f(x) AND x > " AUTH " LIMIT 1\n"
							  "  b:\n    queries:\n"
							  "      - SELECT id FROM\n"
							  "      - SELECT id FROM t WHERE y IN (1, 2)\n"));
	assert_int_equal(count_messages(RULES_FATAL), 6);
}

static void
test_warnings(void **state)
{
	static const struct
	{
		const char *query;
		int			count;
	}			cases[] = {
		{"SELECT id FROM t WHERE x = subscription.parameter('p')", 1},
		{"SELECT id FROM t WHERE x = connection.parameter('p') AND y IN auth.parameter('q')", 0},
		{"SELECT id FROM t WHERE x IN (SELECT a FROM u WHERE b IN subscription.parameter('p'))", 1},
		{"SELECT id FROM t WHERE x = " AUTH " || subscription.parameter('p')", 0},
		{"SELECT id FROM t WHERE x IN (SELECT a FROM u)", 0},
		/* filters count when nothing of the request is a value */
		{"SELECT id FROM t WHERE x IN (SELECT a FROM u WHERE connection.parameter('k') = 'x')", 1},
		{"SELECT id FROM t WHERE x IN (SELECT a FROM u) AND connection.parameter('k') = " AUTH, 0},
		{"SELECT id FROM t WHERE x = subscription.parameter('p') AND auth.parameter('k')", 1},
		/* an array that is a constant is not up to the client */
		{"SELECT id FROM t WHERE x = connection.parameter('k') AND y && '[1,2]'", 0},
		{"SELECT id FROM t WHERE y && '[1,2]' AND connection.parameter('k') = 1", 0},
		{"SELECT id FROM t WHERE y && subscription.parameter('k')", 1},
		{"SELECT id FROM t WHERE x IN (SELECT a FROM u WHERE b && '[1]' AND c = connection.parameter('k'))", 0},
		{"SELECT id FROM t WHERE x = connection.parameter('k') AND y IN '[1,2]'", 1},
		{"SELECT a.id FROM t AS a, json_each(a.x) AS e WHERE e.value = 1", 0},
		{"SELECT a.id FROM t AS a, u WHERE a.x = u.x", 1},
		{"SELECT a.id FROM t a, (SELECT x FROM u) AS o WHERE a.x = o.x", 1},
		{"SELECT t.id FROM t, u AS a WHERE a.x = t.x", 0},
		{"SELECT id AS x, *, upper(y) FROM t", 2},
		{"SELECT id, * FROM t", 0},
		{"SELECT t.table_suffix() AS x FROM t", 1},
	};

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		compile_query(cases[i].query);
		if (count_messages(RULES_WARNING) != cases[i].count)
			fail_msg("%d warnings: %s", count_messages(RULES_WARNING), cases[i].query);
	}
	compile_ok("config:\n  edition: 3\nstreams:\n  s:\n"
			   "    accept_potentially_dangerous_queries: true\n"
			   "    query: SELECT id FROM t WHERE x = subscription.parameter('p')\n");
	assert_null(messages);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		rules_test(test_positions),
		rules_test(test_hints),
		rules_test(test_all_errors_at_once),
		rules_test(test_warnings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
