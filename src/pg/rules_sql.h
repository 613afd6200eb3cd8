/*-------------------------------------------------------------------------
 *
 * rules_sql.h
 *	  What the SQL functions about sync rules share: validate.c, deploy.c,
 *	  dry_run.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGSYNC_RULES_SQL_H
#define PGSYNC_RULES_SQL_H

#include "worker.h"

#include "catalog/pg_class.h"

#include "core/plan_check.h"
#include "core/rules.h"

/* an arena that ends with the current memory context, and raises an error when it is full */
extern SyncArena *rules_arena(void);

/* RulesOptions.cancel: the query is cancelled, or the process is to end */
extern bool rules_cancelled(void);

/* a rules document's plan and messages; NULL: there is a fatal one.  names: as in RulesOptions */
extern const SyncPlan *rules_plan(text *rules, SyncArena *arena, const RulesMessage **messages,
								  const SyncPlan **names);

/*
 * What there is to say of a plan in this database; reads catalogs, needs a snapshot.
 * Without a fatal message, here and before, pgsync_deploy() does not refuse the rules.
 */
extern const RulesMessage *rules_findings(text *rules, const SyncPlan *plan, SyncArena *arena);

extern bool rules_have_fatal(const RulesMessage *messages);

/* whether, and why not, a table can be replicated */
extern SchemaTableKind rules_table_kind(Form_pg_class form);

/* all fatal errors in one; hint: if the first has none of its own */
extern void rules_refuse(const RulesMessage *messages, const char *hint) pg_attribute_noreturn();

/* a WARNING for each warning */
extern void rules_warn(const RulesMessage *messages);

#endif							/* PGSYNC_RULES_SQL_H */
