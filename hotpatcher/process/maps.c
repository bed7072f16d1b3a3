/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads /proc/PID/maps. See maps.h.
 */
#include "hotpatcher/process/maps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/error.h"

void ip_maps_clear(struct ip_maps *maps)
{
	for (size_t i = 0; i < maps->n; i++)
		free(maps->items[i].path);
	free(maps->items);
	maps->items = NULL;
	maps->n = 0;
}

/* The kernel writes newlines in paths as \012. */
static void unescape(char *path)
{
	char *out = path;

	for (const char *in = path; *in;) {
		if (in[0] == '\\' && !strncmp(in, "\\012", 4)) {
			*out++ = '\n';
			in += 4;
		} else {
			*out++ = *in++;
		}
	}
	*out = '\0';
}

int ip_maps_read(pid_t pid, struct ip_maps *maps)
{
	_cleanup_fclose_ FILE *file = NULL;
	_cleanup_free_ char *line = NULL;
	size_t room = 0, capacity = 0;
	char name[64];

	ip_maps_clear(maps);
	snprintf(name, sizeof(name), "/proc/%d/maps", pid);
	file = fopen(name, "re");
	if (!file)
		return ip_error_errno("pid %d: cannot open %s", pid, name);
	while (getline(&line, &room, file) > 0) {
		struct ip_mapping m = {0};
		int path_at = 0;
		size_t length;

		if (sscanf(line, "%lx-%lx %4s %lx %x:%x %lu %n", &m.start, &m.end, m.perms,
			   &m.offset, &m.dev_major, &m.dev_minor, &m.inode, &path_at) < 7)
			continue;
		length = strlen(line + path_at);
		if (length && line[path_at + length - 1] == '\n')
			line[path_at + --length] = '\0';
		if (length > 10 && !strcmp(line + path_at + length - 10, " (deleted)")) {
			m.deleted = true;
			line[path_at + length - 10] = '\0';
		}
		m.path = strdup(line + path_at);
		if (maps->n == capacity) {
			size_t grown = capacity ? 2 * capacity : 64;
			void *items = realloc(maps->items, grown * sizeof(*maps->items));

			if (!items) {
				free(m.path);
				return ip_error("pid %d: out of memory reading its maps", pid);
			}
			maps->items = items;
			capacity = grown;
		}
		if (!m.path)
			return ip_error("pid %d: out of memory reading its maps", pid);
		unescape(m.path);
		maps->items[maps->n++] = m;
	}
	return 0;
}

const struct ip_mapping *ip_maps_find(const struct ip_maps *maps, uint64_t address)
{
	size_t low = 0, high = maps->n;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (maps->items[middle].end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low < maps->n && maps->items[low].start <= address ? &maps->items[low] : NULL;
}
