/*-------------------------------------------------------------------------
 *
 * check_condition.c
 *	  Conditions that no row can meet.
 *
 * What must hold of a row is taken apart at every AND into facts of one
 * expression each; two facts that cannot hold together make the whole one that
 * nothing meets.  Not a solver: it finds what people write by mistake.
 *
 * Invariant: what is called impossible is, for every row.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "check.h"
#include "value.h"

/* terms of one AND that are compared with one another */
#define FACTS_MAX	64

typedef enum FactKind
{
	FACT_NULL,
	FACT_NOT_NULL,
	FACT_TRUE,
	FACT_FALSE,					/* or NULL */
	FACT_COMPARE				/* and so not NULL */
} FactKind;

/* something that holds of an expression in every row that meets the condition */
typedef struct Fact
{
	FactKind	kind;
	const Expr *expr;
	ValueComparison op;
	SyncValue	value;			/* COMPARE: never NULL, blob or NaN */
} Fact;

struct Facts
{
	int			count;
	Fact		items[FACTS_MAX];
};
typedef struct Facts Facts;

/* one list, used again: conditions may be deep, and a list on the stack is large */
static void
facts_clear(Check *check)
{
	if (check->facts == NULL)
		check->facts = arena_new(check->arena, Facts);
	check->facts->count = 0;
}

/* ---------------------------------------------------------------- facts */

static bool
same_expr(const Expr *a, const Expr *b)
{
	if (a == b)
		return true;
	if (a->kind != b->kind || a->op != b->op || a->arg_count != b->arg_count)
		return false;
	switch (a->kind)
	{
		case EXPR_CONSTANT:
			return value_identical(a->constant, b->constant);
		case EXPR_COLUMN:
			return sync_string_equal(a->name, b->name);
		case EXPR_EXPANDED_VALUE:
		case EXPR_EXPANDED_KEY:
		case EXPR_POSITION:
			return a->position == b->position;
		case EXPR_FUNCTION:
			if (a->function != b->function)
				return false;
			break;
		default:
			break;
	}
	for (int i = 0; i < a->arg_count; i++)
	{
		if (!same_expr(a->args[i], b->args[i]))
			return false;
	}
	return true;
}

static void
add_fact(Facts *facts, Fact fact)
{
	if (facts->count < FACTS_MAX && fact.expr->kind != EXPR_CONSTANT)
		facts->items[facts->count++] = fact;
}

static bool
is_null_constant(const Expr *expr)
{
	return expr->kind == EXPR_CONSTANT && value_is_null(expr->constant);
}

static bool
is_comparable_constant(const Expr *expr)
{
	SyncValue	v = expr->constant;

	return expr->kind == EXPR_CONSTANT && !value_is_null(v) && v.type != SYNC_BLOB &&
		v.type != SYNC_JSON && !(v.type == SYNC_REAL && v.real != v.real);
}

static ValueComparison
mirrored(ValueComparison op)
{
	switch (op)
	{
		case VALUE_LT:
			return VALUE_GT;
		case VALUE_LE:
			return VALUE_GE;
		case VALUE_GT:
			return VALUE_LT;
		case VALUE_GE:
			return VALUE_LE;
		default:
			return op;
	}
}

static void
add_comparison(Facts *facts, ValueComparison op, const Expr *left, const Expr *right)
{
	if (is_comparable_constant(right))
		add_fact(facts, (Fact) {FACT_COMPARE, left, op, right->constant});
	else if (is_comparable_constant(left))
		add_fact(facts, (Fact) {FACT_COMPARE, right, mirrored(op), left->constant});
	else
	{
		add_fact(facts, (Fact) {.kind = FACT_NOT_NULL, .expr = left});
		add_fact(facts, (Fact) {.kind = FACT_NOT_NULL, .expr = right});
	}
}

static void
facts_of_negated(Facts *facts, const Expr *expr)
{
	if (expr->kind == EXPR_IS && is_null_constant(expr->args[1]))
		add_fact(facts, (Fact) {.kind = FACT_NOT_NULL, .expr = expr->args[0]});
	else if (expr->kind == EXPR_COLUMN)
		add_fact(facts, (Fact) {.kind = FACT_FALSE, .expr = expr});
}

static void
facts_of(Facts *facts, const Expr *expr)
{
	switch (expr->kind)
	{
		case EXPR_AND:
			facts_of(facts, expr->args[0]);
			facts_of(facts, expr->args[1]);
			break;
		case EXPR_NOT:
			facts_of_negated(facts, expr->args[0]);
			break;
		case EXPR_COMPARE:
			add_comparison(facts, (ValueComparison) expr->op, expr->args[0], expr->args[1]);
			break;
		case EXPR_IS:
			if (is_null_constant(expr->args[1]))
				add_fact(facts, (Fact) {.kind = FACT_NULL, .expr = expr->args[0]});
			else if (is_comparable_constant(expr->args[1]))
				add_comparison(facts, VALUE_EQ, expr->args[0], expr->args[1]);
			break;
		case EXPR_BETWEEN:
			add_comparison(facts, VALUE_GE, expr->args[0], expr->args[1]);
			add_comparison(facts, VALUE_LE, expr->args[0], expr->args[2]);
			break;
		case EXPR_COLUMN:
			add_fact(facts, (Fact) {.kind = FACT_TRUE, .expr = expr});
			break;
		case EXPR_IN_JSON:
			add_fact(facts, (Fact) {.kind = FACT_NOT_NULL, .expr = expr->args[0]});
			add_fact(facts, (Fact) {.kind = FACT_NOT_NULL, .expr = expr->args[1]});
			break;
		default:
			break;
	}
}

static void
facts_of_match(Facts *facts, const PlanMatch *match)
{
	switch (match->kind)
	{
		case MATCH_CONDITION:
			facts_of(facts, match->expr);
			break;
		case MATCH_EQUAL:
		case MATCH_ELEMENTS:
		case MATCH_OVERLAP:
		case MATCH_MEMBERS:
			add_fact(facts, (Fact) {.kind = FACT_NOT_NULL, .expr = match->expr});
			break;
		case MATCH_AND:
			for (int i = 0; i < match->child_count; i++)
				facts_of_match(facts, match->children[i]);
			break;
		case MATCH_VALUE:
		case MATCH_OR:
			break;
	}
}

/* ---------------------------------------------------------------- contradictions */

static bool
holds(ValueComparison op, SyncValue a, SyncValue b)
{
	SyncValue	result;

	/* what cannot be compared is not called impossible */
	return !value_compare_operator(op, a, b, &result, NULL) || value_is_null(result) ||
		value_is_true(result);
}

static bool
is_lower_bound(ValueComparison op)
{
	return op == VALUE_GT || op == VALUE_GE;
}

/* x op value and x op value of the other cannot both hold */
static bool
ranges_exclude(const Fact *a, const Fact *b)
{
	if (a->op == VALUE_EQ)
		return !holds(b->op, a->value, b->value);
	if (b->op == VALUE_EQ)
		return !holds(a->op, b->value, a->value);
	if (a->op == VALUE_NE || b->op == VALUE_NE || is_lower_bound(a->op) == is_lower_bound(b->op))
		return false;
	if (!is_lower_bound(a->op))
		return ranges_exclude(b, a);
	return !holds(a->op == VALUE_GE && b->op == VALUE_LE ? VALUE_LE : VALUE_LT, a->value, b->value);
}

static bool
exclude(const Fact *a, const Fact *b)
{
	if (a->kind == FACT_COMPARE && b->kind == FACT_COMPARE)
		return ranges_exclude(a, b);
	if (a->kind == FACT_NULL)
		return b->kind == FACT_NOT_NULL || b->kind == FACT_TRUE || b->kind == FACT_COMPARE;
	if (b->kind == FACT_NULL)
		return exclude(b, a);
	if (a->kind == FACT_FALSE && b->kind == FACT_COMPARE)
		return b->op == VALUE_EQ && value_is_true(b->value);
	if (a->kind == FACT_TRUE && b->kind == FACT_COMPARE)
		return b->op == VALUE_EQ && !value_is_true(b->value);
	if (b->kind < FACT_COMPARE && a->kind == FACT_COMPARE)
		return exclude(b, a);
	return (a->kind == FACT_TRUE && b->kind == FACT_FALSE) ||
		(a->kind == FACT_FALSE && b->kind == FACT_TRUE);
}

/* IS NULL of what is never NULL is a finding of its own */
static bool
is_never(Check *check, const Fact *fact)
{
	return fact->kind == FACT_NULL && (check_kinds(check, fact->expr) & CAN_BE_NULL) == 0;
}

static void
check_facts(Check *check, const Facts *facts)
{
	for (int b = 1; b < facts->count; b++)
	{
		for (int a = 0; a < b; a++)
		{
			const Fact *first = &facts->items[a];
			const Fact *second = &facts->items[b];
			const PlanNote *place;

			if (!same_expr(first->expr, second->expr) || !exclude(first, second) ||
				is_never(check, first) || is_never(check, second))
				continue;
			place = check_place(check, second->expr);
			if (second->expr->kind == EXPR_COLUMN)
				check_add(check, SYNC_ERROR_CONFIG, place, NULL,
						  "the conditions on column \"%.*s\" contradict each other: no row meets "
						  "both", NAMED(second->expr->name));
			else
				check_add(check, SYNC_ERROR_CONFIG, place, NULL,
						  "two conditions contradict each other: no row meets both");
			return;
		}
	}
}

/* ---------------------------------------------------------------- single conditions */

static void
check_truth_of_column(Check *check, const Expr *expr)
{
	const SchemaColumn *column = check_column(check, expr);

	if (column == NULL)
		return;
	if (column->value == SCHEMA_BLOB)
		check_add(check, SYNC_ERROR_TYPE, check_place(check, expr), "Use IS NOT NULL.",
				  "column \"%.*s\" (%s) is a blob: as a condition it is never true",
				  NAMED(column->name), column->type);
	else if (column->value >= SCHEMA_TEXT)
		check_add(check, SYNC_ERROR_TYPE, check_place(check, expr), "Compare it with a text.",
				  "column \"%.*s\" (%s) is a text: as a condition it is true only if it begins "
				  "with a whole number other than 0", NAMED(column->name), column->type);
}

static void
check_is_null(Check *check, const Expr *operand)
{
	const SchemaColumn *column = check_column(check, operand);

	if (column != NULL && (check_kinds(check, operand) & CAN_BE_NULL) == 0)
		check_add(check, SYNC_ERROR_CONFIG, check_place(check, operand), NULL,
				  "column \"%.*s\" is NOT NULL: this is never true", NAMED(column->name));
}

/* where a condition without columns stands: that of the whole WHERE */
static const PlanNote *
place_of_condition(const Check *check, const void *about)
{
	for (const PlanNote *note = check->plan->first_note; note != NULL; note = note->next)
	{
		if (note->kind == NOTE_CONDITION && note->about == about)
			return note;
	}
	return NULL;
}

/* whole: what the compilers noted, the WHERE that the condition is part of */
static void
check_condition(Check *check, const Expr *expr, const PlanMatch *whole)
{
	switch (expr->kind)
	{
		case EXPR_AND:
		case EXPR_OR:
			check_condition(check, expr->args[0], whole);
			check_condition(check, expr->args[1], whole);
			break;
		case EXPR_NOT:
			if (expr->args[0]->kind == EXPR_COLUMN)
				check_truth_of_column(check, expr->args[0]);
			break;
		case EXPR_COLUMN:
			check_truth_of_column(check, expr);
			break;
		case EXPR_IS:
			if (is_null_constant(expr->args[1]))
				check_is_null(check, expr->args[0]);
			break;
		case EXPR_CONSTANT:
			if (!value_is_true(expr->constant))
				check_add(check, SYNC_ERROR_CONFIG, place_of_condition(check, whole), NULL,
						  "this condition is never true");
			break;
		default:
			break;
	}
}

/* what ties a row to a parameter */
static void
check_parameter_match(Check *check, const PlanMatch *match)
{
	const SchemaColumn *column = check_column(check, match->expr);
	int			kinds = check_kinds(check, match->expr) & ~CAN_BE_NULL;

	if (match->kind != MATCH_ELEMENTS && kinds == CAN_BE_BLOB)
		check_add(check, SYNC_ERROR_TYPE, check_place(check, match->expr),
				  column != NULL ? check_hint(check, "Compare hex(%s).", check_quoted(check, column->name)) :
				  NULL, "a blob is never equal to a parameter");
	if (match->kind == MATCH_ELEMENTS)
	{
		Expr	   *in = expr_new(check->arena, EXPR_IN_JSON, 0, 2,
								  (const Expr *const[]) {match->expr, match->expr});

		check_expr(check, in);
	}
}

static void
check_match(Check *check, const PlanMatch *match, const PlanMatch *whole)
{
	if (match->kind == MATCH_CONDITION)
		check_condition(check, match->expr, whole);
	else if (match->expr != NULL)
		check_parameter_match(check, match);
	for (int i = 0; i < match->child_count; i++)
		check_match(check, match->children[i], whole);
}

/* a condition: one of the two */
typedef struct Condition
{
	const PlanMatch *match;
	const Expr *expr;
} Condition;

static void check_alternatives(Check *check, Condition condition, bool is_or);

/* every side of an OR is a condition of its own; so is a whole */
static void
check_together(Check *check, Condition condition)
{
	facts_clear(check);
	if (condition.match != NULL)
		facts_of_match(check->facts, condition.match);
	else
		facts_of(check->facts, condition.expr);
	check_facts(check, check->facts);
	check_alternatives(check, condition, false);
}

/* is_or: of what is above */
static void
check_alternatives(Check *check, Condition condition, bool is_or)
{
	const PlanMatch *match = condition.match;
	const Expr *expr = condition.expr;

	if (is_or)
		check_together(check, condition);
	else if (match != NULL && match->kind == MATCH_CONDITION)
		check_alternatives(check, (Condition) {.expr = match->expr}, false);
	else if (match != NULL)
	{
		for (int i = 0; i < match->child_count; i++)
			check_alternatives(check, (Condition) {.match = match->children[i]},
							   match->kind == MATCH_OR);
	}
	else if (expr->kind == EXPR_OR || expr->kind == EXPR_AND)
	{
		for (int i = 0; i < 2; i++)
			check_alternatives(check, (Condition) {.expr = expr->args[i]}, expr->kind == EXPR_OR);
	}
}

void
check_conditions(Check *check, const PlanMatch *match)
{
	if (match == NULL)
		return;
	check_match(check, match, match);
	check_together(check, (Condition) {.match = match});
}
