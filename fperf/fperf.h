/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FPerf: counters per function, within a budget. common/abi/fperf.h describes the memory that it
 * shares with the runtime.
 *
 * An FPerf session is a session like any other, whose functions have IP_DUTY_FPERF. Nothing is
 * recorded. The runtime adds to each thread's own cells, and fperf reads them. cli/fperf/fperf.c
 * creates the struct ip_fperf, puts it into the session's options, and gets the rows from it when
 * the session has ended.
 *
 * Each step of the session's loop (loop.c):
 *   1. It reads what was spent: time in hooks, calls that were only counted, stops. It compares
 *      this with the CPU time that the process has had.
 *   2. When the interval is over, a window is over, or more was spent than is allowed, it reads all
 *      cells. A policy (policy.h) then decides which functions are live, and how many samples each
 *      may take.
 *   3. If functions are to go out or to come in, it brings the session in line with its selections,
 *      which ask fperf too (plan.c), in one change (update.h). Quotas are set before a function
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
	double budget;	      /* share of the run time; negative: no budget */
	double samples_per_s; /* at most; negative: as many as the budget allows */
	uint64_t interval_ns;
	/* the kernel may multiplex the counters, and the counts are scaled */
	bool multiplex;
	const struct ip_fperf_policy *policy;
	bool exclusive; /* counts do not contain those of selected functions that are called */
	bool stops;	/* each change of probes stops the process */
	/* called about once a second while the session runs; NULL: not called */
	void (*show)(void *context, struct ip_fperf *fperf);
	/* To measure what fperf costs: it counts for so long, then has no probe in any function
	 * that was ever called for so long, and so on. 0: it counts all the time. window() is
	 * called for each such window with its length and the CPU time of the process in it, and,
	 * with zeros, when the first window begins. The budget has income only while it counts. */
	uint64_t alternate_ns;
	void (*window)(void *context, int pid, bool counted, uint64_t wall_ns, uint64_t cpu_ns);
	void *context;
};

/* Figures are meaningful if half of their interval is at most this share of them. */
#define IP_FPERF_MOST_WIDTH 0.5

/* The result for one function. */
struct ip_fperf_row {
	/* function is demangled, bare_name is the same without its parameters, module is the base
	 * name. They belong to fperf */
	const char *function, *bare_name, *module;
	bool mangled; /* demanglers have made the name: it may have a short form */
	uint64_t samples;
	/* of the samples: number without this event's value; number whose value is an estimate */
	uint64_t missing[IP_FPERF_EVENTS], scaled[IP_FPERF_EVENTS];
	uint64_t cut; /* samples whose exit was never seen */
	/* samples that ended where the function jumped to another function, which may not have
	 * returned yet: it is not known where the jump leads, or there are no probes */
	uint64_t until_tail;
	uint64_t counted;	/* calls that were seen */
	double calls, calls_ci; /* all calls; calls_ci negative: not known */
	double live;		/* share of the time in which its probes were live */
	double mean[IP_FPERF_EVENTS], ci[IP_FPERF_EVENTS]; /* per call; ci negative: not known */
	/* total of the first event, for sorting */
	double total;
	/* calls, and the first event that has values, are known to within IP_FPERF_MOST_WIDTH
	 * (results.c) */
	bool known;
};

struct ip_fperf_summary {
	/* share of the run time that was taken by hooks, counting and stops */
	double overhead;
	double stops_share; /* part of overhead that was taken by stops */
	double run_s;	    /* CPU time of the process */
	double length_s;
	/* the process has come under seccomp meanwhile: since then there were no samples */
	bool confined;
	double own_s; /* CPU time of fperf itself since the session began */
	uint64_t samples, changes;
	uint64_t changes_without_stop; /* part of changes */
	/* longest stop of all threads; the stop in which the session went live counts too */
	uint64_t longest_stop_ns;
	/* longest time for which a change without a stop left functions without probes that stay
	 * live */
	uint64_t longest_gap_ns;
	/* each was tried again; meanwhile the functions stayed as they were */
	uint64_t changes_failed;
	/* error message of the last failed change, belongs to fperf. NULL: none has failed */
	const char *change_failure;
	/* functions that were selected; that were called, as far as known; that have a sample */
	size_t functions, called, sampled;
	/* samples not taken since too many others were open, or since a hook was already running in
	 * the thread */
	uint64_t left_out;
	double ns_per_tick; /* of the TSC */
	/* values of counters that samples did not get: the kernel had other counters scheduled, or
	 * a descriptor was gone */
	uint64_t missing;
	uint64_t scaled; /* values that are estimates for that reason */
	/* how often descriptors were no longer fperf's own, and were opened again */
	uint64_t gone;
	unsigned counting;	   /* number of threads that had counters of the kernel */
	unsigned refused;	   /* number of threads that got none */
	int refused_error;	   /* errno of a refusal */
	const char *refused_event; /* the event that was refused; NULL: no refusal */
};

/* options are copied. Returns -1 with an error. */
int ip_fperf_create(const struct ip_fperf_options *options, struct ip_fperf **ret);
void ip_fperf_destroy(struct ip_fperf *f);

/* Returns the controller that makes a session an FPerf session (controller.h). It belongs to f. */
const struct ip_session_controller *ip_fperf_controller(const struct ip_fperf *f);
/* Returns whether the hooks make system calls. */
bool ip_fperf_makes_calls(const struct ip_fperf *f);

/* Returns the present rows, in the order of the first event's total. The caller frees them. *ret_n
 * of them: only functions that were called. Returns NULL with an error. */
struct ip_fperf_row *ip_fperf_rows(struct ip_fperf *f, size_t *ret_n);
void ip_fperf_summary(struct ip_fperf *f, struct ip_fperf_summary *ret);
/* Returns the name of the event that a counter of struct ip_pmu_set belongs to; NULL: of none. */
const char *ip_fperf_event_of_counter(const struct ip_fperf_options *o, unsigned counter);
const struct ip_fperf_options *ip_fperf_get_options(const struct ip_fperf *f);

#endif
