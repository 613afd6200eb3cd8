/*-------------------------------------------------------------------------
 *
 * text.c
 *	  UTF-8 as the rules language sees it.
 *
 * Does not know Unicode properties beyond white space; case mapping is in the
 * functions that need it.
 *
 * Invariant: no function reads behind len, whatever the bytes are.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "text.h"

static inline bool
is_continuation(unsigned char c)
{
	return (c & 0xC0) == 0x80;
}

/* the range of the second byte that makes a well-formed character; false: c begins none */
static bool
utf8_second_range(unsigned char c, int *size, unsigned char *low, unsigned char *high)
{
	*low = 0x80;
	*high = 0xBF;
	if (c >= 0xC2 && c <= 0xDF)
		*size = 2;
	else if (c >= 0xE0 && c <= 0xEF)
	{
		*size = 3;
		if (c == 0xE0)
			*low = 0xA0;
		else if (c == 0xED)
			*high = 0x9F;
	}
	else if (c >= 0xF0 && c <= 0xF4)
	{
		*size = 4;
		if (c == 0xF0)
			*low = 0x90;
		else if (c == 0xF4)
			*high = 0x8F;
	}
	else
		return false;
	return true;
}

/*
 * Bytes at s that belong to one character, as far as they are right; *size is
 * what a whole character would have.
 */
static size_t
utf8_prefix_length(const char *s, size_t len, int *size)
{
	const unsigned char *u = (const unsigned char *) s;
	unsigned char low;
	unsigned char high;
	size_t		n;

	*size = 1;
	if (len == 0)
		return 0;
	if (u[0] < 0x80)
		return 1;
	if (!utf8_second_range(u[0], size, &low, &high))
		return 0;
	if (len < 2 || u[1] < low || u[1] > high)
		return 1;
	for (n = 2; n < (size_t) *size && n < len && is_continuation(u[n]); n++)
		;
	return n;
}

size_t
utf8_sequence_length(const char *s, size_t len)
{
	int			size;
	size_t		n = utf8_prefix_length(s, len, &size);

	return n == (size_t) size ? n : 0;
}

bool
utf8_is_unfinished(const char *s, size_t len)
{
	int			size;
	size_t		n = utf8_prefix_length(s, len, &size);

	return n > 0 && n == len && n < (size_t) size;
}

bool
utf8_is_valid(const char *s, size_t len)
{
	size_t		i = 0;

	while (i < len)
	{
		size_t		n;

		/* eight ASCII bytes at a time */
		while (len - i >= 8)
		{
			uint64_t	word;

			memcpy(&word, s + i, 8);
			if (word & UINT64_C(0x8080808080808080))
				break;
			i += 8;
		}
		if (i == len)
			break;
		n = utf8_sequence_length(s + i, len - i);
		if (n == 0)
			return false;
		i += n;
	}
	return true;
}

uint32_t
text_code_point(const char *s, size_t len, int *size)
{
	const unsigned char *u = (const unsigned char *) s;

	*size = 1;
	if (u[0] < 0x80)
		return u[0];
	if (u[0] >= 0xC2 && u[0] <= 0xDF && len >= 2 && is_continuation(u[1]))
	{
		*size = 2;
		return (uint32_t) (u[0] & 0x1F) << 6 | (u[1] & 0x3F);
	}
	if (u[0] >= 0xE0 && u[0] <= 0xEF && len >= 3 &&
		is_continuation(u[1]) && is_continuation(u[2]))
	{
		*size = 3;
		return (uint32_t) (u[0] & 0x0F) << 12 | (uint32_t) (u[1] & 0x3F) << 6 | (u[2] & 0x3F);
	}
	if (u[0] >= 0xF0 && u[0] <= 0xF4 && len >= 4 &&
		is_continuation(u[1]) && is_continuation(u[2]) && is_continuation(u[3]))
	{
		*size = 4;
		return (uint32_t) (u[0] & 0x07) << 18 | (uint32_t) (u[1] & 0x3F) << 12 |
			(uint32_t) (u[2] & 0x3F) << 6 | (u[3] & 0x3F);
	}
	return 0xFFFD;
}

void
text_append_code_point(SyncBuffer *buffer, uint32_t c)
{
	char	   *out;

	buffer_reserve(buffer, 4);
	out = buffer->data + buffer->len;
	if (c < 0x80)
	{
		out[0] = (char) c;
		buffer->len += 1;
	}
	else if (c < 0x800)
	{
		out[0] = (char) (0xC0 | c >> 6);
		out[1] = (char) (0x80 | (c & 0x3F));
		buffer->len += 2;
	}
	else if (c < 0x10000)
	{
		out[0] = (char) (0xE0 | c >> 12);
		out[1] = (char) (0x80 | (c >> 6 & 0x3F));
		out[2] = (char) (0x80 | (c & 0x3F));
		buffer->len += 3;
	}
	else
	{
		out[0] = (char) (0xF0 | (c >> 18 & 0x07));
		out[1] = (char) (0x80 | (c >> 12 & 0x3F));
		out[2] = (char) (0x80 | (c >> 6 & 0x3F));
		out[3] = (char) (0x80 | (c & 0x3F));
		buffer->len += 4;
	}
}

/* three bytes at s are a surrogate of the given half (0xA0: high, 0xB0: low) */
static bool
is_surrogate(const char *s, unsigned char half)
{
	const unsigned char *u = (const unsigned char *) s;

	return u[0] == 0xED && (u[1] & 0xF0) == half && is_continuation(u[2]);
}

void
text_append(SyncBuffer *buffer, const char *s, size_t len)
{
	if (len >= 3 && buffer->len >= 3 && is_surrogate(s, 0xB0) &&
		is_surrogate(buffer->data + buffer->len - 3, 0xA0))
	{
		int			size;
		uint32_t	high = text_code_point(buffer->data + buffer->len - 3, 3, &size);
		uint32_t	low = text_code_point(s, len, &size);

		buffer->len -= 3;
		text_append_code_point(buffer, 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00));
		s += 3;
		len -= 3;
	}
	buffer_append(buffer, s, len);
}

size_t
text_utf16_length(const char *s, size_t len)
{
	size_t		units = len;
	size_t		i = 0;

	/* a unit for each byte that is no continuation, one more if a character has four bytes */
	while (i < len)
	{
		size_t		end;
		uint64_t	word;

		while (len - i >= 32)
		{
			uint64_t	words[4];

			memcpy(words, s + i, 32);
			if (((words[0] | words[1] | words[2] | words[3]) & UINT64_C(0x8080808080808080)) != 0)
				break;
			i += 32;
		}
		if (i == len)
			break;
		end = len - i < 8 ? len : i + 8;
		if (end - i == 8)
		{
			memcpy(&word, s + i, 8);
			if ((word & UINT64_C(0x8080808080808080)) == 0)
			{
				i = end;
				continue;
			}
		}
		for (; i < end; i++)
		{
			units -= is_continuation((unsigned char) s[i]);
			units += (unsigned char) s[i] >= 0xF0;
		}
	}
	return units;
}

/* the UTF-16 units of a text one after the other */
typedef struct UnitReader
{
	const char *s;
	size_t		len;
	uint32_t	low;			/* second half of a pair, to be given next; 0 = none */
} UnitReader;

/* next unit, or -1 at the end */
static int32_t
unit_next(UnitReader *reader)
{
	uint32_t	c = reader->low;
	int			size;

	if (c != 0)
	{
		reader->low = 0;
		return (int32_t) c;
	}
	if (reader->len == 0)
		return -1;
	c = text_code_point(reader->s, reader->len, &size);
	reader->s += size;
	reader->len -= (size_t) size;
	if (c < 0x10000)
		return (int32_t) c;
	reader->low = 0xDC00 + ((c - 0x10000) & 0x3FF);
	return (int32_t) (0xD800 + ((c - 0x10000) >> 10));
}

/*
 * Bytes order like code points.  That is the order of UTF-16 too, unless a
 * character above U+FFFF, whose first unit is a surrogate, meets one from the
 * surrogates upwards.
 */
int
text_compare(SyncString a, SyncString b)
{
	uint32_t	shared = a.len < b.len ? a.len : b.len;
	uint32_t	i;
	unsigned char x;
	unsigned char y;
	UnitReader	left;
	UnitReader	right;

	if (shared == 0 || memcmp(a.data, b.data, shared) == 0)
		return (a.len > b.len) - (a.len < b.len);
	for (i = 0; a.data[i] == b.data[i]; i++)
		;
	x = (unsigned char) a.data[i];
	y = (unsigned char) b.data[i];
	if (x < 0xED || y < 0xED || (x >= 0xF0) == (y >= 0xF0))
		return x < y ? -1 : 1;

	/* both bytes are the first of a character */
	left = (UnitReader) {a.data + i, a.len - i, 0};
	right = (UnitReader) {b.data + i, b.len - i, 0};
	for (;;)
	{
		int32_t		l = unit_next(&left);
		int32_t		r = unit_next(&right);

		if (l != r)
			return l < r ? -1 : 1;
		if (l < 0)
			return 0;
	}
}

SyncString
text_from_bytes(const char *bytes, size_t len, SyncArena *arena)
{
	SyncBuffer	buffer;
	size_t		i = 0;

	if (len >= 3 && memcmp(bytes, "\xEF\xBB\xBF", 3) == 0)
	{
		bytes += 3;
		len -= 3;
	}
	if (len <= UINT32_MAX && utf8_is_valid(bytes, len))
		return (SyncString) {bytes, (uint32_t) len};

	buffer_init(&buffer, arena, len + 16);
	while (i < len)
	{
		int			size;
		size_t		n = utf8_prefix_length(bytes + i, len - i, &size);

		if (n == (size_t) size)
			buffer_append(&buffer, bytes + i, n);
		else
			buffer_append(&buffer, "\xEF\xBF\xBD", 3);
		i += n > 0 ? n : 1;
	}
	return buffer_string(&buffer);
}

/* first lone surrogate at or after s; NULL = none */
static const char *
find_surrogate(const char *s, size_t len)
{
	const char *end = s + len;

	while (end - s >= 3 && (s = memchr(s, 0xED, (size_t) (end - s))) != NULL)
	{
		if (end - s >= 3 && (unsigned char) s[1] >= 0xA0)
			return s;
		s++;
	}
	return NULL;
}

SyncString
text_well_formed(SyncString text, SyncArena *arena)
{
	SyncString	result;
	char	   *s;
	char	   *end;

	if (text.len == 0 || find_surrogate(text.data, text.len) == NULL)
		return text;

	/* U+FFFD has three bytes too */
	s = arena_strndup(arena, text.data, text.len);
	end = s + text.len;
	result = (SyncString) {s, text.len};
	while ((s = (char *) find_surrogate(s, (size_t) (end - s))) != NULL)
	{
		memcpy(s, "\xEF\xBF\xBD", 3);
		s += 3;
	}
	return result;
}

static bool
is_space(uint32_t c)
{
	return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0xA0 || c == 0x1680 ||
		(c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
		c == 0x205F || c == 0x3000 || c == 0xFEFF;
}

size_t
text_skip_space(const char *s, size_t len)
{
	size_t		i = 0;

	while (i < len)
	{
		int			size;

		if (!is_space(text_code_point(s + i, len - i, &size)))
			break;
		i += (size_t) size;
	}
	return i;
}

bool
text_array_index(SyncString name, uint32_t *index)
{
	uint64_t	value = 0;

	if (name.len == 0 || name.len > 10 || (name.data[0] == '0' && name.len > 1))
		return false;
	for (uint32_t i = 0; i < name.len; i++)
	{
		if (name.data[i] < '0' || name.data[i] > '9')
			return false;
		value = value * 10 + (uint64_t) (name.data[i] - '0');
	}
	if (value >= UINT32_MAX)
		return false;
	*index = (uint32_t) value;
	return true;
}

static char
ascii_lower(char c)
{
	return (char) (c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

SyncString
text_ascii_lower(SyncString text, SyncArena *arena)
{
	char	   *lower = arena_strndup(arena, text.data, text.len);

	for (uint32_t i = 0; i < text.len; i++)
		lower[i] = ascii_lower(lower[i]);
	return (SyncString) {lower, text.len};
}

bool
text_equal_but_for_case(SyncString a, SyncString b)
{
	if (a.len != b.len)
		return false;
	for (uint32_t i = 0; i < a.len; i++)
	{
		if (ascii_lower(a.data[i]) != ascii_lower(b.data[i]))
			return false;
	}
	return true;
}
