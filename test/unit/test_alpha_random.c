/*-------------------------------------------------------------------------
 *
 * test_alpha_random.c
 *	  Streams of edition 2 compared with bucket definitions and conditions that say
 *	  the same, on random queries and rows.
 *
 *-------------------------------------------------------------------------
 */
#include "alpha_test.h"

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
		rules_test(test_like_bucket_definitions),
		rules_test(test_variants_mean_the_condition),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
