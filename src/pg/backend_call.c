/*-------------------------------------------------------------------------
 *
 * backend_call.c
 *	  What an ordinary backend holds while one of its SQL functions talks to the
 *	  storage.
 *
 * It is given back with the memory context in which the call began, so also after
 * an error or a cancel.
 *
 * Invariant: nothing that the storage thread may still use is freed, and a statement
 * that is cancelled does not wait for a dead network.
 *
 *-------------------------------------------------------------------------
 */
#include "worker.h"

#include <unistd.h>

#include "storage/ipc.h"
#include "utils/memutils.h"

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
	{
		arena_destroy(call->arena);
		free(call->arg);
	}
}

BackendCall *
backend_call(Size arg_size)
{
	BackendCall *call = palloc0(sizeof(BackendCall));

	call->callback.func = end_call;
	call->callback.arg = call;
	MemoryContextRegisterResetCallback(CurrentMemoryContext, &call->callback);
	/* calloc: the text's end is the NUL that is there */
	if ((call->arg = calloc(1, arg_size)) == NULL)
		ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory")));
	return call;
}
