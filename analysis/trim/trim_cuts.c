/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds where to cut a trace into parts of a given size.
 *
 * The size of the records is added up by slices of time. Then all slices that are too large for
 * a part are divided at once, and the trace is read again. Slices become 64 times narrower each
 * time. So a few readings reach single ticks, however many slices are dense.
 */
#include <stdlib.h>

#include "analysis/trim/trim_private.h"
#include "analysis/trim/trim_write.h"
#include "common/array.h"
#include "common/error.h"

#define SLICES (1u << 16)
#define FAN    64u

struct slice {
	uint64_t bytes;
	struct slice *parts; /* FAN of them, once it has been divided */
};

struct cuts {
	struct ip_trace_reader *trace;
	const struct ip_trim_options *options;
	uint64_t size; /* bytes of records in a part */
	bool newest;
	uint64_t from, to, width; /* of the slices */
	struct slice *slices;
	/* 0: the first reading. Later readings add up what lies in the slices that were divided
	 * last. */
	unsigned reading;
	uint64_t ts, sp; /* of the record before; ts 0: there is none */
	uint64_t *cuts;
	size_t n;
	uint64_t used; /* bytes of the current part */
};

/* Returns the width of the slices that a slice of this width is divided into. The last one may
 * be narrower. */
static uint64_t narrower(uint64_t width)
{
	return (width + FAN - 1) / FAN;
}

static void add(struct cuts *c, uint64_t ts, uint64_t bytes)
{
	uint64_t at = ts > c->from ? ts - c->from : 0, width = c->width, i = at / width;
	struct slice *slice = &c->slices[i < SLICES ? i : SLICES - 1];
	unsigned depth = 0;

	at -= (i < SLICES ? i : SLICES - 1) * width;
	for (; slice->parts; depth++) {
		width = narrower(width);
		i = at / width < FAN ? at / width : FAN - 1;
		at -= i * width;
		slice = &slice->parts[i];
	}
	if (depth == c->reading)
		slice->bytes += bytes;
}

static int size_event(void *context, const struct ip_event *e, const uint64_t *payload)
{
	struct cuts *c = context;
	uint64_t words = 1;

	if (payload)
		words = IP_EXT_WORDS + 1 + IP_PAYLOAD_N(payload[0]);
	else if (!c->ts || !ip_trim_is_compact(e, c->ts, c->sp))
		words = IP_EXT_WORDS;
	add(c, e->ts, 8 * words);
	c->ts = e->ts;
	c->sp = e->sp;
	return 0;
}

/* Each run begins a packet. So does each loss, and the end of a thread is a packet. */
static int size_packet(struct cuts *c, uint64_t ts)
{
	add(c, ts, sizeof(struct ip_packet_header));
	c->ts = 0;
	return 0;
}

static int size_run(void *context, const struct ip_thread_packets *run)
{
	return size_packet(context, run->begin);
}

static int size_run_end(void *context, const struct ip_thread_packets *run)
{
	return size_packet(context, run->end);
}

static int size_lost(void *context, uint64_t n, uint64_t ts)
{
	return size_packet(context, ts);
}

static int size_end(void *context)
{
	return 0;
}

static bool is_dense(const struct cuts *c, const struct slice *slice, uint64_t width)
{
	return slice->bytes > c->size / 8 && width > 1;
}

/* Divides the dense ones of n slices, depth levels down. Returns 1 where some were divided, 0
 * where none was, -1 with an error. */
static int divide(struct cuts *c, struct slice *slices, size_t n, uint64_t width, unsigned depth)
{
	int any = 0;

	for (size_t i = 0; i < n; i++) {
		struct slice *slice = &slices[i];
		int done = 0;

		if (depth && slice->parts) {
			done = divide(c, slice->parts, FAN, narrower(width), depth - 1);
		} else if (!depth && is_dense(c, slice, width)) {
			slice->parts = calloc(FAN, sizeof(*slice->parts));
			done = slice->parts ? 1 : ip_error("out of memory");
		}
		if (done < 0)
			return -1;
		any |= done;
	}
	return any;
}

static void free_slices(struct slice *slices, size_t n)
{
	for (size_t i = 0; slices && i < n; i++)
		free_slices(slices[i].parts, slices[i].parts ? FAN : 0);
	free(slices);
}

static int cut_at(struct cuts *c, uint64_t ts)
{
	if (ip_array_grow(&c->cuts, c->n, sizeof(*c->cuts)) < 0)
		return -1;
	c->cuts[c->n++] = ts;
	c->used = 0;
	return 0;
}

/* Packs n slices from begin on into parts, and continues with the current part. A slice that is
 * too large for a part is packed by its own parts. end: where the slices end. */
static int pack(struct cuts *c, const struct slice *slices, size_t n, uint64_t begin, uint64_t end,
		uint64_t width)
{
	for (size_t i = 0; i < n; i++) {
		size_t k = c->newest ? n - 1 - i : i;
		uint64_t from = begin + k * width,
			 to = from + width < end && k + 1 < n ? from + width : end;
		const struct slice *slice = &slices[k];

		if (!slice->bytes || from >= end)
			continue;
		if (c->used + slice->bytes <= c->size) {
			c->used += slice->bytes;
		} else if (slice->parts) {
			if (pack(c, slice->parts, FAN, from, to, narrower(width)) < 0)
				return -1;
		} else {
			if (c->used && cut_at(c, c->newest ? to : from) < 0)
				return -1;
			c->used = slice->bytes;
		}
	}
	return 0;
}

static int measure(struct cuts *c)
{
	static const struct ip_trim_chosen ops = {size_event, size_lost, size_run, size_run_end,
						  size_end};
	struct ip_trim_options options = *c->options;
	int more;

	c->width = (c->to - c->from) / SLICES + 1;
	c->slices = calloc(SLICES, sizeof(*c->slices));
	if (!c->slices)
		return ip_error("out of memory");
	options.from = c->from;
	options.to = c->to;
	do {
		c->ts = 0;
		if (ip_trim_choose(c->trace, &options, &ops, c) < 0)
			return -1;
		more = divide(c, c->slices, SLICES, c->width, c->reading);
		c->reading++;
	} while (more > 0);
	return more;
}

static int by_time(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

int ip_trim_cuts(struct ip_trace_reader *trace, const struct ip_trim_options *options,
		 uint64_t size, bool newest, uint64_t **ret_cuts, size_t *ret_n)
{
	/* For each thread: a packet that is not full, and its first record. Below, the share of
	 * the headers and first records of full packets is added. */
	uint64_t overhead = trace->nruns * 128ull;
	struct cuts c = {.trace = trace,
			 .options = options,
			 .newest = newest,
			 .from = options->from > trace->begin ? options->from : trace->begin,
			 .to = options->to <= trace->end ? options->to : trace->end + 1};
	int done = 0;

	if (size <= 2 * overhead + 1024)
		return ip_error("%s: has %zu threads: parts of less than %llu bytes cannot be made",
				trace->dir, trace->nruns,
				(unsigned long long)(2 * overhead + 1024));
	c.size = (size - overhead) / 256 * 253;
	if (c.from < c.to) {
		done = measure(&c);
		if (done == 0)
			done = pack(&c, c.slices, SLICES, c.from, c.to, c.width);
		free_slices(c.slices, SLICES);
	}
	if (done < 0) {
		free(c.cuts);
		return -1;
	}
	if (c.n)
		qsort(c.cuts, c.n, sizeof(*c.cuts), by_time);
	*ret_cuts = c.cuts;
	*ret_n = c.n;
	return 0;
}
