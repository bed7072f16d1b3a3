/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a session leaves out, and call sites: tells the hooks (struct ip_filters, struct
 * ip_filter_rule in common/abi/filters.h), and says of threads by their names whether they are
 * recorded.
 */
#ifndef IP_FILTERS_H
#define IP_FILTERS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/clock.h"
#include "hotpatcher/plan/plan.h"
#include "hotpatcher/process/target.h"
#include "hotpatcher/shm/area.h"

#define IP_FILTER_SAMPLES 32u

struct ip_filter_trigger {
	char *name; /* of functions, as -f names them; NULL: none */
	struct ip_selection *selection;
	uint32_t calls; /* the call with this number does it */
};

struct ip_filter_options {
	uint32_t depth;		  /* 0: all */
	uint64_t min_duration_ns; /* 0: all */
	struct ip_filter_sample {
		uint32_t every;
		struct ip_selection *selection; /* NULL: all functions */
	} samples[IP_FILTER_SAMPLES];
	size_t nsamples;
	struct ip_filter_trigger start, stop;
	const char *tids;  /* comma-separated; NULL: all */
	const char *names; /* globs of threads' names, comma-separated; NULL: all */
	bool callsite;
};

/* Parse arguments of options: "N" or "N:SEL", "FUNC" or "FUNC:N", thread ids. -1 with an error. */
int ip_filter_parse_sample(struct ip_filter_options *options, const char *text);
int ip_filter_parse_trigger(const char *text, struct ip_filter_trigger *ret);
int ip_filter_check_tids(const char *text);
void ip_filter_options_clear(struct ip_filter_options *options);

/* Where the return addresses of a plan's functions lie: flags and frames, an array as
 * plan->functions (malloc'ed). NULL with an error. */
struct ip_filter_rule *ip_filters_call_sites(const struct ip_plan *plan);

/* Whether anything is asked for that takes a careful session (IP_MODE_CAREFUL). */
bool ip_filters_any(const struct ip_filter_options *options);

/* Behind ip_area_begin(): tells the hooks. -1 with an error (no such thread). */
int ip_filters_begin(const struct ip_filter_options *options, struct ip_area *area,
		     const struct ip_target *target, const struct ip_clock_reading *start);

/* What the session leaves out, as its options say it: a text for each, in their order. */
void ip_filters_describe(const struct ip_filter_options *options,
			 void (*tell)(void *data, const char *text), void *data);

/* Rules of the functions of a plan that has been bound; before its sites go live. */
int ip_filters_add_plan(const struct ip_filter_options *options, struct ip_area *area,
			const struct ip_plan *plan);

/* Whether a trigger that no function of the plan has is asked for: an error that names it. */
int ip_filters_check(const struct ip_filter_options *options, const struct ip_plan *plan,
		     pid_t pid);

/* What is known of threads' names; all 0 at first. */
struct ip_filter_names {
	uint64_t next_ns; /* when all are looked up again */
	uint64_t seen;	  /* bits: which of the first 64 globs some thread's name has matched */
};

/* Looks up the names of threads that are new, and of all now and then. */
void ip_filters_step(const struct ip_filter_options *options, struct ip_area *area,
		     const struct ip_target *target, struct ip_filter_names *names);

/* One line on stderr for each --sample whose selection has no function that was recorded so far:
 * misspelt, most likely. */
void ip_filters_tell_samples(const struct ip_filter_options *options, pid_t pid);
/* The same of the globs of --thread, at the end: threads get their names late. */
void ip_filters_tell_names(const struct ip_filter_options *options,
			   const struct ip_filter_names *names, pid_t pid);

/* Whether --stop-on has come to pass. */
bool ip_filters_stopped(const struct ip_filter_options *options, const struct ip_area *area);

#endif
