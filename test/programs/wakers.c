/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waits N times, each time for another thread with a name of its own, which begins, wakes it and
 * ends.
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#define QUIET __attribute__((no_instrument_function))

static sem_t done;

QUIET static void *waker(void *number)
{
	char name[16];

	snprintf(name, sizeof(name), "waker-%ld", (long)number);
	prctl(PR_SET_NAME, name);
	usleep(10); /* the other one waits by then */
	sem_post(&done);
	return NULL;
}

__attribute__((noinline)) void wait_for(pthread_t thread)
{
	while (sem_wait(&done) < 0)
		;
	pthread_join(thread, NULL);
	__asm__ volatile("" ::: "memory");
}

QUIET int main(int argc, char **argv)
{
	const long n = argc > 1 ? atol(argv[1]) : 1;
	pthread_attr_t attr;
	pthread_t thread;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 65536);
	sem_init(&done, 0, 0);
	for (long i = 0; i < n; i++) {
		if (pthread_create(&thread, &attr, waker, (void *)i))
			return 1;
		wait_for(thread);
	}
	return 0;
}
