/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps are told in wake.h; the comments here and in borrow.c name them.
 */
#include "hotpatcher/wake.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ptrace.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "hotpatcher/arch/x86_64/borrow.h"
#include "hotpatcher/borrow.h"

#define LOCK_NS	   2000000000ull
#define WAITING_NS 100000000ull	 /* so long only threads that wait are taken */
#define RUNNING_NS 1000000000ull /* so long also those that run */
#define LIMIT_NS   2000000000ull /* so long any */
#define STOP_NS	   1000000000ull
#define RUN_NS                                                                                               \
	10000000000ull /* some sixty turns of the scheduler: on a machine with twenty hogs that takes seconds */
#define NAP_NS 5000000l

static void nap(void)
{
	const struct timespec t = {.tv_nsec = NAP_NS};

	nanosleep(&t, NULL);
}

bool ip_is_asleep(const struct ip_target *target)
{
	return target->has_runtime && (target->linked_in || target->injected) && !target->anchor.gate;
}

static int read_anchor(struct ip_target *target)
{
	return ip_target_read(target, target->anchor_address, &target->anchor, sizeof(target->anchor));
}

/* Step 1. */
int ip_wake_lock(pid_t pid)
{
	uint64_t limit = ip_now_ns() + LOCK_NS;
	char name[64];
	int fd;

	snprintf(name, sizeof(name), "/proc/%d", pid);
	fd = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return ip_error("pid %d has ended", pid);
	while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (ip_now_ns() > limit) {
			close(fd);
			return ip_error("pid %d: another iprobe is setting its runtime up: try again", pid);
		}
		nap();
	}
	return fd;
}

/* What the anchor says of the code may have been scribbled over. */
static bool is_sound(const struct ip_target *target)
{
	const struct ip_rt_anchor *a = &target->anchor;
	const struct ip_mapping *code = ip_maps_find(&target->maps, a->wake),
				*block = ip_maps_find(&target->maps, a->wake_block),
				*last = ip_maps_find(&target->maps,
						     a->wake_block + sizeof(struct ip_wake) - 1);

	return code && code->perms[2] == 'x' && a->wake_end > a->wake && a->wake_end <= code->end && block &&
	       last && block->perms[1] == 'w' && last->perms[1] == 'w' && !(a->wake_block % 16);
}

/* A thread that an iprobe which died has left in our code is there for a moment only. 1: still; 0: none; -1: an error. */
static int is_occupied(struct ip_target *target)
{
	const struct ip_rt_anchor *a = &target->anchor;
	struct user_regs_struct regs;
	struct ip_stop stop;
	char name[64];
	uint64_t tid;
	int ret = 0;

	if (ip_target_read(target, a->wake_block + offsetof(struct ip_wake, tid), &tid, sizeof(tid)) < 0)
		return -1;
	/* of another process where this one was forked in the middle */
	snprintf(name, sizeof(name), "/proc/%d/task/%lu", target->pid, tid);
	if (!tid || tid > INT32_MAX || access(name, F_OK) < 0)
		return 0;
	if (ip_stop_one(target, tid, STOP_NS, &stop) < 0)
		return access(name, F_OK) == 0; /* who cannot be looked at may be there */
	if (ptrace(PTRACE_GETREGS, tid, 0, &regs) == 0)
		ret = regs.rsp - (a->wake_block - IP_WAKE_STACK) <= IP_WAKE_STACK + sizeof(struct ip_wake) ||
		      regs.rip - a->wake < a->wake_end - a->wake;
	ip_stop_end(&stop);
	return ret;
}

/* Steps 3 to 9 with a thread that has been stopped. */
static int run(struct ip_target *target, struct ip_borrowed *b, uint64_t *ret_held_ns)
{
	const struct ip_rt_anchor *a = &target->anchor;
	const uint64_t waking = target->anchor_address + offsetof(struct ip_rt_anchor, waking), nobody = 0;
	struct ip_wake block = {.mask = b->mask, .tid = b->tid};
	int ret;

	ip_arch_way_back(&b->regs, &block);
	/* 3. Whoever said that it was at it is gone, or is not in this process. */
	ret = a->waking ? ip_target_write(target, waking, &nobody, sizeof(a->waking)) : 0;
	if (ret == 0)
		ret = ip_target_write(target, a->wake_block, &block, sizeof(block));
	if (ret == 0)
		ret = ip_borrow_run(b, a->wake, a->wake_end, a->wake_block, RUN_NS);
	*ret_held_ns = ip_borrow_end(b);
	if (ret == 0)
		return ip_target_write(target, a->wake_block + offsetof(struct ip_wake, tid), &nobody,
				       sizeof(nobody));
	/* taken away in the middle: somebody may begin anew */
	ip_target_write(target, waking, &nobody, sizeof(a->waking));
	return -1;
}

enum ip_borrow_which ip_wake_whom(uint64_t ns)
{
	return ns < WAITING_NS ? IP_BORROW_WAITING : ns < RUNNING_NS ? IP_BORROW_RUNNING : IP_BORROW_ANY;
}

static int wake(struct ip_target *target, uint64_t *ret_held_ns)
{
	uint64_t began = ip_now_ns();
	struct ip_borrowed b;
	int got = 0, occupied;

	for (;;) {
		ip_stop_let_go(target);
		if (read_anchor(target) < 0)
			return -1;
		if (!ip_is_asleep(target))
			return 0;
		occupied = is_occupied(target);
		if (occupied < 0)
			return -1;
		if (!occupied)
			got = ip_borrow_begin(target, ip_wake_whom(ip_now_ns() - began), &b); /* 2 */
		if (got)
			break;
		if (ip_now_ns() - began > LIMIT_NS)
			return ip_error("pid %d: its runtime sleeps, and none of its threads could be "
					"borrowed to wake it "
					"(the process is stopped, its threads sleep uninterruptibly or under "
					"seccomp%s): try "
					"again, or start it with iprobe run",
					target->pid, ip_borrow_hindrance());
		nap();
	}
	if (got < 0 || run(target, &b, ret_held_ns) < 0)
		return -1;
	return read_anchor(target);
}

int ip_wake(struct ip_target *target, uint64_t *ret_held_ns)
{
	_cleanup_close_ int fd = -1;

	*ret_held_ns = 0;
	if (!ip_is_asleep(target))
		return 0;
	if (!is_sound(target))
		return ip_error("pid %d: its runtime is damaged", target->pid);
	if (ip_proc_status(target->pid, "Seccomp") > 0 && !ip_borrow_may_suspend_seccomp())
		return ip_error("pid %d: its runtime sleeps, and waking it takes system calls for which its "
				"seccomp filter "
				"might kill it: attach as root (CAP_SYS_ADMIN), or start it with iprobe run",
				target->pid);
	if (ip_borrow_check(target->pid) < 0)
		return -1;
	fd = ip_wake_lock(target->pid);
	if (fd < 0 || wake(target, ret_held_ns) < 0)
		return -1;
	if (target->anchor.error)
		return ip_error("pid %d: its runtime could not set itself up (%s)", target->pid,
				strerror(target->anchor.error));
	if (!target->anchor.gate)
		return ip_error("pid %d: its runtime was not set up: try again", target->pid);
	return ip_target_refresh(target);
}
