/*-------------------------------------------------------------------------
 *
 * fuzz_evaluate.c
 *	  A sync config, a NUL, and bytes that make the values of rows: compiled,
 *	  bound to every table it names, evaluated.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "fuzz.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *split = size > 0 ? memchr(data, 0, size) : NULL;
	size_t		len = split == NULL ? size : (size_t) (split - data);
	SyncArena  *arena = fuzz_arena(FUZZ_MEMORY);
	RulesOptions options = {.default_schema = "public"};
	const RulesMessage *messages;
	const SyncPlan *plan = rules_compile((const char *) data, len, &options, arena, &messages);
	FuzzSource	source = fuzz_source(data + len + (split != NULL), size - len - (split != NULL));

	if (plan != NULL)
		fuzz_rows(plan, &source, 3);
	arena_destroy(arena);
	return 0;
}
