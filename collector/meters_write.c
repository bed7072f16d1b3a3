/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes what the meters hold: DIR/iprobe/counts and DIR/iprobe/payload.txt.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collector/meters_private.h"
#include "common/error.h"
#include "trace_writer/writer_private.h"

/* Writes a line of DIR/iprobe/payload.txt: the sums of ended threads plus the cells of the others.
 * sums: room for the result. */
static void write_user(FILE *out, struct ip_counters *c, const struct ip_meter *m, uint64_t *sums)
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
		reentered += ip_meter_load64(&ip_area_meters(c->area, b)->reentered);
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

static void write_hist(FILE *out, const struct ip_meter *m)
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
		const uint32_t block = ip_meter_load32(&slot->block),
			       tid = ip_meter_load32(&slot->tid);

		if (ip_meter_load32(&slot->state) != IP_SLOT_CLAIMED || !tid || !block ||
		    block >= c->area->blocks.n || !c->sums[block].calls)
			continue;
		fprintf(out, "thread\t%u\t%u\t%lu\t%lu\t%lu\n", ip_meter_load32(&slot->pid), tid,
			ip_meter_load64(&slot->claimed), c->sums[block].calls, c->sums[block].self);
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
		if (c->meters[i].duty == IP_DUTY_HIST ||
		    (c->saves_timed && c->meters[i].duty == IP_DUTY_TIMED))
			write_hist(out, &c->meters[i]);
		else if (c->meters[i].duty == IP_DUTY_COUNT)
			fprintf(out, "count\t%u\t%lu\n", c->meters[i].number, c->meters[i].calls);
	write_threads(out, c);
	fputs("end\n", out);
	if (fclose(out) != 0)
		return ip_error("out of memory");
	return ip_trace_save(trace, IP_TRACE_COUNTS, text, size);
}
