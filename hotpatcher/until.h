/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conditions that end a session (--until): the latency of a function, or how often it is called, over the last while.
 *
 *   p99>10ms:handle_request        its p99 over the last second was more than 10 ms
 *   mean>1ms/5s:db_*               the mean of one of these over the last 5 s
 *   calls>500000/1s:handle         more calls than that in a second
 *
 * It is judged by the histograms of the payload hist, which these functions therefore have; in a session that overwrites they are logged as
 * well (IP_DUTY_TIMED). Four times in each while we look at what has
 * been measured so far; what has come since the look before the last three is judged. Histograms have powers of two of the clock's
 * ticks for bounds: within a bucket durations are taken for evenly spread, so a percentile is right to within a factor of two,
 * and mostly better. A call counts when it has returned.
 */
#ifndef IP_UNTIL_H
#define IP_UNTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/rt_abi.h"
#include "common/selection.h"

#define IP_UNTIL_CONDITIONS 16u
#define IP_UNTIL_CALLS	    10u /* fewer tell nothing of a percentile or a mean */
#define IP_UNTIL_LOOKS	    4u	/* in each while */
#define IP_UNTIL_OVER_MIN   100000000ull
#define IP_UNTIL_OVER_MAX   60000000000ull

enum ip_until_measure {
	IP_UNTIL_SHARE, /* a percentile */
	IP_UNTIL_MEAN,
	IP_UNTIL_RATE, /* calls in the while */
};

struct ip_until_condition {
	char *text; /* as it was given */
	enum ip_until_measure measure;
	double share;	/* 0.99 of p99 */
	uint64_t limit; /* nanoseconds, or calls */
	uint64_t over_ns;
	char *functions;
	struct ip_selection *selection; /* of these */
};

struct ip_until_options {
	struct ip_until_condition *items;
	size_t n;
};

/* Durations of one function, in ticks: since the session's start, or in a while. */
struct ip_until_durations {
	uint64_t calls, sum;
	uint64_t buckets[IP_HIST_BUCKETS];
};

/* Parses MEASURE>LIMIT[/T]:SEL. 0, or -1 with an error. */
int ip_until_parse(const char *text, struct ip_until_condition *ret);
void ip_until_condition_clear(struct ip_until_condition *condition);

/* The same as one condition more. */
int ip_until_add(struct ip_until_options *options, const char *text);
void ip_until_clear(struct ip_until_options *options);

/* A percentile of durations, in ticks; 0 where there are none. */
double ip_until_percentile(const struct ip_until_durations *durations, double share);

/* Whether the condition is met by what was measured in a while. *ret: the figure, nanoseconds or calls. */
bool ip_until_holds(const struct ip_until_condition *condition, const struct ip_until_durations *durations,
		    double ns_per_tick, double *ret);

/* "p99 of handle_request was 16.8 ms over 1.000 s (412 calls)"; buffer of 512. */
char *ip_until_say(const struct ip_until_condition *condition, const char *function, double value,
		   uint64_t calls, char *buffer);

struct ip_session;
struct ip_plan;
struct ip_until;

/* The functions of a plan, which has been bound, are watched where a condition names them. 0, or -1 with an error. */
int ip_until_plan(struct ip_session *s, const struct ip_plan *plan);
/* Now and then. NULL: go on; else why the session ends, in the summary, says which condition it was. That is known (summary->until) before the
 * session ends, where it is to linger. */
const char *ip_until_turn(struct ip_session *s);
void ip_until_destroy(struct ip_until *until);

#endif
