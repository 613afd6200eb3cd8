/*-------------------------------------------------------------------------
 *
 * keyed_hash.c
 *	  SipHash-2-4 (Aumasson and Bernstein) with random keys.
 *
 * Does not promise the same hash in two processes, or twice in one: nothing
 * that is stored may depend on it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE			/* getentropy() */
#endif
#include <string.h>
#include <unistd.h>

#include "keyed_hash.h"

HashKey
hash_key_make(SyncArena *arena)
{
	HashKey		key;

	if (getentropy(&key, sizeof(key)) != 0)
		arena_fail(arena);
	return key;
}

static inline uint64_t
rotate(uint64_t x, int bits)
{
	return x << bits | x >> (64 - bits);
}

static inline void
sip_rounds(uint64_t v[4], int rounds)
{
	while (rounds-- > 0)
	{
		v[0] += v[1];
		v[1] = rotate(v[1], 13) ^ v[0];
		v[0] = rotate(v[0], 32);
		v[2] += v[3];
		v[3] = rotate(v[3], 16) ^ v[2];
		v[0] += v[3];
		v[3] = rotate(v[3], 21) ^ v[0];
		v[2] += v[1];
		v[1] = rotate(v[1], 17) ^ v[2];
		v[2] = rotate(v[2], 32);
	}
}

uint64_t
keyed_hash(const HashKey *key, const void *data, size_t len)
{
	const unsigned char *bytes = data;
	uint64_t	last = (uint64_t) len << 56;
	uint64_t	v[4] = {
		key->k0 ^ UINT64_C(0x736f6d6570736575), key->k1 ^ UINT64_C(0x646f72616e646f6d),
		key->k0 ^ UINT64_C(0x6c7967656e657261), key->k1 ^ UINT64_C(0x7465646279746573),
	};

	for (; len >= 8; bytes += 8, len -= 8)
	{
		uint64_t	word = 0;

		for (int i = 0; i < 8; i++)
			word |= (uint64_t) bytes[i] << (8 * i);
		v[3] ^= word;
		sip_rounds(v, 2);
		v[0] ^= word;
	}
	for (size_t i = 0; i < len; i++)
		last |= (uint64_t) bytes[i] << (8 * i);
	v[3] ^= last;
	sip_rounds(v, 2);
	v[0] ^= last;
	v[2] ^= 0xFF;
	sip_rounds(v, 4);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}
