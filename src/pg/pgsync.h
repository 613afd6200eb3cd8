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
#include "fmgr.h"
#include "port/atomics.h"
#include "storage/condition_variable.h"
#include "storage/lwlock.h"
#include "utils/guc.h"

#include "mongo/turn.h"

#define PGSYNC_LIBRARY			"pgsync"
#define PGSYNC_WORKER_LIBRARY	"pgsync_worker"		/* also the output plugin's name */
#define PGSYNC_EXTENSION		"pgsync"

/* upper bound of pgsync.max_workers */
#define PGSYNC_MAX_WORKERS		TURN_MAX_WRITERS

/* 18 has only a prefix of another name */
#if PG_VERSION_NUM >= 180000
#define pg_attribute_noreturn() __attribute__((noreturn))
#endif

/*
 * Functions with SQL access are visible, everything else of our libraries is
 * not: the server loads libraries with RTLD_GLOBAL.
 */
#define PGSYNC_EXPORT __attribute__((visibility("default")))
#define PGSYNC_FUNCTION(name) \
	extern PGSYNC_EXPORT Datum name(PG_FUNCTION_ARGS); \
	extern PGSYNC_EXPORT const Pg_finfo_record *CppConcat(pg_finfo_, name) (void); \
	PG_FUNCTION_INFO_V1(name)
/* once per library; before 16 the server's macro does not export by itself */
#define PGSYNC_MODULE_MAGIC \
	extern PGSYNC_EXPORT const Pg_magic_struct *PG_MAGIC_FUNCTION_NAME(void); \
	PG_MODULE_MAGIC

/* ---------------------------------------------------------------- worker state */

typedef enum WorkerPhase
{
	PHASE_NONE = 0,
	PHASE_STARTING,				/* process started, storage not reached yet */
	PHASE_NO_EXTENSION,			/* database enabled, extension absent */
	PHASE_NO_RULES,				/* nothing deployed yet */
	PHASE_CREATING_SLOT,		/* may wait for old transactions: status names them */
	PHASE_COPYING,
	PHASE_CATCHING_UP,			/* streaming, not yet the served stream */
	PHASE_STREAMING,
	PHASE_CLEANING,				/* a stopped stream is being removed */
	PHASE_BACKING_OFF,			/* failed, will be started again at next_start */
	PHASE_STOPPED,				/* will not be started again before something changes */
	PHASE_HISTORY_CHANGED,		/* as STOPPED; pgsync_adopt() or pgsync_deploy() goes on */
	PHASE_UNUSED_SLOT			/* in status only: a slot that no stream of the storage has */
} WorkerPhase;

extern const char *worker_phase_name(WorkerPhase phase);
/* ended for a reason that trying again does not mend */
extern bool worker_phase_is_settled(WorkerPhase phase);

#define PGSYNC_ERROR_LEN	1024	/* a StorageError's message, and what was tried */
#define PGSYNC_HINT_LEN		256
#define PGSYNC_SUBJECT_LEN	(2 * NAMEDATALEN + 2)
#define PGSYNC_MAX_HOLDS	16
#define PGSYNC_MAX_UNUSED	8

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
	int			least_delay;	/* ms; set by the worker with its error: not started again sooner */
	int			failures;		/* in a row, without progress in between */
	bool		launched;		/* a process of this generation was asked for, and the
								 * launcher has not seen its end yet */
	TimestampTz launch_time;

	/* set by the worker (launcher: on its exit) under lock */
	int32		stream;			/* sync_rules._id; 0 unknown */
	pid_t		pid;			/* 0: not running */
	pid_t		process;		/* as pid, but kept until the launcher has seen the end */
	int			pgprocno;		/* for its latch; valid while pid is not 0 */
	WorkerPhase phase;
	TimestampTz phase_since;
	bool		exit_wanted;	/* set by anyone under lock, with a latch: end cleanly */
	bool		clean_exit;		/* the worker's last word: do not restart */
	bool		retry_wanted;	/* set by anyone under lock: something changed after this process
								 * was started, which may not have seen it; void as soon as it
								 * copies or streams */
	char		storage_state[16];	/* PROCESSING, ACTIVE ... */
	char		slot_name[NAMEDATALEN];
	char		error[PGSYNC_ERROR_LEN];	/* last error, kept after recovery */
	char		error_hint[PGSYNC_HINT_LEN];
	char		error_sqlstate[6];
	TimestampTz error_time;
	char		warning[PGSYNC_HINT_LEN];	/* present state to care about: stale tables,
											 * publication missing ... */
	/* the worker's last look at the storage: nobody in this database ... */
	bool		slots_known;	/* it has looked */
	char		unused_slots[PGSYNC_MAX_UNUSED][NAMEDATALEN];	/* ... uses these slots of ours; "": none */
	int32		no_worker_for[PGSYNC_MAX_UNUSED];	/* ... replicates these streams, for want of
													 * free entries; 0: none; void without process */

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
	pg_atomic_uint64 ahead_lsn;	/* activation waits until the checkpoint is here; 0: it does not */
	pg_atomic_uint32 ahead_stream;	/* ... since this stream, which is served, is there already */
	pg_atomic_uint64 source_time;	/* TimestampTz: commit time of the last stored transaction */
	pg_atomic_uint64 transactions;
	pg_atomic_uint64 rows;
	pg_atomic_uint64 ops;
	pg_atomic_uint64 rejected_rows;
	pg_atomic_uint64 rereads;
	pg_atomic_uint64 evaluation_errors;
	pg_atomic_uint64 wakeups;		/* times the main loop woke */
	pg_atomic_uint64 last_activity; /* TimestampTz */
	pg_atomic_uint64 caught_up_time;	/* TimestampTz: when the worker last found everything
										 * flushed also stored; status computes the lag from
										 * it */

	/*
	 * 1 while the worker sleeps with nothing to do: a committing backend sets
	 * its latch only then, and takes the flag by compare-and-exchange.
	 */
	pg_atomic_uint32 idle;
	/* highest commit end a backend has told us of; may not be flushed yet */
	pg_atomic_uint64 wanted_lsn;

	/*
	 * Whose end the worker waits for without being in a lock's queue, where
	 * pg_blocking_pids() would see it; 0: nobody's, or not known.
	 */
	pg_atomic_uint32 waits_for_pid;
	/* ... or the transaction, if no process has it: prepared, and stuck in COMMIT PREPARED */
	pg_atomic_uint32 waits_for_xid;

	/*
	 * Highest flushed position that pgsync_wait_for_lsn() waits for: when the stream has
	 * passed it without a commit to store, a keepalive is stored at once.
	 */
	pg_atomic_uint64 awaited_lsn;
} WorkerEntry;

/*
 * A backend that drops, renames, moves or copies a database keeps its workers
 * away until its transaction ends.
 */
typedef struct DatabaseHold
{
	Oid			database;		/* InvalidOid: free */
	pid_t		holder;
} DatabaseHold;

typedef struct PgsyncShared
{
	LWLock		lock;			/* tranche "pgsync" */
	int			max_workers;	/* constant after start */
	pg_atomic_uint32 entries_used;	/* no entry at or after it was ever used */

	/* under lock */
	pid_t		launcher_pid;
	int			launcher_pgprocno;
	uint32		next_generation;

	DatabaseHold holds[PGSYNC_MAX_HOLDS];
	Oid			dropping_slot_of;	/* database whose slot the launcher drops just now */

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

/*
 * What both libraries must agree on: a library that is installed while the server runs
 * is loaded by the next worker, into the memory that the preloaded one has laid out.
 * layout_format changes only with this structure, which every version can read.
 */
typedef struct PgsyncLayout
{
	int			layout_format;
	char		version[20];
	uint32		preloaded_size;
	uint32		settings_size;
	uint32		shared_size;
	uint32		entry_size;
} PgsyncLayout;

#define PGSYNC_LAYOUT_FORMAT	3	/* 1 and 2: a number of the whole layout was here */
#define PGSYNC_LAYOUT \
	{ \
		.layout_format = PGSYNC_LAYOUT_FORMAT, \
		.version = PGSYNC_VERSION, \
		.preloaded_size = sizeof(PgsyncPreloaded), \
		.settings_size = sizeof(PgsyncSettings), \
		.shared_size = sizeof(PgsyncShared), \
		.entry_size = sizeof(WorkerEntry) \
	}

/* what the rendezvous variable points to */
typedef struct PgsyncPreloaded
{
	PgsyncLayout layout;		/* first, whatever follows */
	PgsyncShared *shared;		/* NULL in the postmaster before shared memory exists */
	PgsyncSettings settings;
} PgsyncPreloaded;

/*
 * The preloaded part; or ERROR, with the hint to preload it, or to restart the server
 * because it was started with another build of pgsync.
 */
extern PgsyncPreloaded *pgsync_preloaded(void);

/* a replication slot of ours, as it was a moment ago */
typedef struct OwnSlot
{
	NameData	name;
	Oid			database;
	bool		active;
	bool		persistent;
	XLogRecPtr	restart_lsn;
} OwnSlot;

/*
 * The slots with our output plugin of a database, or of all if it is invalid; palloc'd.
 * *used, if not NULL: how many slots the server has in use, whoever's they are.
 */
extern OwnSlot *own_slots(Oid database, int *count, int *used);

/*
 * The setting that workers of the current database get (ALTER DATABASE, ALTER ROLE,
 * configuration file), whatever this session has been told; palloc'd, NULL if unset.
 * Needs a transaction.  name: "pgsync.mongodb_uri_file"; current: the setting's variable.
 */
extern char *pgsync_database_setting(const char *name, const char *current);

/*
 * src/pg/target.c, part of both libraries: where the current database replicates to, or
 * ERROR.  Need a transaction; palloc'd.  Wipe the URI after use.
 */
extern char *target_uri(const PgsyncSettings *settings);
extern char *target_database(const PgsyncSettings *settings);
extern void check_encoding(void);

/* src/pg/entries.c, part of both libraries (no state of its own); all take the lock */
extern WorkerEntry *worker_entry_find(PgsyncShared *shared, Oid database, int32 stream);
extern void worker_entry_set_phase(PgsyncShared *shared, WorkerEntry *entry, WorkerPhase phase);
extern void worker_entry_set_error(PgsyncShared *shared, WorkerEntry *entry, const char *message,
								   const char *hint, const char *sqlstate);
/*
 * Ask the launcher to run a worker for a stream of a database; idempotent.  Returns
 * false when all entries are taken.
 */
extern bool worker_request(PgsyncShared *shared, Oid database, int32 stream);
/* What an entry shows of a stream, but errors, is forgotten; caller holds lock. */
extern void worker_entry_forget_stream(WorkerEntry *entry);
/* Wakes the worker of a stream; false if it does not run. */
extern bool worker_wake(PgsyncShared *shared, Oid database, int32 stream);
typedef enum WorkerStanding
{
	WORKER_ABSENT,
	WORKER_AT_WORK,				/* or about to be started */
	WORKER_BACKING_OFF,			/* has failed, waits to be started again */
	WORKER_SETTLED				/* not started again before something changes */
} WorkerStanding;

extern WorkerStanding worker_standing(PgsyncShared *shared, Oid database, int32 stream);
/*
 * Something changed for a database (settings, rules, extension): what has failed or
 * stopped there is tried again at once.
 */
extern void worker_retry(PgsyncShared *shared, Oid database);
/* a settled entry of a stopped stream starts again, to clean; false if it does not */
extern bool worker_restart_settled(PgsyncShared *shared, Oid database, int32 stream);
/* Ends the workers of a database; those of one stream if stream is not 0. */
extern void workers_terminate(PgsyncShared *shared, Oid database, int32 stream);
extern bool database_is_held(PgsyncShared *shared, Oid database);	/* caller holds lock */
/*
 * First and last words of a worker process.  Attaching fails (NULL) when the entry has
 * gone on without it or its end is wanted already: then leave with exit code 0.
 * Detaching belongs into a before_shmem_exit callback.
 */
extern WorkerEntry *worker_attach(PgsyncShared *shared, int index, uint32 generation);
extern void worker_detach(PgsyncShared *shared, WorkerEntry *entry);
/* The launcher looks again at labels and entries, soon.  Safe in any callback. */
extern void launcher_recheck(PgsyncShared *shared);
extern void launcher_wake(PgsyncShared *shared);

/* src/pg/label.c: durable per-database state, a security label of provider "pgsync" */
typedef enum DatabaseSwitch
{
	DATABASE_NONE,				/* no label: not used, or dropped; slots of ours may be removed */
	DATABASE_ON,
	DATABASE_OFF				/* stopped; slots are kept */
} DatabaseSwitch;

/* of the current database, as this transaction sees it; part of both libraries */
extern DatabaseSwitch database_switch_get(void);
/*
 * Where the WAL was when the label was made: slots from before were dropped on the
 * user's order.  Invalid if the label does not tell.
 */
extern XLogRecPtr database_switch_since(void);
/* 'on' or 'off', and perhaps that position; false if it is something else */
extern bool database_label_parse(const char *label, DatabaseSwitch *state, XLogRecPtr *since);

#endif							/* PGSYNC_H */
