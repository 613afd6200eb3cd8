/*-------------------------------------------------------------------------
 *
 * deploy.c
 *	  SQL functions about sync rules: validate, deploy, adopt.
 *
 * They run in ordinary backends, which load this library on demand, and reach
 * the storage through a thread as workers do: a cancel or a shutdown is
 * obeyed at once.
 *
 * Invariant: rules with a fatal error are never deployed, and nothing is
 * written before all checks have passed.
 *
 *-------------------------------------------------------------------------
 */
#include "worker.h"

#include <unistd.h>

#include "access/xlog.h"
#include "commands/extension.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "replication/logical.h"
#include "storage/ipc.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#include "core/rules.h"

PGSYNC_FUNCTION(pgsync_validate);
PGSYNC_FUNCTION(pgsync_deploy);
PGSYNC_FUNCTION(pgsync_adopt);

/* what a backend holds while it talks to the storage; freed whatever happens */
typedef struct BackendCall
{
	MemoryContextCallback callback;
	StorageLink *link;
	SyncArena  *arena;
	void	   *arg;			/* malloc'ed; a thread that does not end keeps it */
} BackendCall;

/* a statement that is cancelled must not wait for a dead network */
#define CLOSE_WAIT_MS	2000

static bool exit_callback_set = false;

static void
leave_without_handlers(int code, Datum arg)
{
	_exit(code);
}

static void
end_call(void *arg)
{
	BackendCall *call = arg;
	bool		leaked = false;

	if (call->link != NULL)
	{
		storage_link_close(call->link, CLOSE_WAIT_MS);
		leaked = call->link->leaked;
		/* a thread that goes on must not meet the libraries' exit handlers */
		if (leaked && !exit_callback_set)
		{
			exit_callback_set = true;
			on_proc_exit(leave_without_handlers, (Datum) 0);
		}
	}
	if (!leaked)
		free(call->arg);
	arena_destroy(call->arena);
}

static BackendCall *
begin_call(Size arg_size)
{
	BackendCall *call = palloc0(sizeof(BackendCall));

	call->callback.func = end_call;
	call->callback.arg = call;
	MemoryContextRegisterResetCallback(CurrentMemoryContext, &call->callback);
	/* calloc: the text's end is the NUL that is there */
	if ((arg_size > 0 && (call->arg = calloc(1, arg_size)) == NULL) ||
		(call->arena = arena_create(0)) == NULL)
		ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory")));
	return call;
}

static const SyncPlan *
compile(BackendCall *call, text *rules, RulesMessage **messages)
{
	RulesOptions options = {.default_schema = "public"};

	return rules_compile(VARDATA_ANY(rules), VARSIZE_ANY_EXHDR(rules), &options, call->arena,
						 messages);
}

static const char *
message_code(SyncErrorCode code)
{
	switch (code)
	{
		case SYNC_ERROR_SYNTAX:
			return "42601";
		case SYNC_ERROR_UNSUPPORTED:
			return "0A000";
		case SYNC_ERROR_LIMIT:
			return "54000";
		case SYNC_ERROR_OUT_OF_MEMORY:
			return "53200";
		default:
			return "F0000";
	}
}

Datum
pgsync_validate(PG_FUNCTION_ARGS)
{
	text	   *rules = PG_GETARG_TEXT_PP(0);
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	BackendCall *call = begin_call(0);
	RulesMessage *messages = NULL;

#if PG_VERSION_NUM >= 160000
	InitMaterializedSRF(fcinfo, 0);
#else
	SetSingleFuncCall(fcinfo, 0);
#endif
	(void) compile(call, rules, &messages);
	for (; messages != NULL; messages = messages->next)
	{
		const SyncError *error = &messages->error;
		Datum		values[6] = {0};
		bool		nulls[6] = {false};

		values[0] = CStringGetTextDatum(messages->level == RULES_FATAL ? "fatal" : "warning");
		values[1] = Int32GetDatum(error->line);
		nulls[1] = error->line == 0;
		values[2] = Int32GetDatum(error->column);
		nulls[2] = error->column == 0;
		values[3] = CStringGetTextDatum(message_code(error->code));
		values[4] = CStringGetTextDatum(error->message);
		nulls[5] = error->hint[0] == '\0';
		if (!nulls[5])
			values[5] = CStringGetTextDatum(error->hint);
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/* All fatal errors in one message; the first one gives position and hint. */
static void
refuse_rules(const RulesMessage *messages)
{
	StringInfoData detail;
	const RulesMessage *first = NULL;

	initStringInfo(&detail);
	for (; messages != NULL; messages = messages->next)
	{
		const SyncError *error = &messages->error;

		if (messages->level != RULES_FATAL)
			continue;
		if (first == NULL)
			first = messages;
		else
			appendStringInfoChar(&detail, '\n');
		if (error->line > 0)
			appendStringInfo(&detail, "Line %d, column %d: ", error->line, error->column);
		appendStringInfo(&detail, "%s.", error->message);
	}
	ereport(ERROR,
			(errcode(first != NULL && first->error.code == SYNC_ERROR_OUT_OF_MEMORY ?
					 ERRCODE_OUT_OF_MEMORY :
					 first != NULL && first->error.code == SYNC_ERROR_UNSUPPORTED ?
					 ERRCODE_FEATURE_NOT_SUPPORTED : ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("the sync rules are not valid"),
			 errdetail("%s", detail.data),
			 first != NULL && first->error.hint[0] != '\0' ?
			 errhint("%s", first->error.hint) :
			 errhint("Nothing was deployed. pgsync_validate() shows every finding.")));
}

static void
warn(const RulesMessage *messages)
{
	for (; messages != NULL; messages = messages->next)
	{
		const SyncError *error = &messages->error;

		if (messages->level == RULES_WARNING)
			ereport(WARNING,
					(errcode(ERRCODE_WARNING),
					 errmsg("%s", error->message),
					 error->line > 0 ? errdetail("Line %d, column %d.", error->line,
												 error->column) : 0,
					 error->hint[0] != '\0' ? errhint("%s", error->hint) : 0));
	}
}

static void
check_plan(const SyncPlan *plan)
{
	int			version = plan_storage_version(plan);

	if (version != 0 && version != 2)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("storage version %d is not supported by pgsync", version),
				 errhint("Leave \"storage_version\" out of the sync rules.")));
}

static void
check_publication_exists(const PgsyncSettings *settings)
{
	PublicationState state = publication_state(settings);

	if (state.missing)
		ereport(WARNING,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("publication \"%s\" does not exist", *settings->publication),
				 errdetail("Every table that the rules name is replicated."),
				 errhint("Create the publication, or set \"pgsync.publication\" to an empty string.")));
}

/* Has the stream run; says so if nothing does. */
static void
run_deployed(PgsyncShared *shared, int32 stream)
{
	if (database_switch_get() != DATABASE_ON)
	{
		ereport(NOTICE,
				(errmsg("replication of this database is not started"),
				 errhint("Call pgsync_start().")));
		return;
	}
	/* a worker that waits for rules takes the stream itself */
	if (!worker_wake(shared, MyDatabaseId, 0) &&
		!worker_request(shared, MyDatabaseId, stream))
		ereport(WARNING,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("no free pgsync worker for replication stream %d", stream),
				 errdetail("All %d workers are in use.", shared->max_workers),
				 errhint("Raise pgsync.max_workers and restart the server.")));
	worker_retry(shared, MyDatabaseId);
}

Datum
pgsync_deploy(PG_FUNCTION_ARGS)
{
	text	   *rules;
	PgsyncPreloaded *preloaded = pgsync_preloaded();
	BackendCall *call;
	RulesMessage *messages = NULL;
	const SyncPlan *plan;
	StorageDeploy *deploy;
	char	   *content;
	char	   *prefix;

	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("rules must not be null")));
	rules = PG_GETARG_TEXT_PP(0);
	PreventCommandDuringRecovery("pgsync_deploy()");
	check_encoding();
	call = begin_call(sizeof(StorageDeploy) + VARSIZE_ANY_EXHDR(rules) + 1 + NAMEDATALEN);
	plan = compile(call, rules, &messages);
	if (plan == NULL)
		refuse_rules(messages);
	check_plan(plan);
	warn(messages);
	check_publication_exists(&preloaded->settings);

	/* the thread gets copies: this backend may be gone before it ends */
	deploy = call->arg;
	deploy->self = source_identity(&preloaded->settings);
	content = (char *) (deploy + 1);
	memcpy(content, VARDATA_ANY(rules), VARSIZE_ANY_EXHDR(rules));
	deploy->content = content;
	prefix = content + VARSIZE_ANY_EXHDR(rules) + 1;
	strlcpy(prefix, *preloaded->settings.slot_prefix, NAMEDATALEN);
	deploy->slot_prefix = prefix;

	call->link = storage_link_open(&preloaded->settings);
	storage_link_run(call->link, storage_prepare, NULL, 0);
	storage_link_run(call->link, storage_deploy, deploy, sizeof(*deploy));

	/* what the storage has now is there whether or not this transaction commits */
	run_deployed(preloaded->shared, deploy->stream_id);
	PG_RETURN_INT32(deploy->stream_id);
}

Datum
pgsync_adopt(PG_FUNCTION_ARGS)
{
	PgsyncPreloaded *preloaded = pgsync_preloaded();
	BackendCall *call;
	StorageOpenStream *open;

	PreventCommandDuringRecovery("pgsync_adopt()");
	call = begin_call(sizeof(StorageOpenStream));
	open = call->arg;
	open->self = source_identity(&preloaded->settings);
	call->link = storage_link_open(&preloaded->settings);
	storage_link_run(call->link, storage_prepare, NULL, 0);
	storage_link_run(call->link, storage_adopt_stream, open, sizeof(*open));
	worker_retry(preloaded->shared, MyDatabaseId);
	PG_RETURN_VOID();
}
