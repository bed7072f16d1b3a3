/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which function jumps to which, and what this means while probes change. See tails.h.
 */
#include "fperf/tails.h"

#include <stdlib.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "hotpatcher/plan/plan.h"
#include "hotpatcher/shm/area.h"

bool ip_fperf_has_needs(const struct ip_fperf *f, const struct ip_fperf_function *fn)
{
	for (size_t i = 0; i < fn->nneeds; i++)
		if (f->functions[fn->needs[i]].out)
			return false;
	return true;
}

/* Sets whether its jumps are followed now. */
static void set_jumps(struct ip_fperf *f, const struct ip_fperf_function *fn)
{
	if (fn->jumps)
		ip_area_set_duty(
			f->area, fn->jumps,
			!fn->held && ip_fperf_has_needs(f, fn) ? IP_DUTY_JUMP : IP_DUTY_SILENT, 0);
}

void ip_fperf_place_jumps(struct ip_fperf *f, struct ip_fperf_function *fn, uint32_t number)
{
	fn->jumps = number;
	set_jumps(f, fn);
}

static int append(uint32_t **items, size_t *n, uint32_t value)
{
	if (ip_array_grow(items, *n, sizeof(**items)) < 0)
		return -1;
	(*items)[(*n)++] = value;
	return 0;
}

/* Returns 1 if it is new, 0 if it was there, -1 with an error. */
static int add_target(struct ip_fperf_function *fn, uint32_t target)
{
	for (size_t i = 0; i < fn->ntargets; i++)
		if (fn->targets[i] == target)
			return 0;
	return append(&fn->targets, &fn->ntargets, target) < 0 ? -1 : 1;
}

/* Finds all functions that can be reached by jumps. seen: one entry per function, all false before
 * and after. */
static int find_needs(struct ip_fperf *f, struct ip_fperf_function *fn, bool *seen)
{
	int ret = 0;

	fn->nneeds = 0;
	for (size_t i = 0; i <= fn->nneeds && ret == 0; i++) {
		const struct ip_fperf_function *from = i ? &f->functions[fn->needs[i - 1]] : fn;

		for (size_t k = 0; k < from->ntargets && ret == 0; k++) {
			if (seen[from->targets[k]])
				continue;
			ret = append(&fn->needs, &fn->nneeds, from->targets[k]);
			if (ret == 0)
				seen[from->targets[k]] = true;
		}
	}
	for (size_t i = 0; i < fn->nneeds; i++)
		seen[fn->needs[i]] = false;
	return ret;
}

static int find_all_needs(struct ip_fperf *f, bool *seen)
{
	for (size_t i = 0; i < f->nfunctions; i++) {
		f->functions[i].nneeded_by = 0;
		if (find_needs(f, &f->functions[i], seen) < 0)
			return -1;
	}
	for (size_t i = 0; i < f->nfunctions; i++) {
		const struct ip_fperf_function *fn = &f->functions[i];

		for (size_t k = 0; k < fn->nneeds; k++) {
			struct ip_fperf_function *needed = &f->functions[fn->needs[k]];

			if (append(&needed->needed_by, &needed->nneeded_by, i) < 0)
				return -1;
		}
		set_jumps(f, fn);
	}
	return 0;
}

int ip_fperf_follow(struct ip_fperf *f, const struct ip_plan *plan)
{
	_cleanup_free_ bool *seen = calloc(f->nfunctions + 1, sizeof(*seen));
	bool more = false;

	if (!seen)
		return ip_error("out of memory");
	for (size_t i = 0; i < plan->njumps; i++) {
		const struct ip_plan_jump *jump = &plan->jumps[i];
		struct ip_fperf_function *from = ip_fperf_find(f, jump->module, jump->function),
					 *to = ip_fperf_find(f, jump->to, jump->to_function);
		int added = from && to ? add_target(from, to - f->functions) : 0;

		if (added < 0)
			return -1;
		more |= added > 0;
	}
	return more ? find_all_needs(f, seen) : 0;
}

void ip_fperf_forget_open(struct ip_fperf *f, struct ip_fperf_function *fn)
{
	for (int i = 0; i < 2; i++) {
		struct ip_fperf_quota *control = ip_fperf_quota_of(f, fn, i);

		if (!control)
			continue;
		__atomic_fetch_add(&control->turn, 1, __ATOMIC_SEQ_CST);
		__atomic_store_n(&control->open, 0, __ATOMIC_RELAXED);
	}
}

static void hold(struct ip_fperf *f, struct ip_fperf_function *fn)
{
	if (fn->held)
		return;
	fn->held = true;
	set_jumps(f, fn);
	ip_fperf_forget_open(f, fn);
}

void ip_fperf_hold_needing(struct ip_fperf *f, const struct ip_fperf_function *function)
{
	for (size_t i = 0; i < function->nneeded_by; i++)
		hold(f, &f->functions[function->needed_by[i]]);
}

void ip_fperf_hold(struct ip_fperf *f, const struct ip_fperf_item *items)
{
	for (size_t i = 0; i < f->nfunctions; i++)
		if (items[i].live != items[i].stay)
			ip_fperf_hold_needing(f, &f->functions[i]);
}

void ip_fperf_release_held(struct ip_fperf *f)
{
	for (size_t i = 0; i < f->nfunctions; i++) {
		struct ip_fperf_function *fn = &f->functions[i];

		if (!fn->held)
			continue;
		fn->held = false;
		ip_fperf_forget_open(f, fn);
		set_jumps(f, fn);
	}
}
