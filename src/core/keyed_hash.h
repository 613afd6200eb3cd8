/*-------------------------------------------------------------------------
 *
 * keyed_hash.h
 *	  Hashes of bytes that come from rows: whoever writes rows cannot choose
 *	  values with the same hash, since the key is made anew for each table.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGSYNC_KEYED_HASH_H
#define PGSYNC_KEYED_HASH_H

#include "core.h"

typedef struct HashKey
{
	uint64_t	k0;
	uint64_t	k1;
} HashKey;

/* a random key */
extern HashKey hash_key_make(SyncArena *arena);

/* SipHash-2-4 */
extern uint64_t keyed_hash(const HashKey *key, const void *data, size_t len);

#endif							/* PGSYNC_KEYED_HASH_H */
