/*-------------------------------------------------------------------------
 *
 * plan_json.c
 *	  Reads the plan that the service stores for edition 3 (sync-rules.md, 7.1
 *	  and 7.2) into the plan structure that all front ends share.
 *
 * The part of the query side (streams, queriers) is not read.
 *
 * Invariant: what is not known to the letter is refused, never guessed: the
 * format may be added to, and a plan run wrongly fills buckets wrongly.
 *
 *-------------------------------------------------------------------------
 */
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "compile.h"
#include "json.h"
#include "number.h"
#include "plan.h"
#include "text.h"

#define ELEMENT_DEPTH	3		/* of the plan's sources, buckets, indexes and streams */

typedef struct PlanReader
{
	SyncArena  *arena;
	SyncArena  *scratch;		/* of the element being read */
	SyncError  *error;
	bool		failed;
	SyncString	default_schema;
	SyncPlan   *plan;
	int			expansion_count;	/* of the source being read */
} PlanReader;

/* ---------------------------------------------------------------- helpers */

static void fail(PlanReader *reader, SyncErrorCode code, const char *format,...)
			sync_printf_like(3, 4);

static void
fail(PlanReader *reader, SyncErrorCode code, const char *format,...)
{
	char		text[sizeof(reader->error->message)];
	va_list		args;

	if (reader->failed)
		return;
	reader->failed = true;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	sync_error_set(reader->error, code, "stored plan: %s", text);
}

static SyncString
as_string(const char *s)
{
	return (SyncString) {s, (uint32_t) strlen(s)};
}

/* a member that may be absent or null */
static const JsonNode *
get(const JsonNode *object, const char *key)
{
	const JsonNode *node = json_member(object, as_string(key));

	return node == NULL || node->kind == JSON_NULL ? NULL : node;
}

/* a member of one kind; NULL, reported, without it */
static const JsonNode *
need(PlanReader *reader, const JsonNode *object, const char *key, JsonKind kind)
{
	const JsonNode *node = get(object, key);

	if (node == NULL || node->kind != kind)
	{
		fail(reader, SYNC_ERROR_CONFIG, "\"%s\" is missing or not what it should be", key);
		return NULL;
	}
	return node;
}

static SyncString
need_text(PlanReader *reader, const JsonNode *object, const char *key)
{
	const JsonNode *node = need(reader, object, key, JSON_STRING);

	return node == NULL ? (SyncString) {"", 0} : (SyncString) {node->value.data, node->value.len};
}

/* a whole number from 0 to limit - 1; numbers may have come through BSON as doubles */
static int
need_index(PlanReader *reader, const JsonNode *object, const char *key, int limit)
{
	const JsonNode *node = need(reader, object, key, JSON_NUMBER);
	double		value;

	if (node == NULL)
		return 0;
	value = node->value.type == SYNC_REAL ? node->value.real : integer_to_double(node->value);
	if (!(value >= 0 && value < limit) || value != (double) (int) value)
	{
		fail(reader, SYNC_ERROR_CONFIG, "\"%s\" is out of range", key);
		return 0;
	}
	return (int) value;
}

static bool
is(SyncString s, const char *text)
{
	return sync_string_equal(s, as_string(text));
}

/* ---------------------------------------------------------------- expressions */

static const Expr *read_expr(PlanReader *reader, const JsonNode *node);

static const Expr *
read_member_expr(PlanReader *reader, const JsonNode *node, const char *key)
{
	const JsonNode *member = need(reader, node, key, JSON_OBJECT);

	return member == NULL ? NULL : read_expr(reader, member);
}

static const Expr *
read_data(PlanReader *reader, const JsonNode *node)
{
	const JsonNode *source = need(reader, node, "source", JSON_OBJECT);
	SyncString	name;
	Expr	   *expr;

	if (source == NULL)
		return NULL;
	if (get(source, "column") != NULL)
		return expr_column(reader->arena, need_text(reader, source, "column"));
	if (get(source, "function") != NULL)
	{
		int			position = need_index(reader, source, "function", reader->expansion_count);

		name = need_text(reader, source, "outputName");
		/* json_each() has no other: as a column that the row does not have */
		if (!is(name, "value") && !is(name, "key"))
			return expr_constant(reader->arena, (SyncValue) {.type = SYNC_UNDEFINED});
		expr = expr_new(reader->arena, is(name, "key") ? EXPR_EXPANDED_KEY : EXPR_EXPANDED_VALUE,
						0, 0, NULL);
		expr->position = position;
		return expr;
	}
	name = need_text(reader, source, "metadata");
	if (is(name, "schema"))
		return expr_new(reader->arena, EXPR_TABLE_SCHEMA, 0, 0, NULL);
	if (is(name, "table_name"))
		return expr_new(reader->arena, EXPR_TABLE_NAME, 0, 0, NULL);
	if (is(name, "table_suffix"))
		return expr_new(reader->arena, EXPR_TABLE_SUFFIX, 0, 0, NULL);
	fail(reader, SYNC_ERROR_UNSUPPORTED, "unknown source of a value");
	return NULL;
}

/* all of these deploy but fail on every row (sync-rules.md, 5.6) */
static const Expr *
fail_expr(PlanReader *reader, SyncString operator_name, const Expr *const *operands)
{
	const Expr *args[3];

	args[0] = expr_constant(reader->arena, value_string(
		as_string(arena_printf(reader->arena, "the operator %.*s cannot be evaluated",
							   SHOWN(operator_name)))));
	args[1] = operands[0];
	args[2] = operands[1];
	return expr_new(reader->arena, EXPR_FAIL, 0, 3, args);
}

static const Expr *
read_binary(PlanReader *reader, const JsonNode *node)
{
	static const struct
	{
		const char *name;
		ExprKind	kind;
		int			op;
	}			operators[] = {
		{"or", EXPR_OR, 0}, {"and", EXPR_AND, 0}, {"is", EXPR_IS, 0},
		{"=", EXPR_COMPARE, VALUE_EQ}, {"<", EXPR_COMPARE, VALUE_LT},
		{"<=", EXPR_COMPARE, VALUE_LE}, {">", EXPR_COMPARE, VALUE_GT},
		{">=", EXPR_COMPARE, VALUE_GE}, {"+", EXPR_ARITHMETIC, '+'},
		{"-", EXPR_ARITHMETIC, '-'}, {"*", EXPR_ARITHMETIC, '*'},
		{"/", EXPR_ARITHMETIC, '/'}, {"||", EXPR_CONCAT, 0},
		{"%", EXPR_FAIL, 0}, {"&", EXPR_FAIL, 0}, {"|", EXPR_FAIL, 0},
		{"<<", EXPR_FAIL, 0}, {">>", EXPR_FAIL, 0},
	};
	SyncString	name = need_text(reader, node, "operator");
	const Expr *args[2];

	args[0] = read_member_expr(reader, node, "left");
	args[1] = read_member_expr(reader, node, "right");
	for (size_t i = 0; i < sizeof(operators) / sizeof(operators[0]); i++)
	{
		if (!is(name, operators[i].name))
			continue;
		if (operators[i].kind == EXPR_FAIL)
			return fail_expr(reader, name, args);
		return expr_new(reader->arena, operators[i].kind, operators[i].op, 2, args);
	}
	fail(reader, SYNC_ERROR_UNSUPPORTED, "unknown operator \"%.*s\"", SHOWN(name));
	return NULL;
}

static const Expr *
read_unary(PlanReader *reader, const JsonNode *node)
{
	const Expr *operand = read_member_expr(reader, node, "operand");
	SyncString	name = need_text(reader, node, "operator");

	/* + changes nothing, not even what is no number */
	if (is(name, "+"))
		return operand;
	if (!is(name, "not"))
		fail(reader, SYNC_ERROR_UNSUPPORTED, "unknown unary operator");
	return expr_new(reader->arena, EXPR_NOT, 0, 1, &operand);
}

/* appends a list's expressions to args; returns the new number */
static int
read_exprs(PlanReader *reader, const JsonNode *array, const Expr **args, int count)
{
	for (const JsonNode *node = array->first; node != NULL; node = node->next)
		args[count++] = read_expr(reader, node);
	return count;
}

static const Expr *
read_scalar_in(PlanReader *reader, const JsonNode *node)
{
	const JsonNode *list = need(reader, node, "in", JSON_ARRAY);
	const Expr **args;

	if (list == NULL)
		return NULL;
	args = arena_array(reader->arena, const Expr *, (size_t) list->count + 1);
	args[0] = read_member_expr(reader, node, "target");
	return expr_new(reader->arena, EXPR_SCALAR_IN, 0, read_exprs(reader, list, args, 1), args);
}

static const Expr *
read_between(PlanReader *reader, const JsonNode *node)
{
	const Expr *args[3];

	args[0] = read_member_expr(reader, node, "value");
	args[1] = read_member_expr(reader, node, "low");
	args[2] = read_member_expr(reader, node, "high");
	return expr_new(reader->arena, EXPR_BETWEEN, 0, 3, args);
}

static const Expr *
read_case(PlanReader *reader, const JsonNode *node)
{
	const JsonNode *whens = need(reader, node, "whens", JSON_ARRAY);
	const Expr **args;
	int			count = 0;
	int			op = 0;

	if (whens == NULL)
		return NULL;
	args = arena_array(reader->arena, const Expr *, 2 * (size_t) whens->count + 2);
	if (get(node, "operand") != NULL)
	{
		op |= EXPR_CASE_OPERAND;
		args[count++] = read_member_expr(reader, node, "operand");
	}
	for (const JsonNode *when = whens->first; when != NULL; when = when->next)
	{
		args[count++] = read_member_expr(reader, when, "when");
		args[count++] = read_member_expr(reader, when, "then");
	}
	if (get(node, "else") != NULL)
	{
		op |= EXPR_CASE_ELSE;
		args[count++] = read_member_expr(reader, node, "else");
	}
	return expr_new(reader->arena, EXPR_CASE, op, count, args);
}

static const Expr *
read_cast(PlanReader *reader, const JsonNode *node)
{
	static const struct
	{
		const char *name;
		ValueCast	cast;
	}			casts[] = {
		{"text", VALUE_CAST_TEXT}, {"numeric", VALUE_CAST_NUMERIC},
		{"integer", VALUE_CAST_INTEGER}, {"real", VALUE_CAST_REAL}, {"blob", VALUE_CAST_BLOB},
	};
	SyncString	target = need_text(reader, node, "cast_as");
	const Expr *operand = read_member_expr(reader, node, "operand");

	for (size_t i = 0; i < sizeof(casts) / sizeof(casts[0]); i++)
	{
		if (is(target, casts[i].name))
			return expr_new(reader->arena, EXPR_CAST, casts[i].cast, 1, &operand);
	}
	fail(reader, SYNC_ERROR_UNSUPPORTED, "unknown cast to \"%.*s\"", SHOWN(target));
	return NULL;
}

static const Expr *
read_function(PlanReader *reader, const JsonNode *node)
{
	SyncString	name = need_text(reader, node, "function");
	const JsonNode *parameters = need(reader, node, "parameters", JSON_ARRAY);
	const FunctionInfo *function = function_find(name);
	const Expr **args;
	Expr	   *expr;
	int			count;

	if (parameters == NULL)
		return NULL;
	args = arena_array(reader->arena, const Expr *, parameters->count);
	count = read_exprs(reader, parameters, args, 0);
	if (count == 2 && is(name, "->"))
		return expr_new(reader->arena, EXPR_JSON_GET, JSON_GET, 2, args);
	if (count == 2 && is(name, "->>"))
		return expr_new(reader->arena, EXPR_JSON_GET, JSON_GET_TEXT, 2, args);
	if (count == 2 && is(name, "ps_json_contains"))
		return expr_new(reader->arena, EXPR_IN_JSON, 0, 2, args);
	if (function == NULL || function->until_edition_2)
	{
		fail(reader, SYNC_ERROR_UNSUPPORTED, "unknown function \"%.*s\"", SHOWN(name));
		return NULL;
	}
	expr = expr_new(reader->arena, EXPR_FUNCTION, 0, count, args);
	expr->function = function;
	return expr;
}

/* [-]digits: leading zeros are allowed (7.2) */
static bool
is_integer_text(SyncString text)
{
	uint32_t	i = text.len > 0 && text.data[0] == '-';

	if (i == text.len)
		return false;
	for (; i < text.len; i++)
	{
		if (text.data[i] < '0' || text.data[i] > '9')
			return false;
	}
	return true;
}

static const Expr *
read_literal(PlanReader *reader, const JsonNode *node, SyncString type)
{
	const JsonNode *number;
	SyncString	text;
	SyncValue	value = value_null();

	if (is(type, "lit_string"))
		value = value_string(need_text(reader, node, "value"));
	else if (is(type, "lit_int"))
	{
		text = need_text(reader, node, "base10");
		if (is_integer_text(text))
			value = integer_from_digits(text.data, text.len, reader->arena);
		else
			fail(reader, SYNC_ERROR_CONFIG, "an integer that is none");
	}
	else if (is(type, "lit_double"))
	{
		number = need(reader, node, "value", JSON_NUMBER);
		if (number != NULL)
			value = value_real(number->value.type == SYNC_REAL ? number->value.real :
							   integer_to_double(number->value));
	}
	else if (!is(type, "lit_null"))
		fail(reader, SYNC_ERROR_UNSUPPORTED, "unknown expression \"%.*s\"", SHOWN(type));
	return expr_constant(reader->arena, value);
}

/* after a failure the result is not to be used */
static const Expr *
read_expr(PlanReader *reader, const JsonNode *node)
{
	static const struct
	{
		const char *type;
		const Expr *(*read) (PlanReader *reader, const JsonNode *node);
	}			kinds[] = {
		{"data", read_data}, {"binary", read_binary}, {"unary", read_unary},
		{"between", read_between}, {"scalar_in", read_scalar_in}, {"case_when", read_case},
		{"cast", read_cast}, {"function", read_function},
	};
	SyncString	type = need_text(reader, node, "type");

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
	{
		if (is(type, kinds[i].type))
			return kinds[i].read(reader, node);
	}
	return read_literal(reader, node, type);
}

/* ---------------------------------------------------------------- sources */

/* a connection tag is dropped by the service when it prepares a plan (3.1) */
static void
read_table(PlanReader *reader, const JsonNode *node, TablePattern *table)
{
	const JsonNode *pattern = need(reader, node, "table", JSON_OBJECT);

	table->connection = sync_string_literal(SYNC_DEFAULT_CONNECTION);
	table->schema = reader->default_schema;
	if (pattern == NULL)
		return;
	table->table = need_text(reader, pattern, "table");
	if (get(pattern, "schema") != NULL)
		table->schema = need_text(reader, pattern, "schema");
}

static void
read_expansions(PlanReader *reader, const JsonNode *node, PlanSource *source)
{
	const JsonNode *array = get(node, "tableValuedFunctions");

	reader->expansion_count = 0;
	if (array == NULL)
		return;
	source->expansions = arena_array(reader->arena, const Expr *, array->count);
	for (const JsonNode *function = array->first; function != NULL; function = function->next)
	{
		const JsonNode *inputs = need(reader, function, "functionInputs", JSON_ARRAY);

		if (inputs == NULL || inputs->count != 1 ||
			!is(need_text(reader, function, "functionName"), "json_each"))
		{
			fail(reader, SYNC_ERROR_UNSUPPORTED, "unknown table-valued function");
			return;
		}
		source->expansions[source->expansion_count++] = read_expr(reader, inputs->first);
	}
	reader->expansion_count = source->expansion_count;
}

/* filters are conditions, partition keys are equalities with one key each */
static void
read_match(PlanReader *reader, const JsonNode *node, PlanSource *source)
{
	const JsonNode *filters = need(reader, node, "filters", JSON_ARRAY);
	const JsonNode *keys = need(reader, node, "partitionBy", JSON_ARRAY);
	PlanMatch  *match;

	if (filters == NULL || keys == NULL)
		return;
	source->key_count = (int) keys->count;
	match = arena_new(reader->arena, PlanMatch);
	match->kind = MATCH_AND;
	match->children = arena_array(reader->arena, PlanMatch *,
								  (size_t) filters->count + (size_t) keys->count);
	for (const JsonNode *filter = filters->first; filter != NULL; filter = filter->next)
	{
		PlanMatch  *child = arena_new(reader->arena, PlanMatch);

		child->kind = MATCH_CONDITION;
		child->expr = read_expr(reader, filter);
		match->children[match->child_count++] = child;
	}
	for (const JsonNode *key = keys->first; key != NULL; key = key->next)
	{
		PlanMatch  *child = arena_new(reader->arena, PlanMatch);

		child->kind = MATCH_EQUAL;
		child->key = match->child_count - (int) filters->count;
		child->expr = read_member_expr(reader, key, "expr");
		match->children[match->child_count++] = child;
	}
	source->match = match;
}

static void
read_source(PlanReader *reader, const JsonNode *node, PlanSource *source)
{
	source->rules = SOURCE_COMPILED;
	read_table(reader, node, &source->table);
	read_expansions(reader, node, source);
	read_match(reader, node, source);
}

static void
read_columns(PlanReader *reader, const JsonNode *node, PlanSource *source)
{
	const JsonNode *columns = need(reader, node, "columns", JSON_ARRAY);

	if (columns == NULL)
		return;
	source->items = arena_array(reader->arena, PlanItem, columns->count);
	for (const JsonNode *column = columns->first; column != NULL; column = column->next)
	{
		PlanItem   *item = &source->items[source->item_count++];

		if (column->kind == JSON_STRING)
		{
			if (!is((SyncString) {column->value.data, column->value.len}, "star"))
				fail(reader, SYNC_ERROR_UNSUPPORTED, "unknown column");
			continue;
		}
		item->expr = read_member_expr(reader, column, "expr");
		item->name = need_text(reader, column, "alias");
	}
}

/*
 * An element of the plan's lists, with its values in that arena.  They are read one
 * at a time: a tree of all of them would be much larger than what is made of it.
 */
static const JsonNode *
open_element(PlanReader *reader, const JsonNode *node, SyncArena *values)
{
	SyncError	error;
	const JsonNode *element;

	if (node->value.type != SYNC_JSON)
		return node;
	arena_reset(reader->scratch);
	element = json_parse_apart((SyncString) {node->value.data, node->value.len}, JSON_NUMBERS_EXACT,
							   values, reader->scratch, &error);
	return element != NULL ? element : node;	/* it was read before */
}

static void
read_data_sources(PlanReader *reader, const JsonNode *array)
{
	SyncPlan   *plan = reader->plan;

	plan->sources = arena_array(reader->arena, PlanSource, array->count);
	for (const JsonNode *node = array->first; node != NULL && !reader->failed; node = node->next)
	{
		PlanSource *source = &plan->sources[plan->source_count++];
		const JsonNode *element = open_element(reader, node, reader->arena);

		read_source(reader, element, source);
		read_columns(reader, element, source);
		if (get(element, "outputTableName") != NULL)
			source->output_table = need_text(reader, element, "outputTableName");
	}
}

static void
read_buckets(PlanReader *reader, const JsonNode *array)
{
	SyncPlan   *plan = reader->plan;

	plan->buckets = arena_array(reader->arena, PlanBucket, array->count);
	for (const JsonNode *node = array->first; node != NULL && !reader->failed; node = node->next)
	{
		PlanBucket *bucket = &plan->buckets[plan->bucket_count++];
		const JsonNode *element = open_element(reader, node, reader->arena);
		const JsonNode *sources = need(reader, element, "sources", JSON_ARRAY);
		const JsonNode *wrapped;

		bucket->stem = need_text(reader, element, "uniqueName");
		if (sources == NULL)
			return;
		bucket->sources = arena_array(reader->arena, int, sources->count);
		for (wrapped = sources->first; wrapped != NULL; wrapped = wrapped->next)
		{
			double		index = -1;

			if (wrapped->kind == JSON_NUMBER)
				index = wrapped->value.type == SYNC_REAL ? wrapped->value.real :
					integer_to_double(wrapped->value);
			if (!(index >= 0 && index < plan->source_count) || index != (double) (int) index)
			{
				fail(reader, SYNC_ERROR_CONFIG, "a bucket refers to a source that is not there");
				return;
			}
			bucket->sources[bucket->source_count++] = (int) index;
		}
	}
}

static void
read_outputs(PlanReader *reader, const JsonNode *node, PlanSource *source)
{
	const JsonNode *outputs = need(reader, node, "output", JSON_ARRAY);

	if (outputs == NULL)
		return;
	source->items = arena_array(reader->arena, PlanItem, outputs->count);
	for (const JsonNode *output = outputs->first; output != NULL; output = output->next)
	{
		PlanItem   *item = &source->items[source->item_count];

		item->name = as_string(arena_printf(reader->arena, "%d", source->item_count));
		item->expr = read_expr(reader, output);
		source->item_count++;
	}
}

static void
read_indexes(PlanReader *reader, const JsonNode *array)
{
	SyncPlan   *plan = reader->plan;

	plan->indexes = arena_array(reader->arena, PlanIndex, array->count);
	for (const JsonNode *node = array->first; node != NULL && !reader->failed; node = node->next)
	{
		PlanIndex  *index = &plan->indexes[plan->index_count++];
		const JsonNode *element = open_element(reader, node, reader->arena);
		const JsonNode *scope = need(reader, element, "lookupScope", JSON_OBJECT);

		read_source(reader, element, &index->source);
		read_outputs(reader, element, &index->source);
		if (scope == NULL)
			return;
		index->lookup_name = need_text(reader, scope, "lookupName");
		index->query_id = need_text(reader, scope, "queryId");
	}
}

/* ---------------------------------------------------------------- wrapper */

static void
read_flag(const JsonNode *overrides, const char *key, bool *flag)
{
	const JsonNode *node = overrides == NULL ? NULL : get(overrides, key);

	*flag = node == NULL || node->kind != JSON_FALSE;
}

static void
read_compatibility(PlanReader *reader, const JsonNode *node)
{
	SyncCompatibility *compatibility = &reader->plan->compatibility;
	const JsonNode *overrides = get(node, "overrides");
	const JsonNode *engine;

	compatibility->edition = need_index(reader, node, "edition", INT_MAX);
	if (compatibility->edition != 3)
		fail(reader, SYNC_ERROR_UNSUPPORTED, "plans exist for edition 3 only");
	read_flag(overrides, "timestamps_iso8601", &compatibility->timestamps_iso8601);
	read_flag(overrides, "versioned_bucket_ids", &compatibility->versioned_bucket_ids);
	read_flag(overrides, "fixed_json_extract", &compatibility->fixed_json_extract);
	read_flag(overrides, "custom_postgres_types", &compatibility->custom_postgres_types);
	engine = overrides == NULL ? NULL : get(overrides, "unstable_sqlite_expression_engine");
	if (engine != NULL && engine->kind != JSON_FALSE)
		fail(reader, SYNC_ERROR_UNSUPPORTED, "\"unstable_sqlite_expression_engine\" is not supported");
	compatibility->timestamp_precision = -1;
	if (get(node, "maxTimeValuePrecision") != NULL)
		compatibility->timestamp_precision = need_index(reader, node, "maxTimeValuePrecision", 10);
}

/* event queries are still SQL: only the tables they read are of interest */
static void
read_events(PlanReader *reader, Compiler *compiler, const JsonNode *events)
{
	const YamlNode nowhere = {.kind = YAML_KIND_TEXT};

	for (const JsonNode *event = events->first; event != NULL; event = event->next)
	{
		for (const JsonNode *sql = event->first; sql != NULL; sql = sql->next)
		{
			if (sql->kind == JSON_STRING)
				compile_payload(compiler, &(ConfigSql) {
					.text = {sql->value.data, sql->value.len}, .node = &nowhere});
		}
	}
	if (compiler->report->fatal_count > 0)
		fail(reader, SYNC_ERROR_CONFIG, "an event query cannot be read");
}

/* all tables, each once; those of events come last */
static void
collect_tables(PlanReader *reader, const JsonNode *events)
{
	SyncPlan   *plan = reader->plan;
	RulesReport report;
	SyncConfig	config = {.compatibility = plan->compatibility};
	Compiler	compiler = {
		.arena = reader->arena,
		.scratch = reader->scratch,
		.report = &report,
		.config = &config,
		.default_schema = reader->default_schema,
		.plan = plan,
	};
	size_t		capacity = (size_t) plan->source_count + (size_t) plan->index_count;

	for (const JsonNode *event = events == NULL ? NULL : events->first; event != NULL;
		 event = event->next)
		capacity += event->count;
	report_init(&report, reader->arena, "", 0);
	plan->tables = arena_array(reader->arena, TablePattern, capacity);
	for (int i = 0; i < plan->source_count; i++)
		compile_add_table(&compiler, &plan->sources[i].table);
	for (int i = 0; i < plan->index_count; i++)
		compile_add_table(&compiler, &plan->indexes[i].source.table);
	if (events != NULL)
		read_events(reader, &compiler, events);
}

static void
read_wrapper(PlanReader *reader, const JsonNode *root)
{
	const JsonNode *plan = need(reader, root, "plan", JSON_OBJECT);
	const JsonNode *compatibility = need(reader, root, "compatibility", JSON_OBJECT);
	const JsonNode *sources;
	const JsonNode *buckets;
	const JsonNode *indexes;
	int			version;

	if (plan == NULL || compatibility == NULL)
		return;
	read_compatibility(reader, compatibility);
	version = need_index(reader, plan, "version", INT_MAX);
	if (version < 1 || version > 2)
		fail(reader, SYNC_ERROR_UNSUPPORTED, "version %d is not supported", version);
	sources = need(reader, plan, "dataSources", JSON_ARRAY);
	buckets = need(reader, plan, "buckets", JSON_ARRAY);
	indexes = need(reader, plan, "parameterIndexes", JSON_ARRAY);
	if (sources == NULL || buckets == NULL || indexes == NULL)
		return;
	read_data_sources(reader, sources);
	read_buckets(reader, buckets);
	read_indexes(reader, indexes);
	if (!reader->failed)
		collect_tables(reader, get(root, "eventDescriptors"));
}

/* bytes of an element and its key, at most; its depth is bounded by json_parse() */
static size_t
bson_size(PlanReader *reader, const JsonNode *node, size_t key_len)
{
	size_t		size = 1 + key_len + 1;
	size_t		position = 0;
	size_t		border = 10;
	size_t		digits = 1;		/* of the position, which is an array's key */

	if (node->kind == JSON_NUMBER)
		return size + 8;
	if (node->kind == JSON_STRING)
		return size + 4 + node->value.len + 1;
	if (node->kind != JSON_ARRAY && node->kind != JSON_OBJECT)
		return size + 1;
	size += 4 + 1;
	node = open_element(reader, node, reader->scratch);
	for (const JsonNode *child = node->first; child != NULL; child = child->next)
	{
		if (position++ == border)
		{
			border *= 10;
			digits++;
		}
		size += bson_size(reader, child, node->kind == JSON_ARRAY ? digits : child->key.len);
	}
	return size;
}

SyncPlan *
plan_read_text(SyncString json, const RulesOptions *options, SyncArena *arena, SyncArena *outline,
			   SyncArena *scratch, SyncError *error)
{
	const char *schema = options->default_schema != NULL ? options->default_schema : "public";
	PlanReader	reader = {.arena = arena, .scratch = scratch, .error = error};
	const JsonNode *root;

	if (!utf8_is_valid(json.data, json.len))
	{
		fail(&reader, SYNC_ERROR_CONFIG, "it is not UTF-8");
		return NULL;
	}
	reader.default_schema = as_string(schema);
	reader.default_schema.data = arena_strndup(arena, schema, reader.default_schema.len);
	reader.plan = arena_new(arena, SyncPlan);
	root = json_parse_outline(json, JSON_NUMBERS_EXACT, ELEMENT_DEPTH, outline, scratch, error);
	if (root == NULL)
		return NULL;
	reader.plan->bson_size = bson_size(&reader, root, 0);
	read_wrapper(&reader, root);
	return reader.failed ? NULL : reader.plan;
}

const SyncPlan *
plan_read(const char *json, size_t len, const RulesOptions *options, SyncArena *arena,
		  SyncError *error)
{
	SyncArena  *volatile outline = NULL;
	SyncArena  *volatile scratch = NULL;
	const SyncPlan *volatile plan = NULL;
	ArenaGuard	guard;
	ArenaWork	outer;

	memset(error, 0, sizeof(*error));
	if (len > PLAN_MAX_BYTES)
	{
		sync_error_set(error, SYNC_ERROR_LIMIT, "stored plan: it is too large");
		return NULL;
	}
	arena_work_begin(arena, &outer, PLAN_MAX_MEMORY, options->cancel);
	arena_guard_push(arena, &guard);
	if (setjmp(guard.jump) == 0)
	{
		SyncString	text = {arena_strndup(arena, json, len), (uint32_t) len};

		outline = arena_create_child(arena);
		scratch = arena_create_child(arena);
		plan = plan_read_text(text, options, arena, outline, scratch, error);
	}
	else if (arena_cancelled(arena))
		sync_error_set(error, SYNC_ERROR_CANCELLED, "reading the stored plan was cancelled");
	else if (arena_limit_reached(arena))
		sync_error_set(error, SYNC_ERROR_LIMIT, "the stored plan takes too much memory");
	else
		sync_error_set(error, SYNC_ERROR_OUT_OF_MEMORY, "out of memory");
	arena_guard_pop(arena, &guard);
	arena_destroy(outline);
	arena_destroy(scratch);
	arena_work_end(arena, &outer);
	return plan;
}
