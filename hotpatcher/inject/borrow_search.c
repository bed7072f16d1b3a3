/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds a thread to borrow. runtime_wake.h describes the steps.
 */
#include "hotpatcher/inject/borrow_search.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/ptrace.h>
#include <time.h>
#include <unistd.h>

#include "access/delegation.h"
#include "common/abi/borrow.h"
#include "common/error.h"
#include "common/file.h"

#define LOCK_NS	   2000000000ull
#define STOP_NS	   1000000000ull
#define WAITING_NS 100000000ull	 /* how long only waiting threads are taken */
#define RUNNING_NS 1000000000ull /* how long running threads are taken, too */
#define NAP_NS	   2000000l
#define LOOKS	   4 /* looks in a short search */

static void nap(long ns)
{
	const struct timespec t = {.tv_nsec = ns};

	nanosleep(&t, NULL);
}

bool ip_borrow_is_sound(const struct ip_target *target, const struct ip_borrow_place *p)
{
	const struct ip_mapping *code = ip_maps_find(&target->maps, p->code),
				*block = ip_maps_find(&target->maps, p->block),
				*last = ip_maps_find(&target->maps, p->block + p->size - 1);

	return code && code->perms[2] == 'x' && p->end > p->code && p->end <= code->end && block &&
	       last && block->perms[1] == 'w' && last->perms[1] == 'w' && !(p->block % 16);
}

int ip_borrow_is_occupied(struct ip_target *target, const struct ip_borrow_place *p)
{
	struct user_regs_struct regs;
	struct ip_stop stop;
	char name[64];
	uint64_t tid;
	int ret = 0;

	if (ip_target_read(target, p->tid_at, &tid, sizeof(tid)) < 0)
		return -1;
	/* the thread of another process, if this process was forked while a thread was borrowed */
	snprintf(name, sizeof(name), "/proc/%d/task/%lu", target->pid, tid);
	if (!tid || tid > INT32_MAX || (ip_access(name, F_OK) < 0 && errno == ENOENT))
		return 0;
	if (ip_stop_one(target, tid, STOP_NS, &stop) < 0)
		return ip_access(name, F_OK) ==
		       0; /* a thread that cannot be looked at may be there */
	if (ptrace(PTRACE_GETREGS, tid, 0, &regs) == 0)
		ret = regs.rsp - (p->block - p->stack) <= p->stack + sizeof(struct ip_wake) ||
		      regs.rip - p->code < p->end - p->code;
	ip_stop_end_look(&stop);
	return ret;
}

static int lock(pid_t pid, uint64_t wait_ns)
{
	uint64_t limit = ip_now_ns() + wait_ns;
	char name[64];
	int fd;

	/* only who may trace the process can open this file, and so keep others from the lock */
	snprintf(name, sizeof(name), "/proc/%d/mem", pid);
	fd = ip_delegation_open(name, O_RDONLY);
	if (fd < 0)
		return errno == ENOENT || errno == ESRCH
			       ? ip_error("pid %d has ended", pid)
			       : ip_error_errno("pid %d: cannot open its memory", pid);
	while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (ip_now_ns() >= limit) {
			close(fd);
			return ip_error(
				"pid %d: another iprobe has borrowed one of its threads: try again",
				pid);
		}
		nap(NAP_NS);
	}
	return fd;
}

int ip_borrow_lock(pid_t pid)
{
	return lock(pid, LOCK_NS);
}

int ip_borrow_try_lock(pid_t pid)
{
	return lock(pid, 0);
}

enum ip_borrow_which ip_borrow_anyone(uint64_t ns)
{
	return ns < WAITING_NS	 ? IP_BORROW_WAITING
	       : ns < RUNNING_NS ? IP_BORROW_RUNNING
				 : IP_BORROW_ANY;
}

enum ip_borrow_which ip_borrow_waiting(uint64_t ns)
{
	return ns < WAITING_NS ? IP_BORROW_WAITING : IP_BORROW_RENEWING;
}

int ip_borrow_search(struct ip_target *target, const struct ip_borrow_search *search,
		     struct ip_borrowed *ret)
{
	uint64_t began = ip_now_ns();

	for (;;) {
		int needed, got;

		ip_stop_let_go(target);
		needed = search->needed ? search->needed(target) : 1;
		if (needed <= 0)
			return needed < 0 ? -1 : 2;
		got = ip_borrow_is_occupied(target, &search->place);
		if (got == 0)
			got = ip_borrow_begin(target, search->which(ip_now_ns() - began),
					      search->confined, ret); /* step 2 */
		else if (got > 0)
			got = 0;
		if (got)
			return got;
		if (ip_now_ns() - began > search->limit_ns)
			return 0;
		nap(search->limit_ns / LOOKS < NAP_NS ? search->limit_ns / LOOKS : NAP_NS);
	}
}
