/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that note each of their calls in a shared file before they make it, so that the file
 * tells what they did when all has been killed.
 *
 *   last_calls FILE [THREADS [GAP_US]]
 *
 * FILE has a struct note for each thread: how many calls of step() it has begun and ended, and the
 * times (TSC) of the newest KEPT of them, by their number modulo KEPT. Each thread calls step()
 * until it is killed, without a pause or with one of up to GAP_US between two calls; with GAP_US it
 * stands in hang() every now and then, for some milliseconds. Prints "ready".
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <x86intrin.h>

#define KEPT	1048576u
#define THREADS 8

#ifdef __clang__
#define PROBED __attribute__((noinline))
#else
#define PROBED __attribute__((noinline, noipa))
#endif

struct note {
	uint64_t tid;
	uint64_t begun; /* calls of step() that were begun, or were about to */
	uint64_t ended; /* the same of those that have ended */
	uint64_t hangs; /* 1: the thread is in hang(), or about to be */
	uint64_t times[KEPT];
};

static struct note *notes;
static unsigned gap;
static volatile long sink;

PROBED void step(void)
{
	sink++;
}

PROBED void hang(unsigned us)
{
	usleep(us);
	sink++; /* no tail call: it is open while it sleeps */
}

PROBED void work(struct note *n)
{
	unsigned seed = n->tid;

	for (;;) {
		const uint64_t i = n->begun;

		__atomic_store_n(&n->times[i % KEPT], __rdtsc(), __ATOMIC_RELAXED);
		__atomic_store_n(&n->begun, i + 1, __ATOMIC_RELEASE);
		step();
		__atomic_store_n(&n->ended, i + 1, __ATOMIC_RELEASE);
		if (!gap)
			continue;
		usleep(rand_r(&seed) % gap);
		if (rand_r(&seed) % 16)
			continue;
		__atomic_store_n(&n->hangs, 1, __ATOMIC_RELEASE);
		hang(rand_r(&seed) % 20000);
		__atomic_store_n(&n->hangs, 0, __ATOMIC_RELEASE);
	}
}

static void *run(void *data)
{
	struct note *n = data;
	char name[16];

	n->tid = syscall(SYS_gettid);
	snprintf(name, sizeof(name), "worker-%d", (int)(n - notes));
	prctl(PR_SET_NAME, name);
	work(n);
	return NULL;
}

int main(int argc, char **argv)
{
	const int threads = argc > 2 ? atoi(argv[2]) : 1;
	const int fd = argc > 1 ? open(argv[1], O_RDWR | O_CREAT, 0666) : -1;
	pthread_t thread;

	gap = argc > 3 ? atoi(argv[3]) : 0;
	if (fd < 0 || threads < 1 || threads > THREADS ||
	    ftruncate(fd, threads * sizeof(*notes)) < 0)
		return 2;
	notes = mmap(NULL, threads * sizeof(*notes), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (notes == MAP_FAILED)
		return 2;
	for (int i = 0; i < threads; i++)
		if (pthread_create(&thread, NULL, run, &notes[i]))
			return 2;
	puts("ready");
	fflush(stdout);
	for (;;)
		pause();
}
