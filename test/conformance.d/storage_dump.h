/*-------------------------------------------------------------------------
 *
 * storage_dump.h
 *	  Conformance, kind "storage": the large files (database dumps, sync lines,
 *	  rule mappings).
 *
 *-------------------------------------------------------------------------
 */
#ifndef STORAGE_DUMP_H
#define STORAGE_DUMP_H

#include "change.h"
#include "json.h"

extern void run_scenario(const char *name, const JsonNode *root, SyncArena *arena);
extern void run_sync_lines(const char *name, const JsonNode *lines, SyncArena *arena);
extern void run_rule_mapping(const char *name, const JsonNode *root, SyncArena *arena);

/* 24 hexadecimal digits */
extern bool read_oid(SyncString hex, SourceTableId *oid);

/* position of a column; fails the case and gives 0 when there is none */
extern int	find_row_column(const SyncRowType *type, SyncString name);

#endif							/* STORAGE_DUMP_H */
