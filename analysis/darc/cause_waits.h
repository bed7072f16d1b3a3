/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Causes outside of the code: what the threads did in the time that is a root cause, by the
 * kernel's events. They ran, were interrupted, waited for a CPU that another one had, or were
 * blocked on something,
 * which another thread may have held.
 */
#ifndef IP_CAUSE_WAITS_H
#define IP_CAUSE_WAITS_H

#include "analysis/callstack/trace.h"
#include "analysis/darc/root_causes.h"
#include "analysis/wait/trace_waits.h"
#include "analysis/wait/wait_culprits.h"

enum ip_cause_kind {
	IP_CAUSE_SELF,	    /* it ran */
	IP_CAUSE_PREEMPTED, /* it waited for a CPU */
	IP_CAUSE_INTERRUPT,
	IP_CAUSE_FAULT,
	IP_CAUSE_BLOCKED,
	IP_CAUSE_UNKNOWN, /* the kernel's events do not tell */
	IP_CAUSE_KINDS
};

/* Whether something else had the CPU of a thread that could have run. */
static inline bool ip_cause_is_outside(enum ip_cause_kind kind)
{
	return kind == IP_CAUSE_PREEMPTED || kind == IP_CAUSE_INTERRUPT;
}

/* The name of a kind, as the JSON has it. */
const char *ip_cause_kind_name(enum ip_cause_kind kind);

/* A part of the time of a cause. */
struct ip_cause_part {
	enum ip_cause_kind kind;
	struct ip_wait_object object; /* BLOCKED, FAULT */
	const struct ip_thread_states
		*thread; /* who had the CPU, or ended the wait; NULL: nobody */
	uint32_t in;	 /* the function that the thread was in, or IP_NO_FUNCTION */
	bool is_lock;	 /* the thread had it */
	/* INTERRUPT, for ip_interrupt_name() */
	uint16_t interrupt;
	int32_t line;
	uint64_t ticks; /* of all operations of the cause */
	uint64_t reference_ticks;
};

struct ip_cause_waits {
	struct ip_cause_part *parts; /* by what they are longer than in the reference */
	size_t n;
};

/* Finds the parts of each cause: *ret is an array by cause; ip_cause_waits_destroy() frees it.
 * waits: of the trace. Reads the trace twice. Returns 0, or -1 with an error. */
int ip_cause_waits_find(struct ip_trace_reader *trace, const struct ip_ftree *ftree,
			const struct ip_root_causes *causes, struct ip_trace_waits *waits,
			struct ip_cause_waits **ret);
void ip_cause_waits_destroy(struct ip_cause_waits *waits, size_t n);

/* The same of each node in two operations, a slow one (ticks) and a usual one (reference_ticks):
 * *ret is an array by node. The ftree was made without return addresses, down to a depth. */
int ip_node_waits_find(struct ip_trace_reader *trace, struct ip_ftree *ftree, uint32_t depth,
		       const struct ip_darc_operation *slow, const struct ip_darc_operation *usual,
		       struct ip_trace_waits *waits, struct ip_cause_waits **ret);

/* What a part is longer by, for one operation in the mean: ticks. */
double ip_cause_part_excess(const struct ip_darc_cause *cause, const struct ip_cause_part *part);

#endif
