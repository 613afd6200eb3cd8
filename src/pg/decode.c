/*-------------------------------------------------------------------------
 *
 * decode.c
 *	  The output plugin: callbacks of logical decoding -> write items.
 *
 * Runs inside decoding's own transaction with a historic snapshot: catalogs
 * may be read, ordinary tables may not.  Each change is converted, evaluated
 * and added to the worker's batch; nothing is kept of it.  A transaction that
 * changes nothing of interest leaves no item.
 *
 * The plugin refuses to run outside a pgsync worker: any role with REPLICATION
 * could name it otherwise.
 *
 *-------------------------------------------------------------------------
 */
#include "worker.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_am.h"
#include "replication/output_plugin.h"
#include "replication/reorderbuffer.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/timestamp.h"
#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

#include "core/identity.h"

/*
 * The upper limit of "pgsync.row_limit".  Not the setting itself: a row stored
 * under a larger one must still be found.
 */
#define LARGEST_IDENTITY	((Size) 15 * 1024 * 1024)

/* what a row that may be too large for a document takes at least, once evaluated */
#define NAMED_ROW_BYTES		((Size) 1024 * 1024)

#if PG_VERSION_NUM < 160000
extern PGSYNC_EXPORT void _PG_output_plugin_init(OutputPluginCallbacks *callbacks);
#endif

/* ---------------------------------------------------------------- row changes */

/*
 * The key of a row of a table without identity.  Such rows are only ever
 * inserted; the key must come out the same when the row is met again, so it
 * follows from a place: where the insert stands in the WAL, or where the copied
 * tuple lies in its file.
 */
SourceKey
source_key_of_place(Worker *worker, uint64_t where, uint64_t which)
{
	static const SyncColumn columns[] = {
		{{"where", 5}}, {{"which", 5}}
	};
	static const int identity[] = {0, 1};
	static const SyncRowType type = {2, columns, 2, identity};
	SyncValue	values[2];
	SourceKey	key;

	values[0] = value_integer((int64_t) where);
	values[1] = value_integer((int64_t) which);
	source_key_of_row(&type, values, worker->scratch, &key);
	return key;
}

static SourceKey
key_of_insert(Worker *worker, uint64_t lsn)
{
	if (lsn != worker->last_change_lsn)
	{
		worker->last_change_lsn = lsn;
		worker->changes_at_lsn = 0;
	}
	return source_key_of_place(worker, lsn, worker->changes_at_lsn++);
}

void
decode_begin_write(Worker *worker)
{
	if (worker->transaction == NULL || worker->transaction_written)
		return;
	write_batch_add(worker_batch(worker), WRITE_BEGIN, worker->transaction_end);
	worker->transaction_written = true;
}

/* The key of a row whose identity columns have been converted. */
static void
key_of_values(RelationEntry *entry, const Datum *datums, const bool *nulls,
			  const SyncValue *values, SyncArena *scratch, SourceKey *key)
{
	const SyncRowType *type = &entry->row_type;

	if (entry->inexact_key)
		values = row_key_values(entry->conversion, datums, nulls, type->identity,
								type->identity_count, scratch, values);
	source_key_of_row(type, values, scratch, key);
}

/*
 * The key that identity columns give; false if they are too large to have been
 * stored under any setting, or cannot be converted: such a row is in no bucket.
 */
static bool
key_of_columns(RelationEntry *entry, const Datum *datums, const bool *nulls, SyncValue *values,
			   SyncArena *scratch, SourceKey *key)
{
	if (!row_convert_some(entry->conversion, datums, nulls, entry->row_type.identity,
						  entry->row_type.identity_count, LARGEST_IDENTITY, scratch, values))
		return false;
	key_of_values(entry, datums, nulls, values, scratch, key);
	return true;
}

static void
report_rejected(RowValueResult result, const RelationEntry *entry, EvaluatedRow *row,
				SyncArena *arena)
{
	SyncError  *error = arena_new(arena, SyncError);

	if (result == ROW_FAILED)
		sync_error_set(error, SYNC_ERROR_LIMIT, "%s", entry->conversion->failure);
	else
		sync_error_set(error, SYNC_ERROR_LIMIT, "the row is larger than \"pgsync.row_limit\"");
	memset(row, 0, sizeof(*row));
	row->error_count = 1;
	row->error = error;
}

/* An incomplete row: the writer completes it from what is stored. */
static void
keep_incomplete_values(RelationEntry *entry, TupleDesc desc, RowChange *change, SyncArena *arena)
{
	int			count = entry->row_type.column_count;

	change->values = arena_array(arena, SyncValue, count);
	for (int i = 0; i < count; i++)
	{
		SyncValue	value = entry->values[i];

		if (value.type >= SYNC_TEXT || value.type == SYNC_BIGINT)
			value.data = arena_strndup(arena, value.data, value.len);
		change->values[i] = value;
	}
	change->reread_key = reread_key_encode(entry, desc, arena);
}

/*
 * An identity column whose value is out of line and unchanged is not in the new
 * tuple, but then the server writes the old key, flattened.  False: it is in
 * neither, and the row cannot be named.
 */
static bool
complete_identity(RelationEntry *entry, const Datum *old_datums, const bool *old_nulls)
{
	for (int i = 0; i < entry->row_type.identity_count; i++)
	{
		ColumnConversion *column = &entry->conversion->columns[entry->row_type.identity[i]];
		int			a = column->attnum - 1;

		if (entry->nulls[a] || column->typlen != -1 ||
			!VARATT_IS_EXTERNAL_ONDISK(DatumGetPointer(entry->datums[a])))
			continue;
		if (old_datums == NULL || old_nulls[a] ||
			VARATT_IS_EXTERNAL_ONDISK(DatumGetPointer(old_datums[a])))
			return false;
		entry->datums[a] = old_datums[a];
	}
	return true;
}

/*
 * A row above the limit, or with a value that cannot be converted.  It is named by
 * its identity alone; where that is too large, as a whole row can be, or cannot be
 * converted, it was never stored and is not now, and what remains of the change is
 * that the row left its former key.
 */
static void
reject_row(RowValueResult result, RelationEntry *entry, RowChange *change, Worker *worker,
		   SyncArena *arena)
{
	report_rejected(result, entry, &change->row, arena);
	if (entry->row_type.identity_count > 0 &&
		!key_of_columns(entry, entry->datums, entry->nulls, entry->values, worker->scratch,
						&change->after))
		change->kind = ROW_DELETE;
}

/*
 * The new row's values are in entry->datums; old_datums: NULL, or those of the old one.
 * False: the row cannot be named.
 */
static bool
evaluate_row(RelationEntry *entry, const Datum *old_datums, const bool *old_nulls, TupleDesc desc,
			 RowChange *change, Worker *worker, SyncArena *arena)
{
	bool		in_stream = change->kind == ROW_INSERT || change->kind == ROW_UPDATE;
	bool		out_of_line;
	RowValueResult result;
	Size		limit = (Size) *worker->preloaded->settings.row_limit * 1024;

	if (in_stream && !complete_identity(entry, old_datums, old_nulls))
		return false;
	if (entry->identity != REPLICA_IDENTITY_FULL)
		old_datums = NULL;		/* it holds the key only */
	result = row_convert(entry->conversion, entry->datums, entry->nulls, old_datums, old_nulls,
						 limit, in_stream, worker->scratch, entry->values, &out_of_line);
	if (result == ROW_TOO_LARGE || result == ROW_FAILED)
	{
		reject_row(result, entry, change, worker, arena);
		return true;
	}
	if (entry->row_type.identity_count > 0)
		key_of_values(entry, entry->datums, entry->nulls, entry->values, worker->scratch,
					  &change->after);
	if (result == ROW_INCOMPLETE)
		keep_incomplete_values(entry, desc, change, arena);
	else
	{
		if (table_evaluate(entry->table->binding, entry->values, arena,
						   &change->row) != SYNC_OK)
			ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory")));

		/* only an out-of-line value can be left out of a later change (design 5) */
		if ((out_of_line || change->kind == ROW_REREAD) && entry->table->keep_row_copy)
			change->row_copy = row_copy_encode(&entry->row_type, entry->values, arena);
	}
	return true;
}

static void
check_rereads(Worker *worker)
{
	if (writer_reread_bytes(worker->storage->thread) >
		(Size) *worker->preloaded->settings.queue_size * 1024)
		reread_give_up(worker);
}

/*
 * A row that is not stored as it is must be found by a person: by its key, not by
 * all of its columns.  Of those that the writer may reject the name goes along.
 */
static void
name_row(RelationEntry *entry, RowChange *change, Size used, SyncArena *arena)
{
	char		name[ROW_NAME_SIZE];

	if (entry->row_type.identity_count == 0 ||
		(entry->identity == REPLICA_IDENTITY_FULL &&
		 entry->row_type.identity_count == entry->row_type.column_count) ||
		(change->row.error_count == 0 && change->values == NULL && used < NAMED_ROW_BYTES))
		return;
	row_name(&entry->row_type, entry->values, name, sizeof(name));
	change->name = arena_strndup(arena, name, strlen(name));
}

void
row_change_add(Worker *worker, RelationEntry *entry, RowChangeKind kind, HeapTuple old_tuple,
			   HeapTuple new_tuple, TupleDesc desc, const SourceKey *no_identity_key)
{
	KnownTable *known = entry->known;
	WriteBatch *batch = worker_batch(worker);
	SyncArena  *arena;
	RowChange  *change;
	Datum	   *old_datums = NULL;
	bool	   *old_nulls = NULL;
	Size		used;
	WriteItem  *item;

	if (batch->item_count == 0 && (kind == ROW_INSERT || kind == ROW_UPDATE))
	{
		check_rereads(worker);
		/* documents of tables that this marked may have filled it */
		batch = worker_batch(worker);
	}
	arena = batch->arena;
	change = arena_new(arena, RowChange);
	change->kind = kind;
	change->round = known->doc.stale ? known->doc.copy_round : 0;
	if (old_tuple != NULL)
	{
		old_datums = entry->datums + desc->natts;
		old_nulls = entry->nulls + desc->natts;
		heap_deform_tuple(old_tuple, desc, old_datums, old_nulls);
	}
	if (kind != ROW_DELETE)
	{
		heap_deform_tuple(new_tuple, desc, entry->datums, entry->nulls);
		if (entry->row_type.identity_count == 0)
			change->after = *no_identity_key;
		used = arena_used(arena);
		if (!evaluate_row(entry, old_datums, old_nulls, desc, change, worker, arena))
		{
			arena_reset(worker->scratch);
			(void) source_table_mark(worker, known, "a change of it did not hold the row's key");
			return;
		}
		if (change->kind != ROW_DELETE)
			name_row(entry, change, arena_used(arena) - used, arena);
	}
	change->has_before = old_tuple != NULL && entry->row_type.identity_count > 0 &&
		key_of_columns(entry, old_datums, old_nulls, entry->old_values, worker->scratch,
					   &change->before) &&
		(change->kind == ROW_DELETE ||
		 memcmp(&change->before, &change->after, sizeof(SourceKey)) != 0);
	change->table = source_table_retain(entry->table);
	if (worker->transaction != NULL)
		recopy_note_change(known, change);

	item = write_batch_add(batch, WRITE_ROW, worker->transaction_end);
	item->row = change;
	arena_reset(worker->scratch);
}

/* ---------------------------------------------------------------- callbacks */

static void
plugin_startup(LogicalDecodingContext *context, OutputPluginOptions *options, bool is_init)
{
	if (MyWorker == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("output plugin \"%s\" can be used by pgsync's own workers only",
						PGSYNC_WORKER_LIBRARY),
				 errhint("Use pgsync_start() to replicate, or another output plugin to read changes.")));
	options->output_type = OUTPUT_PLUGIN_TEXTUAL_OUTPUT;
	options->receive_rewrites = true;	/* see note_rewritten_table() */
}

static void
plugin_begin(LogicalDecodingContext *context, ReorderBufferTXN *txn)
{
	MyWorker->transaction = txn;
	MyWorker->transaction_end = txn->end_lsn;
	MyWorker->transaction_written = false;
}

static HeapTuple
tuple_of(
#if PG_VERSION_NUM >= 170000
		 HeapTuple tuple)
{
	return tuple;
}
#else
		 ReorderBufferTupleBuf *buffer)
{
	return buffer == NULL ? NULL : &buffer->tuple;
}
#endif

/* Once for each table. */
static void
note_ignored_change(Worker *worker, KnownTable *known)
{
	if (known->doc.ignored_changes)
		return;
	known->doc.ignored_changes = true;
	source_table_store(worker, known);
	ereport(LOG,
			(errmsg("updates and deletes of table \"%s.%s\" do not reach the buckets",
					known->doc.schema, known->doc.name),
			 errdetail("The table has no replica identity, so nothing says which row is meant."),
			 errhint("Add a primary key, or run ALTER TABLE ... REPLICA IDENTITY FULL.")));
}

static void
plugin_change(LogicalDecodingContext *context, ReorderBufferTXN *txn, Relation relation,
			  ReorderBufferChange *change)
{
	Worker	   *worker = MyWorker;
	RelationEntry *entry;
	HeapTuple	old_tuple = tuple_of(change->data.tp.oldtuple);
	HeapTuple	new_tuple = tuple_of(change->data.tp.newtuple);
	bool		has_identity;
	MemoryContext old;
	SourceKey	key;

	if (OidIsValid(relation->rd_rel->relrewrite))
	{
		if (relation->rd_rel->relam == HEAP_TABLE_AM_OID)
			note_rewritten_table(worker, relation->rd_rel->relrewrite,
								 RelationGetRelid(relation));
		return;
	}
	entry = relation_look(worker, relation);
	if (!entry->wanted)
	{
		if (entry->skipped_at != worker->transaction_end)
			source_table_passed_over(worker, entry->relid);
		entry->skipped_at = worker->transaction_end;
		return;
	}
	has_identity = entry->row_type.identity_count > 0;
	/* without identity nothing says which row is meant: only inserts count */
	if (!has_identity && change->action != REORDER_BUFFER_CHANGE_INSERT)
	{
		note_ignored_change(worker, entry->known);
		return;
	}
	if (change->action == REORDER_BUFFER_CHANGE_DELETE && old_tuple == NULL)
		return;

	old = MemoryContextSwitchTo(worker->change_context);
	decode_begin_write(worker);
	switch (change->action)
	{
		case REORDER_BUFFER_CHANGE_INSERT:
			if (!has_identity)
			{
				key = key_of_insert(worker, change->lsn);
				recopy_note_insert(worker, entry->known, change->txn->xid);
			}
			row_change_add(worker, entry, ROW_INSERT, NULL, new_tuple,
						   RelationGetDescr(relation), &key);
			break;
		case REORDER_BUFFER_CHANGE_UPDATE:
			row_change_add(worker, entry, ROW_UPDATE, old_tuple, new_tuple,
						   RelationGetDescr(relation), NULL);
			break;
		case REORDER_BUFFER_CHANGE_DELETE:
			row_change_add(worker, entry, ROW_DELETE, old_tuple, NULL,
						   RelationGetDescr(relation), NULL);
			break;
		default:
			elog(ERROR, "unexpected change of kind %d", (int) change->action);
	}
	MemoryContextSwitchTo(old);
	MemoryContextReset(worker->change_context);
}

static void
plugin_truncate(LogicalDecodingContext *context, ReorderBufferTXN *txn, int count,
				Relation relations[], ReorderBufferChange *change)
{
	Worker	   *worker = MyWorker;

	for (int i = 0; i < count; i++)
	{
		RelationEntry *entry = relation_look(worker, relations[i]);
		WriteItem  *item;

		if (!entry->wanted)
		{
			entry->skipped_at = worker->transaction_end;
			continue;
		}
		decode_begin_write(worker);
		recopy_drop_chunk(entry->known);
		item = write_batch_add(worker_batch(worker), WRITE_TRUNCATE, worker->transaction_end);
		item->table = source_table_retain(entry->table);
		source_tables_drop_replaced(worker, entry->known);
	}
}

/*
 * PowerSync's API writes "ping" to be told that a position is reached; we write a
 * fence when a row was read again, which waits for this position to be published.
 */
static void
plugin_message(LogicalDecodingContext *context, ReorderBufferTXN *txn, XLogRecPtr lsn,
			   bool transactional, const char *prefix, Size size, const char *message)
{
	if (strcmp(prefix, "powersync") == 0)
		MyWorker->ping |= size == 4 && memcmp(message, "ping", 4) == 0;
	else if (strcmp(prefix, FENCE_PREFIX) == 0 && !transactional)
	{
		if (size == strlen(FENCE_TEXT) && memcmp(message, FENCE_TEXT, size) == 0)
			MyWorker->ping |= MyWorker->was_active;
		else
			recopy_message(MyWorker, message, size, context->reader->EndRecPtr);
	}
}

static void
plugin_commit(LogicalDecodingContext *context, ReorderBufferTXN *txn, XLogRecPtr commit_lsn)
{
	Worker	   *worker = MyWorker;
	WriteItem  *item;
	TimestampTz commit_time;

	if (rbtxn_has_catalog_changes(txn) || worker->tables_touched)
		relations_check_after_ddl(worker);
	worker->transaction = NULL;
	if (!worker->transaction_written)
		return;
	worker->transaction_written = false;
	commit_time = txn->xact_time.commit_time;
	item = write_batch_add(worker_batch(worker), WRITE_COMMIT, txn->end_lsn);
	item->incomplete = worker->copies_due;
	item->source_time_us = commit_time +
		(int64) (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY;
	worker->submitted_lsn = txn->end_lsn;
	worker->submitted_time = GetCurrentTimestamp();

	/* the writer may be waiting for just this */
	if (writer_idle(worker->storage->thread))
		worker_submit(worker);
}

void
_PG_output_plugin_init(OutputPluginCallbacks *callbacks)
{
	callbacks->startup_cb = plugin_startup;
	callbacks->begin_cb = plugin_begin;
	callbacks->change_cb = plugin_change;
	callbacks->truncate_cb = plugin_truncate;
	callbacks->message_cb = plugin_message;
	callbacks->commit_cb = plugin_commit;
}
