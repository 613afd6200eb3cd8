/*-------------------------------------------------------------------------
 *
 * json.c
 *	  JSON text, written as the service writes it: sync-rules.md 8.2 and 9.2,
 *	  storage-contract.md 3.2.
 *
 * Does not order columns: a row's columns come in the evaluator's order.
 *
 * Invariant: every byte is fixed by the rules, since it is hashed; the result
 * is well-formed UTF-8 whenever the texts are WTF-8.
 *
 *-------------------------------------------------------------------------
 */
#include <math.h>
#include <string.h>

#include "json.h"
#include "number.h"
#include "text.h"

/*
 * What a byte of a text needs: 0 nothing, 'u' its code, 'w' a look at the next
 * bytes (it may begin a surrogate), else the letter of its short escape.
 */
static const char escape_of[256] = {
	'u', 'u', 'u', 'u', 'u', 'u', 'u', 'u', 'b', 't', 'n', 'u', 'f', 'r', 'u', 'u',
	'u', 'u', 'u', 'u', 'u', 'u', 'u', 'u', 'u', 'u', 'u', 'u', 'u', 'u', 'u', 'u',
	['"'] = '"', ['\\'] = '\\', [0xED] = 'w'
};

#define EACH_BYTE(b)	(UINT64_C(0x0101010101010101) * (b))

/* not zero if a byte of the word is zero */
static inline uint64_t
has_zero(uint64_t word)
{
	return (word - EACH_BYTE(0x01)) & ~word & EACH_BYTE(0x80);
}

/* bytes at s that need nothing */
static inline size_t
plain_length(const char *s, size_t len)
{
	size_t		i = 0;

	while (len - i >= 8)
	{
		uint64_t	word;

		memcpy(&word, s + i, 8);
		if (((word - EACH_BYTE(0x20)) & ~word & EACH_BYTE(0x80)) |
			has_zero(word ^ EACH_BYTE('"')) | has_zero(word ^ EACH_BYTE('\\')) |
			has_zero(word ^ EACH_BYTE(0xED)))
			break;
		i += 8;
	}
	while (i < len && escape_of[(unsigned char) s[i]] == 0)
		i++;
	return i;
}

/* writes the escape of what s begins with; returns the bytes of s it stands for */
static size_t
append_escaped(SyncBuffer *buffer, const char *s, size_t len)
{
	static const char hex[] = "0123456789abcdef";
	unsigned char c = (unsigned char) s[0];
	char		escape = escape_of[c];
	uint32_t	unit = c;
	size_t		size = 1;

	if (escape == 'w')
	{
		if (len < 3 || (unsigned char) s[1] < 0xA0)
		{
			buffer_append_char(buffer, s[0]);	/* U+D000 to U+D7FF: raw */
			return 1;
		}
		unit = 0xD000 | ((uint32_t) (unsigned char) s[1] & 0x3F) << 6 |
			((unsigned char) s[2] & 0x3F);
		size = 3;
	}
	buffer_reserve(buffer, 6);
	buffer->data[buffer->len++] = '\\';
	if (escape == 'u' || escape == 'w')
	{
		buffer->data[buffer->len++] = 'u';
		for (int shift = 12; shift >= 0; shift -= 4)
			buffer->data[buffer->len++] = hex[unit >> shift & 0xF];
	}
	else
		buffer->data[buffer->len++] = escape;
	return size;
}

void
json_append_text(SyncBuffer *buffer, const char *s, size_t len)
{
	size_t		n;

	if (len == 0)
	{
		buffer_append(buffer, "\"\"", 2);
		return;
	}
	n = plain_length(s, len);
	buffer_reserve(buffer, len + 2);
	buffer->data[buffer->len++] = '"';
	if (n == len)
	{
		/* the usual text */
		memcpy(buffer->data + buffer->len, s, len);
		buffer->len += len;
		buffer->data[buffer->len++] = '"';
		return;
	}
	for (;;)
	{
		buffer_append(buffer, s, n);
		s += n;
		len -= n;
		if (len == 0)
			break;
		n = append_escaped(buffer, s, len);
		s += n;
		len -= n;
		n = plain_length(s, len);
	}
	buffer_append_char(buffer, '"');
}

static void
append_number(SyncBuffer *buffer, double value)
{
	buffer_reserve(buffer, NUMBER_TEXT_LEN);
	buffer->len += number_to_json(value, buffer->data + buffer->len);
}

void
json_append_value(SyncBuffer *buffer, SyncValue value)
{
	switch (value.type)
	{
		case SYNC_INTEGER:
			buffer_append_int(buffer, value.integer);
			return;
		case SYNC_REAL:
			append_number(buffer, value.real);
			return;
		case SYNC_TEXT:
			json_append_text(buffer, value.data, value.len);
			return;
		case SYNC_BIGINT:
		case SYNC_JSON:
			buffer_append(buffer, value.data, value.len);
			return;
		case SYNC_UNDEFINED:
		case SYNC_NULL:
		case SYNC_BLOB:
			break;
	}
	buffer_append(buffer, "null", 4);
}

/* ---------------------------------------------------------------- bucket names */

static void
append_parameter_number(SyncBuffer *buffer, double value)
{
	if (!isfinite(value))
	{
		buffer_append(buffer, "null", 4);
		return;
	}
	buffer_reserve(buffer, NUMBER_TEXT_LEN);
	buffer->len += number_to_text(value, buffer->data + buffer->len);
}

/* how an element's numbers are written */
typedef void (*NumberWriter) (SyncBuffer *buffer, double value);

static void
append_node(SyncBuffer *buffer, const JsonNode *node, NumberWriter append_real)
{
	char		close;

	switch (node->kind)
	{
		case JSON_NULL:
			buffer_append(buffer, "null", 4);
			return;
		case JSON_FALSE:
			buffer_append(buffer, "false", 5);
			return;
		case JSON_TRUE:
			buffer_append(buffer, "true", 4);
			return;
		case JSON_NUMBER:
			if (node->value.type == SYNC_REAL)
				append_real(buffer, node->value.real);
			else
				json_append_value(buffer, node->value);
			return;
		case JSON_STRING:
			json_append_text(buffer, node->value.data, node->value.len);
			return;
		case JSON_ARRAY:
		case JSON_OBJECT:
			break;
	}

	close = node->kind == JSON_ARRAY ? ']' : '}';
	buffer_append_char(buffer, node->kind == JSON_ARRAY ? '[' : '{');
	for (const JsonNode *child = node->first; child != NULL; child = child->next)
	{
		if (child != node->first)
			buffer_append_char(buffer, ',');
		if (node->kind == JSON_OBJECT)
		{
			json_append_text(buffer, child->key.data, child->key.len);
			buffer_append_char(buffer, ':');
		}
		append_node(buffer, child, append_real);
	}
	buffer_append_char(buffer, close);
}

void
json_append_node(SyncBuffer *buffer, const JsonNode *node)
{
	append_node(buffer, node, append_number);
}

void
json_append_bucket_parameter(SyncBuffer *buffer, SyncValue value)
{
	const JsonNode *node;

	switch (value.type)
	{
		case SYNC_REAL:
			append_parameter_number(buffer, value.real);
			return;
		case SYNC_JSON:
			node = json_parse((SyncString) {value.data, value.len}, JSON_NUMBERS_WRITTEN,
							  buffer->arena, NULL);
			if (node != NULL)
				append_node(buffer, node, append_parameter_number);
			else
				buffer_append(buffer, "null", 4);	/* cannot be: we wrote it */
			return;
		default:
			json_append_value(buffer, value);
	}
}

void
json_append_bucket_parameters(SyncBuffer *buffer, const SyncValue *values, int count)
{
	buffer_append_char(buffer, '[');
	for (int i = 0; i < count; i++)
	{
		if (i > 0)
			buffer_append_char(buffer, ',');
		json_append_bucket_parameter(buffer, values[i]);
	}
	buffer_append_char(buffer, ']');
}

/* ---------------------------------------------------------------- elements as values */

static SyncValue
node_text(const JsonNode *node, SyncType type, SyncArena *arena)
{
	SyncBuffer	buffer;
	SyncString	text;

	buffer_init(&buffer, arena, 64);
	json_append_node(&buffer, node);
	text = buffer_string(&buffer);
	return (SyncValue) {.type = type, .len = text.len, .data = text.data};
}

SyncValue
json_node_value(const JsonNode *node, SyncArena *arena)
{
	switch (node->kind)
	{
		case JSON_FALSE:
			return value_integer(0);
		case JSON_TRUE:
			return value_integer(1);
		case JSON_NUMBER:
		case JSON_STRING:
			return node->value;
		case JSON_ARRAY:
		case JSON_OBJECT:
			return node_text(node, SYNC_TEXT, arena);
		case JSON_NULL:
			break;
	}
	return value_null();
}

SyncValue
json_node_raw_value(const JsonNode *node, SyncArena *arena)
{
	switch (node->kind)
	{
		case JSON_FALSE:
		case JSON_TRUE:
		case JSON_ARRAY:
		case JSON_OBJECT:
			return node_text(node, SYNC_JSON, arena);
		default:
			return json_node_value(node, arena);
	}
}
