/*-------------------------------------------------------------------------
 *
 * entries.c
 *	  Worker entries in shared memory: find, request, attach, report, end.
 *
 * Part of both libraries, so it keeps no state of its own.  It starts no
 * process (launcher.c does) and knows nothing of labels or storage.
 *
 * Invariant: an entry belongs to at most one living process, the one whose
 * generation it carries; a process that comes too late cannot attach.
 *
 *-------------------------------------------------------------------------
 */
#include "pgsync.h"

#include <signal.h>

#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "utils/timestamp.h"

#if PG_VERSION_NUM >= 170000
#define MyProcIndex MyProcNumber
#else
#define MyProcIndex (MyProc->pgprocno)
#endif

const char *
worker_phase_name(WorkerPhase phase)
{
	switch (phase)
	{
		case PHASE_NONE:
			return "waiting for a worker";
		case PHASE_STARTING:
			return "starting";
		case PHASE_NO_EXTENSION:
			return "no extension";
		case PHASE_NO_RULES:
			return "no rules";
		case PHASE_CREATING_SLOT:
			return "creating slot";
		case PHASE_COPYING:
			return "copying";
		case PHASE_CATCHING_UP:
			return "catching up";
		case PHASE_STREAMING:
			return "streaming";
		case PHASE_CLEANING:
			return "cleaning";
		case PHASE_BACKING_OFF:
			return "backing off";
		case PHASE_STOPPED:
			return "stopped";
		case PHASE_HISTORY_CHANGED:
			return "history_changed";
		case PHASE_UNUSED_SLOT:
			return "slot of no stream";
	}
	return "unknown";
}

/* caller holds lock */
static WorkerEntry *
find_entry(PgsyncShared *shared, Oid database, int32 stream)
{
	for (int i = 0; i < shared->max_workers; i++)
	{
		WorkerEntry *entry = &shared->workers[i];

		if (entry->in_use && entry->database == database && entry->stream == stream)
			return entry;
	}
	return NULL;
}

/* The entry may be freed as soon as the lock is: compare what is read later. */
WorkerEntry *
worker_entry_find(PgsyncShared *shared, Oid database, int32 stream)
{
	WorkerEntry *entry;

	LWLockAcquire(&shared->lock, LW_SHARED);
	entry = find_entry(shared, database, stream);
	LWLockRelease(&shared->lock);
	return entry;
}

/* caller holds lock; the whole entry but its generation begins anew */
static void
entry_clear(WorkerEntry *entry, Oid database, int32 stream)
{
	uint32		generation = entry->generation;

	/*
	 * Atomic variables are set one by one: backends look at idle and
	 * wanted_lsn without the lock.
	 */
	memset(entry, 0, offsetof(WorkerEntry, decoded_lsn));
	entry->generation = generation;
	entry->database = database;
	entry->phase_since = GetCurrentTimestamp();
	worker_entry_forget_stream(entry);
	entry->stream = stream;
	pg_atomic_write_u64(&entry->wakeups, 0);
	pg_atomic_write_u32(&entry->idle, 0);
	pg_atomic_write_u64(&entry->wanted_lsn, 0);
	pg_atomic_write_u64(&entry->awaited_lsn, 0);
	entry->in_use = true;
}

void
worker_entry_forget_stream(WorkerEntry *entry)
{
	entry->stream = 0;
	entry->storage_state[0] = '\0';
	entry->slot_name[0] = '\0';
	entry->warning[0] = '\0';
	entry->copy_table[0] = '\0';
	entry->tables_total = 0;
	entry->tables_done = 0;
	entry->copy_rows_done = 0;
	entry->copy_rows_estimated = -1;
	entry->slots_known = false;
	memset(entry->unused_slots, 0, sizeof(entry->unused_slots));
	memset(entry->no_worker_for, 0, sizeof(entry->no_worker_for));

	pg_atomic_write_u64(&entry->decoded_lsn, 0);
	pg_atomic_write_u64(&entry->stored_lsn, 0);
	pg_atomic_write_u64(&entry->checkpoint_lsn, 0);
	pg_atomic_write_u64(&entry->confirmed_lsn, 0);
	pg_atomic_write_u64(&entry->checkpoint_op, 0);
	pg_atomic_write_u64(&entry->checkpoint_time, 0);
	pg_atomic_write_u64(&entry->source_time, 0);
	pg_atomic_write_u64(&entry->transactions, 0);
	pg_atomic_write_u64(&entry->rows, 0);
	pg_atomic_write_u64(&entry->ops, 0);
	pg_atomic_write_u64(&entry->rejected_rows, 0);
	pg_atomic_write_u64(&entry->rereads, 0);
	pg_atomic_write_u64(&entry->ahead_lsn, 0);
	pg_atomic_write_u32(&entry->ahead_stream, 0);
	pg_atomic_write_u64(&entry->evaluation_errors, 0);
	pg_atomic_write_u64(&entry->last_activity, 0);
	pg_atomic_write_u64(&entry->caught_up_time, 0);
}

bool
worker_request(PgsyncShared *shared, Oid database, int32 stream)
{
	bool		done = true;
	bool		made = false;

	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	if (find_entry(shared, database, stream) == NULL)
	{
		int			free_entry = 0;

		while (free_entry < shared->max_workers && shared->workers[free_entry].in_use)
			free_entry++;
		done = made = free_entry < shared->max_workers;
		if (made)
		{
			entry_clear(&shared->workers[free_entry], database, stream);
			if (pg_atomic_read_u32(&shared->entries_used) <= (uint32) free_entry)
				pg_atomic_write_u32(&shared->entries_used, free_entry + 1);
		}
	}
	LWLockRelease(&shared->lock);

	if (made)
		launcher_wake(shared);
	return done;
}

bool
worker_phase_is_settled(WorkerPhase phase)
{
	return phase == PHASE_NO_EXTENSION || phase == PHASE_STOPPED ||
		phase == PHASE_HISTORY_CHANGED;
}

WorkerStanding
worker_standing(PgsyncShared *shared, Oid database, int32 stream)
{
	WorkerEntry *entry;
	WorkerStanding standing;

	LWLockAcquire(&shared->lock, LW_SHARED);
	entry = find_entry(shared, database, stream);
	if (entry == NULL)
		standing = WORKER_ABSENT;
	else if (entry->launched)
		standing = WORKER_AT_WORK;
	else if (worker_phase_is_settled(entry->phase))
		standing = WORKER_SETTLED;
	else if (entry->phase == PHASE_BACKING_OFF)
		standing = WORKER_BACKING_OFF;
	else
		standing = WORKER_AT_WORK;	/* the launcher is about to start it */
	LWLockRelease(&shared->lock);
	return standing;
}

bool
worker_wake(PgsyncShared *shared, Oid database, int32 stream)
{
	WorkerEntry *entry;
	bool		woken;

	LWLockAcquire(&shared->lock, LW_SHARED);
	entry = find_entry(shared, database, stream);
	woken = entry != NULL && entry->pid != 0;
	if (woken)
		SetLatch(&GetPGProcByNumber(entry->pgprocno)->procLatch);
	LWLockRelease(&shared->lock);
	return woken;
}

/*
 * Lets a worker that has settled (refused its stream, found another history) start
 * again: its stream was stopped since, and somebody has to remove what it left.  Not
 * one that has settled while it cleaned: nothing has changed for that.
 */
bool
worker_restart_settled(PgsyncShared *shared, Oid database, int32 stream)
{
	WorkerEntry *entry;
	bool		restarted = false;

	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	entry = find_entry(shared, database, stream);
	if (entry != NULL && !entry->launched && worker_phase_is_settled(entry->phase) &&
		strcmp(entry->storage_state, "STOP") != 0)
	{
		entry->phase = PHASE_NONE;
		entry->phase_since = GetCurrentTimestamp();
		entry->next_start = 0;
		restarted = true;
	}
	LWLockRelease(&shared->lock);
	if (restarted)
		launcher_recheck(shared);
	return restarted;
}

/* Has the process seen everything that decides whether it runs its stream? */
static bool
has_opened(WorkerPhase phase)
{
	return phase == PHASE_COPYING || phase == PHASE_CATCHING_UP || phase == PHASE_STREAMING;
}

void
worker_retry(PgsyncShared *shared, Oid database)
{
	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < shared->max_workers; i++)
	{
		WorkerEntry *entry = &shared->workers[i];

		if (!entry->in_use || entry->database != database)
			continue;
		if (entry->launched)
		{
			/* if it ends, it may be for a reason that has gone; what runs well has none */
			entry->retry_wanted = !has_opened(entry->phase);
			continue;
		}
		entry->phase = PHASE_NONE;
		entry->phase_since = GetCurrentTimestamp();
		entry->next_start = 0;
	}
	LWLockRelease(&shared->lock);
	launcher_recheck(shared);
}

void
workers_terminate(PgsyncShared *shared, Oid database, int32 stream)
{
	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < shared->max_workers; i++)
	{
		WorkerEntry *entry = &shared->workers[i];

		if (!entry->in_use || !entry->launched || entry->database != database ||
			(stream != 0 && entry->stream != stream))
			continue;
		entry->exit_wanted = true;

		/*
		 * Under the lock: a worker detaches before its process can be gone,
		 * so the pid is still its own.
		 */
		if (entry->pid != 0)
			kill(entry->pid, SIGTERM);
	}
	LWLockRelease(&shared->lock);
}

bool
database_is_held(PgsyncShared *shared, Oid database)
{
	for (int i = 0; i < PGSYNC_MAX_HOLDS; i++)
	{
		if (shared->holds[i].database == database)
			return true;
	}
	return false;
}

WorkerEntry *
worker_attach(PgsyncShared *shared, int index, uint32 generation)
{
	WorkerEntry *entry;

	if (index < 0 || index >= shared->max_workers)
		return NULL;
	entry = &shared->workers[index];

	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	if (!entry->in_use || !entry->launched || entry->generation != generation ||
		entry->pid != 0)
		entry = NULL;
	else if (entry->exit_wanted || database_is_held(shared, entry->database))
	{
		entry->clean_exit = true;
		entry->exit_wanted = true;
		entry = NULL;
	}
	else
	{
		entry->pid = MyProcPid;
		entry->process = MyProcPid;
		entry->pgprocno = MyProcIndex;
		entry->phase = PHASE_STARTING;
		entry->phase_since = GetCurrentTimestamp();
	}
	LWLockRelease(&shared->lock);
	return entry;
}

void
worker_detach(PgsyncShared *shared, WorkerEntry *entry)
{
	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	if (entry->pid == MyProcPid)
	{
		entry->pid = 0;
		memset(entry->no_worker_for, 0, sizeof(entry->no_worker_for));
		if (!entry->clean_exit)
		{
			/* until the launcher has seen it, nobody may take it for running */
			entry->phase = PHASE_NONE;
			entry->phase_since = GetCurrentTimestamp();
		}
		pg_atomic_write_u32(&entry->idle, 0);
		pg_atomic_write_u32(&entry->waits_for_pid, 0);
		pg_atomic_write_u32(&entry->waits_for_xid, 0);
	}
	LWLockRelease(&shared->lock);
	ConditionVariableBroadcast(&shared->progress);
	launcher_wake(shared);
}

void
worker_entry_set_phase(PgsyncShared *shared, WorkerEntry *entry, WorkerPhase phase)
{
	bool		changed;

	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	changed = entry->phase != phase;
	if (changed)
	{
		entry->phase = phase;
		entry->phase_since = GetCurrentTimestamp();
		if (has_opened(phase))
			entry->retry_wanted = false;
	}
	LWLockRelease(&shared->lock);
	if (changed)
		ConditionVariableBroadcast(&shared->progress);
}

/* Cuts at a character border; the message is in the database's encoding. */
static void
copy_text(char *target, Size size, const char *source)
{
	int			len;

	if (source == NULL)
		source = "";
	len = pg_mbcliplen(source, strlen(source), size - 1);
	memcpy(target, source, len);
	target[len] = '\0';
}

void
worker_entry_set_error(PgsyncShared *shared, WorkerEntry *entry, const char *message,
					   const char *hint, const char *sqlstate)
{
	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	copy_text(entry->error, sizeof(entry->error), message);
	copy_text(entry->error_hint, sizeof(entry->error_hint), hint);
	strlcpy(entry->error_sqlstate, sqlstate != NULL ? sqlstate : "", sizeof(entry->error_sqlstate));
	entry->error_time = GetCurrentTimestamp();
	LWLockRelease(&shared->lock);
}

void
launcher_recheck(PgsyncShared *shared)
{
	pg_atomic_fetch_add_u32(&shared->recheck, 1);
	launcher_wake(shared);
}

void
launcher_wake(PgsyncShared *shared)
{
	LWLockAcquire(&shared->lock, LW_SHARED);
	if (shared->launcher_pid != 0)
		SetLatch(&GetPGProcByNumber(shared->launcher_pgprocno)->procLatch);
	LWLockRelease(&shared->lock);
}
