/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What fperf tells on stderr. See fperf_summary.h.
 */
#include "cli/fperf/fperf_summary.h"

#include <stdio.h>

#include "cli/fperf/fperf.h"
#include "common/cleanup.h"
#include "common/print.h"
#include "common/units.h"
#include "fperf/pmu.h"

/* The bytes that the process has read and written: in many programs they are a measure of its
 * work. */
struct io {
	uint64_t read, written;
};

static struct io io_of(int pid)
{
	char path[64];
	struct io io = {0};
	_cleanup_fclose_ FILE *file = NULL;

	snprintf(path, sizeof(path), "/proc/%d/io", pid);
	file = fopen(path, "re");
	if (!file || fscanf(file, "rchar: %lu wchar: %lu", &io.read, &io.written) != 2)
		return (struct io){0};
	return io;
}

void fperf_summary_window(void *context, int pid, bool counted, uint64_t wall_ns, uint64_t cpu_ns)
{
	static struct io before;
	struct io now = io_of(pid);

	if (wall_ns)
		ip_print(stderr, "window\t%s\t%lu\t%lu\t%lu\t%lu\n", counted ? "on" : "off",
			 wall_ns, cpu_ns, now.read - before.read, now.written - before.written);
	before = now;
}

#define LITTLE_SAMPLES 30u /* for each function that was called: fewer tell little */
#define IDLE_SHARE     0.1 /* of the time: a process that runs for less has little to do */

bool fperf_summary_is_little(const struct ip_fperf_summary *sum)
{
	return sum->length_s > 0 && sum->run_s < IDLE_SHARE * sum->length_s &&
	       sum->samples < LITTLE_SAMPLES * (sum->called ? sum->called : 1);
}

void fperf_summary_tell(const struct ip_session_summary *s, struct ip_fperf *f, bool several)
{
	const struct ip_fperf_options *o = ip_fperf_get_options(f);
	struct ip_fperf_summary sum;
	char process[32] = "", share[96];

	ip_fperf_summary(f, &sum);
	if (several)
		snprintf(process, sizeof(process), "pid %d: ", s->pid);
	/* a share of next to nothing says nothing */
	if (sum.overhead > 1)
		snprintf(share, sizeof(share), "more than the process itself");
	else
		snprintf(share, sizeof(share), "%.2f %% (stops and page switches %.2f %%)",
			 100 * sum.overhead, 100 * sum.stops_share);
	ip_print(stderr,
		 "fperf: %s%lu sample%s in %.2f s (%.2f s of CPU time); %zu of %zu function%s "
		 "called, "
		 "%zu of them have samples; it cost %.1f ms, %s; probes changed %lu time%s, %lu of "
		 "them without a stop; longest stop %.2f ms, "
		 "longest gap of functions that stayed %.3f ms\n",
		 process, sum.samples, ip_plural(sum.samples), sum.length_s, sum.run_s, sum.called,
		 sum.functions, ip_plural(sum.functions), sum.sampled,
		 1e3 * sum.overhead * sum.run_s, share, sum.changes, ip_plural(sum.changes),
		 sum.changes_without_stop, ip_stop_log_longest(&s->stops) / 1e6,
		 sum.longest_gap_ns / 1e6);
	if (fperf_summary_is_little(&sum) && !several)
		ip_print(
			stderr,
			"fperf: %sthere is little to tell: the process was on a CPU for %.1f %% of "
			"the time, and few calls were to be sampled: count for longer "
			"(--duration), "
			"or while it has work\n",
			process, sum.length_s > 0 ? 100 * sum.run_s / sum.length_s : 0.0);
	fperf_print_unsure(process);
	if (s->end == IP_END_EXECED)
		ip_print(stderr,
			 "fperf: pid %d has executed another program: that one is not counted "
			 "(fperf -p anew counts it, and fperf -- CMD counts whatever CMD "
			 "executes)\n",
			 s->pid);
	if (sum.changes_failed)
		ip_print(stderr,
			 "fperf: %lu change%s of probes failed, so functions kept or lacked probes "
			 "for longer than meant; the last one: %s\n",
			 sum.changes_failed, sum.changes_failed == 1 ? "" : "s",
			 sum.change_failure);
	if (sum.confined)
		ip_print(stderr, "fperf: the process has put itself under seccomp: no samples were "
				 "taken from then on, calls were counted\n");
	if (sum.left_out)
		ip_print(stderr,
			 "fperf: %lu sample%s not taken: too many others were open in their "
			 "thread, or a hook below them\n",
			 sum.left_out, sum.left_out == 1 ? " was" : "s were");
	if (sum.missing)
		ip_print(stderr,
			 "fperf: %lu value%s missing in samples: the kernel had other counters "
			 "in the PMU%s, or a descriptor had been closed\n",
			 sum.missing, sum.missing == 1 ? " is" : "s are",
			 o->multiplex ? "" : " (--multiplex takes turns and scales)");
	if (sum.scaled)
		ip_print(stderr, "fperf: %lu value%s scaled (~), since counters took turns\n",
			 sum.scaled, sum.scaled == 1 ? " is" : "s are");
	if (sum.gone)
		ip_print(stderr,
			 "fperf: the process closed descriptors of counters, or put others in "
			 "their place, %lu time%s: they were opened anew\n",
			 sum.gone, ip_plural(sum.gone));
	if (sum.refused)
		ip_print(stderr, "fperf: %u thread%s no samples, for want of a counter (%s): %s\n",
			 sum.refused, sum.refused == 1 ? " has" : "s have",
			 sum.refused_event ? sum.refused_event : "?",
			 ip_pmu_error(sum.refused_error));
}
