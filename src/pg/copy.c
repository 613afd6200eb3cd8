/*-------------------------------------------------------------------------
 *
 * copy.c
 *	  The initial copy: tables in chunks, each in a short transaction of its
 *	  own, before streaming starts; and single rows read again by key.
 *
 * The stream begins before the first chunk, so it replays every change over what
 * was copied; what has to hold for that is design 4, "Initial copy":
 *	1. stragglers: transactions whose commit record is written but which
 *	   still look running are waited for before the first snapshot;
 *	2. fence: no checkpoint before the end of WAL at each chunk's snapshot, and
 *	   that WAL is flushed before a row of the chunk is sent;
 *	3. rows whose state exists are skipped (by the writer);
 *	4. shape: a chunk belongs to one relfilenode and one signature;
 *	5. bounds: a chunk ends at any row when its bytes are used up.
 *
 * What is not here: copying a table while the stream runs (design 4,
 * watermarks).
 *
 * Invariant: no transaction and no snapshot is held while waiting for the
 * storage.
 *
 *-------------------------------------------------------------------------
 */
#include "worker.h"

#include "access/genam.h"
#include "access/heaptoast.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/skey.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/transam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_class.h"
#include "catalog/pg_index.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "replication/message.h"
#include "storage/lmgr.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "storage/sinvaladt.h"
#include "storage/standby.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

/* between two looks at a transaction that is waited for: at first, and at most */
#define WAIT_FIRST_MS		10
#define WAIT_LONGEST_MS		500

/* ---------------------------------------------------------------- waiting for others */

/*
 * One step of waiting for another transaction, of which nothing tells us.  All
 * that the worker owes to others goes on: the stop that is asked for, positions,
 * the stream's lock, other streams, settings.  Neither in a transaction nor with a
 * lock.  *pause: 0 at first.
 */
static void
wait_for_other(Worker *worker, int pid, long *pause)
{
	pg_atomic_write_u32(&worker->entry->waits_for_pid, pid);
	*pause = *pause == 0 ? WAIT_FIRST_MS : Min(*pause * 2, WAIT_LONGEST_MS);
	(void) storage_link_wait(worker->storage, *pause);
	worker_collect(worker);
	slot_confirm(worker, false);
	worker_watch_streams(worker);
}

static void
waited_for_others(Worker *worker)
{
	pg_atomic_write_u32(&worker->entry->waits_for_pid, 0);
	pg_atomic_write_u32(&worker->entry->waits_for_xid, 0);
}

/* What runs in another database writes no row of this one.  0: prepared, or over. */
static bool
is_of_another_database(int pid)
{
	PGPROC	   *proc = pid != 0 ? BackendPidGetProc(pid) : NULL;

	return proc != NULL && OidIsValid(proc->databaseId) && proc->databaseId != MyDatabaseId;
}

/* Every transaction that counts as running, whatever it has written, without its parts. */
static TransactionId *
running_transactions(int *count)
{
	RunningTransactions running = GetRunningTransactionData();
	TransactionId *xids;

	/* taken by the call, and what it returns is its own */
	LWLockRelease(ProcArrayLock);
	LWLockRelease(XidGenLock);
	*count = running->xcnt;
	xids = palloc(sizeof(TransactionId) * Max(running->xcnt, 1));
	memcpy(xids, running->xids, sizeof(TransactionId) * running->xcnt);
	return xids;
}

/*
 * Waits until every transaction of this database that may have written its commit
 * record before now is over: such a transaction is invisible to a snapshot taken
 * now, and the stream does not bring it (any more).  Called before the first chunk,
 * and before rows are read again.
 */
static void
wait_for_stragglers(Worker *worker)
{
	VirtualTransactionId *vxids;
	TransactionId *xids;
	int			count;
	long		pause = 0;

	/* between writing the record and marking the xid committed in the commit log */
	vxids = GetVirtualXIDsDelayingChkpt(&count, DELAY_CHKPT_START);
	while (count > 0 && HaveVirtualXIDsDelayingChkpt(vxids, count, DELAY_CHKPT_START))
		wait_for_other(worker, 0, &pause);
	pfree(vxids);

	/* one that begins after this writes its record later, too */
	xids = running_transactions(&count);
	for (int i = 0; i < count; i++)
	{
		pause = 0;
		if (!TransactionIdDidCommit(xids[i]))
			continue;
		while (TransactionIdIsInProgress(xids[i]))
		{
			int			pid = BackendXidGetPid(xids[i]);

			if (is_of_another_database(pid))
				break;
			pg_atomic_write_u32(&worker->entry->waits_for_xid, pid == 0 ? xids[i] : 0);
			wait_for_other(worker, pid, &pause);
		}
	}
	pfree(xids);
	waited_for_others(worker);
}

/* Somebody who holds a lock that conflicts with reading; 0: not known. */
static int
lock_holder(Oid relid)
{
	VirtualTransactionId *holders;
	LOCKTAG		tag;
	PGPROC	   *proc = NULL;
	int			count;

	SET_LOCKTAG_RELATION(tag, MyDatabaseId, relid);
	holders = GetLockConflicts(&tag, AccessShareLock, &count);
#if PG_VERSION_NUM >= 170000
	if (count > 0 && holders[0].procNumber != INVALID_PROC_NUMBER)
		proc = ProcNumberGetProc(holders[0].procNumber);
#else
	if (count > 0 && holders[0].backendId != InvalidBackendId)
		proc = BackendIdGetProc(holders[0].backendId);
#endif
	pfree(holders);
	return proc != NULL ? proc->pid : 0;
}

/*
 * Begins a transaction in which the relation is open and no snapshot has been taken
 * yet; NULL: it is gone.  The lock comes before the snapshot: who held it may have
 * written the whole table anew, of which an older snapshot sees no row.
 */
static Relation
begin_reading(Worker *worker, Oid relid)
{
	long		pause = 0;

	for (;;)
	{
		int			pid;

		StartTransactionCommand();
		if (ConditionalLockRelationOid(relid, AccessShareLock))
			break;
		pid = lock_holder(relid);
		CommitTransactionCommand();
		wait_for_other(worker, pid, &pause);
	}
	waited_for_others(worker);
	return try_relation_open(relid, AccessShareLock);
}

/* ---------------------------------------------------------------- chunks */

static uint64_t
tid_encode(ItemPointer tid)
{
	return ((uint64_t) ItemPointerGetBlockNumberNoCheck(tid) << 16) |
		ItemPointerGetOffsetNumberNoCheck(tid);
}

static void
tid_decode(uint64_t encoded, ItemPointer tid)
{
	ItemPointerSet(tid, (BlockNumber) (encoded >> 16), (OffsetNumber) (encoded & 0xffff));
}

/*
 * WAL position that the next rows must not be visible before; flushed, so that
 * no row of a commit that a crash, or a failover, would undo is ever sent.
 */
static XLogRecPtr
write_fence(Worker *worker)
{
	XLogRecPtr	fence;

#if PG_VERSION_NUM >= 170000
	fence = LogLogicalMessage(FENCE_PREFIX, "fence", 5, false, true);
#else
	fence = LogLogicalMessage(FENCE_PREFIX, "fence", 5, false);
#endif
	XLogFlush(fence);
	slot_wait_for_standbys(worker, fence);
	return fence;
}

static void
show_progress(Worker *worker, const KnownTable *known, int done)
{
	WorkerEntry *entry = worker->entry;

	LWLockAcquire(&worker->shared->lock, LW_EXCLUSIVE);
	snprintf(entry->copy_table, sizeof(entry->copy_table), "%s.%s", known->doc.schema,
			 known->doc.name);
	entry->tables_done = done;
	entry->copy_rows_done = known->doc.rows_copied;
	entry->copy_rows_estimated = known->doc.rows_estimated;
	LWLockRelease(&worker->shared->lock);
}

/*
 * Progress that belongs to another file or shape is void.  The rows already
 * copied stay: the stream brings them up to date, and the writer skips them.
 * Another shape cannot be mended that way (design 4, rule 4).
 */
static void
check_chunk_shape(Worker *worker, KnownTable *known, Relation relation, RelationEntry *entry)
{
	SourceTableDoc *doc = &known->doc;
	MemoryContext old;

	if (doc->signature != NULL && strcmp(doc->signature, entry->signature) != 0)
		worker_replace_stream(worker, "a table changed its shape during the initial copy");
	if (doc->signature == NULL)
	{
		old = MemoryContextSwitchTo(TopMemoryContext);
		doc->signature = pstrdup(entry->signature);
		MemoryContextSwitchTo(old);
	}
	if (doc->relfilenode != relation->rd_rel->relfilenode)
	{
		doc->relfilenode = relation->rd_rel->relfilenode;
		doc->next_tid = 0;
		doc->rows_copied = 0;
		doc->rows_estimated = relation->rd_rel->reltuples < 0 ? -1 :
			(int64_t) relation->rd_rel->reltuples;
	}
}

/* Reads rows from doc->next_tid on into the batch; false when the table ends. */
static bool
scan_chunk(Worker *worker, KnownTable *known, Relation relation, RelationEntry *entry)
{
	SourceTableDoc *doc = &known->doc;
	Size		limit = (Size) *worker->preloaded->settings.copy_chunk_size * 1024;
	TableScanDesc scan;
	TupleTableSlot *slot = table_slot_create(relation, NULL);
	ItemPointerData first;
	ItemPointerData last;
	bool		more = false;

	tid_decode(doc->next_tid, &first);
	ItemPointerSet(&last, MaxBlockNumber, MaxOffsetNumber);
	scan = table_beginscan_tidrange(relation, GetActiveSnapshot(), &first, &last);
	while (table_scan_getnextslot_tidrange(scan, ForwardScanDirection, slot))
	{
		HeapTuple	tuple;
		bool		should_free;
		SourceKey	key;
		MemoryContext old;

		old = MemoryContextSwitchTo(worker->change_context);
		tuple = ExecFetchSlotHeapTuple(slot, false, &should_free);
		if (entry->row_type.identity_count == 0)
			key = source_key_of_place(worker, doc->relfilenode, tid_encode(&slot->tts_tid));
		row_change_add(worker, entry, ROW_COPY, NULL, tuple, RelationGetDescr(relation), &key);
		if (should_free)
			heap_freetuple(tuple);
		MemoryContextSwitchTo(old);
		MemoryContextReset(worker->change_context);

		doc->next_tid = tid_encode(&slot->tts_tid) + 1;
		doc->rows_copied++;
		if (arena_used(worker->batch->arena) >= limit)
		{
			more = true;
			break;
		}
		CHECK_FOR_INTERRUPTS();
	}
	table_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	return more;
}

/*
 * One chunk: a transaction, a snapshot, a batch.  Returns false when the table
 * has no more rows, or is gone.
 */
static bool
copy_chunk(Worker *worker, Oid relid, KnownTable **known_result, int done)
{
	Relation	relation;
	RelationEntry *entry;
	KnownTable *known;
	WriteItem  *begin;
	WriteItem  *end;
	bool		more;

	worker_wait_for_queue(worker);
	relation = begin_reading(worker, relid);
	if (relation == NULL)
	{
		/* dropped meanwhile: that acts at its position in the stream */
		CommitTransactionCommand();
		return false;
	}
	PushActiveSnapshot(GetTransactionSnapshot());
	entry = relation_entry(worker, relation);
	known = entry == NULL ? NULL : known_table_find(worker, &entry->table->id);
	if (known == NULL || known->doc.snapshot_done)
	{
		PopActiveSnapshot();
		relation_close(relation, AccessShareLock);
		CommitTransactionCommand();
		return false;
	}
	*known_result = known;
	check_chunk_shape(worker, known, relation, entry);

	worker_submit(worker);		/* what precedes the chunk, such as a new table */
	worker->in_chunk = true;
	begin = write_batch_add(worker_batch(worker), WRITE_CHUNK_BEGIN, 0);
	more = scan_chunk(worker, known, relation, entry);
	PopActiveSnapshot();
	relation_close(relation, AccessShareLock);
	CommitTransactionCommand();

	/* everything the snapshot saw was in the WAL before this */
	begin->lsn = write_fence(worker);
	known->doc.fence = begin->lsn;
	known->doc.snapshot_done = !more;
	if (!more)
		known->doc.rows_estimated = known->doc.rows_copied;
	end = write_batch_add(worker_batch(worker), WRITE_CHUNK_END, begin->lsn);
	end->table_doc = source_table_doc_copy(&known->doc, worker->batch->arena);
	worker->in_chunk = false;
	worker_submit(worker);
	show_progress(worker, known, done + (more ? 0 : 1));
	return more;
}

/*
 * Tables whose copy had begun and that are gone now, or not published any more:
 * nothing is left to copy.  Their rows are removed when the stream gets there.
 */
static void
finish_vanished_tables(Worker *worker)
{
	ListCell   *cell;

	foreach(cell, worker->tables)
	{
		KnownTable *known = lfirst(cell);
		WriteItem  *item;

		if (known->dropped || known->doc.snapshot_done)
			continue;
		known->doc.snapshot_done = true;
		(void) write_batch_add(worker_batch(worker), WRITE_CHUNK_BEGIN, known->doc.fence);
		item = write_batch_add(worker_batch(worker), WRITE_CHUNK_END, known->doc.fence);
		item->table_doc = source_table_doc_copy(&known->doc, worker->batch->arena);
	}
}

/*
 * Copies every table that the rules read and whose copy is not complete, then
 * says so.  A crash at any point costs one chunk.
 */
void
copy_tables(Worker *worker)
{
	List	   *oids;
	ListCell   *cell;
	int			done = 0;
	XLogRecPtr	fence;
	MemoryContext old;

	worker_set_phase(worker, PHASE_COPYING);
	relation_cache_invalidate_all();
	wait_for_stragglers(worker);

	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	worker->publication = publication_state(&worker->preloaded->settings);
	old = MemoryContextSwitchTo(TopMemoryContext);
	oids = list_copy(relations_to_copy(worker));
	MemoryContextSwitchTo(old);
	PopActiveSnapshot();
	CommitTransactionCommand();

	LWLockAcquire(&worker->shared->lock, LW_EXCLUSIVE);
	worker->entry->tables_total = list_length(oids);
	LWLockRelease(&worker->shared->lock);

	foreach(cell, oids)
	{
		KnownTable *known = NULL;

		while (copy_chunk(worker, lfirst_oid(cell), &known, done))
		{
			worker_collect(worker);
			worker_check_interrupts(worker);
			worker_watch_streams(worker);
		}
		done++;
	}
	list_free(oids);
	finish_vanished_tables(worker);

	fence = write_fence(worker);
	write_batch_add(worker_batch(worker), WRITE_SNAPSHOT_DONE, fence);
	worker_submit(worker);
	worker_wait_until_stored(worker);
	worker->stream->snapshot_done = true;
}

/* ---------------------------------------------------------------- rows by key */

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
 * got there yet: the stream begins anew.
 */
static void
reread_row(Worker *worker, RereadRequest *request)
{
	Relation	relation;
	RelationEntry *entry = NULL;
	WriteItem  *begin;
	const char *reason = NULL;

	worker_submit(worker);
	relation = begin_reading(worker, request->table->relation_id);
	PushActiveSnapshot(GetTransactionSnapshot());
	worker->in_chunk = true;
	begin = write_batch_add(worker_batch(worker), WRITE_CHUNK_BEGIN, 0);
	if (relation != NULL)
	{
		entry = relation_entry(worker, relation);
		if (entry == NULL || !OidIsValid(identity_index(relation)) ||
			memcmp(&entry->table->id, &request->table->id, sizeof(SourceTableId)) != 0)
			reason = psprintf("table \"%s.%s\" changed while a row of it had to be read again",
							  request->table->schema, request->table->name);
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
	if (reason != NULL)
		reason = MemoryContextStrdup(TopMemoryContext, reason);
	CommitTransactionCommand();
	MemoryContextReset(worker->change_context);
	if (reason != NULL)
		worker_replace_stream(worker, reason);

	begin->lsn = write_fence(worker);
	/* the chunk's end carries no table: there is no progress to store */
	write_batch_add(worker_batch(worker), WRITE_CHUNK_END, begin->lsn);
	worker->in_chunk = false;
	worker_submit(worker);
}

/*
 * A process that decodes does not hold back VACUUM.  While it reads an ordinary
 * table under a snapshot it has to.
 */
static void
set_decoding_flag(bool decoding)
{
	LWLockAcquire(ProcArrayLock, LW_EXCLUSIVE);
	if (decoding)
		MyProc->statusFlags |= PROC_IN_LOGICAL_DECODING;
	else
		MyProc->statusFlags &= ~PROC_IN_LOGICAL_DECODING;
	ProcGlobal->statusFlags[MyProc->pgxactoff] = MyProc->statusFlags;
	LWLockRelease(ProcArrayLock);
}

/*
 * Serves what the writer could not complete.  Between two records of the stream,
 * never inside a source transaction.  The writer stores no position until all
 * are answered; the fence's message, once decoded, brings a keepalive.
 */
void
reread_rows(Worker *worker)
{
	RereadRequest *requests = writer_take_rereads(worker->storage->thread);
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
		next = requests->next;
		worker_wait_for_queue(worker);
		reread_row(worker, requests);
		reread_request_free(requests);
	}
	set_decoding_flag(true);
	worker->rereading = false;
	InvalidateSystemCaches();
	relation_cache_invalidate_all();
}
