/*-------------------------------------------------------------------------
 *
 * compile.h
 *	  What the compilers of the front ends share: the plan in the making, and
 *	  clauses, the compiled form of an expression before it is known where it
 *	  belongs.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGSYNC_COMPILE_H
#define PGSYNC_COMPILE_H

#include "config.h"
#include "core.h"
#include "expr.h"
#include "hash_index.h"
#include "plan.h"
#include "report.h"
#include "sql.h"

typedef struct Compiler
{
	SyncArena  *arena;			/* of the plan and of messages */
	SyncArena  *scratch;		/* what one query needs while it is compiled */
	SyncArena  *streams;		/* what streams of edition 3 need until their plan is written */
	RulesReport *report;
	const SyncConfig *config;
	SyncString	default_schema;
	SyncPlan   *plan;			/* its arrays have room for all queries of the config */
	HashIndex	tables;			/* of the plan's tables */
} Compiler;

/*
 * The kinds of sync-rules.md, 3.3.  A static clause counts as a row clause and
 * as a parameter clause.
 */
typedef enum ClauseKind
{
	CLAUSE_ERROR,				/* already reported */
	CLAUSE_STATIC,				/* expr is a constant */
	CLAUSE_ROW,
	CLAUSE_PARAMETER,
	CLAUSE_MATCH
} ClauseKind;

typedef struct Clause
{
	ClauseKind	kind;
	const Expr *expr;			/* STATIC, ROW */
	SyncString	identity;		/* STATIC, PARAMETER: equal texts are the same parameter */
	uint32_t	offset;			/* PARAMETER: where it stands */
	PlanMatch  *match;			/* MATCH; its keys are numbers of the query's key list */
	int			key_count;		/* MATCH: in the order of 3.3 */
	int		   *keys;
	bool		unbounded;		/* MATCH: one row can give many sets */
	bool		uses_token;		/* a value that the client cannot choose takes part */
	bool		uses_request;	/* one that it can */
} Clause;

/* where the clauses of a query may refer to */
typedef enum QueryKind
{
	QUERY_DATA,					/* parameters: bucket.x */
	QUERY_LOOKUP,				/* parameters: of the request */
	QUERY_STREAM,				/* parameters: of a stream's request (sync-rules.md, 4) */
	QUERY_STATIC,				/* no table */
	QUERY_EXPAND				/* FROM json_each(...) */
} QueryKind;

/* one SQL text being compiled */
typedef struct QueryCompiler
{
	Compiler   *compiler;
	QueryKind	kind;
	const YamlNode *node;
	const SqlScript *script;
	SyncString	table_name;		/* what columns are qualified with; len 0: no table */
	TablePattern table;			/* which that is */
	int			key_count;		/* parameters compared with, each once */
	int			key_capacity;
	SyncString *keys;
	uint32_t   *key_offsets;	/* by key: where it stands first */
	bool	   *key_expands;	/* by key: from "row IN parameter" */
	bool		uses_subscription;	/* parameters of a subscription take part */
	bool		in_subquery;	/* of an alpha stream */
} QueryCompiler;

/* ---- compile.c: statements, tables, names */

/* the scratch arena is free for a query, which is where compiling is now */
extern void compile_begin(Compiler *compiler, const ConfigSql *sql);
extern void compile_query_init(QueryCompiler *query, Compiler *compiler, QueryKind kind);
/*
 * Parses an SQL text into a tree in that arena (its strings are in the plan's).
 * NULL, reported where it stands, if it cannot be read.
 */
extern const SqlScript *compile_parse(Compiler *compiler, const ConfigSql *sql, SyncArena *tree);

/*
 * Parses one SELECT without any clause that cannot be used, into the scratch arena.
 * NULL, reported, if it is something else.
 */
extern const SqlSelect *compile_select(QueryCompiler *query, const ConfigSql *sql);

/* the same of a statement that is parsed, as a subquery is */
extern const SqlSelect *compile_statement(QueryCompiler *query, const SqlStatement *statement);

/* the only table of a FROM; false, reported, if there is not exactly one */
extern bool compile_table(QueryCompiler *query, const SqlSelect *select, TablePattern *pattern);

/* adds a pattern to the plan's tables */
extern void compile_add_table(Compiler *compiler, const TablePattern *pattern);

/* the name of an item; false, reported, if it has none */
extern bool compile_item_name(QueryCompiler *query, const SqlItem *item, SyncString *name);

/* a fatal error, or a warning, at a place in the query */
extern void compile_fail(QueryCompiler *query, SyncErrorCode code, uint32_t offset,
						 const char *format,...) sync_printf_like(4, 5);
extern void compile_warn(QueryCompiler *query, uint32_t offset, const char *format,...)
			sync_printf_like(3, 4);

/*
 * Notes where a table, a column of one, or a condition stands, so that what is
 * found out about it later can be shown there.  about: the Expr or PlanMatch made
 * of it, or NULL.
 */
extern void compile_note_table(Compiler *compiler, const TablePattern *table,
							   const YamlNode *node, uint32_t offset);
extern void compile_note_column(Compiler *compiler, const TablePattern *table, SyncString column,
								const Expr *about, const YamlNode *node, uint32_t offset);
extern void compile_note_connection(Compiler *compiler, const TablePattern *table,
									SyncString connection, const YamlNode *node, uint32_t offset);
extern void compile_note_condition(Compiler *compiler, const TablePattern *table,
								   const void *about, const YamlNode *node, uint32_t offset);

/* warns of an unquoted name that folding changed */
extern void compile_check_case(QueryCompiler *query, const SqlName *name);

/* for "%.*s" in messages: a name cut to what is readable */
#define SHOWN(s)	((s).len > 60 ? 60 : (int) (s).len), (s).data

/* ---- compile_clause.c: expressions of legacy queries and alpha streams */

extern Clause compile_clause(QueryCompiler *query, const SqlExpr *expr);

/* left AND right, left OR right: both of the row, or both of the request */
extern Clause clause_and_or(QueryCompiler *query, const SqlExpr *expr, bool is_and,
							const Clause *left, const Clause *right);

/* NOT clause: no match */
extern Clause clause_not(QueryCompiler *query, const SqlExpr *expr, const Clause *clause);

/* expr, a && b, of the clauses of a and b */
extern Clause clause_overlap(QueryCompiler *query, const SqlExpr *expr, const Clause *args);

/* 3.3: as a condition; a row clause keeps its expression, a parameter is compared with 1 */
extern Clause clause_as_match(QueryCompiler *query, const Clause *clause);

static inline bool
clause_is_row(const Clause *clause)
{
	return clause->kind == CLAUSE_STATIC || clause->kind == CLAUSE_ROW;
}

static inline bool
clause_is_parameter(const Clause *clause)
{
	return clause->kind == CLAUSE_STATIC || clause->kind == CLAUSE_PARAMETER;
}

/* ---- compile_legacy.c */

extern void compile_bucket_definitions(Compiler *compiler);
extern void compile_events(Compiler *compiler);
extern void compile_payload(Compiler *compiler, const ConfigSql *sql);

/* the items of a query whose rows go to buckets; false, reported, if one is wrong */
extern bool compile_row_items(QueryCompiler *query, const SqlSelect *select, PlanSource *source);

/* reports a query without an item "id" */
extern void compile_check_id(QueryCompiler *query, const SqlSelect *select,
							 const PlanSource *source);

/* the output table of rows of a query's table: sync-rules.md, 3.1 */
extern SyncString compile_output_table(const SqlSource *source);

/* ---- compile_alpha.c */

/* after the others, as it gives the plan's arrays room of its own */
extern void compile_alpha_streams(Compiler *compiler);

/* ---- compile_stream.c */

/*
 * Compiles the streams of an edition-3 config, writes the plan as the service
 * stores it and reads it back.  NULL, reported, when something is wrong.
 */
extern SyncPlan *compile_streams(Compiler *compiler, const RulesOptions *options);

#endif							/* PGSYNC_COMPILE_H */
