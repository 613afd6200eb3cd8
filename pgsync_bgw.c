/*-------------------------------------------------------------------------
 *
 * pgsync_bgw.c
 *	  Entry points of pgsync's background workers: the way of a row.
 *
 *		slot        src/pg/slot.c       a logical slot of our own
 *		decode      src/pg/decode.c     output plugin callbacks
 *		row values  src/pg/rowvalue.c   Datum -> SQLite value
 *		rules       src/core/           which buckets and lookups the row is in
 *		bucket ops  src/core/           PUT, REMOVE, parameter entries
 *		documents   src/mongo/          BSON of the storage version
 *		writer      src/mongo/          flush transactions, checkpoints (thread)
 *		confirm     src/pg/slot.c       WAL up to here is not needed any more
 *
 * The launcher (src/pg/launcher.c, in the preloaded library) starts one worker
 * per replication stream.  A worker that fails ends; the launcher starts it
 * again, and everything it needs is read anew from the storage and the slot.
 *
 * Invariants: the main thread alone calls functions of the server; it never
 * blocks on the network; an error ends this process and never the cluster.
 *
 *-------------------------------------------------------------------------
 */
#include "worker.h"

#include <unistd.h>

#include "access/xact.h"
#include "commands/extension.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "replication/slot.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "storage/procsignal.h"
#include "tcop/tcopprot.h"
#include "utils/elog.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

PGSYNC_MODULE_MAGIC;

extern PGSYNC_EXPORT void pgsync_worker_main(Datum main_arg);

/* a batch is handed over when it has this size, in bytes */
#define BATCH_BYTES			((size_t) 256 * 1024)

#define ROW_LOG_INTERVAL_MS	10000

/* before decoding is tried again that failed within the server */
#define SERVER_ERROR_DELAY_MS	30000

/* how long a clean stop waits for what is queued ... */
#define STOP_WAIT_MS		2000
/* ... then for the stream's lock to be given back ... */
#define RELEASE_WAIT_MS		1000
/* ... and every end for the flush that is under way: a transaction that is left
 * open on the server would block all writers for a minute */
#define DRAIN_WAIT_MS		1000

Worker	   *MyWorker = NULL;

/* ---------------------------------------------------------------- state shown to others */

void
worker_set_phase(Worker *worker, WorkerPhase phase)
{
	worker_entry_set_phase(worker->shared, worker->entry, phase);
	pgstat_report_activity(STATE_RUNNING, worker_phase_name(phase));
}

void
worker_show_warnings(Worker *worker)
{
	char		text[PGSYNC_HINT_LEN] = "";
	const KnownTable *due = NULL;
	const KnownTable *ignored = NULL;
	const KnownTable *no_identity = NULL;
	int			due_count = 0;
	int			ignored_count = 0;
	int			no_identity_count = 0;
	int			used = 0;
	ListCell   *cell;

	foreach(cell, worker->tables)
	{
		KnownTable *known = lfirst(cell);

		if (known->dropped || known->doc.replaced)
			continue;
		if (known->doc.stale && due_count++ == 0)
			due = known;
		if (known->doc.ignored_changes && ignored_count++ == 0)
			ignored = known;
		if (known->doc.identity_count == 0 && no_identity_count++ == 0)
			no_identity = known;
	}
	if (due_count == 1)
		used += snprintf(text + used, sizeof(text) - used, "Table \"%s\" is being copied again%s%s.",
						 due->doc.name, due->reason != NULL ? ": " : "",
						 due->reason != NULL ? due->reason : "");
	else if (due_count > 1)
		used += snprintf(text + used, sizeof(text) - used,
						 "%d tables (\"%s\" and others) are being copied again.", due_count,
						 due->doc.name);
	if (ignored_count > 0 && used < (int) sizeof(text))
		used += ignored_count == 1 ?
			snprintf(text + used, sizeof(text) - used,
					 "%sUpdates and deletes of table \"%s\", which has no replica identity, do not reach the buckets.",
					 used > 0 ? " " : "", ignored->doc.name) :
			snprintf(text + used, sizeof(text) - used,
					 "%sUpdates and deletes of %d tables (\"%s\" and others), which have no replica identity, do not reach the buckets.",
					 used > 0 ? " " : "", ignored_count, ignored->doc.name);
	else if (no_identity_count > 0 && used < (int) sizeof(text))
		used += no_identity_count == 1 ?
			snprintf(text + used, sizeof(text) - used,
					 "%sTable \"%s\" has no replica identity: only inserts are replicated.",
					 used > 0 ? " " : "", no_identity->doc.name) :
			snprintf(text + used, sizeof(text) - used,
					 "%s%d tables (\"%s\" and others) have no replica identity: only inserts are replicated.",
					 used > 0 ? " " : "", no_identity_count, no_identity->doc.name);
	if (worker->publication.missing && used < (int) sizeof(text))
		snprintf(text + used, sizeof(text) - used,
				 "%sThe publication of \"pgsync.publication\" does not exist: every table that the rules name is replicated.",
				 used > 0 ? " " : "");

	LWLockAcquire(&worker->shared->lock, LW_EXCLUSIVE);
	strlcpy(worker->entry->warning, text, sizeof(worker->entry->warning));
	LWLockRelease(&worker->shared->lock);
}

/* ---------------------------------------------------------------- process */

/*
 * Runs last: skips the exit handlers of libraries, which would race with the
 * storage thread if that is still alive (in-server-decoding.md, section 3).
 */
static void
leave_without_handlers(int code, Datum arg)
{
	_exit(code);
}

static void
on_worker_exit(int code, Datum arg)
{
	Worker	   *worker = MyWorker;

	if (worker == NULL)
		return;
	if (worker->storage != NULL && worker->storage->thread != NULL)
	{
		(void) mongo_thread_drain(worker->storage->thread, DRAIN_WAIT_MS);
		storage_link_close(worker->storage, 0);
	}
	turn_forget(worker->shared->turn, worker->index);
	worker_detach(worker->shared, worker->entry);
}

static bool
exit_is_wanted(Worker *worker)
{
	bool		wanted;

	LWLockAcquire(&worker->shared->lock, LW_SHARED);
	wanted = worker->entry->exit_wanted;
	LWLockRelease(&worker->shared->lock);
	return wanted;
}

/*
 * After a stop that was asked for another replicator can begin at once.  Only a lock
 * that is still ours is given back; if that takes too long it ends by itself.
 */
static void
release_at_exit(int code, Datum arg)
{
	Worker	   *worker = MyWorker;
	TimestampTz begin = GetCurrentTimestamp();
	MongoJob   *job;

	if (worker == NULL || worker->stream == NULL || worker->storage == NULL ||
		worker->storage->thread == NULL || !exit_is_wanted(worker))
		return;
	job = mongo_submit(worker->storage->thread, storage_close_stream, NULL);
	while (job != NULL && !mongo_job_finished(job) &&
		   !TimestampDifferenceExceeds(begin, GetCurrentTimestamp(), RELEASE_WAIT_MS))
		(void) storage_link_wait(worker->storage, 100);
}

/* Apart from the others, and before them: it may fail, which ends only this callback. */
static void
confirm_at_exit(int code, Datum arg)
{
	if (MyWorker != NULL)
		slot_confirm(MyWorker, true);
}

/* Attaches to the entry that the launcher prepared; ends if it is gone. */
static Worker *
worker_create(Datum main_arg)
{
	PgsyncPreloaded *preloaded = pgsync_preloaded();
	Worker	   *worker = MemoryContextAllocZero(TopMemoryContext, sizeof(Worker));

	worker->preloaded = preloaded;
	worker->shared = preloaded->shared;
	worker->index = DatumGetInt32(main_arg);
	memcpy(&worker->generation, MyBgworkerEntry->bgw_extra, sizeof(worker->generation));
	worker->entry = worker_attach(worker->shared, worker->index, worker->generation);
	if (worker->entry == NULL)
		proc_exit(0);
	MyWorker = worker;
	before_shmem_exit(on_worker_exit, (Datum) 0);
	before_shmem_exit(release_at_exit, (Datum) 0);
	before_shmem_exit(confirm_at_exit, (Datum) 0);
	worker->change_context = AllocSetContextCreate(TopMemoryContext, "pgsync change",
												   ALLOCSET_DEFAULT_SIZES);
	return worker;
}

static void
raise_out_of_memory(void)
{
	ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory")));
}

/*
 * Ends the process with nothing more to do.  PHASE_NONE frees the entry; others
 * stay to be seen.
 */
void
worker_finish(Worker *worker, WorkerPhase phase)
{
	worker_entry_set_phase(worker->shared, worker->entry, phase);
	LWLockAcquire(&worker->shared->lock, LW_EXCLUSIVE);
	worker->entry->clean_exit = true;
	LWLockRelease(&worker->shared->lock);
	proc_exit(0);
}

/* ---------------------------------------------------------------- batches */

WriteBatch *
worker_batch(Worker *worker)
{
	if (worker->batch != NULL && !worker->in_chunk &&
		arena_used(worker->batch->arena) >= BATCH_BYTES)
		worker_submit(worker);
	if (worker->batch == NULL)
	{
		if (!worker->in_chunk)
			worker_wait_for_queue(worker);
		worker->batch = write_batch_create();
		if (worker->batch == NULL)
			raise_out_of_memory();
		arena_set_exhausted(worker->batch->arena, raise_out_of_memory);
	}
	return worker->batch;
}

void
worker_submit(Worker *worker)
{
	if (worker->batch == NULL)
		return;
	writer_submit(worker->storage->thread, worker->batch);
	worker->batch = NULL;
}

/*
 * Back-pressure.  In a decoding callback this waits inside decoding's own
 * transaction; positions are confirmed and status stays live meanwhile.
 */
void
worker_wait_for_queue(Worker *worker)
{
	while (writer_queue_full(worker->storage->thread))
	{
		(void) storage_link_wait(worker->storage, 1000);
		worker_collect(worker);
		slot_confirm(worker, false);
	}
}

/* Until everything submitted is durable.  Never in a transaction. */
void
worker_wait_until_stored(Worker *worker)
{
	while (!writer_idle(worker->storage->thread))
	{
		(void) storage_link_wait(worker->storage, 1000);
		worker_collect(worker);
	}
	worker_collect(worker);
}

/* ---------------------------------------------------------------- progress */

/* When which position was stored: one mark a second is enough for the slot. */
static void
remember_mark(Worker *worker, uint64_t lsn, TimestampTz now)
{
	StoredMark *last = worker->mark_count > 0 ? &worker->marks[worker->mark_count - 1] : NULL;

	if (last != NULL ? last->lsn == lsn :
		MyReplicationSlot != NULL && lsn <= MyReplicationSlot->data.confirmed_flush)
		return;
	if (last != NULL && !TimestampDifferenceExceeds(last->time, now, 1000) &&
		worker->mark_count > 1)
	{
		/* a later position under an earlier time would be confirmed too soon */
		last->lsn = lsn;
		last->time = now;
		return;
	}
	if (worker->mark_count == STORED_MARKS)
	{
		memmove(worker->marks, worker->marks + 1, sizeof(StoredMark) * (STORED_MARKS - 1));
		worker->mark_count--;
	}
	worker->marks[worker->mark_count++] = (StoredMark) {lsn, now};
}

static TimestampTz
timestamp_of_unix(int64 microseconds)
{
	return microseconds - (int64) (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY;
}

static void
became_active(Worker *worker)
{
	worker->was_active = true;
	LWLockAcquire(&worker->shared->lock, LW_EXCLUSIVE);
	strlcpy(worker->entry->storage_state, "ACTIVE", sizeof(worker->entry->storage_state));
	LWLockRelease(&worker->shared->lock);
	worker_set_phase(worker, PHASE_STREAMING);
	ereport(LOG,
			(errmsg("pgsync replication stream %d is active", worker->stream->id)));
}

/*
 * Rows that were left out and queries that failed on rows: exact counters in
 * status, and a line in the log at most every ROW_LOG_INTERVAL_MS.
 */
static void
log_row_errors(Worker *worker, const WriterProgress *progress, TimestampTz now)
{
	int64_t		count = progress->rejected_rows + progress->evaluation_errors;
	int64_t		more;

	if (count == worker->logged_row_errors ||
		!TimestampDifferenceExceeds(worker->last_row_log, now, ROW_LOG_INTERVAL_MS))
		return;
	more = count - worker->logged_row_errors;
	ereport(WARNING,
			(errmsg_plural("pgsync could not apply %lld row or query of replication stream %d",
						   "pgsync could not apply %lld rows or queries of replication stream %d",
						   (unsigned long) more, (long long) more, worker->stream->id),
			 errdetail("The last one: %s.", progress->last_row_error),
			 errhint("What was stored of such rows before was removed from the buckets.")));
	worker->logged_row_errors = count;
	worker->last_row_log = now;
}

void
worker_collect(Worker *worker)
{
	WorkerEntry *entry = worker->entry;
	WriterProgress progress;
	TimestampTz now;

	writer_progress(worker->storage->thread, &progress);
	if (progress.failed)
	{
		if (progress.error.kind == STORAGE_STREAM_GONE)
			worker_finish(worker, PHASE_NONE);	/* replaced: its cleaning is another turn */
		storage_error_report(&progress.error, mongo_thread_hosts(worker->storage->thread));
	}
	if (progress.waiting.kind != STORAGE_OK && !worker->storage_silent)
		worker_entry_set_error(worker->shared, worker->entry,
							   psprintf("the MongoDB server does not answer: %s",
										progress.waiting.message),
							   "Nothing is lost: replication goes on when the server does.", "08006");
	worker->storage_silent = progress.waiting.kind != STORAGE_OK;
	now = GetCurrentTimestamp();
	if (progress.stored_lsn > worker->stored_lsn)
		worker->stored_lsn = progress.stored_lsn;
	remember_mark(worker, worker->stored_lsn, now);
	worker->chunks_stored = progress.chunks_stored;
	if (progress.flushes != worker->last_flushes)
	{
		worker->last_flushes = progress.flushes;
		pg_atomic_write_u64(&entry->last_activity, now);
	}

	log_row_errors(worker, &progress, now);
	pg_atomic_write_u64(&entry->stored_lsn, worker->stored_lsn);
	pg_atomic_write_u64(&entry->transactions, progress.transactions);
	pg_atomic_write_u64(&entry->rows, progress.rows);
	pg_atomic_write_u64(&entry->ops, progress.ops);
	pg_atomic_write_u64(&entry->rejected_rows, progress.rejected_rows);
	pg_atomic_write_u64(&entry->rereads, progress.rereads);
	pg_atomic_write_u64(&entry->evaluation_errors, progress.evaluation_errors);
	if (progress.source_time_us != 0)
		pg_atomic_write_u64(&entry->source_time, timestamp_of_unix(progress.source_time_us));
	if (progress.checkpoint_lsn != STREAM_LSN_NONE &&
		progress.checkpoint_lsn != pg_atomic_read_u64(&entry->checkpoint_lsn))
	{
		pg_atomic_write_u64(&entry->checkpoint_op, progress.checkpoint_op);
		pg_atomic_write_u64(&entry->checkpoint_time,
							timestamp_of_unix(progress.checkpoint_time_us));
		pg_atomic_write_u64(&entry->checkpoint_lsn, progress.checkpoint_lsn);
		ConditionVariableBroadcast(&worker->shared->progress);
	}
	pg_atomic_write_u32(&entry->ahead_stream, (uint32) progress.ahead_stream);
	pg_atomic_write_u64(&entry->ahead_lsn, progress.ahead_lsn);
	if (progress.active && !worker->was_active)
		became_active(worker);
}

/* A stop that was asked for: what is being written may end, within limits. */
static void
stop_cleanly(Worker *worker)
{
	TimestampTz begin = GetCurrentTimestamp();

	HOLD_INTERRUPTS();			/* the stop comes with a SIGTERM */
	if (worker->batch != NULL && !worker->in_chunk && worker->decoding != NULL)
		worker_submit(worker);
	while (worker->stream != NULL && MyReplicationSlot != NULL &&
		   !writer_idle(worker->storage->thread) &&
		   !TimestampDifferenceExceeds(begin, GetCurrentTimestamp(), STOP_WAIT_MS))
	{
		WriterProgress progress;

		(void) storage_link_wait(worker->storage, 100);
		writer_progress(worker->storage->thread, &progress);
		if (progress.failed)
			break;
		worker->stored_lsn = Max(worker->stored_lsn, progress.stored_lsn);
	}
	slot_confirm(worker, true);
	worker_finish(worker, PHASE_NONE);
}

/*
 * Another publication acts like DDL that changes what is published: entries are made
 * anew, and tables are looked at when the next transaction ends.
 */
static void
reload_settings(Worker *worker)
{
	char	  **publication = worker->preloaded->settings.publication;
	char	   *before = *publication != NULL ? strdup(*publication) : NULL;
	const char *after;

	ProcessConfigFile(PGC_SIGHUP);
	after = *publication;
	if ((before == NULL) != (after == NULL) ||
		(before != NULL && strcmp(before, after) != 0))
	{
		relation_cache_invalidate_all();
		worker->tables_touched = true;
	}
	free(before);
}

/*
 * While the process ends, be it that its last writes are waited for or that it is in
 * its exit callbacks, it does no more than what all others wait for: DROP DATABASE
 * needs an answer from every process, whatever database it is in.
 */
void
worker_check_interrupts(Worker *worker)
{
	if (proc_exit_inprogress || InterruptHoldoffCount > 0)
	{
		if (ProcSignalBarrierPending)
			ProcessProcSignalBarrier();
		return;
	}
	/* without its lock: a look that comes too early is repeated */
	if (worker->entry->exit_wanted)
		stop_cleanly(worker);
	CHECK_FOR_INTERRUPTS();
	if (ConfigReloadPending)
	{
		ConfigReloadPending = false;
		reload_settings(worker);
	}
}

/* ---------------------------------------------------------------- steps */

/* The database must have the extension, and text that is UTF-8. */
static void
check_database(Worker *worker)
{
	bool		present;

	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	present = OidIsValid(get_extension_oid(PGSYNC_EXTENSION, true));
	worker->self = source_identity(&worker->preloaded->settings);
	if (present)
		check_encoding();
	PopActiveSnapshot();
	CommitTransactionCommand();
	if (!present)
	{
		ereport(WARNING,
				(errmsg("pgsync is switched on for a database that does not have the extension"),
				 errdetail("Database \"%s\" is idle until the extension is there.",
						   worker->self.database_name),
				 errhint("Run CREATE EXTENSION pgsync in it, or SECURITY LABEL FOR pgsync ON DATABASE ... IS NULL.")));
		worker_finish(worker, PHASE_NO_EXTENSION);
	}
}

static void
connect_storage(Worker *worker)
{
	StartTransactionCommand();
	worker->storage = storage_link_open(&worker->preloaded->settings);
	CommitTransactionCommand();
	storage_link_run(worker->storage, storage_prepare, NULL, 0);
}

static void
check_publication(Worker *worker)
{
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	worker->publication = publication_state(&worker->preloaded->settings);
	PopActiveSnapshot();
	CommitTransactionCommand();
	worker_show_warnings(worker);
}

static void
run(Worker *worker)
{
	check_database(worker);
	connect_storage(worker);
	worker_choose_stream(worker);
	worker_open_stream(worker);
	worker_compile_rules(worker);
	check_publication(worker);
	relation_cache_init(worker);
	slot_ensure(worker);
	if (!worker->stream->snapshot_done)
		copy_tables(worker);
	stream_changes(worker);
}

/*
 * Decoding of some minor releases collects invalidations without end, until they do not
 * fit into one piece of memory.  Whoever begins anew reads all of that WAL again.
 */
static void
explain_server_error(Worker *worker, ErrorData *error)
{
	if (worker->decoding == NULL || error->hint != NULL || error->message_id == NULL ||
		strcmp(error->message_id, "invalid memory alloc request size %zu") != 0)
		return;
	error->hint = "The server's logical decoding asked for more memory than it can have, which is a known fault of some minor releases: update PostgreSQL to the latest minor release.";
	LWLockAcquire(&worker->shared->lock, LW_EXCLUSIVE);
	worker->entry->least_delay = SERVER_ERROR_DELAY_MS;
	LWLockRelease(&worker->shared->lock);
}

/* Puts the error where status shows it; it is in the log already. */
static void
record_error(Worker *worker)
{
	ErrorData  *error;

	MemoryContextSwitchTo(TopMemoryContext);
	error = CopyErrorData();
	explain_server_error(worker, error);
	worker_entry_set_error(worker->shared, worker->entry,
						   error->detail != NULL ?
						   psprintf("%s: %s", error->message, error->detail) : error->message,
						   error->hint, unpack_sql_state(error->sqlerrcode));
}

void
pgsync_worker_main(Datum main_arg)
{
	Worker	   *worker;

	/* registered first, so it runs last */
	on_proc_exit(leave_without_handlers, (Datum) 0);

	pqsignal(SIGTERM, die);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGINT, SIG_IGN);	/* pg_cancel_backend() has nothing to cancel here */
	BackgroundWorkerUnblockSignals();

	worker = worker_create(main_arg);
	BackgroundWorkerInitializeConnectionByOid(worker->entry->database, InvalidOid, 0);
	row_conversion_settings();
	worker->scratch = arena_create(0);
	if (worker->scratch == NULL)
		raise_out_of_memory();
	arena_set_exhausted(worker->scratch, raise_out_of_memory);

	PG_TRY();
	{
		run(worker);
	}
	PG_CATCH();
	{
		HOLD_INTERRUPTS();
		EmitErrorReport();
		record_error(worker);
		/* decoding's transaction, locks, the slot: released on the way out */
		proc_exit(1);
	}
	PG_END_TRY();
	proc_exit(0);
}
