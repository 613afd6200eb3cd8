/*-------------------------------------------------------------------------
 *
 * fuzz_json.c
 *	  A path and a document, with a NUL between them, through everything that
 *	  reads JSON.  What is written of a document reads back as the same.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "fuzz.h"
#include "json.h"
#include "text.h"

static SyncString
compact(const JsonNode *node, SyncArena *arena)
{
	SyncBuffer	buffer;

	buffer_init(&buffer, arena, 64);
	json_append_node(&buffer, node);
	return buffer_string(&buffer);
}

static void
read_back(SyncString text, JsonNumbers numbers, SyncArena *arena)
{
	SyncError	error;
	const JsonNode *node = json_parse(text, numbers, arena, &error);
	SyncString	written;

	if (node == NULL)
	{
		fuzz_check_error(&error);
		return;
	}
	written = compact(node, arena);
	fuzz_check_json(written, "what is written is JSON");
	node = json_parse(written, numbers == JSON_NUMBERS_EXACT ? numbers : JSON_NUMBERS_WRITTEN, arena,
					  &error);
	/* exact reading refuses the Infinity that 1e400 became */
	if (node == NULL)
	{
		fuzz_check(numbers == JSON_NUMBERS_EXACT, "what is written can be read");
		return;
	}
	fuzz_check_same(compact(node, arena), written, "what is written reads back as the same");
	json_node_value(node, arena);
	json_node_raw_value(node, arena);
}

static void
use(SyncString path, SyncString document, SyncArena *arena)
{
	SyncValue	p = value_text(path.data, path.len);
	SyncValue	d = value_text(document.data, document.len);
	SyncValue	result;
	SyncError	error;

	for (int op = JSON_GET; op <= JSON_EXTRACT; op++)
	{
		for (int fixed = 0; fixed <= 1; fixed++)
		{
			if (!json_get((JsonOperator) op, fixed, d, p, arena, &result, &error))
				fuzz_check_error(&error);
			else if (result.type == SYNC_TEXT)
				fuzz_check(text_utf16_length(result.data, result.len) <= result.len,
						   "a text has no more units than bytes");
		}
	}
	if (!json_count_elements(true, d, &p, arena, &result, &error))
		fuzz_check_error(&error);
	if (!json_count_elements(false, d, NULL, arena, &result, &error))
		fuzz_check_error(&error);
	if (!json_keys(d, arena, &result, &error))
		fuzz_check_error(&error);
	result = json_valid(d, arena);
	fuzz_check(result.type == SYNC_INTEGER, "json_valid() says yes or no");
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	SyncArena  *arena = fuzz_arena(FUZZ_MEMORY);
	const uint8_t *split = size > 0 ? memchr(data, 0, size) : NULL;
	size_t		at = split == NULL ? 0 : (size_t) (split - data);
	SyncString	path = text_from_bytes((const char *) data, at, arena);
	SyncString	document;

	if (split != NULL)
		at++;
	document = text_from_bytes((const char *) data + at, size - at, arena);
	read_back(document, JSON_NUMBERS_EXACT, arena);
	read_back(document, JSON_NUMBERS_PLAIN, arena);
	read_back(document, JSON_NUMBERS_WRITTEN, arena);
	use(path, document, arena);
	arena_destroy(arena);
	return 0;
}
