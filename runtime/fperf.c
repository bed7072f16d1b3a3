/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading counters at the entry and exit of a function, in its own thread.
 *
 * Open samples stand in a pile of frames, the innermost on top.
 * *   1. Entry. Frames whose stack pointer lies below ours, on the same stack, are of calls that longjmp or an exception has ended: cut. So are one of the same
 *      function at the same place of the stack, and those whose function has been without probes meanwhile: nobody has seen their exit.
 *   2. Whether this call is a sample: the function's quota, and one call in `every`, at random, so that what a program does in turns is
 *      not always met in the same phase.
 *   3. The counters are read last of all behind the entry, the clock last of them, and first of all in front of the exit, in the opposite order:
 *      so little of us lies between two readings. What does is measured once in a thread (bias), and taken off; and so is the time of hooks that ran
 *      in between, from the clocks.
 *   4. Exit. The frame of the function with the exit's stack pointer (runtime/meters.c, rule 2, tells which); what stands above it is cut. Calls of the function inside
 *      of an open one, which are no samples, are counted in its frame (within): the exit of one of them is not taken for its own.
 *   5. Quota used up, nothing open: the function is only counted from now on (fperf_abi.h, step 2). So a sample is open before it takes its part of the
 *      quota: a thread that finds none left sees all that may still want their exit.
 *
 * Exclusive samples (fperf_abi.h, exclusive). A sample counts while it is the topmost frame: what comes between is measured off at both of its ends.
 *
 *   6. Entry. The topmost sample stops counting. A call that is no sample gets a frame as well (IP_FPERF_PAUSE), since its exit has to be known; within that one no others
 *      but samples do.
 *   7. Exit. The topmost frame goes; the sample below it, if that is one, counts on.
 *   8. It is all or nothing: where a frame has lost its exit, or a function has lost its probes (whole), nobody knows whose the counts are. All are cut.
 *   9. No function is only counted: a call in a sample must be seen.
 *
 * A handler may interrupt us anywhere: while busy says that we are at work, hooks on top of us leave the block alone (as for the user's payload). Calls
 * of the kernel are made by hand, so errno stays; where iprobe has seen that the process is under seccomp, or one of them has failed, there are none any more, and no samples;
 * those that were open are cut.
 */
#include "runtime/fperf.h"

#include "common/fperf_abi.h"
#include "common/probe_list.h"
#include "runtime/arch/cpu.h"
#include "runtime/fperf_pmu.h"
#include "runtime/rt.h"

#define BELOW		 (1ull << 20) /* as in meters.c */
#define NEAR		 (64ull << 10)
#define SIGNAL_FRAME_MIN 512
#define TRIALS		 16 /* of a reading, to learn its bias */

#define THREAD_CPUTIME	 3 /* CLOCK_THREAD_CPUTIME_ID, the kernel's numbers */
#define RUSAGE_OF_THREAD 1

/* What getrusage(2) fills in. */
struct usage {
	long user[2], system[2];
	long maxrss, ixrss, idrss, isrss;
	long minor, major;
	long rest[6];
	long voluntary, forced;
};

struct reading {
	uint64_t tsc, clock;
	struct usage usage;
	struct rt_pmu_reading pmu;
};

struct at {
	struct ip_fperf_header *header;
	struct ip_fperf_thread *thread;
	struct ip_fperf_control *control;
	struct ip_fperf_cell *cell;
	const struct ip_pmu_set *set; /* NULL, as pmu: no such counters */
	struct ip_pmu_thread *pmu;
	uint32_t tid;
};

/* Calls of the kernel are allowed. They are not any more where one has failed, which is a filter's doing: so iprobe need not have noticed it. */
static int may_read(const struct at *at)
{
	return !at->header->reads || *(volatile uint32_t *)&rt_header->may_read;
}

static void check(long result)
{
	if (result < 0)
		*(volatile uint32_t *)&rt_header->may_read = 0;
}

static void read_usage(struct usage *u)
{
	u->minor = u->major = u->voluntary = u->forced = 0;
	check(cpu_syscall(SYS_getrusage, RUSAGE_OF_THREAD, u, 0, 0));
}

static uint64_t read_clock(void)
{
	int64_t time[2] = {0, 0};

	check(cpu_syscall(SYS_clock_gettime, THREAD_CPUTIME, time, 0, 0));
	return time[0] * 1000000000ull + time[1];
}

static void read_at_entry(const struct at *at, struct reading *r)
{
	const struct ip_fperf_header *h = at->header;

	if (h->reads & IP_FPERF_READS_USAGE)
		read_usage(&r->usage);
	if (h->reads & IP_FPERF_READS_CLOCK)
		r->clock = read_clock();
	if (at->set)
		rt_pmu_read(at->set, at->pmu, &r->pmu);
	cpu_store_order();
	r->tsc = cpu_clock();
	cpu_store_order();
}

static void read_at_exit(const struct at *at, struct reading *r)
{
	const struct ip_fperf_header *h = at->header;

	cpu_store_order();
	r->tsc = cpu_clock();
	cpu_store_order();
	if (at->set)
		rt_pmu_read(at->set, at->pmu, &r->pmu);
	if (h->reads & IP_FPERF_READS_CLOCK)
		r->clock = read_clock();
	if (h->reads & IP_FPERF_READS_USAGE)
		read_usage(&r->usage);
}

static uint64_t value_of(uint32_t source, const struct reading *r)
{
	switch (source) {
	case IP_FPERF_TSC:
		return r->tsc;
	case IP_FPERF_TASK_CLOCK:
		return r->clock;
	case IP_FPERF_FAULTS:
		return r->usage.minor + r->usage.major;
	case IP_FPERF_FAULTS_MINOR:
		return r->usage.minor;
	case IP_FPERF_FAULTS_MAJOR:
		return r->usage.major;
	case IP_FPERF_SWITCHES:
		return r->usage.voluntary + r->usage.forced;
	case IP_FPERF_SWITCHES_VOLUNTARY:
		return r->usage.voluntary;
	case IP_FPERF_SWITCHES_FORCED:
		return r->usage.forced;
	default:
		return 0;
	}
}

static uint32_t events_of(const struct ip_fperf_header *h)
{
	uint32_t n = *(const volatile uint32_t *)&h->nevents;

	return n < IP_FPERF_EVENTS ? n : IP_FPERF_EVENTS;
}

/* The thread has spent them in our code. */
static void spend(const struct at *at, uint64_t ticks)
{
	uint32_t most = at->header->most_ticks;

	at->thread->ticks += (ticks < most ? ticks : most) + at->header->hook_ticks;
}

/* All that hooks have taken in this thread so far. */
static uint64_t spent(const struct at *at)
{
	return at->thread->ticks + at->thread->hooks * at->header->hook_ticks;
}

/* What an event has counted since the open sample frame began, in *ret. 1: yes; 2: it is scaled; 0: it has no value. */
static int since(const struct ip_fperf_header *h, uint32_t e, const uint64_t *values,
		 const struct reading *now, const struct rt_pmu_values *pmu, uint64_t *ret)
{
	uint32_t source = h->source[e], i = source - IP_FPERF_PMU;

	if (source < IP_FPERF_PMU) {
		*ret = value_of(source, now) - values[e];
		return 1;
	}
	if (i >= IP_FPERF_EVENTS || pmu->missing >> i & 1)
		return 0;
	*ret = pmu->value[i];
	return 1 + (pmu->scaled >> i & 1);
}

static void note(const struct at *at, uint32_t frame, uint64_t *values, const struct reading *now)
{
	for (uint32_t e = 0; e < events_of(at->header); e++)
		values[e] = value_of(at->header->source[e], now);
	if (at->set)
		rt_pmu_note(at->set, at->pmu, frame, &now->pmu);
}

static void pmu_since(const struct at *at, uint32_t frame, const struct reading *now,
		      struct rt_pmu_values *ret)
{
	ret->missing = ~0u;
	if (at->set)
		rt_pmu_since(at->set, at->pmu, frame, &now->pmu, ret);
}

/* The least that two readings in a row differ by: what is more was somebody else's. frame: one that is not open yet. */
static void learn_bias(const struct at *at, uint32_t frame)
{
	const struct ip_fperf_header *h = at->header;
	struct ip_fperf_thread *t = at->thread;
	struct rt_pmu_values pmu;
	struct reading now;
	uint64_t *values = t->frames[frame].values;

	for (uint32_t e = 0; e < IP_FPERF_EVENTS; e++)
		t->bias[e] = ~0ull;
	for (int i = 0; i < TRIALS; i++) {
		read_at_entry(at, &now);
		note(at, frame, values, &now);
		read_at_exit(at, &now);
		pmu_since(at, frame, &now, &pmu);
		for (uint32_t e = 0; e < events_of(h); e++) {
			uint64_t more;

			if (since(h, e, values, &now, &pmu, &more) == 1)
				t->bias[e] = more < t->bias[e] ? more : t->bias[e];
		}
	}
	for (uint32_t e = 0; e < IP_FPERF_EVENTS; e++)
		t->bias[e] = t->bias[e] == ~0ull ? 0 : t->bias[e];
	t->random = cpu_clock() | 1;
	t->ready = 1;
}

static uint32_t random_below(struct ip_fperf_thread *t, uint32_t n)
{
	t->random ^= t->random << 13;
	t->random ^= t->random >> 7;
	t->random ^= t->random << 17;
	return ((t->random >> 32) * n) >> 32;
}

static struct ip_fperf_control *control_of(struct ip_meters *shared, const struct ip_fperf_frame *f)
{
	return (struct ip_fperf_control *)((char *)shared + f->place);
}

/* Its function has not been without probes since it began. */
static int is_current(struct ip_meters *shared, const struct ip_fperf_frame *f)
{
	return f->turn == *(volatile uint32_t *)&control_of(shared, f)->turn;
}

/* Step 1: whether a frame can be no open call's, seen from one that begins. */
static int is_dead(struct ip_meters *shared, const struct ip_fperf_frame *f, uint64_t place, uint64_t sp)
{
	return !is_current(shared, f) || (f->sp < sp && sp - f->sp < BELOW) ||
	       (f->sp == sp && f->place == place);
}

/* A call that is no sample, inside of an open one of the same function. */
static void note_within(const struct at *at, uint32_t place, uint64_t sp)
{
	for (uint32_t i = at->thread->top; i > 0; i--) {
		struct ip_fperf_frame *f = &at->thread->frames[i - 1];

		if (f->place != place)
			continue;
		f->within += f->sp > sp;
		return;
	}
}

/* Nothing open is above from. */
static void cut_from(const struct at *at, struct ip_meters *m, struct ip_meters *shared, uint32_t from)
{
	for (uint32_t i = from; i < at->thread->top; i++) {
		uint64_t place = at->thread->frames[i].place;

		if (at->thread->frames[i].flags & IP_FPERF_PAUSE)
			continue;
		((struct ip_fperf_cell *)((char *)m + place))->cut++;
		if (is_current(shared, &at->thread->frames[i]))
			__atomic_fetch_sub(&control_of(shared, &at->thread->frames[i])->open, 1,
					   __ATOMIC_RELAXED);
	}
	at->thread->top = from;
}

/* The process has come under seccomp since they began: no sample ends any more. */
static void forget_unreadable(const struct at *at, struct ip_meters *m, struct ip_meters *shared)
{
	if (at->thread->top && !may_read(at))
		cut_from(at, m, shared, 0);
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

/* Step 2. If so, it counts as open (5). */
static int is_sample(const struct at *at)
{
	uint32_t every = *(volatile uint32_t *)&at->control->every;
	int32_t left;

	if (__atomic_load_n(&at->control->quota, __ATOMIC_RELAXED) <= 0)
		return 0;
	if (at->cell->skip) {
		at->cell->skip--;
		return 0;
	}
	if (!may_read(at))
		return 0;
	if (at->set && !rt_pmu_ready(at->set, at->pmu, at->tid))
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
	at->cell->skip = every > 1 ? random_below(at->thread, 2 * every - 1) : 0;
	return 1;
}

static void enter(const struct at *at, struct ip_meters *m, struct ip_meters *shared, uint32_t word,
		  uint32_t number, uint64_t sp)
{
	struct ip_fperf_thread *t = at->thread;
	struct ip_fperf_frame *f;
	struct reading now;
	uint64_t begin;
	uint32_t top = t->top;

	cpu_increment_local(
		&at->cell->calls); /* a handler on top of us may count too, if its duty is COUNT */
	t->entries++;
	/* 1 */
	while (top && is_dead(shared, &t->frames[top - 1], IP_DUTY_OFFSET(word), sp))
		top--;
	cut_from(at, m, shared, top);
	if (!is_sample(at)) {
		t->hooks++;
		note_within(at, IP_DUTY_OFFSET(word), sp);
		only_count(at, word, number);
		return;
	}
	begin = cpu_clock();
	if (!t->ready)
		learn_bias(at, top);
	at->cell->begun++;
	f = &t->frames[top];
	f->sp = sp;
	f->place = IP_DUTY_OFFSET(word);
	f->within = f->flags = 0;
	f->turn = *(volatile uint32_t *)&at->control->turn;
	t->top = top + 1;
	/* 3 */
	read_at_entry(at, &now);
	spend(at, now.tsc - begin);
	f->ticks = spent(at);
	note(at, top, f->values, &now);
}

/* Step 4: index + 1, or 0. */
static uint32_t find(const struct at *at, uint32_t place, uint32_t kind, uint64_t sp)
{
	struct ip_fperf_thread *t = at->thread;
	uint32_t best = 0, turn = *(volatile uint32_t *)&at->control->turn;
	uint64_t nearest = NEAR;

	for (uint32_t i = t->top; i > 0; i--) {
		struct ip_fperf_frame *f = &t->frames[i - 1];
		uint64_t away = kind == IP_PROBE_EXIT ? f->sp - sp : sp - f->sp;

		if (f->place != place || f->turn != turn)
			continue;
		if (kind == IP_PROBE_EXIT && !away)
			return i;
		/* the stack pointer of a call inside of it is smaller */
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

/* The value and its square, which takes up to 128 bits: (a + b)^2 with the upper half of its bits in a. */
static void add(struct ip_fperf_sum *s, uint64_t value)
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

static uint64_t to_ns(const struct ip_fperf_header *h, uint64_t ticks)
{
	return (ticks >> 32) * h->ns_per_tick + ((ticks & 0xffffffff) * h->ns_per_tick >> 32);
}

static void leave(const struct at *at, struct ip_meters *m, struct ip_meters *shared, uint32_t word,
		  uint32_t number, uint32_t kind, uint64_t sp)
{
	struct ip_fperf_thread *t = at->thread;
	const struct ip_fperf_frame *f;
	struct rt_pmu_values pmu;
	struct reading now;
	uint64_t hooks_ticks;
	uint32_t found;

	forget_unreadable(at, m, shared);
	found = t->top ? find(at, IP_DUTY_OFFSET(word), kind, sp) : 0;
	if (!found) {
		t->hooks++;
		only_count(at, word, number);
		return;
	}
	read_at_exit(at, &now);
	if (!may_read(at)) {
		forget_unreadable(at, m, shared);
		spend(at, cpu_clock() - now.tsc);
		return;
	}
	pmu_since(at, found - 1, &now, &pmu);
	cut_from(at, m, shared, found);
	f = &t->frames[found - 1];
	t->top = found - 1;
	hooks_ticks = spent(at) - f->ticks;
	at->cell->sequence++;
	cpu_store_order();
	for (uint32_t e = 0; e < events_of(at->header); e++) {
		uint32_t source = at->header->source[e];
		uint64_t value, less = t->bias[e];
		int whole = since(at->header, e, f->values, &now, &pmu, &value);

		at->cell->sums[e].missing += !whole;
		at->cell->sums[e].scaled += whole == 2;
		if (!whole)
			continue;
		if (source == IP_FPERF_TSC)
			less += hooks_ticks;
		else if (source == IP_FPERF_TASK_CLOCK)
			less += to_ns(at->header, hooks_ticks);
		add(&at->cell->sums[e], value > less && value >> 63 == 0 ? value - less : 0);
	}
	at->cell->ended++;
	cpu_store_order();
	at->cell->sequence++;
	__atomic_fetch_sub(&at->control->open, 1, __ATOMIC_RELAXED);
	only_count(at, word, number);
	spend(at, cpu_clock() - now.tsc);
}

/* Whether a frame is on top, and a sample. */
static int is_counting(const struct ip_fperf_thread *t)
{
	return t->top && !(t->frames[t->top - 1].flags & IP_FPERF_PAUSE);
}

/* What the topmost sample has counted is added up: up to now, which was read first of all in this hook. */
static void pause(const struct at *at, const struct reading *now)
{
	struct ip_fperf_thread *t = at->thread;
	struct ip_fperf_frame *f = &t->frames[t->top - 1];
	/* and half of the hook that it began in, and of this one */
	uint64_t hooks = spent(at) - t->since_ticks + at->header->hook_ticks;
	struct rt_pmu_values pmu;

	pmu_since(at, t->top - 1, now, &pmu);
	for (uint32_t e = 0; e < events_of(at->header); e++) {
		uint32_t source = at->header->source[e];
		uint64_t value = 0, less = t->bias[e];
		int whole;

		if (source == IP_FPERF_TSC)
			less += hooks;
		else if (source == IP_FPERF_TASK_CLOCK)
			less += to_ns(at->header, hooks);
		whole = since(at->header, e, t->since, now, &pmu, &value);
		f->missing |= !whole << e;
		f->scaled |= (whole == 2) << e;
		/* may be less than nothing of a short stretch: it is the sum that counts */
		f->values[e] += value - less;
	}
}

/* The topmost sample counts from now on: the last thing in a hook, which began at begin. */
static void go_on(const struct at *at, uint64_t begin)
{
	struct ip_fperf_thread *t = at->thread;
	struct reading now;

	read_at_entry(at, &now);
	spend(at, now.tsc - begin);
	t->since_ticks = spent(at);
	note(at, t->top - 1, t->since, &now);
}

/* Rule 8, seen at an entry with sp, or 0. */
static int is_spoiled(const struct at *at, struct ip_meters *shared, uint32_t place, uint64_t sp)
{
	const struct ip_fperf_thread *t = at->thread;

	return t->top && (!may_read(at) || t->whole != *(volatile uint32_t *)&at->header->whole ||
			  (sp && is_dead(shared, &t->frames[t->top - 1], place, sp)));
}

/* Rule 6. */
static void enter_exclusive(const struct at *at, struct ip_meters *m, struct ip_meters *shared, uint32_t word,
			    uint64_t sp)
{
	struct ip_fperf_thread *t = at->thread;
	struct ip_fperf_frame *f;
	struct reading now;
	uint64_t begin = cpu_clock();
	int counted, takes;

	forget_unreadable(at, m, shared);
	counted = is_counting(t);
	if (counted)
		read_at_exit(at, &now);
	cpu_increment_local(&at->cell->calls);
	t->entries++;
	if (is_spoiled(at, shared, IP_DUTY_OFFSET(word), sp)) {
		cut_from(at, m, shared, 0);
		counted = 0;
	}
	takes = at->header->whole && is_sample(at);
	if (counted && !takes && t->top >= IP_FPERF_DEPTH) {
		cut_from(at, m, shared, 0);
		counted = 0;
	}
	if (!counted && !takes) {
		t->hooks++;
		note_within(at, IP_DUTY_OFFSET(word), sp);
		return;
	}
	if (!t->ready)
		learn_bias(at, t->top);
	if (counted)
		pause(at, &now);
	if (!t->top)
		t->whole = *(volatile uint32_t *)&at->header->whole;
	f = &t->frames[t->top];
	*f = (struct ip_fperf_frame){.sp = sp,
				     .place = IP_DUTY_OFFSET(word),
				     .turn = *(volatile uint32_t *)&at->control->turn,
				     .flags = takes ? 0 : IP_FPERF_PAUSE};
	t->top++;
	if (takes) {
		at->cell->begun++;
		go_on(at, begin);
	} else {
		spend(at, cpu_clock() - begin);
	}
}

/* Rule 7. */
static void leave_exclusive(const struct at *at, struct ip_meters *m, struct ip_meters *shared, uint32_t word,
			    uint32_t kind, uint64_t sp)
{
	struct ip_fperf_thread *t = at->thread;
	struct reading now;
	uint64_t begin = cpu_clock();
	uint32_t found;
	int counted;

	forget_unreadable(at, m, shared);
	counted = is_counting(t);
	if (counted)
		read_at_exit(at, &now);
	if (is_spoiled(at, shared, 0, 0))
		cut_from(at, m, shared, 0);
	found = t->top ? find(at, IP_DUTY_OFFSET(word), kind, sp) : 0;
	if (found && found < t->top) {
		cut_from(at, m, shared, 0);
		found = 0;
	}
	if (!found) {
		if (counted)
			spend(at, cpu_clock() - begin);
		else
			t->hooks++;
		return;
	}
	if (counted) {
		const struct ip_fperf_frame *f = &t->frames[found - 1];

		pause(at, &now);
		at->cell->sequence++;
		cpu_store_order();
		for (uint32_t e = 0; e < events_of(at->header); e++) {
			at->cell->sums[e].missing += f->missing >> e & 1;
			at->cell->sums[e].scaled += f->scaled >> e & 1;
			if (!(f->missing >> e & 1))
				add(&at->cell->sums[e], f->values[e] >> 63 ? 0 : f->values[e]);
		}
		at->cell->ended++;
		cpu_store_order();
		at->cell->sequence++;
		__atomic_fetch_sub(&at->control->open, 1, __ATOMIC_RELAXED);
	}
	t->top = found - 1;
	if (is_counting(t))
		go_on(at, begin);
	else
		spend(at, cpu_clock() - begin);
}

void rt_fperf(struct ip_meters *m, struct ip_meters *shared, uint32_t place, uint32_t word, uint32_t number,
	      uint32_t kind, uint64_t sp)
{
	uint32_t offset = IP_DUTY_OFFSET(word);
	struct at at = {.header = (struct ip_fperf_header *)((char *)shared + place),
			.thread = (struct ip_fperf_thread *)((char *)m + place),
			.control = (struct ip_fperf_control *)((char *)shared + offset),
			.cell = (struct ip_fperf_cell *)((char *)m + offset)};
	if (!place || at.header->abi != IP_FPERF_ABI)
		return;
	if (at.header->pmu && at.header->reads & IP_FPERF_READS_PMU) {
		at.set = (const struct ip_pmu_set *)((char *)shared + at.header->pmu);
		at.pmu = (struct ip_pmu_thread *)((char *)m + at.header->pmu);
		at.tid = rt_slots[m->slot % IP_AREA_SLOTS].tid;
	}
	if (m->busy && sp + SIGNAL_FRAME_MIN <= m->busy) {
		cpu_increment_local(&m->reentered);
		return;
	}
	m->busy = sp;
	cpu_store_order();
	if (at.header->exclusive && kind == IP_PROBE_ENTRY)
		enter_exclusive(&at, m, shared, word, sp);
	else if (at.header->exclusive && kind != IP_PROBE_POINT)
		leave_exclusive(&at, m, shared, word, kind, sp);
	else if (kind == IP_PROBE_ENTRY)
		enter(&at, m, shared, word, number, sp);
	else if (kind != IP_PROBE_POINT)
		leave(&at, m, shared, word, number, kind, sp);
	else
		cpu_increment_local(&at.cell->calls);
	cpu_store_order();
	m->busy = 0;
}
