/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What came with the events of the calls that are open in a thread: with the entry of each, and
 * with points in it. Calls are told by their numbers in the builder of operations (operations.h).
 */
#ifndef IP_DARC_OPEN_VALUES_H
#define IP_DARC_OPEN_VALUES_H

#include <stddef.h>
#include <stdint.h>

#define IP_OPEN_POINTS_MOST 16u /* different points of one call: others are left out */

/* Values (common/trace/trace_format.h) that are copied. */
struct ip_kept_values {
	uint32_t function; /* of a point */
	uint64_t *words;
	size_t room, size; /* in bytes; size 0: there are none */
};

struct ip_open_call {
	struct ip_kept_values entry;
	struct ip_kept_values *points; /* each point once, with its last values */
	size_t npoints, made;	       /* made: entries of points that have been used */
};

struct ip_open_values {
	struct ip_open_call *calls; /* by number - 1 */
	size_t n;
	uint32_t most, innermost; /* the highest number that is kept; the number of the last call */
};

/* A call has been entered. payload: what came with the event; NULL: nothing. Returns 0, or -1 with
 * an error. */
int ip_open_values_enter(struct ip_open_values *values, uint32_t number, const uint64_t *payload);
/* A point came in the call that was entered last and has not been left. Returns as above. */
int ip_open_values_point(struct ip_open_values *values, uint32_t function, const uint64_t *payload);
/* A call has been left, and all that were entered behind it. */
void ip_open_values_leave(struct ip_open_values *values, uint32_t number);
/* NULL: the call is none that is kept. */
const struct ip_open_call *ip_open_values_of(const struct ip_open_values *values, uint32_t number);
void ip_open_values_clear(struct ip_open_values *values);

/* Copies a payload, or nothing (NULL). Returns 0, or -1 with an error. */
int ip_kept_values_set(struct ip_kept_values *kept, const uint64_t *payload);
/* The payload; NULL: there is none. */
const uint64_t *ip_kept_values_get(const struct ip_kept_values *kept);

#endif
