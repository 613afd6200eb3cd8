/*-------------------------------------------------------------------------
 *
 * compile_clause.c
 *	  Compiles the expressions of legacy queries and alpha streams: which of
 *	  them are known now, depend on the row, on the request, or tie one to the
 *	  other (sync-rules.md, 3.3, 3.5 and 4).
 *
 * For replication a parameter's value does not matter, only which one it is:
 * so a parameter clause is no expression but an identity, and equal identities
 * share one key of the query.
 *
 * Invariant: an expression that could not be compiled was reported, once, and
 * is a CLAUSE_ERROR all the way up.
 *
 *-------------------------------------------------------------------------
 */
#include <openssl/sha.h>
#include <string.h>

#include "compile.h"
#include "json.h"
#include "number.h"

/* longer identities are replaced by their hash, as they would grow with each level */
#define IDENTITY_MAX	256

static const Clause clause_error = {.kind = CLAUSE_ERROR};

/* ---------------------------------------------------------------- identities */

static SyncString
identity_finish(SyncBuffer *buffer)
{
	static const char digits[] = "0123456789abcdef";
	unsigned char hash[SHA256_DIGEST_LENGTH];
	char	   *text;

	if (buffer->len <= IDENTITY_MAX)
		return buffer_string(buffer);
	SHA256((const unsigned char *) buffer->data, buffer->len, hash);
	text = arena_alloc(buffer->arena, 2 * sizeof(hash));
	for (size_t i = 0; i < sizeof(hash); i++)
	{
		text[2 * i] = digits[hash[i] >> 4];
		text[2 * i + 1] = digits[hash[i] & 15];
	}
	return (SyncString) {text, 2 * sizeof(hash)};
}

static SyncString
identity_of_value(QueryCompiler *query, SyncValue value)
{
	SyncBuffer	buffer;

	buffer_init(&buffer, query->compiler->scratch, 32);
	if (value.type == SYNC_BLOB)
	{
		buffer_append(&buffer, "x'", 2);
		buffer_append(&buffer, value.data, value.len);
	}
	else
		json_append_value(&buffer, value);
	return identity_finish(&buffer);
}

/* name(identity,identity) */
static SyncString
identity_of_call(QueryCompiler *query, const char *name, const Clause *args, int count)
{
	SyncBuffer	buffer;

	buffer_init(&buffer, query->compiler->scratch, 64);
	buffer_append(&buffer, name, strlen(name));
	buffer_append_char(&buffer, '(');
	for (int i = 0; i < count; i++)
	{
		if (i > 0)
			buffer_append_char(&buffer, ',');
		buffer_append(&buffer, args[i].identity.data, args[i].identity.len);
	}
	buffer_append_char(&buffer, ')');
	return identity_finish(&buffer);
}

static SyncString
identity_of_column(QueryCompiler *query, SyncString table, SyncString column)
{
	SyncBuffer	buffer;

	buffer_init(&buffer, query->compiler->scratch, table.len + column.len + 1);
	buffer_append(&buffer, table.data, table.len);
	buffer_append_char(&buffer, '.');
	buffer_append(&buffer, column.data, column.len);
	return identity_finish(&buffer);
}

/* the number of a key of the query; new ones are added */
static int
query_key(QueryCompiler *query, const Clause *parameter, bool expands)
{
	SyncString	identity = parameter->identity;
	SyncArena  *scratch = query->compiler->scratch;

	for (int i = 0; i < query->key_count; i++)
	{
		if (query->key_expands[i] == expands && sync_string_equal(query->keys[i], identity))
			return i;
	}
	if (query->key_count == query->key_capacity)
	{
		size_t		old = (size_t) query->key_capacity;
		size_t		new = old == 0 ? 4 : old * 2;

		query->keys = arena_grow(scratch, query->keys, sizeof(SyncString) * old,
								 sizeof(SyncString) * new);
		query->key_offsets = arena_grow(scratch, query->key_offsets, sizeof(uint32_t) * old,
										sizeof(uint32_t) * new);
		query->key_expands = arena_grow(scratch, query->key_expands, sizeof(bool) * old,
										sizeof(bool) * new);
		query->key_capacity = (int) new;
	}
	query->keys[query->key_count] = identity;
	query->key_offsets[query->key_count] = parameter->offset;
	query->key_expands[query->key_count] = expands;
	return query->key_count++;
}

/* ---------------------------------------------------------------- constructors */

static Clause
clause_static(QueryCompiler *query, SyncValue value)
{
	return (Clause) {
		.kind = CLAUSE_STATIC,
		.expr = expr_constant(query->compiler->arena, value),
		.identity = identity_of_value(query, value),
	};
}

static Clause
clause_fail(QueryCompiler *query, const SqlExpr *expr, SyncErrorCode code, const char *message)
{
	compile_fail(query, code, expr->offset, "%s", message);
	return clause_error;
}

static Clause
clause_unsupported(QueryCompiler *query, const SqlExpr *expr, const char *what)
{
	static const struct
	{
		const char *what;
		const char *hint;
	}			hints[] = {
		{"a list", "Compare with = and OR, or with IN and a JSON array: '[\"a\", \"b\"]'."},
		{"BETWEEN", "Use >= and <=."},
		{"NOT BETWEEN", "Use < or >."},
		{"NOT IN", "Use NOT (value IN array)."},
		{"IS TRUE", "Use = 1."},
		{"IS FALSE", "Use = 0."},
		{"CASE", "Use iif()."},
		{"LIKE", "Use instr() or substring()."},
		{"NOT LIKE", "Use instr() or substring()."},
		{"SUBSTRING with FROM", "Use substring(text, start, length)."},
		{"a subquery", "Make it a query under \"parameters\", and compare with the bucket parameter."},
	};

	compile_fail(query, SYNC_ERROR_CONFIG, expr->offset, "%s is not supported here", what);
	for (size_t i = 0; i < sizeof(hints) / sizeof(hints[0]); i++)
	{
		if (strcmp(hints[i].what, what) == 0)
			report_hint(query->compiler->report, "%s", hints[i].hint);
	}
	return clause_error;
}

static Clause
clause_of_match(QueryCompiler *query, MatchKind kind, int key, const Expr *expr)
{
	Clause		clause = {.kind = CLAUSE_MATCH};

	clause.match = arena_new(query->compiler->arena, PlanMatch);
	clause.match->kind = kind;
	clause.match->key = key;
	clause.match->expr = expr;
	if (kind != MATCH_CONDITION)
	{
		clause.keys = arena_new(query->compiler->scratch, int);
		clause.keys[0] = key;
		clause.key_count = 1;
	}
	clause.unbounded = kind == MATCH_ELEMENTS;
	return clause;
}

Clause
clause_as_match(QueryCompiler *query, const Clause *clause)
{
	Clause		match;

	if (clause->kind == CLAUSE_ERROR || clause->kind == CLAUSE_MATCH)
		return *clause;
	if (clause_is_row(clause))
		match = clause_of_match(query, MATCH_CONDITION, 0, clause->expr);
	else
		match = clause_of_match(query, MATCH_EQUAL, query_key(query, clause, false),
								expr_constant(query->compiler->arena, value_integer(1)));
	match.uses_token = clause->uses_token;
	match.uses_request = clause->uses_request;
	return match;
}

/* ---------------------------------------------------------------- applications */

/* a constant result known now; what fails now would fail for every row */
static Clause
clause_fold(QueryCompiler *query, const SqlExpr *expr, const Expr *compiled)
{
	SyncError	error;
	SyncValue	value;
	ExprContext context = {
		.arena = query->compiler->arena,
		.error = &error,
		.fixed_json = query->compiler->config->compatibility.fixed_json_extract,
	};

	if (!expr_evaluate(compiled, &context, &value))
	{
		compile_fail(query, SYNC_ERROR_CONFIG, expr->offset, "%s", error.message);
		return clause_error;
	}
	return clause_static(query, value);
}

/*
 * An operator or function applied to clauses.  `compiled` takes the arguments'
 * expressions, which are filled in here.
 */
static Clause
clause_apply(QueryCompiler *query, const SqlExpr *expr, const char *name, Expr *compiled,
			 const Clause *args, int count)
{
	bool		row = false;
	bool		parameter = false;
	Clause		clause = {.kind = CLAUSE_ERROR};

	for (int i = 0; i < count; i++)
	{
		if (args[i].kind == CLAUSE_ERROR)
			return clause_error;
		if (args[i].kind == CLAUSE_MATCH)
			return clause_fail(query, expr, SYNC_ERROR_CONFIG, "a comparison of a row with a "
							   "parameter can stand only under AND and OR");
		row |= args[i].kind == CLAUSE_ROW;
		parameter |= args[i].kind == CLAUSE_PARAMETER;
		clause.uses_token |= args[i].uses_token;
		clause.uses_request |= args[i].uses_request;
		compiled->args[i] = args[i].expr;
	}
	if (parameter && query->kind == QUERY_DATA)
		return clause_fail(query, expr, SYNC_ERROR_CONFIG, "a bucket parameter can only be "
						   "compared with = or IN, not be part of an expression");
	if (parameter && row)
		return clause_fail(query, expr, SYNC_ERROR_CONFIG, "an expression cannot mix columns of "
						   "the table with parameters, except by = and IN");
	if (parameter)
	{
		clause.kind = CLAUSE_PARAMETER;
		clause.offset = expr->offset;
		clause.identity = identity_of_call(query, name, args, count);
		return clause;
	}
	if (!row)
		return clause_fold(query, expr, compiled);
	clause.kind = CLAUSE_ROW;
	clause.expr = compiled;
	return clause;
}

static Clause
clause_apply_operator(QueryCompiler *query, const SqlExpr *expr, const char *name, ExprKind kind,
					  int op, const Clause *args, int count)
{
	const Expr *none[2] = {NULL, NULL};

	return clause_apply(query, expr, name,
						expr_new(query->compiler->arena, kind, op, count, none), args, count);
}

/* ---------------------------------------------------------------- AND, OR, =, IN */

static bool
has_key(const Clause *clause, int key)
{
	for (int i = 0; i < clause->key_count; i++)
	{
		if (clause->keys[i] == key)
			return true;
	}
	return false;
}

static Clause
combine_matches(QueryCompiler *query, MatchKind kind, const Clause *left, const Clause *right)
{
	SyncArena  *arena = query->compiler->arena;
	Clause		clause = {.kind = CLAUSE_MATCH};

	clause.match = arena_new(arena, PlanMatch);
	clause.match->kind = kind;
	clause.match->child_count = 2;
	clause.match->children = arena_array(arena, PlanMatch *, 2);
	clause.match->children[0] = left->match;
	clause.match->children[1] = right->match;
	clause.unbounded = left->unbounded || right->unbounded;
	clause.uses_request = left->uses_request || right->uses_request;
	clause.keys = arena_array(query->compiler->scratch, int,
							  (size_t) (left->key_count + right->key_count));
	for (int i = 0; i < left->key_count; i++)
		clause.keys[clause.key_count++] = left->keys[i];
	for (int i = 0; i < right->key_count; i++)
	{
		if (!has_key(&clause, right->keys[i]))
			clause.keys[clause.key_count++] = right->keys[i];
	}
	return clause;
}

/* two constants, too, become a condition on the row: the service does not fold these */
static Clause
row_operator(QueryCompiler *query, ExprKind kind, int op, const Clause *args)
{
	const Expr *operands[] = {args[0].expr, args[1].expr};

	return (Clause) {
		.kind = CLAUSE_ROW,
		.expr = expr_new(query->compiler->arena, kind, op, 2, operands),
	};
}

Clause
clause_and_or(QueryCompiler *query, const SqlExpr *expr, bool is_and, const Clause *left,
			  const Clause *right)
{
	Clause		args[2] = {*left, *right};

	if (clause_is_row(left) && clause_is_row(right))
		return row_operator(query, is_and ? EXPR_AND : EXPR_OR, 0, args);
	return clause_apply_operator(query, expr, is_and ? "and" : "or",
								 is_and ? EXPR_AND : EXPR_OR, 0, args, 2);
}

Clause
clause_not(QueryCompiler *query, const SqlExpr *expr, const Clause *clause)
{
	return clause_apply_operator(query, expr, "operator_not", EXPR_NOT, 0, clause, 1);
}

static Clause
compile_and_or(QueryCompiler *query, const SqlExpr *expr, const Clause *args)
{
	bool		is_and = expr->op == SQL_OP_AND;
	Clause		left;
	Clause		right;
	Clause		clause;

	/* bucket parameters alone make no match, so clause_apply() refuses them */
	if ((clause_is_row(&args[0]) && clause_is_row(&args[1])) ||
		(clause_is_parameter(&args[0]) && clause_is_parameter(&args[1])))
		return clause_and_or(query, expr, is_and, &args[0], &args[1]);

	left = clause_as_match(query, &args[0]);
	right = clause_as_match(query, &args[1]);
	if (left.kind == CLAUSE_ERROR || right.kind == CLAUSE_ERROR)
		return clause_error;
	clause = combine_matches(query, is_and ? MATCH_AND : MATCH_OR, &left, &right);
	if (is_and)
	{
		clause.uses_token = left.uses_token || right.uses_token;
		if (left.unbounded && right.unbounded)
			return clause_fail(query, expr, SYNC_ERROR_CONFIG,
							   "only one side of AND can be \"parameter IN column\"");
		return clause;
	}
	clause.uses_token = left.uses_token && right.uses_token;
	if (clause.key_count != left.key_count || clause.key_count != right.key_count)
	{
		clause_fail(query, expr, SYNC_ERROR_CONFIG,
					"both sides of OR must compare the same parameters");
		report_hint(query->compiler->report, "Use two queries instead of OR.");
		return clause_error;
	}
	return clause;
}

/* row = parameter */
static Clause
match_with_parameter(QueryCompiler *query, MatchKind kind, const Clause *row,
					 const Clause *parameter)
{
	Clause		clause;

	clause = clause_of_match(query, kind, query_key(query, parameter, kind == MATCH_VALUE),
							 row->expr);
	clause.uses_token = parameter->uses_token;
	clause.uses_request = parameter->uses_request;
	return clause;
}

static Clause
compile_equal(QueryCompiler *query, const SqlExpr *expr, const Clause *args)
{
	bool		left_parameter = args[0].kind == CLAUSE_PARAMETER;
	bool		right_parameter = args[1].kind == CLAUSE_PARAMETER;

	if (args[0].kind == CLAUSE_ERROR || args[1].kind == CLAUSE_ERROR)
		return clause_error;
	if (query->kind == QUERY_DATA && left_parameter && right_parameter)
		return clause_fail(query, expr, SYNC_ERROR_CONFIG,
						   "two bucket parameters cannot be compared with one another");
	if ((args[0].kind == CLAUSE_ROW || query->kind == QUERY_DATA) && clause_is_row(&args[0]) &&
		right_parameter)
		return match_with_parameter(query, MATCH_EQUAL, &args[0], &args[1]);
	if ((args[1].kind == CLAUSE_ROW || query->kind == QUERY_DATA) && clause_is_row(&args[1]) &&
		left_parameter)
		return match_with_parameter(query, MATCH_EQUAL, &args[1], &args[0]);
	if (query->kind == QUERY_DATA && clause_is_row(&args[0]) && clause_is_row(&args[1]))
		return row_operator(query, EXPR_COMPARE, VALUE_EQ, args);
	return clause_apply_operator(query, expr, "operator=", EXPR_COMPARE, VALUE_EQ, args, 2);
}

/* only a stream's own rows are put under each value of a parameter that is a list */
static Clause
clause_list_in_subquery(QueryCompiler *query, const SqlExpr *expr)
{
	return clause_fail(query, expr, SYNC_ERROR_UNSUPPORTED,
					   "a parameter that is a list cannot be searched in a subquery");
}

static Clause
compile_in(QueryCompiler *query, const SqlExpr *expr, const Clause *args)
{
	if (args[0].kind == CLAUSE_ERROR || args[1].kind == CLAUSE_ERROR)
		return clause_error;
	if (clause_is_row(&args[0]) && clause_is_row(&args[1]))
		return clause_apply_operator(query, expr, "operatorIN", EXPR_IN_JSON, 0, args, 2);
	if (query->kind != QUERY_DATA && clause_is_parameter(&args[0]) && clause_is_parameter(&args[1]))
		return clause_apply_operator(query, expr, "operatorIN", EXPR_IN_JSON, 0, args, 2);
	if (args[0].kind == CLAUSE_PARAMETER && clause_is_row(&args[1]))
		return match_with_parameter(query, MATCH_ELEMENTS, &args[1], &args[0]);
	if (query->in_subquery && args[0].kind == CLAUSE_ROW && args[1].kind == CLAUSE_PARAMETER)
		return clause_list_in_subquery(query, expr);
	if (clause_is_row(&args[0]) && args[1].kind == CLAUSE_PARAMETER && query->kind == QUERY_LOOKUP)
		return match_with_parameter(query, MATCH_VALUE, &args[0], &args[1]);
	if (clause_is_row(&args[0]) && args[1].kind == CLAUSE_PARAMETER && query->kind == QUERY_STREAM)
		return match_with_parameter(query, MATCH_EQUAL, &args[0], &args[1]);
	if (args[0].kind == CLAUSE_MATCH || args[1].kind == CLAUSE_MATCH)
		return clause_fail(query, expr, SYNC_ERROR_CONFIG, "a comparison of a row with a "
						   "parameter can stand only under AND and OR");
	if (query->kind == QUERY_DATA)
		return clause_fail(query, expr, SYNC_ERROR_CONFIG,
						   "a bucket parameter cannot be the list that IN searches");
	return clause_fail(query, expr, SYNC_ERROR_UNSUPPORTED,
					   "a column cannot be searched in a parameter here");
}

Clause
clause_overlap(QueryCompiler *query, const SqlExpr *expr, const Clause *args)
{
	if (args[0].kind == CLAUSE_ERROR || args[1].kind == CLAUSE_ERROR)
		return clause_error;
	if ((clause_is_row(&args[0]) && clause_is_row(&args[1])) ||
		(clause_is_parameter(&args[0]) && clause_is_parameter(&args[1])))
		return clause_apply_operator(query, expr, "operator&&", EXPR_OVERLAP_JSON, 0, args, 2);
	if (args[0].kind == CLAUSE_MATCH || args[1].kind == CLAUSE_MATCH)
		return clause_fail(query, expr, SYNC_ERROR_CONFIG, "a comparison of a row with a "
						   "parameter can stand only under AND and OR");
	/* the service takes the parameter before && as one value, as it does before IN */
	if (args[0].kind == CLAUSE_PARAMETER)
		return match_with_parameter(query, MATCH_ELEMENTS, &args[1], &args[0]);
	if (query->in_subquery)
		return clause_list_in_subquery(query, expr);
	return match_with_parameter(query, MATCH_OVERLAP, &args[0], &args[1]);
}

/* ---------------------------------------------------------------- operators */

static Clause
compile_binary(QueryCompiler *query, const SqlExpr *expr)
{
	static const struct
	{
		SqlOperator sql;
		ExprKind	kind;
		int			op;
		const char *name;
	}			operators[] = {
		{SQL_OP_NE, EXPR_COMPARE, VALUE_NE, "operator!="},
		{SQL_OP_LT, EXPR_COMPARE, VALUE_LT, "operator<"},
		{SQL_OP_LE, EXPR_COMPARE, VALUE_LE, "operator<="},
		{SQL_OP_GT, EXPR_COMPARE, VALUE_GT, "operator>"},
		{SQL_OP_GE, EXPR_COMPARE, VALUE_GE, "operator>="},
		{SQL_OP_ADD, EXPR_ARITHMETIC, '+', "operator+"},
		{SQL_OP_SUBTRACT, EXPR_ARITHMETIC, '-', "operator-"},
		{SQL_OP_MULTIPLY, EXPR_ARITHMETIC, '*', "operator*"},
		{SQL_OP_DIVIDE, EXPR_ARITHMETIC, '/', "operator/"},
		{SQL_OP_CONCAT, EXPR_CONCAT, 0, "operator||"},
	};
	Clause		args[2];

	if (expr->binary.op_schema.len > 0)
		return clause_unsupported(query, expr, "OPERATOR()");
	args[0] = compile_clause(query, expr->binary.left);
	args[1] = compile_clause(query, expr->binary.right);
	if (expr->op == SQL_OP_AND || expr->op == SQL_OP_OR)
		return compile_and_or(query, expr, args);
	if (expr->op == SQL_OP_EQ)
		return compile_equal(query, expr, args);
	if (expr->op == SQL_OP_IN)
		return compile_in(query, expr, args);
	for (size_t i = 0; i < sizeof(operators) / sizeof(operators[0]); i++)
	{
		if (operators[i].sql == expr->op)
			return clause_apply_operator(query, expr, operators[i].name, operators[i].kind,
										 operators[i].op, args, 2);
	}
	return clause_unsupported(query, expr, sql_operator_name(expr->op));
}

static Clause
compile_unary(QueryCompiler *query, const SqlExpr *expr)
{
	Clause		args[2];

	args[0] = compile_clause(query, expr->unary.operand);
	args[1] = clause_static(query, value_null());
	switch (expr->op)
	{
		case SQL_OP_NOT:
			return clause_not(query, expr, args);
		case SQL_OP_IS_NULL:
			return clause_apply_operator(query, expr, "operator_is_null", EXPR_IS, 0, args, 2);
		case SQL_OP_IS_NOT_NULL:
			args[0] = clause_apply_operator(query, expr, "operator_is_null", EXPR_IS, 0, args, 2);
			return clause_not(query, expr, args);
		default:
			return clause_unsupported(query, expr, sql_operator_name(expr->op));
	}
}

static Clause
compile_member(QueryCompiler *query, const SqlExpr *expr)
{
	bool		as_text = expr->op == SQL_OP_JSON_TEXT;
	Clause		args[2];

	if (expr->member.key->kind != SQL_STRING)
		return clause_fail(query, expr->member.key, SYNC_ERROR_CONFIG,
						   "the key of -> and ->> must be a text");
	args[0] = compile_clause(query, expr->member.operand);
	args[1] = compile_clause(query, expr->member.key);
	return clause_apply_operator(query, expr, as_text ? "operator->>" : "operator->",
								 EXPR_JSON_GET, as_text ? JSON_GET_TEXT : JSON_GET, args, 2);
}

static Clause
compile_cast(QueryCompiler *query, const SqlExpr *expr)
{
	static const struct
	{
		const char *type;
		ValueCast	cast;
		const char *name;
	}			casts[] = {
		{"text", VALUE_CAST_TEXT, "operator_cast_text"},
		{"numeric", VALUE_CAST_NUMERIC, "operator_cast_numeric"},
		{"integer", VALUE_CAST_INTEGER, "operator_cast_integer"},
		{"real", VALUE_CAST_REAL, "operator_cast_real"},
		{"blob", VALUE_CAST_BLOB, "operator_cast_blob"},
	};
	const SqlTypeName *type = expr->cast.type;
	Clause		operand = compile_clause(query, expr->cast.operand);

	for (size_t i = 0; i < sizeof(casts) / sizeof(casts[0]); i++)
	{
		if (type->array_levels == 0 && !sql_name_is_set(&type->schema) &&
			type->name.len == strlen(casts[i].type) &&
			memcmp(type->name.text, casts[i].type, type->name.len) == 0)
			return clause_apply_operator(query, expr, casts[i].name, EXPR_CAST, casts[i].cast,
										 &operand, 1);
	}
	compile_fail(query, SYNC_ERROR_CONFIG, type->name.offset, "unknown type \"%.*s\"",
				 SHOWN(sql_name_string(&type->name)));
	report_hint(query->compiler->report, "A cast can be to text, numeric, integer, real or blob.");
	return clause_error;
}

/* ---------------------------------------------------------------- calls */

static bool
name_is(const SqlName *name, const char *text)
{
	return sql_name_is_set(name) && name->len == strlen(text) &&
		memcmp(name->text, text, name->len) == 0;
}

/* the service takes nothing but literals */
static bool
check_request_arguments(QueryCompiler *query, const SqlExpr *expr, const char *name, int arg_count)
{
	if (expr->call.arg_count != arg_count)
	{
		compile_fail(query, SYNC_ERROR_CONFIG, expr->offset, "%s() takes %s", name,
					 arg_count == 0 ? "no argument" : "one argument");
		return false;
	}
	for (int i = 0; i < arg_count; i++)
	{
		switch (expr->call.args[i]->kind)
		{
			case SQL_NULL:
			case SQL_BOOLEAN:
			case SQL_INTEGER:
			case SQL_REAL:
			case SQL_STRING:
				break;
			default:
				compile_fail(query, SYNC_ERROR_CONFIG, expr->call.args[i]->offset,
							 "the argument of %s() must be a constant", name);
				return false;
		}
	}
	return true;
}

/* request.user_id() and its like */
static Clause
compile_request_call(QueryCompiler *query, const SqlExpr *expr, const Clause *args)
{
	static const struct
	{
		const char *name;
		bool		is_token;
		int			arg_count;
		const char *identity;
	}			functions[] = {
		{"user_id", true, 0, "request.user_id"},
		{"jwt", true, 0, "request.jwt"},
		{"parameters", false, 0, "request.parameters"},
		{"parameter", false, 1, "request.parameter"},
	};

	if (query->kind == QUERY_DATA)
	{
		clause_fail(query, expr, SYNC_ERROR_CONFIG,
					"values of the request are not available in data queries");
		report_hint(query->compiler->report,
					"Make it a bucket parameter by a query under \"parameters\".");
		return clause_error;
	}
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
	{
		if (!name_is(&expr->call.name, functions[i].name))
			continue;
		if (!check_request_arguments(query, expr, functions[i].identity, functions[i].arg_count))
			return clause_error;
		return (Clause) {
			.kind = CLAUSE_PARAMETER,
			.identity = identity_of_call(query, functions[i].identity, args, expr->call.arg_count),
			.offset = expr->offset,
			.uses_token = functions[i].is_token,
			.uses_request = !functions[i].is_token,
		};
	}
	compile_fail(query, SYNC_ERROR_CONFIG, expr->call.name.offset,
				 "there is no function request.%.*s()", SHOWN(sql_name_string(&expr->call.name)));
	report_hint(query->compiler->report, "There are user_id(), jwt(), parameters(), parameter().");
	return clause_error;
}

/* auth.user_id() and its like; NULL: the schema is no source of parameters */
static const char *
stream_source(const SqlName *schema)
{
	static const char *const sources[] = {"auth", "connection", "subscription"};

	for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++)
	{
		if (name_is(schema, sources[i]))
			return sources[i];
	}
	return NULL;
}

static Clause
compile_stream_call(QueryCompiler *query, const SqlExpr *expr, const char *source,
					const Clause *args)
{
	static const struct
	{
		const char *name;
		bool		auth_only;
		int			arg_count;
	}			functions[] = {
		{"user_id", true, 0},
		{"parameters", false, 0},
		{"parameter", false, 1},
	};
	bool		is_auth = strcmp(source, "auth") == 0;

	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
	{
		const char *name;

		if (!name_is(&expr->call.name, functions[i].name) || (functions[i].auth_only && !is_auth))
			continue;
		name = arena_printf(query->compiler->scratch, "%s.%s", source, functions[i].name);
		if (!check_request_arguments(query, expr, name, functions[i].arg_count))
			return clause_error;
		query->uses_subscription |= strcmp(source, "subscription") == 0;
		return (Clause) {
			.kind = CLAUSE_PARAMETER,
			.identity = identity_of_call(query, name, args, expr->call.arg_count),
		};
	}
	compile_fail(query, SYNC_ERROR_CONFIG, expr->call.name.offset,
				 "there is no function %s.%.*s()", source,
				 SHOWN(sql_name_string(&expr->call.name)));
	report_hint(query->compiler->report, "There are %sparameters() and parameter().",
				is_auth ? "user_id(), " : "");
	return clause_error;
}

static Clause
compile_function_call(QueryCompiler *query, const SqlExpr *expr, const Clause *args)
{
	SyncString	name = sql_name_string(&expr->call.name);
	const FunctionInfo *function = function_find(name);	/* not NULL: compile_call() */
	Expr	   *compiled;
	const Expr **none;

	none = arena_array(query->compiler->scratch, const Expr *, (size_t) expr->call.arg_count);
	compiled = expr_new(query->compiler->arena, EXPR_FUNCTION, 0, expr->call.arg_count, none);
	compiled->function = function;
	return clause_apply(query, expr, function->name, compiled, args, expr->call.arg_count);
}

#define AGGREGATES	"Rules look at one row at a time: there are no aggregates."

/* what people know from SQL by another name, else the nearest name */
static void
hint_for_function(QueryCompiler *query, SyncString name)
{
	static const struct
	{
		const char *name;
		const char *hint;
	}			known[] = {
		{"coalesce", "Use ifnull()."},
		{"nullif", "Use iif()."},
		{"if", "Use iif()."},
		{"substr", "Use substring()."},
		{"concat", "Use ||."},
		{"char_length", "Use length()."},
		{"strpos", "Use instr()."},
		{"to_json", "Use CAST(value AS text)."},
		{"json_each", "It can stand only in FROM of a parameter query."},
		{"now", "Rules cannot depend on the time at which a row is replicated."},
		{"count", AGGREGATES}, {"sum", AGGREGATES}, {"min", AGGREGATES}, {"max", AGGREGATES},
		{"avg", AGGREGATES}, {"array_agg", AGGREGATES}, {"json_agg", AGGREGATES},
		{"string_agg", AGGREGATES},
		{"exists", "Make it a query under \"parameters\", and compare with the bucket parameter."},
		{"user_id", "Use request.user_id()."},
	};
	const char *nearest = function_suggest(name);

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
	{
		if (name.len == strlen(known[i].name) && memcmp(name.data, known[i].name, name.len) == 0)
		{
			report_hint(query->compiler->report, "%s", known[i].hint);
			return;
		}
	}
	if (nearest != NULL)
		report_hint(query->compiler->report, "Did you mean \"%s\"?", nearest);
}

static Clause
compile_call(QueryCompiler *query, const SqlExpr *expr)
{
	bool		of_stream = query->kind == QUERY_STREAM;
	bool		of_request = !of_stream && name_is(&expr->call.schema, "request");
	const char *source = of_stream ? stream_source(&expr->call.schema) : NULL;
	Clause	   *args;

	/* DISTINCT, ORDER BY, FILTER and OVER of a call mean nothing to the service */
	if (sql_name_is_set(&expr->call.schema) && !of_request && source == NULL)
	{
		compile_fail(query, SYNC_ERROR_CONFIG, expr->call.schema.offset,
					 "there is no function %.*s.%.*s()",
					 SHOWN(sql_name_string(&expr->call.schema)),
					 SHOWN(sql_name_string(&expr->call.name)));
		if (of_stream && name_is(&expr->call.schema, "request"))
			report_hint(query->compiler->report,
						"Streams have auth, connection and subscription instead of request.");
		else if (!of_stream && (name_is(&expr->call.schema, "auth") || name_is(&expr->call.schema, "connection") ||
								name_is(&expr->call.schema, "subscription")))
			report_hint(query->compiler->report, "Bucket definitions have request.user_id(), "
						"request.jwt() and request.parameters().");
		return clause_error;
	}
	/* before the arguments, of which some mean nothing then: the * of count(*) */
	if (!of_request && source == NULL && function_find(sql_name_string(&expr->call.name)) == NULL)
	{
		compile_fail(query, SYNC_ERROR_CONFIG, expr->call.name.offset,
					 "there is no function \"%.*s\"", SHOWN(sql_name_string(&expr->call.name)));
		hint_for_function(query, sql_name_string(&expr->call.name));
		for (int i = 0; i < expr->call.arg_count; i++)
		{
			if (expr->call.args[i]->kind != SQL_STAR && expr->call.args[i]->kind != SQL_SUBQUERY)
				(void) compile_clause(query, expr->call.args[i]);
		}
		return clause_error;
	}
	args = arena_array(query->compiler->scratch, Clause, (size_t) expr->call.arg_count);
	for (int i = 0; i < expr->call.arg_count; i++)
	{
		args[i] = compile_clause(query, expr->call.args[i]);
		if (args[i].kind == CLAUSE_ERROR)
			return clause_error;
	}
	if (source != NULL)
		return compile_stream_call(query, expr, source, args);
	return of_request ? compile_request_call(query, expr, args) :
		compile_function_call(query, expr, args);
}

/* ---------------------------------------------------------------- leaves */

/* a column of a parameter table; returns whether the qualifier names one */
static bool
compile_parameter_column(QueryCompiler *query, const SqlExpr *expr, Clause *clause)
{
	const SqlName *qualifier = &expr->column.qualifier;
	bool		is_token = name_is(qualifier, "token_parameters");
	bool		is_request = name_is(qualifier, "user_parameters");

	if (query->kind == QUERY_STREAM)
		return false;
	if (query->kind == QUERY_DATA ? !name_is(qualifier, "bucket") : !is_token && !is_request)
		return false;
	*clause = (Clause) {
		.kind = CLAUSE_PARAMETER,
		.identity = identity_of_column(query, sql_name_string(qualifier),
									   sql_name_string(&expr->column.name)),
		.offset = expr->offset,
		.uses_token = is_token,
		.uses_request = is_request,
	};
	return true;
}

static Clause
compile_column(QueryCompiler *query, const SqlExpr *expr)
{
	const SqlName *qualifier = &expr->column.qualifier;
	SyncString	name = sql_name_string(&expr->column.name);
	Clause		clause;

	if (sql_name_is_set(qualifier))
		compile_check_case(query, qualifier);
	compile_check_case(query, &expr->column.name);
	if (sql_name_is_set(&expr->column.schema))
		return clause_fail(query, expr, SYNC_ERROR_CONFIG,
						   "a column can be qualified by its table only, without the schema");
	if (sql_name_is_set(qualifier) && compile_parameter_column(query, expr, &clause))
		return clause;
	if (query->table_name.len == 0 && !sql_name_is_set(qualifier))
	{
		compile_fail(query, SYNC_ERROR_CONFIG, expr->offset,
					 "the query has no table that \"%.*s\" could be a column of", SHOWN(name));
		return clause_error;
	}
	if (sql_name_is_set(qualifier) &&
		(query->table_name.len == 0 ||
		 !sync_string_equal(sql_name_string(qualifier), query->table_name)))
	{
		compile_fail(query, SYNC_ERROR_CONFIG, qualifier->offset,
					 "\"%.*s\" is not the query's table", SHOWN(sql_name_string(qualifier)));
		if (name_is(qualifier, "bucket"))
			report_hint(query->compiler->report,
						"Bucket parameters are for the queries under \"data\".");
		else if (name_is(qualifier, "token_parameters") || name_is(qualifier, "user_parameters"))
			report_hint(query->compiler->report,
						"Make it a bucket parameter by a query under \"parameters\".");
		else if (query->table_name.len > 0)
			report_hint(query->compiler->report, "Columns belong to \"%.*s\".",
						SHOWN(query->table_name));
		return clause_error;
	}
	/* json_each() has key and value; others are no error of the service, and NULL */
	if (query->kind == QUERY_EXPAND)
		return (Clause) {
			.kind = CLAUSE_PARAMETER,
			.identity = identity_of_column(query, query->table_name, name),
			.offset = expr->offset,
		};
	clause = (Clause) {
		.kind = CLAUSE_ROW,
		.expr = expr_column(query->compiler->arena, name),
	};
	compile_note_column(query->compiler, &query->table, name, clause.expr, query->node,
						expr->column.name.offset);
	return clause;
}

/* editions 1 and 2 read integer literals as doubles (sync-rules.md, 5.1) */
static Clause
compile_integer(QueryCompiler *query, const SqlExpr *expr)
{
	double		value = number_parse(expr->integer.data, expr->integer.len);

	if (value > 1.7976931348623157e308 || value < -1.7976931348623157e308)
		return clause_fail(query, expr, SYNC_ERROR_CONFIG, "the number is too large");
	return clause_static(query, integer_from_double(value, query->compiler->arena));
}

Clause
compile_clause(QueryCompiler *query, const SqlExpr *expr)
{
	switch (expr->kind)
	{
		case SQL_NULL:
			return clause_static(query, value_null());
		case SQL_BOOLEAN:
			return clause_static(query, value_boolean(expr->boolean));
		case SQL_INTEGER:
			return compile_integer(query, expr);
		case SQL_REAL:
			return clause_static(query, value_real(expr->real));
		case SQL_STRING:
			return clause_static(query, value_string(expr->string));
		case SQL_COLUMN:
			return compile_column(query, expr);
		case SQL_CALL:
			return compile_call(query, expr);
		case SQL_UNARY:
			return compile_unary(query, expr);
		case SQL_BINARY:
			return compile_binary(query, expr);
		case SQL_MEMBER:
			return compile_member(query, expr);
		case SQL_CAST:
			return compile_cast(query, expr);
		case SQL_STAR:
			return clause_fail(query, expr, SYNC_ERROR_CONFIG, "* can stand only alone as an item");
		case SQL_BETWEEN:
			return clause_unsupported(query, expr, sql_operator_name(expr->op));
		case SQL_LIST:
			return clause_unsupported(query, expr, "a list");
		case SQL_CASE:
			return clause_unsupported(query, expr, "CASE");
		case SQL_ARRAY:
		case SQL_ARRAY_SUBQUERY:
			return clause_unsupported(query, expr, "ARRAY");
		case SQL_SUBSCRIPT:
			return clause_unsupported(query, expr, "a subscript");
		case SQL_SUBQUERY:
			return clause_unsupported(query, expr, "a subquery");
		case SQL_KEYWORD:
			return clause_unsupported(query, expr, "a value of the session");
		case SQL_PARAMETER:
			return clause_unsupported(query, expr, "a numbered parameter");
		case SQL_DEFAULT:
			return clause_unsupported(query, expr, "DEFAULT");
		case SQL_EXTRACT:
			return clause_unsupported(query, expr, "EXTRACT");
		case SQL_OVERLAY:
			return clause_unsupported(query, expr, "OVERLAY");
		case SQL_SUBSTRING:
			return clause_unsupported(query, expr, "SUBSTRING with FROM");
	}
	return clause_unsupported(query, expr, "this expression");
}
