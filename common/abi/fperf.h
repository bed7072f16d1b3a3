/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shared memory of FPerf, between runtime/fperf.c in the target and fperf/ outside. It lies in
 * the blocks of meters (common/abi/meters.h). Block 0 holds what all threads share. A thread's own
 * block holds what the thread has, at the same offsets.
 *
 *   at ip_area_header.fperf     block 0: struct ip_fperf_header, the control block: what is
 *                               counted, and how; others: struct ip_fperf_thread, the open samples
 *                               of that thread
 *   at the offset of the duty   block 0: struct ip_fperf_quota, the quota of a function;
 *   (IP_DUTY_FPERF)             others: struct ip_fperf_cell, the data table: calls and sums of
 *                               that function in that thread
 *
 * The states of a function:
 *   1. iprobe sets quota and every, then the duty FPERF. Hooks count the calls. As many calls as
 *      the quota allows become samples: the hooks read the counters behind the entry and in front
 *      of the exit, and add the differences to the cell.
 *   2. A hook may find that the quota is used up and no sample of the function is open. That hook
 *      changes the duty to COUNT, whose place is the first word of the cell. From then on a call
 *      costs one increment. This is the only thing in the area that a hook decides about the probes
 *      of other threads. So a hot function becomes cheap at once, and not only when iprobe next
 *      looks at it.
 *   3. iprobe gives a new quota (step 1), or takes the probes away (fperf/policy.h tells when).
 *   4. If a function ends with a jump to a function that has probes, its sample lasts until that
 *      function returns. The number of such exits is the next number. Its duty is JUMP while all
 *      functions in which the call may continue are live. Otherwise its duty is SILENT, and the
 *      function has no quota.
 *
 * The target may overwrite all of this memory. iprobe reads only numbers, from places that it knows
 * by itself. Wrong numbers make the target's figures wrong.
 */
#ifndef IP_ABI_FPERF_H
#define IP_ABI_FPERF_H

#include <stddef.h>
#include <stdint.h>

#define IP_FPERF_ABI	7u
#define IP_FPERF_EVENTS 8u
#define IP_FPERF_DEPTH	32u /* samples that a thread has open at a time */

/* The source of a counter's value. Sources below IP_FPERF_PMU need no file descriptor in the
 * process. */
enum ip_fperf_source {
	IP_FPERF_NONE = 0,
	IP_FPERF_TSC = 1,	 /* ticks of the time-stamp counter */
	IP_FPERF_TASK_CLOCK = 2, /* CLOCK_THREAD_CPUTIME_ID, nanoseconds */
	IP_FPERF_FAULTS = 3,	 /* getrusage(RUSAGE_THREAD), also for the sources below */
	IP_FPERF_FAULTS_MINOR = 4,
	IP_FPERF_FAULTS_MAJOR = 5,
	IP_FPERF_SWITCHES = 6,
	IP_FPERF_SWITCHES_VOLUNTARY = 7,
	IP_FPERF_SWITCHES_FORCED = 8,
	IP_FPERF_PMU = 16, /* and all that follow: events of struct ip_pmu_set (fperf_pmu.h) */
};

#define IP_FPERF_READS_CLOCK 1u /* ip_fperf_header.reads */
#define IP_FPERF_READS_USAGE 2u
#define IP_FPERF_READS_PMU   4u

struct ip_fperf_header {
	uint32_t abi;
	uint32_t nevents;
	uint32_t source[IP_FPERF_EVENTS]; /* enum ip_fperf_source */
	/* system calls that the sources need; made only while ip_rt_private.may_read is 1 */
	uint32_t reads;
	/* ticks that a hook takes beyond the time that it measures of itself */
	uint32_t hook_ticks;
	/* a longer time is not the hook's: another thread ran on its CPU */
	uint32_t most_ticks;
	uint32_t pmu;	      /* offset in a block of the data of fperf_pmu.h; 0: none */
	uint64_t ns_per_tick; /* times 2^32 */
	/* 1: a sample leaves out what selected functions count that are called in it */
	uint32_t exclusive;
	/* for exclusive samples: a new number each time that all functions are live; 0: not all are
	 * live, and open samples are wrong */
	uint32_t whole;
};

/* ip_fperf_frame.flags */
/* not a sample, but a call within an exclusive sample, which does not count meanwhile */
#define IP_FPERF_PAUSE 1u
/* the call continues in a function that it has jumped to (runtime/fperf_chain.c) */
#define IP_FPERF_JUMPED 2u
/* the entry of the function that it has jumped to has not been seen yet */
#define IP_FPERF_AWAITS 4u

/* Where counting began. */
struct ip_fperf_start {
	uint64_t values[IP_FPERF_EVENTS];
	uint64_t read;	/* the clock right after the values were read */
	uint64_t began; /* when the hook was done */
};

/* An open sample. */
struct ip_fperf_frame {
	uint64_t sp;	/* as trace_format.h has it */
	uint32_t place; /* offset of the function's cell */
	/* open calls of the function within this sample that have no frame */
	uint32_t within;
	uint64_t ticks; /* ticks that hooks had taken when it began */
	uint32_t turn;	/* ip_fperf_quota.turn when it began */
	uint8_t flags;	/* IP_FPERF_PAUSE... */
	/* for exclusive samples, one bit an event: it has no value; its value is an estimate */
	uint8_t missing, scaled;
	uint8_t reserved;
	/* if it has jumped: the lower half of the address that the call returns to */
	uint32_t returns;
	uint32_t reserved2;
	struct ip_fperf_start start; /* for exclusive samples, values are what was counted so far */
};

struct ip_fperf_thread {
	uint64_t ticks; /* spent in hooks, except for those counted in hooks */
	uint64_t hooks; /* hooks that took no sample: they do not read the clock */
	/* calls of functions with IP_DUTY_FPERF; IP_DUTY_COUNT has counted other calls */
	uint64_t entries;
	uint64_t crowded; /* samples that were not taken because too many were open */
	uint64_t random;
	uint32_t ready; /* bias is known */
	uint32_t top;	/* number of open frames */
	/* what is counted between a hook and the next one with nothing in between */
	uint64_t bias[IP_FPERF_EVENTS];
	uint64_t path; /* how long that takes, in ticks */
	/* ticks that a hook takes besides those that it measures of itself */
	uint64_t rest;
	struct ip_fperf_start trial; /* where a trial with nothing in between began */
	uint64_t trial_ticks;	     /* ticks that the trial's hooks have measured of themselves */
	/* for exclusive samples: since when the topmost one counts */
	struct ip_fperf_start since;
	uint64_t since_ticks; /* ticks that hooks had taken then */
	uint32_t whole;	      /* ip_fperf_header.whole when the lowest frame was made */
	uint32_t reserved;
	struct ip_fperf_frame frames[IP_FPERF_DEPTH];
};

struct ip_fperf_quota {
	uint64_t calls; /* calls of threads without a block; atomic */
	int32_t quota;	/* samples that may still begin; atomic */
	/* open samples; atomic, a hint: samples that longjmp has ended are noticed late */
	int32_t open;
	/* one call out of this many becomes a sample, chosen at random; 0 and 1: every call */
	uint32_t every;
	/* how often the function's probes were made live. Samples that are open when the probes go
	 * away never end */
	uint32_t turn;
	uint64_t used_up; /* when the last sample of the quota began, in ticks */
};

struct ip_fperf_sum {
	uint64_t sum;
	uint64_t square_low, square_high; /* sum of the squares: 128 bits */
	/* samples that are not in the sums, since the counter did not count all the time */
	uint32_t missing;
	/* samples that are in the sums with an estimate, for the same reason */
	uint32_t scaled;
};

struct ip_fperf_cell {
	uint64_t calls;	   /* must be first: IP_DUTY_COUNT counts here too */
	uint64_t begun;	   /* samples that began */
	uint64_t cut;	   /* of these, the samples whose exit was never seen */
	uint32_t sequence; /* odd while the members below are being changed */
	uint32_t skip;	   /* calls until the next sample, that one included; 0: not known yet */
	uint64_t ended;	   /* samples in the sums; */
	/* of these, the samples that ended at a tail exit which is not followed */
	uint64_t tailed;
	struct ip_fperf_sum sums[];
};

#define IP_FPERF_PLACE_SIZE                                                                        \
	(sizeof(struct ip_fperf_thread) > sizeof(struct ip_fperf_header)                           \
		 ? sizeof(struct ip_fperf_thread)                                                  \
		 : sizeof(struct ip_fperf_header))
#define IP_FPERF_CELL_SIZE(nevents)                                                                \
	(sizeof(struct ip_fperf_cell) + (nevents) * sizeof(struct ip_fperf_sum))

_Static_assert(sizeof(struct ip_fperf_cell) == 48 && sizeof(struct ip_fperf_sum) == 32 &&
		       sizeof(struct ip_fperf_quota) <= sizeof(struct ip_fperf_cell) &&
		       sizeof(struct ip_fperf_frame) == 120,
	       "ABI");

#endif
