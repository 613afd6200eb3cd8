/*-------------------------------------------------------------------------
 *
 * core_test.h
 *	  What the unit tests of the pure part share: cmocka, an arena for each
 *	  test, strings.
 *
 *-------------------------------------------------------------------------
 */
#ifndef CORE_TEST_H
#define CORE_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core.h"

static inline SyncString
str(const char *s)
{
	return (SyncString) {s, (uint32_t) strlen(s)};
}

static inline SyncValue
text(const char *s)
{
	return value_text(s, strlen(s));
}

/* the bytes are those of the C string */
#define assert_bytes(string, expected) \
	do { \
		SyncString	bytes_ = (string); \
		const char *expected_ = (expected); \
		char	   *got_ = strndup(bytes_.len > 0 ? bytes_.data : "", bytes_.len); \
		assert_string_equal(got_, expected_); \
		assert_int_equal(bytes_.len, strlen(expected_)); \
		free(got_); \
	} while (0)

static inline int
arena_setup(void **state)
{
	*state = arena_create(0);
	return *state == NULL;
}

static inline int
arena_teardown(void **state)
{
	arena_destroy(*state);
	return 0;
}

#define arena_test(function) \
	cmocka_unit_test_setup_teardown(function, arena_setup, arena_teardown)

#endif							/* CORE_TEST_H */
