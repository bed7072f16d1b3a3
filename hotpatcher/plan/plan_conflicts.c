/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes functions out of a plan if another program has changed one of their sites.
 */
#include "hotpatcher/plan/plan_conflicts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "common/names/name_list.h"
#include "common/notice.h"
#include "common/selection/selection.h"

#define PIECE (1u << 20)

/* Reads text in large parts. Sites must come in ascending order. */
struct reader {
	const struct ip_target *target;
	uint8_t *text;
	uint64_t start, end;
};

/* Returns the bytes of changes[i]; NULL: error. The part that is read ends with the last site of
 * the plan within it. */
static const uint8_t *bytes_of(struct reader *r, const struct ip_plan *plan, size_t i)
{
	const struct ip_change *c = &plan->changes[i];

	if (c->address < r->start || c->address + c->length > r->end) {
		size_t last = i;

		while (last + 1 < plan->nchanges && plan->changes[last + 1].address > c->address &&
		       plan->changes[last + 1].address + IP_SITE_MAX - c->address < PIECE &&
		       plan->changes[last + 1].address - plan->changes[last].address < 4096)
			last++;
		r->start = c->address;
		r->end = plan->changes[last].address + plan->changes[last].length;
		if (ip_target_read(r->target, r->start, r->text, r->end - r->start) < 0) {
			r->end = r->start;
			return NULL;
		}
	}
	return r->text + (c->address - r->start);
}

static char *name_of(const struct ip_plan_function *f)
{
	const struct ip_probe_list *list = f->module->list;

	return ip_name_for_people(ip_probe_list_string(list, list->functions[f->function].name));
}

/* Checks that the site is idle in the module's file. If it is not, there is no site at this
 * address: the list belongs to another build, or is damaged. */
static int check_file(const struct ip_target *target, const struct ip_module *module,
		      const struct ip_change *c)
{
	uint64_t vaddr = c->address - module->load_bias;
	uint8_t bytes[IP_SITE_MAX];

	for (size_t i = 0; i < module->elf->nloads; i++) {
		const struct ip_elf_segment *s = &module->elf->loads[i];

		if (vaddr >= s->vaddr && vaddr + c->length <= s->vaddr + s->filesz &&
		    pread(module->elf->fd, bytes, c->length, s->offset + vaddr - s->vaddr) ==
			    c->length &&
		    memcmp(bytes, c->old_bytes, c->length))
			return ip_error("pid %d: there is no site at %#lx, neither in memory nor "
					"in %s: the probe list is not this file's",
					target->pid, c->address, module->path);
	}
	return 0;
}

/* Marks the functions that have to be taken out. Returns their number, or -1. */
static long find(const struct ip_plan *plan, const struct ip_target *target, bool *gone,
		 struct ip_plan_conflicts *sum)
{
	_cleanup_free_ uint8_t *text = malloc(PIECE);
	struct reader r = {.target = target, .text = text};
	long found = 0;

	if (!text)
		return ip_error("out of memory");
	for (size_t i = 0; i < plan->nchanges; i++) {
		const struct ip_change *c = &plan->changes[i];
		const uint8_t *bytes = bytes_of(&r, plan, i);
		enum ip_site_state state;

		if (!bytes)
			return -1;
		if (!memcmp(bytes, c->old_bytes, c->length))
			continue;
		state = ip_site_state_of_form(target, c->form, c->length, c->transit_regs, c->jump,
					      c->address, bytes);
		if (state == IP_SITE_IDLE)
			continue;
		if (check_file(target, plan->functions[plan->function_of[i]].module, c) < 0)
			return -1;
		if (!sum->sites++) {
			sum->address = c->address;
			sum->state = state;
			sum->function = name_of(&plan->functions[plan->function_of[i]]);
		}
		found += !gone[plan->function_of[i]];
		gone[plan->function_of[i]] = true;
	}
	return found;
}

static void take_out(struct ip_plan *plan, const bool *gone, uint32_t *renumbered)
{
	size_t n = 0;

	for (size_t f = 0; f < plan->nfunctions; f++) {
		renumbered[f] = n;
		if (!gone[f])
			plan->functions[n++] = plan->functions[f];
	}
	plan->nfunctions = n;
	n = 0;
	for (size_t i = 0; i < plan->nchanges; i++) {
		if (gone[plan->function_of[i]])
			continue;
		plan->changes[n] = plan->changes[i];
		plan->probe_of[n] = plan->probe_of[i];
		if (plan->program_of)
			plan->program_of[n] = plan->program_of[i];
		plan->function_of[n++] = renumbered[plan->function_of[i]];
	}
	plan->nchanges = n;
}

int ip_plan_conflicts_take_out(struct ip_plan *plan, const bool *gone)
{
	_cleanup_free_ uint32_t *renumbered = calloc(plan->nfunctions + 1, sizeof(*renumbered));
	long left;

	if (!renumbered)
		return ip_error("out of memory");
	take_out(plan, gone, renumbered);
	left = ip_plan_count_functions(plan, false);
	if (left < 0)
		return -1;
	plan->ndistinct = left;
	return 0;
}

int ip_plan_conflicts_leave_out(struct ip_plan *plan, const struct ip_target *target,
				struct ip_plan_conflicts *sum)
{
	_cleanup_free_ bool *gone = calloc(plan->nfunctions + 1, sizeof(*gone));
	size_t before = plan->nchanges;
	long found, distinct;

	if (!gone)
		return ip_error("out of memory");
	found = find(plan, target, gone, sum);
	if (found <= 0)
		return found;
	distinct = ip_plan_count_functions(plan, false);
	if (distinct < 0 || ip_plan_mark_whole(plan, gone) < 0 ||
	    ip_plan_conflicts_take_out(plan, gone) < 0)
		return -1;
	sum->left_out += before - plan->nchanges;
	sum->functions += distinct - plan->ndistinct;
	if (plan->nchanges)
		return 0;
	return ip_error("pid %d: somebody else has changed a site of each selected function (the "
			"first is %s at %#lx: %s): end that first",
			target->pid, sum->function ? sum->function : "?", sum->address,
			ip_site_state_name(sum->state));
}

void ip_plan_conflicts_tell(const struct ip_plan_conflicts *f, pid_t pid)
{
	if (!f->sites)
		return;
	ip_notice("pid %d: %zu site%s that somebody else has changed (the first: %s, of %s at "
		  "%#lx): %zu function%s left out",
		  pid, f->sites, f->sites == 1 ? "" : "s", ip_site_state_name(f->state),
		  f->function ? f->function : "?", f->address, f->functions,
		  f->functions == 1 ? "" : "s");
}

void ip_plan_conflicts_clear(struct ip_plan_conflicts *f)
{
	free(f->function);
	*f = (struct ip_plan_conflicts){0};
}
