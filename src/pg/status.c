/*-------------------------------------------------------------------------
 *
 * status.c
 *	  The part of pgsync_status() that comes from shared memory and from the
 *	  database's switch; the SQL script joins slots to it.
 *
 * It shows the current database only, and waits for nothing: with MongoDB
 * away, during a copy, and with a full queue it answers all the same.
 *
 *-------------------------------------------------------------------------
 */
#include "preload.h"

#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "replication/slot.h"
#include "utils/builtins.h"
#include "utils/pg_lsn.h"
#include "utils/timestamp.h"

PGSYNC_FUNCTION(pgsync_worker_status);

/* in the order of the SQL declaration */
enum StatusColumn
{
	STATUS_STREAM,
	STATUS_STATE,
	STATUS_PHASE,
	STATUS_PHASE_SINCE,
	STATUS_PID,
	STATUS_SLOT_NAME,
	STATUS_DECODED_LSN,
	STATUS_STORED_LSN,
	STATUS_CHECKPOINT_LSN,
	STATUS_CONFIRMED_LSN,
	STATUS_LAG_SECONDS,
	STATUS_CHECKPOINT,
	STATUS_CHECKPOINT_TIME,
	STATUS_COPY_TABLE,
	STATUS_TABLES_DONE,
	STATUS_TABLES_TOTAL,
	STATUS_COPY_ROWS_DONE,
	STATUS_COPY_ROWS_ESTIMATED,
	STATUS_TRANSACTIONS,
	STATUS_ROWS,
	STATUS_OPS,
	STATUS_REJECTED_ROWS,
	STATUS_REREADS,
	STATUS_EVALUATION_ERRORS,
	STATUS_WAKEUPS,
	STATUS_LAST_ACTIVITY,
	STATUS_LAST_ERROR,
	STATUS_LAST_ERROR_SQLSTATE,
	STATUS_LAST_ERROR_TIME,
	STATUS_FAILURES,
	STATUS_NEXT_RETRY,
	STATUS_WAITS_FOR_PID,
	STATUS_WAITS_FOR_XID,
	STATUS_WAITS_FOR,
	STATUS_HINT,
	STATUS_COLUMNS
};

typedef struct StatusRow
{
	Datum		values[STATUS_COLUMNS];
	bool		nulls[STATUS_COLUMNS];
} StatusRow;

static void
row_init(StatusRow *row)
{
	memset(row->nulls, true, sizeof(row->nulls));
}

static void
set(StatusRow *row, int column, Datum value)
{
	row->values[column] = value;
	row->nulls[column] = false;
}

/* Text from outside may be in no known encoding: better a '?' than an error here. */
static void
set_text(StatusRow *row, int column, const char *text)
{
	char	   *copy;

	if (text[0] == '\0')
		return;
	copy = pstrdup(text);
	if (!pg_verifymbstr(copy, strlen(copy), true))
	{
		for (char *p = copy; *p; p++)
		{
			if (IS_HIGHBIT_SET(*p))
				*p = '?';
		}
	}
	set(row, column, CStringGetTextDatum(copy));
}

static void
set_lsn(StatusRow *row, int column, pg_atomic_uint64 *lsn)
{
	uint64		value = pg_atomic_read_u64(lsn);

	if (value != 0)
		set(row, column, LSNGetDatum(value));
}

static void
set_time(StatusRow *row, int column, TimestampTz time)
{
	if (time != 0)
		set(row, column, TimestampTzGetDatum(time));
}

static void
set_count(StatusRow *row, int column, pg_atomic_uint64 *counter)
{
	set(row, column, Int64GetDatum((int64) pg_atomic_read_u64(counter)));
}

/*
 * Seconds since which commits may be waiting: none while the worker sleeps;
 * otherwise since it last had nothing to do, or since the commit of the last
 * transaction that is stored.
 */
static void
set_lag(StatusRow *row, WorkerEntry *entry)
{
	TimestampTz since = Max((TimestampTz) pg_atomic_read_u64(&entry->source_time),
							(TimestampTz) pg_atomic_read_u64(&entry->caught_up_time));
	double		lag = 0;

	if (pg_atomic_read_u32(&entry->idle) == 0)
	{
		if (since == 0)
			return;
		lag = Max((GetCurrentTimestamp() - since) / 1000000.0, 0);
	}
	set(row, STATUS_LAG_SECONDS, Float8GetDatum(lag));
}

static void
set_copy_progress(StatusRow *row, WorkerEntry *entry)
{
	set_text(row, STATUS_COPY_TABLE, entry->copy_table);
	if (entry->tables_total > 0)
	{
		set(row, STATUS_TABLES_DONE, Int32GetDatum(entry->tables_done));
		set(row, STATUS_TABLES_TOTAL, Int32GetDatum(entry->tables_total));
		set(row, STATUS_COPY_ROWS_DONE, Int64GetDatum(entry->copy_rows_done));
	}
	if (entry->copy_rows_estimated >= 0)
		set(row, STATUS_COPY_ROWS_ESTIMATED, Int64GetDatum(entry->copy_rows_estimated));
}

static const char *
phase_hint(WorkerPhase phase)
{
	switch (phase)
	{
		case PHASE_NO_RULES:
			return "No rules are deployed; call pgsync_deploy().";
		case PHASE_CREATING_SLOT:
			return "A replication slot can be made when all transactions that are running have ended.";
		default:
			return "";
	}
}

/* A stream that has caught up but is not served yet, while clients are further on. */
static void
set_awaited(StatusRow *row, WorkerEntry *entry)
{
	uint64		lsn = pg_atomic_read_u64(&entry->ahead_lsn);

	if (lsn != 0 && entry->phase == PHASE_CATCHING_UP)
		set_text(row, STATUS_WAITS_FOR,
				 psprintf("checkpoint %X/%X, at which replication stream %u is served",
						  LSN_FORMAT_ARGS(lsn), pg_atomic_read_u32(&entry->ahead_stream)));
}

/*
 * The most pressing first: why it does not run, what is not as it should be, what it
 * waits for; last what was and stays, as long as the worker lives.
 */
static void
set_hint(StatusRow *row, WorkerEntry *entry)
{
	bool		failed = entry->phase == PHASE_BACKING_OFF || entry->phase == PHASE_STOPPED ||
		entry->phase == PHASE_HISTORY_CHANGED || entry->phase == PHASE_STARTING ||
		entry->phase == PHASE_NONE;

	if (failed && entry->error_hint[0] != '\0')
		set_text(row, STATUS_HINT, entry->error_hint);
	else if (entry->warning[0] != '\0')
		set_text(row, STATUS_HINT, entry->warning);
	else if (!row->nulls[STATUS_WAITS_FOR])
		set_text(row, STATUS_HINT, "The stream becomes the served one when it has got as far: clients do not go back in time.");
	else if (phase_hint(entry->phase)[0] != '\0')
		set_text(row, STATUS_HINT, phase_hint(entry->phase));
	else if (pg_atomic_read_u64(&entry->rejected_rows) > 0 ||
			 pg_atomic_read_u64(&entry->evaluation_errors) > 0)
		set_text(row, STATUS_HINT, "Rows were left out, or queries failed on them: pgsync_rejected_rows and warnings in the server's log name them.");
}

static void
fill_row(StatusRow *row, WorkerEntry *entry)
{
	row_init(row);
	if (entry->stream != 0)
		set(row, STATUS_STREAM, Int32GetDatum(entry->stream));
	set_text(row, STATUS_STATE, entry->storage_state);
	set_text(row, STATUS_PHASE, worker_phase_name(entry->phase));
	set_time(row, STATUS_PHASE_SINCE, entry->phase_since);
	if (entry->pid != 0)
		set(row, STATUS_PID, Int32GetDatum(entry->pid));
	set_text(row, STATUS_SLOT_NAME, entry->slot_name);

	set_lsn(row, STATUS_DECODED_LSN, &entry->decoded_lsn);
	set_lsn(row, STATUS_STORED_LSN, &entry->stored_lsn);
	set_lsn(row, STATUS_CHECKPOINT_LSN, &entry->checkpoint_lsn);
	set_lsn(row, STATUS_CONFIRMED_LSN, &entry->confirmed_lsn);
	set_lag(row, entry);
	if (pg_atomic_read_u64(&entry->checkpoint_lsn) != 0)
		set_count(row, STATUS_CHECKPOINT, &entry->checkpoint_op);
	set_time(row, STATUS_CHECKPOINT_TIME, pg_atomic_read_u64(&entry->checkpoint_time));
	set_copy_progress(row, entry);

	set_count(row, STATUS_TRANSACTIONS, &entry->transactions);
	set_count(row, STATUS_ROWS, &entry->rows);
	set_count(row, STATUS_OPS, &entry->ops);
	set_count(row, STATUS_REJECTED_ROWS, &entry->rejected_rows);
	set_count(row, STATUS_REREADS, &entry->rereads);
	set_count(row, STATUS_EVALUATION_ERRORS, &entry->evaluation_errors);
	set_count(row, STATUS_WAKEUPS, &entry->wakeups);
	set_time(row, STATUS_LAST_ACTIVITY, pg_atomic_read_u64(&entry->last_activity));

	set_text(row, STATUS_LAST_ERROR, entry->error);
	set_text(row, STATUS_LAST_ERROR_SQLSTATE, entry->error_sqlstate);
	set_time(row, STATUS_LAST_ERROR_TIME, entry->error_time);
	/* the launcher forgets them at the next failure only */
	set(row, STATUS_FAILURES,
		Int32GetDatum(entry->phase == PHASE_STREAMING ? 0 : entry->failures));
	if (entry->phase == PHASE_BACKING_OFF)
		set_time(row, STATUS_NEXT_RETRY, entry->next_start);
	if (pg_atomic_read_u32(&entry->waits_for_pid) != 0)
		set(row, STATUS_WAITS_FOR_PID, Int32GetDatum(pg_atomic_read_u32(&entry->waits_for_pid)));
	if (pg_atomic_read_u32(&entry->waits_for_xid) != 0)
		set(row, STATUS_WAITS_FOR_XID,
			TransactionIdGetDatum(pg_atomic_read_u32(&entry->waits_for_xid)));
	set_awaited(row, entry);
	set_hint(row, entry);
}

static void
put_row(ReturnSetInfo *result, StatusRow *row)
{
	tuplestore_putvalues(result->setResult, result->setDesc, row->values, row->nulls);
}

/*
 * Copies of this database's entries, so that the lock is held for moments only.
 * Entries without a process whose switch is not on are about to be freed.
 */
static WorkerEntry *
copy_entries(PgsyncShared *shared, DatabaseSwitch state, int *count, bool *launcher_runs,
			 bool *all_used)
{
	WorkerEntry *entries = palloc(mul_size(shared->max_workers, sizeof(WorkerEntry)));

	*count = 0;
	*all_used = true;
	LWLockAcquire(&shared->lock, LW_SHARED);
	*launcher_runs = shared->launcher_pid != 0;
	for (int i = 0; i < shared->max_workers; i++)
	{
		if (!shared->workers[i].in_use)
			*all_used = false;
		else if (shared->workers[i].database == MyDatabaseId &&
				 (state == DATABASE_ON || shared->workers[i].process != 0))
			entries[(*count)++] = shared->workers[i];
	}
	LWLockRelease(&shared->lock);
	return entries;
}

/* Switched on, but the launcher has made no entry for it. */
static void
put_waiting_row(ReturnSetInfo *result, bool launcher_runs, bool all_used)
{
	StatusRow	row;

	row_init(&row);
	set_text(&row, STATUS_PHASE, worker_phase_name(PHASE_NONE));
	if (!launcher_runs)
		set_text(&row, STATUS_HINT, "The pgsync launcher does not run at the moment; the server's log tells why.");
	else if (all_used)
	{
		set_text(&row, STATUS_LAST_ERROR, "no free pgsync worker");
		set_text(&row, STATUS_LAST_ERROR_SQLSTATE, "53400");
		set_text(&row, STATUS_HINT, "Raise pgsync.max_workers and restart the server.");
	}
	put_row(result, &row);
}

static bool
is_shown(WorkerEntry *entries, int count, const char *slot_name)
{
	for (int i = 0; i < count; i++)
	{
		if (strcmp(entries[i].slot_name, slot_name) == 0)
			return true;
	}
	return false;
}

/* slots of ours in this database that no entry names */
static OwnSlot *
loose_slots(WorkerEntry *entries, int count, int *slot_count)
{
	int			all;
	OwnSlot    *slots = own_slots(MyDatabaseId, &all, NULL);

	*slot_count = 0;
	for (int i = 0; i < all; i++)
	{
		if (!is_shown(entries, count, NameStr(slots[i].name)))
			slots[(*slot_count)++] = slots[i];
	}
	return slots;
}

/* Switched off: a row for each slot that waits, or one if there is none. */
static void
put_stopped_rows(ReturnSetInfo *result, int entry_count, OwnSlot *slots, int count)
{
	StatusRow	row;

	row_init(&row);
	set_text(&row, STATUS_STATE, "stopped");
	set_text(&row, STATUS_PHASE, worker_phase_name(PHASE_STOPPED));
	set_text(&row, STATUS_HINT, count == 0 ? "Call pgsync_start()." :
			 "The slot keeps WAL until pgsync_start() goes on or pgsync_stop(drop_slot => true) gives it up.");
	if (count == 0 && entry_count == 0)
		put_row(result, &row);
	for (int i = 0; i < count; i++)
	{
		set_text(&row, STATUS_SLOT_NAME, NameStr(slots[i].name));
		put_row(result, &row);
	}
}

/* Has a worker that has seen the storage's streams found none that has the slot? */
static bool
is_unused(WorkerEntry *entries, int count, const OwnSlot *slot)
{
	if (slot->active)
		return false;
	for (int i = 0; i < count; i++)
	{
		for (int j = 0; j < PGSYNC_MAX_UNUSED; j++)
		{
			if (strcmp(entries[i].unused_slots[j], NameStr(slot->name)) == 0)
				return true;
		}
	}
	return false;
}

/*
 * Switched on: slots that no row shows yet.  Before a worker has reached the storage
 * nobody knows whose they are, but they keep WAL all the same.
 */
static void
put_loose_slots(ReturnSetInfo *result, WorkerEntry *entries, int entry_count, OwnSlot *slots,
				int count)
{
	bool		known = false;

	for (int i = 0; i < entry_count; i++)
		known = known || entries[i].slots_known;
	for (int i = 0; i < count; i++)
	{
		StatusRow	row;

		row_init(&row);
		set_text(&row, STATUS_SLOT_NAME, NameStr(slots[i].name));
		if (is_unused(entries, entry_count, &slots[i]))
		{
			set_text(&row, STATUS_PHASE, worker_phase_name(PHASE_UNUSED_SLOT));
			set_text(&row, STATUS_HINT,
					 psprintf("No stream of this MongoDB database uses the slot, and it keeps WAL for ever. If the settings are right: SELECT pg_drop_replication_slot('%s');",
							  NameStr(slots[i].name)));
		}
		else
		{
			set_text(&row, STATUS_PHASE, worker_phase_name(PHASE_NONE));
			set_text(&row, STATUS_HINT, known ?
					 "The slot is that of a stopped stream, which is removed after those before it, or of one that is about to be started." :
					 "Which stream has the slot is known when MongoDB has been reached; it keeps WAL until then.");
		}
		put_row(result, &row);
	}
}

static bool
has_entry(WorkerEntry *entries, int count, int32 stream)
{
	for (int i = 0; i < count; i++)
	{
		if (entries[i].stream == stream)
			return true;
	}
	return false;
}

static bool
was_listed(WorkerEntry *entries, int before, int32 stream)
{
	for (int i = 0; i < before; i++)
	{
		for (int j = 0; j < PGSYNC_MAX_UNUSED; j++)
		{
			if (entries[i].no_worker_for[j] == stream)
				return true;
		}
	}
	return false;
}

/* Streams that wait for a free entry, as the workers that run have found. */
static void
put_streams_without_worker(ReturnSetInfo *result, WorkerEntry *entries, int count)
{
	for (int i = 0; i < count; i++)
	{
		for (int j = 0; j < PGSYNC_MAX_UNUSED; j++)
		{
			int32		stream = entries[i].no_worker_for[j];
			StatusRow	row;

			if (stream == 0 || has_entry(entries, count, stream) ||
				was_listed(entries, i, stream))
				continue;
			row_init(&row);
			set(&row, STATUS_STREAM, Int32GetDatum(stream));
			set_text(&row, STATUS_PHASE, worker_phase_name(PHASE_NONE));
			set_text(&row, STATUS_LAST_ERROR, "no free pgsync worker");
			set_text(&row, STATUS_LAST_ERROR_SQLSTATE, "53400");
			set_text(&row, STATUS_HINT, "Raise pgsync.max_workers and restart the server.");
			put_row(result, &row);
		}
	}
}

/* A stream that was replaced shows ACTIVE until its worker has seen it. */
static int32
newest_active(WorkerEntry *entries, int count)
{
	int32		newest = 0;

	for (int i = 0; i < count; i++)
	{
		if (strcmp(entries[i].storage_state, "ACTIVE") == 0)
			newest = Max(newest, entries[i].stream);
	}
	return newest;
}

Datum
pgsync_worker_status(PG_FUNCTION_ARGS)
{
	PgsyncShared *shared = pgsync_preloaded()->shared;
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	DatabaseSwitch state = database_switch_get();
	WorkerEntry *entries;
	bool		launcher_runs;
	bool		all_used;
	int			count;
	OwnSlot  *slots;
	int			slot_count;
	int32		served;

	InitMaterializedSRF(fcinfo, 0);
	if (result->setDesc->natts != STATUS_COLUMNS)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("extension and library of pgsync have different versions"),
				 errhint("Run ALTER EXTENSION pgsync UPDATE.")));

	entries = copy_entries(shared, state, &count, &launcher_runs, &all_used);
	/* one worker and one slot that nobody has claimed: its own, as far as anybody knows */
	slots = loose_slots(entries, count, &slot_count);
	if (state == DATABASE_ON && count == 1 && slot_count == 1 && !entries[0].slots_known &&
		entries[0].slot_name[0] == '\0')
	{
		strlcpy(entries[0].slot_name, NameStr(slots[0].name), NAMEDATALEN);
		slot_count = 0;
	}
	served = newest_active(entries, count);
	for (int i = 0; i < count; i++)
	{
		StatusRow	row;

		fill_row(&row, &entries[i]);
		if (entries[i].stream < served && strcmp(entries[i].storage_state, "ACTIVE") == 0)
			set_text(&row, STATUS_HINT,
					 psprintf("Replication stream %d has replaced this one and is served; this one is about to be removed.",
							  served));
		put_row(result, &row);
	}
	if (state == DATABASE_ON)
	{
		if (count == 0)
			put_waiting_row(result, launcher_runs, all_used);
		put_streams_without_worker(result, entries, count);
		put_loose_slots(result, entries, count, slots, slot_count);
	}
	else if (state == DATABASE_OFF)
		put_stopped_rows(result, count, slots, slot_count);
	return (Datum) 0;
}
