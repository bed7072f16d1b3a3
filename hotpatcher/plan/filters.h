/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Filters: what a session leaves out, and call sites. They are set for the hooks (struct
 * ip_filters, struct ip_filter_rule in common/abi/filters.h). The names of threads are read here,
 * and decide which threads are recorded.
 */
#ifndef IP_FILTERS_H
#define IP_FILTERS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/clock.h"
#include "common/values/value_request.h"
#include "hotpatcher/plan/plan.h"
#include "hotpatcher/process/target.h"
#include "hotpatcher/shm/area.h"

#define IP_FILTER_SAMPLES 32u

struct ip_filter_trigger {
	char *name; /* selects functions, like -f; NULL: no trigger */
	struct ip_selection *selection;
	uint32_t calls; /* the call with this number triggers */
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
	/* functions within which a thread records (its number of calls is not used) */
	struct ip_filter_trigger within;
	const char *tids;  /* ids, separated by commas; NULL: all */
	const char *names; /* globs of threads' names, separated by commas; NULL: all */
	bool callsite;
	/* of which those by --when count here; NULL: none */
	const struct ip_value_requests *requests;
};

/* Parse arguments of options: "N" or "N:SEL", "FUNC" or "FUNC:N", thread ids. They return -1 with
 * an error. */
int ip_filter_parse_sample(struct ip_filter_options *options, const char *text);
int ip_filter_parse_trigger(const char *text, struct ip_filter_trigger *ret);
/* "SEL", as -f has it. */
int ip_filter_parse_within(const char *text, struct ip_filter_trigger *ret);
int ip_filter_check_tids(const char *text);
void ip_filter_options_clear(struct ip_filter_options *options);

/* Returns for each of plan->functions how to find its return address: flags and frame (malloc'ed
 * array). NULL with an error. */
struct ip_filter_rule *ip_filters_call_sites(const struct ip_plan *plan);

/* Returns whether an option is set that needs a careful session (IP_MODE_CAREFUL). */
bool ip_filters_any(const struct ip_filter_options *options);
/* Returns whether call sites alone make it careful (IP_MODE_SITES). */
bool ip_filters_are_sites(const struct ip_filter_options *options);
/* Returns whether to record within functions alone makes it careful (IP_MODE_ALONE). */
bool ip_filters_are_within(const struct ip_filter_options *options);
/* Whether any function has a condition (--when). */
bool ip_filters_has_conditions(const struct ip_filter_options *options);

/* Sets the filters for the hooks. It is called after ip_area_begin(). Returns -1 with an error:
 * there is no such thread. */
int ip_filters_begin(const struct ip_filter_options *options, struct ip_area *area,
		     const struct ip_target *target, const struct ip_clock_reading *start);

/* Describes what the session leaves out, as its options say it. Calls tell with one text for each
 * option, in their order. */
void ip_filters_describe(const struct ip_filter_options *options,
			 void (*tell)(void *data, const char *text), void *data);

/* Writes the rules of the plan's functions. The plan must have been bound, and its sites must not
 * be live yet. */
int ip_filters_add_plan(const struct ip_filter_options *options, struct ip_area *area,
			const struct ip_plan *plan);

/* Functions that are live already, and were silent, are selected now. */
void ip_filters_show(struct ip_area *area, const struct ip_plan *shown);

/* Checks that each trigger matches a function of the plan. If not, returns -1 with an error that
 * names it. */
int ip_filters_check(const struct ip_filter_options *options, const struct ip_plan *plan,
		     pid_t pid);

/* State of the look-ups of threads' names; all 0 at first. */
struct ip_filter_names {
	uint64_t next_ns; /* time of the next look-up of all names */
	uint64_t seen;	  /* bits: the globs, of the first 64, that a thread's name has matched */
};

/* Looks up the names of new threads in each call, and of all threads from time to time. */
void ip_filters_step(const struct ip_filter_options *options, struct ip_area *area,
		     const struct ip_target *target, struct ip_filter_names *names);

/* Prints one line on stderr for each --sample whose selection matches no function that was recorded
 * so far. It is most likely misspelt. */
void ip_filters_tell_samples(const struct ip_filter_options *options,
			     const struct ip_modules *modules, pid_t pid);
/* Does the same for the globs of --thread. It is called at the session's end, since threads get
 * their names late. */
void ip_filters_tell_names(const struct ip_filter_options *options,
			   const struct ip_filter_names *names, pid_t pid);

/* Returns whether the trigger of --stop-on has fired. */
bool ip_filters_stopped(const struct ip_filter_options *options, const struct ip_area *area);

#endif
