/*-------------------------------------------------------------------------
 *
 * deploy.c
 *	  New replication streams: deploying a config, replacing a stream whose
 *	  slot was lost, adopting streams of another cluster (contract 2).
 *
 * Does not look into the config: whoever deploys has validated it.
 *
 * Invariants: a stream's document, its binding and the states of the others
 * change in one transaction; after it at most one stream is PROCESSING.  What is
 * deployed by itself, in place of a stream, never stops what was deployed later.
 *
 *-------------------------------------------------------------------------
 */
#include "mongo/stream_doc.h"

#include <string.h>

#define STORAGE_VERSION		2	/* what we write */

/* MongoDB's limit of a document, less what is written to a stream's later */
#define STREAM_DOCUMENT_LIMIT	(16 * 1024 * 1024 - 64 * 1024)

/* what the transaction works on */
typedef struct DeployRequest
{
	StorageDeploy *deploy;
	bson_t		source;			/* the stream to copy; empty when content is given */
	int64_t		op_head;		/* op_id_sequence.main */
	int32_t		lineage;		/* the deployment that the config is of; 0: this one */
} DeployRequest;

/* {_id: id} in op_id_sequence, +increment; the value after it */
static bool
next_in_sequence(MongoContext *context, const char *id, int64_t increment, int64_t *value,
				 StorageError *error)
{
	bson_t		filter = BSON_INITIALIZER;
	bson_t		update = BSON_INITIALIZER;
	bson_t		inc;
	bson_t		found;
	bool		exists;
	bool		ok;

	BSON_APPEND_UTF8(&filter, "_id", id);
	BSON_APPEND_DOCUMENT_BEGIN(&update, "$inc", &inc);
	BSON_APPEND_INT64(&inc, "op_id", increment);
	bson_append_document_end(&update, &inc);
	ok = call_find_and_modify(context, COLLECTION_SEQUENCE, &filter, &update, true, &found, &exists,
							  error);
	if (ok && (!exists || !read_integer(&found, "op_id", value)))
	{
		storage_error_set(error, STORAGE_INVALID, "the sequence \"%s\" is not a number", id);
		ok = false;
	}
	bson_destroy(&found);
	bson_destroy(&update);
	bson_destroy(&filter);
	return ok;
}

static bool
read_op_head(MongoContext *context, int64_t *head, StorageError *error)
{
	bson_t		filter = BSON_INITIALIZER;
	bson_t		found;
	bool		exists;
	bool		ok;

	*head = 0;
	BSON_APPEND_UTF8(&filter, "_id", "main");
	ok = call_find_one(context, COLLECTION_SEQUENCE, &filter, NULL, &found, &exists, error);
	if (exists)
		(void) read_integer(&found, "op_id", head);
	bson_destroy(&found);
	bson_destroy(&filter);
	return ok;
}

/* {state: from} (and _id, if not 0) -> {state: to}, for all that match */
static bool
set_states(MongoContext *context, int32_t stream_id, StreamState from, StreamState to,
		   StorageError *error)
{
	bson_t		filter = BSON_INITIALIZER;
	bson_t		update = BSON_INITIALIZER;
	bson_t		set;
	bool		ok;

	if (stream_id != 0)
		BSON_APPEND_INT32(&filter, "_id", stream_id);
	BSON_APPEND_UTF8(&filter, "state", stream_state_name(from));
	BSON_APPEND_DOCUMENT_BEGIN(&update, "$set", &set);
	BSON_APPEND_UTF8(&set, "state", stream_state_name(to));
	bson_append_document_end(&update, &set);
	ok = call_update(context, COLLECTION_STREAMS, &filter, &update, false, true, NULL, error);
	bson_destroy(&update);
	bson_destroy(&filter);
	return ok;
}

/* The document of contract 2, "Initial document on deploy": all keys, in order. */
static bool
build_stream(const DeployRequest *request, bson_t *document, StorageError *error)
{
	const StorageDeploy *deploy = request->deploy;
	bson_iter_t field;
	bson_t		compaction;

	BSON_APPEND_INT32(document, "_id", deploy->stream_id);
	BSON_APPEND_INT32(document, "storage_version", STORAGE_VERSION);
	if (deploy->source_stream == 0)
	{
		BSON_APPEND_UTF8(document, "content", deploy->content);
		if (deploy->plan == NULL)
			BSON_APPEND_NULL(document, "serialized_plan");
		else if (!plan_append_bson(document, "serialized_plan", deploy->plan, error))
			return false;
	}
	else
	{
		if (find_field(&request->source, "content", &field))
			bson_append_iter(document, "content", -1, &field);
		if (find_field(&request->source, "serialized_plan", &field))
			bson_append_iter(document, "serialized_plan", -1, &field);
		else
			BSON_APPEND_NULL(document, "serialized_plan");
	}
	BSON_APPEND_NULL(document, "last_checkpoint");
	BSON_APPEND_NULL(document, "last_checkpoint_lsn");
	BSON_APPEND_NULL(document, "no_checkpoint_before");
	BSON_APPEND_NULL(document, "keepalive_op");
	BSON_APPEND_BOOL(document, "snapshot_done", false);
	BSON_APPEND_NULL(document, "snapshot_lsn");
	BSON_APPEND_UTF8(document, "state", stream_state_name(STREAM_PROCESSING));
	BSON_APPEND_UTF8(document, "slot_name", deploy->slot_name);
	BSON_APPEND_NULL(document, "last_checkpoint_ts");
	BSON_APPEND_NULL(document, "last_fatal_error");
	BSON_APPEND_NULL(document, "last_fatal_error_ts");
	BSON_APPEND_NULL(document, "last_keepalive_ts");
	BSON_APPEND_DOCUMENT_BEGIN(document, "parameter_compaction", &compaction);
	BSON_APPEND_INT64(&compaction, "compacted_before", request->op_head);
	bson_append_document_end(document, &compaction);
	if (document->len > STREAM_DOCUMENT_LIMIT)
		storage_error_set(error, STORAGE_INVALID,
						  "the sync config and its plan take %u bytes, which is more than a document of MongoDB holds",
						  (unsigned) document->len);
	return error->kind == STORAGE_OK;
}

static void
build_binding(const DeployRequest *request, bson_t *document)
{
	const StorageDeploy *deploy = request->deploy;

	BSON_APPEND_INT32(document, "_id", deploy->stream_id);
	append_identity(document, &deploy->self);
	BSON_APPEND_INT64(document, "first_timeline", deploy->self.timeline);
	BSON_APPEND_NULL(document, "lock_id");
	BSON_APPEND_BOOL(document, "made_by_pgsync", true);
	BSON_APPEND_BOOL(document, "slot_lost", deploy->slot_lost);
	BSON_APPEND_INT32(document, "lineage",
					  request->lineage != 0 ? request->lineage : deploy->stream_id);
	BSON_APPEND_DATE_TIME(document, "deployed_at", unix_time_us() / 1000);
}

/*
 * Which deployment the replaced stream goes back to.  A person who has deployed since
 * has found what loses slots, or at least wants to try.
 */
static bool
read_lineage(MongoContext *context, DeployRequest *request, StorageError *error)
{
	StreamBinding binding;

	request->lineage = 0;
	if (request->deploy->replaces == 0)
		return true;
	if (!binding_read(context, request->deploy->replaces, &binding, error))
		return false;
	request->lineage = binding.lineage != 0 ? binding.lineage : request->deploy->replaces;
	return true;
}

/* Too many new streams because of lost slots would copy for ever. */
static bool
check_copies(MongoContext *context, const DeployRequest *request, StorageError *error)
{
	const StorageDeploy *deploy = request->deploy;
	bson_t		filter = BSON_INITIALIZER;
	bson_t		since;
	mongoc_cursor_t *cursor;
	const bson_t *document;
	int			count = 0;

	if (!deploy->slot_lost || deploy->max_copies_per_day <= 0)
		return true;
	BSON_APPEND_BOOL(&filter, "slot_lost", true);
	BSON_APPEND_INT32(&filter, "lineage", request->lineage);
	BSON_APPEND_DOCUMENT_BEGIN(&filter, "deployed_at", &since);
	BSON_APPEND_DATE_TIME(&since, "$gte", unix_time_us() / 1000 - DAY_MS);
	bson_append_document_end(&filter, &since);
	cursor = call_find(context, COLLECTION_BINDINGS, &filter, NULL);
	while (cursor_next(context, cursor, &document, "counting new streams", error))
	{
		StreamBinding binding;

		binding_decode(document, &binding);
		count += binding_matches(&binding, &deploy->self);
	}
	mongoc_cursor_destroy(cursor);
	bson_destroy(&filter);
	if (error->kind == STORAGE_OK && count >= deploy->max_copies_per_day)
		storage_error_set(error, STORAGE_CHANGED,
						  "%d replication streams were made in the last 24 hours because a slot was lost",
						  count);
	return error->kind == STORAGE_OK;
}

static bool
read_source(MongoContext *context, DeployRequest *request, StorageError *error)
{
	uint32_t	len;
	bson_iter_t plan;
	bool		has_plan;
	bool		exists;

	bson_destroy(&request->source);
	if (!stream_document_read(context, request->deploy->source_stream, &request->source, &exists,
							  error))
		return false;
	if (!exists)
		storage_error_set(error, STORAGE_STREAM_GONE, "replication stream %d does not exist",
						  (int) request->deploy->source_stream);
	else if (read_text(&request->source, "content", &len) == NULL)
		storage_error_set(error, STORAGE_INVALID,
						  "the document of replication stream %d has no sync config",
						  (int) request->deploy->source_stream);
	else
		(void) stream_document_plan(&request->source, request->deploy->source_stream, &plan,
									&has_plan, error);
	return error->kind == STORAGE_OK;
}

/* The stream that cannot go on: served as it is until another is active, or just replaced. */
static bool
retire_replaced(MongoContext *context, int32_t stream_id, StorageError *error)
{
	return stream_id == 0 ||
		(set_states(context, stream_id, STREAM_ACTIVE, STREAM_ERRORED, error) &&
		 set_states(context, stream_id, STREAM_PROCESSING, STREAM_STOP, error));
}

/*
 * The newest live stream after the given one; 0: none.  ours: only one that is bound
 * to us.
 */
static bool
find_newer(MongoContext *context, int32_t after, const SourceIdentity *ours, int32_t *newer,
		   StorageError *error)
{
	static const StreamState live[] = {STREAM_PROCESSING, STREAM_ACTIVE};
	bson_t		filter = BSON_INITIALIZER;
	bson_t		opts = BSON_INITIALIZER;
	bson_t		part;
	mongoc_cursor_t *cursor;
	const bson_t *document;

	*newer = 0;
	BSON_APPEND_DOCUMENT_BEGIN(&filter, "_id", &part);
	BSON_APPEND_INT32(&part, "$gt", after);
	bson_append_document_end(&filter, &part);
	append_state_in(&filter, live, 2);
	BSON_APPEND_DOCUMENT_BEGIN(&opts, "projection", &part);
	BSON_APPEND_INT32(&part, "_id", 1);
	bson_append_document_end(&opts, &part);
	cursor = call_find(context, COLLECTION_STREAMS, &filter, &opts);
	while (cursor_next(context, cursor, &document, "looking for newer streams", error))
	{
		StreamBinding binding;
		int64_t		id;

		if (!read_integer(document, "_id", &id) || id <= *newer)
			continue;
		if (ours != NULL && !binding_read(context, (int32_t) id, &binding, error))
			break;
		if (ours == NULL || binding_matches(&binding, ours))
			*newer = (int32_t) id;
	}
	mongoc_cursor_destroy(cursor);
	bson_destroy(&opts);
	bson_destroy(&filter);
	return error->kind == STORAGE_OK;
}

static bool
read_state(MongoContext *context, int32_t stream_id, StreamState *state, StorageError *error)
{
	bson_t		document;
	bool		exists;
	bool		ok = stream_document_read(context, stream_id, &document, &exists, error);

	*state = ok && exists ? stream_document_state(&document) : STREAM_STATE_UNKNOWN;
	bson_destroy(&document);
	return ok;
}

/*
 * A copy that is made by itself: somebody may have deployed since it was decided, or
 * the stream that it is to replace may have been replaced.  Then what is there counts,
 * and an old stream of a lost slot is served as it is until the newer one is active.
 */
static bool
is_superseded(MongoContext *context, StorageDeploy *deploy, bool *superseded, StorageError *error)
{
	StreamState state = STREAM_PROCESSING;

	*superseded = false;
	deploy->newer_stream = 0;
	deploy->stays_served = false;
	if (deploy->source_stream == 0)
		return true;
	/* a copy of another replicator's stream gives way to our own only */
	if (!find_newer(context, deploy->source_stream, deploy->replaces == 0 ? &deploy->self : NULL,
					&deploy->newer_stream, error) ||
		(deploy->replaces != 0 && !read_state(context, deploy->replaces, &state, error)))
		return false;
	*superseded = deploy->newer_stream != 0 ||
		(state != STREAM_PROCESSING && state != STREAM_ACTIVE);
	deploy->stays_served = *superseded && (state == STREAM_ACTIVE || state == STREAM_ERRORED);
	return true;
}

static bool
insert_one(MongoContext *context, const char *collection, bson_t *document, StorageError *error)
{
	return call_insert(context, collection, &document, 1, error);
}

static bool
deploy_body(MongoContext *context, void *arg, StorageError *error)
{
	DeployRequest *request = arg;
	StorageDeploy *deploy = request->deploy;
	bson_t		document = BSON_INITIALIZER;
	bson_t		binding = BSON_INITIALIZER;
	char		suffix[5];
	int64_t		id = 0;
	bool		superseded = false;
	bool		ok;

	deploy->stream_id = 0;
	ok = check_owner(context, &deploy->self, error) &&
		is_superseded(context, deploy, &superseded, error);
	if (ok && superseded)
		return retire_replaced(context, deploy->replaces, error);

	/* a deployment stops the streams before it */
	ok = ok && read_lineage(context, request, error) &&
		check_copies(context, request, error) &&
		(deploy->source_stream == 0 || read_source(context, request, error)) &&
		retire_replaced(context, deploy->replaces, error) &&
		set_states(context, 0, STREAM_PROCESSING, STREAM_STOP, error) &&
		next_in_sequence(context, "sync_rules", 1, &id, error) &&
		read_op_head(context, &request->op_head, error);
	if (ok)
	{
		random_hex(suffix, 4);
		deploy->stream_id = (int32_t) id;
		snprintf(deploy->slot_name, STREAM_SLOT_NAME_LEN, "%.40s%d_%s", deploy->slot_prefix,
				 (int) id, suffix);
		build_binding(request, &binding);
		ok = build_stream(request, &document, error) &&
			insert_one(context, COLLECTION_STREAMS, &document, error) &&
			insert_one(context, COLLECTION_BINDINGS, &binding, error);
	}
	bson_destroy(&binding);
	bson_destroy(&document);
	return ok;
}

void
storage_deploy(MongoContext *context, void *arg, StorageError *error)
{
	DeployRequest request = {.deploy = arg};
	size_t		len = request.deploy->content ? strlen(request.deploy->content) : 0;

	bson_init(&request.source);
	if (request.deploy->source_stream == 0 && (len == 0 || len > DOCUMENT_LIMIT))
		storage_error_set(error, STORAGE_INVALID, "the sync config is empty or too large");
	else if (transaction_run(context, deploy_body, &request, NULL, error))
	{
		StorageError event;

		/* the deploy is done: an event that fails is only late news for the API */
		memset(&event, 0, sizeof(event));
		(void) call_checkpoint_event(context, &event);
	}
	bson_destroy(&request.source);
}

/* ---------------------------------------------------------------- adopt */

/* Nobody else holds the stream any more: free, expired, ours, or its place is ours. */
static bool
check_not_held(MongoContext *context, int32_t stream_id, const StreamBinding *binding,
			   const SourceIdentity *self, StorageError *error)
{
	bson_t		document;
	bool		exists;
	char		lock_id[LOCK_ID_LEN + 1];
	int64_t		expires;
	bool		here = binding_is_predecessor(binding, self);
	bool		ours;

	if (!stream_document_read(context, stream_id, &document, &exists, error))
	{
		bson_destroy(&document);
		return false;
	}
	stream_document_lock(&document, lock_id, &expires);
	/* under another pgsync.cluster_id: what held it has ended, or waits for this decision */
	here = here || (binding_same_place(binding, self) && strcmp(lock_id, binding->lock_id) == 0);
	ours = context->holds_stream && context->stream_id == stream_id &&
		strcmp(lock_id, context->lock_id) == 0;
	if (exists && lock_id[0] != '\0' && expires > unix_time_us() / 1000 && !here && !ours)
		storage_error_set(error, STORAGE_LOCK_LOST,
						  "replication stream %d is still held by %s, or was until less than a minute ago",
						  (int) stream_id, binding->identity.host);
	bson_destroy(&document);
	return error->kind == STORAGE_OK;
}

static bool
adopt_one(MongoContext *context, int32_t stream_id, const SourceIdentity *self,
		  StorageError *error)
{
	bson_t		filter = BSON_INITIALIZER;
	bson_t		update = BSON_INITIALIZER;
	bson_t		set;
	bson_t		unset;
	bool		ok;

	BSON_APPEND_INT32(&filter, "_id", stream_id);
	BSON_APPEND_DOCUMENT_BEGIN(&update, "$set", &set);
	append_identity(&set, self);
	bson_append_document_end(&update, &set);
	BSON_APPEND_DOCUMENT_BEGIN(&update, "$unset", &unset);
	BSON_APPEND_BOOL(&unset, "history_changed", true);
	BSON_APPEND_BOOL(&unset, "history_lsn", true);
	bson_append_document_end(&update, &unset);
	ok = call_update(context, COLLECTION_BINDINGS, &filter, &update, false, false, NULL, error);
	bson_destroy(&update);
	bson_destroy(&filter);
	return ok;
}

static bool
adopt_body(MongoContext *context, void *arg, StorageError *error)
{
	StorageOpenStream *open = arg;
	bson_t		filter = BSON_INITIALIZER;
	bson_t		state;
	mongoc_cursor_t *cursor;
	const bson_t *document;
	int32_t		ids[256];
	int			count = 0;

	if (open->stream_id != 0)
		BSON_APPEND_INT32(&filter, "_id", open->stream_id);
	BSON_APPEND_DOCUMENT_BEGIN(&filter, "state", &state);
	BSON_APPEND_UTF8(&state, "$ne", stream_state_name(STREAM_TERMINATED));
	bson_append_document_end(&filter, &state);
	cursor = call_find(context, COLLECTION_STREAMS, &filter, NULL);
	while (count < 256 && cursor_next(context, cursor, &document, "listing streams", error))
	{
		int64_t		id;

		if (read_integer(document, "_id", &id))
			ids[count++] = (int32_t) id;
	}
	mongoc_cursor_destroy(cursor);
	bson_destroy(&filter);
	for (int i = 0; i < count && error->kind == STORAGE_OK; i++)
	{
		StreamBinding binding;

		if (binding_read(context, ids[i], &binding, error) && binding.exists &&
			check_not_held(context, ids[i], &binding, &open->self, error))
			(void) adopt_one(context, ids[i], &open->self, error);
	}
	return error->kind == STORAGE_OK;
}

void
storage_adopt_stream(MongoContext *context, void *arg, StorageError *error)
{
	((StorageOpenStream *) arg)->stream = NULL;
	(void) transaction_run(context, adopt_body, arg, NULL, error);
}
