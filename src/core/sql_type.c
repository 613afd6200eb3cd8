/*-------------------------------------------------------------------------
 *
 * sql_type.c
 *	  Names of types: behind ::, in CAST, and before a string.
 *
 * Any name can be a type's; which of them a cast may use is not known here.
 * Length arguments are read and dropped.
 *
 * A type's name can only be told from a column or a function call by what
 * follows it, so the extent of a type is first measured (without making
 * anything) and then read.
 *
 *-------------------------------------------------------------------------
 */
#include "sql_internal.h"

/* the words a type of several words is made of */
typedef struct TypeShape
{
	int			words;			/* tokens of the name, schema and point included */
	int			tokens;			/* all, up to what follows the type */
	int			array_levels;
	bool		qualified;
	bool		time_zone;		/* timestamp(3) with time zone: words behind the length */
} TypeShape;

/* (1, 2) at a distance from the next token; returns the tokens it takes, or 0 */
static int
length_arguments(const SqlParser *parser, int ahead)
{
	int			n = ahead;

	if (!sql_is(parser, n, TOKEN_LEFT_PAREN))
		return 0;
	do
	{
		n++;
		if (!sql_is(parser, n, TOKEN_INTEGER))
			return 0;
		n++;
	} while (sql_is(parser, n, TOKEN_COMMA));
	return sql_is(parser, n, TOKEN_RIGHT_PAREN) ? n + 1 - ahead : 0;
}

/* WITH TIME ZONE or WITHOUT TIME ZONE */
static bool
at_time_zone_suffix(const SqlParser *parser, int ahead)
{
	return (sql_is(parser, ahead, WORD_WITH) || sql_is_word(parser, ahead, "without")) &&
		sql_is_word(parser, ahead + 1, "time") && sql_is_word(parser, ahead + 2, "zone");
}

/* the words of a type's name without its schema; 0 if there is none */
static int
name_words(const SqlParser *parser, TypeShape *shape)
{
	if (sql_is_word(parser, 0, "double") && sql_is(parser, 1, WORD_PRECISION))
		return 2;
	if ((sql_is_word(parser, 0, "character") || sql_is_word(parser, 0, "bit")) &&
		sql_is_word(parser, 1, "varying"))
		return 2;
	if (sql_is_word(parser, 0, "timestamp") || sql_is_word(parser, 0, "time"))
	{
		if (at_time_zone_suffix(parser, 1))
			return 4;
		if (length_arguments(parser, 1) == 3 && at_time_zone_suffix(parser, 4))
		{
			shape->time_zone = true;
			return 1;
		}
	}
	if (sql_is_name(parser, 0))
	{
		if (sql_is(parser, 1, TOKEN_DOT) && sql_is_name_after_dot(parser, 2))
		{
			shape->qualified = true;
			return 3;
		}
		return 1;
	}
	if (sql_is(parser, 0, WORD_PRECISION) || sql_is(parser, 0, WORD_CURRENT_SCHEMA))
		return 1;
	return 0;
}

static bool
measure_type(const SqlParser *parser, TypeShape *shape)
{
	*shape = (TypeShape) {0};
	shape->words = name_words(parser, shape);
	if (shape->words == 0)
		return false;

	shape->tokens = shape->words + length_arguments(parser, shape->words);
	if (shape->time_zone)
		shape->tokens += 3;
	if (sql_is(parser, shape->tokens, WORD_ARRAY))
	{
		shape->tokens++;
		shape->array_levels = 1;
	}
	else
	{
		while (sql_is(parser, shape->tokens, TOKEN_LEFT_BRACKET) &&
			   sql_is(parser, shape->tokens + 1, TOKEN_RIGHT_BRACKET))
		{
			shape->tokens += 2;
			shape->array_levels++;
		}
	}
	return true;
}

bool
sql_at_typed_string(const SqlParser *parser)
{
	TypeShape	shape;

	return measure_type(parser, &shape) &&
		(sql_is(parser, shape.tokens, TOKEN_STRING) ||
		 sql_is(parser, shape.tokens, TOKEN_ESCAPE_STRING));
}

/* several words become one name with single blanks between them */
static SqlName
join_words(SqlParser *parser, int words)
{
	SqlName		name = sql_trimmed_name(parser, parser->next);
	SyncBuffer	buffer;

	if (words == 1)
		return name;

	buffer_init(&buffer, parser->strings, 32);
	for (int i = 0; i < words; i++)
	{
		SqlName		word = sql_token_name(parser, &parser->next[i]);

		if (i > 0)
			buffer_append_char(&buffer, ' ');
		buffer_append(&buffer, word.text, word.len);
	}
	name.text = name.original = buffer.data;
	name.len = (uint32_t) buffer.len;
	return name;
}

SqlTypeName *
sql_parse_type(SqlParser *parser)
{
	TypeShape	shape;
	SqlTypeName *type;

	if (!measure_type(parser, &shape))
		return sql_error_here(parser, "the name of a type");

	type = arena_new(parser->arena, SqlTypeName);
	type->array_levels = shape.array_levels;
	if (shape.qualified)
	{
		const SqlToken *start = parser->next;

		if (!sql_parse_qualified_name(parser, &type->schema, &type->name))
			return NULL;
		parser->next = start;
	}
	else if (shape.time_zone)
	{
		/* the reference parser calls a time with a length a timestamp */
		SqlName		word = sql_token_name(parser, parser->next);
		SqlName		with = sql_token_name(parser, &parser->next[4]);

		type->name = word;
		type->name.text = type->name.original =
			arena_printf(parser->strings, "timestamp %.*s time zone", (int) with.len, with.text);
		type->name.len = (uint32_t) (sizeof("timestamp  time zone") - 1 + with.len);
	}
	else
	{
		type->name = join_words(parser, shape.words);
		if (shape.words == 2 && shape.tokens == 2 && sql_is_word(parser, 1, "varying"))
			parser->varying_type_end = parser->next[1].end;
	}
	parser->next += shape.tokens;
	return type;
}
