/*-------------------------------------------------------------------------
 *
 * test_mongo_streams.c
 *	  The storage thread, and streams as a whole: who may hold one, deploying,
 *	  adopting, resetting, cleaning.
 *
 * Needs a server: PGSYNC_TEST_MONGODB_URI (with_storage.py starts one).
 *
 *-------------------------------------------------------------------------
 */
#include "mongo_test.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "mongo/stream_doc.h"

static StorageError
try_open(Stand *stand, int32_t id)
{
	StorageOpenStream open = {.self = stand->self, .stream_id = id};
	StorageError error = stand_try(stand, storage_open_stream, &open);

	assert_true((error.kind == STORAGE_OK) == (open.stream != NULL));
	stream_doc_free(open.stream);
	return error;
}

/* ---------------------------------------------------------------- thread */

static MongoThread *
try_start(const char *uri, StorageError *error)
{
	MongoTarget target = {
		.uri = uri, .database = "pgsync_unit", .connect_timeout_ms = 2000,
		.socket_timeout_ms = 60000, .server_selection_timeout_ms = 30000
	};

	target.wake_fd = eventfd(0, EFD_CLOEXEC);
	return mongo_thread_start(&target, error);
}

static void
test_bad_uris(void **state)
{
	static const char *const bad[] = {
		"",
		"postgres://x",
		"mongodb://",
		"mongodb://user:secret@/",
		"mongodb://user:12/sec@host/",
		"mongodb://user:12/sec@host/?replicaSet=rs",
		"mongodb://user:secret@host/?tls=true&tlsInsecure=true",
		"mongodb://user:secret@host/?tls=true&tlsAllowInvalidCertificates=true",
		"mongodb://user:secret@host/?tls=true&tlsAllowInvalidHostnames=true",
		"mongodb://user:secret@host/?ssl=true&sslAllowInvalidCertificates=true"
	};

	(void) state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
	{
		StorageError error;

		if (try_start(bad[i], &error) != NULL)
			fail_msg("%s was accepted", bad[i]);
		assert_int_equal(error.kind, STORAGE_BAD_URI);
		assert_null(strstr(error.message, "secret"));
		assert_null(strstr(error.message, "12"));
		assert_null(strstr(error.message, "user:s"));
	}
}

static void
test_hosts_without_secrets(void **state)
{
	StorageError error;
	MongoThread *thread = try_start("mongodb://user:secret@one,two:27018/?replicaSet=rs", &error);

	(void) state;
	assert_non_null(thread);
	assert_string_equal(mongo_thread_hosts(thread), "one:27017,two:27018");
	assert_true(mongo_thread_stop(thread, 5000));
}

static double
now_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double) now.tv_sec + (double) now.tv_nsec / 1e9;
}

/* A socket that listens and never says a word; its port. */
static int
silent_server(int *fd)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t	len = sizeof(address);

	*fd = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(bind(*fd, (struct sockaddr *) &address, sizeof(address)), 0);
	assert_int_equal(listen(*fd, 8), 0);
	assert_int_equal(getsockname(*fd, (struct sockaddr *) &address, &len), 0);
	return ntohs(address.sin_port);
}

/* A server that hangs does not keep the thread: not even with timeouts of a minute. */
static void
test_cancel_at_a_silent_server(void **state)
{
	int			fd;
	int			port = silent_server(&fd);
	char		uri[128];
	StorageError error;
	MongoThread *thread;
	MongoJob   *job;
	struct pollfd listening = {.fd = fd, .events = POLLIN};
	int			connection;
	char		byte;
	double		start;

	(void) state;
	snprintf(uri, sizeof(uri), "mongodb://user:secret@127.0.0.1:%d/?replicaSet=rs", port);
	thread = try_start(uri, &error);
	assert_non_null(thread);
	job = mongo_submit(thread, storage_prepare, NULL);
	assert_int_equal(poll(&listening, 1, TEST_WAIT_SECONDS * 1000), 1);
	connection = accept(fd, NULL, NULL);
	assert_true(connection >= 0);
	assert_true(recv(connection, &byte, 1, 0) == 1);
	/* it has asked, and waits for an answer */
	assert_false(mongo_job_finished(job));
	start = now_seconds();
	assert_true(mongo_thread_stop(thread, 2000));
	assert_true(now_seconds() - start < 1.0);
	assert_true(mongo_job_finished(job));
	mongo_job_collect(job, &error);
	assert_int_equal(error.kind, STORAGE_CANCELLED);
	close(connection);
	close(fd);
}

static void
test_unreachable(void **state)
{
	int			fd;
	int			port = silent_server(&fd);
	char		uri[128];
	StorageError error;
	MongoThread *thread;
	MongoJob   *job;

	(void) state;
	close(fd);
	snprintf(uri, sizeof(uri), "mongodb://user:secret@127.0.0.1:%d/?replicaSet=rs", port);
	thread = try_start(uri, &error);
	job = mongo_submit(thread, storage_prepare, NULL);
	while (!mongo_job_finished(job))
		usleep(1000);
	mongo_job_collect(job, &error);
	assert_int_equal(error.kind, STORAGE_UNREACHABLE);
	assert_null(strstr(error.message, "secret"));
	assert_non_null(strstr(error.message, "127.0.0.1"));
	assert_true(mongo_thread_stop(thread, 2000));
}

/* The thread takes no signal that belongs to the process. */
static atomic_int signals_in_main;
static pthread_t main_thread;

static void
on_signal(int number)
{
	(void) number;
	if (pthread_equal(pthread_self(), main_thread))
		atomic_fetch_add(&signals_in_main, 1);
	else
		_exit(99);
}

static void
test_signals_stay_away(void **state)
{
	Stand	   *stand = *state;
	sigset_t	set;

	main_thread = pthread_self();
	signal(SIGUSR2, on_signal);
	/* with the main thread blocking it, only the storage thread could take it */
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	kill(getpid(), SIGUSR2);
	stand_run(stand, storage_prepare, NULL);
	assert_int_equal(atomic_load(&signals_in_main), 0);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	assert_int_equal(atomic_load(&signals_in_main), 1);
	signal(SIGUSR2, SIG_DFL);
}

/* ---------------------------------------------------------------- prepare */

static void
test_uncapped_events(void **state)
{
	Stand	   *stand = *state;

	command(stand, "{\"create\": \"checkpoint_events\"}");
	stand_run(stand, storage_prepare, NULL);
	stand_run(stand, storage_prepare, NULL);
	/* only a capped one refuses to grow */
	for (int i = 0; i < 60; i++)
		command(stand, "{\"insert\": \"checkpoint_events\", \"documents\": [{}]}");
	assert_true(count_documents(stand, "checkpoint_events", "{}") <= 50);
}

static void
test_migrations_are_left_alone(void **state)
{
	Stand	   *stand = *state;

	command(stand, "{\"insert\": \"migrations\", \"documents\": [{\"last_run\": \"x\"}]}");
	stand_run(stand, storage_prepare, NULL);
	assert_field(stand, "migrations", "{}", "last_run", "\"x\"");
}

/* ---------------------------------------------------------------- holding */

static void
test_lock(void **state)
{
	Stand	   *stand = *state;
	Stand	   *other = stand_create(stand->database);
	StorageError error;
	char	   *lock;

	stand_open(stand, stand_deploy(stand, CONFIG));
	stand_run(stand, storage_renew_lock, NULL);
	lock = field_of(stand, "sync_rules", "{}", "lock.id");
	assert_int_equal(strlen(lock), 18);

	/* a copy of the cluster elsewhere: refused before anything is written */
	strcpy(other->self.host, "elsewhere:/data");
	assert_int_equal(try_open(other, 1).kind, STORAGE_BINDING);
	/* another cluster, another database */
	strcpy(other->self.host, "here:/data");
	other->self.system_identifier++;
	assert_int_equal(try_open(other, 1).kind, STORAGE_BINDING);
	other->self.system_identifier--;
	other->self.database_oid++;
	assert_int_equal(try_open(other, 1).kind, STORAGE_BINDING);
	other->self.database_oid--;
	/* a promoted standby waits for the lock to expire */
	other->self.timeline = 2;
	strcpy(other->self.host, "standby:/data");
	error = try_open(other, 1);
	assert_int_equal(error.kind, STORAGE_LOCK_LOST);
	assert_non_null(strstr(error.message, "UTC"));
	assert_field(stand, "sync_rules", "{}", "lock.id", lock);

	/* our own successor does not wait; we have lost it then */
	other->self = stand->self;
	stand_open(other, 1);
	error = stand_try(stand, storage_renew_lock, NULL);
	assert_int_equal(error.kind, STORAGE_LOCK_LOST);
	stand_run(other, storage_renew_lock, NULL);

	/* expired: whoever the stream is bound to */
	command(stand, UPDATE("sync_rules", "{}",
						  "{\"$set\": {\"lock.expires_at\": {\"$date\": {\"$numberLong\": \"1000\"}}}}"));
	stand->self.timeline = 2;
	strcpy(stand->self.host, "standby:/data");
	stand_open(stand, 1);
	/* the binding still says what it said: the caller compares */
	assert_string_equal(stand->stream->bound_to.host, "here:/data");
	assert_int_equal(stand->stream->bound_to.timeline, 1);
	stand_run(stand, storage_close_stream, NULL);
	assert_field(stand, "sync_rules", "{}", "lock", "absent");
	free(lock);
	stand_forget(other);
}

static void
test_adopt(void **state)
{
	Stand	   *stand = *state;
	Stand	   *other = stand_create(stand->database);
	StorageOpenStream adopt = {0};

	stand_open(stand, stand_deploy(stand, CONFIG));
	other->self.system_identifier++;
	strcpy(other->self.host, "elsewhere:/data");
	adopt.self = other->self;
	assert_int_equal(stand_try(other, storage_adopt_stream, &adopt).kind, STORAGE_LOCK_LOST);
	assert_int_equal(try_open(other, 1).kind, STORAGE_BINDING);
	stand_run(stand, storage_close_stream, NULL);
	stand_run(other, storage_adopt_stream, &adopt);
	assert_int_equal(try_open(other, 1).kind, STORAGE_OK);
	assert_int_equal(try_open(stand, 1).kind, STORAGE_BINDING);
	stand_forget(other);
}

/* pgsync.cluster_id was set while the server was down: nobody else can hold the lock */
static void
test_adopt_with_another_cluster_id(void **state)
{
	Stand	   *stand = *state;
	Stand	   *other = stand_create(stand->database);
	StorageOpenStream open = {.self = stand->self, .stream_id = 1};
	StorageError error;

	strcpy(stand->self.place, "here:/data");
	stand_open(stand, stand_deploy(stand, CONFIG));
	other->self = stand->self;
	strcpy(other->self.host, "my-cluster");
	open.self = other->self;
	error = stand_try(other, storage_open_stream, &open);
	assert_int_equal(error.kind, STORAGE_BINDING);
	assert_int_equal(open.difference, BINDING_CLUSTER_ID);
	assert_non_null(strstr(error.message, "(here:/data)"));
	assert_non_null(strstr(error.message, "(my-cluster)"));

	/* a copy of it elsewhere waits for the lock's end, as any other */
	strcpy(open.self.place, "copy:/data");
	assert_int_equal(stand_try(other, storage_adopt_stream, &open).kind, STORAGE_LOCK_LOST);
	open.self = other->self;
	stand_run(other, storage_adopt_stream, &open);
	assert_int_equal(try_open(other, 1).kind, STORAGE_OK);
	stand_forget(other);
}

/* the storage of another database is not taken by a deployment, only after adopting it */
static void
test_deploy_over_another_database(void **state)
{
	Stand	   *stand = *state;
	Stand	   *other = stand_create(stand->database);
	StorageDeploy deploy = {.content = CONFIG, .slot_prefix = "powersync_"};
	StorageOpenStream adopt = {0};
	StorageError error;

	stand_open(stand, stand_deploy(stand, CONFIG));
	other->self.database_oid++;
	strcpy(other->self.database_name, "second");
	deploy.self = other->self;
	error = stand_try(other, storage_deploy, &deploy);
	assert_int_equal(error.kind, STORAGE_BINDING);
	assert_non_null(strstr(error.message, "\"source\" of the cluster with system identifier 7000000000000000001 (here:/data)"));
	assert_int_equal(count_documents(stand, "sync_rules", "{}"), 1);
	assert_field(stand, "sync_rules", "{}", "state", "\"PROCESSING\"");
	stand_run(stand, storage_renew_lock, NULL);

	stand_run(stand, storage_close_stream, NULL);
	adopt.self = other->self;
	stand_run(other, storage_adopt_stream, &adopt);
	stand_run(other, storage_deploy, &deploy);
	assert_int_equal(deploy.stream_id, 2);
	stand_forget(other);
}

/* ... also when it is not the newest, and not ACTIVE; not by copying, and not by taking a fresh one */
static void
test_any_stream_of_another_database(void **state)
{
	static const char *const states[] = {"ACTIVE", "ERRORED", "PROCESSING"};
	Stand	   *stand = *state;
	Stand	   *other = stand_create(stand->database);

	assert_int_equal(stand_deploy(stand, CONFIG), 1);
	/* deployed through the API */
	command(stand, "{\"insert\": \"sync_rules\", \"documents\": [{\"_id\": 2, \"state\": \"PROCESSING\","
			" \"storage_version\": 2, \"content\": \"x\", \"slot_name\": \"s_2\", \"snapshot_done\": false,"
			" \"last_checkpoint\": null, \"last_checkpoint_lsn\": null}]}");
	other->self.database_oid++;
	for (int i = 0; i < 3; i++)
	{
		StorageDeploy by_content = {.self = other->self, .content = CONFIG, .slot_prefix = "powersync_"};
		StorageDeploy by_copy = {.self = other->self, .source_stream = 2, .slot_prefix = "powersync_"};
		StorageOpenStream open = {.self = other->self, .stream_id = 2};
		char		update[256];

		snprintf(update, sizeof(update), UPDATE("sync_rules", "{\"_id\": 1}",
												"{\"$set\": {\"state\": \"%s\"}}"), states[i]);
		command(stand, update);
		assert_int_equal(stand_try(other, storage_deploy, &by_content).kind, STORAGE_BINDING);
		assert_int_equal(stand_try(other, storage_deploy, &by_copy).kind, STORAGE_BINDING);
		assert_int_equal(stand_try(other, storage_open_stream, &open).kind, STORAGE_BINDING);
		assert_int_equal(open.difference, BINDING_DATABASE);
		assert_int_equal(count_documents(stand, "sync_rules", "{\"state\": \"STOP\"}"), 0);
		assert_int_equal(count_documents(stand, "pgsync_streams", "{}"), 1);
	}
	/* whose it is may */
	assert_int_equal(try_open(stand, 2).kind, STORAGE_OK);
	stand_forget(other);
}

static void
test_owner_is_cut_at_a_character(void **state)
{
	Stand	   *stand = *state;
	SourceIdentity self = stand->self;
	char		text[OWNER_TEXT_SIZE];

	for (int shift = 0; shift < 4; shift++)
	{
		size_t		len = (size_t) shift;

		memset(self.database_name, 'd', sizeof(self.database_name) - 1);
		memset(self.host, 'x', len);
		for (; len + 4 < sizeof(self.host); len += 4)
			memcpy(self.host + len, "\xF0\x9F\x98\x80", 4);
		self.host[len] = '\0';
		identity_describe(&self, text);
		assert_true(bson_utf8_validate(text, strlen(text), false));
		assert_int_equal(text[strlen(text) - 1], ')');
		for (size_t size = 2; size < 12; size++)
		{
			format_text(text, size, "%s", self.host);
			assert_true(bson_utf8_validate(text, strlen(text), false));
			assert_true(strlen(text) + 4 >= size);
		}
	}
}

/* The answers to a commit are lost: whether it was done is said apart from the words. */
static void
test_commit_unknown(void **state)
{
	Stand	   *stand = *state;
	StorageDeploy deploy = {.self = stand->self, .content = CONFIG, .slot_prefix = "powersync_"};
	StorageError error;
	LossyProxy *proxy;
	MongoJob   *job;
	double		start;

	stand_run(stand, storage_prepare, NULL);
	error = stand_try(stand, storage_terminate_stream,
					  &(StorageTerminate) {.self = stand->self, .stream_id = 77});
	assert_int_equal(error.kind, STORAGE_STREAM_GONE);
	assert_false(error.commit_unknown);
	stand_stop(stand);
	proxy = lossy_proxy_start(stand, 1000);
	stand_start(stand);
	job = mongo_submit(stand->thread, storage_deploy, &deploy);
	start = now_seconds();
	while (count_documents(stand, "sync_rules", "{}") == 0)
	{
		assert_true(now_seconds() - start < TEST_WAIT_SECONDS);
		usleep(10000);
	}
	mongo_thread_cancel(stand->thread);
	while (!mongo_job_finished(job))
	{
		assert_true(now_seconds() - start < TEST_WAIT_SECONDS);
		usleep(10000);
	}
	mongo_job_collect(job, &error);
	assert_int_equal(error.kind, STORAGE_CANCELLED);
	assert_true(error.commit_unknown);
	stand_stop(stand);
	(void) lossy_proxy_stop(proxy);
	stand->uri[0] = '\0';
	stand_start(stand);
}

static void
expect_writer_fails(Stand *stand, StorageErrorKind kind)
{
	WriterProgress progress;

	for (int i = 0; i < 100; i++)
	{
		writer_progress(stand->thread, &progress);
		if (progress.failed)
			break;
		usleep(50000);
	}
	assert_true(progress.failed);
	assert_int_equal(progress.error.kind, kind);
}

/* Nobody submits anything: the thread keeps the lock by itself, and says when it is lost. */
static void
test_lock_is_kept(void **state)
{
	Stand	   *stand = *state;
	char	   *first;
	bool		renewed = false;

	atomic_store(&stand->thread->renew_ms, 50);
	stand_open(stand, stand_deploy(stand, CONFIG));
	/* without a writer, as while a slot is made */
	first = field_of(stand, "sync_rules", "{}", "lock.expires_at");
	for (int i = 0; i < 100 && !renewed; i++)
	{
		char	   *now = field_of(stand, "sync_rules", "{}", "lock.expires_at");

		renewed = strcmp(now, first) != 0;
		free(now);
		usleep(50000);
	}
	assert_true(renewed);
	free(first);
	stand_write(stand, NULL);
	add(stand, WRITE_POSITION, 0x80);
	stored(stand);
	command(stand, UPDATE("sync_rules", "{}", "{\"$set\": {\"lock.id\": \"0123456789abcdef\"}}"));
	expect_writer_fails(stand, STORAGE_LOCK_LOST);

	/* or that the stream was stopped */
	stand_stop(stand);
	stand_start(stand);
	command(stand, UPDATE("sync_rules", "{}", "{\"$unset\": {\"lock\": 1}}"));
	atomic_store(&stand->thread->renew_ms, 50);
	stand_open(stand, 1);
	stand_write(stand, NULL);
	command(stand, UPDATE("sync_rules", "{}", "{\"$set\": {\"state\": \"STOP\"}}"));
	expect_writer_fails(stand, STORAGE_STREAM_GONE);
}

/* A standby that was promoted: where it ran before, and elsewhere. */
static void
test_promotion(void **state)
{
	Stand	   *stand = *state;
	Stand	   *promoted = stand_create(stand->database);
	StorageOpenStream renew = {.stream_id = 1};

	stand_open(stand, stand_deploy(stand, CONFIG));
	/* in the same place the old process is dead: its lock is taken at once */
	promoted->self.timeline = 2;
	stand_open(promoted, 1);
	assert_int_equal(promoted->stream->bound_to.timeline, 1);
	/* an older timeline is nobody's successor */
	renew.self = promoted->self;
	stand_run(promoted, storage_adopt_stream, &renew);
	assert_int_equal(try_open(stand, 1).kind, STORAGE_LOCK_LOST);

	/* elsewhere, after the old lock ended: the lock that we hold does not stop us */
	stand_run(promoted, storage_close_stream, NULL);
	promoted->self.timeline = 3;
	strcpy(promoted->self.host, "standby:/data");
	stand_open(promoted, 1);
	renew.self = promoted->self;
	stand_run(promoted, storage_adopt_stream, &renew);
	assert_field(stand, "pgsync_streams", "{}", "host", "\"standby:/data\"");
	stand_run(promoted, storage_renew_lock, NULL);
	stand_forget(promoted);
}

#define API_STREAM(id, extra) \
	"{\"insert\": \"sync_rules\", \"documents\": [{\"_id\": " id ", \"storage_version\": 2," \
	" \"content\": \"x\", \"serialized_plan\": {\"plan\": {\"a\": 1}}, \"state\": \"PROCESSING\"," \
	" \"snapshot_done\": false, \"slot_name\": null" extra "}]}"

static void
test_streams_of_others(void **state)
{
	Stand	   *stand = *state;
	StorageListStreams list = {0};
	StorageDeploy deploy = {0};
	int64_t		count;

	stand_run(stand, storage_prepare, NULL);
	/* deployed by the API, untouched: may be bound */
	command(stand, API_STREAM("5", ""));
	/* what a replicator has begun is not ours */
	command(stand, API_STREAM("6", ", \"keepalive_op\": \"3\""));
	command(stand, API_STREAM("7", ""));
	command(stand, "{\"insert\": \"source_tables\", \"documents\": [{\"group_id\": 7}]}");
	list.self = stand->self;
	list.arena = arena_create(0);
	stand_run(stand, storage_list_streams, &list);
	assert_int_equal(list.count, 3);
	assert_int_equal(list.streams[0].id, 5);
	assert_string_equal(list.streams[0].slot_name, "powersync_5");
	assert_true(list.streams[0].untouched);
	assert_false(list.streams[0].bound);
	assert_false(list.streams[1].untouched);
	assert_false(list.streams[2].untouched);

	assert_int_equal(try_open(stand, 6).kind, STORAGE_BINDING);
	assert_int_equal(try_open(stand, 7).kind, STORAGE_BINDING);
	assert_int_equal(try_open(stand, 8).kind, STORAGE_STREAM_GONE);
	stand_open(stand, 5);
	assert_string_equal(stand->stream->serialized_plan,
						"{\"plan\":{\"a\":1}}");
	stand_run(stand, storage_list_streams, &list);
	assert_true(list.streams[0].bound_here);
	assert_false(list.streams[0].untouched);

	/* a copy of one that is not continued */
	deploy.self = stand->self;
	deploy.slot_prefix = "powersync_";
	deploy.source_stream = 6;
	stand_run(stand, storage_deploy, &deploy);
	assert_field(stand, "sync_rules", "{\"state\": \"PROCESSING\"}", "content", "\"x\"");
	assert_field(stand, "sync_rules", "{\"state\": \"PROCESSING\"}", "serialized_plan.plan.a",
				 "{ \"$numberInt\" : \"1\" }");

	/* what is there and no plan is not copied, nor taken for none */
	command(stand, UPDATE("sync_rules", "{\"_id\": 6}", "{\"$set\": {\"serialized_plan\": \"{}\"}}"));
	count = count_documents(stand, "sync_rules", "{}");
	assert_int_equal(stand_try(stand, storage_deploy, &deploy).kind, STORAGE_INVALID);
	assert_int_equal(count_documents(stand, "sync_rules", "{}"), count);
	arena_destroy(list.arena);
}

/* more than a document of MongoDB holds */
static void
test_deploy_too_large(void **state)
{
	Stand	   *stand = *state;
	StorageDeploy deploy = {.self = stand->self, .slot_prefix = "powersync_", .content = "x"};
	size_t		len = 16 * 1024 * 1024;
	char	   *plan = malloc(len + 16);
	StorageError error;

	assert_non_null(plan);
	memset(plan, 'x', len + 16);
	memcpy(plan, "{\"a\":\"", 6);
	strcpy(plan + len, "\"}");
	deploy.plan = plan;
	stand_run(stand, storage_prepare, NULL);
	error = stand_try(stand, storage_deploy, &deploy);
	assert_int_equal(error.kind, STORAGE_INVALID);
	assert_non_null(strstr(error.message, "more than a document of MongoDB holds"));
	assert_int_equal(count_documents(stand, "sync_rules", "{}"), 0);
	/* and what just fits is stored */
	strcpy(plan + len - 70000, "\"}");
	stand_run(stand, storage_deploy, &deploy);
	free(plan);
}

static void
test_record_error(void **state)
{
	Stand	   *stand = *state;
	StorageRecordError record = {.stream_id = 1, .message = "boom"};

	stand_open(stand, stand_deploy(stand, CONFIG));
	stand_run(stand, storage_record_error, &record);
	assert_field(stand, "sync_rules", "{}", "last_fatal_error", "\"boom\"");
	/* cleared by the next commit */
	stand_write(stand, NULL);
	add(stand, WRITE_KEEPALIVE, 0x100);
	stored(stand);
	assert_field(stand, "sync_rules", "{}", "last_fatal_error", "null");
}

/* ---------------------------------------------------------------- cleaning */

/* Two streams with data; the first is to be cleaned, nothing of the second goes. */
static Stand *
stand_with_data(void **state, int32_t *first)
{
	Stand	   *stand = *state;
	SourceTable *table = table_create("items");

	for (int i = 0; i < 2; i++)
	{
		char		prefix[2][16];
		RowChange  *change;

		stand_stop(stand);
		stand_start(stand);
		stand_open(stand, stand_deploy(stand, CONFIG));
		if (i == 0)
			*first = stand->stream->id;
		stand_write(stand, NULL);
		table->id = source_table_id_new();
		add_table(stand, WRITE_TABLE, table, true);
		snprintf(prefix[0], 16, "%d#a[]", stand->stream->id);
		snprintf(prefix[1], 16, "%d#b[]", stand->stream->id);
		add(stand, WRITE_BEGIN, 0x100);
		for (int j = 0; j < 300; j++)
		{
			char		id[16];

			snprintf(id, sizeof(id), "r%d", j);
			change = add_row(stand, ROW_INSERT, table, id, "{}", prefix[j & 1], NULL);
			add_lookup(stand, change, id);
		}
		add(stand, WRITE_COMMIT, 0x100);
		stored(stand);
	}
	source_table_release(table);
	return stand;
}

static void
assert_only_second_left(Stand *stand, int32_t first)
{
	char		name[64];

	assert_int_equal(count_documents(stand, "bucket_data", "{}"), 300);
	assert_int_equal(count_documents(stand, "bucket_data", "{\"_id.g\": 2}"), 300);
	assert_int_equal(count_documents(stand, "bucket_parameters", "{}"), 300);
	assert_int_equal(count_documents(stand, "bucket_state", "{}"), 2);
	assert_int_equal(count_documents(stand, "source_tables", "{}"), 1);
	assert_int_equal(count_documents(stand, "pgsync_tables", "{}"), 1);
	assert_int_equal(count_documents(stand, "pgsync_row_state_2", "{}"), 300);
	snprintf(name, sizeof(name), "pgsync_row_state_%d", first);
	assert_int_equal(count_documents(stand, name, "{}"), 0);
}

static void
test_terminate(void **state)
{
	int32_t		first = 0;
	Stand	   *stand = stand_with_data(state, &first);
	StorageTerminate terminate = {.self = stand->self, .stream_id = first};

	/* the second deploy has stopped the first */
	stand_run(stand, storage_terminate_stream, &terminate);
	assert_only_second_left(stand, first);
	assert_field(stand, "sync_rules", "{\"_id\": 1}", "state", "\"TERMINATED\"");
	assert_field(stand, "sync_rules", "{\"_id\": 1}", "snapshot_done", "false");
	assert_field(stand, "sync_rules", "{\"_id\": 1}", "persisted_lsn", "null");
	assert_field(stand, "sync_rules", "{\"_id\": 1}", "last_checkpoint_lsn", "null");
	assert_field(stand, "sync_rules", "{\"_id\": 1}", "snapshot_lsn", "absent");
	assert_field(stand, "sync_rules", "{\"_id\": 1}", "parameter_compaction", "absent");
	assert_field(stand, "sync_rules", "{\"_id\": 1}", "lock", "absent");
	assert_field(stand, "sync_rules", "{\"_id\": 2}", "state", "\"PROCESSING\"");
	assert_int_equal(count_documents(stand, "pgsync_streams", "{\"_id\": 1}"), 0);
	assert_int_equal(count_documents(stand, "pgsync_streams", "{\"_id\": 2}"), 1);
	/* it is not a stopped stream any more */
	assert_int_equal(stand_try(stand, storage_terminate_stream, &terminate).kind,
					 STORAGE_STREAM_GONE);
}

/* How many were made for lost slots is counted also when they are gone, for a day. */
static void
test_terminate_keeps_lost_slots(void **state)
{
	int32_t		first = 0;
	Stand	   *stand = stand_with_data(state, &first);
	StorageTerminate terminate = {.self = stand->self, .stream_id = first};

	command(stand, "{\"update\": \"pgsync_streams\", \"updates\": [{\"q\": {\"_id\": 1},"
			" \"u\": {\"$set\": {\"slot_lost\": true}}}]}");
	stand_run(stand, storage_terminate_stream, &terminate);
	assert_only_second_left(stand, first);
	assert_int_equal(count_documents(stand, "pgsync_streams", "{\"_id\": 1}"), 1);

	/* the next one takes what is older along */
	stand_deploy(stand, CONFIG);
	terminate.stream_id = 2;
	stand_run(stand, storage_terminate_stream, &terminate);
	assert_int_equal(count_documents(stand, "pgsync_streams", "{\"_id\": 1}"), 1);
	command(stand, UPDATE("pgsync_streams", "{\"_id\": 1}",
						  "{\"$set\": {\"deployed_at\": {\"$date\": {\"$numberLong\": \"1000\"}}}}"));
	stand_deploy(stand, CONFIG);
	terminate.stream_id = 3;
	stand_run(stand, storage_terminate_stream, &terminate);
	assert_int_equal(count_documents(stand, "pgsync_streams", "{}"), 1);
}

/* What the original has stopped, and perhaps cleans just now, is not cleaned by a copy of the cluster. */
static void
test_terminate_at_another_place(void **state)
{
	int32_t		first = 0;
	Stand	   *stand = stand_with_data(state, &first);
	StorageTerminate terminate = {.self = stand->self, .stream_id = first};
	StorageError error;

	command(stand, UPDATE("sync_rules", "{\"_id\": 1}",
						  "{\"$set\": {\"lock\": {\"id\": \"0123456789abcdef\","
						  " \"expires_at\": {\"$date\": {\"$numberLong\": \"99999999999999\"}}}}}"));
	command(stand, UPDATE("pgsync_streams", "{\"_id\": 1}",
						  "{\"$set\": {\"lock_id\": \"0123456789abcdef\"}}"));
	strcpy(terminate.self.host, "copy:/data");
	error = stand_try(stand, storage_terminate_stream, &terminate);
	assert_int_equal(error.kind, STORAGE_BINDING);
	assert_non_null(strstr(error.message, "(here:/data)"));
	/* a promoted standby may clean it, but the lock is not its own */
	terminate.self.timeline++;
	assert_int_equal(stand_try(stand, storage_terminate_stream, &terminate).kind,
					 STORAGE_LOCK_LOST);
	assert_field(stand, "sync_rules", "{\"_id\": 1}", "state", "\"STOP\"");
	/* where it was bound the lock is a predecessor's */
	terminate.self = stand->self;
	stand_run(stand, storage_terminate_stream, &terminate);
	assert_only_second_left(stand, first);
}

static void
test_terminate_needs_the_lock(void **state)
{
	Stand	   *stand = *state;
	StorageTerminate terminate = {.self = stand->self, .stream_id = 9};

	stand_run(stand, storage_prepare, NULL);
	command(stand, "{\"insert\": \"sync_rules\", \"documents\": [{\"_id\": 9, \"state\": \"STOP\","
			" \"lock\": {\"id\": \"0123456789abcdef\","
			" \"expires_at\": {\"$date\": {\"$numberLong\": \"99999999999999\"}}}}]}");
	assert_int_equal(stand_try(stand, storage_terminate_stream, &terminate).kind,
					 STORAGE_LOCK_LOST);
	assert_field(stand, "sync_rules", "{}", "state", "\"STOP\"");
}

static void
test_reset(void **state)
{
	int32_t		first = 0;
	Stand	   *stand = stand_with_data(state, &first);
	int32_t		second = 2;

	assert_int_equal(stand_try(stand, storage_reset_stream, &first).kind, STORAGE_LOCK_LOST);
	stand_stop(stand);
	stand_start(stand);
	stand_open(stand, second);
	assert_true(stand->stream->has_data);
	stand_run(stand, storage_reset_stream, &second);
	stand_open(stand, second);
	assert_false(stand->stream->has_data);
	assert_int_equal(stream_stored_lsn(stand->stream), STREAM_LSN_NONE);
	assert_int_equal(stand->stream->table_count, 0);
	assert_int_equal(count_documents(stand, "bucket_data", "{}"), 300);
	/* op ids go on */
	stand_write(stand, NULL);
	add(stand, WRITE_SNAPSHOT_DONE, 0x100);
	add(stand, WRITE_KEEPALIVE, 0x100);
	assert_true(stored(stand).checkpoint_op >= 600);
	/* a served stream is not emptied */
	assert_int_equal(stand_try(stand, storage_reset_stream, &second).kind, STORAGE_LOCK_LOST);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bad_uris),
		cmocka_unit_test(test_hosts_without_secrets),
		cmocka_unit_test(test_cancel_at_a_silent_server),
		cmocka_unit_test(test_unreachable),
		stand_test(test_signals_stay_away),
		stand_test(test_uncapped_events),
		stand_test(test_migrations_are_left_alone),
		stand_test(test_lock),
		stand_test(test_adopt),
		stand_test(test_adopt_with_another_cluster_id),
		stand_test(test_deploy_over_another_database),
		stand_test(test_any_stream_of_another_database),
		stand_test(test_owner_is_cut_at_a_character),
		stand_test(test_commit_unknown),
		stand_test(test_lock_is_kept),
		stand_test(test_promotion),
		stand_test(test_streams_of_others),
		stand_test(test_deploy_too_large),
		stand_test(test_record_error),
		stand_test(test_terminate),
		stand_test(test_terminate_keeps_lost_slots),
		stand_test(test_terminate_at_another_place),
		stand_test(test_terminate_needs_the_lock),
		stand_test(test_reset),
	};

	mongoc_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
