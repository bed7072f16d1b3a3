/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts commands.
 */
#include "cli/darc/darc_command.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/error.h"
#include "common/interrupted.h"
#include "common/proc.h"
#include "common/selection/selection.h"
#include "hotpatcher/process/callees.h"

#define START_MS 5000
#define NAP_MS	 10

pid_t cli_darc_command_start(char **argv)
{
	int ends[2], error = 0;
	ssize_t n;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return ip_error_errno("cannot make a pipe");
	fflush(NULL);
	pid = fork();
	if (!pid) {
		execvp(argv[0], argv);
		error = errno;
		n = write(ends[1], &error, sizeof(error));
		_exit(n < 0 ? 126 : 127);
	}
	close(ends[1]);
	n = pid < 0 ? 0 : read(ends[0], &error, sizeof(error));
	close(ends[0]);
	if (pid < 0)
		return ip_error_errno("cannot start %s", argv[0]);
	if (n <= 0)
		return pid;
	waitpid(pid, NULL, 0);
	errno = error;
	return ip_error_errno("cannot start %s", argv[0]);
}

void cli_darc_command_wait(pid_t pid, const char *functions)
{
	struct ip_selection *selection;
	bool found = false;

	if (ip_selection_parse(functions, &selection) < 0)
		return;
	for (unsigned i = 0; i < START_MS / NAP_MS && !found && !ip_interrupted; i++) {
		struct ip_callees all;

		if (!ip_proc_has_memory(pid))
			break;
		if (ip_callees_all(pid, &all, NULL) == 0)
			for (size_t k = 0; k < all.n && !found; k++)
				found = ip_selection_match(selection, all.names[k], NULL, NULL);
		ip_callees_clear(&all);
		if (!found)
			nanosleep(&(struct timespec){.tv_nsec = NAP_MS * 1000000}, NULL);
	}
	ip_selection_destroy(selection);
}
