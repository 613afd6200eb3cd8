/*-------------------------------------------------------------------------
 *
 * read_table.c
 *	  What reading rows of a table takes, by the initial copy, by a copy under the
 *	  stream, and of single rows: others that have to be waited for, locks, messages in
 *	  the WAL, and a chunk of rows.
 *
 * Which rows are read when, and what they are good for, is the callers'.
 *
 * Invariants: no lock that somebody else holds is waited for in a queue; the lock on a
 * table comes before the snapshot.
 *
 *-------------------------------------------------------------------------
 */
#include "worker.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "access/tableam.h"
#include "access/transam.h"
#include "access/twophase.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_class.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "replication/message.h"
#include "storage/lmgr.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "storage/sinvaladt.h"
#include "storage/standby.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

/* between two looks at a transaction that is waited for: at first, and at most */
#define WAIT_FIRST_MS		10
#define WAIT_LONGEST_MS		500

/* ---------------------------------------------------------------- waiting for others */

/* The pause after one of this length; 0: the first. */
long
longer_pause(long pause)
{
	return pause == 0 ? WAIT_FIRST_MS : Min(pause * 2, WAIT_LONGEST_MS);
}

/*
 * One step of waiting for another transaction, of which nothing tells us.  All
 * that the worker owes to others goes on: the stop that is asked for, positions,
 * the stream's lock, other streams, settings.  Neither in a transaction nor with a
 * lock.  *pause: 0 at first.
 */
void
wait_for_other(Worker *worker, const Blocker *blocker, long *pause)
{
	show_blocker(worker, blocker);
	*pause = longer_pause(*pause);
	(void) storage_link_wait(worker->storage, *pause);
	worker_collect(worker);
	slot_confirm(worker, false);
	worker_watch_streams(worker);
}

void
show_blocker(Worker *worker, const Blocker *blocker)
{
	pg_atomic_write_u32(&worker->entry->waits_for_pid, blocker->pid);
	pg_atomic_write_u32(&worker->entry->waits_for_xid, blocker->xid);
}

void
waited_for_others(Worker *worker)
{
	static const Blocker nobody = {0};

	show_blocker(worker, &nobody);
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
 * Stragglers: transactions of this database that may have written their commit record
 * before now and are not over.  One is invisible to a snapshot taken now, and the
 * stream does not bring it (any more).
 */
void
stragglers_begin(Stragglers *stragglers)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);

	/* between writing the record and marking the xid committed in the commit log */
	memset(stragglers, 0, sizeof(*stragglers));
	stragglers->committing = GetVirtualXIDsDelayingChkpt(&stragglers->committing_count,
														 DELAY_CHKPT_START);
	MemoryContextSwitchTo(old);
}

void
stragglers_free(Stragglers *stragglers)
{
	if (stragglers->committing != NULL)
		pfree(stragglers->committing);
	if (stragglers->xids != NULL)
		pfree(stragglers->xids);
	memset(stragglers, 0, sizeof(*stragglers));
}

/* Of all that run now those whose record is written: one that begins later writes it later, too. */
static void
list_stragglers(Stragglers *stragglers)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);
	int			count;
	TransactionId *xids = running_transactions(&count);

	for (int i = 0; i < count; i++)
		if (TransactionIdDidCommit(xids[i]))
			xids[stragglers->xid_count++] = xids[i];
	stragglers->xids = xids;
	stragglers->listed = true;
	MemoryContextSwitchTo(old);
}

bool
stragglers_are_over(Stragglers *stragglers, Blocker *blocker)
{
	memset(blocker, 0, sizeof(*blocker));
	if (stragglers->committing_count > 0 &&
		HaveVirtualXIDsDelayingChkpt(stragglers->committing, stragglers->committing_count,
									 DELAY_CHKPT_START))
		return false;
	stragglers->committing_count = 0;
	if (!stragglers->listed)
		list_stragglers(stragglers);
	for (; stragglers->xid_count > 0; stragglers->xid_count--)
	{
		TransactionId xid = stragglers->xids[stragglers->xid_count - 1];
		int			pid;

		if (!TransactionIdIsInProgress(xid))
			continue;
		pid = BackendXidGetPid(xid);
		if (is_of_another_database(pid))
			continue;
		blocker->pid = pid;
		blocker->xid = pid == 0 ? xid : InvalidTransactionId;
		return false;
	}
	return true;
}

/*
 * Waits for them.  Called before the first chunk of the initial copy, and before rows
 * are read again.
 */
void
wait_for_stragglers(Worker *worker)
{
	Stragglers	stragglers;
	Blocker		blocker;
	long		pause = 0;

	stragglers_begin(&stragglers);
	while (!stragglers_are_over(&stragglers, &blocker))
		wait_for_other(worker, &blocker, &pause);
	stragglers_free(&stragglers);
	waited_for_others(worker);
}

/* Somebody who holds a lock that conflicts with reading. */
Blocker
lock_holder(Oid relid)
{
	Blocker		blocker = {0};
	bool		more;
	VirtualTransactionId *holders;
	LOCKTAG		tag;
	PGPROC	   *proc = NULL;
	int			count;

	SET_LOCKTAG_RELATION(tag, MyDatabaseId, relid);
	holders = GetLockConflicts(&tag, AccessShareLock, &count);
	/* a prepared transaction keeps the number of the session that prepared it */
	if (count > 0)
		blocker.xid = TwoPhaseGetXidByVirtualXID(holders[0], &more);
	if (count > 0 && !TransactionIdIsValid(blocker.xid))
	{
#if PG_VERSION_NUM >= 170000
		if (holders[0].procNumber != INVALID_PROC_NUMBER)
			proc = ProcNumberGetProc(holders[0].procNumber);
#else
		if (holders[0].backendId != InvalidBackendId)
			proc = BackendIdGetProc(holders[0].backendId);
#endif
	}
	pfree(holders);
	if (proc != NULL)
		blocker.pid = proc->pid;
	return blocker;
}

/*
 * Begins a transaction in which the relation is open and no snapshot has been taken
 * yet; NULL: it is gone.  The lock comes before the snapshot: who held it may have
 * written the whole table anew, of which an older snapshot sees no row.
 */
Relation
begin_reading(Worker *worker, Oid relid)
{
	long		pause = 0;

	for (;;)
	{
		Blocker		blocker;

		StartTransactionCommand();
		if (ConditionalLockRelationOid(relid, AccessShareLock))
			break;
		blocker = lock_holder(relid);
		CommitTransactionCommand();
		wait_for_other(worker, &blocker, &pause);
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

/* A message in the WAL, which belongs to no transaction; its end. */
XLogRecPtr
write_message(const char *text)
{
#if PG_VERSION_NUM >= 170000
	return LogLogicalMessage(FENCE_PREFIX, text, strlen(text), false, false);
#else
	return LogLogicalMessage(FENCE_PREFIX, text, strlen(text), false);
#endif
}

/*
 * WAL position that the next rows must not be visible before; flushed, so that
 * no row of a commit that a crash, or a failover, would undo is ever sent.
 */
XLogRecPtr
write_fence(Worker *worker, const char *text)
{
	XLogRecPtr	fence = write_message(text);

	XLogFlush(fence);
	slot_wait_for_standbys(worker, fence);
	return fence;
}

void
show_copy_progress(Worker *worker, const SourceTableDoc *doc, int done, int total)
{
	WorkerEntry *entry = worker->entry;

	LWLockAcquire(&worker->shared->lock, LW_EXCLUSIVE);
	snprintf(entry->copy_table, sizeof(entry->copy_table), "%s.%s", doc->schema, doc->name);
	entry->tables_done = done;
	entry->tables_total = total;
	entry->copy_rows_done = doc->rows_copied;
	entry->copy_rows_estimated = doc->rows_estimated;
	LWLockRelease(&worker->shared->lock);
}

/* Progress that belongs to another file is void. */
bool
chunk_check_file(SourceTableDoc *progress, Relation relation)
{
	if (progress->relfilenode == relation->rd_rel->relfilenode)
		return false;
	progress->relfilenode = relation->rd_rel->relfilenode;
	progress->next_tid = 0;
	progress->rows_copied = 0;
	progress->rows_estimated = relation->rd_rel->reltuples < 0 ? -1 :
		(int64_t) relation->rd_rel->reltuples;
	return true;
}

bool
scan_chunk(Worker *worker, RowChangeKind kind, SourceTableDoc *progress, Relation relation,
		   RelationEntry *entry, Size limit, ChunkFilter skip)
{
	TableScanDesc scan;
	TupleTableSlot *slot = table_slot_create(relation, NULL);
	ItemPointerData first;
	ItemPointerData last;
	Size		before = arena_used(worker->batch->arena);	/* whole blocks: never none */
	bool		more = false;

	tid_decode(progress->next_tid, &first);
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
		if (skip == NULL || !skip(tuple))
		{
			if (entry->row_type.identity_count == 0)
				key = source_key_of_place(worker, progress->relfilenode,
										  tid_encode(&slot->tts_tid));
			row_change_add(worker, entry, kind, NULL, tuple, RelationGetDescr(relation), &key);
			progress->rows_copied++;
		}
		if (should_free)
			heap_freetuple(tuple);
		MemoryContextSwitchTo(old);
		MemoryContextReset(worker->change_context);

		progress->next_tid = tid_encode(&slot->tts_tid) + 1;
		if (arena_used(worker->batch->arena) - before >= limit)
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
 * A process that decodes does not hold back VACUUM.  While it reads an ordinary
 * table under a snapshot it has to.
 */
void
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

