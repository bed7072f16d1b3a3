/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that wait, each for something else, until the program is killed: one holds a lock for 20
 * ms at a time (hold), another one wants it (want), one works and waits with poll(2) (look), and
 * one waits for a signal that does not come (stuck), for which SIGUSR1 lets it begin.
 */
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define QUIET __attribute__((no_instrument_function))
#define KEEP  __attribute__((noinline))
/* no call is the last thing that a function does: it would be a jump */
#define END_HERE __asm__ volatile("" ::: "memory")

static struct {
	int uses;
	pthread_mutex_t lock;
} db = {.lock = PTHREAD_MUTEX_INITIALIZER};
static sem_t begin;

QUIET static void on_signal(int number)
{
	(void)number;
	sem_post(&begin);
}

KEEP void nap(long us)
{
	const struct timespec t = {.tv_nsec = us * 1000};

	nanosleep(&t, NULL);
	END_HERE;
}

KEEP void hold(void)
{
	pthread_mutex_lock(&db.lock);
	nap(20000);
	pthread_mutex_unlock(&db.lock);
	END_HERE;
}

KEEP void want(void)
{
	pthread_mutex_lock(&db.lock);
	db.uses++;
	pthread_mutex_unlock(&db.lock);
	END_HERE;
}

KEEP unsigned work(unsigned n)
{
	volatile unsigned sum = 0;

	for (unsigned i = 0; i < n; i++)
		sum += i;
	return sum;
}

KEEP void look(void)
{
	poll(NULL, 0, 10);
	END_HERE;
}

KEEP void stuck(void)
{
	for (;;) {
		pause();
		END_HERE;
	}
}

QUIET static void *holder(void *unused)
{
	(void)unused;
	for (;;) {
		hold();
		usleep(1000);
	}
}

QUIET static void *wanter(void *unused)
{
	(void)unused;
	for (;;) {
		want();
		usleep(2000);
	}
}

QUIET static void *worker(void *unused)
{
	(void)unused;
	for (;;) {
		work(100000);
		look();
	}
}

QUIET static void *waiter(void *unused)
{
	(void)unused;
	while (sem_wait(&begin) < 0)
		;
	stuck();
	return NULL;
}

QUIET int main(void)
{
	void *(*const runs[])(void *) = {holder, wanter, worker, waiter};
	struct sigaction act = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	sigset_t own;
	pthread_t thread;

	sem_init(&begin, 0, 0);
	sigaction(SIGUSR1, &act, NULL);
	/* the signal is the first thread's: nobody else's wait ends by it */
	sigemptyset(&own);
	sigaddset(&own, SIGUSR1);
	sigprocmask(SIG_BLOCK, &own, NULL);
	for (size_t i = 0; i < sizeof(runs) / sizeof(*runs); i++)
		pthread_create(&thread, NULL, runs[i], NULL);
	sigprocmask(SIG_UNBLOCK, &own, NULL);
	printf("ready\n");
	fflush(stdout);
	for (;;)
		pause();
}
