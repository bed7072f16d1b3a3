/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The threads that write and sync a live log.
 */
#include "stream_log/log_writer.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "collector/collector.h"
#include "common/error.h"
#include "common/now.h"

#define AT_ONCE	     (256u << 10) /* bytes */
#define HURRY_MOST   (64u << 10)  /* bytes that wait */
#define POLL_MS	     20
#define SYNC_REST_NS 2000000	  /* between two syncs: the disk is for others, too */
#define GIVE_UP_NS   500000000ull /* for what is under way when all is given up */

struct ip_log_writer {
	int fd;
	bool blocks;
	pthread_t writes, syncs;
	pthread_mutex_t lock; /* of all below */
	pthread_cond_t put, written;
	uint8_t *room;
	uint64_t in, out; /* bytes that were put in, and that were written */
	uint64_t synced, longest_sync_ns;
	bool ends;     /* no more is put in */
	bool given_up; /* what is not written by now never is */
	bool done;     /* the thread that writes writes no more */
	bool left;     /* nobody waits for the threads: the last one frees all */
	unsigned nthreads;
	char *failure;
};

static void fail(struct ip_log_writer *w, const char *what, int error)
{
	char *text = NULL;

	if (w->failure)
		return;
	if (asprintf(&text, "%s: %s", what, strerror(error)) < 0)
		text = strdup("out of memory");
	w->failure = text;
}

/* Writes a part of what waits, without the lock. Returns the number of bytes; 0: not now. -1 with
 * errno. */
static ssize_t write_some(const struct ip_log_writer *w, uint64_t out, uint64_t in)
{
	const size_t at = out % IP_LOG_WRITER_ROOM;
	size_t n = in - out < AT_ONCE ? in - out : AT_ONCE;
	ssize_t done;

	n = n < IP_LOG_WRITER_ROOM - at ? n : IP_LOG_WRITER_ROOM - at;
	done = write(w->fd, w->room + at, n);
	if (done < 0 && (errno == EAGAIN || errno == EINTR)) {
		struct pollfd p = {.fd = w->fd, .events = POLLOUT};

		poll(&p, 1, POLL_MS);
		return 0;
	}
	if (done == 0)
		errno = ENOSPC;
	return done == 0 ? -1 : done;
}

static void destroy(struct ip_log_writer *w)
{
	close(w->fd);
	free(w->room);
	free(w->failure);
	free(w);
}

/* A thread ends, with the lock, which it gives back. */
static void *end_thread(struct ip_log_writer *w)
{
	const bool last = --w->nthreads == 0 && w->left;

	pthread_cond_broadcast(&w->written);
	pthread_mutex_unlock(&w->lock);
	if (last)
		destroy(w);
	return NULL;
}

static void *write_all(void *context)
{
	struct ip_log_writer *w = context;

	bool hurries = false;

	pthread_mutex_lock(&w->lock);
	for (;;) {
		uint64_t out, in;
		ssize_t n;
		int error;

		while (w->in == w->out && !w->ends)
			pthread_cond_wait(&w->put, &w->lock);
		if (w->in == w->out || w->given_up)
			break;
		out = w->out;
		in = w->in;
		pthread_mutex_unlock(&w->lock);
		/* What is read in time is to be written in time. But where more comes than can be
		 * written, the drain needs the CPU, which the same priority would take from it. */
		if (hurries != (in - out <= HURRY_MOST)) {
			hurries = !hurries;
			ip_collector_priority(hurries);
		}
		n = write_some(w, out, in);
		error = errno;
		pthread_mutex_lock(&w->lock);
		if (n < 0) {
			fail(w, "cannot write", error);
			break;
		}
		w->out += n;
		pthread_cond_broadcast(&w->written);
	}
	w->done = true;
	return end_thread(w);
}

static void *sync_all(void *context)
{
	const struct timespec rest = {.tv_nsec = SYNC_REST_NS};
	struct ip_log_writer *w = context;

	pthread_mutex_lock(&w->lock);
	for (;;) {
		uint64_t upto, began;
		int error = 0;

		while (w->synced == w->out && !w->done)
			pthread_cond_wait(&w->written, &w->lock);
		if (w->synced == w->out || w->given_up)
			break;
		upto = w->out;
		pthread_mutex_unlock(&w->lock);
		began = ip_now_ns();
		if (fdatasync(w->fd) < 0)
			error = errno;
		began = ip_now_ns() - began;
		nanosleep(&rest, NULL);
		pthread_mutex_lock(&w->lock);
		if (error) {
			fail(w, "cannot sync", error);
			break;
		}
		w->synced = upto;
		w->longest_sync_ns = began > w->longest_sync_ns ? began : w->longest_sync_ns;
	}
	return end_thread(w);
}

/* The drain takes the lock, and may have a higher priority than the threads. */
static void init_lock(struct ip_log_writer *w)
{
	pthread_mutexattr_t inherit;
	pthread_condattr_t monotonic;

	pthread_mutexattr_init(&inherit);
	pthread_mutexattr_setprotocol(&inherit, PTHREAD_PRIO_INHERIT);
	pthread_mutex_init(&w->lock, &inherit);
	pthread_mutexattr_destroy(&inherit);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&w->put, NULL);
	pthread_cond_init(&w->written, &monotonic);
	pthread_condattr_destroy(&monotonic);
}

struct ip_log_writer *ip_log_writer_start(int fd, bool blocks)
{
	struct ip_log_writer *w = calloc(1, sizeof(*w));
	sigset_t all, before;
	int error;

	if (!w) {
		close(fd);
		ip_error("out of memory");
		return NULL;
	}
	w->fd = fd;
	w->blocks = blocks;
	w->room = malloc(IP_LOG_WRITER_ROOM);
	w->nthreads = 1 + blocks;
	init_lock(w);
	if (!w->room) {
		destroy(w);
		ip_error("out of memory");
		return NULL;
	}
	/* signals are for the session's thread, and SIGPIPE for nobody */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&w->writes, NULL, write_all, w);
	if (!error && blocks && pthread_create(&w->syncs, NULL, sync_all, w)) {
		pthread_mutex_lock(&w->lock);
		w->ends = true;
		pthread_cond_broadcast(&w->put);
		pthread_mutex_unlock(&w->lock);
		pthread_join(w->writes, NULL);
		error = EAGAIN;
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!error)
		return w;
	destroy(w);
	errno = error;
	ip_error_errno("cannot start a thread for the live log");
	return NULL;
}

size_t ip_log_writer_waiting(struct ip_log_writer *w)
{
	size_t n;

	pthread_mutex_lock(&w->lock);
	n = w->failure ? IP_LOG_WRITER_ROOM : w->in - w->out;
	pthread_mutex_unlock(&w->lock);
	return n;
}

bool ip_log_writer_put(struct ip_log_writer *w, const void *bytes, size_t size)
{
	bool taken;

	pthread_mutex_lock(&w->lock);
	taken = !w->failure && size <= IP_LOG_WRITER_ROOM - (w->in - w->out);
	if (taken) {
		const size_t at = w->in % IP_LOG_WRITER_ROOM;
		const size_t first =
			size < IP_LOG_WRITER_ROOM - at ? size : IP_LOG_WRITER_ROOM - at;

		memcpy(w->room + at, bytes, first);
		memcpy(w->room, (const uint8_t *)bytes + first, size - first);
		w->in += size;
		pthread_cond_signal(&w->put);
	}
	pthread_mutex_unlock(&w->lock);
	return taken;
}

const char *ip_log_writer_failure(struct ip_log_writer *w)
{
	const char *failure;

	pthread_mutex_lock(&w->lock);
	failure = w->failure; /* it stays once it is set */
	pthread_mutex_unlock(&w->lock);
	return failure;
}

/* Waits, with the lock, until the threads have ended, for limit_ns at most. */
static void wait_for_threads(struct ip_log_writer *w, uint64_t limit_ns)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_sec += limit_ns / 1000000000;
	t.tv_nsec += limit_ns % 1000000000;
	if (t.tv_nsec >= 1000000000) {
		t.tv_sec++;
		t.tv_nsec -= 1000000000;
	}
	while (w->nthreads && pthread_cond_timedwait(&w->written, &w->lock, &t) == 0)
		;
}

void ip_log_writer_end(struct ip_log_writer *w, uint64_t limit_ns, struct ip_log_writer_counts *ret)
{
	const pthread_t writes = w->writes, syncs = w->syncs;
	const bool blocks = w->blocks;

	pthread_mutex_lock(&w->lock);
	w->ends = true;
	pthread_cond_signal(&w->put);
	wait_for_threads(w, limit_ns);
	w->given_up = true;
	wait_for_threads(w, GIVE_UP_NS);
	*ret = (struct ip_log_writer_counts){.written = w->out,
					     .unwritten = w->in - w->out,
					     .synced = w->synced,
					     .longest_sync_ns = w->longest_sync_ns,
					     .syncs = blocks,
					     .hangs = w->nthreads > 0};
	w->left = ret->hangs;
	pthread_mutex_unlock(&w->lock);
	if (ret->hangs) {
		/* a write or sync may never return: all is the threads' from now on */
		pthread_detach(writes);
		if (blocks)
			pthread_detach(syncs);
		return;
	}
	pthread_join(writes, NULL);
	if (blocks)
		pthread_join(syncs, NULL);
	destroy(w);
}
