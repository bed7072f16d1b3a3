/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ids by which the machine knows the threads of a trace. Events of functions have the ids that
 * a thread sees itself, those of its pid namespace; events of the kernel have the machine's.
 *
 * They differ for a process in a container. Which belong together follows from what was read of its
 * threads when it began to be recorded, and from the system calls by which these have made others:
 * the kernel's event of the fork has the machine's id of the child, the result of the call the id
 * in the namespace. So a thread that was made later is known only where system calls are recorded.
 */
#ifndef IP_MACHINE_IDS_H
#define IP_MACHINE_IDS_H

#include <stddef.h>
#include <stdint.h>

#include "analysis/callstack/trace.h"
#include "analysis/wait/thread_states.h"

struct ip_machine_ids;

/* A process that was made by another one while kernel events were recorded. */
struct ip_process_birth {
	uint64_t tsc;
	uint32_t pid, parent;
};

/* Gives the runs of the trace the machine's ids, which are what the states have. states: borrowed.
 * Returns NULL with an error. */
struct ip_machine_ids *ip_machine_ids_create(struct ip_trace_reader *trace,
					     const struct ip_states *states);
void ip_machine_ids_destroy(struct ip_machine_ids *ids);

/* The process that a thread belonged to at a time, both by the machine's ids; 0: not known. */
uint32_t ip_machine_ids_pid(const struct ip_machine_ids *ids, int32_t tid, uint64_t tsc);

/* All births of processes, in order of time. */
const struct ip_process_birth *ip_machine_ids_births(const struct ip_machine_ids *ids,
						     size_t *ret_n);

#endif
