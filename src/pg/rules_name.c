/*-------------------------------------------------------------------------
 *
 * rules_name.c
 *	  Under which name the sync rules see a relation: its own, or, for a partition,
 *	  that of a table above it.
 *
 * A publication with publish_via_partition_root publishes the rows of partitions as
 * rows of the topmost table above them that it has.  Without a publication the
 * rules decide: a partition whose own name they do not have is seen under that of the
 * topmost table above it that they read.
 *
 * It says nothing of whether the relation can be replicated, or is published.
 *
 * Invariant: at one place of the stream a relation has one name.
 *
 *-------------------------------------------------------------------------
 */
#include "worker.h"

#include "access/htup_details.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

/* False: it, or its schema, is gone. */
static bool
own_name(Oid relid, RulesName *name)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Form_pg_class form;

	if (!HeapTupleIsValid(tuple))
		return false;
	form = (Form_pg_class) GETSTRUCT(tuple);
	name->relid = relid;
	name->schema = get_namespace_name(form->relnamespace);
	name->table = pstrdup(NameStr(form->relname));
	ReleaseSysCache(tuple);
	return name->schema != NULL;
}

static void
name_of_rules(const SyncPlan *plan, Oid relid, RulesName *name)
{
	RulesName	above;

	if (plan_reads_table(plan, name->schema, name->table))
		return;
	for (Oid parent = partition_parent(relid); OidIsValid(parent); parent = partition_parent(parent))
		if (own_name(parent, &above) && plan_reads_table(plan, above.schema, above.table))
			*name = above;
}

bool
rules_name(const char *publication, const SyncPlan *plan, Form_pg_class form, RulesName *name)
{
	Oid			oid;

	name->relid = form->oid;
	name->schema = get_namespace_name(form->relnamespace);
	name->table = pstrdup(NameStr(form->relname));
	if (name->schema == NULL)
		return false;
	if (!form->relispartition)
		return true;
	oid = publication_oid(publication);
	if (!OidIsValid(oid))
	{
		name_of_rules(plan, form->oid, name);
		return true;
	}
	return own_name(publication_root(oid, form->oid), name);
}
