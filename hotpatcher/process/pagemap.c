/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads /proc/PID/pagemap. See pagemap.h.
 */
#include "hotpatcher/process/pagemap.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "access/delegation.h"
#include "common/cleanup.h"
#include "common/error.h"

#define PAGE	 4096ull
#define AT_ONCE	 512u
#define IS_THERE (3ull << 62) /* present, or swapped out */

int ip_pagemap_end(const struct ip_target *target, uint64_t start, uint64_t size, uint64_t *ret_end)
{
	uint64_t entries[AT_ONCE], pages = size / PAGE;
	_cleanup_close_ int fd = -1;
	char name[64];

	*ret_end = start;
	snprintf(name, sizeof(name), "/proc/%d/pagemap", target->pid);
	fd = ip_delegation_open(name, O_RDONLY);
	if (fd < 0)
		return ip_error_errno("pid %d: cannot see which pages it uses", target->pid);
	for (uint64_t i = 0; i < pages; i += AT_ONCE) {
		uint64_t n = pages - i < AT_ONCE ? pages - i : AT_ONCE;
		ssize_t got = pread(fd, entries, n * 8, (start / PAGE + i) * 8);

		if (got != (ssize_t)(n * 8))
			return ip_error("pid %d: cannot see which pages it uses at %#lx",
					target->pid, (unsigned long)(start + i * PAGE));
		for (uint64_t k = 0; k < n; k++)
			if (entries[k] & IS_THERE)
				*ret_end = start + (i + k + 1) * PAGE;
	}
	return 0;
}
