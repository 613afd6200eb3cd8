/*-------------------------------------------------------------------------
 *
 * compile_stream.c
 *	  Streams of edition 3: from the config to the stored plan, and from there
 *	  to the plan that is run (sync-rules.md, 7.4, 11).
 *
 * This file goes from queries to resolvers, buckets and queriers; how a query
 * is understood is in the stream_*.c files (see stream_compile.h).
 *
 * Invariants: what is compiled here and what the service stored means the same,
 * since both are read by plan_read().  Sources, indexes and buckets are in the
 * plan once, in the order in which they were first needed.
 *
 *-------------------------------------------------------------------------
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "stream_compile.h"
#include "text.h"

/* a resolver, merged with those that ask for the same */
typedef struct StreamEntry
{
	StoredQuerier querier;
	StoredBucket *bucket;		/* its name and sources; may not become part of the plan */
	const StreamText *text;		/* where it comes from */
} StreamEntry;

/* a stream at work */
typedef struct StreamBuilder
{
	StreamCompiler *compiler;
	const ConfigStream *config;
	int			number;			/* of resolvers before merging */
	bool		full;			/* there are too many: reported */
	int			count;			/* after merging; STREAM_MAX_RESOLVERS at most */
	StreamEntry entries[STREAM_MAX_RESOLVERS];
} StreamBuilder;

/* ---------------------------------------------------------------- messages */

void
stream_fail(const StreamText *text, SyncErrorCode code, uint32_t offset, const char *format,...)
{
	StreamCompiler *compiler = text->compiler;
	char		message[sizeof(((SyncError *) 0)->message)];
	va_list		args;

	compiler->failed = true;
	compiler->given_last = false;
	for (int i = 0; i < compiler->given_count; i++)
	{
		if (compiler->given[i].node == text->node && compiler->given[i].offset == offset &&
			compiler->given[i].format == format)
			return;
	}
	if (compiler->given_count == RULES_REPORT_MAX)
		return;
	compiler->given[compiler->given_count++] = (StreamGiven) {text->node, offset, format};
	compiler->given_last = true;
	va_start(args, format);
	vsnprintf(message, sizeof(message), format, args);
	va_end(args);
	report_offset(compiler->compiler->report, RULES_FATAL, code, text->node, offset, "%s", message);
}

void
stream_warn(const StreamText *text, uint32_t offset, const char *format,...)
{
	char		message[sizeof(((SyncError *) 0)->message)];
	va_list		args;

	va_start(args, format);
	vsnprintf(message, sizeof(message), format, args);
	va_end(args);
	text->compiler->given_last = true;
	report_offset(text->compiler->compiler->report, RULES_WARNING, SYNC_ERROR_CONFIG, text->node,
				  offset, "%s", message);
}

void
stream_warn_unnamed(const StreamText *text, uint32_t offset, SyncString name)
{
	stream_warn(text, offset, "the column has no name and will be called \"%.*s\"", SHOWN(name));
	stream_hint(text, "Add AS and a name behind it.");
}

void
stream_hint(const StreamText *text, const char *format,...)
{
	char		hint[sizeof(((SyncError *) 0)->hint)];
	va_list		args;

	if (!text->compiler->given_last)
		return;
	va_start(args, format);
	vsnprintf(hint, sizeof(hint), format, args);
	va_end(args);
	report_hint(text->compiler->compiler->report, "%s", hint);
}

/* ---------------------------------------------------------------- statements */

/*
 * DISTINCT has no meaning for buckets, and ALL none at all.  A SELECT with other
 * clauses is refused, but looked at all the same.
 */
const SqlSelect *
stream_statement(const StreamText *text, const SqlStatement *statement)
{
	const SqlSelect *select = statement->select;

	if (statement->kind != SQL_SELECT)
	{
		stream_fail(text, SYNC_ERROR_CONFIG, statement->offset,
					"only SELECT statements are supported");
		return NULL;
	}
	for (int clause = 0; clause < SQL_CLAUSE_COUNT; clause++)
	{
		if (select->clauses[clause] == 0 || clause == SQL_CLAUSE_DISTINCT ||
			clause == SQL_CLAUSE_DISTINCT_ON || clause == SQL_CLAUSE_ALL)
			continue;
		stream_fail(text, SYNC_ERROR_CONFIG, select->clauses[clause], "%s is not supported",
					sql_clause_name((SqlClause) clause));
	}
	return select;
}

const SqlSelect *
stream_parse(StreamCompiler *compiler, const ConfigSql *sql, SyncArena *tree, StreamText *text)
{
	text->compiler = compiler;
	text->node = sql->node;
	text->script = compile_parse(compiler->compiler, sql, tree);
	if (text->script == NULL)
	{
		compiler->failed = true;
		return NULL;
	}
	text->offset = text->script->first->offset;
	return stream_statement(text, text->script->first);
}

/* ---------------------------------------------------------------- CTEs */

StreamCte *
stream_find_cte(const StreamScope *scope, const SqlName *name)
{
	StreamCompiler *compiler = scope->text->compiler;
	const StreamCteList *lists[] = {&compiler->ctes, &compiler->root_ctes};
	SyncString	lower;

	if (scope->in_cte || (compiler->ctes.count == 0 && compiler->root_ctes.count == 0))
		return NULL;
	lower = text_ascii_lower(sql_name_string(name), compiler->scratch);
	for (int i = 0; i < 2; i++)
	{
		int			found = name_index_find(&lists[i]->index, lower);

		if (found < 0)
			continue;
		lists[i]->items[found].used = true;
		compiler->failed |= lists[i]->items[found].broken;
		return &lists[i]->items[found];
	}
	return NULL;
}

static StreamCteList
read_ctes(StreamCompiler *compiler, const ConfigCteList *config)
{
	StreamCteList list = {.items = arena_array(compiler->arena, StreamCte, (size_t) config->count)};

	for (; list.count < config->count; list.count++)
	{
		StreamCte  *cte = &list.items[list.count];
		SyncString	name = text_ascii_lower(config->items[list.count].name, compiler->arena);

		if (name_index_find(&list.index, name) < 0)
			name_index_add(&list.index, name, list.count, compiler->arena);
		cte->config = &config->items[list.count];
		compiler->compiler->report->at = cte->config->sql.node;
		compiler->failed = false;
		cte->select = stream_parse(compiler, &cte->config->sql, compiler->arena, &cte->text);
		stream_check_cte(cte);
		cte->broken = compiler->failed;
	}
	return list;
}

static void
warn_unused_ctes(StreamCompiler *compiler, const StreamCteList *list)
{
	for (int i = 0; i < list->count; i++)
	{
		if (!list->items[i].used)
			report_node(compiler->compiler->report, RULES_WARNING, SYNC_ERROR_CONFIG,
						list->items[i].config->node, "\"%.*s\" is not used by any query",
						SHOWN(list->items[i].config->name));
	}
}

/* ---------------------------------------------------------------- items */

/* an item reads from this relation, which must be the one table of all items */
static void
want_primary(StreamQuery *query, StoredRelation *relation, uint32_t offset)
{
	if (relation->kind == RELATION_TABLE && (query->primary == NULL || query->primary == relation))
	{
		query->primary = relation;
		return;
	}
	stream_fail(&query->text, SYNC_ERROR_CONFIG, offset,
				"the columns of a query must all come from the same table");
	stream_hint(&query->text, "Use one query for each table.");
}

static void
append_column(StreamQuery *query, StoredColumn column)
{
	query->columns = arena_make_room(query->compiler->arena, query->columns,
									 sizeof(*query->columns), query->column_count);
	query->columns[query->column_count++] = column;
}

static void
add_column(StreamQuery *query, const StoredExpr *expr, SyncString alias, uint32_t offset)
{
	StreamInputs inputs = {.request = false};

	append_column(query, (StoredColumn) {expr, alias});
	stream_add_inputs(&inputs, expr);
	if (inputs.request)
		stream_fail(&query->text, SYNC_ERROR_CONFIG, offset,
					"values of the request cannot be selected");
	else if (inputs.function)
	{
		stream_fail(&query->text, SYNC_ERROR_CONFIG, offset,
					"elements of a JSON array cannot be selected");
		stream_hint(&query->text, "json_each(), and IN with an array, can be used in conditions.");
	}
	else if (inputs.several)
		stream_fail(&query->text, SYNC_ERROR_CONFIG, offset,
					"the columns of a query must all come from the same table");
	else if (inputs.first != NULL)
		want_primary(query, inputs.first, offset);
}

/* a subquery's columns one by one */
static void
add_star_of(StreamQuery *query, const StreamName *source, uint32_t offset)
{
	if (source->broken)
		return;
	if (source->relation != NULL)
	{
		append_column(query, (StoredColumn) {.expr = NULL});
		want_primary(query, source->relation, offset);
		return;
	}
	for (int i = 0; i < source->column_count; i++)
	{
		if (source->columns[i].expr != NULL &&
			stream_charge(&query->text, offset, source->columns[i].expr->size))
			add_column(query, source->columns[i].expr, source->columns[i].name, offset);
	}
}

/* the source that * or t.* stands for; NULL, reported, if there is not one */
static const StreamName *
star_source(const StreamScope *scope, const SqlExpr *star)
{
	const StreamName *source;

	if (sql_name_is_set(&star->column.qualifier))
	{
		source = stream_find_name(scope, &star->column.qualifier);
		if (source == NULL)
			stream_no_such_source(scope, &star->column.qualifier);
		return source;
	}
	if (scope->name_count == 1)
		return &scope->names[0];
	stream_fail(scope->text, SYNC_ERROR_CONFIG, star->offset, scope->name_count == 0 ?
				"there is no table for * to stand for" :
				"* can stand for one table only");
	if (scope->name_count > 1)
		stream_hint(scope->text, "Write the table's name and a dot before it.");
	return NULL;
}

static void
compile_items(StreamQuery *query, const StreamScope *scope, const SqlSelect *select)
{
	bool		renamed = false;

	for (int i = 0; i < select->item_count && !query->compiler->exhausted; i++)
	{
		const SqlItem *item = &select->items[i];
		const StreamName *source;
		const StoredExpr *expr;
		SyncString	name;
		bool		has_name;

		if (item->expr->kind == SQL_STAR)
		{
			source = star_source(scope, item->expr);
			if (source != NULL)
				add_star_of(query, source, item->expr->offset);
			if (renamed)
			{
				stream_warn(scope->text, item->expr->offset,
							"* replaces columns of the same name before it");
				stream_hint(scope->text, "Put * first.");
			}
			continue;
		}
		renamed |= sql_name_is_set(&item->alias);
		name = stream_item_name(scope, item, &has_name);
		expr = stream_expr(scope, item->expr);
		if (expr != NULL)
			add_column(query, expr, name, item->expr->offset);
		if (!has_name)
			stream_warn_unnamed(scope->text, item->expr->offset, name);
	}
}

/* an alias, which is often only meant to be short, is what clients see */
static void
check_renamed(const StreamQuery *query, const StreamScope *scope)
{
	const StoredRelation *primary = query->primary;
	int			tables = 0;

	for (int i = 0; i < scope->name_count; i++)
		tables += scope->names[i].relation == NULL ||
			scope->names[i].relation->kind == RELATION_TABLE;
	if (tables < 2 || !primary->renamed)
		return;
	for (int i = 0; i < scope->name_count; i++)
	{
		if (scope->names[i].relation != primary)
			continue;
		stream_warn(&query->text, primary->offset,
					"clients will see the rows of \"%.*s\" as table \"%.*s\"",
					SHOWN(primary->name), SHOWN(primary->output_name));
		stream_hint(&query->text, "If that is what you want, put the alias in double quotes.");
	}
}

/* ---------------------------------------------------------------- the plan's parts */

/* the plan's one for that structure */
static StoredSource *
intern_source(StreamCompiler *compiler, StoredSource *source)
{
	StoredPlan *plan = compiler->plan;
	StoredSource ***list = source->is_index ? &plan->indexes : &plan->sources;
	int		   *count = source->is_index ? &plan->index_count : &plan->source_count;
	StoredSource **chain;

	source->hash = stored_source_hash(source);
	chain = &compiler->sources[source->hash % STREAM_CHAINS];
	for (StoredSource *known = *chain; known != NULL; known = known->chain)
	{
		if (stored_source_equal(known, source))
			return known;
	}
	source->chain = *chain;
	*chain = source;
	*list = arena_make_room(compiler->arena, *list, sizeof(**list), *count);
	source->position = *count;
	(*list)[(*count)++] = source;
	return source;
}

static StoredBucket *
intern_bucket(StreamCompiler *compiler, StoredBucket *bucket)
{
	StoredPlan *plan = compiler->plan;
	StoredBucket **chain;

	bucket->hash = stored_bucket_hash(bucket);
	chain = &compiler->buckets[bucket->hash % STREAM_CHAINS];
	for (StoredBucket *known = *chain; known != NULL; known = known->chain)
	{
		if (stored_bucket_equal(known, bucket))
			return known;
	}
	bucket->chain = *chain;
	*chain = bucket;
	plan->buckets = arena_make_room(compiler->arena, plan->buckets, sizeof(*plan->buckets),
									plan->bucket_count);
	bucket->position = plan->bucket_count;
	plan->buckets[plan->bucket_count++] = bucket;
	return bucket;
}

/* ---------------------------------------------------------------- resolvers */

/* is_new: the source is in no bucket yet */
static void
add_bucket_source(StreamCompiler *compiler, StoredBucket *bucket, StoredSource *source, bool is_new)
{
	for (int i = 0; i < bucket->source_count && !is_new; i++)
	{
		if (bucket->sources[i] == source)
			return;
	}
	bucket->sources = arena_make_room(compiler->arena, bucket->sources, sizeof(*bucket->sources),
									  bucket->source_count);
	bucket->sources[bucket->source_count++] = source;
}

/*
 * A resolver that asks for what an earlier one of the stream asks for puts its
 * rows into that one's bucket.
 */
static void
add_resolver(StreamBuilder *builder, StreamResolver *resolver)
{
	StreamCompiler *compiler = builder->compiler;
	StoredQuerier *querier = &resolver->querier;
	StoredSource *source = intern_source(compiler, resolver->source);
	bool		is_new = source == resolver->source;
	StoredBucket *bucket;
	SyncBuffer	name;
	int			number = builder->number++;

	for (int i = 0; i < querier->lookup_count; i++)
	{
		if (querier->lookups[i]->index != NULL)
			querier->lookups[i]->index = intern_source(compiler, querier->lookups[i]->index);
	}
	for (int i = 0; i < builder->count; i++)
	{
		if (stored_querier_equal(&builder->entries[i].querier, querier))
		{
			add_bucket_source(compiler, builder->entries[i].bucket, source, is_new);
			return;
		}
	}
	if (builder->count == STREAM_MAX_RESOLVERS)
	{
		builder->full = true;
		report_node(compiler->compiler->report, RULES_FATAL, SYNC_ERROR_LIMIT,
					builder->config->node, "stream \"%.*s\" needs more than %d kinds of buckets",
					SHOWN(builder->config->name), STREAM_MAX_RESOLVERS);
		report_hint(compiler->compiler->report, "Split it into several streams.");
		return;
	}
	bucket = arena_new(compiler->arena, StoredBucket);
	buffer_init(&name, compiler->arena, builder->config->name.len + 12);
	buffer_append(&name, builder->config->name.data, builder->config->name.len);
	buffer_append_char(&name, '|');
	buffer_append_int(&name, number);
	bucket->name = buffer_string(&name);
	add_bucket_source(compiler, bucket, source, true);
	builder->entries[builder->count++] = (StreamEntry) {*querier, bucket, resolver->text};
}

/* ---------------------------------------------------------------- dangerous queries */

/* whose values take part */
typedef struct Use
{
	bool		auth;			/* the client cannot choose them */
	bool		client;			/* it can */
} Use;

static void
add_expr_use(Use *use, const StoredExpr *expr)
{
	if (expr->kind == STORED_REQUEST)
	{
		if (sync_string_equal(expr->text, sync_string_literal("auth")))
			use->auth = true;
		else
			use->client = true;
	}
	for (int i = 0; i < expr->arg_count; i++)
		add_expr_use(use, expr->args[i]);
}

/* what decides about a value; a constant is no more up to the client than auth is */
static void
add_input_use(Use *use, const StoredExpr *input)
{
	Use			of_input = {false, false};

	add_expr_use(&of_input, input);
	use->auth |= of_input.auth || !of_input.client;
	use->client |= of_input.client;
}

static void
add_value_use(Use *use, const StoredValue *value)
{
	if (value->kind == VALUE_OF_REQUEST)
		add_input_use(use, value->expr);
	else if (value->kind == VALUE_OF_LOOKUP && !value->lookup->seen)
	{
		/* lookups are a graph: two keys can come from one that needs two of the next */
		value->lookup->seen = true;
		if (value->lookup->function != NULL)
			add_input_use(use, value->lookup->function->input);
		for (int i = 0; i < value->lookup->value_count; i++)
			add_value_use(use, value->lookup->values[i]);
	}
	for (int i = 0; i < value->value_count; i++)
		add_value_use(use, value->values[i]);
}

/*
 * Section 11: every client can have the buckets that it asks for, when nothing
 * but what it says itself decides which ones these are.
 */
static void
check_dangerous(const StoredQuerier *querier, const StreamText *text)
{
	Use			use = {false, false};
	bool		of_values;		/* what filters use does not count then */

	for (int i = 0; i < querier->value_count; i++)
		add_value_use(&use, querier->values[i]);
	of_values = use.auth || use.client;
	for (int i = 0; i < querier->filter_count && !of_values; i++)
		add_expr_use(&use, querier->filters[i]);
	if (!use.client || use.auth)
		return;
	stream_warn(text, text->offset,
				"a client can choose freely which buckets of this query it syncs");
	stream_hint(text, "Compare with auth, or set accept_potentially_dangerous_queries.");
}

/* ---------------------------------------------------------------- streams */

static int64_t
size_of_all(const StoredExpr *const *exprs, int count)
{
	int64_t		size = 0;

	for (int i = 0; i < count; i++)
		size += exprs[i]->size;
	return size;
}

static int64_t
source_size(const StoredSource *source)
{
	int64_t		size = 1 + size_of_all(source->filters, source->filter_count) +
		size_of_all(source->keys, source->key_count) +
		size_of_all(source->outputs, source->output_count);

	for (int i = 0; i < source->function_count; i++)
		size += source->functions[i]->input->size;
	for (int i = 0; i < source->column_count; i++)
		size += source->columns[i].expr != NULL ? source->columns[i].expr->size : 1;
	return size;
}

/* a condition can be part of every product: false, reported, when that comes to too much */
static bool
charge_sources(StreamCompiler *compiler, const StreamResolver *resolver)
{
	arena_poll(compiler->arena);
	compiler->walked += source_size(resolver->source);
	for (int i = 0; i < resolver->querier.lookup_count; i++)
	{
		if (resolver->querier.lookups[i]->index != NULL)
			compiler->walked += source_size(resolver->querier.lookups[i]->index);
	}
	if (compiler->walked <= STREAM_MAX_WALKED)
		return true;
	compiler->exhausted = true;
	stream_fail(resolver->text, SYNC_ERROR_LIMIT, resolver->text->offset,
				"the streams are too large once each OR inside an AND is multiplied out");
	return false;
}

static void
resolve_query(StreamBuilder *builder, StreamQuery *query, const StreamCondition *conditions)
{
	StreamCompiler *compiler = builder->compiler;
	StreamProducts products;
	StreamResolver resolver;

	/* also when something is wrong elsewhere: to report what is wrong here */
	if (compiler->exhausted || !stream_products(query, conditions, &products) || compiler->failed)
		return;
	for (int i = 0; i < products.count; i++)
	{
		if (builder->full)
			return;
		if (!stream_resolve(query, &products.items[i], &resolver) || compiler->failed)
			continue;
		if (!charge_sources(compiler, &resolver))
			return;
		add_resolver(builder, &resolver);
	}
}

static void
compile_query(StreamBuilder *builder, const ConfigSql *sql)
{
	StreamCompiler *compiler = builder->compiler;
	StreamQuery *query = arena_new(compiler->arena, StreamQuery);
	StreamScope scope = {.query = query, .text = &query->text};
	StreamCondition *conditions;
	const SqlSelect *select;

	compiler->failed = false;
	query->compiler = compiler;
	compile_begin(compiler->compiler, sql);
	select = stream_parse(compiler, sql, compiler->scratch, &query->text);
	if (select == NULL)
		return;
	conditions = stream_condition_new(&query->text, CONDITION_AND, 0);
	stream_compile_from(&scope, select, conditions);
	compile_items(query, &scope, select);
	if (select->where != NULL)
		stream_compile_where(&scope, select->where, conditions);
	/* the service passes over a query that selects nothing at all */
	if (select->item_count == 0)
		return;
	if (query->primary == NULL && !compiler->failed)
	{
		stream_fail(&query->text, SYNC_ERROR_CONFIG, query->text.offset,
					"the query selects no column of a table");
		stream_hint(&query->text, "Select * or columns of the table that clients shall have.");
	}
	if (query->primary != NULL)
		check_renamed(query, &scope);
	resolve_query(builder, query, conditions);
}

static void
finish_stream(StreamBuilder *builder)
{
	StreamCompiler *compiler = builder->compiler;
	const ConfigStream *config = builder->config;
	StoredStream *stream = &compiler->plan->streams[compiler->plan->stream_count++];

	stream->queriers = arena_array(compiler->arena, StoredQuerier, (size_t) builder->count);
	for (int i = 0; i < builder->count; i++)
	{
		stream->queriers[i] = builder->entries[i].querier;
		stream->queriers[i].bucket = intern_bucket(compiler, builder->entries[i].bucket);
		if (!config->accept_dangerous)
			check_dangerous(&stream->queriers[i], builder->entries[i].text);
	}
	stream->name = config->name;
	stream->priority = config->priority;
	stream->auto_subscribe = config->auto_subscribe;
	stream->querier_count = builder->count;
}

static void
compile_stream(StreamCompiler *compiler, const ConfigStream *config)
{
	StreamBuilder builder;

	builder.compiler = compiler;
	builder.config = config;
	builder.number = builder.count = 0;
	builder.full = false;
	compiler->ctes = read_ctes(compiler, &config->ctes);
	for (int i = 0; i < config->queries.count; i++)
	{
		if (report_is_full(compiler->compiler->report) || compiler->exhausted)
			return;
		compile_query(&builder, &config->queries.items[i]);
	}
	warn_unused_ctes(compiler, &compiler->ctes);
	if (builder.count > 0)
		finish_stream(&builder);
}

/* ---------------------------------------------------------------- the plan */

static void
report_too_large(Compiler *compiler)
{
	const SyncConfig *config = compiler->config;

	report_node(compiler->report, RULES_FATAL, SYNC_ERROR_LIMIT,
				config->streams[config->stream_count - 1].node,
				"the plan of all streams is larger than %d MB: MongoDB would not store it",
				STORED_PLAN_MAX_BYTES / 1024 / 1024);
}

/* events are members of a document that is stored with the plan */
static void
check_event_names(Compiler *compiler)
{
	for (int i = 0; i < compiler->config->event_count; i++)
	{
		const ConfigEvent *event = &compiler->config->events[i];

		if (memchr(event->name.data, '\0', event->name.len) != NULL)
			report_node(compiler->report, RULES_FATAL, SYNC_ERROR_CONFIG, event->node,
						"an event's name must not contain NUL: MongoDB would not store it");
	}
}

/*
 * Runs the plan as it will be stored.  What goes wrong here is our own fault,
 * or a limit that only the whole plan reaches.
 */
static SyncPlan *
read_back(Compiler *compiler, SyncString json, const RulesOptions *options)
{
	SyncPlan   *plan;
	SyncError	error = {.code = SYNC_OK};

	plan = plan_read_text(json, options, compiler->arena, compiler->streams, compiler->scratch,
						  &error);
	if (plan == NULL)
	{
		report_node(compiler->report, RULES_FATAL, error.code, NULL, "%s", error.message);
		return NULL;
	}
	if (plan->bson_size > STORED_PLAN_MAX_BSON)
	{
		report_too_large(compiler);
		return NULL;
	}
	plan->storage_version = compiler->config->storage_version;
	plan->stored = json;
	plan->first_note = compiler->plan->first_note;
	plan->last_note = compiler->plan->last_note;
	return plan;
}

SyncPlan *
compile_streams(Compiler *compiler, const RulesOptions *options)
{
	const SyncConfig *config = compiler->config;
	SyncArena  *arena = compiler->streams;
	StreamCompiler *streams = arena_new(arena, StreamCompiler);
	SyncString	json;

	streams->compiler = compiler;
	streams->arena = arena;
	streams->scratch = compiler->scratch;
	streams->plan = arena_new(arena, StoredPlan);
	streams->plan->streams = arena_array(arena, StoredStream,
										 (size_t) config->stream_count);
	streams->root_ctes = read_ctes(streams, &config->ctes);
	for (int i = 0; i < config->stream_count && !report_is_full(compiler->report); i++)
		compile_stream(streams, &config->streams[i]);
	warn_unused_ctes(streams, &streams->root_ctes);
	check_event_names(compiler);
	if (compiler->report->fatal_count > 0)
		return NULL;
	arena_reset(compiler->scratch);
	json = stored_plan_json(streams->plan, config, compiler->report->first, compiler->arena,
							compiler->scratch);
	if (json.data == NULL)
	{
		report_too_large(compiler);
		return NULL;
	}
	arena_reset(compiler->streams);
	arena_reset(compiler->scratch);
	return read_back(compiler, json, options);
}
