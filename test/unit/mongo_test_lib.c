/*-------------------------------------------------------------------------
 *
 * mongo_test_lib.c
 *	  See mongo_test.h.
 *
 *-------------------------------------------------------------------------
 */
#include "mongo_test.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static int	databases;

static double
now_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double) now.tv_sec + (double) now.tv_nsec / 1e9;
}

static const char *
test_uri(void)
{
	const char *uri = getenv("PGSYNC_TEST_MONGODB_URI");

	if (uri == NULL || uri[0] == '\0')
		fail_msg("PGSYNC_TEST_MONGODB_URI names no server: see with_storage.py");
	return uri;
}

/* ---------------------------------------------------------------- stand */

Stand *
stand_create(const char *database)
{
	Stand	   *stand = calloc(1, sizeof(Stand));

	test_uri();
	if (database != NULL)
		snprintf(stand->database, sizeof(stand->database), "%s", database);
	else
		snprintf(stand->database, sizeof(stand->database), "pgsync_unit_%d_%d", (int) getpid(),
				 ++databases);
	stand->self.system_identifier = UINT64_C(7000000000000000001);
	stand->self.database_oid = 16384;
	stand->self.timeline = 1;
	strcpy(stand->self.database_name, "source");
	strcpy(stand->self.host, "here:/data");
	stand_start(stand);
	stand->client = mongoc_client_new(test_uri());
	assert_non_null(stand->client);
	mongoc_client_set_error_api(stand->client, MONGOC_ERROR_API_VERSION_2);
	return stand;
}

void
stand_start(Stand *stand)
{
	StorageError error;
	MongoTarget target = {0};

	stand->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	target.uri = stand->uri[0] != '\0' ? stand->uri : test_uri();
	target.database = stand->database;
	target.application = "pgsync unit test";
	target.connect_timeout_ms = 5000;
	target.socket_timeout_ms = 20000;
	target.server_selection_timeout_ms = 5000;
	target.queue_bytes = 64 * 1024 * 1024;
	target.wake_fd = stand->wake_fd;
	stand->thread = mongo_thread_start(&target, &error);
	if (stand->thread == NULL)
		fail_msg("%s", error.message);
}

void
stand_stop(Stand *stand)
{
	if (stand->thread != NULL)
		assert_true(mongo_thread_stop(stand->thread, 5000));
	stand->thread = NULL;
	write_batch_free(stand->batch);
	stand->batch = NULL;
	stream_doc_free(stand->stream);
	stand->stream = NULL;
	close(stand->wake_fd);
}

void
stand_forget(Stand *stand)
{
	stand_stop(stand);
	mongoc_client_destroy(stand->client);
	free(stand);
}

void
stand_destroy(Stand *stand)
{
	command(stand, "{\"dropDatabase\": 1}");
	stand_forget(stand);
}

static void
wait_news(Stand *stand)
{
	struct pollfd fd = {.fd = stand->wake_fd, .events = POLLIN};
	uint64_t	count;

	(void) poll(&fd, 1, 1000);
	if (read(stand->wake_fd, &count, sizeof(count)) < 0)
		return;
}

StorageError
stand_try(Stand *stand, MongoJobFunction function, void *arg)
{
	MongoJob   *job = mongo_submit(stand->thread, function, arg);
	StorageError error;
	double		end = now_seconds() + TEST_WAIT_SECONDS;

	assert_non_null(job);
	while (!mongo_job_finished(job))
	{
		if (now_seconds() > end)
			fail_msg("a job did not end");
		wait_news(stand);
	}
	mongo_job_collect(job, &error);
	return error;
}

void
stand_run(Stand *stand, MongoJobFunction function, void *arg)
{
	StorageError error = stand_try(stand, function, arg);

	if (error.kind != STORAGE_OK)
		fail_msg("error %d: %s", error.kind, error.message);
}

int32_t
stand_deploy(Stand *stand, const char *content)
{
	StorageDeploy deploy = {0};

	stand_run(stand, storage_prepare, NULL);
	deploy.self = stand->self;
	deploy.content = content;
	deploy.slot_prefix = "powersync_";
	stand_run(stand, storage_deploy, &deploy);
	return deploy.stream_id;
}

void
stand_open(Stand *stand, int32_t stream_id)
{
	StorageOpenStream open = {0};

	open.self = stand->self;
	open.stream_id = stream_id;
	stand_run(stand, storage_open_stream, &open);
	assert_non_null(open.stream);
	stream_doc_free(stand->stream);
	stand->stream = open.stream;
}

void
stand_write(Stand *stand, const WriterOptions *options)
{
	WriterOptions none = {0};

	if (options == NULL)
		none.served = stand->stream->state == STREAM_ACTIVE;
	assert_true(writer_start(stand->thread, stand->stream, options ? options : &none));
}

void
stand_start_again(Stand *stand, const WriterOptions *options)
{
	stand_stop(stand);
	stand_start(stand);
	stand_open(stand, 1);
	stand_write(stand, options);
}

/* ---------------------------------------------------------------- set-up of a test */

int
stand_setup(void **state)
{
	*state = stand_create(NULL);
	return 0;
}

int
stand_teardown(void **state)
{
	stand_destroy(*state);
	return 0;
}

Stand *
second_stand(Stand *first)
{
	return stand_create(first->database);
}

Stand *
active_stand(void **state)
{
	Stand	   *stand = *state;

	stand_open(stand, stand_deploy(stand, CONFIG));
	stand_write(stand, NULL);
	add(stand, WRITE_POSITION, 0x80);
	add(stand, WRITE_SNAPSHOT_DONE, 0x100);
	add(stand, WRITE_KEEPALIVE, 0x100);
	stored(stand);
	return stand;
}

void
begin(Stand *stand, uint64_t end)
{
	add(stand, WRITE_BEGIN, end);
}

void
commit(Stand *stand, uint64_t end)
{
	add(stand, WRITE_COMMIT, end);
}

SyncValue
value(const char *s)
{
	return s != NULL ? value_text(s, strlen(s)) : (SyncValue) {.type = SYNC_UNDEFINED};
}

/* ---------------------------------------------------------------- batches */

static void
out_of_memory(void)
{
	fail_msg("out of memory");
	abort();
}

static SyncArena *
batch_arena(Stand *stand)
{
	if (stand->batch == NULL)
	{
		stand->batch = write_batch_create();
		assert_non_null(stand->batch);
		arena_set_exhausted(stand->batch->arena, out_of_memory);
	}
	return stand->batch->arena;
}

WriteItem *
add(Stand *stand, WriteItemKind kind, uint64_t lsn)
{
	(void) batch_arena(stand);
	return write_batch_add(stand->batch, kind, lsn);
}

void
submit(Stand *stand)
{
	if (stand->batch != NULL)
		writer_submit(stand->thread, stand->batch);
	stand->batch = NULL;
}

WriterProgress
wait_idle(Stand *stand)
{
	WriterProgress progress;
	double		end = now_seconds() + TEST_WAIT_SECONDS;

	submit(stand);
	for (;;)
	{
		bool		idle = writer_idle(stand->thread);

		writer_progress(stand->thread, &progress);
		if (idle || progress.failed)
			return progress;
		if (now_seconds() > end)
			fail_msg("the writer did not become idle");
		wait_news(stand);
	}
}

WriterProgress
stored(Stand *stand)
{
	WriterProgress progress = wait_idle(stand);

	if (progress.failed)
		fail_msg("the writer failed with %d: %s", progress.error.kind, progress.error.message);
	return progress;
}

StorageError
failure(Stand *stand)
{
	WriterProgress progress = wait_idle(stand);

	assert_true(progress.failed);
	return progress.error;
}

SourceTable *
table_create(const char *name)
{
	SyncArena  *arena = arena_create(0);
	SourceTable *table = source_table_create(arena, "public", name, 16385, NULL, false);

	assert_non_null(table);
	table->id = source_table_id_new();
	return table;
}

SourceKey
key_of(const char *id)
{
	SyncColumn	column = {sync_string_literal("id")};
	int			identity = 0;
	SyncRowType type = {1, &column, 1, &identity};
	SyncValue	value = value_text(id, strlen(id));
	SyncArena  *scratch = arena_create(0);
	SourceKey	key;

	arena_set_exhausted(scratch, out_of_memory);
	source_key_of_row(&type, &value, scratch, &key);
	arena_destroy(scratch);
	return key;
}

static SyncString
copy_string(SyncArena *arena, const char *text)
{
	return (SyncString) {arena_strndup(arena, text, strlen(text)), (uint32_t) strlen(text)};
}

RowChange *
add_row(Stand *stand, RowChangeKind kind, SourceTable *table, const char *id, const char *json,...)
{
	SyncArena  *arena = batch_arena(stand);
	RowChange  *change = arena_new(arena, RowChange);
	const char *bucket;
	va_list		args;
	int			count = 0;

	change->kind = kind;
	change->table = source_table_retain(table);
	change->after = key_of(id);
	va_start(args, json);
	while (va_arg(args, const char *) != NULL)
		count++;
	va_end(args);
	change->row.bucket_rows = arena_array(arena, BucketRow, (size_t) count);
	va_start(args, json);
	while ((bucket = va_arg(args, const char *)) != NULL)
	{
		BucketRow  *row = &change->row.bucket_rows[change->row.bucket_row_count++];

		row->bucket = copy_string(arena, bucket);
		row->table = copy_string(arena, table->name);
		row->row_id = copy_string(arena, id);
		row->json = copy_string(arena, json);
		row->json_utf16_len = row->json.len;
		row->checksum = checksum_put(row->table, row->row_id, row->json);
	}
	va_end(args);
	add(stand, WRITE_ROW, 0)->row = change;
	return change;
}

RowChange *
add_delete(Stand *stand, SourceTable *table, const char *id)
{
	RowChange  *change = arena_new(batch_arena(stand), RowChange);

	change->kind = ROW_DELETE;
	change->table = source_table_retain(table);
	change->has_before = true;
	change->before = key_of(id);
	add(stand, WRITE_ROW, 0)->row = change;
	return change;
}

/* ---------------------------------------------------------------- rows with rules */

RulesTable *
rules_table_create(const char *yaml, const char *prefix, const char *name,...)
{
	RulesTable *result = calloc(1, sizeof(RulesTable));
	RulesOptions options = {.default_schema = "public"};
	BucketNaming naming = {{prefix, (uint32_t) strlen(prefix)}};
	SyncArena  *arena = arena_create(0);
	const RulesMessage *messages = NULL;
	const SyncPlan *plan;
	const TableBinding *binding;
	SyncError	error;
	const char *column;
	va_list		args;

	result->plan_arena = arena_create(0);
	plan = rules_compile(yaml, strlen(yaml), &options, result->plan_arena, &messages);
	if (plan == NULL)
		fail_msg("%s", messages != NULL ? messages->error.message : "no plan");
	va_start(args, name);
	while ((column = va_arg(args, const char *)) != NULL)
		result->columns[result->type.column_count++].name =
			(SyncString) {column, (uint32_t) strlen(column)};
	va_end(args);
	result->type.columns = result->columns;
	result->type.identity_count = 1;
	result->type.identity = &result->identity;
	binding = plan_bind(plan, "public", name, &result->type, &naming, arena, &error);
	if (binding == NULL)
		fail_msg("%s", error.message);
	result->table = source_table_create(arena, "public", name, 16385, binding, true);
	assert_non_null(result->table);
	result->table->id = source_table_id_new();
	return result;
}

void
rules_table_free(RulesTable *table)
{
	source_table_release(table->table);
	arena_destroy(table->plan_arena);
	free(table);
}

static SyncValue
copy_value(SyncArena *arena, SyncValue value)
{
	if (value.type >= SYNC_TEXT || value.type == SYNC_BIGINT)
		value.data = arena_strndup(arena, value.data, value.len);
	return value;
}

RowChange *
add_values(Stand *stand, RowChangeKind kind, RulesTable *table, const SyncValue *values,
		   const char *key_before)
{
	SyncArena  *arena = batch_arena(stand);
	RowChange  *change = arena_new(arena, RowChange);
	SyncArena  *scratch = arena_create(0);
	bool		complete = true;

	arena_set_exhausted(scratch, out_of_memory);
	change->kind = kind;
	change->table = source_table_retain(table->table);
	source_key_of_row(&table->type, values, scratch, &change->after);
	if (key_before != NULL)
	{
		change->has_before = true;
		change->before = key_of(key_before);
	}
	for (int i = 0; i < table->type.column_count; i++)
		complete &= values[i].type != SYNC_UNDEFINED;
	if (complete)
	{
		assert_int_equal(table_evaluate(table->table->binding, values, arena, &change->row),
						 SYNC_OK);
		change->row_copy = row_copy_encode(&table->type, values, arena);
	}
	else
	{
		change->values = arena_array(arena, SyncValue, (size_t) table->type.column_count);
		for (int i = 0; i < table->type.column_count; i++)
			change->values[i] = copy_value(arena, values[i]);
		change->reread_key = copy_string(arena, "the key");
	}
	add(stand, WRITE_ROW, 0)->row = change;
	arena_destroy(scratch);
	return change;
}

static SyncString
copy_bson(SyncArena *arena, const bson_t *document)
{
	return (SyncString) {arena_strndup(arena, (const char *) bson_get_data(document),
									   document->len), document->len};
}

/* lookup {l: ["by", "1", value]} with one row {"v": value} */
void
add_lookup(Stand *stand, RowChange *change, const char *value)
{
	SyncArena  *arena = batch_arena(stand);
	bson_t	   *lookup = BCON_NEW("l", "[", BCON_UTF8("by"), BCON_UTF8("1"), BCON_UTF8(value), "]");
	bson_t	   *rows = BCON_NEW("0", "{", "v", BCON_UTF8(value), "}");
	ParameterRow *list = arena_array(arena, ParameterRow,
									 (size_t) change->row.parameter_row_count + 1);

	if (change->row.parameter_row_count > 0)
		memcpy(list, change->row.parameter_rows,
			   sizeof(*list) * (size_t) change->row.parameter_row_count);
	list[change->row.parameter_row_count].lookup = copy_bson(arena, lookup);
	list[change->row.parameter_row_count].rows = copy_bson(arena, rows);
	change->row.parameter_rows = list;
	change->row.parameter_row_count++;
	bson_destroy(lookup);
	bson_destroy(rows);
}

WriteItem *
add_table(Stand *stand, WriteItemKind kind, SourceTable *table, bool done)
{
	SourceTableDoc doc = {0};
	char	   *names[1] = {"id"};
	uint32_t	types[1] = {25};
	WriteItem  *item = add(stand, kind, 0);

	doc.id = table->id;
	doc.relation_id = table->relation_id;
	doc.schema = (char *) table->schema;
	doc.name = (char *) table->name;
	doc.identity_count = 1;
	doc.identity_names = names;
	doc.identity_types = types;
	doc.snapshot_done = done;
	doc.rows_estimated = -1;
	item->table_doc = source_table_doc_copy(&doc, stand->batch->arena);
	return item;
}

/* ---------------------------------------------------------------- lossy proxy */

#define MAX_PAIRS	32

struct LossyProxy
{
	int			listen_fd;
	struct sockaddr_in server;
	int			pairs[MAX_PAIRS][2];	/* client, server; -1: free */
	bool		losing[MAX_PAIRS];	/* the next answer is to a commit */
	atomic_int	losses;
	atomic_int	strange;		/* commits after a lost one that are of another session */
	const char *_Atomic needle; /* what a commit is known by */
	atomic_int	lost;
	atomic_bool stop;
	pthread_t	thread;
};

static void
close_pair(LossyProxy *proxy, int i)
{
	close(proxy->pairs[i][0]);
	close(proxy->pairs[i][1]);
	proxy->pairs[i][0] = proxy->pairs[i][1] = -1;
	proxy->losing[i] = false;
}

static void
accept_pair(LossyProxy *proxy)
{
	int			client = accept(proxy->listen_fd, NULL, NULL);
	int			server = socket(AF_INET, SOCK_STREAM, 0);

	for (int i = 0; i < MAX_PAIRS && client >= 0; i++)
		if (proxy->pairs[i][0] < 0)
		{
			if (connect(server, (struct sockaddr *) &proxy->server, sizeof(proxy->server)) != 0)
				break;
			proxy->pairs[i][0] = client;
			proxy->pairs[i][1] = server;
			return;
		}
	close(client);
	close(server);
}

static bool
send_all(int fd, const char *data, ssize_t len)
{
	while (len > 0)
	{
		ssize_t		n = send(fd, data, (size_t) len, MSG_NOSIGNAL);

		if (n <= 0)
			return false;
		data += n;
		len -= n;
	}
	return true;
}

static bool
is_commit(LossyProxy *proxy, const char *buffer, ssize_t n)
{
	const char *needle = atomic_load(&proxy->needle);

	return memmem(buffer, (size_t) n, needle, strlen(needle)) != NULL;
}

/* side 0: from the client.  A commit is small: one read holds all of it. */
static void
forward(LossyProxy *proxy, int i, int side)
{
	static char buffer[1 << 20];
	ssize_t		n = recv(proxy->pairs[i][side], buffer, sizeof(buffer), 0);

	if (n <= 0 || (side == 1 && proxy->losing[i]))
	{
		if (n > 0)
			atomic_fetch_add(&proxy->lost, 1);
		close_pair(proxy, i);
		return;
	}
	if (side == 0 && is_commit(proxy, buffer, n) &&
		atomic_load(&proxy->losses) > 0)
	{
		atomic_fetch_sub(&proxy->losses, 1);
		proxy->losing[i] = true;
	}
	else if (side == 0 && is_commit(proxy, buffer, n) &&
			 atomic_load(&proxy->lost) > 0 && atomic_load(&proxy->strange) > 0)
	{
		/* lsid: {id: UUID} */
		char	   *id = memmem(buffer, (size_t) n, "\005id\0\020\0\0\0\004", 9);

		atomic_fetch_sub(&proxy->strange, 1);
		if (id != NULL && id + 9 + 16 <= buffer + n)
			id[9] ^= 0x55;
	}
	if (!send_all(proxy->pairs[i][1 - side], buffer, n))
		close_pair(proxy, i);
}

static void *
run_proxy(void *arg)
{
	LossyProxy *proxy = arg;

	while (!atomic_load(&proxy->stop))
	{
		struct pollfd fds[1 + 2 * MAX_PAIRS];

		fds[0] = (struct pollfd) {.fd = proxy->listen_fd, .events = POLLIN};
		for (int i = 0; i < 2 * MAX_PAIRS; i++)
			fds[1 + i] = (struct pollfd) {.fd = proxy->pairs[i / 2][i % 2], .events = POLLIN};
		if (poll(fds, 1 + 2 * MAX_PAIRS, 20) <= 0)
			continue;
		for (int i = 0; i < 2 * MAX_PAIRS; i++)
			if (fds[1 + i].fd >= 0 && fds[1 + i].revents != 0 &&
				fds[1 + i].fd == proxy->pairs[i / 2][i % 2])
				forward(proxy, i / 2, i % 2);
		if (fds[0].revents != 0)
			accept_pair(proxy);
	}
	return NULL;
}

LossyProxy *
lossy_proxy_start(Stand *stand, int losses)
{
	LossyProxy *proxy = calloc(1, sizeof(LossyProxy));
	mongoc_uri_t *uri = mongoc_uri_new(test_uri());
	const mongoc_host_list_t *host = mongoc_uri_get_hosts(uri);
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t	len = sizeof(address);

	proxy->server.sin_family = AF_INET;
	proxy->server.sin_port = htons(host->port);
	assert_int_equal(inet_pton(AF_INET, host->host, &proxy->server.sin_addr), 1);
	mongoc_uri_destroy(uri);
	for (int i = 0; i < MAX_PAIRS; i++)
		proxy->pairs[i][0] = proxy->pairs[i][1] = -1;
	atomic_init(&proxy->losses, losses);
	atomic_init(&proxy->needle, "commitTransaction");
	proxy->listen_fd = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(bind(proxy->listen_fd, (struct sockaddr *) &address, sizeof(address)), 0);
	assert_int_equal(listen(proxy->listen_fd, 16), 0);
	assert_int_equal(getsockname(proxy->listen_fd, (struct sockaddr *) &address, &len), 0);
	snprintf(stand->uri, sizeof(stand->uri), "mongodb://127.0.0.1:%d/?directConnection=true",
			 ntohs(address.sin_port));
	assert_int_equal(pthread_create(&proxy->thread, NULL, run_proxy, proxy), 0);
	return proxy;
}

void
lossy_proxy_lose(LossyProxy *proxy, int losses)
{
	atomic_store(&proxy->losses, losses);
}

void
lossy_proxy_of(LossyProxy *proxy, const char *needle)
{
	atomic_store(&proxy->needle, needle);
}

void
lossy_proxy_forget(LossyProxy *proxy, int count)
{
	atomic_store(&proxy->strange, count);
}

int
lossy_proxy_stop(LossyProxy *proxy)
{
	int			lost;

	atomic_store(&proxy->stop, true);
	pthread_join(proxy->thread, NULL);
	for (int i = 0; i < MAX_PAIRS; i++)
		if (proxy->pairs[i][0] >= 0)
			close_pair(proxy, i);
	close(proxy->listen_fd);
	lost = atomic_load(&proxy->lost);
	free(proxy);
	return lost;
}

/* ---------------------------------------------------------------- reading back */

static bson_t *
from_json(const char *json)
{
	bson_error_t error;
	bson_t	   *document = bson_new_from_json((const uint8_t *) json, -1, &error);

	if (document == NULL)
		fail_msg("%s: %s", json, error.message);
	return document;
}

int64_t
count_documents(Stand *stand, const char *collection, const char *filter)
{
	mongoc_collection_t *handle =
		mongoc_client_get_collection(stand->client, stand->database, collection);
	bson_t	   *document = from_json(filter);
	bson_error_t error;
	int64_t		count = mongoc_collection_count_documents(handle, document, NULL, NULL, NULL,
														  &error);

	if (count < 0)
		fail_msg("%s", error.message);
	bson_destroy(document);
	mongoc_collection_destroy(handle);
	return count;
}

/* {"f": value} as canonical JSON, without what is around the value */
static char *
value_json(const bson_iter_t *value)
{
	bson_t		wrapper = BSON_INITIALIZER;
	char	   *json;
	char	   *result;

	bson_append_iter(&wrapper, "f", 1, value);
	json = bson_as_canonical_extended_json(&wrapper, NULL);
	result = strdup(strchr(json, ':') + 2);
	result[strlen(result) - 2] = '\0';
	bson_free(json);
	bson_destroy(&wrapper);
	return result;
}

char *
field_of(Stand *stand, const char *collection, const char *filter, const char *path)
{
	mongoc_collection_t *handle =
		mongoc_client_get_collection(stand->client, stand->database, collection);
	bson_t	   *query = from_json(filter);
	mongoc_cursor_t *cursor = mongoc_collection_find_with_opts(handle, query, NULL, NULL);
	const bson_t *document;
	char	   *result = NULL;
	int			count = 0;

	while (mongoc_cursor_next(cursor, &document))
	{
		bson_iter_t root;
		bson_iter_t field;

		count++;
		free(result);
		if (bson_iter_init(&root, document) && bson_iter_find_descendant(&root, path, &field))
			result = value_json(&field);
		else
			result = strdup("absent");
	}
	if (count != 1)
	{
		free(result);
		result = strdup(count == 0 ? "none" : "many");
	}
	mongoc_cursor_destroy(cursor);
	bson_destroy(query);
	mongoc_collection_destroy(handle);
	return result;
}

void
command(Stand *stand, const char *json)
{
	bson_t	   *document = from_json(json);
	bson_t		reply;
	bson_error_t error;

	if (!mongoc_client_command_simple(stand->client, stand->database, document, NULL, &reply,
									  &error))
		fail_msg("%s: %s", json, error.message);
	bson_destroy(&reply);
	bson_destroy(document);
}

char *
ops_of(Stand *stand, const char *bucket)
{
	mongoc_collection_t *handle =
		mongoc_client_get_collection(stand->client, stand->database, "bucket_data");
	bson_t	   *pipeline = BCON_NEW("0", "{", "$match", "{", "_id.b", BCON_UTF8(bucket), "}", "}",
									"1", "{", "$sort", "{", "_id", BCON_INT32(1), "}", "}");
	mongoc_cursor_t *cursor = mongoc_collection_aggregate(handle, MONGOC_QUERY_NONE, pipeline,
														  NULL, NULL);
	const bson_t *document;
	char	   *text = strdup("");

	while (mongoc_cursor_next(cursor, &document))
	{
		bson_iter_t op;
		bson_iter_t row;
		char		entry[128];

		assert_true(bson_iter_init_find(&op, document, "op"));
		assert_true(bson_iter_init_find(&row, document, "row_id"));
		snprintf(entry, sizeof(entry), "%s%s %s", text[0] ? ", " : "", bson_iter_utf8(&op, NULL),
				 bson_iter_utf8(&row, NULL));
		text = realloc(text, strlen(text) + strlen(entry) + 1);
		strcat(text, entry);
	}
	mongoc_cursor_destroy(cursor);
	bson_destroy(pipeline);
	mongoc_collection_destroy(handle);
	return text;
}

/* ---------------------------------------------------------------- rows in parts */

void
add_wide_row(Stand *stand, RowChangeKind kind, SourceTable *table, int first, int count)
{
	RowChange  *change = add_row(stand, kind, table, "wide", "{}", NULL);
	SyncArena  *arena = stand->batch->arena;

	change->row.bucket_rows = arena_array(arena, BucketRow, (size_t) count);
	change->row.bucket_row_count = count;
	for (int i = 0; i < count; i++)
	{
		BucketRow  *row = &change->row.bucket_rows[i];
		char	   *bucket = arena_printf(arena, "1#w[%d]", first + i);

		row->bucket = (SyncString) {bucket, (uint32_t) strlen(bucket)};
		row->table = sync_string_literal("items");
		row->row_id = sync_string_literal("wide");
		row->json = sync_string_literal("{}");
		row->checksum = checksum_put(row->table, row->row_id, row->json);
	}
}

/* What is submitted next is not more than begun: the answers to all commits are lost. */
LossyProxy *
begin_dying(Stand *stand, const WriterOptions *options)
{
	LossyProxy *proxy;

	stand_stop(stand);
	proxy = lossy_proxy_start(stand, 0);
	stand_start(stand);
	stand_open(stand, 1);
	stand_write(stand, options);
	lossy_proxy_lose(proxy, 1000000);
	return proxy;
}

/* The process dies when the first part is stored; the next one has opened the stream. */
void
die_after_first_part(Stand *stand, LossyProxy *proxy, const WriterOptions *options)
{
	int64_t		before = count_documents(stand, "bucket_data", "{}");

	submit(stand);
	while (count_documents(stand, "bucket_data", "{}") == before)
		usleep(1000);
	stand_stop(stand);
	(void) lossy_proxy_stop(proxy);
	assert_int_equal(count_documents(stand, "bucket_data", "{}"), before + options->max_documents);
	stand->uri[0] = '\0';
	stand_start(stand);
	stand_open(stand, 1);
	stand_write(stand, options);
}
