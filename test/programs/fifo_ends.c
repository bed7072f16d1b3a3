/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waits for the other end of a FIFO (fifo(7)) to be opened, and for data from it:
 *
 *   fifo_ends FIFO ROUNDS         says "ready", and for each line on stdin opens FIFO for reading
 * in opens_fifo(), ROUNDS times; reads_fifo() reads it then. A thread of its own opens the other
 * end each time, writes and closes it, in end_opens(), after a nap fifo_ends FIFO ROUNDS alone
 * without that thread: someone else is to open the other end
 *
 * Says "done" behind them.
 */
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define QUIET __attribute__((no_instrument_function))
#define KEEP  __attribute__((noinline))

static const char *path;
static sem_t wanted;
static volatile int sink;

QUIET static void nap(void)
{
	const struct timespec t = {.tv_nsec = 8000000};

	nanosleep(&t, NULL);
}

KEEP int opens_fifo(void)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	sink++;
	return fd;
}

KEEP int reads_fifo(int fd)
{
	char byte;
	int n = 0;

	/* to the end: the other end is closed when it is opened again */
	while (read(fd, &byte, 1) > 0)
		n++;
	sink++;
	return n;
}

KEEP void end_opens(void)
{
	int fd;

	nap();
	fd = open(path, O_WRONLY | O_CLOEXEC);
	nap();
	sink += write(fd, "x", 1);
	close(fd);
}

QUIET static void *other_end(void *unused)
{
	(void)unused;
	for (;;) {
		sem_wait(&wanted);
		end_opens();
	}
	return NULL;
}

QUIET int main(int argc, char **argv)
{
	const int rounds = argc > 2 ? atoi(argv[2]) : 1;
	char line[80];
	pthread_t thread;

	path = argv[1];
	sem_init(&wanted, 0, 0);
	if (argc < 4)
		pthread_create(&thread, NULL, other_end, NULL);
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		for (int i = 0; i < rounds; i++) {
			int fd;

			if (argc < 4)
				sem_post(&wanted);
			fd = opens_fifo();
			reads_fifo(fd);
			close(fd);
		}
		puts("done");
		fflush(stdout);
	}
	return 0;
}
