/*-------------------------------------------------------------------------
 *
 * test_streams_limits.c
 *	  Streams of edition 3 that are too large, nest too deep or come to too many
 *	  alternatives: refused where that shows, soon, and without a fault.
 *
 *-------------------------------------------------------------------------
 */
#include "streams_test.h"

/* ---------------------------------------------------------------- helpers */

/* only into plan and messages: what is stored is not looked at */
static bool
is_accepted(const char *yaml)
{
	plan = compile_rules(yaml);
	return plan != NULL;
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

static double
seconds_since(clock_t start)
{
	return (double) (clock() - start) / CLOCKS_PER_SEC;
}

/* accepted (SYNC_OK) or refused with that code first, within the time and without a fault */
static void
assert_outcome(const char *yaml, SyncErrorCode code, double seconds)
{
	clock_t		start = clock();
	SyncErrorCode got;
	double		took;

	is_accepted(yaml);
	took = seconds_since(start);
	got = plan != NULL ? SYNC_OK : messages->error.code;
	if (got != code || (plan == NULL && messages->level != RULES_FATAL))
		fail_msg("outcome %d instead of %d (%s): %.400s", got, code,
				 messages != NULL ? messages->error.message : "", yaml);
	if (took > seconds * SLOW)
		fail_msg("%.3f s: %.400s", took, yaml);
	arena_reset(arena);
}

#define assert_bounded(yaml, code) assert_outcome(yaml, code, 2)

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
		assert_int_equal(is_accepted(one_query(query.data)), factor == 10);
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
		SyncErrorCode or_only = i == 0 ? SYNC_OK : SYNC_ERROR_LIMIT;

		assert_bounded(one_query(arena_printf(arena, "%s%s", before,
											  balanced("x = 1", operator, 6))), SYNC_OK);
		assert_bounded(one_query(arena_printf(arena, "%s%s", before,
											  balanced("x = 1", operator, 13))), SYNC_ERROR_LIMIT);
		assert_bounded(one_query(arena_printf(arena, "%s%s", before,
											  balanced("x = auth.user_id()", operator, 12))),
					   or_only);
		assert_bounded(one_query(arena_printf(arena, "%s%s", before,
											  balanced("x IN y", operator, 12))), SYNC_ERROR_LIMIT);
		assert_bounded(one_query(arena_printf(arena, "%s%s", before,
											  balanced("x IN (SELECT a FROM b WHERE c)", operator,
													   12))), SYNC_ERROR_LIMIT);
		assert_bounded(one_query(arena_printf(arena, "%sNOT %s", before,
											  balanced("(a OR b)", operator, 12))),
					   SYNC_ERROR_LIMIT);
	}
	assert_bounded(one_query(repeated(before, "(a OR b)", 900, " AND ", "")), SYNC_ERROR_LIMIT);
	assert_bounded(one_query(repeated(before, "(a AND b)", 90, " OR ", "")), SYNC_OK);
	assert_bounded(one_query(repeated(before, "(a AND b)", 900, " OR ", "")), SYNC_ERROR_LIMIT);
	assert_bounded(one_query(repeated(before, "NOT ", 190, "", "x")), SYNC_OK);
	assert_bounded(one_query(repeated("SELECT id FROM t, ", "t AS x", 20000, ", ", "")),
				   SYNC_ERROR_CONFIG);
	assert_bounded(one_query(repeated("SELECT ", "id", 20000, ", ", " FROM t")), SYNC_OK);
	assert_bounded(one_query(repeated("SELECT ", "nothing.id", 20000, ", ", " FROM t")),
				   SYNC_ERROR_CONFIG);
	assert_bounded(repeated("config:\n  edition: 3\nwith:\n  c: ", "SELECT x FROM t WHERE ", 1, "",
							arena_printf(arena, "%s\nstreams:\n  s:\n    query: %s%s\n",
										 balanced("x = 1", "AND", 10), before,
										 balanced("x IN c", "AND", 10))), SYNC_ERROR_LIMIT);
	assert_bounded(many_streams(14000), SYNC_OK);
	assert_bounded(repeated("config:\n  edition: 3\nstreams:\n  s:\n    queries:\n",
							"      - SELECT id FROM t WHERE x = auth.parameter('a')\n", 10000, "", ""),
				   SYNC_OK);
}

/* texts with numbers in them, one behind the other: # is the number, ~ the next one */
static const char *
numbered(const char *before, const char *part, int count, const char *separator, const char *after)
{
	SyncBuffer	buffer;

	buffer_init(&buffer, arena, 1000000);
	append(&buffer, before);
	for (int i = 0; i < count; i++)
	{
		append(&buffer, i > 0 ? separator : "");
		for (const char *at = part; *at != '\0'; at++)
		{
			if (*at == '#')
				buffer_append_int(&buffer, i);
			else if (*at == '~')
				buffer_append_int(&buffer, i + 1);
			else
				buffer_append_char(&buffer, *at);
		}
	}
	append(&buffer, after);
	buffer_append_char(&buffer, '\0');
	return buffer.data;
}

/* a SELECT in FROM of one in FROM ..., with what each selects from the one inside */
static const char *
nested(const char *items, const char *first, int levels)
{
	const char *query = first;

	for (int i = 0; i < levels; i++)
		query = arena_printf(arena, "SELECT %s FROM (%s) AS s", items, query);
	return query;
}

/* names are looked up, not searched for */
static void
test_many_names(void **state)
{
	(void) state;
	assert_bounded(one_query(numbered("SELECT t0.id FROM ", "t AS t#", 400, ", ", "")),
				   SYNC_OK);
	assert_bounded(one_query(numbered("SELECT t0.id FROM ", "t AS t#", 22000, ", ", "")),
				   SYNC_ERROR_LIMIT);
	assert_bounded(one_query(numbered("SELECT s0.id FROM ", "(SELECT 1 AS x) AS s#", 9000, ", ", "")),
				   SYNC_ERROR_CONFIG);
	assert_bounded(one_query(numbered(numbered("SELECT s.id, ", "s.c#", 11000, ", ", " FROM (SELECT id, "),
									  "a AS c#", 11000, ", ", " FROM t) AS s")), SYNC_OK);
	assert_bounded(numbered(numbered("config:\n  edition: 3\nwith:\n", "  c#: SELECT a FROM t\n", 16000,
									 "", "streams:\n"),
							"  s#: {query: SELECT id FROM t WHERE x IN c15999}\n", 9000, "", ""), SYNC_OK);
}

/*
 * A column of a subquery is one expression wherever it is used: what all walks
 * come to doubles with each level.
 */
static void
test_shared_columns(void **state)
{
	(void) state;
	assert_outcome(one_query(nested("s.c||s.c AS c, s.id AS id", "SELECT t.c AS c, t.id AS id FROM t", 12)),
				   SYNC_OK, 1);
	assert_outcome(one_query(nested("s.c||s.c AS c, s.id AS id", "SELECT t.c AS c, t.id AS id FROM t", 60)),
				   SYNC_ERROR_LIMIT, 1);
	/* each level as often as there is room for */
	assert_outcome(one_query(nested(repeated("", "s.c", 60, "||", " AS c, s.id AS id"),
									"SELECT t.c AS c, t.id AS id FROM t", 60)), SYNC_ERROR_LIMIT, 1);
	/* by *, in conditions, in functions and behind IN */
	assert_outcome(one_query(arena_printf(arena, "SELECT q.* FROM (%s) AS q",
										  nested("s.c||s.c AS c, s.id AS id",
												 "SELECT t.c AS c, t.id AS id FROM t", 60))),
				   SYNC_ERROR_LIMIT, 1);
	assert_outcome(one_query(nested("s.id AS id, s.c = s.c AND s.c = s.c AS c",
									"SELECT id, c FROM t", 60)), SYNC_ERROR_LIMIT, 1);
	assert_outcome(one_query(arena_printf(arena, "SELECT id FROM u WHERE u.a IN (SELECT c FROM (%s) AS q)",
										  nested("s.c||s.c AS c", "SELECT t.c AS c FROM t", 60))),
				   SYNC_ERROR_LIMIT, 1);
	assert_outcome(one_query(arena_printf(arena, "SELECT u.id FROM u, json_each(u.a) AS e WHERE e.value IN "
										  "(SELECT c FROM (%s) AS q)",
										  nested("s.c||s.c AS c", "SELECT auth.user_id() AS c", 60))),
				   SYNC_ERROR_LIMIT, 1);
}

/* the use of a large condition in each of many products */
static void
test_shared_conditions(void **state)
{
	(void) state;
	for (int products = 1; products <= 99; products += 98)
	{
		const char *large = repeated("t.x IN ARRAY[", "1", 60000, ",", "]");
		const char *ors = numbered("(", "t.a# = auth.parameter('p#')", products, " OR ", ")");

		assert_outcome(one_query(arena_printf(arena, "SELECT id FROM t WHERE %s AND %s", large, ors)),
					   products == 1 ? SYNC_OK : SYNC_ERROR_LIMIT, 1);
	}
}

/* tables that are joined by two columns each: lookups that each need the next one twice */
static void
test_shared_lookups(void **state)
{
	for (int tables = 20; tables <= 60; tables += 40)
	{
		const char *query = numbered("SELECT t0.* FROM t0, ", "t~", tables, ", ", " WHERE ");

		query = numbered(query, "t#.a = t~.a AND t#.b = t~.b", tables, " AND ", "");
		query = arena_printf(arena, "%s AND t%d.c = connection.parameter('c')", query, tables);
		assert_true(is_accepted(one_query(query)));
		/* what the client says decides alone, however long the way is */
		assert_non_null(strstr(messages->error.message, "a client can choose freely"));
		assert_outcome(one_query(query), SYNC_OK, 1);
	}
	(void) state;
}

/* ---------------------------------------------------------------- cancelling */

static int	asked;
static int	asked_until;

static bool
cancel_later(void)
{
	return ++asked > asked_until;
}

/* at whatever moment: in every edition, and while the plan is read back */
static void
test_cancel(void **state)
{
	static const char *const heads[] = {
		"bucket_definitions:\n  b:\n    data:\n",
		"config:\n  edition: 3\nstreams:\n  s:\n    queries:\n",
	};
	RulesOptions options = {.default_schema = "public", .cancel = cancel_later};

	(void) state;
	for (int i = 0; i < 2; i++)
	{
		const char *yaml = numbered(heads[i], "      - SELECT id, a FROM t# WHERE a = 1\n", 500, "", "");
		SyncArena  *fresh = arena_create(0);	/* where it is asked depends on what was allocated before */

		asked = 0;
		asked_until = INT32_MAX;
		assert_non_null(rules_compile(yaml, strlen(yaml), &options, fresh, &messages));
		assert_true(asked > 20);
		arena_destroy(fresh);
		for (int last = asked; last > 0; last--)
		{
			SyncArena  *small = arena_create(0);

			asked = 0;
			asked_until = last - 1;
			assert_null(rules_compile(yaml, strlen(yaml), &options, small, &messages));
			assert_int_equal(messages->level, RULES_FATAL);
			assert_int_equal(messages->error.code, SYNC_ERROR_CANCELLED);
			/* the arena can be used again */
			arena_reset(small);
			options.cancel = NULL;
			if (last % 16 == 1)
				assert_non_null(rules_compile(yaml, strlen(yaml), &options, small, &messages));
			options.cancel = cancel_later;
			arena_destroy(small);
		}
	}
}

/* a condition that stands in many products makes a small text a large plan */
static bool
compile_repeated_list(const char *element, int count)
{
	const char *where = repeated("x IN ARRAY[", element, count, ", ", "] AND (a");

	for (int i = 0; i < 60; i++)
		where = arena_printf(arena, "%s OR a%d", where, i);
	return is_accepted(one_query(arena_printf(arena, "SELECT id FROM t WHERE %s)", where)));
}

static void
test_plan_size(void **state)
{
	(void) state;
	assert_false(compile_repeated_list(repeated("'", "abcdefghij", 100, "", "'"), 250));
	assert_int_equal(messages->error.code, SYNC_ERROR_LIMIT);
	assert_non_null(strstr(messages->error.message, "larger than"));

	assert_true(compile_repeated_list("'abcdefghijklmnopqrst'", 3000));
	assert_true(compile_repeated_list("NULL", 3500));
	assert_false(compile_repeated_list("NULL", 8700));
	assert_int_equal(messages->error.code, SYNC_ERROR_LIMIT);
}

static void
test_event_names(void **state)
{
	static const char head[] = "config:\n  edition: 3\nstreams:\n  s:\n    query: SELECT id FROM t\n"
		"event_definitions:\n";

	(void) state;
	assert_true(is_accepted(arena_printf(arena, "%s  \"a\\x01b\": {payloads: [SELECT id FROM t]}\n", head)));
	assert_false(is_accepted(arena_printf(arena, "%s  \"a\\0b\": {payloads: [SELECT id FROM t]}\n", head)));
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

		assert_int_equal(is_accepted(one_query(query)), count == 75);
	}
	assert_int_equal(messages->error.code, SYNC_ERROR_LIMIT);
	assert_int_equal(messages->error.line, 6);
	for (int count = 159; count <= 160; count++)
		assert_int_equal(is_accepted(one_query(repeated("SELECT id FROM t WHERE ", "a = 1", count,
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
		assert_int_equal(is_accepted(yaml.data), count == 100);
	}
	assert_int_equal(count_messages(RULES_FATAL), 1);
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

int
main(void)
{
	const struct CMUnitTest tests[] = {
		rules_test(test_product_limit),
		rules_test(test_resolver_limit),
		rules_test(test_plan_size),
		rules_test(test_event_names),
		rules_test(test_depth),
		rules_test(test_hostile),
		rules_test(test_many_names),
		rules_test(test_shared_columns),
		rules_test(test_shared_conditions),
		rules_test(test_shared_lookups),
		rules_test(test_cancel),
		rules_test(test_out_of_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
