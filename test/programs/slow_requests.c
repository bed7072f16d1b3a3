/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server whose requests have keys, and one of which waits for a lock that another thread holds:
 *
 *   slow_requests ROUNDS   says "ready PID", and serves ROUNDS rounds of requests for each line on
 *                          stdin, then says "done"
 *
 * A round is handle_request("/a", 1), "/b" and "/c". "/b" waits until compact(), which runs in a
 * thread of its own, gives the lock back: some 20 ms. It returns 503, the others 200. The program
 * makes five calls of getppid(2) a round, and reads its own memory by process_vm_readv(2) once.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define QUIET __attribute__((no_instrument_function))
#define KEEP  __attribute__((noinline))

#define HELD_NS 20000000

static struct {
	pthread_mutex_t lock;
} db = {.lock = PTHREAD_MUTEX_INITIALIZER};
static pthread_barrier_t held;
static volatile unsigned served;

KEEP void compact(void)
{
	const struct timespec nap = {.tv_nsec = HELD_NS};

	pthread_mutex_lock(&db.lock);
	pthread_barrier_wait(&held);
	nanosleep(&nap, NULL);
	pthread_mutex_unlock(&db.lock);
}

QUIET static void *compactor(void *unused)
{
	(void)unused;
	for (;;) {
		pthread_barrier_wait(&held); /* a request is about to want the lock */
		compact();
		pthread_barrier_wait(&held);
	}
	return NULL;
}

KEEP int handle_request(const char *uri, int id)
{
	served += id;
	if (strcmp(uri, "/b"))
		return 200;
	pthread_mutex_lock(&db.lock);
	pthread_mutex_unlock(&db.lock);
	return 503;
}

QUIET static void round_of_requests(void)
{
	static const char *const uris[] = {"/a", "/b", "/c"};
	char copy[2];
	struct iovec from = {(void *)uris[0], sizeof(copy)}, to = {copy, sizeof(copy)};

	for (int i = 0; i < 3; i++) {
		if (i == 1) {
			pthread_barrier_wait(&held);
			pthread_barrier_wait(&held);
		}
		handle_request(uris[i], i + 1);
		if (i == 1)
			pthread_barrier_wait(&held);
	}
	for (int i = 0; i < 5; i++)
		syscall(SYS_getppid);
	syscall(SYS_process_vm_readv, getpid(), &to, 1, &from, 1, 0);
}

QUIET int main(int argc, char **argv)
{
	const int rounds = argc > 1 ? atoi(argv[1]) : 1;
	char line[80];
	pthread_t thread;

	pthread_barrier_init(&held, NULL, 2);
	pthread_create(&thread, NULL, compactor, NULL);
	printf("ready %d\n", getpid());
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		for (int i = 0; i < rounds; i++)
			round_of_requests();
		puts("done");
		fflush(stdout);
	}
	return 0;
}
