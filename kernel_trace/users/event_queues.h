/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events that were read of the CPUs' buffers, and wait to be given on in the order of time: a queue
 * for each stream. All of them together have a bound: an event for which there is no room is lost.
 */
#ifndef IP_EVENT_QUEUES_H
#define IP_EVENT_QUEUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An event, or a loss. */
struct ip_event_item {
	uint64_t tsc;	/* of a loss: of the event before it */
	uint64_t asked; /* as who has put it likes */
	int32_t pid;	/* likewise */
	bool lost;	/* it is a loss */
	uint32_t size;	/* of the event */
};

struct ip_event_queue {
	uint8_t *bytes; /* items, and their events */
	size_t at, used, room;
	size_t tail;   /* where the last item begins, if there is one */
	uint64_t last; /* time of the last event that was put in */
};

struct ip_event_queues {
	struct ip_event_queue *items; /* of streams, by number */
	size_t n;
	size_t rooms, most; /* bytes that all have, and may have; those beside items count, too */
};

/* Returns 0, or -1 with an error. */
int ip_event_queues_init(struct ip_event_queues *queues, size_t n, size_t most);
void ip_event_queues_clear(struct ip_event_queues *queues);

/* queue: one of the items, or another one, which begins as zeros and is cleared by
 * ip_event_queue_clear(). Returns 1; 0: there is no room, and nothing was put. */
int ip_event_queue_put(struct ip_event_queues *queues, struct ip_event_queue *queue,
		       const struct ip_event_item *item, const uint8_t *event);
/* Events are lost behind the last one. Two losses without an event between are one. Returns 0, or
 * -1 with an error. */
int ip_event_queue_put_loss(struct ip_event_queues *queues, struct ip_event_queue *queue);

/* The first item: its event, behind which that ends; NULL: there is no item. */
const uint8_t *ip_event_queue_first(const struct ip_event_queue *queue, struct ip_event_item *ret);
/* Takes it off. What was returned for it stays until ip_event_queue_tidy(), which gives back what
 * is not needed. */
void ip_event_queue_drop(struct ip_event_queue *queue);
void ip_event_queue_tidy(struct ip_event_queues *queues, struct ip_event_queue *queue);
void ip_event_queue_clear(struct ip_event_queues *queues, struct ip_event_queue *queue);

/* Gives all items before that time, in their order. number: of the queue; next: when something
 * stands behind it in the same queue, or until. Ends where take() returns less than 0, and returns
 * that; else 0. */
int ip_event_queues_merge(struct ip_event_queues *queues, uint64_t until,
			  int (*take)(void *context, size_t number,
				      const struct ip_event_item *item, const uint8_t *event,
				      uint64_t next),
			  void *context);

#endif
