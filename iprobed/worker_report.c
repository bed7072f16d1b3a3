/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a worker reports to iprobed (access/worker_client.h): what keeps it from starting, or that a
 * session which the client leaves is live. A worker may say other things when it has been taken
 * over: they reach the log, in which they can do no harm, and its own client.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "access/worker_client.h"
#include "common/error.h"
#include "iprobed/daemon_private.h"

int ip_worker_report_open(struct ip_iprobed_session *s, int *ret_for_worker)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return ip_error_errno("cannot make a pipe");
	fcntl(ends[0], F_SETFL, O_NONBLOCK);
	if (s->report >= 0)
		close(s->report);
	s->report = ends[0];
	s->failure[0] = '\0';
	*ret_for_worker = ends[1];
	return 0;
}

void ip_worker_report_read(struct ip_iprobed_session *s)
{
	char text[256], number[16];
	ssize_t n = s->report < 0 ? -1 : read(s->report, text, sizeof(text) - 1);

	if (n < 0)
		return;
	if (n == 0) {
		close(s->report);
		s->report = -1;
		return;
	}
	text[n] = '\0';
	if (strcmp(text, IP_WORKER_CLIENT_LIVE)) {
		text[strcspn(text, "\n")] = '\0';
		snprintf(s->failure, sizeof(s->failure), "cannot start a worker: %s", text);
		return;
	}
	snprintf(number, sizeof(number), "%u", s->number);
	ip_iprobed_say(s->connection, false, "live", number);
}
