/*-------------------------------------------------------------------------
 *
 * value.h
 *	  What can be done with one or two values: sync-rules.md, section 5.
 *
 * Functions that can fail return false and set *error (SYNC_ERROR_VALUE or
 * SYNC_ERROR_LIMIT); error may be NULL.  An undefined value acts as NULL.
 * A SYNC_JSON value exists only in legacy lookup keys: none of these takes it
 * unless it says so.
 *
 * Results may share the bytes of the arguments.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGSYNC_VALUE_H
#define PGSYNC_VALUE_H

#include "core.h"

static inline SyncValue
value_boolean(bool b)
{
	return value_integer(b ? 1 : 0);
}

static inline SyncValue
value_string(SyncString s)
{
	return value_text(s.data, s.len);
}

/* 5.2: text of a value; the empty text for NULL */
extern SyncString value_to_text(SyncValue value, SyncArena *arena);

/* 5.3 */
extern bool value_is_true(SyncValue value);

/*
 * 5.4: *order becomes -1, 0 or 1.  NULL < number < text < blob; NULL equals
 * NULL here (as IS wants it: the comparison operators test for NULL before
 * they call).  NaN gives -1 on either side.  Fails on blob with blob.
 */
extern bool value_compare(SyncValue a, SyncValue b, int *order, SyncError *error);

typedef enum ValueComparison
{
	VALUE_EQ,
	VALUE_NE,
	VALUE_LT,
	VALUE_LE,
	VALUE_GT,
	VALUE_GE
} ValueComparison;

/* 5.4: the operators: NULL, 0 or 1 */
extern bool value_compare_operator(ValueComparison op, SyncValue a, SyncValue b,
								   SyncValue *result, SyncError *error);

/* 5.4, IS: 0 or 1 */
extern bool value_is(SyncValue a, SyncValue b, SyncValue *result, SyncError *error);

/* 5.5: op is '+', '-', '*' or '/' */
extern bool value_arithmetic(char op, SyncValue a, SyncValue b, SyncArena *arena,
							 SyncValue *result, SyncError *error);

/* 5.5, ||: NULL if either is NULL */
extern SyncValue value_concat(SyncValue a, SyncValue b, SyncArena *arena);

typedef enum ValueCast
{
	VALUE_CAST_TEXT,
	VALUE_CAST_NUMERIC,
	VALUE_CAST_INTEGER,
	VALUE_CAST_REAL,
	VALUE_CAST_BLOB
} ValueCast;

/* 5.7 */
extern bool value_cast(ValueCast target, SyncValue value, SyncArena *arena,
					   SyncValue *result, SyncError *error);

/* 9.3: an integral REAL becomes INTEGER; all else, SYNC_JSON too, stays */
extern SyncValue value_normalize_lookup(SyncValue value, SyncArena *arena);

/*
 * The same type and the same value, bit for bit, except that -0 is 0 and NaN is
 * NaN: JavaScript's Map key.  INTEGER 1 is not REAL 1.0 (7.3).
 */
extern bool value_identical(SyncValue a, SyncValue b);

/*
 * JavaScript's a == b between two match values of 3.3: 5, 5.0 and '5' are
 * equal.  Takes SYNC_JSON: true equals 1; arrays and objects equal nothing.
 */
extern bool value_loosely_equal(SyncValue a, SyncValue b);

#endif							/* PGSYNC_VALUE_H */
