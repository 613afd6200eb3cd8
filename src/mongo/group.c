/*-------------------------------------------------------------------------
 *
 * group.c
 *	  Which items make the next flush: scan the queue, have row state looked up
 *	  (row_lookup.c) and rows applied (row_apply.c), in order, up to where it ends.
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
	flush->point.keyless = writer->keyless;
}

/* Guard set.  The memory for what is collected. */
void
flush_make_ready(Flush *flush)
{
	bucket_op_list_init(&flush->ops, flush->arena);
	row_map_init(&flush->rows, flush->arena);
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
	return kind == WRITE_TRUNCATE || kind == WRITE_TABLE_DROP || kind == WRITE_TABLE_SWEEP ||
		kind == WRITE_POSITION || kind == WRITE_SNAPSHOT_DONE;
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

/* ---------------------------------------------------------------- apply */

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
void
flush_raise_fences(FlushPoint *point)
{
	point->transaction_fence = later_lsn(point->transaction_fence, point->open_transaction);
	point->chunk_fence = later_lsn(point->chunk_fence, point->chunk);
}

void
flush_save_sizes(Flush *flush)
{
	flush->point.op_count = flush->ops.count;
	flush->point.op_bytes = flush->ops.bytes;
	flush->point.touch_count = flush->rows.touch_count;
}

/* Takes back what came after the point. */
void
flush_restore(Flush *flush, const FlushPoint *point)
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
		flush_restore(flush, &before);
		return APPLY_STOP;
	}
	flush_raise_fences(&flush->point);
	if (flush->ops.count > limit || flush->rows.touch_count > limit + 1 ||
		flush->ops.bytes > (size_t) flush->writer->options.max_bytes)
	{
		if (before.op_count > 0 || before.touch_count > 0)
		{
			flush_restore(flush, &before);
			return APPLY_STOP;
		}
		flush->single_row = true;
	}
	flush_save_sizes(flush);
	return APPLY_DONE;
}

void
flush_add_action(Flush *flush, TableActionKind kind, const SourceTableDoc *doc,
				 const SourceTableId *id)
{
	TableAction *action;

	flush->actions = room_for_one(flush->arena, flush->actions, sizeof(*flush->actions),
								  flush->point.action_count, &flush->action_capacity,
								  FIRST_CAPACITY);
	action = &flush->actions[flush->point.action_count++];
	action->kind = kind;
	action->doc = doc;
	action->id = *id;
	flush_raise_fences(&flush->point);
}

static void
apply_commit(Flush *flush, const WriteItem *item)
{
	FlushPoint *point = &flush->point;

	point->open_transaction = STREAM_LSN_NONE;
	point->commit_lsn = item->lsn;
	point->incomplete = item->incomplete;
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
			point->keyless = 0;
			break;
		case WRITE_TABLE:
			flush_add_action(flush, TABLE_STORE, item->table_doc, &item->table_doc->id);
			break;
		case WRITE_CHUNK_BEGIN:
			point->chunk = item->lsn;
			point->keyless = 0;
			break;
		case WRITE_CHUNK_END:
			if (item->table_doc != NULL)
			{
				flush_add_action(flush, TABLE_STORE, item->table_doc, &item->table_doc->id);
				point->counts.chunks++;
				point->copied = item->table_doc;
			}
			/* an empty chunk says that a row is gone: that is not earlier news than a row */
			flush_raise_fences(point);
			point->chunk = STREAM_LSN_NONE;
			break;
		case WRITE_COMMIT:
		case WRITE_KEEPALIVE:
			apply_commit(flush, item);
			break;
		case WRITE_ROW:
		case WRITE_TRUNCATE:
		case WRITE_TABLE_DROP:
		case WRITE_TABLE_SWEEP:
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
		flush_restore(flush, &flush->last_commit);
	}
}

static bool
run_scan(Flush *flush, Scan *scan)
{
	ArenaGuard	guard;
	volatile bool ok = false;

	arena_guard_push(flush->arena, &guard);
	if (setjmp(guard.jump) == 0)
	{
		flush_make_ready(flush);
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

void
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
