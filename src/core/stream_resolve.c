/*-------------------------------------------------------------------------
 *
 * stream_resolve.c
 *	  One product of a stream's conditions: how the query side finds the buckets
 *	  and which rows are in them (sync-rules.md, 7.4, 7.5).
 *
 * The query's tables are the nodes of a graph, equals clauses its edges.  From
 * the primary table, which becomes the data source, the walk goes to the
 * request: a clause that touches the table at hand is a partition key of it,
 * and the key's value comes from the clause's other side, which is a value of
 * the request or the output of a lookup on another table.  What the walk does
 * not reach must exist all the same: these lookups have no output.
 *
 * Does not know of other products: merging them is compile_stream.c.
 *
 * Invariant: every term of the product is used exactly once, or the product is
 * refused.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "stream_compile.h"

/* a table or a function of the request, as far as it is known */
typedef struct Node Node;
struct Node
{
	StoredRelation *relation;
	StoredSource *source;		/* NULL: a function */
	StoredLookup *lookup;		/* NULL: the primary table */
	Node	   *next;
};

/* a partition key on its way: what it is compared with */
typedef struct Key
{
	const StoredExpr *expr;
	uint32_t	hash;
	int			value_count;
	StoredValue **values;
} Key;

/* a clause as the relation at hand sees it */
typedef struct Link
{
	int			term;
	const StreamSide *here;
	const StreamSide *there;
} Link;

typedef struct Resolver
{
	StreamQuery *query;
	SyncArena  *arena;			/* of what becomes part of the plan */
	SyncArena  *scratch;
	const StreamProduct *product;
	bool	   *used;			/* by term */
	bool	   *resolved;		/* by clause: its value is known, or at work */
	Node	   *nodes;
	StoredQuerier *querier;
	int			lookup_number;	/* of lookups begun */
	bool		failed;			/* reported */
} Resolver;

static Node *lookup_node(Resolver *resolver, StoredRelation *relation);

/* ---------------------------------------------------------------- nodes */

/* an expression is used in a source: the functions that it needs are called */
static void
use_functions(Resolver *resolver, StoredSource *source, const StoredExpr *expr)
{
	const StoredRelation *relation = expr->relation;
	bool		known = relation == NULL || relation->kind == RELATION_TABLE;

	for (int i = 0; i < source->function_count && !known; i++)
		known = source->functions[i] == relation;
	if (!known)
	{
		source->functions = arena_make_room(resolver->arena, source->functions,
											sizeof(*source->functions), source->function_count);
		source->functions[source->function_count++] = relation;
	}
	for (int i = 0; i < expr->arg_count; i++)
		use_functions(resolver, source, expr->args[i]);
}

/* the conditions of rows of the relation, or, without one, of the request */
static const StoredExpr **
take_conditions(Resolver *resolver, const StoredRelation *relation, int *count)
{
	const StreamProduct *product = resolver->product;
	const StoredExpr **list = NULL;

	*count = 0;
	for (int i = 0; i < product->term_count; i++)
	{
		const StreamTerm *term = product->terms[i];

		if (term->equals || term->left.relation != relation || resolver->used[i])
			continue;
		resolver->used[i] = true;
		list = arena_make_room(resolver->arena, list, sizeof(*list), *count);
		list[(*count)++] = term->left.expr;
	}
	return list;
}

/*
 * The output with that expression, added if need be.  Elements of different
 * arrays are different outputs: the service takes the first one for both, so that
 * clients get rows by the elements of an array that the query compares with
 * something else.  Those of one array are one output, as they are one key.
 */
static int
output_of(Resolver *resolver, Node *node, const StoredExpr *expr)
{
	int		   *count = node->source != NULL ? &node->source->output_count :
		&node->lookup->output_count;
	const StoredExpr ***outputs = node->source != NULL ? &node->source->outputs :
		&node->lookup->outputs;

	for (int i = 0; i < *count; i++)
	{
		if (stored_key_equal((*outputs)[i], expr))
			return i;
	}
	*outputs = arena_make_room(resolver->arena, *outputs, sizeof(**outputs), *count);
	(*outputs)[*count] = expr;
	if (node->source != NULL)
		use_functions(resolver, node->source, expr);
	return (*count)++;
}

static StoredValue *
value_of(Resolver *resolver, const StreamSide *side)
{
	StoredValue *value = arena_new(resolver->arena, StoredValue);
	Node	   *node;

	if (side->relation == NULL)
	{
		value->kind = VALUE_OF_REQUEST;
		value->expr = side->expr;
		return value;
	}
	node = lookup_node(resolver, side->relation);
	value->kind = VALUE_OF_LOOKUP;
	value->lookup = node->lookup;
	value->output = output_of(resolver, node, side->expr);
	return value;
}

/* ---------------------------------------------------------------- keys */

/* a clause with both sides on one relation joins nothing */
static bool
touches(const Resolver *resolver, int i, const StoredRelation *relation)
{
	const StreamTerm *term = resolver->product->terms[i];

	return term->equals && !resolver->used[i] &&
		(term->left.relation == relation) != (term->right.relation == relation);
}

/*
 * Unused clauses between the relation and others, in the order of the product.
 * They count as used from here on, so that the walk does not come back through
 * them.
 */
static Link *
take_clauses(Resolver *resolver, const StoredRelation *relation, int *count)
{
	Link	   *links;

	*count = 0;
	for (int i = 0; i < resolver->product->term_count; i++)
		*count += touches(resolver, i, relation);
	links = arena_array(resolver->scratch, Link, (size_t) *count);
	*count = 0;
	for (int i = 0; i < resolver->product->term_count; i++)
	{
		const StreamTerm *term = resolver->product->terms[i];
		bool		left = term->left.relation == relation;

		if (!touches(resolver, i, relation))
			continue;
		resolver->used[i] = true;
		links[(*count)++] = (Link) {i, left ? &term->left : &term->right,
		left ? &term->right : &term->left};
	}
	return links;
}

/*
 * The functions of a source are numbered in the order of the product, whether a
 * clause becomes a key or asks for an output.  That for which the source was
 * made, and those before it, are no longer among them: their functions come last.
 */
static void
use_functions_of_clauses(Resolver *resolver, const StoredRelation *relation, StoredSource *source)
{
	for (int i = 0; i < resolver->product->term_count; i++)
	{
		const StreamTerm *term = resolver->product->terms[i];

		if (!term->equals || resolver->resolved[i])
			continue;
		if (term->left.relation == relation)
			use_functions(resolver, source, term->left.expr);
		if (term->right.relation == relation)
			use_functions(resolver, source, term->right.expr);
	}
}

static Key *
key_of(Key *keys, int *count, const StoredExpr *expr)
{
	uint32_t	hash = stored_key_hash(expr);

	for (int i = 0; i < *count; i++)
	{
		if (keys[i].hash == hash && stored_key_equal(keys[i].expr, expr))
			return &keys[i];
	}
	keys[*count].expr = expr;
	keys[*count].hash = hash;
	return &keys[(*count)++];
}

static void
add_value(Resolver *resolver, Key *key, StoredValue *value)
{
	key->values = arena_make_room(resolver->arena, key->values, sizeof(*key->values),
								  key->value_count);
	key->values[key->value_count++] = value;
}

/* 7.5; keys with equal hashes stay as they are */
static void
sort_keys(Key *keys, int count)
{
	for (int i = 1; i < count; i++)
	{
		Key			moved = keys[i];
		int			at = i;

		for (; at > 0 && keys[at - 1].hash > moved.hash; at--)
			keys[at] = keys[at - 1];
		keys[at] = moved;
	}
}

static StoredValue *
combined_value(Resolver *resolver, const Key *key)
{
	StoredValue *value;

	if (key->value_count == 1)
		return key->values[0];
	value = arena_new(resolver->arena, StoredValue);
	value->kind = VALUE_INTERSECTION;
	value->value_count = key->value_count;
	value->values = key->values;
	return value;
}

/* the source's keys from the clauses that touch its table; returns their values */
static StoredValue **
resolve_keys(Resolver *resolver, StoredRelation *relation, StoredSource *source)
{
	int			link_count;
	Link	   *links = take_clauses(resolver, relation, &link_count);
	Key		   *keys = arena_array(resolver->scratch, Key, (size_t) link_count);
	StoredValue **values;

	use_functions_of_clauses(resolver, relation, source);
	for (int i = 0; i < link_count; i++)
	{
		Key		   *key = key_of(keys, &source->key_count, links[i].here->expr);

		resolver->resolved[links[i].term] = true;
		add_value(resolver, key, value_of(resolver, links[i].there));
	}
	sort_keys(keys, source->key_count);
	source->keys = arena_array(resolver->arena, const StoredExpr *, (size_t) source->key_count);
	values = arena_array(resolver->arena, StoredValue *, (size_t) source->key_count);
	for (int i = 0; i < source->key_count; i++)
	{
		source->keys[i] = keys[i].expr;
		values[i] = combined_value(resolver, &keys[i]);
	}
	return values;
}

static void
resolve_filters(Resolver *resolver, StoredRelation *relation, StoredSource *source)
{
	source->filters = take_conditions(resolver, relation, &source->filter_count);
	for (int i = 0; i < source->filter_count; i++)
		use_functions(resolver, source, source->filters[i]);
}

/* ---------------------------------------------------------------- lookups */

/* what these values come from is needed that many steps before the end */
static void
need_before(StoredValue *const *values, int count, int steps)
{
	for (int i = 0; i < count; i++)
	{
		StoredValue *value = values[i];

		if (value->kind == VALUE_OF_LOOKUP && value->lookup->stage < steps)
			value->lookup->stage = steps;
		if (value->kind == VALUE_INTERSECTION)
			need_before(value->values, value->value_count, steps);
	}
}

/*
 * Each lookup goes into the latest stage that it can be in; in a stage, they are
 * in the order in which they were first needed.  They have been entered after
 * all that they need.
 */
static void
arrange_lookups(Resolver *resolver)
{
	StoredQuerier *querier = resolver->querier;
	int			count = querier->lookup_count;
	StoredLookup **by_number = arena_array(resolver->scratch, StoredLookup *, (size_t) count);
	int			last = 0;

	for (int i = count - 1; i >= 0; i--)
	{
		StoredLookup *lookup = querier->lookups[i];

		by_number[lookup->number] = lookup;
		need_before(lookup->values, lookup->value_count, lookup->stage + 1);
		if (lookup->stage > last)
			last = lookup->stage;
	}
	querier->lookup_count = 0;
	for (int steps = last; steps >= 0; steps--)
	{
		int			id = 0;

		for (int i = 0; i < count; i++)
		{
			if (by_number[i]->stage == steps)
			{
				by_number[i]->id_in_stage = id++;
				querier->lookups[querier->lookup_count++] = by_number[i];
			}
		}
	}
	for (int i = 0; i < count; i++)
		by_number[i]->stage = last - by_number[i]->stage;
}

/*
 * An array of the request has no index: its elements cannot be looked up by what
 * they are compared with apart from the one that asks for them.
 */
static void
refuse_keys_of_function(Resolver *resolver, const StoredRelation *relation)
{
	for (int i = 0; i < resolver->product->term_count; i++)
	{
		const StreamTerm *term = resolver->product->terms[i];

		if (!touches(resolver, i, relation))
			continue;
		resolver->used[i] = true;
		resolver->failed = true;
		stream_fail(term->text, SYNC_ERROR_CONFIG, term->offset,
					"an array of the request cannot be compared with two others here");
		stream_hint(term->text, "Compare with a second json_each() of the same array.");
	}
}

/*
 * The lookup on a relation, made at the first call.  The walk cannot come back
 * to a lookup that is being made: all clauses that lead to it are used.
 */
static Node *
lookup_node(Resolver *resolver, StoredRelation *relation)
{
	Node	   *node = resolver->nodes;
	StoredLookup *lookup;

	while (node != NULL && node->relation != relation)
		node = node->next;
	if (node != NULL)
		return node;
	node = arena_new(resolver->scratch, Node);
	lookup = arena_new(resolver->arena, StoredLookup);
	node->relation = relation;
	node->lookup = lookup;
	lookup->number = resolver->lookup_number++;
	node->next = resolver->nodes;
	resolver->nodes = node;
	if (relation->kind == RELATION_JSON_EACH)
	{
		lookup->function = relation;
		refuse_keys_of_function(resolver, relation);
		lookup->filters = take_conditions(resolver, relation, &lookup->filter_count);
	}
	else
	{
		node->source = arena_new(resolver->arena, StoredSource);
		node->source->is_index = true;
		node->source->table = relation;
		lookup->index = node->source;
		lookup->values = resolve_keys(resolver, relation, node->source);
		lookup->value_count = node->source->key_count;
		resolve_filters(resolver, relation, node->source);
	}
	resolver->querier->lookups[resolver->querier->lookup_count++] = lookup;
	return node;
}

/* ---------------------------------------------------------------- the product */

static void
not_placed(Resolver *resolver, const StreamTerm *term)
{
	stream_fail(term->text, SYNC_ERROR_CONFIG, term->offset,
				"this condition cannot be used to find the rows of \"%.*s\"",
				SHOWN(resolver->query->primary->name));
	stream_hint(term->text, "Compare columns with the request, or with columns of another table.");
	resolver->failed = true;
}

/* the relation that a term is about alone, or with the request; NULL: none, or two */
static StoredRelation *
root_of(const StreamTerm *term)
{
	if (!term->equals)
		return term->left.relation;
	if (term->left.relation != NULL && term->right.relation != NULL)
		return NULL;
	return term->left.relation != NULL ? term->left.relation : term->right.relation;
}

/*
 * What is left has nothing to do with the primary table: rows must exist.  These
 * are of the tables that are compared with the request or have a condition; what
 * they are joined with leads to them.
 */
static void
resolve_rest(Resolver *resolver)
{
	const StreamProduct *product = resolver->product;

	for (int i = 0; i < product->term_count; i++)
	{
		const StreamTerm *term = product->terms[i];
		StoredRelation *root = root_of(term);

		if (!resolver->used[i] && root != NULL &&
			(!term->equals || root->kind == RELATION_TABLE))
			lookup_node(resolver, root);
	}
	for (int i = 0; i < product->term_count; i++)
	{
		if (!resolver->used[i])
			not_placed(resolver, product->terms[i]);
	}
}

bool
stream_resolve(StreamQuery *query, const StreamProduct *product, StreamResolver *result)
{
	StreamCompiler *compiler = query->compiler;
	Resolver	resolver = {
		.query = query, .arena = compiler->arena, .scratch = compiler->scratch, .product = product
	};
	StoredQuerier *querier = &result->querier;
	StoredSource *source = arena_new(compiler->arena, StoredSource);
	Node		primary = {.relation = query->primary, .source = source};

	*result = (StreamResolver) {.source = source, .text = &query->text};
	resolver.used = arena_array(compiler->scratch, bool, (size_t) product->term_count);
	resolver.resolved = arena_array(compiler->scratch, bool, (size_t) product->term_count);
	resolver.querier = querier;
	resolver.nodes = &primary;
	querier->lookups = arena_array(compiler->arena, StoredLookup *,
								   (size_t) query->relation_count);
	source->table = query->primary;
	source->column_count = query->column_count;
	source->columns = query->columns;
	querier->filters = take_conditions(&resolver, NULL, &querier->filter_count);
	querier->values = resolve_keys(&resolver, query->primary, source);
	querier->value_count = source->key_count;
	resolve_filters(&resolver, query->primary, source);
	resolve_rest(&resolver);
	arrange_lookups(&resolver);
	return !resolver.failed;
}
