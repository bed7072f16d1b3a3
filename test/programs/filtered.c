/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls whose depth, length, order and threads are known, for what --depth, --min-duration,
 * --sample, --start-on, --stop-on, --tid and --thread leave out.
 *
 *   filtered [-n ROUNDS] [-d DEPTH] [-s] [-t]
 *
 * Each of ROUNDS rounds calls begin(), four nested levels, outer() with two short calls and one of
 * two milliseconds, a recursion of DEPTH calls, catcher(), out of whose inner calls longjmp leads
 * back, and finish(). -s: a signal handler that makes calls comes every 200 microseconds. -t: a
 * second thread, named "other", does the same. Prints "function NAME CALLS" for each function and
 * "calls TOTAL".
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define QUIET __attribute__((no_instrument_function))
#define KEEP  __attribute__((noinline))

/* behind a call: keeps it from becoming a jump or a loop */
#define STAY __asm__ volatile("" ::: "memory")

#define FUNCTIONS(X)                                                                               \
	X(begin)                                                                                   \
	X(level1)                                                                                  \
	X(level2)                                                                                  \
	X(level3)                                                                                  \
	X(level4) X(outer) X(quick) X(slow) X(down) X(catcher) X(thrower) X(finish) X(handled)

#define NUMBER(name) N_##name,
enum { FUNCTIONS(NUMBER) NFUNCTIONS };
#define NAME(name) #name,
static const char *const names[] = {FUNCTIONS(NAME)};

static uint64_t calls[NFUNCTIONS];
static __thread jmp_buf back;
static volatile unsigned sink;

#define COUNT(name) __atomic_fetch_add(&calls[N_##name], 1, __ATOMIC_RELAXED)

KEEP static void begin(void)
{
	COUNT(begin);
}

KEEP static unsigned level4(unsigned x)
{
	COUNT(level4);
	return x + sink;
}

KEEP static unsigned level3(unsigned x)
{
	COUNT(level3);
	x = level4(x);
	STAY;
	return x + 1;
}

KEEP static unsigned level2(unsigned x)
{
	COUNT(level2);
	x = level3(x);
	STAY;
	return x + 1;
}

KEEP static unsigned level1(unsigned x)
{
	COUNT(level1);
	x = level2(x);
	STAY;
	return x + 1;
}

KEEP static void quick(void)
{
	COUNT(quick);
}

QUIET static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

KEEP static unsigned slow(unsigned x)
{
	uint64_t start = now();

	COUNT(slow);
	while (now() - start < 2000000)
		x += sink;
	return x;
}

KEEP static unsigned outer(unsigned x)
{
	COUNT(outer);
	quick();
	x += slow(x);
	quick();
	return x + sink;
}

KEEP static unsigned down(unsigned n)
{
	unsigned below = 0;

	COUNT(down);
	if (n > 1)
		below = down(n - 1);
	STAY;
	return below + 1;
}

KEEP static unsigned thrower(unsigned n)
{
	COUNT(thrower);
	if (!n)
		longjmp(back, 1);
	n = thrower(n - 1);
	STAY;
	return n;
}

KEEP static void catcher(void)
{
	COUNT(catcher);
	if (!setjmp(back))
		sink = thrower(2) & 0;
	quick();
}

KEEP static void finish(void)
{
	COUNT(finish);
}

KEEP static void handled(void)
{
	COUNT(handled);
}

QUIET static void on_alarm(int number)
{
	for (int i = 0; i < 3; i++)
		handled();
}

static unsigned rounds = 10, depth = 5;

QUIET static void *work(void *arg)
{
	if (arg)
		pthread_setname_np(pthread_self(), arg);
	for (unsigned i = 0; i < rounds; i++) {
		begin();
		sink = level1(i) & 0;
		sink = outer(i) & 0;
		sink = down(depth) & 0;
		catcher();
		finish();
	}
	return NULL;
}

QUIET int main(int argc, char **argv)
{
	const struct itimerval every = {{.tv_usec = 200}, {.tv_usec = 200}}, never = {{0}, {0}};
	const struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
	int option, signals = 0, threads = 0;
	uint64_t total = 0;
	pthread_t other;

	while ((option = getopt(argc, argv, "n:d:st")) != -1) {
		if (option == 'n')
			rounds = strtoul(optarg, NULL, 10);
		else if (option == 'd')
			depth = strtoul(optarg, NULL, 10);
		else if (option == 's')
			signals = 1;
		else if (option == 't')
			threads = 1;
		else
			return 2;
	}
	sigaction(SIGALRM, &action, NULL);
	if (signals)
		setitimer(ITIMER_REAL, &every, NULL);
	if (threads && pthread_create(&other, NULL, work, "other"))
		return 3;
	work(NULL);
	if (threads)
		pthread_join(other, NULL);
	setitimer(ITIMER_REAL, &never, NULL);
	for (int i = 0; i < NFUNCTIONS; i++) {
		printf("function %s %" PRIu64 "\n", names[i], calls[i]);
		total += calls[i];
	}
	printf("calls %" PRIu64 "\n", total);
	return 0;
}
