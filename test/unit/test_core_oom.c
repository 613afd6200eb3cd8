/*-------------------------------------------------------------------------
 *
 * test_core_oom.c
 *	  The n-th allocation fails, for every n, in everything that rules.h and
 *	  change.h offer: SYNC_ERROR_OUT_OF_MEMORY is reported, nothing leaks, and
 *	  the same again gives the same as before.
 *
 * malloc, calloc and realloc are ours in the whole process, libyaml's and ICU's
 * calls included, and allocations are counted to find leaks.  Under a
 * sanitizer, which has allocation functions of its own, only calls from the
 * product's objects fail (--wrap) and LeakSanitizer looks for leaks.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <stdio.h>

#include "core_test.h"
#include "json.h"
#include "rules.h"
#include "value.h"

/* ---------------------------------------------------------------- allocation */

static long fail_at;			/* 0: none */
static long calls;
static long live;

static bool
fails(void)
{
	if (fail_at == 0 || ++calls != fail_at)
		return false;
	errno = ENOMEM;
	return true;
}

#ifdef __SANITIZE_ADDRESS__

extern void *__real_malloc(size_t size);
extern void *__real_calloc(size_t n, size_t size);
extern void *__real_realloc(void *ptr, size_t size);
extern void *__wrap_malloc(size_t size);
extern void *__wrap_calloc(size_t n, size_t size);
extern void *__wrap_realloc(void *ptr, size_t size);

void *
__wrap_malloc(size_t size)
{
	return fails() ? NULL : __real_malloc(size);
}

void *
__wrap_calloc(size_t n, size_t size)
{
	return fails() ? NULL : __real_calloc(n, size);
}

void *
__wrap_realloc(void *ptr, size_t size)
{
	return fails() ? NULL : __real_realloc(ptr, size);
}

#else

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *ptr, size_t size);
extern void __libc_free(void *ptr);

void *
malloc(size_t size)
{
	void	   *result = fails() ? NULL : __libc_malloc(size);

	live += result != NULL;
	return result;
}

void *
calloc(size_t n, size_t size)
{
	void	   *result = fails() ? NULL : __libc_calloc(n, size);

	live += result != NULL;
	return result;
}

void *
realloc(void *ptr, size_t size)
{
	void	   *result = fails() ? NULL : __libc_realloc(ptr, size);

	live += ptr == NULL && result != NULL;
	return result;
}

void
free(void *ptr)
{
	live -= ptr != NULL;
	__libc_free(ptr);
}

#endif

/* ---------------------------------------------------------------- configs */

static const struct Config
{
	const char *name;
	bool		is_plan;
	const char *text;
}			configs[] = {
	{"legacy, edition 1", false,
		"bucket_definitions:\n"
		"  all:\n"
		"    data:\n"
		"      - SELECT * FROM t\n"
		"      - \"SELECT id, upper(name) AS u, n * 99999999999999999999 AS p, tags -> '$.a' AS a FROM t\"\n"
		"  own:\n"
		"    priority: 1\n"
		"    parameters:\n"
		"      - SELECT id AS list, n FROM t WHERE token_parameters.user_id IN tags AND NOT n = 7\n"
		"      - SELECT name AS list, n FROM t WHERE name = token_parameters.user_id\n"
		"    data:\n"
		"      - SELECT * FROM t WHERE (id = bucket.list OR name = bucket.list) AND n = bucket.n\n"
		"event_definitions:\n"
		"  seen: {payloads: [SELECT id FROM seen]}\n"},
	{"legacy, edition 2, wrong in many ways", false,
		"config: {edition: 2, x: 1}\n"
		"bucket_definitions:\n"
		"  a: {data: [SELECT id FROM t WHERE uper(a), 'SELECT (', SELECT id FROM t WHERE 'x' || Name = 1]}\n"
		"  b: {data: [*z], parameters: null}\n"
		"  b: {}\n"},
	{"broken YAML", false, "bucket_definitions:\n  a: [\n  b: {\n"},
	{"streams, edition 2", false,
		"config: {edition: 2}\n"
		"streams:\n"
		"  s: {query: \"SELECT * FROM t WHERE name = auth.user_id() OR id IN (SELECT list FROM lists)\"}\n"},
	{"streams, edition 3", false,
		"config: {edition: 3}\n"
		"with: {mine: SELECT id FROM lists WHERE owner = auth.user_id()}\n"
		"streams:\n"
		"  s: {queries: [\"SELECT * FROM t WHERE id IN mine\", \"SELECT t.* FROM t, json_each(t.tags) j "
		"WHERE j.value = auth.user_id()\"]}\n"},
	{"a stored plan", true,
		"{\"plan\":{\"version\":1,\"dataSources\":[{\"hash\":1,\"table\":{\"connection\":null,\"schema\":null,"
		"\"table\":\"t%\"},\"tableValuedFunctions\":[{\"functionName\":\"json_each\",\"functionInputs\":"
		"[{\"type\":\"data\",\"source\":{\"column\":\"tags\"}}]}],\"filters\":[{\"type\":\"scalar_in\","
		"\"target\":{\"type\":\"data\",\"source\":{\"column\":\"n\"}},\"in\":[{\"type\":\"lit_int\","
		"\"base10\":\"5\"},{\"type\":\"lit_null\"}]}],\"partitionBy\":[{\"expr\":{\"type\":\"data\","
		"\"source\":{\"function\":0,\"outputName\":\"value\"}}}],\"columns\":[\"star\",{\"expr\":{\"type\":"
		"\"function\",\"function\":\"upper\",\"parameters\":[{\"type\":\"data\",\"source\":{\"function\":0,"
		"\"outputName\":\"value\"}}]},\"alias\":\"name\"}]}],\"buckets\":[{\"hash\":2,\"uniqueName\":\"s|0\","
		"\"sources\":[0]}],\"parameterIndexes\":[{\"hash\":3,\"table\":{\"connection\":null,\"schema\":\"public\","
		"\"table\":\"t\"},\"tableValuedFunctions\":[],\"filters\":[],\"partitionBy\":[{\"expr\":{\"type\":\"data\","
		"\"source\":{\"column\":\"name\"}}}],\"output\":[{\"type\":\"data\",\"source\":{\"column\":\"id\"}}],"
		"\"lookupScope\":{\"lookupName\":\"lookup\",\"queryId\":\"0\"}}],\"streams\":[]},"
		"\"compatibility\":{\"edition\":3,\"overrides\":{}},\"eventDescriptors\":{\"e\":[\"SELECT a FROM ev\"]}}"},
	{"a plan of a newer version", true, "{\"plan\":{\"version\":9},\"compatibility\":{\"edition\":3}}"},
};

/* ---------------------------------------------------------------- the work */

/* what came of it; digest of all that was given */
typedef struct Outcome
{
	SyncErrorCode code;
	uint64_t	digest;
	int			rows;
} Outcome;

static void
digest(Outcome *outcome, const void *data, size_t len)
{
	for (size_t i = 0; i < len; i++)
		outcome->digest = (outcome->digest ^ ((const unsigned char *) data)[i]) * UINT64_C(1099511628211);
}

static void
digest_string(Outcome *outcome, SyncString s)
{
	digest(outcome, s.data, s.len);
	digest(outcome, &s.len, sizeof(s.len));
}

static void
digest_ops(Outcome *outcome, const BucketOpList *list)
{
	for (size_t i = 0; i < list->count; i++)
	{
		const BucketOp *op = &list->ops[i];

		digest(outcome, &op->kind, sizeof(op->kind));
		digest(outcome, &op->checksum, sizeof(op->checksum));
		digest_string(outcome, op->bucket);
		digest_string(outcome, op->row_id);
		digest_string(outcome, op->json);
		digest_string(outcome, op->lookup);
		digest_string(outcome, op->rows);
	}
}

static const SyncPlan *
read_rules(const struct Config *config, SyncArena *arena, Outcome *outcome)
{
	RulesOptions options = {.default_schema = "public"};
	const RulesMessage *messages;
	SyncError	error;
	const SyncPlan *plan;

	if (config->is_plan)
	{
		plan = plan_read(config->text, strlen(config->text), &options, arena, &error);
		outcome->code = error.code;
		if (plan == NULL)
			digest(outcome, error.message, strlen(error.message));
		return plan;
	}
	plan = rules_compile(config->text, strlen(config->text), &options, arena, &messages);
	for (const RulesMessage *m = messages; m != NULL; m = m->next)
	{
		if (m->level == RULES_FATAL && outcome->code == SYNC_OK)
			outcome->code = m->error.code;
		digest(outcome, m->error.message, strlen(m->error.message));
		digest(outcome, m->error.hint, strlen(m->error.hint));
	}
	return plan;
}

#define COLUMNS 4

/* from a row to another, and away; the caller has a guard */
static void
move_rows(const EvaluatedRow *rows, const SyncRowType *type, const SyncValue *values, SyncArena *arena,
		  Outcome *outcome)
{
	static const SourceTableId table = {{1}};
	SourceKey	key;
	SyncValue	merged[COLUMNS] = {0};
	BucketOpList list;
	RowState   *state;
	SyncError	error;
	SyncValue	keys;
	SyncString	copy;

	source_key_of_row(type, values, arena, &key);
	bucket_op_list_init(&list, arena);
	state = bucket_ops_move(&list, &table, &key, NULL, &rows[0]);
	state = bucket_ops_move(&list, &table, &key, state, &rows[1]);
	bucket_ops_move(&list, &table, &key, state, NULL);
	digest_ops(outcome, &list);
	copy = row_copy_encode(type, values, arena);
	digest_string(outcome, copy);
	outcome->rows += row_copy_merge(copy, type, merged, arena);
	if (json_keys(text("{\"b\":[1,{\"x\":\"\\u00e9\"}],\"a\":null,\"1\":2}"), arena, &keys, &error))
		digest_string(outcome, (SyncString) {keys.data, keys.len});
}

static void
evaluate_rows(const SyncPlan *plan, SyncArena *plan_arena, SyncArena *arena, Outcome *outcome)
{
	static const SyncColumn columns[COLUMNS] = {{{"id", 2}}, {{"name", 4}}, {{"n", 1}}, {{"tags", 4}}};
	static const int identity[] = {0};
	const SyncRowType type = {COLUMNS, columns, 1, identity};
	SyncValue	values[2][COLUMNS] = {
		{text("1"), text("stra\xC3\x9F" "e"), value_integer(5), text("[\"a\",\"b\",1.5]")},
		{text("1"), text("u"), value_integer(5), text("[\"b\",[],\"c\"]")},
	};
	BucketNaming naming = {.prefix = {"17#", 3}};
	EvaluatedRow rows[2];
	SyncError	error;
	ArenaGuard	guard;
	const TableBinding *binding = plan_bind(plan, "public", "t", &type, &naming, plan_arena, &error);

	outcome->code = error.code;
	for (int i = 0; i < 2 && outcome->code == SYNC_OK; i++)
	{
		outcome->code = table_evaluate(binding, values[i], arena, &rows[i]);
		outcome->rows += rows[i].bucket_row_count + rows[i].parameter_row_count;
		digest(outcome, &rows[i].error_count, sizeof(rows[i].error_count));
		if (rows[i].error != NULL)
			digest(outcome, rows[i].error->message, strlen(rows[i].error->message));
	}
	if (outcome->code != SYNC_OK)
		return;
	arena_guard_push(arena, &guard);
	if (setjmp(guard.jump) == 0)
		move_rows(rows, &type, values[0], arena, outcome);
	else
		outcome->code = SYNC_ERROR_OUT_OF_MEMORY;
	arena_guard_pop(arena, &guard);
}

static Outcome
work(const struct Config *config)
{
	Outcome		outcome = {.digest = UINT64_C(14695981039346656037)};
	SyncArena  *plan_arena = arena_create(0);
	SyncArena  *arena = arena_create(0);
	const SyncPlan *plan;

	if (plan_arena == NULL || arena == NULL)
		outcome.code = SYNC_ERROR_OUT_OF_MEMORY;
	else if ((plan = read_rules(config, plan_arena, &outcome)) != NULL)
		evaluate_rows(plan, plan_arena, arena, &outcome);
	arena_destroy(arena);
	arena_destroy(plan_arena);
	return outcome;
}

/* ---------------------------------------------------------------- test */

static void
every_allocation_may_fail(void **state)
{
	(void) state;
	for (size_t c = 0; c < sizeof(configs) / sizeof(configs[0]); c++)
	{
		const struct Config *config = &configs[c];
		Outcome		good = work(config);
		long		n = 0;

		assert_int_not_equal(good.code, SYNC_ERROR_OUT_OF_MEMORY);
		for (;;)
		{
			long		before = live;
			Outcome		outcome;

			calls = 0;
			fail_at = ++n;
			outcome = work(config);
			fail_at = 0;
			if (live != before)
				fail_msg("%s: %ld allocations are lost when number %ld fails", config->name,
						 live - before, n);
			if (calls < n)
				break;
			if (outcome.code != SYNC_ERROR_OUT_OF_MEMORY)
				fail_msg("%s: allocation %ld fails and is not reported: code %d", config->name, n,
						 outcome.code);
			outcome = work(config);
			assert_int_equal(outcome.code, good.code);
			assert_true(outcome.digest == good.digest);
			assert_true(n < 100000);
		}
		printf("%s: %ld allocations, %d rows, code %d\n", config->name, n - 1, good.rows, good.code);
		/* the arenas' two and more, or nothing was tested */
		assert_true(n > 3);
	}
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_allocation_may_fail),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
