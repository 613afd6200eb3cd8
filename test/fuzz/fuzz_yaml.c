/*-------------------------------------------------------------------------
 *
 * fuzz_yaml.c
 *	  Any text as a sync config: rules_compile(), again with little memory.
 *
 *-------------------------------------------------------------------------
 */
#include "fuzz.h"

static bool
compile(const char *text, size_t size, size_t budget, size_t *used)
{
	SyncArena  *arena = arena_create(budget);
	RulesOptions options = {.default_schema = "public"};
	const RulesMessage *messages;
	const SyncPlan *plan;
	bool		fatal = false;
	bool		no_memory = false;

	if (arena == NULL)
		return false;
	plan = rules_compile(text, size, &options, arena, &messages);
	for (const RulesMessage *m = messages; m != NULL; m = m->next)
	{
		fuzz_check_error(&m->error);
		fatal |= m->level == RULES_FATAL;
		no_memory |= m->error.code == SYNC_ERROR_OUT_OF_MEMORY;
		if (m->error.code != SYNC_ERROR_OUT_OF_MEMORY && m->error.code != SYNC_ERROR_LIMIT)
			fuzz_check(m->error.line > 0 && m->error.column > 0, "a message has a place");
	}
	fuzz_check((plan == NULL) == fatal, "no plan exactly with a fatal message");
	*used = arena_used(arena);
	/* the arena itself is there whatever the budget */
	fuzz_check(*used <= budget || budget < 1000, "the budget is kept");
	arena_destroy(arena);
	return no_memory ? false : plan != NULL;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t		used;
	size_t		ignored;
	bool		compiles = compile((const char *) data, size, FUZZ_MEMORY, &used);

	if (compile((const char *) data, size, fuzz_hash(data, size) % (used + 1), &ignored))
		fuzz_check(compiles, "little memory makes no plan of a bad text");
	return 0;
}
