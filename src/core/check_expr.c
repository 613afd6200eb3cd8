/*-------------------------------------------------------------------------
 *
 * check_expr.c
 *	  Which kinds of value expressions have, by the types of the columns, and
 *	  where that makes an operator do what its author cannot have meant.
 *
 * The rules compare without affinity: a text is never equal to a number, and
 * always greater (sync-rules.md, 5.4).  Many types of PostgreSQL come as text.
 *
 * Invariant: the kinds of an expression include that of every value it can
 * have; so what is called "never" or "always" is.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "check.h"
#include "json.h"
#include "value.h"

/* ---------------------------------------------------------------- kinds */

static int
kind_of_value(SyncValue value)
{
	switch (value.type)
	{
		case SYNC_UNDEFINED:
		case SYNC_NULL:
			return CAN_BE_NULL;
		case SYNC_INTEGER:
		case SYNC_BIGINT:
		case SYNC_REAL:
			return CAN_BE_NUMBER;
		case SYNC_TEXT:
			return CAN_BE_TEXT;
		case SYNC_BLOB:
			return CAN_BE_BLOB;
		case SYNC_JSON:
			break;
	}
	return CAN_BE_ANY;
}

static int
kinds_of_column(const SchemaColumn *column)
{
	int			null = column->not_null ? 0 : CAN_BE_NULL;

	switch (column->value)
	{
		case SCHEMA_INTEGER:
		case SCHEMA_BOOLEAN:
		case SCHEMA_REAL:
			return CAN_BE_NUMBER | null;
		case SCHEMA_BLOB:
			return CAN_BE_BLOB | null;
		case SCHEMA_TIMESTAMP:
		case SCHEMA_TIMESTAMPTZ:
			/* years that the rules have no text for are NULL (10.3) */
			return CAN_BE_TEXT | CAN_BE_NULL;
		default:
			return CAN_BE_TEXT | null;
	}
}

static int
kinds_of_call(const FunctionInfo *function)
{
	static const struct
	{
		const char *name;
		int			kinds;
	}			results[] = {
		{"upper", CAN_BE_TEXT}, {"lower", CAN_BE_TEXT}, {"substring", CAN_BE_TEXT},
		{"hex", CAN_BE_TEXT}, {"base64", CAN_BE_TEXT}, {"typeof", CAN_BE_TEXT},
		{"json_keys", CAN_BE_TEXT}, {"datetime", CAN_BE_TEXT},
		{"st_asgeojson", CAN_BE_TEXT}, {"st_astext", CAN_BE_TEXT},
		{"length", CAN_BE_NUMBER}, {"instr", CAN_BE_NUMBER}, {"json_valid", CAN_BE_NUMBER},
		{"json_array_length", CAN_BE_NUMBER}, {"unixepoch", CAN_BE_NUMBER},
		{"st_x", CAN_BE_NUMBER}, {"st_y", CAN_BE_NUMBER}, {"uuid_blob", CAN_BE_BLOB},
	};

	for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++)
	{
		if (strcmp(results[i].name, function->name) == 0)
			return results[i].kinds | CAN_BE_NULL;
	}
	return CAN_BE_ANY;
}

static int
kinds_of_case(Check *check, const Expr *expr)
{
	int			first = (expr->op & EXPR_CASE_OPERAND) ? 1 : 0;
	int			kinds = (expr->op & EXPR_CASE_ELSE) ? 0 : CAN_BE_NULL;

	for (int i = first; i + 1 < expr->arg_count; i += 2)
		kinds |= check_kinds(check, expr->args[i + 1]);
	if (expr->op & EXPR_CASE_ELSE)
		kinds |= check_kinds(check, expr->args[expr->arg_count - 1]);
	return kinds;
}

static int
kinds_of_cast(int cast)
{
	switch ((ValueCast) cast)
	{
		case VALUE_CAST_TEXT:
			return CAN_BE_TEXT | CAN_BE_NULL;
		case VALUE_CAST_BLOB:
			return CAN_BE_BLOB | CAN_BE_NULL;
		default:
			return CAN_BE_NUMBER | CAN_BE_NULL;
	}
}

int
check_kinds(Check *check, const Expr *expr)
{
	const SchemaColumn *column;

	switch (expr->kind)
	{
		case EXPR_CONSTANT:
			return kind_of_value(expr->constant);
		case EXPR_COLUMN:
			column = check_column(check, expr);
			return column != NULL ? kinds_of_column(column) : CAN_BE_ANY;
		case EXPR_TABLE_SUFFIX:
		case EXPR_TABLE_NAME:
		case EXPR_TABLE_SCHEMA:
			return CAN_BE_TEXT;
		case EXPR_NOT:
		case EXPR_AND:
		case EXPR_OR:
		case EXPR_IS:
			return CAN_BE_NUMBER;
		case EXPR_COMPARE:
		case EXPR_ARITHMETIC:
		case EXPR_IN_JSON:
		case EXPR_OVERLAP_JSON:
		case EXPR_BETWEEN:
		case EXPR_SCALAR_IN:
			return CAN_BE_NUMBER | CAN_BE_NULL;
		case EXPR_CONCAT:
			return CAN_BE_TEXT | CAN_BE_NULL;
		case EXPR_CAST:
			return kinds_of_cast(expr->op);
		case EXPR_JSON_GET:
			return expr->op == JSON_GET ? CAN_BE_TEXT | CAN_BE_NULL : CAN_BE_ANY & ~CAN_BE_BLOB;
		case EXPR_CASE:
			return kinds_of_case(check, expr);
		case EXPR_FUNCTION:
			return kinds_of_call(expr->function);
		case EXPR_POSITION:
		case EXPR_EXPANDED_VALUE:
		case EXPR_EXPANDED_KEY:
		case EXPR_FAIL:
			break;
	}
	return CAN_BE_ANY;
}

static bool
is_one_kind(int kinds)
{
	return kinds == CAN_BE_NUMBER || kinds == CAN_BE_TEXT || kinds == CAN_BE_BLOB;
}

static const char *
kind_name(int kind)
{
	return kind == CAN_BE_NUMBER ? "a number" : kind == CAN_BE_TEXT ? "a text" : "a blob";
}

/* ---------------------------------------------------------------- comparisons */

/* what op gives for operands of these two different kinds: their order alone decides */
static bool
result_of_kinds(ValueComparison op, int left, int right)
{
	switch (op)
	{
		case VALUE_EQ:
			return false;
		case VALUE_NE:
			return true;
		case VALUE_LT:
		case VALUE_LE:
			return left < right;
		case VALUE_GT:
		case VALUE_GE:
			return left > right;
	}
	return false;
}

/* how to compare such a column with that kind of value */
static const char *
suggest_comparison(Check *check, const SchemaColumn *column, const Expr *other, int other_kind)
{
	bool		constant = other->kind == EXPR_CONSTANT;

	if (column->value == SCHEMA_BLOB)
		return check_hint(check, "Compare hex(%s), which is a text.", check_quoted(check, column->name));
	if (other_kind == CAN_BE_BLOB)
		return NULL;
	switch (column->value)
	{
		case SCHEMA_BOOLEAN:
			return "Compare with true or false, which are 1 and 0.";
		case SCHEMA_INTEGER:
		case SCHEMA_REAL:
			return constant ? "Write the number without quotes." :
				check_hint(check, "Compare CAST(%s AS text).", check_quoted(check, column->name));
		case SCHEMA_TIMESTAMP:
		case SCHEMA_TIMESTAMPTZ:
		case SCHEMA_DATE:
			return check_hint(check, "Compare unixepoch(%s), or compare with a text.",
							  check_quoted(check, column->name));
		case SCHEMA_NUMERIC:
			return check_hint(check, "Compare CAST(%s AS numeric).", check_quoted(check, column->name));
		case SCHEMA_TEXT:
			return constant ? "Put the number in quotes." :
				check_hint(check, "Compare CAST(%s AS numeric).", check_quoted(check, column->name));
		default:
			return "Compare with a text.";
	}
}

static void
add_kind_mismatch(Check *check, ValueComparison op, const Expr *left, int left_kind,
				  const Expr *right, int right_kind)
{
	bool		on_right = check_column(check, left) == NULL && check_column(check, right) != NULL;
	const Expr *subject = on_right ? right : left;
	const Expr *other = on_right ? left : right;
	int			subject_kind = on_right ? right_kind : left_kind;
	int			other_kind = on_right ? left_kind : right_kind;
	const SchemaColumn *column = check_column(check, subject);
	/* of NULL it is NULL in any case */
	const char *outcome = result_of_kinds(op, left_kind, right_kind) ? "true for every value" :
		"never true";

	if (column != NULL)
		check_add(check, SYNC_ERROR_TYPE, check_place(check, subject),
				  suggest_comparison(check, column, other, other_kind),
				  "column \"%.*s\" (%s) is %s in the rules: this comparison with %s is %s",
				  NAMED(column->name), column->type,
				  column->value == SCHEMA_BOOLEAN ? "1 or 0" : kind_name(subject_kind),
				  kind_name(other_kind), outcome);
	else
		check_add(check, SYNC_ERROR_TYPE,
				  check_place(check, subject) ? check_place(check, subject) :
				  check_place(check, other), NULL,
				  "this comparison of %s with %s is %s", kind_name(subject_kind),
				  kind_name(other_kind), outcome);
}

static bool
is_lower_uuid(SyncString text)
{
	if (text.len != 36)
		return false;
	for (uint32_t i = 0; i < text.len; i++)
	{
		char		c = text.data[i];

		if (i == 8 || i == 13 || i == 18 || i == 23)
		{
			if (c != '-')
				return false;
		}
		else if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')))
			return false;
	}
	return true;
}

/* does a text begin as a timestamp that is written in the other way? */
static bool
is_other_timestamp(SyncString text, bool iso8601)
{
	return text.len > 10 && text.data[4] == '-' && text.data[7] == '-' &&
		text.data[10] == (iso8601 ? ' ' : 'T');
}

/* a column against a constant of its own kind, which it cannot have */
static void
check_constant(Check *check, ValueComparison op, const Expr *expr, const Expr *other)
{
	const SchemaColumn *column = check_column(check, expr);
	SyncValue	value = other->constant;
	SyncString	text = {value.data, value.len};
	const PlanNote *place;
	bool		iso8601 = check->plan->compatibility.timestamps_iso8601;

	if (column == NULL || other->kind != EXPR_CONSTANT)
		return;
	place = check_place(check, expr);
	if (column->value == SCHEMA_BOOLEAN && value.type == SYNC_INTEGER && op == VALUE_EQ &&
		value.integer != 0 && value.integer != 1)
		check_add(check, SYNC_ERROR_TYPE, place, NULL,
				  "column \"%.*s\" (%s) is 1 or 0 in the rules: this is never true",
				  NAMED(column->name), column->type);
	else if (column->value == SCHEMA_UUID && value.type == SYNC_TEXT && op == VALUE_EQ &&
			 !is_lower_uuid(text))
		check_add(check, SYNC_ERROR_TYPE, place, "Write it with small letters and all its dashes.",
				  "column \"%.*s\" (%s) is never equal to this text, which is not a uuid as "
				  "PostgreSQL prints it", NAMED(column->name), column->type);
	else if ((column->value == SCHEMA_TIMESTAMP || column->value == SCHEMA_TIMESTAMPTZ) &&
			 value.type == SYNC_TEXT && is_other_timestamp(text, iso8601))
		check_add(check, SYNC_ERROR_TYPE, place,
				  "Write the constant in the same form, or compare unixepoch() of both.",
				  "column \"%.*s\" (%s) is a text like '%s%s' in the rules: it is compared letter "
				  "by letter", NAMED(column->name), column->type,
				  iso8601 ? "2024-12-31T23:59:59.000000" : "2024-12-31 23:59:59",
				  column->value == SCHEMA_TIMESTAMPTZ ? "Z" : "");
}

/* a number that comes as text, ordered against another text: '9' is behind '10' */
static void
check_order(Check *check, ValueComparison op, const Expr *left, const Expr *right)
{
	const SchemaColumn *column = check_column(check, left);
	const Expr *subject = left;

	if (op == VALUE_EQ || op == VALUE_NE)
		return;
	if (column == NULL || column->value != SCHEMA_NUMERIC)
	{
		column = check_column(check, right);
		subject = right;
	}
	if (column == NULL || column->value != SCHEMA_NUMERIC)
		return;
	check_add(check, SYNC_ERROR_TYPE, check_place(check, subject),
			  check_hint(check, "Compare CAST(%s AS numeric) with a number.",
						 check_quoted(check, column->name)),
			  "column \"%.*s\" (%s) is a text in the rules: it is compared letter by letter, '9' "
			  "comes behind '10'", NAMED(column->name), column->type);
}

static void
check_comparison(Check *check, ValueComparison op, const Expr *left, const Expr *right)
{
	int			left_kind = check_kinds(check, left);
	int			right_kind = check_kinds(check, right);

	if (left_kind == CAN_BE_NULL || right_kind == CAN_BE_NULL)
	{
		check_add(check, SYNC_ERROR_TYPE,
				  check_place(check, left) ? check_place(check, left) : check_place(check, right),
				  op == VALUE_NE ? "Use IS NOT NULL." : "Use IS NULL.",
				  "a comparison with NULL is never true");
		return;
	}
	left_kind &= ~CAN_BE_NULL;
	right_kind &= ~CAN_BE_NULL;
	if (left_kind == CAN_BE_BLOB && right_kind == CAN_BE_BLOB)
		check_add(check, SYNC_ERROR_TYPE, check_place(check, left), "Compare hex() of both.",
				  "blobs cannot be compared: every row fails");
	else if (is_one_kind(left_kind) && is_one_kind(right_kind) && left_kind != right_kind)
		add_kind_mismatch(check, op, left, left_kind, right, right_kind);
	else
	{
		if (left_kind == CAN_BE_TEXT && right_kind == CAN_BE_TEXT)
			check_order(check, op, left, right);
		check_constant(check, op, left, right);
		check_constant(check, op, right, left);
	}
}

/* IS with something that is not NULL */
static void
check_is(Check *check, const Expr *left, const Expr *right)
{
	int			left_kind = check_kinds(check, left);
	int			right_kind = check_kinds(check, right);

	if (is_one_kind(left_kind & ~CAN_BE_NULL) && is_one_kind(right_kind & ~CAN_BE_NULL) &&
		((left_kind & right_kind) & CAN_BE_NULL) == 0)
		check_comparison(check, VALUE_EQ, left, right);
}

/* ---------------------------------------------------------------- JSON */

/* a column that never holds a JSON document of the kind wanted */
static const char *
not_json(const SchemaColumn *column, bool array)
{
	switch (column->value)
	{
		case SCHEMA_TEXT:
		case SCHEMA_JSON:
		case SCHEMA_JSON_ARRAY:
		case SCHEMA_PRINTED:
			return NULL;
		case SCHEMA_RAW_ARRAY:
			return "comes as PostgreSQL prints it, not as JSON";
		case SCHEMA_BLOB:
			return "is a blob, not JSON";
		default:
			return array ? "is not a JSON array" : "is not a JSON document";
	}
}

static void
check_document(Check *check, const Expr *expr)
{
	const SchemaColumn *column = check_column(check, expr);
	const char *why = column != NULL ? not_json(column, false) : NULL;

	if (why != NULL)
		check_add(check, SYNC_ERROR_TYPE, check_place(check, expr), NULL,
				  "column \"%.*s\" (%s) %s: nothing can be taken out of it", NAMED(column->name),
				  column->type, why);
}

/* IN searches a JSON array (5.8), also where it looks like a list of one element */
static void
check_list(Check *check, const Expr *value, const Expr *list)
{
	const SchemaColumn *column = check_column(check, list);
	const char *why = column != NULL ? not_json(column, true) : NULL;
	SyncError	error;

	if (why != NULL)
		check_add(check, SYNC_ERROR_TYPE, check_place(check, list),
				  column->value == SCHEMA_RAW_ARRAY &&
				  !check->plan->compatibility.custom_postgres_types ?
				  "Use edition 2, or set custom_postgres_types: true." : NULL,
				  "column \"%.*s\" (%s) %s: IN makes every row fail", NAMED(column->name),
				  column->type, why);
	else if (list->kind == EXPR_CONSTANT && !value_is_null(list->constant))
	{
		const JsonNode *node = NULL;

		if (list->constant.type == SYNC_TEXT)
			node = json_parse((SyncString) {list->constant.data, list->constant.len},
							  JSON_NUMBERS_EXACT, check->arena, &error);
		if (node == NULL || node->kind != JSON_ARRAY)
			check_add(check, SYNC_ERROR_TYPE, value != NULL ? check_place(check, value) : NULL,
					  "Use =, or a text like '[\"a\", \"b\"]'.",
					  "IN searches a JSON array, which its right side is not: every row fails");
	}
}

/* ---------------------------------------------------------------- all of it */

static void
check_arithmetic(Check *check, const Expr *operand)
{
	const SchemaColumn *column = check_column(check, operand);
	bool		has_time = false;

	if (column == NULL)
		return;
	switch (column->value)
	{
		case SCHEMA_TIMESTAMP:
		case SCHEMA_TIMESTAMPTZ:
		case SCHEMA_DATE:
			has_time = true;
			break;
		case SCHEMA_TIME:
		case SCHEMA_UUID:
		case SCHEMA_JSON:
		case SCHEMA_JSON_ARRAY:
		case SCHEMA_RAW_ARRAY:
		case SCHEMA_BLOB:
			break;
		default:
			return;
	}
	check_add(check, SYNC_ERROR_TYPE, check_place(check, operand),
			  has_time ? check_hint(check, "Use unixepoch(%s).", check_quoted(check, column->name)) : NULL,
			  "column \"%.*s\" (%s) is not a number in the rules: arithmetic takes the digits it "
			  "begins with", NAMED(column->name), column->type);
}

static void
check_case(Check *check, const Expr *expr)
{
	if (!(expr->op & EXPR_CASE_OPERAND))
		return;
	for (int i = 1; i + 1 < expr->arg_count; i += 2)
		check_comparison(check, VALUE_EQ, expr->args[0], expr->args[i]);
}

void
check_expr(Check *check, const Expr *expr)
{
	switch (expr->kind)
	{
		case EXPR_COMPARE:
			check_comparison(check, (ValueComparison) expr->op, expr->args[0], expr->args[1]);
			break;
		case EXPR_IS:
			check_is(check, expr->args[0], expr->args[1]);
			break;
		case EXPR_BETWEEN:
			check_comparison(check, VALUE_GE, expr->args[0], expr->args[1]);
			check_comparison(check, VALUE_LE, expr->args[0], expr->args[2]);
			break;
		case EXPR_SCALAR_IN:
			for (int i = 1; i < expr->arg_count; i++)
				check_comparison(check, VALUE_EQ, expr->args[0], expr->args[i]);
			break;
		case EXPR_IN_JSON:
		case EXPR_OVERLAP_JSON:
			check_list(check, expr->args[0], expr->args[1]);
			break;
		case EXPR_JSON_GET:
			check_document(check, expr->args[0]);
			break;
		case EXPR_ARITHMETIC:
			check_arithmetic(check, expr->args[0]);
			check_arithmetic(check, expr->args[1]);
			break;
		case EXPR_CASE:
			check_case(check, expr);
			break;
		default:
			break;
	}
	for (int i = 0; i < expr->arg_count; i++)
		check_expr(check, expr->args[i]);
}
