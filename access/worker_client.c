/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a worker of iprobed knows of its client. See worker_client.h.
 */
#include "access/worker_client.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "access/delegation.h"
#include "common/error.h"

static struct {
	int report, log, events;
	bool member;
	char *shown, *no_events;
} client = {.report = -1, .log = -1, .events = -1};

char *ip_worker_client_text(int report, int log, int events, bool member, const char *shown,
			    const char *no_events)
{
	char *text;

	if (asprintf(&text, "%d,%d,%d,%d,%s\n%s", report, log, events, member, shown, no_events) >=
	    0)
		return text;
	ip_error("out of memory");
	return NULL;
}

/* What the session starts must not hold them. */
static int keep_from_children(void)
{
	const int fds[] = {client.report, client.log, client.events};

	for (size_t i = 0; i < sizeof(fds) / sizeof(*fds); i++)
		if (fds[i] >= 0 && fcntl(fds[i], F_SETFD, FD_CLOEXEC) < 0)
			return ip_error_errno("descriptor %d of the variable %s", fds[i],
					      IP_WORKER_CLIENT_VARIABLE);
	return 0;
}

/* text: "SHOWN", or "SHOWN\nNO_EVENTS". */
static int take_texts(const char *text)
{
	const size_t n = strcspn(text, "\n");

	if (n && !(client.shown = strndup(text, n)))
		return ip_error("out of memory");
	if (text[n] && text[n + 1] && !(client.no_events = strdup(text + n + 1)))
		return ip_error("out of memory");
	return 0;
}

int ip_worker_client_take(void)
{
	const char *text = getenv(IP_WORKER_CLIENT_VARIABLE);
	int length = 0, member;

	if (!text)
		return 0;
	if (ip_delegation_is_lent()) {
		if (sscanf(text, "%d,%d,%d,%d,%n", &client.report, &client.log, &client.events,
			   &member, &length) != 4 ||
		    !length)
			return ip_error("the variable %s is set, and is not as iprobed sets it: "
					"unset it",
					IP_WORKER_CLIENT_VARIABLE);
		if (keep_from_children() < 0)
			return -1;
		client.member = member;
		if (take_texts(text + length) < 0)
			return -1;
	}
	unsetenv(IP_WORKER_CLIENT_VARIABLE); /* it is for no child */
	return 0;
}

bool ip_worker_client_leaves(void)
{
	return client.report >= 0;
}

bool ip_worker_client_is_member(void)
{
	return client.member;
}

int ip_worker_client_events(void)
{
	return client.events > 0 ? client.events : 0;
}

const char *ip_worker_client_no_events(void)
{
	return client.no_events;
}

const char *ip_worker_client_shown(void)
{
	return client.shown;
}

void ip_worker_client_live(void)
{
	if (client.report < 0)
		return;
	dup2(client.log, STDOUT_FILENO);
	dup2(client.log, STDERR_FILENO);
	close(client.log);
	(void)!write(client.report, IP_WORKER_CLIENT_LIVE, strlen(IP_WORKER_CLIENT_LIVE));
	close(client.report);
	client.report = client.log = -1;
}
