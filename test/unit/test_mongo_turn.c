/*-------------------------------------------------------------------------
 *
 * test_mongo_turn.c
 *	  Turns at a storage: who goes first, what is one storage, and that a flush
 *	  that does not succeed lets others go first.
 *
 * Needs a server: PGSYNC_TEST_MONGODB_URI (with_storage.py starts one).
 *
 *-------------------------------------------------------------------------
 */
#include "mongo_test.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "mongo/mongo_private.h"
#include "mongo/turn.h"

static double
now_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double) now.tv_sec + (double) now.tv_nsec / 1e9;
}

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

typedef struct Taker
{
	_Atomic uint32_t *turn;
	int			index;
	uint32_t	storage;
	TurnPriority priority;
	atomic_bool cancel;
	bool		taken;
	_Atomic int *order;
	int			place;
} Taker;

static void *
take(void *arg)
{
	Taker	   *taker = arg;

	taker->taken = turn_take(taker->turn, taker->index, taker->storage, taker->priority,
							 &taker->cancel);
	taker->place = atomic_fetch_add(taker->order, 1);
	if (taker->taken)
		turn_give(taker->turn, taker->index);
	return NULL;
}

static void
test_turns(void **state)
{
	_Atomic uint32_t turn[TURN_WORDS] = {0};
	_Atomic int order = 0;
	atomic_bool no = false;
	Taker		takers[3] = {
		{.turn = turn, .index = 1, .storage = 9, .priority = TURN_COPY, .order = &order},
		{.turn = turn, .index = 2, .storage = 9, .priority = TURN_SERVED, .order = &order},
		{.turn = turn, .index = 3, .storage = 9, .priority = TURN_CATCH_UP, .order = &order},
	};
	Taker		cancelled = {
		.turn = turn, .index = 4, .storage = 9, .priority = TURN_SERVED, .order = &order
	};
	pthread_t	threads[4];

	(void) state;
	assert_true(turn_take(turn, 0, 9, TURN_COPY, &no));
	assert_false(turn_wanted(turn, 0));
	for (int i = 0; i < 3; i++)
	{
		pthread_create(&threads[i], NULL, take, &takers[i]);
		while (atomic_load(&turn[TURN_WANT(takers[i].index)]) == 0)
			;
	}
	assert_true(turn_wanted(turn, 0));
	atomic_store(&cancelled.cancel, true);
	pthread_create(&threads[3], NULL, take, &cancelled);
	pthread_join(threads[3], NULL);
	assert_false(cancelled.taken);
	turn_give(turn, 0);
	for (int i = 0; i < 3; i++)
	{
		pthread_join(threads[i], NULL);
		assert_true(takers[i].taken);
	}
	assert_true(takers[1].place < takers[2].place);
	assert_true(takers[2].place < takers[0].place);
	/* a process that is gone leaves nothing */
	assert_true(turn_take(turn, 7, 9, TURN_COPY, &no));
	turn_forget(turn, 7);
	for (int i = 0; i < TURN_STORAGES; i++)
		assert_int_equal(atomic_load(&turn[TURN_HOLDER(i)]), 0);
}

/* Who writes to one storage does not wait for who writes to another. */
static void
test_turns_of_other_storages(void **state)
{
	_Atomic uint32_t turn[TURN_WORDS] = {0};
	_Atomic int order = 0;
	atomic_bool no = false;
	Taker		waiting = {
		.turn = turn, .index = 63, .storage = 5, .priority = TURN_SERVED, .order = &order
	};
	pthread_t	thread;

	(void) state;
	/* numbers that would all like the same place */
	for (int i = 0; i < 3; i++)
		assert_true(turn_take(turn, i, 5 + (uint32_t) i * TURN_STORAGES, TURN_SERVED, &no));
	pthread_create(&thread, NULL, take, &waiting);
	while (atomic_load(&turn[TURN_WANT(63)]) == 0)
		;
	assert_true(turn_wanted(turn, 0));
	assert_false(turn_wanted(turn, 1));
	for (int i = 1; i < 3; i++)
	{
		turn_give(turn, i);
		assert_true(turn_take(turn, i, 5 + (uint32_t) i * TURN_STORAGES, TURN_COPY, &no));
	}
	turn_give(turn, 0);
	pthread_join(thread, NULL);
	assert_true(waiting.taken);
	/* more storages than places: they share */
	for (uint32_t storage = 1000; storage < 1000 + 2 * TURN_STORAGES; storage++)
	{
		assert_true(turn_take(turn, 7, storage * 3, TURN_COPY, &no));
		turn_give(turn, 1);
		turn_give(turn, 2);
		turn_give(turn, 7);
	}
}

static void
test_storage_numbers(void **state)
{
	static const char *const uris[] = {
		"mongodb://one,two:27018/?replicaSet=rs",
		"mongodb://user:secret@TWO:27018,one:27017/",
		"mongodb://one,two:27019/?replicaSet=rs"
	};
	uint32_t	numbers[3];
	Stand	   *here = stand_create(NULL);
	Stand	   *other = stand_create(NULL);

	(void) state;
	for (int i = 0; i < 3; i++)
	{
		StorageError error;
		MongoThread *thread = try_start(uris[i], &error);

		assert_non_null(thread);
		numbers[i] = thread->storage;
		assert_int_not_equal(numbers[i], 0);
		assert_true(mongo_thread_stop(thread, 5000));
	}
	assert_int_equal(numbers[0], numbers[1]);
	assert_int_not_equal(numbers[0], numbers[2]);
	/* databases of one server do not conflict */
	assert_int_not_equal(here->thread->storage, other->thread->storage);
	stand_destroy(here);
	stand_destroy(other);
}

/* A flush that does not succeed for long lets others go first. */
static void
test_turn_between_tries(void **state)
{
	Stand	   *stand = *state;
	SourceTable *table = table_create("items");
	_Atomic uint32_t turn[TURN_WORDS] = {0};
	WriterOptions options = {.turn = turn, .turn_index = 0};
	_Atomic int order = 0;
	Taker		other = {.turn = turn, .index = 1, .priority = TURN_SERVED, .order = &order};
	mongoc_client_session_t *session = mongoc_client_start_session(stand->client, NULL, NULL);
	mongoc_collection_t *sequence =
		mongoc_client_get_collection(stand->client, stand->database, "op_id_sequence");
	bson_t	   *filter = BCON_NEW("_id", "main");
	bson_t	   *update = BCON_NEW("$inc", "{", "op_id", BCON_INT64(10), "}");
	bson_t		opts = BSON_INITIALIZER;
	pthread_t	thread;
	double		start;

	stand_open(stand, stand_deploy(stand, CONFIG));
	command(stand, "{\"insert\": \"op_id_sequence\", \"documents\": [{\"_id\": \"main\","
			" \"op_id\": {\"$numberLong\": \"1\"}}]}");
	assert_true(mongoc_client_session_start_transaction(session, NULL, NULL));
	assert_true(mongoc_client_session_append(session, &opts, NULL));
	assert_true(mongoc_collection_update_one(sequence, filter, update, &opts, NULL, NULL));
	stand_write(stand, &options);
	add(stand, WRITE_BEGIN, 0x100);
	add_row(stand, ROW_INSERT, table, "a1", "{}", "1#a[]", NULL);
	add(stand, WRITE_COMMIT, 0x100);
	submit(stand);
	other.storage = stand->thread->storage;
	start = now_seconds();
	while (atomic_load(&turn[TURN_PLACE(0)]) == 0 || atomic_load(&turn[TURN_WANT(0)]) != 0)
	{
		assert_true(now_seconds() - start < TEST_WAIT_SECONDS);
		usleep(1000);
	}
	pthread_create(&thread, NULL, take, &other);
	for (int i = 0; i < 100 && atomic_load(&order) == 0; i++)
		usleep(100000);
	atomic_store(&other.cancel, true);
	pthread_join(thread, NULL);
	assert_true(other.taken);
	assert_true(mongoc_client_session_commit_transaction(session, NULL, NULL));
	assert_int_equal(stored(stand).ops, 1);
	mongoc_client_session_destroy(session);
	mongoc_collection_destroy(sequence);
	bson_destroy(filter);
	bson_destroy(update);
	bson_destroy(&opts);
	source_table_release(table);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_turns),
		cmocka_unit_test(test_turns_of_other_storages),
		cmocka_unit_test(test_storage_numbers),
		stand_test(test_turn_between_tries),
	};

	mongoc_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
