/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tracer's side of filters: options, rules of functions, names of threads.
 */
#include "hotpatcher/plan/filters_private.h"

#include <fcntl.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "common/notice.h"
#include "common/trace/trace_format.h"
#include "common/units.h"

#define RULES_PAGE 4096ull

int ip_filters_begin(const struct ip_filter_options *o, struct ip_area *area,
		     const struct ip_target *target, const struct ip_clock_reading *start)
{
	struct ip_filters *f = area->filters;
	struct ip_clock_reading now;
	uint64_t hz;

	memset(f, 0, sizeof(*f));
	if (!ip_filters_any(o))
		return 0;
	if (ip_filters_begin_threads(o, f, target) < 0)
		return -1;
	hz = ip_clock_hz(start, &now, 2000000);
	f->depth = o->depth;
	f->min_ticks = (unsigned __int128)o->min_duration_ns * hz / 1000000000;
	if (o->min_duration_ns && !f->min_ticks)
		f->min_ticks = 1;
	f->start_after = o->start.name ? o->start.calls : 0;
	f->stop_after = o->stop.name ? o->stop.calls : 0;
	f->callsite = o->callsite;
	f->frames = o->depth || o->min_duration_ns || o->nsamples || o->start.name || o->names ||
		    ip_filters_has_conditions(o);
	return 0;
}

/* A function, with the part of its name that it has in common with its parts and instances. */
struct named {
	const struct ip_plan_function *f;
	const char *name;
	size_t length;
};

static int compare_names(const struct named *x, const struct named *y)
{
	size_t least = x->length < y->length ? x->length : y->length;
	int order = x->f->module_index < y->f->module_index
			    ? -1
			    : x->f->module_index > y->f->module_index;

	if (!order)
		order = memcmp(x->name, y->name, least);
	if (!order)
		order = x->length < y->length ? -1 : x->length > y->length;
	return order;
}

static int by_name(const void *a, const void *b)
{
	const struct named *x = a, *y = b;
	int order = compare_names(x, y);

	return order ? order : x->f->number < y->f->number ? -1 : x->f->number > y->f->number;
}

static bool matches(const struct ip_selection *selection, const struct ip_plan_function *f)
{
	const struct ip_probe_list *list = f->module->list;
	const struct ip_pl_function *function = &list->functions[f->function];

	return ip_selection_match(selection, ip_probe_list_string(list, function->name),
				  function->file ? ip_probe_list_string(list, function->file)
						 : NULL,
				  f->module->path);
}

static bool is_of_plt(const struct ip_plan_function *f)
{
	const struct ip_probe_list *list = f->module->list;

	const char *name = ip_probe_list_string(list, list->functions[f->function].name);

	return ip_plt_name_length(name) != strlen(name);
}

static struct ip_filter_rule rule_for(const struct ip_filter_options *o,
				      const struct ip_plan_function *f)
{
	struct ip_filter_rule rule = {0};

	for (size_t i = 0; i < o->nsamples; i++) /* the last one that matches decides */
		if (!o->samples[i].selection || matches(o->samples[i].selection, f))
			rule.every = o->samples[i].every;
	if (o->start.name && matches(o->start.selection, f))
		rule.flags |= IP_RULE_START;
	if (o->stop.name && matches(o->stop.selection, f))
		rule.flags |= IP_RULE_STOP;
	/* without an exit nothing would end it */
	if (o->within.name && !f->entry_only && matches(o->within.selection, f))
		rule.flags |= IP_RULE_WITHIN;
	if (f->inlined && !f->jumps)
		rule.flags |= IP_RULE_INLINED | IP_RULE_SITE;
	if (f->jumps)
		rule.flags |= IP_RULE_JUMP;
	if (f->silent)
		rule.flags |= IP_RULE_SILENT;
	if (f->entry_only)
		rule.flags |= IP_RULE_NO_EXIT;
	if (f->module->list->header->placement == IP_PLACEMENT_FENTRY)
		rule.flags |= IP_RULE_EXACT;
	return rule;
}

static void add_frames(struct ip_filter_rule *rules, const struct ip_plan *plan);

struct ip_filter_rule *ip_filters_call_sites(const struct ip_plan *plan)
{
	static const struct ip_filter_options none;
	struct ip_filter_rule *rules = calloc(plan->nfunctions + 1, sizeof(*rules));

	if (!rules) {
		ip_error("out of memory");
		return NULL;
	}
	for (size_t i = 0; i < plan->nfunctions; i++)
		rules[i] = rule_for(&none, &plan->functions[i]);
	add_frames(rules, plan);
	return rules;
}

/* Sets where the return address lies, if all entry sites of the function agree. */
static void add_frames(struct ip_filter_rule *rules, const struct ip_plan *plan)
{
	for (size_t i = 0; i < plan->nchanges; i++) {
		const struct ip_plan_function *f = &plan->functions[plan->function_of[i]];
		const struct ip_pl_probe *probe = &f->module->list->probes[plan->probe_of[i]];
		struct ip_filter_rule *rule = &rules[plan->function_of[i]];

		if (probe->kind != IP_PROBE_ENTRY)
			continue;
		if (probe->form == IP_FORM_JUMP)
			rule->flags &= ~IP_RULE_SITE;
		if (f->inlined || f->jumps)
			continue;
		if (!ip_probe_frame(probe) || ip_probe_frame(probe) >= UINT16_MAX ||
		    (rule->frame && rule->frame != ip_probe_frame(probe)))
			rule->frame = UINT16_MAX;
		else
			rule->frame = ip_probe_frame(probe);
	}
	for (size_t i = 0; i < plan->nfunctions; i++)
		if (rules[i].frame == UINT16_MAX)
			rules[i].frame = 0;
}

/* Gives the parts and instances of a function a common group: the smallest of their numbers. */
static int add_groups(struct ip_filter_rule *rules, const struct ip_plan *plan)
{
	_cleanup_free_ struct named *names =
		calloc(plan->nfunctions ? plan->nfunctions : 1, sizeof(*names));

	if (!names)
		return ip_error("out of memory");
	for (size_t i = 0; i < plan->nfunctions; i++) {
		const struct ip_plan_function *f = &plan->functions[i];
		const struct ip_probe_list *list = f->module->list;
		const char *name = ip_probe_list_string(list, list->functions[f->function].name);

		names[i] = (struct named){f, name, ip_base_name_length(name)};
	}
	qsort(names, plan->nfunctions, sizeof(*names), by_name);
	for (size_t i = 0, first = 0; i < plan->nfunctions; i++) {
		if (compare_names(&names[first], &names[i]))
			first = i;
		rules[names[i].f - plan->functions].group = names[first].f->number;
	}
	return 0;
}

static int reserve(struct ip_area *area, uint32_t n)
{
	uint64_t size =
		((uint64_t)n * sizeof(struct ip_filter_rule) + RULES_PAGE - 1) & ~(RULES_PAGE - 1);

	if (n > IP_AREA_RULES)
		return ip_error("probe numbers up to %u are too many", n);
	if (fallocate(area->fd, 0, IP_AREA_RULES_OFFSET, size) < 0)
		return ip_error_errno("cannot allocate memory for the rules of %u function%s", n,
				      ip_plural(n));
	return 0;
}

int ip_filters_add_plan(const struct ip_filter_options *o, struct ip_area *area,
			const struct ip_plan *plan)
{
	_cleanup_free_ struct ip_filter_rule *rules =
		calloc(plan->nfunctions ? plan->nfunctions : 1, sizeof(*rules));
	uint32_t n = area->nrules, triggers = 0;

	if (!ip_filters_any(o))
		return 0;
	if (!rules)
		return ip_error("out of memory");
	for (size_t i = 0; i < plan->nfunctions; i++) {
		if (plan->functions[i].number > IP_NUMBER_MAX)
			return ip_error("the runtime's memory is damaged (numbers of functions)");
		rules[i] = rule_for(o, &plan->functions[i]);
		if (rules[i].flags & (IP_RULE_START | IP_RULE_STOP))
			triggers |= is_of_plt(&plan->functions[i]) ? 0 : rules[i].flags;
		if (plan->functions[i].number >= n)
			n = plan->functions[i].number + 1;
	}
	/* a call by the PLT of a function that has probes would count twice */
	for (size_t i = 0; i < plan->nfunctions; i++)
		if (is_of_plt(&plan->functions[i]))
			rules[i].flags &= ~(triggers & (IP_RULE_START | IP_RULE_STOP));
	add_frames(rules, plan);
	if (add_groups(rules, plan) < 0 || reserve(area, n) < 0)
		return -1;
	for (size_t i = 0; i < plan->nfunctions; i++) {
		struct ip_filter_rule *rule = &area->rules[plan->functions[i].number];

		/* if the function was live before, its count goes on */
		rules[i].count = rule->count;
		*rule = rules[i];
	}
	area->nrules = n;
	__atomic_store_n(&area->filters->nrules, n, __ATOMIC_RELEASE);
	return 0;
}

void ip_filters_show(struct ip_area *area, const struct ip_plan *shown)
{
	for (size_t i = 0; i < shown->nfunctions; i++)
		if (shown->functions[i].number < area->nrules)
			area->rules[shown->functions[i].number].flags &= ~IP_RULE_SILENT;
}

static int check_trigger(const struct ip_filter_trigger *t, const char *option,
			 const struct ip_plan *plan, pid_t pid)
{
	_cleanup_free_ char *nearest = NULL;

	if (!t->name)
		return 0;
	for (size_t i = 0; i < plan->nfunctions; i++)
		if (matches(t->selection, &plan->functions[i]))
			return 0;
	nearest = ip_plan_nearest(plan, t->selection);
	return ip_error(
		"pid %d: no function that is recorded matches %s %s%s: iprobe list shows names",
		pid, option, t->name, nearest ? nearest : "");
}

int ip_filters_check(const struct ip_filter_options *o, const struct ip_plan *plan, pid_t pid)
{
	if (check_trigger(&o->start, "--start-on", plan, pid) < 0 ||
	    check_trigger(&o->stop, "--stop-on", plan, pid) < 0 ||
	    check_trigger(&o->within, "--within", plan, pid) < 0)
		return -1;
	for (size_t i = 0; o->within.name && i < plan->nfunctions; i++)
		if (!plan->functions[i].entry_only &&
		    matches(o->within.selection, &plan->functions[i]))
			return 0;
	return o->within.name ? ip_error("pid %d: --within %s: its exits are not recorded, so "
					 "nothing would tell when such a call is over",
					 pid, o->within.name)
			      : 0;
}

void ip_filters_tell_samples(const struct ip_filter_options *o, const struct ip_modules *modules,
			     pid_t pid)
{
	for (size_t i = 0; i < o->nsamples; i++) {
		_cleanup_free_ char *unused = ip_plan_unused(modules, o->samples[i].selection);

		if (unused)
			ip_notice_of(pid, "no function that is recorded matches %s of --sample %u",
				     unused, o->samples[i].every);
	}
}

bool ip_filters_stopped(const struct ip_filter_options *o, const struct ip_area *area)
{
	return o->stop.name && __atomic_load_n(&area->filters->stopped, __ATOMIC_RELAXED);
}
