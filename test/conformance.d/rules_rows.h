/*-------------------------------------------------------------------------
 *
 * rules_rows.h
 *	  Checks of a plan, however it was made: kinds "rules" and "plans".
 *
 *-------------------------------------------------------------------------
 */
#ifndef RULES_ROWS_H
#define RULES_ROWS_H

#include "rules.h"
#include "vectors.h"

/* checks all that a case says about its plan and its rows */
extern void run_plan(const SyncPlan *plan, const JsonNode *vector, SyncArena *arena);

#endif							/* RULES_ROWS_H */
