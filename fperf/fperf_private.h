/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What fperf.c (memory), results.c (results) and loop.c (control) share.
 */
#ifndef IP_FPERF_PRIVATE_H
#define IP_FPERF_PRIVATE_H

#include <time.h>

#include "common/probe_list.h"
#include "fperf/confidence.h"
#include "fperf/cpu_watch.h"
#include "fperf/fperf.h"
#include "fperf/pmu.h"
#include "fperf/stratified.h"
#include "session/controller.h"

/* Sums of a function over threads. */
struct ip_fperf_sums {
	uint64_t calls, begun, cut, ended, tailed;
	double sum[IP_FPERF_EVENTS], square[IP_FPERF_EVENTS];
	uint64_t missing[IP_FPERF_EVENTS], scaled[IP_FPERF_EVENTS]; /* of ended */
};

/* A function: its instances, inlined and not, are one. */
struct ip_fperf_function {
	char *name, *module;
	uint32_t numbers[2], offsets[2]; /* in the present image; 0: not there */
	bool out;
	bool came;     /* with the last decision */
	bool was_live; /* before a window in which nothing counts */
	bool entry_only;
	bool tails; /* it has tail exits that are jumps to nobody knows where */
	/* what its calls go on in (tails.c) */
	/* nobody has selected it: others jump to it. It is only counted, and not shown */
	bool hidden;
	uint32_t jumps;	   /* number of its tail exits that are followed; 0: it has none */
	uint32_t *targets; /* indices of functions that it jumps to; */
	size_t ntargets;
	/* of all that have to be live while it has a sample: these, and what they jump to */
	uint32_t *needs;
	size_t nneeds;
	uint32_t *needed_by; /* and the other way round */
	size_t nneeded_by;
	bool held;	  /* something changes of what it needs: it takes no samples meanwhile */
	bool used_up;	  /* its quota, as of the last look; */
	double sampled_s; /* how long after it was granted; */
	uint64_t granted; /* when that was, in ticks */
	uint32_t every;	  /* as granted last */
	struct ip_fperf_sums ended;	  /* of threads and images that have ended */
	struct ip_fperf_sums now;	  /* those, and what the blocks hold: as of the last look */
	uint64_t placed_ns;		  /* when it went live for the first time */
	uint64_t since_ns;		  /* live or out since then */
	uint64_t live_ns;		  /* before that */
	uint64_t looked_ns, looked_calls; /* since when calls_per_s is reckoned */
	double calls_per_s;
	struct ip_fperf_gaps gaps;
	bool paused;	       /* while a change without a stop is made (remap_gap.c); */
	int32_t kept_quota[2]; /* of each instance */
	double bare_calls,
		/* that were missed in the gaps of such changes, as reckoned; of each the square:
		 * sums */
		bare_squares;
	/* it came while CPU time was watched, and is as long as it is: what looked_s says is no
	 * tick's */
	bool exact;
	/* ip_fperf_undisturbed(), and the process's CPU time, at looked_ns */
	double looked_s, looked_cpu_s;
	double live_s, live_cpu_s; /* of both, while it was live: sums */
	struct ip_strata strata;
	double mean; /* of the first event, as of the last look; NAN: not known */
	/* of its widest interval, as a share of the mean; negative: not known. As of the last
	 * look; */
	double width;
	bool measured;		      /* strata have become more since */
	struct ip_fperf_sums divided; /* what of now is in the strata; */
	double divided_missed;	      /* and of the calls in gaps */
	uint64_t divided_ns;	      /* as of then, and of ip_fperf_undisturbed(); */
	double divided_s;
};

struct ip_fperf_module {
	uint8_t build_id[IP_BUILD_ID_MAX];
	size_t build_id_size;
	uint32_t nfunctions;
	uint32_t *index; /* by function: index + 1 into functions */
};

/* What threads have spent, as they say. */
struct ip_fperf_spent {
	uint64_t ticks, hooks, entries, crowded, reentered;
	uint64_t path; /* of the thread where it is longest: what times may be off by, ticks */
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
	uint64_t kept[IP_PMU_KEPT / 8]; /* what a thread has left, while its block is cleared */
	struct ip_fperf_function *functions;
	size_t nfunctions;
	struct ip_fperf_module *modules;
	size_t nmodules;
	struct ip_fperf_spent ended; /* of threads that have ended */
	/* blocks that threads have, and the area's hint as of then: no thread takes one without
	 * changing it */
	uint32_t *owned, nowned, hint;
	/* of the functions' cells: all of them side by side, for ip_fperf_calls() */
	uint32_t *places;
	size_t nplaces;
	uint64_t ended_calls; /* sum of functions' ended.calls */
	/* costs of this machine, ns */
	double ns_per_tick, count_ns, cold_ns, hook_ns, sample_ns, change_ns;
	double call_ns; /* of a call that is counted, on average, as of the last decision */
	/* the account */
	bool running;
	clockid_t clock; /* of the process */
	/* while there is a turn (ip_fperf_watch) */
	struct ip_cpu_watch watch;
	uint64_t watch_start_ns; /* what the clock said then */
	uint64_t start_ns, looked_ns, due_ns, interval_end_ns, window_end_ns, shown_ns;
	uint64_t interval_ns; /* the present one */
	uint64_t counted_ns;  /* when calls are to be counted next */
	/* credit_ns where it is negative, 0 where not: the most since the last decision */
	double debt_ns;
	uint64_t cpu_start_ns, cpu_ns; /* that the process had at the start; has had since */
	double spent_ns;	       /* of that by us */
	double stops_ns;	       /* of that in stops */
	double counting_ns;	       /* of hooks_ns, calls that were only counted */
	double count_calls;	/* calls that were only counted, as of the last look at all cells */
	double samples_lapsed;	/* that were allowed, and will not be taken */
	double credit_ns, busy; /* busy: CPUs that the process keeps busy */
	uint64_t changes, changes_remapped; /* of these: without a stop */
	uint64_t longest_stop_ns, longest_gap_ns;
	double window_s;	   /* how long the shortest turn lasts, as measured */
	uint64_t window_length_ns; /* of the present turn */
	uint64_t turn_ns;	   /* since when there is one; 0: there is none */
	/* a turn is over, but for samples that are open: until then at most; 0: it is not */
	uint64_t ending_ns;
	uint64_t end_ns;		   /* 0: it goes on */
	bool resting;			   /* a window in which nothing counts */
	uint64_t window_ns, window_cpu_ns; /* when the present one began, and CPU time until then */
	uint64_t rested_cpu_ns;		   /* CPU time of the process in such windows */
	double hooks_ns;		   /* of spent_ns, all but stops */
	uint64_t stops_seen_ns;		   /* of the session's */
	uint32_t epoch;			   /* of ip_fperf_header.whole */
	bool confined; /* the process has come under seccomp: there were no samples any more */
	/* what we take of a CPU */
	double own_turn_s;    /* a turn: both of its changes, as measured */
	double own_look_s;    /* reading all cells, and deciding, as measured */
	double own_changes_s; /* changes of the present decision */
	double own_count_s;   /* counting calls, as measured */
	uint64_t turned_ns;   /* when the last one began */
	/* changes have failed: no other one until then; 0: none has */
	uint64_t retry_ns, held_until_ns;
	uint64_t changes_failed;
	char failure[256];	   /* what the last of them said */
	double own_s, own_start_s; /* all in all; before it began */
};

/* What hooks are reckoned to take is what they take at most, so that a budget holds; of that
 * they took 0.6 to 0.8 in five programs of six (benchmarks/fperf). Where rates come from the
 * rest of the time too much is as wrong as too little. */
#define IP_FPERF_LIKELY 0.65

/* The kernel brings the CPU time of another process up to date so often: CONFIG_HZ=250, as
 * distributions have it. */
#define IP_FPERF_TICK_S 0.004

/* Whether none of its calls can be a sample. */
static inline bool ip_fperf_only_counts(const struct ip_fperf_function *function)
{
	return function->entry_only || function->hidden;
}

/* CPU time that the process has had, less what hooks took, seconds: the time of struct
 * ip_fperf_gaps. */
double ip_fperf_undisturbed(const struct ip_fperf *f);
/* NULL: it was never selected. */
struct ip_fperf_function *ip_fperf_find(const struct ip_fperf *f, const struct ip_module *module,
					uint32_t function);
/* Of an instance, 0 or 1; NULL: there is none. */
struct ip_fperf_control *ip_fperf_control_of(const struct ip_fperf *f,
					     const struct ip_fperf_function *fn, int instance);
/* struct ip_change_gap (remap_gap.c); context: the struct ip_fperf. */
void ip_fperf_gap_begins(void *context, const struct ip_module *module, uint32_t function);
void ip_fperf_gap_ended(void *context, uint64_t ns);
/* All calls that were counted, of any function: a tenth of the work of reading all cells. */
uint64_t ip_fperf_calls(struct ip_fperf *f);
/* Reads all cells. */
void ip_fperf_look(struct ip_fperf *f);
struct ip_fperf_spent ip_fperf_spent(struct ip_fperf *f);
/* Exclusive samples may begin and end from now on, or not: all functions are live. */
void ip_fperf_set_whole(struct ip_fperf *f, bool whole);
/* A stretch of time is over for the function (stratified.h): of the last look, with its rate
 * noted. */
void ip_fperf_divide(const struct ip_fperf *f, struct ip_fperf_function *function);
/* Mean of an event per call, as ip_strata_mean(). */
double ip_fperf_value(const struct ip_fperf *f, const struct ip_fperf_function *function,
		      unsigned event, double *ret_ci);
/* Gives a function what it may take, and has it sample (or only count: quota 0). */
void ip_fperf_grant(struct ip_fperf *f, struct ip_fperf_function *function, uint32_t quota,
		    uint32_t every);
/* No sample of it begins any more. */
void ip_fperf_close_quota(struct ip_fperf *f, struct ip_fperf_function *function);
/* How many are open, as threads say. */
int64_t ip_fperf_open_samples(const struct ip_fperf *f, const struct ip_fperf_function *function);

/* controller.c: what the session calls (controller.h). */
void ip_fperf_set_controller(struct ip_fperf *f);
/* Whether it counts in this process; adds to *room what it needs in each block. -1 with an error:
 * under seccomp, 32-bit. */
int ip_fperf_check(struct ip_fperf *f, const struct ip_target *target, const struct ip_plan *plan,
		   uint64_t *room);
/* A session's memory is ready: the control block. -1 with an error. */
int ip_fperf_begin(struct ip_fperf *f, struct ip_area *area);
/* A function, which has been bound, goes live: its place and first quota; or its jumps do. -1 with
 * an error: there is no room. */
int ip_fperf_place(struct ip_fperf *f, const struct ip_plan_function *function);
/* The functions of a plan have been placed: notes where their jumps lead. -1: out of memory, with
 * an error. */
int ip_fperf_follow(struct ip_fperf *f, const struct ip_plan *plan);
/* Whether the function is out now. */
bool ip_fperf_is_out(const struct ip_fperf *f, const struct ip_module *module, uint32_t function);
/* A thread has ended: takes over what its block holds. Whether the thread has left something of
 * the kernel's: then, when the block has been cleared, ip_fperf_keep() notes it there again
 * (fperf_pmu.h, step 1). */
bool ip_fperf_release(struct ip_fperf *f, uint32_t block);
void ip_fperf_keep(struct ip_fperf *f, uint32_t block);
/* Steps 1 to 3. */
void ip_fperf_turn(struct ip_fperf *f, struct ip_session *s);
/* How long the session's loop may sleep. */
uint64_t ip_fperf_nap(const struct ip_fperf *f, uint64_t now);
/* The session ends: reads everything for the last time. */
void ip_fperf_end(struct ip_fperf *f);

#endif
