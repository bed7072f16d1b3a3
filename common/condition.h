/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conditions that end a session (--until): how long the calls of a function take, or how often it
 * is called, within a period.
 *
 *   p99>10ms:handle_request        its p99 in a second was more than 10 ms
 *   mean>1ms/5s:db_*               the mean of one of these in 5 s was more than 1 ms
 *   max>50ms:loop                  a call of it took more than 50 ms
 *   calls>500000/1s:handle         more calls than that in a second
 *
 * A condition is checked by the histograms of payload hist. So these functions have histograms. In
 * a session that overwrites they are logged too (IP_DUTY_TIMED). condition_history.h tells which
 * periods are judged.
 * The bounds of a histogram are powers of two of the clock's ticks. Within a bucket, durations are
 * assumed to be evenly spread. So a percentile is right within a factor of two, and mostly better.
 * A maximum and a mean are exact. A call counts when it has returned.
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
#define IP_CONDITION_LOOKS    4u  /* looks in each period */
#define IP_CONDITION_OVER_MIN 100000000ull
#define IP_CONDITION_OVER_MAX 60000000000ull

enum ip_condition_measure {
	IP_CONDITION_SHARE, /* a percentile */
	IP_CONDITION_MEAN,
	IP_CONDITION_MAX,  /* the longest call */
	IP_CONDITION_RATE, /* calls in the period */
};

struct ip_condition {
	char *text; /* as the user gave it */
	enum ip_condition_measure measure;
	double share;	/* 0.99 for p99 */
	uint64_t limit; /* nanoseconds, or calls */
	bool bare;	/* the user gave a limit of time without a unit: it is in seconds */
	uint64_t over_ns;
	char *functions;
	struct ip_selection *selection; /* selects these functions */
};

struct ip_conditions {
	struct ip_condition *items;
	size_t n;
};

/* Durations of one function, in ticks: since the session's start, or within a period. */
struct ip_condition_durations {
	uint64_t calls, sum;
	/* the longest one; of a session: since the look before (ip_counters_look()) */
	uint64_t max;
	uint64_t buckets[IP_HIST_BUCKETS];
};

/* What was measured in a period. */
struct ip_condition_figure {
	double value;	  /* what the limit is compared with: nanoseconds, or calls */
	uint64_t calls;	  /* that returned in the period */
	uint64_t span_ns; /* how long the period was in fact */
};

/* Parses MEASURE>LIMIT[/T]:SEL. Returns 0, or -1 with an error. */
int ip_condition_parse(const char *text, struct ip_condition *ret);
void ip_condition_clear(struct ip_condition *condition);

/* Parses the same, and adds it as one condition more. */
int ip_conditions_add(struct ip_conditions *options, const char *text);
void ip_conditions_clear(struct ip_conditions *options);

/* A percentile of durations, in ticks; 0 if there are none. */
double ip_condition_percentile(const struct ip_condition_durations *durations, double share);

/* Whether what was measured in a period of span_ns meets the condition. *ret: the figure; its value
 * is 0 if there were too few calls. A number of calls is that of over_ns: if the period was longer,
 * it is scaled down. */
bool ip_condition_holds(const struct ip_condition *condition,
			const struct ip_condition_durations *durations, uint64_t span_ns,
			double ns_per_tick, struct ip_condition_figure *ret);

/* How long to wait between two looks, ns. A longest call needs no period: it is looked for four
 * times a second at least. */
uint64_t ip_condition_interval(const struct ip_condition *condition);

/* Writes "p99 of handle_request was 16.8 ms in the last 1.00 s (412 calls)"; buffer has 512 bytes.
 */
char *ip_condition_say(const struct ip_condition *condition, const char *function,
		       const struct ip_condition_figure *figure, char *buffer);

/* Writes the same of a condition that was not met, of the highest figure: "the highest p99 of
 * handle_request was 8.1 ms over 1.00 s (412 calls), the limit is 10.0 ms". function: NULL: there
 * is no figure. judged: some period was long enough. buffer has 512 bytes. */
char *ip_condition_say_highest(const struct ip_condition *condition, const char *function,
			       const struct ip_condition_figure *highest, bool judged,
			       char *buffer);

#endif
