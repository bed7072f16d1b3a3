/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Progress of a trace that the caller's own thread reads. Its sums are being made, so there is no
 * result to show; trace_parts.c has copies.
 */
#include "analysis/callstack/trace_progress.h"

#include <time.h>

#include "analysis/callstack/trace_private.h"

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

void ip_trace_progress_begin(struct ip_trace_progress *p, const struct ip_trace_reader *t)
{
	p->read_bytes = p->all_bytes = p->next_ns = 0;
	p->stopped = false;
	for (size_t i = 0; i < t->nruns; i++)
		p->all_bytes += t->runs[i].off ? 0 : t->runs[i].bytes;
}

int ip_trace_progress_ask(void *context, struct ip_frames *frames,
			  const struct ip_thread_packets *run, uint64_t bytes)
{
	struct ip_trace_progress *p = context;

	p->read_bytes += bytes;
	if (now_ns() < p->next_ns)
		return 0;
	switch (p->look(p->context, p)) {
	case IP_PROGRESS_NONE:
		break;
	case IP_PROGRESS_SHOW:
		p->show(p->context, p, NULL);
		break;
	case IP_PROGRESS_STOP:
		p->stopped = true;
	}
	p->next_ns = now_ns() + IP_PROGRESS_NS;
	return p->stopped;
}
