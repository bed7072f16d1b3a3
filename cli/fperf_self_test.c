/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fperf self-test: whether counters count on this machine, by work of which is known what it takes.
 */
#include <linux/perf_event.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/fperf.h"
#include "common/cleanup.h"
#include "hotpatcher/clock.h"

#define PAGES	1000u
#define SLEEPS	20u
#define SPIN_NS 200000000ull
#define ROUNDS	1000000ull

static unsigned passed, failed, skipped;

static __attribute__((format(printf, 3, 4))) void say(const char *what, int ok, const char *format, ...)
{
	va_list args;

	printf("%-28s %-4s ", what, ok ? "ok" : "BAD");
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
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
	volatile char *memory =
		mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
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
	/* one more: a page of this stack, or of the C library */
	say("perf::PAGE-FAULTS", faults >= PAGES && faults <= PAGES + 2, "%ld of %u pages touched", faults,
	    PAGES);
}

static void test_clocks(void)
{
	struct ip_clock_reading from, to;
	uint64_t cpu = clock_of(CLOCK_THREAD_CPUTIME_ID), wall = clock_of(CLOCK_MONOTONIC), hz;
	const char *why;

	ip_clock_read(&from);
	while (clock_of(CLOCK_MONOTONIC) - wall < SPIN_NS)
		;
	cpu = clock_of(CLOCK_THREAD_CPUTIME_ID) - cpu;
	wall = clock_of(CLOCK_MONOTONIC) - wall;
	/* others may have had the CPU: then it is less, but never more */
	say("perf::TASK-CLOCK", cpu > wall / 50 && cpu <= wall + wall / 20, "%.1f ms of %.1f ms that passed",
	    cpu / 1e6, wall / 1e6);
	ip_clock_read(&to);
	hz = ip_clock_hz(&from, &to, SPIN_NS);
	say("tsc::CYCLES", ip_clock_trustworthy(&why) && hz > 100000000, "%.1f MHz", hz / 1e6);
}

static void test_switches(void)
{
	const struct timespec nap = {.tv_nsec = 1000000};
	struct rusage before, behind;

	getrusage(RUSAGE_THREAD, &before);
	for (unsigned i = 0; i < SLEEPS; i++)
		nanosleep(&nap, NULL);
	getrusage(RUSAGE_THREAD, &behind);
	say("perf::CONTEXT-SWITCHES", behind.ru_nvcsw - before.ru_nvcsw == SLEEPS, "%ld of %u sleeps",
	    behind.ru_nvcsw - before.ru_nvcsw, SLEEPS);
}

/* Two instructions a round. */
static void known_loop(uint64_t rounds)
{
	__asm__ volatile("1: dec %0\n\tjnz 1b" : "+r"(rounds) : : "cc");
}

static void test_instructions(void)
{
	struct perf_event_attr attr = {.size = sizeof(attr),
				       .type = PERF_TYPE_HARDWARE,
				       .config = PERF_COUNT_HW_INSTRUCTIONS,
				       .disabled = 1,
				       .exclude_kernel = 1,
				       .exclude_hv = 1};
	_cleanup_close_ int fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	uint64_t n = 0;

	if (fd < 0) {
		printf("%-28s %-4s %s\n", "instructions (PMU)", "-", ip_fperf_why_no_pmu());
		skipped++;
		return;
	}
	ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
	known_loop(ROUNDS);
	ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
	if (read(fd, &n, sizeof(n)) != sizeof(n))
		n = 0;
	say("instructions (PMU)", n >= 2 * ROUNDS && n < 2 * ROUNDS + 2 * ROUNDS / 100,
	    "%lu of %llu, and some for the calls around", n, 2 * ROUNDS);
}

int fperf_self_test(int argc, char **argv)
{
	if (argc > 1)
		return cli_usage("fperf", "self-test takes no arguments");
	test_faults();
	test_clocks();
	test_switches();
	test_instructions();
	printf("%u passed, %u failed, %u not there\n", passed, failed, skipped);
	return failed ? 1 : 0;
}
