/*-------------------------------------------------------------------------
 *
 * test_streams_plan.c
 *	  Streams of edition 3: which conditions become which buckets, what is merged,
 *	  names, and what stands around the stored plan.
 *
 *-------------------------------------------------------------------------
 */
#include "streams_test.h"

/* ---------------------------------------------------------------- conditions */

static void
test_double_negation(void **state)
{
	static const char *const cases[][2] = {
		{"NOT (a != 1)", BINARY(COLUMN("a"), "=", INTEGER("1"))},
		{"NOT (a NOT IN b)", "{'type':'function','function':'ps_json_contains','parameters':["
		COLUMN("a") "," COLUMN("b") "]}"},
		{"NOT (a IS NOT NULL)", BINARY(COLUMN("a"), "is", "{'type':'lit_null'}")},
		{"NOT (a NOT BETWEEN 1 AND 2)", "{'type':'between','value':" COLUMN("a") ",'low':"
		INTEGER("1") ",'high':" INTEGER("2") "}"},
		{"NOT (a = 1 OR c != 1)", BINARY(NOT(BINARY(COLUMN("a"), "=", INTEGER("1"))), "and",
										 BINARY(COLUMN("c"), "=", INTEGER("1")))},
		{"a != 1", NOT(BINARY(COLUMN("a"), "=", INTEGER("1")))},
		{"(NOT (a != 1)) = c", BINARY(NOT(NOT(BINARY(COLUMN("a"), "=", INTEGER("1")))), "=",
									  COLUMN("c"))},
	};

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		compile_query(arena_printf(arena, "SELECT id FROM t WHERE %s", cases[i][0]));
		assert_stored("dataSources.0.filters", arena_printf(arena, "[%s]", cases[i][1]));
	}
	compile_query("SELECT id FROM t WHERE NOT (a != " AUTH ")");
	assert_stored("dataSources.0.partitionBy", "[{'expr':" COLUMN("a") "}]");
	assert_refused("SELECT id FROM t WHERE a != " AUTH, SYNC_ERROR_CONFIG, 24, "mixes");
}

static void
test_negation(void **state)
{
	(void) state;
	compile_query("SELECT id FROM t WHERE NOT (a OR NOT (x = " AUTH "))");
	assert_stored("dataSources.0.partitionBy", "[{'expr':" COLUMN("x") "}]");
	assert_stored("dataSources.0.filters.0.operator", "'not'");
	assert_refused("SELECT id FROM t WHERE NOT (a = 1 AND x = " AUTH ")",
				   SYNC_ERROR_CONFIG, 39, "mixes");
	compile_query("SELECT id FROM t WHERE a NOT IN ARRAY[1] AND b != 2");
	assert_stored("dataSources.0.filters.0.operator", "'and'");
}

static void
test_products(void **state)
{
	static const char *const names[] = {"id", "a", "b", "x", "y"};
	EvaluatedRow row;

	(void) state;
	/* alternatives of one table and one condition are one source */
	compile_query("SELECT id FROM t WHERE a OR b OR a = b");
	assert_int_equal(count_stored("dataSources"), 1);
	compile_query("SELECT id FROM t WHERE (a OR b) AND x = " AUTH);
	assert_int_equal(count_stored("dataSources"), 2);
	assert_int_equal(count_stored("buckets"), 1);
	assert_stored("buckets.0.sources", "[0,1]");
	/* what is multi-term comes first, whatever stands first */
	compile_query("SELECT id FROM t WHERE a OR (x = " AUTH " AND y = auth.parameter('p'))");
	assert_int_equal(count_stored("dataSources.0.partitionBy"), 2);
	assert_int_equal(count_stored("dataSources.1.partitionBy"), 0);
	row = evaluate(plan, "t", names, 5, (SyncValue[]) {text("1"), value_integer(1),
				   value_integer(0), text("X"), text("Y")});
	assert_int_equal(row.bucket_row_count, 2);
}

/* ---------------------------------------------------------------- merging */

static void
test_merging(void **state)
{
	(void) state;
	/* across queries of a stream: one bucket; the second's number is left out */
	compile_ok("config:\n  edition: 3\nstreams:\n  s:\n    queries:\n"
			   "      - SELECT id FROM a WHERE x IN (SELECT g FROM m WHERE u = " AUTH ")\n"
			   "      - SELECT id FROM b WHERE y IN (SELECT g FROM m WHERE u = " AUTH ")\n"
			   "      - SELECT id FROM b WHERE y IN (SELECT h FROM m WHERE u = " AUTH ")\n"
			   "      - SELECT id FROM a WHERE x IN (SELECT g FROM m WHERE u = " AUTH ")\n");
	assert_stored("buckets.0.sources", "[0,1]");
	assert_stored("buckets.1.uniqueName", "'s|2'");
	assert_int_equal(count_stored("buckets"), 2);
	assert_int_equal(count_stored("dataSources"), 2);
	assert_int_equal(count_stored("parameterIndexes"), 2);

	/* another table of the same name, and another order of conditions, are another source */
	compile_ok("config:\n  edition: 3\nstreams:\n  s:\n    queries:\n"
			   "      - SELECT id FROM a WHERE p AND q\n"
			   "      - SELECT id FROM a WHERE q AND p\n"
			   "      - SELECT id FROM other.a WHERE p AND q\n"
			   "      - SELECT id FROM a WHERE p AND q\n");
	assert_int_equal(count_stored("dataSources"), 3);
	assert_stored("buckets.0.sources", "[0,1,2]");
	assert_stored("dataSources.2.table", "{'connection':'default','schema':'other','table':'a'}");
}

/* two queries that differ in one thing only have two queriers, or one if they do not */
static void
test_what_is_different(void **state)
{
	static const struct
	{
		const char *first;
		const char *second;
		int			queriers;
		int			sources;
	}			cases[] = {
		{"a WHERE x = " AUTH, "b WHERE y = " AUTH, 1, 2},
		{"a WHERE x = " AUTH, "a WHERE x = auth.parameter('sub')", 2, 1},
		{"a WHERE x = " AUTH " AND auth.parameter('p')", "a WHERE x = " AUTH, 2, 1},
		{"a WHERE x = " AUTH " AND auth.parameter('p')",
		"b WHERE x = " AUTH " AND auth.parameter('q')", 2, 2},
		{"a WHERE x IN (SELECT g FROM m WHERE u = " AUTH ")",
		"a WHERE x IN (SELECT g FROM m WHERE u = auth.parameter('p'))", 2, 1},
		{"a WHERE x IN (SELECT g FROM m WHERE u = " AUTH ")",
		"a WHERE x IN (SELECT g FROM m WHERE u = " AUTH " AND v)", 2, 1},
		{"a, m WHERE a.x = m.g AND m.u = " AUTH " AND m.h IN (SELECT h FROM n)",
		"a, m WHERE a.x = m.h AND m.u = " AUTH " AND m.g IN (SELECT h FROM n)", 2, 1},
		{"a WHERE x IN auth.parameter('p')", "a WHERE x IN auth.parameter('q')", 2, 1},
		{"a WHERE x IN auth.parameter('p')", "b WHERE x IN auth.parameter('p')", 1, 2},
		{"a, json_each(auth.parameters()) AS e WHERE a.x = e.value",
		"a, json_each(auth.parameters()) AS e WHERE a.x = e.key", 2, 1},
		{"a, json_each(auth.parameters()) AS e WHERE a.x = e.value",
		"a, json_each(auth.parameters()) AS e WHERE a.x = e.value AND e.key > 1", 2, 1},
		/* which of two outputs goes to which key */
		{"a, m WHERE a.x = m.g AND a.y = m.h", "a, m WHERE a.y = m.g AND a.x = m.h", 2, 1},
		{"a, m WHERE a.x = m.g AND a.y = m.h", "a, m WHERE a.y = m.h AND a.x = m.g", 2, 1},
		{"a WHERE x = " AUTH " AND x = auth.parameter('p')",
		"a WHERE x = " AUTH " AND x = auth.parameter('q')", 2, 1},
		/* sources whose hashes are equal, or which only look alike */
		{"ab.a AS a WHERE x", "a.ba AS a WHERE x", 1, 2},
		{"a WHERE " AUTH " IN x AND 'k' IN x", "a WHERE " AUTH " IN x AND 'l' IN x", 1, 2},
		{"a, json_each(a.p) AS e, json_each(a.q) AS f "
			"WHERE e.value = 1 AND f.value = 1 AND e.value = 2",
			"a, json_each(a.p) AS e, json_each(a.q) AS f "
		"WHERE e.value = 1 AND f.value = 1 AND f.value = 2", 1, 2},
		{"a WHERE x IN y", "a WHERE x IN z", 1, 2},
		{"a WHERE x IN y", "a WHERE x IN y", 1, 1},
	};

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		compile_ok(arena_printf(arena, "config:\n  edition: 3\nstreams:\n  s:\n    queries:\n"
								"      - SELECT %c.id FROM %s\n      - SELECT %c.id FROM %s\n",
								cases[i].first[0] == 'b' ? 'b' : 'a', cases[i].first,
								cases[i].second[0] == 'b' ? 'b' : 'a', cases[i].second));
		if (count_stored("streams.0.queriers") != cases[i].queriers ||
			count_stored("dataSources") != cases[i].sources)
			fail_msg("case %d: %d queriers, %d sources", (int) i,
					 count_stored("streams.0.queriers"), count_stored("dataSources"));
	}

	/* the place of * is no part of the hash */
	compile_ok("config:\n  edition: 3\nstreams:\n  s:\n    queries:\n"
			   "      - SELECT a.*, a.x AS y FROM a\n      - SELECT a.x AS y, a.* FROM a\n");
	assert_int_equal(count_stored("dataSources"), 2);
	assert_true(find("dataSources.0.hash")->value.integer ==
				find("dataSources.1.hash")->value.integer);

	/* one output for one expression */
	compile_query("SELECT a.id FROM a, m WHERE a.x = m.g AND a.y = m.g");
	assert_stored("parameterIndexes.0.output", "[" COLUMN("g") "]");
}

/* buckets with the same rows are shared between streams, under the first's name */
static void
test_shared_buckets(void **state)
{
	(void) state;
	compile_ok("config:\n  edition: 3\nstreams:\n"
			   "  one:\n    query: SELECT id FROM t WHERE x = " AUTH "\n"
			   "  two:\n    priority: 1\n    queries:\n"
			   "      - SELECT id FROM u\n"
			   "      - SELECT id FROM t WHERE x = auth.parameter('o')\n"
			   "  none:\n    queries: []\n");
	assert_int_equal(count_stored("buckets"), 2);
	assert_int_equal(count_stored("streams"), 2);
	assert_stored("streams.1.queriers.0.bucket", "1");
	assert_stored("streams.1.queriers.1.bucket", "0");
	assert_stored("streams.1.stream", "{'name':'two','priority':1,'isSubscribedByDefault':false}");
}

/* what the order is: computed apart from this program */
static void
test_hashes(void **state)
{
	(void) state;
	compile_query("SELECT id FROM t WHERE x = " AUTH " AND y = auth.parameter('p')");
	assert_stored("dataSources.0.partitionBy", "[{'expr':" COLUMN("y") "},{'expr':" COLUMN("x")
				  "}]");
	assert_stored("dataSources.0.hash", "470967264");

	/* an empty list has a text of its own */
	compile_query("SELECT id FROM t WHERE a IN ARRAY[]");
	assert_stored("dataSources.0.hash", "60859149");
	/* a key that is made of an element counts as one */
	compile_query("SELECT t.id FROM t, json_each(t.b) AS j WHERE upper(j.value) = " AUTH);
	assert_stored("dataSources.0.hash", "274990275");
}

/* the order of keys is that of their hashes, however the query puts them */
static void
test_key_order(void **state)
{
	static const char *const keys[] = {
		"a = " AUTH, "b = auth.parameter('b')", "upper(c) = auth.parameter('c')",
		"auth.parameter('d') IN d", "e + 1 = auth.parameter('e')",
		"g IN auth.parameter('g')",
	};
	int			order[] = {0, 1, 2, 3, 4, 5};
	unsigned int seed = (unsigned int) time(NULL);
	const JsonNode *first = NULL;

	(void) state;
	print_message("seed %u\n", seed);
	srand(seed);
	for (int round = 0; round < 30; round++)
	{
		const char *where = "";
		SyncBuffer	a;
		SyncBuffer	b;

		for (int i = 5; i > 0; i--)
		{
			int			j = rand() % (i + 1);
			int			moved = order[i];

			order[i] = order[j];
			order[j] = moved;
		}
		for (int i = 0; i < 6; i++)
			where = arena_printf(arena, "%s%s%s", where, i > 0 ? " AND " : "", keys[order[i]]);
		compile_query(arena_printf(arena, "SELECT id FROM t WHERE %s", where));
		if (first == NULL)
			first = find("dataSources");
		buffer_init(&a, arena, 1000);
		buffer_init(&b, arena, 1000);
		json_append_node(&a, first);
		json_append_node(&b, find("dataSources"));
		assert_true(sync_string_equal(buffer_string(&a), buffer_string(&b)));
	}
}

/* ---------------------------------------------------------------- names */

static void
test_names(void **state)
{
	(void) state;
	compile_query("SELECT T.ID, \"T\".\"Mixed\" AS \"A b\" FROM t WHERE t.X = 1");
	assert_stored("dataSources.0.columns.0.alias", "'id'");
	assert_stored("dataSources.0.columns.1", "{'expr':" COLUMN("Mixed") ",'alias':'A b'}");
	compile_query("SELECT \"Orders\".* FROM \"Orders\"");
	assert_stored("dataSources.0.outputTableName", "'Orders'");
	/* an alias hides the table's name */
	assert_refused("SELECT t.id FROM t AS x", SYNC_ERROR_CONFIG, 8, "no \"t\"");
	assert_refused("SELECT id FROM \"a.b.c\".t", SYNC_ERROR_CONFIG, 16, "one dot");
	compile_query("SELECT id FROM \"c.s\".t");
	assert_stored("dataSources.0.table", "{'connection':'c','schema':'s','table':'t'}");
}

static void
test_ctes(void **state)
{
	(void) state;
	/* of a stream before that of the root; a CTE does not see another */
	compile_ok("config:\n  edition: 3\nwith:\n"
			   "  Mine: SELECT g AS h FROM m WHERE u = " AUTH "\n"
			   "  other: SELECT h FROM mine\n"
			   "streams:\n"
			   "  a:\n    query: SELECT id FROM t WHERE x IN MINE\n"
			   "  b:\n    with:\n      mine: SELECT k FROM n WHERE u = " AUTH "\n"
			   "    query: SELECT t.id FROM t, mine AS q WHERE t.x = q.k AND t.y IN other\n"
			   "  c:\n    query: SELECT t.id FROM t JOIN mine ON mine.h = t.x\n");
	assert_int_equal(count_messages(RULES_WARNING), 0);
	assert_stored("parameterIndexes.0.table.table", "'m'");
	assert_stored("parameterIndexes.1.table.table", "'n'");
	assert_stored("parameterIndexes.2.table.table", "'mine'");
	assert_int_equal(count_stored("parameterIndexes"), 3);

	compile_ok("config:\n  edition: 3\nwith:\n  a: SELECT x FROM nowhere\n"
			   "streams:\n  s:\n    with:\n      b: SELECT 1 AS x\n    query: SELECT * FROM t\n");
	assert_int_equal(count_messages(RULES_WARNING), 2);
	assert_int_equal(messages->error.line, 8);

	/* a mistake in a CTE is told once, where it is */
	assert_false(compile_text("config:\n  edition: 3\nwith:\n  a: SELECT uper(x) AS x FROM m\n"
							  "streams:\n  s:\n    queries:\n"
							  "      - SELECT id FROM t WHERE x IN a\n"
							  "      - SELECT id FROM t WHERE y IN a\n"));
	assert_int_equal(count_messages(RULES_FATAL), 1);
	assert_int_equal(messages->error.line, 4);
	assert_int_equal(messages->error.column, 13);
	assert_string_equal(messages->error.hint, "Did you mean \"upper\"?");
	/* and the hint of what is not told again goes to no other message */
	assert_false(compile_text("config:\n  edition: 3\nwith:\n  a: SELECT uper(x) AS x FROM m\n"
							  "streams:\n  s:\n    queries:\n"
							  "      - SELECT id FROM t WHERE x IN a AND z[1] AND y IN a\n"));
	assert_string_equal(messages->next->error.hint, "");
	assert_false(compile_text("config:\n  edition: 3\nwith:\n  a: SELECT FROM WHERE\n"
							  "streams:\n  s:\n    query: SELECT id FROM t\n"));
}

/* ---------------------------------------------------------------- the wrapper */

static void
test_wrapper(void **state)
{
	RulesOptions options = {.default_schema = "public"};
	const SyncPlan *again;
	const char *json;
	SyncError	error;
	size_t		len;

	(void) state;
	compile_ok("config:\n  edition: 3\n  versioned_bucket_ids: true\n  fixed_json_extract: false\n"
			   "  timestamp_max_precision: milliseconds\n  storage_version: 2\n"
			   "streams:\n  \"s\\\"1\":\n    query: SELECT id, upper(x) FROM ta\n"
			   "event_definitions:\n  e:\n    payloads:\n      - SELECT id FROM ev\n");
	json = plan_stored_json(plan, &len);
	json = arena_strndup(arena, json, len);
	assert_non_null(strstr(json, "\"compatibility\":{\"edition\":3,\"overrides\":"
						   "{\"fixed_json_extract\":false,\"versioned_bucket_ids\":true},"
						   "\"maxTimeValuePrecision\":3}"));
	assert_non_null(strstr(json, "\"eventDescriptors\":{\"e\":[\"SELECT id FROM ev\"]}"));
	assert_non_null(strstr(json, "\"errors\":[{\"level\":\"warning\",\"message\":\""));
	assert_non_null(strstr(json, "\"uniqueName\":\"s\\\"1|0\""));
	assert_int_equal(plan_storage_version(plan), 2);
	assert_false(plan_compatibility(plan)->fixed_json_extract);
	assert_int_equal(plan_compatibility(plan)->timestamp_precision, 3);
	assert_int_equal(plan_table_count(plan), 2);
	assert_text(plan_table(plan, 1)->table, "ev");

	again = plan_read(json, len, &options, arena, &error);
	assert_non_null(again);
	assert_null(plan_stored_json(again, &len));
	assert_int_equal(plan_table_count(again), 2);
	assert_false(plan_compatibility(again)->fixed_json_extract);
}

static void
test_other_editions(void **state)
{
	RulesOptions options = {.default_schema = "public"};
	const char *yaml = "bucket_definitions:\n  b:\n    data:\n      - SELECT id FROM t\n";
	size_t		len;

	(void) state;
	plan = rules_compile(yaml, strlen(yaml), &options, arena, &messages);
	assert_non_null(plan);
	assert_null(plan_stored_json(plan, &len));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		rules_test(test_double_negation),
		rules_test(test_negation),
		rules_test(test_products),
		rules_test(test_merging),
		rules_test(test_what_is_different),
		rules_test(test_shared_buckets),
		rules_test(test_hashes),
		rules_test(test_key_order),
		rules_test(test_names),
		rules_test(test_ctes),
		rules_test(test_wrapper),
		rules_test(test_other_editions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
