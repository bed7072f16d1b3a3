/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fperf self-test: tests whether counters count on this machine, with work of known cost.
 * Counters of the kernel are read by the hooks' own code (runtime/fperf_pmu.c), and by PAPI
 * where it is installed.
 */
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/fperf/fperf.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/print.h"
#include "fperf/pmu.h"
#include "runtime/fperf_pmu.h"

#define PAGES	   1000u
#define SLEEPS	   20u
#define CPU_NS	   20000000ull
#define TIMEOUT_NS 20000000000ull
#define SPIN_NS	   200000000ull
#define ROUNDS	   1000000ull
#define READINGS   2000u

static unsigned passed, failed, skipped;

static __attribute__((format(printf, 3, 4))) void say(const char *what, int ok, const char *format,
						      ...)
{
	va_list args;

	ip_print(stdout, "%-28s %-4s ", what, ok ? "ok" : "BAD");
	va_start(args, format);
	ip_vprint(stdout, format, args);
	va_end(args);
	ip_print(stdout, "\n");
	passed += ok;
	failed += !ok;
}

static uint64_t clock_of(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void test_faults(void)
{
	long page = sysconf(_SC_PAGESIZE);
	volatile char *memory = mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct rusage before, behind;
	long faults;

	if (memory == MAP_FAILED) {
		say("perf::PAGE-FAULTS", 0, "no memory to touch");
		return;
	}
	madvise((void *)memory, PAGES * page, MADV_NOHUGEPAGE);
	getrusage(RUSAGE_THREAD, &before);
	for (unsigned i = 0; i < PAGES; i++)
		memory[i * page] = 1;
	getrusage(RUSAGE_THREAD, &behind);
	munmap((void *)memory, PAGES * page);
	faults = behind.ru_minflt + behind.ru_majflt - before.ru_minflt - before.ru_majflt;
	/* one or two more: a page of this stack, or of the C library */
	say("perf::PAGE-FAULTS", faults >= PAGES && faults <= PAGES + 2, "%ld of %u pages touched",
	    faults, PAGES);
}

static void test_clocks(void)
{
	struct ip_clock_reading from, to;
	uint64_t cpu = clock_of(CLOCK_THREAD_CPUTIME_ID), wall = clock_of(CLOCK_MONOTONIC), hz;
	const char *why;

	ip_clock_read(&from);
	/* other processes may have the CPU for most of the time */
	while (clock_of(CLOCK_MONOTONIC) - wall < SPIN_NS ||
	       (clock_of(CLOCK_THREAD_CPUTIME_ID) - cpu < CPU_NS &&
		clock_of(CLOCK_MONOTONIC) - wall < TIMEOUT_NS))
		;
	cpu = clock_of(CLOCK_THREAD_CPUTIME_ID) - cpu;
	wall = clock_of(CLOCK_MONOTONIC) - wall;
	say("perf::TASK-CLOCK", cpu >= CPU_NS && cpu <= wall + wall / 20,
	    "%.1f ms of %.1f ms that passed", cpu / 1e6, wall / 1e6);
	ip_clock_read(&to);
	hz = ip_clock_hz(&from, &to, SPIN_NS);
	say("tsc::CYCLES", ip_clock_trustworthy(&why) && hz > 100000000,
	    "%.1f MHz: ticks of time, no core's own cycles", hz / 1e6);
}

static void test_switches(void)
{
	const struct timespec nap = {.tv_nsec = 1000000};
	struct rusage before, behind;

	getrusage(RUSAGE_THREAD, &before);
	for (unsigned i = 0; i < SLEEPS; i++)
		nanosleep(&nap, NULL);
	getrusage(RUSAGE_THREAD, &behind);
	say("perf::CONTEXT-SWITCHES", behind.ru_nvcsw - before.ru_nvcsw == SLEEPS,
	    "%ld of %u sleeps", behind.ru_nvcsw - before.ru_nvcsw, SLEEPS);
}

/* Runs a loop of two instructions a round. */
static void known_loop(void *context)
{
	uint64_t rounds = ROUNDS;

	__asm__ volatile("1: dec %0\n\tjnz 1b" : "+r"(rounds) : : "cc");
}

static void touch(void *memory)
{
	for (unsigned i = 0; i < PAGES; i++)
		((volatile char *)memory)[i * 4096ul] = 1;
}

/* Returns PAGES pages that have never been touched; NULL: there are none. */
static void *fresh_pages(void)
{
	void *memory = mmap(NULL, PAGES * 4096ul, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		return NULL;
	madvise(memory, PAGES * 4096ul, MADV_NOHUGEPAGE);
	return memory;
}

/* Open counters of this thread, used by the hooks' own code. */
struct counters {
	struct ip_pmu_set set;
	struct ip_pmu_thread *thread;
};

static void close_counters(struct counters *c)
{
	if (c->thread)
		rt_pmu_close(c->thread);
	free(ip_steal_ptr(c->thread));
}

static bool open_counters(struct counters *c, const char *const *names, unsigned n)
{
	const struct ip_fperf_event *events[IP_FPERF_EVENTS];
	uint32_t sources[IP_FPERF_EVENTS];

	for (unsigned i = 0; i < n; i++)
		events[i] = ip_fperf_event_named(names[i]);
	ip_pmu_fill(events, n, false, &c->set, sources);
	c->thread = calloc(1, ip_pmu_room(events, n));
	return c->thread && rt_pmu_ready(&c->set, c->thread, gettid());
}

/* Counts what work does. Returns 1; 0 where the counters have no values. */
static int count(struct counters *c, void (*work)(void *), void *context, uint64_t *values)
{
	struct rt_pmu_reading reading;
	struct rt_pmu_values got;

	rt_pmu_read(&c->set, c->thread, &reading);
	rt_pmu_note(&c->set, c->thread, 0, &reading);
	if (work)
		work(context);
	rt_pmu_read(&c->set, c->thread, &reading);
	rt_pmu_since(&c->set, c->thread, 0, &reading, &got);
	memcpy(values, got.value, sizeof(got.value));
	return !got.missing;
}

static const char *way_of(const struct counters *c)
{
	return c->thread->state == IP_PMU_PAGES ? "rdpmc, no descriptor"
						: "read(2), descriptor verified";
}

static void say_cost(struct counters *c)
{
	struct rt_pmu_reading reading;
	uint64_t began = clock_of(CLOCK_MONOTONIC);

	for (unsigned i = 0; i < READINGS; i++)
		rt_pmu_read(&c->set, c->thread, &reading);
	ip_print(stdout, "%-28s %-4s %.0f ns a reading of %u, by %s\n", "...", "",
		 (clock_of(CLOCK_MONOTONIC) - began) / (double)READINGS, c->set.ncounters,
		 way_of(c));
}

static void absent(const char *what, const char *why)
{
	ip_print(stdout, "%-28s %-4s %s\n", what, "-", why);
	skipped++;
}

/* Tests counters of the kernel, and that the hooks notice a counter that was closed by other
 * code. */
static void test_kernel_counters(const char *what, const char *second)
{
	const char *const names[] = {"perf::PERF_COUNT_SW_PAGE_FAULTS", second};
	const char *why = ip_fperf_why_not(ip_fperf_event_named(names[0]));
	uint64_t values[IP_FPERF_EVENTS] = {0}, nothing[IP_FPERF_EVENTS];
	struct counters c = {0};
	void *memory;
	int got, other, missed;

	if (why) {
		absent(what, why);
		return;
	}
	memory = fresh_pages();
	if (!memory || !open_counters(&c, names, 2)) {
		say(what, 0, "%s", c.thread ? ip_pmu_error(c.thread->error) : "no memory");
		close_counters(&c);
		return;
	}
	got = count(&c, touch, memory, values);
	say(what, got && values[0] >= PAGES && values[0] <= PAGES + 2, "%lu of %u pages touched",
	    values[0], PAGES);
	say_cost(&c);
	munmap(memory, PAGES * 4096ul);
	/* closes the descriptor as foreign code might, and gives its number to another file */
	other = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	if (other >= 0 && c.thread->held[0].fd >= 0)
		dup3(other, c.thread->held[0].fd, O_CLOEXEC);
	missed = !count(&c, NULL, NULL, nothing);
	got = rt_pmu_ready(&c.set, c.thread, gettid()) && count(&c, NULL, NULL, nothing);
	say("... and one was closed", missed && got && c.thread->gone == 1, "noticed, %s",
	    got ? "and opened anew" : "but not opened anew");
	if (other >= 0)
		close(other);
	close_counters(&c);
}

static void test_instructions(void)
{
	static const char *const names[] = {"perf::INSTRUCTIONS", "perf::CYCLES"};
	const char *why = ip_fperf_why_not(ip_fperf_event_named(names[0]));
	uint64_t values[IP_FPERF_EVENTS] = {0};
	struct counters c = {0};
	int got;

	if (why) {
		absent("instructions (PMU)", why);
		return;
	}
	if (!open_counters(&c, names, 2)) {
		say("instructions (PMU)", 0, "%s",
		    c.thread ? ip_pmu_error(c.thread->error) : "no memory");
		close_counters(&c);
		return;
	}
	got = count(&c, known_loop, NULL, values);
	/* some more for the calls around it */
	say("instructions (PMU)",
	    got && values[0] >= 2 * ROUNDS && values[0] < 2 * ROUNDS + 2 * ROUNDS / 100,
	    "%lu of %llu, %.2f a cycle%s", values[0], 2 * ROUNDS,
	    values[1] ? (double)values[0] / values[1] : 0,
	    got ? "" : "; the kernel had other counters in the PMU meanwhile");
	say_cost(&c);
	close_counters(&c);
}

/* Lets PAPI count the same work. */
static void test_papi(void)
{
	static const char *const faults[] = {"perf::PAGE-FAULTS"}, *const instructions[] = {
									   "PAPI_TOT_INS"};
	const struct papi_names *papi = fperf_papi();
	long long value = 0;
	char why[400];
	void *memory = fresh_pages();

	if (!papi || !memory) {
		absent("PAPI", papi ? "no memory to touch" : fperf_papi_why_not());
		return;
	}
	if (papi->count(faults, 1, touch, memory, &value, why, sizeof(why)) < 0)
		absent("PAPI: perf::PAGE-FAULTS", why);
	else
		say("PAPI: perf::PAGE-FAULTS", value >= PAGES && value <= PAGES + 8,
		    "%lld of %u pages touched, by PAPI_read", value, PAGES);
	munmap(memory, PAGES * 4096ul);
	if (papi->count(instructions, 1, known_loop, NULL, &value, why, sizeof(why)) < 0)
		absent("PAPI: PAPI_TOT_INS", why);
	else
		say("PAPI: PAPI_TOT_INS",
		    value >= (long long)(2 * ROUNDS) &&
			    value < (long long)(2 * ROUNDS + 2 * ROUNDS / 100),
		    "%lld of %llu, by PAPI_read", value, 2 * ROUNDS);
}

int fperf_self_test(int argc, char **argv)
{
	if (argc > 1)
		return cli_usage("fperf", "self-test takes no arguments");
	test_faults();
	test_clocks();
	test_switches();
	test_kernel_counters("counters, as a group", "perf::ALIGNMENT-FAULTS");
	test_kernel_counters("counters, each by itself", "perf::PERF_COUNT_SW_TASK_CLOCK");
	test_instructions();
	test_papi();
	ip_print(stdout, "%u passed, %u failed, %u not there\n", passed, failed, skipped);
	return failed ? 1 : 0;
}
