/*-------------------------------------------------------------------------
 *
 * documents.c
 *	  Sets of documents: collecting them by collection and writing them.
 *
 * Knows no field of any document.
 *
 *-------------------------------------------------------------------------
 */
#include "mongo/documents.h"

#include <string.h>

#include "mongo/docs_v2.h"

const StorageFormat *
storage_format(int32_t version)
{
	/* versions 1 and 2 differ in bucket names only, which core makes */
	return version == 1 || version == 2 ? &storage_format_v2 : NULL;
}

void
document_set_init(DocumentSet *set)
{
	set->group_count = 0;
}

void
document_set_destroy(DocumentSet *set)
{
	for (int i = 0; i < set->group_count; i++)
	{
		DocumentGroup *group = &set->groups[i];

		for (size_t j = 0; j < group->count; j++)
		{
			bson_destroy(group->documents[j]);
			if (group->upserts)
				bson_destroy(group->filters[j]);
		}
		bson_free(group->documents);
		bson_free(group->filters);
	}
	set->group_count = 0;
}

DocumentGroup *
document_set_group(DocumentSet *set, const char *collection, bool upserts)
{
	DocumentGroup *group;

	for (int i = 0; i < set->group_count; i++)
		if (set->groups[i].upserts == upserts &&
			strcmp(set->groups[i].collection, collection) == 0)
			return &set->groups[i];
	if (set->group_count == MAX_DOCUMENT_GROUPS)
		return NULL;
	group = &set->groups[set->group_count++];
	memset(group, 0, sizeof(*group));
	snprintf(group->collection, sizeof(group->collection), "%s", collection);
	group->upserts = upserts;
	return group;
}

void
document_group_add(DocumentGroup *group, bson_t *filter, bson_t *document)
{
	if (group->count == group->capacity)
	{
		group->capacity = group->capacity ? group->capacity * 2 : 64;
		group->documents = bson_realloc(group->documents, group->capacity * sizeof(bson_t *));
		if (group->upserts)
			group->filters = bson_realloc(group->filters, group->capacity * sizeof(bson_t *));
	}
	group->documents[group->count] = document;
	if (group->upserts)
		group->filters[group->count] = filter;
	group->count++;
}

bool
document_set_write(MongoContext *context, const DocumentSet *set, StorageError *error)
{
	for (int i = 0; i < set->group_count; i++)
	{
		const DocumentGroup *group = &set->groups[i];

		if (group->upserts ?
			!call_upserts(context, group->collection, group->filters, group->documents,
						  group->count, error) :
			!call_insert(context, group->collection, group->documents, group->count, error))
			return false;
	}
	return true;
}
