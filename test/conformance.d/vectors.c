/*-------------------------------------------------------------------------
 *
 * vectors.c
 *	  What the conformance programs share: vector files, cases, values.
 *
 * Invariant: a case that could not be run counts as failed.
 *
 *-------------------------------------------------------------------------
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "number.h"
#include "value.h"
#include "vectors.h"

static int	passed;
static int	failed;
static char case_id[256];
static bool case_open;
static bool case_failed;

void
case_begin(const char *format,...)
{
	va_list		args;

	va_start(args, format);
	vsnprintf(case_id, sizeof(case_id), format, args);
	va_end(args);
	case_open = true;
	case_failed = false;
}

void
case_end(void)
{
	if (case_failed)
		failed++;
	else
		passed++;
	case_open = false;
}

void
case_fail(const char *format,...)
{
	va_list		args;

	printf("%s: ", case_id);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
	case_failed = true;
}

bool
check_true(const char *what, bool holds)
{
	if (!holds)
		case_fail("%s", what);
	return holds;
}

bool
check_int(const char *what, int64_t got, int64_t expected)
{
	if (got != expected)
		case_fail("%s is %lld, not %lld", what, (long long) got, (long long) expected);
	return got == expected;
}

bool
check_text(const char *what, SyncString got, SyncString expected)
{
	bool		same = sync_string_equal(got, expected);

	if (!same)
		case_fail("%s is \"%.*s\", not \"%.*s\"", what, (int) got.len, got.data,
				  (int) expected.len, expected.data);
	return same;
}

static void
print_hex(SyncString bytes)
{
	for (uint32_t i = 0; i < bytes.len; i++)
		printf("%02x", (unsigned char) bytes.data[i]);
}

bool
check_bytes(const char *what, SyncString got, SyncString expected)
{
	if (sync_string_equal(got, expected))
		return true;
	printf("%s: %s is ", case_id, what);
	print_hex(got);
	printf(", not ");
	print_hex(expected);
	printf("\n");
	case_failed = true;
	return false;
}

/* ---------------------------------------------------------------- reading */

SyncString
literal(const char *s)
{
	return (SyncString) {s, (uint32_t) strlen(s)};
}

const JsonNode *
member(const JsonNode *object, const char *key)
{
	return object == NULL ? NULL : json_member(object, literal(key));
}

const JsonNode *
need(const JsonNode *object, const char *key)
{
	static const JsonNode nothing = {.kind = JSON_NULL};
	const JsonNode *node = member(object, key);

	if (node == NULL)
	{
		case_fail("the vector has no \"%s\"", key);
		return &nothing;
	}
	return node;
}

const JsonNode *
element(const JsonNode *array, uint32_t i)
{
	const JsonNode *node = array->kind == JSON_ARRAY ? array->first : NULL;

	for (; node != NULL && i > 0; i--)
		node = node->next;
	return node;
}

bool
has(const JsonNode *object, const char *key)
{
	return member(object, key) != NULL;
}

bool
is_null(const JsonNode *node)
{
	return node == NULL || node->kind == JSON_NULL;
}

SyncString
as_text(const JsonNode *node)
{
	if (node == NULL || node->kind != JSON_STRING)
		return literal("");
	return (SyncString) {node->value.data, node->value.len};
}

int64_t
as_int(const JsonNode *node)
{
	static const char *const wrappers[] = {
		"i64", "int", "$numberLong", "$numberInt", "$numberDouble"
	};

	if (node == NULL)
		return 0;
	for (size_t i = 0; i < sizeof(wrappers) / sizeof(wrappers[0]); i++)
		if (has(node, wrappers[i]))
			node = member(node, wrappers[i]);
	if (node->kind == JSON_STRING)
	{
		char		digits[24];
		SyncString	text = as_text(node);

		snprintf(digits, sizeof(digits), "%.*s", (int) text.len, text.data);
		return strtoll(digits, NULL, 10);
	}
	if (node->kind == JSON_NUMBER && node->value.type == SYNC_INTEGER)
		return node->value.integer;
	case_fail("the vector's number is none");
	return 0;
}

SyncString
from_hex(SyncString hex, SyncArena *arena)
{
	char	   *bytes = arena_alloc(arena, hex.len / 2);

	for (uint32_t i = 0; i < hex.len / 2; i++)
	{
		char		digits[3] = {hex.data[2 * i], hex.data[2 * i + 1], '\0'};

		bytes[i] = (char) strtol(digits, NULL, 16);
	}
	return (SyncString) {bytes, hex.len / 2};
}

SyncString
from_base64(SyncString base64, SyncArena *arena)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	SyncBuffer	buffer;
	uint32_t	bits = 0;
	int			count = 0;

	buffer_init(&buffer, arena, base64.len);
	for (uint32_t i = 0; i < base64.len && base64.data[i] != '='; i++)
	{
		const char *digit = strchr(digits, base64.data[i]);

		if (digit == NULL)
		{
			case_fail("the vector's base64 is none");
			break;
		}
		bits = bits << 6 | (uint32_t) (digit - digits);
		count += 6;
		if (count >= 8)
		{
			count -= 8;
			buffer_append_char(&buffer, (char) (bits >> count & 0xFF));
		}
	}
	return buffer_string(&buffer);
}

static double
real_of_text(SyncString text)
{
	if (sync_string_equal(text, literal("NaN")))
		return NAN;
	return number_parse_float(text.data, text.len);
}

SyncValue
tagged_value(const JsonNode *node, SyncArena *arena)
{
	SyncString	text;

	if (node->kind == JSON_NULL)
		return value_null();
	if (has(node, "int"))
	{
		text = as_text(member(node, "int"));
		return integer_from_digits(text.data, text.len, arena);
	}
	if (has(node, "real"))
		return value_real(real_of_text(as_text(member(node, "real"))));
	if (has(node, "text"))
		return value_string(as_text(member(node, "text")));
	if (has(node, "blob"))
	{
		text = from_hex(as_text(member(node, "blob")), arena);
		return value_blob(text.data, text.len);
	}
	if (has(node, "json"))
	{
		text = as_text(member(node, "json"));
		return (SyncValue) {.type = SYNC_JSON, .len = text.len, .data = text.data};
	}
	if (!has(node, "undefined"))
		case_fail("the vector has a value of unknown kind");
	return (SyncValue) {.type = SYNC_UNDEFINED};
}

/* ---------------------------------------------------------------- files */

/* NULL when it cannot be read */
static const JsonNode *
load(const char *path, SyncArena *arena)
{
	FILE	   *file = fopen(path, "rb");
	SyncBuffer	buffer;
	SyncError	error;
	const JsonNode *root;

	if (file == NULL)
	{
		case_fail("cannot open the file");
		return NULL;
	}
	buffer_init(&buffer, arena, 0);
	do
	{
		buffer_reserve(&buffer, 1 << 20);
		buffer.len += fread(buffer.data + buffer.len, 1, 1 << 20, file);
	} while (!feof(file) && !ferror(file));
	fclose(file);
	root = json_parse(buffer_string(&buffer), JSON_NUMBERS_EXACT, arena, &error);
	if (root == NULL)
		case_fail("%s", error.message);
	return root;
}

static void
run_path(const char *path, VectorFile run, SyncArena *arena)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash != NULL ? slash + 1 : path;
	const JsonNode *root;

	case_begin("%s", name);
	root = load(path, arena);
	if (root != NULL)
	{
		case_open = false;
		run(name, root, arena);
	}
}

int
vectors_main(int argc, char **argv, VectorFile run)
{
	SyncArena  *arena = arena_create(0);

	for (int i = 1; i < argc; i++)
	{
		ArenaGuard	guard;

		arena_guard_push(arena, &guard);
		if (setjmp(guard.jump) == 0)
			run_path(argv[i], run, arena);
		else
		{
			case_fail("out of memory");
			case_open = true;
		}
		if (case_open)
			case_end();			/* the file, or a case that was not finished */
		arena_guard_pop(arena, &guard);
		arena_reset(arena);
	}
	arena_destroy(arena);
	printf("%d passed, %d failed\n", passed, failed);
	return failed > 0 || passed == 0 ? 1 : 0;
}
