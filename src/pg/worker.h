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

/* ---------------------------------------------------------------- rowvalue.c */

/* how one column becomes a value; chosen once per table shape */
typedef struct ColumnConversion
{
	int			attnum;			/* from 1 */
	const char *name;
	Oid			type;			/* domains replaced by their base type where rules say so */
	int16		typlen;
	char		kind;			/* value.h */
	bool		guarded;		/* the output function can fail on a value, */
	bool		foreign;		/* and is not built in, or calls one that is not */
	bool		too_deep;		/* its parts are in one another more often than can be printed */
	bool		holds_arrays;	/* is one, or has one in it */
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
/* The conversion's settings of a worker's session: formats, time zone, search_path. */
extern void row_conversion_settings(void);
/* The same for a while, in a session that is somebody's; an error ends it, too. */
extern int	row_conversion_settings_begin(void);
extern void row_conversion_settings_end(int level);
/* what the rules see of a column of this type */
extern SchemaValue row_schema_value(Oid type, bool custom_types);

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
	SyncRowType row_type;
	char		identity;		/* 'd', 'i', 'f', 'n' as pg_class.relreplident; 'n' also for
								 * a default without primary key */
	char	   *signature;		/* relation.c: shape as text */
	Datum	   *datums;			/* deform space, by attribute */
	bool	   *nulls;
	SyncValue  *values;			/* by position in the conversion */
	SyncValue  *old_values;
} RelationEntry;

/* a source table as stored, with what the worker knows beyond */
typedef struct KnownTable
{
	SourceTableDoc doc;
	bool		dropped;
} KnownTable;

struct Worker;

extern void relation_cache_init(struct Worker *worker);
/* the entry, or NULL if the relation is of no interest */
extern RelationEntry *relation_entry(struct Worker *worker, Relation relation);
extern void relation_cache_invalidate_all(void);
/* tables to copy: oids in a fixed order; needs a transaction */
extern List *relations_to_copy(struct Worker *worker);
extern bool signature_makes_stale(const char *old, const char *new);
extern Oid	identity_index(Relation relation);
/* attribute numbers; *identity as in RelationEntry */
extern Bitmapset *relation_identity_columns(Relation relation, char *identity);
extern void relations_check_after_ddl(struct Worker *worker);
extern KnownTable *known_table_find(struct Worker *worker, const SourceTableId *id);

/* ---------------------------------------------------------------- publication.c */

typedef struct PublicationState
{
	bool		used;			/* the setting names one that exists */
	bool		missing;		/* the setting names one that does not: every table counts */
} PublicationState;

/* reads the publication named by the setting; ERROR if it has filters we refuse */
extern PublicationState publication_state(const PgsyncSettings *settings);

/* what there is to say of a publication, and of a table in it, without refusing it */
typedef struct PublicationFacts
{
	Oid			oid;
	bool		all_tables;
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
	uint64		start_xid;		/* next full xid when the slot was made; 0: not known */
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
	uint64_t	transaction_end;	/* end LSN of the transaction being decoded */
	bool		transaction_written;	/* its WRITE_BEGIN is in a batch */
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

/* copy.c */
/* prefix of our own logical messages */
#define FENCE_PREFIX		"pgsync"

extern void copy_tables(Worker *worker);
extern void reread_rows(Worker *worker);
extern SyncString reread_key_encode(RelationEntry *entry, TupleDesc desc, SyncArena *arena);

/* decode.c */
extern void decode_begin_write(Worker *worker);	/* the transaction's WRITE_BEGIN, once */
extern SourceKey source_key_of_place(Worker *worker, uint64_t where, uint64_t which);
/*
 * Adds one row change to the batch: values, evaluation, keys.  old_tuple and
 * new_tuple as the kind has them.  no_identity_key: the key of a row of a table
 * without identity.
 */
extern void row_change_add(Worker *worker, RelationEntry *entry, RowChangeKind kind,
						   HeapTuple old_tuple, HeapTuple new_tuple, TupleDesc desc,
						   const SourceKey *no_identity_key);

/* stream.c */
extern int	read_flushed_page(XLogReaderState *reader, XLogRecPtr page, int length,
							  XLogRecPtr target, char *buffer);
extern void stream_changes(Worker *worker) pg_attribute_noreturn();

#endif							/* PGSYNC_WORKER_H */
