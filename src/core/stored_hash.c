/*-------------------------------------------------------------------------
 *
 * stored_hash.c
 *	  Hashes of a stored plan's sources, buckets and partition keys:
 *	  sync-rules.md, 7.5 and 7.6.
 *
 * The order of partition keys, and so the bytes of every bucket's name, comes
 * from here.  Does not decide what is equal (stored_equal.c).
 *
 * Invariant: a hash depends on the structure alone, not on which query it
 * comes from.
 *
 *-------------------------------------------------------------------------
 */
#include <math.h>
#include <string.h>

#include "number.h"
#include "stored_plan.h"
#include "text.h"

#define HASH_START	614160925u
#define HASH_MASK	0x1fffffffu

typedef struct Hasher
{
	uint32_t	state;
} Hasher;

/* ---------------------------------------------------------------- the function */

static void
hash_add(Hasher *hasher, uint32_t value)
{
	uint32_t	h = (hasher->state + value) & HASH_MASK;

	h = (h + ((h & 0x7ffff) << 10)) & HASH_MASK;
	hasher->state = h ^ (h >> 6);
}

/* every UTF-16 unit */
static void
hash_text(Hasher *hasher, SyncString text)
{
	for (uint32_t i = 0; i < text.len;)
	{
		int			size;
		uint32_t	c = text_code_point(text.data + i, text.len - i, &size);

		if (c >= 0x10000)
		{
			hash_add(hasher, 0xD800 + ((c - 0x10000) >> 10));
			hash_add(hasher, 0xDC00 + ((c - 0x10000) & 0x3ff));
		}
		else
			hash_add(hasher, c);
		i += (uint32_t) size;
	}
}

static uint32_t
hash_finish(const Hasher *hasher)
{
	uint32_t	h = hasher->state;

	h = (h + ((h & 0x3ffffff) << 3)) & HASH_MASK;
	h ^= h >> 11;
	return (h + ((h & 0x3fff) << 15)) & HASH_MASK;
}

/* ---------------------------------------------------------------- canonical text */

/* the text is hashed as it comes up; it is never there as a whole */

#define PRECEDENCE_NOT		3
#define PRECEDENCE_PLUS		11
#define PRECEDENCE_EQUALITY 4

static void hash_sql(Hasher *hasher, const StoredExpr *expr, int outer);

static void
hash_word(Hasher *hasher, const char *s)
{
	hash_text(hasher, (SyncString) {s, (uint32_t) strlen(s)});
}

static void
hash_list(Hasher *hasher, const StoredExpr *const *items, int count)
{
	hash_word(hasher, "(");
	for (int i = 0; i < count; i++)
	{
		if (i > 0)
			hash_word(hasher, ", ");
		hash_sql(hasher, items[i], 0);
	}
	hash_word(hasher, ")");
}

static void
hash_string(Hasher *hasher, SyncString text)
{
	uint32_t	start = 0;

	hash_word(hasher, "'");
	for (uint32_t i = 0; i < text.len; i++)
	{
		if (text.data[i] != '\'')
			continue;
		hash_text(hasher, (SyncString) {text.data + start, i + 1 - start});
		start = i;
	}
	hash_text(hasher, (SyncString) {text.data + start, text.len - start});
	hash_word(hasher, "'");
}

static void
hash_double(Hasher *hasher, double value)
{
	char		text[NUMBER_TEXT_LEN];

	hash_text(hasher, (SyncString) {text, (uint32_t) number_to_text(value, text)});
	if (isfinite(value) && value == floor(value))
		hash_word(hasher, ".0");
}

static int
precedence(SyncString op)
{
	static const struct
	{
		const char *op;
		int			precedence;
	}			table[] = {
		{"or", 1}, {"and", 2}, {"=", PRECEDENCE_EQUALITY}, {"is", PRECEDENCE_EQUALITY},
		{"<", 5}, {"<=", 5}, {">", 5}, {">=", 5},
		{"&", 6}, {"|", 6}, {"<<", 6}, {">>", 6},
		{"+", 7}, {"-", 7}, {"*", 8}, {"/", 8}, {"%", 8}, {"||", 9},
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
	{
		if (op.len == strlen(table[i].op) && memcmp(op.data, table[i].op, op.len) == 0)
			return table[i].precedence;
	}
	return 0;
}

static void
hash_case(Hasher *hasher, const StoredExpr *expr)
{
	int			at = 0;
	int			end = expr->arg_count - (expr->has_else ? 1 : 0);

	hash_word(hasher, "CASE");
	if (expr->has_operand)
	{
		hash_word(hasher, " ");
		hash_sql(hasher, expr->args[at++], 0);
	}
	while (at < end)
	{
		hash_word(hasher, " WHEN ");
		hash_sql(hasher, expr->args[at++], 0);
		hash_word(hasher, " THEN ");
		hash_sql(hasher, expr->args[at++], 0);
	}
	if (expr->has_else)
	{
		hash_word(hasher, " ELSE ");
		hash_sql(hasher, expr->args[end], 0);
	}
	hash_word(hasher, " END");
}

/* what stands in parentheses inside an operator that binds as tightly */
static void
hash_operator(Hasher *hasher, const StoredExpr *expr, int own)
{
	switch (expr->kind)
	{
		case STORED_UNARY:
			hash_text(hasher, expr->text);
			hash_word(hasher, " ");
			hash_sql(hasher, expr->args[0], own);
			break;
		case STORED_BETWEEN:
			hash_sql(hasher, expr->args[0], own);
			hash_word(hasher, " BETWEEN ");
			hash_sql(hasher, expr->args[1], own);
			hash_word(hasher, " AND ");
			hash_sql(hasher, expr->args[2], own);
			break;
		case STORED_SCALAR_IN:
			hash_sql(hasher, expr->args[0], own);
			hash_word(hasher, " IN ");
			hash_list(hasher, expr->args + 1, expr->arg_count - 1);
			break;
		default:
			hash_sql(hasher, expr->args[0], own);
			hash_word(hasher, " ");
			hash_text(hasher, expr->text);
			hash_word(hasher, " ");
			hash_sql(hasher, expr->args[1], own);
			break;
	}
}

static void
hash_sql(Hasher *hasher, const StoredExpr *expr, int outer)
{
	int			own;

	switch (expr->kind)
	{
		case STORED_COLUMN:
		case STORED_METADATA:
		case STORED_REQUEST:
			hash_word(hasher, "?");
			return;
		case STORED_NULL:
			hash_word(hasher, "NULL");
			return;
		case STORED_INTEGER:
			hash_text(hasher, expr->text);
			return;
		case STORED_DOUBLE:
			hash_double(hasher, expr->number);
			return;
		case STORED_STRING:
			hash_string(hasher, expr->text);
			return;
		case STORED_FUNCTION:
			hash_word(hasher, "\"");
			hash_text(hasher, expr->text);
			hash_word(hasher, "\"");
			hash_list(hasher, expr->args, expr->arg_count);
			return;
		case STORED_CAST:
			hash_word(hasher, "CAST(");
			hash_sql(hasher, expr->args[0], 0);
			hash_word(hasher, " AS ");
			hash_text(hasher, expr->text);
			hash_word(hasher, ")");
			return;
		case STORED_CASE:
			hash_case(hasher, expr);
			return;
		case STORED_SCALAR_IN:
			if (expr->arg_count == 1)
			{
				/* what it is compared with is among the inputs all the same */
				hash_word(hasher, "FALSE");
				return;
			}
			own = PRECEDENCE_EQUALITY;
			break;
		case STORED_UNARY:
			own = expr->text.data[0] == '+' ? PRECEDENCE_PLUS : PRECEDENCE_NOT;
			break;
		case STORED_BETWEEN:
			own = PRECEDENCE_EQUALITY;
			break;
		default:
			own = precedence(expr->text);
			break;
	}
	if (outer >= own)
		hash_word(hasher, "(");
	hash_operator(hasher, expr, own);
	if (outer >= own)
		hash_word(hasher, ")");
}

/* ---------------------------------------------------------------- structures */

/* what stands for the ?s, in order */
static void
hash_inputs(Hasher *hasher, const StoredExpr *expr)
{
	if (expr->kind == STORED_METADATA)
		hash_text(hasher, sync_string_literal("table."));
	if (expr->kind == STORED_COLUMN || expr->kind == STORED_METADATA ||
		expr->kind == STORED_REQUEST)
		hash_text(hasher, expr->text);
	for (int i = 0; i < expr->arg_count; i++)
		hash_inputs(hasher, expr->args[i]);
}

static void
hash_expr(Hasher *hasher, const StoredExpr *expr)
{
	hash_sql(hasher, expr, 0);
	hash_inputs(hasher, expr);
}

static void
hash_function(Hasher *hasher, const StoredRelation *function)
{
	hash_text(hasher, sync_string_literal("json_each"));
	hash_expr(hasher, function->input);
}

/* the last one that is named, or NULL */
static const StoredRelation *
function_of(const StoredExpr *expr)
{
	const StoredRelation *function = NULL;

	if (expr->relation != NULL && expr->relation->kind == RELATION_JSON_EACH)
		return expr->relation;
	for (int i = expr->arg_count - 1; i >= 0 && function == NULL; i--)
		function = function_of(expr->args[i]);
	return function;
}

static void
hash_key(Hasher *hasher, const StoredExpr *key)
{
	const StoredRelation *function = function_of(key);

	if (function != NULL)
		hash_function(hasher, function);
	hash_expr(hasher, key);
}

uint32_t
stored_key_hash(const StoredExpr *key)
{
	Hasher		hasher = {HASH_START};

	hash_key(&hasher, key);
	return hash_finish(&hasher);
}

uint32_t
stored_source_hash(const StoredSource *source)
{
	Hasher		hasher = {HASH_START};

	hash_text(&hasher, source->table->connection);
	hash_text(&hasher, source->table->schema);
	hash_text(&hasher, source->table->name);
	for (int i = 0; i < source->filter_count; i++)
		hash_expr(&hasher, source->filters[i]);
	for (int i = 0; i < source->key_count; i++)
		hash_key(&hasher, source->keys[i]);
	for (int i = 0; i < source->function_count; i++)
		hash_function(&hasher, source->functions[i]);
	for (int i = 0; i < source->column_count; i++)
	{
		if (source->columns[i].expr == NULL)
			continue;
		hash_expr(&hasher, source->columns[i].expr);
		hash_text(&hasher, source->columns[i].alias);
	}
	if (!source->is_index)
		hash_text(&hasher, source->table->output_name);
	for (int i = 0; i < source->output_count; i++)
		hash_expr(&hasher, source->outputs[i]);
	return hash_finish(&hasher);
}

/* the order of the sources does not matter */
uint32_t
stored_bucket_hash(const StoredBucket *bucket)
{
	Hasher		hasher = {HASH_START};
	uint32_t	sum = 0;

	for (int i = 0; i < bucket->source_count; i++)
		sum += bucket->sources[i]->hash;
	hash_add(&hasher, sum & 0x7fffffff);
	return hash_finish(&hasher);
}
