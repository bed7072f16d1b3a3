/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that wait in uninterruptible sleep for a lock of the kernel which a thread holds that
 * gets hardly any CPU: one of the lowest priority writes much to a file, again and again, and
 * others want to write to the same file. To be started on one CPU, beside a busy loop.
 *
 *   starved_lock MIB WAITERS
 *
 * MIB: what is written at once. Prints "ready"; ends when stdin is closed.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HIDDEN __attribute__((no_instrument_function))

static int file;
static size_t size;
static volatile unsigned steps;

__attribute__((noinline)) static void step(void)
{
	steps++;
}

HIDDEN static void be_last(void)
{
	if (setpriority(PRIO_PROCESS, syscall(SYS_gettid), 19) < 0)
		abort();
}

HIDDEN static void *hold(void *bytes)
{
	be_last();
	while (pwrite(file, bytes, size, 0) == (ssize_t)size)
		;
	abort();
}

HIDDEN static void *want(void *unused)
{
	be_last();
	while (pwrite(file, "", 1, 0) == 1)
		step();
	abort();
	return unused;
}

HIDDEN int main(int argc, char **argv)
{
	int waiters = argc > 2 ? atoi(argv[2]) : 2;
	pthread_t thread;
	void *bytes;
	char c;

	size = (argc > 1 ? atoi(argv[1]) : 32) * 1048576ul;
	file = memfd_create("written", MFD_CLOEXEC);
	bytes = calloc(1, size);
	if (file < 0 || !bytes || pwrite(file, bytes, size, 0) != (ssize_t)size)
		return 2;
	pthread_create(&thread, NULL, hold, bytes);
	for (int i = 0; i < waiters; i++)
		pthread_create(&thread, NULL, want, NULL);
	puts("ready");
	fflush(stdout);
	while (read(0, &c, 1) > 0)
		;
	return 0;
}
