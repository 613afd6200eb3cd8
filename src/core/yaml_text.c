/*-------------------------------------------------------------------------
 *
 * yaml_text.c
 *	  Where the service's YAML parser and libyaml disagree about a text.
 *
 * libyaml takes lines of quoted texts and of [...] and {...} that are indented
 * less than what holds them, which YAML 1.2 and the service refuse; yaml.c looks
 * them up here.  And libyaml refuses "\ud83d\ude00", as JSON writes characters
 * beyond the first plane, which the service takes: such halves are hidden as
 * private characters, 0x1000 higher, before libyaml sees the text and shown again
 * in the scalars that it gives.
 *
 * Not here: control characters, which libyaml refuses and the service does not,
 * and U+0085, U+2028 and U+2029, which are line breaks for libyaml only.
 *
 * Invariant: hiding keeps every byte's place, so positions hold in both texts.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "text.h"
#include "yaml_text.h"

size_t
yaml_break_size(const char *at, size_t left)
{
	if (left == 0)
		return 0;
	if (at[0] == '\n')
		return 1;
	if (at[0] == '\r')
		return left > 1 && at[1] == '\n' ? 2 : 1;
	if (left > 1 && memcmp(at, "\xC2\x85", 2) == 0)
		return 2;
	if (left > 2 && (memcmp(at, "\xE2\x80\xA8", 3) == 0 || memcmp(at, "\xE2\x80\xA9", 3) == 0))
		return 3;
	return 0;
}

/* ---------------------------------------------------------------- lines */

YamlLines
yaml_lines(const char *text, size_t len, SyncArena *arena)
{
	YamlLines	lines = {NULL, 1};
	YamlLine   *line;

	for (size_t i = 0, size; i < len; i += size > 0 ? size : 1)
	{
		size = yaml_break_size(text + i, len - i);
		lines.count += size > 0;
	}
	lines.lines = arena_array(arena, YamlLine, lines.count);
	line = lines.lines;
	for (size_t i = 0, size; i < len; i += size > 0 ? size : 1)
	{
		size = yaml_break_size(text + i, len - i);
		if (size > 0)
			line++;
		else if (line->first != '\0')
			continue;
		else if (text[i] == ' ' || text[i] == '\t')
		{
			line->spaces += text[i] == ' ' && line->spaces == line->column;
			line->column++;
		}
		else
			line->first = text[i];
	}
	return lines;
}

/* ---------------------------------------------------------------- surrogates */

static bool
is_hex(char c)
{
	return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f');
}

/* \uXYhh with X as told, in either case, and Y of 8 to f */
static bool
is_escape(const char *at, size_t left, char first)
{
	return left >= 6 && at[0] == '\\' && at[1] == 'u' && (at[2] | 0x20) == first &&
		is_hex(at[3]) && at[3] >= '8' && is_hex(at[4]) && is_hex(at[5]);
}

/* one of U+E800 to U+EFFF */
static bool
is_private(const char *at, size_t left)
{
	return left >= 3 && (unsigned char) at[0] == 0xEE && (unsigned char) at[1] >= 0xA0;
}

/* a text that has such characters of its own stays as it is */
static bool
has_private(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
	{
		if (is_private(text + i, len - i) || is_escape(text + i, len - i, 'e') ||
			(len - i >= 10 && memcmp(text + i, "\\U0000", 6) == 0 && (text[i + 6] | 0x20) == 'e'))
			return true;
	}
	return false;
}

const char *
yaml_hide_surrogates(const char *text, size_t len, SyncArena *arena)
{
	char	   *copy = NULL;

	for (size_t i = 0; i < len; i++)
	{
		if (!is_escape(text + i, len - i, 'd'))
			continue;
		if (copy == NULL)
		{
			if (has_private(text, len))
				return text;
			copy = arena_strndup(arena, text, len);
		}
		copy[i + 2]++;
	}
	return copy != NULL ? copy : text;
}

static uint32_t
private_code(const char *at)
{
	return 0xE000 | ((uint32_t) (unsigned char) at[1] & 0x3F) << 6 |
		((uint32_t) (unsigned char) at[2] & 0x3F);
}

SyncString
yaml_show_surrogates(SyncString scalar, bool double_quoted, SyncArena *arena)
{
	SyncBuffer	shown;

	buffer_init(&shown, arena, scalar.len + 1);
	for (uint32_t i = 0; i < scalar.len; i++)
	{
		const char *at = scalar.data + i;
		size_t		left = scalar.len - i;

		if (is_escape(at, left, 'e'))
		{
			buffer_append(&shown, at, 2);
			buffer_append_char(&shown, (char) (at[2] - 1));
			i += 2;
		}
		else if (double_quoted && is_private(at, left))
		{
			uint32_t	high = private_code(at) - 0x1000;
			uint32_t	low = is_private(at + 3, left - 3) ? private_code(at + 3) - 0x1000 : 0;

			if (high >= 0xDC00 || low < 0xDC00)
				return (SyncString) {NULL, 0};
			text_append_code_point(&shown, 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00));
			i += 5;
		}
		else
			buffer_append_char(&shown, *at);
	}
	return buffer_string(&shown);
}
