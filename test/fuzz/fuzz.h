/*-------------------------------------------------------------------------
 *
 * fuzz.h
 *	  What the fuzz programs of the pure part share.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGSYNC_FUZZ_H
#define PGSYNC_FUZZ_H

#include "core.h"
#include "rules.h"

/* enough for every text that a fuzzer makes; more is a finding */
#define FUZZ_MEMORY ((size_t) 256 * 1024 * 1024)

extern int	LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- check.c */

/* prints what does not hold and aborts */
extern void fuzz_check(bool holds, const char *what);
extern void fuzz_check_same(SyncString a, SyncString b, const char *what);

/* an arena that exists: with a budget that is too small for the arena itself there is none */
extern SyncArena *fuzz_arena(size_t budget);

extern uint64_t fuzz_hash(const uint8_t *data, size_t size);

/* a message as it may be shown and stored: has a code and a text, is UTF-8 */
extern void fuzz_check_error(const SyncError *error);

/*
 * One well-formed JSON value in well-formed UTF-8, read by other code than the
 * product's.  NaN, Infinity and -Infinity count as numbers.
 */
extern void fuzz_check_json(SyncString json, const char *what);

/* ---- rows.c */

/* where values come from: the bytes of the input, then numbers made from their hash */
typedef struct FuzzSource
{
	const uint8_t *next;
	const uint8_t *end;
	uint64_t	state;
} FuzzSource;

extern FuzzSource fuzz_source(const uint8_t *data, size_t size);
extern uint32_t fuzz_byte(FuzzSource *source);
extern SyncValue fuzz_value(FuzzSource *source, SyncArena *arena);

/*
 * Binds every table of the plan with the columns that the plan names, and
 * evaluates rows: see rows.c for what must hold.
 */
extern void fuzz_rows(const SyncPlan *plan, FuzzSource *source, int rows);

#endif							/* PGSYNC_FUZZ_H */
