/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes a call for each line on stdin, and stays in it for a minute, or until a SIGUSR1: a call
 * that is open when a recording ends. Says "ready" first.
 */
#include <signal.h>
#include <stdio.h>
#include <time.h>

static volatile unsigned long called;

static void nothing(int sig)
{
	(void)sig;
}

__attribute__((noinline)) void held(void)
{
	const struct timespec minute = {.tv_sec = 60};

	called++;
	nanosleep(&minute, NULL);
	called++;
}

int main(void)
{
	char line[80];

	signal(SIGUSR1, nothing);
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin))
		held();
	return 0;
}
