/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server whose children call themselves something else a moment after they were forked. All of
 * them work until stdin is closed. The first argument is overwritten, as setproctitle(3) does it.
 *
 *   renamed ROOM-FOR-A-TITLE
 *
 * Prints "ready", and at each line of stdin one with the name of a process and its pid:
 *   title    a child that writes "saver: dump *:6379" over its command line
 *   name     a child that gives itself the name "helper", and a control character (prctl)
 *   same     a child that stays as it was
 *   below    a child of a child, with a title
 *   program  a child that works, asks for its session 7 times, and executes sleep(1) for 0.2 s
 */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static char *title;
static size_t room;

__attribute__((noinline)) static void step(int i)
{
	__asm__ volatile("" : : "r"(i) : "memory");
}

/* Until the writer of stdin has gone; lines are for the first process. */
static void work(void)
{
	struct pollfd p = {.fd = 0};

	for (int i = 0; poll(&p, 1, 1) == 0; i++)
		step(i);
}

static void become(const char *what)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	usleep(40000);
	if (!strcmp(what, "program")) {
		for (int i = 0; i < 7; i++) {
			step(i);
			getsid(0);
		}
		execlp("sleep", "sleep", "0.2", NULL);
		_exit(1);
	} else if (!strcmp(what, "name")) {
		prctl(PR_SET_NAME, "helper\x1b[1m");
	} else if (strcmp(what, "same")) {
		memset(title, 0, room);
		snprintf(title, room, "saver: dump *:6379");
	}
	work();
	_exit(0);
}

static void fork_one(const char *what)
{
	pid_t child = fork();

	if (child)
		return;
	if (!strcmp(what, "below")) {
		pid_t below = fork();

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (!below)
			become("title");
		printf("below %d %d\n", below, getpid());
		fflush(stdout);
		work();
		_exit(0);
	}
	printf("%s %d %d\n", what, getpid(), getppid());
	fflush(stdout);
	become(what);
}

int main(int argc, char **argv)
{
	struct pollfd p = {.fd = 0, .events = POLLIN};
	char line[32];

	if (argc != 2)
		return 2;
	title = argv[0];
	room = argv[1] + strlen(argv[1]) + 1 - argv[0];
	printf("ready\n");
	fflush(stdout);
	for (int i = 0;; i++) {
		step(i);
		if (poll(&p, 1, 1) <= 0)
			continue;
		if (!fgets(line, sizeof(line), stdin))
			break;
		line[strcspn(line, "\n")] = '\0';
		fork_one(line);
	}
	while (wait(NULL) > 0)
		;
	return 0;
}
