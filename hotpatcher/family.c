/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding forked children by what they have mapped: a daemon has another parent and no descriptors of old.
 */
#include "hotpatcher/family.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "hotpatcher/restore.h"

#define TRIES 20

static bool maps_inode(pid_t pid, uint64_t inode)
{
	_cleanup_fclose_ FILE *file = NULL;
	char name[64], line[4300];
	uint64_t found;

	snprintf(name, sizeof(name), "/proc/%d/maps", pid);
	file = fopen(name, "re");
	while (file && fgets(line, sizeof(line), file))
		if (strstr(line, "/memfd:iprobe") && sscanf(line, "%*s %*s %*s %*s %lu", &found) == 1 &&
		    found == inode)
			return true;
	return false;
}

/* The number of sites put back, or -1. */
static long restore_one(pid_t pid, uint64_t deadline_ns)
{
	const struct timespec nap = {.tv_nsec = 5000000};
	struct ip_patch_result result = {0};
	struct ip_modules modules;
	struct ip_target *target;
	int ret;

	if (ip_target_open(pid, true, &target) < 0)
		return -1;
	ret = ip_modules_load(target, &modules);
	if (ret == 0) {
		for (int i = 0; i < TRIES; i++) {
			ret = ip_restore(target, &modules, deadline_ns, &result);
			if (ret == 0 || !result.transient)
				break;
			nanosleep(&nap, NULL);
		}
		ip_modules_clear(&modules);
	}
	free(result.inside);
	if (ret < 0 && !ip_target_alive(target))
		ret = 0;
	ip_target_close(target);
	return ret < 0 ? -1 : (long)result.sites;
}

void ip_family_restore(const struct ip_area *area, pid_t pid, uint64_t deadline_ns)
{
	_cleanup_closedir_ DIR *dir = opendir("/proc");
	struct dirent *entry;
	struct stat st;

	if (!dir || fstat(area->fd, &st) < 0)
		return;
	while ((entry = readdir(dir))) {
		pid_t other = isdigit((unsigned char)entry->d_name[0]) ? atoi(entry->d_name) : 0;
		long sites;

		if (!other || other == pid || other == getpid() || !maps_inode(other, st.st_ino))
			continue;
		sites = restore_one(other, deadline_ns);
		if (sites > 0)
			fprintf(stderr, "iprobe: pid %d, forked from pid %d: put back %ld sites\n", other,
				pid, sites);
		else if (sites < 0)
			fprintf(stderr,
				"iprobe: pid %d, forked from pid %d, may keep live sites (they are silent): "
				"%s\n",
				other, pid, ip_error_message());
	}
}
