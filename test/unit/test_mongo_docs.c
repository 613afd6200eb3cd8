/*-------------------------------------------------------------------------
 *
 * test_mongo_docs.c
 *	  Documents against the contract's tables, byte for byte: needs no server.
 *
 *-------------------------------------------------------------------------
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/compile.h"
#include "mongo/docs_v2.h"
#include "mongo/row_state.h"
#include "mongo/stream_doc.h"

static SyncString
string(const char *s)
{
	return (SyncString) {s, (uint32_t) strlen(s)};
}

static void
assert_json(const bson_t *document, const char *expected)
{
	char	   *json = bson_as_canonical_extended_json(document, NULL);

	assert_string_equal(json, expected);
	bson_free(json);
}

static SourceTableId
table_id(void)
{
	return (SourceTableId) {{0x66, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
}

static SourceKey
source_key(void)
{
	return (SourceKey) {{0xfb, 0x4e, 0xa5, 0xf2, 0x24, 0x36, 0x5f, 0x83,
	0x85, 0xfd, 0xdf, 0x40, 0x4d, 0xe4, 0x6a, 0x6d}};
}

static BucketOp
op(BucketOpKind kind)
{
	return (BucketOp) {
		.kind = kind, .source_table = table_id(), .source_key = source_key(),
		.checksum = UINT32_C(3685912554), .bucket = string("1#b[]"), .table = string("items"),
		.row_id = string("a1"), .json = string("{}")
	};
}

/* ---------------------------------------------------------------- operations */

static void
test_operations(void **state)
{
	BucketOp	ops[4] = {op(BUCKET_OP_PUT), op(BUCKET_OP_REMOVE), op(BUCKET_OP_PARAMETERS),
	op(BUCKET_OP_PUT)};
	bson_t	   *lookup = BCON_NEW("l", "[", "by", "1", "u1", "]");
	bson_t	   *rows = BCON_NEW("0", "{", "v", BCON_INT64(5), "}");
	DocumentSet set;

	(void) state;
	ops[2].lookup = (SyncString) {(const char *) bson_get_data(lookup), lookup->len};
	ops[2].rows = (SyncString) {(const char *) bson_get_data(rows), rows->len};
	ops[3].bucket = string("1#c[]");
	document_set_init(&set);
	assert_true(storage_format_v2.operations(&set, 1, ops, 4, INT64_C(5000000000)));
	assert_int_equal(set.group_count, 3);

	assert_string_equal(set.groups[0].collection, "bucket_data");
	assert_int_equal(set.groups[0].count, 3);
	assert_json(set.groups[0].documents[0],
				"{ \"_id\" : { \"g\" : { \"$numberInt\" : \"1\" }, \"b\" : \"1#b[]\","
				" \"o\" : { \"$numberLong\" : \"5000000000\" } }, \"op\" : \"PUT\","
				" \"source_table\" : { \"$oid\" : \"660000000000000000000001\" },"
				" \"source_key\" : { \"$binary\" : { \"base64\" : \"+06l8iQ2X4OF/d9ATeRqbQ==\","
				" \"subType\" : \"04\" } },"
				" \"subkey\" : \"660000000000000000000001/fb4ea5f2-2436-5f83-85fd-df404de46a6d\","
				" \"table\" : \"items\", \"row_id\" : \"a1\","
				" \"checksum\" : { \"$numberLong\" : \"3685912554\" }, \"data\" : \"{}\","
				" \"target_op\" : null }");
	assert_json(set.groups[0].documents[1],
				"{ \"_id\" : { \"g\" : { \"$numberInt\" : \"1\" }, \"b\" : \"1#b[]\","
				" \"o\" : { \"$numberLong\" : \"5000000001\" } }, \"op\" : \"REMOVE\","
				" \"source_table\" : { \"$oid\" : \"660000000000000000000001\" },"
				" \"source_key\" : { \"$binary\" : { \"base64\" : \"+06l8iQ2X4OF/d9ATeRqbQ==\","
				" \"subType\" : \"04\" } },"
				" \"subkey\" : \"660000000000000000000001/fb4ea5f2-2436-5f83-85fd-df404de46a6d\","
				" \"table\" : \"items\", \"row_id\" : \"a1\","
				" \"checksum\" : { \"$numberLong\" : \"3685912554\" }, \"data\" : null,"
				" \"target_op\" : null }");

	assert_string_equal(set.groups[1].collection, "bucket_parameters");
	assert_int_equal(set.groups[1].count, 1);
	assert_json(set.groups[1].documents[0],
				"{ \"_id\" : { \"$numberLong\" : \"5000000002\" },"
				" \"key\" : { \"g\" : { \"$numberInt\" : \"1\" },"
				" \"t\" : { \"$oid\" : \"660000000000000000000001\" },"
				" \"k\" : { \"$binary\" : { \"base64\" : \"+06l8iQ2X4OF/d9ATeRqbQ==\","
				" \"subType\" : \"04\" } } },"
				" \"lookup\" : { \"$binary\" : { \"base64\" : \"KgAAAARsACIAAAACMAADAAAAYnkAAjEAAgAAADEAAjIAAwAAAHUxAAAA\","
				" \"subType\" : \"00\" } },"
				" \"bucket_parameters\" : [ { \"v\" : { \"$numberLong\" : \"5\" } } ] }");

	assert_string_equal(set.groups[2].collection, "bucket_state");
	assert_true(set.groups[2].upserts);
	assert_int_equal(set.groups[2].count, 2);
	assert_json(set.groups[2].filters[0],
				"{ \"_id\" : { \"g\" : { \"$numberInt\" : \"1\" }, \"b\" : \"1#b[]\" } }");
	assert_json(set.groups[2].documents[0],
				"{ \"$set\" : { \"last_op\" : { \"$numberLong\" : \"5000000001\" } },"
				" \"$inc\" : { \"estimate_since_compact.count\" : { \"$numberInt\" : \"2\" },"
				" \"estimate_since_compact.bytes\" : { \"$numberInt\" : \"402\" } } }");
	assert_json(set.groups[2].documents[1],
				"{ \"$set\" : { \"last_op\" : { \"$numberLong\" : \"5000000003\" } },"
				" \"$inc\" : { \"estimate_since_compact.count\" : { \"$numberInt\" : \"1\" },"
				" \"estimate_since_compact.bytes\" : { \"$numberInt\" : \"202\" } } }");
	for (size_t i = 0; i < set.groups[0].count; i++)
		assert_true(set.groups[0].documents[i]->len <=
					storage_format_v2.operation_size(&ops[i == 2 ? 3 : i]));
	assert_true(set.groups[1].documents[0]->len <= storage_format_v2.operation_size(&ops[2]));
	document_set_destroy(&set);
	bson_destroy(lookup);
	bson_destroy(rows);
}

/* Many buckets, each once, with the last op of each. */
static void
test_bucket_state(void **state)
{
	static BucketOp ops[3000];
	static char names[1000][16];
	DocumentSet set;

	(void) state;
	for (int i = 0; i < 3000; i++)
	{
		ops[i] = op(BUCKET_OP_PUT);
		snprintf(names[i % 1000], sizeof(names[0]), "b%d", i % 1000);
		ops[i].bucket = string(names[i % 1000]);
	}
	document_set_init(&set);
	assert_true(storage_format_v2.operations(&set, 1, ops, 3000, 1));
	assert_int_equal(set.groups[2].count, 1000);
	for (int i = 0; i < 1000; i++)
	{
		bson_iter_t root;
		bson_iter_t field;

		assert_true(bson_iter_init(&root, set.groups[2].documents[i]));
		assert_true(bson_iter_find_descendant(&root, "$set.last_op", &field));
		assert_int_equal(bson_iter_int64(&field), 2001 + i);
	}
	document_set_destroy(&set);
}

static void
test_versions(void **state)
{
	(void) state;
	assert_ptr_equal(storage_format(1), &storage_format_v2);
	assert_ptr_equal(storage_format(2), &storage_format_v2);
	assert_null(storage_format(0));
	assert_null(storage_format(3));
}

/* ---------------------------------------------------------------- positions */

static void
assert_position(const StreamPosition *from, const StreamPosition *to, bool checkpoint,
				const char *expected)
{
	bson_t		set = BSON_INITIALIZER;

	storage_format_v2.position(&set, from, to, checkpoint);
	assert_json(&set, expected);
	bson_destroy(&set);
}

#define TAIL \
	"\"last_keepalive_ts\" : \"$$NOW\", \"last_fatal_error\" : null, \"last_fatal_error_ts\" : null }"

static void
test_positions(void **state)
{
	StreamPosition from = {.last_checkpoint = -1, .keepalive_op = -1};
	StreamPosition to = from;

	(void) state;
	to.snapshot_lsn = UINT64_C(0x16B3748);
	assert_position(&from, &to, false,
					"{ \"snapshot_lsn\" : \"00000000/016B3748\", \"keepalive_op\" : null, " TAIL);
	from = to;
	to.no_checkpoint_before = UINT64_C(0x1F00000ABC);
	to.keepalive_op = 12;
	assert_position(&from, &to, false,
					"{ \"snapshot_lsn\" : \"00000000/016B3748\","
					" \"no_checkpoint_before\" : { \"$max\" : [ \"$no_checkpoint_before\", \"0000001F/00000ABC\" ] },"
					" \"keepalive_op\" : \"12\", " TAIL);
	from = to;
	to.snapshot_done = true;
	to.snapshot_lsn = 0;
	to.keepalive_op = -1;
	to.last_checkpoint = 12;
	to.last_checkpoint_lsn = UINT64_C(0x1F00000ABC);
	assert_position(&from, &to, true,
					"{ \"snapshot_done\" : true,"
					" \"last_checkpoint\" : { \"$numberLong\" : \"12\" },"
					" \"last_checkpoint_lsn\" : \"0000001F/00000ABC\","
					" \"last_checkpoint_ts\" : \"$$NOW\", \"snapshot_lsn\" : null,"
					" \"keepalive_op\" : null, " TAIL);
}

/* ---------------------------------------------------------------- source tables */

static void
test_source_tables(void **state)
{
	char	   *names[2] = {"tenant", "id"};
	uint32_t	types[2] = {25, UINT32_C(3000000000)};
	SourceTableDoc table = {
		.id = table_id(), .relation_id = 16385, .schema = "public", .name = "items",
		.identity_count = 2, .identity_names = names, .identity_types = types,
		.rows_estimated = -1
	};
	bson_t		document = BSON_INITIALIZER;

	(void) state;
	source_table_document(&table, 7, &document);
	assert_json(&document,
				"{ \"_id\" : { \"$oid\" : \"660000000000000000000001\" },"
				" \"group_id\" : { \"$numberInt\" : \"7\" },"
				" \"connection_id\" : { \"$numberInt\" : \"1\" },"
				" \"relation_id\" : { \"$numberInt\" : \"16385\" },"
				" \"schema_name\" : \"public\", \"table_name\" : \"items\","
				" \"replica_id_columns\" : null, \"replica_id_columns2\" : ["
				" { \"name\" : \"tenant\", \"type\" : null, \"type_oid\" : { \"$numberInt\" : \"25\" } },"
				" { \"name\" : \"id\", \"type\" : null, \"type_oid\" : { \"$numberLong\" : \"3000000000\" } } ],"
				" \"snapshot_done\" : false, \"snapshot_status\" : null, \"source_metadata\" : null }");
	bson_reinit(&document);
	table.snapshot_done = true;
	table.identity_count = 0;
	table.relation_id = UINT32_C(4294967295);
	source_table_document(&table, 7, &document);
	assert_json(&document,
				"{ \"_id\" : { \"$oid\" : \"660000000000000000000001\" },"
				" \"group_id\" : { \"$numberInt\" : \"7\" },"
				" \"connection_id\" : { \"$numberInt\" : \"1\" },"
				" \"relation_id\" : { \"$numberLong\" : \"4294967295\" },"
				" \"schema_name\" : \"public\", \"table_name\" : \"items\","
				" \"replica_id_columns\" : null, \"replica_id_columns2\" : [  ],"
				" \"snapshot_done\" : true, \"source_metadata\" : null }");
	bson_destroy(&document);
}

/* ---------------------------------------------------------------- row state */

static RowState *
decode(const uint8_t *bytes, size_t len, SyncArena *arena)
{
	RowState   *volatile state = NULL;
	ArenaGuard	guard;

	arena_guard_push(arena, &guard);
	if (setjmp(guard.jump) == 0)
		state = row_state_decode(bytes, len, arena);
	arena_guard_pop(arena, &guard);
	return state;
}

static void
test_row_state(void **state)
{
	BucketRef	buckets[2] = {
		{string("1#a[]"), string("items"), string("r\xC3\xA4")},
		{string("1#b[\"x\"]"), string(""), {"n\0l", 3}}
	};
	SyncString	lookups[1] = {{"\x05\0\0\0", 5}};
	RowState	row = {2, buckets, 1, lookups, {"copy", 4}, false, 0};
	SourceTableId table = table_id();
	SourceKey	key = source_key();
	RowId		id = row_id(&table, &key);
	RowId		read;
	SyncString	memberships;
	SyncString	copy;
	bson_t		document = BSON_INITIALIZER;
	SyncArena  *arena = arena_create(0);
	RowState   *back;

	(void) state;
	row_state_document(&id, &row, &document);
	assert_true(row_state_document_parts(&document, &read, &memberships, &copy));
	assert_memory_equal(read.bytes, id.bytes, ROW_ID_LEN);
	assert_int_equal(memberships.len, row_state_size(&row));
	assert_true(sync_string_equal(copy, row.row_copy));
	assert_false(row_state_document_partial(&document));
	assert_int_equal(row_state_document_round(&document), 0);
	row.partial = true;
	row.round = INT64_C(5000000000);
	bson_reinit(&document);
	row_state_document(&id, &row, &document);
	assert_true(row_state_document_parts(&document, &read, &memberships, &copy));
	assert_true(row_state_document_partial(&document));
	assert_int_equal(row_state_document_round(&document), row.round);
	back = decode((const uint8_t *) memberships.data, memberships.len, arena);
	assert_non_null(back);
	assert_int_equal(back->bucket_count, 2);
	assert_true(sync_string_equal(back->buckets[1].bucket, buckets[1].bucket));
	assert_true(sync_string_equal(back->buckets[1].table, buckets[1].table));
	assert_true(sync_string_equal(back->buckets[1].row_id, buckets[1].row_id));
	assert_true(sync_string_equal(back->buckets[0].row_id, buckets[0].row_id));
	assert_int_equal(back->lookup_count, 1);
	assert_true(sync_string_equal(back->lookups[0], lookups[0]));

	/* whatever is cut off or changed: refused or read, never past the end */
	for (uint32_t len = 0; len < memberships.len; len++)
		assert_null(decode((const uint8_t *) memberships.data, len, arena));
	for (uint32_t i = 0; i < memberships.len; i++)
		for (int bit = 0; bit < 8; bit++)
		{
			uint8_t    *bytes = malloc(memberships.len);

			memcpy(bytes, memberships.data, memberships.len);
			bytes[i] ^= (uint8_t) (1 << bit);
			(void) decode(bytes, memberships.len, arena);
			free(bytes);
			arena_reset(arena);
		}
	arena_destroy(arena);
	bson_destroy(&document);
}

static void
test_row_state_documents_of_others(void **state)
{
	static const char *const bad[] = {
		"{}", "{\"_id\": 1}", "{\"_id\": {\"$binary\": {\"base64\": \"AAAA\", \"subType\": \"00\"}}}"
	};
	RowId		id;
	SyncString	memberships;
	SyncString	copy;

	(void) state;
	for (size_t i = 0; i < 3; i++)
	{
		bson_t	   *document = bson_new_from_json((const uint8_t *) bad[i], -1, NULL);

		assert_false(row_state_document_parts(document, &id, &memberships, &copy));
		bson_destroy(document);
	}
}

static void
test_row_id_range(void **state)
{
	SourceTableId table = table_id();
	SourceTableId next = table;
	SourceKey	key = source_key();
	RowId		id = row_id(&table, &key);
	RowId		low = row_id_low(&table);
	RowId		high = row_id_high(&table);
	SourceKey	back = row_id_key(&id);

	(void) state;
	next.bytes[SYNC_TABLE_LEN - 1]++;
	assert_true(memcmp(low.bytes, id.bytes, ROW_ID_LEN) < 0);
	assert_true(memcmp(id.bytes, high.bytes, ROW_ID_LEN) < 0);
	low = row_id_low(&next);
	assert_true(memcmp(high.bytes, low.bytes, ROW_ID_LEN) < 0);
	assert_memory_equal(back.bytes, key.bytes, SYNC_KEY_LEN);
}

/* ---------------------------------------------------------------- stream documents */

static bool
read_stream(const char *json, StreamDoc *stream)
{
	bson_error_t json_error;
	bson_t	   *document = bson_new_from_json((const uint8_t *) json, -1, &json_error);
	StorageError error = {0};
	bool		ok;

	if (document == NULL)
		fail_msg("%s", json_error.message);
	memset(stream, 0, sizeof(*stream));
	stream->arena = arena_create(0);
	ok = stream_document_decode(document, stream, &error);
	assert_true(ok == (error.kind == STORAGE_OK));
	bson_destroy(document);
	return ok;
}

static void
test_stream_documents(void **state)
{
	static const char *const bad[] = {
		"{\"content\": \"x\", \"last_checkpoint\": \"5\"}",
		"{\"content\": \"x\", \"last_checkpoint\": 1.5}",
		"{\"content\": \"x\", \"last_checkpoint\": -1}",
		"{\"content\": \"x\", \"last_checkpoint_lsn\": \"nonsense\"}",
		"{\"content\": \"x\", \"snapshot_lsn\": 5}",
		"{\"content\": \"x\", \"no_checkpoint_before\": \"0/0/0\"}",
		"{\"content\": \"x\", \"keepalive_op\": 5}",
		"{\"content\": \"x\", \"keepalive_op\": \"5x\"}",
		"{\"content\": \"x\", \"keepalive_op\": \"\"}",
		"{\"storage_version\": 2}",
		"{\"content\": \"x\", \"storage_version\": \"2\"}",
		/* what is there and no plan must not be taken for none */
		"{\"content\": \"x\", \"serialized_plan\": \"{}\"}",
		"{\"content\": \"x\", \"storage_version\": 1, \"serialized_plan\": []}",
		"{\"content\": \"x\", \"storage_version\": 2, \"serialized_plan\": false}",
		"{\"content\": \"x\", \"storage_version\": 3, \"serialized_plan\": 1}"
	};
	StreamDoc	stream;

	(void) state;
	assert_true(read_stream("{\"content\": \"x\", \"storage_version\": 2, \"state\": \"ACTIVE\","
							" \"last_checkpoint\": {\"$numberLong\": \"19\"},"
							" \"last_checkpoint_lsn\": \"00000001/0000CF00\","
							" \"snapshot_lsn\": \"00000001/0000CF01\", \"keepalive_op\": \"20\","
							" \"snapshot_done\": true, \"no_checkpoint_before\": null}", &stream));
	assert_int_equal(stream.state, STREAM_ACTIVE);
	assert_int_equal(stream.last_checkpoint, 19);
	assert_int_equal(stream_stored_lsn(&stream), UINT64_C(0x10000CF01));
	assert_int_equal(stream.keepalive_op, 20);
	assert_int_equal(stream.no_checkpoint_before, 0);
	assert_true(stream.snapshot_done);
	arena_destroy(stream.arena);

	/* what a cleared stream lacks, and a document without a version */
	assert_true(read_stream("{\"content\": \"\"}", &stream));
	assert_int_equal(stream.storage_version, 1);
	assert_int_equal(stream.last_checkpoint, -1);
	assert_int_equal(stream.keepalive_op, -1);
	assert_int_equal(stream_stored_lsn(&stream), STREAM_LSN_NONE);
	arena_destroy(stream.arena);

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
	{
		if (read_stream(bad[i], &stream))
			fail_msg("%s was accepted", bad[i]);
		arena_destroy(stream.arena);
	}
}

/* ---------------------------------------------------------------- stored plans */

static void
test_stored_plans(void **state)
{
	static const char json[] =
		"{\"$date\":[1,-2147483648,2147483648,9007199254740993,10000000000000000000,1.5,5.0,-0.0,"
		"true,false,null],\"s\":\"a\\u0000b\\ud800\\\"\\u00e9\",\"o\":{\"\":{}},\"l\":[[],{}]}";
	SyncArena  *arena = arena_create(0);
	bson_t		document = BSON_INITIALIZER;
	bson_iter_t field;
	StorageError error = {0};
	bson_t		binary = BSON_INITIALIZER;

	(void) state;
	assert_non_null(arena);
	assert_true(plan_append_bson(&document, "plan", json, &error));
	assert_json(&document,
				"{ \"plan\" : { \"$date\" : [ { \"$numberInt\" : \"1\" }, "
				"{ \"$numberInt\" : \"-2147483648\" }, { \"$numberDouble\" : \"2147483648.0\" }, "
				"{ \"$numberDouble\" : \"9007199254740992.0\" }, "
				"{ \"$numberDouble\" : \"10000000000000000000.0\" }, "
				"{ \"$numberDouble\" : \"1.5\" }, { \"$numberInt\" : \"5\" }, "
				"{ \"$numberDouble\" : \"-0.0\" }, true, false, null ], "
				"\"s\" : \"a\\u0000b\xEF\xBF\xBD\\\"\xC3\xA9\", \"o\" : { \"\" : {  } }, \"l\" : [ [  ], {  } ] } }");
	assert_true(bson_iter_init_find(&field, &document, "plan"));
	/* read back it is the same, but for the half pair and what no double is */
	assert_string_equal(plan_json_text(&field, arena),
						"{\"$date\":[1,-2147483648,2147483648.0,9007199254740992.0,10000000000000000000.0,"
						"1.5,5,0.0,true,false,null],"
						"\"s\":\"a\\u0000b\xEF\xBF\xBD\\\"\xC3\xA9\",\"o\":{\"\":{}},\"l\":[[],{}]}");
	assert_false(plan_append_bson(&document, "no", "[1]", &error));
	assert_int_equal(error.kind, STORAGE_INVALID);
	memset(&error, 0, sizeof(error));
	assert_false(plan_append_bson(&document, "no", "{\"a\":", &error));
	BSON_APPEND_BINARY(&binary, "b", BSON_SUBTYPE_BINARY, (const uint8_t *) "x", 1);
	assert_true(bson_iter_init_find(&field, &binary, "b"));
	assert_null(plan_json_text(&field, arena));
	bson_destroy(&binary);
	bson_destroy(&document);
	arena_destroy(arena);
}

/* what the plan that is stored for a condition "x < number" compares with */
static double
stored_number(const char *number, bson_type_t type)
{
	RulesOptions options = {.default_schema = "public"};
	SyncArena  *arena = arena_create(0);
	const char *yaml = arena_printf(arena, "config:\n  edition: 3\nstreams:\n  s:\n"
									"    query: SELECT id FROM t WHERE t.x < %s\n", number);
	bson_t		document = BSON_INITIALIZER;
	StorageError error = {0};
	const RulesMessage *messages;
	SyncError	read_error;
	const SyncPlan *plan = rules_compile(yaml, strlen(yaml), &options, arena, &messages);
	const char *stored;
	char	   *json;
	size_t		len;
	bson_iter_t root;
	bson_iter_t field;
	double		result;

	assert_non_null(plan);
	stored = plan_stored_json(plan, &len);
	assert_true(plan_append_bson(&document, "p", arena_strndup(arena, stored, len), &error));
	assert_true(bson_iter_init(&root, &document));
	assert_true(bson_iter_find_descendant(&root, "p.plan.dataSources.0.filters.0.right.value",
										  &field));
	assert_int_equal(bson_iter_type(&field), type);
	assert_true(bson_iter_init_find(&field, &document, "p"));
	json = plan_json_text(&field, arena);
	plan = plan_read(json, strlen(json), &options, arena, &read_error);
	assert_non_null(plan);
	result = plan->sources[0].match->children[0]->expr->args[1]->constant.real;
	bson_destroy(&document);
	arena_destroy(arena);
	return result;
}

static void
test_stored_numbers(void **state)
{
	char		digits[304] = "1";	/* 1e300 */

	(void) state;
	strcpy(digits + 301, ".0");
	assert_true(stored_number("5.0", BSON_TYPE_INT32) == 5);
	assert_true(stored_number("0.5", BSON_TYPE_DOUBLE) == 0.5);
	assert_true(stored_number("2147483647.0", BSON_TYPE_INT32) == 2147483647);
	assert_true(stored_number("2147483648.0", BSON_TYPE_DOUBLE) == 2147483648.0);
	assert_true(stored_number("5000000000.0", BSON_TYPE_DOUBLE) == 5e9);
	assert_true(stored_number("9007199254740994.0", BSON_TYPE_DOUBLE) == 9007199254740994.0);
	assert_true(stored_number("10000000000000000000.0", BSON_TYPE_DOUBLE) == 1e19);
	memset(digits + 1, '0', 300);
	assert_true(stored_number(digits, BSON_TYPE_DOUBLE) == 1e300);
}

/* levels of documents and arrays below a document, itself counted */
static int
bson_levels(bson_iter_t *fields)
{
	int			most = 0;
	bson_iter_t child;

	while (bson_iter_next(fields))
	{
		int			levels = bson_iter_recurse(fields, &child) ? bson_levels(&child) : 0;

		most = levels > most ? levels : most;
	}
	return most + 1;
}

/*
 * MongoDB stores 180 levels of documents and arrays at most.  The deepest expressions
 * there are: values of the request for an index, in an intersection; a filter.
 */
static void
test_stored_depth(void **state)
{
	static const char *const queries[] = {
		"SELECT id FROM t WHERE x IN (SELECT a FROM b WHERE c = auth.parameter('a')%s AND c = auth.user_id())",
		"SELECT id FROM t WHERE d = auth.parameter('a')%s",
		"SELECT id FROM t WHERE d%s > 1",
		"SELECT id, d%s AS d FROM t",
		"SELECT t.id FROM t, json_each(t.d%s) AS j WHERE j.value = auth.user_id()",
	};
	RulesOptions options = {.default_schema = "public"};

	(void) state;
	for (size_t i = 0; i < sizeof(queries) / sizeof(queries[0]); i++)
	{
		int			deepest = 0;

		/* until one is refused */
		for (int count = 130; count > 0; count++)
		{
			SyncArena  *arena = arena_create(0);
			SyncBuffer	more;
			const RulesMessage *messages;
			const SyncPlan *plan;
			const char *yaml;
			const char *stored;
			size_t		len;
			bson_t		document = BSON_INITIALIZER;
			bson_iter_t fields;
			StorageError error = {0};

			buffer_init(&more, arena, 2000);
			for (int j = 0; j < count; j++)
				buffer_append(&more, " || 'x'", 7);
			buffer_append_char(&more, '\0');
			yaml = arena_printf(arena, queries[i], more.data);
			yaml = arena_printf(arena, "config:\n  edition: 3\nstreams:\n  s:\n    query: %s\n", yaml);
			plan = rules_compile(yaml, strlen(yaml), &options, arena, &messages);
			if (plan == NULL)
			{
				assert_int_equal(messages->error.code, SYNC_ERROR_LIMIT);
				count = -1;
			}
			else
			{
				stored = plan_stored_json(plan, &len);
				assert_true(plan_append_bson(&document, "serialized_plan",
											 arena_strndup(arena, stored, len), &error));
				assert_true(document.len <= plan->bson_size + 40);
				assert_true(document.len > plan->bson_size - plan->bson_size / 20);
				bson_iter_init(&fields, &document);
				deepest = bson_levels(&fields);
				assert_true(deepest <= 180);
			}
			bson_destroy(&document);
			arena_destroy(arena);
			if (count < 0)
				break;
		}
		assert_true(deepest >= 160);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_operations),
		cmocka_unit_test(test_bucket_state),
		cmocka_unit_test(test_versions),
		cmocka_unit_test(test_positions),
		cmocka_unit_test(test_source_tables),
		cmocka_unit_test(test_row_state),
		cmocka_unit_test(test_row_state_documents_of_others),
		cmocka_unit_test(test_row_id_range),
		cmocka_unit_test(test_stream_documents),
		cmocka_unit_test(test_stored_plans),
		cmocka_unit_test(test_stored_numbers),
		cmocka_unit_test(test_stored_depth),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
