/*-------------------------------------------------------------------------
 *
 * ddl.c
 *	  What DDL that the stream meets does to source tables: they get another
 *	  shape, are new, are replaced, lose their rows, or are due to be copied again
 *	  (design 4: "Stale").
 *
 * All of it acts at its place in the stream, never when a copy sees it: while rows
 * are read the catalogs may be ahead of the stream, and after a crash the stream
 * comes again to what was taken in before.
 *
 * Invariant: a stored signature is the table's shape at or after signature_lsn,
 * except for changes of it that the stream has not met; rows that were stored under
 * another one that would give otherwise are due to be copied.
 *
 *-------------------------------------------------------------------------
 */
#include "worker.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/sysattr.h"
#include "access/table.h"
#include "access/transam.h"
#include "catalog/pg_attribute.h"
#include "replication/reorderbuffer.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/relcache.h"

/* ---------------------------------------------------------------- shape */

/*
 * The position up to which history is taken into the stored signature: by a copy,
 * or before the worker started again.  What is met of that is older than what is
 * stored, and stale only if it differs from that: a row that is written again as it
 * was then stays so.  Of the transaction at that very position only the end counts,
 * unless this process has set it there.
 */
static bool
is_history(Worker *worker, const KnownTable *known, bool at_end)
{
	uint64_t	end = worker->transaction_end;
	uint64_t	taken = known->doc.signature_lsn;

	return end < taken || (end == taken && known->shape_end != end && !at_end);
}

void
table_check_shape(Worker *worker, KnownTable *known, RelationEntry *entry, bool at_end)
{
	static const char *const reason = "its shape changed so that rows that are not written again would differ";
	SourceTableDoc *doc = &known->doc;
	bool		stale;

	if (worker->decoding == NULL)
		return;
	if (doc->signature != NULL && strcmp(doc->signature, entry->signature) == 0)
	{
		/* rows of the older shape may have been stored in the round */
		if (known->older_shape)
			source_table_mark_anew(worker, known, reason);
		known->older_shape = false;
		/* of a copy that is going on it is the progress */
		if (!doc->stale)
			doc->relfilenode = entry->relfilenode;
		return;
	}
	if (doc->signature != NULL && is_history(worker, known, at_end))
	{
		/* what is being read now lies behind it in the WAL: only what is stored counts */
		if (!signature_makes_stale(entry->signature, doc->signature))
			return;
		known->older_shape = true;
		(void) source_table_mark(worker, known, reason);
		return;
	}
	stale = doc->signature != NULL && shape_makes_stale(doc, entry);
	known->older_shape = false;
	recopy_drop_chunk(known);
	if (doc->signature != NULL)
		pfree(doc->signature);
	doc->signature = MemoryContextStrdup(TopMemoryContext, entry->signature);
	doc->signature_lsn = known->shape_end = worker->transaction_end;
	if (!doc->stale)
		doc->relfilenode = entry->relfilenode;
	if (stale && !doc->replaced)
		source_table_mark_anew(worker, known, reason);
	else
		source_table_store(worker, known);
}

/*
 * A row of the new file of a table that ALTER TABLE writes anew.  Untouched rows
 * can get other values by that, and the table's shape need not tell: a volatile
 * default, USING without another type, another expression of a generated column
 * (17 and newer).  VACUUM FULL and CLUSTER change no row, and do not come here.  Nor
 * does it matter what another access method gets: such a table is none of ours at
 * the end of its transaction, and that of one that was unlogged is not known yet.
 * Once for each time: all rows come here.  What the stream has stored since the table
 * was marked last may have other keys now.
 */
void
note_rewritten_table(Worker *worker, Oid relid, Oid new_heap)
{
	ListCell   *cell;

	if (!relation_note_rewritten(worker, relid, new_heap))
		return;
	foreach(cell, worker->tables)
	{
		KnownTable *known = lfirst(cell);

		if (known->doc.relation_id == relid)
			source_table_mark_anew(worker, known, "ALTER TABLE wrote it anew");
	}
}

/* ---------------------------------------------------------------- new relations */

static bool
is_of_transaction(const ReorderBufferTXN *transaction, TransactionId xid)
{
	dlist_iter	part;

	if (transaction->xid == xid)
		return true;
	dlist_foreach(part, &((ReorderBufferTXN *) transaction)->subtxns)
		if (dlist_container(ReorderBufferTXN, node, part.cur)->xid == xid)
			return true;
	return false;
}

/*
 * The row of a system column in pg_attribute is written when the relation is created
 * and never again, so its xmin tells who created it.
 */
static bool
was_created_in(const ReorderBufferTXN *transaction, Oid relid)
{
	Relation	catalog = table_open(AttributeRelationId, AccessShareLock);
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	tuple;
	bool		created;

	ScanKeyInit(&keys[0], Anum_pg_attribute_attrelid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(relid));
	ScanKeyInit(&keys[1], Anum_pg_attribute_attnum, BTEqualStrategyNumber, F_INT2EQ,
				Int16GetDatum(TableOidAttributeNumber));
	scan = systable_beginscan(catalog, AttributeRelidNumIndexId, true, NULL, 2, keys);
	tuple = systable_getnext(scan);
	created = HeapTupleIsValid(tuple) &&
		is_of_transaction(transaction, HeapTupleHeaderGetXmin(tuple->t_data));
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return created;
}

/*
 * Do all rows of the relation come through the stream, from here on?  If the present
 * transaction has created it, and no row of it was passed over before: as one of a
 * name that the rules do not know or of a table that was not published yet, as one of
 * an unlogged table (whose rows come when it is written anew), or as one of a table
 * with another identity.
 */
bool
relation_is_new(Worker *worker, Relation relation, const RelationEntry *entry)
{
	ListCell   *cell;

	if (entry->skipped_at == worker->transaction_end ||
		entry->rewritten_at == worker->transaction_end)
		return false;
	foreach(cell, worker->tables)
		if (((KnownTable *) lfirst(cell))->doc.relation_id == RelationGetRelid(relation))
			return false;
	return was_created_in(worker->transaction, RelationGetRelid(relation));
}

/* ---------------------------------------------------------------- the end of a transaction */

/* Meets what now bears a name of the rules, and what else may have changed. */
static void
look_again(Worker *worker)
{
	List	   *oids = relations_touched(worker);
	ListCell   *cell;

	foreach(cell, worker->tables)
	{
		KnownTable *known = lfirst(cell);
		RelationEntry *entry = relation_entry_find(known->doc.relation_id);

		if (!known->dropped && (entry == NULL || !entry->valid))
			oids = list_append_unique_oid(oids, known->doc.relation_id);
	}
	foreach(cell, oids)
	{
		Relation	relation = RelationIdGetRelation(lfirst_oid(cell));

		if (RelationIsValid(relation))
		{
			(void) relation_look(worker, relation);
			RelationClose(relation);
		}
	}
	list_free(oids);
}

/*
 * The entry by which the stream now stores rows under the table; NULL: by none.  What
 * other sessions do now can have made it invalid since it was looked at last.
 */
static RelationEntry *
entry_in_use(Worker *worker, const KnownTable *known)
{
	Relation	relation = RelationIdGetRelation(known->doc.relation_id);
	RelationEntry *entry;

	if (!RelationIsValid(relation))
		return NULL;
	entry = relation_look(worker, relation);
	RelationClose(relation);
	return entry->wanted && entry->known == known ? entry : NULL;
}

/* Another source table that has taken over the name, and whose rows are still to come. */
static KnownTable *
find_successor(Worker *worker, const KnownTable *known)
{
	ListCell   *cell;

	foreach(cell, worker->tables)
	{
		KnownTable *other = lfirst(cell);
		RelationEntry *entry;

		if (other == known || !source_table_is_due(other) ||
			strcmp(other->doc.schema, known->doc.schema) != 0 ||
			strcmp(other->doc.name, known->doc.name) != 0)
			continue;
		/* a partition that shares its root's name brings its own rows only */
		entry = entry_in_use(worker, other);
		if (entry != NULL &&
			(!entry->through_root || other->doc.relation_id == known->doc.relation_id))
			return other;
	}
	return NULL;
}

/* Without its publication every table of the rules counts, which status has to tell. */
static void
check_publication(Worker *worker)
{
	if (!publications_changed())
		return;
	worker->publication.missing = publication_is_missing(&worker->preloaded->settings);
	worker_show_warnings(worker);
}

/*
 * At the end of a transaction that changed catalogs: tables that now bear a name of
 * the rules are met; changes of shape and identity are noticed; and source tables that
 * are gone, renamed away or not published any more lose their rows here, at their
 * place in the stream, unless another one is about to bring what clients see of them.
 */
void
relations_check_after_ddl(Worker *worker)
{
	ListCell   *cell;

	worker->tables_touched = false;
	check_publication(worker);
	look_again(worker);
	foreach(cell, worker->tables)
	{
		KnownTable *known = lfirst(cell);
		RelationEntry *entry = known->dropped ? NULL : entry_in_use(worker, known);

		if (entry == NULL)
			continue;
		/* it was away in the middle of the transaction: by name or from the publication */
		if (entry->skipped_at == worker->transaction_end)
			source_table_mark_anew(worker, known, "changes of it were passed over while it was not under the rules");
		table_check_shape(worker, known, entry, true);
	}
	foreach(cell, worker->tables)
	{
		KnownTable *known = lfirst(cell);
		KnownTable *successor;

		if (known->dropped || entry_in_use(worker, known) != NULL)
			continue;
		successor = find_successor(worker, known);
		if (successor != NULL)
			source_table_replace(worker, known, successor);
		else
			source_table_drop(worker, known);
	}
}
