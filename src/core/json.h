/*-------------------------------------------------------------------------
 *
 * json.h
 *	  JSON text: written as the service writes it, read as the service reads it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGSYNC_JSON_H
#define PGSYNC_JSON_H

#include "core.h"

/* ---------------------------------------------------------------- writing */

/*
 * A text in quotes: sync-rules.md 8.2, storage-contract.md 3.2.  Lone
 * surrogates become \udxxx, so the result is always well-formed UTF-8.
 */
extern void json_append_text(SyncBuffer *buffer, const char *s, size_t len);

/*
 * A value as it stands in op data (8.2): undefined counts as NULL.  Blobs are
 * the caller's to leave out; SYNC_JSON is copied.
 */
extern void json_append_value(SyncBuffer *buffer, SyncValue value);

/*
 * A value as it stands in a bucket's name (9.2): no ".0", null for what is not
 * finite, also inside SYNC_JSON.
 */
extern void json_append_bucket_parameter(SyncBuffer *buffer, SyncValue value);

/* the whole array of a bucket's name, brackets included */
extern void json_append_bucket_parameters(SyncBuffer *buffer, const SyncValue *values, int count);

/* ---------------------------------------------------------------- reading */

/* arrays and objects inside one another; deeper ones are SYNC_ERROR_LIMIT */
#define JSON_MAX_DEPTH	1000

typedef enum JsonNumbers
{
	JSON_NUMBERS_EXACT,			/* 6.2: integers of any size are INTEGER, others REAL; a
								 * repeated key with another value is an error */
	JSON_NUMBERS_PLAIN,			/* 3.3, 7.3.1: every number is REAL; the last of a repeated
								 * key counts */
	JSON_NUMBERS_WRITTEN		/* to read SYNC_JSON back: every number is REAL, and NaN and
								 * Infinity are numbers */
} JsonNumbers;

typedef enum JsonKind
{
	JSON_NULL,
	JSON_FALSE,
	JSON_TRUE,
	JSON_NUMBER,				/* value: INTEGER, BIGINT or REAL */
	JSON_STRING,				/* value: TEXT */
	JSON_ARRAY,
	JSON_OBJECT
} JsonKind;

/*
 * An element.  The members of an object are in JavaScript's order (6.2), each
 * key once.
 */
typedef struct JsonNode JsonNode;
struct JsonNode
{
	JsonKind	kind;
	uint32_t	count;			/* elements or members */
	SyncValue	value;			/* JSON_NUMBER, JSON_STRING */
	SyncString	key;			/* if it is an object's member */
	const JsonNode *first;		/* first element or member */
	const JsonNode *next;		/* next one of the same array or object */
};

/*
 * Reads a document.  NULL with *error SYNC_ERROR_VALUE (not JSON) or
 * SYNC_ERROR_LIMIT (too deep).  Texts may share the bytes of text, which must
 * be WTF-8.
 */
extern const JsonNode *json_parse(SyncString text, JsonNumbers numbers, SyncArena *arena,
								  SyncError *error);

/* the same with the nodes in an arena of their own, which is given back before their values */
extern const JsonNode *json_parse_apart(SyncString text, JsonNumbers numbers, SyncArena *arena,
										SyncArena *nodes, SyncError *error);

/*
 * A large document as far as its containers of that depth (the root's is 0), which are
 * checked, but not kept: such a node has no elements, and its text, a SYNC_JSON, as
 * value.  All is in nodes; scratch is reset for each of them.
 */
extern const JsonNode *json_parse_outline(SyncString text, JsonNumbers numbers, int depth,
										  SyncArena *nodes, SyncArena *scratch, SyncError *error);

/* the member of an object; NULL = none, or not an object */
extern const JsonNode *json_member(const JsonNode *object, SyncString key);

/*
 * An element as a value (6.2): JSON null is NULL, true and false are 1 and 0,
 * objects and arrays their compact text as TEXT.
 */
extern SyncValue json_node_value(const JsonNode *node, SyncArena *arena);

/*
 * An element raw, as legacy "param IN row" takes it (3.3): like
 * json_node_value(), but true, false, objects and arrays are SYNC_JSON.
 */
extern SyncValue json_node_raw_value(const JsonNode *node, SyncArena *arena);

/* compact text: 6.2 */
extern void json_append_node(SyncBuffer *buffer, const JsonNode *node);

/* ---------------------------------------------------------------- paths */

typedef enum JsonOperator
{
	JSON_GET,					/* -> */
	JSON_GET_TEXT,				/* ->> */
	JSON_EXTRACT				/* json_extract(): like ->>, but path must begin with $ */
} JsonOperator;

/*
 * 6.3: document -> path, document ->> path, json_extract(document, path).
 * fixed is the option fixed_json_extract.  NULL document or path: NULL.  The
 * result is SYNC_UNDEFINED where the service gets a built-in method: as an item
 * it is omitted.
 */
extern bool json_get(JsonOperator op, bool fixed, SyncValue document, SyncValue path,
					 SyncArena *arena, SyncValue *result, SyncError *error);

/* json_array_length(document[, path]); path NULL pointer = not given */
extern bool json_count_elements(bool fixed, SyncValue document, const SyncValue *path,
							  SyncArena *arena, SyncValue *result, SyncError *error);

/* json_keys(document) */
extern bool json_keys(SyncValue document, SyncArena *arena, SyncValue *result, SyncError *error);

/* json_valid(value): 1 or 0 */
extern SyncValue json_valid(SyncValue value, SyncArena *arena);

#endif							/* PGSYNC_JSON_H */
