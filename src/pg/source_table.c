/*-------------------------------------------------------------------------
 *
 * source_table.c
 *	  The source tables of the stream: which one a relation's rows are stored
 *	  under, and which of them are due to be copied under the stream.
 *
 * A source table is one relation under one name with one identity.  Whatever of
 * that changes makes another source table (storage-contract.md, section 6).  Where
 * its rows do not all come through the stream it is due to be copied, and the one
 * that had its name is replaced: the rows of that stay, so that clients do not miss
 * them, until the copy is complete.
 *
 * What is noted here is stored at its place in the stream (WRITE_TABLE), so a
 * worker that starts again goes on from it.
 *
 * Invariant: from the place on where a table is marked, every change of it in the
 * stream carries a round of its copy that no stored row had before.
 *
 *-------------------------------------------------------------------------
 */
#include "worker.h"

#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/rel.h"

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

bool
source_table_is_due(const KnownTable *known)
{
	return !known->dropped && known->doc.stale && !known->doc.replaced;
}

static bool
has_name(const SourceTableDoc *doc, const char *schema, const char *name)
{
	return strcmp(doc->schema, schema) == 0 && strcmp(doc->name, name) == 0;
}

static bool
table_is_compatible(const SourceTableDoc *doc, Relation relation, const RelationEntry *entry)
{
	TupleDesc	desc = RelationGetDescr(relation);

	if (doc->relation_id != RelationGetRelid(relation) ||
		!has_name(doc, entry->name.schema, entry->name.table) ||
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

/* ---------------------------------------------------------------- storing */

void
submit_table_doc(Worker *worker, const SourceTableDoc *doc, WriteItemKind kind)
{
	WriteBatch *batch = worker_batch(worker);
	WriteItem  *item = write_batch_add(batch, kind, 0);

	item->table_doc = source_table_doc_copy(doc, batch->arena);
}

void
source_tables_changed(Worker *worker)
{
	ListCell   *cell;

	worker->copies_due = false;
	foreach(cell, worker->tables)
		worker->copies_due |= source_table_is_due(lfirst(cell));
	worker_show_warnings(worker);
}

void
source_table_store(Worker *worker, KnownTable *known)
{
	decode_begin_write(worker);
	submit_table_doc(worker, &known->doc, WRITE_TABLE);
	source_tables_changed(worker);
}

void
source_table_drop(Worker *worker, KnownTable *known)
{
	recopy_abandon(known);
	decode_begin_write(worker);
	write_batch_add(worker_batch(worker), WRITE_TABLE_DROP, 0)->table_id = known->doc.id;
	known->dropped = true;
	source_tables_changed(worker);
}

static bool
is_replaced_by(const KnownTable *known, const KnownTable *successor)
{
	return !known->dropped && known->doc.replaced &&
		memcmp(&known->doc.replaced_by, &successor->doc.id, sizeof(SourceTableId)) == 0;
}

void
source_tables_drop_replaced(Worker *worker, KnownTable *successor)
{
	ListCell   *cell;

	foreach(cell, worker->tables)
		if (is_replaced_by(lfirst(cell), successor))
			source_table_drop(worker, lfirst(cell));
}

void
source_table_replace(Worker *worker, KnownTable *known, KnownTable *successor)
{
	if (is_replaced_by(known, successor))
		return;
	recopy_abandon(known);
	known->doc.replaced = true;
	known->doc.replaced_by = successor->doc.id;
	source_table_store(worker, known);
}

/* ---------------------------------------------------------------- copies that are due */

static bool
is_due_not_begun(const KnownTable *known)
{
	return known->doc.stale && known->doc.copy_round > 0 && !recopy_has_begun(known);
}

/* From here on a new round of the table's copy is due. */
static void
begin_round(Worker *worker, KnownTable *known, const char *reason)
{
	SourceTableDoc *doc = &known->doc;
	bool		was_due = is_due_not_begun(known);

	recopy_abandon(known);
	doc->stale = true;
	doc->copy_round++;
	doc->next_tid = 0;
	doc->relfilenode = 0;
	doc->rows_copied = 0;
	known->reason = reason;
	known->next_look = 0;
	known->pause = 0;
	if (!was_due)
		ereport(LOG,
				(errmsg("pgsync will copy table \"%s.%s\" again for replication stream %d: %s",
						doc->schema, doc->name, worker->stream->id, reason)));
}

bool
source_table_mark(Worker *worker, KnownTable *known, const char *reason)
{
	/* rows that wait to be removed are not mended any more */
	if (known->dropped || known->doc.replaced)
		return false;
	if (is_due_not_begun(known))
		return false;
	begin_round(worker, known, reason);
	source_table_store(worker, known);
	return true;
}

void
source_table_mark_anew(Worker *worker, KnownTable *known, const char *reason)
{
	if (known->dropped || known->doc.replaced)
		return;
	begin_round(worker, known, reason);
	source_table_store(worker, known);
}

/*
 * A row is passed over since under the catalog of its time the rules did not read the
 * relation, which they do by now: neither a publication nor the name of a schema waits,
 * when it is changed, for the end of who writes a table.  No copy that was begun before
 * here need have seen the row.
 */
void
source_table_passed_over(Worker *worker, Oid relid)
{
	ListCell   *cell;

	foreach(cell, worker->tables)
	{
		KnownTable *known = lfirst(cell);

		if (known->doc.relation_id == relid)
			(void) source_table_mark(worker, known, "rows of it were written before it came under the rules");
	}
}

/* ---------------------------------------------------------------- which one */

/* In memory only. */
static KnownTable *
new_source_table(Worker *worker, Relation relation, RelationEntry *entry)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);
	KnownTable *known = palloc0(sizeof(KnownTable));
	SourceTableDoc *doc = &known->doc;
	TupleDesc	desc = RelationGetDescr(relation);

	doc->id = source_table_id_new();
	doc->relation_id = RelationGetRelid(relation);
	doc->schema = pstrdup(entry->name.schema);
	doc->name = pstrdup(entry->name.table);
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
	worker->tables = lappend(worker->tables, known);
	MemoryContextSwitchTo(old);
	return known;
}

/* The others of the name that this one has taken over.  Partitions of one table share its. */
static void
replace_others(Worker *worker, const RelationEntry *entry, KnownTable *successor)
{
	ListCell   *cell;

	foreach(cell, worker->tables)
	{
		KnownTable *known = lfirst(cell);

		if (known != successor && !known->dropped &&
			(!entry->through_root || known->doc.relation_id == entry->relid) &&
			has_name(&known->doc, successor->doc.schema, successor->doc.name))
			source_table_replace(worker, known, successor);
	}
}

/* A relation that the stream meets for the first time as it is. */
static KnownTable *
met_in_stream(Worker *worker, Relation relation, RelationEntry *entry)
{
	bool		is_new = relation_is_new(worker, relation, entry);
	KnownTable *known = new_source_table(worker, relation, entry);
	SourceTableDoc *doc = &known->doc;

	/* whatever of it is not stored yet comes through the stream, or with its copy */
	doc->snapshot_done = true;
	doc->copied_in_stream = is_new;
	doc->signature = MemoryContextStrdup(TopMemoryContext, entry->signature);
	doc->signature_lsn = known->shape_end = worker->transaction_end;
	doc->relfilenode = entry->relfilenode;
	if (!is_new)
	{
		/* what is changed from here on is not seen under the name it had before */
		entry->skipped_at = worker->transaction_end;
		begin_round(worker, known, "rows of it have not come through the stream");
	}
	source_table_store(worker, known);
	if (!is_new)
		replace_others(worker, entry, known);
	worker->tables_touched = true;
	return known;
}

/*
 * A source table that was replaced is the relation's again: DDL was taken back, or
 * the stream is at an earlier place than the storage.  It has missed changes.
 */
static void
take_up_again(Worker *worker, const RelationEntry *entry, KnownTable *known)
{
	known->doc.replaced = false;
	begin_round(worker, known, "another table had its place for a while");
	source_table_store(worker, known);
	replace_others(worker, entry, known);
	worker->tables_touched = true;
}

KnownTable *
source_table_for(Worker *worker, Relation relation, RelationEntry *entry)
{
	KnownTable *found = NULL;
	bool		same_relation = false;
	ListCell   *cell;

	foreach(cell, worker->tables)
	{
		KnownTable *known = lfirst(cell);

		if (known->dropped || known->doc.relation_id != RelationGetRelid(relation))
			continue;
		same_relation = true;
		if (table_is_compatible(&known->doc, relation, entry))
			found = known;
	}
	if (worker->rereading)
		return found;
	if (worker->decoding == NULL)
	{
		/* what made another source table of it acts at its place in the stream */
		if (found == NULL && same_relation)
			return NULL;
		if (found == NULL)
		{
			found = new_source_table(worker, relation, entry);
			submit_table_doc(worker, &found->doc, WRITE_TABLE);
		}
		return found;
	}
	if (found == NULL)
		return met_in_stream(worker, relation, entry);
	if (found->doc.replaced)
		take_up_again(worker, entry, found);
	return found;
}
