/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which functions a plan takes, beyond those that were selected: the ones that others end by
 * jumping to. A call lasts until it returns to its caller, whoever executes the return. So where a
 * function of which durations are wanted leaves by a jump, and the jump leads to a function with
 * probes, that one goes live too, silently, and the ones that it jumps to in turn.
 *
 * A jump is followed only where both do the same: their events are logged, or their calls measured
 * in the process, or sampled by fperf. A function that is only logged is measured, too, where a
 * call goes on in it of which the duration is waited for (IP_DUTY_TIMED). Where that cannot be (one
 * is counted, or has the user's own payload; functions of which a site cannot be written) the call
 * ends at the jump, and says so.
 */
#ifndef IP_PLAN_CHOICE_H
#define IP_PLAN_CHOICE_H

#include "hotpatcher/process/tails.h"

enum {
	IP_CHOICE_OPEN, /* not looked at */
	IP_CHOICE_NOT,	/* not selected */
	IP_CHOICE_SELECTED,
	IP_CHOICE_SILENT, /* not selected, but jumped to */
};

struct ip_tail_callee {
	uint32_t module; /* UINT32_MAX: not known */
	uint32_t function;
};

struct ip_module_choice {
	uint8_t *state, *duty; /* by function and instance: 2 * function + inlined */
	uint8_t *broken;       /* by function: a site of it cannot be written, or it was dropped */
	uint8_t *tails;	       /* by function: it has jumps that are not followed; the plan's */
	struct ip_tail_callee *targets; /* by probe; NULL: of none */
};

struct ip_choice {
	const struct ip_modules *modules;
	struct ip_module_choice *items; /* as the modules; empty where there is no list */
	bool exclusive; /* fperf counts what is the functions' own: that ends at a jump */
};

/* modules are borrowed. 0, or -1: out of memory, with an error. */
int ip_choice_init(struct ip_choice *choice, const struct ip_modules *modules);
void ip_choice_clear(struct ip_choice *choice);

/* Takes what the jumps of the selected ones lead to. 0 or -1. */
int ip_choice_follow(struct ip_choice *choice, const struct ip_target *target);

/* Whether the probe is a tail exit whose call can be followed. */
bool ip_choice_follows(const struct ip_choice *choice, uint32_t module, uint32_t probe);

#endif
