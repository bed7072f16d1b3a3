/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of one call: what its thread did, how long altogether, and what other threads did
 * meanwhile that ended its waits.
 */
#ifndef IP_CLI_CALL_PARTS_H
#define IP_CLI_CALL_PARTS_H

#include "analysis/profile/slowest.h"
#include "analysis/wait/critical_path.h"
#include "analysis/wait/function_index.h"
#include "analysis/wait/wait_chain.h"
#include "cli/wait/wait_load.h"

/* Steps of a path of one kind: of one thread, in one state, on one object. */
struct cli_call_part {
	const struct ip_thread_states *thread;
	uint8_t state;
	bool own; /* of the call's own thread: depth 0 */
	struct ip_wait_object object;
	uint32_t function; /* in which the thread was at its longest step */
	uint64_t ticks, count;
	uint64_t longest, at; /* the longest step, and when it began */
	/* own BLOCKED: who ended its longest wait, and where that one was when it began */
	const struct ip_thread_states *holder;
	uint32_t holder_function;
	bool is_lock; /* who ends the wait has held a lock */
	/* not own: index of the own part whose wait it is the reason of */
	size_t because;
};

struct cli_wait_call {
	const struct ip_slow_call *call;
	uint32_t tid; /* the machine's id; 0: not known */
	const struct ip_thread_states *thread;
	struct cli_call_part *parts;
	size_t nparts;
	struct ip_path_step *steps;
	size_t nsteps;
	struct ip_wait_chain chain;
};

/* What calls are looked up in. */
struct cli_call_trace {
	struct cli_wait_trace trace;
	struct ip_function_index *functions;
};

/* Finds the parts of a call. The caller clears *ret in any case. Returns 0, or -1 with an error. */
int cli_call_parts_find(struct cli_call_trace *x, const struct ip_slow_call *slow,
			struct cli_wait_call *ret);
void cli_call_parts_clear(struct cli_wait_call *c);

/* Makes pointers to all parts, the longest first; the caller frees the array. Returns NULL with an
 * error. */
struct cli_call_part **cli_call_parts_sort(const struct cli_wait_call *c);

#endif
