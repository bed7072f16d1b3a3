/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the processes that a target has forked. See fork_child.h; the comments name the steps of
 * follow_fork.h.
 */
#include "session/follow/fork_child.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/now.h"
#include "common/proc.h"
#include "hotpatcher/process/shared_mm.h"

#define GATE_SIZE 4096u

void ip_fork_child_drop(struct ip_follow_fork *f, struct ip_fork_child *r)
{
	if (r->fd >= 0)
		close(r->fd);
	if (f->forget && r->kept)
		f->forget(r->kept);
}

/* Whether a process that has an area of its own has a session, too. If this cannot be seen, it
 * counts as one: its text is not ours then. */
static bool has_own_session(pid_t pid)
{
	struct ip_target *target;
	struct ip_area *area = NULL;
	bool has;

	if (ip_target_open(pid, false, &target) < 0)
		return true;
	has = !target->has_runtime || ip_area_open(target, &area) < 0 || ip_area_has_session(area);
	ip_area_close(area);
	ip_target_close(target);
	return has;
}

bool ip_fork_child_is_copy(const struct ip_follow_fork *f, pid_t pid, bool idle_too)
{
	_cleanup_fclose_ FILE *file = NULL;
	/* the whole line: a part of a path must not be taken for a line */
	_cleanup_free_ char *line = NULL;
	bool has_gate = false, has_another = false;
	uint64_t inode, start, end;
	char name[64], perms[5];
	size_t size = 0;

	snprintf(name, sizeof(name), "/proc/%d/maps", pid);
	file = fopen(name, "re");
	while (file && getline(&line, &size, file) > 0) {
		if (sscanf(line, "%lx-%lx %4s %*s %*s %lu", &start, &end, perms, &inode) != 4)
			continue;
		has_gate |= start == f->gate && end == start + GATE_SIZE && !inode &&
			    !strcmp(perms, "rw-p");
		if (!strstr(line, "/memfd:iprobe"))
			continue;
		if (inode == f->inode)
			return true;
		has_another = true;
	}
	return has_gate && (!has_another || (idle_too && !has_own_session(pid)));
}

bool ip_fork_child_has_image(const struct ip_follow_fork *f, pid_t pid)
{
	return ip_fork_child_is_copy(f, pid, false);
}

bool ip_fork_child_has_area(const struct ip_follow_fork *f, pid_t pid)
{
	_cleanup_fclose_ FILE *file = NULL;
	_cleanup_free_ char *line = NULL;
	uint64_t inode;
	size_t size = 0;
	char name[64];

	snprintf(name, sizeof(name), "/proc/%d/maps", pid);
	file = fopen(name, "re");
	while (file && getline(&line, &size, file) > 0)
		if (strstr(line, "/memfd:iprobe") &&
		    sscanf(line, "%*s %*s %*s %*s %lu", &inode) == 1 && inode == f->inode)
			return true;
	return false;
}

bool ip_fork_child_has_ended(const struct ip_fork_child *r)
{
	struct pollfd p = {.fd = r->fd, .events = POLLIN};

	if (r->fd >= 0)
		return poll(&p, 1, 0) != 0;
	return kill(r->pid, 0) < 0 && errno == ESRCH;
}

void ip_fork_child_forget_ended(struct ip_follow_fork *f)
{
	size_t kept = 0;

	if (f->visits)
		return;
	for (size_t i = 0; i < f->n; i++) {
		if (!ip_fork_child_has_ended(&f->items[i])) {
			f->items[kept++] = f->items[i];
			continue;
		}
		ip_fork_child_drop(f, &f->items[i]);
	}
	f->n = kept;
}

struct ip_fork_child *ip_fork_child_find(const struct ip_follow_fork *f, pid_t pid)
{
	for (size_t i = 0; i < f->n; i++)
		if (f->items[i].pid == pid)
			return &f->items[i];
	return NULL;
}

/* Another iprobe has the area mapped, too, for example to ask for a change of the session. It is no
 * child. */
static bool is_iprobe(pid_t pid)
{
	struct stat ours, theirs;
	char name[64];

	snprintf(name, sizeof(name), "/proc/%d/exe", pid);
	return stat("/proc/self/exe", &ours) == 0 && stat(name, &theirs) == 0 &&
	       ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino;
}

/* Whether the process is a child of vfork, or of clone(CLONE_VM), of the target or of another
 * child. */
static bool lives_in_another(const struct ip_follow_fork *f, pid_t pid)
{
	if (ip_shared_mm_is(f->target->pid, pid))
		return true;
	for (size_t i = 0; i < f->n; i++)
		if (f->items[i].kind == IP_FORK_CHILD && ip_shared_mm_is(f->items[i].pid, pid))
			return true;
	return false;
}

pid_t ip_fork_child_parent(const struct ip_follow_fork *f, const struct ip_fork_child *r)
{
	const struct ip_fork_child *parent;

	if (r->parent || !r->outer_parent)
		return r->parent;
	if (r->outer_parent == f->target->pid)
		return f->target->inner_pid;
	parent = ip_fork_child_find(f, r->outer_parent);
	return parent && parent->kind == IP_FORK_CHILD ? parent->inner : 0;
}

/* Step 2, for a process that was found just now. */
void ip_fork_child_meet(struct ip_follow_fork *f, pid_t pid)
{
	struct ip_fork_child r = {.pid = pid, .found_ns = ip_now_ns()};
	long parent;

	if (pid == f->target->pid || pid == getpid() || ip_fork_child_find(f, pid) ||
	    is_iprobe(pid) || ip_array_grow(&f->items, f->n, sizeof(*f->items)) < 0)
		return;
	r.fd = syscall(SYS_pidfd_open, pid, 0);
	parent = ip_proc_status(pid, "PPid");
	r.inner = f->same_namespace ? pid : ip_proc_inner_pid(pid);
	r.outer_parent = parent > 0 ? parent : 0;
	r.parent = ip_fork_child_parent(f, &r);
	r.kind = ip_fork_child_has_image(f, pid) ? IP_FORK_CHILD : IP_FORK_STRANGER;
	r.shares = r.kind == IP_FORK_CHILD && lives_in_another(f, pid);
	f->items[f->n++] = r;
}

static int meet_child(void *followed, pid_t pid)
{
	ip_fork_child_meet(followed, pid);
	return 0;
}

/* Step 1. */
void ip_fork_child_meet_children(struct ip_follow_fork *f, pid_t pid)
{
	ip_proc_each_child(pid, meet_child, f);
}

/* Identity of the file that a process executes. Asks no file system, which may hang, and takes no
 * lock of the process's. */
static int exe_of(pid_t pid, struct statx *ret)
{
	char name[64];

	snprintf(name, sizeof(name), "/proc/%d/exe", pid);
	return statx(AT_FDCWD, name, AT_STATX_DONT_SYNC, STATX_INO, ret);
}

void ip_fork_child_note_exe(struct ip_follow_fork *f, pid_t pid)
{
	f->exe_known = exe_of(pid, &f->exe) == 0;
}

/* Whether the process executes the target's file. To read its mappings takes the lock of its
 * memory: any process on the machine that holds it for long (a large one that forks, one that
 * hardly gets a CPU, one that waits for a hanging file system) would keep iprobe at its end for as
 * long. Its name does not say it: mount namespaces name one file differently. */
static bool may_execute(const struct ip_follow_fork *f, pid_t pid)
{
	struct statx exe;

	if (!f->exe_known)
		return true;
	/* no link: it has no memory, or has ended, or may not be looked at */
	if (exe_of(pid, &exe) < 0)
		return errno != ENOENT && errno != ESRCH && errno != EACCES;
	return exe.stx_ino == f->exe.stx_ino && exe.stx_dev_major == f->exe.stx_dev_major &&
	       exe.stx_dev_minor == f->exe.stx_dev_minor;
}

/* Step 4. */
void ip_fork_child_meet_all(struct ip_follow_fork *f, bool idle_too)
{
	_cleanup_closedir_ DIR *dir = opendir("/proc");
	struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		pid_t pid = isdigit((unsigned char)entry->d_name[0]) ? atoi(entry->d_name) : 0;

		if (pid && !ip_fork_child_find(f, pid) && may_execute(f, pid) &&
		    ip_fork_child_is_copy(f, pid, idle_too))
			ip_fork_child_meet(f, pid);
	}
}
