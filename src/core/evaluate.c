/*-------------------------------------------------------------------------
 *
 * evaluate.c
 *	  Runs a binding on a row: bucket rows and parameter rows.
 *
 * What an expression means is in expr.c; which columns and names a query uses
 * was settled by bind.c.
 *
 * Invariant: a query that fails leaves nothing in the result but its error;
 * nothing in the result points into the row's values.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "binding.h"
#include "bson_bytes.h"
#include "json.h"
#include "number.h"
#include "text.h"

/* combinations of one query on one row: bounds what AND over ORs can multiply to */
#define MAX_SETS	100000

/* key values of one row: set_count times key_count values */
typedef struct KeySets
{
	int			set_count;
	SyncValue  *values;			/* undefined: the set has no such key */
} KeySets;

/* one set; NULL without keys */
static const SyncValue *
key_set(const KeySets *keys, int set, int key_count)
{
	return key_count == 0 ? NULL : keys->values + (size_t) set * (size_t) key_count;
}

/* what a bucket source made of the row */
typedef struct SourceResult
{
	bool		done;
	KeySets		keys;			/* empty also when the source failed */
	SyncString	json;
	SyncString	row_id;
	uint32_t	json_utf16_len;
	uint32_t	checksum;
} SourceResult;

typedef struct Evaluation
{
	const TableBinding *binding;
	ExprContext context;
	SyncError	error;
	EvaluatedRow *result;
	int			bucket_capacity;
	int			parameter_capacity;
} Evaluation;

/* ---------------------------------------------------------------- match */

/* a set in the making: pairs in the order in which they were put in */
typedef struct MatchSet
{
	int			count;
	int		   *keys;
	SyncValue  *values;
} MatchSet;

typedef struct MatchList
{
	int			count;
	int			capacity;
	MatchSet   *sets;
} MatchList;

static bool
list_append(Evaluation *evaluation, MatchList *list, MatchSet set)
{
	if (list->count == list->capacity)
	{
		int			capacity = list->capacity == 0 ? 4 : list->capacity * 2;

		if (list->count >= MAX_SETS)
		{
			sync_error_set(&evaluation->error, SYNC_ERROR_LIMIT,
						   "the row is in more than %d combinations of one query", MAX_SETS);
			return false;
		}
		list->sets = arena_grow(evaluation->context.arena, list->sets,
								sizeof(MatchSet) * (size_t) list->capacity,
								sizeof(MatchSet) * (size_t) capacity);
		list->capacity = capacity;
	}
	list->sets[list->count++] = set;
	return true;
}

static MatchSet
set_single(Evaluation *evaluation, int key, SyncValue value)
{
	MatchSet	set = {.count = 1};

	set.keys = arena_new(evaluation->context.arena, int);
	set.values = arena_new(evaluation->context.arena, SyncValue);
	*set.keys = key;
	*set.values = value;
	return set;
}

/*
 * The left set, and the right one's values in order up to the first that
 * contradicts the left one: the service meant to drop such a set but does not
 * (sync-rules.md, 3.3).
 */
static MatchSet
set_combine(Evaluation *evaluation, const MatchSet *left, const MatchSet *right)
{
	SyncArena  *arena = evaluation->context.arena;
	MatchSet	set = *left;

	if (right->count == 0)
		return set;
	set.keys = arena_array(arena, int, (size_t) (left->count + right->count));
	set.values = arena_array(arena, SyncValue, (size_t) (left->count + right->count));
	if (left->count > 0)
	{
		memcpy(set.keys, left->keys, sizeof(int) * (size_t) left->count);
		memcpy(set.values, left->values, sizeof(SyncValue) * (size_t) left->count);
	}
	for (int i = 0; i < right->count; i++)
	{
		int			at = 0;

		while (at < set.count && set.keys[at] != right->keys[i])
			at++;
		if (at < set.count && !value_loosely_equal(set.values[at], right->values[i]))
			break;
		set.keys[at] = right->keys[i];
		set.values[at] = right->values[i];
		if (at == set.count)
			set.count++;
	}
	return set;
}

static bool match_evaluate(Evaluation *evaluation, const PlanMatch *match, MatchList *list);

static bool
match_and(Evaluation *evaluation, const PlanMatch *match, MatchList *list)
{
	MatchList	sets = {0};

	/* all are evaluated: a failing one fails the row even where another is false */
	for (int i = 0; i < match->child_count; i++)
	{
		MatchList	right = {0};
		MatchList	both = {0};

		if (!match_evaluate(evaluation, match->children[i], &right))
			return false;
		if (i == 0)
		{
			sets = right;
			continue;
		}
		for (int l = 0; l < sets.count; l++)
		{
			for (int r = 0; r < right.count; r++)
			{
				if (!list_append(evaluation, &both,
								 set_combine(evaluation, &sets.sets[l], &right.sets[r])))
					return false;
			}
		}
		sets = both;
	}
	*list = sets;
	return true;
}

static bool
match_or(Evaluation *evaluation, const PlanMatch *match, MatchList *list)
{
	for (int i = 0; i < match->child_count; i++)
	{
		MatchList	sets = {0};

		if (!match_evaluate(evaluation, match->children[i], &sets))
			return false;
		for (int s = 0; s < sets.count; s++)
		{
			if (!list_append(evaluation, list, sets.sets[s]))
				return false;
		}
	}
	return true;
}

/* param IN row: one set for each element, as it is (sync-rules.md, 3.3) */
static bool
match_elements(Evaluation *evaluation, const PlanMatch *match, SyncValue value, MatchList *list)
{
	SyncArena  *arena = evaluation->context.arena;
	const JsonNode *array = NULL;

	if (value_is_null(value))
		return true;
	if (value.type == SYNC_TEXT)
	{
		array = json_parse((SyncString) {value.data, value.len}, JSON_NUMBERS_PLAIN, arena,
						   &evaluation->error);
		if (array == NULL)
			return false;
	}
	if (array == NULL || array->kind != JSON_ARRAY)
	{
		sync_error_set(&evaluation->error, SYNC_ERROR_VALUE,
					   "IN needs a JSON array on its right side");
		return false;
	}
	for (const JsonNode *element = array->first; element != NULL; element = element->next)
	{
		if (!list_append(evaluation, list,
						 set_single(evaluation, match->key, json_node_raw_value(element, arena))))
			return false;
	}
	return true;
}

/* whether a row's value can stand for a key */
static bool
key_value_counts(MatchKind kind, SyncValue value)
{
	if (value.type == SYNC_BLOB)
		return false;
	return kind == MATCH_VALUE || !value_is_null(value);
}

/* appends the match's sets to list, which is empty */
static bool
match_evaluate(Evaluation *evaluation, const PlanMatch *match, MatchList *list)
{
	SyncValue	value;

	if (match->kind == MATCH_AND)
		return match_and(evaluation, match, list);
	if (match->kind == MATCH_OR)
		return match_or(evaluation, match, list);
	if (!expr_evaluate(match->expr, &evaluation->context, &value))
		return false;
	switch (match->kind)
	{
		case MATCH_CONDITION:
			if (!value_is_true(value))
				return true;
			return list_append(evaluation, list, (MatchSet) {0});
		case MATCH_ELEMENTS:
			return match_elements(evaluation, match, value, list);
		default:
			if (!key_value_counts(match->kind, value))
				return true;
			return list_append(evaluation, list, set_single(evaluation, match->key, value));
	}
}

static bool
keys_of_match(Evaluation *evaluation, const BoundSource *source, KeySets *keys)
{
	MatchList	list = {0};

	if (!match_evaluate(evaluation, source->match, &list))
		return false;
	keys->set_count = list.count;
	keys->values = arena_array(evaluation->context.arena, SyncValue,
							   (size_t) list.count * (size_t) source->key_count);
	for (int s = 0; s < list.count; s++)
	{
		SyncValue  *values = keys->values + (size_t) s * (size_t) source->key_count;

		for (int i = 0; i < list.sets[s].count; i++)
			values[list.sets[s].keys[i]] = list.sets[s].values[i];
	}
	return true;
}

/* the sets of a source's WHERE for this row; all terms are evaluated */
static bool
keys_evaluate(Evaluation *evaluation, const BoundSource *source, KeySets *keys)
{
	bool		matches = true;
	SyncValue	value;

	if (source->match != NULL)
		return keys_of_match(evaluation, source, keys);
	for (int i = 0; i < source->condition_count; i++)
	{
		if (!expr_evaluate(source->conditions[i], &evaluation->context, &value))
			return false;
		matches = value_is_true(value) && matches;
	}
	if (source->key_count > 0)
		keys->values = arena_array(evaluation->context.arena, SyncValue,
								   (size_t) source->key_count);
	for (int i = 0; i < source->key_count; i++)
	{
		if (!expr_evaluate(source->keys[i]->expr, &evaluation->context, &keys->values[i]))
			return false;
		matches = key_value_counts(source->keys[i]->kind, keys->values[i]) && matches;
	}
	keys->set_count = matches ? 1 : 0;
	return true;
}

/* ---------------------------------------------------------------- fields */

static bool
field_value(Evaluation *evaluation, const BoundField *field, SyncValue *value)
{
	const SyncValue *row = evaluation->context.row;

	if (field->expr == NULL)
		*value = row[field->position];
	else if (!expr_evaluate(field->expr, &evaluation->context, value))
		return false;
	if (field->fallback >= 0 && value_is_null(*value) &&
		row[field->fallback].type != SYNC_UNDEFINED)
		*value = row[field->fallback];
	return true;
}

static bool
checks_evaluate(Evaluation *evaluation, const BoundSource *source)
{
	SyncValue	ignored;

	for (int i = 0; i < source->check_count; i++)
	{
		if (!expr_evaluate(source->checks[i], &evaluation->context, &ignored))
			return false;
	}
	return true;
}

/* room for the JSON of a row: right unless texts need escapes or values are computed */
static size_t
json_estimate(Evaluation *evaluation, const BoundSource *source)
{
	size_t		size = source->json_key_bytes;

	for (int i = 0; i < source->field_count; i++)
	{
		const BoundField *field = &source->fields[i];

		if (field->expr == NULL && evaluation->context.row[field->position].type >= SYNC_TEXT)
			size += evaluation->context.row[field->position].len + 2;
		else
			size += NUMBER_TEXT_LEN;
	}
	return size;
}

/* sync-rules.md, 8.1 */
static SyncString
row_id_text(Evaluation *evaluation, SyncValue id)
{
	SyncArena  *arena = evaluation->context.arena;
	SyncString	text;

	if (value_is_null(id) || id.type == SYNC_BLOB)
		return (SyncString) {"", 0};
	text = text_well_formed(value_to_text(id, arena), arena);
	return (SyncString) {arena_strndup(arena, text.data, text.len), text.len};
}

/* the row's JSON (8.2) and its id */
static bool
json_evaluate(Evaluation *evaluation, const BoundSource *source, SourceResult *result)
{
	SyncBuffer	json;
	SyncValue	id = value_null();
	char		separator = '{';

	if (!checks_evaluate(evaluation, source))
		return false;
	buffer_init(&json, evaluation->context.arena, json_estimate(evaluation, source));
	for (int i = 0; i < source->field_count; i++)
	{
		const BoundField *field = &source->fields[i];
		SyncValue	value;

		if (!field_value(evaluation, field, &value))
			return false;
		if (value.type == SYNC_UNDEFINED || value.type == SYNC_BLOB)
			continue;
		buffer_append_char(&json, separator);
		separator = ',';
		buffer_append(&json, field->json_key.data, field->json_key.len);
		json_append_value(&json, value);
		if (i == source->id_field)
			id = value;
	}
	if (separator == '{')
		buffer_append_char(&json, '{');
	buffer_append_char(&json, '}');
	result->json = buffer_string(&json);
	result->json_utf16_len = (uint32_t) text_utf16_length(json.data, json.len);
	result->row_id = row_id_text(evaluation, id);
	return true;
}

/* ---------------------------------------------------------------- output */

/* counts a query that failed; the first error is kept */
static void
record_error(Evaluation *evaluation)
{
	EvaluatedRow *result = evaluation->result;

	if (result->error_count++ == 0)
	{
		SyncError  *error = arena_new(evaluation->context.arena, SyncError);

		*error = evaluation->error;
		result->error = error;
	}
}

static void
source_evaluate(Evaluation *evaluation, const BoundSource *source, SourceResult *result)
{
	result->done = true;
	if (keys_evaluate(evaluation, source, &result->keys) &&
		(result->keys.set_count == 0 || json_evaluate(evaluation, source, result)))
	{
		if (result->keys.set_count > 0)
			result->checksum = checksum_put(source->output_table, result->row_id, result->json);
		return;
	}
	result->keys.set_count = 0;
	record_error(evaluation);
}

static SyncString
bucket_name(Evaluation *evaluation, const BoundBucket *bucket, const SyncValue *keys, int key_count)
{
	SyncBuffer	name;

	if (key_count == 0)
		return bucket->name;
	buffer_init(&name, evaluation->context.arena,
				bucket->name.len + 2 + (size_t) key_count * NUMBER_TEXT_LEN);
	buffer_append(&name, bucket->name.data, bucket->name.len);
	json_append_bucket_parameters(&name, keys, key_count);
	return buffer_string(&name);
}

static BucketRow *
add_bucket_row(Evaluation *evaluation)
{
	EvaluatedRow *result = evaluation->result;

	if (result->bucket_row_count == evaluation->bucket_capacity)
	{
		int			capacity = evaluation->bucket_capacity * 2 + evaluation->binding->bucket_count;

		result->bucket_rows = arena_grow(evaluation->context.arena, result->bucket_rows,
										 sizeof(BucketRow) * (size_t) evaluation->bucket_capacity,
										 sizeof(BucketRow) * (size_t) capacity);
		evaluation->bucket_capacity = capacity;
	}
	return &result->bucket_rows[result->bucket_row_count++];
}

static void
evaluate_buckets(Evaluation *evaluation)
{
	const TableBinding *binding = evaluation->binding;
	SourceResult *results = arena_array(evaluation->context.arena, SourceResult,
										(size_t) binding->source_count);

	for (int i = 0; i < binding->bucket_count; i++)
	{
		const BoundBucket *bucket = &binding->buckets[i];
		const BoundSource *source = &binding->sources[bucket->source];
		SourceResult *result = &results[bucket->source];

		if (!result->done)
			source_evaluate(evaluation, source, result);
		for (int s = 0; s < result->keys.set_count; s++)
		{
			const SyncValue *keys = key_set(&result->keys, s, source->key_count);
			SyncString	name = bucket_name(evaluation, bucket, keys, source->key_count);

			*add_bucket_row(evaluation) = (BucketRow) {
				.bucket = name,
				.table = source->output_table,
				.row_id = result->row_id,
				.json = result->json,
				.json_utf16_len = result->json_utf16_len,
				.checksum = result->checksum,
			};
		}
	}
}

/* the array of one document with the index's columns: blobs and undefined are left out */
static bool
parameter_rows(Evaluation *evaluation, const BoundSource *source, SyncString *rows)
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
		if (value.type != SYNC_BLOB)
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
index_evaluate(Evaluation *evaluation, const BoundIndex *index)
{
	const BoundSource *source = &index->source;
	KeySets		keys = {0};
	SyncString	rows = {NULL, 0};

	if (!keys_evaluate(evaluation, source, &keys) ||
		(keys.set_count > 0 && !parameter_rows(evaluation, source, &rows)))
	{
		record_error(evaluation);
		return;
	}
	for (int s = 0; s < keys.set_count; s++)
	{
		const SyncValue *values = key_set(&keys, s, source->key_count);

		*add_parameter_row(evaluation) = (ParameterRow) {
			.lookup = bson_lookup(index->lookup_name, index->query_id, values, source->key_count,
								  evaluation->context.arena),
			.rows = rows,
		};
	}
}

SyncErrorCode
table_evaluate(const TableBinding *binding, const SyncValue *values, SyncArena *arena,
			   EvaluatedRow *result)
{
	Evaluation	evaluation = {.binding = binding, .result = result};
	SyncErrorCode volatile code = SYNC_OK;
	ArenaGuard	guard;

	memset(result, 0, sizeof(*result));
	evaluation.context = (ExprContext) {
		.row = values,
		.arena = arena,
		.error = &evaluation.error,
		.fixed_json = binding->fixed_json,
	};
	arena_guard_push(arena, &guard);
	if (setjmp(guard.jump) == 0)
	{
		evaluate_buckets(&evaluation);
		for (int i = 0; i < binding->index_count; i++)
			index_evaluate(&evaluation, &binding->indexes[i]);
	}
	else
	{
		memset(result, 0, sizeof(*result));
		code = SYNC_ERROR_OUT_OF_MEMORY;
	}
	arena_guard_pop(arena, &guard);
	return code;
}
