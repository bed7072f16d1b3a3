/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shared memory of FPerf, between runtime/fperf.c in the target and fperf/fperf.c outside. It
 * lies in the blocks of meters (common/abi/meters.h): what is shared by all threads in block 0,
 * what a thread has in its own block, at the same offsets.
 *
 *   at ip_area_header.fperf     block 0: struct ip_fperf_header, the control block: what is
 *                               counted, and how others: struct ip_fperf_thread, open samples of
 *                               that thread
 *   at the offset of the duty   block 0: struct ip_fperf_control, a function's quota
 *   (IP_DUTY_FPERF)             others: struct ip_fperf_cell, the data table: calls and sums of
 *                               that function in that thread
 *
 * A function's way:
 *   1. iprobe sets quota and every, then the duty FPERF. Calls are counted, and as many as the
 *      quota allows are samples: counters are read behind the entry and in front of the exit, and
 *      the differences go to the cell.
 *   2. The hook that finds the quota used up, and no sample of the function open, makes the duty
 *      COUNT, whose place is the first word of the cell: from then on a call costs an increment. It
 *      is the one thing in the area that hooks decide about another's probes, so that a hot
 *      function gets cheap at once, and not when somebody outside has had a look.
 *   3. iprobe gives a new quota (1), or takes the probes away (fperf/policy.h tells when).
 *   4. Where a function jumps at its end to one that has probes, its sample lasts until that one
 *      returns. The number of such exits is the next one, with the duty JUMP while all functions
 *      that the call may go on in are live, else SILENT: it has no quota then.
 *
 * The target may scribble over all of it: iprobe reads numbers only, from places that it knows by
 * itself. Wrong ones make the target's figures wrong.
 */
#ifndef IP_ABI_FPERF_H
#define IP_ABI_FPERF_H

#include <stddef.h>
#include <stdint.h>

#define IP_FPERF_ABI	7u
#define IP_FPERF_EVENTS 8u
#define IP_FPERF_DEPTH	32u /* samples that a thread has open at a time */

/* Where a counter's value comes from. Those below IP_FPERF_PMU need no file descriptor in the
 * process. */
enum ip_fperf_source {
	IP_FPERF_NONE = 0,
	IP_FPERF_TSC = 1,	 /* ticks of the time-stamp counter */
	IP_FPERF_TASK_CLOCK = 2, /* CLOCK_THREAD_CPUTIME_ID, nanoseconds */
	IP_FPERF_FAULTS = 3,	 /* getrusage(RUSAGE_THREAD), as all that follow */
	IP_FPERF_FAULTS_MINOR = 4,
	IP_FPERF_FAULTS_MAJOR = 5,
	IP_FPERF_SWITCHES = 6,
	IP_FPERF_SWITCHES_VOLUNTARY = 7,
	IP_FPERF_SWITCHES_FORCED = 8,
	IP_FPERF_PMU = 16, /* and those that follow: events of struct ip_pmu_set (fperf_pmu.h) */
};

#define IP_FPERF_READS_CLOCK 1u /* ip_fperf_header.reads */
#define IP_FPERF_READS_USAGE 2u
#define IP_FPERF_READS_PMU   4u

struct ip_fperf_header {
	uint32_t abi;
	uint32_t nevents;
	uint32_t source[IP_FPERF_EVENTS]; /* enum ip_fperf_source */
	uint32_t reads; /* system calls that they take; made only while ip_area_header.may_read */
	uint32_t hook_ticks;  /* what a hook takes outside of what it measures of itself */
	uint32_t most_ticks;  /* what is longer was no hook, but another thread on its CPU */
	uint32_t pmu;	      /* offset in a block of what fperf_pmu.h tells; 0: nothing */
	uint64_t ns_per_tick; /* times 2^32 */
	/* 1: samples are without what selected functions count that are called in them; */
	uint32_t exclusive;
	/* of these: all functions are live, a number of its own each time; 0: not so, what is open
	 * is wrong */
	uint32_t whole;
};

/* ip_fperf_frame.flags */
/* no sample, but a call in one that is exclusive, which does not count meanwhile */
#define IP_FPERF_PAUSE 1u
/* the call goes on in a function that it has jumped to (runtime/fperf_chain.c); */
#define IP_FPERF_JUMPED 2u
#define IP_FPERF_AWAITS 4u /* of which the entry has not been seen yet */

/* Where counting began. */
struct ip_fperf_start {
	uint64_t values[IP_FPERF_EVENTS];
	uint64_t read;	/* the clock right behind them; */
	uint64_t began; /* and when the hook was done */
};

/* An open sample. */
struct ip_fperf_frame {
	uint64_t sp;	 /* as trace_format.h has it */
	uint32_t place;	 /* offset of the function's cell */
	uint32_t within; /* calls of the function that are open in it, and have no frame */
	uint64_t ticks;	 /* that hooks had taken when it began */
	uint32_t turn;	 /* ip_fperf_control.turn then */
	uint8_t flags;	 /* IP_FPERF_PAUSE... */
	/* bits, of exclusive ones: events without a value; with an estimate */
	uint8_t missing, scaled;
	uint8_t reserved;
	uint32_t returns; /* of one that has jumped: half of the address that it returns to */
	uint32_t reserved2;
	struct ip_fperf_start start; /* of exclusive ones values are what was counted so far */
};

struct ip_fperf_thread {
	uint64_t ticks; /* spent in hooks, those counted below left out */
	uint64_t hooks; /* that took no sample: they do not read the clock */
	/* of functions with IP_DUTY_FPERF: other calls were counted by IP_DUTY_COUNT */
	uint64_t entries;
	uint64_t crowded; /* samples that were not taken since too many were open */
	uint64_t random;
	uint32_t ready; /* bias is known */
	uint32_t top;	/* frames that are open */
	/* what is counted from a hook to the next one with nothing in between; */
	uint64_t bias[IP_FPERF_EVENTS];
	uint64_t path;		     /* and how long that is, ticks; */
	uint64_t rest;		     /* and what a hook takes besides what it measures of itself */
	struct ip_fperf_start trial; /* of such hooks; */
	uint64_t trial_ticks;	     /* what they have measured of themselves */
	/* of exclusive samples: since when the topmost one counts */
	struct ip_fperf_start since;
	uint64_t since_ticks; /* that hooks had taken */
	uint32_t whole;	      /* ip_fperf_header.whole, when the lowest frame came */
	uint32_t reserved;
	struct ip_fperf_frame frames[IP_FPERF_DEPTH];
};

struct ip_fperf_control {
	uint64_t calls; /* of threads without a block; atomic */
	int32_t quota;	/* samples that may still begin; atomic */
	/* that are open; atomic, a hint: those that longjmp has ended are seen late */
	int32_t open;
	uint32_t every; /* one call in so many becomes a sample, at random; 0 and 1: each */
	/* how often its probes have come in: samples that were open when they went never end */
	uint32_t turn;
	uint64_t used_up; /* when the last sample of the quota began, ticks */
};

struct ip_fperf_sum {
	uint64_t sum;
	uint64_t square_low, square_high; /* of the squares: 128 bits */
	uint32_t missing; /* samples that are not in here: the counter did not count all the time */
	uint32_t scaled;  /* that are in here by an estimate, for the same reason */
};

struct ip_fperf_cell {
	uint64_t calls;	   /* first: IP_DUTY_COUNT counts here too */
	uint64_t begun;	   /* samples; */
	uint64_t cut;	   /* of these: that never saw their exit */
	uint32_t sequence; /* odd while what follows is being changed */
	uint32_t skip;	   /* calls until the next sample, that one included; 0: not known yet */
	uint64_t ended;	   /* samples in the sums; */
	uint64_t tailed;   /* of these: that ended at a tail exit which is not followed */
	struct ip_fperf_sum sums[];
};

#define IP_FPERF_PLACE_SIZE                                                                        \
	(sizeof(struct ip_fperf_thread) > sizeof(struct ip_fperf_header)                           \
		 ? sizeof(struct ip_fperf_thread)                                                  \
		 : sizeof(struct ip_fperf_header))
#define IP_FPERF_CELL_SIZE(nevents)                                                                \
	(sizeof(struct ip_fperf_cell) + (nevents) * sizeof(struct ip_fperf_sum))

_Static_assert(sizeof(struct ip_fperf_cell) == 48 && sizeof(struct ip_fperf_sum) == 32 &&
		       sizeof(struct ip_fperf_control) <= sizeof(struct ip_fperf_cell) &&
		       sizeof(struct ip_fperf_frame) == 120,
	       "ABI");

#endif
