/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls with paths, in memory that other paths take the next moment: each mkdir() that fails
 * has the mode of the number in its path. The program waits for a line, makes the calls, and ends
 * at the end of its input.
 *
 * usage: path_calls FOLDER MKDIRS
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define QUIET __attribute__((no_instrument_function))
#define FUNC  __attribute__((noinline))

static const char *folder;
static long mkdirs;
static char path[4096];

QUIET static void check(bool done)
{
	if (!done)
		abort();
}

QUIET static const char *in_folder(const char *name)
{
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

QUIET static void *make_many(void *name)
{
	char own[64];

	for (long i = 0; i < mkdirs; i++) {
		snprintf(own, sizeof(own), "/nonexistent/%s/%ld", (const char *)name, i);
		check(mkdir(own, i) < 0);
	}
	return NULL;
}

FUNC void use_files(void)
{
	char other[4096];
	struct stat st;

	check(open(in_folder("made"), O_RDWR | O_CREAT, 0600) >= 0);
	check(open(in_folder("none"), O_WRONLY | O_CLOEXEC) < 0);
	snprintf(other, sizeof(other), "%s/renamed", folder);
	check(rename(in_folder("made"), other) == 0);
	check(syscall(SYS_newfstatat, AT_FDCWD, other, &st, 0) == 0);
	check(syscall(SYS_newfstatat, 0, "", &st, AT_EMPTY_PATH) == 0);
	check(unlink(other) == 0);
	check(access(in_folder("a \"quoted\" \\ name\n"), R_OK) < 0);
	memset(path, 'a', sizeof(path));
	for (size_t i = 0; i < sizeof(path); i += 100)
		path[i] = '/';
	path[4000] = '\0';
	check(truncate(path, 1) < 0);
	check(syscall(SYS_chdir, 8) < 0); /* no memory stands there */
}

FUNC void fail_open(void)
{
	check(open("/nonexistent/file", O_RDONLY | O_CLOEXEC) < 0);
}

FUNC void execute(void)
{
	const pid_t child = fork();

	check(child >= 0);
	if (child == 0) {
		execl("/nonexistent/program", "program", NULL);
		execl("/bin/true", "true", NULL);
		_exit(1);
	}
	check(waitpid(child, NULL, 0) == child);
}

int main(int argc, char **argv)
{
	pthread_t thread;
	char byte;

	check(argc == 3);
	folder = argv[1];
	mkdirs = strtol(argv[2], NULL, 10);
	check(write(1, "ready\n", 6) == 6);
	if (read(0, &byte, 1) != 1)
		return 1;
	fail_open();
	check(pthread_create(&thread, NULL, make_many, "two") == 0);
	make_many("one");
	check(pthread_join(thread, NULL) == 0);
	use_files();
	execute();
	check(write(1, "done\n", 5) == 5);
	while (read(0, &byte, 1) == 1)
		;
	return 0;
}
