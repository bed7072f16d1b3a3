/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Busy threads that measure for how long they stand still: neither on a CPU nor waiting for one.
 * They never sleep, so only what stops them makes them switch from a CPU by themselves: where they
 * have not, the machine has taken the CPU away, as a guest's may be.
 *
 *   gaps THREADS
 *
 * Prints "ready". Lines of stdin: "vfork SECONDS" makes one more thread wait in vfork() for so
 * long, and prints "vfork", then "over T" with the time by CLOCK_MONOTONIC in seconds when it goes
 * on; "report" prints what the thread that stood longest has measured since the last report: all
 * together, the longest, and the time in between, in milliseconds. Ends when stdin is closed.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define HIDDEN	    __attribute__((no_instrument_function))
#define THREADS	    16
#define LOOK_NS	    1000000
#define TOGETHER_NS 100000

static struct {
	_Atomic int64_t sum, longest;
} measured[THREADS];
static volatile unsigned ticks;
static double vfork_seconds;

__attribute__((noinline)) static void tick(void)
{
	ticks++;
}

HIDDEN static int64_t now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

HIDDEN static int64_t waited(int fd)
{
	char text[128];
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
	long long delay = 0;

	text[n > 0 ? n : 0] = '\0';
	sscanf(text, "%*s %lld", &delay);
	return delay;
}

HIDDEN static long switches(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_nvcsw;
}

HIDDEN static void *measure(void *argument)
{
	int i = (intptr_t)argument, fd = open("/proc/thread-self/schedstat", O_RDONLY);
	int64_t wall = now(CLOCK_MONOTONIC), used = now(CLOCK_THREAD_CPUTIME_ID) + waited(fd), end,
		end_used, gap;
	long before = switches(), after;

	for (;;) {
		do {
			tick();
			end = now(CLOCK_MONOTONIC);
		} while (end - wall < LOOK_NS);
		do { /* the readings belong together only where nothing came between them */
			end = now(CLOCK_MONOTONIC);
			end_used = now(CLOCK_THREAD_CPUTIME_ID) + waited(fd);
		} while (now(CLOCK_MONOTONIC) - end > TOGETHER_NS);
		after = switches();
		gap = after != before ? (end - wall) - (end_used - used) : 0;
		before = after;
		wall = end;
		used = end_used;
		measured[i].sum += gap;
		if (gap > measured[i].longest)
			measured[i].longest = gap;
	}
	return NULL;
}

HIDDEN static void *wait_in_vfork(void *unused)
{
	struct timespec t = {vfork_seconds, (vfork_seconds - (long)vfork_seconds) * 1e9};

	puts("vfork");
	fflush(stdout);
	if (vfork() == 0) {
		syscall(SYS_nanosleep, &t, NULL);
		syscall(SYS_exit, 0);
	}
	printf("over %.6f\n", now(CLOCK_MONOTONIC) / 1e9);
	fflush(stdout);
	return unused;
}

HIDDEN int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 2;
	int64_t since = now(CLOCK_MONOTONIC);
	pthread_t thread;
	char line[64];

	for (int i = 0; i < n && i < THREADS; i++)
		pthread_create(&thread, NULL, measure, (void *)(intptr_t)i);
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		int64_t sum = 0, longest = 0;

		if (sscanf(line, "vfork %lf", &vfork_seconds) == 1) {
			pthread_create(&thread, NULL, wait_in_vfork, NULL);
			continue;
		}
		for (int i = 0; i < n; i++) {
			int64_t s = atomic_exchange(&measured[i].sum, 0),
				l = atomic_exchange(&measured[i].longest, 0);

			sum = s > sum ? s : sum;
			longest = l > longest ? l : longest;
		}
		printf("%.3f %.3f %.3f\n", sum / 1e6, longest / 1e6,
		       (now(CLOCK_MONOTONIC) - since) / 1e6);
		since = now(CLOCK_MONOTONIC);
		fflush(stdout);
	}
	return 0;
}
