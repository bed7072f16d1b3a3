/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the rows of iprobe top --by thread: what each thread counted and measured between two
 * readings, with its process and its name.
 */
#include <stdlib.h>
#include <string.h>

#include "analysis/read/members.h"
#include "cli/top/top.h"
#include "common/cleanup.h"
#include "common/error.h"

/* The sums of a process that has threads without memory of their own. */
#define OTHERS "(other threads)"

static int by_thread(const void *a, const void *b)
{
	const struct ip_count_thread *x = a, *y = b;

	if (x->member != y->member)
		return x->member < y->member ? -1 : 1;
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	if (x->tid != y->tid)
		return x->tid < y->tid ? -1 : 1;
	return (x->claimed > y->claimed) - (x->claimed < y->claimed);
}

/* Returns the threads of a reading, sorted; NULL with an error where memory ran out. */
static struct ip_count_thread *sorted(const struct ip_counts *counts)
{
	const size_t n = counts ? counts->nthreads : 0;
	struct ip_count_thread *threads = calloc(n + 1, sizeof(*threads));

	if (!threads) {
		ip_error("out of memory");
		return NULL;
	}
	if (n)
		memcpy(threads, counts->threads, n * sizeof(*threads));
	qsort(threads, n, sizeof(*threads), by_thread);
	return threads;
}

/* Returns the process as it is called outside of its pid namespace. What it has forked, and what is
 * recorded with it, has the number of its packets. */
static pid_t shown_pid(const struct cli_top_snapshot *s, const struct cli_live_counts *processes,
		       const struct ip_count_thread *t)
{
	const struct ip_recording_members *members = s->recording->members;
	const struct ip_recording *own =
		members && t->member < members->n ? members->items[t->member].own : s->recording;

	if (t->tid && t->pid != own->pid &&
	    ip_recording_thread_name(s->recording, t->member, own->pid))
		return t->pid;
	for (size_t i = 0; i < processes->n; i++) {
		const struct cli_live_process *p = &processes->processes[i];

		if (p->known && (!p->member || p->member == &members->items[t->member]))
			return p->pid;
	}
	return t->pid;
}

/* Makes "1234 worker", with the process before it where there are several. */
static int name_row(const struct cli_live_counts *processes, const struct cli_top_snapshot *s,
		    const struct ip_count_thread *t, struct cli_top_row *row)
{
	char id[40] = "", pid[16] = "";

	row->pid = shown_pid(s, processes, t);
	row->tid = t->tid;
	row->thread = t->tid ? ip_recording_thread_name(s->recording, t->member, t->tid) : NULL;
	if (processes->n > 1 || row->pid != processes->processes[0].pid)
		snprintf(pid, sizeof(pid), "%d/", row->pid);
	if (t->tid)
		snprintf(id, sizeof(id), "%s%u%s", pid, t->tid, row->thread ? " " : "");
	else
		snprintf(id, sizeof(id), "%s", pid);
	if (asprintf(&row->text, "%s%s", id,
		     row->thread ? row->thread
		     : t->tid	 ? ""
				 : OTHERS) < 0) {
		row->text = NULL;
		return ip_error("out of memory");
	}
	row->name = row->shown = row->text;
	return 0;
}

static uint64_t since(uint64_t now, uint64_t before)
{
	return now > before ? now - before : 0;
}

int cli_top_threads_add(const struct cli_top_snapshot *s, const struct cli_live_counts *processes,
			const char *filter, bool since_start, double seconds,
			struct cli_top_rows *rows)
{
	const struct ip_counts *earlier = since_start ? NULL : s->before;
	_cleanup_free_ struct ip_count_thread *now = sorted(s->now), *before = sorted(earlier);
	const size_t n = s->now->nthreads, nbefore = earlier ? earlier->nthreads : 0;

	rows->items = now && before ? calloc(n + 1, sizeof(*rows->items)) : NULL;
	if (!rows->items)
		return ip_error("out of memory");
	for (size_t i = 0, k = 0; i < n; i++) {
		const struct ip_count_thread none = {0}, *last = &none, *t = &now[i];
		struct cli_top_row *row = &rows->items[rows->n];

		/* the target may have written one thread into two slots */
		if (i && !by_thread(t, &now[i - 1]))
			continue;
		while (k < nbefore && by_thread(&before[k], t) < 0)
			k++;
		if (k < nbefore && !by_thread(&before[k], t))
			last = &before[k];
		*row = (struct cli_top_row){.is_thread = true,
					    .calls = since(t->calls, last->calls),
					    .all_calls = t->calls,
					    .timed = since(t->calls, last->calls),
					    .has_self = true};
		row->self_ns = ip_recording_ns(s->recording, since(t->self, last->self));
		row->rate = seconds > 0 ? row->calls / seconds : 0;
		if (!row->calls)
			continue;
		if (name_row(processes, s, t, row) < 0)
			return -1;
		if (filter && *filter && !strcasestr(row->name, filter)) {
			free(row->text);
			continue;
		}
		rows->calls += row->calls;
		rows->self_ns += row->self_ns;
		rows->n++;
	}
	return 0;
}
