/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Merges what all threads ran, by the CPUs that they ran on.
 */
#include "analysis/wait/cpu_users.h"

#include <stdbool.h>
#include <stdlib.h>

#include "analysis/wait/sort.h"
#include "common/error.h"

#define MOST_OF 64u /* users that are compared: those that had it first, and nobody */

struct use {
	uint64_t from, to; /* TSC */
	uint32_t thread;   /* index into those of the states */
	uint32_t cpu;
};

struct ip_cpu_spans {
	const struct ip_states *states;
	bool found;
	struct use *items; /* by CPU, then by time */
	size_t n;
};

/* The next use of a thread that has not been put in its place. */
struct source {
	struct use use;
	size_t next; /* the span behind it */
};

static int compare(const void *left, const void *right)
{
	const struct use *a = left, *b = right;

	if (a->cpu != b->cpu)
		return a->cpu < b->cpu ? -1 : 1;
	if (a->from != b->from)
		return a->from < b->from ? -1 : 1;
	if (a->to != b->to)
		return a->to < b->to ? -1 : 1;
	return a->thread < b->thread ? -1 : a->thread > b->thread;
}

static bool before(const struct source *a, const struct source *b)
{
	if (a->use.from != b->use.from)
		return a->use.from < b->use.from;
	if (a->use.to != b->use.to)
		return a->use.to < b->use.to;
	return a->use.thread < b->use.thread;
}

/* Finds the next use of a thread. Returns whether there is one. */
static bool advance(const struct ip_states *states, struct source *s)
{
	const struct ip_thread_states *t = &states->threads[s->use.thread];

	while (s->next < t->nspans) {
		const struct ip_thread_span *span = &t->spans[s->next++];
		const uint64_t end = s->next < t->nspans ? span[1].from : states->end;

		if (span->state != IP_THREAD_RUNNING || end <= span->from)
			continue;
		s->use.from = span->from;
		s->use.to = end;
		s->use.cpu = span->cpu;
		return true;
	}
	return false;
}

/* Puts the source at a place of the heap where it belongs. */
static void settle(struct source *heap, size_t n, size_t at)
{
	const struct source moved = heap[at];

	for (size_t child; (child = 2 * at + 1) < n; at = child) {
		if (child + 1 < n && before(&heap[child + 1], &heap[child]))
			child++;
		if (!before(&heap[child], &moved))
			break;
		heap[at] = heap[child];
	}
	heap[at] = moved;
}

/* Counts the uses of each CPU: places[cpu] is behind its last one then. Returns how many there are
 * in all. */
static size_t count(const struct ip_states *states, size_t *places)
{
	size_t n = 0;

	for (size_t i = 0; i < states->n; i++) {
		struct source s = {.use.thread = i};

		while (advance(states, &s))
			places[s.use.cpu]++;
	}
	for (size_t cpu = 0; cpu < IP_KERNEL_CPUS_MAX; cpu++)
		places[cpu] = n += places[cpu];
	return n;
}

/* Those of all threads, in order of time, each behind the ones of its CPU. A thread's spans are in
 * order, but where a trace is damaged. */
static void merge(struct ip_cpu_spans *u, struct source *heap, size_t *places)
{
	bool in_order = true;
	size_t n = 0;

	for (size_t cpu = IP_KERNEL_CPUS_MAX; cpu-- > 0;)
		places[cpu] = cpu ? places[cpu - 1] : 0;
	for (size_t i = 0; i < u->states->n; i++) {
		heap[n] = (struct source){.use.thread = i};
		n += advance(u->states, &heap[n]);
	}
	for (size_t i = n; i-- > 0;)
		settle(heap, n, i);
	while (n) {
		const uint64_t from = heap->use.from;

		u->items[places[heap->use.cpu]++] = heap->use;
		if (!advance(u->states, heap))
			*heap = heap[--n];
		else
			in_order &= heap->use.from >= from;
		if (n)
			settle(heap, n, 0);
	}
	if (!in_order)
		ip_sort(u->items, u->n, sizeof(*u->items), compare);
}

static int find(struct ip_cpu_spans *u)
{
	size_t *places = calloc(IP_KERNEL_CPUS_MAX, sizeof(*places));
	struct source *heap = calloc(u->states->n + 1, sizeof(*heap));

	if (places && heap) {
		u->n = count(u->states, places);
		u->items = malloc((u->n + 1) * sizeof(*u->items));
	}
	if (u->items)
		merge(u, heap, places);
	u->found = u->items;
	free(places);
	free(heap);
	return u->found ? 0 : ip_error("out of memory");
}

int ip_cpu_users_make(const struct ip_states *states, struct ip_cpu_users *ret)
{
	ret->uses = calloc(1, sizeof(*ret->uses));
	if (!ret->uses)
		return ip_error("out of memory");
	ret->uses->states = states;
	return 0;
}

void ip_cpu_users_clear(struct ip_cpu_users *users)
{
	if (users->uses)
		free(users->uses->items);
	free(users->uses);
	*users = (struct ip_cpu_users){0};
}

/* The first use of a CPU that ends behind a time. Uses of a CPU do not overlap, but where a trace
 * is damaged: then the ends are not in order, and one of them is found. */
static size_t first_behind(const struct ip_cpu_spans *uses, uint32_t cpu, uint64_t tsc)
{
	size_t low = 0, high = uses->n;

	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		const struct use *u = &uses->items[middle];

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
	struct ip_cpu_spans *uses = users->uses;
	int ret = uses->found ? 0 : find(uses);
	size_t i = ret == 0 ? first_behind(uses, cpu, from) : uses->n;

	for (; ret == 0 && from < to && i < uses->n && uses->items[i].cpu == cpu; i++) {
		const struct use *u = &uses->items[i];
		const uint64_t end = u->to < to ? u->to : to;

		if (u->from >= to)
			break;
		if (u->from > from)
			ret = use(context, NULL, u->from - from);
		from = u->from > from ? u->from : from;
		if (ret == 0 && end > from)
			ret = use(context, &uses->states->threads[u->thread], end - from);
		from = end > from ? end : from;
	}
	if (ret == 0 && from < to)
		ret = use(context, NULL, to - from);
	return ret;
}

struct times {
	struct time {
		const struct ip_thread_states *thread;
		uint64_t ticks;
	} items[MOST_OF]; /* the first one: nobody */
	size_t n;
};

static int add_time(void *context, const struct ip_thread_states *thread, uint64_t ticks)
{
	struct times *times = context;
	size_t i = 0;

	while (i < times->n && times->items[i].thread != thread)
		i++;
	if (i == MOST_OF)
		return 0;
	times->items[i].thread = thread;
	times->items[i].ticks += ticks;
	times->n += i == times->n;
	return 0;
}

const struct ip_thread_states *ip_cpu_users_most(const struct ip_cpu_users *users, uint32_t cpu,
						 uint64_t from, uint64_t to, bool *ret_any)
{
	struct times times = {.n = 1};
	const struct time *most = times.items;

	*ret_any = false;
	/* without memory, it is not known */
	if (ip_cpu_users_visit(users, cpu, from, to, add_time, &times) < 0)
		return NULL;
	*ret_any = times.n > 1;
	for (size_t i = 1; i < times.n; i++)
		if (times.items[i].ticks > most->ticks)
			most = &times.items[i];
	return most->thread;
}
