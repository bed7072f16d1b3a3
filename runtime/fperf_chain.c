/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samples of functions that jump to another function at their end. A call lasts until control
 * returns to its caller, whichever function executes the return. So the sample stays open, and ends
 * when the function that was jumped to returns. Functions in which calls may continue are live as
 * long as such samples are (the controller ensures that: fperf/tails.h), also those that are only
 * counted.
 *
 *  10. Jump. The frame stays. It notes the address that the call returns to, and that an entry with
 *      the same stack pointer comes next. The function that jumps may have no frame itself, while
 *      the call is the rest of one that has jumped before. Then the next entry belongs to that
 *      earlier call.
 *  11. Entry. It is the rest of a call that has jumped if three things hold: it has the stack
 *      pointer of a frame that has jumped, on top of the stack of frames; it returns to the same
 *      address; and the frame awaits it. Any other call with that stack pointer means that the
 *      first call has ended without a return (longjmp, an exception): its frame is cut. Only one
 *      function of a loop of jumps has a frame at a time.
 *  12. Exit, with that stack pointer and that address. All frames that have jumped there end, with
 *      the same reading. If the exit is a jump that is not followed, they end there too, and count
 *      as tailed.
 *  13. While a thread has such a frame, ip_meters.jumped says so. Then hooks of functions that are
 *      only counted come here as well (arch/ARCH/hooks.S). They take no samples.
 *
 * Exclusive samples end at the jump: they count what the function itself does up to there.
 *
 * Rules 1 to 5 are in fperf.c.
 */
#include "runtime/fperf.h"

#include "common/abi/fperf.h"
#include "common/elf/probe_list.h"
#include "runtime/arch/cpu.h"
#include "runtime/fperf_private.h"
#include "runtime/rt.h"

/* The word at the stack pointer with which a function begins and returns: the lower half of the
 * address that it returns to. */
static uint32_t returns_to(uint64_t sp)
{
	return *(const volatile uint32_t *)(uintptr_t)sp;
}

static int has_jumped_at(const struct ip_fperf_frame *f, uint64_t sp)
{
	return f->flags & IP_FPERF_JUMPED && f->sp == sp;
}

/* Rule 11. Frames of calls that have ended without an exit are cut. */
int rt_fperf_enter_chain(const struct at *at, struct ip_meters *m, struct ip_meters *shared,
			 uint32_t place, uint64_t sp)
{
	uint32_t top = rt_fperf_top(at->thread);
	int joins = 0;

	for (; top; top--) {
		struct ip_fperf_frame *f = rt_fperf_frame(at->thread, top - 1);

		if (has_jumped_at(f, sp) && f->flags & IP_FPERF_AWAITS &&
		    f->returns == returns_to(sp) && rt_fperf_is_current(shared, f)) {
			f->flags &= ~IP_FPERF_AWAITS;
			joins = 1;
			break;
		}
		if (!rt_fperf_is_dead(shared, f, place, sp))
			break;
	}
	rt_fperf_cut_from(at, m, shared, top);
	return joins;
}

int rt_fperf_is_loop(const struct at *at, uint32_t place, uint64_t sp)
{
	for (uint32_t i = rt_fperf_top(at->thread); i > 0; i--) {
		const struct ip_fperf_frame *f = rt_fperf_frame(at->thread, i - 1);

		if (!has_jumped_at(f, sp))
			return 0;
		if (f->place == place)
			return 1;
	}
	return 0;
}

uint32_t rt_fperf_find_chain(const struct at *at, uint64_t sp)
{
	for (uint32_t i = rt_fperf_top(at->thread); i > 0; i--) {
		const struct ip_fperf_frame *f = rt_fperf_frame(at->thread, i - 1);

		if (has_jumped_at(f, sp) && f->returns == returns_to(sp))
			return i;
	}
	return 0;
}

/* Rule 12, for the frames on top. */
void rt_fperf_end_chain(const struct at *at, struct ip_meters *m, struct ip_meters *shared,
			uint64_t sp, const struct reading *now, int tailed)
{
	for (uint32_t top = rt_fperf_top(at->thread); top; top--) {
		const struct ip_fperf_frame *f = rt_fperf_frame(at->thread, top - 1);

		if (!has_jumped_at(f, sp) || f->returns != returns_to(sp))
			return;
		if (f->flags & IP_FPERF_AWAITS || !rt_fperf_is_current(shared, f)) {
			rt_fperf_cut_from(at, m, shared, top - 1);
			continue;
		}
		rt_fperf_end(at, m, shared, top - 1, now, tailed);
		cpu_add_local(&m->jumped, -1ull);
		at->thread->top = top - 1;
	}
}

/* Rule 10. sp: the stack pointer with which the function began. */
static void jump(const struct at *at, struct ip_meters *m, struct ip_meters *shared, uint32_t place,
		 uint64_t sp)
{
	struct ip_fperf_frame *f = NULL;
	uint32_t found = 0;

	for (uint32_t i = rt_fperf_top(at->thread); i > 0 && !found; i--) {
		f = rt_fperf_frame(at->thread, i - 1);
		if (f->sp == sp && f->place == place && !(f->flags & IP_FPERF_JUMPED) &&
		    rt_fperf_is_current(shared, f))
			found = i;
	}
	if (found) {
		rt_fperf_cut_from(at, m, shared, found);
		f->flags |= IP_FPERF_JUMPED | IP_FPERF_AWAITS;
		f->returns = returns_to(sp);
		cpu_add_local(&m->jumped, 1);
	} else if (m->jumped && (found = rt_fperf_find_chain(at, sp))) {
		rt_fperf_cut_from(at, m, shared, found);
		rt_fperf_frame(at->thread, found - 1)->flags |= IP_FPERF_AWAITS;
	} else {
		rt_fperf_end_within(at, place, sp);
	}
	at->thread->hooks++;
}

/* Rule 12, at an exit of a function that is only counted. */
static void leave(const struct at *at, struct ip_meters *m, struct ip_meters *shared, uint64_t sp,
		  int tailed, uint64_t entered)
{
	uint32_t found;
	struct reading now;

	rt_fperf_forget_unreadable(at, m, shared);
	found = rt_fperf_find_chain(at, sp);
	if (!found) {
		at->thread->hooks++;
		return;
	}
	rt_fperf_read_at_exit(at, entered, &now);
	rt_fperf_forget_unreadable(at, m, shared);
	if (rt_fperf_top(at->thread)) {
		rt_fperf_cut_from(at, m, shared, found);
		rt_fperf_end_chain(at, m, shared, sp, &now, tailed);
	}
	rt_fperf_spend(at, cpu_clock() - entered);
}

void rt_fperf_pass(struct ip_meters *m, struct ip_meters *shared, uint32_t place, uint32_t word,
		   enum rt_fperf_pass what, uint64_t sp)
{
	uint64_t entered = cpu_clock(), own = sp - sizeof(long);
	struct at at;

	if (!rt_fperf_find_at(m, shared, place, word, &at) || at.header->exclusive ||
	    rt_fperf_is_busy(m, sp))
		return;
	m->busy = sp;
	cpu_store_order();
	switch (what) {
	case RT_FPERF_ENTRY:
		rt_fperf_enter_chain(&at, m, shared, IP_DUTY_OFFSET(word), sp);
		at.thread->hooks++;
		break;
	case RT_FPERF_EXIT:
		leave(&at, m, shared, sp, 0, entered);
		break;
	case RT_FPERF_TAIL_EXIT:
		leave(&at, m, shared, own, 1, entered);
		break;
	case RT_FPERF_JUMP:
		jump(&at, m, shared, IP_DUTY_OFFSET(word), own);
		break;
	}
	cpu_store_order();
	m->busy = 0;
}
