/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of events.
 */
#include "hotpatcher/fperf_events.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <strings.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/error.h"

static const struct ip_fperf_event events[] = {
	{"perf::TASK-CLOCK", "ns", IP_FPERF_TASK_CLOCK,
	 "time that the thread had a CPU (CLOCK_THREAD_CPUTIME_ID)"},
	{"tsc::CYCLES", "ticks", IP_FPERF_TSC,
	 "ticks of the time-stamp counter from entry to exit, waiting included; no core's own cycles"},
	{"perf::PAGE-FAULTS", "", IP_FPERF_FAULTS, "page faults of the thread (getrusage)"},
	{"perf::PAGE-FAULTS-MIN", "", IP_FPERF_FAULTS_MINOR, "those that needed no reading from a disk"},
	{"perf::PAGE-FAULTS-MAJ", "", IP_FPERF_FAULTS_MAJOR, "those that did"},
	{"perf::CONTEXT-SWITCHES", "", IP_FPERF_SWITCHES,
	 "how often the thread gave up its CPU, or lost it (getrusage)"},
	{"rusage::VOLUNTARY-SWITCHES", "", IP_FPERF_SWITCHES_VOLUNTARY,
	 "those where it waited for something"},
	{"rusage::FORCED-SWITCHES", "", IP_FPERF_SWITCHES_FORCED, "those where another was to run"},
	{"perf::CPU-MIGRATIONS", "", IP_FPERF_NONE,
	 "moves to another CPU: only a descriptor in the process could count them"},
	{"PAPI_TOT_INS", "", IP_FPERF_NONE, "instructions completed (PMU)"},
	{"PAPI_TOT_CYC", "", IP_FPERF_NONE, "cycles of the core (PMU)"},
	{"PAPI_L1_DCM", "", IP_FPERF_NONE, "misses of the first data cache (PMU)"},
	{"PAPI_L2_DCM", "", IP_FPERF_NONE, "misses of the second data cache (PMU)"},
	{"PAPI_L3_TCM", "", IP_FPERF_NONE, "misses of the third cache (PMU)"},
	{"PAPI_TLB_DM", "", IP_FPERF_NONE, "misses of the data TLB (PMU)"},
	{"PAPI_BR_MSP", "", IP_FPERF_NONE, "branches that were mispredicted (PMU)"},
};

#define NEVENTS (sizeof(events) / sizeof(*events))

/* Short names, as perf stat has them. */
static const struct {
	const char *alias, *name;
} aliases[] = {
	{"task-clock", "perf::TASK-CLOCK"},
	{"page-faults", "perf::PAGE-FAULTS"},
	{"faults", "perf::PAGE-FAULTS"},
	{"perf::FAULTS", "perf::PAGE-FAULTS"},
	{"minor-faults", "perf::PAGE-FAULTS-MIN"},
	{"perf::MINOR-FAULTS", "perf::PAGE-FAULTS-MIN"},
	{"major-faults", "perf::PAGE-FAULTS-MAJ"},
	{"perf::MAJOR-FAULTS", "perf::PAGE-FAULTS-MAJ"},
	{"context-switches", "perf::CONTEXT-SWITCHES"},
	{"cs", "perf::CONTEXT-SWITCHES"},
	{"perf::CS", "perf::CONTEXT-SWITCHES"},
	{"migrations", "perf::CPU-MIGRATIONS"},
	{"cpu-migrations", "perf::CPU-MIGRATIONS"},
	{"perf::MIGRATIONS", "perf::CPU-MIGRATIONS"},
	{"tsc", "tsc::CYCLES"},
	{"instructions", "PAPI_TOT_INS"},
	{"cycles", "PAPI_TOT_CYC"},
};

const struct ip_fperf_event *ip_fperf_events(size_t *ret_n)
{
	*ret_n = NEVENTS;
	return events;
}

/* Whether the kernel gives instructions to anybody. */
static int open_instructions(void)
{
	struct perf_event_attr attr = {.size = sizeof(attr),
				       .type = PERF_TYPE_HARDWARE,
				       .config = PERF_COUNT_HW_INSTRUCTIONS,
				       .disabled = 1,
				       .exclude_kernel = 1,
				       .exclude_hv = 1};

	return syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

const char *ip_fperf_why_no_pmu(void)
{
	_cleanup_close_ int fd = open_instructions();

	if (fd >= 0)
		return "there is a PMU, but this fperf reads only what needs no descriptor in the process";
	switch (errno) {
	case ENOENT:
	case EOPNOTSUPP:
	case ENODEV:
		return "this machine has no PMU, or its hypervisor does not pass it on (perf_event_open: no "
		       "such event)";
	case EACCES:
	case EPERM:
		return "the kernel does not let this user count it (kernel.perf_event_paranoid, or seccomp "
		       "of a container)";
	default:
		return "the kernel refuses perf_event_open";
	}
}

uint32_t ip_fperf_reads(uint32_t source)
{
	switch (source) {
	case IP_FPERF_NONE:
	case IP_FPERF_TSC:
		return 0;
	case IP_FPERF_TASK_CLOCK:
		return IP_FPERF_READS_CLOCK;
	default:
		return IP_FPERF_READS_USAGE;
	}
}

static const struct ip_fperf_event *find(const char *name)
{
	for (size_t i = 0; i < sizeof(aliases) / sizeof(*aliases); i++)
		if (!strcasecmp(name, aliases[i].alias)) {
			name = aliases[i].name;
			break;
		}
	for (size_t i = 0; i < NEVENTS; i++)
		if (!strcasecmp(name, events[i].name))
			return &events[i];
	return NULL;
}

static int not_here(const char *name, const char *why)
{
	ip_error("-e %s does not count here: %s", name, why);
	return -2;
}

int ip_fperf_events_parse(const char *text, const struct ip_fperf_event **ret)
{
	_cleanup_free_ char *copy = strdup(text);
	char *rest = copy, *name;
	int n = 0;

	if (!copy)
		return ip_error("out of memory");
	while ((name = strsep(&rest, ","))) {
		const struct ip_fperf_event *e = find(name);

		if (!*name)
			return ip_error("-e %s: a name is missing", text);
		if (!e && !strncasecmp(name, "PAPI_", 5))
			return not_here(name, ip_fperf_why_no_pmu());
		if (!e)
			return ip_error("-e %s: no such event (fperf list-events shows them)", name);
		if (e->source == IP_FPERF_NONE)
			return not_here(name, strncmp(e->name, "PAPI_", 5) ? e->what : ip_fperf_why_no_pmu());
		for (int i = 0; i < n; i++)
			if (ret[i] == e)
				return ip_error("-e %s: %s is named twice", text, e->name);
		if (n == IP_FPERF_EVENTS)
			return ip_error("-e %s: at most %u events at a time", text, IP_FPERF_EVENTS);
		ret[n++] = e;
	}
	return n;
}
