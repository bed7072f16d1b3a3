/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts its own instrumented calls, so that a trace can be held against the truth.
 *
 *   count [-t THREADS] [-n CALLS] [-r RATE -s SECONDS] [-w] [-b]
 *
 * Each of THREADS threads makes at least CALLS calls; or, with -r, all of them together make RATE
 * calls a second for SECONDS, or until SIGUSR1. -w waits for a line on stdin before the work and
 * again after it. With -b no thread ends before all have made their calls: none gets what another
 * one has left. Prints "function NAME CALLS" for each function and "calls TOTAL". Everything that
 * is not counted is not instrumented.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define QUIET __attribute__((no_instrument_function))
#define KEEP  __attribute__((noinline))

enum { LEAF, TINY, MIX, HALF, CHAIN_INNER, CHAIN_MIDDLE, CHAIN_OUTER, COUNT_DOWN, NFUNCTIONS };

static const char *const names[NFUNCTIONS] = {
	"leaf", "tiny", "mix", "half", "chain_inner", "chain_middle", "chain_outer", "count_down"};

static __thread uint64_t calls[NFUNCTIONS];
static uint64_t totals[NFUNCTIONS];
static pthread_mutex_t totals_lock = PTHREAD_MUTEX_INITIALIZER;
static volatile unsigned sink;
static volatile sig_atomic_t enough;

static unsigned nthreads = 1;
static uint64_t ncalls = 100000;
static double rate, seconds = 1;
static pthread_barrier_t all_done;
static int together;

KEEP void leaf(void)
{
	calls[LEAF]++;
}

static inline unsigned tiny(unsigned x)
{
	calls[TINY]++;
	return x + sink;
}

KEEP unsigned mix(unsigned x)
{
	calls[MIX]++;
	return tiny(x) * 2654435761u;
}

KEEP double half(double x)
{
	calls[HALF]++;
	return x / 2 + sink;
}

KEEP static unsigned chain_inner(unsigned x)
{
	calls[CHAIN_INNER]++;
	return x ^ sink;
}

KEEP static unsigned chain_middle(unsigned x)
{
	calls[CHAIN_MIDDLE]++;
	return chain_inner(x) + 1;
}

KEEP unsigned chain_outer(unsigned x)
{
	calls[CHAIN_OUTER]++;
	return chain_middle(x) + chain_middle(x + 1);
}

KEEP unsigned count_down(unsigned n)
{
	calls[COUNT_DOWN]++;
	return n ? count_down(n - 1) + 1 : sink;
}

QUIET static uint64_t made(void)
{
	uint64_t sum = 0;

	for (int i = 0; i < NFUNCTIONS; i++)
		sum += calls[i];
	return sum;
}

/* 15 calls. */
QUIET static void round_of_calls(unsigned x)
{
	leaf();
	sink = mix(x) & 0;
	sink = (unsigned)half(x) & 0;
	sink = chain_outer(x) & 0;
	sink = count_down(4) & 0;
	leaf();
}

QUIET static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

/* Keeps to the rate in steps of a millisecond; what was missed because the machine was busy is
 * not made up for by more than a few steps at once. */
QUIET static void paced_work(void)
{
	double start = now(), next = start, quota = rate / nthreads / 1000;
	double due = 0;

	while (!enough && now() < start + seconds) {
		uint64_t before = made();

		due += quota;
		for (unsigned x = 0; made() - before < due; x++)
			round_of_calls(x);
		due -= made() - before;
		next += 0.001;
		double wait = next - now();
		if (wait > 0) {
			struct timespec ts = {.tv_nsec = (long)(wait * 1e9)};

			nanosleep(&ts, NULL);
		} else if (wait < -0.005) {
			next = now();
		}
	}
}

QUIET static void on_enough(int number)
{
	(void)number;
	enough = 1;
}

QUIET static void *worker(void *arg)
{
	if (rate > 0)
		paced_work();
	else
		for (unsigned x = 0; made() < ncalls; x++)
			round_of_calls(x);
	pthread_mutex_lock(&totals_lock);
	for (int i = 0; i < NFUNCTIONS; i++)
		totals[i] += calls[i];
	pthread_mutex_unlock(&totals_lock);
	if (together)
		pthread_barrier_wait(&all_done);
	return arg;
}

QUIET static void wait_for_line(void)
{
	int c;

	while ((c = getchar()) != '\n' && c != EOF)
		;
}

QUIET int main(int argc, char **argv)
{
	pthread_t threads[64];
	int opt, wait = 0;
	uint64_t sum = 0;

	while ((opt = getopt(argc, argv, "t:n:r:s:wb")) != -1) {
		switch (opt) {
		case 't':
			nthreads = strtoul(optarg, NULL, 10);
			break;
		case 'n':
			ncalls = strtoull(optarg, NULL, 10);
			break;
		case 'r':
			rate = strtod(optarg, NULL);
			break;
		case 's':
			seconds = strtod(optarg, NULL);
			break;
		case 'w':
			wait = 1;
			break;
		case 'b':
			together = 1;
			break;
		default:
			return 2;
		}
	}
	if (nthreads < 1 || nthreads > 64)
		return 2;
	pthread_barrier_init(&all_done, NULL, nthreads);
	if (rate > 0)
		signal(SIGUSR1, on_enough);
	if (wait) {
		puts("ready");
		fflush(stdout);
		wait_for_line();
	}
	/* The first thread is this one. */
	for (unsigned i = 1; i < nthreads; i++)
		if (pthread_create(&threads[i], NULL, worker, NULL))
			return 3;
	worker(NULL);
	for (unsigned i = 1; i < nthreads; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < NFUNCTIONS; i++) {
		printf("function %s %" PRIu64 "\n", names[i], totals[i]);
		sum += totals[i];
	}
	printf("calls %" PRIu64 "\n", sum);
	fflush(stdout);
	if (wait)
		wait_for_line();
	return 0;
}
