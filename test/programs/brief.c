/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that take next to nothing, of which the program knows how long they take: what counting
 * them adds shows.
 *
 *   brief [-n CALLS] [-s MICROSECONDS]
 *
 * nothing() is empty; link_N() is a chain of N multiplications, each of which waits for the one
 * before; twice() calls link_50() two times. All of them are called CALLS times, in turns, once a
 * line is read from stdin; "done" is printed, and another line is waited for. -s: after a sleep of
 * as long. Before that and after it, while nobody counts, each is timed in the same way by the
 * clock itself: "function NAME TICKS" is what a call took, on average of the middle half of all
 * calls of either time, less what two readings of the clock take; "ticks N" is how many there are
 * in a thousand nanoseconds.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#define QUIET __attribute__((no_instrument_function))
#define KEEP  __attribute__((noinline))

#define TIMED 2000 /* calls, at either time */
#define SLEPT 300

static volatile uint64_t seed = 3;
static unsigned sleeps_us;

KEEP void nothing(uint64_t x)
{
	__asm__ volatile("" : : "r"(x));
}

QUIET static inline __attribute__((always_inline)) void chain(uint64_t x, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		x *= x;
		__asm__ volatile("" : "+r"(x));
	}
	seed = x | 1;
}

#define LINK(n)                                                                                    \
	KEEP void link_##n(uint64_t x)                                                             \
	{                                                                                          \
		chain(x, n);                                                                       \
	}
LINK(50)
LINK(200)
LINK(1000)
LINK(5000)

KEEP void twice(uint64_t x)
{
	link_50(x);
	link_50(x + 1);
	__asm__ volatile("");
}

static const struct {
	const char *name;
	void (*call)(uint64_t);
} functions[] = {{"nothing", nothing},	   {"link_50", link_50},     {"link_200", link_200},
		 {"link_1000", link_1000}, {"link_5000", link_5000}, {"twice", twice}};
#define FUNCTIONS (sizeof(functions) / sizeof(*functions))

static uint64_t times[FUNCTIONS][2 * TIMED];
static unsigned ntimes;

QUIET static void pause_a_little(void)
{
	struct timespec t = {0, sleeps_us * 1000l};

	if (sleeps_us)
		nanosleep(&t, NULL);
}

/* A chain of its own keeps what a reading overlaps from depending on what came before. */
QUIET static uint64_t clock_behind_all(void)
{
	unsigned cpu;
	uint64_t now;

	_mm_lfence();
	now = __rdtscp(&cpu);
	_mm_lfence();
	return now;
}

QUIET static void time_all(void)
{
	unsigned n = sleeps_us ? SLEPT : TIMED;

	for (unsigned i = 0; i < n; i++, ntimes++)
		for (unsigned f = 0; f < FUNCTIONS; f++) {
			uint64_t from, to, end;

			pause_a_little();
			clock_behind_all();
			from = clock_behind_all();
			functions[f].call(seed);
			to = clock_behind_all();
			end = clock_behind_all();
			times[f][ntimes] = to - from > end - to ? (to - from) - (end - to) : 0;
		}
}

QUIET static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

QUIET static double middle(uint64_t *all)
{
	double sum = 0;
	unsigned from = ntimes / 4, to = ntimes - from;

	qsort(all, ntimes, sizeof(*all), by_size);
	for (unsigned i = from; i < to; i++)
		sum += all[i];
	return sum / (to - from);
}

QUIET static void wait_for_a_line(void)
{
	char line[64];

	if (!fgets(line, sizeof(line), stdin))
		exit(1);
}

QUIET int main(int argc, char **argv)
{
	struct timespec from, to;
	uint64_t begin;
	unsigned calls = 2000;
	int option;

	while ((option = getopt(argc, argv, "n:s:")) != -1) {
		if (option == 'n')
			calls = strtoul(optarg, NULL, 10);
		else if (option == 's')
			sleeps_us = strtoul(optarg, NULL, 10);
		else
			return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	clock_gettime(CLOCK_MONOTONIC, &from);
	begin = clock_behind_all();
	time_all();
	puts("ready");
	wait_for_a_line();
	for (unsigned i = 0; i < calls; i++)
		for (unsigned f = 0; f < FUNCTIONS; f++) {
			pause_a_little();
			functions[f].call(seed);
		}
	puts("done");
	wait_for_a_line();
	time_all();
	clock_gettime(CLOCK_MONOTONIC, &to);
	printf("ticks %.3f\n",
	       (clock_behind_all() - begin) * 1e3 /
		       ((to.tv_sec - from.tv_sec) * 1e9 + to.tv_nsec - from.tv_nsec));
	for (unsigned f = 0; f < FUNCTIONS; f++)
		printf("function %s %.1f\n", functions[f].name, middle(times[f]));
	return 0;
}
