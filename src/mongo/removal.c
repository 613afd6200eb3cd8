/*-------------------------------------------------------------------------
 *
 * removal.c
 *	  All stored rows of one table are removed: TRUNCATE, and the end of a table.
 *
 * Flush by flush, each of as many rows as fit, found by the table's range of
 * row ids.
 *
 * Invariant: complete is said only when no stored row of the table is left after
 * the flush.
 *
 *-------------------------------------------------------------------------
 */
#include "mongo/writer_private.h"

#include <string.h>

/* {_id: {$gte: low, $lte: high}}; low: where the last flush ended, if there was one */
static void
build_table_range(bson_t *filter, const SourceTableId *table, const RowId *from)
{
	RowId		low = row_id_low(table);
	RowId		high = row_id_high(table);
	bson_t		range;

	if (memcmp(from->bytes, low.bytes, SYNC_TABLE_LEN) == 0)
		low = *from;

	BSON_APPEND_DOCUMENT_BEGIN(filter, "_id", &range);
	bson_append_binary(&range, "$gte", -1, BSON_SUBTYPE_BINARY, low.bytes, ROW_ID_LEN);
	bson_append_binary(&range, "$lte", -1, BSON_SUBTYPE_BINARY, high.bytes, ROW_ID_LEN);
	bson_append_document_end(filter, &range);
}

/* Guard set here.  One stored row of the table is removed; false: no room for it, or failed. */
static bool
remove_stored(Flush *flush, const bson_t *document, size_t *bytes, bool *full,
			  StorageError *error)
{
	ArenaGuard	guard;
	volatile bool ok = false;
	RowId		id;
	SyncString	memberships;
	SyncString	copy;

	if (!row_state_document_parts(document, &id, &memberships, &copy))
	{
		storage_error_set(error, STORAGE_INVALID, "a row state document cannot be read");
		return false;
	}
	arena_guard_push(flush->arena, &guard);
	if (setjmp(guard.jump) == 0)
	{
		FlushPoint	before = flush->point;
		RowEntry   *entry = row_map_add(&flush->rows, &id);
		SourceTableId table = row_id_table(&id);
		SourceKey	key = row_id_key(&id);

		entry->existed = entry->loaded = true;
		entry->stored = row_state_decode((const uint8_t *) memberships.data, memberships.len,
										 flush->arena);
		if (entry->stored == NULL)
			storage_error_set(error, STORAGE_INVALID, "a row state document cannot be read");
		else
		{
			remove_row(flush, &table, &key);
			*bytes += document->len;
			if (flush->ops.count > (size_t) flush->writer->document_limit && before.touch_count > 0)
			{
				flush_restore(flush, &before);
				*full = true;
			}
			else
			{
				flush->single_row = flush->ops.count > (size_t) flush->writer->document_limit;
				*full = flush->single_row || *bytes > LOOKUP_BYTES;
				flush_raise_fences(&flush->point);
				flush_save_sizes(flush);
			}
			ok = true;
		}
	}
	else
		set_out_of_memory(error);
	arena_guard_pop(flush->arena, &guard);
	return ok;
}

static bool
make_ready(Flush *flush)
{
	ArenaGuard	guard;
	volatile bool ok = false;

	arena_guard_push(flush->arena, &guard);
	if (setjmp(guard.jump) == 0)
	{
		flush_make_ready(flush);
		ok = true;
	}
	arena_guard_pop(flush->arena, &guard);
	return ok;
}

/*
 * Fills the flush with the removal of a table's stored rows, as many as fit.
 * *complete: none is left after it.
 */
bool
flush_collect_removal(Flush *flush, MongoContext *context, const SourceTableId *table,
					  bool *complete, StorageError *error)
{
	bson_t		filter = BSON_INITIALIZER;
	bson_t		opts = BSON_INITIALIZER;
	bson_t		part;
	mongoc_cursor_t *cursor;
	const bson_t *document;
	int			limit = flush->writer->document_limit;
	size_t		bytes = 0;
	int			count = 0;
	bool		full = false;

	if (!make_ready(flush))
	{
		set_out_of_memory(error);
		return false;
	}
	build_table_range(&filter, table, &flush->writer->removed_to);
	BSON_APPEND_INT64(&opts, "limit", limit);
	/* the index entries of removed rows stay for a while: the next flush starts behind them */
	BSON_APPEND_DOCUMENT_BEGIN(&opts, "sort", &part);
	BSON_APPEND_INT32(&part, "_id", 1);
	bson_append_document_end(&opts, &part);
	BSON_APPEND_DOCUMENT_BEGIN(&opts, "projection", &part);
	BSON_APPEND_INT32(&part, "c", 0);
	bson_append_document_end(&opts, &part);
	cursor = call_find(context, flush->writer->rows_collection, &filter, &opts);
	while (!full && cursor_next(context, cursor, &document, "reading row state", error) &&
		   remove_stored(flush, document, &bytes, &full, error))
		count++;
	mongoc_cursor_destroy(cursor);
	bson_destroy(&opts);
	bson_destroy(&filter);
	*complete = !full && count < limit;
	return error->kind == STORAGE_OK;
}
