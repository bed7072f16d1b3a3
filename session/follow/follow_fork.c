/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows forked children through a session. follow_fork.h describes the steps; the comments here
 * name them. What is done with one process is in fork_child.h.
 */
#include "session/follow/follow_fork.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "common/notice.h"
#include "common/proc.h"
#include "common/units.h"
#include "hotpatcher/plan/bounds.h"
#include "hotpatcher/process/shared_mm.h"
#include "hotpatcher/ptrace/stop.h"
#include "session/follow/fork_child.h"

#define TRIES	      20
#define PASSES	      10
#define LOOK_NS	      5000000ull   /* between looks, at least */
#define LOOK_SHARE    20	   /* one part in so many of our time goes to looks */
#define IDLE_NS	      250000000ull /* between looks if nothing calls for one */
#define GROWN_NS      20000000ull  /* how long a silent child has lived when it is put back */
#define DIFFERS_TRIES 8
#define THREADS_MOST  256u /* whose credentials a look reads: of all children together, */
#define THREADS_LEAST 4u   /* and at least of each child */

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
	ip_fork_child_note_exe(f, target->pid);
	f->gate = target->anchor.gate;
	f->last_pid = ip_proc_last_pid();
	f->same_namespace = same_pid_namespace(target->pid);
	ip_credentials_read(target->pid, &f->credentials);
	*ret = f;
	return 0;
}

void ip_follow_fork_destroy(struct ip_follow_fork *f)
{
	if (!f)
		return;
	for (size_t i = 0; i < f->n; i++)
		ip_fork_child_drop(f, &f->items[i]);
	free(f->items);
	/* a thread that is left neither stops nor runs: the kernel detaches it when we end */
	for (size_t i = 0; i < f->nlate; i++) {
		ip_stop_let_go(f->late[i]);
		ip_target_close(f->late[i]);
	}
	free(f->late);
	free(f);
}

void ip_follow_fork_leave_to_others(struct ip_follow_fork *f,
				    bool (*let_go)(void *context, pid_t pid), void *context)
{
	f->let_go = let_go;
	f->context = context;
}

void ip_follow_fork_allow(struct ip_follow_fork *f, bool allow)
{
	uint32_t session = allow && f->follow ? f->area->header->session : 0;

	/* if it cannot be written, the process has ended */
	ip_bounds_set_follow(f->target, session);
	__atomic_store_n(&f->area->header->follow, session, __ATOMIC_SEQ_CST);
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
		struct ip_fork_child *r = &f->items[i];
		long sites;

		if (r->kind != IP_FORK_CHILD ||
		    now - r->found_ns < GROWN_NS << (r->tries < 8 ? r->tries : 8))
			continue;
		if (!ip_fork_child_has_image(f, r->pid)) {
			r->kind = IP_FORK_STRANGER;
			continue;
		}
		if (shares_memory(f, r->pid)) {
			r->found_ns = now;
			continue;
		}
		if (ip_area_lock_patch(f->area, f->target->pid) < 0)
			return true;
		sites = ip_fork_child_restore(f, r, 1);
		ip_area_unlock_patch(f->area);
		r->tries++;
		if (sites < 0)
			return true;
		f->restored += sites > 0;
		r->kind = IP_FORK_CLEAN;
		return true;
	}
	return false;
}

static void check_holder(void *data, pid_t pid)
{
	struct ip_follow_fork *f = data;

	if (pid == f->target->inner_pid || !f->same_namespace)
		return;
	if (!ip_fork_child_find(f, pid))
		ip_fork_child_meet(f, pid);
}

/* Step 2, for followed children: a child that executes another program has ended as far as the
 * trace is concerned. */
static int drop_execed(struct ip_follow_fork *f, struct ip_collector *collector,
		       struct ip_trace *trace)
{
	for (size_t i = 0; i < f->n; i++) {
		struct ip_fork_child *r = &f->items[i];

		if (r->kind != IP_FORK_CHILD || ip_fork_child_has_image(f, r->pid) ||
		    ip_fork_child_has_ended(r) || !ip_proc_has_memory(r->pid))
			continue;
		r->kind = IP_FORK_STRANGER;
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
		n += f->items[i].kind == IP_FORK_CHILD;
	return n;
}

/* Whether the child has the target's credentials. Each look checks the first thread of the child;
 * if there are many threads, the others are checked some at a time. What cannot be found out counts
 * as a no. */
static bool has_our_credentials(const struct ip_follow_fork *f, struct ip_fork_child *r,
				unsigned most)
{
	struct ip_credentials theirs;

	return ip_credentials_read(r->pid, &theirs) == 0 &&
	       ip_credentials_are_same(&theirs, &f->credentials) &&
	       ip_credentials_of_threads_are(r->pid, &f->credentials, most, &r->credentials_at);
}

static void tell_differs(const struct ip_follow_fork *f, pid_t pid)
{
	const bool others = f->let_go && f->let_go(f->context, pid);

	ip_notice("pid %d, forked from pid %d, has other credentials than that: it is %s", pid,
		  f->target->pid,
		  others ? "to be recorded by a session of its own" : "not recorded any more");
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
		struct ip_fork_child *r = &f->items[i];
		bool gone;

		if (r->kind != IP_FORK_CHILD || r->shares || now < r->again_ns)
			continue;
		if ((!r->differs && has_our_credentials(f, r, most)) || ip_fork_child_has_ended(r))
			continue;
		if (!r->differs)
			tell_differs(f, r->pid);
		r->differs = true;
		if (ip_area_lock_patch(f->area, f->target->pid) < 0)
			return 0;
		gone = ip_fork_child_restore(f, r, 1) >= 0;
		ip_area_unlock_patch(f->area);
		r->again_ns = now + (GROWN_NS << r->tries++);
		if (!gone && r->tries < DIFFERS_TRIES)
			return 0;
		if (!gone)
			ip_notice("pid %d, forked from pid %d: %s", r->pid, f->target->pid,
				  ip_error_message());
		r->kind = IP_FORK_CLEAN;
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
		ip_fork_child_let_late_go(f);
	if (now < f->look_ns)
		return 0;
	last = ip_proc_last_pid();
	if (f->follow || last != f->last_pid || now > f->idle_ns) {
		f->last_pid = last;
		f->idle_ns = now + IDLE_NS;
		ip_fork_child_forget_ended(f);
		if (f->follow) {
			if (drop_execed(f, collector, trace) < 0)
				return -1;
			ip_collector_each_process(collector, check_holder, f);
		}
		ip_fork_child_meet_children(f, f->target->pid);
		for (size_t i = 0; i < f->n; i++) /* f->n grows: new children are visited, too */
			if (f->items[i].kind != IP_FORK_STRANGER)
				ip_fork_child_meet_children(f, f->items[i].pid);
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
		if (f->items[i].kind == IP_FORK_CHILD && !f->items[i].shares &&
		    !f->items[i].differs)
			ret = visit(data, f->items[i].pid, &f->items[i].kept);
	f->visits--;
	return ret;
}

void ip_follow_fork_each_child(struct ip_follow_fork *f, void (*visit)(void *, pid_t, pid_t, pid_t),
			       void *data)
{
	for (size_t i = 0; f && f->follow && i < f->n; i++) {
		struct ip_fork_child *r = &f->items[i];

		if (r->kind != IP_FORK_CHILD || r->shares || r->differs || r->inner <= 0)
			continue;
		r->parent = ip_fork_child_parent(f, r);
		visit(data, r->pid, r->inner, r->parent);
	}
}

bool ip_follow_fork_has(const struct ip_follow_fork *f, pid_t pid)
{
	return ip_fork_child_has_image(f, pid);
}

pid_t ip_follow_fork_outer_pid(const struct ip_follow_fork *f, pid_t pid)
{
	for (size_t i = 0; f->follow && i < f->n; i++)
		if (f->items[i].kind == IP_FORK_CHILD && f->items[i].inner == pid)
			return f->items[i].pid;
	return 0;
}

bool ip_follow_fork_has_children(const struct ip_follow_fork *f)
{
	return f->n || f->nlate;
}

bool ip_follow_fork_lives(struct ip_follow_fork *f)
{
	if (!f->follow)
		return false;
	for (int pass = 0; pass < 2; pass++) {
		ip_fork_child_forget_ended(f);
		for (size_t i = 0; i < f->n; i++)
			if (f->items[i].kind == IP_FORK_CHILD)
				return true;
		ip_fork_child_meet_all(f, false); /* ip_fork_child_meet_children() does not find
						 children whose parent has ended */
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

/* Forgets all children, and finds them anew: those that had the image (their files need not be
 * compared), and all others on the machine. */
static void meet_anew(struct ip_follow_fork *f)
{
	_cleanup_free_ pid_t *had = calloc(f->n + 1, sizeof(*had));
	size_t n = 0;

	for (size_t i = 0; i < f->n; i++) {
		if (had && f->items[i].kind != IP_FORK_STRANGER)
			had[n++] = f->items[i].pid;
		ip_fork_child_drop(f, &f->items[i]);
	}
	f->n = 0;
	for (size_t i = 0; i < n; i++)
		if (ip_fork_child_is_copy(f, had[i], true))
			ip_fork_child_meet(f, had[i]);
	ip_fork_child_meet_all(f, true);
}

void ip_follow_fork_restore(struct ip_follow_fork *f)
{
	bool again = true;

	ip_follow_fork_allow(f, false);
	for (int pass = 0; again && pass < PASSES; pass++) {
		again = false;
		ip_fork_child_forget_ended(f);
		/* A child that has called no hook since the last look may execute another program
		 * by now. A child that was clean has nothing to put back. So all processes are
		 * looked at once more. */
		meet_anew(f);
		for (size_t i = 0; i < f->n; i++) {
			struct ip_fork_child *r = &f->items[i];
			long sites = ip_fork_child_restore(f, r, TRIES);

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
