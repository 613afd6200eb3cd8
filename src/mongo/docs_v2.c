/*-------------------------------------------------------------------------
 *
 * docs_v2.c
 *	  Documents of storage version 2 (contract 1.1, 4.1, 7.2): bucket_data,
 *	  bucket_parameters, bucket_state, and the position in sync_rules.
 *
 * Field order and number types are the contract: op ids and checksums int64,
 * stream ids and counts int32, keys binary subtype 4.
 *
 * Invariant: every op changes bucket_state of its bucket in the same set.
 *
 *-------------------------------------------------------------------------
 */
#include "mongo/docs_v2.h"

#include <inttypes.h>
#include <string.h>

/* contract 3.5: what an operation weighs beside its JSON, in estimates */
#define OP_BYTES			200
/* more than a data document's fixed part: names, subkey, numbers */
#define DATA_OVERHEAD		512
#define PARAMETER_OVERHEAD	256

static size_t
operation_size(const BucketOp *op)
{
	if (op->kind == BUCKET_OP_PARAMETERS)
		return PARAMETER_OVERHEAD + (size_t) op->lookup.len + op->rows.len;
	return DATA_OVERHEAD + (size_t) op->bucket.len + op->table.len + op->row_id.len +
		op->json.len;
}

static void
append_text(bson_t *document, const char *name, SyncString text)
{
	bson_append_utf8(document, name, -1, text.len > 0 ? text.data : "", (int) text.len);
}

static void
append_key(bson_t *document, const char *name, const SourceKey *key)
{
	bson_append_binary(document, name, -1, BSON_SUBTYPE_UUID, key->bytes, SYNC_KEY_LEN);
}

static bson_t *
data_document(int32_t stream_id, const BucketOp *op, int64_t op_id)
{
	bson_t	   *document = bson_sized_new(operation_size(op));
	bool		put = op->kind == BUCKET_OP_PUT;
	char		subkey[SYNC_SUBKEY_LEN + 1];
	bson_t		id;

	BSON_APPEND_DOCUMENT_BEGIN(document, "_id", &id);
	BSON_APPEND_INT32(&id, "g", stream_id);
	append_text(&id, "b", op->bucket);
	BSON_APPEND_INT64(&id, "o", op_id);
	bson_append_document_end(document, &id);
	BSON_APPEND_UTF8(document, "op", put ? "PUT" : "REMOVE");
	append_source_table_id(document, "source_table", &op->source_table);
	append_key(document, "source_key", &op->source_key);
	subkey_format(&op->source_table, &op->source_key, subkey);
	bson_append_utf8(document, "subkey", -1, subkey, SYNC_SUBKEY_LEN);
	append_text(document, "table", op->table);
	append_text(document, "row_id", op->row_id);
	BSON_APPEND_INT64(document, "checksum", op->checksum);
	if (put)
		append_text(document, "data", op->json);
	else
		BSON_APPEND_NULL(document, "data");
	BSON_APPEND_NULL(document, "target_op");
	return document;
}

static bson_t *
parameter_document(int32_t stream_id, const BucketOp *op, int64_t op_id)
{
	bson_t	   *document = bson_sized_new(operation_size(op));
	bson_t		key;
	bson_t		rows;

	BSON_APPEND_INT64(document, "_id", op_id);
	BSON_APPEND_DOCUMENT_BEGIN(document, "key", &key);
	BSON_APPEND_INT32(&key, "g", stream_id);
	append_source_table_id(&key, "t", &op->source_table);
	append_key(&key, "k", &op->source_key);
	bson_append_document_end(document, &key);
	bson_append_binary(document, "lookup", -1, BSON_SUBTYPE_BINARY,
					   (const uint8_t *) op->lookup.data, op->lookup.len);
	if (op->rows.len < 5 || !bson_init_static(&rows, (const uint8_t *) op->rows.data, op->rows.len))
		bson_init(&rows);
	BSON_APPEND_ARRAY(document, "bucket_parameters", &rows);
	return document;
}

/* ---------------------------------------------------------------- bucket_state */

/* what one flush does to one bucket */
typedef struct BucketChange
{
	SyncString	bucket;
	int64_t		last_op;
	int64_t		count;
	int64_t		bytes;
} BucketChange;

/* open addressing by name; slots hold position + 1 in changes */
typedef struct BucketTable
{
	BucketChange *changes;
	size_t		count;
	uint32_t   *slots;
	size_t		mask;
} BucketTable;

static uint64_t
hash_name(SyncString name)
{
	uint64_t	hash = UINT64_C(14695981039346656037);

	for (uint32_t i = 0; i < name.len; i++)
		hash = (hash ^ (uint8_t) name.data[i]) * UINT64_C(1099511628211);
	return hash ^ (hash >> 32);
}

/* count: upper bound of buckets */
static void
bucket_table_init(BucketTable *table, size_t count)
{
	size_t		size = 16;

	while (size < count * 2)
		size *= 2;
	table->changes = bson_malloc(sizeof(BucketChange) * (count ? count : 1));
	table->slots = bson_malloc0(sizeof(uint32_t) * size);
	table->mask = size - 1;
	table->count = 0;
}

static void
bucket_table_destroy(BucketTable *table)
{
	bson_free(table->changes);
	bson_free(table->slots);
}

static BucketChange *
bucket_table_get(BucketTable *table, SyncString bucket)
{
	BucketChange *change;
	size_t		slot = hash_name(bucket) & table->mask;

	for (; table->slots[slot] != 0; slot = (slot + 1) & table->mask)
	{
		change = &table->changes[table->slots[slot] - 1];
		if (sync_string_equal(change->bucket, bucket))
			return change;
	}
	change = &table->changes[table->count++];
	table->slots[slot] = (uint32_t) table->count;
	*change = (BucketChange) {.bucket = bucket};
	return change;
}

/* int32 as the service writes it, while it fits */
static void
append_increment(bson_t *document, const char *name, int64_t value)
{
	if (value <= INT32_MAX)
		BSON_APPEND_INT32(document, name, (int32_t) value);
	else
		BSON_APPEND_INT64(document, name, value);
}

static void
add_bucket_change(DocumentGroup *group, int32_t stream_id, const BucketChange *change)
{
	bson_t	   *filter = bson_sized_new(64 + change->bucket.len);
	bson_t	   *update = bson_sized_new(128);
	bson_t		part;

	BSON_APPEND_DOCUMENT_BEGIN(filter, "_id", &part);
	BSON_APPEND_INT32(&part, "g", stream_id);
	append_text(&part, "b", change->bucket);
	bson_append_document_end(filter, &part);
	BSON_APPEND_DOCUMENT_BEGIN(update, "$set", &part);
	BSON_APPEND_INT64(&part, "last_op", change->last_op);
	bson_append_document_end(update, &part);
	BSON_APPEND_DOCUMENT_BEGIN(update, "$inc", &part);
	append_increment(&part, "estimate_since_compact.count", change->count);
	append_increment(&part, "estimate_since_compact.bytes", change->bytes);
	bson_append_document_end(update, &part);
	document_group_add(group, filter, update);
}

static bool
operations(DocumentSet *set, int32_t stream_id, const BucketOp *ops, size_t count,
		   int64_t first_op_id)
{
	DocumentGroup *data = document_set_group(set, COLLECTION_DATA, false);
	DocumentGroup *parameters = document_set_group(set, COLLECTION_PARAMETERS, false);
	DocumentGroup *buckets = document_set_group(set, COLLECTION_BUCKETS, true);
	BucketTable table;

	if (data == NULL || parameters == NULL || buckets == NULL)
		return false;
	bucket_table_init(&table, count);
	for (size_t i = 0; i < count; i++)
	{
		int64_t		op_id = first_op_id + (int64_t) i;
		BucketChange *change;

		if (ops[i].kind == BUCKET_OP_PARAMETERS)
		{
			document_group_add(parameters, NULL, parameter_document(stream_id, &ops[i], op_id));
			continue;
		}
		document_group_add(data, NULL, data_document(stream_id, &ops[i], op_id));
		change = bucket_table_get(&table, ops[i].bucket);
		change->last_op = op_id;
		change->count++;
		change->bytes += OP_BYTES + (ops[i].kind == BUCKET_OP_PUT ? ops[i].json.len : 0);
	}
	for (size_t i = 0; i < table.count; i++)
		add_bucket_change(buckets, stream_id, &table.changes[i]);
	bucket_table_destroy(&table);
	return true;
}

/* ---------------------------------------------------------------- position */

/* $max in a pipeline ignores null: the field is only ever raised */
static void
append_raised_lsn(bson_t *set, const char *name, const char *path, uint64_t lsn)
{
	bson_t		value;
	bson_t		operands;

	BSON_APPEND_DOCUMENT_BEGIN(set, name, &value);
	BSON_APPEND_ARRAY_BEGIN(&value, "$max", &operands);
	BSON_APPEND_UTF8(&operands, "0", path);
	append_lsn(&operands, "1", lsn);
	bson_append_array_end(&value, &operands);
	bson_append_document_end(set, &value);
}

static void
position(bson_t *set, const StreamPosition *from, const StreamPosition *to, bool checkpoint)
{
	char		text[24];

	if (to->snapshot_done && !from->snapshot_done)
		BSON_APPEND_BOOL(set, "snapshot_done", true);
	if (checkpoint)
	{
		BSON_APPEND_INT64(set, "last_checkpoint", to->last_checkpoint);
		append_lsn(set, "last_checkpoint_lsn", to->last_checkpoint_lsn);
		BSON_APPEND_UTF8(set, "last_checkpoint_ts", "$$NOW");
	}
	append_lsn_or_null(set, "snapshot_lsn", to->snapshot_lsn);
	if (to->no_checkpoint_before > from->no_checkpoint_before)
		append_raised_lsn(set, "no_checkpoint_before", "$no_checkpoint_before",
						  to->no_checkpoint_before);
	if (to->keepalive_op < 0)
		BSON_APPEND_NULL(set, "keepalive_op");
	else
	{
		snprintf(text, sizeof(text), "%" PRId64, to->keepalive_op);
		BSON_APPEND_UTF8(set, "keepalive_op", text);
	}
	BSON_APPEND_UTF8(set, "last_keepalive_ts", "$$NOW");
	BSON_APPEND_NULL(set, "last_fatal_error");
	BSON_APPEND_NULL(set, "last_fatal_error_ts");
}

const StorageFormat storage_format_v2 = {
	.version = 2,
	.operation_size = operation_size,
	.operations = operations,
	.position = position
};
