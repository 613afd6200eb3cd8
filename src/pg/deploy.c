/*-------------------------------------------------------------------------
 *
 * deploy.c
 *	  SQL functions that change what is deployed: deploy, adopt.
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
#include "rules_sql.h"

#include "access/xlog.h"
#include "commands/extension.h"
#include "miscadmin.h"
#include "replication/logical.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

PGSYNC_FUNCTION(pgsync_deploy);
PGSYNC_FUNCTION(pgsync_adopt);

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
	SyncArena  *arena = rules_arena();
	BackendCall *call;
	const RulesMessage *messages = NULL;
	const RulesMessage *findings;
	const SyncPlan *plan;
	StorageDeploy *deploy;
	const char *stored;
	size_t		stored_len = 0;
	Size		content_len;
	char	   *at;

	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("rules must not be null")));
	rules = PG_GETARG_TEXT_PP(0);
	PreventCommandDuringRecovery("pgsync_deploy()");
	PreventCommandIfReadOnly("pgsync_deploy()");
	check_encoding();
	plan = rules_plan(rules, arena, &messages, NULL);
	if (plan == NULL)
		rules_refuse(messages, "Nothing was deployed. pgsync_validate() shows every finding.");
	/* refuses what cannot be used, in its own words; that there is none is among the findings */
	(void) publication_state(&preloaded->settings);
	findings = rules_findings(rules, plan, arena);
	if (rules_have_fatal(findings))
		rules_refuse(findings, "Nothing was deployed. pgsync_validate() shows every finding.");
	rules_warn(messages);
	rules_warn(findings);

	/* the thread gets copies: this backend may be gone before it ends */
	stored = plan_stored_json(plan, &stored_len);
	content_len = VARSIZE_ANY_EXHDR(rules);
	call = backend_call(sizeof(StorageDeploy) + NAMEDATALEN + content_len + 1 + stored_len + 1);
	deploy = call->arg;
	deploy->self = source_identity(&preloaded->settings);
	at = (char *) (deploy + 1);
	strlcpy(at, *preloaded->settings.slot_prefix, NAMEDATALEN);
	deploy->slot_prefix = at;
	at += NAMEDATALEN;
	memcpy(at, VARDATA_ANY(rules), content_len);
	deploy->content = at;
	at += content_len + 1;
	if (stored != NULL)
	{
		memcpy(at, stored, stored_len);
		deploy->plan = at;
	}

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
	PreventCommandIfReadOnly("pgsync_adopt()");
	call = backend_call(sizeof(StorageOpenStream));
	open = call->arg;
	open->self = source_identity(&preloaded->settings);
	call->link = storage_link_open(&preloaded->settings);
	storage_link_run(call->link, storage_prepare, NULL, 0);
	storage_link_run(call->link, storage_adopt_stream, open, sizeof(*open));
	worker_retry(preloaded->shared, MyDatabaseId);
	PG_RETURN_VOID();
}
