/*-------------------------------------------------------------------------
 *
 * test_mongo_recopy.c
 *	  The copy of one table while the stream runs, as the writer sees it: rows
 *	  stamped with its round, the sweep at its end, the stream's documents.
 *
 * Needs a server: PGSYNC_TEST_MONGODB_URI (with_storage.py starts one).
 *
 *-------------------------------------------------------------------------
 */
#include "mongo_test.h"
#include "mongo/mongo_private.h"

#include <stdio.h>

static void
put(Stand *stand, RowChangeKind kind, SourceTable *table, const char *id, const char *bucket,
	int64_t round)
{
	add_row(stand, kind, table, id, "{}", bucket, NULL)->round = round;
}

/* The table's document in an item of that kind. */
static SourceTableDoc *
add_round(Stand *stand, WriteItemKind kind, SourceTable *table, int64_t round, bool stale)
{
	SourceTableDoc *doc = add_table(stand, kind, table, true)->table_doc;

	doc->copy_round = round;
	doc->stale = stale;
	return doc;
}

static void
add_sweep(Stand *stand, SourceTable *table, int64_t round, uint64_t fence)
{
	add_round(stand, WRITE_TABLE_SWEEP, table, round, false);
	stand->batch->last->lsn = fence;
}

static int64_t
states(Stand *stand, const char *filter)
{
	return count_documents(stand, "pgsync_row_state_1", filter);
}

/* ---------------------------------------------------------------- documents */

static void
test_table_documents(void **state)
{
	Stand	   *stand = active_stand(state);
	SourceTable *table = table_create("items");
	SourceTableDoc *doc;
	const SourceTableDoc *read;
	SourceTableId other = source_table_id_new();

	begin(stand, 0x200);
	doc = add_round(stand, WRITE_TABLE, table, INT64_C(5000000000), true);
	doc->signature = "shape";
	doc->signature_lsn = UINT64_C(0x1234567890ABCDEF);
	doc->ignored_changes = true;
	doc->replaced = true;
	doc->replaced_by = other;
	commit(stand, 0x200);
	stored(stand);
	stand_start_again(stand, NULL);
	assert_int_equal(stand->stream->table_count, 1);
	read = &stand->stream->tables[0];
	assert_true(read->stale);
	assert_true(read->copy_round == INT64_C(5000000000));
	assert_string_equal(read->signature, "shape");
	assert_true(read->signature_lsn == UINT64_C(0x1234567890ABCDEF));
	assert_true(read->ignored_changes);
	assert_true(read->replaced);
	assert_memory_equal(&read->replaced_by, &other, sizeof(other));

	/* no longer so: what is not said is not left over */
	begin(stand, 0x300);
	add_round(stand, WRITE_TABLE, table, 1, false);
	commit(stand, 0x300);
	stored(stand);
	stand_start_again(stand, NULL);
	read = &stand->stream->tables[0];
	assert_false(read->stale || read->ignored_changes || read->replaced);
	assert_true(read->copy_round == 1 && read->signature_lsn == STREAM_LSN_NONE);

	/* as one that was written before there were such copies */
	command(stand, UPDATE("pgsync_tables", "{}",
						  "{\"$unset\": {\"copy_round\": 1, \"signature_lsn\": 1, "
						  "\"ignored_changes\": 1, \"replaced_by\": 1}}"));
	stand_start_again(stand, NULL);
	read = &stand->stream->tables[0];
	assert_true(read->copy_round == 0 && read->signature_lsn == STREAM_LSN_NONE);
	assert_false(read->stale || read->ignored_changes || read->replaced);
	source_table_release(table);
}

/* ---------------------------------------------------------------- rounds */

/* A copied row takes the place of what is stored, whatever that is, and is stamped. */
static void
test_recopied_rows(void **state)
{
	Stand	   *stand = active_stand(state);
	SourceTable *table = table_create("items");
	WriterProgress progress;

	begin(stand, 0x200);
	put(stand, ROW_INSERT, table, "same", "1#a[]", 0);
	put(stand, ROW_INSERT, table, "moved", "1#a[]", 0);
	put(stand, ROW_INSERT, table, "nowhere", "1#a[]", 0);
	commit(stand, 0x200);
	stored(stand);
	assert_int_equal(states(stand, "{\"r\": {\"$exists\": true}}"), 0);

	add(stand, WRITE_CHUNK_BEGIN, 0x250);
	put(stand, ROW_RECOPY, table, "same", "1#a[]", 1);
	put(stand, ROW_RECOPY, table, "moved", "1#b[]", 1);
	put(stand, ROW_RECOPY, table, "nowhere", NULL, 1);
	put(stand, ROW_RECOPY, table, "missed", "1#a[]", 1);
	add_round(stand, WRITE_CHUNK_END, table, 1, true);
	progress = stored(stand);
	assert_int_equal(progress.chunks_stored, 1);
	/* not published before the second watermark's place in the stream */
	assert_int_equal(progress.checkpoint_lsn, 0x200);
	add(stand, WRITE_KEEPALIVE, 0x240);
	assert_int_equal(stored(stand).checkpoint_lsn, 0x200);
	add(stand, WRITE_KEEPALIVE, 0x250);
	assert_int_equal(stored(stand).checkpoint_lsn, 0x250);
	assert_ops(stand, "1#a[]", "PUT same, PUT moved, PUT nowhere, PUT same, REMOVE moved, "
			   "REMOVE nowhere, PUT missed");
	assert_ops(stand, "1#b[]", "PUT moved");
	assert_int_equal(states(stand, "{\"r\": 1}"), 3);
	assert_int_equal(states(stand, "{}"), 3);

	/* what is written when no copy goes on is of none; several changes in one flush: the last */
	begin(stand, 0x300);
	put(stand, ROW_UPDATE, table, "same", "1#a[]", 0);
	put(stand, ROW_UPDATE, table, "moved", "1#b[]", 0);
	put(stand, ROW_UPDATE, table, "moved", "1#b[]", 2);
	put(stand, ROW_INSERT, table, "new", "1#b[]", 2);
	commit(stand, 0x300);
	stored(stand);
	assert_int_equal(states(stand, "{\"r\": 1}"), 1);
	assert_int_equal(states(stand, "{\"r\": 2}"), 2);
	assert_int_equal(states(stand, "{\"r\": {\"$exists\": false}}"), 1);
	source_table_release(table);
}

static void
test_sweep(void **state)
{
	Stand	   *stand = active_stand(state);
	SourceTable *table = table_create("items");
	SourceTable *other = table_create("others");
	SourceTable *empty = table_create("empty");
	WriterProgress progress;

	begin(stand, 0x200);
	add_round(stand, WRITE_TABLE, table, 2, true);
	put(stand, ROW_INSERT, table, "gone", "1#a[]", 0);
	put(stand, ROW_INSERT, table, "older", "1#a[]", 1);
	put(stand, ROW_INSERT, table, "copied", "1#a[]", 0);
	put(stand, ROW_INSERT, table, "changed", "1#a[]", 1);
	put(stand, ROW_INSERT, table, "deleted", "1#a[]", 0);
	put(stand, ROW_INSERT, other, "other", "1#b[]", 0);
	put(stand, ROW_INSERT, other, "other round", "1#b[]", 1);
	commit(stand, 0x200);
	stored(stand);
	begin(stand, 0x300);
	put(stand, ROW_UPDATE, table, "changed", "1#a[]", 2);
	put(stand, ROW_INSERT, table, "new", "1#a[]", 2);
	add_delete(stand, table, "deleted")->round = 2;
	commit(stand, 0x300);
	add(stand, WRITE_CHUNK_BEGIN, 0x350);
	put(stand, ROW_RECOPY, table, "copied", "1#a[]", 2);
	add_round(stand, WRITE_CHUNK_END, table, 2, true);
	stored(stand);
	assert_field(stand, "pgsync_tables", "{}", "stale", "true");
	add_sweep(stand, table, 2, 0x360);
	progress = stored(stand);
	assert_field(stand, "pgsync_tables", "{}", "stale", "false");
	assert_int_equal(count_documents(stand, "pgsync_tables", "{\"copy_round\": 2}"), 1);
	assert_int_equal(progress.checkpoint_lsn, 0x300);
	assert_ops(stand, "1#a[]", "PUT gone, PUT older, PUT copied, PUT changed, PUT deleted, "
			   "PUT changed, PUT new, REMOVE deleted, PUT copied, REMOVE older, REMOVE gone");
	assert_ops(stand, "1#b[]", "PUT other, PUT other round");
	assert_int_equal(states(stand, "{\"r\": 2}"), 3);
	assert_int_equal(states(stand, "{}"), 5);
	/* what was swept is not published at an earlier place */
	add(stand, WRITE_KEEPALIVE, 0x350);
	assert_int_equal(stored(stand).checkpoint_lsn, 0x300);
	add(stand, WRITE_KEEPALIVE, 0x360);
	assert_int_equal(stored(stand).checkpoint_lsn, 0x360);

	/* once more, and of a table without a row: nothing but the document */
	add_sweep(stand, table, 2, 0x370);
	add_sweep(stand, empty, 1, 0x370);
	stored(stand);
	assert_int_equal(states(stand, "{}"), 5);
	assert_int_equal(count_documents(stand, "bucket_data", "{\"op\": \"REMOVE\"}"), 3);
	assert_int_equal(count_documents(stand, "pgsync_tables", "{}"), 2);
	source_table_release(empty);
	source_table_release(table);
	source_table_release(other);
}

/* A key of sixteen bytes: eight that begin it, then the same one. */
static SourceKey
key_at(uint64_t start, uint8_t rest)
{
	SourceKey	key;

	memset(key.bytes, rest, sizeof(key.bytes));
	for (int i = 0; i < 8; i++)
		key.bytes[i] = (uint8_t) (start >> (56 - 8 * i));
	return key;
}

/* A sweep reads a table piece by piece, by key: none is left out between two of them. */
static void
test_sweep_at_borders(void **state)
{
	Stand	   *stand = active_stand(state);
	SourceTable *table = table_create("items");
	int			rows = 0;

	begin(stand, 0x200);
	add_round(stand, WRITE_TABLE, table, 1, true);
	for (int bit = 0; bit < 64; bit++)
		for (int side = -1; side <= 1; side++)
			for (int fill = 0; fill < 2; fill++)
			{
				uint64_t	start = (UINT64_C(1) << bit) + (uint64_t) (int64_t) side;

				/* two of each border, as there are places where a piece can begin */
				for (int end = 0; end < 2; end++)
				{
					put(stand, ROW_INSERT, table, "a", "1#a[]", 0);
					stand->batch->last->row->after = key_at(end ? ~start : start, fill ? 0xFF : 0);
					put(stand, ROW_INSERT, table, "b", "1#b[]", 1);
					stand->batch->last->row->after = key_at(end ? ~start : start, fill ? 0xFE : 1);
				}
			}
	commit(stand, 0x200);
	stored(stand);
	rows = (int) states(stand, "{\"r\": 1}");
	assert_true(rows > 500);
	assert_int_equal(states(stand, "{}"), 2 * rows);
	add_sweep(stand, table, 1, 0x300);
	stored(stand);
	assert_int_equal(states(stand, "{}"), rows);
	assert_int_equal(states(stand, "{\"r\": 1}"), rows);
	assert_int_equal(count_documents(stand, "bucket_data", "{\"op\": \"REMOVE\"}"), rows);
	source_table_release(table);
}

/* A round that is none would remove every row. */
static void
test_sweep_without_a_round(void **state)
{
	Stand	   *stand = active_stand(state);
	SourceTable *table = table_create("items");

	begin(stand, 0x200);
	put(stand, ROW_INSERT, table, "a1", "1#a[]", 0);
	commit(stand, 0x200);
	stored(stand);
	add_sweep(stand, table, 0, 0x300);
	assert_int_equal(failure(stand).kind, STORAGE_INVALID);
	assert_ops(stand, "1#a[]", "PUT a1");
	source_table_release(table);
}

/* A sweep of rows that all stay writes nothing for long, but keeps the lock. */
static void
test_lock_while_nothing_is_written(void **state)
{
	Stand	   *stand = active_stand(state);
	SourceTable *table = table_create("items");
	int64_t		flushes = stored(stand).flushes;

	/* of an unknown row; and the transaction is not over */
	begin(stand, 0x200);
	add_delete(stand, table, "nowhere");
	submit(stand);
	assert_int_equal(stored(stand).flushes, flushes);
	atomic_store(&stand->thread->renew_ms, 0);
	add_delete(stand, table, "nowhere");
	submit(stand);
	assert_int_equal(stored(stand).flushes, flushes + 1);
	source_table_release(table);
}

/* ---------------------------------------------------------------- crashes */

#define MANY	300

/*
 * More than is read ahead at a time, kept and swept rows mixed; the process dies in
 * the middle, at each place once, and the sweep is simply done again.
 */
static void
test_crash_in_a_sweep(void **state)
{
	Stand	   *stand = active_stand(state);
	WriterOptions small = {.served = true, .max_documents = 70};
	SourceTable *table = table_create("items");
	char		id[50000];
	int			kept = 0;

	begin(stand, 0x200);
	add_round(stand, WRITE_TABLE, table, 1, true);
	memset(id, 'x', sizeof(id));
	id[sizeof(id) - 1] = '\0';
	for (int i = 0; i < MANY; i++)
	{
		id[snprintf(id, 16, "r%d", i)] = '-';
		put(stand, ROW_INSERT, table, id, "1#a[]", i % 3 == 0);
		kept += i % 3 == 0;
	}
	commit(stand, 0x200);
	stored(stand);
	for (int again = 0; again < 2; again++)
	{
		LossyProxy *proxy = begin_dying(stand, &small);

		add_sweep(stand, table, 1, 0x300);
		die_after_first_part(stand, proxy, &small);
		assert_true(stand->stream->tables[0].stale);
		assert_int_equal(states(stand, "{}"), MANY - (again + 1) * small.max_documents);
		/* half of it is not published where the rows may still have been */
		add(stand, WRITE_KEEPALIVE, 0x280 + (uint64_t) again);
		assert_int_equal(stored(stand).checkpoint_lsn, 0x200);
	}
	add_sweep(stand, table, 1, 0x300);
	add(stand, WRITE_KEEPALIVE, 0x300);
	assert_int_equal(stored(stand).checkpoint_lsn, 0x300);
	assert_int_equal(states(stand, "{}"), kept);
	assert_int_equal(states(stand, "{\"r\": 1}"), kept);
	assert_int_equal(count_documents(stand, "bucket_data", "{\"op\": \"REMOVE\"}"), MANY - kept);
	assert_field(stand, "pgsync_tables", "{}", "stale", "false");
	source_table_release(table);
}

/* The last row that is swept takes several flushes: the copy ends with the last one. */
static void
test_crash_in_the_sweep_of_a_wide_row(void **state)
{
	Stand	   *stand = active_stand(state);
	SourceTable *table = table_create("items");
	WriterOptions options = {.served = true, .max_documents = 40};

	begin(stand, 0x200);
	add_round(stand, WRITE_TABLE, table, 2, true);
	add_wide_row(stand, ROW_INSERT, table, 0, 100);
	stand->batch->last->row->round = 1;
	commit(stand, 0x200);
	stored(stand);
	for (int again = 0; again < 2; again++)
	{
		LossyProxy *proxy = begin_dying(stand, &options);

		add_sweep(stand, table, 2, 0x300);
		die_after_first_part(stand, proxy, &options);
		assert_true(stand->stream->tables[0].stale);
		assert_int_equal(states(stand, "{\"p\": true, \"r\": 1}"), 1);
	}
	add_sweep(stand, table, 2, 0x300);
	add(stand, WRITE_KEEPALIVE, 0x300);
	stored(stand);
	assert_int_equal(states(stand, "{}"), 0);
	assert_ops(stand, "1#w[99]", "PUT wide, REMOVE wide");
	assert_field(stand, "pgsync_tables", "{}", "stale", "false");
	source_table_release(table);
}

/*
 * A recopied row is stored in part only: it is not of the round.  When the chunk is
 * read again it may be there, elsewhere, or not.
 */
static void
test_crash_in_a_recopied_row(void **state)
{
	Stand	   *stand = active_stand(state);
	WriterOptions options = {.served = true, .max_documents = 40};
	uint64_t	lsn = 0x200;

	for (int found = 0; found < 2; found++)
		for (int before = 0; before < 2; before++, lsn += 0x100)
		{
			SourceTable *table = table_create("items");
			LossyProxy *proxy;

			command(stand, "{\"delete\": \"bucket_data\", \"deletes\": [{\"q\": {}, \"limit\": 0}]}");
			command(stand, "{\"delete\": \"pgsync_row_state_1\", \"deletes\": [{\"q\": {}, \"limit\": 0}]}");
			begin(stand, lsn);
			add_round(stand, WRITE_TABLE, table, 1, true);
			if (before)
				put(stand, ROW_INSERT, table, "wide", "1#w[200]", 0);
			commit(stand, lsn);
			stored(stand);
			proxy = begin_dying(stand, &options);
			add(stand, WRITE_CHUNK_BEGIN, lsn + 0x10);
			add_wide_row(stand, ROW_RECOPY, table, 0, 100);
			stand->batch->last->row->round = 1;
			add_round(stand, WRITE_CHUNK_END, table, 1, true);
			die_after_first_part(stand, proxy, &options);
			assert_int_equal(states(stand, "{\"p\": true, \"r\": {\"$exists\": false}}"), 1);

			add(stand, WRITE_CHUNK_BEGIN, lsn + 0x20);
			if (found)
			{
				add_wide_row(stand, ROW_RECOPY, table, 50, 100);
				stand->batch->last->row->round = 1;
			}
			add_round(stand, WRITE_CHUNK_END, table, 1, true);
			add_sweep(stand, table, 1, lsn + 0x20);
			add(stand, WRITE_KEEPALIVE, lsn + 0x20);
			assert_int_equal(stored(stand).checkpoint_lsn, lsn + 0x20);
			assert_int_equal(states(stand, "{}"), found);
			assert_int_equal(states(stand, "{\"r\": 1, \"p\": {\"$exists\": false}}"), found);
			for (int bucket = 0; bucket < 150; bucket++)
			{
				char		name[20];
				char	   *ops;

				snprintf(name, sizeof(name), "1#w[%d]", bucket);
				ops = ops_of(stand, name);
				if (found && bucket >= 50)
					assert_string_equal(ops + strlen(ops) - 8, "PUT wide");
				else if (ops[0] != '\0')
					assert_string_equal(ops + strlen(ops) - 11, "REMOVE wide");
				free(ops);
			}
			if (before)
				assert_ops(stand, "1#w[200]", "PUT wide, REMOVE wide");
			source_table_release(table);
		}
}

/* ---------------------------------------------------------------- incomplete rows */

#define RULES \
	"bucket_definitions:\n" \
	"  by_group:\n" \
	"    parameters: SELECT group_id FROM memberships WHERE user_id = request.user_id()\n" \
	"    data:\n" \
	"      - SELECT id, group_id, body FROM items WHERE group_id = bucket.group_id\n"

static RowChange *
add_item(Stand *stand, RowChangeKind kind, RulesTable *table, const char *id, const char *group,
		 const char *body, int64_t round)
{
	SyncValue	values[3] = {value(id), value(group), value(body)};
	RowChange  *change = add_values(stand, kind, table, values, NULL);

	change->round = round;
	return change;
}

static void
test_incomplete_rows(void **state)
{
	Stand	   *stand = active_stand(state);
	RulesTable *table = rules_table_create(RULES, "1#", "items", "id", "group_id", "body", NULL);
	RereadRequest *requests;
	WriterProgress progress;

	begin(stand, 0x200);
	add_item(stand, ROW_INSERT, table, "kept", "A", "long", 0);
	add_item(stand, ROW_INSERT, table, "bare", "A", "long", 0)->row_copy.len = 0;
	add_item(stand, ROW_INSERT, table, "stale", "A", "long", 0);
	commit(stand, 0x200);
	stored(stand);

	/* both have to be read again: a row copy from before the round does not count */
	begin(stand, 0x300);
	add_item(stand, ROW_UPDATE, table, "kept", "B", NULL, 1);
	add_item(stand, ROW_UPDATE, table, "bare", "B", NULL, 1);
	commit(stand, 0x300);
	assert_int_equal(stored(stand).rereads, 2);
	assert_int_equal(states(stand, "{\"r\": 1}"), 2);
	/* nor does it because the row is stamped now */
	begin(stand, 0x308);
	add_item(stand, ROW_UPDATE, table, "kept", "B", NULL, 1);
	commit(stand, 0x308);
	assert_int_equal(stored(stand).rereads, 3);

	/* the sweep comes before the answer */
	add_sweep(stand, table->table, 1, 0x310);
	stored(stand);
	assert_ops(stand, "1#by_group[\"A\"]",
			   "PUT kept, PUT bare, PUT stale, REMOVE stale");
	requests = writer_take_rereads(stand->thread);
	add(stand, WRITE_CHUNK_BEGIN, 0x320);
	add_item(stand, ROW_REREAD, table, "kept", "B", "other", 1);
	add_item(stand, ROW_REREAD, table, "bare", "B", "other", 1);
	add(stand, WRITE_CHUNK_END, 0x320);
	submit(stand);
	for (int i = 0; i < 3; i++)
	{
		RereadRequest *next = requests->next;

		reread_request_free(requests);
		requests = next;
	}
	assert_null(requests);
	/* and once more */
	add_sweep(stand, table->table, 1, 0x330);
	add(stand, WRITE_KEEPALIVE, 0x330);
	progress = stored(stand);
	assert_int_equal(progress.checkpoint_lsn, 0x330);
	assert_int_equal(states(stand, "{\"r\": 1}"), 2);
	assert_ops(stand, "1#by_group[\"A\"]",
			   "PUT kept, PUT bare, PUT stale, REMOVE stale, REMOVE kept, REMOVE bare");
	assert_ops(stand, "1#by_group[\"B\"]", "PUT kept, PUT bare");

	/* a row copy of the round counts, in it and behind it */
	begin(stand, 0x380);
	add_item(stand, ROW_UPDATE, table, "bare", "B", NULL, 1);
	commit(stand, 0x380);
	begin(stand, 0x400);
	add_item(stand, ROW_UPDATE, table, "kept", "C", NULL, 0);
	add_item(stand, ROW_UPDATE, table, "bare", "C", NULL, 0);
	commit(stand, 0x400);
	progress = stored(stand);
	assert_int_equal(progress.rereads, 3);
	assert_ops(stand, "1#by_group[\"C\"]", "PUT kept, PUT bare");
	assert_int_equal(states(stand, "{\"r\": {\"$exists\": true}}"), 0);
	rules_table_free(table);
}

/* ---------------------------------------------------------------- checkpoints */

static void
add_incomplete(Stand *stand, WriteItemKind kind, uint64_t lsn)
{
	add(stand, kind, lsn)->incomplete = true;
}

/* A stream becomes active only when no copy is due; what it stores meanwhile is stored. */
static void
test_activation_waits(void **state)
{
	Stand	   *stand = *state;
	SourceTable *table = table_create("items");
	WriterProgress progress;

	stand_open(stand, stand_deploy(stand, CONFIG));
	stand_write(stand, NULL);
	add(stand, WRITE_POSITION, 0x80);
	add(stand, WRITE_SNAPSHOT_DONE, 0x100);
	add_incomplete(stand, WRITE_KEEPALIVE, 0x100);
	progress = stored(stand);
	assert_false(progress.active);
	assert_int_equal(progress.checkpoint_lsn, STREAM_LSN_NONE);
	assert_int_equal(progress.stored_lsn, 0x100);
	begin(stand, 0x200);
	put(stand, ROW_INSERT, table, "a1", "1#a[]", 1);
	add_incomplete(stand, WRITE_COMMIT, 0x200);
	progress = stored(stand);
	assert_false(progress.active);
	assert_int_equal(progress.stored_lsn, 0x200);
	assert_field(stand, "sync_rules", "{}", "state", "\"PROCESSING\"");
	/* so in the next process */
	stand_start_again(stand, NULL);
	assert_int_equal(stream_stored_lsn(stand->stream), 0x200);
	add_incomplete(stand, WRITE_KEEPALIVE, 0x210);
	assert_false(stored(stand).active);

	/* of several commits in a flush the last one counts */
	begin(stand, 0x300);
	put(stand, ROW_INSERT, table, "a2", "1#a[]", 1);
	add_incomplete(stand, WRITE_COMMIT, 0x300);
	add_sweep(stand, table, 1, 0x300);
	begin(stand, 0x400);
	put(stand, ROW_INSERT, table, "a3", "1#a[]", 0);
	commit(stand, 0x400);
	progress = stored(stand);
	assert_true(progress.active);
	assert_int_equal(progress.checkpoint_lsn, 0x400);
	assert_field(stand, "sync_rules", "{}", "state", "\"ACTIVE\"");

	/* what clients have already goes on */
	begin(stand, 0x500);
	put(stand, ROW_INSERT, table, "a4", "1#a[]", 2);
	add_incomplete(stand, WRITE_COMMIT, 0x500);
	assert_int_equal(stored(stand).checkpoint_lsn, 0x500);
	source_table_release(table);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		stand_test(test_table_documents),
		stand_test(test_recopied_rows),
		stand_test(test_sweep),
		stand_test(test_sweep_at_borders),
		stand_test(test_sweep_without_a_round),
		stand_test(test_lock_while_nothing_is_written),
		stand_test(test_crash_in_a_sweep),
		stand_test(test_crash_in_the_sweep_of_a_wide_row),
		stand_test(test_crash_in_a_recopied_row),
		stand_test(test_incomplete_rows),
		stand_test(test_activation_waits),
	};

	mongoc_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
