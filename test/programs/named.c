/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads with names, which change.
 *
 *   named [-c]
 *
 * Says "ready". Then, until stdin ends, threads call work() every millisecond: "mc-worker-0" to
 * "mc-worker-3" for the whole time; one that is "early" for 0.7 s and "late" from then on, which it
 * says; one with a name of control bytes and half a character, and one with a name that is UTF-8.
 * Every 50 ms a thread "brief" comes, which ends after 20 ms. -c: all of this is done by a forked
 * child. Prints "thread TID NAME" of each thread that lives to the end, with the bytes of NAME in
 * hexadecimal.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define QUIET __attribute__((no_instrument_function))

static atomic_int over;
static volatile unsigned sink;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((noinline)) void work(void)
{
	sink++;
}

QUIET static void nap(long ms)
{
	nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

QUIET static long now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* By the clock: on a busy machine a nap lasts for more than a millisecond. */
QUIET static void work_for(long ms)
{
	const long end = now_ms() + ms;

	while (!over && now_ms() < end) {
		work();
		nap(1);
	}
}

QUIET static void tell(const char *name)
{
	pthread_mutex_lock(&lock);
	printf("thread %d ", gettid());
	for (const char *p = name; *p; p++)
		printf("%02x", (unsigned char)*p);
	printf("\n");
	pthread_mutex_unlock(&lock);
}

QUIET static void *run(void *arg)
{
	const char *name = arg;

	prctl(PR_SET_NAME, name);
	if (!strcmp(name, "brief")) {
		work_for(20);
		return NULL;
	}
	work_for(700);
	if (!over && !strcmp(name, "early")) {
		prctl(PR_SET_NAME, name = "late");
		pthread_mutex_lock(&lock);
		puts("late");
		fflush(stdout);
		pthread_mutex_unlock(&lock);
	}
	work_for(1000000);
	tell(name);
	return NULL;
}

QUIET static void *make_brief(void *arg)
{
	while (!over) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, run, "brief") == 0)
			pthread_detach(thread);
		nap(50);
	}
	return NULL;
}

QUIET int main(int argc, char **argv)
{
	static const char *const names[] = {"mc-worker-0",
					    "mc-worker-1",
					    "mc-worker-2",
					    "mc-worker-3",
					    "early",
					    "\033[2J\t\n\\\"\xe2\x82",
					    "gr\xc3\xbc\xc3\x9f dich"};
	enum { N = sizeof(names) / sizeof(*names) };
	pthread_t threads[N], maker;
	char byte;

	puts("ready");
	fflush(stdout);
	if (argc > 1 && fork() != 0) {
		wait(NULL);
		return 0;
	}
	pthread_create(&maker, NULL, make_brief, NULL);
	for (int i = 0; i < N; i++)
		pthread_create(&threads[i], NULL, run, (void *)names[i]);
	while (read(0, &byte, 1) > 0)
		;
	over = 1;
	for (int i = 0; i < N; i++)
		pthread_join(threads[i], NULL);
	pthread_join(maker, NULL);
	fflush(stdout);
	return 0;
}
