/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much memory sessions may take. Rings are memory of the machine, or of iprobed's control
 * group. If it runs out, the kernel kills a process: iprobed, or a worker whose target is live. So
 * memory is reserved before a worker is started, and never reserved twice.
 *
 *   1. The total is the least limit of iprobed's control group and the groups above it, and at most
 *      the machine's memory. All sessions together may have half of it. One user may have half of
 *      that, or as much as --memory-per-user says.
 *   2. A session that records takes what the last --memory says, plus IP_IPROBED_BESIDE for what
 *      its worker knows of the program. Events of the kernel take their buffers of all CPUs,
 *      and as much beside for the process that reads them, until that has ended. Other
 * sessions take none: a session that restores sites is never refused for lack of memory.
 */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "common/units.h"
#include "iprobed/daemon_private.h"

/* Returns the number at the beginning of a file. UINT64_MAX: there is no number ("max"), or no
 * file. */
static uint64_t read_number(const char *path)
{
	_cleanup_fclose_ FILE *file = fopen(path, "re");
	uint64_t value;

	return file && fscanf(file, "%" SCNu64, &value) == 1 ? value : UINT64_MAX;
}

/* Returns the least limit of a group and the groups above it. group: path below top, which is
 * shortened here. */
static uint64_t limit_of(const char *top, char *group, const char *file)
{
	uint64_t least = UINT64_MAX;

	for (;;) {
		char path[PATH_MAX + 64], *slash = strrchr(group, '/');
		uint64_t value;

		if (snprintf(path, sizeof(path), "%s%s/%s", top, group, file) < (int)sizeof(path)) {
			value = read_number(path);
			least = value < least ? value : least;
		}
		if (!slash)
			return least;
		*slash = '\0';
	}
}

uint64_t ip_iprobed_memory_there(const char *groups, const char *top, const char *meminfo)
{
	_cleanup_fclose_ FILE *list = fopen(groups, "re"), *info = fopen(meminfo, "re");
	char line[PATH_MAX + 64], below[PATH_MAX];
	uint64_t least = UINT64_MAX, value;

	while (info && fgets(line, sizeof(line), info))
		if (sscanf(line, "MemTotal: %" SCNu64, &value) == 1)
			least = value << 10;
	while (list && fgets(line, sizeof(line), list)) {
		char *group = strchr(line, ':'), *path = group ? strchr(group + 1, ':') : NULL;
		bool first;

		if (!path)
			continue;
		*path++ = '\0';
		path[strcspn(path, "\n")] = '\0';
		first = !strcmp(group, ":"); /* control groups version 2 */
		if (!first && !strstr(group, "memory"))
			continue;
		snprintf(below, sizeof(below), "%s/%s", top, first ? "" : "memory");
		value = limit_of(below, path, first ? "memory.max" : "memory.limit_in_bytes");
		least = value < least ? value : least;
	}
	return least;
}

uint64_t ip_iprobed_kernel_memory(uint64_t buffer)
{
	const long cpus = sysconf(_SC_NPROCESSORS_CONF);

	return 2 * buffer * (cpus > 0 ? cpus : 1);
}

static uint64_t taken_by_reader(uint64_t buffer)
{
	return buffer ? ip_iprobed_kernel_memory(buffer) + IP_IPROBED_BESIDE : 0;
}

/* Without the process that reads events of the kernel for it. A flight recorder keeps as much of
 * these events as of calls. */
static uint64_t taken_by(const struct ip_iprobed_session *s)
{
	uint64_t memory = s->cleaning ? 0 : ip_request_memory(&s->request);

	if (s->kernel_buffer && ip_request_keeps_newest(&s->request))
		memory *= 2;
	return memory ? memory + IP_IPROBED_BESIDE : 0;
}

int ip_iprobed_check_memory(const struct ip_iprobed *d, const struct ip_iprobed_session *s)
{
	uint64_t needed = taken_by(s), mine = 0, all = 0, total, most;
	const char *less = s->kernel_buffer ? " or --kernel-buffer" : "";
	char a[32], b[32], c[32];

	needed += taken_by_reader(s->kernel_buffer);
	if (!needed)
		return 0;
	for (size_t i = 0; i < d->nsessions; i++) {
		all += taken_by(d->sessions[i]);
		if (d->sessions[i]->who.facts.ids.ruid == s->who.facts.ids.ruid)
			mine += taken_by(d->sessions[i]);
	}
	for (size_t i = 0; i < d->nreaders; i++) { /* which may outlive their sessions */
		all += taken_by_reader(d->readers[i].buffer);
		if (d->readers[i].uid == s->who.facts.ids.ruid)
			mine += taken_by_reader(d->readers[i].buffer);
	}
	/* read each time, since the limits of groups change */
	total = ip_iprobed_memory_there("/proc/self/cgroup", "/sys/fs/cgroup", "/proc/meminfo") / 2;
	most = d->options->memory_per_user ? d->options->memory_per_user : total / 2;
	ip_format_size(needed, a);
	if (needed > most || mine > most - needed)
		return ip_error(
			"this session needs %s of memory, and those of uid %u have %s of the %s "
			"that iprobed gives a user: give less by --memory%s, or end one",
			a, s->who.facts.ids.ruid, ip_format_size(mine, b), ip_format_size(most, c),
			less);
	if (needed > total || all > total - needed)
		return ip_error(
			"this session needs %s of memory, and all by iprobed have %s of %s, half "
			"of what there is: give less by --memory%s, or try again later",
			a, ip_format_size(all, b), ip_format_size(total, c), less);
	return 0;
}
