/*-------------------------------------------------------------------------
 *
 * test_yaml.c
 *	  The YAML reader: typing, what is refused, positions, limits, memory.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>

#include "rules_test.h"
#include "yaml_node.h"

static SyncError error;

static YamlNode *
read_text(const char *text)
{
	ArenaGuard	guard;
	YamlNode   *node;

	arena_guard_push(arena, &guard);
	if (setjmp(guard.jump) != 0)
		fail_msg("out of memory");
	node = yaml_read(text, strlen(text), arena, &error);
	arena_guard_pop(arena, &guard);
	return node;
}

static void
assert_refused(const char *text, SyncErrorCode code, int line, int column)
{
	assert_null(read_text(text));
	assert_int_equal(error.code, code);
	assert_true(error.message[0] != '\0');
	assert_int_equal(error.line, line);
	assert_int_equal(error.column, column);
}

static YamlNode *
value_of(const char *scalar)
{
	char		text[200];
	YamlNode   *root;

	snprintf(text, sizeof(text), "k: %s\n", scalar);
	root = read_text(text);
	assert_non_null(root);
	return yaml_get(root, "k");
}

static void
test_typing(void **state)
{
	static const struct
	{
		const char *scalar;
		YamlKind	kind;
	}			cases[] = {
		{"~", YAML_KIND_NULL}, {"null", YAML_KIND_NULL}, {"NULL", YAML_KIND_NULL},
		{"", YAML_KIND_NULL}, {"nULL", YAML_KIND_TEXT}, {"'null'", YAML_KIND_TEXT},
		{"true", YAML_KIND_BOOL}, {"False", YAML_KIND_BOOL}, {"tRUE", YAML_KIND_TEXT},
		{"yes", YAML_KIND_TEXT}, {"on", YAML_KIND_TEXT}, {"\"true\"", YAML_KIND_TEXT},
		{"12", YAML_KIND_NUMBER}, {"-12", YAML_KIND_NUMBER}, {"+1", YAML_KIND_NUMBER},
		{"0x1F", YAML_KIND_NUMBER}, {"0o17", YAML_KIND_NUMBER}, {"0b1", YAML_KIND_TEXT},
		{"1_000", YAML_KIND_TEXT}, {"0o8", YAML_KIND_TEXT}, {"-0x1", YAML_KIND_TEXT},
		{"1.5", YAML_KIND_NUMBER}, {".5", YAML_KIND_NUMBER}, {"1e3", YAML_KIND_NUMBER},
		{"1e", YAML_KIND_TEXT}, {".", YAML_KIND_TEXT}, {"1.2.3", YAML_KIND_TEXT},
		{".inf", YAML_KIND_NUMBER}, {"-.INF", YAML_KIND_NUMBER}, {".nan", YAML_KIND_NUMBER},
		{"12:30", YAML_KIND_TEXT}, {"2024-01-01", YAML_KIND_TEXT},
		{"!!str 5", YAML_KIND_TEXT}, {"! 5", YAML_KIND_TEXT}, {"!!int 5", YAML_KIND_NUMBER},
		{"!!int x", YAML_KIND_OPAQUE}, {"!own 5", YAML_KIND_OPAQUE},
		{"[a]", YAML_KIND_SEQUENCE}, {"{a: 1}", YAML_KIND_MAP}, {"&x v", YAML_KIND_TEXT},
	};

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		YamlNode   *node = value_of(cases[i].scalar);

		if (node == NULL || node->kind != cases[i].kind)
			fail_msg("%s is %s", cases[i].scalar, node == NULL ? "absent" : yaml_kind_name(node));
	}
}

static void
assert_integer(const char *scalar, bool is_integer, int64_t value)
{
	YamlNode   *node = value_of(scalar);

	assert_int_equal(node->kind, YAML_KIND_NUMBER);
	if (node->is_integer != is_integer || (is_integer && node->integer != value))
		fail_msg("%s: is_integer %d, value %lld", scalar, node->is_integer,
				 (long long) node->integer);
}

static void
test_integers(void **state)
{
	(void) state;
	assert_integer("0", true, 0);
	assert_integer("007", true, 7);
	assert_integer("-3", true, -3);
	assert_integer("0x1F", true, 31);
	assert_integer("0o17", true, 15);
	assert_integer("2.0", true, 2);
	assert_integer("20e-1", true, 2);
	assert_integer("0.2e1", true, 2);
	assert_integer("1e3", true, 1000);
	assert_integer("0e99999999999", true, 0);
	assert_integer("1.5", false, 0);
	assert_integer("1e-1", false, 0);
	assert_integer("1e400", false, 0);
	assert_integer("99999999999999999999", false, 0);
	assert_integer("0xffffffffffffffffffff", false, 0);
	assert_integer(".inf", false, 0);
}

static void
test_refused(void **state)
{
	(void) state;
	assert_refused("", SYNC_ERROR_SYNTAX, 1, 1);
	assert_refused("# nothing\n", SYNC_ERROR_SYNTAX, 1, 1);
	assert_refused("a: 1\n---\nb: 2\n", SYNC_ERROR_SYNTAX, 2, 1);
	assert_refused("a: 1\nb: 2\na: 3\n", SYNC_ERROR_SYNTAX, 3, 1);
	assert_refused("x:\n  {a: 1, 'a': 2}\n", SYNC_ERROR_SYNTAX, 2, 10);
	assert_refused("\tb: 1\n", SYNC_ERROR_SYNTAX, 1, 1);
	assert_refused("[a]: 1\n", SYNC_ERROR_SYNTAX, 1, 1);
	assert_refused("? {a: b}\n: 1\n", SYNC_ERROR_SYNTAX, 1, 3);
	assert_refused("a: [\n", SYNC_ERROR_SYNTAX, 2, 1);
	assert_refused("a: \"\\ud800\"\n", SYNC_ERROR_SYNTAX, 1, 4);
	assert_refused("a: \xff\n", SYNC_ERROR_SYNTAX, 1, 4);
	assert_refused("a:\n  - x\n  - \"\xC3\xA9\xC3\x28\"\n", SYNC_ERROR_SYNTAX, 3, 8);
	assert_refused("- !own [a]\n", SYNC_ERROR_CONFIG, 1, 3);
}

static void
test_same_text_other_kind(void **state)
{
	YamlNode   *root = read_text("1: a\n\"1\": b\n");

	(void) state;
	assert_non_null(root);
	assert_int_equal(root->count, 2);
	assert_int_equal(root->entries[0].key->kind, YAML_KIND_NUMBER);
	assert_memory_equal(yaml_get(root, "1")->text.data, "b", 1);
}

static void
test_alias(void **state)
{
	YamlNode   *root = read_text("a: &x [1]\nb: *x\nc: *unknown\n");

	(void) state;
	assert_non_null(root);
	assert_int_equal(yaml_get(root, "a")->kind, YAML_KIND_SEQUENCE);
	assert_int_equal(yaml_get(root, "b")->kind, YAML_KIND_ALIAS);
	assert_int_equal(yaml_get(root, "c")->kind, YAML_KIND_ALIAS);
	assert_false(yaml_is_scalar(yaml_get(root, "b")));
}

/* the word `wanted` of the scalar under k must be found where it stands */
static void
assert_position(const char *text, const char *wanted, int line, int column)
{
	YamlNode   *node = yaml_get(read_text(text), "k");
	char	   *copy = arena_strndup(arena, node->text.data, node->text.len);
	char	   *at = strstr(copy, wanted);
	int			found_line;
	int			found_column;

	assert_non_null(at);
	yaml_position(text, strlen(text), node, (size_t) (at - copy), &found_line, &found_column);
	if (found_line != line || found_column != column)
		fail_msg("%s: found at %d:%d", text, found_line, found_column);
}

static void
test_positions(void **state)
{
	(void) state;
	assert_position("a: 1\nk: SELECT id FROM t\n", "FROM", 2, 14);
	assert_position("k: 'it''s FROM t'\n", "FROM", 1, 11);
	assert_position("k: \"a \\\"b\\\" FROM t\"\n", "FROM", 1, 13);
	assert_position("k: \"\xC3\xA4\xC3\xB6 FROM t\"\n", "FROM", 1, 8);
	assert_position("k: |\n   SELECT id\n   FROM t\n", "FROM", 3, 4);
	assert_position("k: >-\n   SELECT id\n   FROM t\n", "FROM", 3, 4);
	assert_position("k: SELECT id\n   FROM t\n", "FROM", 2, 4);
}

static void
test_position_behind_the_end(void **state)
{
	const char *text = "k: abc\n";
	int			line;
	int			column;

	(void) state;
	yaml_position(text, strlen(text), yaml_get(read_text(text), "k"), 3, &line, &column);
	assert_int_equal(line, 1);
	assert_int_equal(column, 7);
}

/* lines in quotes and brackets: further in than the entry, but for what closes */
static void
test_indentation(void **state)
{
	(void) state;
	assert_refused("a:\n  b: \"x\n  y\"\n", SYNC_ERROR_SYNTAX, 3, 3);
	assert_non_null(read_text("a:\n  b: \"x\n   y\"\n"));
	assert_refused("a:\n  - 'x\n\n  y'\n", SYNC_ERROR_SYNTAX, 4, 3);
	assert_refused("a:\n- 'x\ny'\n", SYNC_ERROR_SYNTAX, 3, 1);
	assert_non_null(read_text("a:\n- 'x\n y'\n"));
	assert_refused("a: \"x\n\ty\"\n", SYNC_ERROR_SYNTAX, 2, 2);
	assert_refused("a: \"x\n\"\n", SYNC_ERROR_SYNTAX, 2, 1);
	assert_refused("a: &x\n  - &y 'x\n y'\n", SYNC_ERROR_SYNTAX, 3, 2);
	assert_refused("a:\n  b: [\n  x]\n", SYNC_ERROR_SYNTAX, 3, 3);
	assert_refused("a:\n  b: {x: [1\n  ]\n  }\n", SYNC_ERROR_SYNTAX, 3, 3);
	assert_non_null(read_text("a:\n  b: {x: [1\n   ]\n  }\n"));
	assert_non_null(read_text("a:\n  b: [\n# why\n   x,\n\n  ]\n"));
	assert_non_null(read_text("{a: [\n\"x\ny\"\n]}\n"));
}

/* as JSON writes characters beyond the first plane */
static void
test_surrogate_pairs(void **state)
{
	YamlNode   *root = read_text("{\"a\": \"x\\ud83d\\uDE00y\", \"b\": '\\ud83d', \"c\": \"\\\\uDE00\"}");

	(void) state;
	assert_non_null(root);
	assert_string_equal(yaml_get(root, "a")->text.data, "x\xF0\x9F\x98\x80y");
	assert_string_equal(yaml_get(root, "b")->text.data, "\\ud83d");
	assert_string_equal(yaml_get(root, "c")->text.data, "\\uDE00");
	assert_position("k: \"\\ud83d\\ude00 FROM t\"\n", "FROM", 1, 18);
	assert_refused("a: \"\\ud83d \\ude00\"\n", SYNC_ERROR_SYNTAX, 1, 4);
	assert_refused("a: \"\\ude00\\ud83d\"\n", SYNC_ERROR_SYNTAX, 1, 4);
	/* private characters of its own: not told apart */
	assert_refused("a: \"\\ud83d\\ude00\\ue83d\"\n", SYNC_ERROR_SYNTAX, 1, 7);
}

static char *
repeat(const char *text, size_t times, size_t *len)
{
	size_t		one = strlen(text);
	char	   *result = arena_alloc(arena, one * times + 1);

	for (size_t i = 0; i < times; i++)
		memcpy(result + i * one, text, one);
	*len = one * times;
	return result;
}

static void
assert_limit(const char *text, size_t times)
{
	size_t		len;
	char	   *document = repeat(text, times, &len);
	ArenaGuard	guard;

	arena_guard_push(arena, &guard);
	if (setjmp(guard.jump) != 0)
		fail_msg("out of memory");
	assert_null(yaml_read(document, len, arena, &error));
	arena_guard_pop(arena, &guard);
	assert_int_equal(error.code, SYNC_ERROR_LIMIT);
}

static void
test_limits(void **state)
{
	(void) state;
	assert_limit("[", SYNC_YAML_MAX_DEPTH + 1);
	assert_limit("[", 10000);
	assert_limit("- x\n", SYNC_YAML_MAX_NODES + 1);
	assert_limit("# comment\n", SYNC_YAML_MAX_BYTES / 10);
}

/* reads with an arena of so many bytes; returns whether that was enough */
static bool
read_within(const char *text, size_t budget)
{
	SyncArena  *small = arena_create(budget);
	YamlNode   *volatile node = NULL;
	ArenaGuard	guard;

	if (small == NULL)
		return false;
	arena_guard_push(small, &guard);
	if (setjmp(guard.jump) == 0)
		node = yaml_read(text, strlen(text), small, &error);
	arena_guard_pop(small, &guard);
	arena_destroy(small);
	return node != NULL;
}

/* whatever the budget, reading ends and leaks nothing (under ASan) */
static void
test_out_of_memory(void **state)
{
	static const char text[] =
		"a: [1, two, {three: 3}]\nb: |\n  a longer text\n  of two lines\nc: {d: e, f: g}\n";
	size_t		budget = 1;

	(void) state;
	assert_false(read_within(text, budget));
	while (!read_within(text, budget))
	{
		budget += 97;
		assert_true(budget < 1000000);
	}
	assert_true(budget > 97);
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		rules_test(test_typing),
		rules_test(test_integers),
		rules_test(test_refused),
		rules_test(test_same_text_other_kind),
		rules_test(test_alias),
		rules_test(test_positions),
		rules_test(test_position_behind_the_end),
		rules_test(test_indentation),
		rules_test(test_surrogate_pairs),
		rules_test(test_limits),
		rules_test(test_out_of_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
