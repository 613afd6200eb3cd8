/*-------------------------------------------------------------------------
 *
 * storage_link.c
 *	  How the main thread of a process talks to the storage thread.
 *
 * Starts the thread, waits for jobs on the latch and
 * the thread's eventfd, and turns storage errors into PostgreSQL's.  Used by
 * workers and by the SQL functions that reach the storage.
 *
 * Invariant: the main thread never waits for the network other than in
 * storage_link_wait(), where it serves interrupts.
 *
 *-------------------------------------------------------------------------
 */
#include "worker.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include "access/xlog.h"
#include "catalog/pg_control.h"
#include "commands/dbcommands.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

static bool
is_set(const char *setting)
{
	return setting != NULL && setting[0] != '\0';
}

StorageLink *
storage_link_open(const PgsyncSettings *settings)
{
	StorageLink *link;
	StorageError error;
	MongoTarget target;
	char	   *uri = target_uri(settings);
	char	   *volatile application = NULL;
	char	   *volatile database = NULL;
	StorageLink *volatile made = NULL;

	PG_TRY();
	{
		database = target_database(settings);
		application = psprintf("pgsync %s %s", PGSYNC_VERSION, get_database_name(MyDatabaseId));
		made = MemoryContextAllocZero(TopMemoryContext, sizeof(StorageLink));
		made->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		if (made->wake_fd < 0)
			ereport(ERROR,
					(errcode(ERRCODE_SYSTEM_ERROR),
					 errmsg("could not create an event descriptor: %m")));
	}
	PG_CATCH();
	{
		explicit_bzero(uri, strlen(uri));
		PG_RE_THROW();
	}
	PG_END_TRY();
	link = made;

	memset(&target, 0, sizeof(target));
	target.uri = uri;
	target.database = database;
	target.application = application;
	target.connect_timeout_ms = *settings->connect_timeout;
	target.socket_timeout_ms = *settings->storage_timeout;
	target.server_selection_timeout_ms = *settings->server_selection_timeout;
	target.queue_bytes = (size_t) *settings->queue_size * 1024;
	target.wake_fd = link->wake_fd;
	memset(&error, 0, sizeof(error));
	link->thread = mongo_thread_start(&target, &error);
	explicit_bzero(uri, strlen(uri));
	pfree(uri);
	pfree(application);
	if (link->thread == NULL)
	{
		close(link->wake_fd);
		pfree(link);
		storage_error_report(&error, NULL);
	}

#if PG_VERSION_NUM >= 170000
	link->wait_set = CreateWaitEventSet(NULL, 3);
#else
	link->wait_set = CreateWaitEventSet(TopMemoryContext, 3);
#endif
	AddWaitEventToSet(link->wait_set, WL_LATCH_SET, PGINVALID_SOCKET, MyLatch, NULL);
	AddWaitEventToSet(link->wait_set, WL_EXIT_ON_PM_DEATH, PGINVALID_SOCKET, NULL, NULL);
	AddWaitEventToSet(link->wait_set, WL_SOCKET_READABLE, link->wake_fd, NULL, NULL);
	return link;
}

bool
storage_link_wait(StorageLink *link, long timeout_ms)
{
	WaitEvent	events[3];
	int			n;
	bool		news = false;

	n = WaitEventSetWait(link->wait_set, timeout_ms, events, lengthof(events),
						 PG_WAIT_EXTENSION);
	for (int i = 0; i < n; i++)
	{
		if (events[i].events & WL_LATCH_SET)
			ResetLatch(MyLatch);
		else if (events[i].events & WL_SOCKET_READABLE)
		{
			uint64		count;

			if (read(link->wake_fd, &count, sizeof(count)) == sizeof(count))
				news = true;
		}
	}
	if (MyWorker != NULL)
		worker_check_interrupts(MyWorker);
	else
		CHECK_FOR_INTERRUPTS();
	return news;
}

/*
 * The thread gets a copy of *arg: if this process leaves the wait by an error,
 * the copy stays the thread's, and no frame that is gone is written to.
 */
void
storage_link_try(StorageLink *link, MongoJobFunction function, void *arg, Size size,
				 StorageError *error)
{
	void	   *copy = NULL;
	MongoJob   *job;

	memset(error, 0, sizeof(*error));
	if (size > 0)
	{
		copy = malloc(size);
		if (copy != NULL)
			memcpy(copy, arg, size);
	}
	job = size > 0 && copy == NULL ? NULL : mongo_submit(link->thread, function, copy);
	if (job == NULL)
	{
		free(copy);
		ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory")));
	}
	while (!mongo_job_finished(job))
		(void) storage_link_wait(link, 1000);
	mongo_job_collect(job, error);
	if (size > 0)
		memcpy(arg, copy, size);
	free(copy);
}

void
storage_link_run(StorageLink *link, MongoJobFunction function, void *arg, Size size)
{
	StorageError error;

	storage_link_try(link, function, arg, size, &error);
	if (error.kind != STORAGE_OK)
		storage_error_report(&error, mongo_thread_hosts(link->thread));
}

void
storage_link_close(StorageLink *link, int timeout_ms)
{
	if (link == NULL || link->thread == NULL)
		return;
	link->leaked = !mongo_thread_stop(link->thread, timeout_ms);
	link->thread = NULL;
	if (link->wait_set)
		FreeWaitEventSet(link->wait_set);
	link->wait_set = NULL;
	/* a thread that goes on still writes to its descriptor */
	if (!link->leaked)
		close(link->wake_fd);
}

/* A worker tries again by itself, a statement does not. */
static const char *
unreachable_hint(const StorageError *error)
{
	if (MyWorker != NULL)
		return "Nothing is lost: replication goes on when the server is back. Check that it runs and that the URI names it.";
	/* the server may have done it, and the answer was lost */
	if (error->commit_unknown)
		return "Whether it was done is not known. When the server is back, look at pgsync_status() and call the function again if need be.";
	return "Nothing was changed. Check that the server runs and that the URI names it, then try again.";
}

/*
 * Raises what the storage said, by what a person can do about it.
 */
void
storage_error_report(const StorageError *error, const char *hosts)
{
	int			sqlstate = ERRCODE_FDW_ERROR;
	const char *message = "the MongoDB server reported an error";
	const char *hint = NULL;

	switch (error->kind)
	{
		case STORAGE_BAD_URI:
			sqlstate = ERRCODE_CONFIG_FILE_ERROR;
			message = "the MongoDB URI is not valid";
			hint = "Correct the URI in the file that \"pgsync.mongodb_uri_file\" names.";
			break;
		case STORAGE_UNREACHABLE:
			sqlstate = ERRCODE_CONNECTION_FAILURE;
			message = "could not reach the MongoDB server";
			hint = unreachable_hint(error);
			break;
		case STORAGE_AUTH:
			sqlstate = ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION;
			message = "the MongoDB server refused the user";
			hint = "Check user, password, authSource and the user's role (readWrite on the database) in the URI file.";
			break;
		case STORAGE_TLS:
			sqlstate = ERRCODE_CONNECTION_FAILURE;
			message = "could not set up TLS with the MongoDB server";
			hint = "Check tls, tlsCAFile and tlsCertificateKeyFile in the URI file, and that the certificate names the host.";
			break;
		case STORAGE_UNSUITABLE:
			sqlstate = ERRCODE_FEATURE_NOT_SUPPORTED;
			message = "the MongoDB server cannot be used as storage";
			hint = "Use a replica set of MongoDB 5.0 or newer; a single server can be a replica set of one.";
			break;
		case STORAGE_LOCK_LOST:
			sqlstate = ERRCODE_OBJECT_IN_USE;
			message = "another replicator holds the replication stream";
			hint = "Stop the other replication process (for PowerSync: run only the API); its lock expires within a minute.";
			break;
		case STORAGE_STREAM_GONE:
			sqlstate = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE;
			message = "the replication stream was replaced";
			break;
		case STORAGE_CHANGED:
			sqlstate = ERRCODE_DATA_CORRUPTED;
			message = "the storage is not as this stream left it";
			hint = "If MongoDB was restored or written by another program, deploy the rules again with pgsync_deploy().";
			break;
		case STORAGE_BINDING:
			sqlstate = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE;
			message = "the replication stream belongs to another PostgreSQL cluster or database";
			hint = "If this database replaces that one, call pgsync_adopt(); otherwise set \"pgsync.mongodb_database\" to a MongoDB database of its own.";
			break;
		case STORAGE_INVALID:
			sqlstate = ERRCODE_DATA_CORRUPTED;
			message = "the storage holds a document that pgsync cannot use";
			hint = "Another program wrote it, or MongoDB was restored in part. Deploy the rules again with pgsync_deploy(), or use an empty MongoDB database.";
			break;
		case STORAGE_CANCELLED:
			sqlstate = ERRCODE_QUERY_CANCELED;
			message = "the call to the MongoDB server was cancelled";
			break;
		case STORAGE_SERVER:
		case STORAGE_OK:
			break;
	}
	ereport(ERROR,
			(errcode(sqlstate),
			 errmsg("%s", message),
			 hosts != NULL && error->message[0] != '\0' ?
			 errdetail("%s (hosts %s)", error->message, hosts) :
			 error->message[0] != '\0' ? errdetail("%s", error->message) : 0,
			 hint ? errhint("%s", hint) : 0));
}

/*
 * Who this cluster and database are (design 4, "Positions").  host: the host
 * name and the data directory, unless pgsync.cluster_id replaces them (for
 * clusters that move between hosts).
 */
SourceIdentity
source_identity(const PgsyncSettings *settings)
{
	SourceIdentity self;
	char		host[128];

	memset(&self, 0, sizeof(self));
	self.system_identifier = GetSystemIdentifier();
	self.database_oid = MyDatabaseId;
	strlcpy(self.database_name, get_database_name(MyDatabaseId), sizeof(self.database_name));
	self.timeline = GetWALInsertionTimeLine();
	if (gethostname(host, sizeof(host)) != 0)
		strlcpy(host, "?", sizeof(host));
	host[sizeof(host) - 1] = '\0';
	snprintf(self.place, sizeof(self.place), "%s:%s", host, DataDir);
	strlcpy(self.host, is_set(*settings->cluster_id) ? *settings->cluster_id : self.place,
			sizeof(self.host));
	/* they are stored: no half of a character at the end of a long one */
	self.place[pg_mbcliplen(self.place, strlen(self.place), sizeof(self.place) - 1)] = '\0';
	self.host[pg_mbcliplen(self.host, strlen(self.host), sizeof(self.host) - 1)] = '\0';
	return self;
}
