/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that are cancelled asynchronously, at whatever instruction they are, while they call
 * functions all the time. The unwinder must come from there to the cleanup handlers of three frames
 * below.
 *
 *   cancel THREADS    prints "cancelled N cleaned N", and "wrong" where one ran with another
 *                     frame's argument
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define QUIET __attribute__((no_instrument_function))
#define KEEP  __attribute__((noinline))

static volatile long started, cleaned, expected;
static volatile int sink;

QUIET static void clean(void *arg)
{
	/* from the innermost frame outwards */
	if ((long)arg != expected++)
		puts("wrong");
	cleaned++;
}

KEEP static int leaf(int n)
{
	return n + sink;
}

KEEP static int twice(int n)
{
	return leaf(n) + leaf(n + 1);
}

KEEP static void spin(long depth)
{
	pthread_cleanup_push(clean, (void *)depth);
	if (depth) {
		spin(depth - 1);
	} else {
		pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
		started++;
		for (;;)
			sink = twice(1);
	}
	pthread_cleanup_pop(0);
}

KEEP static void *thread_main(void *arg)
{
	spin(2);
	return arg;
}

int main(int argc, char **argv)
{
	long threads = argc > 1 ? atol(argv[1]) : 50;

	for (long i = 0; i < threads; i++) {
		pthread_t thread;
		long before = started;

		expected = 0;
		pthread_create(&thread, NULL, thread_main, NULL);
		while (started == before)
			;
		/* each a little later than the one before */
		for (volatile long k = 0; k < 100 + 37 * i; k = k + 1)
			;
		pthread_cancel(thread);
		pthread_join(thread, NULL);
	}
	printf("cancelled %ld cleaned %ld\n", threads, cleaned);
	return 0;
}
