/*-------------------------------------------------------------------------
 *
 * arena.c
 *	  Memory of the pure part: allocated piece by piece, given back as a whole.
 *
 * Does not free single values and does not move what it gave out.
 *
 * Invariant: used is the sum of what was taken from malloc, for the arena and its
 * children, and never exceeds the budget.  A block is cut down to what the budget still allows rather
 * than refused, so a budget is exact to a few bytes; tests walk through all
 * points of failure by raising the budget step by step.
 *
 * Under AddressSanitizer everything not given out is poisoned, so an overrun
 * inside a block is found as one outside would be.
 *
 *-------------------------------------------------------------------------
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"

#if defined(__SANITIZE_ADDRESS__)
#define ARENA_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ARENA_ASAN 1
#endif
#endif

#ifdef ARENA_ASAN
#include <sanitizer/asan_interface.h>
#define arena_poison(p, n) ASAN_POISON_MEMORY_REGION((p), (n))
#define arena_unpoison(p, n) ASAN_UNPOISON_MEMORY_REGION((p), (n))
#define ARENA_GAP	16			/* unusable bytes between two allocations */
#else
#define arena_poison(p, n) ((void) (p), (void) (n))
#define arena_unpoison(p, n) ((void) (p), (void) (n))
#define ARENA_GAP	0
#endif

#define ARENA_ALIGN			16
#define ARENA_FIRST_BLOCK	((size_t) 8 * 1024)
#define ARENA_LAST_BLOCK	((size_t) 1024 * 1024)	/* blocks double up to this size */
#define ARENA_POLL_EVERY	256		/* allocations */

typedef struct ArenaBlock
{
	struct ArenaBlock *next;
	size_t		size;			/* of the whole block, as taken from malloc */
	char	   *free;			/* first byte not given out */
	char	   *end;
} ArenaBlock;

#define ARENA_HEADER \
	((sizeof(ArenaBlock) + ARENA_ALIGN - 1) & ~(size_t) (ARENA_ALIGN - 1))

struct SyncArena
{
	SyncArena  *account;		/* whose the fields from used on count: itself, or its parent's */
	ArenaBlock *blocks;			/* the first is the one allocated from */
	char	   *last;			/* last allocation, if it is in the first block */
	size_t		used;
	size_t		peak;			/* the most that used was */
	size_t		budget;			/* 0 = none */
	size_t		limit;			/* of used, for the work in hand; 0 = none */
	bool		limit_reached;
	bool		(*cancel) (void);	/* whether the work in hand is to end; NULL: none asks */
	bool		cancelled;
	unsigned	asked;			/* allocations since the work began */
	size_t		next_size;		/* of the next block */
	ArenaGuard *guard;
	void		(*exhausted) (void);	/* called where there is no guard */
};

SyncArena *
arena_create(size_t budget)
{
	SyncArena  *arena = calloc(1, sizeof(SyncArena));

	if (arena == NULL)
		return NULL;
	arena->account = arena;
	arena->used = arena->peak = sizeof(SyncArena);
	arena->budget = budget;
	arena->next_size = ARENA_FIRST_BLOCK;
	return arena;
}

SyncArena *
arena_create_child(SyncArena *parent)
{
	SyncArena  *arena = calloc(1, sizeof(SyncArena));

	if (arena == NULL)
		arena_fail(parent);
	arena->account = parent->account;
	arena->cancel = parent->cancel;
	arena->next_size = ARENA_FIRST_BLOCK;
	return arena;
}

static void
arena_free_block(SyncArena *arena, ArenaBlock *block)
{
	arena_unpoison(block, block->size);
	arena->account->used -= block->size;
	free(block);
}

void
arena_destroy(SyncArena *arena)
{
	if (arena == NULL)
		return;
	while (arena->blocks != NULL)
	{
		ArenaBlock *block = arena->blocks;

		arena->blocks = block->next;
		arena_free_block(arena, block);
	}
	free(arena);
}

/*
 * The largest block of ordinary size is kept, so a loop that resets its arena
 * at every turn soon needs no malloc at all, and one outsized row does not
 * hold its memory for ever.
 */
void
arena_reset(SyncArena *arena)
{
	ArenaBlock *keep = NULL;
	ArenaBlock *block = arena->blocks;

	while (block != NULL)
	{
		ArenaBlock *next = block->next;
		ArenaBlock *drop = block;

		if (block->size <= ARENA_LAST_BLOCK && (keep == NULL || block->size > keep->size))
		{
			drop = keep;
			keep = block;
		}
		if (drop != NULL)
			arena_free_block(arena, drop);
		block = next;
	}

	arena->blocks = keep;
	arena->last = NULL;
	if (keep == NULL)
		arena->next_size = ARENA_FIRST_BLOCK;
	else
	{
		keep->next = NULL;
		keep->free = (char *) keep + ARENA_HEADER;
		arena_poison(keep->free, (size_t) (keep->end - keep->free));
	}
}

size_t
arena_used(const SyncArena *arena)
{
	return arena->used;
}

size_t
arena_peak(const SyncArena *arena)
{
	return arena->peak;
}

void
arena_limit(SyncArena *arena, size_t more)
{
	arena->limit = more == 0 || more > SIZE_MAX - arena->used ? 0 : arena->used + more;
	arena->limit_reached = false;
}

bool
arena_limit_reached(const SyncArena *arena)
{
	return arena->limit_reached;
}

/* what is done inside other work is not charged to it */
void
arena_work_begin(SyncArena *arena, ArenaWork *outer, size_t more, bool (*cancel) (void))
{
	*outer = (ArenaWork) {arena->limit, arena->used, arena->limit_reached, arena->cancel,
	arena->cancelled};
	arena_limit(arena, more);
	if (cancel != NULL)
		arena->cancel = cancel;
	arena->cancelled = false;
}

void
arena_work_end(SyncArena *arena, const ArenaWork *outer)
{
	arena->limit = outer->limit == 0 ? 0 : outer->limit + (arena->used - outer->used);
	arena->limit_reached = outer->limit_reached;
	arena->cancel = outer->cancel;
	arena->cancelled = outer->cancelled;
}

bool
arena_cancelled(const SyncArena *arena)
{
	return arena->cancelled;
}

void
arena_poll(SyncArena *arena)
{
	SyncArena  *account = arena->account;

	if (account->cancel == NULL || (!account->cancelled && !account->cancel()))
		return;
	account->cancelled = true;
	arena_fail(account);
}

void
arena_guard_push(SyncArena *arena, ArenaGuard *guard)
{
	guard->outer = arena->guard;
	arena->guard = guard;
}

void
arena_guard_pop(SyncArena *arena, ArenaGuard *guard)
{
	arena->guard = guard->outer;
}

void
arena_set_exhausted(SyncArena *arena, void (*handler) (void))
{
	arena->exhausted = handler;
}

void
arena_fail(SyncArena *arena)
{
	arena = arena->account;
	if (arena->guard == NULL)
	{
		if (arena->exhausted != NULL)
			arena->exhausted();
		abort();				/* a public entry point forgot its guard */
	}
	longjmp(arena->guard->jump, 1);
}

/*
 * A block with room for need bytes.  It becomes the one allocated from unless
 * it is made to measure for one large value: then the room left in the
 * present block stays in use.
 */
static ArenaBlock *
arena_add_block(SyncArena *arena, size_t need)
{
	SyncArena  *account = arena->account;
	size_t		size = arena->next_size;
	bool		outsized;
	ArenaBlock *block;

	if (need > SIZE_MAX - ARENA_HEADER)
		arena_fail(arena);
	need += ARENA_HEADER;
	outsized = need > size / 2;
	if (outsized)
		size = need;

	if (account->budget != 0)
	{
		size_t		left = account->budget > account->used ? account->budget - account->used : 0;

		if (need > left)
			arena_fail(arena);
		if (size > left)
			size = left;
	}
	if (account->limit != 0 && need > account->limit - account->used)
	{
		account->limit_reached = true;
		arena_fail(arena);
	}
	if (account->limit != 0 && size > account->limit - account->used)
		size = account->limit - account->used;

	block = malloc(size);
	if (block == NULL)
		arena_fail(arena);
	account->used += size;
	if (account->used > account->peak)
		account->peak = account->used;
	block->size = size;
	block->free = (char *) block + ARENA_HEADER;
	block->end = (char *) block + size;
	arena_poison(block->free, (size_t) (block->end - block->free));

	if (outsized && arena->blocks != NULL)
	{
		block->next = arena->blocks->next;
		arena->blocks->next = block;
	}
	else
	{
		block->next = arena->blocks;
		arena->blocks = block;
	}
	if (arena->next_size < ARENA_LAST_BLOCK)
		arena->next_size *= 2;
	return block;
}

void *
arena_alloc(SyncArena *arena, size_t size)
{
	ArenaBlock *block = arena->blocks;
	size_t		need;
	char	   *result;

	if (size > SIZE_MAX - ARENA_ALIGN - ARENA_GAP)
		arena_fail(arena);
	if (arena->cancel != NULL && (arena->cancelled || ++arena->asked % ARENA_POLL_EVERY == 0))
		arena_poll(arena);
	/* an empty value gets an address of its own */
	need = ((size == 0 ? 1 : size) + ARENA_GAP + ARENA_ALIGN - 1) & ~(size_t) (ARENA_ALIGN - 1);

	if (block == NULL || (size_t) (block->end - block->free) < need)
		block = arena_add_block(arena, need);
	result = block->free;
	block->free += need;
	arena->last = block == arena->blocks ? result : NULL;
	arena_unpoison(result, size);
	return result;
}

void *
arena_alloc0(SyncArena *arena, size_t size)
{
	void	   *result = arena_alloc(arena, size);

	memset(result, 0, size);
	return result;
}

void *
arena_alloc_array(SyncArena *arena, size_t size, size_t n)
{
	size_t		total;

	if (__builtin_mul_overflow(size, n, &total))
		arena_fail(arena);
	return arena_alloc0(arena, total);
}

void *
arena_grow(SyncArena *arena, void *ptr, size_t old_size, size_t new_size)
{
	ArenaBlock *block = arena->blocks;
	void	   *result;

	if (ptr == NULL)
		return arena_alloc(arena, new_size);
	if (new_size <= old_size)
		return ptr;
	if (ptr == (void *) arena->last && new_size <= (size_t) (block->end - arena->last))
	{
		size_t		room = (size_t) (block->end - arena->last);
		size_t		need = new_size + ARENA_GAP + ARENA_ALIGN - 1;

		need &= ~(size_t) (ARENA_ALIGN - 1);
		if (need >= new_size && need <= room)
		{
			block->free = arena->last + need;
			arena_unpoison(ptr, new_size);
			return ptr;
		}
	}

	result = arena_alloc(arena, new_size);
	memcpy(result, ptr, old_size);
	return result;
}

void *
arena_make_room(SyncArena *arena, void *array, size_t item_size, int count)
{
	size_t		size = item_size * (size_t) count;

	if (count == 0)
		return arena_alloc(arena, item_size * 4);
	if (count < 4 || (count & (count - 1)) != 0)
		return array;
	return arena_grow(arena, array, size, 2 * size);
}

char *
arena_strndup(SyncArena *arena, const char *s, size_t len)
{
	char	   *result;

	if (len == SIZE_MAX)
		arena_fail(arena);
	result = arena_alloc(arena, len + 1);
	if (len > 0)
		memcpy(result, s, len);
	result[len] = '\0';
	return result;
}

char *
arena_printf(SyncArena *arena, const char *format,...)
{
	va_list		args;
	int			len;
	char	   *result;

	va_start(args, format);
	len = vsnprintf(NULL, 0, format, args);
	va_end(args);
	if (len < 0)
		arena_fail(arena);

	result = arena_alloc(arena, (size_t) len + 1);
	va_start(args, format);
	vsnprintf(result, (size_t) len + 1, format, args);
	va_end(args);
	return result;
}
