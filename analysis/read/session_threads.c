/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of threads in the session file: which name a thread had when.
 */
#include <stdlib.h>

#include "analysis/read/session_parser.h"
#include "common/array.h"

int ip_session_parse_thread(struct ip_session_parser *p)
{
	struct ip_recording *s = p->session;
	uint64_t tid = 0, tsc = 0;

	if (ip_session_number(p, 1, UINT32_MAX, &tid) < 0 ||
	    (p->nfields > 3 && ip_session_number(p, 3, UINT64_MAX, &tsc) < 0) ||
	    ip_array_grow(&s->threads, s->nthreads, sizeof(*s->threads)) < 0)
		return -1;
	s->threads[s->nthreads] =
		(struct ip_recording_thread){.tid = tid,
					     .order = s->nthreads,
					     .tsc = tsc,
					     .name = p->nfields > 2 ? p->fields[2] : ""};
	s->nthreads++;
	return 0;
}

static int by_thread_and_time(const void *a, const void *b)
{
	const struct ip_recording_thread *x = a, *y = b;

	if (x->member != y->member)
		return x->member < y->member ? -1 : 1;
	if (x->tid != y->tid)
		return x->tid < y->tid ? -1 : 1;
	if (x->tsc != y->tsc)
		return x->tsc < y->tsc ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

void ip_recording_index_threads(struct ip_recording *s)
{
	if (s->nthreads)
		qsort(s->threads, s->nthreads, sizeof(*s->threads), by_thread_and_time);
}

/* Returns how many names belong to threads with smaller numbers, or to this thread not after ts. */
static size_t count_before(const struct ip_recording *s, uint32_t member, uint32_t tid, uint64_t ts)
{
	const struct ip_recording_thread key = {
		.tid = tid, .member = member, .order = UINT32_MAX, .tsc = ts};
	size_t low = 0, high = s->nthreads;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (by_thread_and_time(&s->threads[middle], &key) <= 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static const char *known(const char *name)
{
	return *name ? name : NULL;
}

/* Returns whether name i is there, and one of the thread. */
static bool is_of(const struct ip_recording *s, size_t i, uint32_t member, uint32_t tid)
{
	return i < s->nthreads && s->threads[i].tid == tid && s->threads[i].member == member;
}

const char *ip_recording_thread_name(const struct ip_recording *s, uint32_t member, uint32_t tid)
{
	for (size_t i = count_before(s, member, tid, UINT64_MAX); i && is_of(s, i - 1, member, tid);
	     i--)
		if (*s->threads[i - 1].name)
			return s->threads[i - 1].name;
	return NULL;
}

const char *ip_recording_thread_name_at(const struct ip_recording *s, uint32_t member, uint32_t tid,
					uint64_t ts)
{
	size_t i = count_before(s, member, tid, ts);

	if (i && is_of(s, i - 1, member, tid))
		return known(s->threads[i - 1].name);
	/* its name is read a moment after its first events */
	return is_of(s, i, member, tid) ? known(s->threads[i].name) : NULL;
}
