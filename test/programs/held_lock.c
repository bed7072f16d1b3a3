/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One thread holds a lock, in compact(), for as long as another one waits for it, in request().
 *
 * usage: held_lock ROUNDS
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
	pthread_t thread;

	sem_init(&wanted, 0, 0);
	sem_init(&held, 0, 0);
	sem_init(&over, 0, 0);
	if (argc < 2 || pthread_create(&thread, NULL, worker, NULL))
		return 2;
	for (int i = atoi(argv[1]); i > 0; i--) {
		sem_post(&wanted);
		sem_wait(&held);
		request();
		sem_wait(&over);
	}
	return 0;
}
