/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds and joins the parts of a process (process_parts.h).
 *
 * A trace does not tell when a process was started, and the kernel gives numbers again. Two entries
 * of one number are parts of one process where all of this holds:
 *
 * - The later one was recorded by a session of its own, which began after the earlier one.
 * - Both recordings have the numbers that the recorder saw, not those of a pid namespace.
 * - The later one's parent, as it was when its session began, is a process of the recording that
 *   has the earlier one: that is how the child came to be followed there. For an earlier one that
 *   had a session of its own, too, the parent is the same, and that session had ended.
 *
 * What is not known counts as no: then both stay processes of their own.
 */
#include "analysis/callstack/process_parts.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/read/members.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"

static int by_pid(const void *a, const void *b)
{
	const struct ip_trace_process *x = *(const struct ip_trace_process *const *)a,
				      *y = *(const struct ip_trace_process *const *)b;

	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return (x > y) - (x < y);
}

/* Whether the processes of a member have the numbers that the recorder saw. */
static bool has_recorders_numbers(const struct ip_trace_reader *t, uint32_t member)
{
	const struct ip_trace_reader *own = t->members[member];
	const uint32_t pid = t->session->members->items[member].pid;
	const struct ip_recording_process *told = ip_recording_process(own->session, pid);

	if (told && !told->forked)
		return true;
	for (size_t i = 0; i < own->nruns; i++)
		if (own->runs[i].pid == pid)
			return true;
	return false;
}

static bool has_process(const struct ip_trace_reader *t, uint32_t member, uint32_t pid)
{
	if (t->session->members->items[member].pid == pid)
		return true;
	for (size_t i = 0; i < t->nprocesses; i++)
		if (t->process_list[i].member == member && t->process_list[i].pid == pid)
			return true;
	return false;
}

/* The time of the process's first packet. */
static uint64_t first_time(const struct ip_trace_reader *t, const struct ip_trace_process *p)
{
	uint64_t first = UINT64_MAX;

	for (size_t i = 0; i < t->nruns; i++)
		if (&t->process_list[t->runs[i].process] == p && t->runs[i].begin < first)
			first = t->runs[i].begin;
	return first;
}

static bool goes_on_in(const struct ip_trace_reader *t, const struct ip_trace_process *p,
		       const struct ip_trace_process *later)
{
	const uint64_t begin = t->members[later->member]->begin;

	if (!later->began || !later->parent || later->member == p->member ||
	    !has_recorders_numbers(t, p->member) || !has_recorders_numbers(t, later->member))
		return false;
	/* begins that rise: so no part goes on in itself, whatever a damaged trace says */
	if (p->began)
		return p->parent == later->parent && t->members[p->member]->begin < begin &&
		       t->members[p->member]->end <= begin;
	return has_process(t, p->member, later->parent) && first_time(t, p) < begin;
}

/* Each part goes on in the first of those that come after it. */
static void find_later(const struct ip_trace_reader *t, struct ip_trace_process **same, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t next = UINT64_MAX;

		for (size_t k = 0; k < n; k++) {
			const uint64_t begin = t->members[same[k]->member]->begin;

			if (k == i || begin >= next || !goes_on_in(t, same[i], same[k]))
				continue;
			next = begin;
			same[i]->later = same[k];
		}
	}
}

int ip_process_parts_find(struct ip_trace_reader *t)
{
	_cleanup_free_ struct ip_trace_process **order = calloc(t->nprocesses + 1, sizeof(*order));

	if (!order)
		return ip_error("out of memory");
	for (size_t i = 0; i < t->nprocesses; i++)
		order[i] = &t->process_list[i];
	if (t->nprocesses)
		qsort(order, t->nprocesses, sizeof(*order), by_pid);
	for (size_t i = 0, n; i < t->nprocesses; i += n) {
		for (n = 1; i + n < t->nprocesses && order[i + n]->pid == order[i]->pid; n++)
			;
		if (n > 1)
			find_later(t, order + i, n);
	}
	return 0;
}

static struct ip_trace_process *last_of(struct ip_trace_process *p)
{
	while (p->later)
		p = p->later;
	return p;
}

/* A thread of a part has the name that it got later: its own may not have been read in time, and
 * the last one is shown where there is room for one. */
static int name_thread(struct ip_trace_reader *t, const struct ip_thread_packets *run,
		       struct ip_trace_process *part, size_t *nadded)
{
	struct ip_recording *s = t->session;
	const uint32_t later = last_of(part)->member;
	const char *name = ip_recording_thread_name(s, later, run->tid),
		   *before = ip_recording_thread_name(s, run->member, run->tid);

	if (!name || (before && !strcmp(name, before)))
		return 0;
	if (ip_array_grow(&s->threads, s->nthreads + *nadded, sizeof(*s->threads)) < 0)
		return -1;
	s->threads[s->nthreads + (*nadded)++] =
		(struct ip_recording_thread){.tid = run->tid,
					     .member = run->member,
					     .tsc = t->members[part->later->member]->begin,
					     .name = name};
	return 0;
}

/* Gives the runs of parts to the processes that these go on in. */
static int move_runs(struct ip_trace_reader *t)
{
	size_t nadded = 0;

	for (size_t i = 0; i < t->nruns; i++) {
		struct ip_thread_packets *run = &t->runs[i];
		struct ip_trace_process *p = &t->process_list[run->process];

		if (!p->later)
			continue;
		if (run->end > t->members[p->later->member]->begin)
			run->end = t->members[p->later->member]->begin;
		run->process = last_of(p) - t->process_list;
		if (name_thread(t, run, p, &nadded) < 0)
			return -1;
	}
	t->session->nthreads += nadded;
	if (nadded)
		ip_recording_index_threads(t->session);
	return 0;
}

static int by_number(const void *a, const void *b)
{
	const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

/* Counts the threads of a process anew: parts may have the same. */
static void count_threads(const struct ip_trace_reader *t, struct ip_trace_process *whole,
			  uint32_t *tids)
{
	size_t n = 0;

	for (size_t i = 0; i < t->nruns; i++)
		if (&t->process_list[t->runs[i].process] == whole)
			tids[n++] = t->runs[i].tid;
	if (n)
		qsort(tids, n, sizeof(*tids), by_number);
	whole->threads = 0;
	for (size_t i = 0; i < n; i++)
		whole->threads += !i || tids[i] != tids[i - 1];
}

/* Takes the parts out of the list. */
static void close_up(struct ip_trace_reader *t, uint32_t *places)
{
	size_t n = 0;

	for (size_t i = 0; i < t->nprocesses; i++)
		if (!t->process_list[i].later)
			places[i] = n++;
	for (size_t i = 0; i < t->nprocesses; i++)
		if (t->process_list[i].later)
			places[i] = places[last_of(&t->process_list[i]) - t->process_list];
	for (size_t i = 0; i < t->nruns; i++)
		t->runs[i].process = places[t->runs[i].process];
	/* the processes of a member follow each other, in the member's own order */
	for (size_t i = 0, k = 0; i < t->nmembers; i++)
		for (size_t p = 0; p < t->members[i]->nprocesses; p++)
			t->members[i]->process_list[p].joined = places[k++];
	for (size_t i = 0, kept = 0; i < t->nprocesses; i++)
		if (t->process_list[i].later)
			free(t->process_list[i].name);
		else
			t->process_list[kept++] = t->process_list[i];
	t->nprocesses = n;
}

int ip_process_parts_join(struct ip_trace_reader *t)
{
	_cleanup_free_ uint32_t *numbers = calloc(t->nprocesses + t->nruns + 1, sizeof(*numbers));

	if (!numbers)
		return ip_error("out of memory");
	if (move_runs(t) < 0)
		return -1;
	for (size_t i = 0; i < t->nprocesses; i++) {
		struct ip_trace_process *p = &t->process_list[i], *whole = last_of(p);

		if (!p->later)
			continue;
		whole->lost += p->lost;
		whole->forked |= p->forked;
		count_threads(t, whole, numbers);
	}
	close_up(t, numbers);
	return 0;
}
