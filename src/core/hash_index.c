/*-------------------------------------------------------------------------
 *
 * hash_index.c
 *	  Finds positions of an array by a hash of what stands there.
 *
 * For names that somebody wrote into rules: not for values of rows, which an
 * attacker could choose so that their hashes are the same.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "hash_index.h"

#define FIRST_CAPACITY	16

static void
link_position(HashIndex *index, int position)
{
	int		   *head = &index->heads[index->hashes[position] & ((uint32_t) index->capacity - 1)];

	index->next[position] = *head;
	*head = position + 1;
}

static void
enlarge(HashIndex *index, SyncArena *arena)
{
	size_t		old = (size_t) index->capacity;
	size_t		new = old == 0 ? FIRST_CAPACITY : old * 2;

	index->next = arena_grow(arena, index->next, sizeof(int) * old, sizeof(int) * new);
	index->hashes = arena_grow(arena, index->hashes, sizeof(uint32_t) * old, sizeof(uint32_t) * new);
	index->heads = arena_array(arena, int, new);
	index->capacity = (int) new;
	for (int i = 0; i < index->count; i++)
		link_position(index, i);
}

void
hash_index_add(HashIndex *index, uint32_t hash, SyncArena *arena)
{
	if (index->count == index->capacity)
		enlarge(index, arena);
	index->hashes[index->count] = hash;
	link_position(index, index->count++);
}

uint32_t
hash_text(uint32_t hash, SyncString text)
{
	for (uint32_t i = 0; i < text.len; i++)
		hash = (hash ^ (unsigned char) text.data[i]) * 16777619u;
	/* the high bits come from all bytes */
	return (hash ^ text.len) * 16777619u ^ hash >> 15;
}

/* ---------------------------------------------------------------- names */

int
name_index_find(const NameIndex *index, SyncString name)
{
	for (int i = hash_index_first(&index->hashes, hash_text(0, name)); i >= 0;
		 i = hash_index_next(&index->hashes, i))
	{
		if (sync_string_equal(index->names[i], name))
			return index->positions[i];
	}
	return -1;
}

void
name_index_add(NameIndex *index, SyncString name, int position, SyncArena *arena)
{
	int			count = index->hashes.count;

	index->names = arena_make_room(arena, index->names, sizeof(*index->names), count);
	index->positions = arena_make_room(arena, index->positions, sizeof(*index->positions), count);
	index->names[count] = name;
	index->positions[count] = position;
	hash_index_add(&index->hashes, hash_text(0, name), arena);
}
