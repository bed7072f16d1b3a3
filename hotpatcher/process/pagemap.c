/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads /proc/PID/pagemap. See pagemap.h.
 */
#include "hotpatcher/process/pagemap.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "access/delegation.h"
#include "common/cleanup.h"
#include "common/error.h"

#define PAGE	 4096ull
#define AT_ONCE	 512u
#define IS_THERE (3ull << 62) /* present, or swapped out */
#define PRESENT	 (1ull << 63)
#define OF_FILE	 (1ull << 61) /* of a file, or of shared memory */
#define ALONE	 (1ull << 56) /* no other process has it */

/* Whether the page is not all zero: 1 or 0; -1 with an error. */
static int is_filled(const struct ip_target *target, uint64_t address)
{
	static const char zeros[PAGE];
	char page[PAGE];

	return ip_target_read(target, address, page, sizeof(page)) < 0
		       ? -1
		       : memcmp(page, zeros, sizeof(page)) != 0;
}

int ip_pagemap_filled_end(const struct ip_target *target, uint64_t start, uint64_t size,
			  uint64_t *ret_end)
{
	_cleanup_close_ int fd = -1;
	uint64_t entries[AT_ONCE];
	char name[64];

	*ret_end = start;
	snprintf(name, sizeof(name), "/proc/%d/pagemap", target->pid);
	/* a kernel without CONFIG_PROC_PAGE_MONITOR has no such file */
	fd = ip_delegation_open(name, O_RDONLY);
	/* from the end: the first page that is found is the last one */
	for (uint64_t left = size / PAGE; left;) {
		const uint64_t n = left < AT_ONCE ? left : AT_ONCE, first = left - n;
		const bool told = fd >= 0 && pread(fd, entries, n * sizeof(*entries),
						   (start / PAGE + first) * sizeof(*entries)) ==
						     (ssize_t)(n * sizeof(*entries));

		for (; left > first; left--) {
			const uint64_t page = start + (left - 1) * PAGE;
			const int filled = told && !(entries[left - 1 - first] & IS_THERE)
						   ? 0
						   : is_filled(target, page);

			if (filled < 0)
				return -1;
			if (filled) {
				*ret_end = page + PAGE;
				return 0;
			}
		}
	}
	return 0;
}

struct ip_pagemap {
	int fd;		/* -1: the kernel does not tell */
	uint64_t first; /* number of the page that entries begin with */
	uint64_t n;
	uint64_t entries[AT_ONCE];
};

struct ip_pagemap *ip_pagemap_open(const struct ip_target *target)
{
	struct ip_pagemap *p = calloc(1, sizeof(*p));
	char name[64];

	if (!p) {
		ip_error("out of memory");
		return NULL;
	}
	snprintf(name, sizeof(name), "/proc/%d/pagemap", target->pid);
	p->fd = ip_delegation_open(name, O_RDONLY);
	return p;
}

void ip_pagemap_close(struct ip_pagemap *p)
{
	if (!p)
		return;
	if (p->fd >= 0)
		close(p->fd);
	free(p);
}

bool ip_pagemap_is_own(struct ip_pagemap *p, uint64_t address)
{
	const uint64_t page = address / PAGE;
	ssize_t size;

	if (page - p->first >= p->n) {
		size = p->fd < 0 ? 0
				 : pread(p->fd, p->entries, sizeof(p->entries),
					 page * sizeof(*p->entries));
		p->first = page;
		p->n = size > 0 ? size / sizeof(*p->entries) : 0;
	}
	return page - p->first < p->n &&
	       (p->entries[page - p->first] & (PRESENT | OF_FILE | ALONE)) == (PRESENT | ALONE);
}
