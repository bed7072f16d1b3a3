/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What server.c and cache.c share.
 */
#ifndef SERVER_H
#define SERVER_H

#define KEEP __attribute__((noinline))

unsigned cache_hash(unsigned key);
int cache_get(unsigned key);
void cache_put(unsigned key);

#endif
