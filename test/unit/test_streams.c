/*-------------------------------------------------------------------------
 *
 * test_streams.c
 *	  Streams of edition 3, from their text to the stored plan and to rows: joins and
 *	  table-valued functions that the conformance vectors do not reach.
 *
 *-------------------------------------------------------------------------
 */
#include "streams_test.h"

/* ---------------------------------------------------------------- joins */

/* innermost first; a lookup's stage follows those it needs */
static void
test_chain_of_joins(void **state)
{
	(void) state;
	compile_query("SELECT a.* FROM a JOIN b ON b.x = a.x JOIN c ON c.y = b.y JOIN d ON d.z = c.z "
				  "WHERE d.u = " AUTH);
	assert_stored("parameterIndexes.0.table.table", "'d'");
	assert_stored("parameterIndexes.1.table.table", "'c'");
	assert_stored("parameterIndexes.2.table.table", "'b'");
	assert_stored("parameterIndexes.2.lookupScope", "{'lookupName':'lookup','queryId':'2'}");
	assert_int_equal(count_stored("streams.0.queriers.0.lookupStages"), 3);
	assert_stored("streams.0.queriers.0.sourceInstantiation", "[" LOOKUP(2, 0, 0) "]");
	assert_stored("streams.0.queriers.0.lookupStages.2.0.instantiation", "[" LOOKUP(1, 0, 0) "]");
	assert_int_equal(plan_table_count(plan), 4);
}

/* a table that two others need is looked up once, with two outputs */
static void
test_triangle(void **state)
{
	(void) state;
	compile_query("SELECT a.id FROM a, b, c WHERE a.x = b.x AND a.y = c.y AND b.z = c.z "
				  "AND c.u = " AUTH);
	assert_int_equal(count_stored("parameterIndexes"), 2);
	assert_stored("parameterIndexes.0.table.table", "'c'");
	assert_stored("parameterIndexes.0.output", "[" COLUMN("z") "," COLUMN("y") "]");
	assert_stored("parameterIndexes.1.table.table", "'b'");
	assert_stored("streams.0.queriers.0.lookupStages.1.0.instantiation", "[" LOOKUP(0, 0, 0) "]");
}

/* as late as possible: what is needed at the end is in the last stage */
static void
test_stages(void **state)
{
	(void) state;
	compile_query("SELECT id FROM t WHERE b IN (SELECT a FROM x) AND "
				  "a IN (SELECT a FROM u WHERE c IN (SELECT b FROM w))");
	assert_stored("parameterIndexes.0.table.table", "'w'");
	assert_stored("parameterIndexes.1.table.table", "'x'");
	assert_stored("parameterIndexes.2.table.table", "'u'");
	assert_int_equal(count_stored("streams.0.queriers.0.lookupStages"), 2);
	assert_int_equal(count_stored("streams.0.queriers.0.lookupStages.0"), 1);
	assert_int_equal(count_stored("streams.0.queriers.0.lookupStages.1"), 2);
	assert_stored("streams.0.queriers.0.sourceInstantiation", "[" LOOKUP(1, 1, 0) ","
				  LOOKUP(1, 0, 0) "]");
	/* rows that must exist are looked up at the end, too */
	compile_query("SELECT id FROM t WHERE " AUTH " IN (SELECT a FROM x) AND "
				  "a IN (SELECT a FROM u WHERE c IN (SELECT b FROM w))");
	assert_stored("streams.0.queriers.0.lookupStages.1.1.instantiation.0.type", "'request'");
	/* in an intersection */
	compile_query("SELECT id FROM t WHERE a IN (SELECT a FROM x) AND "
				  "a IN (SELECT a FROM u WHERE c IN (SELECT b FROM w WHERE d = " AUTH "))");
	assert_stored("streams.0.queriers.0.sourceInstantiation.0.values",
				  "[" LOOKUP(1, 0, 0) "," LOOKUP(1, 1, 0) "]");
	/* what has alternatives goes before what stands before it, each AND by itself */
	compile_query("SELECT id FROM t WHERE (b IN (SELECT y FROM w) OR c = 1) AND "
				  "a IN (SELECT x FROM u) AND (d IN (SELECT x FROM v) OR e = 1)");
	assert_stored("parameterIndexes.0.table.table", "'w'");
	assert_stored("parameterIndexes.1.table.table", "'u'");
	compile_query("SELECT id FROM t WHERE b IN (SELECT y FROM w) AND "
				  "(c IN (SELECT z FROM v) AND (e = 1 OR f = " AUTH "))");
	assert_stored("parameterIndexes.0.table.table", "'v'");
}

static void
test_self_join(void **state)
{
	(void) state;
	compile_query("SELECT \"Child\".id FROM t AS \"Child\" JOIN t AS p ON p.id = CHILD.parent "
				  "WHERE p.owner = " AUTH);
	assert_int_equal(count_messages(RULES_WARNING), 0);
	assert_stored("dataSources.0.outputTableName", "'Child'");
	assert_stored("dataSources.0.partitionBy.0.expr", COLUMN("parent"));
	assert_stored("parameterIndexes.0.partitionBy.0.expr", COLUMN("owner"));
	assert_int_equal(plan_table_count(plan), 1);
	assert_refused("SELECT t.id FROM t, t WHERE t.x = 1", SYNC_ERROR_CONFIG, 21, "more than once");
}

/* what is not joined to the rows must exist: a lookup without output */
static void
test_exists(void **state)
{
	(void) state;
	compile_query("SELECT id FROM t WHERE " AUTH " IN (SELECT u FROM m WHERE g IN "
				  "(SELECT g FROM r WHERE h = auth.parameter('h')))");
	assert_stored("dataSources.0.partitionBy", "[]");
	assert_stored("parameterIndexes.0.table.table", "'r'");
	assert_stored("parameterIndexes.1.output", "[]");
	assert_int_equal(count_stored("parameterIndexes.1.partitionBy"), 2);
	assert_int_equal(count_stored("streams.0.queriers.0.lookupStages"), 2);
	compile_query("SELECT id FROM t WHERE 'a' IN auth.parameter('roles')");
	assert_stored("streams.0.queriers.0.lookupStages.0.0.outputs", "[]");
	assert_int_equal(count_stored("streams.0.queriers.0.lookupStages.0.0.filters"), 1);
	/* what has a condition, or is compared with the request, is looked up last */
	compile_query("SELECT t.id FROM t, u, w WHERE u.a = w.a AND w.c = 1");
	assert_stored("parameterIndexes.0.table.table", "'u'");
	assert_stored("parameterIndexes.1.output", "[]");
	assert_refused("SELECT t.id FROM t, u, w WHERE u.a = w.a", SYNC_ERROR_CONFIG, 32,
				   "cannot be used");
}

static void
test_correlated_subquery(void **state)
{
	(void) state;
	compile_query("SELECT id FROM t WHERE x IN (SELECT m.a FROM m WHERE m.b = t.c AND m.d = " AUTH
				  ")");
	assert_stored("parameterIndexes.0.output", "[" COLUMN("a") "," COLUMN("b") "]");
	assert_int_equal(count_stored("dataSources.0.partitionBy"), 2);
	/* a subquery of FROM does not see what is beside it */
	assert_refused("SELECT t.id FROM t, (SELECT m.a FROM m WHERE m.b = t.c) AS o WHERE o.a = t.x",
				   SYNC_ERROR_CONFIG, 52, "no \"t\"");
}

static void
test_nested_subqueries(void **state)
{
	(void) state;
	compile_query("SELECT o.i AS id FROM (SELECT p.id AS i, p.x FROM (SELECT id, g AS x FROM t "
				  "WHERE live) AS p WHERE p.x IN (SELECT g FROM m WHERE u = " AUTH ")) AS o (i, y) "
				  "WHERE o.y = auth.parameter('g')");
	assert_stored("dataSources.0.table.table", "'t'");
	assert_stored("dataSources.0.filters", "[" COLUMN("live") "]");
	assert_stored("dataSources.0.partitionBy", "[{'expr':" COLUMN("g") "}]");
	assert_stored("streams.0.queriers.0.sourceInstantiation.0.type", "'intersection'");
	compile_query("SELECT * FROM (SELECT id, a + 1 AS b FROM t) AS o");
	assert_stored("dataSources.0.columns.1.alias", "'b'");
}

/* ---------------------------------------------------------------- functions */

static void
test_functions_of_rows(void **state)
{
	static const char *const names[] = {"id", "list"};
	EvaluatedRow row;

	(void) state;
	compile_query("SELECT t.id FROM t, json_each(t.list) AS e WHERE e.value = " AUTH
				  " AND e.key > 0");
	assert_stored("dataSources.0.partitionBy.0.expr.source", "{'function':0,'outputName':'value'}");
	assert_stored("dataSources.0.filters.0.left.source", "{'function':0,'outputName':'key'}");
	row = evaluate(plan, "t", names, 2, (SyncValue[]) {text("1"), text("[\"a\",\"b\",\"c\"]")});
	assert_int_equal(row.bucket_row_count, 2);
	assert_text(row.bucket_rows[0].bucket, "s|0[\"b\"]");

	/* as the option fixed_json_extract has it, null is a text */
	compile_ok("config:\n  edition: 3\n  fixed_json_extract: false\nstreams:\n  s:\n"
			   "    query: SELECT id FROM t WHERE auth.user_id() IN list\n");
	row = evaluate(plan, "t", names, 2, (SyncValue[]) {text("1"), text("[null]")});
	assert_int_equal(row.bucket_row_count, 1);
	assert_text(row.bucket_rows[0].bucket, "s|0[\"null\"]");

	/* in an index */
	compile_query("SELECT id FROM t WHERE x IN (SELECT e.value FROM m, json_each(m.list) AS e "
				  "WHERE m.u = " AUTH ")");
	assert_stored("parameterIndexes.0.output.0.source", "{'function':0,'outputName':'value'}");

	/* two arrays of a row compared with each other: the service refuses it, too */
	assert_refused("SELECT id FROM t WHERE x && y", SYNC_ERROR_CONFIG, 24, "cannot be used");
}

/*
 * Each IN has elements of its own, even of the same column; as keys they are the
 * same, with a value that both allow.
 */
static void
test_same_array_twice(void **state)
{
	(void) state;
	compile_query("SELECT id FROM t WHERE " AUTH " IN z AND auth.parameter('p') IN z");
	assert_int_equal(count_stored("dataSources.0.tableValuedFunctions"), 2);
	assert_stored("dataSources.0.partitionBy", "[{'expr':" ELEMENT(0, "value") "}]");
	assert_stored("streams.0.queriers.0.sourceInstantiation.0.type", "'intersection'");
	compile_query("SELECT id FROM t WHERE z && auth.parameter('a') AND z && auth.parameter('b')");
	assert_int_equal(count_stored("dataSources.0.partitionBy"), 1);
	assert_stored("streams.0.queriers.0.sourceInstantiation.0.values",
				  "[" LOOKUP(0, 0, 0) "," LOOKUP(0, 1, 0) "]");
	compile_query("SELECT id FROM t WHERE " AUTH " IN y AND auth.parameter('p') IN z");
	assert_int_equal(count_stored("dataSources.0.partitionBy"), 2);
	compile_query("SELECT t.id FROM t, json_each(t.z) AS e WHERE " AUTH " = e.value "
				  "AND auth.parameter('p') = e.value");
	assert_int_equal(count_stored("dataSources.0.partitionBy"), 1);
	assert_int_equal(count_stored("streams.0.queriers.0.sourceInstantiation.0.values"), 2);
}

/*
 * An index is made for a clause whose function it numbers last, behind those of
 * the clauses that follow and of conditions.
 */
static void
test_arrays_of_an_index(void **state)
{
	static const char *const names[] = {"u", "a", "b"};
	EvaluatedRow row;
	SyncBuffer	rows;

	(void) state;
	compile_query("SELECT t.id FROM t, w, json_each(w.a) AS i, json_each(w.b) AS j, "
				  "json_each(w.c) AS k, json_each(w.d) AS l WHERE t.x = i.value AND t.y = j.key "
				  "AND k.value = " AUTH " AND l.value > 1");
	for (int i = 0; i < 4; i++)
		assert_stored(arena_printf(arena, "parameterIndexes.0.tableValuedFunctions.%d."
								   "functionInputs.0.source.column", i),
					  (const char *[]) {"'b'", "'c'", "'d'", "'a'"}[i]);
	assert_stored("parameterIndexes.0.output", "[" ELEMENT(3, "value") "," ELEMENT(0, "key") "]");
	assert_stored("parameterIndexes.0.partitionBy", "[{'expr':" ELEMENT(1, "value") "}]");

	/* a clause that was used before the index was made counts no more */
	compile_query("SELECT t.id FROM t, w, json_each(w.a) AS i, json_each(w.b) AS j WHERE t.z = w.c "
				  "AND t.x = i.value AND t.y = j.key AND w.u = " AUTH);
	assert_stored("parameterIndexes.0.output", "[" COLUMN("c") "," ELEMENT(0, "value") ","
				  ELEMENT(1, "key") "]");

	/* each side gets the elements of its own array */
	compile_query("SELECT t.id FROM t, w, json_each(w.a) AS i, json_each(w.b) AS j "
				  "WHERE t.x = i.value AND t.y = j.value AND w.u = " AUTH);
	row = evaluate(plan, "w", names, 3, (SyncValue[]) {text("u"), text("[\"a\"]"), text("[\"b\"]")});
	assert_int_equal(row.parameter_row_count, 1);
	buffer_init(&rows, arena, 100);
	bson_append_json(&rows, row.parameter_rows[0].rows, true);
	assert_text(buffer_string(&rows), "[{\"0\":\"a\",\"1\":\"b\"}]");
	compile_query("SELECT t.id FROM t, w, json_each(w.a) AS i, json_each(w.a) AS j "
				  "WHERE t.x = i.value AND t.y = j.value AND w.u = " AUTH);
	assert_stored("parameterIndexes.0.output", "[" ELEMENT(1, "value") "]");
}

static void
test_functions_of_requests(void **state)
{
	(void) state;
	compile_query("SELECT t.id FROM t, json_each(auth.parameters() -> 'l') AS e "
				  "WHERE t.x = e.value AND t.y = e.key AND e.value > 3");
	assert_int_equal(count_stored("streams.0.queriers.0.lookupStages.0"), 1);
	assert_stored("streams.0.queriers.0.lookupStages.0.0.outputs",
				  "[" COLUMN("value") "," COLUMN("key") "]");
	assert_stored("streams.0.queriers.0.lookupStages.0.0.filters.0.left", COLUMN("value"));

	assert_refused("SELECT t.id FROM t, u, json_each(t.a || u.a) AS e",
				   SYNC_ERROR_CONFIG, 24, "one table, or from the request");
	assert_refused("SELECT id FROM t WHERE auth.user_id() IN auth.parameter('l')",
				   SYNC_ERROR_CONFIG, 24, "cannot be used");
	assert_refused("SELECT t.id FROM t, json_each(t.a) AS e, json_each(e.value) AS f",
				   SYNC_ERROR_CONFIG, 42, "another json_each()");
	assert_refused("SELECT t.id FROM t, json_each(t.a -> auth.user_id()) AS e",
				   SYNC_ERROR_SYNTAX, 38, "");
	assert_refused("SELECT t.id FROM t, json_each(t.a || auth.user_id()) AS e",
				   SYNC_ERROR_CONFIG, 21, "one table, or from the request");
}

/* a list that stands in the query is part of the first table that it is compared with */
static void
test_functions_of_constants(void **state)
{
	static const char *const names[] = {"id", "x"};
	EvaluatedRow row;

	(void) state;
	compile_query("SELECT id FROM t WHERE x IN '[\"a\", 1]'");
	assert_stored("dataSources.0.tableValuedFunctions.0.functionInputs",
				  "[{'type':'lit_string','value':'[\\\"a\\\", 1]'}]");
	assert_stored("dataSources.0.filters", "[" BINARY(COLUMN("x"), "=", ELEMENT(0, "value")) "]");
	assert_stored("dataSources.0.partitionBy", "[]");
	assert_stored("streams.0.queriers.0.lookupStages", "[]");
	row = evaluate(plan, "t", names, 2, (SyncValue[]) {text("1"), text("a")});
	assert_int_equal(row.bucket_row_count, 1);
	assert_text(row.bucket_rows[0].bucket, "s|0[]");
	row = evaluate(plan, "t", names, 2, (SyncValue[]) {text("1"), text("b")});
	assert_int_equal(row.bucket_row_count, 0);

	compile_query("SELECT id FROM t WHERE NOT (x IN '[1]')");
	assert_stored("dataSources.0.filters",
				  "[" NOT(BINARY(COLUMN("x"), "=", ELEMENT(0, "value"))) "]");
	/* in a subquery, of its table */
	compile_query("SELECT id FROM t WHERE x IN (SELECT k FROM u WHERE u = " AUTH
				  " AND role IN '[\"admin\"]')");
	assert_int_equal(count_stored("parameterIndexes.0.tableValuedFunctions"), 1);
	assert_stored("parameterIndexes.0.partitionBy", "[{'expr':" COLUMN("u") "}]");
	assert_int_equal(count_stored("streams.0.queriers.0.lookupStages"), 1);
	/* then it can be a key; which condition stands first does not matter */
	compile_query("SELECT t.id FROM t, json_each('[1]') AS j WHERE j.value = " AUTH
				  " AND j.key = t.x");
	assert_stored("dataSources.0.partitionBy", "[{'expr':" ELEMENT(0, "value") "}]");
	/* of u, and t is joined to it */
	compile_query("SELECT t.id FROM t, u, json_each('[1]') AS j WHERE j.key = u.a AND j.value = t.a");
	assert_stored("dataSources.0.tableValuedFunctions", "[]");
	assert_stored("parameterIndexes.0.output", "[" ELEMENT(0, "value") "]");
	/* without a table it is a function of the request */
	compile_query("SELECT id FROM t WHERE 'a' IN '[\"a\"]'");
	assert_int_equal(count_stored("streams.0.queriers.0.lookupStages.0"), 1);
	assert_refused("SELECT id FROM t WHERE " AUTH " IN '[1]'", SYNC_ERROR_CONFIG, 24,
				   "cannot be used");
	assert_refused("SELECT t.id FROM t, json_each('[1]') AS j WHERE t.a || j.value > " AUTH,
				   SYNC_ERROR_CONFIG, 49, "mixes");
}

/* inside an expression, IN of an array compares with each of its elements */
static void
test_array_in_expression(void **state)
{
	(void) state;
	compile_query("SELECT id FROM t WHERE (a IN b) = 1 AND c = 1");
	assert_stored("dataSources.0.filters",
				  "[" BINARY(BINARY(COLUMN("a"), "=", ELEMENT(0, "value")), "=", INTEGER("1")) ","
				  BINARY(COLUMN("c"), "=", INTEGER("1")) "]");
	compile_query("SELECT id FROM t WHERE (a IN b) = " AUTH);
	assert_stored("dataSources.0.partitionBy.0.expr",
				  BINARY(COLUMN("a"), "=", ELEMENT(0, "value")));
	assert_refused("SELECT id FROM t WHERE (" AUTH " IN b) = 1", SYNC_ERROR_CONFIG, 25, "mixes");
}

/* a function's conditions are not merged with those of its table */
static void
test_groups_of_conditions(void **state)
{
	(void) state;
	compile_query("SELECT id FROM t WHERE a IN b AND c = 1 AND d > 2");
	assert_stored("dataSources.0.filters",
				  "[" BINARY(COLUMN("a"), "=", ELEMENT(0, "value")) ","
				  BINARY(BINARY(COLUMN("c"), "=", INTEGER("1")), "and",
						 BINARY(COLUMN("d"), ">", INTEGER("2"))) "]");
	compile_query("SELECT t.id FROM t, json_each(t.b) AS j, json_each(t.c) AS k "
				  "WHERE j.value = 1 AND k.value = 2 AND j.key = 3");
	assert_int_equal(count_stored("dataSources.0.filters"), 2);
	assert_stored("dataSources.0.filters.0.operator", "'and'");
	/* what is named last decides */
	compile_query("SELECT t.id FROM t, json_each(t.b) AS j WHERE j.value > t.a AND t.c = 1");
	assert_int_equal(count_stored("dataSources.0.filters"), 1);
	compile_query("SELECT t.id FROM t, json_each(t.b) AS j WHERE t.a < j.value AND t.c = 1");
	assert_int_equal(count_stored("dataSources.0.filters"), 2);
	/* alternatives of both are two sources */
	compile_query("SELECT id FROM t WHERE a IN b OR c = 1");
	assert_int_equal(count_stored("dataSources"), 2);
	assert_int_equal(count_stored("dataSources.1.tableValuedFunctions"), 0);
	assert_int_equal(count_stored("buckets"), 1);
	/* two functions can be in one condition, but not one after the other */
	compile_query("SELECT t.id FROM t, json_each(t.b) AS j, json_each(t.c) AS k "
				  "WHERE j.value = t.a || k.value");
	assert_int_equal(count_stored("dataSources.0.tableValuedFunctions"), 2);
	assert_refused("SELECT t.id FROM t, json_each(t.b) AS j, json_each(t.c) AS k "
				   "WHERE j.value || k.value = t.a", SYNC_ERROR_CONFIG, 68, "mixes");
	assert_refused("SELECT t.id FROM t, json_each(t.b) AS j WHERE j.value || t.a = " AUTH,
				   SYNC_ERROR_CONFIG, 47, "mixes");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		rules_test(test_chain_of_joins),
		rules_test(test_triangle),
		rules_test(test_stages),
		rules_test(test_self_join),
		rules_test(test_exists),
		rules_test(test_correlated_subquery),
		rules_test(test_nested_subqueries),
		rules_test(test_functions_of_rows),
		rules_test(test_same_array_twice),
		rules_test(test_arrays_of_an_index),
		rules_test(test_functions_of_requests),
		rules_test(test_functions_of_constants),
		rules_test(test_array_in_expression),
		rules_test(test_groups_of_conditions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
