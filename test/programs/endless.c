/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads in system calls that wait without a limit and that return EINTR after any stop: none of
 * them may come back before the program itself ends the wait. Prints "ready", then, on a line from
 * stdin, wakes them all and prints how each ended.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/sem.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HIDDEN __attribute__((no_instrument_function))

static int wake, semaphores;
static pthread_barrier_t started;
static volatile unsigned ticks;

__attribute__((noinline)) static void tick(void)
{
	ticks++;
}

HIDDEN static int in_epoll_wait(void)
{
	struct epoll_event event = {.events = EPOLLIN};
	int fd = epoll_create1(0);

	epoll_ctl(fd, EPOLL_CTL_ADD, wake, &event);
	pthread_barrier_wait(&started);
	return epoll_wait(fd, &event, 1, -1);
}

HIDDEN static int in_epoll_pwait(void)
{
	struct epoll_event event = {.events = EPOLLIN};
	int fd = epoll_create1(0);

	epoll_ctl(fd, EPOLL_CTL_ADD, wake, &event);
	pthread_barrier_wait(&started);
	return epoll_pwait(fd, &event, 1, -1, NULL);
}

HIDDEN static int in_semop(void)
{
	struct sembuf down = {0, -1, 0};

	pthread_barrier_wait(&started);
	return semop(semaphores, &down, 1) ? -1 : 1;
}

HIDDEN static int in_sigwaitinfo(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	pthread_barrier_wait(&started);
	return sigwaitinfo(&set, NULL) == SIGUSR2 ? 1 : -1;
}

static const struct {
	const char *name;
	int (*wait)(void);
} calls[] = {
	{"epoll_wait", in_epoll_wait},
	{"epoll_pwait", in_epoll_pwait},
	{"semop", in_semop},
	{"sigwaitinfo", in_sigwaitinfo},
};

#define NCALLS (sizeof(calls) / sizeof(*calls))

static int results[NCALLS], errors[NCALLS];
static volatile int early[NCALLS], waking;

HIDDEN static void *thread(void *index)
{
	size_t i = (size_t)index;

	results[i] = calls[i].wait();
	errors[i] = errno;
	early[i] = !waking;
	return NULL;
}

HIDDEN static void *ticker(void *arg)
{
	for (;;) {
		tick();
		usleep(500);
	}
	return arg;
}

HIDDEN int main(void)
{
	struct sembuf up = {0, 1, 0};
	pthread_t threads[NCALLS], extra;
	char line[16];
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	wake = eventfd(0, 0);
	semaphores = semget(IPC_PRIVATE, 1, 0600);
	pthread_barrier_init(&started, NULL, NCALLS + 1);
	for (size_t i = 0; i < NCALLS; i++)
		pthread_create(&threads[i], NULL, thread, (void *)i);
	pthread_create(&extra, NULL, ticker, NULL);
	pthread_barrier_wait(&started);
	usleep(100000);
	puts("ready");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		line[0] = '\0';
	waking = 1;
	eventfd_write(wake, 1);
	semop(semaphores, &up, 1);
	pthread_kill(threads[3], SIGUSR2);
	for (size_t i = 0; i < NCALLS; i++)
		pthread_join(threads[i], NULL);
	semctl(semaphores, 0, IPC_RMID);
	for (size_t i = 0; i < NCALLS; i++)
		printf("%s %s\n", calls[i].name,
		       early[i]		 ? strerror(errors[i])
		       : results[i] == 1 ? "good"
					 : "wrong result");
	return 0;
}
