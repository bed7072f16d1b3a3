/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Syscall user dispatch (Linux 5.11): a thread can have system calls turned into SIGSYS that come
 * from outside a range of code which it has chosen. Calls that iprobe's code makes in such a
 * thread would be turned into SIGSYS, too.
 *
 * From Linux 6.4 on the kernel tells a tracer whether a thread dispatches
 * (PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG). Before 5.11 there is no dispatch. In between the
 * kernel does not tell: then it is not known, which is not the same as off.
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

/* The state of a tracee that stands. */
enum ip_dispatch ip_dispatch_of(pid_t tid);

/* Whether a call that iprobe makes in a tracee does no harm, as long as iprobe traces it: the
 * tracee does not dispatch; or that is not known, but the kernel would report the SIGSYS of a
 * dispatch to iprobe first. (If a tracee blocks or ignores SIGSYS, the kernel takes its handler
 * away; then the answer is false.) */
bool ip_dispatch_lets_us_call(pid_t tid);

#endif
