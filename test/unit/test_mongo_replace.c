/*-------------------------------------------------------------------------
 *
 * test_mongo_replace.c
 *	  Streams that are replaced by themselves: how often, and what gives way to
 *	  what when somebody deploys at the same time.
 *
 * Needs a server: PGSYNC_TEST_MONGODB_URI (with_storage.py starts one).
 *
 *-------------------------------------------------------------------------
 */
#include "mongo_test.h"

#include <stdio.h>

#define NEW_CONFIG "bucket_definitions:\n  changed:\n    data: []\n"

#define ALL_STOPPED "{\"update\": \"sync_rules\", \"updates\": [{\"q\": {}, \"multi\": true," \
			" \"u\": {\"$set\": {\"state\": \"STOP\"}}}]}"

static void
set_state(Stand *stand, int32_t id, const char *state)
{
	char		json[200];

	snprintf(json, sizeof(json), UPDATE("sync_rules", "{\"_id\": %d}",
										"{\"$set\": {\"state\": \"%s\"}}"), (int) id, state);
	command(stand, json);
}

static void
assert_state(Stand *stand, int32_t id, const char *state)
{
	char		filter[40];
	char		expected[40];

	snprintf(filter, sizeof(filter), "{\"_id\": %d}", (int) id);
	snprintf(expected, sizeof(expected), "\"%s\"", state);
	assert_field(stand, "sync_rules", filter, "state", expected);
}

/* Replaces a stream by a copy of itself; what was made, 0: nothing. */
static int32_t
replace(Stand *stand, int32_t id, bool slot_lost, int32_t *newer)
{
	StorageDeploy deploy = {.self = stand->self, .slot_prefix = "powersync_", .source_stream = id,
	.replaces = id, .slot_lost = slot_lost, .max_copies_per_day = slot_lost ? 2 : 0,
	.stream_id = -1, .newer_stream = -1};

	stand_run(stand, storage_deploy, &deploy);
	*newer = deploy.newer_stream;
	if (deploy.stream_id == 0)
	{
		char		filter[60];

		snprintf(filter, sizeof(filter), "{\"_id\": %d, \"state\": \"ERRORED\"}", (int) id);
		assert_int_equal(deploy.stays_served, count_documents(stand, "sync_rules", filter));
	}
	return deploy.stream_id;
}

static StorageErrorKind
replace_fails(Stand *stand, int32_t id)
{
	StorageDeploy deploy = {.self = stand->self, .slot_prefix = "powersync_", .source_stream = id,
	.replaces = id, .slot_lost = true, .max_copies_per_day = 2};

	return stand_try(stand, storage_deploy, &deploy).kind;
}

static void
test_slot_lost(void **state)
{
	Stand	   *stand = *state;
	int32_t		newer;

	stand_open(stand, stand_deploy(stand, CONFIG));
	set_state(stand, 1, "ACTIVE");
	assert_int_equal(replace(stand, 1, true, &newer), 2);
	assert_state(stand, 1, "ERRORED");
	assert_state(stand, 2, "PROCESSING");
	assert_int_equal(replace(stand, 2, true, &newer), 3);
	assert_state(stand, 2, "STOP");
	assert_int_equal(replace_fails(stand, 3), STORAGE_CHANGED);
	assert_int_equal(count_documents(stand, "sync_rules", "{}"), 3);
	/* for another reason it is not counted, and what follows is counted on */
	assert_int_equal(replace(stand, 3, false, &newer), 4);
	assert_int_equal(replace_fails(stand, 4), STORAGE_CHANGED);
	/* what is older than a day is not either */
	command(stand, UPDATE("pgsync_streams", "{\"_id\": 2}",
						  "{\"$set\": {\"deployed_at\": {\"$date\": {\"$numberLong\": \"1000\"}}}}"));
	assert_int_equal(replace(stand, 4, true, &newer), 5);
	assert_int_equal(replace_fails(stand, 5), STORAGE_CHANGED);
	/* who deploys has done something about it */
	assert_int_equal(stand_deploy(stand, NEW_CONFIG), 6);
	assert_int_equal(replace(stand, 6, true, &newer), 7);
	assert_int_equal(replace(stand, 7, true, &newer), 8);
	assert_int_equal(replace_fails(stand, 8), STORAGE_CHANGED);
	assert_field(stand, "sync_rules", "{\"_id\": 8}", "content",
				 "\"bucket_definitions:\\n  changed:\\n    data: []\\n\"");
	/* of another cluster they do not count */
	command(stand, ALL_STOPPED);
	set_state(stand, 8, "PROCESSING");
	command(stand, "{\"update\": \"pgsync_streams\", \"updates\": [{\"q\": {\"_id\": 7},"
			" \"u\": {\"$set\": {\"system_identifier\": \"1\"}}}]}");
	assert_int_equal(replace(stand, 8, true, &newer), 9);
}

/* A deployment is newer than what is to be replaced: it counts, whatever became of the slot. */
static void
test_deployed_meanwhile(void **state)
{
	Stand	   *stand = *state;
	int32_t		newer;

	for (int lost = 0; lost < 2; lost++)
	{
		int32_t		old = stand_deploy(stand, CONFIG);
		int32_t		deployed;

		set_state(stand, old, "ACTIVE");
		deployed = stand_deploy(stand, NEW_CONFIG);
		assert_int_equal(replace(stand, old, lost, &newer), 0);
		assert_int_equal(newer, deployed);
		/* served as it is */
		assert_state(stand, old, "ERRORED");
		assert_state(stand, deployed, "PROCESSING");
		/* again: nothing more */
		assert_int_equal(replace(stand, old, lost, &newer), 0);
		assert_int_equal(newer, deployed);
		/* the newer one is replaced by its own config, the old one stays served */
		assert_int_equal(replace(stand, deployed, lost, &newer), deployed + 1);
		assert_state(stand, old, "ERRORED");
		assert_state(stand, deployed, "STOP");
		assert_int_equal(replace(stand, old, lost, &newer), 0);
		assert_int_equal(newer, deployed + 1);
		assert_state(stand, deployed + 1, "PROCESSING");
		assert_int_equal(count_documents(stand, "pgsync_streams", "{\"slot_lost\": true}"), lost);
		command(stand, ALL_STOPPED);
	}
}

/* The limit does not keep a deployment from taking over. */
static void
test_deployed_after_the_limit(void **state)
{
	Stand	   *stand = *state;
	int32_t		newer;

	stand_deploy(stand, CONFIG);
	assert_int_equal(replace(stand, 1, true, &newer), 2);
	assert_int_equal(replace(stand, 2, true, &newer), 3);
	set_state(stand, 3, "ACTIVE");
	assert_int_equal(replace_fails(stand, 3), STORAGE_CHANGED);
	assert_state(stand, 3, "ACTIVE");
	assert_int_equal(stand_deploy(stand, NEW_CONFIG), 4);
	assert_int_equal(replace(stand, 3, true, &newer), 0);
	assert_int_equal(newer, 4);
	assert_state(stand, 3, "ERRORED");
	assert_state(stand, 4, "PROCESSING");
}

/* A stream that was stopped meanwhile, by one that has become active or by nobody. */
static void
test_replaced_meanwhile(void **state)
{
	static const char *const ends[] = {"STOP", "TERMINATED", "ERRORED"};
	Stand	   *stand = *state;
	int32_t		newer;

	stand_deploy(stand, CONFIG);
	stand_deploy(stand, NEW_CONFIG);
	for (int i = 0; i < 3; i++)
	{
		set_state(stand, 1, ends[i]);
		set_state(stand, 2, "ACTIVE");
		assert_int_equal(replace(stand, 1, true, &newer), 0);
		assert_int_equal(newer, 2);
		assert_state(stand, 1, ends[i]);
		assert_state(stand, 2, "ACTIVE");
		set_state(stand, 2, "TERMINATED");
		assert_int_equal(replace(stand, 1, true, &newer), 0);
		assert_int_equal(newer, 0);
	}
	assert_int_equal(count_documents(stand, "sync_rules", "{}"), 2);
}

/* A copy of another replicator's stream gives way to what pgsync has deployed, and to that only. */
static void
test_copy_of_a_foreign_stream(void **state)
{
	Stand	   *stand = *state;
	StorageDeploy deploy = {.self = stand->self, .slot_prefix = "powersync_", .source_stream = 1};

	stand_run(stand, storage_prepare, NULL);
	command(stand, "{\"insert\": \"sync_rules\", \"documents\": ["
			"{\"_id\": 1, \"state\": \"ACTIVE\", \"content\": \"x\", \"snapshot_done\": true},"
			"{\"_id\": 2, \"state\": \"ACTIVE\", \"content\": \"y\", \"snapshot_done\": true}]}");
	command(stand, "{\"insert\": \"op_id_sequence\", \"documents\": ["
			"{\"_id\": \"sync_rules\", \"op_id\": {\"$numberLong\": \"2\"}}]}");
	stand_run(stand, storage_deploy, &deploy);
	assert_int_equal(deploy.stream_id, 3);
	stand_run(stand, storage_deploy, &deploy);
	assert_int_equal(deploy.stream_id, 0);
	assert_int_equal(deploy.newer_stream, 3);
	assert_state(stand, 1, "ACTIVE");
	assert_state(stand, 3, "PROCESSING");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		stand_test(test_slot_lost),
		stand_test(test_deployed_meanwhile),
		stand_test(test_deployed_after_the_limit),
		stand_test(test_replaced_meanwhile),
		stand_test(test_copy_of_a_foreign_stream),
	};

	mongoc_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
