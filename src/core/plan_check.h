/*-------------------------------------------------------------------------
 *
 * plan_check.h
 *	  Compares a compiled plan with the tables that there are.
 *
 * Nothing here is fatal: rules may be deployed before their tables exist, and
 * what looks odd may be meant.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGSYNC_PLAN_CHECK_H
#define PGSYNC_PLAN_CHECK_H

#include "core.h"
#include "rules.h"

/* what the rules see of a column (sync-rules.md, 10) */
typedef enum SchemaValue
{
	SCHEMA_INTEGER,
	SCHEMA_BOOLEAN,				/* 0 or 1 */
	SCHEMA_REAL,
	SCHEMA_BLOB,
	/* from here on: texts */
	SCHEMA_TEXT,
	SCHEMA_NUMERIC,
	SCHEMA_UUID,
	SCHEMA_TIMESTAMP,
	SCHEMA_TIMESTAMPTZ,
	SCHEMA_DATE,
	SCHEMA_TIME,
	SCHEMA_JSON,
	SCHEMA_JSON_ARRAY,			/* an array that comes as JSON */
	SCHEMA_RAW_ARRAY,			/* one that comes as printed: {a,b} */
	SCHEMA_PRINTED				/* any other type: its text */
} SchemaValue;

/* all names end with NUL */
typedef struct SchemaColumn
{
	SyncString	name;
	SchemaValue value;
	const char *type;			/* as PostgreSQL calls it */
	bool		not_null;
	bool		unpublished;	/* the publication's column list leaves it out */
} SchemaColumn;

typedef enum SchemaTableKind
{
	SCHEMA_TABLE,
	SCHEMA_PARTITIONED,			/* its rows are in its partitions */
	SCHEMA_PARTITION,			/* its rows are published as its root's */
	SCHEMA_VIEW,
	SCHEMA_MATERIALIZED_VIEW,
	SCHEMA_FOREIGN,
	SCHEMA_TEMPORARY,
	SCHEMA_UNLOGGED,
	SCHEMA_SYSTEM,
	SCHEMA_OTHER_METHOD			/* not a heap */
} SchemaTableKind;

typedef struct SchemaTable
{
	SyncString	schema;
	SyncString	name;
	SchemaTableKind kind;
	bool		described;		/* what follows is known; only the name counts otherwise */
	bool		has_identity;
	bool		published;
	bool		row_filter;		/* of the publication */
	bool		column_list;
	int			column_count;
	SchemaColumn *columns;
} SchemaTable;

typedef struct SchemaDescription
{
	int			schema_count;
	SyncString *schemas;
	int			table_count;
	SchemaTable *tables;
	const char *publication;	/* NULL: none is to be used */
	bool		publication_missing;
} SchemaDescription;

/* why such a table is not replicated, behind its name; *hint may be NULL.  Not for SCHEMA_TABLE. */
extern const char *schema_kind_fault(SchemaTableKind kind, const char **hint);

/*
 * All findings, as warnings, by their place in the config's text.  The plan must
 * have been compiled from that text into an arena that is still there; every table
 * that it reads (plan_reads_table()) must be described, others may be.
 */
extern const RulesMessage *plan_check(const SyncPlan *plan, const char *yaml, size_t len,
									  const SchemaDescription *schema, SyncArena *arena);

#endif							/* PGSYNC_PLAN_CHECK_H */
