/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plan: which sites of which modules a selection means, and what has to be written where. Made
 * while the target runs, so that inside the stop nothing is left to decide.
 */
#ifndef IP_PLAN_H
#define IP_PLAN_H

#include <stdint.h>

#include "hotpatcher/patch/patch.h"
#include "hotpatcher/plan/selections.h"
#include "hotpatcher/process/modules.h"
#include "hotpatcher/shm/area.h"

/* One selected (function, inlined or not; or its jumps): what a trace knows by one number. */
struct ip_plan_function {
	const struct ip_module *module;
	uint32_t module_index;
	uint32_t function; /* in the module's probe list */
	uint32_t number;   /* set by ip_plan_bind */
	/* it has the second number of its function: an inlined instance, or the jumps */
	uint8_t inlined;
	/* tail exits that lead on to where sites are live: the call goes on there
	 * (plan_choice.h) */
	uint8_t jumps;
	uint8_t silent; /* nobody has selected it: others end by jumping to it */
	/* it has tail exits that lead nobody knows where, or to where no sites are */
	uint8_t tails;
	/* its tail exits are returns (IP_FORM_RETURN): no call of it ends by a jump */
	uint8_t returns;
	uint8_t entry_only; /* it has no exit probes */
	uint8_t tail_exits; /* it has tail exits of whichever kind */
	uint8_t duty;	    /* enum ip_duty */
	/* of its entry sites (ip_pl_probe); where they differ the least, 0: unknown */
	uint32_t frame;
};

/* A tail exit of the function, by module and index in its list, leads to the other one. */
struct ip_plan_jump {
	uint32_t module_index, function;
	uint32_t to_module, to_function;
	const struct ip_module *module, *to; /* borrowed: as in struct ip_plan_function */
};

struct ip_payload_rule;

struct ip_plan {
	struct ip_change *changes; /* new_bytes are set by ip_plan_bind */
	uint32_t *function_of;	   /* index into functions, per change */
	uint32_t *probe_of;	   /* index into the probes of the function's module, per change */
	size_t nchanges;
	struct ip_plan_function *functions;
	size_t nfunctions; /* distinct numbers */
	size_t ndistinct;  /* distinct functions: inlined and out-of-line count once */
	/* selected sites that cannot be patched safely (see patch.c on crossing) */
	size_t left_out;
	size_t nmodules_patched; /* modules with at least one site in the plan */
	size_t ncounts, nhists;	 /* functions with those duties */
	/* The first function that two rules of --payload disagree about; NULL: none */
	const struct ip_payload_rule *disagree[2];
	const char *disagree_on;
	/* Values (hotpatcher/plan/value_plan.h); NULL: none are recorded */
	uint32_t *program_of; /* index + 1 into programs, per change; 0: no values */
	struct ip_value_program *programs;
	size_t nprograms;
	struct ip_plan_jump *jumps;
	size_t njumps;
};

/* Applies the selection and the rules of --payload. -1 with an error where nothing matches
 * (naming the nearest), nothing has probes, or rules contradict each other or are for nothing. */
int ip_plan_select(const struct ip_target *target, const struct ip_modules *modules,
		   const struct ip_selections *selections, struct ip_plan *ret);

/* The same where it is no error that nothing matches. */
int ip_plan_match(const struct ip_target *target, const struct ip_modules *modules,
		  const struct ip_selections *selections, struct ip_plan *ret);

/* Whether the selection that was added last speaks of any function of the modules; -1 with the
 * error of ip_plan_select(). */
int ip_plan_check_last(const struct ip_target *target, const struct ip_modules *modules,
		       const struct ip_selections *selections);

void ip_plan_clear(struct ip_plan *plan);

/* marks: by index into functions. Marks the others of those functions that have several there,
 * too: a function and its jumps go together. 0, or -1: out of memory. */
int ip_plan_mark_whole(const struct ip_plan *plan, bool *marks);

/* Gives every selected function its number and stub, writes the stubs into the target's pools
 * (nothing jumps there yet) and fills in the live form of every site. */
int ip_plan_bind(struct ip_plan *plan, struct ip_target *target, struct ip_area *area);

/* Whether durations of the function's calls are measured in the process. */
bool ip_plan_measures(const struct ip_plan_function *function);

/* Whether any of its functions fills rings, or wants the session awake as if it did (fperf): others
 * count and measure in places of their own. */
bool ip_plan_records(const struct ip_plan *plan);

/* Whether stubs were ever made for what is mapped at start: its sites may be live. */
bool ip_area_has_stubs(const struct ip_area *area, uint64_t start);

/* Selected functions of one module at a time, as the trace needs them. */
uint32_t ip_plan_first_number(const struct ip_area *area, const struct ip_module *module);

#endif
