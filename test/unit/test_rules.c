/*-------------------------------------------------------------------------
 *
 * test_rules.c
 *	  Sync rules from their text to evaluated rows: what the conformance
 *	  vectors do not reach (positions, limits, memory, binding to shapes).
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>

#include "bson_bytes.h"
#include "rules_test.h"
#include "value.h"

/* ---------------------------------------------------------------- helpers */

static const SyncPlan *
compile_ok(const char *yaml)
{
	const SyncPlan *plan = compile_rules(yaml);

	if (plan == NULL)
		fail_msg("refused: %d:%d: %s", messages->error.line, messages->error.column,
				 messages->error.message);
	return plan;
}

/* one definition b with one data query */
static const SyncPlan *
compile_query(const char *query)
{
	return compile_rules(arena_printf(arena, "bucket_definitions:\n  b:\n    data:\n      - %s\n",
									 query));
}

static void
assert_refused(const char *yaml, SyncErrorCode code, int line, int column, const char *part)
{
	assert_null(compile_rules(yaml));
	assert_int_equal(messages->level, RULES_FATAL);
	if (messages->error.code != code || messages->error.line != line ||
		messages->error.column != column || strstr(messages->error.message, part) == NULL)
		fail_msg("got code %d at %d:%d: %s", messages->error.code, messages->error.line,
				 messages->error.column, messages->error.message);
}

static const TableBinding *
bind(const SyncPlan *plan, const char *table, const char *columns)
{
	BucketNaming naming = {.prefix = str("17#")};
	SyncError	error;
	const TableBinding *binding;

	binding = plan_bind(plan, "public", table, shape(columns), &naming, arena, &error);
	assert_int_equal(error.code, SYNC_OK);
	return binding;
}

static EvaluatedRow
evaluate(const SyncPlan *plan, const char *table, const char *columns, const SyncValue *values)
{
	const TableBinding *binding = bind(plan, table, columns);
	EvaluatedRow row;

	assert_non_null(binding);
	assert_int_equal(table_evaluate(binding, values, arena, &row), SYNC_OK);
	return row;
}

static void
assert_string(SyncString got, const char *expected)
{
	if (got.len != strlen(expected) || memcmp(got.data, expected, got.len) != 0)
		fail_msg("got %.*s, not %s", (int) got.len, got.data, expected);
}

/* the JSON that a query makes of a row */
static void
assert_json(const char *query, const char *columns, const SyncValue *values, const char *json)
{
	const SyncPlan *plan = compile_query(query);
	EvaluatedRow row;

	assert_non_null(plan);
	row = evaluate(plan, "t", columns, values);
	assert_int_equal(row.error_count, 0);
	assert_int_equal(row.bucket_row_count, 1);
	assert_string(row.bucket_rows[0].json, json);
}

/* ---------------------------------------------------------------- messages */

static void
test_positions(void **state)
{
	(void) state;
	assert_refused("bucket_definitions:\n  b:\n    data:\n      - SELECT id FROM t WHERE nope(x)\n",
				   SYNC_ERROR_CONFIG, 4, 32, "nope");
	assert_refused("bucket_definitions:\n  b:\n    data:\n      - |\n        SELECT id\n"
				   "        FROM t WHERE x LIKE 'a'\n",
				   SYNC_ERROR_CONFIG, 6, 22, "LIKE");
	assert_refused("bucket_definitions:\n  b:\n    data:\n      - \"SELECT id FROM t WHERE\"\n",
				   SYNC_ERROR_SYNTAX, 4, 32, "");
	assert_refused("bucket_definitions:\n  b:\n    dta: []\n    data: []\n",
				   SYNC_ERROR_CONFIG, 3, 5, "dta");
	assert_string(str(messages->error.hint), "Did you mean \"data\"?");
	assert_refused("config:\n  edition: 4\nbucket_definitions: {}\n",
				   SYNC_ERROR_CONFIG, 2, 12, "edition");
	assert_refused("bucket_definitions:\n  b: [\n", SYNC_ERROR_SYNTAX, 3, 1, "YAML");
}

static void
test_all_errors_at_once(void **state)
{
	int			count = 0;

	(void) state;
	assert_null(compile_rules("bucket_definitions:\n  b:\n    data:\n"
							 "      - SELECT x FROM t\n"
							 "      - SELECT id FROM t WHERE id = bucket.p\n"
							 "      - SELECT id FROM t, u\n"
							 "    prio: 1\n"));
	for (const RulesMessage *message = messages; message != NULL; message = message->next)
		count++;
	assert_int_equal(count, 4);
}

static void
test_engine_is_refused(void **state)
{
	(void) state;
	assert_refused("config:\n  edition: 3\n  unstable_sqlite_expression_engine: true\nstreams: {}\n",
				   SYNC_ERROR_UNSUPPORTED, 3, 38, "engine");
}

static void
test_messages_are_bounded(void **state)
{
	static const char head[] = "bucket_definitions:\n  b:\n    data:\n";
	static const char item[] = "      - SELECT 1\n";
	SyncBuffer	yaml;
	int			count = 0;

	(void) state;
	buffer_init(&yaml, arena, 1000);
	buffer_append(&yaml, head, strlen(head));
	for (int i = 0; i < 1000; i++)
		buffer_append(&yaml, item, strlen(item));
	buffer_append_char(&yaml, '\0');
	assert_null(compile_rules(yaml.data));
	for (const RulesMessage *message = messages; message != NULL; message = message->next)
		count++;
	assert_int_equal(count, 101);
}

/* warnings alone do not end the work, and do not hide a fatal message */
static void
test_many_warnings(void **state)
{
	static const char head[] = "bucket_definitions:\n  b:\n    data:\n";
	static const char item[] = "      - SELECT ID FROM t\n      - SELECT id FROM T\n";
	static const char last[] = "      - SELECT id FROM last\n";
	SyncBuffer	yaml;
	const SyncPlan *plan;
	int			fatal = 0;

	(void) state;
	buffer_init(&yaml, arena, 1000);
	buffer_append(&yaml, head, strlen(head));
	for (int i = 0; i < 200; i++)
		buffer_append(&yaml, item, strlen(item));
	buffer_append(&yaml, last, sizeof(last));
	plan = compile_ok(yaml.data);
	assert_non_null(bind(plan, "last", "id"));

	yaml.len--;
	buffer_append(&yaml, "      - SELECT nope\n", 21);
	assert_null(compile_rules(yaml.data));
	for (const RulesMessage *message = messages; message != NULL; message = message->next)
		fatal += message->level == RULES_FATAL;
	assert_int_equal(fatal, 1);
}

/* ---------------------------------------------------------------- config */

static void
test_compatibility(void **state)
{
	const SyncCompatibility *c;

	(void) state;
	c = plan_compatibility(compile_ok("bucket_definitions: {}\n"));
	assert_int_equal(c->edition, 1);
	assert_false(c->timestamps_iso8601 || c->versioned_bucket_ids || c->fixed_json_extract ||
				 c->custom_postgres_types);
	assert_int_equal(c->timestamp_precision, -1);

	c = plan_compatibility(compile_ok("config: {edition: 2, fixed_json_extract: false, "
									  "timestamp_max_precision: milliseconds, storage_version: 2}\n"
									  "bucket_definitions: {}\n"));
	assert_int_equal(c->edition, 2);
	assert_true(c->timestamps_iso8601 && c->versioned_bucket_ids && c->custom_postgres_types);
	assert_false(c->fixed_json_extract);
	assert_int_equal(c->timestamp_precision, 3);
	assert_int_equal(plan_storage_version(compile_ok("config: {storage_version: 2}\n"
													 "bucket_definitions: {}\n")), 2);
}

static void
test_tables(void **state)
{
	const SyncPlan *plan = compile_ok("bucket_definitions:\n  b:\n"
									  "    parameters: SELECT id AS p FROM u WHERE id = request.user_id()\n"
									  "    data:\n"
									  "      - SELECT id FROM t WHERE p = bucket.p\n"
									  "      - SELECT id FROM public.t WHERE q = bucket.p\n"
									  "      - SELECT id FROM \"s%\".\"part_%\" WHERE p = bucket.p\n"
									  "      - SELECT id FROM \"other.public\".t WHERE p = bucket.p\n"
									  "event_definitions:\n  e: {payloads: [SELECT id FROM ev]}\n");

	(void) state;
	assert_int_equal(plan_table_count(plan), 5);
	assert_string(plan_table(plan, 0)->table, "u");
	assert_string(plan_table(plan, 1)->table, "t");
	assert_string(plan_table(plan, 4)->table, "ev");
	assert_true(table_pattern_matches(plan_table(plan, 1), "public", "t"));
	assert_false(table_pattern_matches(plan_table(plan, 1), "public", "T"));
	assert_false(table_pattern_matches(plan_table(plan, 1), "s1", "t"));
	assert_true(table_pattern_matches(plan_table(plan, 2), "s", "part_"));
	assert_true(table_pattern_matches(plan_table(plan, 2), "s2", "part_2024"));
	assert_false(table_pattern_matches(plan_table(plan, 2), "s2", "par"));
	/* another connection is another database */
	assert_false(table_pattern_matches(plan_table(plan, 3), "public", "t"));
	/* an event puts nothing into buckets */
	assert_null(bind(plan, "ev", "id"));
	assert_null(bind(plan, "unknown", "id"));
	assert_non_null(bind(plan, "u", "id"));
}

/* ---------------------------------------------------------------- items */

static void
test_star(void **state)
{
	SyncValue	values[] = {text("a"), value_integer(1), value_null(), text("hidden"),
	value_blob("x", 1)};

	(void) state;
	assert_json("SELECT * FROM t", "id 10 2 _h b", values, "{\"2\":null,\"10\":1,\"id\":\"a\"}");
	/* star does not overwrite but fills in */
	assert_json("SELECT 5 AS \"10\", NULL AS id, * FROM t", "id 10 2 _h b", values,
				"{\"2\":null,\"10\":5,\"id\":\"a\"}");
	/* a later item does, in the old place */
	assert_json("SELECT *, id || 'x' AS id FROM t", "id n", values, "{\"id\":\"ax\",\"n\":1}");
	assert_json("SELECT id, _h, missing, b FROM t", "id 10 2 _h b", values,
				"{\"id\":\"a\",\"_h\":\"hidden\"}");
	/* a blob is a value: star leaves it, and then it is dropped */
	assert_json("SELECT b AS id, * FROM t", "b id", (SyncValue[]) {value_blob("x", 1), text("a")},
				"{}");
}

static void
test_id(void **state)
{
	const SyncPlan *plan = compile_query("SELECT * FROM t");
	EvaluatedRow row;

	(void) state;
	row = evaluate(plan, "t", "id", (SyncValue[]) {value_real(1.0)});
	assert_string(row.bucket_rows[0].row_id, "1");
	assert_string(row.bucket_rows[0].json, "{\"id\":1.0}");
	row = evaluate(plan, "t", "id", (SyncValue[]) {value_null()});
	assert_string(row.bucket_rows[0].row_id, "");
	row = evaluate(plan, "t", "id", (SyncValue[]) {value_blob("x", 1)});
	assert_string(row.bucket_rows[0].row_id, "");
	assert_string(row.bucket_rows[0].json, "{}");
	/* a table without the column still goes to its bucket */
	row = evaluate(plan, "t", "n", (SyncValue[]) {value_integer(2)});
	assert_string(row.bucket_rows[0].row_id, "");
	assert_string(row.bucket_rows[0].json, "{\"n\":2}");
}

/* NULL is no path and no modifier; a column that the row lacks is no argument at all */
static void
test_optional_arguments(void **state)
{
	const SyncValue row[] = {text("1"), text("[1,2]"), value_null(), text("abc")};

	(void) state;
	assert_json("SELECT id, json_array_length(a, n) AS v, json_array_length(a, zzz) AS w FROM t",
				"id a n s", row, "{\"id\":\"1\",\"v\":2,\"w\":2}");
	assert_json("SELECT id, substring(s, 2, zzz) AS v, substring(s, 2, n) AS w FROM t",
				"id a n s", row, "{\"id\":\"1\",\"v\":\"bc\",\"w\":null}");
	assert_json("SELECT id, datetime('2024-01-01', n, s) AS v, unixepoch(0, 'unixepoch', zzz) AS w, "
				"unixepoch(0, 'unixepoch', s) AS x FROM t",
				"id a n s", row, "{\"id\":\"1\",\"v\":\"2024-01-01 00:00:00\",\"w\":0,\"x\":null}");
}

static void
test_row_of_the_contract(void **state)
{
	/* storage-contract.md, 3.3 */
	SyncValue	values[] = {text("1"), text("Buy milk"), value_integer(0)};
	EvaluatedRow row = evaluate(compile_query("SELECT * FROM todos"), "todos",
								"id description completed", values);

	(void) state;
	assert_string(row.bucket_rows[0].bucket, "17#b[]");
	assert_string(row.bucket_rows[0].table, "todos");
	assert_string(row.bucket_rows[0].row_id, "1");
	assert_string(row.bucket_rows[0].json, "{\"id\":\"1\",\"description\":\"Buy milk\",\"completed\":0}");
	assert_int_equal(row.bucket_rows[0].checksum, 710650795);
	assert_int_equal(row.bucket_rows[0].json_utf16_len, row.bucket_rows[0].json.len);
}

static void
test_output_table(void **state)
{
	const SyncPlan *plan = compile_ok("bucket_definitions:\n  b:\n    data:\n"
									  "      - SELECT id, _table_suffix AS s FROM \"t_%\"\n"
									  "      - SELECT id FROM \"t_%\" AS \"Alias\"\n");
	EvaluatedRow row = evaluate(plan, "t_2024", "id", (SyncValue[]) {text("a")});

	(void) state;
	assert_int_equal(row.bucket_row_count, 2);
	assert_string(row.bucket_rows[0].table, "t_2024");
	assert_string(row.bucket_rows[0].json, "{\"id\":\"a\",\"s\":\"2024\"}");
	assert_string(row.bucket_rows[1].table, "Alias");
}

/* ---------------------------------------------------------------- buckets and lookups */

static const char by_owner[] =
	"bucket_definitions:\n"
	"  global:\n"
	"    data:\n"
	"      - SELECT id, name FROM t\n"
	"  own:\n"
	"    parameters:\n"
	"      - SELECT request.user_id() AS u, request.jwt() ->> 'org' AS o\n"
	"      - SELECT uid AS u, org AS o FROM members WHERE uid = request.user_id() AND active\n"
	"    data:\n"
	"      - SELECT * FROM t WHERE org = bucket.o AND t.owner = bucket.u AND NOT done\n"
	"      - SELECT id FROM t WHERE bucket.u = owner AND bucket.o IN orgs\n";

static void
test_buckets(void **state)
{
	const SyncPlan *plan = compile_ok(by_owner);
	const char *columns = "id name owner org done orgs";
	EvaluatedRow row;

	(void) state;
	row = evaluate(plan, "t", columns,
				   (SyncValue[]) {text("1"), text("n"), text("u1"), value_integer(5),
	value_integer(0), text("[\"x\",\"y\",\"x\"]")});
	assert_int_equal(row.error_count, 0);
	assert_int_equal(row.bucket_row_count, 5);
	assert_string(row.bucket_rows[0].bucket, "17#global[]");
	assert_string(row.bucket_rows[0].json, "{\"id\":\"1\",\"name\":\"n\"}");
	assert_string(row.bucket_rows[1].bucket, "17#own[\"u1\",5]");
	assert_string(row.bucket_rows[2].bucket, "17#own[\"u1\",\"x\"]");
	assert_string(row.bucket_rows[3].bucket, "17#own[\"u1\",\"y\"]");
	assert_string(row.bucket_rows[4].bucket, "17#own[\"u1\",\"x\"]");

	/* one query fails, the others count */
	row = evaluate(plan, "t", columns,
				   (SyncValue[]) {text("1"), text("n"), text("u1"), value_integer(5),
	value_integer(0), text("no list")});
	assert_int_equal(row.error_count, 1);
	assert_int_equal(row.error->code, SYNC_ERROR_VALUE);
	assert_int_equal(row.bucket_row_count, 2);

	/* done, no owner */
	row = evaluate(plan, "t", columns,
				   (SyncValue[]) {text("1"), text("n"), value_null(), value_integer(5),
	value_integer(1), value_null()});
	assert_int_equal(row.error_count, 0);
	assert_int_equal(row.bucket_row_count, 1);
}

static void
test_lookups(void **state)
{
	const SyncPlan *plan = compile_ok(by_owner);
	SyncValue	key = text("u1");
	EvaluatedRow row;
	SyncString	lookup;

	(void) state;
	row = evaluate(plan, "members", "uid org active",
				   (SyncValue[]) {text("u1"), value_real(2.0), value_integer(1)});
	assert_int_equal(row.bucket_row_count, 0);
	assert_int_equal(row.parameter_row_count, 1);
	lookup = bson_lookup(str("own"), str("2"), &key, 1, arena);
	assert_int_equal(row.parameter_rows[0].lookup.len, lookup.len);
	assert_memory_equal(row.parameter_rows[0].lookup.data, lookup.data, lookup.len);

	row = evaluate(plan, "members", "uid org active",
				   (SyncValue[]) {text("u1"), value_real(2.0), value_null()});
	assert_int_equal(row.parameter_row_count, 0);
}

/* IN between constants and parameters is a condition on the request, as = is */
static void
test_in_of_parameters(void **state)
{
	const SyncPlan *plan = compile_ok("bucket_definitions:\n  b:\n    parameters:\n"
									  "      - SELECT request.user_id() AS p "
									  "WHERE 'admin' IN request.jwt() ->> 'roles'\n"
									  "      - SELECT org AS p FROM members WHERE "
									  "uid = request.user_id() AND 'admin' IN request.jwt() ->> 'roles'\n"
									  "    data:\n      - SELECT id FROM t WHERE x = bucket.p\n");
	SyncValue	keys[] = {text("u1"), value_integer(1)};
	EvaluatedRow row;
	SyncString	lookup = bson_lookup(str("b"), str("2"), keys, 2, arena);

	(void) state;
	row = evaluate(plan, "members", "uid org", (SyncValue[]) {text("u1"), text("o")});
	assert_int_equal(row.parameter_row_count, 1);
	assert_int_equal(row.parameter_rows[0].lookup.len, lookup.len);
	assert_memory_equal(row.parameter_rows[0].lookup.data, lookup.data, lookup.len);
}

static void
test_arguments_of_the_request(void **state)
{
	(void) state;
	assert_refused("bucket_definitions:\n  b:\n    parameters: SELECT request.user_id(1) AS p\n"
				   "    data: []\n", SYNC_ERROR_CONFIG, 3, 24, "no argument");
	assert_refused("bucket_definitions:\n  b:\n    parameters: SELECT request.parameter(upper('a')) AS p\n"
				   "    data: []\n", SYNC_ERROR_CONFIG, 3, 42, "constant");
}

/* sync-rules.md, 3.3: a conflict of AND does not drop the set */
static void
test_conflict(void **state)
{
	const SyncPlan *plan = compile_ok("bucket_definitions:\n  b:\n"
									  "    parameters: SELECT request.user_id() AS p\n"
									  "    data:\n"
									  "      - SELECT id FROM t WHERE x = bucket.p AND y = bucket.p\n");
	EvaluatedRow row;

	(void) state;
	row = evaluate(plan, "t", "id x y", (SyncValue[]) {text("1"), text("a"), text("b")});
	assert_int_equal(row.bucket_row_count, 1);
	assert_string(row.bucket_rows[0].bucket, "17#b[\"a\"]");
	row = evaluate(plan, "t", "id x y", (SyncValue[]) {text("1"), text("a"), value_null()});
	assert_int_equal(row.bucket_row_count, 0);
}

static void
test_combinations_are_bounded(void **state)
{
	SyncBuffer	where;
	EvaluatedRow row;
	const SyncPlan *plan;

	(void) state;
	buffer_init(&where, arena, 2000);
	for (int i = 0; i < 30; i++)
	{
		if (i > 0)
			buffer_append(&where, " AND ", 5);
		buffer_append(&where, "(x = bucket.p OR y = bucket.p)", 30);
	}
	buffer_append_char(&where, '\0');
	plan = compile_ok(arena_printf(arena, "bucket_definitions:\n  b:\n"
								   "    parameters: SELECT request.user_id() AS p\n"
								   "    data:\n      - SELECT id FROM t WHERE %s\n", where.data));
	row = evaluate(plan, "t", "id x y", (SyncValue[]) {text("1"), text("a"), text("b")});
	assert_int_equal(row.bucket_row_count, 0);
	assert_int_equal(row.error_count, 1);
	assert_int_equal(row.error->code, SYNC_ERROR_LIMIT);
}

static void
test_parameter_queries_refused(void **state)
{
	static const char *const queries[] = {
		"SELECT * FROM u WHERE id = request.user_id()",
		"SELECT x.id AS p FROM u AS x",
		"SELECT upper(id) AS p FROM u WHERE id = request.user_id()",
		"SELECT id AS p FROM u WHERE id IN (request.jwt() -> 'a') AND x IN (request.jwt() -> 'b')",
		"SELECT id AS p FROM u WHERE id || request.user_id() = 'x'",
		"SELECT id AS p, 4 AS _priority FROM u",
		"SELECT value AS p FROM json_each(value)",
		"SELECT request.user_id(x) AS p FROM u",
		"SELECT x AS p, y AS p FROM u",
		"SELECT request.nope() AS p",
		"SELECT p",
		"SELECT request.user_id() AS p WHERE 'x' LIKE (request.jwt() -> 'a')",
		/* AND and OR of two constants are a condition on rows, which there are none of */
		"SELECT 1 AND 1 AS p",
		"SELECT upper(1 OR 0) AS p",
		"SELECT request.user_id() AS p WHERE 1 AND 1",
		"SELECT request.user_id() AS p WHERE 1 AND 1 AND request.user_id() = 'a'",
		"SELECT value AS p FROM json_each(request.jwt() -> 'a') WHERE 1 OR 0",
		"SELECT value AS p FROM json_each(1 AND 1)",
	};

	(void) state;
	for (size_t i = 0; i < sizeof(queries) / sizeof(queries[0]); i++)
	{
		const char *yaml = arena_printf(arena, "bucket_definitions:\n  b:\n"
										"    parameters: \"%s\"\n"
										"    data:\n      - SELECT id FROM t WHERE p = bucket.p\n",
										queries[i]);

		if (compile_rules(yaml) != NULL)
			fail_msg("accepted: %s", queries[i]);
	}
}

/* streams are refused in edition 1; a map without any is not */
static void
test_no_streams(void **state)
{
	(void) state;
	compile_ok("streams: {}\nbucket_definitions: {b: {data: [SELECT id FROM t]}}\n");
	assert_non_null(messages);
	assert_int_equal(messages->level, RULES_WARNING);
	assert_null(compile_rules("streams: {s: {query: SELECT id FROM t}}\n"));
}

/* the names that bucket parameters get are said to be folded; those of columns are not */
static void
test_case_of_aliases(void **state)
{
	(void) state;
	compile_ok("bucket_definitions:\n  b:\n    parameters: SELECT x AS P FROM u\n"
			   "    data:\n      - SELECT id, x AS Y FROM t WHERE p = bucket.p\n");
	assert_non_null(messages);
	assert_int_equal(messages->level, RULES_WARNING);
	assert_null(messages->next);
	compile_ok("bucket_definitions:\n  b:\n    parameters: SELECT x AS \"p\", 1 AS _Priority FROM u\n"
			   "    data:\n      - SELECT id FROM t WHERE p = bucket.p\n");
	assert_non_null(messages);
	assert_int_equal(messages->level, RULES_WARNING);
	assert_null(messages->next);
}

/* AND and OR of two constants, and = in a data query, are looked at for each row */
static void
test_conditions_of_constants(void **state)
{
	EvaluatedRow row;

	(void) state;
	row = evaluate(compile_query("SELECT id FROM t WHERE json_keys(1 = 1)"), "t", "id",
				   (SyncValue[]) {text("1")});
	assert_int_equal(row.bucket_row_count, 0);
	assert_int_equal(row.error_count, 1);
	row = evaluate(compile_query("SELECT id FROM t WHERE json_keys(1 AND 1)"), "t", "id",
				   (SyncValue[]) {text("1")});
	assert_int_equal(row.error_count, 1);
	row = evaluate(compile_ok("bucket_definitions:\n  b:\n"
							  "    parameters: SELECT id AS p FROM u WHERE 1 AND 0 AND "
							  "request.user_id() = 'a'\n"
							  "    data:\n      - SELECT id FROM t WHERE x = bucket.p\n"),
				   "u", "id", (SyncValue[]) {text("1")});
	assert_int_equal(row.parameter_row_count, 0);
	/* a condition on the row is no request filter */
	row = evaluate(compile_ok("config: {edition: 2}\nstreams:\n"
							  "  s: {query: SELECT id FROM t WHERE 1 AND 0 AND auth.user_id() = 'x'}\n"),
				   "t", "id", (SyncValue[]) {text("1")});
	assert_int_equal(row.bucket_row_count, 0);
}

/* the order of the first parameter query counts; others may not add names */
static void
test_parameter_order(void **state)
{
	static const char format[] =
		"bucket_definitions:\n  b:\n    parameters:\n"
		"      - SELECT request.user_id() AS p, request.jwt() ->> 'q' AS q\n"
		"      - %s\n"
		"    data:\n      - SELECT id FROM t WHERE y = bucket.q AND x = bucket.p\n";
	EvaluatedRow row;

	(void) state;
	row = evaluate(compile_ok(arena_printf(arena, format, "SELECT 'a' AS q, 'b' AS p")), "t",
				   "id x y", (SyncValue[]) {text("1"), text("px"), text("qy")});
	assert_string(row.bucket_rows[0].bucket, "17#b[\"px\",\"qy\"]");
	assert_null(compile_rules(arena_printf(arena, format, "SELECT 'a' AS q, 'b' AS r")));
}

/* ---------------------------------------------------------------- stored plans */

#define COLUMN(name) "{\"type\":\"data\",\"source\":{\"column\":\"" name "\"}}"
#define ITEM(name, alias) "{\"expr\":" COLUMN(name) ",\"alias\":\"" alias "\"}"

/* a plan with one source on t in one bucket */
static const char *
stored_plan(const char *version, const char *columns, const char *filters)
{
	return arena_printf(arena, "{\"compatibility\":{\"edition\":3,\"overrides\":{}},"
						"\"eventDescriptors\":{\"e\":[\"SELECT * FROM ev\"]},\"plan\":{\"version\":%s,"
						"\"dataSources\":[{\"hash\":1,\"table\":{\"connection\":null,\"schema\":null,"
						"\"table\":\"t\"},\"outputTableName\":\"t\",\"tableValuedFunctions\":[],"
						"\"filters\":[%s],\"partitionBy\":[{\"expr\":" COLUMN("n") "}],"
						"\"columns\":[%s]}],\"buckets\":[{\"hash\":1,\"uniqueName\":\"s|0\","
						"\"sources\":[0]}],\"parameterIndexes\":[],\"streams\":[]}}",
						version, filters, columns);
}

static const SyncPlan *
read_stored(const char *json, SyncErrorCode expected)
{
	RulesOptions options = {.default_schema = "public"};
	SyncError	error;
	const SyncPlan *plan = plan_read(json, strlen(json), &options, arena, &error);

	if (error.code != expected || (plan == NULL) == (expected == SYNC_OK))
		fail_msg("code %d: %s", error.code, error.message);
	return plan;
}

static void
test_stored_plan(void **state)
{
	const SyncPlan *plan = read_stored(stored_plan("1", "\"star\"", COLUMN("n")), SYNC_OK);
	EvaluatedRow row;

	(void) state;
	assert_int_equal(plan_table_count(plan), 2);
	assert_string(plan_table(plan, 1)->table, "ev");
	row = evaluate(plan, "t", "id n _h", (SyncValue[]) {text("a"), value_real(2.0), text("h")});
	assert_int_equal(row.bucket_row_count, 1);
	assert_string(row.bucket_rows[0].bucket, "17#s|0[2]");
	assert_string(row.bucket_rows[0].json, "{\"id\":\"a\",\"n\":2.0,\"_h\":\"h\"}");
	row = evaluate(plan, "t", "id n _h", (SyncValue[]) {text("a"), value_integer(0), text("h")});
	assert_int_equal(row.bucket_row_count, 0);
}

/* of several values under one name the last counts, in the first's place; blobs do not */
static void
test_stored_plan_repeated_names(void **state)
{
	const char *columns = ITEM("b", "id") "," ITEM("n", "x") ",\"star\"";
	const SyncPlan *plan = read_stored(stored_plan("1", columns, ""), SYNC_OK);
	const char *names = "n x id b";
	EvaluatedRow row;

	(void) state;
	row = evaluate(plan, "t", names,
				   (SyncValue[]) {value_integer(1), text("x"), text("i"), text("b")});
	assert_string(row.bucket_rows[0].json, "{\"id\":\"i\",\"x\":\"x\",\"n\":1,\"b\":\"b\"}");
	assert_string(row.bucket_rows[0].row_id, "i");
	row = evaluate(plan, "t", names,
				   (SyncValue[]) {value_integer(1), value_blob("x", 1), text("i"), value_blob("b", 1)});
	assert_string(row.bucket_rows[0].json, "{\"x\":1,\"n\":1,\"id\":\"i\"}");
	assert_string(row.bucket_rows[0].row_id, "i");
}

static void
test_stored_plan_refused(void **state)
{
	(void) state;
	read_stored(stored_plan("2", "\"star\"", ""), SYNC_OK);
	read_stored(stored_plan("1.0", "\"star\"", ""), SYNC_OK);
	read_stored(stored_plan("0", "\"star\"", ""), SYNC_ERROR_UNSUPPORTED);
	read_stored(stored_plan("3", "\"star\"", ""), SYNC_ERROR_UNSUPPORTED);
	read_stored(stored_plan("1", "\"moon\"", ""), SYNC_ERROR_UNSUPPORTED);
	read_stored(stored_plan("1", "\"star\"", "{\"type\":\"new\"}"), SYNC_ERROR_UNSUPPORTED);
	read_stored(stored_plan("1", "\"star\"", "{\"type\":\"function\",\"function\":\"substr\","
							"\"parameters\":[]}"), SYNC_ERROR_UNSUPPORTED);
	read_stored(stored_plan("1", "\"star\"", "{\"type\":\"data\",\"source\":{\"function\":0,"
							"\"outputName\":\"value\"}}"), SYNC_ERROR_CONFIG);
	read_stored(stored_plan("1", "\"star\"", "5"), SYNC_ERROR_CONFIG);
	read_stored(stored_plan("1", "\"star\"", "{\"type\":\"lit_int\",\"base10\":\"-007\"}"), SYNC_OK);
	read_stored(stored_plan("1", "\"star\"", "{\"type\":\"lit_int\",\"base10\":\"0-\"}"),
				SYNC_ERROR_CONFIG);
	read_stored(stored_plan("1", "\"star\"", "{\"type\":\"lit_int\",\"base10\":\"-\"}"),
				SYNC_ERROR_CONFIG);
	read_stored("{}", SYNC_ERROR_CONFIG);
	read_stored("[", SYNC_ERROR_VALUE);
	read_stored("{\"plan\":\"\xC3\"}", SYNC_ERROR_CONFIG);
}

/* sources share a row's JSON only where it is the same, with id and checksum */
static void
test_shared_json(void **state)
{
	const SyncPlan *plan = compile_ok("bucket_definitions:\n  b:\n    data:\n"
									  "      - SELECT * FROM t WHERE n = 1\n"
									  "      - SELECT * FROM t\n"
									  "      - SELECT * FROM t AS other\n"
									  "      - SELECT id, n FROM t\n"
									  "      - SELECT id, n AS m FROM t\n"
									  "      - SELECT n, id FROM t\n"
									  "      - SELECT x AS id, n FROM t\n"
									  "      - SELECT id, n, x FROM t\n");
	static const char *const json[] = {
		"{\"id\":\"a\",\"n\":1,\"x\":\"y\"}", "{\"id\":\"a\",\"n\":1,\"x\":\"y\"}",
		"{\"id\":\"a\",\"n\":1,\"x\":\"y\"}", "{\"id\":\"a\",\"n\":1}", "{\"id\":\"a\",\"m\":1}",
		"{\"n\":1,\"id\":\"a\"}", "{\"id\":\"y\",\"n\":1}", "{\"id\":\"a\",\"n\":1,\"x\":\"y\"}",
	};
	EvaluatedRow row = evaluate(plan, "t", "id n x",
								(SyncValue[]) {text("a"), value_integer(1), text("y")});

	(void) state;
	assert_int_equal(row.bucket_row_count, 8);
	for (int i = 0; i < 8; i++)
	{
		const BucketRow *r = &row.bucket_rows[i];

		assert_string(r->json, json[i]);
		assert_string(r->table, i == 2 ? "other" : "t");
		assert_string(r->row_id, i == 6 ? "y" : "a");
		assert_int_equal(r->checksum, checksum_put(r->table, r->row_id, r->json));
		assert_int_equal(r->json_utf16_len, r->json.len);
	}
	assert_ptr_equal(row.bucket_rows[0].json.data, row.bucket_rows[1].json.data);
}

/* ---------------------------------------------------------------- memory, limits */

static bool
run_within(size_t plan_budget, size_t row_budget)
{
	static const char bindings[] = "id name owner org done orgs";
	SyncArena  *plan_arena = arena_create(plan_budget);
	SyncArena  *row_arena = arena_create(row_budget);
	RulesOptions options = {.default_schema = "public"};
	BucketNaming naming = {.prefix = str("17#")};
	SyncValue	values[] = {text("1"), text("n"), text("u1"), value_integer(5), value_integer(0),
	text("[1,2,3]")};
	const SyncPlan *plan = NULL;
	const TableBinding *binding = NULL;
	EvaluatedRow row = {0};
	SyncError	error;

	if (plan_arena != NULL && row_arena != NULL)
	{
		plan = rules_compile(by_owner, strlen(by_owner), &options, plan_arena, &messages);
		if (plan == NULL)
			assert_int_equal(messages->error.code, SYNC_ERROR_OUT_OF_MEMORY);
	}
	if (plan != NULL)
	{
		binding = plan_bind(plan, "public", "t", shape(bindings), &naming, plan_arena, &error);
		if (binding == NULL)
			assert_int_equal(error.code, SYNC_ERROR_OUT_OF_MEMORY);
	}
	if (binding != NULL &&
		table_evaluate(binding, values, row_arena, &row) == SYNC_ERROR_OUT_OF_MEMORY)
		assert_int_equal(row.bucket_row_count, 0);
	plan_budget = (size_t) row.bucket_row_count;
	arena_destroy(plan_arena);
	arena_destroy(row_arena);
	return plan_budget == 5;
}

static void
test_out_of_memory(void **state)
{
	size_t		budget;

	(void) state;
	for (budget = 1; !run_within(budget, 1000000); budget += 61)
		assert_true(budget < 1000000);
	assert_true(budget > 61);
	for (budget = 1; !run_within(1000000, budget); budget += 7)
		assert_true(budget < 1000000);
	assert_true(budget > 7);
}

/* text in the shape of a bomb: refused, and no deep recursion on the way */
static void
test_hostile(void **state)
{
	static const char *const parts[] = {"(", "NOT ", "x AND ", "x = ", "upper(", "x || ", "- "};

	(void) state;
	for (size_t p = 0; p < sizeof(parts) / sizeof(parts[0]); p++)
	{
		SyncBuffer	query;

		buffer_init(&query, arena, 100000);
		buffer_append(&query, "SELECT id FROM t WHERE ", 23);
		for (int i = 0; i < 10000; i++)
			buffer_append(&query, parts[p], strlen(parts[p]));
		buffer_append(&query, "x", 2);
		assert_null(compile_query(query.data));
	}
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		rules_test(test_positions),
		rules_test(test_all_errors_at_once),
		rules_test(test_engine_is_refused),
		rules_test(test_messages_are_bounded),
		rules_test(test_many_warnings),
		rules_test(test_compatibility),
		rules_test(test_tables),
		rules_test(test_star),
		rules_test(test_id),
		rules_test(test_optional_arguments),
		rules_test(test_row_of_the_contract),
		rules_test(test_output_table),
		rules_test(test_buckets),
		rules_test(test_lookups),
		rules_test(test_in_of_parameters),
		rules_test(test_arguments_of_the_request),
		rules_test(test_conflict),
		rules_test(test_combinations_are_bounded),
		rules_test(test_parameter_queries_refused),
		rules_test(test_no_streams),
		rules_test(test_case_of_aliases),
		rules_test(test_conditions_of_constants),
		rules_test(test_parameter_order),
		rules_test(test_stored_plan),
		rules_test(test_stored_plan_repeated_names),
		rules_test(test_stored_plan_refused),
		rules_test(test_shared_json),
		rules_test(test_out_of_memory),
		rules_test(test_hostile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
