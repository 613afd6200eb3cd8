/*-------------------------------------------------------------------------
 *
 * test_sql.c
 *	  The parser of the rules' SQL: sync-rules.md, section 2, rule by rule;
 *	  positions and messages.  Its limits: test_sql_limits.c.
 *
 * How whole queries nest is held against the reference parser by the
 * conformance vectors of kind "sqlparse".
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>

#include "core_test.h"
#include "sql.h"

/* ---------------------------------------------------------------- trees as text */

static void print(SyncBuffer *out, const SqlExpr *expr);

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
put_name(SyncBuffer *out, const SqlName *name, const char *behind)
{
	if (!sql_name_is_set(name))
		return;
	put_string(out, sql_name_string(name));
	put(out, behind);
}

static void
print_items(SyncBuffer *out, SqlExpr **items, int count)
{
	for (int i = 0; i < count; i++)
	{
		if (i > 0)
			put(out, ", ");
		print(out, items[i]);
	}
}

static void
print_operator(SyncBuffer *out, SqlOperator op)
{
	put(out, " ");
	put(out, sql_operator_name(op));
	put(out, " ");
}

/* every operator in parentheses; kinds that the tests do not need are "?" */
static void
print(SyncBuffer *out, const SqlExpr *expr)
{
	char		number[40];

	switch (expr->kind)
	{
		case SQL_NULL:
			put(out, "NULL");
			break;
		case SQL_BOOLEAN:
			put(out, expr->boolean ? "TRUE" : "FALSE");
			break;
		case SQL_INTEGER:
			put_string(out, expr->integer);
			break;
		case SQL_REAL:
			snprintf(number, sizeof(number), "%g", expr->real);
			put(out, number);
			break;
		case SQL_STRING:
			put(out, "'");
			put_string(out, expr->string);
			put(out, "'");
			break;
		case SQL_COLUMN:
		case SQL_STAR:
			put_name(out, &expr->column.schema, ".");
			put_name(out, &expr->column.qualifier, ".");
			put_name(out, &expr->column.name, "");
			if (expr->kind == SQL_STAR)
				put(out, "*");
			break;
		case SQL_CALL:
			put_name(out, &expr->call.schema, ".");
			put_name(out, &expr->call.name, "(");
			print_items(out, expr->call.args, expr->call.arg_count);
			put(out, ")");
			break;
		case SQL_UNARY:
			put(out, "(");
			put(out, sql_operator_name(expr->op));
			put(out, " ");
			print(out, expr->unary.operand);
			put(out, ")");
			break;
		case SQL_BINARY:
			put(out, "(");
			print(out, expr->binary.left);
			print_operator(out, expr->op);
			print(out, expr->binary.right);
			put(out, ")");
			break;
		case SQL_BETWEEN:
			put(out, "(");
			print(out, expr->between.operand);
			print_operator(out, expr->op);
			print(out, expr->between.low);
			put(out, " .. ");
			print(out, expr->between.high);
			put(out, ")");
			break;
		case SQL_MEMBER:
			put(out, "(");
			print(out, expr->member.operand);
			print_operator(out, expr->op);
			print(out, expr->member.key);
			put(out, ")");
			break;
		case SQL_CAST:
			put(out, "cast(");
			print(out, expr->cast.operand);
			put(out, " ");
			put_name(out, &expr->cast.type->schema, ".");
			put_name(out, &expr->cast.type->name, "");
			for (int i = 0; i < expr->cast.type->array_levels; i++)
				put(out, "[]");
			put(out, ")");
			break;
		case SQL_LIST:
		case SQL_ARRAY:
			put(out, expr->kind == SQL_LIST ? "[" : "ARRAY[");
			print_items(out, expr->list.items, expr->list.count);
			put(out, "]");
			break;
		case SQL_SUBSCRIPT:
			print(out, expr->subscript.operand);
			put(out, "[");
			print(out, expr->subscript.index);
			put(out, "]");
			break;
		case SQL_SUBQUERY:
			put(out, "SUBQUERY");
			break;
		default:
			put(out, "?");
			break;
	}
}

static const SqlScript *
parse(SyncArena *arena, const char *sql)
{
	SyncError	error = {0};
	const SqlScript *script = sql_parse(sql, strlen(sql), arena, arena, &error);

	if (script == NULL)
		fail_msg("%s: line %d, column %d: %s", sql, error.line, error.column, error.message);
	return script;
}

static const SqlSelect *
parse_select(SyncArena *arena, const char *sql)
{
	const SqlScript *script = parse(arena, sql);

	assert_int_equal(script->first->kind, SQL_SELECT);
	return script->first->select;
}

static const SqlExpr *
parse_expr(SyncArena *arena, const char *sql)
{
	return parse_select(arena, arena_printf(arena, "SELECT 1 FROM t WHERE %s", sql))->where;
}

static SyncString
tree(SyncArena *arena, const char *sql)
{
	SyncBuffer	out;

	buffer_init(&out, arena, 100);
	print(&out, parse_expr(arena, sql));
	return buffer_string(&out);
}

#define assert_tree(sql, expected) assert_bytes(tree(*state, sql), expected)

static SyncError
refusal(SyncArena *arena, const char *sql)
{
	SyncError	error = {0};

	if (sql_parse(sql, strlen(sql), arena, arena, &error) != NULL)
		fail_msg("accepted: %s", sql);
	assert_int_not_equal(error.code, SYNC_OK);
	assert_true(error.message[0] != '\0');
	return error;
}

#define assert_refused(sql) \
	assert_int_equal(refusal(*state, (sql)).code, SYNC_ERROR_SYNTAX)
#define assert_condition_refused(sql) assert_refused("SELECT 1 FROM t WHERE " sql)

static void
assert_error(SyncArena *arena, const char *sql, int line, int column, const char *message)
{
	SyncError	error = refusal(arena, sql);

	assert_string_equal(error.message, message);
	assert_int_equal(error.line, line);
	assert_int_equal(error.column, column);
}

/* ---------------------------------------------------------------- 2.1 lexer */

static void
words_are_folded_and_ascii(void **state)
{
	const SqlExpr *column = parse_expr(*state, "MyCol");

	assert_bytes(sql_name_string(&column->column.name), "mycol");
	assert_memory_equal(column->column.name.original, "MyCol", 5);
	assert_false(column->column.name.quoted);
	assert_tree("_a1", "_a1");
	assert_condition_refused("a$b = 1");
	assert_condition_refused("größe = 1");
	assert_condition_refused("`a` = 1");
}

static void
quoted_names_keep_everything(void **state)
{
	const SqlExpr *column = parse_expr(*state, "\"My\"\"Größe\"");

	assert_bytes(sql_name_string(&column->column.name), "My\"\"Größe");
	assert_true(column->column.name.quoted);
	assert_condition_refused("\"\" = 1");
	assert_condition_refused("\"a*\" = 1");
	assert_condition_refused("\"a");
	assert_tree("\"select\" = 1", "(select = 1)");
}

/* not in the specification: the reference parser's doing */
static void
quoted_names_lose_blanks_when_qualified(void **state)
{
	assert_tree("\" a \" = 1", "( a  = 1)");
	assert_tree("t.\" a \" = 1", "(t.a = 1)");
	assert_bytes(sql_name_string(&parse_select(*state, "SELECT a AS \"\xC2\xA0x y \"")->items[0].alias),
				 "x y");
}

static void
strings(void **state)
{
	assert_tree("'it''s'", "'it's'");
	assert_tree("'a\\nb'", "'a\\nb'");
	assert_tree("''", "''");
	assert_tree("E'a\\n\\t\\\\\\\"\\/''b'", "'a\n\t\\\"/'b'");
	assert_tree("e'a\\ b'", "'a b'");
	assert_condition_refused("a = 'x");
	assert_condition_refused("a = 'a' 'b'");
	assert_condition_refused("a = $$x$$");
	/* escapes that the reference parser takes but cannot decode */
	assert_condition_refused("a = E'\\''");
	assert_condition_refused("a = E'\\x41'");
	assert_condition_refused("a = E'\\\\ '");
	assert_condition_refused("a = E''");
	assert_condition_refused("a = E'x\\");
}

static void
minus_before_a_digit_belongs_to_the_number(void **state)
{
	assert_tree("n - 1", "(n - 1)");
	assert_tree("n=-1", "(n = -1)");
	assert_tree("n - -1", "(n - -1)");
	assert_tree("- 1", "(- 1)");
	assert_tree("a -> -1", "(a -> -1)");
	assert_condition_refused("n-1 = 2");
	assert_condition_refused("n -1 = 2");
	assert_condition_refused("n -.5 = 2");
}

static void
numbers(void **state)
{
	assert_tree("007", "7");
	assert_tree("-007", "-7");
	assert_tree("00", "0");
	assert_tree("-0", "-0");
	assert_tree("99999999999999999999999999", "99999999999999999999999999");
	assert_tree(".5", "0.5");
	assert_tree("-1.", "-1");
	assert_int_equal(parse_expr(*state, "1.")->kind, SQL_REAL);
	assert_condition_refused("n = 1e3");
	assert_condition_refused("n = 0x10");
	assert_condition_refused("n = 1_000");
	assert_condition_refused("n = 1.5.2");
	/* as an item the rest is an alias */
	assert_bytes(sql_name_string(&parse_select(*state, "SELECT 1e3")->items[0].alias), "e3");
}

static void
comments(void **state)
{
	assert_tree("a -- b = 1", "a");
	assert_tree("a -- x\r\n = 1", "(a = 1)");
	assert_tree("a /* b /* c */ d */ = 1", "(a = 1)");
	assert_tree("a--b\n= 1", "(a = 1)");
	/* one that is never closed reaches to the end */
	assert_tree("a /* = 1", "a");
	/* the inside is cut into tokens, too */
	assert_condition_refused("a /* don't */ = 1");
	assert_condition_refused("a /* é */ = 1");
	assert_tree("a /* 'é' */ = 1", "(a = 1)");
	assert_tree("a /* -- */ = 1 */\n*/ = 2", "(a = 2)");
	assert_condition_refused("a */ 1");
}

static void
operators_of_the_lexer(void **state)
{
	assert_tree("a != b", "(a != b)");
	assert_tree("a <> b", "(a != b)");
	assert_tree("a ~~ b", "(a LIKE b)");
	assert_tree("a !~~* b", "(a NOT ILIKE b)");
	assert_tree("a #>> b", "(a #>> b)");
	assert_tree("a#-b", "(a #- b)");
	assert_tree("a || b", "(a || b)");
	assert_tree("a | b", "(a | b)");
	assert_tree("a ?| b", "(a ?| b)");
	assert_condition_refused("a == b");
	assert_condition_refused("a @ b");
	assert_condition_refused("a ! b");
	assert_condition_refused("a #> b");
	assert_condition_refused("a = :p");
}

static void
reserved_words(void **state)
{
	assert_refused("SELECT order FROM t");
	assert_refused("SELECT t.order FROM t");
	assert_refused("SELECT a AS order FROM t");
	assert_refused("SELECT a FROM t AS order");
	assert_refused("SELECT precision FROM t");
	assert_refused("SELECT t.precision FROM t");
	assert_tree("\"order\" = t.\"order\"", "(order = t.order)");
	/* 2.4, 4 */
	assert_tree("primary = unique", "(primary = unique)");
	assert_tree("column = 1", "(column = 1)");
	/* not reserved */
	assert_tree("values = between", "(values = between)");
	assert_tree("time = t.row", "(time = t.row)");
	/* behind a schema all words are table names */
	assert_bytes(sql_name_string(&parse_select(*state, "SELECT 1 FROM s.order")->sources[0].name),
				 "order");
}

/* ---------------------------------------------------------------- 2.2 statements */

static void
items_and_aliases(void **state)
{
	const SqlSelect *select = parse_select(*state, "SELECT *, T.*, a x, \"B\" AS \"Y\", c AS between, "
										   "d over, e at FROM t");

	assert_int_equal(select->item_count, 7);
	assert_int_equal(select->items[0].expr->kind, SQL_STAR);
	assert_false(sql_name_is_set(&select->items[0].expr->column.qualifier));
	assert_false(sql_name_is_set(&select->items[0].alias));
	assert_bytes(sql_name_string(&select->items[1].expr->column.qualifier), "t");
	assert_bytes(sql_name_string(&select->items[2].alias), "x");
	assert_bytes(sql_name_string(&select->items[3].alias), "Y");
	assert_true(select->items[3].alias.quoted);
	assert_bytes(sql_name_string(&select->items[4].alias), "between");
	assert_bytes(sql_name_string(&select->items[5].alias), "over");
	assert_bytes(sql_name_string(&select->items[6].alias), "at");

	select = parse_select(*state, "SELECT");
	assert_int_equal(select->item_count, 0);
	assert_int_equal(select->source_count, 0);
	assert_null(select->where);
	assert_refused("SELECT a, FROM t");
	assert_refused("SELECT a AS 'x' FROM t");
	assert_refused("SELECT a b c FROM t");
}

static void
sources(void **state)
{
	const SqlSelect *select = parse_select(*state,
										   "SELECT * FROM \"c.s\".T AS x(a, \"B\"), json_each(x.a) j "
										   "JOIN u ON u.a = j.value INNER JOIN (SELECT 1) AS v JOIN s.f() WHERE x");
	const SqlSource *source = select->sources;

	assert_int_equal(select->source_count, 5);
	assert_int_equal(source[0].kind, SQL_SOURCE_TABLE);
	assert_int_equal(source[0].join, SQL_JOIN_NONE);
	assert_bytes(sql_name_string(&source[0].schema), "c.s");
	assert_bytes(sql_name_string(&source[0].name), "t");
	assert_bytes(sql_name_string(&source[0].alias), "x");
	assert_int_equal(source[0].column_count, 2);
	assert_bytes(sql_name_string(&source[0].columns[1]), "B");

	assert_int_equal(source[1].kind, SQL_SOURCE_CALL);
	assert_int_equal(source[1].join, SQL_JOIN_NONE);
	assert_int_equal(source[1].call->call.arg_count, 1);
	assert_bytes(sql_name_string(&source[1].alias), "j");

	assert_int_equal(source[2].join, SQL_JOIN_INNER);
	assert_int_equal(source[2].on->op, SQL_OP_EQ);
	assert_false(sql_name_is_set(&source[2].alias));

	assert_int_equal(source[3].kind, SQL_SOURCE_SUBQUERY);
	assert_int_equal(source[3].subquery->kind, SQL_SELECT);
	assert_null(source[3].on);

	assert_int_equal(source[4].kind, SQL_SOURCE_CALL);
	assert_bytes(sql_name_string(&source[4].call->call.schema), "s");
	assert_bytes(sql_text(parse(*state, "SELECT a FROM  s.t  x "), 15, 21), "s.t  x");

	assert_refused("SELECT 1 FROM a.b.c");
	assert_refused("SELECT 1 FROM (SELECT 1)");
	assert_refused("SELECT 1 FROM t%");
	assert_refused("SELECT 1 FROM t TABLESAMPLE system(1)");
	assert_refused("SELECT 1 FROM a NATURAL JOIN b");
	assert_refused("SELECT 1 FROM (a)");
	assert_refused("SELECT 1 FROM a JOIN (b JOIN c)");
}

static void
joins_in_parentheses_and_of_all_kinds(void **state)
{
	const SqlSelect *select = parse_select(*state, "SELECT 1 FROM ((a x LEFT OUTER JOIN b USING (i)) "
										   "CROSS JOIN c), ((SELECT 1 AS i) AS y RIGHT JOIN d ON TRUE), "
										   "((SELECT 1) UNION (SELECT 2)) AS z FULL JOIN e");

	assert_int_equal(select->source_count, 7);
	assert_int_equal(select->sources[1].join, SQL_JOIN_LEFT);
	assert_true(select->sources[1].using_columns);
	assert_int_equal(select->sources[2].join, SQL_JOIN_CROSS);
	assert_int_equal(select->sources[3].subquery->kind, SQL_SELECT);
	assert_int_equal(select->sources[4].join, SQL_JOIN_RIGHT);
	assert_int_equal(select->sources[5].subquery->kind, SQL_UNION);
	assert_int_equal(select->sources[6].join, SQL_JOIN_FULL);
}

static void
marked_clauses(void **state)
{
	const char *sql = "SELECT DISTINCT a FROM t GROUP BY a HAVING a ORDER BY a DESC NULLS LAST, b "
		"LIMIT 1 OFFSET 2 ROWS FETCH FIRST 3 ROWS ONLY FOR NO KEY UPDATE SKIP LOCKED";
	const SqlSelect *select = parse_select(*state, sql);
	static const struct
	{
		SqlClause	clause;
		const char *text;
	}			expected[] = {
		{SQL_CLAUSE_DISTINCT, "DISTINCT"}, {SQL_CLAUSE_GROUP_BY, "GROUP"},
		{SQL_CLAUSE_HAVING, "HAVING"}, {SQL_CLAUSE_ORDER_BY, "ORDER"},
		{SQL_CLAUSE_LIMIT, "LIMIT"}, {SQL_CLAUSE_OFFSET, "OFFSET"}, {SQL_CLAUSE_FOR, "FOR"},
		{SQL_CLAUSE_SKIP, "SKIP"}
	};

	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
		assert_memory_equal(sql + select->clauses[expected[i].clause], expected[i].text,
							strlen(expected[i].text));
	assert_int_equal(select->clauses[SQL_CLAUSE_ALL], 0);
	assert_int_equal(sql_first_clause(select), SQL_CLAUSE_DISTINCT);
	assert_string_equal(sql_clause_name(SQL_CLAUSE_GROUP_BY), "GROUP BY");

	select = parse_select(*state, "SELECT DISTINCT ON (a, b) c FROM t");
	assert_int_equal(sql_first_clause(select), SQL_CLAUSE_DISTINCT_ON);
	select = parse_select(*state, "SELECT ALL a FROM t LIMIT 1");
	assert_int_equal(sql_first_clause(select), SQL_CLAUSE_ALL);
	select = parse_select(*state, "SELECT a FROM t WHERE b");
	assert_int_equal(sql_first_clause(select), -1);

	assert_refused("SELECT a FROM t HAVING a");
	assert_refused("SELECT a FROM t WHERE");
	assert_refused("SELECT a FROM t LIMIT");
	assert_refused("SELECT a FROM t WINDOW w AS (PARTITION BY a)");
}

static void
several_statements(void **state)
{
	const SqlScript *script = parse(*state, ";;SELECT 1;; SELECT 2 ;");

	assert_int_equal(script->count, 2);
	assert_int_equal(script->first->offset, 2);
	assert_int_equal(script->first->next->offset, 13);
	assert_null(script->first->next->next);
	assert_int_equal(parse(*state, "SELECT 1;")->count, 1);
	assert_refused("");
	assert_refused(" ; -- nothing");
	assert_refused("SELECT 1 SELECT 2");
	assert_refused("(SELECT 1)");
	assert_refused("((SELECT 1))");
}

static void
statements_that_cannot_be_used(void **state)
{
	static const struct
	{
		const char *sql;
		SqlStatementKind kind;
		const char *word;
	}			cases[] = {
		{"SELECT 1 UNION SELECT 2", SQL_UNION, "union"},
		{"(SELECT 1) UNION ALL (SELECT 2) UNION VALUES (3)", SQL_UNION, "union all"},
		{"Values (1, DEFAULT), ((SELECT 1))", SQL_VALUES, "values"},
		{"WITH a AS (SELECT 1), b AS (DELETE FROM t) SELECT * FROM a", SQL_WITH, "with"},
		{"WITH RECURSIVE a(x) AS (SELECT 1 UNION SELECT x FROM a) SELECT * FROM a", SQL_WITH,
		"with recursive"},
		{"INSERT INTO t VALUES (1)", SQL_OTHER_STATEMENT, "insert"},
		{"CREATE FUNCTION f() AS $$ ; $$", SQL_OTHER_STATEMENT, "create"}
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		const SqlScript *script = parse(*state, cases[i].sql);

		assert_int_equal(script->first->kind, cases[i].kind);
		assert_bytes(script->first->word, cases[i].word);
		assert_null(script->first->select);
	}
	assert_refused("INSERT INTO t VALUES (1");
	assert_refused("FROBNICATE t");
	assert_refused("VALUES 1");
	assert_refused("WITH a AS SELECT 1 SELECT 2");
}

/* ---------------------------------------------------------------- 2.3 to 2.5 */

static void
precedence(void **state)
{
	assert_tree("a OR b AND NOT c = d", "(a OR (b AND (NOT (c = d))))");
	assert_tree("NOT NOT a AND b", "((NOT (NOT a)) AND b)");
	assert_tree("a = b IS NULL", "(a = (IS NULL b))");
	assert_tree("a < b IS NOT TRUE", "(IS NOT TRUE (a < b))");
	assert_tree("a ISNULL = b NOTNULL", "((IS NULL a) = (IS NOT NULL b))");
	assert_tree("a < b = c", "((a < b) = c)");
	assert_tree("a = b < c", "(a = (b < c))");
	assert_tree("a = b = c", "((a = b) = c)");
	assert_tree("a BETWEEN b + 1 AND c | d AND e", "((a BETWEEN (b + 1) .. (c | d)) AND e)");
	assert_tree("a BETWEEN b BETWEEN c AND d AND e", "(a BETWEEN (b BETWEEN c .. d) .. e)");
	assert_tree("a NOT BETWEEN 1 AND 2 < 3", "((a NOT BETWEEN 1 .. 2) < 3)");
	assert_tree("a & b LIKE c", "(a & (b LIKE c))");
	assert_tree("a LIKE b IN c", "(a LIKE (b IN c))");
	assert_tree("'p' || a + b", "(('p' || a) + b)");
	assert_tree("a && b - c", "((a && b) - c)");
	assert_tree("a + b * c ^ d", "(a + (b * (c ^ d)))");
	assert_tree("- a ^ + b", "((- a) ^ (+ b))");
	assert_tree("- a AT TIME ZONE 'x'", "(- (a AT TIME ZONE 'x'))");
	assert_tree("a[1][b + 1]", "a[1][(b + 1)]");
	assert_tree("(a = b) + (c OR d)", "((a = b) + (c OR d))");
	assert_tree("a OPERATOR(s.+) b", "(a + b)");
	assert_condition_refused("a = NOT b");
	assert_condition_refused("a IS NULL < c");
	assert_condition_refused("a IS DISTINCT FROM b");
	assert_condition_refused("a BETWEEN b = c AND d");
	assert_condition_refused("a[1] -> 'k'");
	assert_condition_refused("a[1]::text");
	assert_condition_refused("(a).b");
	assert_condition_refused("a SIMILAR TO b");
	assert_condition_refused("a LIKE b ESCAPE 'x'");
	assert_condition_refused("a COLLATE \"C\"");
}

static void
json_operators_and_casts_are_tightest(void **state)
{
	assert_tree("'x' || a ->> 'k'", "('x' || (a ->> 'k'))");
	assert_tree("1 + j ->> 'k' + 2", "((1 + (j ->> 'k')) + 2)");
	assert_tree("a -> 'k' :: text ->> 0", "(cast((a -> 'k') text) ->> 0)");
	assert_tree("NOT a ->> 'b'", "(NOT (a ->> 'b'))");
	assert_condition_refused("a ->> b");
	assert_condition_refused("a ->> ('b')");
	assert_condition_refused("a -> 1.5");
}

static void
in_takes_an_operand_or_a_list(void **state)
{
	assert_tree("x IN (a)", "(x IN a)");
	assert_tree("x IN (a, b)", "(x IN [a, b])");
	assert_tree("x IN a || b", "(x IN (a || b))");
	assert_tree("x NOT IN bucket.p AND y", "((x NOT IN bucket.p) AND y)");
	assert_tree("a IN b IN c", "((a IN b) IN c)");
	assert_tree("x IN request.parameters() ->> 'ids'", "(x IN (request.parameters() ->> 'ids'))");
	assert_tree("x IN (SELECT a FROM t)", "(x IN SUBQUERY)");
	assert_tree("x IN ((SELECT a) UNION (SELECT b))", "(x IN SUBQUERY)");
	assert_tree("x IN ARRAY['a', 1]", "(x IN ARRAY['a', 1])");
	assert_tree("x IN '[]'", "(x IN '[]')");
	assert_condition_refused("x IN ()");
}

static void
types(void **state)
{
	assert_tree("CAST(a AS INTEGER)", "cast(a integer)");
	assert_tree("a::int", "cast(a int)");
	assert_tree("a::numeric(10, 2)", "cast(a numeric)");
	assert_tree("a::double precision", "cast(a double precision)");
	assert_tree("a::timestamp without time zone", "cast(a timestamp without time zone)");
	assert_tree("a::time(3) with time zone", "cast(a timestamp with time zone)");
	assert_tree("a::character varying(5)", "cast(a character varying)");
	assert_tree("a::s.\"T\"[][]", "cast(a s.T[][])");
	assert_tree("a::int ARRAY", "cast(a int[])");
	assert_tree("X'1F'", "cast('1F' x)");
	assert_tree("interval '1 day'", "cast('1 day' interval)");
	assert_tree("f(1) 'x'", "cast('x' f)");
	assert_tree("f(1)", "f(1)");
	assert_true(parse_expr(*state, "a::\"Text\"")->cast.type->name.quoted);
	assert_condition_refused("CAST(a text)");
	assert_condition_refused("a::'text'");
}

static void
calls(void **state)
{
	assert_tree("f()", "f()");
	assert_tree("auth.user_id() = count(*)", "(auth.user_id() = count(*))");
	assert_tree("any(a) = values(b)", "(any(a) = values(b))");
	assert_tree("f(SELECT 1)", "f(SUBQUERY)");
	assert_tree("current_date(1)", "current_date(1)");
	assert_int_equal(parse_expr(*state, "f(DISTINCT a ORDER BY b) FILTER (WHERE c) OVER "
								"(PARTITION BY d ORDER BY e)")->call.extras,
					 SQL_CALL_DISTINCT | SQL_CALL_ORDER_BY | SQL_CALL_FILTER | SQL_CALL_OVER);
	assert_int_equal(parse_expr(*state, "f(ALL a)")->call.extras, SQL_CALL_ALL);
	assert_condition_refused("left(a, 1)");
	assert_condition_refused("f(a,)");
	assert_condition_refused("f(a");
	assert_condition_refused("a.b.f(1)");
}

static void
kinds_that_cannot_be_used(void **state)
{
	assert_int_equal(parse_expr(*state, "current_user")->kind, SQL_KEYWORD);
	assert_bytes(parse_expr(*state, "CURRENT_User")->word, "current_user");
	assert_bytes(parse_expr(*state, "$12")->word, "$12");
	assert_int_equal(parse_expr(*state, "DEFAULT")->kind, SQL_DEFAULT);
	assert_int_equal(parse_expr(*state, "ARRAY(SELECT 1)")->kind, SQL_ARRAY_SUBQUERY);
	assert_int_equal(parse_expr(*state, "extract(year FROM a)")->kind, SQL_EXTRACT);
	assert_int_equal(parse_expr(*state, "overlay(a PLACING b FROM 1 FOR 2)")->kind, SQL_OVERLAY);
	assert_int_equal(parse_expr(*state, "substring(a FROM 1)")->kind, SQL_SUBSTRING);
	assert_null(parse_expr(*state, "substring(a FOR 1)")->words.from);
	assert_tree("substring(a, 1, 2)", "substring(a, 1, 2)");
	assert_tree("ARRAY[[1], [2, a]]", "ARRAY[ARRAY[1], ARRAY[2, a]]");
	assert_condition_refused("ARRAY[[]]");
}

static void
case_expressions(void **state)
{
	const SqlExpr *expr = parse_expr(*state, "CASE a WHEN 1 THEN b WHEN 2 THEN c ELSE d END");

	assert_int_equal(expr->cases.arm_count, 2);
	assert_bytes(expr->cases.arms[1].when->integer, "2");
	assert_non_null(expr->cases.operand);
	assert_non_null(expr->cases.otherwise);

	expr = parse_expr(*state, "CASE WHEN a THEN b END");
	assert_null(expr->cases.operand);
	assert_null(expr->cases.otherwise);
	assert_int_equal(parse_expr(*state, "CASE END")->cases.arm_count, 0);
	assert_condition_refused("CASE a WHEN 1 END");
}

/* the reference parser refuses what it can read in two ways */
static void
two_readings(void **state)
{
	assert_condition_refused("substring(a)");
	assert_condition_refused("f(ALL (a))");
	assert_condition_refused("f(VALUES (1))");
	assert_condition_refused("x IN (VALUES (1))");
	assert_condition_refused("f(SELECT a ORDER BY b)");
	assert_condition_refused("x IN (SELECT a, b)");
	assert_condition_refused("x IN (SELECT a FROM t, u)");
	assert_condition_refused("x IN (SELECT a FROM t GROUP BY a, b)");
	assert_refused("SELECT ALL (a) FROM t");
	assert_refused("SELECT a::character varying FROM t");
	assert_refused("SELECT a FROM s.primary");
	assert_tree("x IN (SELECT a, b FROM t)", "(x IN SUBQUERY)");
	assert_tree("x IN (SELECT a FROM t, u WHERE b)", "(x IN SUBQUERY)");
	assert_tree("x IN (SELECT a FROM t, u v)", "(x IN SUBQUERY)");
	assert_tree("x IN (SELECT a ORDER BY b)", "(x IN SUBQUERY)");
	assert_tree("values(1)", "values(1)");
	assert_tree("substring(*)", "substring(*)");
	parse(*state, "SELECT a::character varying AS b FROM t");
	parse(*state, "SELECT a FROM s.\"primary\"");
}

/* ---------------------------------------------------------------- positions, messages */

static void
positions_of_expressions(void **state)
{
	const char *sql = "SELECT (a) + f( b ) , c IS NULL FROM t";
	const SqlScript *script = parse(*state, sql);
	const SqlItem *items = script->first->select->items;
	int			line;
	int			column;

	assert_bytes(sql_text(script, items[0].expr->offset, items[0].expr->end), "a) + f( b )");
	assert_bytes(sql_text(script, items[0].expr->binary.right->offset,
						  items[0].expr->binary.right->end), "f( b )");
	assert_bytes(sql_text(script, items[1].expr->offset, items[1].expr->end), "c IS NULL");
	assert_int_equal(items[1].expr->height, 2);
	assert_int_equal(script->first->end, strlen(sql));

	script = parse(*state, "SELECT\n  \"é\",\n\t\"ü\" x");
	sql_position(script, script->first->select->items[1].alias.offset, &line, &column);
	assert_int_equal(line, 3);
	assert_int_equal(column, 6);
	sql_position(script, 0, &line, &column);
	assert_int_equal(line, 1);
	assert_int_equal(column, 1);
}

static void
messages(void **state)
{
	SyncError	error;

	assert_error(*state, "SELECT a FROM t\n WHERE  a = order", 2, 13,
				 "unexpected \"order\", expected an expression");
	assert_error(*state, "SELECT 'é', a FROM t WHERE", 1, 27,
				 "unexpected end of the query, expected an expression");
	assert_error(*state, "SELECT \"é\" ü", 1, 12, "unexpected character \"ü\"");
	assert_error(*state, "SELECT a FROM t WHERE b = 'x", 1, 27,
				 "the string that begins here has no closing quote");
	assert_error(*state, "SELECT \"a FROM t", 1, 8,
				 "the quoted name that begins here has no closing quote");
	assert_error(*state, "SELECT f(a FROM t", 1, 12, "unexpected \"FROM\", expected \")\"");
	assert_error(*state, "SELECT substring(a) FROM t", 1, 8, "this can be read in two ways");

	error = refusal(*state, "SELECT n-1 FROM t");
	assert_int_equal(error.column, 9);
	assert_non_null(strstr(error.hint, "minus"));
	error = refusal(*state, "SELECT a AS user FROM t");
	assert_non_null(strstr(error.hint, "reserved"));
	error = refusal(*state, "SELECT 1 FROM t WHERE a == 1");
	assert_non_null(strstr(error.hint, "single"));
	/* nobody has to ask for the error */
	assert_null(sql_parse("x", 1, *state, *state, NULL));
}

static void
long_token_is_cut_in_messages(void **state)
{
	char		sql[300];
	SyncError	error;

	memset(sql, 'x', sizeof(sql));
	memcpy(sql, "SELECT a b ", 11);
	sql[sizeof(sql) - 1] = '\0';
	error = refusal(*state, sql);
	assert_true(strlen(error.message) < 100);
	assert_non_null(strstr(error.message, "..."));
}

static void
invalid_bytes_are_refused(void **state)
{
	SyncError	error = {0};

	assert_null(sql_parse("SELECT '\xff'", 10, *state, *state, &error));
	assert_int_equal(error.code, SYNC_ERROR_SYNTAX);
	assert_null(sql_parse("SELECT \0 a", 10, *state, *state, &error));
	assert_int_equal(error.code, SYNC_ERROR_SYNTAX);
	assert_non_null(sql_parse("SELECT '\0'", 10, *state, *state, &error));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		arena_test(words_are_folded_and_ascii),
		arena_test(quoted_names_keep_everything),
		arena_test(quoted_names_lose_blanks_when_qualified),
		arena_test(strings),
		arena_test(minus_before_a_digit_belongs_to_the_number),
		arena_test(numbers),
		arena_test(comments),
		arena_test(operators_of_the_lexer),
		arena_test(reserved_words),
		arena_test(items_and_aliases),
		arena_test(sources),
		arena_test(joins_in_parentheses_and_of_all_kinds),
		arena_test(marked_clauses),
		arena_test(several_statements),
		arena_test(statements_that_cannot_be_used),
		arena_test(precedence),
		arena_test(json_operators_and_casts_are_tightest),
		arena_test(in_takes_an_operand_or_a_list),
		arena_test(types),
		arena_test(calls),
		arena_test(kinds_that_cannot_be_used),
		arena_test(case_expressions),
		arena_test(two_readings),
		arena_test(positions_of_expressions),
		arena_test(messages),
		arena_test(long_token_is_cut_in_messages),
		arena_test(invalid_bytes_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
