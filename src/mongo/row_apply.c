/*-------------------------------------------------------------------------
 *
 * row_apply.c
 *	  What one changed row does: from its state, as stored or as left by the
 *	  change before, and its new values to operations and its new state.
 *
 * In memory only, and for one row: what belongs to a flush is decided in
 * group.c.  A row that cannot be stored leaves what it was in (design 5, "Poison
 * rows"); one that cannot be completed is asked for again.
 *
 * Invariant: a row's operations and its new state come together, or neither.
 *
 *-------------------------------------------------------------------------
 */
#include "mongo/writer_private.h"

#include <stdio.h>
#include <string.h>

#define FIRST_CAPACITY	64

static void
note_row_error(Flush *flush, const SourceTable *table, const char *reason)
{
	const char *name = flush->row_name != NULL ? flush->row_name : "";

	format_text(flush->row_error, sizeof(flush->row_error), "table \"%s.%s\"%s%s: %s",
				table->schema, table->name, name[0] != '\0' ? ", row " : "", name, reason);
}

/* The row being applied is not stored as it is: counted once, and named. */
static void
reject_row(Flush *flush, const SourceTable *table, const char *reason)
{
	if (flush->rejected == NULL)
		flush->point.counts.rejected_rows++;
	flush->rejected = reason;
	note_row_error(flush, table, reason);
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
		reject_row(flush, table, "a row is larger than 15 MiB and was left out");
	return kept;
}

static void
count_evaluation_errors(Flush *flush, const SourceTable *table, const EvaluatedRow *row)
{
	const char *reason = row->error != NULL ? row->error->message : "a query failed";

	if (row->error_count == 0)
		return;
	/* the row itself is too large, not a query that failed on it */
	if (row->error != NULL && row->error->code == SYNC_ERROR_LIMIT &&
		row->bucket_row_count == 0 && row->parameter_row_count == 0)
		reject_row(flush, table, reason);
	else
	{
		flush->point.counts.evaluation_errors += row->error_count;
		note_row_error(flush, table, reason);
	}
}

/* Moves a row from its present state to nowhere. */
void
remove_row(Flush *flush, const SourceTableId *table, const SourceKey *key)
{
	RowId		id = row_id(table, key);
	RowEntry   *entry = row_map_find(&flush->rows, &id);
	bool		exists;
	RowState   *old = row_map_state(&flush->rows, entry, &exists);

	rejected_clear(flush, &id);
	if (!exists)
		return;
	(void) bucket_ops_move(&flush->ops, table, key, old, NULL);
	row_map_touch(&flush->rows, entry, NULL);
}

/* Moves a row from its present state to where evaluation puts it. */
static void
put_row(Flush *flush, const SourceTable *table, const SourceKey *key, const EvaluatedRow *row,
		SyncString row_copy, int64_t round)
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
		reject_row(flush, table, "a row is in too many buckets and was left out");
		if (exists)
			(void) bucket_ops_move(&flush->ops, &table->id, key, old, NULL);
		row_map_touch(&flush->rows, entry, NULL);
		return;
	}
	if (flush->rejected == NULL)
		rejected_clear(flush, &id);
	now->round = round;
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
	flush->rereads = room_for_one(flush->arena, flush->rereads, sizeof(*flush->rereads),
								  flush->point.reread_count, &flush->reread_capacity,
								  FIRST_CAPACITY);
	flush->rereads[flush->point.reread_count++] = (WantedReread) {row->table, row->reread_key};
}

/*
 * A row that must be read again is there: the sweep at the end of the copy that is
 * going on is to leave its old state, whose place the row that is read will take.  But
 * not with its row copy, which is none of that round.
 */
static void
stamp_state(Flush *flush, const RowId *id, int64_t round)
{
	RowEntry   *entry = row_map_find(&flush->rows, id);
	bool		exists;
	const RowState *old = row_map_state(&flush->rows, entry, &exists);
	RowState   *now;

	if (round == 0 || !exists || old == NULL || old->round == round)
		return;
	now = arena_new(flush->arena, RowState);
	*now = *old;
	now->round = round;
	now->row_copy = (SyncString) {"", 0};
	row_map_touch(&flush->rows, entry, now);
}

/*
 * Is the row copy from before its table was marked to be copied again?  What it holds
 * may be another column's now, or not what the column holds any more, and a row that
 * changes while its chunk is read is not mended by the copy.
 */
static bool
copy_is_old(const RowChange *row, const RowState *old)
{
	return row->round != 0 && old->round != row->round;
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
		point->open_transaction < later_lsn(flush->writer->position.no_checkpoint_before,
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
		if (old == NULL || old->row_copy.len == 0 || copy_is_old(row, old) ||
			copy_may_be_foreign(flush, row) ||
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
		reject_row(flush, table, "a row takes too much memory and was left out");
	}
	if (row->has_before)
		remove_row(flush, &table->id, &row->before);
	if (completion == ROW_WITH_GAPS)
	{
		want_reread(flush, row);
		id = row_id(&table->id, &row->after);
		stamp_state(flush, &id, row->round);
		return APPLY_DONE;
	}
	count_evaluation_errors(flush, table, &evaluated);
	put_row(flush, table, &row->after, &evaluated, copy, row->round);
	return APPLY_DONE;
}

static ApplyResult
move_row(Flush *flush, const RowChange *row)
{
	const SourceTable *table = row->table;
	const RowState *old;
	RowId		id;
	bool		exists;

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
			old = row_map_state(&flush->rows, row_map_find(&flush->rows, &id), &exists);
			if (exists && (old == NULL || !old->partial))
				return APPLY_DONE;	/* the stream, or an earlier chunk, knows better */
			break;
		case ROW_INSERT:
		case ROW_UPDATE:
		case ROW_RECOPY:
		case ROW_REREAD:
			break;
	}
	if (row->values != NULL)
		return apply_incomplete(flush, row);
	count_evaluation_errors(flush, table, &row->row);
	if (row->has_before)
		remove_row(flush, &table->id, &row->before);
	put_row(flush, table, &row->after, &row->row, row->row_copy, row->round);
	return APPLY_DONE;
}

ApplyResult
apply_change(Flush *flush, const RowChange *row)
{
	ApplyResult result;

	flush->point.counts.rows++;
	flush->row_name = row->name;
	flush->rejected = NULL;
	result = move_row(flush, row);
	if (result == APPLY_DONE && flush->rejected != NULL)
		rejected_add(flush, row, flush->rejected);
	return result;
}
