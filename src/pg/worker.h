/*-------------------------------------------------------------------------
 *
 * worker.h
 *	  A worker's own state and the steps of a row's way through it, in order.
 *
 * One worker replicates one stream (one sync_rules document) of one database.
 * All of this is main-thread state; the storage thread sees only what is
 * submitted to it (mongo/writer.h).
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGSYNC_WORKER_H
#define PGSYNC_WORKER_H

#include "core/plan_check.h"
#include "mongo/writer.h"

#include "pgsync.h"

#include "access/tupdesc.h"
#include "fmgr.h"
#include "nodes/pg_list.h"
#include "replication/logical.h"
#include "replication/reorderbuffer.h"
#include "storage/lock.h"
#include "storage/latch.h"
#include "utils/relcache.h"

/* ---------------------------------------------------------------- storage_link.c */

/* a storage thread and how the main thread waits for it */
typedef struct StorageLink
{
	MongoThread *thread;
	int			wake_fd;
	WaitEventSet *wait_set;		/* latch, wake_fd, postmaster death */
	bool		leaked;			/* the thread did not end: it still owns what it was given */
} StorageLink;

/* Starts the thread, which connects with the first job.  Needs a transaction. */
extern StorageLink *storage_link_open(const PgsyncSettings *settings);
/*
 * Runs one job; waits without blocking anything; ERROR on failure or cancel.
 * *arg (size bytes) is what the job gets a copy of, and what it made of it; what arg
 * points to must outlive the process or be malloc'ed.
 */
extern void storage_link_run(StorageLink *link, MongoJobFunction function, void *arg, Size size);
/* As storage_link_run(), but the caller looks at the error. */
extern void storage_link_try(StorageLink *link, MongoJobFunction function, void *arg, Size size,
							 StorageError *error);
/* Waits for the latch, the storage thread or the timeout; true if the thread had news. */
extern bool storage_link_wait(StorageLink *link, long timeout_ms);
/* Ends the thread; memory that a job may still use is left alone if it does not end. */
extern void storage_link_close(StorageLink *link, int timeout_ms);
extern void storage_error_report(const StorageError *error, const char *hosts)
			pg_attribute_noreturn();
extern SourceIdentity source_identity(const PgsyncSettings *settings);

/* ---------------------------------------------------------------- backend_call.c */

/* what a backend holds while it talks to the storage; freed whatever happens */
typedef struct BackendCall
{
	MemoryContextCallback callback;
	StorageLink *link;			/* NULL, or the caller's to open */
	void	   *arg;			/* malloc'ed, zeroed; a thread that does not end keeps it ... */
	SyncArena  *arena;			/* ... and this: NULL, or the caller's to create */
} BackendCall;

/* it ends with the current memory context */
extern BackendCall *backend_call(Size arg_size);

/* ---------------------------------------------------------------- rowvalue.c */

/* how one column becomes a value; chosen once per table shape */
typedef struct ColumnConversion
{
	int			attnum;			/* from 1 */
	const char *name;
	Oid			type;			/* domains replaced by their base type where rules say so */
	int16		typlen;
	char		kind;			/* value.h */
	bool		foreign;		/* the output function is not built in, or calls one that is not */
	bool		guarded;		/* what gives the text can fail on any value, */
	bool		guard_large;	/* or on one that is not small */
	bool		too_deep;		/* its parts are in one another more often than can be printed */
	bool		expands;		/* its text can be far larger than the value */
	bool		inexact;		/* keys take its values otherwise: see row_key_values() */
	Oid			output_function;
	FmgrInfo	output;			/* of a base type that is built in */
	const struct PrintedType *printed;	/* how its text is read; NULL: it stays */
	struct ColumnConversion *element;	/* arrays from their internal form */
} ColumnConversion;

typedef struct RowConversion
{
	int			count;
	ColumnConversion *columns;	/* not dropped ones, in attribute order */
	Oid			owner;			/* runs output functions that are not built in */
	bool		custom_types;
	bool		iso8601;
	int			fraction_digits;	/* of timestamps when iso8601: 0, 3 or 6 */
	char	   *failure;		/* why the last row failed: ROW_FAILURE_SIZE bytes */
} RowConversion;

#define ROW_FAILURE_SIZE	256

typedef enum RowValueResult
{
	ROW_COMPLETE,
	ROW_INCOMPLETE,				/* unchanged out-of-line values are missing */
	ROW_TOO_LARGE,				/* a value exceeds the limit: nothing was converted */
	ROW_FAILED					/* a value has no text, or it cannot be used: see failure */
} RowValueResult;

/* made in the current memory context */
extern RowConversion *row_conversion_create(TupleDesc desc, Oid owner,
											const SyncCompatibility *compatibility);
/*
 * values[] by position in the conversion.  datums[] and nulls[] by attribute;
 * missing values (unchanged, out of line) are taken from old_datums if that is
 * not NULL.  What values point to lives in the current memory context or in
 * scratch, whose guard the caller has set.  *out_of_line: some value was stored
 * out of line.  limit: bytes of all values together, decompressed.  in_stream:
 * the row comes from WAL, where a pointer to the TOAST table means "unchanged".
 */
extern RowValueResult row_convert(const RowConversion *conversion, const Datum *datums,
								  const bool *nulls, const Datum *old_datums,
								  const bool *old_nulls, Size limit, bool in_stream,
								  SyncArena *scratch, SyncValue *values, bool *out_of_line);
/*
 * Only the given positions (identity columns); they are never out of line.  False:
 * together they are over the limit, or one of them fails.
 */
extern bool row_convert_some(const RowConversion *conversion, const Datum *datums,
							 const bool *nulls, const int *positions, int count, Size limit,
							 SyncArena *scratch, SyncValue *values);
/*
 * The values that a row's key is made of: those that were converted, but where different
 * values of the column can be converted alike, or one value otherwise when something else
 * was renamed, what tells them apart.  By position, as values[]; complete ones only.
 */
extern const SyncValue *row_key_values(const RowConversion *conversion, const Datum *datums,
									   const bool *nulls, const int *positions, int count,
									   SyncArena *scratch, const SyncValue *values);
/* The conversion's settings of a worker's session: formats, time zone, search_path. */
extern void row_conversion_settings(void);
/* The same for a while, in a session that is somebody's; an error ends it, too. */
extern int	row_conversion_settings_begin(void);
extern void row_conversion_settings_end(int level);
/* what the rules see of a column of this type */
extern SchemaValue row_schema_value(Oid type, bool custom_types);

/* ---------------------------------------------------------------- source_table.c */

struct Worker;
struct RelationEntry;
struct RecopyStart;

/* a source table as stored, with what the worker knows beyond */
typedef struct KnownTable
{
	SourceTableDoc doc;
	bool		dropped;

	/* copy under the stream (recopy.c) */
	const char *reason;			/* why it is due; NULL: since before this process */
	uint64_t	shape_end;		/* end of the transaction in which this process set the signature */
	bool		older_shape;	/* the stream has met another one, which was there before it */
	struct RecopyStart *start;	/* of a table without identity; NULL: its copy has not begun */
	TimestampTz next_look;		/* it could not be read: not before then ... */
	long		pause;			/* ... which is so long after the last look, in ms */
	char	   *present_signature;	/* the relation's at the last look, if not the stream's ... */
	uint64_t	present_lsn;	/* ... which was here */
} KnownTable;

extern KnownTable *known_table_find(struct Worker *worker, const SourceTableId *id);
/*
 * The source table of a relation as the snapshot at hand shows it; makes one if there
 * is none.  NULL: its rows cannot be read now, the stream has to come to it first.
 */
extern KnownTable *source_table_for(struct Worker *worker, Relation relation,
									struct RelationEntry *entry);
/* its document, at this place in the stream */
extern void source_table_store(struct Worker *worker, KnownTable *known);
extern void source_table_drop(struct Worker *worker, KnownTable *known);
/* the rows of known stay until the copy of successor is complete */
extern void source_table_replace(struct Worker *worker, KnownTable *known,
								 KnownTable *successor);
/* removes what waits for this table's copy: that is complete, or nothing is left to copy */
extern void source_tables_drop_replaced(struct Worker *worker, KnownTable *successor);
/*
 * Stored rows may differ from the table's: a copy under the stream is due from this place
 * on.  One that has begun begins again.  False: it was due already, and nothing was stored.
 */
extern bool source_table_mark(struct Worker *worker, KnownTable *known, const char *reason);
/*
 * The same where rows may be stored that neither the stream nor the copy meets again,
 * also of the round that is due and has not begun: always a new one.
 */
extern void source_table_mark_anew(struct Worker *worker, KnownTable *known, const char *reason);
/* a row of the relation, of which the rules read none at its time */
extern void source_table_passed_over(struct Worker *worker, Oid relid);
extern bool source_table_is_due(const KnownTable *known);
/* after tables were read: what follows from all of them */
extern void source_tables_changed(struct Worker *worker);
/* adds an item with the table's document to the batch; strings are copied */
extern void submit_table_doc(struct Worker *worker, const SourceTableDoc *doc, WriteItemKind kind);

/* ---------------------------------------------------------------- rules_name.c */

typedef struct RulesName
{
	Oid			relid;			/* whose name it is */
	char	   *schema;			/* palloc'ed, as table */
	char	   *table;
} RulesName;

/* publication: as the setting has it.  False: the relation is gone. */
extern bool rules_name(const char *publication, const SyncPlan *plan, Form_pg_class form,
					   RulesName *name);

/* ---------------------------------------------------------------- relation.c */

/* what the stream knows of one relation in its present shape */
typedef struct RelationEntry
{
	Oid			relid;			/* hash key */
	bool		valid;			/* false: look again before use */
	bool		wanted;			/* the rules read it and the publication has it */
	MemoryContext context;
	RowConversion *conversion;
	SourceTable *table;
	KnownTable *known;			/* the same as stored */
	RulesName	name;			/* under which the rules see it; valid ones only */
	bool		through_root;	/* that is another relation's: partitions share it */
	Oid			relfilenode;
	SyncRowType row_type;
	bool		inexact_key;	/* the identity has inexact columns */
	char		identity;		/* 'd', 'i', 'f', 'n' as pg_class.relreplident; 'n' also for
								 * a default without primary key */
	char	   *signature;		/* relation.c: shape as text */
	Datum	   *datums;			/* deform space, by attribute */
	bool	   *nulls;
	SyncValue  *values;			/* by position in the conversion */
	SyncValue  *old_values;

	/* ends of the last source transactions in which ... */
	uint64_t	skipped_at;		/* ... a change of it was of no interest, or it got another
								 * source table */
	uint64_t	rewritten_at;	/* ... ALTER TABLE wrote its rows anew, */
	Oid			rewritten_into; /* for the last time into this relation */
} RelationEntry;

extern void relation_cache_init(struct Worker *worker);
/* the entry, looked at again if it has to be */
extern RelationEntry *relation_look(struct Worker *worker, Relation relation);
/* the same, or NULL if the relation is of no interest */
extern RelationEntry *relation_entry(struct Worker *worker, Relation relation);
/* as it was when it was looked at last, or NULL */
extern RelationEntry *relation_entry_find(Oid relid);
/* its rows come from the relation new_heap; true: that was not noted before */
extern bool relation_note_rewritten(struct Worker *worker, Oid relid, Oid new_heap);
extern void relation_cache_invalidate_all(void);
/* once after each change that concerns publications */
extern bool publications_changed(void);
/* tables that the rules name, of all that was invalidated since the last call */
extern List *relations_touched(struct Worker *worker);
/* tables to copy: oids in a fixed order; needs a transaction */
extern List *relations_to_copy(struct Worker *worker);
extern bool signature_makes_stale(const char *old, const char *new);
/* of what is stored of the table, which has a signature: the same, and the file counts, too */
extern bool shape_makes_stale(const SourceTableDoc *doc, const RelationEntry *entry);
extern Oid	identity_index(Relation relation);
/* attribute numbers; *identity as in RelationEntry */
extern Bitmapset *relation_identity_columns(Relation relation, char *identity);

/* ---------------------------------------------------------------- ddl.c */

/* takes in the shape of the relation; at_end: as the source transaction leaves it */
extern void table_check_shape(struct Worker *worker, KnownTable *known, RelationEntry *entry,
							  bool at_end);
extern void note_rewritten_table(struct Worker *worker, Oid relid, Oid new_heap);
extern bool relation_is_new(struct Worker *worker, Relation relation, const RelationEntry *entry);
extern void relations_check_after_ddl(struct Worker *worker);

/* ---------------------------------------------------------------- publication.c */

typedef struct PublicationState
{
	bool		used;			/* the setting names one that exists */
	bool		missing;		/* the setting names one that does not: every table counts */
} PublicationState;

/* reads the publication named by the setting; ERROR if it has filters we refuse */
extern PublicationState publication_state(const PgsyncSettings *settings);
extern bool publication_is_missing(const PgsyncSettings *settings);

/* what there is to say of a publication, and of a table in it, without refusing it */
typedef struct PublicationFacts
{
	Oid			oid;
	bool		all_tables;
	bool		through_root;	/* rows of partitions are those of a table above them */
	const char *fault;			/* why it cannot be used, or NULL */
} PublicationFacts;

typedef struct PublishedTable
{
	Oid			relid;
	bool		published;
	bool		row_filter;
	bool		column_list;
	Bitmapset  *columns;		/* of the list; NULL: not known, or none */
} PublishedTable;

/* InvalidOid: NULL, empty, or of one that is not there */
extern Oid	publication_oid(const char *name);
/* the relation as whose rows those of relid, a partition, are published */
extern Oid	publication_root(Oid publication, Oid relid);
/* InvalidOid if it has none (any more) */
extern Oid	partition_parent(Oid relid);
extern bool publication_describe(const char *name, PublicationFacts *facts);
extern void publication_describe_table(const PublicationFacts *facts, Oid relid,
									   bool is_partition, PublishedTable *table);
/* membership as the present snapshot, which may be a historic one, shows it */
extern bool publication_has_relation(const PgsyncSettings *settings, Relation relation);

/* ---------------------------------------------------------------- the worker */

typedef struct StoredMark
{
	uint64_t	lsn;
	TimestampTz time;
} StoredMark;

#define STORED_MARKS	16

typedef struct Worker
{
	PgsyncPreloaded *preloaded;
	PgsyncShared *shared;
	WorkerEntry *entry;
	int			index;
	uint32		generation;

	StorageLink *storage;
	SourceIdentity self;
	StreamDoc  *stream;
	SyncArena  *plan_arena;
	const SyncPlan *plan;
	BucketNaming naming;
	PublicationState publication;

	List	   *tables;			/* KnownTable */

	/* decoding */
	LogicalDecodingContext *decoding;
	MemoryContext change_context;	/* reset after each change */
	SyncArena  *scratch;		/* likewise */
	ReorderBufferTXN *transaction;	/* being decoded; NULL: none, we are between two */
	uint64_t	transaction_end;	/* its end LSN, or that of the last one */
	bool		transaction_written;	/* its WRITE_BEGIN is in a batch */
	bool		tables_touched; /* in it: source tables are to be looked at when it ends */
	bool		copies_due;		/* tables of the stream wait to be copied under it, or are */
	bool		ping;			/* a ping message was decoded: keepalive at once */
	uint64_t	last_change_lsn;	/* for row keys of tables without identity */
	uint32		changes_at_lsn;

	/* the batch being filled; NULL: none */
	WriteBatch *batch;

	/* the chunk being copied; its batch is not submitted before its fence is known */
	bool		in_chunk;
	bool		rereading;		/* the catalog is the present one while the stream is behind it:
								 * a table that has changed is left to the stream */

	/* positions */
	uint64_t	submitted_lsn;	/* last commit or keepalive given to the writer */
	TimestampTz submitted_time;
	uint64_t	stored_lsn;
	StoredMark	marks[STORED_MARKS];	/* when which position was stored; oldest first */
	int			mark_count;
	TimestampTz last_confirm;
	XLogRecPtr	standbys_lsn;	/* slot_wait_for_standbys() has returned for it */
	TimestampTz last_stream_check;
	bool		storage_silent;	/* the writer tries again and again: shown in status */
	MongoJob   *periodic_job;
	StorageListStreams *periodic_list;
	OwnSlot    *idle_slots;		/* of ours, before the list was asked for */
	int			idle_slot_count;
	int64_t		logged_row_errors;
	TimestampTz last_row_log;
	bool		was_active;
	int64_t		last_flushes;
	int64_t		chunks_stored;
} Worker;

/* the worker of this process; NULL elsewhere (the output plugin looks at it) */
extern Worker *MyWorker;

/* pgsync_bgw.c */
extern void worker_set_phase(Worker *worker, WorkerPhase phase);
/* the present reasons for concern: publication, stale tables, tables without identity */
extern void worker_show_warnings(Worker *worker);
extern void worker_check_interrupts(Worker *worker);
/* takes in what the storage thread has done: counters, positions, errors */
extern void worker_collect(Worker *worker);
/* gives the batch to the writer */
extern void worker_submit(Worker *worker);
/* the batch to add to; submits a full one; waits while the queue is full */
extern WriteBatch *worker_batch(Worker *worker);
extern void worker_wait_for_queue(Worker *worker);
extern void worker_wait_until_stored(Worker *worker);
/* ends the process; the launcher does not restart it before something changes */
extern void worker_finish(Worker *worker, WorkerPhase phase) pg_attribute_noreturn();

/* streams.c: which stream, and what becomes of others */
extern void worker_choose_stream(Worker *worker);
extern void worker_open_stream(Worker *worker);
extern void worker_compile_rules(Worker *worker);
extern void worker_clean_stream(Worker *worker);
extern void worker_watch_streams(Worker *worker);
extern TimestampTz worker_watch_due(const Worker *worker);
extern void worker_replace_stream(Worker *worker, const char *reason) pg_attribute_noreturn();
/* the same, at most twice in 24 hours; hint: what to do against the third time */
extern void worker_replace_lost_slot(Worker *worker, const char *reason, const char *hint)
			pg_attribute_noreturn();

/* slot.c */
extern void slot_ensure(Worker *worker);
/* ends the worker; adoptable: pgsync_adopt() would make it go on; hint NULL: as that says */
extern void report_history_changed(Worker *worker, const char *reason, bool adoptable,
								   const char *hint)
			pg_attribute_noreturn();
extern void slot_drop_if_exists(const char *name);
extern void slot_confirm(Worker *worker, bool at_exit);
/* 17 and newer: until the standbys that matter have received WAL up to there */
extern void slot_wait_for_standbys(Worker *worker, XLogRecPtr lsn);
extern TimestampTz slot_confirm_due(const Worker *worker);

/* read_table.c: what reading a table takes, before and under the stream */
/* prefix of our own logical messages */
#define FENCE_PREFIX		"pgsync"
#define FENCE_TEXT			"fence"

/* transactions that may have written their commit record and still look running */
typedef struct Stragglers
{
	VirtualTransactionId *committing;
	int			committing_count;
	bool		listed;			/* the rest is known */
	TransactionId *xids;
	int			xid_count;
} Stragglers;

/* who is waited for: a process, a prepared transaction, or nobody knows */
typedef struct Blocker
{
	int			pid;			/* 0: none */
	TransactionId xid;			/* of a prepared one; InvalidTransactionId: none */
} Blocker;

extern void show_blocker(Worker *worker, const Blocker *blocker);
/* one step of waiting, of which nothing tells us the end; *pause: 0 at first */
extern void wait_for_other(Worker *worker, const Blocker *blocker, long *pause);
extern void waited_for_others(Worker *worker);
extern long longer_pause(long pause);
extern void stragglers_begin(Stragglers *stragglers);
/* false: they are not over; *blocker: one of them */
extern bool stragglers_are_over(Stragglers *stragglers, Blocker *blocker);
extern void stragglers_free(Stragglers *stragglers);
extern void wait_for_stragglers(Worker *worker);
extern Blocker lock_holder(Oid relid);
/* a transaction in which the relation is open, and no snapshot taken yet; NULL: it is gone */
extern Relation begin_reading(Worker *worker, Oid relid);
extern void set_decoding_flag(bool decoding);
/* a message of ours in the WAL, flushed, as far as standbys matter there, too */
extern XLogRecPtr write_fence(Worker *worker, const char *text);
extern XLogRecPtr write_message(const char *text);
/* counters of rows begin again if the table has another file; true if so */
extern bool chunk_check_file(SourceTableDoc *progress, Relation relation);

/* one row less: true to skip it */
typedef bool (*ChunkFilter) (HeapTuple tuple);
/*
 * Adds rows from progress->next_tid on to the batch, until that has so many bytes; false
 * when the table ends.
 */
extern bool scan_chunk(Worker *worker, RowChangeKind kind, SourceTableDoc *progress,
					   Relation relation, RelationEntry *entry, Size limit, ChunkFilter skip);
extern void show_copy_progress(Worker *worker, const SourceTableDoc *doc, int done, int total);

/* copy.c: the initial copy */
extern void copy_tables(Worker *worker);

/* reread.c: single rows read again by key */
extern void reread_rows(Worker *worker);
/* more of them wait than may: their tables are to be copied again instead */
extern void reread_give_up(Worker *worker);
extern SyncString reread_key_encode(RelationEntry *entry, TupleDesc desc, SyncArena *arena);

/* recopy.c: the copy of one table while the stream runs */
/* one step, between two records of the stream; never waits */
extern void recopy_step(Worker *worker);
/* when the next step is due; DT_NOEND: when the stream or the writer has gone on */
extern TimestampTz recopy_due(const Worker *worker);
/* has anything of the table's copy been read, or a first watermark of it been written? */
extern bool recopy_has_begun(const KnownTable *known);
/* will it bring every row as it was changed up to here in the stream? */
extern bool recopy_covers_past(const KnownTable *known);
/* a message of ours was decoded, whose end is there */
extern void recopy_message(Worker *worker, const char *text, Size size, XLogRecPtr end);
/* a row that changes in the stream; and one that a (sub)transaction inserts, without identity */
extern void recopy_note_change(const KnownTable *known, const RowChange *change);
extern void recopy_note_insert(Worker *worker, KnownTable *known, TransactionId xid);
/* TRUNCATE or DDL in the stream: what is being read now is void */
extern void recopy_drop_chunk(const KnownTable *known);
/* ... and so is all that was read */
extern void recopy_abandon(KnownTable *known);

/* decode.c */
extern void decode_begin_write(Worker *worker);	/* the transaction's WRITE_BEGIN, once */
extern SourceKey source_key_of_place(Worker *worker, uint64_t where, uint64_t which);
/*
 * Adds one row change to the batch: values, evaluation, keys.  old_tuple and
 * new_tuple as the kind has them.  no_identity_key: the key of a row of a table
 * without identity.  A change of the stream that does not hold the row's key adds
 * nothing: the table is marked.
 */
extern void row_change_add(Worker *worker, RelationEntry *entry, RowChangeKind kind,
						   HeapTuple old_tuple, HeapTuple new_tuple, TupleDesc desc,
						   const SourceKey *no_identity_key);

/* stream.c */
extern int	read_flushed_page(XLogReaderState *reader, XLogRecPtr page, int length,
							  XLogRecPtr target, char *buffer);
extern void stream_changes(Worker *worker) pg_attribute_noreturn();

#endif							/* PGSYNC_WORKER_H */
