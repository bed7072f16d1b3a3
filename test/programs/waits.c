/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waits once in the system call that is named, and tells what it returned: a target for borrowing a
 * thread.
 *
 *   waits read|epoll|epoll_wait|epoll_pwait|poll|nanosleep|select|futex|wait|pause|thread|busy|
 *         turns|seccomp
 *
 * Says "ready" first. read, epoll, turns and thread take what is written to stdin, busy a SIGALRM
 * (or it ends after a minute); all others end by themselves after a second. The last line is
 * "good", or what was wrong. thread: in a thread with the smallest stack there is, in read. busy:
 * in no call at all, checking a random sequence against itself. turns: in read, and in no call from
 * a SIGUSR1 to a SIGUSR2. seccomp: in nanosleep, under a filter that allows everything.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define KEEP __attribute__((noinline))

static volatile sig_atomic_t alarms;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

KEEP static int judge(const char *what, int good, long got)
{
	if (good)
		puts("good");
	else
		printf("%s: returned %ld, errno %d\n", what, got, errno);
	return !good;
}

static void on_alarm(int number)
{
	alarms += number == SIGALRM;
}

KEEP static uint64_t next(uint64_t x)
{
	x ^= x << 13;
	x ^= x >> 7;
	return x ^ x << 17;
}

KEEP static double scale(double x, double by)
{
	return x * by;
}

/* Integer and vector registers, and malloc, without a system call. */
static int busy(void)
{
	double end = now() + 60, sum = 0;
	uint64_t x = 88172645463325252u, y = x;

	while (!alarms && now() < end)
		for (int i = 0; i < 20000; i++) {
			char *p;

			x = next(x);
			y ^= y << 13;
			y ^= y >> 7;
			y ^= y << 17;
			sum += scale(1.0, 3.0);
			p = malloc(x % 300 + 1);
			memset(p, 1, x % 300 + 1);
			sum -= p[x % 300] + 2;
			free(p);
			if (x != y || sum != 0.0)
				return judge("busy", 0, i);
		}
	return judge("busy", 1, 0);
}

static volatile sig_atomic_t calm;

static void on_turn(int number)
{
	uint64_t x = 1;

	calm = number == SIGUSR2;
	while (!calm)
		x = next(x);
}

static void *read_one(void *arg)
{
	char c = 0;
	long n = read(0, &c, 1);

	return (void *)(intptr_t)judge(arg, n == 1 && c == 'x', n);
}

/* that calls with a limit wait: more on a slow machine, where we take longer to come */
static time_t seconds = 1;

KEEP static int sleep_for_seconds(void)
{
	struct timespec t = {seconds, 0};
	double began = now();
	int ret = nanosleep(&t, NULL);

	return judge("nanosleep", ret == 0 && now() - began >= seconds, ret);
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "", *patience = getenv("IPROBE_TEST_PATIENCE");
	double began = now();

	if (patience && atoi(patience) > 1)
		seconds = atoi(patience);
	signal(SIGALRM, on_alarm);
	signal(SIGUSR1, on_turn);
	signal(SIGUSR2, on_turn);
	puts("ready");
	fflush(stdout);
	if (!strcmp(how, "read") || !strcmp(how, "turns")) {
		return (int)(intptr_t)read_one((void *)how);
	} else if (!strcmp(how, "epoll")) {
		struct epoll_event e = {.events = EPOLLIN};
		int fd = epoll_create1(0), ret;

		if (epoll_ctl(fd, EPOLL_CTL_ADD, 0, &e))
			return judge(how, 0, -1);
		ret = epoll_wait(fd, &e, 1, -1);
		return judge(how, ret == 1, ret);
	} else if (!strcmp(how, "epoll_wait") || !strcmp(how, "epoll_pwait")) {
		int fd = epoll_create1(0), limit = 1000 * (int)seconds;
		struct epoll_event e;
		sigset_t none;
		long ret;

		sigemptyset(&none);
		ret = !strcmp(how, "epoll_wait") ? epoll_wait(fd, &e, 1, limit)
						 : epoll_pwait(fd, &e, 1, limit, &none);
		return judge(how, ret == 0 && now() - began >= seconds, ret);
	} else if (!strcmp(how, "thread")) {
		pthread_attr_t attr;
		pthread_t thread;
		void *ret;

		pthread_attr_init(&attr);
		pthread_attr_setstacksize(&attr, PTHREAD_STACK_MIN);
		if (pthread_create(&thread, &attr, read_one, (void *)how))
			return 1;
		pthread_join(thread, &ret);
		return (int)(intptr_t)ret;
	} else if (!strcmp(how, "nanosleep")) {
		return sleep_for_seconds();
	} else if (!strcmp(how, "poll")) {
		struct pollfd p = {.fd = -1};
		int ret = poll(&p, 1, 1000 * (int)seconds);

		return judge(how, ret == 0 && now() - began >= seconds, ret);
	} else if (!strcmp(how, "select")) {
		struct timeval t = {seconds, 0};
		int ret = select(0, NULL, NULL, NULL, &t);

		return judge(how, ret == 0 && now() - began >= seconds, ret);
	} else if (!strcmp(how, "futex")) {
		static uint32_t word;
		struct timespec t = {seconds, 0};
		long ret = syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &t, NULL, 0);

		return judge(how, ret == -1 && errno == ETIMEDOUT && now() - began >= seconds, ret);
	} else if (!strcmp(how, "wait")) {
		pid_t child = fork();
		int status = 0, ret;

		if (child == 0) {
			sleep(seconds);
			_exit(7);
		}
		ret = waitpid(child, &status, 0);
		return judge(how, ret == child && WEXITSTATUS(status) == 7, ret);
	} else if (!strcmp(how, "pause")) {
		int ret;

		alarm(seconds);
		ret = pause();
		return judge(how, ret == -1 && errno == EINTR && alarms == 1, ret);
	} else if (!strcmp(how, "busy")) {
		return busy();
	} else if (!strcmp(how, "seccomp")) {
		struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
		struct sock_fprog program = {1, &allow};

		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
		    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
			return judge(how, 0, -1);
		return sleep_for_seconds();
	}
	return 2;
}
