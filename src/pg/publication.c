/*-------------------------------------------------------------------------
 *
 * publication.c
 *	  Which tables the publication of "pgsync.publication" lets through.
 *
 * A publication that exists is honoured; one that does not exist means every
 * table the rules name; an empty setting means explicitly none (design 7).  With
 * publish_via_partition_root the rows of partitions are those of a table above them
 * (rules_name.c).  Row filters, column lists and partial operations are refused, not
 * ignored: they would silently change what clients see.
 *
 *-------------------------------------------------------------------------
 */
#include "worker.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/partition.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_publication.h"
#include "catalog/pg_publication_rel.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

Oid
publication_oid(const char *name)
{
	if (name == NULL || name[0] == '\0')
		return InvalidOid;
	return get_publication_oid(name, true);
}

/* also of one that is being dropped */
static const char *
relation_name(Oid relid)
{
	const char *name = get_rel_name(relid);

	return name != NULL ? name : "?";
}

static void
refuse(const char *name, const char *what)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("publication \"%s\" cannot be used by pgsync", name),
			 errdetail("%s", what),
			 errhint("Change the publication and deploy the rules again, or set \"pgsync.publication\" to another one or to an empty string; select rows and columns in the sync rules.")));
}

/* Row filters and column lists of single tables: the first one, or NULL. */
static char *
find_filter(Oid publication)
{
	char	   *found = NULL;
	Relation	catalog = table_open(PublicationRelRelationId, AccessShareLock);
	SysScanDesc scan;
	HeapTuple	tuple;

	scan = systable_beginscan(catalog, InvalidOid, false, NULL, 0, NULL);
	while (found == NULL && HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_publication_rel form = (Form_pg_publication_rel) GETSTRUCT(tuple);
		TupleDesc	desc = RelationGetDescr(catalog);

		if (form->prpubid != publication)
			continue;
		if (!heap_attisnull(tuple, Anum_pg_publication_rel_prqual, desc))
			found = psprintf("has a row filter on table \"%s\"", relation_name(form->prrelid));
		else if (!heap_attisnull(tuple, Anum_pg_publication_rel_prattrs, desc))
			found = psprintf("has a column list on table \"%s\"", relation_name(form->prrelid));
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return found;
}

static void
refuse_actions(const Publication *publication, const char *name)
{
	if (!publication->pubactions.pubinsert || !publication->pubactions.pubupdate ||
		!publication->pubactions.pubdelete || !publication->pubactions.pubtruncate)
		refuse(name, "It does not publish all of insert, update, delete and truncate.");
}

/*
 * The same without refusing: what is wrong is for the caller to tell.  False: there
 * is no such publication.
 */
bool
publication_describe(const char *name, PublicationFacts *facts)
{
	HeapTuple	tuple = SearchSysCache1(PUBLICATIONNAME, CStringGetDatum(name));
	Form_pg_publication form;
	char	   *filter;

	memset(facts, 0, sizeof(*facts));
	if (!HeapTupleIsValid(tuple))
		return false;
	form = (Form_pg_publication) GETSTRUCT(tuple);
	facts->oid = form->oid;
	facts->all_tables = form->puballtables;
	if (!form->pubinsert || !form->pubupdate || !form->pubdelete || !form->pubtruncate)
		facts->fault = "it does not publish all of insert, update, delete and truncate";
	facts->through_root = form->pubviaroot;
	ReleaseSysCache(tuple);
	filter = facts->fault == NULL ? find_filter(facts->oid) : NULL;
	if (filter != NULL)
		facts->fault = psprintf("it %s", filter);
	return true;
}

/*
 * As the snapshot at hand shows it, and without refusing anything: what is refused ends
 * the worker where a row of such a table comes.
 */
bool
publication_is_missing(const PgsyncSettings *settings)
{
	const char *name = *settings->publication;

	return name != NULL && name[0] != '\0' && !OidIsValid(publication_oid(name));
}

PublicationState
publication_state(const PgsyncSettings *settings)
{
	PublicationState state = {0};
	const char *name = *settings->publication;
	Oid			oid = publication_oid(name);
	char	   *filter;

	state.missing = publication_is_missing(settings);
	if (!OidIsValid(oid))
		return state;
	refuse_actions(GetPublication(oid), name);
	filter = find_filter(oid);
	if (filter != NULL)
		refuse(name, psprintf("It %s.", filter));
	state.used = true;
	return state;
}

/* The row of one table in the publication, if it has one, must be without conditions. */
static void
refuse_table_filters(Oid publication, const char *name, Oid relid)
{
	HeapTuple	tuple = SearchSysCache2(PUBLICATIONRELMAP, ObjectIdGetDatum(relid),
										ObjectIdGetDatum(publication));

	if (!HeapTupleIsValid(tuple))
		return;
	if (!heap_attisnull(tuple, Anum_pg_publication_rel_prqual, NULL) ||
		!heap_attisnull(tuple, Anum_pg_publication_rel_prattrs, NULL))
		refuse(name, psprintf("It has a row filter or a column list on table \"%s\".",
							  relation_name(relid)));
	ReleaseSysCache(tuple);
}

static bool
publication_names(Oid publication, Oid relid)
{
	List	   *publications = GetRelationPublications(relid);
	bool		found = list_member_oid(publications, publication);

	if (!found)
		found = list_member_oid(GetSchemaPublications(get_rel_namespace(relid)), publication);
	return found;
}

/*
 * get_partition_ancestors() would raise an error for a table that is being dropped.  One
 * whose DETACH CONCURRENTLY was broken off has none, as queries see it.
 */
Oid
partition_parent(Oid relid)
{
	Relation	relation = table_open(InheritsRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	Oid			parent = InvalidOid;

	ScanKeyInit(&key, Anum_pg_inherits_inhrelid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(relid));
	scan = systable_beginscan(relation, InheritsRelidSeqnoIndexId, true, NULL, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple) && !((Form_pg_inherits) GETSTRUCT(tuple))->inhdetachpending)
		parent = ((Form_pg_inherits) GETSTRUCT(tuple))->inhparent;
	systable_endscan(scan);
	table_close(relation, AccessShareLock);
	return parent;
}

Oid
publication_root(Oid publication, Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(PUBLICATIONOID, ObjectIdGetDatum(publication));
	Form_pg_publication form;
	Oid			root = relid;

	if (!HeapTupleIsValid(tuple))
		return relid;
	form = (Form_pg_publication) GETSTRUCT(tuple);
	if (form->pubviaroot)
		for (Oid parent = partition_parent(relid); OidIsValid(parent); parent = partition_parent(parent))
			if (form->puballtables || publication_names(publication, parent))
				root = parent;
	ReleaseSysCache(tuple);
	return root;
}

bool
publication_has_relation(const PgsyncSettings *settings, Relation relation)
{
	const char *name = *settings->publication;
	Oid			oid = publication_oid(name);
	Publication *publication;

	if (!OidIsValid(oid))
		return true;
	publication = GetPublication(oid);
	refuse_actions(publication, name);
	refuse_table_filters(oid, name, RelationGetRelid(relation));
	if (publication->alltables)
		return true;
	if (publication_names(oid, RelationGetRelid(relation)))
		return true;
	if (relation->rd_rel->relispartition)
	{
		ListCell   *cell;

		foreach(cell, get_partition_ancestors(RelationGetRelid(relation)))
		{
			refuse_table_filters(oid, name, lfirst_oid(cell));
			if (publication_names(oid, lfirst_oid(cell)))
				return true;
		}
	}
	return false;
}

/* Adds what the publication's row for a table or an ancestor of it limits. */
static void
describe_limits(Oid publication, Oid relid, PublishedTable *table)
{
	HeapTuple	tuple = SearchSysCache2(PUBLICATIONRELMAP, ObjectIdGetDatum(relid),
										ObjectIdGetDatum(publication));
	Datum		list;
	bool		isnull;

	if (!HeapTupleIsValid(tuple))
		return;
	table->row_filter |= !heap_attisnull(tuple, Anum_pg_publication_rel_prqual, NULL);
	list = SysCacheGetAttr(PUBLICATIONRELMAP, tuple, Anum_pg_publication_rel_prattrs, &isnull);
	if (!isnull)
	{
		int2vector *columns = (int2vector *) PG_DETOAST_DATUM_COPY(list);

		table->column_list = true;
		/* numbers are those of the named table: an ancestor's may differ */
		if (table->relid == relid)
			for (int i = 0; i < columns->dim1; i++)
				table->columns = bms_add_member(table->columns, columns->values[i]);
	}
	ReleaseSysCache(tuple);
}

void
publication_describe_table(const PublicationFacts *facts, Oid relid, bool is_partition,
						   PublishedTable *table)
{
	memset(table, 0, sizeof(*table));
	table->relid = relid;
	describe_limits(facts->oid, relid, table);
	table->published = facts->all_tables || publication_names(facts->oid, relid);
	for (Oid parent = is_partition ? partition_parent(relid) : InvalidOid; OidIsValid(parent);
		 parent = partition_parent(parent))
	{
		describe_limits(facts->oid, parent, table);
		table->published |= publication_names(facts->oid, parent);
	}
}
