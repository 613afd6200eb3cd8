/*-------------------------------------------------------------------------
 *
 * rules_plan.h
 *	  Checks the stored plan that a config of edition 3 was compiled to.
 *
 *-------------------------------------------------------------------------
 */
#ifndef RULES_PLAN_H
#define RULES_PLAN_H

#include "rules.h"
#include "vectors.h"

/* compares plan_stored_json() with the case's "serialized_plan" */
extern void check_stored_plan(const SyncPlan *plan, const JsonNode *vector, SyncArena *arena);

#endif							/* RULES_PLAN_H */
