/*-------------------------------------------------------------------------
 *
 * yaml_text.h
 *	  Where the service's YAML parser and libyaml disagree about a text.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGSYNC_YAML_TEXT_H
#define PGSYNC_YAML_TEXT_H

#include "core.h"

/* ---------------------------------------------------------------- lines */

typedef struct YamlLine
{
	uint32_t	spaces;			/* at its start; tabs do not count */
	uint32_t	column;			/* of the first character that is not blank, from 0 */
	char		first;			/* that character; '\0': the line is blank */
} YamlLine;

typedef struct YamlLines
{
	YamlLine   *lines;
	size_t		count;
} YamlLines;

extern YamlLines yaml_lines(const char *text, size_t len, SyncArena *arena);

/* ---------------------------------------------------------------- surrogates */

/*
 * A copy of the text, as long as it is, whose escaped halves of surrogate pairs
 * are private characters that libyaml takes; or the text itself.
 */
extern const char *yaml_hide_surrogates(const char *text, size_t len, SyncArena *arena);

/* what a scalar of such a copy means: a pair is one character, a lone half none (NULL) */
extern SyncString yaml_show_surrogates(SyncString scalar, bool double_quoted, SyncArena *arena);

/* ---------------------------------------------------------------- breaks */

/* bytes of the line break at `at`, as libyaml sees them; 0: there is none */
extern size_t yaml_break_size(const char *at, size_t left);

#endif							/* PGSYNC_YAML_TEXT_H */
