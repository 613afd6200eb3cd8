/*-------------------------------------------------------------------------
 *
 * test_mongo_activation.c
 *	  Write checkpoints, and which stream is served: activation, and when it
 *	  has to wait.
 *
 * Needs a server: PGSYNC_TEST_MONGODB_URI (with_storage.py starts one).
 *
 *-------------------------------------------------------------------------
 */
#include "mongo_test.h"

/* ---------------------------------------------------------------- write checkpoints */

#define WRITE_CHECKPOINT(user, lsn) \
	"{\"insert\": \"write_checkpoints\", \"documents\": [{\"user_id\": \"" user "\"," \
	" \"client_id\": {\"$numberLong\": \"1\"}, \"lsns\": {\"1\": \"" lsn "\"}," \
	" \"processed_at_lsn\": null}]}"

static void
test_write_checkpoints(void **state)
{
	Stand	   *stand = active_stand(state);

	command(stand, WRITE_CHECKPOINT("u1", "00000000/00000100"));
	command(stand, WRITE_CHECKPOINT("u2", "00000000/00000300"));

	/* the same position again is no transition that could deliver it */
	add(stand, WRITE_KEEPALIVE, 0x100);
	stored(stand);
	assert_field(stand, "write_checkpoints", "{\"user_id\": \"u1\"}", "processed_at_lsn", "null");
	add(stand, WRITE_KEEPALIVE, 0x200);
	stored(stand);
	assert_field(stand, "write_checkpoints", "{\"user_id\": \"u1\"}", "processed_at_lsn",
				 "\"00000000/00000200\"");
	assert_field(stand, "write_checkpoints", "{\"user_id\": \"u2\"}", "processed_at_lsn", "null");
	add(stand, WRITE_KEEPALIVE, 0x300);
	stored(stand);
	assert_field(stand, "write_checkpoints", "{\"user_id\": \"u2\"}", "processed_at_lsn",
				 "\"00000000/00000300\"");
}

/* ---------------------------------------------------------------- activation */

static void
test_activation(void **state)
{
	Stand	   *stand = active_stand(state);
	Stand	   *next = second_stand(stand);
	SourceTable *table = table_create("items");
	WriterProgress progress;
	StorageError error;

	begin(stand, 0x400);
	add_row(stand, ROW_INSERT, table, "a1", "{}", "1#a[]", NULL);
	commit(stand, 0x400);
	stored(stand);
	command(stand, WRITE_CHECKPOINT("u1", "00000000/00000300"));

	assert_int_equal(stand_deploy(next, CONFIG), 2);
	stand_open(next, 2);
	stand_write(next, NULL);
	add(next, WRITE_SNAPSHOT_DONE, 0x200);
	add(next, WRITE_KEEPALIVE, 0x300);
	progress = stored(next);
	/* a checkpoint of its own, not below the ops clients know; but clients would go back */
	assert_int_equal(progress.checkpoint_lsn, 0x300);
	assert_int_equal(progress.checkpoint_op, 1);
	assert_false(progress.active);
	assert_field(stand, "sync_rules", "{\"_id\": 1}", "state", "\"ACTIVE\"");
	/* and it does not mark what the served stream has to deliver */
	assert_field(stand, "write_checkpoints", "{}", "processed_at_lsn", "null");

	add(next, WRITE_KEEPALIVE, 0x400);
	progress = stored(next);
	assert_true(progress.active);
	assert_field(stand, "sync_rules", "{\"_id\": 1}", "state", "\"STOP\"");
	assert_field(stand, "sync_rules", "{\"_id\": 2}", "state", "\"ACTIVE\"");
	assert_field(stand, "write_checkpoints", "{}", "processed_at_lsn", "null");
	add(next, WRITE_KEEPALIVE, 0x410);
	stored(next);
	assert_field(stand, "write_checkpoints", "{}", "processed_at_lsn", "\"00000000/00000410\"");

	add(stand, WRITE_KEEPALIVE, 0x420);
	error = failure(stand);
	assert_int_equal(error.kind, STORAGE_STREAM_GONE);
	stand_forget(next);
	source_table_release(table);
}

/* A served stream at 0x400, which a new one on this timeline does not reach; is it replaced? */
static bool
replaces_served(Stand *stand, Stand *next, uint32_t timeline)
{
	bool		active;

	next->self.timeline = timeline;
	stand_open(next, stand_deploy(next, CONFIG));
	stand_write(next, NULL);
	add(next, WRITE_SNAPSHOT_DONE, 0x200);
	add(next, WRITE_KEEPALIVE, 0x300);
	active = stored(next).active;
	assert_int_equal(count_documents(stand, "sync_rules", "{\"_id\": 1, \"state\": \"STOP\"}"),
					 active ? 1 : 0);
	stand_stop(next);
	stand_start(next);
	return active;
}

static void
test_activation_after_lost_history(void **state)
{
	Stand	   *stand = active_stand(state);
	Stand	   *next = second_stand(stand);
	int32_t		first = 1;

	add(stand, WRITE_KEEPALIVE, 0x400);
	stored(stand);
	/* one that is not held here is not marked */
	stand_run(next, storage_mark_history, &first);
	assert_field(stand, "pgsync_streams", "{\"_id\": 1}", "history_changed", "absent");
	stand_run(stand, storage_mark_history, &first);
	assert_field(stand, "pgsync_streams", "{\"_id\": 1}", "history_changed", "true");

	/* it went on: the mark says nothing any more */
	add(stand, WRITE_KEEPALIVE, 0x410);
	stored(stand);
	assert_false(replaces_served(stand, next, 1));

	stand_run(stand, storage_mark_history, &first);
	stand_open(next, 1);
	assert_true(next->stream->history_changed);
	assert_true(replaces_served(stand, next, 1));
	stand_forget(next);
}

static void
test_adopt_ends_lost_history(void **state)
{
	Stand	   *stand = active_stand(state);
	int32_t		first = 1;
	StorageOpenStream adopt = {.self = stand->self, .stream_id = 1};

	stand_run(stand, storage_mark_history, &first);
	stand_run(stand, storage_adopt_stream, &adopt);
	stand_open(stand, 1);
	assert_false(stand->stream->history_changed);
}

static void
test_activation_on_a_new_timeline(void **state)
{
	Stand	   *stand = active_stand(state);
	Stand	   *next = second_stand(stand);
	StorageOpenStream renew = {0};
	WriterProgress progress;

	add(stand, WRITE_KEEPALIVE, 0x400);
	stored(stand);
	/* deployed before the promotion: it catches up, and then takes over */
	stand_open(next, stand_deploy(next, CONFIG));
	next->self.timeline = 2;
	renew.self = next->self;
	renew.stream_id = next->stream->id;
	stand_run(next, storage_adopt_stream, &renew);
	stand_write(next, NULL);
	add(next, WRITE_SNAPSHOT_DONE, 0x200);
	add(next, WRITE_KEEPALIVE, 0x300);
	progress = stored(next);
	assert_false(progress.active);
	add(next, WRITE_KEEPALIVE, 0x400);
	progress = stored(next);
	assert_true(progress.active);
	stand_forget(next);
}

static void
test_activation_on_a_branch(void **state)
{
	Stand	   *stand = active_stand(state);
	Stand	   *next = second_stand(stand);

	add(stand, WRITE_KEEPALIVE, 0x400);
	stored(stand);
	/* the served one went on past the point where timeline 2 branched off */
	assert_true(replaces_served(stand, next, 2));
	stand_forget(next);
}

static void
test_activation_elsewhere(void **state)
{
	Stand	   *stand = active_stand(state);
	Stand	   *next = second_stand(stand);

	add(stand, WRITE_KEEPALIVE, 0x400);
	stored(stand);
	strcpy(next->self.host, "elsewhere:/data");
	assert_true(replaces_served(stand, next, 1));
	stand_forget(next);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		stand_test(test_write_checkpoints),
		stand_test(test_activation),
		stand_test(test_activation_after_lost_history),
		stand_test(test_adopt_ends_lost_history),
		stand_test(test_activation_on_a_new_timeline),
		stand_test(test_activation_on_a_branch),
		stand_test(test_activation_elsewhere),
	};

	mongoc_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
