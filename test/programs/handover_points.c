// SPDX-License-Identifier: Apache-2.0
/*
 * Requests that a worker thread serves, as handover.c has them. Only points tell which object is
 * handed over: one in serve(), and one in work(), which never returns. One request of ten is slow
 * in the worker's look_up().
 */
#include <iprobe/probe.h>
#include <pthread.h>
#include <time.h>

#define KEEP __attribute__((noinline, noclone))

struct job {
	int slow, done;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct job jobs[8], *next;
static volatile unsigned sink;

static void rest(long us)
{
	nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

KEEP static void look_up(struct job *job)
{
	if (job->slow)
		rest(30000);
	sink++;
}

KEEP static void run(struct job *job)
{
	look_up(job);
	pthread_mutex_lock(&lock);
	job->done = 1;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

KEEP static void wait_for(struct job *job)
{
	pthread_mutex_lock(&lock);
	while (!job->done)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
	sink++;
}

static void *work(void *unused)
{
	for (;;) {
		struct job *job;

		pthread_mutex_lock(&lock);
		while (!next)
			pthread_cond_wait(&changed, &lock);
		job = next;
		next = NULL;
		pthread_mutex_unlock(&lock);
		IPROBE_POINT(taken, job);
		run(job);
	}
	return unused;
}

KEEP static void serve(unsigned number)
{
	struct job *job = &jobs[number % 8];

	job->slow = number % 10 == 3;
	job->done = 0;
	pthread_mutex_lock(&lock);
	next = job;
	IPROBE_POINT(pushed, job);
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	wait_for(job);
	sink++;
}

int main(void)
{
	pthread_t worker;

	pthread_create(&worker, NULL, work, NULL);
	for (unsigned i = 0;; i++) {
		serve(i);
		rest(2000);
	}
}
