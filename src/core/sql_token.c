/*-------------------------------------------------------------------------
 *
 * sql_token.c
 *	  What the SQL parser's grammar files are written with: looking at tokens,
 *	  names, error messages, limits.
 *
 * Knows no grammar.
 *
 * Invariant: parser->next never passes the TOKEN_END.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <string.h>

#include "report.h"
#include "sql_internal.h"
#include "text.h"

#define QUOTE_MAX	40			/* bytes of the text shown in a message */

/* ---------------------------------------------------------------- tokens */

static inline char
lower(char c)
{
	return c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c;
}

static inline const char *
token_text(const SqlParser *parser, const SqlToken *token)
{
	return parser->script->text + token->offset;
}

bool
sql_is_word(const SqlParser *parser, int ahead, const char *word)
{
	const SqlToken *token = sql_token(parser, ahead);
	const char *s = token_text(parser, token);
	size_t		len = strlen(word);

	if (token->kind != TOKEN_WORD || token->end - token->offset != len)
		return false;
	for (size_t i = 0; i < len; i++)
	{
		if (lower(s[i]) != word[i])
			return false;
	}
	return true;
}

/* two reserved words are names all the same */
bool
sql_is_name(const SqlParser *parser, int ahead)
{
	switch (sql_token(parser, ahead)->kind)
	{
		case TOKEN_WORD:
		case TOKEN_QUOTED_NAME:
		case WORD_PRIMARY:
		case WORD_UNIQUE:
			return true;
		default:
			return false;
	}
}

bool
sql_is_name_after_dot(const SqlParser *parser, int ahead)
{
	SqlTokenKind kind = sql_token(parser, ahead)->kind;

	return sql_is_name(parser, ahead) ||
		(kind >= TOKEN_FIRST_RESERVED && kind < TOKEN_BEHIND_RESERVED && kind != WORD_PRECISION);
}

bool
sql_is_value_keyword(const SqlParser *parser, int ahead)
{
	switch (sql_token(parser, ahead)->kind)
	{
		case WORD_CURRENT_CATALOG:
		case WORD_CURRENT_DATE:
		case WORD_CURRENT_ROLE:
		case WORD_CURRENT_SCHEMA:
		case WORD_CURRENT_TIME:
		case WORD_CURRENT_TIMESTAMP:
		case WORD_CURRENT_USER:
		case WORD_LOCALTIME:
		case WORD_LOCALTIMESTAMP:
		case WORD_SESSION_USER:
		case WORD_USER:
			return true;
		default:
			return false;
	}
}

bool
sql_accept(SqlParser *parser, SqlTokenKind kind)
{
	if (kind == TOKEN_END || !sql_is(parser, 0, kind))
		return false;
	parser->next++;
	return true;
}

bool
sql_accept_word(SqlParser *parser, const char *word)
{
	if (!sql_is_word(parser, 0, word))
		return false;
	parser->next++;
	return true;
}

bool
sql_expect(SqlParser *parser, SqlTokenKind kind, const char *what)
{
	if (sql_accept(parser, kind))
		return true;
	sql_error_here(parser, what);
	return false;
}

bool
sql_expect_word(SqlParser *parser, const char *word)
{
	char		what[32];

	if (sql_accept_word(parser, word))
		return true;
	snprintf(what, sizeof(what), "%s", word);
	for (char *c = what; *c; c++)
		*c = *c >= 'a' && *c <= 'z' ? *c - ('a' - 'A') : *c;
	sql_error_here(parser, what);
	return false;
}

/* ---------------------------------------------------------------- names */

SqlName
sql_token_name(SqlParser *parser, const SqlToken *token)
{
	SqlName		name = {.offset = token->offset};
	uint32_t	first_upper;
	char	   *folded;

	name.text = name.original = token_text(parser, token);
	name.len = token->end - token->offset;
	if (token->kind == TOKEN_QUOTED_NAME)
	{
		name.quoted = true;
		name.text++;
		name.original++;
		name.len -= 2;
		return name;
	}

	for (first_upper = 0; first_upper < name.len; first_upper++)
	{
		if (lower(name.text[first_upper]) != name.text[first_upper])
			break;
	}
	if (first_upper == name.len)
		return name;

	folded = arena_strndup(parser->strings, name.original, name.len);
	for (uint32_t i = first_upper; i < name.len; i++)
		folded[i] = lower(folded[i]);
	name.text = folded;
	return name;
}

/*
 * The reference parser takes white space off the ends of most quoted names:
 * all but a column's without qualifier and a function's.
 */
SqlName
sql_trimmed_name(SqlParser *parser, const SqlToken *token)
{
	SqlName		name = sql_token_name(parser, token);
	uint32_t	start;
	uint32_t	end;

	if (!name.quoted)
		return name;

	start = end = (uint32_t) text_skip_space(name.text, name.len);
	for (uint32_t i = start; i < name.len;)
	{
		uint32_t	space = (uint32_t) text_skip_space(name.text + i, name.len - i);

		i += space > 0 ? space : 1;
		if (space == 0)
			end = i;
	}
	name.text += start;
	name.original += start;
	name.len = end - start;
	return name;
}

bool
sql_parse_name(SqlParser *parser, SqlName *name)
{
	if (!sql_is_name(parser, 0))
	{
		sql_error_here(parser, "a name");
		return false;
	}
	*name = sql_trimmed_name(parser, parser->next);
	parser->next++;
	return true;
}

/*
 * Behind a dot reserved words are names, but the two that are names anyway are
 * then read in two ways.
 */
bool
sql_parse_qualified_name(SqlParser *parser, SqlName *schema, SqlName *name)
{
	memset(schema, 0, sizeof(*schema));
	if (sql_is_name(parser, 0) && sql_is(parser, 1, TOKEN_DOT))
	{
		*schema = sql_trimmed_name(parser, parser->next);
		parser->next += 2;
		if (!sql_is_name_after_dot(parser, 0))
		{
			sql_error_here(parser, "a name");
			return false;
		}
		if (sql_is(parser, 0, WORD_PRIMARY) || sql_is(parser, 0, WORD_UNIQUE))
		{
			sql_error_ambiguous(parser, parser->next->offset,
								"Put the name in double quotes.");
			return false;
		}
	}
	else if (!sql_is_name(parser, 0) && !sql_is(parser, 0, WORD_PRECISION) &&
			 !sql_is(parser, 0, WORD_CURRENT_SCHEMA))
	{
		sql_error_here(parser, "a name");
		return false;
	}
	*name = sql_trimmed_name(parser, parser->next);
	parser->next++;
	return true;
}

/* ---------------------------------------------------------------- errors */

static void
set_position(SqlParser *parser, uint32_t offset)
{
	if (parser->error != NULL)
		sql_position(parser->script, offset, &parser->error->line, &parser->error->column);
}

static void
set_hint(SqlParser *parser, const char *hint)
{
	if (parser->error != NULL)
		snprintf(parser->error->hint, sizeof(parser->error->hint), "%s", hint);
}

static void
error_bad_token(SqlParser *parser, const SqlToken *token)
{
	const char *s = token_text(parser, token);
	size_t		char_len = utf8_sequence_length(s, token->end - token->offset);
	const char *what = NULL;

	switch ((SqlBadToken) token->detail)
	{
		case BAD_CHARACTER:
			/* a character can be longer than the byte the lexer stopped at */
			char_len = utf8_sequence_length(s, parser->script->len - token->offset);
			sync_error_set(parser->error, SYNC_ERROR_SYNTAX, "unexpected character \"%.*s\"",
						   (int) (char_len > 0 ? char_len : 1), s);
			if (char_len > 1)
				set_hint(parser, "Names with other letters than a to z go in double quotes.");
			return;
		case BAD_STRING_END:
			what = "the string that begins here has no closing quote";
			break;
		case BAD_NAME_END:
			what = "the quoted name that begins here has no closing quote";
			break;
		case BAD_NAME:
			what = "a quoted name must not be empty and must not hold \"*\"";
			break;
		case BAD_CODE_BLOCK:
			what = "the text that begins with $$ here does not end with $$";
			break;
		case BAD_ESCAPE:
			what = "the string holds an escape other than \\n, \\t, \\r, \\b, \\f, \\\\, \\\" and \\/";
			break;
	}
	sync_error_set(parser->error, SYNC_ERROR_SYNTAX, "%s", what);
}

/* the keyword that a word looks like, in capital letters, or NULL */
static const char *
similar_keyword(const SqlParser *parser, const SqlToken *token)
{
	static const char *const keywords[][2] = {
		{"select", "SELECT"}, {"from", "FROM"}, {"where", "WHERE"}, {"and", "AND"},
		{"join", "JOIN"},
	};
	char		word[8];
	SyncString	text = {word, token->end - token->offset};
	const char *nearest = NULL;
	int			nearest_distance = 3;

	if (token->kind != TOKEN_WORD || text.len >= sizeof(word))
		return NULL;
	for (uint32_t i = 0; i < text.len; i++)
		word[i] = lower(token_text(parser, token)[i]);
	for (size_t i = 0; i < sizeof(keywords) / sizeof(keywords[0]); i++)
	{
		int			distance = report_distance(text, keywords[i][0]);

		if (distance >= nearest_distance || distance * 2 > (int) strlen(keywords[i][0]))
			continue;
		nearest = keywords[i][1];
		nearest_distance = distance;
	}
	return nearest;
}

static bool
is_reserved(const SqlToken *token)
{
	return token->kind >= TOKEN_FIRST_RESERVED && token->kind < TOKEN_BEHIND_RESERVED;
}

/* what often lies behind an unexpected token */
static void
hint_for_token(SqlParser *parser, const SqlToken *token, const char *expected)
{
	bool		number = token->kind == TOKEN_INTEGER || token->kind == TOKEN_REAL;
	const SqlToken *previous = token > parser->tokens ? token - 1 : NULL;
	bool		name_expected = expected[0] == '\0' || strcmp(expected, "a name") == 0 ||
		strcmp(expected, "an expression") == 0;
	const char *keyword = similar_keyword(parser, token);

	/* a misspelled keyword may have been taken for an alias before this token */
	if (keyword == NULL && previous != NULL && expected[0] == '\0')
		keyword = similar_keyword(parser, previous);

	if (number && *token_text(parser, token) == '-')
		set_hint(parser, "A minus before a digit belongs to the number: to subtract, "
				 "put blanks around it.");
	else if (token->kind == TOKEN_OPERATOR && token->detail == SQL_OP_EQ &&
			 previous != NULL && previous->kind == TOKEN_OPERATOR && previous->detail == SQL_OP_EQ)
		set_hint(parser, "Values are compared with a single \"=\".");
	else if (keyword != NULL)
	{
		char		hint[40];

		snprintf(hint, sizeof(hint), "Did you mean %s?", keyword);
		set_hint(parser, hint);
	}
	else if ((token->kind == WORD_FROM || token->kind == WORD_WHERE) && previous != NULL &&
			 previous->kind == TOKEN_COMMA)
		set_hint(parser, "The comma before it is one too many.");
	else if (strcmp(expected, "BY") == 0)
		set_hint(parser, "The word before it is reserved: to use it as a name, put it in double quotes.");
	else if (is_reserved(token) && name_expected)
		set_hint(parser, "This is a reserved word: to use it as a name, put it in double quotes.");
}

/* the next token does not fit; expected may be NULL */
void *
sql_error_here(SqlParser *parser, const char *expected)
{
	const SqlToken *token = parser->next;
	const char *comma = expected != NULL ? ", expected " : "";
	uint32_t	len = token->end - token->offset;

	if (expected == NULL)
		expected = "";
	if (token->kind == TOKEN_BAD)
		error_bad_token(parser, token);
	else if (token->kind == TOKEN_END)
		sync_error_set(parser->error, SYNC_ERROR_SYNTAX, "unexpected end of the query%s%s",
					   comma, expected);
	else
	{
		const char *s = token_text(parser, token);
		uint32_t	shown = len;

		if (len > QUOTE_MAX)
		{
			shown = QUOTE_MAX;
			while (shown > 0 && (s[shown] & 0xC0) == 0x80)
				shown--;
		}
		sync_error_set(parser->error, SYNC_ERROR_SYNTAX, "unexpected %s%.*s%s%s%s%s",
					   token->kind == TOKEN_QUOTED_NAME ? "" : "\"", (int) shown, s,
					   shown < len ? "..." : "",
					   token->kind == TOKEN_QUOTED_NAME ? "" : "\"", comma, expected);
		hint_for_token(parser, token, expected);
	}
	set_position(parser, token->offset);
	return NULL;
}

/* the reference parser finds two readings and refuses both */
void *
sql_error_ambiguous(SqlParser *parser, uint32_t offset, const char *hint)
{
	sync_error_set(parser->error, SYNC_ERROR_SYNTAX, "this can be read in two ways");
	set_hint(parser, hint);
	set_position(parser, offset);
	return NULL;
}

void *
sql_error_limit(SqlParser *parser, const char *what)
{
	sync_error_set(parser->error, SYNC_ERROR_LIMIT, "%s", what);
	set_position(parser, parser->next->offset);
	return NULL;
}

/* ---------------------------------------------------------------- limits */

bool
sql_enter(SqlParser *parser)
{
	if (parser->depth >= SQL_MAX_DEPTH)
	{
		sql_error_limit(parser, "the query is nested too deeply");
		return false;
	}
	parser->depth++;
	return true;
}

void *
sql_grow(SqlParser *parser, void *items, int count, int *capacity, size_t size)
{
	int			wanted;

	if (count < *capacity)
		return items;
	/* most queries have one source, which is large, and a few items */
	wanted = *capacity > 0 ? *capacity * 2 : size > 64 ? 1 : 4;
	items = arena_grow(parser->arena, items, (size_t) *capacity * size, (size_t) wanted * size);
	*capacity = wanted;
	return items;
}
