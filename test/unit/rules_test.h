/*-------------------------------------------------------------------------
 *
 * rules_test.h
 *	  What the unit tests of the rules share: an arena and the messages of the
 *	  compilation at hand, for each test anew.
 *
 *-------------------------------------------------------------------------
 */
#ifndef RULES_TEST_H
#define RULES_TEST_H

#include <time.h>

#include "core_test.h"
#include "rules.h"

/* how much longer all may take under a sanitizer */
#if defined(__SANITIZE_ADDRESS__)
#define SLOW	20
#else
#define SLOW	1
#endif

static SyncArena *arena;
static const RulesMessage *messages __attribute__((unused));

static inline int
rules_setup(void **state)
{
	(void) state;
	messages = NULL;
	arena = arena_create(0);
	return arena == NULL;
}

static inline int
rules_teardown(void **state)
{
	(void) state;
	arena_destroy(arena);
	return 0;
}

#define rules_test(function) \
	cmocka_unit_test_setup_teardown(function, rules_setup, rules_teardown)

/* messages receives what is said */
static inline const SyncPlan *
compile_rules(const char *yaml)
{
	RulesOptions options = {.default_schema = "public"};

	return rules_compile(yaml, strlen(yaml), &options, arena, &messages);
}

static inline void
append(SyncBuffer *buffer, const char *s)
{
	buffer_append(buffer, s, strlen(s));
}

#define MAX_COLUMNS	10

typedef struct Shape
{
	SyncColumn	columns[MAX_COLUMNS];
	SyncRowType type;
} Shape;

/* names separated by one blank */
static inline SyncRowType *
shape(const char *names)
{
	Shape	   *result = arena_new(arena, Shape);

	result->type.columns = result->columns;
	while (*names != '\0')
	{
		size_t		len = strcspn(names, " ");

		result->columns[result->type.column_count++].name =
			(SyncString) {arena_strndup(arena, names, len), (uint32_t) len};
		names += len + (names[len] == ' ');
	}
	return &result->type;
}

#endif							/* RULES_TEST_H */
