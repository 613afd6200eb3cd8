/*-------------------------------------------------------------------------
 *
 * check.c
 *	  Checks that abort, for fuzz programs.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "text.h"

void
fuzz_check(bool holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "does not hold: %s\n", what);
	abort();
}

void
fuzz_check_same(SyncString a, SyncString b, const char *what)
{
	if (sync_string_equal(a, b))
		return;
	fprintf(stderr, "one:   %.*s\nother: %.*s\n", (int) a.len, a.data, (int) b.len, b.data);
	fuzz_check(false, what);
}

SyncArena *
fuzz_arena(size_t budget)
{
	SyncArena  *arena = arena_create(budget);

	fuzz_check(arena != NULL, "there is memory for an arena");
	return arena;
}

uint64_t
fuzz_hash(const uint8_t *data, size_t size)
{
	uint64_t	hash = UINT64_C(14695981039346656037);

	for (size_t i = 0; i < size; i++)
		hash = (hash ^ data[i]) * UINT64_C(1099511628211);
	return hash ^ hash >> 29;
}

void
fuzz_check_error(const SyncError *error)
{
	fuzz_check(error->code != SYNC_OK, "an error has a code");
	fuzz_check(error->message[0] != '\0', "an error has a text");
	fuzz_check(utf8_is_valid(error->message, strlen(error->message)), "an error's text is UTF-8");
	fuzz_check(utf8_is_valid(error->hint, strlen(error->hint)), "a hint is UTF-8");
}

/* ---------------------------------------------------------------- JSON */

typedef struct Json
{
	const unsigned char *at;
	const unsigned char *end;
} Json;

static bool
json_take(Json *json, const char *word)
{
	size_t		len = strlen(word);

	if ((size_t) (json->end - json->at) < len || memcmp(json->at, word, len) != 0)
		return false;
	json->at += len;
	return true;
}

static bool
json_digits(Json *json)
{
	const unsigned char *start = json->at;

	while (json->at < json->end && *json->at >= '0' && *json->at <= '9')
		json->at++;
	return json->at > start;
}

static bool
json_number(Json *json)
{
	if (json_take(json, "NaN"))
		return true;
	json_take(json, "-");
	if (json_take(json, "Infinity"))
		return true;
	if (!json_take(json, "0") && !json_digits(json))
		return false;
	if (json_take(json, ".") && !json_digits(json))
		return false;
	if (json_take(json, "e"))
	{
		if (!json_take(json, "+"))
			json_take(json, "-");
		return json_digits(json);
	}
	return true;
}

static bool
json_string(Json *json)
{
	if (!json_take(json, "\""))
		return false;
	while (json->at < json->end && *json->at != '"')
	{
		if (*json->at < 0x20)
			return false;
		if (*json->at++ != '\\')
			continue;
		if (json->at == json->end || strchr("\"\\bfnrtu", *json->at) == NULL)
			return false;
		if (*json->at++ != 'u')
			continue;
		for (int i = 0; i < 4; i++, json->at++)
		{
			if (json->at == json->end || *json->at == '\0' ||
				strchr("0123456789abcdef", *json->at) == NULL)
				return false;
		}
	}
	return json_take(json, "\"");
}

/* no deeper than the product's own limit, so recursion is safe */
static bool
json_value(Json *json)
{
	bool		object;
	const char *close;

	if (json->at == json->end)
		return false;
	if (*json->at == '"')
		return json_string(json);
	if (json_take(json, "null") || json_take(json, "true") || json_take(json, "false"))
		return true;
	object = *json->at == '{';
	if (!object && *json->at != '[')
		return json_number(json);
	close = object ? "}" : "]";
	json->at++;
	if (json_take(json, close))
		return true;
	do
	{
		if (object && (!json_string(json) || !json_take(json, ":")))
			return false;
		if (!json_value(json))
			return false;
	} while (json_take(json, ","));
	return json_take(json, close);
}

void
fuzz_check_json(SyncString text, const char *what)
{
	Json		json = {(const unsigned char *) text.data,
	(const unsigned char *) text.data + text.len};

	if (!utf8_is_valid(text.data, text.len) || !json_value(&json) || json.at != json.end)
	{
		fprintf(stderr, "%.*s\n", (int) text.len, text.data);
		fuzz_check(false, what);
	}
}
