/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a live process has had of CPUs.
 *
 * The kernel tells for how long a thread was ready and waited for a CPU, and how often it gave its
 * CPU up by itself or had it taken away. A thread that has slept may wait for a CPU when it wakes
 * up: the function that has slept goes on then, and the time belongs to its sleep. A thread whose
 * CPU was taken away waits in a function that computes. Between two readings the time is divided
 * among both by their numbers, for each thread by itself. A thread that was not switched at all
 * counts as one that computes.
 */
#ifndef IP_CLI_TOP_CPU_H
#define IP_CLI_TOP_CPU_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/proc.h"

/* One process. All zero before the first reading. */
struct cli_top_process_cpu {
	uint64_t used_ns;   /* by all its threads since it was started */
	uint64_t queued_ns; /* since the first reading: threads that compute were ready for one */
	/* private: the threads at the last reading, sorted by tid */
	struct ip_proc_queue *threads;
	size_t nthreads;
};

/* Reads the process. Returns 1; 0 where it has ended; -1 with an error. */
int cli_top_process_cpu_read(struct cli_top_process_cpu *cpu, pid_t pid);
void cli_top_process_cpu_clear(struct cli_top_process_cpu *cpu);

/* Returns the part of the time between two readings for which the thread waited while it computed.
 * before: all zero for a thread that has come since then. */
uint64_t cli_top_queued(const struct ip_proc_queue *before, const struct ip_proc_queue *now);

#endif
