/*-------------------------------------------------------------------------
 *
 * preload.h
 *	  What the files of pgsync.so share with each other, in order of use.
 *
 * Nothing here is known to pgsync_worker.so: that sees pgsync.h only.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGSYNC_PRELOAD_H
#define PGSYNC_PRELOAD_H

#include "pgsync.h"

#include "storage/latch.h"

/* the server's name for an index into ProcGlobal->allProcs changed in 17 */
#if PG_VERSION_NUM >= 170000
#define MyProcIndex MyProcNumber
#else
#define MyProcIndex (MyProc->pgprocno)
#endif

/* preload.c: shared is NULL until shared memory exists */
extern PgsyncPreloaded Preloaded;

/* guc.c */
extern void guc_init(PgsyncSettings *settings);
extern int	max_workers_setting(void);

/* shmem.c */
extern void shmem_init(void);

/* label.c */
typedef struct DatabaseState
{
	Oid			oid;
	char		name[NAMEDATALEN];
	bool		connectable;	/* the server would let a worker in */
	DatabaseSwitch state;
} DatabaseState;

extern void label_init(void);
/* NONE removes the label; the caller checks permissions and holds the database's lock */
extern void database_switch_set(Oid database, DatabaseSwitch state);
/* Every database with a label.  Needs a transaction, but no database. */
extern DatabaseState *database_states_read(MemoryContext context, int *count);

/* hooks.c */
extern void hooks_init(void);
/* When this transaction commits: the launcher looks again, and retries database if valid. */
extern void recheck_at_commit(Oid database);
extern void stop_at_commit(Oid database);

/* launcher.c */
extern void launcher_init(void);

#endif							/* PGSYNC_PRELOAD_H */
