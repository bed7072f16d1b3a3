/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FPerf: counters per function, within a budget. The memory that it shares with the runtime is told
 * in common/abi/fperf.h.
 *
 * It is a session like any other, whose functions have IP_DUTY_FPERF: nothing is recorded, the
 * runtime adds to each thread's own cells, and we read them. Who made the struct ip_fperf
 * (cli/fperf.c) puts it into the session's options and asks it for rows when the session has ended.
 *
 * Each turn of the session's loop (loop.c):
 *   1. What was spent is read: time in hooks, calls that were only counted, stops. It is held
 *      against the CPU time that the process has had.
 *   2. Where the interval is over, a window is, or more was spent than is allowed: all cells are
 *      read, and a policy (policy.h) decides which functions are live, and how many samples each
 *      may take.
 *   3. Functions that are to go or to come: the session is brought in line with its selections,
 *      which ask here too (plan.c), in one change (update.h). Quotas are set before a function
 *      comes in, so its first call can be a sample.
 */
#ifndef IP_FPERF_H
#define IP_FPERF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "fperf/events.h"

struct ip_area;
struct ip_fperf;
struct ip_fperf_policy;
struct ip_module;
struct ip_plan;
struct ip_plan_function;
struct ip_session;
struct ip_target;

struct ip_fperf_options {
	const struct ip_fperf_event *events[IP_FPERF_EVENTS];
	unsigned nevents;
	double budget;	      /* share of the run time; negative: none */
	double samples_per_s; /* at most; negative: as many as the budget allows */
	uint64_t interval_ns;
	bool multiplex; /* counters of the kernel may take turns, and are scaled */
	const struct ip_fperf_policy *policy;
	bool exclusive; /* counts are without those of selected functions that are called */
	bool stops;	/* each change of probes stops the process */
	/* is called about once a second while it runs; NULL: nobody is */
	void (*show)(void *context, struct ip_fperf *fperf);
	/* To measure what it costs: counts for so long, has no probe in any function that was
	 * ever called for so long, and so on; 0: counts all the time. Each such window is told:
	 * how long it was, and the CPU time of the process in it; and, with zeros, when the
	 * first begins. What the budget allows is earned while it counts. */
	uint64_t alternate_ns;
	void (*window)(void *context, int pid, bool counted, uint64_t wall_ns, uint64_t cpu_ns);
	void *context;
};

/* Figures tell something where half of their interval is no wider than this share of them. */
#define IP_FPERF_MOST_WIDTH 0.5

/* What is known of a function at last. */
struct ip_fperf_row {
	const char *function, *module; /* demangled; base name. fperf's */
	uint64_t samples;
	uint64_t missing[IP_FPERF_EVENTS],
		/* of these: without this event's value; with an estimate of it */
		scaled[IP_FPERF_EVENTS];
	uint64_t cut; /* samples that never saw their exit */
	/* of samples: that ended where the function jumped to another one, which may not have
	 * returned: where that leads is not known, or has no probes */
	uint64_t until_tail;
	uint64_t counted;	/* calls that were seen */
	double calls, calls_ci; /* in all; negative: not known */
	double live;		/* share of the time that its probes were live */
	double mean[IP_FPERF_EVENTS], ci[IP_FPERF_EVENTS]; /* per call; ci negative: not known */
	double total;					   /* of the first event, for sorting */
	/* calls, and the first event that has values: to within IP_FPERF_MOST_WIDTH (results.c) */
	bool known;
};

struct ip_fperf_summary {
	double overhead;    /* share of the run time that went to hooks, counting and stops; */
	double stops_share; /* of it to stops */
	double run_s;	    /* CPU time of the process */
	double length_s;
	bool confined; /* it has come under seccomp meanwhile: from then on there were no samples */
	double own_s;  /* CPU time that we have had ourselves since it began */
	uint64_t samples, changes;
	uint64_t changes_without_stop; /* of these */
	uint64_t longest_stop_ns;      /* of all threads, the one in which it went live too; */
	/* for which a change without a stop left functions that stay live without probes */
	uint64_t longest_gap_ns;
	uint64_t changes_failed; /* each was tried again; functions stayed as they were meanwhile */
	const char *change_failure; /* what the last of them said; fperf's. NULL: none has failed */
	size_t functions, called,
		/* that were selected; that were called, as far as is known; that have a sample */
		sampled;
	uint64_t left_out;  /* samples that found too many others open, or a hook below them */
	double ns_per_tick; /* of the TSC */
	/* values of counters that samples did not get: the kernel had others in their place, or a
	 * descriptor was gone */
	uint64_t missing;
	uint64_t scaled;   /* values that are estimates for that reason */
	uint64_t gone;	   /* how often descriptors were not ours any more, and opened anew */
	unsigned counting; /* threads that had counters of the kernel; */
	unsigned refused;  /* that got none, */
	int refused_error; /* for this errno, */
	const char *refused_event; /* of this event; NULL: there was none such */
};

/* options are copied. -1 with an error. */
int ip_fperf_create(const struct ip_fperf_options *options, struct ip_fperf **ret);
void ip_fperf_destroy(struct ip_fperf *f);

/* What makes a session that of this fperf (controller.h). */
const struct ip_session_controller *ip_fperf_controller(const struct ip_fperf *f);
/* Whether its hooks make system calls. */
bool ip_fperf_makes_calls(const struct ip_fperf *f);

/* Rows as of now, malloc'ed, in the order of the first event's total; *ret_n of them, only what was
 * called. NULL with an error. */
struct ip_fperf_row *ip_fperf_rows(struct ip_fperf *f, size_t *ret_n);
void ip_fperf_summary(struct ip_fperf *f, struct ip_fperf_summary *ret);
/* Whose a counter of struct ip_pmu_set is; NULL: nobody's. */
const char *ip_fperf_event_of_counter(const struct ip_fperf_options *o, unsigned counter);
const struct ip_fperf_options *ip_fperf_get_options(const struct ip_fperf *f);

#endif
