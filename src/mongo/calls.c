/*-------------------------------------------------------------------------
 *
 * calls.c
 *	  The calls of libmongoc that the rest of src/mongo uses, and transactions.
 *
 * One place knows sessions, write concerns, retries and error labels; the
 * callers know documents.
 *
 * Invariant: every write outside a transaction, and every commit, asks for
 * majority and journal (checkpoint events excepted, which carry no data).
 *
 *-------------------------------------------------------------------------
 */
#include "mongo/mongo_private.h"

#include <string.h>

#define TRANSACTION_TRIES		20
#define TRANSACTION_SECONDS		90
#define UNREACHABLE_SECONDS		30	/* then the caller says so, and starts again */
#define TURN_SECONDS			2	/* so long a turn is kept over tries */
#define COMMIT_RETRY_SECONDS	30
#define COMMIT_TIME_MS			10000	/* contract 3.5 */
#define RETRY_MIN_MS			5
#define RETRY_MAX_MS			50

/* Starts *opts: the session inside a transaction, else the write concern if wanted. */
static bool
begin_opts(MongoContext *context, bson_t *opts, bool write, const char *doing,
		   StorageError *error)
{
	bson_error_t driver_error;

	bson_init(opts);
	if (context->in_transaction)
	{
		if (!mongoc_client_session_append(context->session, opts, &driver_error))
		{
			storage_error_from_driver(context, error, doing, &driver_error, NULL);
			bson_destroy(opts);
			return false;
		}
	}
	else if (write)
		bson_concat(opts, &context->majority_opts);
	return true;
}

static void
reset_labels(MongoContext *context)
{
	context->transient = false;
	context->commit_unknown = false;
}

mongoc_cursor_t *
call_find(MongoContext *context, const char *collection, const bson_t *filter,
		  const bson_t *opts)
{
	mongoc_cursor_t *cursor;
	bson_t		all;
	StorageError ignored;

	reset_labels(context);
	if (!begin_opts(context, &all, false, "reading", &ignored))
		bson_init(&all);		/* the cursor reports it: no session */
	if (opts != NULL)
		bson_concat(&all, opts);
	cursor = mongoc_collection_find_with_opts(context_collection(context, collection), filter,
											  &all, NULL);
	bson_destroy(&all);
	return cursor;
}

mongoc_cursor_t *
call_aggregate(MongoContext *context, const char *collection, const bson_t *pipeline,
			   int max_time_ms)
{
	mongoc_cursor_t *cursor;
	bson_t		opts;
	StorageError ignored;

	reset_labels(context);
	if (!begin_opts(context, &opts, false, "reading", &ignored))
		bson_init(&opts);
	if (max_time_ms > 0)
		BSON_APPEND_INT32(&opts, "maxTimeMS", max_time_ms);
	cursor = mongoc_collection_aggregate(context_collection(context, collection),
										 MONGOC_QUERY_NONE, pipeline, &opts, NULL);
	bson_destroy(&opts);
	return cursor;
}

bool
cursor_next(MongoContext *context, mongoc_cursor_t *cursor, const bson_t **document,
			const char *doing, StorageError *error)
{
	bson_error_t driver_error;
	const bson_t *reply;

	if (mongoc_cursor_next(cursor, document))
		return true;
	if (mongoc_cursor_error_document(cursor, &driver_error, &reply))
		storage_error_from_driver(context, error, doing, &driver_error, reply);
	return false;
}

/*
 * The document found in *found, which is initialised either way.
 */
bool
call_find_one(MongoContext *context, const char *collection, const bson_t *filter,
			  const bson_t *projection, bson_t *found, bool *exists, StorageError *error)
{
	mongoc_cursor_t *cursor;
	const bson_t *document;
	bson_t		opts = BSON_INITIALIZER;
	char		doing[96];

	snprintf(doing, sizeof(doing), "reading %s", collection);
	BSON_APPEND_INT64(&opts, "limit", 1);
	BSON_APPEND_BOOL(&opts, "singleBatch", true);
	if (projection != NULL)
		BSON_APPEND_DOCUMENT(&opts, "projection", projection);
	cursor = call_find(context, collection, filter, &opts);
	*exists = cursor_next(context, cursor, &document, doing, error);
	if (*exists)
		bson_copy_to(document, found);
	else
		bson_init(found);
	mongoc_cursor_destroy(cursor);
	bson_destroy(&opts);
	return error->kind == STORAGE_OK;
}

bool
call_insert(MongoContext *context, const char *collection, bson_t *const *documents,
			size_t count, StorageError *error)
{
	bson_error_t driver_error;
	bson_t		opts;
	bson_t		reply;
	char		doing[96];
	bool		ok;

	if (count == 0)
		return true;
	snprintf(doing, sizeof(doing), "writing %s", collection);
	reset_labels(context);
	if (!begin_opts(context, &opts, true, doing, error))
		return false;
	BSON_APPEND_BOOL(&opts, "ordered", false);
	BSON_APPEND_BOOL(&opts, "validate", false);
	ok = mongoc_collection_insert_many(context_collection(context, collection),
									   (const bson_t **) documents, count, &opts, &reply,
									   &driver_error);
	if (!ok)
		storage_error_from_driver(context, error, doing, &driver_error, &reply);
	bson_destroy(&reply);
	bson_destroy(&opts);
	return ok;
}

/* A bulk of unordered upserts; filters NULL: replacements by _id. */
static bool
run_bulk(MongoContext *context, const char *collection, bson_t *const *filters,
		 bson_t *const *documents, size_t count, StorageError *error)
{
	mongoc_bulk_operation_t *bulk;
	bson_error_t driver_error;
	bson_t		opts;
	bson_t		upsert = BSON_INITIALIZER;
	bson_t		reply;
	char		doing[96];
	bool		ok = true;

	if (count == 0)
		return true;
	snprintf(doing, sizeof(doing), "writing %s", collection);
	reset_labels(context);
	if (!begin_opts(context, &opts, true, doing, error))
		return false;
	BSON_APPEND_BOOL(&opts, "ordered", false);
	BSON_APPEND_BOOL(&upsert, "upsert", true);
	bulk = mongoc_collection_create_bulk_operation_with_opts(context_collection(context, collection),
															 &opts);
	for (size_t i = 0; i < count && ok; i++)
	{
		bson_t		by_id = BSON_INITIALIZER;
		bson_iter_t id;

		if (filters != NULL)
			ok = mongoc_bulk_operation_update_one_with_opts(bulk, filters[i], documents[i],
															&upsert, &driver_error);
		else
		{
			if (find_field(documents[i], "_id", &id))
				bson_append_iter(&by_id, "_id", 3, &id);
			ok = mongoc_bulk_operation_replace_one_with_opts(bulk, &by_id, documents[i], &upsert,
															 &driver_error);
		}
		bson_destroy(&by_id);
	}
	if (ok)
		ok = mongoc_bulk_operation_execute(bulk, &reply, &driver_error) != 0;
	else
		bson_init(&reply);
	if (!ok)
		storage_error_from_driver(context, error, doing, &driver_error, &reply);
	bson_destroy(&reply);
	mongoc_bulk_operation_destroy(bulk);
	bson_destroy(&upsert);
	bson_destroy(&opts);
	return ok;
}

bool
call_upserts(MongoContext *context, const char *collection, bson_t *const *filters,
			 bson_t *const *updates, size_t count, StorageError *error)
{
	return run_bulk(context, collection, filters, updates, count, error);
}

bool
call_replace(MongoContext *context, const char *collection, bson_t *const *documents,
			 size_t count, StorageError *error)
{
	return run_bulk(context, collection, NULL, documents, count, error);
}

bool
call_update(MongoContext *context, const char *collection, const bson_t *filter,
			const bson_t *update, bool upsert, bool many, int64_t *matched, StorageError *error)
{
	bson_error_t driver_error;
	bson_t		opts;
	bson_t		reply;
	char		doing[96];
	bool		ok;

	snprintf(doing, sizeof(doing), "updating %s", collection);
	reset_labels(context);
	if (!begin_opts(context, &opts, true, doing, error))
		return false;
	if (upsert)
		BSON_APPEND_BOOL(&opts, "upsert", true);
	ok = (many ? mongoc_collection_update_many : mongoc_collection_update_one)
		(context_collection(context, collection), filter, update, &opts, &reply, &driver_error);
	if (!ok)
		storage_error_from_driver(context, error, doing, &driver_error, &reply);
	else if (matched != NULL && !read_integer(&reply, "matchedCount", matched))
		*matched = 0;
	bson_destroy(&reply);
	bson_destroy(&opts);
	return ok;
}

/*
 * deleted may be NULL.  max_time_ms 0: no limit of the server's.
 */
bool
call_delete(MongoContext *context, const char *collection, const bson_t *filter, bool many,
			int max_time_ms, int64_t *deleted, StorageError *error)
{
	bson_error_t driver_error;
	bson_t		opts;
	bson_t		reply;
	char		doing[96];
	bool		ok;

	snprintf(doing, sizeof(doing), "deleting from %s", collection);
	reset_labels(context);
	if (!begin_opts(context, &opts, true, doing, error))
		return false;
	if (max_time_ms > 0)
	{
		/* the collection call has no such option */
		bson_t		command = BSON_INITIALIZER;
		bson_t		deletes;
		bson_t		one;

		BSON_APPEND_UTF8(&command, "delete", collection);
		BSON_APPEND_ARRAY_BEGIN(&command, "deletes", &deletes);
		BSON_APPEND_DOCUMENT_BEGIN(&deletes, "0", &one);
		BSON_APPEND_DOCUMENT(&one, "q", filter);
		BSON_APPEND_INT32(&one, "limit", many ? 0 : 1);
		bson_append_document_end(&deletes, &one);
		bson_append_array_end(&command, &deletes);
		BSON_APPEND_INT32(&command, "maxTimeMS", max_time_ms);
		ok = mongoc_client_write_command_with_opts(context->client, context->thread->database,
												   &command, &opts, &reply, &driver_error);
		bson_destroy(&command);
	}
	else
		ok = (many ? mongoc_collection_delete_many : mongoc_collection_delete_one)
			(context_collection(context, collection), filter, &opts, &reply, &driver_error);
	if (!ok)
		storage_error_from_driver(context, error, doing, &driver_error, &reply);
	else if (deleted != NULL &&
			 !read_integer(&reply, max_time_ms > 0 ? "n" : "deletedCount", deleted))
		*deleted = 0;
	bson_destroy(&reply);
	bson_destroy(&opts);
	return ok;
}

bool
call_find_and_modify(MongoContext *context, const char *collection, const bson_t *filter,
					 const bson_t *update, bool upsert, bson_t *value, bool *exists,
					 StorageError *error)
{
	mongoc_find_and_modify_opts_t *fam = mongoc_find_and_modify_opts_new();
	bson_error_t driver_error;
	bson_t		opts;
	bson_t		reply;
	bson_iter_t field;
	char		doing[96];
	bool		ok;

	*exists = false;
	bson_init(value);
	snprintf(doing, sizeof(doing), "updating %s", collection);
	reset_labels(context);
	if (!begin_opts(context, &opts, true, doing, error))
	{
		mongoc_find_and_modify_opts_destroy(fam);
		return false;
	}
	mongoc_find_and_modify_opts_set_update(fam, update);
	mongoc_find_and_modify_opts_set_flags(fam, MONGOC_FIND_AND_MODIFY_RETURN_NEW |
										  (upsert ? MONGOC_FIND_AND_MODIFY_UPSERT : 0));
	mongoc_find_and_modify_opts_append(fam, &opts);
	ok = mongoc_collection_find_and_modify_with_opts(context_collection(context, collection),
													 filter, fam, &reply, &driver_error);
	if (!ok)
		storage_error_from_driver(context, error, doing, &driver_error, &reply);
	else if (bson_iter_init_find(&field, &reply, "value") && BSON_ITER_HOLDS_DOCUMENT(&field))
	{
		const uint8_t *data;
		uint32_t	len;
		bson_t		view;

		bson_iter_document(&field, &len, &data);
		if (bson_init_static(&view, data, len))
		{
			bson_concat(value, &view);
			*exists = true;
		}
	}
	bson_destroy(&reply);
	bson_destroy(&opts);
	mongoc_find_and_modify_opts_destroy(fam);
	return ok;
}

/* reply is initialised either way */
bool
call_command(MongoContext *context, const char *doing, const bson_t *command, bool write,
			 bson_t *reply, StorageError *error)
{
	bson_error_t driver_error;
	bson_t		opts;
	bool		ok;

	reset_labels(context);
	if (!begin_opts(context, &opts, write, doing, error))
	{
		bson_init(reply);
		return false;
	}
	if (write)
		ok = mongoc_client_write_command_with_opts(context->client, context->thread->database,
												   command, &opts, reply, &driver_error);
	else
		ok = mongoc_client_read_command_with_opts(context->client, context->thread->database,
												  command, NULL, &opts, reply, &driver_error);
	if (!ok)
		storage_error_from_driver(context, error, doing, &driver_error, reply);
	bson_destroy(&opts);
	return ok;
}

bool
call_checkpoint_event(MongoContext *context, StorageError *error)
{
	mongoc_write_concern_t *concern = mongoc_write_concern_new();
	bson_error_t driver_error;
	bson_t		opts = BSON_INITIALIZER;
	bson_t		document = BSON_INITIALIZER;
	bson_t		reply;
	bson_oid_t	id;
	bool		ok;

	reset_labels(context);
	mongoc_write_concern_set_w(concern, 1);
	mongoc_write_concern_append(concern, &opts);
	bson_oid_init(&id, NULL);
	BSON_APPEND_OID(&document, "_id", &id);
	ok = mongoc_collection_insert_one(context_collection(context, COLLECTION_EVENTS), &document,
									  &opts, &reply, &driver_error);
	if (!ok)
		storage_error_from_driver(context, error, "writing " COLLECTION_EVENTS, &driver_error,
								  &reply);
	bson_destroy(&reply);
	bson_destroy(&document);
	bson_destroy(&opts);
	mongoc_write_concern_destroy(concern);
	return ok;
}

/* ---------------------------------------------------------------- transactions */

static bool
start_session(MongoContext *context, StorageError *error)
{
	mongoc_session_opt_t *opts;
	bson_error_t driver_error;

	if (context->session != NULL)
		return true;
	opts = mongoc_session_opts_new();
	mongoc_session_opts_set_causal_consistency(opts, false);
	context->session = mongoc_client_start_session(context->client, opts, &driver_error);
	mongoc_session_opts_destroy(opts);
	if (context->session == NULL)
	{
		storage_error_from_driver(context, error, "starting a session", &driver_error, NULL);
		return false;
	}
	return true;
}

bool
transaction_begin(MongoContext *context, StorageError *error)
{
	mongoc_transaction_opt_t *opts;
	mongoc_read_concern_t *concern;
	bson_error_t driver_error;
	bool		ok;

	reset_labels(context);
	if (!start_session(context, error))
		return false;
	opts = mongoc_transaction_opts_new();
	concern = mongoc_read_concern_new();
	mongoc_read_concern_set_level(concern, MONGOC_READ_CONCERN_LEVEL_SNAPSHOT);
	mongoc_transaction_opts_set_read_concern(opts, concern);
	mongoc_transaction_opts_set_write_concern(opts, context->majority);
	mongoc_transaction_opts_set_max_commit_time_ms(opts, COMMIT_TIME_MS);
	ok = mongoc_client_session_start_transaction(context->session, opts, &driver_error);
	mongoc_read_concern_destroy(concern);
	mongoc_transaction_opts_destroy(opts);
	if (!ok)
		storage_error_from_driver(context, error, "starting a transaction", &driver_error, NULL);
	context->in_transaction = ok;
	return ok;
}

void
transaction_abort(MongoContext *context)
{
	bson_error_t ignored;

	if (!context->in_transaction)
		return;
	context->in_transaction = false;
	/* the server forgets it by itself if it does not hear of this */
	(void) mongoc_client_session_abort_transaction(context->session, &ignored);
}

/*
 * The driver asks a second time by itself and tells of the last answer only.  So
 * "the transaction is not known" can be that of a server which has committed,
 * crashed and forgotten: whatever the error says, it may have been done.
 */
bool
transaction_commit(MongoContext *context, StorageError *error)
{
	int64_t		give_up = monotonic_us() + COMMIT_RETRY_SECONDS * INT64_C(1000000);

	context->in_transaction = false;
	for (;;)
	{
		bson_error_t driver_error;
		bson_t		reply;
		bool		ok;

		reset_labels(context);
		ok = mongoc_client_session_commit_transaction(context->session, &reply, &driver_error);
		if (!ok)
			storage_error_from_driver(context, error, "committing", &driver_error, &reply);
		bson_destroy(&reply);
		if (ok)
		{
			memset(error, 0, sizeof(*error));
			return true;
		}
		if (!context->commit_unknown || context_cancelled(context) || monotonic_us() > give_up)
		{
			if (error->kind != STORAGE_CANCELLED && (context->commit_unknown || context->transient))
				error->kind = STORAGE_UNREACHABLE;
			error->commit_unknown = true;
			return false;
		}
		context_sleep(context, 50);
	}
}

/* so that two writers that met do not meet again */
static int
retry_jitter(void)
{
	uint32_t	random = 0;

	(void) random_bytes(&random, sizeof(random));
	return (int) (random % (RETRY_MAX_MS - RETRY_MIN_MS + 1));
}

/*
 * One try.  *again: what failed may be tried again as a whole; nothing is, from
 * memory, once a commit was sent.
 */
static bool
transaction_try(MongoContext *context, TransactionBody body, void *arg, bool *again,
				StorageError *error)
{
	*again = false;
	memset(error, 0, sizeof(*error));
	if (!transaction_begin(context, error))
		return false;
	if (body(context, arg, error))
		return transaction_commit(context, error);
	*again = context->transient;
	transaction_abort(context);
	return false;
}

/* The main thread shows why nothing goes on, long before it is given up. */
static void
note_wait(MongoContext *context, const StorageError *error)
{
	MongoThread *thread = context->thread;
	Writer	   *writer;

	pthread_mutex_lock(&thread->mutex);
	writer = thread->writer;
	pthread_mutex_unlock(&thread->mutex);
	if (writer != NULL && error->kind == STORAGE_UNREACHABLE)
		writer_note_wait(writer, error);
}

bool
transaction_run_in_turn(MongoContext *context, TransactionBody body, void *arg,
						const TransactionTurn *turn, int64_t *conflicts, StorageError *error)
{
	int64_t		begun = monotonic_us();
	int64_t		give_up = begun + TRANSACTION_SECONDS * INT64_C(1000000);
	int64_t		taken = 0;
	bool		held = false;
	bool		ok;

	for (int try = 1;; try++)
	{
		bool		again;

		if (turn != NULL && !held)
		{
			memset(error, 0, sizeof(*error));
			if (!turn->take(turn->arg, error))
				return false;
			held = true;
			taken = monotonic_us();
		}
		ok = transaction_try(context, body, arg, &again, error);
		/* contract 3.5: both bounds must be passed */
		if (ok || !again || context_cancelled(context) ||
			(try > TRANSACTION_TRIES && monotonic_us() > give_up) ||
			(error->kind == STORAGE_UNREACHABLE &&
			 monotonic_us() - begun > UNREACHABLE_SECONDS * INT64_C(1000000)))
			break;
		note_wait(context, error);
		if (held && (error->kind == STORAGE_UNREACHABLE ||
					 monotonic_us() - taken > TURN_SECONDS * INT64_C(1000000)))
		{
			turn->give(turn->arg);
			held = false;
		}
		if (conflicts != NULL)
			(*conflicts)++;
		context_sleep(context, RETRY_MIN_MS + retry_jitter());
	}
	if (held)
		turn->give(turn->arg);
	return ok;
}

bool
transaction_run(MongoContext *context, TransactionBody body, void *arg, int64_t *conflicts,
				StorageError *error)
{
	return transaction_run_in_turn(context, body, arg, NULL, conflicts, error);
}
