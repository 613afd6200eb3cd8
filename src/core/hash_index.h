/*-------------------------------------------------------------------------
 *
 * hash_index.h
 *	  Finds positions of an array by a hash of what stands there.
 *
 * Does not know what that is: whoever looks compares.  Usage:
 *
 *		for (int i = hash_index_first(&index, hash); i >= 0; i = hash_index_next(&index, i))
 *			if (array[i] is it) ...
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGSYNC_HASH_INDEX_H
#define PGSYNC_HASH_INDEX_H

#include "core.h"

/* zeroed: empty */
typedef struct HashIndex
{
	int			count;			/* positions 0 to count - 1 are in it */
	int			capacity;		/* a power of two */
	int		   *heads;			/* by hash: the newest position + 1, or 0 */
	int		   *next;			/* by position: the one before with the same head, + 1 */
	uint32_t   *hashes;			/* by position */
} HashIndex;

/* adds the next position */
extern void hash_index_add(HashIndex *index, uint32_t hash, SyncArena *arena);

/* the newest position whose hash it may be, or -1 */
static inline int
hash_index_first(const HashIndex *index, uint32_t hash)
{
	return index->capacity == 0 ? -1 : index->heads[hash & ((uint32_t) index->capacity - 1)] - 1;
}

static inline int
hash_index_next(const HashIndex *index, int position)
{
	return index->next[position] - 1;
}

/*
 * Names, each with the position of the first that has it in an array of the
 * caller's.  Finding one takes no longer for names that are repeated.
 */
typedef struct NameIndex
{
	HashIndex	hashes;
	SyncString *names;
	int		   *positions;
} NameIndex;

/* the name's position, or -1 */
extern int	name_index_find(const NameIndex *index, SyncString name);

/* a name that is not in it yet, which must stay where it is */
extern void name_index_add(NameIndex *index, SyncString name, int position, SyncArena *arena);

/* hash of a text that goes on from another's; the first begins with 0 */
extern uint32_t hash_text(uint32_t hash, SyncString text);

#endif							/* PGSYNC_HASH_INDEX_H */
