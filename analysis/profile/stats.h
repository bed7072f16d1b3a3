/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Figures per function, or of other groups of calls (groups.h), over a whole trace.
 *
 * calls       every entry, whatever became of it
 * points      how often a point was passed; a point takes no time
 * total       time in the function, callees included; in a recursion the outermost frame's only. By
 *             thread, module and file that of calls that no other one of the group holds; by caller
 *             and call site that of the function's outermost frames, so that the groups of a
 *             function add up to its own
 *             (a call that goes on in a function that it has jumped to lasts until that one
 *             returns)
 * self        time in which the function was the innermost one (callees that were not recorded are
 *             part of
 * it) min .. max  of single calls that have ended, inner ones of a recursion too. Not in them:
 *                 calls that had
 * not finished at the end of their thread or of the recording (their time up to there is in total
 * and self: ip_run.end), and calls during
 *             which events were lost
 */
#ifndef IP_STATS_H
#define IP_STATS_H

#include <stdint.h>

#include "analysis/callstack/trace.h"
#include "analysis/profile/compare.h"
#include "analysis/profile/groups.h"
#include "analysis/profile/histogram.h"

/* Times in TSC ticks. */
struct ip_call_stats {
	uint64_t calls, points, total, self;
	uint64_t min, max;
	uint64_t threads;
	uint64_t tails; /* of calls: ended by a tail call of another function */
	/* of tails: how long the other one ran is not known, the times end at the jump */
	uint64_t until_tail;
	uint64_t unwound, unfinished,
		suspect; /* of calls: left without an exit; not finished; doubtful for losses */
	double offset, sum, squares; /* of calls in min .. max, durations less offset */
	uint64_t run;		     /* private: the last run that called it */
	struct ip_histogram histogram;
	struct ip_batches *batches; /* NULL: nobody asked */
};

struct ip_stats {
	/* as in session->functions; with groups, as in groups->groups */
	struct ip_call_stats *items;
	size_t nitems;
	struct ip_groups *groups; /* NULL: by function */
	uint64_t events;
	/* Of what is selected: */
	/* exits of calls that began before the recording, or whose entry was lost */
	uint64_t orphans;
	uint64_t unwound, unfinished, suspect;
	/* private */
	uint64_t run;
	const struct ip_run *thread;
	uint32_t tid;
	bool skip;		 /* the run in hand is of another thread */
	const uint64_t *payload; /* that came with the event in hand */
	const bool *selected;
	uint32_t *open; /* calls of each group that are */
	size_t room;	/* of items and open */
	double scale;
	bool failed;
};

struct ip_stats_options {
	enum ip_group_by by;
	const bool *selected; /* by function, those that count; NULL: all */
	uint32_t tid;	      /* this thread's calls only; 0: all */
	bool batches;	      /* for compare.h; by function only */
	/* with batches: durations of calls (min to max, histogram) are multiplied by it, so that
	 * they are in another clock's ticks */
	double scale;
};

/* Times in nanoseconds; all 0 but total and self where no call has ended. */
struct ip_stats_summary {
	uint64_t total, self, min, avg, p50, p90, p99, p999, max;
	double stddev;
};

/* Reads the whole trace. 0, or -1 with an error. */
int ip_stats_collect(struct ip_trace_reader *trace, const struct ip_stats_options *options,
		     struct ip_stats **ret);
void ip_stats_destroy(struct ip_stats *stats);

void ip_stats_summarize(const struct ip_recording *session, const struct ip_call_stats *f,
			struct ip_stats_summary *ret);

#endif
