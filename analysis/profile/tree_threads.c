/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the threads of a trace, and makes their texts.
 */
#include "analysis/profile/tree_threads.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/cleanup.h"
#include "common/error.h"

/* For qsort_r(): context are the runs. */
static int by_thread(const void *a, const void *b, void *context)
{
	const struct ip_thread_packets *runs = context, *x = &runs[*(const uint32_t *)a],
				       *y = &runs[*(const uint32_t *)b];

	if (x->process != y->process)
		return x->process < y->process ? -1 : 1;
	if (x->tid != y->tid)
		return x->tid < y->tid ? -1 : 1;
	return x < y ? -1 : x > y;
}

static bool is_same(const struct ip_thread_packets *x, const struct ip_thread_packets *y,
		    bool by_process)
{
	return x->process == y->process && (by_process || x->tid == y->tid);
}

int ip_tree_threads_create(const struct ip_trace_reader *trace, bool by_process,
			   struct ip_tree_threads **ret)
{
	_cleanup_free_ uint32_t *order = calloc(trace->nruns + 1, sizeof(*order));
	struct ip_tree_threads *t = calloc(1, sizeof(*t));

	if (t)
		*t = (struct ip_tree_threads){.items = calloc(trace->nruns + 1, sizeof(*t->items)),
					      .of_run =
						      calloc(trace->nruns + 1, sizeof(*t->of_run)),
					      .first = trace->session->nfunctions,
					      .several = trace->processes > 1,
					      .by_process = by_process};
	if (!order || !t || !t->items || !t->of_run ||
	    trace->nruns > UINT32_MAX / 2 - trace->session->nfunctions) {
		ip_tree_threads_destroy(t);
		return ip_error("out of memory");
	}
	for (uint32_t i = 0; i < trace->nruns; i++)
		order[i] = i;
	qsort_r(order, trace->nruns, sizeof(*order), by_thread, trace->runs);
	for (uint32_t i = 0; i < trace->nruns; i++) {
		const struct ip_thread_packets *run = &trace->runs[order[i]];

		if (i && is_same(run, &trace->runs[order[i - 1]], by_process))
			;
		else if (by_process)
			t->items[t->n++] = (struct ip_tree_thread){
				.process = &trace->process_list[run->process],
				.name = trace->process_list[run->process].name};
		else
			t->items[t->n++] = (struct ip_tree_thread){
				.process = &trace->process_list[run->process],
				.tid = run->tid,
				.name = ip_recording_thread_name(trace->session, run->member,
								 run->tid)};
		t->of_run[order[i]] = t->n - 1;
	}
	*ret = t;
	return 0;
}

void ip_tree_threads_destroy(struct ip_tree_threads *t)
{
	if (!t)
		return;
	free(t->items);
	free(t->of_run);
	free(t);
}

const struct ip_tree_thread *ip_tree_thread_of(const struct ip_tree_threads *t, uint32_t function)
{
	return t && function >= t->first && function - t->first < t->n
		       ? &t->items[function - t->first]
		       : NULL;
}

char *ip_tree_thread_text(const struct ip_tree_threads *t, const struct ip_tree_thread *thread)
{
	const char *name = thread->name;
	char *text, pid[16] = "";

	if (!t->by_process && t->several)
		snprintf(pid, sizeof(pid), "%u/", thread->process->pid);
	if (asprintf(&text, "%s %s%u%s%s", t->by_process ? "process" : "thread", pid,
		     t->by_process ? thread->process->pid : thread->tid, name ? " " : "",
		     name ? name : "") >= 0)
		return text;
	ip_error("out of memory");
	return NULL;
}

int ip_tree_threads_name(const struct ip_tree_threads *t, struct ip_names *names)
{
	for (uint32_t i = 0; i < t->n; i++) {
		char *text = ip_tree_thread_text(t, &t->items[i]);

		if (!text || ip_names_append(names, text) < 0)
			return -1;
	}
	return 0;
}
