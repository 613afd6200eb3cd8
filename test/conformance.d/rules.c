/*-------------------------------------------------------------------------
 *
 * rules.c
 *	  Conformance, kind "rules": sync configs and what they make of rows.
 *
 * A case is a config with rows.  Checked are whether it can be deployed, how
 * many warnings it gives, the stored plan of edition 3 (rules_plan.c) and all of
 * rules_rows.c.  What the query side answers ("requests") is not pgsync's work.
 * A config that deploys but that the service cannot load must be refused as
 * unsupported.
 *
 *-------------------------------------------------------------------------
 */
#include "rules.h"
#include "rules_plan.h"
#include "rules_rows.h"
#include "vectors.h"

static int
count_warnings(const JsonNode *errors)
{
	int			count = 0;

	for (const JsonNode *error = errors->first; error != NULL; error = error->next)
		count += sync_string_equal(as_text(need(error, "level")), literal("warning"));
	return count;
}

static int
count_messages(const RulesMessage *messages, RulesLevel level)
{
	int			count = 0;

	for (; messages != NULL; messages = messages->next)
		count += messages->level == level;
	return count;
}

static void
fail_with_messages(const RulesMessage *messages)
{
	for (; messages != NULL; messages = messages->next)
	{
		if (messages->level == RULES_FATAL)
			case_fail("refused: line %d, column %d: %s", messages->error.line,
					  messages->error.column, messages->error.message);
	}
}

/* the messages themselves are ours; that each has a place and a text is not */
static void
check_messages(const RulesMessage *messages)
{
	for (; messages != NULL; messages = messages->next)
	{
		check_true("a message has a text", messages->error.message[0] != '\0');
		check_true("a message has a code", messages->error.code != SYNC_OK);
		check_true("a message has a position", messages->error.line > 0 &&
				   messages->error.column > 0);
	}
}

static const SyncPlan *
compile_case(const JsonNode *vector, SyncArena *arena)
{
	SyncString	schema = as_text(need(vector, "default_schema"));
	SyncString	yaml = as_text(need(vector, "sync_rules"));
	RulesOptions options = {.default_schema = arena_strndup(arena, schema.data, schema.len)};
	const RulesMessage *messages;
	const SyncPlan *plan;
	bool		deployable = need(vector, "deployable")->kind == JSON_TRUE;

	plan = rules_compile(yaml.data, yaml.len, &options, arena, &messages);
	check_messages(messages);
	check_true("no plan exactly when there is a fatal message",
			   (plan == NULL) == (count_messages(messages, RULES_FATAL) > 0));
	if (deployable && plan == NULL && !has(vector, "hydration_fails"))
		fail_with_messages(messages);
	if (has(vector, "hydration_fails"))
	{
		check_true("refused since it cannot be run", plan == NULL &&
				   messages->error.code == SYNC_ERROR_UNSUPPORTED);
		return NULL;
	}
	check_int("deployable", plan != NULL, deployable);
	if (!deployable || plan == NULL)
		return NULL;
	check_int("warnings", count_messages(messages, RULES_WARNING),
			  count_warnings(need(vector, "expect_errors")));
	return plan;
}

static void
run_case(const JsonNode *vector, SyncArena *arena)
{
	const SyncPlan *plan = compile_case(vector, arena);

	if (plan == NULL)
		return;
	check_stored_plan(plan, vector, arena);
	run_plan(plan, vector, arena);
}

static void
run_file(const char *name, const JsonNode *root, SyncArena *arena)
{
	(void) name;
	for (const JsonNode *vector = need(root, "cases")->first; vector != NULL; vector = vector->next)
	{
		SyncString	id = as_text(member(vector, "id"));

		case_begin("%.*s", (int) id.len, id.data);
		run_case(vector, arena);
		case_end();
	}
}

int
main(int argc, char **argv)
{
	return vectors_main(argc, argv, run_file);
}
