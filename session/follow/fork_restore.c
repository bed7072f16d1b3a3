/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts the sites of a forked process back. See fork_child.h.
 */
#include "session/follow/fork_child.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/now.h"
#include "common/proc.h"
#include "hotpatcher/inject/borrow_search.h"
#include "hotpatcher/patch/restore.h"
#include "hotpatcher/plan/bounds.h"
#include "hotpatcher/process/shared_mm.h"
#include "hotpatcher/ptrace/stop.h"

#define NAP_NS	       5000000ull
#define LOCK_TRIES     3
#define DISOWN_NS      20000000ull    /* how long to look for a thread to unmap a child's area, */
#define DISOWN_LAST_NS 1000000000ull  /* and at the end, when nothing waits to be drained */
#define HELD_LAST_NS   10000000000ull /* how long to wait at the end for a child that is held */

void ip_fork_child_let_late_go(struct ip_follow_fork *f)
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

/* A try that failed, or a stop of the parent in which the child was forked, may have left a child
 * behind that got no CPU: it is a tracee of this very iprobe until it has stopped. Lets it go when
 * it has. 0; -1 with an error: it has not yet. */
static int let_child_go(struct ip_follow_fork *f, pid_t pid, uint64_t limit_ns)
{
	const struct timespec nap = {.tv_nsec = 1000000};
	const uint64_t began = ip_now_ns();

	for (;;) {
		ip_stop_let_go(f->target);
		ip_fork_child_let_late_go(f);
		if (ip_proc_status(pid, "TracerPid") != getpid())
			return 0;
		if (ip_now_ns() - began >= limit_ns)
			return ip_error("pid %d has got no CPU since the last try to stop it", pid);
		nanosleep(&nap, NULL);
	}
}

long ip_fork_child_restore(struct ip_follow_fork *f, const struct ip_fork_child *r, unsigned tries)
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
	if (lock < 0 && (ip_fork_child_has_ended(r) || (tries == 1 && r->tries < LOCK_TRIES)))
		return ip_fork_child_has_ended(r) ? 0 : -1;
	if (!ip_fork_child_is_copy(f, r->pid, tries > 1))
		return 0;
	if (let_child_go(f, r->pid, tries > 1 ? HELD_LAST_NS : 0) < 0 ||
	    ip_stops_open(r->pid, &target) < 0)
		return ip_fork_child_has_ended(r) ? 0 : -1;
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
	if (ret == 0 && ip_fork_child_has_area(f, r->pid))
		ret = ip_bounds_disown(target, tries > 1 ? DISOWN_LAST_NS : DISOWN_NS);
	ip_stop_log_move(&ip_stops_of(f->target)->log, &ip_stops_of(target)->log, "child");
	if (ret == 0 && ip_fork_child_has_area(f, r->pid))
		ret = ip_error(
			"pid %d: it has mapped the ring memory elsewhere, too, and has it still",
			r->pid);
	if (ret < 0 && (!ip_target_alive(target) || !ip_fork_child_has_image(f, r->pid)))
		ret = 0; /* it has ended, or executes another program */
	ip_follow_fork_close_target(f, target);
	return ret < 0 ? -1 : (long)result.sites;
}
