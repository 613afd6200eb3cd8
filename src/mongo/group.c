/*-------------------------------------------------------------------------
 *
 * group.c
 *	  Which items make the next flush, and what they do: scan the queue, look
 *	  up row state, apply the changes in memory.
 *
 * Changes nothing in the storage and nothing of the writer: a flush that fails
 * is simply made again.
 *
 * A flush ends at the last commit among the items that fit; where none of them
 * is a commit it takes what fits.
 *
 * Invariants: a row is applied only when its stored state is known; ops are in
 * the order of the items.
 *
 *-------------------------------------------------------------------------
 */
#include "mongo/writer_private.h"

#include <string.h>

#define FIRST_CAPACITY	64

/* what one row adds besides its JSON, in estimates: op and state */
#define ROW_BYTES		300

typedef enum ApplyResult
{
	APPLY_DONE,
	APPLY_STOP,					/* the item must wait for the next flush */
} ApplyResult;

void
flush_init(Flush *flush, Writer *writer)
{
	memset(flush, 0, sizeof(*flush));
	flush->writer = writer;
	flush->arena = writer->arena;
	flush->point.node = writer->first;
	flush->point.item = writer->item;
	flush->point.open_transaction = writer->open_transaction;
	flush->point.chunk = writer->chunk;
}

/* ---------------------------------------------------------------- walking the queue */

/* The item at the point; moves it over ended batches.  NULL: the queue's end. */
static WriteItem *
point_item(FlushPoint *point)
{
	while (point->item == NULL && point->node != NULL && point->node->next != NULL)
	{
		point->node = point->node->next;
		point->item = point->node->batch.first;
	}
	return point->item;
}

/* Items that are a flush of their own: the writer's step handles them. */
static bool
stands_alone(WriteItemKind kind)
{
	return kind == WRITE_TRUNCATE || kind == WRITE_TABLE_DROP || kind == WRITE_POSITION ||
		kind == WRITE_SNAPSHOT_DONE;
}

static bool
is_commit(WriteItemKind kind)
{
	return kind == WRITE_COMMIT || kind == WRITE_KEEPALIVE;
}

/* ---------------------------------------------------------------- scan */

typedef struct Scan
{
	const WriteItem *end;		/* first item that is not in the flush; NULL: none */
	size_t		rows;
	size_t		ops;
	size_t		bytes;
	bool		only_copies;
	size_t		entries_at_commit;
	const WriteItem *after_commit;
	bool		has_commit;
} Scan;

/* Notes the rows whose state the change needs. */
static void
scan_row(Flush *flush, Scan *scan, const RowChange *row)
{
	RowEntry   *entry;
	RowId		id;

	if (row->kind != ROW_COPY)
		scan->only_copies = false;
	if (row->has_before)
	{
		id = row_id(&row->table->id, &row->before);
		entry = row_map_add(&flush->rows, &id);
		if (row->values != NULL)
			entry->wanted_copy = true;
	}
	if (row->kind != ROW_DELETE)
	{
		id = row_id(&row->table->id, &row->after);
		entry = row_map_add(&flush->rows, &id);
		if (row->values != NULL && !row->has_before)
			entry->wanted_copy = true;
	}
}

static size_t
row_bytes(const RowChange *row)
{
	size_t		bytes = ROW_BYTES + row->row_copy.len;

	for (int i = 0; i < row->row.bucket_row_count; i++)
		bytes += ROW_BYTES + row->row.bucket_rows[i].json.len;
	for (int i = 0; i < row->row.parameter_row_count; i++)
		bytes += ROW_BYTES + row->row.parameter_rows[i].rows.len;
	return bytes;
}

/* Does one more row fit?  The first one always does. */
static bool
scan_fits(const Flush *flush, Scan *scan, const RowChange *row)
{
	size_t		limit = (size_t) flush->writer->document_limit;
	size_t		ops = (size_t) row->row.bucket_row_count + (size_t) row->row.parameter_row_count;
	size_t		bytes = row_bytes(row);

	if (scan->rows > 0 &&
		(scan->rows + 1 > limit || scan->ops + ops > limit ||
		 scan->bytes + bytes > (size_t) flush->writer->options.max_bytes))
		return false;
	scan->rows++;
	scan->ops += ops;
	scan->bytes += bytes;
	return true;
}

/* Guard set.  Finds the range of items, by what they hold by themselves. */
static void
scan_items(Flush *flush, Scan *scan)
{
	FlushPoint	at = flush->point;
	WriteItem  *item;

	memset(scan, 0, sizeof(*scan));
	scan->only_copies = true;
	while ((item = point_item(&at)) != NULL)
	{
		if (stands_alone(item->kind))
			break;
		if (item->kind == WRITE_ROW)
		{
			if (!scan_fits(flush, scan, item->row))
				break;
			scan_row(flush, scan, item->row);
		}
		at.item = item->next;
		if (is_commit(item->kind))
		{
			scan->has_commit = true;
			scan->entries_at_commit = flush->rows.count;
			scan->after_commit = point_item(&at);
		}
	}
	scan->end = scan->has_commit ? scan->after_commit : item;
	flush->lookup_count = scan->has_commit ? scan->entries_at_commit : flush->rows.count;
}

/* ---------------------------------------------------------------- look-up */

static void
build_lookup(const Flush *flush, size_t first, size_t count, bool copies, bson_t *filter)
{
	bson_t		in;
	bson_t		list;
	uint32_t	n = 0;

	BSON_APPEND_DOCUMENT_BEGIN(filter, "_id", &in);
	BSON_APPEND_ARRAY_BEGIN(&in, "$in", &list);
	for (size_t i = first; i < first + count; i++)
	{
		const RowEntry *entry = flush->rows.entries[i];
		const char *position;
		char		digits[12];
		size_t		len;

		if (entry->wanted_copy != copies)
			continue;
		len = bson_uint32_to_string(n++, &position, digits, sizeof(digits));
		bson_append_binary(&list, position, (int) len, BSON_SUBTYPE_BINARY, entry->id.bytes,
						   ROW_ID_LEN);
	}
	bson_append_array_end(&in, &list);
	bson_append_document_end(filter, &in);
}

/* One document into the map; false: out of memory or not ours. */
static bool
store_looked_up(Flush *flush, const bson_t *document, bool ids_only, size_t *bytes)
{
	ArenaGuard	guard;
	volatile bool ok = false;
	RowId		id;
	SyncString	memberships;
	SyncString	copy;
	RowEntry   *entry;

	if (!row_state_document_parts(document, &id, &memberships, &copy))
		return false;
	*bytes += document->len;
	entry = row_map_find(&flush->rows, &id);
	if (entry == NULL)
		return true;
	entry->existed = true;
	if (ids_only)
		return true;
	arena_guard_push(flush->arena, &guard);
	if (setjmp(guard.jump) == 0)
	{
		entry->stored = row_state_decode((const uint8_t *) memberships.data, memberships.len,
										 flush->arena);
		if (entry->stored != NULL && copy.len > 0)
			entry->stored->row_copy =
				(SyncString) {arena_strndup(flush->arena, copy.data, copy.len), copy.len};
		ok = entry->stored != NULL;
	}
	arena_guard_pop(flush->arena, &guard);
	return ok;
}

/*
 * Reads the states of entries first .. first + count - 1 that do (copies) or do
 * not want the row copy.  *complete false: stopped at the byte limit.
 */
static bool
read_states(Flush *flush, MongoContext *context, size_t first, size_t count, bool copies,
			bool ids_only, size_t *bytes, bool *complete, StorageError *error)
{
	bson_t		filter = BSON_INITIALIZER;
	bson_t		opts = BSON_INITIALIZER;
	bson_t		projection;
	mongoc_cursor_t *cursor;
	const bson_t *document;

	build_lookup(flush, first, count, copies, &filter);
	BSON_APPEND_INT32(&opts, "batchSize", LOOKUP_KEYS + 1);
	if (!copies)
	{
		BSON_APPEND_DOCUMENT_BEGIN(&opts, "projection", &projection);
		BSON_APPEND_INT32(&projection, ids_only ? "_id" : "c", ids_only ? 1 : 0);
		bson_append_document_end(&opts, &projection);
	}
	cursor = call_find(context, flush->writer->rows_collection, &filter, &opts);
	while (cursor_next(context, cursor, &document, "reading row state", error))
	{
		if (!store_looked_up(flush, document, ids_only && !copies, bytes))
		{
			storage_error_set(error, STORAGE_INVALID, "a row state document cannot be read");
			break;
		}
		if (*bytes > LOOKUP_BYTES)
		{
			*complete = false;
			break;
		}
	}
	mongoc_cursor_destroy(cursor);
	bson_destroy(&opts);
	bson_destroy(&filter);
	return error->kind == STORAGE_OK;
}

/*
 * One part of the entries, both kinds.  What the byte limit keeps from being
 * read stays unloaded.
 */
static bool
look_up_part(Flush *flush, MongoContext *context, size_t first, size_t count, bool ids_only,
			 size_t *bytes, StorageError *error)
{
	size_t		with_copy = 0;
	bool		complete = true;

	for (size_t i = first; i < first + count; i++)
		with_copy += flush->rows.entries[i]->wanted_copy;
	if (with_copy < count &&
		!read_states(flush, context, first, count, false, ids_only, bytes, &complete, error))
		return false;
	if (complete)
		for (size_t i = first; i < first + count; i++)
			if (!flush->rows.entries[i]->wanted_copy)
				flush->rows.entries[i]->loaded = true;
	if (with_copy > 0 && complete)
	{
		if (!read_states(flush, context, first, count, true, false, bytes, &complete, error))
			return false;
		for (size_t i = first; complete && i < first + count; i++)
			flush->rows.entries[i]->loaded = true;
	}
	/* what was found is known, complete or not */
	for (size_t i = first; i < first + count; i++)
		if (flush->rows.entries[i]->existed)
			flush->rows.entries[i]->loaded = true;
	flush->lookup_cut = !complete;
	return true;
}

static bool
look_up_states(Flush *flush, MongoContext *context, bool ids_only, StorageError *error)
{
	size_t		bytes = 0;

	for (size_t first = 0; first < flush->lookup_count && !flush->lookup_cut; first += LOOKUP_KEYS)
	{
		size_t		left = flush->lookup_count - first;

		if (!look_up_part(flush, context, first, left < LOOKUP_KEYS ? left : LOOKUP_KEYS,
						  ids_only, &bytes, error))
			return false;
	}
	return true;
}

/* The states that the flush's first row needs, one by one: they must fit. */
static bool
look_up_first_row(Flush *flush, MongoContext *context, StorageError *error)
{
	for (size_t i = 0; i < flush->lookup_count && i < 2; i++)
	{
		size_t		bytes = 0;

		if (!flush->rows.entries[i]->loaded &&
			!look_up_part(flush, context, i, 1, false, &bytes, error))
			return false;
		flush->rows.entries[i]->loaded = true;
	}
	return true;
}

/* ---------------------------------------------------------------- apply */

static uint64_t
later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static void
note_row_error(Flush *flush, const SourceTable *table, const char *reason)
{
	snprintf(flush->row_error, sizeof(flush->row_error), "table \"%s.%s\": %s",
			 table->schema, table->name, reason);
}

/*
 * What may be stored of an evaluated row: entries that are too large are left
 * out, so that what was stored of them before is removed (design 5, "Poison
 * rows").
 */
static EvaluatedRow
storable_row(Flush *flush, const SourceTable *table, const EvaluatedRow *row)
{
	EvaluatedRow kept = *row;
	bool		rejected = false;

	kept.bucket_row_count = 0;
	kept.parameter_row_count = 0;
	kept.bucket_rows = arena_array(flush->arena, BucketRow, (size_t) row->bucket_row_count);
	kept.parameter_rows = arena_array(flush->arena, ParameterRow,
									  (size_t) row->parameter_row_count);
	for (int i = 0; i < row->bucket_row_count; i++)
	{
		const BucketRow *in = &row->bucket_rows[i];
		BucketOp	op = {.kind = BUCKET_OP_PUT, .bucket = in->bucket, .table = in->table,
		.row_id = in->row_id, .json = in->json};

		if (in->json_utf16_len > DOCUMENT_LIMIT ||
			flush->writer->format->operation_size(&op) > DOCUMENT_LIMIT)
			rejected = true;
		else
			kept.bucket_rows[kept.bucket_row_count++] = *in;
	}
	for (int i = 0; i < row->parameter_row_count; i++)
	{
		const ParameterRow *in = &row->parameter_rows[i];
		BucketOp	op = {.kind = BUCKET_OP_PARAMETERS, .lookup = in->lookup, .rows = in->rows};

		if (flush->writer->format->operation_size(&op) > DOCUMENT_LIMIT)
			rejected = true;
		else
			kept.parameter_rows[kept.parameter_row_count++] = *in;
	}
	if (rejected)
	{
		flush->point.counts.rejected_rows++;
		note_row_error(flush, table, "a row is larger than 15 MiB and was left out");
	}
	return kept;
}

static void
count_evaluation_errors(Flush *flush, const SourceTable *table, const EvaluatedRow *row)
{
	if (row->error_count == 0)
		return;
	/* the row itself is too large, not a query that failed on it */
	if (row->error != NULL && row->error->code == SYNC_ERROR_LIMIT &&
		row->bucket_row_count == 0 && row->parameter_row_count == 0)
		flush->point.counts.rejected_rows++;
	else
		flush->point.counts.evaluation_errors += row->error_count;
	note_row_error(flush, table, row->error != NULL ? row->error->message : "a query failed");
}

/* Moves a row from its present state to nowhere. */
static void
remove_row(Flush *flush, const SourceTableId *table, const SourceKey *key)
{
	RowId		id = row_id(table, key);
	RowEntry   *entry = row_map_find(&flush->rows, &id);
	bool		exists;
	RowState   *old = row_map_state(&flush->rows, entry, &exists);

	if (!exists)
		return;
	(void) bucket_ops_move(&flush->ops, table, key, old, NULL);
	row_map_touch(&flush->rows, entry, NULL);
}

/* Moves a row from its present state to where evaluation puts it. */
static void
put_row(Flush *flush, const SourceTable *table, const SourceKey *key, const EvaluatedRow *row,
		SyncString row_copy)
{
	RowId		id = row_id(&table->id, key);
	RowEntry   *entry = row_map_find(&flush->rows, &id);
	size_t		before = flush->ops.count;
	size_t		before_bytes = flush->ops.bytes;
	EvaluatedRow kept = storable_row(flush, table, row);
	bool		exists;
	RowState   *old = row_map_state(&flush->rows, entry, &exists);
	RowState   *now = bucket_ops_move(&flush->ops, &table->id, key, old, &kept);
	size_t		size = row_state_size(now) + (old != NULL ? row_state_size(old) : 0);

	if (size > DOCUMENT_LIMIT)
	{
		/* in more buckets than can be remembered */
		flush->ops.count = before;
		flush->ops.bytes = before_bytes;
		flush->point.counts.rejected_rows++;
		note_row_error(flush, table, "a row is in too many buckets and was left out");
		if (exists)
			(void) bucket_ops_move(&flush->ops, &table->id, key, old, NULL);
		row_map_touch(&flush->rows, entry, NULL);
		return;
	}
	/* without the copy an incomplete change leads to a re-read */
	if (size + row_copy.len <= DOCUMENT_LIMIT)
		now->row_copy = row_copy;
	if (!exists && row_state_is_empty(now))
		return;
	row_map_touch(&flush->rows, entry, now);
}

static void
want_reread(Flush *flush, const RowChange *row)
{
	if (flush->point.reread_count == flush->reread_capacity)
	{
		size_t		capacity = flush->reread_capacity ? flush->reread_capacity * 2 : FIRST_CAPACITY;
		WantedReread *rereads = arena_array(flush->arena, WantedReread, capacity);

		if (flush->point.reread_count > 0)
			memcpy(rereads, flush->rereads, flush->point.reread_count * sizeof(*rereads));
		flush->rereads = rereads;
		flush->reread_capacity = capacity;
	}
	flush->rereads[flush->point.reread_count++] = (WantedReread) {row->table, row->reread_key};
}

/*
 * May the copy stored under the key that the row leaves be another row's?  Before
 * the fence of a chunk or re-read the storage can hold what only later changes
 * bring: a row that takes this key after the present change.  Under a key that
 * stays this cannot last: whatever came to it later comes in the stream, too.
 */
static bool
copy_may_be_foreign(const Flush *flush, const RowChange *row)
{
	const FlushPoint *point = &flush->point;

	return row->has_before &&
		point->open_transaction < later(flush->writer->position.no_checkpoint_before,
										point->chunk_fence);
}

typedef enum Completion
{
	ROW_COMPLETED,
	ROW_WITH_GAPS,
	ROW_NO_MEMORY				/* for it and what it gives */
} Completion;

/*
 * Completes a row from the stored copy and evaluates it, in an arena of its own:
 * a row that needs more than that must not keep the stream from going on.
 */
static Completion
complete_row(Flush *flush, const RowChange *row, const RowState *old, EvaluatedRow *evaluated,
			 SyncString *copy)
{
	SyncArena  *arena = flush->writer->rows_arena;
	const SyncRowType *type = binding_row_type(row->table->binding);
	size_t		count = (size_t) type->column_count;
	ArenaGuard	guard;
	volatile Completion result = ROW_NO_MEMORY;

	arena_guard_push(arena, &guard);
	if (setjmp(guard.jump) == 0)
	{
		SyncValue  *values = arena_array(arena, SyncValue, count);

		memcpy(values, row->values, count * sizeof(SyncValue));
		if (old == NULL || old->row_copy.len == 0 || copy_may_be_foreign(flush, row) ||
			!row_copy_merge(old->row_copy, type, values, arena))
			result = ROW_WITH_GAPS;
		else if (table_evaluate(row->table->binding, values, arena, evaluated) == SYNC_OK)
		{
			*copy = row_copy_encode(type, values, arena);
			result = ROW_COMPLETED;
		}
	}
	arena_guard_pop(arena, &guard);
	return result;
}

/*
 * An incomplete row: completes it from the stored copy, or asks for a re-read.
 * Its old state then stays, but not under a key it no longer has.
 */
static ApplyResult
apply_incomplete(Flush *flush, const RowChange *row)
{
	const SourceTable *table = row->table;
	RowId		id = row_id(&table->id, row->has_before ? &row->before : &row->after);
	RowEntry   *entry = row_map_find(&flush->rows, &id);
	bool		exists;
	const RowState *old = row_map_state(&flush->rows, entry, &exists);
	EvaluatedRow evaluated;
	SyncString	copy = {"", 0};
	Completion	completion;

	memset(&evaluated, 0, sizeof(evaluated));
	completion = complete_row(flush, row, old, &evaluated, &copy);
	if (completion == ROW_NO_MEMORY)
	{
		/* alone it has all of the arena */
		if (flush->point.touch_count > 0 || flush->point.reread_count > 0)
			return APPLY_STOP;
		memset(&evaluated, 0, sizeof(evaluated));
		flush->point.counts.rejected_rows++;
		note_row_error(flush, table, "a row takes too much memory and was left out");
	}
	if (row->has_before)
		remove_row(flush, &table->id, &row->before);
	if (completion == ROW_WITH_GAPS)
	{
		want_reread(flush, row);
		return APPLY_DONE;
	}
	count_evaluation_errors(flush, table, &evaluated);
	put_row(flush, table, &row->after, &evaluated, copy);
	return APPLY_DONE;
}

static ApplyResult
apply_change(Flush *flush, const RowChange *row)
{
	const SourceTable *table = row->table;
	RowId		id;
	bool		exists;

	flush->point.counts.rows++;
	switch (row->kind)
	{
		case ROW_DELETE:
			/* a row that is too large to have a key comes as the end of its former version */
			count_evaluation_errors(flush, table, &row->row);
			if (row->has_before)
				remove_row(flush, &table->id, &row->before);
			return APPLY_DONE;
		case ROW_COPY:
			id = row_id(&table->id, &row->after);
			(void) row_map_state(&flush->rows, row_map_find(&flush->rows, &id), &exists);
			if (exists)
				return APPLY_DONE;	/* the stream, or an earlier chunk, knows better */
			break;
		case ROW_INSERT:
		case ROW_UPDATE:
		case ROW_REREAD:
			break;
	}
	if (row->values != NULL)
		return apply_incomplete(flush, row);
	count_evaluation_errors(flush, table, &row->row);
	if (row->has_before)
		remove_row(flush, &table->id, &row->before);
	put_row(flush, table, &row->after, &row->row, row->row_copy);
	return APPLY_DONE;
}

/* Is everything known that the change needs? */
static bool
row_is_loaded(const Flush *flush, const RowChange *row)
{
	RowId		id;

	if (row->has_before)
	{
		id = row_id(&row->table->id, &row->before);
		if (!row_map_find(&flush->rows, &id)->loaded)
			return false;
	}
	if (row->kind == ROW_DELETE)
		return true;
	id = row_id(&row->table->id, &row->after);
	return row_map_find(&flush->rows, &id)->loaded;
}

/* What is in the flush must not be published before the end of where it came from. */
static void
raise_fences(FlushPoint *point)
{
	point->transaction_fence = later(point->transaction_fence, point->open_transaction);
	point->chunk_fence = later(point->chunk_fence, point->chunk);
}

static void
save_sizes(Flush *flush)
{
	flush->point.op_count = flush->ops.count;
	flush->point.op_bytes = flush->ops.bytes;
	flush->point.touch_count = flush->rows.touch_count;
}

/* Takes back what came after the point. */
static void
restore_point(Flush *flush, const FlushPoint *point)
{
	flush->point = *point;
	flush->ops.count = point->op_count;
	flush->ops.bytes = point->op_bytes;
	row_map_undo(&flush->rows, point->touch_count);
}

/*
 * One row.  It waits if it does not fit behind others; alone it may be larger
 * than a flush, which is then written in parts.
 */
static ApplyResult
apply_row(Flush *flush, const RowChange *row)
{
	FlushPoint	before = flush->point;
	size_t		limit = (size_t) flush->writer->document_limit;

	if (!row_is_loaded(flush, row))
		return APPLY_STOP;
	if (apply_change(flush, row) == APPLY_STOP)
	{
		restore_point(flush, &before);
		return APPLY_STOP;
	}
	raise_fences(&flush->point);
	if (flush->ops.count > limit || flush->rows.touch_count > limit + 1 ||
		flush->ops.bytes > (size_t) flush->writer->options.max_bytes)
	{
		if (before.op_count > 0 || before.touch_count > 0)
		{
			restore_point(flush, &before);
			return APPLY_STOP;
		}
		flush->single_row = true;
	}
	save_sizes(flush);
	return APPLY_DONE;
}

void
flush_add_action(Flush *flush, TableActionKind kind, const SourceTableDoc *doc,
				 const SourceTableId *id)
{
	TableAction *action;

	if (flush->point.action_count == flush->action_capacity)
	{
		size_t		capacity = flush->action_capacity ? flush->action_capacity * 2 : FIRST_CAPACITY;
		TableAction *actions = arena_array(flush->arena, TableAction, capacity);

		if (flush->point.action_count > 0)
			memcpy(actions, flush->actions, flush->point.action_count * sizeof(*actions));
		flush->actions = actions;
		flush->action_capacity = capacity;
	}
	action = &flush->actions[flush->point.action_count++];
	action->kind = kind;
	action->doc = doc;
	action->id = *id;
	raise_fences(&flush->point);
}

static void
apply_commit(Flush *flush, const WriteItem *item)
{
	FlushPoint *point = &flush->point;

	point->open_transaction = STREAM_LSN_NONE;
	point->commit_lsn = item->lsn;
	point->answered = point->node->answered;
	if (item->kind == WRITE_COMMIT)
	{
		point->counts.transactions++;
		if (item->source_time_us != 0)
			point->source_time_us = item->source_time_us;
	}
}

/* Everything but rows. */
static void
apply_item(Flush *flush, const WriteItem *item)
{
	FlushPoint *point = &flush->point;

	switch (item->kind)
	{
		case WRITE_BEGIN:
			point->open_transaction = item->lsn;
			break;
		case WRITE_TABLE:
			flush_add_action(flush, TABLE_STORE, item->table_doc, &item->table_doc->id);
			break;
		case WRITE_TABLE_STALE:
			flush_add_action(flush, TABLE_MARK_STALE, NULL, &item->table_id);
			break;
		case WRITE_CHUNK_BEGIN:
			point->chunk = item->lsn;
			break;
		case WRITE_CHUNK_END:
			if (item->table_doc != NULL)
			{
				flush_add_action(flush, TABLE_STORE, item->table_doc, &item->table_doc->id);
				point->counts.chunks++;
				point->copied = item->table_doc;
			}
			/* an empty chunk says that a row is gone: that is not earlier news than a row */
			raise_fences(point);
			point->chunk = STREAM_LSN_NONE;
			break;
		case WRITE_COMMIT:
		case WRITE_KEEPALIVE:
			apply_commit(flush, item);
			break;
		case WRITE_ROW:
		case WRITE_TRUNCATE:
		case WRITE_TABLE_DROP:
		case WRITE_POSITION:
		case WRITE_SNAPSHOT_DONE:
			break;				/* not here */
	}
}

/*
 * Guard set.  Applies the range, and cuts back to the last commit if it did
 * not get to its end.
 */
static void
apply_items(Flush *flush, const Scan *scan)
{
	WriteItem  *item;
	bool		stopped = false;

	while (!stopped && !flush->single_row && (item = point_item(&flush->point)) != NULL &&
		   item != scan->end)
	{
		if (item->kind == WRITE_ROW)
		{
			if (apply_row(flush, item->row) == APPLY_STOP)
			{
				stopped = true;
				break;
			}
		}
		else
			apply_item(flush, item);
		flush->point.item = item->next;
		flush->point.commit = is_commit(item->kind);
		if (flush->point.commit)
			flush->last_commit = flush->point;
	}
	if (!flush->point.commit && flush->last_commit.commit)
	{
		flush->single_row = false;
		restore_point(flush, &flush->last_commit);
	}
}

/* scan NULL: only the flush's memory is made ready */
static bool
run_scan(Flush *flush, Scan *scan)
{
	ArenaGuard	guard;
	volatile bool ok = false;

	arena_guard_push(flush->arena, &guard);
	if (setjmp(guard.jump) == 0)
	{
		bucket_op_list_init(&flush->ops, flush->arena);
		row_map_init(&flush->rows, flush->arena);
		if (scan != NULL)
			scan_items(flush, scan);
		ok = true;
	}
	arena_guard_pop(flush->arena, &guard);
	return ok;
}

static bool
run_apply(Flush *flush, const Scan *scan)
{
	ArenaGuard	guard;
	volatile bool ok = false;

	arena_guard_push(flush->arena, &guard);
	if (setjmp(guard.jump) == 0)
	{
		apply_items(flush, scan);
		ok = true;
	}
	arena_guard_pop(flush->arena, &guard);
	return ok;
}

static void
set_out_of_memory(StorageError *error)
{
	storage_error_set(error, STORAGE_SERVER, "out of memory while making a flush");
}

/*
 * Fills the flush with what comes next in the queue, none of which stands
 * alone.  Afterwards flush->point says how far it goes.
 */
bool
flush_collect(Flush *flush, MongoContext *context, StorageError *error)
{
	Scan		scan;

	if (!run_scan(flush, &scan))
	{
		set_out_of_memory(error);
		return false;
	}
	if (!look_up_states(flush, context, scan.only_copies, error) ||
		(flush->lookup_cut && !look_up_first_row(flush, context, error)))
		return false;
	if (!run_apply(flush, &scan))
	{
		set_out_of_memory(error);
		return false;
	}
	return true;
}

/* ---------------------------------------------------------------- removing a table's rows */

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
				restore_point(flush, &before);
				*full = true;
			}
			else
			{
				flush->single_row = flush->ops.count > (size_t) flush->writer->document_limit;
				*full = flush->single_row || *bytes > LOOKUP_BYTES;
				raise_fences(&flush->point);
				save_sizes(flush);
			}
			ok = true;
		}
	}
	else
		set_out_of_memory(error);
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

	if (!run_scan(flush, NULL))
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
