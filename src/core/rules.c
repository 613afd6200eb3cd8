/*-------------------------------------------------------------------------
 *
 * rules.c
 *	  Compiles a sync config: the entry point of rules.h that calls the reader
 *	  and the compilers of the front ends.
 *
 * Invariant: a plan is returned only if no fatal message was reported.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "compile.h"

/* what is reported when there is no memory for a message: constants, never written */
static const RulesMessage out_of_memory = {
	.level = RULES_FATAL,
	.error = {
		.code = SYNC_ERROR_OUT_OF_MEMORY,
		.message = "out of memory while the sync rules were compiled",
	},
};

static const RulesMessage too_large = {
	.level = RULES_FATAL,
	.error = {
		.code = SYNC_ERROR_LIMIT,
		.message = "the sync rules take too much memory to compile",
		.hint = "Make them shorter or simpler.",
	},
};

static const RulesMessage cancelled = {
	.level = RULES_FATAL,
	.error = {
		.code = SYNC_ERROR_CANCELLED,
		.message = "compiling the sync rules was cancelled",
	},
};

/* the plan's arrays, with room for every query of the config */
static SyncPlan *
plan_new(const SyncConfig *config, SyncArena *arena)
{
	SyncPlan   *plan = arena_new(arena, SyncPlan);
	size_t		data_count = 0;
	size_t		parameter_count = 0;
	size_t		payload_count = 0;

	for (int i = 0; i < config->bucket_count; i++)
	{
		data_count += (size_t) config->buckets[i].data.count;
		parameter_count += (size_t) config->buckets[i].parameters.count;
	}
	for (int i = 0; i < config->event_count; i++)
		payload_count += (size_t) config->events[i].payloads.count;
	plan->compatibility = config->compatibility;
	plan->storage_version = config->storage_version;
	plan->sources = arena_array(arena, PlanSource, data_count + 1);
	plan->buckets = arena_array(arena, PlanBucket, (size_t) config->bucket_count);
	plan->indexes = arena_array(arena, PlanIndex, parameter_count + 1);
	plan->tables = arena_array(arena, TablePattern, data_count + parameter_count + payload_count);
	return plan;
}

static const SyncPlan *
compile(RulesReport *report, const RulesOptions *options)
{
	const SyncConfig *config = config_read(report);
	const char *schema = options->default_schema != NULL ? options->default_schema : "public";
	Compiler	compiler = {.arena = report->arena, .report = report, .config = config};

	if (config == NULL)
		return NULL;
	compiler.default_schema.len = (uint32_t) strlen(schema);
	compiler.default_schema.data = arena_strndup(report->arena, schema, compiler.default_schema.len);
	compiler.plan = plan_new(config, report->arena);
	compile_bucket_definitions(&compiler);
	compile_events(&compiler);
	if (config->compatibility.edition == 2)
		compile_alpha_streams(&compiler);
	else if (config->compatibility.edition == 3)
		compiler.plan = compile_streams(&compiler, options);
	return report->fatal_count == 0 ? compiler.plan : NULL;
}

const SyncPlan *
rules_compile(const char *yaml, size_t len, const RulesOptions *options, SyncArena *arena,
			  const RulesMessage **messages)
{
	RulesReport report;
	ArenaGuard	guard;
	ArenaWork	outer;
	const SyncPlan *volatile plan = NULL;
	const RulesMessage *volatile failure = NULL;

	report_init(&report, arena, yaml, len);
	arena_work_begin(arena, &outer, RULES_MAX_BYTES, options->cancel);
	arena_guard_push(arena, &guard);
	if (setjmp(guard.jump) == 0)
		plan = compile(&report, options);
	else
		failure = arena_cancelled(arena) ? &cancelled :
			arena_limit_reached(arena) ? &too_large : &out_of_memory;
	arena_guard_pop(arena, &guard);
	arena_work_end(arena, &outer);
	*messages = failure != NULL ? failure : report.first;
	return failure != NULL ? NULL : plan;
}
