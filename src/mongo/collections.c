/*-------------------------------------------------------------------------
 *
 * collections.c
 *	  Is the server usable, and is everything there that the API and we need:
 *	  collections, indexes, the migrations document (contract 1.2, 1.3).
 *
 * Only creates what is missing; it changes nothing that exists, but for an
 * uncapped checkpoint_events, which the API cannot use.
 *
 * Invariant: everything here may be run by several processes at once and again.
 *
 *-------------------------------------------------------------------------
 */
#include "mongo/mongo_private.h"

#include <string.h>

#define WIRE_VERSION_5_0	13
#define EVENTS_SIZE			51200
#define EVENTS_MAX			50

/* keys of one index; direction 0 ends the list */
typedef struct IndexKey
{
	const char *field;
	int			direction;
} IndexKey;

typedef struct IndexSpec
{
	const char *collection;
	const char *name;
	IndexKey	keys[4];
	bool		unique;
	bool		when_present;	/* only documents that have the first field */
} IndexSpec;

static const IndexSpec indexes[] = {
	{COLLECTION_PARAMETERS, "lookup1", {{"key.g", 1}, {"lookup", 1}, {"_id", 1}}, false, false},
	{COLLECTION_BUCKETS, "bucket_updates", {{"_id.g", 1}, {"last_op", 1}}, true, false},
	{COLLECTION_BUCKETS, "dirty_count",
	{{"_id.g", 1}, {"estimate_since_compact.count", -1}}, false, false},
	{COLLECTION_WRITES, "user_id", {{"user_id", 1}}, false, false},
	{COLLECTION_WRITES, "processed_at_lsn", {{"processed_at_lsn", 1}}, false, false},
	{COLLECTION_WRITES, "checkpoint_requested_at", {{"checkpoint_requested_at", 1}}, false, true},
	{COLLECTION_CUSTOM_WRITES, "user_sync_rule_unique",
	{{"user_id", 1}, {"sync_rules_id", 1}}, true, false},
	{COLLECTION_CUSTOM_WRITES, "op_id", {{"op_id", 1}}, false, false},
	{COLLECTION_CUSTOM_WRITES, "checkpoint_requested_at",
	{{"checkpoint_requested_at", 1}}, false, true},
	{COLLECTION_CONNECTIONS, "connection_list_index",
	{{"connected_at", 1}, {"jwt_exp", 1}, {"disconnected_at", 1}}, false, false},
	{COLLECTION_CONNECTIONS, "connection_user_id_index", {{"user_id", 1}}, false, false},
	{COLLECTION_CONNECTIONS, "connection_client_id_index", {{"client_id", 1}}, false, false},
	{COLLECTION_CONNECTIONS, "connection_index", {{"sdk", 1}}, false, false},
	{COLLECTION_PROGRESS, "group_id", {{"group_id", 1}}, false, false},
	{COLLECTION_REJECTED, "group_id", {{"group_id", 1}}, false, false},
};

/* what is written in transactions must exist: creating there costs conflicts */
static const char *const collections[] = {
	COLLECTION_STREAMS, COLLECTION_SEQUENCE, COLLECTION_DATA, COLLECTION_PARAMETERS,
	COLLECTION_BUCKETS, COLLECTION_TABLES, COLLECTION_WRITES, COLLECTION_CUSTOM_WRITES,
	COLLECTION_CONNECTIONS, COLLECTION_MIGRATIONS, COLLECTION_BINDINGS, COLLECTION_PROGRESS,
	COLLECTION_REJECTED
};

static const char *const migrations[] = {
	"1684951997326-init",
	"1688556755264-initial-sync-rules",
	"1702295701188-sync-rule-state",
	"1711543888062-write-checkpoint-index",
	"1727099539247-custom-write-checkpoint-index",
	"1741697235857-bucket-state-index",
	"1749720702136-checkpoint-events",
	"1752661449910-connection-reporting",
	"1760433882550-bucket-state-index2",
	"1762790715147-connection-reporting2",
	"1770213298299-storage-version",
	"1782950400000-checkpoint-requested-at-index"
};

#define MIGRATION_COUNT (sizeof(migrations) / sizeof(migrations[0]))

/* two processes that insert at once must meet in one document */
#define MIGRATIONS_ID	"706773796e63000000000001"

/* ---------------------------------------------------------------- server */

static bool
check_server(MongoContext *context, StorageError *error)
{
	bson_t		command = BSON_INITIALIZER;
	bson_t		reply;
	int64_t		wire = 0;
	uint32_t	len;
	const char *message;
	bool		ok;

	BSON_APPEND_INT32(&command, "hello", 1);
	ok = call_command(context, "asking the server for its version", &command, false, &reply,
					  error);
	bson_destroy(&command);
	if (ok)
	{
		message = read_text(&reply, "msg", &len);
		(void) read_integer(&reply, "maxWireVersion", &wire);
		if (read_text(&reply, "setName", &len) == NULL &&
			(message == NULL || strcmp(message, "isdbgrid") != 0))
			storage_error_set(error, STORAGE_UNSUITABLE,
							  "the server is not a member of a replica set");
		else if (wire < WIRE_VERSION_5_0)
			storage_error_set(error, STORAGE_UNSUITABLE,
							  "the server is older than MongoDB 5.0 (wire version %d)", (int) wire);
	}
	bson_destroy(&reply);
	return error->kind == STORAGE_OK;
}

/* ---------------------------------------------------------------- collections */

static void
clear_error(StorageError *error)
{
	memset(error, 0, sizeof(*error));
}

static bool
create_collection(MongoContext *context, const char *name, bool capped, StorageError *error)
{
	bson_t		command = BSON_INITIALIZER;
	bson_t		reply;
	bool		ok;

	BSON_APPEND_UTF8(&command, "create", name);
	if (capped)
	{
		BSON_APPEND_BOOL(&command, "capped", true);
		BSON_APPEND_INT64(&command, "size", EVENTS_SIZE);
		BSON_APPEND_INT64(&command, "max", EVENTS_MAX);
	}
	ok = call_command(context, "creating a collection", &command, true, &reply, error);
	bson_destroy(&reply);
	bson_destroy(&command);
	if (!ok && error->server_code == CODE_NAMESPACE_EXISTS)
	{
		clear_error(error);
		ok = true;
	}
	return ok;
}

/* Does the collection exist, and is it capped? */
static bool
look_up_collection(MongoContext *context, const char *name, bool *exists, bool *capped,
				   StorageError *error)
{
	bson_t		command = BSON_INITIALIZER;
	bson_t		filter;
	bson_t		reply;
	bson_iter_t root;
	bson_iter_t field;
	bool		ok;

	*exists = *capped = false;
	BSON_APPEND_INT32(&command, "listCollections", 1);
	BSON_APPEND_DOCUMENT_BEGIN(&command, "filter", &filter);
	BSON_APPEND_UTF8(&filter, "name", name);
	bson_append_document_end(&command, &filter);
	ok = call_command(context, "listing collections", &command, false, &reply, error);
	bson_destroy(&command);
	if (ok && bson_iter_init(&root, &reply) &&
		bson_iter_find_descendant(&root, "cursor.firstBatch.0.name", &field))
	{
		*exists = true;
		*capped = bson_iter_init(&root, &reply) &&
			bson_iter_find_descendant(&root, "cursor.firstBatch.0.options.capped", &field) &&
			bson_iter_as_bool(&field);
	}
	bson_destroy(&reply);
	return ok;
}

bool
ensure_collection(MongoContext *context, const char *name, StorageError *error)
{
	bool		exists;
	bool		capped;

	return look_up_collection(context, name, &exists, &capped, error) &&
		(exists || create_collection(context, name, false, error));
}

/* The API's tailable cursor needs it capped, so it must never be made by an insert. */
static bool
ensure_events(MongoContext *context, StorageError *error)
{
	bool		exists;
	bool		capped;

	if (!look_up_collection(context, COLLECTION_EVENTS, &exists, &capped, error))
		return false;
	if (exists && !capped)
	{
		bson_t		command = BSON_INITIALIZER;
		bson_t		reply;
		bool		ok;

		BSON_APPEND_UTF8(&command, "drop", COLLECTION_EVENTS);
		ok = call_command(context, "dropping an uncapped " COLLECTION_EVENTS, &command, true,
						  &reply, error);
		bson_destroy(&reply);
		bson_destroy(&command);
		if (!ok && error->server_code != CODE_NAMESPACE_NOT_FOUND)
			return false;
		clear_error(error);
		exists = false;
	}
	return exists || create_collection(context, COLLECTION_EVENTS, true, error);
}

/* ---------------------------------------------------------------- indexes */

static void
append_index(bson_t *list, const char *position, const IndexSpec *spec)
{
	bson_t		index;
	bson_t		keys;
	bson_t		partial;
	bson_t		exists;

	BSON_APPEND_DOCUMENT_BEGIN(list, position, &index);
	BSON_APPEND_DOCUMENT_BEGIN(&index, "key", &keys);
	for (int i = 0; i < 4 && spec->keys[i].direction != 0; i++)
		BSON_APPEND_INT32(&keys, spec->keys[i].field, spec->keys[i].direction);
	bson_append_document_end(&index, &keys);
	BSON_APPEND_UTF8(&index, "name", spec->name);
	if (spec->unique)
		BSON_APPEND_BOOL(&index, "unique", true);
	if (spec->when_present)
	{
		BSON_APPEND_DOCUMENT_BEGIN(&index, "partialFilterExpression", &partial);
		BSON_APPEND_DOCUMENT_BEGIN(&partial, spec->keys[0].field, &exists);
		BSON_APPEND_BOOL(&exists, "$exists", true);
		bson_append_document_end(&partial, &exists);
		bson_append_document_end(&index, &partial);
	}
	bson_append_document_end(list, &index);
}

/*
 * One index a command: an operator's own index with the same keys or name must
 * not keep the others from being made.
 */
static bool
ensure_indexes(MongoContext *context, StorageError *error)
{
	for (size_t i = 0; i < sizeof(indexes) / sizeof(indexes[0]); i++)
	{
		bson_t		command = BSON_INITIALIZER;
		bson_t		list;
		bson_t		reply;
		bool		ok;

		BSON_APPEND_UTF8(&command, "createIndexes", indexes[i].collection);
		BSON_APPEND_ARRAY_BEGIN(&command, "indexes", &list);
		append_index(&list, "0", &indexes[i]);
		bson_append_array_end(&command, &list);
		ok = call_command(context, "creating an index", &command, true, &reply, error);
		bson_destroy(&reply);
		bson_destroy(&command);
		if (!ok && error->server_code != 85 && error->server_code != 86)
			return false;
		clear_error(error);
	}
	return true;
}

/* ---------------------------------------------------------------- migrations */

static void
build_migrations(bson_t *document)
{
	bson_oid_t	id;
	bson_t		log;
	int64_t		now = unix_time_us() / 1000;

	bson_oid_init_from_string(&id, MIGRATIONS_ID);
	BSON_APPEND_OID(document, "_id", &id);
	BSON_APPEND_UTF8(document, "last_run", migrations[MIGRATION_COUNT - 1]);
	BSON_APPEND_ARRAY_BEGIN(document, "log", &log);
	for (uint32_t i = 0; i < MIGRATION_COUNT; i++)
	{
		const char *position;
		char		digits[12];
		bson_t		entry;

		bson_uint32_to_string(i, &position, digits, sizeof(digits));
		BSON_APPEND_DOCUMENT_BEGIN(&log, position, &entry);
		BSON_APPEND_UTF8(&entry, "name", migrations[i]);
		BSON_APPEND_UTF8(&entry, "direction", "up");
		BSON_APPEND_DATE_TIME(&entry, "timestamp", now);
		bson_append_document_end(&log, &entry);
	}
	bson_append_array_end(document, &log);
}

/*
 * Where no migration has run, says that all have: a later "migrate up" would
 * otherwise stop the served stream (contract 1.2).
 */
static bool
ensure_migrations(MongoContext *context, StorageError *error)
{
	bson_t		filter = BSON_INITIALIZER;
	bson_t		found;
	bool		exists;
	bool		ok;

	ok = call_find_one(context, COLLECTION_MIGRATIONS, &filter, NULL, &found, &exists, error);
	bson_destroy(&found);
	bson_destroy(&filter);
	if (ok && !exists)
	{
		bson_t		document = BSON_INITIALIZER;
		bson_t	   *one = &document;

		build_migrations(&document);
		ok = call_insert(context, COLLECTION_MIGRATIONS, &one, 1, error);
		bson_destroy(&document);
		if (!ok && error->server_code == CODE_DUPLICATE_KEY)
		{
			clear_error(error);
			ok = true;
		}
	}
	return ok;
}

void
storage_prepare(MongoContext *context, void *unused, StorageError *error)
{
	(void) unused;
	if (!check_server(context, error) || !ensure_events(context, error))
		return;
	for (size_t i = 0; i < sizeof(collections) / sizeof(collections[0]); i++)
		if (!create_collection(context, collections[i], false, error))
			return;
	if (ensure_indexes(context, error))
		(void) ensure_migrations(context, error);
}
