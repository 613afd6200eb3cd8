/*-------------------------------------------------------------------------
 *
 * identity.h
 *	  Names of rows: storage-contract.md, 3.4.  What the rest of the program
 *	  needs of it is in change.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGSYNC_IDENTITY_H
#define PGSYNC_IDENTITY_H

#include "change.h"

#define UUID_TEXT_LEN	36

/* UUID version 5 of a BSON document in the service's namespace */
extern void identity_of_document(SyncString document, SourceKey *key);

/*
 * What a row is called in messages: its identity columns, "id=7, name=x".  One line of
 * valid UTF-8, cut where text ends; empty without identity.
 */
#define ROW_NAME_SIZE	160
extern void row_name(const SyncRowType *type, const SyncValue *values, char *text, size_t size);

/* lower case with dashes; no NUL is added */
extern void uuid_format(const SourceKey *key, char text[UUID_TEXT_LEN]);

/* the identity columns of a row as a BSON document */
extern SyncString identity_document(const SyncRowType *type, const SyncValue *values,
									SyncArena *arena);

/*
 * Appends columns of a row as BSON fields (3.4, 4.3): positions[] says which
 * (NULL: the first count ones); undefined ones are left out.  Columns whose
 * names are array indexes come first, ascending, as JavaScript orders them.
 */
extern void row_append_columns(SyncBuffer *buffer, const SyncRowType *type,
							   const SyncValue *values, const int *positions, int count);

#endif							/* PGSYNC_IDENTITY_H */
