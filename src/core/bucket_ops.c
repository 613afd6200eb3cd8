/*-------------------------------------------------------------------------
 *
 * bucket_ops.c
 *	  From where a row was and where it belongs now to bucket operations:
 *	  storage-contract.md, 4.2.
 *
 * Does not know storage versions and does not allocate op ids.
 *
 * Invariant: whatever the old state held and the new one does not is removed
 * under the table and id it was put with; the new state holds each bucket
 * entry and each lookup once.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "change.h"
#include "keyed_hash.h"

/* storage-contract.md 3.5: what an operation weighs beside its JSON */
#define OP_BYTES	200

/* up to this many entries a plain search is faster than a table */
#define SEARCH_LIMIT	8

#define FIRST_CAPACITY	64

/*
 * A set of keys by position in an array of the caller; a key is made of three
 * strings (two may be empty).  Open addressing, linear probing.
 */
typedef struct KeySet
{
	const SyncString *(*key_at) (const void *array, int i, SyncString key[3]);
	const void *array;
	int		   *slots;			/* position + 1; 0 = free; NULL: search plainly */
	uint32_t	mask;
	HashKey		key;
	int			count;			/* positions 0 to count - 1 were offered */
} KeySet;

static bool
keys_equal(const SyncString a[3], const SyncString b[3])
{
	return sync_string_equal(a[0], b[0]) && sync_string_equal(a[1], b[1]) &&
		sync_string_equal(a[2], b[2]);
}

/* the parts one after the other: moving a byte from one to the next matters */
static uint32_t
hash_key(const HashKey *key, const SyncString parts[3])
{
	uint64_t	hash = 0;

	for (int i = 0; i < 3; i++)
		hash = (hash << 5 | hash >> 59) ^ keyed_hash(key, parts[i].data, parts[i].len);
	return (uint32_t) (hash ^ hash >> 32);
}

/* room for as many keys as the caller may offer */
static void
key_set_init(KeySet *set, SyncArena *arena, int capacity)
{
	set->slots = NULL;
	set->count = 0;
	if (capacity > SEARCH_LIMIT)
	{
		uint32_t	size = 32;

		while (size / 2 < (uint32_t) capacity)
			size *= 2;
		set->slots = arena_array(arena, int, size);
		set->mask = size - 1;
		set->key = hash_key_make(arena);
	}
}

static bool
key_set_find(const KeySet *set, const SyncString key[3], uint32_t *slot)
{
	SyncString	other[3];

	if (set->slots == NULL)
	{
		for (int i = 0; i < set->count; i++)
			if (keys_equal(set->key_at(set->array, i, other), key))
				return true;
		return false;
	}
	for (*slot = hash_key(&set->key, key) & set->mask; set->slots[*slot] != 0;
		 *slot = (*slot + 1) & set->mask)
		if (keys_equal(set->key_at(set->array, set->slots[*slot] - 1, other), key))
			return true;
	return false;
}

/* adds the key at position count of the array; the caller has looked for it */
static void
key_set_add(KeySet *set, uint32_t slot)
{
	set->count++;
	if (set->slots != NULL)
		set->slots[slot] = set->count;
}

static const SyncString *
bucket_key(const void *array, int i, SyncString key[3])
{
	const BucketRef *ref = (const BucketRef *) array + i;

	key[0] = ref->bucket;
	key[1] = ref->table;
	key[2] = ref->row_id;
	return key;
}

static const SyncString *
lookup_key(const void *array, int i, SyncString key[3])
{
	key[0] = ((const SyncString *) array)[i];
	key[1] = key[2] = (SyncString) {NULL, 0};
	return key;
}

/* ---------------------------------------------------------------- the list */

void
bucket_op_list_init(BucketOpList *list, SyncArena *arena)
{
	memset(list, 0, sizeof(*list));
	list->arena = arena;
}

static BucketOp *
add_op(BucketOpList *list, BucketOpKind kind, const SourceTableId *table, const SourceKey *key)
{
	BucketOp   *op;

	if (list->count == list->capacity)
	{
		size_t		capacity = list->capacity > 0 ? list->capacity * 2 : FIRST_CAPACITY;
		size_t		size;

		if (__builtin_mul_overflow(capacity, sizeof(BucketOp), &size))
			arena_fail(list->arena);
		list->ops = arena_grow(list->arena, list->ops, list->capacity * sizeof(BucketOp), size);
		list->capacity = capacity;
	}
	op = &list->ops[list->count++];
	memset(op, 0, sizeof(*op));
	op->kind = kind;
	op->source_table = *table;
	op->source_key = *key;
	list->bytes += OP_BYTES;
	return op;
}

static void
move_buckets(BucketOpList *list, const SourceTableId *table, const SourceKey *key,
			 const RowState *old, const EvaluatedRow *row, RowState *now)
{
	int			count = row != NULL ? row->bucket_row_count : 0;
	uint32_t	checksum = 0;
	bool		have_checksum = false;
	KeySet		set = {.key_at = bucket_key};

	now->buckets = arena_array(list->arena, BucketRef, count);
	set.array = now->buckets;
	key_set_init(&set, list->arena, count);
	for (int i = 0; i < count; i++)
	{
		const BucketRow *in = &row->bucket_rows[i];
		BucketRef  *ref = &now->buckets[now->bucket_count];
		BucketOp   *op = add_op(list, BUCKET_OP_PUT, table, key);
		SyncString	name[3] = {in->bucket, in->table, in->row_id};
		uint32_t	slot = 0;

		op->bucket = in->bucket;
		op->table = in->table;
		op->row_id = in->row_id;
		op->json = in->json;
		op->checksum = in->checksum;
		list->bytes += in->json.len;
		if (key_set_find(&set, name, &slot))
			continue;
		*ref = (BucketRef) {in->bucket, in->table, in->row_id};
		key_set_add(&set, slot);
		now->bucket_count++;
	}

	for (int i = 0; old != NULL && i < old->bucket_count; i++)
	{
		const BucketRef *ref = &old->buckets[i];
		SyncString	name[3];
		uint32_t	slot;
		BucketOp   *op;

		if (key_set_find(&set, bucket_key(old->buckets, i, name), &slot))
			continue;
		if (!have_checksum)
			checksum = checksum_remove(table, key);
		have_checksum = true;
		op = add_op(list, BUCKET_OP_REMOVE, table, key);
		op->bucket = ref->bucket;
		op->table = ref->table;
		op->row_id = ref->row_id;
		op->checksum = checksum;
	}
}

static void
move_lookups(BucketOpList *list, const SourceTableId *table, const SourceKey *key,
			 const RowState *old, const EvaluatedRow *row, RowState *now)
{
	static const char no_rows[] = "\x05\0\0\0";	/* an empty BSON array; the literal's NUL ends it */
	int			count = row != NULL ? row->parameter_row_count : 0;
	KeySet		set = {.key_at = lookup_key};

	now->lookups = arena_array(list->arena, SyncString, count);
	set.array = now->lookups;
	key_set_init(&set, list->arena, count);
	for (int i = 0; i < count; i++)
	{
		const ParameterRow *in = &row->parameter_rows[i];
		BucketOp   *op = add_op(list, BUCKET_OP_PARAMETERS, table, key);
		SyncString	name[3] = {in->lookup};
		uint32_t	slot = 0;

		op->lookup = in->lookup;
		op->rows = in->rows;
		if (key_set_find(&set, name, &slot))
			continue;
		now->lookups[now->lookup_count++] = in->lookup;
		key_set_add(&set, slot);
	}

	for (int i = 0; old != NULL && i < old->lookup_count; i++)
	{
		SyncString	name[3];
		uint32_t	slot;
		BucketOp   *op;

		if (key_set_find(&set, lookup_key(old->lookups, i, name), &slot))
			continue;
		op = add_op(list, BUCKET_OP_PARAMETERS, table, key);
		op->lookup = old->lookups[i];
		op->rows = (SyncString) {no_rows, sizeof(no_rows)};
	}
}

RowState *
bucket_ops_move(BucketOpList *list, const SourceTableId *table, const SourceKey *key,
				const RowState *old, const EvaluatedRow *row)
{
	RowState   *now = arena_new(list->arena, RowState);

	move_buckets(list, table, key, old, row, now);
	move_lookups(list, table, key, old, row, now);
	return now;
}

/* ---------------------------------------------------------------- rows in parts */

RowState *
row_state_unite(const RowState *a, const RowState *b, SyncArena *arena)
{
	const RowState *const parts[] = {a, b};
	RowState   *state = arena_new(arena, RowState);
	int			buckets = (a ? a->bucket_count : 0) + (b ? b->bucket_count : 0);
	int			lookups = (a ? a->lookup_count : 0) + (b ? b->lookup_count : 0);
	KeySet		bucket_set = {.key_at = bucket_key};
	KeySet		lookup_set = {.key_at = lookup_key};

	state->partial = true;
	/* until the last part is written, no copy has found the row */
	state->round = a != NULL ? a->round : 0;
	bucket_set.array = state->buckets = arena_array(arena, BucketRef, (size_t) buckets);
	lookup_set.array = state->lookups = arena_array(arena, SyncString, (size_t) lookups);
	key_set_init(&bucket_set, arena, buckets);
	key_set_init(&lookup_set, arena, lookups);
	for (int part = 0; part < 2; part++)
	{
		const RowState *from = parts[part];
		SyncString	name[3];
		uint32_t	slot = 0;

		for (int i = 0; from != NULL && i < from->bucket_count; i++)
			if (!key_set_find(&bucket_set, bucket_key(from->buckets, i, name), &slot))
			{
				state->buckets[state->bucket_count++] = from->buckets[i];
				key_set_add(&bucket_set, slot);
			}
		for (int i = 0; from != NULL && i < from->lookup_count; i++)
			if (!key_set_find(&lookup_set, lookup_key(from->lookups, i, name), &slot))
			{
				state->lookups[state->lookup_count++] = from->lookups[i];
				key_set_add(&lookup_set, slot);
			}
	}
	return state;
}
