/*-------------------------------------------------------------------------
 *
 * turn.h
 *	  Whose turn it is to flush: writers of one server to one storage.
 *
 * The op id sequence makes every flush of a storage conflict with every
 * other.  A conflict costs a whole transaction, so the writers of one server
 * take turns.  The state is an array of words in shared memory, used with
 * atomic operations only: the storage thread may touch no server function.
 *
 * Word 0: index + 1 of the holder, 0 if free.  Word 1 + i: what writer i
 * wants: 0 nothing, else its priority in the two lowest bits and since when.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGSYNC_TURN_H
#define PGSYNC_TURN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define TURN_MAX_WRITERS	64
#define TURN_WORDS			(1 + TURN_MAX_WRITERS)

typedef enum TurnPriority
{
	TURN_NONE = 0,
	TURN_COPY = 1,
	TURN_CATCH_UP = 2,
	TURN_SERVED = 3
} TurnPriority;

/* Waits until it is our turn; false if *cancel became true first. */
extern bool turn_take(_Atomic uint32_t *turn, int index, TurnPriority priority,
					  const atomic_bool *cancel);
extern void turn_give(_Atomic uint32_t *turn, int index);
/* Does another writer wait for it? */
extern bool turn_wanted(_Atomic uint32_t *turn, int index);
/* From any thread: forget writer index, as its process is gone or going. */
extern void turn_forget(_Atomic uint32_t *turn, int index);

#endif							/* PGSYNC_TURN_H */
