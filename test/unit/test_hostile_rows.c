/*-------------------------------------------------------------------------
 *
 * test_hostile_rows.c
 *	  Rows made to be expensive: each is evaluated or fails, within bounds of
 *	  memory and CPU time.
 *
 * The figures are printed.
 *
 *-------------------------------------------------------------------------
 */
#include "hostile_test.h"

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
		cmocka_unit_test(hostile_rows_are_bounded),
		cmocka_unit_test(chosen_values_do_not_collide),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
