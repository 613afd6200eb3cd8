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

/*
 * Not zero if a byte of the word needs something; then the lowest bit set is in
 * the first such byte of memory order on little-endian machines.
 */
static inline uint64_t
special_bytes(uint64_t word)
{
	return ((word - EACH_BYTE(0x20)) & ~word & EACH_BYTE(0x80)) |
		has_zero(word ^ EACH_BYTE('"')) | has_zero(word ^ EACH_BYTE('\\')) |
		has_zero(word ^ EACH_BYTE(0xED));
}

/* bytes at s that need nothing */
static inline size_t
plain_length(const char *s, size_t len)
{
	size_t		i = 0;

	while (len - i >= 8)
	{
		uint64_t	word;
		uint64_t	special;

		memcpy(&word, s + i, 8);
		special = special_bytes(word);
		if (special != 0)
		{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
			return i + (size_t) __builtin_ctzll(special) / 8;
#else
			break;
#endif
		}
		i += 8;
	}
	while (i < len && escape_of[(unsigned char) s[i]] == 0)
		i++;
	return i;
}

/* writes the escape of what s begins with, at most six bytes; *used: what it stands for */
static inline char *
write_escape(char *out, const char *s, size_t len, size_t *used)
{
	static const char hex[] = "0123456789abcdef";
	unsigned char c = (unsigned char) s[0];
	char		escape = escape_of[c];
	uint32_t	unit = c;

	*used = 1;
	if (escape == 'w')
	{
		if (len < 3 || (unsigned char) s[1] < 0xA0)
		{
			*out++ = s[0];		/* U+D000 to U+D7FF: raw */
			return out;
		}
		unit = 0xD000 | ((uint32_t) (unsigned char) s[1] & 0x3F) << 6 |
			((unsigned char) s[2] & 0x3F);
		*used = 3;
	}
	*out++ = '\\';
	if (escape == 'u' || escape == 'w')
	{
		*out++ = 'u';
		for (int shift = 12; shift >= 0; shift -= 4)
			*out++ = hex[unit >> shift & 0xF];
	}
	else
		*out++ = escape;
	return out;
}

/*
 * The rest of a text, from its first byte that needs something.  JSON in a
 * text column has a quote every few bytes, so the plain ones between are
 * copied eight at a time, with what follows them, and overwritten.
 */
static void
append_escaped_text(SyncBuffer *buffer, const char *s, size_t len)
{
	while (len > 0)
	{
		char	   *out;
		char	   *limit;
		size_t		used;

		/* where room is short there is enough for the next step, at least */
		buffer_reserve(buffer, len + 16);
		out = buffer->data + buffer->len;
		limit = buffer->data + buffer->capacity - 16;
		while (len > 0 && out <= limit)
		{
			uint64_t	word;

			if (len >= 8)
			{
				size_t		plain = 8;

				memcpy(&word, s, 8);
				memcpy(out, &word, 8);
				if (special_bytes(word) != 0)
					plain = plain_length(s, 8);
				out += plain;
				s += plain;
				len -= plain;
				if (plain == 8)
					continue;
			}
			if (escape_of[(unsigned char) *s] == 0)
			{
				*out++ = *s++;
				len--;
				continue;
			}
			out = write_escape(out, s, len, &used);
			s += used;
			len -= used;
		}
		buffer->len = (size_t) (out - buffer->data);
	}
	buffer_append_char(buffer, '"');
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
	memcpy(buffer->data + buffer->len, s, n);
	buffer->len += n;
	if (n == len)
		buffer->data[buffer->len++] = '"';	/* the usual text */
	else
		append_escaped_text(buffer, s + n, len - n);
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
