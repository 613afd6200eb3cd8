/*-------------------------------------------------------------------------
 *
 * functions.h
 *	  Functions of queries that live outside functions.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGSYNC_FUNCTIONS_H
#define PGSYNC_FUNCTIONS_H

#include "expr.h"

/* datetime.c: sync-rules.md, 6.4 */
extern bool function_unixepoch(ExprContext *context, int arg_count, const SyncValue *args,
							   SyncValue *result);
extern bool function_datetime(ExprContext *context, int arg_count, const SyncValue *args,
							  SyncValue *result);

/* geometry.c: sync-rules.md, 6.5 */
extern bool function_st_asgeojson(ExprContext *context, int arg_count, const SyncValue *args,
								  SyncValue *result);
extern bool function_st_astext(ExprContext *context, int arg_count, const SyncValue *args,
							   SyncValue *result);
extern bool function_st_x(ExprContext *context, int arg_count, const SyncValue *args,
						  SyncValue *result);
extern bool function_st_y(ExprContext *context, int arg_count, const SyncValue *args,
						  SyncValue *result);

#endif							/* PGSYNC_FUNCTIONS_H */
