/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many processes of one program, each with an exec of its own: "crowd" reads lines from its
 * standard input,
 *
 *   more N WORD   starts N more, whose command line is "PATH WORD", and says their numbers, in one
 *                 line
 *
 * and kills those that are left when that ends. Any other argument makes it one of these: it
 * sleeps, and calls work() a hundred times for each SIGUSR1.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#define QUIET __attribute__((no_instrument_function))

extern char **environ;

static volatile unsigned sink;

__attribute__((noinline)) void work(void)
{
	sink++;
}

QUIET static void on_signal(int number)
{
	(void)number;
}

/* The signal comes in sigsuspend() alone, so that none is lost. Whose end has not been seen is told
 * by the kernel. */
QUIET static int sleep_and_work(void)
{
	sigset_t blocked, none;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	sigemptyset(&none);
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGUSR1);
	sigprocmask(SIG_SETMASK, &blocked, NULL);
	signal(SIGUSR1, on_signal);
	for (;;) {
		sigsuspend(&none);
		for (int i = 0; i < 100; i++)
			work();
	}
}

/* 0, or -1: it cannot be started. */
QUIET static int start(const char *path, char *word)
{
	char *argv[] = {(char *)path, word, NULL};
	posix_spawnattr_t attributes;
	sigset_t usr1;
	pid_t pid;
	int error;

	/* blocked from the start: a signal that comes early waits */
	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setsigmask(&attributes, &usr1);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
	error = posix_spawn(&pid, path, NULL, &attributes, argv, environ);
	posix_spawnattr_destroy(&attributes);
	if (error)
		return -1;
	printf(" %d", pid);
	return 0;
}

int main(int argc, char **argv)
{
	char word[64];
	unsigned n;

	if (argc > 1)
		return sleep_and_work();
	signal(SIGCHLD, SIG_IGN); /* nobody waits for them */
	puts("ready");
	fflush(stdout);
	while (scanf(" more %u %63s", &n, word) == 2) {
		for (unsigned i = 0; i < n; i++)
			if (start(argv[0], word) < 0)
				return 1;
		puts("");
		fflush(stdout);
	}
	return 0;
}
