/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clock of coarse time, killed and gone on with: however short its life was, what it says of
 * itself covers the time without it. And what it has noted of former times is put together, while
 * it runs: then there is less of it, and it is as true.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "collector/coarse_clock.h"
#include "common/abi/area.h"
#include "common/clock.h"
#include "common/trace/trace_format.h"
#include "hotpatcher/shm/area.h"
#include "test/unit/test.h"

#define GAP_NS 100000000
#define RUNS   1000

static void nap(long ns)
{
	const struct timespec t = {.tv_nsec = ns};

	nanosleep(&t, NULL);
}

/* The first stamp of a clock that lives so long, in a process that is killed then. */
static uint64_t live(struct ip_area *area, int dir, long ns)
{
	pid_t child = fork();
	int status;

	assert_true(child >= 0);
	if (!child) {
		struct ip_coarse_clock *coarse_clock;
		int done = ip_coarse_clock_start(area, dir, &coarse_clock);

		area->clock->reserved[0] = area->clock->now;
		if (ns)
			nap(ns);
		_exit(done < 0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	return area->clock->reserved[0];
}

/* What a clock needs. */
struct place {
	char dir[64], stamps[96];
	int dirfd;
	struct ip_area *area;
	char *shared;
};

static void make(struct place *p)
{
	char name[96];

	p->area = calloc(1, sizeof(*p->area));
	p->shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_non_null(p->area);
	assert_true(p->shared != MAP_FAILED);
	p->area->header = (struct ip_area_header *)p->shared;
	p->area->clock = (struct ip_area_clock *)(p->shared + IP_AREA_CLOCK_OFFSET);
	strcpy(p->dir, "/tmp/iprobe-pulse-XXXXXX");
	assert_non_null(mkdtemp(p->dir));
	p->dirfd = open(p->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(p->dirfd >= 0);
	snprintf(name, sizeof(name), "%s/iprobe", p->dir);
	assert_int_equal(mkdir(name, 0700), 0);
	snprintf(p->stamps, sizeof(p->stamps), "%s/" IP_TRACE_STAMPS, p->dir);
}

/* Nothing but the notes may be left. */
static void unmake(struct place *p)
{
	char name[96];

	unlink(p->stamps);
	snprintf(name, sizeof(name), "%s/iprobe", p->dir);
	assert_int_equal(rmdir(name), 0);
	rmdir(p->dir);
	close(p->dirfd);
	munmap(p->shared, 4096);
	free(p->area);
}

static void go_on_after(long ns)
{
	struct place place;
	struct ip_area *area;
	int dir;
	struct ip_coarse_clock_stats stats;
	struct ip_coarse_clock *coarse_clock;
	uint64_t begin, first, last, killed, gone_on, from, to, width, widest = 0;
	FILE *in;

	make(&place);
	area = place.area;
	dir = place.dirfd;
	begin = ip_clock_now();
	first = live(area, dir, ns);
	killed = ip_clock_now();
	last = area->clock->now;
	assert_in_range(first, begin, last);
	nap(GAP_NS);
	gone_on = ip_clock_now();
	assert_int_equal(ip_coarse_clock_start(area, dir, &coarse_clock), 0);
	ip_coarse_clock_stop(coarse_clock, &stats);

	in = fopen(place.stamps, "r");
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
	unmake(&place);
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

struct run {
	uint64_t from, to, width;
};

/* Up to n of them, but for one that is being written; how many there are. */
static size_t read_runs(const struct place *p, struct run *ret, size_t n)
{
	FILE *in = fopen(p->stamps, "r");
	char line[80];
	size_t i = 0;

	assert_non_null(in);
	while (i < n && fgets(line, sizeof(line), in) && strchr(line, '\n') &&
	       sscanf(line, "%lu %lu %lu", &ret[i].from, &ret[i].to, &ret[i].width) == 3)
		i++;
	fclose(in);
	return i;
}

/* Each stamp lies in one, and the true time of each event before the next stamp. */
static void check_runs(const struct run *runs, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		assert_true(runs[i].from <= runs[i].to && runs[i].width);
		if (i + 1 < n)
			assert_true(runs[i].to < runs[i + 1].from &&
				    runs[i + 1].from <= runs[i].to + runs[i].width);
	}
}

static void test_condensed(void **state)
{
	static struct run before[RUNS], after[4 * RUNS];
	const size_t half = RUNS / 2;
	struct ip_coarse_clock_stats stats;
	struct ip_coarse_clock *coarse_clock;
	struct place place;
	uint64_t end;
	size_t n;
	FILE *out;

	(void)state;
	make(&place);
	out = fopen(place.stamps, "w");
	assert_non_null(out);
	for (size_t i = 0; i < RUNS; i++) {
		const uint64_t from = i ? before[i - 1].to + 100 : ip_clock_now() - 100000000;

		before[i] = (struct run){from, from + 900, i == 123 ? 5000 : 100 + i % 7};
		fprintf(out, "%lu %lu %lu\n", before[i].from, before[i].to, before[i].width);
	}
	fclose(out);
	place.area->clock->now = before[RUNS - 1].to;
	assert_int_equal(ip_coarse_clock_start(place.area, place.dirfd, &coarse_clock), 0);
	ip_coarse_clock_condense(coarse_clock, before[half].to);
	n = read_runs(&place, after, N_ELEMENTS(after));
	assert_in_range(n, 1 + half, N_ELEMENTS(after) - 1);
	check_runs(after, n);
	assert_int_equal(after[0].from, before[0].from);
	assert_int_equal(after[0].to, before[half - 1].to);
	assert_int_equal(after[0].width, 5000);
	assert_memory_equal(&after[1], &before[half], half * sizeof(*before));
	/* while it goes on */
	for (int i = 0; i < 40; i++) {
		nap(500000);
		ip_coarse_clock_condense(coarse_clock, ip_clock_now() - 1000000);
		check_runs(after, read_runs(&place, after, N_ELEMENTS(after)));
	}
	end = ip_clock_now();
	ip_coarse_clock_condense(coarse_clock, end);
	ip_coarse_clock_stop(coarse_clock, &stats);
	n = read_runs(&place, after, N_ELEMENTS(after));
	check_runs(after, n);
	assert_int_equal(after[0].from, before[0].from);
	assert_true(after[0].to > before[RUNS - 1].to &&
		    after[n - 1].to + after[n - 1].width >= end);
	assert_true(stats.latest >= 5000 && stats.latest >= after[0].width);
	assert_in_range(n, 1, 100);
	unmake(&place);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_killed_at_once),
		cmocka_unit_test(test_killed_later),
		cmocka_unit_test(test_condensed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
