/*-------------------------------------------------------------------------
 *
 * row_lookup.c
 *	  The stored state of the rows that a flush changes: read before they are
 *	  applied, by key, as many as the memory for it takes.
 *
 * Reads only.  Row copies, which can be large, are asked for only where an
 * incomplete change needs one.
 *
 * Invariant: an entry is loaded only when the storage was asked for all that is
 * wanted of it, and answered.
 *
 *-------------------------------------------------------------------------
 */
#include "mongo/writer_private.h"

static void
build_lookup(const Flush *flush, size_t first, size_t count, bool copies, bson_t *filter)
{
	bson_t		in;
	bson_t		list;
	uint32_t	n = 0;

	BSON_APPEND_DOCUMENT_BEGIN(filter, "_id", &in);
	BSON_APPEND_ARRAY_BEGIN(&in, "$in", &list);
	for (size_t i = first; i < first + count; i++)
	{
		const RowEntry *entry = flush->rows.entries[i];
		const char *position;
		char		digits[12];
		size_t		len;

		if (entry->wanted_copy != copies)
			continue;
		len = bson_uint32_to_string(n++, &position, digits, sizeof(digits));
		bson_append_binary(&list, position, (int) len, BSON_SUBTYPE_BINARY, entry->id.bytes,
						   ROW_ID_LEN);
	}
	bson_append_array_end(&in, &list);
	bson_append_document_end(filter, &in);
}

/* One document into the map; false: out of memory or not ours. */
static bool
store_looked_up(Flush *flush, const bson_t *document, bool ids_only, size_t *bytes)
{
	ArenaGuard	guard;
	volatile bool ok = false;
	RowId		id;
	SyncString	memberships;
	SyncString	copy;
	RowEntry   *entry;

	if (!row_state_document_parts(document, &id, &memberships, &copy))
		return false;
	*bytes += document->len;
	entry = row_map_find(&flush->rows, &id);
	if (entry == NULL)
		return true;
	entry->existed = true;
	entry->partial = row_state_document_partial(document);
	if (ids_only)
		return true;
	arena_guard_push(flush->arena, &guard);
	if (setjmp(guard.jump) == 0)
	{
		entry->stored = row_state_decode((const uint8_t *) memberships.data, memberships.len,
										 flush->arena);
		if (entry->stored != NULL && copy.len > 0)
			entry->stored->row_copy =
				(SyncString) {arena_strndup(flush->arena, copy.data, copy.len), copy.len};
		if (entry->stored != NULL)
		{
			entry->stored->partial = entry->partial;
			entry->stored->round = row_state_document_round(document);
		}
		ok = entry->stored != NULL;
	}
	arena_guard_pop(flush->arena, &guard);
	return ok;
}

/*
 * Reads the states of entries first .. first + count - 1 that do (copies) or do
 * not want the row copy.  *complete false: stopped at the byte limit.
 */
static bool
read_states(Flush *flush, MongoContext *context, size_t first, size_t count, bool copies,
			bool ids_only, size_t *bytes, bool *complete, StorageError *error)
{
	bson_t		filter = BSON_INITIALIZER;
	bson_t		opts = BSON_INITIALIZER;
	bson_t		projection;
	mongoc_cursor_t *cursor;
	const bson_t *document;

	build_lookup(flush, first, count, copies, &filter);
	BSON_APPEND_INT32(&opts, "batchSize", LOOKUP_KEYS + 1);
	if (!copies)
	{
		BSON_APPEND_DOCUMENT_BEGIN(&opts, "projection", &projection);
		BSON_APPEND_INT32(&projection, ids_only ? "p" : "c", ids_only ? 1 : 0);
		bson_append_document_end(&opts, &projection);
	}
	cursor = call_find(context, flush->writer->rows_collection, &filter, &opts);
	while (cursor_next(context, cursor, &document, "reading row state", error))
	{
		if (!store_looked_up(flush, document, ids_only && !copies, bytes))
		{
			storage_error_set(error, STORAGE_INVALID, "a row state document cannot be read");
			break;
		}
		if (*bytes > LOOKUP_BYTES)
		{
			*complete = false;
			break;
		}
	}
	mongoc_cursor_destroy(cursor);
	bson_destroy(&opts);
	bson_destroy(&filter);
	return error->kind == STORAGE_OK;
}

/*
 * One part of the entries, both kinds.  What the byte limit keeps from being
 * read stays unloaded.
 */
static bool
look_up_part(Flush *flush, MongoContext *context, size_t first, size_t count, bool ids_only,
			 size_t *bytes, StorageError *error)
{
	size_t		with_copy = 0;
	bool		complete = true;

	for (size_t i = first; i < first + count; i++)
		with_copy += flush->rows.entries[i]->wanted_copy;
	if (with_copy < count &&
		!read_states(flush, context, first, count, false, ids_only, bytes, &complete, error))
		return false;
	if (complete)
		for (size_t i = first; i < first + count; i++)
			if (!flush->rows.entries[i]->wanted_copy)
				flush->rows.entries[i]->loaded = true;
	if (with_copy > 0 && complete)
	{
		if (!read_states(flush, context, first, count, true, false, bytes, &complete, error))
			return false;
		for (size_t i = first; complete && i < first + count; i++)
			flush->rows.entries[i]->loaded = true;
	}
	/* a row that was written in part has to be moved from there, and has no copy */
	for (size_t i = first; ids_only && i < first + count; i++)
	{
		bool		read = true;

		if (flush->rows.entries[i]->partial && flush->rows.entries[i]->stored == NULL &&
			!read_states(flush, context, i, 1, flush->rows.entries[i]->wanted_copy, false, bytes,
						 &read, error))
			return false;
	}
	/* what was found is known, complete or not */
	for (size_t i = first; i < first + count; i++)
		if (flush->rows.entries[i]->existed)
			flush->rows.entries[i]->loaded = true;
	flush->lookup_cut = !complete;
	return true;
}

bool
look_up_states(Flush *flush, MongoContext *context, bool ids_only, StorageError *error)
{
	size_t		bytes = 0;

	for (size_t first = 0; first < flush->lookup_count && !flush->lookup_cut; first += LOOKUP_KEYS)
	{
		size_t		left = flush->lookup_count - first;

		if (!look_up_part(flush, context, first, left < LOOKUP_KEYS ? left : LOOKUP_KEYS,
						  ids_only, &bytes, error))
			return false;
	}
	return true;
}

/* The states that the flush's first row needs, one by one: they must fit. */
bool
look_up_first_row(Flush *flush, MongoContext *context, StorageError *error)
{
	for (size_t i = 0; i < flush->lookup_count && i < 2; i++)
	{
		size_t		bytes = 0;

		if (!flush->rows.entries[i]->loaded &&
			!look_up_part(flush, context, i, 1, false, &bytes, error))
			return false;
		flush->rows.entries[i]->loaded = true;
	}
	return true;
}
