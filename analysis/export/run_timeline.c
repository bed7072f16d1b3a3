/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds calls in a run with the help of its index. How long a call lasts that began in a slice is
 * read on, but for the long ones: the timeline has these, and their end is read where they end.
 */
#include "analysis/export/run_timeline.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/read/values.h"
#include "common/error.h"

#define STAYS_MAX 131072u
#define SLICES	  16384u

int ip_run_timeline_make(struct ip_trace_reader *trace, const struct ip_thread_packets *run,
			 struct ip_run_timeline **ret)
{
	struct ip_run_timeline *t = calloc(1, sizeof(*t));

	if (!t)
		return ip_error("out of memory");
	t->trace = trace;
	t->run = run;
	if (ip_timeline_collect_run(trace, run, STAYS_MAX, SLICES, &t->sums, &t->index) < 0) {
		free(t);
		return -1;
	}
	*ret = t;
	return 0;
}

void ip_run_timeline_destroy(struct ip_run_timeline *t)
{
	if (!t)
		return;
	ip_timeline_destroy(t->sums);
	ip_run_index_destroy(t->index);
	free(t);
}

/* ---- the next call ---- */

struct search {
	const bool *wanted;
	uint64_t ts, calls;
	uint32_t after;
	bool backwards, found;
	bool stop; /* no later call can be the one */
	struct ip_timeline_item item;
};

/* Takes a call that begins at ts. */
static void consider(struct search *s, uint32_t function, size_t depth, uint64_t ts, bool point)
{
	uint32_t tag = s->calls < IP_NO_TAG ? s->calls : IP_NO_TAG;
	bool known = s->after != IP_NO_TAG && tag != IP_NO_TAG;
	bool before = known ? tag < s->after : ts < s->ts;
	bool behind = known ? tag > s->after : ts >= s->ts;

	s->calls++;
	if (s->stop)
		return;
	if (s->backwards && !before)
		s->stop = true;
	if (!s->wanted[function] || (s->backwards ? !before : !behind))
		return;
	s->item = (struct ip_timeline_item){.start = ts,
					    .end = ts,
					    .function = function,
					    .depth = depth < UINT32_MAX ? depth : UINT32_MAX,
					    .tag = tag,
					    .point = point,
					    .open = !point};
	s->found = true;
	s->stop |= !s->backwards;
}

static void search_opened(void *context, struct ip_frame *frame, size_t depth)
{
	struct search *s = context;

	frame->tag = s->calls < IP_NO_TAG ? s->calls : IP_NO_TAG;
	consider(s, frame->function, depth, frame->start, false);
}

static void search_point(void *context, uint32_t function, size_t depth, uint64_t ts)
{
	consider(context, function, depth, ts, true);
}

int ip_timeline_next(const struct ip_run_timeline *t, const bool *wanted, uint64_t ts,
		     uint32_t after, bool backwards, struct ip_timeline_item *ret)
{
	static const struct ip_frames_ops ops = {.opened = search_opened, .point = search_point};
	struct search s = {.wanted = wanted, .ts = ts, .after = after, .backwards = backwards};
	const struct ip_slice_visitor visitor = {
		.ops = &ops, .context = &s, .calls = &s.calls, .stop = &s.stop};
	uint64_t from = ts, to = backwards ? ts : UINT64_MAX;

	for (;;) {
		uint64_t begin = ip_run_index_before(t->index, from);

		s.stop = false;
		if (ip_run_index_visit(t->index, from, to, &visitor) < 0)
			return -1;
		if (s.found)
			*ret = s.item;
		if (s.found || !backwards || !begin)
			return s.found;
		from = to = begin;
	}
}

/* ---- what is known of a call ---- */

struct details {
	const struct ip_recording *session;
	struct ip_timeline_item *item;
	struct ip_timeline_call_details *ret;
	const uint64_t *payload;
	uint64_t calls;
	bool begun, ended, failed;
};

/* Returns the values that came with the event as text; NULL: there are none. */
static char *values_text(struct details *d)
{
	const struct ip_signature *signature = ip_recording_signature(d->session, d->payload);
	char *text = NULL;
	size_t size;
	FILE *out;

	if (!signature)
		return NULL;
	out = open_memstream(&text, &size);
	if (!out) {
		d->failed = true;
		return NULL;
	}
	ip_values_print(out, signature, d->payload);
	d->failed |= fclose(out) != 0;
	return text;
}

static bool is_item(const struct details *d, uint32_t function, size_t depth, uint64_t ts,
		    uint32_t tag)
{
	const struct ip_timeline_item *i = d->item;

	if (d->begun || ts != i->start || function != i->function)
		return false;
	return i->tag == IP_NO_TAG ? depth == i->depth : tag == i->tag;
}

static void begin(struct details *d, uint32_t tag)
{
	d->begun = true;
	d->item->tag = tag;
	if (!d->ret->args)
		d->ret->args = values_text(d);
}

static void end(struct details *d, const struct ip_frame *frame, uint64_t ts, enum ip_frame_end how)
{
	if (d->ended || frame->tag != d->item->tag || frame->start != d->item->start)
		return;
	d->ended = true;
	d->ret->end = ts;
	d->ret->self = frame->self;
	d->ret->how = how;
	d->ret->flags = frame->flags;
	if (how == IP_END_EXIT && d->payload)
		d->ret->result = values_text(d);
}

static void details_opened(void *context, struct ip_frame *frame, size_t depth)
{
	struct details *d = context;

	frame->tag = d->calls < IP_NO_TAG ? d->calls : IP_NO_TAG;
	d->calls++;
	if (is_item(d, frame->function, depth, frame->start, frame->tag))
		begin(d, frame->tag);
}

static void details_left(void *context, const struct ip_frame *frame, size_t depth, uint64_t ts)
{
	end(context, frame, ts, IP_END_UNWOUND);
}

static void details_closed(void *context, const struct ip_frame *frame, size_t depth, uint64_t ts,
			   enum ip_frame_end how)
{
	if (how != IP_END_UNWOUND)
		end(context, frame, ts, how);
}

static void details_point(void *context, uint32_t function, size_t depth, uint64_t ts)
{
	struct details *d = context;
	uint32_t tag = d->calls < IP_NO_TAG ? d->calls : IP_NO_TAG;

	d->calls++;
	if (!is_item(d, function, depth, ts, tag))
		return;
	begin(d, tag);
	d->ended = true;
	d->ret->end = ts;
}

static void details_values(void *context, const uint64_t *payload)
{
	struct details *d = context;

	d->payload = payload;
}

/* Returns the end of a call that the timeline keeps by itself (TSC); 0: it does not. */
static uint64_t kept_end(const struct ip_timeline *t, const struct ip_timeline_item *item)
{
	uint64_t start = item->start - t->begin;
	size_t low = 0, high = t->nstays;
	uint32_t row = 0;

	while (row < t->nrows && t->rows[row].depth != item->depth)
		row++;
	if (row == t->nrows || item->start < t->begin)
		return 0;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct ip_timeline_call *c = &t->stays[middle];

		if (c->row < row || (c->row == row && c->start < start))
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < t->nstays && t->stays[low].row == row && t->stays[low].start == start; low++)
		if (t->stays[low].function == item->function)
			return t->begin + t->stays[low].end;
	return 0;
}

int ip_timeline_details(const struct ip_run_timeline *t, struct ip_timeline_item *item,
			struct ip_timeline_call_details *ret)
{
	static const struct ip_frames_ops ops = {.opened = details_opened,
						 .left = details_left,
						 .closed = details_closed,
						 .point = details_point,
						 .values = details_values};
	struct details d = {.session = t->trace->session, .item = item, .ret = ret};
	const struct ip_slice_visitor visitor = {
		.ops = &ops, .context = &d, .calls = &d.calls, .stop = &d.ended};
	uint64_t known = item->point ? item->start : kept_end(t->sums, item);
	int done;

	*ret = (struct ip_timeline_call_details){0};
	done = ip_run_index_visit(t->index, item->start, known ? item->start : UINT64_MAX,
				  &visitor);
	if (done == 0 && d.begun && known && !d.ended)
		done = ip_run_index_visit(t->index, known, known, &visitor);
	/* It was not the call but another stay of it that ended then. */
	if (done == 0 && d.begun && known && !d.ended) {
		d.begun = false;
		done = ip_run_index_visit(t->index, item->start, UINT64_MAX, &visitor);
	}
	if (done == 0 && d.failed)
		done = ip_error("out of memory");
	if (done < 0 || !d.begun || !d.ended) {
		free(ret->args);
		free(ret->result);
		*ret = (struct ip_timeline_call_details){0};
	}
	return done < 0 ? -1 : d.begun && d.ended;
}
