/*-------------------------------------------------------------------------
 *
 * compile_legacy.c
 *	  Compiles bucket definitions: data queries, parameter queries, and how
 *	  the parameters of one cover those of the other (sync-rules.md, 3.2 to
 *	  3.5); and event definitions (1.4).
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <string.h>

#include "compile.h"

/* what the queries of one bucket definition have in common */
typedef struct Definition
{
	Compiler   *compiler;
	const ConfigBucket *config;
	bool		has_parameters; /* the first parameter query could be read */
	bool		broken;			/* some parameter query could not */
	int			parameter_count;
	SyncString *parameters;		/* bucket parameters, in order */
	NameIndex	names;			/* of these */
} Definition;

/* gives the keys in a match their final places */
static void
match_place_keys(PlanMatch *match, const int *places)
{
	match->key = places[match->key];
	for (int i = 0; i < match->child_count; i++)
		match_place_keys(match->children[i], places);
}

/* ---------------------------------------------------------------- items */

static SqlExpr *
item_is_star(const SqlItem *item)
{
	return item->expr->kind == SQL_STAR ? item->expr : NULL;
}

/* an item's value for each row */
static bool
compile_row_item(QueryCompiler *query, const SqlItem *item, PlanItem *plan)
{
	Clause		clause;

	if (item_is_star(item))
	{
		plan->expr = NULL;
		return true;
	}
	clause = compile_clause(query, item->expr);
	if (clause.kind == CLAUSE_ERROR || !compile_item_name(query, item, &plan->name))
		return false;
	if (!clause_is_row(&clause))
	{
		compile_fail(query, SYNC_ERROR_CONFIG, item->expr->offset,
					 "an item can use columns of the table and constants only");
		return false;
	}
	plan->expr = clause.expr;
	return true;
}

bool
compile_row_items(QueryCompiler *query, const SqlSelect *select, PlanSource *source)
{
	bool		ok = true;

	source->items = arena_array(query->compiler->arena, PlanItem, (size_t) select->item_count);
	for (int i = 0; i < select->item_count; i++)
	{
		if (compile_row_item(query, &select->items[i], &source->items[source->item_count]))
			source->item_count++;
		else
			ok = false;
	}
	return ok;
}

void
compile_check_id(QueryCompiler *query, const SqlSelect *select, const PlanSource *source)
{
	for (int i = 0; i < source->item_count; i++)
	{
		if (source->items[i].expr == NULL ||
			sync_string_equal(source->items[i].name, sync_string_literal("id")))
			return;
	}
	compile_fail(query, SYNC_ERROR_CONFIG,
				 select->item_count > 0 ? select->items[0].expr->offset : 0,
				 "the query must select a column \"id\"");
	report_hint(query->compiler->report, "Add the key column, for example: SELECT key AS id.");
}

/* ---------------------------------------------------------------- data queries */

SyncString
compile_output_table(const SqlSource *source)
{
	SyncString	name = sql_name_string(&source->name);

	/* an alias that repeats the name is none */
	if (sql_name_is_set(&source->alias) &&
		!sync_string_equal(sql_name_string(&source->alias), name))
		return sql_name_string(&source->alias);
	return pattern_is_wildcard(name) ? (SyncString) {"", 0} : name;
}

/* the place of a key among the bucket parameters; -1: it is none of them */
static int
bucket_parameter_place(Definition *definition, SyncString key)
{
	static const char prefix[] = "bucket.";
	const uint32_t prefix_len = sizeof(prefix) - 1;

	if (key.len < prefix_len || memcmp(key.data, prefix, prefix_len) != 0)
		return -1;
	return name_index_find(&definition->names,
						   (SyncString) {key.data + prefix_len, key.len - prefix_len});
}

/* the WHERE must compare exactly the bucket's parameters (3.3) */
static void
hint_for_parameter(Definition *definition, QueryCompiler *query, SyncString key)
{
	const char *nearest = NULL;
	int			nearest_distance = 3;

	for (int i = 0; i < definition->parameter_count; i++)
	{
		const char *name = arena_printf(definition->compiler->scratch, "bucket.%.*s",
										SHOWN(definition->parameters[i]));
		int			distance = report_distance(key, name);

		if (distance >= nearest_distance && definition->parameter_count > 1)
			continue;
		nearest_distance = distance;
		nearest = name;
	}
	if (nearest != NULL)
		report_hint(query->compiler->report, nearest_distance < 3 ? "Did you mean \"%s\"?" :
					"Its only parameter is \"%s\".", nearest);
	else if (definition->parameter_count == 0)
		report_hint(query->compiler->report,
					"It has none: they come from the items of queries under \"parameters\".");
}

static bool
check_coverage(Definition *definition, QueryCompiler *query, uint32_t offset, int *places)
{
	bool		ok = true;
	int			covered = 0;

	for (int i = 0; i < query->key_count; i++)
	{
		places[i] = bucket_parameter_place(definition, query->keys[i]);
		if (places[i] >= 0)
			covered++;
		else
		{
			compile_fail(query, SYNC_ERROR_CONFIG, query->key_offsets[i],
						 "\"%.*s\" is not a parameter of the bucket", SHOWN(query->keys[i]));
			hint_for_parameter(definition, query, query->keys[i]);
			ok = false;
		}
	}
	/* a parameter that is misspelled is not also missing */
	for (int p = 0; ok && p < definition->parameter_count && covered < definition->parameter_count;
		 p++)
	{
		bool		found = false;

		for (int i = 0; i < query->key_count; i++)
			found |= places[i] == p;
		if (found)
			continue;
		compile_fail(query, SYNC_ERROR_CONFIG, offset,
					 "the query does not compare the bucket parameter \"%.*s\"",
					 SHOWN(definition->parameters[p]));
		report_hint(query->compiler->report, "Add: WHERE column = bucket.%.*s",
					SHOWN(definition->parameters[p]));
		ok = false;
	}
	return ok;
}

static void
compile_data_where(Definition *definition, QueryCompiler *query, const SqlSelect *select,
				   PlanSource *source)
{
	uint32_t	offset = select->where != NULL ? select->where->offset : 0;
	Clause		clause = {.kind = CLAUSE_STATIC};
	int		   *places;

	if (select->where != NULL)
	{
		clause = compile_clause(query, select->where);
		clause = clause_as_match(query, &clause);
		if (clause.kind == CLAUSE_ERROR)
			return;
	}
	/* without readable parameter queries nothing can be said about coverage */
	if (definition->broken)
		return;
	places = arena_array(query->compiler->scratch, int, (size_t) query->key_count + 1);
	if (!check_coverage(definition, query, offset, places))
		return;
	source->key_count = definition->parameter_count;
	if (clause.match != NULL)
	{
		match_place_keys(clause.match, places);
		compile_note_condition(query->compiler, &query->table, clause.match, query->node, offset);
	}
	source->match = clause.match;
}

static void
compile_data_query(Definition *definition, const ConfigSql *sql, PlanBucket *bucket)
{
	Compiler   *compiler = definition->compiler;
	SyncPlan   *plan = compiler->plan;
	PlanSource *source = &plan->sources[plan->source_count];
	const SqlSelect *select;
	QueryCompiler query;

	/* a query that could not be compiled may have left something in its place */
	memset(source, 0, sizeof(*source));
	compile_query_init(&query, compiler, QUERY_DATA);
	select = compile_select(&query, sql);
	if (select == NULL || !compile_table(&query, select, &source->table))
		return;
	source->output_table = compile_output_table(&select->sources[0]);
	source->suffix_column = true;
	if (compile_row_items(&query, select, source))
		compile_check_id(&query, select, source);
	compile_data_where(definition, &query, select, source);
	compile_add_table(compiler, &source->table);
	bucket->sources[bucket->source_count++] = plan->source_count++;
}

/* ---------------------------------------------------------------- bucket parameters */

static bool
is_priority_item(const SqlItem *item)
{
	SyncString	priority = sync_string_literal("_priority");

	if (sql_name_is_set(&item->alias))
		return sync_string_equal(sql_name_string(&item->alias), priority);
	return item->expr->kind == SQL_COLUMN &&
		sync_string_equal(sql_name_string(&item->expr->column.name), priority);
}

static void
check_priority_item(Definition *definition, QueryCompiler *query, const SqlItem *item)
{
	const SqlExpr *expr = item->expr;

	if (expr->kind != SQL_INTEGER || expr->integer.len != 1 ||
		expr->integer.data[0] < '0' || expr->integer.data[0] > '3')
		compile_fail(query, SYNC_ERROR_CONFIG, expr->offset,
					 "_priority must be a whole number from 0 to 3");
	else if (definition->config->has_priority)
		compile_fail(query, SYNC_ERROR_CONFIG, expr->offset,
					 "the priority is already set by the key \"priority\"");
}

/*
 * The names of the first query's items are the bucket's parameters.  Those of
 * the others must be among them; that some are missing is not noticed by the
 * service either (3.4).
 */
static void
check_parameter_names(Definition *definition, QueryCompiler *query, const SyncString *names,
					  const uint32_t *offsets, int count)
{
	if (!definition->has_parameters)
	{
		definition->has_parameters = true;
		definition->parameters = arena_array(definition->compiler->arena, SyncString,
											 (size_t) count);
		for (int i = 0; i < count; i++)
		{
			if (name_index_find(&definition->names, names[i]) < 0)
			{
				name_index_add(&definition->names, names[i], definition->parameter_count,
							   definition->compiler->arena);
				definition->parameters[definition->parameter_count++] = names[i];
			}
			else if (definition->config->data.count > 0)
			{
				/* the service counts both, so that no data query can cover them */
				compile_fail(query, SYNC_ERROR_CONFIG, offsets[i],
							 "the bucket has a parameter \"%.*s\" already", SHOWN(names[i]));
			}
		}
		return;
	}
	for (int i = 0; i < count; i++)
	{
		if (name_index_find(&definition->names, names[i]) >= 0)
			continue;
		compile_fail(query, SYNC_ERROR_CONFIG, offsets[i], "\"%.*s\" is not a parameter of the "
					 "bucket's first parameter query", SHOWN(names[i]));
		report_hint(query->compiler->report,
					"All parameter queries of a bucket must have the same items.");
	}
}

/* ---------------------------------------------------------------- parameter queries */

/* what the items and the WHERE of a parameter query use of the request (11) */
typedef struct ParameterUse
{
	bool		token;
	bool		request;
} ParameterUse;

static void
check_dangerous(Definition *definition, QueryCompiler *query, ParameterUse use)
{
	if (definition->config->accept_dangerous || !use.request || use.token)
		return;
	compile_warn(query, 0, "a client can choose the parameters of this query freely");
	report_hint(query->compiler->report, "Compare with request.user_id() or request.jwt() too, or "
				"set accept_potentially_dangerous_queries.");
}

static bool
item_is_lookup_column(QueryCompiler *query, const SqlItem *item, const Clause *clause)
{
	return query->kind == QUERY_LOOKUP && item->expr->kind == SQL_COLUMN &&
		clause->kind == CLAUSE_ROW;
}

/*
 * An item of any parameter query.  A lookup column becomes an item of the
 * index; all else is evaluated where buckets are looked up, not here.
 */
static bool
compile_parameter_item(QueryCompiler *query, const SqlItem *item, PlanIndex *index,
					   SyncString *name, ParameterUse *use)
{
	Clause		clause;

	if (item_is_star(item))
	{
		compile_fail(query, SYNC_ERROR_CONFIG, item->expr->offset,
					 "* is not supported in parameter queries");
		return false;
	}
	clause = compile_clause(query, item->expr);
	if (clause.kind == CLAUSE_ERROR || !compile_item_name(query, item, name))
		return false;
	use->token |= clause.uses_token;
	use->request |= clause.uses_request;
	if (item_is_lookup_column(query, item, &clause))
	{
		index->source.items[index->source.item_count++] = (PlanItem) {clause.expr, *name};
		return true;
	}
	if (!clause_is_parameter(&clause))
	{
		compile_fail(query, SYNC_ERROR_CONFIG, item->expr->offset,
					 "an item of a parameter query is a column of the table or an expression of "
					 "the request, not an expression of columns");
		return false;
	}
	return true;
}

static bool
compile_parameter_items(Definition *definition, QueryCompiler *query, const SqlSelect *select,
						PlanIndex *index, ParameterUse *use)
{
	SyncArena  *arena = definition->compiler->arena;
	SyncArena  *scratch = definition->compiler->scratch;
	SyncString *names = arena_array(scratch, SyncString, (size_t) select->item_count);
	uint32_t   *offsets = arena_array(scratch, uint32_t, (size_t) select->item_count);
	int			count = 0;
	bool		ok = true;

	index->source.items = arena_array(arena, PlanItem, (size_t) select->item_count);
	for (int i = 0; i < select->item_count; i++)
	{
		const SqlItem *item = &select->items[i];

		if (sql_name_is_set(&item->alias))
			compile_check_case(query, &item->alias);
		if (query->kind != QUERY_EXPAND && is_priority_item(item))
			check_priority_item(definition, query, item);
		else if (compile_parameter_item(query, item, index, &names[count], use))
			offsets[count++] = sql_name_is_set(&item->alias) ? item->alias.offset : item->expr->offset;
		else
			ok = false;
	}
	if (ok)
		check_parameter_names(definition, query, names, offsets, count);
	return ok;
}

/* FROM table: the WHERE's parameters, in the order of its keys, make the lookup */
static bool
compile_lookup_where(QueryCompiler *query, const SqlSelect *select, PlanSource *source,
					 ParameterUse *use)
{
	Clause		clause;
	int		   *places;
	int			expanding = 0;

	if (select->where == NULL)
		return true;
	clause = compile_clause(query, select->where);
	clause = clause_as_match(query, &clause);
	if (clause.kind == CLAUSE_ERROR)
		return false;
	use->token |= clause.uses_token;
	use->request |= clause.uses_request;

	places = arena_array(query->compiler->scratch, int, (size_t) query->key_count + 1);
	for (int i = 0; i < clause.key_count; i++)
	{
		places[clause.keys[i]] = i;
		expanding += query->key_expands[clause.keys[i]];
	}
	if (expanding > 1)
	{
		compile_fail(query, SYNC_ERROR_CONFIG, select->where->offset,
					 "only one \"column IN parameter\" is supported in a query");
		return false;
	}
	match_place_keys(clause.match, places);
	compile_note_condition(query->compiler, &query->table, clause.match, query->node,
						   select->where->offset);
	source->match = clause.match;
	source->key_count = clause.key_count;
	return true;
}

/* no FROM, or FROM json_each(): nothing to replicate, but it must be right */
static bool
compile_request_where(QueryCompiler *query, const SqlSelect *select, ParameterUse *use)
{
	Clause		clause;

	if (select->where == NULL)
		return true;
	clause = compile_clause(query, select->where);
	if (clause.kind == CLAUSE_ERROR)
		return false;
	if (!clause_is_parameter(&clause))
	{
		compile_fail(query, SYNC_ERROR_CONFIG, select->where->offset,
					 "the condition must be one on the request only");
		return false;
	}
	use->request |= clause.uses_request;
	return true;
}

/* FROM json_each(x) [AS alias] */
static bool
compile_expand_source(QueryCompiler *query, const SqlSelect *select, ParameterUse *use)
{
	const SqlSource *source = select->sources;
	const SqlExpr *call = source->call;
	Clause		clause;

	if (select->source_count != 1 || sql_name_is_set(&call->call.schema) ||
		!sync_string_equal(sql_name_string(&call->call.name), sync_string_literal("json_each")) ||
		call->call.arg_count != 1 || call->call.extras != 0 || source->with_ordinality)
	{
		compile_fail(query, SYNC_ERROR_CONFIG, source->offset,
					 "a parameter query can read from one table or one json_each(value)");
		return false;
	}
	/* the argument cannot refer to what it expands to */
	query->table_name = (SyncString) {NULL, 0};
	clause = compile_clause(query, call->call.args[0]);
	if (clause.kind == CLAUSE_ERROR)
		return false;
	if (!clause_is_parameter(&clause))
	{
		compile_fail(query, SYNC_ERROR_CONFIG, call->call.args[0]->offset,
					 "json_each() of a parameter query takes a value of the request");
		return false;
	}
	use->token |= clause.uses_token;
	use->request |= clause.uses_request;
	query->table_name = sql_name_is_set(&source->alias) ? sql_name_string(&source->alias) :
		sync_string_literal("json_each");
	return true;
}

static QueryKind
parameter_query_kind(const SqlSelect *select)
{
	if (select->source_count == 0)
		return QUERY_STATIC;
	return select->sources[0].kind == SQL_SOURCE_CALL ? QUERY_EXPAND : QUERY_LOOKUP;
}

static bool
compile_parameter_select(Definition *definition, QueryCompiler *query, const SqlSelect *select,
						 PlanIndex *index)
{
	ParameterUse use = {false, false};
	bool		ok;

	query->kind = parameter_query_kind(select);
	if (query->kind == QUERY_EXPAND && !compile_expand_source(query, select, &use))
		return false;
	if (query->kind == QUERY_LOOKUP)
	{
		if (!compile_table(query, select, &index->source.table))
			return false;
		if (sql_name_is_set(&select->sources[0].alias) &&
			!sync_string_equal(sql_name_string(&select->sources[0].alias),
							   sql_name_string(&select->sources[0].name)))
		{
			compile_fail(query, SYNC_ERROR_CONFIG, select->sources[0].alias.offset,
						 "a table of a parameter query cannot have an alias");
			return false;
		}
	}
	ok = compile_parameter_items(definition, query, select, index, &use);
	if (query->kind == QUERY_LOOKUP)
		ok &= compile_lookup_where(query, select, &index->source, &use);
	else
		ok &= compile_request_where(query, select, &use);
	if (ok)
		check_dangerous(definition, query, use);
	return ok;
}

static void
compile_parameter_query(Definition *definition, const ConfigSql *sql, int number)
{
	Compiler   *compiler = definition->compiler;
	SyncPlan   *plan = compiler->plan;
	PlanIndex  *index = &plan->indexes[plan->index_count];
	const SqlSelect *select;
	QueryCompiler query;

	memset(index, 0, sizeof(*index));
	compile_query_init(&query, compiler, QUERY_STATIC);
	select = compile_select(&query, sql);
	if (select == NULL || !compile_parameter_select(definition, &query, select, index))
	{
		definition->broken = true;
		return;
	}
	if (query.kind != QUERY_LOOKUP)
		return;
	index->lookup_name = definition->config->name;
	index->query_id.data = arena_printf(compiler->arena, "%d", number);
	index->query_id.len = (uint32_t) strlen(index->query_id.data);
	compile_add_table(compiler, &index->source.table);
	plan->index_count++;
}

/* ---------------------------------------------------------------- definitions */

static void
compile_definition(Compiler *compiler, const ConfigBucket *config)
{
	SyncPlan   *plan = compiler->plan;
	PlanBucket *bucket = &plan->buckets[plan->bucket_count++];
	Definition	definition = {.compiler = compiler, .config = config};

	for (int i = 0; i < config->parameters.count && !report_is_full(compiler->report); i++)
	{
		compile_begin(compiler, &config->parameters.items[i]);
		compile_parameter_query(&definition, &config->parameters.items[i], i + 1);
	}
	definition.broken |= config->has_parameters && !definition.has_parameters;

	bucket->stem = config->name;
	bucket->sources = arena_array(compiler->arena, int, (size_t) config->data.count);
	for (int i = 0; i < config->data.count && !report_is_full(compiler->report); i++)
	{
		compile_begin(compiler, &config->data.items[i]);
		compile_data_query(&definition, &config->data.items[i], bucket);
	}
}

void
compile_bucket_definitions(Compiler *compiler)
{
	for (int i = 0; i < compiler->config->bucket_count; i++)
	{
		if (report_is_full(compiler->report))
			return;
		compile_definition(compiler, &compiler->config->buckets[i]);
	}
}

/*
 * An event's payloads put nothing into buckets, but their tables are read, so
 * that a reader of the plan knows them (1.4).  Their WHERE is not even
 * compiled.
 */
void
compile_payload(Compiler *compiler, const ConfigSql *sql)
{
	PlanSource	source = {.item_count = 0};
	const SqlSelect *select;
	QueryCompiler query;

	compile_query_init(&query, compiler, QUERY_DATA);
	select = compile_select(&query, sql);
	if (select == NULL || !compile_table(&query, select, &source.table))
		return;
	compile_row_items(&query, select, &source);
	compile_add_table(compiler, &source.table);
}

void
compile_events(Compiler *compiler)
{
	for (int i = 0; i < compiler->config->event_count; i++)
	{
		const ConfigEvent *event = &compiler->config->events[i];

		for (int j = 0; j < event->payloads.count && !report_is_full(compiler->report); j++)
		{
			compile_begin(compiler, &event->payloads.items[j]);
			compile_payload(compiler, &event->payloads.items[j]);
		}
	}
}
