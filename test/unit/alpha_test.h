/*-------------------------------------------------------------------------
 *
 * alpha_test.h
 *	  What tests of edition-2 streams share: compiling a query as a stream, and what
 *	  becomes of a row, as text.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ALPHA_TEST_H
#define ALPHA_TEST_H

#include <stdio.h>
#include <time.h>

#include "bson_bytes.h"
#include "compile_alpha.h"
#include "json.h"
#include "rules_test.h"
#include "value.h"

/* a stream s with what follows its name, on a line of its own */
static inline const SyncPlan *
compile_stream(const char *keys)
{
	return compile_rules(arena_printf(arena, "config:\n  edition: 2\nstreams:\n  s:\n%s\n", keys));
}

/* the query stands in line 5, from column 13 on */
static inline const SyncPlan *
compile_query(const char *query)
{
	return compile_stream(arena_printf(arena, "    query: |-\n      %s", query));
}

static inline const SyncPlan *
compile_ok(const char *query)
{
	const SyncPlan *plan = compile_query(query);

	if (plan == NULL)
		fail_msg("%s: refused: %d:%d: %s", query, messages->error.line, messages->error.column,
				 messages->error.message);
	return plan;
}

static inline int
count_messages(RulesLevel level)
{
	int			count = 0;

	for (const RulesMessage *message = messages; message != NULL; message = message->next)
		count += message->level == level;
	return count;
}

/* one fatal message, at a column of the query's first line */
static inline void
assert_refused(const char *query, SyncErrorCode code, int column, const char *part)
{
	const RulesMessage *message;

	assert_null(compile_query(query));
	for (message = messages; message->level != RULES_FATAL; message = message->next)
		;
	if (message->error.code != code || message->error.line != 6 ||
		message->error.column != column + 6 || strstr(message->error.message, part) == NULL ||
		count_messages(RULES_FATAL) != 1)
		fail_msg("%s: %d messages, the first %d at %d:%d: %s", query, count_messages(RULES_FATAL),
				 message->error.code, message->error.line, message->error.column - 6,
				 message->error.message);
}

static inline EvaluatedRow
evaluate(const SyncPlan *plan, const char *table, const char *columns, const SyncValue *values)
{
	BucketNaming naming = {.prefix = str("")};
	const TableBinding *binding;
	EvaluatedRow row;
	SyncError	error;

	binding = plan_bind(plan, "public", table, shape(columns), &naming, arena, &error);
	assert_non_null(binding);
	assert_int_equal(table_evaluate(binding, values, arena, &row), SYNC_OK);
	return row;
}

/* names of a row's buckets, separated by blanks, and "!" for each error */
static inline const char *
buckets_of(const EvaluatedRow *row)
{
	SyncBuffer	names;

	buffer_init(&names, arena, 100);
	for (int i = 0; i < row->bucket_row_count; i++)
	{
		if (names.len > 0)
			buffer_append_char(&names, ' ');
		buffer_append(&names, row->bucket_rows[i].bucket.data, row->bucket_rows[i].bucket.len);
	}
	for (int i = 0; i < row->error_count; i++)
		buffer_append_char(&names, '!');
	buffer_append_char(&names, '\0');
	return names.data;
}

static inline void
assert_buckets(const char *query, const char *columns, const SyncValue *values,
			   const char *expected)
{
	EvaluatedRow row = evaluate(compile_ok(query), "t", columns, values);

	assert_string_equal(buckets_of(&row), expected);
}

/* appends the fields of a document's bytes, separated by commas */
static inline void
append_fields(SyncBuffer *text, const char *document)
{
	const unsigned char *len = (const unsigned char *) document;
	SyncString	bytes = {document, (uint32_t) (len[0] | len[1] << 8)};
	const char *separator = "";
	BsonReader	reader;
	BsonField	field;

	assert_true(bson_reader_init(&reader, bytes));
	while (bson_reader_next(&reader, &field))
	{
		buffer_append(text, separator, strlen(separator));
		separator = ",";
		json_append_value(text, field.value);
	}
	assert_false(reader.failed);
}

/* entries as [stream,number,key...]=result, separated by blanks, and "!" for each error */
static inline const char *
entries_of(const EvaluatedRow *row)
{
	SyncBuffer	text;

	buffer_init(&text, arena, 100);
	for (int i = 0; i < row->parameter_row_count; i++)
	{
		if (i > 0)
			buffer_append_char(&text, ' ');
		/* length, type and name "l"; length, type and name "0" */
		append_fields(&text, row->parameter_rows[i].lookup.data + 4 + 3);
		buffer_append_char(&text, '=');
		append_fields(&text, row->parameter_rows[i].rows.data + 4 + 3);
	}
	for (int i = 0; i < row->error_count; i++)
		buffer_append_char(&text, '!');
	buffer_append_char(&text, '\0');
	return text.data;
}

static inline void
assert_entries(const char *query, const char *table, const char *columns, const SyncValue *values,
			   const char *expected)
{
	EvaluatedRow row = evaluate(compile_ok(query), table, columns, values);

	assert_int_equal(row.bucket_row_count, 0);
	assert_string_equal(entries_of(&row), expected);
}

static inline void
assert_stems(const char *where, int expected)
{
	const SyncPlan *plan = compile_ok(arena_printf(arena, "SELECT id FROM t WHERE %s", where));

	assert_int_equal(plan->bucket_count, expected);
	for (int i = 0; i < expected; i++)
		assert_bytes(plan->buckets[i].stem, arena_printf(arena, "s|%d", i));
}

#define ROW(...)	((SyncValue[]) {text("1"), __VA_ARGS__})

#endif							/* ALPHA_TEST_H */
