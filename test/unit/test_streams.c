/*-------------------------------------------------------------------------
 *
 * test_streams.c
 *	  Streams of edition 3, from their text to the stored plan and to rows: what
 *	  the conformance vectors do not reach (longer joins, names, merging, positions
 *	  of messages).  Limits are in test_streams_limits.c.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>

#include "bson_bytes.h"
#include "json.h"
#include "rules_test.h"

static const SyncPlan *plan;
static const JsonNode *stored;	/* its "plan" */

/* ---------------------------------------------------------------- helpers */

#define AUTH "auth.user_id()"

/* what was compiled is in plan, messages and stored */
static bool
compile_text(const char *yaml)
{
	RulesOptions options = {.default_schema = "public"};
	const JsonNode *wrapper;
	SyncError	error;
	SyncString	json;
	size_t		len;

	stored = NULL;
	plan = rules_compile(yaml, strlen(yaml), &options, arena, &messages);
	if (plan == NULL)
		return false;
	json.data = plan_stored_json(plan, &len);
	json.len = (uint32_t) len;
	assert_non_null(json.data);
	wrapper = json_parse(json, JSON_NUMBERS_EXACT, arena, &error);
	assert_non_null(wrapper);
	stored = json_member(wrapper, str("plan"));
	return true;
}

static void
compile_ok(const char *yaml)
{
	if (!compile_text(yaml))
		fail_msg("refused: %d:%d: %s", messages->error.line, messages->error.column,
				 messages->error.message);
}

static const char *
one_query(const char *query)
{
	return arena_printf(arena, "config:\n  edition: 3\nstreams:\n  s:\n    query: >-\n      %s\n",
						query);
}

static void
compile_query(const char *query)
{
	compile_ok(one_query(query));
}

static int
count_messages(RulesLevel level)
{
	int			count = 0;

	for (const RulesMessage *m = messages; m != NULL; m = m->next)
		count += m->level == level;
	return count;
}

/* what is found under "a.0.b" */
static const JsonNode *
find(const char *path)
{
	const JsonNode *node = stored;

	while (*path != '\0' && node != NULL)
	{
		size_t		len = strcspn(path, ".");

		if (node->kind == JSON_ARRAY)
		{
			int			i = atoi(path);

			for (node = node->first; node != NULL && i > 0; i--)
				node = node->next;
		}
		else
			node = json_member(node, (SyncString) {path, (uint32_t) len});
		path += len + (path[len] == '.');
	}
	return node;
}

/* quotes of the expected JSON are written as ' */
static void
assert_stored(const char *path, const char *expected)
{
	const JsonNode *node = find(path);
	SyncBuffer	buffer;
	char	   *quoted = arena_strndup(arena, expected, strlen(expected));
	char	   *got;

	if (node == NULL)
		fail_msg("nothing at %s", path);
	for (char *c = quoted; *c != '\0'; c++)
		*c = *c == '\'' ? '"' : *c;
	buffer_init(&buffer, arena, 100);
	json_append_node(&buffer, node);
	got = arena_strndup(arena, buffer.data, buffer.len);
	if (strcmp(got, quoted) != 0)
		fail_msg("%s is %s, not %s", path, got, quoted);
}

static int
count_stored(const char *path)
{
	const JsonNode *node = find(path);

	return node == NULL ? -1 : (int) node->count;
}

#define COLUMN(name) "{'type':'data','source':{'column':'" name "'}}"
#define ELEMENT(function, name) "{'type':'data','source':{'function':" #function \
	",'outputName':'" name "'}}"
#define INTEGER(digits) "{'type':'lit_int','base10':'" digits "'}"
#define BINARY(left, op, right) "{'type':'binary','operator':'" op "','left':" left \
	",'right':" right "}"
#define NOT(operand) "{'type':'unary','operator':'not','operand':" operand "}"
#define LOOKUP(stage, id, result) "{'type':'lookup','lookup':{'stageId':" #stage \
	",'idInStage':" #id "},'resultIndex':" #result "}"

/* the query is refused with a message at that column of its line */
static void
assert_refused(const char *query, SyncErrorCode code, int column, const char *part)
{
	if (compile_text(one_query(query)))
		fail_msg("not refused: %s", query);
	if (messages->error.code != code || messages->error.line != 6 ||
		messages->error.column != column + 6 || strstr(messages->error.message, part) == NULL)
		fail_msg("got code %d at %d:%d: %s", messages->error.code, messages->error.line,
				 messages->error.column, messages->error.message);
}

static EvaluatedRow
evaluate(const SyncPlan *of, const char *table, const char *const *names, int count,
		 const SyncValue *values)
{
	SyncColumn *columns = arena_array(arena, SyncColumn, (size_t) count);
	SyncRowType type = {.column_count = count, .columns = columns};
	BucketNaming naming = {.prefix = str("")};
	const TableBinding *binding;
	EvaluatedRow row;
	SyncError	error;

	for (int i = 0; i < count; i++)
		columns[i].name = str(names[i]);
	binding = plan_bind(of, "public", table, &type, &naming, arena, &error);
	assert_non_null(binding);
	assert_int_equal(table_evaluate(binding, values, arena, &row), SYNC_OK);
	return row;
}

static void
assert_text(SyncString got, const char *expected)
{
	assert_string_equal(arena_strndup(arena, got.data, got.len), expected);
}

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
	assert_refused("SELECT public.t.id FROM t", SYNC_ERROR_CONFIG, 8, "schema");
	assert_refused("SELECT id FROM t AS x (a)", SYNC_ERROR_CONFIG, 16, "renamed");
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

	compile_ok("config:\n  edition: 3\nwith:\n  a: SELECT x FROM nowhere WHERE f(1)\n"
			   "streams:\n  s:\n    with:\n      b: SELECT 1\n    query: SELECT * FROM t\n");
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
	assert_refused("SELECT id FROM generate_series(1, 2)", SYNC_ERROR_CONFIG, 16, "FROM");
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
		rules_test(test_positions),
		rules_test(test_hints),
		rules_test(test_all_errors_at_once),
		rules_test(test_warnings),
		rules_test(test_wrapper),
		rules_test(test_other_editions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
