/*-------------------------------------------------------------------------
 *
 * config.h
 *	  A sync config as read from YAML: definitions with their SQL texts.
 *
 * sync-rules.md, section 1.  The SQL is not looked at here.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGSYNC_CONFIG_H
#define PGSYNC_CONFIG_H

#include "core.h"
#include "report.h"
#include "rules.h"
#include "yaml_node.h"

#define SYNC_DEFAULT_PRIORITY	3

typedef struct ConfigSql
{
	SyncString	text;
	const YamlNode *node;		/* where it stands */
} ConfigSql;

typedef struct ConfigSqlList
{
	int			count;
	ConfigSql  *items;
} ConfigSqlList;

/* an entry of bucket_definitions */
typedef struct ConfigBucket
{
	SyncString	name;
	const YamlNode *node;		/* its key */
	ConfigSqlList data;
	bool		has_parameters;
	ConfigSqlList parameters;	/* one query "SELECT" when !has_parameters */
	bool		has_priority;
	int			priority;		/* 0..3 */
	bool		accept_dangerous;
} ConfigBucket;

/* a common table expression of the root's or a stream's `with` */
typedef struct ConfigCte
{
	SyncString	name;
	const YamlNode *node;
	ConfigSql	sql;
} ConfigCte;

typedef struct ConfigCteList
{
	int			count;
	ConfigCte  *items;
} ConfigCteList;

/* an entry of streams */
typedef struct ConfigStream
{
	SyncString	name;
	const YamlNode *node;
	ConfigSqlList queries;
	ConfigCteList ctes;
	bool		auto_subscribe;
	int			priority;		/* 0..3 */
	bool		accept_dangerous;
} ConfigStream;

/* an entry of event_definitions */
typedef struct ConfigEvent
{
	SyncString	name;
	const YamlNode *node;
	ConfigSqlList payloads;
} ConfigEvent;

/* which compatibility settings the document names, whatever their value */
typedef struct ConfigGiven
{
	bool		timestamps_iso8601;
	bool		versioned_bucket_ids;
	bool		fixed_json_extract;
	bool		custom_postgres_types;
	bool		sqlite_expression_engine;
} ConfigGiven;

typedef struct SyncConfig
{
	SyncCompatibility compatibility;
	ConfigGiven given;
	int			storage_version;	/* 0 = not given */
	int			bucket_count;
	ConfigBucket *buckets;
	ConfigCteList ctes;
	int			stream_count;
	ConfigStream *streams;
	int			event_count;
	ConfigEvent *events;
} SyncConfig;

/*
 * Reads the document whose text the report knows.  Problems go to the report;
 * NULL when the text is no YAML map.  Everything lives in the report's arena.
 */
extern SyncConfig *config_read(RulesReport *report);

#endif							/* PGSYNC_CONFIG_H */
