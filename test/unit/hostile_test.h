/*-------------------------------------------------------------------------
 *
 * hostile_test.h
 *	  Texts made of many pieces, and what is measured: for tests of rules and
 *	  rows that are made to be expensive.
 *
 * The bounds of time asserted are generous (the machine may be slow, a sanitizer
 * may be there): what they find is the wrong power of n.
 *
 *-------------------------------------------------------------------------
 */
#ifndef HOSTILE_TEST_H
#define HOSTILE_TEST_H

#include <stdio.h>
#include <sys/resource.h>

#include "rules_test.h"

#define CPU_SECONDS	15.0

static inline double
cpu(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (double) usage.ru_utime.tv_sec + (double) usage.ru_utime.tv_usec / 1e6 +
		(double) usage.ru_stime.tv_sec + (double) usage.ru_stime.tv_usec / 1e6;
}

static inline void
put(SyncBuffer *buffer, const char *s)
{
	buffer_append(buffer, s, strlen(s));
}

static inline void
put_times(SyncBuffer *buffer, const char *s, int times)
{
	for (int i = 0; i < times; i++)
		put(buffer, s);
}

static inline void
put_number(SyncBuffer *buffer, const char *before, int i, const char *behind)
{
	put(buffer, before);
	buffer_append_int(buffer, i);
	put(buffer, behind);
}

static const SyncColumn columns[] = {
	{{"id", 2}}, {{"a", 1}}, {{"b", 1}}, {{"j", 1}}, {{"k", 1}}, {{"l", 1}},
};

#define COLUMNS ((int) (sizeof(columns) / sizeof(columns[0])))

static inline const TableBinding *
bind(const SyncPlan *plan, SyncArena *arena)
{
	const SyncRowType type = {.column_count = COLUMNS, .columns = columns};
	BucketNaming naming = {.prefix = {"1#", 2}};
	SyncError	error;
	const TableBinding *binding = plan_bind(plan, "public", "t", &type, &naming, arena, &error);

	if (binding == NULL && error.code != SYNC_OK)
		printf("    binding: %s\n", error.message);
	return binding;
}

#endif							/* HOSTILE_TEST_H */
