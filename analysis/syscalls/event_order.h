/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts events of the kernel into the order of their times while they are recorded: those of each
 * CPU and part come in order, one CPU's after the other's. An event is kept until it is certain
 * that no earlier one can come.
 */
#ifndef IP_EVENT_ORDER_H
#define IP_EVENT_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/read/kernel_reader.h"

struct ip_event_order;

/* feed: takes an event, whose fields are valid until it returns; a negative value ends the reading.
 * Returns NULL with an error where memory ran out. */
struct ip_event_order *ip_event_order_create(int (*feed)(void *context,
							 const struct ip_kernel_record *record),
					     void *context);
void ip_event_order_destroy(struct ip_event_order *order);

/* Takes an event of a CPU as kernel_format.h has it: a header, and the fields that belong to its
 * id. all: of the part with what happens in any process, if that comes by itself. Returns 0, or -1
 * with an error. */
int ip_event_order_add(struct ip_event_order *order, bool all, uint32_t cpu, const uint8_t *event,
		       size_t size);

/* So many events of the CPU and the part were lost behind the last one. Returns 0, or -1 with an
 * error. */
int ip_event_order_lose(struct ip_event_order *order, bool all, uint32_t cpu, uint64_t n);

/* All events before tsc have come: they are fed. Returns 0, or -1 with an error, or what feed() has
 * returned. */
int ip_event_order_until(struct ip_event_order *order, uint64_t tsc);

#endif
