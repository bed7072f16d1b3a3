/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packs short calls in four steps:
 *
 * 1. The bins of the timeline tell how many of them end when. Neighbouring bins make a span.
 * 2. Where the limit has no room for all spans, some are wanted: in the order of their reversed
 *    bits, which spreads any number of them over the whole time.
 * 3. The trace is read once more. The calls of one run in one span are gathered, sorted by row, and
 *    appended to the columns of the span.
 * 4. The wanted spans are compressed in the same order, until the limit is reached.
 */
#include "analysis/export/timeline_details.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "analysis/read/session.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"

#define SPAN_CALLS 16384u /* a span ends with the bin that brings as many */
/* A span with more calls would take a browser too long. So many end in one bin where more than a
 * hundred threads make calls at once. */
#define SPAN_MAX (1u << 20)
/* No more calls than these are gathered for a byte of packed text. Programs
 * that were tried took 0.7 to 0.95 bytes a call. */
#define CALLS_A_BYTE 2u

struct short_call {
	uint64_t start, end;
	uint32_t function, row, depth;
};

struct packing {
	struct ip_timeline *timeline;
	const struct ip_recording *session;
	const uint32_t *shown;
	struct ip_timeline_details *details;
	size_t at; /* the span of the gathered calls */
	struct short_call *calls, *sorted;
	size_t ncalls, room;
};

/* Step 1 */
static int make_spans(struct packing *p)
{
	const struct ip_timeline *t = p->timeline;
	struct ip_timeline_details *d = p->details;
	uint64_t calls = 0;

	for (size_t bin = 0; bin < t->nbins; bin++) {
		calls += t->ends[bin];
		if (calls < SPAN_CALLS && bin + 1 < t->nbins)
			continue;
		if (ip_array_grow(&d->spans, d->nspans, sizeof(*d->spans)) < 0)
			return -1;
		d->spans[d->nspans++] = (struct ip_detail_span){
			.end = (uint64_t)(bin + 1) << t->bin_shift, .calls = calls};
		d->left_out += calls;
		calls = 0;
	}
	return 0;
}

/* Returns the next span in the order of step 2; nspans: there is none. *step begins at 0. */
static size_t next_span(const struct ip_timeline_details *d, size_t *step)
{
	unsigned bits = 0;

	while ((size_t)1 << bits < d->nspans)
		bits++;
	while (*step >> bits == 0) {
		size_t i = 0, k = (*step)++;

		for (unsigned b = 0; b < bits; b++)
			i |= (k >> b & 1) << (bits - 1 - b);
		if (i < d->nspans)
			return i;
	}
	return d->nspans;
}

/* Step 2. Returns by span whether it is wanted; NULL with an error. */
static bool *choose(const struct ip_timeline_details *d, uint64_t limit)
{
	bool *wanted = calloc(d->nspans + 1, sizeof(*wanted));
	uint64_t calls = 0;

	if (!wanted) {
		ip_error("out of memory");
		return NULL;
	}
	for (size_t step = 0, i; (i = next_span(d, &step)) < d->nspans;) {
		if (calls >= limit * CALLS_A_BYTE)
			break;
		wanted[i] = d->spans[i].calls && d->spans[i].calls <= SPAN_MAX;
		calls += wanted[i] ? d->spans[i].calls : 0;
	}
	return wanted;
}

static int put(struct ip_detail_column *c, uint64_t value)
{
	if (c->room - c->n < 10) {
		size_t room = c->room ? 2 * c->room : 64;
		uint8_t *bytes = realloc(c->bytes, room);

		if (!bytes)
			return ip_error("out of memory");
		c->bytes = bytes;
		c->room = room;
	}
	for (; value >= 0x80; value >>= 7)
		c->bytes[c->n++] = value | 0x80;
	c->bytes[c->n++] = value;
	return 0;
}

/* Puts the calls of one row into the columns. */
static int put_row(struct packing *p, struct ip_detail_span *s, const struct short_call *c,
		   size_t n)
{
	uint64_t span_end = ip_recording_ns(p->session, s->end), last = 0;

	if (put(&s->sections, c->row) < 0 || put(&s->sections, n) < 0)
		return -1;
	for (size_t i = 0; i < n; i++) {
		uint64_t start = ip_recording_ns(p->session, c[i].start),
			 end = ip_recording_ns(p->session, c[i].end);

		/* In one row no call begins before the one before it has ended. */
		if (i && start < last)
			start = last;
		if (end < start)
			end = start;
		if (put(i ? &s->gaps : &s->sections, i ? start - last : span_end - start) < 0 ||
		    put(&s->lengths, end - start) < 0 ||
		    put(&s->functions, p->shown[c[i].function]) < 0)
			return -1;
		last = end;
	}
	return 0;
}

/* Step 3: the gathered calls, sorted by depth, which is by row in one run. The order of those of
 * one depth stays. */
static int put_gathered(struct packing *p)
{
	struct ip_detail_span *s = &p->details->spans[p->at];
	size_t from[IP_TIMELINE_DEPTHS + 1] = {0};

	if (!p->ncalls)
		return 0;
	s->seen += p->ncalls;
	for (size_t i = 0; i < p->ncalls; i++)
		from[p->calls[i].depth + 1]++;
	for (unsigned d = 0; d < IP_TIMELINE_DEPTHS; d++)
		from[d + 1] += from[d];
	for (size_t i = 0; i < p->ncalls; i++)
		p->sorted[from[p->calls[i].depth]++] = p->calls[i];
	for (size_t i = 0, n; i < p->ncalls; i += n) {
		for (n = 1; i + n < p->ncalls && p->sorted[i + n].row == p->sorted[i].row;)
			n++;
		if (put_row(p, s, p->sorted + i, n) < 0)
			return -1;
	}
	p->ncalls = 0;
	return 0;
}

static int on_run(void *context)
{
	struct packing *p = context;

	if (put_gathered(p) < 0)
		return -1;
	p->at = 0;
	return 0;
}

/* Goes to the span in which the time is. The calls of a run come mostly in the order of their ends:
 * it is the present span or the next one. */
static int go_to(struct packing *p, uint64_t time)
{
	const struct ip_detail_span *spans = p->details->spans;
	size_t at = p->at;

	if (at && time < spans[at - 1].end)
		at = 0;
	if (time >= spans[at].end) {
		size_t lo = at, hi = p->details->nspans - 1;

		while (lo < hi) {
			size_t middle = (lo + hi) / 2;

			if (time < spans[middle].end)
				hi = middle;
			else
				lo = middle + 1;
		}
		at = lo;
	}
	if (at != p->at && put_gathered(p) < 0)
		return -1;
	p->at = at;
	return 0;
}

struct gathering {
	struct packing packing;
	const bool *wanted;
};

static int on_call(void *context, const struct ip_timeline_call *call, uint32_t depth)
{
	struct gathering *g = context;
	struct packing *p = &g->packing;

	if (go_to(p, call->end) < 0)
		return -1;
	if (!g->wanted[p->at] ||
	    p->details->spans[p->at].seen + p->ncalls >= p->details->spans[p->at].calls)
		return 0;
	if (p->ncalls == p->room) {
		size_t room = p->room ? 2 * p->room : 1024;
		struct short_call *calls = reallocarray(p->calls, room, sizeof(*calls)), *sorted;

		if (!calls)
			return ip_error("out of memory");
		p->calls = calls;
		sorted = reallocarray(p->sorted, room, sizeof(*sorted));
		if (!sorted)
			return ip_error("out of memory");
		p->sorted = sorted;
		p->room = room;
	}
	p->calls[p->ncalls++] = (struct short_call){.start = call->start,
						    .end = call->end,
						    .function = call->function,
						    .row = call->row,
						    .depth = depth};
	return 0;
}

static char *base64(const uint8_t *bytes, size_t n)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	char *text = malloc((n + 2) / 3 * 4 + 1), *to = text;

	if (!text)
		return NULL;
	for (size_t i = 0; i < n; i += 3) {
		uint32_t three = bytes[i] << 16 | (i + 1 < n ? bytes[i + 1] << 8 : 0) |
				 (i + 2 < n ? bytes[i + 2] : 0);

		*to++ = digits[three >> 18];
		*to++ = digits[three >> 12 & 63];
		*to++ = i + 1 < n ? digits[three >> 6 & 63] : '=';
		*to++ = i + 2 < n ? digits[three & 63] : '=';
	}
	*to = '\0';
	return text;
}

static void free_columns(struct ip_detail_span *s)
{
	struct ip_detail_column *columns[] = {&s->sections, &s->gaps, &s->lengths, &s->functions};

	for (size_t i = 0; i < 4; i++) {
		free(columns[i]->bytes);
		*columns[i] = (struct ip_detail_column){0};
	}
}

/* Makes the text of a span of its columns. Returns it; NULL with an error. */
static char *pack(const struct ip_detail_span *s)
{
	const struct ip_detail_column *columns[] = {&s->sections, &s->gaps, &s->lengths,
						    &s->functions};
	_cleanup_free_ uint8_t *plain = NULL, *small = NULL;
	struct ip_detail_column sizes = {0};
	size_t size = 0;
	uLongf packed;
	char *text = NULL;

	for (size_t i = 0; i < 3; i++)
		if (put(&sizes, columns[i]->n) < 0) {
			free(sizes.bytes);
			return NULL;
		}
	plain = malloc(sizes.n + s->sections.n + s->gaps.n + s->lengths.n + s->functions.n);
	packed = compressBound(sizes.n + s->sections.n + s->gaps.n + s->lengths.n + s->functions.n);
	small = malloc(packed);
	if (plain && small) {
		memcpy(plain, sizes.bytes, size = sizes.n);
		for (size_t i = 0; i < 4; i++) {
			if (columns[i]->n)
				memcpy(plain + size, columns[i]->bytes, columns[i]->n);
			size += columns[i]->n;
		}
		if (compress2(small, &packed, plain, size, Z_DEFAULT_COMPRESSION) == Z_OK)
			text = base64(small, packed);
	}
	free(sizes.bytes);
	if (!text)
		ip_error("out of memory");
	return text;
}

/* Step 4 */
static int pack_spans(struct ip_timeline_details *d, uint64_t limit)
{
	bool full = false;

	for (size_t step = 0, i; (i = next_span(d, &step)) < d->nspans;) {
		struct ip_detail_span *s = &d->spans[i];
		size_t size;
		char *text;

		if (s->seen && !full) {
			text = pack(s);
			if (!text)
				return -1;
			size = strlen(text);
			full = d->size + size > limit;
			if (full) {
				free(text);
			} else {
				s->packed = text;
				d->size += size;
				d->kept += s->seen;
				d->left_out -= s->seen;
			}
		}
		free_columns(s);
	}
	return 0;
}

int ip_timeline_details_collect(struct ip_timeline *timeline, struct ip_trace_reader *trace,
				const uint32_t *shown, uint64_t limit,
				struct ip_timeline_details **ret)
{
	static const struct ip_timeline_receiver receiver = {.call = on_call, .run = on_run};
	struct ip_timeline_details *d = calloc(1, sizeof(*d));
	struct gathering g = {.packing = {.timeline = timeline,
					  .session = trace->session,
					  .shown = shown,
					  .details = d}};
	_cleanup_free_ bool *wanted = NULL;
	int done = 0;

	if (!d)
		return ip_error("out of memory");
	if (timeline->ends) {
		done = make_spans(&g.packing);
		g.wanted = wanted = done < 0 ? NULL : choose(d, limit);
		done = !wanted ? -1 : 0;
		if (done == 0 && limit)
			done = ip_timeline_read_summed(timeline, trace, &receiver, &g);
		if (done == 0)
			done = pack_spans(d, limit);
	}
	free(g.packing.calls);
	free(g.packing.sorted);
	if (done < 0)
		ip_timeline_details_destroy(d);
	else
		*ret = d;
	return done;
}

void ip_timeline_details_destroy(struct ip_timeline_details *d)
{
	if (!d)
		return;
	for (size_t i = 0; i < d->nspans; i++) {
		free(d->spans[i].packed);
		free_columns(&d->spans[i]);
	}
	free(d->spans);
	free(d);
}
