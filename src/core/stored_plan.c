/*-------------------------------------------------------------------------
 *
 * stored_plan.c
 *	  Writes a plan of edition 3 as the JSON that is stored with a config:
 *	  sync-rules.md, 7.1 and 7.2.
 *
 * Does not compile and does not check: what is wrong with a plan is found when
 * plan_read() reads it back.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "json.h"
#include "number.h"
#include "stored_plan.h"

/*
 * The text is made twice: to know its length, and into memory of that length.  It
 * is the largest thing that compiling makes, and a buffer that grows would take
 * three times as much.
 */
typedef struct PlanWriter
{
	SyncBuffer	buffer;			/* what was not taken over yet */
	char	   *out;			/* NULL: only the length is wanted */
	size_t		written;		/* taken over */
	const StoredSource *source; /* whose functions are numbered; NULL: on the query side */
} PlanWriter;

static void write_expr(PlanWriter *writer, const StoredExpr *expr);

/* ---------------------------------------------------------------- JSON */

/* one condition can stand in many products: a small text can make a large plan */
static bool
is_full(const PlanWriter *writer)
{
	return writer->written + writer->buffer.len > STORED_PLAN_MAX_BYTES;
}

/* takes over what is in the buffer */
static void
flush(PlanWriter *writer)
{
	if (writer->out != NULL)
		memcpy(writer->out + writer->written, writer->buffer.data, writer->buffer.len);
	writer->written += writer->buffer.len;
	writer->buffer.len = 0;
}

static void
put(PlanWriter *writer, const char *s)
{
	if (!is_full(writer))
		buffer_append(&writer->buffer, s, strlen(s));
}

static void
put_text(PlanWriter *writer, SyncString text)
{
	if (!is_full(writer))
		json_append_text(&writer->buffer, text.data, text.len);
}

static void
put_int(PlanWriter *writer, int64_t value)
{
	if (!is_full(writer))
		buffer_append_int(&writer->buffer, value);
}

/* a comma before all but the first */
static void
put_separator(PlanWriter *writer, int i)
{
	if (i > 0)
		put(writer, ",");
}

static void
put_optional(PlanWriter *writer, SyncString text)
{
	if (text.data == NULL)
		put(writer, "null");
	else
		put_text(writer, text);
}

/* ---------------------------------------------------------------- expressions */

static void
write_exprs(PlanWriter *writer, const StoredExpr *const *exprs, int count)
{
	put(writer, "[");
	for (int i = 0; i < count; i++)
	{
		put_separator(writer, i);
		write_expr(writer, exprs[i]);
	}
	put(writer, "]");
}

static void
write_data(PlanWriter *writer, const StoredExpr *expr)
{
	put(writer, "\"data\",\"source\":{");
	if (expr->kind == STORED_COLUMN && writer->source != NULL &&
		expr->relation->kind == RELATION_JSON_EACH)
	{
		put(writer, "\"function\":");
		put_int(writer, stored_function_position(writer->source, expr->relation));
		put(writer, ",\"outputName\":");
	}
	else if (expr->kind == STORED_COLUMN)
		put(writer, "\"column\":");
	else if (expr->kind == STORED_METADATA)
		put(writer, "\"metadata\":");
	else
		put(writer, "\"request\":");
	put_text(writer, expr->text);
	put(writer, "}");
}

static void
write_case(PlanWriter *writer, const StoredExpr *expr)
{
	int			at = 0;
	int			end = expr->arg_count - (expr->has_else ? 1 : 0);

	put(writer, "\"case_when\"");
	if (expr->has_operand)
	{
		put(writer, ",\"operand\":");
		write_expr(writer, expr->args[at++]);
	}
	put(writer, ",\"whens\":[");
	for (int i = at; i < end; i += 2)
	{
		put_separator(writer, i - at);
		put(writer, "{\"when\":");
		write_expr(writer, expr->args[i]);
		put(writer, ",\"then\":");
		write_expr(writer, expr->args[i + 1]);
		put(writer, "}");
	}
	put(writer, "]");
	if (expr->has_else)
	{
		put(writer, ",\"else\":");
		write_expr(writer, expr->args[end]);
	}
}

/* members that each hold one argument */
static void
write_members(PlanWriter *writer, const StoredExpr *expr, const char *const *names)
{
	for (int i = 0; i < expr->arg_count; i++)
	{
		put(writer, ",\"");
		put(writer, names[i]);
		put(writer, "\":");
		write_expr(writer, expr->args[i]);
	}
}

static void
write_named(PlanWriter *writer, const char *type, const char *member, SyncString text)
{
	put(writer, "\"");
	put(writer, type);
	put(writer, "\",\"");
	put(writer, member);
	put(writer, "\":");
	put_text(writer, text);
}

static void
write_literal(PlanWriter *writer, const StoredExpr *expr)
{
	char		text[NUMBER_TEXT_LEN];

	if (expr->kind == STORED_NULL)
		put(writer, "\"lit_null\"");
	else if (expr->kind == STORED_INTEGER)
		write_named(writer, "lit_int", "base10", expr->text);
	else if (expr->kind == STORED_STRING)
		write_named(writer, "lit_string", "value", expr->text);
	else
	{
		put(writer, "\"lit_double\",\"value\":");
		buffer_append(&writer->buffer, text, number_to_text(expr->number, text));
	}
}

static void
write_expr(PlanWriter *writer, const StoredExpr *expr)
{
	static const char *const unary[] = {"operand"};
	static const char *const binary[] = {"left", "right"};
	static const char *const between[] = {"value", "low", "high"};

	if (is_full(writer))
		return;
	put(writer, "{\"type\":");
	switch (expr->kind)
	{
		case STORED_COLUMN:
		case STORED_METADATA:
		case STORED_REQUEST:
			write_data(writer, expr);
			break;
		case STORED_UNARY:
			write_named(writer, "unary", "operator", expr->text);
			write_members(writer, expr, unary);
			break;
		case STORED_BINARY:
			write_named(writer, "binary", "operator", expr->text);
			write_members(writer, expr, binary);
			break;
		case STORED_BETWEEN:
			put(writer, "\"between\"");
			write_members(writer, expr, between);
			break;
		case STORED_SCALAR_IN:
			put(writer, "\"scalar_in\",\"target\":");
			write_expr(writer, expr->args[0]);
			put(writer, ",\"in\":");
			write_exprs(writer, expr->args + 1, expr->arg_count - 1);
			break;
		case STORED_CASE:
			write_case(writer, expr);
			break;
		case STORED_CAST:
			put(writer, "\"cast\"");
			write_members(writer, expr, unary);
			put(writer, ",\"cast_as\":");
			put_text(writer, expr->text);
			break;
		case STORED_FUNCTION:
			write_named(writer, "function", "function", expr->text);
			put(writer, ",\"parameters\":");
			write_exprs(writer, expr->args, expr->arg_count);
			break;
		default:
			write_literal(writer, expr);
			break;
	}
	put(writer, "}");
}

/* ---------------------------------------------------------------- sources */

static void
write_table(PlanWriter *writer, const StoredRelation *table)
{
	put(writer, "\"table\":{\"connection\":");
	put_optional(writer, table->connection);
	put(writer, ",\"schema\":");
	put_optional(writer, table->schema);
	put(writer, ",\"table\":");
	put_text(writer, table->name);
	put(writer, "}");
}

/* what data sources and indexes have in common */
static void
write_source(PlanWriter *writer, const StoredSource *source)
{
	put(writer, "\"hash\":");
	put_int(writer, source->hash);
	put(writer, ",");
	write_table(writer, source->table);
	put(writer, ",\"tableValuedFunctions\":[");
	for (int i = 0; i < source->function_count; i++)
	{
		put_separator(writer, i);
		put(writer, "{\"functionName\":\"json_each\",\"functionInputs\":");
		write_exprs(writer, &source->functions[i]->input, 1);
		put(writer, "}");
	}
	put(writer, "],\"filters\":");
	write_exprs(writer, source->filters, source->filter_count);
	put(writer, ",\"partitionBy\":[");
	for (int i = 0; i < source->key_count; i++)
	{
		put_separator(writer, i);
		put(writer, "{\"expr\":");
		write_expr(writer, source->keys[i]);
		put(writer, "}");
	}
	put(writer, "]");
}

static void
write_data_source(PlanWriter *writer, const StoredSource *source)
{
	writer->source = source;
	put(writer, "{");
	write_source(writer, source);
	if (source->table->output_name.data != NULL)
	{
		put(writer, ",\"outputTableName\":");
		put_text(writer, source->table->output_name);
	}
	put(writer, ",\"columns\":[");
	for (int i = 0; i < source->column_count; i++)
	{
		put_separator(writer, i);
		if (source->columns[i].expr == NULL)
		{
			put(writer, "\"star\"");
			continue;
		}
		put(writer, "{\"expr\":");
		write_expr(writer, source->columns[i].expr);
		put(writer, ",\"alias\":");
		put_text(writer, source->columns[i].alias);
		put(writer, "}");
	}
	put(writer, "]}");
}

static void
write_index(PlanWriter *writer, const StoredSource *source)
{
	writer->source = source;
	put(writer, "{");
	write_source(writer, source);
	put(writer, ",\"output\":");
	write_exprs(writer, source->outputs, source->output_count);
	put(writer, ",\"lookupScope\":{\"lookupName\":\"lookup\",\"queryId\":\"");
	put_int(writer, source->position);
	put(writer, "\"}}");
}

static void
write_bucket(PlanWriter *writer, const StoredBucket *bucket)
{
	put(writer, "{\"hash\":");
	put_int(writer, bucket->hash);
	put(writer, ",\"uniqueName\":");
	put_text(writer, bucket->name);
	put(writer, ",\"sources\":[");
	for (int i = 0; i < bucket->source_count; i++)
	{
		put_separator(writer, i);
		put_int(writer, bucket->sources[i]->position);
	}
	put(writer, "]}");
}

/* ---------------------------------------------------------------- the query side */

static void
write_values(PlanWriter *writer, StoredValue *const *values, int count)
{
	put(writer, "[");
	for (int i = 0; i < count; i++)
	{
		const StoredValue *value = values[i];

		put_separator(writer, i);
		switch (value->kind)
		{
			case VALUE_OF_REQUEST:
				put(writer, "{\"type\":\"request\",\"expr\":");
				write_expr(writer, value->expr);
				break;
			case VALUE_OF_LOOKUP:
				put(writer, "{\"type\":\"lookup\",\"lookup\":{\"stageId\":");
				put_int(writer, value->lookup->stage);
				put(writer, ",\"idInStage\":");
				put_int(writer, value->lookup->id_in_stage);
				put(writer, "},\"resultIndex\":");
				put_int(writer, value->output);
				break;
			default:
				put(writer, "{\"type\":\"intersection\",\"values\":");
				write_values(writer, value->values, value->value_count);
				break;
		}
		put(writer, "}");
	}
	put(writer, "]");
}

static void
write_lookup(PlanWriter *writer, const StoredLookup *lookup)
{
	if (lookup->index != NULL)
	{
		put(writer, "{\"type\":\"parameter\",\"lookup\":");
		put_int(writer, lookup->index->position);
		put(writer, ",\"instantiation\":");
		write_values(writer, lookup->values, lookup->value_count);
	}
	else
	{
		put(writer, "{\"type\":\"table_valued\",\"functionName\":\"json_each\",\"functionInputs\":");
		write_exprs(writer, &lookup->function->input, 1);
		put(writer, ",\"outputs\":");
		write_exprs(writer, lookup->outputs, lookup->output_count);
		put(writer, ",\"filters\":");
		write_exprs(writer, lookup->filters, lookup->filter_count);
	}
	put(writer, "}");
}

static void
write_stages(PlanWriter *writer, const StoredQuerier *querier)
{
	int			written = 0;

	put(writer, "[");
	for (int stage = 0; written < querier->lookup_count; stage++)
	{
		int			in_stage = 0;

		put_separator(writer, stage);
		put(writer, "[");
		for (int i = 0; i < querier->lookup_count; i++)
		{
			if (querier->lookups[i]->stage != stage)
				continue;
			put_separator(writer, in_stage++);
			write_lookup(writer, querier->lookups[i]);
		}
		put(writer, "]");
		written += in_stage;
	}
	put(writer, "]");
}

static void
write_querier(PlanWriter *writer, const StoredQuerier *querier)
{
	put(writer, "{\"requestFilters\":");
	write_exprs(writer, querier->filters, querier->filter_count);
	put(writer, ",\"lookupStages\":");
	write_stages(writer, querier);
	put(writer, ",\"bucket\":");
	put_int(writer, querier->bucket->position);
	put(writer, ",\"sourceInstantiation\":");
	write_values(writer, querier->values, querier->value_count);
	put(writer, "}");
}

static void
write_stream(PlanWriter *writer, const StoredStream *stream)
{
	put(writer, "{\"stream\":{\"name\":");
	put_text(writer, stream->name);
	put(writer, ",\"priority\":");
	put_int(writer, stream->priority);
	put(writer, ",\"isSubscribedByDefault\":");
	put(writer, stream->auto_subscribe ? "true" : "false");
	put(writer, "},\"queriers\":[");
	for (int i = 0; i < stream->querier_count; i++)
	{
		put_separator(writer, i);
		write_querier(writer, &stream->queriers[i]);
	}
	put(writer, "]}");
}

/* ---------------------------------------------------------------- wrapper */

static void
write_plan(PlanWriter *writer, const StoredPlan *plan)
{
	put(writer, "{\"dataSources\":[");
	for (int i = 0; i < plan->source_count; i++)
	{
		put_separator(writer, i);
		write_data_source(writer, plan->sources[i]);
		flush(writer);
	}
	put(writer, "],\"buckets\":[");
	for (int i = 0; i < plan->bucket_count; i++)
	{
		put_separator(writer, i);
		write_bucket(writer, plan->buckets[i]);
		flush(writer);
	}
	put(writer, "],\"parameterIndexes\":[");
	for (int i = 0; i < plan->index_count; i++)
	{
		put_separator(writer, i);
		write_index(writer, plan->indexes[i]);
		flush(writer);
	}
	put(writer, "],\"streams\":[");
	writer->source = NULL;
	for (int i = 0; i < plan->stream_count; i++)
	{
		put_separator(writer, i);
		write_stream(writer, &plan->streams[i]);
		flush(writer);
	}
	put(writer, plan->uses_metadata ? "],\"version\":2}" : "],\"version\":1}");
}

/* only what the YAML says itself: the service knows the edition's defaults */
static void
write_compatibility(PlanWriter *writer, const SyncConfig *config)
{
	const SyncCompatibility *compatibility = &config->compatibility;
	const struct
	{
		const char *name;
		bool		given;
		bool		value;
	}			flags[] = {
		{"custom_postgres_types", config->given.custom_postgres_types,
		compatibility->custom_postgres_types},
		{"fixed_json_extract", config->given.fixed_json_extract,
		compatibility->fixed_json_extract},
		{"timestamps_iso8601", config->given.timestamps_iso8601,
		compatibility->timestamps_iso8601},
		{"unstable_sqlite_expression_engine", config->given.sqlite_expression_engine, false},
		{"versioned_bucket_ids", config->given.versioned_bucket_ids,
		compatibility->versioned_bucket_ids},
	};
	int			count = 0;

	put(writer, "{\"edition\":");
	put_int(writer, compatibility->edition);
	put(writer, ",\"overrides\":{");
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
	{
		if (!flags[i].given)
			continue;
		put_separator(writer, count++);
		put(writer, "\"");
		put(writer, flags[i].name);
		put(writer, flags[i].value ? "\":true" : "\":false");
	}
	put(writer, "}");
	if (compatibility->timestamp_precision >= 0)
	{
		put(writer, ",\"maxTimeValuePrecision\":");
		put_int(writer, compatibility->timestamp_precision);
	}
	put(writer, "}");
}

static void
write_events(PlanWriter *writer, const SyncConfig *config)
{
	put(writer, "{");
	for (int i = 0; i < config->event_count; i++)
	{
		const ConfigEvent *event = &config->events[i];

		put_separator(writer, i);
		put_text(writer, event->name);
		put(writer, ":[");
		for (int j = 0; j < event->payloads.count; j++)
		{
			put_separator(writer, j);
			put_text(writer, event->payloads.items[j].text);
		}
		put(writer, "]");
	}
	put(writer, "}");
}

static void
write_errors(PlanWriter *writer, const RulesMessage *messages)
{
	int			count = 0;

	put(writer, "[");
	for (; messages != NULL; messages = messages->next)
	{
		const char *text = messages->error.message;

		put_separator(writer, count++);
		put(writer, messages->level == RULES_FATAL ? "{\"level\":\"fatal\"" :
			"{\"level\":\"warning\"");
		put(writer, ",\"message\":");
		put_text(writer, (SyncString) {text, (uint32_t) strlen(text)});
		put(writer, "}");
	}
	put(writer, "]");
}

static void
write_wrapper(PlanWriter *writer, const StoredPlan *plan, const SyncConfig *config,
			  const RulesMessage *messages)
{
	writer->written = 0;
	put(writer, "{\"compatibility\":");
	write_compatibility(writer, config);
	put(writer, ",\"plan\":");
	write_plan(writer, plan);
	put(writer, ",\"eventDescriptors\":");
	write_events(writer, config);
	put(writer, ",\"errors\":");
	write_errors(writer, messages);
	put(writer, "}");
	flush(writer);
}

SyncString
stored_plan_json(const StoredPlan *plan, const SyncConfig *config, const RulesMessage *messages,
				 SyncArena *arena, SyncArena *scratch)
{
	PlanWriter	writer = {.out = NULL};

	buffer_init(&writer.buffer, scratch, 4096);
	write_wrapper(&writer, plan, config, messages);
	if (is_full(&writer))
		return (SyncString) {NULL, 0};
	writer.out = arena_alloc(arena, writer.written);
	write_wrapper(&writer, plan, config, messages);
	return (SyncString) {writer.out, (uint32_t) writer.written};
}
