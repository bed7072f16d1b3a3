/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The segments of a recording.
 */
#include "kernel_trace/segments/recorded_segments.h"

#include <stdio.h>
#include <unistd.h>

#include "kernel_trace/recorder.h"
#include "kernel_trace/segments/kernel_segments.h"

int ip_recorded_segments_init(struct ip_recorded_segments *s, const struct ip_kernel_options *o)
{
	*s = (struct ip_recorded_segments){.any = o->in_segments || o->keep || o->resumes,
					   .wanted = o->segment,
					   .wanted_first = o->segment,
					   .newest = o->segment,
					   .first = o->segment,
					   .room = UINT64_MAX};
	if (!o->keep)
		return 0;
	s->kept = ip_kernel_segments_create(o->keep);
	return s->kept ? 0 : -1;
}

void ip_recorded_segments_clear(struct ip_recorded_segments *s)
{
	ip_kernel_segments_destroy(s->kept);
	s->kept = NULL;
}

static int begin(struct ip_recorded_segments *s, const struct ip_segment_ops *ops, uint32_t number)
{
	struct ip_segment_begin before;

	if (ops->begin(ops->context, number, &before) < 0)
		return -1;
	s->begins[number % IP_TRACE_SEGMENTS_ROOM] = before;
	s->newest = number;
	return 1;
}

static int cut_kept(struct ip_recorded_segments *s, const struct ip_segment_ops *ops)
{
	const uint32_t number = s->newest + 1;

	s->first = ip_kernel_segments_first(s->kept);
	if (!ip_kernel_segments_is_full(s->kept))
		return 0;
	if (ops->flush(ops->context) < 0)
		return -1;
	if (ip_kernel_segments_begin(s->kept) != number)
		return 0;
	s->first = ip_kernel_segments_first(s->kept);
	return begin(s, ops, number);
}

int ip_recorded_segments_cut(struct ip_recorded_segments *s, const struct ip_segment_ops *ops)
{
	uint32_t number, first;

	if (s->kept)
		return cut_kept(s, ops);
	number = __atomic_load_n(&s->wanted, __ATOMIC_ACQUIRE);
	if (!s->any || number == s->newest)
		return 0;
	/* all numbers have files: a number that has none tells that something is missing */
	while (s->newest < number)
		if (begin(s, ops, s->newest + 1) < 0)
			return -1;
	/* the oldest first, so that no segment is missing between others */
	first = __atomic_load_n(&s->wanted_first, __ATOMIC_ACQUIRE);
	for (; s->first < first; s->first++)
		ops->remove(ops->context, s->first);
	return 1;
}

void ip_recorded_segments_keep(struct ip_recorded_segments *s, uint32_t first, uint32_t newest)
{
	__atomic_store_n(&s->wanted_first, first, __ATOMIC_RELEASE);
	__atomic_store_n(&s->wanted, newest, __ATOMIC_RELEASE);
}

int ip_recorded_segments_write(struct ip_recorded_segments *s, int trace)
{
	return s->kept ? ip_kernel_segments_write(s->kept, trace, s->room, &s->first, &s->written)
		       : 0;
}

void ip_recorded_segments_count(const struct ip_recorded_segments *s, struct ip_kernel_stats *stats)
{
	const struct ip_segment_begin *first = &s->begins[s->first % IP_TRACE_SEGMENTS_ROOM];

	if (s->kept)
		stats->bytes = s->written;
	stats->events -= first->events;
	stats->lost -= first->lost;
	stats->dropped = first->events;
}

void ip_recorded_segments_remove(int dir, const char *name, uint32_t number)
{
	char path[64];

	snprintf(path, sizeof(path), "%s-%u", name, number);
	(void)unlinkat(dir, path, 0);
}
