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
 * A sweep looks at rows that stay, too, and the server answers only when it has found
 * enough: so it is asked for a slice of the table at a time, by the first eight bytes
 * of the keys.  Its width follows the server; in all, no longer than that at a time.
 */
#define FIRST_SLICE		(UINT64_C(1) << 54)
#define SLICE_FAST_US	INT64_C(100000)
#define SLICE_SLOW_US	INT64_C(2000000)
#define AHEAD_US		INT64_C(2000000)

/*
 * {_id: {$gte: low, $lte: high}}; with a round to be kept also {r: {$ne: round}}, which
 * is true of a row that has none.
 */
static void
build_range(bson_t *filter, const RowId *low, const RowId *high, int64_t kept_round)
{
	bson_t		range;

	BSON_APPEND_DOCUMENT_BEGIN(filter, "_id", &range);
	bson_append_binary(&range, "$gte", -1, BSON_SUBTYPE_BINARY, low->bytes, ROW_ID_LEN);
	bson_append_binary(&range, "$lte", -1, BSON_SUBTYPE_BINARY, high->bytes, ROW_ID_LEN);
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

/* Reads rows of that range ahead, until it is enough; *ended: all of them. */
static bool
read_range(MongoContext *context, Writer *writer, const RowId *low, const RowId *high,
		   int64_t kept_round, bool *ended, StorageError *error)
{
	Removal    *removal = &writer->removal;
	bson_t		filter = BSON_INITIALIZER;
	bson_t		opts = BSON_INITIALIZER;
	bson_t		part;
	mongoc_cursor_t *cursor;
	const bson_t *document;

	*ended = false;
	build_range(&filter, low, high, kept_round);
	BSON_APPEND_INT32(&opts, "batchSize", AHEAD_BATCH);
	/* the index entries of removed rows stay for a while: what follows starts behind them */
	BSON_APPEND_DOCUMENT_BEGIN(&opts, "sort", &part);
	BSON_APPEND_INT32(&part, "_id", 1);
	bson_append_document_end(&opts, &part);
	BSON_APPEND_DOCUMENT_BEGIN(&opts, "projection", &part);
	BSON_APPEND_INT32(&part, "c", 0);
	bson_append_document_end(&opts, &part);
	cursor = call_find(context, writer->rows_collection, &filter, &opts);
	while (removal->len < AHEAD_BYTES)
	{
		if (!cursor_next(context, cursor, &document, "reading row state", error))
		{
			*ended = error->kind == STORAGE_OK;
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

/* The lowest (fill 0) or highest (0xFF) id of the table whose key begins so. */
static RowId
slice_bound(const SourceTableId *table, uint64_t start, uint8_t fill)
{
	SourceKey	key;

	memset(&key, fill, sizeof(key));
	for (int i = 0; i < 8; i++)
		key.bytes[i] = (uint8_t) (start >> (56 - 8 * i));
	return row_id(table, &key);
}

/* The next slice of the table, or what is left of one. */
static bool
read_slice(MongoContext *context, Writer *writer, const SourceTableId *table,
		   int64_t kept_round, StorageError *error)
{
	Removal    *removal = &writer->removal;
	uint64_t	width = removal->width != 0 ? removal->width : FIRST_SLICE;
	uint64_t	end = UINT64_MAX - removal->slice < width ? UINT64_MAX : removal->slice + width - 1;
	RowId		low = slice_bound(table, removal->slice, 0);
	RowId		high = slice_bound(table, end, 0xFF);
	int64_t		elapsed = monotonic_us();
	bool		ended;

	if (removal->begun && memcmp(removal->last.bytes, low.bytes, ROW_ID_LEN) > 0)
		low = removal->last;
	if (!read_range(context, writer, &low, &high, kept_round, &ended, error))
		return false;
	if (!ended)
		return true;
	elapsed = monotonic_us() - elapsed;
	removal->exhausted = end == UINT64_MAX;
	removal->slice = end + 1;
	if (elapsed < SLICE_FAST_US && width <= UINT64_MAX / 4)
		width *= 4;
	else if (elapsed > SLICE_SLOW_US && width > 4)
		width /= 4;
	removal->width = width;
	return true;
}

/* Reads rows ahead; exhausted: the table has no more. */
static bool
read_ahead(MongoContext *context, Writer *writer, const SourceTableId *table,
		   int64_t kept_round, StorageError *error)
{
	Removal    *removal = &writer->removal;
	int64_t		start = monotonic_us();

	removal->len = removal->at = 0;
	if (kept_round == 0)
	{
		RowId		low = removal->begun ? removal->last : row_id_low(table);
		RowId		high = row_id_high(table);

		return read_range(context, writer, &low, &high, 0, &removal->exhausted, error);
	}
	while (!removal->exhausted && removal->len < AHEAD_BYTES && monotonic_us() - start < AHEAD_US)
		if (!read_slice(context, writer, table, kept_round, error))
			return false;
	return true;
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
		!read_ahead(context, flush->writer, table, kept_round, error))
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
