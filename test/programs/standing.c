/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that is hard, or not, to come near for others: standing MODE [COMMAND ARGS].
 *
 *   plain         as it is
 *   idle          likewise, but work() is called at a line "work" alone
 *   undumpable    prctl(PR_SET_DUMPABLE, 0)
 *   own-userns    in a user namespace that it has made itself
 *   userns UID    (root) as user UID, in a user namespace that root has made
 *
 * It says "ready", calls work() all the time, and lives until its standard input ends. At a line
 * "exec" it becomes COMMAND.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile unsigned sink;

__attribute__((noinline)) static unsigned work(unsigned x)
{
	__asm__ volatile("" : "+r"(x));
	return x * 3 + 1;
}

static void write_file(pid_t pid, const char *name, const char *text)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	fd = open(path, O_WRONLY);
	if (fd < 0 || write(fd, text, strlen(text)) < 0) {
		perror(path);
		exit(1);
	}
	close(fd);
}

/* Our parent, who stays outside, writes what we are inside. */
static void enter_userns(const char *user, char **argv)
{
	int made[2], mapped[2];
	char map[64], byte;
	pid_t parent = getpid(), helper;

	if (pipe(made) < 0 || pipe(mapped) < 0)
		exit(1);
	helper = fork();
	if (helper == 0) {
		close(made[1]);
		if (read(made[0], &byte, 1) != 1)
			_exit(1);
		snprintf(map, sizeof(map), "%s %s 1", user, user);
		write_file(parent, "setgroups", "deny");
		write_file(parent, "uid_map", map);
		write_file(parent, "gid_map", map);
		_exit(write(mapped[1], "x", 1) != 1);
	}
	if (unshare(CLONE_NEWUSER) < 0) {
		perror("unshare");
		exit(77);
	}
	if (write(made[1], "x", 1) != 1 || read(mapped[0], &byte, 1) != 1 ||
	    waitpid(helper, NULL, 0) < 0)
		exit(1);
	close(made[0]), close(made[1]), close(mapped[0]), close(mapped[1]);
	if (setresgid(atoi(user), atoi(user), atoi(user)) < 0 ||
	    setresuid(atoi(user), atoi(user), atoi(user)) < 0) {
		perror("setresuid");
		exit(1);
	}
	/* an exec makes it dumpable again */
	argv[2] = (char *)"plain";
	execv("/proc/self/exe", argv + 1);
	exit(1);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "plain";
	bool idle = !strcmp(mode, "idle");
	char line[64];

	if (!strcmp(mode, "undumpable") && prctl(PR_SET_DUMPABLE, 0) < 0)
		return 1;
	if (!strcmp(mode, "own-userns")) {
		/* an exec makes it dumpable again */
		if (unshare(CLONE_NEWUSER) == 0)
			execl("/proc/self/exe", argv[0], "plain", NULL);
		perror("unshare");
		return 77;
	}
	if (!strcmp(mode, "userns") && argc > 2) {
		char *again[] = {argv[0], argv[0], argv[2], NULL};

		enter_userns(argv[2], again);
	}
	puts("ready");
	fflush(stdout);
	for (;;) {
		struct pollfd p = {.fd = 0, .events = POLLIN};

		for (int i = 0; i < 50 && !idle; i++)
			sink = work(sink);
		if (poll(&p, 1, idle ? -1 : 1) <= 0)
			continue;
		if (!fgets(line, sizeof(line), stdin))
			return 0;
		if (!strcmp(line, "work\n"))
			sink = work(sink);
		if (!strcmp(line, "exec\n") && argc > 2) {
			execv(argv[2], argv + 2);
			return 1;
		}
	}
}
