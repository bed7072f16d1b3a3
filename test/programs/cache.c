/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cache of server.c: a file of its own, since examples of manual pages select by file.
 */
#include "server.h"

#define SLOTS 64

static unsigned keys[SLOTS];

KEEP unsigned cache_hash(unsigned key)
{
	return (key * 2654435761u) >> 26;
}

KEEP int cache_get(unsigned key)
{
	return keys[cache_hash(key)] == key;
}

KEEP void cache_put(unsigned key)
{
	keys[cache_hash(key)] = key;
}
