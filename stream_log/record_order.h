/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts records of several threads in order of time. They come in runs, one of each thread, which
 * are in order already.
 */
#ifndef IP_RECORD_ORDER_H
#define IP_RECORD_ORDER_H

#include <stddef.h>
#include <stdint.h>

struct ip_order_record {
	uint64_t time;
	uint32_t thread;
	uint32_t sp, what; /* struct ip_stream_log_record */
};

struct ip_record_order {
	struct ip_order_record *items, *other; /* other: room to merge into */
	size_t n, room;
};

/* Adds a record. Returns 0, or -1 where memory ran out, or there are IP_RECORD_ORDER_MOST. */
#define IP_RECORD_ORDER_MOST (1u << 20)
int ip_record_order_add(struct ip_record_order *order, const struct ip_order_record *record);
/* Sorts the records. Those of equal times keep their order. */
void ip_record_order_sort(struct ip_record_order *order);
/* Takes the first n records away. */
void ip_record_order_take(struct ip_record_order *order, size_t n);
void ip_record_order_clear(struct ip_record_order *order);

#endif
