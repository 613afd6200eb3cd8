/*-------------------------------------------------------------------------
 *
 * config.c
 *	  Reads a sync config: which keys there are, what they hold, and the
 *	  compatibility settings of its edition (sync-rules.md, section 1).
 *
 * Does not parse SQL.  Goes on after an error to report all of them.
 *
 * Invariant: when no fatal message was reported, every text, number and list
 * of the SyncConfig is of the kind and in the range that config.h states.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "config.h"

/* what a name in a message is cut to, in bytes */
#define NAME_SHOWN(s)	((s).len > 60 ? 60 : (int) (s).len), (s).data

typedef struct ConfigReader
{
	RulesReport *report;
	SyncConfig *config;
} ConfigReader;

/* ---------------------------------------------------------------- helpers */

static void
fail(ConfigReader *reader, const YamlNode *node, const char *message)
{
	report_node(reader->report, RULES_FATAL, SYNC_ERROR_CONFIG, node, "%s", message);
}

static bool
key_is(const YamlNode *key, const char *name)
{
	return key->kind == YAML_KIND_TEXT && key->text.len == strlen(name) &&
		memcmp(key->text.data, name, key->text.len) == 0;
}

/*
 * Reports keys that are not text or not among `known` (ends with NULL), naming
 * the nearest known one.
 */
static void
check_keys(ConfigReader *reader, const YamlNode *map, const char *where, const char *const *known)
{
	for (int i = 0; i < map->count && !report_is_full(reader->report); i++)
	{
		const YamlNode *key = map->entries[i].key;
		const char *nearest = NULL;
		int			nearest_distance = 3;
		bool		found = false;

		if (key->kind != YAML_KIND_TEXT)
		{
			report_node(reader->report, RULES_FATAL, SYNC_ERROR_CONFIG, key,
						"a key must be a text, not %s", yaml_kind_name(key));
			report_hint(reader->report, "Put it in quotes.");
			continue;
		}
		for (int k = 0; known[k] != NULL && !found; k++)
		{
			int			distance = report_distance(key->text, known[k]);

			found = key_is(key, known[k]);
			if (distance < nearest_distance)
			{
				nearest = known[k];
				nearest_distance = distance;
			}
		}
		if (found)
			continue;
		report_node(reader->report, RULES_FATAL, SYNC_ERROR_CONFIG, key,
					"unknown key \"%.*s\" in %s", NAME_SHOWN(key->text), where);
		if (nearest != NULL)
			report_hint(reader->report, "Did you mean \"%s\"?", nearest);
	}
}

static void
hint_for_alias(ConfigReader *reader, const YamlNode *node)
{
	if (node->kind == YAML_KIND_ALIAS)
		report_hint(reader->report, "Write it out: what an anchor names cannot be used again.");
}

/* whether all keys are known: a misspelled one is not also missing */
static bool
keys_are_known(ConfigReader *reader, const YamlNode *map, const char *where,
			   const char *const *known)
{
	int			before = reader->report->fatal_count;

	check_keys(reader, map, where, known);
	return reader->report->fatal_count == before;
}

/* the map under a key; NULL, reported, when it is something else */
static const YamlNode *
want_map(ConfigReader *reader, const YamlNode *node, const char *what)
{
	if (node->kind == YAML_KIND_MAP)
		return node;
	report_node(reader->report, RULES_FATAL, SYNC_ERROR_CONFIG, node,
				"%s must be a map, not %s", what, yaml_kind_name(node));
	hint_for_alias(reader, node);
	return NULL;
}

/* leaves *value alone when the key is absent or wrong; returns whether it is there */
static bool
read_bool(ConfigReader *reader, const YamlNode *map, const char *key, bool *value)
{
	const YamlNode *node = yaml_get(map, key);

	if (node == NULL)
		return false;
	if (node->kind != YAML_KIND_BOOL)
	{
		report_node(reader->report, RULES_FATAL, SYNC_ERROR_CONFIG, node,
					"\"%s\" must be true or false, not %s", key, yaml_kind_name(node));
		return false;
	}
	*value = node->boolean;
	return true;
}

static bool
read_int(ConfigReader *reader, const YamlNode *map, const char *key, int low, int high, int *value)
{
	const YamlNode *node = yaml_get(map, key);

	if (node == NULL)
		return false;
	if (node->kind != YAML_KIND_NUMBER || !node->is_integer ||
		node->integer < low || node->integer > high)
	{
		report_node(reader->report, RULES_FATAL, SYNC_ERROR_CONFIG, node,
					"\"%s\" must be a whole number from %d to %d", key, low, high);
		return false;
	}
	*value = (int) node->integer;
	return true;
}

/* an SQL text is any scalar, taken as its text */
static bool
read_sql(ConfigReader *reader, const YamlNode *node, ConfigSql *sql)
{
	if (!yaml_is_scalar(node))
	{
		report_node(reader->report, RULES_FATAL, SYNC_ERROR_CONFIG, node,
					"an SQL text is expected here, not %s", yaml_kind_name(node));
		if (node->kind == YAML_KIND_MAP)
			report_hint(reader->report, "Put a text that holds \": \" in quotes, or on lines of its "
						"own after |.");
		hint_for_alias(reader, node);
		return false;
	}
	if (node->kind == YAML_KIND_OPAQUE)
	{
		fail(reader, node, "an SQL text cannot have a tag");
		return false;
	}
	sql->text = node->text;
	sql->node = node;
	return true;
}

/* a list of SQL texts, or one alone where that is allowed */
static void
read_sql_list(ConfigReader *reader, const YamlNode *node, const char *key, bool allow_single,
			  ConfigSqlList *list)
{
	const YamlNode *const *items;
	int			count;

	if (node->kind == YAML_KIND_SEQUENCE)
	{
		items = (const YamlNode *const *) node->items;
		count = node->count;
	}
	else if (allow_single && yaml_is_scalar(node) && node->kind != YAML_KIND_NULL)
	{
		items = &node;
		count = 1;
	}
	else
	{
		report_node(reader->report, RULES_FATAL, SYNC_ERROR_CONFIG, node,
					"\"%s\" must be a list of SQL texts, not %s", key, yaml_kind_name(node));
		if (node->kind == YAML_KIND_TEXT)
			report_hint(reader->report, "Put it on a line of its own, after \"- \".");
		return;
	}
	list->items = arena_array(reader->report->arena, ConfigSql, (size_t) count);
	for (int i = 0; i < count; i++)
	{
		if (read_sql(reader, items[i], &list->items[list->count]))
			list->count++;
	}
}

/* ---------------------------------------------------------------- config */

static void
read_timestamp_precision(ConfigReader *reader, const YamlNode *map)
{
	static const struct
	{
		const char *name;
		int			digits;
	}			precisions[] = {
		{"seconds", 0}, {"milliseconds", 3}, {"microseconds", 6}, {"nanoseconds", 9},
	};
	SyncCompatibility *compatibility = &reader->config->compatibility;
	const YamlNode *node = yaml_get(map, "timestamp_max_precision");

	if (node == NULL)
		return;
	for (size_t i = 0; i < sizeof(precisions) / sizeof(precisions[0]); i++)
	{
		if (key_is(node, precisions[i].name))
			compatibility->timestamp_precision = precisions[i].digits;
	}
	if (compatibility->timestamp_precision < 0)
		fail(reader, node, "\"timestamp_max_precision\" must be seconds, milliseconds, "
			 "microseconds or nanoseconds");
	else if (!compatibility->timestamps_iso8601)
		fail(reader, node, "\"timestamp_max_precision\" needs \"timestamps_iso8601\"");
}

static void
read_storage_version(ConfigReader *reader, const YamlNode *map)
{
	const YamlNode *node = yaml_get(map, "storage_version");

	if (node == NULL)
		return;
	if (node->kind != YAML_KIND_NUMBER || !node->is_integer ||
		(node->integer != 2 && node->integer != 3))
	{
		fail(reader, node, "\"storage_version\" must be 2 or 3");
		return;
	}
	reader->config->storage_version = (int) node->integer;
	if (node->integer == 3)
		report_node(reader->report, RULES_WARNING, SYNC_ERROR_CONFIG, node,
					"storage version 3 is not stable");
}

static void
read_expression_engine(ConfigReader *reader, const YamlNode *map)
{
	static const char *const key = "unstable_sqlite_expression_engine";
	const SyncCompatibility *compatibility = &reader->config->compatibility;
	bool		on = false;

	reader->config->given.sqlite_expression_engine = read_bool(reader, map, key, &on);
	if (!on)
		return;
	if (compatibility->edition != 3 || !compatibility->fixed_json_extract)
		report_node(reader->report, RULES_FATAL, SYNC_ERROR_CONFIG, yaml_get(map, key),
					"\"%s\" needs edition 3 and \"fixed_json_extract\"", key);
	else
		report_node(reader->report, RULES_FATAL, SYNC_ERROR_UNSUPPORTED, yaml_get(map, key),
					"\"%s\" is not supported by pgsync", key);
}

static void
read_compatibility(ConfigReader *reader, const YamlNode *node)
{
	static const char *const known[] = {
		"edition", "timestamps_iso8601", "versioned_bucket_ids", "fixed_json_extract",
		"custom_postgres_types", "unstable_sqlite_expression_engine",
		"timestamp_max_precision", "storage_version", NULL
	};
	SyncCompatibility *compatibility = &reader->config->compatibility;
	ConfigGiven *given = &reader->config->given;
	const YamlNode *map = NULL;
	bool		modern;

	compatibility->edition = 1;
	compatibility->timestamp_precision = -1;
	if (node != NULL)
		map = want_map(reader, node, "\"config\"");
	if (map == NULL)
		return;

	check_keys(reader, map, "config", known);
	read_int(reader, map, "edition", 1, 3, &compatibility->edition);
	modern = compatibility->edition >= 2;
	compatibility->timestamps_iso8601 = modern;
	compatibility->versioned_bucket_ids = modern;
	compatibility->fixed_json_extract = modern;
	compatibility->custom_postgres_types = modern;
	given->timestamps_iso8601 = read_bool(reader, map, "timestamps_iso8601",
			&compatibility->timestamps_iso8601);
	given->versioned_bucket_ids = read_bool(reader, map, "versioned_bucket_ids",
			&compatibility->versioned_bucket_ids);
	given->fixed_json_extract = read_bool(reader, map, "fixed_json_extract",
			&compatibility->fixed_json_extract);
	given->custom_postgres_types = read_bool(reader, map, "custom_postgres_types",
			&compatibility->custom_postgres_types);
	read_expression_engine(reader, map);
	read_timestamp_precision(reader, map);
	read_storage_version(reader, map);
}

/* ---------------------------------------------------------------- definitions */

static void
read_bucket(ConfigReader *reader, const YamlNode *key, const YamlNode *node, ConfigBucket *bucket)
{
	static const char *const known[] = {
		"data", "parameters", "priority", "accept_potentially_dangerous_queries", NULL
	};
	const YamlNode *map;
	const YamlNode *data;
	const YamlNode *parameters;
	bool		all_known;

	bucket->name = key->text;
	bucket->node = key;
	bucket->priority = SYNC_DEFAULT_PRIORITY;
	map = want_map(reader, node, "a bucket definition");
	if (map == NULL)
		return;
	all_known = keys_are_known(reader, map, "a bucket definition", known);

	data = yaml_get(map, "data");
	if (data != NULL)
		read_sql_list(reader, data, "data", false, &bucket->data);
	else if (all_known)
		report_node(reader->report, RULES_FATAL, SYNC_ERROR_CONFIG, key,
					"bucket definition \"%.*s\" has no \"data\"", NAME_SHOWN(key->text));

	parameters = yaml_get(map, "parameters");
	if (parameters != NULL)
	{
		bucket->has_parameters = true;
		read_sql_list(reader, parameters, "parameters", true, &bucket->parameters);
		if (parameters->kind == YAML_KIND_SEQUENCE && parameters->count == 0 &&
			bucket->data.count > 0)
			fail(reader, parameters, "\"parameters\" must hold at least one query");
	}
	bucket->has_priority = read_int(reader, map, "priority", 0, 3, &bucket->priority);
	read_bool(reader, map, "accept_potentially_dangerous_queries", &bucket->accept_dangerous);
}

static void
read_buckets(ConfigReader *reader, const YamlNode *node)
{
	SyncConfig *config = reader->config;
	const YamlNode *map = want_map(reader, node, "\"bucket_definitions\"");

	if (map == NULL)
		return;
	if (config->compatibility.edition == 3)
	{
		fail(reader, node, "\"bucket_definitions\" are not available in edition 3");
		report_hint(reader->report, "Use \"streams\", or set edition to 2.");
		return;
	}
	config->buckets = arena_array(reader->report->arena, ConfigBucket, (size_t) map->count);
	for (int i = 0; i < map->count && !report_is_full(reader->report); i++)
	{
		const YamlNode *key = map->entries[i].key;

		if (key->kind != YAML_KIND_TEXT)
		{
			report_node(reader->report, RULES_FATAL, SYNC_ERROR_CONFIG, key,
						"a definition's name must be a text, not %s", yaml_kind_name(key));
			report_hint(reader->report, "Put it in quotes.");
		}
		else
			read_bucket(reader, key, map->entries[i].value,
						&config->buckets[config->bucket_count++]);
	}
}

static void
read_ctes(ConfigReader *reader, const YamlNode *node, ConfigCteList *list)
{
	const YamlNode *map = want_map(reader, node, "\"with\"");

	if (map == NULL)
		return;
	if (reader->config->compatibility.edition < 3)
	{
		fail(reader, node, "\"with\" needs edition 3");
		return;
	}
	list->items = arena_array(reader->report->arena, ConfigCte, (size_t) map->count);
	for (int i = 0; i < map->count && !report_is_full(reader->report); i++)
	{
		const YamlNode *key = map->entries[i].key;
		ConfigCte  *cte = &list->items[list->count];

		if (key->kind != YAML_KIND_TEXT)
		{
			report_node(reader->report, RULES_FATAL, SYNC_ERROR_CONFIG, key,
						"a name in \"with\" must be a text, not %s", yaml_kind_name(key));
			report_hint(reader->report, "Put it in quotes.");
		}
		else if (read_sql(reader, map->entries[i].value, &cte->sql))
		{
			cte->name = key->text;
			cte->node = key;
			list->count++;
		}
	}
}

/* edition 3 takes one of query and queries; edition 2 only query */
static void
read_stream_queries(ConfigReader *reader, const YamlNode *key, const YamlNode *map,
					ConfigStream *stream)
{
	const YamlNode *query = yaml_get(map, "query");
	const YamlNode *queries = yaml_get(map, "queries");

	if (reader->config->compatibility.edition < 3 && queries != NULL)
	{
		fail(reader, queries, "\"queries\" needs edition 3");
		return;
	}
	if ((query == NULL) == (queries == NULL))
	{
		report_node(reader->report, RULES_FATAL, SYNC_ERROR_CONFIG, key,
					"stream \"%.*s\" must have %s", NAME_SHOWN(key->text),
					reader->config->compatibility.edition < 3 ? "a \"query\"" :
					"either \"query\" or \"queries\"");
		return;
	}
	if (queries != NULL)
	{
		read_sql_list(reader, queries, "queries", false, &stream->queries);
		return;
	}
	stream->queries.items = arena_new(reader->report->arena, ConfigSql);
	if (read_sql(reader, query, stream->queries.items))
		stream->queries.count = 1;
}

static void
read_stream(ConfigReader *reader, const YamlNode *key, const YamlNode *node, ConfigStream *stream)
{
	static const char *const known[] = {
		"query", "queries", "with", "auto_subscribe", "priority",
		"accept_potentially_dangerous_queries", NULL
	};
	const YamlNode *map;
	const YamlNode *with;

	stream->name = key->text;
	stream->node = key;
	stream->priority = SYNC_DEFAULT_PRIORITY;
	map = want_map(reader, node, "a stream");
	if (map == NULL)
		return;
	check_keys(reader, map, "a stream", known);
	with = yaml_get(map, "with");
	if (with != NULL)
		read_ctes(reader, with, &stream->ctes);
	read_stream_queries(reader, key, map, stream);
	read_bool(reader, map, "auto_subscribe", &stream->auto_subscribe);
	read_int(reader, map, "priority", 0, 3, &stream->priority);
	read_bool(reader, map, "accept_potentially_dangerous_queries", &stream->accept_dangerous);
}

static void
check_stream_name(ConfigReader *reader, const ConfigStream *stream)
{
	const SyncConfig *config = reader->config;

	for (int i = 0; i < config->bucket_count; i++)
	{
		if (sync_string_equal(config->buckets[i].name, stream->name))
			report_node(reader->report, RULES_FATAL, SYNC_ERROR_CONFIG, stream->node,
						"\"%.*s\" is already the name of a bucket definition",
						NAME_SHOWN(stream->name));
	}
}

static void
read_streams(ConfigReader *reader, const YamlNode *node)
{
	SyncConfig *config = reader->config;
	const YamlNode *map = want_map(reader, node, "\"streams\"");

	if (map == NULL)
		return;
	/* the service asks for it stream by stream */
	if (config->compatibility.edition == 1 && map->count > 0)
	{
		fail(reader, node, "\"streams\" need edition 2 or 3");
		report_hint(reader->report, "Add \"config\" with \"edition: 3\".");
		return;
	}
	if (config->compatibility.edition < 3)
		report_node(reader->report, RULES_WARNING, SYNC_ERROR_CONFIG, node,
					"streams of edition 2 are not stable; edition 3 is recommended");
	config->streams = arena_array(reader->report->arena, ConfigStream, (size_t) map->count);
	for (int i = 0; i < map->count && !report_is_full(reader->report); i++)
	{
		const YamlNode *key = map->entries[i].key;
		ConfigStream *stream = &config->streams[config->stream_count];

		if (key->kind != YAML_KIND_TEXT)
		{
			report_node(reader->report, RULES_FATAL, SYNC_ERROR_CONFIG, key,
						"a stream's name must be a text, not %s", yaml_kind_name(key));
			report_hint(reader->report, "Put it in quotes.");
			continue;
		}
		config->stream_count++;
		read_stream(reader, key, map->entries[i].value, stream);
		check_stream_name(reader, stream);
	}
}

static void
read_events(ConfigReader *reader, const YamlNode *node)
{
	static const char *const known[] = {"payloads", NULL};
	SyncConfig *config = reader->config;
	const YamlNode *map = want_map(reader, node, "\"event_definitions\"");

	if (map == NULL)
		return;
	config->events = arena_array(reader->report->arena, ConfigEvent, (size_t) map->count);
	for (int i = 0; i < map->count && !report_is_full(reader->report); i++)
	{
		const YamlNode *key = map->entries[i].key;
		const YamlNode *value;
		const YamlNode *payloads;
		ConfigEvent *event;
		bool		all_known;

		if (key->kind != YAML_KIND_TEXT)
		{
			report_node(reader->report, RULES_FATAL, SYNC_ERROR_CONFIG, key,
						"an event's name must be a text, not %s", yaml_kind_name(key));
			report_hint(reader->report, "Put it in quotes.");
			continue;
		}
		value = want_map(reader, map->entries[i].value, "an event definition");
		if (value == NULL)
			continue;
		all_known = keys_are_known(reader, value, "an event definition", known);
		event = &config->events[config->event_count++];
		event->name = key->text;
		event->node = key;
		payloads = yaml_get(value, "payloads");
		if (payloads == NULL && !all_known)
			continue;
		if (payloads == NULL)
			report_node(reader->report, RULES_FATAL, SYNC_ERROR_CONFIG, key,
						"event \"%.*s\" has no \"payloads\"", NAME_SHOWN(key->text));
		else
			read_sql_list(reader, payloads, "payloads", false, &event->payloads);
	}
}

SyncConfig *
config_read(RulesReport *report)
{
	static const char *const known[] = {
		"config", "bucket_definitions", "streams", "with", "event_definitions", NULL
	};
	ConfigReader reader = {.report = report};
	SyncError	error;
	const YamlNode *root;
	const YamlNode *buckets;
	const YamlNode *streams;
	const YamlNode *node;
	bool		all_known;

	root = yaml_read(report->text, report->len, report->arena, &error);
	if (root == NULL)
	{
		report_error(report, RULES_FATAL, &error);
		return NULL;
	}
	reader.config = arena_new(report->arena, SyncConfig);
	if (want_map(&reader, root, "a sync config") == NULL)
		return NULL;
	all_known = keys_are_known(&reader, root, "the sync config", known);
	read_compatibility(&reader, yaml_get(root, "config"));

	buckets = yaml_get(root, "bucket_definitions");
	streams = yaml_get(root, "streams");
	if (buckets != NULL)
		read_buckets(&reader, buckets);
	if ((node = yaml_get(root, "with")) != NULL)
		read_ctes(&reader, node, &reader.config->ctes);
	if (streams != NULL)
		read_streams(&reader, streams);
	if ((node = yaml_get(root, "event_definitions")) != NULL)
		read_events(&reader, node);
	if (buckets == NULL && streams == NULL && all_known)
		fail(&reader, root, "neither \"bucket_definitions\" nor \"streams\" is given");
	return reader.config;
}
