/*-------------------------------------------------------------------------
 *
 * plans.c
 *	  Conformance, kind "plans": the stored plans in vectors of kind "rules".
 *
 * The cases of edition 3 come with the plan that the service stores.  Each is
 * read and run as when the service deployed the config; other cases are not
 * looked at.  A case that deploys but cannot be run must be refused.
 *
 *-------------------------------------------------------------------------
 */
#include "config.h"
#include "rules.h"
#include "rules_rows.h"
#include "vectors.h"

static void
append(SyncBuffer *buffer, SyncString s)
{
	buffer_append(buffer, s.data, s.len);
}

static void
append_flag(SyncBuffer *buffer, const char *name, bool value)
{
	append(buffer, literal("\""));
	append(buffer, literal(name));
	append(buffer, literal(value ? "\":true," : "\":false,"));
}

/* the wrapper that the service stores around a plan */
static SyncString
wrapper(const JsonNode *vector, SyncArena *arena)
{
	SyncString	yaml = as_text(need(vector, "sync_rules"));
	RulesReport report;
	const SyncConfig *config;
	SyncBuffer	buffer;

	report_init(&report, arena, yaml.data, yaml.len);
	config = config_read(&report);
	buffer_init(&buffer, arena, 4000);
	append(&buffer, literal("{\"plan\":"));
	json_append_node(&buffer, need(vector, "serialized_plan"));
	append(&buffer, literal(",\"compatibility\":{\"edition\":3,\"overrides\":{"));
	if (config == NULL)
		case_fail("the config cannot be read");
	else
	{
		append_flag(&buffer, "custom_postgres_types", config->compatibility.custom_postgres_types);
		append_flag(&buffer, "fixed_json_extract", config->compatibility.fixed_json_extract);
	}
	append(&buffer, literal("\"timestamps_iso8601\":true}},\"eventDescriptors\":{}}"));
	return buffer_string(&buffer);
}

static void
run_case(const JsonNode *vector, SyncArena *arena)
{
	SyncString	schema = as_text(need(vector, "default_schema"));
	RulesOptions options = {.default_schema = arena_strndup(arena, schema.data, schema.len)};
	SyncString	json = wrapper(vector, arena);
	const SyncPlan *plan;
	SyncError	error;

	plan = plan_read(json.data, json.len, &options, arena, &error);
	check_true("refused exactly when it cannot be run",
			   (plan == NULL) == has(vector, "hydration_fails"));
	if (plan != NULL)
		run_plan(plan, vector, arena);
	else
		check_int("refused as unsupported", error.code, SYNC_ERROR_UNSUPPORTED);
}

static void
run_file(const char *name, const JsonNode *root, SyncArena *arena)
{
	(void) name;
	for (const JsonNode *vector = need(root, "cases")->first; vector != NULL; vector = vector->next)
	{
		SyncString	id = as_text(member(vector, "id"));

		if (is_null(member(vector, "serialized_plan")))
			continue;
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
