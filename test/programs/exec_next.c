/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Works; at a line on stdin a thread that is not the first executes the program anew. Ends when
 * stdin is closed.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((noinline)) static void step(int i)
{
	__asm__ volatile("" : : "r"(i) : "memory");
}

static void *work(void *arg)
{
	for (int i = 0;; i++) {
		step(i);
		usleep(1000);
	}
	return arg;
}

static void *become(void *argv)
{
	execv(((char **)argv)[0], argv);
	abort();
}

int main(int argc, char **argv)
{
	pthread_t thread;
	char c;

	setvbuf(stdin, NULL, _IONBF, 0);
	if (argc != 1 || pthread_create(&thread, NULL, work, NULL))
		return 3;
	puts("ready");
	fflush(stdout);
	while (read(0, &c, 1) == 1)
		if (pthread_create(&thread, NULL, become, argv))
			return 3;
	return 0;
}
