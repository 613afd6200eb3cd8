/*-------------------------------------------------------------------------
 *
 * test_core_arena.c
 *	  Arenas, guards, errors, buffers.
 *
 *-------------------------------------------------------------------------
 */
#include "core_test.h"
#include "hash_index.h"

static void
allocations_are_aligned_and_apart(void **state)
{
	SyncArena  *arena = *state;
	char	   *previous = NULL;
	size_t		sizes[] = {0, 1, 15, 16, 17, 100, 5000, 9000, 70000, 3, 2000000, 8};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
	{
		char	   *p = arena_alloc(arena, sizes[i]);

		assert_int_equal((uintptr_t) p % 16, 0);
		assert_ptr_not_equal(p, previous);
		memset(p, 0xAA, sizes[i]);
		previous = p;
	}
	assert_true(arena_used(arena) >= 2000000);
}

static void
large_allocation_leaves_the_block_in_use(void **state)
{
	SyncArena  *arena = *state;
	char	   *first = arena_alloc(arena, 16);
	char	   *second;

	arena_alloc(arena, 100000);
	second = arena_alloc(arena, 16);
	assert_true(second > first && second < first + 4096);
}

static void
alloc0_clears_reused_memory(void **state)
{
	SyncArena  *arena = *state;
	char	   *p = arena_alloc(arena, 1000);

	memset(p, 0xFF, 1000);
	arena_reset(arena);
	p = arena_alloc0(arena, 1000);
	for (int i = 0; i < 1000; i++)
		assert_int_equal(p[i], 0);
}

static void
reset_keeps_one_block_and_drops_outsized_ones(void **state)
{
	SyncArena  *arena = *state;
	size_t		steady;

	for (int i = 0; i < 1000; i++)
		arena_alloc(arena, 500);
	arena_alloc(arena, 50 * 1024 * 1024);
	arena_reset(arena);
	assert_true(arena_used(arena) <= 2 * 1024 * 1024);
	assert_true(arena_used(arena) >= 8192);

	for (int turn = 0; turn < 3; turn++)
	{
		for (int i = 0; i < 1000; i++)
			arena_alloc(arena, 500);
		steady = arena_used(arena);
		arena_reset(arena);
	}
	for (int i = 0; i < 1000; i++)
		arena_alloc(arena, 500);
	assert_int_equal(arena_used(arena), steady);
}

static void
grow_keeps_the_content(void **state)
{
	SyncArena  *arena = *state;
	char	   *p = arena_alloc(arena, 10);
	char	   *q;

	memcpy(p, "0123456789", 10);
	q = arena_grow(arena, p, 10, 100);
	assert_ptr_equal(p, q);		/* it was the last one */
	memset(q + 10, 'x', 90);
	arena_alloc(arena, 1);
	p = arena_grow(arena, q, 100, 200);
	assert_ptr_not_equal(p, q);
	assert_memory_equal(p, "0123456789xxxx", 14);
	memset(p, 'y', 200);
	q = arena_grow(arena, p, 200, 3000000);
	assert_int_equal(q[199], 'y');
	memset(q, 'z', 3000000);
	assert_ptr_equal(arena_grow(arena, q, 3000000, 5), q);
	assert_non_null(arena_grow(arena, NULL, 0, 5));
}

/* bytes that pieces of 48 can take before the budget is used up */
static size_t
take_all(SyncArena *arena)
{
	ArenaGuard	guard;
	volatile size_t taken = 0;

	arena_guard_push(arena, &guard);
	if (setjmp(guard.jump) == 0)
		for (;;)
		{
			memset(arena_alloc(arena, 48), 1, 48);
			taken += 48;
		}
	arena_guard_pop(arena, &guard);
	return taken;
}

/* a budget is never exceeded, and every failure comes back to the guard */
static void
budgets_are_exact(void **state)
{
	(void) state;
	for (size_t budget = 1; budget < 40000; budget += 37)
	{
		SyncArena  *arena = arena_create(budget);
		size_t		taken = take_all(arena);

		if (budget > 100)
			assert_true(arena_used(arena) <= budget);
		/* what is lost to headers, ends of blocks and sanitizers is bounded */
		if (budget > 1000)
			assert_true(taken * 2 > budget - 1000);
		arena_destroy(arena);
	}
}

static void
guards_nest(void **state)
{
	SyncArena  *arena = *state;
	ArenaGuard	outer;
	ArenaGuard	inner;
	volatile int path = 0;

	arena_guard_push(arena, &outer);
	if (setjmp(outer.jump) == 0)
	{
		arena_guard_push(arena, &inner);
		if (setjmp(inner.jump) == 0)
			arena_fail(arena);
		else
			path = path * 10 + 1;
		arena_guard_pop(arena, &inner);
		arena_alloc_array(arena, SIZE_MAX / 2, 3);	/* overflows */
		path = 99;
	}
	else
		path = path * 10 + 2;
	arena_guard_pop(arena, &outer);
	assert_int_equal(path, 12);
}

static void
strings_end_with_nul(void **state)
{
	SyncArena  *arena = *state;
	char	   *s = arena_strndup(arena, "abcdef", 3);

	assert_string_equal(s, "abc");
	assert_string_equal(arena_strndup(arena, NULL, 0), "");
	assert_string_equal(arena_printf(arena, "%d-%s", 42, "x"), "42-x");
}

static void
error_messages_are_cut_at_characters(void **state)
{
	SyncError	error;
	char		long_text[400];

	(void) state;
	for (int shift = 0; shift < 3; shift++)
	{
		size_t		len;

		memset(long_text, 'a', (size_t) shift);
		for (size_t i = (size_t) shift; i + 3 < sizeof(long_text); i += 3)
			memcpy(long_text + i, "\xE2\x82\xAC", 4);
		error.line = 7;
		sync_error_set(&error, SYNC_ERROR_VALUE, "%s", long_text);
		len = strlen(error.message);
		assert_true(len > sizeof(error.message) - 5);
		assert_int_equal((len - (size_t) shift) % 3, 0);
		assert_memory_equal(error.message, long_text, len);
		assert_int_equal(error.line, 0);
		assert_int_equal(error.code, SYNC_ERROR_VALUE);
		assert_string_equal(error.hint, "");
	}
}

static void
error_messages_are_valid_utf8(void **state)
{
	SyncError	error;

	(void) state;
	sync_error_set(&error, SYNC_ERROR_SYNTAX, "a\xFF" "b\xED\xA0\x80" "c\xC3");
	assert_string_equal(error.message, "a?b???c?");
	sync_error_set(&error, SYNC_ERROR_SYNTAX, "ok \xF0\x9F\x98\x80");
	assert_string_equal(error.message, "ok \xF0\x9F\x98\x80");
	sync_error_set(NULL, SYNC_ERROR_SYNTAX, "nobody listens");
}

static void
buffers_grow(void **state)
{
	SyncArena  *arena = *state;
	SyncBuffer	buffer;

	buffer_init(&buffer, arena, 0);
	assert_int_equal(buffer_string(&buffer).len, 0);
	for (int i = 0; i < 100000; i++)
	{
		buffer_append_char(&buffer, (char) ('a' + i % 26));
		if (i % 1000 == 0)
			arena_alloc(arena, 10);
	}
	assert_int_equal(buffer.len, 100000);
	for (int i = 0; i < 100000; i++)
		assert_int_equal(buffer.data[i], 'a' + i % 26);
}

static void
buffers_write_integers(void **state)
{
	SyncBuffer	buffer;

	buffer_init(&buffer, *state, 1);
	buffer_append_int(&buffer, INT64_MIN);
	buffer_append_char(&buffer, ' ');
	buffer_append_int(&buffer, INT64_MAX);
	buffer_append_char(&buffer, ' ');
	buffer_append_int(&buffer, 0);
	buffer_append_int(&buffer, -1);
	assert_bytes(buffer_string(&buffer), "-9223372036854775808 9223372036854775807 0-1");
}

static void
buffers_are_no_longer_than_a_string(void **state)
{
	SyncArena  *arena = *state;
	SyncBuffer	buffer;
	ArenaGuard	guard;
	volatile bool failed = false;

	buffer_init(&buffer, arena, 16);
	buffer_append_char(&buffer, 'x');
	arena_guard_push(arena, &guard);
	if (setjmp(guard.jump) == 0)
		buffer_reserve(&buffer, UINT32_MAX);
	else
		failed = true;
	arena_guard_pop(arena, &guard);
	assert_true(failed);
	assert_int_equal(buffer.len, 1);
}

/* a limit ends the work in hand, and says that it was not memory that is short */
static void
limits_end_work(void **state)
{
	SyncArena  *arena = *state;
	volatile bool jumped = false;
	volatile size_t taken = 0;
	size_t		before;
	ArenaGuard	guard;

	arena_alloc(arena, 100000);
	before = arena_used(arena);
	arena_limit(arena, 50000);
	arena_guard_push(arena, &guard);
	if (setjmp(guard.jump) == 0)
	{
		for (;;)
		{
			arena_alloc(arena, 48);
			taken += 48;
		}
	}
	else
		jumped = true;
	arena_guard_pop(arena, &guard);
	assert_true(jumped);
	assert_true(arena_limit_reached(arena));
	assert_true(arena_used(arena) <= before + 50000);
	assert_true(taken > 30000);
	arena_limit(arena, 0);
	assert_false(arena_limit_reached(arena));
	arena_alloc(arena, 1000000);
}

static bool	cancel_answer;

static bool
cancel_asked(void)
{
	return cancel_answer;
}

/* what fails inside other work does not count for it, and leaves its limit */
static void
work_nests(void **state)
{
	SyncArena  *arena = *state;
	ArenaWork	outer;
	ArenaWork	inner;
	size_t		taken;

	arena_work_begin(arena, &outer, 100000, NULL);
	arena_work_begin(arena, &inner, 3000000, NULL);
	assert_true(take_all(arena) > 1000000);
	assert_true(arena_limit_reached(arena));
	arena_work_end(arena, &inner);
	assert_false(arena_limit_reached(arena));
	taken = take_all(arena);
	assert_true(taken > 20000 && taken <= 100000);
	assert_true(arena_limit_reached(arena));
	arena_work_end(arena, &outer);
	assert_false(arena_limit_reached(arena));
	arena_alloc(arena, 1000000);
}

/* once it is cancelled, work allocates nothing any more; what comes behind it does */
static void
work_is_cancelled(void **state)
{
	SyncArena  *arena = *state;
	ArenaWork	outer;
	ArenaWork	inner;
	size_t		before;

	arena_work_begin(arena, &outer, 0, cancel_asked);
	arena_work_begin(arena, &inner, 0, NULL);
	arena_poll(arena);
	cancel_answer = true;
	before = take_all(arena);
	assert_true(before < 48 * 1000);
	assert_true(arena_cancelled(arena));
	assert_int_equal(take_all(arena), 0);
	arena_work_end(arena, &inner);
	assert_false(arena_cancelled(arena));
	assert_true(take_all(arena) < 48 * 1000);
	arena_work_end(arena, &outer);
	for (int i = 0; i < 2000; i++)
		arena_alloc(arena, 48);
	arena_poll(arena);
	cancel_answer = false;
}

/* what a child takes counts as its parent's until it is given back */
static void
children_are_given_back(void **state)
{
	SyncArena  *arena = *state;
	SyncArena  *child;
	SyncArena  *grandchild;
	size_t		used;
	char	   *kept = arena_strndup(arena, "kept", 4);

	used = arena_used(arena);
	child = arena_create_child(arena);
	grandchild = arena_create_child(child);
	assert_int_equal(arena_used(arena), used);
	for (int i = 0; i < 1000; i++)
	{
		memset(arena_alloc(child, 1000), 0xAA, 1000);
		memset(arena_alloc(grandchild, 1000), 0xBB, 1000);
	}
	assert_true(arena_used(arena) >= used + 2000000);
	arena_reset(child);
	assert_true(arena_used(arena) >= used + 1000000);
	assert_true(arena_used(arena) < used + 3000000);
	arena_destroy(grandchild);
	arena_destroy(child);
	assert_int_equal(arena_used(arena), used);
	assert_true(arena_peak(arena) >= used + 2000000);
	assert_string_equal(kept, "kept");
}

/* a child fails where its parent does: by the limit of both together */
static void
children_share_limits(void **state)
{
	SyncArena  *arena = *state;
	SyncArena  *volatile child = NULL;
	ArenaGuard	guard;
	ArenaWork	outer;
	volatile bool failed = false;

	arena_work_begin(arena, &outer, 1000000, NULL);
	arena_guard_push(arena, &guard);
	if (setjmp(guard.jump) == 0)
	{
		child = arena_create_child(arena);
		arena_alloc(arena, 600000);
		arena_alloc(child, 300000);
		arena_alloc(child, 300000);
	}
	else
		failed = true;
	arena_guard_pop(arena, &guard);
	assert_true(failed);
	assert_true(arena_limit_reached(arena));
	arena_destroy(child);
	arena_work_end(arena, &outer);
	arena_alloc(arena, 2000000);
}

static void
arrays_have_room(void **state)
{
	SyncArena  *arena = *state;
	int		   *array = NULL;

	for (int i = 0; i < 5000; i++)
	{
		array = arena_make_room(arena, array, sizeof(*array), i);
		array[i] = i;
		if (i % 7 == 0)
			arena_alloc(arena, 1);
	}
	for (int i = 0; i < 5000; i++)
		assert_int_equal(array[i], i);
}

static void
names_are_found_once(void **state)
{
	SyncArena  *arena = *state;
	NameIndex	index = {.names = NULL};

	assert_int_equal(name_index_find(&index, str("x")), -1);
	for (int i = 0; i < 1000; i++)
		name_index_add(&index, str(arena_printf(arena, "n%d", i)), 3 * i, arena);
	for (int i = 0; i < 1000; i++)
		assert_int_equal(name_index_find(&index, str(arena_printf(arena, "n%d", i))), 3 * i);
	assert_int_equal(name_index_find(&index, str("n1000")), -1);
	assert_int_equal(name_index_find(&index, str("")), -1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		arena_test(allocations_are_aligned_and_apart),
		arena_test(large_allocation_leaves_the_block_in_use),
		arena_test(alloc0_clears_reused_memory),
		arena_test(reset_keeps_one_block_and_drops_outsized_ones),
		arena_test(grow_keeps_the_content),
		cmocka_unit_test(budgets_are_exact),
		arena_test(limits_end_work),
		arena_test(work_nests),
		arena_test(work_is_cancelled),
		arena_test(children_are_given_back),
		arena_test(children_share_limits),
		arena_test(arrays_have_room),
		arena_test(names_are_found_once),
		arena_test(guards_nest),
		arena_test(strings_end_with_nul),
		cmocka_unit_test(error_messages_are_cut_at_characters),
		cmocka_unit_test(error_messages_are_valid_utf8),
		arena_test(buffers_grow),
		arena_test(buffers_write_integers),
		arena_test(buffers_are_no_longer_than_a_string),
	};

	return cmocka_run_group_tests_name("core: arena, errors, buffers", tests, NULL, NULL);
}
