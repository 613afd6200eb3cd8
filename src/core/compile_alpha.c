/*-------------------------------------------------------------------------
 *
 * compile_alpha.c
 *	  Compiles streams of edition 2, alpha streams (sync-rules.md, 4): each
 *	  variant of a stream's query is a source with a bucket of its own, each
 *	  subquery of a variant an index.
 *
 * Does not look into conditions: compile_alpha_where.c.  The priority of such
 * a stream means nothing, as in the service.
 *
 * Invariant: the variants of a stream have the numbers 0, 1, 2, ... in the
 * names of its buckets, and so have its subqueries, over all variants, in
 * those of its lookups.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "compile_alpha.h"

/* the plan's arrays, which grow here: how much a stream adds is known late */
typedef struct AlphaCompiler
{
	Compiler   *compiler;
	int			source_capacity;
	int			bucket_capacity;
	int			index_capacity;
	int			table_capacity;
	uint64_t	expanded;		/* of the streams so far: see ALPHA_MAX_EXPANDED */
} AlphaCompiler;

/* one stream's query */
typedef struct AlphaStream
{
	AlphaCompiler *alpha;
	const ConfigStream *config;
	PlanSource	source;			/* what all variants have in common */
	int			variant_count;
	int			subquery_count;
} AlphaStream;

/* ---------------------------------------------------------------- the plan */

/* an array with room for one more element */
static void *
make_room(SyncArena *arena, void *array, size_t element_size, int count, int *capacity)
{
	int			old = *capacity > count ? *capacity : count;

	if (count < *capacity)
		return array;
	*capacity = old * 2 + 8;
	return arena_grow(arena, array, element_size * (size_t) old,
					  element_size * (size_t) *capacity);
}

static void
add_table(AlphaCompiler *alpha, const TablePattern *pattern)
{
	SyncPlan   *plan = alpha->compiler->plan;

	plan->tables = make_room(alpha->compiler->arena, plan->tables, sizeof(*plan->tables),
							 plan->table_count, &alpha->table_capacity);
	compile_add_table(alpha->compiler, pattern);
}

static SyncString
numbered(SyncArena *arena, SyncString name, const char *separator, int number)
{
	SyncBuffer	buffer;
	const char *digits = arena_printf(arena, "%s%d", separator, number);

	buffer_init(&buffer, arena, name.len + 12);
	buffer_append(&buffer, name.data, name.len);
	buffer_append(&buffer, digits, strlen(digits));
	return buffer_string(&buffer);
}

static void
add_index(AlphaStream *stream, const PlanSource *subquery)
{
	AlphaCompiler *alpha = stream->alpha;
	SyncPlan   *plan = alpha->compiler->plan;

	plan->indexes = make_room(alpha->compiler->arena, plan->indexes, sizeof(*plan->indexes),
							  plan->index_count, &alpha->index_capacity);
	plan->indexes[plan->index_count++] = (PlanIndex) {
		.lookup_name = stream->config->name,
		.query_id = numbered(alpha->compiler->arena, (SyncString) {"", 0}, "",
							 stream->subquery_count++),
		.source = *subquery,
	};
	add_table(alpha, &subquery->table);
}

/* ---------------------------------------------------------------- streams */

/* variant NULL: a query without WHERE */
static void
add_variant(AlphaStream *stream, const AlphaVariant *variant)
{
	AlphaCompiler *alpha = stream->alpha;
	SyncArena  *arena = alpha->compiler->arena;
	SyncPlan   *plan = alpha->compiler->plan;
	PlanSource *source;
	PlanBucket *bucket;
	const AlphaNode **leaves;

	plan->sources = make_room(arena, plan->sources, sizeof(*plan->sources), plan->source_count,
							  &alpha->source_capacity);
	plan->buckets = make_room(arena, plan->buckets, sizeof(*plan->buckets), plan->bucket_count,
							  &alpha->bucket_capacity);
	source = &plan->sources[plan->source_count];
	*source = stream->source;
	if (variant != NULL)
	{
		leaves = alpha_leaves(variant, alpha->compiler->scratch);
		source->match = alpha_match(leaves, variant->leaf_count, source, arena);
		for (int i = 0; i < variant->leaf_count; i++)
		{
			if (leaves[i]->subquery != NULL)
				add_index(stream, leaves[i]->subquery);
		}
	}
	bucket = &plan->buckets[plan->bucket_count++];
	*bucket = (PlanBucket) {
		.stem = numbered(arena, stream->config->name, "|", stream->variant_count++),
		.source_count = 1,
		.sources = arena_new(arena, int),
	};
	bucket->sources[0] = plan->source_count++;
}

/* bytes of SQL of the items, which every variant has */
static uint64_t
items_size(const SqlSelect *select)
{
	uint64_t	size = 0;

	for (int i = 0; i < select->item_count; i++)
		size += select->items[i].expr->end - select->items[i].expr->offset;
	return size;
}

static bool
check_size(AlphaCompiler *alpha, QueryCompiler *query, const SqlSelect *select,
		   const AlphaNode *where)
{
	uint64_t	variants = where != NULL ? where->variants : 1;
	uint64_t	expanded = where != NULL ? where->expanded : 0;

	if (variants > ALPHA_MAX_VARIANTS)
	{
		compile_fail(query, SYNC_ERROR_LIMIT, where->offset, "the condition has more than %d "
					 "alternatives when each OR under AND is multiplied out", ALPHA_MAX_VARIANTS);
		report_hint(alpha->compiler->report, "Use fewer OR, or several streams.  An OR of "
					"conditions on columns alone makes no alternatives.");
		return false;
	}
	/* none of these can overflow: variants is small, and sizes are those of a text */
	alpha->expanded += expanded + variants * items_size(select);
	if (alpha->expanded <= ALPHA_MAX_EXPANDED)
		return true;
	compile_fail(query, SYNC_ERROR_LIMIT, where != NULL ? where->offset : 0,
				 "the conditions of the streams are longer than %d bytes when each OR under AND "
				 "is multiplied out", ALPHA_MAX_EXPANDED);
	return false;
}

static void
check_auto_subscribe(AlphaStream *stream, QueryCompiler *query)
{
	if (!stream->config->auto_subscribe || !query->uses_subscription)
		return;
	compile_warn(query, 0, "the stream is subscribed to by default, but uses parameters of "
				 "subscriptions");
	report_hint(query->compiler->report,
				"These are NULL in default subscriptions.  Remove \"auto_subscribe\".");
}

static bool
compile_query(AlphaStream *stream, QueryCompiler *query, const SqlSelect *select,
			  const AlphaNode **where)
{
	PlanSource *source = &stream->source;
	bool		ok = true;

	if (!compile_table(query, select, &source->table))
		return false;
	source->rules = SOURCE_ALPHA;
	source->output_table = compile_output_table(&select->sources[0]);
	source->suffix_column = true;
	if (compile_row_items(query, select, source))
		compile_check_id(query, select, source);
	else
		ok = false;
	if (select->where != NULL)
	{
		*where = alpha_where(query, select->where);
		ok &= *where != NULL;
	}
	return ok;
}

static void
compile_stream(AlphaCompiler *alpha, const ConfigStream *config)
{
	AlphaStream stream = {.alpha = alpha, .config = config};
	const AlphaNode *where = NULL;
	const AlphaVariant **variants;
	const SqlSelect *select;
	QueryCompiler query;

	compile_query_init(&query, alpha->compiler, QUERY_STREAM);
	select = compile_select(&query, &config->queries.items[0]);
	if (select == NULL || !compile_query(&stream, &query, select, &where) ||
		!check_size(alpha, &query, select, where))
		return;
	check_auto_subscribe(&stream, &query);
	add_table(alpha, &stream.source.table);
	if (where == NULL)
	{
		add_variant(&stream, NULL);
		return;
	}
	variants = alpha_variants(where, alpha->compiler->scratch);
	for (uint64_t i = 0; i < where->variants; i++)
		add_variant(&stream, variants[i]);
}

void
compile_alpha_streams(Compiler *compiler)
{
	const SyncConfig *config = compiler->config;
	AlphaCompiler alpha = {.compiler = compiler};

	for (int i = 0; i < config->stream_count && !report_is_full(compiler->report); i++)
	{
		if (config->streams[i].queries.count != 1)
			continue;
		compile_begin(compiler, &config->streams[i].queries.items[0]);
		compile_stream(&alpha, &config->streams[i]);
	}
}
