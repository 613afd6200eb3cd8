/*-------------------------------------------------------------------------
 *
 * rows.c
 *	  Rows of any values through a plan, for fuzz programs.
 *
 * What must hold for every row of every plan:
 *
 *	- the JSON is well-formed, its length in UTF-16 and its checksum are those
 *	  of its bytes;
 *	- evaluating again gives the same bytes, with the row's values gone from
 *	  memory meanwhile, and with too little memory gives nothing at all;
 *	- a row copy gives back the row;
 *	- from nothing to a row, to another, to nothing: a store that follows the
 *	  operations holds exactly what the present row is in, at last nothing.
 *
 *-------------------------------------------------------------------------
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "number.h"
#include "plan.h"
#include "text.h"
#include "value.h"

#define MAX_COLUMNS	14
#define MAX_TABLES	6

/* ---------------------------------------------------------------- values */

FuzzSource
fuzz_source(const uint8_t *data, size_t size)
{
	return (FuzzSource) {data, data + size, fuzz_hash(data, size) | 1};
}

uint32_t
fuzz_byte(FuzzSource *source)
{
	if (source->next < source->end)
		return *source->next++;
	source->state ^= source->state << 13;
	source->state ^= source->state >> 7;
	source->state ^= source->state << 17;
	return (uint32_t) (source->state >> 32) & 255;
}

static uint64_t
fuzz_word(FuzzSource *source)
{
	uint64_t	word = 0;

	for (int i = 0; i < 8; i++)
		word = word << 8 | fuzz_byte(source);
	return word;
}

static SyncValue
value_of_literal(const char *s)
{
	return value_text(s, strlen(s));
}

/* bytes as they come; well-formed text of them unless they are for a blob */
static SyncValue
value_of_bytes(FuzzSource *source, bool blob, SyncArena *arena)
{
	size_t		len = fuzz_byte(source) % 48;
	char	   *bytes = arena_alloc(arena, len + 1);
	SyncString	text;

	for (size_t i = 0; i < len; i++)
		bytes[i] = (char) fuzz_byte(source);
	if (blob)
		return value_blob(bytes, len);
	text = text_from_bytes(bytes, len, arena);
	return value_text(text.data, text.len);
}

static SyncValue
value_of_digits(FuzzSource *source, SyncArena *arena)
{
	char		digits[80];
	size_t		len = 1 + fuzz_byte(source) % 70;

	digits[0] = fuzz_byte(source) % 2 ? '-' : '9';
	for (size_t i = 1; i <= len; i++)
		digits[i] = (char) ('0' + fuzz_byte(source) % 10);
	return integer_from_digits(digits, len + 1, arena);
}

SyncValue
fuzz_value(FuzzSource *source, SyncArena *arena)
{
	static const char *const texts[] = {
		"", "u1", "a", "1", "1.0", "-0", "0x1F", "1e400", "Infinity", " 5 ",
		"[1,2,3]", "[\"a\",\"b\",\"a\"]", "[true,null,1.5,\"1\",[1],{\"a\":2}]", "{}", "[]", "null",
		"{\"a\":1,\"b\":{\"c\":[1,2]},\"10\":5,\"2\":\"x\"}", "{\"a\":1,\"a\":2}", "[1e400,-1e400]",
		"[9007199254740993,0.1,1e21,1e-7]", "\"\\ud83d\"", "[[[[[]]]]]", "2024-02-29T12:34:56.789Z",
		"0101000000000000000000F03F0000000000000040", "6c1ea31c-a6b2-4ec0-b9e2-5a1f5bd1a2ef",
		"\xED\xA0\xBD", "a\xED\xB8\x80z", "\xF0\x9F\x98\x80", "\xE2\x80\xA8\x7F\x01\"\\/",
		"\xC3\x9F\xCE\xA3 \xCE\xA3",
	};
	static const double reals[] = {
		0.0, -0.0, 1.0, 0.1, -2.5, 1e21, 1e-7, 9007199254740993.0, 4294967296.0, -2147483648.0,
		1.7976931348623157e308, 5e-324, 123456789.125,
	};
	uint64_t	word;
	double		real;

	switch (fuzz_byte(source) % 16)
	{
		case 0:
			return value_null();
		case 1:
			return (SyncValue) {.type = SYNC_UNDEFINED};
		case 2:
			return value_integer((int64_t) fuzz_byte(source) - 4);
		case 3:
			return value_integer((int64_t) fuzz_word(source));
		case 4:
			return value_of_digits(source, arena);
		case 5:
			word = fuzz_word(source);
			memcpy(&real, &word, sizeof(real));
			return value_real(real);
		case 6:
			return value_real(reals[fuzz_byte(source) % (sizeof(reals) / sizeof(reals[0]))]);
		case 7:
			return value_real(fuzz_byte(source) % 2 ? (double) NAN : -(double) INFINITY);
		case 8:
			return value_of_bytes(source, true, arena);
		case 9:
		case 10:
			return value_of_bytes(source, false, arena);
		default:
			return value_of_literal(texts[fuzz_byte(source) % (sizeof(texts) / sizeof(texts[0]))]);
	}
}

/* ---------------------------------------------------------------- the shape */

typedef struct Shape
{
	SyncRowType type;
	SyncColumn	columns[MAX_COLUMNS];
	int			identity[1];
} Shape;

static void
shape_add(Shape *shape, SyncString name)
{
	/* a column's name is an identifier: no NUL in it, and not longer than one */
	if (shape->type.column_count == MAX_COLUMNS || name.len > 63 ||
		(name.len > 0 && memchr(name.data, '\0', name.len) != NULL) ||
		!utf8_is_valid(name.data, name.len) ||
		row_type_position(&shape->type, name) >= 0)
		return;
	shape->columns[shape->type.column_count++].name = name;
}

static void
shape_of_expr(Shape *shape, const Expr *expr)
{
	if (expr == NULL)
		return;
	if (expr->kind == EXPR_COLUMN)
		shape_add(shape, expr->name);
	for (int i = 0; i < expr->arg_count; i++)
		shape_of_expr(shape, expr->args[i]);
}

static void
shape_of_match(Shape *shape, const PlanMatch *match)
{
	if (match == NULL)
		return;
	shape_of_expr(shape, match->expr);
	for (int i = 0; i < match->child_count; i++)
		shape_of_match(shape, match->children[i]);
}

static void
shape_of_source(Shape *shape, const PlanSource *source)
{
	for (int i = 0; i < source->expansion_count; i++)
		shape_of_expr(shape, source->expansions[i]);
	shape_of_match(shape, source->match);
	for (int i = 0; i < source->item_count; i++)
		shape_of_expr(shape, source->items[i].expr);
}

static void
shape_of_plan(Shape *shape, const SyncPlan *plan)
{
	memset(shape, 0, sizeof(*shape));
	shape->type.columns = shape->columns;
	shape->type.identity = shape->identity;
	shape->type.identity_count = 1;
	shape_add(shape, sync_string_literal("id"));
	shape_add(shape, sync_string_literal("_hidden"));
	shape_add(shape, sync_string_literal("7"));
	for (int i = 0; i < plan->source_count; i++)
		shape_of_source(shape, &plan->sources[i]);
	for (int i = 0; i < plan->index_count; i++)
		shape_of_source(shape, &plan->indexes[i].source);
	shape_add(shape, sync_string_literal("B \"y\n"));
}

/* ---------------------------------------------------------------- what must hold */

static bool
rows_equal(const EvaluatedRow *a, const EvaluatedRow *b)
{
	if (a->bucket_row_count != b->bucket_row_count || a->error_count != b->error_count ||
		a->parameter_row_count != b->parameter_row_count)
		return false;
	for (int i = 0; i < a->bucket_row_count; i++)
	{
		const BucketRow *x = &a->bucket_rows[i];
		const BucketRow *y = &b->bucket_rows[i];

		if (!sync_string_equal(x->bucket, y->bucket) || !sync_string_equal(x->table, y->table) ||
			!sync_string_equal(x->row_id, y->row_id) || !sync_string_equal(x->json, y->json) ||
			x->json_utf16_len != y->json_utf16_len || x->checksum != y->checksum)
			return false;
	}
	for (int i = 0; i < a->parameter_row_count; i++)
	{
		if (!sync_string_equal(a->parameter_rows[i].lookup, b->parameter_rows[i].lookup) ||
			!sync_string_equal(a->parameter_rows[i].rows, b->parameter_rows[i].rows))
			return false;
	}
	return true;
}

static void
check_row(const EvaluatedRow *row)
{
	for (int i = 0; i < row->bucket_row_count; i++)
	{
		const BucketRow *r = &row->bucket_rows[i];

		if (i == 0 || r->json.data != row->bucket_rows[i - 1].json.data)
			fuzz_check_json(r->json, "the row is JSON");
		fuzz_check(r->json.data[0] == '{', "the row is an object");
		fuzz_check(r->json_utf16_len == text_utf16_length(r->json.data, r->json.len),
				   "the length is that of the JSON");
		fuzz_check(r->checksum == checksum_put(r->table, r->row_id, r->json),
				   "the checksum is that of the bytes");
		fuzz_check(utf8_is_valid(r->row_id.data, r->row_id.len), "the id is UTF-8");
		fuzz_check(utf8_is_valid(r->table.data, r->table.len), "the output table is UTF-8");
		fuzz_check(utf8_is_valid(r->bucket.data, r->bucket.len), "the bucket's name is UTF-8");
		fuzz_check(r->bucket.len > 2 && r->bucket.data[r->bucket.len - 1] == ']',
				   "the bucket's name ends with its parameters");
	}
	fuzz_check((row->error != NULL) == (row->error_count > 0), "an error that is counted is kept");
	if (row->error != NULL)
		fuzz_check_error(row->error);
}

/* the values in memory of their own, to be wiped */
static SyncValue *
copy_values(const SyncValue *values, int count, char **memory, size_t *size)
{
	SyncValue  *copy = malloc(sizeof(SyncValue) * (size_t) count);
	char	   *at;

	fuzz_check(copy != NULL, "there is memory");
	memcpy(copy, values, sizeof(SyncValue) * (size_t) count);
	*size = 1;
	for (int i = 0; i < count; i++)
		*size += values[i].type >= SYNC_BIGINT && values[i].type != SYNC_REAL ? values[i].len : 0;
	at = *memory = malloc(*size);
	fuzz_check(at != NULL, "there is memory");
	for (int i = 0; i < count; i++)
	{
		if (values[i].type < SYNC_BIGINT || values[i].type == SYNC_REAL)
			continue;
		if (values[i].len > 0)
			memcpy(at, values[i].data, values[i].len);
		copy[i].data = at;
		at += values[i].len;
	}
	return copy;
}

static void
evaluate(const TableBinding *binding, const SyncValue *values, SyncArena *arena,
		 EvaluatedRow *row)
{
	int			count = binding_row_type(binding)->column_count;
	char	   *memory;
	size_t		size;
	SyncValue  *copy = copy_values(values, count, &memory, &size);
	SyncErrorCode code = table_evaluate(binding, copy, arena, row);

	memset(copy, 0xAB, sizeof(SyncValue) * (size_t) count);
	memset(memory, 0xAB, size);
	free(copy);
	free(memory);
	fuzz_check(code == SYNC_OK, "a row can be evaluated in much memory");
}

/* with less memory than it takes: nothing */
static void
evaluate_in_little(const TableBinding *binding, const SyncValue *values, size_t budget,
				   const EvaluatedRow *expected)
{
	SyncArena  *arena = arena_create(budget);
	EvaluatedRow row;

	if (arena == NULL)
		return;
	if (table_evaluate(binding, values, arena, &row) == SYNC_OK)
		fuzz_check(rows_equal(&row, expected), "little memory gives the same row or none");
	else
		fuzz_check(row.bucket_row_count == 0 && row.parameter_row_count == 0 &&
				   row.error_count == 0, "a row for which there is no memory is empty");
	arena_destroy(arena);
}

/* what BSON keeps of a value: no half surrogates, the low 64 bits */
static SyncValue
as_copied(SyncValue value, SyncArena *arena)
{
	SyncString	text;

	if (value.type == SYNC_BIGINT)
		return value_integer(integer_low_bits(value));
	if (value.type != SYNC_TEXT)
		return value;
	text = text_well_formed((SyncString) {value.data, value.len}, arena);
	return value_text(text.data, text.len);
}

static void
check_row_copy(const SyncRowType *type, const SyncValue *values, SyncArena *arena)
{
	SyncString	copy = row_copy_encode(type, values, arena);
	SyncValue  *merged = arena_array(arena, SyncValue, (size_t) type->column_count);
	bool		complete = true;

	for (int i = 0; i < type->column_count; i++)
		complete &= values[i].type != SYNC_UNDEFINED;
	fuzz_check(row_copy_merge(copy, type, merged, arena) == complete,
			   "a copy of a complete row is complete");
	for (int i = 0; i < type->column_count; i++)
		fuzz_check(value_identical(merged[i], as_copied(values[i], arena)),
				   "a row copy gives back its values");
	/* cut anywhere it is no copy, and changes nothing */
	memset(merged, 0, sizeof(SyncValue) * (size_t) type->column_count);
	copy.len = (uint32_t) (fuzz_hash((const uint8_t *) copy.data, copy.len) % copy.len);
	fuzz_check(!row_copy_merge(copy, type, merged, arena), "half a copy is refused");
	for (int i = 0; i < type->column_count; i++)
		fuzz_check(merged[i].type == SYNC_UNDEFINED, "half a copy changes nothing");
}

/* ---------------------------------------------------------------- a store */

typedef struct Store
{
	int			count;
	int			capacity;
	SyncString (*keys)[4];		/* bucket, table, id, or lookup; what is stored there */
	SyncArena  *arena;
} Store;

static int
store_find(const Store *store, SyncString a, SyncString b, SyncString c)
{
	for (int i = 0; i < store->count; i++)
	{
		if (sync_string_equal(store->keys[i][0], a) && sync_string_equal(store->keys[i][1], b) &&
			sync_string_equal(store->keys[i][2], c))
			return i;
	}
	return -1;
}

static void
store_put(Store *store, SyncString a, SyncString b, SyncString c, SyncString value)
{
	int			at = store_find(store, a, b, c);

	if (at < 0)
	{
		if (store->count == store->capacity)
		{
			size_t		old = (size_t) store->capacity;

			store->keys = arena_grow(store->arena, store->keys, old * sizeof(*store->keys),
									 (old * 2 + 8) * sizeof(*store->keys));
			store->capacity = (int) old * 2 + 8;
		}
		at = store->count++;
	}
	store->keys[at][0] = a;
	store->keys[at][1] = b;
	store->keys[at][2] = c;
	store->keys[at][3] = value;
}

static void
store_remove(Store *store, SyncString a, SyncString b, SyncString c)
{
	int			at = store_find(store, a, b, c);

	fuzz_check(at >= 0, "what is removed is there");
	memcpy(store->keys[at], store->keys[--store->count], sizeof(store->keys[at]));
}

static void
store_apply(Store *store, const BucketOpList *list)
{
	static const SyncString none = {"", 0};

	for (size_t i = 0; i < list->count; i++)
	{
		const BucketOp *op = &list->ops[i];

		if (op->kind == BUCKET_OP_PUT)
			store_put(store, op->bucket, op->table, op->row_id, op->json);
		else if (op->kind == BUCKET_OP_REMOVE)
			store_remove(store, op->bucket, op->table, op->row_id);
		else if (op->rows.len <= 5)
			store_remove(store, op->lookup, none, none);
		else
			store_put(store, op->lookup, none, none, op->rows);
	}
}

/* the store holds what the row is in, and nothing else */
static void
store_check(const Store *store, const EvaluatedRow *row, const RowState *state)
{
	fuzz_check(store->count == state->bucket_count + state->lookup_count,
			   "the store holds as much as the row's state says");
	for (int i = 0; row != NULL && i < row->bucket_row_count; i++)
	{
		const BucketRow *r = &row->bucket_rows[i];

		fuzz_check(store_find(store, r->bucket, r->table, r->row_id) >= 0,
				   "every bucket row is stored");
	}
	for (int i = 0; row != NULL && i < row->parameter_row_count; i++)
		fuzz_check(store_find(store, row->parameter_rows[i].lookup, (SyncString) {"", 0},
							  (SyncString) {"", 0}) >= 0, "every lookup is stored");
	if (row == NULL)
		fuzz_check(store->count == 0, "a row that is gone leaves nothing");
}

static void
check_moves(const EvaluatedRow *rows, int count, SyncArena *arena)
{
	SourceTableId table = {{1}};
	SourceKey	key = {{2}};
	Store		store = {.arena = arena};
	const RowState *state = NULL;

	for (int i = 0; i <= count; i++)
	{
		const EvaluatedRow *row = i < count ? &rows[i] : NULL;
		BucketOpList list;

		/* the checks here are quadratic */
		if (row != NULL && row->bucket_row_count + row->parameter_row_count > 300)
			continue;
		bucket_op_list_init(&list, arena);
		state = bucket_ops_move(&list, &table, &key, state, row);
		store_apply(&store, &list);
		store_check(&store, row, state);
	}
}

/* ---------------------------------------------------------------- all of it */

/* a table that fits the pattern; false: none can */
static bool
table_of_pattern(SyncString pattern, char *name, size_t room)
{
	if (pattern.len + 2 > room || pattern.len == 0 || memchr(pattern.data, '\0', pattern.len) != NULL ||
		!utf8_is_valid(pattern.data, pattern.len))
		return false;
	memcpy(name, pattern.data, pattern.len);
	name[pattern.len] = '\0';
	if (name[pattern.len - 1] == '%')
		name[pattern.len - 1] = 'x';
	return true;
}

static void
fuzz_table(const SyncPlan *plan, const Shape *shape, const char *schema, const char *table,
		   FuzzSource *source, int row_count)
{
	SyncArena  *plan_arena = fuzz_arena(FUZZ_MEMORY);
	SyncArena  *arena = fuzz_arena(FUZZ_MEMORY);
	BucketNaming naming = {.prefix = sync_string_literal("17#")};
	SyncError	error;
	EvaluatedRow rows[4];
	const TableBinding *binding;

	binding = plan_bind(plan, schema, table, &shape->type, &naming, plan_arena, &error);
	if (binding == NULL)
		fuzz_check(error.code == SYNC_OK, "a table can be bound in much memory");
	for (int i = 0; binding != NULL && i < row_count && i < 4; i++)
	{
		SyncValue	values[MAX_COLUMNS];
		EvaluatedRow again;
		size_t		before;

		for (int c = 0; c < shape->type.column_count; c++)
			values[c] = fuzz_value(source, arena);
		before = arena_used(arena);
		evaluate(binding, values, arena, &rows[i]);
		check_row(&rows[i]);
		if (i == 0)
		{
			SyncArena  *other = fuzz_arena(FUZZ_MEMORY);

			before = arena_used(arena) - before + 9000;
			evaluate(binding, values, other, &again);
			fuzz_check(rows_equal(&rows[i], &again), "the same row gives the same");
			evaluate_in_little(binding, values, source->state % before, &rows[i]);
			arena_destroy(other);
		}
		check_row_copy(&shape->type, values, arena);
	}
	if (binding != NULL)
		check_moves(rows, row_count < 4 ? row_count : 4, arena);
	arena_destroy(arena);
	arena_destroy(plan_arena);
}

void
fuzz_rows(const SyncPlan *plan, FuzzSource *source, int rows)
{
	Shape		shape;

	shape_of_plan(&shape, plan);
	for (int i = 0; i < plan_table_count(plan) && i < MAX_TABLES; i++)
	{
		const TablePattern *pattern = plan_table(plan, i);
		char		schema[80];
		char		table[80];

		if (table_of_pattern(pattern->schema, schema, sizeof(schema)) &&
			table_of_pattern(pattern->table, table, sizeof(table)))
			fuzz_table(plan, &shape, schema, table, source, rows);
	}
}
