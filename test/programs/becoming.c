// SPDX-License-Identifier: Apache-2.0
/*
 * Calls tick() all the time, and becomes what it is told by letters on its standard input, while a
 * session goes on:
 *
 *   becoming [PROGRAM]
 *
 *   d  undumpable
 *   f  forks a child, which calls tick() as well; the next letters but f are the child's
 *   x  executes PROGRAM, which has no arguments
 *
 * Says "ready", and "done LETTER" behind each but x. At the end of its input the child ends, and
 * then it says "good", and the child's status where there was one.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define HIDDEN __attribute__((no_instrument_function))

static volatile unsigned ticks;

__attribute__((noinline)) void tick(void)
{
	ticks++;
}

HIDDEN static void *ticker(void *arg)
{
	for (;;) {
		tick();
		usleep(500);
	}
	return arg;
}

HIDDEN static void begin(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, ticker, NULL);
}

HIDDEN static void obey(char letter, const char *program)
{
	if (letter == 'd')
		prctl(PR_SET_DUMPABLE, 0);
	if (letter == 'x') {
		execl(program, "program", NULL);
		perror(program);
		_exit(2);
	}
}

int main(int argc, char **argv)
{
	const char *program = argc > 1 ? argv[1] : "/bin/true";
	int ends[2], child = 0, status = 0;
	char letter;

	begin();
	puts("ready");
	fflush(stdout);
	while (read(STDIN_FILENO, &letter, 1) == 1) {
		if (letter == 'f' && !child && pipe(ends) == 0) {
			child = fork();
			if (child == 0) {
				close(ends[1]);
				begin();
				while (read(ends[0], &letter, 1) == 1)
					obey(letter, program);
				_exit(0);
			}
			close(ends[0]);
		} else if (child) {
			if (write(ends[1], &letter, 1) != 1)
				return 3;
		} else {
			obey(letter, program);
		}
		printf("done %c\n", letter);
		fflush(stdout);
	}
	if (child) {
		close(ends[1]);
		waitpid(child, &status, 0);
		printf("good %d\n", status);
	} else {
		puts("good");
	}
	return 0;
}
