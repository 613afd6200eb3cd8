/*-------------------------------------------------------------------------
 *
 * evil.c
 *	  A type whose output function does what a value of it says: a test of what
 *	  foreign code can do to a worker.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(evil_in);
PG_FUNCTION_INFO_V1(evil_out);

Datum
evil_in(PG_FUNCTION_ARGS)
{
	PG_RETURN_TEXT_P(cstring_to_text(PG_GETARG_CSTRING(0)));
}

static int
recurse(int depth)
{
	volatile char frame[256] = {0};	/* or the compiler makes it a loop */

	check_stack_depth();
	return depth == PG_INT32_MAX ? 0 : recurse(depth + 1) + frame[0];
}

static void
run(const char *command)
{
	SPI_connect();
	(void) SPI_execute(command, false, 0);
	SPI_finish();
}

Datum
evil_out(PG_FUNCTION_ARGS)
{
	char	   *what = text_to_cstring(PG_GETARG_TEXT_PP(0));

	if (strcmp(what, "error") == 0)
		ereport(ERROR, (errmsg("evil: %s", what)));
	if (strcmp(what, "error of bytes") == 0)
		ereport(ERROR, (errmsg("evil: \xc3 \xf0")));
	if (strcmp(what, "cancel") == 0)
		ereport(ERROR, (errcode(ERRCODE_QUERY_CANCELED), errmsg("evil: %s", what)));
	if (strcmp(what, "memory") == 0)
		(void) palloc((Size) 10 * 1024 * 1024 * 1024);
	if (strcmp(what, "more memory") == 0)
		(void) MemoryContextAllocHuge(CurrentMemoryContext, (Size) 1 << 46);
	if (strcmp(what, "recurse") == 0)
		elog(ERROR, "%d", recurse(0));
	if (strcmp(what, "write") == 0)
		run("INSERT INTO public.evil_log VALUES ('x')");
	if (strcmp(what, "lock and leave") == 0)
	{
		(void) relation_open(RelationRelationId, AccessShareLock);
		(void) SearchSysCache1(RELOID, ObjectIdGetDatum(RelationRelationId));
		(void) SPI_connect();
	}
	if (strcmp(what, "lock and fail") == 0)
	{
		(void) relation_open(RelationRelationId, AccessShareLock);
		(void) SearchSysCache1(RELOID, ObjectIdGetDatum(RelationRelationId));
		ereport(ERROR, (errmsg("evil: %s", what)));
	}
	if (strcmp(what, "terminate") == 0)
		(void) DirectFunctionCall2(pg_terminate_backend, Int32GetDatum(MyProcPid), Int64GetDatum(0));
	if (strcmp(what, "superuser") == 0)
		run("ALTER ROLE mallory SUPERUSER");
	if (strcmp(what, "sleep") == 0)
		(void) DirectFunctionCall1(pg_sleep, Float8GetDatum(3600));
	if (strcmp(what, "set") == 0)
	{
		SetConfigOption("datestyle", "German, DMY", PGC_USERSET, PGC_S_SESSION);
		SetConfigOption("timezone", "Asia/Kolkata", PGC_USERSET, PGC_S_SESSION);
	}
	if (strcmp(what, "bytes") == 0)
		PG_RETURN_CSTRING(pstrdup("a\xff\xc3"));
	if (strcmp(what, "who") == 0)
		PG_RETURN_CSTRING(psprintf("%s, restricted %d, read only %d, path %s",
								   GetUserNameFromId(GetUserId(), false),
								   InSecurityRestrictedOperation(), XactReadOnly,
								   GetConfigOption("search_path", false, false)));
	PG_RETURN_CSTRING(what);
}
