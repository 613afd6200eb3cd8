/*-------------------------------------------------------------------------
 *
 * json_path.c
 *	  ->, ->>, json_extract() and their kin: sync-rules.md 6.3.
 *
 * Invariant: a step never leaves the document; what JavaScript would find
 * outside of it (built-in methods) ends in SYNC_UNDEFINED.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "json.h"
#include "text.h"
#include "value.h"

/* where a walk is */
typedef enum StepState
{
	STEP_FOUND,
	STEP_MISSING,
	STEP_UNUSABLE				/* a built-in of JavaScript */
} StepState;

/* the names that JavaScript finds on a value that has no such member itself */
static const char *const object_builtins[] = {
	"__defineGetter__", "__defineSetter__", "__lookupGetter__", "__lookupSetter__", "__proto__",
	"constructor", "hasOwnProperty", "isPrototypeOf", "propertyIsEnumerable", "toLocaleString",
	"toString", "valueOf", NULL
};
static const char *const array_builtins[] = {
	"at", "concat", "copyWithin", "entries", "every", "fill", "filter", "find", "findIndex",
	"findLast", "findLastIndex", "flat", "flatMap", "forEach", "includes", "indexOf", "join",
	"keys", "lastIndexOf", "map", "pop", "push", "reduce", "reduceRight", "reverse", "shift",
	"slice", "some", "sort", "splice", "toReversed", "toSorted", "toSpliced", "unshift",
	"values", "with", NULL
};
static const char *const string_builtins[] = {
	"anchor", "at", "big", "blink", "bold", "charAt", "charCodeAt", "codePointAt", "concat",
	"endsWith", "fixed", "fontcolor", "fontsize", "includes", "indexOf", "isWellFormed",
	"italics", "lastIndexOf", "link", "localeCompare", "match", "matchAll", "normalize",
	"padEnd", "padStart", "repeat", "replace", "replaceAll", "search", "slice", "small", "split",
	"startsWith", "strike", "sub", "substr", "substring", "sup", "toLocaleLowerCase",
	"toLocaleUpperCase", "toLowerCase", "toUpperCase", "toWellFormed", "trim", "trimEnd",
	"trimLeft", "trimRight", "trimStart", NULL
};
static const char *const real_builtins[] = {"toExponential", "toFixed", "toPrecision", NULL};
static const char *const no_builtins[] = {NULL};

static bool
is_among(const char *const *names, SyncString name)
{
	for (; *names != NULL; names++)
		if (strlen(*names) == name.len && memcmp(*names, name.data, name.len) == 0)
			return true;
	return false;
}

static bool
is_builtin(const JsonNode *node, SyncString name)
{
	const char *const *own = no_builtins;

	if (node->kind == JSON_ARRAY)
		own = array_builtins;
	else if (node->kind == JSON_STRING)
		own = string_builtins;
	else if (node->kind == JSON_NUMBER && node->value.type == SYNC_REAL)
		own = real_builtins;
	return is_among(object_builtins, name) || is_among(own, name);
}

/* a node made for a value that is no element of the document */
static const JsonNode *
make_node(JsonKind kind, SyncValue value, SyncArena *arena)
{
	JsonNode   *node = arena_new(arena, JsonNode);

	node->kind = kind;
	node->value = value;
	return node;
}

/* the UTF-16 unit at an index as a string of its own; NULL = beyond the end */
static const JsonNode *
string_unit(SyncValue text, uint32_t index, SyncArena *arena)
{
	size_t		i = 0;
	uint32_t	unit = 0;

	while (i < text.len)
	{
		int			size;
		uint32_t	c = text_code_point(text.data + i, text.len - i, &size);
		uint32_t	units = c >= 0x10000 ? 2 : 1;

		if (index < unit + units)
		{
			SyncBuffer	buffer;

			if (units == 2)
				c = index == unit ? 0xD800 + ((c - 0x10000) >> 10) : 0xDC00 + (c & 0x3FF);
			buffer_init(&buffer, arena, 4);
			text_append_code_point(&buffer, c);
			return make_node(JSON_STRING, value_string(buffer_string(&buffer)), arena);
		}
		unit += units;
		i += (size_t) size;
	}
	return NULL;
}

/* node[key] as JavaScript sees it; NULL = there is no such thing */
static const JsonNode *
own_member(const JsonNode *node, SyncString key, SyncArena *arena)
{
	uint32_t	index;
	const JsonNode *child;

	if (node->kind == JSON_OBJECT)
		return json_member(node, key);
	if (node->kind != JSON_ARRAY && node->kind != JSON_STRING)
		return NULL;
	if (sync_string_equal(key, sync_string_literal("length")))
	{
		size_t		length = node->kind == JSON_ARRAY ? node->count :
			text_utf16_length(node->value.data, node->value.len);

		return make_node(JSON_NUMBER, value_real((double) length), arena);
	}
	if (!text_array_index(key, &index))
		return NULL;
	if (node->kind == JSON_STRING)
		return string_unit(node->value, index, arena);
	if (index >= node->count)
		return NULL;
	for (child = node->first; index > 0; index--)
		child = child->next;
	return child;
}

/* one step from *node; false when the walk is over */
static bool
step(const JsonNode **node, StepState *state, SyncString key, SyncArena *arena)
{
	const JsonNode *next;

	if (*state == STEP_MISSING || (*state == STEP_FOUND && (*node)->kind == JSON_NULL))
		return false;
	if (*state == STEP_UNUSABLE)
	{
		*state = is_among(object_builtins, key) ? STEP_UNUSABLE : STEP_MISSING;
		return true;
	}
	next = own_member(*node, key, arena);
	if (next != NULL)
		*node = next;
	else
		*state = is_builtin(*node, key) ? STEP_UNUSABLE : STEP_MISSING;
	return true;
}

/*
 * Goes from *node along the path.  Without fixed_json_extract every path is
 * split at its dots, with it only one that begins with $; a first part that
 * begins with $ is the document itself.
 */
static StepState
walk(const JsonNode **node, SyncString path, bool fixed, SyncArena *arena)
{
	StepState	state = STEP_FOUND;
	bool		from_root = path.len > 0 && path.data[0] == '$';
	size_t		start = 0;

	if (path.len == 0)
		path.data = "";
	if (fixed && !from_root)
	{
		step(node, &state, path, arena);
		return state;
	}
	for (bool is_first = true;; is_first = false)
	{
		const char *dot = memchr(path.data + start, '.', path.len - start);
		size_t		end = dot != NULL ? (size_t) (dot - path.data) : path.len;

		if (!(is_first && from_root) &&
			!step(node, &state, (SyncString) {path.data + start, (uint32_t) (end - start)}, arena))
			break;
		if (dot == NULL)
			break;
		start = end + 1;
	}
	return state;
}

bool
json_get(JsonOperator op, bool fixed, SyncValue document, SyncValue path,
		 SyncArena *arena, SyncValue *result, SyncError *error)
{
	SyncString	path_text;
	const JsonNode *node;
	SyncBuffer	buffer;

	*result = value_null();
	if (value_is_null(document) || value_is_null(path))
		return true;
	path_text = value_to_text(path, arena);
	node = json_parse(value_to_text(document, arena), JSON_NUMBERS_EXACT, arena, error);
	if (node == NULL)
		return false;
	if (node->kind == JSON_NULL)
		return true;
	if (op == JSON_EXTRACT && (path_text.len == 0 || path_text.data[0] != '$'))
	{
		sync_error_set(error, SYNC_ERROR_VALUE, "a JSON path must begin with $");
		return false;
	}

	switch (walk(&node, path_text, fixed, arena))
	{
		case STEP_MISSING:
			return true;
		case STEP_UNUSABLE:
			*result = (SyncValue) {.type = SYNC_UNDEFINED};
			return true;
		case STEP_FOUND:
			break;
	}

	if (node->kind == JSON_NULL)
	{
		/* the two ways of the operators differ in just this */
		if (fixed == (op == JSON_GET))
			*result = value_string(sync_string_literal("null"));
	}
	else if (op == JSON_GET)
	{
		buffer_init(&buffer, arena, 64);
		json_append_node(&buffer, node);
		*result = value_string(buffer_string(&buffer));
	}
	else
		*result = json_node_value(node, arena);
	return true;
}

bool
json_count_elements(bool fixed, SyncValue document, const SyncValue *path,
				  SyncArena *arena, SyncValue *result, SyncError *error)
{
	const JsonNode *node;

	*result = value_null();
	if (path != NULL &&
		!json_get(JSON_EXTRACT, fixed, document, *path, arena, &document, error))
		return false;
	if (value_is_null(document))
		return true;
	node = json_parse(value_to_text(document, arena), JSON_NUMBERS_EXACT, arena, error);
	if (node == NULL)
		return false;
	*result = value_integer(node->kind == JSON_ARRAY ? node->count : 0);
	return true;
}

bool
json_keys(SyncValue document, SyncArena *arena, SyncValue *result, SyncError *error)
{
	const JsonNode *node;
	SyncBuffer	buffer;

	*result = value_null();
	if (value_is_null(document))
		return true;
	node = json_parse(value_to_text(document, arena), JSON_NUMBERS_EXACT, arena, error);
	if (node == NULL)
		return false;
	if (node->kind != JSON_OBJECT)
	{
		sync_error_set(error, SYNC_ERROR_VALUE, "json_keys() needs a JSON object");
		return false;
	}
	buffer_init(&buffer, arena, 64);
	buffer_append_char(&buffer, '[');
	for (const JsonNode *member = node->first; member != NULL; member = member->next)
	{
		if (member != node->first)
			buffer_append_char(&buffer, ',');
		json_append_text(&buffer, member->key.data, member->key.len);
	}
	buffer_append_char(&buffer, ']');
	*result = value_string(buffer_string(&buffer));
	return true;
}

SyncValue
json_valid(SyncValue value, SyncArena *arena)
{
	if (value_is_null(value))
		return value_integer(0);
	return value_boolean(json_parse(value_to_text(value, arena), JSON_NUMBERS_EXACT,
									arena, NULL) != NULL);
}
