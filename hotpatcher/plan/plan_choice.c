/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows tail exits from function to function. See plan_choice.h.
 */
#include "hotpatcher/plan/plan_choice.h"

#include <stdlib.h>
#include <string.h>

#include "common/abi/meters.h"
#include "common/error.h"
#include "common/selection/selection.h"

#define UNKNOWN	   UINT32_MAX
#define NOT_LOOKED (UINT32_MAX - 1)

int ip_choice_init(struct ip_choice *choice, const struct ip_modules *modules)
{
	*choice = (struct ip_choice){.modules = modules,
				     .items = calloc(modules->n + 1, sizeof(*choice->items))};
	if (!choice->items)
		return ip_error("out of memory");
	for (size_t m = 0; m < modules->n; m++) {
		struct ip_module_choice *c = &choice->items[m];
		size_t n = modules->items[m].list ? modules->items[m].list->header->nfunctions : 0;

		if (!modules->items[m].list)
			continue;
		c->state = calloc(2 * n + 1, 1);
		c->duty = calloc(2 * n + 1, 1);
		c->broken = calloc(n + 1, 1);
		c->tails = calloc(n + 1, 1);
		if (!c->state || !c->duty || !c->broken || !c->tails)
			return ip_error("out of memory");
	}
	return 0;
}

void ip_choice_clear(struct ip_choice *choice)
{
	for (size_t m = 0; choice->items && m < choice->modules->n; m++) {
		free(choice->items[m].state);
		free(choice->items[m].duty);
		free(choice->items[m].broken);
		free(choice->items[m].tails);
		free(choice->items[m].targets);
	}
	free(choice->items);
}

static bool is_taken(uint8_t state)
{
	return state == IP_CHOICE_SELECTED || state == IP_CHOICE_SILENT;
}

/* Returns the duty that a function needs if calls of a function with duty from go on in it; -1:
 * they cannot go on there. have: the duty that it has now, if it is taken. */
static int duty_to_follow(uint8_t from, uint8_t state, uint8_t have)
{
	bool logged = have == IP_DUTY_LOG || have == IP_DUTY_TIMED;

	if (!is_taken(state))
		return from == IP_DUTY_HIST ? IP_DUTY_JOIN : from;
	switch (from) {
	case IP_DUTY_LOG:
		return logged ? have : -1;
	case IP_DUTY_TIMED:
		return logged ? IP_DUTY_TIMED : -1;
	case IP_DUTY_FPERF: /* if one function has this duty, all have it */
		return have;
	/* IP_DUTY_HIST, IP_DUTY_JOIN: the time of a function that is measured but not shown would
	 * be subtracted from the time of the others */
	default:
		if (state == IP_CHOICE_SILENT)
			return have == IP_DUTY_JOIN ? have : -1;
		return logged ? IP_DUTY_TIMED : have == IP_DUTY_HIST ? have : -1;
	}
}

/* Returns whether calls of a function with that duty go on after its jumps. */
static bool is_followed(const struct ip_choice *choice, uint8_t duty)
{
	if (duty == IP_DUTY_FPERF)
		return !choice->exclusive;
	return duty == IP_DUTY_LOG || duty == IP_DUTY_TIMED || duty == IP_DUTY_HIST ||
	       duty == IP_DUTY_JOIN;
}

/* Returns whether the jump leads to a part of the same function. If events are logged, the analysis
 * treats the part as the same call (analysis/callstack/frames_part.c). */
static bool is_own_part(const struct ip_module *from, uint32_t function, const struct ip_module *to,
			uint32_t part)
{
	const char *host = ip_probe_list_string(from->list, from->list->functions[function].name),
		   *name = ip_probe_list_string(to->list, to->list->functions[part].name);
	size_t length = ip_base_name_length(name);

	return from == to && ip_name_is_part(name) && length == ip_base_name_length(host) &&
	       !memcmp(name, host, length);
}

static int have_targets(struct ip_module_choice *c, uint32_t nprobes)
{
	if (c->targets)
		return 0;
	c->targets = malloc((nprobes + 1ull) * sizeof(*c->targets));
	if (!c->targets)
		return ip_error("out of memory");
	for (uint32_t i = 0; i < nprobes; i++)
		c->targets[i] = (struct ip_tail_callee){NOT_LOOKED, 0};
	return 0;
}

/* Follows the jumps of a module once. *again: it has taken functions, so their jumps must be
 * followed, too. */
static int follow_module(struct ip_choice *choice, const struct ip_target *target,
			 struct ip_tails **tails, uint32_t m, bool *again)
{
	const struct ip_module *module = &choice->modules->items[m];
	struct ip_module_choice *c = &choice->items[m];
	uint32_t n = module->list->header->nprobes;

	for (uint32_t i = 0; i < n; i++) {
		const struct ip_pl_probe *probe = &module->list->probes[i];
		struct ip_module_choice *to;
		struct ip_tail_callee *at;
		int duty;

		if (!ip_probe_jumps(probe) || !is_taken(c->state[2 * probe->function]) ||
		    !is_followed(choice, c->duty[2 * probe->function]))
			continue;
		if ((!*tails && !(*tails = ip_tails_create(target, choice->modules))) ||
		    have_targets(c, n) < 0)
			return -1;
		at = &c->targets[i];
		if (at->module == NOT_LOOKED &&
		    !ip_tails_follow(*tails, module, probe, &at->module, &at->function))
			at->module = UNKNOWN;
		if (at->module == UNKNOWN)
			continue;
		to = &choice->items[at->module];
		duty = duty_to_follow(c->duty[2 * probe->function], to->state[2 * at->function],
				      to->duty[2 * at->function]);
		if (duty < 0 || to->broken[at->function] ||
		    (duty != IP_DUTY_HIST && duty != IP_DUTY_JOIN && duty != IP_DUTY_FPERF &&
		     is_own_part(module, probe->function, &choice->modules->items[at->module],
				 at->function))) {
			at->module = UNKNOWN;
			continue;
		}
		if (is_taken(to->state[2 * at->function]) && to->duty[2 * at->function] == duty)
			continue;
		if (!is_taken(to->state[2 * at->function]))
			to->state[2 * at->function] = IP_CHOICE_SILENT;
		to->duty[2 * at->function] = duty;
		*again = true;
	}
	return 0;
}

int ip_choice_follow(struct ip_choice *choice, const struct ip_target *target)
{
	struct ip_tails *tails = NULL;
	bool again = true;
	int ret = 0;

	while (again && ret == 0) {
		again = false;
		for (size_t m = 0; ret == 0 && m < choice->modules->n; m++)
			if (choice->modules->items[m].list)
				ret = follow_module(choice, target, &tails, m, &again);
	}
	ip_tails_destroy(tails);
	return ret;
}

bool ip_choice_follows(const struct ip_choice *choice, uint32_t module, uint32_t probe)
{
	const struct ip_tail_callee *targets = choice->items[module].targets;

	return targets && targets[probe].module < NOT_LOOKED;
}
