/*-------------------------------------------------------------------------
 *
 * convert.c
 *	  How fast rows become values, and JSON, in the server: a module that only
 *	  test/bench loads.  It holds its own copy of the conversion (src/pg/rowvalue.c
 *	  and what belongs to it), as it is in the worker.
 *
 *	  bench_convert(table, rows, repetitions, custom_types, column)
 *	    -> rows a second of processor time, of the best repetition
 *
 * Tuples are read into memory before the clock starts.  column: only this one; "":
 * all, with the JSON object of the row; "*": all, without it; "-": none, the tuple is
 * taken apart only.
 *
 *-------------------------------------------------------------------------
 */
#include "value.h"

#include <time.h>

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "executor/tuptable.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "core/json.h"

PG_MODULE_MAGIC;

/* the guard of foreign code asks for it */
Worker	   *MyWorker = NULL;

typedef struct Bench
{
	TupleDesc	desc;
	RowConversion *conversion;
	HeapTuple  *tuples;
	int			count;
	bool		convert;
	bool		json;
	Datum	   *datums;
	bool	   *nulls;
	SyncValue  *values;
	uint64		bytes;			/* of JSON, so that nothing is left out */
} Bench;

static double
cpu_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double) t.tv_sec + (double) t.tv_nsec / 1e9;
}

static void
read_tuples(Bench *bench, Relation relation, int most)
{
	TableScanDesc scan = table_beginscan(relation, GetActiveSnapshot(), 0, NULL);
	HeapTuple	tuple;

	bench->tuples = palloc(sizeof(HeapTuple) * most);
	while (bench->count < most && (tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
		bench->tuples[bench->count++] = heap_copytuple(tuple);
	table_endscan(scan);
}

static void
append_row(Bench *bench, SyncArena *arena)
{
	SyncBuffer	buffer;

	buffer_init(&buffer, arena, 512);
	for (int i = 0; i < bench->conversion->count; i++)
	{
		const char *name = bench->conversion->columns[i].name;

		if (bench->values[i].type == SYNC_BLOB)
			continue;
		buffer_append_char(&buffer, i == 0 ? '{' : ',');
		json_append_text(&buffer, name, strlen(name));
		buffer_append_char(&buffer, ':');
		json_append_value(&buffer, bench->values[i]);
	}
	buffer_append_char(&buffer, '}');
	bench->bytes += buffer.len;
}

/* As the worker does: a context and an arena, reset after each row. */
static double
run(Bench *bench)
{
	SyncArena  *arena = arena_create(0);
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "bench row",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	double		start = cpu_seconds();
	bool		out_of_line;

	for (int i = 0; i < bench->count; i++)
	{
		heap_deform_tuple(bench->tuples[i], bench->desc, bench->datums, bench->nulls);
		if (!bench->convert)
			continue;
		if (row_convert(bench->conversion, bench->datums, bench->nulls, NULL, NULL,
						(Size) 15 * 1024 * 1024, false, arena, bench->values,
						&out_of_line) != ROW_COMPLETE)
			elog(ERROR, "a row is not converted: %s", bench->conversion->failure);
		if (bench->json)
			append_row(bench, arena);
		MemoryContextReset(context);
		arena_reset(arena);
		CHECK_FOR_INTERRUPTS();
	}
	start = cpu_seconds() - start;
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	arena_destroy(arena);
	return start;
}

/* Leaves only the column of this name in the conversion. */
static void
select_column(Bench *bench, const char *name)
{
	for (int i = 0; i < bench->conversion->count; i++)
		if (strcmp(bench->conversion->columns[i].name, name) == 0)
		{
			bench->conversion->columns += i;
			bench->conversion->count = 1;
			return;
		}
	elog(ERROR, "there is no column \"%s\"", name);
}

PG_FUNCTION_INFO_V1(bench_convert);

Datum
bench_convert(PG_FUNCTION_ARGS)
{
	Relation	relation = table_open(PG_GETARG_OID(0), AccessShareLock);
	int			repetitions = PG_GETARG_INT32(2);
	SyncCompatibility compatibility = {.edition = 2,.timestamps_iso8601 = true,
		.custom_postgres_types = PG_GETARG_BOOL(3),.timestamp_precision = -1};
	const char *column = text_to_cstring(PG_GETARG_TEXT_PP(4));
	int			settings = row_conversion_settings_begin();
	Bench		bench = {.desc = RelationGetDescr(relation)};
	double		best = 0;

	bench.conversion = row_conversion_create(bench.desc, relation->rd_rel->relowner, &compatibility);
	bench.datums = palloc(sizeof(Datum) * bench.desc->natts);
	bench.nulls = palloc(sizeof(bool) * bench.desc->natts);
	bench.values = palloc0(sizeof(SyncValue) * bench.desc->natts);
	bench.convert = strcmp(column, "-") != 0;
	bench.json = column[0] == '\0';
	if (bench.convert && !bench.json && strcmp(column, "*") != 0)
		select_column(&bench, column);
	read_tuples(&bench, relation, PG_GETARG_INT32(1));
	for (int i = 0; i < repetitions; i++)
	{
		double		seconds = run(&bench);

		if (best == 0 || seconds < best)
			best = seconds;
	}
	row_conversion_settings_end(settings);
	table_close(relation, AccessShareLock);
	PG_RETURN_FLOAT8(bench.count / best);
}
