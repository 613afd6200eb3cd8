/*-------------------------------------------------------------------------
 *
 * hooks.c
 *	  What pgsync does in ordinary backends: keep workers away from a
 *	  database that is being dropped, renamed, moved or copied; follow CREATE
 *	  and DROP EXTENSION; wake idle workers when a transaction commits.
 *
 * It does not drop slots: that is not transactional, so the launcher does it
 * after the commit.
 *
 * Invariant: a commit costs a comparison and a few reads of shared memory, and
 * where a worker is to be told of it, a look at the flush position and a write; no
 * lock is taken, but perhaps that position's, unless this transaction did something
 * of the above.
 *
 *-------------------------------------------------------------------------
 */
#include "preload.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/dependency.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_database.h"
#include "catalog/pg_db_role_setting.h"
#include "catalog/pg_extension.h"
#include "commands/dbcommands.h"
#include "commands/defrem.h"
#include "commands/extension.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "replication/slot.h"
#include "storage/ipc.h"
#include "storage/lmgr.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/fmgroids.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

/* how long DROP DATABASE and others wait for workers to be gone */
#define HOLD_WAIT_MS	5000

static object_access_hook_type previous_object_access_hook = NULL;
static ProcessUtility_hook_type previous_process_utility_hook = NULL;

/* what is to be done when the current transaction ends */
static bool recheck_wanted = false;
static Oid	retry_database = InvalidOid;
static Oid	stopped_database = InvalidOid;
static bool holding = false;

/* the last commit whose end this backend has told the workers */
static XLogRecPtr told_commit_end = InvalidXLogRecPtr;

void
recheck_at_commit(Oid database)
{
	recheck_wanted = true;
	if (OidIsValid(database))
		retry_database = database;
}

/*
 * The launcher looks at the switch as it is then: were it to end the workers,
 * a start that follows at once would leave them running with old settings.
 */
void
stop_at_commit(Oid database)
{
	recheck_wanted = true;
	stopped_database = database;
}

/* ---------------------------------------------------------------- holding a database */

/* Without a free place we go on: the server's own check then names the worker. */
static void
note_hold(PgsyncShared *shared, Oid database)
{
	DatabaseHold *place = NULL;

	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < PGSYNC_MAX_HOLDS; i++)
	{
		DatabaseHold *hold = &shared->holds[i];

		if (hold->database == database && hold->holder == MyProcPid)
		{
			place = hold;
			break;
		}
		if (place == NULL && !OidIsValid(hold->database))
			place = hold;
	}
	if (place != NULL)
	{
		place->database = database;
		place->holder = MyProcPid;
		holding = true;
	}
	LWLockRelease(&shared->lock);
}

static void
release_holds(PgsyncShared *shared)
{
	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < PGSYNC_MAX_HOLDS; i++)
	{
		if (shared->holds[i].holder == MyProcPid)
			shared->holds[i] = (DatabaseHold) {InvalidOid, 0};
	}
	LWLockRelease(&shared->lock);
	holding = false;
	launcher_recheck(shared);
}

static int
collect_processes(PgsyncShared *shared, Oid database, pid_t *processes)
{
	int			count = 0;

	LWLockAcquire(&shared->lock, LW_SHARED);
	for (int i = 0; i < shared->max_workers; i++)
	{
		WorkerEntry *entry = &shared->workers[i];

		if (entry->in_use && entry->database == database && entry->launched &&
			entry->process != 0)
			processes[count++] = entry->process;
	}
	LWLockRelease(&shared->lock);
	return count;
}

static bool
launcher_drops_slot(PgsyncShared *shared, Oid database)
{
	bool		result;

	LWLockAcquire(&shared->lock, LW_SHARED);
	result = shared->dropping_slot_of == database;
	LWLockRelease(&shared->lock);
	return result;
}

/*
 * Ends the workers of a database, waits until they no longer count as its
 * users, and keeps others away until the end of the transaction.  Workers that
 * were asked for but have not started yet find out when they attach.
 */
static void
hold_database(Oid database)
{
	PgsyncShared *shared = Preloaded.shared;
	TimestampTz end = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), HOLD_WAIT_MS);
	pid_t		processes[PGSYNC_MAX_WORKERS];
	int			count;

	if (shared == NULL || !OidIsValid(database))
		return;

	note_hold(shared, database);
	recheck_wanted = true;
	count = collect_processes(shared, database, processes);
	if (count > 0)
		workers_terminate(shared, database, 0);
	while (count > 0 || launcher_drops_slot(shared, database))
	{
		if (count > 0 && BackendPidGetProc(processes[count - 1]) == NULL)
		{
			count--;
			continue;
		}
		if (GetCurrentTimestamp() >= end)
			break;
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, 5,
						 PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}

/* ---------------------------------------------------------------- utility statements */

static bool
owns_database(Oid database)
{
#if PG_VERSION_NUM >= 160000
	return object_ownercheck(DatabaseRelationId, database, GetUserId());
#else
	return pg_database_ownercheck(database, GetUserId());
#endif
}

static bool
is_template(Oid database)
{
	HeapTuple	tuple = SearchSysCache1(DATABASEOID, ObjectIdGetDatum(database));
	bool		result = false;

	if (HeapTupleIsValid(tuple))
	{
		result = ((Form_pg_database) GETSTRUCT(tuple))->datistemplate;
		ReleaseSysCache(tuple);
	}
	return result;
}

static DefElem *
find_option(List *options, const char *name)
{
	ListCell   *cell;

	foreach(cell, options)
	{
		DefElem    *option = lfirst_node(DefElem, cell);

		if (strcmp(option->defname, name) == 0)
			return option;
	}
	return NULL;
}

/* dbcommands.c's have_createdb_privilege(), which older minor releases do not export */
static bool
may_create_databases(void)
{
	HeapTuple	tuple;
	bool		result = false;

	if (superuser())
		return true;
	tuple = SearchSysCache1(AUTHOID, ObjectIdGetDatum(GetUserId()));
	if (HeapTupleIsValid(tuple))
	{
		result = ((Form_pg_authid) GETSTRUCT(tuple))->rolcreatedb;
		ReleaseSysCache(tuple);
	}
	return result;
}

/*
 * The database that a statement needs without users, if the current user may
 * run that statement: others must not be able to disturb replication.
 */
static Oid
database_to_hold(Node *statement)
{
	Oid			database;

	if (IsA(statement, RenameStmt) &&
		castNode(RenameStmt, statement)->renameType == OBJECT_DATABASE)
	{
		database = get_database_oid(castNode(RenameStmt, statement)->subname, true);
		return OidIsValid(database) && owns_database(database) &&
			may_create_databases() ? database : InvalidOid;
	}
	if (IsA(statement, AlterDatabaseStmt) &&
		find_option(castNode(AlterDatabaseStmt, statement)->options, "tablespace"))
	{
		database = get_database_oid(castNode(AlterDatabaseStmt, statement)->dbname, true);
		return OidIsValid(database) && owns_database(database) ? database : InvalidOid;
	}
	if (IsA(statement, CreatedbStmt))
	{
		DefElem    *template = find_option(castNode(CreatedbStmt, statement)->options,
										   "template");
		const char *name = template && template->arg ? defGetString(template) : "template1";

		database = get_database_oid(name, true);
		return OidIsValid(database) && may_create_databases() &&
			(is_template(database) || owns_database(database)) ? database : InvalidOid;
	}
	return InvalidOid;
}

static void
process_utility(PlannedStmt *pstmt, const char *query_string, bool read_only_tree,
				ProcessUtilityContext context, ParamListInfo params,
				QueryEnvironment *query_env, DestReceiver *dest, QueryCompletion *completion)
{
	Node	   *statement = pstmt->utilityStmt;

	/* only these; a failed or foreign transaction block must not get here */
	if ((IsA(statement, RenameStmt) || IsA(statement, AlterDatabaseStmt) ||
		 IsA(statement, CreatedbStmt)) && IsTransactionState())
		hold_database(database_to_hold(statement));

	if (previous_process_utility_hook)
		previous_process_utility_hook(pstmt, query_string, read_only_tree, context, params,
									  query_env, dest, completion);
	else
		standard_ProcessUtility(pstmt, query_string, read_only_tree, context, params,
								query_env, dest, completion);
}

/* ---------------------------------------------------------------- object access */

/* The row was made by the current command: only SnapshotSelf sees it. */
static bool
is_our_new_extension(Oid extension)
{
	Relation	extensions = table_open(ExtensionRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	bool		result = false;

	ScanKeyInit(&key, Anum_pg_extension_oid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(extension));
	scan = systable_beginscan(extensions, ExtensionOidIndexId, true, SnapshotSelf, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
		result = strcmp(NameStr(((Form_pg_extension) GETSTRUCT(tuple))->extname),
						PGSYNC_EXTENSION) == 0;
	systable_endscan(scan);
	table_close(extensions, AccessShareLock);
	return result;
}

static bool
is_our_extension(Oid extension)
{
	char	   *name = get_extension_name(extension);

	return name != NULL && strcmp(name, PGSYNC_EXTENSION) == 0;
}

static void
extension_dropped(void)
{
	/* as SECURITY LABEL does: two of them must not change the label at once */
	LockSharedObject(DatabaseRelationId, MyDatabaseId, 0, ShareUpdateExclusiveLock);
	if (database_switch_get() != DATABASE_NONE)
		database_switch_set(MyDatabaseId, DATABASE_NONE);
	recheck_at_commit(InvalidOid);
}

static bool
has_own_slot(void)
{
	int			count;

	pfree(own_slots(MyDatabaseId, &count, NULL));
	return count > 0;
}

/*
 * A label that is there already came from a dump (pg_dump --create writes it before
 * extensions), and counts.  Unless there are slots, too: those are not restored, so
 * the extension was dropped while we were not preloaded, and that is made up for.
 */
static void
extension_created(void)
{
	if (has_own_slot())
	{
		if (database_switch_get() != DATABASE_NONE)
			ereport(NOTICE,
					(errmsg("replication of this database by pgsync is switched off, and its slots are dropped"),
					 errdetail("The slots are left from before, when the extension was dropped while pgsync was not preloaded."),
					 errhint("Call pgsync_start() to copy the tables again and replicate.")));
		extension_dropped();
	}
	recheck_at_commit(MyDatabaseId);
}

static void
object_access(ObjectAccessType access, Oid class_id, Oid object_id, int sub_id, void *arg)
{
	if (previous_object_access_hook)
		previous_object_access_hook(access, class_id, object_id, sub_id, arg);

	if (access == OAT_DROP && class_id == DatabaseRelationId)
		hold_database(object_id);
	else if (access == OAT_DROP && class_id == ExtensionRelationId)
	{
		if (is_our_extension(object_id))
			extension_dropped();
	}
	else if (access == OAT_POST_CREATE && class_id == ExtensionRelationId)
	{
		if (is_our_new_extension(object_id))
			extension_created();
	}
	else if (access == OAT_POST_ALTER && class_id == DbRoleSettingRelationId)
	{
		/* object_id is the database; new settings may cure what failed */
		if (OidIsValid(object_id))
			recheck_at_commit(object_id);
	}
}

/* ---------------------------------------------------------------- end of a transaction */

/*
 * Tells every worker that sleeps about a commit that it can decode now, also one of
 * another database: it has to read that WAL before it comes to its own.  One that
 * does not sleep looks at the flush position before it does.  An asynchronous commit
 * would not be found there, so the workers of its database are told in any case.
 * Entries are read without their lock: one that changes has no worker that sleeps.
 */
static void
wake_idle_workers(PgsyncShared *shared, XLogRecPtr commit_end)
{
	bool		asked = false;
	bool		flushed = true;
	uint32		used;

	/* the flush of the commit record comes before we look at idle flags */
	pg_memory_barrier();
	used = pg_atomic_read_u32(&shared->entries_used);
	for (uint32 i = 0; i < used; i++)
	{
		WorkerEntry *entry = &shared->workers[i];
		bool		own = entry->database == MyDatabaseId;
		uint32		expected = 1;
		uint64		wanted;

		if (entry->pid == 0 || (!own && pg_atomic_read_u32(&entry->idle) == 0))
			continue;
		if (!asked)
		{
			asked = true;
			flushed = !XLogNeedsFlush(commit_end);
			/* somebody else may have flushed it just now: as above */
			pg_memory_barrier();
		}
		if (flushed ? pg_atomic_read_u32(&entry->idle) == 0 : !own)
			continue;
		wanted = pg_atomic_read_u64(&entry->wanted_lsn);
		while (wanted < commit_end &&
			   !pg_atomic_compare_exchange_u64(&entry->wanted_lsn, &wanted, commit_end))
			;

		/*
		 * Exactly one backend sets the latch.  A worker that has gone in the
		 * meantime leaves a latch of some other process: that wakes for
		 * nothing, as any process must be able to.
		 */
		if (pg_atomic_compare_exchange_u32(&entry->idle, &expected, 0))
			SetLatch(&GetPGProcByNumber(entry->pgprocno)->procLatch);
	}
}

static void
transaction_ended(XactEvent event, void *arg)
{
	PgsyncShared *shared = Preloaded.shared;

	if (shared == NULL)
		return;
	switch (event)
	{
		case XACT_EVENT_COMMIT:
			if (XactLastCommitEnd != told_commit_end)
			{
				told_commit_end = XactLastCommitEnd;
				wake_idle_workers(shared, told_commit_end);
			}
			if (OidIsValid(stopped_database))
				workers_terminate(shared, stopped_database, 0);
			if (OidIsValid(retry_database))
				worker_retry(shared, retry_database);
			else if (recheck_wanted)
				launcher_recheck(shared);
			break;
		case XACT_EVENT_ABORT:
			break;
		case XACT_EVENT_PREPARE:

			/*
			 * What it changed shows at COMMIT PREPARED, in another session:
			 * the launcher's periodic look finds that.
			 */
			break;
		default:
			return;				/* nothing has ended, or in the leader only */
	}
	if (holding)
		release_holds(shared);
	recheck_wanted = false;
	retry_database = InvalidOid;
	stopped_database = InvalidOid;
}

void
hooks_init(void)
{
	previous_object_access_hook = object_access_hook;
	object_access_hook = object_access;
	previous_process_utility_hook = ProcessUtility_hook;
	ProcessUtility_hook = process_utility;
	RegisterXactCallback(transaction_ended, NULL);
}
