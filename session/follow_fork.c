/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds forked children, and puts them back. follow_fork.h describes the steps; the comments here
 * name them.
 */
#include "session/follow_fork.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "access/thread_credentials.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/notice.h"
#include "common/proc.h"
#include "common/units.h"
#include "hotpatcher/inject/borrow_search.h"
#include "hotpatcher/patch/restore.h"
#include "hotpatcher/plan/bounds.h"
#include "hotpatcher/process/shared_mm.h"
#include "hotpatcher/ptrace/stop.h"

#define TRIES	       20
#define NAP_NS	       5000000ull
#define PASSES	       10
#define LOOK_NS	       5000000ull   /* between looks, at least */
#define LOOK_SHARE     20	    /* one part in so many of our time goes to looks */
#define IDLE_NS	       250000000ull /* between looks if nothing calls for one */
#define GROWN_NS       20000000ull  /* how long a silent child has lived when it is put back */
#define DIFFERS_TRIES  8
#define LOCK_TRIES     3
#define THREADS_MOST   256u	     /* whose credentials a look reads: of all children together, */
#define THREADS_LEAST  4u	     /* and at least of each child */
#define DISOWN_NS      20000000ull   /* how long to look for a thread to unmap a child's area, */
#define DISOWN_LAST_NS 1000000000ull /* and at the end, when nothing waits to be drained */

enum kind {
	CHILD, /* has the target's image, and perhaps live sites */
	/* a silent child that was put back; it may have forked its own children before that */
	CLEAN,
	STRANGER, /* executes another program, or we may not look at it */
};

struct relative {
	pid_t pid, inner;
	int fd; /* a pidfd: another process may get the number one day */
	enum kind kind;
	uint64_t found_ns;
	unsigned tries;
	unsigned credentials_at; /* index of the thread whose credentials are read next */
	bool differs; /* a followed child with other credentials: it loses its sites and the area */
	uint64_t again_ns;
	/* its memory is the target's, or that of another child that was found before */
	bool shares;
	void *kept; /* of the caller of ip_follow_fork_each() */
};

struct ip_follow_fork {
	struct ip_area *area;
	struct ip_target *target;
	bool follow, others; /* others: have sessions for what is not followed */
	uint64_t deadline_ns;
	uint64_t inode; /* of the area */
	uint64_t gate;	/* of the target's image, at the beginning */
	long last_pid;	/* at the last look */
	bool same_namespace;
	struct ip_credentials credentials; /* of the target, as they were last seen */
	struct relative *items;
	size_t n;
	uint64_t look_ns; /* no look before that time */
	uint64_t idle_ns; /* a look at that time at the latest */
	size_t restored;
	void (*forget)(void *);
	unsigned visits; /* visits in progress: no child is forgotten meanwhile */
	/* targets that are closed once none of their threads is our tracee: a thread that did not
	 * stop in time still is */
	struct ip_target **late;
	size_t nlate;
};

#define GATE_SIZE 4096u

static bool same_pid_namespace(pid_t pid)
{
	char name[64], ours[64] = "", theirs[64] = "?";

	snprintf(name, sizeof(name), "/proc/%d/ns/pid", pid);
	return readlink("/proc/self/ns/pid", ours, sizeof(ours) - 1) > 0 &&
	       readlink(name, theirs, sizeof(theirs) - 1) > 0 && !strcmp(ours, theirs);
}

int ip_follow_fork_create(struct ip_area *area, struct ip_target *target, bool follow,
			  uint64_t deadline_ns, struct ip_follow_fork **ret)
{
	struct ip_follow_fork *f = calloc(1, sizeof(*f));
	struct stat st;

	if (!f)
		return ip_error("out of memory");
	if (fstat(area->fd, &st) < 0) {
		free(f);
		return ip_error_errno("pid %d: cannot look at its ring memory", target->pid);
	}
	f->area = area;
	f->target = target;
	f->follow = follow;
	f->deadline_ns = deadline_ns;
	f->inode = st.st_ino;
	f->gate = target->anchor.gate;
	f->last_pid = ip_proc_last_pid();
	f->same_namespace = same_pid_namespace(target->pid);
	ip_credentials_read(target->pid, &f->credentials);
	*ret = f;
	return 0;
}

static void drop(struct ip_follow_fork *f, struct relative *r)
{
	if (r->fd >= 0)
		close(r->fd);
	if (f->forget && r->kept)
		f->forget(r->kept);
}

void ip_follow_fork_destroy(struct ip_follow_fork *f)
{
	if (!f)
		return;
	for (size_t i = 0; i < f->n; i++)
		drop(f, &f->items[i]);
	free(f->items);
	/* a thread that is left neither stops nor runs: the kernel detaches it when we end */
	for (size_t i = 0; i < f->nlate; i++) {
		ip_stop_let_go(f->late[i]);
		ip_target_close(f->late[i]);
	}
	free(f->late);
	free(f);
}

void ip_follow_fork_leave_to_others(struct ip_follow_fork *f)
{
	f->others = true;
}

void ip_follow_fork_allow(struct ip_follow_fork *f, bool allow)
{
	uint32_t session = allow && f->follow ? f->area->header->session : 0;

	/* if it cannot be written, the process has ended */
	ip_bounds_set_follow(f->target, session);
	__atomic_store_n(&f->area->header->follow, session, __ATOMIC_SEQ_CST);
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

/* Whether the process is a child with the image that the target had. Such a child has the target's
 * gate, which is a page of its own at the same address, and no other area than the target's. (It
 * has the target's area only if children are followed, or if it lives in the target's memory.)
 * idle_too: also one whose own area has no session: it may have copies of live sites all the same.
 */
static bool is_copy(const struct ip_follow_fork *f, pid_t pid, bool idle_too)
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

static bool has_image(const struct ip_follow_fork *f, pid_t pid)
{
	return is_copy(f, pid, false);
}

static bool has_area(const struct ip_follow_fork *f, pid_t pid)
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

/* The process's id as the process itself sees it: the last field of NSpid. */
static pid_t inner_pid(pid_t pid)
{
	_cleanup_fclose_ FILE *file = NULL;
	char name[64], line[512];

	snprintf(name, sizeof(name), "/proc/%d/status", pid);
	file = fopen(name, "re");
	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, "NSpid:", 6) && strrchr(line, '\t'))
			return atoi(strrchr(line, '\t') + 1);
	return pid;
}

static bool has_ended(const struct relative *r)
{
	struct pollfd p = {.fd = r->fd, .events = POLLIN};

	if (r->fd >= 0)
		return poll(&p, 1, 0) != 0;
	return kill(r->pid, 0) < 0 && errno == ESRCH;
}

static void forget_ended(struct ip_follow_fork *f)
{
	size_t kept = 0;

	if (f->visits)
		return;
	for (size_t i = 0; i < f->n; i++) {
		if (!has_ended(&f->items[i])) {
			f->items[kept++] = f->items[i];
			continue;
		}
		drop(f, &f->items[i]);
	}
	f->n = kept;
}

static struct relative *find(const struct ip_follow_fork *f, pid_t pid)
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
		if (f->items[i].kind == CHILD && ip_shared_mm_is(f->items[i].pid, pid))
			return true;
	return false;
}

/* Step 2, for a process that was found just now. */
static void meet(struct ip_follow_fork *f, pid_t pid)
{
	struct relative r = {.pid = pid, .found_ns = ip_now_ns()};

	if (pid == f->target->pid || pid == getpid() || find(f, pid) || is_iprobe(pid) ||
	    ip_array_grow(&f->items, f->n, sizeof(*f->items)) < 0)
		return;
	r.fd = syscall(SYS_pidfd_open, pid, 0);
	r.inner = f->same_namespace ? pid : inner_pid(pid);
	r.kind = has_image(f, pid) ? CHILD : STRANGER;
	r.shares = r.kind == CHILD && lives_in_another(f, pid);
	f->items[f->n++] = r;
}

static int meet_child(void *followed, pid_t pid)
{
	meet(followed, pid);
	return 0;
}

/* Step 1. */
static void meet_children(struct ip_follow_fork *f, pid_t pid)
{
	ip_proc_each_child(pid, meet_child, f);
}

/* Step 4: finds all processes that have the image. idle_too: as for is_copy(). */
static void meet_all(struct ip_follow_fork *f, bool idle_too)
{
	_cleanup_closedir_ DIR *dir = opendir("/proc");
	struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		pid_t pid = isdigit((unsigned char)entry->d_name[0]) ? atoi(entry->d_name) : 0;

		if (pid && !find(f, pid) && is_copy(f, pid, idle_too))
			meet(f, pid);
	}
}

static void let_late_go(struct ip_follow_fork *f)
{
	size_t kept = 0;

	for (size_t i = 0; i < f->nlate; i++) {
		ip_stop_let_go(f->late[i]);
		if (ip_stops_of(f->late[i])->nheld)
			f->late[kept++] = f->late[i];
		else
			ip_target_close(f->late[i]);
	}
	f->nlate = kept;
}

void ip_follow_fork_close_target(struct ip_follow_fork *f, struct ip_target *target)
{
	const struct timespec nap = {.tv_nsec = 1000000};

	ip_stop_let_go(target);
	if (ip_stops_of(target)->nheld &&
	    ip_array_grow(&f->late, f->nlate, sizeof(struct ip_target *)) == 0) {
		f->late[f->nlate++] = target;
		return;
	}
	while (ip_stops_of(target)->nheld) {
		nanosleep(&nap, NULL);
		ip_stop_let_go(target);
	}
	ip_target_close(target);
}

/* Returns the number of sites that were put back, or -1. The process has nothing of the area any
 * more afterwards. */
static long restore_one(struct ip_follow_fork *f, const struct relative *r, unsigned tries)
{
	const uint64_t began = ip_now_ns();
	const uint32_t closed = 0;
	struct ip_patch_result result = {0};
	struct ip_modules modules;
	_cleanup_close_ int lock = -1;
	struct ip_target *target;
	bool said = false;
	int ret;

	/* its text is the target's own, as after vfork or clone(CLONE_VM) */
	if (ip_shared_mm_is(f->target->pid, r->pid))
		return 0;
	/* what is taken from such a child would be taken from the target */
	if (ip_shared_mm_may_be(f->target->pid, r->pid))
		return ip_error(
			"pid %d may live in the memory of pid %d: the kernel does not tell (kcmp)",
			r->pid, f->target->pid);
	/* A child whose own area has a session is that session's. Such a session takes this lock
	 * before it gets the area, until it has the area's session lock
	 * (hotpatcher/inject/area_renew.h, step 1). A step of our session does not wait for the
	 * lock. The child itself may keep it from us (it may open its own memory): then it goes
	 * without. */
	lock = tries > 1 ? ip_borrow_lock(r->pid) : ip_borrow_try_lock(r->pid);
	if (lock < 0 && (has_ended(r) || (tries == 1 && r->tries < LOCK_TRIES)))
		return has_ended(r) ? 0 : -1;
	if (!is_copy(f, r->pid, tries > 1))
		return 0;
	if (ip_stops_open(r->pid, &target) < 0)
		return has_ended(r) ? 0 : -1;
	/* The order matters: a child that reads the first word before our write opens a gate that
	 * we close, or sees the word of the area. */
	if (f->follow)
		ip_bounds_set_follow(target, 0);
	if (f->follow && target->anchor.gate)
		ip_target_write(target, target->anchor.gate, &closed, sizeof(closed));
	ret = ip_modules_load(target, &modules);
	if (ret == 0) {
		for (unsigned i = 1;; i++) {
			ip_stop_let_go(target);
			ret = ip_restore(target, &modules, f->deadline_ns, &result);
			ip_stop_log_append(&ip_stops_of(f->target)->log, &result.stops, "child");
			ip_stop_log_move(&ip_stops_of(f->target)->log, &ip_stops_of(target)->log,
					 "child");
			if (ret == 0 || !result.transient ||
			    (i >= tries &&
			     (tries == 1 ||
			      !(ip_stops_of(target)->asleep || ip_stops_of(target)->starved) ||
			      !ip_stop_go_on(target, began, &said))))
				break;
			ip_stop_rest(target, NAP_NS, NULL);
		}
		ip_modules_clear(&modules);
	}
	free(result.inside);
	ip_stop_let_go(target);
	if (ret == 0 && has_area(f, r->pid))
		ret = ip_bounds_disown(target, tries > 1 ? DISOWN_LAST_NS : DISOWN_NS);
	if (ret == 0 && has_area(f, r->pid))
		ret = ip_error(
			"pid %d: it has mapped the ring memory elsewhere, too, and has it still",
			r->pid);
	if (ret < 0 && (!ip_target_alive(target) || !has_image(f, r->pid)))
		ret = 0; /* it has ended, or executes another program */
	ip_follow_fork_close_target(f, target);
	return ret < 0 ? -1 : (long)result.sites;
}

/* Whether a child may run in the target's own memory, as a child of vfork does: its sites are the
 * target's, and are meant to be live. If the kernel does not tell, the end of the session will
 * do. */
static bool shares_memory(const struct ip_follow_fork *f, pid_t pid)
{
	return ip_shared_mm_may_be(f->target->pid, pid);
}

/* Step 3: puts back one child in a step of the session, so that the rings are drained in between. A
 * child that cannot be stopped now is tried again, after longer and longer pauses. Whether it may
 * open a gate does not matter: it is silent. Returns whether a child was put back, or that was
 * tried. */
static bool restore_a_grown_one(struct ip_follow_fork *f, uint64_t now)
{
	for (size_t i = 0; i < f->n; i++) {
		struct relative *r = &f->items[i];
		long sites;

		if (r->kind != CHILD ||
		    now - r->found_ns < GROWN_NS << (r->tries < 8 ? r->tries : 8))
			continue;
		if (!has_image(f, r->pid)) {
			r->kind = STRANGER;
			continue;
		}
		if (shares_memory(f, r->pid)) {
			r->found_ns = now;
			continue;
		}
		if (ip_area_lock_patch(f->area, f->target->pid) < 0)
			return true;
		sites = restore_one(f, r, 1);
		ip_area_unlock_patch(f->area);
		r->tries++;
		if (sites < 0)
			return true;
		f->restored += sites > 0;
		r->kind = CLEAN;
		return true;
	}
	return false;
}

static void check_holder(void *data, pid_t pid)
{
	struct ip_follow_fork *f = data;

	if (pid == f->target->inner_pid || !f->same_namespace)
		return;
	if (!find(f, pid))
		meet(f, pid);
}

/* Step 2, for followed children: a child that executes another program has ended as far as the
 * trace is concerned. */
static int drop_execed(struct ip_follow_fork *f, struct ip_collector *collector,
		       struct ip_trace *trace)
{
	for (size_t i = 0; i < f->n; i++) {
		struct relative *r = &f->items[i];

		if (r->kind != CHILD || has_image(f, r->pid) || has_ended(r))
			continue;
		r->kind = STRANGER;
		if (ip_collector_flush_process(collector, r->inner) < 0)
			return -1;
		ip_trace_add_exec(trace, r->inner);
	}
	return 0;
}

static size_t count_children(const struct ip_follow_fork *f)
{
	size_t n = 0;

	for (size_t i = 0; i < f->n; i++)
		n += f->items[i].kind == CHILD;
	return n;
}

/* Whether the child has the target's credentials. Each look checks the first thread of the child;
 * if there are many threads, the others are checked some at a time. What cannot be found out counts
 * as a no. */
static bool has_our_credentials(const struct ip_follow_fork *f, struct relative *r, unsigned most)
{
	struct ip_credentials theirs;

	return ip_credentials_read(r->pid, &theirs) == 0 &&
	       ip_credentials_are_same(&theirs, &f->credentials) &&
	       ip_credentials_of_threads_are(r->pid, &f->credentials, most, &r->credentials_at);
}

/* Step 5: one child in a step of the session, as in step 3. */
static int let_changed_go(struct ip_follow_fork *f, struct ip_collector *collector, uint64_t now)
{
	size_t children = count_children(f);
	unsigned most = children && THREADS_MOST / children > THREADS_LEAST
				? THREADS_MOST / children
				: THREADS_LEAST;

	/* a target that has ended keeps the credentials that were seen last */
	ip_credentials_read(f->target->pid, &f->credentials);
	for (size_t i = 0; i < f->n; i++) {
		struct relative *r = &f->items[i];
		bool gone;

		if (r->kind != CHILD || r->shares || now < r->again_ns)
			continue;
		if ((!r->differs && has_our_credentials(f, r, most)) || has_ended(r))
			continue;
		if (!r->differs)
			ip_notice("pid %d, forked from pid %d, has other credentials than that: it "
				  "is %s",
				  r->pid, f->target->pid,
				  f->others ? "recorded by a session of its own from now on"
					    : "not recorded any more");
		r->differs = true;
		if (ip_area_lock_patch(f->area, f->target->pid) < 0)
			return 0;
		gone = restore_one(f, r, 1) >= 0;
		ip_area_unlock_patch(f->area);
		r->again_ns = now + (GROWN_NS << r->tries++);
		if (!gone && r->tries < DIFFERS_TRIES)
			return 0;
		if (!gone)
			ip_notice("pid %d, forked from pid %d: %s", r->pid, f->target->pid,
				  ip_error_message());
		r->kind = CLEAN;
		return ip_collector_flush_process(collector, r->inner);
	}
	return 0;
}

int ip_follow_fork_step(struct ip_follow_fork *f, struct ip_collector *collector,
			struct ip_trace *trace)
{
	uint64_t now = ip_now_ns();
	bool worked = true;
	long last;

	if (f->nlate)
		let_late_go(f);
	if (now < f->look_ns)
		return 0;
	last = ip_proc_last_pid();
	if (f->follow || last != f->last_pid || now > f->idle_ns) {
		f->last_pid = last;
		f->idle_ns = now + IDLE_NS;
		forget_ended(f);
		if (f->follow) {
			if (drop_execed(f, collector, trace) < 0)
				return -1;
			ip_collector_each_process(collector, check_holder, f);
		}
		meet_children(f, f->target->pid);
		for (size_t i = 0; i < f->n; i++) /* f->n grows: new children are visited, too */
			if (f->items[i].kind != STRANGER)
				meet_children(f, f->items[i].pid);
	} else {
		worked = false;
	}
	if (!f->follow)
		worked |= restore_a_grown_one(f, now);
	else if (let_changed_go(f, collector, now) < 0)
		return -1;
	f->look_ns = now + LOOK_NS + (worked ? LOOK_SHARE * (ip_now_ns() - now) : 0);
	return 0;
}

int ip_follow_fork_each(struct ip_follow_fork *f, int (*visit)(void *, pid_t, void **), void *data,
			void (*forget)(void *))
{
	int ret = 0;

	f->forget = forget ? forget : f->forget;
	f->visits++;
	for (size_t i = 0; f->follow && i < f->n && ret == 0; i++)
		if (f->items[i].kind == CHILD && !f->items[i].shares && !f->items[i].differs)
			ret = visit(data, f->items[i].pid, &f->items[i].kept);
	f->visits--;
	return ret;
}

bool ip_follow_fork_has(const struct ip_follow_fork *f, pid_t pid)
{
	return has_image(f, pid);
}

pid_t ip_follow_fork_outer_pid(const struct ip_follow_fork *f, pid_t pid)
{
	for (size_t i = 0; f->follow && i < f->n; i++)
		if (f->items[i].kind == CHILD && f->items[i].inner == pid)
			return f->items[i].pid;
	return 0;
}

bool ip_follow_fork_lives(struct ip_follow_fork *f)
{
	if (!f->follow)
		return false;
	for (int pass = 0; pass < 2; pass++) {
		forget_ended(f);
		for (size_t i = 0; i < f->n; i++)
			if (f->items[i].kind == CHILD)
				return true;
		meet_all(f,
			 false); /* meet_children() does not find children whose parent has ended */
	}
	return false;
}

bool ip_follow_fork_is_gone(void *data, pid_t pid, pid_t tid)
{
	const struct ip_follow_fork *f = data;

	if (f->same_namespace)
		return (syscall(SYS_tgkill, pid, tid, 0) < 0 && errno == ESRCH) ||
		       (tid == pid && ip_proc_is_zombie(pid));
	return false; /* it will be known at the end */
}

size_t ip_follow_fork_restored(const struct ip_follow_fork *f)
{
	return f->restored;
}

void ip_follow_fork_restore(struct ip_follow_fork *f)
{
	bool again = true;

	ip_follow_fork_allow(f, false);
	for (int pass = 0; again && pass < PASSES; pass++) {
		again = false;
		forget_ended(f);
		/* A child that has called no hook since the last look may execute another program
		 * by now. A child that was clean has nothing to put back. So all processes are
		 * looked at once more. */
		for (size_t i = 0; i < f->n; i++)
			drop(f, &f->items[i]);
		f->n = 0;
		meet_all(f, true);
		for (size_t i = 0; i < f->n; i++) {
			struct relative *r = &f->items[i];
			long sites = restore_one(f, r, TRIES);

			if (sites > 0) {
				ip_notice("pid %d, forked from pid %d: put back %ld site%s", r->pid,
					  f->target->pid, sites, ip_plural(sites));
				f->restored++;
				again = true;
			} else if (sites < 0) {
				ip_notice("pid %d, forked from pid %d, may keep live sites (they "
					  "are silent), or the ring memory: %s",
					  r->pid, f->target->pid, ip_error_message());
			}
		}
	}
}

int ip_follow_fork_restore_dead(struct ip_area *area, struct ip_target *target,
				uint64_t deadline_ns)
{
	struct ip_follow_fork *f;

	if (!__atomic_load_n(&area->header->follow, __ATOMIC_SEQ_CST))
		return 0;
	if (ip_follow_fork_create(area, target, true, deadline_ns, &f) < 0)
		return -1;
	ip_follow_fork_restore(f);
	ip_follow_fork_destroy(f);
	return 0;
}
