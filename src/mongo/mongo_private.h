/*-------------------------------------------------------------------------
 *
 * mongo_private.h
 *	  What the files of src/mongo share: the thread, the context of its jobs,
 *	  the calls of libmongoc that everything goes through.
 *
 * Nobody else includes this.  All functions that take a MongoContext run in
 * the storage thread.
 *
 * Rules that every file here keeps:
 * - No arena guard is pushed around a libmongoc or libbson call whose objects
 *   would be lost in a jump: bytes are copied into an arena in small functions
 *   of their own that set the guard and say whether it worked.
 * - libbson aborts the process when memory runs out: no document is built
 *   that has not been measured first (DOCUMENT_LIMIT).
 * - Texts that a server sends never reach a message: they may quote documents.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGSYNC_MONGO_PRIVATE_H
#define PGSYNC_MONGO_PRIVATE_H

#include <pthread.h>
#include <time.h>

#include <mongoc/mongoc.h>

#include "mongo/mongo.h"
#include "mongo/writer.h"

/* Largest JSON in UTF-16 units and largest stored document in bytes: contract 3.5. */
#define DOCUMENT_LIMIT			15728640

/* Life of a stream's lock after each renewal, in seconds: contract 9.1. */
#define LOCK_SECONDS			60
/* so long after its last renewal the thread renews it, if it has nothing else to do */
#define LOCK_RENEW_MS			20000
/* ... and tries again if the storage is not reached, until the lock has ended */
#define LOCK_RETRY_MS			5000

#define LOCK_ID_LEN				16	/* lower-case hexadecimal digits */
#define LSN_TEXT_SIZE			18	/* XXXXXXXX/XXXXXXXX and the NUL */
#define DATABASE_NAME_SIZE		64
#define COLLECTION_NAME_SIZE	64

/* server codes that have a meaning here */
#define CODE_NAMESPACE_NOT_FOUND	26
#define CODE_NAMESPACE_EXISTS		48
#define CODE_MAX_TIME_EXPIRED		50
#define CODE_WRITE_CONFLICT			112
#define CODE_DUPLICATE_KEY			11000

/* ---------------------------------------------------------------- thread */

typedef struct Writer Writer;

struct MongoJob
{
	MongoJobFunction function;
	void	   *arg;
	StorageError error;
	atomic_bool finished;
	MongoJob   *next;
};

struct MongoThread
{
	/* set before the thread starts, constant while it runs */
	mongoc_uri_t *uri;			/* wiped by the thread at its end */
	char	   *hosts;
	uint32_t	storage;		/* hash of hosts and database, never 0: turn.h */
	char		database[DATABASE_NAME_SIZE];
	size_t		queue_limit;
	int			wake_fd;
	int			cancel_fd;		/* eventfd, readable for good once cancelled */
	pthread_t	thread;

	atomic_bool cancelled;
	atomic_int	renew_ms;		/* LOCK_RENEW_MS; tests have less time */

	pthread_mutex_t mutex;
	pthread_cond_t work;		/* a job, a batch, or cancelled */
	pthread_cond_t end;
	/* below: under mutex */
	bool		ended;			/* the thread touches nothing any more */
	bool		busy;			/* in a job or a flush */
	bool		draining;		/* begin nothing any more */
	MongoJob   *first_job;
	MongoJob   *last_job;
	Writer	   *writer;			/* set once; NULL: none started */
};

/* Tells the main thread that there is news.  Any thread. */
extern void thread_notify(MongoThread *thread);

/* ---------------------------------------------------------------- context */

typedef struct CollectionHandle
{
	char		name[COLLECTION_NAME_SIZE];
	mongoc_collection_t *collection;
} CollectionHandle;

#define MAX_COLLECTION_HANDLES	32

struct MongoContext
{
	MongoThread *thread;
	mongoc_client_t *client;	/* NULL: not made yet */
	mongoc_client_session_t *session;	/* made with the first transaction */
	mongoc_write_concern_t *majority;	/* w: majority, j: true */
	bson_t		majority_opts;	/* the same as options */
	CollectionHandle handles[MAX_COLLECTION_HANDLES];
	int			handle_count;

	bool		in_transaction;
	bool		tls_failed;		/* the last connection failed in its handshake */

	/* what the last failed call was labelled with */
	bool		transient;		/* the whole transaction may be tried again */
	bool		commit_unknown; /* the commit's outcome is not known */

	/* the stream whose lock we hold */
	bool		holds_stream;
	int32_t		stream_id;
	char		lock_id[LOCK_ID_LEN + 1];
	int64_t		lock_renewed;	/* monotonic_us() before the last successful renewal */
	int64_t		lock_tried;		/* ... before the last one that failed since; 0: none */
};

/* Makes the client if there is none; false and *error otherwise. */
extern bool context_connect(MongoContext *context, StorageError *error);
extern void context_disconnect(MongoContext *context);
extern bool context_cancelled(const MongoContext *context);
/* Sleeps at most ms; returns at once when cancelled. */
extern void context_sleep(MongoContext *context, int ms);
extern mongoc_collection_t *context_collection(MongoContext *context, const char *name);
/* name with the stream's number: "pgsync_row_state_17" */
extern void stream_collection_name(char name[COLLECTION_NAME_SIZE], const char *stem,
								   int32_t stream_id);

/* socket.c: TCP and TLS connections that end at once when cancelled */
extern mongoc_stream_t *cancellable_stream(const mongoc_uri_t *uri,
										   const mongoc_host_list_t *host,
										   void *context, bson_error_t *error);

/* ---------------------------------------------------------------- errors */

extern void storage_error_set(StorageError *error, StorageErrorKind kind, const char *format,...)
			sync_printf_like(3, 4);
/* cut at the border of a character if it does not fit */
extern void format_text(char *text, size_t size, const char *format,...) sync_printf_like(3, 4);
/* the last border of a character at or before len */
extern size_t character_border(const char *text, size_t len);
/*
 * From what libmongoc said.  doing: what was tried, in words that can follow
 * "while"; reply may be NULL.  Sets the context's label flags too.
 */
extern void storage_error_from_driver(MongoContext *context, StorageError *error,
									  const char *doing, const bson_error_t *driver_error,
									  const bson_t *reply);

/* ---------------------------------------------------------------- calls (calls.c) */

/*
 * Each of these runs in the open transaction if there is one, and else by
 * itself with majority and journal.  They return false and fill *error when
 * the call failed.
 */
extern bool call_find_one(MongoContext *context, const char *collection, const bson_t *filter,
						  const bson_t *projection, bson_t *found, bool *exists,
						  StorageError *error);

/* A cursor, never NULL; opts may be NULL.  Read with cursor_next(). */
extern mongoc_cursor_t *call_find(MongoContext *context, const char *collection,
								  const bson_t *filter, const bson_t *opts);
/* As call_find(), for an aggregation; works where find().sort() on an embedded _id does not. */
extern mongoc_cursor_t *call_aggregate(MongoContext *context, const char *collection,
									   const bson_t *pipeline, int max_time_ms);
/* true: *document is the next one; false: at the end, or an error if error->kind is set */
extern bool cursor_next(MongoContext *context, mongoc_cursor_t *cursor, const bson_t **document,
						const char *doing, StorageError *error);

extern bool call_insert(MongoContext *context, const char *collection, bson_t *const *documents,
						size_t count, StorageError *error);
/* updates with operators, each an upsert of its filter */
extern bool call_upserts(MongoContext *context, const char *collection, bson_t *const *filters,
						 bson_t *const *updates, size_t count, StorageError *error);
/* whole documents by their _id; absent ones are inserted */
extern bool call_replace(MongoContext *context, const char *collection,
						 bson_t *const *documents, size_t count, StorageError *error);
/* update: operators, or a pipeline (array); *matched may be NULL */
extern bool call_update(MongoContext *context, const char *collection, const bson_t *filter,
						const bson_t *update, bool upsert, bool many, int64_t *matched,
						StorageError *error);
extern bool call_delete(MongoContext *context, const char *collection, const bson_t *filter,
						bool many, int max_time_ms, int64_t *deleted, StorageError *error);
/* the document after the update in *value (initialised either way) */
extern bool call_find_and_modify(MongoContext *context, const char *collection,
								 const bson_t *filter, const bson_t *update, bool upsert,
								 bson_t *value, bool *exists, StorageError *error);
extern bool call_command(MongoContext *context, const char *doing, const bson_t *command,
						 bool write, bson_t *reply, StorageError *error);
/* Any insert into checkpoint_events wakes the API; w: 1, never in a transaction. */
extern bool call_checkpoint_event(MongoContext *context, StorageError *error);

extern bool transaction_begin(MongoContext *context, StorageError *error);
extern void transaction_abort(MongoContext *context);
/*
 * Commits, and tries again for a bounded time while the outcome is not known.
 * False, with error->commit_unknown: it may have been done, or not.
 */
extern bool transaction_commit(MongoContext *context, StorageError *error);

typedef bool (*TransactionBody) (MongoContext *context, void *arg, StorageError *error);
/*
 * Runs body in a transaction, as often as transient errors before the commit ask for (contract
 * 3.5: at most 20 times and 90 s; 30 s while the storage is not reached).  conflicts, if not NULL, counts repetitions.
 */
extern bool transaction_run(MongoContext *context, TransactionBody body, void *arg,
							int64_t *conflicts, StorageError *error);

/* something that is held while a transaction runs; take: false with *error if it cannot be had */
typedef struct TransactionTurn
{
	bool		(*take) (void *arg, StorageError *error);
	void		(*give) (void *arg);
	void	   *arg;
} TransactionTurn;
/*
 * The same, with the turn.  Between two tries it is given back when the storage
 * was not reached or the turn has been held for long.
 */
extern bool transaction_run_in_turn(MongoContext *context, TransactionBody body, void *arg,
									const TransactionTurn *turn, int64_t *conflicts,
									StorageError *error);

/* ---------------------------------------------------------------- documents */

extern void append_lsn(bson_t *document, const char *name, uint64_t lsn);
/* null when lsn is STREAM_LSN_NONE */
extern void append_lsn_or_null(bson_t *document, const char *name, uint64_t lsn);
/* a text or null; false when neither or not an LSN.  A field that is absent is NONE. */
extern bool read_lsn(const bson_t *document, const char *name, uint64_t *lsn);
/* int32, int64 or integral double; false when the field is none of them */
extern bool read_integer(const bson_t *document, const char *name, int64_t *value);
extern bool read_bool(const bson_t *document, const char *name, bool missing);
/* NULL when it is not a text */
extern const char *read_text(const bson_t *document, const char *name, uint32_t *len);
extern bool find_field(const bson_t *document, const char *name, bson_iter_t *field);
/* {$dateAdd: {startDate: "$$NOW", unit: "second", amount: seconds}} */
extern void append_server_time(bson_t *document, const char *name, int seconds);
/* int32 where it fits */
extern void append_count(bson_t *document, const char *name, int64_t count);
extern void append_source_table_id(bson_t *document, const char *name, const SourceTableId *id);
extern bool read_source_table_id(const bson_t *document, const char *name, SourceTableId *id);
extern bool random_bytes(void *bytes, size_t len);
extern void random_hex(char *text, size_t digits);	/* and a NUL */
extern int64_t monotonic_us(void);
extern int64_t unix_time_us(void);

/* the stream states as stored */
extern const char *stream_state_name(StreamState state);
extern StreamState stream_state_parse(const char *text);
/* {state: {$in: [...]}} */
extern void append_state_in(bson_t *filter, const StreamState *states, int count);

/* ---------------------------------------------------------------- collections */

#define COLLECTION_STREAMS		"sync_rules"
#define COLLECTION_SEQUENCE		"op_id_sequence"
#define COLLECTION_DATA			"bucket_data"
#define COLLECTION_PARAMETERS	"bucket_parameters"
#define COLLECTION_BUCKETS		"bucket_state"
#define COLLECTION_CURRENT		"current_data"
#define COLLECTION_TABLES		"source_tables"
#define COLLECTION_EVENTS		"checkpoint_events"
#define COLLECTION_WRITES		"write_checkpoints"
#define COLLECTION_CUSTOM_WRITES "custom_write_checkpoints"
#define COLLECTION_CONNECTIONS	"connection_report_events"
#define COLLECTION_MIGRATIONS	"migrations"
/* ours; the API does not read them */
#define COLLECTION_BINDINGS		"pgsync_streams"
#define COLLECTION_PROGRESS		"pgsync_tables"
#define COLLECTION_REJECTED		"pgsync_rejected_rows"
#define COLLECTION_ROW_STATE	"pgsync_row_state"	/* stem: one per stream */

/* Creates a collection; it may exist. */
extern bool ensure_collection(MongoContext *context, const char *name, StorageError *error);

/* ---------------------------------------------------------------- streams */

/*
 * Takes a stream's lock if it is free, expired by the server's clock, or
 * known_lock (may be empty), and the stream is in one of the states; *document
 * receives it as it is then.  LOCK_LOST or STREAM_GONE otherwise.
 */
extern bool lock_stream(MongoContext *context, int32_t stream_id, const StreamState *states,
						int state_count, const char *known_lock, const char *new_lock,
						bson_t *document, StorageError *error);
extern void hold_stream(MongoContext *context, int32_t stream_id, const char *lock_id);
/*
 * Renews a held lock now; STORAGE_LOCK_LOST if it is not ours.  The thread does so when
 * nothing was written for a while; that it failed shows in writer_progress().
 */
extern void storage_renew_lock(MongoContext *context, void *unused, StorageError *error);

/* Filter of the held stream's document: _id and our lock. */
extern void append_held_filter(MongoContext *context, bson_t *filter);

/* STREAM_GONE when the held stream is not to be replicated any more */
extern void check_held_state(MongoContext *context, StorageError *error);

/*
 * Why the held stream's document did not match: sets LOCK_LOST, STREAM_GONE or
 * CHANGED, or leaves *error at STORAGE_OK when nothing of it explains it.
 * Positions are compared with what the writer last knew.
 */
extern void explain_mismatch(MongoContext *context, uint64_t last_checkpoint_lsn,
							 uint64_t snapshot_lsn, StorageError *error);

/* terminate.c: contract 2, "Clear order"; the lock must be held */
extern bool clear_stream(MongoContext *context, int32_t stream_id, StorageError *error);

/* ---------------------------------------------------------------- writer */

/* One flush if there is work; false: nothing to do.  Thread only. */
extern bool writer_step(Writer *writer, MongoContext *context);
extern bool writer_has_work(Writer *writer);	/* under the thread's mutex */
extern bool writer_has_failed(const Writer *writer);	/* under the thread's mutex */
extern void writer_destroy(Writer *writer);
/* an error that a try ended with, or STORAGE_OK: for the main thread to see.  Thread only. */
extern void writer_note_wait(Writer *writer, const StorageError *error);
/* ends the writer; the main thread sees the error.  Thread only. */
extern void writer_fail(Writer *writer, const StorageError *error);

#endif							/* PGSYNC_MONGO_PRIVATE_H */
