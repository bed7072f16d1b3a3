/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A known number of system calls of each kind, made by functions of two threads. The program waits
 * for a line, makes the calls, and ends at the end of its input.
 *
 * usage: syscaller ROUNDS FILE
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define QUIET __attribute__((no_instrument_function))
#define FUNC  __attribute__((noinline))

#define NAP 5000000 /* ns */

static const char *path;
static long rounds;
static int file;

QUIET static void check(int done)
{
	if (!done)
		abort();
}

FUNC void fail_open(void)
{
	for (int i = 0; i < 3; i++)
		check(open("/nonexistent/file", O_RDONLY | O_CLOEXEC) < 0);
	check(open("/dev/null/file", O_RDONLY) < 0);
}

FUNC void fail_read(void)
{
	char byte;

	for (int i = 0; i < 2; i++)
		check(read(-1, &byte, 1) < 0);
}

FUNC void open_file(void)
{
	file = open(path, O_RDONLY | O_CLOEXEC);
	check(file >= 0);
}

FUNC void read_file(void)
{
	char bytes[16];

	for (int i = 0; i < 10; i++)
		check(pread(file, bytes, sizeof(bytes), 0) == sizeof(bytes));
	nanosleep(&(struct timespec){.tv_nsec = NAP}, NULL);
}

FUNC void use_socket(void)
{
	int pair[2];
	char byte = 1;

	check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
	check(sendto(pair[0], &byte, 1, MSG_NOSIGNAL, NULL, 0) == 1);
	check(recvfrom(pair[1], &byte, 1, 0, NULL, NULL) == 1);
	check(recvfrom(pair[1], &byte, 1, MSG_DONTWAIT, NULL, NULL) < 0);
	close(pair[0]);
	close(pair[1]);
}

FUNC void ask_parent(void)
{
	for (int i = 0; i < 5; i++)
		syscall(SYS_getppid);
}

static void *other(void *unused)
{
	for (long i = 0; i < rounds; i++)
		ask_parent();
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	char byte;

	rounds = argc > 1 ? strtol(argv[1], NULL, 10) : 1;
	path = argc > 2 ? argv[2] : "/etc/passwd";
	check(write(1, "ready\n", 6) == 6);
	if (read(0, &byte, 1) != 1)
		return 1;
	check(pthread_create(&thread, NULL, other, NULL) == 0);
	open_file();
	for (long i = 0; i < rounds; i++) {
		fail_open();
		fail_read();
		read_file();
		use_socket();
	}
	check(pthread_join(thread, NULL) == 0);
	check(write(1, "done\n", 5) == 5);
	while (read(0, &byte, 1) == 1) /* the file is open until then */
		;
	return 0;
}
