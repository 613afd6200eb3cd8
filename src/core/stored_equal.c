/*-------------------------------------------------------------------------
 *
 * stored_equal.c
 *	  What is the same in a stored plan: sync-rules.md, 7.4 and 7.6.
 *
 * Sources are compared by structure: where they come from does not matter, the
 * order of their parts does.
 *
 * Invariant: equal things have equal hashes (stored_hash.c).
 *
 *-------------------------------------------------------------------------
 */
#include "stored_plan.h"

/* how it is decided whether two relations take the same place */
typedef enum PairingKind
{
	PAIR_SOURCES,				/* at the same position in sources a and b */
	PAIR_LOOKUPS,				/* on the query side: a lookup has one relation */
	PAIR_QUERY					/* of one query: the same, or called alike for the same rows */
} PairingKind;

typedef struct Pairing
{
	PairingKind kind;
	const StoredSource *a;
	const StoredSource *b;
} Pairing;

static bool expr_equal(const Pairing *pairing, const StoredExpr *a, const StoredExpr *b);

int
stored_function_position(const StoredSource *source, const StoredRelation *function)
{
	for (int i = 0; i < source->function_count; i++)
	{
		if (source->functions[i] == function)
			return i;
	}
	return -1;
}

static bool
relation_equal(const Pairing *pairing, const StoredRelation *a, const StoredRelation *b)
{
	if (a == b)
		return true;
	if (a == NULL || b == NULL || a->kind != b->kind)
		return false;
	switch (pairing->kind)
	{
		case PAIR_SOURCES:
			return a->kind == RELATION_TABLE ||
				stored_function_position(pairing->a, a) == stored_function_position(pairing->b, b);
		case PAIR_LOOKUPS:
			return true;
		default:
			return a->kind == RELATION_JSON_EACH && a->owner == b->owner &&
				expr_equal(pairing, a->input, b->input);
	}
}

static bool
exprs_equal(const Pairing *pairing, const StoredExpr *const *a, int a_count,
			const StoredExpr *const *b, int b_count)
{
	if (a_count != b_count)
		return false;
	for (int i = 0; i < a_count; i++)
	{
		if (!expr_equal(pairing, a[i], b[i]))
			return false;
	}
	return true;
}

static bool
expr_equal(const Pairing *pairing, const StoredExpr *a, const StoredExpr *b)
{
	if (a == b && pairing->kind != PAIR_SOURCES)
		return true;
	return a->kind == b->kind && sync_string_equal(a->text, b->text) &&
		a->number == b->number && a->has_operand == b->has_operand &&
		a->has_else == b->has_else && relation_equal(pairing, a->relation, b->relation) &&
		exprs_equal(pairing, a->args, a->arg_count, b->args, b->arg_count);
}

bool
stored_key_equal(const StoredExpr *a, const StoredExpr *b)
{
	return expr_equal(&(Pairing) {.kind = PAIR_QUERY}, a, b);
}

static bool
functions_equal(const Pairing *pairing)
{
	if (pairing->a->function_count != pairing->b->function_count)
		return false;
	for (int i = 0; i < pairing->a->function_count; i++)
	{
		if (!expr_equal(pairing, pairing->a->functions[i]->input, pairing->b->functions[i]->input))
			return false;
	}
	return true;
}

static bool
columns_equal(const Pairing *pairing)
{
	const StoredSource *a = pairing->a;
	const StoredSource *b = pairing->b;

	if (a->column_count != b->column_count)
		return false;
	for (int i = 0; i < a->column_count; i++)
	{
		const StoredColumn *x = &a->columns[i];
		const StoredColumn *y = &b->columns[i];

		if ((x->expr == NULL) != (y->expr == NULL))
			return false;
		if (x->expr != NULL && (!sync_string_equal(x->alias, y->alias) ||
								!expr_equal(pairing, x->expr, y->expr)))
			return false;
	}
	return true;
}

static bool
optional_equal(SyncString a, SyncString b)
{
	return (a.data == NULL) == (b.data == NULL) && sync_string_equal(a, b);
}

static bool
tables_equal(const StoredSource *a, const StoredSource *b)
{
	return optional_equal(a->table->connection, b->table->connection) &&
		optional_equal(a->table->schema, b->table->schema) &&
		sync_string_equal(a->table->name, b->table->name) &&
		(a->is_index || optional_equal(a->table->output_name, b->table->output_name));
}

bool
stored_source_equal(const StoredSource *a, const StoredSource *b)
{
	const Pairing pairing = {PAIR_SOURCES, a, b};

	return a->hash == b->hash && a->is_index == b->is_index && tables_equal(a, b) &&
		functions_equal(&pairing) &&
		exprs_equal(&pairing, a->filters, a->filter_count, b->filters, b->filter_count) &&
		exprs_equal(&pairing, a->keys, a->key_count, b->keys, b->key_count) &&
		exprs_equal(&pairing, a->outputs, a->output_count, b->outputs, b->output_count) &&
		columns_equal(&pairing);
}

/* the same set of the plan's sources */
bool
stored_bucket_equal(const StoredBucket *a, const StoredBucket *b)
{
	if (a->hash != b->hash || a->source_count != b->source_count)
		return false;
	for (int i = 0; i < a->source_count; i++)
	{
		bool		found = false;

		for (int j = 0; j < b->source_count && !found; j++)
			found = a->sources[i] == b->sources[j];
		if (!found)
			return false;
	}
	return true;
}

/* ---------------------------------------------------------------- the query side */

static bool
values_equal(StoredValue *const *a, int a_count, StoredValue *const *b, int b_count)
{
	const Pairing request = {.kind = PAIR_LOOKUPS};

	if (a_count != b_count)
		return false;
	for (int i = 0; i < a_count; i++)
	{
		const StoredValue *x = a[i];
		const StoredValue *y = b[i];

		if (x->kind != y->kind)
			return false;
		if (x->kind == VALUE_OF_REQUEST && !expr_equal(&request, x->expr, y->expr))
			return false;
		if (x->kind == VALUE_OF_LOOKUP &&
			(x->output != y->output || x->lookup->stage != y->lookup->stage ||
			 x->lookup->id_in_stage != y->lookup->id_in_stage))
			return false;
		if (x->kind == VALUE_INTERSECTION &&
			!values_equal(x->values, x->value_count, y->values, y->value_count))
			return false;
	}
	return true;
}

static bool
lookup_equal(const StoredLookup *a, const StoredLookup *b)
{
	const Pairing pairing = {.kind = PAIR_LOOKUPS};

	if (a->stage != b->stage || a->id_in_stage != b->id_in_stage || a->index != b->index)
		return false;
	if (a->index != NULL)
		return values_equal(a->values, a->value_count, b->values, b->value_count);
	return expr_equal(&pairing, a->function->input, b->function->input) &&
		exprs_equal(&pairing, a->outputs, a->output_count, b->outputs, b->output_count) &&
		exprs_equal(&pairing, a->filters, a->filter_count, b->filters, b->filter_count);
}

bool
stored_querier_equal(const StoredQuerier *a, const StoredQuerier *b)
{
	const Pairing request = {.kind = PAIR_LOOKUPS};

	if (a->lookup_count != b->lookup_count ||
		!exprs_equal(&request, a->filters, a->filter_count, b->filters, b->filter_count) ||
		!values_equal(a->values, a->value_count, b->values, b->value_count))
		return false;
	for (int i = 0; i < a->lookup_count; i++)
	{
		if (!lookup_equal(a->lookups[i], b->lookups[i]))
			return false;
	}
	return true;
}
