/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads what threads have counted: the cells of functions in the threads' blocks.
 */
#include <string.h>

#include "fperf/fperf_private.h"

#define TORN_TRIES 8 /* tries to read a cell that its thread is changing */

static bool is_owned(const struct ip_fperf *f, uint32_t block)
{
	return __atomic_load_n(&ip_area_meters(f->area, block)->state, __ATOMIC_ACQUIRE) ==
	       IP_METERS_OWNED;
}

/* There are thousands of blocks. Most have no thread, and each lies on pages of its own. */
void ip_fperf_list_owned(struct ip_fperf *f)
{
	uint32_t hint = __atomic_load_n(&f->area->header->meters_hint, __ATOMIC_ACQUIRE);

	f->nowned = 0;
	for (uint32_t b = 1; b < f->area->blocks.n; b++)
		if (is_owned(f, b))
			f->owned[f->nowned++] = b;
	f->hint = hint;
}

static void renew_owned(struct ip_fperf *f)
{
	if (f->hint != __atomic_load_n(&f->area->header->meters_hint, __ATOMIC_RELAXED))
		ip_fperf_list_owned(f);
}

static uint64_t load(const uint64_t *p)
{
	return __atomic_load_n(p, __ATOMIC_RELAXED);
}

static uint32_t load32(const uint32_t *p)
{
	return __atomic_load_n(p, __ATOMIC_RELAXED);
}

/* Adds a cell, which its thread may be changing. If the copy is still torn after all tries (the
 * thread was killed there), it is off by one sample. */
static void add_cell(const struct ip_fperf *f, struct ip_fperf_sums *to,
		     const struct ip_fperf_cell *cell)
{
	struct ip_fperf_sum sums[IP_FPERF_EVENTS];
	uint64_t ended = 0, tailed = 0;

	for (int i = 0; i < TORN_TRIES; i++) {
		uint32_t before = __atomic_load_n(&cell->sequence, __ATOMIC_ACQUIRE);

		ended = load(&cell->ended);
		tailed = load(&cell->tailed);
		for (unsigned e = 0; e < f->options.nevents; e++)
			sums[e] = (struct ip_fperf_sum){
				load(&cell->sums[e].sum), load(&cell->sums[e].square_low),
				load(&cell->sums[e].square_high), load32(&cell->sums[e].missing),
				load32(&cell->sums[e].scaled)};
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (!(before & 1) && __atomic_load_n(&cell->sequence, __ATOMIC_RELAXED) == before)
			break;
	}
	to->calls += load(&cell->calls);
	to->begun += load(&cell->begun);
	to->cut += load(&cell->cut);
	to->ended += ended;
	to->tailed += tailed;
	for (unsigned e = 0; e < f->options.nevents; e++) {
		to->sum[e] += sums[e].sum;
		to->square[e] += sums[e].square_low + sums[e].square_high * 18446744073709551616.0;
		to->missing[e] += sums[e].missing;
		to->scaled[e] += sums[e].scaled;
	}
}

static void add_block(struct ip_fperf *f, uint32_t block, struct ip_fperf_function *fn,
		      struct ip_fperf_sums *to)
{
	/* Most functions are called in few threads. */
	for (int i = 0; i < 2; i++) {
		const struct ip_fperf_cell *cell =
			fn->offsets[i] ? ip_fperf_at(f, block, fn->offsets[i]) : NULL;

		if (cell && (load(&cell->calls) || load(&cell->begun)))
			add_cell(f, to, cell);
	}
}

static void look_at_control(const struct ip_fperf *f, struct ip_fperf_function *fn)
{
	fn->used_up = false;
	for (int i = 0; i < 2; i++) {
		const struct ip_fperf_quota *control =
			fn->offsets[i] ? ip_fperf_at(f, 0, fn->offsets[i]) : NULL;

		if (!control)
			continue;
		fn->now.calls += load(&control->calls);
		if (__atomic_load_n(&control->quota, __ATOMIC_RELAXED) > 0)
			continue;
		fn->used_up = true;
		fn->sampled_s = (load(&control->used_up) - fn->granted) * f->ns_per_tick / 1e9;
	}
}

uint64_t ip_fperf_calls(struct ip_fperf *f)
{
	uint64_t calls = f->ended_calls;

	renew_owned(f);
	for (size_t i = 0; i < f->nplaces; i++)
		calls += load(&((struct ip_fperf_quota *)ip_fperf_at(f, 0, f->places[i]))->calls);
	for (uint32_t k = 0; k < f->nowned; k++)
		for (size_t i = 0; is_owned(f, f->owned[k]) && i < f->nplaces; i++)
			calls += load(
				&((struct ip_fperf_cell *)ip_fperf_at(f, f->owned[k], f->places[i]))
					 ->calls);
	return calls;
}

void ip_fperf_look(struct ip_fperf *f)
{
	ip_fperf_list_owned(f);
	for (size_t i = 0; i < f->nfunctions; i++)
		f->functions[i].now = f->functions[i].ended;
	for (uint32_t k = 0; k < f->nowned; k++)
		for (size_t i = 0; is_owned(f, f->owned[k]) && i < f->nfunctions; i++)
			add_block(f, f->owned[k], &f->functions[i], &f->functions[i].now);
	for (size_t i = 0; i < f->nfunctions; i++)
		look_at_control(f, &f->functions[i]);
}

static void add_pmu(const struct ip_pmu_thread *t, struct ip_fperf_spent *to)
{
	int error = __atomic_load_n(&t->error, __ATOMIC_RELAXED);

	to->gone += load32(&t->gone);
	to->counting += load32(&t->generation) > 0;
	to->refused += error != 0;
	if (error) {
		to->refused_error = error;
		to->refused_counter = load32(&t->failed);
	}
}

static void add_spent(const struct ip_fperf *f, uint32_t block, struct ip_fperf_spent *to)
{
	const struct ip_fperf_thread *t = ip_fperf_at(f, block, f->place);
	const uint64_t path = load(&t->path);

	to->ticks += load(&t->ticks);
	to->hooks += load(&t->hooks);
	to->entries += load(&t->entries);
	to->crowded += load(&t->crowded);
	if (load32(&t->ready) && path > to->path)
		to->path = path * f->ns_per_tick < IP_FPERF_MOST_NS
				   ? path
				   : IP_FPERF_MOST_NS / f->ns_per_tick;
	to->reentered += load(&ip_area_meters(f->area, block)->reentered);
	if (f->pmu)
		add_pmu(ip_fperf_at(f, block, f->pmu), to);
}

struct ip_fperf_spent ip_fperf_spent(struct ip_fperf *f)
{
	struct ip_fperf_spent spent = f->ended;

	renew_owned(f);
	for (uint32_t k = 0; k < f->nowned; k++)
		if (is_owned(f, f->owned[k]))
			add_spent(f, f->owned[k], &spent);
	return spent;
}

/* A thread has ended. Its open samples will never end, and a function whose count of open samples
 * is not 0 stays on the slow path. The target may have written anything into the frames: only
 * values that are a function's place are used. */
static void forget_open(struct ip_fperf *f, uint32_t block)
{
	const struct ip_fperf_thread *t = ip_fperf_at(f, block, f->place);
	uint32_t top = __atomic_load_n(&t->top, __ATOMIC_RELAXED);

	for (uint32_t i = 0; i < top && i < IP_FPERF_DEPTH; i++) {
		const struct ip_fperf_frame frame = t->frames[i];

		if (frame.flags & IP_FPERF_PAUSE)
			continue;
		for (size_t k = 0; frame.place && k < 2 * f->nfunctions; k++) {
			struct ip_fperf_function *fn = &f->functions[k / 2];
			struct ip_fperf_quota *control;

			if (fn->offsets[k % 2] != frame.place)
				continue;
			control = ip_fperf_at(f, 0, frame.place);
			fn->ended.cut++;
			if (frame.turn == __atomic_load_n(&control->turn, __ATOMIC_RELAXED))
				__atomic_fetch_sub(&control->open, 1, __ATOMIC_RELAXED);
			break;
		}
	}
}

bool ip_fperf_release(struct ip_fperf *f, uint32_t block)
{
	uint32_t state;

	if (!f || !f->area)
		return false;
	forget_open(f, block);
	f->ended_calls = 0;
	for (size_t i = 0; i < f->nfunctions; i++) {
		add_block(f, block, &f->functions[i], &f->functions[i].ended);
		f->ended_calls += f->functions[i].ended.calls;
	}
	add_spent(f, block, &f->ended);
	if (!f->pmu)
		return false;
	memcpy(f->kept, ip_fperf_at(f, block, f->pmu), IP_PMU_KEPT);
	state = ((struct ip_pmu_thread *)f->kept)->state;
	return state != IP_PMU_NONE && state != IP_PMU_FAILED;
}

void ip_fperf_keep(struct ip_fperf *f, uint32_t block)
{
	((struct ip_pmu_thread *)f->kept)->state = IP_PMU_LEFT;
	memcpy(ip_fperf_at(f, block, f->pmu), f->kept, IP_PMU_KEPT);
}
