/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading /proc, and matching. See match.h.
 */
#include "iprobed/rules/match.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "common/proc.h"

#define CGROUP_MAX 8192
#define DELETED	   " (deleted)"

/* Reads at most size - 1 bytes, and adds a zero. Returns their number, or -1. */
static ssize_t read_file(const char *path, char *buffer, size_t size)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = 0, all = 0;

	if (fd < 0)
		return -1;
	while ((size_t)all < size - 1 && (n = read(fd, buffer + all, size - 1 - all)) > 0)
		all += n;
	buffer[all] = '\0';
	return n < 0 ? -1 : all;
}

static ssize_t read_of(pid_t pid, const char *name, char *buffer, size_t size)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	return read_file(path, buffer, size);
}

int ip_rules_stat_parse(const char *text, struct ip_rules_stat *ret)
{
	unsigned long user, kernel, ticks = sysconf(_SC_CLK_TCK);
	const char *p = strrchr(text, ')'); /* the name before it may contain anything */
	long pages;

	if (!p || sscanf(p + 1,
			 " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %*d %*d %*d %*d %u "
			 "%*d %llu %*u %ld",
			 &ret->state, &ret->parent, &user, &kernel, &ret->threads, &ret->start,
			 &pages) != 7)
		return -1;
	ret->cpu_ns = (user + kernel) * (1000000000ull / (ticks ? ticks : 100));
	ret->resident = pages > 0 ? (uint64_t)pages * sysconf(_SC_PAGESIZE) : 0;
	return 0;
}

int ip_rules_stat_read(pid_t pid, struct ip_rules_stat *ret)
{
	char text[1024];

	return read_of(pid, "stat", text, sizeof(text)) > 0 ? ip_rules_stat_parse(text, ret) : -1;
}

char *ip_rules_exe(pid_t pid)
{
	char name[64], path[PATH_MAX];
	size_t deleted = strlen(DELETED);
	ssize_t n;

	snprintf(name, sizeof(name), "/proc/%d/exe", pid);
	n = readlink(name, path, sizeof(path) - 1);
	if (n <= 0)
		return NULL;
	path[n] = '\0';
	if ((size_t)n > deleted && !strcmp(path + n - deleted, DELETED))
		path[n - deleted] = '\0';
	return strdup(path);
}

static int read_all(pid_t pid, struct ip_rules_process *ret)
{
	char cgroup[CGROUP_MAX];
	struct ip_rules_stat stat;
	long uid = ip_proc_status(pid, "Uid");

	if (uid < 0 || ip_rules_stat_read(pid, &stat) < 0 || stat.state == 'Z' || stat.state == 'X')
		return -1;
	if (read_of(pid, "cgroup", cgroup, sizeof(cgroup)) < 0)
		*cgroup = '\0';
	ret->start = stat.start;
	ret->parent = stat.parent;
	ret->uid = uid;
	ret->exe = ip_rules_exe(pid);
	ret->cgroup = strdup(cgroup);
	return ret->exe && ret->cgroup ? 0 : -1;
}

int ip_rules_process_read(pid_t pid, struct ip_rules_process *ret)
{
	*ret = (struct ip_rules_process){.pid = pid};
	if (read_all(pid, ret) == 0)
		return 0;
	ip_rules_process_clear(ret);
	return -1;
}

void ip_rules_process_clear(struct ip_rules_process *p)
{
	free(p->exe);
	free(p->cmdline);
	free(p->cgroup);
	*p = (struct ip_rules_process){0};
}

uint64_t ip_rules_hash(const char *text)
{
	uint64_t hash = 0xcbf29ce484222325ull; /* FNV-1a */

	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * 0x100000001b3ull;
	return hash;
}

/* A glob with a '/' is compared with the whole path, one without with the last component. */
static bool match_path(const char *glob, const char *path)
{
	const char *base = strrchr(path, '/');

	return fnmatch(glob, strchr(glob, '/') || !base ? path : base + 1, 0) == 0;
}

static bool match_user(const char *text, uid_t uid)
{
	const struct passwd *found;
	char *end;
	unsigned long number = strtoul(text, &end, 10);

	if (!*end)
		return number == uid;
	found = getpwnam(text);
	return found && found->pw_uid == uid;
}

/* Returns the path in a line "ID:CONTROLLERS:PATH"; NULL: it is not such a line. */
static char *cgroup_path(char *line)
{
	char *p = strchr(line, ':');

	p = p ? strchr(p + 1, ':') : NULL;
	return p ? p + 1 : NULL;
}

static bool match_component(const char *glob, char *path)
{
	char *save;

	for (char *part = strtok_r(path, "/", &save); part; part = strtok_r(NULL, "/", &save))
		if (fnmatch(glob, part, 0) == 0)
			return true;
	return false;
}

static bool match_cgroup(const char *glob, const char *text, bool component)
{
	_cleanup_free_ char *copy = strdup(text);
	char *save, *path;

	for (char *line = copy ? strtok_r(copy, "\n", &save) : NULL; line;
	     line = strtok_r(NULL, "\n", &save)) {
		path = cgroup_path(line);
		if (path && (component ? match_component(glob, path) : fnmatch(glob, path, 0) == 0))
			return true;
	}
	return false;
}

static bool match_one(const struct ip_rules_texts *texts, const struct ip_rules_process *p,
		      const struct ip_rules_rule *r)
{
	bool found = !texts->n;

	for (size_t i = 0; i < texts->n && !found; i++) {
		const char *text = texts->items[i];

		found = texts == &r->exe       ? match_path(text, p->exe)
			: texts == &r->cmdline ? fnmatch(text, p->cmdline, 0) == 0
			: texts == &r->user    ? match_user(text, p->uid)
					       : match_cgroup(text, p->cgroup, texts == &r->unit);
	}
	return found;
}

bool ip_rules_may_match(const struct ip_rules_rule *r, const struct ip_rules_process *p)
{
	return match_one(&r->exe, p, r) && match_one(&r->cgroup, p, r) &&
	       match_one(&r->unit, p, r) && match_one(&r->user, p, r);
}

bool ip_rules_match(const struct ip_rules_rule *r, const struct ip_rules_process *p)
{
	return ip_rules_may_match(r, p) && match_one(&r->cmdline, p, r);
}

int ip_rules_pressure_parse(const char *text, bool full, uint64_t *ret_us)
{
	const char *line = strncmp(text, full ? "full " : "some ", 5)
				   ? strstr(text, full ? "\nfull " : "\nsome ")
				   : text;
	const char *total = line ? strstr(line + 1, "total=") : NULL;
	char *end;

	/* it must be in this line */
	if (!total || memchr(line + 1, '\n', total - line - 1))
		return -1;
	*ret_us = strtoull(total + 6, &end, 10);
	return end == total + 6 ? -1 : 0;
}

/* Returns where cgroups version 2 are mounted: static text. NULL: nowhere. */
static const char *cgroup_root(void)
{
	static char root[PATH_MAX];
	_cleanup_fclose_ FILE *mounts = *root ? NULL : fopen("/proc/self/mounts", "re");
	char line[PATH_MAX + 256], path[PATH_MAX], type[64];

	while (!*root && mounts && fgets(line, sizeof(line), mounts))
		if (sscanf(line, "%*s %4095s %63s", path, type) == 2 && !strcmp(type, "cgroup2"))
			strcpy(root, path);
	return *root ? root : NULL;
}

int ip_rules_pressure_read(const struct ip_rules_process *p, enum ip_rules_pressure what,
			   uint64_t *ret_us)
{
	static const char *const names[] = {"cpu", "memory", "io", "memory", "io"};
	const char *line = strncmp(p->cgroup, "0::", 3) ? strstr(p->cgroup, "\n0::") : p->cgroup;
	const char *root = cgroup_root(), *at = line ? strstr(line, "0::") + 3 : NULL;
	char path[PATH_MAX + CGROUP_MAX + 32], text[512];
	int length = at ? (int)strcspn(at, "\n") : 0;

	/* The root group is the whole machine, and has no file of its own. */
	if (length == 1)
		snprintf(path, sizeof(path), "/proc/pressure/%s", names[what]);
	else if (root && length)
		snprintf(path, sizeof(path), "%s%.*s/%s.pressure", root, length, at, names[what]);
	else
		return ip_error("pid %d is in no cgroup of version 2: its pressure is not known",
				p->pid);
	if (read_file(path, text, sizeof(text)) < 0)
		return ip_error_errno("cannot read %s", path);
	return ip_rules_pressure_parse(text, what >= IP_RULES_PRESSURE_MEMORY_FULL, ret_us) == 0
		       ? 0
		       : ip_error("%s: not as expected", path);
}
