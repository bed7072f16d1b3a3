/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library to be preloaded into iprobe: before iprobe takes its first lock of a file description,
 * it stops itself. The test does what it wants meanwhile, and sends SIGCONT.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>

static int with_stop(const char *name, int fd, int command, void *argument)
{
	static bool stopped;
	int (*real)(int, int, ...) = (int (*)(int, int, ...))dlsym(RTLD_NEXT, name);

	if (command == F_OFD_SETLK && !stopped) {
		stopped = true;
		raise(SIGSTOP);
	}
	return real(fd, command, argument);
}

#define WRAPPER(name)                                                                              \
	int name(int fd, int command, ...)                                                         \
	{                                                                                          \
		va_list arguments;                                                                 \
		void *argument;                                                                    \
                                                                                                   \
		va_start(arguments, command);                                                      \
		argument = va_arg(arguments, void *);                                              \
		va_end(arguments);                                                                 \
		return with_stop(#name, fd, command, argument);                                    \
	}

WRAPPER(fcntl)
WRAPPER(fcntl64)
