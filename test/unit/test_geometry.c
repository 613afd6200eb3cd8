/*-------------------------------------------------------------------------
 *
 * test_geometry.c
 *	  st_x(), st_y(), st_asgeojson() and st_astext() of what PostGIS stores, and
 *	  of what it does not make: the service's answers, in all front ends.
 *
 *-------------------------------------------------------------------------
 */
#include "rules_test.h"

/* results as they stand in the row's JSON; NULL: the query fails on the row */
static const struct
{
	const char *value;
	const char *results[4];
}			cases[] = {
	{"0101000000000000000000F03F0000000000000040",
		{"1.0", "2.0", "\"{\\\"type\\\":\\\"Point\\\",\\\"coordinates\\\":[1.0,2.0]}\"",
		"\"POINT(1 2)\""}},
	{"0101000080000000000000F03F00000000000000400000000000000840",
		{"1.0", "2.0", "\"{\\\"type\\\":\\\"Point\\\",\\\"coordinates\\\":[1.0,2.0,3.0]}\"",
		"\"POINT Z (1 2 3)\""}},
	{"0101000040000000000000F03F00000000000000400000000000001040",
		{"1.0", "2.0", "\"{\\\"type\\\":\\\"Point\\\",\\\"coordinates\\\":[1.0,2.0]}\"",
		"\"POINT M (1 2 4)\""}},
	{"01D1070000000000000000F03F00000000000000400000000000001040",
		{"1.0", "2.0", "\"{\\\"type\\\":\\\"Point\\\",\\\"coordinates\\\":[1.0,2.0]}\"",
		"\"POINT M (1 2 4)\""}},
	{"01B90B0000000000000000F03F000000000000004000000000000008400000000000001040",
		{"1.0", "2.0", "\"{\\\"type\\\":\\\"Point\\\",\\\"coordinates\\\":[1.0,2.0,3.0]}\"",
		"\"POINT ZM (1 2 3 4)\""}},
	{"01020000400100000000000000000000000000000000000000000000000000F03F",
		{"null", "null", "\"{\\\"type\\\":\\\"LineString\\\",\\\"coordinates\\\":[[0.0,0.0]]}\"",
		"\"LINESTRING M (0 0 1)\""}},
	{"0105000000020000000102000000000000000102000000010000000000000000000000000000000000F03F",
		{"null", "null", "\"{\\\"type\\\":\\\"MultiLineString\\\",\\\"coordinates\\\":[[],[[0.0,1.0]]]}\"",
		"\"MULTILINESTRING(),(0 1))\""}},
	{"01030000000200000000000000010000000000000000000000000000000000F03F",
		{"null", "null", "\"{\\\"type\\\":\\\"Polygon\\\",\\\"coordinates\\\":[[[0.0,1.0]]]}\"",
		"\"POLYGON EMPTY\""}},
	{"01040000000100000001020000000000000", {NULL, NULL, NULL, NULL}},
	{"010400000001000000010200000000000000",
		{"null", "null", "\"{\\\"type\\\":\\\"MultiPoint\\\",\\\"coordinates\\\":[[]]}\"",
		"\"MULTIPOINT(undefined undefined)\""}},
	{"01050000000100000001010000000000000000000000000000000000F03F",
		{"null", "null", "\"{\\\"type\\\":\\\"MultiLineString\\\",\\\"coordinates\\\":[[0.0,1.0]]}\"",
		NULL}},
	{"010400000001000000010700000000000000",
		{"null", "null", "\"{\\\"type\\\":\\\"MultiPoint\\\",\\\"coordinates\\\":[null]}\"",
		"\"MULTIPOINT(undefined undefined)\""}},
	{"0101000000", {NULL, NULL, NULL, NULL}},
	{"0211000000", {NULL, NULL, NULL, NULL}},
	{"0111000020E6100000000000000000F03F0000000000000040",
		{"1.0", "2.0", "\"{\\\"type\\\":\\\"Point\\\",\\\"coordinates\\\":[1.0,2.0]}\"",
		"\"POINT(1 2)\""}},
	{"0701000000000000000000F03F0000000000000040",
		{"1.0", "2.0", "\"{\\\"type\\\":\\\"Point\\\",\\\"coordinates\\\":[1.0,2.0]}\"",
		"\"POINT(1 2)\""}},
	{"0101000000000000000000F03F0000000000000040zz",
		{"1.0", "2.0", "\"{\\\"type\\\":\\\"Point\\\",\\\"coordinates\\\":[1.0,2.0]}\"",
		"\"POINT(1 2)\""}},
	{"\\x0101000000000000000000F03F0000000000000040", {NULL, NULL, NULL, NULL}},
	{"010600009800000000",
		{"null", "null", "\"{\\\"type\\\":\\\"MultiPolygon\\\",\\\"coordinates\\\":[]}\"",
		"\"MULTIPOLYGON Z EMPTY\""}},
	{"0105000080010000000101000000000000000000F03F0000000000000040",
		{"null", "null", "\"{\\\"type\\\":\\\"MultiLineString\\\",\\\"coordinates\\\":[[1.0,2.0]]}\"",
		NULL}},
	{"0104000080010000000101000000000000000000F03F0000000000000040",
		{"null", "null", "\"{\\\"type\\\":\\\"MultiPoint\\\",\\\"coordinates\\\":[[1.0,2.0]]}\"",
		"\"MULTIPOINT Z (1 2 undefined)\""}},
	{"01040000800100000001E9030000000000000000F03F00000000000000400000000000000840", {NULL, NULL, NULL, NULL}},
};

static const char *const functions[] = {"st_x", "st_y", "st_asgeojson", "st_astext"};

/* what %s is replaced by is the function */
static const char *const front_ends[] = {
	"config: {edition: 1}\nbucket_definitions:\n  b:\n    data:\n      - SELECT id, %s(a) AS v FROM t\n",
	"config: {edition: 2}\nstreams:\n  b:\n    query: SELECT id, %s(a) AS v FROM t\n",
	"config: {edition: 3}\nstreams:\n  b:\n    query: SELECT id, %s(a) AS v FROM t\n",
};

static void
check_rows(const SyncPlan *plan, int function)
{
	BucketNaming naming = {.prefix = str("")};
	SyncError	error;
	const TableBinding *binding = plan_bind(plan, "public", "t", shape("id a"), &naming, arena,
											&error);

	assert_non_null(binding);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		const char *expected = cases[i].results[function];
		SyncValue	values[] = {text("1"), text(cases[i].value)};
		EvaluatedRow row;
		const char *json;

		assert_int_equal(table_evaluate(binding, values, arena, &row), SYNC_OK);
		assert_int_equal(row.error_count, expected == NULL);
		if (expected == NULL)
			continue;
		assert_int_equal(row.bucket_row_count, 1);
		json = arena_strndup(arena, row.bucket_rows[0].json.data, row.bucket_rows[0].json.len);
		assert_string_equal(json, arena_printf(arena, "{\"id\":\"1\",\"v\":%s}", expected));
	}
}

static void
test_geometry(void **state)
{
	(void) state;
	for (size_t f = 0; f < sizeof(front_ends) / sizeof(front_ends[0]); f++)
	{
		for (int function = 0; function < 4; function++)
		{
			const char *yaml = front_ends[f];
			const char *mark = strstr(yaml, "%s");
			const SyncPlan *plan = compile_rules(arena_printf(arena, "%.*s%s%s", (int) (mark - yaml), yaml,
															   functions[function], mark + 2));

			assert_non_null(plan);
			check_rows(plan, function);
		}
	}
}

/* collections in one another, as many as PostGIS reads and one more */
static void
test_nesting(void **state)
{
	const SyncPlan *plan = compile_rules(
		"bucket_definitions:\n  b:\n    data:\n      - SELECT id, st_x(a) AS v FROM t\n");
	BucketNaming naming = {.prefix = str("")};
	SyncError	error;
	const TableBinding *binding = plan_bind(plan, "public", "t", shape("id a"), &naming, arena,
											&error);

	(void) state;
	for (int depth = 200; depth <= 201; depth++)
	{
		SyncBuffer	hex;
		SyncValue	values[] = {text("1"), value_null()};
		EvaluatedRow row;

		buffer_init(&hex, arena, 4000);
		for (int i = 0; i < depth; i++)
			append(&hex, "010700000001000000");
		append(&hex, "010200000000000000");
		values[1] = value_text(hex.data, hex.len);
		assert_int_equal(table_evaluate(binding, values, arena, &row), SYNC_OK);
		assert_int_equal(row.error_count, depth > 200);
	}
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		rules_test(test_geometry),
		rules_test(test_nesting),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
