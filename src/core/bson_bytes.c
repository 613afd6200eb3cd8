/*-------------------------------------------------------------------------
 *
 * bson_bytes.c
 *	  BSON as bytes that are hashed, compared or kept.
 *
 * Does not make documents for MongoDB (src/mongo does, with libbson) and reads
 * only the few types that row copies have.
 *
 * Invariant: what is written is valid BSON: lengths right, texts well-formed
 * UTF-8, every document ended.  The reader trusts no length it has not checked
 * against the bytes there are.
 *
 *-------------------------------------------------------------------------
 */
#include <math.h>
#include <string.h>

#include "bson_bytes.h"
#include "json.h"
#include "number.h"
#include "text.h"
#include "value.h"

#define TYPE_DOCUMENT	0x03
#define TYPE_ARRAY		0x04
#define TYPE_OID		0x07
#define TYPE_BOOL		0x08

/* a document's length is a signed 32-bit number */
#define MAX_DOCUMENT	INT32_MAX

/* ---------------------------------------------------------------- writing */

static inline void
put_uint32(char *out, uint32_t value)
{
	for (int i = 0; i < 4; i++)
		out[i] = (char) (value >> 8 * i & 0xFF);
}

static inline void
put_uint64(char *out, uint64_t value)
{
	for (int i = 0; i < 8; i++)
		out[i] = (char) (value >> 8 * i & 0xFF);
}

/*
 * Writes type and name and makes room for value_len bytes, which count as
 * written: the caller fills them.
 */
static char *
begin_field(SyncBuffer *buffer, uint8_t type, SyncString name, size_t value_len)
{
	const char *nul = name.len > 0 ? memchr(name.data, '\0', name.len) : NULL;
	size_t		name_len = nul != NULL ? (size_t) (nul - name.data) : name.len;
	char	   *out;

	if (value_len > MAX_DOCUMENT)
		arena_fail(buffer->arena);
	buffer_reserve(buffer, name_len + 2 + value_len);
	out = buffer->data + buffer->len;
	*out++ = (char) type;
	if (name_len > 0)
		memcpy(out, name.data, name_len);
	out += name_len;
	*out++ = '\0';
	buffer->len += name_len + 2 + value_len;
	return out;
}

size_t
bson_begin(SyncBuffer *buffer)
{
	size_t		mark = buffer->len;

	buffer_reserve(buffer, 4);
	buffer->len += 4;
	return mark;
}

void
bson_end(SyncBuffer *buffer, size_t mark)
{
	buffer_append_char(buffer, '\0');
	if (buffer->len - mark > MAX_DOCUMENT)
		arena_fail(buffer->arena);
	put_uint32(buffer->data + mark, (uint32_t) (buffer->len - mark));
}

size_t
bson_begin_document(SyncBuffer *buffer, SyncString name)
{
	begin_field(buffer, TYPE_DOCUMENT, name, 0);
	return bson_begin(buffer);
}

size_t
bson_begin_array(SyncBuffer *buffer, SyncString name)
{
	begin_field(buffer, TYPE_ARRAY, name, 0);
	return bson_begin(buffer);
}

void
bson_append_null(SyncBuffer *buffer, SyncString name)
{
	begin_field(buffer, BSON_BYTES_NULL, name, 0);
}

void
bson_append_bool(SyncBuffer *buffer, SyncString name, bool value)
{
	*begin_field(buffer, TYPE_BOOL, name, 1) = value ? 1 : 0;
}

void
bson_append_int32(SyncBuffer *buffer, SyncString name, int32_t value)
{
	put_uint32(begin_field(buffer, BSON_BYTES_INT32, name, 4), (uint32_t) value);
}

void
bson_append_int64(SyncBuffer *buffer, SyncString name, int64_t value)
{
	put_uint64(begin_field(buffer, BSON_BYTES_INT64, name, 8), (uint64_t) value);
}

void
bson_append_double(SyncBuffer *buffer, SyncString name, double value)
{
	uint64_t	bits;

	/* JavaScript has one NaN */
	if (isnan(value))
		bits = UINT64_C(0x7FF8000000000000);
	else
		memcpy(&bits, &value, sizeof(bits));
	put_uint64(begin_field(buffer, BSON_BYTES_DOUBLE, name, 8), bits);
}

void
bson_append_text(SyncBuffer *buffer, SyncString name, SyncString value)
{
	char	   *out;

	value = text_well_formed(value, buffer->arena);
	out = begin_field(buffer, BSON_BYTES_TEXT, name, (size_t) value.len + 5);
	put_uint32(out, value.len + 1);
	if (value.len > 0)
		memcpy(out + 4, value.data, value.len);
	out[4 + value.len] = '\0';
}

void
bson_append_binary(SyncBuffer *buffer, SyncString name, uint8_t subtype,
				   const void *data, size_t len)
{
	char	   *out;

	if (len > MAX_DOCUMENT)
		arena_fail(buffer->arena);
	out = begin_field(buffer, BSON_BYTES_BINARY, name, len + 5);
	put_uint32(out, (uint32_t) len);
	out[4] = (char) subtype;
	if (len > 0)
		memcpy(out + 5, data, len);
}

void
bson_append_oid(SyncBuffer *buffer, SyncString name, const uint8_t oid[12])
{
	memcpy(begin_field(buffer, TYPE_OID, name, 12), oid, 12);
}

/* a JavaScript number as its BSON serializer types it */
static void
append_number(SyncBuffer *buffer, SyncString name, double value)
{
	if (value >= INT32_MIN && value <= INT32_MAX && value == (double) (int32_t) value &&
		!(value == 0 && signbit(value)))
		bson_append_int32(buffer, name, (int32_t) value);
	else
		bson_append_double(buffer, name, value);
}

SyncString
bson_index_name(BsonIndexName *name, uint32_t index)
{
	char	   *end = name->digits + sizeof(name->digits);
	char	   *s = end;

	do
	{
		*--s = (char) ('0' + index % 10);
		index /= 10;
	} while (index > 0);
	return (SyncString) {s, (uint32_t) (end - s)};
}

/* a JSON element as the nested BSON that JavaScript's value of it becomes */
static void
append_node(SyncBuffer *buffer, SyncString name, const JsonNode *node)
{
	BsonIndexName index_name;
	uint32_t	index = 0;
	size_t		mark;

	switch (node->kind)
	{
		case JSON_NULL:
			bson_append_null(buffer, name);
			return;
		case JSON_FALSE:
		case JSON_TRUE:
			bson_append_bool(buffer, name, node->kind == JSON_TRUE);
			return;
		case JSON_NUMBER:
		case JSON_STRING:
			bson_append_value(buffer, name, node->value);
			return;
		case JSON_ARRAY:
		case JSON_OBJECT:
			break;
	}
	mark = node->kind == JSON_ARRAY ? bson_begin_array(buffer, name) :
		bson_begin_document(buffer, name);
	for (const JsonNode *child = node->first; child != NULL; child = child->next)
		append_node(buffer, node->kind == JSON_ARRAY ? bson_index_name(&index_name, index++) :
					text_well_formed(child->key, buffer->arena), child);
	bson_end(buffer, mark);
}

void
bson_append_value(SyncBuffer *buffer, SyncString name, SyncValue value)
{
	const JsonNode *node;

	switch (value.type)
	{
		case SYNC_UNDEFINED:
			return;
		case SYNC_NULL:
			bson_append_null(buffer, name);
			return;
		case SYNC_INTEGER:
			bson_append_int64(buffer, name, value.integer);
			return;
		case SYNC_BIGINT:
			bson_append_int64(buffer, name, integer_low_bits(value));
			return;
		case SYNC_REAL:
			append_number(buffer, name, value.real);
			return;
		case SYNC_TEXT:
			bson_append_text(buffer, name, (SyncString) {value.data, value.len});
			return;
		case SYNC_BLOB:
			bson_append_binary(buffer, name, 0, value.data, value.len);
			return;
		case SYNC_JSON:
			node = json_parse((SyncString) {value.data, value.len}, JSON_NUMBERS_WRITTEN,
							  buffer->arena, NULL);
			if (node != NULL)
				append_node(buffer, name, node);
			else
				bson_append_null(buffer, name);	/* cannot be: we wrote it */
			return;
	}
}

/* ---------------------------------------------------------------- lookups */

static void
append_lookup_values(SyncBuffer *buffer, uint32_t index, const SyncValue *values, int count)
{
	BsonIndexName name;

	for (int i = 0; i < count; i++)
	{
		SyncValue	value = value_normalize_lookup(values[i], buffer->arena);

		/* an array has no gaps: undefined counts as NULL */
		if (value.type == SYNC_UNDEFINED)
			value = value_null();
		bson_append_value(buffer, bson_index_name(&name, index++), value);
	}
}

static size_t
begin_lookup(SyncBuffer *buffer, SyncArena *arena, size_t *array)
{
	size_t		mark;

	buffer_init(buffer, arena, 96);
	mark = bson_begin(buffer);
	*array = bson_begin_array(buffer, sync_string_literal("l"));
	return mark;
}

SyncString
bson_lookup(SyncString name, SyncString query_id, const SyncValue *values, int count,
			SyncArena *arena)
{
	SyncBuffer	buffer;
	size_t		array;
	size_t		mark = begin_lookup(&buffer, arena, &array);

	bson_append_text(&buffer, sync_string_literal("0"), name);
	bson_append_text(&buffer, sync_string_literal("1"), query_id);
	append_lookup_values(&buffer, 2, values, count);
	bson_end(&buffer, array);
	bson_end(&buffer, mark);
	return buffer_string(&buffer);
}

SyncString
bson_lookup_values(const SyncValue *values, int count, SyncArena *arena)
{
	SyncBuffer	buffer;
	size_t		array;
	size_t		mark = begin_lookup(&buffer, arena, &array);

	append_lookup_values(&buffer, 0, values, count);
	bson_end(&buffer, array);
	bson_end(&buffer, mark);
	return buffer_string(&buffer);
}

/* ---------------------------------------------------------------- reading */

static uint32_t
get_uint32(const char *in)
{
	uint32_t	value = 0;

	for (int i = 0; i < 4; i++)
		value |= (uint32_t) (unsigned char) in[i] << 8 * i;
	return value;
}

static uint64_t
get_uint64(const char *in)
{
	return get_uint32(in) | (uint64_t) get_uint32(in + 4) << 32;
}

bool
bson_reader_init(BsonReader *reader, SyncString bytes)
{
	reader->failed = bytes.len < 5 || get_uint32(bytes.data) != bytes.len ||
		bytes.data[bytes.len - 1] != '\0';
	if (reader->failed)
	{
		reader->next = reader->end = NULL;
		return false;
	}
	reader->next = bytes.data + 4;
	reader->end = bytes.data + bytes.len - 1;
	return true;
}

static bool
read_value(BsonReader *reader, BsonField *field)
{
	const char *in = reader->next;
	size_t		left = (size_t) (reader->end - in);
	size_t		used = 0;
	uint64_t	bits;
	uint32_t	len;
	double		real;

	switch (field->type)
	{
		case BSON_BYTES_NULL:
			field->value = value_null();
			break;
		case BSON_BYTES_INT32:
			used = 4;
			if (left < used)
				return false;
			field->value = value_real((int32_t) get_uint32(in));
			break;
		case BSON_BYTES_INT64:
			used = 8;
			if (left < used)
				return false;
			field->value = value_integer((int64_t) get_uint64(in));
			break;
		case BSON_BYTES_DOUBLE:
			used = 8;
			if (left < used)
				return false;
			bits = get_uint64(in);
			memcpy(&real, &bits, sizeof(real));
			field->value = value_real(real);
			break;
		case BSON_BYTES_TEXT:
			if (left < 5)
				return false;
			len = get_uint32(in);	/* with the NUL behind it */
			if (len < 1 || len > left - 4 || in[4 + len - 1] != '\0' ||
				!utf8_is_valid(in + 4, len - 1))
				return false;
			used = 4 + (size_t) len;
			field->value = value_text(in + 4, len - 1);
			break;
		case BSON_BYTES_BINARY:
			if (left < 5)
				return false;
			len = get_uint32(in);
			if (len > left - 5 || in[4] != 0)
				return false;
			used = 5 + (size_t) len;
			field->value = value_blob(in + 5, len);
			break;
		default:
			return false;
	}
	reader->next += used;
	return true;
}

bool
bson_reader_next(BsonReader *reader, BsonField *field)
{
	const char *name;
	const char *nul;

	if (reader->failed || reader->next == reader->end)
		return false;
	reader->failed = true;
	field->type = (BsonType) (unsigned char) *reader->next;
	name = reader->next + 1;
	nul = memchr(name, '\0', (size_t) (reader->end - name));
	if (nul == NULL)
		return false;
	field->name = (SyncString) {name, (uint32_t) (nul - name)};
	reader->next = nul + 1;
	reader->failed = !read_value(reader, field);
	return !reader->failed;
}
