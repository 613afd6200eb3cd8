/*-------------------------------------------------------------------------
 *
 * flush.c
 *	  The flush transaction (contract 4.1, design 5).
 *
 * Order of writes: op id sequence, operations and bucket state, row state, rejected
 * rows, source tables, stream document.  The sequence comes first because it is what
 * every flush of a storage conflicts on: a loser loses nothing but that call.
 * A flush that has nothing but a new position is one update of the stream
 * document, without a transaction.
 *
 * Invariant: every flush updates the stream document, filtered by our lock, by
 * a state in which the stream is replicated and by the position we wrote last;
 * without a match nothing of it is stored.
 *
 *-------------------------------------------------------------------------
 */
#include "mongo/stream_doc.h"
#include "mongo/writer_private.h"

#include <string.h>

/* a flush should not take longer than this: ours, and when others wait */
#define FLUSH_SLOW_US		INT64_C(2000000)
#define FLUSH_POLITE_US		INT64_C(250000)
#define DOCUMENT_LIMIT_MIN	50
#define MISMATCH_TRIES		3

/* ---------------------------------------------------------------- position */

/*
 * A single update that did not match, though the document is where it was to bring it:
 * it was done, its answer was lost, and the driver asked a server that had forgotten it.
 */
static bool
was_done_before(MongoContext *context, const Writer *writer, const StreamPosition *next)
{
	const StreamPosition *from = &writer->position;
	StorageError reason;

	if (context->in_transaction || (next->last_checkpoint_lsn == from->last_checkpoint_lsn &&
									next->snapshot_lsn == from->snapshot_lsn))
		return false;
	memset(&reason, 0, sizeof(reason));
	explain_mismatch(context, next->last_checkpoint_lsn, next->snapshot_lsn, &reason);
	return reason.kind == STORAGE_OK;
}

bool
write_position(MongoContext *context, Writer *writer, const StreamPosition *next,
			   bool checkpoint, bool *mismatch, StorageError *error)
{
	static const StreamState running[] = {STREAM_PROCESSING, STREAM_ACTIVE};
	bson_t		filter = BSON_INITIALIZER;
	bson_t		update = BSON_INITIALIZER;
	bson_t		stage;
	bson_t		set;
	int64_t		matched = 0;
	bool		ok;

	append_held_filter(context, &filter);
	append_state_in(&filter, running, 2);
	append_lsn_or_null(&filter, "last_checkpoint_lsn", writer->position.last_checkpoint_lsn);
	append_lsn_or_null(&filter, "snapshot_lsn", writer->position.snapshot_lsn);

	BSON_APPEND_DOCUMENT_BEGIN(&update, "0", &stage);
	BSON_APPEND_DOCUMENT_BEGIN(&stage, "$set", &set);
	append_server_time(&set, "lock.expires_at", LOCK_SECONDS);
	writer->format->position(&set, &writer->position, next, checkpoint);
	bson_append_document_end(&stage, &set);
	bson_append_document_end(&update, &stage);

	ok = call_update(context, COLLECTION_STREAMS, &filter, &update, false, false, &matched, error);
	*mismatch = ok && matched == 0;
	if (*mismatch && was_done_before(context, writer, next))
	{
		storage_error_set(error, STORAGE_UNREACHABLE,
						  "the answer to a write of replication stream %d was lost",
						  (int) writer->stream_id);
		error->commit_unknown = true;
		*mismatch = ok = false;
	}
	if (*mismatch)
	{
		storage_error_set(error, STORAGE_CHANGED,
						  "the document of replication stream %d is not as it was written last",
						  (int) writer->stream_id);
		context->transient = false;
		ok = false;
	}
	bson_destroy(&update);
	bson_destroy(&filter);
	return ok;
}

void
set_mismatch_error(MongoContext *context, Writer *writer, StorageError *error)
{
	StorageError reason;

	memset(&reason, 0, sizeof(reason));
	explain_mismatch(context, writer->position.last_checkpoint_lsn,
					 writer->position.snapshot_lsn, &reason);
	if (reason.kind != STORAGE_OK)
		*error = reason;
}

/* ---------------------------------------------------------------- op ids */

/* Takes count op ids; *first is the lowest.  Locks the sequence. */
static bool
take_op_ids(MongoContext *context, Flush *flush, int64_t *first, StorageError *error)
{
	Writer	   *writer = flush->writer;
	int64_t		count = (int64_t) flush->op_count;
	bson_t		filter = BSON_INITIALIZER;
	bson_t		update = BSON_INITIALIZER;
	bson_t		part;
	bson_t		value;
	int64_t		last = 0;
	bool		exists;
	bool		ok;

	BSON_APPEND_UTF8(&filter, "_id", "main");
	BSON_APPEND_DOCUMENT_BEGIN(&update, "$inc", &part);
	BSON_APPEND_INT64(&part, "op_id", count);
	bson_append_document_end(&update, &part);
	BSON_APPEND_DOCUMENT_BEGIN(&update, "$set", &part);
	BSON_APPEND_DOUBLE(&part, "ts", (double) (unix_time_us() / 1000));
	bson_append_document_end(&update, &part);
	ok = call_find_and_modify(context, COLLECTION_SEQUENCE, &filter, &update, true, &value,
							  &exists, error);
	if (ok && (!exists || !read_integer(&value, "op_id", &last) || last < count))
	{
		storage_error_set(error, STORAGE_INVALID, "the op id sequence is not a number");
		ok = false;
	}
	if (ok && last - count < writer->sequence)
	{
		storage_error_set(error, STORAGE_CHANGED,
						  "the op id sequence is behind what was written: the storage is an older one");
		ok = false;
	}
	bson_destroy(&value);
	bson_destroy(&update);
	bson_destroy(&filter);
	*first = last - count + 1;
	return ok;
}

/* ---------------------------------------------------------------- row state */

typedef struct StateWrites
{
	bson_t	  **inserts;
	bson_t	  **replaces;
	size_t		insert_count;
	size_t		replace_count;
	bson_t		deletes;		/* {_id: {$in: [...]}} is made of it */
	uint32_t	delete_count;
} StateWrites;

static void
add_state(StateWrites *writes, const RowEntry *entry, const RowState *state)
{
	bson_t	   *document;

	if (row_state_is_empty(state))
	{
		const char *position;
		char		digits[12];

		if (!entry->existed)
			return;
		bson_uint32_to_string(writes->delete_count++, &position, digits, sizeof(digits));
		bson_append_binary(&writes->deletes, position, -1, BSON_SUBTYPE_BINARY,
						   entry->id.bytes, ROW_ID_LEN);
		return;
	}
	document = bson_sized_new(128 + row_state_size(state) + state->row_copy.len);
	row_state_document(&entry->id, state, document);
	if (entry->existed)
		writes->replaces[writes->replace_count++] = document;
	else
		writes->inserts[writes->insert_count++] = document;
}

/* Guard set: the final state of each row that was touched. */
static bool
collect_states(Flush *flush, StateWrites *writes)
{
	ArenaGuard	guard;
	volatile bool ok = false;
	RowMap	   *rows = &flush->rows;

	arena_guard_push(flush->arena, &guard);
	if (setjmp(guard.jump) == 0)
	{
		for (size_t i = 0; i < rows->touch_count; i++)
		{
			const RowTouch *touch = &rows->touches[i];
			const RowState *state = touch->state;

			if (touch->entry->latest != (int) i)
				continue;
			if (flush->keep_old_state)
				state = row_state_unite(touch->entry->stored, state, flush->arena);
			add_state(writes, touch->entry, state);
		}
		ok = true;
	}
	arena_guard_pop(flush->arena, &guard);
	return ok;
}

static bool
delete_states(MongoContext *context, Flush *flush, const StateWrites *writes, StorageError *error)
{
	bson_t		filter = BSON_INITIALIZER;
	bson_t		in;
	bool		ok;

	if (writes->delete_count == 0)
		return true;
	BSON_APPEND_DOCUMENT_BEGIN(&filter, "_id", &in);
	BSON_APPEND_ARRAY(&in, "$in", &writes->deletes);
	bson_append_document_end(&filter, &in);
	ok = call_delete(context, flush->writer->rows_collection, &filter, true, 0, NULL, error);
	bson_destroy(&filter);
	return ok;
}

static bool
write_states(MongoContext *context, Flush *flush, StorageError *error)
{
	const char *collection = flush->writer->rows_collection;
	StateWrites writes;
	size_t		room = flush->rows.touch_count;
	bool		ok;

	if (room == 0)
		return true;
	memset(&writes, 0, sizeof(writes));
	bson_init(&writes.deletes);
	writes.inserts = bson_malloc(room * sizeof(bson_t *));
	writes.replaces = bson_malloc(room * sizeof(bson_t *));
	ok = collect_states(flush, &writes);
	if (!ok)
		storage_error_set(error, STORAGE_SERVER, "out of memory while writing row state");
	ok = ok && call_insert(context, collection, writes.inserts, writes.insert_count, error) &&
		call_replace(context, collection, writes.replaces, writes.replace_count, error) &&
		delete_states(context, flush, &writes, error);
	for (size_t i = 0; i < writes.insert_count; i++)
		bson_destroy(writes.inserts[i]);
	for (size_t i = 0; i < writes.replace_count; i++)
		bson_destroy(writes.replaces[i]);
	bson_free(writes.inserts);
	bson_free(writes.replaces);
	bson_destroy(&writes.deletes);
	return ok;
}

/* ---------------------------------------------------------------- source tables */

static bool
store_table(MongoContext *context, Writer *writer, const SourceTableDoc *table,
			StorageError *error)
{
	bson_t		source = BSON_INITIALIZER;
	bson_t		progress = BSON_INITIALIZER;
	bson_t	   *source_list = &source;
	bson_t	   *progress_list = &progress;
	bool		ok;

	source_table_document(table, writer->stream_id, &source);
	table_progress_document(table, writer->stream_id, &progress);
	ok = call_replace(context, COLLECTION_TABLES, &source_list, 1, error) &&
		call_replace(context, COLLECTION_PROGRESS, &progress_list, 1, error);
	bson_destroy(&progress);
	bson_destroy(&source);
	return ok;
}

static bool
remove_table(MongoContext *context, const SourceTableId *id, StorageError *error)
{
	bson_t		filter = BSON_INITIALIZER;
	bool		ok;

	append_source_table_id(&filter, "_id", id);
	ok = call_delete(context, COLLECTION_TABLES, &filter, false, 0, NULL, error) &&
		call_delete(context, COLLECTION_PROGRESS, &filter, false, 0, NULL, error);
	bson_destroy(&filter);
	return ok;
}

static bool
write_actions(MongoContext *context, Flush *flush, StorageError *error)
{
	for (size_t i = 0; i < flush->point.action_count; i++)
	{
		const TableAction *action = &flush->actions[i];
		bool		ok = true;

		/*
		 * A table is known before its first row is stored, and until its last one
		 * is gone; a copy has ended when its last foreign row is gone.
		 */
		if (action->kind == TABLE_STORE ? !flush->first_part : flush->keep_old_state)
			continue;
		switch (action->kind)
		{
			case TABLE_STORE:
			case TABLE_STORE_LAST:
				ok = store_table(context, flush->writer, action->doc, error);
				break;
			case TABLE_REMOVE:
				ok = remove_table(context, &action->id, error);
				break;
		}
		if (!ok)
			return false;
	}
	return true;
}

/* ---------------------------------------------------------------- transaction */

static bool
write_operations(MongoContext *context, Flush *flush, StorageError *error)
{
	DocumentSet set;
	int64_t		first;
	bool		ok;

	if (!take_op_ids(context, flush, &first, error))
		return false;
	flush->last_op = first + (int64_t) flush->op_count - 1;
	document_set_init(&set);
	ok = flush->writer->format->operations(&set, flush->writer->stream_id,
										   flush->ops.ops + flush->first_op, flush->op_count,
										   first);
	if (!ok)
		storage_error_set(error, STORAGE_SERVER, "a flush goes to too many collections");
	ok = ok && document_set_write(context, &set, error);
	document_set_destroy(&set);
	return ok;
}

static bool
flush_body(MongoContext *context, void *arg, StorageError *error)
{
	Flush	   *flush = arg;

	flush->began = monotonic_us();
	flush->last_op = 0;
	if (flush->op_count > 0 && !write_operations(context, flush, error))
		return false;
	if (!write_states(context, flush, error) || !rejected_write(context, flush, error) ||
		!write_actions(context, flush, error))
		return false;
	flush_next_position(flush, flush->last_op);
	return write_position(context, flush->writer, &flush->next, flush->checkpoint,
						  &flush->mismatch, error);
}

/* The next flush's size by how long this one took. */
static void
adapt_limit(Writer *writer, size_t documents, int64_t elapsed)
{
	bool		polite = writer->options.turn != NULL && !writer->position.active &&
		turn_wanted(writer->options.turn, writer->options.turn_index);
	int64_t		bound = polite ? FLUSH_POLITE_US : FLUSH_SLOW_US;
	int			limit = writer->document_limit;

	if (elapsed > bound && documents > DOCUMENT_LIMIT_MIN)
		limit = (int) ((int64_t) documents * bound * 8 / 10 / elapsed);
	else if (elapsed < bound / 2 && documents * 2 > (size_t) limit)
		limit *= 2;
	if (limit < DOCUMENT_LIMIT_MIN)
		limit = DOCUMENT_LIMIT_MIN;
	if (limit > writer->options.max_documents)
		limit = writer->options.max_documents;
	writer->document_limit = limit;
}

/* One transaction, with our turn at the sequence. */
static bool
run_transaction(Flush *flush, MongoContext *context, StorageError *error)
{
	Writer	   *writer = flush->writer;
	int64_t		conflicts = 0;
	bool		ok;

	flush->mismatch = false;
	if (flush->op_count > 0)
		ok = writer_run_in_turn(context, writer, flush_body, flush, &conflicts, error);
	else
		ok = transaction_run(context, flush_body, flush, &conflicts, error);
	if (ok && conflicts == 0)
		adapt_limit(writer, flush->op_count > flush->rows.touch_count ?
					flush->op_count : flush->rows.touch_count, monotonic_us() - flush->began);
	pthread_mutex_lock(&writer->thread->mutex);
	writer->progress.write_conflicts += conflicts;
	pthread_mutex_unlock(&writer->thread->mutex);
	return ok;
}

/* Nothing but a new position. */
static bool
run_update(Flush *flush, MongoContext *context, StorageError *error)
{
	flush->last_op = 0;
	flush_next_position(flush, 0);
	return write_position(context, flush->writer, &flush->next, flush->checkpoint,
						  &flush->mismatch, error);
}

/*
 * A document that did not match, but whose fields are as they should be, was
 * seen in the middle of another write: again.
 */
static bool
write_once(Flush *flush, MongoContext *context, bool transaction, StorageError *error)
{
	for (int try = 1;; try++)
	{
		StorageError reason;
		int64_t		start = monotonic_us();

		memset(error, 0, sizeof(*error));
		if (transaction ? run_transaction(flush, context, error) :
			run_update(flush, context, error))
		{
			flush->written++;
			/* a transaction that was tried for long set the lock's end at its last try */
			context->lock_renewed = transaction ? flush->began : start;
			context->lock_tried = 0;
			flush->writer->position = flush->next;
			if (flush->last_op > flush->writer->sequence)
				flush->writer->sequence = flush->last_op;
			return true;
		}
		if (!flush->mismatch)
			return false;
		memset(&reason, 0, sizeof(reason));
		set_mismatch_error(context, flush->writer, &reason);
		if (reason.kind != STORAGE_OK)
			*error = reason;
		if (reason.kind != STORAGE_OK || try >= MISMATCH_TRIES)
			return false;
	}
}

/*
 * One row with more operations than a transaction takes: in parts.  Until the
 * last one its state names old and new memberships, so that whatever was
 * written can be removed, and is marked: the row is not where it says.
 */
static bool
write_in_parts(Flush *flush, MongoContext *context, StorageError *error)
{
	size_t		limit = (size_t) flush->writer->document_limit;
	size_t		total = flush->ops.count;

	flush->first_op = 0;
	while (flush->first_op < total)
	{
		size_t		bytes = 0;
		size_t		count = 0;

		while (flush->first_op + count < total && count < limit)
		{
			bytes += flush->writer->format->operation_size(&flush->ops.ops[flush->first_op + count]);
			if (count > 0 && bytes > (size_t) flush->writer->options.max_bytes)
				break;
			count++;
		}
		flush->op_count = count;
		flush->keep_old_state = flush->first_op + count < total;
		flush->first_part = flush->first_op == 0;
		if (!write_once(flush, context, true, error))
			return false;
		/* the state is stored now: the next part replaces it */
		for (size_t i = 0; i < flush->rows.touch_count; i++)
			flush->rows.touches[i].entry->existed = true;
		flush->first_op += count;
	}
	return true;
}

bool
flush_write(Flush *flush, MongoContext *context, StorageError *error)
{
	bool		anything = flush->ops.count > 0 || flush->rows.touch_count > 0 ||
		flush->point.action_count > 0 || flush->point.verdict_count > 0;
	bool		fence = flush->point.chunk_fence > flush->writer->position.no_checkpoint_before;
	/* a sweep can look at rows that stay for longer than the lock lasts */
	bool		renew = monotonic_us() - context->lock_renewed >
		atomic_load(&flush->writer->thread->renew_ms) * INT64_C(1000);
	bool		ok;

	if (!rejected_prepare(flush))
	{
		set_out_of_memory(error);
		return false;
	}
	if (flush->single_row)
		ok = write_in_parts(flush, context, error);
	else
	{
		flush->first_op = 0;
		flush->op_count = flush->ops.count;
		flush->first_part = true;
		/* perhaps there is nothing to write, and no position to store */
		ok = (!anything && !flush->point.commit && !fence && !renew) ||
			write_once(flush, context, anything, error);
	}
	if (ok)
		rejected_advance(flush);
	return ok;
}
