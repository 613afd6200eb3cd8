/*-------------------------------------------------------------------------
 *
 * binding.h
 *	  What a plan does with one table of one shape: made by bind.c, run by
 *	  evaluate.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGSYNC_BINDING_H
#define PGSYNC_BINDING_H

#include "core.h"
#include "plan.h"

/*
 * A field of the output row.  Its value is expr or, without one, the column at
 * position; if that is NULL and fallback is not -1, the column at fallback.
 */
typedef struct BoundField
{
	SyncString	json_key;		/* "name": with quotes and colon */
	SyncString	name;
	const Expr *expr;
	int			position;
	int			fallback;
	int			next_same;		/* compiled sources: the next field with the same name, or -1 */
	bool		again;			/* compiled sources: an earlier one has the same name */
} BoundField;

typedef struct BoundSource
{
	SourceRules rules;
	int			expansion_count;
	const Expr **expansions;

	/*
	 * Most queries are a conjunction of conditions and equalities with one
	 * value for each key, and all of alpha streams are one of conditions and
	 * one comparison for each key.  These are run straight from the two arrays;
	 * all others (match != NULL) through lists of sets.
	 */
	const PlanMatch *match;
	int			condition_count;
	const Expr **conditions;
	int			key_count;
	const PlanMatch **keys;		/* by key: MATCH_EQUAL or MATCH_VALUE; in alpha streams also
								 * those with several values */

	int			field_count;
	BoundField *fields;			/* in output order */
	int			id_field;		/* -1: none is called id; the first if several are */
	bool		has_repeated;
	int			json_group;		/* sources of a group have the same JSON, id and checksum
								 * for all combinations of a row; -1: none to share with */
	size_t		json_key_bytes; /* of all fields, with commas and braces */
	int			check_count;
	const Expr **checks;		/* overwritten items: evaluated as they may fail */
	SyncString	output_table;
} BoundSource;

typedef struct BoundBucket
{
	int			source;
	SyncString	name;			/* without keys: all of it; else what stands before [ */
} BoundBucket;

typedef struct BoundIndex
{
	SyncString	lookup_name;
	SyncString	query_id;
	BoundSource source;
} BoundIndex;

struct TableBinding
{
	SyncRowType row_type;
	bool		fixed_json;
	int			source_count;
	BoundSource *sources;
	int			json_group_count;
	int			bucket_count;	/* one for each bucket and source of it */
	BoundBucket *buckets;
	int			index_count;
	BoundIndex *indexes;
};

#endif							/* PGSYNC_BINDING_H */
