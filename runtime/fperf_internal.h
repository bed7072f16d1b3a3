/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of FPerf in a process share: fperf_read.c reads, fperf.c keeps samples,
 * fperf_exclusive.c those without what called functions count, fperf_chain.c those that go on in
 * another function.
 */
#ifndef RT_FPERF_INTERNAL_H
#define RT_FPERF_INTERNAL_H

#include <stdint.h>

#include "common/abi/fperf.h"
#include "runtime/arch/cpu.h"
#include "runtime/fperf_pmu.h"
#include "runtime/meters.h"
#include "runtime/rt.h"

#define RT_FPERF_SIGNAL_FRAME 512 /* bytes at least, as in record.c */

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

/* Where a probe finds its own: of the session, the thread, the function, and the function in the
 * thread. */
struct at {
	struct ip_fperf_header *header;
	struct ip_fperf_thread *thread;
	struct ip_fperf_control *control;
	struct ip_fperf_cell *cell;
	const struct ip_pmu_set *set; /* NULL, as pmu: no such counters */
	struct ip_pmu_thread *pmu;
	uint32_t tid;
};

/* Calls of the kernel are allowed. They are not any more where one has failed, which is a filter's
 * doing: so iprobe need not have noticed it. */
static inline int rt_fperf_may_read(const struct at *at)
{
	(void)at;
	return !*(volatile uint32_t *)&rt_private.fperf_reads || rt_may_read();
}

/* Open frames. Like all that lies in the area this may be somebody else's word. */
static inline uint32_t rt_fperf_top(const struct ip_fperf_thread *t)
{
	uint32_t top = *(const volatile uint32_t *)&t->top;

	return top < IP_FPERF_DEPTH ? top : IP_FPERF_DEPTH;
}

static inline struct ip_fperf_frame *rt_fperf_frame(struct ip_fperf_thread *t, uint32_t i)
{
	return &t->frames[i < IP_FPERF_DEPTH ? i : IP_FPERF_DEPTH - 1];
}

/* What a function shares among threads, and what this thread has of it, by the offset of its
 * cell. */
static inline struct ip_fperf_control *rt_fperf_control(struct ip_meters *shared, uint32_t place)
{
	return rt_meters_at(shared, place, sizeof(struct ip_fperf_control));
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

/* The thread has spent them in our code. */
static inline void rt_fperf_spend(const struct at *at, uint64_t ticks)
{
	uint32_t most = at->header->most_ticks;

	at->thread->ticks += (ticks < most ? ticks : most) +
			     (at->thread->ready ? at->thread->rest : at->header->hook_ticks);
}

#define RT_FPERF_ONCE 500u /* times most_ticks is what a thread's first sample may take */

/* So has it since begin, once: counters were opened. How long that was. */
static inline uint64_t rt_fperf_spend_once(const struct at *at, uint64_t begin)
{
	uint64_t ticks = cpu_clock() - begin,
		 most = (uint64_t)at->header->most_ticks * RT_FPERF_ONCE;

	at->thread->ticks += ticks < most ? ticks : most;
	return ticks;
}

/* All that hooks have taken in this thread so far. */
static inline uint64_t rt_fperf_spent(const struct at *at)
{
	return at->thread->ticks + at->thread->hooks * at->header->hook_ticks;
}

/* Whether a hook is at work in the block, and a handler's has come on top of it. */
static inline int rt_fperf_is_busy(const struct ip_meters *m, uint64_t sp)
{
	return m->busy && sp + RT_FPERF_SIGNAL_FRAME <= m->busy;
}

/* Where the probes of the function with the duty word find their own. 0: there is no such
 * session. */
int rt_fperf_find_at(struct ip_meters *m, struct ip_meters *shared, uint32_t place, uint32_t word,
		     struct at *ret);

void rt_fperf_read_at_entry(const struct at *at, struct reading *r);
/* entered: when the hook began. */
void rt_fperf_read_at_exit(const struct at *at, uint64_t entered, struct reading *r);

/* What an event has counted since the open sample frame began, in *ret. 1: yes; 2: it is scaled; 0:
 * it has no value. */
int rt_fperf_since(const struct ip_fperf_header *h, uint32_t e, const struct ip_fperf_start *start,
		   const struct reading *now, const struct rt_pmu_values *pmu, uint64_t *ret);
void rt_fperf_pmu_since(const struct at *at, uint32_t frame, const struct reading *now,
			struct rt_pmu_values *ret);
/* Remembers a reading in start, and of the kernel's counters for that frame. */
void rt_fperf_note(const struct at *at, uint32_t frame, struct ip_fperf_start *start,
		   const struct reading *now);

/* Step 3 of fperf.c: the least that is counted from the hook of an entry to that of an exit:
 * what is more was somebody else's. How long it took, which has been accounted for. */
uint64_t rt_fperf_learn_bias(const struct at *at);
/* What the hooks of rt_fperf_try() do; kind: of the probe. As rt_fperf(). */
uint64_t *rt_fperf_trial(const struct at *at, uint32_t kind, uint64_t entered);
/* arch/ARCH/hooks.S: the hooks of an entry and an exit, one behind the other, as stubs jump to
 * them, of number 0, which is no probe's. */
void rt_fperf_try(void);

/* Rules 1, 2 and 4 of fperf.c. */
int rt_fperf_is_dead(struct ip_meters *shared, const struct ip_fperf_frame *f, uint64_t place,
		     uint64_t sp);
/* *begin: when the hook began; 0: not read yet. What is accounted for here lies before it. */
int rt_fperf_is_sample(const struct at *at, uint64_t *begin);
uint32_t rt_fperf_find(const struct at *at, uint32_t place, uint32_t kind, uint64_t sp);

/* Whether the function of an open frame has not been without probes since it began. */
int rt_fperf_is_current(struct ip_meters *shared, const struct ip_fperf_frame *f);

/* Step 4: the sample of the frame, its index, ends; what it holds is added to its function's
 * cell. now: as of its exit; tailed: that was a jump. The frame stays. */
void rt_fperf_end(const struct at *at, struct ip_meters *m, struct ip_meters *shared,
		  uint32_t frame, const struct reading *now, int tailed);

/* Rules 11 to 13 of fperf_chain.c. 1: the call is the rest of one that has jumped. */
int rt_fperf_enter_chain(const struct at *at, struct ip_meters *m, struct ip_meters *shared,
			 uint32_t place, uint64_t sp);
/* Whether a chain that goes on at sp has been in the function before: its frame is there. */
int rt_fperf_is_loop(const struct at *at, uint32_t place, uint64_t sp);
/* The topmost frame of the chain that ends with a call at sp: index + 1, or 0. */
uint32_t rt_fperf_find_chain(const struct at *at, uint64_t sp);
void rt_fperf_end_chain(const struct at *at, struct ip_meters *m, struct ip_meters *shared,
			uint64_t sp, const struct reading *now, int tailed);

/* A call that is no sample, inside of an open one of the same function. */
void rt_fperf_note_within(const struct at *at, uint32_t place, uint64_t sp);
/* Such a call has jumped, and is not seen any more. */
void rt_fperf_end_within(const struct at *at, uint32_t place, uint64_t sp);

/* Nothing open is above from. */
void rt_fperf_cut_from(const struct at *at, struct ip_meters *m, struct ip_meters *shared,
		       uint32_t from);

/* The process has come under seccomp since they began: no sample ends any more. */
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
