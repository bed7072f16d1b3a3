/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls stamped() so many times, now and then after a nap, and prints the time-stamp counter from
 * before and after each call; a timer's handler calls interrupting() meanwhile, whose calls are
 * counted in the last line.
 *
 *   stamped [-w] [-s SECONDS] CALLS
 *
 * -s: the calls are spread over so long. -w: waits for a line on stdin before the work and again
 * after it.
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#define UNWATCHED __attribute__((no_instrument_function))

static volatile unsigned long interruptions;

__attribute__((noinline)) void stamped(void)
{
	__asm__ volatile("");
}

__attribute__((noinline)) void interrupting(void)
{
	interruptions++;
}

UNWATCHED static void on_alarm(int number)
{
	(void)number;
	interrupting();
}

UNWATCHED static void wait_for_line(void)
{
	int c;

	while ((c = getchar()) != '\n' && c != EOF)
		;
}

UNWATCHED static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

UNWATCHED int main(int argc, char **argv)
{
	const struct itimerval fast = {{0, 500}, {0, 500}}, none = {0};
	struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
	double seconds = 0, start;
	uint64_t(*times)[2];
	long calls = 1000;
	int option, waits = 0;

	while ((option = getopt(argc, argv, "ws:")) != -1) {
		if (option == 'w')
			waits = 1;
		else if (option == 's')
			seconds = strtod(optarg, NULL);
		else
			return 2;
	}
	if (optind < argc)
		calls = atol(argv[optind]);
	times = calloc(calls, sizeof(*times));
	if (!times)
		return 3;
	if (waits) {
		puts("ready");
		fflush(stdout);
		wait_for_line();
	}
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &fast, NULL);
	start = now();
	for (long i = 0; i < calls; i++) {
		if (i % 1000 == 999)
			usleep(300);
		while (i % 100 == 99 && now() - start < seconds * i / calls)
			usleep(300);
		times[i][0] = __rdtsc();
		_mm_lfence();
		stamped();
		_mm_lfence();
		times[i][1] = __rdtsc();
	}
	setitimer(ITIMER_REAL, &none, NULL);
	for (long i = 0; i < calls; i++)
		printf("%lu %lu\n", times[i][0], times[i][1]);
	printf("%lu\n", interruptions);
	fflush(stdout);
	if (waits)
		wait_for_line();
	return 0;
}
