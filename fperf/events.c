/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of events.
 */
#include "fperf/events.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <strings.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "fperf/pmu.h"

#define USER (IP_PMU_NO_KERNEL | IP_PMU_NO_HV)
#define COUNTER(kind, number, without)                                                             \
	.ncounters = 1,                                                                            \
	.counters = {                                                                              \
		{.counter = {.type = kind, .exclude = without, .config = number}, .weight = 1}}
/* For events that happen only in the kernel, without must be 0: they are counted there. */
#define SOFTWARE(number, without) COUNTER(PERF_TYPE_SOFTWARE, number, without)
#define HARDWARE(number)	  COUNTER(PERF_TYPE_HARDWARE, number, USER)
#define MISSES(cache)                                                                              \
	COUNTER(PERF_TYPE_HW_CACHE,                                                                \
		(cache) | PERF_COUNT_HW_CACHE_OP_READ << 8 |                                       \
			PERF_COUNT_HW_CACHE_RESULT_MISS << 16,                                     \
		USER)

/* The kernel's headers have this as an enumerator (Linux 5.13), so it is always defined here. */
#ifndef PERF_COUNT_SW_CGROUP_SWITCHES
#define PERF_COUNT_SW_CGROUP_SWITCHES 11
#endif

static const struct ip_fperf_event events[] = {
	{"perf::TASK-CLOCK", "ns", IP_FPERF_TASK_CLOCK,
	 "time that the thread had a CPU (CLOCK_THREAD_CPUTIME_ID)"},
	{"tsc::CYCLES", "ticks", IP_FPERF_TSC,
	 "TSC-TICKS: ticks of the time-stamp counter from entry to exit, waiting included; no "
	 "core's own cycles"},
	{"perf::PAGE-FAULTS", "", IP_FPERF_FAULTS, "page faults of the thread (getrusage)"},
	{"perf::PAGE-FAULTS-MIN", "", IP_FPERF_FAULTS_MINOR,
	 "those that needed no reading from a disk"},
	{"perf::PAGE-FAULTS-MAJ", "", IP_FPERF_FAULTS_MAJOR, "those that did"},
	{"perf::CONTEXT-SWITCHES", "", IP_FPERF_SWITCHES,
	 "how often the thread gave up its CPU, or lost it (getrusage)"},
	{"rusage::VOLUNTARY-SWITCHES", "", IP_FPERF_SWITCHES_VOLUNTARY,
	 "those where it waited for something"},
	{"rusage::FORCED-SWITCHES", "", IP_FPERF_SWITCHES_FORCED, "those where another was to run"},
	{"perf::CPU-MIGRATIONS", "", IP_FPERF_PMU, "moves to another CPU",
	 SOFTWARE(PERF_COUNT_SW_CPU_MIGRATIONS, 0)},
	{"perf::CGROUP-SWITCHES", "", IP_FPERF_PMU, "switches to a thread of another cgroup",
	 SOFTWARE(PERF_COUNT_SW_CGROUP_SWITCHES, 0)},
	{"perf::ALIGNMENT-FAULTS", "", IP_FPERF_PMU, "accesses that the kernel had to split",
	 SOFTWARE(PERF_COUNT_SW_ALIGNMENT_FAULTS, USER)},
	{"perf::EMULATION-FAULTS", "", IP_FPERF_PMU, "instructions that the kernel had to emulate",
	 SOFTWARE(PERF_COUNT_SW_EMULATION_FAULTS, USER)},
	{"perf::PERF_COUNT_SW_PAGE_FAULTS", "", IP_FPERF_PMU,
	 "page faults in user mode, by a counter of the kernel instead of getrusage",
	 SOFTWARE(PERF_COUNT_SW_PAGE_FAULTS, USER)},
	{"perf::PERF_COUNT_SW_TASK_CLOCK", "ns", IP_FPERF_PMU,
	 "time that the thread had a CPU, in the same way",
	 SOFTWARE(PERF_COUNT_SW_TASK_CLOCK, USER)},
	{"perf::INSTRUCTIONS", "", IP_FPERF_PMU, "instructions completed (PMU)",
	 HARDWARE(PERF_COUNT_HW_INSTRUCTIONS)},
	{"perf::CYCLES", "", IP_FPERF_PMU, "cycles of the core (PMU)",
	 HARDWARE(PERF_COUNT_HW_CPU_CYCLES)},
	{"perf::BRANCHES", "", IP_FPERF_PMU, "branches completed (PMU)",
	 HARDWARE(PERF_COUNT_HW_BRANCH_INSTRUCTIONS)},
	{"perf::BRANCH-MISSES", "", IP_FPERF_PMU, "branches that were mispredicted (PMU)",
	 HARDWARE(PERF_COUNT_HW_BRANCH_MISSES)},
	{"perf::CACHE-REFERENCES", "", IP_FPERF_PMU, "accesses to the last cache, mostly (PMU)",
	 HARDWARE(PERF_COUNT_HW_CACHE_REFERENCES)},
	{"perf::CACHE-MISSES", "", IP_FPERF_PMU, "misses of the last cache, mostly (PMU)",
	 HARDWARE(PERF_COUNT_HW_CACHE_MISSES)},
	/* PAPI's most common presets by the kernel's generic numbers, for machines where PAPI is
	 * not installed. PAPI's own definitions are better. */
	{"PAPI_TOT_INS", "", IP_FPERF_PMU, "instructions completed (PMU)",
	 HARDWARE(PERF_COUNT_HW_INSTRUCTIONS)},
	{"PAPI_TOT_CYC", "", IP_FPERF_PMU, "cycles of the core (PMU)",
	 HARDWARE(PERF_COUNT_HW_CPU_CYCLES)},
	{"PAPI_REF_CYC", "", IP_FPERF_PMU, "cycles at a constant rate (PMU)",
	 HARDWARE(PERF_COUNT_HW_REF_CPU_CYCLES)},
	{"PAPI_BR_INS", "", IP_FPERF_PMU, "branches completed (PMU)",
	 HARDWARE(PERF_COUNT_HW_BRANCH_INSTRUCTIONS)},
	{"PAPI_BR_MSP", "", IP_FPERF_PMU, "branches that were mispredicted (PMU)",
	 HARDWARE(PERF_COUNT_HW_BRANCH_MISSES)},
	{"PAPI_L1_DCM", "", IP_FPERF_PMU, "misses of the first data cache (PMU)",
	 MISSES(PERF_COUNT_HW_CACHE_L1D)},
	{"PAPI_L3_TCM", "", IP_FPERF_PMU, "misses of the last cache (PMU)",
	 MISSES(PERF_COUNT_HW_CACHE_LL)},
	{"PAPI_TLB_DM", "", IP_FPERF_PMU, "misses of the data TLB (PMU)",
	 MISSES(PERF_COUNT_HW_CACHE_DTLB)},
};

#define NEVENTS (sizeof(events) / sizeof(*events))

/* Short names, as perf stat uses them. */
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
	{"TSC-TICKS", "tsc::CYCLES"},
	{"instructions", "perf::INSTRUCTIONS"},
	{"cycles", "perf::CYCLES"},
	{"cpu-cycles", "perf::CYCLES"},
	{"branches", "perf::BRANCHES"},
	{"branch-misses", "perf::BRANCH-MISSES"},
	{"cache-references", "perf::CACHE-REFERENCES"},
	{"cache-misses", "perf::CACHE-MISSES"},
};

static ip_fperf_ask ask_papi;

const struct ip_fperf_event *ip_fperf_events(size_t *ret_n)
{
	*ret_n = NEVENTS;
	return events;
}

void ip_fperf_events_ask(ip_fperf_ask ask)
{
	ask_papi = ask;
}

static int try_open(const struct ip_pmu_counter *c)
{
	struct perf_event_attr attr = {.size = sizeof(attr),
				       .type = c->type,
				       .config = c->config,
				       .config1 = c->config1,
				       .config2 = c->config2,
				       .disabled = 1,
				       .exclude_user = (c->exclude & IP_PMU_NO_USER) != 0,
				       .exclude_kernel = (c->exclude & IP_PMU_NO_KERNEL) != 0,
				       .exclude_hv = (c->exclude & IP_PMU_NO_HV) != 0};
	_cleanup_close_ int fd =
		syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? errno : 0;
}

const char *ip_fperf_why_not(const struct ip_fperf_event *e)
{
	for (unsigned i = 0; i < e->ncounters; i++) {
		int error = try_open(&e->counters[i].counter);

		if (error)
			return ip_pmu_error(error);
	}
	for (unsigned i = 0; i < e->nparts; i++) {
		const char *why = ip_fperf_why_not(e->parts[i]);

		if (why)
			return why;
	}
	return NULL;
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
		if (source >= IP_FPERF_PMU)
			return IP_FPERF_READS_PMU;
		return IP_FPERF_READS_USAGE;
	}
}

const struct ip_fperf_event *ip_fperf_event_named(const char *name)
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

/* Finds an event. For presets PAPI's definition takes precedence over the table. */
static const struct ip_fperf_event *find(const char *name, const char **ret_why)
{
	const struct ip_fperf_event *here = ip_fperf_event_named(name), *e = NULL;

	*ret_why = NULL;
	if (ask_papi && (!here || !strncasecmp(name, "PAPI_", 5)))
		e = ask_papi(name, ret_why);
	return e ? e : here;
}

static int not_here(const char *name, const char *why)
{
	ip_error("-e %s does not count here: %s", name, why);
	return -2;
}

int ip_fperf_events_find(const struct ip_fperf_event *const *list, unsigned n, const char *name)
{
	for (unsigned i = 0; i < n; i++)
		if (!strcmp(list[i]->name, name))
			return (int)i;
	return -1;
}

/* Adds an event, after the parts that it follows from if they are not there yet. */
static int add(const char *text, const struct ip_fperf_event *e, const struct ip_fperf_event **ret,
	       int n)
{
	for (unsigned i = 0; i < e->nparts; i++)
		if (ip_fperf_events_find(ret, n, e->parts[i]->name) < 0 &&
		    (n = add(text, e->parts[i], ret, n)) < 0)
			return -1;
	if (n == IP_FPERF_EVENTS)
		return ip_error("-e %s: at most %u events at a time; what a formula is made of is "
				"some, too",
				text, IP_FPERF_EVENTS);
	ret[n++] = e;
	if (ip_pmu_counters(ret, n) > IP_PMU_COUNTERS)
		return ip_error("-e %s: at most %u counters of the kernel at a time, and some "
				"events take several",
				text, IP_PMU_COUNTERS);
	return n;
}

int ip_fperf_events_parse(const char *text, const struct ip_fperf_event **ret)
{
	_cleanup_free_ char *copy = strdup(text);
	char *rest = copy, *name;
	int n = 0;

	if (!copy)
		return ip_error("out of memory");
	while ((name = strsep(&rest, ","))) {
		const char *why;
		const struct ip_fperf_event *e = find(name, &why);

		if (!*name)
			return ip_error("-e %s: a name is missing", text);
		if (e)
			why = ip_fperf_why_not(e);
		if (why)
			return not_here(name, why);
		if (!e)
			return ip_error("-e %s: no such event (fperf list-events shows them)",
					name);
		if (ip_fperf_events_find(ret, n, e->name) >= 0)
			return ip_error("-e %s: %s is named twice", text, e->name);
		n = add(text, e, ret, n);
		if (n < 0)
			return -1;
	}
	return n;
}
