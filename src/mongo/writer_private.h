/*-------------------------------------------------------------------------
 *
 * writer_private.h
 *	  What the files of the writer share.
 *
 *		writer.c	queue, progress, one step: what is done next
 *		batch.c		batches and source tables
 *		group.c		which items make a flush: scan, and what is not a row
 *		row_lookup.c	stored row state of the rows in it
 *		row_apply.c	what a changed row does
 *		row_map.c	row state within a flush
 *		rejected.c	which rows could not be stored
 *		removal.c		a table's rows are removed, or those a copy did not find
 *		flush.c		the transaction
 *		checkpoint.c	positions, write checkpoints, activation
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGSYNC_WRITER_PRIVATE_H
#define PGSYNC_WRITER_PRIVATE_H

#include "mongo/documents.h"
#include "mongo/mongo_private.h"
#include "mongo/row_state.h"
#include "mongo/turn.h"

/* contract 3.5 */
#define FLUSH_DOCUMENTS		2000
#define FLUSH_BYTES			30000000
/* stored row state read for one flush; more waits for the next */
#define LOOKUP_BYTES		16000000
#define LOOKUP_KEYS			2000
/* a flush's arena: row state, operations; and that of rows evaluated here */
#define FLUSH_ARENA_BYTES	((size_t) 512 * 1024 * 1024)
#define ROWS_ARENA_BYTES	((size_t) 256 * 1024 * 1024)

/* ---------------------------------------------------------------- batches */

typedef struct BatchNode
{
	WriteBatch	batch;			/* first: what the main thread sees */
	size_t		bytes;			/* of its arena when submitted */
	uint64_t	answered;		/* re-read requests answered before it was submitted */
	struct BatchNode *next;
} BatchNode;

/* ---------------------------------------------------------------- row state in a flush */

typedef struct RowEntry
{
	RowId		id;
	bool		wanted_copy;	/* an incomplete change needs the stored row */
	bool		loaded;			/* the storage was asked */
	bool		existed;
	bool		partial;		/* ... but was written in part only */
	RowState   *stored;			/* NULL: none, or only its existence was asked for */
	int			latest;			/* last touch, -1: none */
} RowEntry;

/* a new state of a row; NULL: gone */
typedef struct RowTouch
{
	RowEntry   *entry;
	RowState   *state;
	int			previous;		/* touch of the same row before this one, -1: none */
} RowTouch;

typedef struct RowMap
{
	SyncArena  *arena;
	RowEntry  **entries;		/* in the order they were added */
	size_t		count;
	size_t		capacity;
	uint32_t   *slots;			/* position + 1 */
	size_t		slot_mask;
	RowTouch   *touches;
	size_t		touch_count;
	size_t		touch_capacity;
} RowMap;

/* All of them need the arena's guard. */
extern void row_map_init(RowMap *map, SyncArena *arena);
extern RowEntry *row_map_add(RowMap *map, const RowId *id);
extern RowEntry *row_map_find(const RowMap *map, const RowId *id);
/* the state as of now; *exists tells also where only existence is known */
extern RowState *row_map_state(const RowMap *map, const RowEntry *entry, bool *exists);
extern void row_map_touch(RowMap *map, RowEntry *entry, RowState *state);
/* forgets all touches from that number on */
extern void row_map_undo(RowMap *map, size_t touch_count);

/* ---------------------------------------------------------------- flush */

typedef enum TableActionKind
{
	TABLE_STORE,				/* both documents of table_doc */
	TABLE_STORE_LAST,			/* the same, but with the last part of a row in parts */
	TABLE_REMOVE
} TableActionKind;

typedef struct TableAction
{
	TableActionKind kind;
	const SourceTableDoc *doc;	/* TABLE_STORE, TABLE_STORE_LAST */
	SourceTableId id;
} TableAction;

typedef struct WantedReread
{
	SourceTable *table;
	SyncString	key;
} WantedReread;

/* a row that is not stored as it is; or, without a reason, one that is, or is gone */
typedef struct RowVerdict
{
	RowId		id;
	const char *reason;
	const SourceTable *table;
	const char *name;			/* NULL: not known */
	uint64_t	lsn;
	int64_t		round;
} RowVerdict;

/* one that is stored in pgsync_rejected_rows, or will be with the flush */
typedef struct RejectedRow
{
	RowId		id;
	int64_t		number;			/* grows: the lowest is the oldest */
	int64_t		round;
	int			verdict;		/* of the flush; -1: stored before it */
} RejectedRow;

#define REJECTED_ROWS_MAX	1000

typedef struct RejectedRows
{
	bool		loaded;
	size_t		count;
	int64_t		last_number;
	RejectedRow rows[REJECTED_ROWS_MAX];	/* by id */
} RejectedRows;

typedef struct FlushCounts
{
	int64_t		transactions;
	int64_t		rows;
	int64_t		rejected_rows;
	int64_t		evaluation_errors;
	int64_t		chunks;
} FlushCounts;

/*
 * How far a flush goes.  Copied at each commit, so that a flush can be cut there.
 */
typedef struct FlushPoint
{
	BatchNode  *node;			/* where the next item is */
	WriteItem  *item;			/* NULL: the next batch's first */
	size_t		op_count;
	size_t		op_bytes;
	size_t		touch_count;
	size_t		action_count;
	size_t		reread_count;
	size_t		verdict_count;
	uint64_t	keyless;		/* rejected rows without a key, in this transaction or chunk */
	FlushCounts counts;
	uint64_t	open_transaction;	/* end LSN of the source transaction we are in; or NONE */
	uint64_t	chunk;			/* fence of the chunk we are in; or NONE */
	uint64_t	transaction_fence;	/* what must not be published before ... */
	uint64_t	chunk_fence;	/* ... these positions */
	bool		commit;			/* the point is a commit or keepalive at: */
	bool		incomplete;		/* ... at which a table's copy is due */
	uint64_t	commit_lsn;
	int64_t		source_time_us;
	uint64_t	answered;		/* of the commit's batch */
	const SourceTableDoc *copied;	/* last chunk's table */
} FlushPoint;

typedef enum ApplyResult
{
	APPLY_DONE,
	APPLY_STOP					/* the item must wait for the next flush */
} ApplyResult;

typedef struct Flush
{
	Writer	   *writer;
	SyncArena  *arena;
	FlushPoint	point;
	FlushPoint	last_commit;	/* commit false: none yet */
	BucketOpList ops;
	RowMap		rows;
	size_t		lookup_count;	/* entries of rows to look up */
	bool		lookup_cut;		/* not all were looked up: too many bytes */
	TableAction *actions;
	size_t		action_capacity;
	WantedReread *rereads;
	size_t		reread_capacity;
	bool		single_row;		/* one row with more ops than a flush takes */
	size_t		removed_to;		/* of what was read ahead for a removal */
	RowVerdict *verdicts;
	size_t		verdict_capacity;
	const char *row_name;		/* of the row being applied; NULL: not known */
	const char *rejected;		/* ... why it is not stored as it is; NULL: it is */
	char		row_error[384];

	/* what the transaction writes: ops[first_op .. first_op + op_count) */
	size_t		first_op;
	size_t		op_count;
	bool		first_part;		/* of a row in parts, or the only one */
	bool		keep_old_state; /* not the last part: row state gets the union of old and new */
	RejectedRow *rejected_rows; /* as they will be stored; NULL: as before */
	size_t		rejected_count;
	int64_t		rejected_number;
	/* its result */
	StreamPosition next;
	bool		checkpoint;
	bool		mismatch;		/* the stream document is not as we left it */
	int			written;		/* updates of the stream document: each extends the lock */
	int64_t		last_op;
	int64_t		began;			/* its last try, by monotonic_us() */
} Flush;

static inline uint64_t
later_lsn(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Room for one more of count items, doubled if need be; guard must be set. */
static inline void *
room_for_one(SyncArena *arena, void *items, size_t size, size_t count, size_t *capacity,
			 size_t first)
{
	void	   *moved;

	if (count < *capacity)
		return items;
	*capacity = *capacity ? *capacity * 2 : first;
	moved = arena_alloc_array(arena, size, *capacity);
	if (count > 0)
		memcpy(moved, items, count * size);
	return moved;
}

/* ---------------------------------------------------------------- writer */

/* counts answers; lives as long as the writer or any request */
typedef struct RereadLedger
{
	atomic_int	references;
	_Atomic uint64_t answered;	/* highest number of a request that was answered */
} RereadLedger;

/* a position must not be stored while an answer from before it is missing */
typedef struct RereadHold
{
	uint64_t	number;			/* of the last request that it stands for */
	uint64_t	lsn;			/* the last position that may be stored */
	struct RereadHold *next;
} RereadHold;

/* how far the removal that is going on has come, and what was read ahead for it */
typedef struct Removal
{
	bool		begun;			/* rows up to last, by row id, are removed */
	RowId		last;
	uint8_t    *bytes;			/* row state documents, one after the other */
	size_t		len;
	size_t		capacity;
	size_t		at;				/* where the next flush goes on */
	bool		exhausted;		/* no row follows them */
	uint64_t	slice;			/* of a sweep: where the next one begins ... */
	uint64_t	width;			/* ... and how wide it is; 0: not begun */
} Removal;

struct Writer
{
	MongoThread *thread;
	const StorageFormat *format;
	int32_t		stream_id;
	WriterOptions options;
	char		rows_collection[COLLECTION_NAME_SIZE];
	RereadLedger *ledger;

	/* under thread->mutex */
	BatchNode  *submitted;
	BatchNode **submitted_tail;
	size_t		queued_bytes;
	bool		pending;		/* the thread has batches that are not stored */
	WriterProgress progress;
	RereadRequest *rereads;
	RereadRequest **rereads_tail;
	size_t		reread_bytes;	/* of rereads */

	/* the thread's own */
	BatchNode  *first;
	BatchNode  *last;
	WriteItem  *item;			/* next one of first; NULL: its end */
	StreamPosition position;
	int64_t		sequence;		/* op_id_sequence.main was at least this */
	uint64_t	open_transaction;
	uint64_t	chunk;
	Removal		removal;
	RejectedRows rejected;
	uint64_t	keyless;
	int			document_limit; /* adapts to the server's speed */
	SyncArena  *arena;			/* of the flush; reset after each */
	SyncArena  *rows_arena;		/* of the incomplete rows in it */
	RereadHold *holds;
	RereadHold *last_hold;
	uint64_t	reread_number;
};

/* group.c */
extern void flush_init(Flush *flush, Writer *writer);
extern bool flush_collect(Flush *flush, MongoContext *context, StorageError *error);
extern void set_out_of_memory(StorageError *error);
/* guard must be set */
extern void flush_make_ready(Flush *flush);
extern void flush_add_action(Flush *flush, TableActionKind kind, const SourceTableDoc *doc,
							 const SourceTableId *id);
/* after a row: its sizes belong to the point, and what it is part of must end first */
extern void flush_save_sizes(Flush *flush);
extern void flush_raise_fences(FlushPoint *point);
extern void flush_restore(Flush *flush, const FlushPoint *point);

/* row_lookup.c */
extern bool look_up_states(Flush *flush, MongoContext *context, bool ids_only,
						   StorageError *error);
extern bool look_up_first_row(Flush *flush, MongoContext *context, StorageError *error);

/* row_apply.c: guard must be set */
extern ApplyResult apply_change(Flush *flush, const RowChange *row);
extern void remove_row(Flush *flush, const SourceTableId *table, const SourceKey *key);

/* removal.c */
extern bool flush_collect_removal(Flush *flush, MongoContext *context,
								  const SourceTableId *table, int64_t kept_round,
								  bool *complete, StorageError *error);
extern void removal_advance(Writer *writer, const Flush *flush, bool complete);
extern void removal_free(Writer *writer);

/* rejected.c; guard must be set for those that return nothing */
extern bool rejected_load(MongoContext *context, Writer *writer, StorageError *error);
extern void rejected_add(Flush *flush, const RowChange *row, const char *reason);
extern void rejected_clear(Flush *flush, const RowId *id);
extern void rejected_clear_table(Flush *flush, const SourceTableId *table, int64_t kept_round);
extern bool rejected_prepare(Flush *flush);
extern bool rejected_write(MongoContext *context, Flush *flush, StorageError *error);
extern void rejected_advance(const Flush *flush);

/* flush.c: writes it, in as many transactions as it takes; durable on return */
extern bool flush_write(Flush *flush, MongoContext *context, StorageError *error);
/* brings the stream document from the writer's position to next, by itself or in a transaction */
extern bool write_position(MongoContext *context, Writer *writer, const StreamPosition *next,
						   bool checkpoint, bool *mismatch, StorageError *error);
/* after a write that did not match: says why */
extern void set_mismatch_error(MongoContext *context, Writer *writer, StorageError *error);

/* checkpoint.c */
extern void flush_next_position(Flush *flush, int64_t last_op);
extern bool commit_may_checkpoint(const Flush *flush);
extern bool adopt_op_head(MongoContext *context, Writer *writer, StorageError *error);
extern bool mark_write_checkpoints(MongoContext *context, Writer *writer, uint64_t lsn,
								   StorageError *error);
extern bool try_activate(MongoContext *context, Writer *writer, StorageError *error);
extern bool store_position(MongoContext *context, Writer *writer, uint64_t lsn,
						   StorageError *error);
extern bool store_snapshot_done(MongoContext *context, Writer *writer, uint64_t fence,
								StorageError *error);
/* a transaction in our turn at the storage */
extern bool writer_run_in_turn(MongoContext *context, Writer *writer, TransactionBody body,
							   void *arg, int64_t *conflicts, StorageError *error);

#endif							/* PGSYNC_WRITER_PRIVATE_H */
