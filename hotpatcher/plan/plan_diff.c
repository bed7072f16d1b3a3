/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares a plan with the text as it is now.
 */
#include "hotpatcher/plan/plan_diff.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/error.h"
#include "common/trace/trace_format.h"
#include "hotpatcher/patch/restore.h"

struct comparison {
	const struct ip_target *target;
	const struct ip_module *module;
	uint32_t module_index;
	uint32_t first_number; /* number of the module's first function */
	struct ip_plan_diff *d;
	size_t at, end; /* the wanted changes of the module that have not been met yet: [at, end) */
	size_t kept;	/* changes of d->live that remain in it so far */
	/* by group of the wanted changes: another program has changed a site of the function */
	bool *spoiled;
	uint32_t *idle_of;     /* by function and instance: index + 1 into d->idle.functions */
	const uint8_t *silent; /* as in ip_plan_diff_make() */
	bool *shown;	       /* by function of d->live: it is in d->shown */
};

/* Finds or adds the function of a site that is to go idle. */
static int idle_function(struct comparison *c, const struct ip_pl_probe *probe, uint32_t *ret)
{
	struct ip_plan *idle = &c->d->idle;
	bool inlined = probe->flags & IP_PROBE_INLINED;
	uint32_t *known = &c->idle_of[2 * probe->function + inlined],
		 *other = &c->idle_of[2 * probe->function + !inlined];

	if (!*known) {
		if (ip_array_grow(&idle->functions, idle->nfunctions, sizeof(*idle->functions)) < 0)
			return -1;
		idle->functions[idle->nfunctions] = (struct ip_plan_function){
			.module = c->module,
			.module_index = c->module_index,
			.function = probe->function,
			.inlined = inlined,
			.number = c->first_number + IP_NUMBERS_PER_FUNCTION * probe->function +
				  inlined,
			.frame = UINT32_MAX};
		*known = ++idle->nfunctions;
		idle->ndistinct += !*other;
	}
	*ret = *known - 1;
	return 0;
}

static int add_idle(struct comparison *c, const struct ip_pl_probe *probe, uint64_t address,
		    const uint8_t *bytes)
{
	struct ip_plan *idle = &c->d->idle;
	size_t n = idle->nchanges;
	struct ip_change *change;

	if (ip_array_grow(&idle->changes, n, sizeof(*idle->changes)) < 0 ||
	    ip_array_grow(&idle->function_of, n, sizeof(*idle->function_of)) < 0 ||
	    ip_array_grow(&idle->probe_of, n, sizeof(*idle->probe_of)) < 0 ||
	    idle_function(c, probe, &idle->function_of[n]) < 0)
		return -1;
	change = &idle->changes[n];
	*change = (struct ip_change){.address = address,
				     .length = probe->length,
				     .kind = probe->kind,
				     .form = probe->form,
				     .jump = ip_probe_jump(probe),
				     .regs = probe->regs,
				     .transit_regs = ip_probe_transit_regs(probe),
				     .resident = true,
				     .may_go = c->module->may_go};
	memcpy(change->old_bytes, bytes, probe->length);
	idle->probe_of[n] = probe - c->module->list->probes;
	idle->nchanges++;
	return c->target->arch->idle(probe->form, probe->length, change->jump, change->new_bytes);
}

/* A wanted site is live already. Its function may have been silent. */
static int add_shown(struct comparison *c, uint32_t function)
{
	struct ip_plan *shown = &c->d->shown;
	struct ip_plan_function f = c->d->live.functions[function];

	f.number = c->first_number + IP_NUMBERS_PER_FUNCTION * f.function + f.inlined;
	if (f.silent || f.number > IP_NUMBER_MAX || !(c->silent[f.number / 8] & 1 << f.number % 8))
		return 0;
	c->d->shown_sites++;
	if (c->shown[function])
		return 0;
	if (ip_array_grow(&shown->functions, shown->nfunctions, sizeof(*shown->functions)) < 0)
		return -1;
	c->shown[function] = true;
	shown->functions[shown->nfunctions++] = f;
	return 0;
}

static int compare_site(void *context, const struct ip_pl_probe *probe, uint64_t address,
			const uint8_t *bytes)
{
	struct comparison *c = context;
	struct ip_plan *live = &c->d->live;
	enum ip_site_state state = ip_site_state(c->target, c->target->arch, probe, address, bytes);
	size_t at = c->at;
	bool wanted =
		at < c->end && live->probe_of[at] == (uint32_t)(probe - c->module->list->probes);

	c->at += wanted;
	if (ip_site_is_foreign(state)) {
		if (!c->d->foreign++)
			c->d->first_foreign = address;
		if (wanted)
			c->spoiled[live->changes[at].group] = true;
		return 0;
	}
	if (!wanted)
		return state == IP_SITE_IDLE ? 0 : add_idle(c, probe, address, bytes);
	if (state == IP_SITE_LIVE) {
		c->d->kept++;
		return c->silent ? add_shown(c, live->function_of[at]) : 0;
	}
	live->changes[c->kept] = live->changes[at];
	live->function_of[c->kept] = live->function_of[at];
	live->probe_of[c->kept] = live->probe_of[at];
	memcpy(live->changes[c->kept].old_bytes, bytes, probe->length);
	c->kept++;
	return 0;
}

/* Takes out the changes of functions that cannot go live as a whole: a function and its jumps are
 * one group. */
static void drop_spoiled(struct ip_plan *plan, const bool *spoiled)
{
	size_t n = 0;

	for (size_t i = 0; i < plan->nchanges; i++) {
		if (spoiled[plan->changes[i].group])
			continue;
		plan->changes[n] = plan->changes[i];
		plan->probe_of[n] = plan->probe_of[i];
		plan->function_of[n++] = plan->function_of[i];
	}
	plan->nchanges = n;
}

/* Takes out the functions that have no changes left. */
static int drop_functions(struct ip_plan *plan)
{
	/* index + 1; 0: no change of it is left */
	uint32_t *place = calloc(plan->nfunctions ? plan->nfunctions : 1, sizeof(*place));
	size_t kept = 0;

	if (!place)
		return ip_error("out of memory");
	for (size_t i = 0; i < plan->nchanges; i++)
		place[plan->function_of[i]] = 1;
	for (size_t i = 0; i < plan->nfunctions; i++) {
		if (!place[i])
			continue;
		plan->functions[kept] = plan->functions[i];
		place[i] = ++kept;
	}
	for (size_t i = 0; i < plan->nchanges; i++)
		plan->function_of[i] = place[plan->function_of[i]] - 1;
	plan->nfunctions = kept;
	free(place);
	return 0;
}

static int by_function(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Counts functions: an inlined instance and its function count once. */
static int count_distinct(struct ip_plan *plan)
{
	uint64_t *keys = calloc(plan->nfunctions ? plan->nfunctions : 1, sizeof(*keys));
	size_t n = 0;

	if (!keys)
		return ip_error("out of memory");
	for (size_t i = 0; i < plan->nfunctions; i++)
		if (!plan->functions[i].silent)
			keys[n++] = (uint64_t)plan->functions[i].module_index << 32 |
				    plan->functions[i].function;
	qsort(keys, n, sizeof(*keys), by_function);
	plan->ndistinct = 0;
	for (size_t i = 0; i < n; i++)
		plan->ndistinct += !i || keys[i] != keys[i - 1];
	free(keys);
	return 0;
}

static int compare_module(struct comparison *c, const struct ip_area *area)
{
	const struct ip_probe_list *list = c->module->list;
	int ret;

	c->first_number = ip_plan_first_number(area, c->module);
	c->idle_of = calloc(2ull * list->header->nfunctions + 1, sizeof(*c->idle_of));
	if (!c->idle_of)
		return ip_error("out of memory");
	ret = ip_each_site(c->target, c->module, compare_site, c);
	free(c->idle_of);
	c->idle_of = NULL;
	return ret;
}

int ip_plan_diff_make(struct ip_target *target, const struct ip_modules *modules,
		      const struct ip_selections *selections, const struct ip_area *area,
		      const uint8_t *silent, struct ip_plan_diff *ret)
{
	struct comparison c = {.target = target, .d = ret, .silent = silent};
	struct ip_plan *live = &ret->live;

	*ret = (struct ip_plan_diff){0};
	if (ip_plan_match(target, modules, selections, live) < 0)
		goto fail;
	ret->functions = live->ndistinct;
	/* a group has the index of its function (plan.c) */
	c.spoiled = calloc(live->nfunctions + 1, sizeof(*c.spoiled));
	c.shown = calloc(live->nfunctions + 1, sizeof(*c.shown));
	if (!c.spoiled || !c.shown) {
		ip_error("out of memory");
		goto fail;
	}
	/* changes are ordered by module (ip_plan_match) */
	for (uint32_t i = 0; i < modules->n; i++) {
		c.module = &modules->items[i];
		c.module_index = i;
		for (c.end = c.at; c.end < live->nchanges; c.end++)
			if (live->functions[live->function_of[c.end]].module_index != i)
				break;
		if (c.module->list && ip_module_is_mapped(target, c.module) &&
		    compare_module(&c, area) < 0)
			goto fail;
		c.at = c.end;
	}
	live->nchanges = c.kept;
	drop_spoiled(live, c.spoiled);
	if (drop_functions(live) < 0 || count_distinct(live) < 0 || count_distinct(&ret->shown) < 0)
		goto fail;
	free(c.spoiled);
	free(c.shown);
	return 0;
fail:
	free(c.spoiled);
	free(c.shown);
	ip_plan_diff_clear(ret);
	return -1;
}

struct ip_change *ip_plan_diff_changes(const struct ip_plan_diff *d, size_t *ret_n)
{
	size_t n = d->live.nchanges + d->idle.nchanges;
	struct ip_change *changes = calloc(n ? n : 1, sizeof(*changes));
	uint32_t groups = 0; /* number of groups of the functions that go live */

	if (!changes) {
		ip_error("out of memory");
		return NULL;
	}
	if (d->live.nchanges)
		memcpy(changes, d->live.changes, d->live.nchanges * sizeof(*changes));
	if (d->idle.nchanges)
		memcpy(changes + d->live.nchanges, d->idle.changes,
		       d->idle.nchanges * sizeof(*changes));
	/* Changes to idle get one group per function, too, so that several stops can share them. A
	 * single group would have to be written in one stop of any length. */
	for (size_t i = 0; i < d->live.nchanges; i++)
		groups = changes[i].group >= groups ? changes[i].group + 1 : groups;
	for (size_t i = 0; i < d->idle.nchanges; i++)
		changes[d->live.nchanges + i].group = groups + d->idle.function_of[i];
	*ret_n = n;
	return changes;
}

void ip_plan_diff_clear(struct ip_plan_diff *d)
{
	ip_plan_clear(&d->live);
	ip_plan_clear(&d->idle);
	ip_plan_clear(&d->shown);
}
