/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits on mappings and memory, each as the kernel tells it: the limits of the process, of its
 * memory cgroups (both versions), and of the machine. See remap_limits.h.
 */
#include "hotpatcher/patch/remap_limits.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mman.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/cleanup.h"
#include "common/error.h"

#define PAGE_SIZE     4096ull
#define SPARE_MAPS    64u	   /* mappings that the program itself may make meanwhile */
#define SPARE_CGROUP  (8ull << 20) /* page tables, and the kernel's records of mappings */
#define SPARE_MACHINE (64ull << 20)

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

/* Returns the number that the file holds; `otherwise` if it cannot be read or holds none
 * ("max"). */
static uint64_t read_number(const char *path, uint64_t otherwise)
{
	_cleanup_fclose_ FILE *file = fopen(path, "re");
	uint64_t value;

	return file && fscanf(file, "%lu", &value) == 1 ? value : otherwise;
}

/* Returns the value of a line "key value" (or "key: value kB"); `otherwise` if there is none. */
static uint64_t read_key(const char *path, const char *key, uint64_t otherwise)
{
	_cleanup_fclose_ FILE *file = fopen(path, "re");
	size_t length = strlen(key);
	char line[256];

	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, key, length) && (line[length] == ' ' || line[length] == ':'))
			return strtoull(line + length + 1, NULL, 10);
	return otherwise;
}

/* How much memory one cgroup leaves, in bytes, including page cache that it can give up at once. */
static uint64_t left_in(const char *folder, const char *limit, const char *usage,
			const char *reclaimable)
{
	char path[4400];
	uint64_t max, used, cache;

	snprintf(path, sizeof(path), "%s/%s", folder, limit);
	max = read_number(path, UINT64_MAX);
	snprintf(path, sizeof(path), "%s/%s", folder, usage);
	used = read_number(path, 0);
	snprintf(path, sizeof(path), "%s/memory.stat", folder);
	cache = read_key(path, reclaimable, 0);
	if (max == UINT64_MAX)
		return max;
	return max + cache > used ? max + cache - used : 0;
}

/* The least that the process's cgroup and the cgroups above it leave, in bytes. */
static uint64_t left_in_cgroups(pid_t pid)
{
	_cleanup_fclose_ FILE *file = NULL;
	uint64_t least = UINT64_MAX;
	char name[64], line[4200];

	snprintf(name, sizeof(name), "/proc/%d/cgroup", pid);
	file = fopen(name, "re");
	while (file && fgets(line, sizeof(line), file)) {
		char *controllers = strchr(line, ':'),
		     *path = controllers ? strchr(controllers + 1, ':') : NULL;
		bool second;
		char root[64];

		if (!path)
			continue;
		*path++ = '\0';
		path[strcspn(path, "\n")] = '\0';
		second = !controllers[1];
		if (!second && strcmp(controllers + 1, "memory"))
			continue;
		snprintf(root, sizeof(root), "/sys/fs/cgroup%s", second ? "" : "/memory");
		for (char *end = path + strlen(path); end > path; end = strrchr(path, '/')) {
			char folder[4300];
			uint64_t left;

			*end = '\0';
			snprintf(folder, sizeof(folder), "%s%s", root, path);
			left = second ? left_in(folder, "memory.max", "memory.current",
						"inactive_file")
				      : left_in(folder, "memory.limit_in_bytes",
						"memory.usage_in_bytes", "total_inactive_file");
			least = left < least ? left : least;
		}
	}
	return least;
}

int ip_remap_limits_check(const struct ip_target *target, size_t mappings, size_t pages)
{
	uint64_t max_maps = read_number("/proc/sys/vm/max_map_count", 65530), need, left;

	if (target->maps.n + mappings + SPARE_MAPS > max_maps)
		return ip_error("pid %d has %zu mappings of at most %lu, and --no-stop needs %zu "
				"more: leave it out, or raise vm.max_map_count",
				target->pid, target->maps.n, max_maps, mappings + SPARE_MAPS);
	left = left_in_cgroups(target->pid) >> 10;
	need = (pages * PAGE_SIZE + SPARE_CGROUP) >> 10;
	if (left < need)
		return ip_error("pid %d: its memory cgroup leaves %lu KiB, and --no-stop needs "
				"%lu: leave it out, or raise the limit",
				target->pid, left, need);
	left = read_key("/proc/meminfo", "MemAvailable", UINT64_MAX);
	need = (pages * PAGE_SIZE + SPARE_MACHINE) >> 10;
	if (left < need)
		return ip_error("pid %d: this machine has %lu KiB of memory left, and --no-stop "
				"needs %lu: leave it out",
				target->pid, left, need);
	return 0;
}

bool ip_remap_limits_kernel_can(void)
{
	_cleanup_close_ int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	void *page = fd < 0 ? MAP_FAILED : mmap(NULL, PAGE_SIZE, PROT_READ, MAP_PRIVATE, fd, 0),
	     *moved;
	bool can;

	if (page == MAP_FAILED)
		return true;
	/* the address: a hint that the kernel reads, and checks */
	moved = mremap(page, PAGE_SIZE, PAGE_SIZE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
	can = moved != MAP_FAILED || errno != EINVAL;
	if (moved != MAP_FAILED)
		munmap(moved, PAGE_SIZE);
	munmap(page, PAGE_SIZE);
	return can;
}
