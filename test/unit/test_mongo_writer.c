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
#include <unistd.h>

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


static void
test_truncate_in_parts(void **state)
{
	Stand	   *stand = *state;
	SourceTable *table = table_create("items");
	WriterOptions small = {.max_documents = 50};
	WriterProgress progress;

	stand_open(stand, stand_deploy(stand, CONFIG));
	stand_write(stand, &small);
	add(stand, WRITE_SNAPSHOT_DONE, 0x100);
	begin(stand, 0x200);
	for (int i = 0; i < 230; i++)
	{
		char		id[16];

		snprintf(id, sizeof(id), "r%d", i);
		add_row(stand, ROW_INSERT, table, id, "{}", "1#a[]", NULL);
	}
	add(stand, WRITE_TRUNCATE, 0)->table = source_table_retain(table);
	add_row(stand, ROW_INSERT, table, "after", "{}", "1#a[]", NULL);
	commit(stand, 0x200);
	progress = stored(stand);
	assert_int_equal(progress.ops, 461);
	assert_true(progress.flushes >= 10);
	assert_int_equal(count_documents(stand, "pgsync_row_state_1", "{}"), 1);
	assert_int_equal(count_documents(stand, "bucket_data", "{\"op\": \"REMOVE\"}"), 230);
	/* one checkpoint for all of it */
	assert_int_equal(progress.checkpoint_op, 461);
	assert_int_equal(count_documents(stand, "checkpoint_events", "{}"), 2);
	source_table_release(table);
}

/* ---------------------------------------------------------------- grouping and positions */

static void
test_group_commit(void **state)
{
	Stand	   *stand = active_stand(state);
	SourceTable *table = table_create("items");
	int64_t		before = stored(stand).flushes;
	WriterProgress progress;

	for (uint64_t i = 0; i < 100; i++)
	{
		char		id[16];

		snprintf(id, sizeof(id), "r%d", (int) i);
		begin(stand, 0x200 + i * 16);
		add_row(stand, ROW_INSERT, table, id, "{}", "1#a[]", NULL);
		commit(stand, 0x200 + i * 16);
	}
	progress = stored(stand);
	assert_int_equal(progress.flushes, before + 1);
	assert_int_equal(progress.transactions, 100);
	assert_int_equal(progress.checkpoint_lsn, 0x200 + 99 * 16);
	assert_int_equal(count_documents(stand, "checkpoint_events", "{}"), 3);
	source_table_release(table);
}

/*
 * The process dies when part of a transaction is stored: nothing of it can be
 * published before its end, and the next process goes on from where it was.
 */
static void
test_crash_in_a_transaction(void **state)
{
	Stand	   *stand = active_stand(state);
	SourceTable *table = table_create("items");
	WriterProgress progress;

	begin(stand, 0x200);
	add_row(stand, ROW_INSERT, table, "a1", "{\"v\":1}", "1#a[]", NULL);
	commit(stand, 0x200);
	begin(stand, 0x500);
	add_row(stand, ROW_UPDATE, table, "a1", "{\"v\":2}", "1#a[]", NULL);
	progress = stored(stand);
	assert_int_equal(progress.stored_lsn, 0x200);
	assert_int_equal(progress.checkpoint_op, 1);
	assert_field(stand, "sync_rules", "{}", "no_checkpoint_before", "\"00000000/00000500\"");
	assert_field(stand, "sync_rules", "{}", "keepalive_op", "\"2\"");
	assert_field(stand, "sync_rules", "{}", "last_checkpoint", "{ \"$numberLong\" : \"1\" }");

	stand_stop(stand);
	stand_start(stand);
	stand_open(stand, 1);
	assert_int_equal(stream_stored_lsn(stand->stream), 0x200);
	assert_int_equal(stand->stream->no_checkpoint_before, 0x500);
	assert_int_equal(stand->stream->keepalive_op, 2);
	stand_write(stand, NULL);

	/* other transactions end before: their commits are stored, not published */
	begin(stand, 0x300);
	add_row(stand, ROW_INSERT, table, "b1", "{\"v\":1}", "1#a[]", NULL);
	commit(stand, 0x300);
	progress = stored(stand);
	assert_int_equal(progress.stored_lsn, 0x300);
	assert_int_equal(progress.checkpoint_lsn, 0x200);
	assert_field(stand, "sync_rules", "{}", "snapshot_lsn", "\"00000000/00000300\"");
	assert_field(stand, "sync_rules", "{}", "keepalive_op", "\"3\"");

	begin(stand, 0x500);
	add_row(stand, ROW_UPDATE, table, "a1", "{\"v\":2}", "1#a[]", NULL);
	commit(stand, 0x500);
	progress = stored(stand);
	assert_int_equal(progress.checkpoint_lsn, 0x500);
	assert_int_equal(progress.checkpoint_op, 4);
	assert_field(stand, "sync_rules", "{}", "snapshot_lsn", "null");
	assert_field(stand, "sync_rules", "{}", "keepalive_op", "null");
	assert_ops(stand, "1#a[]", "PUT a1, PUT a1, PUT b1, PUT a1");
	source_table_release(table);
}

static void
test_copy(void **state)
{
	Stand	   *stand = *state;
	SourceTable *table = table_create("items");
	WriteItem  *item;
	WriterProgress progress;

	stand_open(stand, stand_deploy(stand, CONFIG));
	stand_write(stand, NULL);
	add(stand, WRITE_POSITION, 0x80);
	add_table(stand, WRITE_TABLE, table, false);
	add(stand, WRITE_CHUNK_BEGIN, 0x110);
	add_row(stand, ROW_COPY, table, "a1", "{\"v\":1}", "1#a[]", NULL);
	add_row(stand, ROW_COPY, table, "a2", "{\"v\":1}", "1#a[]", NULL);
	add_row(stand, ROW_COPY, table, "a1", "{\"v\":2}", "1#b[]", NULL);
	item = add_table(stand, WRITE_CHUNK_END, table, false);
	item->table_doc->relfilenode = 77;
	item->table_doc->next_tid = 65537;
	item->table_doc->rows_copied = 2;
	progress = stored(stand);
	assert_int_equal(progress.stored_lsn, 0x80);
	assert_int_equal(progress.chunks_stored, 1);
	assert_int_equal(progress.copied_next_tid, 65537);
	assert_field(stand, "sync_rules", "{}", "no_checkpoint_before", "\"00000000/00000110\"");
	assert_field(stand, "sync_rules", "{}", "snapshot_lsn", "\"00000000/00000080\"");
	assert_field(stand, "source_tables", "{}", "snapshot_status.replicated_count",
				 "{ \"$numberInt\" : \"2\" }");
	assert_ops(stand, "1#a[]", "PUT a1, PUT a2");
	assert_ops(stand, "1#b[]", "");

	/* crash; the chunk comes again, with one more row */
	stand_stop(stand);
	stand_start(stand);
	stand_open(stand, 1);
	assert_int_equal(stand->stream->table_count, 1);
	assert_int_equal(stand->stream->tables[0].next_tid, 65537);
	assert_int_equal(stand->stream->tables[0].relfilenode, 77);
	assert_false(stand->stream->tables[0].snapshot_done);
	assert_true(stand->stream->has_data);
	stand_write(stand, NULL);
	add(stand, WRITE_CHUNK_BEGIN, 0x120);
	add_row(stand, ROW_COPY, table, "a2", "{\"v\":9}", "1#a[]", NULL);
	add_row(stand, ROW_COPY, table, "a3", "{\"v\":1}", "1#a[]", NULL);
	item = add_table(stand, WRITE_CHUNK_END, table, true);
	stored(stand);
	assert_ops(stand, "1#a[]", "PUT a1, PUT a2, PUT a3");
	assert_field(stand, "source_tables", "{}", "snapshot_done", "true");
	assert_field(stand, "source_tables", "{}", "snapshot_status", "absent");

	add(stand, WRITE_SNAPSHOT_DONE, 0x130);
	commit(stand, 0x125);
	progress = stored(stand);
	assert_int_equal(progress.checkpoint_lsn, STREAM_LSN_NONE);
	assert_int_equal(progress.stored_lsn, 0x125);
	add(stand, WRITE_KEEPALIVE, 0x130);
	progress = stored(stand);
	assert_true(progress.active);
	assert_int_equal(progress.checkpoint_op, 3);
	source_table_release(table);
}

static void
test_copy_not_complete(void **state)
{
	Stand	   *stand = *state;
	SourceTable *table = table_create("items");
	StorageError error;

	stand_open(stand, stand_deploy(stand, CONFIG));
	stand_write(stand, NULL);
	add_table(stand, WRITE_TABLE, table, false);
	add(stand, WRITE_SNAPSHOT_DONE, 0x130);
	error = failure(stand);
	assert_int_equal(error.kind, STORAGE_INVALID);
	assert_field(stand, "sync_rules", "{}", "snapshot_done", "false");
	source_table_release(table);
}

/* ---------------------------------------------------------------- what others do */

static void
test_write_conflicts(void **state)
{
	Stand	   *stand = active_stand(state);
	SourceTable *table = table_create("items");
	mongoc_client_session_t *session = mongoc_client_start_session(stand->client, NULL, NULL);
	mongoc_collection_t *sequence =
		mongoc_client_get_collection(stand->client, stand->database, "op_id_sequence");
	bson_t	   *filter = BCON_NEW("_id", "main");
	bson_t	   *update = BCON_NEW("$inc", "{", "op_id", BCON_INT64(10), "}");
	bson_t		opts = BSON_INITIALIZER;
	WriterProgress progress;

	command(stand, "{\"update\": \"op_id_sequence\", \"updates\": [{\"q\": {\"_id\": \"main\"},"
			" \"u\": {\"$inc\": {\"op_id\": {\"$numberLong\": \"1\"}}}, \"upsert\": true}]}");
	assert_true(mongoc_client_session_start_transaction(session, NULL, NULL));
	assert_true(mongoc_client_session_append(session, &opts, NULL));
	assert_true(mongoc_collection_update_one(sequence, filter, update, &opts, NULL, NULL));
	begin(stand, 0x200);
	add_row(stand, ROW_INSERT, table, "a1", "{}", "1#a[]", NULL);
	commit(stand, 0x200);
	submit(stand);
	do
		writer_progress(stand->thread, &progress);
	while (!progress.failed && progress.rows == 0 && !writer_idle(stand->thread) &&
		   mongoc_client_session_in_transaction(session) &&
		   (usleep(100000), mongoc_client_session_commit_transaction(session, NULL, NULL)));
	progress = stored(stand);
	assert_true(progress.write_conflicts > 0);
	assert_int_equal(progress.ops, 1);
	assert_int_equal(progress.checkpoint_op, 12);
	assert_ops(stand, "1#a[]", "PUT a1");
	mongoc_client_session_destroy(session);
	mongoc_collection_destroy(sequence);
	bson_destroy(filter);
	bson_destroy(update);
	bson_destroy(&opts);
	source_table_release(table);
}

/*
 * The server commits and the answer is lost, more often than the driver itself
 * tries again: nothing is written twice, nothing is missing.
 */
static void
test_lost_commit_answers(void **state)
{
	Stand	   *stand = active_stand(state);
	SourceTable *table = table_create("items");
	LossyProxy *proxy;
	WriterProgress progress;

	stand_stop(stand);
	proxy = lossy_proxy_start(stand, 0);
	stand_start(stand);
	stand_open(stand, 1);
	stand_write(stand, NULL);
	lossy_proxy_lose(proxy, 5);
	begin(stand, 0x200);
	add_row(stand, ROW_INSERT, table, "a1", "{}", "1#a[]", NULL);
	commit(stand, 0x200);
	progress = stored(stand);
	assert_int_equal(progress.checkpoint_lsn, 0x200);
	assert_int_equal(progress.checkpoint_op, 1);
	assert_ops(stand, "1#a[]", "PUT a1");
	begin(stand, 0x300);
	add_row(stand, ROW_UPDATE, table, "a1", "{}", "1#a[]", NULL);
	commit(stand, 0x300);
	progress = stored(stand);
	assert_int_equal(progress.checkpoint_op, 2);
	assert_ops(stand, "1#a[]", "PUT a1, PUT a1");
	stand_stop(stand);
	assert_int_equal(lossy_proxy_stop(proxy), 5);
	stand->uri[0] = '\0';
	stand_start(stand);
	source_table_release(table);
}

/* The storage goes away: that is said at once, long before the writer gives up. */
static void
test_waiting_is_shown(void **state)
{
	Stand	   *stand = active_stand(state);
	SourceTable *table = table_create("items");
	LossyProxy *proxy;
	WriterProgress progress;

	stand_stop(stand);
	proxy = lossy_proxy_start(stand, 0);
	stand_start(stand);
	stand_open(stand, 1);
	stand_write(stand, NULL);
	add(stand, WRITE_KEEPALIVE, 0x110);
	assert_int_equal(stored(stand).waiting.kind, STORAGE_OK);
	(void) lossy_proxy_stop(proxy);
	begin(stand, 0x200);
	/* nothing that is read before the transaction: a read is not tried again */
	add_table(stand, WRITE_TABLE, table, true);
	submit(stand);
	for (int i = 0; i < 200; i++)
	{
		writer_progress(stand->thread, &progress);
		if (progress.failed || progress.waiting.kind != STORAGE_OK)
			break;
		usleep(50000);
	}
	assert_int_equal(progress.waiting.kind, STORAGE_UNREACHABLE);
	assert_false(progress.failed);
	stand_stop(stand);
	stand->uri[0] = '\0';
	stand_start(stand);
	source_table_release(table);
}

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

#define UPDATE(collection, filter, update) \
	"{\"update\": \"" collection "\", \"updates\": [{\"q\": " filter ", \"u\": " update "}]}"

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

/* ---------------------------------------------------------------- write checkpoints */

#define WRITE_CHECKPOINT(user, lsn) \
	"{\"insert\": \"write_checkpoints\", \"documents\": [{\"user_id\": \"" user "\"," \
	" \"client_id\": {\"$numberLong\": \"1\"}, \"lsns\": {\"1\": \"" lsn "\"}," \
	" \"processed_at_lsn\": null}]}"

static void
test_write_checkpoints(void **state)
{
	Stand	   *stand = active_stand(state);

	command(stand, WRITE_CHECKPOINT("u1", "00000000/00000100"));
	command(stand, WRITE_CHECKPOINT("u2", "00000000/00000300"));

	/* the same position again is no transition that could deliver it */
	add(stand, WRITE_KEEPALIVE, 0x100);
	stored(stand);
	assert_field(stand, "write_checkpoints", "{\"user_id\": \"u1\"}", "processed_at_lsn", "null");
	add(stand, WRITE_KEEPALIVE, 0x200);
	stored(stand);
	assert_field(stand, "write_checkpoints", "{\"user_id\": \"u1\"}", "processed_at_lsn",
				 "\"00000000/00000200\"");
	assert_field(stand, "write_checkpoints", "{\"user_id\": \"u2\"}", "processed_at_lsn", "null");
	add(stand, WRITE_KEEPALIVE, 0x300);
	stored(stand);
	assert_field(stand, "write_checkpoints", "{\"user_id\": \"u2\"}", "processed_at_lsn",
				 "\"00000000/00000300\"");
}

/* ---------------------------------------------------------------- activation */

static void
test_activation(void **state)
{
	Stand	   *stand = active_stand(state);
	Stand	   *next = second_stand(stand);
	SourceTable *table = table_create("items");
	WriterProgress progress;
	StorageError error;

	begin(stand, 0x400);
	add_row(stand, ROW_INSERT, table, "a1", "{}", "1#a[]", NULL);
	commit(stand, 0x400);
	stored(stand);
	command(stand, WRITE_CHECKPOINT("u1", "00000000/00000300"));

	assert_int_equal(stand_deploy(next, CONFIG), 2);
	stand_open(next, 2);
	stand_write(next, NULL);
	add(next, WRITE_SNAPSHOT_DONE, 0x200);
	add(next, WRITE_KEEPALIVE, 0x300);
	progress = stored(next);
	/* a checkpoint of its own, not below the ops clients know; but clients would go back */
	assert_int_equal(progress.checkpoint_lsn, 0x300);
	assert_int_equal(progress.checkpoint_op, 1);
	assert_false(progress.active);
	assert_field(stand, "sync_rules", "{\"_id\": 1}", "state", "\"ACTIVE\"");
	/* and it does not mark what the served stream has to deliver */
	assert_field(stand, "write_checkpoints", "{}", "processed_at_lsn", "null");

	add(next, WRITE_KEEPALIVE, 0x400);
	progress = stored(next);
	assert_true(progress.active);
	assert_field(stand, "sync_rules", "{\"_id\": 1}", "state", "\"STOP\"");
	assert_field(stand, "sync_rules", "{\"_id\": 2}", "state", "\"ACTIVE\"");
	assert_field(stand, "write_checkpoints", "{}", "processed_at_lsn", "null");
	add(next, WRITE_KEEPALIVE, 0x410);
	stored(next);
	assert_field(stand, "write_checkpoints", "{}", "processed_at_lsn", "\"00000000/00000410\"");

	add(stand, WRITE_KEEPALIVE, 0x420);
	error = failure(stand);
	assert_int_equal(error.kind, STORAGE_STREAM_GONE);
	stand_forget(next);
	source_table_release(table);
}

/* A served stream at 0x400, which a new one on this timeline does not reach; is it replaced? */
static bool
replaces_served(Stand *stand, Stand *next, uint32_t timeline)
{
	bool		active;

	next->self.timeline = timeline;
	stand_open(next, stand_deploy(next, CONFIG));
	stand_write(next, NULL);
	add(next, WRITE_SNAPSHOT_DONE, 0x200);
	add(next, WRITE_KEEPALIVE, 0x300);
	active = stored(next).active;
	assert_int_equal(count_documents(stand, "sync_rules", "{\"_id\": 1, \"state\": \"STOP\"}"),
					 active ? 1 : 0);
	stand_stop(next);
	stand_start(next);
	return active;
}

static void
test_activation_after_lost_history(void **state)
{
	Stand	   *stand = active_stand(state);
	Stand	   *next = second_stand(stand);
	int32_t		first = 1;

	add(stand, WRITE_KEEPALIVE, 0x400);
	stored(stand);
	/* one that is not held here is not marked */
	stand_run(next, storage_mark_history, &first);
	assert_field(stand, "pgsync_streams", "{\"_id\": 1}", "history_changed", "absent");
	stand_run(stand, storage_mark_history, &first);
	assert_field(stand, "pgsync_streams", "{\"_id\": 1}", "history_changed", "true");

	/* it went on: the mark says nothing any more */
	add(stand, WRITE_KEEPALIVE, 0x410);
	stored(stand);
	assert_false(replaces_served(stand, next, 1));

	stand_run(stand, storage_mark_history, &first);
	stand_open(next, 1);
	assert_true(next->stream->history_changed);
	assert_true(replaces_served(stand, next, 1));
	stand_forget(next);
}

static void
test_adopt_ends_lost_history(void **state)
{
	Stand	   *stand = active_stand(state);
	int32_t		first = 1;
	StorageOpenStream adopt = {.self = stand->self, .stream_id = 1};

	stand_run(stand, storage_mark_history, &first);
	stand_run(stand, storage_adopt_stream, &adopt);
	stand_open(stand, 1);
	assert_false(stand->stream->history_changed);
}

static void
test_activation_on_a_new_timeline(void **state)
{
	Stand	   *stand = active_stand(state);
	Stand	   *next = second_stand(stand);
	StorageOpenStream renew = {0};
	WriterProgress progress;

	add(stand, WRITE_KEEPALIVE, 0x400);
	stored(stand);
	/* deployed before the promotion: it catches up, and then takes over */
	stand_open(next, stand_deploy(next, CONFIG));
	next->self.timeline = 2;
	renew.self = next->self;
	renew.stream_id = next->stream->id;
	stand_run(next, storage_adopt_stream, &renew);
	stand_write(next, NULL);
	add(next, WRITE_SNAPSHOT_DONE, 0x200);
	add(next, WRITE_KEEPALIVE, 0x300);
	progress = stored(next);
	assert_false(progress.active);
	add(next, WRITE_KEEPALIVE, 0x400);
	progress = stored(next);
	assert_true(progress.active);
	stand_forget(next);
}

static void
test_activation_on_a_branch(void **state)
{
	Stand	   *stand = active_stand(state);
	Stand	   *next = second_stand(stand);

	add(stand, WRITE_KEEPALIVE, 0x400);
	stored(stand);
	/* the served one went on past the point where timeline 2 branched off */
	assert_true(replaces_served(stand, next, 2));
	stand_forget(next);
}

static void
test_activation_elsewhere(void **state)
{
	Stand	   *stand = active_stand(state);
	Stand	   *next = second_stand(stand);

	add(stand, WRITE_KEEPALIVE, 0x400);
	stored(stand);
	strcpy(next->self.host, "elsewhere:/data");
	assert_true(replaces_served(stand, next, 1));
	stand_forget(next);
}

/* ---------------------------------------------------------------- large rows */

static void
add_wide_row(Stand *stand, RowChangeKind kind, SourceTable *table, int first, int count)
{
	RowChange  *change = add_row(stand, kind, table, "wide", "{}", NULL);
	SyncArena  *arena = stand->batch->arena;

	change->row.bucket_rows = arena_array(arena, BucketRow, (size_t) count);
	change->row.bucket_row_count = count;
	for (int i = 0; i < count; i++)
	{
		BucketRow  *row = &change->row.bucket_rows[i];
		char	   *bucket = arena_printf(arena, "1#w[%d]", first + i);

		row->bucket = (SyncString) {bucket, (uint32_t) strlen(bucket)};
		row->table = sync_string_literal("items");
		row->row_id = sync_string_literal("wide");
		row->json = sync_string_literal("{}");
		row->checksum = checksum_put(row->table, row->row_id, row->json);
	}
}

static void
test_row_in_many_buckets(void **state)
{
	Stand	   *stand = active_stand(state);
	SourceTable *table = table_create("items");
	WriterOptions small = {.served = true, .max_documents = 40};
	int64_t		flushes;
	WriterProgress progress;

	stand_stop(stand);
	stand_start(stand);
	stand_open(stand, 1);
	stand_write(stand, &small);
	flushes = stored(stand).flushes;
	begin(stand, 0x200);
	add_row(stand, ROW_INSERT, table, "a1", "{}", "1#a[]", NULL);
	add_wide_row(stand, ROW_INSERT, table, 0, 100);
	add_row(stand, ROW_INSERT, table, "a2", "{}", "1#a[]", NULL);
	commit(stand, 0x200);
	progress = stored(stand);
	assert_int_equal(progress.flushes, flushes + 1 + 3 + 1);
	assert_int_equal(progress.ops, 102);
	assert_int_equal(progress.checkpoint_op, 102);
	assert_int_equal(count_documents(stand, "pgsync_row_state_1", "{}"), 3);

	/* moves by half: 100 PUT, 50 REMOVE, in parts; then it is deleted */
	begin(stand, 0x300);
	add_wide_row(stand, ROW_UPDATE, table, 50, 100);
	commit(stand, 0x300);
	stored(stand);
	assert_ops(stand, "1#w[49]", "PUT wide, REMOVE wide");
	assert_ops(stand, "1#w[50]", "PUT wide, PUT wide");
	assert_ops(stand, "1#w[149]", "PUT wide");
	begin(stand, 0x400);
	add_delete(stand, table, "wide");
	commit(stand, 0x400);
	progress = stored(stand);
	assert_ops(stand, "1#w[49]", "PUT wide, REMOVE wide");
	assert_ops(stand, "1#w[149]", "PUT wide, REMOVE wide");
	assert_int_equal(count_documents(stand, "bucket_data", "{\"row_id\": \"wide\"}"), 350);
	assert_int_equal(count_documents(stand, "pgsync_row_state_1", "{}"), 2);
	assert_int_equal(progress.checkpoint_lsn, 0x400);
	source_table_release(table);
}

/* The process dies when a part of a wide row is stored: all of it can be removed. */
static void
test_crash_in_a_wide_row(void **state)
{
	Stand	   *stand = active_stand(state);
	SourceTable *table = table_create("items");
	WriterOptions small = {.served = true, .max_documents = 40};

	stand_stop(stand);
	stand_start(stand);
	stand_open(stand, 1);
	stand_write(stand, &small);
	begin(stand, 0x200);
	add_wide_row(stand, ROW_INSERT, table, 0, 100);
	submit(stand);
	/* as soon as the first part is there */
	while (count_documents(stand, "bucket_data", "{}") == 0)
		;
	stand_stop(stand);
	stand_start(stand);
	stand_open(stand, 1);
	assert_int_equal(stream_stored_lsn(stand->stream), 0x100);
	stand_write(stand, &small);
	begin(stand, 0x200);
	add_wide_row(stand, ROW_INSERT, table, 1000, 1);
	commit(stand, 0x200);
	stored(stand);
	/* every bucket that had got it has lost it */
	assert_int_equal(count_documents(stand, "bucket_data", "{\"op\": \"REMOVE\"}"), 100);
	source_table_release(table);
}

static void
test_row_too_large(void **state)
{
	Stand	   *stand = active_stand(state);
	SourceTable *table = table_create("items");
	RowChange  *change;
	WriterProgress progress;

	begin(stand, 0x200);
	add_row(stand, ROW_INSERT, table, "a1", "{}", "1#a[]", "1#b[]", NULL);
	commit(stand, 0x200);
	stored(stand);
	begin(stand, 0x300);
	change = add_row(stand, ROW_UPDATE, table, "a1", "{\"v\":2}", "1#a[]", "1#b[]", NULL);
	change->row.bucket_rows[1].json_utf16_len = 15728641;
	commit(stand, 0x300);
	progress = stored(stand);
	assert_int_equal(progress.rejected_rows, 1);
	assert_non_null(strstr(progress.last_row_error, "\"public.items\""));
	assert_ops(stand, "1#a[]", "PUT a1, PUT a1");
	assert_ops(stand, "1#b[]", "PUT a1, REMOVE a1");
	source_table_release(table);
}
/* ---------------------------------------------------------------- incomplete rows */

#define RULES \
	"bucket_definitions:\n" \
	"  by_group:\n" \
	"    parameters: SELECT group_id FROM memberships WHERE user_id = request.user_id()\n" \
	"    data:\n" \
	"      - SELECT id, group_id, body FROM items WHERE group_id = bucket.group_id\n"

static SyncValue
value(const char *s)
{
	return s != NULL ? value_text(s, strlen(s)) : (SyncValue) {.type = SYNC_UNDEFINED};
}

static void
add_item(Stand *stand, RowChangeKind kind, RulesTable *table, const char *id, const char *group,
		 const char *body, const char *before)
{
	SyncValue	values[3] = {value(id), value(group), value(body)};

	add_values(stand, kind, table, values, before);
}

/* What is left out of a change comes from the stored row. */
static void
test_incomplete_rows(void **state)
{
	Stand	   *stand = active_stand(state);
	RulesTable *table = rules_table_create(RULES, "1#", "items", "id", "group_id", "body", NULL);
	WriterProgress progress;

	begin(stand, 0x200);
	add_item(stand, ROW_INSERT, table, "r1", "A", "long", NULL);
	commit(stand, 0x200);
	/* in the same flush, and in one of its own */
	begin(stand, 0x300);
	add_item(stand, ROW_UPDATE, table, "r1", "B", NULL, NULL);
	commit(stand, 0x300);
	stored(stand);
	begin(stand, 0x400);
	add_item(stand, ROW_UPDATE, table, "r2", "C", NULL, "r1");
	commit(stand, 0x400);
	progress = stored(stand);
	assert_int_equal(progress.rereads, 0);
	assert_int_equal(progress.checkpoint_lsn, 0x400);
	assert_ops(stand, "1#by_group[\"A\"]", "PUT r1, REMOVE r1");
	assert_ops(stand, "1#by_group[\"B\"]", "PUT r1, REMOVE r1");
	assert_ops(stand, "1#by_group[\"C\"]", "PUT r2");
	assert_field(stand, "bucket_data", "{\"row_id\": \"r2\"}", "data",
				 "\"{\\\"id\\\":\\\"r2\\\",\\\"group_id\\\":\\\"C\\\",\\\"body\\\":\\\"long\\\"}\"");
	rules_table_free(table);
}

/* Where nothing is stored the row is asked for; no position is stored before the answer. */
static void
test_reread(void **state)
{
	Stand	   *stand = active_stand(state);
	RulesTable *table = rules_table_create(RULES, "1#", "items", "id", "group_id", "body", NULL);
	WriterProgress progress;
	RereadRequest *requests;

	begin(stand, 0x200);
	add_item(stand, ROW_INSERT, table, "r1", "A", "short", NULL);
	stand->batch->last->row->row_copy.len = 0;
	commit(stand, 0x200);
	stored(stand);
	begin(stand, 0x300);
	add_item(stand, ROW_UPDATE, table, "r1", "B", NULL, NULL);
	add_item(stand, ROW_UPDATE, table, "gone", "B", NULL, NULL);
	commit(stand, 0x300);
	progress = stored(stand);
	assert_int_equal(progress.rereads, 2);
	assert_int_equal(progress.stored_lsn, 0x200);
	assert_int_equal(progress.checkpoint_lsn, 0x200);
	assert_field(stand, "sync_rules", "{}", "no_checkpoint_before", "\"00000000/00000300\"");

	requests = writer_take_rereads(stand->thread);
	assert_non_null(requests);
	assert_null(writer_take_rereads(stand->thread));
	assert_ptr_equal(requests->table, table->table);
	assert_memory_equal(requests->key.data, "the key", 7);
	/* the next commit before the answer is not stored either */
	add(stand, WRITE_KEEPALIVE, 0x310);
	assert_int_equal(stored(stand).stored_lsn, 0x200);

	/* one row is there, the other is not any more */
	add(stand, WRITE_CHUNK_BEGIN, 0x350);
	add_item(stand, ROW_REREAD, table, "r1", "B", "other", NULL);
	add(stand, WRITE_CHUNK_END, 0x350);
	submit(stand);
	while (requests != NULL)
	{
		RereadRequest *next = requests->next;

		reread_request_free(requests);
		requests = next;
	}
	/* below the re-read's fence: stored, not published */
	add(stand, WRITE_KEEPALIVE, 0x320);
	progress = stored(stand);
	assert_int_equal(progress.stored_lsn, 0x320);
	assert_int_equal(progress.checkpoint_lsn, 0x200);
	add(stand, WRITE_KEEPALIVE, 0x350);
	assert_int_equal(stored(stand).checkpoint_lsn, 0x350);
	assert_ops(stand, "1#by_group[\"A\"]", "PUT r1, REMOVE r1");
	assert_ops(stand, "1#by_group[\"B\"]", "PUT r1");
	rules_table_free(table);
}

/* The re-read finds that the row is gone: what is older than that must not be published. */
static void
test_reread_of_a_row_that_is_gone(void **state)
{
	Stand	   *stand = active_stand(state);
	RulesTable *table = rules_table_create(RULES, "1#", "items", "id", "group_id", "body", NULL);

	begin(stand, 0x200);
	add_item(stand, ROW_INSERT, table, "r1", "A", "short", NULL);
	stand->batch->last->row->row_copy.len = 0;
	commit(stand, 0x200);
	stored(stand);
	begin(stand, 0x300);
	add_item(stand, ROW_UPDATE, table, "r1", "B", NULL, NULL);
	commit(stand, 0x300);
	stored(stand);

	add(stand, WRITE_CHUNK_BEGIN, 0x350);
	add(stand, WRITE_CHUNK_END, 0x350);
	submit(stand);
	reread_request_free(writer_take_rereads(stand->thread));
	/* alone, or with a commit */
	assert_int_equal(stored(stand).checkpoint_lsn, 0x200);
	assert_field(stand, "sync_rules", "{}", "no_checkpoint_before", "\"00000000/00000350\"");
	add(stand, WRITE_KEEPALIVE, 0x320);
	assert_int_equal(stored(stand).checkpoint_lsn, 0x200);
	add(stand, WRITE_CHUNK_BEGIN, 0x450);
	add(stand, WRITE_CHUNK_END, 0x450);
	add(stand, WRITE_KEEPALIVE, 0x400);
	assert_int_equal(stored(stand).checkpoint_lsn, 0x200);
	assert_int_equal(stored(stand).stored_lsn, 0x400);

	/* and its old state is removed with the chunk */
	add(stand, WRITE_CHUNK_BEGIN, 0x460);
	add_delete(stand, table->table, "r1");
	add(stand, WRITE_CHUNK_END, 0x460);
	add(stand, WRITE_KEEPALIVE, 0x460);
	assert_int_equal(stored(stand).checkpoint_lsn, 0x460);
	assert_ops(stand, "1#by_group[\"A\"]", "PUT r1, REMOVE r1");
	rules_table_free(table);
}

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
		cmocka_unit_test_setup_teardown(test_deploy, setup, teardown),
		cmocka_unit_test_setup_teardown(test_empty_stream_becomes_active, setup, teardown),
		cmocka_unit_test_setup_teardown(test_changes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_truncate_in_parts, setup, teardown),
		cmocka_unit_test_setup_teardown(test_group_commit, setup, teardown),
		cmocka_unit_test_setup_teardown(test_crash_in_a_transaction, setup, teardown),
		cmocka_unit_test_setup_teardown(test_copy, setup, teardown),
		cmocka_unit_test_setup_teardown(test_copy_not_complete, setup, teardown),
		cmocka_unit_test_setup_teardown(test_write_conflicts, setup, teardown),
		cmocka_unit_test_setup_teardown(test_lost_commit_answers, setup, teardown),
		cmocka_unit_test_setup_teardown(test_waiting_is_shown, setup, teardown),
		cmocka_unit_test_setup_teardown(test_sequence_restored, setup, teardown),
		cmocka_unit_test_setup_teardown(test_position_restored, setup, teardown),
		cmocka_unit_test_setup_teardown(test_position_changed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_stream_deleted, setup, teardown),
		cmocka_unit_test_setup_teardown(test_lock_taken, setup, teardown),
		cmocka_unit_test_setup_teardown(test_lock_taken_and_written, setup, teardown),
		cmocka_unit_test_setup_teardown(test_stream_stopped, setup, teardown),
		cmocka_unit_test_setup_teardown(test_keepalive_without_lock, setup, teardown),
		cmocka_unit_test_setup_teardown(test_write_checkpoints, setup, teardown),
		cmocka_unit_test_setup_teardown(test_activation, setup, teardown),
		cmocka_unit_test_setup_teardown(test_activation_after_lost_history, setup, teardown),
		cmocka_unit_test_setup_teardown(test_adopt_ends_lost_history, setup, teardown),
		cmocka_unit_test_setup_teardown(test_activation_on_a_new_timeline, setup, teardown),
		cmocka_unit_test_setup_teardown(test_activation_on_a_branch, setup, teardown),
		cmocka_unit_test_setup_teardown(test_activation_elsewhere, setup, teardown),
		cmocka_unit_test_setup_teardown(test_row_in_many_buckets, setup, teardown),
		cmocka_unit_test_setup_teardown(test_crash_in_a_wide_row, setup, teardown),
		cmocka_unit_test_setup_teardown(test_row_too_large, setup, teardown),
		cmocka_unit_test_setup_teardown(test_incomplete_rows, setup, teardown),
		cmocka_unit_test_setup_teardown(test_reread, setup, teardown),
		cmocka_unit_test_setup_teardown(test_reread_of_a_row_that_is_gone, setup, teardown),
		cmocka_unit_test_setup_teardown(test_scenario_v2_legacy, setup, teardown),
	};

	mongoc_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
