/*-------------------------------------------------------------------------
 *
 * test_core_storage.c
 *	  BSON bytes, identities, checksums, row copies, bucket operations, ids of
 *	  storage 3.
 *
 *-------------------------------------------------------------------------
 */
#include <math.h>

#include "bson_bytes.h"
#include "core_test.h"
#include "identity.h"
#include "keyed_hash.h"
#include "rule_mapping.h"
#include "value.h"

/* an array of characters with its length, NUL bytes included */
#define BYTES(s) ((SyncString) {(s), sizeof(s) - 1})

static void
assert_same(SyncString got, SyncString expected)
{
	assert_int_equal(got.len, expected.len);
	assert_memory_equal(got.data, expected.data, expected.len);
}

static void
row_names(void **state)
{
	static const SyncColumn columns[] = {{{"a", 1}}, {{"secret", 6}}, {{"b", 1}}};
	static const int identity[] = {2, 0};
	static const SyncRowType type = {3, columns, 2, identity};
	static const SyncRowType none = {3, columns, 0, NULL};
	SyncValue	values[3] = {
		{.type = SYNC_TEXT, .data = "x\ny\xC3\xA4z", .len = 6},
		{.type = SYNC_TEXT, .data = "canary", .len = 6},
		value_integer(-7)
	};
	char		text[ROW_NAME_SIZE];

	(void) state;
	row_name(&type, values, text, sizeof(text));
	assert_string_equal(text, "b=-7, a=x?y\xC3\xA4z");
	row_name(&type, values, text, 13);
	assert_string_equal(text, "b=-7, a=x?y");	/* no half character */
	row_name(&none, values, text, sizeof(text));
	assert_string_equal(text, "");
	values[2] = (SyncValue) {.type = SYNC_BLOB, .data = "\x01\xFF", .len = 2};
	values[0] = value_null();
	row_name(&type, values, text, sizeof(text));
	assert_string_equal(text, "b=\\x01ff, a=null");
}

/* ---------------------------------------------------------------- BSON */

static void
bson_values(void **state)
{
	SyncBuffer	b;
	size_t		mark;
	size_t		inner;

	buffer_init(&b, *state, 0);
	mark = bson_begin(&b);
	bson_append_value(&b, str("n"), value_null());
	bson_append_value(&b, str("u"), (SyncValue) {.type = SYNC_UNDEFINED});
	bson_append_value(&b, str("i"), value_integer(-2));
	bson_append_value(&b, str("r"), value_real(2));
	bson_append_value(&b, str("f"), value_real(1.5));
	bson_append_value(&b, str("t"), text("x"));
	bson_append_value(&b, str("b"), value_blob("\0\xFF", 2));
	inner = bson_begin_array(&b, str("a"));
	bson_append_bool(&b, str("0"), true);
	bson_end(&b, inner);
	bson_end(&b, mark);
	assert_same(buffer_string(&b), BYTES(
		"\x44\0\0\0"
		"\x0An\0"
		"\x12i\0\xFE\xFF\xFF\xFF\xFF\xFF\xFF\xFF"
		"\x10r\0\x02\0\0\0"
		"\x01" "f\0\0\0\0\0\0\0\xF8\x3F"
		"\x02t\0\x02\0\0\0x\0"
		"\x05" "b\0\x02\0\0\0\0\0\xFF"
		"\x04" "a\0\x09\0\0\0\x08" "0\0\x01\0"
		"\0"));
}

static void
bson_reals(void **state)
{
	static const struct
	{
		double		value;
		char		type;
	}			cases[] = {
		{0, 0x10}, {-0.0, 0x01}, {2147483647, 0x10}, {2147483648.0, 0x01}, {-2147483648.0, 0x10},
		{-2147483649.0, 0x01}, {1.5, 0x01}, {1e300, 0x01}, {HUGE_VAL, 0x01}, {NAN, 0x01}
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		SyncBuffer	b;
		BsonReader	reader;
		BsonField	field;
		size_t		mark;

		buffer_init(&b, *state, 0);
		mark = bson_begin(&b);
		bson_append_value(&b, str("v"), value_real(cases[i].value));
		bson_end(&b, mark);
		assert_int_equal(b.data[4], cases[i].type);
		assert_true(bson_reader_init(&reader, buffer_string(&b)));
		assert_true(bson_reader_next(&reader, &field));
		assert_true(value_identical(field.value, value_real(cases[i].value)));
		assert_int_equal(signbit(field.value.real) != 0, signbit(cases[i].value) != 0);
	}
}

/* texts that JavaScript cannot turn into bytes as they are */
static void
bson_texts_are_utf8(void **state)
{
	SyncBuffer	b;
	size_t		mark;

	buffer_init(&b, *state, 0);
	mark = bson_begin(&b);
	bson_append_text(&b, str("t"), str("\xED\xA0\x80"));
	bson_end(&b, mark);
	assert_same(buffer_string(&b), BYTES("\x10\0\0\0\x02t\0\x04\0\0\0\xEF\xBF\xBD\0\0"));
}

static void
bson_json_elements(void **state)
{
	SyncValue	json = {.type = SYNC_JSON, .len = 38,
	.data = "{\"a\":[1.0,null,true,\"x\",2.5],\"b\":NaN}  "};
	SyncBuffer	b;
	size_t		mark;

	buffer_init(&b, *state, 0);
	mark = bson_begin(&b);
	bson_append_value(&b, str("j"), json);
	bson_end(&b, mark);
	assert_same(buffer_string(&b), BYTES(
		"\x42\0\0\0\x03j\0\x3A\0\0\0"
		"\x04" "a\0\x27\0\0\0"
		"\x10" "0\0\x01\0\0\0" "\x0A" "1\0" "\x08" "2\0\x01" "\x02" "3\0\x02\0\0\0x\0"
		"\x01" "4\0\0\0\0\0\0\0\x04\x40\0"
		"\x01" "b\0\0\0\0\0\0\0\xF8\x7F"
		"\0\0"));
}

static void
bson_lookups(void **state)
{
	SyncValue	values[12];
	SyncString	lookup;
	BsonReader	reader;
	BsonField	field;

	for (int i = 0; i < 12; i++)
		values[i] = value_real(i);
	values[3] = (SyncValue) {.type = SYNC_UNDEFINED};
	values[4] = value_real(4.5);
	lookup = bson_lookup(str("def"), str("1"), values, 12, *state);
	assert_true(bson_reader_init(&reader, (SyncString) {lookup.data + 7, lookup.len - 8}));
	for (int i = 0; i < 14; i++)
	{
		BsonIndexName name;

		assert_true(bson_reader_next(&reader, &field));
		assert_same(field.name, bson_index_name(&name, (uint32_t) i));
		if (i >= 2)
			assert_int_equal(field.type, i == 5 ? BSON_BYTES_NULL :
							 i == 6 ? BSON_BYTES_DOUBLE : BSON_BYTES_INT64);
	}
	assert_false(bson_reader_next(&reader, &field));
	assert_false(reader.failed);
	assert_same(bson_lookup_values(NULL, 0, *state), BYTES("\x0D\0\0\0\x04l\0\x05\0\0\0\0\0"));
}

/* reads all fields; false if the bytes were refused */
static bool
read_all(SyncString bytes)
{
	BsonReader	reader;
	BsonField	field;
	unsigned	sum = 0;

	if (!bson_reader_init(&reader, bytes))
		return false;
	while (bson_reader_next(&reader, &field))
	{
		/* touch everything that was given */
		for (uint32_t i = 0; i < field.name.len; i++)
			sum += (unsigned char) field.name.data[i];
		if (field.type == BSON_BYTES_TEXT || field.type == BSON_BYTES_BINARY)
			for (uint32_t i = 0; i < field.value.len; i++)
				sum += (unsigned char) field.value.data[i];
	}
	return !reader.failed && sum < UINT32_MAX;
}

static const char good_document[] =
"\x3C\0\0\0"
"\x0An\0"
"\x12i\0\xFE\xFF\xFF\xFF\xFF\xFF\xFF\xFF"
"\x10r\0\x02\0\0\0"
"\x01" "f\0\0\0\0\0\0\0\xF8\x3F"
"\x02t\0\x03\0\0\0xy\0"
"\x05" "b\0\x03\0\0\0\0abc"
"\x0A\0";

static void
bson_reader_refuses(void **state)
{
	SyncString	good = BYTES(good_document);

	(void) state;
	/* the literal's own NUL ends the document */
	good.len++;
	assert_int_equal(good.len, 0x3C);
	assert_true(read_all(good));
	assert_true(read_all(BYTES("\x05\0\0\0\0")));
	assert_false(read_all(BYTES("")));
	assert_false(read_all((SyncString) {NULL, 0}));
	assert_false(read_all(BYTES("\x05\0\0\0")));
	assert_false(read_all(BYTES("\x05\0\0\0\1")));
	assert_false(read_all(BYTES("\x06\0\0\0\0")));
	assert_false(read_all(BYTES("\x04\0\0\0\0")));
	assert_false(read_all(BYTES("\xFF\xFF\xFF\xFF\0")));
	assert_false(read_all(BYTES("\x06\0\0\0\x0A\0")));
	assert_false(read_all(BYTES("\x08\0\0\0\x0Axx\0")));	/* the name ends with the document */
	assert_false(read_all(BYTES("\x09\0\0\0\x08x\0\1\0")));	/* a bool */
	assert_false(read_all(BYTES("\x0E\0\0\0\x02x\0\0\0\0\0\0\0\0")));	/* text without NUL */
	assert_false(read_all(BYTES("\x0F\0\0\0\x02x\0\xFF\xFF\xFF\x7F" "ab\0\0")));
	assert_false(read_all(BYTES("\x0E\0\0\0\x02x\0\x02\0\0\0\xFF\0\0")));	/* no UTF-8 */
	assert_false(read_all(BYTES("\x0E\0\0\0\x02x\0\x02\0\0\0aa\0")));	/* no NUL behind it */
	assert_false(read_all(BYTES("\x0D\0\0\0\x05x\0\1\0\0\0\0\0")));	/* one byte too many */
	assert_false(read_all(BYTES("\x0D\0\0\0\x05x\0\0\0\0\0\4\0")));	/* another subtype */
}

/* any byte changed, any length: refused or read, never beyond the bytes */
static void
bson_reader_survives(void **state)
{
	size_t		size = sizeof(good_document);

	(void) state;
	for (size_t len = 0; len <= size; len++)
	{
		char	   *copy = malloc(len + 1);

		memcpy(copy, good_document, len);
		if (len >= 5)
		{
			/* with the right length in front and NUL behind, to get further */
			copy[0] = (char) len;
			copy[len - 1] = '\0';
		}
		copy = realloc(copy, len > 0 ? len : 1);
		read_all((SyncString) {copy, (uint32_t) len});
		free(copy);
	}
	for (size_t at = 4; at < size; at++)
		for (int value = 0; value < 256; value++)
		{
			char	   *copy = malloc(size);

			memcpy(copy, good_document, size);
			copy[at] = (char) value;
			read_all((SyncString) {copy, (uint32_t) size});
			free(copy);
		}
}

/* ---------------------------------------------------------------- rows */

#define COLUMNS 6

static SyncRowType
row_type(SyncColumn columns[COLUMNS], const int *identity, int identity_count)
{
	static const char *const names[COLUMNS] = {"id", "b", "10", "2", "r", "big"};

	for (int i = 0; i < COLUMNS; i++)
		columns[i].name = str(names[i]);
	return (SyncRowType) {
		.column_count = COLUMNS, .columns = columns,
		.identity_count = identity_count, .identity = identity
	};
}

static void
row_copies(void **state)
{
	SyncColumn	columns[COLUMNS];
	SyncRowType type = row_type(columns, NULL, 0);
	SyncValue	values[COLUMNS] = {
		text("a"), value_blob("\0\1", 2), value_integer(5), value_null(), value_real(7),
		{.type = SYNC_UNDEFINED}
	};
	SyncValue	merged[COLUMNS] = {{.type = SYNC_UNDEFINED}, [1] = value_integer(1)};
	SyncString	copy = row_copy_encode(&type, values, *state);

	/* array indexes first, undefined left out */
	assert_same(copy, BYTES(
		"\x2F\0\0\0"
		"\x0A" "2\0"
		"\x12" "10\0\5\0\0\0\0\0\0\0"
		"\x02id\0\2\0\0\0a\0"
		"\x05" "b\0\2\0\0\0\0\0\1"
		"\x10r\0\7\0\0\0"
		"\0"));

	/* what is there stays, what is undefined is taken, the last column is nowhere */
	assert_false(row_copy_merge(copy, &type, merged, *state));
	assert_true(value_identical(merged[0], values[0]));
	assert_true(value_identical(merged[1], value_integer(1)));
	assert_true(value_identical(merged[2], values[2]));
	assert_true(value_is_null(merged[3]) && merged[3].type == SYNC_NULL);
	assert_true(value_identical(merged[4], values[4]));
	assert_int_equal(merged[5].type, SYNC_UNDEFINED);
	/* not the copy's own bytes */
	assert_false(merged[0].data >= copy.data && merged[0].data < copy.data + copy.len);
	merged[5] = value_integer(1);
	assert_true(row_copy_merge(copy, &type, merged, *state));
}

static void
row_copy_that_is_none(void **state)
{
	SyncColumn	columns[COLUMNS];
	SyncRowType type = row_type(columns, NULL, 0);
	SyncValue	values[COLUMNS] = {{.type = SYNC_UNDEFINED}};

	/* the first field is right, the second is not: nothing is taken */
	assert_false(row_copy_merge(BYTES("\x10\0\0\0\x02id\0\1\0\0\0\0\x0A" "b\0"), &type, values,
								*state));
	assert_int_equal(values[0].type, SYNC_UNDEFINED);
	assert_false(row_copy_merge(BYTES(""), &type, values, *state));
	/* columns dropped since, and a name twice: the first counts */
	assert_false(row_copy_merge(BYTES("\x19\0\0\0\x0Agone\0\x02id\0\2\0\0\0x\0\x0Aid\0\0"), &type,
								values, *state));
	assert_true(value_identical(values[0], text("x")));
}

static void
identities(void **state)
{
	static const int both[] = {0, 3};
	static const int first[] = {0};
	SyncColumn	columns[COLUMNS];
	SyncRowType type = row_type(columns, first, 1);
	SyncValue	values[COLUMNS] = {text("a1"), [3] = value_integer(7)};
	SourceTableId table = {{0x66, [11] = 1}};
	SourceKey	key;
	SourceKey	other;
	char		subkey[SYNC_SUBKEY_LEN + 1];

	source_key_of_row(&type, values, *state, &key);
	subkey_format(&table, &key, subkey);
	assert_string_equal(subkey, "660000000000000000000001/fb4ea5f2-2436-5f83-85fd-df404de46a6d");
	assert_true(checksum_remove(&table, &key) == 3685912554U);

	type.identity = both;
	type.identity_count = 2;
	assert_same(identity_document(&type, values, *state), BYTES(
		"\x1B\0\0\0\x12" "2\0\7\0\0\0\0\0\0\0\x02id\0\3\0\0\0a1\0\0"));

	/* without identity columns: random, of version 4 */
	type.identity_count = 0;
	source_key_of_row(&type, values, *state, &key);
	source_key_of_row(&type, values, *state, &other);
	assert_memory_not_equal(&key, &other, sizeof(key));
	assert_int_equal(key.bytes[6] >> 4, 4);
	assert_int_equal(key.bytes[8] >> 6, 2);
}

static void
checksums(void **state)
{
	char	   *id = arena_alloc(*state, 1000);

	assert_true(checksum_put(str("todos"), str("1"),
							 str("{\"id\":\"1\",\"description\":\"Buy milk\",\"completed\":0}")) ==
				710650795U);
	/* on both sides of the size that is put together first */
	memset(id, 'x', 1000);
	for (uint32_t len = 240; len < 260; len++)
	{
		uint32_t	sum = checksum_put(str("t"), (SyncString) {id, len}, str("{}"));

		/* the same bytes with the border elsewhere: "t.xxx" "" against "t" "xxx" */
		char	   *table = arena_printf(*state, "t.%.*s", (int) len - 2, id);

		assert_true(sum == checksum_put(str("t"), (SyncString) {id, len}, str("{}")));
		assert_true(checksum_put(str(table), str("y"), str("{}")) ==
					checksum_put(str("t"), str(arena_printf(*state, "%.*s.y", (int) len - 2, id)),
								 str("{}")));
	}
	assert_int_equal(checksum_sum(0, INT64_C(4294967295)), -1);
	assert_int_equal(checksum_sum(-1, 1), 0);
	assert_true(checksum_sum(INT32_MAX, 1) == INT32_MIN);
	assert_int_equal(checksum_sum(5, -7), -2);
	assert_int_equal(checksum_sum(0, INT64_C(10263719761)), (int32_t) (uint32_t) 10263719761ULL);
}

/* ---------------------------------------------------------------- operations */

static BucketRow
bucket_row(const char *bucket, const char *id)
{
	return (BucketRow) {
		.bucket = str(bucket), .table = str("t"), .row_id = str(id), .json = str("{}"),
		.checksum = 42
	};
}

static const SourceTableId op_table = {{1}};
static const SourceKey op_key = {{2}};

/* "P:b1/x R:b2/x L:k l:k" */
static char *
describe(const BucketOpList *list, size_t from)
{
	SyncBuffer	b;

	buffer_init(&b, list->arena, 0);
	for (size_t i = from; i < list->count; i++)
	{
		const BucketOp *op = &list->ops[i];
		bool		parameters = op->kind == BUCKET_OP_PARAMETERS;
		SyncString	name = parameters ? op->lookup : op->bucket;

		assert_memory_equal(&op->source_table, &op_table, sizeof(op_table));
		assert_memory_equal(&op->source_key, &op_key, sizeof(op_key));
		if (op->kind == BUCKET_OP_REMOVE)
			assert_true(op->checksum == checksum_remove(&op_table, &op_key));
		if (op->kind == BUCKET_OP_PUT)
			assert_int_equal(op->checksum, 42);
		buffer_append_char(&b, parameters ? (op->rows.len > 5 ? 'L' : 'l') :
						   op->kind == BUCKET_OP_PUT ? 'P' : 'R');
		if (parameters && op->rows.len == 5)
			assert_memory_equal(op->rows.data, "\5\0\0\0\0", 5);
		buffer_append_char(&b, ':');
		buffer_append(&b, name.data, name.len);
		if (!parameters)
		{
			buffer_append_char(&b, '/');
			buffer_append(&b, op->row_id.data, op->row_id.len);
		}
		buffer_append_char(&b, ' ');
	}
	return arena_strndup(list->arena, b.data, b.len);
}

static void
moving_a_row(void **state)
{
	SyncString	rows = BYTES("\x08\0\0\0\x0A" "0\0\0");
	BucketRow	first[] = {bucket_row("p", "1"), bucket_row("q", "1"), bucket_row("p", "1")};
	BucketRow	second[] = {bucket_row("q", "2"), bucket_row("r", "1")};
	ParameterRow lookup = {str("k2"), rows};
	ParameterRow lookups[] = {{str("k1"), rows}, {str("k2"), rows}, {str("k1"), rows}};
	EvaluatedRow row = {.bucket_row_count = 3, .bucket_rows = first,
		.parameter_row_count = 3, .parameter_rows = lookups};
	BucketOpList list;
	RowState   *state1;
	RowState   *state2;
	size_t		from;

	bucket_op_list_init(&list, *state);
	/* new: every entry written, each remembered once */
	state1 = bucket_ops_move(&list, &op_table, &op_key, NULL, &row);
	assert_string_equal(describe(&list, 0), "P:p/1 P:q/1 P:p/1 L:k1 L:k2 L:k1 ");
	assert_int_equal(state1->bucket_count, 2);
	assert_int_equal(state1->lookup_count, 2);
	assert_int_equal(state1->row_copy.len, 0);
	assert_int_equal(list.bytes, 6 * 200 + 3 * 2);

	/* moved: the same id in another bucket, another id in the same bucket */
	row = (EvaluatedRow) {.bucket_row_count = 2, .bucket_rows = second,
		.parameter_row_count = 1, .parameter_rows = &lookup};
	from = list.count;
	state2 = bucket_ops_move(&list, &op_table, &op_key, state1, &row);
	assert_string_equal(describe(&list, from), "P:q/2 P:r/1 R:p/1 R:q/1 L:k2 l:k1 ");

	/* written again though nothing changed */
	from = list.count;
	state2 = bucket_ops_move(&list, &op_table, &op_key, state2, &row);
	assert_string_equal(describe(&list, from), "P:q/2 P:r/1 L:k2 ");

	/* gone */
	from = list.count;
	state1 = bucket_ops_move(&list, &op_table, &op_key, state2, NULL);
	assert_string_equal(describe(&list, from), "R:q/2 R:r/1 l:k2 ");
	assert_int_equal(state1->bucket_count + state1->lookup_count, 0);
	assert_false(state1->partial);

	from = list.count;
	bucket_ops_move(&list, &op_table, &op_key, NULL, NULL);
	assert_int_equal(list.count, from);
}

/* Everything that either holds, once, however often it is united. */
static void
uniting_states(void **state)
{
	SyncArena  *arena = *state;
	BucketRef	many[40];
	SyncString	lookups[] = {str("k1"), str("k2")};
	RowState	few = {.bucket_count = 2, .buckets = many, .lookup_count = 2, .lookups = lookups,
		.round = 1};
	RowState	rest = {.bucket_count = 39, .buckets = many + 1, .lookup_count = 1,
		.lookups = lookups + 1, .row_copy = str("copy"), .round = 2};
	RowState   *both;

	for (int i = 0; i < 40; i++)
		many[i] = (BucketRef) {str(arena_printf(arena, "b%d", i % 38)), str("t"), str("1")};
	both = row_state_unite(&few, &rest, arena);
	assert_int_equal(both->bucket_count, 38);
	assert_int_equal(both->lookup_count, 2);
	assert_true(both->partial);
	assert_int_equal(both->row_copy.len, 0);
	assert_int_equal(both->round, 1);
	both = row_state_unite(both, &rest, arena);
	assert_int_equal(both->bucket_count, 38);
	assert_int_equal(both->round, 1);
	both = row_state_unite(NULL, &few, arena);
	assert_int_equal(both->round, 0);
	assert_int_equal(both->bucket_count, 2);
	assert_int_equal(both->lookup_count, 2);
	both = row_state_unite(&few, NULL, arena);
	assert_int_equal(both->bucket_count, 2);
	both = row_state_unite(NULL, NULL, arena);
	assert_int_equal(both->bucket_count + both->lookup_count, 0);
}

/* moving a byte from one part of an entry to the next makes another entry */
static void
entries_are_compared_whole(void **state)
{
	BucketRow	was = {.bucket = str("ab"), .table = str("c"), .row_id = str("d"), .checksum = 42};
	BucketRow	is = {.bucket = str("a"), .table = str("bc"), .row_id = str("d"), .checksum = 42};
	EvaluatedRow row = {.bucket_row_count = 1, .bucket_rows = &was};
	BucketOpList list;
	RowState   *old;

	bucket_op_list_init(&list, *state);
	old = bucket_ops_move(&list, &op_table, &op_key, NULL, &row);
	row.bucket_rows = &is;
	bucket_ops_move(&list, &op_table, &op_key, old, &row);
	assert_string_equal(describe(&list, 1), "P:a/d R:ab/d ");
}

/* a row in very many buckets: right, and in linear time */
static void
rows_in_many_buckets(void **state)
{
	int			n = 100000;
	BucketRow  *rows = arena_array(*state, BucketRow, n);
	EvaluatedRow row = {.bucket_row_count = n, .bucket_rows = rows};
	BucketOpList list;
	RowState   *old;
	size_t		removed = 0;

	for (int i = 0; i < n; i++)
		rows[i] = bucket_row(arena_printf(*state, "b[%d]", i / 2), "x");
	bucket_op_list_init(&list, *state);
	old = bucket_ops_move(&list, &op_table, &op_key, NULL, &row);
	assert_int_equal(list.count, n);
	assert_int_equal(old->bucket_count, n / 2);

	/* now in the first half of them, in another order */
	row.bucket_row_count = n / 4;
	for (int i = 0; i < n / 4; i++)
		rows[i] = bucket_row(arena_printf(*state, "b[%d]", n / 4 - 1 - i), "x");
	old = bucket_ops_move(&list, &op_table, &op_key, old, &row);
	for (size_t i = (size_t) n; i < list.count; i++)
		removed += list.ops[i].kind == BUCKET_OP_REMOVE;
	assert_int_equal(removed, n / 4);
	assert_int_equal(list.count, n + n / 4 + n / 4);
	assert_int_equal(old->bucket_count, n / 4);
}

/* ---------------------------------------------------------------- ids of storage 3 */

static void
rule_ids(void **state)
{
	RuleId		known[] = {{str("a"), str("1"), 1}, {str("b"), str("2"), 2}};
	RuleId		rules[] = {{.name = str("b"), .identity = str("changed")},
	{.name = str("z"), .identity = str("1")}, {.name = str("a"), .identity = str("1")}};
	uint32_t	highest = 14;
	uint32_t	id;
	char		text[RULE_ID_LEN];

	(void) state;
	rule_ids_sort(rules, 3);
	assert_bytes(rules[0].name, "a");
	assert_bytes(rules[2].name, "z");
	rule_ids_assign(rules, 3, known, 2, &highest);
	assert_int_equal(rules[0].id, 1);
	assert_int_equal(rules[1].id, 15);
	assert_int_equal(rules[2].id, 16);
	assert_int_equal(highest, 16);
	assert_int_equal(rule_id_format(31, text), 2);
	assert_memory_equal(text, "1f", 2);
	assert_int_equal(rule_id_format(UINT32_MAX, text), 8);
	assert_true(rule_id_parse(str("1f"), &id) && id == 31);
	assert_false(rule_id_parse(str(""), &id));
	assert_false(rule_id_parse(str("123456789"), &id));
	assert_false(rule_id_parse(str("g"), &id));
}

/* the vector of SipHash's authors */
static void
keyed_hash_is_siphash(void **state)
{
	HashKey		key = {UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908)};
	unsigned char bytes[15];

	(void) state;
	for (int i = 0; i < 15; i++)
		bytes[i] = (unsigned char) i;
	assert_true(keyed_hash(&key, bytes, 15) == UINT64_C(0xa129ca6149be45e5));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keyed_hash_is_siphash),
		arena_test(bson_values),
		arena_test(bson_reals),
		arena_test(bson_texts_are_utf8),
		arena_test(bson_json_elements),
		arena_test(bson_lookups),
		cmocka_unit_test(bson_reader_refuses),
		cmocka_unit_test(bson_reader_survives),
		arena_test(row_copies),
		arena_test(row_copy_that_is_none),
		arena_test(identities),
		arena_test(checksums),
		arena_test(moving_a_row),
		arena_test(uniting_states),
		arena_test(entries_are_compared_whole),
		arena_test(rows_in_many_buckets),
		cmocka_unit_test(rule_ids),
		cmocka_unit_test(row_names),
	};

	return cmocka_run_group_tests_name("core: what is stored", tests, NULL, NULL);
}
