/*-------------------------------------------------------------------------
 *
 * fuzz_printed.c
 *	  A type and a text, with a NUL between them: what PostgreSQL may have printed,
 *	  and what it never would.
 *
 *	  The type is made of the bytes before the NUL.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "fuzz.h"
#include "printed.h"
#include "text.h"

#define DEEPEST		6
#define MOST_MEMBERS	4

/* json is left out: it stands in other JSON as it is, and the server lets only JSON in */
static const PrintedKind scalars[] = {PRINTED_TEXT, PRINTED_BOOL, PRINTED_INTEGER, PRINTED_REAL,
	PRINTED_BYTEA, PRINTED_DATE, PRINTED_TIME, PRINTED_TIMESTAMP, PRINTED_TIMESTAMPTZ,
PRINTED_LSN};

static const PrintedType *
make_type(FuzzSource *source, int depth, SyncArena *arena)
{
	static const SyncString names[MOST_MEMBERS] = {sync_string_literal("a"),
		sync_string_literal("10"), sync_string_literal("b \"c\""), sync_string_literal("9")};
	PrintedType *type = arena_new(arena, PrintedType);
	uint32_t	choice = fuzz_byte(source);

	if (depth >= DEEPEST || choice % 3 == 0)
	{
		type->kind = scalars[choice / 3 % (sizeof(scalars) / sizeof(scalars[0]))];
		return type;
	}
	type->kind = PRINTED_ARRAY + choice / 3 % 4;
	type->delimiter = choice & 0x40 ? ';' : ',';
	if (type->kind == PRINTED_COMPOSITE)
	{
		const PrintedType **members = arena_array(arena, const PrintedType *, MOST_MEMBERS);
		int		   *order = arena_array(arena, int, MOST_MEMBERS);

		type->member_count = (int) (fuzz_byte(source) % (MOST_MEMBERS + 1));
		for (int i = 0; i < type->member_count; i++)
			members[i] = make_type(source, depth + 1, arena);
		type->names = names;
		type->members = members;
		if (printed_order_members(type, order))
			type->order = order;
	}
	else
		type->element = make_type(source, depth + 1, arena);
	return type;
}

static void
use(const PrintedType *type, const PrintedOptions *options, SyncString text, SyncArena *arena)
{
	SyncValue	value;
	SyncValue	again;
	SyncError	error = {0};
	SyncError	same = {0};
	bool		ok = printed_value(type, options, text, arena, &value, &error);

	fuzz_check(printed_value(type, options, text, arena, &again, &same) == ok,
			   "the same comes out again");
	if (!ok)
	{
		fuzz_check_error(&error);
		return;
	}
	fuzz_check(value.type == again.type && value.len == again.len, "the same comes out again");
	if (value.type != SYNC_TEXT)
		return;
	fuzz_check(memcmp(value.data, again.data, value.len) == 0, "the same comes out again");
	fuzz_check(utf8_is_valid(value.data, value.len), "a text is well-formed");
	if (type->kind >= PRINTED_ARRAY && value.data != text.data)
	{
		fuzz_check_json((SyncString) {value.data, value.len}, "what is read is JSON");
		fuzz_check(options->limit == 0 || value.len <= options->limit + 4096,
				   "the JSON is within its limit");
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const PrintedOptions options[] = {
		{.fraction_digits = 6},
		{.iso8601 = true,.fraction_digits = 6},
		{.iso8601 = true,.fraction_digits = 0,.limit = 200},
	};
	SyncArena  *arena = fuzz_arena(FUZZ_MEMORY);
	const uint8_t *split = size > 0 ? memchr(data, 0, size) : NULL;
	size_t		at = split == NULL ? 0 : (size_t) (split - data);
	FuzzSource	source = fuzz_source(data, at);
	const PrintedType *type = make_type(&source, 0, arena);
	SyncString	text;

	if (split != NULL)
		at++;
	text = text_from_bytes((const char *) data + at, size - at, arena);
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		use(type, &options[i], text, arena);
	arena_destroy(arena);
	return 0;
}
