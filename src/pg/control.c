/*-------------------------------------------------------------------------
 *
 * control.c
 *	  SQL functions that start and stop replication of the current database,
 *	  and wait for it.
 *
 * Starting and stopping change the database's label (label.c); the launcher
 * acts when the transaction commits.  Slots are never dropped here: that
 * could not be rolled back.
 *
 *-------------------------------------------------------------------------
 */
#include "preload.h"

#include <limits.h>

#include "access/xact.h"
#include "access/xlog.h"
#include "access/xlog_internal.h"
#include "catalog/pg_database.h"
#include "commands/dbcommands.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/bgworker_internals.h"
#include "replication/slot.h"
#include "storage/lmgr.h"
#include "storage/proc.h"
#include "tcop/utility.h"
#include "utils/backend_status.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/pg_lsn.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

/* between looks at the label while waiting for a position, in ms */
#define WAIT_LOOK_MS	1000

PGSYNC_FUNCTION(pgsync_check_preloaded);
PGSYNC_FUNCTION(pgsync_start);
PGSYNC_FUNCTION(pgsync_stop);
PGSYNC_FUNCTION(pgsync_wait_for_lsn);

/* ---------------------------------------------------------------- what starting needs */

static void
check_server(void)
{
	if (RecoveryInProgress())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("recovery is in progress"),
				 errhint("pgsync replicates from a primary server only.")));
	if (wal_level < WAL_LEVEL_LOGICAL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("replication needs wal_level \"logical\""),
				 errdetail("The write-ahead log does not hold what logical decoding needs."),
				 errhint("Set wal_level to \"logical\" and restart the server.")));
}

/* What a worker would end with at once. */
static void
check_target(const PgsyncSettings *settings)
{
	char	   *uri;

	check_encoding();
	uri = target_uri(settings);
	explicit_bzero(uri, strlen(uri));
	pfree(uri);
	pfree(target_database(settings));
}

/* Also when another replicator's slots fill the server: ours could not be made. */
static void
check_slots(void)
{
	int			used;
	int			own;

	pfree(own_slots(MyDatabaseId, &own, &used));
	if (used >= max_replication_slots && own == 0)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("no free replication slot"),
				 errdetail("All %d replication slots are in use.", max_replication_slots),
				 errhint("Drop a slot that is no longer needed, or raise max_replication_slots and restart the server.")));
}

static void
check_entries(PgsyncShared *shared)
{
	bool		found = false;

	LWLockAcquire(&shared->lock, LW_SHARED);
	for (int i = 0; i < shared->max_workers && !found; i++)
		found = !shared->workers[i].in_use || shared->workers[i].database == MyDatabaseId;
	LWLockRelease(&shared->lock);

	if (!found)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("no free pgsync worker"),
				 errdetail("All %d workers replicate other databases.", shared->max_workers),
				 errhint("Raise pgsync.max_workers and restart the server.")));
}

/*
 * The server does not tell how many of its background worker slots are free.
 * Those that live and are not parallel workers, which end soon, are counted.
 */
static void
check_processes(void)
{
	int			backends = pgstat_fetch_stat_numbackends();
	int			count = 0;

	for (int i = 1; i <= backends; i++)
	{
		LocalPgBackendStatus *local;
		const char *type;

#if PG_VERSION_NUM >= 160000
		local = pgstat_get_local_beentry_by_index(i);
#else
		local = pgstat_fetch_stat_local_beentry(i);
#endif
		if (local == NULL || local->backendStatus.st_backendType != B_BG_WORKER)
			continue;
		type = GetBackgroundWorkerTypeByPid(local->backendStatus.st_procpid);
		if (type != NULL && strcmp(type, "parallel worker") != 0)
			count++;
	}
	if (count >= max_worker_processes)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("no free background worker process"),
				 errdetail("All %d background worker processes are in use.", max_worker_processes),
				 errhint("Raise max_worker_processes and restart the server.")));
}

/* CREATE EXTENSION calls it: an error would keep a dump from being restored. */
Datum
pgsync_check_preloaded(PG_FUNCTION_ARGS)
{
	if (Preloaded.shared != NULL)
		PG_RETURN_VOID();
	ereport(WARNING,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("pgsync is not preloaded"),
			 errdetail("Its background workers and shared memory are set up when the server starts."),
			 errhint("Add \"%s\" to shared_preload_libraries and restart the server.",
					 PGSYNC_LIBRARY)));
	if (database_switch_get() == DATABASE_ON)
		ereport(WARNING,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("replication of this database is switched on"),
				 errdetail("It begins when the server is started with pgsync preloaded."),
				 errhint("If it is not wanted, call pgsync_stop() then.")));
	PG_RETURN_VOID();
}

/* As SECURITY LABEL does: two sessions must not change the label at once. */
static DatabaseSwitch
lock_switch(void)
{
	LockSharedObject(DatabaseRelationId, MyDatabaseId, 0, ShareUpdateExclusiveLock);
	return database_switch_get();
}

/* Is there something that has failed or stopped, and that trying again can mend? */
static bool
has_failed(PgsyncShared *shared)
{
	bool		found = false;

	LWLockAcquire(&shared->lock, LW_SHARED);
	for (int i = 0; i < shared->max_workers && !found; i++)
	{
		WorkerEntry *entry = &shared->workers[i];

		found = entry->in_use && entry->database == MyDatabaseId && !entry->launched &&
			(entry->phase == PHASE_BACKING_OFF || worker_phase_is_settled(entry->phase));
	}
	LWLockRelease(&shared->lock);
	return found;
}

/*
 * pgsync_start() returns text: 'started' or 'already started'; in the second
 * case what has failed or stopped is tried again at once.
 */
Datum
pgsync_start(PG_FUNCTION_ARGS)
{
	PgsyncPreloaded *preloaded = pgsync_preloaded();
	DatabaseSwitch state;

	check_server();
	PreventCommandIfReadOnly("pgsync_start()");
	check_target(&preloaded->settings);
	state = lock_switch();
	if (state != DATABASE_ON)
	{
		check_slots();
		check_entries(preloaded->shared);
		check_processes();
		database_switch_set(MyDatabaseId, DATABASE_ON);
	}
	recheck_at_commit(MyDatabaseId);
	PG_RETURN_TEXT_P(cstring_to_text(state != DATABASE_ON ? "started" :
									 has_failed(preloaded->shared) ?
									 "already started; trying again now" : "already started"));
}

/* ---------------------------------------------------------------- stop */

/* "a" 16 MB, "b" 2 MB: our slots of this database, and what they keep */
static int
describe_slots(StringInfo list)
{
	XLogRecPtr	end = GetXLogInsertRecPtr();
	int			count;
	OwnSlot    *slots = own_slots(MyDatabaseId, &count, NULL);

	for (int i = 0; i < count; i++)
	{
		XLogRecPtr	restart = slots[i].restart_lsn;
		int64		kept = XLogRecPtrIsInvalid(restart) || restart > end ? 0 : end - restart;

		appendStringInfo(list, "%s\"%s\" %s", i > 0 ? ", " : "", NameStr(slots[i].name),
						 TextDatumGetCString(DirectFunctionCall1(pg_size_pretty,
																 Int64GetDatum(kept))));
	}
	return count;
}

/*
 * pgsync_stop(drop_slot boolean) returns text: what becomes of the slots.
 * drop_slot removes the label, and with the commit the slots.
 */
Datum
pgsync_stop(PG_FUNCTION_ARGS)
{
	bool		drop_slot = PG_GETARG_BOOL(0);
	DatabaseSwitch state;
	StringInfoData slots;
	int			count;

	const char *done;

	(void) pgsync_preloaded();
	if (RecoveryInProgress())
		check_server();
	PreventCommandIfReadOnly("pgsync_stop()");
	state = lock_switch();
	if (state == DATABASE_NONE)
		PG_RETURN_TEXT_P(cstring_to_text("not started"));

	if (state == DATABASE_OFF && !drop_slot)
		done = "already stopped";
	else
	{
		database_switch_set(MyDatabaseId, drop_slot ? DATABASE_NONE : DATABASE_OFF);
		stop_at_commit(MyDatabaseId);
		done = IsTransactionBlock() ? "to be stopped when this transaction commits" : "stopped";
	}

	initStringInfo(&slots);
	count = describe_slots(&slots);
	if (count == 0)
		PG_RETURN_TEXT_P(cstring_to_text(psprintf("%s; there is no replication slot", done)));
	PG_RETURN_TEXT_P(cstring_to_text(psprintf("%s; %s: %s", done,
											  drop_slot ? "replication slots to be dropped, and the WAL kept for them" :
											  "WAL kept for replication slots until replication goes on",
											  slots.data)));
}

/* ---------------------------------------------------------------- wait */

/*
 * As the end of the log, a position just behind a page's header is the same as
 * the page's beginning; the server gives out both.
 */
static XLogRecPtr
log_end(XLogRecPtr lsn)
{
	if (XLogSegmentOffset(lsn, wal_segment_size) == SizeOfXLogLongPHD)
		return lsn - SizeOfXLogLongPHD;
	if (XLogSegmentOffset(lsn, wal_segment_size) >= XLOG_BLCKSZ &&
		lsn % XLOG_BLCKSZ == SizeOfXLogShortPHD)
		return lsn - SizeOfXLogShortPHD;
	return lsn;
}

static int64
interval_to_ms(const Interval *interval)
{
	double		ms = interval->time / 1000.0 +
		(interval->day + interval->month * (double) DAYS_PER_MONTH) * SECS_PER_DAY * 1000.0;

	return ms <= 0 ? 0 : ms >= INT_MAX ? INT_MAX : (int64) ms;
}

/* Asks the worker for a checkpoint at lsn, also if there is no commit to store. */
static void
await_position(WorkerEntry *entry, XLogRecPtr lsn)
{
	uint64		awaited = pg_atomic_read_u64(&entry->awaited_lsn);
	uint32		expected = 1;

	if (awaited >= lsn)
		return;
	while (awaited < lsn &&
		   !pg_atomic_compare_exchange_u64(&entry->awaited_lsn, &awaited, lsn))
		;
	if (pg_atomic_compare_exchange_u32(&entry->idle, &expected, 0))
		SetLatch(&GetPGProcByNumber(entry->pgprocno)->procLatch);
}

typedef enum WaitResult
{
	WAIT_ON,
	WAIT_COVERED,
	WAIT_USELESS				/* every worker has stopped for good */
} WaitResult;

static WaitResult
look_at_streams(PgsyncShared *shared, XLogRecPtr lsn)
{
	WaitResult	result = WAIT_ON;
	int			going = 0;
	int			ended = 0;

	LWLockAcquire(&shared->lock, LW_SHARED);
	for (int i = 0; i < shared->max_workers && result != WAIT_COVERED; i++)
	{
		WorkerEntry *entry = &shared->workers[i];

		if (!entry->in_use || entry->database != MyDatabaseId)
			continue;
		if (entry->phase == PHASE_STOPPED || entry->phase == PHASE_HISTORY_CHANGED)
		{
			ended++;
			continue;
		}
		going++;
		if ((entry->phase == PHASE_STREAMING || strcmp(entry->storage_state, "ACTIVE") == 0) &&
			pg_atomic_read_u64(&entry->checkpoint_lsn) >= lsn)
			result = WAIT_COVERED;
		else if (entry->pid != 0)
			await_position(entry, lsn);
	}
	LWLockRelease(&shared->lock);

	if (result == WAIT_ON && going == 0 && ended > 0)
		result = WAIT_USELESS;
	return result;
}

static bool
wait_until_covered(PgsyncShared *shared, XLogRecPtr lsn, int64 timeout_ms)
{
	TimestampTz end = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), timeout_ms);

	ConditionVariablePrepareToSleep(&shared->progress);
	for (;;)
	{
		WaitResult	result = look_at_streams(shared, lsn);
		long		left;

		if (result == WAIT_COVERED)
		{
			ConditionVariableCancelSleep();
			return true;
		}
		if (database_switch_get() != DATABASE_ON)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("replication of this database is not started"),
					 errhint("Call pgsync_start().")));
		if (result == WAIT_USELESS)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("replication of this database has stopped"),
					 errhint("pgsync_status() shows why.")));

		left = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), end);
		if (left <= 0)
		{
			ConditionVariableCancelSleep();
			return false;
		}
		(void) ConditionVariableTimedSleep(&shared->progress, Min(left, WAIT_LOOK_MS),
										   PG_WAIT_EXTENSION);
	}
}

/*
 * pgsync_wait_for_lsn(lsn pg_lsn, timeout interval) returns boolean: true when
 * a checkpoint of the served stream covers lsn, false after the timeout.
 * lsn null: everything written until now.
 */
Datum
pgsync_wait_for_lsn(PG_FUNCTION_ARGS)
{
	PgsyncPreloaded *preloaded = pgsync_preloaded();
	XLogRecPtr	end;
	XLogRecPtr	lsn;

	if (PG_ARGISNULL(1))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("timeout must not be null")));
	check_server();

	end = log_end(GetXLogInsertRecPtr());
	lsn = PG_ARGISNULL(0) ? end : log_end(PG_GETARG_LSN(0));

	/* what is not flushed is not decoded: an asynchronous commit, for example */
	XLogFlush(Min(lsn, end));
	PG_RETURN_BOOL(wait_until_covered(preloaded->shared, lsn,
									  interval_to_ms(PG_GETARG_INTERVAL_P(1))));
}
