/*-------------------------------------------------------------------------
 *
 * test_hostile.c
 *	  Rules made to be expensive: each is accepted or refused with a message that
 *	  has a place, within bounds of memory and CPU time.
 *
 * The figures are printed.  Memory is what the arena takes from malloc at most,
 * which does not depend on the machine.
 *
 *-------------------------------------------------------------------------
 */
#include "hostile_test.h"
#include "sql.h"
#include "yaml_node.h"

#define COMPILE_MAX_MEMORY	((size_t) 64 * 1024 * 1024)

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
NESTED(many_base64, "base64(", "'x'", ")", 190)
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

/* each alternative has all items */
static void
wide_alternatives(SyncBuffer *b)
{
	put(b, STREAM "SELECT id");
	put_times(b, ", a", 20000);
	put(b, " FROM t WHERE b = auth.user_id()");
	for (int i = 1; i < 100; i++)
		put_number(b, " OR b", i, " = auth.user_id()");
	put(b, "\n");
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
	{"3 queries of 130,000 short items", short_items, false},
	{"10,000 (", parentheses, false},
	{"10,000 NOT", nots, false},
	{"10,000 CASE", cases, false},
	{"10,000 AND", ands, false},
	{"40,000 OR", ors, false},
	{"10,000 ->", paths, false},
	{"10,000 upper(", calls, false},
	{"10,000 ::text", casts, false},
	{"150 hex(", many_hex, false},
	{"190 base64(", many_base64, false},
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
	{"edition 3: 20,000 items, 100 OR", wide_alternatives, false},
};


/* a text of pieces: head, then part as often as it fits or is wanted, then tail */
static const struct RepeatedRules
{
	const char *name;
	const char *head;
	const char *part;			/* ~ is its number */
	int			times;			/* 0: until the document is full */
	const char *inner;			/* what @ in part stands for, inner_times times */
	int			inner_times;
	const char *tail;
	bool		accepted;
}			repeated_rules[] = {
	{"tables of one bucket", HEAD, "      - SELECT * FROM t~\n", 0, NULL, 0, "", true},
	{"definitions", "bucket_definitions:\n", "  b~: {data: [SELECT * FROM t]}\n", 0, NULL, 0, "", false},
	{"definitions with lookups", "bucket_definitions:\n", "  b~: {parameters: SELECT id AS x FROM u "
		"WHERE a = request.user_id(), data: [SELECT * FROM t WHERE a = bucket.x]}\n", 0, NULL, 0, "", true},
	{"parameter queries", "bucket_definitions:\n  b:\n    data: [SELECT * FROM t WHERE a = bucket.x]\n"
		"    parameters:\n", "      - SELECT id AS x FROM u~\n", 0, NULL, 0, "", true},
	{"conditions of 900 AND", HEAD, QUERY "@a\n", 0, "a AND ", 900, "", true},
	{"conditions of 900 OR", HEAD, QUERY "@a\n", 0, "a = 1 OR ", 900, "", true},
	{"OR of a parameter under AND", "bucket_definitions:\n  b:\n    parameters: SELECT request.user_id() AS u\n"
		"    data:\n", QUERY "@bucket.u = a\n", 0, "(bucket.u = a OR bucket.u = b) AND ", 400, "", true},
	{"texts of 900 ||", HEAD, "      - SELECT id, @'' AS x FROM t\n", 0, "'0123456789' || ", 900, "", false},
	{"hex() 16 times", HEAD, "      - SELECT id, @'x'))))))))))))))) AS x FROM t\n", 0, "hex(", 15, "", false},
	{"numbers of 9,999 digits", HEAD, "      - SELECT id, @ * 1 AS x FROM t\n", 0, "9", 9999, "", false},
	{"lists of 100,000 numbers", HEAD, QUERY "a IN '[@1]'\n", 0, "1,", 100000, "", true},
	{"comments", HEAD "      - SELECT * FROM t\n", "# no comment\n", 0, NULL, 0, "", true},
	{"comments of SQL", HEAD, "      - SELECT * FROM t @\n", 0, "/**/", 60000, "", true},
	{"nested comments of SQL", HEAD, "      - SELECT * FROM t @\n", 0, "/*", 60000, "", true},
	{"semicolons", HEAD, "      - \"SELECT * FROM t@\"\n", 0, ";", 200000, "", true},
	{"tables of one FROM", HEAD, "      - SELECT id FROM t@\n", 0, ",t", 100000, "", false},
	{"one key again and again", "bucket_definitions:\n", "  b: {data: []}\n", 0, NULL, 0, "", false},
	{"names of 1,000 bytes", "bucket_definitions:\n", "  \"@~\": {data: []}\n", 0, "k", 1000, "", true},
	{"subqueries in one another", ALPHA "  s: {query: SELECT id FROM t WHERE ",
		"a IN (SELECT a FROM u WHERE ", 190, NULL, 0, "b}\n", false},
	{"events", "bucket_definitions: {}\nevent_definitions:\n  e:\n    payloads:\n",
		"      - SELECT a, b, c FROM t\n", 0, NULL, 0, "", true},
	{"%TAG", "", "%TAG !~! tag:x\n", 0, NULL, 0, "--- {}\n", false},
	{"lists of aliases", "x: &a [1]\n", "k~: *a\n", 0, NULL, 0, "", false},
	{"blank lines", "", "\n", 0, NULL, 0, "", false},
	{"edition 2: streams", ALPHA, "  s~: {query: SELECT * FROM t WHERE a = auth.user_id()}\n", 0, NULL, 0,
		"", true},
	{"edition 2: OR of 99", ALPHA, "  s~: {query: \"SELECT * FROM t WHERE @b\"}\n", 0, "a = auth.user_id() OR ",
		99, "", true},
	{"edition 2: subqueries", ALPHA, "  s~: {query: SELECT * FROM t WHERE a IN (SELECT b FROM u~ "
		"WHERE c = auth.user_id())}\n", 0, NULL, 0, "", true},
	{"edition 3: streams", "config: {edition: 3}\nstreams:\n", "  s~: {query: SELECT * FROM t WHERE a = auth.user_id()}\n",
		0, NULL, 0, "", true},
	{"edition 3: queries of one stream", "config: {edition: 3}\nstreams:\n  s:\n    queries:\n",
		"      - SELECT * FROM t~ WHERE a = auth.user_id()\n", 0, NULL, 0, "", true},
	{"edition 3: subqueries", "config: {edition: 3}\nstreams:\n", "  s~: {query: SELECT * FROM t WHERE a IN "
		"(SELECT b FROM u~ WHERE c = auth.user_id())}\n", 0, NULL, 0, "", true},
	{"edition 3: OR of 99", "config: {edition: 3}\nstreams:\n", "  s~: {query: \"SELECT * FROM t WHERE @b\"}\n", 0,
		"a = auth.user_id() OR ", 99, "", true},
	{"edition 3: 100 products of joins", "config: {edition: 3}\nstreams:\n", "  s~: {query: \"SELECT t.* FROM t, u, v "
		"WHERE t.a = u.a AND u.b = v.b AND (@u.x = v.y) AND v.c = auth.user_id()\"}\n", 0, "u.x = v.z OR ", 90, "",
		false},
	{"edition 3: 120,000 items", STREAM "SELECT id", ",a", 120000, NULL, 0, " FROM t\n", false},
	{"edition 3: IN of 60,000", STREAM "SELECT id FROM t WHERE a IN ARRAY[", "1,", 60000, NULL, 0, "1]\n", true},
	{"edition 3: CASE of 15,000", STREAM "SELECT id, CASE ", "WHEN a THEN b ", 15000, NULL, 0, "END AS x FROM t\n",
		true},
	{"edition 3: columns doubled in each", "config: {edition: 3}\nstreams:\n", "  s~: {query: \"@SELECT c, id FROM t) AS s) AS s"
		") AS s) AS s) AS s) AS s) AS s) AS s\"}\n", 0, "SELECT s.c || s.c AS c, s.id AS id FROM (", 8, "", false},
	{"edition 3: 3,000 columns used again", "config: {edition: 3}\nwith:\n  c: SELECT id@ FROM t\nstreams:\n",
		"  s~: {query: SELECT c.id FROM c}\n", 15000, ", a", 3000, "", false},
	{"edition 3: 300 clauses", "config: {edition: 3}\nstreams:\n", "  s~: {query: \"SELECT t.* FROM t, u WHERE @t.a = u.a "
		"AND u.b = auth.user_id()\"}\n", 0, "t.a = u.c AND ", 300, "", true},
	{"edition 3: arrays", "config: {edition: 3}\nstreams:\n", "  s~: {query: \"SELECT id FROM t WHERE @b\"}\n", 0,
		"a && auth.parameter('x') AND ", 200, "", false},
};

static void
put_piece(SyncBuffer *b, const char *piece, const struct RepeatedRules *rules, int number)
{
	for (; *piece != '\0'; piece++)
	{
		if (*piece == '~')
			buffer_append_int(b, number);
		else if (*piece == '@' && rules->inner != NULL)
			put_times(b, rules->inner, rules->inner_times);
		else
			buffer_append_char(b, *piece);
	}
}

static void
put_repeated(SyncBuffer *b, const struct RepeatedRules *rules)
{
	size_t		before;

	put_piece(b, rules->head, rules, 0);
	for (int i = 0; rules->times == 0 || i < rules->times; i++)
	{
		before = b->len;
		put_piece(b, rules->part, rules, i);
		if (rules->times == 0 && b->len + strlen(rules->tail) >= SYNC_YAML_MAX_BYTES)
		{
			b->len = before;
			break;
		}
	}
	put_piece(b, rules->tail, rules, 0);
}

/* ---------------------------------------------------------------- what becomes of them */

static void
check_refusal(const RulesMessage *messages)
{
	const RulesMessage *m = messages;

	while (m->level != RULES_FATAL)
		m = m->next;
	printf("    %d:%d: %.100s\n", m->error.line, m->error.column, m->error.message);
	assert_int_not_equal(m->error.code, SYNC_OK);
	assert_int_not_equal(m->error.code, SYNC_ERROR_OUT_OF_MEMORY);
	assert_true(m->error.line > 0 && m->error.column > 0);
}

static void
check_rules(const char *name, SyncString text, bool accepted)
{
	SyncArena  *arena = arena_create(0);
	RulesOptions options = {.default_schema = "public"};
	const RulesMessage *messages;
	const SyncPlan *plan;
	double		compile_time = cpu();
	double		bind_time;
	size_t		memory;

	plan = rules_compile(text.data, text.len, &options, arena, &messages);
	compile_time = cpu() - compile_time;
	memory = arena_peak(arena);
	bind_time = cpu();
	if (plan != NULL)
		bind(plan, arena);
	bind_time = cpu() - bind_time;
	printf("%-40s %7u bytes: %s, %.3f s, %zu kB; bound %.3f s\n", name, text.len,
		   plan != NULL ? "accepted" : "refused", compile_time, memory / 1024, bind_time);
	fflush(stdout);
	if (plan == NULL)
		check_refusal(messages);
	assert_int_equal(plan != NULL, accepted);
	assert_true(compile_time + bind_time < CPU_SECONDS * SLOW);
	assert_true(memory <= COMPILE_MAX_MEMORY);
	arena_destroy(arena);
}

/* HOSTILE in the environment chooses those whose names contain it */
static bool
is_wanted(const char *name)
{
	const char *only = getenv("HOSTILE");

	return only == NULL || strstr(name, only) != NULL;
}

static void
hostile_rules_are_cheap(void **state)
{
	SyncArena  *arena = arena_create(0);

	(void) state;
	for (size_t i = 0; i < sizeof(hostile_rules) / sizeof(hostile_rules[0]); i++)
	{
		SyncBuffer	text;

		buffer_init(&text, arena, 1000000);
		hostile_rules[i].make(&text);
		if (is_wanted(hostile_rules[i].name))
			check_rules(hostile_rules[i].name, buffer_string(&text), hostile_rules[i].accepted);
		arena_reset(arena);
	}
	arena_destroy(arena);
}

static void
repeated_rules_are_cheap(void **state)
{
	SyncArena  *arena = arena_create(0);

	(void) state;
	for (size_t i = 0; i < sizeof(repeated_rules) / sizeof(repeated_rules[0]); i++)
	{
		SyncBuffer	text;

		buffer_init(&text, arena, 1000000);
		put_repeated(&text, &repeated_rules[i]);
		if (is_wanted(repeated_rules[i].name))
			check_rules(repeated_rules[i].name, buffer_string(&text), repeated_rules[i].accepted);
		arena_reset(arena);
	}
	arena_destroy(arena);
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

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(hostile_rules_are_cheap),
		cmocka_unit_test(repeated_rules_are_cheap),
		cmocka_unit_test(repeated_names_are_cheap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
