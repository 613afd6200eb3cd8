/*-------------------------------------------------------------------------
 *
 * start_xid.c
 *	  The transaction id at which a stream began, kept in its binding.
 *
 * A table created by this transaction or a later one has all its rows in the
 * stream; an older one that comes under the rules later does not.
 *
 *-------------------------------------------------------------------------
 */
#include "mongo/mongo_private.h"

void
storage_store_start_xid(MongoContext *context, void *arg, StorageError *error)
{
	const StorageStartXid *start = arg;
	bson_t		filter = BSON_INITIALIZER;
	bson_t		update = BSON_INITIALIZER;
	bson_t		set;

	BSON_APPEND_INT32(&filter, "_id", start->stream_id);
	BSON_APPEND_DOCUMENT_BEGIN(&update, "$set", &set);
	BSON_APPEND_INT64(&set, "start_xid", (int64_t) start->xid);
	bson_append_document_end(&update, &set);
	(void) call_update(context, COLLECTION_BINDINGS, &filter, &update, false, false, NULL, error);
	bson_destroy(&update);
	bson_destroy(&filter);
}

void
storage_read_start_xid(MongoContext *context, void *arg, StorageError *error)
{
	StorageStartXid *start = arg;
	bson_t		filter = BSON_INITIALIZER;
	bson_t		found;
	bool		exists = false;
	int64_t		xid = 0;

	BSON_APPEND_INT32(&filter, "_id", start->stream_id);
	if (call_find_one(context, COLLECTION_BINDINGS, &filter, NULL, &found, &exists, error) && exists)
		(void) read_integer(&found, "start_xid", &xid);
	start->xid = (uint64_t) xid;
	bson_destroy(&found);
	bson_destroy(&filter);
}
