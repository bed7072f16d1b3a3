/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives functions their meters: places in the blocks of the area, and duties.
 */
#include "collector/meters.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collector/meters_private.h"
#include "common/array.h"
#include "common/error.h"
#include "common/notice.h"
#include "common/selection/selection.h"
#include "common/units.h"
#include "hotpatcher/plan/filters.h"
#include "hotpatcher/plan/payload_rules.h"
#include "hotpatcher/plan/user_payload.h"

/* Room for what comes later: libraries, programs after exec, functions that a second attach adds.
 * If it is not enough, more is made (meter_blocks.h). */
#define MORE_ROOM    2048u
#define MORE_NUMBERS 65536u
/* of a session that only watches: hundreds of them may wait */
#define LEAN_ROOM    256u
#define LEAN_NUMBERS 1024u

/* Returns the room that a function with the user's payload takes: struct ip_user_function with the
 * name, and the cell. *ret_cell: offset of the cell. */
static uint32_t user_room(const struct ip_user_payload *user, const char *name, uint32_t *ret_cell)
{
	*ret_cell = (sizeof(struct ip_user_function) + strlen(name) + 1 + 7) / 8 * 8;
	return *ret_cell + user->cell_size;
}

static void clear_meter(struct ip_meter *m)
{
	free(m->sums);
	free(m->name);
	free(m->module);
}

static const char *name_of(const struct ip_plan_function *f)
{
	return ip_probe_list_string(f->module->list, f->module->list->functions[f->function].name);
}

void ip_counters_needs(const struct ip_plan *plan, const struct ip_payload_rules *rules,
		       const struct ip_user_payload *user, const struct ip_modules *modules,
		       const struct ip_area *area, bool lean, struct ip_area_needs *ret)
{
	uint32_t known = __atomic_load_n(&area->header->nmodules, __ATOMIC_RELAXED);
	uint64_t numbers = 1 + (lean ? LEAN_NUMBERS : MORE_NUMBERS);
	uint32_t cell;

	ret->modes |= IP_MODE_PAYLOADS;
	ret->room = plan->ncounts * sizeof(uint64_t) + plan->nhists * sizeof(struct ip_hist) +
		    (lean ? LEAN_ROOM : MORE_ROOM);
	for (size_t i = 0; i < plan->nfunctions; i++)
		if (plan->functions[i].tail_exits && ip_plan_measures(&plan->functions[i]))
			ret->room += sizeof(struct ip_hist_tails) - sizeof(struct ip_hist);
	for (size_t i = 0; user && i < plan->nfunctions; i++)
		if (plan->functions[i].duty == IP_DUTY_USER)
			ret->room += user_room(user, name_of(&plan->functions[i]), &cell);
	ret->room += user ? user->scratch_size : 0;
	ret->frames = ip_payload_rules_measure(rules);
	for (size_t i = 0; i < modules->n; i++)
		numbers += modules->items[i].list
				   ? (uint64_t)IP_NUMBERS_PER_FUNCTION *
					     modules->items[i].list->header->nfunctions
				   : 0;
	for (uint32_t i = 0; i < known && i < IP_AREA_MODULES; i++)
		numbers += (uint64_t)IP_NUMBERS_PER_FUNCTION * area->modules[i].nfunctions;
	ret->numbers = numbers < IP_AREA_DUTIES ? numbers : IP_AREA_DUTIES;
}

int ip_counters_create(struct ip_area *area, const struct ip_user_payload *user,
		       struct ip_counters **ret)
{
	struct ip_counters *c = calloc(1, sizeof(*c));

	if (!c)
		return ip_error("out of memory");
	pthread_mutex_init(&c->lock, NULL);
	c->area = area;
	c->user = user;
	c->nblocks = area->blocks.all;
	c->meter_of = calloc(IP_AREA_DUTIES, sizeof(*c->meter_of));
	c->seen = calloc(c->nblocks + 1, sizeof(*c->seen));
	c->sums = calloc(c->nblocks + 1, sizeof(*c->sums));
	if (!c->meter_of || !c->seen || !c->sums) {
		ip_counters_destroy(c);
		return ip_error("out of memory");
	}
	/* placed before all others, so there is room */
	area->user_scratch =
		user && user->scratch_size ? ip_blocks_place(area, user->scratch_size) : 0;
	*ret = c;
	return 0;
}

void ip_counters_destroy(struct ip_counters *c)
{
	if (!c)
		return;
	for (uint32_t i = 0; c->seen && i < c->nblocks; i++)
		free(c->seen[i]);
	for (size_t i = 0; i < c->nmeters; i++)
		clear_meter(&c->meters[i]);
	free(c->seen);
	free(c->sums);
	free(c->meter_of);
	free(c->meters);
	free(c);
}

/* Makes memory for the duties up to this number. A library that was loaded later has numbers above
 * those for which there is memory, and no hook may read a hole. */
static int reach(struct ip_counters *c, uint32_t number)
{
	uint64_t size = (number + 1ull) * sizeof(*c->area->duties);

	if (number < c->area->numbers)
		return 0;
	if (number >= IP_AREA_DUTIES || fallocate(c->area->fd, 0, IP_AREA_DUTIES_OFFSET, size) < 0)
		return ip_error_errno("cannot allocate memory for the payloads of more functions");
	c->area->numbers = number + 1;
	return 0;
}

static int no_room(const struct ip_counters *c)
{
	char have[16];

	return ip_error(
		"no memory is left to count calls or measure them of more than %zu functions in "
		"each thread (%s a thread, --memory gives more): begin another session",
		c->nmeters,
		ip_format_size(c->area->blocks.size * (c->nblocks / c->area->blocks.n), have));
}

static size_t size_of(uint32_t duty, bool tail_exits)
{
	if (duty == IP_DUTY_COUNT)
		return sizeof(uint64_t);
	return tail_exits ? sizeof(struct ip_hist_tails) : sizeof(struct ip_hist);
}

int ip_counters_set(struct ip_counters *c, uint32_t number, uint32_t duty, bool tail_exits)
{
	HOLD(c);
	struct ip_meter *m;
	uint32_t offset;

	if (reach(c, number) < 0)
		return -1;
	if (duty != IP_DUTY_COUNT && !ip_meter_measures(duty)) {
		ip_area_set_duty(c->area, number, duty, 0);
		return 0;
	}
	/* A function that was taken away and comes back keeps its meter. */
	if (!c->meter_of[number] || c->meters[c->meter_of[number] - 1].duty != duty) {
		offset = ip_blocks_place(c->area, size_of(duty, tail_exits));
		if (!offset)
			return no_room(c);
		if (ip_array_grow(&c->meters, c->nmeters, sizeof(*c->meters)) < 0)
			return -1;
		m = &c->meters[c->nmeters++];
		*m = (struct ip_meter){.number = number,
				       .duty = duty,
				       .min = UINT64_MAX,
				       .offset = offset,
				       .tail_exits = tail_exits && ip_meter_measures(duty)};
		c->meter_of[number] = c->nmeters;
	}
	m = &c->meters[c->meter_of[number] - 1];
	ip_area_set_duty(c->area, number, duty, m->offset);
	return 0;
}

static int set_user(struct ip_counters *c, const struct ip_plan_function *f,
		    const struct ip_filter_rule *rule)
{
	HOLD(c);
	const char *name = name_of(f), *base = strrchr(f->module->path, '/');
	struct ip_user_function *info;
	uint32_t cell, inside, part;
	struct ip_meter *m;

	if (reach(c, f->number) < 0)
		return -1;
	if (!c->meter_of[f->number]) {
		uint32_t room = user_room(c->user, name, &cell);

		if (ip_array_grow(&c->meters, c->nmeters, sizeof(*c->meters)) < 0)
			return -1;
		m = &c->meters[c->nmeters];
		*m = (struct ip_meter){.number = f->number,
				       .duty = IP_DUTY_USER,
				       .cell = cell,
				       .sums = calloc(c->user->nfields + 1, sizeof(*m->sums)),
				       .name = ip_demangle(name, true),
				       .module = strdup(base ? base + 1 : f->module->path)};
		if (!m->sums || !m->name || !m->module) {
			clear_meter(m);
			return ip_error("out of memory");
		}
		m->offset = ip_blocks_place(c->area, room);
		if (!m->offset) {
			clear_meter(m);
			return no_room(c);
		}
		/* Set this only after it has a place: a second try must not find half a meter. */
		c->meter_of[f->number] = ++c->nmeters;
		part = ip_blocks_part(c->area, 0, m->offset, &inside);
		info = (struct ip_user_function *)((char *)ip_area_meters(c->area, part) + inside);
		*info = (struct ip_user_function){
			.cell = cell, .frame = rule->frame, .flags = rule->flags};
		memcpy(info->name, name, strlen(name) + 1);
	}
	m = &c->meters[c->meter_of[f->number] - 1];
	ip_area_set_duty(c->area, f->number, IP_DUTY_USER, m->offset);
	return 0;
}

void ip_counters_save_timed(struct ip_counters *c, bool save)
{
	if (c)
		c->saves_timed = save;
}

void ip_counters_set_kind(struct ip_counters *c, const struct ip_meter_kind *kind)
{
	if (c)
		c->kind = kind;
}

/* Takes the lock: the drain thread may be taking over what an ended thread has left. */
static int set_kind(struct ip_counters *c, const struct ip_plan_function *f)
{
	HOLD(c);

	return reach(c, f->number) < 0 ? -1 : c->kind->place(c->kind->data, f);
}

static int set_all_kind(struct ip_counters *c, const struct ip_plan *plan)
{
	for (size_t i = 0; i < plan->nfunctions; i++)
		if (set_kind(c, &plan->functions[i]) < 0)
			return -1;
	return c->kind->follow(c->kind->data, plan);
}

void ip_counters_tell_tails(const struct ip_plan *plan, pid_t pid)
{
	const struct ip_plan_function *first = NULL;
	_cleanup_free_ char *name = NULL;
	char more[40] = "";
	size_t n = 0;

	for (size_t i = 0; i < plan->nfunctions; i++)
		if (plan->functions[i].tails && ip_plan_measures(&plan->functions[i]) && !n++)
			first = &plan->functions[i];
	if (!n)
		return;
	name = ip_demangle(name_of(first), false);
	if (n > 1)
		snprintf(more, sizeof(more), " and %zu more", n - 1);
	ip_notice_of(
		pid,
		"%s%s may end by a tail call to where no probes are: what is measured ends there "
		"(IPROBE_SIBLING_CALLS=no builds without)",
		name ? name : "?", more);
}

int ip_counters_plan(struct ip_counters *c, const struct ip_plan *plan, struct ip_trace *trace)
{
	_cleanup_free_ struct ip_filter_rule *rules = c->user ? ip_filters_call_sites(plan) : NULL;

	if (c->user && !rules)
		return -1;
	for (size_t i = 0; c->user && i < plan->nfunctions; i++)
		if (plan->functions[i].duty == IP_DUTY_USER &&
		    set_user(c, &plan->functions[i], &rules[i]) < 0)
			return -1;
	if (c->kind && set_all_kind(c, plan) < 0)
		return -1;
	for (size_t i = 0; !c->kind && i < plan->nfunctions; i++)
		if (plan->functions[i].duty != IP_DUTY_USER &&
		    ip_counters_set(c, plan->functions[i].number, plan->functions[i].duty,
				    plan->functions[i].tail_exits) < 0)
			return -1;
	return ip_trace_add_payloads(trace, plan);
}
