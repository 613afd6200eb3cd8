/*-------------------------------------------------------------------------
 *
 * stream_compile.h
 *	  What the compiler of edition-3 streams shares: sync-rules.md, 7.4.
 *
 *		YAML, SQL text      config.c, sql_*.c
 *		FROM, names         stream_scope.c     relations and what names mean
 *		expressions         stream_expr.c      SQL -> StoredExpr
 *		WHERE, ON, IN       stream_where.c     SQL -> tree of conditions
 *		conditions          stream_terms.c     tree -> products of terms (DNF)
 *		one product         stream_resolve.c   terms -> data source, indexes, lookups
 *		streams             compile_stream.c   merging, buckets, the stored plan
 *		stored plan         stored_*.c         hashes, equality, JSON
 *
 * What turns out wrong is reported where that shows, and is NULL (or left out)
 * in what is handed on, so that the rest of a query is looked at all the same.
 *
 * Expressions are graphs: a column of a subquery is one node wherever it is
 * used.  All walks treat them as trees; what that comes to is counted in the
 * nodes' sizes, and limited (stream_charge()).
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGSYNC_STREAM_COMPILE_H
#define PGSYNC_STREAM_COMPILE_H

#include "compile.h"
#include "stored_plan.h"

/* sync-rules.md, 7.4 */
#define STREAM_MAX_PRODUCTS		100
#define STREAM_MAX_RESOLVERS	100

/* ours: far beyond what a config needs, so that a hostile one is refused soon */
#define STREAM_MAX_RELATIONS	500		/* of one query */
#define STREAM_MAX_TERMS		100000	/* of one query's products */
#define STREAM_MAX_NODES		400000	/* expressions of a config */
#define STREAM_MAX_WALKED		4000000 /* the same, as often as products use them */

#define STREAM_CHAINS			1024

typedef struct StreamCompiler StreamCompiler;
typedef struct StreamQuery StreamQuery;
typedef struct StreamCondition StreamCondition;

/* an SQL text, for messages */
typedef struct StreamText
{
	StreamCompiler *compiler;
	const YamlNode *node;
	const SqlScript *script;	/* as long as the query, or the CTE, is compiled */
	uint32_t	offset;			/* of its first statement */
} StreamText;

/* what `with` defines; parsed and checked once, compiled where it is used */
typedef struct StreamCte
{
	const ConfigCte *config;
	StreamText	text;
	const SqlSelect *select;	/* NULL: it is none */
	bool		broken;			/* reported */
	bool		used;
} StreamCte;

typedef struct StreamCteList
{
	int			count;
	StreamCte  *items;
	NameIndex	index;			/* by name in lower case */
} StreamCteList;

/* a message that was given, so that each use of a CTE does not repeat it */
typedef struct StreamGiven
{
	const YamlNode *node;
	uint32_t	offset;
	const char *format;
} StreamGiven;

struct StreamCompiler
{
	Compiler   *compiler;
	SyncArena  *arena;			/* of the stored plan, and all that is kept until it is written */
	SyncArena  *scratch;		/* what one query needs while it is compiled */
	StoredPlan *plan;
	StoredSource *sources[STREAM_CHAINS];	/* the plan's sources and indexes by hash */
	StoredBucket *buckets[STREAM_CHAINS];
	StreamCteList root_ctes;
	StreamCteList ctes;			/* of the stream at hand; they hide the root's */
	int			node_count;		/* expressions so far: see stream_charge() */
	int64_t		walked;			/* nodes of the sources so far, before merging */
	bool		exhausted;		/* a limit of all streams is reached: reported */
	bool		failed;			/* something of the query at hand is wrong */
	bool		checks_cte;		/* at the definition of one */
	bool		given_last;		/* the newest message was not a repeated one */
	int			given_count;
	StreamGiven given[RULES_REPORT_MAX];
};

/* a statement of `query` or `queries`, with all that it pulls in */
struct StreamQuery
{
	StreamCompiler *compiler;
	StreamText	text;
	int			relation_count; /* made so far */
	StoredRelation *primary;
	int			column_count;
	StoredColumn *columns;		/* grown by compile_stream.c */
};

/* ---------------------------------------------------------------- scopes */

typedef struct StreamColumn
{
	SyncString	name;
	const StoredExpr *expr;		/* NULL: could not be compiled */
} StreamColumn;

/* what a name of FROM means */
typedef struct StreamName
{
	SyncString	name;			/* in lower case */
	StoredRelation *relation;	/* NULL: a subquery */
	bool		broken;			/* reported: nothing is known of its columns */
	int			column_count;
	StreamColumn *columns;		/* of a subquery */
	NameIndex	column_index;	/* its columns by name */
} StreamName;

/* the names that expressions of one SELECT see */
typedef struct StreamScope StreamScope;
struct StreamScope
{
	StreamQuery *query;
	const StreamText *text;
	const StreamScope *outer;	/* of the statement around IN (SELECT ...) */
	bool		in_cte;			/* sees no CTE */
	int			name_count;
	StreamName *names;
	NameIndex	name_index;
};

/* ---- compile_stream.c */

/* fatal, at a place of a text; each only once */
extern void stream_fail(const StreamText *text, SyncErrorCode code, uint32_t offset,
						const char *format,...) sync_printf_like(4, 5);
extern void stream_warn(const StreamText *text, uint32_t offset, const char *format,...)
			sync_printf_like(3, 4);
extern void stream_warn_unnamed(const StreamText *text, uint32_t offset, SyncString name);
extern void stream_hint(const StreamText *text, const char *format,...) sync_printf_like(2, 3);

/*
 * The first statement, if it is a SELECT, with its tree in that arena; *text is
 * filled in.  NULL, reported, if it is not.  Clauses that cannot be used are
 * reported.
 */
extern const SqlSelect *stream_parse(StreamCompiler *compiler, const ConfigSql *sql,
									 SyncArena *tree, StreamText *text);
extern const SqlSelect *stream_statement(const StreamText *text, const SqlStatement *statement);

/* the CTE of that name, marked as used, or NULL */
extern StreamCte *stream_find_cte(const StreamScope *scope, const SqlName *name);

/* ---- stream_scope.c */

/*
 * Adds the sources of FROM to the scope, and what ON and subqueries demand to
 * the conditions.
 */
/* reports what is wrong with a CTE, used or not */
extern void stream_check_cte(StreamCte *cte);
extern void stream_compile_from(StreamScope *scope, const SqlSelect *select,
								StreamCondition *conditions);

/* a new json_each(input); NULL, reported, when it cannot be called */
extern StoredRelation *stream_json_each(const StreamScope *scope, const StoredExpr *input,
										uint32_t offset);

/* columns; NULL, reported, for one that does not exist */
extern const StoredExpr *stream_column(const StreamScope *scope, const SqlExpr *expr);

/* the source with that name, or NULL */
extern const StreamName *stream_find_name(const StreamScope *scope, const SqlName *name);
extern void stream_no_such_source(const StreamScope *scope, const SqlName *name);

/* the name of an item without an alias or a column's name: its text */
extern SyncString stream_item_name(const StreamScope *scope, const SqlItem *item, bool *has_name);

/* ---- stream_expr.c */

extern const StoredExpr *stream_expr(const StreamScope *scope, const SqlExpr *expr);

/* the items of ARRAY[...] and ROW(...); false for anything else */
extern bool stream_list_items(const SqlExpr *expr, SqlExpr ***items, int *count);

/*
 * Counts nodes of expressions that were made, or are used once more (a column of
 * a subquery, which is then part of two trees).  False, reported, when there are
 * too many.
 */
extern bool stream_charge(const StreamText *text, uint32_t offset, int nodes);

/* makers; NULL when a limit is reached, which is reported at offset */
extern const StoredExpr *stream_make(const StreamText *text, uint32_t offset, StoredExprKind kind,
									 SyncString name, int arg_count,
									 const StoredExpr *const *args);
extern const StoredExpr *stream_make_input(const StreamText *text, uint32_t offset,
										   StoredExprKind kind, SyncString name,
										   StoredRelation *relation);
extern const StoredExpr *stream_make_binary(const StreamText *text, uint32_t offset,
											const char *op, const StoredExpr *left,
											const StoredExpr *right);
extern const StoredExpr *stream_make_not(const StreamText *text, uint32_t offset,
										 const StoredExpr *operand);

/* what an expression depends on */
typedef struct StreamInputs
{
	bool		request;
	StoredRelation *first;		/* NULL: no relation */
	bool		several;		/* other relations, too */
	StoredRelation *last;
	bool		function;		/* a table-valued function */
	bool		mixed;			/* one does not belong to the one before it */
} StreamInputs;

extern void stream_add_inputs(StreamInputs *inputs, const StoredExpr *expr);

/* whether one is the other, or called for its rows */
extern bool stream_belong_together(const StoredRelation *a, const StoredRelation *b);

/* ---- stream_where.c */

typedef enum StreamConditionKind
{
	CONDITION_AND,
	CONDITION_OR,
	CONDITION_NOT,
	CONDITION_EQUAL,			/* left = right */
	CONDITION_EXPR				/* left */
} StreamConditionKind;

struct StreamCondition
{
	StreamConditionKind kind;
	bool		chain;			/* AND, OR: one after the other; not all that a query demands */
	const StreamText *text;
	uint32_t	offset;
	const StoredExpr *left;
	const StoredExpr *right;
	int			child_count;
	StreamCondition **children;
};

extern StreamCondition *stream_condition_new(const StreamText *text, StreamConditionKind kind,
											 uint32_t offset);

/* to an AND or OR; NULL adds nothing */
extern void stream_condition_add(StreamCondition *parent, StreamCondition *child);

/* the value of a relation made by stream_json_each(), or of NULL */
extern const StoredExpr *stream_value_column(const StreamText *text, uint32_t offset,
											 StoredRelation *relation);

/* as a term of an AND; what is wrong is reported and left out */
extern void stream_compile_where(const StreamScope *scope, const SqlExpr *expr,
								 StreamCondition *conditions);

/* ---- stream_terms.c */

/* an operand of an equals clause; relation NULL: of the request, or static */
typedef struct StreamSide
{
	const StoredExpr *expr;
	StoredRelation *relation;	/* the owner */
} StreamSide;

typedef struct StreamTerm
{
	bool		equals;
	bool		placed;			/* relations and group are known */
	StoredRelation *group;		/* of a condition: the relation that it names last */
	StreamSide	left;
	StreamSide	right;			/* equals */
	const StreamText *text;
	uint32_t	offset;
} StreamTerm;

typedef struct StreamProduct
{
	int			term_count;
	StreamTerm **terms;			/* equals clauses, then of the request, then by relation */
} StreamProduct;

typedef struct StreamProducts
{
	int			count;
	StreamProduct *items;
} StreamProducts;

/* false, reported, when there is an error or there are too many */
extern bool stream_products(StreamQuery *query, const StreamCondition *conditions,
							StreamProducts *products);

/* ---- stream_resolve.c */

typedef struct StreamResolver
{
	StoredQuerier querier;		/* without a bucket */
	StoredSource *source;
	const StreamText *text;
} StreamResolver;

/* false, reported, when a term cannot be placed */
extern bool stream_resolve(StreamQuery *query, const StreamProduct *product,
						   StreamResolver *resolver);

#endif							/* PGSYNC_STREAM_COMPILE_H */
