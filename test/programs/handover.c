/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that worker threads serve: serve() hands a job over and waits for it. One request of
 * ten is slow, by what the mode plants:
 *
 *   handover MODE REQUESTS
 *
 *   served   the worker's look_up() is slow
 *   queued   the worker does something else first
 *   own      serve() itself takes longer, before it hands over
 *   apart    the worker is slow, and serve() does not wait for it: it computes as long
 *
 * Jobs lie in a few places that are used again and again.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define KEEP	__attribute__((noinline, noclone))
#define JOBS	8
#define SLOW_US 30000
#define FAST_US 100

struct job {
	int number, slow, done;
	struct job *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t some = PTHREAD_COND_INITIALIZER, finished = PTHREAD_COND_INITIALIZER;
static struct job *first, **last = &first;
static struct job jobs[JOBS], last_one;
static int chores; /* that the worker is to do before the next job */
static const char *mode;
static volatile unsigned sink;

static double rounds_per_us;

static void compute(long rounds)
{
	while (rounds-- > 0)
		sink = sink * 3 + 1;
}

/* So much work as takes so long on a CPU: whoever has to wait for one has as much to do. */
KEEP static void spin(int us)
{
	compute((long)(us * rounds_per_us));
}

static void calibrate(void)
{
	struct timespec begin, end;
	const long rounds = 10000000;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
	compute(rounds);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
	rounds_per_us =
		rounds / ((end.tv_sec - begin.tv_sec) * 1e6 + (end.tv_nsec - begin.tv_nsec) / 1e3);
}

KEEP static void parse(struct job *job)
{
	(void)job;
	spin(FAST_US / 4);
}

KEEP static void look_up(struct job *job)
{
	spin(job->slow && strcmp(mode, "own") ? SLOW_US : FAST_US);
}

KEEP static void finish(struct job *job)
{
	pthread_mutex_lock(&lock);
	job->done = 1;
	pthread_cond_broadcast(&finished);
	pthread_mutex_unlock(&lock);
}

KEEP static void run_job(struct job *job)
{
	parse(job);
	look_up(job);
	finish(job);
}

KEEP static void push(struct job *job, int after_chores)
{
	pthread_mutex_lock(&lock);
	chores = after_chores;
	job->next = NULL;
	job->done = 0;
	*last = job;
	last = &job->next;
	pthread_cond_signal(&some);
	pthread_mutex_unlock(&lock);
}

KEEP static void wait_for(struct job *job)
{
	pthread_mutex_lock(&lock);
	while (!job->done)
		pthread_cond_wait(&finished, &lock);
	pthread_mutex_unlock(&lock);
}

KEEP static void clean_up(void)
{
	spin(SLOW_US);
}

static void *work(void *unused)
{
	for (;;) {
		struct job *job;

		pthread_mutex_lock(&lock);
		while (!first)
			pthread_cond_wait(&some, &lock);
		if (chores) {
			chores = 0;
			pthread_mutex_unlock(&lock);
			clean_up();
			continue;
		}
		job = first;
		first = job->next;
		if (!first)
			last = &first;
		pthread_mutex_unlock(&lock);
		if (job->number < 0)
			return unused;
		run_job(job);
	}
}

KEEP static void serve(int number)
{
	struct job *job = &jobs[number % JOBS];
	const int slow = number % 10 == 3;

	job->number = number;
	job->slow = slow && strcmp(mode, "queued");
	if (slow && !strcmp(mode, "own"))
		spin(SLOW_US);
	push(job, slow && !strcmp(mode, "queued"));
	if (slow && !strcmp(mode, "apart"))
		spin(2 * SLOW_US);
	wait_for(job);
}

int main(int argc, char **argv)
{
	const int requests = argc > 2 ? atoi(argv[2]) : 200;
	pthread_t worker;

	mode = argc > 1 ? argv[1] : "served";
	calibrate();
	pthread_create(&worker, NULL, work, NULL);
	for (int i = 0; i < requests; i++)
		serve(i);
	last_one.number = -1;
	push(&last_one, 0);
	pthread_join(worker, NULL);
	puts("done");
	return 0;
}
