/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A quiet server: its threads wait for work nearly all the time. What it does for a request,
 * another server that it asks included, is known: each byte of its input is a request.
 *
 *   event_loop    polls for requests (poll_events), and handles them: handle() asks another thread,
 *                 polls for its answer (ask_disk), and computes
 *   disk          reads what it is asked for from a pipe, naps 20 ms in slow_read(), answers
 *   pool_worker   waits for a condition that never comes
 *   maintain      sleeps for 20 ms, and tidies up for a moment, again and again
 *
 * At the end of its input it ends.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define QUIET __attribute__((no_instrument_function))
#define FUNC  __attribute__((noinline))
#define KEEP  asm volatile("") /* no tail call */

#define DISK_MS	   20
#define COMPUTE_MS 5

static int requests[2], answers[2];

QUIET static uint64_t now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

QUIET static void nap(unsigned ms)
{
	const struct timespec t = {.tv_nsec = ms * 1000000l};

	nanosleep(&t, NULL);
}

FUNC void compute(unsigned ms)
{
	const uint64_t begin = now(CLOCK_THREAD_CPUTIME_ID);

	while (now(CLOCK_THREAD_CPUTIME_ID) - begin < ms * 1000000ull)
		KEEP;
	KEEP;
}

FUNC void ask_disk(void)
{
	struct pollfd answer = {.fd = answers[0], .events = POLLIN};
	char byte = 'r';

	if (write(requests[1], &byte, 1) != 1 || poll(&answer, 1, -1) != 1 ||
	    read(answers[0], &byte, 1) != 1)
		abort();
	KEEP;
}

FUNC void handle(void)
{
	ask_disk();
	compute(COMPUTE_MS);
	KEEP;
}

FUNC int poll_events(void)
{
	struct pollfd event = {.fd = 0, .events = POLLIN};
	char byte;

	if (poll(&event, 1, 40) != 1)
		return 0;
	return read(0, &byte, 1) == 1 ? 1 : -1;
}

FUNC void event_loop(void)
{
	for (int got; (got = poll_events()) >= 0;)
		if (got)
			handle();
	KEEP;
}

FUNC void slow_read(void)
{
	nap(DISK_MS);
	KEEP;
}

FUNC void *disk(void *unused)
{
	for (char byte; read(requests[0], &byte, 1) == 1;) {
		slow_read();
		if (write(answers[1], &byte, 1) != 1)
			abort();
	}
	return unused;
}

FUNC void *pool_worker(void *unused)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static pthread_cond_t more = PTHREAD_COND_INITIALIZER;

	pthread_mutex_lock(&lock);
	for (;;)
		pthread_cond_wait(&more, &lock);
	return unused;
}

FUNC void tidy(void)
{
	compute(1);
	KEEP;
}

FUNC void *maintain(void *unused)
{
	for (;;) {
		nap(20);
		tidy();
	}
	return unused;
}

QUIET int main(void)
{
	pthread_t thread;

	if (pipe(requests) || pipe(answers) || pthread_create(&thread, NULL, disk, NULL) ||
	    pthread_create(&thread, NULL, pool_worker, NULL) ||
	    pthread_create(&thread, NULL, maintain, NULL))
		abort();
	if (write(1, "ready\n", 6) != 6)
		abort();
	event_loop();
	return 0;
}
