/*-------------------------------------------------------------------------
 *
 * fuzz_functions.c
 *	  Every function, operator and cast on values made from the input, the
 *	  rest of which is the first value's text.
 *
 * Must hold: a result's text is WTF-8 that text_well_formed() makes UTF-8; an
 * INTEGER that fits 64 bits is no BIGINT; order is the reverse of the reverse.
 *
 *-------------------------------------------------------------------------
 */
#include <math.h>
#include <string.h>

#include "expr.h"
#include "fuzz.h"
#include "number.h"
#include "text.h"
#include "value.h"

static const char *const names[] = {
	"upper", "lower", "substring", "hex", "base64", "length", "uuid_blob", "typeof", "ifnull", "iif",
	"instr", "json_extract", "json_array_length", "json_keys", "json_valid", "unixepoch", "datetime",
	"st_asgeojson", "st_astext", "st_x", "st_y",
};

static void
check_value(SyncValue value, SyncArena *arena)
{
	SyncString	text;
	SyncValue	again;

	switch (value.type)
	{
		case SYNC_TEXT:
			text = text_well_formed((SyncString) {value.data, value.len}, arena);
			fuzz_check(utf8_is_valid(text.data, text.len), "a text is WTF-8");
			break;
		case SYNC_BIGINT:
			again = integer_from_digits(value.data, value.len, arena);
			fuzz_check(value_identical(value, again), "a large integer is canonical");
			break;
		case SYNC_REAL:
			if (isnan(value.real))
				break;
			text = value_to_text(value, arena);
			fuzz_check(number_parse_float(text.data, text.len) == value.real,
					   "a number's text reads back as the number");
			break;
		default:
			break;
	}
}

static void
call(const SyncValue *values, ExprContext *context)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
	{
		SyncString	name = {names[i], (uint32_t) strlen(names[i])};
		const FunctionInfo *function = function_find(name);

		fuzz_check(function != NULL, names[i]);
		for (int count = 0; count <= 3; count++)
		{
			SyncValue	args[3] = {0};
			SyncValue	result;

			memcpy(args, values, sizeof(SyncValue) * (size_t) count);
			if (function->body(context, count, args, &result))
				check_value(result, context->arena);
			else
				fuzz_check_error(context->error);
		}
	}
}

static void
operate(SyncValue a, SyncValue b, ExprContext *context)
{
	SyncArena  *arena = context->arena;
	SyncError  *error = context->error;
	SyncValue	result;
	int			order;
	int			reverse;

	for (const char *op = "+-*/"; *op != '\0'; op++)
	{
		if (value_arithmetic(*op, a, b, arena, &result, error))
			check_value(result, arena);
		else
			fuzz_check_error(error);
	}
	for (int cast = VALUE_CAST_TEXT; cast <= VALUE_CAST_BLOB; cast++)
	{
		if (value_cast((ValueCast) cast, a, arena, &result, error))
			check_value(result, arena);
		else
			fuzz_check_error(error);
	}
	check_value(value_concat(a, b, arena), arena);
	check_value(value_normalize_lookup(a, arena), arena);
	value_is_true(a);
	fuzz_check(value_identical(a, a), "a value is itself");
	fuzz_check(value_loosely_equal(a, b) == value_loosely_equal(b, a), "== has no sides");
	if (!value_compare(a, b, &order, error) || !value_compare(b, a, &reverse, error))
		fuzz_check_error(error);
	else if (!(a.type == SYNC_REAL && isnan(a.real)) && !(b.type == SYNC_REAL && isnan(b.real)))
		fuzz_check(order == -reverse, "order is the reverse of the reverse");
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	SyncArena  *arena = fuzz_arena(FUZZ_MEMORY);
	FuzzSource	source = fuzz_source(data, size);
	SyncError	error;
	ExprContext context = {.arena = arena, .error = &error};
	SyncValue	values[3];
	SyncString	text;

	values[1] = fuzz_value(&source, arena);
	values[2] = fuzz_value(&source, arena);
	context.fixed_json = fuzz_byte(&source) % 2;
	text = text_from_bytes((const char *) source.next, (size_t) (source.end - source.next), arena);
	values[0] = value_text(text.data, text.len);
	call(values, &context);
	operate(values[0], values[1], &context);
	operate(values[2], values[1], &context);
	values[0] = value_blob((const char *) source.next, (size_t) (source.end - source.next));
	call(values, &context);
	operate(values[0], values[2], &context);
	values[0] = fuzz_value(&source, arena);
	call(values, &context);
	arena_destroy(arena);
	return 0;
}
