/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads what the kernel's events tell.
 */
#include "analysis/wait/trace_waits.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/error.h"

struct thread_process {
	int32_t tid;
	uint32_t pid;
};

struct thread_processes {
	struct thread_process *items; /* sorted */
	size_t n;
};

static int by_tid(const void *left, const void *right)
{
	const struct thread_process *a = left, *b = right;

	return a->tid < b->tid ? -1 : a->tid > b->tid;
}

static uint32_t pid_of(void *context, int32_t tid)
{
	const struct thread_processes *all = context;
	const struct thread_process wanted = {.tid = tid},
				    *found = all->n ? bsearch(&wanted, all->items, all->n,
							      sizeof(wanted), by_tid)
						    : NULL;

	return found ? found->pid : 0;
}

static int read_descriptors(struct ip_trace_reader *trace, struct ip_trace_waits *w)
{
	struct thread_processes all = {.items = calloc(trace->nruns + 1, sizeof(*all.items))};

	if (!all.items)
		return ip_error("out of memory");
	for (; all.n < trace->nruns; all.n++)
		all.items[all.n] = (struct thread_process){(int32_t)trace->runs[all.n].tid,
							   trace->runs[all.n].pid};
	if (all.n)
		qsort(all.items, all.n, sizeof(*all.items), by_tid);
	if (ip_descriptors_read(trace->dir, &w->descriptors) < 0) {
		free(all.items);
		return -1;
	}
	ip_descriptors_end(&w->descriptors, w->states->closings, w->states->nclosings, pid_of,
			   &all);
	free(all.items);
	return 0;
}

int ip_trace_waits_read(struct ip_trace_reader *trace, struct ip_trace_waits **ret)
{
	struct ip_kernel_reader *reader = NULL;
	int got = ip_kernel_reader_open(trace->dir, &reader);
	struct ip_trace_waits *w;

	*ret = NULL;
	if (got <= 0)
		return got;
	w = calloc(1, sizeof(*w));
	if (!w) {
		ip_kernel_reader_close(reader);
		return ip_error("out of memory");
	}
	w->reader = reader;
	w->states = ip_states_read(reader);
	w->damage = ip_kernel_reader_damage(reader);
	if (w->states && read_descriptors(trace, w) == 0)
		w->names = ip_object_names_create(trace->session);
	if (!w->names) {
		ip_trace_waits_destroy(w);
		return -1;
	}
	*ret = w;
	return 1;
}

void ip_trace_waits_destroy(struct ip_trace_waits *w)
{
	if (!w)
		return;
	ip_object_names_destroy(w->names);
	ip_descriptors_clear(&w->descriptors);
	ip_states_destroy(w->states);
	ip_kernel_reader_close(w->reader);
	free(w);
}

char *ip_trace_waits_object(struct ip_trace_waits *w, const struct ip_wait_object *object)
{
	char *text;

	if (asprintf(&text, "%s:%s", ip_wait_kind_name(object->kind),
		     ip_object_name(w->names, object)) < 0) {
		ip_error("out of memory");
		return NULL;
	}
	return text;
}
