/*-------------------------------------------------------------------------
 *
 * streams.c
 *	  Which streams there are, and holding one: binding, lock, errors.
 *
 * A stream is bound to one cluster and database before it is used, and held
 * by one process through its lock (contract 9.1).  The binding remembers our
 * lock id: a restarted worker takes its predecessor's lock at once, which
 * fences whatever that one still has in flight.  It does so only where the
 * predecessor ran (binding_is_predecessor), so that a copy of a cluster never
 * takes a stream from the original while that is alive.
 *
 * Invariant: binding and lock change in one transaction.
 *
 *-------------------------------------------------------------------------
 */
#include "mongo/stream_doc.h"

#include <inttypes.h>
#include <string.h>

#define MAX_STREAMS		10000

static uint64_t
stored_lsn(uint64_t last_checkpoint_lsn, uint64_t snapshot_lsn)
{
	return last_checkpoint_lsn > snapshot_lsn ? last_checkpoint_lsn : snapshot_lsn;
}

uint64_t
stream_stored_lsn(const StreamDoc *stream)
{
	return stored_lsn(stream->last_checkpoint_lsn, stream->snapshot_lsn);
}

void
stream_doc_free(StreamDoc *stream)
{
	/* the structure lives in its arena */
	if (stream != NULL)
		arena_destroy(stream->arena);
}

/* ---------------------------------------------------------------- list */

static bool
append_summary(StorageListStreams *list, int *capacity, const StreamSummary *summary)
{
	ArenaGuard	guard;
	volatile bool ok = false;

	if (list->count >= MAX_STREAMS)
		return false;
	arena_guard_push(list->arena, &guard);
	if (setjmp(guard.jump) == 0)
	{
		if (list->count == *capacity)
		{
			int			more = *capacity ? *capacity * 2 : 16;
			StreamSummary *streams = arena_array(list->arena, StreamSummary, (size_t) more);

			if (list->count > 0)
				memcpy(streams, list->streams, sizeof(*streams) * (size_t) list->count);
			list->streams = streams;
			*capacity = more;
		}
		list->streams[list->count++] = *summary;
		ok = true;
	}
	arena_guard_pop(list->arena, &guard);
	return ok;
}

static void
summarise(const bson_t *document, StreamSummary *summary)
{
	char		lock_id[LOCK_ID_LEN + 1];
	int64_t		expires;
	int64_t		number;

	summary->state = stream_document_state(document);
	summary->storage_version = 1;
	if (read_integer(document, "storage_version", &number))
		summary->storage_version = (int32_t) number;
	stream_document_slot(document, summary->id, summary->slot_name);
	stream_document_lock(document, lock_id, &expires);
	summary->untouched = stream_document_untouched(document) &&
		(lock_id[0] == '\0' || expires < unix_time_us() / 1000);
}

/* Has a replicator made tables known for the stream? */
static bool
has_source_tables(MongoContext *context, int32_t stream_id, bool *any, StorageError *error)
{
	bson_t		filter = BSON_INITIALIZER;
	bson_t		found;
	bool		ok;

	BSON_APPEND_INT32(&filter, "group_id", stream_id);
	ok = call_find_one(context, COLLECTION_TABLES, &filter, NULL, &found, any, error);
	bson_destroy(&found);
	bson_destroy(&filter);
	return ok;
}

void
storage_list_streams(MongoContext *context, void *arg, StorageError *error)
{
	StorageListStreams *list = arg;
	bson_t		filter = BSON_INITIALIZER;
	bson_t		not_terminated;
	bson_t		opts = BSON_INITIALIZER;
	bson_t		sort;
	mongoc_cursor_t *cursor;
	const bson_t *document;
	int			capacity = 0;

	list->count = 0;
	list->streams = NULL;
	BSON_APPEND_DOCUMENT_BEGIN(&filter, "state", &not_terminated);
	BSON_APPEND_UTF8(&not_terminated, "$ne", stream_state_name(STREAM_TERMINATED));
	bson_append_document_end(&filter, &not_terminated);
	BSON_APPEND_DOCUMENT_BEGIN(&opts, "sort", &sort);
	BSON_APPEND_INT32(&sort, "_id", 1);
	bson_append_document_end(&opts, &sort);
	cursor = call_find(context, COLLECTION_STREAMS, &filter, &opts);
	while (cursor_next(context, cursor, &document, "listing streams", error))
	{
		StreamSummary summary;
		int64_t		id;

		memset(&summary, 0, sizeof(summary));
		if (!read_integer(document, "_id", &id))
			continue;
		summary.id = (int32_t) id;
		summarise(document, &summary);
		if (!append_summary(list, &capacity, &summary))
		{
			storage_error_set(error, STORAGE_SERVER, "out of memory");
			break;
		}
	}
	mongoc_cursor_destroy(cursor);
	bson_destroy(&opts);
	bson_destroy(&filter);

	for (int i = 0; i < list->count && error->kind == STORAGE_OK; i++)
	{
		StreamSummary *summary = &list->streams[i];
		StreamBinding binding;
		bool		tables = false;

		if (!binding_read(context, summary->id, &binding, error))
			return;
		summary->bound = binding.exists;
		summary->bound_here = binding_matches(&binding, &list->self);
		if (binding.exists)
			identity_describe(&binding.identity, summary->owner);
		if (binding.exists)
			summary->untouched = false;
		else if (summary->untouched &&
				 has_source_tables(context, summary->id, &tables, error))
			summary->untouched = !tables;
	}
}

/* ---------------------------------------------------------------- lock */

/* an entry of "$or": {lock.id: id} */
static void
append_or_lock_id(bson_t *list, const char *position, const char *lock_id)
{
	bson_t		entry;

	BSON_APPEND_DOCUMENT_BEGIN(list, position, &entry);
	BSON_APPEND_UTF8(&entry, "lock.id", lock_id);
	bson_append_document_end(list, &entry);
}

/*
 * The stream's document if its lock may be taken: free, expired by the server's
 * clock, or known_lock (may be empty).
 */
static void
build_lock_filter(bson_t *filter, int32_t stream_id, const StreamState *states, int state_count,
				  const char *known_lock)
{
	bson_t		list;
	bson_t		entry;
	bson_t		expression;
	bson_t		operands;

	BSON_APPEND_INT32(filter, "_id", stream_id);
	append_state_in(filter, states, state_count);

	BSON_APPEND_ARRAY_BEGIN(filter, "$or", &list);
	BSON_APPEND_DOCUMENT_BEGIN(&list, "0", &entry);
	BSON_APPEND_NULL(&entry, "lock");
	bson_append_document_end(&list, &entry);
	BSON_APPEND_DOCUMENT_BEGIN(&list, "1", &entry);
	BSON_APPEND_DOCUMENT_BEGIN(&entry, "$expr", &expression);
	BSON_APPEND_ARRAY_BEGIN(&expression, "$lt", &operands);
	BSON_APPEND_UTF8(&operands, "0", "$lock.expires_at");
	BSON_APPEND_UTF8(&operands, "1", "$$NOW");
	bson_append_array_end(&expression, &operands);
	bson_append_document_end(&entry, &expression);
	bson_append_document_end(&list, &entry);
	if (known_lock[0] != '\0')
		append_or_lock_id(&list, "2", known_lock);
	bson_append_array_end(filter, &list);
}

/* [{$set: {lock: {id, expires_at}}}] */
static void
build_lock_update(bson_t *update, const char *lock_id)
{
	bson_t		stage;
	bson_t		set;
	bson_t		lock;

	BSON_APPEND_DOCUMENT_BEGIN(update, "0", &stage);
	BSON_APPEND_DOCUMENT_BEGIN(&stage, "$set", &set);
	BSON_APPEND_DOCUMENT_BEGIN(&set, "lock", &lock);
	BSON_APPEND_UTF8(&lock, "id", lock_id);
	append_server_time(&lock, "expires_at", LOCK_SECONDS);
	bson_append_document_end(&set, &lock);
	bson_append_document_end(&stage, &set);
	bson_append_document_end(update, &stage);
}

/* Why the lock could not be taken. */
static void
explain_refusal(const bson_t *document, bool exists, int32_t stream_id, StorageError *error)
{
	char		lock_id[LOCK_ID_LEN + 1];
	int64_t		expires;
	time_t		seconds;
	struct tm	parts;
	char		when[32];

	if (!exists)
	{
		storage_error_set(error, STORAGE_STREAM_GONE, "replication stream %d does not exist",
						  (int) stream_id);
		return;
	}
	stream_document_lock(document, lock_id, &expires);
	if (lock_id[0] == '\0')
	{
		storage_error_set(error, STORAGE_STREAM_GONE, "replication stream %d is in state %s",
						  (int) stream_id, stream_state_name(stream_document_state(document)));
		return;
	}
	seconds = (time_t) (expires / 1000);
	gmtime_r(&seconds, &parts);
	strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S UTC", &parts);
	storage_error_set(error, STORAGE_LOCK_LOST,
					  "the lock of replication stream %d is held by another replicator until %s, unless it renews it",
					  (int) stream_id, when);
}

bool
lock_stream(MongoContext *context, int32_t stream_id, const StreamState *states, int state_count,
			const char *known_lock, const char *new_lock, bson_t *document, StorageError *error)
{
	bson_t		filter = BSON_INITIALIZER;
	bson_t		update = BSON_INITIALIZER;
	bool		taken;
	bool		ok;

	build_lock_filter(&filter, stream_id, states, state_count, known_lock);
	build_lock_update(&update, new_lock);
	ok = call_find_and_modify(context, COLLECTION_STREAMS, &filter, &update, false, document,
							  &taken, error);
	bson_destroy(&update);
	bson_destroy(&filter);
	if (ok && !taken)
	{
		bson_t		present;
		bool		exists;

		if (stream_document_read(context, stream_id, &present, &exists, error))
			explain_refusal(&present, exists, stream_id, error);
		bson_destroy(&present);
		ok = false;
	}
	return ok;
}

/* ---------------------------------------------------------------- owner */

/*
 * Most likely somebody has set the wrong MongoDB database.  A stream without binding
 * is another replicator's, and moving over from there is on purpose.
 */
bool
check_owner(MongoContext *context, const SourceIdentity *self, StorageError *error)
{
	static const StreamState live[] = {STREAM_PROCESSING, STREAM_ACTIVE, STREAM_ERRORED};
	bson_t		filter = BSON_INITIALIZER;
	bson_t		opts = BSON_INITIALIZER;
	bson_t		part;
	mongoc_cursor_t *cursor;
	const bson_t *document;

	append_state_in(&filter, live, 3);
	BSON_APPEND_DOCUMENT_BEGIN(&opts, "projection", &part);
	BSON_APPEND_INT32(&part, "_id", 1);
	bson_append_document_end(&opts, &part);
	BSON_APPEND_DOCUMENT_BEGIN(&opts, "sort", &part);
	BSON_APPEND_INT32(&part, "_id", -1);
	bson_append_document_end(&opts, &part);
	cursor = call_find(context, COLLECTION_STREAMS, &filter, &opts);
	while (cursor_next(context, cursor, &document, "looking for live streams", error))
	{
		StreamBinding binding;
		char		owner[OWNER_TEXT_SIZE];
		int64_t		id;

		if (!read_integer(document, "_id", &id))
			continue;
		if (!binding_read(context, (int32_t) id, &binding, error))
			break;
		if (!binding.exists || binding_matches(&binding, self))
			continue;
		identity_describe(&binding.identity, owner);
		storage_error_set(error, STORAGE_BINDING, "replication stream %d is bound to %s",
						  (int) id, owner);
		break;
	}
	mongoc_cursor_destroy(cursor);
	bson_destroy(&opts);
	bson_destroy(&filter);
	return error->kind == STORAGE_OK;
}

/* ---------------------------------------------------------------- open */

typedef struct OpenRequest
{
	StorageOpenStream *open;
	StreamBinding binding;		/* as it was */
	char		lock_id[LOCK_ID_LEN + 1];
	bson_t	   *document;		/* as locked */
} OpenRequest;

static void
set_binding_error(StorageError *error, OpenRequest *request)
{
	static const char *const whom[] = {
		[BINDING_UNKNOWN] = "another replicator",
		[BINDING_DATABASE] = "another database",
		[BINDING_PLACE] = "this cluster at another place",
		[BINDING_CLUSTER_ID] = "this cluster under another name"
	};
	const SourceIdentity *self = &request->open->self;
	char		stored[OWNER_TEXT_SIZE];
	char		here[OWNER_TEXT_SIZE];

	identity_describe(&request->binding.identity, stored);
	identity_describe(self, here);
	request->open->difference = !binding_matches(&request->binding, self) ? BINDING_DATABASE :
		binding_same_place(&request->binding, self) ? BINDING_CLUSTER_ID : BINDING_PLACE;
	storage_error_set(error, STORAGE_BINDING,
					  "replication stream %d belongs to %s; stored: %s; this server: %s",
					  (int) request->open->stream_id, whom[request->open->difference], stored, here);
}

/* May we use the stream?  Judged before anything is written. */
static bool
check_binding(MongoContext *context, OpenRequest *request, StorageError *error)
{
	const SourceIdentity *self = &request->open->self;
	const SourceIdentity *bound = &request->binding.identity;
	int32_t		stream_id = request->open->stream_id;
	bson_t		document;
	bool		exists;
	bool		tables = false;
	bool		fresh = false;

	if (request->binding.exists)
	{
		/* a copy of the cluster has its identifiers, but not its place */
		if (!binding_matches(&request->binding, self) ||
			(bound->timeline == self->timeline && strcmp(bound->host, self->host) != 0))
		{
			set_binding_error(error, request);
			return false;
		}
		return true;
	}
	if (!stream_document_read(context, stream_id, &document, &exists, error))
	{
		bson_destroy(&document);
		return false;
	}
	if (exists && has_source_tables(context, stream_id, &tables, error))
		fresh = stream_document_untouched(&document) && !tables;
	bson_destroy(&document);
	if (error->kind == STORAGE_OK && exists && !fresh)
		storage_error_set(error, STORAGE_BINDING,
						  "replication stream %d was written by another replicator",
						  (int) stream_id);
	else if (error->kind == STORAGE_OK && !exists)
		storage_error_set(error, STORAGE_STREAM_GONE, "replication stream %d does not exist",
						  (int) stream_id);
	else if (error->kind == STORAGE_OK && !check_owner(context, self, error) &&
			 error->kind == STORAGE_BINDING)
		request->open->difference = BINDING_DATABASE;
	return error->kind == STORAGE_OK;
}

/*
 * The session that our transactions run in, as the server names it.
 */
static void
append_session(MongoContext *context, bson_t *set)
{
	bson_iter_t id;
	const uint8_t *bytes;
	uint32_t	len = 0;

	if (context->session == NULL ||
		!bson_iter_init_find(&id, mongoc_client_session_get_lsid(context->session), "id") ||
		!BSON_ITER_HOLDS_BINARY(&id))
		return;
	bson_iter_binary(&id, NULL, &len, &bytes);
	if (len == SESSION_ID_LEN)
		bson_append_binary(set, "session", -1, BSON_SUBTYPE_UUID, bytes, len);
}

/*
 * A predecessor that was killed may have left a transaction open.  The server
 * keeps it for a minute, and with it the lock on the op id sequence, so that
 * nobody could write; ending the session ends it now.  That this fails does not
 * matter: then we wait for the minute to pass.
 */
static void
end_predecessor_session(MongoContext *context, const StreamBinding *binding)
{
	bson_t		command = BSON_INITIALIZER;
	bson_t		sessions;
	bson_t		session;
	bson_error_t ignored;

	BSON_APPEND_ARRAY_BEGIN(&command, "killSessions", &sessions);
	BSON_APPEND_DOCUMENT_BEGIN(&sessions, "0", &session);
	bson_append_binary(&session, "id", -1, BSON_SUBTYPE_UUID, binding->session, SESSION_ID_LEN);
	bson_append_document_end(&sessions, &session);
	bson_append_array_end(&command, &sessions);
	(void) mongoc_client_command_simple(context->client, "admin", &command, NULL, NULL, &ignored);
	bson_destroy(&command);
}

/* A binding that exists keeps its identity: the caller compares it with the slot's. */
static bool
write_binding(MongoContext *context, OpenRequest *request, StorageError *error)
{
	bson_t		filter = BSON_INITIALIZER;
	bson_t		update = BSON_INITIALIZER;
	bson_t		set;
	bson_t		insert;
	bool		ok;

	BSON_APPEND_INT32(&filter, "_id", request->open->stream_id);
	BSON_APPEND_DOCUMENT_BEGIN(&update, "$set", &set);
	if (!request->binding.exists)
		append_identity(&set, &request->open->self);
	BSON_APPEND_UTF8(&set, "lock_id", request->lock_id);
	append_session(context, &set);
	bson_append_document_end(&update, &set);
	if (!request->binding.exists)
	{
		BSON_APPEND_DOCUMENT_BEGIN(&update, "$setOnInsert", &insert);
		BSON_APPEND_INT64(&insert, "first_timeline", request->open->self.timeline);
		BSON_APPEND_BOOL(&insert, "made_by_pgsync", false);
		BSON_APPEND_BOOL(&insert, "slot_lost", false);
		BSON_APPEND_DATE_TIME(&insert, "deployed_at", unix_time_us() / 1000);
		bson_append_document_end(&update, &insert);
	}
	ok = call_update(context, COLLECTION_BINDINGS, &filter, &update, true, false, NULL, error);
	bson_destroy(&update);
	bson_destroy(&filter);
	return ok;
}

static bool
open_body(MongoContext *context, void *arg, StorageError *error)
{
	static const StreamState states[] = {STREAM_PROCESSING, STREAM_ACTIVE};
	OpenRequest *request = arg;
	const char *known = "";

	bson_reinit(request->document);
	if (!binding_read(context, request->open->stream_id, &request->binding, error) ||
		!check_binding(context, request, error))
		return false;
	if (binding_is_predecessor(&request->binding, &request->open->self))
		known = request->binding.lock_id;
	bson_destroy(request->document);
	return lock_stream(context, request->open->stream_id, states, 2, known, request->lock_id,
					   request->document, error) &&
		write_binding(context, request, error);
}

static StreamDoc *
stream_doc_create(int32_t stream_id)
{
	SyncArena  *arena = arena_create(0);
	StreamDoc  *volatile stream = NULL;
	ArenaGuard	guard;

	if (arena == NULL)
		return NULL;
	arena_guard_push(arena, &guard);
	if (setjmp(guard.jump) == 0)
	{
		stream = arena_new(arena, StreamDoc);
		stream->arena = arena;
		stream->id = stream_id;
	}
	arena_guard_pop(arena, &guard);
	if (stream == NULL)
		arena_destroy(arena);
	return stream;
}

void
hold_stream(MongoContext *context, int32_t stream_id, const char *lock_id)
{
	context->holds_stream = true;
	context->stream_id = stream_id;
	strcpy(context->lock_id, lock_id);
	context->lock_renewed = monotonic_us();
	context->lock_tried = 0;
}

void
storage_open_stream(MongoContext *context, void *arg, StorageError *error)
{
	StorageOpenStream *open = arg;
	OpenRequest request = {.open = open};
	bson_t		document = BSON_INITIALIZER;
	char		rows[COLLECTION_NAME_SIZE];
	StreamDoc  *stream;

	open->stream = NULL;
	request.document = &document;
	random_hex(request.lock_id, LOCK_ID_LEN);
	stream = stream_doc_create(open->stream_id);
	if (stream == NULL)
		storage_error_set(error, STORAGE_SERVER, "out of memory");
	else if (binding_read(context, open->stream_id, &request.binding, error) &&
			 request.binding.has_session && !context->holds_stream &&
			 binding_is_predecessor(&request.binding, &open->self))
		end_predecessor_session(context, &request.binding);
	if (error->kind != STORAGE_OK)
		 /* reported below */ ;
	else if (transaction_run(context, open_body, &request, NULL, error))
	{
		hold_stream(context, open->stream_id, request.lock_id);
		stream->bound_to = request.binding.exists ? request.binding.identity : open->self;
		stream_collection_name(rows, COLLECTION_ROW_STATE, open->stream_id);
		if (ensure_collection(context, rows, error) &&
			stream_document_decode(&document, stream, error) &&
			stream_tables_read(context, stream, error) &&
			stream_has_data(context, stream, error))
		{
			stream->history_changed = binding_history_changed(&request.binding,
															  stream->last_checkpoint_lsn);
			open->stream = stream;
			stream = NULL;
		}
	}
	stream_doc_free(stream);
	bson_destroy(&document);
}

/* ---------------------------------------------------------------- holding */

void
append_held_filter(MongoContext *context, bson_t *filter)
{
	BSON_APPEND_INT32(filter, "_id", context->stream_id);
	BSON_APPEND_UTF8(filter, "lock.id", context->lock_id);
}

static void
set_lock_lost(MongoContext *context, StorageError *error)
{
	storage_error_set(error, STORAGE_LOCK_LOST,
					  "another replicator took the lock of replication stream %d",
					  (int) context->stream_id);
}

void
storage_renew_lock(MongoContext *context, void *unused, StorageError *error)
{
	bson_t		filter = BSON_INITIALIZER;
	bson_t		update = BSON_INITIALIZER;
	bson_t		stage;
	bson_t		set;
	int64_t		matched = 0;
	int64_t		start = monotonic_us();

	(void) unused;
	append_held_filter(context, &filter);
	BSON_APPEND_DOCUMENT_BEGIN(&update, "0", &stage);
	BSON_APPEND_DOCUMENT_BEGIN(&stage, "$set", &set);
	append_server_time(&set, "lock.expires_at", LOCK_SECONDS);
	bson_append_document_end(&stage, &set);
	bson_append_document_end(&update, &stage);
	if (!context->holds_stream)
		storage_error_set(error, STORAGE_LOCK_LOST, "no replication stream is open");
	else if (call_update(context, COLLECTION_STREAMS, &filter, &update, false, false, &matched,
						 error) && matched == 0)
		set_lock_lost(context, error);
	if (error->kind == STORAGE_OK)
	{
		context->lock_renewed = start;
		context->lock_tried = 0;
	}
	else
		context->lock_tried = start;
	bson_destroy(&update);
	bson_destroy(&filter);
}

static void
set_stream_gone(MongoContext *context, StreamState state, StorageError *error)
{
	storage_error_set(error, STORAGE_STREAM_GONE, "replication stream %d is in state %s",
					  (int) context->stream_id, stream_state_name(state));
}

void
check_held_state(MongoContext *context, StorageError *error)
{
	bson_t		document;
	bool		exists;
	StreamState state;

	/* one that has disappeared has no lock to renew: reported by that */
	if (stream_document_read(context, context->stream_id, &document, &exists, error) && exists)
	{
		state = stream_document_state(&document);
		if (state != STREAM_PROCESSING && state != STREAM_ACTIVE)
			set_stream_gone(context, state, error);
	}
	bson_destroy(&document);
}

void
storage_close_stream(MongoContext *context, void *unused, StorageError *error)
{
	bson_t		filter = BSON_INITIALIZER;
	bson_t		update = BSON_INITIALIZER;
	bson_t		unset;

	(void) unused;
	if (context->holds_stream)
	{
		append_held_filter(context, &filter);
		BSON_APPEND_DOCUMENT_BEGIN(&update, "$unset", &unset);
		BSON_APPEND_INT32(&unset, "lock", 1);
		bson_append_document_end(&update, &unset);
		(void) call_update(context, COLLECTION_STREAMS, &filter, &update, false, false, NULL,
						   error);
		context->holds_stream = false;
	}
	bson_destroy(&update);
	bson_destroy(&filter);
}

static bool
mark_history_body(MongoContext *context, void *arg, StorageError *error)
{
	int32_t		stream_id = *(int32_t *) arg;
	bson_t		document;
	bson_t		filter = BSON_INITIALIZER;
	bson_t		update = BSON_INITIALIZER;
	bson_t		set;
	char		lock_id[LOCK_ID_LEN + 1];
	int64_t		expires;
	uint64_t	lsn;
	bool		exists;
	bool		ok;

	ok = stream_document_read(context, stream_id, &document, &exists, error);
	stream_document_lock(&document, lock_id, &expires);
	if (ok && exists && strcmp(lock_id, context->lock_id) == 0 &&
		read_lsn(&document, "last_checkpoint_lsn", &lsn))
	{
		BSON_APPEND_INT32(&filter, "_id", stream_id);
		BSON_APPEND_DOCUMENT_BEGIN(&update, "$set", &set);
		BSON_APPEND_BOOL(&set, "history_changed", true);
		append_lsn_or_null(&set, "history_lsn", lsn);
		bson_append_document_end(&update, &set);
		ok = call_update(context, COLLECTION_BINDINGS, &filter, &update, false, false, NULL,
						 error);
	}
	bson_destroy(&update);
	bson_destroy(&filter);
	bson_destroy(&document);
	return ok;
}

void
storage_mark_history(MongoContext *context, void *arg, StorageError *error)
{
	if (context->holds_stream && context->stream_id == *(int32_t *) arg)
		(void) transaction_run(context, mark_history_body, arg, NULL, error);
}

void
storage_record_error(MongoContext *context, void *arg, StorageError *error)
{
	StorageRecordError *record = arg;
	bson_t		filter = BSON_INITIALIZER;
	bson_t		update = BSON_INITIALIZER;
	bson_t		set;

	BSON_APPEND_INT32(&filter, "_id", record->stream_id);
	BSON_APPEND_DOCUMENT_BEGIN(&update, "$set", &set);
	BSON_APPEND_UTF8(&set, "last_fatal_error", record->message);
	BSON_APPEND_DATE_TIME(&set, "last_fatal_error_ts", unix_time_us() / 1000);
	bson_append_document_end(&update, &set);
	(void) call_update(context, COLLECTION_STREAMS, &filter, &update, false, false, NULL, error);
	bson_destroy(&update);
	bson_destroy(&filter);
}

/*
 * A position behind ours means an older state of the storage, whoever holds the
 * lock in it; a position that went on means that somebody else replicates.
 */
void
explain_mismatch(MongoContext *context, uint64_t last_checkpoint_lsn, uint64_t snapshot_lsn,
				 StorageError *error)
{
	bson_t		document;
	bool		exists;
	char		lock_id[LOCK_ID_LEN + 1];
	int64_t		expires;
	StreamState state;
	uint64_t	checkpoint = STREAM_LSN_NONE;
	uint64_t	snapshot = STREAM_LSN_NONE;
	uint64_t	ours = stored_lsn(last_checkpoint_lsn, snapshot_lsn);

	if (!stream_document_read(context, context->stream_id, &document, &exists, error))
	{
		bson_destroy(&document);
		return;
	}
	state = exists ? stream_document_state(&document) : STREAM_STATE_UNKNOWN;
	stream_document_lock(&document, lock_id, &expires);
	if (!exists)
		storage_error_set(error, STORAGE_CHANGED,
						  "the document of replication stream %d has disappeared",
						  (int) context->stream_id);
	else if (state != STREAM_PROCESSING && state != STREAM_ACTIVE)
		set_stream_gone(context, state, error);
	else if (!read_lsn(&document, "last_checkpoint_lsn", &checkpoint) ||
			 !read_lsn(&document, "snapshot_lsn", &snapshot) ||
			 checkpoint < last_checkpoint_lsn || stored_lsn(checkpoint, snapshot) < ours)
		storage_error_set(error, STORAGE_CHANGED,
						  "the stored position of replication stream %d is before the one that was written last",
						  (int) context->stream_id);
	else if (strcmp(lock_id, context->lock_id) != 0)
		set_lock_lost(context, error);
	else if (checkpoint != last_checkpoint_lsn || snapshot != snapshot_lsn)
		storage_error_set(error, STORAGE_CHANGED,
						  "the stored position of replication stream %d is not the one that was written last",
						  (int) context->stream_id);
	bson_destroy(&document);
}
