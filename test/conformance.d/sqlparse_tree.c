/*-------------------------------------------------------------------------
 *
 * sqlparse_tree.c
 *	  A query's tree as the conformance vectors write it (their README).
 *
 * Recursion is safe: the parser bounds the height of a tree.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "number.h"
#include "sqlparse_tree.h"
#include "text.h"

#define JSON_SHOWN	80			/* UTF-16 units of an unusable node's JSON */

static void print_select(SyncBuffer *out, const SqlSelect *select);
static void print_expr(SyncBuffer *out, const SqlExpr *expr);

static void
put(SyncBuffer *out, const char *s)
{
	buffer_append(out, s, strlen(s));
}

static void
put_string(SyncBuffer *out, SyncString s)
{
	buffer_append(out, s.data, s.len);
}

static void
put_name(SyncBuffer *out, const SqlName *name)
{
	buffer_append(out, name->text, name->len);
}

static void
put_qualified(SyncBuffer *out, const SqlName *schema, const SqlName *name)
{
	/* an empty schema, which only a blank quoted one is, is not shown */
	if (schema->len > 0)
	{
		put_name(out, schema);
		put(out, ".");
	}
	put_name(out, name);
}

static void
put_number(SyncBuffer *out, double value)
{
	char		text[NUMBER_TEXT_LEN];

	buffer_append(out, text, number_to_text(value, text));
}

/* the vectors show integers as JavaScript numbers */
static double
integer_value(const SqlExpr *expr)
{
	return number_parse(expr->integer.data, expr->integer.len);
}

static void
print_key(SyncBuffer *out, const SqlExpr *key)
{
	if (key->kind == SQL_INTEGER)
		put_number(out, integer_value(key));
	else
	{
		put(out, "'");
		put_string(out, key->string);
		put(out, "'");
	}
}

static void
print_list(SyncBuffer *out, SqlExpr *const *items, int count)
{
	for (int i = 0; i < count; i++)
	{
		if (i > 0)
			put(out, ",");
		print_expr(out, items[i]);
	}
}

static void
print_subquery(SyncBuffer *out, const SqlStatement *statement)
{
	if (statement->kind == SQL_SELECT)
	{
		put(out, "SUBQ(");
		print_select(out, statement->select);
		put(out, ")");
	}
	else
	{
		put(out, "?");
		put_string(out, statement->word);
	}
}

/* "?kind" and the beginning of the node's JSON */
static void
print_unusable(SyncBuffer *out, const SqlExpr *expr, const char *kind)
{
	SyncBuffer	json;
	size_t		end = 0;
	size_t		units = 0;

	put(out, "?");
	put(out, kind);
	buffer_init(&json, out->arena, 128);
	sqlparse_json(&json, expr);
	while (end < json.len && units < JSON_SHOWN)
	{
		int			size;
		uint32_t	c = text_code_point(json.data + end, json.len - end, &size);

		units += c > 0xFFFF ? 2 : 1;
		end += (size_t) size;
	}
	buffer_append(out, json.data, end);
}

static void
print_case(SyncBuffer *out, const SqlExpr *expr)
{
	put(out, "case ");
	print_expr(out, expr->cases.operand);
	for (int i = 0; i < expr->cases.arm_count; i++)
	{
		put(out, " w ");
		print_expr(out, expr->cases.arms[i].when);
		put(out, " t ");
		print_expr(out, expr->cases.arms[i].then);
	}
	put(out, " e ");
	print_expr(out, expr->cases.otherwise);
	put(out, " end");
}

/* operators of one operand stand before it, but for IS */
static void
print_unary(SyncBuffer *out, const SqlExpr *expr)
{
	bool		postfix = expr->op >= SQL_OP_IS_NULL && expr->op <= SQL_OP_IS_NOT_FALSE;

	put(out, "(");
	if (!postfix)
	{
		put(out, sql_operator_name(expr->op));
		put(out, " ");
	}
	print_expr(out, expr->unary.operand);
	if (postfix)
	{
		put(out, " ");
		put(out, sql_operator_name(expr->op));
	}
	put(out, ")");
}

static void
print_infix(SyncBuffer *out, const SqlExpr *left, SqlOperator op)
{
	put(out, "(");
	print_expr(out, left);
	put(out, " ");
	put(out, sql_operator_name(op));
	put(out, " ");
}

static void
print_column(SyncBuffer *out, const SqlExpr *expr)
{
	if (sql_name_is_set(&expr->column.qualifier))
	{
		put_qualified(out, &expr->column.schema, &expr->column.qualifier);
		put(out, ".");
	}
	if (expr->kind == SQL_STAR)
		put(out, "*");
	else
		put_name(out, &expr->column.name);
}

static void
print_expr(SyncBuffer *out, const SqlExpr *expr)
{
	if (expr == NULL)
	{
		put(out, "∅");
		return;
	}
	switch (expr->kind)
	{
		case SQL_NULL:
			put(out, "null");
			break;
		case SQL_BOOLEAN:
			put(out, expr->boolean ? "true" : "false");
			break;
		case SQL_INTEGER:
		case SQL_STRING:
			print_key(out, expr);
			break;
		case SQL_REAL:
			put_number(out, expr->real);
			break;
		case SQL_COLUMN:
		case SQL_STAR:
			print_column(out, expr);
			break;
		case SQL_CALL:
			put_qualified(out, &expr->call.schema, &expr->call.name);
			put(out, "(");
			print_list(out, expr->call.args, expr->call.arg_count);
			put(out, ")");
			break;
		case SQL_UNARY:
			print_unary(out, expr);
			break;
		case SQL_BINARY:
			print_infix(out, expr->binary.left, expr->op);
			print_expr(out, expr->binary.right);
			put(out, ")");
			break;
		case SQL_BETWEEN:
			print_infix(out, expr->between.operand, expr->op);
			print_expr(out, expr->between.low);
			put(out, ",");
			print_expr(out, expr->between.high);
			put(out, ")");
			break;
		case SQL_MEMBER:
			print_infix(out, expr->member.operand, expr->op);
			print_key(out, expr->member.key);
			put(out, ")");
			break;
		case SQL_CAST:
			put(out, "cast(");
			print_expr(out, expr->cast.operand);
			put(out, " as ");
			if (expr->cast.type->array_levels > 0)
				put(out, "array");
			else
				put_name(out, &expr->cast.type->name);
			put(out, ")");
			break;
		case SQL_LIST:
			put(out, "[");
			print_list(out, expr->list.items, expr->list.count);
			put(out, "]");
			break;
		case SQL_ARRAY:
			put(out, "ARRAY[");
			print_list(out, expr->list.items, expr->list.count);
			put(out, "]");
			break;
		case SQL_CASE:
			print_case(out, expr);
			break;
		case SQL_SUBSCRIPT:
			print_expr(out, expr->subscript.operand);
			put(out, "[");
			print_expr(out, expr->subscript.index);
			put(out, "]");
			break;
		case SQL_SUBQUERY:
			print_subquery(out, expr->subquery);
			break;
		case SQL_ARRAY_SUBQUERY:
			print_unusable(out, expr, "array select");
			break;
		case SQL_KEYWORD:
			print_unusable(out, expr, "keyword");
			break;
		case SQL_PARAMETER:
			print_unusable(out, expr, "parameter");
			break;
		case SQL_DEFAULT:
			print_unusable(out, expr, "default");
			break;
		case SQL_EXTRACT:
			print_unusable(out, expr, "extract");
			break;
		case SQL_OVERLAY:
			print_unusable(out, expr, "overlay");
			break;
		case SQL_SUBSTRING:
			print_unusable(out, expr, "substring");
			break;
	}
}

static void
print_source(SyncBuffer *out, const SqlSource *source)
{
	if (source->kind == SQL_SOURCE_SUBQUERY)
	{
		put(out, "?statement");
		return;
	}
	if (source->kind == SQL_SOURCE_CALL)
		print_expr(out, source->call);
	else
		put_qualified(out, &source->schema, &source->name);
	if (source->alias.len > 0)
	{
		put(out, " ~");
		put_name(out, &source->alias);
	}
}

static void
print_select(SyncBuffer *out, const SqlSelect *select)
{
	for (int i = 0; i < select->item_count; i++)
	{
		if (i > 0)
			put(out, ", ");
		print_expr(out, select->items[i].expr);
		if (sql_name_is_set(&select->items[i].alias))
		{
			put(out, " as ");
			put_name(out, &select->items[i].alias);
		}
	}
	put(out, " FROM ");
	for (int i = 0; i < select->source_count; i++)
	{
		if (i > 0)
			put(out, " , ");
		print_source(out, &select->sources[i]);
	}
	put(out, " WHERE ");
	print_expr(out, select->where);
}

void
sqlparse_print(SyncBuffer *out, const SqlScript *script)
{
	for (const SqlStatement *statement = script->first; statement != NULL;
		 statement = statement->next)
	{
		if (statement != script->first)
			put(out, " ; ");
		if (statement->kind == SQL_SELECT)
			print_select(out, statement->select);
		else
		{
			put(out, "?");
			put_string(out, statement->word);
		}
	}
}
