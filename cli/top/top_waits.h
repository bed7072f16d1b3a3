/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which functions of iprobe top wait.
 *
 * Times are those of the clock: in a server without work, the function that calls epoll_wait(2)
 * takes all the time. What a function has of a CPU is not measured, but the kernel tells what the
 * whole process has had:
 *
 *   1. A process is read before iprobe top begins its session, and after each reading of its
 * counts. One that comes later, and one whose session was there before, counts from its own
 * beginning.
 *   2. All threads together have used a CPU, or were ready for one while they computed, for a
 *      certain time since then (top_cpu.h). No function has had more than that.
 *   3. A function whose own time, since its session began, is more than twice as long has waited
 *      for most of it. It is marked. Of a function with less own time nothing is known.
 *
 * Step 3 takes all time since the beginning, not an interval: a call counts when it ends, whole,
 * and may have begun long before the interval. Step 1 has begun to count no later than the calls
 * do, so the mark may come late, and does not come for nothing.
 */
#ifndef IP_CLI_TOP_WAITS_H
#define IP_CLI_TOP_WAITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/live_counts.h"
#include "cli/top/top_cpu.h"

/* Where functions that wait stand, with the order by own time. */
enum cli_top_waits {
	CLI_TOP_WAITS_BELOW, /* below all others */
	CLI_TOP_WAITS_HIDE,  /* nowhere, with any order */
	CLI_TOP_WAITS_AMONG  /* by their time, as the others do */
};

/* Returns which of them "below", "hide", "among" means; -1: none of them. */
int cli_top_waits_of(const char *name);

/* Private: of one process, by index in the processes of the counts. */
struct cli_top_waits_process {
	struct cli_top_process_cpu now;
	uint64_t begin_ns; /* of now.used_ns: what it had used before its session */
	uint64_t read_ns;  /* when now was read */
	/* what it had used before cli_top_cpu.used_ns begins to count it */
	uint64_t shown_from_ns;
	bool known, gone, begun; /* begun: it was read before its session */
};

/* Private: of one process before its session. */
struct cli_top_cpu_begun {
	pid_t pid;
	uint64_t started; /* ip_proc_started_at() */
	struct cli_top_process_cpu used;
};

struct cli_top_cpu {
	struct cli_top_waits_process *items;
	size_t n;
	struct cli_top_cpu_begun *begun;
	size_t nbegun;
	uint64_t used_ns, before_ns; /* all processes: used up to now, and to the reading before */
	bool known;		     /* of all processes that have been read */
};

/* Step 1, of a process of which a session is about to begin. Returns 0, or -1 with an error. */
int cli_top_cpu_begin(struct cli_top_cpu *cpu, pid_t pid);

/* Steps 1 and 2. To be called after each reading of the counts. Returns 0, or -1 with an error. */
int cli_top_cpu_read(struct cli_top_cpu *cpu, const struct cli_live_counts *counts);
void cli_top_cpu_clear(struct cli_top_cpu *cpu);

/* Step 3, for the own time of a function in one process (by index), or in all (SIZE_MAX). */
bool cli_top_cpu_is_wait(const struct cli_top_cpu *cpu, size_t process, uint64_t self_ns);

#endif
