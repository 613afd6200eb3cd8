/*-------------------------------------------------------------------------
 *
 * buffer.c
 *	  A growing text in an arena.
 *
 * Does not free what it outgrew, and adds no NUL.
 *
 * Invariant: len <= capacity <= UINT32_MAX, so that every content is a valid
 * SyncString; more than that counts as out of memory.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "core.h"

#define BUFFER_FIRST	64

void
buffer_init(SyncBuffer *buffer, SyncArena *arena, size_t capacity)
{
	if (capacity > UINT32_MAX)
		arena_fail(arena);
	buffer->arena = arena;
	buffer->len = 0;
	buffer->capacity = capacity;
	buffer->data = capacity > 0 ? arena_alloc(arena, capacity) : NULL;
}

/* what buffer_reserve() does when there is not room enough */
void
buffer_enlarge(SyncBuffer *buffer, size_t more)
{
	size_t		capacity;

	if (more > UINT32_MAX - buffer->len)
		arena_fail(buffer->arena);

	capacity = buffer->capacity * 2;
	if (capacity < buffer->len + more)
		capacity = buffer->len + more;
	if (capacity < BUFFER_FIRST)
		capacity = BUFFER_FIRST;
	if (capacity > UINT32_MAX)
		capacity = UINT32_MAX;
	buffer->data = arena_grow(buffer->arena, buffer->data, buffer->len, capacity);
	buffer->capacity = capacity;
}

void
buffer_append_int(SyncBuffer *buffer, int64_t value)
{
	uint64_t	rest = value < 0 ? 0 - (uint64_t) value : (uint64_t) value;
	char		digits[20];
	int			i = sizeof(digits);
	char	   *out;

	do
	{
		digits[--i] = (char) ('0' + rest % 10);
		rest /= 10;
	} while (rest > 0);
	if (value < 0)
		digits[--i] = '-';
	buffer_reserve(buffer, sizeof(digits));
	out = buffer->data + buffer->len;
	buffer->len += sizeof(digits) - (size_t) i;
	while (i < (int) sizeof(digits))
		*out++ = digits[i++];
}

SyncString
buffer_string(const SyncBuffer *buffer)
{
	return (SyncString) {buffer->data, (uint32_t) buffer->len};
}
