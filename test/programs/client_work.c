/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server that tells for whom it has worked. A request is two bytes: 'h' or 'l', the function that
 * serves it, and for how many milliseconds of CPU time it does so; the answer is one byte.
 *
 * usage: client_work epoll|threads|queue PATH
 *
 *   epoll     one thread reads and serves
 *   threads   each connection has a thread
 *   queue     one thread reads, another one serves and answers
 *
 * It listens on a port of 127.0.0.1 to 127.255.255.255, "port N" says which, and at the path of a
 * socket of unix(7). At the end of its input it tells the truth: "PEER REQUESTS CPU_NS" for each
 * connection, where the peer of a unix socket is "-".
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define QUIET __attribute__((no_instrument_function))
#define FUNC  __attribute__((noinline))
#define MOST  64

struct connection {
	int fd;
	char peer[32];
	uint64_t requests, cpu;
	unsigned char request[2];
};

static struct connection connections[MOST];
static int nconnections;
static const char *mode;
static int epoll;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;
static struct connection *queue[MOST];
static int queued;

QUIET static uint64_t cpu_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

QUIET static void burn(unsigned ms)
{
	const uint64_t begin = cpu_now();

	while (cpu_now() - begin < ms * 1000000ull)
		for (volatile int i = 0; i < 50000; i++)
			;
}

FUNC void heavy(unsigned ms)
{
	burn(ms);
	asm volatile(""); /* no tail call: it ends when the work does */
}

FUNC void light(unsigned ms)
{
	burn(ms);
	asm volatile(""); /* no tail call: it ends when the work does */
}

FUNC void serve(struct connection *c)
{
	const uint64_t begin = cpu_now();

	(c->request[0] == 'h' ? heavy : light)(c->request[1]);
	c->cpu += cpu_now() - begin;
	c->requests++;
	if (write(c->fd, "!", 1) != 1)
		abort();
}

QUIET static void *serve_queue(void *unused)
{
	for (;;) {
		struct connection *c;

		pthread_mutex_lock(&lock);
		while (!queued)
			pthread_cond_wait(&more, &lock);
		c = queue[--queued];
		pthread_mutex_unlock(&lock);
		serve(c);
	}
	return unused;
}

/* Returns 0 at the end of the connection. */
QUIET static int serve_one(struct connection *c)
{
	if (read(c->fd, c->request, 2) != 2)
		return 0;
	if (strcmp(mode, "queue")) {
		serve(c);
		return 1;
	}
	pthread_mutex_lock(&lock);
	queue[queued++] = c;
	pthread_cond_signal(&more);
	pthread_mutex_unlock(&lock);
	return 1;
}

QUIET static void *serve_connection(void *connection)
{
	while (serve_one(connection))
		;
	return connection;
}

QUIET static void add(int listening)
{
	struct sockaddr_in from = {0};
	socklen_t size = sizeof(from);
	struct connection *c = &connections[nconnections++];
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
	pthread_t thread;

	c->fd = accept4(listening, (void *)&from, &size, SOCK_CLOEXEC);
	if (c->fd < 0)
		abort();
	if (from.sin_family == AF_INET)
		snprintf(c->peer, sizeof(c->peer), "%s:%d", inet_ntoa(from.sin_addr),
			 ntohs(from.sin_port));
	else
		strcpy(c->peer, "-");
	if (!strcmp(mode, "threads"))
		pthread_create(&thread, NULL, serve_connection, c);
	else if (epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd, &event))
		abort();
}

QUIET static int wait_at(const struct sockaddr *address, socklen_t size)
{
	struct epoll_event event = {.events = EPOLLIN};
	int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	event.data.u64 = fd;
	if (fd < 0 || bind(fd, address, size) || listen(fd, MOST) ||
	    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event))
		abort();
	return fd;
}

QUIET int main(int argc, char **argv)
{
	struct sockaddr_in tcp = {.sin_family = AF_INET};
	struct sockaddr_un local = {.sun_family = AF_UNIX};
	struct epoll_event event = {.events = EPOLLIN};
	socklen_t size = sizeof(tcp);
	pthread_t thread;
	char byte;
	int fd;

	if (argc < 3)
		return 2;
	mode = argv[1];
	snprintf(local.sun_path, sizeof(local.sun_path), "%s", argv[2]);
	epoll = epoll_create1(EPOLL_CLOEXEC);
	fd = wait_at((void *)&tcp, sizeof(tcp));
	wait_at((void *)&local, sizeof(local));
	event.data.u64 = 0;
	if (epoll_ctl(epoll, EPOLL_CTL_ADD, 0, &event) || getsockname(fd, (void *)&tcp, &size))
		abort();
	if (!strcmp(mode, "queue"))
		pthread_create(&thread, NULL, serve_queue, NULL);
	printf("port %d\n", ntohs(tcp.sin_port));
	fflush(stdout);
	for (;;) {
		if (epoll_wait(epoll, &event, 1, -1) != 1)
			continue;
		if (!event.data.u64) {
			if (read(0, &byte, 1) <= 0)
				break;
		} else if (event.data.u64 < 1024) {
			add(event.data.u64);
		} else if (!serve_one(event.data.ptr)) {
			epoll_ctl(epoll, EPOLL_CTL_DEL, ((struct connection *)event.data.ptr)->fd,
				  NULL);
		}
	}
	for (int i = 0; i < nconnections; i++)
		printf("%s %lu %lu\n", connections[i].peer, connections[i].requests,
		       connections[i].cpu);
	return 0;
}
