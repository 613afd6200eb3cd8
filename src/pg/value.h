/*-------------------------------------------------------------------------
 *
 * value.h
 *	  How a Datum becomes a value of the rules language: what the files of
 *	  that part share.  Everybody else uses rowvalue.c, by worker.h.
 *
 *	  value_type.c    a type  -> how it is converted
 *	  value_direct.c  a Datum -> a value, from its internal form
 *	  value_output.c  a Datum -> its text, by output functions; whose code runs how
 *	  type_shape.c    what else the text of a type's values follows from
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGSYNC_VALUE_H
#define PGSYNC_VALUE_H

#include "worker.h"

#include "core/printed.h"

#include "lib/stringinfo.h"

/* ColumnConversion.kind */
#define CONVERT_BOOL		'b'
#define CONVERT_INT2		'2'
#define CONVERT_INT4		'4'
#define CONVERT_INT8		'8'
#define CONVERT_OID			'o'
#define CONVERT_FLOAT4		'f'
#define CONVERT_FLOAT8		'd'
#define CONVERT_TEXT		't'
#define CONVERT_JSONB		'j'
#define CONVERT_UUID		'u'
#define CONVERT_TIMESTAMP	'T'
#define CONVERT_TIMESTAMPTZ	'Z'
#define CONVERT_DATE		'D'
#define CONVERT_TIME		'M'
#define CONVERT_BYTEA		'y'
#define CONVERT_LSN			'L'
#define CONVERT_ARRAY		'a'
#define CONVERT_OUTPUT		'x'

/* ---------------------------------------------------------------- value_type.c */

extern void column_conversion_init(ColumnConversion *column, Oid type, int32 typmod,
								   bool custom_types);

/* ---------------------------------------------------------------- value_direct.c */

extern SyncValue datum_value(const RowConversion *conversion, const ColumnConversion *column,
							 Datum datum, SyncArena *scratch);
/*
 * Bytes that the text takes at least of what takes far fewer in the value: nulls in
 * arrays, the zeros of numerics.  Only of columns that expand.
 */
extern Size datum_expansion(const ColumnConversion *column, Datum datum);

/* what stands for it in keys, if its column is inexact: see row_key_values() */
extern SyncValue datum_key_value(const RowConversion *conversion, const ColumnConversion *column,
								 Datum datum, SyncValue value);

/* ---------------------------------------------------------------- value_output.c */

/*
 * CONVERT_OUTPUT; a guarded column's is called by run_guarded() only.  Where another
 * fails, the value is undefined, and the reason in conversion->failure.
 */
extern SyncValue output_value(const RowConversion *conversion, const ColumnConversion *column,
							  Datum datum, SyncArena *scratch);

/* keeps a copy, cut where text ends */
extern void set_failure(const RowConversion *conversion, const char *message);

typedef void (*GuardedWork) (void *arg);

/*
 * Does the work so that it can fail: false, with the reason in
 * conversion->failure, and whatever it began is undone.  foreign: it calls code
 * that is not built in, which runs with the rights of the table's owner only.
 */
extern bool run_guarded(const RowConversion *conversion, bool foreign, GuardedWork work,
						void *arg);

/* ---------------------------------------------------------------- type_shape.c */

typedef struct TypeShape
{
	bool		names;			/* attributes' names show */
	List	   *types;			/* each once for a table */
} TypeShape;

/* appends lines; those of a type that is new to a table end in " -" */
extern void append_type_shape(StringInfo shape, TypeShape *state, Oid type);
/* a name as it stands in a line */
extern char *shape_name(const char *name);
/* the invalidated relation is a composite type's, and some line is made of it */
extern bool type_shape_depends_on(Oid relid);

#endif							/* PGSYNC_VALUE_H */
