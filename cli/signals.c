/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What commands that record need of their own process: signals that end them properly, and the
 * path of the runtime.
 */
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "common/error.h"
#include "common/file.h"
#include "common/interrupted.h"

static void on_signal(int signal_number)
{
	ip_interrupted = signal_number;
}

void cli_catch_signals(void)
{
	struct sigaction action = {.sa_handler = on_signal};

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
	/* signals that would end this process while sites are live */
	sigaction(SIGQUIT, &action, NULL);
	sigaction(SIGALRM, &action, NULL);
	sigaction(SIGUSR1, &action, NULL);
	sigaction(SIGUSR2, &action, NULL);
	sigaction(SIGXCPU, &action, NULL);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* writing a memfd is also subject to the limit on file size */
}

const char *cli_runtime_path(void)
{
	static char path[PATH_MAX + 64];
	static const char *const places[] = {"../runtime/libiprobe-rt.so",
					     IP_RT_FROM_BIN "/libiprobe-rt.so"};
	char exe[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	if (n > 0) {
		exe[n] = '\0';
		*strrchr(exe, '/') = '\0';
		for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
			char candidate[2 * PATH_MAX];

			snprintf(candidate, sizeof(candidate), "%s/%s", exe, places[i]);
			if (ip_access(candidate, R_OK) == 0 && realpath(candidate, path))
				return path;
		}
	}
	ip_error("libiprobe-rt.so is neither in %s nor in a build folder beside iprobe: install "
		 "iprobe whole",
		 IP_RT_FROM_BIN);
	return NULL;
}
