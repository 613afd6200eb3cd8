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
#include <stdio.h>
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

/* of all queries, also those with errors: which tables and columns they name, and where */
static const SyncPlan *
names_of(Compiler *compiler, SyncPlan *plan)
{
	size_t		count = 0;

	for (const PlanNote *note = plan->first_note; note != NULL; note = note->next)
		count += note->kind == NOTE_TABLE;
	plan->source_count = plan->bucket_count = plan->index_count = plan->table_count = 0;
	plan->tables = arena_array(compiler->arena, TablePattern, count);
	compiler->plan = plan;
	compiler->tables = (HashIndex) {.count = 0};
	for (const PlanNote *note = plan->first_note; note != NULL; note = note->next)
	{
		if (note->kind == NOTE_TABLE)
			compile_add_table(compiler, note->table);
	}
	return plan;
}

static const SyncPlan *
compile(RulesReport *report, const RulesOptions *options, SyncArena *scratch, SyncArena *streams)
{
	const SyncConfig *config = config_read(report);
	const char *schema = options->default_schema != NULL ? options->default_schema : "public";
	Compiler	compiler = {
		.arena = report->arena, .scratch = scratch, .streams = streams, .report = report,
		.config = config
	};
	SyncPlan   *plan;

	if (config == NULL)
		return NULL;
	compiler.default_schema.len = (uint32_t) strlen(schema);
	compiler.default_schema.data = arena_strndup(report->arena, schema, compiler.default_schema.len);
	plan = compiler.plan = plan_new(config, report->arena);
	compile_bucket_definitions(&compiler);
	compile_events(&compiler);
	if (config->compatibility.edition == 2)
		compile_alpha_streams(&compiler);
	else if (config->compatibility.edition == 3)
		compiler.plan = compile_streams(&compiler, options);
	if (report->fatal_count == 0)
		return compiler.plan;
	if (options->names != NULL)
		*options->names = names_of(&compiler, plan);
	return NULL;
}

/* all messages after a jump; too_large: memory for one */
static const RulesMessage *
failure_of(RulesReport *report, RulesMessage *too_large)
{
	char		text[sizeof(((SyncError *) 0)->message)];

	if (arena_cancelled(report->arena))
		return &cancelled;
	if (!arena_limit_reached(report->arena) || too_large == NULL)
		return &out_of_memory;
	snprintf(text, sizeof(text), "the sync rules take more than %d MB of memory to compile",
			 (int) (RULES_MAX_MEMORY / (1024 * 1024)));
	report_last(report, too_large, text, "Make them shorter or simpler.");
	return report->first;
}

/* the plan, or NULL; *messages receives all that is said */
static const SyncPlan *
compile_guarded(RulesReport *report, const RulesOptions *options, const RulesMessage **messages)
{
	SyncArena  *arena = report->arena;
	ArenaGuard	guard;
	SyncArena  *volatile scratch = NULL;
	SyncArena  *volatile streams = NULL;
	RulesMessage *volatile too_large = NULL;
	const SyncPlan *volatile plan = NULL;

	arena_guard_push(arena, &guard);
	if (setjmp(guard.jump) == 0)
	{
		too_large = arena_new(arena, RulesMessage);
		scratch = arena_create_child(arena);
		streams = arena_create_child(arena);
		plan = compile(report, options, scratch, streams);
		*messages = report->first;
	}
	else
		*messages = failure_of(report, too_large);
	arena_guard_pop(arena, &guard);
	arena_destroy(scratch);
	arena_destroy(streams);
	return plan;
}

const SyncPlan *
rules_compile(const char *yaml, size_t len, const RulesOptions *options, SyncArena *arena,
			  const RulesMessage **messages)
{
	RulesReport report;
	ArenaWork	outer;
	const SyncPlan *plan;

	report_init(&report, arena, yaml, len);
	if (options->names != NULL)
		*options->names = NULL;
	arena_work_begin(arena, &outer, RULES_MAX_MEMORY, options->cancel);
	plan = compile_guarded(&report, options, messages);
	arena_work_end(arena, &outer);
	return plan;
}
