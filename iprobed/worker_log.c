/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The output of workers that have no client, on its way to the log. It contains names of processes
 * and files, which other users have chosen. So none of their characters may control a terminal or a
 * log, or begin a line of its own, and the length of the output is limited.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/error.h"
#include "iprobed/daemon_private.h"

#define LINE  512 /* bytes; a longer line is continued in the next one */
#define READS 17  /* in one call: what a pipe holds, and its end */

struct ip_worker_log {
	int fd; /* -1: the output has ended */
	char line[LINE];
	size_t n;
	unsigned lines, most;
};

struct ip_worker_log *ip_worker_log_new(unsigned most, int *ret_for_worker)
{
	struct ip_worker_log *w = calloc(1, sizeof(*w));
	int ends[2];

	if (!w || pipe2(ends, O_CLOEXEC) < 0) {
		free(w);
		ip_error_errno("cannot make a pipe");
		return NULL;
	}
	fcntl(ends[0], F_SETFL, O_NONBLOCK);
	w->fd = ends[0];
	w->most = most;
	*ret_for_worker = ends[1];
	return w;
}

int ip_worker_log_fd(const struct ip_worker_log *w)
{
	return w ? w->fd : -1;
}

static void put(struct ip_iprobed_session *s)
{
	struct ip_worker_log *w = s->words;

	if (w->n && ++w->lines <= w->most)
		ip_iprobed_log(s, "says: %.*s%s", (int)w->n, w->line,
			       w->lines == w->most ? " (what more it says is left out)" : "");
	w->n = 0;
}

void ip_worker_log_read(struct ip_iprobed_session *s)
{
	struct ip_worker_log *w = s->words;
	char text[4096];
	ssize_t n;

	/* a worker that goes on writing must not keep iprobed here: what is left wakes it again */
	for (int i = 0; i < READS && w && w->fd >= 0; i++) {
		n = read(w->fd, text, sizeof(text));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		for (ssize_t k = 0; k < n; k++) {
			if (text[k] != '\n')
				w->line[w->n++] = text[k] ? text[k] : '?';
			if (text[k] == '\n' || w->n == LINE)
				put(s);
		}
		if (n <= 0) {
			put(s);
			close(w->fd);
			w->fd = -1;
		}
	}
}

void ip_worker_log_free(struct ip_worker_log *w)
{
	if (w && w->fd >= 0)
		close(w->fd);
	free(w);
}
