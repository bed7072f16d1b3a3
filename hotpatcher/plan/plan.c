/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes a plan from a selection.
 */
#include "hotpatcher/plan/plan.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "access/policy.h"
#include "common/arch/arch.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/file.h"
#include "common/units.h"
#include "hotpatcher/plan/payload_rules.h"
#include "hotpatcher/plan/plan_choice.h"

#define PAGE_SIZE 4096ull

static bool can_cross(const struct ip_arch *arch, const struct ip_pl_probe *probe, uint64_t address)
{
	uint64_t room = PAGE_SIZE - address % PAGE_SIZE; /* to the end of the page */
	uint8_t bytes[IP_SITE_MAX];

	return probe->length <= room || arch->transit(probe->form, ip_probe_transit_regs(probe),
						      probe->length, room, bytes) > 0;
}

static enum ip_verdict verdict_on(const struct ip_selections *selections,
				  const struct ip_module *module, uint32_t function)
{
	const struct ip_chooser *chooser = selections->chooser;

	return chooser ? chooser->judge(chooser->data, module, function) : IP_VERDICT_TAKEN;
}

/* Returns whether no probe of this kind can be selected. */
static bool is_passed_over(const struct ip_selections *selections, const struct ip_pl_probe *probe)
{
	return (selections->chooser && selections->chooser->calls_only &&
		probe->kind == IP_PROBE_POINT) ||
	       (probe->form == IP_FORM_PLT && !selections->plt);
}

/* Returns the duty of the function's probes. Without a second event there is no duration: then
 * calls are counted. */
static uint8_t duty_of(struct ip_plan *plan, const struct ip_module *module,
		       const struct ip_selections *selections, const struct ip_pl_probe *probe)
{
	const struct ip_payload_rules *rules = selections->rules;
	const struct ip_probe_list *list = module->list;
	const struct ip_pl_function *function = &list->functions[probe->function];
	const char *name = ip_probe_list_string(list, function->name);
	const struct ip_payload_rule *rule, *other;

	if (selections->chooser && selections->chooser->duty != IP_DUTY_LOG)
		return selections->chooser->duty;
	if (verdict_on(selections, module, probe->function) == IP_VERDICT_COUNTED)
		return IP_DUTY_COUNT;
	if (!rules)
		return IP_DUTY_LOG;
	rule = ip_payload_rules_find(
		rules, name, function->file ? ip_probe_list_string(list, function->file) : NULL,
		module->path, &other);
	if (other && !plan->disagree_on) {
		plan->disagree[0] = rule;
		plan->disagree[1] = other;
		plan->disagree_on = name;
	}
	if (!rule)
		return IP_DUTY_LOG;
	if (rule->duty == IP_DUTY_HIST &&
	    (probe->kind == IP_PROBE_POINT || probe->flags & IP_PROBE_ENTRY_ONLY))
		return IP_DUTY_COUNT;
	if (rule->duty == IP_DUTY_TIMED &&
	    (probe->kind == IP_PROBE_POINT || probe->flags & IP_PROBE_ENTRY_ONLY))
		return IP_DUTY_LOG;
	return rule->duty;
}

bool ip_plan_measures(const struct ip_plan_function *f)
{
	return f->duty == IP_DUTY_HIST || f->duty == IP_DUTY_TIMED;
}

bool ip_plan_records(const struct ip_plan *plan)
{
	for (size_t i = 0; i < plan->nfunctions; i++)
		if (plan->functions[i].duty == IP_DUTY_LOG ||
		    plan->functions[i].duty == IP_DUTY_TIMED ||
		    plan->functions[i].duty == IP_DUTY_FPERF)
			return true;
	return false;
}

static void add_function(struct ip_plan *plan, const struct ip_plan_function *f)
{
	plan->functions[plan->nfunctions++] = *f;
	plan->ncounts += f->duty == IP_DUTY_COUNT;
	plan->nhists += f->duty == IP_DUTY_HIST || f->duty == IP_DUTY_TIMED;
}

/* Makes room for n more elements in *array, which has `have`. */
static int reserve(void *array, size_t have, size_t n, size_t size)
{
	void **p = array;
	void *grown = reallocarray(*p, have + n, size);

	if (!grown)
		return ip_error("out of memory");
	*p = grown;
	return 0;
}

static bool is_in(uint8_t state)
{
	return state == IP_CHOICE_SELECTED || state == IP_CHOICE_SILENT;
}

/* Makes room for the sites and functions of a module: at once, since to let arrays of this size
 * grow costs more than to fill them. */
static int reserve_module(struct ip_plan *plan, const struct ip_choice *choice, uint32_t m)
{
	const struct ip_probe_list *list = choice->modules->items[m].list;
	const struct ip_module_choice *c = &choice->items[m];
	size_t nsites = 0, nfunctions = 0, njumps = 0;

	for (uint32_t i = 0; i < list->header->nprobes; i++) {
		const struct ip_pl_probe *p = &list->probes[i];

		if (!is_in(c->state[2 * p->function + !!(p->flags & IP_PROBE_INLINED)]))
			continue;
		nsites++;
		njumps += ip_choice_follows(choice, m, i);
	}
	if (!nsites)
		return 0;
	for (size_t i = 0; i < 2ull * list->header->nfunctions; i++)
		nfunctions += is_in(c->state[i]);
	/* each jump may have an entry of its own */
	return reserve(&plan->functions, plan->nfunctions, nfunctions + njumps,
		       sizeof(*plan->functions)) < 0 ||
			       reserve(&plan->changes, plan->nchanges, nsites,
				       sizeof(*plan->changes)) < 0 ||
			       reserve(&plan->function_of, plan->nchanges, nsites,
				       sizeof(*plan->function_of)) < 0 ||
			       reserve(&plan->probe_of, plan->nchanges, nsites,
				       sizeof(*plan->probe_of)) < 0
		       ? -1
		       : 0;
}

/* Decides for each function of a module whether it is selected, and what its duty is. */
static int choose(struct ip_plan *plan, struct ip_choice *choice, uint32_t m,
		  const struct ip_selections *selections)
{
	const struct ip_module *module = &choice->modules->items[m];
	const struct ip_arch *arch = ip_arch_for_machine(module->list->header->machine);
	const struct ip_probe_list *list = module->list;
	struct ip_module_choice *c = &choice->items[m];

	for (uint32_t i = 0; i < list->header->nprobes; i++) {
		const struct ip_pl_probe *probe = &list->probes[i];
		const struct ip_pl_function *f = &list->functions[probe->function];
		bool inlined = probe->flags & IP_PROBE_INLINED;
		uint32_t at = 2 * probe->function + inlined, other = 2 * probe->function + !inlined;
		enum ip_verdict verdict;
		bool selected;

		if (!can_cross(arch, probe, module->load_bias + probe->offset))
			c->broken[probe->function] = 1;
		if (is_passed_over(selections, probe))
			continue;
		if (c->state[at])
			continue;
		selected = c->state[other]
				   ? c->state[other] == IP_CHOICE_SELECTED
				   : ip_selections_match(
					     selections, ip_probe_list_string(list, f->name),
					     f->file ? ip_probe_list_string(list, f->file) : NULL,
					     module->path);
		c->state[at] = IP_CHOICE_NOT;
		if (!selected)
			continue;
		verdict = verdict_on(selections, module, probe->function);
		/* a call that goes on in a dropped function is not followed into it */
		if (verdict == IP_VERDICT_COUNTED || verdict == IP_VERDICT_LEFT_OUT)
			c->broken[probe->function] = 1;
		if (verdict == IP_VERDICT_LEFT_OUT)
			continue;
		plan->ndistinct +=
			c->state[other] != IP_CHOICE_SELECTED && verdict != IP_VERDICT_RESTS;
		c->state[at] = IP_CHOICE_SELECTED;
		c->duty[at] = duty_of(plan, module, selections, probe);
	}
	return 0;
}

/* Returns the index of the probe's function in the plan, and adds the function if it is not there
 * yet. The jumps of a function have an entry of their own. */
static uint32_t place(struct ip_plan *plan, const struct ip_choice *choice, uint32_t m,
		      const struct ip_pl_probe *probe, bool jumps, uint32_t *places)
{
	const struct ip_module_choice *c = &choice->items[m];
	bool inlined = probe->flags & IP_PROBE_INLINED;
	uint32_t at = 2 * probe->function + inlined, *known = &places[jumps ? at + 1 : at];
	struct ip_plan_function f = {.module = &choice->modules->items[m],
				     .module_index = m,
				     .function = probe->function,
				     .inlined = inlined || jumps,
				     .jumps = jumps,
				     .silent = c->state[at] == IP_CHOICE_SILENT,
				     .duty = c->duty[at],
				     .frame = UINT32_MAX};

	/* if events are logged, the number alone tells that it is a jump */
	if (jumps && f.duty != IP_DUTY_LOG)
		f.duty = IP_DUTY_JUMP;

	if (!*known) {
		add_function(plan, &f);
		*known = plan->nfunctions;
	}
	return *known - 1;
}

static int add_sites(struct ip_plan *plan, struct ip_choice *choice, uint32_t m,
		     const struct ip_selections *selections)
{
	const struct ip_module *module = &choice->modules->items[m];
	const struct ip_arch *arch = ip_arch_for_machine(module->list->header->machine);
	const struct ip_probe_list *list = module->list;
	const struct ip_module_choice *choices = &choice->items[m];
	/* index + 1; 0: not in the plan yet */
	uint32_t *places = calloc(2ull * list->header->nfunctions + 1, sizeof(*places));
	size_t before = plan->nchanges;
	int ret = -1;

	if (!places)
		return ip_error("out of memory");
	if (reserve_module(plan, choice, m) < 0)
		goto out;
	for (uint32_t i = 0; i < list->header->nprobes; i++) {
		const struct ip_pl_probe *probe = &list->probes[i];
		uint8_t state =
			choices->state[2 * probe->function + !!(probe->flags & IP_PROBE_INLINED)];
		const uint64_t address = module->load_bias + probe->offset;
		uint32_t function, group;
		struct ip_change *c;

		if (!is_in(state) || is_passed_over(selections, probe) ||
		    verdict_on(selections, module, probe->function) == IP_VERDICT_RESTS ||
		    (state == IP_CHOICE_SILENT && probe->kind == IP_PROBE_POINT))
			continue;
		function = group = place(plan, choice, m, probe, false, places);
		if (probe->kind == IP_PROBE_ENTRY &&
		    ip_probe_frame(probe) < plan->functions[function].frame)
			plan->functions[function].frame = ip_probe_frame(probe);
		if (probe->flags & IP_PROBE_ENTRY_ONLY)
			plan->functions[function].entry_only = 1;
		plan->functions[function].tail_exits |= probe->kind == IP_PROBE_TAIL_EXIT;
		if (probe->kind == IP_PROBE_TAIL_EXIT && probe->form == IP_FORM_RETURN)
			plan->functions[function].returns = 1;
		if (plan->functions[function].duty == IP_DUTY_COUNT &&
		    (probe->kind == IP_PROBE_EXIT || probe->kind == IP_PROBE_TAIL_EXIT))
			continue; /* the entry alone is enough: the exit stays idle */
		if (!can_cross(arch, probe, address)) {
			plan->left_out++;
			continue;
		}
		if (ip_choice_follows(choice, m, i)) {
			const struct ip_tail_callee *to = &choices->targets[i];
			const struct ip_plan_jump jump = {
				.module_index = m,
				.function = probe->function,
				.to_module = to->module,
				.to_function = to->function,
				.module = module,
				.to = &choice->modules->items[to->module]};

			if (ip_array_grow(&plan->jumps, plan->njumps, sizeof(*plan->jumps)) < 0)
				goto out;
			function = place(plan, choice, m, probe, true, places);
			plan->jumps[plan->njumps++] = jump;
		} else if (ip_probe_jumps(probe)) {
			choices->tails[probe->function] = 1;
		}
		c = &plan->changes[plan->nchanges];
		*c = (struct ip_change){.address = address,
					.group = group,
					.length = probe->length,
					.kind = probe->kind,
					.form = probe->form,
					.jump = ip_probe_jump(probe),
					.regs = probe->regs,
					.transit_regs = ip_probe_transit_regs(probe),
					.may_go = module->may_go};
		if (arch->idle(probe->form, probe->length, c->jump, c->old_bytes) < 0)
			goto out;
		plan->probe_of[plan->nchanges] = i;
		plan->function_of[plan->nchanges++] = function;
	}
	plan->nmodules_patched += plan->nchanges > before;
	ret = 0;
out:
	free(places);
	return ret;
}

/* Marks the functions with jumps that lead to an unknown function. If a call goes on in such a
 * function, it ends at that jump, too. So functions that jump there are marked as well. */
static void mark_tails(struct ip_plan *plan, const struct ip_choice *choice)
{
	bool again = true;

	while (again) {
		again = false;
		for (size_t i = 0; i < plan->njumps; i++) {
			const struct ip_plan_jump *jump = &plan->jumps[i];
			uint8_t *from = &choice->items[jump->module_index].tails[jump->function];

			if (*from || !choice->items[jump->to_module].tails[jump->to_function])
				continue;
			*from = 1;
			again = true;
		}
	}
	for (size_t i = 0; i < plan->nfunctions; i++) {
		struct ip_plan_function *f = &plan->functions[i];

		f->tails = !f->inlined && choice->items[f->module_index].tails[f->function];
	}
}

/* Returns the names of all functions, for messages (calloc'ed). */
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

/* Returns the option that the last selection comes from, as "--until p99>1ms:f: ", malloc'ed; "":
 * it is -f. NULL: out of memory. */
static char *option_of(const struct ip_selections *selections)
{
	const struct ip_payload_rules *rules = selections->rules;
	const char *text = ip_selections_last(selections)->text;
	char *option = NULL;

	for (size_t i = 0; rules && i < rules->n; i++) {
		_cleanup_free_ char *own = rules->items[i].selection
						   ? ip_selection_text(rules->items[i].selection)
						   : NULL;

		if (own && !strcmp(own, text))
			return asprintf(&option, "%s: ", rules->items[i].text) < 0 ? NULL : option;
	}
	return strdup("");
}

/* A program that is started through a link has the link's name, and its module another one. Returns
 * what to select in the place of lib:NAME, as "; it is called NAME, and runs PATH: lib:FILE",
 * malloc'ed; NULL: the selection does not name the process so. */
static char *called_otherwise(pid_t pid, const struct ip_selection *selection)
{
	_cleanup_free_ char *text = ip_selection_text(selection), *name = NULL, *item = NULL,
			    *path = NULL, *program = NULL;
	char *ret;
	size_t size;

	if (!text || asprintf(&path, "/proc/%d/comm", pid) < 0) {
		path = NULL;
		return NULL;
	}
	if (ip_read_text(path, 64, &name, &size) < 0)
		return NULL;
	name[strcspn(name, "\n")] = '\0';
	if (!*name || asprintf(&item, "lib:%s", name) < 0) {
		item = NULL;
		return NULL;
	}
	program = strstr(text, item) ? ip_policy_program(pid) : NULL;
	if (!program || !strrchr(program, '/') ||
	    asprintf(&ret, "; it is called %s, and runs %s: lib:%s", name, program,
		     strrchr(program, '/') + 1) < 0)
		return NULL;
	return ret;
}

static int nothing_matched(const struct ip_target *target, const struct ip_modules *modules,
			   const struct ip_selections *selections, uint64_t nprobes)
{
	const struct ip_selection *selection = ip_selections_last(selections)->selection;
	size_t n;
	const char **names = all_names(modules, &n);
	_cleanup_free_ char *option = NULL, *called = called_otherwise(target->pid, selection);
	char *nearest;

	if (!names || !(option = option_of(selections))) {
		free(names);
		return ip_error("out of memory");
	}
	nearest = ip_selection_nearest(selection, names, n);
	if (called)
		ip_error("pid %d: %sthe selection matches none of its %lu probe%s%s", target->pid,
			 option, nprobes, ip_plural(nprobes), called);
	else if (nearest && *nearest)
		ip_error("pid %d: %sthe selection matches none of its %lu probe%s; nearest: %s",
			 target->pid, option, nprobes, ip_plural(nprobes), nearest);
	else
		ip_error("pid %d: %sthe selection matches none of its %lu probe%s: iprobe list %d "
			 "shows them",
			 target->pid, option, nprobes, ip_plural(nprobes), target->pid);
	free(nearest);
	free(names);
	return -1;
}

int ip_plan_match(const struct ip_target *target, const struct ip_modules *modules,
		  const struct ip_selections *selections, struct ip_plan *ret)
{
	struct ip_choice choice;
	int done;

	*ret = (struct ip_plan){0};
	done = ip_choice_init(&choice, modules);
	choice.exclusive = selections->chooser && selections->chooser->exclusive;
	for (size_t i = 0; done == 0 && i < modules->n; i++)
		done = modules->items[i].list ? choose(ret, &choice, i, selections) : 0;
	if (done == 0)
		done = ip_choice_follow(&choice, target);
	for (size_t i = 0; done == 0 && i < modules->n; i++)
		done = modules->items[i].list ? add_sites(ret, &choice, i, selections) : 0;
	if (done == 0)
		mark_tails(ret, &choice);
	ip_choice_clear(&choice);
	if (done < 0)
		ip_plan_clear(ret);
	return done;
}

/* Of so many functions the nearest are found in some 50 ms: a session is live meanwhile. */
#define NEAREST_MAX 20000

char *ip_plan_unused(const struct ip_modules *modules, const struct ip_selection *selection)
{
	_cleanup_free_ char *unused = ip_selection_unused(selection);
	_cleanup_free_ const char **names = NULL;
	size_t n = 0;

	if (unused)
		names = all_names(modules, &n);
	return names ? ip_selection_unused_nearest(selection, names, n < NEAREST_MAX ? n : 0)
		     : ip_steal_ptr(unused);
}

char *ip_plan_nearest(const struct ip_plan *plan, const struct ip_selection *selection)
{
	_cleanup_free_ const char **names = calloc(plan->nfunctions + 1, sizeof(*names));
	_cleanup_free_ char *near = NULL;
	char *text = NULL;
	size_t n = 0;

	for (size_t i = 0; names && i < plan->nfunctions; i++) {
		const struct ip_plan_function *f = &plan->functions[i];
		const struct ip_probe_list *list = f->module->list;

		if (!f->silent)
			names[n++] = ip_probe_list_string(list, list->functions[f->function].name);
	}
	if (names && selection)
		near = ip_selection_nearest(selection, names, n < NEAREST_MAX ? n : 0);
	if (!near || !*near)
		return strdup("");
	return asprintf(&text, " (nearest: %s)", near) < 0 ? NULL : text;
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

			if (ip_selection_match(
				    last->selection, ip_probe_list_string(list, function->name),
				    function->file ? ip_probe_list_string(list, function->file)
						   : NULL,
				    modules->items[i].path) != last->takes_away)
				return 0;
		}
	}
	return nprobes ? nothing_matched(target, modules, selections, nprobes)
		       : ip_modules_no_probes(target, modules);
}

/* Checks that the rules of --payload do not contradict each other, and that each matches a selected
 * function. */
static int check_rules(const struct ip_target *target, const struct ip_modules *modules,
		       const struct ip_payload_rules *rules, const struct ip_plan *plan)
{
	const struct ip_payload_rule *unused = rules ? ip_payload_rules_unused(rules) : NULL;
	_cleanup_free_ char *nearest = NULL;
	_cleanup_free_ const char **names = NULL;
	size_t n;

	if (plan->disagree_on) {
		_cleanup_free_ char *name = ip_demangle(plan->disagree_on, false);

		return ip_error("%s and %s both name %s: take it out of one (!%s)",
				plan->disagree[0]->text, plan->disagree[1]->text,
				name ? name : plan->disagree_on, name ? name : plan->disagree_on);
	}
	if (!unused)
		return 0;
	names = all_names(modules, &n);
	nearest = names ? ip_selection_nearest(unused->selection, names, n) : NULL;
	return ip_error("pid %d: %s is for none of the selected functions%s%s", target->pid,
			unused->text, nearest && *nearest ? "; nearest: " : "",
			nearest ? nearest : "");
}

int ip_plan_select(const struct ip_target *target, const struct ip_modules *modules,
		   const struct ip_selections *selections, struct ip_plan *ret)
{
	uint64_t nprobes = count_probes(modules);

	if (ip_plan_match(target, modules, selections, ret) < 0)
		return -1;
	if (!nprobes)
		return ip_modules_no_probes(target, modules);
	if (!ret->nchanges) {
		ip_plan_clear(ret);
		return nothing_matched(target, modules, selections, nprobes);
	}
	if (check_rules(target, modules, selections->rules, ret) < 0) {
		ip_plan_clear(ret);
		return -1;
	}
	return 0;
}

long ip_plan_count_functions(const struct ip_plan *plan, bool silent)
{
	_cleanup_free_ bool *seen = NULL;
	uint32_t module = UINT32_MAX;
	long n = 0;

	for (size_t i = 0; i < plan->nfunctions; i++) {
		const struct ip_plan_function *f = &plan->functions[i];

		if (f->module_index != module) {
			free(seen);
			seen = calloc(f->module->list->header->nfunctions + 1, sizeof(*seen));
			if (!seen)
				return ip_error("out of memory");
			module = f->module_index;
		}
		n += !seen[f->function] && f->silent == silent;
		seen[f->function] = true;
	}
	return n;
}

int ip_plan_count_silent(const struct ip_plan *plan, struct ip_name_list *ret_functions,
			 size_t *ret_sites)
{
	const long functions = ip_plan_count_functions(plan, true);

	*ret_functions = (struct ip_name_list){0};
	for (size_t i = 0; i < plan->nfunctions; i++)
		if (plan->functions[i].silent)
			ip_name_list_add(ret_functions, ip_plan_function_name(&plan->functions[i]));
	ret_functions->n = functions < 0 ? 0 : functions;
	*ret_sites = 0;
	for (size_t i = 0; i < plan->nchanges; i++)
		*ret_sites += plan->functions[plan->function_of[i]].silent;
	return functions < 0 ? -1 : 0;
}

int ip_plan_mark_whole(const struct ip_plan *plan, bool *marks)
{
	_cleanup_free_ bool *groups = NULL;
	uint32_t last = 0;

	for (size_t i = 0; i < plan->nchanges; i++)
		last = plan->changes[i].group > last ? plan->changes[i].group : last;
	groups = calloc(last + 1ull, sizeof(*groups));
	if (!groups)
		return ip_error("out of memory");
	for (size_t i = 0; i < plan->nchanges; i++)
		groups[plan->changes[i].group] |= marks[plan->function_of[i]];
	for (size_t i = 0; i < plan->nchanges; i++)
		marks[plan->function_of[i]] |= groups[plan->changes[i].group];
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
	free(plan->jumps);
	*plan = (struct ip_plan){0};
}
