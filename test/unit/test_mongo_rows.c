/*-------------------------------------------------------------------------
 *
 * test_mongo_rows.c
 *	  Rows that are not like others: larger than a flush or a document, and
 *	  incomplete ones, which are completed or read again.
 *
 * Needs a server: PGSYNC_TEST_MONGODB_URI (with_storage.py starts one).
 *
 *-------------------------------------------------------------------------
 */
#include "mongo_test.h"

#include <stdio.h>
#include <unistd.h>

/* ---------------------------------------------------------------- large rows */

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
add_wide_chunk(Stand *stand, SourceTable *table, int first, int count)
{
	add(stand, WRITE_CHUNK_BEGIN, 0x150);
	add_row(stand, ROW_COPY, table, "a1", "{}", "1#a[]", NULL);
	add_wide_row(stand, ROW_COPY, table, first, count);
	add_row(stand, ROW_COPY, table, "a2", "{}", "1#a[]", NULL);
	add_table(stand, WRITE_CHUNK_END, table, false);
}

static int64_t
state_size(Stand *stand)
{
	char	   *state = field_of(stand, "pgsync_row_state_1", "{\"p\": true}", "s");
	int64_t		size = (int64_t) strlen(state);

	assert_true(size > 10);
	free(state);
	return size;
}

/* A copied row that was interrupted between its parts is not taken for copied. */
static void
test_crash_in_a_copied_row(void **state)
{
	static const int limits[] = {1, 2, 40, 50, 99};
	Stand	   *stand = active_stand(state);
	WriterProgress progress;
	int64_t		sizes[3];

	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
	{
		SourceTable *table = table_create("items");
		WriterOptions options = {.served = true, .max_documents = limits[i]};
		LossyProxy *proxy;

		command(stand, "{\"delete\": \"bucket_data\", \"deletes\": [{\"q\": {}, \"limit\": 0}]}");
		/* more than once: what was interrupted is remembered, but not more and more of it */
		for (int again = 0; again < 3; again++)
		{
			proxy = begin_dying(stand, &options);
			add(stand, WRITE_CHUNK_BEGIN, 0x150);
			add_wide_row(stand, ROW_COPY, table, 0, 100);
			add_table(stand, WRITE_CHUNK_END, table, false);
			die_after_first_part(stand, proxy, &options);
			assert_int_equal(count_documents(stand, "pgsync_row_state_1", "{\"p\": true}"), 1);
			sizes[again] = state_size(stand);
		}
		assert_int_equal(sizes[1], sizes[0]);
		assert_int_equal(sizes[2], sizes[0]);

		/* the row has moved since */
		add_wide_chunk(stand, table, 50, 100);
		progress = stored(stand);
		assert_int_equal(progress.chunks_stored, 1);
		assert_ops(stand, "1#a[]", "PUT a1, PUT a2");
		for (int bucket = 50; bucket < 150; bucket++)
		{
			char		name[20];
			char	   *ops;

			snprintf(name, sizeof(name), "1#w[%d]", bucket);
			ops = ops_of(stand, name);
			assert_non_null(strstr(ops, "PUT wide"));
			assert_null(strstr(ops, "REMOVE"));
			free(ops);
		}
		assert_int_equal(count_documents(stand, "bucket_data", "{\"op\": \"REMOVE\"}"), 50);
		assert_int_equal(count_documents(stand, "pgsync_row_state_1", "{\"p\": true}"), 0);

		/* now it is there: skipped like all others */
		add_wide_chunk(stand, table, 0, 10);
		progress = stored(stand);
		assert_int_equal(count_documents(stand, "bucket_data", "{\"op\": \"REMOVE\"}"), 50);
		assert_ops(stand, "1#a[]", "PUT a1, PUT a2");
		source_table_release(table);
	}
}

/* Changes of a row that was left in parts, by the stream. */
static void
test_changes_of_a_row_in_parts(void **state)
{
	static const RowChangeKind kinds[] = {ROW_INSERT, ROW_UPDATE, ROW_REREAD, ROW_DELETE};
	Stand	   *stand = active_stand(state);
	WriterOptions options = {.served = true, .max_documents = 40};
	uint64_t	end = 0x200;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++, end += 0x100)
	{
		SourceTable *table = table_create("items");
		LossyProxy *proxy = begin_dying(stand, &options);

		command(stand, "{\"delete\": \"bucket_data\", \"deletes\": [{\"q\": {}, \"limit\": 0}]}");
		add(stand, WRITE_CHUNK_BEGIN, 0x150);
		add_wide_row(stand, ROW_COPY, table, 0, 100);
		add(stand, WRITE_CHUNK_END, 0x150);
		die_after_first_part(stand, proxy, &options);
		begin(stand, end);
		if (kinds[i] == ROW_DELETE)
			add_delete(stand, table, "wide");
		else
			add_wide_row(stand, kinds[i], table, 90, 20);
		commit(stand, end);
		stored(stand);
		assert_int_equal(count_documents(stand, "bucket_data", "{\"op\": \"REMOVE\"}"),
						 kinds[i] == ROW_DELETE ? 100 : 90);
		assert_int_equal(count_documents(stand, "bucket_data", "{\"op\": \"PUT\"}"),
						 kinds[i] == ROW_DELETE ? 40 : 60);
		assert_int_equal(count_documents(stand, "pgsync_row_state_1", "{\"p\": true}"), 0);
		source_table_release(table);
	}
}

/* A table is known until the last part of its last row is removed. */
static void
test_crash_in_the_removal_of_a_wide_row(void **state)
{
	Stand	   *stand = active_stand(state);
	SourceTable *table = table_create("items");
	WriterOptions options = {.served = true, .max_documents = 40};
	LossyProxy *proxy;
	WriteItem  *item;

	begin(stand, 0x200);
	add_table(stand, WRITE_TABLE, table, true);
	add_wide_row(stand, ROW_INSERT, table, 0, 100);
	commit(stand, 0x200);
	stored(stand);
	for (int again = 0; again < 2; again++)
	{
		proxy = begin_dying(stand, &options);
		begin(stand, 0x300);
		item = add(stand, WRITE_TABLE_DROP, 0x300);
		item->table_id = table->id;
		commit(stand, 0x300);
		die_after_first_part(stand, proxy, &options);
		assert_int_equal(count_documents(stand, "source_tables", "{}"), 1);
		assert_int_equal(stand->stream->table_count, 1);
	}
	begin(stand, 0x300);
	item = add(stand, WRITE_TABLE_DROP, 0x300);
	item->table_id = table->id;
	commit(stand, 0x300);
	stored(stand);
	assert_int_equal(count_documents(stand, "source_tables", "{}"), 0);
	assert_int_equal(count_documents(stand, "pgsync_row_state_1", "{}"), 0);
	assert_ops(stand, "1#w[99]", "PUT wide, REMOVE wide");
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

/* More row state than is read ahead at a time: each row is removed once, none is left. */
static void
test_removal_of_much_state(void **state)
{
	Stand	   *stand = *state;
	SourceTable *table = table_create("items");
	SourceTable *other = table_create("others");
	WriterOptions small = {.max_documents = 70};
	const int	count = 300;
	char		id[50000];
	WriterProgress progress;

	stand_open(stand, stand_deploy(stand, CONFIG));
	stand_write(stand, &small);
	add(stand, WRITE_SNAPSHOT_DONE, 0x100);
	begin(stand, 0x200);
	add_row(stand, ROW_INSERT, other, "stays", "{}", "1#a[]", NULL);
	memset(id, 'x', sizeof(id));
	id[sizeof(id) - 1] = '\0';
	for (int i = 0; i < count; i++)
	{
		id[snprintf(id, 16, "r%d", i)] = '-';
		add_row(stand, ROW_INSERT, table, id, "{}", "1#a[]", NULL);
	}
	commit(stand, 0x200);
	stored(stand);
	assert_int_equal(count_documents(stand, "pgsync_row_state_1", "{}"), count + 1);
	begin(stand, 0x300);
	add(stand, WRITE_TRUNCATE, 0)->table = source_table_retain(table);
	add_row(stand, ROW_INSERT, table, "after", "{}", "1#a[]", NULL);
	commit(stand, 0x300);
	stored(stand);
	assert_int_equal(count_documents(stand, "bucket_data", "{\"op\": \"REMOVE\"}"), count);
	assert_int_equal(count_documents(stand, "pgsync_row_state_1", "{}"), 2);
	/* another one: nothing of the first is left over */
	begin(stand, 0x400);
	add_row(stand, ROW_INSERT, table, "later", "{}", "1#a[]", NULL);
	add(stand, WRITE_TRUNCATE, 0)->table = source_table_retain(table);
	commit(stand, 0x400);
	progress = stored(stand);
	assert_int_equal(progress.checkpoint_lsn, 0x400);
	assert_int_equal(count_documents(stand, "bucket_data", "{\"op\": \"REMOVE\"}"), count + 2);
	assert_int_equal(count_documents(stand, "pgsync_row_state_1", "{}"), 1);
	source_table_release(table);
	source_table_release(other);
}

/* ---------------------------------------------------------------- incomplete rows */

#define RULES \
	"bucket_definitions:\n" \
	"  by_group:\n" \
	"    parameters: SELECT group_id FROM memberships WHERE user_id = request.user_id()\n" \
	"    data:\n" \
	"      - SELECT id, group_id, body FROM items WHERE group_id = bucket.group_id\n"

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

int
main(void)
{
	const struct CMUnitTest tests[] = {
		stand_test(test_row_in_many_buckets),
		stand_test(test_crash_in_a_wide_row),
		stand_test(test_crash_in_a_copied_row),
		stand_test(test_changes_of_a_row_in_parts),
		stand_test(test_crash_in_the_removal_of_a_wide_row),
		stand_test(test_row_too_large),
		stand_test(test_removal_of_much_state),
		stand_test(test_incomplete_rows),
		stand_test(test_reread),
		stand_test(test_reread_of_a_row_that_is_gone),
	};

	mongoc_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
