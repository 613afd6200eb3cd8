/*-------------------------------------------------------------------------
 *
 * rules.h
 *	  From a sync config to what a row means: read, compile, bind, evaluate.
 *
 *		config text --rules_compile()--> SyncPlan      once per deployed config
 *		SyncPlan    --plan_bind()------> TableBinding  once per table shape
 *		row values  --table_evaluate()-> EvaluatedRow  once per row
 *
 * A plan and a binding are immutable once made and may be shared by threads.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGSYNC_RULES_H
#define PGSYNC_RULES_H

#include "core.h"
#include "change.h"

typedef enum RulesLevel
{
	RULES_WARNING,
	RULES_FATAL
} RulesLevel;

typedef struct RulesMessage
{
	RulesLevel	level;
	SyncError	error;
	struct RulesMessage *next;	/* in reporting order */
} RulesMessage;

/* sync-rules.md, 1.1; editions' defaults are applied */
typedef struct SyncCompatibility
{
	int			edition;
	bool		timestamps_iso8601;
	bool		versioned_bucket_ids;
	bool		fixed_json_extract;
	bool		custom_postgres_types;
	int			timestamp_precision;	/* fraction digits: 0, 3, 6 or 9; -1 = unset */
} SyncCompatibility;

/* a table as the rules name it: sync-rules.md, 3.1 */
typedef struct TablePattern
{
	SyncString	connection;		/* tag; "default" unless the rules say otherwise */
	SyncString	schema;			/* a trailing % is a wildcard */
	SyncString	table;			/* a trailing % is a wildcard */
} TablePattern;

typedef struct SyncPlan SyncPlan;

typedef struct RulesOptions
{
	const char *default_schema; /* "public" */

	/* asked now and then whether to stop, with SYNC_ERROR_CANCELLED; NULL: never */
	bool		(*cancel) (void);

	/*
	 * Receives, when rules_compile() returns NULL, what plan_check() can compare all
	 * the same: a plan of names alone, which cannot be bound.  NULL when the rules
	 * could not be read, or took too much memory.  May be NULL.
	 */
	const SyncPlan **names;
} RulesOptions;

/*
 * Memory for compiling a config, for reading a stored plan, and for binding
 * one table: what takes more is refused with SYNC_ERROR_LIMIT.  Each is far
 * from what rules that somebody wrote take.  With what libraries take beside
 * the arena, compiling stays within 64 MB.
 */
#define RULES_MAX_MEMORY	((size_t) 56 * 1024 * 1024)
#define PLAN_MAX_MEMORY		((size_t) 768 * 1024 * 1024)
#define BINDING_MAX_MEMORY	((size_t) 256 * 1024 * 1024)

/*
 * Compiles a sync config.  The plan lives in arena.  *messages receives all
 * errors and warnings (also when a plan is returned: warnings).  NULL when
 * there is a fatal one; then *messages has at least one fatal entry, also when
 * memory ran out.
 */
extern const SyncPlan *rules_compile(const char *yaml, size_t len, const RulesOptions *options,
									 SyncArena *arena, const RulesMessage **messages);

/*
 * Reads the plan that the service stores with a config of edition 3, as JSON
 * text: the whole wrapper with "plan" and "compatibility" (sync-rules.md, 7.1).
 * NULL and *error when it is not one, or holds what is not known here (a newer
 * version: SYNC_ERROR_UNSUPPORTED).  Everything is copied into arena.
 */
#define PLAN_MAX_BYTES	(15 * 1024 * 1024)
extern const SyncPlan *plan_read(const char *json, size_t len, const RulesOptions *options,
								 SyncArena *arena, SyncError *error);

/*
 * The wrapper as plan_read() takes it, for a plan that rules_compile() made of a
 * config of edition 3: what the service wants stored with the config.  NULL for
 * other plans.  Lives as long as the plan; len bytes, no NUL.
 */
extern const char *plan_stored_json(const SyncPlan *plan, size_t *len);

extern const SyncCompatibility *plan_compatibility(const SyncPlan *plan);

/* storage version named in the config, 0 if none: sync-rules.md, 1.1 */
extern int	plan_storage_version(const SyncPlan *plan);

/* all tables the rules read, each once */
extern int	plan_table_count(const SyncPlan *plan);
extern const TablePattern *plan_table(const SyncPlan *plan, int i);
extern bool table_pattern_matches(const TablePattern *pattern, const char *schema,
								  const char *table);
/* whether any of them fits */
extern bool plan_reads_table(const SyncPlan *plan, const char *schema, const char *table);

/*
 * The prefix of every bucket name and the names' owner: "<stream id>#" for
 * storage 2 (sync-rules.md, 9.1).
 */
typedef struct BucketNaming
{
	SyncString	prefix;
} BucketNaming;

typedef struct TableBinding TableBinding;

/*
 * Resolves what the plan does with one table of one shape: which queries read
 * it, and every column to its position.  NULL (and *error OK) when no query
 * reads it.  Everything is copied into arena: row_type may go away.
 */
extern const TableBinding *plan_bind(const SyncPlan *plan, const char *schema, const char *table,
									 const SyncRowType *row_type, const BucketNaming *naming,
									 SyncArena *arena, SyncError *error);

extern const SyncRowType *binding_row_type(const TableBinding *binding);

/*
 * Evaluates one complete row: values[] by position in the row type.  All that
 * *result points to is in arena or in the binding, never in values: the caller
 * may free the row's values at once.  A query that fails counts as an
 * error in *result (sync-rules.md, 8.3).  Returns SYNC_OK or
 * SYNC_ERROR_OUT_OF_MEMORY.
 */
extern SyncErrorCode table_evaluate(const TableBinding *binding, const SyncValue *values,
									SyncArena *arena, EvaluatedRow *result);

/* a query that failed on a row */
typedef struct RowError
{
	SyncString	bucket;			/* what its buckets' names begin with; len 0: it is an index */
	SyncString	lookup_name;	/* INDEX */
	SyncString	query_id;
	SyncError	error;
	struct RowError *next;
} RowError;

/* The same, for people: *errors receives all of them. */
extern SyncErrorCode table_evaluate_verbose(const TableBinding *binding, const SyncValue *values,
											SyncArena *arena, EvaluatedRow *result,
											RowError **errors);

#endif							/* PGSYNC_RULES_H */
