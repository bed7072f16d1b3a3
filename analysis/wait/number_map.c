/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash table with open addressing.
 */
#include "analysis/wait/number_map.h"

#include <stdlib.h>

#include "common/error.h"

#define LEAST 256u

static size_t slot_of(const struct ip_number_map *map, uint64_t key)
{
	size_t at = (key ^ key >> 31) * 0x9e3779b97f4a7c15ull >> 20 & (map->size - 1);

	while (map->keys[at] && map->keys[at] != key)
		at = (at + 1) & (map->size - 1);
	return at;
}

static int grow(struct ip_number_map *map)
{
	struct ip_number_map bigger = {.n = map->n, .size = map->size ? 2 * map->size : LEAST};

	bigger.keys = calloc(bigger.size, sizeof(*bigger.keys));
	bigger.values = calloc(bigger.size, sizeof(*bigger.values));
	if (!bigger.keys || !bigger.values) {
		free(bigger.keys);
		free(bigger.values);
		return ip_error("out of memory");
	}
	for (size_t i = 0; i < map->size; i++)
		if (map->keys[i]) {
			const size_t at = slot_of(&bigger, map->keys[i]);

			bigger.keys[at] = map->keys[i];
			bigger.values[at] = map->values[i];
		}
	free(map->keys);
	free(map->values);
	*map = bigger;
	return 0;
}

uint32_t ip_number_map_get(const struct ip_number_map *map, uint64_t key)
{
	size_t at;

	if (!map->size)
		return 0;
	at = slot_of(map, key);
	return map->keys[at] ? map->values[at] : 0;
}

int ip_number_map_put(struct ip_number_map *map, uint64_t key, uint32_t value)
{
	size_t at;

	if (2 * (map->n + 1) > map->size && grow(map) < 0)
		return -1;
	at = slot_of(map, key);
	map->n += !map->keys[at];
	map->keys[at] = key;
	map->values[at] = value;
	return 0;
}

void ip_number_map_clear(struct ip_number_map *map)
{
	free(map->keys);
	free(map->values);
	*map = (struct ip_number_map){0};
}
