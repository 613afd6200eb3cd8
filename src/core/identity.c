/*-------------------------------------------------------------------------
 *
 * identity.c
 *	  Source keys, subkeys and checksums: storage-contract.md, 3.3 and 3.4.
 *
 * libcrypto's plain SHA functions are used, not EVP: they need no context from
 * the heap, so they cannot fail and no thread has to keep one; and they take
 * two thirds of the time.  They are marked deprecated only in favour of EVP.
 *
 * Invariant: the same row of the same table has the same key and the same
 * checksums in every process and for ever; clients hold them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE			/* getentropy() */
#endif
#define OPENSSL_SUPPRESS_DEPRECATED
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <openssl/sha.h>

#include "bson_bytes.h"
#include "identity.h"

static const char hex_digits[] = "0123456789abcdef";

/* a396dd91-09fc-4017-a28d-3df722f651e9 */
static const uint8_t identity_namespace[16] = {
	0xa3, 0x96, 0xdd, 0x91, 0x09, 0xfc, 0x40, 0x17,
	0xa2, 0x8d, 0x3d, 0xf7, 0x22, 0xf6, 0x51, 0xe9
};

static void
set_uuid_version(SourceKey *key, int version)
{
	key->bytes[6] = (uint8_t) ((key->bytes[6] & 0x0F) | version << 4);
	key->bytes[8] = (uint8_t) ((key->bytes[8] & 0x3F) | 0x80);
}

void
identity_of_document(SyncString document, SourceKey *key)
{
	SHA_CTX		context;
	uint8_t		digest[SHA_DIGEST_LENGTH];

	SHA1_Init(&context);
	SHA1_Update(&context, identity_namespace, sizeof(identity_namespace));
	SHA1_Update(&context, document.data, document.len);
	SHA1_Final(digest, &context);
	memcpy(key->bytes, digest, SYNC_KEY_LEN);
	set_uuid_version(key, 5);
}

/* index of a column's name as JavaScript orders keys; -1: an ordinary name */
static int64_t
column_index(const SyncRowType *type, int column)
{
	SyncString	name = type->columns[column].name;
	uint64_t	index = 0;

	/* as text_array_index(), which is too dear for every column of every row */
	if (name.len == 0 || name.len > 10 || name.data[0] < '0' || name.data[0] > '9' ||
		(name.data[0] == '0' && name.len > 1))
		return -1;
	for (uint32_t i = 0; i < name.len; i++)
	{
		if (name.data[i] < '0' || name.data[i] > '9')
			return -1;
		index = index * 10 + (uint64_t) (name.data[i] - '0');
	}
	return index < UINT32_MAX ? (int64_t) index : -1;
}

void
row_append_columns(SyncBuffer *buffer, const SyncRowType *type, const SyncValue *values,
				   const int *positions, int count)
{
	int64_t		last = -1;
	bool		any_index = false;

	for (int i = 0; i < count; i++)
		any_index |= column_index(type, positions != NULL ? positions[i] : i) >= 0;

	/* hardly any table has such columns, and then few: the next larger one, each time */
	while (any_index)
	{
		int64_t		next = INT64_MAX;
		int			next_column = 0;

		for (int i = 0; i < count; i++)
		{
			int			column = positions != NULL ? positions[i] : i;
			int64_t		index = column_index(type, column);

			if (index > last && index < next)
			{
				next = index;
				next_column = column;
			}
		}
		if (next == INT64_MAX)
			break;
		bson_append_value(buffer, type->columns[next_column].name, values[next_column]);
		last = next;
	}

	for (int i = 0; i < count; i++)
	{
		int			column = positions != NULL ? positions[i] : i;

		if (!any_index || column_index(type, column) < 0)
			bson_append_value(buffer, type->columns[column].name, values[column]);
	}
}

SyncString
identity_document(const SyncRowType *type, const SyncValue *values, SyncArena *arena)
{
	SyncBuffer	buffer;
	size_t		mark;

	buffer_init(&buffer, arena, 128);
	mark = bson_begin(&buffer);
	row_append_columns(&buffer, type, values, type->identity, type->identity_count);
	bson_end(&buffer, mark);
	return buffer_string(&buffer);
}

/*
 * A table without identity columns gets a random key for every row: such rows
 * can only be inserted.
 */
void
source_key_of_row(const SyncRowType *type, const SyncValue *values, SyncArena *scratch,
				  SourceKey *key)
{
	if (type->identity_count > 0)
		identity_of_document(identity_document(type, values, scratch), key);
	else
	{
		if (getentropy(key->bytes, SYNC_KEY_LEN) != 0)
			arena_fail(scratch);	/* a kernel without random numbers: no key is better
									 * than the same key twice */
		set_uuid_version(key, 4);
	}
}

static char *
append_hex(char *out, const uint8_t *bytes, int count)
{
	for (int i = 0; i < count; i++)
	{
		*out++ = hex_digits[bytes[i] >> 4];
		*out++ = hex_digits[bytes[i] & 0x0F];
	}
	return out;
}

void
uuid_format(const SourceKey *key, char text[UUID_TEXT_LEN])
{
	static const int groups[] = {4, 2, 2, 2, 6};
	const uint8_t *bytes = key->bytes;

	for (int i = 0; i < 5; i++)
	{
		if (i > 0)
			*text++ = '-';
		text = append_hex(text, bytes, groups[i]);
		bytes += groups[i];
	}
}

void
subkey_format(const SourceTableId *table, const SourceKey *key, char subkey[SYNC_SUBKEY_LEN + 1])
{
	char	   *out = append_hex(subkey, table->bytes, SYNC_TABLE_LEN);

	*out++ = '/';
	uuid_format(key, out);
	out[UUID_TEXT_LEN] = '\0';
}

/* ---------------------------------------------------------------- checksums */

/* first four bytes of the digest, least significant first */
static uint32_t
finish_checksum(SHA256_CTX *context)
{
	uint8_t		digest[SHA256_DIGEST_LENGTH];

	SHA256_Final(digest, context);
	return (uint32_t) digest[0] | (uint32_t) digest[1] << 8 |
		(uint32_t) digest[2] << 16 | (uint32_t) digest[3] << 24;
}

/*
 * The beginning of the text is put together first: five small updates cost as
 * much as hashing a short row.
 */
uint32_t
checksum_put(SyncString table, SyncString row_id, SyncString json)
{
	SHA256_CTX	context;
	char		head[256];
	size_t		len = 0;

	SHA256_Init(&context);
	if ((size_t) table.len + row_id.len + 6 <= sizeof(head))
	{
		memcpy(head, "put.", 4);
		len = 4;
		if (table.len > 0)
			memcpy(head + len, table.data, table.len);
		len += table.len;
		head[len++] = '.';
		if (row_id.len > 0)
			memcpy(head + len, row_id.data, row_id.len);
		len += row_id.len;
		head[len++] = '.';
		SHA256_Update(&context, head, len);
	}
	else
	{
		SHA256_Update(&context, "put.", 4);
		SHA256_Update(&context, table.data, table.len);
		SHA256_Update(&context, ".", 1);
		SHA256_Update(&context, row_id.data, row_id.len);
		SHA256_Update(&context, ".", 1);
	}
	SHA256_Update(&context, json.data, json.len);
	return finish_checksum(&context);
}

uint32_t
checksum_remove(const SourceTableId *table, const SourceKey *key)
{
	SHA256_CTX	context;
	char		subkey[SYNC_SUBKEY_LEN + 1];

	subkey_format(table, key, subkey);
	SHA256_Init(&context);
	SHA256_Update(&context, "delete.", 7);
	SHA256_Update(&context, subkey, SYNC_SUBKEY_LEN);
	return finish_checksum(&context);
}

int32_t
checksum_sum(int32_t sum, int64_t checksum)
{
	return (int32_t) ((uint32_t) sum + (uint32_t) (uint64_t) checksum);
}

/* ---------------------------------------------------------------- names for messages */

/* where text goes; used < size, and a NUL follows */
typedef struct NameText
{
	char	   *text;
	size_t		size;
	size_t		used;
} NameText;

/* Without control characters, whole characters only; true if everything had room. */
static bool
name_append(NameText *name, const char *data, size_t len)
{
	size_t		room = name->size - 1 - name->used;
	size_t		n = len < room ? len : room;

	while (n > 0 && n < len && ((unsigned char) data[n] & 0xC0) == 0x80)
		n--;
	for (size_t i = 0; i < n; i++)
	{
		unsigned char c = (unsigned char) data[i];

		name->text[name->used + i] = c < 0x20 || c == 0x7F ? '?' : data[i];
	}
	name->used += n;
	name->text[name->used] = '\0';
	return n == len;
}

static bool
name_append_value(NameText *name, const SyncValue *value)
{
	char		number[40];

	switch (value->type)
	{
		case SYNC_INTEGER:
			snprintf(number, sizeof(number), "%" PRId64, value->integer);
			return name_append(name, number, strlen(number));
		case SYNC_REAL:
			snprintf(number, sizeof(number), "%.17g", value->real);
			return name_append(name, number, strlen(number));
		case SYNC_BIGINT:
		case SYNC_TEXT:
		case SYNC_JSON:
			return name_append(name, value->data, value->len);
		case SYNC_BLOB:
			if (!name_append(name, "\\x", 2))
				return false;
			for (uint32_t i = 0; i < value->len; i++)
			{
				unsigned char c = (unsigned char) value->data[i];
				char		digits[2] = {hex_digits[c >> 4], hex_digits[c & 0x0F]};

				if (!name_append(name, digits, 2))
					return false;
			}
			return true;
		default:
			return name_append(name, "null", 4);
	}
}

void
row_name(const SyncRowType *type, const SyncValue *values, char *text, size_t size)
{
	NameText	name = {.text = text, .size = size};

	text[0] = '\0';
	for (int i = 0; i < type->identity_count; i++)
	{
		const SyncString *column = &type->columns[type->identity[i]].name;

		if ((i > 0 && !name_append(&name, ", ", 2)) ||
			!name_append(&name, column->data, column->len) ||
			!name_append(&name, "=", 1) ||
			!name_append_value(&name, &values[type->identity[i]]))
			return;
	}
}
