/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of functions of the kernel (--kernel-functions), by thread. They become functions of the
 * recording, in a module of their own, and the stack machine (analysis/callstack/frames.h) shows
 * them below the user's function that was open.
 *
 * A return belongs to the innermost open call of its function in its thread. The end of a call is
 * unknown where calls around it return before it: its own return was missed
 * (kernel_trace/kernel_probes.h). It is unknown, too, where events of the target's threads were
 * lost while it was open: the thread may have run on any CPU. So no call is longer than it was, and
 * none that is known to have been is left out.
 */
#ifndef IP_KERNEL_CALLS_H
#define IP_KERNEL_CALLS_H

#include <stddef.h>
#include <stdint.h>

struct ip_recording;

#define IP_KERNEL_MODULE "[kernel]"

/* The most calls that are open in each other; of one that is deeper the end is unknown. */
#define IP_KERNEL_DEPTH 64u

#define IP_KERNEL_END_UNKNOWN 0u
#define IP_KERNEL_END_OPEN    UINT64_MAX /* it had not returned at the end */

/* Times in TSC. end: or one of IP_KERNEL_END_*. Of two calls one lies in the other, or behind it,
 * as far as ends are known. */
struct ip_kernel_call {
	uint64_t start, end;
	uint32_t function; /* index into functions of the recording */
};

struct ip_kernel_thread {
	int32_t tid;		      /* by the machine's ids */
	struct ip_kernel_call *calls; /* by start */
	size_t n;
	/* private: */
	uint32_t open[IP_KERNEL_DEPTH]; /* indices of calls */
	uint16_t numbers[IP_KERNEL_DEPTH];
	size_t nopen;
	size_t losses; /* those that it has passed */
};

struct ip_kernel_calls;

/* Reads the calls of a trace, and adds their functions to its recording, which owns them from then
 * on (ip_recording.kernel_calls). To be called once, before anything is made that depends on the
 * number of functions. dir: the trace. Returns 0, also where there are none; -1 with an error. */
int ip_kernel_calls_load(const char *dir, struct ip_recording *session);
void ip_kernel_calls_destroy(struct ip_kernel_calls *calls);

/* The calls of a thread, by the ids that it has itself; NULL: it has none. Of a thread in another
 * pid namespace these are known if it was there when its process began to be recorded. */
const struct ip_kernel_thread *ip_kernel_calls_find(const struct ip_kernel_calls *calls,
						    uint32_t pid, uint32_t tid);

/* What is wrong with the kernel's events, a line each, NULL behind the last; how many were lost;
 * how many calls have no known end. calls NULL: nothing. */
const char *const *ip_kernel_calls_damage(const struct ip_kernel_calls *calls);
uint64_t ip_kernel_calls_lost(const struct ip_kernel_calls *calls);
uint64_t ip_kernel_calls_unknown(const struct ip_kernel_calls *calls);

#endif
