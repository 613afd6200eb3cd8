/*-------------------------------------------------------------------------
 *
 * stream_terms.c
 *	  Conditions of a query as a disjunction of products: sync-rules.md, 7.4.
 *
 *		1. NOT goes down to the leaves, where it cancels another one, and AND is
 *		   distributed over OR.
 *		2. In a product, conditions of one relation (or of the request) become
 *		   one, with AND.  Equals clauses, which join relations, stay alone.
 *		3. Products of one condition that are of one relation become one, with OR.
 *
 * Invariant: never more than STREAM_MAX_PRODUCTS products or STREAM_MAX_TERMS
 * terms are held; what would make more is found before it is made.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "stream_compile.h"

typedef struct TermCompiler
{
	StreamQuery *query;
	SyncArena  *arena;
	int64_t		term_count;		/* places for terms, ever made */
	bool		failed;			/* reported */
} TermCompiler;

static StreamProducts normalize(TermCompiler *terms, const StreamCondition *condition, bool negated);

/* ---------------------------------------------------------------- terms */

static bool
is_negation(const StoredExpr *expr)
{
	return expr->kind == STORED_UNARY && sync_string_equal(expr->text, sync_string_literal("not"));
}

/* a term as it is before it is known what it is about; see finish_terms() */
static StreamTerm *
new_term(TermCompiler *terms, const StreamCondition *leaf, bool negated)
{
	StreamTerm *term = arena_new(terms->arena, StreamTerm);

	term->text = leaf->text;
	term->offset = leaf->offset;
	term->left.expr = leaf->left;
	if (leaf->kind == CONDITION_EQUAL && !negated)
	{
		term->equals = true;
		term->right.expr = leaf->right;
		return term;
	}
	if (leaf->kind == CONDITION_EQUAL)
		term->left.expr = stream_make_binary(leaf->text, leaf->offset, "=", leaf->left,
											 leaf->right);
	if (negated && term->left.expr != NULL)
		term->left.expr = is_negation(term->left.expr) ? term->left.expr->args[0] :
			stream_make_not(leaf->text, leaf->offset, term->left.expr);
	if (term->left.expr != NULL)
		return term;
	terms->failed = true;
	return NULL;
}

/* a call with constants that is not known yet to belong to a table */
static bool
is_free_function(const StoredRelation *relation)
{
	StreamInputs inputs = {.request = false};

	if (relation->kind != RELATION_JSON_EACH || relation->owner != relation)
		return false;
	stream_add_inputs(&inputs, relation->input);
	return !inputs.request;
}

/*
 * A function of constants has rows of its own, until a condition names it beside
 * a table: then it is called for each row of that table.
 */
static void
attach_functions(const StoredExpr *expr, StoredRelation **last)
{
	StoredRelation *relation = expr->relation;

	if (relation != NULL && *last != NULL && relation->kind != (*last)->kind)
	{
		StoredRelation *function = relation->kind == RELATION_JSON_EACH ? relation : *last;

		if (is_free_function(function))
			function->owner = function == relation ? *last : relation;
	}
	if (relation != NULL)
		*last = relation;
	for (int i = 0; i < expr->arg_count; i++)
		attach_functions(expr->args[i], last);
}

/*
 * Which relation a condition is about, and whose rows.  It can be a table's and
 * its functions', as long as no two functions are named one after the other.
 * False: it is about several, or about the request and a relation.
 */
static bool
relation_of(const StreamInputs *inputs, StoredRelation **relation)
{
	*relation = inputs->last != NULL ? inputs->last->owner : NULL;
	return inputs->last == NULL || (!inputs->request && !inputs->mixed);
}

/* as one side of an equals clause: a function must then be what is named last */
static bool
side_relation(StreamSide *side)
{
	StreamInputs inputs = {.request = false};

	stream_add_inputs(&inputs, side->expr);
	return relation_of(&inputs, &side->relation) &&
		(!inputs.function || inputs.last->kind == RELATION_JSON_EACH);
}

static void
mixed(TermCompiler *terms, const StreamTerm *term)
{
	stream_fail(term->text, SYNC_ERROR_CONFIG, term->offset,
				"this condition mixes several tables, or a table and the request");
	stream_hint(term->text, "What is of different origin can be compared with = or IN only.");
	terms->failed = true;
}

/* what the term is about; an equals clause of one relation is a plain condition */
static void
place_term(TermCompiler *terms, StreamTerm *term)
{
	StreamInputs inputs = {.request = false};

	stream_add_inputs(&inputs, term->left.expr);
	if (term->equals)
		stream_add_inputs(&inputs, term->right.expr);
	if (!relation_of(&inputs, &term->left.relation))
	{
		if (!term->equals || !side_relation(&term->left) || !side_relation(&term->right))
			mixed(terms, term);
		return;
	}
	term->group = inputs.last;
	if (!term->equals)
		return;
	term->equals = false;
	term->left.expr = stream_make_binary(term->text, term->offset, "=", term->left.expr,
										 term->right.expr);
	terms->failed |= term->left.expr == NULL;
}

/*
 * Functions of constants belong to the first table that they are compared with,
 * in the order of the products; only then it is known what terms are about.
 */
static void
finish_terms(TermCompiler *terms, const StreamProducts *products)
{
	for (int pass = 0; pass < 2; pass++)
	{
		for (int i = 0; i < products->count; i++)
		{
			for (int j = 0; j < products->items[i].term_count; j++)
			{
				StreamTerm *term = products->items[i].terms[j];

				StoredRelation *last = NULL;

				if (pass == 0)
				{
					attach_functions(term->left.expr, &last);
					if (term->equals)
						attach_functions(term->right.expr, &last);
					continue;
				}
				if (!term->placed)
					place_term(terms, term);
				term->placed = true;
			}
		}
	}
}

/* ---------------------------------------------------------------- products */

static bool
too_many(TermCompiler *terms, const StreamCondition *condition, int64_t products)
{
	if (terms->failed)
		return true;
	if (products <= STREAM_MAX_PRODUCTS && terms->term_count <= STREAM_MAX_TERMS)
		return false;
	terms->failed = true;
	if (products > STREAM_MAX_PRODUCTS)
		stream_fail(condition->text, SYNC_ERROR_LIMIT, condition->offset,
					"the conditions come to more than %d alternatives", STREAM_MAX_PRODUCTS);
	else
		stream_fail(condition->text, SYNC_ERROR_LIMIT, condition->offset,
					"the conditions come to more than %d terms", STREAM_MAX_TERMS);
	stream_hint(condition->text, "Use fewer ORs inside ANDs, or several queries.");
	return true;
}

static void
new_product(TermCompiler *terms, StreamProduct *product, int capacity)
{
	terms->term_count += capacity;
	product->term_count = 0;
	product->terms = arena_array(terms->arena, StreamTerm *, (size_t) capacity);
}

static void
append_terms(StreamProduct *product, const StreamProduct *more)
{
	for (int i = 0; i < more->term_count; i++)
		product->terms[product->term_count++] = more->terms[i];
}

/* one product of no term: true */
static StreamProducts
no_condition(TermCompiler *terms)
{
	return (StreamProducts) {1, arena_array(terms->arena, StreamProduct, 1)};
}

/* every product of a followed by every one of b, a's slowest */
static StreamProducts
multiply(TermCompiler *terms, const StreamCondition *condition, const StreamProducts *a,
		 const StreamProducts *b)
{
	StreamProducts result = {0, NULL};

	if (too_many(terms, condition, (int64_t) a->count * b->count))
		return result;
	result.items = arena_array(terms->arena, StreamProduct, (size_t) a->count * (size_t) b->count);
	for (int i = 0; i < a->count; i++)
	{
		for (int j = 0; j < b->count; j++)
		{
			StreamProduct *product = &result.items[result.count];

			new_product(terms, product, a->items[i].term_count + b->items[j].term_count);
			if (too_many(terms, condition, 0))
				return result;
			append_terms(product, &a->items[i]);
			append_terms(product, &b->items[j]);
			result.count++;
		}
	}
	return result;
}

/* those with alternatives first */
static void
sort_operands(SyncArena *arena, StreamProducts *operands, int count)
{
	StreamProducts *sorted = arena_array(arena, StreamProducts, (size_t) count);
	int			at = 0;

	for (int pass = 0; pass < 2; pass++)
	{
		for (int i = 0; i < count; i++)
		{
			if ((pass == 0) == (operands[i].count != 1))
				sorted[at++] = operands[i];
		}
	}
	for (int i = 0; i < count; i++)
		operands[i] = sorted[i];
}

/*
 * In a chain of ANDs, the first operand that has alternatives comes before what
 * stands before it; the others stay where they are: as if the operands were joined
 * one after the other, and each time the one with alternatives went first.
 */
static StreamProducts
conjunction(TermCompiler *terms, const StreamCondition *condition, bool negated)
{
	StreamProducts *children = arena_array(terms->arena, StreamProducts,
										   (size_t) condition->child_count);
	StreamProducts result = no_condition(terms);
	StreamProducts run;			/* operands without alternatives, in one product */
	bool		alternatives = false;

	for (int i = 0; i < condition->child_count; i++)
		children[i] = normalize(terms, condition->children[i], negated);
	if (!condition->chain)
		sort_operands(terms->arena, children, condition->child_count);
	for (int i = 0; i < condition->child_count && !too_many(terms, condition, 0);)
	{
		int			end = i;
		int			count = 0;

		for (; end < condition->child_count && children[end].count == 1; end++)
			count += children[end].items[0].term_count;
		run = no_condition(terms);
		new_product(terms, &run.items[0], count);
		for (; i < end; i++)
			append_terms(&run.items[0], &children[i].items[0]);
		if (end < condition->child_count && !alternatives)
		{
			result = multiply(terms, condition, &children[end], &run);
			alternatives = true;
		}
		else
		{
			result = multiply(terms, condition, &result, &run);
			if (end < condition->child_count)
				result = multiply(terms, condition, &result, &children[end]);
		}
		i = end + 1;
	}
	return result;
}

static StreamProducts
disjunction(TermCompiler *terms, const StreamCondition *condition, bool negated)
{
	StreamProducts *children = arena_array(terms->arena, StreamProducts,
										   (size_t) condition->child_count);
	StreamProducts result = {0, NULL};
	int64_t		count = 0;

	for (int i = 0; i < condition->child_count; i++)
	{
		children[i] = normalize(terms, condition->children[i], negated);
		count += children[i].count;
	}
	if (too_many(terms, condition, count))
		return result;
	result.items = arena_array(terms->arena, StreamProduct, (size_t) count);
	for (int i = 0; i < condition->child_count; i++)
	{
		for (int j = 0; j < children[i].count; j++)
			result.items[result.count++] = children[i].items[j];
	}
	return result;
}

static StreamProducts
normalize(TermCompiler *terms, const StreamCondition *condition, bool negated)
{
	StreamProducts result;
	StreamTerm *term;

	switch (condition->kind)
	{
		case CONDITION_NOT:
			return normalize(terms, condition->children[0], !negated);
		case CONDITION_AND:
			return negated ? disjunction(terms, condition, true) :
				conjunction(terms, condition, false);
		case CONDITION_OR:
			return negated ? conjunction(terms, condition, true) :
				disjunction(terms, condition, false);
		default:
			result = no_condition(terms);
			term = new_term(terms, condition, negated);
			if (term == NULL)
				return result;
			new_product(terms, &result.items[0], 1);
			result.items[0].terms[result.items[0].term_count++] = term;
			return result;
	}
}

/* ---------------------------------------------------------------- merging */

/*
 * Joins the conditions of each relation with the operator: equals clauses as
 * they are, then what is of the request, then relations as they first appear.
 * A function, and the table whose rows it is called for, are two of these; what
 * is about both goes to the one that it names last.
 */
static StreamProduct
merge_terms(TermCompiler *terms, const StreamProduct *product, const char *op)
{
	StreamProduct merged;
	int			first = 0;

	new_product(terms, &merged, product->term_count);
	for (int pass = 0; pass < 3; pass++)
	{
		if (pass == 1)
			first = merged.term_count;
		for (int i = 0; i < product->term_count; i++)
		{
			StreamTerm *term = product->terms[i];
			StreamTerm *known = NULL;

			if ((pass == 0) != term->equals)
				continue;
			if (pass > 0 && (pass == 1) != (term->group == NULL))
				continue;
			for (int j = first; j < merged.term_count && pass > 0 && known == NULL; j++)
			{
				if (merged.terms[j]->group == term->group)
					known = merged.terms[j];
			}
			if (known == NULL)
			{
				known = arena_new(terms->arena, StreamTerm);
				*known = *term;
				merged.terms[merged.term_count++] = known;
				continue;
			}
			known->left.expr = stream_make_binary(term->text, term->offset, op, known->left.expr,
												  term->left.expr);
			if (known->left.expr == NULL)
			{
				terms->failed = true;
				return merged;
			}
		}
	}
	return merged;
}

/* a product of one term, from the terms of all such products */
static void
append_alternatives(TermCompiler *terms, const StreamProduct *singles, StreamProducts *products)
{
	StreamProduct merged = merge_terms(terms, singles, "or");

	for (int i = 0; i < merged.term_count && !terms->failed; i++)
	{
		StreamProduct *product = &products->items[products->count++];

		product->term_count = 1;
		product->terms = &merged.terms[i];
	}
}

bool
stream_products(StreamQuery *query, const StreamCondition *conditions, StreamProducts *products)
{
	TermCompiler terms = {.query = query, .arena = query->compiler->scratch};
	StreamProducts all = normalize(&terms, conditions, false);
	StreamProduct singles;

	*products = (StreamProducts) {0, NULL};
	if (!terms.failed)
		finish_terms(&terms, &all);
	if (terms.failed)
		return false;
	products->items = arena_array(terms.arena, StreamProduct, (size_t) all.count);
	new_product(&terms, &singles, all.count);
	for (int i = 0; i < all.count && !terms.failed; i++)
	{
		StreamProduct product = merge_terms(&terms, &all.items[i], "and");

		if (product.term_count == 1)
			singles.terms[singles.term_count++] = product.terms[0];
		else
			products->items[products->count++] = product;
	}
	append_alternatives(&terms, &singles, products);
	return !terms.failed;
}
