/*-------------------------------------------------------------------------
 *
 * stream_expr.c
 *	  Expressions of edition-3 streams: from SQL to the stored form
 *	  (sync-rules.md, 5, 6, 7.2).
 *
 * What a condition means for the query (=, IN, && and AND, OR, NOT around them
 * in a WHERE) is stream_where.c; here they are operators like others.
 *
 * Invariant: what is returned can be evaluated, and is not higher than
 * STORED_EXPR_MAX_HEIGHT; everything else is reported here, and NULL.
 *
 *-------------------------------------------------------------------------
 */
#include <math.h>
#include <string.h>

#include "stream_compile.h"
#include "text.h"

/* ---------------------------------------------------------------- makers */

static bool
too_large(const StreamText *text, uint32_t offset)
{
	text->compiler->exhausted = true;
	stream_fail(text, SYNC_ERROR_LIMIT, offset, "the streams are too large");
	return false;
}

bool
stream_charge(const StreamText *text, uint32_t offset, int nodes)
{
	StreamCompiler *compiler = text->compiler;

	if (compiler->exhausted)
		return false;
	/* neither can be more than the limit, so that the sum does not overflow */
	compiler->node_count += nodes;
	return compiler->node_count <= STREAM_MAX_NODES || too_large(text, offset);
}

static StoredExpr *
make_node(const StreamText *text, uint32_t offset, StoredExprKind kind, SyncString name,
		  int arg_count)
{
	StreamCompiler *compiler = text->compiler;
	StoredExpr *expr;

	if (!stream_charge(text, offset, 1))
		return NULL;
	expr = arena_new(compiler->arena, StoredExpr);
	expr->kind = kind;
	expr->text = name;
	expr->height = 1;
	expr->size = 1;
	expr->arg_count = arg_count;
	if (arg_count > 0)
		expr->args = arena_array(compiler->arena, const StoredExpr *, (size_t) arg_count);
	return expr;
}

/* how many levels of JSON lie between an expression and its operands */
static int
levels_of(StoredExprKind kind)
{
	switch (kind)
	{
		case STORED_FUNCTION:
		case STORED_SCALAR_IN:
			return 2;
		case STORED_CASE:
			return 3;
		default:
			return 1;
	}
}

const StoredExpr *
stream_make(const StreamText *text, uint32_t offset, StoredExprKind kind, SyncString name,
			int arg_count, const StoredExpr *const *args)
{
	StoredExpr *expr;

	for (int i = 0; i < arg_count; i++)
	{
		if (args[i] == NULL)
			return NULL;
	}
	expr = make_node(text, offset, kind, name, arg_count);
	if (expr == NULL)
		return NULL;
	for (int i = 0; i < arg_count; i++)
	{
		expr->args[i] = args[i];
		if (args[i]->height + levels_of(kind) > expr->height)
			expr->height = args[i]->height + levels_of(kind);
		expr->size += args[i]->size;
		if (expr->size > STREAM_MAX_NODES)
		{
			too_large(text, offset);
			return NULL;
		}
	}
	if (expr->height > STORED_EXPR_MAX_HEIGHT)
	{
		stream_fail(text, SYNC_ERROR_LIMIT, offset,
					"the expression nests more than %d levels deep: MongoDB would not store it",
					STORED_EXPR_MAX_HEIGHT);
		stream_hint(text, "Conditions joined by AND or OR nest too.  Use IN (...) for many values, or several queries.");
		return NULL;
	}
	return expr;
}

const StoredExpr *
stream_make_input(const StreamText *text, uint32_t offset, StoredExprKind kind, SyncString name,
				  StoredRelation *relation)
{
	StoredExpr *expr = make_node(text, offset, kind, name, 0);

	if (expr != NULL)
		expr->relation = relation;
	return expr;
}

static const StoredExpr *
make_integer(const StreamText *text, uint32_t offset, const char *digits)
{
	return stream_make(text, offset, STORED_INTEGER,
					   (SyncString) {digits, (uint32_t) strlen(digits)}, 0, NULL);
}

const StoredExpr *
stream_make_binary(const StreamText *text, uint32_t offset, const char *op,
				   const StoredExpr *left, const StoredExpr *right)
{
	const StoredExpr *args[] = {left, right};

	return stream_make(text, offset, STORED_BINARY, (SyncString) {op, (uint32_t) strlen(op)},
					   2, args);
}

const StoredExpr *
stream_make_not(const StreamText *text, uint32_t offset, const StoredExpr *operand)
{
	return stream_make(text, offset, STORED_UNARY, sync_string_literal("not"), 1, &operand);
}

static const StoredExpr *
make_function(const StreamText *text, uint32_t offset, SyncString name, const StoredExpr *first,
			  const StoredExpr *second)
{
	const StoredExpr *args[] = {first, second};

	return stream_make(text, offset, STORED_FUNCTION, name, 2, args);
}

/* ---------------------------------------------------------------- inputs */

bool
stream_belong_together(const StoredRelation *a, const StoredRelation *b)
{
	return a == b || a->owner == b || b->owner == a;
}

void
stream_add_inputs(StreamInputs *inputs, const StoredExpr *expr)
{
	StoredRelation *relation = expr->relation;

	if (expr->kind == STORED_REQUEST)
		inputs->request = true;
	if (relation != NULL)
	{
		if (inputs->first == NULL)
			inputs->first = relation;
		inputs->several |= relation != inputs->first;
		inputs->mixed |= inputs->last != NULL && !stream_belong_together(inputs->last, relation);
		inputs->function |= relation->kind == RELATION_JSON_EACH;
		inputs->last = relation;
	}
	for (int i = 0; i < expr->arg_count; i++)
		stream_add_inputs(inputs, expr->args[i]);
}

/* ---------------------------------------------------------------- calls */

static const char *
request_of_schema(const SqlName *schema)
{
	static const char *const requests[] = {"auth", "subscription", "connection"};

	for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++)
	{
		if (schema->len == strlen(requests[i]) &&
			memcmp(schema->text, requests[i], schema->len) == 0)
			return requests[i];
	}
	return NULL;
}

/* functions have no case, not even in quotes */
static bool
call_is(const SqlExpr *call, const char *name)
{
	return text_equal_but_for_case(sql_name_string(&call->call.name),
								   (SyncString) {name, (uint32_t) strlen(name)});
}

/* auth.user_id() and the like; the service does not look at arguments that are too many */
static const StoredExpr *
request_call(const StreamScope *scope, const SqlExpr *call, const char *request)
{
	const StreamText *text = scope->text;
	SyncString	json_text = sync_string_literal("->>");
	const StoredExpr *value = stream_make(text, call->offset, STORED_REQUEST,
										  (SyncString) {request, (uint32_t) strlen(request)},
										  0, NULL);

	if (call_is(call, "parameters"))
		return value;
	if (call_is(call, "user_id") && strcmp(request, "auth") == 0)
		return make_function(text, call->offset, json_text, value,
							 stream_make(text, call->offset, STORED_STRING,
										 sync_string_literal("$.sub"), 0, NULL));
	if (!call_is(call, "parameter"))
	{
		stream_fail(text, SYNC_ERROR_CONFIG, call->offset, "unknown function \"%s.%.*s\"",
					request, SHOWN(sql_name_string(&call->call.name)));
		stream_hint(text, strcmp(request, "auth") == 0 ?
					"There are auth.user_id(), auth.parameters() and auth.parameter(name)." :
					"There are %s.parameters() and %s.parameter(name).", request, request);
		return NULL;
	}
	if (call->call.arg_count != 1)
	{
		stream_fail(text, SYNC_ERROR_CONFIG, call->offset, "%s.parameter() takes one argument",
					request);
		return NULL;
	}
	return make_function(text, call->offset, json_text, value,
						 stream_expr(scope, call->call.args[0]));
}

/* x.schema(), x.table_name(), x.table_suffix(): sync-rules.md, 6.1 */
static const StoredExpr *
metadata_call(const StreamScope *scope, const SqlExpr *call, const StreamName *source)
{
	const StreamText *text = scope->text;

	if (source->relation == NULL || source->relation->kind != RELATION_TABLE ||
		(!call_is(call, "schema") && !call_is(call, "table_name") &&
		 !call_is(call, "table_suffix")))
	{
		stream_fail(text, SYNC_ERROR_CONFIG, call->offset, "unknown function \"%.*s.%.*s\"",
					SHOWN(sql_name_string(&call->call.schema)),
					SHOWN(sql_name_string(&call->call.name)));
		stream_hint(text, "A table has schema(), table_name() and table_suffix().");
		return NULL;
	}
	if (call->call.arg_count > 0)
	{
		stream_fail(text, SYNC_ERROR_CONFIG, call->offset, "%.*s() takes no argument",
					SHOWN(sql_name_string(&call->call.name)));
		return NULL;
	}
	if (call_is(call, "table_suffix") && !pattern_is_wildcard(source->relation->name))
		stream_warn(text, call->offset, "table_suffix() is always empty: \"%.*s\" has no wildcard",
					SHOWN(source->relation->name));
	text->compiler->plan->uses_metadata = true;
	return stream_make_input(text, call->offset, STORED_METADATA,
							 text_ascii_lower(sql_name_string(&call->call.name),
											  text->compiler->arena),
							 source->relation);
}

static bool
arguments_fit(const StreamScope *scope, const SqlExpr *call, const FunctionInfo *function)
{
	int			count = call->call.arg_count;

	if (count >= function->min_args && (function->max_args < 0 || count <= function->max_args))
		return true;
	if (function->max_args == function->min_args)
		stream_fail(scope->text, SYNC_ERROR_CONFIG, call->offset, "%s() takes %d argument%s, not %d",
					function->name, function->min_args, function->min_args == 1 ? "" : "s", count);
	else if (function->max_args < 0)
		stream_fail(scope->text, SYNC_ERROR_CONFIG, call->offset,
					"%s() takes at least %d argument%s, not %d", function->name,
					function->min_args, function->min_args == 1 ? "" : "s", count);
	else
		stream_fail(scope->text, SYNC_ERROR_CONFIG, call->offset,
					"%s() takes %d to %d arguments, not %d", function->name,
					function->min_args, function->max_args, count);
	return false;
}

/* arguments, all of them looked at; NULL when one is wrong */
static const StoredExpr *
make_call(const StreamScope *scope, const SqlExpr *expr, StoredExprKind kind, SyncString name,
		  const SqlExpr *first, SqlExpr *const *items, int count)
{
	SyncArena  *arena = scope->text->compiler->arena;
	int			before = first != NULL ? 1 : 0;
	const StoredExpr **args = arena_array(arena, const StoredExpr *, (size_t) (count + before));

	if (first != NULL)
		args[0] = stream_expr(scope, first);
	for (int i = 0; i < count; i++)
		args[before + i] = stream_expr(scope, items[i]);
	return stream_make(scope->text, expr->offset, kind, name, count + before, args);
}

static const StoredExpr *
function_call(const StreamScope *scope, const SqlExpr *call)
{
	SyncString	name = text_ascii_lower(sql_name_string(&call->call.name),
										scope->text->compiler->arena);
	const FunctionInfo *function = function_find(name);
	const char *nearest;

	if (function == NULL || function->until_edition_2)
	{
		stream_fail(scope->text, SYNC_ERROR_CONFIG, call->offset, "unknown function \"%.*s\"",
					SHOWN(name));
		nearest = function_suggest(name);
		if (nearest != NULL && function == NULL)
			stream_hint(scope->text, "Did you mean \"%s\"?", nearest);
		return NULL;
	}
	if (!arguments_fit(scope, call, function))
		return NULL;
	return make_call(scope, call, STORED_FUNCTION, name, NULL, call->call.args,
					 call->call.arg_count);
}

static const StoredExpr *
any_call(const StreamScope *scope, const SqlExpr *call)
{
	const StreamName *source;
	const char *request;

	if (call->call.extras != 0)
	{
		stream_fail(scope->text, SYNC_ERROR_CONFIG, call->offset,
					"DISTINCT, ORDER BY, FILTER and OVER are not supported in a function call");
		return NULL;
	}
	if (!sql_name_is_set(&call->call.schema))
		return function_call(scope, call);
	request = request_of_schema(&call->call.schema);
	if (request != NULL)
		return request_call(scope, call, request);
	source = stream_find_name(scope, &call->call.schema);
	if (source != NULL)
		return metadata_call(scope, call, source);
	stream_fail(scope->text, SYNC_ERROR_CONFIG, call->offset, "unknown function \"%.*s.%.*s\"",
				SHOWN(sql_name_string(&call->call.schema)),
				SHOWN(sql_name_string(&call->call.name)));
	stream_hint(scope->text, "Values of the request are in auth, subscription and connection.");
	return NULL;
}

/* ---------------------------------------------------------------- operators */

static const StoredExpr *
unsupported(const StreamScope *scope, const SqlExpr *expr, const char *what)
{
	stream_fail(scope->text, SYNC_ERROR_CONFIG, expr->offset, "%s is not supported", what);
	return NULL;
}

static const StoredExpr *
unary(const StreamScope *scope, const SqlExpr *expr)
{
	const StreamText *text = scope->text;
	const StoredExpr *operand;
	const StoredExpr *right;

	if (expr->op == SQL_OP_MINUS)
	{
		stream_fail(text, SYNC_ERROR_CONFIG, expr->offset,
					"the operator - cannot be used without a left operand");
		return NULL;
	}
	operand = stream_expr(scope, expr->unary.operand);
	switch (expr->op)
	{
		case SQL_OP_NOT:
			return stream_make_not(text, expr->offset, operand);
		case SQL_OP_PLUS:
			return stream_make(text, expr->offset, STORED_UNARY, sync_string_literal("+"), 1,
							   &operand);
		case SQL_OP_IS_NULL:
		case SQL_OP_IS_NOT_NULL:
			right = stream_make(text, expr->offset, STORED_NULL, (SyncString) {NULL, 0}, 0, NULL);
			break;
		case SQL_OP_IS_TRUE:
		case SQL_OP_IS_NOT_TRUE:
			right = make_integer(text, expr->offset, "1");
			break;
		case SQL_OP_IS_FALSE:
		case SQL_OP_IS_NOT_FALSE:
			right = make_integer(text, expr->offset, "0");
			break;
		default:
			return unsupported(scope, expr, sql_operator_name(expr->op));
	}
	operand = stream_make_binary(text, expr->offset, "is", operand, right);
	if (expr->op == SQL_OP_IS_NOT_NULL || expr->op == SQL_OP_IS_NOT_TRUE ||
		expr->op == SQL_OP_IS_NOT_FALSE)
		operand = stream_make_not(text, expr->offset, operand);
	return operand;
}

bool
stream_list_items(const SqlExpr *expr, SqlExpr ***items, int *count)
{
	if (expr->kind == SQL_ARRAY)
	{
		*items = expr->list.items;
		*count = expr->list.count;
		return true;
	}
	if (expr->kind == SQL_CALL && call_is(expr, "row") && expr->call.extras == 0 &&
		!sql_name_is_set(&expr->call.schema))
	{
		*items = expr->call.args;
		*count = expr->call.arg_count;
		return true;
	}
	return false;
}

/*
 * IN of a JSON array compares with the elements: for each of them the expression
 * around it has a value.  Where it is a condition of its own, see stream_where.c.
 */
static const StoredExpr *
in_operator(const StreamScope *scope, const SqlExpr *expr)
{
	const StreamText *text = scope->text;
	const SqlExpr *right = expr->binary.right;
	const StoredExpr *found;
	SqlExpr   **items;
	int			count;

	if (stream_list_items(right, &items, &count))
		found = make_call(scope, expr, STORED_SCALAR_IN, (SyncString) {NULL, 0},
						  expr->binary.left, items, count);
	else if (right->kind == SQL_SUBQUERY ||
			 (right->kind == SQL_COLUMN && !sql_name_is_set(&right->column.qualifier) &&
			  stream_find_cte(scope, &right->column.name) != NULL))
		return unsupported(scope, right, "a subquery outside of WHERE conditions");
	else if (right->kind == SQL_LIST)
	{
		stream_fail(text, SYNC_ERROR_CONFIG, right->offset, "a list in parentheses is not supported");
		stream_hint(text, "Write ARRAY[...].");
		return NULL;
	}
	else if (expr->op == SQL_OP_IN)
	{
		const StoredExpr *left = stream_expr(scope, expr->binary.left);
		StoredRelation *elements = stream_json_each(scope, stream_expr(scope, right),
													right->offset);

		found = elements == NULL || left == NULL ? NULL :
			stream_make_binary(text, expr->offset, "=", left,
							   stream_value_column(text, right->offset, elements));
	}
	else
		found = make_call(scope, expr, STORED_FUNCTION, sync_string_literal("ps_json_contains"),
						  expr->binary.left, (SqlExpr *const *) &right, 1);
	return expr->op == SQL_OP_NOT_IN ? stream_make_not(text, expr->offset, found) : found;
}

static const char *
stored_operator(SqlOperator op)
{
	switch (op)
	{
		case SQL_OP_OR:
			return "or";
		case SQL_OP_AND:
			return "and";
		case SQL_OP_EQ:
		case SQL_OP_NE:
			return "=";
		case SQL_OP_LT:
			return "<";
		case SQL_OP_LE:
			return "<=";
		case SQL_OP_GT:
			return ">";
		case SQL_OP_GE:
			return ">=";
		case SQL_OP_SHIFT_LEFT:
			return "<<";
		case SQL_OP_SHIFT_RIGHT:
			return ">>";
		case SQL_OP_BIT_OR:
			return "|";
		case SQL_OP_BIT_AND:
			return "&";
		case SQL_OP_ADD:
			return "+";
		case SQL_OP_SUBTRACT:
			return "-";
		case SQL_OP_CONCAT:
			return "||";
		case SQL_OP_MULTIPLY:
			return "*";
		case SQL_OP_DIVIDE:
			return "/";
		case SQL_OP_MODULO:
			return "%";
		default:
			return NULL;
	}
}

static const StoredExpr *
binary(const StreamScope *scope, const SqlExpr *expr)
{
	const char *op = stored_operator(expr->op);
	const StoredExpr *left;
	const StoredExpr *right;
	const StoredExpr *result;

	if (expr->binary.op_schema.len > 0)
		return unsupported(scope, expr, "OPERATOR()");
	if (expr->op == SQL_OP_IN || expr->op == SQL_OP_NOT_IN)
		return in_operator(scope, expr);
	if (expr->op == SQL_OP_OVERLAP)
		return unsupported(scope, expr, "&& outside of WHERE conditions");
	if (op == NULL)
	{
		stream_fail(scope->text, SYNC_ERROR_CONFIG, expr->offset, "the operator %s is not supported",
					sql_operator_name(expr->op));
		return NULL;
	}
	left = stream_expr(scope, expr->binary.left);
	right = stream_expr(scope, expr->binary.right);
	result = stream_make_binary(scope->text, expr->offset, op, left, right);
	return expr->op == SQL_OP_NE ? stream_make_not(scope->text, expr->offset, result) : result;
}

static const StoredExpr *
between(const StreamScope *scope, const SqlExpr *expr)
{
	const StoredExpr *args[3];
	const StoredExpr *result;

	args[0] = stream_expr(scope, expr->between.operand);
	args[1] = stream_expr(scope, expr->between.low);
	args[2] = stream_expr(scope, expr->between.high);
	result = stream_make(scope->text, expr->offset, STORED_BETWEEN, (SyncString) {NULL, 0}, 3, args);
	return expr->op == SQL_OP_NOT_BETWEEN ?
		stream_make_not(scope->text, expr->offset, result) : result;
}

static const StoredExpr *
cast(const StreamScope *scope, const SqlExpr *expr)
{
	static const char *const targets[] = {"text", "numeric", "integer", "real", "blob"};
	const SqlTypeName *type = expr->cast.type;
	SyncString	name = sql_name_string(&type->name);
	const StoredExpr *operand;

	for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++)
	{
		if (name.len != strlen(targets[i]) || memcmp(name.data, targets[i], name.len) != 0 ||
			type->array_levels > 0 || sql_name_is_set(&type->schema))
			continue;
		operand = stream_expr(scope, expr->cast.operand);
		return stream_make(scope->text, expr->offset, STORED_CAST, name, 1, &operand);
	}
	stream_fail(scope->text, SYNC_ERROR_CONFIG, expr->offset, "a cast to \"%.*s%s\" is not supported",
				SHOWN(name), type->array_levels > 0 ? "[]" : "");
	stream_hint(scope->text, "Casts are possible to text, numeric, integer, real and blob.");
	return NULL;
}

static const StoredExpr *
case_when(const StreamScope *scope, const SqlExpr *expr)
{
	int			capacity = 2 * expr->cases.arm_count + 2;
	const StoredExpr **args = arena_array(scope->text->compiler->arena, const StoredExpr *,
										  (size_t) capacity);
	const StoredExpr *result;
	int			count = 0;

	if (expr->cases.operand != NULL)
		args[count++] = stream_expr(scope, expr->cases.operand);
	for (int i = 0; i < expr->cases.arm_count; i++)
	{
		args[count++] = stream_expr(scope, expr->cases.arms[i].when);
		args[count++] = stream_expr(scope, expr->cases.arms[i].then);
	}
	if (expr->cases.otherwise != NULL)
		args[count++] = stream_expr(scope, expr->cases.otherwise);
	result = stream_make(scope->text, expr->offset, STORED_CASE, (SyncString) {NULL, 0}, count, args);
	if (result != NULL)
	{
		((StoredExpr *) result)->has_operand = expr->cases.operand != NULL;
		((StoredExpr *) result)->has_else = expr->cases.otherwise != NULL;
	}
	return result;
}

static const StoredExpr *
member(const StreamScope *scope, const SqlExpr *expr)
{
	const StoredExpr *operand = stream_expr(scope, expr->member.operand);
	const StoredExpr *key = stream_expr(scope, expr->member.key);

	return make_function(scope->text, expr->offset, expr->op == SQL_OP_JSON ?
						 sync_string_literal("->") : sync_string_literal("->>"), operand, key);
}

static const StoredExpr *
real(const StreamScope *scope, const SqlExpr *expr)
{
	const StoredExpr *result;

	if (!isfinite(expr->real))
	{
		stream_fail(scope->text, SYNC_ERROR_LIMIT, expr->offset, "the number is too large");
		return NULL;
	}
	result = stream_make(scope->text, expr->offset, STORED_DOUBLE, (SyncString) {NULL, 0}, 0, NULL);
	if (result != NULL)
		((StoredExpr *) result)->number = expr->real;
	return result;
}

/*
 * The service stores it as a call of substr(), which it does not have: such a
 * config deploys there and then cannot be loaded (sync-rules.md, 5.6).
 */
static const StoredExpr *
substring_from(const StreamScope *scope, const SqlExpr *expr)
{
	stream_fail(scope->text, SYNC_ERROR_UNSUPPORTED, expr->offset,
				"substring() with FROM is not supported");
	stream_hint(scope->text, "Write substring(text, start, length).");
	return NULL;
}

/* what no stream can use, by its name */
static const StoredExpr *
useless(const StreamScope *scope, const SqlExpr *expr)
{
	switch (expr->kind)
	{
		case SQL_STAR:
			return unsupported(scope, expr, "* inside an expression");
		case SQL_LIST:
			return unsupported(scope, expr, "a list in parentheses");
		case SQL_ARRAY:
			return unsupported(scope, expr, "ARRAY[...] that does not follow IN");
		case SQL_SUBSCRIPT:
			return unsupported(scope, expr, "a subscript");
		case SQL_SUBQUERY:
		case SQL_ARRAY_SUBQUERY:
			unsupported(scope, expr, "a subquery here");
			stream_hint(scope->text, "Subqueries can stand in FROM, and in WHERE behind IN.");
			return NULL;
		case SQL_KEYWORD:
		case SQL_PARAMETER:
			stream_fail(scope->text, SYNC_ERROR_CONFIG, expr->offset, "%.*s is not supported",
						SHOWN(expr->word));
			stream_hint(scope->text, "Values of the request are in auth, subscription and connection.");
			return NULL;
		default:
			return unsupported(scope, expr, "this expression");
	}
}

const StoredExpr *
stream_expr(const StreamScope *scope, const SqlExpr *expr)
{
	const StreamText *text = scope->text;

	switch (expr->kind)
	{
		case SQL_NULL:
			return stream_make(text, expr->offset, STORED_NULL, (SyncString) {NULL, 0}, 0, NULL);
		case SQL_BOOLEAN:
			return make_integer(text, expr->offset, expr->boolean ? "1" : "0");
		case SQL_INTEGER:
			return stream_make(text, expr->offset, STORED_INTEGER,
							   sql_text(text->script, expr->offset, expr->end), 0, NULL);
		case SQL_REAL:
			return real(scope, expr);
		case SQL_STRING:
			return stream_make(text, expr->offset, STORED_STRING, expr->string, 0, NULL);
		case SQL_COLUMN:
			return stream_column(scope, expr);
		case SQL_CALL:
			return any_call(scope, expr);
		case SQL_UNARY:
			return unary(scope, expr);
		case SQL_BINARY:
			return binary(scope, expr);
		case SQL_BETWEEN:
			return between(scope, expr);
		case SQL_MEMBER:
			return member(scope, expr);
		case SQL_CAST:
			return cast(scope, expr);
		case SQL_CASE:
			return case_when(scope, expr);
		case SQL_SUBSTRING:
			return substring_from(scope, expr);
		default:
			return useless(scope, expr);
	}
}
