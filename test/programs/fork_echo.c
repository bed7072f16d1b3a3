/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server that forks a child for each connection, as small ones do; and one of datagrams.
 *
 * usage: fork_echo fork|threads|datagrams [PORT]
 *
 *   fork       a child reads one request, works, answers, and ends with the connection
 *   threads    the same by a thread
 *   datagrams  one thread receives and answers; for each request it asks the server of datagrams at
 *              PORT of 127.0.0.1
 *
 * A request is one byte: for how many milliseconds of CPU time it is worked; so is the answer. It
 * listens at a port of 127.0.0.1, "port N" says which. At the end of its input it ends.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define QUIET __attribute__((no_instrument_function))
#define FUNC  __attribute__((noinline))

QUIET static uint64_t cpu_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

FUNC void serve(unsigned ms)
{
	const uint64_t begin = cpu_now();

	while (cpu_now() - begin < ms * 1000000ull)
		for (volatile int i = 0; i < 20000; i++)
			;
	asm volatile(""); /* no tail call: it ends when the work does */
}

FUNC void handle(int fd)
{
	unsigned char ms;

	if (read(fd, &ms, 1) == 1) {
		serve(ms);
		if (write(fd, &ms, 1) != 1)
			abort();
	}
	close(fd);
}

QUIET static void *handle_in_thread(void *fd)
{
	handle((intptr_t)fd);
	return NULL;
}

FUNC void take(int listening, int forks)
{
	int fd = accept(listening, NULL, NULL);
	pthread_t thread;

	if (fd < 0)
		abort();
	if (!forks) {
		if (pthread_create(&thread, NULL, handle_in_thread, (void *)(intptr_t)fd))
			abort();
		pthread_detach(thread);
		return;
	}
	if (fork() == 0) {
		handle(fd);
		_exit(0);
	}
	close(fd);
}

/* Asks another server, as a resolver does. */
FUNC void ask(int fd)
{
	char byte = 'q';

	if (send(fd, &byte, 1, 0) != 1 || recv(fd, &byte, 1, 0) != 1)
		abort();
}

FUNC void receive(int fd, int asking)
{
	struct sockaddr_in from;
	unsigned char ms;
	struct iovec part = {&ms, 1};
	struct msghdr message = {
		.msg_name = &from, .msg_namelen = sizeof(from), .msg_iov = &part, .msg_iovlen = 1};

	if (recvmsg(fd, &message, 0) != 1)
		abort();
	ask(asking);
	serve(ms);
	if (sendto(fd, &ms, 1, 0, (void *)&from, sizeof(from)) != 1)
		abort();
}

QUIET static int bind_to(int type, struct sockaddr_in *ret)
{
	socklen_t size = sizeof(*ret);
	int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);

	*ret = (struct sockaddr_in){.sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	if (fd < 0 || bind(fd, (void *)ret, sizeof(*ret)) || getsockname(fd, (void *)ret, &size))
		abort();
	return fd;
}

FUNC void loop(int fd, int forks, int asking)
{
	struct pollfd polls[] = {{.fd = fd, .events = POLLIN}, {.fd = 0, .events = POLLIN}};

	for (;;) {
		if (poll(polls, 2, -1) < 0)
			continue;
		if (polls[0].revents && asking >= 0)
			receive(fd, asking);
		else if (polls[0].revents)
			take(fd, forks);
		else if (polls[1].revents)
			return;
	}
}

QUIET int main(int argc, char **argv)
{
	const int datagrams = argc > 2 && !strcmp(argv[1], "datagrams");
	struct sockaddr_in address, other;
	int fd = bind_to(datagrams ? SOCK_DGRAM : SOCK_STREAM, &address), asking = -1;

	if (datagrams) {
		asking = bind_to(SOCK_DGRAM, &other);
		other.sin_port = htons(atoi(argv[2]));
		if (connect(asking, (void *)&other, sizeof(other)))
			abort();
	} else if (listen(fd, 64)) {
		abort();
	}
	signal(SIGCHLD, SIG_IGN);
	printf("port %d\n", ntohs(address.sin_port));
	fflush(stdout);
	loop(fd, argc > 1 && !strcmp(argv[1], "fork"), asking);
	return 0;
}
