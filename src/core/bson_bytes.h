/*-------------------------------------------------------------------------
 *
 * bson_bytes.h
 *	  BSON as bytes that are hashed, compared or kept: identities, lookups,
 *	  parameter rows, row copies.
 *
 * MongoDB documents as such are made with libbson, in src/mongo.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGSYNC_BSON_BYTES_H
#define PGSYNC_BSON_BYTES_H

#include "core.h"

/*
 * libbson exports functions of these names.  In one library with it ours would
 * take their place, or they ours; so the symbols differ.  A file that includes
 * bson.h must not include this header.
 */
#define bson_append_null sync_bson_append_null
#define bson_append_bool sync_bson_append_bool
#define bson_append_int32 sync_bson_append_int32
#define bson_append_int64 sync_bson_append_int64
#define bson_append_double sync_bson_append_double
#define bson_append_binary sync_bson_append_binary
#define bson_append_oid sync_bson_append_oid
#define bson_append_value sync_bson_append_value

/* ---------------------------------------------------------------- writing */

/*
 * Documents nest: every begin gives a mark that its end needs.  Names must not
 * hold NUL; what follows one is left out.
 */
extern size_t bson_begin(SyncBuffer *buffer);
extern void bson_end(SyncBuffer *buffer, size_t mark);
extern size_t bson_begin_document(SyncBuffer *buffer, SyncString name);
extern size_t bson_begin_array(SyncBuffer *buffer, SyncString name);

extern void bson_append_null(SyncBuffer *buffer, SyncString name);
extern void bson_append_bool(SyncBuffer *buffer, SyncString name, bool value);
extern void bson_append_int32(SyncBuffer *buffer, SyncString name, int32_t value);
extern void bson_append_int64(SyncBuffer *buffer, SyncString name, int64_t value);
extern void bson_append_double(SyncBuffer *buffer, SyncString name, double value);
/* lone surrogates become U+FFFD */
extern void bson_append_text(SyncBuffer *buffer, SyncString name, SyncString value);
extern void bson_append_binary(SyncBuffer *buffer, SyncString name, uint8_t subtype,
							   const void *data, size_t len);
extern void bson_append_oid(SyncBuffer *buffer, SyncString name, const uint8_t oid[12]);

/*
 * A value in the typing of storage-contract.md 3.4: INTEGER int64 (low 64 bits
 * of a BIGINT), REAL int32 when it is integral, within int32 and not -0, else
 * double; undefined is left out.  SYNC_JSON becomes the nested BSON it stands
 * for.
 */
extern void bson_append_value(SyncBuffer *buffer, SyncString name, SyncValue value);

/* name of an array element; the text is in place, good until the next call with it */
typedef struct BsonIndexName
{
	char		digits[12];
} BsonIndexName;
extern SyncString bson_index_name(BsonIndexName *name, uint32_t index);

/*
 * Lookup {l: [name, query id, values...]} (storage-contract.md, 5): values are
 * normalised here.
 */
extern SyncString bson_lookup(SyncString name, SyncString query_id, const SyncValue *values,
							  int count, SyncArena *arena);

/* the same for storage 3, where the index id is the collection's: {l: [values...]} */
extern SyncString bson_lookup_values(const SyncValue *values, int count, SyncArena *arena);

/* ---------------------------------------------------------------- reading */

/*
 * Appends a document, or an array, as JSON for people to read: numbers as in
 * sync-rules.md 8.2, binary data in hexadecimal.  What cannot be read ends it.
 */
extern void bson_append_json(SyncBuffer *buffer, SyncString bytes, bool is_array);

typedef enum BsonType
{
	BSON_BYTES_DOUBLE = 0x01,
	BSON_BYTES_TEXT = 0x02,
	BSON_BYTES_BINARY = 0x05,
	BSON_BYTES_NULL = 0x0A,
	BSON_BYTES_INT32 = 0x10,
	BSON_BYTES_INT64 = 0x12
} BsonType;

typedef struct BsonReader
{
	const char *next;
	const char *end;			/* the document's final NUL */
	bool		failed;
} BsonReader;

typedef struct BsonField
{
	SyncString	name;
	BsonType	type;
	SyncValue	value;			/* by storage-contract.md 4.3: int64 is INTEGER, int32 and
								 * double are REAL; texts and blobs share the bytes read */
} BsonField;

/* false: these bytes are not one document */
extern bool bson_reader_init(BsonReader *reader, SyncString bytes);

/*
 * Next field.  False at the end and when what follows is not a well-formed
 * field of one of the types above; then failed says so.
 */
extern bool bson_reader_next(BsonReader *reader, BsonField *field);

#endif							/* PGSYNC_BSON_BYTES_H */
