/*-------------------------------------------------------------------------
 *
 * expr.c
 *	  Builds, binds and evaluates expressions.
 *
 * What operators do to values is in value.c and json.c, what functions do in
 * functions.c.  Which expressions a query may hold is the compilers' matter.
 *
 * Invariant: evaluation recurses at most EXPR_MAX_DEPTH levels, which the
 * compilers ensure, and allocates only what an operator's result needs.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "expr.h"
#include "json.h"

/* arguments evaluated on the stack; more go to the arena */
#define STACK_ARGS	6

Expr *
expr_new(SyncArena *arena, ExprKind kind, int op, int arg_count, const Expr *const *args)
{
	Expr	   *expr = arena_new(arena, Expr);

	expr->kind = kind;
	expr->op = op;
	expr->arg_count = arg_count;
	if (arg_count > 0)
	{
		expr->args = arena_array(arena, const Expr *, (size_t) arg_count);
		memcpy(expr->args, args, sizeof(*args) * (size_t) arg_count);
	}
	return expr;
}

Expr *
expr_constant(SyncArena *arena, SyncValue value)
{
	Expr	   *expr = expr_new(arena, EXPR_CONSTANT, 0, 0, NULL);

	expr->constant = value;
	return expr;
}

Expr *
expr_column(SyncArena *arena, SyncString name)
{
	Expr	   *expr = expr_new(arena, EXPR_COLUMN, 0, 0, NULL);

	expr->name = name;
	return expr;
}

/* ---------------------------------------------------------------- evaluation */

/* v IN j (sync-rules.md, 5.8) */
static bool
evaluate_in_json(ExprContext *context, SyncValue value, SyncValue list, SyncValue *result)
{
	const JsonNode *array;

	*result = value_null();
	if (value_is_null(value) || value_is_null(list))
		return true;
	if (list.type != SYNC_TEXT)
	{
		sync_error_set(context->error, SYNC_ERROR_VALUE, "IN needs a JSON array on its right side");
		return false;
	}
	array = json_parse((SyncString) {list.data, list.len}, JSON_NUMBERS_EXACT, context->arena,
					   context->error);
	if (array == NULL)
		return false;
	if (array->kind != JSON_ARRAY)
	{
		sync_error_set(context->error, SYNC_ERROR_VALUE, "IN needs a JSON array on its right side");
		return false;
	}
	for (const JsonNode *element = array->first; element != NULL; element = element->next)
	{
		SyncValue	equal;

		if (!value_compare_operator(VALUE_EQ, value, json_node_value(element, context->arena),
									&equal, context->error))
			return false;
		if (value_is_true(equal))
		{
			*result = value_boolean(true);
			return true;
		}
	}
	*result = value_boolean(false);
	return true;
}

/* JSON has no NaN and no blobs: any two of its values can be ordered */
static int
compare_elements(const void *a, const void *b)
{
	int			order = 0;

	value_compare(*(const SyncValue *) a, *(const SyncValue *) b, &order, NULL);
	return order;
}

/* the elements of a JSON array that can be equal to something, ascending */
static bool
sorted_elements(ExprContext *context, SyncValue list, SyncValue **elements, size_t *count)
{
	const JsonNode *array = NULL;

	if (list.type == SYNC_TEXT)
	{
		array = json_parse((SyncString) {list.data, list.len}, JSON_NUMBERS_EXACT, context->arena,
						   context->error);
		if (array == NULL)
			return false;
	}
	if (array == NULL || array->kind != JSON_ARRAY)
	{
		sync_error_set(context->error, SYNC_ERROR_VALUE, "&& needs a JSON array on both sides");
		return false;
	}
	*count = 0;
	*elements = arena_array(context->arena, SyncValue, array->count);
	for (const JsonNode *element = array->first; element != NULL; element = element->next)
	{
		if (element->kind != JSON_NULL)
			(*elements)[(*count)++] = json_node_value(element, context->arena);
	}
	qsort(*elements, *count, sizeof(SyncValue), compare_elements);
	return true;
}

/* a && b (sync-rules.md, 5.8) */
static bool
evaluate_overlap_json(ExprContext *context, SyncValue a, SyncValue b, SyncValue *result)
{
	SyncValue  *left;
	SyncValue  *right;
	size_t		left_count;
	size_t		right_count;
	size_t		l = 0;
	size_t		r = 0;

	*result = value_null();
	if (value_is_null(a) || value_is_null(b))
		return true;
	if (!sorted_elements(context, a, &left, &left_count) ||
		!sorted_elements(context, b, &right, &right_count))
		return false;
	*result = value_boolean(false);
	while (l < left_count && r < right_count)
	{
		int			order = compare_elements(&left[l], &right[r]);

		if (order == 0)
		{
			*result = value_boolean(true);
			return true;
		}
		if (order < 0)
			l++;
		else
			r++;
	}
	return true;
}

static bool
evaluate_function(const Expr *expr, ExprContext *context, SyncValue *result)
{
	SyncValue	stack[STACK_ARGS];
	SyncValue  *args = stack;

	if (expr->arg_count > STACK_ARGS)
		args = arena_array(context->arena, SyncValue, (size_t) expr->arg_count);
	else
		memset(stack, 0, sizeof(stack));	/* SYNC_UNDEFINED */
	for (int i = 0; i < expr->arg_count; i++)
	{
		if (!expr_evaluate(expr->args[i], context, &args[i]))
			return false;
	}
	return expr->function->body(context, expr->arg_count, args, result);
}

static bool
evaluate_binary(const Expr *expr, ExprContext *context, SyncValue *result)
{
	SyncValue	a;
	SyncValue	b;

	if (!expr_evaluate(expr->args[0], context, &a) || !expr_evaluate(expr->args[1], context, &b))
		return false;
	switch (expr->kind)
	{
		case EXPR_AND:
			*result = value_boolean(value_is_true(a) && value_is_true(b));
			return true;
		case EXPR_OR:
			*result = value_boolean(value_is_true(a) || value_is_true(b));
			return true;
		case EXPR_COMPARE:
			return value_compare_operator((ValueComparison) expr->op, a, b, result, context->error);
		case EXPR_IS:
			return value_is(a, b, result, context->error);
		case EXPR_ARITHMETIC:
			return value_arithmetic((char) expr->op, a, b, context->arena, result, context->error);
		case EXPR_CONCAT:
			*result = value_concat(a, b, context->arena);
			return true;
		case EXPR_JSON_GET:
			return json_get((JsonOperator) expr->op, context->fixed_json, a, b, context->arena,
							result, context->error);
		case EXPR_IN_JSON:
			return evaluate_in_json(context, a, b, result);
		case EXPR_OVERLAP_JSON:
			return evaluate_overlap_json(context, a, b, result);
		default:
			sync_error_set(context->error, SYNC_ERROR_VALUE, "unknown operator");
			return false;
	}
}

/* NULL if either comparison is (sync-rules.md, 5.8) */
static bool
evaluate_between(const Expr *expr, ExprContext *context, SyncValue *result)
{
	SyncValue	v[3];
	SyncValue	low;
	SyncValue	high;

	for (int i = 0; i < 3; i++)
	{
		if (!expr_evaluate(expr->args[i], context, &v[i]))
			return false;
	}
	if (!value_compare_operator(VALUE_GE, v[0], v[1], &low, context->error) ||
		!value_compare_operator(VALUE_LE, v[0], v[2], &high, context->error))
		return false;
	if (value_is_null(low) || value_is_null(high))
		*result = value_null();
	else
		*result = value_boolean(value_is_true(low) && value_is_true(high));
	return true;
}

/* NULL instead of 0 if one of the list is NULL (5.8) */
static bool
evaluate_scalar_in(const Expr *expr, ExprContext *context, SyncValue *result)
{
	SyncValue	value;
	SyncValue	element;
	SyncValue	equal;
	bool		unknown = false;

	if (!expr_evaluate(expr->args[0], context, &value))
		return false;
	*result = value_null();
	if (value_is_null(value))
		return true;
	for (int i = 1; i < expr->arg_count; i++)
	{
		if (!expr_evaluate(expr->args[i], context, &element) ||
			!value_compare_operator(VALUE_EQ, value, element, &equal, context->error))
			return false;
		if (value_is_true(equal))
		{
			*result = value_boolean(true);
			return true;
		}
		unknown |= value_is_null(equal);
	}
	if (!unknown)
		*result = value_boolean(false);
	return true;
}

static bool
evaluate_case(const Expr *expr, ExprContext *context, SyncValue *result)
{
	bool		has_operand = (expr->op & EXPR_CASE_OPERAND) != 0;
	bool		has_else = (expr->op & EXPR_CASE_ELSE) != 0;
	int			last = expr->arg_count - has_else;
	SyncValue	operand = value_null();
	SyncValue	when;

	if (has_operand && !expr_evaluate(expr->args[0], context, &operand))
		return false;
	for (int i = has_operand; i + 1 < last; i += 2)
	{
		if (!expr_evaluate(expr->args[i], context, &when))
			return false;
		if (has_operand &&
			!value_compare_operator(VALUE_EQ, operand, when, &when, context->error))
			return false;
		if (value_is_true(when))
			return expr_evaluate(expr->args[i + 1], context, result);
	}
	if (has_else)
		return expr_evaluate(expr->args[last], context, result);
	*result = value_null();
	return true;
}

/* the error, once the operands went well */
static bool
evaluate_fail(const Expr *expr, ExprContext *context)
{
	SyncValue	ignored;

	for (int i = 1; i < expr->arg_count; i++)
	{
		if (!expr_evaluate(expr->args[i], context, &ignored))
			return false;
	}
	sync_error_set(context->error, SYNC_ERROR_VALUE, "%.*s",
				   (int) expr->args[0]->constant.len, expr->args[0]->constant.data);
	return false;
}

bool
expr_evaluate(const Expr *expr, ExprContext *context, SyncValue *result)
{
	SyncValue	a;

	switch (expr->kind)
	{
		case EXPR_CONSTANT:
			*result = expr->constant;
			return true;
		case EXPR_POSITION:
			*result = context->row[expr->position];
			return true;
		case EXPR_NOT:
			if (!expr_evaluate(expr->args[0], context, &a))
				return false;
			*result = value_boolean(!value_is_true(a));
			return true;
		case EXPR_CAST:
			if (!expr_evaluate(expr->args[0], context, &a))
				return false;
			return value_cast((ValueCast) expr->op, a, context->arena, result, context->error);
		case EXPR_FUNCTION:
			return evaluate_function(expr, context, result);
		case EXPR_BETWEEN:
			return evaluate_between(expr, context, result);
		case EXPR_SCALAR_IN:
			return evaluate_scalar_in(expr, context, result);
		case EXPR_CASE:
			return evaluate_case(expr, context, result);
		case EXPR_EXPANDED_VALUE:
			*result = context->expanded[expr->position]->value;
			return true;
		case EXPR_EXPANDED_KEY:
			*result = context->expanded[expr->position]->key;
			return true;
		case EXPR_FAIL:
			return evaluate_fail(expr, context);
		case EXPR_COLUMN:
		case EXPR_TABLE_SUFFIX:
		case EXPR_TABLE_NAME:
		case EXPR_TABLE_SCHEMA:
			sync_error_set(context->error, SYNC_ERROR_VALUE, "the expression is not bound to a table");
			return false;
		case EXPR_AND:
		case EXPR_OR:
		case EXPR_COMPARE:
		case EXPR_IS:
		case EXPR_ARITHMETIC:
		case EXPR_CONCAT:
		case EXPR_JSON_GET:
		case EXPR_IN_JSON:
		case EXPR_OVERLAP_JSON:
			return evaluate_binary(expr, context, result);
	}
	sync_error_set(context->error, SYNC_ERROR_VALUE, "unknown expression");
	return false;
}

/* ---------------------------------------------------------------- binding */

int
row_type_position(const SyncRowType *type, SyncString name)
{
	for (int i = 0; i < type->column_count; i++)
	{
		if (sync_string_equal(type->columns[i].name, name))
			return i;
	}
	return -1;
}

static SyncValue
copy_constant(SyncValue value, SyncArena *arena)
{
	switch (value.type)
	{
		case SYNC_BIGINT:
		case SYNC_TEXT:
		case SYNC_BLOB:
		case SYNC_JSON:
			value.data = arena_strndup(arena, value.data, value.len);
			break;
		case SYNC_UNDEFINED:
		case SYNC_NULL:
		case SYNC_INTEGER:
		case SYNC_REAL:
			break;
	}
	return value;
}

static const Expr *
bind_column(const Expr *expr, const ExprScope *scope, SyncArena *arena)
{
	int			position = row_type_position(scope->row_type, expr->name);
	Expr	   *bound;

	/* the extra column is added to the row last, so it hides one of the table */
	if (scope->has_suffix_column &&
		sync_string_equal(expr->name, sync_string_literal("_table_suffix")))
		return expr_constant(arena, copy_constant(value_string(scope->suffix), arena));
	if (position < 0)
		return expr_constant(arena, (SyncValue) {.type = SYNC_UNDEFINED});
	bound = expr_new(arena, EXPR_POSITION, 0, 0, NULL);
	bound->position = position;
	return bound;
}

const Expr *
expr_bind(const Expr *expr, const ExprScope *scope, SyncArena *arena)
{
	Expr	   *bound;

	switch (expr->kind)
	{
		case EXPR_CONSTANT:
			return expr_constant(arena, copy_constant(expr->constant, arena));
		case EXPR_COLUMN:
			return bind_column(expr, scope, arena);
		case EXPR_TABLE_SUFFIX:
			return expr_constant(arena, copy_constant(value_string(scope->suffix), arena));
		case EXPR_TABLE_NAME:
			return expr_constant(arena, copy_constant(value_string(scope->table), arena));
		case EXPR_TABLE_SCHEMA:
			return expr_constant(arena, copy_constant(value_string(scope->schema), arena));
		default:
			break;
	}
	bound = expr_new(arena, expr->kind, expr->op, expr->arg_count, expr->args);
	for (int i = 0; i < expr->arg_count; i++)
		bound->args[i] = expr_bind(expr->args[i], scope, arena);
	if (expr->kind == EXPR_FUNCTION)
		bound->function = expr->function;
	else if (expr->kind == EXPR_EXPANDED_VALUE || expr->kind == EXPR_EXPANDED_KEY)
		bound->position = expr->position;
	return bound;
}
