/*-------------------------------------------------------------------------
 *
 * stream_scope.c
 *	  FROM in edition-3 streams: which relations a query reads and what a name
 *	  means (sync-rules.md, 3.1, 7.4).
 *
 * Subqueries and CTEs leave no trace but their relations and conditions: a
 * column of theirs is the expression behind it.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "stream_compile.h"
#include "text.h"

/* ---------------------------------------------------------------- names */

/* names of sources are compared without regard to case, even quoted ones */
const StreamName *
stream_find_name(const StreamScope *scope, const SqlName *name)
{
	SyncString	lower = text_ascii_lower(sql_name_string(name), scope->text->compiler->scratch);

	for (; scope != NULL; scope = scope->outer)
	{
		int			i = name_index_find(&scope->name_index, lower);

		if (i >= 0)
			return &scope->names[i];
	}
	return NULL;
}

/* names that mean values of the request, here or in other editions */
static bool
hint_request(const StreamText *text, const SqlName *name)
{
	static const char *const known[] = {
		"auth", "subscription", "connection", "request", "token_parameters", "user_parameters",
		"bucket",
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
	{
		if (name->len != strlen(known[i]) || memcmp(name->text, known[i], name->len) != 0)
			continue;
		if (i == 0)
			stream_hint(text, "Write auth.user_id() or auth.parameter(name).");
		else if (i < 3)
			stream_hint(text, "Write %s.parameter(name).", known[i]);
		else
			stream_hint(text, "Values of the request are in auth, subscription and connection.");
		return true;
	}
	return false;
}

void
stream_no_such_source(const StreamScope *scope, const SqlName *name)
{
	SyncArena  *scratch = scope->text->compiler->scratch;
	const StreamText *text = scope->text;

	stream_fail(text, SYNC_ERROR_CONFIG, name->offset, "there is no \"%.*s\" in FROM",
				SHOWN(sql_name_string(name)));
	/* looking for what is meant takes long: only if it is said */
	if (!text->compiler->given_last || hint_request(text, name))
		return;
	for (; scope != NULL; scope = scope->outer)
	{
		for (int i = 0; i < scope->name_count; i++)
		{
			SyncString	known = scope->names[i].name;

			if (known.len < 40 && name->len > 1 &&
				report_distance(sql_name_string(name),
								arena_strndup(scratch, known.data, known.len)) < 3)
			{
				stream_hint(text, "Did you mean \"%.*s\"?", SHOWN(known));
				return;
			}
		}
	}
}

static void
add_name(StreamScope *scope, const SqlName *name, StreamName *entry)
{
	SyncArena  *scratch = scope->text->compiler->scratch;

	entry->name = text_ascii_lower(sql_name_string(name), scratch);
	if (name_index_find(&scope->name_index, entry->name) >= 0)
	{
		stream_fail(scope->text, SYNC_ERROR_CONFIG, name->offset,
					"\"%.*s\" is in FROM more than once", SHOWN(sql_name_string(name)));
		stream_hint(scope->text, "Give one of them another name with AS.");
		return;
	}
	name_index_add(&scope->name_index, entry->name, scope->name_count, scratch);
	scope->names[scope->name_count++] = *entry;
}

/* ---------------------------------------------------------------- columns */

/* as the plan that is read back names it: its tables are all of one connection (3.1) */
static TablePattern
pattern_of(const StreamScope *scope, const StoredRelation *relation)
{
	return (TablePattern) {
		.connection = sync_string_literal(SYNC_DEFAULT_CONNECTION),
		.schema = relation->schema.len > 0 ? relation->schema :
		scope->text->compiler->compiler->default_schema,
		.table = relation->name,
	};
}

static const StoredExpr *
column_of(const StreamScope *scope, const StreamName *source, const SqlName *name)
{
	SyncString	column = sql_name_string(name);
	const StoredExpr *expr;
	int			found;

	if (source->broken)
		return NULL;
	if (source->relation != NULL && source->relation->kind == RELATION_TABLE)
	{
		TablePattern pattern = pattern_of(scope, source->relation);

		compile_note_column(scope->text->compiler->compiler, &pattern, column, NULL,
							scope->text->node, name->offset);
		return stream_make_input(scope->text, name->offset, STORED_COLUMN, column,
								 source->relation);
	}
	/* json_each() has "value" and "key"; others are no error of the service, and NULL */
	if (source->relation != NULL)
		return stream_make_input(scope->text, name->offset, STORED_COLUMN, column,
								 source->relation);
	found = name_index_find(&source->column_index, column);
	if (found >= 0)
	{
		expr = source->columns[found].expr;
		return expr != NULL && stream_charge(scope->text, name->offset, expr->size) ? expr : NULL;
	}
	stream_fail(scope->text, SYNC_ERROR_CONFIG, name->offset,
				"\"%.*s\" has no column \"%.*s\"", SHOWN(source->name), SHOWN(column));
	return NULL;
}

const StoredExpr *
stream_column(const StreamScope *scope, const SqlExpr *expr)
{
	const StreamName *source;

	/* the service does not look at a schema before the table */
	if (sql_name_is_set(&expr->column.qualifier))
	{
		source = stream_find_name(scope, &expr->column.qualifier);
		if (source != NULL)
			return column_of(scope, source, &expr->column.name);
		stream_no_such_source(scope, &expr->column.qualifier);
		return NULL;
	}
	if (scope->name_count == 1)
		return column_of(scope, &scope->names[0], &expr->column.name);
	if (scope->name_count == 0)
		stream_fail(scope->text, SYNC_ERROR_CONFIG, expr->offset,
					"there is no table with a column \"%.*s\" here",
					SHOWN(sql_name_string(&expr->column.name)));
	else
	{
		stream_fail(scope->text, SYNC_ERROR_CONFIG, expr->offset,
					"it is not clear which table \"%.*s\" is a column of",
					SHOWN(sql_name_string(&expr->column.name)));
		stream_hint(scope->text, "Write the table's name and a dot before it.");
	}
	return NULL;
}

SyncString
stream_item_name(const StreamScope *scope, const SqlItem *item, bool *has_name)
{
	*has_name = true;
	if (sql_name_is_set(&item->alias))
		return sql_name_string(&item->alias);
	if (item->expr->kind == SQL_COLUMN)
		return sql_name_string(&item->expr->column.name);
	*has_name = false;
	return sql_text(scope->text->script, item->expr->offset, item->expr->end);
}

/* ---------------------------------------------------------------- relations */

static StoredRelation *
new_relation(const StreamScope *scope, StoredRelationKind kind, uint32_t offset)
{
	StoredRelation *relation;

	if (++scope->query->relation_count > STREAM_MAX_RELATIONS)
	{
		scope->text->compiler->exhausted = true;
		stream_fail(scope->text, SYNC_ERROR_LIMIT, offset,
					"a query can read from %d tables and functions at most", STREAM_MAX_RELATIONS);
		return NULL;
	}
	relation = arena_new(scope->text->compiler->arena, StoredRelation);
	relation->kind = kind;
	relation->owner = relation;
	relation->offset = offset;
	return relation;
}

/* 3.1: a schema's name with a dot holds the connection, too */
static bool
read_schema(const StreamScope *scope, const SqlName *name, StoredRelation *relation)
{
	const char *dot = memchr(name->text, '.', name->len);

	relation->connection = sync_string_literal(SYNC_DEFAULT_CONNECTION);
	relation->schema = sql_name_string(name);
	if (dot == NULL)
		return true;
	relation->connection = (SyncString) {name->text, (uint32_t) (dot - name->text)};
	relation->schema.len -= relation->connection.len + 1;
	relation->schema.data = dot + 1;
	if (memchr(relation->schema.data, '.', relation->schema.len) == NULL)
		return true;
	stream_fail(scope->text, SYNC_ERROR_CONFIG, name->offset,
				"a schema name can hold one dot, between connection and schema");
	return false;
}

/* what the source is called in expressions */
static const SqlName *
source_name(const SqlSource *source)
{
	if (sql_name_is_set(&source->alias))
		return &source->alias;
	return source->kind == SQL_SOURCE_CALL ? &source->call->call.name : &source->name;
}

/*
 * Each of these fills in the entry; false, reported, if the source cannot be used.
 * Names of columns behind the alias of a table or function, and WITH ORDINALITY,
 * mean nothing to the service.
 */

static bool
table_source(const StreamScope *scope, const SqlSource *source, StreamName *entry)
{
	StoredRelation *relation;
	TablePattern pattern;

	relation = new_relation(scope, RELATION_TABLE, source_name(source)->offset);
	if (relation == NULL)
		return false;
	relation->name = sql_name_string(&source->name);
	if (sql_name_is_set(&source->schema) && !read_schema(scope, &source->schema, relation))
		return false;
	if (sql_name_is_set(&source->alias))
	{
		relation->output_name = sql_name_string(&source->alias);
		relation->renamed = !source->alias.quoted;
	}
	else if (!pattern_is_wildcard(relation->name))
		relation->output_name = relation->name;
	entry->relation = relation;
	pattern = pattern_of(scope, relation);
	compile_note_table(scope->text->compiler->compiler, &pattern, scope->text->node,
					   source->name.offset);
	if (!sync_string_equal(relation->connection, pattern.connection) &&
		relation->connection.len > 0)
		compile_note_connection(scope->text->compiler->compiler, &pattern, relation->connection,
								scope->text->node, source->schema.offset);
	return true;
}

/*
 * A function is called for the rows of one table, or for the request.  What it
 * is called with cannot come from another function: neither a data source nor a
 * lookup of the plan could hold that.
 */
StoredRelation *
stream_json_each(const StreamScope *scope, const StoredExpr *input, uint32_t offset)
{
	StreamInputs inputs = {.request = false};
	StoredRelation *relation;

	if (input == NULL)
		return NULL;
	stream_add_inputs(&inputs, input);
	if (inputs.first != NULL && (inputs.request || inputs.several))
	{
		stream_fail(scope->text, SYNC_ERROR_CONFIG, offset,
					"the array must come from one table, or from the request alone");
		return NULL;
	}
	if (inputs.first != NULL && inputs.first->kind != RELATION_TABLE)
	{
		stream_fail(scope->text, SYNC_ERROR_CONFIG, offset,
					"the array cannot come from another json_each()");
		return NULL;
	}
	relation = new_relation(scope, RELATION_JSON_EACH, offset);
	if (relation == NULL)
		return NULL;
	relation->input = input;
	if (inputs.first != NULL)
		relation->owner = inputs.first;
	return relation;
}

static bool
call_source(const StreamScope *scope, const SqlSource *source, StreamName *entry)
{
	const SqlExpr *call = source->call;
	SyncString	name = sql_name_string(&call->call.name);

	if (!sync_string_equal(name, sync_string_literal("json_each")) || call->call.extras != 0)
	{
		/* the service finds out when it loads the plan */
		stream_fail(scope->text, SYNC_ERROR_UNSUPPORTED, call->offset,
					"the function \"%.*s\" cannot stand in FROM", SHOWN(name));
		stream_hint(scope->text, "Only json_each() can.");
		return false;
	}
	if (call->call.arg_count != 1)
	{
		stream_fail(scope->text, SYNC_ERROR_CONFIG, call->offset, "json_each() takes one argument");
		return false;
	}
	entry->relation = stream_json_each(scope, stream_expr(scope, call->call.args[0]), call->offset);
	return entry->relation != NULL;
}

/* ---------------------------------------------------------------- subqueries */

static void
index_column(const StreamScope *scope, StreamName *entry, int position, uint32_t offset)
{
	SyncString	name = entry->columns[position].name;

	if (name_index_find(&entry->column_index, name) < 0)
		name_index_add(&entry->column_index, name, position, scope->text->compiler->scratch);
	else
		stream_fail(scope->text, SYNC_ERROR_CONFIG, offset,
					"the subquery has a column \"%.*s\" already", SHOWN(name));
}

/*
 * The columns of a subquery's SELECT, renamed by what stands behind its alias.
 * What a CTE lacks is said where it is defined, not where it is used.
 */
static void
read_columns(const StreamScope *scope, const SqlSelect *select, const SqlSource *source,
			 StreamName *entry)
{
	bool		quiet = scope->in_cte && !scope->text->compiler->checks_cte;
	bool		has_name;

	entry->columns = arena_array(scope->text->compiler->scratch, StreamColumn,
								 (size_t) select->item_count);
	for (int i = 0; i < select->item_count; i++)
	{
		const SqlItem *item = &select->items[i];
		StreamColumn *column = &entry->columns[entry->column_count];

		if (item->expr->kind == SQL_STAR)
		{
			stream_fail(scope->text, SYNC_ERROR_CONFIG, item->expr->offset,
						"* is not supported in a subquery");
			stream_hint(scope->text, "Name the columns.");
			continue;
		}
		if (i < source->column_count)
			column->name = sql_name_string(&source->columns[i]);
		else
		{
			column->name = stream_item_name(scope, item, &has_name);
			if (!has_name && !quiet)
				stream_warn_unnamed(scope->text, item->expr->offset, column->name);
		}
		column->expr = stream_expr(scope, item->expr);
		index_column(scope, entry, entry->column_count++, item->expr->offset);
	}
}

static bool
select_source(const StreamScope *scope, const SqlSource *source, const StreamText *text,
			  const SqlSelect *select, bool in_cte, StreamCondition *conditions,
			  StreamName *entry)
{
	StreamScope inner = {.query = scope->query, .text = text, .in_cte = in_cte};

	if (select == NULL)
		return false;
	if (source->column_count > 0 && source->column_count != select->item_count)
	{
		stream_fail(scope->text, SYNC_ERROR_CONFIG, source->offset,
					"the subquery has %d columns, but %d names", select->item_count,
					source->column_count);
		return false;
	}
	stream_compile_from(&inner, select, conditions);
	if (select->where != NULL)
		stream_compile_where(&inner, select->where, conditions);
	read_columns(&inner, select, source, entry);
	return true;
}

void
stream_check_cte(StreamCte *cte)
{
	StreamQuery query = {.compiler = cte->text.compiler, .text = cte->text};
	StreamScope scope = {.query = &query, .text = &cte->text};
	SqlSource	source = {.column_count = 0};
	StreamName	entry = {.relation = NULL};

	cte->text.compiler->checks_cte = true;
	select_source(&scope, &source, &cte->text, cte->select, true,
				  stream_condition_new(&cte->text, CONDITION_AND, 0), &entry);
	cte->text.compiler->checks_cte = false;
}

static bool
any_source(const StreamScope *scope, const SqlSource *source, StreamCondition *conditions,
		   StreamName *entry)
{
	StreamCte  *cte = NULL;

	if (source->kind == SQL_SOURCE_CALL)
		return call_source(scope, source, entry);
	if (source->kind == SQL_SOURCE_SUBQUERY)
		return select_source(scope, source, scope->text,
							 stream_statement(scope->text, source->subquery), scope->in_cte,
							 conditions, entry);
	if (!sql_name_is_set(&source->schema))
		cte = stream_find_cte(scope, &source->name);
	if (cte != NULL)
		return select_source(scope, source, &cte->text, cte->select, true, conditions, entry);
	return table_source(scope, source, entry);
}

static void
check_join(const StreamScope *scope, const SqlSource *source)
{
	if (source->join != SQL_JOIN_NONE && source->join != SQL_JOIN_INNER)
	{
		stream_fail(scope->text, SYNC_ERROR_CONFIG, source->offset,
					"only inner joins are supported");
		stream_hint(scope->text, "Write JOIN ... ON.");
	}
	if (source->using_columns)
	{
		stream_fail(scope->text, SYNC_ERROR_CONFIG, source->offset, "USING is not supported");
		stream_hint(scope->text, "Write ON and the condition.");
	}
}

void
stream_compile_from(StreamScope *scope, const SqlSelect *select, StreamCondition *conditions)
{
	StreamName	entry;

	scope->names = arena_array(scope->text->compiler->scratch, StreamName,
							   (size_t) select->source_count);
	for (int i = 0; i < select->source_count && !scope->text->compiler->exhausted; i++)
	{
		check_join(scope, &select->sources[i]);
		entry = (StreamName) {.relation = NULL};
		entry.broken = !any_source(scope, &select->sources[i], conditions, &entry);
		add_name(scope, source_name(&select->sources[i]), &entry);
		if (select->sources[i].on != NULL)
			stream_compile_where(scope, select->sources[i].on, conditions);
	}
}
