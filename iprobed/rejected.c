/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections beyond the limits. The client is told at once. But the last close of such a
 * connection drops what its client has sent, which may take for ever (receiver.h), and the number
 * of clients is not limited.
 *
 *   1. A rejected connection gets a message, is shut down, and is put with the others.
 *   2. A process is made that has these connections open and nothing else. iprobed closes its own
 *      descriptors, and then the process ends: the kernel closes the connections in it.
 *   3. Such processes that hang are counted. With each, the next one waits for twice as many
 *      connections. So some twenty processes are enough for more connections than a user may have
 *      descriptors in transit (his RLIMIT_NOFILE).
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/array.h"
#include "common/error.h"
#include "iprobed/daemon_private.h"

#define DOUBLINGS   13
#define CLOSING_MAX 64

void ip_iprobed_turn_away(struct ip_iprobed *d, int fd, const char *why)
{
	char text[256];
	int n = snprintf(text, sizeof(text), "refused %s\n", why);

	send(fd, text, n, MSG_NOSIGNAL | MSG_DONTWAIT);
	shutdown(fd, SHUT_RDWR);
	/* ip_iprobed_turned_away_full() has made sure that there is room */
	d->turned_away[d->nturned_away++] = fd;
}

bool ip_iprobed_turned_away_full(const struct ip_iprobed *d)
{
	return d->nturned_away == d->turned_away_max;
}

int ip_iprobed_turned_away_init(struct ip_iprobed *d)
{
	struct rlimit limit;

	/* Use the hard limit. Half of it is for rejected connections. */
	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return ip_error_errno("getrlimit");
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
		return ip_error_errno("setrlimit");
	d->turned_away_max =
		limit.rlim_cur / 2 < 1 << DOUBLINGS ? limit.rlim_cur / 2 : 1 << DOUBLINGS;
	d->turned_away = calloc(d->turned_away_max, sizeof(*d->turned_away));
	return d->turned_away ? 0 : ip_error("out of memory");
}

static int compare(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

/* Runs in the child. Only these descriptors stay open, and the pipe by which the child learns that
 * iprobed has closed its own. */
static void end_with(const int *fds, size_t n, int go)
{
	int kept = dup2(go, 0), next = 1;
	char byte;

	prctl(PR_SET_NAME, "iprobed-closing");
	for (size_t i = 0; i < n; i++) {
		if (fds[i] > next)
			syscall(SYS_close_range, next, fds[i] - 1, 0);
		next = fds[i] + 1;
	}
	syscall(SYS_close_range, next, ~0u, 0);
	while (kept == 0 && read(0, &byte, 1) < 0 && errno == EINTR)
		;
	_exit(0);
}

static int start_closing(struct ip_iprobed *d)
{
	int ends[2];
	pid_t pid;

	if (ip_array_grow(&d->closing, d->nclosing, sizeof(*d->closing)) < 0)
		return -1;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return ip_error_errno("cannot make a pipe");
	qsort(d->turned_away, d->nturned_away, sizeof(*d->turned_away), compare);
	pid = fork();
	if (pid == 0)
		end_with(d->turned_away, d->nturned_away, ends[0]);
	close(ends[0]);
	if (pid > 0) {
		for (size_t i = 0; i < d->nturned_away; i++)
			close(d->turned_away[i]);
		d->nturned_away = 0;
		d->closing[d->nclosing++] = pid;
	}
	close(ends[1]); /* tells the child to end */
	return pid > 0 ? 0 : ip_error_errno("cannot start a process");
}

void ip_iprobed_close_turned_away(struct ip_iprobed *d, bool all)
{
	size_t enough = (size_t)1 << (d->nclosing < DOUBLINGS ? d->nclosing : DOUBLINGS);

	if (d->nturned_away &&
	    (all || ((d->nturned_away >= enough || ip_iprobed_turned_away_full(d)) &&
		     d->nclosing < CLOSING_MAX)))
		start_closing(d); /* if this fails it is tried again */
}

bool ip_iprobed_reap_closing(struct ip_iprobed *d, pid_t pid)
{
	for (size_t i = 0; i < d->nclosing; i++)
		if (d->closing[i] == pid) {
			d->closing[i] = d->closing[--d->nclosing];
			return true;
		}
	return false;
}
