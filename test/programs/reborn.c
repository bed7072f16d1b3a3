/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program that is being traced may execute: it has the runtime itself, and the same
 * functions. Threads call tick() all the time for 0.4 s. Says "intact".
 */
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#define HIDDEN	__attribute__((no_instrument_function))
#define THREADS 2
#define SECONDS 0.4

static volatile unsigned ticks;

__attribute__((noinline)) void tick(void)
{
	ticks++;
}

HIDDEN static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

HIDDEN static void *run(void *arg)
{
	for (double end = now() + SECONDS; now() < end;)
		tick();
	return arg;
}

HIDDEN int main(void)
{
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, run, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	puts("intact");
	return 0;
}
