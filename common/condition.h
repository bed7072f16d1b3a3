/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conditions that end a session (--until): how long the calls of a function take, or how often it
 * is called, within an interval up to now.
 *
 *   p99>10ms:handle_request        its p99 over the last second was more than 10 ms
 *   mean>1ms/5s:db_*               the mean of one of these over the last 5 s was more than 1 ms
 *   calls>500000/1s:handle         more calls than that in a second
 *
 * A condition is checked by the histograms of payload hist. So these functions have histograms. In
 * a session that overwrites they are logged too (IP_DUTY_TIMED). The session looks at the measured
 * values four times in each interval. It judges what has come since the look before the last three.
 * The bounds of a histogram are powers of two of the clock's ticks. Within a bucket, durations are
 * assumed to be evenly spread. So a percentile is right within a factor of two, and mostly better.
 * A call counts when it has returned.
 */
#ifndef IP_CONDITION_H
#define IP_CONDITION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/abi/meters.h"
#include "common/selection/selection.h"

#define IP_CONDITIONS_MAX     16u
#define IP_CONDITION_CALLS    10u /* fewer calls say nothing about a percentile or a mean */
#define IP_CONDITION_LOOKS    4u  /* looks in each interval */
#define IP_CONDITION_OVER_MIN 100000000ull
#define IP_CONDITION_OVER_MAX 60000000000ull

enum ip_condition_measure {
	IP_CONDITION_SHARE, /* a percentile */
	IP_CONDITION_MEAN,
	IP_CONDITION_RATE, /* calls in the interval */
};

struct ip_condition {
	char *text; /* as the user gave it */
	enum ip_condition_measure measure;
	double share;	/* 0.99 for p99 */
	uint64_t limit; /* nanoseconds, or calls */
	uint64_t over_ns;
	char *functions;
	struct ip_selection *selection; /* selects these functions */
};

struct ip_conditions {
	struct ip_condition *items;
	size_t n;
};

/* Durations of one function, in ticks: since the session's start, or within an interval. */
struct ip_condition_durations {
	uint64_t calls, sum;
	uint64_t max; /* the longest one since the look before (ip_counters_look()) */
	uint64_t buckets[IP_HIST_BUCKETS];
};

/* Parses MEASURE>LIMIT[/T]:SEL. Returns 0, or -1 with an error. */
int ip_condition_parse(const char *text, struct ip_condition *ret);
void ip_condition_clear(struct ip_condition *condition);

/* Parses the same, and adds it as one condition more. */
int ip_conditions_add(struct ip_conditions *options, const char *text);
void ip_conditions_clear(struct ip_conditions *options);

/* A percentile of durations, in ticks; 0 if there are none. */
double ip_condition_percentile(const struct ip_condition_durations *durations, double share);

/* Whether the durations of one interval meet the condition. *ret: the measured figure, in
 * nanoseconds or calls. */
bool ip_condition_holds(const struct ip_condition *condition,
			const struct ip_condition_durations *durations, double ns_per_tick,
			double *ret);

/* Writes "p99 of handle_request was 16.8 ms in the last 1.00 s (412 calls)"; buffer has 512 bytes.
 * in_ns: the time in which the calls came. It is shorter than the condition's where the session is
 * younger. */
char *ip_condition_say(const struct ip_condition *condition, const char *function, double value,
		       uint64_t calls, uint64_t in_ns, char *buffer);

#endif
