/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queue between the collector and the thread that compresses.
 *
 * Jobs lie in a ring: those from written on are on their way, those from begun on nobody has begun with. Only the collector moves written and
 * submitted on. begun and states are changed with the mutex lock held, the thread works with the mutex working held.
 */
#include "hotpatcher/press.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/error.h"
#include "common/rt_abi.h"
#include "common/squeeze.h"

struct job {
	struct ip_press_note note;
	struct ip_packet_header header;
	bool ready;
	size_t n, size;
	uint8_t *out;
	uint64_t words[IP_SUBBUF_WORDS];
};

struct ip_press {
	struct job *jobs;
	unsigned limit, room; /* room: one more, so that what was taken stays valid */
	uint64_t written, begun, submitted;
	uint64_t plain;
	bool threaded, stop;
	pthread_t thread;
	sem_t waiting; /* packets that nobody has begun with, at most */
	pthread_mutex_t lock, working;
	struct ip_squeezer *squeezer, *own; /* of the thread; of the collector */
};

static struct job *job_at(struct ip_press *p, uint64_t number)
{
	return &p->jobs[number % p->room];
}

static void squeeze(struct ip_squeezer *squeezer, struct job *job)
{
	job->size = ip_squeeze(squeezer, &job->header, job->words, job->n, job->out);
}

/* Takes the oldest that nobody has begun with; NULL: there is none. */
static struct job *begin(struct ip_press *p)
{
	struct job *job = NULL;

	pthread_mutex_lock(&p->lock);
	if (p->begun < p->submitted)
		job = job_at(p, p->begun++);
	pthread_mutex_unlock(&p->lock);
	return job;
}

static void set_ready(struct ip_press *p, struct job *job)
{
	pthread_mutex_lock(&p->lock);
	job->ready = true;
	pthread_mutex_unlock(&p->lock);
}

static void *run(void *context)
{
	struct ip_press *p = context;

	setpriority(PRIO_PROCESS, 0, 0); /* of this thread: an attach may have hurried (session.c) */
	for (;;) {
		struct job *job;

		while (sem_wait(&p->waiting) < 0)
			;
		if (__atomic_load_n(&p->stop, __ATOMIC_ACQUIRE))
			return NULL;
		pthread_mutex_lock(&p->working);
		job = begin(p);
		if (job) {
			squeeze(p->squeezer, job);
			set_ready(p, job);
		}
		pthread_mutex_unlock(&p->working);
	}
}

static void start_thread(struct ip_press *p)
{
	sigset_t all, before;

	sigfillset(&all); /* signals are for the session's thread */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	p->threaded = pthread_create(&p->thread, NULL, run, p) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

struct ip_press *ip_press_create(unsigned limit)
{
	struct ip_press *p = calloc(1, sizeof(*p));
	pthread_mutexattr_t inherit;
	bool good;

	if (!p) {
		ip_error("out of memory");
		return NULL;
	}
	p->limit = limit;
	p->room = limit + 1;
	pthread_mutexattr_init(&inherit);
	pthread_mutexattr_setprotocol(&inherit, PTHREAD_PRIO_INHERIT);
	pthread_mutex_init(&p->lock, &inherit);
	pthread_mutex_init(&p->working, &inherit);
	pthread_mutexattr_destroy(&inherit);
	sem_init(&p->waiting, 0, 0);
	p->jobs = calloc(p->room, sizeof(*p->jobs));
	good = p->jobs && (p->squeezer = ip_squeezer_create()) && (p->own = ip_squeezer_create());
	for (unsigned i = 0; good && i < p->room; i++)
		good = (p->jobs[i].out = malloc(ip_squeezed_room(IP_SUBBUF_WORDS)));
	if (!good) {
		ip_press_destroy(p);
		ip_error("out of memory");
		return NULL;
	}
	start_thread(p);
	return p;
}

void ip_press_destroy(struct ip_press *p)
{
	if (!p)
		return;
	if (p->threaded) {
		__atomic_store_n(&p->stop, true, __ATOMIC_RELEASE);
		sem_post(&p->waiting);
		pthread_join(p->thread, NULL);
	}
	for (unsigned i = 0; p->jobs && i < p->room; i++)
		free(p->jobs[i].out);
	ip_squeezer_destroy(p->squeezer);
	ip_squeezer_destroy(p->own);
	pthread_mutex_destroy(&p->lock);
	pthread_mutex_destroy(&p->working);
	sem_destroy(&p->waiting);
	free(p->jobs);
	free(p);
}

bool ip_press_is_full(const struct ip_press *p)
{
	return p->submitted - p->written >= p->limit;
}

bool ip_press_is_empty(const struct ip_press *p)
{
	return p->submitted == p->written;
}

void ip_press_submit(struct ip_press *p, const struct ip_packet_header *header, const uint64_t *words,
		     size_t n, const struct ip_press_note *note)
{
	struct job *job = job_at(p, p->submitted);

	job->note = *note;
	job->header = *header;
	job->n = n;
	job->ready = false;
	memcpy(job->words, words, n * sizeof(*words));
	pthread_mutex_lock(&p->lock);
	p->submitted++;
	pthread_mutex_unlock(&p->lock);
	if (p->threaded)
		sem_post(&p->waiting);
}

/* Makes the oldest ready. false: it is not, and need not be. */
static bool make_ready(struct ip_press *p, struct job *job, enum ip_press_how how)
{
	bool ready, ours = false;

	pthread_mutex_lock(&p->lock);
	ready = job->ready;
	if (!ready && how != IP_PRESS_READY && p->begun == p->written) {
		p->begun++;
		ours = true;
	}
	pthread_mutex_unlock(&p->lock);
	if (ours && how == IP_PRESS_MUST && p->threaded) {
		job->size = ip_squeeze_plain(&job->header, job->words, job->n, job->out);
		p->plain++;
		return true;
	}
	if (ours) {
		squeeze(p->own, job);
		return true;
	}
	while (!ready && how != IP_PRESS_READY) {
		pthread_mutex_lock(&p->working); /* until the thread is through with it */
		pthread_mutex_unlock(&p->working);
		pthread_mutex_lock(&p->lock);
		ready = job->ready;
		pthread_mutex_unlock(&p->lock);
	}
	return ready;
}

bool ip_press_take(struct ip_press *p, enum ip_press_how how, const struct ip_press_note **ret,
		   const void **ret_bytes, size_t *ret_size)
{
	struct job *job = job_at(p, p->written);

	if (ip_press_is_empty(p) || !make_ready(p, job, how))
		return false;
	pthread_mutex_lock(&p->lock);
	p->written++;
	pthread_mutex_unlock(&p->lock);
	*ret = &job->note;
	*ret_bytes = job->out;
	*ret_size = job->size;
	return true;
}

uint64_t ip_press_plain(const struct ip_press *p)
{
	return p->plain;
}
