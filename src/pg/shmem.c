/*-------------------------------------------------------------------------
 *
 * shmem.c
 *	  Shared memory of pgsync: its size, and its first state.
 *
 * Only the postmaster runs this, at start and again after a crash: then
 * everything in it begins anew, and the launcher finds out from the labels
 * what has to run.
 *
 *-------------------------------------------------------------------------
 */
#include "preload.h"

#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/shmem.h"

static shmem_request_hook_type previous_request_hook = NULL;
static shmem_startup_hook_type previous_startup_hook = NULL;

static Size
shared_size(void)
{
	return add_size(offsetof(PgsyncShared, workers),
					mul_size(sizeof(WorkerEntry), max_workers_setting()));
}

static void
request_shared_memory(void)
{
	if (previous_request_hook)
		previous_request_hook();
	RequestAddinShmemSpace(shared_size());
}

static void
init_entry(WorkerEntry *entry)
{
	pg_atomic_init_u64(&entry->decoded_lsn, 0);
	pg_atomic_init_u64(&entry->stored_lsn, 0);
	pg_atomic_init_u64(&entry->checkpoint_lsn, 0);
	pg_atomic_init_u64(&entry->confirmed_lsn, 0);
	pg_atomic_init_u64(&entry->checkpoint_op, 0);
	pg_atomic_init_u64(&entry->checkpoint_time, 0);
	pg_atomic_init_u64(&entry->source_time, 0);
	pg_atomic_init_u64(&entry->transactions, 0);
	pg_atomic_init_u64(&entry->rows, 0);
	pg_atomic_init_u64(&entry->ops, 0);
	pg_atomic_init_u64(&entry->rejected_rows, 0);
	pg_atomic_init_u64(&entry->rereads, 0);
	pg_atomic_init_u64(&entry->ahead_lsn, 0);
	pg_atomic_init_u32(&entry->ahead_stream, 0);
	pg_atomic_init_u64(&entry->evaluation_errors, 0);
	pg_atomic_init_u64(&entry->wakeups, 0);
	pg_atomic_init_u64(&entry->last_activity, 0);
	pg_atomic_init_u64(&entry->caught_up_time, 0);
	pg_atomic_init_u32(&entry->idle, 0);
	pg_atomic_init_u64(&entry->wanted_lsn, 0);
	pg_atomic_init_u32(&entry->waits_for_pid, 0);
	pg_atomic_init_u32(&entry->waits_for_xid, 0);
	pg_atomic_init_u64(&entry->awaited_lsn, 0);
}

static void
startup_shared_memory(void)
{
	PgsyncShared *shared;
	bool		found;

	if (previous_startup_hook)
		previous_startup_hook();

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	shared = ShmemInitStruct("pgsync", shared_size(), &found);
	if (!found)
	{
		memset(shared, 0, shared_size());
		LWLockInitialize(&shared->lock, LWLockNewTrancheId());
		shared->max_workers = max_workers_setting();
		pg_atomic_init_u32(&shared->entries_used, 0);
		pg_atomic_init_u32(&shared->recheck, 0);
		ConditionVariableInit(&shared->progress);
		for (int i = 0; i < TURN_WORDS; i++)
			atomic_init(&shared->turn[i], 0);
		for (int i = 0; i < shared->max_workers; i++)
			init_entry(&shared->workers[i]);
	}
	LWLockRelease(AddinShmemInitLock);

	LWLockRegisterTranche(shared->lock.tranche, "pgsync");
	Preloaded.shared = shared;
}

void
shmem_init(void)
{
	previous_request_hook = shmem_request_hook;
	shmem_request_hook = request_shared_memory;
	previous_startup_hook = shmem_startup_hook;
	shmem_startup_hook = startup_shared_memory;
}
