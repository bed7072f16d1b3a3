/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums of system calls in a hash table.
 */
#include "analysis/syscalls/syscall_sums.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/error.h"

#define LEAST 256u

static uint32_t *slot_of(const struct ip_syscall_sums *s, uint32_t owner, uint16_t number)
{
	const uint64_t key = (uint64_t)owner << 16 | number;
	size_t at = (key ^ key >> 29) * 0x9e3779b97f4a7c15ull >> 20 & (s->size - 1);

	while (s->index[at] && (s->items[s->index[at] - 1].owner != owner ||
				s->items[s->index[at] - 1].number != number))
		at = (at + 1) & (s->size - 1);
	return &s->index[at];
}

static int grow(struct ip_syscall_sums *s)
{
	const size_t size = s->size ? 2 * s->size : LEAST;
	uint32_t *index = calloc(size, sizeof(*index));

	if (!index)
		return ip_error("out of memory");
	free(s->index);
	s->index = index;
	s->size = size;
	for (size_t i = 0; i < s->n; i++)
		*slot_of(s, s->items[i].owner, s->items[i].number) = i + 1;
	return 0;
}

static struct ip_syscall_sum *get(struct ip_syscall_sums *s, uint32_t owner, uint16_t number)
{
	uint32_t *slot;

	if (2 * (s->n + 1) > s->size && grow(s) < 0)
		return NULL;
	slot = slot_of(s, owner, number);
	if (*slot)
		return &s->items[*slot - 1];
	if (s->n >= UINT32_MAX / 4) {
		ip_error("too many sums of system calls");
		return NULL;
	}
	if (ip_array_grow(&s->items, s->n, sizeof(*s->items)) < 0)
		return NULL;
	s->items[s->n] =
		(struct ip_syscall_sum){.owner = owner, .number = number, .min = UINT64_MAX};
	*slot = ++s->n;
	return &s->items[s->n - 1];
}

static int add_error(struct ip_syscall_sum *sum, unsigned number)
{
	for (size_t i = 0; i < sum->nby_error; i++)
		if (sum->by_error[i].number == number) {
			sum->by_error[i].count++;
			return 0;
		}
	if (ip_array_grow(&sum->by_error, sum->nby_error, sizeof(*sum->by_error)) < 0)
		return -1;
	sum->by_error[sum->nby_error++] = (struct ip_syscall_error){number, 1};
	return 0;
}

int ip_syscall_sums_add(struct ip_syscall_sums *sums, uint32_t owner,
			const struct ip_syscall_call *call)
{
	struct ip_syscall_sum *sum = get(sums, owner, call->number);
	const uint64_t ticks = call->end - call->begin;
	unsigned number;

	if (!sum)
		return -1;
	sum->ticks += ticks;
	sum->parts.cpu += call->parts.cpu;
	sum->parts.runqueue += call->parts.runqueue;
	sum->parts.blocked += call->parts.blocked;
	sum->parts.unknown += call->parts.unknown;
	sum->earlier += call->earlier;
	if (call->outcome == IP_SYSCALL_OPEN) {
		sum->open++;
		sum->open_ticks += ticks;
		return 0;
	}
	sum->calls++;
	sum->unknown += call->outcome == IP_SYSCALL_LOST;
	if (call->timed && !call->earlier) {
		sum->timed++;
		sum->timed_ticks += ticks;
		sum->min = ticks < sum->min ? ticks : sum->min;
		sum->max = ticks > sum->max ? ticks : sum->max;
		ip_histogram_add(&sum->durations, ticks);
	}
	if (call->outcome != IP_SYSCALL_RETURNED || !ip_syscall_is_error(call->result, &number))
		return 0;
	sum->errors++;
	return add_error(sum, number);
}

static int compare(const void *left, const void *right)
{
	const struct ip_syscall_sum *a = left, *b = right;

	if (a->ticks != b->ticks)
		return a->ticks > b->ticks ? -1 : 1;
	if (a->calls != b->calls)
		return a->calls > b->calls ? -1 : 1;
	if (a->number != b->number)
		return a->number < b->number ? -1 : 1;
	return a->owner < b->owner ? -1 : a->owner > b->owner;
}

static int compare_errors(const void *left, const void *right)
{
	const struct ip_syscall_error *a = left, *b = right;

	if (a->count != b->count)
		return a->count > b->count ? -1 : 1;
	return a->number < b->number ? -1 : a->number > b->number;
}

void ip_syscall_sums_sort(struct ip_syscall_sums *sums)
{
	if (!sums->n)
		return;
	for (size_t i = 0; i < sums->n; i++)
		if (sums->items[i].nby_error)
			qsort(sums->items[i].by_error, sums->items[i].nby_error,
			      sizeof(struct ip_syscall_error), compare_errors);
	qsort(sums->items, sums->n, sizeof(*sums->items), compare);
	memset(sums->index, 0, sums->size * sizeof(*sums->index));
	for (size_t i = 0; i < sums->n; i++)
		*slot_of(sums, sums->items[i].owner, sums->items[i].number) = i + 1;
}

int ip_syscall_sums_copy(struct ip_syscall_sums *to, const struct ip_syscall_sums *from)
{
	for (size_t i = 0; i < from->n; i++) {
		const struct ip_syscall_sum *old = &from->items[i];
		struct ip_syscall_sum *copy = get(to, old->owner, old->number);

		if (!copy)
			return -1;
		*copy = *old;
		copy->durations = (struct ip_histogram){0};
		copy->by_error = calloc(old->nby_error + 1, sizeof(*copy->by_error));
		copy->nby_error = 0;
		if (!copy->by_error)
			return ip_error("out of memory");
		for (; copy->nby_error < old->nby_error; copy->nby_error++)
			copy->by_error[copy->nby_error] = old->by_error[copy->nby_error];
		if (ip_histogram_copy(&copy->durations, &old->durations) < 0)
			return -1;
	}
	return 0;
}

uint64_t ip_syscall_sum_mean(const struct ip_syscall_sum *sum)
{
	return sum->timed ? sum->timed_ticks / sum->timed : 0;
}

void ip_syscall_sums_clear(struct ip_syscall_sums *sums)
{
	for (size_t i = 0; i < sums->n; i++) {
		ip_histogram_deinit(&sums->items[i].durations);
		free(sums->items[i].by_error);
	}
	free(sums->items);
	free(sums->index);
	*sums = (struct ip_syscall_sums){0};
}
