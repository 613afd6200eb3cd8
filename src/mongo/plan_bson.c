/*-------------------------------------------------------------------------
 *
 * plan_bson.c
 *	  The stored plan of an edition-3 config: JSON text in the core, a BSON
 *	  document in the storage (sync-rules.md, 7.1).
 *
 * libbson's own extended JSON is not used: it gives members like "$date" a
 * meaning, and the name of an event may be that.
 *
 * Invariant: numbers are what the service's driver makes of JavaScript's, which
 * are doubles all: int32 where one fits, else double.  int64 is never written: the
 * service would get another kind of number than it has stored itself.
 *
 *-------------------------------------------------------------------------
 */
#include "mongo/stream_doc.h"

#include <math.h>
#include <string.h>

#include "core/json.h"
#include "core/number.h"

/* ---------------------------------------------------------------- JSON to BSON */

/*
 * The service's text is UTF-16, and its driver writes U+FFFD for half a pair,
 * which is as long in UTF-8.  The text is in our arena.
 */
static void
replace_surrogates(SyncString string)
{
	char	   *text = (char *) string.data;

	for (uint32_t i = 0; i + 2 < string.len; i++)
	{
		if ((unsigned char) text[i] == 0xED && (unsigned char) text[i + 1] >= 0xA0)
			memcpy(text + i, "\xEF\xBF\xBD", 3);
	}
}

static bool
append_number(bson_t *bson, const char *key, int key_len, SyncValue value)
{
	double		number = value.type == SYNC_REAL ? value.real : integer_to_double(value);

	/* -0 is no int32 */
	if (number >= INT32_MIN && number <= INT32_MAX && number == (double) (int32_t) number &&
		!(number == 0 && signbit(number)))
		return bson_append_int32(bson, key, key_len, (int32_t) number);
	return bson_append_double(bson, key, key_len, number);
}

static bool append_members(bson_t *bson, const JsonNode *parent);

static bool
append_node(bson_t *bson, const char *key, int key_len, const JsonNode *node)
{
	bson_t		child;
	bool		ok;

	switch (node->kind)
	{
		case JSON_NULL:
			return bson_append_null(bson, key, key_len);
		case JSON_FALSE:
		case JSON_TRUE:
			return bson_append_bool(bson, key, key_len, node->kind == JSON_TRUE);
		case JSON_STRING:
			replace_surrogates((SyncString) {node->value.data, node->value.len});
			return bson_append_utf8(bson, key, key_len, node->value.data, (int) node->value.len);
		case JSON_NUMBER:
			return append_number(bson, key, key_len, node->value);
		case JSON_ARRAY:
			if (!bson_append_array_begin(bson, key, key_len, &child))
				return false;
			ok = append_members(&child, node);
			return bson_append_array_end(bson, &child) && ok;
		case JSON_OBJECT:
			if (!bson_append_document_begin(bson, key, key_len, &child))
				return false;
			ok = append_members(&child, node);
			return bson_append_document_end(bson, &child) && ok;
	}
	return false;
}

/* its depth is bounded by json_parse() */
static bool
append_members(bson_t *bson, const JsonNode *parent)
{
	uint32_t	position = 0;

	for (const JsonNode *node = parent->first; node != NULL; node = node->next)
	{
		char		digits[12];
		const char *key = node->key.data;
		size_t		len = node->key.len;

		replace_surrogates(node->key);
		if (parent->kind == JSON_ARRAY)
			len = bson_uint32_to_string(position++, &key, digits, sizeof(digits));
		if (memchr(key, '\0', len) != NULL || !append_node(bson, key, (int) len, node))
			return false;
	}
	return true;
}

bool
plan_append_bson(bson_t *document, const char *name, const char *json, StorageError *error)
{
	SyncArena  *arena = arena_create(0);
	ArenaGuard	guard;
	SyncError	syntax;
	const JsonNode *volatile root = NULL;

	if (arena == NULL)
	{
		storage_error_set(error, STORAGE_SERVER, "out of memory");
		return false;
	}
	arena_guard_push(arena, &guard);
	if (setjmp(guard.jump) == 0)
	{
		uint32_t	len = (uint32_t) strlen(json);

		root = json_parse((SyncString) {arena_strndup(arena, json, len), len},
						  JSON_NUMBERS_EXACT, arena, &syntax);
	}
	arena_guard_pop(arena, &guard);
	if (root == NULL || root->kind != JSON_OBJECT ||
		!append_node(document, name, -1, root))
		storage_error_set(error, STORAGE_INVALID, "the compiled plan cannot be stored");
	arena_destroy(arena);
	return error->kind == STORAGE_OK;
}

/* ---------------------------------------------------------------- BSON to JSON */

static bool
write_value(SyncBuffer *buffer, const bson_iter_t *field, int depth)
{
	bson_iter_t child;
	bool		first = true;
	bool		array = false;
	uint32_t	len;
	const char *text;

	switch (bson_iter_type(field))
	{
		case BSON_TYPE_NULL:
		case BSON_TYPE_UNDEFINED:
			json_append_value(buffer, (SyncValue) {.type = SYNC_NULL});
			return true;
		case BSON_TYPE_BOOL:
			if (bson_iter_bool(field))
				buffer_append(buffer, "true", 4);
			else
				buffer_append(buffer, "false", 5);
			return true;
		case BSON_TYPE_INT32:
			buffer_append_int(buffer, bson_iter_int32(field));
			return true;
		case BSON_TYPE_INT64:
			buffer_append_int(buffer, bson_iter_int64(field));
			return true;
		case BSON_TYPE_DOUBLE:
			json_append_value(buffer, value_real(bson_iter_double(field)));
			return true;
		case BSON_TYPE_UTF8:
			text = bson_iter_utf8(field, &len);
			json_append_text(buffer, text, len);
			return true;
		case BSON_TYPE_ARRAY:
			array = true;
			break;
		case BSON_TYPE_DOCUMENT:
			break;
		default:
			return false;
	}
	if (depth >= JSON_MAX_DEPTH || !bson_iter_recurse(field, &child))
		return false;
	buffer_append_char(buffer, array ? '[' : '{');
	while (bson_iter_next(&child))
	{
		if (!first)
			buffer_append_char(buffer, ',');
		first = false;
		if (!array)
		{
			json_append_text(buffer, bson_iter_key(&child), strlen(bson_iter_key(&child)));
			buffer_append_char(buffer, ':');
		}
		if (!write_value(buffer, &child, depth + 1))
			return false;
	}
	buffer_append_char(buffer, array ? ']' : '}');
	return true;
}

char *
plan_json_text(const bson_iter_t *field, SyncArena *arena)
{
	SyncBuffer	buffer;

	buffer_init(&buffer, arena, 4096);
	if (!write_value(&buffer, field, 0))
		return NULL;
	buffer_append_char(&buffer, '\0');
	return buffer.data;
}
