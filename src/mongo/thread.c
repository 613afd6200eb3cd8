/*-------------------------------------------------------------------------
 *
 * thread.c
 *	  The storage thread: its life, its jobs, its MongoDB client.
 *
 * One client, no pool (a pool would start another thread).  The thread runs
 * jobs in the order they came and, between them, the writer's flushes; it
 * sleeps when there is neither.
 *
 * It knows nothing of streams or documents, and calls nothing of the server.
 *
 * Invariants: every signal but the ones that mean a crash is blocked in the
 * thread; a job's arg is touched by the thread only between submit and finish;
 * after "ended" is set the thread touches nothing.
 *
 *-------------------------------------------------------------------------
 */
#include "mongo/mongo_private.h"

#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define APPLICATION_MAX	128		/* libmongoc's limit */

static pthread_once_t driver_once = PTHREAD_ONCE_INIT;

/* libmongoc would write to stderr; what matters comes back as an error */
static void
ignore_log(mongoc_log_level_t level, const char *domain, const char *message, void *user_data)
{
	(void) level;
	(void) domain;
	(void) message;
	(void) user_data;
}

static void
init_driver(void)
{
	mongoc_log_set_handler(ignore_log, NULL);
	mongoc_init();
}

void
thread_notify(MongoThread *thread)
{
	uint64_t	one = 1;
	ssize_t		n = write(thread->wake_fd, &one, sizeof(one));

	(void) n;					/* full: then it is readable anyway */
}

/* ---------------------------------------------------------------- target */

static bool
database_name_valid(const char *name)
{
	size_t		len = name ? strlen(name) : 0;

	return len > 0 && len < DATABASE_NAME_SIZE && strpbrk(name, "/\\. \"$*<>:|?") == NULL;
}

/* An option of the URI that switches off what TLS is for, or NULL. */
static const char *
insecure_option(const mongoc_uri_t *uri)
{
	static const char *const options[] = {
		MONGOC_URI_TLSINSECURE,
		MONGOC_URI_TLSALLOWINVALIDCERTIFICATES,
		MONGOC_URI_TLSALLOWINVALIDHOSTNAMES
	};

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		if (mongoc_uri_get_option_as_bool(uri, options[i], false))
			return options[i];
	return NULL;
}

/* The lower one of the URI's and ours; 0: not set. */
static void
bound_timeout(mongoc_uri_t *uri, const char *option, int ours)
{
	int			theirs = mongoc_uri_get_option_as_int32(uri, option, 0);

	if (ours > 0 && (theirs <= 0 || theirs > ours))
		mongoc_uri_set_option_as_int32(uri, option, ours);
}

static void
set_application(mongoc_uri_t *uri, const char *application)
{
	char		name[APPLICATION_MAX + 1];
	size_t		len = application ? strlen(application) : 0;

	if (len == 0)
		return;
	if (len > APPLICATION_MAX)
	{
		len = APPLICATION_MAX;
		while (len > 0 && ((unsigned char) application[len] & 0xC0) == 0x80)
			len--;
	}
	memcpy(name, application, len);
	name[len] = '\0';
	(void) mongoc_uri_set_appname(uri, name);
}

/*
 * The URI with everything set that must not be left to defaults; NULL and
 * *error when it cannot be used.  The parser's own message is not passed on:
 * it can quote the part that holds the password.
 */
static mongoc_uri_t *
parse_target(const MongoTarget *target, StorageError *error)
{
	bson_error_t ignored;
	mongoc_uri_t *uri;
	const char *insecure;

	if (!database_name_valid(target->database))
	{
		storage_error_set(error, STORAGE_BAD_URI, "the MongoDB database name is not valid");
		return NULL;
	}
	uri = target->uri ? mongoc_uri_new_with_error(target->uri, &ignored) : NULL;
	if (uri == NULL)
	{
		storage_error_set(error, STORAGE_BAD_URI,
						  "the text is not of the form mongodb://user:password@host1,host2/?replicaSet=name, "
						  "or a special character in user or password is not percent-encoded");
		return NULL;
	}
	/* a slash in the password ends the hosts, and what is left of it would be shown */
	if (mongoc_uri_get_database(uri) != NULL && strchr(mongoc_uri_get_database(uri), '@') != NULL)
	{
		storage_error_set(error, STORAGE_BAD_URI,
						  "a special character in user or password is not percent-encoded");
		mongoc_uri_destroy(uri);
		return NULL;
	}
	insecure = insecure_option(uri);
	if (insecure != NULL && !target->allow_insecure_tls)
	{
		storage_error_set(error, STORAGE_BAD_URI,
						  "the option \"%s\" switches off the check of the server's certificate",
						  insecure);
		mongoc_uri_destroy(uri);
		return NULL;
	}
	bound_timeout(uri, MONGOC_URI_CONNECTTIMEOUTMS, target->connect_timeout_ms);
	bound_timeout(uri, MONGOC_URI_SOCKETTIMEOUTMS, target->socket_timeout_ms);
	bound_timeout(uri, MONGOC_URI_SERVERSELECTIONTIMEOUTMS, target->server_selection_timeout_ms);
	mongoc_uri_set_option_as_bool(uri, MONGOC_URI_RETRYWRITES, true);
	/* one host may be any member of a replica set: find the others and the primary */
	if (!mongoc_uri_has_option(uri, MONGOC_URI_DIRECTCONNECTION) &&
		!mongoc_uri_has_option(uri, MONGOC_URI_LOADBALANCED) &&
		mongoc_uri_get_replica_set(uri) == NULL)
		mongoc_uri_set_option_as_bool(uri, MONGOC_URI_DIRECTCONNECTION, false);
	set_application(uri, target->application);
	return uri;
}

/* Host list for messages; malloc'ed, NULL without memory. */
static char *
list_hosts(const mongoc_uri_t *uri)
{
	const mongoc_host_list_t *hosts = mongoc_uri_get_hosts(uri);
	const char *service = mongoc_uri_get_srv_hostname(uri);
	size_t		size = 1;
	char	   *text;

	if (service != NULL)
		return strdup(service);
	for (const mongoc_host_list_t *h = hosts; h != NULL; h = h->next)
		size += strlen(h->host_and_port) + 1;
	text = malloc(size);
	if (text == NULL)
		return NULL;
	text[0] = '\0';
	for (const mongoc_host_list_t *h = hosts; h != NULL; h = h->next)
	{
		if (text[0] != '\0')
			strcat(text, ",");
		strcat(text, h->host_and_port);
	}
	return text;
}

static int
compare_hosts(const void *a, const void *b)
{
	return strcasecmp(*(const char *const *) a, *(const char *const *) b);
}

/* FNV-1a, without regard to case */
static uint32_t
hash_text(uint32_t hash, const char *text)
{
	for (; *text != '\0'; text++)
		hash = (hash ^ (unsigned char) tolower((unsigned char) *text)) * UINT32_C(16777619);
	return (hash ^ '/') * UINT32_C(16777619);
}

/*
 * The same number for URIs that name the same hosts in any order.  Two numbers
 * for one storage (a host left out of one of the URIs) cost conflicts only.
 */
static uint32_t
storage_number(const MongoThread *thread)
{
	uint32_t	hash = UINT32_C(2166136261);
	const char *hosts[64];
	size_t		count = 0;
	const char *service = mongoc_uri_get_srv_hostname(thread->uri);

	if (service != NULL)
		hosts[count++] = service;
	else
		for (const mongoc_host_list_t *h = mongoc_uri_get_hosts(thread->uri);
			 h != NULL && count < 64; h = h->next)
			hosts[count++] = h->host_and_port;
	qsort(hosts, count, sizeof(hosts[0]), compare_hosts);
	for (size_t i = 0; i < count; i++)
		hash = hash_text(hash, hosts[i]);
	hash = hash_text(hash, thread->database);
	return hash != 0 ? hash : 1;
}

/* ---------------------------------------------------------------- context */

bool
context_cancelled(const MongoContext *context)
{
	return atomic_load(&context->thread->cancelled);
}

void
context_sleep(MongoContext *context, int ms)
{
	struct pollfd fd = {.fd = context->thread->cancel_fd, .events = POLLIN};

	(void) poll(&fd, 1, ms);
}

static void
context_init(MongoContext *context, MongoThread *thread)
{
	memset(context, 0, sizeof(*context));
	context->thread = thread;
	context->majority = mongoc_write_concern_new();
	mongoc_write_concern_set_w(context->majority, MONGOC_WRITE_CONCERN_W_MAJORITY);
	mongoc_write_concern_set_journal(context->majority, true);
	bson_init(&context->majority_opts);
	mongoc_write_concern_append(context->majority, &context->majority_opts);
}

static void
context_destroy(MongoContext *context)
{
	context_disconnect(context);
	mongoc_write_concern_destroy(context->majority);
	bson_destroy(&context->majority_opts);
}

void
context_disconnect(MongoContext *context)
{
	for (int i = 0; i < context->handle_count; i++)
		mongoc_collection_destroy(context->handles[i].collection);
	context->handle_count = 0;
	if (context->session != NULL)
		mongoc_client_session_destroy(context->session);
	context->session = NULL;
	context->in_transaction = false;
	if (context->client != NULL)
		mongoc_client_destroy(context->client);
	context->client = NULL;
}

/*
 * What the URI says about reading and writing is for other programs: we read
 * from the primary, and say with each write how it is to be confirmed.
 */
static void
set_client_defaults(mongoc_client_t *client)
{
	mongoc_read_prefs_t *primary = mongoc_read_prefs_new(MONGOC_READ_PRIMARY);
	mongoc_read_concern_t *reading = mongoc_read_concern_new();
	mongoc_write_concern_t *writing = mongoc_write_concern_new();

	mongoc_client_set_read_prefs(client, primary);
	mongoc_client_set_read_concern(client, reading);
	mongoc_client_set_write_concern(client, writing);
	mongoc_write_concern_destroy(writing);
	mongoc_read_concern_destroy(reading);
	mongoc_read_prefs_destroy(primary);
}

/*
 * No network unless the URI is an SRV one, whose record is looked up here.
 */
bool
context_connect(MongoContext *context, StorageError *error)
{
	bson_error_t driver_error;

	if (context_cancelled(context))
	{
		storage_error_set(error, STORAGE_CANCELLED, "cancelled");
		return false;
	}
	if (context->client != NULL)
		return true;
	memset(&driver_error, 0, sizeof(driver_error));
	context->client = mongoc_client_new_from_uri_with_error(context->thread->uri, &driver_error);
	if (context->client == NULL)
	{
		if (mongoc_uri_get_srv_hostname(context->thread->uri) != NULL)
			storage_error_set(error, STORAGE_UNREACHABLE, "the SRV record of \"%s\" was not found",
							  context->thread->hosts);
		else
			storage_error_set(error, STORAGE_BAD_URI,
							  "the options of the URI cannot be used together (or a file they name cannot be read)");
		return false;
	}
	mongoc_client_set_error_api(context->client, MONGOC_ERROR_API_VERSION_2);
	set_client_defaults(context->client);
	mongoc_client_set_stream_initiator(context->client, cancellable_stream, context);
	return true;
}

mongoc_collection_t *
context_collection(MongoContext *context, const char *name)
{
	CollectionHandle *handle;

	for (int i = 0; i < context->handle_count; i++)
		if (strcmp(context->handles[i].name, name) == 0)
			return context->handles[i].collection;
	if (context->handle_count == MAX_COLLECTION_HANDLES)
	{
		/* more streams than anybody runs: begin again */
		for (int i = 0; i < context->handle_count; i++)
			mongoc_collection_destroy(context->handles[i].collection);
		context->handle_count = 0;
	}
	handle = &context->handles[context->handle_count++];
	snprintf(handle->name, sizeof(handle->name), "%s", name);
	handle->collection = mongoc_client_get_collection(context->client,
													  context->thread->database, name);
	return handle->collection;
}

void
stream_collection_name(char name[COLLECTION_NAME_SIZE], const char *stem, int32_t stream_id)
{
	snprintf(name, COLLECTION_NAME_SIZE, "%s_%d", stem, (int) stream_id);
}

/* ---------------------------------------------------------------- thread */

static void
run_job(MongoContext *context, MongoJob *job)
{
	memset(&job->error, 0, sizeof(job->error));
	if (context_connect(context, &job->error))
		job->function(context, job->arg, &job->error);
	if (context_cancelled(context) && job->error.kind == STORAGE_UNREACHABLE)
		storage_error_set(&job->error, STORAGE_CANCELLED, "cancelled");
	atomic_store(&job->finished, true);
	thread_notify(context->thread);
}

/*
 * When the held lock is to be renewed, by monotonic_us(); 0: never.  After a
 * writer has failed nothing is held that would be of use.
 */
static int64_t
renewal_time(const MongoContext *context)
{
	MongoThread *thread = context->thread;

	if (!context->holds_stream || (thread->writer != NULL && writer_has_failed(thread->writer)))
		return 0;
	if (context->lock_tried != 0)
		return context->lock_tried + LOCK_RETRY_MS * INT64_C(1000);
	return context->lock_renewed + atomic_load(&thread->renew_ms) * INT64_C(1000);
}

/*
 * The main thread may wait for something else for hours, and a lock that ends
 * is anybody's.  An error that may pass is one once the lock has ended.
 */
static void
renew_lock(MongoContext *context)
{
	MongoThread *thread = context->thread;
	Writer	   *writer;
	StorageError error;

	memset(&error, 0, sizeof(error));
	pthread_mutex_lock(&thread->mutex);
	writer = thread->writer;
	pthread_mutex_unlock(&thread->mutex);
	if (!context_connect(context, &error))
		context->lock_tried = monotonic_us();
	else
	{
		storage_renew_lock(context, NULL, &error);
		if (error.kind == STORAGE_OK && writer != NULL)
			check_held_state(context, &error);
	}
	if (error.kind == STORAGE_OK || writer == NULL || context_cancelled(context))
		return;
	if (error.kind == STORAGE_LOCK_LOST || error.kind == STORAGE_STREAM_GONE ||
		monotonic_us() - context->lock_renewed > LOCK_SECONDS * INT64_C(1000000))
		writer_fail(writer, &error);
}

/* Waits for news, or until then (0: for ever); true if it is then. */
static bool
wait_for_work(MongoThread *thread, int64_t until)
{
	struct timespec time = {
		.tv_sec = (time_t) (until / 1000000), .tv_nsec = (long) (until % 1000000) * 1000
	};

	if (until == 0)
	{
		pthread_cond_wait(&thread->work, &thread->mutex);
		return false;
	}
	return pthread_cond_timedwait(&thread->work, &thread->mutex, &time) == ETIMEDOUT;
}

/* Waits for work; NULL with *stop false: the writer has some, or *renew. */
static MongoJob *
next_work(MongoContext *context, bool *stop, bool *renew)
{
	MongoThread *thread = context->thread;
	MongoJob   *job = NULL;

	*stop = *renew = false;
	pthread_mutex_lock(&thread->mutex);
	thread->busy = false;
	if (thread->draining)
		pthread_cond_broadcast(&thread->end);
	for (;;)
	{
		if (thread->draining)
		{
			if (atomic_load(&thread->cancelled))
			{
				*stop = true;
				break;
			}
		}
		else if (thread->first_job != NULL)
		{
			job = thread->first_job;
			thread->first_job = job->next;
			if (thread->first_job == NULL)
				thread->last_job = NULL;
			break;
		}
		if (atomic_load(&thread->cancelled))
		{
			*stop = true;
			break;
		}
		if (!thread->draining && thread->writer != NULL && writer_has_work(thread->writer))
			break;
		*renew = wait_for_work(thread, thread->draining ? 0 : renewal_time(context)) &&
			!thread->draining;
		if (*renew)
			break;
	}
	thread->busy = !*stop;
	pthread_mutex_unlock(&thread->mutex);
	return job;
}

static void *
thread_main(void *arg)
{
	MongoThread *thread = arg;
	MongoContext context;
	bool		stop = false;

	context_init(&context, thread);
	while (!stop)
	{
		bool		renew;
		MongoJob   *job = next_work(&context, &stop, &renew);

		if (job != NULL)
			run_job(&context, job);
		else if (renew)
			renew_lock(&context);
		else if (!stop)
			(void) writer_step(thread->writer, &context);
	}
	context_destroy(&context);
	mongoc_uri_destroy(thread->uri);	/* clears the password */
	thread->uri = NULL;

	pthread_mutex_lock(&thread->mutex);
	thread->ended = true;
	pthread_cond_broadcast(&thread->end);
	pthread_mutex_unlock(&thread->mutex);
	return NULL;
}

/* Starts the thread with all signals blocked that are not a crash. */
static int
start_blocked(MongoThread *thread)
{
	sigset_t	blocked;
	sigset_t	before;
	int			rc;

	sigfillset(&blocked);
	sigdelset(&blocked, SIGSEGV);
	sigdelset(&blocked, SIGBUS);
	sigdelset(&blocked, SIGFPE);
	sigdelset(&blocked, SIGILL);
	sigdelset(&blocked, SIGABRT);
	rc = pthread_sigmask(SIG_SETMASK, &blocked, &before);
	if (rc != 0)
		return rc;
	rc = pthread_create(&thread->thread, NULL, thread_main, thread);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return rc;
}

static void
thread_free(MongoThread *thread)
{
	MongoJob   *job;

	while ((job = thread->first_job) != NULL)
	{
		thread->first_job = job->next;
		free(job);
	}
	if (thread->writer != NULL)
		writer_destroy(thread->writer);
	if (thread->uri != NULL)
		mongoc_uri_destroy(thread->uri);
	if (thread->cancel_fd >= 0)
		close(thread->cancel_fd);
	free(thread->hosts);
	pthread_cond_destroy(&thread->end);
	pthread_cond_destroy(&thread->work);
	pthread_mutex_destroy(&thread->mutex);
	free(thread);
}

static void
init_sync(MongoThread *thread)
{
	pthread_condattr_t attributes;

	pthread_mutex_init(&thread->mutex, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&thread->work, &attributes);
	pthread_cond_init(&thread->end, &attributes);
	pthread_condattr_destroy(&attributes);
}

MongoThread *
mongo_thread_start(const MongoTarget *target, StorageError *error)
{
	MongoThread *thread;
	int			rc;

	memset(error, 0, sizeof(*error));
	pthread_once(&driver_once, init_driver);
	thread = calloc(1, sizeof(MongoThread));
	if (thread == NULL)
	{
		storage_error_set(error, STORAGE_SERVER, "out of memory");
		return NULL;
	}
	init_sync(thread);
	atomic_init(&thread->renew_ms, LOCK_RENEW_MS);
	thread->cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	thread->wake_fd = target->wake_fd;
	thread->queue_limit = target->queue_bytes;
	thread->uri = parse_target(target, error);
	if (thread->uri == NULL)
	{
		thread_free(thread);
		return NULL;
	}
	strcpy(thread->database, target->database);
	thread->hosts = list_hosts(thread->uri);
	thread->storage = storage_number(thread);
	rc = thread->hosts == NULL || thread->cancel_fd < 0 ? ENOMEM : start_blocked(thread);
	if (rc != 0)
	{
		char		text[128];

		storage_error_set(error, STORAGE_SERVER, "the storage thread could not be started: %s",
						  bson_strerror_r(rc, text, sizeof(text)));
		thread_free(thread);
		return NULL;
	}
	return thread;
}

const char *
mongo_thread_hosts(const MongoThread *thread)
{
	return thread->hosts;
}

void
mongo_thread_cancel(MongoThread *thread)
{
	uint64_t	one = 1;
	ssize_t		n;

	atomic_store(&thread->cancelled, true);
	n = write(thread->cancel_fd, &one, sizeof(one));
	(void) n;
	pthread_mutex_lock(&thread->mutex);
	pthread_cond_broadcast(&thread->work);
	pthread_mutex_unlock(&thread->mutex);
}

static struct timespec
time_after(int ms)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += ms / 1000;
	until.tv_nsec += (long) (ms % 1000) * 1000000;
	if (until.tv_nsec >= 1000000000)
	{
		until.tv_sec++;
		until.tv_nsec -= 1000000000;
	}
	return until;
}

bool
mongo_thread_drain(MongoThread *thread, int timeout_ms)
{
	struct timespec until = time_after(timeout_ms);
	bool		idle;

	pthread_mutex_lock(&thread->mutex);
	thread->draining = true;
	while (thread->busy &&
		   pthread_cond_timedwait(&thread->end, &thread->mutex, &until) != ETIMEDOUT)
		;
	idle = !thread->busy;
	pthread_mutex_unlock(&thread->mutex);
	return idle;
}

bool
mongo_thread_stop(MongoThread *thread, int timeout_ms)
{
	struct timespec until = time_after(timeout_ms);
	bool		ended;

	mongo_thread_cancel(thread);
	pthread_mutex_lock(&thread->mutex);
	while (!thread->ended &&
		   pthread_cond_timedwait(&thread->end, &thread->mutex, &until) != ETIMEDOUT)
		;
	ended = thread->ended;
	pthread_mutex_unlock(&thread->mutex);
	if (!ended)
	{
		pthread_detach(thread->thread);
		return false;
	}
	pthread_join(thread->thread, NULL);
	thread_free(thread);
	return true;
}

/* ---------------------------------------------------------------- jobs */

MongoJob *
mongo_submit(MongoThread *thread, MongoJobFunction function, void *arg)
{
	MongoJob   *job = calloc(1, sizeof(MongoJob));

	if (job == NULL)
		return NULL;
	job->function = function;
	job->arg = arg;
	atomic_init(&job->finished, false);
	pthread_mutex_lock(&thread->mutex);
	if (thread->ended || atomic_load(&thread->cancelled))
	{
		storage_error_set(&job->error, STORAGE_CANCELLED, "cancelled");
		atomic_store(&job->finished, true);
	}
	else
	{
		if (thread->last_job != NULL)
			thread->last_job->next = job;
		else
			thread->first_job = job;
		thread->last_job = job;
		pthread_cond_signal(&thread->work);
	}
	pthread_mutex_unlock(&thread->mutex);
	return job;
}

bool
mongo_job_finished(const MongoJob *job)
{
	return atomic_load(&job->finished);
}

void
mongo_job_collect(MongoJob *job, StorageError *error)
{
	*error = job->error;
	free(job);
}
