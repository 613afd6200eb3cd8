/*-------------------------------------------------------------------------
 *
 * launcher.c
 *	  The static background worker that starts, watches and ends all others.
 *
 * It reads the labels of all databases (label.c), keeps at least one worker
 * per database that is switched on, starts what was requested for further
 * streams, starts again what failed, each time later, and drops the slots of
 * databases whose label is gone.  It decodes nothing and connects to no
 * database.
 *
 * Invariant: only the launcher starts workers and frees entries, so an entry
 * that it sees as not launched has no process.
 *
 *-------------------------------------------------------------------------
 */
#include "preload.h"

#include <errno.h>
#include <signal.h>

#include "access/xact.h"
#include "miscadmin.h"
#include "mongo/turn.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "replication/slot.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#define IDLE_MS				10000	/* nothing to do: look for prepared transactions' changes */
#define POLL_MS				1000	/* for processes whose end nobody tells us of */
#define ATTACH_MS			10000	/* a launched process without handle must have attached */
#define MIN_LIFE_MS			1000	/* a database's only worker starts once in this time */

extern PGSYNC_EXPORT void pgsync_launcher_main(Datum main_arg);

/* what the launcher knows of each entry's process beyond shared memory */
typedef struct LaunchedProcess
{
	BackgroundWorkerHandle *handle; /* NULL: none, or launched by our predecessor */
	uint64		stored_lsn;		/* progress at its start */
	int64		copy_rows_done;
} LaunchedProcess;

static PgsyncShared *shared;
static LaunchedProcess *processes;	/* by entry */
static MemoryContext loop_context;
static MemoryContext states_context;
static DatabaseState *states;	/* as read last */
static int	state_count;
static bool slots_pending;		/* a slot to be dropped is still in use */

void
launcher_init(void)
{
	BackgroundWorker worker = {
		.bgw_name = "pgsync launcher",
		.bgw_type = "pgsync launcher",
		.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION,
		.bgw_start_time = BgWorkerStart_RecoveryFinished,
		.bgw_restart_time = 5,
		.bgw_library_name = PGSYNC_LIBRARY,
		.bgw_function_name = "pgsync_launcher_main"
	};

	RegisterBackgroundWorker(&worker);
}

static DatabaseState *
find_state(Oid database)
{
	for (int i = 0; i < state_count; i++)
	{
		if (states[i].oid == database)
			return &states[i];
	}
	return NULL;
}

static bool
database_is_on(Oid database)
{
	DatabaseState *state = find_state(database);

	return state != NULL && state->state == DATABASE_ON && state->connectable;
}

/* ---------------------------------------------------------------- ended workers */

/* Is the process of a launched entry gone?  Caller holds lock. */
static bool
process_is_gone(WorkerEntry *entry, LaunchedProcess *process)
{
	pid_t		pid;

	if (process->handle != NULL)
		return GetBackgroundWorkerPid(process->handle, &pid) == BGWH_STOPPED ||
			GetBackgroundWorkerPid(process->handle, &pid) == BGWH_POSTMASTER_DIED;

	/* launched by a launcher that failed since */
	if (entry->process == 0)
		return TimestampDifferenceExceeds(entry->launch_time, GetCurrentTimestamp(), ATTACH_MS);
	return BackendPidGetProc(entry->process) == NULL &&
		kill(entry->process, 0) != 0 && errno == ESRCH;
}

/* how long to wait after so many failures in a row, in ms */
static int
restart_delay(int failures)
{
	int64		delay;

	if (failures <= 1)
		delay = 200;
	else if (failures == 2)
		delay = 500;
	else
		delay = INT64CONST(1000) << Min(failures - 3, 20);
	return (int) Min(delay, *Preloaded.settings.restart_delay_max);
}

/* caller holds lock */
static bool
is_only_entry(WorkerEntry *entry)
{
	for (int i = 0; i < shared->max_workers; i++)
	{
		WorkerEntry *other = &shared->workers[i];

		if (other != entry && other->in_use && other->database == entry->database)
			return false;
	}
	return true;
}

/* caller holds lock; the set phase tells what comes next */
static void
set_next(WorkerEntry *entry, WorkerPhase phase, TimestampTz next_start)
{
	entry->phase = phase;
	entry->phase_since = GetCurrentTimestamp();
	entry->next_start = next_start;
}

/* caller holds lock */
static void
worker_failed(WorkerEntry *entry, LaunchedProcess *process)
{
	TimestampTz now = GetCurrentTimestamp();
	bool		progress = pg_atomic_read_u64(&entry->stored_lsn) != process->stored_lsn ||
		entry->copy_rows_done != process->copy_rows_done;

	entry->failures = progress ? 1 : Min(entry->failures + 1, 1000000);
	if (entry->error_time < entry->launch_time)
	{
		/* it left no error: terminated, or its library could not be loaded */
		strlcpy(entry->error,
				entry->process != 0 ? "the worker process was terminated" :
				"the worker process ended before it could start replication",
				sizeof(entry->error));
		strlcpy(entry->error_hint, "The server's log tells more.", sizeof(entry->error_hint));
		strlcpy(entry->error_sqlstate, "57P01", sizeof(entry->error_sqlstate));
		entry->error_time = now;
	}
	set_next(entry, PHASE_BACKING_OFF,
			 TimestampTzPlusMilliseconds(now, Max(restart_delay(entry->failures), entry->least_delay)));
}

/* Decides what becomes of an entry whose process has ended.  Caller holds lock. */
static void
worker_ended(WorkerEntry *entry, LaunchedProcess *process)
{
	DatabaseState *state = find_state(entry->database);

	if (state == NULL || state->state != DATABASE_ON)
		entry->in_use = false;
	else if (entry->exit_wanted ||
			 (entry->retry_wanted && (!entry->clean_exit || worker_phase_is_settled(entry->phase))))
		set_next(entry, PHASE_NONE, 0);
	else if (!entry->clean_exit)
		worker_failed(entry, process);
	else if (worker_phase_is_settled(entry->phase))
		entry->failures = 0;
	else if (is_only_entry(entry))
	{
		/* its stream is done; somebody has to look for the next one */
		worker_entry_forget_stream(entry);
		entry->failures = 0;
		set_next(entry, PHASE_NONE,
				 TimestampTzPlusMilliseconds(entry->launch_time, MIN_LIFE_MS));
	}
	else
		entry->in_use = false;

	entry->launched = false;
	entry->pid = 0;
	entry->process = 0;
	entry->exit_wanted = false;
	entry->clean_exit = false;
	entry->retry_wanted = false;
	entry->least_delay = 0;
	pg_atomic_write_u32(&entry->idle, 0);
}

static bool
any_ended(void)
{
	bool		any = false;

	LWLockAcquire(&shared->lock, LW_SHARED);
	for (int i = 0; i < shared->max_workers && !any; i++)
		any = shared->workers[i].in_use && shared->workers[i].launched &&
			process_is_gone(&shared->workers[i], &processes[i]);
	LWLockRelease(&shared->lock);
	return any;
}

/* Needs states read after the workers' ends: perhaps their database is gone. */
static void
reap_workers(void)
{
	bool		any = false;

	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < shared->max_workers; i++)
	{
		WorkerEntry *entry = &shared->workers[i];
		LaunchedProcess *process = &processes[i];

		if (!entry->in_use || !entry->launched || !process_is_gone(entry, process))
			continue;
		worker_ended(entry, process);
		turn_forget(shared->turn, i);
		if (process->handle != NULL)
			pfree(process->handle);
		process->handle = NULL;
		any = true;
	}
	LWLockRelease(&shared->lock);

	if (any)
		ConditionVariableBroadcast(&shared->progress);
}

/* ---------------------------------------------------------------- slots without a label */

/* The slots that nobody will want again; the rest is left alone. */
static List *
collect_slots_to_drop(void)
{
	List	   *unwanted = NIL;
	int			count;
	OwnSlot    *slots = own_slots(InvalidOid, &count, NULL);

	slots_pending = false;
	for (int i = 0; i < count; i++)
	{
		if (!slots[i].persistent || find_state(slots[i].database) != NULL)
			continue;
		if (slots[i].active)
			slots_pending = true;
		else
			unwanted = lappend(unwanted, &slots[i]);
	}
	return unwanted;
}

/*
 * DROP DATABASE fails while a slot of the database is active, as it is while we
 * drop it: who holds the database waits for us, and we keep off held ones.
 */
static bool
begin_slot_drop(Oid database)
{
	bool		held;

	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	held = database_is_held(shared, database);
	if (!held)
		shared->dropping_slot_of = database;
	LWLockRelease(&shared->lock);
	return !held;
}

static void
end_slot_drop(void)
{
	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	shared->dropping_slot_of = InvalidOid;
	LWLockRelease(&shared->lock);
}

static void
drop_slot(const OwnSlot *slot)
{
	const char *name = NameStr(slot->name);

	if (!begin_slot_drop(slot->database))
		return;					/* the end of the hold wakes us */
	PG_TRY();
	{
		StartTransactionCommand();
		ReplicationSlotDrop(name, true);
		CommitTransactionCommand();
		ereport(LOG,
				(errmsg("dropped replication slot \"%s\"", name),
				 errdetail("pgsync is no longer used in its database.")));
	}
	PG_CATCH();
	{
		/* taken or dropped by somebody else: look again later */
		EmitErrorReport();
		FlushErrorState();
		if (MyReplicationSlot != NULL)
			ReplicationSlotRelease();
		AbortCurrentTransaction();
		slots_pending = true;
	}
	PG_END_TRY();
	end_slot_drop();
	MemoryContextSwitchTo(loop_context);
}

/* ---------------------------------------------------------------- what should run */

static void
read_states(void)
{
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	(void) GetTransactionSnapshot();
	MemoryContextReset(states_context);
	state_count = 0;
	states = database_states_read(states_context, &state_count);
	CommitTransactionCommand();
	MemoryContextSwitchTo(loop_context);
}

/* Ends and frees what should not run. */
static void
stop_unwanted(void)
{
	for (int i = 0; i < shared->max_workers; i++)
	{
		WorkerEntry *entry = &shared->workers[i];
		Oid			database = InvalidOid;

		LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
		if (entry->in_use && !database_is_on(entry->database))
		{
			if (!entry->launched)
				entry->in_use = false;
			else if (!entry->exit_wanted)
				database = entry->database;
		}
		LWLockRelease(&shared->lock);

		if (OidIsValid(database))
			workers_terminate(shared, database, 0);
	}
}

/* Every database that is switched on needs somebody who looks for its streams. */
static void
request_missing(void)
{
	for (int i = 0; i < state_count; i++)
	{
		bool		present = false;

		if (!database_is_on(states[i].oid))
			continue;
		LWLockAcquire(&shared->lock, LW_SHARED);
		for (int j = 0; j < shared->max_workers && !present; j++)
			present = shared->workers[j].in_use &&
				shared->workers[j].database == states[i].oid;
		LWLockRelease(&shared->lock);
		if (!present)
			(void) worker_request(shared, states[i].oid, 0);
	}
}

/* A holder that ended without a word cannot happen, but would block a database for ever. */
static void
forget_dead_holders(void)
{
	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < PGSYNC_MAX_HOLDS; i++)
	{
		DatabaseHold *hold = &shared->holds[i];

		if (OidIsValid(hold->database) && BackendPidGetProc(hold->holder) == NULL)
			*hold = (DatabaseHold) {InvalidOid, 0};
	}
	LWLockRelease(&shared->lock);
}

static void
apply_states(void)
{
	List	   *slots;
	ListCell   *cell;

	read_states();
	reap_workers();
	forget_dead_holders();
	stop_unwanted();
	request_missing();
	slots = collect_slots_to_drop();
	foreach(cell, slots)
		drop_slot(lfirst(cell));
}

/* ---------------------------------------------------------------- starting workers */

/*
 * May the entry's worker start now?  If so, notes the start and returns the
 * generation; else 0, and *next_due is brought forward to when it may.
 */
static uint32
begin_launch(int index, TimestampTz now, TimestampTz *next_due)
{
	WorkerEntry *entry = &shared->workers[index];
	uint32		generation = 0;

	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	if (!entry->in_use || entry->launched || worker_phase_is_settled(entry->phase) ||
		!database_is_on(entry->database) || database_is_held(shared, entry->database))
		 /* not now */ ;
	else if (entry->next_start > now)
		*next_due = Min(*next_due, entry->next_start);
	else
	{
		if (++shared->next_generation == 0)
			shared->next_generation = 1;
		generation = entry->generation = shared->next_generation;
		entry->launched = true;
		entry->launch_time = now;
		entry->exit_wanted = false;
		entry->clean_exit = false;
		entry->retry_wanted = false;
		entry->pid = 0;
		entry->process = 0;
		processes[index].stored_lsn = pg_atomic_read_u64(&entry->stored_lsn);
		processes[index].copy_rows_done = entry->copy_rows_done;
	}
	LWLockRelease(&shared->lock);
	return generation;
}

static void
launch_failed(WorkerEntry *entry)
{
	worker_entry_set_error(shared, entry, "no free background worker process",
						   "Raise max_worker_processes and restart the server.", "53400");
	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	entry->launched = false;
	entry->failures++;
	set_next(entry, PHASE_BACKING_OFF,
			 TimestampTzPlusMilliseconds(GetCurrentTimestamp(), restart_delay(entry->failures)));
	LWLockRelease(&shared->lock);
	ConditionVariableBroadcast(&shared->progress);
}

static void
launch(int index, uint32 generation)
{
	WorkerEntry *entry = &shared->workers[index];
	DatabaseState *state = find_state(entry->database);
	BackgroundWorker worker = {
		.bgw_type = "pgsync worker",
		.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION,
		.bgw_start_time = BgWorkerStart_RecoveryFinished,
		.bgw_restart_time = BGW_NEVER_RESTART,
		.bgw_library_name = PGSYNC_WORKER_LIBRARY,
		.bgw_function_name = "pgsync_worker_main"
	};
	MemoryContext previous;
	bool		registered;

	snprintf(worker.bgw_name, sizeof(worker.bgw_name), "pgsync worker for database %u",
			 state ? state->oid : InvalidOid);
	worker.bgw_main_arg = Int32GetDatum(index);
	worker.bgw_notify_pid = MyProcPid;
	memcpy(worker.bgw_extra, &generation, sizeof(generation));

	/* the handle outlives this turn */
	previous = MemoryContextSwitchTo(TopMemoryContext);
	registered = RegisterDynamicBackgroundWorker(&worker, &processes[index].handle);
	MemoryContextSwitchTo(previous);

	if (!registered)
	{
		processes[index].handle = NULL;
		launch_failed(entry);
	}
}

/* Starts what is due; returns when the next one is. */
static TimestampTz
start_workers(void)
{
	TimestampTz now = GetCurrentTimestamp();
	TimestampTz next_due = TimestampTzPlusMilliseconds(now, IDLE_MS);

	for (int i = 0; i < shared->max_workers; i++)
	{
		uint32		generation = begin_launch(i, now, &next_due);

		if (generation != 0)
			launch(i, generation);
	}
	return next_due;
}

/* ---------------------------------------------------------------- main loop */

/* Is there a process whose end we would not be told? */
static bool
must_poll(void)
{
	bool		result = slots_pending;

	LWLockAcquire(&shared->lock, LW_SHARED);
	for (int i = 0; i < shared->max_workers && !result; i++)
		result = shared->workers[i].in_use && shared->workers[i].launched &&
			processes[i].handle == NULL;
	LWLockRelease(&shared->lock);
	return result;
}

static void
launcher_exit(int code, Datum arg)
{
	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	if (shared->launcher_pid == MyProcPid)
		shared->launcher_pid = 0;
	LWLockRelease(&shared->lock);
}

static void
launcher_start(void)
{
	shared = Preloaded.shared;

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	pqsignal(SIGINT, SIG_IGN);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);

	before_shmem_exit(launcher_exit, 0);
	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	shared->launcher_pid = MyProcPid;
	shared->dropping_slot_of = InvalidOid;
	shared->launcher_pgprocno = MyProcIndex;
	LWLockRelease(&shared->lock);

	processes = MemoryContextAllocZero(TopMemoryContext,
									   shared->max_workers * sizeof(LaunchedProcess));
	loop_context = AllocSetContextCreate(TopMemoryContext, "pgsync launcher turn",
										 ALLOCSET_DEFAULT_SIZES);
	states_context = AllocSetContextCreate(TopMemoryContext, "pgsync databases",
										   ALLOCSET_DEFAULT_SIZES);
	MemoryContextSwitchTo(loop_context);
}

void
pgsync_launcher_main(Datum main_arg)
{
	uint32		seen_recheck = 0;
	TimestampTz last_read = 0;

	launcher_start();
	for (;;)
	{
		TimestampTz now = GetCurrentTimestamp();
		TimestampTz next_due;
		uint32		recheck;

		/* a shutdown while idle is nothing to log; exit code 1: restart, if it was only us */
		if (ProcDiePending)
			proc_exit(1);
		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}

		MemoryContextReset(loop_context);
		recheck = pg_atomic_read_u32(&shared->recheck);
		if (any_ended() || slots_pending || recheck != seen_recheck ||
			TimestampDifferenceExceeds(last_read, now, IDLE_MS))
		{
			seen_recheck = recheck;
			last_read = now;
			apply_states();
		}
		next_due = start_workers();
		if (must_poll())
			next_due = Min(next_due, TimestampTzPlusMilliseconds(now, POLL_MS));

		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 TimestampDifferenceMilliseconds(GetCurrentTimestamp(), next_due),
						 PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
	}
}
