/*-------------------------------------------------------------------------
 *
 * stored_plan.h
 *	  The plan of edition 3 as it is stored: sync-rules.md, 7.1, 7.2, 7.5, 7.6.
 *
 * What compile_stream.c and the stream_*.c files make, and stored_plan.c
 * writes as JSON.  It holds the query side too (streams, queriers), which
 * pgsync only passes on.  To run it, the JSON is read back with plan_read():
 * so a plan means the same whoever compiled it.
 *
 * Expressions refer to what they read from by a pointer to a StoredRelation.
 * A relation belongs to one query; two sources are the same when they read
 * the same from equal relations (stored_source_equal()).
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGSYNC_STORED_PLAN_H
#define PGSYNC_STORED_PLAN_H

#include "config.h"
#include "core.h"

/*
 * What we compile must fit into a document of MongoDB; what others have stored did.
 * A document has at most 180 levels.  Expressions are at most the 15th from above
 * (the request's values for an index, in an intersection), and a column's reference
 * has one more level below itself.
 */
#define STORED_EXPR_MAX_HEIGHT	160

/* of the JSON; and of what it is in BSON, where a config of 1 MB stands beside it */
#define STORED_PLAN_MAX_BYTES	(11 * 1024 * 1024)
#define STORED_PLAN_MAX_BSON	(14 * 1024 * 1024)

typedef struct StoredExpr StoredExpr;
typedef struct StoredRelation StoredRelation;

/* ---------------------------------------------------------------- relations */

typedef enum StoredRelationKind
{
	RELATION_TABLE,
	RELATION_JSON_EACH
} StoredRelationKind;

/* what a query reads from: a physical table, or a table-valued function */
struct StoredRelation
{
	StoredRelationKind kind;

	/*
	 * The table whose rows a function is called for.  A table, and a function
	 * of the request alone, is its own owner.
	 */
	StoredRelation *owner;
	SyncString	connection;		/* TABLE; no data: not given */
	SyncString	schema;			/* TABLE; no data: not given */
	SyncString	name;			/* TABLE */
	SyncString	output_name;	/* TABLE; no data: that of the table that a wildcard finds */
	bool		renamed;		/* TABLE: by an alias without quotes */
	uint32_t	offset;			/* TABLE: of the alias */
	const StoredExpr *input;	/* JSON_EACH */
};

/* ---------------------------------------------------------------- expressions */

typedef enum StoredExprKind
{
	STORED_COLUMN,				/* text of relation; a function's are "value" and "key" */
	STORED_METADATA,			/* text: schema, table_name, table_suffix of relation */
	STORED_REQUEST,				/* text: auth, subscription, connection */
	STORED_UNARY,				/* text: not, + */
	STORED_BINARY,				/* text: operator */
	STORED_BETWEEN,				/* value, low, high */
	STORED_SCALAR_IN,			/* target, then the list */
	STORED_CASE,				/* [operand,] {when, then,} [else] */
	STORED_CAST,				/* text: type */
	STORED_FUNCTION,			/* text: name */
	STORED_NULL,
	STORED_INTEGER,				/* text: as written */
	STORED_DOUBLE,				/* number */
	STORED_STRING				/* text */
} StoredExprKind;

struct StoredExpr
{
	StoredExprKind kind;
	SyncString	text;
	double		number;
	StoredRelation *relation;
	bool		has_operand;	/* CASE */
	bool		has_else;		/* CASE */
	int			height;			/* levels of JSON: at most STORED_EXPR_MAX_HEIGHT */
	int			size;			/* nodes that a walk comes to: shared ones as often as they are
								 * used */
	int			arg_count;
	const StoredExpr **args;
};

/* ---------------------------------------------------------------- sources */

/* a column of a data source; expr NULL: star */
typedef struct StoredColumn
{
	const StoredExpr *expr;
	SyncString	alias;
} StoredColumn;

/* a data source, or the source of an index */
typedef struct StoredSource StoredSource;
struct StoredSource
{
	uint32_t	hash;
	StoredSource *chain;		/* while compiling: others of the plan with a like hash */
	int			position;		/* in the plan */
	const StoredRelation *table;
	int			function_count;
	const StoredRelation **functions;	/* of rows of the table, in order of use */
	int			filter_count;
	const StoredExpr **filters;
	int			key_count;
	const StoredExpr **keys;	/* partitionBy, in the order of 7.5 */
	bool		is_index;
	int			column_count;
	const StoredColumn *columns;	/* data source */
	int			output_count;
	const StoredExpr **outputs; /* index */
};

typedef struct StoredBucket StoredBucket;
struct StoredBucket
{
	uint32_t	hash;
	StoredBucket *chain;		/* as that of a source */
	int			position;		/* in the plan */
	SyncString	name;
	int			source_count;
	StoredSource **sources;
};

/* ---------------------------------------------------------------- the query side */

typedef struct StoredLookup StoredLookup;
typedef struct StoredValue StoredValue;

typedef enum StoredValueKind
{
	VALUE_OF_REQUEST,
	VALUE_OF_LOOKUP,
	VALUE_INTERSECTION
} StoredValueKind;

/* how a partition key gets its value */
struct StoredValue
{
	StoredValueKind kind;
	const StoredExpr *expr;		/* REQUEST */
	StoredLookup *lookup;		/* LOOKUP */
	int			output;			/* LOOKUP: which of its outputs */
	int			value_count;	/* INTERSECTION: two or more, none of them one */
	StoredValue **values;
};

/* rows of an index, or of a function of the request */
struct StoredLookup
{
	StoredSource *index;		/* NULL: a function */
	int			value_count;	/* for the index's keys, in their order */
	StoredValue **values;
	const StoredRelation *function;
	int			output_count;	/* of the function */
	const StoredExpr **outputs;
	int			filter_count;	/* of the function */
	const StoredExpr **filters;
	int			stage;			/* as late as what needs it allows */
	bool		seen;			/* by a walk of compile_stream.c */
	int			id_in_stage;
	int			number;			/* while compiling: in the order in which they were first needed */
};

typedef struct StoredQuerier
{
	int			filter_count;
	const StoredExpr **filters; /* of the request */
	int			lookup_count;
	StoredLookup **lookups;		/* those of one stage in the order of their ids */
	int			value_count;	/* for the keys of the bucket's sources */
	StoredValue **values;
	StoredBucket *bucket;
} StoredQuerier;

typedef struct StoredStream
{
	SyncString	name;
	int			priority;
	bool		auto_subscribe;
	int			querier_count;
	StoredQuerier *queriers;
} StoredStream;

typedef struct StoredPlan
{
	int			source_count;
	StoredSource **sources;
	int			bucket_count;
	StoredBucket **buckets;
	int			index_count;
	StoredSource **indexes;
	int			stream_count;
	StoredStream *streams;
	bool		uses_metadata;	/* makes it version 2 */
} StoredPlan;

/* ---- stored_hash.c: 7.5, 7.6 */

/* of an expression as a partition key */
extern uint32_t stored_key_hash(const StoredExpr *key);
extern uint32_t stored_source_hash(const StoredSource *source);
extern uint32_t stored_bucket_hash(const StoredBucket *bucket);

/* ---- stored_equal.c */

/*
 * The same value of the same rows.  Two calls of json_each() for one table's rows
 * with one argument count as the same here, as they do in a plan (7.6), although
 * each has rows of its own.
 */
extern bool stored_key_equal(const StoredExpr *a, const StoredExpr *b);

/* the number of a function in a source; -1: it is not called there */
extern int	stored_function_position(const StoredSource *source, const StoredRelation *function);

/* the same in the plan; hashes must be set */
extern bool stored_source_equal(const StoredSource *a, const StoredSource *b);
extern bool stored_bucket_equal(const StoredBucket *a, const StoredBucket *b);

/* queriers ask for the same: filters, lookups and values; indexes must be the plan's */
extern bool stored_querier_equal(const StoredQuerier *a, const StoredQuerier *b);

/* ---- stored_plan.c */

/*
 * The wrapper of 7.1; messages: what is stored as its errors.  No data if it is
 * longer than STORED_PLAN_MAX_BYTES.
 */
extern SyncString stored_plan_json(const StoredPlan *plan, const SyncConfig *config,
								   const RulesMessage *messages, SyncArena *arena,
								   SyncArena *scratch);

#endif							/* PGSYNC_STORED_PLAN_H */
