/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Borrowing one thread of a target: it is stopped, runs code of ours on a stack of its own, and
 * goes back to where it was. The other threads run on.
 */
#ifndef IP_BORROW_H
#define IP_BORROW_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/user.h>

#include "hotpatcher/inject/confined.h"
#include "hotpatcher/ptrace/stop.h"

struct ip_borrowed {
	struct ip_target *target;
	struct ip_stop stop; /* of the one thread */
	pid_t tid;
	struct user_regs_struct regs;
	uint64_t mask; /* of signals */
	/* under seccomp: what it may do in spite of that; NULL: it is not */
	struct ip_confined *confined;
	/* ip_borrow_end() could not stop it, or not take it back: it takes its own way */
	bool astray;
	struct ip_priority priority;
	uint32_t raised; /* the thread's priority, as priority_guard.h has it */
	bool sent;	 /* it may run code of ours: */
	/* the code, and the top of the stack that it has meanwhile; 0: its own */
	uint64_t code, end, stack;
};

/* Which threads may be borrowed; each includes those before. */
enum ip_borrow_which {
	IP_BORROW_WAITING, /* those that wait in a system call which starts again by itself */
	IP_BORROW_RUNNING, /* in no call at all */
	/* in any call: it may return EINTR, or have done a part, as after any stop of the whole
	 * process */
	IP_BORROW_ANY,
};

/* Whether no thread of the process may ever be borrowed: -1 with the reason. */
int ip_borrow_check(pid_t pid);

/* Stops a thread that may be borrowed now. 1; 0: none now; -1 with the reason: never. confined:
 * what the errand may do in a thread that is under seccomp, which outlives *ret; NULL: no such
 * thread is taken. */
int ip_borrow_begin(struct ip_target *target, enum ip_borrow_which which,
		    struct ip_confined *confined, struct ip_borrowed *ret);

/* Why running threads were not borrowed, to follow the reasons that hold for all: "" or ", or
 * ...". */
const char *ip_borrow_hindrance(void);

/* Has the thread run code, whose end is end, with the stack pointer at block, until it is done
 * (arch/ARCH/borrow.h). 0; -1 with the reason: it was stopped before its end. In any case
 * ip_borrow_end() comes next. */
int ip_borrow_run(struct ip_borrowed *b, uint64_t code, uint64_t end, uint64_t block,
		  uint64_t deadline_ns);

/* The same for code that keeps the thread's stack and flags; signals are not masked. regs: to
 * start with, then as they are at the end. 1: it is done; 0: a signal came first, which the
 * thread gets when it is back: begin anew; -1 with the reason. */
int ip_borrow_visit(struct ip_borrowed *b, struct user_regs_struct *regs, uint64_t start,
		    uint64_t end, uint64_t deadline_ns);

/* Whether we may suspend the seccomp filters of a thread that is ours, for a call (confined.h:
 * CAP_SYS_ADMIN, and no filter of our own). */
bool ip_borrow_may_suspend_seccomp(void);

/* Puts everything back as it was and lets the thread go. How long it was held, in nanoseconds. */
uint64_t ip_borrow_end(struct ip_borrowed *b);

#endif
