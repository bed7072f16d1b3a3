/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paths that system calls were given, while live processes are listed: those of a moment.
 */
#ifndef IP_CLI_LIVE_PATHS_H
#define IP_CLI_LIVE_PATHS_H

#include "analysis/syscalls/syscall_reader.h"
#include "analysis/wait/descriptors/call_paths.h"

struct cli_live_paths {
	struct ip_call_paths paths; /* with texts of their own */
};

/* Adds a copy. Returns 0, or -1 with an error. */
int cli_live_paths_add(struct cli_live_paths *live, const struct ip_call_path *path);
/* Forgets paths of calls that returned before that time. */
void cli_live_paths_forget(struct cli_live_paths *live, uint64_t tsc);
void cli_live_paths_clear(struct cli_live_paths *live);

/* The path that an argument of a call was; NULL: not known. context: struct cli_live_paths, to
 * which nothing was added since cli_live_paths_sort(). */
const char *cli_live_paths_find(void *context, const struct ip_syscall_call *call,
				unsigned argument);
void cli_live_paths_sort(struct cli_live_paths *live);

#endif
