/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For benchmarks/follow.
 *
 *   follow calls ROUNDS CALLS    calls below root() and outside of it, in turns: a line each, with
 *                                the ns of a call outside, of one below root()
 *   follow ways THREADS ROUNDS   what it takes to change one instruction under running threads:
 *                                lines "NAME NS", the least and the median of the rounds
 */
#define _GNU_SOURCE
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define KEEP  __attribute__((noinline))
#define QUIET __attribute__((no_instrument_function))

QUIET static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_RAW, &t);
	return (uint64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

KEEP void leaf(void)
{
	__asm__ volatile("");
}

QUIET KEEP static double burst(long calls)
{
	const uint64_t begin = now();

	for (long i = 0; i < calls; i++)
		leaf();
	return (double)(now() - begin) / calls;
}

KEEP double root(long calls)
{
	const double ns = burst(calls);

	__asm__ volatile("");
	return ns;
}

static volatile int stop;

QUIET static void *work(void *ignored)
{
	while (!stop)
		for (volatile int i = 0; i < 1000; i++)
			;
	return ignored;
}

QUIET static int compare(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

QUIET static void tell(const char *name, double *ns, int rounds)
{
	qsort(ns, rounds, sizeof(*ns), compare);
	printf("%s %.0f %.0f %.0f\n", name, ns[0], ns[rounds / 2], ns[rounds * 99 / 100]);
}

/* A thread asks, another one answers, by words that both look at. */
static volatile uint64_t asked, answered;
static long nap_ns;

QUIET static void *answer(void *ignored)
{
	while (!stop) {
		if (asked != answered)
			answered = asked;
		else if (nap_ns)
			nanosleep(&(struct timespec){.tv_nsec = nap_ns}, NULL);
	}
	return ignored;
}

QUIET static void ask(const char *name, long nap, double *ns, int rounds)
{
	pthread_t thread;

	nap_ns = nap;
	stop = 0;
	if (pthread_create(&thread, NULL, answer, NULL))
		exit(1);
	for (int i = 0; i < rounds; i++) {
		uint64_t begin;

		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
		begin = now();
		asked = asked + 1;
		while (answered != asked)
			__asm__ volatile("pause");
		ns[i] = now() - begin;
	}
	stop = 1;
	pthread_join(thread, NULL);
	tell(name, ns, rounds);
}

QUIET static int ways(int nthreads, int rounds)
{
	double *ns = calloc(rounds, sizeof(*ns));
	pthread_t threads[64];
	const int fd = memfd_create("alias", MFD_CLOEXEC);
	uint8_t *text, *alias;

	if (!ns || nthreads > 64 || fd < 0 || ftruncate(fd, 4096) < 0)
		return 1;
	text = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
	alias = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (text == MAP_FAILED || alias == MAP_FAILED ||
	    syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0) < 0)
		return 1;
	for (int i = 0; i < nthreads; i++)
		if (pthread_create(&threads[i], NULL, work, NULL))
			return 1;
	for (int i = 0; i < rounds; i++) {
		const uint64_t begin = now();

		syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0);
		ns[i] = now() - begin;
	}
	tell("barrier", ns, rounds);
	/* the order of the manuals: int3, the tail, the first byte, a barrier behind each */
	for (int i = 0; i < rounds; i++) {
		const uint64_t begin = now();

		*(volatile uint8_t *)alias = 0xcc;
		syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0);
		memset(alias + 1, i, 4);
		syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0);
		*(volatile uint8_t *)alias = 0xe8;
		syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0);
		ns[i] = now() - begin;
	}
	tell("site", ns, rounds);
	stop = 1;
	for (int i = 0; i < nthreads; i++)
		pthread_join(threads[i], NULL);
	if (rounds > 500)
		rounds = 500;
	ask("asked-spinning", 0, ns, rounds);
	ask("asked-napping", 50000, ns, rounds);
	free(ns);
	return 0;
}

QUIET int main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "ways"))
		return ways(atoi(argv[2]), atoi(argv[3]));
	if (argc != 4)
		return 2;
	for (int i = 0; i < atoi(argv[2]); i++) {
		const double outside = burst(atol(argv[3])), below = root(atol(argv[3]));

		printf("%.3f %.3f\n", outside, below);
		nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
	}
	return 0;
}
