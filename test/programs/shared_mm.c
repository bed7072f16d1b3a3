/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two processes that share their memory: clone() with CLONE_VM and without CLONE_THREAD. Both check
 * their own arithmetic; a wrong result ends the one that sees it, and the other notices. Prints
 * "ready", then the other's pid; ends well when stdin is closed.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "own_area.h"

#define STACK	  262144
#define UNWATCHED __attribute__((no_instrument_function))

static volatile uint64_t rounds[2];

__attribute__((noinline)) uint64_t kin_step(uint64_t x)
{
	return x * 6364136223846793005ull + 1442695040888963407ull;
}

__attribute__((noinline)) uint64_t kin_walk(uint64_t x)
{
	for (int i = 0; i < 8; i++)
		x = kin_step(x);
	return x;
}

UNWATCHED static uint64_t expected(uint64_t x)
{
	for (int i = 0; i < 8; i++)
		x = x * 6364136223846793005ull + 1442695040888963407ull;
	return x;
}

UNWATCHED static int check(int who)
{
	uint64_t x = rounds[who];

	if (kin_walk(x) != expected(x))
		return -1;
	rounds[who]++;
	return 0;
}

/* Nothing of libc in here: it knows nothing of this thread. */
UNWATCHED static int other(void *arg)
{
	while (check(1) == 0)
		;
	return 1;
}

UNWATCHED int main(void)
{
	char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct pollfd in = {.fd = 0, .events = POLLIN};
	uint64_t seen = 0;
	pid_t pid;
	char *area = own_area_make();
	char c;

	if (stack == MAP_FAILED || !area)
		return 2;
	pid = clone(other, stack + STACK, CLONE_VM | CLONE_SETTLS | CLONE_PARENT_SETTID | SIGCHLD,
		    NULL, area + OWN_AREA_TID, area);
	if (pid < 0)
		return 2;
	printf("ready\n%d\n", pid);
	fflush(stdout);
	for (;;) {
		for (int i = 0; i < 1000; i++)
			if (check(0) < 0)
				return 3;
		if (waitpid(pid, NULL, WNOHANG) == pid)
			return 4;
		if (poll(&in, 1, 0) > 0 && read(0, &c, 1) <= 0)
			break;
	}
	/* it has gone on to the end */
	seen = rounds[1];
	while (rounds[1] == seen)
		usleep(1000);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return 0;
}
