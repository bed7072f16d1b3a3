/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernel's events of a trace tell of its waits: the states of threads, what descriptors
 * were, and the names of objects.
 */
#ifndef IP_TRACE_WAITS_H
#define IP_TRACE_WAITS_H

#include <stdbool.h>

#include "analysis/callstack/trace.h"
#include "analysis/wait/descriptors/descriptors.h"
#include "analysis/wait/interrupts.h"
#include "analysis/wait/machine_ids.h"
#include "analysis/wait/object_name.h"
#include "analysis/wait/thread_states.h"

struct ip_trace_waits {
	struct ip_states *states;
	struct ip_descriptors descriptors;
	struct ip_object_names *names;
	struct ip_interrupts interrupts; /* where they were asked for */
	/* what is wrong with the events, a line each; NULL behind the last */
	const char *const *damage;
	struct ip_machine_ids *ids;
	/* private: */
	struct ip_kernel_reader *reader; /* has the lines */
};

/* Reads the kernel's events of a trace, which must outlive them, once. Its threads and processes
 * have the machine's ids then (machine_ids.h). interrupts: they are asked for. Returns 1; 0: it has
 * none, and *ret is NULL; -1 with an error. */
int ip_trace_waits_read(struct ip_trace_reader *trace, bool interrupts,
			struct ip_trace_waits **ret);
void ip_trace_waits_destroy(struct ip_trace_waits *waits);

/* What the descriptors of a trace were, by the machine's ids of processes. ids must outlive *ret,
 * which the caller clears in any case. Returns 0, or -1 with an error. */
int ip_trace_descriptors_read(const char *dir, const struct ip_states *states,
			      const struct ip_machine_ids *ids, struct ip_descriptors *ret);

/* An object with its kind, "futex:&db.lock". The caller frees it. NULL: out of memory, with an
 * error. */
char *ip_trace_waits_object(struct ip_trace_waits *waits, const struct ip_wait_object *object);

#endif
