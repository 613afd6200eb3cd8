/*-------------------------------------------------------------------------
 *
 * preloaded.c
 *	  How code of either library finds the preloaded part, and the few
 *	  questions both ask of the catalogs and of the slots.
 *
 * Part of both libraries, so it keeps no state: pgsync_worker.so must not
 * depend on symbols of pgsync.so, which may not be preloaded.
 *
 *-------------------------------------------------------------------------
 */
#include "pgsync.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/indexing.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_database.h"
#include "catalog/pg_db_role_setting.h"
#include "catalog/pg_type.h"
#include "commands/seclabel.h"
#include "miscadmin.h"
#include "replication/slot.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/pg_lsn.h"
#include "utils/rel.h"

/* of what was preloaded nothing may be read before this */
static void
check_layout(const PgsyncLayout *theirs)
{
	const PgsyncLayout ours = PGSYNC_LAYOUT;

	if (theirs->layout_format != ours.layout_format)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("another version of pgsync is preloaded"),
				 errdetail("This library is of version %s.", ours.version),
				 errhint("Restart the server after an update of pgsync.")));
	if (strncmp(theirs->version, ours.version, sizeof(ours.version)) != 0 ||
		theirs->preloaded_size != ours.preloaded_size ||
		theirs->settings_size != ours.settings_size ||
		theirs->shared_size != ours.shared_size ||
		theirs->entry_size != ours.entry_size)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("another version of pgsync is preloaded"),
				 errdetail("The server started with version %.*s (memory layout %u/%u/%u/%u), this library is of version %s (%u/%u/%u/%u).",
						   (int) sizeof(theirs->version), theirs->version,
						   theirs->preloaded_size, theirs->settings_size,
						   theirs->shared_size, theirs->entry_size,
						   ours.version, ours.preloaded_size, ours.settings_size,
						   ours.shared_size, ours.entry_size),
				 errhint("Restart the server after an update of pgsync.")));
}

PgsyncPreloaded *
pgsync_preloaded(void)
{
	PgsyncPreloaded *preloaded = *find_rendezvous_variable(PGSYNC_LIBRARY);

	if (preloaded != NULL)
		check_layout(&preloaded->layout);
	if (preloaded == NULL || preloaded->shared == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("pgsync is not preloaded"),
				 errdetail("Its background workers and shared memory are set up when the server starts."),
				 errhint("Add \"%s\" to shared_preload_libraries and restart the server.",
						 PGSYNC_LIBRARY)));
	return preloaded;
}

OwnSlot *
own_slots(Oid database, int *count, int *used)
{
	OwnSlot    *slots = palloc(sizeof(OwnSlot) * Max(max_replication_slots, 1));
	int			in_use = 0;

	*count = 0;
	LWLockAcquire(ReplicationSlotControlLock, LW_SHARED);
	for (int i = 0; i < max_replication_slots; i++)
	{
		ReplicationSlot *slot = &ReplicationSlotCtl->replication_slots[i];
		OwnSlot    *own = &slots[*count];

		if (!slot->in_use)
			continue;
		in_use++;
		SpinLockAcquire(&slot->mutex);
		if (OidIsValid(slot->data.database) &&
			(slot->data.database == database || !OidIsValid(database)) &&
			strcmp(NameStr(slot->data.plugin), PGSYNC_WORKER_LIBRARY) == 0)
		{
			own->name = slot->data.name;
			own->database = slot->data.database;
			own->active = slot->active_pid != 0;
			own->persistent = slot->data.persistency == RS_PERSISTENT;
			own->restart_lsn = slot->data.restart_lsn;
			(*count)++;
		}
		SpinLockRelease(&slot->mutex);
	}
	LWLockRelease(ReplicationSlotControlLock);
	if (used != NULL)
		*used = in_use;
	return slots;
}

bool
database_label_parse(const char *label, DatabaseSwitch *state, XLogRecPtr *since)
{
	bool		error = false;
	size_t		len = strcspn(label, " ");

	*state = len == 2 && strncmp(label, "on", len) == 0 ? DATABASE_ON : DATABASE_OFF;
	*since = InvalidXLogRecPtr;
	if (*state == DATABASE_OFF && (len != 3 || strncmp(label, "off", len) != 0))
		return false;
	if (label[len] == ' ')
		*since = pg_lsn_in_internal(label + len + 1, &error);
	return !error;
}

static DatabaseSwitch
read_switch(XLogRecPtr *since)
{
	ObjectAddress database;
	char	   *label;
	DatabaseSwitch state;

	*since = InvalidXLogRecPtr;
	ObjectAddressSet(database, DatabaseRelationId, MyDatabaseId);
	label = GetSecurityLabel(&database, PGSYNC_LIBRARY);
	if (label == NULL)
		return DATABASE_NONE;
	(void) database_label_parse(label, &state, since);
	return state;
}

DatabaseSwitch
database_switch_get(void)
{
	XLogRecPtr	since;

	return read_switch(&since);
}

XLogRecPtr
database_switch_since(void)
{
	XLogRecPtr	since;

	(void) read_switch(&since);
	return since;
}

/*
 * One row of pg_db_role_setting: the value of "name", or NULL.  A later
 * element of the array cannot name the same setting again.
 */
static char *
stored_setting(Relation settings, Oid database, Oid role, const char *name)
{
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	tuple;
	size_t		name_len = strlen(name);
	char	   *value = NULL;

	ScanKeyInit(&keys[0], Anum_pg_db_role_setting_setdatabase, BTEqualStrategyNumber,
				F_OIDEQ, ObjectIdGetDatum(database));
	ScanKeyInit(&keys[1], Anum_pg_db_role_setting_setrole, BTEqualStrategyNumber,
				F_OIDEQ, ObjectIdGetDatum(role));
	scan = systable_beginscan(settings, DbRoleSettingDatidRolidIndexId, true, NULL, 2, keys);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
	{
		bool		isnull;
		Datum		array = heap_getattr(tuple, Anum_pg_db_role_setting_setconfig,
										 RelationGetDescr(settings), &isnull);
		Datum	   *elements;
		bool	   *nulls;
		int			count = 0;

		if (!isnull)
			deconstruct_array(DatumGetArrayTypeP(array), TEXTOID, -1, false, TYPALIGN_INT,
							  &elements, &nulls, &count);
		for (int i = 0; i < count && value == NULL; i++)
		{
			char	   *setting;

			if (nulls[i])
				continue;
			setting = TextDatumGetCString(elements[i]);
			if (pg_strncasecmp(setting, name, name_len) == 0 && setting[name_len] == '=')
				value = pstrdup(setting + name_len + 1);
		}
	}
	systable_endscan(scan);
	return value;
}

char *
pgsync_database_setting(const char *name, const char *current)
{
	/* workers run as the bootstrap superuser; the order is the server's */
	const struct
	{
		Oid			database;
		Oid			role;
	}			places[] =
	{
		{MyDatabaseId, BOOTSTRAP_SUPERUSERID},
		{InvalidOid, BOOTSTRAP_SUPERUSERID},
		{MyDatabaseId, InvalidOid},
		{InvalidOid, InvalidOid}
	};
	Relation	settings = table_open(DbRoleSettingRelationId, AccessShareLock);
	char	   *value = NULL;

	for (int i = 0; i < (int) lengthof(places) && value == NULL; i++)
		value = stored_setting(settings, places[i].database, places[i].role, name);
	table_close(settings, AccessShareLock);

	if (value == NULL && current != NULL)
		value = pstrdup(current);
	return value;
}
