/*-------------------------------------------------------------------------
 *
 * stream_doc.c
 *	  Documents about streams and source tables, to and from our structures
 *	  (contract 1.1, 6; our own pgsync_streams and pgsync_tables).
 *
 * Only shapes: when they are written is decided elsewhere.
 *
 * Invariant: a document that breaks the contract in a field that decides about
 * positions, state or what the rules are is refused, never repaired.
 *
 *-------------------------------------------------------------------------
 */
#include "mongo/stream_doc.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MAX_TABLES		100000
#define MAX_COLUMNS		1664

static void
copy_text(const bson_t *document, const char *name, char *target, size_t size)
{
	uint32_t	len;
	const char *text = read_text(document, name, &len);

	snprintf(target, size, "%s", text ? text : "");
}

/* ---------------------------------------------------------------- bindings */

void
append_identity(bson_t *document, const SourceIdentity *self)
{
	char		text[24];

	snprintf(text, sizeof(text), "%" PRIu64, self->system_identifier);
	BSON_APPEND_UTF8(document, "system_identifier", text);
	BSON_APPEND_INT64(document, "database_oid", self->database_oid);
	BSON_APPEND_UTF8(document, "database_name", self->database_name);
	BSON_APPEND_INT64(document, "timeline", self->timeline);
	BSON_APPEND_UTF8(document, "host", self->host);
	BSON_APPEND_UTF8(document, "place", self->place);
}

void
binding_decode(const bson_t *document, StreamBinding *binding)
{
	uint32_t	len;
	const char *text = read_text(document, "system_identifier", &len);
	int64_t		number = 0;
	bson_iter_t field;

	memset(binding, 0, sizeof(*binding));
	binding->exists = true;
	binding->identity.system_identifier = text ? strtoull(text, NULL, 10) : 0;
	if (read_integer(document, "database_oid", &number))
		binding->identity.database_oid = (uint32_t) number;
	if (read_integer(document, "timeline", &number))
		binding->identity.timeline = (uint32_t) number;
	if (read_integer(document, "first_timeline", &number))
		binding->first_timeline = (uint32_t) number;
	if (read_integer(document, "lineage", &number))
		binding->lineage = (int32_t) number;
	binding->history_changed = read_bool(document, "history_changed", false) &&
		read_lsn(document, "history_lsn", &binding->history_lsn);
	copy_text(document, "database_name", binding->identity.database_name,
			  sizeof(binding->identity.database_name));
	copy_text(document, "host", binding->identity.host, sizeof(binding->identity.host));
	copy_text(document, "place", binding->identity.place, sizeof(binding->identity.place));
	copy_text(document, "lock_id", binding->lock_id, sizeof(binding->lock_id));
	if (find_field(document, "session", &field) && BSON_ITER_HOLDS_BINARY(&field))
	{
		const uint8_t *bytes;

		bson_iter_binary(&field, NULL, &len, &bytes);
		binding->has_session = len == SESSION_ID_LEN;
		if (binding->has_session)
			memcpy(binding->session, bytes, SESSION_ID_LEN);
	}
}

bool
binding_read(MongoContext *context, int32_t stream_id, StreamBinding *binding,
			 StorageError *error)
{
	bson_t		filter = BSON_INITIALIZER;
	bson_t		found;
	bool		exists;
	bool		ok;

	memset(binding, 0, sizeof(*binding));
	BSON_APPEND_INT32(&filter, "_id", stream_id);
	ok = call_find_one(context, COLLECTION_BINDINGS, &filter, NULL, &found, &exists, error);
	if (exists)
		binding_decode(&found, binding);
	bson_destroy(&found);
	bson_destroy(&filter);
	return ok;
}

bool
binding_matches(const StreamBinding *binding, const SourceIdentity *self)
{
	return binding->exists &&
		binding->identity.system_identifier == self->system_identifier &&
		binding->identity.database_oid == self->database_oid;
}

bool
binding_history_changed(const StreamBinding *binding, uint64_t last_checkpoint_lsn)
{
	return binding->exists && binding->history_changed &&
		binding->history_lsn == last_checkpoint_lsn;
}

void
identity_describe(const SourceIdentity *identity, char text[OWNER_TEXT_SIZE])
{
	const char *host = identity->host;
	size_t		shown = strlen(host);

	if (shown > OWNER_HOST_SIZE)
		shown = character_border(host, OWNER_HOST_SIZE);
	format_text(text, OWNER_TEXT_SIZE,
				"database \"%s\" of the cluster with system identifier %" PRIu64 " (%.*s)",
				identity->database_name, identity->system_identifier, (int) shown, host);
}

/*
 * The setting that names a cluster may have been set, changed or removed since.  An
 * old binding has no place: its host is one, unless the setting was set then.
 */
bool
binding_same_place(const StreamBinding *binding, const SourceIdentity *self)
{
	const char *place = binding->identity.place[0] != '\0' ? binding->identity.place :
		binding->identity.host;

	return binding_matches(binding, self) && self->place[0] != '\0' &&
		strcmp(place, self->place) == 0;
}

/*
 * The same place: whatever ran there before has ended, also when it was the
 * standby that this server was before its promotion, or the primary before that.
 */
bool
binding_is_predecessor(const StreamBinding *binding, const SourceIdentity *self)
{
	return binding_matches(binding, self) &&
		binding->identity.timeline <= self->timeline &&
		strcmp(binding->identity.host, self->host) == 0;
}

/* ---------------------------------------------------------------- sync_rules */

bool
stream_document_read(MongoContext *context, int32_t stream_id, bson_t *document, bool *exists,
					 StorageError *error)
{
	bson_t		filter = BSON_INITIALIZER;
	bool		ok;

	BSON_APPEND_INT32(&filter, "_id", stream_id);
	ok = call_find_one(context, COLLECTION_STREAMS, &filter, NULL, document, exists, error);
	bson_destroy(&filter);
	return ok;
}

StreamState
stream_document_state(const bson_t *document)
{
	uint32_t	len;

	return stream_state_parse(read_text(document, "state", &len));
}

void
stream_document_slot(const bson_t *document, int32_t stream_id,
					 char slot_name[STREAM_SLOT_NAME_LEN])
{
	uint32_t	len;
	const char *text = read_text(document, "slot_name", &len);

	if (text != NULL && len > 0 && len < STREAM_SLOT_NAME_LEN && strlen(text) == len)
		memcpy(slot_name, text, len + 1);
	else
		snprintf(slot_name, STREAM_SLOT_NAME_LEN, "powersync_%d", (int) stream_id);
}

void
stream_document_lock(const bson_t *document, char lock_id[LOCK_ID_LEN + 1], int64_t *expires_ms)
{
	bson_iter_t root;
	bson_iter_t field;

	lock_id[0] = '\0';
	*expires_ms = 0;
	if (bson_iter_init(&root, document) &&
		bson_iter_find_descendant(&root, "lock.id", &field) && BSON_ITER_HOLDS_UTF8(&field))
		snprintf(lock_id, LOCK_ID_LEN + 1, "%s", bson_iter_utf8(&field, NULL));
	if (bson_iter_init(&root, document) &&
		bson_iter_find_descendant(&root, "lock.expires_at", &field) &&
		BSON_ITER_HOLDS_DATE_TIME(&field))
		*expires_ms = bson_iter_date_time(&field);
}

static bool
null_or_missing(const bson_t *document, const char *name)
{
	bson_iter_t field;

	return !find_field(document, name, &field) || BSON_ITER_HOLDS_NULL(&field);
}

bool
stream_document_untouched(const bson_t *document)
{
	return stream_document_state(document) == STREAM_PROCESSING &&
		!read_bool(document, "snapshot_done", false) &&
		null_or_missing(document, "snapshot_lsn") &&
		null_or_missing(document, "last_checkpoint") &&
		null_or_missing(document, "last_checkpoint_lsn") &&
		null_or_missing(document, "keepalive_op");
}

/* decimal text of an op id, or -1 */
static bool
read_keepalive_op(const bson_t *document, int64_t *op)
{
	uint32_t	len;
	const char *text;
	char	   *end;

	*op = -1;
	if (null_or_missing(document, "keepalive_op"))
		return true;
	text = read_text(document, "keepalive_op", &len);
	if (text == NULL || len == 0 || len > 19 || strspn(text, "0123456789") != len)
		return false;
	*op = strtoll(text, &end, 10);
	return *end == '\0';
}

/* Positions and state: nothing here allocates. */
static bool
decode_positions(const bson_t *document, StreamDoc *stream)
{
	int64_t		number;

	stream->state = stream_document_state(document);
	stream->storage_version = 1;
	if (!null_or_missing(document, "storage_version"))
	{
		if (!read_integer(document, "storage_version", &number))
			return false;
		stream->storage_version = (int32_t) number;
	}
	stream_document_slot(document, stream->id, stream->slot_name);
	stream->snapshot_done = read_bool(document, "snapshot_done", false);
	stream->last_checkpoint = -1;
	if (!null_or_missing(document, "last_checkpoint") &&
		(!read_integer(document, "last_checkpoint", &stream->last_checkpoint) ||
		 stream->last_checkpoint < 0))
		return false;
	return read_lsn(document, "snapshot_lsn", &stream->snapshot_lsn) &&
		read_lsn(document, "last_checkpoint_lsn", &stream->last_checkpoint_lsn) &&
		read_lsn(document, "no_checkpoint_before", &stream->no_checkpoint_before) &&
		read_keepalive_op(document, &stream->keepalive_op);
}

/* The texts into the stream's arena; plan may be NULL. */
static bool
copy_texts(StreamDoc *stream, const char *content, size_t content_len, const bson_iter_t *plan,
		   StorageError *error)
{
	ArenaGuard	guard;

	arena_guard_push(stream->arena, &guard);
	if (setjmp(guard.jump) == 0)
	{
		stream->content = arena_strndup(stream->arena, content, content_len);
		if (plan != NULL && (stream->serialized_plan = plan_json_text(plan, stream->arena)) == NULL)
			storage_error_set(error, STORAGE_INVALID,
							  "the stored plan of replication stream %d holds what a plan cannot",
							  (int) stream->id);
	}
	else
		storage_error_set(error, STORAGE_SERVER, "out of memory");
	arena_guard_pop(stream->arena, &guard);
	return error->kind == STORAGE_OK;
}

bool
stream_document_plan(const bson_t *document, int32_t stream_id, bson_iter_t *plan, bool *has_plan,
					 StorageError *error)
{
	*has_plan = !null_or_missing(document, "serialized_plan");
	if (!*has_plan)
		return true;
	if (find_field(document, "serialized_plan", plan) && BSON_ITER_HOLDS_DOCUMENT(plan))
		return true;
	storage_error_set(error, STORAGE_INVALID,
					  "the stored plan of replication stream %d is not a document", (int) stream_id);
	return false;
}

bool
stream_document_decode(const bson_t *document, StreamDoc *stream, StorageError *error)
{
	bson_iter_t field;
	uint32_t	len = 0;
	const char *content;
	bool		has_plan;

	if (!decode_positions(document, stream))
	{
		storage_error_set(error, STORAGE_INVALID,
						  "the document of replication stream %d has a position or storage version that is not one",
						  (int) stream->id);
		return false;
	}
	content = read_text(document, "content", &len);
	if (content == NULL && stream->storage_version <= 2)
	{
		storage_error_set(error, STORAGE_INVALID,
						  "the document of replication stream %d has no sync config",
						  (int) stream->id);
		return false;
	}
	if (!stream_document_plan(document, stream->id, &field, &has_plan, error))
		return false;
	return copy_texts(stream, content ? content : "", content ? len : 0,
					  has_plan ? &field : NULL, error);
}

/* ---------------------------------------------------------------- tables */

/* [{name, type, type_oid}, ...]; in the arena's guard */
static bool
decode_identity(const bson_t *document, SourceTableDoc *table, SyncArena *arena)
{
	bson_iter_t field;
	bson_iter_t list;
	int			count = 0;

	if (!find_field(document, "replica_id_columns2", &field) ||
		!BSON_ITER_HOLDS_ARRAY(&field) || !bson_iter_recurse(&field, &list))
		return true;
	while (bson_iter_next(&list))
		count++;
	if (count > MAX_COLUMNS || !bson_iter_recurse(&field, &list))
		return false;
	table->identity_names = arena_array(arena, char *, (size_t) count);
	table->identity_types = arena_array(arena, uint32_t, (size_t) count);
	while (bson_iter_next(&list))
	{
		const uint8_t *data;
		uint32_t	size;
		uint32_t	len;
		bson_t		view;
		const char *name;
		int64_t		type = 0;

		if (!BSON_ITER_HOLDS_DOCUMENT(&list))
			return false;
		bson_iter_document(&list, &size, &data);
		if (!bson_init_static(&view, data, size) ||
			(name = read_text(&view, "name", &len)) == NULL)
			return false;
		(void) read_integer(&view, "type_oid", &type);
		table->identity_names[table->identity_count] = arena_strndup(arena, name, len);
		table->identity_types[table->identity_count++] = (uint32_t) type;
	}
	return true;
}

static bool
decode_table(const bson_t *document, SourceTableDoc *table, SyncArena *arena)
{
	ArenaGuard	guard;
	volatile bool ok = false;

	arena_guard_push(arena, &guard);
	if (setjmp(guard.jump) == 0)
	{
		uint32_t	schema_len = 0;
		uint32_t	name_len = 0;
		const char *schema = read_text(document, "schema_name", &schema_len);
		const char *name = read_text(document, "table_name", &name_len);
		int64_t		relation = 0;

		ok = read_source_table_id(document, "_id", &table->id) && schema != NULL &&
			name != NULL && read_integer(document, "relation_id", &relation) &&
			decode_identity(document, table, arena);
		table->relation_id = (uint32_t) relation;
		table->schema = arena_strndup(arena, schema ? schema : "", schema_len);
		table->name = arena_strndup(arena, name ? name : "", name_len);
		/* contract 6: missing counts as done */
		table->snapshot_done = read_bool(document, "snapshot_done", true);
		table->rows_estimated = -1;
	}
	arena_guard_pop(arena, &guard);
	return ok;
}

/* Copy progress of ours, for the table it belongs to. */
static bool
decode_progress(const bson_t *document, SourceTableDoc *table, SyncArena *arena)
{
	ArenaGuard	guard;
	volatile bool ok = false;

	arena_guard_push(arena, &guard);
	if (setjmp(guard.jump) == 0)
	{
		uint32_t	len;
		const char *signature = read_text(document, "signature", &len);
		int64_t		number;

		if (read_integer(document, "relfilenode", &number))
			table->relfilenode = (uint32_t) number;
		if (read_integer(document, "next_tid", &number))
			table->next_tid = (uint64_t) number;
		(void) read_integer(document, "rows_copied", &table->rows_copied);
		(void) read_integer(document, "rows_estimated", &table->rows_estimated);
		table->copied_in_stream = read_bool(document, "copied_in_stream", false);
		table->stale = read_bool(document, "stale", false);
		(void) read_integer(document, "copy_round", &table->copy_round);
		table->ignored_changes = read_bool(document, "ignored_changes", false);
		table->replaced = read_source_table_id(document, "replaced_by", &table->replaced_by);
		if (signature != NULL)
			table->signature = arena_strndup(arena, signature, len);
		ok = read_lsn(document, "fence", &table->fence) &&
			read_lsn(document, "signature_lsn", &table->signature_lsn);
	}
	arena_guard_pop(arena, &guard);
	return ok;
}

static bool
grow_tables(StreamDoc *stream, int *capacity)
{
	ArenaGuard	guard;
	volatile bool ok = false;

	if (stream->table_count < *capacity)
		return true;
	if (stream->table_count >= MAX_TABLES)
		return false;
	arena_guard_push(stream->arena, &guard);
	if (setjmp(guard.jump) == 0)
	{
		int			more = *capacity ? *capacity * 2 : 64;
		SourceTableDoc *tables = arena_array(stream->arena, SourceTableDoc, (size_t) more);

		if (stream->table_count > 0)
			memcpy(tables, stream->tables, sizeof(*tables) * (size_t) stream->table_count);
		stream->tables = tables;
		*capacity = more;
		ok = true;
	}
	arena_guard_pop(stream->arena, &guard);
	return ok;
}

static SourceTableDoc *
find_table(StreamDoc *stream, const SourceTableId *id)
{
	for (int i = 0; i < stream->table_count; i++)
		if (memcmp(&stream->tables[i].id, id, sizeof(*id)) == 0)
			return &stream->tables[i];
	return NULL;
}

static void
set_table_error(StorageError *error, const StreamDoc *stream)
{
	storage_error_set(error, STORAGE_INVALID,
					  "a source_tables document of replication stream %d cannot be read",
					  (int) stream->id);
}

static bool
read_source_tables(MongoContext *context, StreamDoc *stream, StorageError *error)
{
	bson_t		filter = BSON_INITIALIZER;
	mongoc_cursor_t *cursor;
	const bson_t *document;
	int			capacity = 0;

	BSON_APPEND_INT32(&filter, "group_id", stream->id);
	cursor = call_find(context, COLLECTION_TABLES, &filter, NULL);
	while (cursor_next(context, cursor, &document, "reading source tables", error))
	{
		if (!grow_tables(stream, &capacity) ||
			!decode_table(document, &stream->tables[stream->table_count], stream->arena))
		{
			set_table_error(error, stream);
			break;
		}
		stream->table_count++;
	}
	mongoc_cursor_destroy(cursor);
	bson_destroy(&filter);
	return error->kind == STORAGE_OK;
}

static bool
read_progress(MongoContext *context, StreamDoc *stream, StorageError *error)
{
	bson_t		filter = BSON_INITIALIZER;
	mongoc_cursor_t *cursor;
	const bson_t *document;

	BSON_APPEND_INT32(&filter, "group_id", stream->id);
	cursor = call_find(context, COLLECTION_PROGRESS, &filter, NULL);
	while (cursor_next(context, cursor, &document, "reading copy progress", error))
	{
		SourceTableId id;
		SourceTableDoc *table = NULL;

		if (read_source_table_id(document, "_id", &id))
			table = find_table(stream, &id);
		if (table != NULL && !decode_progress(document, table, stream->arena))
		{
			set_table_error(error, stream);
			break;
		}
	}
	mongoc_cursor_destroy(cursor);
	bson_destroy(&filter);
	return error->kind == STORAGE_OK;
}

bool
stream_tables_read(MongoContext *context, StreamDoc *stream, StorageError *error)
{
	return read_source_tables(context, stream, error) && read_progress(context, stream, error);
}

/* Does the collection hold any document that filter matches? */
static bool
any_document(MongoContext *context, const char *collection, const bson_t *filter, bool *any,
			 StorageError *error)
{
	bson_t		projection = BSON_INITIALIZER;
	bson_t		found;
	bool		ok;

	BSON_APPEND_INT32(&projection, "_id", 1);
	ok = call_find_one(context, collection, filter, &projection, &found, any, error);
	bson_destroy(&found);
	bson_destroy(&projection);
	return ok;
}

/*
 * An op without a bucket_state document cannot be (contract 4.1), so the
 * large collections are not searched.
 */
bool
stream_has_data(MongoContext *context, StreamDoc *stream, StorageError *error)
{
	bson_t		all = BSON_INITIALIZER;
	bson_t		buckets = BSON_INITIALIZER;
	bson_t		range;
	bson_t		bound;
	char		name[COLLECTION_NAME_SIZE];
	bool		any = stream->table_count > 0;
	bool		ok = true;

	if (!any)
	{
		stream_collection_name(name, COLLECTION_ROW_STATE, stream->id);
		ok = any_document(context, name, &all, &any, error);
	}
	if (ok && !any)
	{
		BSON_APPEND_DOCUMENT_BEGIN(&buckets, "_id", &range);
		BSON_APPEND_DOCUMENT_BEGIN(&range, "$gte", &bound);
		BSON_APPEND_INT32(&bound, "g", stream->id);
		BSON_APPEND_MINKEY(&bound, "b");
		bson_append_document_end(&range, &bound);
		BSON_APPEND_DOCUMENT_BEGIN(&range, "$lt", &bound);
		BSON_APPEND_INT32(&bound, "g", stream->id);
		BSON_APPEND_MAXKEY(&bound, "b");
		bson_append_document_end(&range, &bound);
		bson_append_document_end(&buckets, &range);
		ok = any_document(context, COLLECTION_BUCKETS, &buckets, &any, error);
	}
	stream->has_data = any;
	bson_destroy(&buckets);
	bson_destroy(&all);
	return ok;
}

/* an oid as the service writes it: int32 where it fits */
static void
append_oid_number(bson_t *document, const char *name, uint32_t oid)
{
	if (oid <= INT32_MAX)
		BSON_APPEND_INT32(document, name, (int32_t) oid);
	else
		BSON_APPEND_INT64(document, name, oid);
}

void
source_table_document(const SourceTableDoc *table, int32_t stream_id, bson_t *document)
{
	bson_t		list;
	bson_t		column;
	bson_t		status;

	append_source_table_id(document, "_id", &table->id);
	BSON_APPEND_INT32(document, "group_id", stream_id);
	BSON_APPEND_INT32(document, "connection_id", 1);
	append_oid_number(document, "relation_id", table->relation_id);
	BSON_APPEND_UTF8(document, "schema_name", table->schema);
	BSON_APPEND_UTF8(document, "table_name", table->name);
	BSON_APPEND_NULL(document, "replica_id_columns");
	BSON_APPEND_ARRAY_BEGIN(document, "replica_id_columns2", &list);
	for (int i = 0; i < table->identity_count; i++)
	{
		const char *position;
		char		digits[12];

		bson_uint32_to_string((uint32_t) i, &position, digits, sizeof(digits));
		BSON_APPEND_DOCUMENT_BEGIN(&list, position, &column);
		BSON_APPEND_UTF8(&column, "name", table->identity_names[i]);
		BSON_APPEND_NULL(&column, "type");
		append_oid_number(&column, "type_oid", table->identity_types[i]);
		bson_append_document_end(&list, &column);
	}
	bson_append_array_end(document, &list);
	BSON_APPEND_BOOL(document, "snapshot_done", table->snapshot_done);
	/* contract 6: unset when done, null before the first chunk */
	if (!table->snapshot_done && table->relfilenode == 0)
		BSON_APPEND_NULL(document, "snapshot_status");
	else if (!table->snapshot_done)
	{
		BSON_APPEND_DOCUMENT_BEGIN(document, "snapshot_status", &status);
		BSON_APPEND_NULL(&status, "last_key");	/* ours is a TID, kept apart */
		append_count(&status, "total_estimated_count", table->rows_estimated);
		append_count(&status, "replicated_count", table->rows_copied);
		bson_append_document_end(document, &status);
	}
	BSON_APPEND_NULL(document, "source_metadata");
}

void
table_progress_document(const SourceTableDoc *table, int32_t stream_id, bson_t *document)
{
	append_source_table_id(document, "_id", &table->id);
	BSON_APPEND_INT32(document, "group_id", stream_id);
	BSON_APPEND_INT64(document, "relfilenode", table->relfilenode);
	if (table->signature != NULL)
		BSON_APPEND_UTF8(document, "signature", table->signature);
	else
		BSON_APPEND_NULL(document, "signature");
	BSON_APPEND_INT64(document, "next_tid", (int64_t) table->next_tid);
	BSON_APPEND_INT64(document, "rows_copied", table->rows_copied);
	BSON_APPEND_INT64(document, "rows_estimated", table->rows_estimated);
	append_lsn_or_null(document, "fence", table->fence);
	BSON_APPEND_BOOL(document, "copied_in_stream", table->copied_in_stream);
	BSON_APPEND_BOOL(document, "stale", table->stale);
	append_count(document, "copy_round", table->copy_round);
	append_lsn_or_null(document, "signature_lsn", table->signature_lsn);
	BSON_APPEND_BOOL(document, "ignored_changes", table->ignored_changes);
	if (table->replaced)
		append_source_table_id(document, "replaced_by", &table->replaced_by);
}
