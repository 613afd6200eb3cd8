/*-------------------------------------------------------------------------
 *
 * rules_plan.c
 *	  Conformance, kind "rules": the stored plan of edition 3.
 *
 * The plan must be equal in meaning: the order of an object's members does not
 * count, that of an array does, numbers are compared by value.  The first
 * difference is shown with its path.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <string.h>

#include "number.h"
#include "rules_plan.h"

#define PATH_SIZE	300

static double
number_of(const JsonNode *node)
{
	return node->value.type == SYNC_REAL ? node->value.real : integer_to_double(node->value);
}

static SyncString
text_of(const JsonNode *node, SyncArena *arena)
{
	SyncBuffer	buffer;

	buffer_init(&buffer, arena, 100);
	if (node == NULL)
		buffer_append(&buffer, "nothing", 7);
	else
		json_append_node(&buffer, node);
	return buffer_string(&buffer);
}

static bool
differ(const char *path, const JsonNode *got, const JsonNode *expected, SyncArena *arena)
{
	check_text(path, text_of(got, arena), text_of(expected, arena));
	return false;
}

static bool
equal(const char *path, const JsonNode *got, const JsonNode *expected, SyncArena *arena)
{
	char		inner[PATH_SIZE];
	const JsonNode *a;
	const JsonNode *b;
	int			i = 0;

	if (got == NULL || expected == NULL || got->kind != expected->kind)
		return differ(path, got, expected, arena);
	switch (got->kind)
	{
		case JSON_NUMBER:
			return number_of(got) == number_of(expected) || differ(path, got, expected, arena);
		case JSON_STRING:
			return sync_string_equal(as_text(got), as_text(expected)) ||
				differ(path, got, expected, arena);
		case JSON_ARRAY:
			if (got->count != expected->count)
				return differ(path, got, expected, arena);
			for (a = got->first, b = expected->first; a != NULL; a = a->next, b = b->next)
			{
				snprintf(inner, sizeof(inner), "%s[%d]", path, i++);
				if (!equal(inner, a, b, arena))
					return false;
			}
			return true;
		case JSON_OBJECT:
			for (b = expected->first; b != NULL; b = b->next)
			{
				snprintf(inner, sizeof(inner), "%s.%.*s", path, (int) b->key.len, b->key.data);
				if (!equal(inner, json_member(got, b->key), b, arena))
					return false;
			}
			return got->count == expected->count || differ(path, got, expected, arena);
		default:
			return true;
	}
}

void
check_stored_plan(const SyncPlan *plan, const JsonNode *vector, SyncArena *arena)
{
	const JsonNode *expected = member(vector, "serialized_plan");
	const JsonNode *wrapper;
	SyncError	error;
	SyncString	json;
	size_t		len;

	json.data = plan_stored_json(plan, &len);
	json.len = (uint32_t) len;
	if (!check_true("there is a stored plan for edition 3 only",
					(json.data != NULL) == !is_null(expected)) || json.data == NULL)
		return;
	wrapper = json_parse(json, JSON_NUMBERS_EXACT, arena, &error);
	if (wrapper == NULL)
		case_fail("the stored plan is not JSON: %s", error.message);
	else
		equal("plan", need(wrapper, "plan"), expected, arena);
}
