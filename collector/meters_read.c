/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads counts and histograms out of the area.
 */
#include <string.h>

#include "collector/meters_private.h"
#include "common/condition.h"

static uint64_t since64(const uint64_t *now, uint64_t *seen)
{
	uint64_t value = ip_meter_load64(now), more = value - *seen;

	*seen = value;
	return more;
}

static uint64_t since32(const uint32_t *now, uint32_t *seen)
{
	uint32_t value = ip_meter_load32(now), more = value - *seen;

	*seen = value;
	return more;
}

/* Takes the longest duration out of the block, so that the next one begins anew. The hook raises it
 * by an instruction that is not locked, if the duration is more than what stands there. So a hook
 * that comes in between has either read what we take, which is no less than its own duration, or it
 * writes its own duration over our zero. Nothing is lost. */
static uint32_t take_max(struct ip_hist *hist)
{
	return ip_meter_load32(&hist->max) ? __atomic_exchange_n(&hist->max, 0, __ATOMIC_RELAXED)
					   : 0;
}

static void collect_hist(struct ip_meter *m, struct ip_hist *now, struct ip_hist *seen)
{
	const uint32_t max = m->keeps_max ? take_max(now) : ip_meter_load32(&now->max),
		       min = ip_meter_load32(&now->min);
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
		struct ip_meter *m = &c->meters[i];
		uint32_t inside, part = ip_blocks_part(c->area, block, m->offset, &inside);
		char *now = (char *)ip_area_meters(c->area, part) + inside;
		char *seen = c->seen[part] + inside;
		const uint64_t calls = m->calls + m->unmeasured, self = m->self;

		if (m->duty == IP_DUTY_COUNT)
			m->calls += since64((const uint64_t *)now, (uint64_t *)seen);
		else if (ip_meter_measures(m->duty))
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
	uint64_t open = ip_meter_load64(&meters->top) / sizeof(*meters->frames);

	for (uint64_t i = 0; i < open && i < c->area->blocks.depth; i++) {
		uint32_t offset =
			IP_DUTY_OFFSET((uint32_t)ip_meter_load64(&meters->frames[i].duty));

		for (size_t k = 0; ip_meter_load64(&meters->frames[i].sp) && k < c->nmeters; k++)
			if (ip_meter_measures(c->meters[k].duty) && c->meters[k].offset == offset) {
				c->meters[k].unmeasured++;
				break;
			}
	}
}

/* A thread has ended: adds its cells to the sums. */
static void collect_user(struct ip_counters *c, uint32_t block)
{
	for (size_t i = 0; c->user && i < c->nmeters; i++) {
		const struct ip_meter *m = &c->meters[i];
		uint32_t inside, part;

		if (m->duty != IP_DUTY_USER || !m->offset)
			continue;
		part = ip_blocks_part(c->area, block, m->offset, &inside);
		ip_user_merge(c->user,
			      (const char *)ip_area_meters(c->area, part) + inside + m->cell,
			      m->sums);
	}
}

void ip_counters_release(struct ip_counters *c, const struct ip_slot *slot)
{
	uint32_t block = ip_meter_load32(&slot->block);
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
	c->reentered += ip_meter_load64(&meters->reentered);
	for (uint32_t i = block; i < c->nblocks; i += c->area->blocks.n) {
		memset((char *)ip_area_meters(c->area, i) + sizeof(meters->state), 0,
		       c->area->blocks.size - sizeof(meters->state));
		memset(c->seen[i], 0, c->area->blocks.size);
	}
	c->sums[block] = (struct ip_meter_block_sum){0};
	if (holds)
		c->kind->keep(c->kind->data, block);
	__atomic_store_n(&meters->state, holds ? IP_METERS_LEFT : IP_METERS_FREE, __ATOMIC_RELEASE);
	/* The lowest blocks are handed out first, so that the upper half can become more room. */
	if (block < c->area->header->meters_hint)
		c->area->header->meters_hint = block;
}

void ip_counters_durations(struct ip_counters *c, uint32_t number,
			   struct ip_condition_durations *ret)
{
	HOLD(c);
	const struct ip_meter *m;

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
