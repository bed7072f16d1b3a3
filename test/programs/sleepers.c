/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that wait in epoll_wait(), each having fallen asleep on a CPU of its own.
 *
 *   sleepers SECONDS
 *
 * Prints "ready" once all sleep; then, as each ends, a line: its CPU, what epoll_wait() returned,
 * errno, and its time in milliseconds. Ends when stdin is closed.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#define HIDDEN __attribute__((no_instrument_function))

static double seconds = 2;
static cpu_set_t allowed;
static volatile unsigned ticks;

__attribute__((noinline)) static void tick(void)
{
	ticks++;
}

HIDDEN static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

/* Comes to the CPU, and is not bound to it when it sleeps. */
HIDDEN static void *sleep_on(void *argument)
{
	struct epoll_event event;
	int cpu = (intptr_t)argument, fd = epoll_create1(0), got, error;
	cpu_set_t one;
	double began;

	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	sched_setaffinity(0, sizeof(one), &one);
	sched_setaffinity(0, sizeof(allowed), &allowed);
	errno = 0;
	began = now();
	got = epoll_wait(fd, &event, 1, seconds * 1e3);
	error = errno;
	printf("%d %d %d %.1f\n", cpu, got, error, (now() - began) * 1e3);
	fflush(stdout);
	return NULL;
}

HIDDEN int main(int argc, char **argv)
{
	pthread_t thread;
	char byte;

	if (argc > 1)
		seconds = atof(argv[1]);
	sched_getaffinity(0, sizeof(allowed), &allowed);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &allowed))
			pthread_create(&thread, NULL, sleep_on, (void *)(intptr_t)cpu);
	usleep(200000);
	tick();
	puts("ready");
	fflush(stdout);
	while (read(0, &byte, 1) > 0)
		;
	return 0;
}
