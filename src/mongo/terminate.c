/*-------------------------------------------------------------------------
 *
 * terminate.c
 *	  Removing what a stream stored: for good (STOP -> TERMINATED), or to copy
 *	  it again from the start (contract 2, "Stopped streams" and "Clear order").
 *
 * Works in batches whose size follows the server: cleaning must not disturb
 * what is being served.  Not a transaction: it may end at any point and be
 * called again.
 *
 * Invariant: the stream's document says that nothing is there before anything
 * is removed.
 *
 *-------------------------------------------------------------------------
 */
#include "mongo/stream_doc.h"

#include <string.h>

#define BATCH_FIRST			10000
#define BATCH_MIN			100
#define BATCH_MAX			100000
#define BATCH_SLOW_US		INT64_C(2000000)
#define BATCH_FAST_US		INT64_C(500000)
#define OPERATION_MS		15000
#define LOCK_RENEW_US		INT64_C(20000000)

typedef struct Cleaner
{
	MongoContext *context;
	int32_t		stream_id;
	int64_t		lock_renewed;
	int			batch;
	bson_t		ids;			/* of the batch, where it is a list */
} Cleaner;

/* an embedded _id {g, b[, o]} below or above all of the stream */
static void
append_bound(bson_t *range, const char *operator, int32_t stream_id, bool high, bool has_op)
{
	bson_t		bound;

	BSON_APPEND_DOCUMENT_BEGIN(range, operator, &bound);
	BSON_APPEND_INT32(&bound, "g", stream_id);
	if (high)
		BSON_APPEND_MAXKEY(&bound, "b");
	else
		BSON_APPEND_MINKEY(&bound, "b");
	if (has_op && high)
		BSON_APPEND_MAXKEY(&bound, "o");
	else if (has_op)
		BSON_APPEND_MINKEY(&bound, "o");
	bson_append_document_end(range, &bound);
}

/* {_id: {$gte: low, $lt: high}}; {g, t, k} ids have the same first field and sort alike */
static void
build_range(bson_t *filter, int32_t stream_id, bool has_op)
{
	bson_t		range;

	BSON_APPEND_DOCUMENT_BEGIN(filter, "_id", &range);
	append_bound(&range, "$gte", stream_id, false, has_op);
	append_bound(&range, "$lt", stream_id, true, has_op);
	bson_append_document_end(filter, &range);
}

static void
append_stage_document(bson_t *pipeline, const char *position, const char *operator,
					  const bson_t *value)
{
	bson_t		stage;

	BSON_APPEND_DOCUMENT_BEGIN(pipeline, position, &stage);
	BSON_APPEND_DOCUMENT(&stage, operator, value);
	bson_append_document_end(pipeline, &stage);
}

static void
append_stage_number(bson_t *pipeline, const char *position, const char *operator, int value)
{
	bson_t		stage;

	BSON_APPEND_DOCUMENT_BEGIN(pipeline, position, &stage);
	BSON_APPEND_INT64(&stage, operator, value);
	bson_append_document_end(pipeline, &stage);
}

/*
 * The _id that ends the first batch of filter, as {_id: ...}; *exists false when
 * fewer are left.  An aggregation: see environment.md on find().sort().
 */
static bool
find_boundary(Cleaner *cleaner, const char *collection, const bson_t *filter, bson_t *boundary,
			  bool *exists, StorageError *error)
{
	bson_t		pipeline = BSON_INITIALIZER;
	bson_t		by_id = BSON_INITIALIZER;
	mongoc_cursor_t *cursor;
	const bson_t *document;

	BSON_APPEND_INT32(&by_id, "_id", 1);
	append_stage_document(&pipeline, "0", "$match", filter);
	append_stage_document(&pipeline, "1", "$project", &by_id);
	append_stage_document(&pipeline, "2", "$sort", &by_id);
	append_stage_number(&pipeline, "3", "$skip", cleaner->batch - 1);
	append_stage_number(&pipeline, "4", "$limit", 1);
	cursor = call_aggregate(cleaner->context, collection, &pipeline, OPERATION_MS);
	*exists = cursor_next(cleaner->context, cursor, &document, "cleaning", error);
	if (*exists)
		bson_copy_to(document, boundary);
	else
		bson_init(boundary);
	mongoc_cursor_destroy(cursor);
	bson_destroy(&by_id);
	bson_destroy(&pipeline);
	return error->kind == STORAGE_OK;
}

/* One batch of a range of embedded _ids; *done when it was the last. */
static bool
clean_range_batch(Cleaner *cleaner, const char *collection, bool has_op, bool *done,
				  StorageError *error)
{
	bson_t		filter = BSON_INITIALIZER;
	bson_t		part = BSON_INITIALIZER;
	bson_t		boundary;
	bson_iter_t id;
	bool		exists;
	bool		ok;

	build_range(&filter, cleaner->stream_id, has_op);
	ok = find_boundary(cleaner, collection, &filter, &boundary, &exists, error);
	if (ok && exists && find_field(&boundary, "_id", &id))
	{
		bson_t		range;

		BSON_APPEND_DOCUMENT_BEGIN(&part, "_id", &range);
		append_bound(&range, "$gte", cleaner->stream_id, false, has_op);
		bson_append_iter(&range, "$lte", -1, &id);
		bson_append_document_end(&part, &range);
		ok = call_delete(cleaner->context, collection, &part, true, OPERATION_MS, NULL, error);
		*done = false;
	}
	else if (ok)
	{
		ok = call_delete(cleaner->context, collection, &filter, true, OPERATION_MS, NULL, error);
		*done = true;
	}
	bson_destroy(&boundary);
	bson_destroy(&part);
	bson_destroy(&filter);
	return ok;
}

/* One batch of documents found by a field: their scalar _ids are listed first. */
static bool
clean_list_batch(Cleaner *cleaner, const char *collection, const bson_t *filter, bool *done,
				 StorageError *error)
{
	bson_t		opts = BSON_INITIALIZER;
	bson_t		projection;
	bson_t		part = BSON_INITIALIZER;
	bson_t		in;
	bson_t		list;
	mongoc_cursor_t *cursor;
	const bson_t *document;
	uint32_t	count = 0;
	bool		ok;

	BSON_APPEND_INT64(&opts, "limit", cleaner->batch);
	BSON_APPEND_INT32(&opts, "maxTimeMS", OPERATION_MS);
	BSON_APPEND_DOCUMENT_BEGIN(&opts, "projection", &projection);
	BSON_APPEND_INT32(&projection, "_id", 1);
	bson_append_document_end(&opts, &projection);
	BSON_APPEND_DOCUMENT_BEGIN(&part, "_id", &in);
	BSON_APPEND_ARRAY_BEGIN(&in, "$in", &list);
	cursor = call_find(cleaner->context, collection, filter, &opts);
	while (cursor_next(cleaner->context, cursor, &document, "cleaning", error))
	{
		bson_iter_t id;
		const char *position;
		char		digits[12];

		if (!find_field(document, "_id", &id))
			continue;
		bson_uint32_to_string(count++, &position, digits, sizeof(digits));
		bson_append_iter(&list, position, -1, &id);
	}
	mongoc_cursor_destroy(cursor);
	bson_append_array_end(&in, &list);
	bson_append_document_end(&part, &in);
	ok = error->kind == STORAGE_OK &&
		(count == 0 || call_delete(cleaner->context, collection, &part, true, OPERATION_MS, NULL,
								   error));
	*done = count < (uint32_t) cleaner->batch;
	bson_destroy(&part);
	bson_destroy(&opts);
	return ok;
}

static bool
timed_out(const StorageError *error)
{
	return error->server_code == CODE_MAX_TIME_EXPIRED || error->server_code == 262;
}

/* The next batch's size; false: it is the smallest already and still too slow. */
static bool
adapt_batch(Cleaner *cleaner, int64_t elapsed, bool failed)
{
	if (failed && cleaner->batch <= BATCH_MIN)
		return false;
	if (failed || elapsed > BATCH_SLOW_US)
		cleaner->batch = cleaner->batch / 2 > BATCH_MIN ? cleaner->batch / 2 : BATCH_MIN;
	else if (elapsed < BATCH_FAST_US && cleaner->batch * 2 <= BATCH_MAX)
		cleaner->batch *= 2;
	return true;
}

/* Cleaning takes longer than a lock lives. */
static bool
keep_lock(Cleaner *cleaner, StorageError *error)
{
	int64_t		now = monotonic_us();

	if (now - cleaner->lock_renewed < LOCK_RENEW_US)
		return true;
	cleaner->lock_renewed = now;
	storage_renew_lock(cleaner->context, NULL, error);
	return error->kind == STORAGE_OK;
}

/*
 * Empties a collection of what filter (or, without one, the range of the
 * stream's embedded _ids) selects.
 */
static bool
clean_collection(Cleaner *cleaner, const char *collection, const bson_t *filter, bool has_op,
				 StorageError *error)
{
	bool		done = false;

	cleaner->batch = BATCH_FIRST;
	while (!done)
	{
		int64_t		start = monotonic_us();
		int64_t		elapsed;
		bool		ok;

		if (context_cancelled(cleaner->context))
			storage_error_set(error, STORAGE_CANCELLED, "cancelled while cleaning");
		if (error->kind != STORAGE_OK || !keep_lock(cleaner, error))
			return false;
		if (filter != NULL)
			ok = clean_list_batch(cleaner, collection, filter, &done, error);
		else
			ok = clean_range_batch(cleaner, collection, has_op, &done, error);
		elapsed = monotonic_us() - start;
		if (!ok && (!timed_out(error) || !adapt_batch(cleaner, elapsed, true)))
			return false;
		if (ok)
			(void) adapt_batch(cleaner, elapsed, false);
		else
		{
			done = false;
			memset(error, 0, sizeof(*error));
		}
		/* half of the time is for those who serve */
		if (!done)
			context_sleep(cleaner->context, (int) (elapsed / 1000));
	}
	return true;
}

/* The document says first that nothing is there. */
static bool
reset_document(MongoContext *context, StreamState state, StorageError *error)
{
	bson_t		filter = BSON_INITIALIZER;
	bson_t		update = BSON_INITIALIZER;
	bson_t		set;
	bson_t		unset;
	int64_t		matched = 0;
	bool		ok;

	append_held_filter(context, &filter);
	BSON_APPEND_UTF8(&filter, "state", stream_state_name(state));
	BSON_APPEND_DOCUMENT_BEGIN(&update, "$set", &set);
	BSON_APPEND_BOOL(&set, "snapshot_done", false);
	BSON_APPEND_NULL(&set, "persisted_lsn");
	BSON_APPEND_NULL(&set, "last_checkpoint_lsn");
	BSON_APPEND_NULL(&set, "last_checkpoint");
	BSON_APPEND_NULL(&set, "no_checkpoint_before");
	bson_append_document_end(&update, &set);
	BSON_APPEND_DOCUMENT_BEGIN(&update, "$unset", &unset);
	BSON_APPEND_INT32(&unset, "snapshot_lsn", 1);
	/* a stream that goes on keeps its bound: op ids below it are not its own */
	if (state == STREAM_STOP)
		BSON_APPEND_INT32(&unset, "parameter_compaction", 1);
	bson_append_document_end(&update, &unset);
	ok = call_update(context, COLLECTION_STREAMS, &filter, &update, false, false, &matched, error);
	if (ok && matched == 0)
	{
		storage_error_set(error, STORAGE_LOCK_LOST,
						  "replication stream %d is not in state %s any more, or its lock was taken",
						  (int) context->stream_id, stream_state_name(state));
		ok = false;
	}
	bson_destroy(&update);
	bson_destroy(&filter);
	return ok;
}

static bool
drop_row_state(MongoContext *context, int32_t stream_id, StorageError *error)
{
	char		name[COLLECTION_NAME_SIZE];
	bson_t		command = BSON_INITIALIZER;
	bson_t		reply;
	bool		ok;

	stream_collection_name(name, COLLECTION_ROW_STATE, stream_id);
	BSON_APPEND_UTF8(&command, "drop", name);
	ok = call_command(context, "dropping row state", &command, true, &reply, error);
	if (!ok && error->server_code == CODE_NAMESPACE_NOT_FOUND)
	{
		memset(error, 0, sizeof(*error));
		ok = true;
	}
	bson_destroy(&reply);
	bson_destroy(&command);
	return ok;
}

bool
clear_stream(MongoContext *context, int32_t stream_id, StorageError *error)
{
	Cleaner		cleaner = {.context = context, .stream_id = stream_id};
	bson_t		by_key = BSON_INITIALIZER;
	bson_t		by_group = BSON_INITIALIZER;
	bool		ok;

	cleaner.lock_renewed = monotonic_us();
	BSON_APPEND_INT32(&by_key, "key.g", stream_id);
	BSON_APPEND_INT32(&by_group, "group_id", stream_id);
	ok = clean_collection(&cleaner, COLLECTION_DATA, NULL, true, error) &&
		clean_collection(&cleaner, COLLECTION_PARAMETERS, &by_key, false, error) &&
		clean_collection(&cleaner, COLLECTION_CURRENT, NULL, false, error) &&
		clean_collection(&cleaner, COLLECTION_BUCKETS, NULL, false, error) &&
		clean_collection(&cleaner, COLLECTION_TABLES, &by_group, false, error) &&
		clean_collection(&cleaner, COLLECTION_PROGRESS, &by_group, false, error) &&
		clean_collection(&cleaner, COLLECTION_REJECTED, &by_group, false, error) &&
		drop_row_state(context, stream_id, error);
	bson_destroy(&by_group);
	bson_destroy(&by_key);
	return ok;
}

void
storage_reset_stream(MongoContext *context, void *arg, StorageError *error)
{
	int32_t		stream_id = *(int32_t *) arg;
	char		rows[COLLECTION_NAME_SIZE];

	if (!context->holds_stream || context->stream_id != stream_id)
		storage_error_set(error, STORAGE_LOCK_LOST, "replication stream %d is not open",
						  (int) stream_id);
	else if (reset_document(context, STREAM_PROCESSING, error) &&
			 clear_stream(context, stream_id, error))
	{
		stream_collection_name(rows, COLLECTION_ROW_STATE, stream_id);
		(void) ensure_collection(context, rows, error);
	}
}

/* ---------------------------------------------------------------- terminate */

/*
 * The binding of a stream that is gone says nothing any more.  Those of streams made
 * for a lost slot are counted for a day (deploy.c): marked now, they go with a later
 * stream.
 */
static bool
remove_binding(MongoContext *context, StorageError *error)
{
	bson_t		own = BSON_INITIALIZER;
	bson_t		old = BSON_INITIALIZER;
	bson_t		lost = BSON_INITIALIZER;
	bson_t		update = BSON_INITIALIZER;
	bson_t		part;
	int64_t		matched = 0;
	bool		ok;

	BSON_APPEND_INT32(&own, "_id", context->stream_id);
	BSON_APPEND_INT32(&lost, "_id", context->stream_id);
	BSON_APPEND_BOOL(&lost, "slot_lost", true);
	BSON_APPEND_DOCUMENT_BEGIN(&update, "$set", &part);
	BSON_APPEND_BOOL(&part, "terminated", true);
	bson_append_document_end(&update, &part);
	BSON_APPEND_BOOL(&old, "terminated", true);
	BSON_APPEND_DOCUMENT_BEGIN(&old, "deployed_at", &part);
	BSON_APPEND_DATE_TIME(&part, "$lt", unix_time_us() / 1000 - DAY_MS);
	bson_append_document_end(&old, &part);
	ok = call_update(context, COLLECTION_BINDINGS, &lost, &update, false, false, &matched, error) &&
		(matched > 0 ||
		 call_delete(context, COLLECTION_BINDINGS, &own, false, 0, NULL, error)) &&
		call_delete(context, COLLECTION_BINDINGS, &old, true, 0, NULL, error);
	bson_destroy(&update);
	bson_destroy(&lost);
	bson_destroy(&old);
	bson_destroy(&own);
	return ok;
}

/* STOP -> TERMINATED; lock and binding go with it. */
static bool
terminated_body(MongoContext *context, void *unused, StorageError *error)
{
	bson_t		filter = BSON_INITIALIZER;
	bson_t		update = BSON_INITIALIZER;
	bson_t		part;
	int64_t		matched = 0;
	bool		ok;

	(void) unused;
	append_held_filter(context, &filter);
	BSON_APPEND_DOCUMENT_BEGIN(&update, "$set", &part);
	BSON_APPEND_UTF8(&part, "state", stream_state_name(STREAM_TERMINATED));
	BSON_APPEND_BOOL(&part, "snapshot_done", false);
	BSON_APPEND_NULL(&part, "persisted_lsn");
	bson_append_document_end(&update, &part);
	BSON_APPEND_DOCUMENT_BEGIN(&update, "$unset", &part);
	BSON_APPEND_INT32(&part, "lock", 1);
	bson_append_document_end(&update, &part);
	ok = call_update(context, COLLECTION_STREAMS, &filter, &update, false, false, &matched, error);
	if (ok && matched == 0)
	{
		/* who has the lock now finds nothing left, and does the same */
		storage_error_set(error, STORAGE_LOCK_LOST,
						  "another process took the lock of replication stream %d while it was cleaned",
						  (int) context->stream_id);
		context->transient = false;
		ok = false;
	}
	ok = ok && remove_binding(context, error);
	bson_destroy(&update);
	bson_destroy(&filter);
	return ok;
}

typedef struct TakeRequest
{
	int32_t		stream_id;
	const SourceIdentity *self;
	char		lock_id[LOCK_ID_LEN + 1];
} TakeRequest;

/*
 * May we clean it, and whose lock may we take?  A copy of the cluster has its
 * identifiers: what the original has stopped, and perhaps cleans, is left to it.
 */
static bool
check_place(const TakeRequest *take, const StreamBinding *binding, const char **known_lock,
			StorageError *error)
{
	const SourceIdentity *bound = &binding->identity;
	bool		here = binding_is_predecessor(binding, take->self) ||
		binding_same_place(binding, take->self);
	char		owner[OWNER_TEXT_SIZE];

	*known_lock = here ? binding->lock_id : "";
	if (here || !binding->exists ||
		(binding_matches(binding, take->self) && bound->timeline != take->self->timeline))
		return true;
	identity_describe(bound, owner);
	storage_error_set(error, STORAGE_BINDING,
					  "the stopped replication stream %d is bound to %s, and is left to it",
					  (int) take->stream_id, owner);
	return false;
}

/*
 * Takes the lock, and notes it in the binding: who cleans on after we were
 * killed need not wait until the lock expires.
 */
static bool
take_body(MongoContext *context, void *arg, StorageError *error)
{
	static const StreamState stopped[] = {STREAM_STOP};
	TakeRequest *take = arg;
	StreamBinding binding;
	bson_t		filter = BSON_INITIALIZER;
	bson_t		update = BSON_INITIALIZER;
	bson_t		set;
	bson_t		document = BSON_INITIALIZER;
	const char *known_lock;
	bool		ok;

	BSON_APPEND_INT32(&filter, "_id", take->stream_id);
	BSON_APPEND_DOCUMENT_BEGIN(&update, "$set", &set);
	BSON_APPEND_UTF8(&set, "lock_id", take->lock_id);
	bson_append_document_end(&update, &set);
	ok = binding_read(context, take->stream_id, &binding, error) &&
		check_place(take, &binding, &known_lock, error);
	if (ok)
	{
		bson_destroy(&document);
		ok = lock_stream(context, take->stream_id, stopped, 1, known_lock, take->lock_id,
						 &document, error) &&
			(!binding.exists ||
			 call_update(context, COLLECTION_BINDINGS, &filter, &update, false, false, NULL, error));
	}
	bson_destroy(&document);
	bson_destroy(&update);
	bson_destroy(&filter);
	return ok;
}

/*
 * A stream of another replicator is cleaned too (contract 2: the API never
 * does), but only when its lock is free; our own predecessor's is taken.
 */
void
storage_terminate_stream(MongoContext *context, void *arg, StorageError *error)
{
	const StorageTerminate *terminate = arg;
	int32_t		stream_id = terminate->stream_id;
	TakeRequest take = {.stream_id = stream_id, .self = &terminate->self};

	random_hex(take.lock_id, LOCK_ID_LEN);
	if (!transaction_run(context, take_body, &take, NULL, error))
		return;
	hold_stream(context, stream_id, take.lock_id);
	if (reset_document(context, STREAM_STOP, error) &&
		clear_stream(context, stream_id, error) &&
		transaction_run(context, terminated_body, NULL, NULL, error))
	{
		context->holds_stream = false;
		(void) call_checkpoint_event(context, error);
	}
	else
	{
		StorageError ignored;

		memset(&ignored, 0, sizeof(ignored));
		storage_close_stream(context, NULL, &ignored);
	}
}
