/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The collector: its polls and its final counts.
 */
#include "collector/collector.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "access/delegation.h"
#include "collector/collector_private.h"
#include "collector/observer_private.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/process_set.h"
#include "hotpatcher/ptrace/stop.h"

#define REAP_INTERVAL_NS 50000000ull
/* Reap more often while a look costs little: then the ends of threads are known more exactly. */
#define REAP_OFTEN_NS	  20000000ull
#define REAP_OFTEN_SLOTS  32u
#define FLUSH_TURNS	  1000
#define COMPRESSOR_NAP_NS 1000000ull /* sleep while packets are being compressed */

int ip_collector_create(struct ip_area *area, struct ip_trace *trace, struct ip_target *target,
			uint64_t max_size, struct ip_collector **ret)
{
	struct ip_collector *c = calloc(1, sizeof(*c));

	if (!c)
		return ip_error("out of memory");
	c->area = area;
	c->trace = trace;
	c->target = target;
	c->max_size = max_size;
	c->slots = calloc(IP_AREA_SLOTS, sizeof(*c->slots));
	c->ready = calloc(area->nsubbufs, sizeof(*c->ready));
	c->copy = malloc(IP_SUBBUF_SIZE);
	c->records = malloc(IP_SUBBUF_SIZE);
	c->suspended = calloc(area->nsubbufs, sizeof(*c->suspended));
	c->processes = ip_process_set_create(false);
	if (!c->processes || !c->suspended || !c->slots || !c->ready || !c->copy || !c->records) {
		ip_collector_destroy(c);
		return ip_error("out of memory");
	}
	*ret = c;
	return 0;
}

void ip_collector_resume(struct ip_collector *c)
{
	ip_drain_resume(c);
}

void ip_collector_destroy(struct ip_collector *c)
{
	if (!c)
		return;
	ip_observer_destroy(c->looks);
	ip_flight_recorder_destroy(c->recorder);
	ip_compressor_destroy(c->compressor);
	free(c->slots);
	free(c->suspended);
	ip_process_set_destroy(c->processes);
	free(c->ready);
	free(c->copy);
	free(c->records);
	free(c);
}

int ip_collector_overwrite(struct ip_collector *c)
{
	return ip_flight_recorder_begin(c);
}

int ip_collector_snapshot(struct ip_collector *c, struct ip_trace *trace, uint64_t since,
			  struct ip_flight_recorder_counts *ret)
{
	return ip_flight_recorder_snapshot(c, trace, since, ret);
}

int ip_collector_finish(struct ip_collector *c)
{
	return c->recorder ? ip_flight_recorder_finish(c) : 0;
}

int ip_collector_poll(struct ip_collector *c)
{
	uint64_t now = ip_now_ns();
	bool often = !c->recorder && slots_used(c) <= REAP_OFTEN_SLOTS;
	int taken;

	if (ip_drain_write_ready(c) < 0)
		return -1;
	taken = ip_drain_full(c, false);
	if (taken < 0)
		return -1;
	if (now - c->reaped_ns > (often ? REAP_OFTEN_NS : REAP_INTERVAL_NS)) {
		c->reaped_ns = now;
		ip_drain_end_suspensions(c, now);
		if (ip_reap(c) < 0)
			return -1;
		if (c->recorder) {
			ip_flight_recorder_trim(c);
			ip_flight_recorder_share(c);
		}
	}
	ip_observer_look(c);
	return taken;
}

uint64_t ip_collector_nap(const struct ip_collector *c, struct ip_poll_interval *interval,
			  int taken, bool records, uint64_t now_ns, uint64_t max_ns)
{
	int32_t nfree = __atomic_load_n(&c->area->header->nfree, __ATOMIC_RELAXED);
	unsigned total = c->area->nsubbufs, nready = nfree < 0		       ? 0
						     : (unsigned)nfree > total ? total
									       : (unsigned)nfree;

	if (c->compressor && !ip_compressor_is_empty(c->compressor) && max_ns > COMPRESSOR_NAP_NS)
		max_ns = COMPRESSOR_NAP_NS;
	/* the collector drains nothing, and the number of free sub-buffers means nothing */
	if (c->recorder)
		nready = total;
	if (!records)
		nready = UINT32_MAX;
	return ip_poll_interval_nap(interval, now_ns, taken, nready, total, slots_used(c), max_ns);
}

/* Drains and releases all claims. Claims for which gone is set, or all if gone is NULL, belong to
 * threads that have ended. */
static int flush(struct ip_collector *c, const uint8_t *gone)
{
	int taken, turns = 0;

	/* A target that keeps writing, or that writes into the descriptors, must not keep the
	 * collector here. */
	do {
		taken = ip_drain_full(c, true);
	} while (taken > 0 && ++turns < FLUSH_TURNS);
	if (taken < 0)
		return -1;
	for (uint32_t i = 0; i < slots_used(c); i++) {
		if (!is_claimed(c, i))
			continue;
		/* Without gone (exec), the last look may have seen a thread of the new program. */
		if (ip_drain_slot(c, i,
				  !gone	    ? c->slots[i].seen_before
				  : gone[i] ? c->slots[i].seen
					    : IP_LIVES) < 0)
			return -1;
		ip_drain_release(c, i);
	}
	return ip_drain_settle(c);
}

int ip_collector_flush(struct ip_collector *c)
{
	return flush(c, NULL);
}

int ip_collector_end(struct ip_collector *c)
{
	_cleanup_free_ uint8_t *gone = calloc(IP_AREA_SLOTS, 1);

	if (!gone)
		return ip_error("out of memory");
	ip_reap_look(c, gone);
	return flush(c, gone);
}

int ip_collector_move(struct ip_collector *c, struct ip_area *area)
{
	struct ip_ready *ready;
	uint64_t *suspended;

	if (ip_collector_flush(c) < 0)
		return -1;
	ready = calloc(area->nsubbufs, sizeof(*ready));
	suspended = calloc(area->nsubbufs, sizeof(*suspended));
	if (!ready || !suspended) {
		free(ready);
		free(suspended);
		return ip_error("out of memory");
	}
	free(c->ready);
	free(c->suspended);
	c->ready = ready;
	c->suspended = suspended;
	/* Claims are compared by their clock. The streams go on, and so do their counts of lost
	 * events. */
	for (uint32_t i = 0; i < IP_AREA_SLOTS; i++)
		c->slots[i].in_use = false;
	c->unserved_before += c->area->header->unserved;
	c->area = area;
	return 0;
}

int ip_collector_flush_process(struct ip_collector *c, pid_t pid)
{
	uint32_t used = slots_used(c);
	/* slots may be claimed meanwhile */
	_cleanup_free_ uint8_t *gone = calloc(IP_AREA_SLOTS, 1);
	int taken, turns = 0;

	if (!gone)
		return ip_error("out of memory");
	for (uint32_t i = 0; i < used; i++)
		gone[i] = is_claimed(c, i) && (pid_t)c->area->slots[i].pid == pid;
	do {
		c->gone = gone;
		taken = ip_drain_full(c, false);
		c->gone = NULL;
	} while (taken > 0 && ++turns < FLUSH_TURNS);
	taken = taken > 0 ? 0 : taken;
	for (uint32_t i = 0; i < used && taken == 0; i++) {
		if (!gone[i] || !is_claimed(c, i))
			continue;
		taken = ip_drain_slot(c, i, c->slots[i].seen_before);
		if (taken == 0)
			ip_drain_release(c, i);
	}
	return taken;
}

void ip_collector_set_counters(struct ip_collector *c, struct ip_counters *counters)
{
	c->counters = counters;
}

void ip_collector_set_nice(struct ip_collector *c, int nice)
{
	c->nice = nice;
}

void ip_collector_set_hot(struct ip_collector *c, struct ip_hot *hot)
{
	c->hot = hot;
}

void ip_collector_set_followed(struct ip_collector *c,
			       bool (*gone)(void *data, pid_t pid, pid_t tid), void *data)
{
	c->followed_gone = gone;
	c->followed = data;
}

void ip_collector_each_process(const struct ip_collector *c, void (*visit)(void *data, pid_t pid),
			       void *data)
{
	for (uint32_t i = 0; i < slots_used(c); i++)
		if (is_claimed(c, i))
			visit(data, c->area->slots[i].pid);
}

void ip_collector_each_recorded(const struct ip_collector *c,
				void (*visit)(void *data, uint32_t pid), void *data)
{
	ip_process_set_each(c->processes, visit, data);
}

bool ip_collector_full(const struct ip_collector *c)
{
	return c->full;
}

bool ip_collector_no_space(const struct ip_collector *c)
{
	return c->no_space;
}

bool ip_collector_in_flight(const struct ip_collector *c)
{
	for (uint32_t i = 0; i < slots_used(c); i++)
		if (is_claimed(c, i) && __atomic_load_n(&c->area->slots[i].guard, __ATOMIC_ACQUIRE))
			return true;
	return false;
}

void ip_collector_stats(const struct ip_collector *c, struct ip_collector_stats *ret)
{
	*ret = (struct ip_collector_stats){.events = c->events,
					   .lost = c->lost_done + c->beyond,
					   .unfinished = c->unfinished_done,
					   .filtered = c->filtered_done,
					   .invalid = c->invalid,
					   .processes = ip_process_set_count(c->processes),
					   .threads = c->threads};
	for (uint32_t i = 0; i < slots_used(c); i++) {
		const struct ip_slot *slot = &c->area->slots[i];
		uint64_t position = slot->cur & IP_POSITION_MASK;

		if (!is_claimed(c, i))
			continue;
		/* with coarse time the position is not at the start of the next sub-buffer */
		if (slot->cur >> IP_POSITION_BITS == IP_NO_SUBBUF)
			position -= position % IP_SUBBUF_WORDS;
		ret->lost += slot->lost + c->slots[i].p.holes;
		ret->unfinished += c->slots[i].p.holes;
		ret->filtered += slot->filtered + slot->held;
		if (position > c->slots[i].p.next_ordinal * IP_SUBBUF_WORDS)
			ret->pending += position - c->slots[i].p.next_ordinal * IP_SUBBUF_WORDS;
	}
	ret->plain = c->compressor ? ip_compressor_plain(c->compressor) : 0;
	if (c->recorder) {
		ret->pending = ip_flight_recorder_kept(c);
		ret->overwritten = ip_flight_recorder_overwritten(c);
	}
	ret->unserved = c->unserved_before + c->area->header->unserved;
	ret->lost += ret->unserved;
}

void ip_collector_priority(bool recording)
{
	const struct sched_param param = {.sched_priority = recording};

	/* iprobed lends the privilege for stops only. No user gets ahead of other users by it for
	 * as long as a session lasts. */
	if (ip_delegation_is_lent())
		return;
	sched_setscheduler(0, (recording ? SCHED_RR : SCHED_OTHER) | SCHED_RESET_ON_FORK, &param);
}
