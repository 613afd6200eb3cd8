/*-------------------------------------------------------------------------
 *
 * validate.c
 *	  pgsync_validate(): what is wrong with sync rules, by themselves and in
 *	  this database.
 *
 * Here the catalogs are read into a SchemaDescription; what follows from it is
 * decided in core/plan_check.c.  No table is opened or locked, so nothing waits
 * for what others do to one: what is dropped while we look is not there.
 *
 * Invariant: no side effect; and it needs nothing of the preloaded part.
 *
 *-------------------------------------------------------------------------
 */
#include "rules_sql.h"
#include "catalog_scan.h"

#include "access/htup_details.h"
#include "catalog/catalog.h"
#include "catalog/indexing.h"
#include "catalog/pg_am.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_class.h"
#include "catalog/pg_index.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_namespace.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

PGSYNC_FUNCTION(pgsync_validate);

/* ---------------------------------------------------------------- rules */

static void
raise_out_of_memory(void)
{
	ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory")));
}

static void
destroy_arena(void *arg)
{
	arena_destroy(arg);
}

SyncArena *
rules_arena(void)
{
	MemoryContextCallback *callback = palloc0(sizeof(MemoryContextCallback));
	SyncArena  *arena = arena_create(0);

	if (arena == NULL)
		raise_out_of_memory();
	arena_set_exhausted(arena, raise_out_of_memory);
	callback->func = destroy_arena;
	callback->arg = arena;
	MemoryContextRegisterResetCallback(CurrentMemoryContext, callback);
	return arena;
}

/* raises nothing: the compiler has frames of libyaml around it */
bool
rules_cancelled(void)
{
	return InterruptPending && (QueryCancelPending || ProcDiePending);
}

const SyncPlan *
rules_plan(text *rules, SyncArena *arena, const RulesMessage **messages, const SyncPlan **names)
{
	RulesOptions options = {
		.default_schema = "public", .cancel = rules_cancelled, .names = names
	};
	const SyncPlan *plan = rules_compile(VARDATA_ANY(rules), VARSIZE_ANY_EXHDR(rules), &options,
										 arena, messages);

	/* raises what the compiler stopped for */
	CHECK_FOR_INTERRUPTS();
	return plan;
}

static const char *
message_code(SyncErrorCode code)
{
	switch (code)
	{
		case SYNC_ERROR_SYNTAX:
			return "42601";
		case SYNC_ERROR_UNSUPPORTED:
			return "0A000";
		case SYNC_ERROR_LIMIT:
			return "54000";
		case SYNC_ERROR_OUT_OF_MEMORY:
			return "53200";
		case SYNC_ERROR_NO_TABLE:
			return "42P01";
		case SYNC_ERROR_NO_COLUMN:
			return "42703";
		case SYNC_ERROR_TYPE:
			return "42804";
		default:
			return "22023";
	}
}

bool
rules_have_fatal(const RulesMessage *messages)
{
	while (messages != NULL && messages->level != RULES_FATAL)
		messages = messages->next;
	return messages != NULL;
}

void
rules_refuse(const RulesMessage *messages, const char *hint)
{
	StringInfoData detail;
	const RulesMessage *first = NULL;

	initStringInfo(&detail);
	for (; messages != NULL; messages = messages->next)
	{
		const SyncError *error = &messages->error;

		if (messages->level != RULES_FATAL)
			continue;
		if (first == NULL)
			first = messages;
		else
			appendStringInfoChar(&detail, '\n');
		if (error->line > 0)
			appendStringInfo(&detail, "Line %d, column %d: ", error->line, error->column);
		appendStringInfo(&detail, "%s.", error->message);
	}
	ereport(ERROR,
			(errcode(first != NULL && first->error.code == SYNC_ERROR_OUT_OF_MEMORY ?
					 ERRCODE_OUT_OF_MEMORY :
					 first != NULL && first->error.code == SYNC_ERROR_UNSUPPORTED ?
					 ERRCODE_FEATURE_NOT_SUPPORTED : ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("the sync rules are not valid"),
			 errdetail("%s", detail.data),
			 errhint("%s", first != NULL && first->error.hint[0] != '\0' ? first->error.hint : hint)));
}

void
rules_warn(const RulesMessage *messages)
{
	for (; messages != NULL; messages = messages->next)
	{
		const SyncError *error = &messages->error;

		if (messages->level == RULES_WARNING)
			ereport(WARNING,
					(errcode(ERRCODE_WARNING),
					 errmsg("%s", error->message),
					 error->line > 0 ? errdetail("Line %d, column %d.", error->line,
												 error->column) : 0,
					 error->hint[0] != '\0' ? errhint("%s", error->hint) : 0));
	}
}

/* ---------------------------------------------------------------- catalogs */

/* what is being described */
typedef struct Catalog
{
	SyncArena  *arena;
	const SyncPlan *plan;
	SchemaDescription schema;
	int			schema_capacity;
	int			table_capacity;
	bool		has_publication;
	PublicationFacts publication;
} Catalog;

static SyncString
arena_string(SyncArena *arena, const char *s)
{
	size_t		len = strlen(s);

	return (SyncString) {arena_strndup(arena, s, len), (uint32_t) len};
}

/* what the workers of this database will have, as far as this session can know */
static void
describe_publication(Catalog *catalog)
{
	const char *current = GetConfigOption("pgsync.publication", true, false);
	char	   *name = pgsync_database_setting("pgsync.publication",
											   current != NULL ? current : "powersync");

	if (name == NULL || name[0] == '\0')
		return;
	catalog->schema.publication = arena_string(catalog->arena, name).data;
	catalog->has_publication = publication_describe(name, &catalog->publication);
	catalog->schema.publication_missing = !catalog->has_publication;
}

static void
add_schema(Catalog *catalog, const char *name)
{
	SchemaDescription *schema = &catalog->schema;

	if (schema->schema_count == catalog->schema_capacity)
	{
		size_t		old = catalog->schema_capacity;
		size_t		new = old * 2 + 16;

		schema->schemas = arena_grow(catalog->arena, schema->schemas, old * sizeof(SyncString),
									 new * sizeof(SyncString));
		catalog->schema_capacity = (int) new;
	}
	schema->schemas[schema->schema_count++] = arena_string(catalog->arena, name);
}

static void
describe_schemas(Catalog *catalog)
{
	CatalogScan scan;
	HeapTuple	tuple;

	catalog_scan_begin(&scan, NamespaceRelationId, NamespaceOidIndexId, 0, NULL);
	while (HeapTupleIsValid(tuple = catalog_scan_next(&scan)))
	{
		Form_pg_namespace form = (Form_pg_namespace) GETSTRUCT(tuple);

		if (strncmp(NameStr(form->nspname), "pg_t", 4) != 0)
			add_schema(catalog, NameStr(form->nspname));
	}
	catalog_scan_end(&scan);
}

static SchemaTable *
add_table(Catalog *catalog)
{
	SchemaDescription *schema = &catalog->schema;
	SchemaTable *table;

	if (schema->table_count == catalog->table_capacity)
	{
		size_t		old = catalog->table_capacity;
		size_t		new = old * 2 + 64;

		schema->tables = arena_grow(catalog->arena, schema->tables, old * sizeof(SchemaTable),
									new * sizeof(SchemaTable));
		catalog->table_capacity = (int) new;
	}
	table = &schema->tables[schema->table_count++];
	memset(table, 0, sizeof(*table));
	return table;
}

SchemaTableKind
rules_table_kind(Form_pg_class form)
{
	if (form->relkind == RELKIND_VIEW)
		return SCHEMA_VIEW;
	if (form->relkind == RELKIND_MATVIEW)
		return SCHEMA_MATERIALIZED_VIEW;
	if (form->relkind == RELKIND_FOREIGN_TABLE)
		return SCHEMA_FOREIGN;
	if (form->relpersistence == RELPERSISTENCE_TEMP)
		return SCHEMA_TEMPORARY;
	if (form->relpersistence == RELPERSISTENCE_UNLOGGED)
		return SCHEMA_UNLOGGED;
	if (IsCatalogNamespace(form->relnamespace))
		return SCHEMA_SYSTEM;
	if (form->relkind == RELKIND_PARTITIONED_TABLE)
		return SCHEMA_PARTITIONED;
	if (form->relam != HEAP_TABLE_AM_OID)
		return SCHEMA_OTHER_METHOD;
	return SCHEMA_TABLE;
}

/* The same as the rules see it, with a publication or without. */
static SchemaTableKind
table_kind(const Catalog *catalog, Form_pg_class form, bool published)
{
	SchemaTableKind kind = rules_table_kind(form);

	if (kind == SCHEMA_PARTITIONED && form->relkind == RELKIND_PARTITIONED_TABLE &&
		(!catalog->has_publication || (catalog->publication.through_root && published)))
		return SCHEMA_TABLE;
	if (kind == SCHEMA_TABLE && form->relispartition && catalog->has_publication &&
		publication_root(catalog->publication.oid, form->oid) != form->oid)
		return SCHEMA_PARTITION;
	return kind;
}

/* Is there an index that replication would take as identity?  As identity_index(). */
static bool
has_identity_index(Oid relid, bool primary)
{
	CatalogScan scan;
	HeapTuple	tuple;
	bool		found = false;

	catalog_scan_begin_oid(&scan, IndexRelationId, IndexIndrelidIndexId, Anum_pg_index_indrelid,
						   relid);
	while (HeapTupleIsValid(tuple = catalog_scan_next(&scan)))
	{
		Form_pg_index form = (Form_pg_index) GETSTRUCT(tuple);

		found |= form->indimmediate && form->indisvalid &&
			(primary ? form->indisprimary : form->indisreplident);
	}
	catalog_scan_end(&scan);
	return found;
}

static bool
has_identity(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	char		identity = REPLICA_IDENTITY_NOTHING;

	if (HeapTupleIsValid(tuple))
	{
		identity = ((Form_pg_class) GETSTRUCT(tuple))->relreplident;
		ReleaseSysCache(tuple);
	}
	switch (identity)
	{
		case REPLICA_IDENTITY_FULL:
			return true;
		case REPLICA_IDENTITY_DEFAULT:
			return has_identity_index(relid, true);
		case REPLICA_IDENTITY_INDEX:
			return has_identity_index(relid, false);
		default:
			return false;
	}
}

/* Every table that has rows of this one. */
static bool
have_identity(Oid relid)
{
	ListCell   *cell;

	foreach(cell, find_all_inheritors(relid, NoLock, NULL))
		if (get_rel_relkind(lfirst_oid(cell)) == RELKIND_RELATION && !has_identity(lfirst_oid(cell)))
			return false;
	return true;
}

static void
describe_column(Catalog *catalog, Form_pg_attribute form, const Bitmapset *published,
				SchemaColumn *column)
{
	bool		custom_types = plan_compatibility(catalog->plan)->custom_postgres_types;

	column->name = arena_string(catalog->arena, NameStr(form->attname));
	column->type = arena_string(catalog->arena, format_type_be(form->atttypid)).data;
	column->not_null = form->attnotnull;
	column->unpublished = published != NULL && !bms_is_member(form->attnum, published);
	column->value = SearchSysCacheExists1(TYPEOID, ObjectIdGetDatum(form->atttypid)) ?
		row_schema_value(form->atttypid, custom_types) : SCHEMA_PRINTED;
}

static void
describe_columns(Catalog *catalog, Oid relid, int count, const Bitmapset *published,
				 SchemaTable *table)
{
	ScanKeyData keys[2];
	CatalogScan scan;
	HeapTuple	tuple;

	table->columns = arena_array(catalog->arena, SchemaColumn, count);
	ScanKeyInit(&keys[0], Anum_pg_attribute_attrelid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(relid));
	ScanKeyInit(&keys[1], Anum_pg_attribute_attnum, BTGreaterStrategyNumber, F_INT2GT,
				Int16GetDatum(0));
	catalog_scan_begin(&scan, AttributeRelationId, AttributeRelidNumIndexId, 2, keys);
	while (table->column_count < count && HeapTupleIsValid(tuple = catalog_scan_next(&scan)))
	{
		Form_pg_attribute form = (Form_pg_attribute) GETSTRUCT(tuple);

		if (form->attisdropped)
			continue;
#if PG_VERSION_NUM >= 180000
		if (form->attgenerated == ATTRIBUTE_GENERATED_VIRTUAL)
			continue;
#endif
		describe_column(catalog, form, published, &table->columns[table->column_count++]);
	}
	catalog_scan_end(&scan);
}

static void
describe_table(Catalog *catalog, Form_pg_class form, SchemaTable *table)
{
	PublishedTable published = {.published = true};

	if (catalog->has_publication)
		publication_describe_table(&catalog->publication, form->oid, form->relispartition,
								   &published);
	table->described = true;
	table->published = published.published;
	table->row_filter = published.row_filter;
	table->column_list = published.column_list;
	table->kind = table_kind(catalog, form, published.published);
	table->has_identity = form->relkind == RELKIND_PARTITIONED_TABLE ?
		have_identity(form->oid) : has_identity(form->oid);
	describe_columns(catalog, form->oid, form->relnatts, published.columns, table);
}

/* every table by name; those that the rules read with all that matters */
static void
describe_tables(Catalog *catalog)
{
	CatalogScan scan;
	HeapTuple	tuple;

	catalog_scan_begin(&scan, RelationRelationId, ClassOidIndexId, 0, NULL);
	while (HeapTupleIsValid(tuple = catalog_scan_next(&scan)))
	{
		Form_pg_class form = (Form_pg_class) GETSTRUCT(tuple);
		char	   *schema;
		bool		is_read;
		SchemaTable *table;

		CHECK_FOR_INTERRUPTS();
		if (strchr("rpvmf", form->relkind) == NULL || OidIsValid(form->relrewrite) ||
			IsToastNamespace(form->relnamespace))
			continue;
		schema = get_namespace_name(form->relnamespace);
		if (schema == NULL)
			continue;
		is_read = plan_reads_table(catalog->plan, schema, NameStr(form->relname));
		/* system tables are no suggestion */
		if (is_read || !IsCatalogNamespace(form->relnamespace))
		{
			table = add_table(catalog);
			table->schema = arena_string(catalog->arena, schema);
			table->name = arena_string(catalog->arena, NameStr(form->relname));
			table->kind = rules_table_kind(form);
			if (is_read)
				describe_table(catalog, form, table);
		}
		pfree(schema);
	}
	catalog_scan_end(&scan);
}

/* puts a fatal finding before the others */
static const RulesMessage *
add_fatal(SyncArena *arena, const char *message, const char *hint, const RulesMessage *next)
{
	RulesMessage *first = arena_new(arena, RulesMessage);

	first->level = RULES_FATAL;
	sync_error_set(&first->error, SYNC_ERROR_UNSUPPORTED, "%s", message);
	strlcpy(first->error.hint, hint, sizeof(first->error.hint));
	first->next = (RulesMessage *) next;
	return first;
}

/* what pgsync_deploy() would refuse, whatever tables there are */
static const RulesMessage *
add_refusals(Catalog *catalog, const RulesMessage *findings)
{
	int			version = plan_storage_version(catalog->plan);

	if (catalog->publication.fault != NULL)
		findings = add_fatal(catalog->arena,
							 psprintf("publication \"%s\" cannot be used by pgsync: %s",
									  catalog->schema.publication, catalog->publication.fault),
							 "Change it, or set \"pgsync.publication\" to another one or to an empty string.",
							 findings);
	if (version != 0 && version != 2)
		findings = add_fatal(catalog->arena,
							 psprintf("storage version %d is not supported by pgsync", version),
							 "Leave \"storage_version\" out of the sync rules.", findings);
	return findings;
}

const RulesMessage *
rules_findings(text *rules, const SyncPlan *plan, SyncArena *arena)
{
	Catalog		catalog = {.arena = arena, .plan = plan};
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "pgsync catalogs",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	const RulesMessage *findings;

	describe_publication(&catalog);
	describe_schemas(&catalog);
	describe_tables(&catalog);
	findings = plan_check(plan, VARDATA_ANY(rules), VARSIZE_ANY_EXHDR(rules), &catalog.schema,
						  arena);
	findings = add_refusals(&catalog, findings);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	return findings;
}

/* ---------------------------------------------------------------- the function */

static void
put_messages(ReturnSetInfo *result, const RulesMessage *messages)
{
	for (; messages != NULL; messages = messages->next)
	{
		const SyncError *error = &messages->error;
		Datum		values[6] = {0};
		bool		nulls[6] = {false};

		values[0] = CStringGetTextDatum(messages->level == RULES_FATAL ? "fatal" : "warning");
		values[1] = Int32GetDatum(error->line);
		nulls[1] = error->line == 0;
		values[2] = Int32GetDatum(error->column);
		nulls[2] = error->column == 0;
		values[3] = CStringGetTextDatum(message_code(error->code));
		values[4] = CStringGetTextDatum(error->message);
		nulls[5] = error->hint[0] == '\0';
		if (!nulls[5])
			values[5] = CStringGetTextDatum(error->hint);
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
}

Datum
pgsync_validate(PG_FUNCTION_ARGS)
{
	text	   *rules = PG_GETARG_TEXT_PP(0);
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	SyncArena  *arena = rules_arena();
	const RulesMessage *messages = NULL;
	const SyncPlan *names;
	const SyncPlan *plan;

#if PG_VERSION_NUM >= 160000
	InitMaterializedSRF(fcinfo, 0);
#else
	SetSingleFuncCall(fcinfo, 0);
#endif
	check_encoding();
	plan = rules_plan(rules, arena, &messages, &names);
	put_messages(result, messages);
	if (plan == NULL)
		plan = names;
	if (plan != NULL)
		put_messages(result, rules_findings(rules, plan, arena));
	return (Datum) 0;
}
