/*-------------------------------------------------------------------------
 *
 * stream.c
 *	  The worker's main loop: WAL record -> decoding -> batches -> writer, and
 *	  what has to happen when nothing happens.
 *
 * Woken by commits (hooks.c sets the latch of an idle worker), by the storage
 * thread, and when something is due by itself.  It looks again and again only for
 * the flush of what is known to be written: nobody tells of that.
 *
 * Invariant: what is submitted is in WAL order, and a position is submitted
 * only when everything before it has been.
 *
 *-------------------------------------------------------------------------
 */
#include "worker.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "access/xlog_internal.h"
#include "access/xlogreader.h"
#include "access/xlogutils.h"
#include "miscadmin.h"
#include "replication/decode.h"
#include "replication/slot.h"
#include "storage/proc.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

/* while WAL moves, the position is stored at least this often */
#define KEEPALIVE_INTERVAL_MS	4000
/* longest sleep: WAL that no commit ends (of a checkpoint, say) is found by it */
#define IDLE_MS					4000
/* ... and of transactions that end while the slot is made, on which nobody commits anything */
#define SLOT_WAIT_MS			1000
/* what is known to be written and not flushed yet is looked for this often at first, and at last */
#define UNFLUSHED_FIRST_MS		10
#define UNFLUSHED_LAST_MS		1000
/* records between two looks at the storage thread and at interrupts */
#define RECORDS_PER_LOOK		256

/*
 * Stores the position reached, without any change: so that unrelated WAL does
 * not pile up, and that write checkpoints are acknowledged.
 */
static void
submit_keepalive(Worker *worker)
{
	XLogRecPtr	reached = worker->decoding->reader->EndRecPtr;

	write_batch_add(worker_batch(worker), WRITE_KEEPALIVE, reached)->incomplete = worker->copies_due;
	worker->submitted_lsn = reached;
	worker->submitted_time = GetCurrentTimestamp();
	worker_submit(worker);
}

/*
 * A stream that is not served yet stores every position: its first checkpoint
 * activates it.  Somebody in pgsync_wait_for_lsn() is not kept waiting either.
 */
static bool
keepalive_due(Worker *worker)
{
	XLogRecPtr	reached = worker->decoding->reader->EndRecPtr;
	uint64		awaited = pg_atomic_read_u64(&worker->entry->awaited_lsn);

	if (reached <= worker->submitted_lsn)
		return false;
	return !worker->was_active || (awaited > worker->submitted_lsn && awaited <= reached) ||
		TimestampDifferenceExceeds(worker->submitted_time, GetCurrentTimestamp(),
								   KEEPALIVE_INTERVAL_MS);
}

/*
 * What is to be done from time to time, whether WAL comes or not: never in a
 * callback, and between two records.
 */
static void
serve(Worker *worker)
{
	Assert(!IsTransactionState() && !HistoricSnapshotActive());

	worker_collect(worker);
	worker_check_interrupts(worker);
	worker_watch_streams(worker);
	slot_confirm(worker, false);
	reread_rows(worker);
	recopy_step(worker);
	if (keepalive_due(worker))
		submit_keepalive(worker);
	worker_submit(worker);
}

/* Milliseconds until serve() has something to do by itself. */
static long
time_to_serve(Worker *worker)
{
	TimestampTz now = GetCurrentTimestamp();
	TimestampTz due = TimestampTzPlusMilliseconds(now, IDLE_MS);

	due = Min(due, worker_watch_due(worker));
	due = Min(due, slot_confirm_due(worker));
	due = Min(due, recopy_due(worker));
	if (worker->decoding->reader->EndRecPtr > worker->submitted_lsn)
		due = Min(due, TimestampTzPlusMilliseconds(worker->submitted_time, KEEPALIVE_INTERVAL_MS));
	return TimestampDifferenceMilliseconds(now, due);
}

/*
 * The end of what has been written into WAL, flushed or not.  At the start of a page
 * the server counts the page's header in, to which nothing can be flushed yet.
 */
static XLogRecPtr
written_end(void)
{
	XLogRecPtr	end = GetXLogInsertRecPtr();
	uint32		offset = end % XLOG_BLCKSZ;
	bool		first_page = XLogSegmentOffset(end, wal_segment_size) < XLOG_BLCKSZ;

	return offset == (first_page ? SizeOfXLogLongPHD : SizeOfXLogShortPHD) ? end - offset : end;
}

/*
 * How long to sleep at most while something that is known to be written is not
 * flushed: an asynchronous commit (of which hooks.c tells; "pgsync.flush_asynchronous_commits"
 * has it flushed here, and 0 is returned), or known, what the caller is waiting for.
 * The WAL writer flushes without telling us.  As long as anything moves it is about to;
 * then we look less and less often, so that it is seen late by a third at most.
 */
static long
limit_while_unflushed(Worker *worker, XLogRecPtr known, long timeout)
{
	static XLogRecPtr last_known = InvalidXLogRecPtr;
	static XLogRecPtr last_flushed = InvalidXLogRecPtr;
	static TimestampTz since = 0;
	XLogRecPtr	commit = pg_atomic_read_u64(&worker->entry->wanted_lsn);
	XLogRecPtr	flushed = GetFlushRecPtr(NULL);
	TimestampTz now;
	long		pause;

	if (commit > flushed && *worker->preloaded->settings.flush_asynchronous_commits)
	{
		XLogFlush(commit);
		return 0;
	}
	known = Max(known, commit);
	if (known <= flushed)
		return timeout;
	now = GetCurrentTimestamp();
	if (known != last_known || flushed != last_flushed)
	{
		last_known = known;
		last_flushed = flushed;
		since = now;
	}
	pause = TimestampDifferenceMilliseconds(since, now) / 2;
	pause = Min(Max(pause, UNFLUSHED_FIRST_MS), UNFLUSHED_LAST_MS);
	return Min(timeout, pause);
}

/*
 * Sleeps once, unless WAL is flushed up to there.  known: as above.  The idle flag is
 * raised before the last look: a commit after that look finds the flag.
 */
static void
sleep_until_flushed(Worker *worker, XLogRecPtr until, XLogRecPtr known, long timeout)
{
	WorkerEntry *entry = worker->entry;
	uint64		wanted = pg_atomic_read_u64(&entry->wanted_lsn);

	timeout = limit_while_unflushed(worker, known, timeout);
	pg_atomic_write_u32(&entry->idle, 1);
	pg_memory_barrier();
	if (GetFlushRecPtr(NULL) < until && pg_atomic_read_u64(&entry->wanted_lsn) == wanted)
	{
		(void) storage_link_wait(worker->storage, timeout);
		pg_atomic_fetch_add_u64(&entry->wakeups, 1);
	}
	pg_atomic_write_u32(&entry->idle, 0);
}

/*
 * Reads a page of WAL, waiting until what is asked for is flushed: the flush
 * position may lie inside a record for as long as nobody commits.  The server's
 * own function would poll every millisecond.  Never called inside a callback.
 *
 * Where the record lies that is being read, reader->EndRecPtr is still the end of
 * the one that was processed last: so what serve() stores of it is right here, too.
 */
int
read_flushed_page(XLogReaderState *reader, XLogRecPtr page, int length, XLogRecPtr target,
				  char *buffer)
{
	Worker	   *worker = MyWorker;
	XLogRecPtr	until = page + length;

	while (GetFlushRecPtr(NULL) < until)
	{
		XLogRecPtr	end = written_end();
		long		timeout = SLOT_WAIT_MS;

		if (worker->decoding != NULL)
		{
			MemoryContext old = CurrentMemoryContext;

			serve(worker);
			MemoryContextSwitchTo(old);
			timeout = time_to_serve(worker);
		}
		else if (end > GetFlushRecPtr(NULL))
		{
			/* making the slot: it is our own record, of running transactions, that is read next */
			XLogFlush(end);
			continue;
		}
		sleep_until_flushed(worker, until, until <= end ? until : InvalidXLogRecPtr, timeout);
	}
	return read_local_xlog_page(reader, page, length, target, buffer);
}

static void
start_decoding(Worker *worker)
{
	/* from ordinary catalog access to decoding: stale entries crash (trap T2) */
	InvalidateSystemCaches();
	relation_cache_invalidate_all();

	worker->decoding =
		CreateDecodingContext(worker->stored_lsn, NIL, false,
							  XL_ROUTINE(.page_read = read_flushed_page,
										 .segment_open = wal_segment_open,
										 .segment_close = wal_segment_close),
							  NULL, NULL, NULL);
	XLogBeginRead(worker->decoding->reader, MyReplicationSlot->data.restart_lsn);
	worker->submitted_lsn = worker->stored_lsn;
	worker->submitted_time = GetCurrentTimestamp();
	source_tables_changed(worker);
}

/*
 * Decodes what is flushed, up to the given position.
 */
static void
decode_until(Worker *worker, XLogRecPtr limit)
{
	XLogReaderState *reader = worker->decoding->reader;
	int			records = 0;

	while (reader->EndRecPtr < limit)
	{
		char	   *error = NULL;
		XLogRecord *record = XLogReadRecord(reader, &error);

		if (error != NULL)
			ereport(ERROR,
					(errcode_for_file_access(),
					 errmsg("could not read WAL at %X/%X: %s",
							LSN_FORMAT_ARGS(reader->EndRecPtr), error)));
		if (record != NULL)
		{
			slot_wait_for_standbys(worker, reader->EndRecPtr);
			LogicalDecodingProcessRecord(worker->decoding, reader);
		}
		pg_atomic_write_u64(&worker->entry->decoded_lsn, reader->EndRecPtr);

		if (worker->ping)
		{
			worker->ping = false;
			submit_keepalive(worker);
		}
		if (++records % RECORDS_PER_LOOK == 0)
		{
			reread_rows(worker);
			worker_collect(worker);
			worker_check_interrupts(worker);
		}
	}
}

static void
note_caught_up(Worker *worker)
{
	if (worker->stored_lsn >= worker->decoding->reader->EndRecPtr ||
		(worker->submitted_lsn <= worker->stored_lsn && writer_idle(worker->storage->thread)))
		pg_atomic_write_u64(&worker->entry->caught_up_time, GetCurrentTimestamp());
}

void
stream_changes(Worker *worker)
{
	if (worker->stream->state == STREAM_ACTIVE)
		worker_set_phase(worker, PHASE_STREAMING);
	else
		worker_set_phase(worker, PHASE_CATCHING_UP);
	start_decoding(worker);

	/*
	 * A stream whose copy is complete gets its first checkpoint from the first
	 * position at or after the fence; the fence's own message is such WAL.
	 */
	for (;;)
	{
		decode_until(worker, GetFlushRecPtr(NULL));
		serve(worker);
		MemoryContextReset(worker->change_context);
		if (GetFlushRecPtr(NULL) <= worker->decoding->reader->EndRecPtr)
		{
			note_caught_up(worker);
			sleep_until_flushed(worker, worker->decoding->reader->EndRecPtr + 1,
								InvalidXLogRecPtr, time_to_serve(worker));
		}
	}
}
