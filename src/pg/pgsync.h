/*-------------------------------------------------------------------------
 *
 * pgsync.h
 *	  What pgsync's two libraries share inside the server.
 *
 * pgsync.so is preloaded: settings, shared memory, hooks, launcher, control
 * functions.  pgsync_worker.so is loaded in background workers, and on demand
 * by the SQL functions that read rules or the storage.  The second finds the
 * first through the rendezvous variable "pgsync" (pgsync_preloaded()), never
 * through the linker: so it can say clearly that pgsync is not preloaded.
 *
 * Shared memory holds counters, positions, fixed-size text and pids, never a
 * pointer; the lock rule stands beside each field.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGSYNC_H
#define PGSYNC_H

#include "postgres.h"

#include "access/xlogdefs.h"
#include "datatype/timestamp.h"
#include "port/atomics.h"
#include "storage/condition_variable.h"
#include "storage/lwlock.h"
#include "utils/guc.h"

#include "mongo/turn.h"

#define PGSYNC_LIBRARY			"pgsync"
#define PGSYNC_WORKER_LIBRARY	"pgsync_worker"		/* also the output plugin's name */
#define PGSYNC_EXTENSION		"pgsync"
#define PGSYNC_SHARED_VERSION	1

/* upper bound of pgsync.max_workers */
#define PGSYNC_MAX_WORKERS		TURN_MAX_WRITERS

/*
 * Functions with SQL access are visible, everything else of our libraries is
 * not: the server loads libraries with RTLD_GLOBAL.
 */
#define PGSYNC_FUNCTION(name) \
	_Pragma("GCC visibility push(default)") \
	PG_FUNCTION_INFO_V1(name); \
	_Pragma("GCC visibility pop") \
	extern int	no_such_variable
#define PGSYNC_EXPORT __attribute__((visibility("default")))

/* ---------------------------------------------------------------- worker state */

typedef enum WorkerPhase
{
	PHASE_NONE = 0,
	PHASE_STARTING,				/* process started, storage not reached yet */
	PHASE_NO_EXTENSION,			/* database enabled, extension absent */
	PHASE_NO_RULES,				/* nothing deployed yet */
	PHASE_CREATING_SLOT,		/* may wait for old transactions: waits_for_pid */
	PHASE_COPYING,
	PHASE_CATCHING_UP,			/* streaming, not yet the served stream */
	PHASE_STREAMING,
	PHASE_CLEANING,				/* a stopped stream is being removed */
	PHASE_BACKING_OFF,			/* failed, will be started again at next_start */
	PHASE_STOPPED,				/* will not be started again before something changes */
	PHASE_HISTORY_CHANGED		/* as STOPPED; pgsync_adopt() or pgsync_deploy() goes on */
} WorkerPhase;

extern const char *worker_phase_name(WorkerPhase phase);

#define PGSYNC_ERROR_LEN	512
#define PGSYNC_HINT_LEN		256
#define PGSYNC_SUBJECT_LEN	(2 * NAMEDATALEN + 2)

/*
 * One entry per (database, replication stream).  stream 0: the database's
 * stream is not known yet; the worker fills it in.
 */
typedef struct WorkerEntry
{
	/* set by the launcher under lock; in_use false: everything else is void */
	bool		in_use;
	Oid			database;
	uint32		generation;		/* grows with every start: tells a crash before attach
								 * from the entry's next use */
	TimestampTz next_start;		/* PHASE_BACKING_OFF; 0: at once */
	int			failures;		/* in a row, without progress in between */

	/* set by the worker (launcher: on its exit) under lock */
	int32		stream;			/* sync_rules._id; 0 unknown */
	pid_t		pid;			/* 0: not running */
	int			pgprocno;		/* for its latch; valid while pid is not 0 */
	WorkerPhase phase;
	TimestampTz phase_since;
	bool		exit_wanted;	/* set by anyone under lock, with a latch: end cleanly */
	bool		clean_exit;		/* the worker's last word: do not restart */
	char		storage_state[16];	/* PROCESSING, ACTIVE ... */
	char		slot_name[NAMEDATALEN];
	pid_t		waits_for_pid;	/* blocking backend; 0: none */
	char		waits_for[PGSYNC_SUBJECT_LEN];	/* what for, or a prepared transaction's gid */
	char		error[PGSYNC_ERROR_LEN];	/* last error, kept after recovery */
	char		error_hint[PGSYNC_HINT_LEN];
	char		error_sqlstate[6];
	TimestampTz error_time;
	char		warning[PGSYNC_HINT_LEN];	/* present state to care about: stale tables,
											 * publication missing ... */
	/* copy progress */
	char		copy_table[PGSYNC_SUBJECT_LEN];
	int32		tables_total;
	int32		tables_done;
	int64		copy_rows_done;
	int64		copy_rows_estimated;	/* -1 unknown */

	/* positions and counters: written by the worker, read by anyone, atomically */
	pg_atomic_uint64 decoded_lsn;
	pg_atomic_uint64 stored_lsn;
	pg_atomic_uint64 checkpoint_lsn;
	pg_atomic_uint64 confirmed_lsn;
	pg_atomic_uint64 checkpoint_op;
	pg_atomic_uint64 checkpoint_time;	/* TimestampTz */
	pg_atomic_uint64 source_time;	/* TimestampTz: commit time of the last stored transaction */
	pg_atomic_uint64 transactions;
	pg_atomic_uint64 rows;
	pg_atomic_uint64 ops;
	pg_atomic_uint64 rejected_rows;
	pg_atomic_uint64 rereads;
	pg_atomic_uint64 evaluation_errors;
	pg_atomic_uint64 wakeups;		/* times the main loop woke */
	pg_atomic_uint64 last_activity; /* TimestampTz */

	/*
	 * 1 while the worker sleeps with nothing to do: a committing backend sets
	 * its latch only then, and takes the flag by compare-and-exchange.
	 */
	pg_atomic_uint32 idle;
	/* highest commit end a backend has told us of; may not be flushed yet */
	pg_atomic_uint64 wanted_lsn;
} WorkerEntry;

typedef struct PgsyncShared
{
	LWLock		lock;			/* tranche "pgsync" */
	int			max_workers;	/* constant after start */

	/* under lock */
	pid_t		launcher_pid;
	int			launcher_pgprocno;
	uint32		next_generation;

	/*
	 * A backend that drops (or renames ...) a database keeps its workers away
	 * until its transaction ends.  Under lock.
	 */
	Oid			held_database;
	pid_t		held_by;

	pg_atomic_uint32 recheck;	/* bumped when labels, extensions or streams may have changed */
	ConditionVariable progress; /* broadcast when any entry's checkpoint or phase changed */

	_Atomic uint32_t turn[TURN_WORDS];	/* mongo/turn.h */

	WorkerEntry workers[FLEXIBLE_ARRAY_MEMBER];
} PgsyncShared;

/* ---------------------------------------------------------------- settings */

typedef struct PgsyncSettings
{
	char	  **mongodb_uri_file;
	char	  **mongodb_uri;
	char	  **mongodb_database;
	char	  **publication;
	char	  **slot_prefix;
	char	  **cluster_id;
	int		   *queue_size;		/* kB */
	int		   *connect_timeout;	/* ms */
	int		   *storage_timeout;	/* ms: socket */
	int		   *server_selection_timeout;	/* ms */
	int		   *restart_delay_max;	/* ms: cap of the back-off */
	int		   *copy_chunk_size;	/* kB */
	int		   *row_limit;		/* kB: larger rows are rejected */
	bool	   *flush_asynchronous_commits;
	bool	   *allow_password_in_uri_setting;
} PgsyncSettings;

/* what the rendezvous variable points to */
typedef struct PgsyncPreloaded
{
	int			version;		/* PGSYNC_SHARED_VERSION */
	PgsyncShared *shared;		/* NULL in the postmaster before shared memory exists */
	PgsyncSettings settings;
} PgsyncPreloaded;

/* the preloaded part, or ERROR with the hint to preload it */
extern PgsyncPreloaded *pgsync_preloaded(void);

/* src/pg/shmem.c, part of both libraries (no state of its own) */
extern WorkerEntry *worker_entry_find(PgsyncShared *shared, Oid database, int32 stream);
extern void worker_entry_set_phase(PgsyncShared *shared, WorkerEntry *entry, WorkerPhase phase);
extern void worker_entry_set_error(PgsyncShared *shared, WorkerEntry *entry, const char *message,
								   const char *hint, const char *sqlstate);
/*
 * Ask the launcher to run a worker for a stream of a database; idempotent.  Returns
 * false when all entries are taken.
 */
extern bool worker_request(PgsyncShared *shared, Oid database, int32 stream);
extern void launcher_wake(PgsyncShared *shared);

/* src/pg/label.c: durable per-database state, a security label of provider "pgsync" */
typedef enum DatabaseSwitch
{
	DATABASE_NONE,				/* no label: not used, or dropped; slots of ours may be removed */
	DATABASE_ON,
	DATABASE_OFF				/* stopped; slots are kept */
} DatabaseSwitch;

#endif							/* PGSYNC_H */
