/*-------------------------------------------------------------------------
 *
 * printed.c
 *	  Values that PostgreSQL has printed, read as the service reads them:
 *	  sync-rules.md, section 10.
 *
 * The service knows a value by its text alone, and a text that it cannot read
 * stays a text.  Which texts those are follows from its notion of the type, which
 * is not always PostgreSQL's: fields go to the names it lists, and the type of a
 * field to its reading, whether they belong together or not.
 *
 * What is not here: which type is read how (src/pg/value_type.c), and common
 * types, which are never printed (src/pg/value_direct.c).
 *
 * Invariant: the result depends on text, type and options alone; whatever the
 * bytes are, reading ends, and takes memory in proportion to them and to what it
 * writes, which has a limit.
 *
 *-------------------------------------------------------------------------
 */
#include <math.h>
#include <string.h>

#include "json.h"
#include "number.h"
#include "printed.h"
#include "text.h"

/* beyond it nothing is read; between PRINTED_MAX_DEPTH and this one an unreadable text may show up */
#define READING_DEPTH	100

typedef enum Outcome
{
	READ,
	UNREADABLE,					/* the text stays */
	BEYOND_LIMIT				/* too deep, or too large */
} Outcome;

typedef struct Reader
{
	const PrintedOptions *options;
	SyncArena  *arena;
	SyncBuffer	json;
	bool		too_deep;		/* counts if the text is readable to its end */
	struct Fields *fields;		/* NULL, or one for each depth */
} Reader;

/* a text being read */
typedef struct Cursor
{
	const char *at;
	const char *end;
} Cursor;

/* what stands between two delimiters */
typedef struct Field
{
	bool		is_null;
	SyncString	text;
} Field;

/* those of a composite; used again by the next one at its depth */
typedef struct Fields
{
	Field	   *fields;
	size_t		room;
} Fields;

static bool
take(Cursor *cursor, char c)
{
	if (cursor->at == cursor->end || *cursor->at != c)
		return false;
	cursor->at++;
	return true;
}

/* ---------------------------------------------------------------- scalars */

static SyncString
trimmed(SyncString text)
{
	size_t		n = text_skip_space(text.data, text.len);

	text.data += n;
	text.len -= (uint32_t) n;
	/* at the end; what stands between is walked over once, however much it is */
	for (size_t i = 0; i < text.len; i += n + 1)
	{
		n = text_skip_space(text.data + i, text.len - i);
		if (i + n == text.len)
		{
			text.len = (uint32_t) i;
			break;
		}
	}
	return text;
}

static int
digit_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
		return (c | 0x20) - 'a' + 10;
	return 99;
}

/* 0x, 0o and 0b; 0: none of these */
static int
prefixed_base(SyncString text)
{
	if (text.len < 3 || text.data[0] != '0')
		return 0;
	switch (text.data[1] | 0x20)
	{
		case 'x':
			return 16;
		case 'o':
			return 8;
		case 'b':
			return 2;
		default:
			return 0;
	}
}

/* false: not such a number, or it does not fit */
static bool
read_prefixed(SyncString text, int base, uint64_t *number)
{
	*number = 0;
	for (uint32_t i = 2; i < text.len; i++)
	{
		int			digit = digit_value(text.data[i]);

		if (digit >= base || *number > (UINT64_MAX >> 4))
			return false;
		*number = *number * (unsigned) base + (unsigned) digit;
	}
	return true;
}

/* JavaScript's BigInt(text); false: it throws */
static bool
read_integer(SyncString text, SyncArena *arena, SyncValue *value)
{
	uint32_t	i = 0;
	int			base;

	text = trimmed(text);
	if (text.len == 0)
	{
		*value = value_integer(0);
		return true;
	}
	base = prefixed_base(text);
	if (base > 0)
	{
		uint64_t	number;

		if (!read_prefixed(text, base, &number) || number > INT64_MAX)
			return false;
		*value = value_integer((int64_t) number);
		return true;
	}
	if (text.data[0] == '-' || text.data[0] == '+')
		i = 1;
	if (i == text.len)
		return false;
	for (; i < text.len; i++)
		if (text.data[i] < '0' || text.data[i] > '9')
			return false;
	*value = integer_from_digits(text.data, text.len, arena);
	return true;
}

/* JavaScript's Number(text) */
static double
read_real(SyncString text)
{
	DecimalPrefix number;
	const char *name;
	size_t		len;
	int			base;

	text = trimmed(text);
	if (text.len == 0)
		return 0;
	base = prefixed_base(text);
	if (base > 0)
	{
		uint64_t	value;

		return read_prefixed(text, base, &value) ? (double) value : NAN;
	}
	name = text.data;
	len = text.len;
	if (*name == '-' || *name == '+')
	{
		name++;
		len--;
	}
	if (len == 8 && memcmp(name, "Infinity", 8) == 0)
		return *text.data == '-' ? -INFINITY : INFINITY;
	number = number_scan(text.data, text.len);
	return number.len == text.len ? number_parse(text.data, text.len) : NAN;
}

/* false: it throws */
static bool
read_bytea(SyncString text, SyncArena *arena, SyncValue *value)
{
	char	   *bytes;
	uint32_t	len = 0;

	if (text.len < 2 || text.data[0] != '\\' || text.data[1] != 'x')
		return false;
	bytes = arena_alloc(arena, text.len / 2);
	for (uint32_t i = 2; i + 1 < text.len; i += 2)
	{
		int			high = digit_value(text.data[i]);
		int			low = digit_value(text.data[i + 1]);

		if (high > 15 || low > 15)
			break;
		bytes[len++] = (char) (high << 4 | low);
	}
	*value = value_blob(bytes, len);
	return true;
}

static bool
text_is(SyncString text, const char *word)
{
	return text.len == strlen(word) && memcmp(text.data, word, text.len) == 0;
}

/* the end of a run of characters of a set */
static const char *
skip_set(const char *at, const char *end, const char *set)
{
	while (at < end && *at != '\0' && strchr(set, *at) != NULL)
		at++;
	return at;
}

/* ".digits"; NULL: a point without a digit */
static const char *
skip_fraction(const char *at, const char *end)
{
	const char *digits;

	if (at == end || *at != '.')
		return at;
	digits = skip_set(at + 1, end, "0123456789");
	return digits == at + 1 ? NULL : digits;
}

/* With iso8601 exactly the digits asked for, cut and not rounded; else as printed. */
static void
append_fraction(SyncBuffer *buffer, const PrintedOptions *options, const char *from,
				const char *to)
{
	size_t		digits = (size_t) options->fraction_digits;
	size_t		given = to > from ? (size_t) (to - from) - 1 : 0;

	if (!options->iso8601)
	{
		buffer_append(buffer, from, (size_t) (to - from));
		return;
	}
	if (digits == 0)
		return;
	buffer_append_char(buffer, '.');
	if (given > 0)
		buffer_append(buffer, from + 1, given < digits ? given : digits);
	for (size_t i = given; i < digits; i++)
		buffer_append_char(buffer, '0');
}

static SyncValue
buffer_value(const SyncBuffer *buffer)
{
	SyncString	text = buffer_string(buffer);

	return value_text(text.data, text.len);
}

static SyncValue
read_time(SyncString text, const PrintedOptions *options, SyncArena *arena)
{
	const char *end = text.data + text.len;
	const char *fraction = skip_set(text.data, end, "0123456789:");
	const char *after = skip_fraction(fraction, end);
	SyncBuffer	buffer;

	if (fraction == text.data || after != end)
		return value_null();
	buffer_init(&buffer, arena, 24);
	buffer_append(&buffer, text.data, (size_t) (fraction - text.data));
	append_fraction(&buffer, options, fraction, after);
	return buffer_value(&buffer);
}

/*
 * sync-rules.md, 10.3: what is not of the form "date time[.fraction][offset]" is
 * NULL.  With a zone the offset is that of UTC, and a year of more than four digits
 * cannot be read.
 */
static SyncValue
read_timestamp(SyncString text, bool with_zone, const PrintedOptions *options, SyncArena *arena)
{
	SyncBuffer	buffer;
	char		separator = options->iso8601 ? 'T' : ' ';

	buffer_init(&buffer, arena, 40);
	if (text_is(text, "infinity") || text_is(text, "-infinity"))
	{
		bool		future = text.data[0] == 'i';

		buffer_append(&buffer, future ? "9999-12-31" : "0000-01-01", 10);
		buffer_append_char(&buffer, separator);
		buffer_append(&buffer, future ? "23:59:59" : "00:00:00", 8);
		append_fraction(&buffer, options, NULL, NULL);
	}
	else
	{
		const char *end = text.data + text.len;
		const char *date = skip_set(text.data, end, "0123456789-");
		const char *time;
		const char *fraction;
		const char *offset;

		if (date == text.data || date == end || *date != ' ')
			return value_null();
		time = date + 1;
		fraction = skip_set(time, end, "0123456789:");
		offset = skip_fraction(fraction, end);
		if (fraction == time || offset == NULL)
			return value_null();
		if (offset < end && (*offset == '+' || *offset == '-') &&
			offset + 1 < end && skip_set(offset + 1, end, "0123456789:") == end)
			end = offset;
		if (offset != end || (with_zone && date - text.data != 10))
			return value_null();
		if (!with_zone && !options->iso8601)
			return value_text(text.data, text.len);
		buffer_append(&buffer, text.data, (size_t) (date - text.data));
		buffer_append_char(&buffer, separator);
		buffer_append(&buffer, time, (size_t) (fraction - time));
		append_fraction(&buffer, options, fraction, offset);
	}
	if (with_zone)
		buffer_append_char(&buffer, 'Z');
	return buffer_value(&buffer);
}

static SyncValue
read_date(SyncString text)
{
	if (text_is(text, "infinity"))
		return value_text("9999-12-31", 10);
	if (text_is(text, "-infinity"))
		return value_text("0000-01-01", 10);
	return value_text(text.data, text.len);
}

static void
append_padded(SyncBuffer *buffer, const char *s, size_t len)
{
	for (size_t i = len; i < 8; i++)
		buffer_append_char(buffer, '0');
	buffer_append(buffer, s, len);
}

static bool
read_lsn(SyncString text, SyncArena *arena, SyncValue *value)
{
	const char *slash = memchr(text.data, '/', text.len);
	SyncBuffer	buffer;

	if (slash == NULL)
		return false;
	buffer_init(&buffer, arena, 17);
	append_padded(&buffer, text.data, (size_t) (slash - text.data));
	buffer_append_char(&buffer, '/');
	append_padded(&buffer, slash + 1, text.len - (size_t) (slash - text.data) - 1);
	*value = buffer_value(&buffer);
	return true;
}

/* false: unreadable */
static bool
read_scalar(PrintedKind kind, const PrintedOptions *options, SyncString text, SyncArena *arena,
			SyncValue *value)
{
	switch (kind)
	{
		case PRINTED_BOOL:
			*value = value_integer(text_is(text, "t") ? 1 : 0);
			return true;
		case PRINTED_INTEGER:
			return read_integer(text, arena, value);
		case PRINTED_REAL:
			*value = value_real(read_real(text));
			return true;
		case PRINTED_BYTEA:
			return read_bytea(text, arena, value);
		case PRINTED_DATE:
			*value = read_date(text);
			return true;
		case PRINTED_TIME:
			*value = read_time(text, options, arena);
			return true;
		case PRINTED_TIMESTAMP:
		case PRINTED_TIMESTAMPTZ:
			*value = read_timestamp(text, kind == PRINTED_TIMESTAMPTZ, options, arena);
			return true;
		case PRINTED_LSN:
			return read_lsn(text, arena, value);
		default:
			*value = value_text(text.data, text.len);
			return true;
	}
}

/* ---------------------------------------------------------------- fields */

/*
 * What is between quotation marks, without its escapes: a backslash before either
 * of the two, and a doubled mark if the structure has those.
 */
static bool
read_quoted(Cursor *cursor, bool doubled, SyncArena *arena, SyncString *text)
{
	const char *at = cursor->at + 1;
	const char *end = cursor->end;
	SyncBuffer	buffer;
	bool		escapes = false;

	/* most need no copy */
	while (at < end && *at != '"' && *at != '\\')
		at++;
	if (at < end && *at == '"' && !(doubled && at + 1 < end && at[1] == '"'))
	{
		*text = (SyncString) {cursor->at + 1, (uint32_t) (at - cursor->at - 1)};
		cursor->at = at + 1;
		return true;
	}
	buffer_init(&buffer, arena, (size_t) (at - cursor->at) + 15);
	buffer_append(&buffer, cursor->at + 1, (size_t) (at - cursor->at - 1));
	for (; at < end; at++)
	{
		if (escapes)
		{
			if (*at != '"' && *at != '\\')
				return false;
			escapes = false;
		}
		else if (*at == '\\')
		{
			escapes = true;
			continue;
		}
		else if (*at == '"')
		{
			if (!doubled || at + 1 == end || at[1] != '"')
			{
				*text = buffer_string(&buffer);
				cursor->at = at + 1;
				return true;
			}
			at++;
		}
		buffer_append_char(&buffer, *at);
	}
	return false;
}

/* Up to one of the two characters that end it; not over one of the other two. */
static bool
read_unquoted(Cursor *cursor, const char ends[2], const char *illegal, SyncString *text)
{
	const char *at = cursor->at;

	while (at < cursor->end && *at != ends[0] && *at != ends[1])
	{
		if (*at != '\0' && strchr(illegal, *at) != NULL)
			return false;
		at++;
	}
	if (at == cursor->end)
		return false;
	*text = (SyncString) {cursor->at, (uint32_t) (at - cursor->at)};
	cursor->at = at;
	return true;
}

/* ---------------------------------------------------------------- structures */

static Outcome append_printed(Reader *reader, const PrintedType *type, SyncString text, int depth);

static Outcome
check_room(const Reader *reader)
{
	return reader->options->limit != 0 && reader->json.len > reader->options->limit ?
		BEYOND_LIMIT : READ;
}

/* something stands at this depth: the outermost array or object is at 0 */
static Outcome
check_depth(Reader *reader, int depth)
{
	if (depth > PRINTED_MAX_DEPTH)
		reader->too_deep = true;
	return depth > READING_DEPTH ? BEYOND_LIMIT : READ;
}

static Outcome
append_null(Reader *reader, int depth)
{
	buffer_append(&reader->json, "null", 4);
	return check_depth(reader, depth);
}

/* What is in the braces of an array, or of one of its dimensions. */
static Outcome
append_elements(Reader *reader, const PrintedType *array, Cursor *cursor, int depth)
{
	const char	ends[2] = {array->delimiter, '}'};
	Outcome		outcome = check_depth(reader, depth);

	if (outcome != READ)
		return outcome;
	if (!take(cursor, '{'))
		return UNREADABLE;
	buffer_append_char(&reader->json, '[');
	if (take(cursor, '}'))
	{
		buffer_append_char(&reader->json, ']');
		return READ;
	}
	for (bool first = true; first || take(cursor, array->delimiter); first = false)
	{
		SyncString	text;

		if (!first)
			buffer_append_char(&reader->json, ',');
		if (cursor->at == cursor->end)
			return UNREADABLE;
		if (*cursor->at == '{')
			outcome = append_elements(reader, array, cursor, depth + 1);
		else if (*cursor->at == '"')
			outcome = read_quoted(cursor, false, reader->arena, &text) ?
				append_printed(reader, array->element, text, depth + 1) : UNREADABLE;
		else if (!read_unquoted(cursor, ends, "{\"", &text))
			outcome = UNREADABLE;
		else if (text_is(text, "NULL"))
			outcome = append_null(reader, depth + 1);
		else
			outcome = append_printed(reader, array->element, text, depth + 1);
		if (outcome == READ)
			outcome = check_room(reader);
		if (outcome != READ)
			return outcome;
	}
	if (!take(cursor, '}'))
		return UNREADABLE;
	buffer_append_char(&reader->json, ']');
	return READ;
}

static Outcome
append_array(Reader *reader, const PrintedType *type, SyncString text, int depth)
{
	Cursor		cursor = {text.data, text.data + text.len};
	Outcome		outcome;

	/* bounds: [2:4]={...} */
	if (text.len > 0 && text.data[0] == '[')
	{
		const char *equals = memchr(text.data, '=', text.len);

		if (equals == NULL)
			return UNREADABLE;
		cursor.at = equals + 1;
	}
	outcome = append_elements(reader, type, &cursor, depth);
	return outcome == READ && cursor.at != cursor.end ? UNREADABLE : outcome;
}

/*
 * Room for the fields of a composite at this depth.  There are not more than bytes,
 * whatever the type has: of dropped attributes nothing is printed.
 */
static Field *
fields_at(Reader *reader, int depth, const PrintedType *type, SyncString text)
{
	size_t		need = (size_t) type->member_count;
	Fields	   *at;

	if (need > text.len)
		need = text.len;
	if (reader->fields == NULL)
	{
		reader->fields = arena_array(reader->arena, Fields, READING_DEPTH + 1);
		memset(reader->fields, 0, sizeof(Fields) * (READING_DEPTH + 1));
	}
	at = &reader->fields[depth];
	if (at->room < need)
	{
		at->room = need > at->room * 2 ? need : at->room * 2;
		at->fields = arena_array(reader->arena, Field, at->room);
	}
	return at->fields;
}

/* The fields of a composite's text; those without a name are left out. */
static Outcome
read_fields(Reader *reader, const PrintedType *type, SyncString text, Field *fields, int *count)
{
	static const char ends[2] = {',', ')'};
	Cursor		cursor = {text.data, text.data + text.len};

	*count = 0;
	if (!take(&cursor, '('))
		return UNREADABLE;
	for (bool first = true; first || take(&cursor, ','); first = false)
	{
		Field		field = {.is_null = false};

		if (cursor.at == cursor.end)
			return UNREADABLE;
		if (*cursor.at == '"')
		{
			if (!read_quoted(&cursor, true, reader->arena, &field.text))
				return UNREADABLE;
		}
		else
		{
			if (!read_unquoted(&cursor, ends, "(\"", &field.text))
				return UNREADABLE;
			field.is_null = field.text.len == 0;
		}
		if (*count < type->member_count)
			fields[(*count)++] = field;
	}
	return take(&cursor, ')') && cursor.at == cursor.end ? READ : UNREADABLE;
}

static bool
is_blob(const PrintedType *type)
{
	return type->kind == PRINTED_BYTEA;
}

/*
 * Appends "key":value.  A blob has no JSON: its key is left out, but its text has
 * to be readable all the same.
 */
static Outcome
append_member(Reader *reader, bool *first, SyncString key, const PrintedType *type,
			  const Field *field, int depth)
{
	Outcome		outcome;
	size_t		start = reader->json.len;

	if (!*first)
		buffer_append_char(&reader->json, ',');
	json_append_text(&reader->json, key.data, key.len);
	buffer_append_char(&reader->json, ':');
	if (field->is_null)
		outcome = append_null(reader, depth);
	else
		outcome = append_printed(reader, type, field->text, depth);
	if (is_blob(type) && !field->is_null)
		reader->json.len = start;
	else
		*first = false;
	return outcome == READ ? check_room(reader) : outcome;
}

static Outcome
append_composite(Reader *reader, const PrintedType *type, SyncString text, int depth)
{
	Field	   *fields;
	Outcome		outcome = check_depth(reader, depth);
	int			count = 0;
	bool		first = true;

	if (outcome != READ)
		return outcome;
	fields = fields_at(reader, depth, type, text);
	outcome = read_fields(reader, type, text, fields, &count);
	buffer_append_char(&reader->json, '{');
	for (int i = 0; i < type->member_count && outcome == READ; i++)
	{
		int			m = type->order != NULL ? type->order[i] : i;

		if (m < count)
			outcome = append_member(reader, &first, type->names[m], type->members[m], &fields[m],
									depth + 1);
	}
	buffer_append_char(&reader->json, '}');
	return outcome;
}

static bool
read_bound(Reader *reader, Cursor *cursor, const char ends[2], Field *field)
{
	if (cursor->at == cursor->end)
		return false;
	field->is_null = false;
	if (*cursor->at == '"')
		return read_quoted(cursor, true, reader->arena, &field->text);
	if (!read_unquoted(cursor, ends, "", &field->text))
		return false;
	field->is_null = field->text.len == 0;
	return true;
}

static void
append_flag(Reader *reader, const char *key, bool value)
{
	buffer_append(&reader->json, key, strlen(key));
	buffer_append_char(&reader->json, value ? '1' : '0');
}

static Outcome
append_range(Reader *reader, const PrintedType *type, Cursor *cursor, int depth)
{
	static const char before_upper[2] = {',', ','};
	static const char after_upper[2] = {')', ']'};
	Outcome		outcome = READ;
	Field		lower;
	Field		upper;
	bool		lower_exclusive;
	bool		upper_exclusive;
	bool		first = true;

	if (cursor->end - cursor->at >= 5 && memcmp(cursor->at, "empty", 5) == 0)
	{
		cursor->at += 5;
		buffer_append(&reader->json, "\"empty\"", 7);
		return READ;
	}
	outcome = check_depth(reader, depth);
	if (outcome != READ)
		return outcome;
	lower_exclusive = take(cursor, '(');
	if (!lower_exclusive && !take(cursor, '['))
		return UNREADABLE;
	if (!read_bound(reader, cursor, before_upper, &lower) || !take(cursor, ',') ||
		!read_bound(reader, cursor, after_upper, &upper))
		return UNREADABLE;
	upper_exclusive = take(cursor, ')');
	if (!upper_exclusive && !take(cursor, ']'))
		return UNREADABLE;

	buffer_append_char(&reader->json, '{');
	outcome = append_member(reader, &first, sync_string_literal("lower"), type->element, &lower,
							depth + 1);
	if (outcome == READ)
		outcome = append_member(reader, &first, sync_string_literal("upper"), type->element,
								&upper, depth + 1);
	append_flag(reader, first ? "\"lower_exclusive\":" : ",\"lower_exclusive\":", lower_exclusive);
	append_flag(reader, ",\"upper_exclusive\":", upper_exclusive);
	buffer_append_char(&reader->json, '}');
	return outcome;
}

static Outcome
append_multirange(Reader *reader, const PrintedType *type, Cursor *cursor, int depth)
{
	Outcome		outcome = check_depth(reader, depth);

	if (outcome != READ)
		return outcome;
	if (!take(cursor, '{'))
		return UNREADABLE;
	buffer_append_char(&reader->json, '[');
	if (!take(cursor, '}'))
	{
		for (bool first = true; first || take(cursor, ','); first = false)
		{
			if (!first)
				buffer_append_char(&reader->json, ',');
			outcome = append_range(reader, type, cursor, depth + 1);
			if (outcome == READ)
				outcome = check_room(reader);
			if (outcome != READ)
				return outcome;
		}
		if (!take(cursor, '}'))
			return UNREADABLE;
	}
	buffer_append_char(&reader->json, ']');
	return READ;
}

/* Appends the JSON of a text at this depth. */
static Outcome
append_printed(Reader *reader, const PrintedType *type, SyncString text, int depth)
{
	Cursor		cursor = {text.data, text.data + text.len};
	Outcome		outcome;
	SyncValue	value;

	switch (type->kind)
	{
		case PRINTED_ARRAY:
			return append_array(reader, type, text, depth);
		case PRINTED_COMPOSITE:
			return append_composite(reader, type, text, depth);
		case PRINTED_RANGE:
			outcome = append_range(reader, type, &cursor, depth);
			break;
		case PRINTED_MULTIRANGE:
			outcome = append_multirange(reader, type, &cursor, depth);
			break;
		case PRINTED_JSON:
			buffer_append(&reader->json, text.data, text.len);
			return check_depth(reader, depth);
		default:
			if (!read_scalar(type->kind, reader->options, text, reader->arena, &value))
				return UNREADABLE;
			json_append_value(&reader->json, value);
			return check_depth(reader, depth);
	}
	return outcome == READ && cursor.at != cursor.end ? UNREADABLE : outcome;
}

/* ---------------------------------------------------------------- entry */

bool
printed_value(const PrintedType *type, const PrintedOptions *options, SyncString text,
			  SyncArena *arena, SyncValue *value, SyncError *error)
{
	Reader		reader = {.options = options, .arena = arena};
	Outcome		outcome;

	*value = value_text(text.data, text.len);
	if (type->kind < PRINTED_ARRAY)
	{
		if (!read_scalar(type->kind, options, text, arena, value))
			*value = value_text(text.data, text.len);
		return true;
	}
	/* an empty range is a word of its own, not a text in JSON */
	if (type->kind == PRINTED_RANGE && text_is(text, "empty"))
		return true;
	buffer_init(&reader.json, arena, 64);
	outcome = append_printed(&reader, type, text, 0);
	if (outcome == BEYOND_LIMIT && check_room(&reader) != READ)
	{
		sync_error_set(error, SYNC_ERROR_LIMIT, "the value has more than %zu bytes as JSON",
					   options->limit);
		return false;
	}
	if (outcome == BEYOND_LIMIT || (outcome == READ && reader.too_deep))
	{
		sync_error_set(error, SYNC_ERROR_LIMIT,
					   "arrays and composites are nested more than %d levels deep",
					   PRINTED_MAX_DEPTH);
		return false;
	}
	if (outcome == READ)
		*value = buffer_value(&reader.json);
	return true;
}

bool
printed_order_members(const PrintedType *type, int *order)
{
	uint32_t	index;
	int			count = 0;

	/* array indexes, ascending */
	for (int i = 0; i < type->member_count; i++)
	{
		int			at = count;

		if (!text_array_index(type->names[i], &index))
			continue;
		for (; at > 0; at--)
		{
			uint32_t	other = 0;

			(void) text_array_index(type->names[order[at - 1]], &other);
			if (other <= index)
				break;
			order[at] = order[at - 1];
		}
		order[at] = i;
		count++;
	}
	if (count == 0)
		return false;
	for (int i = 0; i < type->member_count; i++)
		if (!text_array_index(type->names[i], &index))
			order[count++] = i;
	return true;
}
