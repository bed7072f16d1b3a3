/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the processes of a service in /proc. See processes.h.
 */
#include "service/processes.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/print.h"
#include "common/selection/selection.h"

#define CGROUP_ROOT    "/sys/fs/cgroup"
#define LINE_MAX_BYTES 8192

bool ip_service_choice_is_open(const struct ip_service_choice *choice)
{
	return choice->nnames || choice->nunits || choice->ncgroups || choice->children;
}

char *ip_service_choice_text(const struct ip_service_choice *choice)
{
	char *text = NULL;
	const char *between = "";
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return ip_print_end_text(out, &text);
	if (choice->npids) {
		ip_print(out, choice->npids == 1 ? "PID" : "PIDs");
		between = " ";
	}
	for (size_t i = 0; i < choice->npids; i++)
		ip_print(out, " %d", choice->pids[i]);
	for (size_t i = 0; i < choice->nnames; i++, between = " ")
		ip_print(out, "%s--name %s", between, choice->names[i]);
	for (size_t i = 0; i < choice->nunits; i++, between = " ")
		ip_print(out, "%s--unit %s", between, choice->units[i]);
	for (size_t i = 0; i < choice->ncgroups; i++, between = " ")
		ip_print(out, "%s--cgroup %s", between, choice->cgroups[i]);
	if (choice->children)
		ip_print(out, "%s--children", between);
	return ip_print_end_text(out, &text);
}

pid_t ip_service_next_missing(const struct ip_service_choice *choice,
			      const struct ip_service_processes *found, size_t *at)
{
	while (*at < choice->npids) {
		const pid_t pid = choice->pids[(*at)++];

		if (!ip_service_processes_get(found, pid))
			return pid;
	}
	return 0;
}

/* Mixes 8 bytes into a hash. */
static uint64_t mix(uint64_t hash, uint64_t value)
{
	return (hash ^ value) * 0x9e3779b97f4a7c15ull ^ (hash >> 29);
}

/* Reads the state, the parent and the start of a process. The name in parentheses may contain
 * anything. Returns false where the process is gone or a zombie. */
static bool read_stat(int dir, struct ip_service_process *p)
{
	_cleanup_close_ int fd = openat(dir, "stat", O_RDONLY | O_CLOEXEC);
	char text[1024];
	const char *at;
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	char state;

	if (n <= 0)
		return false;
	text[n] = '\0';
	at = strrchr(text, ')');
	return at &&
	       sscanf(at + 1,
		      " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d "
		      "%*d %*d %lu %*u %*d %*u %*u %*u %lu",
		      &state, &p->parent, &p->started, &p->image) >= 3 &&
	       state != 'Z' && state != 'X';
}

static void read_comm(int dir, struct ip_service_process *p)
{
	_cleanup_close_ int fd = openat(dir, "comm", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, p->comm, sizeof(p->comm) - 1);

	p->comm[n > 0 ? n : 0] = '\0';
	p->comm[strcspn(p->comm, "\n")] = '\0';
}

static void read_identity(int dir, struct ip_service_process *p)
{
	_cleanup_fclose_ FILE *file = NULL;
	int fd = openat(dir, "status", O_RDONLY | O_CLOEXEC);
	struct stat st;
	char line[256];

	p->exe = 0;
	/* where it may not be followed, the link itself tells as much as we may know */
	if (fstatat(dir, "exe", &st, 0) == 0)
		p->exe = mix(mix(1, st.st_ino), st.st_dev);
	p->identity = mix(mix(1, p->image), p->exe);
	file = fd < 0 ? NULL : fdopen(fd, "r");
	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, "Uid:", 4) || !strncmp(line, "Gid:", 4))
			for (const char *c = line; *c; c++)
				p->identity = mix(p->identity, (unsigned char)*c);
}

static bool has_name(int dir, const struct ip_service_process *p,
		     const struct ip_service_choice *choice)
{
	char path[PATH_MAX];
	ssize_t n = choice->nnames ? readlinkat(dir, "exe", path, sizeof(path) - 1) : -1;
	const char *base = NULL;

	if (n > 0) {
		path[n] = '\0';
		/* the kernel adds this to the path of a file that was replaced by a new version */
		if (n > 10 && !strcmp(path + n - 10, " (deleted)"))
			path[n - 10] = '\0';
		base = strrchr(path, '/');
	}
	for (size_t i = 0; i < choice->nnames; i++)
		if (fnmatch(choice->names[i], p->comm, 0) == 0 ||
		    (base && fnmatch(choice->names[i], base + 1, 0) == 0))
			return true;
	return false;
}

/* Whether a component of the path is the unit's name. */
static bool has_unit(const char *path, const char *unit)
{
	char name[NAME_MAX + 1];
	size_t n;

	snprintf(name, sizeof(name), "%s%s", unit, strchr(unit, '.') ? "" : ".service");
	n = strlen(name);
	for (const char *at = path; (at = strstr(at, name)); at++)
		if (at > path && at[-1] == '/' && (!at[n] || at[n] == '/'))
			return true;
	return false;
}

/* Whether the path is the group's, or lies below it. */
static bool is_in_group(const char *path, const char *group)
{
	size_t n;

	if (!strncmp(group, CGROUP_ROOT "/", sizeof(CGROUP_ROOT)))
		group += sizeof(CGROUP_ROOT) - 1;
	while (group[0] == '/' && group[1] == '/')
		group++;
	n = strlen(group);
	while (n > 1 && group[n - 1] == '/')
		n--;
	if (*group != '/') /* a name relative to the root */
		return *path == '/' && !strncmp(path + 1, group, n) &&
		       (!path[1 + n] || path[1 + n] == '/');
	return n == 1 || (!strncmp(path, group, n) && (!path[n] || path[n] == '/'));
}

/* Version 1 of control groups has a line for each hierarchy. The directory under /sys/fs/cgroup is
 * named by its controllers there, so that a path with this directory in front is compared, too. */
bool ip_service_choice_has_group(const struct ip_service_choice *choice, char *line)
{
	char *controllers = strchr(line, ':'),
	     *path = controllers ? strchr(controllers + 1, ':') : NULL;
	char whole[LINE_MAX_BYTES + 64];

	if (!path)
		return false;
	*path++ = '\0';
	controllers++;
	if (!strncmp(controllers, "name=", 5))
		controllers += 5;
	path[strcspn(path, "\n")] = '\0';
	snprintf(whole, sizeof(whole), "/%s%s", controllers, path);
	for (size_t i = 0; i < choice->nunits; i++)
		if (has_unit(path, choice->units[i]))
			return true;
	for (size_t i = 0; i < choice->ncgroups; i++)
		if (is_in_group(path, choice->cgroups[i]) ||
		    (*controllers && is_in_group(whole, choice->cgroups[i])))
			return true;
	return false;
}

static bool has_group(int dir, const struct ip_service_choice *choice)
{
	_cleanup_fclose_ FILE *file = NULL;
	char line[LINE_MAX_BYTES];
	int fd;

	if (!choice->nunits && !choice->ncgroups)
		return false;
	fd = openat(dir, "cgroup", O_RDONLY | O_CLOEXEC);
	file = fd < 0 ? NULL : fdopen(fd, "r");
	while (file && fgets(line, sizeof(line), file))
		if (ip_service_choice_has_group(choice, line))
			return true;
	return false;
}

static bool is_named(pid_t pid, const struct ip_service_choice *choice)
{
	for (size_t i = 0; i < choice->npids; i++)
		if (choice->pids[i] == pid)
			return true;
	return false;
}

static bool is_chosen(int dir, const struct ip_service_process *p,
		      const struct ip_service_choice *choice)
{
	return p->named || has_name(dir, p, choice) || has_group(dir, choice);
}

bool ip_service_choice_includes_child(const struct ip_service_choice *choice, pid_t pid)
{
	struct ip_service_process p = {.pid = pid, .named = is_named(pid, choice)};
	_cleanup_close_ int dir = -1;
	char name[32];

	if (choice->children)
		return true;
	snprintf(name, sizeof(name), "/proc/%d", pid);
	dir = open(name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return false;
	read_comm(dir, &p);
	return is_chosen(dir, &p, choice);
}

static int by_pid(const void *a, const void *b)
{
	const struct ip_service_process *x = a, *y = b;

	return (x->pid > y->pid) - (x->pid < y->pid);
}

const struct ip_service_process *
ip_service_processes_get(const struct ip_service_processes *processes, pid_t pid)
{
	const struct ip_service_process key = {.pid = pid};

	return processes->n ? bsearch(&key, processes->items, processes->n, sizeof(key), by_pid)
			    : NULL;
}

/* Whether an ancestor of the process is this process (*ret_ours), or is chosen. */
static bool descends(const struct ip_service_processes *all, size_t i, bool *ret_ours)
{
	bool chosen = false;

	pid_t parent = all->items[i].parent;

	/* a pid that was given anew while /proc was read may close a circle */
	for (unsigned depth = 0; parent > 1 && depth < 4096; depth++) {
		const struct ip_service_process *p = ip_service_processes_get(all, parent);

		*ret_ours |= parent == getpid();
		if (!p)
			break;
		chosen |= p->chosen;
		parent = p->parent;
	}
	return chosen;
}

static int read_all(const struct ip_service_choice *choice, struct ip_service_processes *ret)
{
	_cleanup_closedir_ DIR *proc = opendir("/proc");
	const struct dirent *entry;

	if (!proc)
		return ip_error_errno("cannot read /proc");
	while ((entry = readdir(proc))) {
		struct ip_service_process p = {0};
		_cleanup_close_ int dir = -1;

		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		p.pid = atoi(entry->d_name);
		errno = 0;
		dir = openat(dirfd(proc), entry->d_name, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (dir < 0 || !read_stat(dir, &p)) {
			/* it is there, perhaps, and it is us who cannot look */
			if (errno == EMFILE || errno == ENFILE || errno == ENOMEM)
				return ip_error_errno("cannot look at pid %d", p.pid);
			continue;
		}
		read_comm(dir, &p);
		p.named = is_named(p.pid, choice);
		p.chosen = is_chosen(dir, &p, choice);
		if (ip_array_grow(&ret->items, ret->n, sizeof(*ret->items)) < 0)
			return -1;
		ret->items[ret->n++] = p;
	}
	qsort(ret->items, ret->n, sizeof(*ret->items), by_pid);
	return 0;
}

/* The names of processes that are most like the first name that was asked for; "": none is. NULL:
 * no memory, or /proc cannot be read. */
static char *nearest_names(const struct ip_service_choice *choice)
{
	struct ip_service_processes all = {0};
	_cleanup_free_ const char **names = NULL;
	size_t n = 0;
	char *ret = NULL;

	if (read_all(choice, &all) == 0)
		names = calloc(all.n, sizeof(*names));
	for (size_t i = 0; names && i < all.n; i++)
		if (all.items[i].pid != getpid())
			names[n++] = all.items[i].comm;
	if (names)
		ret = ip_nearest_names(choice->names[0], names, n);
	ip_service_processes_clear(&all);
	return ret;
}

int ip_service_none_found(const struct ip_service_choice *choice)
{
	_cleanup_free_ char *text = ip_service_choice_text(choice), *near = NULL;

	if (choice->npids && !choice->nnames && !choice->nunits && !choice->ncgroups)
		return ip_error(choice->npids == 1 ? "pid %d does not exist (any more)"
						   : "none of these processes exists (any more): "
						     "the first was pid %d",
				choice->pids[0]);
	near = choice->nnames ? nearest_names(choice) : NULL;
	return ip_error("no process matches %s%s%s%s: iprobe status lists those with iprobe's "
			"runtime, ps -A all",
			text ? text : "this", near && *near ? " (nearest: " : "", near ? near : "",
			near && *near ? ")" : "");
}

/* The identity of a process that is chosen; 0 where it is gone. */
static void identify(struct ip_service_process *p)
{
	_cleanup_close_ int dir = -1;
	char name[32];

	snprintf(name, sizeof(name), "/proc/%d", p->pid);
	dir = open(name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir >= 0)
		read_identity(dir, p);
}

bool ip_service_process_refresh(struct ip_service_process *process)
{
	struct ip_service_process p = *process;
	_cleanup_close_ int dir = -1;
	char name[32];

	snprintf(name, sizeof(name), "/proc/%d", p.pid);
	dir = open(name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0 || !read_stat(dir, &p) || p.started != process->started)
		return false;
	read_identity(dir, &p);
	read_comm(dir, &p);
	*process = p;
	return true;
}

int ip_service_processes_find(const struct ip_service_choice *choice,
			      struct ip_service_processes *ret)
{
	struct ip_service_processes all = {0};
	int done = read_all(choice, &all);

	*ret = (struct ip_service_processes){0};
	for (size_t i = 0; done == 0 && i < all.n; i++) {
		bool ours = all.items[i].pid == getpid(),
		     below = descends(&all, i, &ours) && choice->children;

		if (ours || !(all.items[i].chosen || below))
			continue;
		if (ret->n == IP_SERVICE_PROCESSES)
			done = ip_error("more than %u processes match: name fewer",
					IP_SERVICE_PROCESSES);
		else
			done = ip_array_grow(&ret->items, ret->n, sizeof(*ret->items));
		if (done < 0)
			break;
		ret->items[ret->n] = all.items[i];
		identify(&ret->items[ret->n++]);
	}
	ip_service_processes_clear(&all);
	if (done < 0)
		ip_service_processes_clear(ret);
	return done;
}

/* Adds the part to *text where no process matches it. */
static int add_unmatched(const struct ip_service_choice *part, char **text)
{
	_cleanup_free_ char *said = ip_service_choice_text(part), *before = *text;
	struct ip_service_processes found;

	*text = NULL;
	if (!said)
		return -1;
	if (ip_service_processes_find(part, &found) < 0)
		return -1;
	if (asprintf(text, "%s%s%s", before, !found.n && *before ? " " : "", found.n ? "" : said) <
	    0) {
		*text = NULL;
		ip_error("out of memory");
	}
	ip_service_processes_clear(&found);
	return *text ? 0 : -1;
}

char *ip_service_choice_unmatched(const struct ip_service_choice *choice)
{
	char *text = strdup("");
	int ret = text ? 0 : ip_error("out of memory");

	for (size_t i = 0; ret == 0 && i < choice->nnames; i++)
		ret = add_unmatched(
			&(struct ip_service_choice){.names = &choice->names[i], .nnames = 1},
			&text);
	for (size_t i = 0; ret == 0 && i < choice->nunits; i++)
		ret = add_unmatched(
			&(struct ip_service_choice){.units = &choice->units[i], .nunits = 1},
			&text);
	for (size_t i = 0; ret == 0 && i < choice->ncgroups; i++)
		ret = add_unmatched(
			&(struct ip_service_choice){.cgroups = &choice->cgroups[i], .ncgroups = 1},
			&text);
	return text;
}

void ip_service_processes_clear(struct ip_service_processes *processes)
{
	free(processes->items);
	*processes = (struct ip_service_processes){0};
}
