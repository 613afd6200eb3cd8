/*-------------------------------------------------------------------------
 *
 * row_state.c
 *	  Row state to and from documents of our own collection.
 *
 * The API never reads it, so its form is ours: the memberships are one binary
 * value, which keeps every byte of a name as it was evaluated (a later change
 * is compared with it bytewise) and costs no per-element overhead.
 *
 *		byte 0		version, 1
 *		u32			number of bucket entries
 *		per entry	bucket, output table, row id; each u32 length and bytes
 *		u32			number of lookups
 *		per lookup	u32 length and bytes
 *
 * Numbers are little-endian.  A state of a row that has been written in part only
 * is marked in the document: whoever asks just whether a row is stored sees it.
 *
 * Invariant: decoding never reads outside the bytes, whatever they hold.
 *
 *-------------------------------------------------------------------------
 */
#include "mongo/row_state.h"

#include <string.h>

#define ENCODING_VERSION	1

RowId
row_id(const SourceTableId *table, const SourceKey *key)
{
	RowId		id;

	memcpy(id.bytes, table->bytes, SYNC_TABLE_LEN);
	memcpy(id.bytes + SYNC_TABLE_LEN, key->bytes, SYNC_KEY_LEN);
	return id;
}

RowId
row_id_low(const SourceTableId *table)
{
	SourceKey	key;

	memset(&key, 0, sizeof(key));
	return row_id(table, &key);
}

RowId
row_id_high(const SourceTableId *table)
{
	SourceKey	key;

	memset(&key, 0xFF, sizeof(key));
	return row_id(table, &key);
}

SourceKey
row_id_key(const RowId *id)
{
	SourceKey	key;

	memcpy(key.bytes, id->bytes + SYNC_TABLE_LEN, SYNC_KEY_LEN);
	return key;
}

SourceTableId
row_id_table(const RowId *id)
{
	SourceTableId table;

	memcpy(table.bytes, id->bytes, SYNC_TABLE_LEN);
	return table;
}

bool
row_state_is_empty(const RowState *state)
{
	return state == NULL ||
		(state->bucket_count == 0 && state->lookup_count == 0 && state->row_copy.len == 0);
}

/* ---------------------------------------------------------------- encoding */

size_t
row_state_size(const RowState *state)
{
	size_t		size = 1 + 4 + 4;

	for (int i = 0; i < state->bucket_count; i++)
		size += 12 + (size_t) state->buckets[i].bucket.len + state->buckets[i].table.len +
			state->buckets[i].row_id.len;
	for (int i = 0; i < state->lookup_count; i++)
		size += 4 + (size_t) state->lookups[i].len;
	return size;
}

static uint8_t *
put_u32(uint8_t *at, uint32_t value)
{
	at[0] = (uint8_t) value;
	at[1] = (uint8_t) (value >> 8);
	at[2] = (uint8_t) (value >> 16);
	at[3] = (uint8_t) (value >> 24);
	return at + 4;
}

static uint8_t *
put_string(uint8_t *at, SyncString string)
{
	at = put_u32(at, string.len);
	if (string.len > 0)
		memcpy(at, string.data, string.len);
	return at + string.len;
}

void
row_state_encode(const RowState *state, uint8_t *bytes)
{
	uint8_t    *at = bytes;

	*at++ = ENCODING_VERSION;
	at = put_u32(at, (uint32_t) state->bucket_count);
	for (int i = 0; i < state->bucket_count; i++)
	{
		at = put_string(at, state->buckets[i].bucket);
		at = put_string(at, state->buckets[i].table);
		at = put_string(at, state->buckets[i].row_id);
	}
	at = put_u32(at, (uint32_t) state->lookup_count);
	for (int i = 0; i < state->lookup_count; i++)
		at = put_string(at, state->lookups[i]);
}

/* ---------------------------------------------------------------- decoding */

typedef struct Decoder
{
	const uint8_t *at;
	const uint8_t *end;
	bool		failed;
} Decoder;

static uint32_t
get_u32(Decoder *in)
{
	uint32_t	value;

	if (in->end - in->at < 4)
	{
		in->failed = true;
		return 0;
	}
	value = (uint32_t) in->at[0] | (uint32_t) in->at[1] << 8 | (uint32_t) in->at[2] << 16 |
		(uint32_t) in->at[3] << 24;
	in->at += 4;
	return value;
}

static SyncString
get_string(Decoder *in)
{
	uint32_t	len = get_u32(in);
	SyncString	string = {"", 0};

	if (in->failed || len > (size_t) (in->end - in->at))
	{
		in->failed = true;
		return string;
	}
	string = (SyncString) {(const char *) in->at, len};
	in->at += len;
	return string;
}

/* A count of entries that take at least unit bytes each. */
static int
get_count(Decoder *in, size_t unit)
{
	uint32_t	count = get_u32(in);

	if (in->failed || count > (size_t) (in->end - in->at) / unit)
	{
		in->failed = true;
		return 0;
	}
	return (int) count;
}

RowState *
row_state_decode(const uint8_t *bytes, size_t len, SyncArena *arena)
{
	RowState   *state = arena_new(arena, RowState);
	Decoder		in;
	const char *copy;

	if (len < 1 || bytes[0] != ENCODING_VERSION)
		return NULL;
	copy = arena_strndup(arena, (const char *) bytes, len);
	in.at = (const uint8_t *) copy + 1;
	in.end = (const uint8_t *) copy + len;
	in.failed = false;
	state->bucket_count = get_count(&in, 12);
	state->buckets = arena_array(arena, BucketRef, (size_t) state->bucket_count);
	for (int i = 0; i < state->bucket_count; i++)
	{
		state->buckets[i].bucket = get_string(&in);
		state->buckets[i].table = get_string(&in);
		state->buckets[i].row_id = get_string(&in);
	}
	state->lookup_count = get_count(&in, 4);
	state->lookups = arena_array(arena, SyncString, (size_t) state->lookup_count);
	for (int i = 0; i < state->lookup_count; i++)
		state->lookups[i] = get_string(&in);
	return in.failed || in.at != in.end ? NULL : state;
}

/* ---------------------------------------------------------------- documents */

void
row_state_document(const RowId *id, const RowState *state, bson_t *document)
{
	size_t		size = row_state_size(state);
	uint8_t    *bytes = bson_malloc(size);

	row_state_encode(state, bytes);
	bson_append_binary(document, "_id", 3, BSON_SUBTYPE_BINARY, id->bytes, ROW_ID_LEN);
	bson_append_binary(document, "s", 1, BSON_SUBTYPE_BINARY, bytes, (uint32_t) size);
	if (state->row_copy.len > 0)
		bson_append_binary(document, "c", 1, BSON_SUBTYPE_BINARY,
						   (const uint8_t *) state->row_copy.data, state->row_copy.len);
	if (state->partial)
		BSON_APPEND_BOOL(document, "p", true);
	if (state->round != 0)
		append_count(document, "r", state->round);
	bson_free(bytes);
}

bool
row_state_document_partial(const bson_t *document)
{
	return read_bool(document, "p", false);
}

int64_t
row_state_document_round(const bson_t *document)
{
	int64_t		round = 0;

	(void) read_integer(document, "r", &round);
	return round;
}

static bool
read_binary(const bson_t *document, const char *name, SyncString *value)
{
	bson_iter_t field;
	bson_subtype_t subtype;
	const uint8_t *data;
	uint32_t	len;

	*value = (SyncString) {"", 0};
	if (!find_field(document, name, &field))
		return false;
	if (!BSON_ITER_HOLDS_BINARY(&field))
		return false;
	bson_iter_binary(&field, &subtype, &len, &data);
	*value = (SyncString) {(const char *) data, len};
	return true;
}

bool
row_state_document_parts(const bson_t *document, RowId *id, SyncString *memberships,
						 SyncString *copy)
{
	SyncString	key;

	if (!read_binary(document, "_id", &key) || key.len != ROW_ID_LEN)
		return false;
	memcpy(id->bytes, key.data, ROW_ID_LEN);
	(void) read_binary(document, "s", memberships);
	(void) read_binary(document, "c", copy);
	return true;
}
