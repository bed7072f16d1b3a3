/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pump's thread.
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
	char *why; /* the error, where it failed; set by the thread, read after its end */
	bool failed;
};

static void *run(void *context)
{
	const struct timespec tick = {.tv_nsec = 1000000};
	struct ip_drain_thread *pump = context;

	ip_collector_priority(true); /* a thread does not inherit it */
	while (!__atomic_load_n(&pump->stop, __ATOMIC_ACQUIRE)) {
		int taken = ip_collector_poll(pump->collector);

		if (taken < 0) {
			pump->failed = true;
			pump->why = strdup(ip_error_message());
			break;
		}
		if (taken == 0)
			nanosleep(&tick, NULL);
	}
	return NULL;
}

struct ip_drain_thread *ip_drain_thread_start(struct ip_collector *collector)
{
	struct ip_drain_thread *pump = calloc(1, sizeof(*pump));
	sigset_t all, before;
	int error;

	if (!pump)
		return NULL;
	pump->collector = collector;
	sigfillset(&all); /* signals are for the session's thread: they interrupt its calls */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&pump->thread, NULL, run, pump);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (error) {
		free(pump);
		return NULL;
	}
	return pump;
}

int ip_drain_thread_stop(struct ip_drain_thread *pump)
{
	int ret = 0;

	if (!pump)
		return 0;
	__atomic_store_n(&pump->stop, true, __ATOMIC_RELEASE);
	pthread_join(pump->thread, NULL);
	if (pump->failed)
		ret = ip_error("%s", pump->why ? pump->why : "out of memory");
	free(pump->why);
	free(pump);
	return ret;
}
