/*-------------------------------------------------------------------------
 *
 * text.h
 *	  UTF-8 as the rules language sees it.
 *
 * The language counts and orders text by UTF-16 code units and can cut a
 * surrogate pair in two.  Text is kept as UTF-8 in which a lone surrogate has
 * its three-byte form (WTF-8).  Two halves that meet again are one character:
 * whoever joins texts does it with text_append().
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGSYNC_TEXT_H
#define PGSYNC_TEXT_H

#include "core.h"

/*
 * Bytes of the well-formed UTF-8 character (no surrogate) that s begins with,
 * 0 if there is none.
 */
extern size_t utf8_sequence_length(const char *s, size_t len);

/* what a hexadecimal digit stands for, of either case; -1: it is none */
static inline int
hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* s is the beginning of a character that more bytes could complete */
extern bool utf8_is_unfinished(const char *s, size_t len);

extern bool utf8_is_valid(const char *s, size_t len);

/*
 * Code point at s, which must be WTF-8 (as every SYNC_TEXT is); *size receives
 * its bytes.  A byte that begins nothing counts as U+FFFD of size 1.
 */
extern uint32_t text_code_point(const char *s, size_t len, int *size);

/* appends one code point, surrogates included */
extern void text_append_code_point(SyncBuffer *buffer, uint32_t code_point);

/* appends WTF-8; a high surrogate at the end and a low one at the start become one character */
extern void text_append(SyncBuffer *buffer, const char *s, size_t len);

/* length in UTF-16 code units */
extern size_t text_utf16_length(const char *s, size_t len);

/* <0, 0, >0: order of UTF-16 code units */
extern int	text_compare(SyncString a, SyncString b);

/*
 * Bytes as text: invalid bytes become U+FFFD (one for each maximal beginning of
 * a character), a leading byte order mark is dropped (sync-rules.md, 5.2).
 */
extern SyncString text_from_bytes(const char *bytes, size_t len, SyncArena *arena);

/*
 * The text with U+FFFD for every lone surrogate: what the service's text turns
 * into when it becomes bytes (BSON, hash).  Returns the same bytes if there is
 * nothing to replace.  Row ids and output table names must have gone through
 * this before they are hashed or stored.
 */
extern SyncString text_well_formed(SyncString text, SyncArena *arena);

/* names are compared without regard to the case of A to Z in places */
extern SyncString text_ascii_lower(SyncString text, SyncArena *arena);
extern bool text_equal_but_for_case(SyncString a, SyncString b);

/*
 * Bytes of white space (JavaScript's: Unicode Zs, line ends, U+FEFF) that the
 * text begins with.
 */
extern size_t text_skip_space(const char *s, size_t len);

/*
 * The name is a canonical array index, "0" to "4294967294" without leading
 * zeros: such names come first in objects, ascending (sync-rules.md, 3.2).
 */
extern bool text_array_index(SyncString name, uint32_t *index);

#endif							/* PGSYNC_TEXT_H */
