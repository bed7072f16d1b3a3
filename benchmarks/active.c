/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program that benchmarks/active times: what one call of an empty function costs with its entry
 * and exit recorded (live), with its probes idle (idle), and what two bare readings of the
 * time-stamp counter cost.
 *
 *   active ROUNDS CALLS PAUSE_US THREADS
 *
 * Each round times CALLS of each kind, one kind after the other, in each thread; at the end there
 * are three numbers for each: nanoseconds per call. Between rounds it pauses, so that the collector
 * drains what a round has left in the rings.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
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

static long rounds = 10, calls = 100000, pause_us = 1000, nthreads = 1;
static pthread_barrier_t together;

/* One on each CPU; all are at the same kind of call at the same time. */
struct worker {
	pthread_t thread;
	long index;
	double (*ns)[3]; /* per round: of a call of live(), of idle(), of two readings */
};

UNWATCHED static void *work(void *data)
{
	struct worker *w = data;
	cpu_set_t cpu;
	double times[4];

	CPU_ZERO(&cpu);
	CPU_SET(w->index, &cpu);
	/* where it fails, they share what there is */
	if (nthreads > 1)
		sched_setaffinity(0, sizeof(cpu), &cpu);
	for (long round = 0; round < rounds; round++) {
		usleep(pause_us);
		pthread_barrier_wait(&together);
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
		for (int k = 0; k < 3; k++)
			w->ns[round][k] = (times[k + 1] - times[k]) / calls;
	}
	return NULL;
}

UNWATCHED int main(int argc, char **argv)
{
	long *const numbers[] = {&rounds, &calls, &pause_us, &nthreads};
	struct worker *workers;

	for (int i = 1; i < argc && i <= 4; i++)
		*numbers[i - 1] = atol(argv[i]);
	workers = calloc(nthreads, sizeof(*workers));
	pthread_barrier_init(&together, NULL, nthreads);
	for (long i = 0; i < nthreads; i++) {
		workers[i].index = i;
		workers[i].ns = calloc(rounds, sizeof(*workers[i].ns));
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i])) {
			perror("pthread_create");
			return 1;
		}
	}
	for (long i = 0; i < nthreads; i++)
		pthread_join(workers[i].thread, NULL);
	for (long i = 0; i < nthreads; i++)
		for (long round = 0; round < rounds; round++)
			printf("%.3f %.3f %.3f\n", workers[i].ns[round][0], workers[i].ns[round][1],
			       workers[i].ns[round][2]);
	return 0;
}
