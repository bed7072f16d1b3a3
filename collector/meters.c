/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads counts and histograms out of the area.
 */
#include "collector/meters.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/condition.h"
#include "common/error.h"
#include "common/notice.h"
#include "common/selection/selection.h"
#include "common/units.h"
#include "hotpatcher/plan/filters.h"
#include "hotpatcher/plan/payload_rules.h"
#include "hotpatcher/plan/user_payload.h"
#include "trace_writer/writer_private.h"

/* Room for what comes later: libraries, programs after exec, functions that a second attach adds.
 * If it is not enough, more is made (meter_blocks.h). */
#define MORE_ROOM    2048u
#define MORE_NUMBERS 65536u

struct meter {
	uint32_t number;
	uint32_t duty;	 /* IP_DUTY_COUNT, IP_DUTY_HIST, IP_DUTY_TIMED or IP_DUTY_USER */
	uint32_t offset; /* of the meter in each block */
	uint64_t calls;	 /* IP_DUTY_HIST: calls whose duration is known */
	uint64_t sum, self, min, max, unmeasured;
	uint64_t buckets[IP_HIST_BUCKETS];
	bool tail_exits; /* the meter is a struct ip_hist_tails */
	uint64_t tailed;
	bool keeps_max; /* the longest call is found anew for each look: */
	/* since the last look; and between that one and the look before */
	uint64_t next_max, look_max;
	uint32_t cell;	/* IP_DUTY_USER: distance of the cell from offset */
	uint64_t *sums; /* IP_DUTY_USER: sums of threads that have ended */
	char *name, *module;
};

/* What the thread of a block has counted and measured. */
struct block_sum {
	uint64_t calls, self;
};

struct ip_counters {
	/* While the session changes its plan, the drain thread takes over what ended threads
	 * leave. */
	pthread_mutex_t lock;
	struct ip_area *area;
	struct meter *meters;
	size_t nmeters;
	const struct ip_user_payload *user; /* NULL: none */
	const struct ip_meter_kind *kind;   /* NULL: counts and histograms */
	/* calls left out since the payload was running already, of threads that have ended */
	uint64_t reentered;
	uint32_t *meter_of; /* by number: index into meters + 1 */
	/* by block, parts included: the contents at the last reading. NULL: zeroes */
	char **seen;
	struct block_sum *sums; /* by block, parts not included */
	uint32_t nblocks;
};

static void unlock(pthread_mutex_t **lock)
{
	pthread_mutex_unlock(*lock);
}

/* Holds the lock to the end of the scope. */
#define HOLD(c)                                                                                    \
	__attribute__((unused)) _cleanup_(unlock) pthread_mutex_t *held_ =                         \
		(pthread_mutex_lock(&(c)->lock), &(c)->lock)

/* Returns the room that a function with the user's payload takes: struct ip_user_function with the
 * name, and the cell. *ret_cell: offset of the cell. */
static uint32_t user_room(const struct ip_user_payload *user, const char *name, uint32_t *ret_cell)
{
	*ret_cell = (sizeof(struct ip_user_function) + strlen(name) + 1 + 7) / 8 * 8;
	return *ret_cell + user->cell_size;
}

static void clear_meter(struct meter *m)
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
		       const struct ip_area *area, struct ip_area_needs *ret)
{
	uint32_t known = __atomic_load_n(&area->header->nmodules, __ATOMIC_RELAXED);
	uint64_t numbers = 1 + MORE_NUMBERS;
	uint32_t cell;

	ret->modes |= IP_MODE_PAYLOADS;
	ret->room = plan->ncounts * sizeof(uint64_t) + plan->nhists * sizeof(struct ip_hist) +
		    MORE_ROOM;
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

/* Returns whether the duty has a histogram. */
static bool measures(uint32_t duty)
{
	return duty == IP_DUTY_HIST || duty == IP_DUTY_TIMED;
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
	struct meter *m;
	uint32_t offset;

	if (reach(c, number) < 0)
		return -1;
	if (duty != IP_DUTY_COUNT && !measures(duty)) {
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
		*m = (struct meter){.number = number,
				    .duty = duty,
				    .min = UINT64_MAX,
				    .offset = offset,
				    .tail_exits = tail_exits && measures(duty)};
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
	struct meter *m;

	if (reach(c, f->number) < 0)
		return -1;
	if (!c->meter_of[f->number]) {
		uint32_t room = user_room(c->user, name, &cell);

		if (ip_array_grow(&c->meters, c->nmeters, sizeof(*c->meters)) < 0)
			return -1;
		m = &c->meters[c->nmeters];
		*m = (struct meter){.number = f->number,
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

void ip_counters_tell_tails(const struct ip_plan *plan)
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
	ip_notice("%s%s may end by a tail call to where no probes are: what is measured ends there "
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

static uint32_t load32(const uint32_t *p)
{
	return __atomic_load_n(p, __ATOMIC_RELAXED);
}

static uint64_t load64(const uint64_t *p)
{
	return __atomic_load_n(p, __ATOMIC_RELAXED);
}

static uint64_t since64(const uint64_t *now, uint64_t *seen)
{
	uint64_t value = load64(now), more = value - *seen;

	*seen = value;
	return more;
}

static uint64_t since32(const uint32_t *now, uint32_t *seen)
{
	uint32_t value = load32(now), more = value - *seen;

	*seen = value;
	return more;
}

/* Takes the longest duration out of the block, so that the next one begins anew. The hook raises it
 * by an instruction that is not locked, if the duration is more than what stands there. So a hook
 * that comes in between has either read what we take, which is no less than its own duration, or it
 * writes its own duration over our zero. Nothing is lost. */
static uint32_t take_max(struct ip_hist *hist)
{
	return load32(&hist->max) ? __atomic_exchange_n(&hist->max, 0, __ATOMIC_RELAXED) : 0;
}

static void collect_hist(struct meter *m, struct ip_hist *now, struct ip_hist *seen)
{
	const uint32_t max = m->keeps_max ? take_max(now) : load32(&now->max),
		       min = load32(&now->min);
	uint64_t measured = 0;

	for (unsigned i = 0; i < IP_HIST_BUCKETS; i++) {
		uint64_t more = since32(&now->buckets[i], &seen->buckets[i]);

		m->buckets[i] += more;
		measured += more;
	}
	m->calls += measured;
	m->sum += since64(&now->sum, &seen->sum);
	m->self += since64(&now->self, &seen->self);
	m->unmeasured += since32(&now->unmeasured, &seen->unmeasured);
	if (ip_hist_unpack_most(max) > m->max)
		m->max = ip_hist_unpack_most(max);
	if (ip_hist_unpack_most(max) > m->next_max)
		m->next_max = ip_hist_unpack_most(max);
	if (min && ip_hist_unpack(~min) < m->min)
		m->min = ip_hist_unpack(~min);
}

/* Makes memory for the last contents of the block. Returns false if there is no memory. A later
 * call may have it. Nothing is lost as long as the block stays. */
static bool see(struct ip_counters *c, uint32_t block)
{
	for (uint32_t i = block; i < c->nblocks; i += c->area->blocks.n) {
		if (!c->seen[i])
			c->seen[i] = calloc(1, c->area->blocks.size);
		if (!c->seen[i])
			return false;
	}
	return true;
}

static bool collect_block(struct ip_counters *c, uint32_t block)
{
	if (!see(c, block))
		return false;
	for (size_t i = 0; i < c->nmeters; i++) {
		struct meter *m = &c->meters[i];
		uint32_t inside, part = ip_blocks_part(c->area, block, m->offset, &inside);
		char *now = (char *)ip_area_meters(c->area, part) + inside;
		char *seen = c->seen[part] + inside;
		const uint64_t calls = m->calls + m->unmeasured, self = m->self;

		if (m->duty == IP_DUTY_COUNT)
			m->calls += since64((const uint64_t *)now, (uint64_t *)seen);
		else if (measures(m->duty))
			collect_hist(m, (struct ip_hist *)now, (struct ip_hist *)seen);
		if (m->tail_exits)
			m->tailed += since64(&((const struct ip_hist_tails *)now)->tailed,
					     &((struct ip_hist_tails *)seen)->tailed);
		c->sums[block].calls += m->calls + m->unmeasured - calls;
		c->sums[block].self += m->self - self;
	}
	return true;
}

static void collect_all(struct ip_counters *c)
{
	for (uint32_t i = 0; i < c->area->blocks.n; i++)
		if (__atomic_load_n(&ip_area_meters(c->area, i)->state, __ATOMIC_ACQUIRE) ==
		    IP_METERS_OWNED)
			collect_block(c, i);
}

void ip_counters_collect(struct ip_counters *c)
{
	if (!c)
		return;
	HOLD(c);
	collect_all(c);
}

void ip_counters_look(struct ip_counters *c)
{
	HOLD(c);

	collect_all(c);
	for (size_t i = 0; i < c->nmeters; i++) {
		c->meters[i].look_max = c->meters[i].next_max;
		c->meters[i].next_max = 0;
	}
}

/* Counts the calls that are open when their thread's block is read for the last time. Their
 * durations will never be known. */
static void collect_open(struct ip_counters *c, const struct ip_meters *meters)
{
	uint64_t open = load64(&meters->top) / sizeof(*meters->frames);

	for (uint64_t i = 0; i < open && i < c->area->blocks.depth; i++) {
		uint32_t offset = IP_DUTY_OFFSET((uint32_t)load64(&meters->frames[i].duty));

		for (size_t k = 0; load64(&meters->frames[i].sp) && k < c->nmeters; k++)
			if (measures(c->meters[k].duty) && c->meters[k].offset == offset) {
				c->meters[k].unmeasured++;
				break;
			}
	}
}

/* A thread has ended: adds its cells to the sums. */
static void collect_user(struct ip_counters *c, uint32_t block)
{
	for (size_t i = 0; c->user && i < c->nmeters; i++) {
		const struct meter *m = &c->meters[i];
		uint32_t inside, part;

		if (m->duty != IP_DUTY_USER || !m->offset)
			continue;
		part = ip_blocks_part(c->area, block, m->offset, &inside);
		ip_user_merge(c->user,
			      (const char *)ip_area_meters(c->area, part) + inside + m->cell,
			      m->sums);
	}
}

/* Writes a line of DIR/iprobe/payload.txt: the sums of ended threads plus the cells of the others.
 * sums: room for the result. */
static void write_user(FILE *out, struct ip_counters *c, const struct meter *m, uint64_t *sums)
{
	memcpy(sums, m->sums, c->user->nfields * sizeof(*sums));
	for (uint32_t b = 1; b < c->area->blocks.n; b++) {
		uint32_t inside, part = ip_blocks_part(c->area, b, m->offset, &inside);

		if (__atomic_load_n(&ip_area_meters(c->area, b)->state, __ATOMIC_ACQUIRE) ==
		    IP_METERS_OWNED)
			ip_user_merge(c->user,
				      (const char *)ip_area_meters(c->area, part) + inside +
					      m->cell,
				      sums);
	}
	ip_trace_put_value(out, m->name);
	putc('\t', out);
	ip_trace_put_value(out, m->module);
	for (uint32_t i = 0; i < c->user->nfields; i++)
		fprintf(out, "\t%lu", sums[i]);
	putc('\n', out);
}

static int save_user(struct ip_counters *c, struct ip_trace *trace)
{
	_cleanup_free_ uint64_t *sums = calloc(c->user->nfields + 1, sizeof(*sums));
	_cleanup_free_ char *text = NULL;
	uint64_t reentered = c->reentered;
	size_t size;
	FILE *out = sums ? open_memstream(&text, &size) : NULL;

	if (!out)
		return ip_error("out of memory");
	for (uint32_t b = 1; b < c->area->blocks.n; b++)
		reentered += load64(&ip_area_meters(c->area, b)->reentered);
	fprintf(out, "# payload %s, %lu calls left out since it was running\nfunction\tmodule",
		c->user->path, reentered);
	for (uint32_t i = 0; i < c->user->nfields; i++)
		fprintf(out, "\t%s", c->user->fields[i].name);
	putc('\n', out);
	for (size_t i = 0; i < c->nmeters; i++)
		if (c->meters[i].duty == IP_DUTY_USER && c->meters[i].offset)
			write_user(out, c, &c->meters[i], sums);
	if (fclose(out) != 0)
		return ip_error("out of memory");
	return ip_trace_save(trace, IP_TRACE_PAYLOAD, text, size);
}

void ip_counters_release(struct ip_counters *c, const struct ip_slot *slot)
{
	uint32_t block = load32(&slot->block);
	struct ip_meters *meters;
	bool holds;

	if (!c)
		return;
	HOLD(c);
	if (!block || block >= c->area->blocks.n)
		return;
	meters = ip_area_meters(c->area, block);
	if (__atomic_load_n(&meters->state, __ATOMIC_ACQUIRE) != IP_METERS_OWNED)
		return;
	if (!collect_block(c, block))
		return;
	collect_open(c, meters);
	collect_user(c, block);
	holds = c->kind && c->kind->release(c->kind->data, block);
	c->reentered += load64(&meters->reentered);
	for (uint32_t i = block; i < c->nblocks; i += c->area->blocks.n) {
		memset((char *)ip_area_meters(c->area, i) + sizeof(meters->state), 0,
		       c->area->blocks.size - sizeof(meters->state));
		memset(c->seen[i], 0, c->area->blocks.size);
	}
	c->sums[block] = (struct block_sum){0};
	if (holds)
		c->kind->keep(c->kind->data, block);
	__atomic_store_n(&meters->state, holds ? IP_METERS_LEFT : IP_METERS_FREE, __ATOMIC_RELEASE);
	/* The lowest blocks are handed out first, so that the upper half can become more room. */
	if (block < c->area->header->meters_hint)
		c->area->header->meters_hint = block;
}

static void write_hist(FILE *out, const struct meter *m)
{
	fprintf(out, "hist\t%u\t%lu\t%lu\t%lu\t%lu\t%lu\t", m->number, m->calls, m->unmeasured,
		m->sum, m->calls && m->min != UINT64_MAX ? m->min : 0, m->max);
	for (unsigned i = 0; i < IP_HIST_BUCKETS; i++)
		fprintf(out, "%s%lu", i ? "," : "", m->buckets[i]);
	fprintf(out, "\nself\t%u\t%lu\n", m->number, m->self);
	if (m->tail_exits)
		fprintf(out, "tailed\t%u\t%lu\n", m->number, m->tailed);
}

/* Writes a line for each thread that has called something. Slots are memory that the target can
 * write to: their numbers are only numbers here, and there are at most as many lines as slots. */
static void write_threads(FILE *out, const struct ip_counters *c)
{
	uint32_t used = __atomic_load_n(&c->area->header->slots_used, __ATOMIC_ACQUIRE);

	if (c->sums[0].calls)
		fprintf(out, "thread\t0\t0\t0\t%lu\t%lu\n", c->sums[0].calls, c->sums[0].self);
	for (uint32_t i = 0; i < used && i < IP_AREA_SLOTS; i++) {
		const struct ip_slot *slot = &c->area->slots[i];
		const uint32_t block = load32(&slot->block), tid = load32(&slot->tid);

		if (load32(&slot->state) != IP_SLOT_CLAIMED || !tid || !block ||
		    block >= c->area->blocks.n || !c->sums[block].calls)
			continue;
		fprintf(out, "thread\t%u\t%u\t%lu\t%lu\t%lu\n", load32(&slot->pid), tid,
			load64(&slot->claimed), c->sums[block].calls, c->sums[block].self);
	}
}

int ip_counters_save(struct ip_counters *c, struct ip_trace *trace)
{
	_cleanup_free_ char *text = NULL;
	struct ip_clock_reading now;
	size_t size;
	FILE *out;

	if (!c || !c->nmeters)
		return 0;
	out = open_memstream(&text, &size);
	if (!out)
		return ip_error("out of memory");
	HOLD(c);
	if (c->user && save_user(c, trace) < 0) {
		fclose(out);
		return -1;
	}
	ip_clock_read(&now);
	fprintf(out, "iprobe-counts\t1\ntime\t%lu\nbuckets\t%u\t%u\n", now.tsc, IP_HIST_BUCKETS,
		IP_HIST_SHIFT);
	for (size_t i = 0; i < c->nmeters; i++)
		if (c->meters[i].duty == IP_DUTY_HIST)
			write_hist(out, &c->meters[i]);
		else if (c->meters[i].duty == IP_DUTY_COUNT)
			fprintf(out, "count\t%u\t%lu\n", c->meters[i].number, c->meters[i].calls);
	write_threads(out, c);
	fputs("end\n", out);
	if (fclose(out) != 0)
		return ip_error("out of memory");
	return ip_trace_save(trace, IP_TRACE_COUNTS, text, size);
}

void ip_counters_durations(struct ip_counters *c, uint32_t number,
			   struct ip_condition_durations *ret)
{
	HOLD(c);
	const struct meter *m;

	*ret = (struct ip_condition_durations){0};
	if (number >= IP_AREA_DUTIES || !c->meter_of[number])
		return;
	m = &c->meters[c->meter_of[number] - 1];
	ret->calls = m->calls;
	ret->sum = m->sum;
	ret->max = m->look_max;
	memcpy(ret->buckets, m->buckets, sizeof(ret->buckets));
}

void ip_counters_keep_max(struct ip_counters *c, uint32_t number)
{
	HOLD(c);

	if (number < IP_AREA_DUTIES && c->meter_of[number])
		c->meters[c->meter_of[number] - 1].keeps_max = true;
}

uint64_t ip_counters_calls(const struct ip_counters *c)
{
	uint64_t calls = 0;

	for (size_t i = 0; c && i < c->nmeters; i++)
		calls += c->meters[i].calls + c->meters[i].unmeasured;
	return calls;
}
