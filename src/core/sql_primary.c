/*-------------------------------------------------------------------------
 *
 * sql_primary.c
 *	  Expressions without operators: literals, names, calls, parentheses.
 *
 * Any function can be called with any number of arguments; which exist is not
 * known here.
 *
 * Invariant: everything that can hold an expression again is entered with
 * sql_enter().
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "number.h"
#include "sql_internal.h"

/* ---------------------------------------------------------------- literals */

/* without leading zeros; "-0" stays */
static SyncString
integer_digits(const char *s, uint32_t len, SyncArena *arena)
{
	bool		negative = *s == '-';
	const char *digits = s + (negative ? 1 : 0);
	const char *end = s + len;
	char	   *text;

	if (end - digits == 1 || *digits != '0')
		return (SyncString) {s, len};
	while (end - digits > 1 && *digits == '0')
		digits++;
	if (!negative)
		return (SyncString) {digits, (uint32_t) (end - digits)};
	text = arena_printf(arena, "-%.*s", (int) (end - digits), digits);
	return (SyncString) {text, (uint32_t) (end - digits + 1)};
}

static SqlExpr *
parse_literal(SqlParser *parser, SqlExprKind kind)
{
	const SqlToken *token = parser->next;
	const char *text = parser->script->text;
	uint32_t	len = token->end - token->offset;
	SqlExpr    *expr = sql_new_expr(parser, kind, token->offset);

	switch (kind)
	{
		case SQL_BOOLEAN:
			expr->boolean = token->kind == WORD_TRUE;
			break;
		case SQL_INTEGER:
			expr->integer = integer_digits(text + token->offset, len, parser->strings);
			break;
		case SQL_REAL:
			expr->real = number_parse(text + token->offset, len);
			break;
		case SQL_STRING:
			expr->string = sql_string_value(text, token, parser->strings);
			break;
		case SQL_PARAMETER:
			expr->word = (SyncString) {text + token->offset, len};
			break;
		case SQL_KEYWORD:
			{
				SqlName		name = sql_token_name(parser, token);

				expr->word = sql_name_string(&name);
				break;
			}
		default:
			break;
	}
	parser->next++;
	return sql_finish(parser, expr, token->end, 0);
}

/* type 'string' */
static SqlExpr *
parse_typed_string(SqlParser *parser)
{
	SqlExpr    *expr = sql_new_expr(parser, SQL_CAST, parser->next->offset);

	expr->cast.type = sql_parse_type(parser);
	if (expr->cast.type == NULL)
		return NULL;
	expr->cast.operand = parse_literal(parser, SQL_STRING);
	if (expr->cast.operand == NULL)
		return NULL;
	return sql_finish(parser, expr, sql_last_end(parser), expr->cast.operand->height);
}

/* ---------------------------------------------------------------- columns */

/*
 * name, qualifier.name, schema.qualifier.name; the last part of a qualified one
 * may be a star.  The middle part of three may be a reserved word.
 */
static SqlExpr *
parse_column(SqlParser *parser)
{
	SqlExpr    *expr = sql_new_expr(parser, SQL_COLUMN, parser->next->offset);

	if (!sql_is(parser, 1, TOKEN_DOT))
	{
		if (!sql_is_name(parser, 0))
			return sql_error_here(parser, "an expression");
		expr->column.name = sql_token_name(parser, parser->next);
		parser->next++;
		return sql_finish(parser, expr, sql_last_end(parser), 0);
	}

	if (sql_is_name(parser, 0) && sql_is_name_after_dot(parser, 2) &&
		sql_is(parser, 3, TOKEN_DOT))
	{
		if (!sql_parse_qualified_name(parser, &expr->column.schema, &expr->column.qualifier))
			return NULL;
	}
	else
	{
		expr->column.qualifier = sql_trimmed_name(parser, parser->next);
		parser->next++;
	}

	parser->next++;				/* the dot */
	if (sql_is_star(parser, 0))
	{
		expr->kind = SQL_STAR;
		parser->next++;
	}
	else if (!sql_parse_name(parser, &expr->column.name))
		return NULL;
	return sql_finish(parser, expr, sql_last_end(parser), 0);
}

/* ---------------------------------------------------------------- calls */

static inline bool
is_function_name(const SqlParser *parser, int ahead)
{
	return sql_is_name(parser, ahead) || sql_is_value_keyword(parser, ahead);
}

bool
sql_at_call(const SqlParser *parser)
{
	if (sql_is_name(parser, 0) && sql_is(parser, 1, TOKEN_DOT))
		return is_function_name(parser, 2) && sql_is(parser, 3, TOKEN_LEFT_PAREN);
	return (is_function_name(parser, 0) || sql_is(parser, 0, WORD_ANY) ||
			sql_is(parser, 0, WORD_SOME) || sql_is(parser, 0, WORD_ALL)) &&
		sql_is(parser, 1, TOKEN_LEFT_PAREN);
}

/* EXTRACT(field FROM x) */
static SqlExpr *
parse_extract(SqlParser *parser)
{
	SqlExpr    *expr = sql_new_expr(parser, SQL_EXTRACT, parser->next->offset);

	if (!sql_enter(parser))
		return NULL;
	expr->words.field = sql_trimmed_name(parser, &parser->next[2]);
	parser->next += 4;			/* extract ( field FROM */
	expr->words.from = sql_parse_expr(parser);
	if (expr->words.from == NULL || !sql_expect(parser, TOKEN_RIGHT_PAREN, "\")\""))
		return NULL;
	sql_leave(parser);
	return sql_finish(parser, expr, sql_last_end(parser), expr->words.from->height);
}

/* a word and the expression behind it, if it is there */
static bool
parse_word_argument(SqlParser *parser, SqlTokenKind word, SqlExpr **argument, uint32_t *height)
{
	if (!sql_accept(parser, word))
		return true;
	*argument = sql_parse_expr_nostar(parser);
	if (*argument == NULL)
		return false;
	if (*height < (*argument)->height)
		*height = (*argument)->height;
	return true;
}

/*
 * What follows the first argument in OVERLAY(x PLACING y FROM a [FOR b]) and
 * SUBSTRING(x [FROM a] [FOR b]).
 */
static SqlExpr *
parse_word_arguments(SqlParser *parser, SqlExpr *expr, SqlExpr *value)
{
	uint32_t	height = value->height;

	expr->kind = sql_is(parser, 0, WORD_PLACING) ? SQL_OVERLAY : SQL_SUBSTRING;
	memset(&expr->call, 0, sizeof(expr->call));
	expr->words.value = value;
	if (!parse_word_argument(parser, WORD_PLACING, &expr->words.placing, &height) ||
		!parse_word_argument(parser, WORD_FROM, &expr->words.from, &height))
		return NULL;
	if (expr->kind == SQL_OVERLAY && expr->words.from == NULL)
		return sql_error_here(parser, "FROM");
	if (!parse_word_argument(parser, WORD_FOR, &expr->words.length, &height) ||
		!sql_expect(parser, TOKEN_RIGHT_PAREN, "\")\""))
		return NULL;
	sql_leave(parser);
	return sql_finish(parser, expr, sql_last_end(parser), height);
}

/* the call is of an unqualified, unquoted name */
static bool
is_call_of(const SqlToken *start, const SqlExpr *expr, const char *name)
{
	return start->kind == TOKEN_WORD && start[1].kind == TOKEN_LEFT_PAREN &&
		sync_string_equal(sql_name_string(&expr->call.name),
						  (SyncString) {name, (uint32_t) strlen(name)});
}

/* PLACING, FROM or FOR behind the first argument of a function that takes it */
static bool
at_word_argument(const SqlParser *parser, const SqlToken *start, const SqlExpr *expr)
{
	if (sql_is(parser, 0, WORD_PLACING))
		return is_call_of(start, expr, "overlay");
	return (sql_is(parser, 0, WORD_FROM) || sql_is(parser, 0, WORD_FOR)) &&
		is_call_of(start, expr, "substring");
}

/* ( [PARTITION BY ...] [ORDER BY ...] ) */
static bool
parse_over(SqlParser *parser)
{
	SqlExprList list;

	parser->next += 2;
	if (sql_accept_word(parser, "partition"))
	{
		if (!sql_expect_word(parser, "by") || !sql_parse_expr_list(parser, true, &list))
			return false;
	}
	if (sql_is(parser, 0, WORD_ORDER) && !sql_parse_order_by(parser))
		return false;
	return sql_expect(parser, TOKEN_RIGHT_PAREN, "\")\"");
}

/* FILTER (WHERE ...), OVER (...) behind a call's parentheses */
static bool
parse_call_suffixes(SqlParser *parser, SqlExpr *expr)
{
	if (sql_is_word(parser, 0, "filter") && sql_is(parser, 1, TOKEN_LEFT_PAREN))
	{
		expr->call.extras |= SQL_CALL_FILTER;
		parser->next += 2;
		if (!sql_expect(parser, WORD_WHERE, "WHERE") || sql_parse_expr(parser) == NULL ||
			!sql_expect(parser, TOKEN_RIGHT_PAREN, "\")\""))
			return false;
	}
	if (sql_is_word(parser, 0, "over") && sql_is(parser, 1, TOKEN_LEFT_PAREN))
	{
		expr->call.extras |= SQL_CALL_OVER;
		if (!parse_over(parser))
			return false;
	}
	return true;
}

static bool
is_lone_star(const SqlExpr *expr)
{
	return expr->kind == SQL_STAR && !sql_name_is_set(&expr->column.qualifier);
}

/*
 * Calls that the reference parser can read as something else, too.  start is
 * the call's first token, bare_select says that its first argument is a SELECT
 * without parentheses.
 */
static bool
check_second_reading(SqlParser *parser, SqlExpr *expr, const SqlToken *start, bool bare_select,
					 bool watched)
{
	int			stars = 0;

	if (expr->call.extras != 0 || expr->call.arg_count == 0)
		return true;
	for (int i = 0; i < expr->call.arg_count; i++)
		stars += is_lone_star(expr->call.args[i]);

	if (watched && !(expr->call.arg_count == 1 && stars == 1))
	{
		sql_error_ambiguous(parser, start->offset, "Leave out ALL.");
		return false;
	}
	if (is_call_of(start, expr, "substring") && expr->call.arg_count == 1 && stars == 0 &&
		!bare_select)
	{
		sql_error_ambiguous(parser, start->offset, "Give substring() a start.");
		return false;
	}
	if (is_call_of(start, expr, "values") && stars == 0)
		parser->values_call_end = sql_last_end(parser);
	return true;
}

/* the name and the opening parenthesis */
static void
parse_call_name(SqlParser *parser, SqlExpr *expr)
{
	if (sql_is(parser, 1, TOKEN_DOT))
	{
		expr->call.schema = sql_trimmed_name(parser, parser->next);
		parser->next += 2;
	}
	expr->call.name = sql_token_name(parser, parser->next);
	parser->next += 2;
}

/* ALL or DISTINCT before the arguments; ALL (a) is taken for a call first */
static void
parse_call_modifier(SqlParser *parser, SqlExpr *expr)
{
	if (sql_accept(parser, WORD_DISTINCT))
		expr->call.extras |= SQL_CALL_DISTINCT;
	else if (sql_is(parser, 0, WORD_ALL))
	{
		if (sql_is(parser, 1, TOKEN_LEFT_PAREN))
			parser->watched_all = parser->next;
		else
		{
			expr->call.extras |= SQL_CALL_ALL;
			parser->next++;
		}
	}
}

/*
 * A call that sql_at_call() has seen.  In FROM it has arguments only; there no
 * second reading is possible either.
 */
SqlExpr *
sql_parse_call(SqlParser *parser, bool in_from)
{
	const SqlToken *start = parser->next;
	SqlExpr    *expr = sql_new_expr(parser, SQL_CALL, start->offset);
	bool		watched = parser->watched_all == start;
	bool		bare_select;
	SqlExprList args = {0};

	if (!in_from && sql_is_word(parser, 0, "extract") && sql_is_name(parser, 2) &&
		sql_is(parser, 3, WORD_FROM))
		return parse_extract(parser);

	if (!sql_enter(parser))
		return NULL;
	parse_call_name(parser, expr);
	if (!in_from)
		parse_call_modifier(parser, expr);
	bare_select = sql_at_selection(parser, 0);
	if (!sql_is(parser, 0, TOKEN_RIGHT_PAREN) && (in_from || !sql_is(parser, 0, WORD_ORDER)) &&
		!sql_parse_expr_list(parser, true, &args))
		return NULL;

	if (!in_from)
	{
		if (args.count > 0 && parser->order_by_end == sql_last_end(parser))
			return sql_error_ambiguous(parser, start->offset,
									   "Put the SELECT in parentheses of its own.");
		if (args.count == 1 && !is_lone_star(args.items[0]) && !bare_select &&
			expr->call.extras == 0 && at_word_argument(parser, start, expr))
			return parse_word_arguments(parser, expr, args.items[0]);
		if (sql_is(parser, 0, WORD_ORDER))
		{
			expr->call.extras |= SQL_CALL_ORDER_BY;
			if (!sql_parse_order_by(parser))
				return NULL;
		}
	}
	if (!sql_expect(parser, TOKEN_RIGHT_PAREN, "\")\""))
		return NULL;

	expr->call.args = args.items;
	expr->call.arg_count = args.count;
	if (!in_from && (!parse_call_suffixes(parser, expr) ||
					 !check_second_reading(parser, expr, start, bare_select, watched)))
		return NULL;
	sql_leave(parser);
	return sql_finish(parser, expr, sql_last_end(parser), args.height);
}

/* ---------------------------------------------------------------- in brackets */

/* (e), (SELECT ...), (a, b); a single star in parentheses is nothing */
static SqlExpr *
parse_parenthesised(SqlParser *parser)
{
	const SqlToken *start = parser->next;
	SqlExprList list;
	SqlExpr    *expr;

	if (!sql_enter(parser))
		return NULL;
	parser->next++;
	if (!sql_parse_expr_list(parser, true, &list))
		return NULL;
	if (list.count == 1 && is_lone_star(list.items[0]))
		return sql_error_here(parser, "\",\"");
	if (!sql_expect(parser, TOKEN_RIGHT_PAREN, "\")\""))
		return NULL;
	sql_leave(parser);

	if (list.count == 1)
	{
		expr = list.items[0];
		if (expr->kind == SQL_SUBQUERY && expr->offset == start[1].offset)
			parser->direct_subquery_end = sql_last_end(parser);
		return expr;
	}
	expr = sql_new_expr(parser, SQL_LIST, list.items[0]->offset);
	expr->list.items = list.items;
	expr->list.count = list.count;
	return sql_finish(parser, expr, list.items[list.count - 1]->end, list.height);
}

/* [a, b] or [[a], [b]], the opening bracket being next; inner ones must not be empty */
static SqlExpr *
parse_array_items(SqlParser *parser, SqlExpr *expr, bool inner)
{
	SqlExprList list = {0};

	if (!sql_enter(parser))
		return NULL;
	parser->next++;
	if (sql_is(parser, 0, TOKEN_LEFT_BRACKET))
	{
		do
		{
			SqlExpr    *item = sql_new_expr(parser, SQL_ARRAY, sql_token(parser, 1)->offset);

			if (!sql_is(parser, 0, TOKEN_LEFT_BRACKET))
				return sql_error_here(parser, "\"[\"");
			if (parse_array_items(parser, item, true) == NULL)
				return NULL;
			list.items = sql_grow(parser, list.items, list.count, &list.capacity,
								  sizeof(SqlExpr *));
			list.items[list.count++] = item;
			if (list.height < item->height)
				list.height = item->height;
		} while (sql_accept(parser, TOKEN_COMMA));
	}
	else if (inner || !sql_is(parser, 0, TOKEN_RIGHT_BRACKET))
	{
		if (!sql_parse_expr_list(parser, true, &list))
			return NULL;
	}
	if (!sql_expect(parser, TOKEN_RIGHT_BRACKET, "\"]\""))
		return NULL;
	sql_leave(parser);
	expr->list.items = list.items;
	expr->list.count = list.count;
	return sql_finish(parser, expr, inner ? list.items[list.count - 1]->end : sql_last_end(parser),
					  list.height);
}

static SqlExpr *
parse_array(SqlParser *parser)
{
	SqlExpr    *expr = sql_new_expr(parser, SQL_ARRAY, parser->next->offset);

	parser->next++;
	if (sql_is(parser, 0, TOKEN_LEFT_BRACKET))
		return parse_array_items(parser, expr, false);

	expr->kind = SQL_ARRAY_SUBQUERY;
	if (!sql_expect(parser, TOKEN_LEFT_PAREN, "\"[\"") || !sql_enter(parser))
		return NULL;
	expr->subquery = sql_parse_selection(parser);
	if (expr->subquery == NULL || !sql_expect(parser, TOKEN_RIGHT_PAREN, "\")\""))
		return NULL;
	sql_leave(parser);
	return sql_finish(parser, expr, sql_last_end(parser), expr->subquery->height);
}

/* ---------------------------------------------------------------- CASE, CAST */

static bool
parse_case_arm(SqlParser *parser, SqlCaseArm *arm)
{
	arm->when = sql_parse_expr_nostar(parser);
	if (arm->when == NULL || !sql_expect(parser, WORD_THEN, "THEN"))
		return false;
	arm->then = sql_parse_expr_nostar(parser);
	return arm->then != NULL;
}

/* a CASE without any WHEN is well-formed */
static SqlExpr *
parse_case(SqlParser *parser)
{
	SqlExpr    *expr = sql_new_expr(parser, SQL_CASE, parser->next->offset);
	uint32_t	height = 0;
	int			capacity = 0;

	if (!sql_enter(parser))
		return NULL;
	parser->next++;
	if (!sql_is(parser, 0, WORD_WHEN) && !sql_is(parser, 0, WORD_ELSE) &&
		!sql_is(parser, 0, WORD_END))
	{
		expr->cases.operand = sql_parse_expr_nostar(parser);
		if (expr->cases.operand == NULL)
			return NULL;
		height = expr->cases.operand->height;
	}
	while (sql_accept(parser, WORD_WHEN))
	{
		SqlCaseArm	arm;

		if (!parse_case_arm(parser, &arm))
			return NULL;
		expr->cases.arms = sql_grow(parser, expr->cases.arms, expr->cases.arm_count, &capacity,
									sizeof(SqlCaseArm));
		expr->cases.arms[expr->cases.arm_count++] = arm;
		if (height < arm.when->height)
			height = arm.when->height;
		if (height < arm.then->height)
			height = arm.then->height;
	}
	if (sql_accept(parser, WORD_ELSE))
	{
		expr->cases.otherwise = sql_parse_expr_nostar(parser);
		if (expr->cases.otherwise == NULL)
			return NULL;
		if (height < expr->cases.otherwise->height)
			height = expr->cases.otherwise->height;
	}
	if (!sql_expect(parser, WORD_END, "WHEN or END"))
		return NULL;
	sql_leave(parser);
	return sql_finish(parser, expr, sql_last_end(parser), height);
}

/* CAST(e AS type) */
static SqlExpr *
parse_cast_call(SqlParser *parser)
{
	SqlExpr    *expr = sql_new_expr(parser, SQL_CAST, parser->next->offset);

	if (!sql_enter(parser))
		return NULL;
	parser->next++;
	if (!sql_expect(parser, TOKEN_LEFT_PAREN, "\"(\""))
		return NULL;
	expr->cast.operand = sql_parse_expr_nostar(parser);
	if (expr->cast.operand == NULL || !sql_expect(parser, WORD_AS, "AS and a type"))
		return NULL;
	expr->cast.type = sql_parse_type(parser);
	if (expr->cast.type == NULL || !sql_expect(parser, TOKEN_RIGHT_PAREN, "\")\""))
		return NULL;
	sql_leave(parser);
	return sql_finish(parser, expr, sql_last_end(parser), expr->cast.operand->height);
}

/* ---------------------------------------------------------------- all of them */

SqlExpr *
sql_parse_primary(SqlParser *parser)
{
	switch ((SqlTokenKind) sql_token(parser, 0)->kind)
	{
		case TOKEN_STRING:
		case TOKEN_ESCAPE_STRING:
			return parse_literal(parser, SQL_STRING);
		case TOKEN_INTEGER:
			return parse_literal(parser, SQL_INTEGER);
		case TOKEN_REAL:
			return parse_literal(parser, SQL_REAL);
		case TOKEN_PARAMETER:
			return parse_literal(parser, SQL_PARAMETER);
		case WORD_NULL:
			return parse_literal(parser, SQL_NULL);
		case WORD_TRUE:
		case WORD_FALSE:
			return parse_literal(parser, SQL_BOOLEAN);
		case WORD_DEFAULT:
			return parse_literal(parser, SQL_DEFAULT);
		case TOKEN_LEFT_PAREN:
			return parse_parenthesised(parser);
		case WORD_CASE:
			return parse_case(parser);
		case WORD_CAST:
			return parse_cast_call(parser);
		case WORD_ARRAY:
			return parse_array(parser);
		default:
			break;
	}
	if (sql_at_typed_string(parser))
		return parse_typed_string(parser);
	if (sql_at_call(parser))
		return sql_parse_call(parser, false);
	if (sql_is_value_keyword(parser, 0) &&
		!(sql_is(parser, 0, WORD_CURRENT_SCHEMA) && sql_is(parser, 1, TOKEN_DOT)))
		return parse_literal(parser, SQL_KEYWORD);
	if (sql_is_name(parser, 0) || sql_is(parser, 0, WORD_CURRENT_SCHEMA) ||
		(sql_is(parser, 0, WORD_PRECISION) && sql_is(parser, 1, TOKEN_DOT)))
		return parse_column(parser);
	return sql_error_here(parser, "an expression");
}
