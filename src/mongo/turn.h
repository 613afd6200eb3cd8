/*-------------------------------------------------------------------------
 *
 * turn.h
 *	  Whose turn it is to flush: writers of one server to one storage.
 *
 * The op id sequence makes every flush of a storage conflict with every
 * other.  A conflict costs a whole transaction, so the writers of one server
 * to one storage take turns; writers to different storages never wait for each
 * other, or a storage that hangs would stop the databases of all others.  The
 * state is an array of words in shared memory, used with atomic operations
 * only: the storage thread may touch no server function.
 *
 * A storage is known by a number that is not 0, a hash of its name.  Each gets a
 * place when it is first used, and keeps it until the server ends.  With more
 * storages than places some share one: that costs waiting, nothing else.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGSYNC_TURN_H
#define PGSYNC_TURN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define TURN_MAX_WRITERS	64
#define TURN_STORAGES		64

/* where the words are; all 0 at first */
#define TURN_STORAGE(place)	(place) /* the storage that has this place; 0: none */
#define TURN_HOLDER(place)	(TURN_STORAGES + (place))	/* index + 1 of the writer; 0: free */
#define TURN_PLACE(index)	(2 * TURN_STORAGES + (index))	/* place + 1 of the writer's storage */
/* 0: it waits for nothing; else its priority in the two lowest bits and since when */
#define TURN_WANT(index)	(2 * TURN_STORAGES + TURN_MAX_WRITERS + (index))
#define TURN_WORDS			(2 * TURN_STORAGES + 2 * TURN_MAX_WRITERS)

typedef enum TurnPriority
{
	TURN_NONE = 0,
	TURN_COPY = 1,
	TURN_CATCH_UP = 2,
	TURN_SERVED = 3
} TurnPriority;

/* Waits until it is our turn at the storage; false if *cancel became true first. */
extern bool turn_take(_Atomic uint32_t *turn, int index, uint32_t storage, TurnPriority priority,
					  const atomic_bool *cancel);
extern void turn_give(_Atomic uint32_t *turn, int index);
/* Does another writer wait for the storage that we took a turn at last? */
extern bool turn_wanted(_Atomic uint32_t *turn, int index);
/* From any thread: forget writer index, as its process is gone or going. */
extern void turn_forget(_Atomic uint32_t *turn, int index);

#endif							/* PGSYNC_TURN_H */
