/*-------------------------------------------------------------------------
 *
 * compile_alpha_where.c
 *	  Compiles the conditions of alpha streams: the tree of AND and OR over
 *	  simple conditions, comparisons with parameters and subqueries, and its
 *	  disjunctive normal form (sync-rules.md, 4).
 *
 * What the expressions in them mean is in compile_clause.c.
 *
 * Invariants: the tree is as high as the SQL's; an AND or OR of two conditions
 * on the row, or of two on the request, is one leaf; NOT stands in leaves
 * only; nothing is multiplied out before it is known how much that makes.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "compile_alpha.h"

/* counts stop here: far above what is allowed, and far below an overflow of products */
#define COUNT_MAX	((uint64_t) 1 << 30)

static const AlphaNode *compile_node(QueryCompiler *query, const SqlExpr *expr, bool negated);

/* ---------------------------------------------------------------- nodes */

static uint64_t
count_min(uint64_t count)
{
	return count < COUNT_MAX ? count : COUNT_MAX;
}

static AlphaNode *
node_new(QueryCompiler *query, AlphaKind kind, const SqlExpr *expr)
{
	AlphaNode  *node = arena_new(query->compiler->scratch, AlphaNode);

	node->kind = kind;
	node->offset = expr->offset;
	node->variants = 1;
	node->expanded = expr->end - expr->offset + sizeof(" AND ");
	return node;
}

/* a clause as a leaf; NULL if it is none, or a negated match */
static const AlphaNode *
node_of_clause(QueryCompiler *query, const SqlExpr *expr, Clause clause, bool negated)
{
	AlphaNode  *node;

	if (clause.kind == CLAUSE_ERROR)
		return NULL;
	if (clause.kind != CLAUSE_MATCH)
	{
		node = node_new(query, ALPHA_SIMPLE, expr);
		node->clause = negated ? clause_not(query, expr, &clause) : clause;
		return node->clause.kind == CLAUSE_ERROR ? NULL : node;
	}
	if (negated)
	{
		compile_fail(query, SYNC_ERROR_CONFIG, expr->offset,
					 "NOT cannot be applied to a comparison of a column with a parameter");
		return NULL;
	}
	node = node_new(query, ALPHA_MATCH, expr);
	node->match = clause.match->kind;
	node->expr = clause.match->expr;
	return node;
}

static bool
is_row_condition(const AlphaNode *node)
{
	return node->kind == ALPHA_SIMPLE && clause_is_row(&node->clause);
}

static bool
is_request_condition(const AlphaNode *node)
{
	return node->kind == ALPHA_SIMPLE && clause_is_parameter(&node->clause);
}

static const AlphaNode *
node_combine(QueryCompiler *query, const SqlExpr *expr, bool is_and, const AlphaNode *left,
			 const AlphaNode *right)
{
	AlphaNode  *node = node_new(query, is_and ? ALPHA_AND : ALPHA_OR, expr);

	if ((is_row_condition(left) && is_row_condition(right)) ||
		(is_request_condition(left) && is_request_condition(right)))
	{
		node->kind = ALPHA_SIMPLE;
		node->clause = clause_and_or(query, expr, is_and, &left->clause, &right->clause);
		return node->clause.kind == CLAUSE_ERROR ? NULL : node;
	}
	node->left = left;
	node->right = right;
	if (is_and)
	{
		node->variants = count_min(left->variants * right->variants);
		node->expanded = count_min(left->expanded * right->variants +
								   right->expanded * left->variants);
	}
	else
	{
		node->variants = count_min(left->variants + right->variants);
		node->expanded = count_min(left->expanded + right->expanded);
	}
	return node;
}

/* ---------------------------------------------------------------- variants */

static const AlphaVariant *
variant_new(SyncArena *arena, AlphaVariant content)
{
	AlphaVariant *variant = arena_new(arena, AlphaVariant);

	*variant = content;
	return variant;
}

static const AlphaVariant *
variant_join(const AlphaVariant *first, const AlphaVariant *second, SyncArena *arena)
{
	return variant_new(arena, (AlphaVariant) {
		.leaf_count = first->leaf_count + second->leaf_count,
		.first = first,
		.second = second,
	});
}

/* sync-rules.md, 4.2: what has alternatives stands before what has none */
static void
multiply_variants(const AlphaNode *node, const AlphaVariant **variants, SyncArena *arena)
{
	const AlphaVariant **left = alpha_variants(node->left, arena);
	const AlphaVariant **right = alpha_variants(node->right, arena);
	bool		right_first = node->left->variants == 1 && node->right->variants > 1;

	for (uint64_t l = 0; l < node->left->variants; l++)
	{
		for (uint64_t r = 0; r < node->right->variants; r++)
			*variants++ = right_first ? variant_join(right[r], left[l], arena) :
				variant_join(left[l], right[r], arena);
	}
}

const AlphaVariant **
alpha_variants(const AlphaNode *node, SyncArena *arena)
{
	const AlphaVariant **variants = arena_array(arena, const AlphaVariant *, node->variants);
	uint64_t	left;

	switch (node->kind)
	{
		case ALPHA_AND:
			multiply_variants(node, variants, arena);
			break;
		case ALPHA_OR:
			left = node->left->variants;
			memcpy(variants, alpha_variants(node->left, arena), sizeof(*variants) * left);
			memcpy(variants + left, alpha_variants(node->right, arena),
				   sizeof(*variants) * node->right->variants);
			break;
		default:
			variants[0] = variant_new(arena, (AlphaVariant) {.leaf_count = 1, .leaf = node});
			break;
	}
	return variants;
}

static const AlphaNode **
collect_leaves(const AlphaVariant *variant, const AlphaNode **leaves)
{
	if (variant->leaf != NULL)
	{
		*leaves = variant->leaf;
		return leaves + 1;
	}
	return collect_leaves(variant->second, collect_leaves(variant->first, leaves));
}

const AlphaNode **
alpha_leaves(const AlphaVariant *variant, SyncArena *arena)
{
	const AlphaNode **leaves = arena_array(arena, const AlphaNode *, (size_t) variant->leaf_count);

	collect_leaves(variant, leaves);
	return leaves;
}

/* ---------------------------------------------------------------- matches */

/* whether a leaf says something about the row: the others matter to the request only */
static bool
leaf_is_of_row(const AlphaNode *leaf)
{
	return leaf->kind != ALPHA_EXISTS && (leaf->kind != ALPHA_SIMPLE || is_row_condition(leaf));
}

PlanMatch *
alpha_match(const AlphaNode *const *leaves, int count, PlanSource *source, SyncArena *arena)
{
	PlanMatch  *match = arena_new(arena, PlanMatch);

	match->kind = MATCH_AND;
	match->children = arena_array(arena, PlanMatch *, (size_t) count);
	for (int i = 0; i < count; i++)
	{
		PlanMatch  *child;

		if (!leaf_is_of_row(leaves[i]))
			continue;
		child = arena_new(arena, PlanMatch);
		match->children[match->child_count++] = child;
		if (leaves[i]->kind == ALPHA_SIMPLE)
		{
			child->kind = MATCH_CONDITION;
			child->expr = leaves[i]->clause.expr;
			continue;
		}
		child->kind = leaves[i]->match;
		child->expr = leaves[i]->expr;
		child->key = source->key_count++;
	}
	return match;
}

/* ---------------------------------------------------------------- subqueries */

/* the row's value that the subquery gives */
static bool
compile_subquery_item(QueryCompiler *query, const SqlSelect *select, uint32_t offset,
					  PlanSource *source)
{
	const SqlExpr *expr;
	Clause		clause;

	if (select->item_count != 1 || select->items[0].expr->kind == SQL_STAR)
	{
		compile_fail(query, SYNC_ERROR_CONFIG,
					 select->item_count > 0 ? select->items[0].expr->offset : offset,
					 "a subquery must select exactly one column");
		return false;
	}
	expr = select->items[0].expr;
	clause = compile_clause(query, expr);
	if (clause.kind == CLAUSE_ERROR)
		return false;
	if (!clause_is_row(&clause))
	{
		compile_fail(query, SYNC_ERROR_CONFIG, expr->offset,
					 "a subquery can select columns of its table and constants only");
		return false;
	}
	source->items = arena_new(query->compiler->arena, PlanItem);
	source->items[0] = (PlanItem) {clause.expr, sync_string_literal("result")};
	source->item_count = 1;
	return true;
}

static bool
compile_subquery_where(QueryCompiler *query, const SqlSelect *select, PlanSource *source,
					   PlanMatch **match)
{
	SyncArena  *scratch = query->compiler->scratch;
	const AlphaVariant *variant;
	const AlphaNode *node;

	if (select->where == NULL)
		return true;
	node = alpha_where(query, select->where);
	if (node == NULL)
		return false;
	if (node->variants > 1)
	{
		compile_fail(query, SYNC_ERROR_UNSUPPORTED, select->where->offset,
					 "comparisons with parameters cannot be combined by OR in a subquery");
		report_hint(query->compiler->report, "Use two subqueries, with OR between them.");
		return false;
	}
	variant = alpha_variants(node, scratch)[0];
	*match = alpha_match(alpha_leaves(variant, scratch), variant->leaf_count, source,
						 query->compiler->arena);
	return true;
}

/* parameter IN (SELECT e ...) is a subquery with one more condition: e = parameter */
static PlanMatch *
match_with_result(PlanMatch *match, PlanSource *source, SyncArena *arena)
{
	PlanMatch  *both = arena_new(arena, PlanMatch);
	PlanMatch  *equal = arena_new(arena, PlanMatch);

	equal->kind = MATCH_EQUAL;
	equal->expr = source->items[0].expr;
	equal->key = source->key_count++;
	both->kind = MATCH_AND;
	both->children = arena_array(arena, PlanMatch *, 2);
	if (match != NULL)
		both->children[both->child_count++] = match;
	both->children[both->child_count++] = equal;
	return both;
}

static bool
compile_subquery_parts(QueryCompiler *query, const SqlSelect *select, uint32_t offset,
					   bool compare_result, PlanSource *source)
{
	PlanMatch  *match = NULL;
	bool		ok;

	if (select->source_count == 0)
	{
		compile_fail(query, SYNC_ERROR_CONFIG, offset, "a subquery must read from a table");
		return false;
	}
	if (!compile_table(query, select, &source->table))
		return false;
	ok = compile_subquery_item(query, select, offset, source);
	ok &= compile_subquery_where(query, select, source, &match);
	if (!ok)
		return false;
	if (compare_result)
		match = match_with_result(match, source, query->compiler->arena);
	source->match = match;
	if (source->key_count > 0)
		return true;
	compile_fail(query, SYNC_ERROR_CONFIG, offset,
				 "a subquery must compare a column of its table with a parameter");
	report_hint(query->compiler->report, "Add, for example: WHERE user_id = auth.user_id()");
	return false;
}

/* NULL, reported, if it is wrong */
static const PlanSource *
compile_subquery(QueryCompiler *outer, const SqlStatement *statement, bool compare_result)
{
	PlanSource *source = arena_new(outer->compiler->scratch, PlanSource);
	const SqlSelect *select;
	QueryCompiler query;
	bool		ok;

	compile_query_init(&query, outer->compiler, QUERY_STREAM);
	query.node = outer->node;
	query.script = outer->script;
	query.in_subquery = true;
	source->rules = SOURCE_ALPHA;
	select = compile_statement(&query, statement);
	ok = select != NULL &&
		compile_subquery_parts(&query, select, statement->offset, compare_result, source);
	outer->uses_subscription |= query.uses_subscription;
	return ok ? source : NULL;
}

/* the left side of IN or && before a subquery; false, reported, if it cannot stand there */
static bool
check_needle(QueryCompiler *query, const SqlExpr *expr, const Clause *needle)
{
	const SqlExpr *left = expr->binary.left;

	if (needle->kind == CLAUSE_ERROR)
		return false;
	if (needle->kind == CLAUSE_MATCH)
	{
		compile_fail(query, SYNC_ERROR_CONFIG, left->offset, "a comparison of a row with a "
					 "parameter can stand only under AND and OR");
		return false;
	}
	if (needle->kind == CLAUSE_STATIC && expr->op != SQL_OP_OVERLAP)
	{
		compile_fail(query, SYNC_ERROR_CONFIG, left->offset,
					 "a constant cannot be searched in a subquery");
		report_hint(query->compiler->report,
					"Make it a condition of the subquery: WHERE column = constant AND ...");
		return false;
	}
	if (needle->kind == CLAUSE_PARAMETER && expr->op == SQL_OP_OVERLAP)
	{
		compile_fail(query, SYNC_ERROR_UNSUPPORTED, left->offset,
					 "a parameter cannot stand before && and a subquery");
		report_hint(query->compiler->report, "Use IN for a parameter with one value.");
		return false;
	}
	return true;
}

/* x IN (SELECT ...), x NOT IN (SELECT ...), x && (SELECT ...) */
static const AlphaNode *
compile_subquery_leaf(QueryCompiler *query, const SqlExpr *expr, bool negated)
{
	AlphaNode  *node;
	Clause		needle;
	bool		ok;

	if (query->in_subquery)
	{
		compile_fail(query, SYNC_ERROR_UNSUPPORTED, expr->binary.right->offset,
					 "a subquery cannot stand in another one");
		report_hint(query->compiler->report, "Streams of edition 3 can have such subqueries.");
		return NULL;
	}
	needle = compile_clause(query, expr->binary.left);
	ok = check_needle(query, expr, &needle);
	if (negated)
	{
		compile_fail(query, SYNC_ERROR_CONFIG, expr->offset,
					 "NOT cannot be applied to a comparison with a subquery");
		ok = false;
	}
	node = node_new(query, ALPHA_EXISTS, expr);
	node->subquery = compile_subquery(query, expr->binary.right->subquery,
									  needle.kind == CLAUSE_PARAMETER);
	if (!ok || node->subquery == NULL)
		return NULL;
	if (needle.kind == CLAUSE_PARAMETER)
		return node;
	node->kind = ALPHA_IN_SUBQUERY;
	node->match = expr->op == SQL_OP_OVERLAP ? MATCH_MEMBERS : MATCH_VALUE;
	node->expr = needle.expr;
	return node;
}

/* ---------------------------------------------------------------- trees */

static const AlphaNode *
compile_and_or(QueryCompiler *query, const SqlExpr *expr, bool negated)
{
	const AlphaNode *left = compile_node(query, expr->binary.left, negated);
	const AlphaNode *right = compile_node(query, expr->binary.right, negated);

	if (left == NULL || right == NULL)
		return NULL;

	/*
	 * The service multiplies out what NOT makes of an AND or OR, but not what
	 * it makes of those inside it: it cannot load such a config.
	 */
	if (negated && (left->kind == ALPHA_OR || right->kind == ALPHA_OR))
	{
		compile_fail(query, SYNC_ERROR_UNSUPPORTED, expr->offset,
					 "NOT cannot be applied to this combination of AND and OR");
		report_hint(query->compiler->report, "Apply NOT to each of the conditions instead.");
		return NULL;
	}
	return node_combine(query, expr, (expr->op == SQL_OP_AND) != negated, left, right);
}

/* x NOT IN y is NOT (x IN y) */
static const AlphaNode *
compile_not_in(QueryCompiler *query, const SqlExpr *expr, bool negated)
{
	SqlExpr		in = *expr;

	in.op = SQL_OP_IN;
	return node_of_clause(query, expr, compile_clause(query, &in), !negated);
}

static const AlphaNode *
compile_overlap(QueryCompiler *query, const SqlExpr *expr, bool negated)
{
	Clause		args[2];

	args[0] = compile_clause(query, expr->binary.left);
	args[1] = compile_clause(query, expr->binary.right);
	return node_of_clause(query, expr, clause_overlap(query, expr, args), negated);
}

static const AlphaNode *
compile_node(QueryCompiler *query, const SqlExpr *expr, bool negated)
{
	if (expr->kind == SQL_UNARY && expr->op == SQL_OP_NOT)
		return compile_node(query, expr->unary.operand, !negated);
	if (expr->kind == SQL_BINARY && expr->binary.op_schema.len == 0)
	{
		bool		subquery = expr->binary.right->kind == SQL_SUBQUERY;

		switch (expr->op)
		{
			case SQL_OP_AND:
			case SQL_OP_OR:
				return compile_and_or(query, expr, negated);
			case SQL_OP_NOT_IN:
				return subquery ? compile_subquery_leaf(query, expr, !negated) :
					compile_not_in(query, expr, negated);
			case SQL_OP_OVERLAP:
				return subquery ? compile_subquery_leaf(query, expr, negated) :
					compile_overlap(query, expr, negated);
			case SQL_OP_IN:
				if (subquery)
					return compile_subquery_leaf(query, expr, negated);
				break;
			default:
				break;
		}
	}
	return node_of_clause(query, expr, compile_clause(query, expr), negated);
}

const AlphaNode *
alpha_where(QueryCompiler *query, const SqlExpr *where)
{
	return compile_node(query, where, false);
}
