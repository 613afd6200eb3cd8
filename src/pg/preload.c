/*-------------------------------------------------------------------------
 *
 * preload.c
 *	  Start of pgsync.so: every module sets itself up, in this order.
 *
 * It does not replicate anything and never calls MongoDB's driver.
 *
 * Invariant: without preloading, loading this library has no effect beyond
 * making its functions callable, and they say what is missing.
 *
 *-------------------------------------------------------------------------
 */
#include "preload.h"

#include "fmgr.h"
#include "miscadmin.h"

PGSYNC_MODULE_MAGIC;

extern PGSYNC_EXPORT void _PG_init(void);

PgsyncPreloaded Preloaded = {.layout = PGSYNC_LAYOUT};

void
_PG_init(void)
{
	if (!process_shared_preload_libraries_in_progress)
		return;

	/*
	 * libmongoc makes a shared memory file for its counters while it is loaded, before
	 * anybody can tell it where messages go, and our workers leave without its
	 * exit handler.  Inherited by every process; nothing else reads it.
	 */
	(void) setenv("MONGOC_DISABLE_SHM", "1", 1);

	guc_init(&Preloaded.settings);

	/* pg_upgrade restores labels and settings, but nothing may run meanwhile */
	label_init();
	if (IsBinaryUpgrade)
		return;

	shmem_init();
	hooks_init();
	launcher_init();
	*find_rendezvous_variable(PGSYNC_LIBRARY) = &Preloaded;
}
