/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the states, system calls and interrupts of threads over time, and the names of the threads
 * that these mention, of all of them. html_waits.c has their form.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "analysis/export/html_waits_private.h"
#include "common/arch/syscalls.h"
#include "common/cleanup.h"
#include "common/error.h"

/* A thread is mentioned: the page gets its name. */
static int mention(struct ip_html_waits_writer *p, int32_t tid, uint64_t tsc)
{
	const struct ip_thread_states *t =
		tid > 0 ? ip_states_find(p->waits->states, tid, tsc) : NULL;

	if (!t || !*t->name)
		return 0;
	/* most mentions are of the one before */
	for (size_t i = p->nnames; i-- && p->nnames - i < 8;)
		if (p->names[i].tid == tid)
			return 0;
	p->names[p->nnames++] = (struct ip_named_thread){tid, t->name};
	return 0;
}

/* Writes since when and for how long; *last: when the bar before began. */
static void put_times(struct ip_html_waits_writer *p, const struct ip_thread_bar *bar,
		      uint64_t *last)
{
	const uint64_t from = ip_html_waits_ns(p, bar->from - p->bars->begin),
		       to = ip_html_waits_ns(p, bar->to - p->bars->begin);

	ip_json_uint(&p->j, NULL, from - *last);
	ip_json_uint(&p->j, NULL, to - from);
	*last = from;
}

static int put_blocked(struct ip_html_waits_writer *p, const struct ip_thread_bar *bar)
{
	const struct ip_bar_thread *thread = &p->bars->threads[bar->thread];
	const struct ip_thread_wait *wait = &thread->states->waits[bar->span->wait];
	const struct ip_thread_waking *waking = &wait->waking;
	struct ip_wait_object object;
	uint32_t number;

	ip_wait_object_of(wait, &p->waits->descriptors, thread->run->machine_pid,
			  thread->states->tid, &object);
	ip_wait_object_in(&object, thread->run->member);
	number = ip_wait_objects_add(&p->objects, &object);
	if (number == UINT32_MAX)
		return -1;
	ip_json_uint(&p->j, NULL, ip_html_waits_object(p, number));
	ip_json_int(&p->j, NULL, !waking->tsc ? 0 : waking->context ? -1 : waking->waker);
	ip_json_uint(&p->j, NULL,
		     waking->tsc && waking->tsc < bar->to && waking->tsc >= bar->from
			     ? ip_html_waits_ns(p, bar->to - waking->tsc)
			     : 0);
	return waking->tsc && !waking->context ? mention(p, waking->waker, waking->tsc) : 0;
}

static int put_state(struct ip_html_waits_writer *p, const struct ip_thread_bar *bar)
{
	ip_json_uint(&p->j, NULL, bar->state);
	if (bar->state == IP_THREAD_BLOCKED)
		return put_blocked(p, bar);
	if (bar->state == IP_THREAD_RUNNING) {
		ip_json_uint(&p->j, NULL, bar->span->cpu);
		ip_json_uint(&p->j, NULL, 0);
	} else {
		const bool runnable = bar->state == IP_THREAD_RUNNABLE;

		ip_json_int(&p->j, NULL, runnable ? bar->span->other : 0);
		ip_json_uint(&p->j, NULL, runnable && bar->span->preempted);
	}
	ip_json_uint(&p->j, NULL, 0);
	return bar->state == IP_THREAD_RUNNABLE ? mention(p, bar->span->other, bar->from) : 0;
}

/* Writes the bars of a thread in a set, and then its sums: slice and time; of states also which. */
static int put_bars(struct ip_html_waits_writer *p, const char *key, const struct ip_bar_set *set,
		    uint32_t thread, size_t *at)
{
	const bool states = set == &p->bars->states;
	uint64_t last = 0;
	char sums[32];

	ip_json_array(&p->j, key);
	for (; *at < set->n && set->items[*at].thread == thread; (*at)++) {
		const struct ip_thread_bar *bar = &set->items[*at];

		put_times(p, bar, &last);
		if (states && put_state(p, bar) < 0)
			return -1;
		if (!states)
			ip_json_uint(&p->j, NULL, bar->number);
		if (set == &p->bars->interrupts)
			ip_json_int(&p->j, NULL, bar->other);
	}
	ip_json_end_array(&p->j);
	snprintf(sums, sizeof(sums), "%s_sums", key);
	ip_json_array(&p->j, sums);
	for (size_t i = 0; set->sums && i < p->bars->nslices; i++)
		for (unsigned state = 0; state < IP_THREAD_GONE; state++) {
			const uint64_t ticks =
				set->sums[(thread * p->bars->nslices + i) * (IP_THREAD_GONE + 1) +
					  state];

			if (!ticks)
				continue;
			ip_json_uint(&p->j, NULL, i);
			ip_json_uint(&p->j, NULL, ip_html_waits_ns(p, ticks));
			if (states)
				ip_json_uint(&p->j, NULL, state);
		}
	ip_json_end_array(&p->j);
	return 0;
}

static int put_bars_of_threads(struct ip_html_waits_writer *p)
{
	size_t state = 0, call = 0, interrupt = 0;

	ip_json_array(&p->j, "threads");
	for (uint32_t i = 0; i < p->bars->nthreads; i++) {
		ip_json_object(&p->j, NULL);
		ip_json_uint(&p->j, "pid", p->bars->threads[i].run->pid);
		ip_json_uint(&p->j, "tid", p->bars->threads[i].run->tid);
		if (put_bars(p, "states", &p->bars->states, i, &state) < 0 ||
		    put_bars(p, "calls", &p->bars->calls, i, &call) < 0 ||
		    put_bars(p, "interrupts", &p->bars->interrupts, i, &interrupt) < 0)
			return -1;
		ip_json_end_object(&p->j);
	}
	ip_json_end_array(&p->j);
	ip_json_uint(&p->j, "slices", p->bars->nslices);
	ip_json_uint(&p->j, "threads_left_out", p->bars->beyond);
	ip_json_uint(&p->j, "states_left_out", p->bars->states.left_out);
	ip_json_uint(&p->j, "calls_left_out", p->bars->calls.left_out);
	ip_json_uint(&p->j, "interrupts_left_out", p->bars->interrupts.left_out);
	return 0;
}

static int by_tid(const void *left, const void *right)
{
	const struct ip_named_thread *a = left, *b = right;

	return a->tid < b->tid ? -1 : a->tid > b->tid;
}

static void put_names(struct ip_html_waits_writer *p)
{
	char key[16];

	if (p->nnames)
		qsort(p->names, p->nnames, sizeof(*p->names), by_tid);
	ip_json_object(&p->j, "names");
	for (size_t i = 0; i < p->nnames; i++) {
		if (i && p->names[i].tid == p->names[i - 1].tid)
			continue;
		snprintf(key, sizeof(key), "%" PRId32, p->names[i].tid);
		ip_json_string(&p->j, key, p->names[i].name);
	}
	ip_json_end_object(&p->j);
}

static void put_call_names(struct ip_html_waits_writer *p)
{
	_cleanup_free_ bool *used = calloc(IP_KERNEL_SYSCALLS_MAX, sizeof(*used));
	char key[16];

	ip_json_object(&p->j, "call_names");
	for (size_t i = 0; used && i < p->bars->calls.n; i++) {
		const uint32_t number = p->bars->calls.items[i].number;
		const struct ip_syscall *call = ip_syscall_find(number);

		if (number >= IP_KERNEL_SYSCALLS_MAX || used[number] || !call)
			continue;
		used[number] = true;
		snprintf(key, sizeof(key), "%" PRIu32, number);
		ip_json_string(&p->j, key, call->name);
	}
	ip_json_end_object(&p->j);
}

static void put_interrupt_names(struct ip_html_waits_writer *p)
{
	static const struct {
		uint16_t id;
		const char *name;
	} names[] = {{IP_KERNEL_IRQ_ENTRY, "interrupt"},
		     {IP_KERNEL_SOFTIRQ_ENTRY, "software interrupt"},
		     {IP_KERNEL_HRTIMER_ENTRY, "timer"},
		     {IP_KERNEL_TIMER_IRQ_ENTRY, "timer interrupt"}};
	char key[16];

	ip_json_object(&p->j, "interrupt_names");
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		snprintf(key, sizeof(key), "%u", names[i].id);
		ip_json_string(&p->j, key, names[i].name);
	}
	ip_json_end_object(&p->j);
}

int ip_html_waits_put_threads(struct ip_html_waits_writer *p)
{
	p->names = calloc(p->bars->states.n + 1, sizeof(*p->names));
	if (!p->names)
		return ip_error("out of memory");
	if (put_bars_of_threads(p) < 0)
		return -1;
	put_names(p);
	put_call_names(p);
	put_interrupt_names(p);
	return 0;
}
