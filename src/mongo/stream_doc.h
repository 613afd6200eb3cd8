/*-------------------------------------------------------------------------
 *
 * stream_doc.h
 *	  Documents about streams and source tables, to and from our structures.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGSYNC_STREAM_DOC_H
#define PGSYNC_STREAM_DOC_H

#include "mongo/mongo_private.h"

#define SESSION_ID_LEN	16

/* for so long it counts how many streams were made for lost slots */
#define DAY_MS			INT64_C(86400000)

/* ---- bindings: our collection pgsync_streams, _id = stream id */

typedef struct StreamBinding
{
	bool		exists;
	SourceIdentity identity;
	uint32_t	first_timeline; /* when it was made; 0: not known */
	bool		history_changed;	/* the stream's positions are of another history ... */
	uint64_t	history_lsn;	/* ... as long as this is its last_checkpoint_lsn */
	char		lock_id[LOCK_ID_LEN + 1];	/* empty: none yet */
	int32_t		lineage;		/* the deployment that its config is of; 0: its own */
	bool		has_session;
	uint8_t		session[SESSION_ID_LEN];	/* of the holder of that lock */
} StreamBinding;

extern bool binding_read(MongoContext *context, int32_t stream_id, StreamBinding *binding,
						 StorageError *error);
extern void binding_decode(const bson_t *document, StreamBinding *binding);
/* last_checkpoint_lsn: the stream's, as it is now */
extern bool binding_history_changed(const StreamBinding *binding, uint64_t last_checkpoint_lsn);
/* is it the same cluster and database? */
extern bool binding_matches(const StreamBinding *binding, const SourceIdentity *self);
/* "database "x" of the cluster with system identifier 7 (host:/data)" */
#define OWNER_TEXT_SIZE	256
#define OWNER_HOST_SIZE	100		/* bytes of the host that are shown: it must fit */
extern void identity_describe(const SourceIdentity *identity, char text[OWNER_TEXT_SIZE]);
/*
 * False (STORAGE_BINDING) if a stream that is served, or is to be, belongs to another
 * cluster or database: it would be stopped when one of self becomes active.
 */
extern bool check_owner(MongoContext *context, const SourceIdentity *self, StorageError *error);
/* is it of this server, as far as host name and data directory tell? */
extern bool binding_same_place(const StreamBinding *binding, const SourceIdentity *self);
/* is it that of an earlier process of this very server, on this timeline or an older one? */
extern bool binding_is_predecessor(const StreamBinding *binding, const SourceIdentity *self);
/* the fields that name a source */
extern void append_identity(bson_t *document, const SourceIdentity *self);

/* ---- sync_rules */

extern bool stream_document_read(MongoContext *context, int32_t stream_id, bson_t *document,
								 bool *exists, StorageError *error);
extern StreamState stream_document_state(const bson_t *document);
extern void stream_document_slot(const bson_t *document, int32_t stream_id,
								 char slot_name[STREAM_SLOT_NAME_LEN]);
/* lock.id, empty if none; expires_ms: 0 if none */
extern void stream_document_lock(const bson_t *document, char lock_id[LOCK_ID_LEN + 1],
								 int64_t *expires_ms);
/* PROCESSING and nothing written for it yet, as far as the document tells */
extern bool stream_document_untouched(const bson_t *document);

/*
 * The field with the stored plan, if there is one.  False, with the error, if it is
 * something else than a document or null.
 */
extern bool stream_document_plan(const bson_t *document, int32_t stream_id, bson_iter_t *plan,
								 bool *has_plan, StorageError *error);

/* fills everything but tables and binding; false: out of memory or not by the contract */
extern bool stream_document_decode(const bson_t *document, StreamDoc *stream,
								   StorageError *error);
/* ---- plan_bson.c: the stored plan of an edition-3 config */

/* appends the JSON text's object; false, with the error, if it is none */
extern bool plan_append_bson(bson_t *document, const char *name, const char *json,
							 StorageError *error);
/*
 * The JSON text of a document, with NUL, in the arena, whose guard the caller
 * has set.  NULL if it holds what JSON cannot.
 */
extern char *plan_json_text(const bson_iter_t *field, SyncArena *arena);

/* reads tables and copy progress */
extern bool stream_tables_read(MongoContext *context, StreamDoc *stream, StorageError *error);
extern bool stream_has_data(MongoContext *context, StreamDoc *stream, StorageError *error);

/* ---- source_tables and our pgsync_tables (contract 1.1 and 6) */

extern void source_table_document(const SourceTableDoc *table, int32_t stream_id, bson_t *document);
extern void table_progress_document(const SourceTableDoc *table, int32_t stream_id,
									bson_t *document);

#endif							/* PGSYNC_STREAM_DOC_H */
