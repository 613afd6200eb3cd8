/*-------------------------------------------------------------------------
 *
 * change.h
 *	  A row's way from its evaluation to bucket operations: the structures
 *	  that evaluation, row state and the storage writer share.
 *
 * evaluation (evaluate.c)  -> EvaluatedRow   where the row belongs now
 * storage (row state)      -> RowState       where it belonged before
 * bucket_ops.c             -> BucketOp list  PUT / REMOVE / parameter entries
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGSYNC_CHANGE_H
#define PGSYNC_CHANGE_H

#include "core.h"

/* one data row in one bucket */
typedef struct BucketRow
{
	SyncString	bucket;			/* full name with prefix: 17#by_user["u1"] */
	SyncString	table;			/* output table */
	SyncString	row_id;
	SyncString	json;			/* storage-contract.md, 3.2 */
	uint32_t	json_utf16_len; /* length in UTF-16 units, for the size limit */
	uint32_t	checksum;		/* of the PUT: storage-contract.md, 3.3 */
} BucketRow;

/* one parameter entry */
typedef struct ParameterRow
{
	SyncString	lookup;			/* BSON bytes of {l: [...]} */
	SyncString	rows;			/* BSON bytes of the array of documents; an array is a
								 * document with keys "0".."n" */
} ParameterRow;

/*
 * What the rules make of one row.  A query that failed on the row contributes
 * nothing; errors counts them and error holds the first.
 */
typedef struct EvaluatedRow
{
	int			bucket_row_count;
	BucketRow  *bucket_rows;
	int			parameter_row_count;
	ParameterRow *parameter_rows;
	int			error_count;
	const SyncError *error;		/* NULL when error_count is 0 */
} EvaluatedRow;

/* ---- what is remembered of a row between its changes */

typedef struct BucketRef
{
	SyncString	bucket;
	SyncString	table;
	SyncString	row_id;
} BucketRef;

typedef struct RowState
{
	int			bucket_count;
	BucketRef  *buckets;
	int			lookup_count;
	SyncString *lookups;		/* BSON bytes */
	SyncString	row_copy;		/* BSON of the full row, or empty: kept only for rows
								 * with an out-of-line value */
	bool		partial;		/* not all of it has been written: a row in parts */
	int64_t		round;			/* of the copy under the stream that found it; 0: none */
} RowState;

#define SYNC_KEY_LEN	16		/* a row's source key: UUID, RFC 4122 byte order */
#define SYNC_TABLE_LEN	12		/* a source table's id: ObjectId */

typedef struct SourceKey
{
	uint8_t		bytes[SYNC_KEY_LEN];
} SourceKey;

typedef struct SourceTableId
{
	uint8_t		bytes[SYNC_TABLE_LEN];
} SourceTableId;

typedef enum BucketOpKind
{
	BUCKET_OP_PUT,
	BUCKET_OP_REMOVE,
	BUCKET_OP_PARAMETERS		/* rows empty: the lookup's entry of this row ends */
} BucketOpKind;

/*
 * One operation to be written.  Strings point into the change or the row
 * state it was made from.  The op id is given when the flush transaction has
 * taken the sequence, in list order.
 */
typedef struct BucketOp
{
	BucketOpKind kind;
	SourceTableId source_table;
	SourceKey	source_key;
	uint32_t	checksum;		/* PUT, REMOVE */
	SyncString	bucket;			/* PUT, REMOVE */
	SyncString	table;			/* PUT, REMOVE */
	SyncString	row_id;			/* PUT, REMOVE */
	SyncString	json;			/* PUT */
	SyncString	lookup;			/* PARAMETERS */
	SyncString	rows;			/* PARAMETERS; empty array document: removal */
} BucketOp;

typedef struct BucketOpList
{
	SyncArena  *arena;
	BucketOp   *ops;
	size_t		count;
	size_t		capacity;
	size_t		bytes;			/* estimate, storage-contract.md 3.5 */
} BucketOpList;

extern void bucket_op_list_init(BucketOpList *list, SyncArena *arena);

/*
 * Appends what moves a row from its old state to what evaluation says now
 * (storage-contract.md, 4.2 step 5): every evaluated row a PUT, every entry of
 * old that evaluation did not give again a REMOVE; the same for lookups.
 * old may be NULL (nothing known), row NULL (the row is gone).
 * Returns the new state, allocated in list->arena, without row_copy.
 */
extern RowState *bucket_ops_move(BucketOpList *list, const SourceTableId *table,
								 const SourceKey *key, const RowState *old,
								 const EvaluatedRow *row);

/*
 * While a row is written in parts: everything that it was in and will be in, each
 * once, marked as partial; without a row copy, of the round of a, the old state.
 * Either may be NULL.
 */
extern RowState *row_state_unite(const RowState *a, const RowState *b, SyncArena *arena);

/* ---- identity (storage-contract.md, 3.3 and 3.4) */

/* source key of a row by its identity columns */
extern void source_key_of_row(const SyncRowType *type, const SyncValue *values,
							  SyncArena *scratch, SourceKey *key);

/* "<24 hex>/<uuid>" */
#define SYNC_SUBKEY_LEN	(24 + 1 + 36)
extern void subkey_format(const SourceTableId *table, const SourceKey *key,
						  char subkey[SYNC_SUBKEY_LEN + 1]);
extern uint32_t checksum_put(SyncString table, SyncString row_id, SyncString json);
extern uint32_t checksum_remove(const SourceTableId *table, const SourceKey *key);

/* sum of op checksums as readers compute it: mod 2^32, signed */
extern int32_t checksum_sum(int32_t sum, int64_t checksum);

/* ---- the row copy: BSON of a whole row (storage-contract.md, 4.3) */

extern SyncString row_copy_encode(const SyncRowType *type, const SyncValue *values,
								  SyncArena *arena);

/*
 * Gives every undefined column of values[] the value stored under its name.
 * Returns whether none is undefined afterwards.  False also when the bytes are
 * not a valid row copy.
 */
extern bool row_copy_merge(SyncString copy, const SyncRowType *type, SyncValue *values,
						   SyncArena *arena);

#endif							/* PGSYNC_CHANGE_H */
