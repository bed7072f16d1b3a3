/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads: at the same time, one after the other (thread ids and slots are used again), created by
 * threads, ended by return (then destructors of thread-specific data run) and by pthread_exit from
 * deep frames (then nothing more runs).
 */
#include "tree_log.h"

#include <pthread.h>
#include <stdint.h>

static volatile int sink;
static pthread_key_t key;

KEEP static int work(int n)
{
	ENTER("work");
	int r = n > 1 ? work(n - 1) + work(n - 2) : n;

	LEAVE("work");
	return r;
}

KEEP static void at_thread_end(void *arg)
{
	ENTER("at_thread_end");
	sink = work(2);
	LEAVE("at_thread_end");
}

KEEP static void leave_early(int n)
{
	ENTER("leave_early");
	if (n)
		leave_early(n - 1);
	else
		pthread_exit(NULL);
	LEAVE("leave_early");
}

KEEP static void *thread_main(void *arg)
{
	ENTER("thread_main");
	pthread_setspecific(key, arg);
	sink = work((int)(intptr_t)arg);
	LEAVE("thread_main");
	return NULL;
}

KEEP static void *exiting_main(void *arg)
{
	ENTER("exiting_main");
	leave_early((int)(intptr_t)arg);
	LEAVE("exiting_main");
	return NULL;
}

KEEP static void *creating_main(void *arg)
{
	ENTER("creating_main");
	pthread_t thread;

	sink = work(5);
	pthread_create(&thread, NULL, thread_main, arg);
	sink = work(6);
	pthread_join(thread, NULL);
	LEAVE("creating_main");
	return NULL;
}

KEEP static void together(void *(*main)(void *), int n)
{
	ENTER("together");
	pthread_t threads[16];

	for (int i = 0; i < n; i++)
		pthread_create(&threads[i], NULL, main, (void *)(intptr_t)(i + 3));
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	LEAVE("together");
}

int main(void)
{
	ENTER("main");
	pthread_key_create(&key, at_thread_end);
	together(thread_main, 8);
	together(creating_main, 4);
	together(exiting_main, 6);
	for (int i = 0; i < 40; i++)
		together(thread_main, 1);
	LEAVE("main");
	return 0;
}
