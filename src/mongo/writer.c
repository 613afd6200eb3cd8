/*-------------------------------------------------------------------------
 *
 * writer.c
 *	  The writer: its queue, its progress, and what is done next.
 *
 * The main thread's side takes the thread's mutex for moments only and never
 * waits for the storage.  The thread's side, writer_step(), does one flush.
 *
 * Invariants: a batch is freed when its last item is durable; after an error
 * the writer does nothing any more.
 *
 *-------------------------------------------------------------------------
 */
#include "mongo/writer_private.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- re-reads */

typedef struct RereadNode
{
	RereadRequest request;		/* first: what the main thread sees */
	uint64_t	number;
	RereadLedger *ledger;
	char		key[];
} RereadNode;

static void
ledger_release(RereadLedger *ledger)
{
	if (atomic_fetch_sub(&ledger->references, 1) == 1)
		free(ledger);
}

/*
 * The request is answered: whatever the main thread sent for it is submitted.
 * Requests are answered in the order they were handed out.
 */
void
reread_request_free(RereadRequest *request)
{
	RereadNode *node = (RereadNode *) request;

	if (request == NULL)
		return;
	if (atomic_load(&node->ledger->answered) < node->number)
		atomic_store(&node->ledger->answered, node->number);
	ledger_release(node->ledger);
	source_table_release(request->table);
	free(node);
}

/* One hold stands for all requests that let the same position be stored. */
static bool
hold_position(Writer *writer, uint64_t lsn)
{
	RereadHold *hold = writer->last_hold;

	if (hold != NULL && hold->lsn == lsn)
	{
		hold->number = writer->reread_number;
		return true;
	}
	hold = malloc(sizeof(RereadHold));
	if (hold == NULL)
		return false;
	*hold = (RereadHold) {writer->reread_number, lsn, NULL};
	if (writer->last_hold != NULL)
		writer->last_hold->next = hold;
	else
		writer->holds = hold;
	writer->last_hold = hold;
	return true;
}

/*
 * Hands the flush's wanted rows to the main thread.  Until they are answered
 * no position past lsn is stored.  False: out of memory.
 */
static bool
publish_rereads(Writer *writer, const Flush *flush, uint64_t lsn)
{
	for (size_t i = 0; i < flush->point.reread_count; i++)
	{
		const WantedReread *wanted = &flush->rereads[i];
		RereadNode *node = malloc(sizeof(RereadNode) + wanted->key.len);

		if (node == NULL)
			return false;
		memcpy(node->key, wanted->key.data, wanted->key.len);
		node->request.table = source_table_retain(wanted->table);
		node->request.key = (SyncString) {node->key, wanted->key.len};
		node->request.next = NULL;
		node->number = ++writer->reread_number;
		node->ledger = writer->ledger;
		atomic_fetch_add(&writer->ledger->references, 1);
		if (!hold_position(writer, lsn))
		{
			reread_request_free(&node->request);
			return false;
		}
		pthread_mutex_lock(&writer->thread->mutex);
		*writer->rereads_tail = &node->request;
		writer->rereads_tail = &node->request.next;
		writer->reread_bytes += sizeof(RereadNode) + wanted->key.len;
		writer->progress.rereads++;
		pthread_mutex_unlock(&writer->thread->mutex);
	}
	return true;
}

static void
drop_answered_holds(Writer *writer, uint64_t answered)
{
	RereadHold *hold;

	while ((hold = writer->holds) != NULL && hold->number <= answered)
	{
		writer->holds = hold->next;
		if (writer->holds == NULL)
			writer->last_hold = NULL;
		free(hold);
	}
}

RereadRequest *
writer_take_rereads(MongoThread *thread)
{
	RereadRequest *list = NULL;

	pthread_mutex_lock(&thread->mutex);
	if (thread->writer != NULL)
	{
		list = thread->writer->rereads;
		thread->writer->rereads = NULL;
		thread->writer->rereads_tail = &thread->writer->rereads;
		thread->writer->reread_bytes = 0;
	}
	pthread_mutex_unlock(&thread->mutex);
	return list;
}

size_t
writer_reread_bytes(MongoThread *thread)
{
	size_t		bytes;

	pthread_mutex_lock(&thread->mutex);
	bytes = thread->writer != NULL ? thread->writer->reread_bytes : 0;
	pthread_mutex_unlock(&thread->mutex);
	return bytes;
}

/* ---------------------------------------------------------------- start and end */

static void
init_progress(Writer *writer, const StreamDoc *stream)
{
	WriterProgress *progress = &writer->progress;

	progress->stored_lsn = stream_stored_lsn(stream);
	progress->checkpoint_lsn = stream->last_checkpoint_lsn;
	progress->checkpoint_op = stream->last_checkpoint;
	progress->snapshot_done = stream->snapshot_done;
	progress->active = writer->position.active;
}

static void
init_position(Writer *writer, const StreamDoc *stream)
{
	StreamPosition *position = &writer->position;

	position->snapshot_done = stream->snapshot_done;
	position->active = stream->state == STREAM_ACTIVE || writer->options.served;
	position->snapshot_lsn = stream->snapshot_lsn;
	position->last_checkpoint_lsn = stream->last_checkpoint_lsn;
	position->no_checkpoint_before = stream->no_checkpoint_before;
	position->last_checkpoint = stream->last_checkpoint;
	position->keepalive_op = stream->keepalive_op;
	position->persisted_op = stream->keepalive_op > 0 ? stream->keepalive_op : 0;
	/* what this stream has written: the sequence cannot be below it */
	writer->sequence = stream->last_checkpoint > stream->keepalive_op ?
		stream->last_checkpoint : stream->keepalive_op;
	if (writer->sequence < 0)
		writer->sequence = 0;
}

bool
writer_start(MongoThread *thread, const StreamDoc *stream, const WriterOptions *options)
{
	Writer	   *writer = calloc(1, sizeof(Writer));
	RereadLedger *ledger = calloc(1, sizeof(RereadLedger));

	if (writer == NULL || ledger == NULL ||
		(writer->arena = arena_create(FLUSH_ARENA_BYTES)) == NULL ||
		(writer->rows_arena = arena_create(ROWS_ARENA_BYTES)) == NULL)
	{
		if (writer != NULL)
			arena_destroy(writer->arena);
		free(ledger);
		free(writer);
		return false;
	}
	atomic_init(&ledger->references, 1);
	atomic_init(&ledger->answered, 0);
	writer->ledger = ledger;
	writer->thread = thread;
	writer->stream_id = stream->id;
	writer->options = *options;
	if (writer->options.max_documents <= 0 || writer->options.max_documents > FLUSH_DOCUMENTS)
		writer->options.max_documents = FLUSH_DOCUMENTS;
	if (writer->options.max_bytes <= 0 || writer->options.max_bytes > FLUSH_BYTES)
		writer->options.max_bytes = FLUSH_BYTES;
	writer->document_limit = writer->options.max_documents;
	stream_collection_name(writer->rows_collection, COLLECTION_ROW_STATE, stream->id);
	writer->submitted_tail = &writer->submitted;
	writer->rereads_tail = &writer->rereads;
	init_position(writer, stream);
	init_progress(writer, stream);
	writer->format = storage_format(stream->storage_version);
	if (writer->format == NULL)
	{
		writer->progress.failed = true;
		storage_error_set(&writer->progress.error, STORAGE_INVALID,
						  "storage version %d of replication stream %d is not supported",
						  (int) stream->storage_version, (int) stream->id);
	}

	pthread_mutex_lock(&thread->mutex);
	if (thread->writer == NULL)
	{
		thread->writer = writer;
		writer = NULL;
	}
	pthread_mutex_unlock(&thread->mutex);
	if (writer != NULL)
		writer_destroy(writer); /* one writer a thread */
	return writer == NULL;
}

static void
free_batches(BatchNode *node)
{
	while (node != NULL)
	{
		BatchNode  *next = node->next;

		write_batch_free(&node->batch);
		node = next;
	}
}

void
writer_destroy(Writer *writer)
{
	RereadRequest *request;

	free_batches(writer->submitted);
	free_batches(writer->first);
	while ((request = writer->rereads) != NULL)
	{
		writer->rereads = request->next;
		reread_request_free(request);
	}
	drop_answered_holds(writer, UINT64_MAX);
	removal_free(writer);
	ledger_release(writer->ledger);
	arena_destroy(writer->rows_arena);
	arena_destroy(writer->arena);
	free(writer);
}

/* ---------------------------------------------------------------- the main thread's side */

void
writer_submit(MongoThread *thread, WriteBatch *batch)
{
	BatchNode  *node = (BatchNode *) batch;
	Writer	   *writer;
	bool		refused = true;

	node->bytes = arena_used(batch->arena);
	node->next = NULL;
	pthread_mutex_lock(&thread->mutex);
	writer = thread->writer;
	if (writer != NULL && !writer->progress.failed && !thread->ended)
	{
		node->answered = atomic_load(&writer->ledger->answered);
		*writer->submitted_tail = node;
		writer->submitted_tail = &node->next;
		writer->queued_bytes += node->bytes;
		pthread_cond_signal(&thread->work);
		refused = false;
	}
	pthread_mutex_unlock(&thread->mutex);
	if (refused)
		write_batch_free(batch);
}

bool
writer_queue_full(MongoThread *thread)
{
	bool		full;

	pthread_mutex_lock(&thread->mutex);
	full = thread->writer != NULL && !thread->writer->progress.failed &&
		thread->writer->queued_bytes >= thread->queue_limit;
	pthread_mutex_unlock(&thread->mutex);
	return full;
}

bool
writer_idle(MongoThread *thread)
{
	bool		idle;

	pthread_mutex_lock(&thread->mutex);
	idle = thread->writer == NULL ||
		(thread->writer->submitted == NULL && !thread->writer->pending);
	pthread_mutex_unlock(&thread->mutex);
	return idle;
}

void
writer_progress(MongoThread *thread, WriterProgress *progress)
{
	pthread_mutex_lock(&thread->mutex);
	if (thread->writer != NULL)
		*progress = thread->writer->progress;
	else
		memset(progress, 0, sizeof(*progress));
	pthread_mutex_unlock(&thread->mutex);
}

bool
writer_has_work(Writer *writer)
{
	return !writer->progress.failed && (writer->submitted != NULL || writer->pending);
}

bool
writer_has_failed(const Writer *writer)
{
	return writer->progress.failed;
}

/* ---------------------------------------------------------------- the thread's side */

/* Moves what was submitted to the thread's own list. */
static void
take_submitted(Writer *writer)
{
	BatchNode  *node;

	pthread_mutex_lock(&writer->thread->mutex);
	node = writer->submitted;
	writer->submitted = NULL;
	writer->submitted_tail = &writer->submitted;
	if (node != NULL)
		writer->pending = true;
	pthread_mutex_unlock(&writer->thread->mutex);
	if (node == NULL)
		return;
	if (writer->first == NULL)
	{
		writer->first = node;
		writer->item = node->batch.first;
	}
	else
		writer->last->next = node;
	while (node->next != NULL)
		node = node->next;
	writer->last = node;
}

/* The first batch is durable as a whole. */
static void
drop_first(Writer *writer)
{
	BatchNode  *node = writer->first;

	writer->first = node->next;
	writer->item = writer->first != NULL ? writer->first->batch.first : NULL;
	if (writer->first == NULL)
		writer->last = NULL;
	pthread_mutex_lock(&writer->thread->mutex);
	writer->queued_bytes -= node->bytes;
	pthread_mutex_unlock(&writer->thread->mutex);
	write_batch_free(&node->batch);
}

static void
free_ended(Writer *writer)
{
	while (writer->first != NULL && writer->item == NULL)
		drop_first(writer);
	if (writer->first == NULL)
	{
		pthread_mutex_lock(&writer->thread->mutex);
		writer->pending = false;
		pthread_mutex_unlock(&writer->thread->mutex);
	}
}

/* Goes on after the point: everything before it is durable. */
static void
advance_to(Writer *writer, const FlushPoint *point)
{
	while (writer->first != point->node)
		drop_first(writer);
	writer->item = point->item;
	writer->open_transaction = point->open_transaction;
	writer->chunk = point->chunk;
	writer->keyless = point->keyless;
}

void
writer_note_wait(Writer *writer, const StorageError *error)
{
	bool		news;

	pthread_mutex_lock(&writer->thread->mutex);
	news = writer->progress.waiting.kind != error->kind;
	if (news)
		writer->progress.waiting = *error;
	pthread_mutex_unlock(&writer->thread->mutex);
	if (news)
		thread_notify(writer->thread);
}

void
writer_fail(Writer *writer, const StorageError *error)
{
	pthread_mutex_lock(&writer->thread->mutex);
	writer->progress.failed = true;
	writer->progress.error = *error;
	writer->pending = false;
	free_batches(writer->submitted);
	writer->submitted = NULL;
	writer->submitted_tail = &writer->submitted;
	writer->queued_bytes = 0;
	pthread_mutex_unlock(&writer->thread->mutex);
	free_batches(writer->first);
	writer->first = writer->last = NULL;
	writer->item = NULL;
	thread_notify(writer->thread);
}

/* Guarded by the mutex: what the main thread sees of a finished flush. */
static void
report_flush(Writer *writer, const Flush *flush)
{
	WriterProgress *progress = &writer->progress;
	const FlushPoint *point = &flush->point;
	const StreamPosition *position = &writer->position;

	pthread_mutex_lock(&writer->thread->mutex);
	progress->waiting.kind = STORAGE_OK;
	progress->flushes += flush->written;
	progress->ops += (int64_t) flush->ops.count;
	progress->transactions += point->counts.transactions;
	progress->rows += point->counts.rows;
	progress->rejected_rows += point->counts.rejected_rows;
	progress->evaluation_errors += point->counts.evaluation_errors;
	progress->chunks_stored += point->counts.chunks;
	if (flush->row_error[0] != '\0')
		memcpy(progress->last_row_error, flush->row_error, sizeof(progress->last_row_error));
	if (point->copied != NULL)
	{
		progress->copied_table = point->copied->id;
		progress->copied_next_tid = point->copied->next_tid;
		progress->copied_rows = point->copied->rows_copied;
	}
	progress->stored_lsn = position->last_checkpoint_lsn > position->snapshot_lsn ?
		position->last_checkpoint_lsn : position->snapshot_lsn;
	if (point->source_time_us != 0)
		progress->source_time_us = point->source_time_us;
	if (flush->checkpoint)
	{
		progress->checkpoint_lsn = position->last_checkpoint_lsn;
		progress->checkpoint_op = position->last_checkpoint;
		progress->checkpoint_time_us = unix_time_us();
	}
	progress->snapshot_done = position->snapshot_done;
	progress->active = position->active;
	pthread_mutex_unlock(&writer->thread->mutex);
}

/*
 * A flush of what was collected: what must be written before it, it, and what
 * follows a checkpoint.
 */
static bool
write_flush(Writer *writer, Flush *flush, MongoContext *context, StorageError *error)
{
	uint64_t	stored = writer->position.last_checkpoint_lsn > writer->position.snapshot_lsn ?
		writer->position.last_checkpoint_lsn : writer->position.snapshot_lsn;

	if (flush->point.commit)
	{
		if (flush->ops.count == 0 && !adopt_op_head(context, writer, error))
			return false;
		if (writer->position.active && commit_may_checkpoint(flush) &&
			flush->point.commit_lsn > writer->position.last_checkpoint_lsn &&
			!mark_write_checkpoints(context, writer, flush->point.commit_lsn, error))
			return false;
	}
	if (!flush_write(flush, context, error))
		return false;
	if (flush->checkpoint &&
		((!writer->position.active && !try_activate(context, writer, error)) ||
		 !call_checkpoint_event(context, error)))
		return false;
	report_flush(writer, flush);
	if (!publish_rereads(writer, flush, stored))
	{
		storage_error_set(error, STORAGE_SERVER, "out of memory");
		return false;
	}
	if (flush->point.commit)
		drop_answered_holds(writer, flush->point.answered);
	advance_to(writer, &flush->point);
	return true;
}

static bool
step_flush(Writer *writer, MongoContext *context, StorageError *error)
{
	Flush		flush;

	flush_init(&flush, writer);
	return flush_collect(&flush, context, error) && write_flush(writer, &flush, context, error);
}

/* What becomes of the table's document when the last row is removed. */
static bool
add_last_action(Flush *flush, const WriteItem *item, const SourceTableId *table,
				int64_t kept_round)
{
	ArenaGuard	guard;
	volatile bool ok = false;

	arena_guard_push(flush->arena, &guard);
	if (setjmp(guard.jump) == 0)
	{
		if (item->kind == WRITE_TABLE_DROP)
			flush_add_action(flush, TABLE_REMOVE, NULL, table);
		else if (item->kind == WRITE_TABLE_SWEEP)
			flush_add_action(flush, TABLE_STORE_LAST, item->table_doc, table);
		rejected_clear_table(flush, table, kept_round);
		ok = true;
	}
	arena_guard_pop(flush->arena, &guard);
	return ok;
}

/*
 * TRUNCATE, the end of a table, or what a copy of it did not find: one flush of
 * removals; the item is done with the last one.
 */
static bool
step_removal(Writer *writer, MongoContext *context, WriteItem *item, StorageError *error)
{
	Flush		flush;
	const SourceTableId *table = &item->table_id;
	int64_t		kept_round = 0;
	bool		complete = false;

	flush_init(&flush, writer);
	if (item->kind == WRITE_TRUNCATE)
		table = &item->table->id;
	else if (item->kind == WRITE_TABLE_SWEEP)
	{
		table = &item->table_doc->id;
		kept_round = item->table_doc->copy_round;
		if (kept_round == 0)
		{
			storage_error_set(error, STORAGE_INVALID, "the copy of table \"%s.%s\" has no number",
							  item->table_doc->schema, item->table_doc->name);
			return false;
		}
		/* what is gone was perhaps still there at an earlier place in the stream */
		flush.point.chunk_fence = item->lsn;
	}
	if (!flush_collect_removal(&flush, context, table, kept_round, &complete, error))
		return false;
	if (complete && !add_last_action(&flush, item, table, kept_round))
	{
		storage_error_set(error, STORAGE_SERVER, "out of memory");
		return false;
	}
	if (complete)
		flush.point.item = item->next;
	if (!write_flush(writer, &flush, context, error))
		return false;
	removal_advance(writer, &flush, complete);
	return true;
}

/* An item that changes nothing but the stream's position. */
static bool
step_position(Writer *writer, MongoContext *context, WriteItem *item, StorageError *error)
{
	Flush		flush;
	bool		ok;

	if (item->kind == WRITE_POSITION)
		ok = store_position(context, writer, item->lsn, error);
	else
		ok = store_snapshot_done(context, writer, item->lsn, error);
	if (!ok)
		return false;
	flush_init(&flush, writer);
	flush.written = 1;
	flush.point.item = item->next;
	report_flush(writer, &flush);
	advance_to(writer, &flush.point);
	return true;
}

bool
writer_step(Writer *writer, MongoContext *context)
{
	StorageError error;
	bool		ok;

	memset(&error, 0, sizeof(error));
	take_submitted(writer);
	free_ended(writer);
	if (writer->first == NULL)
		return false;
	if (!context->holds_stream || context->stream_id != writer->stream_id)
	{
		storage_error_set(&error, STORAGE_LOCK_LOST, "replication stream %d is not open",
						  (int) writer->stream_id);
		ok = false;
	}
	else if (!rejected_load(context, writer, &error))
		ok = false;
	else
		switch (writer->item->kind)
		{
			case WRITE_TRUNCATE:
			case WRITE_TABLE_DROP:
			case WRITE_TABLE_SWEEP:
				ok = step_removal(writer, context, writer->item, &error);
				break;
			case WRITE_POSITION:
			case WRITE_SNAPSHOT_DONE:
				ok = step_position(writer, context, writer->item, &error);
				break;
			default:
				ok = step_flush(writer, context, &error);
				break;
		}
	arena_reset(writer->arena);
	arena_reset(writer->rows_arena);
	if (!ok)
	{
		writer_fail(writer, &error);
		return true;
	}
	free_ended(writer);
	thread_notify(writer->thread);
	return true;
}
