/*-------------------------------------------------------------------------
 *
 * checkpoint.c
 *	  Positions and checkpoints (contract 7, design 4 and 5): what a flush does
 *	  to the stream's position, write checkpoints, activation.
 *
 * The position stored with the data is the truth: a blocked commit stores its
 * LSN as snapshot_lsn, one that makes a checkpoint as last_checkpoint_lsn.
 *
 * Invariants: a checkpoint is made only at a commit at or past every fence, and
 * before the stream is served only when no table has still to be copied;
 * a flush that makes none raises the fence to the end of everything it holds a
 * part of; write checkpoints are marked only by the served stream, and before
 * the checkpoint that covers them.
 *
 *-------------------------------------------------------------------------
 */
#include "mongo/stream_doc.h"
#include "mongo/writer_private.h"

#include <string.h>

static int64_t
larger(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* ---------------------------------------------------------------- positions */

/*
 * The hold that keeps the commit at the flush's end from being stored: a re-read
 * that is still missing.  NONE as *lsn is possible: nothing may be stored.
 */
static bool
held_back(const Flush *flush, uint64_t *lsn)
{
	const Writer *writer = flush->writer;

	for (const RereadHold *hold = writer->holds; hold != NULL; hold = hold->next)
		if (hold->number > flush->point.answered)
		{
			*lsn = hold->lsn;
			return true;
		}
	*lsn = later_lsn(writer->position.snapshot_lsn, writer->position.last_checkpoint_lsn);
	return flush->point.reread_count > 0;
}

static uint64_t
fence_of(const Flush *flush, bool held)
{
	const FlushPoint *point = &flush->point;
	uint64_t	fence = later_lsn(flush->writer->position.no_checkpoint_before, point->chunk_fence);

	if (!point->commit)
		fence = later_lsn(fence, point->transaction_fence);
	else if (held)
		fence = later_lsn(fence, point->commit_lsn);
	return fence;
}

static bool
is_checkpoint(const Flush *flush)
{
	const StreamPosition *from = &flush->writer->position;
	uint64_t	lsn = flush->point.commit_lsn;
	uint64_t	ignored;

	/* a stream that clients do not see yet becomes active complete, or not at all */
	if (flush->point.incomplete && !from->active)
		return false;
	return flush->point.commit && !flush->keep_old_state && !held_back(flush, &ignored) &&
		from->snapshot_done && from->last_checkpoint_lsn <= lsn && fence_of(flush, false) <= lsn;
}

/* Will the commit at the flush's end make a checkpoint?  Known before its ops are written. */
bool
commit_may_checkpoint(const Flush *flush)
{
	return is_checkpoint(flush);
}

/*
 * Contract 7.2 step 3.  last_op: highest op id of the flush, 0: none.
 */
void
flush_next_position(Flush *flush, int64_t last_op)
{
	const FlushPoint *point = &flush->point;
	const StreamPosition *from = &flush->writer->position;
	StreamPosition *to = &flush->next;
	uint64_t	hold_lsn;
	bool		held = point->commit && held_back(flush, &hold_lsn);

	*to = *from;
	to->persisted_op = larger(from->persisted_op, last_op);
	flush->checkpoint = is_checkpoint(flush);
	if (flush->checkpoint)
	{
		to->last_checkpoint = larger(larger(from->last_checkpoint, from->keepalive_op),
									 to->persisted_op);
		to->last_checkpoint_lsn = point->commit_lsn;
		to->snapshot_lsn = STREAM_LSN_NONE;
		to->keepalive_op = -1;
		to->persisted_op = 0;
		return;
	}
	to->no_checkpoint_before = fence_of(flush, held);
	if (point->commit)
	{
		to->keepalive_op = larger(from->keepalive_op, to->persisted_op);
		to->snapshot_lsn = later_lsn(from->snapshot_lsn, held ? hold_lsn : point->commit_lsn);
	}
	else if (to->persisted_op > 0)
		to->keepalive_op = larger(from->keepalive_op, to->persisted_op);
}

/*
 * A stream's first checkpoint is not below the op ids that clients may have
 * seen from another stream (contract 3.1).
 */
bool
adopt_op_head(MongoContext *context, Writer *writer, StorageError *error)
{
	StreamPosition *position = &writer->position;
	bson_t		filter = BSON_INITIALIZER;
	bson_t		found;
	int64_t		head = 0;
	bool		exists;
	bool		ok;

	if (position->last_checkpoint >= 0 || position->keepalive_op >= 0 ||
		position->persisted_op > 0)
	{
		bson_destroy(&filter);
		return true;
	}
	BSON_APPEND_UTF8(&filter, "_id", "main");
	ok = call_find_one(context, COLLECTION_SEQUENCE, &filter, NULL, &found, &exists, error);
	if (ok && exists && read_integer(&found, "op_id", &head) && head > 0)
		position->persisted_op = head;
	bson_destroy(&found);
	bson_destroy(&filter);
	return ok;
}

/* A position without anything else: before the first chunk. */
bool
store_position(MongoContext *context, Writer *writer, uint64_t lsn, StorageError *error)
{
	StreamPosition next = writer->position;
	bool		mismatch = false;

	next.snapshot_lsn = lsn;
	if (!write_position(context, writer, &next, false, &mismatch, error))
	{
		if (mismatch)
			set_mismatch_error(context, writer, error);
		return false;
	}
	writer->position = next;
	return true;
}

/* ---------------------------------------------------------------- end of the copy */

typedef struct SnapshotDone
{
	Writer	   *writer;
	StreamPosition next;
	bool		mismatch;
} SnapshotDone;

static bool
snapshot_done_body(MongoContext *context, void *arg, StorageError *error)
{
	SnapshotDone *done = arg;
	bson_t		filter = BSON_INITIALIZER;
	bson_t		found;
	bool		exists;
	bool		ok;

	BSON_APPEND_INT32(&filter, "group_id", done->writer->stream_id);
	BSON_APPEND_BOOL(&filter, "snapshot_done", false);
	ok = call_find_one(context, COLLECTION_TABLES, &filter, NULL, &found, &exists, error);
	bson_destroy(&found);
	bson_destroy(&filter);
	if (ok && exists)
	{
		storage_error_set(error, STORAGE_INVALID,
						  "the copy of a table of replication stream %d is not complete",
						  (int) done->writer->stream_id);
		ok = false;
	}
	return ok && write_position(context, done->writer, &done->next, false, &done->mismatch, error);
}

bool
store_snapshot_done(MongoContext *context, Writer *writer, uint64_t fence, StorageError *error)
{
	SnapshotDone done = {.writer = writer, .next = writer->position};

	done.next.snapshot_done = true;
	done.next.no_checkpoint_before = later_lsn(done.next.no_checkpoint_before, fence);
	if (!transaction_run(context, snapshot_done_body, &done, NULL, error))
	{
		if (done.mismatch)
			set_mismatch_error(context, writer, error);
		return false;
	}
	writer->position = done.next;
	return true;
}

/* ---------------------------------------------------------------- write checkpoints */

/*
 * Contract 7.2 step 2.  Asked for first: an update that matches nothing still
 * waits for a majority.  lsn must be past the last checkpoint, or clients that
 * have that one are not told.
 */
bool
mark_write_checkpoints(MongoContext *context, Writer *writer, uint64_t lsn, StorageError *error)
{
	bson_t		filter = BSON_INITIALIZER;
	bson_t		update = BSON_INITIALIZER;
	bson_t		projection = BSON_INITIALIZER;
	bson_t		part;
	bson_t		found;
	bool		exists = false;
	bool		ok;

	(void) writer;
	BSON_APPEND_NULL(&filter, "processed_at_lsn");
	BSON_APPEND_DOCUMENT_BEGIN(&filter, "lsns.1", &part);
	append_lsn(&part, "$lte", lsn);
	bson_append_document_end(&filter, &part);
	BSON_APPEND_INT32(&projection, "_id", 1);
	ok = call_find_one(context, COLLECTION_WRITES, &filter, &projection, &found, &exists, error);
	bson_destroy(&found);
	if (ok && exists)
	{
		BSON_APPEND_DOCUMENT_BEGIN(&update, "$set", &part);
		append_lsn(&part, "processed_at_lsn", lsn);
		bson_append_document_end(&update, &part);
		ok = call_update(context, COLLECTION_WRITES, &filter, &update, false, true, NULL, error);
	}
	bson_destroy(&projection);
	bson_destroy(&update);
	bson_destroy(&filter);
	return ok;
}

/* ---------------------------------------------------------------- turns */

static TurnPriority
writer_priority(const Writer *writer)
{
	if (writer->position.active)
		return TURN_SERVED;
	return writer->position.snapshot_done ? TURN_CATCH_UP : TURN_COPY;
}

static bool
take_turn(void *arg, StorageError *error)
{
	Writer	   *writer = arg;

	if (turn_take(writer->options.turn, writer->options.turn_index, writer->thread->storage,
				  writer_priority(writer), &writer->thread->cancelled))
		return true;
	storage_error_set(error, STORAGE_CANCELLED, "cancelled");
	return false;
}

static void
give_turn(void *arg)
{
	Writer	   *writer = arg;

	turn_give(writer->options.turn, writer->options.turn_index);
}

bool
writer_run_in_turn(MongoContext *context, Writer *writer, TransactionBody body, void *arg,
				   int64_t *conflicts, StorageError *error)
{
	TransactionTurn turn = {take_turn, give_turn, writer};

	return transaction_run_in_turn(context, body, arg, writer->options.turn != NULL ? &turn : NULL,
								   conflicts, error);
}

/* ---------------------------------------------------------------- activation */

typedef struct Activation
{
	Writer	   *writer;
	StreamBinding own;
	int32_t		ahead_stream;	/* the served stream that is ahead of us; 0: none */
	uint64_t	ahead_lsn;
} Activation;

/* other documents that the API may serve: {_id: {$ne: own}, state: {$in: [...]}} */
static void
build_served_filter(bson_t *filter, int32_t own)
{
	static const StreamState served[] = {STREAM_ACTIVE, STREAM_ERRORED};
	bson_t		part;

	BSON_APPEND_DOCUMENT_BEGIN(filter, "_id", &part);
	BSON_APPEND_INT32(&part, "$ne", own);
	bson_append_document_end(filter, &part);
	append_state_in(filter, served, 2);
}

/*
 * Can positions of the two be compared?  Not when they count WAL of different
 * clusters or of different places, or when one of them left the history.  lsn: the
 * other's last checkpoint, past ours.
 *
 * Timelines that differ: the other's worker has not yet said whether its stream
 * goes on in this history.  But if ours began on a newer timeline, the other
 * position, being past ours, is past the point where that one branched off.  And if
 * ours is older than the branch, the same deploy goes on to the other position.
 */
static bool
is_comparable(const StreamBinding *own, const StreamBinding *other, uint64_t lsn)
{
	const SourceIdentity *a = &own->identity;
	const SourceIdentity *b = &other->identity;

	/* a stream without a binding is taken to have the same source */
	if (!other->exists || !own->exists)
		return true;
	if (a->system_identifier != b->system_identifier || binding_history_changed(other, lsn))
		return false;
	if (a->timeline == b->timeline && strcmp(a->host, b->host) != 0)
		return false;
	return own->first_timeline == 0 || b->timeline >= own->first_timeline;
}

/* Notes a stream that is ahead of us. */
static void
check_ahead(MongoContext *context, Activation *activation, int32_t stream_id, uint64_t lsn,
			StorageError *error)
{
	StreamBinding other;

	if (lsn > activation->writer->position.last_checkpoint_lsn &&
		binding_read(context, stream_id, &other, error) &&
		is_comparable(&activation->own, &other, lsn))
	{
		activation->ahead_stream = stream_id;
		activation->ahead_lsn = lsn;
	}
}

#define MAX_SERVED	16			/* contract: there is at most one */

static bool
check_served(MongoContext *context, Activation *activation, StorageError *error)
{
	bson_t		filter = BSON_INITIALIZER;
	mongoc_cursor_t *cursor;
	const bson_t *document;
	int32_t		ids[MAX_SERVED];
	uint64_t	lsns[MAX_SERVED];
	int			count = 0;

	activation->ahead_stream = 0;
	activation->ahead_lsn = STREAM_LSN_NONE;
	build_served_filter(&filter, activation->writer->stream_id);
	cursor = call_find(context, COLLECTION_STREAMS, &filter, NULL);
	while (count < MAX_SERVED &&
		   cursor_next(context, cursor, &document, "reading the served stream", error))
	{
		int64_t		id;

		if (read_integer(document, "_id", &id) &&
			read_lsn(document, "last_checkpoint_lsn", &lsns[count]))
			ids[count++] = (int32_t) id;
	}
	mongoc_cursor_destroy(cursor);
	bson_destroy(&filter);
	for (int i = 0; i < count && error->kind == STORAGE_OK && activation->ahead_stream == 0; i++)
		check_ahead(context, activation, ids[i], lsns[i], error);
	return error->kind == STORAGE_OK;
}

/* own PROCESSING -> ACTIVE; false without an error: not as it should be */
static bool
set_active(MongoContext *context, Writer *writer, bool *matched_one, StorageError *error)
{
	bson_t		filter = BSON_INITIALIZER;
	bson_t		update = BSON_INITIALIZER;
	bson_t		part;
	int64_t		matched = 0;
	bool		ok;

	append_held_filter(context, &filter);
	BSON_APPEND_UTF8(&filter, "state", stream_state_name(STREAM_PROCESSING));
	BSON_APPEND_BOOL(&filter, "snapshot_done", true);
	BSON_APPEND_DOCUMENT_BEGIN(&filter, "last_checkpoint", &part);
	BSON_APPEND_NULL(&part, "$ne");
	bson_append_document_end(&filter, &part);
	append_lsn_or_null(&filter, "last_checkpoint_lsn", writer->position.last_checkpoint_lsn);
	BSON_APPEND_DOCUMENT_BEGIN(&update, "$set", &part);
	BSON_APPEND_UTF8(&part, "state", stream_state_name(STREAM_ACTIVE));
	bson_append_document_end(&update, &part);
	ok = call_update(context, COLLECTION_STREAMS, &filter, &update, false, false, &matched, error);
	*matched_one = matched == 1;
	bson_destroy(&update);
	bson_destroy(&filter);
	return ok;
}

static bool
stop_others(MongoContext *context, Writer *writer, StorageError *error)
{
	bson_t		filter = BSON_INITIALIZER;
	bson_t		update = BSON_INITIALIZER;
	bson_t		set;
	bool		ok;

	build_served_filter(&filter, writer->stream_id);
	BSON_APPEND_DOCUMENT_BEGIN(&update, "$set", &set);
	BSON_APPEND_UTF8(&set, "state", stream_state_name(STREAM_STOP));
	bson_append_document_end(&update, &set);
	ok = call_update(context, COLLECTION_STREAMS, &filter, &update, false, true, NULL, error);
	bson_destroy(&update);
	bson_destroy(&filter);
	return ok;
}

static bool
activate_body(MongoContext *context, void *arg, StorageError *error)
{
	Activation *activation = arg;
	Writer	   *writer = activation->writer;
	bool		matched;

	if (!check_served(context, activation, error))
		return false;
	if (activation->ahead_stream != 0)
		return true;
	if (!set_active(context, writer, &matched, error))
		return false;
	if (!matched)
	{
		storage_error_set(error, STORAGE_CHANGED,
						  "replication stream %d cannot become active: its document was changed",
						  (int) writer->stream_id);
		return false;
	}
	return stop_others(context, writer, error);
}

/* What the activation waits for, for the main thread to show. */
static void
note_ahead(Writer *writer, const Activation *activation)
{
	pthread_mutex_lock(&writer->thread->mutex);
	writer->progress.ahead_stream = activation->ahead_stream;
	writer->progress.ahead_lsn = activation->ahead_lsn;
	pthread_mutex_unlock(&writer->thread->mutex);
}

/*
 * After a checkpoint of a stream that is not served yet: makes it the served
 * one unless that is ahead (clients would go back in time).
 */
bool
try_activate(MongoContext *context, Writer *writer, StorageError *error)
{
	Activation	activation = {.writer = writer};
	bool		ok;

	if (!binding_read(context, writer->stream_id, &activation.own, error) ||
		!check_served(context, &activation, error))
		return false;
	ok = activation.ahead_stream != 0 ||
		/* the served stream's flushes write the document that is stopped here */
		writer_run_in_turn(context, writer, activate_body, &activation, NULL, error);
	if (!ok && error->kind == STORAGE_CHANGED)
		set_mismatch_error(context, writer, error);
	if (ok)
	{
		writer->position.active = activation.ahead_stream == 0;
		note_ahead(writer, &activation);
	}
	return ok;
}
