/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Figures per function, or per group of calls (groups.h), over a whole trace.
 *
 * calls       Every entry, whatever became of the call.
 * points      How often a point was passed. A point takes no time.
 * total       Time in the function, callees included. In a recursion only the outermost frame
 *             counts. By thread, module and file: the time of calls that lie in no other call of
 *             the group. By caller and call site: the time of the function's outermost frames,
 *             so that the groups of a function add up to its total. By a value that came with an
 *             entry: the time of calls that lie in no other call of the function with the same
 *             value; by a result: of the function's outermost frames. A call that goes on in a
 *             function that it has jumped to lasts until that function returns.
 * self        Time in which the function was the innermost one. Callees that were not recorded
 *             are part of it.
 * min .. max  Of single calls that have ended, including the inner calls of a recursion. Two
 *             kinds of calls are not in them: calls that had not finished at the end of their
 *             thread or of the recording (their time up to there is in total and self:
 *             ip_run.end), and calls during which events were lost.
 */
#ifndef IP_STATS_H
#define IP_STATS_H

#include <stdint.h>

#include "analysis/callstack/trace.h"
#include "analysis/profile/compare.h"
#include "analysis/profile/groups.h"
#include "analysis/profile/histogram.h"
#include "analysis/profile/value_choice.h"
#include "analysis/profile/value_filter.h"

/* Times in TSC ticks. */
struct ip_call_stats {
	uint64_t calls, points, total, self;
	uint64_t min, max;
	uint64_t threads;
	/* Calls that were open at the attach. They are in total and self, from the attach on, and
	 * in no other figure: not in calls, since they did not begin, and their durations are not
	 * known. */
	uint64_t earlier;
	uint64_t tails; /* of calls: those that ended by a tail call of another function */
	/* Of tails: it is not known how long the other function ran, so the time ends at the
	 * jump. */
	uint64_t until_tail;
	uint64_t unwound, unfinished,
		/* of calls: left without an exit; not finished; doubtful because of losses */
		suspect;
	uint64_t longest_unfinished; /* what is known of the longest of them: it took longer */
	/* of calls in min .. max, exact: so the order in which they are added does not matter */
	unsigned __int128 sum, squares;
	uint64_t run; /* private: the last run that called the function */
	struct ip_histogram histogram;
	struct ip_batches *batches; /* NULL: not wanted */
};

struct ip_stats {
	/* by function as in session->functions; with groups, as in groups->groups */
	struct ip_call_stats *items;
	size_t nitems;
	struct ip_groups *groups; /* NULL: by function */
	uint64_t events;
	/* Of the selected functions: */
	/* exits of calls that began before the recording, or whose entry was lost */
	uint64_t orphans;
	uint64_t unwound, unfinished, suspect, earlier;
	/* Private: */
	uint64_t run;
	const struct ip_thread_packets *thread;
	uint32_t tid;
	bool skip;		 /* the current run belongs to another thread */
	const uint64_t *payload; /* that came with the current event */
	const bool *selected;
	bool chosen;		  /* by their values: each call counts in total */
	struct ip_run_sums *sums; /* by function, of the run that is being read */
	uint32_t *called;	  /* functions whose sums are not 0, ncalled of them */
	size_t ncalled;
	uint32_t *open; /* by group: its open calls */
	size_t room;	/* size of items and open */
	double scale;
	bool failed;
};

struct ip_stats_options {
	enum ip_group_by by;
	const char *value; /* by value: NAME or NAME/log2 */
	/* by value: which values have groups where there are too many of them */
	enum ip_value_order order;
	bool per_process;     /* each process by itself */
	const bool *selected; /* by function: those that count; NULL: all */
	uint32_t tid;	      /* calls of this thread only; 0: all threads */
	bool batches;	      /* for compare.h; only where by is IP_GROUP_BY_FUNCTION */
	/* With batches: the durations of calls (min to max, histogram) are multiplied by scale,
	 * which converts them to ticks of another clock. */
	double scale;
	/* These calls only: as ip_value_filter_visit() takes them. Then each counts in total, also
	 * where it lies in another one. */
	const struct ip_value_matches *matches;
};

/* Times in nanoseconds. All but total and self are 0 where no call has ended. */
struct ip_stats_summary {
	uint64_t total, self, min, avg, p50, p90, p99, p999, max;
	double stddev;
};

/* Reads the whole trace. Returns 0, or -1 with an error. */
int ip_stats_collect(struct ip_trace_reader *trace, const struct ip_stats_options *options,
		     struct ip_stats **ret);
void ip_stats_destroy(struct ip_stats *stats);

void ip_stats_summarize(const struct ip_recording *session, const struct ip_call_stats *f,
			struct ip_stats_summary *ret);

#endif
