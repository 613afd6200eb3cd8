/*-------------------------------------------------------------------------
 *
 * rules_rows.c
 *	  What a plan must make of a case: the tables it reads, the names of its
 *	  buckets and lookups; for each row the buckets (name, name with version,
 *	  table, id, JSON, checksum), the parameter entries (lookups byte by byte),
 *	  and the number of queries that failed.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <string.h>

#include "bson_bytes.h"
#include "plan.h"
#include "rules_rows.h"
#include "text.h"
#include "value.h"

/* ---------------------------------------------------------------- plan */

static bool
is_table(const TablePattern *pattern, const JsonNode *table)
{
	return sync_string_equal(pattern->connection, as_text(need(table, "connection"))) &&
		sync_string_equal(pattern->schema, as_text(need(table, "schema"))) &&
		sync_string_equal(pattern->table, as_text(need(table, "table")));
}

/* the same tables, in any order */
static void
check_tables(const SyncPlan *plan, const JsonNode *tables)
{
	check_int("source tables", plan_table_count(plan), tables->count);
	for (const JsonNode *table = tables->first; table != NULL; table = table->next)
	{
		bool		found = false;

		for (int i = 0; i < plan_table_count(plan); i++)
			found |= is_table(plan_table(plan, i), table);
		if (!found)
			check_text("source table", literal("(none)"), as_text(need(table, "table")));
	}
}

static void
check_names(const SyncPlan *plan, const JsonNode *vector)
{
	const JsonNode *stems = need(vector, "bucket_definitions");
	const JsonNode *indexes = need(vector, "parameter_indexes");

	check_int("bucket definitions", plan->bucket_count, stems->count);
	for (int i = 0; i < plan->bucket_count && i < (int) stems->count; i++)
		check_text("bucket definition", plan->buckets[i].stem, as_text(element(stems, (uint32_t) i)));
	check_int("parameter indexes", plan->index_count, indexes->count);
	for (int i = 0; i < plan->index_count && i < (int) indexes->count; i++)
	{
		const JsonNode *index = element(indexes, (uint32_t) i);

		check_text("lookup name", plan->indexes[i].lookup_name, as_text(element(index, 0)));
		check_text("query id", plan->indexes[i].query_id, as_text(element(index, 1)));
	}
}

/* ---------------------------------------------------------------- rows */

/* one row as values with a type of its own */
static SyncRowType *
row_of_case(const JsonNode *row, SyncValue **values, SyncArena *arena)
{
	SyncRowType *type = arena_new(arena, SyncRowType);
	SyncColumn *columns = arena_array(arena, SyncColumn, row->count);

	*values = arena_array(arena, SyncValue, row->count);
	type->columns = columns;
	for (const JsonNode *column = row->first; column != NULL; column = column->next)
	{
		columns[type->column_count].name = column->key;
		(*values)[type->column_count++] = tagged_value(column, arena);
	}
	return type;
}

/* ids are stored as UTF-8: half of a surrogate pair becomes U+FFFD */
static void
check_bucket_row(const BucketRow *row, const JsonNode *expected, const char *name_key,
				 SyncArena *arena)
{
	SyncString	json = as_text(need(expected, "data_json"));

	check_text(name_key, row->bucket, as_text(need(expected, name_key)));
	check_text("table", row->table, as_text(need(expected, "table")));
	check_text("id", row->row_id, text_well_formed(as_text(need(expected, "id")), arena));
	check_text("data_json", row->json, json);
	check_int("UTF-16 length", row->json_utf16_len,
			  (int64_t) text_utf16_length(json.data, json.len));
	check_int("checksum", row->checksum, checksum_put(row->table, row->row_id, json));
}

/* appends a document's fields as JSON */
static bool
append_document(SyncBuffer *json, SyncString document)
{
	BsonReader	reader;
	BsonField	field;
	char		separator = '{';

	if (!bson_reader_init(&reader, document))
		return false;
	while (bson_reader_next(&reader, &field))
	{
		buffer_append_char(json, separator);
		separator = ',';
		json_append_text(json, field.name.data, field.name.len);
		buffer_append_char(json, ':');
		json_append_value(json, field.value);
	}
	if (separator == '{')
		buffer_append_char(json, '{');
	buffer_append_char(json, '}');
	return !reader.failed;
}

static uint32_t
read_u32(const char *bytes)
{
	const unsigned char *b = (const unsigned char *) bytes;

	return (uint32_t) b[0] | (uint32_t) b[1] << 8 | (uint32_t) b[2] << 16 | (uint32_t) b[3] << 24;
}

/*
 * The JSON of an array of documents.  Their numbers come back as the API reads
 * them: int64 is INTEGER, all else REAL.
 */
static SyncString
rows_as_json(SyncString rows, SyncArena *arena)
{
	SyncBuffer	json;
	const char *at = rows.data + 4;
	const char *end = rows.data + rows.len - 1;
	int			i = 0;

	buffer_init(&json, arena, 64);
	buffer_append_char(&json, '[');
	for (; at < end; i++)
	{
		SyncString	name = literal(arena_printf(arena, "%d", i));
		SyncString	document;

		if (end - at < 7 + (ptrdiff_t) name.len || at[0] != 0x03 ||
			memcmp(at + 1, name.data, name.len + 1) != 0)
			break;
		at += name.len + 2;
		document = (SyncString) {at, read_u32(at)};
		if (document.len > (size_t) (end - at))
			break;
		if (i > 0)
			buffer_append_char(&json, ',');
		if (!append_document(&json, document))
			break;
		at += document.len;
	}
	if (rows.len < 5 || read_u32(rows.data) != rows.len || at != end || *end != 0)
		case_fail("the stored rows are no array of documents");
	buffer_append_char(&json, ']');
	return buffer_string(&json);
}

/* JSON with U+FFFD for each escaped half of a surrogate pair: as BSON stores it */
static SyncString
as_stored(SyncString json, SyncArena *arena)
{
	SyncBuffer	stored;

	buffer_init(&stored, arena, json.len);
	for (uint32_t i = 0; i < json.len; i++)
	{
		bool		escape = json.data[i] == '\\' && i + 1 < json.len;

		if (escape && i + 5 < json.len && memcmp(json.data + i, "\\ud", 3) == 0 &&
			json.data[i + 3] >= '8')
		{
			buffer_append(&stored, "\xEF\xBF\xBD", 3);
			i += 5;
			continue;
		}
		buffer_append_char(&stored, json.data[i]);
		if (escape)
			buffer_append_char(&stored, json.data[++i]);
	}
	return buffer_string(&stored);
}

static void
check_parameter_row(const ParameterRow *row, const JsonNode *expected, SyncArena *arena)
{
	const JsonNode *lookup = need(expected, "lookup");
	SyncValue  *values = arena_array(arena, SyncValue, lookup->count);
	int			count = 0;

	for (const JsonNode *value = lookup->first; value != NULL; value = value->next)
		values[count++] = tagged_value(value, arena);
	if (count < 2)
	{
		case_fail("the vector's lookup is too short");
		return;
	}
	check_bytes("lookup", row->lookup,
				bson_lookup((SyncString) {values[0].data, values[0].len},
							(SyncString) {values[1].data, values[1].len}, values + 2, count - 2,
							arena));
	check_text("rows", rows_as_json(row->rows, arena),
			   as_stored(as_text(need(expected, "rows_json")), arena));
}

static void
check_bucket_rows(const EvaluatedRow *row, const JsonNode *buckets, const char *name_key,
				  SyncArena *arena)
{
	if (!check_int("buckets", row->bucket_row_count, buckets->count))
		return;
	for (int i = 0; i < row->bucket_row_count; i++)
		check_bucket_row(&row->bucket_rows[i], element(buckets, (uint32_t) i), name_key, arena);
}

static void
check_parameter_rows(const EvaluatedRow *row, const JsonNode *parameters, SyncArena *arena)
{
	if (!check_int("parameter entries", row->parameter_row_count, parameters->count))
		return;
	for (int i = 0; i < row->parameter_row_count; i++)
		check_parameter_row(&row->parameter_rows[i], element(parameters, (uint32_t) i), arena);
}

/* the service gave up on the whole row: nothing can be said but that pgsync has an error */
static bool
gave_up(const JsonNode *expect, const char *key)
{
	return has(expect, key) && !is_null(member(expect, key)) &&
		member(expect, key)->kind != JSON_FALSE;
}

static void
check_row(const EvaluatedRow *row, const JsonNode *expect, const char *name_key, SyncArena *arena)
{
	bool		no_buckets = gave_up(expect, "bucket_evaluation_throws");
	bool		no_parameters = gave_up(expect, "parameter_evaluation_throws");
	int64_t		errors = 0;

	if (!no_buckets)
		errors += as_int(need(expect, "bucket_errors"));
	if (!no_parameters)
		errors += as_int(need(expect, "parameter_errors"));
	if (no_buckets || no_parameters)
		check_true("what stops the service is an error", row->error_count > errors);
	else
		check_int("errors", row->error_count, errors);
	check_true("the first error is kept", (row->error != NULL) == (row->error_count > 0));
	if (!no_buckets)
		check_bucket_rows(row, need(expect, "buckets"), name_key, arena);
	if (!no_parameters)
		check_parameter_rows(row, need(expect, "parameters"), arena);
}

/*
 * Evaluates a row with buckets named by `prefix`.  The row's values are wiped
 * before the result is looked at: it must not point into them.
 */
static void
run_row(const SyncPlan *plan, const JsonNode *input, SyncString prefix, const char *name_key,
		SyncArena *arena)
{
	const JsonNode *table = need(input, "table");
	SyncString	schema = as_text(need(table, "schema"));
	SyncString	name = as_text(need(table, "name"));
	BucketNaming naming = {.prefix = prefix};
	SyncValue  *values;
	SyncRowType *type = row_of_case(need(input, "row"), &values, arena);
	const TableBinding *binding;
	SyncError	error;
	EvaluatedRow row;

	binding = plan_bind(plan, arena_strndup(arena, schema.data, schema.len),
						arena_strndup(arena, name.data, name.len), type, &naming, arena, &error);
	memset(&row, 0, sizeof(row));
	if (binding == NULL)
		check_int("bind", error.code, SYNC_OK);
	else
		check_int("evaluate", table_evaluate(binding, values, arena, &row), SYNC_OK);
	memset(values, 0xAB, sizeof(*values) * (size_t) type->column_count);
	check_row(&row, need(input, "expect"), name_key, arena);
}

void
run_plan(const SyncPlan *plan, const JsonNode *vector, SyncArena *arena)
{
	const JsonNode *id = member(vector, "replication_stream_id");

	check_tables(plan, need(vector, "source_tables"));
	check_names(plan, vector);
	for (const JsonNode *input = need(vector, "inputs")->first; input != NULL; input = input->next)
	{
		run_row(plan, input, literal(""), "bucket", arena);
		if (!is_null(id))
			run_row(plan, input, literal(arena_printf(arena, "%d#", (int) as_int(id))),
					"versioned_bucket", arena);
	}
}
