/*-------------------------------------------------------------------------
 *
 * storage_dump.c
 *	  Conformance, kind "storage": the large files.
 *
 * A dump holds whole databases as Extended JSON, one after each step.  What
 * steps do to a database is tested with a real one elsewhere; here every
 * document must agree with itself: checksums, subkeys, keys, row copies,
 * lookups, names, sums, positions.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <string.h>

#include "bson_bytes.h"
#include "identity.h"
#include "lsn.h"
#include "rule_mapping.h"
#include "storage_dump.h"
#include "value.h"
#include "vectors.h"

static bool
text_is(SyncString text, const char *s)
{
	return sync_string_equal(text, literal(s));
}

static bool
text_begins(SyncString text, const char *s)
{
	return text.len >= strlen(s) && memcmp(text.data, s, strlen(s)) == 0;
}

bool
read_oid(SyncString hex, SourceTableId *oid)
{
	if (hex.len != 2 * SYNC_TABLE_LEN)
		return false;
	for (int i = 0; i < SYNC_TABLE_LEN; i++)
	{
		uint32_t	byte;

		if (!rule_id_parse((SyncString) {hex.data + 2 * i, 2}, &byte))
			return false;
		oid->bytes[i] = (uint8_t) byte;
	}
	return true;
}

int
find_row_column(const SyncRowType *type, SyncString name)
{
	for (int i = 0; i < type->column_count; i++)
		if (sync_string_equal(type->columns[i].name, name))
			return i;
	case_fail("the row has no column \"%.*s\"", (int) name.len, name.data);
	return 0;
}

/* the bytes of {"$binary": {base64, subType}} */
static SyncString
binary(const JsonNode *node, const char *subtype, SyncArena *arena)
{
	const JsonNode *inner = need(node, "$binary");

	check_text("binary subtype", as_text(need(inner, "subType")), literal(subtype));
	return from_base64(as_text(need(inner, "base64")), arena);
}

/* ---------------------------------------------------------------- operations */

/* "<24 hex>/<uuid>" */
static bool
read_subkey(SyncString subkey, SourceTableId *table, SourceKey *key)
{
	int			n = 0;

	if (subkey.len != SYNC_SUBKEY_LEN || !read_oid((SyncString) {subkey.data, 24}, table))
		return false;
	for (uint32_t i = 25; i + 1 < subkey.len && n < SYNC_KEY_LEN; i += 2)
	{
		uint32_t	byte;

		if (subkey.data[i] == '-')
			i++;
		if (!rule_id_parse((SyncString) {subkey.data + i, 2}, &byte))
			return false;
		key->bytes[n++] = (uint8_t) byte;
	}
	return n == SYNC_KEY_LEN;
}

/* the row's JSON must be what our reader and writer make of it */
static void
check_row_json(SyncString data, SyncArena *arena)
{
	SyncError	error;
	const JsonNode *root = json_parse(data, JSON_NUMBERS_EXACT, arena, &error);
	SyncBuffer	again;

	if (root == NULL)
	{
		case_fail("data: %s", error.message);
		return;
	}
	buffer_init(&again, arena, data.len);
	json_append_node(&again, root);
	check_text("data", buffer_string(&again), data);
}

/* an operation, stored or served: the two have other names for the same things */
static void
check_op(const JsonNode *op, const char *table_field, const char *id_field, SyncArena *arena)
{
	SyncString	kind = as_text(need(op, "op"));
	SyncString	subkey;
	SourceTableId table;
	SourceKey	key;
	char		again[SYNC_SUBKEY_LEN + 1];
	int64_t		checksum = as_int(need(op, "checksum"));

	if (!text_is(kind, "PUT") && !text_is(kind, "REMOVE"))
	{
		check_true("MOVE or CLEAR", text_is(kind, "MOVE") || text_is(kind, "CLEAR"));
		return;
	}
	subkey = as_text(need(op, "subkey"));
	if (!check_true("a subkey of table and uuid", read_subkey(subkey, &table, &key)))
		return;
	subkey_format(&table, &key, again);
	check_text("subkey", literal(again), subkey);
	if (has(op, "source_table"))
	{
		SourceTableId stored;
		SyncString	stored_key = binary(need(op, "source_key"), "04", arena);

		check_true("source table of the subkey",
				   read_oid(as_text(need(need(op, "source_table"), "$oid")), &stored) &&
				   memcmp(&stored, &table, sizeof(table)) == 0);
		check_bytes("source key of the subkey",
					(SyncString) {(const char *) key.bytes, SYNC_KEY_LEN}, stored_key);
	}
	if (text_is(kind, "PUT"))
	{
		check_int("PUT checksum",
				  checksum_put(as_text(need(op, table_field)), as_text(need(op, id_field)),
							   as_text(need(op, "data"))), checksum);
		check_row_json(as_text(need(op, "data")), arena);
	}
	else
	{
		check_int("REMOVE checksum", checksum_remove(&table, &key), checksum);
		check_true("a REMOVE has no data", is_null(need(op, "data")));
	}
}

/* the array at the end of a bucket's name is what its values give again */
static void
check_bucket_name(SyncString name, SyncArena *arena)
{
	const char *bracket = name.len > 0 ? memchr(name.data, '[', name.len) : NULL;
	SyncString	array;
	const JsonNode *root;
	SyncValue  *values;
	SyncBuffer	again;
	int			count = 0;

	if (!check_true("a bucket name has parameters", bracket != NULL))
		return;
	array = (SyncString) {bracket, name.len - (uint32_t) (bracket - name.data)};
	root = json_parse(array, JSON_NUMBERS_EXACT, arena, NULL);
	if (!check_true("a bucket name's parameters are JSON", root != NULL && root->kind == JSON_ARRAY))
		return;
	values = arena_array(arena, SyncValue, root->count);
	for (const JsonNode *node = root->first; node != NULL; node = node->next)
		values[count++] = json_node_raw_value(node, arena);
	buffer_init(&again, arena, name.len);
	json_append_bucket_parameters(&again, values, count);
	check_text("bucket name", buffer_string(&again), array);
}

/*
 * Sum and number of a bucket's operations up to an op id, in either layout;
 * bucket_data may be several collections.
 */
static int32_t
sum_bucket(const JsonNode *state, SyncString bucket, int64_t up_to, int64_t *count)
{
	int32_t		sum = 0;

	*count = 0;
	for (const JsonNode *collection = state->first; collection; collection = collection->next)
	{
		if (!text_begins(collection->key, "bucket_data") || collection->kind != JSON_ARRAY)
			continue;
		for (const JsonNode *doc = collection->first; doc != NULL; doc = doc->next)
		{
			const JsonNode *id = need(doc, "_id");

			if (!sync_string_equal(as_text(need(id, "b")), bucket))
				continue;
			if (has(doc, "ops"))
			{
				for (const JsonNode *op = member(doc, "ops")->first; op != NULL; op = op->next)
					if (as_int(need(op, "o")) <= up_to)
					{
						sum = checksum_sum(sum, as_int(need(op, "checksum")));
						++*count;
					}
			}
			else if (as_int(need(id, "o")) <= up_to)
			{
				sum = checksum_sum(sum, as_int(need(doc, "checksum")));
				++*count;
			}
		}
	}
	return sum;
}

static void
check_chunk(const JsonNode *chunk, SyncArena *arena)
{
	const JsonNode *ops = need(chunk, "ops");
	int64_t		sum = 0;
	int32_t		signed_sum = 0;
	int64_t		last = 0;

	for (const JsonNode *op = ops->first; op != NULL; op = op->next)
	{
		check_op(op, "table", "row_id", arena);
		check_true("ascending ops", as_int(need(op, "o")) > last);
		last = as_int(need(op, "o"));
		sum += as_int(need(op, "checksum"));
		signed_sum = checksum_sum(signed_sum, as_int(need(op, "checksum")));
	}
	check_int("chunk checksum", sum, as_int(need(chunk, "checksum")));
	check_int("chunk checksum, added to a sum", checksum_sum(0, as_int(need(chunk, "checksum"))),
			  signed_sum);
	check_int("chunk count", ops->count, as_int(need(chunk, "count")));
	check_int("last op", last, as_int(need(need(chunk, "_id"), "o")));
	check_int("first op", as_int(need(element(ops, 0), "o")), as_int(need(chunk, "min_op")));
}

/* ---------------------------------------------------------------- rows and lookups */

/* names of a table's identity columns, from its document anywhere in the file; NULL = unknown */
static const JsonNode *
identity_columns(const JsonNode *node, SyncString table)
{
	if (node->kind != JSON_ARRAY && node->kind != JSON_OBJECT)
		return NULL;
	if (has(node, "replica_id_columns") &&
		sync_string_equal(as_text(member(member(node, "_id"), "$oid")), table))
	{
		const JsonNode *columns = member(node, "replica_id_columns2");

		return columns != NULL ? columns : member(node, "replica_id_columns");
	}
	for (const JsonNode *child = node->first; child != NULL; child = child->next)
	{
		const JsonNode *found = identity_columns(child, table);

		if (found != NULL)
			return found;
	}
	return NULL;
}

/*
 * A stored row: encoded again it is the same bytes, and its identity columns
 * give the key it is stored under.
 */
static void
check_row_copy(SyncString copy, const JsonNode *identity, SyncString stored_key, SyncArena *arena)
{
	SyncRowType type = {0};
	SyncColumn *columns = arena_array(arena, SyncColumn, copy.len);
	SyncValue  *values = arena_array(arena, SyncValue, copy.len);
	SyncValue  *merged;
	int		   *positions;
	BsonReader	reader;
	BsonField	field;
	SourceKey	key;

	check_true("row copy is a document", bson_reader_init(&reader, copy));
	while (bson_reader_next(&reader, &field))
	{
		columns[type.column_count].name = field.name;
		values[type.column_count++] = field.value;
	}
	check_true("row copy is well formed", !reader.failed);
	type.columns = columns;
	check_bytes("row copy", row_copy_encode(&type, values, arena), copy);
	merged = arena_array(arena, SyncValue, type.column_count);
	check_true("row copy is merged", row_copy_merge(copy, &type, merged, arena));
	if (type.column_count == 0)
		return;					/* such tables keep no copy */

	if (!check_true("the row's table is known", identity != NULL))
		return;
	positions = arena_array(arena, int, identity->count);
	for (const JsonNode *column = identity->first; column != NULL; column = column->next)
		positions[type.identity_count++] = find_row_column(&type, as_text(need(column, "name")));
	type.identity = positions;
	source_key_of_row(&type, values, arena, &key);
	check_bytes("key of the row", (SyncString) {(const char *) key.bytes, SYNC_KEY_LEN},
				stored_key);
}

/* a lookup's values give its bytes again */
static void
check_lookup(SyncString bytes, bool with_name, SyncArena *arena)
{
	SyncValue  *values = arena_array(arena, SyncValue, bytes.len);
	BsonReader	reader;
	BsonField	field;
	SyncString	again;
	int			count = 0;

	/* length, type of array, "l", NUL; the array; NUL */
	if (!check_true("lookup is a document", bytes.len > 13 && bytes.data[4] == 4 &&
					bson_reader_init(&reader, (SyncString) {bytes.data + 7, bytes.len - 8})))
		return;
	while (bson_reader_next(&reader, &field))
		values[count++] = field.value;
	check_true("lookup is well formed", !reader.failed);
	if (!with_name)
		again = bson_lookup_values(values, count, arena);
	else if (check_true("lookup has a name", count >= 2 && values[0].type == SYNC_TEXT &&
						values[1].type == SYNC_TEXT))
		again = bson_lookup((SyncString) {values[0].data, values[0].len},
							(SyncString) {values[1].data, values[1].len},
							values + 2, count - 2, arena);
	else
		return;
	check_bytes("lookup", again, bytes);
}

static void
check_row_state(const JsonNode *doc, const JsonNode *root, SyncString table, SyncString key,
				SyncArena *arena)
{
	const JsonNode *data = need(doc, "data");

	if (!is_null(data))
		check_row_copy(binary(data, "00", arena), identity_columns(root, table), key, arena);
	for (const JsonNode *ref = need(doc, "buckets")->first; ref != NULL; ref = ref->next)
		check_bucket_name(as_text(need(ref, "bucket")), arena);
	for (const JsonNode *lookup = need(doc, "lookups")->first; lookup; lookup = lookup->next)
	{
		if (has(lookup, "l"))
			check_lookup(binary(member(lookup, "l"), "00", arena), false, arena);
		else
			check_lookup(binary(lookup, "00", arena), true, arena);
	}
}

/* every member whose name is that of a position */
static void
check_positions(const JsonNode *node)
{
	static const char *const names[] = {
		"last_checkpoint_lsn", "no_checkpoint_before", "snapshot_lsn", "resume_lsn",
		"processed_at_lsn", "lsn", "1"
	};

	for (const JsonNode *child = node->first; child != NULL; child = child->next)
	{
		char		again[LSN_TEXT_LEN + 1];
		uint64_t	lsn;

		if (child->kind == JSON_ARRAY || text_is(child->key, "lsns"))
			check_positions(child);
		for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		{
			if (child->kind != JSON_STRING || !text_is(child->key, names[i]))
				continue;
			if (!check_true("a position", lsn_parse(as_text(child), &lsn)))
				continue;
			lsn_format(lsn, again);
			check_text("position", literal(again), as_text(child));
		}
	}
}

/* ---------------------------------------------------------------- dumps */

/* the documents of one collection, each a case; collections without anything to check have none */
static void
run_collection(const char *name, SyncString step, const JsonNode *state,
			   const JsonNode *collection, const JsonNode *root, SyncArena *arena)
{
	SyncString	key = collection->key;
	int			number = 0;

	for (const JsonNode *doc = collection->first; doc != NULL; doc = doc->next)
	{
		case_begin("%s %.*s: %.*s %d", name, (int) step.len, step.data,
				   (int) key.len, key.data, ++number);
		if (text_begins(key, "bucket_data"))
		{
			check_bucket_name(as_text(need(need(doc, "_id"), "b")), arena);
			if (has(doc, "ops"))
				check_chunk(doc, arena);
			else
				check_op(doc, "table", "row_id", arena);
		}
		else if (text_is(key, "bucket_parameters") || text_begins(key, "parameter_index_"))
			check_lookup(binary(need(doc, "lookup"), "00", arena),
						 text_is(key, "bucket_parameters"), arena);
		else if (text_is(key, "current_data"))
		{
			const JsonNode *id = need(doc, "_id");

			check_row_state(doc, root, as_text(need(need(id, "t"), "$oid")),
							binary(need(id, "k"), "04", arena), arena);
		}
		else if (text_begins(key, "source_records_") && key.len > 24)
			check_row_state(doc, root, (SyncString) {key.data + key.len - 24, 24},
							binary(need(doc, "_id"), "04", arena), arena);
		else if (text_begins(key, "bucket_state"))
		{
			SyncString	bucket = as_text(need(need(doc, "_id"), "b"));
			const JsonNode *compacted = member(doc, "compacted_state");
			int64_t		count;

			check_bucket_name(bucket, arena);
			if (compacted != NULL)
				check_int("compacted checksum",
						  sum_bucket(state, bucket, as_int(need(compacted, "op_id")), &count),
						  as_int(need(compacted, "checksum")));
		}
		else if (text_is(key, "sync_rules") || text_is(key, "write_checkpoints"))
			check_positions(doc);
		else
			continue;
		case_end();
	}
}

static void
run_state(const char *name, SyncString step, const JsonNode *state, const JsonNode *root,
		  SyncArena *arena)
{
	for (const JsonNode *child = state->first; child != NULL; child = child->next)
		if (child->kind == JSON_ARRAY)
			run_collection(name, step, state, child, root, arena);
}

/* what readers were told of the buckets, against the database and against what they were sent */
static void
run_served(const char *name, const JsonNode *root, const char *checksums_name,
		   const char *data_name, const char *state_name, SyncArena *arena)
{
	const JsonNode *checksums = member(root, checksums_name);
	const JsonNode *data = member(root, data_name);
	const JsonNode *state = member(root, state_name);
	bool		cut = false;
	int64_t		checkpoint = as_int(member(member(root, "checkpoint"), "checkpoint"));

	if (checksums == NULL || data == NULL)
		return;
	/* a read that was cut short: buckets that are missing were not sent */
	for (const JsonNode *chunk = data->first; chunk != NULL; chunk = chunk->next)
		cut |= has(chunk, "hasMore");
	for (const JsonNode *entry = checksums->first; entry != NULL; entry = entry->next)
	{
		SyncString	bucket = as_text(need(entry, "bucket"));
		int32_t		sum = 0;
		int64_t		count = 0;
		bool		sent = false;

		case_begin("%s %s: %.*s", name, checksums_name, (int) bucket.len, bucket.data);
		for (const JsonNode *chunk = data->first; chunk != NULL; chunk = chunk->next)
		{
			const JsonNode *line = member(chunk, "chunkData");

			if (line == NULL || !sync_string_equal(as_text(need(line, "bucket")), bucket))
				continue;
			sent = true;
			for (const JsonNode *op = need(line, "data")->first; op != NULL; op = op->next)
			{
				check_op(op, "object_type", "object_id", arena);
				sum = checksum_sum(sum, as_int(need(op, "checksum")));
				count++;
			}
		}
		if (sent || !cut)
		{
			check_int("sum of what was sent", sum, as_int(need(entry, "checksum")));
			check_int("number of ops sent", count, as_int(need(entry, "count")));
		}
		if (state != NULL)
		{
			check_int("sum of what is stored", sum_bucket(state, bucket, checkpoint, &count),
					  as_int(need(entry, "checksum")));
			check_int("number of ops stored", count, as_int(need(entry, "count")));
		}
		case_end();
	}
}

void
run_scenario(const char *name, const JsonNode *root, SyncArena *arena)
{
	const JsonNode *steps = member(root, "steps");
	int			number = 0;

	if (steps != NULL)
	{
		for (const JsonNode *step = steps->first; step != NULL; step = step->next)
		{
			char		title[32];

			snprintf(title, sizeof(title), "step %d", ++number);
			run_state(name, literal(title), step, root, arena);
		}
	}
	for (const JsonNode *child = root->first; child != NULL; child = child->next)
		if (text_begins(child->key, "after_") && child->kind == JSON_OBJECT)
			run_state(name, child->key, child, root, arena);
	run_served(name, root, "checksums", "data", "after_custom", arena);
	run_served(name, root, "checksums_after_compact", "data_after_compact", "after_compact", arena);
}

/* ---------------------------------------------------------------- sync lines */

/* what a client knows of a bucket */
typedef struct ClientBucket
{
	SyncString	name;
	int32_t		sum;
	int64_t		count;
	bool		expected;		/* named in the last checkpoint */
	int64_t		expected_sum;
	int64_t		expected_count;
} ClientBucket;

#define MAX_BUCKETS 1000

static ClientBucket *
client_bucket(ClientBucket *buckets, int *count, SyncString name)
{
	for (int i = 0; i < *count; i++)
		if (sync_string_equal(buckets[i].name, name))
			return &buckets[i];
	if (*count == MAX_BUCKETS)
		case_fail("too many buckets");
	else
		++*count;
	buckets[*count - 1] = (ClientBucket) {.name = name};
	return &buckets[*count - 1];
}

static void
expect_buckets(ClientBucket *buckets, int *count, const JsonNode *entries)
{
	for (const JsonNode *entry = entries->first; entry != NULL; entry = entry->next)
	{
		ClientBucket *bucket = client_bucket(buckets, count, as_text(need(entry, "bucket")));

		bucket->expected = true;
		bucket->expected_sum = as_int(need(entry, "checksum"));
		bucket->expected_count = as_int(need(entry, "count"));
	}
}

void
run_sync_lines(const char *name, const JsonNode *lines, SyncArena *arena)
{
	ClientBucket *buckets = arena_array(arena, ClientBucket, MAX_BUCKETS);
	int			count = 0;
	int			number = 0;

	for (const JsonNode *line = lines->first; line != NULL; line = line->next)
	{
		const JsonNode *part;

		case_begin("%s line %d", name, ++number);
		if ((part = member(line, "checkpoint")) != NULL)
		{
			for (int i = 0; i < count; i++)
				buckets[i].expected = false;
			expect_buckets(buckets, &count, need(part, "buckets"));
		}
		else if ((part = member(line, "checkpoint_diff")) != NULL)
		{
			expect_buckets(buckets, &count, need(part, "updated_buckets"));
			for (const JsonNode *gone = need(part, "removed_buckets")->first; gone != NULL;
				 gone = gone->next)
				*client_bucket(buckets, &count, as_text(gone)) =
					(ClientBucket) {.name = as_text(gone)};
		}
		else if ((part = member(line, "data")) != NULL)
		{
			ClientBucket *bucket = client_bucket(buckets, &count, as_text(need(part, "bucket")));

			check_bucket_name(bucket->name, arena);
			for (const JsonNode *op = need(part, "data")->first; op != NULL; op = op->next)
			{
				check_op(op, "object_type", "object_id", arena);
				if (text_is(as_text(need(op, "op")), "CLEAR"))
				{
					bucket->sum = 0;
					bucket->count = 0;
				}
				bucket->sum = checksum_sum(bucket->sum, as_int(need(op, "checksum")));
				bucket->count++;
			}
		}
		else if (has(line, "checkpoint_complete"))
		{
			for (int i = 0; i < count; i++)
				if (buckets[i].expected)
				{
					check_int("sum of a bucket", buckets[i].sum, buckets[i].expected_sum);
					check_int("ops of a bucket", buckets[i].count, buckets[i].expected_count);
				}
		}
		case_end();
	}
}

/* ---------------------------------------------------------------- rule mappings */

/* compact text of a node without members that are null: absent means the same */
static void
append_without_nulls(SyncBuffer *buffer, const JsonNode *node)
{
	bool		first = true;

	if (node->kind != JSON_ARRAY && node->kind != JSON_OBJECT)
	{
		json_append_node(buffer, node);
		return;
	}
	buffer_append_char(buffer, node->kind == JSON_ARRAY ? '[' : '{');
	for (const JsonNode *child = node->first; child != NULL; child = child->next)
	{
		if (node->kind == JSON_OBJECT && child->kind == JSON_NULL)
			continue;
		if (!first)
			buffer_append_char(buffer, ',');
		first = false;
		if (node->kind == JSON_OBJECT)
		{
			json_append_text(buffer, child->key.data, child->key.len);
			buffer_append_char(buffer, ':');
		}
		append_without_nulls(buffer, child);
	}
	buffer_append_char(buffer, node->kind == JSON_ARRAY ? ']' : '}');
}

static SyncString
node_identity(const JsonNode *node, SyncArena *arena)
{
	SyncBuffer	buffer;

	buffer_init(&buffer, arena, 256);
	append_without_nulls(&buffer, node);
	return buffer_string(&buffer);
}

/* a bucket: hash, name, and its data sources in whatever order */
static SyncString
bucket_identity(const JsonNode *bucket, const JsonNode *sources, SyncArena *arena)
{
	const JsonNode *list = need(bucket, "sources");
	RuleId	   *texts = arena_array(arena, RuleId, list->count);
	int			count = 0;
	SyncBuffer	buffer;

	for (const JsonNode *index = list->first; index != NULL; index = index->next)
	{
		const JsonNode *source = element(sources, (uint32_t) as_int(index));

		if (check_true("a bucket's data source", source != NULL))
			texts[count++].name = node_identity(source, arena);
	}
	rule_ids_sort(texts, count);
	buffer_init(&buffer, arena, 256);
	buffer_append_int(&buffer, as_int(need(bucket, "hash")));
	for (int i = 0; i < count; i++)
		buffer_append(&buffer, texts[i].name.data, texts[i].name.len);
	return buffer_string(&buffer);
}

typedef struct RuleSet
{
	RuleId	   *rules;
	int			count;
} RuleSet;

static RuleSet
plan_buckets(const JsonNode *plan, SyncArena *arena)
{
	const JsonNode *list = need(plan, "buckets");
	RuleSet		set = {arena_array(arena, RuleId, list->count), 0};

	for (const JsonNode *bucket = list->first; bucket != NULL; bucket = bucket->next)
		set.rules[set.count++] = (RuleId) {
			.name = as_text(need(bucket, "uniqueName")),
			.identity = bucket_identity(bucket, need(plan, "dataSources"), arena)
		};
	return set;
}

static RuleSet
plan_indexes(const JsonNode *plan, SyncArena *arena)
{
	const JsonNode *list = need(plan, "parameterIndexes");
	RuleSet		set = {arena_array(arena, RuleId, list->count), 0};

	for (const JsonNode *index = list->first; index != NULL; index = index->next)
	{
		const JsonNode *scope = need(index, "lookupScope");
		SyncString	name = as_text(need(scope, "lookupName"));
		SyncString	query = as_text(need(scope, "queryId"));
		SyncBuffer	buffer;

		buffer_init(&buffer, arena, 16);
		buffer_append(&buffer, name.data, name.len);
		buffer_append_char(&buffer, '#');
		buffer_append(&buffer, query.data, query.len);
		set.rules[set.count++] = (RuleId) {
			.name = buffer_string(&buffer),
			.identity = node_identity(index, arena)
		};
	}
	return set;
}

/* the rules' ids are exactly those of {name: id, ...} */
static void
check_ids(RuleSet set, const JsonNode *expected)
{
	check_int("number of ids", set.count, expected->count);
	for (int i = 0; i < set.count; i++)
	{
		char		text[RULE_ID_LEN];
		int			len = rule_id_format(set.rules[i].id, text);
		const JsonNode *id = json_member(expected, set.rules[i].name);

		if (id == NULL)
			case_fail("no id of \"%.*s\" is expected", (int) set.rules[i].name.len,
					  set.rules[i].name.data);
		else
			check_text("id", (SyncString) {text, (uint32_t) len}, as_text(id));
	}
}

/* raises *highest to the ids of {name: id, ...} and gives the rules those ids */
static void
take_ids(RuleSet *set, const JsonNode *ids, uint32_t *highest)
{
	uint32_t	id;

	for (const JsonNode *node = ids->first; node != NULL; node = node->next)
	{
		if (check_true("an id", rule_id_parse(as_text(node), &id)) && id > *highest)
			*highest = id;
		for (int i = 0; set != NULL && i < set->count; i++)
			if (sync_string_equal(set->rules[i].name, node->key))
				set->rules[i].id = id;
	}
}

/* a new stream: names in the order that its kind of rules says */
static void
run_fresh(const JsonNode *vector, const char *part, SyncArena *arena)
{
	const JsonNode *expected = need(need(vector, "expect"), part);
	RuleSet		set = {arena_array(arena, RuleId, expected->count), 0};
	uint32_t	highest = 0;

	for (const JsonNode *node = expected->first; node != NULL; node = node->next)
		set.rules[set.count++].name = node->key;
	if (text_is(as_text(need(vector, "kind")), "legacy"))
	{
		/* not in the order they come out */
		for (int i = 0; i < set.count / 2; i++)
		{
			RuleId		swap = set.rules[i];

			set.rules[i] = set.rules[set.count - 1 - i];
			set.rules[set.count - 1 - i] = swap;
		}
		rule_ids_sort(set.rules, set.count);
	}
	rule_ids_assign(set.rules, set.count, NULL, 0, &highest);
	check_ids(set, expected);
}

/* the plan a config's name or its beginning stands for */
static const JsonNode *
plan_of(const JsonNode *root, const JsonNode *config)
{
	SyncString	name = as_text(config);
	const JsonNode *plans = need(root, "plans");

	for (const JsonNode *plan = plans->first; plan != NULL; plan = plan->next)
		if (name.len >= plan->key.len && memcmp(name.data, plan->key.data, plan->key.len) == 0)
			return need(plan, "plan");

	/* "back to rules1 on rules3": the first name in it */
	for (uint32_t i = 0; i < name.len; i++)
		for (const JsonNode *plan = plans->first; plan != NULL; plan = plan->next)
			if (name.len - i >= plan->key.len &&
				memcmp(name.data + i, plan->key.data, plan->key.len) == 0)
				return need(plan, "plan");
	case_fail("the vector's config has no plan");
	return plans;
}

/* the ids that are new, or not, are exactly those of [{type, name, id}, ...] */
static void
check_listed(RuleSet set, uint32_t last_old, bool is_new, const JsonNode *list, const char *type)
{
	int			count = 0;

	for (const JsonNode *node = list->first; node != NULL; node = node->next)
	{
		uint32_t	id = 0;
		bool		found = false;

		if (!text_is(as_text(need(node, "type")), type))
			continue;
		count++;
		check_true("an id", rule_id_parse(as_text(need(node, "id")), &id));
		for (int i = 0; i < set.count; i++)
			found |= set.rules[i].id == id &&
				sync_string_equal(set.rules[i].name, as_text(need(node, "name")));
		check_true(is_new ? "an added rule has its id" : "a reused rule has its id", found);
		check_true("added and reused ids are told apart", is_new == (id > last_old));
	}
	for (int i = 0; i < set.count; i++)
		count -= is_new == (set.rules[i].id > last_old);
	check_int("number of ids too many in a list", count, 0);
}

/* a redeploy: one half of the mapping, definitions or indexes */
static void
run_incremental(const JsonNode *vector, const JsonNode *root, const char *part, const char *type,
				RuleSet (*rules_of) (const JsonNode *plan, SyncArena *arena), SyncArena *arena)
{
	RuleSet		set = rules_of(plan_of(root, need(vector, "new_config")), arena);
	const JsonNode *compatible = need(vector, "compatible_configs");
	const JsonNode *expect = need(vector, "expect");
	RuleSet		known = {0};
	uint32_t	highest = 0;
	uint32_t	last_old;

	for (const JsonNode *config = compatible->first; config != NULL; config = config->next)
	{
		RuleSet		other = rules_of(plan_of(root, need(config, "config")), arena);

		take_ids(&other, need(need(config, "rule_mapping"), part), &highest);
		known.rules = arena_grow(arena, known.rules, (size_t) known.count * sizeof(RuleId),
								 (size_t) (known.count + other.count) * sizeof(RuleId));
		memcpy(known.rules + known.count, other.rules, (size_t) other.count * sizeof(RuleId));
		known.count += other.count;
	}
	for (const JsonNode *old = need(vector, "reserved_mappings")->first; old; old = old->next)
		take_ids(NULL, need(old, part), &highest);
	last_old = highest;
	rule_ids_assign(set.rules, set.count, known.rules, known.count, &highest);
	check_ids(set, need(need(expect, "rule_mapping"), part));
	check_listed(set, last_old, true, need(expect, "added"), type);
	check_listed(set, last_old, false, need(expect, "reused"), type);
}

void
run_rule_mapping(const char *name, const JsonNode *root, SyncArena *arena)
{
	const JsonNode *list = member(root, "fresh");
	int			number = 0;

	for (const JsonNode *node = list != NULL ? list->first : NULL; node; node = node->next)
	{
		case_begin("%s fresh %d", name, ++number);
		run_fresh(node, "definitions", arena);
		run_fresh(node, "parameter_indexes", arena);
		case_end();
	}
	list = member(root, "incremental");
	for (const JsonNode *node = list != NULL ? list->first : NULL; node; node = node->next)
	{
		SyncString	label = as_text(need(node, "label"));

		case_begin("%s %.*s", name, (int) label.len, label.data);
		run_incremental(node, root, "definitions", "bucket_data", plan_buckets, arena);
		run_incremental(node, root, "parameter_indexes", "parameter_lookup", plan_indexes, arena);
		case_end();
	}
}
