/*-------------------------------------------------------------------------
 *
 * streams.c
 *	  Which replication stream this worker replicates, and what becomes of the
 *	  others that the storage holds.
 *
 * One worker per stream.  A worker that is not told its stream chooses the
 * served one, else one that waits to be copied, and has the launcher start
 * workers for the rest.  A stopped stream's worker removes what it left.
 *
 * A stream that another replicator made is never continued: a copy of its config is
 * deployed, and the old one is served until the copy is active (design 5).
 *
 * Invariant: nothing is written to a stream before its lock is ours and its
 * binding names this cluster and database.
 *
 *-------------------------------------------------------------------------
 */
#include "rules_sql.h"
#include "worker.h"

#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "replication/slot.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "core/rules.h"

#define DEFAULT_SCHEMA			"public"

/* how often the storage is asked for new streams */
#define WATCH_INTERVAL_MS		4000

/* a lost slot makes a new stream by itself this often in 24 hours (design 4) */
#define MAX_REPLACEMENTS_PER_DAY	2

static void rest_again(Worker *worker, const StorageListStreams *list,
					   const StreamSummary *stream);

/* ---------------------------------------------------------------- choosing */

static StorageListStreams *
stream_list_create(Worker *worker)
{
	StorageListStreams *list = calloc(1, sizeof(StorageListStreams));

	if (list == NULL || (list->arena = arena_create(0)) == NULL)
		ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory")));
	list->self = worker->self;
	return list;
}

static void
stream_list_free(StorageListStreams *list)
{
	arena_destroy(list->arena);
	free(list);
}

static bool
may_run(const StreamSummary *stream)
{
	return stream->bound_here || stream->untouched;
}

static const StreamSummary *
newest(const StorageListStreams *list, StreamState state, bool ours)
{
	for (int i = list->count - 1; i >= 0; i--)
	{
		if (list->streams[i].state == state && (!ours || may_run(&list->streams[i])))
			return &list->streams[i];
	}
	return NULL;
}

static const StreamSummary *
find_stream(const StorageListStreams *list, int32 id)
{
	for (int i = 0; i < list->count; i++)
	{
		if (list->streams[i].id == id)
			return &list->streams[i];
	}
	return NULL;
}

/*
 * The slots of ours that nobody holds.  Taken before the storage is asked for its
 * streams: one of them that no stream of the answer names has no stream.
 */
static void
note_idle_slots(Worker *worker)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);
	int			all;

	if (worker->idle_slots != NULL)
		pfree(worker->idle_slots);
	worker->idle_slots = own_slots(MyDatabaseId, &all, NULL);
	worker->idle_slot_count = 0;
	for (int i = 0; i < all; i++)
	{
		if (!worker->idle_slots[i].active)
			worker->idle_slots[worker->idle_slot_count++] = worker->idle_slots[i];
	}
	MemoryContextSwitchTo(old);
}

static bool
slot_is_used(const StorageListStreams *list, const char *name)
{
	for (int i = 0; i < list->count; i++)
	{
		if (strcmp(list->streams[i].slot_name, name) == 0)
			return true;
	}
	return false;
}

/* What status shows: a slot of no stream keeps WAL for ever. */
static void
show_unused_slots(Worker *worker, const StorageListStreams *list)
{
	WorkerEntry *entry = worker->entry;
	int			count = 0;

	LWLockAcquire(&worker->shared->lock, LW_EXCLUSIVE);
	memset(entry->unused_slots, 0, sizeof(entry->unused_slots));
	for (int i = 0; i < worker->idle_slot_count && count < PGSYNC_MAX_UNUSED; i++)
	{
		const char *name = NameStr(worker->idle_slots[i].name);

		if (!slot_is_used(list, name))
			strlcpy(entry->unused_slots[count++], name, NAMEDATALEN);
	}
	entry->slots_known = true;
	LWLockRelease(&worker->shared->lock);
}

/* why nothing was deployed */
typedef struct NewerStream
{
	int32		id;				/* what takes over; 0: nothing */
	bool		old_stays_served;	/* until then */
} NewerStream;

/*
 * Deploys what an existing stream has as a new one of ours; its id.  0: somebody has
 * deployed since, *newer is what counts, or the stream is not live any more.
 */
static int32
deploy_copy(Worker *worker, int32 source, int32 replaces, bool slot_lost, NewerStream *newer,
			StorageError *error)
{
	StorageDeploy deploy = {0};

	deploy.self = worker->self;
	deploy.slot_prefix = *worker->preloaded->settings.slot_prefix;
	deploy.source_stream = source;
	deploy.replaces = replaces;
	deploy.slot_lost = slot_lost;
	deploy.max_copies_per_day = slot_lost ? MAX_REPLACEMENTS_PER_DAY : 0;
	storage_link_try(worker->storage, storage_deploy, &deploy, sizeof(deploy), error);
	*newer = (NewerStream) {deploy.newer_stream, deploy.stays_served};
	return deploy.stream_id;
}

/* Nothing that trying again would mend: ends this worker until something changes. */
static void pg_attribute_noreturn()
refuse_storage(Worker *worker, const StreamSummary *stream)
{
	const char *message = psprintf("the MongoDB database belongs to another PostgreSQL database: replication stream %d is bound to %s",
								   stream->id, stream->owner);
	const char *hint = "If this database replaces that one, call pgsync_adopt(); otherwise set pgsync.mongodb_database to a MongoDB database of its own.";

	worker_entry_set_error(worker->shared, worker->entry, message, hint, "55000");
	ereport(LOG,
			(errmsg("pgsync does not replicate database \"%s\": %s", worker->self.database_name,
					message),
			 errhint("%s", hint)));
	worker_finish(worker, PHASE_STOPPED);
}

/*
 * A stream that is not ours yet would, once active, stop those that are served: not
 * while one of them is another database's.
 */
static void
refuse_foreign_storage(Worker *worker, const StorageListStreams *list, const StreamSummary *own)
{
	if (own != NULL && own->bound_here)
		return;
	for (int i = list->count - 1; i >= 0; i--)
	{
		const StreamSummary *other = &list->streams[i];

		if (other->bound && !other->bound_here &&
			(other->state == STREAM_PROCESSING || other->state == STREAM_ACTIVE ||
			 other->state == STREAM_ERRORED))
			refuse_storage(worker, other);
	}
}

/* The stream to take when there is none of ours: a copy of a foreign one. */
static int32
copy_foreign(Worker *worker, const StorageListStreams *list)
{
	const StreamSummary *foreign = newest(list, STREAM_PROCESSING, false);
	StorageError error;
	int32		id;
	NewerStream newer;

	if (foreign == NULL)
		foreign = newest(list, STREAM_ACTIVE, false);
	if (foreign == NULL)
		foreign = newest(list, STREAM_ERRORED, false);
	if (foreign == NULL)
		return 0;
	id = deploy_copy(worker, foreign->id, 0, false, &newer, &error);
	if (error.kind != STORAGE_OK)
		storage_error_report(&error, mongo_thread_hosts(worker->storage->thread));
	if (id == 0)
		return 0;				/* deployed meanwhile: seen at the next look */
	ereport(LOG,
			(errmsg("pgsync deployed a copy of replication stream %d as %d", foreign->id, id),
			 foreign->bound ? 0 :
			 errdetail("Another replicator made the stream; pgsync does not continue it.")));
	return id;
}

static bool
may_clean(const StreamSummary *stream)
{
	return stream->state == STREAM_STOP && (stream->bound_here || !stream->bound);
}

/*
 * Does a stopped stream need somebody to clean it now?  One after the other, so that
 * it is in nobody's way and leaves workers for the rest.
 */
static bool
begin_cleaning(Worker *worker, int32 id)
{
	switch (worker_standing(worker->shared, MyDatabaseId, id))
	{
		case WORKER_ABSENT:
			return worker_request(worker->shared, MyDatabaseId, id);
		case WORKER_SETTLED:
			return worker_restart_settled(worker->shared, MyDatabaseId, id);
		default:
			return false;
	}
}

/*
 * Workers for the streams that this one does not take.  A stopped one that cannot be
 * cleaned now (its worker waits to try again) holds up no other.
 */
static void
request_others(Worker *worker, const StorageListStreams *list, int32 own)
{
	int32		missing[PGSYNC_MAX_UNUSED] = {0};
	int			count = 0;
	bool		cleaning = false;

	for (int i = 0; i < list->count && !cleaning; i++)
		cleaning = may_clean(&list->streams[i]) &&
			worker_standing(worker->shared, MyDatabaseId, list->streams[i].id) == WORKER_AT_WORK;
	for (int i = 0; i < list->count; i++)
	{
		const StreamSummary *stream = &list->streams[i];

		if (stream->id == own)
			continue;
		if (may_clean(stream))
			cleaning = cleaning || begin_cleaning(worker, stream->id);
		else if ((stream->state == STREAM_PROCESSING || stream->state == STREAM_ACTIVE) &&
				 may_run(stream) && !worker_request(worker->shared, MyDatabaseId, stream->id))
		{
			ereport(LOG,
					(errmsg("no free pgsync worker for replication stream %d", stream->id),
					 errhint("Raise pgsync.max_workers and restart the server.")));
			if (count < PGSYNC_MAX_UNUSED)
				missing[count++] = stream->id;
		}
	}

	/* all at once: status must not see it without */
	LWLockAcquire(&worker->shared->lock, LW_EXCLUSIVE);
	memcpy(worker->entry->no_worker_for, missing, sizeof(missing));
	LWLockRelease(&worker->shared->lock);
}

/* Makes the entry that of a stream; false if another worker has it already. */
static bool
claim_stream(Worker *worker, const StreamSummary *stream, int32 id)
{
	PgsyncShared *shared = worker->shared;
	bool		taken = false;

	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < shared->max_workers && !taken; i++)
	{
		WorkerEntry *other = &shared->workers[i];

		taken = other != worker->entry && other->in_use && other->database == MyDatabaseId &&
			other->stream == id;
	}
	if (!taken)
	{
		worker->entry->stream = id;
		if (stream != NULL)
			strlcpy(worker->entry->slot_name, stream->slot_name, NAMEDATALEN);
	}
	LWLockRelease(&shared->lock);
	return !taken;
}

/*
 * On return the entry names the stream to run.  Waits, in phase "no rules", while
 * there is none.  A stopped stream is cleaned here, and the worker ends.
 */
void
worker_choose_stream(Worker *worker)
{
	for (;;)
	{
		StorageListStreams *list = stream_list_create(worker);
		const StreamSummary *stream;
		int32		id = worker->entry->stream;

		note_idle_slots(worker);
		storage_link_run(worker->storage, storage_list_streams, list, sizeof(*list));
		show_unused_slots(worker, list);
		if (id != 0)
			stream = find_stream(list, id);
		else
		{
			stream = newest(list, STREAM_ACTIVE, true);
			if (stream == NULL)
				stream = newest(list, STREAM_PROCESSING, true);
			refuse_foreign_storage(worker, list, stream);
			id = stream != NULL ? stream->id : copy_foreign(worker, list);
		}
		request_others(worker, list, id);
		if (worker->entry->stream != 0)
			rest_again(worker, list, stream);
		if (worker->entry->stream != 0 &&
			(stream == NULL || stream->state == STREAM_ERRORED || stream->state == STREAM_TERMINATED))
			worker_finish(worker, PHASE_NONE);	/* nothing to do for it any more */
		if (id != 0)
		{
			bool		stopped = stream != NULL && stream->state == STREAM_STOP;

			if (!claim_stream(worker, stream, id))
				worker_finish(worker, PHASE_NONE);
			stream_list_free(list);
			if (stopped)
				worker_clean_stream(worker);
			return;
		}
		stream_list_free(list);
		worker_set_phase(worker, PHASE_NO_RULES);
		(void) storage_link_wait(worker->storage, WATCH_INTERVAL_MS);
	}
}

/* ---------------------------------------------------------------- opening */

static const char *
state_name(StreamState state)
{
	static const char *const names[] = {"PROCESSING", "ACTIVE", "STOP", "TERMINATED", "ERRORED"};

	return state < lengthof(names) ? names[state] : "?";
}

static void
adopt_tables(Worker *worker)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);

	worker->tables = NIL;
	for (int i = 0; i < worker->stream->table_count; i++)
	{
		KnownTable *known = palloc0(sizeof(KnownTable));

		known->doc = worker->stream->tables[i];
		/* it may be replaced by pfree'd copies: bring it into our memory */
		if (known->doc.signature != NULL)
			known->doc.signature = pstrdup(known->doc.signature);
		worker->tables = lappend(worker->tables, known);
	}
	MemoryContextSwitchTo(old);
}

/* What helps when a stream is bound elsewhere; NULL: what helps with a changed history. */
static const char *
binding_hint(BindingDifference difference)
{
	switch (difference)
	{
		case BINDING_DATABASE:
			return "Nothing was written. If this database replaces that one, call pgsync_adopt(); otherwise set pgsync.mongodb_database to a MongoDB database of its own.";
		case BINDING_CLUSTER_ID:
			return "Nothing was written. Only pgsync.cluster_id was set, changed or removed: set it as it was, or call pgsync_adopt().";
		default:
			return NULL;
	}
}

void
worker_open_stream(Worker *worker)
{
	StorageOpenStream open = {0};
	StorageError error;

	if (worker->stream != NULL)
		stream_doc_free(worker->stream);
	worker->stream = NULL;
	open.self = worker->self;
	open.stream_id = worker->entry->stream;
	storage_link_try(worker->storage, storage_open_stream, &open, sizeof(open), &error);
	if (error.kind == STORAGE_BINDING)
		report_history_changed(worker, pstrdup(error.message), true,
							   binding_hint(open.difference));
	if (error.kind != STORAGE_OK)
		storage_error_report(&error, mongo_thread_hosts(worker->storage->thread));
	worker->stream = open.stream;
	worker->was_active = open.stream->state == STREAM_ACTIVE;
	adopt_tables(worker);

	LWLockAcquire(&worker->shared->lock, LW_EXCLUSIVE);
	strlcpy(worker->entry->storage_state, state_name(open.stream->state),
			sizeof(worker->entry->storage_state));
	strlcpy(worker->entry->slot_name, open.stream->slot_name, NAMEDATALEN);
	LWLockRelease(&worker->shared->lock);
	pg_atomic_write_u64(&worker->entry->stored_lsn, stream_stored_lsn(open.stream));
	pg_atomic_write_u64(&worker->entry->checkpoint_lsn, open.stream->last_checkpoint_lsn);
	if (open.stream->last_checkpoint >= 0)
		pg_atomic_write_u64(&worker->entry->checkpoint_op, open.stream->last_checkpoint);
}

static void refuse_stream(Worker *worker, const char *message, const char *hint,
						  const char *sqlstate) pg_attribute_noreturn();

/*
 * Ends this worker for a reason that a new try does not mend, and says it where
 * PowerSync's API shows it too.
 */
static void
refuse_stream(Worker *worker, const char *message, const char *hint, const char *sqlstate)
{
	StorageRecordError record = {0};
	StorageError error;
	int			len;

	record.stream_id = worker->stream->id;
	len = pg_mbcliplen(message, strlen(message), sizeof(record.message) - 1);
	memcpy(record.message, message, len);	/* the rest is zero */
	storage_link_try(worker->storage, storage_record_error, &record, sizeof(record), &error);
	worker_entry_set_error(worker->shared, worker->entry, message, hint, sqlstate);
	ereport(LOG,
			(errmsg("pgsync cannot run replication stream %d: %s", worker->stream->id, message),
			 errhint("%s", hint)));
	worker_finish(worker, PHASE_STOPPED);
}

/*
 * Compiles the stream's config; refuses what this version of pgsync cannot run.
 */
static const SyncPlan *
compile_content(Worker *worker)
{
	RulesOptions options = {.default_schema = DEFAULT_SCHEMA, .cancel = rules_cancelled};
	const RulesMessage *messages = NULL;
	const char *content = worker->stream->content;
	const SyncPlan *plan = rules_compile(content, strlen(content), &options, worker->plan_arena,
										 &messages);

	/* what was compiled in vain was not refused */
	CHECK_FOR_INTERRUPTS();
	if (plan != NULL)
		return plan;
	while (messages != NULL && messages->level != RULES_FATAL && messages->next != NULL)
		messages = messages->next;
	refuse_stream(worker, messages == NULL ? "the sync rules cannot be compiled" :
				  psprintf("sync rules, line %d, column %d: %s", messages->error.line,
						   messages->error.column, messages->error.message),
				  messages != NULL && messages->error.hint[0] != '\0' ? messages->error.hint :
				  "Check the rules with pgsync_validate() and deploy them again.",
				  "22023");
}

/* What the deployer has compiled is run as it is, as by the API (sync-rules.md, 0.1). */
static const SyncPlan *
read_stored_plan(Worker *worker)
{
	RulesOptions options = {.default_schema = DEFAULT_SCHEMA, .cancel = rules_cancelled};
	const char *json = worker->stream->serialized_plan;
	SyncError	error;
	const SyncPlan *plan = plan_read(json, strlen(json), &options, worker->plan_arena, &error);

	CHECK_FOR_INTERRUPTS();
	if (plan == NULL)
		refuse_stream(worker, psprintf("%s", error.message),
					  "Deploy the rules again with pgsync_deploy().",
					  error.code == SYNC_ERROR_UNSUPPORTED ? "0A000" : "XX001");
	return plan;
}

void
worker_compile_rules(Worker *worker)
{
	StreamDoc  *stream = worker->stream;
	char	   *prefix;

	if (stream->storage_version != 1 && stream->storage_version != 2)
		refuse_stream(worker, psprintf("storage version %d is not supported by pgsync",
									   stream->storage_version),
					  "Deploy rules without \"storage_version\", or with storage_version: 2.",
					  "0A000");
	worker->plan_arena = arena_create(0);
	if (worker->plan_arena == NULL)
		ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory")));
	worker->plan = stream->serialized_plan != NULL ? read_stored_plan(worker) : compile_content(worker);

	prefix = "";
	if (stream->storage_version >= 2 || plan_compatibility(worker->plan)->versioned_bucket_ids)
		prefix = arena_printf(worker->plan_arena, "%d#", stream->id);
	worker->naming.prefix = (SyncString) {prefix, (uint32_t) strlen(prefix)};
}

/* ---------------------------------------------------------------- other states */

/*
 * Removes what a stopped stream left: its slot first, then its data.
 */
void
worker_clean_stream(Worker *worker)
{
	StorageTerminate terminate = {.self = worker->self, .stream_id = worker->entry->stream};
	StorageError error;

	LWLockAcquire(&worker->shared->lock, LW_EXCLUSIVE);
	strlcpy(worker->entry->storage_state, state_name(STREAM_STOP),
			sizeof(worker->entry->storage_state));
	LWLockRelease(&worker->shared->lock);
	worker_set_phase(worker, PHASE_CLEANING);
	if (worker->entry->slot_name[0] != '\0')
		slot_drop_if_exists(worker->entry->slot_name);
	storage_link_try(worker->storage, storage_terminate_stream, &terminate, sizeof(terminate),
					 &error);
	if (error.kind == STORAGE_BINDING)
		report_history_changed(worker, pstrdup(error.message), true, NULL);
	if (error.kind != STORAGE_OK)
		storage_error_report(&error, mongo_thread_hosts(worker->storage->thread));
	ereport(LOG,
			(errmsg("pgsync removed stopped replication stream %d", terminate.stream_id)));
	worker_finish(worker, PHASE_NONE);
}

/*
 * The stream cannot go on and needs no copy: a newer one takes over.  Its worker rests;
 * until the newer stream is active clients get what this one has.
 */
static void pg_attribute_noreturn()
rest_until_active(Worker *worker, const char *message, int32 newer)
{
	worker_entry_set_error(worker->shared, worker->entry, message,
						   psprintf("Nothing is to be done: clients are served what this stream has until replication stream %d, which was deployed later, is active.",
									newer),
						   "01000");
	LWLockAcquire(&worker->shared->lock, LW_EXCLUSIVE);
	strlcpy(worker->entry->storage_state, state_name(STREAM_ERRORED),
			sizeof(worker->entry->storage_state));
	LWLockRelease(&worker->shared->lock);
	worker_finish(worker, PHASE_STOPPED);
}

/* The same for a worker that was started again while its stream rests. */
static void
rest_again(Worker *worker, const StorageListStreams *list, const StreamSummary *stream)
{
	const StreamSummary *newer = newest(list, STREAM_PROCESSING, true);

	if (stream != NULL && stream->state == STREAM_ERRORED && newer != NULL &&
		newer->id > stream->id && worker->entry->no_worker_for[0] == 0 &&
		strcmp(worker->entry->storage_state, state_name(STREAM_ERRORED)) == 0)
		rest_until_active(worker, pstrdup(worker->entry->error), newer->id);
}

static void pg_attribute_noreturn()
yield_to_newer(Worker *worker, const char *reason, NewerStream newer)
{
	int32		id = worker->stream->id;
	bool		served = newer.id != 0 && newer.old_stays_served;

	ereport(LOG,
			(errmsg("pgsync gives up replication stream %d: %s", id, reason),
			 served ?
			 errdetail("Replication stream %d was deployed later and takes over; until it is active, stream %d is served as it is.",
					   newer.id, id) :
			 errdetail("The stream has been replaced already.")));
	/* the newer one needs this entry if there is no other */
	if (served && worker_request(worker->shared, MyDatabaseId, newer.id))
		rest_until_active(worker, psprintf("replication stream %d does not go on: %s", id, reason),
						  newer.id);
	worker_finish(worker, PHASE_NONE);
}

static void pg_attribute_noreturn()
replace_stream(Worker *worker, const char *reason, bool slot_lost, const char *hint)
{
	StorageError error;
	int32		id;
	NewerStream newer;

	id = deploy_copy(worker, worker->stream->id, worker->stream->id, slot_lost, &newer, &error);
	if (error.kind == STORAGE_CHANGED)
		refuse_stream(worker, psprintf("%s; two new streams were made for lost slots in the last 24 hours",
									   reason),
					  hint, "55000");
	if (error.kind != STORAGE_OK)
		storage_error_report(&error, mongo_thread_hosts(worker->storage->thread));
	if (id == 0)
		yield_to_newer(worker, reason, newer);
	ereport(LOG,
			(errmsg("pgsync replaces replication stream %d by %d: %s", worker->stream->id, id,
					reason)));
	worker_entry_set_error(worker->shared, worker->entry,
						   psprintf("replication stream %d was replaced by %d: %s",
									worker->stream->id, id, reason),
						   NULL, "01000");
	(void) worker_request(worker->shared, MyDatabaseId, id);
	worker_finish(worker, PHASE_NONE);
}

/*
 * This stream cannot go on, but its config can: deploys it again as a new
 * stream, which is copied while the old one, if active, stays served.
 */
void
worker_replace_stream(Worker *worker, const char *reason)
{
	replace_stream(worker, reason, false, NULL);
}

void
worker_replace_lost_slot(Worker *worker, const char *reason, const char *hint)
{
	replace_stream(worker, reason, true, hint);
}

/* ---------------------------------------------------------------- watching */

static void
look_at_list(Worker *worker, const StorageListStreams *list)
{
	const StreamSummary *own = find_stream(list, worker->entry->stream);

	show_unused_slots(worker, list);
	request_others(worker, list, worker->entry->stream);
	if (own == NULL || own->state == STREAM_STOP || own->state == STREAM_TERMINATED ||
		own->state == STREAM_ERRORED)
		worker_finish(worker, PHASE_NONE);
}

/*
 * Looks for new and stopped streams.  Never waits: one job at a time is under way.
 */
void
worker_watch_streams(Worker *worker)
{
	TimestampTz now = GetCurrentTimestamp();

	if (worker->periodic_job != NULL)
	{
		StorageError error;
		StorageListStreams *list = worker->periodic_list;

		if (!mongo_job_finished(worker->periodic_job))
			return;
		mongo_job_collect(worker->periodic_job, &error);
		worker->periodic_job = NULL;
		worker->periodic_list = NULL;
		if (error.kind != STORAGE_OK)
			storage_error_report(&error, mongo_thread_hosts(worker->storage->thread));
		look_at_list(worker, list);
		stream_list_free(list);
		return;
	}
	if (TimestampDifferenceExceeds(worker->last_stream_check, now, WATCH_INTERVAL_MS))
	{
		worker->last_stream_check = now;
		note_idle_slots(worker);
		worker->periodic_list = stream_list_create(worker);
		worker->periodic_job = mongo_submit(worker->storage->thread, storage_list_streams,
											worker->periodic_list);
	}
}

/* When worker_watch_streams() will ask again; DT_NOEND: the answer, which wakes us, is under way. */
TimestampTz
worker_watch_due(const Worker *worker)
{
	if (worker->periodic_job != NULL)
		return DT_NOEND;
	return TimestampTzPlusMilliseconds(worker->last_stream_check, WATCH_INTERVAL_MS);
}
