/*-------------------------------------------------------------------------
 *
 * test_functions.c
 *	  Functions of values that the shared vectors do not have: geometries with M,
 *	  with an SRID, with empty parts, of odd byte orders; days with fractions,
 *	  dates that are not quite ISO.
 *
 *-------------------------------------------------------------------------
 */
#include "evaluate.h"
#include "plan.h"
#include "rules_test.h"

static void
assert_value(const char *expression, SyncValue value, const char *expected)
{
	const SyncPlan *plan =
		compile_rules(arena_printf(arena, "bucket_definitions:\n  b:\n    data:\n"
								   "      - SELECT %s AS id FROM t\n", expression));
	BucketNaming naming = {.prefix = {"", 0}};
	const TableBinding *binding;
	EvaluatedRow row;
	SyncError	error;

	assert_non_null(plan);
	binding = plan_bind(plan, "public", "t", shape("a"), &naming, arena, &error);
	assert_non_null(binding);
	memset(&row, 0, sizeof(row));
	assert_int_equal(table_evaluate(binding, &value, arena, &row), SYNC_OK);
	assert_int_equal(row.error_count, expected == NULL);
	if (expected == NULL)
		return;
	assert_int_equal(row.bucket_row_count, 1);
	if (!sync_string_equal(row.bucket_rows[0].row_id,
						   (SyncString) {expected, (uint32_t) strlen(expected)}))
		fail_msg("%s: %.*s is not %s", expression, (int) row.bucket_rows[0].row_id.len,
				 row.bucket_rows[0].row_id.data, expected);
}

#define D1 "000000000000F03F"
#define D2 "0000000000000040"
#define D3 "0000000000000840"
#define D4 "0000000000001040"

static void
assert_geometry(const char *hex, const char *text, const char *json)
{
	SyncValue	value = value_text(hex, strlen(hex));

	assert_value("st_astext(a)", value, text);
	assert_value("st_asgeojson(a) -> '$.coordinates'", value, json);
}

/* Z and M by the flags of EWKB or the codes of ISO, never by both; JSON has no M */
static void
test_dimensions(void **state)
{
	(void) state;
	assert_geometry("0101000040" D1 D2 D3, "POINT M (1 2 3)", "[1.0,2.0]");
	assert_geometry("01010000C0" D1 D2 D3 D4, "POINT ZM (1 2 3 4)", "[1.0,2.0,3.0]");
	assert_geometry("01D1070000" D1 D2 D3, "POINT M (1 2 3)", "[1.0,2.0]");
	assert_geometry("01B90B0000" D1 D2 D3 D4, "POINT ZM (1 2 3 4)", "[1.0,2.0,3.0]");
	assert_geometry("01E9030000" D1 D2 D3, "POINT Z (1 2 3)", "[1.0,2.0,3.0]");
	assert_geometry("01010000A0E6100000" D1 D2 D3, "POINT Z (1 2 3)", "[1.0,2.0,3.0]");
	/* an SRID, or a flag, beside a code of ISO: its last four bits are the type */
	assert_geometry("01E9030020E6100000" D1 D2 D3, NULL, NULL);
	assert_geometry("01D1070020E6100000" D1 D2 D3, "POINT(1 2)", "[1.0,2.0]");
	assert_geometry("01D1070080" D1 D2 D3, "POINT Z (1 2 3)", "[1.0,2.0,3.0]");
	/* every byte order but 0 is little-endian */
	assert_geometry("0301000000" D1 D2, "POINT(1 2)", "[1.0,2.0]");
}

#define POLYGON "0103000000"
#define LINE "0102000000"
#define N0 "00000000"
#define N1 "01000000"
#define N2 "02000000"

static void
test_empty_parts(void **state)
{
	(void) state;
	assert_geometry(POLYGON N0, "POLYGON EMPTY", "[]");
	assert_geometry(POLYGON N1 N0, "POLYGON EMPTY", "[]");
	assert_geometry(POLYGON N2 N0 N0, "POLYGON EMPTY", "[[]]");
	assert_geometry(POLYGON N2 N0 N1 D1 D2, "POLYGON EMPTY", "[[[1.0,2.0]]]");
	assert_geometry(POLYGON N2 N1 D1 D2 N0, "POLYGON((1 2),))", "[[[1.0,2.0]],[]]");
	assert_geometry("0105000000" N2 LINE N0 LINE N0, "MULTILINESTRING(),))", "[[],[]]");
	assert_geometry("0105000000" N2 LINE N1 D1 D2 LINE N0, "MULTILINESTRING((1 2),))",
					"[[[1.0,2.0]],[]]");
	assert_geometry("0106000000" N1 POLYGON N0, "MULTIPOLYGON(()))", "[[]]");
	assert_geometry("0106000000" N1 POLYGON N1 N0, "MULTIPOLYGON(()))", "[[]]");
	assert_geometry("0106000000" N1 POLYGON N2 N0 N0, "MULTIPOLYGON((),)))", "[[[]]]");
	assert_value("st_astext(a)", value_text("0107000000" N1 POLYGON N2 N0 N0,
										   strlen("0107000000" N1 POLYGON N2 N0 N0)),
				 "GEOMETRYCOLLECTION(POLYGON EMPTY)");
}

/* a day becomes milliseconds in steps that round one by one */
static void
test_julian_days(void **state)
{
	(void) state;
	assert_value("datetime(a, 'subsec')", value_real(0.1), "-4713-11-24 14:24:00.001");
	assert_value("datetime(a, 'subsec')", value_real(2440587.5), "1970-01-01 00:00:00.000");
	assert_value("datetime(a)", value_text("2460310.25", 10), "2023-12-31 18:00:00");
}

/* what is like an ISO form, as JavaScript reads it */
static void
test_lenient_dates(void **state)
{
	static const struct
	{
		const char *text;
		const char *expected;
	}			cases[] = {
		{"2024-03-09 12:34:56+02", "2024-03-09 12:34:56"},	/* not an offset */
		{"2024-03-09 12:34:56.7 -0730", "2024-03-09 12:34:56"},
		{"2024-03-09 12:34:56+02:00", "2024-03-09 10:34:56"},
		{"2024-03-09 12:34:56 +02:00", "2024-03-09 10:34:56"},
		{" 2024-03-09  12:34 Z ", "2024-03-09 12:34:00"},
		{"2024-3-9", "2024-03-09 00:00:00"}, {"2024-03", "2024-03-01 00:00:00"},
		{"99999-12-31", "+099999-12-31 00:00:00"},
		{"2024-03-09+02:00", ""}, {"2024-03-09T12:34:56+02", ""}, {"2024-03-09 12:34:56+023", ""},
		/* month, day, year */
		{"0005-12-31", "2031-05-12 00:00:00"}, {"0024-03-09", ""}, {"0012-05", "2001-12-05 00:00:00"},
		{"0032-03-09", "2032-03-09 00:00:00"}, {"0000-03-09", "2000-03-09 00:00:00"},
		{"0005-12-31T00:00", "0005-12-31 00:00:00"},
	};

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_value("datetime(a)", value_text(cases[i].text, strlen(cases[i].text)),
					 cases[i].expected);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		rules_test(test_dimensions),
		rules_test(test_empty_parts),
		rules_test(test_julian_days),
		rules_test(test_lenient_dates),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
