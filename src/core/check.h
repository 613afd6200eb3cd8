/*-------------------------------------------------------------------------
 *
 * check.h
 *	  What the files that compare a plan with the database share.
 *
 *	  plan_check.c			tables, columns, publication; the entry point
 *	  check_expr.c			what expressions do with columns of a type
 *	  check_condition.c		conditions that no row can meet
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGSYNC_CHECK_H
#define PGSYNC_CHECK_H

#include "expr.h"
#include "plan.h"
#include "plan_check.h"
#include "report.h"

typedef struct Check
{
	SyncArena  *arena;
	RulesReport report;
	const SyncPlan *plan;
	const SchemaDescription *schema;

	/* the source and the table that are looked at */
	const PlanSource *source;
	const SchemaTable *table;
	struct Facts *facts;		/* check_condition.c */

	uint64_t	work;			/* names compared so far: nothing can interrupt us */
	size_t		slot_count;		/* notes by what they are about; a power of two */
	const PlanNote **slots;
	const PlanNote **tables;	/* the first note of each table, in as many slots */
} Check;

/* ---- plan_check.c */

/* a warning; what was said of the same place already is not said again */
extern void check_add(Check *check, SyncErrorCode code, const PlanNote *place, const char *hint,
					  const char *format,...) sync_printf_like(5, 6);

/* where an expression stands: its first column; NULL: not known */
extern const PlanNote *check_place(Check *check, const Expr *expr);

/* the column that an expression is, in the present table; NULL: it is none, or unknown */
extern const SchemaColumn *check_column(Check *check, const Expr *expr);

/* a hint's text */
#define check_hint(check, ...) arena_printf((check)->arena, __VA_ARGS__)

/* a name as it is written in SQL: in quotes if it needs them */
extern const char *check_quoted(Check *check, SyncString name);

/* for "%.*s": a name cut to what is readable */
#define NAMED(s)	((s).len > 63 ? 63 : (int) (s).len), (s).data

/* ---- check_expr.c */

/* the kinds of value that an expression can have */
#define CAN_BE_NULL		0x01
#define CAN_BE_NUMBER	0x02
#define CAN_BE_TEXT		0x04
#define CAN_BE_BLOB		0x08
#define CAN_BE_ANY		0x0F

extern int	check_kinds(Check *check, const Expr *expr);

/* everything inside an expression */
extern void check_expr(Check *check, const Expr *expr);

/* ---- check_condition.c */

/* a source's WHERE; its expressions were checked before */
extern void check_conditions(Check *check, const PlanMatch *match);

#endif							/* PGSYNC_CHECK_H */
