/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program that benchmarks/active times: what one call of an empty function costs with its entry and exit
 * recorded (live), with its probes idle (idle), and what two bare readings of the time-stamp counter cost.
 *
 *   active ROUNDS CALLS PAUSE_US
 *
 * Each round times CALLS of each kind, one kind after the other, and prints three numbers: nanoseconds per call. Between
 * rounds it pauses, so that the collector drains what a round has left in the rings.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#define UNWATCHED __attribute__((no_instrument_function))

__attribute__((noinline)) void live(void)
{
	__asm__ volatile("");
}

__attribute__((noinline)) void idle(void)
{
	__asm__ volatile("");
}

UNWATCHED static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

UNWATCHED static void two_readings(void)
{
	__asm__ volatile("" : : "r"(__rdtsc()));
	__asm__ volatile("" : : "r"(__rdtsc()));
}

UNWATCHED int main(int argc, char **argv)
{
	long rounds = argc > 1 ? atol(argv[1]) : 10;
	long calls = argc > 2 ? atol(argv[2]) : 100000;
	long pause = argc > 3 ? atol(argv[3]) : 1000;
	double times[4];

	for (long round = 0; round < rounds; round++) {
		usleep(pause);
		times[0] = now_ns();
		for (long i = 0; i < calls; i++)
			live();
		times[1] = now_ns();
		for (long i = 0; i < calls; i++)
			idle();
		times[2] = now_ns();
		for (long i = 0; i < calls; i++)
			two_readings();
		times[3] = now_ns();
		printf("%.3f %.3f %.3f\n", (times[1] - times[0]) / calls, (times[2] - times[1]) / calls,
		       (times[3] - times[2]) / calls);
	}
	return 0;
}
