/*-------------------------------------------------------------------------
 *
 * test_mongo_writer.c
 *	  The writer against a real server: what is stored of a stream from its
 *	  deploy on, how commits are grouped, what conflicts and lost answers do.
 *
 * Needs a server: PGSYNC_TEST_MONGODB_URI (with_storage.py starts one).
 *
 *-------------------------------------------------------------------------
 */
#include "mongo_test.h"

#include <stdio.h>
#include <unistd.h>

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

/* ---------------------------------------------------------------- conflicts and lost answers */

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

/*
 * The server commits, and when it is asked again it does not know the transaction:
 * nothing is written again from memory, and what is stored is the start of what follows.
 */
static void
test_forgotten_commit(void **state)
{
	Stand	   *stand = active_stand(state);
	SourceTable *table = table_create("items");
	int64_t		head;

	/* the driver asks again by itself, then we do */
	for (int losses = 1; losses <= 4; losses++)
	{
		uint64_t	end = 0x200 * (uint64_t) losses;
		LossyProxy *proxy;
		StorageError error;
		char		bucket[20];

		snprintf(bucket, sizeof(bucket), "1#a[%d]", losses);
		stand_stop(stand);
		proxy = lossy_proxy_start(stand, 0);
		stand_start(stand);
		stand_open(stand, 1);
		stand_write(stand, NULL);
		lossy_proxy_forget(proxy, 1);
		lossy_proxy_lose(proxy, losses);
		begin(stand, end);
		add_row(stand, losses == 1 ? ROW_INSERT : ROW_UPDATE, table, "a1", "{}", bucket, NULL);
		commit(stand, end);
		error = failure(stand);
		assert_int_equal(error.kind, STORAGE_UNREACHABLE);
		assert_true(error.commit_unknown);
		stand_stop(stand);
		assert_int_equal(lossy_proxy_stop(proxy), losses);
		stand->uri[0] = '\0';
		stand_start(stand);
		stand_open(stand, 1);
		assert_int_equal(stream_stored_lsn(stand->stream), end);
		assert_ops(stand, bucket, "PUT a1");
		head = count_documents(stand, "bucket_data", "{}");
		stand_write(stand, NULL);
		begin(stand, end + 0x100);
		add_row(stand, ROW_UPDATE, table, "a1", "{}", bucket, NULL);
		commit(stand, end + 0x100);
		stored(stand);
		assert_int_equal(count_documents(stand, "bucket_data", "{}"), head + 1);
	}
	source_table_release(table);
}

/* The same with a position that is written by itself: nobody else has written it. */
static void
test_forgotten_position(void **state)
{
	Stand	   *stand = active_stand(state);
	LossyProxy *proxy;
	StorageError error;

	stand_stop(stand);
	proxy = lossy_proxy_start(stand, 0);
	stand_start(stand);
	stand_open(stand, 1);
	stand_write(stand, NULL);
	lossy_proxy_of(proxy, "last_checkpoint_lsn");
	lossy_proxy_forget(proxy, 1);
	lossy_proxy_lose(proxy, 1);
	add(stand, WRITE_KEEPALIVE, 0x200);
	error = failure(stand);
	assert_int_equal(error.kind, STORAGE_UNREACHABLE);
	assert_true(error.commit_unknown);
	stand_stop(stand);
	assert_int_equal(lossy_proxy_stop(proxy), 1);
	stand->uri[0] = '\0';
	stand_start(stand);
	stand_open(stand, 1);
	assert_int_equal(stream_stored_lsn(stand->stream), 0x200);
	stand_write(stand, NULL);
	add(stand, WRITE_KEEPALIVE, 0x300);
	assert_int_equal(stored(stand).checkpoint_lsn, 0x300);
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

int
main(void)
{
	const struct CMUnitTest tests[] = {
		stand_test(test_deploy),
		stand_test(test_empty_stream_becomes_active),
		stand_test(test_changes),
		stand_test(test_truncate_in_parts),
		stand_test(test_group_commit),
		stand_test(test_crash_in_a_transaction),
		stand_test(test_copy),
		stand_test(test_copy_not_complete),
		stand_test(test_write_conflicts),
		stand_test(test_lost_commit_answers),
		stand_test(test_forgotten_commit),
		stand_test(test_forgotten_position),
		stand_test(test_waiting_is_shown),
	};

	mongoc_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
