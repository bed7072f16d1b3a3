// SPDX-License-Identifier: Apache-2.0
/*
 * Preloaded: runs the shell command $AT_DO once, just before the first call of the function
 * $AT_NAME goes to the kernel. So a test changes what lies behind a path at an exact step.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void at(const char *name)
{
	static int done;
	const char *wanted = getenv("AT_NAME"), *command = getenv("AT_DO");

	if (done || !wanted || !command || strcmp(wanted, name))
		return;
	done = 1;
	unsetenv("LD_PRELOAD");
	if (system(command))
		abort();
}

int fchmod(int fd, mode_t mode)
{
	int (*next)(int, mode_t) = dlsym(RTLD_NEXT, "fchmod");

	at("fchmod");
	return next(fd, mode);
}

int rename(const char *from, const char *to)
{
	int (*next)(const char *, const char *) = dlsym(RTLD_NEXT, "rename");

	at("rename");
	return next(from, to);
}

int renameat(int a, const char *from, int b, const char *to)
{
	int (*next)(int, const char *, int, const char *) = dlsym(RTLD_NEXT, "renameat");

	at("rename");
	return next(a, from, b, to);
}

int renameat2(int a, const char *from, int b, const char *to, unsigned flags)
{
	int (*next)(int, const char *, int, const char *, unsigned) = dlsym(RTLD_NEXT, "renameat2");

	at("rename");
	return next(a, from, b, to, flags);
}

int linkat(int a, const char *from, int b, const char *to, int flags)
{
	int (*next)(int, const char *, int, const char *, int) = dlsym(RTLD_NEXT, "linkat");

	at("linkat");
	return next(a, from, b, to, flags);
}
