/*-------------------------------------------------------------------------
 *
 * sql_parser.c
 *	  Statements of the rules' SQL; the entry point of the parser.
 *
 * sync-rules.md, 2.2.  SELECT is read in full; UNION, VALUES and WITH are read
 * but not kept, as no edition accepts them; of any other statement only the
 * tokens and parentheses are checked.
 *
 * Where the reference parser finds two readings of a text it refuses it, and
 * so does this one (sql_error_ambiguous).
 *
 * Invariant: time and memory grow with the length of the text, and its nesting
 * is bounded.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "sql_internal.h"
#include "text.h"

static const char *const clause_names[SQL_CLAUSE_COUNT] = {
	[SQL_CLAUSE_DISTINCT] = "DISTINCT",
	[SQL_CLAUSE_DISTINCT_ON] = "DISTINCT ON",
	[SQL_CLAUSE_ALL] = "ALL",
	[SQL_CLAUSE_GROUP_BY] = "GROUP BY",
	[SQL_CLAUSE_HAVING] = "HAVING",
	[SQL_CLAUSE_ORDER_BY] = "ORDER BY",
	[SQL_CLAUSE_LIMIT] = "LIMIT",
	[SQL_CLAUSE_OFFSET] = "OFFSET",
	[SQL_CLAUSE_FOR] = "FOR",
	[SQL_CLAUSE_SKIP] = "NOWAIT or SKIP LOCKED"
};

const char *
sql_clause_name(SqlClause clause)
{
	return clause_names[clause];
}

int
sql_first_clause(const SqlSelect *select)
{
	int			first = -1;

	for (int i = 0; i < SQL_CLAUSE_COUNT; i++)
	{
		if (select->clauses[i] != 0 &&
			(first < 0 || select->clauses[i] < select->clauses[first]))
			first = i;
	}
	return first;
}

void
sql_position(const SqlScript *script, uint32_t offset, int *line, int *column)
{
	*line = 1;
	*column = 1;
	for (uint32_t i = 0; i < offset && i < script->len; i++)
	{
		char		c = script->text[i];

		if (c == '\n')
		{
			(*line)++;
			*column = 1;
		}
		else if ((c & 0xC0) != 0x80)
			(*column)++;
	}
	/* the loop counted the character that an offset inside of one cuts */
	if (offset < script->len && (script->text[offset] & 0xC0) == 0x80)
		(*column)--;
}

/* ---------------------------------------------------------------- the parts of SELECT */

static inline void
mark_clause(SqlParser *parser, SqlSelect *select, SqlClause clause)
{
	if (select->clauses[clause] == 0)
		select->clauses[clause] = parser->next->offset;
}

/* DISTINCT [ON (...)] | ALL; "ALL (" is first taken for a call of all() */
static bool
parse_distinct(SqlParser *parser, SqlSelect *select)
{
	SqlExprList list;

	if (sql_is(parser, 0, WORD_ALL))
	{
		if (sql_is(parser, 1, TOKEN_LEFT_PAREN))
		{
			parser->watched_all = parser->next;
			return true;
		}
		mark_clause(parser, select, SQL_CLAUSE_ALL);
		parser->next++;
		return true;
	}
	if (!sql_is(parser, 0, WORD_DISTINCT))
		return true;
	mark_clause(parser, select,
				sql_is(parser, 1, WORD_ON) ? SQL_CLAUSE_DISTINCT_ON : SQL_CLAUSE_DISTINCT);
	parser->next++;
	if (!sql_accept(parser, WORD_ON))
		return true;
	return sql_expect(parser, TOKEN_LEFT_PAREN, "\"(\"") &&
		sql_parse_expr_list(parser, true, &list) &&
		sql_expect(parser, TOKEN_RIGHT_PAREN, "\")\"");
}

/* the list of items may be left out altogether */
static bool
at_end_of_items(const SqlParser *parser)
{
	switch ((SqlTokenKind) sql_token(parser, 0)->kind)
	{
		case TOKEN_END:
		case TOKEN_SEMICOLON:
		case TOKEN_RIGHT_PAREN:
		case WORD_FROM:
		case WORD_WHERE:
		case WORD_GROUP:
		case WORD_ORDER:
		case WORD_LIMIT:
		case WORD_OFFSET:
		case WORD_FETCH:
		case WORD_FOR:
		case WORD_UNION:
			return true;
		default:
			return false;
	}
}

static bool
parse_items(SqlParser *parser, SqlSelect *select)
{
	int			capacity = 0;

	if (at_end_of_items(parser))
		return true;
	do
	{
		SqlItem		item = {0};

		item.expr = sql_parse_expr(parser);
		if (item.expr == NULL || !sql_parse_alias(parser, &item.alias))
			return false;
		if (!sql_name_is_set(&item.alias) && parser->varying_type_end == sql_last_end(parser))
		{
			sql_error_ambiguous(parser, item.expr->offset,
								"Give the column a name with AS, or write CAST(... AS ...).");
			return false;
		}
		select->items = sql_grow(parser, select->items, select->item_count, &capacity,
								 sizeof(SqlItem));
		select->items[select->item_count++] = item;
	} while (sql_accept(parser, TOKEN_COMMA));
	if (select->item_count > 1 &&
		!sql_name_is_set(&select->items[select->item_count - 1].alias))
		parser->comma_list_end = sql_last_end(parser);
	return true;
}

/* GROUP BY ... [HAVING ...] */
static bool
parse_group_by(SqlParser *parser, SqlSelect *select)
{
	SqlExprList list;

	if (!sql_is(parser, 0, WORD_GROUP))
		return true;
	mark_clause(parser, select, SQL_CLAUSE_GROUP_BY);
	parser->next++;
	if (!sql_expect_word(parser, "by") || !sql_parse_expr_list(parser, true, &list))
		return false;
	if (list.count > 1)
		parser->comma_list_end = sql_last_end(parser);
	if (!sql_is(parser, 0, WORD_HAVING))
		return true;
	mark_clause(parser, select, SQL_CLAUSE_HAVING);
	parser->next++;
	return sql_parse_expr(parser) != NULL;
}

/* ORDER BY e [ASC | DESC] [NULLS FIRST | LAST], ...; nothing of it is kept */
bool
sql_parse_order_by(SqlParser *parser)
{
	uint32_t	expr_end;
	bool		several = false;

	parser->next++;
	if (!sql_expect_word(parser, "by"))
		return false;
	do
	{
		if (sql_parse_expr(parser) == NULL)
			return false;
		expr_end = sql_last_end(parser);
		if (!sql_accept(parser, WORD_ASC))
			sql_accept(parser, WORD_DESC);
		if (sql_accept_word(parser, "nulls") &&
			!sql_accept_word(parser, "first") && !sql_expect_word(parser, "last"))
			return false;
		if (several && expr_end == sql_last_end(parser))
			parser->comma_list_end = expr_end;
		several = true;
	} while (sql_accept(parser, TOKEN_COMMA));
	return true;
}

static bool
accept_rows(SqlParser *parser)
{
	return sql_accept_word(parser, "row") || sql_accept_word(parser, "rows");
}

/* FETCH [FIRST | NEXT] n ROW | ROWS ONLY */
static bool
parse_fetch(SqlParser *parser)
{
	bool		first = sql_is_word(parser, 0, "first") || sql_is_word(parser, 0, "next");
	bool		rows = sql_is_word(parser, 1, "row") || sql_is_word(parser, 1, "rows");

	/* "FETCH first ROWS ONLY" has a column named first as its count */
	if (first && !(rows && sql_is(parser, 2, WORD_ONLY)))
		parser->next++;
	if (sql_parse_expr_nostar(parser) == NULL)
		return false;
	if (!accept_rows(parser))
	{
		sql_error_here(parser, "ROWS");
		return false;
	}
	return sql_expect(parser, WORD_ONLY, "ONLY");
}

/* LIMIT, OFFSET and FETCH in any order and number */
static bool
parse_limits(SqlParser *parser, SqlSelect *select)
{
	for (;;)
	{
		if (sql_is(parser, 0, WORD_LIMIT))
		{
			mark_clause(parser, select, SQL_CLAUSE_LIMIT);
			parser->next++;
			if (sql_parse_expr_nostar(parser) == NULL)
				return false;
		}
		else if (sql_is(parser, 0, WORD_OFFSET))
		{
			mark_clause(parser, select, SQL_CLAUSE_OFFSET);
			parser->next++;
			if (sql_parse_expr_nostar(parser) == NULL)
				return false;
			accept_rows(parser);
		}
		else if (sql_is(parser, 0, WORD_FETCH))
		{
			mark_clause(parser, select, SQL_CLAUSE_LIMIT);
			parser->next++;
			if (!parse_fetch(parser))
				return false;
		}
		else
			return true;
	}
}

/* FOR UPDATE | NO KEY UPDATE | SHARE | KEY SHARE [NOWAIT | SKIP LOCKED] */
static bool
parse_for(SqlParser *parser, SqlSelect *select)
{
	if (!sql_is(parser, 0, WORD_FOR))
		return true;
	mark_clause(parser, select, SQL_CLAUSE_FOR);
	parser->next++;
	if (sql_accept_word(parser, "no"))
	{
		if (!sql_expect_word(parser, "key") || !sql_expect_word(parser, "update"))
			return false;
	}
	else if (sql_accept_word(parser, "key"))
	{
		if (!sql_expect_word(parser, "share"))
			return false;
	}
	else if (!sql_accept_word(parser, "share") && !sql_expect_word(parser, "update"))
		return false;

	if (sql_is_word(parser, 0, "nowait") || sql_is_word(parser, 0, "skip"))
	{
		mark_clause(parser, select, SQL_CLAUSE_SKIP);
		if (!sql_accept_word(parser, "nowait"))
		{
			parser->next++;
			return sql_expect_word(parser, "locked");
		}
	}
	return true;
}

static bool
parse_select(SqlParser *parser, SqlSelect *select)
{
	if (!sql_expect(parser, WORD_SELECT, "SELECT") ||
		!parse_distinct(parser, select) ||
		!parse_items(parser, select))
		return false;
	if (sql_accept(parser, WORD_FROM) && !sql_parse_from(parser, select))
		return false;
	if (sql_accept(parser, WORD_WHERE))
	{
		select->where = sql_parse_expr(parser);
		if (select->where == NULL)
			return false;
	}
	if (!parse_group_by(parser, select))
		return false;
	if (sql_is(parser, 0, WORD_ORDER))
	{
		mark_clause(parser, select, SQL_CLAUSE_ORDER_BY);
		if (!sql_parse_order_by(parser))
			return false;
		parser->order_by_end = sql_last_end(parser);
	}
	return parse_limits(parser, select) && parse_for(parser, select);
}

/* ---------------------------------------------------------------- selections */

static SqlStatement *
new_statement(SqlParser *parser, SqlStatementKind kind)
{
	SqlStatement *statement = arena_new(parser->arena, SqlStatement);
	SqlName		word = sql_token_name(parser, parser->next);

	statement->kind = kind;
	statement->offset = parser->next->offset;
	statement->word = sql_name_string(&word);
	return statement;
}

/* VALUES (a, ...), ... */
static bool
parse_values(SqlParser *parser)
{
	SqlExprList list;
	bool		several = false;

	parser->next++;
	do
	{
		if (!sql_expect(parser, TOKEN_LEFT_PAREN, "\"(\"") ||
			!sql_parse_expr_list(parser, false, &list) ||
			!sql_expect(parser, TOKEN_RIGHT_PAREN, "\")\""))
			return false;
		if (several)
			parser->comma_list_end = sql_last_end(parser);
		several = true;
	} while (sql_accept(parser, TOKEN_COMMA));
	return true;
}

bool
sql_at_values(const SqlParser *parser, int ahead)
{
	return sql_is_word(parser, ahead, "values") && sql_is(parser, ahead + 1, TOKEN_LEFT_PAREN);
}

/*
 * A statement that no edition accepts, up to a semicolon or a closing
 * parenthesis that is not its own.
 */
static bool
skip_statement(SqlParser *parser)
{
	int			open = 0;

	for (;; parser->next++)
	{
		switch ((SqlTokenKind) parser->next->kind)
		{
			case TOKEN_LEFT_PAREN:
				open++;
				break;
			case TOKEN_RIGHT_PAREN:
				if (open == 0)
					return true;
				open--;
				break;
			case TOKEN_END:
			case TOKEN_SEMICOLON:
				if (open == 0)
					return true;
				sql_error_here(parser, "\")\"");
				return false;
			case TOKEN_BAD:
			case TOKEN_COMMENT_END:
				sql_error_here(parser, NULL);
				return false;
			default:
				break;
		}
	}
}

/* what can stand in WITH x AS (...) and behind it */
static bool
parse_with_body(SqlParser *parser)
{
	static const char *const words[] = {"insert", "update", "delete"};

	for (int i = 0; i < 3; i++)
	{
		if (sql_is_word(parser, 0, words[i]))
			return skip_statement(parser);
	}
	return sql_parse_selection(parser) != NULL;
}

/* WITH x AS (...), ... statement; WITH RECURSIVE x (a, ...) AS (...) statement */
static bool
parse_with(SqlParser *parser, SqlStatement *statement)
{
	SqlName		name;

	parser->next++;
	if (sql_is_word(parser, 0, "recursive") && sql_is_name(parser, 1))
	{
		statement->word = sync_string_literal("with recursive");
		parser->next += 2;
		if (!sql_expect(parser, TOKEN_LEFT_PAREN, "\"(\""))
			return false;
		do
		{
			if (!sql_parse_name(parser, &name))
				return false;
		} while (sql_accept(parser, TOKEN_COMMA));
		if (!sql_expect(parser, TOKEN_RIGHT_PAREN, "\")\"") ||
			!sql_expect(parser, WORD_AS, "AS") ||
			!sql_expect(parser, TOKEN_LEFT_PAREN, "\"(\"") ||
			!parse_with_body(parser) ||
			!sql_expect(parser, TOKEN_RIGHT_PAREN, "\")\""))
			return false;
		return parse_with_body(parser);
	}
	do
	{
		if (!sql_parse_name(parser, &name) ||
			!sql_expect(parser, WORD_AS, "AS") ||
			!sql_expect(parser, TOKEN_LEFT_PAREN, "\"(\"") ||
			!parse_with_body(parser) ||
			!sql_expect(parser, TOKEN_RIGHT_PAREN, "\")\""))
			return false;
	} while (sql_accept(parser, TOKEN_COMMA));
	return parse_with_body(parser);
}

bool
sql_at_selection(const SqlParser *parser, int ahead)
{
	return sql_is(parser, ahead, WORD_SELECT) || sql_is(parser, ahead, WORD_WITH);
}

/* the right side of a UNION may be a WITH or in parentheses */
static bool
parse_union_right(SqlParser *parser, bool *ended)
{
	SqlStatement scratch = {0};

	*ended = false;
	if (sql_accept(parser, TOKEN_LEFT_PAREN))
		return sql_parse_selection(parser) != NULL &&
			sql_expect(parser, TOKEN_RIGHT_PAREN, "\")\"");
	if (sql_at_values(parser, 0))
		return parse_values(parser);
	if (sql_is(parser, 0, WORD_WITH))
	{
		/* a WITH takes all UNIONs behind it for its own */
		*ended = true;
		return parse_with(parser, &scratch);
	}
	scratch.select = arena_new(parser->arena, SqlSelect);
	return parse_select(parser, scratch.select);
}

SqlStatement *
sql_parse_union(SqlParser *parser, uint32_t offset, uint32_t height)
{
	SqlStatement *statement = arena_new(parser->arena, SqlStatement);
	uint32_t	outer_height = parser->height;
	bool		first = true;
	bool		ended = false;

	/* one level for all of them: they are read in a loop */
	if (!sql_enter(parser))
		return NULL;
	statement->kind = SQL_UNION;
	statement->offset = offset;
	statement->word = sync_string_literal("union");
	parser->height = height;
	while (!ended && sql_accept(parser, WORD_UNION))
	{
		/* it is called after its first UNION, as it nests to the right */
		if (sql_accept(parser, WORD_ALL) && first)
			statement->word = sync_string_literal("union all");
		first = false;
		if (!parse_union_right(parser, &ended))
			return NULL;
	}
	sql_leave(parser);
	statement->end = sql_last_end(parser);
	statement->height = parser->height;
	parser->height = outer_height;
	return statement;
}

/* one SELECT, VALUES or WITH, or a UNION of such */
SqlStatement *
sql_parse_selection(SqlParser *parser)
{
	SqlStatement *statement = new_statement(parser, SQL_SELECT);
	uint32_t	outer_height = parser->height;
	bool		parenthesised = false;
	bool		ok;

	if (!sql_enter(parser))
		return NULL;
	parser->height = 0;
	if (sql_at_values(parser, 0))
	{
		statement->kind = SQL_VALUES;
		ok = parse_values(parser);
	}
	else if (sql_is(parser, 0, WORD_WITH))
	{
		statement->kind = SQL_WITH;
		ok = parse_with(parser, statement);
	}
	else if (sql_accept(parser, TOKEN_LEFT_PAREN))
	{
		/* only as the left side of a UNION */
		parenthesised = true;
		ok = sql_parse_selection(parser) != NULL &&
			sql_expect(parser, TOKEN_RIGHT_PAREN, "\")\"");
		if (ok && !sql_is(parser, 0, WORD_UNION))
		{
			sql_error_here(parser, "UNION");
			ok = false;
		}
	}
	else
	{
		statement->select = arena_new(parser->arena, SqlSelect);
		ok = parse_select(parser, statement->select);
	}
	if (!ok)
		return NULL;
	sql_leave(parser);
	statement->end = sql_last_end(parser);
	statement->height = parser->height;
	parser->height = outer_height;

	if ((statement->kind != SQL_WITH || parenthesised) && sql_is(parser, 0, WORD_UNION))
		return sql_parse_union(parser, statement->offset, statement->height);
	return statement;
}

/* ---------------------------------------------------------------- the text */

/* the first words of the other statements that the reference parser knows */
static bool
at_other_statement(const SqlParser *parser)
{
	static const char *const words[] = {
		"alter", "begin", "comment", "commit", "deallocate", "delete", "drop", "insert",
		"prepare", "raise", "refresh", "rollback", "set", "show", "start", "truncate", "update"
	};

	if (sql_is(parser, 0, WORD_CREATE) || sql_is(parser, 0, WORD_DO))
		return true;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
	{
		if (sql_is_word(parser, 0, words[i]))
			return true;
	}
	return false;
}

static SqlStatement *
parse_statement(SqlParser *parser)
{
	SqlStatement *statement;

	if (!at_other_statement(parser))
		return sql_parse_selection(parser);

	statement = new_statement(parser, SQL_OTHER_STATEMENT);
	if (!skip_statement(parser))
		return NULL;
	statement->end = sql_last_end(parser);
	return statement;
}

/* statements with any number of semicolons before, between and behind them */
static bool
parse_script(SqlParser *parser, SqlScript *script)
{
	SqlStatement **link = &script->first;

	for (;;)
	{
		while (sql_accept(parser, TOKEN_SEMICOLON))
			;
		if (script->count > 0 && sql_is(parser, 0, TOKEN_END))
			return true;
		*link = parse_statement(parser);
		if (*link == NULL)
			return false;
		script->count++;
		link = &(*link)->next;
		if (!sql_is(parser, 0, TOKEN_SEMICOLON) && !sql_is(parser, 0, TOKEN_END))
		{
			sql_error_here(parser, NULL);
			return false;
		}
	}
}

const SqlScript *
sql_parse(const char *text, size_t len, SyncArena *arena, SyncArena *tree, SyncError *error)
{
	SqlScript  *script = arena_new(tree, SqlScript);
	SqlParser	parser = {.script = script,.strings = arena,.arena = tree,.error = error};

	if (len > SQL_MAX_LENGTH)
	{
		sync_error_set(error, SYNC_ERROR_LIMIT, "the query is longer than %d bytes",
					   SQL_MAX_LENGTH);
		return NULL;
	}
	if (!utf8_is_valid(text, len))
	{
		sync_error_set(error, SYNC_ERROR_SYNTAX, "the query is not valid UTF-8");
		return NULL;
	}
	script->text = arena_strndup(arena, text, len);
	script->len = (uint32_t) len;
	parser.tokens = parser.next = sql_tokenize(script->text, script->len, tree, &parser.end);
	return parse_script(&parser, script) ? script : NULL;
}
