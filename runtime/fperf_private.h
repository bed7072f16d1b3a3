/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of FPerf in a process share. fperf_read.c reads counters; fperf.c keeps samples;
 * fperf_exclusive.c keeps samples that leave out what called functions count; fperf_chain.c keeps
 * samples that continue in another function.
 */
#ifndef RT_FPERF_PRIVATE_H
#define RT_FPERF_PRIVATE_H

#include <stdint.h>

#include "common/abi/fperf.h"
#include "runtime/arch/cpu.h"
#include "runtime/fperf_pmu.h"
#include "runtime/meters.h"
#include "runtime/rt.h"

#define RT_FPERF_SIGNAL_FRAME 512 /* smallest size in bytes, as in record.c */

/* What getrusage(2) fills in. */
struct usage {
	long user[2], system[2];
	long maxrss, ixrss, idrss, isrss;
	long minor, major;
	long rest[6];
	long voluntary, forced;
};

struct reading {
	uint64_t entered; /* at an exit: when the hook began */
	uint64_t tsc, clock;
	struct usage usage;
	struct rt_pmu_reading pmu;
};

/* Where a probe finds its data: those of the session, of the thread, of the function, and of the
 * function in this thread. */
struct at {
	struct ip_fperf_header *header;
	struct ip_fperf_thread *thread;
	struct ip_fperf_quota *control;
	struct ip_fperf_cell *cell;
	const struct ip_pmu_set *set; /* NULL, and pmu too: there are no counters of the kernel */
	struct ip_pmu_thread *pmu;
	uint32_t tid;
};

/* Whether FPerf may make system calls. After one has failed it may not: a seccomp filter has
 * refused the call, and iprobe may not have noticed the filter. */
static inline int rt_fperf_may_read(const struct at *at)
{
	(void)at;
	return !*(volatile uint32_t *)&rt_private.fperf_reads || rt_may_read();
}

/* The number of open frames. Another process may have overwritten it, like everything in the
 * area. */
static inline uint32_t rt_fperf_top(const struct ip_fperf_thread *t)
{
	uint32_t top = *(const volatile uint32_t *)&t->top;

	return top < IP_FPERF_DEPTH ? top : IP_FPERF_DEPTH;
}

static inline struct ip_fperf_frame *rt_fperf_frame(struct ip_fperf_thread *t, uint32_t i)
{
	return &t->frames[i < IP_FPERF_DEPTH ? i : IP_FPERF_DEPTH - 1];
}

/* What all threads share of a function, and what this thread has of it. place: offset of the
 * function's cell. */
static inline struct ip_fperf_quota *rt_fperf_control(struct ip_meters *shared, uint32_t place)
{
	return rt_meters_at(shared, place, sizeof(struct ip_fperf_quota));
}

static inline struct ip_fperf_cell *rt_fperf_cell(struct ip_meters *m, uint32_t place)
{
	return rt_meters_at(m, place, IP_FPERF_CELL_SIZE(IP_FPERF_EVENTS));
}

static inline uint32_t rt_fperf_events_of(const struct ip_fperf_header *h)
{
	uint32_t n = *(const volatile uint32_t *)&h->nevents;

	return n < IP_FPERF_EVENTS ? n : IP_FPERF_EVENTS;
}

/* Counts ticks that the thread has spent in the runtime's code. */
static inline void rt_fperf_spend(const struct at *at, uint64_t ticks)
{
	uint32_t most = at->header->most_ticks;

	at->thread->ticks += (ticks < most ? ticks : most) +
			     (at->thread->ready ? at->thread->rest : at->header->hook_ticks);
}

#define RT_FPERF_ONCE 500u /* a thread's first sample may take this many times most_ticks */

/* Counts the time since begin, once for a thread: it has opened counters. Returns this time in
 * ticks. */
static inline uint64_t rt_fperf_spend_once(const struct at *at, uint64_t begin)
{
	uint64_t ticks = cpu_clock() - begin,
		 most = (uint64_t)at->header->most_ticks * RT_FPERF_ONCE;

	at->thread->ticks += ticks < most ? ticks : most;
	return ticks;
}

/* All ticks that hooks have taken in this thread so far. */
static inline uint64_t rt_fperf_spent(const struct at *at)
{
	return at->thread->ticks + at->thread->hooks * at->header->hook_ticks;
}

/* Whether a hook is working in the block and the hook at sp, in a signal handler, runs on top of
 * it. */
static inline int rt_fperf_is_busy(const struct ip_meters *m, uint64_t sp)
{
	return m->busy && sp + RT_FPERF_SIGNAL_FRAME <= m->busy;
}

/* Finds the data of the probes of the function with the duty word `word`. Returns 0 if the session
 * has no FPerf. */
int rt_fperf_find_at(struct ip_meters *m, struct ip_meters *shared, uint32_t place, uint32_t word,
		     struct at *ret);

void rt_fperf_read_at_entry(const struct at *at, struct reading *r);
/* entered: when the hook began. */
void rt_fperf_read_at_exit(const struct at *at, uint64_t entered, struct reading *r);

/* Writes to *ret what an event has counted since the open sample frame began. Returns 1 if the
 * value is exact, 2 if it is scaled, 0 if the event has no value. */
int rt_fperf_since(const struct ip_fperf_header *h, uint32_t e, const struct ip_fperf_start *start,
		   const struct reading *now, const struct rt_pmu_values *pmu, uint64_t *ret);
void rt_fperf_pmu_since(const struct at *at, uint32_t frame, const struct reading *now,
			struct rt_pmu_values *ret);
/* Stores a reading in start, and the kernel's counters for that frame. */
void rt_fperf_note(const struct at *at, uint32_t frame, struct ip_fperf_start *start,
		   const struct reading *now);

/* Step 3 of fperf.c: learns the least that is counted from the hook of an entry to the hook of
 * an exit. What exceeds it has another cause. Returns how long this took; that time is accounted
 * for. */
uint64_t rt_fperf_learn_bias(const struct at *at);
/* The work of the hooks of rt_fperf_try(). kind: the probe's kind. Returns the same as
 * rt_fperf(). */
uint64_t *rt_fperf_trial(const struct at *at, uint32_t kind, uint64_t entered);
/* arch/ARCH/hooks.S: runs the hook of an entry and the hook of an exit, one after the other, as
 * stubs jump to them. Their number is 0, which no probe has. */
void rt_fperf_try(void);

/* Steps 1, 2 and 4 of fperf.c. */
int rt_fperf_is_dead(struct ip_meters *shared, const struct ip_fperf_frame *f, uint64_t place,
		     uint64_t sp);
/* *begin: when the hook began; 0: the clock has not been read yet. The function moves *begin on by
 * the time that it has accounted for. */
int rt_fperf_is_sample(const struct at *at, uint64_t *begin);
uint32_t rt_fperf_find(const struct at *at, uint32_t place, uint32_t kind, uint64_t sp);

/* Whether the function of an open frame has had its probes all the time since the frame began. */
int rt_fperf_is_current(struct ip_meters *shared, const struct ip_fperf_frame *f);

/* Step 4: ends the sample of frame number `frame`, and adds its values to the cell of its function.
 * now: the reading at its exit; tailed: the exit was a jump. The frame stays. */
void rt_fperf_end(const struct at *at, struct ip_meters *m, struct ip_meters *shared,
		  uint32_t frame, const struct reading *now, int tailed);

/* Rules 11 to 13 of fperf_chain.c. Returns 1 if the call is the rest of one that has jumped. */
int rt_fperf_enter_chain(const struct at *at, struct ip_meters *m, struct ip_meters *shared,
			 uint32_t place, uint64_t sp);
/* Whether a chain that continues at sp has been in the function before: then it has a frame
 * there. */
int rt_fperf_is_loop(const struct at *at, uint32_t place, uint64_t sp);
/* The topmost frame of the chain that ends with a call at sp: index + 1, or 0. */
uint32_t rt_fperf_find_chain(const struct at *at, uint64_t sp);
void rt_fperf_end_chain(const struct at *at, struct ip_meters *m, struct ip_meters *shared,
			uint64_t sp, const struct reading *now, int tailed);

/* Notes a call that is no sample and lies within an open sample of the same function. */
void rt_fperf_note_within(const struct at *at, uint32_t place, uint64_t sp);
/* A call that rt_fperf_note_within() has noted has jumped; its exit will not be seen. */
void rt_fperf_end_within(const struct at *at, uint32_t place, uint64_t sp);

/* Cuts all open frames from index `from` on. */
void rt_fperf_cut_from(const struct at *at, struct ip_meters *m, struct ip_meters *shared,
		       uint32_t from);

/* The process has come under seccomp since the open samples began: cuts them, since none can
 * end. */
void rt_fperf_forget_unreadable(const struct at *at, struct ip_meters *m, struct ip_meters *shared);

void rt_fperf_add(struct ip_fperf_sum *s, uint64_t value);
uint64_t rt_fperf_to_ns(const struct ip_fperf_header *h, uint64_t ticks);

/* Rules 6 and 7 of fperf_exclusive.c. */
uint64_t *rt_fperf_enter_exclusive(const struct at *at, struct ip_meters *m,
				   struct ip_meters *shared, uint32_t word, uint64_t sp,
				   uint64_t begin);
uint64_t *rt_fperf_leave_exclusive(const struct at *at, struct ip_meters *m,
				   struct ip_meters *shared, uint32_t word, uint32_t kind,
				   uint64_t sp, uint64_t begin);

#endif
