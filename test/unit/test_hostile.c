/*-------------------------------------------------------------------------
 *
 * test_hostile.c
 *	  Rules and rows made to be expensive: each is accepted or refused with a
 *	  message that has a place, within bounds of memory and CPU time.
 *
 * The figures are printed.  The bounds asserted are generous (the machine may
 * be slow, a sanitizer may be there): what they find is the wrong power of n.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <sys/resource.h>

#include "rules_test.h"
#include "sql.h"

#define CPU_SECONDS	15.0

static double
cpu(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (double) usage.ru_utime.tv_sec + (double) usage.ru_utime.tv_usec / 1e6 +
		(double) usage.ru_stime.tv_sec + (double) usage.ru_stime.tv_usec / 1e6;
}

static void
put(SyncBuffer *buffer, const char *s)
{
	buffer_append(buffer, s, strlen(s));
}

static void
put_times(SyncBuffer *buffer, const char *s, int times)
{
	for (int i = 0; i < times; i++)
		put(buffer, s);
}

static void
put_number(SyncBuffer *buffer, const char *before, int i, const char *behind)
{
	put(buffer, before);
	buffer_append_int(buffer, i);
	put(buffer, behind);
}

/* ---------------------------------------------------------------- rules */

#define HEAD	"bucket_definitions:\n  b:\n    data:\n"
#define QUERY	"      - SELECT id FROM t WHERE "

static void
flat_keys(SyncBuffer *b)
{
	put(b, "bucket_definitions:\n");
	for (int i = 0; b->len < 950000; i++)
		put_number(b, "  k", i, ":\n");
}

static void
colliding_keys(SyncBuffer *b)
{
	put(b, "bucket_definitions: {");
	for (int i = 0; i < 45000; i++)
		put_number(b, "k", i * 7, "eeeeeeee: , ");
	put(b, "}\n");
}

static void
deep_flow(SyncBuffer *b)
{
	put_times(b, "[", 900000);
}

static void
deep_block(SyncBuffer *b)
{
	put_times(b, "- ", 450000);
}

static void
deep_keys(SyncBuffer *b)
{
	put_times(b, "? ", 450000);
}

static void
laughs(SyncBuffer *b)
{
	put(b, "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
	for (int i = 1; i < 50; i++)
	{
		put_number(b, "a", i, ": &a");
		put_number(b, "", i, " [");
		for (int j = 0; j < 10; j++)
			put_number(b, j > 0 ? ", *a" : "*a", i - 1, "");
		put(b, "]\n");
	}
}

static void
many_anchors(SyncBuffer *b)
{
	put(b, "bucket_definitions:\n");
	for (int i = 0; i < 40000; i++)
		put_number(b, "  - &a", i, " x\n");
}

static void
huge_scalar(SyncBuffer *b)
{
	put(b, HEAD "      - \"");
	put_times(b, "x", 900000);
	put(b, "\"\n");
}

static void
folded_scalar(SyncBuffer *b)
{
	put(b, HEAD "      - >\n");
	put_times(b, "        x\n", 90000);
}

static void
many_queries(SyncBuffer *b)
{
	put(b, HEAD);
	for (int i = 0; i < 10000; i++)
		put_number(b, "      - SELECT id FROM table_", i, " WHERE a = 1\n");
}

static void
many_tables(SyncBuffer *b)
{
	put(b, HEAD);
	for (int i = 0; b->len < 980000; i++)
		put_number(b, "      - SELECT * FROM t", i, "\n");
}

static void
many_bad_queries(SyncBuffer *b)
{
	put(b, HEAD);
	for (int i = 0; i < 20000; i++)
		put_number(b, "      - SELECT id FROM t WHERE nofunction(", i, ")\n");
}

static void
many_items(SyncBuffer *b)
{
	for (int q = 0; q < 3; q++)
	{
		put(b, q == 0 ? HEAD : "");
		put(b, "      - SELECT id");
		for (int i = 0; i < 20000; i++)
			put_number(b, ", 1 AS c", i, "");
		put(b, " FROM t\n");
	}
}

static void
short_items(SyncBuffer *b)
{
	put(b, HEAD);
	for (int q = 0; q < 3; q++)
	{
		put(b, "      - SELECT id");
		put_times(b, ",a", 130000);
		put(b, " FROM t\n");
	}
}

#define NESTED(name, open, middle, close, n) \
	static void name(SyncBuffer *b) \
	{ \
		put(b, HEAD QUERY); \
		put_times(b, open, n); \
		put(b, middle); \
		put_times(b, close, n); \
		put(b, "\n"); \
	}

NESTED(parentheses, "(", "a", ")", 10000)
NESTED(nots, "NOT ", "a", "", 10000)
NESTED(cases, "CASE WHEN ", "a", " THEN 1 END", 10000)
NESTED(ands, "a AND ", "a", "", 10000)
NESTED(ors, "a OR ", "a", "", 40000)
NESTED(paths, "", "j", " -> 'a'", 10000)
NESTED(calls, "upper(", "a", ")", 10000)
NESTED(casts, "", "a", "::text", 10000)
NESTED(many_hex, "hex(", "'0123456789abcdef'", ")", 150)
NESTED(concats, "'0123456789' || ", "'x'", "", 900)
NESTED(products, "9999999999999999999 * ", "1", "", 900)

static void
huge_number(SyncBuffer *b)
{
	put(b, HEAD QUERY "a = 1");
	put_times(b, "0", 100000);
	put(b, "\n");
}

static void
long_name(SyncBuffer *b)
{
	put(b, HEAD "      - SELECT id FROM ");
	put_times(b, "x", 250000);
	put(b, "\n");
}

static void
long_literal(SyncBuffer *b)
{
	put(b, HEAD QUERY "a = '");
	put_times(b, "x", 900000);
	put(b, "'\n");
}

/* all combinations of sides, each with parameters of its own */
static void
matches(SyncBuffer *b)
{
	put(b, "bucket_definitions:\n  b:\n    parameters: SELECT request.user_id() AS u\n    data:\n" QUERY "(");
	put(b, "bucket.u = a0");
	for (int i = 1; i < 20; i++)
		put_number(b, ") AND (bucket.u = a", i, " OR bucket.u = b OR bucket.u = c");
	put(b, ")\n");
}

static void
many_keys(SyncBuffer *b)
{
	put(b, "bucket_definitions:\n");
	for (int q = 0; q < 40; q++)
	{
		put_number(b, "  b", q, ":\n    parameters: SELECT request.user_id() AS p0");
		for (int i = 1; i < 400; i++)
			put_number(b, ", request.user_id() AS p", i, "");
		put(b, "\n    data:\n" QUERY "bucket.p0 = a");
		for (int i = 1; i < 400; i++)
			put_number(b, " AND bucket.p", i, " = a");
		put(b, "\n");
	}
}

static void
bad_utf8(SyncBuffer *b)
{
	put(b, HEAD QUERY "a = '\xC3\x28'\n");
}

static void
nul_byte(SyncBuffer *b)
{
	put(b, HEAD QUERY "a = '");
	buffer_append_char(b, '\0');
	put(b, "'\n");
}

static void
surrogate(SyncBuffer *b)
{
	put(b, HEAD QUERY "a = '\xED\xA0\xBD'\n");
}

static void
escaped_surrogate(SyncBuffer *b)
{
	put(b, HEAD "      - \"SELECT id FROM t WHERE a = '\\uD83D'\"\n");
}

static void
mark_and_crlf(SyncBuffer *b)
{
	put(b, "\xEF\xBB\xBF" "bucket_definitions:\r\n  b:\r\n    data:\r\n      - SELECT id\r\n        FROM t\r\n");
}

static void
tabs(SyncBuffer *b)
{
	put(b, "bucket_definitions:\n\tb:\n\t\tdata: []\n");
}

/* streams of edition 2 and 3 */

#define ALPHA	"config: {edition: 2}\nstreams:\n"
#define STREAM	"config: {edition: 3}\nstreams:\n  s:\n    query: "

static void
alpha_streams(SyncBuffer *b)
{
	put(b, ALPHA);
	for (int i = 0; i < 12000; i++)
		put_number(b, "  s", i, ": {query: SELECT * FROM t WHERE a = auth.user_id()}\n");
}

static void
alpha_alternatives(SyncBuffer *b)
{
	put(b, ALPHA "  s:\n    query: SELECT id FROM t WHERE (a = auth.user_id() OR b)");
	put_times(b, " AND (a = auth.user_id() OR b)", 150);
	put(b, "\n");
}

static void
alpha_subqueries(SyncBuffer *b)
{
	put(b, ALPHA "  s:\n    query: SELECT id FROM t WHERE a IN (SELECT x FROM u WHERE y = auth.user_id())");
	put_times(b, " OR a IN (SELECT x FROM u WHERE y = auth.user_id())", 180);
	put(b, "\n");
}

static void
streams(SyncBuffer *b)
{
	put(b, "config: {edition: 3}\nstreams:\n");
	for (int i = 0; i < 12000; i++)
		put_number(b, "  s", i, ": {query: SELECT * FROM t WHERE a = auth.user_id()}\n");
}

static void
doubled_columns(SyncBuffer *b)
{
	put(b, STREAM);
	put_times(b, "SELECT s.c||s.c AS c, s.id AS id FROM (", 60);
	put(b, "SELECT c, id FROM t");
	put_times(b, ") AS s", 60);
	put(b, "\n");
}

static void
doubled_joins(SyncBuffer *b)
{
	put(b, STREAM "SELECT t.* FROM t");
	for (int i = 0; i < 60; i++)
		put_number(b, ", t", i, "");
	put(b, " WHERE t.a = t0.a AND t.b = t0.b AND t59.a = auth.user_id()");
	for (int i = 1; i < 60; i++)
	{
		for (int key = 0; key < 2; key++)
		{
			put_number(b, " AND t", i - 1, key == 0 ? ".a = t" : ".b = t");
			put_number(b, "", i, key == 0 ? ".a" : ".b");
		}
	}
	put(b, "\n");
}

static void
stream_alternatives(SyncBuffer *b)
{
	put(b, STREAM "SELECT id FROM t WHERE (a = auth.user_id() OR b)");
	put_times(b, " AND (a = auth.user_id() OR b)", 150);
	put(b, "\n");
}

static void
same_name(SyncBuffer *b)
{
	put(b, STREAM "SELECT id");
	put_times(b, ", a AS x", 30000);
	put(b, " FROM t\n");
}

static void
index_names(SyncBuffer *b)
{
	put(b, STREAM "SELECT id");
	for (int i = 17000; i > 0; i--)
		put_number(b, ",a AS \"", i, "\"");
	put(b, " FROM t\n");
}

static const struct HostileRules
{
	const char *name;
	void		(*make) (SyncBuffer *buffer);
	bool		accepted;
}			hostile_rules[] = {
	{"950,000 bytes of keys without values", flat_keys, false},
	{"45,000 keys of one map", colliding_keys, false},
	{"900,000 [", deep_flow, false},
	{"450,000 -", deep_block, false},
	{"450,000 ?", deep_keys, false},
	{"a billion laughs", laughs, false},
	{"40,000 anchors", many_anchors, false},
	{"a scalar of 900,000 bytes", huge_scalar, false},
	{"a folded scalar of 90,000 lines", folded_scalar, false},
	{"10,000 queries", many_queries, true},
	{"as many tables as fit", many_tables, true},
	{"20,000 wrong queries", many_bad_queries, false},
	{"3 queries of 20,000 items", many_items, true},
	{"3 queries of 130,000 short items", short_items, true},
	{"10,000 (", parentheses, false},
	{"10,000 NOT", nots, false},
	{"10,000 CASE", cases, false},
	{"10,000 AND", ands, false},
	{"40,000 OR", ors, false},
	{"10,000 ->", paths, false},
	{"10,000 upper(", calls, false},
	{"10,000 ::text", casts, false},
	{"150 hex(", many_hex, false},
	{"900 ||", concats, true},
	{"900 * of 19 digits", products, false},
	{"10^100000", huge_number, false},
	{"a name of 250,000 bytes", long_name, true},
	{"a literal of 900,000 bytes", long_literal, false},
	{"20 AND of OR", matches, true},
	{"40 queries with 400 parameters", many_keys, true},
	{"bad UTF-8", bad_utf8, false},
	{"NUL", nul_byte, false},
	{"a surrogate", surrogate, false},
	{"an escaped surrogate", escaped_surrogate, false},
	{"byte order mark, CRLF", mark_and_crlf, true},
	{"tabs", tabs, false},
	{"edition 2: 12,000 streams", alpha_streams, true},
	{"edition 2: 150 AND of OR", alpha_alternatives, false},
	{"edition 2: 180 OR of subqueries", alpha_subqueries, true},
	{"edition 3: 12,000 streams", streams, true},
	{"edition 3: columns doubled 60 times", doubled_columns, false},
	{"edition 3: 60 tables joined twice", doubled_joins, true},
	{"edition 3: 150 AND of OR", stream_alternatives, false},
	{"edition 3: 30,000 items of one name", same_name, true},
	{"edition 3: 17,000 names that are numbers", index_names, true},
};

static const SyncColumn columns[] = {
	{{"id", 2}}, {{"a", 1}}, {{"b", 1}}, {{"j", 1}}, {{"k", 1}}, {{"l", 1}},
};

#define COLUMNS ((int) (sizeof(columns) / sizeof(columns[0])))

static const TableBinding *
bind(const SyncPlan *plan, SyncArena *arena)
{
	const SyncRowType type = {.column_count = COLUMNS, .columns = columns};
	BucketNaming naming = {.prefix = {"1#", 2}};
	SyncError	error;
	const TableBinding *binding = plan_bind(plan, "public", "t", &type, &naming, arena, &error);

	if (binding == NULL && error.code != SYNC_OK)
		printf("    binding: %s\n", error.message);
	return binding;
}

static void
check_refusal(const RulesMessage *messages)
{
	const RulesMessage *m = messages;

	while (m->level != RULES_FATAL)
		m = m->next;
	printf("    %d:%d: %.100s\n", m->error.line, m->error.column, m->error.message);
	assert_int_not_equal(m->error.code, SYNC_OK);
	assert_int_not_equal(m->error.code, SYNC_ERROR_OUT_OF_MEMORY);
	if (m->error.code != SYNC_ERROR_LIMIT)
		assert_true(m->error.line > 0 && m->error.column > 0);
}

static void
hostile_rules_are_cheap(void **state)
{
	const char *only = getenv("HOSTILE");

	(void) state;
	for (size_t i = 0; i < sizeof(hostile_rules) / sizeof(hostile_rules[0]); i++)
	{
		const struct HostileRules *rules = &hostile_rules[i];
		SyncArena  *text_arena = arena_create(0);
		SyncArena  *arena = arena_create(0);
		RulesOptions options = {.default_schema = "public"};
		SyncBuffer	text;
		const RulesMessage *messages;
		const SyncPlan *plan;
		double		compile_time = cpu();
		double		bind_time;

		if (only != NULL && strstr(rules->name, only) == NULL)
			continue;
		buffer_init(&text, text_arena, 1000000);
		rules->make(&text);
		plan = rules_compile(text.data, text.len, &options, arena, &messages);
		compile_time = cpu() - compile_time;
		bind_time = cpu();
		if (plan != NULL)
			bind(plan, arena);
		bind_time = cpu() - bind_time;
		printf("%-35s %7zu bytes: %s, %.3f s, %zu kB; bound %.3f s\n", rules->name, text.len,
			   plan != NULL ? "accepted" : "refused", compile_time, arena_used(arena) / 1024, bind_time);
		fflush(stdout);
		if (plan == NULL)
			check_refusal(messages);
		assert_int_equal(plan != NULL, rules->accepted);
		assert_true(compile_time + bind_time < CPU_SECONDS * SLOW);
		assert_true(arena_used(arena) <= 2 * RULES_MAX_BYTES);
		arena_destroy(arena);
		arena_destroy(text_arena);
	}
}

/* ---------------------------------------------------------------- rows */

static void
deep_json(SyncBuffer *b)
{
	put_times(b, "[", 100000);
	put_times(b, " ", 9800000);
	put_times(b, "]", 100000);
}

static void
many_elements(SyncBuffer *b)
{
	put(b, "[0");
	put_times(b, ",1", 1000000);
	put(b, "]");
}

static void
some_elements(SyncBuffer *b)
{
	put(b, "[0");
	for (int i = 1; i < 400; i++)
		put_number(b, ",", i, "");
	put(b, "]");
}

static void
all_elements(SyncBuffer *b)
{
	put(b, "[0");
	for (int i = 1; i < 90000; i++)
		put_number(b, ",", i, "");
	put(b, "]");
}

static void
most_elements(SyncBuffer *b)
{
	put(b, "[1");
	put_times(b, ",1", 7500000);
	put(b, "]");
}

static void
repeated_keys(SyncBuffer *b)
{
	put(b, "{\"a\":1");
	put_times(b, ",\"a\":1", 300000);
	put(b, "}");
}

static void
long_text(SyncBuffer *b)
{
	put_times(b, "aaaaaaaaaaaaaaaa", 1000000);
	put(b, "\xC3\xA9");
}

static void
half_text(SyncBuffer *b)
{
	put_times(b, "aaaaaaaaaaaaaaaa", 500000);
	put(b, "b");
}

static void
half_text_of_halves(SyncBuffer *b)
{
	put_times(b, "aaaaaaaaaaaaaaaa", 500000);
	put(b, "\xED\xA0\xBD");
}

static void
long_digits(SyncBuffer *b)
{
	put_times(b, "9", 9999);
}

static void
longer_digits(SyncBuffer *b)
{
	put_times(b, "1234567890", 1000000);
}

static void
nothing(SyncBuffer *b)
{
	put(b, "0");
}

#define PLAN_OF_EACH(count_3) \
	"{\"plan\":{\"version\":1,\"dataSources\":[{\"hash\":1,\"table\":{\"connection\":null,\"schema\":null," \
	"\"table\":\"t\"},\"tableValuedFunctions\":[" count_3 "],\"filters\":[],\"partitionBy\":[{\"expr\":{\"type\":" \
	"\"data\",\"source\":{\"function\":0,\"outputName\":\"value\"}}}],\"columns\":[\"star\"]}]," \
	"\"buckets\":[{\"hash\":2,\"uniqueName\":\"s|0\",\"sources\":[0]}],\"parameterIndexes\":[],\"streams\":[]}," \
	"\"compatibility\":{\"edition\":3,\"overrides\":{}},\"eventDescriptors\":{}}"
#define EACH(column) \
	"{\"functionName\":\"json_each\",\"functionInputs\":[{\"type\":\"data\",\"source\":{\"column\":\"" column "\"}}]}"

/* what a query with an expression makes of column a, and b */
static const struct HostileRow
{
	const char *name;
	const char *query;			/* an item, a plan (from {), or WHERE with parameters u, v */
	void		(*a) (SyncBuffer *buffer);
	void		(*b) (SyncBuffer *buffer);
	bool		fails;
}			hostile_rows[] = {
	{"JSON of 10 MB, 100,000 deep", "a ->> '$.x'", deep_json, nothing, true},
	{"json_each() of 1,000,000", PLAN_OF_EACH(EACH("a")), many_elements, nothing, true},
	{"json_each() of 90,000", PLAN_OF_EACH(EACH("a")), all_elements, nothing, false},
	{"json_each() of 400 x 400", PLAN_OF_EACH(EACH("a") "," EACH("a")), some_elements, nothing, true},
	{"json_each() of 1,000,000 three times",
		PLAN_OF_EACH(EACH("a") "," EACH("a") "," EACH("a")), many_elements, nothing, true},
	{"15 MB of numbers", "json_array_length(a)", most_elements, nothing, false},
	{"15 MB of numbers, 8 times", "a ->> '$.a' AS b, a ->> '$.b' AS c, a ->> '$.c' AS d, a ->> '$.d' AS e, "
		"a ->> '$.e' AS f, a ->> '$.f' AS g, a ->> '$.g' AS h, a ->> '$.h'", most_elements, nothing, true},
	{"300,000 equal keys", "a ->> '$.a'", repeated_keys, nothing, false},
	{"upper() of 16 MB", "length(upper(a))", long_text, nothing, false},
	{"substring() of 16 MB", "length(substring(a, 2, 16000000))", long_text, nothing, false},
	{"hex(hex(hex(hex(hex(a)))))", "length(hex(hex(hex(hex(hex(a))))))", long_text, nothing, true},
	{"instr() of 8 MB in 16 MB", "instr(a, b)", long_text, half_text, false},
	{"instr() of 8 MB with half a pair", "instr(a, b)", long_text, half_text_of_halves, false},
	{"products of 10,000 digits", "length(CAST(a AS integer) * CAST(a AS integer))", long_digits, nothing, false},
	{"products of products", "length(CAST(a AS integer) * CAST(a AS integer) * CAST(a AS integer))",
		long_digits, nothing, true},
	{"10,000,000 digits", "length(CAST(a AS integer) * 2)", longer_digits, nothing, true},
	{"10,000,000 digits as a number", "CAST(a AS real)", longer_digits, nothing, false},
	{"10,000,000 digits compared", "CAST(a AS integer) < CAST(b AS real)", longer_digits, nothing, false},
	{"90,000 keys", "=1", all_elements, nothing, false},
	{"90,000 keys twice", "=2", all_elements, nothing, true},
};

static const SyncPlan *
plan_of_row(const struct HostileRow *row, SyncArena *arena)
{
	RulesOptions options = {.default_schema = "public"};
	const RulesMessage *messages;
	SyncError	error;
	const char *text;
	const SyncPlan *plan;

	if (row->query[0] == '{')
	{
		plan = plan_read(row->query, strlen(row->query), &options, arena, &error);
		assert_non_null(plan);
		return plan;
	}
	if (strcmp(row->query, "=1") == 0)
		text = "bucket_definitions:\n  b:\n    parameters: SELECT request.user_id() AS u\n    data:\n"
			"      - SELECT id FROM t WHERE bucket.u IN a\n";
	else if (strcmp(row->query, "=2") == 0)
		text = "bucket_definitions:\n  b:\n    parameters:\n      - SELECT id AS u FROM t WHERE "
			"token_parameters.x IN a AND (token_parameters.y = b OR token_parameters.y = id)"
			"\n    data:\n      - SELECT id FROM t WHERE bucket.u IN a AND (bucket.u = b OR bucket.u = id)\n";
	else
		text = arena_printf(arena, "config: {edition: 2}\nbucket_definitions:\n  b:\n    data:\n"
							"      - SELECT id, %s AS v FROM t\n", row->query);
	plan = rules_compile(text, strlen(text), &options, arena, &messages);
	if (plan == NULL)
		fail_msg("%s: %s", row->name, messages->error.message);
	return plan;
}

/* names that are repeated cost each row no more than others */
static void
repeated_names_are_cheap(void **state)
{
	RulesOptions options = {.default_schema = "public"};
	SyncArena  *plan_arena = arena_create(0);
	SyncArena  *row_arena = arena_create(0);
	SyncValue	values[COLUMNS] = {0};
	const RulesMessage *said;
	EvaluatedRow row;
	SyncBuffer	yaml;
	const TableBinding *binding;
	double		time = cpu();

	(void) state;
	buffer_init(&yaml, plan_arena, 1000000);
	same_name(&yaml);
	binding = bind(rules_compile(yaml.data, yaml.len, &options, plan_arena, &said), plan_arena);
	assert_non_null(binding);
	values[0] = text("1");
	values[1] = text("v");
	for (int i = 0; i < 10; i++)
	{
		arena_reset(row_arena);
		assert_int_equal(table_evaluate(binding, values, row_arena, &row), SYNC_OK);
	}
	assert_bytes(row.bucket_rows[0].json, "{\"id\":\"1\",\"x\":\"v\"}");
	time = cpu() - time;
	printf("30,000 items of one name, bound and 10 rows: %.3f s\n", time);
	assert_true(time < 1.0 * SLOW);
	arena_destroy(row_arena);
	arena_destroy(plan_arena);
}

static void
hostile_rows_are_bounded(void **state)
{
	const char *only = getenv("HOSTILE");

	(void) state;
	for (size_t i = 0; i < sizeof(hostile_rows) / sizeof(hostile_rows[0]); i++)
	{
		const struct HostileRow *hostile = &hostile_rows[i];
		SyncArena  *plan_arena = arena_create(0);
		SyncArena  *arena = arena_create(0);
		const TableBinding *binding;
		SyncBuffer	a;
		SyncBuffer	b;
		SyncValue	values[COLUMNS] = {0};
		EvaluatedRow row;
		double		time;

		if (only != NULL && strstr(hostile->name, only) == NULL)
			continue;
		binding = bind(plan_of_row(hostile, plan_arena), plan_arena);
		assert_non_null(binding);
		buffer_init(&a, plan_arena, 20000000);
		buffer_init(&b, plan_arena, 100);
		hostile->a(&a);
		hostile->b(&b);
		values[0] = text("1");
		values[1] = value_text(a.data, a.len);
		values[2] = value_text(b.data, b.len);
		time = cpu();
		assert_int_equal(table_evaluate(binding, values, arena, &row), SYNC_OK);
		time = cpu() - time;
		printf("%-38s %d rows, %d errors, %.3f s, %zu kB%s%.80s\n", hostile->name, row.bucket_row_count,
			   row.error_count, time, arena_used(arena) / 1024, row.error != NULL ? ": " : "",
			   row.error != NULL ? row.error->message : "");
		fflush(stdout);
		assert_int_equal(row.error_count > 0, hostile->fails);
		assert_true(row.bucket_row_count > 0 || hostile->fails);
		assert_true(time < CPU_SECONDS * SLOW);
		assert_true(arena_used(arena) < (size_t) 600 * 1024 * 1024);
		arena_destroy(arena);
		arena_destroy(plan_arena);
	}
}

/* ---------------------------------------------------------------- hashes */

#define FNV(hash, byte) (((hash) ^ (byte)) * 16777619u)
#define PAIRS	15
#define BLOCK	6

static uint32_t
fnv(uint32_t hash, const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++)
		hash = FNV(hash, (unsigned char) s[i]);
	return hash;
}

static void
make_block(uint32_t n, char block[BLOCK])
{
	for (int i = 0; i < BLOCK; i++)
		block[i] = (char) ('a' + (n * 2654435761u >> (4 * i)) % 26);
}

/* two blocks that lead to the same low 18 bits of a hash without a key */
static uint32_t
colliding_pair(uint32_t state, char pair[2][BLOCK])
{
	static uint32_t seen[1 << 18];

	memset(seen, 0, sizeof(seen));
	for (uint32_t n = 1;; n++)
	{
		uint32_t	low;

		assert_true(n < 1000000);
		make_block(n, pair[0]);
		low = fnv(state, pair[0], BLOCK) & 0x3FFFF;
		make_block(seen[low], pair[1]);
		if (seen[low] != 0 && memcmp(pair[0], pair[1], BLOCK) != 0)
			return low;
		seen[low] = n;
	}
}

/* all choices of one block of each pair: 2^15 texts; or the same number of any texts */
static void
put_elements(SyncBuffer *b, bool collide)
{
	char		pairs[PAIRS][2][BLOCK];
	SyncType	type = SYNC_TEXT;
	uint32_t	state = fnv(2166136261u, (const char *) &type, sizeof(type));

	for (int i = 0; i < PAIRS; i++)
		state = colliding_pair(state, pairs[i]);
	put(b, "[");
	for (int n = 0; n < 1 << PAIRS; n++)
	{
		put(b, n > 0 ? ",\"" : "\"");
		for (int i = 0; i < PAIRS; i++)
			buffer_append(b, pairs[i][n >> i & 1], BLOCK);
		if (!collide)
			buffer_append_int(b, n * 7919);
		put(b, "\"");
	}
	put(b, "]");
}

static double
time_of_elements(bool collide)
{
	static const char index[] =
		"{\"plan\":{\"version\":1,\"dataSources\":[],\"buckets\":[],\"parameterIndexes\":[{\"hash\":3,\"table\":"
		"{\"connection\":null,\"schema\":null,\"table\":\"t\"},\"tableValuedFunctions\":[" EACH("a") "],"
		"\"filters\":[],\"partitionBy\":[{\"expr\":{\"type\":\"data\",\"source\":{\"function\":0,\"outputName\":"
		"\"value\"}}}],\"output\":[],\"lookupScope\":{\"lookupName\":\"lookup\",\"queryId\":\"0\"}}],"
		"\"streams\":[]},\"compatibility\":{\"edition\":3,\"overrides\":{}},\"eventDescriptors\":{}}";
	const struct HostileRow row = {"elements", index, NULL, NULL, false};
	SyncArena  *arena = arena_create(0);
	const TableBinding *binding = bind(plan_of_row(&row, arena), arena);
	SyncValue	values[COLUMNS] = {0};
	EvaluatedRow evaluated;
	SyncBuffer	a;
	double		time;

	buffer_init(&a, arena, 3000000);
	put_elements(&a, collide);
	values[0] = text("1");
	values[1] = value_text(a.data, a.len);
	time = cpu();
	assert_int_equal(table_evaluate(binding, values, arena, &evaluated), SYNC_OK);
	time = cpu() - time;
	assert_int_equal(evaluated.error_count, 0);
	assert_int_equal(evaluated.parameter_row_count, 1 << PAIRS);
	arena_destroy(arena);
	return time;
}

/* whoever writes rows cannot make a table of hashes a list */
static void
chosen_values_do_not_collide(void **state)
{
	double		chosen = time_of_elements(true);
	double		any = time_of_elements(false);

	(void) state;
	printf("32,768 elements: %.3f s chosen to collide, %.3f s any\n", chosen, any);
	assert_true(chosen < 8 * any + 0.05);
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(hostile_rules_are_cheap),
		cmocka_unit_test(repeated_names_are_cheap),
		cmocka_unit_test(hostile_rows_are_bounded),
		cmocka_unit_test(chosen_values_do_not_collide),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
