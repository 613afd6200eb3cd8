/*-------------------------------------------------------------------------
 *
 * plan_of.c
 *	  Compiles sync configs for tests that are not in C: reads documents that
 *	  are separated by lines "%%" from standard input and prints for each either
 *	  "plan JSON" or "refused CODE LINE:COLUMN MESSAGE", on one line.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rules.h"

static void
compile(const char *yaml, size_t len)
{
	RulesOptions options = {.default_schema = "public"};
	SyncArena  *arena = arena_create(0);
	const RulesMessage *message;
	const RulesMessage *messages;
	const SyncPlan *plan;
	const char *json = NULL;
	size_t		json_len = 0;

	if (arena == NULL)
		exit(2);
	plan = rules_compile(yaml, len, &options, arena, &messages);
	if (plan != NULL)
		json = plan_stored_json(plan, &json_len);
	message = messages;
	while (message != NULL && message->level != RULES_FATAL)
		message = message->next;
	if (json != NULL)
		printf("plan %.*s\n", (int) json_len, json);
	else if (message != NULL)
		printf("refused %d %d:%d %s\n", message->error.code, message->error.line,
			   message->error.column, message->error.message);
	else
		printf("plan null\n");
	arena_destroy(arena);
}

int
main(void)
{
	size_t		capacity = 1 << 20;
	size_t		len = 0;
	size_t		got;
	char	   *all = malloc(capacity + 1);
	const char *start;

	while (all != NULL && (got = fread(all + len, 1, capacity - len, stdin)) > 0)
	{
		len += got;
		if (len == capacity)
			all = realloc(all, (capacity *= 2) + 1);
	}
	if (all == NULL)
		return 2;
	all[len] = '\0';
	for (start = all; start != NULL && *start != '\0';)
	{
		const char *end = strstr(start, "\n%%\n");

		compile(start, end != NULL ? (size_t) (end - start) + 1 : strlen(start));
		start = end != NULL ? end + 4 : NULL;
	}
	free(all);
	return 0;
}
