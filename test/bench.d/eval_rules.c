/*-------------------------------------------------------------------------
 *
 * eval_rules.c
 *	  Rows a second that the rules engine evaluates on one core, by kind of
 *	  config: from row values to bucket rows with JSON and checksum.
 *
 *	  eval_rules [KIND [REPETITIONS [ROWS]]]
 *
 * What PostgreSQL and MongoDB cost is not in it.  The memory is used as the
 * worker uses it: one arena for a batch of rows.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "rules.h"

#define VARIANTS	512			/* different rows */
#define BATCH_BYTES ((size_t) 256 * 1024)	/* after so much another arena */
#define MAX_REPETITIONS 101

typedef struct Kind
{
	const char *name;
	const char *title;
	const char *(*rules) (SyncArena *arena);
	bool		is_plan;
} Kind;

/* ---------------------------------------------------------------- configs */

static const char *
global_rules(SyncArena *arena)
{
	(void) arena;
	return "bucket_definitions:\n  global:\n    data:\n      - SELECT * FROM items\n";
}

/* global ones, equalities on parameters, and filters that hardly any row passes */
static const char *
many_rules(SyncArena *arena)
{
	SyncBuffer	buffer;

	buffer_init(&buffer, arena, 8000);
	buffer_append(&buffer, "bucket_definitions:\n", 20);
	for (int i = 0; i < 20; i++)
	{
		const char *text;

		if (i % 5 == 0)
			text = arena_printf(arena, "  g%d:\n    data:\n      - SELECT id, name, count FROM items\n", i);
		else if (i % 5 == 1)
			text = arena_printf(arena, "  p%d:\n    parameters: SELECT request.user_id() AS u\n    data:\n"
								"      - SELECT * FROM items WHERE owner = bucket.u\n", i);
		else if (i % 5 == 2)
			text = arena_printf(arena, "  q%d:\n    parameters: SELECT request.user_id() AS u, "
								"request.parameters() ->> 'n' AS n\n    data:\n      - SELECT id, name, "
								"updated FROM items WHERE owner = bucket.u AND count = bucket.n\n", i);
		else
			text = arena_printf(arena, "  f%d:\n    data:\n      - SELECT * FROM items WHERE count = %d "
								"AND name IS NOT NULL\n", i, i);
		buffer_append(&buffer, text, strlen(text));
	}
	buffer_append_char(&buffer, '\0');
	return buffer.data;
}

static const char *
each_plan(SyncArena *arena)
{
	(void) arena;
	return "{\"plan\":{\"version\":1,\"dataSources\":[{\"hash\":1,\"table\":{\"connection\":null,"
		"\"schema\":null,\"table\":\"items\"},\"tableValuedFunctions\":[{\"functionName\":\"json_each\","
		"\"functionInputs\":[{\"type\":\"data\",\"source\":{\"column\":\"tags\"}}]}],\"filters\":[],"
		"\"partitionBy\":[{\"expr\":{\"type\":\"data\",\"source\":{\"function\":0,\"outputName\":"
		"\"value\"}}}],\"columns\":[\"star\"]}],\"buckets\":[{\"hash\":2,\"uniqueName\":\"s|0\","
		"\"sources\":[0]}],\"parameterIndexes\":[],\"streams\":[{\"stream\":{\"name\":\"s\","
		"\"priority\":3,\"isSubscribedByDefault\":true},\"queriers\":[]}]},\"compatibility\":"
		"{\"edition\":3,\"overrides\":{}},\"eventDescriptors\":{}}";
}

static const Kind kinds[] = {
	{"global", "one global query, SELECT * of 9 columns", global_rules, false},
	{"many", "20 bucket definitions on the table", many_rules, false},
	{"each", "stored plan, json_each() of 10 elements", each_plan, true},
};

#define KIND_COUNT	(sizeof(kinds) / sizeof(kinds[0]))

/* ---------------------------------------------------------------- rows */

static const SyncColumn columns[] = {
	{{"id", 2}}, {{"owner", 5}}, {{"count", 5}}, {{"total", 5}}, {{"price", 5}}, {{"name", 4}},
	{{"updated", 7}}, {{"note", 4}}, {{"tags", 4}},
};

#define COLUMNS ((int) (sizeof(columns) / sizeof(columns[0])))

static SyncValue
text_value(char *s)
{
	return value_text(s, strlen(s));
}

static SyncValue *
make_rows(SyncArena *arena)
{
	SyncValue  *rows = arena_array(arena, SyncValue, VARIANTS * COLUMNS);

	for (int i = 0; i < VARIANTS; i++)
	{
		SyncValue  *v = rows + (size_t) i * COLUMNS;

		v[0] = text_value(arena_printf(arena, "6c1ea31c-a6b2-4ec0-b9e2-5a1f5bd1%04x", i));
		v[1] = text_value(arena_printf(arena, "0d1f2a3b-77aa-4b1c-8c1d-00000000%04x", i % 50));
		v[2] = value_integer(i % 100);
		v[3] = value_integer(INT64_C(100000000000) + i * 977);
		v[4] = value_real(9.95 + i / 8.0 + i / 1000.0);
		v[5] = text_value(arena_printf(arena, "A name of some forty bytes, number %04d.", i));
		v[6] = text_value(arena_printf(arena, "2026-02-%02dT12:%02d:56.789123Z", 1 + i % 28, i % 60));
		v[7] = value_null();
		v[8] = text_value(arena_printf(arena, "[\"a%d\",\"b\",\"c\",\"d\",\"e\",\"f\",\"g\",\"h\",\"i\",\"j\"]", i));
	}
	return rows;
}

/* ---------------------------------------------------------------- measuring */

static double
seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double) t.tv_sec + (double) t.tv_nsec / 1e9;
}

static void
die(const char *message)
{
	fprintf(stderr, "eval_rules: %s\n", message);
	exit(1);
}

static const TableBinding *
bind(const Kind *kind, SyncArena *arena)
{
	static const int identity[] = {0};
	const SyncRowType type = {COLUMNS, columns, 1, identity};
	RulesOptions options = {.default_schema = "public"};
	BucketNaming naming = {.prefix = sync_string_literal("17#")};
	const char *text = kind->rules(arena);
	const RulesMessage *messages;
	SyncError	error;
	const SyncPlan *plan;
	const TableBinding *binding;

	if (kind->is_plan)
	{
		plan = plan_read(text, strlen(text), &options, arena, &error);
		if (plan == NULL)
			die(error.message);
	}
	else
	{
		plan = rules_compile(text, strlen(text), &options, arena, &messages);
		if (plan == NULL)
			die(messages->error.message);
	}
	binding = plan_bind(plan, "public", "items", &type, &naming, arena, &error);
	if (binding == NULL)
		die("no query reads the table");
	return binding;
}

typedef struct Counts
{
	long		bucket_rows;
	size_t		json_bytes;
} Counts;

static double
run(const TableBinding *binding, const SyncValue *rows, long count, Counts *counts)
{
	SyncArena  *arena = arena_create(0);
	double		start = seconds();

	if (arena == NULL)
		die("out of memory");
	for (long i = 0; i < count; i++)
	{
		EvaluatedRow row;

		if (table_evaluate(binding, rows + (size_t) (i % VARIANTS) * COLUMNS, arena, &row) != SYNC_OK ||
			row.error_count != 0)
			die("a row fails");
		counts->bucket_rows += row.bucket_row_count;
		if (row.bucket_row_count > 0)
			counts->json_bytes += row.bucket_rows[0].json.len;
		if (arena_used(arena) < BATCH_BYTES)
			continue;
		arena_destroy(arena);
		if ((arena = arena_create(0)) == NULL)
			die("out of memory");
	}
	start = seconds() - start;
	arena_destroy(arena);
	return start;
}

static int
compare(const void *a, const void *b)
{
	double		x = *(const double *) a;
	double		y = *(const double *) b;

	return (x > y) - (x < y);
}

static void
measure(const Kind *kind, int repetitions, long count)
{
	SyncArena  *arena = arena_create(0);
	const TableBinding *binding;
	const SyncValue *rows;
	double		rates[MAX_REPETITIONS];
	Counts		counts = {0};

	if (arena == NULL)
		die("out of memory");
	binding = bind(kind, arena);
	rows = make_rows(arena);
	run(binding, rows, count / 4, &counts);
	counts = (Counts) {0};
	for (int i = 0; i < repetitions; i++)
		rates[i] = (double) count / run(binding, rows, count, &counts);
	qsort(rates, (size_t) repetitions, sizeof(double), compare);
	printf("%-8s %9.0f rows/s median of %d, min %.0f, max %.0f; %.1f bucket rows each, %.0f bytes of JSON: %s\n",
		   kind->name, rates[repetitions / 2], repetitions, rates[0], rates[repetitions - 1],
		   (double) counts.bucket_rows / (double) count / repetitions,
		   (double) counts.json_bytes / (double) count / repetitions, kind->title);
	arena_destroy(arena);
}

int
main(int argc, char **argv)
{
	const char *only = argc > 1 ? argv[1] : "all";
	int			repetitions = argc > 2 ? atoi(argv[2]) : 9;
	long		count = argc > 3 ? atol(argv[3]) : 100000;

	if (repetitions < 1 || repetitions > MAX_REPETITIONS || count < 4)
		die("usage: eval_rules [KIND [REPETITIONS [ROWS]]]");
	for (size_t i = 0; i < KIND_COUNT; i++)
	{
		if (strcmp(only, "all") == 0 || strcmp(only, kinds[i].name) == 0)
			measure(&kinds[i], repetitions, kinds[i].is_plan || i == 1 ? count / 5 : count);
	}
	return 0;
}
