/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread that ends out of five nested calls, in which it has been for a while, in a program that
 * goes on:
 *
 *   ends thread     by pthread_exit
 *   ends leader     the same, by the first thread
 *   ends child      by _exit of a forked child, for which nobody waits yet
 *   ends killed     by SIGKILL of such a child
 *   ends exec       because another thread executes a program: this one (ends idle BEGIN), which
 *                   makes no calls
 *
 * Prints "life NS": no less than how long the calls took. Everything but these is not instrumented.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define QUIET __attribute__((no_instrument_function))
#define KEEP  __attribute__((noinline))

#define IN_CALLS_NS 300000000
#define GOES_ON_NS  500000000

static void (*volatile leave)(void);
static volatile int sink;
static uint64_t begin;

QUIET static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_RAW, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

QUIET static void nap(long ns)
{
	nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

KEEP void inmost(void)
{
	nap(IN_CALLS_NS);
	leave();
	sink++;
}

#define LEVEL(name, next)                                                                          \
	KEEP void name(void)                                                                       \
	{                                                                                          \
		next();                                                                            \
		sink++;                                                                            \
	}

LEVEL(fourth, inmost)
LEVEL(third, fourth)
LEVEL(second, third)
LEVEL(outmost, second)

QUIET static void exit_thread(void)
{
	pthread_exit(NULL);
}

QUIET static void exit_process(void)
{
	_exit(0);
}

QUIET static void wait_to_be_killed(void)
{
	for (;;)
		pause();
}

QUIET static void *run(void *data)
{
	outmost();
	return data;
}

/* The thread has ended. */
QUIET static void go_on(void)
{
	printf("life %" PRIu64 "\n", now_ns() - begin);
	fflush(stdout);
	nap(GOES_ON_NS);
}

QUIET static void *survive(void *leader)
{
	pthread_join(*(pthread_t *)leader, NULL);
	go_on();
	exit(0);
}

QUIET static void be_parent(int killed)
{
	siginfo_t info;
	pid_t child = fork();

	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		outmost();
	}
	if (killed) {
		nap(2 * IN_CALLS_NS);
		kill(child, SIGKILL);
	}
	waitid(P_PID, child, &info, WEXITED | WNOWAIT);
	go_on();
	waitpid(child, NULL, 0);
}

QUIET static void execute(void)
{
	char text[24];

	nap(2 * IN_CALLS_NS);
	snprintf(text, sizeof(text), "%" PRIu64, begin);
	execl("/proc/self/exe", "ends", "idle", text, NULL);
}

QUIET int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";
	static pthread_t leader;
	pthread_t other;

	leave = exit_thread;
	begin = now_ns();
	if (!strcmp(how, "thread")) {
		if (pthread_create(&other, NULL, run, NULL))
			return 3;
		pthread_join(other, NULL);
		go_on();
	} else if (!strcmp(how, "leader")) {
		leader = pthread_self();
		if (pthread_create(&other, NULL, survive, &leader))
			return 3;
		outmost();
	} else if (!strcmp(how, "exec")) {
		leave = wait_to_be_killed;
		if (pthread_create(&other, NULL, run, NULL))
			return 3;
		execute();
		return 3;
	} else if (!strcmp(how, "idle")) {
		begin = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
		go_on();
	} else if (!strcmp(how, "child") || !strcmp(how, "killed")) {
		leave = how[0] == 'c' ? exit_process : wait_to_be_killed;
		be_parent(how[0] == 'k');
	} else {
		return 2;
	}
	return 0;
}
