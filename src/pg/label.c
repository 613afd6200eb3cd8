/*-------------------------------------------------------------------------
 *
 * label.c
 *	  The durable switch of each database: a security label of provider
 *	  "pgsync", 'on' or 'off', and where the WAL was when it was made.
 *
 * pg_shseclabel is one of the few catalogs that a process without a database
 * can read: so the launcher needs no worker to find out what should run.  It
 * is transactional, goes with the database, and is kept by pg_dump and
 * pg_upgrade.  Everyone may read it; it holds nothing but the switch and that
 * position, by which a worker knows a slot that was dropped on the user's order
 * (the label had gone) from one that was lost.
 *
 *-------------------------------------------------------------------------
 */
#include "preload.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_database.h"
#include "catalog/pg_shseclabel.h"
#include "commands/seclabel.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"

#if PG_VERSION_NUM < 150000
#error "pgsync needs PostgreSQL 15 or later"
#endif

/* SECURITY LABEL FOR pgsync ON ...: what pg_dump writes; people use pgsync_start() */
static void
check_label(const ObjectAddress *object, const char *label)
{
	DatabaseSwitch state;
	XLogRecPtr	since;

	if (object->classId != DatabaseRelationId)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("pgsync labels databases only")));
	if (!superuser())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be superuser to set a database's pgsync label"),
				 errhint("Call pgsync_start() or pgsync_stop() in that database.")));
	if (label != NULL && !database_label_parse(label, &state, &since))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid pgsync label: \"%s\"", label),
				 errdetail("The label is 'on' or 'off', optionally followed by a WAL position, or NULL.")));
	recheck_at_commit(InvalidOid);
}

void
label_init(void)
{
	register_label_provider(PGSYNC_LIBRARY, check_label);
}

void
database_switch_set(Oid database, DatabaseSwitch state)
{
	ObjectAddress object;
	const char *label = NULL;
	XLogRecPtr	since = database_switch_get() == DATABASE_NONE ? GetXLogInsertRecPtr() :
		database_switch_since();

	Assert(database == MyDatabaseId);
	if (state != DATABASE_NONE)
		label = state == DATABASE_ON ? "on" : "off";
	if (label != NULL && !XLogRecPtrIsInvalid(since))
		label = psprintf("%s %X/%X", label, LSN_FORMAT_ARGS(since));
	ObjectAddressSet(object, DatabaseRelationId, database);
	SetSecurityLabel(&object, PGSYNC_LIBRARY, label);
	/* what is called next may be in the same statement: SELECT pgsync_stop(), pgsync_start() */
	CommandCounterIncrement();
}

/*
 * The state that a row of pg_shseclabel gives to a database; DATABASE_NONE if
 * the row is not ours.  Without a database no TOAST table can be read: a value
 * stored out of line is not ours anyhow.
 */
static DatabaseSwitch
label_state(HeapTuple tuple, TupleDesc desc)
{
	bool		isnull;
	Datum		datum;
	char	   *value;
	DatabaseSwitch state;
	XLogRecPtr	since;

	datum = heap_getattr(tuple, Anum_pg_shseclabel_provider, desc, &isnull);
	if (isnull || VARATT_IS_EXTERNAL(DatumGetPointer(datum)))
		return DATABASE_NONE;
	value = TextDatumGetCString(datum);
	if (strcmp(value, PGSYNC_LIBRARY) != 0)
		return DATABASE_NONE;

	datum = heap_getattr(tuple, Anum_pg_shseclabel_label, desc, &isnull);
	if (isnull || VARATT_IS_EXTERNAL(DatumGetPointer(datum)))
		return DATABASE_OFF;
	value = TextDatumGetCString(datum);
	(void) database_label_parse(value, &state, &since);
	return state;
}

static void
read_database(DatabaseState *state, Relation databases)
{
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, Anum_pg_database_oid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(state->oid));
	scan = systable_beginscan(databases, InvalidOid, false, NULL, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
	{
		Form_pg_database form = (Form_pg_database) GETSTRUCT(tuple);

		strlcpy(state->name, NameStr(form->datname), sizeof(state->name));
		/* -2 marks a database whose DROP was interrupted */
		state->connectable = form->datallowconn && form->datconnlimit != -2;
	}
	systable_endscan(scan);
}

DatabaseState *
database_states_read(MemoryContext context, int *count)
{
	Relation	labels = table_open(SharedSecLabelRelationId, AccessShareLock);
	Relation	databases = table_open(DatabaseRelationId, AccessShareLock);
	DatabaseState *states = NULL;
	int			allocated = 0;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	*count = 0;
	ScanKeyInit(&key, Anum_pg_shseclabel_classoid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(DatabaseRelationId));
	/* no index: its relation cache entry may not exist here */
	scan = systable_beginscan(labels, InvalidOid, false, NULL, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		DatabaseSwitch state = label_state(tuple, RelationGetDescr(labels));

		if (state == DATABASE_NONE)
			continue;
		if (*count >= allocated)
		{
			Size		size;

			allocated = Max(16, allocated * 2);
			size = mul_size(allocated, sizeof(DatabaseState));
			states = states ? repalloc(states, size) : MemoryContextAlloc(context, size);
		}
		memset(&states[*count], 0, sizeof(DatabaseState));
		states[*count].oid = ((Form_pg_shseclabel) GETSTRUCT(tuple))->objoid;
		states[*count].state = state;
		(*count)++;
	}
	systable_endscan(scan);

	for (int i = 0; i < *count; i++)
		read_database(&states[i], databases);

	table_close(databases, AccessShareLock);
	table_close(labels, AccessShareLock);
	return states;
}
