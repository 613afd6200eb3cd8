/*-------------------------------------------------------------------------
 *
 * sql_lexer.c
 *	  The text of a query cut into tokens.
 *
 * The lexical rules are those of sync-rules.md, 2.1, which differ from
 * PostgreSQL's: a minus before a digit belongs to the number, "" inside a
 * quoted name stays two quotes, and the inside of a block comment is cut into
 * tokens like everything else, so that a stray quote in it is an error.  What
 * tokens may follow one another is not known here.
 *
 * Invariant: every token lies within the text, tokens do not overlap and come
 * in the order of the text; one pass, each byte is looked at a bounded number
 * of times.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "sql_internal.h"
#include "text.h"

typedef struct Lexer
{
	const char *text;
	uint32_t	len;
	uint32_t	pos;
} Lexer;

static const char *const reserved_words[] = {
#define X(name, text) text,
	SQL_RESERVED_WORDS(X)
#undef X
};

#define RESERVED_WORD_COUNT		((int) (sizeof(reserved_words) / sizeof(reserved_words[0])))
#define LONGEST_RESERVED_WORD	17	/* current_timestamp */

/* operators, those that begin with another one before that one */
static const struct
{
	char		text[5];
	uint8_t		kind;
	uint8_t		op;
}			operators[] = {
	{"!=", TOKEN_OPERATOR, SQL_OP_NE},
	{"!~~*", TOKEN_OPERATOR, SQL_OP_NOT_ILIKE},
	{"!~~", TOKEN_OPERATOR, SQL_OP_NOT_LIKE},
	{"!~*", TOKEN_OPERATOR, SQL_OP_NOT_IMATCH},
	{"!~", TOKEN_OPERATOR, SQL_OP_NOT_MATCH},
	{"#-", TOKEN_OPERATOR, SQL_OP_DELETE_PATH},
	{"#>>", TOKEN_OPERATOR, SQL_OP_PATH_TEXT},
	{"#", TOKEN_OPERATOR, SQL_OP_BIT_XOR},
	{"%", TOKEN_OPERATOR, SQL_OP_MODULO},
	{"&&", TOKEN_OPERATOR, SQL_OP_OVERLAP},
	{"&", TOKEN_OPERATOR, SQL_OP_BIT_AND},
	{"(", TOKEN_LEFT_PAREN, 0},
	{")", TOKEN_RIGHT_PAREN, 0},
	{"*", TOKEN_OPERATOR, SQL_OP_MULTIPLY},
	{"+", TOKEN_OPERATOR, SQL_OP_ADD},
	{",", TOKEN_COMMA, 0},
	{"->>", TOKEN_OPERATOR, SQL_OP_JSON_TEXT},
	{"->", TOKEN_OPERATOR, SQL_OP_JSON},
	{"-", TOKEN_OPERATOR, SQL_OP_SUBTRACT},
	{".", TOKEN_DOT, 0},
	{"/", TOKEN_OPERATOR, SQL_OP_DIVIDE},
	{"::", TOKEN_CAST, 0},
	{":", TOKEN_COLON, 0},
	{";", TOKEN_SEMICOLON, 0},
	{"<>", TOKEN_OPERATOR, SQL_OP_NE},
	{"<=", TOKEN_OPERATOR, SQL_OP_LE},
	{"<@", TOKEN_OPERATOR, SQL_OP_CONTAINED},
	{"<<", TOKEN_OPERATOR, SQL_OP_SHIFT_LEFT},
	{"<", TOKEN_OPERATOR, SQL_OP_LT},
	{"=", TOKEN_OPERATOR, SQL_OP_EQ},
	{">=", TOKEN_OPERATOR, SQL_OP_GE},
	{">>", TOKEN_OPERATOR, SQL_OP_SHIFT_RIGHT},
	{">", TOKEN_OPERATOR, SQL_OP_GT},
	{"?|", TOKEN_OPERATOR, SQL_OP_KEY_ANY},
	{"?&", TOKEN_OPERATOR, SQL_OP_KEY_ALL},
	{"?", TOKEN_OPERATOR, SQL_OP_KEY},
	{"@>", TOKEN_OPERATOR, SQL_OP_CONTAINS},
	{"@@", TOKEN_OPERATOR, SQL_OP_TEXT_SEARCH},
	{"[", TOKEN_LEFT_BRACKET, 0},
	{"]", TOKEN_RIGHT_BRACKET, 0},
	{"^", TOKEN_OPERATOR, SQL_OP_POWER},
	{"||", TOKEN_OPERATOR, SQL_OP_CONCAT},
	{"|", TOKEN_OPERATOR, SQL_OP_BIT_OR},
	{"~~*", TOKEN_OPERATOR, SQL_OP_ILIKE},
	{"~~", TOKEN_OPERATOR, SQL_OP_LIKE},
	{"~*", TOKEN_OPERATOR, SQL_OP_IMATCH},
	{"~", TOKEN_OPERATOR, SQL_OP_MATCH}
};

#define OPERATOR_COUNT	((int) (sizeof(operators) / sizeof(operators[0])))

static inline bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static inline bool
is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static inline bool
is_word_char(char c)
{
	return is_letter(c) || is_digit(c) || c == '_';
}

/* the byte at a distance from the position; NUL behind the end of the text */
static inline char
peek(const Lexer *lexer, uint32_t ahead)
{
	return ahead < lexer->len - lexer->pos ? lexer->text[lexer->pos + ahead] : '\0';
}

/*
 * Bytes of the line end at pos, 0 if there is none; U+2028 and U+2029 are line
 * ends, too.
 */
static uint32_t
line_end_length(const Lexer *lexer, uint32_t pos)
{
	const char *s = lexer->text + pos;

	if (*s == '\n' || *s == '\r')
		return 1;
	if (lexer->len - pos >= 3 && memcmp(s, "\xE2\x80", 2) == 0 &&
		(s[2] == '\xA8' || s[2] == '\xA9'))
		return 3;
	return 0;
}

/* ---------------------------------------------------------------- tokens by kind */

static SqlTokenKind
word_kind(const char *s, uint32_t len)
{
	char		lower[LONGEST_RESERVED_WORD + 1];
	int			low = 0;
	int			high = RESERVED_WORD_COUNT - 1;

	if (len > LONGEST_RESERVED_WORD)
		return TOKEN_WORD;
	for (uint32_t i = 0; i < len; i++)
		lower[i] = s[i] >= 'A' && s[i] <= 'Z' ? s[i] + ('a' - 'A') : s[i];
	lower[len] = '\0';

	while (low <= high)
	{
		int			middle = (low + high) / 2;
		int			order = strcmp(lower, reserved_words[middle]);

		if (order == 0)
			return (SqlTokenKind) (TOKEN_FIRST_RESERVED + middle);
		if (order < 0)
			high = middle - 1;
		else
			low = middle + 1;
	}
	return TOKEN_WORD;
}

static void
read_word(Lexer *lexer, SqlToken *token)
{
	while (lexer->pos < lexer->len && is_word_char(lexer->text[lexer->pos]))
		lexer->pos++;
	token->kind = word_kind(lexer->text + token->offset, lexer->pos - token->offset);
}

/* [-]digits, [-]digits.digits; one side of the point may be empty */
static void
read_number(Lexer *lexer, SqlToken *token)
{
	if (peek(lexer, 0) == '-')
		lexer->pos++;
	while (is_digit(peek(lexer, 0)))
		lexer->pos++;
	token->kind = TOKEN_INTEGER;
	if (peek(lexer, 0) == '.')
	{
		token->kind = TOKEN_REAL;
		lexer->pos++;
		while (is_digit(peek(lexer, 0)))
			lexer->pos++;
	}
}

static inline void
set_bad(SqlToken *token, SqlBadToken why)
{
	token->kind = TOKEN_BAD;
	token->detail = why;
}

/*
 * From an opening quote to the closing one; a doubled quote does not close.
 * Returns false when the text ends first.
 */
static bool
read_quoted(Lexer *lexer, char quote)
{
	lexer->pos++;
	while (lexer->pos < lexer->len)
	{
		const char *found = memchr(lexer->text + lexer->pos, quote, lexer->len - lexer->pos);

		if (found == NULL)
			break;
		lexer->pos = (uint32_t) (found - lexer->text) + 1;
		if (peek(lexer, 0) != quote)
			return true;
		lexer->pos++;
	}
	lexer->pos = lexer->len;
	return false;
}

static void
read_quoted_name(Lexer *lexer, SqlToken *token)
{
	token->kind = TOKEN_QUOTED_NAME;
	if (!read_quoted(lexer, '"'))
		set_bad(token, BAD_NAME_END);
	else if (lexer->pos - token->offset == 2 ||
			 memchr(lexer->text + token->offset, '*', lexer->pos - token->offset) != NULL)
		set_bad(token, BAD_NAME);
}

/* the character that an escape other than an escaped white space stands for, or NUL */
static char
escaped_char(char c)
{
	switch (c)
	{
		case 'n':
			return '\n';
		case 't':
			return '\t';
		case 'r':
			return '\r';
		case 'b':
			return '\b';
		case 'f':
			return '\f';
		case '\\':
		case '"':
		case '/':
			return c;
		default:
			return '\0';
	}
}

/*
 * E'...'.  The reference parser takes more escapes than it can decode: \' and
 * \x are errors.  So is a backslash before a backslash and white space.
 */
static void
read_escape_string(Lexer *lexer, SqlToken *token)
{
	bool		bad_escape = false;

	token->kind = TOKEN_ESCAPE_STRING;
	lexer->pos += 2;
	while (lexer->pos < lexer->len)
	{
		char		c = lexer->text[lexer->pos++];

		if (c == '\'')
		{
			if (peek(lexer, 0) != '\'')
			{
				/* E'' is no string to the reference parser */
				if (bad_escape)
					set_bad(token, BAD_ESCAPE);
				else if (lexer->pos - token->offset == 3)
					set_bad(token, BAD_CHARACTER);
				return;
			}
			lexer->pos++;
		}
		else if (c == '\\' && lexer->pos < lexer->len)
		{
			uint32_t	rest = lexer->len - lexer->pos;

			c = lexer->text[lexer->pos];
			if (text_skip_space(lexer->text + lexer->pos, rest) == 0 && escaped_char(c) == '\0')
				bad_escape = true;
			lexer->pos++;
			if (c == '\\' && text_skip_space(lexer->text + lexer->pos, rest - 1) > 0)
				bad_escape = true;
		}
	}
	set_bad(token, BAD_STRING_END);
}

static void
read_dollar(Lexer *lexer, SqlToken *token)
{
	if (is_digit(peek(lexer, 1)))
	{
		token->kind = TOKEN_PARAMETER;
		lexer->pos++;
		while (is_digit(peek(lexer, 0)))
			lexer->pos++;
		return;
	}
	if (peek(lexer, 1) != '$')
	{
		set_bad(token, BAD_CHARACTER);
		return;
	}
	token->kind = TOKEN_CODE_BLOCK;
	for (lexer->pos += 2; lexer->pos < lexer->len; lexer->pos++)
	{
		if (peek(lexer, 0) == '$' && peek(lexer, 1) == '$')
		{
			lexer->pos += 2;
			return;
		}
	}
	set_bad(token, BAD_CODE_BLOCK);
}

static void
read_operator(Lexer *lexer, SqlToken *token)
{
	for (int i = 0; i < OPERATOR_COUNT; i++)
	{
		uint32_t	len = (uint32_t) strlen(operators[i].text);

		if (len <= lexer->len - lexer->pos &&
			memcmp(operators[i].text, lexer->text + lexer->pos, len) == 0)
		{
			token->kind = operators[i].kind;
			token->detail = operators[i].op;
			lexer->pos += len;
			return;
		}
	}
	set_bad(token, BAD_CHARACTER);
}

/* ---------------------------------------------------------------- the text */

static void
skip_space_and_line_comments(Lexer *lexer)
{
	for (;;)
	{
		lexer->pos += (uint32_t) text_skip_space(lexer->text + lexer->pos,
												 lexer->len - lexer->pos);
		if (peek(lexer, 0) != '-' || peek(lexer, 1) != '-')
			return;
		while (lexer->pos < lexer->len && line_end_length(lexer, lexer->pos) == 0)
			lexer->pos++;
	}
}

static inline bool
at_number(const Lexer *lexer)
{
	uint32_t	i = peek(lexer, 0) == '-' ? 1 : 0;

	return is_digit(peek(lexer, i)) || (peek(lexer, i) == '.' && is_digit(peek(lexer, i + 1)));
}

static void
read_token(Lexer *lexer, SqlToken *token)
{
	char		c = lexer->text[lexer->pos];

	token->offset = lexer->pos;
	token->detail = 0;
	if ((c == 'e' || c == 'E') && peek(lexer, 1) == '\'')
	{
		/* right behind a digit it begins nothing */
		if (lexer->pos > 0 && is_word_char(lexer->text[lexer->pos - 1]))
			set_bad(token, BAD_CHARACTER);
		else
			read_escape_string(lexer, token);
	}
	else if (is_letter(c) || c == '_')
		read_word(lexer, token);
	else if (c == '"')
		read_quoted_name(lexer, token);
	else if (c == '\'')
	{
		token->kind = TOKEN_STRING;
		if (!read_quoted(lexer, '\''))
			set_bad(token, BAD_STRING_END);
	}
	else if (c == '$')
		read_dollar(lexer, token);
	else if (at_number(lexer))
		read_number(lexer, token);
	else if (c == '*' && peek(lexer, 1) == '/')
	{
		token->kind = TOKEN_COMMENT_END;
		lexer->pos += 2;
	}
	else
		read_operator(lexer, token);
	token->end = lexer->pos;
}

/*
 * Comments nest.  One that is not closed reaches to the end of the text, which
 * is no error.
 */
SqlToken *
sql_tokenize(const char *text, uint32_t len, SyncArena *arena, const SqlToken **end)
{
	Lexer		lexer = {.text = text,.len = len,.pos = 0};
	uint32_t	capacity = len / 4 + 16;
	uint32_t	count = 0;
	uint32_t	comment_depth = 0;
	SqlToken   *tokens = arena_array(arena, SqlToken, capacity);

	for (;;)
	{
		SqlToken   *token;

		if (count + 2 > capacity)
		{
			tokens = arena_grow(arena, tokens, capacity * sizeof(SqlToken),
								2 * (size_t) capacity * sizeof(SqlToken));
			capacity *= 2;
		}
		token = &tokens[count];

		skip_space_and_line_comments(&lexer);
		if (lexer.pos >= len)
			break;
		if (peek(&lexer, 0) == '/' && peek(&lexer, 1) == '*')
		{
			comment_depth++;
			lexer.pos += 2;
			continue;
		}
		read_token(&lexer, token);
		if (token->kind == TOKEN_COMMENT_END && comment_depth > 0)
			comment_depth--;
		else if (comment_depth == 0 || token->kind == TOKEN_BAD)
			count++;
		if (token->kind == TOKEN_BAD)
			break;
	}
	tokens[count] = (SqlToken) {.kind = TOKEN_END,.offset = len,.end = len};
	*end = &tokens[count];
	return tokens;
}

/* ---------------------------------------------------------------- values */

SyncString
sql_string_value(const char *text, const SqlToken *token, SyncArena *arena)
{
	bool		escapes = token->kind == TOKEN_ESCAPE_STRING;
	const char *s = text + token->offset + (escapes ? 2 : 1);
	const char *end = text + token->end - 1;
	char	   *value;
	uint32_t	len = 0;

	if (memchr(s, '\'', (size_t) (end - s)) == NULL &&
		(!escapes || memchr(s, '\\', (size_t) (end - s)) == NULL))
		return (SyncString) {s, (uint32_t) (end - s)};

	value = arena_alloc(arena, (size_t) (end - s));
	while (s < end)
	{
		char		c = *s++;

		if (c == '\'')
			s++;				/* the second of two */
		else if (c == '\\' && escapes)
		{
			char		escaped = escaped_char(*s);

			/* a backslash before white space is dropped */
			c = escaped != '\0' ? escaped : *s;
			s++;
		}
		value[len++] = c;
	}
	return (SyncString) {value, len};
}
