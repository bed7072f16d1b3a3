/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When threads asked for work, whether they were blocked then or not.
 */
#ifndef IP_IDLE_CALLS_H
#define IP_IDLE_CALLS_H

#include <stddef.h>
#include <stdint.h>

/* A thread asks for work by a system call (ip_idle_call_asks()). */
struct ip_idle_call {
	uint64_t tsc;
	int32_t tid;
};

struct ip_idle_calls {
	struct ip_idle_call *items; /* by thread, then by time */
	size_t n;
};

/* Reads the kernel's events of a trace. What comes behind 64 Mi of these calls does not count.
 * *ret: the caller clears it in any case. Returns 0, or -1 with an error. */
int ip_idle_calls_read(const char *dir, struct ip_idle_calls *ret);
void ip_idle_calls_clear(struct ip_idle_calls *calls);

/* The first call of a thread from a time on. */
size_t ip_idle_calls_first(const struct ip_idle_calls *calls, int32_t tid, uint64_t tsc);

#endif
