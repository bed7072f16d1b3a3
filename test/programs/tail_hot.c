/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A function that is called now and then and ends by jumping to one that is called all the time (at
 * -O2), and one more that does so through another. Too hot to have probes always: for fperf, which
 * then has to let them in together.
 *
 * tail_hot SECONDS THREADS: says "ready", and prints "NAME CALLS NANOSECONDS" of rare and of over
 * in the end, by the CPU time that it has seen itself. Each call of one of them does the same work.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define KEEP	     __attribute__((noinline, noclone))
#define HOT_PER_RARE 4000
#define MAX_THREADS  16

static long end;
static __thread volatile int sink;

struct figures {
	long calls, ns;
};

struct thread {
	pthread_t id;
	struct figures rare, over;
};

static long now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000l + t.tv_nsec;
}

/* What each step takes does not depend on what other threads of the core do, nor on what was done
 * before. */
KEEP int hot(int work)
{
	unsigned x = work;

	for (int i = 0; i < work; i++)
		x = x * 1103515245u + 12345u;
	return sink = x;
}

KEEP int rare(int work)
{
	return hot(work + 1);
}

KEEP int between(int work, int more)
{
	sink = more;
	return hot(work + more);
}

KEEP int over(int work)
{
	return between(work, work & 1);
}

static void timed(struct figures *f, int (*function)(int), int work)
{
	long begin = now(CLOCK_THREAD_CPUTIME_ID);

	sink = function(work);
	f->ns += now(CLOCK_THREAD_CPUTIME_ID) - begin;
	f->calls++;
}

static void *run(void *arg)
{
	struct thread *t = arg;

	while (now(CLOCK_MONOTONIC) < end) {
		timed(&t->rare, rare, 50000);
		for (int i = 0; i < HOT_PER_RARE / 2; i++)
			hot(0);
		timed(&t->over, over, 80000);
		for (int i = 0; i < HOT_PER_RARE / 2; i++)
			hot(0);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	static struct thread threads[MAX_THREADS];
	struct thread all = {0};
	int n = argc > 2 ? atoi(argv[2]) : 1;

	end = now(CLOCK_MONOTONIC) + (argc > 1 ? atol(argv[1]) : 1) * 1000000000l;
	n = n < MAX_THREADS ? n : MAX_THREADS;
	for (int i = 0; i < n; i++)
		pthread_create(&threads[i].id, NULL, run, &threads[i]);
	puts("ready");
	fflush(stdout);
	for (int i = 0; i < n; i++) {
		pthread_join(threads[i].id, NULL);
		all.rare.calls += threads[i].rare.calls;
		all.rare.ns += threads[i].rare.ns;
		all.over.calls += threads[i].over.calls;
		all.over.ns += threads[i].over.ns;
	}
	printf("rare %ld %ld\nover %ld %ld\n", all.rare.calls, all.rare.ns, all.over.calls,
	       all.over.ns);
	return 0;
}
