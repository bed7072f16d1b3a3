/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mappings of a process, as /proc/PID/maps tells them.
 */
#ifndef IP_MAPS_H
#define IP_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct ip_mapping {
	uint64_t start, end, offset;
	char perms[5];
	uint32_t dev_major, dev_minor;
	uint64_t inode;
	char *path; /* as in /proc/PID/maps without " (deleted)"; "" for anonymous memory */
	bool deleted;
};

struct ip_maps {
	struct ip_mapping *items;
	size_t n;
};

/* Reads the mappings of a process; frees those that were read before. 0, or -1 with an error. */
int ip_maps_read(pid_t pid, struct ip_maps *maps);
void ip_maps_clear(struct ip_maps *maps);

/* The mapping that holds the address; NULL: none does. */
const struct ip_mapping *ip_maps_find(const struct ip_maps *maps, uint64_t address);

#endif
