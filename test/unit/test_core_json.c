/*-------------------------------------------------------------------------
 *
 * test_core_json.c
 *	  JSON writer, reader, paths.
 *
 *-------------------------------------------------------------------------
 */
#include <math.h>

#include "core_test.h"
#include "json.h"

static SyncString
written(SyncArena *arena, SyncValue value)
{
	SyncBuffer	buffer;

	buffer_init(&buffer, arena, 0);
	json_append_value(&buffer, value);
	return buffer_string(&buffer);
}

static void
writer_escapes(void **state)
{
	SyncArena  *arena = *state;

	assert_bytes(written(arena, text("")), "\"\"");
	assert_bytes(written(arena, text("plain text, longer than eight")),
				 "\"plain text, longer than eight\"");
	assert_bytes(written(arena, value_text("\"\\/\b\f\n\r\t\0\x1F\x7F", 11)),
				 "\"\\\"\\\\/\\b\\f\\n\\r\\t\\u0000\\u001f\x7F\"");
	assert_bytes(written(arena, text("\xC3\xA9\xE2\x80\xA8\xE2\x80\xA9\xF0\x9F\x98\x80")),
				 "\"\xC3\xA9\xE2\x80\xA8\xE2\x80\xA9\xF0\x9F\x98\x80\"");
	assert_bytes(written(arena, text("x\xED\xA0\x80y\xED\xBF\xBF\xED\x9F\xBF")),
				 "\"x\\ud800y\\udfff\xED\x9F\xBF\"");
	/* every place in a word of eight bytes, each kind */
	for (int place = 0; place < 20; place++)
	{
		static const char special[] = {'"', '\\', '\n', 0x01};

		for (size_t kind = 0; kind < sizeof(special); kind++)
		{
			char		in[21];
			SyncString	out;

			memset(in, 'a', 20);
			in[place] = special[kind];
			out = written(arena, value_text(in, 20));
			assert_int_equal(out.len, kind == 3 ? 27 : 23);
			assert_int_equal(out.data[1 + place], '\\');
			assert_int_equal(out.data[out.len - 1], '"');
		}
	}
}

static void
writer_values(void **state)
{
	SyncArena  *arena = *state;

	assert_bytes(written(arena, value_null()), "null");
	assert_bytes(written(arena, (SyncValue) {.type = SYNC_UNDEFINED}), "null");
	assert_bytes(written(arena, value_integer(-5)), "-5");
	assert_bytes(written(arena, value_real(-0.0)), "0.0");
	assert_bytes(written(arena, value_real(1e21)), "1e+21");
	assert_bytes(written(arena, value_real(NAN)), "NaN");
	assert_bytes(written(arena, value_real(-HUGE_VAL)), "-Infinity");
}

static void
bucket_parameters(void **state)
{
	SyncArena  *arena = *state;
	SyncValue	values[] = {
		text("a\"b"), value_real(1), value_real(-0.0), value_real(NAN), value_real(HUGE_VAL),
		value_null(), value_integer(2), value_real(1e21),
		{.type = SYNC_JSON, .len = 4, .data = "true"},
		{.type = SYNC_JSON, .len = 29, .data = "{\"a\":1.0,\"b\":[2.5,-Infinity]}"}
	};
	SyncBuffer	buffer;

	buffer_init(&buffer, arena, 0);
	json_append_bucket_parameters(&buffer, values, 10);
	assert_bytes(buffer_string(&buffer),
				 "[\"a\\\"b\",1,0,null,null,null,2,1e+21,true,{\"a\":1,\"b\":[2.5,null]}]");
	buffer.len = 0;
	json_append_bucket_parameters(&buffer, NULL, 0);
	assert_bytes(buffer_string(&buffer), "[]");
}

/* ---------------------------------------------------------------- reading */

/* the document written again; "error" when it is none */
static SyncString
again_mode(SyncArena *arena, SyncString json, JsonNumbers numbers)
{
	SyncError	error = {0};
	const JsonNode *node = json_parse(json, numbers, arena, &error);
	SyncBuffer	buffer;

	if (node == NULL)
	{
		assert_int_equal(error.code, SYNC_ERROR_VALUE);
		return str("error");
	}
	buffer_init(&buffer, arena, 0);
	json_append_node(&buffer, node);
	return buffer_string(&buffer);
}

static SyncString
again(SyncArena *arena, const char *json)
{
	return again_mode(arena, str(json), JSON_NUMBERS_EXACT);
}

static void
reader_rewrites(void **state)
{
	SyncArena  *arena = *state;

	assert_bytes(again(arena, " { \"a\" : [ 1 , 2.0 , -0 , -0.0, 1E5, 1e400 ] ,"
					   "\n\t\"b\":{}, \"c\":[]}\r"),
				 "{\"a\":[1,2.0,0,0.0,100000.0,Infinity],\"b\":{},\"c\":[]}");
	assert_bytes(again(arena, "123456789012345678901234567890"), "123456789012345678901234567890");
	assert_bytes(again(arena, "[true,false,null,.5]"), "[true,false,null,0.5]");
	assert_bytes(again(arena, "\"\\u00e9\\/\\n\\u0000\\ud83d\\ude00\\ud800x\\udc00\""),
				 "\"\xC3\xA9/\\n\\u0000\xF0\x9F\x98\x80\\ud800x\\udc00\"");
	/* array indexes first, ascending; a repeated equal key once, as it came last */
	assert_bytes(again(arena, "{\"b\":1,\"10\":2,\"2\":3,\"01\":4,\"b\":1,\"4294967295\":5}"),
				 "{\"2\":3,\"10\":2,\"b\":1,\"01\":4,\"4294967295\":5}");
	assert_bytes(again(arena, "{\"x\":{\"a\":1,\"b\":[2,\"s\"]},\"x\":{\"b\":[2,\"s\"],\"a\":1}}"),
				 "{\"x\":{\"b\":[2,\"s\"],\"a\":1}}");
}

static void
reader_plain_numbers(void **state)
{
	SyncArena  *arena = *state;

	assert_bytes(again_mode(arena, str("[1,9007199254740993,-0]"), JSON_NUMBERS_PLAIN),
				 "[1.0,9007199254740992.0,0.0]");
	assert_bytes(again_mode(arena, str("{\"a\":1,\"b\":2,\"a\":[3]}"), JSON_NUMBERS_PLAIN),
				 "{\"a\":[3.0],\"b\":2.0}");
	assert_bytes(again_mode(arena, str(".5"), JSON_NUMBERS_PLAIN), "error");
	assert_bytes(again_mode(arena, str("Infinity"), JSON_NUMBERS_PLAIN), "error");
	assert_bytes(again_mode(arena, str("[NaN,-Infinity,Infinity]"), JSON_NUMBERS_WRITTEN),
				 "[NaN,-Infinity,Infinity]");
}

static void
reader_refuses(void **state)
{
	static const char *const wrong[] = {
		"", " ", "not json", "{\"a\":1", "[1,]", "{\"a\":1,}", "{,}", "[,1]", "01", "1.", "-", "-.5",
		"+1", "1e", "1e+", ".e5", "'a'", "\"a", "\"\\x\"", "\"\\u12g4\"", "\"\\u12", "\"\n\"", "nul",
		"nulll", "truefalse", "1 2", "[1 2]", "{\"a\" 1}", "{a:1}", "{1:1}", "]", "}", "[", "{", "\"",
		"\xC2\xA0" "1", "\xEF\xBB\xBF" "1", "NaN", "Infinity", "{\"a\":1,\"a\":2}", "{\"a\":1,\"a\":1.0}",
		"{\"a\":{\"b\":1},\"a\":{\"b\":2}}", "{\"a\":[1],\"a\":[1,1]}", "1}", "\\", "/* */1"
	};
	SyncArena  *arena = *state;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_bytes(again(arena, wrong[i]), "error");
	assert_bytes(again_mode(arena, (SyncString) {"1\0", 2}, JSON_NUMBERS_EXACT), "error");
	assert_bytes(again_mode(arena, (SyncString) {NULL, 0}, JSON_NUMBERS_EXACT), "error");
}

/* cut anywhere, a document is none, and nothing is read behind the cut */
static void
reader_survives_cuts(void **state)
{
	static const char document[] =
		"{\"k\\u00e9y\":[1.5e3,-12,\"\\ud83d\\ude00\",true,null,{\"0\":{}}],\"z\":\"\xF0\x9F\x98\x80\"}";
	SyncArena  *arena = *state;

	for (size_t len = 0; len < sizeof(document) - 1; len++)
	{
		char	   *copy = malloc(len > 0 ? len : 1);

		memcpy(copy, document, len);
		assert_bytes(again_mode(arena, (SyncString) {copy, (uint32_t) len}, JSON_NUMBERS_EXACT),
					 "error");
		free(copy);
	}
	assert_true(again(arena, document).len > 20);
}

static void
reader_limits_depth(void **state)
{
	SyncArena  *arena = *state;
	char	   *deep = arena_alloc0(arena, 2 * 1000000 + 1);
	SyncError	error = {0};

	memset(deep, '[', JSON_MAX_DEPTH);
	memset(deep + JSON_MAX_DEPTH, ']', JSON_MAX_DEPTH);
	assert_int_equal(again(arena, deep).len, 2 * JSON_MAX_DEPTH);
	memset(deep, '[', 1000000);
	assert_null(json_parse(str(deep), JSON_NUMBERS_EXACT, arena, &error));
	assert_int_equal(error.code, SYNC_ERROR_LIMIT);
	for (int i = 0; i + 5 <= 1000000; i += 5)
		memcpy(deep + i, "{\"\":[", 5);
	assert_null(json_parse(str(deep), JSON_NUMBERS_EXACT, arena, &error));
	assert_int_equal(error.code, SYNC_ERROR_LIMIT);
}

/* an object of many keys takes no quadratic time: this one would take minutes */
static void
reader_handles_many_keys(void **state)
{
	SyncArena  *arena = *state;
	SyncBuffer	buffer;
	const JsonNode *node;
	int			n = 200000;

	buffer_init(&buffer, arena, 0);
	buffer_append_char(&buffer, '{');
	for (int i = 0; i < 2 * n; i++)
	{
		if (i > 0)
			buffer_append_char(&buffer, ',');
		buffer_append(&buffer, "\"k", 2);
		buffer_append_int(&buffer, i % n);
		buffer_append(&buffer, "\":7", 3);
	}
	buffer_append_char(&buffer, '}');
	node = json_parse(buffer_string(&buffer), JSON_NUMBERS_EXACT, arena, NULL);
	assert_non_null(node);
	assert_int_equal(node->count, n);
	assert_bytes(node->first->key, "k0");
}

/* whether the document could be read and written with so much memory */
static bool
try_budget(size_t budget)
{
	static const char document[] =
		"{\"a\":[1,2,3,\"x\\ny\",99999999999999999999],"
		"\"b\":{\"10\":1,\"2\":2},\"b\":{\"2\":2,\"10\":1}}";
	SyncArena  *arena = arena_create(budget);
	ArenaGuard	guard;
	volatile bool succeeded = false;

	arena_guard_push(arena, &guard);
	if (setjmp(guard.jump) == 0)
		succeeded = again(arena, document).len > 5;
	arena_guard_pop(arena, &guard);
	arena_destroy(arena);
	return succeeded;
}

/* with any budget: a result, or a jump to the guard */
static void
reader_without_memory(void **state)
{
	size_t		budget = 1;

	(void) state;
	while (!try_budget(budget))
	{
		budget += 16;
		assert_true(budget < 100000);
	}
	assert_true(budget > 500);
}

/* ---------------------------------------------------------------- paths */

#define DOC \
	"{\"a\":{\"b\":[1,2.0,{\"c\":\"deep\"}]}," \
	"\"n\":null,\"s\":\"x\xF0\x9F\x98\x80\",\"a.b\":\"dot\",\"t\":true,\"\":\"empty\"}"

/* the result in JSON; "undefined" */
static SyncString
got(SyncArena *arena, JsonOperator op, bool fixed, const char *document, const char *path)
{
	SyncValue	result;
	SyncError	error;

	if (!json_get(op, fixed, text(document), text(path), arena, &result, &error))
	{
		assert_int_equal(error.code, SYNC_ERROR_VALUE);
		return str("error");
	}
	if (result.type == SYNC_UNDEFINED)
		return str("undefined");
	return written(arena, result);
}

static void
paths(void **state)
{
	SyncArena  *arena = *state;
	SyncValue	result;

	assert_bytes(got(arena, JSON_GET, false, DOC, "a.b"), "\"[1,2.0,{\\\"c\\\":\\\"deep\\\"}]\"");
	assert_bytes(got(arena, JSON_GET_TEXT, true, DOC, "a.b"), "\"dot\"");
	assert_bytes(got(arena, JSON_GET_TEXT, true, DOC, "$.a.b.2.c"), "\"deep\"");
	assert_bytes(got(arena, JSON_GET, true, DOC, "$.a.b.2.c"), "\"\\\"deep\\\"\"");
	assert_bytes(got(arena, JSON_GET_TEXT, true, DOC, "$.a.b.1"), "2.0");
	assert_bytes(got(arena, JSON_GET_TEXT, true, DOC, "$.a.b.length"), "3.0");
	assert_bytes(got(arena, JSON_GET_TEXT, true, DOC, "$.s.length"), "3.0");
	assert_bytes(got(arena, JSON_GET_TEXT, true, DOC, "$.s.1"), "\"\\ud83d\"");
	assert_bytes(got(arena, JSON_GET_TEXT, true, DOC, "$.s.3"), "null");
	assert_bytes(got(arena, JSON_GET_TEXT, true, DOC, "$.a.b.01"), "null");
	assert_bytes(got(arena, JSON_GET_TEXT, true, DOC, "$.a.b.3"), "null");
	assert_bytes(got(arena, JSON_GET_TEXT, false, DOC, "missing.deep"), "null");
	assert_bytes(got(arena, JSON_GET_TEXT, false, DOC, "t"), "1");
	assert_bytes(got(arena, JSON_GET_TEXT, true, DOC, ""), "\"empty\"");
	assert_bytes(got(arena, JSON_GET_TEXT, false, "[5]", "$[0]"), "\"[5]\"");

	/* JSON null */
	assert_bytes(got(arena, JSON_GET, false, DOC, "n"), "null");
	assert_bytes(got(arena, JSON_GET, true, DOC, "n"), "\"null\"");
	assert_bytes(got(arena, JSON_GET_TEXT, false, DOC, "n"), "\"null\"");
	assert_bytes(got(arena, JSON_GET_TEXT, true, DOC, "n"), "null");
	assert_bytes(got(arena, JSON_GET_TEXT, false, DOC, "n.x"), "\"null\"");
	assert_bytes(got(arena, JSON_GET, true, "null", "$"), "null");

	/* JavaScript's own names */
	assert_bytes(got(arena, JSON_GET_TEXT, true, DOC, "toString"), "undefined");
	assert_bytes(got(arena, JSON_GET_TEXT, true, "[1]", "map"), "undefined");
	assert_bytes(got(arena, JSON_GET_TEXT, true, DOC, "map"), "null");
	assert_bytes(got(arena, JSON_GET_TEXT, true, "{\"toString\":1}", "toString"), "1");

	/* errors */
	assert_bytes(got(arena, JSON_EXTRACT, true, DOC, "a"), "error");
	assert_bytes(got(arena, JSON_EXTRACT, true, "null", "a"), "null");
	assert_bytes(got(arena, JSON_EXTRACT, true, DOC, "$.a.b.0"), "1");
	assert_bytes(got(arena, JSON_GET, true, "nope", "a"), "error");
	assert_true(json_get(JSON_GET, true, value_null(), text("a"), arena, &result, NULL));
	assert_true(value_is_null(result));
	assert_true(json_get(JSON_GET, true, text("nope"), value_null(), arena, &result, NULL));
	assert_true(value_is_null(result));
	/* an integer as a path, and as a document */
	assert_true(json_get(JSON_GET_TEXT, true, text("[4,5]"), value_integer(1), arena, &result, NULL));
	assert_int_equal(result.integer, 5);
	assert_true(json_get(JSON_GET_TEXT, true, value_integer(7), text("$"), arena, &result, NULL));
	assert_int_equal(result.integer, 7);
}

static void
other_functions(void **state)
{
	SyncArena  *arena = *state;
	SyncValue	result;
	SyncValue	path = text("$.a.b");

	assert_true(json_count_elements(true, text(DOC), &path, arena, &result, NULL));
	assert_int_equal(result.integer, 3);
	assert_true(json_count_elements(true, text("{}"), NULL, arena, &result, NULL));
	assert_int_equal(result.integer, 0);
	assert_true(json_count_elements(true, text("{}"), &path, arena, &result, NULL));
	assert_true(value_is_null(result));
	assert_false(json_count_elements(true, text("x"), NULL, arena, &result, NULL));

	assert_true(json_keys(text("{\"b\":1,\"2\":{},\"a\\\"\":[]}"), arena, &result, NULL));
	assert_bytes(((SyncString) {result.data, result.len}), "[\"2\",\"b\",\"a\\\"\"]");
	assert_false(json_keys(text("[]"), arena, &result, NULL));
	assert_false(json_keys(text("null"), arena, &result, NULL));

	assert_int_equal(json_valid(text("{\"a\":1}"), arena).integer, 1);
	assert_int_equal(json_valid(text("{"), arena).integer, 0);
	assert_int_equal(json_valid(value_null(), arena).integer, 0);
	assert_int_equal(json_valid(value_real(1.5), arena).integer, 1);
}

static void
raw_values(void **state)
{
	SyncArena  *arena = *state;
	const JsonNode *node = json_parse(str("[true,[1,{\"a\":2}],\"t\",3,null]"), JSON_NUMBERS_PLAIN,
									  arena, NULL);
	SyncBuffer	buffer;

	buffer_init(&buffer, arena, 0);
	for (const JsonNode *child = node->first; child != NULL; child = child->next)
	{
		SyncValue	raw = json_node_raw_value(child, arena);

		json_append_value(&buffer, raw);
		buffer_append_char(&buffer, ' ');
		json_append_bucket_parameter(&buffer, raw);
		buffer_append_char(&buffer, ' ');
		json_append_value(&buffer, json_node_value(child, arena));
		buffer_append_char(&buffer, '\n');
	}
	assert_bytes(buffer_string(&buffer),
				 "true true 1\n"
				 "[1.0,{\"a\":2.0}] [1,{\"a\":2}] \"[1.0,{\\\"a\\\":2.0}]\"\n"
				 "\"t\" \"t\" \"t\"\n"
				 "3.0 3 3.0\n"
				 "null null null\n");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		arena_test(writer_escapes),
		arena_test(writer_values),
		arena_test(bucket_parameters),
		arena_test(reader_rewrites),
		arena_test(reader_plain_numbers),
		arena_test(reader_refuses),
		arena_test(reader_survives_cuts),
		arena_test(reader_limits_depth),
		arena_test(reader_handles_many_keys),
		cmocka_unit_test(reader_without_memory),
		arena_test(paths),
		arena_test(other_functions),
		arena_test(raw_values),
	};

	return cmocka_run_group_tests_name("core: JSON", tests, NULL, NULL);
}
