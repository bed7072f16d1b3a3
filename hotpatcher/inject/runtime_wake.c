/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Wakes a runtime. runtime_wake.h describes the steps; the comments here and in borrow.c name them.
 */
#include "hotpatcher/inject/runtime_wake.h"

#include <stddef.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "hotpatcher/arch/x86_64/borrow.h"
#include "hotpatcher/inject/borrow_search.h"
#include "hotpatcher/inject/own_code.h"

#define LIMIT_NS 2000000000ull /* how long to search for a thread */
/* some sixty turns of the scheduler: with twenty CPU hogs beside, these take seconds */
#define RUN_NS 10000000000ull

bool ip_is_asleep(const struct ip_target *target)
{
	return target->has_runtime && (target->linked_in || target->injected) &&
	       !target->anchor.gate;
}

static int read_anchor(struct ip_target *target)
{
	return ip_target_read(target, target->anchor_address, &target->anchor,
			      sizeof(target->anchor));
}

static struct ip_borrow_place place_of(const struct ip_target *target)
{
	const struct ip_rt_anchor *a = &target->anchor;

	return (struct ip_borrow_place){.code = a->wake,
					.end = a->wake_end,
					.block = a->wake_block,
					.size = sizeof(struct ip_wake),
					.stack = IP_WAKE_STACK,
					.tid_at = a->wake_block + offsetof(struct ip_wake, tid)};
}

/* Steps 3 to 9, with a thread that has been stopped. */
static int run(struct ip_target *target, struct ip_borrowed *b, uint64_t *ret_held_ns)
{
	const struct ip_rt_anchor *a = &target->anchor;
	const uint64_t waking = target->anchor_address + offsetof(struct ip_rt_anchor, waking),
		       nobody = 0;
	const struct ip_borrow_place place = place_of(target);
	struct ip_wake block = {.mask = b->mask, .tid = b->tid};
	/* the thread is stopped, so the image is the one that was opened */
	int ret = ip_own_code_check_place(target, &place);

	ip_arch_way_back(&b->regs, &block);
	/* Step 3. If a thread has marked the runtime as being set up, that thread is gone, or is
	 * not in this process. */
	if (ret == 0)
		ret = a->waking ? ip_target_write(target, waking, &nobody, sizeof(a->waking)) : 0;
	if (ret == 0)
		ret = ip_target_write(target, a->wake_block, &block, sizeof(block));
	if (ret == 0)
		ret = ip_borrow_run(b, a->wake, a->wake_end, a->wake_block, RUN_NS);
	*ret_held_ns = ip_borrow_end(b);
	if (ret == 0)
		return ip_target_write(target, a->wake_block + offsetof(struct ip_wake, tid),
				       &nobody, sizeof(nobody));
	/* the thread was taken back in the middle: another one may set the runtime up anew */
	ip_target_write(target, waking, &nobody, sizeof(a->waking));
	return -1;
}

/* Whether the runtime still sleeps: 1, 0, or -1 with an error. */
static int is_needed(struct ip_target *target)
{
	return read_anchor(target) < 0 ? -1 : ip_is_asleep(target);
}

static int wake(struct ip_target *target, uint64_t *ret_held_ns)
{
	struct ip_confined confined = {.pidfd = target->pidfd};
	const struct ip_borrow_search search = {.place = place_of(target),
						.which = ip_borrow_anyone,
						.needed = is_needed,
						.limit_ns = LIMIT_NS,
						.confined = &confined};
	struct ip_borrowed b;
	int got = ip_borrow_search(target, &search, &b); /* step 2 */

	if (got == 2)
		return 0;
	if (got == 0)
		return ip_error(
			"pid %d: its runtime sleeps, and none of its threads could be borrowed to "
			"wake it (the process is stopped, its threads sleep uninterruptibly or "
			"under seccomp%s): try again, or start it with iprobe run",
			target->pid, ip_borrow_hindrance());
	if (got < 0 || run(target, &b, ret_held_ns) < 0)
		return -1;
	return read_anchor(target);
}

int ip_wake(struct ip_target *target, uint64_t *ret_held_ns)
{
	const struct ip_borrow_place place = place_of(target);
	_cleanup_close_ int fd = -1;

	*ret_held_ns = 0;
	if (!ip_is_asleep(target))
		return 0;
	if (!ip_borrow_is_sound(target, &place))
		return ip_error("pid %d: its runtime is damaged", target->pid);
	if (ip_own_code_check(target, place.code) < 0 ||
	    ip_own_code_check_place(target, &place) < 0)
		return -1;
	if (ip_proc_status(target->pid, "Seccomp") > 0 && !ip_borrow_may_suspend_seccomp())
		return ip_error("pid %d: its runtime sleeps, and waking it takes system calls for "
				"which its seccomp filter might kill it: attach as root "
				"(CAP_SYS_ADMIN), or start it with iprobe run",
				target->pid);
	if (ip_borrow_check(target->pid) < 0)
		return -1;
	fd = ip_borrow_lock(target->pid);
	if (fd < 0 || wake(target, ret_held_ns) < 0)
		return -1;
	if (target->anchor.error == IP_RT_NO_TSC)
		return ip_error("pid %d may not read the processor's clock (PR_SET_TSC), which "
				"iprobe's hooks do: it would be ended by its first event",
				target->pid);
	if (target->anchor.error)
		return ip_error("pid %d: its runtime could not set itself up (%s)", target->pid,
				strerror(target->anchor.error));
	if (!target->anchor.gate)
		return ip_error("pid %d: its runtime was not set up: try again", target->pid);
	return ip_target_refresh(target);
}
