/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fault to inject: a library that is loaded before a program's own (LD_PRELOAD). A thread of it
 * takes one of the program's mutexes ten times a second, and keeps it for 40 ms: in compact(). The
 * environment has its name, HOLD_LOCK, and HOLD_LOCK_AT, which one it is of an array; or it has
 * HOLD_LOCK_MADE: the first one that a process makes by pthread_mutex_init(3).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#define QUIET __attribute__((no_instrument_function))

QUIET static void rest(long ms)
{
	const struct timespec time = {.tv_nsec = ms * 1000000};

	nanosleep(&time, NULL);
}

__attribute__((noinline)) void compact(pthread_mutex_t *lock)
{
	pthread_mutex_lock(lock);
	rest(40);
	pthread_mutex_unlock(lock);
}

QUIET static void *compact_now_and_then(void *lock)
{
	pthread_setname_np(pthread_self(), "compactor");
	for (;;) {
		rest(60);
		compact(lock);
	}
	return NULL;
}

QUIET static void hold(pthread_mutex_t *lock)
{
	pthread_t thread;

	if (!lock || pthread_create(&thread, NULL, compact_now_and_then, lock))
		abort();
}

static int holds_made;

QUIET int pthread_mutex_init(pthread_mutex_t *lock, const pthread_mutexattr_t *attributes)
{
	static int (*init)(pthread_mutex_t *, const pthread_mutexattr_t *);
	int ret;

	if (!init)
		init = (typeof(init))dlsym(RTLD_NEXT, "pthread_mutex_init");
	ret = init(lock, attributes);
	if (ret == 0 && holds_made) {
		holds_made = 0;
		hold(lock);
	}
	return ret;
}

QUIET __attribute__((constructor)) static void begin(void)
{
	const char *name = getenv("HOLD_LOCK"), *at = getenv("HOLD_LOCK_AT");
	pthread_mutex_t *lock = name ? dlsym(RTLD_DEFAULT, name) : NULL;

	unsetenv("LD_PRELOAD");
	holds_made = getenv("HOLD_LOCK_MADE") != NULL;
	if (!holds_made)
		hold(lock ? lock + (at ? atoi(at) : 0) : NULL);
}
