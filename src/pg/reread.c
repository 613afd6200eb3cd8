/*-------------------------------------------------------------------------
 *
 * reread.c
 *	  Single rows read again by key, because the writer could not complete a change
 *	  of them: an unchanged value is out of line, and no copy of it is stored.
 *
 * Between two records of the stream, never inside a source transaction.  What cannot
 * be read for the stream, since the table has changed meanwhile, is left to a copy of
 * the table (recopy.c).
 *
 * Invariant: every request is answered, by the row, or by the table being marked.
 *
 *-------------------------------------------------------------------------
 */
#include "worker.h"

#include "access/genam.h"
#include "access/heaptoast.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/skey.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_index.h"
#include "executor/tuptable.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

/*
 * The row's key, as a tuple of the table's shape in which all other columns are
 * null: what is needed to find the row again.  Opaque to everyone else.
 */
SyncString
reread_key_encode(RelationEntry *entry, TupleDesc desc, SyncArena *arena)
{
	Datum	   *datums = palloc0(sizeof(Datum) * desc->natts);
	bool	   *nulls = palloc(sizeof(bool) * desc->natts);
	HeapTuple	tuple;
	HeapTuple	flat;

	memset(nulls, true, sizeof(bool) * desc->natts);
	for (int i = 0; i < entry->row_type.identity_count; i++)
	{
		int			a = entry->conversion->columns[entry->row_type.identity[i]].attnum - 1;

		datums[a] = entry->datums[a];
		nulls[a] = entry->nulls[a];
	}
	tuple = heap_form_tuple(desc, datums, nulls);
	flat = toast_flatten_tuple(tuple, desc);
	return (SyncString) {arena_strndup(arena, (char *) flat->t_data, flat->t_len), flat->t_len};
}

/*
 * Finds the row by its identity's index, with the index's own operators and the
 * key's own values: no text is parsed and no name looked up, so nothing of a
 * user's runs with our rights.
 */
static bool
fetch_row(Relation relation, const SyncString *key, TupleTableSlot *slot)
{
	TupleDesc	desc = RelationGetDescr(relation);
	Datum	   *datums = palloc(sizeof(Datum) * desc->natts);
	bool	   *nulls = palloc(sizeof(bool) * desc->natts);
	HeapTupleData tuple = {0};
	Relation	index;
	ScanKeyData *keys;
	IndexScanDesc scan;
	oidvector  *classes;
	bool		isnull;
	bool		found;
	int			count;

	/* a copy: the bytes of the key need not be aligned */
	tuple.t_len = key->len;
	tuple.t_data = palloc(key->len);
	memcpy(tuple.t_data, key->data, key->len);

	/*
	 * Newer minor releases stamp a composite value with its type's version, and
	 * refuse it after any ALTER TABLE.  The caller has compared the shapes, so
	 * this is a tuple as any of the table.
	 */
	ItemPointerSetInvalid(&tuple.t_data->t_ctid);
	heap_deform_tuple(&tuple, desc, datums, nulls);

	index = index_open(identity_index(relation), AccessShareLock);
	classes = (oidvector *) DatumGetPointer(SysCacheGetAttr(INDEXRELID, index->rd_indextuple,
															Anum_pg_index_indclass, &isnull));
	count = index->rd_index->indnkeyatts;
	keys = palloc(sizeof(ScanKeyData) * count);
	for (int i = 0; i < count; i++)
	{
		int			a = index->rd_index->indkey.values[i] - 1;
		Oid			family = get_opclass_family(classes->values[i]);
		Oid			type = get_opclass_input_type(classes->values[i]);
		Oid			equal = get_opfamily_member(family, type, type, BTEqualStrategyNumber);

		ScanKeyInit(&keys[i], i + 1, BTEqualStrategyNumber, get_opcode(equal), datums[a]);
		keys[i].sk_collation = index->rd_indcollation[i];
	}
#if PG_VERSION_NUM >= 180000
	scan = index_beginscan(relation, index, GetActiveSnapshot(), NULL, count, 0);
#else
	scan = index_beginscan(relation, index, GetActiveSnapshot(), count, 0);
#endif
	index_rescan(scan, keys, count, NULL, 0);
	found = index_getnext_slot(scan, ForwardScanDirection, slot);
	if (found)
		ExecMaterializeSlot(slot);
	index_endscan(scan);
	index_close(index, AccessShareLock);
	return found;
}

/*
 * One row, as it is now, sent as ROW_REREAD in a chunk with a fence.
 *
 * A row that is not there needs nothing: whatever has been decoded is visible
 * here (wait_for_stragglers), the change that asks included, so a later
 * transaction deleted the row, gave it another key, or emptied or dropped the table.
 * Either that is decoded already, and the writer has its removal behind the change
 * that asked, or it is yet to come, and the fence keeps the old state from being
 * published before.
 *
 * A table that has another shape now cannot be read for the stream, which has not
 * got there yet: it is copied when the stream has.
 */
static void
reread_row(Worker *worker, KnownTable *known, RereadRequest *request)
{
	Relation	relation;
	WriteItem  *begin;
	bool		changed = false;

	worker_submit(worker);
	relation = begin_reading(worker, request->table->relation_id);
	PushActiveSnapshot(GetTransactionSnapshot());
	worker->in_chunk = true;
	begin = write_batch_add(worker_batch(worker), WRITE_CHUNK_BEGIN, 0);
	if (relation != NULL)
	{
		RelationEntry *entry = relation_entry(worker, relation);

		if (entry == NULL || entry->known != known || !OidIsValid(identity_index(relation)))
			changed = true;
		else
		{
			TupleTableSlot *slot = table_slot_create(relation, NULL);
			MemoryContext old = MemoryContextSwitchTo(worker->change_context);

			if (fetch_row(relation, &request->key, slot))
				row_change_add(worker, entry, ROW_REREAD, NULL,
							   ExecFetchSlotHeapTuple(slot, true, NULL),
							   RelationGetDescr(relation), NULL);
			MemoryContextSwitchTo(old);
			ExecDropSingleTupleTableSlot(slot);
		}
		relation_close(relation, AccessShareLock);
	}
	PopActiveSnapshot();
	CommitTransactionCommand();
	MemoryContextReset(worker->change_context);

	begin->lsn = write_fence(worker, FENCE_TEXT);
	/* the chunk's end carries no table: there is no progress to store */
	write_batch_add(worker_batch(worker), WRITE_CHUNK_END, begin->lsn);
	worker->in_chunk = false;
	worker_submit(worker);
	if (changed)
		(void) source_table_mark(worker, known, "it had changed when a row of it had to be read again");
}

/* Rows that a copy will bring, or that are removed with their table, need not be read. */
static bool
is_needed(KnownTable *known)
{
	return known != NULL && !known->doc.replaced &&
		(!known->doc.stale || !recopy_covers_past(known));
}

/*
 * What the writer asks for, without what need not be read: for that nobody is waited
 * for, either.  They are answered in order, so what follows the first one waits with it.
 */
static RereadRequest *
take_needed(Worker *worker)
{
	RereadRequest *requests = writer_take_rereads(worker->storage->thread);

	while (requests != NULL &&
		   !is_needed(known_table_find(worker, &requests->table->id)))
	{
		RereadRequest *next = requests->next;

		reread_request_free(requests);
		requests = next;
	}
	return requests;
}

/*
 * Serves what the writer could not complete.  Between two records of the stream,
 * never inside a source transaction.  The writer stores no position until all
 * are answered; the fence's message, once decoded, brings a keepalive.
 */
void
reread_rows(Worker *worker)
{
	RereadRequest *requests = take_needed(worker);
	RereadRequest *next;

	if (requests == NULL)
		return;
	InvalidateSystemCaches();
	relation_cache_invalidate_all();
	worker->rereading = true;
	set_decoding_flag(false);
	wait_for_stragglers(worker);
	for (; requests != NULL; requests = next)
	{
		KnownTable *known = known_table_find(worker, &requests->table->id);

		next = requests->next;
		if (is_needed(known))
		{
			worker_wait_for_queue(worker);
			reread_row(worker, known, requests);
		}
		reread_request_free(requests);
	}
	set_decoding_flag(true);
	worker->rereading = false;
	InvalidateSystemCaches();
	relation_cache_invalidate_all();
}

/*
 * Rows are read again between records, so a large transaction can ask for many before
 * the first is served.  Copying their tables is then quicker, too.
 */
void
reread_give_up(Worker *worker)
{
	RereadRequest *requests = writer_take_rereads(worker->storage->thread);
	RereadRequest *next;

	for (; requests != NULL; requests = next)
	{
		KnownTable *known = known_table_find(worker, &requests->table->id);

		next = requests->next;
		if (is_needed(known))
			(void) source_table_mark(worker, known, "more rows of it had to be read again than \"pgsync.queue_size\" has room for");
		reread_request_free(requests);
	}
}
