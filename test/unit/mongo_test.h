/*-------------------------------------------------------------------------
 *
 * mongo_test.h
 *	  What the tests of src/mongo that need a server share: a database of their
 *	  own, jobs, batches of hand-made changes, reading back.
 *
 * The server is named by PGSYNC_TEST_MONGODB_URI; without it the tests fail.
 *
 *-------------------------------------------------------------------------
 */
#ifndef MONGO_TEST_H
#define MONGO_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <mongoc/mongoc.h>

#include "core/change.h"
#include "core/rules.h"
#include "mongo/mongo.h"
#include "mongo/writer.h"

#define TEST_WAIT_SECONDS	30

/* one process of pgsync: a thread and what it has open */
typedef struct Stand
{
	char		database[64];
	char		uri[256];		/* for the thread; empty: the server itself */
	int			wake_fd;
	MongoThread *thread;
	SourceIdentity self;
	StreamDoc  *stream;
	WriteBatch *batch;
	mongoc_client_t *client;	/* the test's own, for looking and meddling */
} Stand;

extern Stand *stand_create(const char *database);	/* NULL: a new one */
extern void stand_start(Stand *stand);	/* the thread */
extern void stand_stop(Stand *stand);	/* the thread, as a process that dies */
extern void stand_destroy(Stand *stand);	/* drops the database too */
extern void stand_forget(Stand *stand); /* without dropping it */

/* a test with a stand of its own as *state */
extern int	stand_setup(void **state);
extern int	stand_teardown(void **state);
#define stand_test(function) \
	cmocka_unit_test_setup_teardown(function, stand_setup, stand_teardown)

#define CONFIG "bucket_definitions:\n  global:\n    data: []\n"
/* another process for the same database */
extern Stand *second_stand(Stand *first);
/* the stand, with a stream of CONFIG whose copy is done, served, at LSN 0x100 */
extern Stand *active_stand(void **state);

extern StorageError stand_try(Stand *stand, MongoJobFunction function, void *arg);
extern void stand_run(Stand *stand, MongoJobFunction function, void *arg);	/* must succeed */
extern int32_t stand_deploy(Stand *stand, const char *content);
extern void stand_open(Stand *stand, int32_t stream_id);
extern void stand_write(Stand *stand, const WriterOptions *options);	/* starts the writer */
/* the process dies, and the next one opens stream 1 and writes */
extern void stand_start_again(Stand *stand, const WriterOptions *options);

/* batches: items are added to stand->batch, which is made if need be */
extern WriteItem *add(Stand *stand, WriteItemKind kind, uint64_t lsn);
extern void begin(Stand *stand, uint64_t end);
extern void commit(Stand *stand, uint64_t end);
extern void submit(Stand *stand);
extern WriterProgress wait_idle(Stand *stand);	/* until everything is stored, or failed */
extern WriterProgress stored(Stand *stand); /* submit, wait, and it must not have failed */
extern StorageError failure(Stand *stand);	/* submit, wait, and it must have failed */

/* rows of a table that rules read */
typedef struct RulesTable
{
	SourceTable *table;
	SyncArena  *plan_arena;
	SyncRowType type;
	SyncColumn	columns[8];
	int			identity;		/* the first column */
} RulesTable;

/* columns, ended by NULL; the first one is the identity.  prefix: of bucket names */
extern RulesTable *rules_table_create(const char *yaml, const char *prefix, const char *name, ...);
extern void rules_table_free(RulesTable *table);
/* values by column; undefined ones make the change incomplete.  key_before: NULL, or the old key */
extern RowChange *add_values(Stand *stand, RowChangeKind kind, RulesTable *table,
							 const SyncValue *values, const char *key_before);

/* a text; NULL: undefined */
extern SyncValue value(const char *s);

/* a table without rules: rows are evaluated by hand */
extern SourceTable *table_create(const char *name);
extern SourceKey key_of(const char *id);

/* bucket names, ended by NULL: the row is put into them as table/id with that JSON */
extern RowChange *add_row(Stand *stand, RowChangeKind kind, SourceTable *table, const char *id,
						  const char *json, ...);
extern RowChange *add_delete(Stand *stand, SourceTable *table, const char *id);
extern void add_lookup(Stand *stand, RowChange *change, const char *value);
extern WriteItem *add_table(Stand *stand, WriteItemKind kind, SourceTable *table, bool done);

/*
 * A proxy before the server that forwards a commit and loses its answer, so many
 * times.  The stand's thread must be started anew to go through it.
 */
typedef struct LossyProxy LossyProxy;
extern LossyProxy *lossy_proxy_start(Stand *stand, int losses);
extern void lossy_proxy_lose(LossyProxy *proxy, int losses);
/*
 * So many commits that follow a lost one are not those of a transaction that the
 * server knows: as if it had crashed and did not remember what it had committed.
 */
extern void lossy_proxy_forget(LossyProxy *proxy, int count);
/* what is in a request instead of "commitTransaction"; must stay valid */
extern void lossy_proxy_of(LossyProxy *proxy, const char *needle);
extern int	lossy_proxy_stop(LossyProxy *proxy);	/* how many answers were lost */

/* a row with the id "wide" in so many buckets: 1#w[first] and so on */
extern void add_wide_row(Stand *stand, RowChangeKind kind, SourceTable *table, int first,
						 int count);
/* What is submitted next is not more than begun: the answers to all commits are lost. */
extern LossyProxy *begin_dying(Stand *stand, const WriterOptions *options);
/* The process dies when the first part is stored; the next one has opened the stream. */
extern void die_after_first_part(Stand *stand, LossyProxy *proxy, const WriterOptions *options);

/* reading back */
extern int64_t count_documents(Stand *stand, const char *collection, const char *filter);
/* the field of the only document that matches, as JSON; "absent" and "none" otherwise */
extern char *field_of(Stand *stand, const char *collection, const char *filter,
					  const char *path);
extern void command(Stand *stand, const char *json);
#define UPDATE(collection, filter, update) \
	"{\"update\": \"" collection "\", \"updates\": [{\"q\": " filter ", \"u\": " update "}]}"
/* "PUT a1 12, REMOVE a2 13": ops of a bucket in order; ids relative to base if not 0 */
extern char *ops_of(Stand *stand, const char *bucket);

#define assert_field(stand, collection, filter, path, expected) \
	do { \
		char	   *got_ = field_of(stand, collection, filter, path); \
		assert_string_equal(got_, expected); \
		free(got_); \
	} while (0)

#define assert_ops(stand, bucket, expected) \
	do { \
		char	   *got_ = ops_of(stand, bucket); \
		assert_string_equal(got_, expected); \
		free(got_); \
	} while (0)

#endif							/* MONGO_TEST_H */
