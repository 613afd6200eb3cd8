/*-------------------------------------------------------------------------
 *
 * json_read.c
 *	  JSON text, read as the service reads it: sync-rules.md 6.2.
 *
 * Does not know paths; see json_path.c.
 *
 * Invariant: the text is any bytes at all; the time is O(n log n) and the
 * stack is bounded by JSON_MAX_DEPTH.
 *
 *-------------------------------------------------------------------------
 */
#include <math.h>
#include <string.h>

#include "json.h"
#include "number.h"
#include "text.h"

typedef struct JsonReader
{
	const char *text;
	const char *next;
	const char *end;
	JsonNumbers numbers;
	SyncArena  *arena;			/* of nodes */
	SyncArena  *values;			/* of texts and digits */
	SyncArena  *scratch;		/* of containers that are not kept; NULL: all are */
	int			outline_depth;	/* of these */
	SyncError  *error;
	JsonNode   *spare;			/* nodes allocated in advance */
	int			spare_count;
	bool		failed;
} JsonReader;

#define SPARE_NODES 32

static bool read_element(JsonReader *reader, JsonNode *node, int depth);

static bool
fail(JsonReader *reader)
{
	if (!reader->failed)
		sync_error_set(reader->error, SYNC_ERROR_VALUE, "not valid JSON at byte %zu",
					   (size_t) (reader->next - reader->text) + 1);
	reader->failed = true;
	return false;
}

static JsonNode *
new_node(JsonReader *reader)
{
	if (reader->spare_count == 0)
	{
		/* small documents, the usual ones, do not pay for the large ones */
		reader->spare_count = reader->spare == NULL ? 4 : SPARE_NODES;
		reader->spare = arena_array(reader->arena, JsonNode, reader->spare_count);
	}
	reader->spare_count--;
	return reader->spare++;
}

static void
skip_space(JsonReader *reader)
{
	while (reader->next < reader->end &&
		   (*reader->next == ' ' || *reader->next == '\n' ||
			*reader->next == '\t' || *reader->next == '\r'))
		reader->next++;
}

static bool
accept_char(JsonReader *reader, char c)
{
	if (reader->next == reader->end || *reader->next != c)
		return false;
	reader->next++;
	return true;
}

static bool
accept_word(JsonReader *reader, const char *word)
{
	size_t		len = strlen(word);

	if ((size_t) (reader->end - reader->next) < len || memcmp(reader->next, word, len) != 0)
		return false;
	reader->next += len;
	return true;
}

/* ---------------------------------------------------------------- strings */

/* four hexadecimal digits */
static bool
read_unit(JsonReader *reader, uint32_t *unit)
{
	*unit = 0;
	for (int i = 0; i < 4; i++)
	{
		int			digit = reader->next < reader->end ? hex_digit(*reader->next) : -1;

		if (digit < 0)
			return fail(reader);
		*unit = *unit << 4 | (uint32_t) digit;
		reader->next++;
	}
	return true;
}

/* what follows a backslash */
static bool
read_escape(JsonReader *reader, SyncBuffer *buffer)
{
	uint32_t	unit;
	char		surrogate[3];

	if (reader->next == reader->end)
		return fail(reader);
	switch (*reader->next)
	{
		case '"':
		case '\\':
		case '/':
			unit = (unsigned char) *reader->next;
			break;
		case 'b':
			unit = '\b';
			break;
		case 'f':
			unit = '\f';
			break;
		case 'n':
			unit = '\n';
			break;
		case 'r':
			unit = '\r';
			break;
		case 't':
			unit = '\t';
			break;
		case 'u':
			reader->next++;
			if (!read_unit(reader, &unit))
				return false;
			reader->next--;
			break;
		default:
			return fail(reader);
	}
	reader->next++;
	if (unit < 0xD800 || unit > 0xDFFF)
	{
		text_append_code_point(buffer, unit);
		return true;
	}
	/* two halves become one character */
	surrogate[0] = (char) 0xED;
	surrogate[1] = (char) (0x80 | (unit >> 6 & 0x3F));
	surrogate[2] = (char) (0x80 | (unit & 0x3F));
	text_append(buffer, surrogate, 3);
	return true;
}

static bool
read_string(JsonReader *reader, SyncString *string)
{
	const char *start;
	SyncBuffer	buffer = {0};

	if (!accept_char(reader, '"'))
		return fail(reader);
	for (start = reader->next;; reader->next++)
	{
		unsigned char c;

		if (reader->next == reader->end)
			return fail(reader);
		c = (unsigned char) *reader->next;
		if (c < 0x20)
			return fail(reader);
		if (c != '"' && c != '\\')
			continue;

		if (c == '"' && buffer.arena == NULL)
		{
			/* nothing to decode: the text itself is the value */
			*string = (SyncString) {start, (uint32_t) (reader->next - start)};
			reader->next++;
			return true;
		}
		if (buffer.arena == NULL)
			buffer_init(&buffer, reader->values, (size_t) (reader->next - start) + 32);
		text_append(&buffer, start, (size_t) (reader->next - start));
		reader->next++;
		if (c == '"')
		{
			*string = buffer_string(&buffer);
			return true;
		}
		if (!read_escape(reader, &buffer))
			return false;
		start = reader->next;
		reader->next--;			/* the loop goes on with the byte behind the escape */
	}
}

/* ---------------------------------------------------------------- numbers */

static size_t
count_digits(JsonReader *reader)
{
	const char *start = reader->next;

	while (reader->next < reader->end && *reader->next >= '0' && *reader->next <= '9')
		reader->next++;
	return (size_t) (reader->next - start);
}

static bool
read_number(JsonReader *reader, JsonNode *node)
{
	const char *start = reader->next;
	bool		is_integer = true;
	bool		negative = accept_char(reader, '-');
	size_t		len;

	if (reader->numbers == JSON_NUMBERS_WRITTEN &&
		(accept_word(reader, "Infinity") || (!negative && accept_word(reader, "NaN"))))
	{
		node->value = value_real(reader->next[-1] == 'N' ? (double) NAN :
								 negative ? -HUGE_VAL : HUGE_VAL);
		return true;
	}
	if (accept_char(reader, '0'))
		;						/* and no digit behind it */
	else if (count_digits(reader) == 0)
	{
		/* the service takes .5, but not -.5 */
		if (reader->numbers != JSON_NUMBERS_EXACT || negative ||
			reader->next == reader->end || *reader->next != '.')
			return fail(reader);
	}
	if (accept_char(reader, '.'))
	{
		is_integer = false;
		if (count_digits(reader) == 0)
			return fail(reader);
	}
	if (accept_char(reader, 'e') || accept_char(reader, 'E'))
	{
		is_integer = false;
		if (!accept_char(reader, '+'))
			accept_char(reader, '-');
		if (count_digits(reader) == 0)
			return fail(reader);
	}
	len = (size_t) (reader->next - start);
	if (is_integer && reader->numbers == JSON_NUMBERS_EXACT)
		node->value = integer_from_digits(start, len, reader->values);
	else
		node->value = value_real(number_parse(start, len));
	return true;
}

/* ---------------------------------------------------------------- objects */

static int
compare_keys(const JsonNode *a, const JsonNode *b)
{
	uint32_t	shared = a->key.len < b->key.len ? a->key.len : b->key.len;
	int			order = shared == 0 ? 0 : memcmp(a->key.data, b->key.data, shared);

	return order != 0 ? order : (a->key.len > b->key.len) - (a->key.len < b->key.len);
}

/* array index keys by their number */
static int
compare_indexes(const JsonNode *a, const JsonNode *b)
{
	uint32_t	x = 0;
	uint32_t	y = 0;

	text_array_index(a->key, &x);
	text_array_index(b->key, &y);
	return (x > y) - (x < y);
}

/* stable merge sort; the result is in the array returned */
static JsonNode **
sort_nodes(JsonNode **nodes, uint32_t count, int (*compare) (const JsonNode *, const JsonNode *),
		   SyncArena *arena)
{
	JsonNode  **from = nodes;
	JsonNode  **to = arena_array(arena, JsonNode *, count);

	for (size_t width = 1; width < count; width *= 2)
	{
		JsonNode  **swap = from;

		for (size_t low = 0; low < count; low += 2 * width)
		{
			size_t		middle = low + width < count ? low + width : count;
			size_t		high = middle + width < count ? middle + width : count;
			size_t		a = low;
			size_t		b = middle;

			for (size_t i = low; i < high; i++)
			{
				if (a < middle && (b == high || compare(from[a], from[b]) <= 0))
					to[i] = from[a++];
				else
					to[i] = from[b++];
			}
		}
		from = to;
		to = swap;
	}
	return from;
}

static JsonNode **
member_array(const JsonNode *object, SyncArena *arena)
{
	JsonNode  **nodes = arena_array(arena, JsonNode *, object->count);
	uint32_t	i = 0;

	for (const JsonNode *node = object->first; node != NULL; node = node->next)
		nodes[i++] = (JsonNode *) node;
	return nodes;
}

static bool
values_equal(SyncValue a, SyncValue b)
{
	if (a.type != b.type)
		return false;
	if (a.type == SYNC_INTEGER)
		return a.integer == b.integer;
	if (a.type == SYNC_REAL)
		return a.real == b.real;
	return sync_string_equal((SyncString) {a.data, a.len}, (SyncString) {b.data, b.len});
}

/* the order of members does not count */
static bool
nodes_equal(const JsonNode *a, const JsonNode *b, SyncArena *arena)
{
	const JsonNode *x;
	const JsonNode *y;
	JsonNode  **left;
	JsonNode  **right;

	if (a->kind != b->kind || a->count != b->count)
		return false;
	switch (a->kind)
	{
		case JSON_NUMBER:
		case JSON_STRING:
			return values_equal(a->value, b->value);
		case JSON_ARRAY:
			if (a->value.type == SYNC_JSON || b->value.type == SYNC_JSON)
				return values_equal(a->value, b->value);
			for (x = a->first, y = b->first; x != NULL; x = x->next, y = y->next)
				if (!nodes_equal(x, y, arena))
					return false;
			return true;
		case JSON_OBJECT:
			if (a->value.type == SYNC_JSON || b->value.type == SYNC_JSON)
				return values_equal(a->value, b->value);
			left = sort_nodes(member_array(a, arena), a->count, compare_keys, arena);
			right = sort_nodes(member_array(b, arena), b->count, compare_keys, arena);
			for (uint32_t i = 0; i < a->count; i++)
				if (compare_keys(left[i], right[i]) != 0 ||
					!nodes_equal(left[i], right[i], arena))
					return false;
			return true;
		default:
			return true;
	}
}

/*
 * Merges repeated keys: the first keeps its place and gets the last value.
 * Members to be dropped are marked by kind -1.
 */
#define DROPPED ((JsonKind) -1)

static bool
merge_members(JsonReader *reader, JsonNode **nodes, uint32_t count)
{
	JsonNode  **sorted = arena_array(reader->arena, JsonNode *, count);
	JsonNode   *kept;

	memcpy(sorted, nodes, count * sizeof(JsonNode *));
	sorted = sort_nodes(sorted, count, compare_keys, reader->arena);
	kept = sorted[0];
	for (uint32_t i = 1; i < count; i++)
	{
		JsonNode   *node = sorted[i];

		if (compare_keys(kept, node) != 0)
		{
			kept = node;
			continue;
		}
		if (reader->numbers == JSON_NUMBERS_EXACT && !nodes_equal(kept, node, reader->arena))
		{
			if (!reader->failed)
				sync_error_set(reader->error, SYNC_ERROR_VALUE,
							   "a JSON object has a key twice with different values");
			reader->failed = true;
			return false;
		}
		kept->kind = node->kind;
		kept->count = node->count;
		kept->value = node->value;
		kept->first = node->first;
		node->kind = DROPPED;
	}
	return true;
}

/* whether the members of a small object stay as they are: no key twice, none an index */
static bool
is_in_order(const JsonNode *object)
{
	uint32_t	index;

	if (object->count > 16)
		return false;
	for (const JsonNode *node = object->first; node != NULL; node = node->next)
	{
		if (text_array_index(node->key, &index))
			return false;
		for (const JsonNode *other = object->first; other != node; other = other->next)
		{
			if (sync_string_equal(other->key, node->key))
				return false;
		}
	}
	return true;
}

/* JavaScript's order: array index keys ascending, then the others as written */
static bool
order_members(JsonReader *reader, JsonNode *object)
{
	uint32_t	count = object->count;
	JsonNode  **nodes;
	JsonNode  **indexes;
	const JsonNode **link;
	uint32_t	index_count = 0;
	uint32_t	index;

	if (count < 2 || is_in_order(object))
		return true;
	nodes = member_array(object, reader->arena);
	if (!merge_members(reader, nodes, count))
		return false;

	indexes = arena_array(reader->arena, JsonNode *, count);
	for (uint32_t i = 0; i < count; i++)
		if (nodes[i]->kind != DROPPED && text_array_index(nodes[i]->key, &index))
			indexes[index_count++] = nodes[i];
	indexes = sort_nodes(indexes, index_count, compare_indexes, reader->arena);

	link = &object->first;
	object->count = 0;
	for (uint32_t i = 0; i < index_count + count; i++)
	{
		JsonNode   *node = i < index_count ? indexes[i] : nodes[i - index_count];

		if (node->kind == DROPPED || (i >= index_count && text_array_index(node->key, &index)))
			continue;
		*link = node;
		link = &node->next;
		object->count++;
	}
	*link = NULL;
	return true;
}

/* ---------------------------------------------------------------- elements */

/* behind the opening bracket of an array or object */
static bool
read_children(JsonReader *reader, JsonNode *parent, int depth)
{
	bool		is_object = parent->kind == JSON_OBJECT;
	char		close = is_object ? '}' : ']';
	const JsonNode **link = &parent->first;

	if (depth >= JSON_MAX_DEPTH)
	{
		sync_error_set(reader->error, SYNC_ERROR_LIMIT,
					   "JSON of more than %d levels", JSON_MAX_DEPTH);
		reader->failed = true;
		return false;
	}
	skip_space(reader);
	if (accept_char(reader, close))
		return true;
	for (;;)
	{
		JsonNode   *child = new_node(reader);

		if (is_object)
		{
			skip_space(reader);
			if (!read_string(reader, &child->key))
				return false;
			skip_space(reader);
			if (!accept_char(reader, ':'))
				return fail(reader);
		}
		if (!read_element(reader, child, depth + 1))
			return false;
		*link = child;
		link = &child->next;
		parent->count++;

		skip_space(reader);
		if (accept_char(reader, ','))
			continue;
		if (!accept_char(reader, close))
			return fail(reader);
		return !is_object || order_members(reader, parent);
	}
}

/* a container of which only the text is kept */
static bool
read_outlined(JsonReader *reader, JsonNode *node, int depth)
{
	JsonReader	inner = *reader;
	const char *start = reader->next;
	bool		ok;

	inner.arena = inner.values = reader->scratch;
	inner.scratch = NULL;
	inner.spare = NULL;
	inner.spare_count = 0;
	ok = read_element(&inner, node, depth);
	reader->next = inner.next;
	reader->failed = inner.failed;
	arena_reset(reader->scratch);
	node->count = 0;
	node->first = NULL;
	node->value = (SyncValue) {.type = SYNC_JSON, .len = (uint32_t) (reader->next - start), .data = start};
	return ok;
}

static bool
read_element(JsonReader *reader, JsonNode *node, int depth)
{
	SyncString	string;

	skip_space(reader);
	if (reader->next == reader->end)
		return fail(reader);
	switch (*reader->next)
	{
		case '{':
		case '[':
			if (reader->scratch != NULL && depth == reader->outline_depth)
				return read_outlined(reader, node, depth);
			node->kind = *reader->next++ == '{' ? JSON_OBJECT : JSON_ARRAY;
			return read_children(reader, node, depth);
		case '"':
			node->kind = JSON_STRING;
			if (!read_string(reader, &string))
				return false;
			node->value = value_text(string.data, string.len);
			return true;
		case 'n':
			node->kind = JSON_NULL;
			return accept_word(reader, "null") || fail(reader);
		case 't':
			node->kind = JSON_TRUE;
			return accept_word(reader, "true") || fail(reader);
		case 'f':
			node->kind = JSON_FALSE;
			return accept_word(reader, "false") || fail(reader);
		default:
			node->kind = JSON_NUMBER;
			return read_number(reader, node);
	}
}

static const JsonNode *
parse(JsonReader *reader, SyncString text)
{
	JsonNode   *root = new_node(reader);

	reader->text = reader->next = text.len > 0 ? text.data : "";
	reader->end = reader->next + text.len;
	if (!read_element(reader, root, 0))
		return NULL;
	skip_space(reader);
	if (reader->next != reader->end)
	{
		fail(reader);
		return NULL;
	}
	return root;
}

const JsonNode *
json_parse_apart(SyncString text, JsonNumbers numbers, SyncArena *arena, SyncArena *nodes,
				 SyncError *error)
{
	JsonReader	reader = {.numbers = numbers, .arena = nodes, .values = arena, .error = error};

	return parse(&reader, text);
}

const JsonNode *
json_parse_outline(SyncString text, JsonNumbers numbers, int depth, SyncArena *nodes,
				   SyncArena *scratch, SyncError *error)
{
	JsonReader	reader = {
		.numbers = numbers, .arena = nodes, .values = nodes, .scratch = scratch,
		.outline_depth = depth, .error = error
	};

	return parse(&reader, text);
}

const JsonNode *
json_parse(SyncString text, JsonNumbers numbers, SyncArena *arena, SyncError *error)
{
	return json_parse_apart(text, numbers, arena, arena, error);
}

const JsonNode *
json_member(const JsonNode *object, SyncString key)
{
	if (object->kind != JSON_OBJECT)
		return NULL;
	for (const JsonNode *node = object->first; node != NULL; node = node->next)
		if (sync_string_equal(node->key, key))
			return node;
	return NULL;
}
