/*-------------------------------------------------------------------------
 *
 * test_mongo_scenario.c
 *	  The conformance scenario v2_legacy through the writer: the operations that
 *	  the service's own storage code wrote.
 *
 * Needs a server: PGSYNC_TEST_MONGODB_URI (with_storage.py starts one).
 *
 *-------------------------------------------------------------------------
 */
#include "mongo_test.h"

#include <stdio.h>

/* ---------------------------------------------------------------- the service's own result */

static bson_t *
read_vector(const char *name)
{
	const char *folder = getenv("PGSYNC_CONFORMANCE");
	char		path[1024];
	bson_json_reader_t *reader;
	bson_t	   *document = bson_new();
	bson_error_t error;

	if (folder == NULL)
		return NULL;
	snprintf(path, sizeof(path), "%s/storage/%s", folder, name);
	reader = bson_json_reader_new_from_file(path, &error);
	if (reader == NULL)
		fail_msg("%s: %s", path, error.message);
	if (bson_json_reader_read(reader, document, &error) != 1)
		fail_msg("%s: %s", path, error.message);
	bson_json_reader_destroy(reader);
	return document;
}

typedef struct ExpectedOp
{
	int64_t		op_id;
	bson_t		document;
} ExpectedOp;

static int
by_op_id(const void *a, const void *b)
{
	int64_t		x = ((const ExpectedOp *) a)->op_id;
	int64_t		y = ((const ExpectedOp *) b)->op_id;

	return x < y ? -1 : x > y;
}

/* An op without what differs between runs: its id. */
static char *
op_text(const bson_t *document)
{
	bson_t		copy = BSON_INITIALIZER;
	bson_iter_t root;
	bson_iter_t field;
	char	   *text;

	if (bson_iter_init(&root, document) && bson_iter_find_descendant(&root, "_id.b", &field))
		bson_append_iter(&copy, "b", 1, &field);
	bson_copy_to_excluding_noinit(document, &copy, "_id", NULL);
	text = bson_as_canonical_extended_json(&copy, NULL);
	bson_destroy(&copy);
	return text;
}

static int64_t
op_id_of(const bson_t *document)
{
	bson_iter_t root;
	bson_iter_t field;

	assert_true(bson_iter_init(&root, document));
	if (!bson_iter_find_descendant(&root, "_id.o", &field))
	{
		assert_true(bson_iter_init_find(&field, document, "_id"));
	}
	assert_int_equal(bson_iter_type(&field), BSON_TYPE_INT64);
	return bson_iter_int64(&field);
}

/* What the collection holds is what the vector's step shows, in op order. */
static void
assert_same_ops(Stand *stand, const bson_t *vector, const char *path, const char *collection)
{
	ExpectedOp	expected[64];
	int			count = 0;
	bson_iter_t root;
	bson_iter_t list;
	bson_iter_t item;
	mongoc_collection_t *handle =
		mongoc_client_get_collection(stand->client, stand->database, collection);
	bson_t		all = BSON_INITIALIZER;
	ExpectedOp	got[64];
	int			n = 0;
	mongoc_cursor_t *cursor;
	const bson_t *document;

	assert_true(bson_iter_init(&root, vector));
	assert_true(bson_iter_find_descendant(&root, path, &list));
	assert_true(bson_iter_recurse(&list, &item));
	while (bson_iter_next(&item))
	{
		const uint8_t *data;
		uint32_t	len;

		assert_true(count < 64);
		bson_iter_document(&item, &len, &data);
		assert_true(bson_init_static(&expected[count].document, data, len));
		expected[count].op_id = op_id_of(&expected[count].document);
		count++;
	}
	qsort(expected, (size_t) count, sizeof(expected[0]), by_op_id);

	/* sorted here: the order of embedded _ids is not every server's strength */
	cursor = mongoc_collection_find_with_opts(handle, &all, NULL, NULL);
	while (mongoc_cursor_next(cursor, &document))
	{
		assert_true(n < 64);
		got[n].op_id = op_id_of(document);
		bson_copy_to(document, &got[n++].document);
	}
	qsort(got, (size_t) n, sizeof(got[0]), by_op_id);
	assert_int_equal(n, count);
	for (int i = 0; i < n; i++)
	{
		char	   *a = op_text(&got[i].document);
		char	   *b = op_text(&expected[i].document);

		assert_string_equal(a, b);
		bson_free(a);
		bson_free(b);
		bson_destroy(&got[i].document);
	}
	mongoc_cursor_destroy(cursor);
	bson_destroy(&all);
	mongoc_collection_destroy(handle);
}

static SourceTableId
table_id_of(const char *hex)
{
	SourceTableId id;
	bson_oid_t	oid;

	bson_oid_init_from_string(&oid, hex);
	memcpy(id.bytes, oid.bytes, sizeof(id.bytes));
	return id;
}

/* The steps of scenario_v2_legacy give the ops that the service gave. */
static void
test_scenario_v2_legacy(void **state)
{
	Stand	   *stand = *state;
	bson_t	   *vector = read_vector("scenario_v2_legacy.json");
	bson_iter_t field;
	const char *yaml;
	RulesTable *items;
	RulesTable *memberships;
	SyncValue	a1[6];
	SyncValue	a2[6];
	SyncValue	m1[4];
	WriterProgress progress;

	if (vector == NULL)
		skip();
	assert_true(bson_iter_init_find(&field, vector, "sync_config_yaml"));
	yaml = bson_iter_utf8(&field, NULL);
	items = rules_table_create(yaml, "1#", "items", "id", "name", "group_id", "amount", "big",
							   "bin", NULL);
	memberships = rules_table_create(yaml, "1#", "memberships", "id", "group_id", "user_id",
									 "level", NULL);
	items->table->id = table_id_of("660000000000000000000001");
	memberships->table->id = table_id_of("660000000000000000000002");
	memcpy(a1, (SyncValue[]) {value("a1"), value("First \"q\""), value("g1"), value_real(1.5),
		   value_integer(INT64_C(9007199254740993)), value_blob("\x01\x02", 2)}, sizeof(a1));
	memcpy(a2, (SyncValue[]) {value("a2"), value("Second"), value("g1"), value_real(2),
		   value_integer(5), value_null()}, sizeof(a2));
	memcpy(m1, (SyncValue[]) {value("m1"), value("g1"), value("u1"), value_integer(3)}, sizeof(m1));

	stand_open(stand, stand_deploy(stand, yaml));
	stand_write(stand, NULL);
	add(stand, WRITE_POSITION, 0x9000);
	add_table(stand, WRITE_TABLE, items->table, false);
	add_table(stand, WRITE_TABLE, memberships->table, false);
	add(stand, WRITE_CHUNK_BEGIN, 0xAA00);
	add_values(stand, ROW_COPY, items, a1, NULL);
	add_values(stand, ROW_COPY, items, a2, NULL);
	add_table(stand, WRITE_CHUNK_END, items->table, true);
	add(stand, WRITE_CHUNK_BEGIN, 0xAA00);
	add_values(stand, ROW_COPY, memberships, m1, NULL);
	add_table(stand, WRITE_CHUNK_END, memberships->table, true);
	stored(stand);
	assert_same_ops(stand, vector, "after_snapshot_flush.bucket_data", "bucket_data");
	assert_same_ops(stand, vector, "after_snapshot_flush.bucket_parameters", "bucket_parameters");

	add(stand, WRITE_SNAPSHOT_DONE, 0xBB00);
	add(stand, WRITE_KEEPALIVE, 0xBB10);
	progress = stored(stand);
	assert_int_equal(progress.checkpoint_op, 5);
	assert_true(progress.active);

	begin(stand, 0xCC00);
	a1[1] = value("Renamed");
	a1[2] = value("g2");
	a1[4] = value(NULL);
	add_values(stand, ROW_UPDATE, items, a1, NULL);
	add_delete(stand, items->table, "a2");
	add_delete(stand, memberships->table, "m1");
	commit(stand, 0xCC00);
	stored(stand);
	assert_same_ops(stand, vector, "after_update.bucket_data", "bucket_data");
	assert_same_ops(stand, vector, "after_update.bucket_parameters", "bucket_parameters");

	begin(stand, 0xCD00);
	a1[0] = value("a9");
	a1[1] = value("First \"q\"");
	a1[2] = value("g1");
	a1[4] = value_integer(INT64_C(9007199254740993));
	add_values(stand, ROW_UPDATE, items, a1, "a1");
	commit(stand, 0xCD00);
	progress = stored(stand);
	assert_int_equal(progress.checkpoint_lsn, 0xCD00);
	assert_same_ops(stand, vector, "after_keychange.bucket_data", "bucket_data");
	assert_field(stand, "bucket_state", "{\"_id.b\": \"1#global[]\"}",
				 "estimate_since_compact.bytes", "{ \"$numberInt\" : \"1319\" }");
	assert_int_equal(count_documents(stand, "pgsync_row_state_1", "{}"), 1);
	rules_table_free(items);
	rules_table_free(memberships);
	bson_destroy(vector);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		stand_test(test_scenario_v2_legacy),
	};

	mongoc_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
