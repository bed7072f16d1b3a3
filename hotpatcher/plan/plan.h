/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plan: the sites of all modules that a selection stands for, and the bytes that have to be
 * written there. It is made while the target runs, so that nothing is left to decide during the
 * stop.
 */
#ifndef IP_PLAN_H
#define IP_PLAN_H

#include <stdint.h>

#include "common/names/name_list.h"
#include "hotpatcher/patch/patch.h"
#include "hotpatcher/plan/selections.h"
#include "hotpatcher/process/modules.h"
#include "hotpatcher/shm/area.h"

/* One selected function, its inlined instance, or its jumps: what a trace knows by one number. */
struct ip_plan_function {
	const struct ip_module *module;
	uint32_t module_index;
	uint32_t function; /* in the module's probe list */
	uint32_t number;   /* set by ip_plan_bind */
	/* it has the second number of its function: it is an inlined instance, or the jumps */
	uint8_t inlined;
	/* tail exits that lead on to functions with live sites: the call goes on there
	 * (plan_choice.h) */
	uint8_t jumps;
	uint8_t silent; /* not selected: other functions end by jumping to it */
	/* it has tail exits that lead to an unknown function, or to one without sites */
	uint8_t tails;
	/* its tail exits are returns (IP_FORM_RETURN): none of its calls ends by a jump */
	uint8_t returns;
	uint8_t entry_only; /* it has no exit probes */
	uint8_t tail_exits; /* it has tail exits of any kind */
	uint8_t duty;	    /* enum ip_duty */
	/* frame of its entry sites (ip_pl_probe); if they differ, the smallest; 0: unknown */
	uint32_t frame;
};

/* The linker name of a function of the plan. */
static inline const char *ip_plan_function_name(const struct ip_plan_function *f)
{
	const struct ip_probe_list *list = f->module->list;

	return ip_probe_list_string(list, list->functions[f->function].name);
}

/* A tail exit of the first function leads to the second one. Both are given by module and index in
 * the module's list. */
struct ip_plan_jump {
	uint32_t module_index, function;
	uint32_t to_module, to_function;
	const struct ip_module *module, *to; /* borrowed, as in struct ip_plan_function */
};

struct ip_payload_rule;

struct ip_plan {
	struct ip_change *changes; /* new_bytes are set by ip_plan_bind */
	uint32_t *function_of;	   /* index into functions, per change */
	uint32_t *probe_of;	   /* index into the probes of the function's module, per change */
	size_t nchanges;
	struct ip_plan_function *functions;
	size_t nfunctions; /* distinct numbers */
	size_t ndistinct;  /* distinct functions: an inlined instance and its function count once */
	/* selected sites that cannot be patched safely (can_cross() in plan.c) */
	size_t left_out;
	size_t nmodules_patched; /* modules with at least one site in the plan */
	size_t ncounts, nhists;	 /* functions with those duties */
	/* The first function for which two rules of --payload disagree; NULL: none */
	const struct ip_payload_rule *disagree[2];
	const char *disagree_on;
	/* Values (hotpatcher/plan/value_plan.h); NULL: none are recorded */
	uint32_t *program_of; /* index + 1 into programs, per change; 0: no values */
	struct ip_value_program *programs;
	size_t nprograms;
	struct ip_plan_jump *jumps;
	size_t njumps;
};

/* Applies the selection and the rules of --payload. Returns -1 with an error if no probe matches
 * (the error names the nearest functions), if no module has probes, or if rules contradict each
 * other or match no selected function. */
int ip_plan_select(const struct ip_target *target, const struct ip_modules *modules,
		   const struct ip_selections *selections, struct ip_plan *ret);

/* Does the same as ip_plan_select(), but it is no error if no probe matches. */
int ip_plan_match(const struct ip_target *target, const struct ip_modules *modules,
		  const struct ip_selections *selections, struct ip_plan *ret);

/* Checks that the selection that was added last decides about at least one function of the modules.
 * Returns 0, or -1 with the error of ip_plan_select(). */
int ip_plan_check_last(const struct ip_target *target, const struct ip_modules *modules,
		       const struct ip_selections *selections);

/* Returns the items of the selection that have matched nothing, and the functions nearest to them
 * (ip_selection_unused_nearest(); malloc'ed). NULL: none. */
char *ip_plan_unused(const struct ip_modules *modules, const struct ip_selection *selection);

/* Returns " (nearest: a, b)", of the functions of the plan that are selected, for a selection that
 * matches none of them; "" where none is near; malloc'ed. NULL: no memory. */
char *ip_plan_nearest(const struct ip_plan *plan, const struct ip_selection *selection);

void ip_plan_clear(struct ip_plan *plan);

/* Counts the functions that are silent, or those that are not. An inlined instance and its function
 * are separate in the plan, but count once. -1 with an error: out of memory. */
long ip_plan_count_functions(const struct ip_plan *plan, bool silent);
/* Counts the functions that are silent, with the names of the first ones, and their sites. Returns
 * 0, or -1 with an error where memory ran out. */
int ip_plan_count_silent(const struct ip_plan *plan, struct ip_name_list *ret_functions,
			 size_t *ret_sites);

/* marks: by index into functions. Completes the marks: a function and its jumps belong together, so
 * if one of them is marked, the other gets the mark, too. Returns 0, or -1: out of memory. */
int ip_plan_mark_whole(const struct ip_plan *plan, bool *marks);

/* Gives every selected function its number and its stub, writes the stubs into the target's pools
 * (no site jumps there yet), and fills in the live form of every site. */
int ip_plan_bind(struct ip_plan *plan, struct ip_target *target, struct ip_area *area);

/* The same in two steps. After the first one functions have their numbers, and stubs are being
 * written: see ip_stub_writer_start() for what may not be touched until the second one, which must
 * come if the first one did not fail. Each returns 0, or -1 with an error. */
struct ip_stub_writer;
int ip_plan_bind_begin(struct ip_plan *plan, struct ip_target *target, struct ip_area *area,
		       struct ip_stub_writer **ret);
int ip_plan_bind_end(struct ip_stub_writer *writer);

/* Returns whether durations of the function's calls are measured in the process. */
bool ip_plan_measures(const struct ip_plan_function *function);

/* Returns whether any function of the plan fills rings, or needs the session to wake up as often as
 * if it did (fperf). The other functions count and measure in places of their own. */
bool ip_plan_records(const struct ip_plan *plan);

/* Returns whether stubs were ever made for the module that is mapped at start. If so, its sites may
 * be live. */
bool ip_area_has_stubs(const struct ip_area *area, uint64_t start);

/* Returns the number of the module's first function, as the trace needs it; 0: the module has none
 * yet. */
uint32_t ip_plan_first_number(const struct ip_area *area, const struct ip_module *module);

#endif
