/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the ends of interrupts, and sorts them by the threads that they came upon.
 */
#include "analysis/wait/interrupts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/wait/sort.h"
#include "common/array.h"
#include "common/error.h"

#define NESTED	   8u /* interrupts of a CPU that are in each other */
#define LINES_MOST 4096u

struct ip_interrupt_cpu {
	struct ip_interrupt open[NESTED];
	unsigned n;
};

static struct ip_interrupt_cpu *cpu_of(struct ip_interrupt_stacks *stacks, uint32_t number)
{
	if (number >= stacks->ncpus) {
		struct ip_interrupt_cpu *cpus =
			reallocarray(stacks->cpus, number + 1ul, sizeof(*cpus));

		if (!cpus) {
			ip_error("out of memory");
			return NULL;
		}
		memset(cpus + stacks->ncpus, 0, (number + 1 - stacks->ncpus) * sizeof(*cpus));
		stacks->cpus = cpus;
		stacks->ncpus = number + 1;
	}
	return &stacks->cpus[number];
}

static void enter(struct ip_interrupt_cpu *cpu, const struct ip_kernel_record *r)
{
	const bool has_line = r->id == IP_KERNEL_IRQ_ENTRY || r->id == IP_KERNEL_SOFTIRQ_ENTRY;

	if (cpu->n < NESTED)
		cpu->open[cpu->n++] =
			(struct ip_interrupt){.from = r->tsc,
					      .tid = r->tid,
					      .line = has_line ? ip_kernel_s32(r, 0) : -1,
					      .event = r->id};
}

static int leave(struct ip_interrupt_cpu *cpu, const struct ip_kernel_record *r,
		 struct ip_interrupt *ret, unsigned *ret_depth)
{
	/* what has no end before the end of what is around it had one that was lost */
	while (cpu->n) {
		*ret = cpu->open[--cpu->n];
		if (ret->event == r->id - 1) {
			ret->to = r->tsc;
			*ret_depth = cpu->n;
			return 1;
		}
	}
	return 0;
}

int ip_interrupt_stacks_take(struct ip_interrupt_stacks *stacks, const struct ip_kernel_record *r,
			     struct ip_interrupt *ret, unsigned *ret_depth)
{
	struct ip_interrupt_cpu *cpu;

	if (r->cpu >= IP_KERNEL_CPUS_MAX)
		return 0;
	switch (r->id) {
	case IP_KERNEL_LOST:
		if (r->cpu < stacks->ncpus)
			stacks->cpus[r->cpu].n = 0;
		return 0;
	case IP_KERNEL_IRQ_ENTRY:
	case IP_KERNEL_SOFTIRQ_ENTRY:
	case IP_KERNEL_TIMER_IRQ_ENTRY:
	case IP_KERNEL_HRTIMER_ENTRY:
		cpu = cpu_of(stacks, r->cpu);
		if (!cpu)
			return -1;
		enter(cpu, r);
		return 0;
	case IP_KERNEL_IRQ_EXIT:
	case IP_KERNEL_SOFTIRQ_EXIT:
	case IP_KERNEL_TIMER_IRQ_EXIT:
	case IP_KERNEL_HRTIMER_EXIT:
		cpu = cpu_of(stacks, r->cpu);
		return cpu ? leave(cpu, r, ret, ret_depth) : -1;
	default:
		return 0;
	}
}

void ip_interrupt_stacks_clear(struct ip_interrupt_stacks *stacks)
{
	free(stacks->cpus);
	*stacks = (struct ip_interrupt_stacks){0};
}

static int add_line(struct ip_interrupts *s, const struct ip_kernel_record *r)
{
	struct ip_interrupt_line new = {.line = ip_kernel_s32(r, 0)};

	for (size_t i = s->nlines; i > 0; i--)
		if (s->lines[i - 1].line == new.line)
			return 0;
	if (s->nlines == LINES_MOST)
		return 0;
	memcpy(new.name, r->fields + sizeof(int32_t), sizeof(new.name));
	if (ip_array_grow(&s->lines, s->nlines, sizeof(new)) < 0)
		return -1;
	s->lines[s->nlines++] = new;
	return 0;
}

static int compare(const void *left, const void *right)
{
	const struct ip_interrupt *a = left, *b = right;

	if (a->tid != b->tid)
		return a->tid < b->tid ? -1 : 1;
	return a->from < b->from ? -1 : a->from > b->from;
}

static int note_call(struct ip_interrupt_observer *observer, const struct ip_kernel_record *r)
{
	if (r->tid <= 0)
		return 0;
	if (r->id >= IP_KERNEL_SYSCALL_EXIT)
		return ip_number_map_get(&observer->calls, r->tid)
			       ? ip_number_map_put(&observer->calls, r->tid, 0)
			       : 0;
	return r->id >= IP_KERNEL_SYSCALL_ENTRY ? ip_number_map_put(&observer->calls, r->tid, 1)
						: 0;
}

static bool is_wanted(const struct ip_interrupt_observer *observer, const struct ip_interrupt *i,
		      unsigned depth)
{
	/* the idle thread is nobody's */
	return !depth && i->tid > 0 && i->to > i->from &&
	       (i->event != IP_KERNEL_SOFTIRQ_ENTRY ||
		!ip_number_map_get(&observer->calls, i->tid));
}

void ip_interrupt_observer_begin(struct ip_interrupt_observer *observer, struct ip_interrupts *ret)
{
	*ret = (struct ip_interrupts){0};
	*observer = (struct ip_interrupt_observer){.to = ret};
}

int ip_interrupt_observer_take(void *context, const struct ip_kernel_record *record)
{
	struct ip_interrupt_observer *observer = context;
	struct ip_interrupts *to = observer->to;
	struct ip_interrupt one;
	unsigned depth;
	int ended;

	if (record->id < IP_KERNEL_IRQ_ENTRY) /* of the scheduler: most events are */
		return 0;
	ended = ip_interrupt_stacks_take(&observer->stacks, record, &one, &depth);
	if (ended < 0 || note_call(observer, record) < 0 ||
	    (record->id == IP_KERNEL_IRQ_ENTRY && add_line(to, record) < 0))
		return -1;
	if (!ended || !is_wanted(observer, &one, depth))
		return 0;
	if (ip_array_grow(&to->items, to->n, sizeof(one)) < 0)
		return -1;
	to->items[to->n++] = one;
	return 0;
}

void ip_interrupt_observer_end(struct ip_interrupt_observer *observer)
{
	struct ip_interrupts *ret = observer->to;

	ip_interrupt_stacks_clear(&observer->stacks);
	ip_number_map_clear(&observer->calls);
	ip_sort(ret->items, ret->n, sizeof(*ret->items), compare);
	for (size_t i = 1; i < ret->n; i++) {
		const struct ip_interrupt *last = &ret->items[i - 1];

		if (last->tid == ret->items[i].tid)
			ret->items[i].before = last->before + (last->to - last->from);
	}
}

int ip_interrupts_read(const char *dir, struct ip_interrupts *ret)
{
	struct ip_kernel_reader *reader = NULL;
	struct ip_interrupt_observer observer;
	struct ip_kernel_record record;
	int got = ip_kernel_reader_open(dir, &reader);

	ip_interrupt_observer_begin(&observer, ret);
	while (got > 0 && (got = ip_kernel_reader_next(reader, &record)) > 0)
		if (ip_interrupt_observer_take(&observer, &record) < 0)
			got = -1;
	ip_kernel_reader_close(reader);
	ip_interrupt_observer_end(&observer);
	return got;
}

void ip_interrupts_clear(struct ip_interrupts *s)
{
	free(s->items);
	free(s->lines);
	*s = (struct ip_interrupts){0};
}

const struct ip_interrupt *ip_interrupts_of(const struct ip_interrupts *s, int32_t tid,
					    size_t *ret_n)
{
	size_t low = 0, high = s->n, first;

	while (low < high) {
		const size_t middle = low + (high - low) / 2;

		if (s->items[middle].tid < tid)
			low = middle + 1;
		else
			high = middle;
	}
	for (first = low, high = s->n; low < high;) {
		const size_t middle = low + (high - low) / 2;

		if (s->items[middle].tid <= tid)
			low = middle + 1;
		else
			high = middle;
	}
	*ret_n = low - first;
	return *ret_n ? &s->items[first] : NULL;
}

size_t ip_interrupts_behind(const struct ip_interrupt *items, size_t n, uint64_t tsc)
{
	size_t low = 0;

	while (low < n) {
		const size_t middle = low + (n - low) / 2;

		if (items[middle].to <= tsc)
			low = middle + 1;
		else
			n = middle;
	}
	return low;
}

const char *ip_interrupt_name(const struct ip_interrupts *s, uint16_t event, int32_t line,
			      char *buf)
{
	static const char *const kinds[] = {"HI",	"TIMER",   "NET_TX", "NET_RX",	"BLOCK",
					    "IRQ_POLL", "TASKLET", "SCHED",  "HRTIMER", "RCU"};
	const char *name = NULL;

	switch (event) {
	case IP_KERNEL_SOFTIRQ_ENTRY:
		if (line >= 0 && (size_t)line < sizeof(kinds) / sizeof(*kinds))
			snprintf(buf, IP_INTERRUPT_NAME_MAX, "softirq %s", kinds[line]);
		else
			snprintf(buf, IP_INTERRUPT_NAME_MAX, "softirq %d", line);
		break;
	case IP_KERNEL_IRQ_ENTRY:
		for (size_t i = 0; i < s->nlines; i++)
			if (s->lines[i].line == line && *s->lines[i].name)
				name = s->lines[i].name;
		if (name)
			snprintf(buf, IP_INTERRUPT_NAME_MAX, "interrupt %d (%.16s)", line, name);
		else
			snprintf(buf, IP_INTERRUPT_NAME_MAX, "interrupt %d", line);
		break;
	default:
		snprintf(buf, IP_INTERRUPT_NAME_MAX, "timer interrupt");
	}
	return buf;
}
