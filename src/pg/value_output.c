/*-------------------------------------------------------------------------
 *
 * value_output.c
 *	  Texts by output functions, and what keeps those from doing harm.
 *
 * The worker has a superuser's rights and runs in a loop that a failure only
 * starts again.  So whatever can fail on a value runs in a subtransaction that is
 * always rolled back, and a failure is the row's, not the worker's.  Code that is
 * not built in (an extension's, a user's, also below an array or a domain) runs as
 * the table's owner in a security-restricted, read-only context, with the settings
 * given back afterwards, and within a time.
 *
 * What this cannot do: code in C can still crash the server, as it could in the
 * session that wrote the value; only superusers and trusted extensions bring such.
 *
 * Invariant: after run_guarded() user, settings, resources and transaction are as
 * before it, whether the work failed or not.
 *
 *-------------------------------------------------------------------------
 */
#include "value.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "storage/latch.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/timeout.h"

#include "core/text.h"

/* for all values of a row that foreign code gives the text of */
#define FOREIGN_CODE_MS		5000

/* JSON of one value may be larger than the value: keys, escapes */
#define JSON_LIMIT			((size_t) 64 * 1024 * 1024)

static TimeoutId foreign_timeout = MAX_TIMEOUTS;

void
set_failure(const RowConversion *conversion, const char *message)
{
	SyncError	text;

	StaticAssertStmt(sizeof(text.message) <= ROW_FAILURE_SIZE, "a message fits");
	/* which makes text of it: foreign code can say anything */
	sync_error_set(&text, SYNC_ERROR_LIMIT, "%s",
				   message != NULL ? message : "no reason is given");
	strcpy(conversion->failure, text.message);
}

SyncValue
output_value(const RowConversion *conversion, const ColumnConversion *column, Datum datum,
			 SyncArena *scratch)
{
	PrintedOptions options = {.iso8601 = conversion->iso8601,
		.fraction_digits = conversion->fraction_digits,.limit = JSON_LIMIT};
	SyncString	text;
	SyncValue	value;
	SyncError	error = {0};
	char	   *printed;

	if (column->too_deep)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg_internal("composites and arrays of its type are nested too deeply")));
	if (column->foreign)
	{
		/* the next column is printed as before, whatever this one sets */
		int			level = NewGUCNestLevel();

		printed = OidOutputFunctionCall(column->output_function, datum);
		AtEOXact_GUC(false, level);
	}
	else
		printed = OutputFunctionCall(unconstify(FmgrInfo *, &column->output), datum);
	text = (SyncString) {printed, (uint32_t) strlen(printed)};
	/* the server makes no other bytes */
	if (column->foreign && !utf8_is_valid(text.data, text.len))
		text = text_from_bytes(text.data, text.len, scratch);
	if (column->printed == NULL)
		return value_text(text.data, text.len);
	if (!printed_value(column->printed, &options, text, scratch, &value, &error))
	{
		if (column->guarded)
			ereport(ERROR,
					(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
					 errmsg_internal("%s", error.message)));
		set_failure(conversion, error.message);
		return (SyncValue) {.type = SYNC_UNDEFINED};
	}
	return value;
}

/* ---------------------------------------------------------------- guard */

/* as a cancel, which every wait and every long loop looks for */
static void
foreign_code_took_too_long(void)
{
	InterruptPending = true;
	QueryCancelPending = true;
	SetLatch(MyLatch);
}

static void
start_timer(void)
{
	if (foreign_timeout == MAX_TIMEOUTS)
		foreign_timeout = RegisterTimeout(USER_TIMEOUT, foreign_code_took_too_long);
	enable_timeout_after(foreign_timeout, FOREIGN_CODE_MS);
}

/* whether it had gone off */
static bool
stop_timer(void)
{
	bool		late = get_timeout_indicator(foreign_timeout, true);

	disable_timeout(foreign_timeout, false);
	/* the worker takes no cancels: this one is ours, and may have come too late */
	if (late)
		QueryCancelPending = false;
	return late;
}

static void
begin_foreign_code(Oid owner)
{
	Oid			user;
	int			security_context;

	GetUserIdAndSecContext(&user, &security_context);
	SetUserIdAndSecContext(owner, security_context | SECURITY_RESTRICTED_OPERATION);
	XactReadOnly = true;
}

/*
 * Is the failure one of the server's, which the next attempt may not meet?  Foreign
 * code can raise any error it likes on a value, again and again.
 */
static bool
is_transient(const ErrorData *error, bool foreign, bool in_worker)
{
	switch (ERRCODE_TO_CATEGORY(error->sqlerrcode))
	{
		case ERRCODE_OPERATOR_INTERVENTION:
			return !(foreign && in_worker);
		case ERRCODE_INSUFFICIENT_RESOURCES:
		case ERRCODE_SYSTEM_ERROR:
			return !foreign;
		default:
			return false;
	}
}

bool
run_guarded(const RowConversion *conversion, bool foreign, GuardedWork work, void *arg)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	/* in a user's session his own limits count */
	bool		timed = foreign && MyWorker != NULL;
	volatile bool done = false;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	if (foreign)
		begin_foreign_code(conversion->owner);
	if (timed)
		start_timer();
	PG_TRY();
	{
		work(arg);
		done = true;
	}
	PG_CATCH();
	{
		bool		late = timed && stop_timer();
		ErrorData  *error;

		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		if (is_transient(error, foreign, MyWorker != NULL))
			PG_RE_THROW();
		FlushErrorState();
		if (late && error->sqlerrcode == ERRCODE_QUERY_CANCELED)
			snprintf(conversion->failure, ROW_FAILURE_SIZE, "it took more than %d seconds",
					 FOREIGN_CODE_MS / 1000);
		else
			set_failure(conversion, error->message);
		FreeErrorData(error);
	}
	PG_END_TRY();
	if (timed && done)
		(void) stop_timer();
	/* gives back what was held, set and written, if anything was */
	RollbackAndReleaseCurrentSubTransaction();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	return done;
}
