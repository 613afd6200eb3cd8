/*-------------------------------------------------------------------------
 *
 * test_plan_check.c
 *	  plan_check() by itself: plans with and without notes, memory, depth.
 *	  What it finds is tested against real tables, in sql/validate.sql.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>

#include "bson_bytes.h"
#include "plan_check.h"
#include "rules_test.h"
#include "value.h"

#define STRING(s) {(s), sizeof(s) - 1}

static SchemaColumn lists_columns[] = {
	{.name = STRING("id"), .value = SCHEMA_UUID, .type = "uuid", .not_null = true},
	{.name = STRING("name"), .value = SCHEMA_TEXT, .type = "text"},
	{.name = STRING("price"), .value = SCHEMA_NUMERIC, .type = "numeric"},
	{.name = STRING("done"), .value = SCHEMA_BOOLEAN, .type = "boolean"},
};

static SchemaTable tables[] = {
	{
		.schema = STRING("public"), .name = STRING("lists"), .described = true,
		.has_identity = true, .published = true, .column_count = 4, .columns = lists_columns,
	},
	{.schema = STRING("public"), .name = STRING("todos")},
};

static SyncString schemas[] = {STRING("public")};

static const SchemaDescription database = {
	.schema_count = 1, .schemas = schemas, .table_count = 2, .tables = tables,
};

static const SyncPlan *
compile(const char *yaml, SyncArena *where)
{
	RulesOptions options = {.default_schema = "public"};
	const RulesMessage *messages;

	return rules_compile(yaml, strlen(yaml), &options, where, &messages);
}

static const RulesMessage *
check(const char *yaml)
{
	const SyncPlan *plan = compile(yaml, arena);

	assert_non_null(plan);
	return plan_check(plan, yaml, strlen(yaml), &database, arena);
}

static void
assert_message(const RulesMessage *message, int line, int column, const char *part)
{
	assert_non_null(message);
	assert_int_equal(message->level, RULES_WARNING);
	if (message->error.line != line || message->error.column != column ||
		strstr(message->error.message, part) == NULL)
		fail_msg("got %d:%d: %s", message->error.line, message->error.column,
				 message->error.message);
}

/* a stream reads from the only connection whatever it names (3.1): that is said, and names are placed */
static void
ignored_connection(void **state)
{
	const RulesMessage *message = check("config:\n"
										"  edition: 3\n"
										"streams:\n"
										"  s:\n"
										"    query: SELECT id, nocol FROM \"other.public\".lists\n");

	(void) state;
	assert_message(message, 5, 23, "has no column \"nocol\"");
	assert_message(message->next, 5, 34, "the connection \"other\" is ignored");
	assert_null(message->next->next);
	assert_null(check("config:\n  edition: 3\nstreams:\n  s:\n"
					  "    query: SELECT * FROM \"default.public\".lists\n"));
}

/* rules with errors: the names of all queries, of each edition, are compared; nothing else */
static void
rules_with_errors(void **state)
{
	static const char *const front_ends[] = {
		"bucket_definitions:\n  b:\n    data:\n      - SELECT * FROM lists WHERE foo(nocol)\n"
		"      - SELECT id, nocol FROM lists\n      - SELECT id FROM nowhere WHERE price > 1\n",
		"config: {edition: 2}\nstreams:\n  a: {query: SELECT * FROM lists WHERE foo(1)}\n"
		"  b: {query: 'SELECT id, nocol FROM lists'}\n  c: {query: SELECT id FROM nowhere}\n",
		"config: {edition: 3}\nstreams:\n  a: {query: SELECT * FROM lists WHERE foo(1)}\n"
		"  b: {query: 'SELECT id, nocol FROM lists'}\n  c: {query: SELECT id FROM nowhere}\n",
	};

	(void) state;
	for (int i = 0; i < 3; i++)
	{
		const char *yaml = front_ends[i];
		const SyncPlan *names;
		const RulesMessage *message;
		RulesOptions options = {.default_schema = "public", .names = &names};
		const RulesMessage *said;

		assert_null(rules_compile(yaml, strlen(yaml), &options, arena, &said));
		assert_non_null(names);
		assert_true(plan_reads_table(names, "public", "lists"));
		message = plan_check(names, yaml, strlen(yaml), &database, arena);
		if (i == 0)
		{
			assert_message(message, 4, 39, "has no column \"nocol\"");
			message = message->next;
		}
		assert_message(message, i == 0 ? 5 : 4, i == 0 ? 20 : 26, "has no column \"nocol\"");
		assert_message(message->next, i == 0 ? 6 : 5, i == 0 ? 24 : 29, "\"public.nowhere\" does not exist");
		assert_null(message->next->next);

		/* no names: what cannot be read has none, and where all is right there is a plan */
		assert_null(rules_compile("[", 1, &options, arena, &said));
		assert_null(names);
		yaml = "bucket_definitions: {}\n";
		assert_non_null(rules_compile(yaml, strlen(yaml), &options, arena, &said));
		assert_null(names);
	}
}

/* as many tables as streams: places are found, not searched for, and the rest is counted */
static void
many_tables(void **state)
{
	SchemaDescription many = database;
	SyncBuffer	yaml;
	const SyncPlan *plan;
	const RulesMessage *message;
	clock_t		start;

	(void) state;
	buffer_init(&yaml, arena, 1000000);
	append(&yaml, "config:\n  edition: 3\nstreams:\n");
	many.table_count = 12000;
	many.tables = arena_array(arena, SchemaTable, (size_t) many.table_count);
	for (int i = 0; i < many.table_count; i++)
	{
		const char *name = arena_printf(arena, "table%d", i);

		append(&yaml, arena_printf(arena, "  s%d: {query: SELECT id FROM %s}\n", i, name));
		many.tables[i] = tables[0];
		many.tables[i].name = str(name);
		many.tables[i].has_identity = false;
	}
	plan = compile(arena_strndup(arena, yaml.data, yaml.len), arena);
	assert_non_null(plan);
	start = clock();
	message = plan_check(plan, yaml.data, yaml.len, &many, arena);
	assert_true((double) (clock() - start) / CLOCKS_PER_SEC < 1.5 * SLOW);
	assert_non_null(message);
}

/* sorted by place, whatever order the parts of the check have */
static void
findings_are_in_order(void **state)
{
	const RulesMessage *message = check("bucket_definitions:\n"
										"  b:\n"
										"    data:\n"
										"      - SELECT id, nam FROM lists WHERE price > 10 AND nme = 1\n"
										"      - SELECT * FROM todo\n");

	(void) state;
	assert_message(message, 4, 20, "has no column \"nam\"");
	assert_message(message->next, 4, 41, "\"price\"");
	assert_message(message->next->next, 4, 56, "has no column \"nme\"");
	assert_message(message->next->next->next, 5, 23, "table \"public.todo\" does not exist");
	assert_null(message->next->next->next->next);
}

static void
nothing_to_say(void **state)
{
	(void) state;
	assert_null(check("bucket_definitions:\n  b:\n    data:\n      - SELECT * FROM lists\n"));
	assert_null(check("bucket_definitions: {}\n"));
}

/* a plan that was stored has no notes: the finding has no place, and is said once */
static void
stored_plan(void **state)
{
	static const char json[] =
		"{\"plan\":{\"version\":1,\"dataSources\":[{\"hash\":1,\"table\":{\"connection\":null,"
		"\"schema\":null,\"table\":\"lists\"},\"outputTableName\":\"lists\","
		"\"tableValuedFunctions\":[],\"filters\":[{\"type\":\"binary\",\"operator\":\"=\","
		"\"left\":{\"type\":\"data\",\"source\":{\"column\":\"nme\"}},"
		"\"right\":{\"type\":\"data\",\"source\":{\"column\":\"nme\"}}}],"
		"\"partitionBy\":[],\"columns\":[\"star\"]}],\"buckets\":[{\"hash\":1,"
		"\"uniqueName\":\"s|0\",\"sources\":[0]}],\"parameterIndexes\":[],\"streams\":[]},"
		"\"compatibility\":{\"edition\":3,\"overrides\":{}},\"eventDescriptors\":{}}";
	RulesOptions options = {.default_schema = "public"};
	SyncError	error = {0};
	const SyncPlan *plan = plan_read(json, sizeof(json) - 1, &options, arena, &error);
	const RulesMessage *message;

	(void) state;
	if (plan == NULL)
		fail_msg("%s", error.message);
	message = plan_check(plan, "", 0, &database, arena);
	assert_message(message, 0, 0, "has no column \"nme\"");
	assert_string_equal(message->error.hint, "Did you mean \"name\"?");
	assert_null(message->next);
}

/* conditions as deep as rules may be: no stack is used up */
static void
deep_conditions(void **state)
{
	SyncBuffer	yaml;

	(void) state;
	for (int kind = 0; kind < 2; kind++)
	{
		buffer_init(&yaml, arena, 65536);
		append(&yaml, "bucket_definitions: {b: {data: ['SELECT * FROM lists WHERE ");
		for (int i = 0; i < 950; i++)
			append(&yaml, kind == 0 ? "done AND " : "done OR  ");
		append(&yaml, "done']}}");
		buffer_append_char(&yaml, '\0');
		assert_null(check(yaml.data));
	}
}

/* nothing can interrupt it: so however much there is to compare, it ends */
static void
too_much_to_compare(void **state)
{
	static SchemaTable many[20000];
	const SchemaDescription large = {
		.schema_count = 1, .schemas = schemas, .table_count = 20000, .tables = many,
	};
	const RulesMessage *message;
	const SyncPlan *plan;
	SyncBuffer	yaml;

	(void) state;
	for (int i = 0; i < 20000; i++)
		many[i] = tables[0];
	buffer_init(&yaml, arena, 1000000);
	append(&yaml, "bucket_definitions:\n b:\n  data:\n");
	for (int i = 0; i < 900; i++)
	{
		append(&yaml, "   - SELECT id");
		for (int j = 0; j < 100; j++)
			append(&yaml, ",id AS a");
		append(&yaml, " FROM lists\n");
	}
	buffer_append_char(&yaml, '\0');
	plan = compile(yaml.data, arena);
	assert_non_null(plan);
	message = plan_check(plan, yaml.data, strlen(yaml.data), &large, arena);
	assert_message(message, 0, 0, "too much to compare");
}

/* at whatever allocation memory ends, there is an answer */
static void
memory_runs_out(void **state)
{
	static const char yaml[] = "bucket_definitions:\n  b:\n    data:\n"
		"      - SELECT id, nam FROM lists WHERE price > 10 AND done AND NOT done AND nme = 1\n";
	bool		ran_out = false;
	bool		worked = false;

	(void) state;
	for (size_t budget = 4096; budget < 1024 * 1024 && !worked; budget += 512)
	{
		SyncArena  *small = arena_create(budget);
		const SyncPlan *plan = small != NULL ? compile(yaml, small) : NULL;
		const RulesMessage *message;

		if (plan != NULL)
		{
			message = plan_check(plan, yaml, strlen(yaml), &database, small);
			assert_non_null(message);
			if (message->error.code == SYNC_ERROR_OUT_OF_MEMORY)
				ran_out = true;
			else
				worked = true;
		}
		arena_destroy(small);
	}
	assert_true(worked);
	assert_true(ran_out);
}

/* ---------------------------------------------------------------- bson_append_json() */

static void
bson_as_json(void **state)
{
	SyncValue	values[] = {value_integer(INT64_MIN), value_real(1), value_real(0.5),
		value_text("\"a\n", 3), value_null(), value_blob("\xff\x00", 2),
	{.type = SYNC_JSON, .len = 24, .data = "[true,false,{\"k\":[1.0]}]"}};
	SyncString	lookup = bson_lookup((SyncString) STRING("b"), (SyncString) STRING("1"), values, 7,
									 arena);
	SyncBuffer	json;

	(void) state;
	buffer_init(&json, arena, 64);
	bson_append_json(&json, lookup, false);
	buffer_append_char(&json, '\0');
	assert_string_equal(json.data, "{\"l\":[\"b\",\"1\",-9223372036854775808,1,0.5,\"\\\"a\\n\",null,"
						"\"\\\\xff00\",[true,false,{\"k\":[1.0]}]]}");

	/* cut anywhere, or with any byte changed, nothing beyond it is read (under ASan) */
	for (uint32_t len = 0; len < lookup.len; len++)
	{
		char	   *copy = arena_strndup(arena, lookup.data, lookup.len);

		buffer_init(&json, arena, 64);
		bson_append_json(&json, (SyncString) {copy, len}, false);
		for (int byte = 0; byte < 256; byte++)
		{
			copy[len] = (char) byte;
			buffer_init(&json, arena, 64);
			bson_append_json(&json, (SyncString) {copy, lookup.len}, false);
		}
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		rules_test(findings_are_in_order),
		rules_test(ignored_connection),
		rules_test(rules_with_errors),
		rules_test(many_tables),
		rules_test(nothing_to_say),
		rules_test(stored_plan),
		rules_test(deep_conditions),
		rules_test(too_much_to_compare),
		rules_test(memory_runs_out),
		rules_test(bson_as_json),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
