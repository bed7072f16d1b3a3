/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adds up what the threads of a trace did in some times, part by part (struct ip_cause_part).
 */
#ifndef IP_CAUSE_PARTS_H
#define IP_CAUSE_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/callstack/trace.h"
#include "analysis/darc/cause_waits.h"
#include "analysis/wait/cpu_users.h"
#include "analysis/wait/trace_waits.h"
#include "analysis/wait/waker_paths.h"

/* Private, but for failed: there was an error. */
struct ip_cause_parts {
	bool failed;
	struct ip_trace_waits *waits;
	struct ip_cpu_users users;
	struct ip_waker_paths *wakers;
	uint32_t pid, member;
	const struct ip_thread_states *thread;
	const struct ip_interrupt *interrupts; /* of the thread */
	size_t ninterrupts;
	struct ip_cause_waits *target;
	bool reference;
};

/* waits: of the trace; they must outlive it. The caller clears *ret in any case. Returns 0, or -1
 * with an error. */
int ip_cause_parts_begin(struct ip_cause_parts *ret, struct ip_trace_reader *trace,
			 struct ip_trace_waits *waits);
void ip_cause_parts_clear(struct ip_cause_parts *parts);

/* The times that follow are of a thread of the trace. */
void ip_cause_parts_run(struct ip_cause_parts *parts, const struct ip_thread_packets *run);
/* Adds what it did between two times, TSC, to parts. */
void ip_cause_parts_add(struct ip_cause_parts *parts, struct ip_cause_waits *to, bool reference,
			uint64_t from_tsc, uint64_t to_tsc);

#endif
