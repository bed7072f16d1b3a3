/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the functions that are so hot that their probes distort the run. It learns this from the
 * collector's packets.
 *
 * It looks at one packet in SAMPLE. If the packet's thread makes too few events, the records need
 * not be read. Entries and exits are matched by a stack that is empty at the start of the packet.
 * This gives the calls of each function and their own time: the time from entry to exit, less the
 * calls inside, less the cost of the probes. This cost is measured once: a pair of probes costs as
 * much as two readings of the clock (benchmarks/active). Half of it lies between the function's two
 * stamps, the other half lies outside of them, in the time of the caller.
 *
 * The longest call of a packet is left out. If the thread lost its CPU during the packet, it lost
 * it during that call, for longer than all the rest takes.
 *
 * A function is hot if both hold:
 *   often   its probes take at least one part in OFTEN of the time of the threads that were looked
 *           at;
 *   short   its probes take at least the given share of its time including the probes: cost / (cost
 *           + own time of a call).
 */
#ifndef IP_HOT_FUNCTIONS_H
#define IP_HOT_FUNCTIONS_H

#include <stddef.h>
#include <stdint.h>

#define IP_HOT_OFTEN   100u /* one part in so many */
#define IP_HOT_PERCENT 50u  /* the default */
/* A logged call costs so many times what a counted call costs (benchmarks/active --payload
 * count). */
#define IP_HOT_COUNT_SHARE 6u

struct ip_hot;

struct ip_hot_function {
	uint32_t number;
	uint64_t calls;	     /* calls that were seen */
	uint64_t own_ticks;  /* own time of a call, without its probes */
	uint64_t per_second; /* calls of the threads that were looked at */
	unsigned share;	     /* per cent */
};

/* Returns NULL with an error. */
struct ip_hot *ip_hot_create(unsigned percent);
void ip_hot_destroy(struct ip_hot *hot);

/* Returns the ticks that a pair of probes costs. ip_hot_set_cost() sets them, for tests. */
uint64_t ip_hot_cost(const struct ip_hot *hot);
void ip_hot_set_cost(struct ip_hot *hot, uint64_t ticks);

/* Looks at a packet of one thread. records: as ip_record_check() returns them. */
void ip_hot_packet(struct ip_hot *hot, const uint64_t *records, size_t words, uint64_t events,
		   uint64_t begin, uint64_t end);

/* Finds the functions that are hot according to the packets since the last time that hot functions
 * were found. Writes at most n of them into ret, and returns their number. hz: frequency of the
 * clock. */
size_t ip_hot_take(struct ip_hot *hot, uint64_t hz, struct ip_hot_function *ret, size_t n);

/* Returns whether the function would distort the run even if its calls were only counted. */
int ip_hot_is_even_counted(const struct ip_hot *hot, const struct ip_hot_function *function);

#endif
