/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps events until it is known in which order they happened.
 */
#include "kernel_trace/users/event_queues.h"

#include <stdlib.h>
#include <string.h>

#include "common/error.h"

#define KEPT (64u << 10) /* of a queue that is empty */

int ip_event_queues_init(struct ip_event_queues *queues, size_t n, size_t most)
{
	*queues = (struct ip_event_queues){.n = n, .most = most};
	queues->items = calloc(n, sizeof(*queues->items));
	return queues->items ? 0 : ip_error("out of memory");
}

void ip_event_queue_clear(struct ip_event_queues *queues, struct ip_event_queue *queue)
{
	free(queue->bytes);
	queues->rooms -= queue->room;
	*queue = (struct ip_event_queue){.last = queue->last};
}

void ip_event_queues_clear(struct ip_event_queues *queues)
{
	for (size_t i = 0; queues->items && i < queues->n; i++)
		ip_event_queue_clear(queues, &queues->items[i]);
	free(queues->items);
	queues->items = NULL;
}

/* beyond: also where all have what they may have together. */
static bool make_room(struct ip_event_queues *all, struct ip_event_queue *q, size_t size,
		      bool beyond)
{
	const size_t room = 2 * q->room + size + 4096;
	uint8_t *grown;

	if (q->used + size <= q->room)
		return true;
	if (!beyond && all->rooms + room - q->room > all->most)
		return false;
	grown = realloc(q->bytes, room);
	if (!grown)
		return false;
	all->rooms += room - q->room;
	q->bytes = grown;
	q->room = room;
	return true;
}

static void append(struct ip_event_queue *q, const struct ip_event_item *item, const uint8_t *event)
{
	q->tail = q->used;
	memcpy(q->bytes + q->used, item, sizeof(*item));
	if (item->size)
		memcpy(q->bytes + q->used + sizeof(*item), event, item->size);
	q->used += sizeof(*item) + item->size;
}

int ip_event_queue_put_loss(struct ip_event_queues *all, struct ip_event_queue *q)
{
	struct ip_event_item item = {.tsc = q->last, .lost = true}, tail;

	if (q->used > q->at) {
		memcpy(&tail, q->bytes + q->tail, sizeof(tail));
		if (tail.lost)
			return 0;
	}
	if (!make_room(all, q, sizeof(item), true))
		return ip_error("out of memory for events of the kernel");
	append(q, &item, NULL);
	return 0;
}

int ip_event_queue_put(struct ip_event_queues *all, struct ip_event_queue *q,
		       const struct ip_event_item *item, const uint8_t *event)
{
	if (!make_room(all, q, sizeof(*item) + item->size, false))
		return 0;
	append(q, item, event);
	q->last = item->tsc;
	return 1;
}

const uint8_t *ip_event_queue_first(const struct ip_event_queue *q, struct ip_event_item *ret)
{
	if (q->at >= q->used)
		return NULL;
	memcpy(ret, q->bytes + q->at, sizeof(*ret));
	return q->bytes + q->at + sizeof(*ret);
}

void ip_event_queue_drop(struct ip_event_queue *q)
{
	struct ip_event_item item;

	if (ip_event_queue_first(q, &item))
		q->at += sizeof(item) + item.size;
}

void ip_event_queue_tidy(struct ip_event_queues *all, struct ip_event_queue *q)
{
	if (!q->at)
		return;
	memmove(q->bytes, q->bytes + q->at, q->used - q->at);
	q->used -= q->at;
	q->tail -= q->tail < q->at ? q->tail : q->at;
	q->at = 0;
	/* so that one CPU's rush does not keep others from having room */
	if (!q->used && q->room > KEPT)
		ip_event_queue_clear(all, q);
}

int ip_event_queues_merge(struct ip_event_queues *all, uint64_t until,
			  int (*take)(void *context, size_t number,
				      const struct ip_event_item *item, const uint8_t *event,
				      uint64_t next),
			  void *context)
{
	for (;;) {
		uint64_t second = until;
		size_t first = SIZE_MAX;
		struct ip_event_item item, least = {.tsc = until};

		for (size_t i = 0; i < all->n; i++) {
			if (!ip_event_queue_first(&all->items[i], &item) || item.tsc >= second)
				continue;
			if (item.tsc < least.tsc) {
				second = least.tsc;
				least = item;
				first = i;
			} else {
				second = item.tsc;
			}
		}
		if (first == SIZE_MAX)
			break;
		do {
			struct ip_event_queue *q = &all->items[first];
			const uint8_t *event = ip_event_queue_first(q, &least);
			int ret;

			ip_event_queue_drop(q);
			ret = take(context, first, &least, event,
				   ip_event_queue_first(q, &item) ? item.tsc : until);
			if (ret < 0)
				return ret;
		} while (ip_event_queue_first(&all->items[first], &least) && least.tsc < second);
	}
	for (size_t i = 0; i < all->n; i++)
		ip_event_queue_tidy(all, &all->items[i]);
	return 0;
}
