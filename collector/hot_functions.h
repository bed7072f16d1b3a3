/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which functions are so hot that their probes distort the run: what the collector's packets tell.
 *
 * One packet in SAMPLE is looked at; of a thread that makes few events nothing has to be. Entries
 * and exits are matched by a stack that begins empty with the packet. Of each function this gives
 * calls and the time of their own: from entry to exit, less the calls in it, less what the probes
 * themselves take. That is measured once: a pair of probes costs what two readings of the clock
 * cost (benchmarks/active), half of it between the function's two stamps, and half outside of them,
 * in its caller's time.
 *
 * The longest call of a packet is left out: if the thread had to give up its CPU, it was then, for
 * longer than all the rest takes.
 *
 * A function is hot if both hold:
 *   often   its probes take one part in OFTEN of the time of the threads that were looked at, or
 *           more;
 *   short   its probes take at least the given share of its time with them: cost / (cost + own time
 *           of a call).
 */
#ifndef IP_HOT_FUNCTIONS_H
#define IP_HOT_FUNCTIONS_H

#include <stddef.h>
#include <stdint.h>

#define IP_HOT_OFTEN   100u /* one part in so many */
#define IP_HOT_PERCENT 50u  /* if nothing else is asked for */
/* What a counted call costs, in parts of a logged one (benchmarks/active --payload count). */
#define IP_HOT_COUNT_SHARE 6u

struct ip_hot;

struct ip_hot_function {
	uint32_t number;
	uint64_t calls;	     /* that were seen */
	uint64_t own_ticks;  /* of a call, without its probes */
	uint64_t per_second; /* calls, of the threads that were looked at */
	unsigned share;	     /* per cent */
};

/* NULL with an error. */
struct ip_hot *ip_hot_create(unsigned percent);
void ip_hot_destroy(struct ip_hot *hot);

/* Ticks that a pair of probes costs. For tests: sets it. */
uint64_t ip_hot_cost(const struct ip_hot *hot);
void ip_hot_set_cost(struct ip_hot *hot, uint64_t ticks);

/* A packet of one thread: records as record_check.h leaves them. */
void ip_hot_packet(struct ip_hot *hot, const uint64_t *records, size_t words, uint64_t events,
		   uint64_t begin, uint64_t end);

/* The numbers that are hot by what has been seen since the last time that there were any; at most n
 * of them into ret. hz: of the clock. */
size_t ip_hot_take(struct ip_hot *hot, uint64_t hz, struct ip_hot_function *ret, size_t n);

/* Whether counting its calls would distort it as well. */
int ip_hot_is_even_counted(const struct ip_hot *hot, const struct ip_hot_function *function);

#endif
