/*-------------------------------------------------------------------------
 *
 * yaml_node.h
 *	  A YAML document as a tree of nodes that know where they were written.
 *
 * Only what sync-rules.md section 1 allows: one document, YAML 1.2 core
 * schema, unique map keys.  Aliases are kept as nodes of their own kind, so
 * that they are refused wherever a value is wanted.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGSYNC_YAML_NODE_H
#define PGSYNC_YAML_NODE_H

#include "core.h"

/* limits of a document; beyond them reading fails with SYNC_ERROR_LIMIT */
#define SYNC_YAML_MAX_BYTES		1000000
#define SYNC_YAML_MAX_DEPTH		64
#define SYNC_YAML_MAX_NODES		100000
#define SYNC_YAML_MAX_DIRECTIVES 100

typedef enum YamlKind
{
	YAML_KIND_NULL,
	YAML_KIND_BOOL,
	YAML_KIND_NUMBER,
	YAML_KIND_TEXT,
	YAML_KIND_OPAQUE,			/* has a tag that the core schema does not know */
	YAML_KIND_ALIAS,
	YAML_KIND_SEQUENCE,
	YAML_KIND_MAP
} YamlKind;

typedef struct YamlNode YamlNode;

typedef struct YamlEntry
{
	YamlNode   *key;			/* always a scalar; may be of any scalar kind */
	YamlNode   *value;
} YamlEntry;

struct YamlNode
{
	YamlKind	kind;
	int			line;			/* where it starts; both count from 1 */
	int			column;			/* in characters */
	SyncString	text;			/* scalars: the text, also when it is a number */
	bool		boolean;		/* BOOL */
	bool		is_integer;		/* NUMBER: it is integral and fits int64 (1.0 is) */
	int64_t		integer;		/* NUMBER with is_integer */
	int			count;			/* SEQUENCE, MAP */
	union
	{
		YamlNode  **items;		/* SEQUENCE */
		YamlEntry  *entries;	/* MAP, in document order */
	};
};

/*
 * Reads one document.  The tree lives in arena and points nowhere into text.
 * NULL and *error when the text is not one well-formed document or breaks a
 * limit.  Jumps to the arena's guard when memory runs out.
 */
extern YamlNode *yaml_read(const char *text, size_t len, SyncArena *arena, SyncError *error);

/* the value of a map's key, or NULL; keys that are not text never match */
extern YamlNode *yaml_get(const YamlNode *map, const char *key);

extern bool yaml_is_scalar(const YamlNode *node);

/* "a map", "a text", ... for messages */
extern const char *yaml_kind_name(const YamlNode *node);

/*
 * Where the byte `offset` of a scalar's text was written.  The text differs
 * from what stands in the document (quotes, escapes, folding), so both are
 * walked side by side.
 */
extern void yaml_position(const char *text, size_t len, const YamlNode *scalar, size_t offset,
						  int *line, int *column);

#endif							/* PGSYNC_YAML_NODE_H */
