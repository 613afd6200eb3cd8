/*-------------------------------------------------------------------------
 *
 * rejected.c
 *	  Rows that could not be stored as they are (design 5, "Poison rows"): which
 *	  ones, for pgsync_rejected_rows, in our own collection of that name.
 *
 * Written in the flush that left the row out; removed in the flush that stores the
 * row well, deletes it, or removes its table's rows.  The writer keeps the ids that
 * are stored, so that a row costs no question to the storage; nobody else writes
 * them.  A row whose key is itself too large cannot be recognised later: such an
 * entry goes only with its table or by its age.
 *
 * Invariants: at most REJECTED_ROWS_MAX entries a stream, the latest ones; what is
 * remembered here is what is stored.
 *
 *-------------------------------------------------------------------------
 */
#include "mongo/stream_doc.h"
#include "mongo/writer_private.h"

#include <string.h>

#define FIRST_CAPACITY	16

/* ---------------------------------------------------------------- what is remembered */

/* Where the id is among the rows, which are in order, or would be. */
static size_t
position_of(const RejectedRow *rows, size_t count, const RowId *id)
{
	size_t		low = 0;

	while (low < count)
	{
		size_t		middle = low + (count - low) / 2;

		if (memcmp(rows[middle].id.bytes, id->bytes, ROW_ID_LEN) < 0)
			low = middle + 1;
		else
			count = middle;
	}
	return low;
}

static bool
holds_at(const RejectedRow *rows, size_t count, size_t at, const RowId *id)
{
	return at < count && memcmp(rows[at].id.bytes, id->bytes, ROW_ID_LEN) == 0;
}

static void
remove_at(RejectedRow *rows, size_t *count, size_t at)
{
	memmove(rows + at, rows + at + 1, (--*count - at) * sizeof(*rows));
}

static void
remove_oldest(RejectedRow *rows, size_t *count)
{
	size_t		oldest = 0;

	for (size_t i = 1; i < *count; i++)
		if (rows[i].number < rows[oldest].number)
			oldest = i;
	remove_at(rows, count, oldest);
}

/* In the place of one with the same id, or of the oldest where there are too many. */
static void
put_row(RejectedRow *rows, size_t *count, const RejectedRow *row)
{
	size_t		at = position_of(rows, *count, &row->id);

	if (holds_at(rows, *count, at, &row->id))
		remove_at(rows, count, at);
	else if (*count == REJECTED_ROWS_MAX)
		remove_oldest(rows, count);
	at = position_of(rows, *count, &row->id);
	memmove(rows + at + 1, rows + at, (*count - at) * sizeof(*rows));
	rows[at] = *row;
	++*count;
}

static bool
read_row(const bson_t *document, RejectedRow *row)
{
	SyncString	memberships;
	SyncString	copy;

	if (!row_state_document_parts(document, &row->id, &memberships, &copy) ||
		!read_integer(document, "number", &row->number))
		return false;
	row->round = row_state_document_round(document);
	row->verdict = -1;
	return true;
}

/* What is stored, before the first flush. */
bool
rejected_load(MongoContext *context, Writer *writer, StorageError *error)
{
	RejectedRows *rejected = &writer->rejected;
	bson_t		filter = BSON_INITIALIZER;
	mongoc_cursor_t *cursor;
	const bson_t *document;

	if (rejected->loaded)
	{
		bson_destroy(&filter);
		return true;
	}
	rejected->count = 0;
	rejected->last_number = 0;
	BSON_APPEND_INT32(&filter, "group_id", writer->stream_id);
	cursor = call_find(context, COLLECTION_REJECTED, &filter, NULL);
	while (cursor_next(context, cursor, &document, "reading rejected rows", error))
	{
		RejectedRow row;

		if (!read_row(document, &row))
			continue;			/* not ours */
		put_row(rejected->rows, &rejected->count, &row);
		if (row.number > rejected->last_number)
			rejected->last_number = row.number;
	}
	mongoc_cursor_destroy(cursor);
	bson_destroy(&filter);
	rejected->loaded = error->kind == STORAGE_OK;
	return rejected->loaded;
}

/* ---------------------------------------------------------------- verdicts of a flush */

/* Guard set.  reason NULL: the row is stored as it is, or gone. */
static RowVerdict *
add_verdict(Flush *flush, const RowId *id, const char *reason)
{
	RowVerdict *verdict;

	flush->verdicts = room_for_one(flush->arena, flush->verdicts, sizeof(*flush->verdicts),
								   flush->point.verdict_count, &flush->verdict_capacity,
								   FIRST_CAPACITY);
	verdict = &flush->verdicts[flush->point.verdict_count++];
	memset(verdict, 0, sizeof(*verdict));
	verdict->id = *id;
	verdict->reason = reason;
	return verdict;
}

/*
 * What stands for a row without a key: its place in the stream, so that it is the
 * same when the transaction or chunk is written again.
 */
static RowId
id_of_place(Flush *flush, const SourceTable *table, uint64_t lsn)
{
	SourceKey	key;
	uint64_t	number = ++flush->point.keyless;

	memset(&key, 0, sizeof(key));
	for (int i = 0; i < 8; i++)
	{
		key.bytes[i] = (uint8_t) (lsn >> (56 - 8 * i));
		key.bytes[8 + i] = (uint8_t) (number >> (56 - 8 * i));
	}
	return row_id(&table->id, &key);
}

/* Guard set.  The row is not stored as it is. */
void
rejected_add(Flush *flush, const RowChange *row, const char *reason)
{
	const FlushPoint *point = &flush->point;
	uint64_t	lsn = point->open_transaction != STREAM_LSN_NONE ? point->open_transaction :
		point->chunk;
	RowId		id;
	RowVerdict *verdict;

	if (row->kind != ROW_DELETE)
		id = row_id(&row->table->id, &row->after);
	else if (row->has_before)
		id = row_id(&row->table->id, &row->before);
	else
		id = id_of_place(flush, row->table, lsn);
	verdict = add_verdict(flush, &id, reason);
	verdict->table = row->table;
	verdict->name = row->name;
	verdict->lsn = lsn;
	verdict->round = row->round;
}

/* Guard set.  The row is stored as it is, or gone. */
void
rejected_clear(Flush *flush, const RowId *id)
{
	const RejectedRows *rejected = &flush->writer->rejected;
	bool		known = holds_at(rejected->rows, rejected->count,
								 position_of(rejected->rows, rejected->count, id), id);

	for (size_t i = 0; i < flush->point.verdict_count && !known; i++)
		known = flush->verdicts[i].reason != NULL &&
			memcmp(flush->verdicts[i].id.bytes, id->bytes, ROW_ID_LEN) == 0;
	if (known)
		(void) add_verdict(flush, id, NULL);
}

/* Guard set.  All rows of the table are gone, but those that the copy has found. */
void
rejected_clear_table(Flush *flush, const SourceTableId *table, int64_t kept_round)
{
	const RejectedRows *rejected = &flush->writer->rejected;

	for (size_t i = 0; i < rejected->count; i++)
	{
		const RejectedRow *row = &rejected->rows[i];

		if (memcmp(row->id.bytes, table->bytes, SYNC_TABLE_LEN) == 0 &&
			(kept_round == 0 || row->round != kept_round))
			(void) add_verdict(flush, &row->id, NULL);
	}
}

/*
 * What will be stored when the flush's verdicts are: once, before its first
 * transaction.  False: out of memory.
 */
bool
rejected_prepare(Flush *flush)
{
	const RejectedRows *rejected = &flush->writer->rejected;
	ArenaGuard	guard;
	volatile bool ok = false;

	if (flush->point.verdict_count == 0)
		return true;
	arena_guard_push(flush->arena, &guard);
	if (setjmp(guard.jump) == 0)
	{
		RejectedRow *rows = arena_array(flush->arena, RejectedRow, REJECTED_ROWS_MAX);
		size_t		count = rejected->count;
		int64_t		number = rejected->last_number;

		memcpy(rows, rejected->rows, count * sizeof(*rows));
		for (size_t i = 0; i < flush->point.verdict_count; i++)
		{
			const RowVerdict *verdict = &flush->verdicts[i];
			size_t		at = position_of(rows, count, &verdict->id);

			if (verdict->reason != NULL)
			{
				RejectedRow row = {verdict->id, ++number, verdict->round, (int) i};

				put_row(rows, &count, &row);
			}
			else if (holds_at(rows, count, at, &verdict->id))
				remove_at(rows, &count, at);
		}
		flush->rejected_rows = rows;
		flush->rejected_count = count;
		flush->rejected_number = number;
		ok = true;
	}
	arena_guard_pop(flush->arena, &guard);
	return ok;
}

static bson_t *
verdict_document(const Flush *flush, const RejectedRow *row)
{
	const RowVerdict *verdict = &flush->verdicts[row->verdict];
	bson_t	   *document = bson_new();

	bson_append_binary(document, "_id", -1, BSON_SUBTYPE_BINARY, row->id.bytes, ROW_ID_LEN);
	BSON_APPEND_INT32(document, "group_id", flush->writer->stream_id);
	BSON_APPEND_INT64(document, "number", row->number);
	BSON_APPEND_UTF8(document, "schema_name", verdict->table->schema);
	BSON_APPEND_UTF8(document, "table_name", verdict->table->name);
	if (verdict->name != NULL && verdict->name[0] != '\0')
		BSON_APPEND_UTF8(document, "key", verdict->name);
	BSON_APPEND_UTF8(document, "reason", verdict->reason);
	append_lsn_or_null(document, "lsn", verdict->lsn);
	BSON_APPEND_DATE_TIME(document, "rejected_at", unix_time_us() / 1000);
	if (row->round != 0)
		append_count(document, "r", row->round);
	return document;
}

static bool
delete_rows(MongoContext *context, const Flush *flush, StorageError *error)
{
	const RejectedRows *rejected = &flush->writer->rejected;
	bson_t		filter = BSON_INITIALIZER;
	bson_t		in;
	bson_t		list;
	uint32_t	n = 0;
	bool		ok = true;

	BSON_APPEND_DOCUMENT_BEGIN(&filter, "_id", &in);
	BSON_APPEND_ARRAY_BEGIN(&in, "$in", &list);
	for (size_t i = 0; i < rejected->count; i++)
	{
		const RowId *id = &rejected->rows[i].id;
		const char *position;
		char		digits[12];

		if (holds_at(flush->rejected_rows, flush->rejected_count,
					 position_of(flush->rejected_rows, flush->rejected_count, id), id))
			continue;
		bson_uint32_to_string(n++, &position, digits, sizeof(digits));
		bson_append_binary(&list, position, -1, BSON_SUBTYPE_BINARY, id->bytes, ROW_ID_LEN);
	}
	bson_append_array_end(&in, &list);
	bson_append_document_end(&filter, &in);
	if (n > 0)
		ok = call_delete(context, COLLECTION_REJECTED, &filter, true, 0, NULL, error);
	bson_destroy(&filter);
	return ok;
}

/* In the transaction, with the last part of a row in parts. */
bool
rejected_write(MongoContext *context, Flush *flush, StorageError *error)
{
	bson_t	  **documents;
	size_t		count = 0;
	bool		ok;

	if (flush->rejected_rows == NULL || flush->keep_old_state)
		return true;
	documents = bson_malloc((flush->rejected_count + 1) * sizeof(bson_t *));
	for (size_t i = 0; i < flush->rejected_count; i++)
		if (flush->rejected_rows[i].verdict >= 0)
			documents[count++] = verdict_document(flush, &flush->rejected_rows[i]);
	ok = call_replace(context, COLLECTION_REJECTED, documents, count, error) &&
		delete_rows(context, flush, error);
	for (size_t i = 0; i < count; i++)
		bson_destroy(documents[i]);
	bson_free(documents);
	return ok;
}

/* The flush is durable. */
void
rejected_advance(const Flush *flush)
{
	RejectedRows *rejected = &flush->writer->rejected;

	if (flush->rejected_rows == NULL)
		return;
	memcpy(rejected->rows, flush->rejected_rows, flush->rejected_count * sizeof(RejectedRow));
	for (size_t i = 0; i < flush->rejected_count; i++)
		rejected->rows[i].verdict = -1;
	rejected->count = flush->rejected_count;
	rejected->last_number = flush->rejected_number;
}

/* ---------------------------------------------------------------- reading them */

static char *
text_of(const bson_t *document, const char *name, SyncArena *arena)
{
	uint32_t	len;
	const char *text = read_text(document, name, &len);

	return text != NULL ? arena_strndup(arena, text, len) : NULL;
}

/* False: out of memory. */
static bool
add_listed(StorageListRejected *list, size_t *capacity, const bson_t *document)
{
	ArenaGuard	guard;
	volatile bool ok = false;

	arena_guard_push(list->arena, &guard);
	if (setjmp(guard.jump) == 0)
	{
		ListedRejectedRow *row;
		int64_t		stream = 0;
		bson_iter_t field;

		list->rows = room_for_one(list->arena, list->rows, sizeof(*list->rows), list->count,
								  capacity, FIRST_CAPACITY);
		row = &list->rows[list->count++];
		memset(row, 0, sizeof(*row));
		(void) read_integer(document, "group_id", &stream);
		row->stream_id = (int32_t) stream;
		row->schema = text_of(document, "schema_name", list->arena);
		row->table = text_of(document, "table_name", list->arena);
		row->key = text_of(document, "key", list->arena);
		row->reason = text_of(document, "reason", list->arena);
		(void) read_lsn(document, "lsn", &row->lsn);
		if (find_field(document, "rejected_at", &field) && BSON_ITER_HOLDS_DATE_TIME(&field))
			row->time_ms = bson_iter_date_time(&field);
		ok = true;
	}
	arena_guard_pop(list->arena, &guard);
	return ok;
}

/* {group_id: {$in: [streams that are bound to self]}} */
static bool
build_own_streams(MongoContext *context, const SourceIdentity *self, bson_t *filter,
				  StorageError *error)
{
	bson_t		all = BSON_INITIALIZER;
	bson_t		in;
	bson_t		list;
	mongoc_cursor_t *cursor;
	const bson_t *document;
	uint32_t	n = 0;

	BSON_APPEND_DOCUMENT_BEGIN(filter, "group_id", &in);
	BSON_APPEND_ARRAY_BEGIN(&in, "$in", &list);
	cursor = call_find(context, COLLECTION_BINDINGS, &all, NULL);
	while (cursor_next(context, cursor, &document, "reading bindings", error))
	{
		StreamBinding binding;
		const char *position;
		char		digits[12];
		int64_t		id;

		binding_decode(document, &binding);
		if (!binding_matches(&binding, self) || !read_integer(document, "_id", &id))
			continue;
		bson_uint32_to_string(n++, &position, digits, sizeof(digits));
		BSON_APPEND_INT32(&list, position, (int32_t) id);
	}
	mongoc_cursor_destroy(cursor);
	bson_append_array_end(&in, &list);
	bson_append_document_end(filter, &in);
	bson_destroy(&all);
	return error->kind == STORAGE_OK;
}

void
storage_list_rejected(MongoContext *context, void *arg, StorageError *error)
{
	StorageListRejected *list = arg;
	bson_t		filter = BSON_INITIALIZER;
	mongoc_cursor_t *cursor;
	const bson_t *document;
	size_t		capacity = 0;

	list->count = 0;
	list->rows = NULL;
	if (build_own_streams(context, &list->self, &filter, error))
	{
		cursor = call_find(context, COLLECTION_REJECTED, &filter, NULL);
		while (cursor_next(context, cursor, &document, "reading rejected rows", error))
			if (!add_listed(list, &capacity, document))
			{
				storage_error_set(error, STORAGE_SERVER, "out of memory");
				break;
			}
		mongoc_cursor_destroy(cursor);
	}
	bson_destroy(&filter);
}
