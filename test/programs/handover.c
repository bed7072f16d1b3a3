/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that worker threads serve: serve() hands a job over and waits for it. One request of
 * ten is slow, by what the mode plants:
 *
 *   handover MODE REQUESTS
 *
 * REQUESTS -1: it goes on for ever, with pauses, so that others have the CPUs, too. MODE:
 *
 *   served   the worker's look_up() is slow
 *   queued   the worker does something else first
 *   own      serve() itself takes longer, before it hands over
 *   apart    the worker is slow, and serve() does not wait for it: it computes as long
 *   relayed  the worker hands the job over to a second one, which is slow
 *   asked    the worker asks a second one, which is slow, and waits for it
 *
 * Jobs lie in a few places that are used again and again.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define KEEP	 __attribute__((noinline, noclone))
#define JOBS	 8
#define SLOW_US	 30000
#define PAUSE_NS 3000000
#define FAST_US	 100

struct job {
	int number, slow, done, answered;
	struct job *next;
};

struct queue {
	pthread_cond_t some;
	struct job *first, **last;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t finished = PTHREAD_COND_INITIALIZER;
static struct queue queue = {PTHREAD_COND_INITIALIZER, NULL, &queue.first};
static struct queue second = {PTHREAD_COND_INITIALIZER, NULL, &second.first};
static struct job jobs[JOBS], last_one, second_last_one;
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

static int is(const char *name)
{
	return !strcmp(mode, name);
}

static int has_second(void)
{
	return is("relayed") || is("asked");
}

KEEP static void look_up(struct job *job)
{
	spin(job->slow && !is("own") && !has_second() ? SLOW_US : FAST_US);
}

KEEP static void finish(struct job *job)
{
	pthread_mutex_lock(&lock);
	job->done = 1;
	pthread_cond_broadcast(&finished);
	pthread_mutex_unlock(&lock);
}

static void put(struct queue *q, struct job *job)
{
	job->next = NULL;
	*q->last = job;
	q->last = &job->next;
	pthread_cond_signal(&q->some);
}

static struct job *take(struct queue *q)
{
	struct job *job = q->first;

	q->first = job->next;
	if (!q->first)
		q->last = &q->first;
	return job;
}

KEEP static void forward(struct job *job)
{
	pthread_mutex_lock(&lock);
	job->answered = 0;
	put(&second, job);
	pthread_mutex_unlock(&lock);
}

KEEP static void wait_again(struct job *job)
{
	pthread_mutex_lock(&lock);
	while (!job->answered)
		pthread_cond_wait(&finished, &lock);
	pthread_mutex_unlock(&lock);
}

KEEP static void run_job(struct job *job)
{
	parse(job);
	look_up(job);
	if (has_second())
		forward(job);
	if (is("asked"))
		wait_again(job);
	if (!is("relayed"))
		finish(job);
}

KEEP static void answer(struct job *job)
{
	pthread_mutex_lock(&lock);
	job->answered = 1;
	pthread_cond_broadcast(&finished);
	pthread_mutex_unlock(&lock);
}

KEEP static void format(struct job *job)
{
	spin(job->slow ? SLOW_US : FAST_US);
}

KEEP static void write_out(struct job *job)
{
	format(job);
	if (is("relayed"))
		finish(job);
	else
		answer(job);
}

KEEP static void push(struct job *job, int after_chores)
{
	pthread_mutex_lock(&lock);
	chores = after_chores;
	job->done = 0;
	put(&queue, job);
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
		while (!queue.first)
			pthread_cond_wait(&queue.some, &lock);
		if (chores) {
			chores = 0;
			pthread_mutex_unlock(&lock);
			clean_up();
			continue;
		}
		job = take(&queue);
		pthread_mutex_unlock(&lock);
		if (job->number < 0)
			return unused;
		run_job(job);
	}
}

static void *work_second(void *unused)
{
	for (;;) {
		struct job *job;

		pthread_mutex_lock(&lock);
		while (!second.first)
			pthread_cond_wait(&second.some, &lock);
		job = take(&second);
		pthread_mutex_unlock(&lock);
		if (job->number < 0)
			return unused;
		write_out(job);
	}
}

KEEP static void serve(int number)
{
	struct job *job = &jobs[number % JOBS];
	const int slow = number % 10 == 3;

	job->number = number;
	job->slow = slow && !is("queued");
	if (slow && is("own"))
		spin(SLOW_US);
	push(job, slow && is("queued"));
	if (slow && is("apart"))
		spin(2 * SLOW_US);
	wait_for(job);
	/* it is called, and not jumped to */
	sink = number;
}

int main(int argc, char **argv)
{
	const int requests = argc > 2 ? atoi(argv[2]) : 200;
	pthread_t worker, second_worker;

	mode = argc > 1 ? argv[1] : "served";
	calibrate();
	pthread_create(&worker, NULL, work, NULL);
	pthread_create(&second_worker, NULL, work_second, NULL);
	for (unsigned i = 0; requests < 0 || i < (unsigned)requests; i++) {
		serve((int)(i % 1000000));
		if (requests < 0)
			nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
	}
	last_one.number = second_last_one.number = -1;
	push(&last_one, 0);
	pthread_join(worker, NULL);
	forward(&second_last_one);
	pthread_join(second_worker, NULL);
	puts("done");
	return 0;
}
