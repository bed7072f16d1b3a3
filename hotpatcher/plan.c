/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a selection to sites.
 */
#include "hotpatcher/plan.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "common/arch/arch.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/grow.h"
#include "hotpatcher/drops.h"
#include "hotpatcher/fperf.h"
#include "hotpatcher/payloads.h"

#define PAGE_SIZE 4096ull

static bool can_cross(const struct ip_arch *arch, const struct ip_change *c)
{
	uint64_t next_page = (c->address & ~(PAGE_SIZE - 1)) + PAGE_SIZE;
	uint8_t bytes[IP_SITE_MAX];

	return c->address + c->length <= next_page ||
	       arch->transit(c->form, c->transit_regs, c->length, next_page - c->address, bytes) > 0;
}

/* What its probes do. Where there is no second moment there is no duration: calls are counted then. */
static void give_duty(struct ip_plan *plan, struct ip_plan_function *f, const struct ip_selections *selections,
		      const struct ip_pl_probe *probe)
{
	const struct ip_payload_rules *rules = selections->rules;
	const struct ip_probe_list *list = f->module->list;
	const struct ip_pl_function *function = &list->functions[f->function];
	const char *name = ip_probe_list_string(list, function->name);
	const struct ip_payload_rule *rule, *other;
	bool counted;

	if (selections->fperf) {
		f->duty = IP_DUTY_FPERF;
		return;
	}
	if (ip_drops_find(selections->drops, f->module, f->function, &counted)) {
		f->duty = IP_DUTY_COUNT;
		plan->ncounts++;
		return;
	}
	if (!rules)
		return;
	rule = ip_payload_rules_find(rules, name, function->file ? ip_probe_list_string(list, function->file) : NULL,
				     f->module->path, &other);
	if (other && !plan->disagree_on) {
		plan->disagree[0] = rule;
		plan->disagree[1] = other;
		plan->disagree_on = name;
	}
	if (!rule)
		return;
	f->duty = rule->duty;
	if (f->duty == IP_DUTY_HIST && (probe->kind == IP_PROBE_POINT || probe->flags & IP_PROBE_ENTRY_ONLY))
		f->duty = IP_DUTY_COUNT;
	if (f->duty == IP_DUTY_TIMED && (probe->kind == IP_PROBE_POINT || probe->flags & IP_PROBE_ENTRY_ONLY))
		f->duty = IP_DUTY_LOG;
	plan->ncounts += f->duty == IP_DUTY_COUNT;
	plan->nhists += f->duty == IP_DUTY_HIST || f->duty == IP_DUTY_TIMED;
}

bool ip_plan_records(const struct ip_plan *plan)
{
	for (size_t i = 0; i < plan->nfunctions; i++)
		if (plan->functions[i].duty == IP_DUTY_LOG || plan->functions[i].duty == IP_DUTY_TIMED ||
		    plan->functions[i].duty == IP_DUTY_FPERF)
			return true;
	return false;
}

static int add_function(struct ip_plan *plan, const struct ip_module *module, uint32_t module_index,
			const struct ip_pl_probe *probe, const struct ip_selections *selections)
{
	if (ip_grow(&plan->functions, plan->nfunctions, sizeof(*plan->functions)) < 0)
		return -1;
	plan->functions[plan->nfunctions] =
		(struct ip_plan_function){.module = module,
					  .module_index = module_index,
					  .function = probe->function,
					  .inlined = !!(probe->flags & IP_PROBE_INLINED),
					  .frame = UINT32_MAX};
	give_duty(plan, &plan->functions[plan->nfunctions++], selections, probe);
	return 0;
}

static int select_module(struct ip_plan *plan, const struct ip_module *module, uint32_t module_index,
			 const struct ip_selections *selections)
{
	const struct ip_arch *arch = ip_arch_for_machine(module->list->header->machine);
	const struct ip_probe_list *list = module->list;
	uint32_t nfunctions = list->header->nfunctions;
	size_t before = plan->nchanges;
	/* per function and instance: 0 not looked at, 1 not selected, 2 + index into functions */
	uint32_t *state = calloc(2ull * nfunctions, sizeof(*state));
	int ret = -1;

	if (!state)
		return ip_error("out of memory");
	for (uint32_t i = 0; i < list->header->nprobes; i++) {
		const struct ip_pl_probe *probe = &list->probes[i];
		const struct ip_pl_function *f = &list->functions[probe->function];
		bool inlined = probe->flags & IP_PROBE_INLINED;
		uint32_t *s = &state[2 * probe->function + inlined],
			 *other = &state[2 * probe->function + !inlined];
		bool counted;
		struct ip_change c = {.address = module->load_bias + probe->offset,
				      .length = probe->length,
				      .kind = probe->kind,
				      .form = probe->form,
				      .regs = probe->regs,
				      .transit_regs = ip_probe_transit_regs(probe),
				      .may_go = module->may_go};

		if (selections->fperf && (probe->kind == IP_PROBE_POINT ||
					  ip_fperf_is_out(selections->fperf, module, probe->function)))
			continue;
		if (!*s) {
			bool selected = *other ? *other > 1
					       : ip_selections_match(
							 selections, ip_probe_list_string(list, f->name),
							 f->file ? ip_probe_list_string(list, f->file) : NULL,
							 module->path);

			*s = 1;
			if (selected && ip_drops_find(selections->drops, module, probe->function, &counted))
				selected = counted;
			if (selected) {
				plan->ndistinct += !*other;
				*s = 2 + plan->nfunctions;
				if (add_function(plan, module, module_index, probe, selections) < 0)
					goto out;
			}
		}
		if (*s == 1)
			continue;
		if (probe->kind == IP_PROBE_ENTRY && probe->frame < plan->functions[*s - 2].frame)
			plan->functions[*s - 2].frame = probe->frame;
		if (probe->flags & IP_PROBE_ENTRY_ONLY)
			plan->functions[*s - 2].entry_only = 1;
		if (plan->functions[*s - 2].duty == IP_DUTY_COUNT &&
		    (probe->kind == IP_PROBE_EXIT || probe->kind == IP_PROBE_TAIL_EXIT))
			continue; /* the entry tells all; it stays idle */
		if (!can_cross(arch, &c)) {
			plan->left_out++;
			continue;
		}
		if (arch->idle(probe->form, probe->length, c.old_bytes) < 0)
			goto out;
		/* function_of and probe_of grow in step with changes */
		if (ip_grow(&plan->changes, plan->nchanges, sizeof(*plan->changes)) < 0 ||
		    ip_grow(&plan->function_of, plan->nchanges, sizeof(*plan->function_of)) < 0 ||
		    ip_grow(&plan->probe_of, plan->nchanges, sizeof(*plan->probe_of)) < 0)
			goto out;
		c.group = *s - 2;
		plan->probe_of[plan->nchanges] = i;
		plan->function_of[plan->nchanges] = *s - 2;
		plan->changes[plan->nchanges++] = c;
	}
	plan->nmodules_patched += plan->nchanges > before;
	ret = 0;
out:
	free(state);
	return ret;
}

/* The names of all functions, for messages (calloc'ed). */
static const char **all_names(const struct ip_modules *modules, size_t *ret_n)
{
	const char **names;
	size_t n = 0, total = 0;

	for (size_t i = 0; i < modules->n; i++)
		total += modules->items[i].list ? modules->items[i].list->header->nfunctions : 0;
	names = calloc(total ? total : 1, sizeof(*names));
	for (size_t i = 0; names && i < modules->n; i++) {
		const struct ip_probe_list *list = modules->items[i].list;

		for (uint32_t f = 0; list && f < list->header->nfunctions; f++)
			names[n++] = ip_probe_list_string(list, list->functions[f].name);
	}
	*ret_n = n;
	return names;
}

static int nothing_matched(const struct ip_target *target, const struct ip_modules *modules,
			   const struct ip_selection *selection, uint64_t nprobes)
{
	size_t n;
	const char **names = all_names(modules, &n);
	char *nearest;

	if (!names)
		return ip_error("out of memory");
	nearest = ip_selection_nearest(selection, names, n);
	if (nearest && *nearest)
		ip_error("pid %d: the selection matches none of its %lu probes; nearest: %s", target->pid,
			 nprobes, nearest);
	else
		ip_error("pid %d: the selection matches none of its %lu probes: iprobe list %d shows them",
			 target->pid, nprobes, target->pid);
	free(nearest);
	free(names);
	return -1;
}

int ip_plan_match(const struct ip_modules *modules, const struct ip_selections *selections, struct ip_plan *ret)
{
	*ret = (struct ip_plan){0};
	for (size_t i = 0; i < modules->n; i++)
		if (modules->items[i].list && select_module(ret, &modules->items[i], i, selections) < 0) {
			ip_plan_clear(ret);
			return -1;
		}
	return 0;
}

static uint64_t count_probes(const struct ip_modules *modules)
{
	uint64_t n = 0;

	for (size_t i = 0; i < modules->n; i++)
		n += modules->items[i].list ? modules->items[i].list->header->nprobes : 0;
	return n;
}

int ip_plan_check_last(const struct ip_target *target, const struct ip_modules *modules,
		       const struct ip_selections *selections)
{
	const struct ip_selections_item *last = ip_selections_last(selections);
	uint64_t nprobes = count_probes(modules);

	for (size_t i = 0; i < modules->n; i++) {
		const struct ip_probe_list *list = modules->items[i].list;

		for (uint32_t f = 0; list && f < list->header->nfunctions; f++) {
			const struct ip_pl_function *function = &list->functions[f];

			if (ip_selection_match(last->selection, ip_probe_list_string(list, function->name),
					       function->file ? ip_probe_list_string(list, function->file) : NULL,
					       modules->items[i].path) != last->takes_away)
				return 0;
		}
	}
	return nprobes ? nothing_matched(target, modules, last->selection, nprobes) : ip_modules_no_probes(target, modules);
}

/* Whether the rules of --payload make sense for what is selected. */
static int check_rules(const struct ip_target *target, const struct ip_modules *modules,
		       const struct ip_payload_rules *rules, const struct ip_plan *plan)
{
	const struct ip_payload_rule *unused = rules ? ip_payload_rules_unused(rules) : NULL;
	_cleanup_free_ char *nearest = NULL;
	_cleanup_free_ const char **names = NULL;
	size_t n;

	if (plan->disagree_on) {
		_cleanup_free_ char *name = ip_demangle(plan->disagree_on, false);

		return ip_error("--payload %s and --payload %s both name %s: take it out of one (!%s)",
				plan->disagree[0]->text, plan->disagree[1]->text, name ? name : plan->disagree_on,
				name ? name : plan->disagree_on);
	}
	if (!unused)
		return 0;
	names = all_names(modules, &n);
	nearest = names ? ip_selection_nearest(unused->selection, names, n) : NULL;
	return ip_error("pid %d: --payload %s is for none of the selected functions%s%s", target->pid, unused->text,
			nearest && *nearest ? "; nearest: " : "", nearest ? nearest : "");
}

int ip_plan_select(const struct ip_target *target, const struct ip_modules *modules,
		   const struct ip_selections *selections, struct ip_plan *ret)
{
	uint64_t nprobes = count_probes(modules);

	if (ip_plan_match(modules, selections, ret) < 0)
		return -1;
	if (!nprobes)
		return ip_modules_no_probes(target, modules);
	if (!ret->nchanges) {
		ip_plan_clear(ret);
		return nothing_matched(target, modules, ip_selections_last(selections)->selection, nprobes);
	}
	if (check_rules(target, modules, selections->rules, ret) < 0) {
		ip_plan_clear(ret);
		return -1;
	}
	return 0;
}

void ip_plan_clear(struct ip_plan *plan)
{
	free(plan->changes);
	free(plan->function_of);
	free(plan->probe_of);
	free(plan->functions);
	free(plan->program_of);
	free(plan->programs);
	*plan = (struct ip_plan){0};
}
