/*-------------------------------------------------------------------------
 *
 * printed.h
 *	  Values that PostgreSQL has printed: arrays, composites, ranges and what
 *	  is in them, as the rules see them (sync-rules.md, section 10).
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGSYNC_PRINTED_H
#define PGSYNC_PRINTED_H

#include "core.h"

typedef enum PrintedKind
{
	PRINTED_TEXT,				/* as it is */
	PRINTED_BOOL,
	PRINTED_INTEGER,
	PRINTED_REAL,
	PRINTED_BYTEA,
	PRINTED_JSON,				/* stands in other JSON as it is */
	PRINTED_DATE,
	PRINTED_TIME,
	PRINTED_TIMESTAMP,
	PRINTED_TIMESTAMPTZ,		/* printed in UTC */
	PRINTED_LSN,
	PRINTED_ARRAY,
	PRINTED_COMPOSITE,
	PRINTED_RANGE,
	PRINTED_MULTIRANGE
} PrintedKind;

/* how the text of a type is read; domains are what is under them */
typedef struct PrintedType PrintedType;
struct PrintedType
{
	PrintedKind kind;
	char		delimiter;		/* PRINTED_ARRAY */
	const PrintedType *element; /* arrays, ranges and multiranges */
	int			member_count;	/* composites: the keys of its fields, in order */
	const SyncString *names;
	const PrintedType *const *members;
	const int  *order;			/* members as their keys are written (6.2); NULL: as they are */
};

typedef struct PrintedOptions
{
	bool		iso8601;
	int			fraction_digits;	/* with iso8601: 0, 3 or 6 */
	size_t		limit;			/* bytes of JSON; 0: none */
} PrintedOptions;

/* arrays and objects in one another; what is deeper is an error (10.2) */
#define PRINTED_MAX_DEPTH	10

/*
 * The value of a printed text.  A text that does not fit its type stays as it is:
 * that is no error.  False with SYNC_ERROR_LIMIT: too deep, or larger than the
 * limit.  The value may share the bytes of text; all else is in arena.
 */
extern bool printed_value(const PrintedType *type, const PrintedOptions *options,
						  SyncString text, SyncArena *arena, SyncValue *value,
						  SyncError *error);

/* order[] with room for all members: false if they stay as they are */
extern bool printed_order_members(const PrintedType *type, int *order);

#endif							/* PGSYNC_PRINTED_H */
