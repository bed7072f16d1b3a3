/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that come and go, forks and signals, like a server's; all calls are counted.
 *
 *   churn lives THREADS CALLS     so many threads, 16 at a time, each of which makes CALLS calls
 *                                 and ends
 *   churn idle THREADS            so many threads, each of which makes two calls and then waits
 *   churn serve SECONDS           four workers that serve requests at a modest rate, threads and
 *                                 forked children that serve one and end, a signal every
 *                                 millisecond whose handler calls, too
 *
 * Says "ready" and waits for a line on stdin; after the work says "calls N" and waits for another
 * one. N: calls of instrumented functions that were made, in children, too. Everything that is not
 * counted is not instrumented.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define QUIET	__attribute__((no_instrument_function))
#define KEEP	__attribute__((noinline))
#define AT_ONCE 16
#define WORKERS 4

static __thread uint64_t calls; /* of this thread, its handlers' included */
static uint64_t *total;		/* shared with children */
static volatile unsigned sink;
static volatile int over;
static unsigned ncalls = 2;

/* One instruction each: a handler may come at any moment. */
#define COUNT() __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED)

KEEP unsigned work(unsigned x)
{
	COUNT();
	return x * 2654435761u + sink;
}

KEEP unsigned request(unsigned x)
{
	COUNT();
	return work(x) + work(x + 1);
}

KEEP void on_signal(int number)
{
	COUNT();
	sink = work(number) & 0;
}

QUIET static void nap(long ns)
{
	nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

/* The last thing that a thread does: no handler counts behind it. */
QUIET static void account(void)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	__atomic_fetch_add(total, calls, __ATOMIC_RELAXED);
	calls = 0;
}

QUIET static void *one_life(void *data)
{
	for (unsigned i = 0; i < ncalls; i++)
		sink = work(i) & 0;
	account();
	return data;
}

/* 100 requests every two milliseconds: 150,000 calls a second. */
QUIET static void *worker(void *data)
{
	while (!over) {
		for (unsigned i = 0; i < 100; i++)
			sink = request(i) & 0;
		nap(2000000);
	}
	account();
	return data;
}

QUIET static void *waiter(void *data)
{
	sink = work(1) & 0;
	sink = work(2) & 0;
	account();
	pthread_barrier_wait(data);
	for (;;)
		pause();
}

QUIET static void start(pthread_t *thread, void *(*run)(void *), void *data)
{
	pthread_attr_t small;
	int error;

	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 65536);
	error = pthread_create(thread, &small, run, data);
	pthread_attr_destroy(&small);
	if (error) {
		fprintf(stderr, "no thread: %s\n", strerror(error));
		exit(3);
	}
}

QUIET static void lives(unsigned n)
{
	pthread_t threads[AT_ONCE];

	for (unsigned i = 0; i < n; i++) {
		if (i >= AT_ONCE)
			pthread_join(threads[i % AT_ONCE], NULL);
		start(&threads[i % AT_ONCE], one_life, NULL);
	}
	for (unsigned i = n < AT_ONCE ? 0 : n - AT_ONCE; i < n; i++)
		pthread_join(threads[i % AT_ONCE], NULL);
}

QUIET static void idle(unsigned n)
{
	static pthread_barrier_t all;
	pthread_t thread;

	pthread_barrier_init(&all, NULL, n + 1);
	for (unsigned i = 0; i < n; i++)
		start(&thread, waiter, &all);
	pthread_barrier_wait(&all);
}

/* A child that serves one request. Signals are held back meanwhile: what the thread has counted is
 * not the child's. */
QUIET static void fork_one(void)
{
	sigset_t all, before;
	pid_t child;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	child = fork();
	if (child == 0) {
		calls = 0;
		for (unsigned i = 0; i < 10; i++)
			sink = request(i) & 0;
		account();
		_exit(0);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (child < 0) {
		fprintf(stderr, "no child: %s\n", strerror(errno));
		exit(3);
	}
	while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
		;
}

QUIET static void serve(double seconds)
{
	const struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	const struct itimerspec often = {.it_interval.tv_nsec = 1000000,
					 .it_value.tv_nsec = 1000000},
				never = {0};
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
	pthread_t workers[WORKERS];
	struct timespec from, now;
	timer_t timer;

	sigaction(SIGUSR1, &action, NULL);
	ncalls = 30;
	for (int i = 0; i < WORKERS; i++)
		start(&workers[i], worker, NULL);
	if (timer_create(CLOCK_MONOTONIC, &event, &timer) < 0 ||
	    timer_settime(timer, 0, &often, NULL) < 0) {
		perror("timer");
		exit(3);
	}
	clock_gettime(CLOCK_MONOTONIC, &from);
	for (unsigned i = 0;; i++) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		if (now.tv_sec - from.tv_sec + (now.tv_nsec - from.tv_nsec) / 1e9 >= seconds)
			break;
		lives(20);
		if (i % 4 == 0)
			fork_one();
		nap(10000000);
	}
	timer_settime(timer, 0, &never, NULL);
	over = 1;
	for (int i = 0; i < WORKERS; i++)
		pthread_join(workers[i], NULL);
}

QUIET static void wait_for_line(void)
{
	int c;

	while ((c = getchar()) != '\n' && c != EOF)
		;
}

QUIET int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	total = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (total == MAP_FAILED)
		return 3;
	puts("ready");
	fflush(stdout);
	wait_for_line();
	if (!strcmp(argv[1], "lives")) {
		ncalls = argc > 3 ? strtoul(argv[3], NULL, 10) : ncalls;
		lives(strtoul(argv[2], NULL, 10));
	} else if (!strcmp(argv[1], "idle")) {
		idle(strtoul(argv[2], NULL, 10));
	} else {
		serve(strtod(argv[2], NULL));
	}
	account();
	printf("calls %" PRIu64 "\n", *total);
	fflush(stdout);
	wait_for_line();
	return 0;
}
