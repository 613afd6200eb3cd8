/*-------------------------------------------------------------------------
 *
 * dry_run.c
 *	  pgsync_evaluate(): what rules make of real rows of a table, nothing being
 *	  stored anywhere.
 *
 * The way from a row to its buckets is that of the copy and the stream: the same
 * conversion, binding and evaluation.  What differs is whose rights count: here
 * those of the caller, row level security included.
 *
 * Invariant: nothing runs with rights that the caller does not have.  Who may act
 * as the table's owner reads as the owner, in a restricted context: so code that
 * the owner left in the table (in an index, in a type, in a constraint, in a policy)
 * gets none of the caller's other rights.
 *
 *-------------------------------------------------------------------------
 */
#include "rules_sql.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "access/transam.h"
#include "catalog/pg_class.h"
#include "catalog/pg_operator.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "nodes/bitmapset.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/rls.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

#include "core/bson_bytes.h"
#include "core/json.h"

PGSYNC_FUNCTION(pgsync_evaluate);

#define MAX_ROWS		10000
#define MAX_KEY_COLUMNS	INDEX_MAX_KEYS
#define COLUMN_COUNT	9

typedef struct DryRun
{
	ReturnSetInfo *result;
	Relation	relation;
	char	   *schema;
	RulesName	name;			/* under which the rules see it */
	SyncArena  *rules_arena;
	SyncArena  *row_arena;		/* reset after each row */
	MemoryContext row_context;	/* likewise */
	const SyncPlan *plan;
	const TableBinding *binding;
	RowConversion *conversion;	/* of the columns as they are selected */
	SyncRowType row_type;
	char	   *select;			/* SELECT ... FROM ONLY table */
	Oid			owner;			/* who reads */
	bool		free_of_policies;	/* although they are forced on the owner */
	Size		limit;
	int			rows_left;
} DryRun;

/* ---------------------------------------------------------------- output */

/* some texts of the rules are none of PostgreSQL's: with NUL, or half a surrogate pair */
static Datum
text_datum(DryRun *run, SyncString text)
{
	SyncBuffer	buffer;

	if (!pg_verifymbstr(text.data, text.len, true))
	{
		buffer_init(&buffer, run->row_arena, text.len + 16);
		json_append_text(&buffer, text.data, text.len);
		text = buffer_string(&buffer);
	}
	return PointerGetDatum(cstring_to_text_with_len(text.data, text.len));
}

typedef struct OutputRow
{
	Datum		values[COLUMN_COUNT];
	bool		nulls[COLUMN_COUNT];
} OutputRow;

enum
{
	OUT_KEY,
	OUT_KIND,
	OUT_BUCKET,
	OUT_TABLE,
	OUT_ID,
	OUT_DATA,
	OUT_LOOKUP,
	OUT_PARAMETERS,
	OUT_MESSAGE
};

static void
output_begin(OutputRow *row, const char *kind, Datum key)
{
	memset(row->nulls, true, sizeof(row->nulls));
	row->values[OUT_KEY] = key;
	row->nulls[OUT_KEY] = key == (Datum) 0;
	row->values[OUT_KIND] = CStringGetTextDatum(kind);
	row->nulls[OUT_KIND] = false;
}

static void
output_set(DryRun *run, OutputRow *row, int column, SyncString text)
{
	row->values[column] = text_datum(run, text);
	row->nulls[column] = false;
}

static void
output_put(DryRun *run, OutputRow *row)
{
	tuplestore_putvalues(run->result->setResult, run->result->setDesc, row->values, row->nulls);
}

static void
output_message(DryRun *run, const char *kind, Datum key, const char *message)
{
	OutputRow	row;

	output_begin(&row, kind, key);
	output_set(run, &row, OUT_MESSAGE, (SyncString) {message, (uint32_t) strlen(message)});
	output_put(run, &row);
}

/* the row's identity, as the rules see its columns; 0: the table has none */
static Datum
key_datum(DryRun *run, const SyncValue *values)
{
	SyncBuffer	json;
	char		separator = '{';

	if (run->row_type.identity_count == 0)
		return (Datum) 0;
	buffer_init(&json, run->row_arena, 64);
	for (int i = 0; i < run->row_type.identity_count; i++)
	{
		int			position = run->row_type.identity[i];
		SyncString	name = run->row_type.columns[position].name;
		SyncValue	value = values[position];

		buffer_append_char(&json, separator);
		separator = ',';
		json_append_text(&json, name.data, name.len);
		buffer_append_char(&json, ':');
		if (value.type == SYNC_BLOB)
		{
			char	   *hex = palloc(2 * (Size) value.len + 1);

			hex[hex_encode(value.data, value.len, hex)] = '\0';
			buffer_append(&json, "\"\\\\x", 4);
			buffer_append(&json, hex, strlen(hex));
			buffer_append_char(&json, '"');
		}
		else if (value.type == SYNC_REAL && (value.real != value.real ||
											 value.real - value.real != 0))
		{
			/* JSON has no such numbers */
			buffer_append_char(&json, '"');
			json_append_value(&json, value);
			buffer_append_char(&json, '"');
		}
		else
			json_append_value(&json, value);
	}
	buffer_append(&json, "}", 2);	/* with its NUL */
	return DirectFunctionCall1(jsonb_in, CStringGetDatum(buffer_string(&json).data));
}

/* a query that failed: of a bucket, or of a lookup */
static void
output_error(DryRun *run, Datum key, const RowError *error)
{
	OutputRow	row;
	SyncBuffer	lookup;

	output_begin(&row, "error", key);
	if (error->bucket.len > 0)
		output_set(run, &row, OUT_BUCKET, error->bucket);
	else
	{
		buffer_init(&lookup, run->row_arena, 64);
		buffer_append_char(&lookup, '[');
		json_append_text(&lookup, error->lookup_name.data, error->lookup_name.len);
		buffer_append_char(&lookup, ',');
		json_append_text(&lookup, error->query_id.data, error->query_id.len);
		buffer_append_char(&lookup, ']');
		output_set(run, &row, OUT_LOOKUP, buffer_string(&lookup));
	}
	output_set(run, &row, OUT_MESSAGE, (SyncString) {error->error.message,
			   (uint32_t) strlen(error->error.message)});
	output_put(run, &row);
}

static void
output_evaluated(DryRun *run, Datum key, const EvaluatedRow *evaluated, const RowError *errors)
{
	OutputRow	row;

	for (int i = 0; i < evaluated->bucket_row_count; i++)
	{
		const BucketRow *bucket = &evaluated->bucket_rows[i];

		output_begin(&row, "bucket", key);
		output_set(run, &row, OUT_BUCKET, bucket->bucket);
		output_set(run, &row, OUT_TABLE, bucket->table);
		output_set(run, &row, OUT_ID, bucket->row_id);
		output_set(run, &row, OUT_DATA, bucket->json);
		output_put(run, &row);
	}
	for (int i = 0; i < evaluated->parameter_row_count; i++)
	{
		SyncBuffer	lookup;
		SyncBuffer	rows;

		buffer_init(&lookup, run->row_arena, 64);
		bson_append_json(&lookup, evaluated->parameter_rows[i].lookup, false);
		buffer_init(&rows, run->row_arena, 64);
		bson_append_json(&rows, evaluated->parameter_rows[i].rows, true);
		output_begin(&row, "lookup", key);
		/* {"l":[...]}: the array is what matters */
		output_set(run, &row, OUT_LOOKUP, lookup.len > 6 ?
				   (SyncString) {lookup.data + 5, (uint32_t) lookup.len - 6} : buffer_string(&lookup));
		output_set(run, &row, OUT_PARAMETERS, buffer_string(&rows));
		output_put(run, &row);
	}
	for (; errors != NULL; errors = errors->next)
		output_error(run, key, errors);
	if (evaluated->bucket_row_count == 0 && evaluated->parameter_row_count == 0 &&
		evaluated->error_count == 0)
	{
		output_begin(&row, "none", key);
		output_put(run, &row);
	}
}

/* ---------------------------------------------------------------- one row */

/* The row's values, or the key of one that is rejected. */
static RowValueResult
convert_row(DryRun *run, HeapTuple tuple, TupleDesc desc, SyncValue *values, Datum *key)
{
	Datum	   *datums = palloc(sizeof(Datum) * Max(desc->natts, 1));
	bool	   *nulls = palloc(sizeof(bool) * Max(desc->natts, 1));
	bool		out_of_line;
	RowValueResult result;
	bool		has_key;
	int			settings = row_conversion_settings_begin();

	heap_deform_tuple(tuple, desc, datums, nulls);
	result = row_convert(run->conversion, datums, nulls, NULL, NULL, run->limit, false,
						 run->row_arena, values, &out_of_line);
	has_key = result == ROW_COMPLETE ||
		row_convert_some(run->conversion, datums, nulls, run->row_type.identity,
						 run->row_type.identity_count, run->limit, run->row_arena, values);
	row_conversion_settings_end(settings);
	*key = has_key ? key_datum(run, values) : (Datum) 0;
	return result;
}

static void
evaluate_row(DryRun *run, HeapTuple tuple, TupleDesc desc)
{
	MemoryContext old = MemoryContextSwitchTo(run->row_context);
	SyncValue  *values = palloc0(sizeof(SyncValue) * Max(run->conversion->count, 1));
	EvaluatedRow evaluated;
	RowError   *errors;
	Datum		key;
	RowValueResult result = convert_row(run, tuple, desc, values, &key);

	if (result == ROW_FAILED)
		output_message(run, "error", key,
					   psprintf("%s: the row is not replicated", run->conversion->failure));
	else if (result == ROW_TOO_LARGE)
		output_message(run, "error", key,
					   psprintf("the row is larger than pgsync.row_limit (%zu kB): it is not replicated",
								run->limit / 1024));
	else
	{
		if (table_evaluate_verbose(run->binding, values, run->row_arena, &evaluated,
								   &errors) != SYNC_OK)
			ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory")));
		output_evaluated(run, key, &evaluated, errors);
	}
	MemoryContextSwitchTo(old);
	MemoryContextReset(run->row_context);
	arena_reset(run->row_arena);
}

/* ---------------------------------------------------------------- reading */

/*
 * Runs a query of ours and evaluates what it returns, up to the rows left.
 * Returns how many rows there were.
 */
static int
evaluate_query(DryRun *run, const char *query, int nargs, Oid *types, Datum *values)
{
	Oid			user;
	int			security_context;
	Portal		portal;
	int			count = 0;

	int			as_owner = SECURITY_LOCAL_USERID_CHANGE | SECURITY_RESTRICTED_OPERATION;

	if (run->free_of_policies)
		as_owner |= SECURITY_NOFORCE_RLS;
	GetUserIdAndSecContext(&user, &security_context);
	SetUserIdAndSecContext(run->owner, run->owner == user ? security_context :
						   security_context | as_owner);
	portal = SPI_cursor_open_with_args(NULL, query, nargs, types, values, NULL, true,
									   CURSOR_OPT_NO_SCROLL);
	while (run->rows_left > 0)
	{
		SPI_cursor_fetch(portal, true, 1);
		if (SPI_processed == 0)
			break;
		evaluate_row(run, SPI_tuptable->vals[0], SPI_tuptable->tupdesc);
		SPI_freetuptable(SPI_tuptable);
		run->rows_left--;
		count++;
		CHECK_FOR_INTERRUPTS();
	}
	SPI_cursor_close(portal);
	SetUserIdAndSecContext(user, security_context);
	return count;
}

/* ---------------------------------------------------------------- keys */

/*
 * How a column is compared with a value of a key.  The operator must be found by
 * its exact argument types, so that no implicit cast, which the owner of a type
 * can make, has a part in it; and the value must be read by a type's own input
 * function, without the checks of a domain.
 */
static void
key_condition(DryRun *run, Form_pg_attribute attribute, int number, StringInfo query, Oid *type)
{
	int32		typmod = attribute->atttypmod;
	TypeCacheEntry *cache;
	Oid			left = InvalidOid;
	Oid			right = InvalidOid;
	char	   *operator_schema = NULL;
	char	   *operator_name = NULL;

	*type = getBaseTypeAndTypmod(attribute->atttypid, &typmod);
	cache = lookup_type_cache(*type, TYPECACHE_EQ_OPR);
	if (get_typtype(*type) == TYPTYPE_ENUM)
	{
		appendStringInfo(query, "pg_catalog.enum_eq(%s, $%d)",
						 quote_identifier(NameStr(attribute->attname)), number);
		return;
	}
	if (OidIsValid(cache->eq_opr) && get_typtype(*type) == TYPTYPE_BASE &&
		!OidIsValid(get_element_type(*type)))
	{
		op_input_types(cache->eq_opr, &left, &right);
		operator_name = get_opname(cache->eq_opr);
	}
	if (operator_name != NULL)
	{
		HeapTuple	tuple = SearchSysCache1(OPEROID, ObjectIdGetDatum(cache->eq_opr));

		if (HeapTupleIsValid(tuple))
		{
			operator_schema =
				get_namespace_name(((Form_pg_operator) GETSTRUCT(tuple))->oprnamespace);
			ReleaseSysCache(tuple);
		}
	}
	/* built-in types may be compared as another one that is the same in storage: varchar as text */
	if (operator_schema == NULL || left != right ||
		(left != *type && (*type >= FirstNormalObjectId || left >= FirstNormalObjectId)))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("rows cannot be selected by column \"%s\" of type %s",
						NameStr(attribute->attname), format_type_be(attribute->atttypid))));
	appendStringInfo(query, "%s OPERATOR(%s.%s) $%d",
					 quote_identifier(NameStr(attribute->attname)),
					 quote_identifier(operator_schema), operator_name, number);
	*type = left;
}

static Form_pg_attribute
find_attribute(DryRun *run, const char *name)
{
	TupleDesc	desc = RelationGetDescr(run->relation);

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute attribute = TupleDescAttr(desc, i);

		if (!attribute->attisdropped && strcmp(NameStr(attribute->attname), name) == 0)
			return attribute;
	}
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_COLUMN),
			 errmsg("column \"%s\" of table \"%s\" does not exist", name,
					RelationGetRelationName(run->relation))));
}

/* the text of a key's value; NULL: JSON null */
static char *
key_text(const JsonbValue *value)
{
	switch (value->type)
	{
		case jbvNull:
			return NULL;
		case jbvString:
			return pnstrdup(value->val.string.val, value->val.string.len);
		case jbvNumeric:
			return DatumGetCString(DirectFunctionCall1(numeric_out,
													   NumericGetDatum(value->val.numeric)));
		case jbvBool:
			return pstrdup(value->val.boolean ? "true" : "false");
		default:
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("a value in \"keys\" must be a text, a number, a boolean or null")));
	}
}

/* the rows with one key: {"column": value, ...} */
static void
evaluate_key(DryRun *run, Jsonb *key)
{
	StringInfoData query;
	JsonbIterator *iterator = JsonbIteratorInit(&key->root);
	JsonbIteratorToken token;
	JsonbValue	item;
	Oid			types[MAX_KEY_COLUMNS];
	Datum		values[MAX_KEY_COLUMNS];
	int			nargs = 0;
	const char *word = " WHERE ";

	initStringInfo(&query);
	appendStringInfoString(&query, run->select);
	while ((token = JsonbIteratorNext(&iterator, &item, true)) != WJB_DONE)
	{
		Form_pg_attribute attribute;
		char	   *text;
		Oid			input;
		Oid			io_param;

		if (token != WJB_KEY)
			continue;
		attribute = find_attribute(run, pnstrdup(item.val.string.val, item.val.string.len));
		(void) JsonbIteratorNext(&iterator, &item, true);
		appendStringInfoString(&query, word);
		word = " AND ";
		text = key_text(&item);
		if (text == NULL)
		{
			appendStringInfo(&query, "%s IS NULL",
							 quote_identifier(NameStr(attribute->attname)));
			continue;
		}
		if (nargs == MAX_KEY_COLUMNS)
			ereport(ERROR,
					(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
					 errmsg("a key in \"keys\" can have at most %d columns", MAX_KEY_COLUMNS)));
		key_condition(run, attribute, nargs + 1, &query, &types[nargs]);
		getTypeInputInfo(types[nargs], &input, &io_param);
		values[nargs] = OidInputFunctionCall(input, text, io_param, -1);
		nargs++;
	}
	if (word[1] == 'W')
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a key in \"keys\" must name at least one column")));
	if (evaluate_query(run, query.data, nargs, types, values) == 0 && run->rows_left > 0)
	{
		output_message(run, "none", JsonbPGetDatum(key),
					   "there is no such row, or you cannot see it");
		arena_reset(run->row_arena);
		/* it counts, or the number of keys would have no limit */
		run->rows_left--;
	}
}

static void
evaluate_keys(DryRun *run, Jsonb *keys)
{
	JsonbIterator *iterator;
	JsonbIteratorToken token;
	JsonbValue	item;

	if (JB_ROOT_IS_OBJECT(keys))
	{
		evaluate_key(run, keys);
		return;
	}
	iterator = JB_ROOT_IS_SCALAR(keys) ? NULL : JsonbIteratorInit(&keys->root);
	while (iterator != NULL &&
		   (token = JsonbIteratorNext(&iterator, &item, true)) != WJB_DONE)
	{
		if (token == WJB_BEGIN_ARRAY || token == WJB_END_ARRAY)
			continue;
		if (token != WJB_ELEM || item.type != jbvBinary ||
			!JsonContainerIsObject(item.val.binary.data))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("\"keys\" must be an object or an array of objects"),
					 errhint("For example: {\"id\": 17}.")));
		if (run->rows_left > 0)
			evaluate_key(run, JsonbValueToJsonb(&item));
	}
	if (JB_ROOT_IS_SCALAR(keys))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"keys\" must be an object or an array of objects"),
				 errhint("For example: {\"id\": 17}.")));
}

/* ---------------------------------------------------------------- the table */

/* Nothing is locked before it is known that the caller may read. */
static Relation
open_table(Oid relid)
{
	Relation	relation;
	char	   *name = get_rel_name(relid);

	if (name == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", relid)));
	if (pg_class_aclcheck(relid, GetUserId(), ACL_SELECT) != ACLCHECK_OK &&
		pg_attribute_aclcheck_all(relid, GetUserId(), ACL_SELECT, ACLMASK_ALL) != ACLCHECK_OK)
		aclcheck_error(ACLCHECK_NO_PRIV, get_relkind_objtype(get_rel_relkind(relid)), name);
	relation = try_relation_open(relid, AccessShareLock);
	if (relation == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", relid)));
	if (relation->rd_rel->relkind != RELKIND_RELATION)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a table with rows of its own", name),
				 relation->rd_rel->relkind == RELKIND_PARTITIONED_TABLE ?
				 errhint("Rows are replicated from its partitions: name one of them.") :
				 errhint("Only tables are replicated.")));
	return relation;
}

/* a column that replication sees */
static bool
is_selected(Form_pg_attribute attribute)
{
#if PG_VERSION_NUM >= 180000
	if (attribute->attgenerated == ATTRIBUTE_GENERATED_VIRTUAL)
		return false;
#endif
	return !attribute->attisdropped;
}

static int
count_selected(TupleDesc desc)
{
	int			count = 0;

	for (int i = 0; i < desc->natts; i++)
		count += is_selected(TupleDescAttr(desc, i));
	return count;
}

/* columns as replication sees them, in a tuple without the others */
static void
select_columns(DryRun *run)
{
	TupleDesc	desc = RelationGetDescr(run->relation);
	TupleDesc	selected = CreateTemplateTupleDesc(count_selected(desc));
	SyncColumn *columns = palloc0(sizeof(SyncColumn) * Max(desc->natts, 1));
	int		   *identity = palloc0(sizeof(int) * Max(desc->natts, 1));
	char		kind;
	Bitmapset  *keys = relation_identity_columns(run->relation, &kind);
	StringInfoData select;
	int			count = 0;

	initStringInfo(&select);
	appendStringInfoString(&select, "SELECT");
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute attribute = TupleDescAttr(desc, i);
		char	   *name = NameStr(attribute->attname);

		if (!is_selected(attribute))
			continue;
		appendStringInfo(&select, "%s %s", count > 0 ? "," : "", quote_identifier(name));
		columns[count].name = (SyncString) {pstrdup(name), (uint32_t) strlen(name)};
		if (bms_is_member(attribute->attnum, keys))
			identity[run->row_type.identity_count++] = count;
		TupleDescCopyEntry(selected, count + 1, desc, i + 1);
		count++;
	}
	appendStringInfo(&select, " FROM ONLY %s",
					 quote_qualified_identifier(run->schema,
												RelationGetRelationName(run->relation)));
	run->select = select.data;
	run->row_type.column_count = count;
	run->row_type.columns = columns;
	run->row_type.identity = identity;
	run->conversion = row_conversion_create(selected, run->owner, plan_compatibility(run->plan));
}

/* false: the rules do not read the table */
static bool
bind_table(DryRun *run)
{
	BucketNaming naming = {.prefix = {"", 0}};
	SyncError	error = {0};

	run->binding = plan_bind(run->plan, run->name.schema, run->name.table, &run->row_type,
							 &naming, run->rules_arena, &error);
	if (error.code != SYNC_OK)
		ereport(ERROR,
				(errcode(error.code == SYNC_ERROR_OUT_OF_MEMORY ?
						 ERRCODE_OUT_OF_MEMORY : ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("could not apply the sync rules to table \"%s.%s\"", run->schema,
						RelationGetRelationName(run->relation)),
				 errdetail("%s", error.message)));
	return run->binding != NULL;
}

/*
 * Who reads; see the head of this file.  Whether row level security counts is the
 * caller's matter: who is free of it, where it is forced on the owner, must not see
 * less for reading as the owner.
 */
static void
set_reader(DryRun *run)
{
	Form_pg_class form = run->relation->rd_rel;

	run->owner = form->relowner;
	if (!has_privs_of_role(GetUserId(), run->owner))
		run->owner = GetUserId();
	else if (form->relrowsecurity && form->relforcerowsecurity)
	{
		run->free_of_policies = check_enable_rls(RelationGetRelid(run->relation), InvalidOid,
												 true) != RLS_ENABLED;
		if (!run->free_of_policies && run->owner != GetUserId())
			ereport(NOTICE,
					(errmsg("rows of table \"%s\" are read as its owner, for whom row level security is forced",
							RelationGetRelationName(run->relation)),
					 errdetail("Policies for other roles than the owner do not count.")));
	}
}

/* that of the workers of this database; pgsync need not be preloaded */
static Size
row_limit(void)
{
	char	   *setting = pgsync_database_setting("pgsync.row_limit",
												  GetConfigOption("pgsync.row_limit", true, false));
	int			kilobytes;

	if (setting == NULL || !parse_int(setting, &kilobytes, GUC_UNIT_KB, NULL) || kilobytes <= 0)
		kilobytes = 15 * 1024;
	return (Size) kilobytes * 1024;
}

/* the same as pgsync_validate() has to say of a table that rules name */
static void
notice_kind(DryRun *run)
{
	SchemaTableKind kind = rules_table_kind(run->relation->rd_rel);
	const char *hint;
	const char *what;

	if (kind == SCHEMA_TABLE)
		return;
	what = schema_kind_fault(kind, &hint);
	ereport(NOTICE,
			(errmsg("\"%s.%s\" %s", run->schema, RelationGetRelationName(run->relation), what),
			 hint != NULL ? errhint("%s", hint) : 0));
}

static void
evaluate_table(DryRun *run, Oid relid, Jsonb *keys)
{
	const char *publication =
		pgsync_database_setting("pgsync.publication",
								GetConfigOption("pgsync.publication", true, false));

	run->relation = open_table(relid);
	run->schema = get_namespace_name(RelationGetNamespace(run->relation));
	if (run->schema == NULL || !rules_name(publication, run->plan, run->relation->rd_rel, &run->name))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_SCHEMA),
				 errmsg("the schema of table \"%s\" does not exist",
						RelationGetRelationName(run->relation))));
	notice_kind(run);
	set_reader(run);
	select_columns(run);
	if (!bind_table(run))
		ereport(NOTICE,
				(errmsg("the sync rules do not read table \"%s.%s\"", run->schema,
						RelationGetRelationName(run->relation)),
				 errhint("pgsync_validate() shows tables that the rules name and that do not exist.")));
	else
	{
		SPI_connect();
		if (keys != NULL)
			evaluate_keys(run, keys);
		else
			evaluate_query(run, run->select, 0, NULL, NULL);
		SPI_finish();
	}
	relation_close(run->relation, AccessShareLock);
}

Datum
pgsync_evaluate(PG_FUNCTION_ARGS)
{
	DryRun		run = {.result = (ReturnSetInfo *) fcinfo->resultinfo};
	const RulesMessage *messages = NULL;

#if PG_VERSION_NUM >= 160000
	InitMaterializedSRF(fcinfo, 0);
#else
	SetSingleFuncCall(fcinfo, 0);
#endif
	if (PG_ARGISNULL(0) || PG_ARGISNULL(1) || PG_ARGISNULL(3))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("only \"keys\" can be null")));
	run.rows_left = PG_GETARG_INT32(3);
	if (run.rows_left < 1 || run.rows_left > MAX_ROWS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"max_rows\" must be from 1 to %d", MAX_ROWS)));
	check_encoding();
	run.rules_arena = rules_arena();
	run.row_arena = rules_arena();
	run.row_context = AllocSetContextCreate(CurrentMemoryContext, "pgsync dry run row",
											ALLOCSET_DEFAULT_SIZES);
	run.limit = row_limit();
	run.plan = rules_plan(PG_GETARG_TEXT_PP(0), run.rules_arena, &messages, NULL);
	if (run.plan == NULL)
		rules_refuse(messages, "pgsync_validate() shows every finding.");
	evaluate_table(&run, PG_GETARG_OID(1), PG_ARGISNULL(2) ? NULL : PG_GETARG_JSONB_P(2));
	return (Datum) 0;
}
