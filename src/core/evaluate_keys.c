/*-------------------------------------------------------------------------
 *
 * evaluate_keys.c
 *	  Which sets of key values a row has by a query's WHERE (sync-rules.md,
 *	  3.3 and 4), and the rows that JSON in it expands to (7.3.1).
 *
 * Does not know what the keys are for.
 *
 * Invariant: no row makes more than MAX_SETS sets or combinations.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "evaluate.h"
#include "json.h"

/* ---------------------------------------------------------------- match */

/* a set in the making: pairs in the order in which they were put in */
typedef struct MatchSet
{
	int			count;
	int		   *keys;
	SyncValue  *values;
} MatchSet;

typedef struct MatchList
{
	int			count;
	int			capacity;
	MatchSet   *sets;
} MatchList;

static bool
list_append(Evaluation *evaluation, MatchList *list, MatchSet set)
{
	if (list->count == list->capacity)
	{
		int			capacity = list->capacity == 0 ? 4 : list->capacity * 2;

		if (list->count >= MAX_SETS)
		{
			sync_error_set(&evaluation->error, SYNC_ERROR_LIMIT,
						   "the row is in more than %d combinations of one query", MAX_SETS);
			return false;
		}
		list->sets = arena_grow(evaluation->context.arena, list->sets,
								sizeof(MatchSet) * (size_t) list->capacity,
								sizeof(MatchSet) * (size_t) capacity);
		list->capacity = capacity;
	}
	list->sets[list->count++] = set;
	return true;
}

static MatchSet
set_single(Evaluation *evaluation, int key, SyncValue value)
{
	MatchSet	set = {.count = 1};

	set.keys = arena_new(evaluation->context.arena, int);
	set.values = arena_new(evaluation->context.arena, SyncValue);
	*set.keys = key;
	*set.values = value;
	return set;
}

/*
 * The left set, and the right one's values in order up to the first that
 * contradicts the left one: the service meant to drop such a set but does not
 * (sync-rules.md, 3.3).
 */
static MatchSet
set_combine(Evaluation *evaluation, const MatchSet *left, const MatchSet *right)
{
	SyncArena  *arena = evaluation->context.arena;
	MatchSet	set = *left;

	if (right->count == 0)
		return set;
	set.keys = arena_array(arena, int, (size_t) (left->count + right->count));
	set.values = arena_array(arena, SyncValue, (size_t) (left->count + right->count));
	if (left->count > 0)
	{
		memcpy(set.keys, left->keys, sizeof(int) * (size_t) left->count);
		memcpy(set.values, left->values, sizeof(SyncValue) * (size_t) left->count);
	}
	for (int i = 0; i < right->count; i++)
	{
		int			at = 0;

		while (at < set.count && set.keys[at] != right->keys[i])
			at++;
		if (at < set.count && !value_loosely_equal(set.values[at], right->values[i]))
			break;
		set.keys[at] = right->keys[i];
		set.values[at] = right->values[i];
		if (at == set.count)
			set.count++;
	}
	return set;
}

static bool match_evaluate(Evaluation *evaluation, const PlanMatch *match, MatchList *list);

static bool
match_and(Evaluation *evaluation, const PlanMatch *match, MatchList *list)
{
	MatchList	sets = {0};

	/* all are evaluated: a failing one fails the row even where another is false */
	for (int i = 0; i < match->child_count; i++)
	{
		MatchList	right = {0};
		MatchList	both = {0};

		if (!match_evaluate(evaluation, match->children[i], &right))
			return false;
		if (i == 0)
		{
			sets = right;
			continue;
		}
		for (int l = 0; l < sets.count; l++)
		{
			for (int r = 0; r < right.count; r++)
			{
				if (!list_append(evaluation, &both,
								 set_combine(evaluation, &sets.sets[l], &right.sets[r])))
					return false;
			}
		}
		sets = both;
	}
	*list = sets;
	return true;
}

static bool
match_or(Evaluation *evaluation, const PlanMatch *match, MatchList *list)
{
	for (int i = 0; i < match->child_count; i++)
	{
		MatchList	sets = {0};

		if (!match_evaluate(evaluation, match->children[i], &sets))
			return false;
		for (int s = 0; s < sets.count; s++)
		{
			if (!list_append(evaluation, list, sets.sets[s]))
				return false;
		}
	}
	return true;
}

/* the array of MATCH_ELEMENTS, MATCH_OVERLAP, MATCH_MEMBERS; *array NULL: no elements */
static bool
match_array(Evaluation *evaluation, const PlanMatch *match, SyncValue value,
			const JsonNode **array)
{
	JsonNumbers numbers = match->kind == MATCH_MEMBERS ? JSON_NUMBERS_EXACT : JSON_NUMBERS_PLAIN;

	*array = NULL;
	if (match->kind == MATCH_OVERLAP ? value.type == SYNC_BLOB : value_is_null(value))
		return true;
	if (value.type == SYNC_TEXT)
	{
		*array = json_parse((SyncString) {value.data, value.len}, numbers,
							evaluation->context.arena, &evaluation->error);
		if (*array == NULL)
			return false;
	}
	if (*array == NULL || (*array)->kind != JSON_ARRAY)
	{
		sync_error_set(&evaluation->error, SYNC_ERROR_VALUE, match->kind == MATCH_ELEMENTS ?
					   "IN needs a JSON array on its right side" : "&& needs a JSON array");
		return false;
	}
	return true;
}

/* param IN row: one set for each element, as it is (sync-rules.md, 3.3) */
static bool
match_elements(Evaluation *evaluation, const PlanMatch *match, SyncValue value, MatchList *list)
{
	SyncArena  *arena = evaluation->context.arena;
	const JsonNode *array;

	if (!match_array(evaluation, match, value, &array))
		return false;
	if (array == NULL)
		return true;
	for (const JsonNode *element = array->first; element != NULL; element = element->next)
	{
		if (!list_append(evaluation, list,
						 set_single(evaluation, match->key, match->kind == MATCH_MEMBERS ?
									json_node_value(element, arena) :
									json_node_raw_value(element, arena))))
			return false;
	}
	return true;
}

/* whether a row's value can stand for a key */
static bool
key_value_counts(MatchKind kind, SyncValue value)
{
	if (value.type == SYNC_BLOB)
		return false;
	return kind == MATCH_VALUE || !value_is_null(value);
}

/* appends the match's sets to list, which is empty */
static bool
match_evaluate(Evaluation *evaluation, const PlanMatch *match, MatchList *list)
{
	SyncValue	value;

	if (match->kind == MATCH_AND)
		return match_and(evaluation, match, list);
	if (match->kind == MATCH_OR)
		return match_or(evaluation, match, list);
	if (!expr_evaluate(match->expr, &evaluation->context, &value))
		return false;
	switch (match->kind)
	{
		case MATCH_CONDITION:
			if (!value_is_true(value))
				return true;
			return list_append(evaluation, list, (MatchSet) {0});
		case MATCH_ELEMENTS:
		case MATCH_OVERLAP:
		case MATCH_MEMBERS:
			return match_elements(evaluation, match, value, list);
		default:
			if (!key_value_counts(match->kind, value))
				return true;
			return list_append(evaluation, list, set_single(evaluation, match->key, value));
	}
}

static bool
keys_of_match(Evaluation *evaluation, const BoundSource *source, KeySets *keys)
{
	MatchList	list = {0};

	if (!match_evaluate(evaluation, source->match, &list))
		return false;
	keys->set_count = list.count;
	keys->values = arena_array(evaluation->context.arena, SyncValue,
							   (size_t) list.count * (size_t) source->key_count);
	for (int s = 0; s < list.count; s++)
	{
		SyncValue  *values = keys->values + (size_t) s * (size_t) source->key_count;

		for (int i = 0; i < list.sets[s].count; i++)
			values[list.sets[s].keys[i]] = list.sets[s].values[i];
	}
	return true;
}

bool
conditions_evaluate(Evaluation *evaluation, const BoundSource *source, bool *matches)
{
	SyncValue	value;

	*matches = true;
	for (int i = 0; i < source->condition_count; i++)
	{
		if (!expr_evaluate(source->conditions[i], &evaluation->context, &value))
			return false;
		*matches = value_is_true(value) && *matches;
		if (!*matches && source->rules != SOURCE_LEGACY)
			return true;
	}
	return true;
}

bool
values_evaluate(Evaluation *evaluation, const BoundSource *source, KeySets *keys, bool *counts)
{
	*counts = true;
	if (source->key_count > 0)
		keys->values = arena_array(evaluation->context.arena, SyncValue,
								   (size_t) source->key_count);
	for (int i = 0; i < source->key_count; i++)
	{
		if (!expr_evaluate(source->keys[i]->expr, &evaluation->context, &keys->values[i]))
			return false;
		*counts = key_value_counts(source->keys[i]->kind, keys->values[i]) && *counts;
	}
	return true;
}

/* ---------------------------------------------------------------- alpha */

/* the values of one key; usually one */
typedef struct KeyValues
{
	uint32_t	count;
	SyncValue  *values;
	SyncValue	single;
} KeyValues;

/* one row's comparison with a parameter (sync-rules.md, 4) */
static bool
key_values(Evaluation *evaluation, const PlanMatch *match, KeyValues *values)
{
	SyncArena  *arena = evaluation->context.arena;
	const JsonNode *array;
	SyncValue	value;

	if (!expr_evaluate(match->expr, &evaluation->context, &value))
		return false;
	if (match->kind == MATCH_EQUAL || match->kind == MATCH_VALUE)
	{
		values->single = value_normalize_lookup(value, arena);
		values->values = &values->single;
		values->count = key_value_counts(match->kind, value);
		return true;
	}
	if (!match_array(evaluation, match, value, &array))
		return false;
	if (array == NULL)
		return true;
	values->values = arena_array(arena, SyncValue, array->count);
	for (const JsonNode *element = array->first; element != NULL; element = element->next)
	{
		if (match->kind == MATCH_MEMBERS)
			value = json_node_value(element, arena);
		else if (element->kind != JSON_NULL)
			value = json_node_raw_value(element, arena);
		else
			continue;
		values->values[values->count++] = value_normalize_lookup(value, arena);
	}
	return true;
}

/* all combinations, the first key slowest */
static void
combine_key_values(Evaluation *evaluation, const KeyValues *values, int key_count, KeySets *keys)
{
	size_t		repeat = (size_t) keys->set_count;
	size_t		count = (size_t) keys->set_count;

	keys->values = arena_array(evaluation->context.arena, SyncValue, count * (size_t) key_count);
	for (int i = 0; i < key_count; i++)
	{
		repeat /= values[i].count;
		for (size_t s = 0; s < count; s++)
			keys->values[s * (size_t) key_count + (size_t) i] =
				values[i].values[s / repeat % values[i].count];
	}
}

static bool
alpha_keys_evaluate(Evaluation *evaluation, const BoundSource *source, KeySets *keys)
{
	KeyValues  *values;
	size_t		count = 1;
	bool		matches;

	if (!conditions_evaluate(evaluation, source, &matches))
		return false;
	if (!matches)
		return true;
	values = arena_array(evaluation->context.arena, KeyValues, (size_t) source->key_count);
	for (int i = 0; i < source->key_count; i++)
	{
		if (!key_values(evaluation, source->keys[i], &values[i]))
			return false;
		if (values[i].count == 0)
			return true;
		count *= values[i].count;
		if (count > MAX_SETS)
		{
			sync_error_set(&evaluation->error, SYNC_ERROR_LIMIT,
						   "the row is in more than %d combinations of one query", MAX_SETS);
			return false;
		}
	}
	keys->set_count = (int) count;
	if (source->key_count > 0)
		combine_key_values(evaluation, values, source->key_count, keys);
	return true;
}

/* ---------------------------------------------------------------- both */

bool
keys_evaluate(Evaluation *evaluation, const BoundSource *source, KeySets *keys)
{
	bool		matches;
	bool		counts;

	if (source->rules == SOURCE_ALPHA)
		return alpha_keys_evaluate(evaluation, source, keys);
	if (source->match != NULL)
		return keys_of_match(evaluation, source, keys);
	if (!conditions_evaluate(evaluation, source, &matches) ||
		!values_evaluate(evaluation, source, keys, &counts))
		return false;
	keys->set_count = matches && counts ? 1 : 0;
	return true;
}

/* ---------------------------------------------------------------- expansions */

/* the rows of one json_each() */
typedef struct Expansion
{
	uint32_t	count;
	ExpandedRow *rows;
	uint32_t	at;				/* the present one */
} Expansion;

/* without fixed_json_extract, null inside a document is a text */
static SyncValue
element_value(const Evaluation *evaluation, const JsonNode *element)
{
	if (element->kind == JSON_NULL && !evaluation->context.fixed_json)
		return value_string(sync_string_literal("null"));
	return json_node_value(element, evaluation->context.arena);
}

/*
 * sync-rules.md, 7.3.1.  NULL has no rows; what the table does not have, or is
 * neither NULL nor text, is an error.
 */
static bool
expansion_evaluate(Evaluation *evaluation, const Expr *input, Expansion *expansion)
{
	SyncArena  *arena = evaluation->context.arena;
	const JsonNode *node;
	SyncValue	value;

	if (!expr_evaluate(input, &evaluation->context, &value))
		return false;
	if (value.type == SYNC_NULL)
		return true;
	if (value.type != SYNC_TEXT)
	{
		sync_error_set(&evaluation->error, SYNC_ERROR_VALUE, "json_each() needs JSON text");
		return false;
	}
	node = json_parse((SyncString) {value.data, value.len}, JSON_NUMBERS_PLAIN, arena,
					  &evaluation->error);
	if (node == NULL)
		return false;
	if (node->kind != JSON_ARRAY && node->kind != JSON_OBJECT)
	{
		expansion->count = 1;
		expansion->rows = arena_new(arena, ExpandedRow);
		expansion->rows->key = value_null();
		expansion->rows->value = element_value(evaluation, node);
		return true;
	}
	expansion->rows = arena_array(arena, ExpandedRow, node->count);
	for (const JsonNode *element = node->first; element != NULL; element = element->next)
	{
		ExpandedRow *row = &expansion->rows[expansion->count];

		row->key = node->kind == JSON_ARRAY ? value_integer(expansion->count) :
			value_string(element->key);
		row->value = element_value(evaluation, element);
		expansion->count++;
	}
	return true;
}

/* goes to the next combination, the last expansion fastest; false at the end */
static bool
expansions_next(const BoundSource *source, Expansion *expansions, const ExpandedRow **present)
{
	for (int i = source->expansion_count - 1; i >= 0; i--)
	{
		Expansion  *expansion = &expansions[i];

		if (++expansion->at < expansion->count)
		{
			present[i] = &expansion->rows[expansion->at];
			return true;
		}
		expansion->at = 0;
		present[i] = &expansion->rows[0];
	}
	return false;
}

bool
for_each_combination(Evaluation *evaluation, const BoundSource *source, CombinationBody body,
					 void *arg)
{
	Expansion  *expansions;
	const ExpandedRow **present;
	size_t		combinations = 1;

	if (source->expansion_count == 0)
		return body(evaluation, source, arg);
	expansions = arena_array(evaluation->context.arena, Expansion,
							 (size_t) source->expansion_count);
	present = arena_array(evaluation->context.arena, const ExpandedRow *,
						  (size_t) source->expansion_count);
	for (int i = 0; i < source->expansion_count; i++)
	{
		if (!expansion_evaluate(evaluation, source->expansions[i], &expansions[i]))
			return false;
		present[i] = expansions[i].rows;
		combinations *= expansions[i].count;
		if (combinations > MAX_SETS)
		{
			sync_error_set(&evaluation->error, SYNC_ERROR_LIMIT,
						   "the row has more than %d combinations of JSON elements", MAX_SETS);
			return false;
		}
	}
	if (combinations == 0)
		return true;
	evaluation->context.expanded = present;
	do
	{
		if (!body(evaluation, source, arg))
			return false;
	} while (expansions_next(source, expansions, present));
	return true;
}
