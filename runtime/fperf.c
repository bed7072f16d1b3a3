/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading counters at the entry and exit of a function, in its own thread.
 *
 * Open samples stand in a stack of frames, the innermost on top.
 *
 *   1. Entry. Frames whose stack pointer lies below the new one, on the same stack, belong to calls
 *      that longjmp or an exception has ended: they are cut. A frame of the same function at the
 *      same stack pointer is cut too. So are frames whose function has been without probes in the
 *      meantime: their exit was not seen.
 *   2. Decide whether this call is a sample. That depends on the function's quota, and on one call
 *      in `every`, chosen at random. Random choice avoids that a program's periodic behaviour is
 *      always met in the same phase.
 *   3. The counters are read as late as possible behind the entry and as early as possible in front
 *      of the exit, in the opposite order. The time-stamp counter is read separately: when
 *      everything else is done (meters.c), and first of all. Between those two readings lies the
 *      way out of one hook and into the next, which takes some ten nanoseconds. The thread's clock
 *      is read by the kernel. The time between its readings and those two is subtracted, as it was
 *      in this very sample: after a sleep caches are cold, and a system call takes several times as
 *      long. And no call can have had more CPU time than time has passed. What still remains in
 *      between is measured once in a thread, by hooks of number 0 that stand for the hooks of an
 *      empty function (fperf_read.c). The smallest measured values (bias, path) are subtracted from
 *      each sample. The time of hooks that ran in between is subtracted too. The processor may
 *      execute this path while it still executes the rest of the function. Then the whole path is
 *      subtracted although it cost no time. So times are uncertain by one path (fperf/results.c).
 *   4. Exit. Find the frame of the function that belongs to the exit's stack pointer (open_calls.h,
 *      rule 2, tells which). The frames above it are cut. Calls of the function within an open
 *      sample that are no samples are counted in the sample's frame (within). So the exit of such a
 *      call is not taken for the exit of the sample.
 *   5. If the quota is used up and no sample is open, the function is only counted from now on
 *      (abi/fperf.h, step 2). A sample counts as open before it takes its part of the quota. So a
 *      thread that finds no quota left sees all samples whose exit may still come.
 *
 * fperf_exclusive.c describes what differs for exclusive samples, fperf_chain.c functions that jump
 * at their end, and fperf_read.c how counters are read.
 *
 * A handler may interrupt a hook anywhere. While busy says that a hook is working, hooks on top of
 * it do not touch the block (as for the user's payload). System calls are made without the C
 * library, so errno does not change. If iprobe has seen that the process is under seccomp, or if
 * one of these calls has failed, there are no more such calls and no more samples. Samples that
 * were open are cut.
 */
#include "runtime/fperf.h"

#include "common/abi/fperf.h"
#include "common/elf/probe_list.h"
#include "runtime/arch/cpu.h"
#include "runtime/fperf_pmu.h"
#include "runtime/fperf_private.h"
#include "runtime/meters.h"
#include "runtime/rt.h"

#define BELOW (1ull << 20) /* as in meters.c */
#define NEAR  (64ull << 10)

static uint32_t random_below(struct ip_fperf_thread *t, uint32_t n)
{
	/* for threads that begin one after the other, the first draws must differ in their upper
	 * bits too */
	if (!t->random)
		t->random = (cpu_clock() ^ (uintptr_t)t) * 0x9e3779b97f4a7c15 | 1;
	t->random ^= t->random << 13;
	t->random ^= t->random >> 7;
	t->random ^= t->random << 17;
	return ((t->random >> 32) * n) >> 32;
}

/* The number of calls to skip before a first sample. Each call must have the same chance, 1 /
 * every. The number that is drawn after a sample is uniform in 0 to 2 * every - 2. So k calls are
 * skipped with a probability proportional to 2 * every - 1 - k. The smaller one of two different
 * numbers below 2 * every has this distribution. */
static uint32_t first_skip(struct ip_fperf_thread *t, uint32_t every)
{
	uint32_t a = random_below(t, 2 * every), b = random_below(t, 2 * every - 1);

	b += b >= a;
	return a < b ? a : b;
}

/* The frame's function has had its probes all the time since the frame began. */
int rt_fperf_is_current(struct ip_meters *shared, const struct ip_fperf_frame *f)
{
	return f->turn == *(volatile uint32_t *)&rt_fperf_control(shared, f->place)->turn;
}

/* Step 1: whether a frame can belong to no open call, given that a call with place and sp
 * begins. */
int rt_fperf_is_dead(struct ip_meters *shared, const struct ip_fperf_frame *f, uint64_t place,
		     uint64_t sp)
{
	return !rt_fperf_is_current(shared, f) || (f->sp < sp && sp - f->sp < BELOW) ||
	       (f->sp == sp && (f->place == place || f->flags & IP_FPERF_JUMPED));
}

/* The innermost open sample of the function that has not jumped; NULL: there is none. */
static struct ip_fperf_frame *innermost(const struct at *at, uint32_t place)
{
	for (uint32_t i = rt_fperf_top(at->thread); i > 0; i--) {
		struct ip_fperf_frame *f = rt_fperf_frame(at->thread, i - 1);

		if (f->place == place && !(f->flags & IP_FPERF_JUMPED))
			return f;
	}
	return NULL;
}

/* Notes a call that is no sample and lies within an open sample of the same function. */
void rt_fperf_note_within(const struct at *at, uint32_t place, uint64_t sp)
{
	struct ip_fperf_frame *f = innermost(at, place);

	if (f)
		f->within += f->sp > sp;
}

void rt_fperf_end_within(const struct at *at, uint32_t place, uint64_t sp)
{
	struct ip_fperf_frame *f = innermost(at, place);

	if (f && f->within)
		f->within -= f->sp > sp;
}

/* Cuts all open frames from index `from` on. */
void rt_fperf_cut_from(const struct at *at, struct ip_meters *m, struct ip_meters *shared,
		       uint32_t from)
{
	for (uint32_t i = from, top = rt_fperf_top(at->thread); i < top; i++) {
		struct ip_fperf_frame *f = rt_fperf_frame(at->thread, i);

		if (f->flags & IP_FPERF_PAUSE)
			continue;
		if (f->flags & IP_FPERF_JUMPED)
			cpu_add_local(&m->jumped, -1ull);
		rt_fperf_cell(m, f->place)->cut++;
		if (rt_fperf_is_current(shared, f))
			__atomic_fetch_sub(&rt_fperf_control(shared, f->place)->open, 1,
					   __ATOMIC_RELAXED);
	}
	at->thread->top = from;
}

/* The process has come under seccomp since the open samples began: cuts them, since none can
 * end. */
void rt_fperf_forget_unreadable(const struct at *at, struct ip_meters *m, struct ip_meters *shared)
{
	if (at->thread->top && !rt_fperf_may_read(at))
		rt_fperf_cut_from(at, m, shared, 0);
}

/* Step 5. */
static void only_count(const struct at *at, uint32_t word, uint32_t number)
{
	uint32_t count = IP_DUTY(IP_DUTY_COUNT, IP_DUTY_OFFSET(word));

	if (!at->header->exclusive && __atomic_load_n(&at->control->quota, __ATOMIC_ACQUIRE) <= 0 &&
	    __atomic_load_n(&at->control->open, __ATOMIC_RELAXED) <= 0)
		__atomic_compare_exchange_n(&rt_duties[number], &word, count, 0, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED);
}

/* Whether the thread has counters of the kernel. Opening them takes some ten microseconds, once for
 * each thread. */
static int has_counters(const struct at *at, uint64_t *begin)
{
	uint32_t generation = at->pmu->generation, state = at->pmu->state;
	uint64_t now = cpu_clock();
	int ready = rt_pmu_ready(at->set, at->pmu, at->tid);

	if (at->pmu->generation != generation || at->pmu->state != state)
		*begin += rt_fperf_spend_once(at, now);
	return ready;
}

/* Step 2. If the call is a sample, it counts as open (step 5). */
int rt_fperf_is_sample(const struct at *at, uint64_t *begin)
{
	uint32_t every = *(volatile uint32_t *)&at->control->every;
	int32_t left;

	if (__atomic_load_n(&at->control->quota, __ATOMIC_RELAXED) <= 0)
		return 0;
	/* A thread's first call is colder than others, and where threads are short there are many
	 * first calls. So the first skip is drawn too. A skip that was drawn when few calls were to
	 * be samples would pass over all calls that are to be samples now. So it is drawn again. */
	if (!at->cell->skip || at->cell->skip - 1 >= 2 * (uint64_t)(every ? every : 1) - 1)
		at->cell->skip = every > 1 ? 1 + first_skip(at->thread, every) : 1;
	if (at->cell->skip > 1) {
		at->cell->skip--;
		return 0;
	}
	if (!*begin)
		*begin = cpu_clock();
	if (!rt_fperf_may_read(at))
		return 0;
	if (at->set && !has_counters(at, begin))
		return 0;
	if (at->thread->top >= IP_FPERF_DEPTH) {
		at->thread->crowded++;
		return 0;
	}
	__atomic_fetch_add(&at->control->open, 1, __ATOMIC_SEQ_CST);
	left = __atomic_fetch_sub(&at->control->quota, 1, __ATOMIC_SEQ_CST);
	if (left <= 0) {
		__atomic_fetch_sub(&at->control->open, 1, __ATOMIC_RELAXED);
		return 0;
	}
	if (left == 1)
		__atomic_store_n(&at->control->used_up, cpu_clock(), __ATOMIC_RELAXED);
	at->cell->skip = every > 1 ? 1 + random_below(at->thread, 2 * every - 1) : 1;
	return 1;
}

static uint64_t *enter(const struct at *at, struct ip_meters *m, struct ip_meters *shared,
		       uint32_t word, uint32_t number, uint64_t sp, uint64_t begin)
{
	struct ip_fperf_thread *t = at->thread;
	struct ip_fperf_frame *f;
	struct reading now;
	uint32_t top;

	cpu_increment_local(
		/* a handler on top of this hook may count too, if its duty is COUNT */
		&at->cell->calls);
	t->entries++;
	/* step 1 */
	if (rt_fperf_enter_chain(at, m, shared, IP_DUTY_OFFSET(word), sp) &&
	    rt_fperf_is_loop(at, IP_DUTY_OFFSET(word), sp)) {
		t->hooks++;
		return NULL;
	}
	top = rt_fperf_top(t);
	if (!rt_fperf_is_sample(at, &begin)) {
		t->hooks++;
		rt_fperf_note_within(at, IP_DUTY_OFFSET(word), sp);
		only_count(at, word, number);
		return NULL;
	}
	if (!t->ready)
		begin += rt_fperf_learn_bias(at);
	at->cell->begun++;
	f = rt_fperf_frame(t, top);
	f->sp = sp;
	f->place = IP_DUTY_OFFSET(word);
	f->within = f->flags = 0;
	f->turn = *(volatile uint32_t *)&at->control->turn;
	t->top = top + 1;
	/* step 3 */
	rt_fperf_read_at_entry(at, &now);
	rt_fperf_note(at, top, &f->start, &now);
	rt_fperf_spend(at, cpu_clock() - begin);
	f->ticks = rt_fperf_spent(at);
	return &f->start.began;
}

/* Step 4. Returns index + 1, or 0. */
uint32_t rt_fperf_find(const struct at *at, uint32_t place, uint32_t kind, uint64_t sp)
{
	struct ip_fperf_thread *t = at->thread;
	uint32_t best = 0, turn = *(volatile uint32_t *)&at->control->turn;
	uint64_t nearest = NEAR;

	for (uint32_t i = rt_fperf_top(t); i > 0; i--) {
		struct ip_fperf_frame *f = rt_fperf_frame(t, i - 1);
		uint64_t away = kind == IP_PROBE_EXIT ? f->sp - sp : sp - f->sp;

		if (f->place != place || f->turn != turn || f->flags & IP_FPERF_JUMPED)
			continue;
		if (kind == IP_PROBE_EXIT && !away)
			return i;
		/* a call inside of the sample has a smaller stack pointer */
		if (f->within && f->sp > sp) {
			f->within--;
			return 0;
		}
		if (away < nearest) {
			nearest = away;
			best = i;
		}
	}
	return best;
}

/* Adds the value and its square, which takes up to 128 bits: (a + b)^2, with the upper half of the
 * value's bits in a. */
void rt_fperf_add(struct ip_fperf_sum *s, uint64_t value)
{
	uint64_t a = value >> 32, b = value & 0xffffffff, low = b * b, middle = a * b;

	s->sum += value;
	s->square_high += a * a + (middle >> 31);
	middle <<= 33;
	low += middle;
	s->square_high += low < middle;
	s->square_low += low;
	s->square_high += s->square_low < low;
}

uint64_t rt_fperf_to_ns(const struct ip_fperf_header *h, uint64_t ticks)
{
	return (ticks >> 32) * h->ns_per_tick + ((ticks & 0xffffffff) * h->ns_per_tick >> 32);
}

/* The value, less the part of it that hooks have caused; 0 if that is negative. */
static uint64_t net(uint64_t value, uint64_t ours)
{
	return value > ours && value >> 63 == 0 ? value - ours : 0;
}

void rt_fperf_end(const struct at *at, struct ip_meters *m, struct ip_meters *shared,
		  uint32_t frame, const struct reading *now, int tailed)
{
	const struct ip_fperf_thread *t = at->thread;
	const struct ip_fperf_frame *f = rt_fperf_frame(at->thread, frame);
	struct ip_fperf_cell *cell = rt_fperf_cell(m, f->place);
	uint64_t hooks_ticks = rt_fperf_spent(at) - f->ticks, passed;
	struct rt_pmu_values pmu;

	rt_fperf_pmu_since(at, frame, now, &pmu);
	passed = rt_fperf_to_ns(at->header,
				net(now->entered - f->start.began, t->path + hooks_ticks));
	cell->sequence++;
	cpu_store_order();
	for (uint32_t e = 0; e < rt_fperf_events_of(at->header); e++) {
		uint32_t source = at->header->source[e];
		uint64_t value, less = t->bias[e];
		int whole = rt_fperf_since(at->header, e, &f->start, now, &pmu, &value);

		cell->sums[e].missing += !whole;
		cell->sums[e].scaled += whole == 2;
		if (!whole)
			continue;
		if (source == IP_FPERF_TSC)
			less += hooks_ticks;
		else if (source == IP_FPERF_TASK_CLOCK)
			less += rt_fperf_to_ns(at->header, hooks_ticks);
		value = net(value, less);
		if (source == IP_FPERF_TASK_CLOCK && value > passed)
			value = passed;
		rt_fperf_add(&cell->sums[e], value);
	}
	cell->ended++;
	cell->tailed += tailed;
	cpu_store_order();
	cell->sequence++;
	__atomic_fetch_sub(&rt_fperf_control(shared, f->place)->open, 1, __ATOMIC_RELAXED);
}

static void leave(const struct at *at, struct ip_meters *m, struct ip_meters *shared, uint32_t word,
		  uint32_t number, uint32_t kind, uint64_t sp, uint64_t entered)
{
	struct ip_fperf_thread *t = at->thread;
	uint64_t own_sp = kind == IP_PROBE_EXIT ? sp : sp - sizeof(long);
	struct reading now;
	uint32_t found, chain;

	rt_fperf_forget_unreadable(at, m, shared);
	found = t->top ? rt_fperf_find(at, IP_DUTY_OFFSET(word), kind, sp) : 0;
	chain = !found && m->jumped ? rt_fperf_find_chain(at, own_sp) : 0;
	if (!found && !chain) {
		t->hooks++;
		only_count(at, word, number);
		return;
	}
	rt_fperf_read_at_exit(at, entered, &now);
	if (!rt_fperf_may_read(at)) {
		rt_fperf_forget_unreadable(at, m, shared);
		rt_fperf_spend(at, cpu_clock() - entered);
		return;
	}
	rt_fperf_cut_from(at, m, shared, found ? found : chain);
	if (found) {
		rt_fperf_end(at, m, shared, found - 1, &now, kind == IP_PROBE_TAIL_EXIT);
		t->top = found - 1;
	}
	rt_fperf_end_chain(at, m, shared, own_sp, &now, kind == IP_PROBE_TAIL_EXIT);
	only_count(at, word, number);
	rt_fperf_spend(at, cpu_clock() - entered);
}

int rt_fperf_find_at(struct ip_meters *m, struct ip_meters *shared, uint32_t place, uint32_t word,
		     struct at *ret)
{
	uint32_t pmu = *(volatile uint32_t *)&rt_private.fperf_pmu;

	*ret = (struct at){.header = (struct ip_fperf_header *)((char *)shared + place),
			   .thread = (struct ip_fperf_thread *)((char *)m + place),
			   .control = rt_fperf_control(shared, IP_DUTY_OFFSET(word)),
			   .cell = rt_fperf_cell(m, IP_DUTY_OFFSET(word))};
	if (!place || ret->header->abi != IP_FPERF_ABI)
		return 0;
	if (pmu && *(volatile uint32_t *)&rt_private.fperf_reads & IP_FPERF_READS_PMU) {
		ret->set = (const struct ip_pmu_set *)((char *)shared + pmu);
		ret->pmu = (struct ip_pmu_thread *)((char *)m + pmu);
		ret->tid = rt_slots[m->slot % IP_AREA_SLOTS].tid;
	}
	return 1;
}

uint64_t *rt_fperf(struct ip_meters *m, struct ip_meters *shared, uint32_t place, uint32_t word,
		   uint32_t number, uint32_t kind, uint64_t sp)
{
	uint64_t begin = 0, *last = NULL;
	struct at at;

	if (!rt_fperf_find_at(m, shared, place, word, &at))
		return NULL;
	/* a call that is no sample, and not within one, needs no clock */
	if (!number || at.thread->top || at.header->exclusive)
		begin = cpu_clock();
	cpu_store_order();
	if (!number)
		return rt_fperf_trial(&at, kind, begin);
	if (rt_fperf_is_busy(m, sp)) {
		cpu_increment_local(&m->reentered);
		return NULL;
	}
	m->busy = sp;
	cpu_store_order();
	if (at.header->exclusive && kind == IP_PROBE_ENTRY)
		last = rt_fperf_enter_exclusive(&at, m, shared, word, sp, begin);
	else if (at.header->exclusive && kind != IP_PROBE_POINT)
		last = rt_fperf_leave_exclusive(&at, m, shared, word, kind, sp, begin);
	else if (kind == IP_PROBE_ENTRY)
		last = enter(&at, m, shared, word, number, sp, begin);
	else if (kind != IP_PROBE_POINT)
		leave(&at, m, shared, word, number, kind, sp, begin);
	else
		cpu_increment_local(&at.cell->calls);
	cpu_store_order();
	m->busy = 0;
	return last;
}
