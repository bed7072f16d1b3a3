/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts commands.
 */
#include "cli/record/start_command.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/error.h"

pid_t cli_start_command(char **argv)
{
	int ends[2], error = 0;
	ssize_t n;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return ip_error_errno("cannot make a pipe");
	fflush(NULL);
	/* where it is ignored, nobody learns how the command has ended */
	signal(SIGCHLD, SIG_DFL);
	pid = fork();
	if (!pid) {
		execvp(argv[0], argv);
		error = errno;
		n = write(ends[1], &error, sizeof(error));
		_exit(n < 0 ? 126 : 127);
	}
	close(ends[1]);
	do
		n = pid < 0 ? 0 : read(ends[0], &error, sizeof(error));
	while (n < 0 && errno == EINTR);
	close(ends[0]);
	if (pid < 0)
		return ip_error_errno("cannot start %s", argv[0]);
	if (n <= 0)
		return pid;
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	errno = error;
	return ip_error_errno("cannot start %s", argv[0]);
}
