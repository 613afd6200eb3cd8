/*-------------------------------------------------------------------------
 *
 * publication.c
 *	  Which tables the publication of "pgsync.publication" lets through.
 *
 * A publication that exists is honoured; one that does not exist means every
 * table the rules name; an empty setting means explicitly none (design 7).  Row
 * filters, column lists, partial operations and publish_via_partition_root are
 * refused, not ignored: they would silently change what clients see.
 *
 *-------------------------------------------------------------------------
 */
#include "worker.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/partition.h"
#include "catalog/pg_publication.h"
#include "catalog/pg_publication_rel.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

static Oid
publication_oid(const PgsyncSettings *settings)
{
	const char *name = *settings->publication;

	if (name == NULL || name[0] == '\0')
		return InvalidOid;
	return get_publication_oid(name, true);
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

/* Row filters and column lists of single tables. */
static void
refuse_filters(Oid publication, const char *name)
{
	Relation	catalog = table_open(PublicationRelRelationId, AccessShareLock);
	SysScanDesc scan;
	HeapTuple	tuple;

	scan = systable_beginscan(catalog, InvalidOid, false, NULL, 0, NULL);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_publication_rel form = (Form_pg_publication_rel) GETSTRUCT(tuple);
		TupleDesc	desc = RelationGetDescr(catalog);

		if (form->prpubid != publication)
			continue;
		if (!heap_attisnull(tuple, Anum_pg_publication_rel_prqual, desc))
			refuse(name, psprintf("It has a row filter on table \"%s\".",
								  get_rel_name(form->prrelid)));
		if (!heap_attisnull(tuple, Anum_pg_publication_rel_prattrs, desc))
			refuse(name, psprintf("It has a column list on table \"%s\".",
								  get_rel_name(form->prrelid)));
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
}

static void
refuse_actions(const Publication *publication, const char *name)
{
	if (!publication->pubactions.pubinsert || !publication->pubactions.pubupdate ||
		!publication->pubactions.pubdelete || !publication->pubactions.pubtruncate)
		refuse(name, "It does not publish all of insert, update, delete and truncate.");
	if (publication->pubviaroot)
		refuse(name, "It publishes partitions through their root table (publish_via_partition_root).");
}

PublicationState
publication_state(const PgsyncSettings *settings)
{
	PublicationState state = {0};
	const char *name = *settings->publication;
	Oid			oid = publication_oid(settings);

	if (!OidIsValid(oid))
	{
		state.missing = name != NULL && name[0] != '\0';
		return state;
	}
	refuse_actions(GetPublication(oid), name);
	refuse_filters(oid, name);
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
							  get_rel_name(relid)));
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

bool
publication_has_relation(const PgsyncSettings *settings, Relation relation)
{
	Oid			oid = publication_oid(settings);
	const char *name = *settings->publication;
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
