/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who had the CPU that a thread waited for, in words.
 */
#include "cli/wait/cpu_user.h"

#include <stdio.h>

#include "cli/wait/wait_chain_print.h"
#include "common/print.h"

#define THREADS_MOST 64u /* that are compared: those that had it first */

struct times {
	struct time {
		const struct ip_thread_states *thread;
		uint64_t ticks;
	} items[THREADS_MOST];
	size_t n;
};

static int take(void *context, const struct ip_thread_states *thread, uint64_t ticks)
{
	struct times *times = context;
	size_t i = 0;

	if (!thread)
		return 0;
	while (i < times->n && times->items[i].thread != thread)
		i++;
	if (i == THREADS_MOST)
		return 0;
	times->items[i].thread = thread;
	times->items[i].ticks += ticks;
	times->n += i == times->n;
	return 0;
}

static const struct ip_thread_states *find(const struct cli_wait_trace *t,
					   const struct ip_thread_states *thread, uint64_t from,
					   uint64_t ticks)
{
	const size_t span = ip_states_span_at(thread, from);
	struct times times = {0};
	const struct time *most = NULL;

	/* without memory, it is not known */
	if (span == thread->nspans || ip_cpu_users_visit(&t->users, thread->spans[span].cpu, from,
							 from + ticks, take, &times) < 0)
		return NULL;
	for (size_t i = 0; i < times.n; i++)
		if (!most || times.items[i].ticks > most->ticks)
			most = &times.items[i];
	return most ? most->thread : NULL;
}

void cli_wait_print_cpu_user(const struct cli_wait_trace *t, const struct ip_thread_states *thread,
			     uint64_t from, uint64_t ticks, uint64_t count)
{
	const struct ip_thread_states *had = find(t, thread, from, ticks);

	if (!had) {
		/* as where it was moved to another CPU, or woken on one that slept */
		ip_print(stdout, ", which nobody had, as far as is known");
		return;
	}
	/* of several waits the longest one tells no more than its own */
	ip_print(stdout, count > 1 ? ", the longest time when " : ", which ");
	cli_wait_print_thread(had);
	ip_print(stdout, count > 1 ? " had it" : " had");
}
