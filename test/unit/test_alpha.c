/*-------------------------------------------------------------------------
 *
 * test_alpha.c
 *	  Streams of edition 2, from their text to evaluated rows: what the
 *	  conformance vectors do not reach (how AND and OR are multiplied out,
 *	  numbers of subqueries, values of keys, limits), and streams compared with
 *	  bucket definitions that say the same, on random queries and rows.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <time.h>

#include "bson_bytes.h"
#include "compile_alpha.h"
#include "json.h"
#include "rules_test.h"
#include "value.h"

/* ---------------------------------------------------------------- helpers */

/* a stream s with what follows its name, on a line of its own */
static const SyncPlan *
compile_stream(const char *keys)
{
	return compile_rules(arena_printf(arena, "config:\n  edition: 2\nstreams:\n  s:\n%s\n", keys));
}

/* the query stands in line 5, from column 13 on */
static const SyncPlan *
compile_query(const char *query)
{
	return compile_stream(arena_printf(arena, "    query: |-\n      %s", query));
}

static const SyncPlan *
compile_ok(const char *query)
{
	const SyncPlan *plan = compile_query(query);

	if (plan == NULL)
		fail_msg("%s: refused: %d:%d: %s", query, messages->error.line, messages->error.column,
				 messages->error.message);
	return plan;
}

static int
count_messages(RulesLevel level)
{
	int			count = 0;

	for (const RulesMessage *message = messages; message != NULL; message = message->next)
		count += message->level == level;
	return count;
}

/* one fatal message, at a column of the query's first line */
static void
assert_refused(const char *query, SyncErrorCode code, int column, const char *part)
{
	const RulesMessage *message;

	assert_null(compile_query(query));
	for (message = messages; message->level != RULES_FATAL; message = message->next)
		;
	if (message->error.code != code || message->error.line != 6 ||
		message->error.column != column + 6 || strstr(message->error.message, part) == NULL ||
		count_messages(RULES_FATAL) != 1)
		fail_msg("%s: %d messages, the first %d at %d:%d: %s", query, count_messages(RULES_FATAL),
				 message->error.code, message->error.line, message->error.column - 6,
				 message->error.message);
}

static EvaluatedRow
evaluate(const SyncPlan *plan, const char *table, const char *columns, const SyncValue *values)
{
	BucketNaming naming = {.prefix = str("")};
	const TableBinding *binding;
	EvaluatedRow row;
	SyncError	error;

	binding = plan_bind(plan, "public", table, shape(columns), &naming, arena, &error);
	assert_non_null(binding);
	assert_int_equal(table_evaluate(binding, values, arena, &row), SYNC_OK);
	return row;
}

/* names of a row's buckets, separated by blanks, and "!" for each error */
static const char *
buckets_of(const EvaluatedRow *row)
{
	SyncBuffer	names;

	buffer_init(&names, arena, 100);
	for (int i = 0; i < row->bucket_row_count; i++)
	{
		if (names.len > 0)
			buffer_append_char(&names, ' ');
		buffer_append(&names, row->bucket_rows[i].bucket.data, row->bucket_rows[i].bucket.len);
	}
	for (int i = 0; i < row->error_count; i++)
		buffer_append_char(&names, '!');
	buffer_append_char(&names, '\0');
	return names.data;
}

static void
assert_buckets(const char *query, const char *columns, const SyncValue *values,
			   const char *expected)
{
	EvaluatedRow row = evaluate(compile_ok(query), "t", columns, values);

	assert_string_equal(buckets_of(&row), expected);
}

/* appends the fields of a document's bytes, separated by commas */
static void
append_fields(SyncBuffer *text, const char *document)
{
	const unsigned char *len = (const unsigned char *) document;
	SyncString	bytes = {document, (uint32_t) (len[0] | len[1] << 8)};
	const char *separator = "";
	BsonReader	reader;
	BsonField	field;

	assert_true(bson_reader_init(&reader, bytes));
	while (bson_reader_next(&reader, &field))
	{
		buffer_append(text, separator, strlen(separator));
		separator = ",";
		json_append_value(text, field.value);
	}
	assert_false(reader.failed);
}

/* entries as [stream,number,key...]=result, separated by blanks, and "!" for each error */
static const char *
entries_of(const EvaluatedRow *row)
{
	SyncBuffer	text;

	buffer_init(&text, arena, 100);
	for (int i = 0; i < row->parameter_row_count; i++)
	{
		if (i > 0)
			buffer_append_char(&text, ' ');
		/* length, type and name "l"; length, type and name "0" */
		append_fields(&text, row->parameter_rows[i].lookup.data + 4 + 3);
		buffer_append_char(&text, '=');
		append_fields(&text, row->parameter_rows[i].rows.data + 4 + 3);
	}
	for (int i = 0; i < row->error_count; i++)
		buffer_append_char(&text, '!');
	buffer_append_char(&text, '\0');
	return text.data;
}

static void
assert_entries(const char *query, const char *table, const char *columns, const SyncValue *values,
			   const char *expected)
{
	EvaluatedRow row = evaluate(compile_ok(query), table, columns, values);

	assert_int_equal(row.bucket_row_count, 0);
	assert_string_equal(entries_of(&row), expected);
}

static void
assert_stems(const char *where, int expected)
{
	const SyncPlan *plan = compile_ok(arena_printf(arena, "SELECT id FROM t WHERE %s", where));

	assert_int_equal(plan->bucket_count, expected);
	for (int i = 0; i < expected; i++)
		assert_bytes(plan->buckets[i].stem, arena_printf(arena, "s|%d", i));
}

/* ---------------------------------------------------------------- AND, OR, NOT */

#define ROW(...)	((SyncValue[]) {text("1"), __VA_ARGS__})

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

/* ---------------------------------------------------------------- random */

static uint64_t random_state;

static unsigned
random_below(unsigned n)
{
	random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (unsigned) (random_state >> 33) % n;
}

/* from the environment to repeat a failure; printed always */
static void
random_start(const char *test)
{
	const char *given = getenv("PGSYNC_TEST_SEED");

	random_state = given != NULL ? strtoull(given, NULL, 10) : (uint64_t) time(NULL);
	print_message("%s: PGSYNC_TEST_SEED=%llu\n", test, (unsigned long long) random_state);
}

static SyncValue
random_value(void)
{
	static const char *const texts[] = {"a", "b", "A", "", "1", "[\"a\",1]"};

	switch (random_below(6))
	{
		case 0:
			return value_null();
		case 1:
			return value_integer((int64_t) random_below(3));
		case 2:
			return value_real(random_below(4) / 2.0);
		case 3:
			return value_blob("a", 1);
		default:
			return text(texts[random_below(6)]);
	}
}

/* a condition on columns x, y, z and n that no row makes fail */
static const char *
random_filter(int depth)
{
	static const char *const leaves[] = {
		"n = 1", "n > 0.5", "x IS NULL", "y IS NOT NULL", "upper(x) = 'A'", "x = y", "n",
		"z IN '[\"a\",1]'", "x || y = 'ab'", "length(z) > 0", "ifnull(n, 1) = 1", "true", "x != 'a'"
	};
	const char *left;

	if (depth == 0 || random_below(3) == 0)
	{
		left = leaves[random_below(sizeof(leaves) / sizeof(leaves[0]))];
		return random_below(4) == 0 ? arena_printf(arena, "NOT (%s)", left) : left;
	}
	left = random_filter(depth - 1);
	return arena_printf(arena, random_below(6) == 0 ? "NOT (%s %s %s)" : "(%s %s %s)", left,
						random_below(2) == 0 ? "AND" : "OR", random_filter(depth - 1));
}

static void
random_row(SyncValue *values)
{
	values[0] = text("1");
	for (int i = 1; i < 5; i++)
		values[i] = random_value();
	/* = and IN compare blobs with nothing, but a blob with a blob is an error */
	for (int i = 1; i < 5; i++)
	{
		if (values[i].type == SYNC_BLOB)
			values[i] = i == 3 ? values[i] : text("a");
	}
}

#define RANDOM_COLUMNS	"id x y z n"

/* name without what stands before [ */
static const char *
keys_of_name(const BucketRow *row)
{
	const char *name = arena_strndup(arena, row->bucket.data, row->bucket.len);

	return strchr(name, '[');
}

/*
 * Bucket definition and stream with the same filters and the same equalities:
 * the same rows with the same keys.
 */
static void
test_like_bucket_definitions(void **state)
{
	int			matched = 0;

	(void) state;
	random_start("like bucket definitions");
	for (int i = 0; i < 300; i++)
	{
		const char *before = random_filter(3);
		const char *after = random_filter(3);
		const char *yaml;
		const SyncPlan *plan;

		yaml = arena_printf(arena, "config:\n  edition: 2\nbucket_definitions:\n  b:\n"
							"    parameters: SELECT request.user_id() AS p, request.parameters() ->> 'q' AS q\n"
							"    data:\n      - |-\n"
							"        SELECT id, upper(x) AS u, * FROM t WHERE %s AND x = bucket.p AND %s AND y = bucket.q\n"
							"streams:\n  s:\n    query: |-\n"
							"        SELECT id, upper(x) AS u, * FROM t WHERE %s AND x = auth.user_id() AND %s AND y = auth.parameter('q')\n",
							before, after, before, after);
		plan = compile_rules(yaml);
		if (plan == NULL)
			fail_msg("%s: %s", yaml, messages->next->error.message);
		assert_int_equal(plan->bucket_count, 2);
		for (int r = 0; r < 30; r++)
		{
			SyncValue	values[5];
			EvaluatedRow row;

			random_row(values);
			row = evaluate(plan, "t", RANDOM_COLUMNS, values);
			if (row.error_count != 0)
				fail_msg("%s: %s", yaml, row.error->message);
			if (row.bucket_row_count == 0)
				continue;
			matched++;
			if (row.bucket_row_count != 2)
				fail_msg("%s: %s", yaml, buckets_of(&row));
			assert_string_equal(keys_of_name(&row.bucket_rows[0]),
								keys_of_name(&row.bucket_rows[1]));
			assert_int_equal(row.bucket_rows[0].checksum, row.bucket_rows[1].checksum);
		}
	}
	assert_true(matched > 300);
}

/* AND, OR over filters and comparisons with what is written for the parameter */
static const char *
random_condition(int depth, const char *parameter, uint64_t *seed)
{
	uint64_t	kept;
	const char *left;
	const char *result;
	unsigned	kind;

	kept = random_state;
	random_state = *seed;
	kind = random_below(6);
	if (depth == 0 || kind < 2)
	{
		result = random_below(2) == 0 ? random_filter(1) :
			arena_printf(arena, "%c = %s", "xyn"[random_below(3)], parameter);
		*seed = random_state;
	}
	else
	{
		*seed = random_state;
		left = random_condition(depth - 1, parameter, seed);
		result = arena_printf(arena, "(%s %s %s)", left, kind < 4 ? "AND" : "OR",
							  random_condition(depth - 1, parameter, seed));
	}
	random_state = kept;
	return result;
}

/* all keys of a bucket's name are this */
static bool
keys_are(const BucketRow *row, const char *key)
{
	const char *at = keys_of_name(row) + 1;

	while (*at != ']')
	{
		if (strncmp(at, key, strlen(key)) != 0)
			return false;
		at += strlen(key);
		at += *at == ',';
	}
	return true;
}

/*
 * However a condition is multiplied out: a client whose parameter is 'a' gets
 * the row by one of its buckets exactly if the condition holds with 'a' in the
 * parameter's place.
 */
static void
test_variants_mean_the_condition(void **state)
{
	int			compiled = 0;
	int			matched = 0;

	(void) state;
	random_start("variants mean the condition");
	for (int i = 0; i < 400; i++)
	{
		uint64_t	seed = random_state + (uint64_t) i;
		uint64_t	same = seed;
		const char *condition = random_condition(4, "auth.user_id()", &seed);
		const char *with_value = random_condition(4, "'a'", &same);
		const SyncPlan *stream;
		const SyncPlan *plain;

		random_below(2);		/* the next condition has another seed */
		stream = compile_query(arena_printf(arena, "SELECT id FROM t WHERE %s", condition));
		if (stream == NULL)
		{
			/* only because there are too many variants */
			assert_int_equal(messages->next->error.code, SYNC_ERROR_LIMIT);
			continue;
		}
		compiled++;
		plain = compile_ok(arena_printf(arena, "SELECT id FROM t WHERE %s", with_value));
		assert_int_equal(plain->bucket_count, 1);
		for (int r = 0; r < 30; r++)
		{
			SyncValue	values[5];
			EvaluatedRow row;
			EvaluatedRow expected;
			bool		found = false;

			random_row(values);
			row = evaluate(stream, "t", RANDOM_COLUMNS, values);
			expected = evaluate(plain, "t", RANDOM_COLUMNS, values);
			assert_int_equal(row.error_count + expected.error_count, 0);
			for (int b = 0; b < row.bucket_row_count; b++)
				found |= keys_are(&row.bucket_rows[b], "\"a\"");
			matched += found;
			if (found != (expected.bucket_row_count == 1))
				fail_msg("%s: %s", condition, buckets_of(&row));
		}
	}
	assert_true(compiled > 300);
	assert_true(matched > 1000 && matched < 11000);
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
		rules_test(test_products_are_bounded),
		rules_test(test_streams_share_the_bound),
		rules_test(test_deep_conditions),
		rules_test(test_memory),
		rules_test(test_like_bucket_definitions),
		rules_test(test_variants_mean_the_condition),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
