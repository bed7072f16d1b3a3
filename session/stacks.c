/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks the stacks of the attach. The steps are told in stacks.h; the comments here name them.
 */
#include "session/stacks.h"

#include <stdlib.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "common/notice.h"
#include "common/now.h"
#include "common/trace/trace_format.h"
#include "common/units.h"
#include "hotpatcher/process/stack_unwind.h"
#include "hotpatcher/ptrace/stack_copies.h"
#include "hotpatcher/ptrace/stops.h"

#define SLICE_NS   1000000ull
#define LAST_NS	   500000000ull
#define FRAMES_MAX (64u << 10) /* of all threads together: the session file is often rewritten */

/* Where a function of the plan lies. */
struct place {
	uint64_t start; /* its address */
	uint64_t site;	/* its last entry site: a thread that stands behind it has entered */
	uint32_t number, frame;
};

struct ip_stacks {
	struct place *places; /* by start */
	size_t nplaces;
	struct ip_stack_copies *copies;
	struct ip_stack_unwind *unwind;
	size_t next;   /* the copy that is walked next */
	size_t frames; /* told so far */
	struct ip_unwind_frame unwound[IP_STACK_UNWIND_MAX];
	struct ip_trace_stack_frame told[IP_STACK_FRAMES_MAX];
};

static int by_start(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

/* Whether frames of the function are told. */
static bool is_told(const struct ip_plan_function *f)
{
	return f->duty == IP_DUTY_LOG && !f->inlined && !f->jumps && !f->silent && !f->entry_only &&
	       f->frame && f->frame != UINT32_MAX &&
	       f->module->list->functions[f->function].address;
}

static int find_places(struct ip_stacks *s, const struct ip_plan *plan)
{
	_cleanup_free_ uint64_t *sites = calloc(plan->nfunctions + 1, sizeof(*sites));
	bool sorted = true;

	s->places = calloc(plan->nfunctions + 1, sizeof(*s->places));
	if (!s->places || !sites)
		return ip_error("out of memory");
	for (size_t i = 0; i < plan->nchanges; i++) {
		const struct ip_change *c = &plan->changes[i];
		uint64_t *site = &sites[plan->function_of[i]];

		if (c->kind == IP_PROBE_ENTRY && c->address > *site)
			*site = c->address;
	}
	for (size_t i = 0; i < plan->nfunctions; i++) {
		const struct ip_plan_function *f = &plan->functions[i];

		if (!sites[i] || !is_told(f))
			continue;
		s->places[s->nplaces++] =
			(struct place){.start = f->module->list->functions[f->function].address +
						f->module->load_bias,
				       .site = sites[i],
				       .number = f->number,
				       .frame = f->frame};
	}
	/* one module's functions mostly are in order */
	for (size_t i = 1; i < s->nplaces && sorted; i++)
		sorted = s->places[i - 1].start <= s->places[i].start;
	if (!sorted)
		qsort(s->places, s->nplaces, sizeof(*s->places), by_start);
	return 0;
}

int ip_stacks_create(struct ip_target *target, const struct ip_plan *plan, struct ip_stacks **ret)
{
	struct ip_stacks *s = calloc(1, sizeof(*s));

	if (!s)
		return ip_error("out of memory");
	if (find_places(s, plan) < 0 || ip_stack_copies_create(target, &s->copies) < 0) {
		ip_stacks_destroy(s);
		return -1;
	}
	ip_stops_of(target)->copies = s->nplaces ? s->copies : NULL;
	*ret = s;
	return 0;
}

bool ip_stacks_taken(struct ip_stacks *s, struct ip_target *target,
		     const struct ip_modules *modules)
{
	ip_stops_of(target)->copies = NULL;
	if (s->copies->missed)
		ip_notice("pid %d: the stop would have become longer by copying the stack%s of "
			  "%zu more thread%s: calls that are open there are not in the trace",
			  target->pid, ip_plural(s->copies->missed), s->copies->missed,
			  ip_plural(s->copies->missed));
	if (!s->copies->n)
		return false;
	if (ip_stack_unwind_create(target, modules, &s->unwind) < 0) {
		ip_notice("%s", ip_error_message());
		return false;
	}
	return true;
}

void ip_stacks_destroy(struct ip_stacks *s)
{
	if (!s)
		return;
	ip_stack_unwind_destroy(s->unwind);
	ip_stack_copies_destroy(s->copies);
	free(s->places);
	free(s);
}

static const struct place *find(const struct ip_stacks *s, uint64_t start)
{
	const struct place key = {.start = start};

	return start ? bsearch(&key, s->places, s->nplaces, sizeof(key), by_start) : NULL;
}

/* Walks one stack, and tells the frames of functions that are recorded. */
static void walk(struct ip_stacks *s, const struct ip_stack_copy *copy,
		 const struct ip_target *target, struct ip_trace *trace)
{
	bool whole, inner = target->inner_pid != target->pid;
	size_t n = ip_stack_unwind_walk(s->unwind, copy, s->unwound, &whole), told = 0;

	while (n-- > 0) {
		const struct ip_unwind_frame *f = &s->unwound[n];
		const struct place *p = find(s, f->start);

		if (!p || f->caller <= p->frame || (f->exact && f->pc <= p->site))
			continue;
		s->told[told++] = (struct ip_trace_stack_frame){
			.number = p->number, .sp = (f->caller - p->frame) & ~7ull};
	}
	if (!told)
		return;
	s->frames += told;
	ip_trace_add_stack(trace, target->inner_pid,
			   inner ? ip_proc_inner_pid(copy->tid) : copy->tid, s->copies->tsc,
			   s->told, told);
}

bool ip_stacks_step(struct ip_stacks *s, const struct ip_target *target, struct ip_trace *trace,
		    bool last)
{
	const uint64_t end = ip_now_ns() + (last ? LAST_NS : SLICE_NS);

	while (s->next < s->copies->n && s->frames < FRAMES_MAX && ip_now_ns() < end)
		walk(s, &s->copies->items[s->next++], target, trace);
	return s->next < s->copies->n && s->frames < FRAMES_MAX && !last;
}
