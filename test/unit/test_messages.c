/*-------------------------------------------------------------------------
 *
 * test_messages.c
 *	  What people are told about rules that are wrong: the place, the words,
 *	  the hint, and that all faults are shown and none twice.
 *
 * Places are those an editor shows: columns count characters from 1, also
 * behind quotes, escapes, folded lines, tabs, CRLF and a byte order mark.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>

#include "rules_test.h"

/* messages as lines: "column: message | hint" */
static const struct
{
	const char *query;
	const char *expected;
}			queries[] = {
	{"SELECT * FORM t",
	"23: unexpected \"t\" | Did you mean FROM?"},
	{"SELEC * FROM t",
	"9: unexpected \"SELEC\", expected SELECT | Did you mean SELECT?"},
	{"SELECT * FROM",
	"22: unexpected end of the query, expected a name"},
	{"SELECT id, FROM t",
	"20: unexpected \"FROM\", expected an expression | The comma before it is one too many."},
	{"SELECT id FROM t WHERE",
	"31: unexpected end of the query, expected an expression"},
	{"SELECT id FROM t WHERE a = 'x",
	"36: the string that begins here has no closing quote"},
	{"SELECT id FROM t WHERE a ==  1",
	"35: unexpected \"=\", expected an expression | Values are compared with a single \"=\"."},
	{"SELECT id FROM t WHERE (a = 1",
	"38: unexpected end of the query, expected \")\""},
	{"SELECT id FROM t WHERE a = 1)",
	"37: unexpected \")\""},
	{"SELECT id FROM t GROUP BY id",
	"26: GROUP BY is not supported"},
	{"SELECT DISTINCT id FROM t",
	"16: DISTINCT is not supported"},
	{"SELECT id FROM t LIMIT 1",
	"26: LIMIT is not supported"},
	{"SELECT id FROM t; SELECT id FROM u",
	"27: only one statement is allowed"},
	{"DELETE FROM t",
	"9: only SELECT statements are supported"},
	{"SELECT order FROM t",
	"22: unexpected \"FROM\", expected BY | The word before it is reserved: to use it as a name, put it in double quotes."},
	{"SELECT id FROM t WHERE a LIKE 1",
	"32: LIKE is not supported here | Use instr() or substring()."},
	{"SELECT id FROM t WHERE a NOT IN b",
	"32: NOT IN is not supported here | Use NOT (value IN array)."},
	{"SELECT id FROM t WHERE a IN (1,2)",
	"38: a list is not supported here | Compare with = and OR, or with IN and a JSON array: '[\"a\", \"b\"]'."},
	{"SELECT id FROM t WHERE a BETWEEN 1 AND 2",
	"32: BETWEEN is not supported here | Use >= and <=."},
	{"SELECT id FROM t WHERE n-1",
	"33: unexpected \"-1\" | A minus before a digit belongs to the number: to subtract, put blanks around it."},
	{"SELECT id FROM t WHERE \"a* = 1",
	"32: the quoted name that begins here has no closing quote"},
	{"SELECT id FROM a, b",
	"27: a query must read from exactly one table"},
	{"SELECT id FROM a JOIN b ON a.x = b.x",
	"31: a query must read from exactly one table"},
	{"SELECT id FROM (SELECT 1) AS x",
	"24: a query must read from exactly one table"},
	{"SELECT id FROM größe",
	"26: unexpected character \"ö\" | Names with other letters than a to z go in double quotes."},
	{"SELECT lenght(id) AS id FROM t",
	"16: there is no function \"lenght\" | Did you mean \"length\"?"},
	{"SELECT coalesce(id,1) AS id FROM t",
	"16: there is no function \"coalesce\" | Use ifnull()."},
	{"SELECT id::int AS id FROM t",
	"20: unknown type \"int\" | A cast can be to text, numeric, integer, real or blob."},
	{"SELECT upper(id) FROM t",
	"16: an expression needs a name | Add AS and a name behind it."},
	{"SELECT count(*) AS id FROM t",
	"16: there is no function \"count\" | Rules look at one row at a time: there are no aggregates."},
	{"SELECT t.id FROM u",
	"16: \"t\" is not the query's table | Columns belong to \"u\"."},
	{"SELECT id FROM t WHERE auth.user_id() = id",
	"32: there is no function auth.user_id() | Bucket definitions have request.user_id(), request.jwt() and request.parameters()."},
	{"SELECT id FROM t WHERE request.user_id() = id",
	"32: values of the request are not available in data queries | Make it a bucket parameter by a query under \"parameters\"."},
	{"SELECT id FROM t WHERE token_parameters.user_id = id",
	"32: \"token_parameters\" is not the query's table | Make it a bucket parameter by a query under \"parameters\"."},
	{"SELECT id FROM t WHERE id = bucket.x",
	"37: \"bucket.x\" is not a parameter of the bucket | It has none: they come from the items of queries under \"parameters\"."},
	{"SELECT name FROM t",
	"16: the query must select a column \"id\" | Add the key column, for example: SELECT key AS id."},
	{"SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u)",
	"32: there is no function \"exists\" | Make it a query under \"parameters\", and compare with the bucket parameter."},
	{"SELECT id FROM t WHERE a = $1",
	"36: a numbered parameter is not supported here"},
	{"SELECT id FROM t WHERE a = 1e3",
	"37: unexpected \"e3\""},
	{"SELECT id FROM t WHERE a->1 = 2",
	"35: the key of -> and ->> must be a text"},
	{"SELECT id FROM t WHERE a = 'it''s' AND foo() = 1",
	"48: there is no function \"foo\""},
	{"SELECT id FROM t WHERE CASE WHEN a THEN 1 END",
	"32: CASE is not supported here | Use iif()."},
	{"SELECT id FROM a.b.c.d",
	"27: unexpected \".\""},
	{"SELECT id FROM \"a.b.c\".d",
	"24: a schema name can hold one dot, between connection and schema"},
	{"SELECT id AS FROM t",
	"22: unexpected \"FROM\", expected a name | This is a reserved word: to use it as a name, put it in double quotes."},
	{"SELECT",
	"9: a query must read from exactly one table"},
	{"SELECT id FROM t WHERE a IS DISTINCT FROM b",
	"37: unexpected \"DISTINCT\", expected NULL, TRUE or FALSE"},
	{"SELECT sum(n) AS id FROM t",
	"16: there is no function \"sum\" | Rules look at one row at a time: there are no aggregates."},
	{"SELECT id FROM t WEHRE a = 1",
	"32: unexpected \"a\" | Did you mean WHERE?"},
	{"SELECT id, group FROM t",
	"20: unexpected \"group\", expected an expression | This is a reserved word: to use it as a name, put it in double quotes."},
	{"SELECT id FROM t WHERE a = current_user",
	"36: a value of the session is not supported here"},
	{"SELECT substring(a FROM 1) AS id FROM t",
	"16: SUBSTRING with FROM is not supported here | Use substring(text, start, length)."},
	{"SELECT id FROM t WHERE request.foo() = id",
	"32: values of the request are not available in data queries | Make it a bucket parameter by a query under \"parameters\"."},
	{"SELECT \"ä ö\", foo(1) AS id FROM t",
	"23: there is no function \"foo\""},
	{"SELECT\tid, foo(1) AS x FROM t",
	"20: there is no function \"foo\""},
	{"SELECT id FROM t HAVING a",
	"26: unexpected \"HAVING\" | This is a reserved word: to use it as a name, put it in double quotes."},
	{"SELECT foo(1) AS id, bar(2) AS x FROM t WHERE baz(3)",
	"16: there is no function \"foo\"\n"
	"30: there is no function \"bar\"\n"
	"55: there is no function \"baz\""},
	{"SELECT id FROM t WHERE a = 1 AND (b = foo(bar(1)) OR upper(x, nope(2)) = 1)",
	"47: there is no function \"foo\"\n"
	"51: there is no function \"bar\"\n"
	"71: there is no function \"nope\""},
	{"SELECT userId AS id FROM t",
	"16: unquoted \"userId\" means \"userid\" | Put it in double quotes to keep capital letters."},
};

/* "F line:column: message | hint" */
static const struct
{
	const char *document;
	const char *expected;
}			documents[] = {
	{"bucket_definitions:\n"
	"  b:\n"
	"    parameters: SELECT id AS list FROM lists WHERE u = request.user_id()\n"
	"    data:\n"
	"      - SELECT * FROM t WHERE id = bucket.lst\n"
	"      - SELECT * FROM t\n"
	"      - SELECT * FROM t WHERE bucket.list = bucket.list\n"
	"      - SELECT * FROM t WHERE upper(bucket.list) = id\n"
	"      - SELECT * FROM t WHERE id IN bucket.list\n"
	"      - SELECT * FROM t WHERE bucket.list\n"
	"      - SELECT * FROM t WHERE id = bucket.list OR a = 1\n"
	"      - SELECT * FROM t WHERE NOT id = bucket.list\n"
	"      - SELECT bucket.list AS id FROM t WHERE id = bucket.list\n",
	"F 5:36: \"bucket.lst\" is not a parameter of the bucket | Did you mean \"bucket.list\"?\n"
	"F 6:9: the query does not compare the bucket parameter \"list\" | Add: WHERE column = bucket.list\n"
	"F 7:31: two bucket parameters cannot be compared with one another\n"
	"F 8:31: a bucket parameter can only be compared with = or IN, not be part of an expression\n"
	"F 9:31: a bucket parameter cannot be the list that IN searches\n"
	"F 11:31: both sides of OR must compare the same parameters | Use two queries instead of OR.\n"
	"F 12:31: a comparison of a row with a parameter can stand only under AND and OR\n"
	"F 13:16: an item can use columns of the table and constants only"},
	{"bucket_definitions:\n"
	"  b:\n"
	"    parameters: SELECT id FROM lists AS l WHERE u = request.user_id()\n"
	"    data:\n"
	"      - SELECT * FROM t\n",
	"F 3:41: a table of a parameter query cannot have an alias"},
	{"bucket_definitions:\n"
	"  b:\n"
	"    parameters: \n"
	"      - SELECT id AS a FROM l WHERE u = request.user_id()\n"
	"      - SELECT id AS b FROM l WHERE u = request.usr_id()\n"
	"      - SELECT id AS c, x AS a FROM l WHERE u = request.user_id()\n"
	"      - SELECT upper(x) AS a FROM l\n"
	"      - SELECT * FROM l\n"
	"      - SELECT bucket.a AS a FROM l\n"
	"    data:\n"
	"      - SELECT * FROM t WHERE id = bucket.a\n",
	"F 5:22: \"b\" is not a parameter of the bucket's first parameter query | All parameter queries of a bucket must have the same items.\n"
	"F 5:49: there is no function request.usr_id() | There are user_id(), jwt(), parameters(), parameter().\n"
	"F 6:22: \"c\" is not a parameter of the bucket's first parameter query | All parameter queries of a bucket must have the same items.\n"
	"F 7:16: an item of a parameter query is a column of the table or an expression of the request, not an expression of columns\n"
	"F 8:16: * is not supported in parameter queries\n"
	"F 9:16: \"bucket\" is not the query's table | Bucket parameters are for the queries under \"data\"."},
	{"bucket_definition:\n"
	"  b:\n"
	"    data: []\n",
	"F 1:1: unknown key \"bucket_definition\" in the sync config | Did you mean \"bucket_definitions\"?"},
	{"bucket_definitions:\n"
	"  b:\n"
	"    data: SELECT 1\n"
	"    paramaters: x\n"
	"    priority: 9\n",
	"F 4:5: unknown key \"paramaters\" in a bucket definition | Did you mean \"parameters\"?\n"
	"F 3:11: \"data\" must be a list of SQL texts, not a text | Put it on a line of its own, after \"- \".\n"
	"F 5:15: \"priority\" must be a whole number from 0 to 3"},
	{"bucket_definitions:\n"
	"\tb:\n"
	"    data: []\n",
	"F 2:1: invalid YAML: while scanning for the next token, found character that cannot start any token | Indent with spaces, not with tabs."},
	{"bucket_definitions:\n"
	"  b:\n"
	"    data:\n"
	"      - SELECT a: b FROM t\n"
	"      - x\n",
	"F 4:9: an SQL text is expected here, not a map | Put a text that holds \": \" in quotes, or on lines of its own after |.\n"
	"F 5:9: unexpected \"x\", expected SELECT"},
	{"bucket_definitions:\n"
	"  b:\n"
	"    data:\n"
	"      - @x\n",
	"F 4:9: invalid YAML: while scanning for the next token, found character that cannot start any token | Put the text in quotes."},
	{"bucket_definitions:\n"
	"  b:\n"
	"    data:\n"
	"     - x\n"
	"    - y\n",
	"F 5:5: invalid YAML: while parsing a block mapping, did not find expected key"},
	{"bucket_definitions:\n"
	"  b:\n"
	"    data: [\n",
	"F 4:1: invalid YAML: while parsing a flow node, did not find expected node content"},
	{"config:\n"
	"  edition: 7\n"
	"  timestamps_iso8601: yes\n"
	"  storage_version: 1\n"
	"  timestamp_max_precision: minutes\n"
	"bucket_definitions: {}\n",
	"F 2:12: \"edition\" must be a whole number from 1 to 3\n"
	"F 3:23: \"timestamps_iso8601\" must be true or false, not a text\n"
	"F 5:28: \"timestamp_max_precision\" must be seconds, milliseconds, microseconds or nanoseconds\n"
	"F 4:20: \"storage_version\" must be 2 or 3"},
	{"bucket_definitions:\n"
	"  b: {data: []}\n"
	"  b: {data: []}\n",
	"F 3:3: the key \"b\" appears twice in one map"},
	{"bucket_definitions:\n"
	"  1: {data: []}\n",
	"F 2:3: a definition's name must be a text, not a number | Put it in quotes."},
	{"",
	"F 1:1: the YAML document is empty"},
	{"- a\n",
	"F 1:1: a sync config must be a map, not a list"},
	{"bucket_definitions:\n"
	"  b:\n"
	"    data:\n"
	"      - *x\n",
	"F 4:9: an SQL text is expected here, not an alias | Write it out: what an anchor names cannot be used again."},
	{"x: &a 1\n"
	"bucket_definitions: *a\n",
	"F 1:1: unknown key \"x\" in the sync config\n"
	"F 2:21: \"bucket_definitions\" must be a map, not an alias | Write it out: what an anchor names cannot be used again."},
	{"bucket_definitions:\n"
	"  b:\n"
	"    data:\n"
	"      - \"SELECT \\\"Näme\\\",\\n  foo(\\u00e9\\x41x) AS id\\t FROM t WHERE bar(1)\"\n",
	"F 4:34: unexpected character \"é\" | Names with other letters than a to z go in double quotes."},
	{"bucket_definitions:\n"
	"  b:\n"
	"    data:\n"
	"      - 'SELECT ''äöü'' AS id,\n"
	"\n"
	"          ''x'' AS b, foo(1) AS c FROM t'\n",
	"F 6:23: there is no function \"foo\""},
	{"bucket_definitions:\r\n"
	"  b:\r\n"
	"    data:\r\n"
	"      - |\r\n"
	"        SELECT id,\r\n"
	"          foo(x) AS y\r\n"
	"        FROM t\r\n",
	"F 6:11: there is no function \"foo\""},
	{"bucket_definitions:\r  b:\r    data:\r      - |\r        SELECT id,\r          foo(x) AS y\r        FROM t\r",
	"F 6:11: there is no function \"foo\""},
	{"bucket_definitions:\n"
	"  b:\n"
	"    data:\n"
	"      - >-  # why\n"
	"        SELECT id,\n"
	"\n"
	"        foo(x) AS y FROM t\n",
	"F 7:9: there is no function \"foo\""},
	{"bucket_definitions:\n"
	"  b:\n"
	"    data:\n"
	"      - !!str SELECT\n"
	"          id, foo(x) AS y FROM t\n"
	"      - &anchor \"SELECT foo(x) AS id FROM t\"\n",
	"F 5:15: there is no function \"foo\"\n"
	"F 6:25: there is no function \"foo\""},
	{"﻿bucket_definitions: {b: {data: [SELECT foo(1) AS id FROM t]}}\n",
	"F 1:40: there is no function \"foo\""},
	{"bucket_definitions:\n"
	"  b:\n"
	"    data:\n"
	"      - SELECT \377 FROM t\n",
	"F 4:16: invalid YAML: invalid leading UTF-8 octet | It must be UTF-8 without control characters."},
	{"config:\n"
	"  edition: 3\n"
	"bucket_definitions:\n"
	"  b:\n"
	"    data: []\n",
	"F 4:3: \"bucket_definitions\" are not available in edition 3 | Use \"streams\", or set edition to 2."},
	{"config: 1\n"
	"bucket_definitions: []\n"
	"event_definitions:\n"
	"  e: {payload: []}\n"
	"  true: {}\n",
	"F 1:9: \"config\" must be a map, not a number\n"
	"F 2:21: \"bucket_definitions\" must be a map, not a list\n"
	"F 4:7: unknown key \"payload\" in an event definition | Did you mean \"payloads\"?\n"
	"F 5:3: an event's name must be a text, not a boolean | Put it in quotes."},
	{"bucket_definitions:\n"
	"  b:\n"
	"    parameters: []\n"
	"    data: [SELECT * FROM t]\n"
	"  c:\n"
	"    parameters: ~\n"
	"    data: [SELECT * FROM t]\n",
	"F 3:17: \"parameters\" must hold at least one query\n"
	"F 6:17: \"parameters\" must be a list of SQL texts, not null"},
	{"bucket_definitions:\n"
	"  b:\n"
	"    parameters:\n"
	"      - SELECT id AS a, _priority AS p, 5 AS _priority FROM l WHERE a IN request.parameter(x)\n"
	"    data:\n"
	"      - SELECT * FROM t WHERE a = bucket.a AND p = bucket.p\n",
	"F 4:41: _priority must be a whole number from 0 to 3\n"
	"F 4:92: the argument of request.parameter() must be a constant"},
};

/* line 0: with level and line; else only messages of that line are there */
static const char *
messages_of(const char *document, int line)
{
	RulesOptions options = {.default_schema = "public"};
	const RulesMessage *message;
	SyncBuffer	text;

	buffer_init(&text, arena, 256);
	(void) rules_compile(document, strlen(document), &options, arena, &message);
	for (; message != NULL; message = message->next)
	{
		const SyncError *error = &message->error;
		const char *one;

		if (line == 0)
			one = arena_printf(arena, "%s%c %d:%d: %s%s%s", text.len > 0 ? "\n" : "",
							   message->level == RULES_FATAL ? 'F' : 'W', error->line, error->column,
							   error->message, error->hint[0] != '\0' ? " | " : "", error->hint);
		else
		{
			assert_int_equal(error->line, line);
			one = arena_printf(arena, "%s%d: %s%s%s", text.len > 0 ? "\n" : "", error->column,
							   error->message, error->hint[0] != '\0' ? " | " : "", error->hint);
		}
		/* PostgreSQL's style: no capital letter but in words of SQL and names, no full stop */
		assert_false(error->message[0] >= 'A' && error->message[0] <= 'Z' &&
					 error->message[1] >= 'a' && error->message[1] <= 'z');
		assert_int_not_equal(error->message[strlen(error->message) - 1], '.');
		buffer_append(&text, one, strlen(one));
	}
	buffer_append_char(&text, '\0');
	return text.data;
}

static void
test_queries(void **state)
{
	(void) state;
	for (size_t i = 0; i < sizeof(queries) / sizeof(queries[0]); i++)
	{
		const char *document = arena_printf(arena, "bucket_definitions:\n  b:\n    data:\n      - %s\n",
											queries[i].query);
		const char *got = messages_of(document, 4);

		if (strcmp(got, queries[i].expected) != 0)
			fail_msg("%s\ngot:\n%s\nexpected:\n%s", queries[i].query, got, queries[i].expected);
	}
}

static void
test_documents(void **state)
{
	(void) state;
	for (size_t i = 0; i < sizeof(documents) / sizeof(documents[0]); i++)
	{
		const char *got = messages_of(documents[i].document, 0);

		if (strcmp(got, documents[i].expected) != 0)
			fail_msg("%s\ngot:\n%s\nexpected:\n%s", documents[i].document, got,
					 documents[i].expected);
	}
}

/* the same query in every style of YAML: the call of nosuch() is where it stands */
static void
test_styles(void **state)
{
	static const char *const styles[] = {
		"SELECT 'it''s' AS a, nosuch(x) AS id FROM t",
		"'SELECT ''it''''s'' AS a, nosuch(x) AS id FROM t'",
		"\"SELECT 'it''s' AS a, nosuch(x) AS id FROM t\"",
		"\"SELECT 'it''s\\u00fc\\x41\\U0001F600\\t\\n\\\" nosuch' AS a,\\\n    nosuch(x) AS id FROM t\"",
		"\"SELECT '\\\\\\/\\_\\L' AS a, nosuch(x) AS id FROM t\"",
		"|\n    SELECT 'it''s' AS a,\n      nosuch(x) AS id\n    FROM t",
		"|1-  # a nosuch\n    SELECT 'it''s' AS a,\n      nosuch(x) AS id\n    FROM t",
		">+\r\n    SELECT 'it''s' AS a,\r\n\r\n\r\n    nosuch(x) AS id\r\n    FROM t",
		"!!str &nosuch SELECT 'ü' AS a,\n    nosuch(x) AS id\n    FROM t",
		"&nosuch !!str \"SELECT 'ü\\u00fc' AS a,\n\n    nosuch(x) AS id\n    FROM t\"",
		"SELECT\t'\xF0\x9F\x98\x80' AS a,\t\tnosuch(x) AS id FROM t",
		"SELECT 'a' AS a,\xE2\x80\xA8    nosuch(x) AS id FROM t",
	};

	(void) state;
	for (size_t i = 0; i < sizeof(styles) / sizeof(styles[0]); i++)
	{
		RulesOptions options = {.default_schema = "public"};
		const char *document = arena_printf(arena, "bucket_definitions:\n b:\n  data:\n   - %s\n",
											styles[i]);
		const char *call = strstr(document, "nosuch(");
		const RulesMessage *message;
		int			line = 1;
		int			column = 1;

		for (const char *at = document; at < call; at++)
		{
			if (*at == '\n' || strncmp(at, "\xE2\x80\xA8", 3) == 0)
			{
				line++;
				column = *at == '\n' ? 1 : -1;
			}
			else if ((*at & 0xC0) != 0x80 || column < 1)
				column++;
		}
		assert_null(rules_compile(document, strlen(document), &options, arena, &message));
		if (message->error.line != line || message->error.column != column ||
			strstr(message->error.message, "nosuch") == NULL)
			fail_msg("%s\ngot %d:%d: %s\nexpected %d:%d", document, message->error.line,
					 message->error.column, message->error.message, line, column);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		rules_test(test_queries),
		rules_test(test_documents),
		rules_test(test_styles),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
