/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The target of benchmarks/stop: threads that call generated functions (stop_functions.s) and sleep
 * in turns, and one that does nothing but look at the clock: the largest gap that it sees is how
 * long the process stood still for it.
 *
 *   target THREADS SHARED [calls]: prints "ready". SHARED: file of two 64-bit words, the largest
 *   gap (in ticks of the TSC) and whether to look. calls: between two looks it calls a function,
 *   one after the other, and so executes all sites.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <x86intrin.h>

#define UNWATCHED __attribute__((no_instrument_function))
#define BUSY	  4 /* threads that wake up all the time; the others do now and then */

extern char functions[]; /* COUNT of them, STRIDE bytes each */
volatile unsigned sink;

static volatile uint64_t *shared;

UNWATCHED static void *work(void *arg)
{
	unsigned number = (unsigned)(size_t)arg, i = number * 977;

	for (;;) {
		for (int n = 0; n < 64; n++)
			((void (*)(void))(functions + (size_t)STRIDE * (i++ % COUNT)))();
		usleep(number < BUSY ? 200 : 20000);
	}
	return NULL;
}

UNWATCHED static void look(int calls)
{
	uint64_t last = __rdtsc();
	unsigned i = 0;

	while (shared[1]) {
		uint64_t now;

		if (calls)
			((void (*)(void))(functions + (size_t)STRIDE * (i++ % COUNT)))();
		now = __rdtsc();
		if (now - last > shared[0])
			shared[0] = now - last;
		last = now;
		/* the kernel takes 50 ms from whoever runs at real time for a whole second */
		if (calls && i % 4096 == 0) {
			usleep(100);
			last = __rdtsc();
		}
	}
}

UNWATCHED int main(int argc, char **argv)
{
	const struct sched_param rt = {.sched_priority = 1};
	int fd = argc > 2 ? open(argv[2], O_RDWR) : -1;
	pthread_t thread;

	shared = fd < 0 ? MAP_FAILED : mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (shared == MAP_FAILED)
		return 2;
	for (int i = 1; i < atoi(argv[1]); i++)
		pthread_create(&thread, NULL, work, (void *)(size_t)i);
	/* only a thread that nobody else keeps from running sees what iprobe does, and nothing
	 * else */
	sched_setscheduler(0, SCHED_FIFO, &rt);
	puts("ready");
	fflush(stdout);
	for (;;) {
		look(argc > 3);
		usleep(500);
	}
}
