/*-------------------------------------------------------------------------
 *
 * plan_check.c
 *	  What a plan reads, compared with the tables that there are: names that
 *	  do not exist, tables that cannot be replicated, or not whole.
 *
 * Works on the compiled plan, so it serves every front end; where names stand
 * it knows from the notes that the compilers took.
 *
 * Invariant: a plan is right or wrong without this: nothing here is fatal, and
 * no finding follows from another (of a table that does not exist, no column is
 * missed).
 *
 *-------------------------------------------------------------------------
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "hash_index.h"
#include "text.h"

/* of a wildcard that matches thousands of tables, so many are looked at closely */
#define TABLES_LOOKED_AT	100

/* names to compare before it is given up: about a second */
#define WORK_MAX			UINT64_C(300000000)

static const RulesMessage out_of_memory = {
	.level = RULES_WARNING,
	.error = {
		.code = SYNC_ERROR_OUT_OF_MEMORY,
		.message = "out of memory while the sync rules were compared with the database",
	},
};

/* ---------------------------------------------------------------- messages */

static bool
already_said(const Check *check, const SyncError *error)
{
	for (const RulesMessage *message = check->report.first; message; message = message->next)
	{
		if (message->error.line == error->line && message->error.column == error->column &&
			strcmp(message->error.message, error->message) == 0)
			return true;
	}
	return false;
}

void
check_add(Check *check, SyncErrorCode code, const PlanNote *place, const char *hint,
		  const char *format,...)
{
	SyncError	error;
	char		text[sizeof(error.message)];
	va_list		args;

	if (check->report.count >= RULES_REPORT_MAX)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	sync_error_set(&error, code, "%s", text);
	if (place != NULL && place->node != NULL)
		yaml_position(check->report.text, check->report.len, place->node, place->offset,
					  &error.line, &error.column);
	if (already_said(check, &error))
		return;
	report_error(&check->report, RULES_WARNING, &error);
	if (hint != NULL)
		report_hint(&check->report, "%s", hint);
}

/* by place; what says that there is more stays at the end */
static RulesMessage *
sorted(RulesMessage *messages)
{
	RulesMessage *first = NULL;

	while (messages != NULL)
	{
		RulesMessage *message = messages;
		RulesMessage **at = &first;

		messages = messages->next;
		while (*at != NULL && (message->error.code == SYNC_ERROR_LIMIT ||
							   (*at)->error.line < message->error.line ||
							   ((*at)->error.line == message->error.line &&
								(*at)->error.column <= message->error.column)))
			at = &(*at)->next;
		message->next = *at;
		*at = message;
	}
	return first;
}

/* ---------------------------------------------------------------- places */

static size_t
table_slot(const Check *check, const TablePattern *table)
{
	uint32_t	hash = hash_text(hash_text(hash_text(0, table->connection), table->schema),
								 table->table);

	return hash & (check->slot_count - 1);
}

/* the first note of the table; NULL: not known */
static const PlanNote *
place_of_table(const Check *check, const TablePattern *table)
{
	const PlanNote *note;

	for (size_t at = table_slot(check, table); (note = check->tables[at]) != NULL;
		 at = (at + 1) & (check->slot_count - 1))
	{
		if (pattern_equal(note->table, table))
			return note;
	}
	return NULL;
}

static size_t
first_slot(const Check *check, const void *about)
{
	uint64_t	hash = (uint64_t) (uintptr_t) about * UINT64_C(0x9E3779B97F4A7C15);

	return (size_t) (hash >> 32) & (check->slot_count - 1);
}

static void
index_table(Check *check, const PlanNote *note)
{
	size_t		at = table_slot(check, note->table);

	while (check->tables[at] != NULL)
	{
		if (pattern_equal(check->tables[at]->table, note->table))
			return;
		at = (at + 1) & (check->slot_count - 1);
	}
	check->tables[at] = note;
}

static void
index_notes(Check *check)
{
	size_t		count = 0;

	for (const PlanNote *note = check->plan->first_note; note != NULL; note = note->next)
		count++;
	check->slot_count = 8;
	while (check->slot_count < count * 2)
		check->slot_count *= 2;
	check->slots = arena_array(check->arena, const PlanNote *, check->slot_count);
	check->tables = arena_array(check->arena, const PlanNote *, check->slot_count);
	for (const PlanNote *note = check->plan->first_note; note != NULL; note = note->next)
	{
		size_t		at = first_slot(check, note->about);

		if (note->kind == NOTE_TABLE)
			index_table(check, note);
		if (note->kind != NOTE_COLUMN || note->about == NULL)
			continue;
		while (check->slots[at] != NULL)
			at = (at + 1) & (check->slot_count - 1);
		check->slots[at] = note;
	}
}

/* of this very occurrence, or else of the first one of the name */
static const PlanNote *
place_of_column(Check *check, const Expr *column)
{
	for (size_t at = first_slot(check, column); check->slots[at] != NULL;
		 at = (at + 1) & (check->slot_count - 1))
	{
		if (check->slots[at]->about == column)
			return check->slots[at];
	}
	for (const PlanNote *note = check->plan->first_note; note != NULL; note = note->next)
	{
		check->work++;
		if (note->kind == NOTE_COLUMN && pattern_equal(note->table, &check->source->table) &&
			sync_string_equal(note->name, column->name))
			return note;
	}
	return NULL;
}

const PlanNote *
check_place(Check *check, const Expr *expr)
{
	if (expr == NULL)
		return NULL;
	if (expr->kind == EXPR_COLUMN)
		return place_of_column(check, expr);
	for (int i = 0; i < expr->arg_count; i++)
	{
		const PlanNote *place = check_place(check, expr->args[i]);

		if (place != NULL)
			return place;
	}
	return NULL;
}

/* ---------------------------------------------------------------- names */

/* 0: the same but for capital letters; 3: nothing like it */
static int
distance(SyncString wanted, SyncString name)
{
	int			edits;

	if (text_equal_but_for_case(wanted, name))
		return 0;
	edits = report_distance(wanted, name.data);
	/* two letters of three are no likeness */
	return edits * 2 > (int) wanted.len ? 3 : edits;
}

static bool
is_folded(SyncString name)
{
	for (uint32_t i = 0; i < name.len; i++)
	{
		char		c = name.data[i];

		if (!((c >= 'a' && c <= 'z') || c == '_' || (i > 0 && c >= '0' && c <= '9')))
			return false;
	}
	return name.len > 0;
}

const char *
check_quoted(Check *check, SyncString name)
{
	return check_hint(check, is_folded(name) ? "%.*s" : "\"%.*s\"", NAMED(name));
}

static const char *
did_you_mean(Check *check, SyncString name)
{
	if (is_folded(name))
		return check_hint(check, "Did you mean \"%.*s\"?", NAMED(name));
	return check_hint(check, "Did you mean \"%.*s\"? Write it in double quotes.", NAMED(name));
}

static const SchemaColumn *
find_column(Check *check, const SchemaTable *table, SyncString name)
{
	check->work += (uint64_t) table->column_count;
	for (int i = 0; i < table->column_count; i++)
	{
		if (sync_string_equal(table->columns[i].name, name))
			return &table->columns[i];
	}
	return NULL;
}

const SchemaColumn *
check_column(Check *check, const Expr *expr)
{
	return expr->kind == EXPR_COLUMN ? find_column(check, check->table, expr->name) : NULL;
}

static bool
has_schema(const Check *check, SyncString name)
{
	for (int i = 0; i < check->schema->schema_count; i++)
	{
		if (sync_string_equal(check->schema->schemas[i], name))
			return true;
	}
	return false;
}

static void
unknown_schema(Check *check, const PlanNote *place, SyncString name)
{
	const char *hint = NULL;
	int			nearest = 3;

	for (int i = 0; i < check->schema->schema_count; i++)
	{
		int			edits = distance(name, check->schema->schemas[i]);

		if (edits >= nearest)
			continue;
		nearest = edits;
		hint = did_you_mean(check, check->schema->schemas[i]);
	}
	check_add(check, SYNC_ERROR_NO_TABLE, place, hint, "schema \"%.*s\" does not exist",
			  NAMED(name));
}

/* the nearest name in the same schema, else the same name in another */
static const char *
suggest_table(Check *check, const TablePattern *pattern)
{
	const SchemaTable *best = NULL;
	int			nearest = 3;

	for (int i = 0; i < check->schema->table_count; i++)
	{
		const SchemaTable *table = &check->schema->tables[i];
		int			edits = distance(pattern->table, table->name);

		if (table->kind != SCHEMA_TABLE || edits >= nearest ||
			!sync_string_equal(table->schema, pattern->schema))
			continue;
		nearest = edits;
		best = table;
	}
	if (best != NULL)
		return did_you_mean(check, best->name);
	for (int i = 0; i < check->schema->table_count; i++)
	{
		const SchemaTable *table = &check->schema->tables[i];

		if (table->kind == SCHEMA_TABLE && sync_string_equal(table->name, pattern->table))
			return check_hint(check, "There is one in schema \"%.*s\": write %s.%s.",
							  NAMED(table->schema), check_quoted(check, table->schema),
							  check_quoted(check, table->name));
	}
	return NULL;
}

static const char *
suggest_column(Check *check, SyncString name, const SchemaTable *table)
{
	const SchemaColumn *best = NULL;
	int			nearest = 3;

	for (int i = 0; i < table->column_count; i++)
	{
		int			edits = distance(name, table->columns[i].name);

		if (edits >= nearest)
			continue;
		nearest = edits;
		best = &table->columns[i];
	}
	return best != NULL ? did_you_mean(check, best->name) : NULL;
}

/* ---------------------------------------------------------------- tables */

static bool
pattern_is_exact(const TablePattern *pattern)
{
	return !pattern_is_wildcard(pattern->table) && !pattern_is_wildcard(pattern->schema);
}

static bool
matches(const TablePattern *pattern, const SchemaTable *table)
{
	return table->described &&
		sync_string_equal(pattern->connection, sync_string_literal(SYNC_DEFAULT_CONNECTION)) &&
		pattern_fits(pattern->schema, table->schema, NULL) &&
		pattern_fits(pattern->table, table->name, NULL);
}

/* tables that can be replicated and match; wanted: how many to take */
static int
tables_of(Check *check, const TablePattern *pattern, const SchemaTable **tables, int wanted)
{
	int			count = 0;

	check->work += (uint64_t) check->schema->table_count;
	for (int i = 0; i < check->schema->table_count && count < wanted; i++)
	{
		const SchemaTable *table = &check->schema->tables[i];

		if (table->kind == SCHEMA_TABLE && matches(pattern, table))
			tables[count++] = table;
	}
	return count;
}

const char *
schema_kind_fault(SchemaTableKind kind, const char **hint)
{
	static const struct
	{
		const char *what;
		const char *hint;
	}			reasons[] = {
		[SCHEMA_PARTITIONED] = {"is partitioned: its rows are in its partitions",
		"Name the partitions, or all of them by a wildcard, or set publish_via_partition_root of the publication."},
		[SCHEMA_PARTITION] = {"is a partition: its rows are published as its root's",
		"Name the root table (the publication has publish_via_partition_root)."},
		[SCHEMA_VIEW] = {"is a view: it cannot be replicated", "Name the tables that it reads."},
		[SCHEMA_MATERIALIZED_VIEW] = {"is a materialized view: it cannot be replicated",
		"Name the tables that it reads."},
		[SCHEMA_FOREIGN] = {"is a foreign table: it cannot be replicated",
		"Keep its rows in a table of this database, and name that one."},
		[SCHEMA_TEMPORARY] = {"is a temporary table: it cannot be replicated", NULL},
		[SCHEMA_UNLOGGED] = {"is unlogged: it cannot be replicated",
		"Use ALTER TABLE ... SET LOGGED."},
		[SCHEMA_SYSTEM] = {"is a system table: it cannot be replicated", NULL},
		[SCHEMA_OTHER_METHOD] = {"does not use the access method \"heap\": it cannot be replicated",
		NULL},
	};

	*hint = reasons[kind].hint;
	return reasons[kind].what;
}

static void
cannot_be_replicated(Check *check, const PlanNote *place, const SchemaTable *table)
{
	const char *hint;
	const char *what = schema_kind_fault(table->kind, &hint);

	check_add(check, SYNC_ERROR_UNSUPPORTED, place, hint, "\"%.*s.%.*s\" %s",
			  NAMED(table->schema), NAMED(table->name), what);
}

/* how many of the tables that a wildcard matches have a fault, and which is one of them */
typedef struct Faulty
{
	int			count;
	const SchemaTable *example;
} Faulty;

static void
count_fault(Faulty *faulty, bool fault, const SchemaTable *table)
{
	if (fault && faulty->count++ == 0)
		faulty->example = table;
}

static void
add_table_fault(Check *check, const TablePattern *pattern, const Faulty *faulty, const char *hint,
				const char *what)
{
	const SchemaTable *table = faulty->example;
	const PlanNote *place;

	if (faulty->count == 0)
		return;
	place = place_of_table(check, pattern);
	if (pattern_is_exact(pattern))
		check_add(check, SYNC_ERROR_CONFIG, place, hint, "table \"%.*s.%.*s\" %s",
				  NAMED(table->schema), NAMED(table->name), what);
	else
		check_add(check, SYNC_ERROR_CONFIG, place, hint,
				  "table \"%.*s.%.*s\" %s (%d of the tables that \"%.*s.%.*s\" matches)",
				  NAMED(table->schema), NAMED(table->name), what, faulty->count,
				  NAMED(pattern->schema), NAMED(pattern->table));
}

/* what tables lack, said once for each pattern */
static void
check_properties(Check *check, const TablePattern *pattern)
{
	const SchemaDescription *schema = check->schema;
	const char *publication = schema->publication != NULL ? schema->publication : "";
	Faulty		identity = {0};
	Faulty		unpublished = {0};
	Faulty		filtered = {0};
	Faulty		columns = {0};

	check->work += (uint64_t) schema->table_count;
	for (int i = 0; i < schema->table_count; i++)
	{
		const SchemaTable *table = &schema->tables[i];

		if (table->kind != SCHEMA_TABLE || !matches(pattern, table))
			continue;
		count_fault(&identity, !table->has_identity, table);
		count_fault(&unpublished, !table->published, table);
		count_fault(&filtered, table->row_filter, table);
		count_fault(&columns, table->column_list, table);
	}
	add_table_fault(check, pattern, &unpublished,
					unpublished.count == 0 ? NULL :
					check_hint(check, "Use ALTER PUBLICATION %s ADD TABLE %s.%s.",
							   check_quoted(check, (SyncString) {publication,
											(uint32_t) strlen(publication)}),
							   check_quoted(check, unpublished.example->schema),
							   check_quoted(check, unpublished.example->name)),
					arena_printf(check->arena, "is not in publication \"%s\": it is not replicated",
								 publication));
	add_table_fault(check, pattern, &identity, "Add a primary key, or use ALTER TABLE ... REPLICA "
					"IDENTITY FULL.", "has no replica identity: only inserts are replicated");
	add_table_fault(check, pattern, &filtered, "Select rows in the sync rules instead.",
					arena_printf(check->arena, "has a row filter in publication \"%s\", which "
								 "pgsync does not use", publication));
	add_table_fault(check, pattern, &columns, "Select columns in the sync rules instead.",
					arena_printf(check->arena, "has a column list in publication \"%s\", which "
								 "pgsync does not use", publication));
}

/* a pattern that nothing fits: shown wherever it stands, as each place has to be mended */
static void
report_no_table(Check *check, const TablePattern *pattern, const PlanNote *place)
{
	if (!sync_string_equal(pattern->connection, sync_string_literal(SYNC_DEFAULT_CONNECTION)))
		check_add(check, SYNC_ERROR_NO_TABLE, place,
				  "The only connection is \"" SYNC_DEFAULT_CONNECTION "\".",
				  "there is no connection \"%.*s\": nothing is read from it",
				  NAMED(pattern->connection));
	else if (!pattern_is_exact(pattern))
		check_add(check, SYNC_ERROR_NO_TABLE, place, NULL,
				  "\"%.*s.%.*s\" matches no table that could be replicated",
				  NAMED(pattern->schema), NAMED(pattern->table));
	else if (!has_schema(check, pattern->schema))
		unknown_schema(check, place, pattern->schema);
	else
		check_add(check, SYNC_ERROR_NO_TABLE, place, suggest_table(check, pattern),
				  "table \"%.*s.%.*s\" does not exist", NAMED(pattern->schema),
				  NAMED(pattern->table));
}

static void
check_missing_table(Check *check, const TablePattern *pattern)
{
	const SchemaTable *other = NULL;
	const PlanNote *place = place_of_table(check, pattern);

	check->work += (uint64_t) check->schema->table_count;
	for (int i = 0; i < check->schema->table_count && other == NULL; i++)
	{
		if (matches(pattern, &check->schema->tables[i]))
			other = &check->schema->tables[i];
	}
	if (other != NULL && pattern_is_exact(pattern))
	{
		cannot_be_replicated(check, place, other);
		return;
	}
	if (place == NULL)
		report_no_table(check, pattern, NULL);
	for (; place != NULL; place = place->next)
	{
		if (place->kind == NOTE_TABLE && pattern_equal(place->table, pattern))
			report_no_table(check, pattern, place);
	}
}

static void
check_table(Check *check, const TablePattern *pattern)
{
	const SchemaTable *table;

	if (tables_of(check, pattern, &table, 1) == 0)
		check_missing_table(check, pattern);
	else
		check_properties(check, pattern);
}

/* ---------------------------------------------------------------- columns */

static bool
is_suffix_column(const TablePattern *pattern, SyncString name)
{
	return pattern_is_wildcard(pattern->table) &&
		sync_string_equal(name, sync_string_literal("_table_suffix"));
}

/* with a wildcard it is enough if one of the tables has the column */
static void
check_column_name(Check *check, const TablePattern *pattern, SyncString name, const PlanNote *place)
{
	const SchemaTable *first = NULL;
	const SchemaColumn *column = NULL;

	if (is_suffix_column(pattern, name))
		return;
	check->work += (uint64_t) check->schema->table_count;
	for (int i = 0; i < check->schema->table_count && column == NULL; i++)
	{
		const SchemaTable *table = &check->schema->tables[i];

		if (table->kind != SCHEMA_TABLE || !matches(pattern, table))
			continue;
		first = first == NULL ? table : first;
		column = find_column(check, table, name);
	}
	if (first == NULL)
		return;
	if (column != NULL)
	{
		if (column->unpublished)
			check_add(check, SYNC_ERROR_NO_COLUMN, place, NULL,
					  "column \"%.*s\" is not in the column list of publication \"%s\"",
					  NAMED(name), check->schema->publication);
	}
	else if (pattern_is_exact(pattern))
		check_add(check, SYNC_ERROR_NO_COLUMN, place, suggest_column(check, name, first),
				  "table \"%.*s.%.*s\" has no column \"%.*s\"", NAMED(first->schema),
				  NAMED(first->name), NAMED(name));
	else
		check_add(check, SYNC_ERROR_NO_COLUMN, place, suggest_column(check, name, first),
				  "no table that \"%.*s.%.*s\" matches has a column \"%.*s\"",
				  NAMED(pattern->schema), NAMED(pattern->table), NAMED(name));
}

/* names of a plan without notes */
static void
check_names_in(Check *check, const Expr *expr)
{
	if (expr == NULL)
		return;
	if (expr->kind == EXPR_COLUMN && place_of_column(check, expr) == NULL)
		check_column_name(check, &check->source->table, expr->name, NULL);
	for (int i = 0; i < expr->arg_count; i++)
		check_names_in(check, expr->args[i]);
}

/* ---------------------------------------------------------------- items */

/* the value of "id" decides a row's id: is there one? */
static void
check_id(Check *check, const PlanSource *source)
{
	SyncString	id = sync_string_literal("id");
	const SchemaColumn *column;
	bool		star = false;

	for (int i = 0; i < source->item_count; i++)
	{
		if (source->items[i].expr == NULL)
			star = true;
		else if (sync_string_equal(source->items[i].name, id))
			return;
	}
	column = star ? find_column(check, check->table, id) : NULL;
	if (column == NULL)
		check_add(check, SYNC_ERROR_NO_COLUMN, place_of_table(check, &source->table),
				  "Select the key column AS id.",
				  star ? "table \"%.*s.%.*s\" has no column \"id\": all of its rows get an empty id" :
				  "no \"id\" is selected from table \"%.*s.%.*s\": all of its rows get an empty id",
				  NAMED(check->table->schema), NAMED(check->table->name));
	else if (column->value == SCHEMA_BLOB)
		check_add(check, SYNC_ERROR_TYPE, place_of_table(check, &source->table),
				  "Select hex(id) AS id before *.",
				  "column \"id\" of table \"%.*s.%.*s\" is of type %s: all of its rows get an empty id",
				  NAMED(check->table->schema), NAMED(check->table->name), column->type);
}

static void
check_items(Check *check, const PlanSource *source)
{
	for (int i = 0; i < source->item_count; i++)
	{
		const Expr *expr = source->items[i].expr;

		if (expr == NULL)
			continue;
		check_expr(check, expr);
		if (check_kinds(check, expr) == CAN_BE_BLOB ||
			check_kinds(check, expr) == (CAN_BE_BLOB | CAN_BE_NULL))
			check_add(check, SYNC_ERROR_TYPE, check_place(check, expr),
					  "Select it by hex() or base64().",
					  "\"%.*s\" is a blob: it is left out of the data",
					  NAMED(source->items[i].name));
	}
}

/* ---------------------------------------------------------------- sources */

static void
check_match_exprs(Check *check, const PlanMatch *match)
{
	if (match == NULL)
		return;
	if (match->expr != NULL)
		check_expr(check, match->expr);
	for (int i = 0; i < match->child_count; i++)
		check_match_exprs(check, match->children[i]);
}

static void
check_match_names(Check *check, const PlanMatch *match)
{
	if (match == NULL)
		return;
	check_names_in(check, match->expr);
	for (int i = 0; i < match->child_count; i++)
		check_match_names(check, match->children[i]);
}

/* a source, for each table that it reads, until something is found */
static void
check_source(Check *check, const PlanSource *source, bool has_ids)
{
	const SchemaTable **tables = arena_array(check->arena, const SchemaTable *, TABLES_LOOKED_AT);
	int			count = tables_of(check, &source->table, tables, TABLES_LOOKED_AT);
	int			before;

	check->source = source;
	for (int i = 0; i < source->item_count; i++)
		check_names_in(check, source->items[i].expr);
	check_match_names(check, source->match);
	before = check->report.count;
	for (int t = 0; t < count && check->report.count == before &&
		 check->work < WORK_MAX; t++)
	{
		check->table = tables[t];
		check_items(check, source);
		for (int i = 0; i < source->expansion_count; i++)
			check_expr(check, source->expansions[i]);
		check_match_exprs(check, source->match);
		check_conditions(check, source->match);
		if (has_ids)
			check_id(check, source);
	}
}

/* ---------------------------------------------------------------- all of it */

/* false: there has been too much to compare */
static bool
goes_on(const Check *check)
{
	return check->work < WORK_MAX && check->report.count < RULES_REPORT_MAX;
}

static void
check_publication(Check *check)
{
	const SchemaDescription *schema = check->schema;

	if (schema->publication == NULL)
		return;
	if (schema->publication_missing)
		check_add(check, SYNC_ERROR_NO_TABLE, NULL,
				  "Create the publication, or set \"pgsync.publication\" to an empty string.",
				  "publication \"%s\" does not exist: every table that the rules name is replicated",
				  schema->publication);
}

static void
check_all(Check *check)
{
	const SyncPlan *plan = check->plan;

	index_notes(check);
	check_publication(check);
	for (int i = 0; i < plan->table_count && goes_on(check); i++)
		check_table(check, &plan->tables[i]);
	for (const PlanNote *note = plan->first_note; note != NULL && goes_on(check); note = note->next)
	{
		if (note->kind == NOTE_CONNECTION)
			check_add(check, SYNC_ERROR_CONFIG, note,
					  "The only connection is \"" SYNC_DEFAULT_CONNECTION "\".",
					  "the connection \"%.*s\" is ignored: streams read from \""
					  SYNC_DEFAULT_CONNECTION "\"", NAMED(note->name));
		if (note->kind == NOTE_COLUMN)
			check_column_name(check, note->table, note->name, note);
	}
	for (int i = 0; i < plan->source_count && goes_on(check); i++)
		check_source(check, &plan->sources[i], true);
	for (int i = 0; i < plan->index_count && goes_on(check); i++)
		check_source(check, &plan->indexes[i].source, false);
	if (check->work >= WORK_MAX)
		check_add(check, SYNC_ERROR_LIMIT, NULL, NULL,
				  "there is too much to compare: not all of the rules were compared with the database");
}

const RulesMessage *
plan_check(const SyncPlan *plan, const char *yaml, size_t len, const SchemaDescription *schema,
		   SyncArena *arena)
{
	Check		check = {.arena = arena, .plan = plan, .schema = schema};
	ArenaGuard	guard;
	volatile bool failed = false;

	report_init(&check.report, arena, yaml, len);
	arena_guard_push(arena, &guard);
	if (setjmp(guard.jump) == 0)
		check_all(&check);
	else
		failed = true;
	arena_guard_pop(arena, &guard);
	return failed ? &out_of_memory : sorted(check.report.first);
}
