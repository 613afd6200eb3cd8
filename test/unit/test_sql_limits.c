/*-------------------------------------------------------------------------
 *
 * test_sql_limits.c
 *	  What the parser of the rules' SQL refuses although it is SQL: texts that
 *	  are too long or nested too deep; and what it does when memory runs out.
 *
 * What it accepts, and how: test_sql.c.
 *
 *-------------------------------------------------------------------------
 */
#include "core_test.h"
#include "sql.h"

static void
put(SyncBuffer *out, const char *s)
{
	buffer_append(out, s, strlen(s));
}

/* head, then a part n times, then a middle, then a tail n times */
static SyncErrorCode
nested(SyncArena *arena, const char *head, const char *part, const char *middle,
	   const char *tail, int n)
{
	SyncBuffer	sql;
	SyncError	error = {0};

	buffer_init(&sql, arena, 1000);
	put(&sql, head);
	for (int i = 0; i < n; i++)
		put(&sql, part);
	put(&sql, middle);
	for (int i = 0; i < n; i++)
		put(&sql, tail);
	if (sql_parse(sql.data, sql.len, arena, arena, &error) != NULL)
		return SYNC_OK;
	return error.code;
}

static void
hostile_nesting_is_refused(void **state)
{
	static const struct
	{
		const char *head;
		const char *part;
		const char *middle;
		const char *tail;
		int			fine;		/* a depth that must be possible */
	}			cases[] = {
		{"SELECT ", "(", "1", ")", 150},
		{"SELECT ", "f(", "1", ")", 150},
		{"SELECT ", "NOT ", "1", "", 150},
		{"SELECT ", "- ", "1", "", 150},
		{"SELECT ", "a[", "1", "]", 150},
		{"SELECT ", "ARRAY[", "1", "]", 150},
		{"SELECT ARRAY", "[", "1", "]", 150},
		{"SELECT ", "ARRAY(SELECT ", "1", ")", 60},
		{"SELECT ", "CASE ", "1", " END", 150},
		{"SELECT ", "CASE WHEN ", "1", " THEN 1 END", 150},
		{"SELECT ", "CAST(", "1", " AS text)", 150},
		{"SELECT ", "a BETWEEN ", "1", " AND 2", 150},
		{"SELECT ", "a = (b OR ", "1", ")", 150},
		{"SELECT ", "(SELECT ", "1", ")", 60},
		{"SELECT * FROM ", "(SELECT * FROM ", "t", ") x", 60},
		{"SELECT * FROM ", "(", "t JOIN u", ")", 150},
		{"SELECT * FROM ", "((SELECT 1) UNION SELECT * FROM ", "t", ") x", 40},
		{"", "WITH x AS (", "SELECT 1", ") SELECT 1", 60},
		{"", "SELECT 1 UNION (", "SELECT 1", ")", 60},
		{"SELECT ", "substring(a FROM ", "1", ")", 150},
		{"SELECT ", "extract(a FROM ", "1", ")", 150},
		{"SELECT ", "f(a) OVER (PARTITION BY ", "1", ")", 150},
		{"SELECT ", "f(a) FILTER (WHERE ", "1", ")", 150},
		{"SELECT ", "f(a ORDER BY ", "1", ")", 150}
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		assert_int_equal(nested(*state, cases[i].head, cases[i].part, cases[i].middle,
								cases[i].tail, cases[i].fine), SYNC_OK);
		assert_int_equal(nested(*state, cases[i].head, cases[i].part, cases[i].middle,
								cases[i].tail, 7000), SYNC_ERROR_LIMIT);
		assert_int_equal(nested(*state, cases[i].head, cases[i].part, "", "", 7000),
						 SYNC_ERROR_LIMIT);
		arena_reset(*state);
	}
}

/* a chain of operators is a high tree, too */
static void
long_chains_are_refused_at_a_height(void **state)
{
	static const char *const parts[] = {
		" OR a", " AND a = 1", " + 1", " || 'x'", " ->> 'k'", "::text", "[1]", " IS NULL",
		" IN b", " AT TIME ZONE 'x'"
	};
	static const char *const left = "SELECT a";

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
	{
		assert_int_equal(nested(*state, left, parts[i], "", "", 900), SYNC_OK);
		assert_int_equal(nested(*state, left, parts[i], "", "", 10000), SYNC_ERROR_LIMIT);
		arena_reset(*state);
	}
	/* lists are not high */
	assert_int_equal(nested(*state, "SELECT a", ", a = 1", "", "", 20000), SYNC_OK);
	assert_int_equal(nested(*state, "SELECT 1 FROM a", ", a", "", "", 20000), SYNC_OK);
	assert_int_equal(nested(*state, "SELECT 1", " UNION SELECT 1", "", "", 10000), SYNC_OK);
}

/* subqueries count to the height of what they stand in */
static void
height_goes_through_subqueries(void **state)
{
	SyncBuffer	sql;
	SyncError	error = {0};

	buffer_init(&sql, *state, 1000);
	put(&sql, "SELECT * FROM (SELECT a");
	for (int i = 0; i < 600; i++)
		put(&sql, " + 1");
	put(&sql, " FROM t) x WHERE (SELECT a");
	for (int i = 0; i < 600; i++)
		put(&sql, " + 1");
	put(&sql, ")");
	assert_non_null(sql_parse(sql.data, sql.len, *state, *state, &error));
	for (int i = 0; i < 600; i++)
		put(&sql, " + 1");
	assert_null(sql_parse(sql.data, sql.len, *state, *state, &error));
	assert_int_equal(error.code, SYNC_ERROR_LIMIT);
}

static void
length_is_limited(void **state)
{
	char	   *sql = arena_alloc(*state, SQL_MAX_LENGTH + 1);
	SyncError	error = {0};

	memset(sql, ' ', SQL_MAX_LENGTH + 1);
	memcpy(sql, "SELECT 1", 8);
	assert_non_null(sql_parse(sql, SQL_MAX_LENGTH, *state, *state, &error));
	assert_null(sql_parse(sql, SQL_MAX_LENGTH + 1, *state, *state, &error));
	assert_int_equal(error.code, SYNC_ERROR_LIMIT);
}

static bool
try_budget(const char *sql, size_t budget)
{
	ArenaGuard	guard;
	SyncArena  *arena = arena_create(budget);
	volatile bool done = false;

	if (arena == NULL)
		return false;
	arena_guard_push(arena, &guard);
	if (setjmp(guard.jump) == 0)
	{
		SyncError	error = {0};

		assert_non_null(sql_parse(sql, strlen(sql), arena, arena, &error));
		done = true;
	}
	arena_guard_pop(arena, &guard);
	arena_destroy(arena);
	return done;
}

/* with any budget: a result, or a jump to the guard */
static void
every_failing_allocation_jumps(void **state)
{
	const char *sql =
		"SELECT A.*, E'x\\n' AS \"B\", CAST(x AS double precision), (ARRAY[1, 2])[1], "
		"f(a, b, c, d, e), CASE a WHEN -01 THEN 2 ELSE 3 END FROM s.T x(a, b), json_each(x.y) j "
		"JOIN (SELECT 1 UNION SELECT 2) z USING (q) WHERE x IN (SELECT y FROM t) AND "
		"extract(year FROM z) OR overlay(a PLACING b FROM 1) = interval '1' GROUP BY a, b; SELECT 2";
	size_t		budget = 1;
	int			failures = 0;

	(void) state;
	while (!try_budget(sql, budget))
	{
		budget += 16;
		failures++;
		assert_true(budget < 200000);
	}
	assert_true(failures > 100);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		arena_test(hostile_nesting_is_refused),
		arena_test(long_chains_are_refused_at_a_height),
		arena_test(height_goes_through_subqueries),
		arena_test(length_is_limited),
		cmocka_unit_test(every_failing_allocation_jumps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
