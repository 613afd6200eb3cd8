/*-------------------------------------------------------------------------
 *
 * batch.c
 *	  Batches of items on their way to the writer, and the source tables that
 *	  they refer to.
 *
 * A batch belongs to the main thread until it is submitted and to the storage
 * thread from then on; a source table belongs to both and is counted.
 *
 * Invariant: freeing a batch gives back every table reference its items hold.
 *
 *-------------------------------------------------------------------------
 */
#include "mongo/writer_private.h"

#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- tables */

SourceTable *
source_table_create(SyncArena *arena, const char *schema, const char *name, uint32_t relation_id,
					const TableBinding *binding, bool keep_row_copy)
{
	SourceTable *volatile table = NULL;
	ArenaGuard	guard;

	arena_guard_push(arena, &guard);
	if (setjmp(guard.jump) == 0)
	{
		SourceTable *made = arena_new(arena, SourceTable);

		atomic_init(&made->references, 1);
		made->arena = arena;
		made->relation_id = relation_id;
		made->schema = arena_strndup(arena, schema, strlen(schema));
		made->name = arena_strndup(arena, name, strlen(name));
		made->binding = binding;
		made->keep_row_copy = keep_row_copy;
		table = made;
	}
	arena_guard_pop(arena, &guard);
	if (table == NULL)
		arena_destroy(arena);
	return table;
}

SourceTable *
source_table_retain(SourceTable *table)
{
	atomic_fetch_add(&table->references, 1);
	return table;
}

void
source_table_release(SourceTable *table)
{
	if (table != NULL && atomic_fetch_sub(&table->references, 1) == 1)
		arena_destroy(table->arena);	/* the table lives in it */
}

static char *
copy_text(const char *text, SyncArena *arena)
{
	return text != NULL ? arena_strndup(arena, text, strlen(text)) : NULL;
}

SourceTableDoc *
source_table_doc_copy(const SourceTableDoc *doc, SyncArena *arena)
{
	SourceTableDoc *copy = arena_new(arena, SourceTableDoc);

	*copy = *doc;
	copy->schema = copy_text(doc->schema, arena);
	copy->name = copy_text(doc->name, arena);
	copy->signature = copy_text(doc->signature, arena);
	copy->identity_names = arena_array(arena, char *, (size_t) doc->identity_count);
	copy->identity_types = arena_array(arena, uint32_t, (size_t) doc->identity_count);
	for (int i = 0; i < doc->identity_count; i++)
	{
		copy->identity_names[i] = copy_text(doc->identity_names[i], arena);
		copy->identity_types[i] = doc->identity_types[i];
	}
	return copy;
}

/* ---------------------------------------------------------------- batches */

WriteBatch *
write_batch_create(void)
{
	BatchNode  *node = calloc(1, sizeof(BatchNode));

	if (node == NULL)
		return NULL;
	node->batch.arena = arena_create(0);
	if (node->batch.arena == NULL)
	{
		free(node);
		return NULL;
	}
	return &node->batch;
}

WriteItem *
write_batch_add(WriteBatch *batch, WriteItemKind kind, uint64_t lsn)
{
	WriteItem  *item = arena_new(batch->arena, WriteItem);

	item->kind = kind;
	item->lsn = lsn;
	if (batch->last != NULL)
		batch->last->next = item;
	else
		batch->first = item;
	batch->last = item;
	batch->item_count++;
	return item;
}

void
write_batch_free(WriteBatch *batch)
{
	if (batch == NULL)
		return;
	for (WriteItem *item = batch->first; item != NULL; item = item->next)
	{
		/* an item may have been added and not filled in */
		if (item->kind == WRITE_ROW && item->row != NULL)
			source_table_release(item->row->table);
		else if (item->kind == WRITE_TRUNCATE)
			source_table_release(item->table);
	}
	arena_destroy(batch->arena);
	free((BatchNode *) batch);
}
