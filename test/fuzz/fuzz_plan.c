/*-------------------------------------------------------------------------
 *
 * fuzz_plan.c
 *	  Any text as a stored plan of edition 3; what can be read is bound and run
 *	  on rows.
 *
 *-------------------------------------------------------------------------
 */
#include "fuzz.h"

static const SyncPlan *
read_plan(const uint8_t *data, size_t size, SyncArena *arena)
{
	RulesOptions options = {.default_schema = "public"};
	SyncError	error;
	const SyncPlan *plan = plan_read((const char *) data, size, &options, arena, &error);

	if (plan == NULL)
		fuzz_check_error(&error);
	return plan;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	SyncArena  *arena = fuzz_arena(FUZZ_MEMORY);
	const SyncPlan *plan = read_plan(data, size, arena);
	FuzzSource	source = fuzz_source(data + size, 0);
	SyncArena  *little;

	source.state = fuzz_hash(data, size) | 1;
	if (plan != NULL)
		fuzz_rows(plan, &source, 2);
	little = arena_create(fuzz_hash(data, size) % (arena_used(arena) + 1));
	if (little != NULL && read_plan(data, size, little) != NULL)
		fuzz_check(plan != NULL, "little memory makes no plan of a bad text");
	arena_destroy(little);
	arena_destroy(arena);
	return 0;
}
