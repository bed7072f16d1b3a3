/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A merge sort that begins with the runs that are there.
 */
#include "stream_log/record_order.h"

#include <stdlib.h>
#include <string.h>

int ip_record_order_add(struct ip_record_order *o, const struct ip_order_record *record)
{
	if (o->n == o->room) {
		const size_t room = o->room ? 2 * o->room : 4096;
		struct ip_order_record *items, *other;

		if (room > IP_RECORD_ORDER_MOST)
			return -1;
		items = realloc(o->items, room * sizeof(*items));
		if (items)
			o->items = items;
		other = realloc(o->other, room * sizeof(*other));
		if (other)
			o->other = other;
		if (!items || !other)
			return -1;
		o->room = room;
	}
	o->items[o->n++] = *record;
	return 0;
}

/* The end of the run that begins at i. */
static size_t run_end(const struct ip_record_order *o, size_t i)
{
	for (i++; i < o->n && o->items[i - 1].time <= o->items[i].time; i++)
		;
	return i;
}

static void merge(struct ip_record_order *o, size_t from, size_t middle, size_t end)
{
	size_t i = from, k = middle;

	for (size_t out = from; out < end; out++)
		o->other[out] = k == end || (i < middle && o->items[i].time <= o->items[k].time)
					? o->items[i++]
					: o->items[k++];
}

void ip_record_order_sort(struct ip_record_order *o)
{
	while (o->n && run_end(o, 0) < o->n) {
		struct ip_order_record *swap;

		for (size_t i = 0, middle, end; i < o->n; i = end) {
			middle = run_end(o, i);
			end = middle < o->n ? run_end(o, middle) : middle;
			merge(o, i, middle, end);
		}
		swap = o->items;
		o->items = o->other;
		o->other = swap;
	}
}

void ip_record_order_take(struct ip_record_order *o, size_t n)
{
	/* there may be no items yet */
	if (n)
		memmove(o->items, o->items + n, (o->n - n) * sizeof(*o->items));
	o->n -= n;
}

void ip_record_order_clear(struct ip_record_order *o)
{
	free(o->items);
	free(o->other);
	*o = (struct ip_record_order){0};
}
