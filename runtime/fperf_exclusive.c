/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exclusive samples (abi/fperf.h, exclusive). A sample counts only while it is the topmost frame.
 * What comes in between is measured at both of its ends and left out.
 *
 *   6. Entry. The topmost sample stops counting. A call that is no sample gets a frame too
 *      (IP_FPERF_PAUSE), since its exit must be recognised. Within such a frame, only samples get
 *      frames.
 *   7. Exit. The topmost frame is removed. If the frame below it is a sample, that one counts
 *      again.
 *   8. If a frame has lost its exit, or a function has lost its probes (whole), nothing tells which
 *      function the counts belong to. Then all samples are cut.
 *   9. No function is only counted: a call within a sample must be seen.
 *
 * Rules 1 to 5 are in fperf.c.
 */
#include "runtime/fperf_private.h"

#include "common/abi/fperf.h"
#include "common/elf/probe_list.h"
#include "runtime/arch/cpu.h"
#include "runtime/fperf_pmu.h"
#include "runtime/rt.h"

/* Whether the topmost frame is a sample. */
static int is_counting(const struct ip_fperf_thread *t)
{
	uint32_t top = rt_fperf_top(t);

	return top && !(t->frames[top - 1].flags & IP_FPERF_PAUSE);
}

/* Adds up what the topmost sample has counted until now. `now` was read first of all in this
 * hook. */
static void pause(const struct at *at, const struct reading *now)
{
	struct ip_fperf_thread *t = at->thread;
	uint32_t top = rt_fperf_top(t) - 1;
	struct ip_fperf_frame *f = rt_fperf_frame(t, top);
	uint64_t hooks = rt_fperf_spent(at) - t->since_ticks;
	int64_t passed = now->entered - t->since.began - t->path - hooks;
	struct rt_pmu_values pmu;

	passed = passed < 0 ? 0 : (int64_t)rt_fperf_to_ns(at->header, passed);
	rt_fperf_pmu_since(at, top, now, &pmu);
	for (uint32_t e = 0; e < rt_fperf_events_of(at->header); e++) {
		uint32_t source = at->header->source[e];
		uint64_t value = 0, less = t->bias[e];
		int whole;

		if (source == IP_FPERF_TSC)
			less += hooks;
		else if (source == IP_FPERF_TASK_CLOCK)
			less += rt_fperf_to_ns(at->header, hooks);
		whole = rt_fperf_since(at->header, e, &t->since, now, &pmu, &value);
		f->missing |= !whole << e;
		f->scaled |= (whole == 2) << e;
		/* may be negative for a short stretch: only the sum matters */
		value -= less;
		if (source == IP_FPERF_TASK_CLOCK && (int64_t)value > passed)
			value = passed;
		f->start.values[e] += value;
	}
}

/* The topmost sample counts from now on. This is the last step of a hook that began at `begin`. */
static uint64_t *go_on(const struct at *at, uint64_t begin)
{
	struct ip_fperf_thread *t = at->thread;
	struct reading now;

	rt_fperf_read_at_entry(at, &now);
	rt_fperf_note(at, rt_fperf_top(t) - 1, &t->since, &now);
	rt_fperf_spend(at, cpu_clock() - begin);
	t->since_ticks = rt_fperf_spent(at);
	return &t->since.began;
}

/* Rule 8, at an entry with sp, or 0. */
static int is_spoiled(const struct at *at, struct ip_meters *shared, uint32_t place, uint64_t sp)
{
	struct ip_fperf_thread *t = at->thread;
	uint32_t top = rt_fperf_top(t);

	return top &&
	       (!rt_fperf_may_read(at) || t->whole != *(volatile uint32_t *)&at->header->whole ||
		(sp && rt_fperf_is_dead(shared, rt_fperf_frame(t, top - 1), place, sp)));
}

/* Rule 6. */
uint64_t *rt_fperf_enter_exclusive(const struct at *at, struct ip_meters *m,
				   struct ip_meters *shared, uint32_t word, uint64_t sp,
				   uint64_t begin)
{
	struct ip_fperf_thread *t = at->thread;
	struct ip_fperf_frame *f;
	struct reading now;
	int counted, takes;

	rt_fperf_forget_unreadable(at, m, shared);
	counted = is_counting(t);
	if (counted)
		rt_fperf_read_at_exit(at, begin, &now);
	cpu_increment_local(&at->cell->calls);
	t->entries++;
	if (is_spoiled(at, shared, IP_DUTY_OFFSET(word), sp)) {
		rt_fperf_cut_from(at, m, shared, 0);
		counted = 0;
	}
	takes = at->header->whole && rt_fperf_is_sample(at, &begin);
	if (counted && !takes && t->top >= IP_FPERF_DEPTH) {
		rt_fperf_cut_from(at, m, shared, 0);
		counted = 0;
	}
	if (!counted && !takes) {
		t->hooks++;
		rt_fperf_note_within(at, IP_DUTY_OFFSET(word), sp);
		return NULL;
	}
	if (!t->ready)
		begin += rt_fperf_learn_bias(at);
	if (counted)
		pause(at, &now);
	if (!t->top)
		t->whole = *(volatile uint32_t *)&at->header->whole;
	f = rt_fperf_frame(t, rt_fperf_top(t));
	*f = (struct ip_fperf_frame){.sp = sp,
				     .place = IP_DUTY_OFFSET(word),
				     .turn = *(volatile uint32_t *)&at->control->turn,
				     .flags = takes ? 0 : IP_FPERF_PAUSE};
	t->top++;
	if (takes) {
		at->cell->begun++;
		return go_on(at, begin);
	}
	rt_fperf_spend(at, cpu_clock() - begin);
	return NULL;
}

/* Rule 7. */
uint64_t *rt_fperf_leave_exclusive(const struct at *at, struct ip_meters *m,
				   struct ip_meters *shared, uint32_t word, uint32_t kind,
				   uint64_t sp, uint64_t begin)
{
	struct ip_fperf_thread *t = at->thread;
	struct reading now;
	uint32_t found;
	int counted;

	rt_fperf_forget_unreadable(at, m, shared);
	counted = is_counting(t);
	if (counted)
		rt_fperf_read_at_exit(at, begin, &now);
	if (is_spoiled(at, shared, 0, 0))
		rt_fperf_cut_from(at, m, shared, 0);
	found = t->top ? rt_fperf_find(at, IP_DUTY_OFFSET(word), kind, sp) : 0;
	if (found && found < t->top) {
		rt_fperf_cut_from(at, m, shared, 0);
		found = 0;
	}
	if (!found) {
		if (counted)
			rt_fperf_spend(at, cpu_clock() - begin);
		else
			t->hooks++;
		return NULL;
	}
	if (counted) {
		const struct ip_fperf_frame *f = rt_fperf_frame(t, found - 1);

		pause(at, &now);
		at->cell->sequence++;
		cpu_store_order();
		for (uint32_t e = 0; e < rt_fperf_events_of(at->header); e++) {
			at->cell->sums[e].missing += f->missing >> e & 1;
			at->cell->sums[e].scaled += f->scaled >> e & 1;
			if (!(f->missing >> e & 1))
				rt_fperf_add(&at->cell->sums[e],
					     f->start.values[e] >> 63 ? 0 : f->start.values[e]);
		}
		at->cell->ended++;
		at->cell->tailed += kind == IP_PROBE_TAIL_EXIT;
		cpu_store_order();
		at->cell->sequence++;
		__atomic_fetch_sub(&at->control->open, 1, __ATOMIC_RELAXED);
	}
	t->top = found - 1;
	if (is_counting(t))
		return go_on(at, begin);
	rt_fperf_spend(at, cpu_clock() - begin);
	return NULL;
}
