/*-------------------------------------------------------------------------
 *
 * lsn.c
 *	  WAL positions as text: storage-contract.md, 7.1.
 *
 * Invariant: what lsn_format() writes lsn_parse() reads back, and two such
 * texts compare like the positions.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "lsn.h"
#include "text.h"

void
lsn_format(uint64_t lsn, char text[LSN_TEXT_LEN + 1])
{
	static const char digits[] = "0123456789ABCDEF";
	char	   *out = text + LSN_TEXT_LEN;

	*out = '\0';
	for (int i = 0; i < 16; i++)
	{
		if (i == 8)
			*--out = '/';
		*--out = digits[lsn & 0xF];
		lsn >>= 4;
	}
}

/* one half; false unless it is one to eight digits */
static bool
parse_half(const char *s, size_t len, uint64_t *half)
{
	*half = 0;
	if (len < 1 || len > 8)
		return false;
	for (size_t i = 0; i < len; i++)
	{
		int			digit = hex_digit(s[i]);

		if (digit < 0)
			return false;
		*half = *half << 4 | (uint64_t) digit;
	}
	return true;
}

bool
lsn_parse(SyncString text, uint64_t *lsn)
{
	const char *slash = text.len > 0 ? memchr(text.data, '/', text.len) : NULL;
	uint64_t	high;
	uint64_t	low;
	size_t		before;

	if (slash == NULL)
		return false;
	before = (size_t) (slash - text.data);
	if (!parse_half(text.data, before, &high) ||
		!parse_half(slash + 1, text.len - before - 1, &low))
		return false;
	*lsn = high << 32 | low;
	return true;
}
