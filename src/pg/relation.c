/*-------------------------------------------------------------------------
 *
 * relation.c
 *	  What the rules do with each relation, in the shape it has at the change
 *	  being decoded: column conversion, replica identity, binding to the plan,
 *	  and the source table that its rows are stored under.
 *
 * Entries are built from the present snapshot, which in decoding is the historic
 * one, and thrown away at invalidation.  What must survive a restart is in the
 * storage (source_table.c); what a changed shape does is in ddl.c.
 *
 * Invariant: an entry that is valid says what the relation is under the snapshot
 * at hand.
 *
 *-------------------------------------------------------------------------
 */
#include "worker.h"
#include "value.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/catalog.h"
#include "catalog/namespace.h"
#include "catalog/pg_am.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/relcache.h"
#include "utils/syscache.h"

static HTAB *relation_cache = NULL;

/*
 * What was invalidated since the last look at new names: most transactions that
 * change catalogs make a few temporary tables, and pg_class may be large.
 */
#define TOUCHED_MAX	64
static Oid	touched[TOUCHED_MAX];
static int	touched_count = 0;
static bool touched_all = true;	/* or more than fit, or all */
static bool publications_touched = false;

/* ---------------------------------------------------------------- cache */

static void
invalidate_relation(Datum arg, Oid relid)
{
	RelationEntry *entry;

	if (relation_cache == NULL)
		return;
	if (!OidIsValid(relid))
	{
		relation_cache_invalidate_all();
		return;
	}
	if (type_shape_depends_on(relid))
		relation_cache_invalidate_all();
	entry = hash_search(relation_cache, &relid, HASH_FIND, NULL);
	if (entry != NULL)
		entry->valid = false;
	if (touched_count < TOUCHED_MAX)
		touched[touched_count++] = relid;
	else
		touched_all = true;
}

static void
invalidate_by_syscache(Datum arg, int cacheid, uint32 hashvalue)
{
	if (cacheid == PUBLICATIONOID)
		publications_touched = true;
	relation_cache_invalidate_all();
}

void
relation_cache_invalidate_all(void)
{
	HASH_SEQ_STATUS scan;
	RelationEntry *entry;

	touched_all = true;
	if (relation_cache == NULL)
		return;
	hash_seq_init(&scan, relation_cache);
	while ((entry = hash_seq_search(&scan)) != NULL)
		entry->valid = false;
}

bool
publications_changed(void)
{
	bool		changed = publications_touched;

	publications_touched = false;
	return changed;
}

void
relation_cache_init(Worker *worker)
{
	HASHCTL		control = {.keysize = sizeof(Oid), .entrysize = sizeof(RelationEntry),
	.hcxt = TopMemoryContext};
	/* not TYPEOID: every new table has a type, and a column's change shows in its table */
	static const int caches[] = {PUBLICATIONRELMAP, PUBLICATIONOID, PUBLICATIONNAMESPACEMAP,
	NAMESPACEOID, ENUMOID};

	relation_cache = hash_create("pgsync relations", 128, &control,
								 HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	CacheRegisterRelcacheCallback(invalidate_relation, (Datum) 0);
	for (int i = 0; i < (int) lengthof(caches); i++)
		CacheRegisterSyscacheCallback(caches[i], invalidate_by_syscache, (Datum) 0);
}

/* What is noted of the present source transaction stays. */
static void
relation_entry_clear(RelationEntry *entry)
{
	RelationEntry kept = {.relid = entry->relid, .skipped_at = entry->skipped_at,
	.rewritten_at = entry->rewritten_at, .rewritten_into = entry->rewritten_into};

	if (entry->table)
		source_table_release(entry->table);
	if (entry->context)
		MemoryContextDelete(entry->context);
	*entry = kept;
}

/* A new one is not valid: nothing is known of the relation. */
static RelationEntry *
entry_of(Oid relid)
{
	bool		found;
	RelationEntry *entry = hash_search(relation_cache, &relid, HASH_ENTER, &found);

	if (!found)
	{
		memset(entry, 0, sizeof(*entry));
		entry->relid = relid;
	}
	return entry;
}

RelationEntry *
relation_entry_find(Oid relid)
{
	return hash_search(relation_cache, &relid, HASH_FIND, NULL);
}

bool
relation_note_rewritten(Worker *worker, Oid relid, Oid new_heap)
{
	RelationEntry *entry = entry_of(relid);

	if (entry->rewritten_at == worker->transaction_end && entry->rewritten_into == new_heap)
		return false;
	entry->rewritten_at = worker->transaction_end;
	entry->rewritten_into = new_heap;
	return true;
}

/* ---------------------------------------------------------------- shape */

/*
 * A line for each column: number, name, type, modifier, and "m" if older rows have
 * a value that is not in them (a non-null default); and those of the types that
 * are in it.
 */
static char *
relation_signature(TupleDesc desc, const RelationEntry *entry)
{
	TypeShape	types = {.names = entry->conversion->custom_types};
	StringInfoData signature;

	initStringInfo(&signature);
	for (int i = 0; i < entry->conversion->count; i++)
	{
		ColumnConversion *column = &entry->conversion->columns[i];
		Form_pg_attribute attribute = TupleDescAttr(desc, column->attnum - 1);

		appendStringInfo(&signature, "%d %s %u %d %s\n", column->attnum,
						 shape_name(NameStr(attribute->attname)), attribute->atttypid,
						 attribute->atttypmod, attribute->atthasmissing ? "m" : "-");
		append_type_shape(&signature, &types, attribute->atttypid);
	}
	list_free(types.types);
	return signature.data;
}

static bool
signature_has_line(const char *signature, const char *line, size_t len)
{
	for (const char *at = signature; *at != '\0';)
	{
		const char *end = strchr(at, '\n');

		if (end == NULL)
			end = at + strlen(at);
		if ((size_t) (end - at) == len && memcmp(at, line, len) == 0)
			return true;
		at = *end == '\0' ? end : end + 1;
	}
	return false;
}

/*
 * Would an untouched row come out otherwise under the new signature?  Not if all
 * that was there is still there, and what was added has no stored default
 * (design 4).
 */
bool
signature_makes_stale(const char *old, const char *new)
{
	for (const char *at = old; *at != '\0';)
	{
		const char *end = strchr(at, '\n');

		if (end == NULL || !signature_has_line(new, at, end - at))
			return true;
		at = end + 1;
	}
	for (const char *at = new; *at != '\0';)
	{
		const char *end = strchr(at, '\n');

		if (end == NULL)
			return true;
		if (!signature_has_line(old, at, end - at) &&
			(end - at < 2 || memcmp(end - 2, " -", 2) != 0))
			return true;
		at = end + 1;
	}
	return false;
}

/*
 * A default that is stored for older rows shows as "m", but not any more when the
 * table has been written anew since, as CLUSTER does in the same transaction.
 */
static bool
signature_adds_column(const char *old, const char *new)
{
	for (const char *at = new, *end; (end = strchr(at, '\n')) != NULL; at = end + 1)
		if (*at >= '0' && *at <= '9' && !signature_has_line(old, at, end - at))
			return true;
	return false;
}

bool
shape_makes_stale(const SourceTableDoc *doc, const RelationEntry *entry)
{
	return signature_makes_stale(doc->signature, entry->signature) ||
		(doc->relfilenode != entry->relfilenode &&
		 signature_adds_column(doc->signature, entry->signature));
}

/*
 * The index whose columns are the identity; InvalidOid if there is none.  Under
 * FULL that is the primary key if it is immediate and valid (design 5): two rows
 * may share a deferrable one for a moment.
 */
Oid
identity_index(Relation relation)
{
	char		identity = relation->rd_rel->relreplident;
	Oid			oid = InvalidOid;
	Relation	index;
	bool		usable;

	/* fills the relcache's index fields */
	(void) RelationGetReplicaIndex(relation);
	if (identity == REPLICA_IDENTITY_FULL)
		oid = relation->rd_pkindex;
	else if (identity != REPLICA_IDENTITY_NOTHING)
		oid = relation->rd_replidindex;
	if (!OidIsValid(oid))
		return InvalidOid;
	index = RelationIdGetRelation(oid);
	if (!RelationIsValid(index))
		return InvalidOid;
	usable = index->rd_index->indimmediate && index->rd_index->indisvalid;
	RelationClose(index);
	return usable ? oid : InvalidOid;
}

/* The identity columns' numbers; NULL if none (design 5). */
Bitmapset *
relation_identity_columns(Relation relation, char *identity)
{
	Oid			oid = identity_index(relation);
	Bitmapset  *columns = NULL;

	*identity = relation->rd_rel->relreplident;
	if (OidIsValid(oid))
	{
		Relation	index = RelationIdGetRelation(oid);

		for (int i = 0; i < index->rd_index->indnkeyatts; i++)
			columns = bms_add_member(columns, index->rd_index->indkey.values[i]);
		RelationClose(index);
	}
	else if (*identity == REPLICA_IDENTITY_FULL)
	{
		TupleDesc	desc = RelationGetDescr(relation);

		for (int i = 0; i < desc->natts; i++)
			if (!TupleDescAttr(desc, i)->attisdropped)
				columns = bms_add_member(columns, i + 1);
	}
	else
		*identity = REPLICA_IDENTITY_NOTHING;
	return columns;
}

static void
build_row_type(RelationEntry *entry, Relation relation)
{
	TupleDesc	desc = RelationGetDescr(relation);
	int			count = entry->conversion->count;
	SyncColumn *columns = palloc0(sizeof(SyncColumn) * Max(count, 1));
	int		   *identity = palloc0(sizeof(int) * Max(count, 1));
	Bitmapset  *keys = relation_identity_columns(relation, &entry->identity);

	entry->row_type.column_count = count;
	for (int i = 0; i < count; i++)
	{
		int			attnum = entry->conversion->columns[i].attnum;
		char	   *name = pstrdup(NameStr(TupleDescAttr(desc, attnum - 1)->attname));

		columns[i].name = (SyncString) {name, (uint32_t) strlen(name)};
		if (bms_is_member(attnum, keys))
		{
			identity[entry->row_type.identity_count++] = i;
			entry->inexact_key |= entry->conversion->columns[i].inexact;
		}
	}
	entry->row_type.columns = columns;
	entry->row_type.identity = identity;
}

/* ---------------------------------------------------------------- entries */

/*
 * Binds the relation's shape to the plan.  False: no query reads it, or it cannot be
 * read for the stream, which has not come to its present shape.
 */
static bool
bind_relation(Worker *worker, RelationEntry *entry, Relation relation)
{
	const RulesName *name = &entry->name;
	SyncArena  *arena = arena_create(0);
	SyncError	error = {0};
	const TableBinding *binding;
	KnownTable *known;
	SourceTable *table;

	if (arena == NULL)
		ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory")));
	binding = plan_bind(worker->plan, name->schema, name->table, &entry->row_type,
						&worker->naming, arena, &error);
	if (binding == NULL)
	{
		arena_destroy(arena);
		if (error.code != SYNC_OK)
			ereport(ERROR,
					(errcode(error.code == SYNC_ERROR_OUT_OF_MEMORY ?
							 ERRCODE_OUT_OF_MEMORY : ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("could not apply the sync rules to table \"%s.%s\"", name->schema,
							name->table),
					 errdetail("%s", error.message)));
		return false;
	}
	table = source_table_create(arena, name->schema, name->table, RelationGetRelid(relation),
								binding, entry->identity != REPLICA_IDENTITY_FULL);
	if (table == NULL)
		ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory")));
	entry->table = table;
	known = entry->known = source_table_for(worker, relation, entry);
	if (known == NULL)
		return false;
	table->id = known->doc.id;
	if (worker->rereading)
		return known->doc.signature == NULL ||
			strcmp(known->doc.signature, entry->signature) == 0;
	table_check_shape(worker, known, entry, false);
	return true;
}

/* Under *name. */
static bool
relation_is_wanted(Worker *worker, Relation relation, RulesName *name)
{
	if (relation->rd_rel->relkind != RELKIND_RELATION ||
		relation->rd_rel->relpersistence != RELPERSISTENCE_PERMANENT ||
		relation->rd_rel->relam != HEAP_TABLE_AM_OID ||
		IsCatalogRelation(relation))
		return false;
	return rules_name(*worker->preloaded->settings.publication, worker->plan, relation->rd_rel,
					  name) &&
		plan_reads_table(worker->plan, name->schema, name->table) &&
		publication_has_relation(&worker->preloaded->settings, relation);
}

RelationEntry *
relation_look(Worker *worker, Relation relation)
{
	RelationEntry *entry = entry_of(RelationGetRelid(relation));
	MemoryContext old;

	if (entry->valid)
		return entry;
	relation_entry_clear(entry);

	/*
	 * Raised first: an invalidation while we build must not be lost, and an
	 * error on the way ends the process.
	 */
	entry->valid = true;
	entry->context = AllocSetContextCreate(TopMemoryContext, "pgsync relation",
										   ALLOCSET_SMALL_SIZES);
	old = MemoryContextSwitchTo(entry->context);
	if (!relation_is_wanted(worker, relation, &entry->name))
	{
		MemoryContextSwitchTo(old);
		return entry;
	}
	entry->through_root = entry->name.relid != entry->relid;
	entry->relfilenode = relation->rd_rel->relfilenode;
	entry->conversion = row_conversion_create(RelationGetDescr(relation),
											  relation->rd_rel->relowner,
											  plan_compatibility(worker->plan));
	build_row_type(entry, relation);
	entry->signature = relation_signature(RelationGetDescr(relation), entry);
	entry->datums = palloc0(sizeof(Datum) * Max(RelationGetDescr(relation)->natts, 1) * 2);
	entry->nulls = palloc0(sizeof(bool) * Max(RelationGetDescr(relation)->natts, 1) * 2);
	entry->values = palloc0(sizeof(SyncValue) * Max(entry->conversion->count, 1));
	entry->old_values = palloc0(sizeof(SyncValue) * Max(entry->conversion->count, 1));
	MemoryContextSwitchTo(old);
	entry->wanted = bind_relation(worker, entry, relation);
	return entry;
}

RelationEntry *
relation_entry(Worker *worker, Relation relation)
{
	RelationEntry *entry = relation_look(worker, relation);

	return entry->wanted ? entry : NULL;
}

static bool
row_is_named_by_rules(Worker *worker, Form_pg_class form)
{
	RulesName	name;

	if (form->relkind != RELKIND_RELATION ||
		form->relpersistence != RELPERSISTENCE_PERMANENT ||
		IsCatalogNamespace(form->relnamespace) || IsToastNamespace(form->relnamespace))
		return false;
	return rules_name(*worker->preloaded->settings.publication, worker->plan, form, &name) &&
		plan_reads_table(worker->plan, name.schema, name.table);
}

/*
 * Tables whose names fit the rules, by oid, as the snapshot of catalogs at hand
 * (the present or a historic one) shows them.
 */
static List *
oids_named_by_rules(Worker *worker)
{
	Relation	catalog = table_open(RelationRelationId, AccessShareLock);
	SysScanDesc scan = systable_beginscan(catalog, ClassOidIndexId, true, NULL, 0, NULL);
	List	   *oids = NIL;
	HeapTuple	tuple;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_class form = (Form_pg_class) GETSTRUCT(tuple);

		if (row_is_named_by_rules(worker, form))
			oids = lappend_oid(oids, form->oid);
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return oids;
}

/* Partitions have names that depend on tables above them. */
static List *
add_partitions(Worker *worker, Oid relid, List *oids)
{
	ListCell   *cell;

	foreach(cell, find_all_inheritors(relid, NoLock, NULL))
	{
		RelationEntry *entry = relation_entry_find(lfirst_oid(cell));

		if (entry != NULL)
			entry->valid = false;
		oids = list_append_unique_oid(oids, lfirst_oid(cell));
	}
	return oids;
}

/* The same, of what was invalidated since the last call. */
List *
relations_touched(Worker *worker)
{
	List	   *oids = NIL;

	if (touched_all)
		oids = oids_named_by_rules(worker);
	else
		for (int i = 0; i < touched_count; i++)
		{
			HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(touched[i]));
			Form_pg_class form;

			if (!HeapTupleIsValid(tuple))
				continue;
			form = (Form_pg_class) GETSTRUCT(tuple);
			if (form->relkind == RELKIND_PARTITIONED_TABLE)
				oids = add_partitions(worker, touched[i], oids);
			else if (row_is_named_by_rules(worker, form))
				oids = list_append_unique_oid(oids, touched[i]);
			ReleaseSysCache(tuple);
		}
	touched_all = false;
	touched_count = 0;
	return oids;
}

/* ---------------------------------------------------------------- tables to copy */

/*
 * Every table that the rules read now, by oid.  Names are resolved here once;
 * the copy of each looks again under its own snapshot.
 */
List *
relations_to_copy(Worker *worker)
{
	List	   *oids = oids_named_by_rules(worker);
	List	   *wanted = NIL;	/* only tables that the rules name are opened: others may be locked */
	ListCell   *cell;

	foreach(cell, oids)
	{
		Relation	relation = try_table_open(lfirst_oid(cell), AccessShareLock);
		RulesName	name;

		if (relation == NULL)
			continue;
		if (relation_is_wanted(worker, relation, &name))
			wanted = lappend_oid(wanted, lfirst_oid(cell));
		table_close(relation, AccessShareLock);
	}
	return wanted;
}
