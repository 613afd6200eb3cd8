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
 * Invariant: word 0 changes from 0 to index + 1 and back, by compare and swap.
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

bool
turn_wanted(_Atomic uint32_t *turn, int index)
{
	for (int i = 0; i < TURN_MAX_WRITERS; i++)
		if (i != index && atomic_load(&turn[1 + i]) != TURN_NONE)
			return true;
	return false;
}

/* Is there somebody whom the turn belongs to before us? */
static bool
must_wait(_Atomic uint32_t *turn, int index, uint32_t want)
{
	for (int i = 0; i < TURN_MAX_WRITERS; i++)
	{
		uint32_t	other;

		if (i == index)
			continue;
		other = atomic_load(&turn[1 + i]);
		if (other != TURN_NONE && comes_before(other, want))
			return true;
	}
	return false;
}

bool
turn_take(_Atomic uint32_t *turn, int index, TurnPriority priority, const atomic_bool *cancel)
{
	uint32_t	want = (now_ms() << 2) | (uint32_t) priority;
	long		pause = SLEEP_MIN_US;

	if (index < 0 || index >= TURN_MAX_WRITERS)
		return true;
	atomic_store(&turn[1 + index], want);
	for (;;)
	{
		uint32_t	free_turn = 0;

		if (atomic_load(cancel))
		{
			atomic_store(&turn[1 + index], TURN_NONE);
			return false;
		}
		if (!must_wait(turn, index, want) &&
			atomic_compare_exchange_strong(&turn[0], &free_turn, (uint32_t) index + 1))
		{
			atomic_store(&turn[1 + index], TURN_NONE);
			return true;
		}
		sleep_us(pause);
		if (pause < SLEEP_MAX_US)
			pause *= 2;
	}
}

void
turn_give(_Atomic uint32_t *turn, int index)
{
	uint32_t	mine = (uint32_t) index + 1;

	if (index < 0 || index >= TURN_MAX_WRITERS)
		return;
	(void) atomic_compare_exchange_strong(&turn[0], &mine, 0);
}

void
turn_forget(_Atomic uint32_t *turn, int index)
{
	if (index < 0 || index >= TURN_MAX_WRITERS)
		return;
	atomic_store(&turn[1 + index], TURN_NONE);
	turn_give(turn, index);
}
