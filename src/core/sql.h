/*-------------------------------------------------------------------------
 *
 * sql.h
 *	  The SQL subset of sync rules: syntax tree and parser.
 *
 * The language is that of sync-rules.md, section 2: looks like PostgreSQL's,
 * but has its own lexical rules, its own reserved words and its own operator
 * precedence.  The parser decides what is well-formed and how it nests; it
 * does not know which tables, functions, casts or clauses a rule may use.
 * Whatever parses but can never be used (GROUP BY, AT TIME ZONE, UNION, ...)
 * is kept in the tree as a mark with a position, for the compilers to reject.
 *
 * Invariants: names and positions refer to a copy of the text; a tree, subqueries included, is at most
 * SQL_MAX_HEIGHT nodes high (so a compiler may recurse over it); it is
 * immutable once returned.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGSYNC_SQL_H
#define PGSYNC_SQL_H

#include "core.h"

#define SQL_MAX_LENGTH	(256 * 1024)	/* bytes of one text */
#define SQL_MAX_DEPTH	200		/* parentheses, calls, CASE, NOT ... inside one another */
#define SQL_MAX_HEIGHT	1000	/* of a tree: "a OR b OR c" is one level per OR */

typedef struct SqlExpr SqlExpr;
typedef struct SqlSelect SqlSelect;
typedef struct SqlStatement SqlStatement;

/*
 * A name.  text is the folded form (ASCII letters in lower case), or what is
 * between the quotes of a quoted name, where "" stays two quotes; original is
 * the same number of bytes as written.  An absent name has len 0 and a NULL
 * text.  A quoted name may hold any UTF-8 but '*'; where the reference parser
 * cuts blanks off a quoted name's ends, len is shorter than what was written.
 */
typedef struct SqlName
{
	const char *text;
	const char *original;
	uint32_t	len;
	uint32_t	offset;			/* of the name's first byte in the text, quote included */
	bool		quoted;
} SqlName;

static inline bool
sql_name_is_set(const SqlName *name)
{
	return name->text != NULL;
}

static inline SyncString
sql_name_string(const SqlName *name)
{
	return (SyncString) {name->text, name->len};
}

/* ---------------------------------------------------------------- expressions */

typedef enum SqlExprKind
{
	SQL_NULL,
	SQL_BOOLEAN,
	SQL_INTEGER,
	SQL_REAL,
	SQL_STRING,
	SQL_COLUMN,
	SQL_STAR,					/* * or t.* */
	SQL_CALL,
	SQL_UNARY,
	SQL_BINARY,
	SQL_BETWEEN,
	SQL_MEMBER,					/* x -> literal, x ->> literal */
	SQL_CAST,
	SQL_LIST,					/* (a, b): two or more */
	SQL_CASE,
	SQL_ARRAY,					/* ARRAY[a, b] */
	SQL_SUBSCRIPT,				/* x[i] */
	SQL_SUBQUERY,				/* (SELECT ...), or one as a function's argument */
	/* from here on: no edition can use them */
	SQL_ARRAY_SUBQUERY,			/* ARRAY(SELECT ...) */
	SQL_KEYWORD,				/* current_user ... */
	SQL_PARAMETER,				/* $1 */
	SQL_DEFAULT,
	SQL_EXTRACT,				/* EXTRACT(field FROM x) */
	SQL_OVERLAY,				/* OVERLAY(x PLACING y FROM a [FOR b]) */
	SQL_SUBSTRING				/* SUBSTRING(x FROM a [FOR b]); with commas it is a call */
} SqlExprKind;

/* in the order of sync-rules.md, 2.3, loosest first */
typedef enum SqlOperator
{
	SQL_OP_OR,
	SQL_OP_AND,
	SQL_OP_NOT,
	SQL_OP_EQ,
	SQL_OP_NE,					/* != and <> */
	SQL_OP_IS_NULL,				/* also ISNULL */
	SQL_OP_IS_NOT_NULL,			/* also NOTNULL */
	SQL_OP_IS_TRUE,
	SQL_OP_IS_NOT_TRUE,
	SQL_OP_IS_FALSE,
	SQL_OP_IS_NOT_FALSE,
	SQL_OP_LT,
	SQL_OP_LE,
	SQL_OP_GT,
	SQL_OP_GE,
	SQL_OP_SHIFT_LEFT,			/* << */
	SQL_OP_SHIFT_RIGHT,			/* >> */
	SQL_OP_CONTAINS,			/* @> */
	SQL_OP_CONTAINED,			/* <@ */
	SQL_OP_MATCH,				/* ~ */
	SQL_OP_IMATCH,				/* ~* */
	SQL_OP_NOT_MATCH,			/* !~ */
	SQL_OP_NOT_IMATCH,			/* !~* */
	SQL_OP_KEY,					/* ? */
	SQL_OP_KEY_ANY,				/* ?| */
	SQL_OP_KEY_ALL,				/* ?& */
	SQL_OP_PATH_TEXT,			/* #>> */
	SQL_OP_TEXT_SEARCH,			/* @@ */
	SQL_OP_BETWEEN,
	SQL_OP_NOT_BETWEEN,
	SQL_OP_BIT_OR,				/* | */
	SQL_OP_BIT_AND,				/* & */
	SQL_OP_BIT_XOR,				/* # */
	SQL_OP_LIKE,				/* also ~~ */
	SQL_OP_NOT_LIKE,			/* also !~~ */
	SQL_OP_ILIKE,				/* also ~~* */
	SQL_OP_NOT_ILIKE,			/* also !~~* */
	SQL_OP_IN,
	SQL_OP_NOT_IN,
	SQL_OP_ADD,
	SQL_OP_SUBTRACT,
	SQL_OP_CONCAT,				/* || */
	SQL_OP_OVERLAP,				/* && */
	SQL_OP_DELETE_PATH,			/* #- */
	SQL_OP_MULTIPLY,
	SQL_OP_DIVIDE,
	SQL_OP_MODULO,
	SQL_OP_POWER,				/* ^ */
	SQL_OP_PLUS,				/* unary + */
	SQL_OP_MINUS,				/* unary - */
	SQL_OP_AT_TIME_ZONE,
	SQL_OP_JSON,				/* -> */
	SQL_OP_JSON_TEXT			/* ->> */
} SqlOperator;

typedef struct SqlCaseArm
{
	SqlExpr    *when;
	SqlExpr    *then;
} SqlCaseArm;

/* what a call has besides its arguments; none of it can be used */
#define SQL_CALL_DISTINCT	0x01
#define SQL_CALL_ALL		0x02
#define SQL_CALL_ORDER_BY	0x04
#define SQL_CALL_FILTER		0x08
#define SQL_CALL_OVER		0x10

/*
 * The type of a cast.  name is folded unless quoted, words separated by one
 * blank ("double precision"); length arguments, as in numeric(10,2), are
 * dropped.  array_levels counts [] (or the word ARRAY) behind it.
 */
typedef struct SqlTypeName
{
	SqlName		schema;			/* usually absent */
	SqlName		name;
	int			array_levels;
} SqlTypeName;

struct SqlExpr
{
	SqlExprKind kind;
	SqlOperator op;				/* UNARY, BINARY, BETWEEN, MEMBER */

	/*
	 * Where the expression stands: its first byte and the one behind its last.
	 * Parentheses around it do not belong to it, nor do (as in the reference
	 * parser) those around its first and last operand: "(a) + b" begins at a.
	 */
	uint32_t	offset;
	uint32_t	end;
	uint32_t	height;			/* 1 + that of the highest operand */
	union
	{
		bool		boolean;	/* BOOLEAN */

		/*
		 * INTEGER: decimal digits with an optional '-', no leading zeros, any
		 * length; "-0" is kept.
		 */
		SyncString	integer;
		double		real;		/* REAL; may be infinite */
		SyncString	string;		/* STRING: quotes and escapes undone */
		struct
		{
			SqlName		schema; /* only if qualifier is set */
			SqlName		qualifier;
			SqlName		name;	/* absent in a STAR */
		}			column;		/* COLUMN, STAR */
		struct
		{
			SqlName		schema;
			SqlName		name;
			SqlExpr   **args;
			int			arg_count;
			uint32_t	extras; /* SQL_CALL_... */
		}			call;
		struct
		{
			SqlExpr    *operand;
		}			unary;
		struct
		{
			SqlExpr    *left;
			SqlExpr    *right;
			SyncString	op_schema;	/* of OPERATOR(schema.op), else len 0: cannot be used */
		}			binary;
		struct
		{
			SqlExpr    *operand;
			SqlExpr    *low;
			SqlExpr    *high;
		}			between;
		struct
		{
			SqlExpr    *operand;
			SqlExpr    *key;	/* a STRING or an INTEGER */
		}			member;
		struct
		{
			SqlExpr    *operand;
			SqlTypeName *type;
		}			cast;
		struct
		{
			SqlExpr   **items;
			int			count;
		}			list;		/* LIST, ARRAY */
		struct
		{
			SqlName		field;	/* of EXTRACT */
			SqlExpr    *value;	/* NULL in EXTRACT */
			SqlExpr    *placing;
			SqlExpr    *from;
			SqlExpr    *length; /* FOR */
		}			words;		/* EXTRACT, OVERLAY, SUBSTRING; NULL = not there */
		struct
		{
			SqlExpr    *operand;	/* NULL in CASE WHEN ... */
			SqlCaseArm *arms;
			int			arm_count;	/* may be 0 */
			SqlExpr    *otherwise;	/* NULL without ELSE */
		}			cases;
		struct
		{
			SqlExpr    *operand;
			SqlExpr    *index;
		}			subscript;
		SqlStatement *subquery; /* SUBQUERY, ARRAY_SUBQUERY; not an OTHER_STATEMENT */
		SyncString	word;		/* KEYWORD (lower case), PARAMETER ("$1") */
	};
};

/* ---------------------------------------------------------------- SELECT */

/* expr is a STAR for * and t.* */
typedef struct SqlItem
{
	SqlExpr    *expr;
	SqlName		alias;			/* absent without one */
} SqlItem;

typedef enum SqlSourceKind
{
	SQL_SOURCE_TABLE,
	SQL_SOURCE_CALL,
	SQL_SOURCE_SUBQUERY
} SqlSourceKind;

typedef enum SqlJoin
{
	SQL_JOIN_NONE,				/* the first source, or one after a comma */
	SQL_JOIN_INNER,
	SQL_JOIN_CROSS,
	SQL_JOIN_LEFT,
	SQL_JOIN_RIGHT,
	SQL_JOIN_FULL
} SqlJoin;

typedef struct SqlSource
{
	SqlSourceKind kind;
	SqlJoin		join;			/* how it is joined to the sources before it */
	bool		using_columns;	/* JOIN ... USING (...): cannot be used */
	bool		with_ordinality;	/* cannot be used */
	uint32_t	offset;
	uint32_t	end;
	SqlExpr    *on;				/* NULL without ON */
	SqlName		schema;			/* TABLE */
	SqlName		name;			/* TABLE */
	SqlExpr    *call;			/* CALL: a SQL_CALL */
	SqlStatement *subquery;		/* SUBQUERY */
	SqlName		alias;			/* absent without one; a SUBQUERY has one */
	SqlName    *columns;		/* alias(a, b) */
	int			column_count;
} SqlSource;

/* clauses that parse but that (DISTINCT in ed3 aside) no edition accepts */
typedef enum SqlClause
{
	SQL_CLAUSE_DISTINCT,
	SQL_CLAUSE_DISTINCT_ON,
	SQL_CLAUSE_ALL,				/* SELECT ALL */
	SQL_CLAUSE_GROUP_BY,
	SQL_CLAUSE_HAVING,
	SQL_CLAUSE_ORDER_BY,
	SQL_CLAUSE_LIMIT,			/* also FETCH */
	SQL_CLAUSE_OFFSET,
	SQL_CLAUSE_FOR,				/* FOR UPDATE ... */
	SQL_CLAUSE_SKIP				/* NOWAIT, SKIP LOCKED */
} SqlClause;

#define SQL_CLAUSE_COUNT	(SQL_CLAUSE_SKIP + 1)

struct SqlSelect
{
	SqlItem    *items;
	int			item_count;		/* 0 in a bare SELECT */
	SqlSource  *sources;
	int			source_count;	/* 0 without FROM */
	SqlExpr    *where;			/* NULL without */
	/* offset of each clause's first word; 0 = the statement does not have it */
	uint32_t	clauses[SQL_CLAUSE_COUNT];
};

/* the first of a SELECT's marked clauses in the text, or -1; DISTINCT counts */
extern int	sql_first_clause(const SqlSelect *select);
extern const char *sql_clause_name(SqlClause clause);	/* "GROUP BY" */

/* ---------------------------------------------------------------- statements */

typedef enum SqlStatementKind
{
	SQL_SELECT,
	/* from here on: no edition can use them */
	SQL_UNION,
	SQL_VALUES,
	SQL_WITH,
	SQL_OTHER_STATEMENT			/* INSERT, CREATE, ...: known by its first word, the
								 * rest is checked for tokens and parentheses only */
} SqlStatementKind;

struct SqlStatement
{
	SqlStatementKind kind;
	uint32_t	offset;
	uint32_t	end;
	uint32_t	height;			/* of its highest expression */
	SqlSelect  *select;			/* SELECT, else NULL */
	SyncString	word;			/* its first word in lower case; also "union", "union
								 * all" and "with recursive" */
	SqlStatement *next;			/* the statement after the semicolon, or NULL */
};

/*
 * text is a copy.  In a text with several statements count says how many:
 * more than one is fatal in editions 1 and 2, edition 3 uses the first.
 */
typedef struct SqlScript
{
	const char *text;
	uint32_t	len;
	SqlStatement *first;
	int			count;			/* at least 1 */
} SqlScript;

/*
 * Reads text (UTF-8, len bytes, no NUL needed) into a tree.  What its strings and
 * names point to is in arena, all else (and the script itself) in the arena tree,
 * which may be the same, or one that is given back sooner.  NULL on error: then
 * *error has SYNC_ERROR_SYNTAX with the position in the text, or SYNC_ERROR_LIMIT
 * for a text that is too long or nests too deep.  Sets no guard: out of memory
 * jumps to the caller's.
 */
extern const SqlScript *sql_parse(const char *text, size_t len, SyncArena *arena, SyncArena *tree,
								  SyncError *error);

/* line and column (in characters) of an offset, both from 1 */
extern void sql_position(const SqlScript *script, uint32_t offset, int *line, int *column);

/* the text from an offset to another */
static inline SyncString
sql_text(const SqlScript *script, uint32_t offset, uint32_t end)
{
	return (SyncString) {script->text + offset, end - offset};
}

/* "IS NOT NULL", "!=", "->>": as in messages */
extern const char *sql_operator_name(SqlOperator op);

#endif							/* PGSYNC_SQL_H */
