/*-------------------------------------------------------------------------
 *
 * documents.h
 *	  Sets of documents of one flush, and what differs between the storage
 *	  versions when they are made.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGSYNC_DOCUMENTS_H
#define PGSYNC_DOCUMENTS_H

#include "mongo/mongo_private.h"

/*
 * Documents for one collection: inserts, or upserts by filter.  A set owns
 * what is in it.
 */
typedef struct DocumentGroup
{
	char		collection[COLLECTION_NAME_SIZE];
	bool		upserts;
	size_t		count;
	size_t		capacity;
	bson_t	  **documents;
	bson_t	  **filters;		/* upserts only */
} DocumentGroup;

#define MAX_DOCUMENT_GROUPS	64

typedef struct DocumentSet
{
	DocumentGroup groups[MAX_DOCUMENT_GROUPS];
	int			group_count;
} DocumentSet;

extern void document_set_init(DocumentSet *set);
extern void document_set_destroy(DocumentSet *set);
/* the group of that name, made if need be; NULL: too many groups */
extern DocumentGroup *document_set_group(DocumentSet *set, const char *collection, bool upserts);
/* takes over both; filter NULL for inserts */
extern void document_group_add(DocumentGroup *group, bson_t *filter, bson_t *document);
/* Writes all groups in the order they were made. */
extern bool document_set_write(MongoContext *context, const DocumentSet *set, StorageError *error);

/* Where a stream stands; kept by its writer, equal to its document. */
typedef struct StreamPosition
{
	bool		snapshot_done;
	bool		active;
	uint64_t	snapshot_lsn;
	uint64_t	last_checkpoint_lsn;
	uint64_t	no_checkpoint_before;
	int64_t		last_checkpoint;	/* -1: null */
	int64_t		keepalive_op;	/* -1: null */
	int64_t		persisted_op;	/* highest op id not covered by a checkpoint; 0: none */
} StreamPosition;

/*
 * One storage version.  operations() makes the documents of ops[0..count),
 * with op ids from first_op_id on in order.  position() appends to $set of a
 * pipeline update what brings the stream document from one position to the
 * next; checkpoint: the new position is a checkpoint.
 */
typedef struct StorageFormat
{
	int32_t		version;
	size_t		(*operation_size) (const BucketOp *op);	/* upper bound of its document's bytes */
	bool		(*operations) (DocumentSet *set, int32_t stream_id, const BucketOp *ops,
							   size_t count, int64_t first_op_id);
	void		(*position) (bson_t *set, const StreamPosition *from, const StreamPosition *to,
							 bool checkpoint);
} StorageFormat;

/* NULL: a version we do not write */
extern const StorageFormat *storage_format(int32_t version);

#endif							/* PGSYNC_DOCUMENTS_H */
