/*-------------------------------------------------------------------------
 *
 * sqlparse_json.c
 *	  The reference parser's own form of a node, in JSON without positions.
 *
 * The vectors show the beginning of it for nodes that no rule may use.  What
 * can only stand further inside than they show (the FROM of a subquery) is
 * left out.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "json.h"
#include "number.h"
#include "sqlparse_tree.h"

static void
put(SyncBuffer *out, const char *s)
{
	buffer_append(out, s, strlen(s));
}

static void
put_text(SyncBuffer *out, SyncString s)
{
	json_append_text(out, s.data, s.len);
}

static void
put_number(SyncBuffer *out, double value)
{
	char		text[NUMBER_TEXT_LEN];

	buffer_append(out, text, number_to_text(value, text));
}

/* ,"key":node; nothing for no node */
static void
put_member(SyncBuffer *out, const char *key, const SqlExpr *expr)
{
	if (expr == NULL)
		return;
	put(out, ",\"");
	put(out, key);
	put(out, "\":");
	sqlparse_json(out, expr);
}

static void
put_items(SyncBuffer *out, const char *key, SqlExpr *const *items, int count)
{
	put(out, ",\"");
	put(out, key);
	put(out, "\":[");
	for (int i = 0; i < count; i++)
	{
		if (i > 0)
			put(out, ",");
		sqlparse_json(out, items[i]);
	}
	put(out, "]");
}

static void
put_qualified(SyncBuffer *out, const SqlName *schema, const SqlName *name, bool schema_first)
{
	put(out, "{");
	if (schema_first && sql_name_is_set(schema))
	{
		put(out, "\"schema\":");
		put_text(out, sql_name_string(schema));
		put(out, ",");
	}
	put(out, "\"name\":");
	put_text(out, sql_name_string(name));
	if (!schema_first && sql_name_is_set(schema))
	{
		put(out, ",\"schema\":");
		put_text(out, sql_name_string(schema));
	}
	put(out, "}");
}

static void
put_column(SyncBuffer *out, const SqlExpr *expr)
{
	put(out, "{\"type\":\"ref\",");
	if (sql_name_is_set(&expr->column.qualifier))
	{
		put(out, "\"table\":");
		put_qualified(out, &expr->column.schema, &expr->column.qualifier, true);
		put(out, ",");
	}
	put(out, "\"name\":");
	if (expr->kind == SQL_STAR)
		put(out, "\"*\"");
	else
		put_text(out, sql_name_string(&expr->column.name));
}

static void
put_operator(SyncBuffer *out, SqlOperator op)
{
	put(out, ",\"op\":\"");
	put(out, sql_operator_name(op));
	put(out, "\"");
}

static void
put_type(SyncBuffer *out, const SqlTypeName *type)
{
	for (int i = 0; i < type->array_levels; i++)
		put(out, "{\"kind\":\"array\",\"arrayOf\":");
	put_qualified(out, &type->schema, &type->name, true);
	for (int i = 0; i < type->array_levels; i++)
		put(out, "}");
}

static void
put_case(SyncBuffer *out, const SqlExpr *expr)
{
	put(out, "{\"type\":\"case\"");
	if (expr->cases.operand == NULL)
		put(out, ",\"value\":null");
	put_member(out, "value", expr->cases.operand);
	put(out, ",\"whens\":[");
	for (int i = 0; i < expr->cases.arm_count; i++)
	{
		put(out, i > 0 ? ",{\"when\":" : "{\"when\":");
		sqlparse_json(out, expr->cases.arms[i].when);
		put_member(out, "value", expr->cases.arms[i].then);
		put(out, "}");
	}
	put(out, "]");
	if (expr->cases.otherwise == NULL)
		put(out, ",\"else\":null");
	put_member(out, "else", expr->cases.otherwise);
}

static void
put_words(SyncBuffer *out, const SqlExpr *expr)
{
	if (expr->kind == SQL_EXTRACT)
	{
		put(out, "{\"type\":\"extract\",\"field\":{\"name\":");
		put_text(out, sql_name_string(&expr->words.field));
		put(out, "}");
	}
	else
		put(out, expr->kind == SQL_OVERLAY ? "{\"type\":\"overlay\"" : "{\"type\":\"substring\"");
	put_member(out, "value", expr->words.value);
	put_member(out, "placing", expr->words.placing);
	put_member(out, "from", expr->words.from);
	put_member(out, "for", expr->words.length);
}

static void
put_statement(SyncBuffer *out, const SqlStatement *statement)
{
	if (statement->kind != SQL_SELECT)
	{
		put(out, "{\"type\":");
		put_text(out, statement->word);
		put(out, "}");
		return;
	}
	if (statement->select->item_count == 0)
	{
		put(out, "{\"columns\":null,\"type\":\"select\"}");
		return;
	}
	put(out, "{\"columns\":[");
	for (int i = 0; i < statement->select->item_count; i++)
	{
		const SqlItem *item = &statement->select->items[i];

		put(out, i > 0 ? ",{\"expr\":" : "{\"expr\":");
		sqlparse_json(out, item->expr);
		if (sql_name_is_set(&item->alias))
		{
			put(out, ",\"alias\":{\"name\":");
			put_text(out, sql_name_string(&item->alias));
			put(out, "}");
		}
		put(out, "}");
	}
	put(out, "],\"type\":\"select\"}");
}

static void
put_literal(SyncBuffer *out, const SqlExpr *expr)
{
	switch (expr->kind)
	{
		case SQL_NULL:
			put(out, "{\"type\":\"null\"");
			break;
		case SQL_BOOLEAN:
			put(out, "{\"type\":\"boolean\",\"value\":");
			put(out, expr->boolean ? "true" : "false");
			break;
		case SQL_INTEGER:
			put(out, "{\"type\":\"integer\",\"value\":");
			put_number(out, number_parse(expr->integer.data, expr->integer.len));
			break;
		case SQL_REAL:
			put(out, "{\"type\":\"numeric\",\"value\":");
			put_number(out, expr->real);
			break;
		case SQL_STRING:
			put(out, "{\"type\":\"string\",\"value\":");
			put_text(out, expr->string);
			break;
		case SQL_KEYWORD:
			put(out, "{\"type\":\"keyword\",\"keyword\":");
			put_text(out, expr->word);
			break;
		case SQL_PARAMETER:
			put(out, "{\"type\":\"parameter\",\"name\":");
			put_text(out, expr->word);
			break;
		default:
			put(out, "{\"type\":\"default\"");
			break;
	}
}

static void
put_member_key(SyncBuffer *out, const SqlExpr *key)
{
	put(out, ",\"member\":");
	if (key->kind == SQL_STRING)
		put_text(out, key->string);
	else
		put_number(out, number_parse(key->integer.data, key->integer.len));
}

void
sqlparse_json(SyncBuffer *out, const SqlExpr *expr)
{
	switch (expr->kind)
	{
		case SQL_COLUMN:
		case SQL_STAR:
			put_column(out, expr);
			break;
		case SQL_CALL:
			put(out, "{\"type\":\"call\",\"function\":");
			put_qualified(out, &expr->call.schema, &expr->call.name, false);
			if (expr->call.extras & SQL_CALL_DISTINCT)
				put(out, ",\"distinct\":\"distinct\"");
			if (expr->call.extras & SQL_CALL_ALL)
				put(out, ",\"distinct\":\"all\"");
			put_items(out, "args", expr->call.args, expr->call.arg_count);
			break;
		case SQL_UNARY:
			put(out, "{\"type\":\"unary\"");
			put_operator(out, expr->op);
			put_member(out, "operand", expr->unary.operand);
			break;
		case SQL_BINARY:
			put(out, "{\"type\":\"binary\"");
			put_member(out, "left", expr->binary.left);
			put_member(out, "right", expr->binary.right);
			put_operator(out, expr->op);
			break;
		case SQL_BETWEEN:
			put(out, "{\"type\":\"ternary\"");
			put_member(out, "value", expr->between.operand);
			put_member(out, "lo", expr->between.low);
			put_member(out, "hi", expr->between.high);
			put_operator(out, expr->op);
			break;
		case SQL_MEMBER:
			put(out, "{\"type\":\"member\"");
			put_member(out, "operand", expr->member.operand);
			put_operator(out, expr->op);
			put_member_key(out, expr->member.key);
			break;
		case SQL_CAST:
			put(out, "{\"type\":\"cast\"");
			put_member(out, "operand", expr->cast.operand);
			put(out, ",\"to\":");
			put_type(out, expr->cast.type);
			break;
		case SQL_LIST:
		case SQL_ARRAY:
			put(out, expr->kind == SQL_LIST ? "{\"type\":\"list\"" : "{\"type\":\"array\"");
			put_items(out, "expressions", expr->list.items, expr->list.count);
			break;
		case SQL_CASE:
			put_case(out, expr);
			break;
		case SQL_SUBSCRIPT:
			put(out, "{\"type\":\"arrayIndex\"");
			put_member(out, "array", expr->subscript.operand);
			put_member(out, "index", expr->subscript.index);
			break;
		case SQL_SUBQUERY:
			put_statement(out, expr->subquery);
			return;
		case SQL_ARRAY_SUBQUERY:
			put(out, "{\"type\":\"array select\",\"select\":");
			put_statement(out, expr->subquery);
			break;
		case SQL_EXTRACT:
		case SQL_OVERLAY:
		case SQL_SUBSTRING:
			put_words(out, expr);
			break;
		default:
			put_literal(out, expr);
			break;
	}
	put(out, "}");
}
