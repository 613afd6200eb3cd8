/*-------------------------------------------------------------------------
 *
 * compile_alpha.h
 *	  What the two files that compile streams of edition 2 share: the tree of
 *	  a WHERE and the variants that it stands for.
 *
 *	  compile_alpha.c			streams: sources, buckets, indexes
 *	  compile_alpha_where.c		conditions and subqueries
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGSYNC_COMPILE_ALPHA_H
#define PGSYNC_COMPILE_ALPHA_H

#include "compile.h"

/*
 * The service bounds none of these in edition 2.  A stream's conditions are
 * held and evaluated once for each variant: what a query that is at most
 * SQL_MAX_LENGTH long can multiply to must have an end.
 */
#define ALPHA_MAX_VARIANTS	1000	/* of one stream */
#define ALPHA_MAX_EXPANDED	(2 * 1024 * 1024)	/* bytes of SQL of all streams' variants, if
												 * each were written in full */

/* sync-rules.md, 4 */
typedef enum AlphaKind
{
	ALPHA_SIMPLE,				/* clause: of the row, or of the request */
	ALPHA_MATCH,				/* match: compares the row with a parameter */
	ALPHA_IN_SUBQUERY,			/* match: compares the row with the subquery's result */
	ALPHA_EXISTS,				/* the subquery's result is compared within it */
	ALPHA_AND,
	ALPHA_OR
} AlphaKind;

typedef struct AlphaNode AlphaNode;
struct AlphaNode
{
	AlphaKind	kind;
	Clause		clause;
	MatchKind	match;
	const Expr *expr;			/* of match */
	const PlanSource *subquery;
	const AlphaNode *left;
	const AlphaNode *right;
	uint32_t	offset;			/* in the query, for messages */
	uint64_t	variants;		/* how many terms its disjunctive normal form has */
	uint64_t	expanded;		/* bytes of SQL of all their leaves */
};

/* what has to hold: a leaf, or all of two others */
typedef struct AlphaVariant AlphaVariant;
struct AlphaVariant
{
	int			leaf_count;
	const AlphaNode *leaf;		/* or */
	const AlphaVariant *first;
	const AlphaVariant *second;
};

/* the tree of a WHERE; NULL, reported, if something in it is wrong */
extern const AlphaNode *alpha_where(QueryCompiler *query, const SqlExpr *where);

/* the disjunctive normal form: node->variants terms, of which there must not be too many */
extern const AlphaVariant **alpha_variants(const AlphaNode *node, SyncArena *arena);

/* a variant's leaves in order: leaf_count of them */
extern const AlphaNode **alpha_leaves(const AlphaVariant *variant, SyncArena *arena);

/* what a row must fulfil for all of the leaves; they get keys of the source */
extern PlanMatch *alpha_match(const AlphaNode *const *leaves, int count, PlanSource *source,
							  SyncArena *arena);

#endif							/* PGSYNC_COMPILE_ALPHA_H */
