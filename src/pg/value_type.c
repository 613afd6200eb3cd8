/*-------------------------------------------------------------------------
 *
 * value_type.c
 *	  How the values of a type are converted (sync-rules.md, section 10).
 *
 * Common types are converted from their internal form.  Of all others the output
 * function gives a text, and where the rules want it (custom_postgres_types) the
 * text of a composite, range or array is read as the service reads it; for that
 * its notion of a type is built here.
 *
 * Invariant: the result depends on the catalogs as the present snapshot shows
 * them, which in decoding is the historic one.
 *
 *-------------------------------------------------------------------------
 */
#include "value.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/transam.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_class.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/syscache.h"

static char
conversion_kind(Oid type)
{
	switch (type)
	{
		case BOOLOID:
			return CONVERT_BOOL;
		case INT2OID:
			return CONVERT_INT2;
		case INT4OID:
			return CONVERT_INT4;
		case INT8OID:
			return CONVERT_INT8;
		case OIDOID:
			return CONVERT_OID;
		case FLOAT4OID:
			return CONVERT_FLOAT4;
		case FLOAT8OID:
			return CONVERT_FLOAT8;
		case TEXTOID:
		case VARCHAROID:
		case BPCHAROID:
		case JSONOID:
			return CONVERT_TEXT;
		case JSONBOID:
			return CONVERT_JSONB;
		case UUIDOID:
			return CONVERT_UUID;
		case TIMESTAMPOID:
			return CONVERT_TIMESTAMP;
		case TIMESTAMPTZOID:
			return CONVERT_TIMESTAMPTZ;
		case DATEOID:
			return CONVERT_DATE;
		case TIMEOID:
			return CONVERT_TIME;
		case BYTEAOID:
			return CONVERT_BYTEA;
		case PG_LSNOID:
			return CONVERT_LSN;
		default:
			return CONVERT_OUTPUT;
	}
}

/* initdb gave it its oid: nobody else has made it */
static bool
is_builtin(Oid oid)
{
	return oid < FirstNormalObjectId;
}

/*
 * The element type of an array that is JSON in every edition: those of the types
 * that the service knows by number.
 */
static Oid
listed_element(Oid type)
{
	Oid			element;

	if (type >= FirstUnpinnedObjectId || type == INT2VECTOROID || type == OIDVECTOROID)
		return InvalidOid;
	element = get_element_type(type);
	if (!OidIsValid(element) || element == TXID_SNAPSHOTOID || element == PG_SNAPSHOTOID)
		return InvalidOid;
	switch (get_typtype(element))
	{
		case TYPTYPE_BASE:
			return element;
		case TYPTYPE_COMPOSITE:
			/* rows of the bootstrapped catalogs, as text */
			return element == TypeRelation_Rowtype_Id || element == AttributeRelation_Rowtype_Id ||
				element == ProcedureRelation_Rowtype_Id || element == RelationRelation_Rowtype_Id ?
				element : InvalidOid;
		default:
			return InvalidOid;
	}
}

/* ---------------------------------------------------------------- whose code */

/*
 * Composites, arrays and ranges in one another.  Each one more doubles what has to
 * be quoted inside, so that a value of a few bytes is printed as a gigabyte.
 */
#define DEEPEST_TYPE		16

/* with the largest row, this much of that stays below what the server can print */
#define DEEPEST_SAFE_TYPE	2

typedef struct CodeSearch
{
	List	   *seen;			/* composites: they can be nested in many ways, */
	List	   *depths;			/* and are looked through again only where they are deeper */
	int			deepest;
	bool		foreign;		/* code that is not built in */
	bool		repeats;		/* arrays, multiranges, jsonb, tsquery: any number of parts */
	bool		expands;		/* see datum_expansion() */
} CodeSearch;

static void search_code(CodeSearch *search, Oid type, int depth);

static bool
is_seen(CodeSearch *search, Oid type, int depth)
{
	ListCell   *seen;
	ListCell   *at;

	forboth(seen, search->seen, at, search->depths)
		if (lfirst_oid(seen) == type)
		{
			if (lfirst_int(at) >= depth)
				return true;
			lfirst_int(at) = depth;
			return false;
		}
	search->seen = lappend_oid(search->seen, type);
	search->depths = lappend_int(search->depths, depth);
	return false;
}

static void
search_code_of_columns(CodeSearch *search, Oid type, int depth)
{
	Oid			relid = get_typ_typrelid(type);
	Relation	catalog;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	if (is_seen(search, type, depth))
		return;
	catalog = table_open(AttributeRelationId, AccessShareLock);
	ScanKeyInit(&key, Anum_pg_attribute_attrelid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(relid));
	scan = systable_beginscan(catalog, AttributeRelidNumIndexId, true, NULL, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_attribute attribute = (Form_pg_attribute) GETSTRUCT(tuple);

		if (attribute->attnum > 0 && !attribute->attisdropped)
			search_code(search, attribute->atttypid, depth + 1);
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
}

/* What output functions a value of the type may call, its own and those of its parts. */
static void
search_code(CodeSearch *search, Oid type, int depth)
{
	Oid			output;
	bool		is_varlena;
	Oid			element;

	search->deepest = Max(search->deepest, depth);
	if (depth > DEEPEST_TYPE)
		return;
	type = getBaseType(type);
	switch (get_typtype(type))
	{
		case TYPTYPE_COMPOSITE:
			search_code_of_columns(search, type, depth);
			return;
		case TYPTYPE_RANGE:
			search_code(search, get_range_subtype(type), depth + 1);
			return;
		case TYPTYPE_MULTIRANGE:
			search->repeats = true;
			search_code(search, get_multirange_range(type), depth + 1);
			return;
		case TYPTYPE_ENUM:
			return;
		default:
			break;
	}
	getTypeOutputInfo(type, &output, &is_varlena);
	element = get_element_type(type);
	if (output == F_ARRAY_OUT && OidIsValid(element))
	{
		search->repeats = search->expands = true;
		search_code(search, element, depth + 1);
	}
	else if (!is_builtin(output) || !is_builtin(type))
		search->foreign = true;
	else if (type == NUMERICOID)
		search->expands = true;
	else if (type == JSONBOID)
		search->repeats = search->expands = true;
	else if (type == TSQUERYOID)
		search->repeats = true; /* can be made deeper than the stack lets it be printed */
}

/* ---------------------------------------------------------------- printed types */

/*
 * Composites that have been built for a column.  Each is built once: ten types with
 * fifty attributes each of the one before are as many parts as no memory holds.
 */
typedef struct BuiltTypes
{
	List	   *oids;
	List	   *types;
} BuiltTypes;

static const PrintedType *printed_type(BuiltTypes *built, Oid type);

static const PrintedType *
scalar_type(PrintedKind kind)
{
	PrintedType *type = palloc0(sizeof(PrintedType));

	type->kind = kind;
	return type;
}

static PrintedKind
printed_kind(Oid type)
{
	switch (type)
	{
		case BOOLOID:
			return PRINTED_BOOL;
		case INT2OID:
		case INT4OID:
		case INT8OID:
		case OIDOID:
			return PRINTED_INTEGER;
		case FLOAT4OID:
		case FLOAT8OID:
			return PRINTED_REAL;
		case BYTEAOID:
			return PRINTED_BYTEA;
		case JSONOID:
		case JSONBOID:
			return PRINTED_JSON;
		case DATEOID:
			return PRINTED_DATE;
		case TIMEOID:
			return PRINTED_TIME;
		case TIMESTAMPOID:
			return PRINTED_TIMESTAMP;
		case TIMESTAMPTZOID:
			return PRINTED_TIMESTAMPTZ;
		case PG_LSNOID:
			return PRINTED_LSN;
		default:
			return PRINTED_TEXT;
	}
}

/* pg_type.typelem, which point, line or name have, too; *delimiter is the element's */
static Oid
catalog_element(Oid type, char *delimiter)
{
	HeapTuple	tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(type));
	Oid			element;

	if (!HeapTupleIsValid(tuple))
		return InvalidOid;
	element = ((Form_pg_type) GETSTRUCT(tuple))->typelem;
	ReleaseSysCache(tuple);
	if (!OidIsValid(element))
		return InvalidOid;
	tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(element));
	if (!HeapTupleIsValid(tuple))
		return InvalidOid;
	*delimiter = ((Form_pg_type) GETSTRUCT(tuple))->typdelim;
	ReleaseSysCache(tuple);
	return element;
}

/*
 * Arrays of what is in an array, or in a domain over one, count as one array: an
 * element that is printed as an array again is not read as one.
 */
static const PrintedType *
array_type(BuiltTypes *built, Oid element, char delimiter)
{
	PrintedType *type = palloc0(sizeof(PrintedType));

	type->kind = PRINTED_ARRAY;
	type->delimiter = delimiter;
	for (;;)
	{
		Oid			inner;
		char		ignored;

		element = getBaseType(element);
		/* listed ones are read as a whole */
		if (get_typtype(element) != TYPTYPE_BASE || printed_kind(element) != PRINTED_TEXT ||
			(OidIsValid(listed_element(element)) && element != BOXARRAYOID))
			break;
		inner = catalog_element(element, &ignored);
		if (!OidIsValid(inner))
			break;
		element = inner;
	}
	type->element = printed_type(built, element);
	return type;
}

/*
 * The fields of a composite go to its attributes in order, as pg_attribute has
 * them: the system columns of a table and dropped attributes, which nothing is
 * printed of, included.  So does the service.
 */
static const PrintedType *
build_composite(BuiltTypes *built, Oid type_oid)
{
	PrintedType *type = palloc0(sizeof(PrintedType));
	Relation	catalog = table_open(AttributeRelationId, AccessShareLock);
	int		   *order;
	SyncString *names = NULL;
	const PrintedType **members = NULL;
	int			room = 0;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	type->kind = PRINTED_COMPOSITE;
	ScanKeyInit(&key, Anum_pg_attribute_attrelid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(get_typ_typrelid(type_oid)));
	scan = systable_beginscan(catalog, AttributeRelidNumIndexId, true, NULL, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_attribute attribute = (Form_pg_attribute) GETSTRUCT(tuple);
		char	   *name = pstrdup(NameStr(attribute->attname));
		int			n = type->member_count++;

		if (n == room)
		{
			room = Max(8, room * 2);
			names = names == NULL ? palloc(sizeof(SyncString) * room) :
				repalloc(names, sizeof(SyncString) * room);
			members = members == NULL ? palloc(sizeof(PrintedType *) * room) :
				repalloc(members, sizeof(PrintedType *) * room);
		}
		names[n] = (SyncString) {name, (uint32_t) strlen(name)};
		/* a dropped attribute has no type, which counts as an array of the unknown */
		members[n] = OidIsValid(attribute->atttypid) ? printed_type(built, attribute->atttypid) :
			array_type(built, UNKNOWNOID, ',');
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	type->names = names;
	type->members = members;
	order = palloc(sizeof(int) * Max(type->member_count, 1));
	if (printed_order_members(type, order))
		type->order = order;
	return type;
}

static const PrintedType *
composite_type(BuiltTypes *built, Oid type)
{
	ListCell   *oid;
	ListCell   *found;
	const PrintedType *composite;

	forboth(oid, built->oids, found, built->types)
		if (lfirst_oid(oid) == type)
			return lfirst(found);
	composite = build_composite(built, type);
	built->oids = lappend_oid(built->oids, type);
	built->types = lappend(built->types, unconstify(PrintedType *, composite));
	return composite;
}

static const PrintedType *
range_type(BuiltTypes *built, PrintedKind kind, Oid subtype)
{
	PrintedType *type = palloc0(sizeof(PrintedType));

	type->kind = kind;
	type->element = printed_type(built, subtype);
	return type;
}

/* How the service reads the text of a type with custom_postgres_types. */
static const PrintedType *
printed_type(BuiltTypes *built, Oid type)
{
	Oid			element;
	char		delimiter;

	type = getBaseType(type);
	element = listed_element(type);
	if (OidIsValid(element) && type != BOXARRAYOID)
	{
		PrintedType *array = palloc0(sizeof(PrintedType));

		array->kind = PRINTED_ARRAY;
		array->delimiter = ',';
		array->element = scalar_type(printed_kind(element));
		return array;
	}
	switch (get_typtype(type))
	{
		case TYPTYPE_COMPOSITE:
			return composite_type(built, type);
		case TYPTYPE_RANGE:
			return range_type(built, PRINTED_RANGE, get_range_subtype(type));
		case TYPTYPE_MULTIRANGE:
			return range_type(built, PRINTED_MULTIRANGE,
							  get_range_subtype(get_multirange_range(type)));
		case TYPTYPE_BASE:
			if (printed_kind(type) == PRINTED_TEXT)
			{
				element = catalog_element(type, &delimiter);
				if (OidIsValid(element))
					return array_type(built, element, delimiter);
			}
			break;
		default:
			break;
	}
	return scalar_type(printed_kind(type));
}

/* Without custom_postgres_types: only box[] is read, and its delimiter is not known. */
static const PrintedType *
legacy_printed_type(Oid type)
{
	PrintedType *array;

	if (type != BOXARRAYOID)
		return NULL;
	array = palloc0(sizeof(PrintedType));
	array->kind = PRINTED_ARRAY;
	array->delimiter = ',';
	array->element = scalar_type(PRINTED_TEXT);
	return array;
}

/* ---------------------------------------------------------------- columns */

static void
output_init(ColumnConversion *column, Oid type, bool custom_types)
{
	CodeSearch	search = {0};
	BuiltTypes	built = {0};
	bool		is_varlena;

	getTypeOutputInfo(type, &column->output_function, &is_varlena);
	search_code(&search, type, 0);
	list_free(search.seen);
	list_free(search.depths);
	column->too_deep = search.deepest > DEEPEST_TYPE;
	column->foreign = search.foreign;
	column->guarded = search.foreign || search.deepest > DEEPEST_SAFE_TYPE;
	column->guard_large = search.repeats;
	column->expands = search.expands;
	/* looked up anew for each value where somebody may replace it */
	if (!column->foreign)
		fmgr_info(column->output_function, &column->output);
	if (column->too_deep)
		return;
	column->printed = custom_types ? printed_type(&built, type) : legacy_printed_type(type);
	list_free(built.oids);
	list_free(built.types);
	if (column->printed != NULL && column->printed->kind < PRINTED_ARRAY)
		column->printed = NULL;
}

/*
 * Can different values of the type be converted alike (an infinite timestamp, one whose
 * fraction is cut, bytes in an array), or one value otherwise when something else was
 * renamed?  Labels of enums are not meant: they are part of the table's shape.
 */
static bool
is_inexact(Oid type)
{
	type = getBaseType(type);
	switch (type)
	{
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
		case DATEOID:
		case TIMEOID:
		case REGPROCOID:
		case REGPROCEDUREOID:
		case REGOPEROID:
		case REGOPERATOROID:
		case REGCLASSOID:
		case REGTYPEOID:
		case REGROLEOID:
		case REGNAMESPACEOID:
		case REGCOLLATIONOID:
		case REGCONFIGOID:
		case REGDICTIONARYOID:
			return true;
		default:
			break;
	}
	switch (get_typtype(type))
	{
		case TYPTYPE_COMPOSITE:
		case TYPTYPE_RANGE:
		case TYPTYPE_MULTIRANGE:
			return true;
		default:
			return type_is_array(type);
	}
}

/* In the memory context that holds the conversion. */
void
column_conversion_init(ColumnConversion *column, Oid type, int32 typmod, bool custom_types)
{
	Oid			element;

	if (custom_types)
		type = getBaseTypeAndTypmod(type, &typmod);
	column->type = type;
	column->typlen = get_typlen(type);
	column->kind = conversion_kind(type);
	column->inexact = is_inexact(type);
	if (column->kind == CONVERT_JSONB)
		column->guard_large = column->expands = true;
	if (column->kind != CONVERT_OUTPUT)
		return;
	element = listed_element(type);
	if (OidIsValid(element) && type != BOXARRAYOID)
	{
		column->kind = CONVERT_ARRAY;
		column->element = palloc0(sizeof(ColumnConversion));
		column_conversion_init(column->element, element, -1, false);
		column->guard_large = column->element->guard_large;
		column->expands = true;
	}
	else
		output_init(column, type, custom_types);
}

SchemaValue
row_schema_value(Oid type, bool custom_types)
{
	ColumnConversion column = {0};

	column_conversion_init(&column, type, -1, custom_types);
	switch (column.kind)
	{
		case CONVERT_BOOL:
			return SCHEMA_BOOLEAN;
		case CONVERT_INT2:
		case CONVERT_INT4:
		case CONVERT_INT8:
		case CONVERT_OID:
			return SCHEMA_INTEGER;
		case CONVERT_FLOAT4:
		case CONVERT_FLOAT8:
			return SCHEMA_REAL;
		case CONVERT_JSONB:
			return SCHEMA_JSON;
		case CONVERT_UUID:
			return SCHEMA_UUID;
		case CONVERT_TIMESTAMP:
			return SCHEMA_TIMESTAMP;
		case CONVERT_TIMESTAMPTZ:
			return SCHEMA_TIMESTAMPTZ;
		case CONVERT_DATE:
			return SCHEMA_DATE;
		case CONVERT_TIME:
			return SCHEMA_TIME;
		case CONVERT_BYTEA:
			return SCHEMA_BLOB;
		case CONVERT_ARRAY:
			return SCHEMA_JSON_ARRAY;
		case CONVERT_TEXT:
			return column.type == JSONOID ? SCHEMA_JSON : SCHEMA_TEXT;
		default:
			break;
	}
	if (column.type == NUMERICOID)
		return SCHEMA_NUMERIC;
	if (column.type != BOXARRAYOID && column.printed != NULL &&
		column.output_function == F_ARRAY_OUT)
		return SCHEMA_JSON_ARRAY;
	/* domains print as what is under them, which need not be an array */
	return get_typtype(column.type) == TYPTYPE_BASE && OidIsValid(get_element_type(column.type)) ?
		SCHEMA_RAW_ARRAY : SCHEMA_PRINTED;
}
