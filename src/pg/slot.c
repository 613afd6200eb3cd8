/*-------------------------------------------------------------------------
 *
 * slot.c
 *	  The stream's replication slot: create, acquire, health, confirm, drop;
 *	  and the check that stored position and server share one history.
 *
 * The position stored with the data is the truth; the slot's own is a hint that
 * may go back in a crash (in-server-decoding.md, section 5).
 *
 * Invariant: confirmed_flush <= stored position, always.  A slot is created
 * before anything is stored for its stream; its consistent point is stored before
 * anything else is.
 *
 *-------------------------------------------------------------------------
 */
#include "worker.h"

#include "access/timeline.h"
#include "access/transam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "access/xlogutils.h"
#include "miscadmin.h"
#include "replication/slot.h"
#if PG_VERSION_NUM >= 170000
#include "replication/walsender_private.h"
#include "storage/condition_variable.h"
#endif
#include "storage/proc.h"
#include "utils/guc.h"
#include "utils/inval.h"
#include "utils/pg_lsn.h"
#include "utils/timestamp.h"

/* only what was stored this long ago is confirmed: a storage server that
 * crashes may lose its last moments (design 4, "Positions") */
#define CONFIRM_AGE_MS		5000
#define CONFIRM_INTERVAL_MS	1000

/* a wait for standbys that is longer than this is shown in status */
#define STANDBYS_SHOWN_MS	5000

typedef struct SlotFacts
{
	bool		exists;
	bool		ours;			/* our plugin and database */
	bool		invalidated;
	const char *reason;			/* ... why, */
	const char *hint;			/* ... and what to do about it */
	char		plugin[NAMEDATALEN];
	XLogRecPtr	confirmed;
} SlotFacts;

#if PG_VERSION_NUM >= 160000
static void
explain_invalidation(SlotFacts *facts, ReplicationSlotInvalidationCause cause)
{
	if (cause == RS_INVAL_HORIZON)
	{
		facts->reason = "its slot was invalidated: rows of catalogs that it needs were removed";
		facts->hint = "Call pgsync_deploy() to copy the tables anew.";
	}
	else if (cause == RS_INVAL_WAL_LEVEL)
	{
		facts->reason = "its slot was invalidated: \"wal_level\" was not logical for a time";
		facts->hint = "Keep wal_level at logical, then call pgsync_deploy().";
	}
#if PG_VERSION_NUM >= 180000
	else if (cause == RS_INVAL_IDLE_TIMEOUT)
	{
		facts->reason = "its slot was invalidated by \"idle_replication_slot_timeout\"";
		facts->hint = "Raise idle_replication_slot_timeout or set it to 0, then call pgsync_deploy().";
	}
#endif
}
#endif

static SlotFacts
slot_facts(const char *name)
{
	SlotFacts	facts;

	memset(&facts, 0, sizeof(facts));
	LWLockAcquire(ReplicationSlotControlLock, LW_SHARED);
	for (int i = 0; i < max_replication_slots; i++)
	{
		ReplicationSlot *slot = &ReplicationSlotCtl->replication_slots[i];

		if (!slot->in_use || strcmp(NameStr(slot->data.name), name) != 0)
			continue;
		SpinLockAcquire(&slot->mutex);
		facts.exists = true;
		facts.ours = slot->data.database == MyDatabaseId &&
			strcmp(NameStr(slot->data.plugin), PGSYNC_WORKER_LIBRARY) == 0;
		strlcpy(facts.plugin, NameStr(slot->data.plugin), NAMEDATALEN);
		facts.confirmed = slot->data.confirmed_flush;
		facts.reason = "its WAL was removed: the slot exceeded \"max_slot_wal_keep_size\"";
		facts.hint = "Raise max_slot_wal_keep_size or find what kept replication behind, then call pgsync_deploy().";
#if PG_VERSION_NUM >= 160000
		facts.invalidated = slot->data.invalidated != RS_INVAL_NONE;
		explain_invalidation(&facts, slot->data.invalidated);
#else
		facts.invalidated = XLogRecPtrIsInvalid(slot->data.restart_lsn) ||
			!XLogRecPtrIsInvalid(slot->data.invalidated_at);
#endif
		SpinLockRelease(&slot->mutex);
		break;
	}
	LWLockRelease(ReplicationSlotControlLock);
	return facts;
}

/*
 * Newer minor releases allow only listed output plugins (trap T1).  The change
 * is local to this process, whose plugin it is.
 */
static void
allow_own_plugin(void)
{
	if (GetConfigOption("output_plugin_libraries", true, false) != NULL)
		SetConfigOption("output_plugin_libraries", PGSYNC_WORKER_LIBRARY,
						PGC_SUSET, PGC_S_OVERRIDE);
}

static void
slot_acquire(const char *name)
{
	allow_own_plugin();
#if PG_VERSION_NUM >= 180000
	/* here it is that 18 looks whether the slot is invalid, not where decoding starts */
	ReplicationSlotAcquire(name, false, true);
#else
	ReplicationSlotAcquire(name, false);
#endif
}

void
slot_drop_if_exists(const char *name)
{
	SlotFacts	facts = slot_facts(name);

	if (!facts.exists)
		return;
	if (!facts.ours)
	{
		/* a stream of another replicator names it: it is not ours to drop */
		ereport(LOG,
				(errmsg("replication slot \"%s\" is left in place", name),
				 errdetail("It belongs to output plugin \"%s\" or to another database.",
						   facts.plugin),
				 errhint("If nothing uses it any more, drop it with pg_drop_replication_slot().")));
		return;
	}
	ReplicationSlotDrop(name, false);
}

/*
 * A new slot, persistent, at a consistent point; that point is stored.
 */
static void
slot_create(Worker *worker)
{
	const char *name = worker->stream->slot_name;
	LogicalDecodingContext *decoding;
	XLogRecPtr	start;
	WriteBatch *batch;

	worker_set_phase(worker, PHASE_CREATING_SLOT);
	allow_own_plugin();
#if PG_VERSION_NUM >= 170000
	/* a failover slot: standbys that synchronize slots have it, too */
	ReplicationSlotCreate(name, true, RS_EPHEMERAL, false, true, false);
#else
	ReplicationSlotCreate(name, true, RS_EPHEMERAL, false);
#endif
	/* waits for every transaction that is running now, in any database */
	decoding = CreateInitDecodingContext(PGSYNC_WORKER_LIBRARY, NIL, true, InvalidXLogRecPtr,
										 XL_ROUTINE(.page_read = read_flushed_page,
													.segment_open = wal_segment_open,
													.segment_close = wal_segment_close),
										 NULL, NULL, NULL);
	DecodingContextFindStartpoint(decoding);
	start = MyReplicationSlot->data.confirmed_flush;
	FreeDecodingContext(decoding);
	ReplicationSlotPersist();

	/* gives up the horizon that creation held: the copy needs none */
	ReplicationSlotRelease();
	slot_acquire(name);

	slot_wait_for_standbys(worker, start);
	batch = worker_batch(worker);
	write_batch_add(batch, WRITE_POSITION, start);
	worker_submit(worker);
	worker_wait_until_stored(worker);
	worker->stream->snapshot_lsn = start;
	worker->stored_lsn = start;
}

/*
 * Is a position of an older timeline part of the present one's history?
 */
static bool
timeline_continues(TimeLineID timeline, XLogRecPtr position)
{
	List	   *history = readTimeLineHistory(GetWALInsertionTimeLine());
	bool		continues;

	continues = tliInHistory(timeline, history) &&
		position <= tliSwitchPoint(timeline, history, NULL);
	list_free_deep(history);
	return continues;
}

/*
 * Does the stored position belong to this server's history?  Returns the
 * reason why not, or NULL.  *adoptable: a person may know better.
 */
static const char *
history_difference(Worker *worker, const SlotFacts *facts, uint64_t stored, bool *adoptable)
{
	const SourceIdentity *bound = &worker->stream->bound_to;
	const SourceIdentity *self = &worker->self;
	XLogRecPtr	flushed = GetFlushRecPtr(NULL);

	*adoptable = true;
	if (worker->stream->history_changed)
		return "it was found in an earlier run, and nothing has been decided since";
	if (bound->system_identifier != self->system_identifier)
		return psprintf("the stream was made by another cluster; stored: system identifier " UINT64_FORMAT ", this server: " UINT64_FORMAT,
						bound->system_identifier, self->system_identifier);
	if (bound->database_oid != self->database_oid)
		return psprintf("the stream was made from another database; stored: \"%s\" (OID %u), this one: \"%s\" (OID %u)",
						bound->database_name, bound->database_oid,
						self->database_name, self->database_oid);
	if (bound->timeline == self->timeline && strcmp(bound->host, self->host) != 0)
		return psprintf("the cluster was copied or moved; stored: %s, this server: %s",
						bound->host, self->host);
	*adoptable = false;
	if (bound->timeline != self->timeline && !timeline_continues(bound->timeline, stored))
		return psprintf("the server's timeline left the stream's before the stored position; stored: timeline %u at %X/%X, this server: timeline %u",
						bound->timeline, LSN_FORMAT_ARGS((XLogRecPtr) stored), self->timeline);
	if (stored > flushed)
		return psprintf("the storage is ahead of the server's WAL: the server was restored to an earlier time; stored: %X/%X, this server: %X/%X",
						LSN_FORMAT_ARGS((XLogRecPtr) stored), LSN_FORMAT_ARGS(flushed));
	if (facts->exists && facts->ours && stored != STREAM_LSN_NONE && stored < facts->confirmed)
		return psprintf("the storage is behind the slot's confirmed position: the storage was restored to an earlier time; stored: %X/%X, slot: %X/%X",
						LSN_FORMAT_ARGS((XLogRecPtr) stored), LSN_FORMAT_ARGS(facts->confirmed));
	return NULL;
}

void
report_history_changed(Worker *worker, const char *reason, bool adoptable, const char *hint)
{
	int32		id = worker->entry->stream;
	StorageError error;

	if (hint == NULL)
		hint = adoptable ?
		"Nothing was written. If this server and this storage do belong together, call pgsync_adopt(); otherwise deploy the rules again with pgsync_deploy()." :
		"Nothing was written. Deploy the rules again with pgsync_deploy(): everything is copied anew.";

	/* an old position means nothing any more: a new stream need not reach it */
	if (!adoptable)
		storage_link_try(worker->storage, storage_mark_history, &id, sizeof(id), &error);
	worker_entry_set_error(worker->shared, worker->entry,
						   psprintf("history changed: %s", reason), hint, "55000");
	ereport(LOG,
			(errmsg("pgsync does not continue replication stream %d: history changed",
					worker->entry->stream),
			 errdetail("Reason: %s.", reason),
			 errhint("%s", hint)));
	worker_finish(worker, PHASE_HISTORY_CHANGED);
}

static void
start_writer(Worker *worker)
{
	WriterOptions options = {
		.served = worker->stream->state == STREAM_ACTIVE,
		.turn = worker->shared->turn,
		.turn_index = worker->index
	};

	if (!writer_start(worker->storage->thread, worker->stream, &options))
		ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory")));
}

/*
 * A slot of a stream stored up to here or less was dropped by pgsync itself, when
 * somebody switched it off for good; one that went later was lost.
 */
static XLogRecPtr
slots_dropped_until(void)
{
	XLogRecPtr	since;

	StartTransactionCommand();
	since = database_switch_since();
	CommitTransactionCommand();
	/* a label that was dumped from another cluster says nothing here */
	return since <= GetXLogInsertRecPtr() ? since : InvalidXLogRecPtr;
}

/*
 * After this the stream's slot is acquired by this process, and the stored
 * position is known to be right for it.
 */
void
slot_ensure(Worker *worker)
{
	StreamDoc  *stream = worker->stream;
	const char *name = stream->slot_name;
	SlotFacts	facts;
	uint64_t	stored = stream_stored_lsn(stream);
	const char *difference;
	bool		adoptable;

	if (!ReplicationSlotValidateName(name, LOG))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_NAME),
				 errmsg("replication stream %d names a slot that PostgreSQL cannot have",
						stream->id),
				 errdetail("The name is \"%s\".", name)));
	CheckLogicalDecodingRequirements();

	facts = slot_facts(name);
	if (facts.exists && !facts.ours)
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("replication slot \"%s\" belongs to something else", name),
				 errdetail("Its output plugin is \"%s\".", facts.plugin),
				 errhint("Deploy the rules again with pgsync_deploy(): a new stream gets a new slot.")));

	difference = history_difference(worker, &facts, stored, &adoptable);
	if (difference != NULL)
		report_history_changed(worker, difference, adoptable, NULL);
	if (stream->bound_to.timeline != worker->self.timeline)
	{
		StorageOpenStream renew = {.self = worker->self, .stream_id = stream->id};

		/* from here on positions are those of the new timeline */
		storage_link_run(worker->storage, storage_adopt_stream, &renew, sizeof(renew));
		stream->bound_to = worker->self;
	}

	if (facts.exists && facts.invalidated)
	{
		slot_drop_if_exists(name);
		worker_replace_lost_slot(worker, facts.reason, facts.hint);
	}
	if (!facts.exists && stream->snapshot_done)
	{
		if (stored <= slots_dropped_until())
			worker_replace_stream(worker, "its replication slot was dropped by pgsync_stop(drop_slot => true) or DROP EXTENSION");
		worker_replace_lost_slot(worker, "its replication slot does not exist any more",
								 "Find what dropped the slot (pg_drop_replication_slot(), or a failover to a server without it), then call pgsync_deploy().");
	}

	if (facts.exists && stored == STREAM_LSN_NONE)
	{
		/* created, but its point was never stored: nothing depends on it */
		slot_drop_if_exists(name);
		facts.exists = false;
	}
	if (!facts.exists)
	{
		if (stream->has_data)
			storage_link_run(worker->storage, storage_reset_stream, &stream->id,
							 sizeof(stream->id));
		if (stream->has_data || stored != STREAM_LSN_NONE)
			worker_open_stream(worker); /* reads the emptied stream again */
		start_writer(worker);
		slot_create(worker);
		return;
	}

	worker->stored_lsn = stored;
	start_writer(worker);
	slot_acquire(name);
}

/*
 * What is stored must be on every standby that could be promoted with the slot
 * (synchronized_standby_slots), or the storage would be ahead of the new primary.
 * As WaitForStandbyConfirmation(), but what the worker has to do besides is done
 * meanwhile.  Never in a decoding callback, nor in a transaction.
 */
void
slot_wait_for_standbys(Worker *worker, XLogRecPtr lsn)
{
#if PG_VERSION_NUM >= 170000
	TimestampTz begin;
	bool		shown = false;

	if (lsn <= worker->standbys_lsn || MyReplicationSlot == NULL)
		return;
	begin = GetCurrentTimestamp();
	/* the server remembers how far they were, so for most records this is all */
	while (MyReplicationSlot->data.failover && !StandbySlotsHaveCaughtup(lsn, DEBUG1))
	{
		/* in this order: a confirmation after the second look sets the latch */
		ConditionVariablePrepareToSleep(&WalSndCtl->wal_confirm_rcv_cv);
		if (StandbySlotsHaveCaughtup(lsn, DEBUG1))
			break;
		if (!shown && TimestampDifferenceExceeds(begin, GetCurrentTimestamp(), STANDBYS_SHOWN_MS))
		{
			shown = true;
			worker_entry_set_error(worker->shared, worker->entry,
								   "replication waits for standbys named in \"synchronized_standby_slots\"",
								   "Nothing is lost: replication goes on when they have received the WAL. Start them, or remove them from the setting.",
								   "55000");
			/* the server's own words for what is wrong with them, once */
			if (StandbySlotsHaveCaughtup(lsn, WARNING))
				break;
		}
		(void) storage_link_wait(worker->storage, 1000);
		worker_collect(worker);
		slot_confirm(worker, false);
		worker_watch_streams(worker);
	}
	(void) ConditionVariableCancelSleep();
	worker->standbys_lsn = lsn;
#endif
}

/*
 * Tells the server how far WAL is not needed any more.  At most once a second;
 * at_exit: what is old enough, without waiting for the interval.
 */
void
slot_confirm(Worker *worker, bool at_exit)
{
	TimestampTz now = GetCurrentTimestamp();
	XLogRecPtr	target = InvalidXLogRecPtr;
	int			used = 0;

	if (MyReplicationSlot == NULL)
		return;
	if (!at_exit &&
		!TimestampDifferenceExceeds(worker->last_confirm, now, CONFIRM_INTERVAL_MS))
		return;
	while (used < worker->mark_count &&
		   TimestampDifferenceExceeds(worker->marks[used].time, now, CONFIRM_AGE_MS))
		target = worker->marks[used++].lsn;
	if (used == 0)
		return;
	worker->mark_count -= used;
	memmove(worker->marks, worker->marks + used, sizeof(StoredMark) * worker->mark_count);
	worker->last_confirm = now;
	if (target <= MyReplicationSlot->data.confirmed_flush)
		return;
	Assert(target <= worker->stored_lsn);
	LogicalConfirmReceivedLocation(target);

	/* so that the next checkpoint, also that of a shutdown, saves it */
	ReplicationSlotMarkDirty();
	pg_atomic_write_u64(&worker->entry->confirmed_lsn, target);
}

/* When slot_confirm() will have something to confirm; DT_NOEND: nothing is stored that is not. */
TimestampTz
slot_confirm_due(const Worker *worker)
{
	if (worker->mark_count == 0)
		return DT_NOEND;
	return Max(TimestampTzPlusMilliseconds(worker->marks[0].time, CONFIRM_AGE_MS),
			   TimestampTzPlusMilliseconds(worker->last_confirm, CONFIRM_INTERVAL_MS));
}
