/*-------------------------------------------------------------------------
 *
 * writer.h
 *	  From decoded changes to flush transactions and checkpoints.
 *
 * The main thread fills a WriteBatch with items in source order and submits
 * it; the thread groups items into flushes (one MongoDB transaction each, at most
 * 2,000 documents, 30 MB), reads row state, makes the operations, writes them,
 * and sets the checkpoint in the last flush of a group of whole source
 * transactions (design 5).  Batch borders mean nothing: a source transaction may
 * span many batches, a batch may hold many transactions.
 *
 * Invariants: ops are written in source order; a checkpoint is set only at a
 * WRITE_COMMIT or WRITE_KEEPALIVE; a flush that sets none raises
 * no_checkpoint_before to the end of every source transaction it holds a part of;
 * nothing is written without our lock.  After any error whose outcome is not
 * known the writer stops for good and reports it: the caller starts again from
 * the stored LSN with a new thread.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGSYNC_WRITER_H
#define PGSYNC_WRITER_H

#include "core/rules.h"
#include "mongo/mongo.h"

/*
 * A source table as the stream uses it now: one per (source table, shape).
 * Shared by both threads; freed with the last reference.
 */
typedef struct SourceTable
{
	atomic_int	references;
	SyncArena  *arena;			/* holds this struct, names and binding */
	SourceTableId id;
	uint32_t	relation_id;
	const char *schema;
	const char *name;
	const TableBinding *binding;
	bool		keep_row_copy;	/* changes may leave unchanged out-of-line values out */
} SourceTable;

/*
 * Takes arena over, which holds binding.  NULL: out of memory, arena is freed.
 * The id is the caller's to set before first use.  One reference, the caller's.
 */
extern SourceTable *source_table_create(SyncArena *arena, const char *schema, const char *name,
										uint32_t relation_id, const TableBinding *binding,
										bool keep_row_copy);
extern SourceTable *source_table_retain(SourceTable *table);
extern void source_table_release(SourceTable *table);
extern SourceTableId source_table_id_new(void);	/* a fresh ObjectId; any thread */

/* A deep copy in arena, which has a guard set. */
extern SourceTableDoc *source_table_doc_copy(const SourceTableDoc *doc, SyncArena *arena);

typedef enum WriteItemKind
{
	WRITE_BEGIN,				/* lsn: end LSN of the source transaction that begins */
	WRITE_ROW,
	WRITE_TRUNCATE,				/* table */
	WRITE_TABLE,				/* table_doc: a source table is new; its rows follow */
	WRITE_TABLE_DROP,			/* table_id: remove all its rows, then its document */
	WRITE_TABLE_SWEEP,			/* table_doc: remove its rows that are not of its copy_round, then
								 * store it; lsn: nothing is published before it, or 0 */
	WRITE_COMMIT,				/* lsn: end LSN */
	WRITE_KEEPALIVE,			/* lsn: nothing before it is missing */
	WRITE_POSITION,				/* lsn: store as snapshot_lsn (before the first chunk) */
	WRITE_CHUNK_BEGIN,			/* lsn: the chunk's fence; copy rows follow */
	WRITE_CHUNK_END,			/* table_doc: progress, stored with the chunk's last rows */
	WRITE_SNAPSHOT_DONE			/* lsn: fence of the whole copy */
} WriteItemKind;

typedef enum RowChangeKind
{
	ROW_INSERT,
	ROW_UPDATE,
	ROW_DELETE,					/* also of a row whose new version has no key: row holds the error */
	ROW_COPY,					/* initial copy: skipped when the row's state exists */
	ROW_RECOPY,					/* copy under the stream: replaces what is stored */
	ROW_REREAD					/* whole current row read by key: replaces what is stored */
} RowChangeKind;

typedef struct RowChange
{
	RowChangeKind kind;
	SourceTable *table;			/* referenced */
	bool		has_before;		/* key differs from the new one, or DELETE */
	SourceKey	before;
	SourceKey	after;			/* not for DELETE */

	/* complete row: evaluated by the main thread */
	EvaluatedRow row;
	SyncString	row_copy;		/* BSON; stored with the row state if not empty */
	int64_t		round;			/* of the table's copy that is due or going on; 0: none */

	/*
	 * Incomplete row (unchanged out-of-line values left out): values is not
	 * NULL, undefined where left out; the writer merges the stored row copy
	 * and evaluates.  If that leaves gaps, the old state stays and reread_key
	 * is handed back for a re-read.
	 */
	SyncValue  *values;
	SyncString	reread_key;		/* opaque to the writer */

	const char *name;			/* for messages, of a row that may be rejected; or NULL */
} RowChange;

typedef struct WriteItem
{
	WriteItemKind kind;
	uint64_t	lsn;
	int64_t		source_time_us; /* COMMIT: commit time, Unix microseconds; for the lag */
	bool		incomplete;		/* COMMIT, KEEPALIVE: a copy is due; no checkpoint of a stream that
								 * is not active yet */
	union
	{
		RowChange  *row;
		SourceTable *table;		/* TRUNCATE: referenced */
		SourceTableDoc *table_doc;
		SourceTableId table_id;
	};
	struct WriteItem *next;
} WriteItem;

typedef struct WriteBatch
{
	SyncArena  *arena;			/* everything of the batch */
	WriteItem  *first;
	WriteItem  *last;
	size_t		item_count;
} WriteBatch;

extern WriteBatch *write_batch_create(void);	/* NULL: out of memory */
extern WriteItem *write_batch_add(WriteBatch *batch, WriteItemKind kind, uint64_t lsn);
/* for a batch that was not submitted; releases referenced tables */
extern void write_batch_free(WriteBatch *batch);

/* ---------------------------------------------------------------- writer */

typedef struct WriterOptions
{
	bool		served;			/* the stream is ACTIVE already: may mark write checkpoints */
	_Atomic uint32_t *turn;		/* shared memory, see turn.h; NULL: no turns */
	int			turn_index;
	int			max_documents;	/* per flush; 0: 2,000 */
	int			max_bytes;		/* per flush; 0: 30,000,000 */
} WriterOptions;

/* Starts writing to the stream opened by storage_open_stream() in this thread. */
extern bool writer_start(MongoThread *thread, const StreamDoc *stream, const WriterOptions *options);

/* Takes the batch over.  Never blocks. */
extern void writer_submit(MongoThread *thread, WriteBatch *batch);

extern bool writer_queue_full(MongoThread *thread);
extern bool writer_idle(MongoThread *thread);	/* nothing queued, nothing being written */

/*
 * A row whose stored copy was missing: re-read it and send it as ROW_REREAD in
 * a chunk of its own (CHUNK_BEGIN with the fence, CHUNK_END without table_doc).
 * Requests are answered in order; reread_request_free() says that one is, also
 * when there is no such row any more.  Until all requests from before a commit
 * are answered that commit's position is not stored: a crash asks again.
 */
typedef struct RereadRequest
{
	SourceTable *table;			/* referenced: release it */
	SyncString	key;			/* malloc'ed with the request */
	struct RereadRequest *next;
} RereadRequest;

/* counters only grow while the writer lives */
typedef struct WriterProgress
{
	bool		failed;
	StorageError error;			/* if failed */
	StorageError waiting;		/* not STORAGE_OK: the storage is not reached, tried again */
	uint64_t	stored_lsn;		/* durable (majority) together with everything before it */
	uint64_t	checkpoint_lsn; /* last checkpoint, STREAM_LSN_NONE before the first */
	int64_t		checkpoint_op;
	int64_t		checkpoint_time_us; /* when it was set */
	int64_t		source_time_us; /* commit time of the last stored source transaction */
	bool		snapshot_done;
	bool		active;			/* the stream is the served one */
	int32_t		ahead_stream;	/* activation waits for this one's checkpoint to be reached; */
	uint64_t	ahead_lsn;		/* ... 0: it does not */
	int64_t		flushes;
	int64_t		transactions;	/* source transactions */
	int64_t		rows;			/* row changes */
	int64_t		ops;
	int64_t		rejected_rows;
	int64_t		rereads;
	int64_t		evaluation_errors;
	char		last_row_error[384];	/* table and reason of the last rejected row or failed query */
	int64_t		write_conflicts;
	int64_t		chunks_stored;
	SourceTableId copied_table; /* of the last stored chunk */
	uint64_t	copied_next_tid;
	int64_t		copied_rows;
} WriterProgress;

extern void writer_progress(MongoThread *thread, WriterProgress *progress);
/* NULL: none.  The list and its members are the caller's: reread_request_free() */
extern RereadRequest *writer_take_rereads(MongoThread *thread);
/* what the requests take that nobody has taken yet: the queue's bound does not count them */
extern size_t writer_reread_bytes(MongoThread *thread);
extern void reread_request_free(RereadRequest *request);

#endif							/* PGSYNC_WRITER_H */
