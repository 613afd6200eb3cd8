/*-------------------------------------------------------------------------
 *
 * test_alpha.c
 *	  Streams of edition 2, from their text to evaluated rows: what the
 *	  conformance vectors do not reach (how AND and OR are multiplied out,
 *	  numbers of subqueries, values of keys).
 *
 *-------------------------------------------------------------------------
 */
#include "alpha_test.h"

/* ---------------------------------------------------------------- AND, OR, NOT */

/* the chosen terms of ORs stand before what has no alternatives, wherever that was written */
static void
test_or_is_distributed(void **state)
{
	static const char *query = "SELECT id FROM t WHERE x = auth.user_id() "
		"AND (y = auth.parameter('a') OR n = 1) AND (z = auth.parameter('b') OR m = 1)";
	static const char *columns = "id x y z n m";

	(void) state;
	assert_int_equal(compile_ok(query)->bucket_count, 4);
	assert_buckets(query, columns,
				   ROW(text("X"), text("Y"), text("Z"), value_integer(1), value_integer(1)),
				   "s|0[\"Y\",\"X\",\"Z\"] s|1[\"Y\",\"X\"] s|2[\"X\",\"Z\"] s|3[\"X\"]");
	assert_buckets(query, columns,
				   ROW(text("X"), text("Y"), value_null(), value_integer(0), value_integer(1)),
				   "s|1[\"Y\",\"X\"]");
	assert_buckets(query, columns,
				   ROW(value_null(), text("Y"), text("Z"), value_integer(1), value_integer(1)), "");
	/* the same with the plain comparison last */
	assert_buckets("SELECT id FROM t WHERE (y = auth.parameter('a') OR n = 1) AND x = auth.user_id()",
				   columns,
				   ROW(text("X"), text("Y"), text("Z"), value_integer(1), value_integer(1)),
				   "s|0[\"Y\",\"X\"] s|1[\"X\"]");
}

static void
test_three_ors(void **state)
{
	const SyncPlan *plan = compile_ok("SELECT id FROM t WHERE (x = auth.user_id() OR n = 0) "
									  "AND (y = auth.user_id() OR n = 1) "
									  "AND (z = auth.user_id() OR n = 2)");
	EvaluatedRow row;

	(void) state;
	assert_int_equal(plan->bucket_count, 8);
	row = evaluate(plan, "t", "id x y z n",
				   ROW(text("X"), text("Y"), text("Z"), value_integer(2)));
	assert_string_equal(buckets_of(&row), "s|0[\"X\",\"Y\",\"Z\"] s|1[\"X\",\"Y\"]");
	row = evaluate(plan, "t", "id x y z n",
				   ROW(text("X"), text("Y"), text("Z"), value_integer(0)));
	assert_string_equal(buckets_of(&row), "s|0[\"X\",\"Y\",\"Z\"] s|4[\"Y\",\"Z\"]");
}

/* two conditions of one kind are one; a constant is of both kinds */
static void
test_simple_conditions_are_folded(void **state)
{
	(void) state;
	assert_stems("n = 1 OR n = 2", 1);
	assert_stems("n = 1 OR n = 2 OR x = auth.user_id()", 2);
	assert_stems("x = auth.user_id() OR (n = 1 OR n = 2)", 2);
	assert_stems("x = auth.user_id() OR n = 1 OR n = 2", 3);
	assert_stems("auth.user_id() = 'a' OR auth.parameter('b')", 1);
	assert_stems("auth.user_id() = 'a' OR n = 1", 2);
	assert_stems("auth.user_id() = 'a' OR true", 1);
	assert_stems("n = 1 OR true", 1);
	assert_stems("x = auth.user_id() OR false", 2);
	assert_stems("true AND (false OR NOT true)", 1);
	assert_stems("'a' IN auth.parameter('b') OR auth.user_id() IN '[\"a\"]'", 1);
	assert_stems("'[\"a\"]' && auth.parameter('b') OR auth.parameter('a') IN auth.parameter('b')", 1);
	/* conditions on the request are nothing that a row could fail */
	assert_buckets("SELECT id FROM t WHERE 'a' IN auth.parameter('b') AND '[1]' && auth.parameter('c')",
				   "id", (SyncValue[]) {text("1")}, "s|0[]");
}

static void
test_not(void **state)
{
	static const char *columns = "id x n";

	(void) state;
	assert_stems("NOT (n = 1 AND auth.parameter('a'))", 2);
	assert_stems("x = auth.user_id() AND NOT (n = 1 AND auth.parameter('a'))", 2);
	assert_stems("NOT ((n = 1 OR auth.parameter('a')) OR m = 1)", 1);
	assert_stems("NOT (n = 1 OR auth.parameter('a'))", 1);
	assert_stems("NOT (n = 1 OR NOT (x = auth.user_id()))", 1);

	/* NULL is not true, so NOT NULL is */
	assert_buckets("SELECT id FROM t WHERE NOT n = 1", columns, ROW(text("X"), value_null()),
				   "s|0[]");
	assert_buckets("SELECT id FROM t WHERE NOT (n = 1 OR auth.parameter('a'))", columns,
				   ROW(text("X"), value_integer(1)), "");
	assert_buckets("SELECT id FROM t WHERE NOT NOT x = auth.user_id()", columns,
				   ROW(text("X"), value_null()), "s|0[\"X\"]");
	assert_buckets("SELECT id FROM t WHERE x NOT IN '[\"a\"]'", columns,
				   ROW(text("X"), value_null()), "s|0[]");
	assert_buckets("SELECT id FROM t WHERE NOT (x NOT IN '[\"a\"]')", columns,
				   ROW(text("X"), value_null()), "");
	assert_buckets("SELECT id FROM t WHERE NOT (x && '[\"a\"]')", columns,
				   ROW(text("[\"b\"]"), value_null()), "s|0[]");
	assert_buckets("SELECT id FROM t WHERE NOT (x NOT IN auth.parameter('a'))", columns,
				   ROW(text("X"), value_null()), "s|0[\"X\"]");

	/* what the service cannot load */
	assert_refused("SELECT id FROM t WHERE NOT (n = 1 AND auth.parameter('a') AND m = 1)",
				   SYNC_ERROR_UNSUPPORTED, 29, "NOT");
	assert_refused("SELECT id FROM t WHERE NOT (m = 1 OR n = 1 AND auth.parameter('a'))",
				   SYNC_ERROR_UNSUPPORTED, 29, "NOT");

	assert_refused("SELECT id FROM t WHERE NOT (n = 1 AND x = auth.user_id())",
				   SYNC_ERROR_CONFIG, 39, "NOT");
	assert_refused("SELECT id FROM t WHERE x NOT IN auth.parameter('a')", SYNC_ERROR_CONFIG, 24,
				   "NOT");
	assert_refused("SELECT id FROM t WHERE NOT auth.user_id() IN (SELECT uid FROM u)",
				   SYNC_ERROR_CONFIG, 28, "NOT");
	assert_refused("SELECT id FROM t WHERE NOT x && auth.parameter('a')", SYNC_ERROR_CONFIG, 28,
				   "NOT");
}

/* what is missing ends it: later comparisons are not evaluated, other variants are */
static void
test_errors(void **state)
{
	static const char *columns = "id x n a";

	(void) state;
	assert_buckets("SELECT id FROM t WHERE auth.user_id() IN a AND n = 1", columns,
				   ROW(text("X"), value_integer(0), text("no")), "");
	assert_buckets("SELECT id FROM t WHERE auth.user_id() IN a AND n = 1", columns,
				   ROW(text("X"), value_integer(1), text("no")), "!");
	assert_buckets("SELECT id FROM t WHERE x = auth.user_id() AND auth.user_id() IN a", columns,
				   ROW(value_null(), value_integer(0), text("no")), "");
	assert_buckets("SELECT id FROM t WHERE n = 1 AND x = auth.user_id() AND x IN a", columns,
				   ROW(text("X"), value_integer(0), text("no")), "");
	assert_buckets("SELECT id FROM t WHERE n = 1 AND x = auth.user_id() AND x IN a", columns,
				   ROW(text("X"), value_integer(1), text("no")), "!");
	/* but both sides of what is one condition are */
	assert_buckets("SELECT id FROM t WHERE n = 1 AND x IN a", columns,
				   ROW(text("X"), value_integer(0), text("no")), "!");
	assert_buckets("SELECT id FROM t WHERE auth.user_id() IN a OR x = auth.user_id()", columns,
				   ROW(text("X"), value_integer(0), text("no")), "s|1[\"X\"]!");
}

/* ---------------------------------------------------------------- keys */

static void
test_values_of_comparisons(void **state)
{
	static const char *columns = "id x";
	static const char *equal = "SELECT id FROM t WHERE x = auth.user_id()";
	static const char *in_parameter = "SELECT id FROM t WHERE x IN auth.parameter('a')";
	static const char *in_subquery =
		"SELECT id FROM t WHERE x IN (SELECT k FROM u WHERE uid = auth.user_id())";

	(void) state;
	assert_buckets(equal, columns, ROW(value_null()), "");
	assert_buckets(equal, columns, ROW(value_blob("x", 1)), "");
	assert_buckets(equal, columns, ROW(value_real(2)), "s|0[2]");
	assert_buckets(in_parameter, columns, ROW(value_null()), "");
	assert_buckets(in_parameter, columns, ROW(value_real(2.5)), "s|0[2.5]");
	assert_buckets(in_subquery, columns, ROW(value_null()), "s|0[null]");
	assert_buckets(in_subquery, "id", ROW(value_null()), "s|0[null]");
	assert_buckets(in_subquery, columns, ROW(value_blob("x", 1)), "");
	assert_buckets(in_subquery, columns, ROW(value_real(1e21)), "s|0[1000000000000000000000]");
}

static void
test_values_of_arrays(void **state)
{
	static const char *columns = "id x";
	static const char *array = "[9007199254740993,1.0,1.5,true,null,{\"b\":[1]},[2],\"a\",\"a\"]";
	static const char *in_column = "SELECT id FROM t WHERE auth.user_id() IN x";
	static const char *with_parameter = "SELECT id FROM t WHERE x && auth.parameter('a')";
	static const char *parameter_first = "SELECT id FROM t WHERE auth.parameter('a') && x";
	static const char *with_subquery =
		"SELECT id FROM t WHERE x && (SELECT k FROM u WHERE uid = auth.user_id())";
	static const char *raw = "s|0[9007199254740992] s|0[1] s|0[1.5] s|0[true] s|0[{\"b\":[1]}] "
		"s|0[[2]] s|0[\"a\"] s|0[\"a\"]";

	(void) state;
	assert_buckets(in_column, columns, ROW(text(array)), raw);
	assert_buckets(with_parameter, columns, ROW(text(array)), raw);
	assert_buckets(parameter_first, columns, ROW(text(array)), raw);
	assert_buckets(with_subquery, columns, ROW(text(array)),
				   "s|0[9007199254740993] s|0[1] s|0[1.5] s|0[1] s|0[null] "
				   "s|0[\"{\\\"b\\\":[1]}\"] s|0[\"[2]\"] s|0[\"a\"] s|0[\"a\"]");

	assert_buckets(parameter_first, columns, ROW(value_null()), "");
	assert_buckets(with_parameter, columns, ROW(value_blob("[1]", 3)), "");
	assert_buckets(parameter_first, columns, ROW(value_blob("[1]", 3)), "!");
	assert_buckets(in_column, columns, ROW(value_blob("[1]", 3)), "!");
	assert_buckets(with_subquery, columns, ROW(value_blob("[1]", 3)), "!");
	assert_buckets(in_column, columns, ROW(value_null()), "");
	assert_buckets(with_parameter, columns, ROW(value_null()), "!");
	assert_buckets(with_subquery, columns, ROW(value_null()), "");
	assert_buckets(in_column, columns, ROW(text("{}")), "!");
	assert_buckets(with_parameter, columns, ROW(text("bad")), "!");
	assert_buckets(with_subquery, columns, ROW(value_integer(1)), "!");
	assert_buckets(with_subquery, columns, ROW(text("[]")), "");
}

static void
test_overlap_of_columns(void **state)
{
	static const char *query = "SELECT id FROM t WHERE a && b";
	static const char *columns = "id a b";

	(void) state;
	assert_buckets(query, columns, ROW(text("[3,1,2]"), text("[5,4,3]")), "s|0[]");
	assert_buckets(query, columns, ROW(text("[3,1,2]"), text("[5,4]")), "");
	assert_buckets(query, columns, ROW(text("[1]"), text("[1.0]")), "s|0[]");
	assert_buckets(query, columns, ROW(text("[1]"), text("[\"1\"]")), "");
	assert_buckets(query, columns, ROW(text("[9007199254740993]"), text("[9007199254740992]")), "");
	assert_buckets(query, columns,
				   ROW(text("[99999999999999999999]"), text("[1,99999999999999999999]")), "s|0[]");
	assert_buckets(query, columns, ROW(text("[true]"), text("[1]")), "s|0[]");
	assert_buckets(query, columns, ROW(text("[null]"), text("[null]")), "");
	assert_buckets(query, columns, ROW(text("[{\"a\":1}]"), text("[\"{\\\"a\\\":1}\"]")), "s|0[]");
	assert_buckets(query, columns, ROW(text("[\"\\ud83d\\ude00\",\"\\uff41\"]"),
									   text("[\"\\ud83d\\ude00\"]")), "s|0[]");
	assert_buckets(query, columns, ROW(value_null(), text("bad")), "");
	assert_buckets(query, columns, ROW(text("[]"), text("bad")), "!");
	assert_buckets(query, columns, ROW(text("{}"), text("[]")), "!");

	/* in WHERE itself only: what the service's expressions do not know stays unknown */
	assert_refused("SELECT id, a && b AS v FROM t", SYNC_ERROR_CONFIG, 12, "&&");
	assert_refused("SELECT id FROM t WHERE (a NOT IN b) IS NULL", SYNC_ERROR_CONFIG, 25, "NOT IN");
}

/* arrays whose elements have nothing in common: no quadratic work */
static void
test_overlap_of_long_arrays(void **state)
{
	SyncBuffer	arrays[2];
	struct timespec start;
	struct timespec end;

	(void) state;
	for (int a = 0; a < 2; a++)
	{
		buffer_init(&arrays[a], arena, 1000);
		for (int i = 0; i < 100000; i++)
		{
			const char *element = arena_printf(arena, "%s%d", i == 0 ? "[" : ",", 2 * i + a);

			buffer_append(&arrays[a], element, strlen(element));
		}
		buffer_append(&arrays[a], "]", 2);
	}
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &start);
	assert_buckets("SELECT id FROM t WHERE a && b", "id a b",
				   ROW(text(arrays[0].data), text(arrays[1].data)), "");
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
	/* 10^10 comparisons take half a minute at the least */
	assert_true(end.tv_sec - start.tv_sec < 10);
}

static void
test_combinations(void **state)
{
	static const char *query = "SELECT id FROM t WHERE auth.user_id() IN a "
		"AND b && (SELECT k FROM u WHERE uid = auth.user_id()) AND x = auth.user_id()";
	SyncBuffer	array;

	(void) state;
	assert_buckets(query, "id a b x", ROW(text("[1,2]"), text("[3,4,5]"), text("X")),
				   "s|0[1,3,\"X\"] s|0[1,4,\"X\"] s|0[1,5,\"X\"] "
				   "s|0[2,3,\"X\"] s|0[2,4,\"X\"] s|0[2,5,\"X\"]");
	assert_buckets(query, "id a b x", ROW(text("[1,2]"), text("[]"), text("X")), "");

	/* a million */
	buffer_init(&array, arena, 5000);
	for (int i = 0; i < 1000; i++)
		buffer_append(&array, i == 0 ? "[1" : ",1", 2);
	buffer_append(&array, "]", 2);
	assert_buckets(query, "id a b x", ROW(text(array.data), text(array.data), text("X")), "!");
}

/* with a wildcard, conditions see no column; items do */
static void
test_wildcards(void **state)
{
	static const char *item = "SELECT id, _table_suffix AS s FROM \"t_%\"";
	static const char *columns = "id x";
	const SyncPlan *plan;
	EvaluatedRow row;

	(void) state;
	row = evaluate(compile_ok(item), "t_9", columns, ROW(text("X")));
	assert_string_equal(buckets_of(&row), "s|0[]");
	assert_bytes(row.bucket_rows[0].json, "{\"id\":\"1\",\"s\":\"9\"}");
	plan = compile_ok("SELECT id FROM \"t_%\" WHERE x = auth.user_id()");
	row = evaluate(plan, "t_9", columns, ROW(text("X")));
	assert_string_equal(buckets_of(&row), "");
	/* the name as it is written */
	row = evaluate(plan, "t_%", columns, ROW(text("X")));
	assert_string_equal(buckets_of(&row), "s|0[\"X\"]");
	row = evaluate(compile_ok("SELECT id FROM \"t_%\" WHERE _table_suffix = '9'"), "t_9", columns,
				   ROW(text("X")));
	assert_string_equal(buckets_of(&row), "");
	row = evaluate(compile_ok("SELECT id FROM \"t_%\" WHERE x IS NULL"), "t_9", columns,
				   ROW(text("X")));
	assert_string_equal(buckets_of(&row), "s|0[]");
	row = evaluate(compile_ok("SELECT a.id FROM \"t_%\" AS a WHERE "
							  "a.x IN (SELECT k FROM u WHERE uid = auth.user_id())"),
				   "t_9", columns, ROW(text("X")));
	assert_string_equal(buckets_of(&row), "s|0[null]");
	/* an alias or a wildcard for schemas changes nothing */
	row = evaluate(compile_ok("SELECT a.id FROM \"%\".t AS a WHERE a.x = auth.user_id()"), "t",
				   columns, ROW(text("X")));
	assert_string_equal(buckets_of(&row), "s|0[\"X\"]");

	assert_entries("SELECT id FROM t WHERE x IN (SELECT k FROM \"u_%\" WHERE uid = auth.user_id())",
				   "u_1", "k uid", (SyncValue[]) {text("K"), text("U")}, "");
	assert_entries("SELECT id FROM t WHERE x IN (SELECT ifnull(k, 'none') FROM \"u_%\" "
				   "WHERE ifnull(uid, 'U') = auth.user_id())",
				   "u_1", "k uid", (SyncValue[]) {text("K"), text("V")},
				   "\"s\",\"0\",\"U\"=\"none\"");
}

/* ---------------------------------------------------------------- subqueries */

/* n counts subqueries over all variants; one that is distributed counts again */
static void
test_numbers_of_subqueries(void **state)
{
	static const char *distributed = "SELECT id FROM t WHERE (x = auth.user_id() OR n = 1) "
		"AND x IN (SELECT k FROM u WHERE uid = auth.user_id())";
	static const char *several = "SELECT id FROM t "
		"WHERE x IN (SELECT k FROM u WHERE uid = auth.user_id()) "
		"OR x IN (SELECT org FROM u WHERE uid = auth.user_id()) "
		"AND y IN (SELECT k FROM v WHERE uid = auth.user_id()) "
		"OR auth.user_id() IN (SELECT uid FROM u WHERE k = auth.parameter('k'))";
	static const char *columns = "uid k org";
	const SyncValue values[] = {text("U"), text("K"), text("O")};
	const SyncPlan *plan;

	(void) state;
	assert_buckets(distributed, "id x n", ROW(text("X"), value_integer(1)),
				   "s|0[\"X\",\"X\"] s|1[\"X\"]");
	assert_entries(distributed, "u", columns, values,
				   "\"s\",\"0\",\"U\"=\"K\" \"s\",\"1\",\"U\"=\"K\"");

	plan = compile_ok(several);
	assert_int_equal(plan->bucket_count, 3);
	assert_int_equal(plan->index_count, 4);
	assert_int_equal(plan_table_count(plan), 3);
	assert_buckets(several, "id x y", ROW(text("X"), text("Y")),
				   "s|0[\"X\"] s|1[\"X\",\"Y\"] s|2[]");
	assert_entries(several, "u", columns, values, "\"s\",\"0\",\"U\"=\"K\" "
				   "\"s\",\"1\",\"U\"=\"O\" \"s\",\"3\",\"K\",\"U\"=\"U\"");
	assert_entries(several, "v", columns, values, "\"s\",\"2\",\"U\"=\"K\"");
}

/* each stream counts for itself */
static void
test_several_streams(void **state)
{
	const SyncPlan *plan = compile_rules(
		"config:\n  edition: 2\n"
		"bucket_definitions:\n  b:\n    data:\n      - SELECT id FROM t\n"
		"streams:\n"
		"  s1:\n    query: SELECT id FROM t WHERE x IN (SELECT k FROM u WHERE uid = auth.user_id())\n"
		"  s2:\n    priority: 1\n"
		"    query: SELECT id, x FROM t WHERE x IN (SELECT k FROM u WHERE uid = auth.user_id()) "
		"OR x = auth.user_id()\n");
	static const char *const json[] = {
		"{\"id\":\"1\"}", "{\"id\":\"1\"}", "{\"id\":\"1\",\"x\":\"X\"}",
		"{\"id\":\"1\",\"x\":\"X\"}"
	};
	EvaluatedRow row;

	(void) state;
	assert_non_null(plan);
	row = evaluate(plan, "t", "id x", ROW(text("X")));
	assert_string_equal(buckets_of(&row), "b[] s1|0[\"X\"] s2|0[\"X\"] s2|1[\"X\"]");
	for (int i = 0; i < row.bucket_row_count; i++)
		assert_bytes(row.bucket_rows[i].json, json[i]);
	row = evaluate(plan, "u", "uid k", (SyncValue[]) {text("U"), text("K")});
	assert_string_equal(entries_of(&row), "\"s1\",\"0\",\"U\"=\"K\" \"s2\",\"0\",\"U\"=\"K\"");
}

static void
test_entries(void **state)
{
	static const char *columns = "uid k org tags";
	static const char *plain = "SELECT id FROM t WHERE x IN (SELECT k FROM u "
		"WHERE uid = auth.user_id() AND org = 'O')";
	static const char *arrays = "SELECT id FROM t WHERE x IN (SELECT upper(a.k) FROM u AS a "
		"WHERE auth.parameter('admin') AND auth.parameter('t') IN a.tags "
		"AND a.uid = auth.parameter('u'))";

	(void) state;
	assert_entries(plain, "u", columns,
				   (SyncValue[]) {value_real(2), value_real(3), text("O"), value_null()},
				   "\"s\",\"0\",2=3.0");
	assert_entries(plain, "u", columns,
				   (SyncValue[]) {text("U"), text("K"), text("P"), value_null()}, "");
	assert_entries(plain, "u", columns,
				   (SyncValue[]) {value_null(), text("K"), text("O"), value_null()}, "");
	assert_entries(plain, "u", columns,
				   (SyncValue[]) {text("U"), value_null(), text("O"), value_null()},
				   "\"s\",\"0\",\"U\"=null");
	assert_entries(plain, "u", columns,
				   (SyncValue[]) {text("U"), value_blob("x", 1), text("O"), value_null()}, "");

	assert_entries(arrays, "u", columns,
				   (SyncValue[]) {text("U"), text("k"), text("O"), text("[1,null,\"b\"]")},
				   "\"s\",\"0\",1,\"U\"=\"K\" \"s\",\"0\",\"b\",\"U\"=\"K\"");
	assert_entries(arrays, "u", columns,
				   (SyncValue[]) {value_null(), text("k"), text("O"), text("[1]")}, "");
	/* in the service this one stops replication; here it is an error of one query */
	assert_entries(arrays, "u", columns,
				   (SyncValue[]) {text("U"), text("k"), text("O"), text("bad")}, "!");
	assert_entries("SELECT id FROM t WHERE x IN (SELECT k FROM u WHERE auth.user_id() IN tags) "
				   "OR x IN (SELECT org FROM u WHERE uid = auth.user_id())", "u", columns,
				   (SyncValue[]) {text("U"), text("K"), text("O"), text("{}")},
				   "\"s\",\"1\",\"U\"=\"O\"!");
}

static void
test_subqueries_are_checked(void **state)
{
	(void) state;
	assert_refused("SELECT id FROM t WHERE x IN (SELECT k FROM u)", SYNC_ERROR_CONFIG, 30,
				   "compare");
	assert_refused("SELECT id FROM t WHERE x IN (SELECT k FROM u WHERE n = 1)", SYNC_ERROR_CONFIG,
				   30, "compare");
	assert_refused("SELECT id FROM t WHERE x IN (SELECT k, l FROM u WHERE n = auth.user_id())",
				   SYNC_ERROR_CONFIG, 37, "one column");
	assert_refused("SELECT id FROM t WHERE x IN (SELECT * FROM u WHERE n = auth.user_id())",
				   SYNC_ERROR_CONFIG, 37, "one column");
	assert_refused("SELECT id FROM t WHERE x IN (SELECT auth.user_id() FROM u WHERE n = auth.user_id())",
				   SYNC_ERROR_CONFIG, 37, "columns of its table");
	assert_refused("SELECT id FROM t WHERE x IN (SELECT t.k FROM u WHERE n = auth.user_id())",
				   SYNC_ERROR_CONFIG, 37, "not the query's table");
	assert_refused("SELECT id FROM t WHERE x IN (SELECT k FROM u, v WHERE n = auth.user_id())",
				   SYNC_ERROR_CONFIG, 47, "one table");
	assert_refused("SELECT id FROM t WHERE x IN (SELECT 1)", SYNC_ERROR_CONFIG, 30, "table");
	assert_refused("SELECT id FROM t WHERE x IN (SELECT k FROM u WHERE n = auth.user_id() LIMIT 1)",
				   SYNC_ERROR_CONFIG, 71, "LIMIT");
	assert_refused("SELECT id FROM t WHERE x IN (SELECT k FROM u WHERE n = auth.user_id() OR m = 1)",
				   SYNC_ERROR_UNSUPPORTED, 52, "OR");
	assert_refused("SELECT id FROM t WHERE x IN (SELECT k FROM u WHERE NOT n = auth.user_id())",
				   SYNC_ERROR_CONFIG, 56, "NOT");
	assert_refused("SELECT id FROM t WHERE x IN (SELECT k FROM u WHERE n IN "
				   "(SELECT m FROM v WHERE w = auth.user_id()))", SYNC_ERROR_UNSUPPORTED, 58,
				   "another");
	assert_refused("SELECT id FROM t WHERE auth.parameter('a') && (SELECT k FROM u WHERE n = auth.user_id())",
				   SYNC_ERROR_UNSUPPORTED, 24, "&&");
	assert_refused("SELECT id FROM t WHERE 'a' IN (SELECT k FROM u WHERE n = auth.user_id())",
				   SYNC_ERROR_CONFIG, 24, "constant");
	assert_refused("SELECT id FROM t WHERE x IN (SELECT k FROM u WHERE n IN auth.parameter('a'))",
				   SYNC_ERROR_UNSUPPORTED, 52, "list");
	assert_refused("SELECT id FROM t WHERE x IN (SELECT k FROM u WHERE n && auth.parameter('a'))",
				   SYNC_ERROR_UNSUPPORTED, 52, "list");
	assert_refused("SELECT id FROM t WHERE (x IN (SELECT k FROM u WHERE n = auth.user_id())) = 1",
				   SYNC_ERROR_CONFIG, 31, "subquery");
	assert_refused("SELECT id FROM t WHERE x = (SELECT k FROM u WHERE n = auth.user_id())",
				   SYNC_ERROR_CONFIG, 29, "subquery");
}

/* ---------------------------------------------------------------- messages */

static void
test_functions(void **state)
{
	(void) state;
	assert_refused("SELECT id FROM t WHERE x = auth.jwt()", SYNC_ERROR_CONFIG, 33, "auth.jwt");
	assert_refused("SELECT id FROM t WHERE x = connection.user_id()", SYNC_ERROR_CONFIG, 39,
				   "connection.user_id");
	assert_refused("SELECT id FROM t WHERE x = auth.parameter()", SYNC_ERROR_CONFIG, 28,
				   "one argument");
	assert_refused("SELECT id FROM t WHERE x = auth.parameters('a')", SYNC_ERROR_CONFIG, 28,
				   "no argument");
	assert_refused("SELECT id FROM t WHERE x = auth.parameter(y)", SYNC_ERROR_CONFIG, 43,
				   "constant");
	assert_refused("SELECT id FROM t WHERE x = request.user_id()", SYNC_ERROR_CONFIG, 28, "request");
	assert_refused("SELECT id FROM t WHERE x = bucket.p", SYNC_ERROR_CONFIG, 28, "bucket");
	assert_refused("SELECT id FROM t WHERE x = user_parameters.p", SYNC_ERROR_CONFIG, 28,
				   "user_parameters");
	assert_refused("SELECT id, auth.user_id() AS u FROM t", SYNC_ERROR_CONFIG, 12, "item");
	assert_refused("SELECT id FROM t WHERE x = auth.parameter(upper('a'))", SYNC_ERROR_CONFIG, 43,
				   "constant");
	assert_refused("SELECT id FROM t WHERE x < auth.user_id()", SYNC_ERROR_CONFIG, 24, "mix");
	assert_refused("SELECT x FROM t", SYNC_ERROR_CONFIG, 8, "id");
}

static void
test_all_errors_at_once(void **state)
{
	(void) state;
	assert_null(compile_query("SELECT nope(x) AS id, y FROM t "
							  "WHERE nope(y) OR x IN (SELECT nope(z) FROM u WHERE nope(u)) "
							  "AND NOT x = auth.user_id()"));
	assert_int_equal(count_messages(RULES_FATAL), 5);
}

/* one warning for each stream that needs it, wherever the parameter stands */
static void
test_auto_subscribe(void **state)
{
	(void) state;
	assert_non_null(compile_stream("    auto_subscribe: true\n    query: SELECT id FROM t "
								   "WHERE x = auth.user_id()"));
	assert_int_equal(count_messages(RULES_WARNING), 1);
	assert_non_null(compile_stream("    auto_subscribe: true\n    query: SELECT id FROM t WHERE "
								   "x IN (SELECT k FROM u WHERE uid = subscription.parameter('a'))"));
	assert_int_equal(count_messages(RULES_WARNING), 2);
	assert_non_null(compile_stream("    auto_subscribe: true\n    query: SELECT id FROM t WHERE "
								   "x = subscription.parameter('a') "
								   "OR subscription.parameter('b')"));
	assert_int_equal(count_messages(RULES_WARNING), 2);
	assert_non_null(compile_stream("    query: SELECT id FROM t WHERE x = subscription.parameter('a')"));
	assert_int_equal(count_messages(RULES_WARNING), 1);
}

/* the service sees only some of the names that are folded */
static void
test_case_warnings(void **state)
{
	(void) state;
	compile_ok("SELECT ID FROM T WHERE T.N = 1 AND \"X\" = auth.USER_ID()");
	assert_int_equal(count_messages(RULES_WARNING), 1 + 4);
	compile_ok("SELECT A.id FROM public.T AS a WHERE x IN (SELECT k FROM U WHERE uid = auth.user_id())");
	assert_int_equal(count_messages(RULES_WARNING), 1 + 2);
	compile_ok("SELECT id FROM T AS a");
	assert_int_equal(count_messages(RULES_WARNING), 1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		rules_test(test_or_is_distributed),
		rules_test(test_three_ors),
		rules_test(test_simple_conditions_are_folded),
		rules_test(test_not),
		rules_test(test_errors),
		rules_test(test_values_of_comparisons),
		rules_test(test_values_of_arrays),
		rules_test(test_overlap_of_columns),
		rules_test(test_overlap_of_long_arrays),
		rules_test(test_combinations),
		rules_test(test_wildcards),
		rules_test(test_numbers_of_subqueries),
		rules_test(test_several_streams),
		rules_test(test_entries),
		rules_test(test_subqueries_are_checked),
		rules_test(test_functions),
		rules_test(test_all_errors_at_once),
		rules_test(test_auto_subscribe),
		rules_test(test_case_warnings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
