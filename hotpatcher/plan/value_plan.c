/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses the programs for values: for each selected function one for its entry and one for its
 * exits, for each point one of its own. Equal programs are made once, so that a million functions
 * that return int share one.
 */
#include "hotpatcher/plan/value_plan.h"

#include <ctype.h>
#include <dirent.h>
#include <dwarf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "hotpatcher/plan/stub_layout.h"
#include "hotpatcher/plan/value_locations.h"
#include "hotpatcher/plan/values/compile.h"
#include "hotpatcher/process/debug_info.h"

#define PROGRAMS_MAX (IP_AREA_PROGRAMS - 1u)

/* The programs of one function. */
struct function_values {
	uint32_t entry, exit; /* index + 1; 0: none */
	bool wanted, found, named;
	bool point; /* its sites are those of a point */
	bool scope; /* those of a scope */
};

/* The address by which a function's debug information is looked up. */
struct place {
	uint64_t address;
	uint32_t function; /* index in the plan */
};

struct planner {
	struct ip_plan *plan;
	const struct ip_value_options *options;
	struct ip_area *area; /* NULL: the requests are only held against the functions */
	const struct ip_signatures *signatures;
	struct ip_value_gaps *gaps;
	struct function_values *functions; /* as plan->functions */
	uint32_t *index;		   /* hash of program and signature -> index + 1 */
	uint64_t *hashes;
	size_t index_size;
	/* for the current module */
	const struct ip_module *module;
	struct place *places;
	bool failed;
	struct ip_value_outcome *outcomes; /* one for each request */
	/* the last module whose debug information lacks the file that it shares with others, and
	 * that file's name */
	const struct ip_module *lacking;
	char *lacks;
};

static uint64_t hash(const struct ip_arguments *a)
{
	const unsigned char *bytes = (const unsigned char *)a->program.ops;
	uint64_t h = 0xcbf29ce484222325ull;

	for (size_t i = 0; i < a->program.nops * sizeof(a->program.ops[0]); i++)
		h = (h ^ bytes[i]) * 0x100000001b3ull;
	for (const char *p = a->text ? a->text : ""; *p; p++)
		h = (h ^ (unsigned char)*p) * 0x100000001b3ull;
	return h ? h : 1;
}

/* Adds the blocks of a program. Returns 0, or -1 with an error. */
static int add_blocks(struct ip_plan *plan, const struct ip_value_code *code, uint32_t signature)
{
	uint32_t at = 0;

	do {
		uint32_t n = code->nops - at;
		struct ip_value_program *block;

		n = n < IP_PROGRAM_BLOCK_OPS ? n : IP_PROGRAM_BLOCK_OPS;
		if (ip_array_grow(&plan->programs, plan->nprograms, sizeof(*plan->programs)) < 0)
			return -1;
		block = &plan->programs[plan->nprograms++];
		*block = (struct ip_value_program){
			.signature = signature, .nops = code->nops, .max_words = code->max_words};
		memcpy(block->ops, &code->ops[at], n * sizeof(*block->ops));
		at += n;
	} while (at < code->nops);
	return 0;
}

/* Finds the program, or adds it if there is no equal one. Returns index + 1; 0: there is no room;
 * -1: out of memory. A hash of 64 bits stands for the program and its text. Two different ones with
 * the same hash are so unlikely that this is not checked. */
static int64_t add_program(struct planner *p, const struct ip_arguments *a)
{
	struct ip_plan *plan = p->plan;
	uint64_t h = hash(a);
	size_t i = h & (p->index_size - 1);
	uint32_t first = plan->nprograms + 1;
	int64_t signature = 0;

	for (; p->index[i]; i = (i + 1) & (p->index_size - 1))
		if (p->hashes[i] == h)
			return p->index[i];
	if (p->area->nprograms + plan->nprograms + IP_PROGRAM_BLOCKS >= PROGRAMS_MAX)
		return 0;
	if (a->text)
		signature = p->signatures->add(p->signatures->data, a->text);
	if (a->text && signature <= 0)
		return signature;
	if (add_blocks(plan, &a->program, signature) < 0)
		return -1;
	p->hashes[i] = h;
	return p->index[i] = first;
}

/* Takes the program of an entry, exit or point, and frees a's text. *ret: its index + 1; 0 if there
 * is nothing to record. */
static int take(struct planner *p, const struct ip_value_function *f, struct ip_arguments *a,
		uint32_t *ret)
{
	int64_t program = 0;

	*ret = 0;
	if (a->program.nops && p->area) {
		program = add_program(p, a);
		if (program == 0)
			ip_name_list_add(&p->gaps->without[IP_GAP_TOO_MANY], f->linker_name);
	}
	ip_arguments_clear(a);
	*ret = program > 0 ? program : 0;
	return program < 0 ? -1 : 0;
}

static struct ip_value_function name_of(const struct ip_plan_function *f,
					struct ip_debug_function *debug)
{
	const struct ip_probe_list *list = f->module->list;
	const struct ip_pl_function *function = &list->functions[f->function];

	return (struct ip_value_function){
		.debug = debug,
		.linker_name = ip_probe_list_string(list, function->name),
		.file = function->file ? ip_probe_list_string(list, function->file) : NULL,
		.module = f->module->path};
}

static void on_found(void *context, size_t i, struct ip_debug_function *function)
{
	struct planner *p = context;
	uint32_t index = p->places[i].function;
	const struct ip_plan_function *f = &p->plan->functions[index];
	struct function_values *v = &p->functions[index];
	const char *name =
		ip_probe_list_string(f->module->list, f->module->list->functions[f->function].name);
	const struct ip_value_function named_so = name_of(f, function);
	const char *other;
	struct ip_arguments a;
	Dwarf_Attribute attr;
	bool named;

	other = dwarf_formstring(dwarf_attr_integrate(&function->die, DW_AT_linkage_name, &attr));
	if (!other)
		other = dwarf_diename(&function->die);
	named = other && !strncmp(other, name, strlen(other));
	/* if several functions were folded into one, take the one with the right name, otherwise
	 * the first */
	if (p->failed || (v->found && (v->named || !named)))
		return;
	v->found = true;
	v->named = named;
	v->entry = v->exit = 0;
	if (ip_value_compile_entry(p->options, &named_so, p->outcomes, &a) < 0 ||
	    take(p, &named_so, &a, &v->entry) < 0 ||
	    ip_value_compile_exit(p->options, &named_so, p->outcomes, &a) < 0 ||
	    take(p, &named_so, &a, &v->exit) < 0)
		p->failed = true;
}

static int by_address(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	return x->address < y->address ? -1 : x->address > y->address;
}

/* Plans the functions of the changes [first, last), which all belong to one module. */
static int plan_functions(struct planner *p, const struct ip_target *target, size_t first,
			  size_t last)
{
	_cleanup_free_ struct place *places = calloc(last - first, sizeof(*places));
	_cleanup_free_ uint64_t *addresses = calloc(last - first, sizeof(*addresses));
	struct ip_value_function named_so;
	struct ip_debug_info *info;
	char *lacks;
	size_t n = 0, kept = 0;
	int there;

	if (!places || !addresses)
		return ip_error("out of memory");
	for (size_t i = first; i < last; i++) {
		const struct ip_pl_probe *probe = &p->module->list->probes[p->plan->probe_of[i]];
		uint32_t function = p->plan->function_of[i];
		uint64_t begin = p->module->list->functions[probe->function].address;

		p->functions[function].point = probe->kind == IP_PROBE_POINT;
		p->functions[function].scope |= ip_probe_is_scope(p->module->list, probe);
		if (probe->kind == IP_PROBE_POINT || !ip_probe_has_values(probe) ||
		    p->plan->functions[function].silent || (probe->kind == IP_PROBE_EXIT && !begin))
			continue;
		named_so = name_of(&p->plan->functions[function], NULL);
		if (!ip_value_is_wanted(p->options, &named_so))
			continue;
		places[n++] = (struct place){probe->kind == IP_PROBE_ENTRY ? probe->offset : begin,
					     function};
		p->functions[function].wanted = true;
	}
	if (!n)
		return 0;
	qsort(places, n, sizeof(*places), by_address);
	/* one address per function: its entry, or its begin if it has no entry */
	for (size_t i = 0; i < n; i++)
		if (!kept || places[kept - 1].function != places[i].function)
			places[kept++] = places[i];
		else
			places[kept - 1] = places[i];
	for (size_t i = 0; i < kept; i++)
		addresses[i] = places[i].address;
	p->places = places;
	there = ip_debug_info_open(p->module, target->pid, &info, &lacks);
	if (lacks) {
		free(p->lacks);
		p->lacks = lacks;
		p->lacking = p->module;
	}
	if (there <= 0)
		return there;
	ip_debug_info_find(info, addresses, kept, on_found, p);
	ip_debug_info_close(info);
	return p->failed ? -1 : 0;
}

/* Sets the programs of the functions among the changes [first, last). */
static void assign(struct planner *p, size_t first, size_t last)
{
	struct ip_plan *plan = p->plan;

	for (size_t i = first; i < last; i++) {
		const struct ip_pl_probe *probe = &p->module->list->probes[plan->probe_of[i]];
		const struct function_values *v = &p->functions[plan->function_of[i]];

		if (!ip_probe_has_values(probe))
			continue;
		if (probe->kind == IP_PROBE_ENTRY)
			plan->program_of[i] = v->entry;
		else if (probe->kind == IP_PROBE_EXIT)
			plan->program_of[i] = v->exit;
	}
}

/* Plans the points among the changes [first, last), which all belong to one module. */
static int plan_points(struct planner *p, size_t first, size_t last)
{
	struct ip_plan *plan = p->plan;

	for (size_t i = first; i < last; i++) {
		const struct ip_probe_list *list = p->module->list;
		const struct ip_pl_probe *probe = &list->probes[plan->probe_of[i]];
		const struct ip_value_function named =
			name_of(&plan->functions[plan->function_of[i]], NULL);
		struct ip_value_point point;
		struct ip_arguments a;
		uint32_t program;

		if (probe->kind != IP_PROBE_POINT || !ip_probe_has_values(probe) ||
		    !ip_value_is_wanted(p->options, &named))
			continue;
		ip_value_point_init(list, probe, p->module->load_bias, &point);
		if (ip_value_compile_point(p->options, &named, &point, p->outcomes, &a) < 0 ||
		    take(p, &named, &a, &program) < 0)
			return -1;
		if (p->area)
			plan->program_of[i] = program;
	}
	return 0;
}

static int plan_module(struct planner *p, const struct ip_target *target, size_t first, size_t last)
{
	if (plan_functions(p, target, first, last) < 0)
		return -1;
	if (p->area)
		assign(p, first, last);
	return plan_points(p, first, last);
}

static int plan_modules(struct planner *p, const struct ip_target *target,
			const struct ip_modules *modules)
{
	const struct ip_plan *plan = p->plan;

	/* changes are ordered by module */
	for (size_t first = 0, last; first < plan->nchanges; first = last) {
		uint32_t module = plan->functions[plan->function_of[first]].module_index;

		for (last = first; last < plan->nchanges; last++)
			if (plan->functions[plan->function_of[last]].module_index != module)
				break;
		p->module = &modules->items[module];
		if (plan_module(p, target, first, last) < 0)
			return -1;
	}
	return 0;
}

/* Notes a function that has no values, and why. */
static void note_gap(struct planner *p, size_t i)
{
	const struct ip_plan_function *f = &p->plan->functions[i];
	const struct function_values *v = &p->functions[i];
	const struct ip_value_function named = name_of(f, NULL);
	enum ip_value_gap why = IP_GAP_OTHER_PLACEMENT;

	if (v->wanted ? v->found : f->silent || !ip_value_is_wanted(p->options, &named))
		return;
	if (v->wanted)
		why = IP_GAP_NO_DEBUG_INFO;
	else if (v->scope)
		why = IP_GAP_SCOPE;
	else if (f->frame == UINT32_MAX || /* it has points only */
		 f->module->list->header->placement == IP_PLACEMENT_FENTRY)
		return;
	ip_name_list_add(&p->gaps->without[why], named.linker_name);
}

/* Notes the functions that have no values. It is an error if no selected probe can have values. */
static int check(struct planner *p, const struct ip_target *target)
{
	const struct ip_plan *plan = p->plan;
	size_t able = 0, scopes = 0;

	for (size_t i = 0; i < plan->nchanges; i++)
		able += ip_probe_has_values(&plan->functions[plan->function_of[i]]
						     .module->list->probes[plan->probe_of[i]]);
	for (size_t i = 0; i < plan->nfunctions; i++)
		scopes += p->functions[i].scope;
	if (!able && scopes && scopes == plan->nfunctions)
		return ip_error("pid %d: the selected functions are scopes "
				"(IPROBE_SCOPE): " IP_SCOPE_VALUES,
				target->pid);
	if (!able)
		return ip_error("pid %d: none of the selected probes can record values: --args and "
				"--retval need placement fentry (build with "
				"IPROBE_PLACEMENT=fentry) or points with arguments",
				target->pid);
	for (size_t i = 0; i < plan->nfunctions; i++)
		note_gap(p, i);
	return 0;
}

size_t ip_value_gaps_count(const struct ip_value_gaps *gaps)
{
	size_t n = 0;

	for (unsigned i = 0; i < IP_GAPS; i++)
		n += gaps->without[i].n;
	return n;
}

void ip_value_gaps_join(struct ip_value_gaps *to, const struct ip_value_gaps *from)
{
	for (unsigned i = 0; i < IP_GAPS; i++)
		ip_name_list_join(&to->without[i], &from->without[i]);
	to->unfit += from->unfit;
	to->unfit_conditions += from->unfit_conditions;
	if (!*to->unfit_why)
		memcpy(to->unfit_why, from->unfit_why, sizeof(to->unfit_why));
	if (!*to->unfit_condition_why)
		memcpy(to->unfit_condition_why, from->unfit_condition_why,
		       sizeof(to->unfit_condition_why));
	to->no_reading |= from->no_reading;
}

bool ip_values_is_confined(const struct ip_target *target)
{
	pid_t pid = target->pid;
	_cleanup_closedir_ DIR *dir = NULL;
	struct dirent *entry;
	char name[300], line[256];

	for (size_t i = 0; i < target->maps.n; i++)
		if (strstr(target->maps.items[i].path, "/libseccomp.so"))
			return true;
	snprintf(name, sizeof(name), "/proc/%d/task", pid);
	dir = opendir(name);
	while (dir && (entry = readdir(dir))) {
		_cleanup_fclose_ FILE *file = NULL;

		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		snprintf(name, sizeof(name), "/proc/%d/task/%s/status", pid, entry->d_name);
		file = fopen(name, "re");
		if (!file && errno != ENOENT) /* the thread has not ended */
			return true;
		while (file && fgets(line, sizeof(line), file))
			if (!strncmp(line, "Seccomp:", 8) && atoi(line + 8) != 0)
				return true;
	}
	return !dir;
}

/* Tells what the function lacks that a request names. Returns -1 with an error. */
static int tell_unable(const struct planner *p, const struct ip_value_request *r, size_t i)
{
	const struct ip_plan_function *f = &p->plan->functions[i];
	const struct function_values *v = &p->functions[i];
	const char *option = ip_value_request_option(r->kind), *path = f->module->path;
	const char *linker_name = name_of(f, NULL).linker_name;
	_cleanup_free_ char *demangled = ip_demangle(linker_name, false);
	const char *name = demangled ? demangled : linker_name;

	if (v->point)
		return ip_error("%s %s: %s is a point%s", option, r->text, name,
				r->kind == IP_REQUEST_RETVAL ? ": it returns nothing"
							     : " without values");
	if (v->scope)
		return ip_error("%s %s: %s is a scope (IPROBE_SCOPE): " IP_SCOPE_VALUES, option,
				r->text, name);
	if (!v->wanted)
		return ip_error("%s %s: %s is recorded, but records no values: build it with "
				"IPROBE_PLACEMENT=fentry",
				option, r->text, name);
	if (p->lacks && p->lacking == f->module)
		return ip_error("%s %s: %s is recorded, but the debug information of %s lacks the "
				"file that it shares with others, %s: install it, or name the "
				"folder that has both (--list)",
				option, r->text, name, path, p->lacks);
	return ip_error("%s %s: %s is recorded, but no debug information of %s tells of it: build "
			"it with -g, install its debug symbols, or name their folder (--list)",
			option, r->text, name, path);
}

/* Finds a function that the request names: one that debug information should tell of, if there is
 * one. Returns its number in the plan; -1: none is recorded. */
static long find_named(const struct planner *p, const struct ip_value_request *r)
{
	long found = -1;

	for (size_t i = 0; i < p->plan->nfunctions; i++) {
		const struct ip_plan_function *f = &p->plan->functions[i];
		const struct ip_value_function named = name_of(f, NULL);

		if (f->silent ||
		    (r->selection && !ip_selection_match(r->selection, named.linker_name,
							 named.file, named.module)))
			continue;
		if (found < 0 || (p->functions[i].wanted && !p->functions[found].wanted))
			found = (long)i;
	}
	return found;
}

/* Checks that each request fits a function. */
static int check_outcomes(const struct planner *p, const struct ip_target *target)
{
	const struct ip_value_requests *requests = p->options->requests;
	const int unfit = ip_value_outcomes_unfit(requests, p->outcomes);
	_cleanup_free_ char *nearest = NULL;
	const struct ip_value_request *r;
	long named = -1;

	if (unfit < 0)
		return 0;
	r = &requests->items[unfit];
	if (!p->outcomes[unfit].why)
		named = find_named(p, r);
	if (named < 0)
		nearest = ip_plan_nearest(p->plan, r->selection);
	if (named < 0)
		ip_value_outcomes_error(r, &p->outcomes[unfit], nearest);
	else
		tell_unable(p, r, (size_t)named);
	return ip_error_prefix("pid %d", target->pid);
}

/* Notes the functions that a request names besides those that it fits. */
static void note_unfit(const struct planner *p)
{
	const struct ip_value_requests *requests = p->options->requests;
	struct ip_value_gaps *g = p->gaps;

	for (size_t i = 0; requests && i < requests->n; i++) {
		const struct ip_value_outcome *o = &p->outcomes[i];
		const bool when = requests->items[i].kind == IP_REQUEST_WHEN;
		char *why = when ? g->unfit_condition_why : g->unfit_why;

		if (!o->fits || !o->unfit)
			continue;
		*(when ? &g->unfit_conditions : &g->unfit) += o->unfit;
		if (!*why)
			snprintf(why, sizeof(g->unfit_why), "%s", o->why);
	}
}

int ip_values_plan(struct ip_plan *plan, const struct ip_target *target,
		   const struct ip_modules *modules, const struct ip_value_options *options,
		   struct ip_area *area, const struct ip_signatures *signatures,
		   struct ip_value_gaps *gaps)
{
	struct planner p = {.plan = plan,
			    .options = options,
			    .area = area,
			    .signatures = signatures,
			    .gaps = gaps,
			    .index_size = 4 * IP_AREA_PROGRAMS};
	size_t nrequests = options->requests ? options->requests->n : 0;
	int ret = -1;

	plan->program_of = calloc(plan->nchanges ? plan->nchanges : 1, sizeof(*plan->program_of));
	p.functions = calloc(plan->nfunctions ? plan->nfunctions : 1, sizeof(*p.functions));
	p.index = calloc(p.index_size, sizeof(*p.index));
	p.hashes = calloc(p.index_size, sizeof(*p.hashes));
	p.outcomes = calloc(nrequests + 1, sizeof(*p.outcomes));
	if (!plan->program_of || !p.functions || !p.index || !p.hashes || !p.outcomes) {
		ip_error("out of memory");
		goto out;
	}
	if (plan_modules(&p, target, modules) < 0 || check(&p, target) < 0)
		goto out;
	if (!gaps->checked && check_outcomes(&p, target) < 0)
		goto out;
	gaps->checked = true;
	note_unfit(&p);
	if (p.lacks)
		snprintf(gaps->lacks, sizeof(gaps->lacks), "%s", p.lacks);
	gaps->no_reading |= ip_values_is_confined(target);
	/* If hooks read the clock by system calls, the shared clock must be set ahead before
	 * may_read changes: watch_confinement() in loop.c */
	if ((area->header->modes & (IP_MODE_MONOTONIC | IP_MODE_COARSE)) != IP_MODE_MONOTONIC)
		area->may_read = !gaps->no_reading;
	ret = 0;
out:
	free(p.lacks);
	free(p.functions);
	free(p.index);
	free(p.hashes);
	ip_value_outcomes_clear(p.outcomes, nrequests);
	return ret;
}

int ip_values_check(struct ip_plan *plan, const struct ip_target *target,
		    const struct ip_modules *modules, const struct ip_value_options *options)
{
	/* --args and --retval of all functions fit always */
	const struct ip_value_options named = {.string_limit = options->string_limit,
					       .requests = options->requests};
	const size_t nrequests = options->requests ? options->requests->n : 0;
	struct ip_value_gaps gaps = {0};
	struct planner p = {.plan = plan, .options = &named, .gaps = &gaps};
	int ret = -1;

	if (!nrequests)
		return 0;
	p.functions = calloc(plan->nfunctions + 1, sizeof(*p.functions));
	p.outcomes = calloc(nrequests + 1, sizeof(*p.outcomes));
	if (!p.functions || !p.outcomes)
		ip_error("out of memory");
	else if (plan_modules(&p, target, modules) == 0 && check(&p, target) == 0)
		ret = check_outcomes(&p, target);
	free(p.lacks);
	free(p.functions);
	ip_value_outcomes_clear(p.outcomes, nrequests);
	return ret;
}
