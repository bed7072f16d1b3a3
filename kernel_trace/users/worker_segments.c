/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The segments of a worker's recording. recorder.h has the steps: what is in the buffers has been
 * read when the reader says so. What threads do is read with the user's rights.
 */
#include "common/clock.h"
#include "common/proc.h"
#include "common/trace/trace_format.h"
#include "kernel_trace/begin_states.h"
#include "kernel_trace/descriptor_log.h"
#include "kernel_trace/users/worker_private.h"

int ip_worker_flush_states(struct ip_worker_recorder *w)
{
	int ret = 0;

	for (size_t i = 0; i < IP_WORKER_STATES; i++)
		if (ip_kernel_stream_flush(&w->states[i]) < 0)
			ret = -1;
	return ret;
}

static int flush(void *context)
{
	struct ip_worker_recorder *w = context;

	if (ip_worker_flush_states(w) < 0)
		return -1;
	for (size_t i = 0; i < w->nsources; i++)
		if (ip_kernel_stream_flush(&w->sources[i].stream) < 0)
			return -1;
	return 0;
}

int ip_worker_read_process(struct ip_worker_recorder *w, pid_t pid)
{
	const uint64_t now = ip_clock_now();

	/* also of one that has become another user's */
	if (!ip_descriptor_log_may_look(pid))
		return 0;
	/* one that has ended meanwhile has none */
	if (ip_begin_states_write(&w->states[IP_WORKER_OWN], pid, w->descriptors, false) < 0 &&
	    ip_proc_started_at(pid))
		return -1;
	return w->descriptors ? ip_descriptor_log_scan(w->descriptors, pid, now) : 0;
}

static int begin(void *context, uint32_t number, struct ip_segment_begin *ret)
{
	struct ip_worker_recorder *w = context;

	*ret = (struct ip_segment_begin){0};
	for (size_t i = 0; i < IP_WORKER_STATES; i++) {
		ret->events += w->states[i].events;
		if (ip_kernel_stream_cut(&w->states[i], number, 0) < 0)
			return -1;
	}
	for (size_t i = 0; i < w->nsources; i++) {
		ret->events += w->sources[i].stream.events;
		ret->lost += w->sources[i].stream.lost;
		if (ip_kernel_stream_cut(&w->sources[i].stream, number, w->until) < 0)
			return -1;
	}
	if (w->descriptors && ip_descriptor_log_cut(w->descriptors, number) < 0)
		return -1;
	for (size_t i = 0; i < w->njoined; i++)
		if (ip_worker_read_process(w, w->joined[i]) < 0)
			return -1;
	return 0;
}

static void remove_files(void *context, uint32_t number)
{
	const struct ip_worker_recorder *w = context;

	for (size_t i = 0; i < w->nsources; i++)
		ip_recorded_segments_remove(w->dir, w->sources[i].stream.name, number);
	for (size_t i = 0; i < IP_WORKER_STATES; i++)
		ip_recorded_segments_remove(w->dir, w->states[i].name, number);
	ip_recorded_segments_remove(w->trace, IP_TRACE_DESCRIPTORS, number);
}

int ip_worker_cut(struct ip_worker_recorder *w)
{
	const struct ip_segment_ops ops = {
		.flush = flush, .begin = begin, .remove = remove_files, .context = w};

	return ip_recorded_segments_cut(w->segments, &ops) < 0 ? -1 : 0;
}

int ip_worker_write_out(struct ip_worker_recorder *w)
{
	if (ip_worker_flush_states(w) < 0)
		return -1;
	for (size_t i = 0; i < w->nsources; i++)
		if (ip_kernel_stream_mark(&w->sources[i].stream, w->until) < 0)
			return -1;
	return 0;
}
