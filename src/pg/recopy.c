/*-------------------------------------------------------------------------
 *
 * recopy.c
 *	  The copy of one table while the stream runs: of one whose stored rows may
 *	  differ from the table's, or whose rows have not come through the stream
 *	  (design 4, "Copy of one table while streaming").
 *
 * The stream has already passed, so nothing would mend a row that is read too early
 * or too late.  Each chunk is read between two messages in the WAL, its watermarks:
 *
 *	1. the low one is written; then stragglers are waited for, so that a snapshot
 *	   shows all that was committed before it;
 *	2. the chunk is read, evaluated and kept; the high one is written, after all
 *	   that the snapshot showed;
 *	3. while the stream is decoded from the low to the high one, rows that change are
 *	   struck from the chunk: the stream has the later version.  TRUNCATE and DDL in
 *	   between make it void;
 *	4. at the high one what is left goes to the writer: it is what the stream would
 *	   show there.
 *
 * From where a table was marked its changes carry the copy's round, as do the rows of
 * the chunks.  After the last chunk stored rows without it are removed: they are not
 * in the table any more.
 *
 * Tables without identity: rows that the stream inserts have keys of their own, so a
 * chunk must not hold them again.  The copy begins with a message of its own: what
 * was committed before it is copied, what is committed after it comes through the
 * stream.  A row's inserter began after it, or it is among those that were decoded
 * since (or the row is copied).
 *
 * Steps are taken between two records of the stream.  None of them waits, and one
 * chunk at a time is under way, so that commits are not held up.
 *
 * Invariants: nothing is held, no lock and no snapshot, while a chunk waits for its
 * high watermark; a chunk is applied at its own high watermark or never, and only if
 * neither the table's copy nor the table has begun anew since it was read.
 *
 *-------------------------------------------------------------------------
 */
#include "worker.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "access/transam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

/* part of "pgsync.copy_chunk_size" that a chunk takes: commits wait for one at most */
#define CHUNK_PART			8

/* changed keys that are kept before the chunk is read; beyond, it begins again */
#define MAX_KEYS			100000
/* inserting transactions that are kept for a table without identity */
#define MAX_INSERTERS		1000000

#define WATERMARK_SIZE		160

typedef enum RecopyState
{
	RECOPY_IDLE,
	RECOPY_STARTING,			/* the message that begins a copy without identity is not decoded */
	RECOPY_WAITING,				/* for stragglers; the low watermark is written */
	RECOPY_READ					/* the chunk is read, the high watermark written */
} RecopyState;

/* a row of the chunk, or one that changed before it was read */
typedef struct ChunkKey
{
	SourceKey	key;			/* hash key */
	bool		struck;
} ChunkKey;

/* of a table without identity, from where its copy has begun */
typedef struct RecopyStart
{
	TransactionId next_xid;		/* what has this or a later one comes through the stream */
	bool		decoded;		/* the stream has come to the beginning */
	HTAB	   *inserters;		/* older ones that have inserted rows since */
} RecopyStart;

typedef struct Recopy
{
	RecopyState state;
	KnownTable *known;			/* while not idle */
	uint64		process;		/* random: messages of others, and of the past, are not ours */
	uint64		number;			/* of the last chunk */
	char		low[WATERMARK_SIZE];
	char		high[WATERMARK_SIZE];
	bool		low_decoded;
	bool		is_void;		/* by what came between the watermarks */

	Stragglers	stragglers;
	TimestampTz next_look;
	long		pause;

	MemoryContext context;		/* of the chunk */
	HTAB	   *keys;			/* ChunkKey */
	WriteBatch *batch;
	TransactionId *xmins;		/* of the batch's rows, if the table has no identity */
	int			xmin_count;
	int			xmin_room;
	SourceTableDoc progress;	/* as it is after the chunk; strings are the table's */
	bool		more;

	int64_t		chunks_before;	/* that were stored before the first one */
	int64_t		chunks_sent;
	int			tables_done;	/* since none was due */
	bool		waits;			/* status names a process */
} Recopy;

static Recopy recopy = {0};

/* for the scan of a table without identity: xids from the first on up to the second are new */
static TransactionId filter_from;
static TransactionId filter_to;

/* ---------------------------------------------------------------- beginning and giving up */

bool
recopy_has_begun(const KnownTable *known)
{
	return known->doc.next_tid > 0 || known->start != NULL ||
		(recopy.state != RECOPY_IDLE && recopy.known == known);
}

/*
 * Will the table's copy bring every row as it was changed up to here?  A first chunk that
 * is not read yet begins again for that: what it waits for may take long, and the stream
 * would wait, too, for a row to be read.
 */
bool
recopy_covers_past(const KnownTable *known)
{
	if (recopy.state == RECOPY_WAITING && recopy.known == known && known->doc.next_tid == 0 &&
		known->start == NULL)
	{
		recopy.is_void = true;
		return true;
	}
	return !recopy_has_begun(known);
}

static void
end_chunk(void)
{
	stragglers_free(&recopy.stragglers);
	if (recopy.batch != NULL)
		write_batch_free(recopy.batch);
	if (recopy.context != NULL)
		MemoryContextDelete(recopy.context);
	recopy.batch = NULL;
	recopy.context = NULL;
	recopy.keys = NULL;
	recopy.xmins = NULL;
	recopy.xmin_count = recopy.xmin_room = 0;
	recopy.state = RECOPY_IDLE;
	recopy.known = NULL;
}

void
recopy_drop_chunk(const KnownTable *known)
{
	if (recopy.state != RECOPY_IDLE && recopy.known == known && recopy.low_decoded)
		recopy.is_void = true;
}

void
recopy_abandon(KnownTable *known)
{
	if (recopy.state != RECOPY_IDLE && recopy.known == known)
		end_chunk();
	if (known->start != NULL)
	{
		hash_destroy(known->start->inserters);
		pfree(known->start);
		known->start = NULL;
	}
}

/* The table cannot be read now; others come first. */
static void
look_later(Worker *worker, KnownTable *known)
{
	end_chunk();
	known->pause = longer_pause(known->pause);
	known->next_look = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), known->pause);
}

static void
show_wait(Worker *worker, Blocker blocker)
{
	show_blocker(worker, &blocker);
	recopy.waits = true;
}

static void
end_wait(Worker *worker)
{
	if (recopy.waits)
		waited_for_others(worker);
	recopy.waits = false;
}

static void
write_watermark(Worker *worker, char *text, const char *kind, const KnownTable *known)
{
	char		id[2 * sizeof(SourceTableId) + 1];

	if (recopy.process == 0 && !pg_strong_random(&recopy.process, sizeof(recopy.process)))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not generate a random number")));
	for (int i = 0; i < (int) sizeof(SourceTableId); i++)
		snprintf(id + 2 * i, 3, "%02x", known->doc.id.bytes[i]);
	snprintf(text, WATERMARK_SIZE, "copy %d %s %lld %llu %016llx %s", worker->stream->id, id,
			 (long long) known->doc.copy_round, (unsigned long long) recopy.number,
			 (unsigned long long) recopy.process, kind);
}

/* ---------------------------------------------------------------- which table */

static KnownTable *
next_table(Worker *worker, TimestampTz now)
{
	ListCell   *cell;

	foreach(cell, worker->tables)
	{
		KnownTable *known = lfirst(cell);

		if (source_table_is_due(known) && known->next_look <= now)
			return known;
	}
	return NULL;
}

static void
show_progress(Worker *worker, const SourceTableDoc *doc)
{
	int			due = 0;
	ListCell   *cell;

	foreach(cell, worker->tables)
		due += source_table_is_due(lfirst(cell));
	show_copy_progress(worker, doc, recopy.tables_done, recopy.tables_done + due);
	if (due == 0)
		recopy.tables_done = 0;
}

/*
 * Without identity the copy begins with a message, and the round with it: what the
 * stream has inserted before is copied like all else.
 */
static void
begin_without_identity(Worker *worker, KnownTable *known)
{
	HASHCTL		control = {.keysize = sizeof(TransactionId), .entrysize = sizeof(TransactionId),
	.hcxt = TopMemoryContext};

	known->start = MemoryContextAllocZero(TopMemoryContext, sizeof(RecopyStart));
	known->start->inserters = hash_create("pgsync inserters", 64, &control,
										  HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	recopy.known = known;
	recopy.state = RECOPY_STARTING;
	recopy.number++;
	write_watermark(worker, recopy.low, "begin", known);
	XLogFlush(write_message(recopy.low));
	/* who gets a later xid commits after the message */
	known->start->next_xid = XidFromFullTransactionId(ReadNextFullTransactionId());
}

static void
begin_chunk(Worker *worker, KnownTable *known)
{
	HASHCTL		control = {.keysize = sizeof(SourceKey), .entrysize = sizeof(ChunkKey)};

	recopy.known = known;
	recopy.state = RECOPY_WAITING;
	recopy.number++;
	recopy.low_decoded = recopy.is_void = false;
	recopy.pause = 0;
	recopy.next_look = 0;
	recopy.context = AllocSetContextCreate(TopMemoryContext, "pgsync chunk",
										   ALLOCSET_DEFAULT_SIZES);
	control.hcxt = recopy.context;
	recopy.keys = hash_create("pgsync chunk keys", 1024, &control,
							  HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	write_watermark(worker, recopy.low, "low", known);
	(void) write_message(recopy.low);
	stragglers_begin(&recopy.stragglers);
}

/* ---------------------------------------------------------------- reading */

/* By a transaction that began after the copy: the stream brings it. */
static bool
is_inserted_since(HeapTuple tuple)
{
	TransactionId xmin = HeapTupleHeaderGetRawXmin(tuple->t_data);

	/* of an updated row nobody knows where it was inserted: better twice than never */
	if ((tuple->t_data->t_infomask & HEAP_UPDATED) == 0 && TransactionIdIsNormal(xmin) &&
		xmin - filter_from < filter_to - filter_from)
		return true;
	if (recopy.xmin_count == recopy.xmin_room)
	{
		recopy.xmin_room = Max(recopy.xmin_room * 2, 1024);
		recopy.xmins = recopy.xmins == NULL ?
			MemoryContextAlloc(recopy.context, sizeof(TransactionId) * recopy.xmin_room) :
			repalloc(recopy.xmins, sizeof(TransactionId) * recopy.xmin_room);
	}
	recopy.xmins[recopy.xmin_count++] =
		(tuple->t_data->t_infomask & HEAP_UPDATED) == 0 ? xmin : InvalidTransactionId;
	return false;
}

/* Keys of the chunk's rows; some have changed already. */
static void
note_chunk_keys(void)
{
	for (WriteItem *item = recopy.batch->first; item != NULL; item = item->next)
	{
		ChunkKey   *entry;
		bool		found;

		if (item->kind != WRITE_ROW || item->row->kind != ROW_RECOPY)
			continue;
		entry = hash_search(recopy.keys, &item->row->after, HASH_ENTER, &found);
		if (!found)
			entry->struck = false;
	}
}

/*
 * The relation is not, or not yet, what the stream knows.  If the stream has gone past
 * where it was seen like this, and has not told otherwise, then it is as it is: what
 * was stored of its shape was too late or too early.
 */
static void
note_other_shape(Worker *worker, KnownTable *known, const RelationEntry *entry)
{
	SourceTableDoc *doc = &known->doc;

	if (entry == NULL || entry->known != known || entry->signature == NULL)
		return;
	if (known->present_signature == NULL ||
		strcmp(known->present_signature, entry->signature) != 0)
	{
		if (known->present_signature != NULL)
			pfree(known->present_signature);
		known->present_signature = MemoryContextStrdup(TopMemoryContext, entry->signature);
		known->present_lsn = GetXLogInsertRecPtr();
	}
	else if (worker->decoding->reader->EndRecPtr >= known->present_lsn)
	{
		pfree(doc->signature);
		doc->signature = known->present_signature;
		doc->signature_lsn = known->present_lsn;
		known->present_signature = NULL;
		source_table_store(worker, known);
	}
}

/* In its transaction, with its lock.  False: not now. */
static bool
read_rows(Worker *worker, KnownTable *known, Relation relation)
{
	Size		limit = (Size) *worker->preloaded->settings.copy_chunk_size * 1024 / CHUNK_PART;
	RelationEntry *entry = relation != NULL ? relation_look(worker, relation) : NULL;
	bool		has_identity = known->doc.identity_count > 0;

	if (entry == NULL || !entry->wanted || entry->known != known)
	{
		note_other_shape(worker, known, entry);
		return false;
	}
	recopy.progress = known->doc;
	if (chunk_check_file(&recopy.progress, relation) && !has_identity &&
		known->doc.relfilenode != 0)
	{
		/* keys follow from where rows lie in the file */
		(void) source_table_mark(worker, known, "it got another file while it was copied");
		return false;
	}
	if (!has_identity)
	{
		filter_from = known->start->next_xid;
		filter_to = XidFromFullTransactionId(ReadNextFullTransactionId());
	}
	worker_submit(worker);
	worker->in_chunk = true;
	(void) write_batch_add(worker_batch(worker), WRITE_CHUNK_BEGIN, 0);
	recopy.more = scan_chunk(worker, ROW_RECOPY, &recopy.progress, relation, entry, limit,
							 has_identity ? NULL : is_inserted_since);
	recopy.batch = worker->batch;
	worker->batch = NULL;
	worker->in_chunk = false;
	if (has_identity)
		note_chunk_keys();
	return true;
}

/* A transaction, a lock if it is to be had, a snapshot.  False: not now. */
static bool
read_in_transaction(Worker *worker, KnownTable *known)
{
	Oid			relid = known->doc.relation_id;
	Relation	relation;
	bool		done;

	StartTransactionCommand();
	if (!ConditionalLockRelationOid(relid, AccessShareLock))
	{
		show_wait(worker, lock_holder(relid));
		CommitTransactionCommand();
		return false;
	}
	relation = try_relation_open(relid, AccessShareLock);
	PushActiveSnapshot(GetTransactionSnapshot());
	done = read_rows(worker, known, relation);
	PopActiveSnapshot();
	if (relation != NULL)
		relation_close(relation, AccessShareLock);
	CommitTransactionCommand();
	return done;
}

static void
read_chunk(Worker *worker)
{
	KnownTable *known = recopy.known;
	bool		done;

	InvalidateSystemCaches();
	relation_cache_invalidate_all();
	worker->rereading = true;
	set_decoding_flag(false);
	done = read_in_transaction(worker, known);
	set_decoding_flag(true);
	worker->rereading = false;
	InvalidateSystemCaches();
	relation_cache_invalidate_all();
	if (!done)
	{
		look_later(worker, known);
		return;
	}
	end_wait(worker);
	known->pause = 0;
	recopy.state = RECOPY_READ;
	write_watermark(worker, recopy.high, "high", known);
	/* what the chunk shows is flushed before the stream gets here */
	XLogFlush(write_message(recopy.high));
}

static void
wait_or_read(Worker *worker, TimestampTz now)
{
	Blocker		blocker;

	if (now < recopy.next_look)
		return;
	if (recopy.is_void)
	{
		end_chunk();			/* begins again at the next step */
		return;
	}
	if (stragglers_are_over(&recopy.stragglers, &blocker))
	{
		read_chunk(worker);
		return;
	}
	show_wait(worker, blocker);
	recopy.pause = longer_pause(recopy.pause);
	recopy.next_look = TimestampTzPlusMilliseconds(now, recopy.pause);
}

/* The writer has stored the last chunk; the queue has room. */
static bool
writer_is_ready(Worker *worker)
{
	return worker->chunks_stored - recopy.chunks_before >= recopy.chunks_sent &&
		!writer_queue_full(worker->storage->thread);
}

void
recopy_step(Worker *worker)
{
	TimestampTz now;
	KnownTable *known;

	if (!worker->copies_due)
	{
		end_wait(worker);
		return;
	}
	if (recopy.state == RECOPY_IDLE && writer_is_ready(worker))
	{
		now = GetCurrentTimestamp();
		known = next_table(worker, now);
		if (known == NULL)
			return;
		if (recopy.chunks_sent == 0)
			recopy.chunks_before = worker->chunks_stored;
		if (known->doc.copy_round == 0)
		{
			/* marked by an earlier version */
			known->doc.copy_round = 1;
			known->doc.next_tid = 0;
			source_table_store(worker, known);
		}
		if (known->doc.identity_count == 0 && known->start == NULL)
			begin_without_identity(worker, known);
		else
			begin_chunk(worker, known);
	}
	/* neither a transaction nor what was read waits for the storage */
	if (recopy.state == RECOPY_WAITING && !writer_queue_full(worker->storage->thread))
		wait_or_read(worker, GetCurrentTimestamp());
}

TimestampTz
recopy_due(const Worker *worker)
{
	TimestampTz due = DT_NOEND;
	ListCell   *cell;

	if (!worker->copies_due)
		return due;
	if (recopy.state == RECOPY_WAITING)
		return writer_queue_full(worker->storage->thread) ? DT_NOEND : recopy.next_look;
	if (recopy.state != RECOPY_IDLE || !writer_is_ready((Worker *) worker))
		return due;
	foreach(cell, worker->tables)
	{
		KnownTable *known = lfirst(cell);

		if (source_table_is_due(known))
			due = Min(due, known->next_look);
	}
	return due;
}

/* ---------------------------------------------------------------- the stream */

static void
strike(const SourceKey *key)
{
	ChunkKey   *entry;
	bool		found;

	if (recopy.state == RECOPY_READ)
	{
		entry = hash_search(recopy.keys, key, HASH_FIND, NULL);
		if (entry != NULL)
			entry->struck = true;
		return;
	}
	if (hash_get_num_entries(recopy.keys) >= MAX_KEYS)
	{
		recopy.is_void = true;
		return;
	}
	entry = hash_search(recopy.keys, key, HASH_ENTER, &found);
	entry->struck = true;
}

void
recopy_note_change(const KnownTable *known, const RowChange *change)
{
	if (recopy.state == RECOPY_IDLE || recopy.known != known || !recopy.low_decoded ||
		recopy.is_void || known->doc.identity_count == 0)
		return;
	if (change->has_before)
		strike(&change->before);
	if (change->kind != ROW_DELETE)
		strike(&change->after);
}

void
recopy_note_insert(Worker *worker, KnownTable *known, TransactionId xid)
{
	RecopyStart *start = known->start;

	if (start == NULL || !start->decoded || !TransactionIdPrecedes(xid, start->next_xid))
		return;
	if (hash_get_num_entries(start->inserters) >= MAX_INSERTERS)
	{
		(void) source_table_mark(worker, known, "too many transactions inserted rows when its copy began");
		return;
	}
	(void) hash_search(start->inserters, &xid, HASH_ENTER, NULL);
}

/* Takes the rows out of the chunk that the stream has a later version of. */
static void
remove_struck_rows(const KnownTable *known)
{
	WriteBatch *batch = recopy.batch;
	WriteItem **link = &batch->first;
	int			row = 0;

	batch->last = NULL;
	while (*link != NULL)
	{
		WriteItem  *item = *link;
		bool		struck = false;

		if (item->kind == WRITE_ROW && known->doc.identity_count == 0)
			struck = hash_search(known->start->inserters, &recopy.xmins[row++], HASH_FIND,
								 NULL) != NULL;
		else if (item->kind == WRITE_ROW && item->row->kind == ROW_RECOPY)
			struck = ((ChunkKey *) hash_search(recopy.keys, &item->row->after, HASH_FIND,
											   NULL))->struck;
		if (struck)
		{
			source_table_release(item->row->table);
			*link = item->next;
			batch->item_count--;
		}
		else
		{
			batch->last = item;
			link = &item->next;
		}
	}
}

/* The last chunk is with the writer: what the copy did not find is not there any more. */
static void
finish_table(Worker *worker, KnownTable *known, XLogRecPtr high)
{
	SourceTableDoc *doc = &known->doc;
	WriteItem  *item;

	recopy_abandon(known);
	source_tables_drop_replaced(worker, known);
	doc->stale = false;
	doc->rows_estimated = doc->rows_copied;
	item = write_batch_add(worker_batch(worker), WRITE_TABLE_SWEEP, high);
	item->table_doc = source_table_doc_copy(doc, worker->batch->arena);
	worker_submit(worker);
	worker->ping = true;
	known->reason = NULL;
	recopy.tables_done++;
	source_tables_changed(worker);
	ereport(LOG,
			(errmsg("pgsync has copied table \"%s.%s\" again for replication stream %d: %lld rows",
					doc->schema, doc->name, worker->stream->id, (long long) doc->rows_copied)));
}

/* The stream is at the high watermark: here is what it would show. */
static void
apply_chunk(Worker *worker, XLogRecPtr high)
{
	KnownTable *known = recopy.known;
	SourceTableDoc *doc = &known->doc;
	WriteBatch *batch;
	WriteItem  *item;
	bool		more = recopy.more;

	remove_struck_rows(known);
	doc->relfilenode = recopy.progress.relfilenode;
	doc->next_tid = recopy.progress.next_tid;
	doc->rows_copied = recopy.progress.rows_copied;
	doc->rows_estimated = recopy.progress.rows_estimated;
	doc->fence = high;

	batch = recopy.batch;
	recopy.batch = NULL;
	batch->first->lsn = high;
	item = write_batch_add(batch, WRITE_CHUNK_END, high);
	item->table_doc = source_table_doc_copy(doc, batch->arena);
	worker_submit(worker);		/* what precedes it in the stream */
	worker_wait_for_queue(worker);
	writer_submit(worker->storage->thread, batch);
	recopy.chunks_sent++;
	end_chunk();
	if (!more)
		finish_table(worker, known, high);
	show_progress(worker, doc);
}

static bool
is_text(const char *message, Size size, const char *text)
{
	return size == strlen(text) && memcmp(message, text, size) == 0;
}

void
recopy_message(Worker *worker, const char *text, Size size, XLogRecPtr end)
{
	KnownTable *known = recopy.known;

	switch (recopy.state)
	{
		case RECOPY_IDLE:
			break;
		case RECOPY_STARTING:
			if (!is_text(text, size, recopy.low))
				break;
			end_chunk();
			known->start->decoded = true;
			known->doc.copy_round++;
			known->doc.next_tid = 0;
			known->doc.relfilenode = 0;
			known->doc.rows_copied = 0;
			source_table_store(worker, known);
			break;
		case RECOPY_WAITING:
		case RECOPY_READ:
			if (is_text(text, size, recopy.low))
				recopy.low_decoded = true;
			else if (recopy.state == RECOPY_READ && is_text(text, size, recopy.high))
			{
				if (recopy.is_void)
					end_chunk();
				else
					apply_chunk(worker, end);
			}
			break;
	}
}
