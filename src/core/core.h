/*-------------------------------------------------------------------------
 *
 * core.h
 *	  What every file of the pure part shares: memory, errors, values, rows.
 *
 * The pure part (src/core) decides what a row means: it knows C11 and a few
 * libraries, nothing of PostgreSQL's server and nothing of MongoDB's driver.
 *
 * Memory.  Everything is allocated from an arena, which is reset as a whole;
 * nothing is freed by itself.  An allocation never returns NULL: when memory
 * or the arena's budget is exhausted, control jumps back to the innermost
 * arena_guard().  So only functions that set a guard can report
 * SYNC_ERROR_OUT_OF_MEMORY, and all functions below them may use what they
 * allocate unchecked.  A jump must never cross a frame of a foreign library.
 *
 * Threads.  No global state.  An arena belongs to one thread at a time; a
 * compiled plan is immutable and may be used by several threads.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGSYNC_CORE_H
#define PGSYNC_CORE_H

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define sync_printf_like(f, a) __attribute__((format(printf, f, a)))
#define sync_noreturn __attribute__((noreturn))
#else
#define sync_printf_like(f, a)
#define sync_noreturn
#endif

/* ---------------------------------------------------------------- errors */

typedef enum SyncErrorCode
{
	SYNC_OK = 0,
	SYNC_ERROR_OUT_OF_MEMORY,	/* malloc failed, or the arena's budget is used up */
	SYNC_ERROR_SYNTAX,			/* YAML or SQL text that cannot be read */
	SYNC_ERROR_CONFIG,			/* readable, but not a valid sync config */
	SYNC_ERROR_UNSUPPORTED,		/* valid for PowerSync, not (yet) for pgsync */
	SYNC_ERROR_LIMIT,			/* too deep, too large */
	SYNC_ERROR_NO_TABLE,		/* findings of plan_check.c: the database has no such table, */
	SYNC_ERROR_NO_COLUMN,		/* the table no such column, */
	SYNC_ERROR_TYPE,			/* a column is of another kind than the rules take it for */
	SYNC_ERROR_VALUE,			/* a row's value cannot be evaluated */
	SYNC_ERROR_CANCELLED		/* whoever waits for the result does not want it any more */
} SyncErrorCode;

/* line and column count from 1; 0 = unknown */
typedef struct SyncError
{
	SyncErrorCode code;
	int			line;
	int			column;
	char		message[256];	/* UTF-8, cut at a character boundary */
	char		hint[160];		/* may be empty */
} SyncError;

extern void sync_error_set(SyncError *error, SyncErrorCode code, const char *format,...)
			sync_printf_like(3, 4);

/* ---------------------------------------------------------------- arena */

typedef struct SyncArena SyncArena;

/* budget: upper limit of bytes taken from malloc; 0 = none.  NULL = no memory. */
extern SyncArena *arena_create(size_t budget);
extern void arena_destroy(SyncArena *arena);	/* NULL is allowed */
extern void arena_reset(SyncArena *arena);	/* keeps one block for reuse */
extern size_t arena_used(const SyncArena *arena);	/* bytes taken from malloc */
extern size_t arena_peak(const SyncArena *arena);	/* the most that these have been */

/*
 * An arena for what is given back before the parent's: by arena_reset(), or by
 * arena_destroy(), which must come before the parent's, whatever happened.  What
 * it takes counts as the parent's, and where it fails, the parent does, also here.
 * It knows the parent's cancel(): so it is made when the work has begun.
 */
extern SyncArena *arena_create_child(SyncArena *parent);

/*
 * A limit for what is about to be done: from now on at most `more` bytes are
 * taken from malloc.  Beyond, allocating fails as it does with an exhausted
 * budget, and arena_limit_reached() tells whoever set the limit that it was
 * the work that is too large, not memory that is short.  0 lifts the limit.
 */
extern void arena_limit(SyncArena *arena, size_t more);
extern bool arena_limit_reached(const SyncArena *arena);

/*
 * Work with a limit of its own, which can be cancelled: cancel() (NULL: as
 * around it) is asked every so many allocations, and by arena_poll() in loops
 * that allocate little.  Once it says yes, allocating fails, and
 * arena_cancelled() tells why.  It must have no effect of its own.
 */
typedef struct ArenaWork
{
	size_t		limit;
	size_t		used;
	bool		limit_reached;
	bool		(*cancel) (void);
	bool		cancelled;
} ArenaWork;

/* *outer keeps what was set around it, for arena_work_end() */
extern void arena_work_begin(SyncArena *arena, ArenaWork *outer, size_t more,
							 bool (*cancel) (void));
extern void arena_work_end(SyncArena *arena, const ArenaWork *outer);
extern bool arena_cancelled(const SyncArena *arena);
extern void arena_poll(SyncArena *arena);

extern void *arena_alloc(SyncArena *arena, size_t size);	/* 16-byte aligned, not cleared */
extern void *arena_alloc0(SyncArena *arena, size_t size);	/* cleared */
/* grows in place if ptr was the last allocation; otherwise copies */
extern void *arena_grow(SyncArena *arena, void *ptr, size_t old_size, size_t new_size);
/* an array of count items, all added like this, with room for one more: grown when full */
extern void *arena_make_room(SyncArena *arena, void *array, size_t item_size, int count);
extern char *arena_strndup(SyncArena *arena, const char *s, size_t len); /* adds NUL */
extern char *arena_printf(SyncArena *arena, const char *format,...)
			sync_printf_like(2, 3);

#define arena_new(arena, type) ((type *) arena_alloc0((arena), sizeof(type)))
#define arena_array(arena, type, n) ((type *) arena_alloc_array((arena), sizeof(type), (n)))
extern void *arena_alloc_array(SyncArena *arena, size_t size, size_t n); /* cleared, checks overflow */

/*
 * Guards nest.  Usage:
 *
 *		ArenaGuard	guard;
 *
 *		arena_guard_push(arena, &guard);
 *		if (setjmp(guard.jump) == 0)
 *			... work ...
 *		else
 *			... out of memory: what was allocated stays until arena_reset() ...
 *		arena_guard_pop(arena, &guard);
 *
 * Without a guard an exhausted arena calls its handler, which must not return
 * (the server part raises an error there); without a handler it aborts the
 * process.  So every public entry point of the pure part has a guard.  Locals changed between setjmp() and
 * the jump must be volatile.
 */
typedef struct ArenaGuard
{
	jmp_buf		jump;
	struct ArenaGuard *outer;
} ArenaGuard;

extern void arena_guard_push(SyncArena *arena, ArenaGuard *guard);
extern void arena_guard_pop(SyncArena *arena, ArenaGuard *guard);
extern sync_noreturn void arena_fail(SyncArena *arena);
extern void arena_set_exhausted(SyncArena *arena, void (*handler) (void));

/* ---------------------------------------------------------------- strings */

/* length-counted bytes; not NUL-terminated unless a function says so */
typedef struct SyncString
{
	const char *data;
	uint32_t	len;
} SyncString;

#define sync_string_literal(s) ((SyncString) {(s), sizeof(s) - 1})

static inline bool
sync_string_equal(SyncString a, SyncString b)
{
	return a.len == b.len && (a.len == 0 || __builtin_memcmp(a.data, b.data, a.len) == 0);
}

/* a growing text in an arena */
typedef struct SyncBuffer
{
	SyncArena  *arena;
	char	   *data;
	size_t		len;
	size_t		capacity;
} SyncBuffer;

extern void buffer_init(SyncBuffer *buffer, SyncArena *arena, size_t capacity);
extern void buffer_enlarge(SyncBuffer *buffer, size_t more);
extern void buffer_append_int(SyncBuffer *buffer, int64_t value);

/* room for more bytes after len */
static inline void
buffer_reserve(SyncBuffer *buffer, size_t more)
{
	if (more > buffer->capacity - buffer->len)
		buffer_enlarge(buffer, more);
}

static inline void
buffer_append(SyncBuffer *buffer, const void *data, size_t len)
{
	if (len == 0)
		return;
	buffer_reserve(buffer, len);
	__builtin_memcpy(buffer->data + buffer->len, data, len);
	buffer->len += len;
}

static inline void
buffer_append_char(SyncBuffer *buffer, char c)
{
	buffer_reserve(buffer, 1);
	buffer->data[buffer->len++] = c;
}

/* the text so far; no NUL is added; the buffer may go on growing */
extern SyncString buffer_string(const SyncBuffer *buffer);

/* ---------------------------------------------------------------- values */

/*
 * A value of the rules language (sync-rules.md, 5.1).
 *
 * SYNC_UNDEFINED: the row has no such column.  Acts as NULL in expressions
 * but is left out of the row's JSON.
 * SYNC_BIGINT: an INTEGER outside int64, canonical decimal digits with sign
 * in data/len.  Never holds a value that fits int64.
 * SYNC_TEXT: UTF-8; lone surrogates are stored as their three-byte (WTF-8)
 * form; may hold NUL bytes.
 */
typedef enum SyncType
{
	SYNC_UNDEFINED = 0,
	SYNC_NULL,
	SYNC_INTEGER,
	SYNC_BIGINT,
	SYNC_REAL,
	SYNC_TEXT,
	SYNC_BLOB,
	SYNC_JSON					/* raw JSON text of a non-scalar element: only in legacy
								 * "param IN row" keys (sync-rules.md, 9.3) */
} SyncType;

typedef struct SyncValue
{
	SyncType	type;
	uint32_t	len;			/* of data, in bytes */
	union
	{
		int64_t		integer;
		double		real;
		const char *data;		/* BIGINT, TEXT, BLOB, JSON */
	};
} SyncValue;

static inline SyncValue
value_null(void)
{
	return (SyncValue) {.type = SYNC_NULL};
}

static inline SyncValue
value_integer(int64_t i)
{
	return (SyncValue) {.type = SYNC_INTEGER, .integer = i};
}

static inline SyncValue
value_real(double r)
{
	return (SyncValue) {.type = SYNC_REAL, .real = r};
}

static inline SyncValue
value_text(const char *data, size_t len)
{
	return (SyncValue) {.type = SYNC_TEXT, .len = (uint32_t) len, .data = data};
}

static inline SyncValue
value_blob(const char *data, size_t len)
{
	return (SyncValue) {.type = SYNC_BLOB, .len = (uint32_t) len, .data = data};
}

/* NULL or undefined */
static inline bool
value_is_null(SyncValue v)
{
	return v.type <= SYNC_NULL;
}

/* ---------------------------------------------------------------- rows */

/*
 * The columns of a table as they were when a row was written.  Names are as
 * in the catalog.  identity[] lists the positions of the replica identity
 * columns in ascending attribute order (storage-contract.md, 3.4); empty when
 * the table has none.
 */
typedef struct SyncColumn
{
	SyncString	name;
} SyncColumn;

typedef struct SyncRowType
{
	int			column_count;
	const SyncColumn *columns;
	int			identity_count;
	const int  *identity;
} SyncRowType;

#endif							/* PGSYNC_CORE_H */
