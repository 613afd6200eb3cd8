/*-------------------------------------------------------------------------
 *
 * mongo.h
 *	  The storage as the rest of pgsync sees it: a thread that owns the
 *	  MongoDB client, jobs that run in it, and their results.
 *
 * All libmongoc calls happen in that thread.  It blocks every signal, touches
 * no function and no variable of the server, and tells the main thread that
 * something is ready through an eventfd.  The main thread never blocks here:
 * it submits, goes on, and collects.
 *
 * Nothing here includes postgres.h; nothing here throws.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGSYNC_MONGO_H
#define PGSYNC_MONGO_H

#include <stdatomic.h>

#include "core/change.h"
#include "core/core.h"

/* ---------------------------------------------------------------- errors */

/* What the caller can do about it; the SQLSTATE follows from it in src/pg. */
typedef enum StorageErrorKind
{
	STORAGE_OK = 0,
	STORAGE_BAD_URI,			/* text that is not a MongoDB URI, or an option refused */
	STORAGE_UNREACHABLE,		/* no server, name not resolved, timeout, connection cut */
	STORAGE_AUTH,				/* authentication or authorization failed */
	STORAGE_TLS,				/* certificate or handshake */
	STORAGE_UNSUITABLE,			/* standalone server, or too old */
	STORAGE_LOCK_LOST,			/* another replicator holds or took the stream */
	STORAGE_STREAM_GONE,		/* the stream document is no longer PROCESSING/ACTIVE */
	STORAGE_CHANGED,			/* the stored position or op id is not what we wrote: restored
								 * or foreign writes */
	STORAGE_BINDING,			/* the stream belongs to another cluster or database */
	STORAGE_INVALID,			/* documents that break the contract */
	STORAGE_CANCELLED,			/* shutdown or cancel was asked for */
	STORAGE_SERVER				/* any other error that the server reported */
} StorageErrorKind;

/* message: names hosts and database, never user, password or document text */
typedef struct StorageError
{
	StorageErrorKind kind;
	int32_t		server_code;
	bool		commit_unknown; /* what was to be committed may have been done, or not */
	char		message[640];
} StorageError;

/* ---------------------------------------------------------------- target */

/*
 * uri: MongoDB URI with secrets; copied, and wiped when the thread ends.
 * Timeouts in milliseconds.  wake_fd: an eventfd of the caller, written when a
 * job has ended or the writer has made progress.
 */
typedef struct MongoTarget
{
	const char *uri;
	const char *database;
	const char *application;	/* "pgsync 1.0 <database>" */
	int			connect_timeout_ms;
	int			socket_timeout_ms;
	int			server_selection_timeout_ms;
	size_t		queue_bytes;	/* bound of what waits for the writer */
	int			wake_fd;
	bool		allow_insecure_tls; /* accept tlsInsecure and its like in the URI */
} MongoTarget;

typedef struct MongoThread MongoThread;

/* Checks the URI (STORAGE_BAD_URI) and starts the thread; does not connect. */
extern MongoThread *mongo_thread_start(const MongoTarget *target, StorageError *error);

/* "host1:27017,host2:27017": what messages may show; valid while the thread is */
extern const char *mongo_thread_hosts(const MongoThread *thread);

/*
 * Begins no flush and no job any more; what runs now goes on.  True when
 * nothing runs (any more) within timeout_ms: then no transaction is left open.
 */
extern bool mongo_thread_drain(MongoThread *thread, int timeout_ms);

/* Asks running and waiting jobs to end soon (shuts the sockets down); idempotent. */
extern void mongo_thread_cancel(MongoThread *thread);

/*
 * Ends the thread: cancel, then join for at most timeout_ms.  False when it
 * did not end in time: then it goes on by itself and nothing of it is freed.
 */
extern bool mongo_thread_stop(MongoThread *thread, int timeout_ms);

/* ---------------------------------------------------------------- jobs */

/*
 * A job is a function run in the thread, after those submitted before it.
 * Results go through arg, which the thread alone touches between
 * mongo_submit() and the job's end.
 */
typedef struct MongoContext MongoContext;	/* client, session, database: thread only */
typedef void (*MongoJobFunction) (MongoContext *context, void *arg, StorageError *error);
typedef struct MongoJob MongoJob;

extern MongoJob *mongo_submit(MongoThread *thread, MongoJobFunction function, void *arg);
extern bool mongo_job_finished(const MongoJob *job);
/* copies the error of a finished job and frees the job; arg stays the caller's */
extern void mongo_job_collect(MongoJob *job, StorageError *error);

/* ---------------------------------------------------------------- streams */

#define STREAM_SLOT_NAME_LEN	64
#define STREAM_LSN_NONE			((uint64_t) 0)

typedef enum StreamState
{
	STREAM_PROCESSING,
	STREAM_ACTIVE,
	STREAM_STOP,
	STREAM_TERMINATED,
	STREAM_ERRORED,
	STREAM_STATE_UNKNOWN
} StreamState;

/* one sync_rules document, in short */
typedef struct StreamSummary
{
	int32_t		id;
	StreamState state;
	int32_t		storage_version;
	char		slot_name[STREAM_SLOT_NAME_LEN];
	bool		bound;			/* has a binding of ours (any cluster) */
	bool		bound_here;		/* ... to this cluster and database */
	char		owner[256];		/* whom it is bound to, for messages; empty: nobody */
	bool		untouched;		/* no replicator has written anything for it yet */
} StreamSummary;

/* who we are: a stream is bound to it before use (design 4 and 5) */
typedef struct SourceIdentity
{
	uint64_t	system_identifier;
	uint32_t	database_oid;
	char		database_name[64];
	uint32_t	timeline;
	char		host[256];		/* host name and data directory, or pgsync.cluster_id */
	char		place[256];		/* host name and data directory, whatever the setting says */
} SourceIdentity;

/* a source_tables document with our copy progress */
typedef struct SourceTableDoc
{
	SourceTableId id;
	uint32_t	relation_id;
	char	   *schema;
	char	   *name;
	int			identity_count;
	char	  **identity_names;
	uint32_t   *identity_types;
	bool		snapshot_done;
	/* progress of the copy (our own collection) */
	uint32_t	relfilenode;	/* 0: no chunk stored yet */
	char	   *signature;		/* shape the chunks were copied with; NULL: none */
	uint64_t	next_tid;		/* block << 16 | offset: where the next chunk begins */
	int64_t		rows_copied;
	int64_t		rows_estimated;
	uint64_t	fence;			/* LSN of the last chunk */
	bool		copied_in_stream;	/* created after the stream's start: needs no copy */
	bool		stale;			/* a copy under the stream is due or going on */
	int64_t		copy_round;		/* number of that copy, or of the last one; 0: none ever */
	uint64_t	signature_lsn;	/* history up to here has been taken into signature */
	bool		ignored_changes;	/* no identity: an update or delete was ignored */
	bool		replaced;		/* another source table takes over its name: rows stay ... */
	SourceTableId replaced_by;	/* ... until the copy of this one is complete */
} SourceTableDoc;

/* a stream that we hold the lock of; strings live in arena */
typedef struct StreamDoc
{
	SyncArena  *arena;
	int32_t		id;
	int32_t		storage_version;
	StreamState state;
	char	   *content;		/* sync config text */
	char	   *serialized_plan;	/* JSON text, or NULL */
	char		slot_name[STREAM_SLOT_NAME_LEN];
	bool		snapshot_done;
	uint64_t	snapshot_lsn;	/* STREAM_LSN_NONE where null */
	uint64_t	last_checkpoint_lsn;
	uint64_t	no_checkpoint_before;
	int64_t		last_checkpoint;	/* -1 where null */
	int64_t		keepalive_op;	/* -1 where null */
	bool		has_data;		/* any row state, table or op of the stream exists */
	SourceIdentity bound_to;	/* as stored when the binding was made or renewed */
	bool		history_changed;	/* storage_mark_history(), and not gone on since */
	int			table_count;
	SourceTableDoc *tables;
} StreamDoc;

/* the LSN stored with the data: max(last_checkpoint_lsn, snapshot_lsn) */
extern uint64_t stream_stored_lsn(const StreamDoc *stream);

/* Each struct is the arg of the job function of the same name. */

/* Connects, checks the server (replica set, version), creates what is missing:
 * collections, indexes, the migrations document (contract 1.2, 1.3). */
extern void storage_prepare(MongoContext *context, void *unused, StorageError *error);

typedef struct StorageListStreams
{
	SourceIdentity self;		/* in */
	SyncArena  *arena;			/* in: result goes here */
	int			count;			/* out: all but TERMINATED, ascending id */
	StreamSummary *streams;
} StorageListStreams;
extern void storage_list_streams(MongoContext *context, void *arg, StorageError *error);

/* what a binding has that we have not, the most telling first */
typedef enum BindingDifference
{
	BINDING_UNKNOWN,			/* there is none: written by another replicator */
	BINDING_DATABASE,			/* another cluster, or another database of it */
	BINDING_PLACE,				/* this cluster at another place: copied or moved */
	BINDING_CLUSTER_ID			/* here, but pgsync.cluster_id was set, changed or removed */
} BindingDifference;

/*
 * Takes the stream's lock and binds the stream to us.  STORAGE_LOCK_LOST when a
 * foreign replicator holds the lock (message names since when it would expire);
 * STORAGE_BINDING when it is bound to another cluster or database.  The lock of
 * our own predecessor (known from the binding) is taken over at once.
 */
typedef struct StorageOpenStream
{
	SourceIdentity self;		/* in */
	int32_t		stream_id;		/* in */
	StreamDoc  *stream;			/* out, own arena; stream_doc_free() */
	BindingDifference difference;	/* out, with STORAGE_BINDING */
} StorageOpenStream;
extern void storage_open_stream(MongoContext *context, void *arg, StorageError *error);
extern void stream_doc_free(StreamDoc *stream);

/*
 * Deploys a config as a new PROCESSING stream bound to self (contract 2).  It does not
 * take the storage from another cluster or database: STORAGE_BINDING when any stream
 * that is PROCESSING, ACTIVE or ERRORED is bound to one.
 * replaces: id of the stream whose slot was lost (it becomes ERRORED if ACTIVE,
 * STOP if PROCESSING; contract 2 "Slot lost"), or 0.  source_stream: take content and
 * plan from this stream instead of content, or 0.  Nothing is deployed then when
 * somebody deployed after it, or when the stream to be replaced is no longer
 * PROCESSING or ACTIVE: stream_id is 0, newer_stream what is to take over, or 0;
 * stays_served: what was to be replaced is served until then.
 * max_copies_per_day > 0: refuse (STORAGE_CHANGED) when this many streams with
 * reason slot_lost have been made of the same deployment in the last 24 h.
 */
typedef struct StorageDeploy
{
	SourceIdentity self;		/* in */
	const char *content;		/* in */
	const char *plan;			/* in: JSON text of the stored plan, or NULL */
	const char *slot_prefix;	/* in: "powersync_" */
	int32_t		source_stream;	/* in */
	int32_t		replaces;		/* in */
	bool		slot_lost;		/* in */
	int			max_copies_per_day; /* in */
	int32_t		stream_id;		/* out */
	int32_t		newer_stream;	/* out */
	bool		stays_served;	/* out */
	char		slot_name[STREAM_SLOT_NAME_LEN];	/* out */
} StorageDeploy;
extern void storage_deploy(MongoContext *context, void *arg, StorageError *error);

/* Empties a stream that must be copied from the start again; keeps id, slot name, lock. */
extern void storage_reset_stream(MongoContext *context, void *arg_stream_id, StorageError *error);

/*
 * Clears a STOP stream (contract 2) and marks it TERMINATED; its slot is gone
 * already.  Takes the lock.  Ends early when cancelled; may be called again.
 * STORAGE_BINDING when it is another's, or of this cluster at another place.
 */
typedef struct StorageTerminate
{
	SourceIdentity self;		/* in */
	int32_t		stream_id;		/* in */
} StorageTerminate;
extern void storage_terminate_stream(MongoContext *context, void *arg, StorageError *error);

typedef struct StorageRecordError
{
	int32_t		stream_id;
	char		message[768];
} StorageRecordError;
extern void storage_record_error(MongoContext *context, void *arg, StorageError *error);

/*
 * Rows that could not be stored as they are, of all streams that are bound to self: of
 * each the latest 1,000, as long as they are not stored well or deleted.
 */
typedef struct ListedRejectedRow
{
	int32_t		stream_id;
	const char *schema;			/* NULL: not told; so the other texts */
	const char *table;
	const char *key;			/* NULL: too large itself, or the table has none */
	const char *reason;
	uint64_t	lsn;			/* end of the transaction, or the fence of the copy's chunk */
	int64_t		time_ms;		/* Unix time */
} ListedRejectedRow;

typedef struct StorageListRejected
{
	SourceIdentity self;		/* in */
	SyncArena  *arena;			/* in: result goes here */
	size_t		count;			/* out */
	ListedRejectedRow *rows;
} StorageListRejected;
extern void storage_list_rejected(MongoContext *context, void *arg, StorageError *error);

/*
 * Binds streams to self although they were bound elsewhere (pgsync_adopt):
 * stream_id, or 0 for all that are not TERMINATED and have a binding.  Does not
 * open them: stream stays NULL.  STORAGE_LOCK_LOST while one is still held there.
 */
extern void storage_adopt_stream(MongoContext *context, void *arg_open_stream, StorageError *error);

/*
 * Notes that the held stream's positions are of another history than the
 * server's: a stream deployed after that becomes active without comparing
 * positions with it.  Void once the stream has gone on or was adopted.  A stream
 * that is not held here, so perhaps alive elsewhere, is not marked; no error.
 */
extern void storage_mark_history(MongoContext *context, void *arg_stream_id, StorageError *error);

/* Gives the lock back; errors do not matter. */
extern void storage_close_stream(MongoContext *context, void *unused, StorageError *error);

#endif							/* PGSYNC_MONGO_H */
