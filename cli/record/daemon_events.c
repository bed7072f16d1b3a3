/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks iprobed for events of the kernel. See daemon_events.h.
 */
#include "cli/record/daemon_events.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "access/fd_passing.h"
#include "cli/record/via_daemon.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/interrupted.h"

#define ANSWER_MS 20000
#define LOOK_MS	  200

static int send_request(int socket, pid_t pid, size_t buffer)
{
	struct ip_request request = {.what = IP_REQUEST_KERNEL, .pid = pid};
	_cleanup_free_ char *text = NULL;
	char size[32];
	int ret = -1;

	snprintf(size, sizeof(size), "%zu", buffer);
	if (cli_via_daemon_add(&request, "kernel", NULL) == 0 &&
	    cli_via_daemon_add(&request, "kernel-buffer", size) == 0)
		text = ip_request_format(&request);
	ip_request_clear(&request);
	if (!text)
		return -1;
	/* an iprobed that has closed the socket may have sent the reason before */
	ret = send(socket, text, strlen(text), MSG_NOSIGNAL) < 0 && errno != EPIPE &&
			      errno != ECONNRESET
		      ? ip_error_errno("cannot ask iprobed")
		      : 0;
	return ret;
}

/* Waits for the descriptor. Returns it, or -1 with an error. */
static int receive(int socket)
{
	char text[4096];
	int fd = -1, flags = 0;
	size_t nfds = 0;
	ssize_t n;

	for (int waited = 0; waited < ANSWER_MS && !ip_interrupted;) {
		struct pollfd p = {.fd = socket, .events = POLLIN};

		if (poll(&p, 1, LOOK_MS) <= 0) {
			waited += LOOK_MS;
			continue;
		}
		n = ip_receive_with_fds(socket, text, sizeof(text) - 1, &fd, 1, &nfds, &flags,
					MSG_DONTWAIT);
		/* ECONNRESET comes once before what was sent */
		if (n < 0 && (errno == EAGAIN || errno == EINTR || errno == ECONNRESET))
			continue;
		if (n <= 0)
			return ip_error("iprobed has ended, or hung up");
		text[n] = '\0';
		text[strcspn(text, "\n")] = '\0';
		if (nfds)
			return fd;
		if (!strncmp(text, "refused ", 8))
			return ip_error("iprobed refuses: %s", text + 8);
	}
	return ip_error(ip_interrupted ? "interrupted" : "iprobed does not answer");
}

/* Numbers below are taken for none. */
static int keep(int fd)
{
	int kept = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);

	if (fd >= 0)
		close(fd);
	return kept;
}

int cli_daemon_events_open(pid_t pid, const struct ip_kernel_options *options, bool traces,
			   struct cli_daemon_events *ret)
{
	_cleanup_close_ int socket = -1;
	int wanted = cli_via_daemon_wanted_with(traces ? pid : 0, options, &socket), fd;

	*ret = (struct cli_daemon_events){.connection = -1};
	if (wanted <= 0)
		return wanted;
	if (options->functions)
		return ip_error("iprobed gives events of the kernel without --kernel-functions: "
				"leave it out");
	if (options->source)
		return ip_error("--kernel-source is not taken by iprobed: leave it out");
	if (send_request(socket, pid, options->buffer) < 0)
		return -1;
	fd = keep(receive(socket));
	if (fd < 0)
		return -1;
	*ret = (struct cli_daemon_events){.connection = ip_steal_fd(&socket), .reader = fd};
	return 1;
}

int cli_daemon_events_missing(const struct ip_kernel_options *options)
{
	_cleanup_free_ char *why = strdup(ip_error_message());

	if (!why)
		return ip_error("out of memory");
	if (cli_lacks_kernel_events(options))
		return ip_error("%s; or an iprobed whose policy gives them to you (kernel, "
				"iprobed(8)), and none is running",
				why);
	return ip_error("%s", why);
}

void cli_daemon_events_close(struct cli_daemon_events *events)
{
	if (events->reader > 0)
		close(events->reader);
	if (events->connection >= 0)
		close(events->connection);
	*events = (struct cli_daemon_events){.connection = -1};
}
