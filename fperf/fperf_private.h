/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What memory.c (memory), quota.c (quotas), cells.c (reading), results.c (results) and loop.c
 * (control) share.
 *
 * A function is out while its probes are not live. A turn is a window for which hot functions come
 * in together.
 */
#ifndef IP_FPERF_PRIVATE_H
#define IP_FPERF_PRIVATE_H

#include <time.h>

#include "common/elf/probe_list.h"
#include "fperf/confidence.h"
#include "fperf/cpu_time.h"
#include "fperf/credit.h"
#include "fperf/fperf.h"
#include "fperf/pmu.h"
#include "fperf/stratified.h"
#include "hotpatcher/shm/area.h"
#include "session/controller.h"

/* Sums of a function over threads. */
struct ip_fperf_sums {
	uint64_t calls, begun, cut, ended, tailed;
	double sum[IP_FPERF_EVENTS], square[IP_FPERF_EVENTS];
	/* numbers of samples, out of ended */
	uint64_t missing[IP_FPERF_EVENTS], scaled[IP_FPERF_EVENTS];
};

/* A function. Its instances, inlined or not, are counted together. */
struct ip_fperf_function {
	/* as in struct ip_fperf_row */
	char *name, *bare_name, *module;
	bool mangled;
	/* of the instances in the present process image; 0: there is none */
	uint32_t numbers[2], offsets[2];
	bool out;
	bool came;     /* it came in with the last decision */
	bool was_live; /* it was live before a window in which nothing counts */
	bool entry_only;
	bool tails; /* it has tail exits that are jumps to an unknown place */
	/* The following members tell which functions its calls go on in (tails.c). */
	/* The user has not selected it, but others jump to it. It is only counted, and not
	 * shown. */
	bool hidden;
	uint32_t jumps;	   /* number of its tail exits that are followed; 0: none */
	uint32_t *targets; /* indices of the functions that it jumps to */
	size_t ntargets;
	/* indices of all functions that must be live while it has a sample: targets, and all that
	 * these jump to */
	uint32_t *needs;
	size_t nneeds;
	uint32_t *needed_by; /* indices of the functions that need this one */
	size_t nneeded_by;
	/* one of the functions that it needs changes: it takes no samples meanwhile */
	bool held;
	bool used_up;		    /* its quota was used up at the last look */
	double sampled_s;	    /* and after how many seconds */
	uint64_t granted;	    /* when the quota was granted, in ticks */
	uint32_t every;		    /* as granted last */
	struct ip_fperf_sums ended; /* of threads and images that have ended */
	/* ended, and the contents of the blocks at the last look */
	struct ip_fperf_sums now;
	uint64_t placed_ns;		  /* when it went live for the first time */
	uint64_t since_ns;		  /* when it last came in or went out */
	uint64_t live_ns;		  /* time that it was live before since_ns */
	uint64_t looked_ns, looked_calls; /* calls_per_s is computed since then */
	double calls_per_s;
	struct ip_fperf_gaps gaps;
	/* a change without a stop is being made (remap_gap.c) */
	bool paused;
	int32_t kept_quota[2]; /* quota of each instance before that change */
	/* calls missed in the gaps of such changes, as estimated: sum, and sum of their squares */
	double bare_calls, bare_squares;
	/* CPU time was watched when it came in, and has been since: looked_s does not depend on
	 * ticks */
	bool exact;
	/* ip_fperf_undisturbed(), and CPU time of the process, at looked_ns */
	double looked_s, looked_cpu_s;
	double live_s, live_cpu_s; /* sums of both over the time that it was live */
	struct ip_strata strata;
	double mean; /* mean of the first event at the last look; NAN: not known */
	/* its widest interval at the last look, as a share of the mean; negative: not known */
	double width;
	bool measured;		      /* the strata have changed since */
	struct ip_fperf_sums divided; /* the part of now that is in the strata */
	double divided_missed;	      /* and the part of the calls in gaps */
	/* the time then, and ip_fperf_undisturbed() then */
	uint64_t divided_ns;
	double divided_s;
};

struct ip_fperf_module {
	uint8_t build_id[IP_BUILD_ID_MAX];
	size_t build_id_size;
	uint32_t nfunctions;
	uint32_t *index; /* by function number in the module: index + 1 into functions */
};

/* What threads have spent, as they report it. */
struct ip_fperf_spent {
	uint64_t ticks, hooks, entries, crowded, reentered;
	/* of the thread in which it is longest: times may be off by so many ticks */
	uint64_t path;
	uint64_t gone;
	unsigned counting, refused, refused_counter;
	int refused_error;
};

struct ip_fperf {
	struct ip_session_controller controller;
	struct ip_chooser chooser;
	struct ip_meter_kind meters;
	struct ip_fperf_options options;
	struct ip_area *area;
	uint32_t place, pmu;
	/* what a thread has left, while its block is cleared */
	uint64_t kept[IP_PMU_KEPT / 8];
	struct ip_fperf_function *functions;
	size_t nfunctions;
	struct ip_fperf_module *modules;
	size_t nmodules;
	struct ip_fperf_spent ended; /* of threads that have ended */
	/* blocks that threads have, and the area's hint when they were listed: a thread that takes
	 * a block changes the hint */
	uint32_t *owned, nowned, hint;
	/* offsets of all functions' cells side by side, for ip_fperf_calls() */
	uint32_t *places;
	size_t nplaces;
	uint64_t ended_calls; /* sum of the functions' ended.calls */
	/* Costs on this machine, in ns. */
	double ns_per_tick, count_ns, cold_ns, hook_ns, sample_ns, change_ns;
	/* average cost of a call that is counted, at the last decision */
	double call_ns;
	/* The account. */
	bool running;
	clockid_t clock; /* CPU clock of the process */
	/* started only during a turn (ip_fperf_watch) */
	struct ip_cpu_time cpu_time;
	uint64_t cpu_time_start_ns; /* value of clock when that was started */
	uint64_t start_ns, looked_ns, due_ns, interval_end_ns, window_end_ns, shown_ns;
	uint64_t interval_ns; /* the present interval */
	uint64_t counted_ns;  /* when calls are to be counted next */
	/* CPU time of the process: at the start; since then */
	uint64_t cpu_start_ns, cpu_ns;
	double spent_ns;    /* part of cpu_ns that fperf took */
	double stops_ns;    /* part of spent_ns that stops took */
	double counting_ns; /* part of hooks_ns for calls that were only counted */
	/* calls that were only counted, at the last look at all cells */
	double count_calls;
	double samples_lapsed; /* samples that were allowed, and will not be taken */
	struct ip_credit credit;
	uint64_t changes, changes_remapped; /* changes_remapped: those without a stop */
	uint64_t longest_stop_ns, longest_gap_ns;
	double window_s;	   /* length of the shortest possible turn, as measured */
	uint64_t window_length_ns; /* length of the present turn */
	uint64_t turn_ns;	   /* when the present turn began; 0: there is none */
	/* A turn is over, except that samples may still be open: until this time. 0: it is not
	 * over. */
	uint64_t ending_ns;
	uint64_t end_ns; /* 0: the session goes on */
	bool resting;	 /* this is a window in which nothing counts */
	/* when the present window began, and CPU time up to then */
	uint64_t window_ns, window_cpu_ns;
	/* CPU time of the process in windows in which nothing counts */
	uint64_t rested_cpu_ns;
	double hooks_ns;	/* spent_ns without stops */
	uint64_t stops_seen_ns; /* value of the session's total of stops */
	uint32_t epoch;		/* last value of ip_fperf_header.whole */
	/* the process has come under seccomp: there were no samples any more */
	bool confined;
	/* CPU time that fperf takes itself. */
	double own_turn_s;    /* both changes of a turn, as measured */
	double own_look_s;    /* reading all cells, and deciding, as measured */
	double own_changes_s; /* changes of the present decision */
	double own_count_s;   /* counting calls, as measured */
	uint64_t turned_ns;   /* when the last turn began */
	/* Changes have failed: there is no other one before held_until_ns. 0: none has failed. */
	uint64_t retry_ns, held_until_ns;
	uint64_t changes_failed;
	char failure[256]; /* error message of the last failed change */
	/* own_s: total; own_start_s: before the session began */
	double own_s, own_start_s;
};

/* The cost that is computed for hooks is the most that they take, so that a budget holds. In five
 * programs of six they took 0.6 to 0.8 of that (benchmarks/fperf). For call rates, which are
 * computed from the rest of the time, too much is as wrong as too little. */
#define IP_FPERF_LIKELY 0.65

/* The kernel brings the CPU time of another process up to date after this time: CONFIG_HZ=250, as
 * in distributions. */
#define IP_FPERF_TICK_S 0.004

/* longest hook, in ns: the system calls of a sample take one or two thousand */
#define IP_FPERF_MOST_NS 20000

/* Returns where the offset lies in a block. */
static inline void *ip_fperf_at(const struct ip_fperf *f, uint32_t block, uint32_t offset)
{
	uint32_t inside, part = ip_blocks_part(f->area, block, offset, &inside);

	return (char *)ip_area_meters(f->area, part) + inside;
}

/* Returns whether none of the function's calls can be a sample. */
static inline bool ip_fperf_only_counts(const struct ip_fperf_function *function)
{
	return function->entry_only || function->hidden;
}

/* Returns the CPU time that the process has had, less what hooks took, in seconds. This is the time
 * of struct ip_fperf_gaps. */
double ip_fperf_undisturbed(const struct ip_fperf *f);
/* Returns NULL if the function was never selected. */
struct ip_fperf_function *ip_fperf_find(const struct ip_fperf *f, const struct ip_module *module,
					uint32_t function);
/* instance: 0 or 1. Returns NULL if there is none. */
struct ip_fperf_quota *ip_fperf_quota_of(const struct ip_fperf *f,
					 const struct ip_fperf_function *fn, int instance);
/* Functions for struct ip_change_gap (remap_gap.c). context: the struct ip_fperf. */
void ip_fperf_gap_begins(void *context, const struct ip_module *module, uint32_t function);
void ip_fperf_gap_ended(void *context, uint64_t ns);
/* Returns the number of all calls that were counted, of all functions. This is a tenth of the work
 * of reading all cells. */
uint64_t ip_fperf_calls(struct ip_fperf *f);
/* Lists the blocks that threads have (owned). */
void ip_fperf_list_owned(struct ip_fperf *f);
/* Reads all cells. */
void ip_fperf_look(struct ip_fperf *f);
struct ip_fperf_spent ip_fperf_spent(struct ip_fperf *f);
/* From now on exclusive samples may begin and end (whole: all functions are live), or may not. */
void ip_fperf_set_whole(struct ip_fperf *f, bool whole);
/* A stretch of time is over for the function (stratified.h). It ends at the last look, and its rate
 * has been noted. */
void ip_fperf_divide(const struct ip_fperf *f, struct ip_fperf_function *function);
/* Returns the mean of an event per call, as ip_strata_mean() does. */
double ip_fperf_value(const struct ip_fperf *f, const struct ip_fperf_function *function,
		      unsigned event, double *ret_ci);
/* Gives a function its quota and every, and lets it sample. Quota 0: its calls are only counted. */
void ip_fperf_grant(struct ip_fperf *f, struct ip_fperf_function *function, uint32_t quota,
		    uint32_t every);
/* From now on no sample of the function begins. */
void ip_fperf_close_quota(struct ip_fperf *f, struct ip_fperf_function *function);
/* Returns how many samples of the function are open, as threads report it. */
int64_t ip_fperf_open_samples(const struct ip_fperf *f, const struct ip_fperf_function *function);

/* controller.c: what the session calls (controller.h). */
void ip_fperf_set_controller(struct ip_fperf *f);
/* Checks whether fperf can count in this process, and adds to *room what it needs in each block.
 * Returns -1 with an error: the process is under seccomp, or a 32-bit program. */
int ip_fperf_check(struct ip_fperf *f, const struct ip_target *target, const struct ip_plan *plan,
		   uint64_t *room);
/* The session's memory is ready: sets up the control block. Returns -1 with an error. */
int ip_fperf_begin(struct ip_fperf *f, struct ip_area *area);
/* A function, which has been bound, goes live: gives it its place and first quota. For the followed
 * tail exits of a function, notes their number. Returns -1 with an error: there is no room. */
int ip_fperf_place(struct ip_fperf *f, const struct ip_plan_function *function);
/* The functions of a plan have been placed: notes where their jumps lead. Returns -1 with an error:
 * out of memory. */
int ip_fperf_follow(struct ip_fperf *f, const struct ip_plan *plan);
/* Returns whether the function is out now. */
bool ip_fperf_is_out(const struct ip_fperf *f, const struct ip_module *module, uint32_t function);
/* A thread has ended: takes over what its block holds. Returns whether the thread has left counters
 * of the kernel. Then ip_fperf_keep() notes them again in the block when it has been cleared
 * (pmu.h, step 1). */
bool ip_fperf_release(struct ip_fperf *f, uint32_t block);
void ip_fperf_keep(struct ip_fperf *f, uint32_t block);
/* Does steps 1 to 3 of fperf.h. */
void ip_fperf_turn(struct ip_fperf *f, struct ip_session *s);
/* Returns how long the session's loop may sleep, in ns. */
uint64_t ip_fperf_nap(const struct ip_fperf *f, uint64_t now);
/* The session ends: reads everything for the last time. */
void ip_fperf_end(struct ip_fperf *f);

/* Measures what a pair of probes that log costs, in ns. *ret_cold_ns: what it costs besides where
 * it is seldom called (ip_fperf_call_cost()). memory.c */
double ip_fperf_pair_cost(double *ret_ns_per_tick, double *ret_cold_ns);

#endif
