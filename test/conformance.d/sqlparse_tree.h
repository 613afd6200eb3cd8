/*-------------------------------------------------------------------------
 *
 * sqlparse_tree.h
 *	  A query's tree as the conformance vectors write it (their README).
 *
 *-------------------------------------------------------------------------
 */
#ifndef SQLPARSE_TREE_H
#define SQLPARSE_TREE_H

#include "sql.h"

extern void sqlparse_print(SyncBuffer *out, const SqlScript *script);

/* the reference parser's own form of a node, in JSON */
extern void sqlparse_json(SyncBuffer *out, const SqlExpr *expr);

#endif							/* SQLPARSE_TREE_H */
