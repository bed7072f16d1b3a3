/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The moment at which iprobe follow begins: after a time, at a signal, at a key of the terminal, or
 * when the process uses so much of a CPU. Nothing of the process is touched before it.
 */
#ifndef IP_CLI_MOMENT_H
#define IP_CLI_MOMENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum cli_moment_kind {
	CLI_MOMENT_NONE, /* at once */
	CLI_MOMENT_AFTER,
	CLI_MOMENT_SIGNAL,
	CLI_MOMENT_KEY,
	CLI_MOMENT_CPU,
};

struct cli_moment {
	enum cli_moment_kind kind;
	uint64_t after_ns;
	int signal; /* number */
	char key;
	double cpu; /* share of one CPU */
};

/* Parse the arguments of --after, --on-signal, --on-key and --at-cpu. They return 0, or -1 with an
 * error: also where another moment has been chosen before. */
int cli_moment_after(const char *text, struct cli_moment *ret);
int cli_moment_signal(const char *text, struct cli_moment *ret);
int cli_moment_key(const char *text, struct cli_moment *ret);
int cli_moment_cpu(const char *text, struct cli_moment *ret);

/* Whether it can be waited for: a key needs a terminal. Returns 0, or -1 with an error. */
int cli_moment_check(const struct cli_moment *moment);

/* Waits for it. pid: of the process, which was started then (ip_proc_started_at()). quiet: nothing
 * is told. Returns 1; 0: the user wants the end (ip_interrupted); -1 with an error: the process has
 * ended, or there is no terminal. */
int cli_moment_wait(const struct cli_moment *moment, pid_t pid, uint64_t started, bool quiet);

#endif
