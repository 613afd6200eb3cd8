/*-------------------------------------------------------------------------
 *
 * streams_test.h
 *	  What tests of edition-3 streams share: compiling, the stored plan, and the JSON
 *	  that is expected in it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STREAMS_TEST_H
#define STREAMS_TEST_H

#include <stdio.h>

#include "bson_bytes.h"
#include "json.h"
#include "rules_test.h"

static const SyncPlan *plan __attribute__((unused));
static const JsonNode *stored;	/* its "plan" */

#define AUTH "auth.user_id()"

/* what was compiled is in plan, messages and stored */
static inline bool
compile_text(const char *yaml)
{
	RulesOptions options = {.default_schema = "public"};
	const JsonNode *wrapper;
	SyncError	error;
	SyncString	json;
	size_t		len;

	stored = NULL;
	plan = rules_compile(yaml, strlen(yaml), &options, arena, &messages);
	if (plan == NULL)
		return false;
	json.data = plan_stored_json(plan, &len);
	json.len = (uint32_t) len;
	assert_non_null(json.data);
	wrapper = json_parse(json, JSON_NUMBERS_EXACT, arena, &error);
	assert_non_null(wrapper);
	stored = json_member(wrapper, str("plan"));
	return true;
}

static inline void
compile_ok(const char *yaml)
{
	if (!compile_text(yaml))
		fail_msg("refused: %d:%d: %s", messages->error.line, messages->error.column,
				 messages->error.message);
}

static inline const char *
one_query(const char *query)
{
	return arena_printf(arena, "config:\n  edition: 3\nstreams:\n  s:\n    query: >-\n      %s\n",
						query);
}

static inline void
compile_query(const char *query)
{
	compile_ok(one_query(query));
}

static inline int
count_messages(RulesLevel level)
{
	int			count = 0;

	for (const RulesMessage *m = messages; m != NULL; m = m->next)
		count += m->level == level;
	return count;
}

/* what is found under "a.0.b" */
static inline const JsonNode *
find(const char *path)
{
	const JsonNode *node = stored;

	while (*path != '\0' && node != NULL)
	{
		size_t		len = strcspn(path, ".");

		if (node->kind == JSON_ARRAY)
		{
			int			i = atoi(path);

			for (node = node->first; node != NULL && i > 0; i--)
				node = node->next;
		}
		else
			node = json_member(node, (SyncString) {path, (uint32_t) len});
		path += len + (path[len] == '.');
	}
	return node;
}

/* quotes of the expected JSON are written as ' */
static inline void
assert_stored(const char *path, const char *expected)
{
	const JsonNode *node = find(path);
	SyncBuffer	buffer;
	char	   *quoted = arena_strndup(arena, expected, strlen(expected));
	char	   *got;

	if (node == NULL)
		fail_msg("nothing at %s", path);
	for (char *c = quoted; *c != '\0'; c++)
		*c = *c == '\'' ? '"' : *c;
	buffer_init(&buffer, arena, 100);
	json_append_node(&buffer, node);
	got = arena_strndup(arena, buffer.data, buffer.len);
	if (strcmp(got, quoted) != 0)
		fail_msg("%s is %s, not %s", path, got, quoted);
}

static inline int
count_stored(const char *path)
{
	const JsonNode *node = find(path);

	return node == NULL ? -1 : (int) node->count;
}

#define COLUMN(name) "{'type':'data','source':{'column':'" name "'}}"
#define ELEMENT(function, name) "{'type':'data','source':{'function':" #function \
	",'outputName':'" name "'}}"
#define INTEGER(digits) "{'type':'lit_int','base10':'" digits "'}"
#define BINARY(left, op, right) "{'type':'binary','operator':'" op "','left':" left \
	",'right':" right "}"
#define NOT(operand) "{'type':'unary','operator':'not','operand':" operand "}"
#define LOOKUP(stage, id, result) "{'type':'lookup','lookup':{'stageId':" #stage \
	",'idInStage':" #id "},'resultIndex':" #result "}"

/* the query is refused with a message at that column of its line */
static inline void
assert_refused(const char *query, SyncErrorCode code, int column, const char *part)
{
	if (compile_text(one_query(query)))
		fail_msg("not refused: %s", query);
	if (messages->error.code != code || messages->error.line != 6 ||
		messages->error.column != column + 6 || strstr(messages->error.message, part) == NULL)
		fail_msg("got code %d at %d:%d: %s", messages->error.code, messages->error.line,
				 messages->error.column, messages->error.message);
}

static inline EvaluatedRow
evaluate(const SyncPlan *of, const char *table, const char *const *names, int count,
		 const SyncValue *values)
{
	SyncColumn *columns = arena_array(arena, SyncColumn, (size_t) count);
	SyncRowType type = {.column_count = count, .columns = columns};
	BucketNaming naming = {.prefix = str("")};
	const TableBinding *binding;
	EvaluatedRow row;
	SyncError	error;

	for (int i = 0; i < count; i++)
		columns[i].name = str(names[i]);
	binding = plan_bind(of, "public", table, &type, &naming, arena, &error);
	assert_non_null(binding);
	assert_int_equal(table_evaluate(binding, values, arena, &row), SYNC_OK);
	return row;
}

static inline void
assert_text(SyncString got, const char *expected)
{
	assert_string_equal(arena_strndup(arena, got.data, got.len), expected);
}

#endif							/* STREAMS_TEST_H */
