/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executes another program in the midst of a stop.
 *
 *   execing PROGRAM NTH MICROSECONDS
 *   execing PROGRAM FIFO
 *
 * Threads wait in epoll_wait with a time limit, the first one too; one calls tick(). Says "ready".
 * As soon as the first one is seen to stand under a tracer for the NTH time, and so many
 * microseconds have gone by, another thread executes PROGRAM; or when something comes through FIFO.
 * At the end of its stdin it ends, with "not executed". A call that returns EINTR is told, and ends
 * it with 3.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#define HIDDEN	__attribute__((no_instrument_function))
#define WAITERS 3

static volatile unsigned ticks;

__attribute__((noinline)) void tick(void)
{
	ticks++;
}

HIDDEN static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

HIDDEN static void *wait_for_nothing(void *arg)
{
	int fd = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event e;

	for (;;)
		if (epoll_wait(fd, &e, 1, 10000000) < 0) {
			printf("epoll_wait: errno %d\n", errno);
			fflush(stdout);
			_exit(3);
		}
	return arg;
}

HIDDEN static void *ticker(void *arg)
{
	for (;;) {
		tick();
		usleep(500);
	}
	return arg;
}

HIDDEN static void *reader(void *arg)
{
	char c;

	while (read(0, &c, 1) > 0)
		;
	puts("not executed");
	fflush(stdout);
	_exit(0);
	return arg;
}

/* Whether the first thread stands under a tracer. */
HIDDEN static int stands(int fd)
{
	char text[512], *state;
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

	if (n <= 0)
		return 0;
	text[n] = '\0';
	state = strrchr(text, ')');
	return state && state[2] == 't';
}

struct when {
	char *program, *fifo;
	int nth, us, fd;
};

HIDDEN static void *executor(void *arg)
{
	struct when *w = arg;
	double at;
	char c;

	if (w->fifo) {
		int fd = open(w->fifo, O_RDWR | O_CLOEXEC);

		puts("ready");
		fflush(stdout);
		if (read(fd, &c, 1) == 1)
			execl(w->program, "program", NULL);
		perror(w->program);
		_exit(2);
	}
	for (int seen = 0; seen < w->nth; seen++) {
		while (seen && stands(w->fd))
			;
		while (!stands(w->fd))
			;
	}
	at = now() + w->us / 1e6;
	while (now() < at)
		;
	execl(w->program, "program", NULL);
	perror(w->program);
	_exit(2);
}

HIDDEN int main(int argc, char **argv)
{
	struct when w = {argv[1], argc == 3 ? argv[2] : NULL, atoi(argv[2]),
			 argc > 3 ? atoi(argv[3]) : 0, -1};
	char name[64];
	pthread_t thread;

	snprintf(name, sizeof(name), "/proc/self/task/%d/stat", getpid());
	w.fd = open(name, O_RDONLY | O_CLOEXEC);
	if (w.fd < 0)
		return 2;
	for (int i = 0; i < WAITERS; i++)
		pthread_create(&thread, NULL, wait_for_nothing, NULL);
	pthread_create(&thread, NULL, ticker, NULL);
	pthread_create(&thread, NULL, reader, NULL);
	pthread_create(&thread, NULL, executor, &w);
	if (!w.fifo) {
		puts("ready");
		fflush(stdout);
	}
	wait_for_nothing(NULL);
	return 0;
}
