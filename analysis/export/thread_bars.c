/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collects bars of threads.
 */
#include "analysis/export/thread_bars.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/read/kernel_reader.h"
#include "analysis/wait/interrupts.h"
#include "common/error.h"

#define STATES	   60000u
#define CALLS	   40000u
#define INTERRUPTS 20000u
#define SLICES	   1024u
#define ALL_SLICES 100000u /* of all threads together */
#define KINDS	   (IP_THREAD_GONE + 1u)

/* The system call that a thread is in. */
struct open {
	uint64_t from; /* 0: in none */
	uint32_t number;
};

struct collector {
	struct ip_thread_bars *bars;
	const struct ip_trace_reader *trace;
	uint64_t end;
	struct open *calls; /* by thread */
	struct ip_interrupt_stacks stacks;
	/* threads by tid; sorted */
	struct tid_place {
		int32_t tid;
		uint32_t thread;
	} * places;
};

static int by_length(const void *left, const void *right)
{
	const struct ip_thread_bar *a = left, *b = right;
	const uint64_t x = a->to - a->from, y = b->to - b->from;

	if (x != y)
		return x > y ? -1 : 1;
	if (a->from != b->from)
		return a->from < b->from ? -1 : 1;
	return a->thread < b->thread ? -1 : a->thread > b->thread;
}

static int by_place(const void *left, const void *right)
{
	const struct ip_thread_bar *a = left, *b = right;

	if (a->thread != b->thread)
		return a->thread < b->thread ? -1 : 1;
	if (a->from != b->from)
		return a->from < b->from ? -1 : 1;
	return a->to > b->to ? -1 : a->to < b->to;
}

/* When a slice begins. */
static uint64_t slice_begin(const struct ip_thread_bars *b, size_t slice)
{
	return b->begin + (uint64_t)((unsigned __int128)b->ticks * slice / b->nslices);
}

static void sum_up(const struct ip_thread_bars *b, struct ip_bar_set *set,
		   const struct ip_thread_bar *bar)
{
	size_t slice =
		(unsigned __int128)(bar->from - b->begin) * b->nslices / (b->ticks ? b->ticks : 1);
	uint64_t from = bar->from;

	while (from < bar->to && slice < b->nslices) {
		uint64_t end = slice_begin(b, slice + 1);

		if (end > bar->to)
			end = bar->to;
		if (end > from) {
			set->sums[(bar->thread * b->nslices + slice) * KINDS + bar->state] +=
				end - from;
			from = end;
		}
		slice++;
	}
}

/* Keeps the longest. */
static int cut(const struct ip_thread_bars *b, struct ip_bar_set *set)
{
	if (set->n <= set->most)
		return 0;
	if (!set->sums)
		set->sums = calloc(b->nthreads * b->nslices * KINDS, sizeof(*set->sums));
	if (!set->sums)
		return ip_error("out of memory");
	qsort(set->items, set->n, sizeof(*set->items), by_length);
	for (size_t i = set->most; i < set->n; i++)
		sum_up(b, set, &set->items[i]);
	set->left_out += set->n - set->most;
	set->n = set->most;
	return 0;
}

/* Adds a bar, as far as it lies in the time of the bars. */
static int add(const struct collector *c, struct ip_bar_set *set, struct ip_thread_bar bar)
{
	if (bar.from < c->bars->begin)
		bar.from = c->bars->begin;
	if (bar.to > c->end)
		bar.to = c->end;
	if (bar.from >= bar.to)
		return 0;
	if (set->n == 2 * set->most && cut(c->bars, set) < 0)
		return -1;
	if (set->n == set->room) {
		const size_t room = set->room ? 2 * set->room : 1024;
		struct ip_thread_bar *items = reallocarray(set->items, room, sizeof(*items));

		if (!items)
			return ip_error("out of memory");
		set->items = items;
		set->room = room;
	}
	set->items[set->n++] = bar;
	return 0;
}

static int finish(const struct ip_thread_bars *b, struct ip_bar_set *set)
{
	if (cut(b, set) < 0)
		return -1;
	if (set->n)
		qsort(set->items, set->n, sizeof(*set->items), by_place);
	return 0;
}

static int by_thread(const void *left, const void *right)
{
	const struct ip_thread_packets *a = ((const struct ip_bar_thread *)left)->run,
				       *b = ((const struct ip_bar_thread *)right)->run;

	if (a->pid != b->pid)
		return a->pid < b->pid ? -1 : 1;
	if (a->tid != b->tid)
		return a->tid < b->tid ? -1 : 1;
	return a->begin < b->begin ? -1 : a->begin > b->begin;
}

static int by_records(const void *left, const void *right)
{
	const struct ip_thread_packets *a = ((const struct ip_bar_thread *)left)->run,
				       *b = ((const struct ip_bar_thread *)right)->run;

	return a->bytes != b->bytes ? (a->bytes > b->bytes ? -1 : 1) : by_thread(left, right);
}

static int by_tid(const void *left, const void *right)
{
	const struct tid_place *a = left, *b = right;

	return a->tid < b->tid ? -1 : a->tid > b->tid;
}

static int list_threads(struct collector *c, const struct ip_states *states, uint32_t tid)
{
	struct ip_thread_bars *b = c->bars;
	size_t n = 0;

	b->threads = calloc(c->trace->nruns + 1, sizeof(*b->threads));
	if (!b->threads)
		return ip_error("out of memory");
	for (size_t i = 0; i < c->trace->nruns; i++)
		if (!c->trace->runs[i].off && (!tid || c->trace->runs[i].tid == tid))
			b->threads[n++].run = &c->trace->runs[i];
	if (n)
		qsort(b->threads, n, sizeof(*b->threads), by_thread);
	for (size_t i = 0; i < n; i++)
		if (!b->nthreads ||
		    b->threads[b->nthreads - 1].run->pid != b->threads[i].run->pid ||
		    b->threads[b->nthreads - 1].run->tid != b->threads[i].run->tid)
			b->threads[b->nthreads++] = b->threads[i];
	if (b->nthreads > IP_BAR_THREADS) {
		qsort(b->threads, b->nthreads, sizeof(*b->threads), by_records);
		b->beyond = b->nthreads - IP_BAR_THREADS;
		b->nthreads = IP_BAR_THREADS;
		qsort(b->threads, b->nthreads, sizeof(*b->threads), by_thread);
	}
	b->nslices = b->nthreads ? ALL_SLICES / b->nthreads : 1;
	if (b->nslices > SLICES)
		b->nslices = SLICES;
	c->calls = calloc(b->nthreads + 1, sizeof(*c->calls));
	c->places = calloc(b->nthreads + 1, sizeof(*c->places));
	if (!c->calls || !c->places)
		return ip_error("out of memory");
	for (size_t i = 0; i < b->nthreads; i++) {
		const struct ip_thread_packets *run = b->threads[i].run;

		b->threads[i].states =
			ip_states_find(states, run->machine_tid,
				       run->begin > states->begin ? run->begin : states->begin);
		c->places[i] = (struct tid_place){(int32_t)run->machine_tid, i};
	}
	if (b->nthreads)
		qsort(c->places, b->nthreads, sizeof(*c->places), by_tid);
	return 0;
}

/* Returns the index of a thread; nthreads: it is none of them. */
static size_t thread_of(const struct collector *c, int32_t tid)
{
	const struct tid_place wanted = {.tid = tid},
			       *found = c->bars->nthreads
						? bsearch(&wanted, c->places, c->bars->nthreads,
							  sizeof(wanted), by_tid)
						: NULL;

	return found ? found->thread : c->bars->nthreads;
}

static int add_states(const struct collector *c, const struct ip_states *states)
{
	struct ip_thread_bars *b = c->bars;

	for (size_t i = 0; i < b->nthreads; i++) {
		const struct ip_thread_states *t = b->threads[i].states;

		for (size_t k = 0; t && k < t->nspans; k++) {
			const struct ip_thread_bar bar = {
				.from = t->spans[k].from,
				.to = k + 1 < t->nspans ? t->spans[k + 1].from : states->end,
				.thread = i,
				.state = t->spans[k].state,
				.span = &t->spans[k]};

			if (bar.state != IP_THREAD_GONE && add(c, &b->states, bar) < 0)
				return -1;
		}
	}
	return finish(b, &b->states);
}

static int add_interrupt(struct collector *c, const struct ip_interrupt *interrupt)
{
	const size_t thread = thread_of(c, interrupt->tid);

	return thread == c->bars->nthreads ? 0
					   : add(c, &c->bars->interrupts,
						 (struct ip_thread_bar){.from = interrupt->from,
									.to = interrupt->to,
									.thread = thread,
									.number = interrupt->event,
									.other = interrupt->line});
}

static int begin_call(struct collector *c, const struct ip_kernel_record *r, size_t thread)
{
	c->calls[thread] = (struct open){.from = r->tsc, .number = r->id - IP_KERNEL_SYSCALL_ENTRY};
	return 0;
}

static int end_call(struct collector *c, uint64_t tsc, size_t thread)
{
	const struct open *open = &c->calls[thread];
	const uint64_t from = open->from;

	if (!from)
		return 0;
	c->calls[thread].from = 0;
	return add(c, &c->bars->calls,
		   (struct ip_thread_bar){
			   .from = from, .to = tsc, .thread = thread, .number = open->number});
}

static int take(struct collector *c, const struct ip_kernel_record *r)
{
	struct ip_interrupt interrupt;
	unsigned depth;
	size_t thread;
	const int ended = ip_interrupt_stacks_take(&c->stacks, r, &interrupt, &depth);

	if (ended)
		return ended < 0 ? -1 : add_interrupt(c, &interrupt);
	if (r->id == IP_KERNEL_LOST) {
		/* the ends of what was open may be lost */
		for (size_t i = 0; !r->all && i < c->bars->nthreads; i++)
			c->calls[i].from = 0;
		return 0;
	}
	if (r->id < IP_KERNEL_SYSCALL_ENTRY)
		return 0;
	thread = thread_of(c, r->tid);
	if (thread == c->bars->nthreads)
		return 0;
	return r->id >= IP_KERNEL_SYSCALL_EXIT ? end_call(c, r->tsc, thread)
					       : begin_call(c, r, thread);
}

static int add_events(struct collector *c, const struct ip_states *states)
{
	struct ip_kernel_reader *reader = NULL;
	struct ip_kernel_record record;
	int got = ip_kernel_reader_open(c->trace->dir, &reader);

	while (got > 0 && (got = ip_kernel_reader_next(reader, &record)) > 0)
		if (take(c, &record) < 0)
			got = -1;
	ip_kernel_reader_close(reader);
	/* calls that had not returned */
	for (size_t i = 0; got == 0 && i < c->bars->nthreads; i++) {
		const struct ip_thread_states *t = c->bars->threads[i].states;

		got = end_call(c, t && t->end < states->end ? t->end : states->end, i);
	}
	return got < 0 || finish(c->bars, &c->bars->calls) < 0
		       ? -1
		       : finish(c->bars, &c->bars->interrupts);
}

struct ip_thread_bars *ip_thread_bars_collect(const struct ip_trace_reader *trace,
					      const struct ip_states *states, uint32_t tid)
{
	struct ip_thread_bars *b = calloc(1, sizeof(*b));
	struct collector c = {.bars = b, .trace = trace, .end = trace->end};
	int ret = -1;

	if (!b) {
		ip_error("out of memory");
		return NULL;
	}
	b->begin = trace->begin;
	b->ticks = trace->end > trace->begin ? trace->end - trace->begin : 1;
	b->states.most = STATES;
	b->calls.most = CALLS;
	b->interrupts.most = INTERRUPTS;
	if (list_threads(&c, states, tid) == 0 && add_states(&c, states) == 0)
		ret = add_events(&c, states);
	free(c.calls);
	ip_interrupt_stacks_clear(&c.stacks);
	free(c.places);
	if (ret == 0)
		return b;
	ip_thread_bars_destroy(b);
	return NULL;
}

void ip_thread_bars_destroy(struct ip_thread_bars *b)
{
	if (!b)
		return;
	free(b->threads);
	free(b->states.items);
	free(b->states.sums);
	free(b->calls.items);
	free(b->calls.sums);
	free(b->interrupts.items);
	free(b->interrupts.sums);
	free(b);
}
