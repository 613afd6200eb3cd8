/*-------------------------------------------------------------------------
 *
 * test_mongo_rejected.c
 *	  Rows that could not be stored as they are: recorded, and how that ends.
 *
 * Needs a server: PGSYNC_TEST_MONGODB_URI (with_storage.py starts one).
 *
 *-------------------------------------------------------------------------
 */
#include "mongo_test.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define TOO_LARGE	15728641	/* UTF-16 units of a row's JSON */
#define MOST		1000		/* entries a stream */

/* A row, in 1#a[] if it is stored. */
static RowChange *
put(Stand *stand, RowChangeKind kind, SourceTable *table, const char *id, bool well)
{
	RowChange  *change = add_row(stand, kind, table, id, "{}", "1#a[]", NULL);

	change->name = arena_strndup(stand->batch->arena, id, strlen(id));
	if (!well)
		change->row.bucket_rows[0].json_utf16_len = TOO_LARGE;
	return change;
}

/* A row whose key is too large itself. */
static void
put_keyless(Stand *stand, SourceTable *table)
{
	static const SyncError error = {.code = SYNC_ERROR_LIMIT, .message = "no key"};
	RowChange  *change = add_row(stand, ROW_DELETE, table, "x", "{}", NULL);

	change->row.error_count = 1;
	change->row.error = &error;
}

static int64_t
entries(Stand *stand, const char *filter)
{
	return count_documents(stand, "pgsync_rejected_rows", filter);
}

static StorageListRejected
list(Stand *stand)
{
	StorageListRejected all = {.self = stand->self, .arena = arena_create(0)};

	stand_run(stand, storage_list_rejected, &all);
	return all;
}

/* ---------------------------------------------------------------- from first to last */

static void
test_recorded_and_removed(void **state)
{
	Stand	   *stand = active_stand(state);
	SourceTable *table = table_create("items");
	StorageListRejected all;
	int64_t		before = (int64_t) time(NULL) * 1000;

	begin(stand, 0x200);
	put(stand, ROW_INSERT, table, "well", true);
	put(stand, ROW_INSERT, table, "stays", false);
	put(stand, ROW_INSERT, table, "mends", false);
	put(stand, ROW_INSERT, table, "ends", false);
	put(stand, ROW_INSERT, table, "moves", false);
	put(stand, ROW_INSERT, table, "mends at once", false);
	put(stand, ROW_UPDATE, table, "mends at once", true);
	commit(stand, 0x200);
	assert_int_equal(stored(stand).rejected_rows, 5);
	assert_int_equal(entries(stand, "{}"), 4);

	/* another process sees them, and goes on with them */
	stand_start_again(stand, NULL);
	all = list(stand);
	assert_int_equal(all.count, 4);
	for (size_t i = 0; i < all.count; i++)
	{
		assert_int_equal(all.rows[i].stream_id, 1);
		assert_string_equal(all.rows[i].schema, "public");
		assert_string_equal(all.rows[i].table, "items");
		assert_string_equal(all.rows[i].reason, "a row is larger than 15 MiB and was left out");
		assert_int_equal(all.rows[i].lsn, 0x200);
		assert_true(all.rows[i].time_ms >= before);
	}
	arena_destroy(all.arena);
	assert_int_equal(entries(stand, "{\"key\": {\"$in\": [\"stays\", \"mends\", \"ends\", \"moves\"]}}"), 4);

	begin(stand, 0x300);
	put(stand, ROW_UPDATE, table, "stays", false);
	put(stand, ROW_UPDATE, table, "mends", true);
	add_delete(stand, table, "ends");
	put(stand, ROW_UPDATE, table, "moved", false);
	stand->batch->last->row->has_before = true;
	stand->batch->last->row->before = key_of("moves");
	commit(stand, 0x300);
	assert_int_equal(stored(stand).rejected_rows, 2);
	assert_int_equal(entries(stand, "{}"), 2);
	assert_int_equal(entries(stand, "{\"key\": {\"$in\": [\"stays\", \"moved\"]}, \"lsn\": \"00000000/00000300\"}"), 2);
	assert_ops(stand, "1#a[]", "PUT well, PUT mends at once, PUT mends");

	/* copied rows, with the fence of their chunk */
	add(stand, WRITE_CHUNK_BEGIN, 0x350);
	put(stand, ROW_COPY, table, "copied", false);
	put(stand, ROW_REREAD, table, "stays", true);
	add_table(stand, WRITE_CHUNK_END, table, false);
	stored(stand);
	assert_int_equal(entries(stand, "{}"), 2);
	assert_int_equal(entries(stand, "{\"key\": \"copied\", \"lsn\": \"00000000/00000350\"}"), 1);
	source_table_release(table);
}

/* With a table's rows go its entries, and no others. */
static void
test_ends_of_tables(void **state)
{
	Stand	   *stand = active_stand(state);
	SourceTable *table[3];
	WriteItem  *item;

	begin(stand, 0x200);
	for (int i = 0; i < 3; i++)
	{
		table[i] = table_create("items");
		table[i]->id = source_table_id_new();
		add_table(stand, WRITE_TABLE, table[i], true);
		put(stand, ROW_INSERT, table[i], "a", false);
		put(stand, ROW_INSERT, table[i], "b", false);
	}
	commit(stand, 0x200);
	stored(stand);
	assert_int_equal(entries(stand, "{}"), 6);
	begin(stand, 0x300);
	add(stand, WRITE_TRUNCATE, 0)->table = source_table_retain(table[0]);
	commit(stand, 0x300);
	stored(stand);
	assert_int_equal(entries(stand, "{}"), 4);
	begin(stand, 0x400);
	add(stand, WRITE_TABLE_DROP, 0)->table_id = table[1]->id;
	commit(stand, 0x400);
	stored(stand);
	assert_int_equal(entries(stand, "{}"), 2);

	/* a copy finds one of them again, and again it is too large */
	add(stand, WRITE_CHUNK_BEGIN, 0x500);
	put(stand, ROW_RECOPY, table[2], "b", false)->round = 1;
	add(stand, WRITE_CHUNK_END, 0x500);
	stored(stand);
	stand_start_again(stand, NULL);
	item = add_table(stand, WRITE_TABLE_SWEEP, table[2], true);
	item->table_doc->copy_round = 1;
	stored(stand);
	assert_int_equal(entries(stand, "{}"), 1);
	assert_int_equal(entries(stand, "{\"key\": \"b\"}"), 1);
	for (int i = 0; i < 3; i++)
		source_table_release(table[i]);
}

/* ---------------------------------------------------------------- how many */

/* The latest ones, of each stream, also across processes and in one flush. */
static void
test_bound(void **state)
{
	Stand	   *stand = active_stand(state);
	SourceTable *table = table_create("items");
	char		id[16];
	uint64_t	lsn = 0x200;
	static const int to[] = {600, 1100, 1101, 3600};
	int			count = 0;

	for (size_t i = 0; i < sizeof(to) / sizeof(to[0]); i++, lsn += 0x100)
	{
		begin(stand, lsn);
		for (; count < to[i]; count++)
		{
			snprintf(id, sizeof(id), "r%d", count);
			put(stand, ROW_INSERT, table, id, false);
		}
		/* one that was there comes again: it is the latest */
		if (i == 1)
			put(stand, ROW_UPDATE, table, "r0", false);
		commit(stand, lsn);
		stored(stand);
		assert_int_equal(entries(stand, "{}"), count < MOST ? count : MOST);
		if (i == 1)
		{
			assert_int_equal(entries(stand, "{\"key\": \"r100\"}"), 0);
			assert_int_equal(entries(stand, "{\"key\": {\"$in\": [\"r0\", \"r101\"]}}"), 2);
		}
		if (i == 2)
			assert_int_equal(entries(stand, "{\"key\": {\"$in\": [\"r0\", \"r101\", \"r1100\"]}}"), 2);
		if (i != 1)
			stand_start_again(stand, NULL);
	}
	assert_int_equal(entries(stand, "{\"key\": {\"$in\": [\"r2599\", \"r2600\", \"r3599\"]}}"), 2);
	begin(stand, lsn);
	put(stand, ROW_UPDATE, table, "r3599", true);
	put(stand, ROW_UPDATE, table, "r1", true);
	commit(stand, lsn);
	stored(stand);
	assert_int_equal(entries(stand, "{}"), MOST - 1);
	source_table_release(table);
}

/* Rows that wait for the next flush are counted and recorded once. */
static void
test_counted_once(void **state)
{
	Stand	   *stand = active_stand(state);
	SourceTable *table = table_create("items");
	WriterOptions small = {.served = true, .max_documents = 7};
	char		id[16];

	stand_start_again(stand, &small);
	begin(stand, 0x200);
	for (int i = 0; i < 100; i++)
	{
		RowChange  *change;

		/* one of two entries is left out, for two reasons at once in every tenth */
		snprintf(id, sizeof(id), "r%d", i);
		change = add_row(stand, ROW_INSERT, table, id, "{}", "1#a[]", "1#b[]", NULL);
		change->row.bucket_rows[1].json_utf16_len = TOO_LARGE;
		if (i % 10 == 0)
			change->row.bucket_rows[0].json_utf16_len = TOO_LARGE;
	}
	commit(stand, 0x200);
	assert_int_equal(stored(stand).rejected_rows, 100);
	assert_int_equal(entries(stand, "{}"), 100);
	assert_int_equal(count_documents(stand, "bucket_data", "{}"), 90);
	source_table_release(table);
}

/* ---------------------------------------------------------------- without a key */

static void
test_rows_without_a_key(void **state)
{
	Stand	   *stand = active_stand(state);
	SourceTable *table = table_create("items");
	WriterOptions small = {.served = true, .max_documents = 7};
	LossyProxy *proxy;

	/* the process dies with half of the transaction stored: the same ones come again */
	proxy = begin_dying(stand, &small);
	begin(stand, 0x200);
	put_keyless(stand, table);
	put_keyless(stand, table);
	for (int i = 0; i < 20; i++)
	{
		char		id[16];

		snprintf(id, sizeof(id), "r%d", i);
		put(stand, ROW_INSERT, table, id, true);
	}
	submit(stand);
	while (entries(stand, "{}") == 0)
		usleep(1000);
	stand_stop(stand);
	(void) lossy_proxy_stop(proxy);
	stand->uri[0] = '\0';
	stand_start(stand);
	stand_open(stand, 1);
	stand_write(stand, &small);
	assert_int_equal(entries(stand, "{}"), 2);
	assert_int_equal(stream_stored_lsn(stand->stream), 0x100);
	begin(stand, 0x200);
	put_keyless(stand, table);
	put_keyless(stand, table);
	submit(stand);
	wait_idle(stand);
	put_keyless(stand, table);
	commit(stand, 0x200);
	assert_int_equal(stored(stand).rejected_rows, 3);
	assert_int_equal(entries(stand, "{}"), 3);
	assert_field(stand, "pgsync_rejected_rows", "{\"number\": 5}", "key", "absent");
	assert_field(stand, "pgsync_rejected_rows", "{\"number\": 5}", "reason", "\"no key\"");
	begin(stand, 0x300);
	put_keyless(stand, table);
	commit(stand, 0x300);
	stored(stand);
	assert_int_equal(entries(stand, "{}"), 4);
	source_table_release(table);
}

/* ---------------------------------------------------------------- rows in parts, streams */

/* Recorded with the last part. */
static void
test_row_in_parts(void **state)
{
	Stand	   *stand = active_stand(state);
	SourceTable *table = table_create("items");
	WriterOptions options = {.served = true, .max_documents = 40};

	for (int again = 0; again < 2; again++)
	{
		LossyProxy *proxy = begin_dying(stand, &options);

		begin(stand, 0x200);
		add_wide_row(stand, ROW_INSERT, table, 0, 100);
		stand->batch->last->row->row.bucket_rows[50].json_utf16_len = TOO_LARGE;
		commit(stand, 0x200);
		die_after_first_part(stand, proxy, &options);
		assert_int_equal(entries(stand, "{}"), 0);
	}
	begin(stand, 0x200);
	add_wide_row(stand, ROW_INSERT, table, 0, 100);
	stand->batch->last->row->row.bucket_rows[50].json_utf16_len = TOO_LARGE;
	commit(stand, 0x200);
	stored(stand);
	assert_int_equal(entries(stand, "{}"), 1);
	source_table_release(table);
}

/* They go with their stream, and are shown to its owner only. */
static void
test_streams(void **state)
{
	Stand	   *stand = active_stand(state);
	SourceTable *table = table_create("items");
	StorageTerminate terminate = {.self = stand->self, .stream_id = 1};
	StorageListRejected all;

	begin(stand, 0x200);
	put(stand, ROW_INSERT, table, "a", false);
	commit(stand, 0x200);
	stored(stand);
	stand->self.database_oid++;
	all = list(stand);
	assert_int_equal(all.count, 0);
	arena_destroy(all.arena);
	stand->self.database_oid--;

	stand_stop(stand);
	stand_start(stand);
	stand_open(stand, stand_deploy(stand, CONFIG));
	stand_write(stand, NULL);
	table->id = source_table_id_new();
	add(stand, WRITE_SNAPSHOT_DONE, 0x200);
	begin(stand, 0x300);
	put(stand, ROW_INSERT, table, "a", false);
	put(stand, ROW_INSERT, table, "b", false);
	commit(stand, 0x300);
	assert_true(stored(stand).active);
	all = list(stand);
	assert_int_equal(all.count, 3);
	arena_destroy(all.arena);
	stand_run(stand, storage_terminate_stream, &terminate);
	assert_int_equal(entries(stand, "{}"), 2);
	assert_int_equal(entries(stand, "{\"group_id\": 2}"), 2);
	source_table_release(table);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		stand_test(test_recorded_and_removed),
		stand_test(test_ends_of_tables),
		stand_test(test_bound),
		stand_test(test_counted_once),
		stand_test(test_rows_without_a_key),
		stand_test(test_row_in_parts),
		stand_test(test_streams),
	};

	mongoc_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
