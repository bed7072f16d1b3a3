/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread that drains.
 */
#include "collector/drain_thread.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/error.h"

struct ip_drain_thread {
	pthread_t thread;
	struct ip_collector *collector;
	bool stop; /* atomic */
	/* error message if failed. Set by the thread, read after its end */
	char *why;
	bool failed;
};

static void *run(void *context)
{
	const struct timespec tick = {.tv_nsec = 1000000};
	struct ip_drain_thread *drain_thread = context;

	ip_collector_priority(true); /* a new thread does not inherit it */
	while (!__atomic_load_n(&drain_thread->stop, __ATOMIC_ACQUIRE)) {
		int taken = ip_collector_poll(drain_thread->collector);

		if (taken < 0) {
			drain_thread->failed = true;
			drain_thread->why = strdup(ip_error_message());
			break;
		}
		if (taken == 0)
			nanosleep(&tick, NULL);
	}
	return NULL;
}

struct ip_drain_thread *ip_drain_thread_start(struct ip_collector *collector)
{
	struct ip_drain_thread *drain_thread = calloc(1, sizeof(*drain_thread));
	sigset_t all, before;
	int error;

	if (!drain_thread)
		return NULL;
	drain_thread->collector = collector;
	/* Signals are for the session's thread: they interrupt its system calls. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&drain_thread->thread, NULL, run, drain_thread);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (error) {
		free(drain_thread);
		return NULL;
	}
	return drain_thread;
}

int ip_drain_thread_stop(struct ip_drain_thread *drain_thread)
{
	int ret = 0;

	if (!drain_thread)
		return 0;
	__atomic_store_n(&drain_thread->stop, true, __ATOMIC_RELEASE);
	pthread_join(drain_thread->thread, NULL);
	if (drain_thread->failed)
		ret = ip_error("%s", drain_thread->why ? drain_thread->why : "out of memory");
	free(drain_thread->why);
	free(drain_thread);
	return ret;
}
