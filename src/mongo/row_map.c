/*-------------------------------------------------------------------------
 *
 * row_map.c
 *	  Row state within one flush: what the storage had, and what the changes of
 *	  the flush made of it, in order.
 *
 * Changes are kept as a list of touches, so that a flush can be cut back to an
 * earlier commit.  Nothing here reads or writes the storage.
 *
 *-------------------------------------------------------------------------
 */
#include "mongo/writer_private.h"

#include <string.h>

#define FIRST_CAPACITY	256

void
row_map_init(RowMap *map, SyncArena *arena)
{
	memset(map, 0, sizeof(*map));
	map->arena = arena;
	map->capacity = FIRST_CAPACITY;
	map->entries = arena_array(arena, RowEntry *, map->capacity);
	map->slot_mask = 2 * map->capacity - 1;
	map->slots = arena_array(arena, uint32_t, map->slot_mask + 1);
}

/* keys are hashes (UUID v5) already, table ids are random: mix a little */
static size_t
slot_of(const RowMap *map, const RowId *id)
{
	uint64_t	a;
	uint64_t	b;

	memcpy(&a, id->bytes + SYNC_TABLE_LEN, sizeof(a));
	memcpy(&b, id->bytes + 4, sizeof(b));
	a = (a ^ b) * UINT64_C(0x9E3779B97F4A7C15);
	return (size_t) (a >> 32) & map->slot_mask;
}

RowEntry *
row_map_find(const RowMap *map, const RowId *id)
{
	for (size_t slot = slot_of(map, id); map->slots[slot] != 0; slot = (slot + 1) & map->slot_mask)
	{
		RowEntry   *entry = map->entries[map->slots[slot] - 1];

		if (memcmp(entry->id.bytes, id->bytes, ROW_ID_LEN) == 0)
			return entry;
	}
	return NULL;
}

static void
put_slot(RowMap *map, size_t position)
{
	size_t		slot = slot_of(map, &map->entries[position]->id);

	while (map->slots[slot] != 0)
		slot = (slot + 1) & map->slot_mask;
	map->slots[slot] = (uint32_t) position + 1;
}

static void
grow(RowMap *map)
{
	size_t		capacity = map->capacity * 2;
	RowEntry  **entries = arena_array(map->arena, RowEntry *, capacity);

	memcpy(entries, map->entries, map->count * sizeof(*entries));
	map->entries = entries;
	map->capacity = capacity;
	map->slot_mask = 2 * capacity - 1;
	map->slots = arena_array(map->arena, uint32_t, map->slot_mask + 1);
	for (size_t i = 0; i < map->count; i++)
		put_slot(map, i);
}

RowEntry *
row_map_add(RowMap *map, const RowId *id)
{
	RowEntry   *entry = row_map_find(map, id);

	if (entry != NULL)
		return entry;
	if (map->count == map->capacity)
		grow(map);
	entry = arena_new(map->arena, RowEntry);
	entry->id = *id;
	entry->latest = -1;
	map->entries[map->count] = entry;
	put_slot(map, map->count++);
	return entry;
}

RowState *
row_map_state(const RowMap *map, const RowEntry *entry, bool *exists)
{
	RowState   *state;

	if (entry->latest < 0)
	{
		*exists = entry->existed;
		return entry->stored;
	}
	state = map->touches[entry->latest].state;
	*exists = state != NULL;
	return state;
}

void
row_map_touch(RowMap *map, RowEntry *entry, RowState *state)
{
	map->touches = room_for_one(map->arena, map->touches, sizeof(*map->touches),
								map->touch_count, &map->touch_capacity, FIRST_CAPACITY);
	map->touches[map->touch_count] = (RowTouch) {entry, state, entry->latest};
	entry->latest = (int) map->touch_count++;
}

void
row_map_undo(RowMap *map, size_t touch_count)
{
	while (map->touch_count > touch_count)
	{
		RowTouch   *touch = &map->touches[--map->touch_count];

		touch->entry->latest = touch->previous;
	}
}
