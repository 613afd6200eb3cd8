/*-------------------------------------------------------------------------
 *
 * vectors.h
 *	  What the conformance programs share: vector files, cases, values.
 *
 * A program's main() calls vectors_main() with a function that runs one file.
 * That function opens a case, makes checks, closes it; a case fails when one
 * of its checks does.  All memory is in the arena given, which is emptied
 * after each file.
 *
 * Vector files are read with the product's own reader, since no other one in C
 * keeps lone surrogates and integers of any size; test_core_json.c holds that
 * reader against bytes written down there.
 *
 *-------------------------------------------------------------------------
 */
#ifndef VECTORS_H
#define VECTORS_H

#include "core.h"
#include "json.h"

typedef void (*VectorFile) (const char *name, const JsonNode *root, SyncArena *arena);

/* runs all files; returns the exit status */
extern int	vectors_main(int argc, char **argv, VectorFile run);

/* ---- cases: do not nest */

extern void case_begin(const char *format,...) sync_printf_like(1, 2);
extern void case_end(void);

/* fails the open case, saying why */
extern void case_fail(const char *format,...) sync_printf_like(1, 2);
extern bool check_true(const char *what, bool holds);
extern bool check_int(const char *what, int64_t got, int64_t expected);
extern bool check_text(const char *what, SyncString got, SyncString expected);
extern bool check_bytes(const char *what, SyncString got, SyncString expected);	/* shown in hex */

/* ---- reading vectors; a missing member is a failure of the open case */

extern const JsonNode *member(const JsonNode *object, const char *key);	/* NULL = none */
extern const JsonNode *need(const JsonNode *object, const char *key);	/* never NULL */
extern const JsonNode *element(const JsonNode *array, uint32_t i);	/* NULL = none */
extern bool has(const JsonNode *object, const char *key);
extern bool is_null(const JsonNode *node);	/* also when node is NULL */

extern SyncString as_text(const JsonNode *node);	/* "" unless a string */
extern int64_t as_int(const JsonNode *node);	/* number, decimal text, or Extended JSON number */
extern SyncString from_hex(SyncString hex, SyncArena *arena);
extern SyncString from_base64(SyncString base64, SyncArena *arena);
extern SyncString literal(const char *s);

/* README.md of the vectors: null, {"int":"5"}, {"real":"1.5"}, {"text":...}, ... */
extern SyncValue tagged_value(const JsonNode *node, SyncArena *arena);

#endif							/* VECTORS_H */
