/*-------------------------------------------------------------------------
 *
 * relation.c
 *	  What the rules do with each relation, in the shape it has at the change
 *	  being decoded: column conversion, replica identity, binding to the plan,
 *	  and the source table that its rows are stored under.
 *
 * Entries are built from the present snapshot, which in decoding is the historic
 * one, and thrown away at invalidation.  What must survive a restart is in the
 * storage (SourceTableDoc).
 *
 * Invariant: a source table's identity never changes: another relation, name or
 * set of identity columns is another source table, and the rows of the old one
 * are removed first (storage-contract.md, section 6).
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
#include "access/sysattr.h"
#include "access/transam.h"
#include "catalog/pg_am.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_class.h"
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

static void
relation_entry_clear(RelationEntry *entry)
{
	Oid			relid = entry->relid;

	if (entry->table)
		source_table_release(entry->table);
	if (entry->context)
		MemoryContextDelete(entry->context);
	memset(entry, 0, sizeof(*entry));
	entry->relid = relid;
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
			identity[entry->row_type.identity_count++] = i;
	}
	entry->row_type.columns = columns;
	entry->row_type.identity = identity;
}

/* ---------------------------------------------------------------- source tables */

KnownTable *
known_table_find(Worker *worker, const SourceTableId *id)
{
	ListCell   *cell;

	foreach(cell, worker->tables)
	{
		KnownTable *known = lfirst(cell);

		if (!known->dropped && memcmp(&known->doc.id, id, sizeof(*id)) == 0)
			return known;
	}
	return NULL;
}

static bool
table_is_compatible(const SourceTableDoc *doc, const char *schema, Relation relation,
					const RelationEntry *entry)
{
	TupleDesc	desc = RelationGetDescr(relation);

	if (doc->relation_id != RelationGetRelid(relation) ||
		strcmp(doc->schema, schema) != 0 ||
		strcmp(doc->name, RelationGetRelationName(relation)) != 0 ||
		doc->identity_count != entry->row_type.identity_count)
		return false;
	for (int i = 0; i < doc->identity_count; i++)
	{
		int			position = entry->row_type.identity[i];
		Form_pg_attribute attribute =
			TupleDescAttr(desc, entry->conversion->columns[position].attnum - 1);

		if (strcmp(doc->identity_names[i], NameStr(attribute->attname)) != 0 ||
			doc->identity_types[i] != attribute->atttypid)
			return false;
	}
	return true;
}

/* Adds an item with the table's document to the batch; strings are copied. */
static void
submit_table_doc(Worker *worker, const SourceTableDoc *doc, WriteItemKind kind)
{
	WriteBatch *batch = worker_batch(worker);
	WriteItem  *item = write_batch_add(batch, kind, 0);

	item->table_doc = source_table_doc_copy(doc, batch->arena);
}

static void
source_table_drop(Worker *worker, KnownTable *known)
{
	decode_begin_write(worker);
	write_batch_add(worker_batch(worker), WRITE_TABLE_DROP, 0)->table_id = known->doc.id;
	known->dropped = true;
}

static KnownTable *
new_source_table(Worker *worker, const char *schema, Relation relation, RelationEntry *entry)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);
	KnownTable *known = palloc0(sizeof(KnownTable));
	SourceTableDoc *doc = &known->doc;
	TupleDesc	desc = RelationGetDescr(relation);

	doc->id = source_table_id_new();
	doc->relation_id = RelationGetRelid(relation);
	doc->schema = pstrdup(schema);
	doc->name = pstrdup(RelationGetRelationName(relation));
	doc->identity_count = entry->row_type.identity_count;
	doc->identity_names = palloc0(sizeof(char *) * Max(doc->identity_count, 1));
	doc->identity_types = palloc0(sizeof(uint32_t) * Max(doc->identity_count, 1));
	for (int i = 0; i < doc->identity_count; i++)
	{
		int			position = entry->row_type.identity[i];
		Form_pg_attribute attribute =
			TupleDescAttr(desc, entry->conversion->columns[position].attnum - 1);

		doc->identity_names[i] = pstrdup(NameStr(attribute->attname));
		doc->identity_types[i] = attribute->atttypid;
	}
	doc->rows_estimated = -1;
	if (worker->decoding != NULL)
	{
		/* met in the stream: all rows of a new table come through it */
		doc->snapshot_done = true;
		doc->copied_in_stream = true;
		doc->signature = pstrdup(entry->signature);
	}
	worker->tables = lappend(worker->tables, known);
	MemoryContextSwitchTo(old);
	submit_table_doc(worker, doc, WRITE_TABLE);
	return known;
}

/*
 * Was the relation created after the stream's start?  Then all its rows come
 * through the stream.  The row of a system column in pg_attribute is written when
 * the relation is created and never again, so its xmin tells.
 */
static bool
relation_is_new(Worker *worker, Relation relation)
{
	Relation	catalog = table_open(AttributeRelationId, AccessShareLock);
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	tuple;
	bool		is_new = false;

	ScanKeyInit(&keys[0], Anum_pg_attribute_attrelid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(RelationGetRelid(relation)));
	ScanKeyInit(&keys[1], Anum_pg_attribute_attnum, BTEqualStrategyNumber, F_INT2EQ,
				Int16GetDatum(TableOidAttributeNumber));
	scan = systable_beginscan(catalog, AttributeRelidNumIndexId, true, NULL, 2, keys);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple) && !HeapTupleHeaderXminFrozen(tuple->t_data) &&
		worker->start_xid != 0)
	{
		TransactionId created = HeapTupleHeaderGetXmin(tuple->t_data);

		/* an xid that is not frozen is within half of the xid space of the present */
		is_new = TransactionIdFollowsOrEquals(created, (TransactionId) worker->start_xid) &&
			U64FromFullTransactionId(ReadNextFullTransactionId()) - worker->start_xid < MaxTransactionId / 2;
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return is_new;
}

/*
 * The source table of a relation; makes one if there is none.  What would need a
 * copy while the stream runs makes a new stream instead: the old one stays
 * served until that is complete.
 */
static KnownTable *
source_table_for(Worker *worker, const char *schema, Relation relation, RelationEntry *entry)
{
	KnownTable *found = NULL;
	ListCell   *cell;

	foreach(cell, worker->tables)
	{
		KnownTable *known = lfirst(cell);
		SourceTableDoc *doc = &known->doc;

		if (known->dropped)
			continue;
		if (table_is_compatible(doc, schema, relation, entry))
			found = known;
		else if (worker->rereading)
			continue;
		else if (doc->relation_id == RelationGetRelid(relation))
			worker_replace_stream(worker,
								  psprintf("table \"%s.%s\" changed its name or identity",
										   doc->schema, doc->name));
		else if (strcmp(doc->schema, schema) == 0 &&
				 strcmp(doc->name, RelationGetRelationName(relation)) == 0)
		{
			/* another relation of that name: the rows of the old one go first */
			if (worker->decoding == NULL)
				worker_replace_stream(worker,
									  psprintf("table \"%s.%s\" was replaced during the initial copy",
											   doc->schema, doc->name));
			source_table_drop(worker, known);
		}
	}
	if (found != NULL || worker->rereading)
		return found;
	if (worker->decoding != NULL)
	{
		if (!relation_is_new(worker, relation))
			worker_replace_stream(worker,
								  psprintf("table \"%s.%s\" came under the rules with rows that are not copied",
										   schema, RelationGetRelationName(relation)));
		decode_begin_write(worker);
	}
	return new_source_table(worker, schema, relation, entry);
}

/*
 * A shape other than the one stored: before the stream is active the whole stream
 * starts again; later the table is marked stale if untouched rows would differ.
 * The new shape is stored in the same transaction.
 */
static void
check_shape(Worker *worker, KnownTable *known, RelationEntry *entry)
{
	SourceTableDoc *doc = &known->doc;
	MemoryContext old;

	if (doc->signature == NULL || worker->decoding == NULL ||
		strcmp(doc->signature, entry->signature) == 0)
		return;
	if (!worker->was_active)
		worker_replace_stream(worker,
							  psprintf("table \"%s.%s\" changed its shape before the stream was active",
									   doc->schema, doc->name));
	if (signature_makes_stale(doc->signature, entry->signature) && !doc->stale)
	{
		doc->stale = true;
		ereport(LOG,
				(errmsg("rows of table \"%s.%s\" that are not written again may be stale in the buckets",
						doc->schema, doc->name),
				 errdetail("The table's shape changed in a way that changes what untouched rows give."),
				 errhint("Deploy the rules again with pgsync_deploy() to copy it anew.")));
	}
	old = MemoryContextSwitchTo(TopMemoryContext);
	pfree(doc->signature);
	doc->signature = pstrdup(entry->signature);
	MemoryContextSwitchTo(old);
	decode_begin_write(worker);
	submit_table_doc(worker, doc, WRITE_TABLE);
	worker_show_warnings(worker);
}

/* Binds the relation's shape to the plan; false if no query reads it. */
static bool
bind_relation(Worker *worker, RelationEntry *entry, const char *schema, Relation relation)
{
	SyncArena  *arena = arena_create(0);
	SyncError	error = {0};
	const TableBinding *binding;
	KnownTable *known;
	SourceTable *table;

	if (arena == NULL)
		ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory")));
	binding = plan_bind(worker->plan, schema, RelationGetRelationName(relation),
						&entry->row_type, &worker->naming, arena, &error);
	if (binding == NULL)
	{
		arena_destroy(arena);
		if (error.code != SYNC_OK)
			ereport(ERROR,
					(errcode(error.code == SYNC_ERROR_OUT_OF_MEMORY ?
							 ERRCODE_OUT_OF_MEMORY : ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("could not apply the sync rules to table \"%s.%s\"", schema,
							RelationGetRelationName(relation)),
					 errdetail("%s", error.message)));
		return false;
	}
	table = source_table_create(arena, schema, RelationGetRelationName(relation),
								RelationGetRelid(relation), binding,
								entry->identity != REPLICA_IDENTITY_FULL);
	if (table == NULL)
		ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory")));
	entry->table = table;
	known = source_table_for(worker, schema, relation, entry);
	if (known == NULL ||
		(worker->rereading && known->doc.signature != NULL &&
		 strcmp(known->doc.signature, entry->signature) != 0))
		return false;
	table->id = known->doc.id;
	check_shape(worker, known, entry);
	return true;
}

static bool
relation_is_wanted(Worker *worker, const char *schema, Relation relation)
{
	if (relation->rd_rel->relkind != RELKIND_RELATION ||
		relation->rd_rel->relpersistence != RELPERSISTENCE_PERMANENT ||
		relation->rd_rel->relam != HEAP_TABLE_AM_OID ||
		IsCatalogRelation(relation))
		return false;
	return plan_reads_table(worker->plan, schema, RelationGetRelationName(relation)) &&
		publication_has_relation(&worker->preloaded->settings, relation);
}

RelationEntry *
relation_entry(Worker *worker, Relation relation)
{
	Oid			relid = RelationGetRelid(relation);
	RelationEntry *entry;
	bool		found;
	MemoryContext old;
	char	   *schema;

	entry = hash_search(relation_cache, &relid, HASH_ENTER, &found);
	if (!found)
	{
		memset(entry, 0, sizeof(*entry));
		entry->relid = relid;
	}
	if (found && entry->valid)
		return entry->wanted ? entry : NULL;

	relation_entry_clear(entry);

	/*
	 * Raised first: an invalidation while we build must not be lost, and an
	 * error on the way ends the process.
	 */
	entry->valid = true;
	schema = get_namespace_name(RelationGetNamespace(relation));
	if (schema == NULL || !relation_is_wanted(worker, schema, relation))
		return NULL;

	entry->context = AllocSetContextCreate(TopMemoryContext, "pgsync relation",
										   ALLOCSET_SMALL_SIZES);
	old = MemoryContextSwitchTo(entry->context);
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
	entry->wanted = bind_relation(worker, entry, schema, relation);
	return entry->wanted ? entry : NULL;
}

static bool
row_is_named_by_rules(Worker *worker, Form_pg_class form)
{
	char	   *schema;
	bool		result;

	if (form->relkind != RELKIND_RELATION ||
		form->relpersistence != RELPERSISTENCE_PERMANENT ||
		IsCatalogNamespace(form->relnamespace) || IsToastNamespace(form->relnamespace))
		return false;
	schema = get_namespace_name(form->relnamespace);
	if (schema == NULL)
		return false;
	result = plan_reads_table(worker->plan, schema, NameStr(form->relname));
	pfree(schema);
	return result;
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

/* The same, of what was invalidated since the last call. */
static List *
touched_oids_named_by_rules(Worker *worker)
{
	List	   *oids = NIL;

	if (touched_all)
		oids = oids_named_by_rules(worker);
	else
		for (int i = 0; i < touched_count; i++)
		{
			HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(touched[i]));

			if (!HeapTupleIsValid(tuple))
				continue;
			if (row_is_named_by_rules(worker, (Form_pg_class) GETSTRUCT(tuple)))
				oids = list_append_unique_oid(oids, touched[i]);
			ReleaseSysCache(tuple);
		}
	touched_all = false;
	touched_count = 0;
	return oids;
}

/* ---------------------------------------------------------------- after DDL */

/*
 * At the end of a transaction that changed catalogs: source tables that are gone,
 * renamed away or not published any more lose their rows here, at their place
 * in the stream; changes of shape and identity are noticed; and tables that now
 * bear a name of the rules are met.
 */
void
relations_check_after_ddl(Worker *worker)
{
	List	   *tables = list_copy(worker->tables);
	List	   *oids;
	ListCell   *cell;

	foreach(cell, tables)
	{
		KnownTable *known = lfirst(cell);
		Oid			relid = known->doc.relation_id;
		RelationEntry *entry = hash_search(relation_cache, &relid, HASH_FIND, NULL);
		Relation	relation;
		bool		wanted = false;

		if (known->dropped || (entry != NULL && entry->valid))
			continue;
		relation = RelationIdGetRelation(relid);
		if (RelationIsValid(relation))
		{
			wanted = relation_entry(worker, relation) != NULL;
			RelationClose(relation);
		}
		if (!wanted && !known->dropped)
			source_table_drop(worker, known);
	}
	list_free(tables);

	oids = touched_oids_named_by_rules(worker);
	foreach(cell, oids)
	{
		Relation	relation = RelationIdGetRelation(lfirst_oid(cell));

		if (RelationIsValid(relation))
		{
			(void) relation_entry(worker, relation);
			RelationClose(relation);
		}
	}
	list_free(oids);
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
		char	   *schema;

		if (relation == NULL)
			continue;
		schema = get_namespace_name(RelationGetNamespace(relation));
		if (schema != NULL && relation_is_wanted(worker, schema, relation))
			wanted = lappend_oid(wanted, lfirst_oid(cell));
		table_close(relation, AccessShareLock);
	}
	return wanted;
}
