/*-------------------------------------------------------------------------
 *
 * type_shape.c
 *	  What the text of a type's values follows from beside the values: labels of
 *	  enums, attributes of composites, wherever they are in a column's type.
 *
 * It is part of a table's signature (relation.c): a change of it that alters rows
 * which nobody writes makes the table stale.  Of a line that is there once for a
 * type, another text is another line; a line that is only added changes nothing.
 *
 * Invariant: what is not seen here cannot change while a column uses the type: a
 * domain's base type, a range's subtype, the type of an attribute.
 *
 *-------------------------------------------------------------------------
 */
#include "value.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_enum.h"
#include "catalog/pg_type.h"
#include "lib/stringinfo.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

/* pg_class oids of composite types in any signature: their invalidation names no table */
static HTAB *watched = NULL;

static void
watch(Oid relid)
{
	HASHCTL		control = {.keysize = sizeof(Oid),.entrysize = sizeof(Oid),
	.hcxt = TopMemoryContext};

	if (watched == NULL)
		watched = hash_create("pgsync composite types", 32, &control,
							  HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	(void) hash_search(watched, &relid, HASH_ENTER, NULL);
}

bool
type_shape_depends_on(Oid relid)
{
	return watched != NULL && hash_search(watched, &relid, HASH_FIND, NULL) != NULL;
}

/* Quoted, so that what a name holds is no line of its own. */
char *
shape_name(const char *name)
{
	char	   *quoted = quote_literal_cstr(name);

	for (char *c = quoted; *c != '\0'; c++)
		if (*c == '\n')
			*c = '\r';
	return quoted;
}

static void
add_type(TypeShape *state, Oid type)
{
	state->types = list_append_unique_oid(state->types, getBaseType(type));
}

/* By oid: a renamed label changes what rows print, an added one changes no row. */
static void
append_labels(StringInfo shape, Oid type)
{
	Relation	catalog = table_open(EnumRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, Anum_pg_enum_enumtypid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(type));
	scan = systable_beginscan(catalog, EnumTypIdLabelIndexId, true, NULL, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_enum form = (Form_pg_enum) GETSTRUCT(tuple);

		appendStringInfo(shape, "type %u label %u %s -\n", type, form->oid,
						 shape_name(NameStr(form->enumlabel)));
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
}

/*
 * One line for all attributes: an untouched value shows an added one, too.  Their
 * names show only in JSON.
 */
static void
append_attributes(StringInfo shape, TypeShape *state, Oid type)
{
	Oid			relid = get_typ_typrelid(type);
	Relation	catalog = table_open(AttributeRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	watch(relid);
	appendStringInfo(shape, "type %u composite", type);
	ScanKeyInit(&key, Anum_pg_attribute_attrelid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(relid));
	scan = systable_beginscan(catalog, AttributeRelidNumIndexId, true, NULL, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_attribute attribute = (Form_pg_attribute) GETSTRUCT(tuple);

		if (attribute->attnum < 0 || attribute->attisdropped)
			continue;
		appendStringInfo(shape, " %d:%u", attribute->attnum, attribute->atttypid);
		if (state->names)
			appendStringInfo(shape, ":%s", shape_name(NameStr(attribute->attname)));
		add_type(state, attribute->atttypid);
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	appendStringInfoString(shape, " -\n");
}

static void
append_type(StringInfo shape, TypeShape *state, Oid type)
{
	switch (get_typtype(type))
	{
		case TYPTYPE_ENUM:
			append_labels(shape, type);
			break;
		case TYPTYPE_COMPOSITE:
			append_attributes(shape, state, type);
			break;
		case TYPTYPE_RANGE:
			add_type(state, get_range_subtype(type));
			break;
		case TYPTYPE_MULTIRANGE:
			add_type(state, get_multirange_range(type));
			break;
		default:
			if (type == MONEYOID)
				appendStringInfo(shape, "type %u money %s -\n", type,
								 shape_name(GetConfigOption("lc_monetary", false, false)));
			else if (OidIsValid(get_element_type(type)))
				add_type(state, get_element_type(type));
			break;
	}
}

void
append_type_shape(StringInfo shape, TypeShape *state, Oid type)
{
	int			next = list_length(state->types);

	add_type(state, type);
	/* not recursively: types can be nested in one another to any depth */
	for (; next < list_length(state->types); next++)
		append_type(shape, state, list_nth_oid(state->types, next));
}
