/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads, and a process, that are made late. It prints "ready". Each line of stdin makes two
 * threads, and then a child, which call late_nap() five times each; then it prints "done". It ends
 * when stdin is closed.
 */
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

__attribute__((noinline)) void late_nap(void)
{
	const struct timespec nap = {.tv_nsec = 3000000};

	nanosleep(&nap, NULL);
}

static void *rest(void *arg)
{
	for (int i = 0; i < 5; i++)
		late_nap();
	return arg;
}

int main(void)
{
	char line[16];

	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		pthread_t threads[2];
		pid_t child;

		for (int i = 0; i < 2; i++)
			if (pthread_create(&threads[i], NULL, rest, NULL))
				return 1;
		for (int i = 0; i < 2; i++)
			pthread_join(threads[i], NULL);
		child = fork();
		if (child == 0) {
			rest(NULL);
			_exit(0);
		}
		if (child < 0 || waitpid(child, NULL, 0) != child)
			return 1;
		puts("done");
		fflush(stdout);
	}
	return 0;
}
