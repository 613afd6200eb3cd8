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

#include "evaluate.h"
#include "json.h"
#include "number.h"
#include "text.h"

/* one output row of a bucket source: there are several only with expansions */
typedef struct SourceRow
{
	KeySets		keys;
	RowJson		json;
} SourceRow;

/* what a bucket source made of the row; nothing if it failed */
struct SourceResult
{
	bool		done;
	int			row_count;
	int			row_capacity;
	SourceRow  *rows;
	SourceRow	first;			/* room for the usual one */
};

/* ---------------------------------------------------------------- fields */

bool
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

bool
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

/* appends a field unless it is left out; returns whether it was appended */
static bool
append_field(SyncBuffer *json, char separator, const BoundField *field, SyncValue value)
{
	if (value.type == SYNC_UNDEFINED || value.type == SYNC_BLOB)
		return false;
	buffer_append_char(json, separator);
	buffer_append(json, field->json_key.data, field->json_key.len);
	json_append_value(json, value);
	return true;
}

/*
 * The value of fields that have one name: the last that is no blob counts, in
 * the place of the first that is none (sync-rules.md, 7.3).  It is put there,
 * and nothing where the others are.
 */
static void
merge_repeated(const BoundSource *source, SyncValue *values, int first)
{
	int			place = -1;

	for (int i = first; i >= 0; i = source->fields[i].next_same)
	{
		if (values[i].type == SYNC_BLOB)
			continue;
		if (place < 0)
		{
			place = i;
			continue;
		}
		values[place] = values[i];
		values[i] = (SyncValue) {.type = SYNC_UNDEFINED};
	}
}

/* the fields of a source in which names are repeated */
static bool
append_repeated(Evaluation *evaluation, const BoundSource *source, SyncBuffer *json, SyncValue *id,
				char *separator)
{
	SyncValue  *values = arena_array(evaluation->context.arena, SyncValue,
									 (size_t) source->field_count);

	for (int i = 0; i < source->field_count; i++)
	{
		if (!field_value(evaluation, &source->fields[i], &values[i]))
			return false;
	}
	for (int i = 0; i < source->field_count; i++)
	{
		if (!source->fields[i].again && source->fields[i].next_same >= 0)
			merge_repeated(source, values, i);
	}
	for (int i = 0; i < source->field_count; i++)
	{
		const BoundField *field = &source->fields[i];

		if (!append_field(json, *separator, field, values[i]))
			continue;
		*separator = ',';
		if (source->id_field >= 0 &&
			sync_string_equal(field->name, source->fields[source->id_field].name))
			*id = values[i];
	}
	return true;
}

static bool
append_fields(Evaluation *evaluation, const BoundSource *source, SyncBuffer *json, SyncValue *id,
			  char *separator)
{
	for (int i = 0; i < source->field_count; i++)
	{
		const BoundField *field = &source->fields[i];
		SyncValue	value;

		if (!field_value(evaluation, field, &value))
			return false;
		if (!append_field(json, *separator, field, value))
			continue;
		*separator = ',';
		if (i == source->id_field)
			*id = value;
	}
	return true;
}

/* the row's JSON (8.2) and its id */
static bool
json_evaluate(Evaluation *evaluation, const BoundSource *source, RowJson *row)
{
	SyncBuffer	json;
	SyncValue	id = value_null();
	char		separator = '{';

	if (!checks_evaluate(evaluation, source))
		return false;
	buffer_init(&json, evaluation->context.arena, json_estimate(evaluation, source));
	if (!(source->has_repeated ? append_repeated : append_fields)
		(evaluation, source, &json, &id, &separator))
		return false;
	if (separator == '{')
		buffer_append_char(&json, '{');
	buffer_append_char(&json, '}');
	row->json = buffer_string(&json);
	row->utf16_len = (uint32_t) text_utf16_length(json.data, json.len);
	row->row_id = row_id_text(evaluation, id);
	return true;
}

/* ---------------------------------------------------------------- output */

void
record_error(Evaluation *evaluation, const BoundBucket *bucket, const BoundIndex *index)
{
	EvaluatedRow *result = evaluation->result;

	if (result->error_count++ == 0)
	{
		SyncError  *error = arena_new(evaluation->context.arena, SyncError);

		*error = evaluation->error;
		result->error = error;
	}
	if (evaluation->next_error != NULL)
	{
		RowError   *error = arena_new(evaluation->context.arena, RowError);

		error->error = evaluation->error;
		if (bucket != NULL)
			error->bucket = bucket->name;
		else
		{
			error->lookup_name = index->lookup_name;
			error->query_id = index->query_id;
		}
		*evaluation->next_error = error;
		evaluation->next_error = &error->next;
	}
}

static SourceRow *
result_add_row(Evaluation *evaluation, SourceResult *result)
{
	if (result->row_count == result->row_capacity)
	{
		int			capacity = result->row_capacity * 2 + 8;

		result->rows = arena_grow(evaluation->context.arena,
								  result->rows == &result->first ? NULL : result->rows,
								  result->rows == &result->first ? 0 :
								  sizeof(SourceRow) * (size_t) result->row_capacity,
								  sizeof(SourceRow) * (size_t) capacity);
		if (result->row_capacity == 1)
			result->rows[0] = result->first;
		result->row_capacity = capacity;
	}
	memset(&result->rows[result->row_count], 0, sizeof(SourceRow));
	return &result->rows[result->row_count++];
}

/* JSON, id and checksum: once for all combinations and sources that have the same */
static bool
row_json(Evaluation *evaluation, const BoundSource *source, RowJson *json)
{
	RowJson    *shared = source->json_group < 0 ? NULL : &evaluation->json[source->json_group];

	if (shared != NULL && shared->json.data != NULL)
	{
		*json = *shared;
		return true;
	}
	if (!json_evaluate(evaluation, source, json))
		return false;
	json->checksum = checksum_put(source->output_table, json->row_id, json->json);
	if (shared != NULL)
		*shared = *json;
	return true;
}

/* legacy and alpha; keys first: most rows that are in no bucket need no JSON */
static bool
legacy_combination(Evaluation *evaluation, const BoundSource *source, SourceRow *row)
{
	return keys_evaluate(evaluation, source, &row->keys) &&
		(row->keys.set_count == 0 || row_json(evaluation, source, &row->json));
}

/* filters, then all the rest: it fails the row even where a key is missing */
static bool
compiled_combination(Evaluation *evaluation, const BoundSource *source, SourceRow *row)
{
	bool		holds;

	if (!conditions_evaluate(evaluation, source, &holds))
		return false;
	if (!holds)
		return true;
	if (!row_json(evaluation, source, &row->json) ||
		!values_evaluate(evaluation, source, &row->keys, &holds))
		return false;
	row->keys.set_count = holds ? 1 : 0;
	return true;
}

static bool
source_combination(Evaluation *evaluation, const BoundSource *source, void *arg)
{
	SourceResult *result = arg;
	SourceRow  *row = result_add_row(evaluation, result);
	bool		ok;

	ok = source->rules == SOURCE_COMPILED ? compiled_combination(evaluation, source, row) :
		legacy_combination(evaluation, source, row);
	if (!ok)
		return false;
	if (row->keys.set_count == 0)
		result->row_count--;
	return true;
}

static void
source_evaluate(Evaluation *evaluation, const BoundBucket *bucket, const BoundSource *source,
				SourceResult *result)
{
	result->done = true;
	result->rows = &result->first;
	result->row_capacity = 1;
	if (for_each_combination(evaluation, source, source_combination, result))
		return;
	result->row_count = 0;
	record_error(evaluation, bucket, NULL);
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
emit_bucket_rows(Evaluation *evaluation, const BoundBucket *bucket, const BoundSource *source,
				 const SourceRow *row)
{
	for (int s = 0; s < row->keys.set_count; s++)
	{
		SyncString	name = bucket_name(evaluation, bucket,
									   key_set(&row->keys, s, source->key_count),
									   source->key_count);

		*add_bucket_row(evaluation) = (BucketRow) {
			.bucket = name,
			.table = source->output_table,
			.row_id = row->json.row_id,
			.json = row->json.json,
			.json_utf16_len = row->json.utf16_len,
			.checksum = row->json.checksum,
		};
	}
}

static void
evaluate_bucket(Evaluation *evaluation, const BoundBucket *bucket)
{
	const BoundSource *source = &evaluation->binding->sources[bucket->source];
	SourceResult *result = &evaluation->sources[bucket->source];

	if (!result->done)
		source_evaluate(evaluation, bucket, source, result);
	for (int r = 0; r < result->row_count; r++)
		emit_bucket_rows(evaluation, bucket, source, &result->rows[r]);
}

/* all queries from the present one on */
static void
evaluate_queries(Evaluation *evaluation)
{
	const TableBinding *binding = evaluation->binding;
	SyncArena  *arena = evaluation->context.arena;

	if (evaluation->sources == NULL)
	{
		evaluation->json = arena_array(arena, RowJson, (size_t) binding->json_group_count);
		evaluation->sources = arena_array(arena, SourceResult, (size_t) binding->source_count);
	}
	if (evaluation->failed_bucket != NULL || evaluation->failed_index != NULL)
		record_error(evaluation, evaluation->failed_bucket, evaluation->failed_index);
	evaluation->failed_bucket = NULL;
	evaluation->failed_index = NULL;
	for (; evaluation->bucket_at < binding->bucket_count; evaluation->bucket_at++)
	{
		evaluation->row_mark = evaluation->result->bucket_row_count;
		evaluate_bucket(evaluation, &binding->buckets[evaluation->bucket_at]);
	}
	for (; evaluation->index_at < binding->index_count; evaluation->index_at++)
	{
		evaluation->row_mark = evaluation->result->parameter_row_count;
		index_evaluate(evaluation, &binding->indexes[evaluation->index_at]);
	}
}

/* false: memory ran out, or the limit was reached, in the present query */
static bool
evaluate_guarded(Evaluation *evaluation)
{
	SyncArena  *arena = evaluation->context.arena;
	volatile bool done = false;
	ArenaGuard	guard;

	arena_guard_push(arena, &guard);
	if (setjmp(guard.jump) == 0)
	{
		evaluate_queries(evaluation);
		done = true;
	}
	arena_guard_pop(arena, &guard);
	return done;
}

/* the present query is given up: it leaves nothing but its error, and the next one's turn comes */
static void
give_up_query(Evaluation *evaluation)
{
	const TableBinding *binding = evaluation->binding;

	sync_error_set(&evaluation->error, SYNC_ERROR_LIMIT, "evaluating the row takes more than %d MB",
				   (int) (ROW_MAX_BYTES / (1024 * 1024)));
	if (evaluation->bucket_at < binding->bucket_count)
	{
		SourceResult *source = &evaluation->sources[binding->buckets[evaluation->bucket_at].source];

		evaluation->result->bucket_row_count = evaluation->row_mark;
		source->done = true;
		source->row_count = 0;
		evaluation->failed_bucket = &binding->buckets[evaluation->bucket_at++];
	}
	else
	{
		evaluation->result->parameter_row_count = evaluation->row_mark;
		evaluation->failed_index = &binding->indexes[evaluation->index_at++];
	}
}

static SyncErrorCode
evaluate(const TableBinding *binding, const SyncValue *values, SyncArena *arena,
		 EvaluatedRow *result, RowError **errors)
{
	Evaluation	evaluation = {.binding = binding, .result = result, .next_error = errors};
	SyncErrorCode code = SYNC_OK;

	memset(result, 0, sizeof(*result));
	evaluation.context = (ExprContext) {
		.row = values,
		.arena = arena,
		.error = &evaluation.error,
		.fixed_json = binding->fixed_json,
	};
	arena_limit(arena, ROW_MAX_BYTES);
	while (!evaluate_guarded(&evaluation))
	{
		if (!arena_limit_reached(arena) || evaluation.sources == NULL ||
			evaluation.failed_bucket != NULL || evaluation.failed_index != NULL)
		{
			memset(result, 0, sizeof(*result));
			code = SYNC_ERROR_OUT_OF_MEMORY;
			break;
		}
		give_up_query(&evaluation);
		arena_limit(arena, 16 * 1024);	/* for the error, and for queries that need little */
	}
	arena_limit(arena, 0);
	return code;
}

SyncErrorCode
table_evaluate(const TableBinding *binding, const SyncValue *values, SyncArena *arena,
			   EvaluatedRow *result)
{
	return evaluate(binding, values, arena, result, NULL);
}

SyncErrorCode
table_evaluate_verbose(const TableBinding *binding, const SyncValue *values, SyncArena *arena,
					   EvaluatedRow *result, RowError **errors)
{
	*errors = NULL;
	return evaluate(binding, values, arena, result, errors);
}
