/*-------------------------------------------------------------------------
 *
 * fuzz_sql.c
 *	  Any text as SQL: sql_parse(), again with little memory.  Every offset in
 *	  the tree lies in the text.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "fuzz.h"
#include "sql.h"

static void
check_statements(const SqlScript *script)
{
	int			count = 0;

	for (const SqlStatement *s = script->first; s != NULL; s = s->next)
	{
		int			line;
		int			column;

		count++;
		fuzz_check(s->offset <= s->end && s->end <= script->len, "a statement lies in the text");
		fuzz_check(s->height <= SQL_MAX_HEIGHT, "no tree is higher than the limit");
		sql_position(script, s->offset, &line, &column);
		fuzz_check(line > 0 && column > 0, "an offset has a place");
		if (s->kind != SQL_SELECT)
			continue;
		for (int i = 0; i < s->select->item_count; i++)
			fuzz_check(s->select->items[i].expr->offset <= script->len, "an item lies in the text");
		if (s->select->where != NULL)
			fuzz_check(s->select->where->offset < script->len, "WHERE lies in the text");
	}
	fuzz_check(count == script->count, "statements are counted");
}

static bool
parse(const char *text, size_t size, size_t budget, size_t *used)
{
	SyncArena  *arena = arena_create(budget);
	const SqlScript *volatile script = NULL;
	volatile bool failed = false;
	SyncError	error;
	ArenaGuard	guard;

	if (arena == NULL)
		return false;
	arena_guard_push(arena, &guard);
	if (setjmp(guard.jump) == 0)
	{
		script = sql_parse(text, size, arena, arena, &error);
		if (script != NULL)
			check_statements(script);
		else
			fuzz_check_error(&error);
	}
	else
		failed = true;
	arena_guard_pop(arena, &guard);
	*used = arena_used(arena);
	arena_destroy(arena);
	return !failed && script != NULL;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t		used;
	size_t		ignored;
	bool		parses = parse((const char *) data, size, FUZZ_MEMORY, &used);

	if (parse((const char *) data, size, fuzz_hash(data, size) % (used + 1), &ignored))
		fuzz_check(parses, "little memory does not make a bad text good");
	return 0;
}
