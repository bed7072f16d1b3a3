/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When threads asked for work, whether they were blocked then or not.
 */
#include "analysis/wait/idle/idle_calls.h"

#include <stdlib.h>

#include "analysis/read/kernel_reader.h"
#include "analysis/wait/idle/idle_kind.h"
#include "common/array.h"

#define ASKINGS_MOST (64u << 20)

size_t ip_idle_calls_first(const struct ip_idle_calls *calls, int32_t tid, uint64_t tsc)
{
	size_t low = 0, high = calls->n;

	while (low < high) {
		const size_t middle = (low + high) / 2;
		const struct ip_idle_call *a = &calls->items[middle];

		if (a->tid < tid || (a->tid == tid && a->tsc < tsc))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static int by_thread(const void *left, const void *right)
{
	const struct ip_idle_call *a = left, *b = right;

	if (a->tid != b->tid)
		return a->tid < b->tid ? -1 : 1;
	return a->tsc < b->tsc ? -1 : a->tsc > b->tsc;
}

int ip_idle_calls_read(const char *dir, struct ip_idle_calls *ret)
{
	struct ip_kernel_reader *reader = NULL;
	struct ip_kernel_record record;
	int got;

	*ret = (struct ip_idle_calls){0};
	got = ip_kernel_reader_open(dir, &reader);
	if (got <= 0)
		return got;
	while ((got = ip_kernel_reader_next(reader, &record)) > 0) {
		const struct ip_idle_call asking = {record.tsc, record.tid};

		if (record.id < IP_KERNEL_SYSCALL_ENTRY || record.id >= IP_KERNEL_SYSCALL_EXIT ||
		    !ip_idle_call_asks(record.id - IP_KERNEL_SYSCALL_ENTRY) ||
		    ret->n >= ASKINGS_MOST)
			continue;
		if (ip_array_grow(&ret->items, ret->n, sizeof(asking)) < 0) {
			got = -1;
			break;
		}
		ret->items[ret->n++] = asking;
	}
	ip_kernel_reader_close(reader);
	if (ret->n)
		qsort(ret->items, ret->n, sizeof(*ret->items), by_thread);
	return got;
}

void ip_idle_calls_clear(struct ip_idle_calls *calls)
{
	free(calls->items);
	*calls = (struct ip_idle_calls){0};
}
