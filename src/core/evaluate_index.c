/*-------------------------------------------------------------------------
 *
 * evaluate_index.c
 *	  Parameter rows: what is stored under which lookup for a row of a table.
 *
 * Invariant: as for buckets, an index that fails leaves nothing but its error.
 * (In the service the subqueries of alpha streams are not so well protected:
 * there, a row that one of them cannot evaluate stops replication.)
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "bson_bytes.h"
#include "evaluate.h"
#include "keyed_hash.h"

/*
 * The array of one document with the index's columns: blobs and undefined are
 * left out; *whole: none was a blob.
 */
static bool
parameter_rows(Evaluation *evaluation, const BoundSource *source, SyncString *rows, bool *whole)
{
	SyncBuffer	buffer;
	size_t		array;
	size_t		document;

	if (!checks_evaluate(evaluation, source))
		return false;
	buffer_init(&buffer, evaluation->context.arena, 64);
	array = bson_begin(&buffer);
	document = bson_begin_document(&buffer, sync_string_literal("0"));
	for (int i = 0; i < source->field_count; i++)
	{
		SyncValue	value;

		if (!field_value(evaluation, &source->fields[i], &value))
			return false;
		if (value.type == SYNC_BLOB)
			*whole = false;
		else
			bson_append_value(&buffer, source->fields[i].name, value);
	}
	bson_end(&buffer, document);
	bson_end(&buffer, array);
	*rows = buffer_string(&buffer);
	return true;
}

static ParameterRow *
add_parameter_row(Evaluation *evaluation)
{
	EvaluatedRow *result = evaluation->result;

	if (result->parameter_row_count == evaluation->parameter_capacity)
	{
		int			capacity = evaluation->parameter_capacity * 2 + evaluation->binding->index_count;

		result->parameter_rows = arena_grow(evaluation->context.arena, result->parameter_rows,
											sizeof(ParameterRow) *
											(size_t) evaluation->parameter_capacity,
											sizeof(ParameterRow) * (size_t) capacity);
		evaluation->parameter_capacity = capacity;
	}
	return &result->parameter_rows[result->parameter_row_count++];
}

static void
emit_parameter_row(Evaluation *evaluation, const BoundIndex *index, const SyncValue *keys,
				   SyncString rows)
{
	*add_parameter_row(evaluation) = (ParameterRow) {
		.lookup = bson_lookup(index->lookup_name, index->query_id, keys, index->source.key_count,
							  evaluation->context.arena),
		.rows = rows,
	};
}

/* ---------------------------------------------------------------- legacy and alpha */

static void
legacy_index_evaluate(Evaluation *evaluation, const BoundIndex *index)
{
	const BoundSource *source = &index->source;
	KeySets		keys = {0};
	SyncString	rows = {NULL, 0};
	bool		whole = true;

	/* a stream's subquery is asked for its value first: without one, or if it fails, for no more */
	if (source->rules == SOURCE_ALPHA)
	{
		if (!parameter_rows(evaluation, source, &rows, &whole))
		{
			record_error(evaluation, NULL, index);
			return;
		}
		if (!whole)
			return;
	}
	if (!keys_evaluate(evaluation, source, &keys) ||
		(source->rules != SOURCE_ALPHA && keys.set_count > 0 &&
		 !parameter_rows(evaluation, source, &rows, &whole)))
	{
		record_error(evaluation, NULL, index);
		return;
	}
	for (int s = 0; s < keys.set_count; s++)
		emit_parameter_row(evaluation, index, key_set(&keys, s, source->key_count), rows);
}

/* ---------------------------------------------------------------- compiled */

/* the rows of one entry: those of the combinations with these keys */
typedef struct IndexEntry
{
	const SyncValue *keys;
	uint32_t	hash;
	uint32_t	row_count;
	SyncBuffer	rows;			/* an open BSON array */
	size_t		mark;
} IndexEntry;

/* entries in the order in which they were first seen, found by hash of their keys */
typedef struct IndexEntries
{
	int			count;
	int			capacity;
	IndexEntry *entries;
	int			slot_count;		/* a power of two, at least twice capacity */
	int		   *slots;			/* index of an entry + 1, or 0 */
	HashKey		key;
} IndexEntries;

/* values that value_identical() calls the same have the same hash */
static uint32_t
hash_keys(const HashKey *key, const SyncValue *keys, int count)
{
	uint64_t	hash = 0;

	for (int i = 0; i < count; i++)
	{
		double		real = keys[i].type == SYNC_REAL ? keys[i].real : 0;
		uint64_t	part = keys[i].type;

		if (keys[i].type == SYNC_INTEGER)
			part += keyed_hash(key, &keys[i].integer, sizeof(keys[i].integer));
		else if (keys[i].type != SYNC_REAL)
			part += keyed_hash(key, keys[i].data, keys[i].len);
		else if (real == real && real != 0)
			part += keyed_hash(key, &real, sizeof(real));
		hash = (hash << 5 | hash >> 59) ^ part;
	}
	return (uint32_t) hash;
}

static bool
keys_identical(const SyncValue *a, const SyncValue *b, int count)
{
	for (int i = 0; i < count; i++)
	{
		if (!value_identical(a[i], b[i]))
			return false;
	}
	return true;
}

static void
entries_put_slot(IndexEntries *list, int entry)
{
	uint32_t	mask = (uint32_t) list->slot_count - 1;
	uint32_t	at = list->entries[entry].hash & mask;

	while (list->slots[at] != 0)
		at = (at + 1) & mask;
	list->slots[at] = entry + 1;
}

static void
entries_grow(IndexEntries *list, SyncArena *arena)
{
	int			capacity = list->capacity == 0 ? 4 : list->capacity * 2;

	list->entries = arena_grow(arena, list->entries, sizeof(IndexEntry) * (size_t) list->capacity,
							   sizeof(IndexEntry) * (size_t) capacity);
	list->capacity = capacity;
	list->slot_count = capacity * 2;
	list->slots = arena_array(arena, int, (size_t) list->slot_count);
	for (int i = 0; i < list->count; i++)
		entries_put_slot(list, i);
}

static IndexEntry *
entries_find(IndexEntries *list, const SyncValue *keys, int key_count, SyncArena *arena)
{
	uint32_t	hash;
	IndexEntry *entry;

	if (list->capacity == 0)
		list->key = hash_key_make(arena);
	hash = hash_keys(&list->key, keys, key_count);
	if (list->count == list->capacity)
		entries_grow(list, arena);
	for (uint32_t at = hash & ((uint32_t) list->slot_count - 1); list->slots[at] != 0;
		 at = (at + 1) & ((uint32_t) list->slot_count - 1))
	{
		entry = &list->entries[list->slots[at] - 1];
		if (entry->hash == hash && keys_identical(entry->keys, keys, key_count))
			return entry;
	}
	entry = &list->entries[list->count++];
	*entry = (IndexEntry) {.keys = keys, .hash = hash};
	buffer_init(&entry->rows, arena, 64);
	entry->mark = bson_begin(&entry->rows);
	entries_put_slot(list, list->count - 1);
	return entry;
}

/* sync-rules.md, 7.3: a row with a missing output or key, or a blob, is left out */
static bool
index_combination(Evaluation *evaluation, const BoundSource *source, void *arg)
{
	SyncArena  *arena = evaluation->context.arena;
	SyncValue  *outputs = arena_array(arena, SyncValue, (size_t) source->field_count);
	KeySets		keys = {0};
	BsonIndexName name;
	IndexEntry *entry;
	size_t		document;
	bool		holds;
	bool		complete = true;

	if (!conditions_evaluate(evaluation, source, &holds))
		return false;
	if (!holds)
		return true;
	for (int i = 0; i < source->field_count; i++)
	{
		if (!field_value(evaluation, &source->fields[i], &outputs[i]))
			return false;
		complete &= !value_is_null(outputs[i]) && outputs[i].type != SYNC_BLOB;
	}
	if (!values_evaluate(evaluation, source, &keys, &holds))
		return false;
	if (!holds || !complete)
		return true;
	entry = entries_find(arg, keys.values, source->key_count, arena);
	document = bson_begin_document(&entry->rows, bson_index_name(&name, entry->row_count++));
	for (int i = 0; i < source->field_count; i++)
		bson_append_value(&entry->rows, source->fields[i].name, outputs[i]);
	bson_end(&entry->rows, document);
	return true;
}

static void
compiled_index_evaluate(Evaluation *evaluation, const BoundIndex *index)
{
	IndexEntries list = {0};

	if (!for_each_combination(evaluation, &index->source, index_combination, &list))
	{
		record_error(evaluation, NULL, index);
		return;
	}
	for (int i = 0; i < list.count; i++)
	{
		bson_end(&list.entries[i].rows, list.entries[i].mark);
		emit_parameter_row(evaluation, index, list.entries[i].keys,
						   buffer_string(&list.entries[i].rows));
	}
}

void
index_evaluate(Evaluation *evaluation, const BoundIndex *index)
{
	if (index->source.rules == SOURCE_COMPILED)
		compiled_index_evaluate(evaluation, index);
	else
		legacy_index_evaluate(evaluation, index);
}
