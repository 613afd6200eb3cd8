/*-------------------------------------------------------------------------
 *
 * plan.h
 *	  The compiled form of a sync config, whatever front end made it.
 *
 * A PlanSource reads one table (and expands JSON arrays in it) into rows with
 * key values; a PlanBucket names the buckets that sources' rows go to; a
 * PlanIndex is a source whose output are parameter rows.  Legacy data and
 * parameter queries, the variants and subqueries of alpha streams and the
 * data sources and indexes of a stored edition-3 plan (sync-rules.md, 3, 4
 * and 7.2) are all written down in these structures.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGSYNC_PLAN_H
#define PGSYNC_PLAN_H

#include "core.h"
#include "expr.h"
#include "rules.h"

/*
 * What a WHERE yields for a row: a list of sets of key values (sync-rules.md,
 * 3.3); an empty list is false, one empty set is true.
 */
typedef enum MatchKind
{
	MATCH_CONDITION,			/* one empty set if expr is true */
	MATCH_EQUAL,				/* {key: expr}; nothing if it is NULL or a blob */
	MATCH_VALUE,				/* {key: expr}; nothing if it is a blob */
	MATCH_ELEMENTS,				/* {key: e} for each raw element of the JSON array expr */
	MATCH_OVERLAP,				/* the same, but NULL is an error, and a blob has no elements */
	MATCH_MEMBERS,				/* {key: e} for each element as a value (6.2) of that array */
	MATCH_AND,					/* combinations of the children's sets, left to right */
	MATCH_OR					/* the children's sets, one after the other */
} MatchKind;

typedef struct PlanMatch PlanMatch;
struct PlanMatch
{
	MatchKind	kind;
	int			key;			/* which of the source's keys */
	const Expr *expr;
	int			child_count;
	PlanMatch **children;
};

/* an item of SELECT */
typedef struct PlanItem
{
	const Expr *expr;			/* NULL: star */
	SyncString	name;
} PlanItem;

/* where editions differ in how a source is run */
typedef enum SourceRules
{
	SOURCE_LEGACY,				/* 3.2: * leaves out _columns and fills in; all terms of the
								 * WHERE are evaluated */
	SOURCE_ALPHA,				/* 4: items as in legacy; conditions, then keys, up to the first
								 * that has nothing for the row; keys are normalized (9.3), and
								 * elements that are NULL only count in MATCH_MEMBERS; only the
								 * items know a table that is not named in full */
	SOURCE_COMPILED				/* 7.3: * is all columns and overwrites; the first false
								 * filter ends it */
} SourceRules;

/* what is read from which table */
typedef struct PlanSource
{
	SourceRules rules;
	TablePattern table;
	int			expansion_count;	/* json_each() of these, combined (7.3) */
	const Expr **expansions;
	const PlanMatch *match;		/* NULL: always true */
	int			key_count;
	bool		suffix_column;	/* with a table wildcard there is a column _table_suffix */
	SyncString	output_table;	/* len 0: the actual table's name */
	int			item_count;
	PlanItem   *items;
} PlanSource;

/* buckets whose names share a stem: sync-rules.md, 9.1 */
typedef struct PlanBucket
{
	SyncString	stem;
	int			source_count;
	int		   *sources;		/* indexes into the plan's sources */
} PlanBucket;

/*
 * Items are stored as rows under each set of keys.  A compiled source's rows
 * with the same keys are one entry; a row with a NULL or blob is left out.  In
 * an alpha stream a row with a blob is.
 */
typedef struct PlanIndex
{
	SyncString	lookup_name;
	SyncString	query_id;
	PlanSource	source;
} PlanIndex;

/* what stands at a noted place */
typedef enum PlanNoteKind
{
	NOTE_TABLE,
	NOTE_COLUMN,
	NOTE_CONDITION,
	NOTE_CONNECTION				/* one that is named, but does not count */
} PlanNoteKind;

/*
 * Where a name of the rules stands, for messages about it (plan_check.h).  A plan
 * that was stored has none.
 */
typedef struct PlanNote PlanNote;
struct PlanNote
{
	PlanNoteKind kind;
	uint32_t	offset;			/* in the node's text */
	const struct YamlNode *node;
	const TablePattern *table;	/* notes on one table may share it */
	SyncString	name;			/* COLUMN, CONNECTION */
	const void *about;			/* the Expr or PlanMatch that was made of it; NULL: not known */
	PlanNote   *next;			/* in the order of compilation */
};

struct SyncPlan
{
	SyncCompatibility compatibility;
	int			storage_version;
	int			source_count;
	PlanSource *sources;
	int			bucket_count;
	PlanBucket *buckets;
	int			index_count;
	PlanIndex  *indexes;
	int			table_count;	/* everything read, each pattern once */
	TablePattern *tables;
	SyncString	stored;			/* edition 3: the JSON it was made from; no data: none */
	size_t		bson_size;		/* edition 3: of that JSON as a BSON document, at most */
	PlanNote   *first_note;
	PlanNote   *last_note;
};

/*
 * Splits a wildcard: whether `name` fits the pattern; *suffix (may be NULL)
 * receives what the wildcard stands for, empty without one.
 */
extern bool pattern_fits(SyncString pattern, SyncString name, SyncString *suffix);
extern bool pattern_is_wildcard(SyncString pattern);

extern bool pattern_equal(const TablePattern *a, const TablePattern *b);

/*
 * What plan_read() does, with a text that stays as long as the plan, as part of other
 * work: no guard is set, no limit but that of the work.  What only reading needs is
 * in outline and scratch, two arenas of their own.
 */
extern SyncPlan *plan_read_text(SyncString json, const RulesOptions *options, SyncArena *arena,
								SyncArena *outline, SyncArena *scratch, SyncError *error);

#define SYNC_DEFAULT_CONNECTION "default"

#endif							/* PGSYNC_PLAN_H */
