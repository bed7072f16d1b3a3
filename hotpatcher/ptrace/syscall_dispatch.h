/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Syscall user dispatch (Linux 5.11): a thread can have system calls that do not come from a place
 * of its choice turned into SIGSYS. Calls that code of ours makes in such a thread would be.
 *
 * From Linux 6.4 on the kernel tells a tracer (PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG). Before
 * 5.11 there is no dispatch. In between nobody tells: not known, which is not the same as off.
 */
#ifndef IP_SYSCALL_DISPATCH_H
#define IP_SYSCALL_DISPATCH_H

#include <stdbool.h>
#include <sys/types.h>

enum ip_dispatch {
	IP_DISPATCH_OFF,
	IP_DISPATCH_ON,
	IP_DISPATCH_UNKNOWN,
};

/* Of a tracee that stands. */
enum ip_dispatch ip_dispatch_of(pid_t tid);

/* Whether a call of our own in a tracee, as long as we trace it, does no harm: it does not
 * dispatch, or where that is not known, the SIGSYS by which it would is told to us first. (The
 * kernel takes the handler away of one that is blocked or ignored.) */
bool ip_dispatch_lets_us_call(pid_t tid);

#endif
