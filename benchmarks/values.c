/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For benchmarks/values: times calls of a function whose values are recorded, and of one that is
 * recorded without values, in turns.
 *
 *   values ROUNDS CALLS     prints a line for each round: nanoseconds of a call of each
 *   values syscalls         prints what ways of the kernel to read memory cost, without hooks
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE   __attribute__((noipa))
#define UNRECORDED __attribute__((no_instrument_function))

struct file {
	long pad[3];
	int descriptor;
};
struct connection {
	long pad[9];
	struct file *file;
};
struct request {
	long pad[33];
	struct connection *connection;
	char *uri;
	unsigned long length;
};

NOINLINE int with(struct request *request)
{
	return request != NULL;
}

NOINLINE int without(struct request *request)
{
	return request != NULL;
}

UNRECORDED static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

UNRECORDED static double time_of(int (*f)(struct request *), struct request *request, long calls)
{
	double begin = now();

	for (long i = 0; i < calls; i++)
		f(request);
	return (now() - begin) / calls;
}

/* The least of many short bursts: what runs beside only adds. */
UNRECORDED static void time_syscall(const char *name, unsigned pieces, int gathers)
{
	static char memory[8][4096], to[64];
	struct iovec many[8], one = {to, 8 * pieces};
	double least = 1e9;

	for (unsigned i = 0; i < pieces; i++) {
		memory[i][0] = 1;
		many[i] = (struct iovec){memory[i], 8};
	}
	for (int burst = 0; burst < 500; burst++) {
		double begin = now();

		for (int i = 0; i < 100; i++)
			if (gathers)
				process_vm_writev(getpid(), many, pieces, &one, 1, 0);
			else
				process_vm_readv(getpid(), &one, 1, many, pieces, 0);
		begin = (now() - begin) / 100;
		least = begin < least ? begin : least;
	}
	printf("%s %u %.0f\n", name, pieces, least);
}

UNRECORDED int main(int argc, char **argv)
{
	struct request *request = calloc(1, sizeof(*request));
	long rounds = argc > 2 ? atol(argv[1]) : 0, calls = argc > 2 ? atol(argv[2]) : 0;
	const struct timespec pause = {0, 3000000};

	if (argc == 2) {
		for (unsigned n = 1; n <= 8; n *= 2) {
			time_syscall("process_vm_readv", n, 0);
			time_syscall("process_vm_writev", n, 1);
		}
		return 0;
	}
	request->connection = calloc(1, sizeof(*request->connection));
	request->connection->file = calloc(1, sizeof(*request->connection->file));
	request->connection->file->descriptor = 7;
	request->uri = strdup("/index.html HTTP/1.1");
	request->length = 11;
	for (long i = 0; i < rounds; i++) {
		double a = time_of(with, request, calls), b = time_of(without, request, calls);

		printf("%.2f %.2f\n", a, b);
		nanosleep(&pause, NULL);
	}
	return 0;
}
