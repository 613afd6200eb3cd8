/*-------------------------------------------------------------------------
 *
 * removal.c
 *	  Stored rows of one table are removed: all of them at TRUNCATE and at the end of
 *	  the table, those that a copy under the stream did not find at the copy's end.
 *
 * Flush by flush, each of as many rows as fit.  They are found by the table's
 * range of row ids and read ahead, for many flushes at a time: a range costs the
 * server more than its rows, where it has to step over what was removed before.
 * What was read ahead stays right, because nobody else writes row state and this
 * writer does nothing else before the removal is complete.
 *
 * Invariants: a row leaves what was read ahead only when the flush that removes
 * it is durable; complete is said only when no stored row to be removed is left
 * after the flush.
 *
 *-------------------------------------------------------------------------
 */
#include "mongo/writer_private.h"

#include <stdlib.h>
#include <string.h>

/* read ahead: until it is that much, and asked for in parts of so many rows */
#define AHEAD_BYTES		((size_t) 8 * 1024 * 1024)
#define AHEAD_BATCH		20000

/*
 * {_id: {$gte: low, $lte: high}}; low: where the removal has come to.  With a round
 * to be kept also {r: {$ne: round}}, which is true of a row that has none.
 */
static void
build_table_range(bson_t *filter, const SourceTableId *table, int64_t kept_round,
				  const Removal *removal)
{
	RowId		low = removal->begun ? removal->last : row_id_low(table);
	RowId		high = row_id_high(table);
	bson_t		range;

	BSON_APPEND_DOCUMENT_BEGIN(filter, "_id", &range);
	bson_append_binary(&range, "$gte", -1, BSON_SUBTYPE_BINARY, low.bytes, ROW_ID_LEN);
	bson_append_binary(&range, "$lte", -1, BSON_SUBTYPE_BINARY, high.bytes, ROW_ID_LEN);
	bson_append_document_end(filter, &range);
	if (kept_round != 0)
	{
		BSON_APPEND_DOCUMENT_BEGIN(filter, "r", &range);
		append_count(&range, "$ne", kept_round);
		bson_append_document_end(filter, &range);
	}
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
		if (entry->stored != NULL)
			entry->stored->round = row_state_document_round(document);
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

static bool
keep_ahead(Removal *removal, const bson_t *document)
{
	size_t		needed = removal->len + document->len;

	if (needed > removal->capacity)
	{
		size_t		capacity = needed + needed / 2;
		uint8_t    *bytes = realloc(removal->bytes, capacity);

		if (bytes == NULL)
			return false;
		removal->bytes = bytes;
		removal->capacity = capacity;
	}
	memcpy(removal->bytes + removal->len, bson_get_data(document), document->len);
	removal->len = needed;
	return true;
}

/* Reads rows ahead; exhausted: the table has no more. */
static bool
read_ahead(Flush *flush, MongoContext *context, const SourceTableId *table, int64_t kept_round,
		   StorageError *error)
{
	Removal    *removal = &flush->writer->removal;
	bson_t		filter = BSON_INITIALIZER;
	bson_t		opts = BSON_INITIALIZER;
	bson_t		part;
	mongoc_cursor_t *cursor;
	const bson_t *document;

	removal->len = removal->at = 0;
	removal->exhausted = false;
	build_table_range(&filter, table, kept_round, removal);
	BSON_APPEND_INT32(&opts, "batchSize", AHEAD_BATCH);
	/* the index entries of removed rows stay for a while: what follows starts behind them */
	BSON_APPEND_DOCUMENT_BEGIN(&opts, "sort", &part);
	BSON_APPEND_INT32(&part, "_id", 1);
	bson_append_document_end(&opts, &part);
	BSON_APPEND_DOCUMENT_BEGIN(&opts, "projection", &part);
	BSON_APPEND_INT32(&part, "c", 0);
	bson_append_document_end(&opts, &part);
	cursor = call_find(context, flush->writer->rows_collection, &filter, &opts);
	while (removal->len < AHEAD_BYTES)
	{
		if (!cursor_next(context, cursor, &document, "reading row state", error))
		{
			removal->exhausted = error->kind == STORAGE_OK;
			break;
		}
		if (!keep_ahead(removal, document))
		{
			set_out_of_memory(error);
			break;
		}
	}
	mongoc_cursor_destroy(cursor);
	bson_destroy(&opts);
	bson_destroy(&filter);
	return error->kind == STORAGE_OK;
}

/*
 * Fills the flush with the removal of a table's stored rows, as many as fit; not of
 * those that are stamped with kept_round, unless it is 0.  *complete: none is left
 * after it.
 */
bool
flush_collect_removal(Flush *flush, MongoContext *context, const SourceTableId *table,
					  int64_t kept_round, bool *complete, StorageError *error)
{
	Removal    *removal = &flush->writer->removal;
	size_t		at;
	size_t		bytes = 0;
	bool		full = false;

	if (!make_ready(flush))
	{
		set_out_of_memory(error);
		return false;
	}
	if (removal->at == removal->len && !removal->exhausted &&
		!read_ahead(flush, context, table, kept_round, error))
		return false;
	at = removal->at;
	for (int count = 0; !full && at < removal->len && count < flush->writer->document_limit; count++)
	{
		bson_t		document;
		uint32_t	len;
		size_t		touched = flush->point.touch_count;

		memcpy(&len, removal->bytes + at, sizeof(len));
		len = BSON_UINT32_FROM_LE(len);
		if (!bson_init_static(&document, removal->bytes + at, len))
		{
			storage_error_set(error, STORAGE_INVALID, "a row state document cannot be read");
			return false;
		}
		if (!remove_stored(flush, &document, &bytes, &full, error))
			return false;
		/* the one that is too much stays for the next flush */
		if (flush->point.touch_count > touched)
			at += len;
	}
	flush->removed_to = at;
	*complete = at == removal->len && removal->exhausted;
	return true;
}

/* The flush that was collected is durable. */
void
removal_advance(Writer *writer, const Flush *flush, bool complete)
{
	Removal    *removal = &writer->removal;

	if (complete)
	{
		removal_free(writer);
		return;
	}
	removal->at = flush->removed_to;
	if (flush->rows.touch_count > 0)
	{
		removal->begun = true;
		removal->last = flush->rows.touches[flush->rows.touch_count - 1].entry->id;
	}
}

void
removal_free(Writer *writer)
{
	free(writer->removal.bytes);
	memset(&writer->removal, 0, sizeof(writer->removal));
}
