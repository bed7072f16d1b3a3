/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers by numbers, in a hash table.
 */
#ifndef IP_NUMBER_MAP_H
#define IP_NUMBER_MAP_H

#include <stddef.h>
#include <stdint.h>

struct ip_number_map {
	uint64_t *keys; /* 0: free */
	uint32_t *values;
	size_t n, size;
};

/* The number of a key, which is not 0; 0: it has none. */
uint32_t ip_number_map_get(const struct ip_number_map *map, uint64_t key);
/* Gives a key, which is not 0, a number. Returns 0, or -1 with an error. */
int ip_number_map_put(struct ip_number_map *map, uint64_t key, uint32_t value);
/* Makes it empty. */
void ip_number_map_clear(struct ip_number_map *map);

#endif
