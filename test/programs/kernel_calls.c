/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads and writes as often as it is told, in functions of its own, by several threads: what the
 * kernel's functions must be counted as.
 *
 *   kernel_calls THREADS ROUNDS
 *
 * Each thread calls both ROUNDS times: reads_two() reads twice (/dev/zero), and writes_once()
 * writes once (/dev/null). blocks() reads once from a pipe, after some 20 ms. A child
 * (another program) writes and reads as well, all the time.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int zero, null;
static long rounds;

__attribute__((noinline)) void reads_two(void)
{
	char bytes[16];

	if (read(zero, bytes, sizeof(bytes)) != sizeof(bytes) ||
	    read(zero, bytes, sizeof(bytes)) != sizeof(bytes))
		abort();
}

__attribute__((noinline)) void writes_once(void)
{
	if (write(null, "x", 1) != 1)
		abort();
}

__attribute__((noinline)) void works(void)
{
	for (long i = 0; i < rounds; i++) {
		reads_two();
		writes_once();
	}
}

__attribute__((noinline)) void blocks(int from)
{
	char byte;

	if (read(from, &byte, 1) != 1)
		abort();
}

static void *run(void *unused)
{
	works();
	return unused;
}

static void *wake(void *to)
{
	const struct timespec nap = {.tv_nsec = 20000000};

	nanosleep(&nap, NULL);
	if (write(*(int *)to, "x", 1) != 1)
		abort();
	return NULL;
}

int main(int argc, char **argv)
{
	const int threads = argc > 2 ? atoi(argv[1]) : 0;
	pthread_t ids[64], waker;
	int ends[2];
	pid_t other;

	if (threads < 1 || threads > 64 || pipe(ends) < 0)
		return 2;
	rounds = atol(argv[2]);
	zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	if (zero < 0 || null < 0)
		return 2;
	other = vfork();
	if (other == 0) {
		dup2(null, STDOUT_FILENO);
		execlp("cat", "cat", "/dev/zero", (char *)NULL);
		_exit(1);
	}
	for (int i = 0; i < threads; i++)
		if (pthread_create(&ids[i], NULL, run, NULL))
			return 2;
	for (int i = 0; i < threads; i++)
		pthread_join(ids[i], NULL);
	if (pthread_create(&waker, NULL, wake, &ends[1]))
		return 2;
	blocks(ends[0]);
	pthread_join(waker, NULL);
	kill(other, SIGKILL);
	waitpid(other, NULL, 0);
	printf("done\n");
	return 0;
}
