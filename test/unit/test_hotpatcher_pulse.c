/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clock of coarse time, killed and gone on with: however short its life was, what it says of itself covers the time without it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/rt_abi.h"
#include "common/trace_format.h"
#include "hotpatcher/area.h"
#include "hotpatcher/clock.h"
#include "hotpatcher/pulse.h"
#include "test.h"

#define GAP_NS 100000000

static void nap(long ns)
{
	const struct timespec t = {.tv_nsec = ns};

	nanosleep(&t, NULL);
}

/* The first stamp of a clock that lives so long, in a process that is killed then. */
static uint64_t live(struct ip_area *area, const char *dir, long ns)
{
	pid_t child = fork();
	int status;

	assert_true(child >= 0);
	if (!child) {
		struct ip_pulse *pulse;
		int done = ip_pulse_start(area, dir, &pulse);

		area->clock->reserved[0] = area->clock->now;
		if (ns)
			nap(ns);
		_exit(done < 0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	return area->clock->reserved[0];
}

static void go_on_after(long ns)
{
	char dir[] = "/tmp/iprobe-pulse-XXXXXX", name[64];
	struct ip_area *area = calloc(1, sizeof(*area));
	char *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct ip_pulse_stats stats;
	struct ip_pulse *pulse;
	uint64_t begin, first, last, killed, gone_on, from, to, width, widest = 0;
	FILE *in;

	assert_non_null(area);
	assert_true(shared != MAP_FAILED);
	area->header = (struct ip_area_header *)shared;
	area->clock = (struct ip_area_clock *)(shared + IP_AREA_CLOCK_OFFSET);
	assert_non_null(mkdtemp(dir));
	snprintf(name, sizeof(name), "%s/iprobe", dir);
	assert_int_equal(mkdir(name, 0700), 0);
	begin = ip_clock_now();
	first = live(area, dir, ns);
	killed = ip_clock_now();
	last = area->clock->now;
	assert_in_range(first, begin, last);
	nap(GAP_NS);
	gone_on = ip_clock_now();
	assert_int_equal(ip_pulse_start(area, dir, &pulse), 0);
	ip_pulse_stop(pulse, &stats);

	snprintf(name, sizeof(name), "%s/" IP_TRACE_STAMPS, dir);
	in = fopen(name, "r");
	assert_non_null(in);
	while (fscanf(in, "%lu %lu %lu", &from, &to, &width) == 3) {
		widest = width > widest ? width : widest;
		/* whoever took the last stamp may have done so until it went on */
		if (from <= last && last <= to)
			assert_true(last + width >= gone_on);
	}
	fclose(in);
	assert_true(widest >= gone_on - killed);
	assert_int_equal(stats.latest, widest);
	unlink(name);
	snprintf(name, sizeof(name), "%s/iprobe", dir);
	rmdir(name);
	rmdir(dir);
	munmap(shared, 4096);
	free(area);
}

static void test_killed_at_once(void **state)
{
	(void)state;
	go_on_after(0);
}

static void test_killed_later(void **state)
{
	(void)state;
	go_on_after(20000000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_killed_at_once),
		cmocka_unit_test(test_killed_later),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
