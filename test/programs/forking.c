/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process and its forked child, both at work until stdin is closed. Prints "ready" and the
 * child's pid.
 */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

__attribute__((noinline)) static void step(int i)
{
	__asm__ volatile("" : : "r"(i) : "memory");
}

static void work(void)
{
	struct pollfd p = {.fd = 0, .events = POLLIN};

	for (int i = 0; poll(&p, 1, 1) == 0; i++)
		step(i);
}

int main(void)
{
	pid_t child = fork();

	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		work();
		_exit(0);
	}
	printf("ready\n%d\n", child);
	fflush(stdout);
	work();
	return waitpid(child, NULL, 0) == child ? 0 : 1;
}
