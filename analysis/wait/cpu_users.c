/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sorts what all threads ran by the CPUs that they ran on.
 */
#include "analysis/wait/cpu_users.h"

#include <stdlib.h>

#include "analysis/wait/sort.h"
#include "common/error.h"

static int compare(const void *left, const void *right)
{
	const struct ip_cpu_span *a = left, *b = right;

	if (a->cpu != b->cpu)
		return a->cpu < b->cpu ? -1 : 1;
	if (a->from != b->from)
		return a->from < b->from ? -1 : 1;
	return a->to < b->to ? -1 : a->to > b->to;
}

int ip_cpu_users_make(const struct ip_states *states, struct ip_cpu_users *ret)
{
	size_t n = 0;

	*ret = (struct ip_cpu_users){0};
	for (size_t i = 0; i < states->n; i++)
		for (size_t k = 0; k < states->threads[i].nspans; k++)
			n += states->threads[i].spans[k].state == IP_THREAD_RUNNING;
	if (!n)
		return 0;
	ret->uses = calloc(n, sizeof(*ret->uses));
	if (!ret->uses)
		return ip_error("out of memory");
	for (size_t i = 0; i < states->n; i++) {
		const struct ip_thread_states *t = &states->threads[i];

		for (size_t k = 0; k < t->nspans; k++) {
			const struct ip_thread_span *s = &t->spans[k];
			const uint64_t end = k + 1 < t->nspans ? s[1].from : states->end;

			if (s->state == IP_THREAD_RUNNING && end > s->from)
				ret->uses[ret->n++] = (struct ip_cpu_span){s->from, end, t, s->cpu};
		}
	}
	ip_sort(ret->uses, ret->n, sizeof(*ret->uses), compare);
	return 0;
}

void ip_cpu_users_clear(struct ip_cpu_users *users)
{
	free(users->uses);
	*users = (struct ip_cpu_users){0};
}

/* The first use of a CPU that ends behind a time. Uses of a CPU do not overlap, but where a trace
 * is damaged: then the ends are not in order, and one of them is found. */
static size_t first_behind(const struct ip_cpu_users *users, uint32_t cpu, uint64_t tsc)
{
	size_t low = 0, high = users->n;

	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		const struct ip_cpu_span *u = &users->uses[middle];

		if (u->cpu < cpu || (u->cpu == cpu && u->to <= tsc))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

int ip_cpu_users_visit(const struct ip_cpu_users *users, uint32_t cpu, uint64_t from, uint64_t to,
		       int (*use)(void *context, const struct ip_thread_states *thread,
				  uint64_t ticks),
		       void *context)
{
	size_t i = first_behind(users, cpu, from);
	int ret = 0;

	for (; ret == 0 && from < to && i < users->n && users->uses[i].cpu == cpu; i++) {
		const struct ip_cpu_span *u = &users->uses[i];
		const uint64_t end = u->to < to ? u->to : to;

		if (u->from >= to)
			break;
		if (u->from > from)
			ret = use(context, NULL, u->from - from);
		from = u->from > from ? u->from : from;
		if (ret == 0 && end > from)
			ret = use(context, u->thread, end - from);
		from = end > from ? end : from;
	}
	if (ret == 0 && from < to)
		ret = use(context, NULL, to - from);
	return ret;
}
