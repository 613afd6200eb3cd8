/*-------------------------------------------------------------------------
 *
 * expr.h
 *	  Expressions as they are compiled: what all front ends produce and the
 *	  one evaluator runs.
 *
 * In a plan a column is a name.  Binding copies the tree with every column
 * resolved to its position in the row, and everything that is known of a
 * table (its name, its suffix, a column that it does not have) put in as a
 * constant: evaluation looks nothing up.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGSYNC_EXPR_H
#define PGSYNC_EXPR_H

#include "core.h"
#include "value.h"

/* expressions inside one another: bounds the stack of all that walk them */
#define EXPR_MAX_DEPTH	2000

typedef enum ExprKind
{
	EXPR_CONSTANT,				/* constant */
	EXPR_COLUMN,				/* name: only in plans */
	EXPR_POSITION,				/* position: only in bindings */
	EXPR_TABLE_SUFFIX,			/* only in plans: a table wildcard's rest, text */
	EXPR_TABLE_NAME,			/* only in plans */
	EXPR_TABLE_SCHEMA,			/* only in plans */
	EXPR_NOT,
	EXPR_AND,					/* both sides are always evaluated */
	EXPR_OR,
	EXPR_COMPARE,				/* op: ValueComparison */
	EXPR_IS,
	EXPR_ARITHMETIC,			/* op: + - * / */
	EXPR_CONCAT,
	EXPR_CAST,					/* op: ValueCast */
	EXPR_JSON_GET,				/* op: JsonOperator */
	EXPR_IN_JSON,				/* args[0] is an element of the JSON array args[1] */
	EXPR_OVERLAP_JSON,			/* the JSON arrays args[0] and args[1] have a common element */
	EXPR_BETWEEN,				/* value, low, high */
	EXPR_SCALAR_IN,				/* value, then what it may be equal to */
	EXPR_CASE,					/* op: EXPR_CASE_...; [operand,] {when, then,} [else] */
	EXPR_EXPANDED_VALUE,		/* position: which of the source's expansions */
	EXPR_EXPANDED_KEY,			/* position */
	EXPR_FAIL,					/* args[0]'s text is the error: what a plan may hold but no
								 * one can evaluate (sync-rules.md, 5.6) */
	EXPR_FUNCTION				/* function */
} ExprKind;

#define EXPR_CASE_OPERAND	0x01
#define EXPR_CASE_ELSE		0x02

typedef struct Expr Expr;
typedef struct FunctionInfo FunctionInfo;

struct Expr
{
	ExprKind	kind;
	int			op;
	int			arg_count;
	const Expr **args;
	union
	{
		SyncValue	constant;
		SyncString	name;
		int			position;
		const FunctionInfo *function;
	};
};

/* a row of json_each() */
typedef struct ExpandedRow
{
	SyncValue	key;
	SyncValue	value;
} ExpandedRow;

/* what an evaluation works with */
typedef struct ExprContext
{
	const SyncValue *row;		/* by position; NULL while constants are folded */
	const ExpandedRow *const *expanded;	/* the present row of each of the source's expansions */
	SyncArena  *arena;
	SyncError  *error;			/* set by an evaluation that fails */
	bool		fixed_json;		/* the option fixed_json_extract */
} ExprContext;

/* arguments that are not given are undefined: args has at least 3 */
typedef bool (*FunctionBody) (ExprContext *context, int arg_count, const SyncValue *args,
							  SyncValue *result);

struct FunctionInfo
{
	const char *name;			/* lower case */
	FunctionBody body;
	int			min_args;		/* checked by edition 3 only */
	int			max_args;		/* -1: any */
	bool		until_edition_2;	/* not known to edition 3 */
};

/* NULL: there is none; name must be lower case */
extern const FunctionInfo *function_find(SyncString name);

/* the nearest name to one that does not exist, or NULL */
extern const char *function_suggest(SyncString name);

extern Expr *expr_constant(SyncArena *arena, SyncValue value);
extern Expr *expr_column(SyncArena *arena, SyncString name);
extern Expr *expr_new(SyncArena *arena, ExprKind kind, int op, int arg_count, const Expr *const *args);

/*
 * False and *context->error when the row makes it fail.  Kinds that exist only
 * in plans fail too.  Results may point into the row.
 */
extern bool expr_evaluate(const Expr *expr, ExprContext *context, SyncValue *result);

/* what binding knows of a table */
typedef struct ExprScope
{
	const SyncRowType *row_type;
	SyncString	schema;
	SyncString	table;
	SyncString	suffix;			/* what a table wildcard left over */
	bool		has_suffix_column;	/* "_table_suffix" is a column (sync-rules.md, 3.2) */
} ExprScope;

/* position of a column by exact name, -1 if there is none */
extern int	row_type_position(const SyncRowType *type, SyncString name);

/* the expression for one table: copied into arena, strings included */
extern const Expr *expr_bind(const Expr *expr, const ExprScope *scope, SyncArena *arena);

#endif							/* PGSYNC_EXPR_H */
