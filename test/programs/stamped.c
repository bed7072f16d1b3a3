/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls stamped() so many times, now and then after a nap, and prints the time-stamp counter from before and after each call; a timer's handler
 * calls interrupting() meanwhile, whose calls are counted in the last line.
 *
 *   stamped CALLS
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
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

UNWATCHED int main(int argc, char **argv)
{
	const struct itimerval fast = {{0, 500}, {0, 500}}, none = {0};
	long calls = argc > 1 ? atol(argv[1]) : 1000;
	uint64_t(*times)[2] = calloc(calls, sizeof(*times));
	struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &fast, NULL);
	for (long i = 0; i < calls; i++) {
		if (i % 1000 == 999)
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
	return 0;
}
