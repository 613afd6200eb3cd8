/*-------------------------------------------------------------------------
 *
 * yaml.c
 *	  Builds the node tree of yaml_node.h from libyaml's events.
 *
 * libyaml only parses; what scalars mean, which keys are duplicates and what
 * an alias is good for is decided here (sync-rules.md, section 1).
 *
 * libyaml is pulled event by event and never calls back, so allocating from
 * the arena between two pulls jumps over no frame of it.  The parser and the
 * event in hand own malloc'ed memory: a guard frees them before the jump goes
 * on.
 *
 *-------------------------------------------------------------------------
 */
#include <limits.h>
#include <string.h>
#include <yaml.h>

#include "text.h"
#include "yaml_node.h"
#include "yaml_text.h"

/* an open map or sequence */
typedef struct YamlLevel
{
	YamlNode   *node;
	YamlNode   *key;			/* MAP: read, its value is still to come */
	int			capacity;
	bool		in_brackets;
	int			column;			/* of its entries, from 0, unless in brackets */
} YamlLevel;

typedef struct YamlReader
{
	SyncArena  *arena;
	SyncError  *error;
	const char *text;
	size_t		len;
	YamlLines	lines;			/* of text, once they are wanted */
	bool		hides_surrogates;
	yaml_parser_t parser;
	yaml_event_t event;
	bool		has_event;
	bool		failed;
	int			node_count;
	int			depth;
	YamlLevel	levels[SYNC_YAML_MAX_DEPTH];
	YamlNode   *root;
} YamlReader;

static void
reader_fail_at(YamlReader *reader, SyncErrorCode code, int line, int column, const char *message)
{
	if (reader->failed)
		return;
	reader->failed = true;
	sync_error_set(reader->error, code, "%s", message);
	reader->error->line = line;
	reader->error->column = column;
}

static void
reader_fail(YamlReader *reader, SyncErrorCode code, const char *message)
{
	reader_fail_at(reader, code, (int) reader->event.start_mark.line + 1,
				   (int) reader->event.start_mark.column + 1, message);
}

/* ---------------------------------------------------------------- scalars */

static bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool
text_is_any(SyncString s, const char *const *words)
{
	for (; *words != NULL; words++)
	{
		if (strlen(*words) == s.len && memcmp(*words, s.data, s.len) == 0)
			return true;
	}
	return false;
}

/* 0x1F and 0o17: the core schema allows no sign there */
static bool
scalar_is_radix_number(SyncString s, YamlNode *node)
{
	int			base;
	uint64_t	value = 0;
	bool		overflow = false;

	if (s.len < 3 || s.data[0] != '0' || (s.data[1] != 'x' && s.data[1] != 'o'))
		return false;
	base = s.data[1] == 'x' ? 16 : 8;
	for (uint32_t i = 2; i < s.len; i++)
	{
		int			digit = hex_digit(s.data[i]);

		if (digit < 0 || digit >= base)
			return false;
		if (value > (uint64_t) INT64_MAX / 16)
			overflow = true;
		value = value * (uint64_t) base + (uint64_t) digit;
	}
	node->is_integer = !overflow;
	node->integer = overflow ? 0 : (int64_t) value;
	return true;
}

/*
 * [-+]? ( digits [. digits*] | . digits ) ( [eE] [-+]? digits )?
 *
 * Nothing in a sync config takes a fraction, so a number's value is only kept
 * when it is integral: digits with trailing zeros moved over the point.
 */
static bool
scalar_is_decimal_number(SyncString s, YamlNode *node)
{
	uint32_t	i = 0;
	bool		negative = false;
	bool		too_large = false;
	int			digits = 0;
	int64_t		mantissa = 0;
	int64_t		scale = 0;		/* digits after the point taken into mantissa */
	int64_t		exponent = 0;
	bool		exponent_negative = false;

	if (i < s.len && (s.data[i] == '-' || s.data[i] == '+'))
		negative = s.data[i++] == '-';
	for (bool point = false; i < s.len; i++)
	{
		if (s.data[i] == '.' && !point)
			point = true;
		else if (is_digit(s.data[i]))
		{
			digits++;
			if (mantissa > (INT64_MAX - 9) / 10)
				too_large = true;
			else
			{
				mantissa = mantissa * 10 + (s.data[i] - '0');
				scale += point;
			}
		}
		else
			break;
	}
	if (digits == 0)
		return false;
	if (i < s.len && (s.data[i] == 'e' || s.data[i] == 'E'))
	{
		i++;
		if (i < s.len && (s.data[i] == '-' || s.data[i] == '+'))
			exponent_negative = s.data[i++] == '-';
		if (i == s.len)
			return false;
		for (; i < s.len && is_digit(s.data[i]); i++)
		{
			if (exponent < 10000)
				exponent = exponent * 10 + (s.data[i] - '0');
		}
	}
	if (i != s.len)
		return false;

	scale -= exponent_negative ? -exponent : exponent;
	while (mantissa != 0 && scale > 0 && mantissa % 10 == 0)
	{
		mantissa /= 10;
		scale--;
	}
	while (mantissa != 0 && scale < 0 && !too_large)
	{
		if (mantissa > INT64_MAX / 10)
			too_large = true;
		else
			mantissa *= 10;
		scale++;
	}
	node->is_integer = !too_large && (mantissa == 0 || scale == 0);
	node->integer = !node->is_integer ? 0 : negative ? -mantissa : mantissa;
	return true;
}

/* types a plain scalar by the core schema */
static void
scalar_resolve(YamlNode *node)
{
	static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
	static const char *const trues[] = {"true", "True", "TRUE", NULL};
	static const char *const falses[] = {"false", "False", "FALSE", NULL};
	static const char *const floats[] = {".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF",
		"-.inf", "-.Inf", "-.INF", ".nan", ".NaN", ".NAN", NULL};

	if (text_is_any(node->text, nulls))
		node->kind = YAML_KIND_NULL;
	else if (text_is_any(node->text, trues))
	{
		node->kind = YAML_KIND_BOOL;
		node->boolean = true;
	}
	else if (text_is_any(node->text, falses))
		node->kind = YAML_KIND_BOOL;
	else if (text_is_any(node->text, floats) ||
			 scalar_is_radix_number(node->text, node) ||
			 scalar_is_decimal_number(node->text, node))
		node->kind = YAML_KIND_NUMBER;
	else
		node->kind = YAML_KIND_TEXT;
}

/* an explicit tag of the core schema must agree with the text: 1 is no float */
static YamlKind
scalar_kind_of_tag(const char *tag)
{
	static const struct
	{
		const char *tag;
		YamlKind	kind;
	}			tags[] = {
		{YAML_NULL_TAG, YAML_KIND_NULL},
		{YAML_BOOL_TAG, YAML_KIND_BOOL},
		{YAML_INT_TAG, YAML_KIND_NUMBER},
		{YAML_FLOAT_TAG, YAML_KIND_NUMBER},
	};

	for (size_t i = 0; i < sizeof(tags) / sizeof(tags[0]); i++)
	{
		if (strcmp(tag, tags[i].tag) == 0)
			return tags[i].kind;
	}
	return YAML_KIND_OPAQUE;
}

static void
scalar_type(YamlNode *node, const char *tag, bool plain)
{
	if (tag == NULL)
	{
		if (plain)
			scalar_resolve(node);
		else
			node->kind = YAML_KIND_TEXT;
	}
	else if (strcmp(tag, "!") == 0 || strcmp(tag, YAML_STR_TAG) == 0)
		node->kind = YAML_KIND_TEXT;
	else
	{
		YamlKind	wanted = scalar_kind_of_tag(tag);

		scalar_resolve(node);
		if (node->kind != wanted ||
			(strcmp(tag, YAML_FLOAT_TAG) == 0 && strpbrk(node->text.data, ".eE") == NULL))
			node->kind = YAML_KIND_OPAQUE;
	}
}

/* ---------------------------------------------------------------- positions */

typedef struct TextCursor
{
	const char *text;
	size_t		len;
	size_t		at;
	int			line;
	int			column;
} TextCursor;

static size_t
break_size(const TextCursor *cursor)
{
	return yaml_break_size(cursor->text + cursor->at, cursor->len - cursor->at);
}

/* over a character or a line break */
static void
cursor_step(TextCursor *cursor)
{
	size_t		size = break_size(cursor);

	if (size > 0)
	{
		cursor->at += size;
		cursor->line++;
		cursor->column = 1;
		return;
	}
	do
		cursor->at++;
	while (cursor->at < cursor->len && ((unsigned char) cursor->text[cursor->at] & 0xC0) == 0x80);
	cursor->column++;
}

static char
cursor_char(const TextCursor *cursor)
{
	return cursor->at < cursor->len ? cursor->text[cursor->at] : '\0';
}

/* an editor shows the first character after it in column 1 */
static void
skip_byte_order_mark(const char **text, size_t *len)
{
	if (*len < 3 || memcmp(*text, "\xEF\xBB\xBF", 3) != 0)
		return;
	*text += 3;
	*len -= 3;
}

static bool
is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* ---------------------------------------------------------------- indentation */

/* of the entries of the innermost map or list without brackets; -1: there is none */
static int
block_column(const YamlReader *reader)
{
	for (int i = reader->depth - 1; i >= 0; i--)
	{
		if (!reader->levels[i].in_brackets)
			return reader->levels[i].column;
	}
	return -1;
}

/*
 * The lines after the first of what is in quotes or brackets are indented
 * further than what holds it.  Only the bracket that closes may stand below the
 * entry that it belongs to; brackets hold comments, too.
 */
static void
check_indentation(YamlReader *reader, const yaml_mark_t *start, const yaml_mark_t *end,
				  bool brackets)
{
	int			column = block_column(reader);

	if (start->line == end->line || column < 0)
		return;
	if (reader->lines.lines == NULL)
		reader->lines = yaml_lines(reader->text, reader->len, reader->arena);
	for (size_t i = start->line + 1; i <= end->line && i < reader->lines.count; i++)
	{
		const YamlLine *line = &reader->lines.lines[i];

		if (line->first == '\0' || (int) line->spaces > column ||
			(brackets && line->first == '#'))
			continue;
		if (brackets && i == end->line && line->column + 1 == end->column &&
			(int) line->spaces == column)
			continue;
		reader_fail_at(reader, SYNC_ERROR_SYNTAX, (int) i + 1, (int) line->column + 1,
					   brackets ?
					   "invalid YAML: a line inside brackets is not indented further than what holds them" :
					   "invalid YAML: a line of a quoted text is not indented further than what holds it");
		return;
	}
}

/* ---------------------------------------------------------------- tree */

static YamlNode *
node_new(YamlReader *reader, YamlKind kind)
{
	YamlNode   *node;

	if (++reader->node_count > SYNC_YAML_MAX_NODES)
	{
		reader_fail(reader, SYNC_ERROR_LIMIT, "the YAML document has too many values");
		return NULL;
	}
	node = arena_new(reader->arena, YamlNode);
	node->kind = kind;
	node->line = (int) reader->event.start_mark.line + 1;
	node->column = (int) reader->event.start_mark.column + 1;
	return node;
}

static uint32_t
text_hash(SyncString s)
{
	uint32_t	hash = 2166136261u;

	for (uint32_t i = 0; i < s.len; i++)
		hash = (hash ^ (uint8_t) s.data[i]) * 16777619u;
	return hash;
}

/* two keys of one map are the same; found by hashing, as a map may be large */
static void
map_check_unique(YamlReader *reader, const YamlNode *map)
{
	size_t		size = 8;
	int		   *slots;

	while (size < (size_t) map->count * 2)
		size *= 2;
	slots = arena_array(reader->arena, int, size);
	for (int i = 0; i < map->count; i++)
	{
		const YamlNode *key = map->entries[i].key;
		size_t		at = text_hash(key->text) & (size - 1);

		while (slots[at] != 0)
		{
			const YamlNode *other = map->entries[slots[at] - 1].key;

			if (other->kind == key->kind && sync_string_equal(other->text, key->text))
			{
				char		message[200];

				snprintf(message, sizeof(message), "the key \"%.*s\" appears twice in one map",
						 key->text.len > 80 ? 80 : (int) key->text.len, key->text.data);
				reader_fail_at(reader, SYNC_ERROR_SYNTAX, key->line, key->column, message);
				return;
			}
			at = (at + 1) & (size - 1);
		}
		slots[at] = i + 1;
	}
}

static void
sequence_append(YamlReader *reader, YamlLevel *level, YamlNode *node)
{
	YamlNode   *sequence = level->node;

	if (sequence->count == level->capacity)
	{
		int			capacity = level->capacity == 0 ? 4 : level->capacity * 2;

		sequence->items = arena_grow(reader->arena, sequence->items,
									 sizeof(YamlNode *) * (size_t) level->capacity,
									 sizeof(YamlNode *) * (size_t) capacity);
		level->capacity = capacity;
	}
	sequence->items[sequence->count++] = node;
}

static void
map_append(YamlReader *reader, YamlLevel *level, YamlNode *node)
{
	YamlNode   *map = level->node;

	if (level->key == NULL)
	{
		if (!yaml_is_scalar(node))
			reader_fail(reader, SYNC_ERROR_SYNTAX, "a map key must be a text");
		level->key = node;
		return;
	}
	if (map->count == level->capacity)
	{
		int			capacity = level->capacity == 0 ? 4 : level->capacity * 2;

		map->entries = arena_grow(reader->arena, map->entries,
								  sizeof(YamlEntry) * (size_t) level->capacity,
								  sizeof(YamlEntry) * (size_t) capacity);
		level->capacity = capacity;
	}
	map->entries[map->count++] = (YamlEntry) {level->key, node};
	level->key = NULL;
}

/* hangs a node where the document puts it */
static void
node_attach(YamlReader *reader, YamlNode *node)
{
	YamlLevel  *level;

	if (reader->depth == 0)
	{
		reader->root = node;
		return;
	}
	level = &reader->levels[reader->depth - 1];
	if (level->node->kind == YAML_KIND_MAP)
		map_append(reader, level, node);
	else
		sequence_append(reader, level, node);
}

/* in_brackets: as in JSON; column: of the entries otherwise */
static void
level_open(YamlReader *reader, YamlKind kind, bool in_brackets, size_t column)
{
	YamlNode   *node = node_new(reader, kind);

	if (node == NULL)
		return;
	node_attach(reader, node);
	if (reader->failed)
		return;
	if (reader->depth == SYNC_YAML_MAX_DEPTH)
	{
		reader_fail(reader, SYNC_ERROR_LIMIT, "the YAML document is nested too deeply");
		return;
	}
	reader->levels[reader->depth++] = (YamlLevel)
	{
		.node = node, .in_brackets = in_brackets, .column = (int) column
	};
}

static void
level_close(YamlReader *reader)
{
	const YamlLevel *level = &reader->levels[--reader->depth];
	YamlNode   *node = level->node;
	yaml_mark_t start = {.line = (size_t) node->line - 1};

	if (level->in_brackets && (reader->depth == 0 || !level[-1].in_brackets))
		check_indentation(reader, &start, &reader->event.end_mark, true);
	if (node->kind == YAML_KIND_MAP)
		map_check_unique(reader, node);
}

/*
 * The column of the entries of a list without brackets.  libyaml's event begins at
 * the tag or anchor if it has one, and ends behind the first dash if the list is
 * not indented: then that is one too many.
 */
static size_t
list_column(const yaml_event_t *event)
{
	bool		is_marked = event->data.sequence_start.tag != NULL ||
		event->data.sequence_start.anchor != NULL;

	if (!is_marked)
		return event->start_mark.column;
	return event->end_mark.column > 0 ? event->end_mark.column - 1 : 0;
}

/* a collection with a foreign tag is no map or sequence any more */
static bool
collection_tag_is_foreign(const yaml_char_t *tag, const char *own)
{
	return tag != NULL && strcmp((const char *) tag, "!") != 0 &&
		strcmp((const char *) tag, own) != 0;
}

static void
read_scalar(YamlReader *reader)
{
	const yaml_event_t *event = &reader->event;
	yaml_scalar_style_t style = event->data.scalar.style;
	YamlNode   *node = node_new(reader, YAML_KIND_TEXT);

	if (node == NULL)
		return;
	node->text.data = arena_strndup(reader->arena, (const char *) event->data.scalar.value,
									event->data.scalar.length);
	node->text.len = (uint32_t) event->data.scalar.length;
	if (reader->hides_surrogates)
	{
		node->text = yaml_show_surrogates(node->text, style == YAML_DOUBLE_QUOTED_SCALAR_STYLE,
										  reader->arena);
		if (node->text.data == NULL)
		{
			reader_fail(reader, SYNC_ERROR_SYNTAX, "invalid YAML: half of a surrogate pair");
			return;
		}
	}
	if (style == YAML_DOUBLE_QUOTED_SCALAR_STYLE || style == YAML_SINGLE_QUOTED_SCALAR_STYLE)
		check_indentation(reader, &event->start_mark, &event->end_mark, false);
	scalar_type(node, (const char *) event->data.scalar.tag,
				style == YAML_PLAIN_SCALAR_STYLE);
	node_attach(reader, node);
}

static void
read_alias(YamlReader *reader)
{
	YamlNode   *node = node_new(reader, YAML_KIND_ALIAS);

	if (node != NULL)
		node_attach(reader, node);
}

/* returns whether the stream goes on */
static bool
read_event(YamlReader *reader)
{
	const yaml_event_t *event = &reader->event;

	switch (event->type)
	{
		case YAML_STREAM_END_EVENT:
			return false;
		case YAML_DOCUMENT_START_EVENT:
			if (reader->root != NULL)
				reader_fail(reader, SYNC_ERROR_SYNTAX, "only one YAML document is allowed");
			break;
		case YAML_ALIAS_EVENT:
			read_alias(reader);
			break;
		case YAML_SCALAR_EVENT:
			read_scalar(reader);
			break;
		case YAML_SEQUENCE_START_EVENT:
			if (collection_tag_is_foreign(event->data.sequence_start.tag, YAML_SEQ_TAG))
				reader_fail(reader, SYNC_ERROR_CONFIG, "unknown tag on a list");
			level_open(reader, YAML_KIND_SEQUENCE,
					   event->data.sequence_start.style == YAML_FLOW_SEQUENCE_STYLE,
					   list_column(event));
			break;
		case YAML_MAPPING_START_EVENT:
			if (collection_tag_is_foreign(event->data.mapping_start.tag, YAML_MAP_TAG))
				reader_fail(reader, SYNC_ERROR_CONFIG, "unknown tag on a map");
			level_open(reader, YAML_KIND_MAP,
					   event->data.mapping_start.style == YAML_FLOW_MAPPING_STYLE,
					   event->end_mark.column);
			break;
		case YAML_SEQUENCE_END_EVENT:
		case YAML_MAPPING_END_EVENT:
			level_close(reader);
			break;
		case YAML_NO_EVENT:
		case YAML_STREAM_START_EVENT:
		case YAML_DOCUMENT_END_EVENT:
			break;
	}
	return !reader->failed;
}

/* where a byte stands */
static void
place_of_offset(const char *text, size_t len, size_t offset, SyncError *error)
{
	TextCursor	cursor = {text, len, 0, 1, 1};

	while (cursor.at < len && cursor.at < offset)
		cursor_step(&cursor);
	error->line = cursor.line;
	error->column = cursor.column;
}

/* libyaml says what it did not find; people want to know what they did */
static void
hint_for_parser_error(YamlReader *reader, const char *text, size_t len)
{
	TextCursor	cursor = {text, len, 0, 1, 1};
	const char *problem = reader->parser.problem != NULL ? reader->parser.problem : "";
	const char *hint = NULL;

	while (cursor.at < len && (cursor.line < reader->error->line ||
							   (cursor.line == reader->error->line &&
								cursor.column < reader->error->column)))
		cursor_step(&cursor);
	if (cursor_char(&cursor) == '\t')
		hint = "Indent with spaces, not with tabs.";
	else if (strstr(problem, "cannot start any token") != NULL)
		hint = "Put the text in quotes.";
	else if (strstr(problem, "mapping values are not allowed") != NULL)
		hint = "Put a text that holds \": \" in quotes, or on lines of its own after |.";
	if (hint != NULL)
		memcpy(reader->error->hint, hint, strlen(hint) + 1);
}

/* libyaml could not go on */
static void
read_parser_error(YamlReader *reader, const char *text, size_t len)
{
	const yaml_parser_t *parser = &reader->parser;
	char		message[200];
	const yaml_mark_t *mark = &parser->problem_mark;

	if (parser->error == YAML_MEMORY_ERROR)
		arena_fail(reader->arena);
	snprintf(message, sizeof(message), "invalid YAML: %s%s%s",
			 parser->context != NULL ? parser->context : "",
			 parser->context != NULL ? ", " : "",
			 parser->problem != NULL ? parser->problem : "syntax error");
	reader_fail_at(reader, SYNC_ERROR_SYNTAX, (int) mark->line + 1, (int) mark->column + 1, message);
	if (parser->error == YAML_READER_ERROR)
	{
		place_of_offset(text, len, parser->problem_offset, reader->error);
		strcpy(reader->error->hint, "It must be UTF-8 without control characters.");
	}
	else
		hint_for_parser_error(reader, text, len);
}

static void
read_events(YamlReader *reader, const char *text, size_t len)
{
	const char *hidden;
	bool		more = true;

	skip_byte_order_mark(&text, &len);
	hidden = yaml_hide_surrogates(text, len, reader->arena);
	reader->text = text;
	reader->len = len;
	reader->hides_surrogates = hidden != text;
	yaml_parser_set_input_string(&reader->parser, (const unsigned char *) hidden, len);
	yaml_parser_set_encoding(&reader->parser, YAML_UTF8_ENCODING);
	while (more)
	{
		if (!yaml_parser_parse(&reader->parser, &reader->event))
		{
			read_parser_error(reader, text, len);
			return;
		}
		reader->has_event = true;
		more = read_event(reader);
		reader->has_event = false;
		yaml_event_delete(&reader->event);
	}
}

/*
 * libyaml compares each %TAG with all before it, so there must not be many.  Returns
 * false, reported, if there are.
 */
static bool
check_directives(YamlReader *reader, const char *text, size_t len)
{
	TextCursor	cursor = {text, len, 0, 1, 1};
	const char *sign = text;
	int			count = -1;

	/* hardly any document has as many of its sign anywhere */
	while (sign != NULL && count < SYNC_YAML_MAX_DIRECTIVES)
	{
		count++;
		sign = memchr(sign, '%', len - (size_t) (sign - text));
		sign = sign != NULL ? sign + 1 : NULL;
	}
	if (sign == NULL)
		return true;
	count = 0;
	for (; cursor.at < len; cursor_step(&cursor))
	{
		if (cursor.column != 1 || text[cursor.at] != '%' || ++count <= SYNC_YAML_MAX_DIRECTIVES)
			continue;
		reader_fail_at(reader, SYNC_ERROR_LIMIT, cursor.line, 1,
					   "the YAML document has too many directives");
		return false;
	}
	return true;
}

YamlNode *
yaml_read(const char *text, size_t len, SyncArena *arena, SyncError *error)
{
	YamlReader *reader;
	ArenaGuard	guard;
	volatile bool out_of_memory = false;

	memset(error, 0, sizeof(*error));
	if (len >= SYNC_YAML_MAX_BYTES)
	{
		sync_error_set(error, SYNC_ERROR_LIMIT, "the YAML document is larger than %d bytes",
					   SYNC_YAML_MAX_BYTES - 1);
		return NULL;
	}
	reader = arena_new(arena, YamlReader);
	reader->arena = arena;
	reader->error = error;
	if (!yaml_parser_initialize(&reader->parser))
		arena_fail(arena);

	arena_guard_push(arena, &guard);
	if (setjmp(guard.jump) == 0)
	{
		if (check_directives(reader, text, len))
			read_events(reader, text, len);
	}
	else
		out_of_memory = true;
	arena_guard_pop(arena, &guard);
	if (reader->has_event)
		yaml_event_delete(&reader->event);
	yaml_parser_delete(&reader->parser);
	if (out_of_memory)
		arena_fail(arena);

	if (!reader->failed && reader->root == NULL)
		reader_fail_at(reader, SYNC_ERROR_SYNTAX, 1, 1, "the YAML document is empty");
	return reader->failed ? NULL : reader->root;
}

/* ---------------------------------------------------------------- use */

bool
yaml_is_scalar(const YamlNode *node)
{
	return node->kind < YAML_KIND_ALIAS;
}

YamlNode *
yaml_get(const YamlNode *map, const char *key)
{
	size_t		len = strlen(key);

	if (map->kind != YAML_KIND_MAP)
		return NULL;
	for (int i = 0; i < map->count; i++)
	{
		const YamlNode *k = map->entries[i].key;

		if (k->kind == YAML_KIND_TEXT && k->text.len == len && memcmp(k->text.data, key, len) == 0)
			return map->entries[i].value;
	}
	return NULL;
}

const char *
yaml_kind_name(const YamlNode *node)
{
	switch (node->kind)
	{
		case YAML_KIND_NULL:
			return "null";
		case YAML_KIND_BOOL:
			return "a boolean";
		case YAML_KIND_NUMBER:
			return "a number";
		case YAML_KIND_TEXT:
			return "a text";
		case YAML_KIND_OPAQUE:
			return "a value with an unknown tag";
		case YAML_KIND_ALIAS:
			return "an alias";
		case YAML_KIND_SEQUENCE:
			return "a list";
		case YAML_KIND_MAP:
			return "a map";
	}
	return "a value";
}

/* ---------------------------------------------------------------- positions of bytes in scalars */

/* to the first character of a node's text, or its opening quote */
static void
cursor_seek(TextCursor *cursor, const YamlNode *scalar)
{
	while (cursor->at < cursor->len &&
		   (cursor->line < scalar->line ||
			(cursor->line == scalar->line && cursor->column < scalar->column)))
		cursor_step(cursor);
	/* a tag and an anchor stand before it */
	while (cursor_char(cursor) == '!' || cursor_char(cursor) == '&')
	{
		while (cursor->at < cursor->len && !is_blank(cursor_char(cursor)))
			cursor_step(cursor);
		while (cursor->at < cursor->len && is_blank(cursor_char(cursor)))
			cursor_step(cursor);
	}
}

/*
 * Over an escape of a double quoted text.  Returns how many bytes of the text it
 * made: 0 for a line that goes on, and for what is blank.
 */
static uint32_t
step_escape(TextCursor *cursor)
{
	uint32_t	digits = 0;
	uint32_t	code = 0;
	char		c;

	cursor_step(cursor);
	c = cursor_char(cursor);
	cursor_step(cursor);
	switch (c)
	{
		case 'x':
			digits = 2;
			break;
		case 'u':
			digits = 4;
			break;
		case 'U':
			digits = 8;
			break;
		case 'N':
		case '_':
			return 2;
		case 'L':
		case 'P':
			return 3;
		case 'n':
		case 'r':
		case 't':
			return 0;
		default:
			return is_blank(c) ? 0 : 1;
	}
	for (; digits > 0 && cursor->at < cursor->len; digits--)
	{
		code = code * 16 + (uint32_t) hex_digit(cursor_char(cursor));
		cursor_step(cursor);
	}
	if (code < 0x80)
		return is_blank((char) code) ? 0 : 1;
	/* the halves of a pair make one character: the first counts for both */
	if (code >= 0xD800 && code < 0xE000)
		return code < 0xDC00 ? 4 : 0;
	return code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
}

/*
 * Blanks are passed over on both sides, because folding and indentation change
 * them; all else stands in the document as it is in the text, but for escapes.
 */
void
yaml_position(const char *text, size_t len, const YamlNode *scalar, size_t offset,
			  int *line, int *column)
{
	TextCursor	cursor;
	char		style;
	uint32_t	at = 0;

	skip_byte_order_mark(&text, &len);
	cursor = (TextCursor) {text, len, 0, 1, 1};
	*line = scalar->line;
	*column = scalar->column;
	cursor_seek(&cursor, scalar);
	style = cursor_char(&cursor);
	if (style == '|' || style == '>')
	{
		/* its header (|2-, > # why) is not text */
		while (cursor.at < len && break_size(&cursor) == 0)
			cursor_step(&cursor);
	}
	else if (style == '"' || style == '\'')
		cursor_step(&cursor);

	while (at < scalar->text.len && at <= offset)
	{
		uint32_t	size = 1;

		if (is_blank(scalar->text.data[at]))
		{
			at++;
			continue;
		}
		while (cursor.at < len && is_blank(text[cursor.at]))
			cursor_step(&cursor);
		if (cursor.at == len)
			return;
		if (style == '"' && text[cursor.at] == '\\')
		{
			TextCursor	start = cursor;

			size = step_escape(&cursor);
			if (size == 0)
				continue;
			*line = start.line;
			*column = start.column;
			at += size;
			continue;
		}
		*line = cursor.line;
		*column = cursor.column;
		if (style == '\'' && text[cursor.at] == '\'')
			cursor_step(&cursor);
		while (at + size < scalar->text.len &&
			   ((unsigned char) scalar->text.data[at + size] & 0xC0) == 0x80)
			size++;
		cursor_step(&cursor);
		at += size;
	}
	if (offset >= scalar->text.len && scalar->text.len > 0)
		(*column)++;
}
