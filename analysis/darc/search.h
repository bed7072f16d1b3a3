/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A whole search of a trace: the profile of F0, a peak of it, and its root causes.
 */
#ifndef IP_DARC_SEARCH_H
#define IP_DARC_SEARCH_H

#include "analysis/callstack/trace.h"
#include "analysis/darc/cause_waits.h"
#include "analysis/darc/latency_peaks.h"
#include "analysis/darc/read_operations.h"
#include "analysis/darc/root_causes.h"
#include "analysis/darc/variance.h"

#define IP_DARC_DEPTH_MOST 1000u

enum ip_darc_state {
	IP_DARC_IN_PROGRESS,
	IP_DARC_NO_PEAK,       /* there is nothing to search: ip_darc_search.reason */
	IP_DARC_NO_DIFFERENCE, /* no call path tells the peak apart from other operations */
	IP_DARC_MAXIMUM_DEPTH,
	IP_DARC_FOUND,
	IP_DARC_CHANGED, /* the profile is not the one that the search began with: reason */
};
#define IP_DARC_STATES (IP_DARC_CHANGED + 1)

/* As the JSON has it. */
const char *ip_darc_state_name(enum ip_darc_state state);

enum ip_darc_choice {
	IP_DARC_RIGHTMOST, /* the slowest peak, if there are several */
	IP_DARC_PEAK,	   /* number */
	IP_DARC_SLOWER,	   /* slower_ns */
	IP_DARC_PERCENTILE /* share: the slowest of them */
};

struct ip_darc_search;

struct ip_darc_options {
	uint32_t function, tid; /* tid 0: all threads */
	enum ip_darc_choice choice;
	size_t number;
	/* The reference of a peak is whatever is faster, not one peak of it. */
	bool all_faster;
	uint64_t slower_ns;
	double share;		    /* 0..1 */
	uint64_t start_operations;  /* of F0, before its peaks are looked at */
	size_t decision_operations; /* so many of the peak are looked at, at most */
	double maxcount_percent;
	uint32_t depth; /* at most IP_DARC_DEPTH_MOST */
	bool variance;	/* look for it in the place of root causes */
	/* how work goes to other threads, which the search follows; borrowed */
	struct ip_handover_rule *handovers;
	size_t nhandovers;
	/* of a live process: as in ip_darc_read_options */
	uint64_t since;
	struct ip_symbolizer *places;
	/* the ranges of an earlier search are those of this one, too; NULL: peaks are looked for */
	const struct ip_darc_search *profile;
	bool keeps_chance; /* as in ip_root_causes_options */
};

struct ip_darc_search {
	const struct ip_recording *session;
	struct ip_darc_options options;
	struct ip_darc_latencies latencies;
	struct ip_peaks peaks;
	enum ip_darc_state state;
	char reason[160]; /* NO_PEAK, CHANGED: for people */
	size_t peak;	  /* the one that is searched: its index in peaks, plus 1; 0: none is */
	/* of the peak, and of the reference; most 0: there is no reference */
	struct ip_darc_range ranges[2];
	uint64_t seen; /* operations of whatever duration, when those of the ranges were read */
	size_t from_waiting; /* of the peak: it has them only because others had the CPU */
	struct ip_ftree ftree;
	struct ip_root_causes causes;
	struct ip_cause_waits *waits; /* by cause; NULL: the trace has no events of the kernel */
	struct ip_variances variances;
};

/* Reads the trace as often as is necessary. waits: what the kernel's events tell; NULL: there are
 * none. Both must outlive *ret, which the caller clears in any case. Returns 0, or -1 with an
 * error. */
int ip_darc_search(struct ip_trace_reader *trace, struct ip_trace_waits *waits,
		   const struct ip_darc_options *options, struct ip_darc_search *ret);
/* Finds the peaks of the latencies, and chooses which operations are searched, as the options tell.
 * Returns whether there are some; else the state is NO_PEAK, with its reason. */
bool ip_darc_search_choose(struct ip_darc_search *search);
/* The same of a search that has chosen others before. What was found in these is forgotten. */
bool ip_darc_search_choose_others(struct ip_darc_search *search, enum ip_darc_choice choice,
				  size_t number);
/* Of a search that has not looked at callees: that F0 is the cause is no answer. */
void ip_darc_search_forget_causes(struct ip_darc_search *search);
void ip_darc_search_clear(struct ip_darc_search *search);

/* What a cause is, in one word: that part of its time that is longer than in the reference by most.
 * *ret_part: the part; NULL: the kernel's events do not tell. */
const char *ip_darc_cause_kind(const struct ip_darc_search *search, size_t cause,
			       const struct ip_cause_part **ret_part);

#endif
