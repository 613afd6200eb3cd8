/*-------------------------------------------------------------------------
 *
 * bind.c
 *	  Resolves a plan for one table: columns to positions, * to columns, the
 *	  order of output fields, names of buckets as far as they are constant.
 *
 * Does not look at rows.
 *
 * Invariant: a binding points neither into the plan nor into the row type it
 * was made from, except to function tables, which are constant data.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "binding.h"
#include "hash_index.h"
#include "json.h"
#include "text.h"

typedef struct Binder
{
	const SyncPlan *plan;
	SyncString	prefix;
	ExprScope	scope;
	SyncArena  *arena;
	TableBinding *binding;
	NameIndex	names;			/* of the fields of the source in hand */
} Binder;

static SyncString
copy_string(SyncString s, SyncArena *arena)
{
	return (SyncString) {arena_strndup(arena, s.data, s.len), s.len};
}

static void
copy_row_type(const SyncRowType *type, SyncRowType *copy, SyncArena *arena)
{
	SyncColumn *columns = arena_array(arena, SyncColumn, (size_t) type->column_count);
	int		   *identity = arena_array(arena, int, (size_t) type->identity_count);

	for (int i = 0; i < type->column_count; i++)
		columns[i].name = copy_string(type->columns[i].name, arena);
	if (type->identity_count > 0)
		memcpy(identity, type->identity, sizeof(int) * (size_t) type->identity_count);
	*copy = (SyncRowType) {
		.column_count = type->column_count,
		.columns = columns,
		.identity_count = type->identity_count,
		.identity = identity,
	};
}

/* whether the table fits, and what its wildcard stands for */
static bool
binder_table_fits(Binder *binder, const TablePattern *pattern)
{
	return sync_string_equal(pattern->connection, sync_string_literal(SYNC_DEFAULT_CONNECTION)) &&
		pattern_fits(pattern->schema, binder->scope.schema, NULL) &&
		pattern_fits(pattern->table, binder->scope.table, &binder->scope.suffix);
}

/* ---------------------------------------------------------------- match */

static PlanMatch *
bind_match(Binder *binder, const PlanMatch *match)
{
	PlanMatch  *bound = arena_new(binder->arena, PlanMatch);

	*bound = *match;
	if (match->expr != NULL)
		bound->expr = expr_bind(match->expr, &binder->scope, binder->arena);
	bound->children = arena_array(binder->arena, PlanMatch *, (size_t) match->child_count);
	for (int i = 0; i < match->child_count; i++)
		bound->children[i] = bind_match(binder, match->children[i]);
	return bound;
}

/* counts leaves; false if the tree is no plain conjunction with one comparison per key */
static bool
match_is_simple(const PlanMatch *match, BoundSource *source)
{
	switch (match->kind)
	{
		case MATCH_CONDITION:
			source->condition_count++;
			return true;
		case MATCH_ELEMENTS:
		case MATCH_OVERLAP:
		case MATCH_MEMBERS:
			if (source->rules == SOURCE_LEGACY)
				return false;
			/* FALLTHROUGH */
		case MATCH_EQUAL:
		case MATCH_VALUE:
			if (source->keys[match->key] != NULL)
				return false;
			source->keys[match->key] = match;
			return true;
		case MATCH_AND:
			for (int i = 0; i < match->child_count; i++)
			{
				if (!match_is_simple(match->children[i], source))
					return false;
			}
			return true;
		case MATCH_OR:
			return false;
	}
	return false;
}

static void
collect_conditions(const PlanMatch *match, BoundSource *source)
{
	if (match->kind == MATCH_CONDITION)
		source->conditions[source->condition_count++] = match->expr;
	for (int i = 0; i < match->child_count; i++)
		collect_conditions(match->children[i], source);
}

static void
bind_where(Binder *binder, const PlanSource *plan, BoundSource *source)
{
	PlanMatch  *match;
	bool		simple;

	source->key_count = plan->key_count;
	source->keys = arena_array(binder->arena, const PlanMatch *, (size_t) plan->key_count);
	if (plan->match == NULL)
		return;
	match = bind_match(binder, plan->match);
	simple = match_is_simple(match, source);
	for (int i = 0; i < plan->key_count; i++)
		simple = simple && source->keys[i] != NULL;
	if (!simple)
	{
		source->match = match;
		return;
	}
	source->conditions = arena_array(binder->arena, const Expr *, (size_t) source->condition_count);
	source->condition_count = 0;
	collect_conditions(match, source);
}

/* ---------------------------------------------------------------- items */

/* the field of the name, or NULL */
static BoundField *
find_field(Binder *binder, BoundSource *source, SyncString name)
{
	int			i = name_index_find(&binder->names, name);

	return i >= 0 ? &source->fields[i] : NULL;
}

static BoundField *
add_field(Binder *binder, BoundSource *source, SyncString name)
{
	BoundField *field = &source->fields[source->field_count++];
	SyncBuffer	key;

	buffer_init(&key, binder->arena, name.len + 4);
	json_append_text(&key, name.data, name.len);
	buffer_append_char(&key, ':');
	field->json_key = buffer_string(&key);
	field->name = copy_string(name, binder->arena);
	field->position = -1;
	field->fallback = -1;
	field->next_same = -1;
	return field;
}

/* one that find_field() finds: no field has the name yet */
static BoundField *
add_named_field(Binder *binder, BoundSource *source, SyncString name)
{
	BoundField *field = add_field(binder, source, name);

	name_index_add(&binder->names, field->name, source->field_count - 1, binder->arena);
	return field;
}

/* an item overwrites what stood under its name and keeps the place */
static void
bind_item(Binder *binder, BoundSource *source, const PlanItem *item)
{
	const Expr *expr = expr_bind(item->expr, &binder->scope, binder->arena);
	BoundField *field = find_field(binder, source, item->name);

	if (field == NULL)
		field = add_named_field(binder, source, item->name);
	else if (field->expr != NULL)
		source->checks[source->check_count++] = field->expr;
	field->expr = expr->kind == EXPR_POSITION ? NULL : expr;
	field->position = expr->kind == EXPR_POSITION ? expr->position : -1;
	field->fallback = -1;
}

/*
 * sync-rules.md, 3.2: columns beginning with _ are left out; a value under the
 * same name stays unless it is NULL.
 */
static void
bind_star(Binder *binder, BoundSource *source)
{
	const SyncRowType *type = binder->scope.row_type;

	for (int i = 0; i < type->column_count; i++)
	{
		SyncString	name = type->columns[i].name;
		BoundField *field;

		if (name.len > 0 && name.data[0] == '_')
			continue;
		field = find_field(binder, source, name);
		if (field == NULL)
		{
			field = add_named_field(binder, source, name);
			field->position = i;
		}
		else if (field->expr != NULL || field->position != i)
			field->fallback = i;
	}
}

/*
 * sync-rules.md, 7.3: every assignment keeps a field of its own, since which
 * of those with one name counts depends on the row (blobs do not).
 */
static void
bind_assignment(Binder *binder, BoundSource *source, SyncString name, const Expr *expr,
				int position)
{
	BoundField *field = add_field(binder, source, name);

	field->expr = expr;
	field->position = position;
}

static void
bind_compiled_item(Binder *binder, BoundSource *source, const PlanItem *item)
{
	const SyncRowType *type = binder->scope.row_type;
	const Expr *expr;

	if (item->expr == NULL)
	{
		for (int i = 0; i < type->column_count; i++)
			bind_assignment(binder, source, type->columns[i].name, NULL, i);
		return;
	}
	expr = expr_bind(item->expr, &binder->scope, binder->arena);
	if (expr->kind == EXPR_POSITION)
		bind_assignment(binder, source, item->name, NULL, expr->position);
	else
		bind_assignment(binder, source, item->name, expr, -1);
}

/* a field whose name is an array index */
typedef struct IndexField
{
	uint32_t	index;
	int			position;
} IndexField;

static int
compare_index_fields(const void *a, const void *b)
{
	const IndexField *x = a;
	const IndexField *y = b;

	if (x->index != y->index)
		return x->index < y->index ? -1 : 1;
	return x->position < y->position ? -1 : x->position > y->position;
}

/* names that are array indexes come first, ascending; the rest keeps its order */
static void
sort_fields(BoundSource *source, SyncArena *arena)
{
	IndexField *indexes = arena_array(arena, IndexField, (size_t) source->field_count + 1);
	BoundField *fields = source->fields;
	int			index_count = 0;
	int			count;

	for (int i = 0; i < source->field_count; i++)
	{
		if (text_array_index(fields[i].name, &indexes[index_count].index))
			indexes[index_count++].position = i;
	}
	if (index_count == 0)
		return;
	qsort(indexes, (size_t) index_count, sizeof(*indexes), compare_index_fields);
	source->fields = arena_array(arena, BoundField, (size_t) source->field_count);
	for (count = 0; count < index_count; count++)
		source->fields[count] = fields[indexes[count].position];
	for (int i = 0; i < source->field_count; i++)
	{
		uint32_t	ignored;

		if (!text_array_index(fields[i].name, &ignored))
			source->fields[count++] = fields[i];
	}
}

/* fields with the same name know of each other */
static void
chain_fields(Binder *binder, BoundSource *source)
{
	int		   *newest = arena_array(binder->arena, int, (size_t) source->field_count);

	for (int i = 0; i < source->field_count; i++)
	{
		BoundField *field = &source->fields[i];
		int			first = name_index_find(&binder->names, field->name);

		if (first < 0)
		{
			name_index_add(&binder->names, field->name, i, binder->arena);
			newest[i] = i;
			continue;
		}
		source->fields[newest[first]].next_same = i;
		newest[first] = i;
		field->again = true;
		source->has_repeated = true;
	}
}

static void
bind_items(Binder *binder, const PlanSource *plan, BoundSource *source)
{
	size_t		capacity = 0;

	for (int i = 0; i < plan->item_count; i++)
		capacity += plan->items[i].expr != NULL ? 1 : (size_t) binder->scope.row_type->column_count;
	source->fields = arena_array(binder->arena, BoundField, capacity);
	source->checks = arena_array(binder->arena, const Expr *, (size_t) plan->item_count);
	binder->names = (NameIndex) {.names = NULL};
	for (int i = 0; i < plan->item_count; i++)
	{
		if (plan->rules == SOURCE_COMPILED)
			bind_compiled_item(binder, source, &plan->items[i]);
		else if (plan->items[i].expr != NULL)
			bind_item(binder, source, &plan->items[i]);
		else
			bind_star(binder, source);
	}
	sort_fields(source, binder->arena);
	if (plan->rules == SOURCE_COMPILED)
		chain_fields(binder, source);

	source->id_field = -1;
	source->json_key_bytes = 2;
	for (int i = 0; i < source->field_count; i++)
	{
		if (source->id_field < 0 &&
			sync_string_equal(source->fields[i].name, sync_string_literal("id")))
			source->id_field = i;
		source->json_key_bytes += source->fields[i].json_key.len + 1;
	}
}

/*
 * sync-rules.md, 4: the conditions of an alpha stream look for the row under
 * the table's name as the rules have it.  With a wildcard they find none, so
 * no column exists for them.
 */
static bool
row_is_unseen(Binder *binder, const PlanSource *plan)
{
	return plan->rules == SOURCE_ALPHA &&
		!sync_string_equal(plan->table.table, binder->scope.table);
}

/* the fields of another source of the same query */
static void
share_items(const BoundSource *other, BoundSource *source)
{
	source->field_count = other->field_count;
	source->fields = other->fields;
	source->id_field = other->id_field;
	source->has_repeated = other->has_repeated;
	source->json_key_bytes = other->json_key_bytes;
	source->check_count = other->check_count;
	source->checks = other->checks;
}

/* same_items: a bound source with the same items, or NULL */
static void
bind_source(Binder *binder, const PlanSource *plan, BoundSource *source, bool is_index,
			const BoundSource *same_items)
{
	static const SyncRowType no_columns = {.column_count = 0};
	SyncString	table = plan->output_table.len > 0 ? plan->output_table : binder->scope.table;
	ExprScope	scope = binder->scope;

	source->rules = plan->rules;
	scope.has_suffix_column = plan->suffix_column && pattern_is_wildcard(plan->table.table);
	source->output_table = text_well_formed(copy_string(table, binder->arena), binder->arena);
	source->expansion_count = plan->expansion_count;
	source->expansions = arena_array(binder->arena, const Expr *, (size_t) plan->expansion_count);
	for (int i = 0; i < plan->expansion_count; i++)
		source->expansions[i] = expr_bind(plan->expansions[i], &scope, binder->arena);
	binder->scope = scope;
	if (row_is_unseen(binder, plan))
	{
		binder->scope.row_type = &no_columns;
		binder->scope.has_suffix_column = false;
	}
	bind_where(binder, plan, source);
	if (!is_index)
		binder->scope = scope;
	if (same_items != NULL)
		share_items(same_items, source);
	else
		bind_items(binder, plan, source);
	binder->scope = scope;
}

/* ---------------------------------------------------------------- plan */

static void
bind_bucket(Binder *binder, const PlanBucket *plan, int bound_source, BoundBucket *bucket)
{
	SyncBuffer	name;

	buffer_init(&name, binder->arena, binder->prefix.len + plan->stem.len + 2);
	buffer_append(&name, binder->prefix.data, binder->prefix.len);
	buffer_append(&name, plan->stem.data, plan->stem.len);
	if (binder->binding->sources[bound_source].key_count == 0)
		buffer_append(&name, "[]", 2);
	bucket->name = buffer_string(&name);
	bucket->source = bound_source;
}

/* (an array without elements may have the address of another) */
static bool
same_query(const PlanSource *a, const PlanSource *b)
{
	return a->items == b->items && a->item_count == b->item_count && a->item_count > 0;
}

static bool
expr_expands(const Expr *expr)
{
	if (expr->kind == EXPR_EXPANDED_VALUE || expr->kind == EXPR_EXPANDED_KEY)
		return true;
	for (int i = 0; i < expr->arg_count; i++)
	{
		if (expr_expands(expr->args[i]))
			return true;
	}
	return false;
}

static bool
fields_expand(const BoundSource *source)
{
	for (int i = 0; i < source->field_count; i++)
	{
		if (source->fields[i].expr != NULL && expr_expands(source->fields[i].expr))
			return true;
	}
	for (int i = 0; i < source->check_count; i++)
	{
		if (expr_expands(source->checks[i]))
			return true;
	}
	return false;
}

/* both are plain columns, the same ones under the same names, of the same output table */
static bool
same_json(const BoundSource *a, const BoundSource *b)
{
	if (a->field_count != b->field_count || a->has_repeated || b->has_repeated ||
		a->check_count > 0 || b->check_count > 0 ||
		!sync_string_equal(a->output_table, b->output_table))
		return false;
	for (int i = 0; i < a->field_count; i++)
	{
		if (a->fields[i].expr != NULL || b->fields[i].expr != NULL ||
			a->fields[i].position != b->fields[i].position ||
			a->fields[i].fallback != b->fields[i].fallback ||
			!sync_string_equal(a->fields[i].name, b->fields[i].name))
			return false;
	}
	return true;
}

/*
 * Most configs send the same columns to several buckets.  Only the newest
 * sources are looked at, or many different queries would take long to bind.
 */
#define GROUPS_COMPARED 64

static void
bind_json_groups(TableBinding *binding)
{
	for (int i = 0; i < binding->source_count; i++)
	{
		BoundSource *source = &binding->sources[i];

		source->json_group = -1;
		if (fields_expand(source))
			continue;
		for (int j = i - 1; j >= 0 && j >= i - GROUPS_COMPARED && source->json_group < 0; j--)
		{
			if (binding->sources[j].json_group >= 0 && same_json(source, &binding->sources[j]))
				source->json_group = binding->sources[j].json_group;
		}
		if (source->json_group < 0)
			source->json_group = binding->json_group_count++;
	}
}

/* every source that reads the table, once; buckets refer to them */
static void
bind_buckets(Binder *binder)
{
	const SyncPlan *plan = binder->plan;
	TableBinding *binding = binder->binding;
	int		   *bound = arena_array(binder->arena, int, (size_t) plan->source_count);
	size_t		bucket_capacity = 0;

	binding->sources = arena_array(binder->arena, BoundSource, (size_t) plan->source_count);
	for (int i = 0; i < plan->source_count; i++)
	{
		const BoundSource *same_items = NULL;

		/* the variants of an alpha stream stand in a row */
		if (i > 0 && bound[i - 1] >= 0 && same_query(&plan->sources[i], &plan->sources[i - 1]))
			same_items = &binding->sources[bound[i - 1]];

		bound[i] = -1;
		if (!binder_table_fits(binder, &plan->sources[i].table))
			continue;
		bound[i] = binding->source_count;
		bind_source(binder, &plan->sources[i], &binding->sources[binding->source_count++], false,
					same_items);
	}
	bind_json_groups(binding);
	for (int i = 0; i < plan->bucket_count; i++)
	{
		for (int j = 0; j < plan->buckets[i].source_count; j++)
			bucket_capacity += bound[plan->buckets[i].sources[j]] >= 0;
	}
	binding->buckets = arena_array(binder->arena, BoundBucket, bucket_capacity);
	for (int i = 0; i < plan->bucket_count; i++)
	{
		const PlanBucket *bucket = &plan->buckets[i];

		for (int j = 0; j < bucket->source_count; j++)
		{
			int			source = bound[bucket->sources[j]];

			if (source >= 0)
				bind_bucket(binder, bucket, source, &binding->buckets[binding->bucket_count++]);
		}
	}
}

static void
bind_indexes(Binder *binder)
{
	const SyncPlan *plan = binder->plan;
	TableBinding *binding = binder->binding;

	binding->indexes = arena_array(binder->arena, BoundIndex, (size_t) plan->index_count);
	for (int i = 0; i < plan->index_count; i++)
	{
		const PlanIndex *index = &plan->indexes[i];
		BoundIndex *bound;

		if (!binder_table_fits(binder, &index->source.table))
			continue;
		bound = &binding->indexes[binding->index_count++];
		bound->lookup_name = copy_string(index->lookup_name, binder->arena);
		bound->query_id = copy_string(index->query_id, binder->arena);
		bind_source(binder, &index->source, &bound->source, true, NULL);
	}
}

static const TableBinding *
bind_table(Binder *binder, const SyncRowType *row_type)
{
	TableBinding *binding = arena_new(binder->arena, TableBinding);

	binder->binding = binding;
	copy_row_type(row_type, &binding->row_type, binder->arena);
	binder->scope.row_type = &binding->row_type;
	binding->fixed_json = binder->plan->compatibility.fixed_json_extract;
	bind_buckets(binder);
	bind_indexes(binder);
	if (binding->bucket_count == 0 && binding->index_count == 0)
		return NULL;
	return binding;
}

const TableBinding *
plan_bind(const SyncPlan *plan, const char *schema, const char *table,
		  const SyncRowType *row_type, const BucketNaming *naming, SyncArena *arena,
		  SyncError *error)
{
	Binder		binder = {.plan = plan, .arena = arena};
	const TableBinding *volatile binding = NULL;
	ArenaGuard	guard;

	memset(error, 0, sizeof(*error));
	binder.prefix = naming->prefix;
	binder.scope.schema = (SyncString) {schema, (uint32_t) strlen(schema)};
	binder.scope.table = (SyncString) {table, (uint32_t) strlen(table)};
	arena_limit(arena, BINDING_MAX_MEMORY);
	arena_guard_push(arena, &guard);
	if (setjmp(guard.jump) == 0)
		binding = bind_table(&binder, row_type);
	else if (arena_limit_reached(arena))
		sync_error_set(error, SYNC_ERROR_LIMIT, "the rules take too much memory for one table");
	else
		sync_error_set(error, SYNC_ERROR_OUT_OF_MEMORY, "out of memory");
	arena_guard_pop(arena, &guard);
	arena_limit(arena, 0);
	return binding;
}

const SyncRowType *
binding_row_type(const TableBinding *binding)
{
	return &binding->row_type;
}
