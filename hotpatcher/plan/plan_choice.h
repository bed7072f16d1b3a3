/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions that a plan takes beyond those that were selected: functions that others end by
 * jumping to. A call lasts until it returns to its caller, whichever function executes the return.
 * So if the duration of a function is wanted, the function ends by a jump, and the jump leads to a
 * function with probes, then that function goes live too, silently. So do the functions that it
 * jumps to in turn.
 *
 * A jump is followed only if both functions have the same duty: the events of both are logged, or
 * the calls of both are measured in the process, or fperf samples both. A function that is only
 * logged is measured as well if calls go on in it whose duration is waited for (IP_DUTY_TIMED). If
 * this is impossible, the call ends at the jump, and the trace says so. It is impossible if one of
 * the functions is counted, has the user's own payload, or has a site that cannot be written.
 */
#ifndef IP_PLAN_CHOICE_H
#define IP_PLAN_CHOICE_H

#include "hotpatcher/process/tails.h"

enum {
	IP_CHOICE_OPEN, /* not looked at yet */
	IP_CHOICE_NOT,	/* not selected */
	IP_CHOICE_SELECTED,
	IP_CHOICE_SILENT, /* not selected, but jumped to */
};

struct ip_tail_callee {
	uint32_t module; /* UINT32_MAX: unknown */
	uint32_t function;
};

struct ip_module_choice {
	uint8_t *state, *duty; /* by function and instance: 2 * function + inlined */
	uint8_t *broken; /* by function: one of its sites cannot be written, or it was dropped */
	uint8_t *tails;	 /* by function: it has jumps that are not followed; set by the plan */
	struct ip_tail_callee *targets; /* by probe; NULL: no probe has one */
};

struct ip_choice {
	const struct ip_modules *modules;
	struct ip_module_choice *items; /* by module; empty for a module without a list */
	bool exclusive; /* fperf counts the functions' own share only: it ends at a jump */
};

/* Borrows modules. Returns 0, or -1 with an error: out of memory. */
int ip_choice_init(struct ip_choice *choice, const struct ip_modules *modules);
void ip_choice_clear(struct ip_choice *choice);

/* Takes the functions that the jumps of selected functions lead to. Returns 0, or -1. */
int ip_choice_follow(struct ip_choice *choice, const struct ip_target *target);

/* Returns whether the probe is a tail exit whose call can be followed. */
bool ip_choice_follows(const struct ip_choice *choice, uint32_t module, uint32_t probe);

#endif
