/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Borrows one thread of a target: the thread is stopped, runs code of ours, mostly on a stack of
 * its own there, and goes back to where it was. The other threads run on.
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
	struct ip_stop stop; /* of the one borrowed thread */
	pid_t tid;
	struct user_regs_struct regs;
	uint64_t mask; /* the thread's signal mask */
	/* set if the thread is under seccomp: what it may do all the same; NULL: it is not under
	 * seccomp */
	struct ip_confined *confined;
	/* ip_borrow_end() could not stop the thread, or could not take it back: the thread goes
	 * back by itself */
	bool astray;
	struct ip_priority priority;
	uint32_t raised; /* entry + 1 (priority_guard.h); 0: not raised */
	bool sent;	 /* the thread may run code of ours */
	/* where that code begins and ends, and the top of the stack that the thread has while it
	 * runs the code; stack 0: the thread's own */
	uint64_t code, end, stack;
};

/* Which threads may be borrowed. Each value includes the threads of the values before it. */
enum ip_borrow_which {
	IP_BORROW_WAITING,  /* threads that wait in a system call which starts again by itself */
	IP_BORROW_RENEWING, /* threads that wait in a call whose time limit begins anew */
	IP_BORROW_RUNNING,  /* threads that are in no system call */
	/* threads in any system call: the call may return EINTR, or have done a part of its work,
	 * as after any stop of the whole process */
	IP_BORROW_ANY,
};

/* Whether threads of the process may be borrowed at all. 0; -1 with the reason why none may ever
 * be. */
int ip_borrow_check(pid_t pid);

/* Stops a thread that may be borrowed now. 1: *ret has it; 0: no thread may be borrowed now; -1
 * with the reason why none ever may. confined: what our code may do in a thread that is under
 * seccomp. It is the caller's and must outlive *ret. NULL: threads under seccomp are not
 * borrowed. */
int ip_borrow_begin(struct ip_target *target, enum ip_borrow_which which,
		    struct ip_confined *confined, struct ip_borrowed *ret);

/* Why running threads were not borrowed, as the end of a message whose beginning names the reasons
 * that always hold. "" or ", or ...". Static text. */
const char *ip_borrow_hindrance(void);

/* Has the thread run the code from code to end, with the stack pointer at block, until the code
 * is done (arch/ARCH/borrow.h). deadline_ns: how long this may take. 0; -1 with the reason: the
 * thread was stopped before the end of the code. In both cases the caller must call
 * ip_borrow_end() next. */
int ip_borrow_run(struct ip_borrowed *b, uint64_t code, uint64_t end, uint64_t block,
		  uint64_t deadline_ns);

/* As ip_borrow_run(), for code that keeps the thread's stack pointer and flags; signals are not
 * masked. regs: the registers to start with; at the return, the registers that the thread has then.
 * 1: the code is done; 0: a signal came first, which the thread gets when it is back, and the
 * caller has to begin anew; -1 with the reason. */
int ip_borrow_visit(struct ip_borrowed *b, struct user_regs_struct *regs, uint64_t start,
		    uint64_t end, uint64_t deadline_ns);

/* Whether we may suspend the seccomp filters of a tracee for one system call (confined.h). That
 * takes CAP_SYS_ADMIN, and no seccomp filter may hold for ourselves. */
bool ip_borrow_may_suspend_seccomp(void);

/* Gives the thread its registers and its signal mask back and lets it go. Returns how long the
 * thread was held, in nanoseconds. */
uint64_t ip_borrow_end(struct ip_borrowed *b);

#endif
