/*-------------------------------------------------------------------------
 *
 * copy.c
 *	  The initial copy: tables in chunks, each in a short transaction of its
 *	  own, before streaming starts.
 *
 * The stream begins before the first chunk, so it replays every change over what
 * was copied; what has to hold for that is design 4, "Initial copy":
 *	1. stragglers: transactions whose commit record is written but which
 *	   still look running are waited for before the first snapshot;
 *	2. fence: no checkpoint before the end of WAL at each chunk's snapshot, and
 *	   that WAL is flushed before a row of the chunk is sent;
 *	3. rows whose state exists are skipped (by the writer);
 *	4. shape: a chunk belongs to one relfilenode and one signature; DDL acts at its
 *	   place in the stream, never here;
 *	5. bounds: a chunk ends at any row when its bytes are used up.
 *
 * What is not here: copying a table while the stream runs (recopy.c), and single
 * rows (reread.c).
 *
 * Invariant: no transaction and no snapshot is held while waiting for the
 * storage.
 *
 *-------------------------------------------------------------------------
 */
#include "worker.h"

#include "access/relation.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

/*
 * Progress that belongs to another file is void.  The rows already copied stay: the
 * stream brings them up to date, and the writer skips them.  Rows that another shape
 * would give otherwise cannot be mended that way: a copy under the stream does it
 * (design 4, rule 4).
 */
static void
check_chunk_shape(KnownTable *known, Relation relation, RelationEntry *entry, XLogRecPtr position)
{
	SourceTableDoc *doc = &known->doc;
	bool		other = doc->signature != NULL && strcmp(doc->signature, entry->signature) != 0;

	if (other && shape_makes_stale(doc, entry))
	{
		doc->stale = true;
		doc->copy_round = Max(doc->copy_round, 1);
	}
	if (other)
		pfree(doc->signature);
	if (other || doc->signature == NULL)
		doc->signature = MemoryContextStrdup(TopMemoryContext, entry->signature);
	doc->signature_lsn = position;
	(void) chunk_check_file(doc, relation);
}

/* A copy under the stream that is due begins at the beginning. */
static void
end_table(SourceTableDoc *doc)
{
	doc->snapshot_done = true;
	doc->rows_estimated = doc->rows_copied;
	if (doc->stale)
		doc->next_tid = doc->relfilenode = 0;
}

/*
 * One chunk: a transaction, a snapshot, a batch.  Returns false when the table
 * has no more rows, or is gone.
 */
static bool
copy_chunk(Worker *worker, Oid relid, int done, int total)
{
	Size		limit = (Size) *worker->preloaded->settings.copy_chunk_size * 1024;
	Relation	relation;
	RelationEntry *entry;
	KnownTable *known;
	WriteItem  *begin;
	WriteItem  *end;
	XLogRecPtr	position;
	bool		more;

	worker_wait_for_queue(worker);
	relation = begin_reading(worker, relid);
	if (relation == NULL)
	{
		/* dropped meanwhile: that acts at its position in the stream */
		CommitTransactionCommand();
		return false;
	}
	/* what has changed the table, with a lock on it, has its commit record before this */
	position = GetXLogInsertRecPtr();
	PushActiveSnapshot(GetTransactionSnapshot());
	entry = relation_entry(worker, relation);
	known = entry == NULL ? NULL : entry->known;
	if (known == NULL || known->doc.snapshot_done)
	{
		PopActiveSnapshot();
		relation_close(relation, AccessShareLock);
		CommitTransactionCommand();
		return false;
	}
	check_chunk_shape(known, relation, entry, position);

	worker_submit(worker);		/* what precedes the chunk, such as a new table */
	worker->in_chunk = true;
	begin = write_batch_add(worker_batch(worker), WRITE_CHUNK_BEGIN, 0);
	more = scan_chunk(worker, ROW_COPY, &known->doc, relation, entry, limit, NULL);
	PopActiveSnapshot();
	relation_close(relation, AccessShareLock);
	CommitTransactionCommand();

	/* everything the snapshot saw was in the WAL before this */
	begin->lsn = write_fence(worker, FENCE_TEXT);
	known->doc.fence = begin->lsn;
	if (!more)
		end_table(&known->doc);
	end = write_batch_add(worker_batch(worker), WRITE_CHUNK_END, begin->lsn);
	end->table_doc = source_table_doc_copy(&known->doc, worker->batch->arena);
	worker->in_chunk = false;
	worker_submit(worker);
	show_copy_progress(worker, &known->doc, done + (more ? 0 : 1), total);
	return more;
}

/*
 * Tables whose copy had begun and that are gone now, not published any more, or of
 * another name or identity: nothing is left to copy.  That acts when the stream gets
 * there.
 */
static void
finish_vanished_tables(Worker *worker)
{
	ListCell   *cell;

	foreach(cell, worker->tables)
	{
		KnownTable *known = lfirst(cell);
		WriteItem  *item;

		if (known->dropped || known->doc.snapshot_done)
			continue;
		end_table(&known->doc);
		(void) write_batch_add(worker_batch(worker), WRITE_CHUNK_BEGIN, known->doc.fence);
		item = write_batch_add(worker_batch(worker), WRITE_CHUNK_END, known->doc.fence);
		item->table_doc = source_table_doc_copy(&known->doc, worker->batch->arena);
	}
}

/*
 * Copies every table that the rules read and whose copy is not complete, then
 * says so.  A crash at any point costs one chunk.
 */
void
copy_tables(Worker *worker)
{
	List	   *oids;
	ListCell   *cell;
	int			done = 0;
	XLogRecPtr	fence;
	MemoryContext old;

	worker_set_phase(worker, PHASE_COPYING);
	relation_cache_invalidate_all();
	wait_for_stragglers(worker);

	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	worker->publication = publication_state(&worker->preloaded->settings);
	old = MemoryContextSwitchTo(TopMemoryContext);
	oids = list_copy(relations_to_copy(worker));
	MemoryContextSwitchTo(old);
	PopActiveSnapshot();
	CommitTransactionCommand();

	LWLockAcquire(&worker->shared->lock, LW_EXCLUSIVE);
	worker->entry->tables_total = list_length(oids);
	LWLockRelease(&worker->shared->lock);

	foreach(cell, oids)
	{
		while (copy_chunk(worker, lfirst_oid(cell), done, list_length(oids)))
		{
			worker_collect(worker);
			worker_check_interrupts(worker);
			worker_watch_streams(worker);
		}
		done++;
	}
	list_free(oids);
	finish_vanished_tables(worker);

	fence = write_fence(worker, FENCE_TEXT);
	write_batch_add(worker_batch(worker), WRITE_SNAPSHOT_DONE, fence);
	worker_submit(worker);
	worker_wait_until_stored(worker);
	worker->stream->snapshot_done = true;
}

