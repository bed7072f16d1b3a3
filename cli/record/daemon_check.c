/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks iprobed whether it lets this user trace a process. See daemon_check.h.
 *
 * A child has the request made, since what iprobed's worker says goes to standard output and error
 * of the process that asks: in the child these are a file in memory.
 */
#include "cli/record/daemon_check.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/record/via_daemon.h"
#include "common/cleanup.h"
#include "common/error.h"

static _Noreturn void ask(int socket, pid_t pid, int said)
{
	struct ip_request request = {.what = IP_REQUEST_STATUS, .pid = pid};

	if (dup2(said, STDOUT_FILENO) < 0 || dup2(said, STDERR_FILENO) < 0)
		_exit(1);
	_exit(cli_via_daemon(socket, &request, NULL));
}

int cli_daemon_check(pid_t pid, char *ret_said, size_t size)
{
	static const char own[] = "iprobe: ";
	_cleanup_close_ int said = -1, socket = -1;
	int status, wanted = cli_via_daemon_wanted(pid, &socket);
	char text[1024];
	const char *line = text;
	ssize_t n;
	pid_t child;

	if (wanted <= 0) {
		snprintf(ret_said, size, "%s", wanted < 0 ? ip_error_message() : "");
		return wanted < 0 ? 0 : -1;
	}
	said = memfd_create("iprobe-said", MFD_CLOEXEC);
	fflush(NULL);
	child = said < 0 ? -1 : fork();
	if (child == 0)
		ask(socket, pid, said);
	while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	n = child > 0 ? pread(said, text, sizeof(text) - 1, 0) : -1;
	if (n < 0)
		return -1;
	text[n] = '\0';
	text[strcspn(text, "\n")] = '\0';
	if (!strncmp(line, own, strlen(own)))
		line += strlen(own);
	snprintf(ret_said, size, "%s", line);
	return WIFEXITED(status) && !WEXITSTATUS(status);
}
