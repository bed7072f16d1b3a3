/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queue between the collector and the thread that compresses.
 *
 * The jobs lie in a ring. Jobs from written on are in the compressor. Jobs from begun on have not
 * been begun. Only the collector advances written and submitted. begun, the states of jobs and
 * spare are changed only while the mutex is held, and the mutex is held for nothing else.
 *
 * The thread has one job at a time, the oldest one at the time when it takes it. So there is at
 * most one job that the thread has begun and that the collector takes away from it. The spare job
 * then takes that job's place in the ring. When the thread has finished the job it becomes the new
 * spare job.
 */
#include "collector/compressor.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/abi/ring.h"
#include "common/error.h"
#include "common/trace/packet_codec.h"

struct job {
	struct ip_compressor_packet note;
	struct ip_packet_header header;
	/* given_up: the collector has taken the packet while the thread has the job */
	bool ready, given_up;
	size_t n, size;
	uint8_t *out;
	uint64_t words[IP_SUBBUF_WORDS];
};

struct ip_compressor {
	struct job **jobs;
	struct job *spare; /* NULL: the thread still has it */
	/* room: limit + 1, so that the job taken last stays valid */
	unsigned limit, room;
	uint64_t written, begun, submitted;
	uint64_t plain;
	bool threaded, stop;
	int nice;
	pthread_t thread;
	sem_t waiting; /* at most so many packets have not been begun */
	pthread_mutex_t lock;
	struct ip_packet_codec *codec, *own; /* codec: the thread's. own: the collector's */
};

static struct job **place_of(struct ip_compressor *p, uint64_t number)
{
	return &p->jobs[number % p->room];
}

static void encode(struct ip_packet_codec *codec, struct job *job)
{
	job->size = ip_packet_encode(codec, &job->header, job->words, job->n, job->out);
}

/* Takes the oldest job that has not been begun. Returns NULL if there is none. */
static struct job *begin(struct ip_compressor *p)
{
	struct job *job = NULL;

	pthread_mutex_lock(&p->lock);
	if (p->begun < p->submitted)
		job = *place_of(p, p->begun++);
	pthread_mutex_unlock(&p->lock);
	return job;
}

static void set_ready(struct ip_compressor *p, struct job *job)
{
	pthread_mutex_lock(&p->lock);
	if (job->given_up)
		p->spare = job;
	job->ready = true;
	pthread_mutex_unlock(&p->lock);
}

static void *run(void *context)
{
	struct ip_compressor *p = context;

	setpriority(PRIO_PROCESS, 0, p->nice); /* affects this thread only */
	for (;;) {
		struct job *job;

		while (sem_wait(&p->waiting) < 0)
			;
		if (__atomic_load_n(&p->stop, __ATOMIC_ACQUIRE))
			return NULL;
		job = begin(p);
		if (job) {
			encode(p->codec, job);
			set_ready(p, job);
		}
	}
}

static void start_thread(struct ip_compressor *p)
{
	sigset_t all, before;

	sigfillset(&all); /* signals are for the session's thread */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	p->threaded = pthread_create(&p->thread, NULL, run, p) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static struct job *new_job(void)
{
	struct job *job = calloc(1, sizeof(*job));

	if (job)
		job->out = malloc(ip_encoded_packet_room(IP_SUBBUF_WORDS));
	if (job && job->out)
		return job;
	free(job);
	return NULL;
}

static void free_job(struct job *job)
{
	if (job)
		free(job->out);
	free(job);
}

struct ip_compressor *ip_compressor_create(unsigned limit, int nice)
{
	struct ip_compressor *p = calloc(1, sizeof(*p));
	pthread_mutexattr_t inherit;
	bool good;

	if (!p) {
		ip_error("out of memory");
		return NULL;
	}
	p->limit = limit;
	p->nice = nice;
	p->room = limit + 1;
	pthread_mutexattr_init(&inherit);
	pthread_mutexattr_setprotocol(&inherit, PTHREAD_PRIO_INHERIT);
	pthread_mutex_init(&p->lock, &inherit);
	pthread_mutexattr_destroy(&inherit);
	sem_init(&p->waiting, 0, 0);
	p->jobs = calloc(p->room, sizeof(*p->jobs));
	p->spare = new_job();
	good = p->jobs && p->spare && (p->codec = ip_packet_codec_create()) &&
	       (p->own = ip_packet_codec_create());
	for (unsigned i = 0; good && i < p->room; i++)
		good = (p->jobs[i] = new_job());
	if (!good) {
		ip_compressor_destroy(p);
		ip_error("out of memory");
		return NULL;
	}
	start_thread(p);
	return p;
}

void ip_compressor_destroy(struct ip_compressor *p)
{
	if (!p)
		return;
	if (p->threaded) {
		__atomic_store_n(&p->stop, true, __ATOMIC_RELEASE);
		sem_post(&p->waiting);
		pthread_join(p->thread, NULL);
	}
	for (unsigned i = 0; p->jobs && i < p->room; i++)
		free_job(p->jobs[i]);
	free_job(p->spare);
	ip_packet_codec_destroy(p->codec);
	ip_packet_codec_destroy(p->own);
	pthread_mutex_destroy(&p->lock);
	sem_destroy(&p->waiting);
	free(p->jobs);
	free(p);
}

bool ip_compressor_is_full(const struct ip_compressor *p)
{
	return p->submitted - p->written >= p->limit;
}

bool ip_compressor_is_empty(const struct ip_compressor *p)
{
	return p->submitted == p->written;
}

void ip_compressor_submit(struct ip_compressor *p, const struct ip_packet_header *header,
			  const uint64_t *words, size_t n, const struct ip_compressor_packet *note)
{
	struct job *job = *place_of(p, p->submitted);

	job->note = *note;
	job->header = *header;
	job->n = n;
	job->ready = job->given_up = false;
	memcpy(job->words, words, n * sizeof(*words));
	pthread_mutex_lock(&p->lock);
	p->submitted++;
	pthread_mutex_unlock(&p->lock);
	if (p->threaded)
		sem_post(&p->waiting);
}

/* Takes the oldest packet away from the thread, which goes on with its job. That result is not
 * used. The spare job takes its place. */
static struct job *take_over(struct ip_compressor *p, struct job *theirs)
{
	struct job *job = p->spare;

	p->spare = NULL;
	theirs->given_up = true;
	*place_of(p, p->written) = job;
	return job;
}

/* Copies a job that the thread may be reading. */
static void copy(struct job *job, const struct job *theirs)
{
	job->note = theirs->note;
	job->header = theirs->header;
	job->n = theirs->n;
	memcpy(job->words, theirs->words, theirs->n * sizeof(*job->words));
}

/* Returns the oldest job, ready to be written. NULL: it is not ready, and how allows that. */
static struct job *make_ready(struct ip_compressor *p, enum ip_compressor_how how)
{
	struct job *oldest = *place_of(p, p->written), *job = oldest;
	bool ready;

	pthread_mutex_lock(&p->lock);
	ready = job->ready;
	if (!ready && how != IP_COMPRESSOR_READY) {
		if (p->begun == p->written)
			p->begun++;
		else
			job = take_over(p, oldest);
	}
	pthread_mutex_unlock(&p->lock);
	if (ready)
		return job;
	if (how == IP_COMPRESSOR_READY)
		return NULL;
	if (job != oldest)
		copy(job, oldest);
	if (how == IP_COMPRESSOR_MUST && p->threaded) {
		job->size = ip_packet_encode_plain(&job->header, job->words, job->n, job->out);
		p->plain++;
	} else {
		encode(p->own, job);
	}
	return job;
}

bool ip_compressor_take(struct ip_compressor *p, enum ip_compressor_how how,
			const struct ip_compressor_packet **ret, const void **ret_bytes,
			size_t *ret_size)
{
	struct job *job = ip_compressor_is_empty(p) ? NULL : make_ready(p, how);

	if (!job)
		return false;
	pthread_mutex_lock(&p->lock);
	p->written++;
	pthread_mutex_unlock(&p->lock);
	*ret = &job->note;
	*ret_bytes = job->out;
	*ret_size = job->size;
	return true;
}

uint64_t ip_compressor_plain(const struct ip_compressor *p)
{
	return p->plain;
}
