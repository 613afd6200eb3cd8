/*-------------------------------------------------------------------------
 *
 * test_mongo_fence.c
 *	  The writer when somebody else wrote to the storage, took the stream or
 *	  restored an older state: it stops, says why, and stores nothing.
 *
 * Needs a server: PGSYNC_TEST_MONGODB_URI (with_storage.py starts one).
 *
 *-------------------------------------------------------------------------
 */
#include "mongo_test.h"

/* Meddles with the storage, then writes one transaction: it must fail and store nothing. */
static void
expect_failure(void **state, const char *meddle, StorageErrorKind kind)
{
	Stand	   *stand = active_stand(state);
	SourceTable *table = table_create("items");
	StorageError error;

	begin(stand, 0x200);
	add_row(stand, ROW_INSERT, table, "a1", "{}", "1#a[]", NULL);
	commit(stand, 0x200);
	stored(stand);
	command(stand, meddle);
	begin(stand, 0x300);
	add_row(stand, ROW_INSERT, table, "a2", "{}", "1#a[]", NULL);
	commit(stand, 0x300);
	error = failure(stand);
	assert_int_equal(error.kind, kind);
	assert_ops(stand, "1#a[]", "PUT a1");
	assert_int_equal(count_documents(stand, "pgsync_row_state_1", "{}"), 1);
	source_table_release(table);
}

static void
test_sequence_restored(void **state)
{
	expect_failure(state, UPDATE("op_id_sequence", "{\"_id\": \"main\"}",
								 "{\"$set\": {\"op_id\": {\"$numberLong\": \"0\"}}}"),
				   STORAGE_CHANGED);
}

static void
test_position_restored(void **state)
{
	expect_failure(state, UPDATE("sync_rules", "{}",
								 "{\"$set\": {\"last_checkpoint_lsn\": \"00000000/00000100\","
								 " \"lock\": {\"id\": \"0000000000000000\"}}}"),
				   STORAGE_CHANGED);
}

static void
test_position_changed(void **state)
{
	expect_failure(state, UPDATE("sync_rules", "{}",
								 "{\"$set\": {\"last_checkpoint_lsn\": \"00000000/00000280\"}}"),
				   STORAGE_CHANGED);
}

static void
test_stream_deleted(void **state)
{
	expect_failure(state, "{\"delete\": \"sync_rules\", \"deletes\": [{\"q\": {}, \"limit\": 0}]}",
				   STORAGE_CHANGED);
}

static void
test_lock_taken(void **state)
{
	expect_failure(state, UPDATE("sync_rules", "{}",
								 "{\"$set\": {\"lock.id\": \"0123456789abcdef\"}}"),
				   STORAGE_LOCK_LOST);
}

static void
test_lock_taken_and_written(void **state)
{
	expect_failure(state, UPDATE("sync_rules", "{}",
								 "{\"$set\": {\"lock.id\": \"0123456789abcdef\","
								 " \"last_checkpoint_lsn\": \"00000000/00000280\"}}"),
				   STORAGE_LOCK_LOST);
}

static void
test_stream_stopped(void **state)
{
	expect_failure(state, UPDATE("sync_rules", "{}", "{\"$set\": {\"state\": \"STOP\"}}"),
				   STORAGE_STREAM_GONE);
}

/* A keepalive without ops is filtered as a flush is. */
static void
test_keepalive_without_lock(void **state)
{
	Stand	   *stand = active_stand(state);
	StorageError error;

	command(stand, UPDATE("sync_rules", "{}", "{\"$set\": {\"lock.id\": \"0123456789abcdef\"}}"));
	add(stand, WRITE_KEEPALIVE, 0x300);
	error = failure(stand);
	assert_int_equal(error.kind, STORAGE_LOCK_LOST);
	assert_field(stand, "sync_rules", "{}", "last_checkpoint_lsn", "\"00000000/00000100\"");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		stand_test(test_sequence_restored),
		stand_test(test_position_restored),
		stand_test(test_position_changed),
		stand_test(test_stream_deleted),
		stand_test(test_lock_taken),
		stand_test(test_lock_taken_and_written),
		stand_test(test_stream_stopped),
		stand_test(test_keepalive_without_lock),
	};

	mongoc_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
