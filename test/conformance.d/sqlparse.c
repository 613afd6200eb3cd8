/*-------------------------------------------------------------------------
 *
 * sqlparse.c
 *	  Conformance, kind "sqlparse": which SQL is accepted, and how it nests.
 *
 * A case passes when sql_parse() accepts exactly what the reference parser
 * does and the tree, printed by sqlparse_tree.c, is the same text.  What
 * PostgreSQL's own grammar makes of the case is not looked at.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>

#include "sqlparse_tree.h"
#include "vectors.h"

static void
run_case(const JsonNode *node, SyncArena *arena)
{
	SyncString	id = as_text(need(node, "id"));
	SyncString	sql;
	const JsonNode *accepted;
	const SqlScript *script;
	SyncError	error = {0};

	case_begin("%.*s", (int) id.len, id.data);
	sql = as_text(need(node, "sql"));
	accepted = need(node, "accepted");
	script = sql_parse(sql.data, sql.len, arena, arena, &error);

	if (accepted->kind != JSON_TRUE && accepted->kind != JSON_FALSE)
		case_fail("the vector does not say whether it is accepted");
	else if (accepted->kind == JSON_TRUE && script == NULL)
		case_fail("not accepted: line %d, column %d: %s: %.*s", error.line, error.column,
				  error.message, (int) sql.len, sql.data);
	else if (accepted->kind == JSON_FALSE && script != NULL)
		case_fail("accepted: %.*s", (int) sql.len, sql.data);
	else if (script != NULL)
	{
		SyncBuffer	tree;

		buffer_init(&tree, arena, 256);
		sqlparse_print(&tree, script);
		if (!check_text("the tree", buffer_string(&tree), as_text(need(node, "tree"))))
			case_fail("the text was: %.*s", (int) sql.len, sql.data);
	}
	else
	{
		check_true("an error has a message and a position",
				   error.code != SYNC_OK && error.message[0] != '\0' && error.line > 0 &&
				   error.column > 0);
	}
	case_end();
}

static void
run_file(const char *name, const JsonNode *root, SyncArena *arena)
{
	const JsonNode *cases = member(root, "cases");

	if (cases == NULL || cases->first == NULL)
	{
		case_begin("%s", name);
		case_fail("no cases");
		case_end();
		return;
	}
	for (const JsonNode *node = cases->first; node != NULL; node = node->next)
		run_case(node, arena);
}

int
main(int argc, char **argv)
{
	return vectors_main(argc, argv, run_file);
}
