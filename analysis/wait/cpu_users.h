/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who had a CPU, and when: what a thread waited for that could have run.
 *
 * A thread waits at the CPU where it was woken, or where the CPU was taken away from it. The kernel
 * may move it to another one while it waits: what then had that one is not told.
 */
#ifndef IP_CPU_USERS_H
#define IP_CPU_USERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/wait/thread_states.h"

struct ip_cpu_spans;

struct ip_cpu_users {
	struct ip_cpu_spans *uses; /* private */
};

/* Begins: they are found when the first interval is asked for. states must outlive *ret, which the
 * caller clears in any case. Returns 0, or -1 with an error. */
int ip_cpu_users_make(const struct ip_states *states, struct ip_cpu_users *ret);
void ip_cpu_users_clear(struct ip_cpu_users *users);

/* Calls use for each thread that had a CPU in an interval, in order of time; thread NULL: none had
 * it, as far as is known. The ticks sum up to the interval. Returns 0, or what use returns if that
 * is not 0, or -1 with an error. */
int ip_cpu_users_visit(const struct ip_cpu_users *users, uint32_t cpu, uint64_t from, uint64_t to,
		       int (*use)(void *context, const struct ip_thread_states *thread,
				  uint64_t ticks),
		       void *context);

/* Who had a CPU for more of an interval than anybody else, of the first 63 threads that had it;
 * NULL: for more of it nobody had it, as far as is known. *ret_any: whether a thread had it at all.
 */
const struct ip_thread_states *ip_cpu_users_most(const struct ip_cpu_users *users, uint32_t cpu,
						 uint64_t from, uint64_t to, bool *ret_any);

#endif
