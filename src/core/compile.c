/*-------------------------------------------------------------------------
 *
 * compile.c
 *	  What the compilers of all front ends need around expressions: reading a
 *	  statement, table names, names of items, messages placed in the YAML text.
 *
 *-------------------------------------------------------------------------
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "compile.h"

/* ---------------------------------------------------------------- messages */

void
compile_fail(QueryCompiler *query, SyncErrorCode code, uint32_t offset, const char *format,...)
{
	char		text[sizeof(((SyncError *) 0)->message)];
	va_list		args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	report_offset(query->compiler->report, RULES_FATAL, code, query->node, offset, "%s", text);
}

void
compile_warn(QueryCompiler *query, uint32_t offset, const char *format,...)
{
	char		text[sizeof(((SyncError *) 0)->message)];
	va_list		args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	report_offset(query->compiler->report, RULES_WARNING, SYNC_ERROR_CONFIG, query->node, offset,
				  "%s", text);
}

void
compile_check_case(QueryCompiler *query, const SqlName *name)
{
	if (name->quoted || memcmp(name->text, name->original, name->len) == 0)
		return;
	compile_warn(query, name->offset, "unquoted \"%.*s\" means \"%.*s\"",
				 name->len > 60 ? 60 : (int) name->len, name->original,
				 name->len > 60 ? 60 : (int) name->len, name->text);
	report_hint(query->compiler->report, "Put it in double quotes to keep capital letters.");
}

/* ---------------------------------------------------------------- notes */

static PlanNote *
add_note(Compiler *compiler, PlanNoteKind kind, const TablePattern *table, const YamlNode *node,
		 uint32_t offset)
{
	PlanNote   *note = arena_new(compiler->arena, PlanNote);
	SyncPlan   *plan = compiler->plan;
	TablePattern *copy;

	note->kind = kind;
	if (plan->last_note != NULL && pattern_equal(plan->last_note->table, table))
		note->table = plan->last_note->table;
	else
	{
		copy = arena_new(compiler->arena, TablePattern);
		*copy = *table;
		note->table = copy;
	}
	note->node = node;
	note->offset = offset;
	if (plan->last_note == NULL)
		plan->first_note = note;
	else
		plan->last_note->next = note;
	plan->last_note = note;
	return note;
}

void
compile_note_table(Compiler *compiler, const TablePattern *table, const YamlNode *node,
				   uint32_t offset)
{
	add_note(compiler, NOTE_TABLE, table, node, offset);
}

void
compile_note_column(Compiler *compiler, const TablePattern *table, SyncString column,
					const Expr *about, const YamlNode *node, uint32_t offset)
{
	PlanNote   *note = add_note(compiler, NOTE_COLUMN, table, node, offset);

	note->name = column;
	note->about = about;
}

void
compile_note_connection(Compiler *compiler, const TablePattern *table, SyncString connection,
						const YamlNode *node, uint32_t offset)
{
	add_note(compiler, NOTE_CONNECTION, table, node, offset)->name = connection;
}

void
compile_note_condition(Compiler *compiler, const TablePattern *table, const void *about,
					   const YamlNode *node, uint32_t offset)
{
	add_note(compiler, NOTE_CONDITION, table, node, offset)->about = about;
}

/* byte offset of a line and column (in characters) of a text */
static size_t
offset_of_position(SyncString text, int line, int column)
{
	size_t		at = 0;

	for (; line > 1 && at < text.len; at++)
		line -= text.data[at] == '\n';
	for (; column > 1 && at < text.len; column--)
	{
		at++;
		while (at < text.len && ((unsigned char) text.data[at] & 0xC0) == 0x80)
			at++;
	}
	return at;
}

static void
report_sql_error(RulesReport *report, const ConfigSql *sql, const SyncError *error)
{
	SyncError	placed = *error;

	yaml_position(report->text, report->len, sql->node,
				  offset_of_position(sql->text, error->line, error->column),
				  &placed.line, &placed.column);
	report_error(report, RULES_FATAL, &placed);
}

/* ---------------------------------------------------------------- statements */

void
compile_begin(Compiler *compiler, const ConfigSql *sql)
{
	arena_reset(compiler->scratch);
	compiler->report->at = sql->node;
}

void
compile_query_init(QueryCompiler *query, Compiler *compiler, QueryKind kind)
{
	memset(query, 0, sizeof(*query));
	query->compiler = compiler;
	query->kind = kind;
}

const SqlSelect *
compile_statement(QueryCompiler *query, const SqlStatement *statement)
{
	int			clause;

	if (statement->kind != SQL_SELECT)
	{
		compile_fail(query, SYNC_ERROR_CONFIG, statement->offset,
					 "only SELECT statements are supported");
		return NULL;
	}
	clause = sql_first_clause(statement->select);
	if (clause >= 0)
	{
		compile_fail(query, SYNC_ERROR_CONFIG, statement->select->clauses[clause],
					 "%s is not supported", sql_clause_name((SqlClause) clause));
		return NULL;
	}
	return statement->select;
}

const SqlScript *
compile_parse(Compiler *compiler, const ConfigSql *sql, SyncArena *tree)
{
	SyncError	error;
	const SqlScript *script = sql_parse(sql->text.data, sql->text.len, compiler->arena, tree,
										&error);

	if (script == NULL)
		report_sql_error(compiler->report, sql, &error);
	return script;
}

const SqlSelect *
compile_select(QueryCompiler *query, const ConfigSql *sql)
{
	const SqlStatement *statement;

	query->node = sql->node;
	query->script = compile_parse(query->compiler, sql, query->compiler->scratch);
	if (query->script == NULL)
		return NULL;
	statement = query->script->first;
	if (query->script->count > 1)
	{
		compile_fail(query, SYNC_ERROR_CONFIG, statement->next->offset,
					 "only one statement is allowed");
		return NULL;
	}
	return compile_statement(query, statement);
}

/*
 * sync-rules.md, 3.1: a dot in the schema's name splits off the connection.
 */
static bool
pattern_of_source(QueryCompiler *query, const SqlSource *source, TablePattern *pattern)
{
	SyncString	schema = query->compiler->default_schema;
	const char *dot;

	pattern->connection = sync_string_literal(SYNC_DEFAULT_CONNECTION);
	pattern->table = sql_name_string(&source->name);
	if (sql_name_is_set(&source->schema))
	{
		schema = sql_name_string(&source->schema);
		dot = memchr(schema.data, '.', schema.len);
		if (dot != NULL)
		{
			pattern->connection = (SyncString) {schema.data, (uint32_t) (dot - schema.data)};
			schema.len -= pattern->connection.len + 1;
			schema.data = dot + 1;
			if (memchr(schema.data, '.', schema.len) != NULL)
			{
				compile_fail(query, SYNC_ERROR_CONFIG, source->schema.offset,
							 "a schema name can hold one dot, between connection and schema");
				return false;
			}
		}
	}
	/* as in the service, which cannot tell the parts of a longer name apart */
	else if (!sql_name_is_set(&source->alias))
		compile_check_case(query, &source->name);
	pattern->schema = schema;
	return true;
}

bool
compile_table(QueryCompiler *query, const SqlSelect *select, TablePattern *pattern)
{
	const SqlSource *source = select->sources;

	if (select->source_count != 1 || source->kind != SQL_SOURCE_TABLE)
	{
		compile_fail(query, SYNC_ERROR_CONFIG,
					 select->source_count > 0 ? select->sources[select->source_count - 1].offset :
					 query->script->first->offset,
					 "a query must read from exactly one table");
		return false;
	}
	/* names of columns behind the alias mean nothing to the service */
	if (!pattern_of_source(query, source, pattern))
		return false;
	query->table = *pattern;
	compile_note_table(query->compiler, pattern, query->node, source->name.offset);
	query->table_name = sql_name_string(sql_name_is_set(&source->alias) ? &source->alias :
										&source->name);
	return true;
}

void
compile_add_table(Compiler *compiler, const TablePattern *pattern)
{
	SyncPlan   *plan = compiler->plan;
	uint32_t	hash = hash_text(hash_text(0, pattern->schema), pattern->table);

	for (int i = hash_index_first(&compiler->tables, hash); i >= 0;
		 i = hash_index_next(&compiler->tables, i))
	{
		if (pattern_equal(&plan->tables[i], pattern))
			return;
	}
	hash_index_add(&compiler->tables, hash, compiler->arena);
	plan->tables[plan->table_count++] = *pattern;
}

bool
compile_item_name(QueryCompiler *query, const SqlItem *item, SyncString *name)
{
	if (sql_name_is_set(&item->alias))
		*name = sql_name_string(&item->alias);
	else if (item->expr->kind == SQL_COLUMN)
		*name = sql_name_string(&item->expr->column.name);
	else
	{
		compile_fail(query, SYNC_ERROR_CONFIG, item->expr->offset, "an expression needs a name");
		report_hint(query->compiler->report, "Add AS and a name behind it.");
		return false;
	}
	return true;
}
