/*-------------------------------------------------------------------------
 *
 * test_mongo_writer.c
 *	  The storage thread and the writer against a real server: what is stored,
 *	  what happens when something else writes, dies or takes over.
 *
 * Needs a server: PGSYNC_TEST_MONGODB_URI (with_storage.py starts one).
 *
 *-------------------------------------------------------------------------
 */
#include "mongo_test.h"

#include <stdio.h>

#define CONFIG "bucket_definitions:\n  global:\n    data: []\n"

static int
setup(void **state)
{
	*state = stand_create(NULL);
	return 0;
}

static int
teardown(void **state)
{
	stand_destroy(*state);
	return 0;
}

/* A stream with its copy done, served, at LSN 0x100. */
static Stand *
active_stand(void **state)
{
	Stand	   *stand = *state;

	stand_open(stand, stand_deploy(stand, CONFIG));
	stand_write(stand, NULL);
	add(stand, WRITE_POSITION, 0x80);
	add(stand, WRITE_SNAPSHOT_DONE, 0x100);
	add(stand, WRITE_KEEPALIVE, 0x100);
	stored(stand);
	return stand;
}

static void
begin(Stand *stand, uint64_t end)
{
	add(stand, WRITE_BEGIN, end);
}

static void
commit(Stand *stand, uint64_t end)
{
	add(stand, WRITE_COMMIT, end);
}

/* another process for the same database */
static Stand *
second_stand(Stand *first)
{
	return stand_create(first->database);
}

/* ---------------------------------------------------------------- life of a stream */

static void
test_deploy(void **state)
{
	Stand	   *stand = *state;
	int32_t		id = stand_deploy(stand, CONFIG);
	int32_t		next;

	assert_int_equal(id, 1);
	assert_field(stand, "sync_rules", "{\"_id\": 1}", "state", "\"PROCESSING\"");
	assert_field(stand, "sync_rules", "{\"_id\": 1}", "_id", "{ \"$numberInt\" : \"1\" }");
	assert_field(stand, "sync_rules", "{\"_id\": 1}", "storage_version", "{ \"$numberInt\" : \"2\" }");
	assert_field(stand, "sync_rules", "{\"_id\": 1}", "parameter_compaction.compacted_before",
				 "{ \"$numberLong\" : \"0\" }");
	assert_field(stand, "op_id_sequence", "{\"_id\": \"sync_rules\"}", "op_id",
				 "{ \"$numberLong\" : \"1\" }");
	assert_field(stand, "migrations", "{}", "last_run",
				 "\"1782950400000-checkpoint-requested-at-index\"");
	assert_int_equal(count_documents(stand, "checkpoint_events", "{}"), 1);

	/* again: nothing is made twice, the first one is replaced */
	next = stand_deploy(stand, CONFIG);
	assert_int_equal(next, 2);
	assert_field(stand, "sync_rules", "{\"_id\": 1}", "state", "\"STOP\"");
	assert_int_equal(count_documents(stand, "migrations", "{}"), 1);
}

static void
test_empty_stream_becomes_active(void **state)
{
	Stand	   *stand = active_stand(state);
	WriterProgress progress = stored(stand);

	assert_true(progress.active);
	assert_int_equal(progress.stored_lsn, 0x100);
	assert_int_equal(progress.checkpoint_lsn, 0x100);
	assert_int_equal(progress.checkpoint_op, 0);
	assert_field(stand, "sync_rules", "{}", "state", "\"ACTIVE\"");
	assert_field(stand, "sync_rules", "{}", "last_checkpoint", "{ \"$numberLong\" : \"0\" }");
	assert_field(stand, "sync_rules", "{}", "last_checkpoint_lsn", "\"00000000/00000100\"");
	assert_field(stand, "sync_rules", "{}", "snapshot_lsn", "null");
	assert_field(stand, "sync_rules", "{}", "keepalive_op", "null");
	assert_field(stand, "sync_rules", "{}", "no_checkpoint_before", "\"00000000/00000100\"");
	assert_int_equal(count_documents(stand, "checkpoint_events", "{}"), 2);
}

static void
test_changes(void **state)
{
	Stand	   *stand = active_stand(state);
	SourceTable *table = table_create("items");
	WriterProgress progress;
	RowChange  *change;

	begin(stand, 0x200);
	add_table(stand, WRITE_TABLE, table, true);
	change = add_row(stand, ROW_INSERT, table, "a1", "{\"v\":1}", "1#a[]", "1#b[]", NULL);
	add_lookup(stand, change, "u1");
	add_row(stand, ROW_INSERT, table, "a2", "{\"v\":2}", "1#a[]", NULL);
	commit(stand, 0x200);
	progress = stored(stand);
	assert_int_equal(progress.ops, 4);
	assert_int_equal(progress.rows, 2);
	assert_int_equal(progress.transactions, 1);
	assert_int_equal(progress.checkpoint_lsn, 0x200);
	assert_int_equal(progress.checkpoint_op, 4);
	assert_ops(stand, "1#a[]", "PUT a1, PUT a2");
	assert_ops(stand, "1#b[]", "PUT a1");
	assert_field(stand, "bucket_state", "{\"_id.b\": \"1#a[]\"}", "last_op",
				 "{ \"$numberLong\" : \"4\" }");
	assert_field(stand, "bucket_state", "{\"_id.b\": \"1#a[]\"}", "estimate_since_compact.count",
				 "{ \"$numberInt\" : \"2\" }");
	assert_int_equal(count_documents(stand, "pgsync_row_state_1", "{}"), 2);

	/* leaves b, changes its lookup; the other is deleted */
	begin(stand, 0x300);
	change = add_row(stand, ROW_UPDATE, table, "a1", "{\"v\":3}", "1#a[]", NULL);
	add_lookup(stand, change, "u2");
	add_delete(stand, table, "a2");
	add_delete(stand, table, "unknown");
	commit(stand, 0x300);
	progress = stored(stand);
	assert_ops(stand, "1#a[]", "PUT a1, PUT a2, PUT a1, REMOVE a2");
	assert_ops(stand, "1#b[]", "PUT a1, REMOVE a1");
	assert_int_equal(progress.checkpoint_op, 9);
	assert_int_equal(count_documents(stand, "bucket_parameters", "{}"), 3);
	assert_int_equal(count_documents(stand, "bucket_parameters",
									 "{\"bucket_parameters\": []}"), 1);
	assert_int_equal(count_documents(stand, "pgsync_row_state_1", "{}"), 1);

	/* key change, and an insert of what exists: the old bucket is left */
	begin(stand, 0x400);
	change = add_row(stand, ROW_UPDATE, table, "a9", "{\"v\":4}", "1#a[]", NULL);
	change->has_before = true;
	change->before = key_of("a1");
	add_row(stand, ROW_INSERT, table, "a9", "{\"v\":5}", "1#b[]", NULL);
	commit(stand, 0x400);
	stored(stand);
	assert_ops(stand, "1#a[]", "PUT a1, PUT a2, PUT a1, REMOVE a2, REMOVE a1, PUT a9, REMOVE a9");
	assert_ops(stand, "1#b[]", "PUT a1, REMOVE a1, PUT a9");
	assert_int_equal(count_documents(stand, "pgsync_row_state_1", "{}"), 1);

	begin(stand, 0x500);
	add(stand, WRITE_TABLE_DROP, 0)->table_id = table->id;
	commit(stand, 0x500);
	progress = stored(stand);
	assert_ops(stand, "1#b[]", "PUT a1, REMOVE a1, PUT a9, REMOVE a9");
	assert_int_equal(count_documents(stand, "pgsync_row_state_1", "{}"), 0);
	assert_int_equal(count_documents(stand, "source_tables", "{}"), 0);
	assert_int_equal(count_documents(stand, "pgsync_tables", "{}"), 0);
	assert_int_equal(progress.checkpoint_lsn, 0x500);
	assert_field(stand, "op_id_sequence", "{\"_id\": \"main\"}", "op_id",
				 "{ \"$numberLong\" : \"15\" }");
	source_table_release(table);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_deploy, setup, teardown),
		cmocka_unit_test_setup_teardown(test_empty_stream_becomes_active, setup, teardown),
		cmocka_unit_test_setup_teardown(test_changes, setup, teardown),
	};

	(void) second_stand;
	mongoc_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
