/*-------------------------------------------------------------------------
 *
 * storage.c
 *	  Conformance, kind "storage": checksums, identities, lookups, names, LSNs,
 *	  sums, BSON, and the documents of whole databases.
 *
 * Files are told apart by what is in them.  In a database dump every document
 * is a case: whatever in it follows from the rest of it is computed again.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>

#include "bson_bytes.h"
#include "identity.h"
#include "lsn.h"
#include "rule_mapping.h"
#include "storage_dump.h"
#include "text.h"
#include "value.h"
#include "vectors.h"

/* {t: type, v: text, hex_be: double, hex: blob} */
static SyncValue
storage_value(const JsonNode *node, SyncArena *arena)
{
	SyncString	type = as_text(need(node, "t"));
	SyncString	bytes;

	if (sync_string_equal(type, literal("text")))
		return value_string(as_text(need(node, "v")));
	if (sync_string_equal(type, literal("integer")))
	{
		JsonNode   *tagged = arena_new(arena, JsonNode);
		JsonNode   *digits = arena_new(arena, JsonNode);

		*digits = *need(node, "v");
		digits->key = literal("int");
		digits->next = NULL;
		*tagged = (JsonNode) {.kind = JSON_OBJECT, .count = 1, .first = digits};
		return tagged_value(tagged, arena);
	}
	if (sync_string_equal(type, literal("real")))
	{
		uint64_t	bits = 0;
		double		real;

		bytes = from_hex(as_text(need(node, "hex_be")), arena);
		for (uint32_t i = 0; i < bytes.len; i++)
			bits = bits << 8 | (unsigned char) bytes.data[i];
		memcpy(&real, &bits, sizeof(real));
		return value_real(real);
	}
	if (sync_string_equal(type, literal("blob")))
	{
		bytes = from_hex(as_text(need(node, "hex")), arena);
		return value_blob(bytes.data, bytes.len);
	}
	if (sync_string_equal(type, literal("null")))
		return value_null();
	if (!sync_string_equal(type, literal("undefined")))
		case_fail("the vector has a value of unknown type");
	return (SyncValue) {.type = SYNC_UNDEFINED};
}

/* an array of values; *count receives their number */
static SyncValue *
storage_values(const JsonNode *array, int *count, SyncArena *arena)
{
	SyncValue  *values = arena_array(arena, SyncValue, array->count);

	*count = 0;
	for (const JsonNode *node = array->first; node != NULL; node = node->next)
		values[(*count)++] = storage_value(node, arena);
	return values;
}

/* an array of values with names as a row; every column is an identity column */
static SyncRowType *
storage_row(const JsonNode *array, SyncValue **values, SyncArena *arena)
{
	SyncRowType *type = arena_new(arena, SyncRowType);
	SyncColumn *columns = arena_array(arena, SyncColumn, array->count);
	int		   *identity = arena_array(arena, int, array->count);

	*values = storage_values(array, &type->column_count, arena);
	type->columns = columns;
	type->identity_count = type->column_count;
	type->identity = identity;
	for (int i = 0; i < type->column_count; i++)
	{
		columns[i].name = as_text(need(element(array, (uint32_t) i), "name"));
		identity[i] = i;
	}
	return type;
}

static SyncString
hex_member(const JsonNode *object, const char *key, SyncArena *arena)
{
	return from_hex(as_text(need(object, key)), arena);
}

static SyncString
key_bytes(const SourceKey *key)
{
	return (SyncString) {(const char *) key->bytes, SYNC_KEY_LEN};
}

/* ---------------------------------------------------------------- the small files */

static void
run_bucket_name(const JsonNode *vector, const JsonNode *root, SyncArena *arena)
{
	int			count;
	SyncValue  *values = storage_values(need(vector, "params"), &count, arena);
	SyncBuffer	buffer;

	(void) root;
	buffer_init(&buffer, arena, 0);
	json_append_bucket_parameters(&buffer, values, count);
	check_text("array", buffer_string(&buffer), as_text(need(vector, "serialized")));
}

static void
run_checksum_sum(const JsonNode *vector, const JsonNode *root, SyncArena *arena)
{
	int32_t		sum = 0;

	(void) root;
	(void) arena;
	for (const JsonNode *n = need(vector, "checksums")->first; n != NULL; n = n->next)
		sum = checksum_sum(sum, as_int(n));
	check_int("sum", sum, as_int(need(vector, "total_signed32")));
	if (has(vector, "via_aggregate"))
		check_int("aggregated sum", sum, as_int(need(vector, "via_aggregate")));
}

static void
run_current_data(const JsonNode *vector, const JsonNode *root, SyncArena *arena)
{
	SyncString	expected = hex_member(vector, "bson_hex", arena);
	SyncValue  *values;
	SyncRowType *type = storage_row(need(vector, "row"), &values, arena);
	SyncValue  *merged = arena_array(arena, SyncValue, type->column_count);
	bool		has_undefined = false;

	(void) root;
	check_bytes("row copy", row_copy_encode(type, values, arena), expected);

	for (int i = 0; i < type->column_count; i++)
		has_undefined |= values[i].type == SYNC_UNDEFINED;
	check_int("merge is complete", row_copy_merge(expected, type, merged, arena), !has_undefined);
	for (int i = 0; i < type->column_count; i++)
		check_true("a merged value is what was stored", value_identical(values[i], merged[i]));
}

static void
run_lookup(const JsonNode *vector, const JsonNode *root, SyncArena *arena)
{
	int			count;
	SyncValue  *values = storage_values(need(vector, "values"), &count, arena);
	SyncString	name = as_text(need(vector, "lookup_name"));
	SyncString	query = as_text(need(vector, "query_id"));
	const JsonNode *normalized = need(vector, "normalized");
	SyncBuffer	json;

	(void) root;
	check_bytes("lookup", bson_lookup(name, query, values, count, arena),
				hex_member(vector, "v1v2_bson_hex", arena));
	check_bytes("v3 lookup", bson_lookup_values(values, count, arena),
				hex_member(vector, "v3_bson_hex", arena));

	buffer_init(&json, arena, 0);
	buffer_append_char(&json, '[');
	json_append_text(&json, name.data, name.len);
	buffer_append_char(&json, ',');
	json_append_text(&json, query.data, query.len);
	for (int i = 0; i < count; i++)
	{
		const JsonNode *node = element(normalized, (uint32_t) i + 2);

		values[i] = value_normalize_lookup(values[i], arena);
		check_true("a normalised value", node != NULL &&
				   value_identical(values[i], storage_value(node, arena)));
		buffer_append_char(&json, ',');
		json_append_value(&json, values[i]);
	}
	buffer_append_char(&json, ']');
	check_text("JSON", buffer_string(&json), as_text(need(vector, "api_json")));
}

static void
run_lsn(const JsonNode *vector, const JsonNode *root, SyncArena *arena)
{
	SyncString	comparable = as_text(need(vector, "comparable"));
	char		text[LSN_TEXT_LEN + 1];
	uint64_t	lsn = 0;
	uint64_t	again = 1;

	(void) root;
	(void) arena;
	check_true("the text is read", lsn_parse(as_text(need(vector, "text")), &lsn));
	lsn_format(lsn, text);
	check_text("padded text", literal(text), comparable);
	check_true("the padded text is read", lsn_parse(comparable, &again) && lsn == again);
}

static void
run_identity(const JsonNode *vector, const JsonNode *root, SyncArena *arena)
{
	SyncValue  *values;
	SyncRowType *type = storage_row(need(vector, "values"), &values, arena);
	const JsonNode *columns = need(vector, "columns");
	SourceTableId table;
	SourceKey	key;
	char		subkey[SYNC_SUBKEY_LEN + 1];
	char		uuid[UUID_TEXT_LEN];

	check_true("table id", read_oid(as_text(need(root, "source_table_oid")), &table));
	/* the identity is that of the columns named, in their order */
	type->identity_count = (int) columns->count;
	for (uint32_t i = 0; i < columns->count; i++)
		((int *) type->identity)[i] = find_row_column(type, as_text(element(columns, i)));
	check_bytes("identity document", identity_document(type, values, arena),
				hex_member(vector, "bson_hex", arena));
	source_key_of_row(type, values, arena, &key);
	check_bytes("source key", key_bytes(&key), hex_member(vector, "uuid_hex", arena));
	uuid_format(&key, uuid);
	check_text("uuid", (SyncString) {uuid, UUID_TEXT_LEN}, as_text(need(vector, "uuid")));
	subkey_format(&table, &key, subkey);
	check_text("subkey", literal(subkey), as_text(need(vector, "subkey")));
	check_int("REMOVE checksum", checksum_remove(&table, &key),
			  as_int(need(vector, "remove_checksum")));
}

/* a row's columns as an object has them: names that are array indexes first, ascending */
static const JsonNode **
ordered_columns(const JsonNode *columns, SyncArena *arena)
{
	const JsonNode **order = arena_array(arena, const JsonNode *, columns->count + 1);
	uint32_t	indexes = 0;
	uint32_t	count = 0;

	for (const JsonNode *column = columns->first; column != NULL; column = column->next)
	{
		uint32_t	at = count++;
		uint32_t	index;
		uint32_t	other;

		if (text_array_index(as_text(need(column, "name")), &index))
		{
			for (at = 0; at < indexes; at++)
				if (text_array_index(as_text(need(order[at], "name")), &other) && other > index)
					break;
			memmove(order + at + 1, order + at, (count - 1 - at) * sizeof(order[0]));
			indexes++;
		}
		order[at] = column;
	}
	return order;
}

static void
run_row_json(const JsonNode *vector, const JsonNode *root, SyncArena *arena)
{
	const JsonNode **columns = ordered_columns(need(vector, "columns_in_insertion_order"), arena);
	SyncString	data = as_text(need(vector, "data"));
	SyncBuffer	json;

	(void) root;
	buffer_init(&json, arena, 0);
	buffer_append_char(&json, '{');
	for (; *columns != NULL; columns++)
	{
		SyncString	name = as_text(need(*columns, "name"));
		SyncValue	value = storage_value(*columns, arena);

		if (value.type == SYNC_BLOB || value.type == SYNC_UNDEFINED)
			continue;
		if (json.len > 1)
			buffer_append_char(&json, ',');
		json_append_text(&json, name.data, name.len);
		buffer_append_char(&json, ':');
		json_append_value(&json, value);
	}
	buffer_append_char(&json, '}');
	check_text("JSON", buffer_string(&json), data);
	check_bytes("JSON bytes", buffer_string(&json), hex_member(vector, "data_utf8_hex", arena));
	check_int("UTF-16 length", (int64_t) text_utf16_length(json.data, json.len),
			  as_int(need(vector, "data_utf16_length")));
	check_int("PUT checksum",
			  checksum_put(as_text(need(vector, "type")), as_text(need(vector, "id")),
						   buffer_string(&json)),
			  as_int(need(vector, "checksum")));
}

/* a JSON value in the typing of identities, as the service reads numbers */
static void
append_json_id(SyncBuffer *buffer, const JsonNode *id)
{
	SyncBuffer	text;

	buffer_init(&text, buffer->arena, 0);
	json_append_node(&text, id);
	bson_append_value(buffer, sync_string_literal("id"),
					  (SyncValue) {.type = SYNC_JSON, .len = (uint32_t) text.len,
					  .data = text.data});
}

/* the sources with other ids than rows of PostgreSQL: made of the same parts */
static void
run_other_subkey(const JsonNode *vector, const JsonNode *root, SyncArena *arena)
{
	SyncString	expected = hex_member(vector, "bson_hex", arena);
	const JsonNode *id = need(vector, "id");
	SyncBuffer	buffer;
	SourceTableId table = {{0}};
	SourceKey	key;
	char		uuid[UUID_TEXT_LEN];
	size_t		mark;

	(void) root;
	/* the table's id is nowhere else: 4 bytes of length, type, "table", NUL */
	if (check_true("the document begins with a table", expected.len > 23))
		memcpy(table.bytes, expected.data + 11, SYNC_TABLE_LEN);
	buffer_init(&buffer, arena, 0);
	mark = bson_begin(&buffer);
	bson_append_oid(&buffer, sync_string_literal("table"), table.bytes);
	append_json_id(&buffer, id);
	bson_end(&buffer, mark);
	check_bytes("document", buffer_string(&buffer), expected);
	identity_of_document(buffer_string(&buffer), &key);
	uuid_format(&key, uuid);
	check_text("subkey", (SyncString) {uuid, UUID_TEXT_LEN}, as_text(need(vector, "subkey")));
}

/* ---------------------------------------------------------------- chunks of storage 3 */

static void
append_chunk_field(SyncBuffer *buffer, const char *name, const JsonNode *value, SyncArena *arena)
{
	SyncString	key = literal(name);
	SourceTableId oid;

	if (is_null(value))
		bson_append_null(buffer, key);
	else if (has(value, "i64"))
		bson_append_int64(buffer, key, as_int(value));
	else if (has(value, "oid"))
	{
		check_true("oid", read_oid(as_text(member(value, "oid")), &oid));
		bson_append_oid(buffer, key, oid.bytes);
	}
	else if (has(value, "uuid"))
	{
		SyncBuffer	hex;
		SyncString	uuid = as_text(member(value, "uuid"));

		buffer_init(&hex, arena, uuid.len);
		for (uint32_t i = 0; i < uuid.len; i++)
			if (uuid.data[i] != '-')
				buffer_append_char(&hex, uuid.data[i]);
		uuid = from_hex(buffer_string(&hex), arena);
		bson_append_binary(buffer, key, 4, uuid.data, uuid.len);
	}
	else
		bson_append_text(buffer, key, as_text(value));
}

/*
 * The array of a chunk's ops.  sized: as the size field counts it, without the
 * fields that an op does not have.
 */
static void
append_chunk_ops(SyncBuffer *buffer, const JsonNode *ops, bool sized, SyncArena *arena)
{
	static const char *const names[] = {
		"o", "op", "source_table", "source_key", "subkey", "table", "row_id", "checksum", "data"
	};
	BsonIndexName index_name;
	uint32_t	index = 0;

	for (const JsonNode *op = ops->first; op != NULL; op = op->next)
	{
		size_t		mark = bson_begin_document(buffer, bson_index_name(&index_name, index++));

		for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
			if (!sized || has(op, names[i]))
				append_chunk_field(buffer, names[i], member(op, names[i]), arena);
		bson_end(buffer, mark);
	}
}

static SyncString
sha256_hex(SyncString bytes, SyncArena *arena)
{
	unsigned char digest[32];
	char	   *hex = arena_alloc(arena, 65);

	EVP_Digest(bytes.data, bytes.len, digest, NULL, EVP_sha256(), NULL);
	for (int i = 0; i < 32; i++)
		snprintf(hex + 2 * i, 3, "%02x", digest[i]);
	return literal(hex);
}

static void
run_chunk(const JsonNode *vector, const JsonNode *root, SyncArena *arena)
{
	const JsonNode *ops = need(vector, "ops");
	const JsonNode *expect = need(vector, "expect");
	const JsonNode *target = need(vector, "target_op_in");
	int64_t		checksum = 0;
	int64_t		first = 0;
	int64_t		last = 0;
	bool		has_clear = false;
	SyncBuffer	array;
	SyncBuffer	chunk;
	size_t		mark;
	size_t		inner;

	(void) root;
	for (const JsonNode *op = ops->first; op != NULL; op = op->next)
	{
		last = as_int(need(op, "o"));
		first = op == ops->first ? last : first;
		checksum += as_int(need(op, "checksum"));
		has_clear |= sync_string_equal(as_text(need(op, "op")), literal("CLEAR"));
	}
	check_int("checksum", checksum, as_int(need(expect, "checksum")));
	check_int("min_op", first, as_int(need(expect, "min_op")));
	check_int("last op", last, as_int(need(need(expect, "_id"), "o")));
	check_text("bucket", as_text(need(vector, "bucket")),
			   as_text(need(need(expect, "_id"), "b")));
	check_int("count", ops->count, as_int(need(expect, "count")));

	buffer_init(&array, arena, 0);
	mark = bson_begin(&array);
	append_chunk_ops(&array, ops, true, arena);
	bson_end(&array, mark);
	check_int("size", (int64_t) array.len, as_int(need(expect, "size")));

	buffer_init(&chunk, arena, 0);
	mark = bson_begin(&chunk);
	inner = bson_begin_document(&chunk, literal("_id"));
	bson_append_text(&chunk, literal("b"), as_text(need(vector, "bucket")));
	bson_append_int64(&chunk, literal("o"), last);
	bson_end(&chunk, inner);
	bson_append_int64(&chunk, literal("min_op"), first);
	bson_append_int64(&chunk, literal("checksum"), checksum);
	bson_append_int32(&chunk, literal("count"), (int32_t) ops->count);
	bson_append_int32(&chunk, literal("size"), (int32_t) array.len);
	if (is_null(target))
		bson_append_null(&chunk, literal("target_op"));
	else
		bson_append_int64(&chunk, literal("target_op"), as_int(target));
	if (has_clear)
		bson_append_bool(&chunk, literal("has_clear_op"), true);
	inner = bson_begin_array(&chunk, literal("ops"));
	append_chunk_ops(&chunk, ops, false, arena);
	bson_end(&chunk, inner);
	bson_end(&chunk, mark);
	check_int("length", (int64_t) chunk.len, as_int(need(expect, "bson_len")));
	check_text("digest", sha256_hex(buffer_string(&chunk), arena),
			   as_text(need(expect, "bson_sha256")));
	if (has(expect, "bson_hex"))
		check_bytes("document", buffer_string(&chunk), hex_member(expect, "bson_hex", arena));
}

/* ---------------------------------------------------------------- which file it is */

static const struct
{
	const char *mark;			/* only this file's cases have this member */
	void		(*run) (const JsonNode *vector, const JsonNode *root, SyncArena *arena);
}			case_kinds[] = {
	{"serialized", run_bucket_name},
	{"total_signed32", run_checksum_sum},
	{"row", run_current_data},
	{"v1v2_bson_hex", run_lookup},
	{"comparable", run_lsn},
	{"remove_checksum", run_identity},
	{"columns_in_insertion_order", run_row_json},
	{"ops", run_chunk},
	{"subkey", run_other_subkey}	/* after "remove_checksum", which has it too */
};

static void
run_cases(const char *name, const JsonNode *root, const JsonNode *cases, SyncArena *arena)
{
	int			number = 0;

	for (const JsonNode *vector = cases->first; vector != NULL; vector = vector->next)
	{
		bool		known = false;
		SyncString	title = as_text(member(vector, "name"));

		number++;
		case_begin("%s %d%s%.*s", name, number, title.len > 0 ? " " : "",
				   (int) title.len, title.data);
		for (size_t i = 0; i < sizeof(case_kinds) / sizeof(case_kinds[0]) && !known; i++)
		{
			known = has(vector, case_kinds[i].mark);
			if (known)
				case_kinds[i].run(vector, root, arena);
		}
		if (!known)
			case_fail("no known form of vector");
		case_end();
	}
}

static void
run_file(const char *name, const JsonNode *root, SyncArena *arena)
{
	if (has(root, "cases"))
	{
		run_cases(name, root, member(root, "cases"), arena);
		if (has(root, "empty_data_hex"))
		{
			static const SyncRowType no_columns;

			case_begin("%s empty document", name);
			check_bytes("row copy", row_copy_encode(&no_columns, NULL, arena),
						hex_member(root, "empty_data_hex", arena));
			case_end();
		}
	}
	else if (has(root, "incremental") || has(root, "fresh"))
		run_rule_mapping(name, root, arena);
	else if (has(root, "lines"))
		run_sync_lines(name, member(root, "lines"), arena);
	else if (has(root, "steps") || has(root, "sync_config_yaml"))
		run_scenario(name, root, arena);
	else
	{
		case_begin("%s", name);
		case_fail("no known form of vector file");
		case_end();
	}
}

int
main(int argc, char **argv)
{
	return vectors_main(argc, argv, run_file);
}
