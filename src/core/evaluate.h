/*-------------------------------------------------------------------------
 *
 * evaluate.h
 *	  What the files that run a binding on a row share.
 *
 *	  evaluate.c			buckets, and the entry point
 *	  evaluate_keys.c		which keys a row has by a WHERE; JSON expansions
 *	  evaluate_index.c		parameter rows
 *
 * Functions that can fail return false with the error in the evaluation.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGSYNC_EVALUATE_H
#define PGSYNC_EVALUATE_H

#include "binding.h"

/* combinations of one query on one row: bounds what ANDs and expansions multiply to */
#define MAX_SETS	100000

/*
 * Memory for one row in all queries: hostile values (a JSON document of
 * millions of numbers, products of arrays) come to an error of the row here,
 * not to the end of the server's memory.
 */
#define ROW_MAX_BYTES	((size_t) 512 * 1024 * 1024)

/* key values of one row: set_count times key_count values */
typedef struct KeySets
{
	int			set_count;
	SyncValue  *values;			/* undefined: the set has no such key */
} KeySets;

/* one set; NULL without keys */
static inline const SyncValue *
key_set(const KeySets *keys, int set, int key_count)
{
	return key_count == 0 ? NULL : keys->values + (size_t) set * (size_t) key_count;
}

/* what a bucket row holds beside its bucket */
typedef struct RowJson
{
	SyncString	json;			/* data NULL: not made yet */
	SyncString	row_id;
	uint32_t	utf16_len;
	uint32_t	checksum;
} RowJson;

typedef struct SourceResult SourceResult;

typedef struct Evaluation
{
	const TableBinding *binding;
	ExprContext context;
	SyncError	error;
	EvaluatedRow *result;
	RowJson    *json;			/* by the sources' json_group */
	SourceResult *sources;		/* by the binding's sources; NULL at first */
	int			bucket_at;		/* the query being evaluated: a bucket, or behind the last */
	int			index_at;		/* ... an index */
	int			row_mark;		/* rows in the result before that query */
	const BoundBucket *failed_bucket;	/* the query that was given up: its error is still to be ... */
	const BoundIndex *failed_index; /* ... recorded */
	int			bucket_capacity;
	int			parameter_capacity;
	RowError  **next_error;		/* NULL: only the first error is wanted */
} Evaluation;

/* ---- evaluate.c */

extern bool field_value(Evaluation *evaluation, const BoundField *field, SyncValue *value);
extern bool checks_evaluate(Evaluation *evaluation, const BoundSource *source);

/* counts a query that failed, that of a bucket or of an index; the first error is kept */
extern void record_error(Evaluation *evaluation, const BoundBucket *bucket,
						 const BoundIndex *index);

/* ---- evaluate_keys.c */

/*
 * The sets of a legacy or alpha WHERE for this row.  Of a legacy one all terms
 * are evaluated.
 */
extern bool keys_evaluate(Evaluation *evaluation, const BoundSource *source, KeySets *keys);

/* a legacy query evaluates all its conditions, others up to the first false */
extern bool conditions_evaluate(Evaluation *evaluation, const BoundSource *source, bool *matches);

/* the one set of a source without a match tree; *counts: none of it is missing */
extern bool values_evaluate(Evaluation *evaluation, const BoundSource *source, KeySets *keys,
							bool *counts);

typedef bool (*CombinationBody) (Evaluation *evaluation, const BoundSource *source, void *arg);

/* runs body for every combination of the source's expansions; without any, once */
extern bool for_each_combination(Evaluation *evaluation, const BoundSource *source,
								 CombinationBody body, void *arg);

/* ---- evaluate_index.c */

extern void index_evaluate(Evaluation *evaluation, const BoundIndex *index);

#endif							/* PGSYNC_EVALUATE_H */
