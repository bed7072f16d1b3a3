/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One thread holds a lock, in compact(), for as long as others wait for it, in request().
 *
 * usage: held_lock ROUNDS [WAITERS]
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <time.h>

#define QUIET __attribute__((no_instrument_function))
#define FUNC  __attribute__((noinline))

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static sem_t wanted, held, over;

FUNC void compact(void)
{
	pthread_mutex_lock(&table_lock);
	sem_post(&held);
	nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
	pthread_mutex_unlock(&table_lock);
}

FUNC void request(void)
{
	pthread_mutex_lock(&table_lock);
	pthread_mutex_unlock(&table_lock);
}

/* What each waiter but the first does. */
QUIET static void *wait_too(void *unused)
{
	request();
	return unused;
}

QUIET static void *worker(void *unused)
{
	pthread_setname_np(pthread_self(), "compactor");
	for (;;) {
		sem_wait(&wanted);
		compact();
		sem_post(&over);
	}
	return unused;
}

QUIET int main(int argc, char **argv)
{
	const int more = argc > 2 ? atoi(argv[2]) - 1 : 0;
	pthread_t thread, waiters[15];

	sem_init(&wanted, 0, 0);
	sem_init(&held, 0, 0);
	sem_init(&over, 0, 0);
	if (argc < 2 || more < 0 || more > 15 || pthread_create(&thread, NULL, worker, NULL))
		return 2;
	for (int i = atoi(argv[1]); i > 0; i--) {
		sem_post(&wanted);
		sem_wait(&held);
		for (int k = 0; k < more; k++)
			if (pthread_create(&waiters[k], NULL, wait_too, NULL))
				return 2;
		request();
		for (int k = 0; k < more; k++)
			pthread_join(waiters[k], NULL);
		sem_wait(&over);
	}
	return 0;
}
