/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads what a live process has had of CPUs. See top_cpu.h.
 */
#include "cli/top/top_cpu.h"

#include <stdlib.h>

#include "common/array.h"

static int by_tid(const void *a, const void *b)
{
	const struct ip_proc_queue *x = a, *y = b;

	return (x->tid > y->tid) - (x->tid < y->tid);
}

struct threads {
	struct ip_proc_queue *items;
	size_t n;
};

static int add(void *context, const struct ip_proc_queue *queue)
{
	struct threads *t = context;

	if (ip_array_grow(&t->items, t->n, sizeof(*t->items)) < 0)
		return -1;
	t->items[t->n++] = *queue;
	return 0;
}

static uint64_t since(uint64_t now, uint64_t before)
{
	return now > before ? now - before : 0;
}

uint64_t cli_top_queued(const struct ip_proc_queue *before, const struct ip_proc_queue *now)
{
	const uint64_t queued = since(now->queued_ns, before->queued_ns),
		       slept = since(now->slept, before->slept),
		       preempted = since(now->preempted, before->preempted);

	if (!slept)
		return queued;
	return (unsigned __int128)queued * preempted / ((unsigned __int128)slept + preempted);
}

int cli_top_process_cpu_read(struct cli_top_process_cpu *cpu, pid_t pid)
{
	struct threads now = {0};

	if (ip_proc_cpu_used(pid, &cpu->used_ns) < 0)
		return 0;
	if (ip_proc_each_queue(pid, add, &now) < 0) {
		free(now.items);
		return -1;
	}
	if (now.n)
		qsort(now.items, now.n, sizeof(*now.items), by_tid);
	for (size_t i = 0, k = 0; i < now.n; i++) {
		const struct ip_proc_queue none = {0};

		while (k < cpu->nthreads && cpu->threads[k].tid < now.items[i].tid)
			k++;
		cpu->queued_ns +=
			cli_top_queued(k < cpu->nthreads && cpu->threads[k].tid == now.items[i].tid
					       ? &cpu->threads[k]
					       : &none,
				       &now.items[i]);
	}
	free(cpu->threads);
	cpu->threads = now.items;
	cpu->nthreads = now.n;
	return 1;
}

void cli_top_process_cpu_clear(struct cli_top_process_cpu *cpu)
{
	free(cpu->threads);
	*cpu = (struct cli_top_process_cpu){0};
}
