/*-------------------------------------------------------------------------
 *
 * sql_source.c
 *	  FROM: tables, functions, subqueries and how they are joined.
 *
 * Sources end up in one flat array in the order of the text; parentheses
 * around joins leave no trace.  All kinds of joins are read, which are allowed
 * is not known here.
 *
 * Invariant: a source in the array is complete but for what follows its JOIN
 * (ON, USING), which is filled in before the next one is begun.
 *
 *-------------------------------------------------------------------------
 */
#include "sql_internal.h"

typedef struct SourceList
{
	SqlSource  *items;
	int			count;
	int			capacity;
} SourceList;

bool
sql_parse_alias(SqlParser *parser, SqlName *alias)
{
	if (sql_accept(parser, WORD_AS))
		return sql_parse_name(parser, alias);
	if (sql_is_name(parser, 0))
		return sql_parse_name(parser, alias);
	return true;
}

/* (a, b) */
static bool
parse_names(SqlParser *parser, SqlName **names, int *count)
{
	int			capacity = 0;

	if (!sql_expect(parser, TOKEN_LEFT_PAREN, "\"(\""))
		return false;
	do
	{
		*names = sql_grow(parser, *names, *count, &capacity, sizeof(SqlName));
		if (!sql_parse_name(parser, &(*names)[*count]))
			return false;
		(*count)++;
	} while (sql_accept(parser, TOKEN_COMMA));
	return sql_expect(parser, TOKEN_RIGHT_PAREN, "\")\"");
}

/* [[AS] alias [(columns)]]; the source is then complete */
static bool
finish_source(SqlParser *parser, SqlSource *source)
{
	if (!sql_parse_alias(parser, &source->alias))
		return false;
	if (sql_name_is_set(&source->alias) && sql_is(parser, 0, TOKEN_LEFT_PAREN) &&
		!parse_names(parser, &source->columns, &source->column_count))
		return false;
	source->end = sql_last_end(parser);
	return true;
}

static bool
finish_subquery(SqlParser *parser, SqlSource *source, SqlStatement *statement)
{
	source->kind = SQL_SOURCE_SUBQUERY;
	source->subquery = statement;
	if (parser->height < statement->height + 1)
		parser->height = statement->height + 1;
	if (!sql_is(parser, 0, WORD_AS) && !sql_is_name(parser, 0))
	{
		sql_error_here(parser, "AS and a name for the subquery");
		return false;
	}
	return finish_source(parser, source);
}

/* (SELECT ...): the parentheses and what is in them */
static SqlStatement *
parse_parenthesised_selection(SqlParser *parser)
{
	SqlStatement *statement;

	if (!sql_enter(parser))
		return NULL;
	parser->next++;
	statement = sql_parse_selection(parser);
	if (statement == NULL || !sql_expect(parser, TOKEN_RIGHT_PAREN, "\")\""))
		return NULL;
	sql_leave(parser);
	return statement;
}

static inline bool
at_parenthesised_selection(const SqlParser *parser)
{
	return sql_is(parser, 0, TOKEN_LEFT_PAREN) &&
		(sql_at_selection(parser, 1) || sql_at_values(parser, 1));
}

/*
 * ((SELECT ...) UNION ...; at the beginning of an item it can be a parenthesis
 * around joins as well, which is not decided here.
 */
static inline bool
at_parenthesised_union(const SqlParser *parser)
{
	return sql_is(parser, 0, TOKEN_LEFT_PAREN) && sql_is(parser, 1, TOKEN_LEFT_PAREN) &&
		(sql_at_selection(parser, 2) || sql_at_values(parser, 2));
}

/* a table, function or subquery */
static bool
parse_subject(SqlParser *parser, SqlSource *source)
{
	source->offset = parser->next->offset;
	if (at_parenthesised_selection(parser) || at_parenthesised_union(parser))
	{
		SqlStatement *statement = parse_parenthesised_selection(parser);

		return statement != NULL && finish_subquery(parser, source, statement);
	}
	if (sql_at_call(parser))
	{
		source->kind = SQL_SOURCE_CALL;
		source->call = sql_parse_call(parser, true);
		if (source->call == NULL)
			return false;
		if (sql_is(parser, 0, WORD_WITH) && sql_is_word(parser, 1, "ordinality"))
		{
			source->with_ordinality = true;
			parser->next += 2;
		}
		return finish_source(parser, source);
	}
	source->kind = SQL_SOURCE_TABLE;
	return sql_parse_qualified_name(parser, &source->schema, &source->name) &&
		finish_source(parser, source);
}

static SqlSource *
add_source(SqlParser *parser, SourceList *list, SqlJoin join)
{
	SqlSource  *source;

	list->items = sql_grow(parser, list->items, list->count, &list->capacity, sizeof(SqlSource));
	source = &list->items[list->count++];
	*source = (SqlSource) {.join = join};
	return source;
}

/* [INNER | CROSS | LEFT [OUTER] | RIGHT [OUTER] | FULL [OUTER]] JOIN; NONE: not there */
static bool
parse_join_words(SqlParser *parser, SqlJoin *join)
{
	*join = SQL_JOIN_NONE;
	if (sql_accept(parser, WORD_INNER))
		*join = SQL_JOIN_INNER;
	else if (sql_accept(parser, WORD_CROSS))
		*join = SQL_JOIN_CROSS;
	else if (sql_accept(parser, WORD_LEFT))
		*join = SQL_JOIN_LEFT;
	else if (sql_accept(parser, WORD_RIGHT))
		*join = SQL_JOIN_RIGHT;
	else if (sql_accept(parser, WORD_FULL))
		*join = SQL_JOIN_FULL;
	else if (sql_is(parser, 0, WORD_JOIN))
		*join = SQL_JOIN_INNER;
	else
		return true;

	if (*join >= SQL_JOIN_LEFT)
		sql_accept(parser, WORD_OUTER);
	return sql_expect(parser, WORD_JOIN, "JOIN");
}

/* any kind of join may be without a condition */
static bool
parse_join_condition(SqlParser *parser, SqlSource *source)
{
	SqlName    *names = NULL;
	int			count = 0;

	if (sql_accept(parser, WORD_ON))
	{
		source->on = sql_parse_expr(parser);
		return source->on != NULL;
	}
	if (sql_accept(parser, WORD_USING))
	{
		source->using_columns = true;
		return parse_names(parser, &names, &count);
	}
	return true;
}

/* JOINs behind a source, as many as there are; *found if any */
static bool
parse_joins(SqlParser *parser, SourceList *list, bool *found)
{
	for (;;)
	{
		SqlJoin		join;
		SqlSource  *source;

		if (!parse_join_words(parser, &join))
			return false;
		if (join == SQL_JOIN_NONE)
			return true;
		*found = true;
		source = add_source(parser, list, join);
		if (!parse_subject(parser, source) || !parse_join_condition(parser, source))
			return false;
	}
}

static bool parse_from_item(SqlParser *parser, SourceList *list, bool *joined);

/*
 * An opening parenthesis that is not right before a SELECT: either around
 * joins, or "((SELECT ...) UNION ...) AS x".
 */
static bool
parse_group(SqlParser *parser, SourceList *list)
{
	const SqlToken *start = parser->next;
	bool		joined = false;

	if (!sql_enter(parser))
		return false;
	parser->next++;
	if (at_parenthesised_selection(parser))
	{
		uint32_t	offset = parser->next->offset;
		SqlStatement *statement = parse_parenthesised_selection(parser);
		SqlSource  *source;

		if (statement == NULL)
			return false;
		source = add_source(parser, list, SQL_JOIN_NONE);
		source->offset = offset;
		if (sql_is(parser, 0, WORD_UNION))
		{
			statement = sql_parse_union(parser, offset, statement->height);
			if (statement == NULL || !sql_expect(parser, TOKEN_RIGHT_PAREN, "\")\""))
				return false;
			sql_leave(parser);
			source->offset = start->offset;
			return finish_subquery(parser, source, statement);
		}
		if (!finish_subquery(parser, source, statement) || !parse_joins(parser, list, &joined))
			return false;
	}
	else if (!parse_from_item(parser, list, &joined))
		return false;

	if (!joined)
	{
		sql_error_here(parser, "JOIN");
		return false;
	}
	if (!sql_expect(parser, TOKEN_RIGHT_PAREN, "\")\""))
		return false;
	sql_leave(parser);
	return true;
}

/* a source, or several joined ones; *joined says which */
static bool
parse_from_item(SqlParser *parser, SourceList *list, bool *joined)
{
	if (sql_is(parser, 0, TOKEN_LEFT_PAREN) && !at_parenthesised_selection(parser))
	{
		int			before = list->count;

		if (!parse_group(parser, list))
			return false;
		*joined = list->count - before > 1;
	}
	else if (!parse_subject(parser, add_source(parser, list, SQL_JOIN_NONE)))
		return false;
	return parse_joins(parser, list, joined);
}

/* a source behind a comma would do as an expression, too */
static bool
could_be_expression(const SqlParser *parser, const SqlSource *source)
{
	if (sql_name_is_set(&source->alias) || source->with_ordinality)
		return false;
	if (source->kind == SQL_SOURCE_CALL)
		return true;
	return sql_is_name(parser, -1) || sql_is(parser, -1, WORD_CURRENT_SCHEMA);
}

bool
sql_parse_from(SqlParser *parser, SqlSelect *select)
{
	SourceList	list = {0};
	bool		several = false;

	do
	{
		bool		joined = false;

		if (!parse_from_item(parser, &list, &joined))
			return false;
		if (several && !joined && could_be_expression(parser, &list.items[list.count - 1]))
			parser->comma_list_end = sql_last_end(parser);
		several = true;
	} while (sql_accept(parser, TOKEN_COMMA));
	select->sources = list.items;
	select->source_count = list.count;
	return true;
}
