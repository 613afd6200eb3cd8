/*-------------------------------------------------------------------------
 *
 * sql_expr.c
 *	  Expressions: operators by precedence, lists.
 *
 * The precedence is that of sync-rules.md, 2.3, not PostgreSQL's.  It is run
 * by one loop over numbered levels.  An operator takes what was read so far as
 * its left operand only if that is of the operator's own level or a tighter
 * one: "a IS NULL < b" is an error, not "(a IS NULL) < b".
 *
 * Invariant: between two levels of nesting (sql_enter) the parser recurses at
 * most once per precedence level, so the depth of the stack is bounded by
 * SQL_MAX_DEPTH.
 *
 *-------------------------------------------------------------------------
 */
#include "sql_internal.h"

/* sync-rules.md, 2.3; a primary and all in parentheses are tighter than any operator */
#define LEVEL_LOOSEST	1
#define LEVEL_NOT		3
#define LEVEL_IS		5
#define LEVEL_BETWEEN	7
#define LEVEL_SIGN		14
#define LEVEL_SUBSCRIPT	16
#define LEVEL_MEMBER	17
#define LEVEL_PRIMARY	19

static const struct
{
	uint8_t		level;
	const char *name;
}			operators[] = {
	[SQL_OP_OR] = {1, "OR"},
	[SQL_OP_AND] = {2, "AND"},
	[SQL_OP_NOT] = {LEVEL_NOT, "NOT"},
	[SQL_OP_EQ] = {4, "="},
	[SQL_OP_NE] = {4, "!="},
	[SQL_OP_IS_NULL] = {LEVEL_IS, "IS NULL"},
	[SQL_OP_IS_NOT_NULL] = {LEVEL_IS, "IS NOT NULL"},
	[SQL_OP_IS_TRUE] = {LEVEL_IS, "IS TRUE"},
	[SQL_OP_IS_NOT_TRUE] = {LEVEL_IS, "IS NOT TRUE"},
	[SQL_OP_IS_FALSE] = {LEVEL_IS, "IS FALSE"},
	[SQL_OP_IS_NOT_FALSE] = {LEVEL_IS, "IS NOT FALSE"},
	[SQL_OP_LT] = {6, "<"},
	[SQL_OP_LE] = {6, "<="},
	[SQL_OP_GT] = {6, ">"},
	[SQL_OP_GE] = {6, ">="},
	[SQL_OP_SHIFT_LEFT] = {6, "<<"},
	[SQL_OP_SHIFT_RIGHT] = {6, ">>"},
	[SQL_OP_CONTAINS] = {6, "@>"},
	[SQL_OP_CONTAINED] = {6, "<@"},
	[SQL_OP_MATCH] = {6, "~"},
	[SQL_OP_IMATCH] = {6, "~*"},
	[SQL_OP_NOT_MATCH] = {6, "!~"},
	[SQL_OP_NOT_IMATCH] = {6, "!~*"},
	[SQL_OP_KEY] = {6, "?"},
	[SQL_OP_KEY_ANY] = {6, "?|"},
	[SQL_OP_KEY_ALL] = {6, "?&"},
	[SQL_OP_PATH_TEXT] = {6, "#>>"},
	[SQL_OP_TEXT_SEARCH] = {6, "@@"},
	[SQL_OP_BETWEEN] = {LEVEL_BETWEEN, "BETWEEN"},
	[SQL_OP_NOT_BETWEEN] = {LEVEL_BETWEEN, "NOT BETWEEN"},
	[SQL_OP_BIT_OR] = {8, "|"},
	[SQL_OP_BIT_AND] = {8, "&"},
	[SQL_OP_BIT_XOR] = {8, "#"},
	[SQL_OP_LIKE] = {9, "LIKE"},
	[SQL_OP_NOT_LIKE] = {9, "NOT LIKE"},
	[SQL_OP_ILIKE] = {9, "ILIKE"},
	[SQL_OP_NOT_ILIKE] = {9, "NOT ILIKE"},
	[SQL_OP_IN] = {10, "IN"},
	[SQL_OP_NOT_IN] = {10, "NOT IN"},
	[SQL_OP_ADD] = {11, "+"},
	[SQL_OP_SUBTRACT] = {11, "-"},
	[SQL_OP_CONCAT] = {11, "||"},
	[SQL_OP_OVERLAP] = {11, "&&"},
	[SQL_OP_DELETE_PATH] = {11, "#-"},
	[SQL_OP_MULTIPLY] = {12, "*"},
	[SQL_OP_DIVIDE] = {12, "/"},
	[SQL_OP_MODULO] = {12, "%"},
	[SQL_OP_POWER] = {13, "^"},
	[SQL_OP_PLUS] = {LEVEL_SIGN, "+"},
	[SQL_OP_MINUS] = {LEVEL_SIGN, "-"},
	[SQL_OP_AT_TIME_ZONE] = {15, "AT TIME ZONE"},
	[SQL_OP_JSON] = {LEVEL_MEMBER, "->"},
	[SQL_OP_JSON_TEXT] = {LEVEL_MEMBER, "->>"}
};

const char *
sql_operator_name(SqlOperator op)
{
	return operators[op].name;
}

/* ---------------------------------------------------------------- nodes */

SqlExpr *
sql_new_expr(SqlParser *parser, SqlExprKind kind, uint32_t offset)
{
	SqlExpr    *expr = arena_new(parser->arena, SqlExpr);

	expr->kind = kind;
	expr->offset = offset;
	return expr;
}

/* height is that of the highest operand, 0 without operands */
SqlExpr *
sql_finish(SqlParser *parser, SqlExpr *expr, uint32_t end, uint32_t height)
{
	if (height >= SQL_MAX_HEIGHT)
		return sql_error_limit(parser, "an expression of the query has too many operators");
	expr->end = end;
	expr->height = height + 1;
	if (parser->height < expr->height)
		parser->height = expr->height;
	return expr;
}

static inline uint32_t
higher(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

/* ---------------------------------------------------------------- operators */

/* an operator behind an operand */
typedef struct Operator
{
	enum
	{
		OPERATOR_BINARY,
		OPERATOR_IS,
		OPERATOR_BETWEEN,
		OPERATOR_MEMBER,
		OPERATOR_CAST,
		OPERATOR_SUBSCRIPT
	}			kind;
	SqlOperator op;
	int			level;
	int			tokens;			/* that it takes */
	SyncString	schema;			/* of OPERATOR(schema.op) */
} Operator;

/* what can stand in OPERATOR(schema.op) */
static bool
can_have_schema(SqlOperator op)
{
	int			level = operators[op].level;

	return level == 4 || level == 6 || level == 8 || (level >= 11 && level <= 13);
}

/* OPERATOR(schema.op), six tokens, at a distance from the next one */
static bool
at_qualified_operator(const SqlParser *parser, int ahead)
{
	return sql_is_word(parser, ahead, "operator") &&
		sql_is(parser, ahead + 1, TOKEN_LEFT_PAREN) &&
		sql_is_name(parser, ahead + 2) &&
		sql_is(parser, ahead + 3, TOKEN_DOT) &&
		sql_is(parser, ahead + 4, TOKEN_OPERATOR) &&
		can_have_schema((SqlOperator) sql_token(parser, ahead + 4)->detail) &&
		sql_is(parser, ahead + 5, TOKEN_RIGHT_PAREN);
}

/* [NOT] LIKE | ILIKE | IN | BETWEEN behind an operand */
static bool
find_word_operator(const SqlParser *parser, Operator *found)
{
	int			negated = sql_is(parser, 0, WORD_NOT) ? 1 : 0;

	found->tokens = negated + 1;
	if (sql_is(parser, negated, WORD_LIKE))
		found->op = negated ? SQL_OP_NOT_LIKE : SQL_OP_LIKE;
	else if (sql_is(parser, negated, WORD_ILIKE))
		found->op = negated ? SQL_OP_NOT_ILIKE : SQL_OP_ILIKE;
	else if (sql_is(parser, negated, WORD_IN))
		found->op = negated ? SQL_OP_NOT_IN : SQL_OP_IN;
	else if (sql_is_word(parser, negated, "between") &&
			 (negated || sql_can_begin_operand(parser, 1)))
	{
		/* otherwise "between" is an alias */
		found->kind = OPERATOR_BETWEEN;
		found->op = negated ? SQL_OP_NOT_BETWEEN : SQL_OP_BETWEEN;
	}
	else
		return false;
	return true;
}

/* the operator that the next tokens are, if any */
static bool
find_operator(SqlParser *parser, Operator *found)
{
	const SqlToken *token = sql_token(parser, 0);

	*found = (Operator) {.kind = OPERATOR_BINARY,.tokens = 1};
	switch ((SqlTokenKind) token->kind)
	{
		case TOKEN_OPERATOR:
			found->op = (SqlOperator) token->detail;
			if (found->op == SQL_OP_JSON || found->op == SQL_OP_JSON_TEXT)
				found->kind = OPERATOR_MEMBER;
			break;
		case TOKEN_CAST:
			found->kind = OPERATOR_CAST;
			found->level = LEVEL_MEMBER;
			return true;
		case TOKEN_LEFT_BRACKET:
			found->kind = OPERATOR_SUBSCRIPT;
			found->level = LEVEL_SUBSCRIPT;
			return true;
		case WORD_OR:
			found->op = SQL_OP_OR;
			break;
		case WORD_AND:
			found->op = SQL_OP_AND;
			break;
		case WORD_IS:
		case WORD_ISNULL:
		case WORD_NOTNULL:
			found->kind = OPERATOR_IS;
			found->level = LEVEL_IS;
			return true;
		case WORD_NOT:
		case WORD_LIKE:
		case WORD_ILIKE:
		case WORD_IN:
			if (!find_word_operator(parser, found))
				return false;
			break;
		case TOKEN_WORD:
			if (at_qualified_operator(parser, 0))
			{
				SqlName		schema = sql_trimmed_name(parser, &parser->next[2]);

				found->op = (SqlOperator) parser->next[4].detail;
				found->schema = sql_name_string(&schema);
				found->tokens = 6;
			}
			else if (sql_is_word(parser, 0, "at") && sql_is_word(parser, 1, "time") &&
					 sql_is_word(parser, 2, "zone"))
			{
				found->op = SQL_OP_AT_TIME_ZONE;
				found->tokens = 3;
			}
			else if (!find_word_operator(parser, found))
				return false;
			break;
		default:
			return false;
	}
	found->level = operators[found->op].level;
	return true;
}

/* ---------------------------------------------------------------- applied operators */

static SqlExpr *parse_level(SqlParser *parser, int min_level);

static SqlExpr *
parse_binary(SqlParser *parser, SqlExpr *left, const Operator *operator)
{
	SqlExpr    *expr = sql_new_expr(parser, SQL_BINARY, left->offset);
	SqlExpr    *right = parse_level(parser, operator->level + 1);

	if (right == NULL)
		return NULL;
	expr->op = operator->op;
	expr->binary.left = left;
	expr->binary.right = right;
	expr->binary.op_schema = operator->schema;
	return sql_finish(parser, expr, right->end, higher(left->height, right->height));
}

/* IS [NOT] NULL | TRUE | FALSE, ISNULL, NOTNULL */
static SqlExpr *
parse_is(SqlParser *parser, SqlExpr *operand)
{
	SqlExpr    *expr = sql_new_expr(parser, SQL_UNARY, operand->offset);
	SqlTokenKind word = sql_token(parser, -1)->kind;
	bool		negated;

	if (word == WORD_ISNULL)
		expr->op = SQL_OP_IS_NULL;
	else if (word == WORD_NOTNULL)
		expr->op = SQL_OP_IS_NOT_NULL;
	else
	{
		negated = sql_accept(parser, WORD_NOT);
		if (sql_accept(parser, WORD_NULL))
			expr->op = negated ? SQL_OP_IS_NOT_NULL : SQL_OP_IS_NULL;
		else if (sql_accept(parser, WORD_TRUE))
			expr->op = negated ? SQL_OP_IS_NOT_TRUE : SQL_OP_IS_TRUE;
		else if (sql_accept(parser, WORD_FALSE))
			expr->op = negated ? SQL_OP_IS_NOT_FALSE : SQL_OP_IS_FALSE;
		else
			return sql_error_here(parser, "NULL, TRUE or FALSE");
	}
	expr->unary.operand = operand;
	return sql_finish(parser, expr, sql_last_end(parser), operand->height);
}

/* the lower bound may be a BETWEEN itself, the upper one not */
static SqlExpr *
parse_between(SqlParser *parser, SqlExpr *operand, SqlOperator op)
{
	SqlExpr    *expr = sql_new_expr(parser, SQL_BETWEEN, operand->offset);
	SqlExpr    *low;
	SqlExpr    *high;

	/* the one operator whose right side can hold one of its own level */
	if (!sql_enter(parser))
		return NULL;
	low = parse_level(parser, LEVEL_BETWEEN);
	if (low == NULL || !sql_expect(parser, WORD_AND, "AND and the upper bound"))
		return NULL;
	high = parse_level(parser, LEVEL_BETWEEN + 1);
	if (high == NULL)
		return NULL;
	sql_leave(parser);

	expr->op = op;
	expr->between.operand = operand;
	expr->between.low = low;
	expr->between.high = high;
	return sql_finish(parser, expr, high->end,
					  higher(operand->height, higher(low->height, high->height)));
}

static SqlExpr *
parse_member(SqlParser *parser, SqlExpr *operand, SqlOperator op)
{
	SqlExpr    *expr = sql_new_expr(parser, SQL_MEMBER, operand->offset);

	if (!sql_is(parser, 0, TOKEN_STRING) && !sql_is(parser, 0, TOKEN_ESCAPE_STRING) &&
		!sql_is(parser, 0, TOKEN_INTEGER))
		return sql_error_here(parser, "a string or an integer");
	expr->op = op;
	expr->member.operand = operand;
	expr->member.key = sql_parse_primary(parser);
	if (expr->member.key == NULL)
		return NULL;
	return sql_finish(parser, expr, expr->member.key->end, operand->height);
}

static SqlExpr *
parse_cast(SqlParser *parser, SqlExpr *operand)
{
	SqlExpr    *expr = sql_new_expr(parser, SQL_CAST, operand->offset);

	expr->cast.operand = operand;
	expr->cast.type = sql_parse_type(parser);
	if (expr->cast.type == NULL)
		return NULL;
	return sql_finish(parser, expr, sql_last_end(parser), operand->height);
}

static SqlExpr *
parse_subscript(SqlParser *parser, SqlExpr *operand)
{
	SqlExpr    *expr = sql_new_expr(parser, SQL_SUBSCRIPT, operand->offset);
	SqlExpr    *index;

	if (!sql_enter(parser))
		return NULL;
	index = sql_parse_expr_nostar(parser);
	if (index == NULL || !sql_expect(parser, TOKEN_RIGHT_BRACKET, "\"]\""))
		return NULL;
	sql_leave(parser);
	expr->subscript.operand = operand;
	expr->subscript.index = index;
	return sql_finish(parser, expr, sql_last_end(parser),
					  higher(operand->height, index->height));
}

static SqlExpr *
parse_applied(SqlParser *parser, SqlExpr *left, const Operator *operator)
{
	parser->next += operator->tokens;
	switch (operator->kind)
	{
		case OPERATOR_BINARY:
			return parse_binary(parser, left, operator);
		case OPERATOR_IS:
			return parse_is(parser, left);
		case OPERATOR_BETWEEN:
			return parse_between(parser, left, operator->op);
		case OPERATOR_MEMBER:
			return parse_member(parser, left, operator->op);
		case OPERATOR_CAST:
			return parse_cast(parser, left);
		case OPERATOR_SUBSCRIPT:
			return parse_subscript(parser, left);
	}
	return NULL;
}

/* ---------------------------------------------------------------- levels */

/*
 * The prefix operator that comes next; 0 tokens if it is none, or if what is
 * read here must be tighter.
 */
static int
find_prefix(const SqlParser *parser, int min_level, SqlOperator *op)
{
	SqlOperator binary;
	int			tokens = 1;

	if (sql_is(parser, 0, WORD_NOT))
	{
		*op = SQL_OP_NOT;
		return min_level <= LEVEL_NOT ? 1 : 0;
	}
	if (sql_is(parser, 0, TOKEN_OPERATOR))
		binary = (SqlOperator) sql_token(parser, 0)->detail;
	else if (at_qualified_operator(parser, 0))
	{
		binary = (SqlOperator) sql_token(parser, 4)->detail;
		tokens = 6;
	}
	else
		return 0;
	if ((binary != SQL_OP_ADD && binary != SQL_OP_SUBTRACT) || min_level > LEVEL_SIGN)
		return 0;
	*op = binary == SQL_OP_ADD ? SQL_OP_PLUS : SQL_OP_MINUS;
	return tokens;
}

/* an operand with the prefix operators before it */
static SqlExpr *
parse_prefixed(SqlParser *parser, int min_level, int *level)
{
	SqlExpr    *expr;
	SqlExpr    *operand;
	SqlOperator op = SQL_OP_NOT;
	int			tokens = find_prefix(parser, min_level, &op);

	if (tokens == 0)
	{
		*level = LEVEL_PRIMARY;
		return sql_parse_primary(parser);
	}
	if (!sql_enter(parser))
		return NULL;
	*level = operators[op].level;
	expr = sql_new_expr(parser, SQL_UNARY, parser->next->offset);
	parser->next += tokens;
	operand = parse_level(parser, *level);
	if (operand == NULL)
		return NULL;
	sql_leave(parser);
	expr->op = op;
	expr->unary.operand = operand;
	return sql_finish(parser, expr, operand->end, operand->height);
}

/* an expression of this level or a tighter one */
static SqlExpr *
parse_level(SqlParser *parser, int min_level)
{
	int			left_level;
	SqlExpr    *left = parse_prefixed(parser, min_level, &left_level);

	while (left != NULL)
	{
		Operator	operator;

		if (!find_operator(parser, &operator) ||
			operator.level < min_level || operator.level > left_level)
			break;
		left = parse_applied(parser, left, &operator);
		left_level = operator.level;
	}
	return left;
}

SqlExpr *
sql_parse_expr_nostar(SqlParser *parser)
{
	return parse_level(parser, LEVEL_LOOSEST);
}

SqlExpr *
sql_parse_star(SqlParser *parser)
{
	SqlExpr    *expr = sql_new_expr(parser, SQL_STAR, parser->next->offset);

	parser->next++;
	return sql_finish(parser, expr, sql_last_end(parser), 0);
}

SqlExpr *
sql_parse_expr(SqlParser *parser)
{
	return sql_is_star(parser, 0) ? sql_parse_star(parser) : sql_parse_expr_nostar(parser);
}

bool
sql_can_begin_operand(const SqlParser *parser, int ahead)
{
	switch ((SqlTokenKind) sql_token(parser, ahead)->kind)
	{
		case TOKEN_STRING:
		case TOKEN_ESCAPE_STRING:
		case TOKEN_INTEGER:
		case TOKEN_REAL:
		case TOKEN_PARAMETER:
		case TOKEN_LEFT_PAREN:
		case WORD_NULL:
		case WORD_TRUE:
		case WORD_FALSE:
		case WORD_DEFAULT:
		case WORD_CASE:
		case WORD_CAST:
		case WORD_ARRAY:
		case WORD_ANY:
		case WORD_SOME:
		case WORD_ALL:
		case WORD_PRECISION:
			return true;
		case TOKEN_OPERATOR:
			return sql_is_operator(parser, ahead, SQL_OP_ADD) ||
				sql_is_operator(parser, ahead, SQL_OP_SUBTRACT);
		default:
			return sql_is_name(parser, ahead) || sql_is_value_keyword(parser, ahead);
	}
}

/* ---------------------------------------------------------------- lists */

/*
 * A selection without parentheses of its own as an item of a list.  When it
 * ends with a list itself, nobody knows to which of the two the last item
 * belongs: "x IN (SELECT a FROM t, u)".
 */
static SqlExpr *
bare_subquery(SqlParser *parser, SqlStatement *statement)
{
	SqlExpr    *expr;

	if (statement == NULL)
		return NULL;
	if (parser->comma_list_end == sql_last_end(parser))
		return sql_error_ambiguous(parser, statement->offset,
								   "Put the SELECT in parentheses of its own.");
	expr = sql_new_expr(parser, SQL_SUBQUERY, statement->offset);
	expr->subquery = statement;
	return sql_finish(parser, expr, statement->end, statement->height);
}

/*
 * An item of a list: an expression, or a SELECT without parentheses of its own.
 * "(SELECT ...) UNION ..." and "VALUES (a) UNION ..." turn out to be the latter
 * only at the UNION.
 */
static SqlExpr *
parse_list_item(SqlParser *parser, bool star_allowed)
{
	const SqlToken *start = parser->next;
	SqlExpr    *expr;
	bool		direct_subquery;
	bool		values_call;

	if (star_allowed && sql_is_star(parser, 0))
		return sql_parse_star(parser);
	if (sql_at_selection(parser, 0))
		return bare_subquery(parser, sql_parse_selection(parser));

	expr = sql_parse_expr_nostar(parser);
	if (expr == NULL)
		return NULL;

	direct_subquery = expr->kind == SQL_SUBQUERY &&
		parser->direct_subquery_end == sql_last_end(parser) && expr->offset == start[1].offset;
	values_call = expr->kind == SQL_CALL &&
		parser->values_call_end == sql_last_end(parser) && expr->offset == start->offset;
	if ((direct_subquery || values_call) && sql_is(parser, 0, WORD_UNION))
		return bare_subquery(parser, sql_parse_union(parser, start->offset, expr->height));
	if (values_call)
		return sql_error_ambiguous(parser, start->offset,
								   "VALUES is a statement here as well as a function.");
	return expr;
}

bool
sql_parse_expr_list(SqlParser *parser, bool star_allowed, SqlExprList *list)
{
	*list = (SqlExprList) {0};
	do
	{
		SqlExpr    *expr = parse_list_item(parser, star_allowed);

		if (expr == NULL)
			return false;
		list->items = sql_grow(parser, list->items, list->count, &list->capacity,
							   sizeof(SqlExpr *));
		list->items[list->count++] = expr;
		list->height = higher(list->height, expr->height);
	} while (sql_accept(parser, TOKEN_COMMA));
	return true;
}
