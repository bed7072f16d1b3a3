/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the functions of iprobe top wait for (--kernel).
 *
 * The sessions of iprobe top are flight recorders then, which log the calls that they measure and
 * keep events of the kernel beside them. After each reading of the counts:
 *
 *   1. Each session is asked for a snapshot, which holds the interval: calls and events of the
 *      kernel up to a moment behind it.
 *   2. It is read as iprobe wait reads a trace, between the two readings of the counts
 *      (ip_wait_profile_between()), and removed.
 *   3. Its functions are those of the counts by name and module.
 *
 * So a call that is open counts with the time that it was open within the interval. Where the rings
 * have no room for a whole interval, what they hold is the end of it: kept_ns tells.
 */
#ifndef IP_CLI_TOP_KERNEL_H
#define IP_CLI_TOP_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "cli/live_counts.h"

#define CLI_TOP_OBJECTS_MOST 4u

/* What was waited for. */
struct cli_top_object {
	const char *kind;     /* as iprobe wait has it; "runqueue" */
	char *name;	      /* NULL: the run queue */
	uint64_t ns, idle_ns; /* idle_ns: of ns, as below */
};

/* Of the calls of a function in an interval. elapsed = cpu + waited + unknown. idle: of waited,
 * what was a wait for new work (analysis/wait/idle/idle_waits.h). */
struct cli_top_wait {
	uint64_t elapsed_ns, cpu_ns, waited_ns, unknown_ns, idle_ns;
	uint64_t open;					     /* calls that had not ended */
	struct cli_top_object objects[CLI_TOP_OBJECTS_MOST]; /* the longest first */
	size_t nobjects;
};

/* Of one process, by function of the recording of the counts. */
struct cli_top_kernel_process {
	pid_t pid;
	bool known;
	struct cli_top_wait *functions;
	size_t nfunctions;
};

struct cli_top_kernel {
	struct cli_top_kernel_process *items;
	size_t n;
	uint64_t lost;	  /* events of the kernel that were lost in what was read */
	uint64_t kept_ns; /* less than the interval: of so much of it calls are known */
	size_t without;	  /* processes that have figures, and no events of the kernel */
	char why[256];	  /* the first of them has none */
	bool with_idle;	  /* no wait is told apart as idle */
};

/* Whether events of the kernel tell what the process waits for: it is no 32-bit program. */
bool cli_top_kernel_fits(pid_t pid);

/* Steps 1 to 3. place: a directory of this command's own, where snapshots are made. What cannot be
 * had of a process is not known. Returns 0, or -1 with an error. */
int cli_top_kernel_read(struct cli_top_kernel *kernel, const struct cli_live_counts *counts,
			const char *place);
void cli_top_kernel_clear(struct cli_top_kernel *kernel);

/* What a function has waited in a process, or in all (0). The objects of *ret belong to the kernel
 * events. Returns whether anything is known of it. */
bool cli_top_kernel_wait(const struct cli_top_kernel *kernel, uint32_t function, pid_t pid,
			 struct cli_top_wait *ret);

/* For how much of its elapsed time a function had no CPU, in per cent; -1: it is not known, since
 * events of the kernel are missing. */
double cli_top_wait_percent(const struct cli_top_wait *wait);
/* The same, without what was idle. */
double cli_top_wait_busy_percent(const struct cli_top_wait *wait);

#endif
