/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes in the session file: what they are called, and which process has forked them.
 */
#include <stdlib.h>
#include <string.h>

#include "analysis/read/session_parser.h"
#include "common/array.h"

static const char *field(const struct ip_session_parser *p, size_t i)
{
	return i < p->nfields ? p->fields[i] : "";
}

int ip_session_parse_process(struct ip_session_parser *p)
{
	struct ip_recording *s = p->session;
	uint64_t pid = 0, parent = 0;

	if (ip_session_number(p, 1, UINT32_MAX, &pid) < 0 ||
	    ip_session_number(p, 2, UINT32_MAX, &parent) < 0 ||
	    ip_array_grow(&s->processes, s->nprocesses, sizeof(*s->processes)) < 0)
		return -1;
	s->processes[s->nprocesses] =
		(struct ip_recording_process){.pid = pid,
					      .parent = parent,
					      .order = s->nprocesses,
					      .forked = strchr(field(p, 3), 'f') != NULL,
					      .name = field(p, 4),
					      .command = field(p, 5)};
	s->nprocesses++;
	return 0;
}

static int by_pid_and_order(const void *a, const void *b)
{
	const struct ip_recording_process *x = a, *y = b;

	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

void ip_session_index_processes(struct ip_recording *s)
{
	if (s->nprocesses)
		qsort(s->processes, s->nprocesses, sizeof(*s->processes), by_pid_and_order);
}

const struct ip_recording_process *ip_recording_process(const struct ip_recording *s, uint32_t pid)
{
	const struct ip_recording_process key = {.pid = pid, .order = UINT32_MAX};
	size_t low = 0, high = s->nprocesses;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (by_pid_and_order(&s->processes[middle], &key) <= 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low && s->processes[low - 1].pid == pid ? &s->processes[low - 1] : NULL;
}
