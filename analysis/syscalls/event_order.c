/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A queue for each CPU and part, and their merge.
 */
#include "analysis/syscalls/event_order.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/error.h"

#define ROOM_LEAST (64u << 10)

/* In front of each event: a loss before it. */
struct event {
	uint64_t lost, lost_since;
	uint32_t size;
};

struct queue {
	uint8_t *bytes;
	size_t from, to, room;
	uint64_t last; /* TSC of the last event */
	uint64_t lost; /* behind it */
	uint32_t cpu;
	bool all;
};

struct ip_event_order {
	int (*feed)(void *context, const struct ip_kernel_record *record);
	void *context;
	struct queue *queues;
	size_t n;
};

struct ip_event_order *ip_event_order_create(int (*feed)(void *context,
							 const struct ip_kernel_record *record),
					     void *context)
{
	struct ip_event_order *order = calloc(1, sizeof(*order));

	if (!order) {
		ip_error("out of memory");
		return NULL;
	}
	order->feed = feed;
	order->context = context;
	return order;
}

void ip_event_order_destroy(struct ip_event_order *order)
{
	if (!order)
		return;
	for (size_t i = 0; i < order->n; i++)
		free(order->queues[i].bytes);
	free(order->queues);
	free(order);
}

static struct queue *queue_of(struct ip_event_order *order, bool all, uint32_t cpu)
{
	for (size_t i = 0; i < order->n; i++)
		if (order->queues[i].cpu == cpu && order->queues[i].all == all)
			return &order->queues[i];
	if (ip_array_grow(&order->queues, order->n, sizeof(*order->queues)) < 0)
		return NULL;
	order->queues[order->n] = (struct queue){.cpu = cpu, .all = all};
	return &order->queues[order->n++];
}

static int append(struct queue *q, const struct event *head, const uint8_t *event)
{
	const size_t more = sizeof(*head) + head->size;
	uint8_t *bytes;
	size_t room = q->room ? q->room : ROOM_LEAST;

	if (q->from == q->to)
		q->from = q->to = 0;
	if (q->to + more > q->room && q->from) {
		memmove(q->bytes, q->bytes + q->from, q->to - q->from);
		q->to -= q->from;
		q->from = 0;
	}
	while (q->to + more > room)
		room *= 2;
	if (room != q->room) {
		bytes = realloc(q->bytes, room);
		if (!bytes)
			return ip_error("out of memory");
		q->bytes = bytes;
		q->room = room;
	}
	memcpy(q->bytes + q->to, head, sizeof(*head));
	memcpy(q->bytes + q->to + sizeof(*head), event, head->size);
	q->to += more;
	return 0;
}

int ip_event_order_add(struct ip_event_order *order, bool all, uint32_t cpu, const uint8_t *event,
		       size_t size)
{
	struct queue *q = queue_of(order, all, cpu);
	struct ip_kernel_event_header h;
	struct event head = {.size = size};

	if (!q)
		return -1;
	memcpy(&h, event, sizeof(h));
	if (q->lost) {
		head.lost = q->lost;
		head.lost_since = q->last;
		q->lost = 0;
	}
	q->last = h.tsc;
	return append(q, &head, event);
}

int ip_event_order_lose(struct ip_event_order *order, bool all, uint32_t cpu, uint64_t n)
{
	struct queue *q = queue_of(order, all, cpu);

	if (!q)
		return -1;
	q->lost += n;
	return 0;
}

/* The time of the queue's first event; UINT64_MAX: it has none. */
static uint64_t first_of(const struct queue *q)
{
	struct ip_kernel_event_header h;

	if (q->from == q->to)
		return UINT64_MAX;
	memcpy(&h, q->bytes + q->from + sizeof(struct event), sizeof(h));
	return h.tsc;
}

static int feed_loss(struct ip_event_order *order, const struct queue *q, uint64_t since,
		     uint64_t tsc, uint64_t n)
{
	const struct ip_kernel_record record = {
		.id = IP_KERNEL_LOST, .tsc = tsc, .lost_since = since, .lost = n, .cpu = q->cpu};

	return order->feed(order->context, &record);
}

static int feed_first(struct ip_event_order *order, struct queue *q)
{
	struct ip_kernel_record record = {.cpu = q->cpu};
	struct ip_kernel_event_header h;
	struct event head;
	int ret = 0;

	memcpy(&head, q->bytes + q->from, sizeof(head));
	memcpy(&h, q->bytes + q->from + sizeof(head), sizeof(h));
	record.tsc = h.tsc;
	record.tid = h.tid;
	record.id = h.id;
	record.context = h.context;
	record.size = ip_kernel_fields_size(h.id);
	record.fields = q->bytes + q->from + sizeof(head) + sizeof(h);
	q->from += sizeof(head) + head.size;
	if (head.lost)
		ret = feed_loss(order, q, head.lost_since, h.tsc, head.lost);
	return ret < 0 ? ret : order->feed(order->context, &record);
}

/* Losses behind all events of a CPU: they happened before those that will come. */
static int feed_losses(struct ip_event_order *order, uint64_t tsc)
{
	for (size_t i = 0; i < order->n; i++) {
		struct queue *q = &order->queues[i];
		const uint64_t n = q->lost;
		int ret;

		if (!n || q->from < q->to)
			continue;
		q->lost = 0;
		ret = feed_loss(order, q, q->last, tsc, n);
		if (ret < 0)
			return ret;
	}
	return 0;
}

int ip_event_order_until(struct ip_event_order *order, uint64_t tsc)
{
	for (;;) {
		struct queue *earliest = NULL;
		uint64_t best = tsc, next = tsc;
		int ret = 0;

		for (size_t i = 0; i < order->n; i++) {
			const uint64_t first = first_of(&order->queues[i]);

			if (first < best) {
				next = best;
				best = first;
				earliest = &order->queues[i];
			} else if (first < next) {
				next = first;
			}
		}
		if (!earliest)
			return feed_losses(order, tsc);
		do /* a CPU's events come in runs */
			ret = feed_first(order, earliest);
		while (ret >= 0 && first_of(earliest) <= next && first_of(earliest) < tsc);
		if (ret < 0)
			return ret;
	}
}
