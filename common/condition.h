/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conditions that end a session (--until): the latency of a function, or how often it is called,
 * over the last while.
 *
 *   p99>10ms:handle_request        its p99 over the last second was more than 10 ms
 *   mean>1ms/5s:db_*               the mean of one of these over the last 5 s
 *   calls>500000/1s:handle         more calls than that in a second
 *
 * It is judged by the histograms of the payload hist, which these functions therefore have; in a
 * session that overwrites they are logged as well (IP_DUTY_TIMED). Four times in each while we look
 * at what has been measured so far; what has come since the look before the last three is judged.
 * Histograms have powers of two of the clock's ticks for bounds: within a bucket durations are
 * taken for evenly spread, so a percentile is right to within a factor of two, and mostly better. A
 * call counts when it has returned.
 */
#ifndef IP_CONDITION_H
#define IP_CONDITION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/abi/meters.h"
#include "common/selection.h"

#define IP_CONDITIONS_MAX     16u
#define IP_CONDITION_CALLS    10u /* fewer tell nothing of a percentile or a mean */
#define IP_CONDITION_LOOKS    4u  /* in each while */
#define IP_CONDITION_OVER_MIN 100000000ull
#define IP_CONDITION_OVER_MAX 60000000000ull

enum ip_condition_measure {
	IP_CONDITION_SHARE, /* a percentile */
	IP_CONDITION_MEAN,
	IP_CONDITION_RATE, /* calls in the while */
};

struct ip_condition {
	char *text; /* as it was given */
	enum ip_condition_measure measure;
	double share;	/* 0.99 of p99 */
	uint64_t limit; /* nanoseconds, or calls */
	uint64_t over_ns;
	char *functions;
	struct ip_selection *selection; /* of these */
};

struct ip_conditions {
	struct ip_condition *items;
	size_t n;
};

/* Durations of one function, in ticks: since the session's start, or in a while. */
struct ip_condition_durations {
	uint64_t calls, sum;
	uint64_t buckets[IP_HIST_BUCKETS];
};

/* Parses MEASURE>LIMIT[/T]:SEL. 0, or -1 with an error. */
int ip_condition_parse(const char *text, struct ip_condition *ret);
void ip_condition_clear(struct ip_condition *condition);

/* The same as one condition more. */
int ip_conditions_add(struct ip_conditions *options, const char *text);
void ip_conditions_clear(struct ip_conditions *options);

/* A percentile of durations, in ticks; 0 where there are none. */
double ip_condition_percentile(const struct ip_condition_durations *durations, double share);

/* Whether the condition is met by what was measured in a while. *ret: the figure, nanoseconds or
 * calls. */
bool ip_condition_holds(const struct ip_condition *condition,
			const struct ip_condition_durations *durations, double ns_per_tick,
			double *ret);

/* "p99 of handle_request was 16.8 ms over 1.000 s (412 calls)"; buffer of 512. */
char *ip_condition_say(const struct ip_condition *condition, const char *function, double value,
		       uint64_t calls, char *buffer);

#endif
