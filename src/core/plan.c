/*-------------------------------------------------------------------------
 *
 * plan.c
 *	  Table patterns and what others may ask a plan.
 *
 * Does not make plans (compile_*.c) and does not run them (bind.c,
 * evaluate.c).
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "plan.h"

bool
pattern_is_wildcard(SyncString pattern)
{
	return pattern.len > 0 && pattern.data[pattern.len - 1] == '%';
}

bool
pattern_fits(SyncString pattern, SyncString name, SyncString *suffix)
{
	if (suffix != NULL)
		*suffix = (SyncString) {name.data + name.len, 0};
	if (!pattern_is_wildcard(pattern))
		return sync_string_equal(pattern, name);
	if (name.len < pattern.len - 1 || memcmp(name.data, pattern.data, pattern.len - 1) != 0)
		return false;
	if (suffix != NULL)
		*suffix = (SyncString) {name.data + pattern.len - 1, name.len - (pattern.len - 1)};
	return true;
}

/*
 * sync-rules.md, 3.1.  The database that pgsync lives in is the default
 * connection: a pattern for another one fits nothing.
 */
bool
table_pattern_matches(const TablePattern *pattern, const char *schema, const char *table)
{
	return sync_string_equal(pattern->connection, sync_string_literal(SYNC_DEFAULT_CONNECTION)) &&
		pattern_fits(pattern->schema, (SyncString) {schema, (uint32_t) strlen(schema)}, NULL) &&
		pattern_fits(pattern->table, (SyncString) {table, (uint32_t) strlen(table)}, NULL);
}

const SyncCompatibility *
plan_compatibility(const SyncPlan *plan)
{
	return &plan->compatibility;
}

int
plan_storage_version(const SyncPlan *plan)
{
	return plan->storage_version;
}

int
plan_table_count(const SyncPlan *plan)
{
	return plan->table_count;
}

const TablePattern *
plan_table(const SyncPlan *plan, int i)
{
	return &plan->tables[i];
}

const char *
plan_stored_json(const SyncPlan *plan, size_t *len)
{
	*len = plan->stored.len;
	return plan->stored.data;
}

bool
pattern_equal(const TablePattern *a, const TablePattern *b)
{
	return sync_string_equal(a->table, b->table) && sync_string_equal(a->schema, b->schema) &&
		sync_string_equal(a->connection, b->connection);
}

bool
plan_reads_table(const SyncPlan *plan, const char *schema, const char *table)
{
	for (int i = 0; i < plan->table_count; i++)
	{
		if (table_pattern_matches(&plan->tables[i], schema, table))
			return true;
	}
	return false;
}
