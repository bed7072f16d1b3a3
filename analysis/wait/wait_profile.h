/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the time of functions goes: on a CPU, waiting for one, blocked on objects. The calls of the
 * trace and the states of its threads (thread_states.h) are laid over each other. Each moment of a
 * thread belongs to the innermost call that is open then, and to one state: so the parts of a call,
 * those of the calls inside it included, are its elapsed time.
 */
#ifndef IP_WAIT_PROFILE_H
#define IP_WAIT_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/callstack/trace.h"
#include "analysis/profile/calltree.h"
#include "analysis/wait/descriptors/descriptors.h"
#include "analysis/wait/idle/idle_waits.h"
#include "analysis/wait/thread_states.h"
#include "analysis/wait/wait_object.h"

/* TSC ticks. elapsed = cpu + runqueue + unknown + those of all waits. idle: of all waits those that
 * were told to be idle (idle_waits.h). */
struct ip_wait_parts {
	uint64_t elapsed, cpu, runqueue, unknown, idle;
};

/* For how long a call path, or a function, was blocked on one object. */
struct ip_wait_sum {
	uint32_t owner; /* node or function */
	uint32_t object;
	uint64_t ticks, count;
	uint64_t idle, idle_count; /* of these, what was idle */
};

struct ip_wait_profile {
	const struct ip_recording *session;
	struct ip_calltree *tree;  /* of call paths; of its sums none is filled in */
	uint64_t *calls;	   /* by node */
	struct ip_wait_parts *own; /* by node: of what is innermost there */
	/* by node, then by object: of what is innermost there */
	struct ip_wait_sum *own_waits;
	size_t nown_waits;
	/* by function: of its calls that lie in no other call of the function. open_calls: of those
	 * that were open at the end */
	uint64_t *function_calls, *open_calls;
	struct ip_wait_parts *functions;
	struct ip_wait_sum *waits; /* by function, the longest first */
	size_t nwaits;
	struct ip_wait_object *objects;
	size_t nobjects;
	uint64_t events;
	size_t unknown_threads; /* that have calls, and no kernel event */
};

/* A part of a thread's time: of one state, innermost in one call path. */
struct ip_wait_part {
	const struct ip_calltree *tree; /* the profile's, as far as it is made */
	uint32_t node;
	size_t run;			       /* of the trace: whose time it is */
	const struct ip_thread_states *thread; /* NULL: no kernel event is of it */
	const struct ip_thread_span *span;     /* NULL: nothing is known */
	uint32_t object;		       /* that a blocked thread waits for */
	uint64_t from, ticks;
	bool begins; /* the span begins with it */
	bool idle;   /* the wait is one of those that were told to be idle */
};

/* Is told of all parts, thread by thread. A negative value ends the reading, with its error. */
struct ip_wait_observer {
	int (*part)(void *context, const struct ip_wait_part *part);
	void *context;
};

/* Reads the calls of the trace. states, descriptors: of the trace; borrowed. tid: of this thread
 * only; 0: of all. idle: which waits are told apart; NULL: none. Tells observer of each part; NULL:
 * nobody. Returns NULL with an error. */
struct ip_wait_profile *ip_wait_profile_observe(struct ip_trace_reader *trace,
						const struct ip_states *states,
						const struct ip_descriptors *descriptors,
						uint32_t tid, const struct ip_idle_waits *idle,
						const struct ip_wait_observer *observer);
/* The same for the time between two moments: what lies before and behind does not count, and calls
 * are those that began in it. open_calls are those that were open at the second moment. */
struct ip_wait_profile *ip_wait_profile_between(struct ip_trace_reader *trace,
						const struct ip_states *states,
						const struct ip_descriptors *descriptors,
						const struct ip_idle_waits *idle, uint64_t from,
						uint64_t to);
/* For how long threads were idle in calls, in ticks, where that was told apart. */
uint64_t ip_wait_profile_idle(const struct ip_wait_profile *profile);
void ip_wait_profile_destroy(struct ip_wait_profile *profile);

#endif
