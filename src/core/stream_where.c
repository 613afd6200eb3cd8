/*-------------------------------------------------------------------------
 *
 * stream_where.c
 *	  Conditions of edition-3 streams as they are written: WHERE, ON and what
 *	  joins stand behind IN and && (sync-rules.md, 7.4).
 *
 * Makes a tree; what the tree comes to is stream_terms.c.
 *
 * Invariant: a leaf's expressions are never NULL.  A condition that is wrong is
 * not in the tree, and reported.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "stream_compile.h"

static StreamCondition *condition(const StreamScope *scope, const SqlExpr *expr);

/* ---------------------------------------------------------------- makers */

StreamCondition *
stream_condition_new(const StreamText *text, StreamConditionKind kind, uint32_t offset)
{
	StreamCondition *made = arena_new(text->compiler->scratch, StreamCondition);

	made->kind = kind;
	made->text = text;
	made->offset = offset;
	return made;
}

static void
append_child(StreamCondition *parent, StreamCondition *child)
{
	parent->children = arena_make_room(parent->text->compiler->scratch, parent->children,
									   sizeof(*parent->children), parent->child_count);
	parent->children[parent->child_count++] = child;
}

void
stream_condition_add(StreamCondition *parent, StreamCondition *child)
{
	if (child != NULL)
		append_child(parent, child);
}

static StreamCondition *
equality(const StreamText *text, uint32_t offset, const StoredExpr *left, const StoredExpr *right)
{
	StreamCondition *made;

	if (left == NULL || right == NULL)
		return NULL;
	made = stream_condition_new(text, CONDITION_EQUAL, offset);
	made->left = left;
	made->right = right;
	return made;
}

static StreamCondition *
plain(const StreamScope *scope, const SqlExpr *expr)
{
	const StoredExpr *compiled = stream_expr(scope, expr);
	StreamCondition *made;

	if (compiled == NULL)
		return NULL;
	made = stream_condition_new(scope->text, CONDITION_EXPR, expr->offset);
	made->left = compiled;
	return made;
}

static StreamCondition *
negation(const StreamText *text, uint32_t offset, StreamCondition *operand)
{
	StreamCondition *made;

	if (operand == NULL)
		return NULL;
	made = stream_condition_new(text, CONDITION_NOT, offset);
	append_child(made, operand);
	return made;
}

/*
 * A chain of the same operator becomes one node, with the operands in text order.
 * What is in parentheses on the right of it, or behind IN, stays a node: the order
 * of the lookups depends on that.
 */
static StreamCondition *
junction(const StreamScope *scope, const SqlExpr *expr, StreamConditionKind kind)
{
	StreamCondition *left = condition(scope, expr->binary.left);
	StreamCondition *made = left;

	if (left == NULL || left->kind != kind || !left->chain)
	{
		made = stream_condition_new(scope->text, kind, expr->offset);
		made->chain = true;
		stream_condition_add(made, left);
	}
	stream_condition_add(made, condition(scope, expr->binary.right));
	return made;
}

/* ---------------------------------------------------------------- subqueries */

/* what stands behind IN, or beside && */
typedef struct RightSide
{
	const SqlSelect *select;	/* NULL, reported, when it is wrong */
	StreamScope scope;			/* where the SELECT is compiled */
} RightSide;

/* whether it is a subquery or a CTE */
static bool
is_subquery(const StreamScope *scope, const SqlExpr *expr, RightSide *side)
{
	StreamCte  *cte;

	*side = (RightSide) {.scope = {.query = scope->query}};
	if (expr->kind == SQL_SUBQUERY)
	{
		side->select = stream_statement(scope->text, expr->subquery);
		side->scope.text = scope->text;
		side->scope.outer = scope;
		side->scope.in_cte = scope->in_cte;
		return true;
	}
	if (expr->kind != SQL_COLUMN || sql_name_is_set(&expr->column.qualifier))
		return false;
	cte = stream_find_cte(scope, &expr->column.name);
	if (cte == NULL)
		return false;
	side->select = cte->select;
	side->scope.text = &cte->text;
	side->scope.in_cte = true;
	return true;
}

/* the only column of the subquery; what it demands goes to the conditions */
static const StoredExpr *
subquery_column(const StreamScope *scope, const SqlExpr *expr, RightSide *side,
				StreamCondition *conditions)
{
	const SqlSelect *select = side->select;

	if (select == NULL)
		return NULL;
	stream_compile_from(&side->scope, select, conditions);
	if (select->where != NULL)
		stream_compile_where(&side->scope, select->where, conditions);
	if (select->item_count != 1 || select->items[0].expr->kind == SQL_STAR)
	{
		stream_fail(scope->text, SYNC_ERROR_CONFIG, expr->offset,
					"a subquery here must have exactly one column");
		return NULL;
	}
	return stream_expr(&side->scope, select->items[0].expr);
}

const StoredExpr *
stream_value_column(const StreamText *text, uint32_t offset, StoredRelation *relation)
{
	if (relation == NULL)
		return NULL;
	return stream_make_input(text, offset, STORED_COLUMN, sync_string_literal("value"), relation);
}

/* the elements of a JSON array, or the rows of a subquery */
static const StoredExpr *
elements(const StreamScope *scope, const SqlExpr *expr, StreamCondition *conditions)
{
	RightSide	side;

	if (is_subquery(scope, expr, &side))
		return subquery_column(scope, expr, &side, conditions);
	return stream_value_column(scope->text, expr->offset,
							   stream_json_each(scope, stream_expr(scope, expr), expr->offset));
}

/* left = right, and what their subqueries demand */
static StreamCondition *
join(const StreamScope *scope, const SqlExpr *expr, const StoredExpr *left,
	 const StoredExpr *right, const StreamCondition *demands)
{
	StreamCondition *all = stream_condition_new(scope->text, CONDITION_AND, expr->offset);

	all->chain = true;
	stream_condition_add(all, equality(scope->text, expr->offset, left, right));
	for (int i = 0; i < demands->child_count; i++)
		stream_condition_add(all, demands->children[i]);
	return all;
}

static StreamCondition *
in_condition(const StreamScope *scope, const SqlExpr *expr)
{
	const SqlExpr *right = expr->binary.right;
	StreamCondition *demands;
	StreamCondition *made;
	const StoredExpr *left;
	RightSide	side;
	SqlExpr   **items;
	int			count;
	bool		subquery;

	if (right->kind == SQL_LIST || stream_list_items(right, &items, &count))
		return plain(scope, expr);
	subquery = is_subquery(scope, right, &side);
	if (expr->op == SQL_OP_NOT_IN && !subquery)
		return plain(scope, expr);
	demands = stream_condition_new(scope->text, CONDITION_AND, expr->offset);
	left = stream_expr(scope, expr->binary.left);
	made = join(scope, expr, left,
				subquery ? subquery_column(scope, right, &side, demands) :
				elements(scope, right, demands), demands);
	return expr->op == SQL_OP_NOT_IN ? negation(scope->text, expr->offset, made) : made;
}

static StreamCondition *
overlap_condition(const StreamScope *scope, const SqlExpr *expr)
{
	StreamCondition *demands = stream_condition_new(scope->text, CONDITION_AND, expr->offset);
	const StoredExpr *left = elements(scope, expr->binary.left, demands);
	const StoredExpr *right = elements(scope, expr->binary.right, demands);

	return join(scope, expr, left, right, demands);
}

/* ---------------------------------------------------------------- conditions */

/* NULL: wrong, reported */
static StreamCondition *
condition(const StreamScope *scope, const SqlExpr *expr)
{
	const StoredExpr *left;
	const StoredExpr *right;

	if (scope->text->compiler->exhausted)
		return NULL;
	if (expr->kind == SQL_UNARY && expr->op == SQL_OP_NOT)
		return negation(scope->text, expr->offset, condition(scope, expr->unary.operand));
	if (expr->kind != SQL_BINARY || expr->binary.op_schema.len > 0)
		return plain(scope, expr);
	switch (expr->op)
	{
		case SQL_OP_AND:
			return junction(scope, expr, CONDITION_AND);
		case SQL_OP_OR:
			return junction(scope, expr, CONDITION_OR);
		case SQL_OP_EQ:
			left = stream_expr(scope, expr->binary.left);
			right = stream_expr(scope, expr->binary.right);
			return equality(scope->text, expr->offset, left, right);
		case SQL_OP_NE:
			left = stream_expr(scope, expr->binary.left);
			right = stream_expr(scope, expr->binary.right);
			return negation(scope->text, expr->offset,
							equality(scope->text, expr->offset, left, right));
		case SQL_OP_IN:
		case SQL_OP_NOT_IN:
			return in_condition(scope, expr);
		case SQL_OP_OVERLAP:
			return overlap_condition(scope, expr);
		default:
			return plain(scope, expr);
	}
}

void
stream_compile_where(const StreamScope *scope, const SqlExpr *expr, StreamCondition *conditions)
{
	stream_condition_add(conditions, condition(scope, expr));
}
