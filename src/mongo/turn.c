/*-------------------------------------------------------------------------
 *
 * turn.c
 *	  Whose turn it is to flush (see turn.h).
 *
 * Atomic operations on words of shared memory and short sleeps: no lock that a
 * dying process could leave behind, no function of the server.
 *
 * A waiting writer's word holds its priority in the two lowest bits and, above
 * them, since when it waits (milliseconds, modulo 2^30): equals are served in
 * the order they came.
 *
 * Invariants: a holder's word changes from 0 to index + 1 and back, by compare
 * and swap; a place changes from 0 to its storage, once; a writer's place is set
 * before what it wants.
 *
 *-------------------------------------------------------------------------
 */
#include "mongo/turn.h"

#include <time.h>

#define PRIORITY_MASK	3u
#define SLEEP_MIN_US	100
#define SLEEP_MAX_US	2000

static uint32_t
now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint32_t) now.tv_sec * 1000u + (uint32_t) (now.tv_nsec / 1000000);
}

static void
sleep_us(long us)
{
	struct timespec time = {.tv_nsec = us * 1000};

	nanosleep(&time, NULL);
}

/* Does want a come before want b? */
static bool
comes_before(uint32_t a, uint32_t b)
{
	uint32_t	priority_a = a & PRIORITY_MASK;
	uint32_t	priority_b = b & PRIORITY_MASK;

	if (priority_a != priority_b)
		return priority_a > priority_b;
	/* clocks wrap: the difference tells */
	return (int32_t) ((a & ~PRIORITY_MASK) - (b & ~PRIORITY_MASK)) < 0;
}

/*
 * The storage's place.  Places are taken in an order that follows from the
 * storage alone, and never given back: all writers find the same one.
 */
static int
find_place(_Atomic uint32_t *turn, uint32_t storage)
{
	int			first = (int) (storage % TURN_STORAGES);

	for (int i = 0; i < TURN_STORAGES; i++)
	{
		int			place = (first + i) % TURN_STORAGES;
		uint32_t	present = 0;

		/* present: what was there, if it was not free */
		if (atomic_compare_exchange_strong(&turn[TURN_STORAGE(place)], &present, storage) ||
			present == storage)
			return place;
	}
	return first;
}

/* Does another writer wait for this place, and (want not 0) come before us? */
static bool
anybody_waits(_Atomic uint32_t *turn, int index, uint32_t want, uint32_t place)
{
	for (int i = 0; i < TURN_MAX_WRITERS; i++)
	{
		uint32_t	other;

		if (i == index)
			continue;
		other = atomic_load(&turn[TURN_WANT(i)]);
		if (other != TURN_NONE && atomic_load(&turn[TURN_PLACE(i)]) == place + 1 &&
			(want == TURN_NONE || comes_before(other, want)))
			return true;
	}
	return false;
}

bool
turn_wanted(_Atomic uint32_t *turn, int index)
{
	uint32_t	place;

	if (index < 0 || index >= TURN_MAX_WRITERS)
		return false;
	place = atomic_load(&turn[TURN_PLACE(index)]);
	return place != 0 && anybody_waits(turn, index, TURN_NONE, place - 1);
}

bool
turn_take(_Atomic uint32_t *turn, int index, uint32_t storage, TurnPriority priority,
		  const atomic_bool *cancel)
{
	uint32_t	want = (now_ms() << 2) | (uint32_t) priority;
	long		pause = SLEEP_MIN_US;
	int			place;

	if (index < 0 || index >= TURN_MAX_WRITERS)
		return true;
	place = find_place(turn, storage);
	atomic_store(&turn[TURN_PLACE(index)], (uint32_t) place + 1);
	atomic_store(&turn[TURN_WANT(index)], want);
	for (;;)
	{
		uint32_t	free_turn = 0;

		if (atomic_load(cancel))
		{
			atomic_store(&turn[TURN_WANT(index)], TURN_NONE);
			return false;
		}
		if (!anybody_waits(turn, index, want, (uint32_t) place) &&
			atomic_compare_exchange_strong(&turn[TURN_HOLDER(place)], &free_turn,
										   (uint32_t) index + 1))
		{
			atomic_store(&turn[TURN_WANT(index)], TURN_NONE);
			return true;
		}
		sleep_us(pause);
		if (pause < SLEEP_MAX_US)
			pause *= 2;
	}
}

/* A writer holds one turn at most, but whoever forgets it need not know at which storage. */
void
turn_give(_Atomic uint32_t *turn, int index)
{
	if (index < 0 || index >= TURN_MAX_WRITERS)
		return;
	for (int place = 0; place < TURN_STORAGES; place++)
	{
		uint32_t	mine = (uint32_t) index + 1;

		(void) atomic_compare_exchange_strong(&turn[TURN_HOLDER(place)], &mine, 0);
	}
}

void
turn_forget(_Atomic uint32_t *turn, int index)
{
	if (index < 0 || index >= TURN_MAX_WRITERS)
		return;
	atomic_store(&turn[TURN_WANT(index)], TURN_NONE);
	turn_give(turn, index);
}
