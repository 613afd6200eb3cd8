/*-------------------------------------------------------------------------
 *
 * row_copy.c
 *	  The copy of a whole row that is kept where a later change may leave
 *	  values out: storage-contract.md, 4.3.
 *
 * Does not decide for which rows a copy is kept.
 *
 * Invariant: merging what was encoded gives every value back, with its type
 * (INTEGER and REAL stay apart: int64 against int32 and double).
 *
 *-------------------------------------------------------------------------
 */
#include "bson_bytes.h"
#include "identity.h"

SyncString
row_copy_encode(const SyncRowType *type, const SyncValue *values, SyncArena *arena)
{
	SyncBuffer	buffer;
	size_t		mark;

	buffer_init(&buffer, arena, 512);
	mark = bson_begin(&buffer);
	row_append_columns(&buffer, type, values, NULL, type->column_count);
	bson_end(&buffer, mark);
	return buffer_string(&buffer);
}

/* position of a name, looked for from a first guess onwards; -1 = none */
static int
find_column(const SyncRowType *type, SyncString name, int guess)
{
	for (int i = 0; i < type->column_count; i++)
	{
		int			column = guess + i;

		if (column >= type->column_count)
			column -= type->column_count;
		if (sync_string_equal(type->columns[column].name, name))
			return column;
	}
	return -1;
}

/*
 * The bytes have been outside: nothing in values[] changes unless all of them
 * are right.
 */
bool
row_copy_merge(SyncString copy, const SyncRowType *type, SyncValue *values, SyncArena *arena)
{
	SyncValue  *stored = arena_array(arena, SyncValue, type->column_count);
	BsonReader	reader;
	BsonField	field;
	int			guess = 0;
	bool		complete = true;

	if (!bson_reader_init(&reader, copy))
		return false;
	while (bson_reader_next(&reader, &field))
	{
		int			column = find_column(type, field.name, guess);

		if (column < 0)
			continue;			/* dropped or renamed since */
		guess = column + 1 < type->column_count ? column + 1 : 0;
		if (stored[column].type == SYNC_UNDEFINED)
			stored[column] = field.value;
	}
	if (reader.failed)
		return false;

	for (int i = 0; i < type->column_count; i++)
	{
		if (values[i].type != SYNC_UNDEFINED)
			continue;
		if (stored[i].type == SYNC_UNDEFINED)
			complete = false;
		else
		{
			values[i] = stored[i];
			if (values[i].type == SYNC_TEXT || values[i].type == SYNC_BLOB)
				values[i].data = arena_strndup(arena, values[i].data, values[i].len);
		}
	}
	return complete;
}
