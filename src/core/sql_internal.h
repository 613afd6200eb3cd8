/*-------------------------------------------------------------------------
 *
 * sql_internal.h
 *	  What the files of the SQL parser share: tokens, the parser's state.
 *
 * Nothing outside sql_*.c includes this.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGSYNC_SQL_INTERNAL_H
#define PGSYNC_SQL_INTERNAL_H

#include "sql.h"

/* ---------------------------------------------------------------- tokens */

/*
 * The reserved words, sorted (sync-rules.md, 2.5).  All other words with a
 * meaning of their own (BETWEEN, VALUES, OVER ...) are recognised where the
 * grammar allows them, and are ordinary names elsewhere.
 */
#define SQL_RESERVED_WORDS(X) \
	X(ALL, "all") X(ANALYSE, "analyse") X(ANALYZE, "analyze") X(AND, "and") \
	X(ANY, "any") X(ARRAY, "array") X(AS, "as") X(ASC, "asc") \
	X(ASYMMETRIC, "asymmetric") X(AUTHORIZATION, "authorization") \
	X(BINARY, "binary") X(BOTH, "both") X(CASE, "case") X(CAST, "cast") \
	X(CHECK, "check") X(COLLATE, "collate") X(COLLATION, "collation") \
	X(CONCURRENTLY, "concurrently") X(CONSTRAINT, "constraint") \
	X(CREATE, "create") X(CROSS, "cross") \
	X(CURRENT_CATALOG, "current_catalog") X(CURRENT_DATE, "current_date") \
	X(CURRENT_ROLE, "current_role") X(CURRENT_SCHEMA, "current_schema") \
	X(CURRENT_TIME, "current_time") X(CURRENT_TIMESTAMP, "current_timestamp") \
	X(CURRENT_USER, "current_user") X(DEFAULT, "default") \
	X(DEFERRABLE, "deferrable") X(DESC, "desc") X(DISTINCT, "distinct") \
	X(DO, "do") X(ELSE, "else") X(END, "end") X(EXCEPT, "except") \
	X(FALSE, "false") X(FETCH, "fetch") X(FOR, "for") X(FOREIGN, "foreign") \
	X(FREEZE, "freeze") X(FROM, "from") X(FULL, "full") X(GRANT, "grant") \
	X(GROUP, "group") X(HAVING, "having") X(ILIKE, "ilike") X(IN, "in") \
	X(INITIALLY, "initially") X(INNER, "inner") X(INTERSECT, "intersect") \
	X(INTO, "into") X(IS, "is") X(ISNULL, "isnull") X(JOIN, "join") \
	X(LATERAL, "lateral") X(LEADING, "leading") X(LEFT, "left") \
	X(LIKE, "like") X(LIMIT, "limit") X(LOCALTIME, "localtime") \
	X(LOCALTIMESTAMP, "localtimestamp") X(NATURAL, "natural") X(NOT, "not") \
	X(NOTNULL, "notnull") X(NULL, "null") X(OFFSET, "offset") X(ON, "on") \
	X(ONLY, "only") X(OR, "or") X(ORDER, "order") X(OUTER, "outer") \
	X(OVERLAPS, "overlaps") X(PLACING, "placing") X(PRECISION, "precision") \
	X(PRIMARY, "primary") X(REFERENCES, "references") \
	X(RETURNING, "returning") X(RIGHT, "right") X(SELECT, "select") \
	X(SESSION_USER, "session_user") X(SIMILAR, "similar") X(SOME, "some") \
	X(SYMMETRIC, "symmetric") X(TABLE, "table") \
	X(TABLESAMPLE, "tablesample") X(THEN, "then") X(TO, "to") \
	X(TRAILING, "trailing") X(TRUE, "true") X(UNION, "union") \
	X(UNIQUE, "unique") X(USER, "user") X(USING, "using") \
	X(VARIADIC, "variadic") X(VERBOSE, "verbose") X(WHEN, "when") \
	X(WHERE, "where") X(WINDOW, "window") X(WITH, "with")

typedef enum SqlTokenKind
{
	TOKEN_END,					/* behind the last token; begins and ends at the text's end */
	TOKEN_BAD,					/* detail: a SqlBadToken; nothing but END follows */
	TOKEN_WORD,
	TOKEN_QUOTED_NAME,
	TOKEN_STRING,
	TOKEN_ESCAPE_STRING,		/* E'...', known to have valid escapes */
	TOKEN_INTEGER,
	TOKEN_REAL,
	TOKEN_PARAMETER,			/* $1 */
	TOKEN_CODE_BLOCK,			/* $$...$$ */
	TOKEN_COMMENT_END,			/* a stray end of a comment */
	TOKEN_OPERATOR,				/* detail: a binary SqlOperator; '+' and '-' are ADD and
								 * SUBTRACT, '*' is MULTIPLY */
	TOKEN_CAST,					/* :: */
	TOKEN_COLON,
	TOKEN_COMMA,
	TOKEN_DOT,
	TOKEN_SEMICOLON,
	TOKEN_LEFT_PAREN,
	TOKEN_RIGHT_PAREN,
	TOKEN_LEFT_BRACKET,
	TOKEN_RIGHT_BRACKET,
	TOKEN_FIRST_RESERVED,
	TOKEN_BEFORE_RESERVED = TOKEN_FIRST_RESERVED - 1,
#define X(name, text) WORD_##name,
	SQL_RESERVED_WORDS(X)
#undef X
	TOKEN_BEHIND_RESERVED
} SqlTokenKind;

typedef enum SqlBadToken
{
	BAD_CHARACTER,
	BAD_STRING_END,
	BAD_NAME_END,
	BAD_NAME,					/* empty, or with a '*' in it */
	BAD_CODE_BLOCK,
	BAD_ESCAPE
} SqlBadToken;

typedef struct SqlToken
{
	uint8_t		kind;			/* SqlTokenKind */
	uint8_t		detail;
	uint32_t	offset;
	uint32_t	end;
} SqlToken;

/*
 * Cuts the text into tokens, the last of which (*end) is a TOKEN_END.  Never fails:
 * what is no token becomes a TOKEN_BAD, which the parser reports if it comes
 * that far.
 */
extern SqlToken *sql_tokenize(const char *text, uint32_t len, SyncArena *arena,
							  const SqlToken **end);

/* the characters of a TOKEN_STRING or TOKEN_ESCAPE_STRING */
extern SyncString sql_string_value(const char *text, const SqlToken *token, SyncArena *arena);

/* ---------------------------------------------------------------- parser */

typedef struct SqlParser
{
	SqlScript  *script;
	SyncArena  *strings;		/* what strings and names of the tree point to */
	SyncArena  *arena;			/* all else */
	SyncError  *error;
	const SqlToken *tokens;
	const SqlToken *end;		/* the TOKEN_END */
	const SqlToken *next;		/* the token to be read next */
	int			depth;			/* of nesting, at most SQL_MAX_DEPTH */
	uint32_t	height;			/* of the highest expression of the current statement */

	/*
	 * Some texts have two readings in the reference parser, which then refuses
	 * them.  We follow one reading and remember where the other one is open.
	 * Each *_end is the offset behind the last token read, 0 for none.
	 */
	uint32_t	direct_subquery_end;	/* (SELECT ...): may be the left side of a UNION */
	uint32_t	values_call_end;	/* values(a): may be VALUES (a) */
	uint32_t	varying_type_end;	/* x::character varying: may be "varying" as an alias */
	uint32_t	comma_list_end; /* SELECT a, b: b may be an item of the list around it */
	uint32_t	order_by_end;	/* SELECT ... ORDER BY a: may be the call's around it */
	const SqlToken *watched_all;	/* all(a), where it may also be ALL (a) */
} SqlParser;

/*
 * Every parse function returns NULL (or false) after setting *parser->error;
 * its callers return at once.
 */

/* --- sql_token.c: looking at tokens, names, errors */

/* the token at a distance from the next one; END for all behind the end */
static inline const SqlToken *
sql_token(const SqlParser *parser, int ahead)
{
	return ahead < parser->end - parser->next ? parser->next + ahead : parser->end;
}

static inline bool
sql_is(const SqlParser *parser, int ahead, SqlTokenKind kind)
{
	return sql_token(parser, ahead)->kind == kind;
}

static inline bool
sql_is_operator(const SqlParser *parser, int ahead, SqlOperator op)
{
	return sql_is(parser, ahead, TOKEN_OPERATOR) && sql_token(parser, ahead)->detail == op;
}

#define sql_is_star(parser, ahead) sql_is_operator(parser, ahead, SQL_OP_MULTIPLY)

extern bool sql_is_word(const SqlParser *parser, int ahead, const char *word);	/* not a reserved one */
extern bool sql_is_name(const SqlParser *parser, int ahead);	/* what can name a column */
extern bool sql_is_name_after_dot(const SqlParser *parser, int ahead);	/* of a table or type */
extern bool sql_is_value_keyword(const SqlParser *parser, int ahead);	/* current_user ... */

extern bool sql_accept(SqlParser *parser, SqlTokenKind kind);
extern bool sql_accept_word(SqlParser *parser, const char *word);
extern bool sql_expect(SqlParser *parser, SqlTokenKind kind, const char *what);
extern bool sql_expect_word(SqlParser *parser, const char *word);

/* offset behind the token read last */
static inline uint32_t
sql_last_end(const SqlParser *parser)
{
	return parser->next > parser->tokens ? parser->next[-1].end : 0;
}

/* of a word (reserved or not) or a quoted name */
extern SqlName sql_token_name(SqlParser *parser, const SqlToken *token);
extern SqlName sql_trimmed_name(SqlParser *parser, const SqlToken *token);
/* a name as an alias and the like: reads it or fails */
extern bool sql_parse_name(SqlParser *parser, SqlName *name);
/* [schema.]name of a table or type */
extern bool sql_parse_qualified_name(SqlParser *parser, SqlName *schema, SqlName *name);

extern void *sql_error_here(SqlParser *parser, const char *expected);
extern void *sql_error_ambiguous(SqlParser *parser, uint32_t offset, const char *hint);
extern void *sql_error_limit(SqlParser *parser, const char *what);

/* one level of nesting */
extern bool sql_enter(SqlParser *parser);

static inline void
sql_leave(SqlParser *parser)
{
	parser->depth--;
}

/* room for one more item in an array; returns where the array is now */
extern void *sql_grow(SqlParser *parser, void *items, int count, int *capacity, size_t size);

/* --- sql_type.c */

/* a type's name comes next and a string behind it */
extern bool sql_at_typed_string(const SqlParser *parser);
extern SqlTypeName *sql_parse_type(SqlParser *parser);

/* --- sql_expr.c, sql_primary.c */

typedef struct SqlExprList
{
	SqlExpr   **items;
	int			count;
	int			capacity;
	uint32_t	height;			/* of the highest item */
} SqlExprList;

/* a new node; it is finished when its operands are there */
extern SqlExpr *sql_new_expr(SqlParser *parser, SqlExprKind kind, uint32_t offset);
extern SqlExpr *sql_finish(SqlParser *parser, SqlExpr *expr, uint32_t end, uint32_t height);

extern SqlExpr *sql_parse_expr(SqlParser *parser);	/* an expression or a lone star */
extern SqlExpr *sql_parse_expr_nostar(SqlParser *parser);
extern SqlExpr *sql_parse_primary(SqlParser *parser);
extern SqlExpr *sql_parse_star(SqlParser *parser);
/* e, e, ...: each an expression, a bare SELECT or, if allowed, a star */
extern bool sql_parse_expr_list(SqlParser *parser, bool star_allowed, SqlExprList *list);
extern bool sql_can_begin_operand(const SqlParser *parser, int ahead);

extern bool sql_at_call(const SqlParser *parser);
extern SqlExpr *sql_parse_call(SqlParser *parser, bool in_from);	/* in FROM: name(args) only */

/* --- sql_parser.c */

extern bool sql_at_selection(const SqlParser *parser, int ahead);	/* SELECT, WITH */
extern bool sql_at_values(const SqlParser *parser, int ahead);	/* VALUES ( */
extern SqlStatement *sql_parse_selection(SqlParser *parser);
/* [UNION right] behind a left side that began at offset and has been read */
extern SqlStatement *sql_parse_union(SqlParser *parser, uint32_t offset, uint32_t height);
extern bool sql_parse_order_by(SqlParser *parser);

/* --- sql_source.c */

extern bool sql_parse_from(SqlParser *parser, SqlSelect *select);
/* [AS] alias; absent is all right */
extern bool sql_parse_alias(SqlParser *parser, SqlName *alias);

#endif							/* PGSYNC_SQL_INTERNAL_H */
