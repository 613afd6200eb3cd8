/*-------------------------------------------------------------------------
 *
 * stored.c
 *	  SQL functions that read what is stored.
 *
 * They run in ordinary backends, which load this library on demand, and reach the
 * storage through a thread as workers do: a cancel or a shutdown is obeyed at once.
 *
 * Invariant: nothing is written, in the storage or here.
 *
 *-------------------------------------------------------------------------
 */
#include "worker.h"

#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/pg_lsn.h"
#include "utils/timestamp.h"

#define REJECTED_COLUMNS	7

PGSYNC_FUNCTION(pgsync_stored_rejected_rows);

static void
set_text(Datum *value, bool *null, const char *text)
{
	*null = text == NULL;
	if (text != NULL)
		*value = CStringGetTextDatum(text);
}

static TimestampTz
timestamp_of_ms(int64_t ms)
{
	return (ms - (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * SECS_PER_DAY * INT64CONST(1000)) * 1000;
}

/*
 * pgsync_stored_rejected_rows() returns setof record: what the view
 * pgsync_rejected_rows shows.
 */
Datum
pgsync_stored_rejected_rows(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	PgsyncPreloaded *preloaded = pgsync_preloaded();
	BackendCall *call;
	StorageListRejected *list;

	PreventCommandDuringRecovery("pgsync_stored_rejected_rows()");
#if PG_VERSION_NUM >= 160000
	InitMaterializedSRF(fcinfo, 0);
#else
	SetSingleFuncCall(fcinfo, 0);
#endif
	call = backend_call(sizeof(StorageListRejected));
	if ((call->arena = arena_create(0)) == NULL)
		ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory")));
	list = call->arg;
	list->self = source_identity(&preloaded->settings);
	list->arena = call->arena;
	call->link = storage_link_open(&preloaded->settings);
	storage_link_run(call->link, storage_list_rejected, list, sizeof(*list));

	for (size_t i = 0; i < list->count; i++)
	{
		const ListedRejectedRow *row = &list->rows[i];
		Datum		values[REJECTED_COLUMNS] = {0};
		bool		nulls[REJECTED_COLUMNS] = {false};

		values[0] = Int32GetDatum(row->stream_id);
		set_text(&values[1], &nulls[1], row->schema);
		set_text(&values[2], &nulls[2], row->table);
		set_text(&values[3], &nulls[3], row->key);
		set_text(&values[4], &nulls[4], row->reason);
		values[5] = LSNGetDatum(row->lsn);
		nulls[5] = row->lsn == STREAM_LSN_NONE;
		values[6] = TimestampTzGetDatum(timestamp_of_ms(row->time_ms));
		nulls[6] = row->time_ms == 0;
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	return (Datum) 0;
}
