/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives the calls of a trace to a builder of operations.
 */
#include "analysis/darc/read_operations.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/darc/handover_builder.h"
#include "analysis/darc/preemption.h"

#include "common/error.h"
#include "common/selection/selection.h"

struct reader {
	struct ip_trace_reader *trace;
	struct ip_darc_builder *builder;
	const uint64_t *payload; /* that came with the current event */
	uint32_t tid, member;
	bool skips, failed, plain;
	const struct ip_states *states;
	const struct ip_interrupts *interrupts;
	struct ip_preemption preemption; /* of the thread */
	uint64_t since;
	bool began; /* an operation of the thread has begun since then */
	struct ip_symbolizer *places;
	/* what came with the calls that are open; and which call ends now, with what came with its
	 * exit (NULL: nothing) */
	struct ip_open_values open;
	uint32_t leaving;
	const uint64_t *result;
	struct ip_darc_latencies *latencies; /* NULL: operations are read */
	struct ip_darc_range *ranges;
	size_t nranges;
	uint64_t nseen;				    /* operations, of whatever duration */
	const struct ip_darc_read_options *options; /* NULL: latencies are read */
	size_t run, handover;			    /* the next one that may be of the run */
};

/* The thread has an event: a wait may have ended with it. */
static void pass(struct reader *r, uint64_t ts)
{
	const struct ip_handovers *all = r->options ? r->options->handovers : NULL;
	const struct ip_handover *h;
	uint64_t start;

	if (!all || r->skips || !ip_darc_builder_operation(r->builder, &start))
		return;
	for (; r->handover < all->n; r->handover++) {
		h = &all->items[r->handover];
		if (h->run != r->run || h->operation > start ||
		    (h->operation == start && h->to > ts))
			break;
		if (h->operation == start && h->to == ts)
			r->failed |= ip_handover_put(r->builder, all, h, r->member, r->plain) < 0;
	}
}

static void on_values(void *context, const uint64_t *payload)
{
	struct reader *r = context;

	r->payload = payload;
}

static void on_opened(void *context, struct ip_frame *frame, size_t depth)
{
	struct reader *r = context;
	/* what was jumped to returns to where the function around it was called from */
	const uint64_t site =
		frame->flags & IP_FRAME_JOINED || r->plain ? 0 : ip_recording_call_site(r->payload);

	(void)depth;
	pass(r, frame->start);
	if (!r->skips)
		frame->tag = ip_darc_builder_enter(
			r->builder, frame->function, r->member, site, frame->start,
			ip_preemption_until(&r->preemption, frame->start));
	if (r->options && r->options->values && !r->skips &&
	    ip_open_values_enter(&r->open, frame->tag, r->payload) < 0)
		r->failed = true;
}

static void on_point(void *context, uint32_t function, size_t depth, uint64_t ts)
{
	struct reader *r = context;

	(void)depth;
	(void)ts;
	if (r->options && r->options->values && !r->skips &&
	    ip_open_values_point(&r->open, function, r->payload) < 0)
		r->failed = true;
}

static void leave(struct reader *r, const struct ip_frame *frame, uint64_t ts)
{
	pass(r, ts);
	if (r->skips || !frame->tag)
		return;
	if (frame->flags & (IP_FRAME_SUSPECT | IP_FRAME_EARLIER))
		ip_darc_builder_spoil(r->builder);
	ip_darc_builder_leave(r->builder, frame->tag, frame->start, ts,
			      ip_preemption_until(&r->preemption, ts));
	ip_open_values_leave(&r->open, frame->tag);
}

static void on_left(void *context, const struct ip_frame *frame, size_t depth, uint64_t ts)
{
	(void)depth;
	leave(context, frame, ts);
}

static void on_resumed(void *context, const struct ip_frame *frame, size_t depth, uint64_t ts)
{
	struct reader *r = context;

	(void)frame;
	(void)depth;
	(void)ts;
	ip_darc_builder_spoil(r->builder);
}

static void on_closed(void *context, const struct ip_frame *frame, size_t depth, uint64_t end,
		      enum ip_frame_end how)
{
	struct reader *r = context;

	(void)depth;
	if (how == IP_END_UNFINISHED && frame->tag)
		ip_darc_builder_spoil(r->builder);
	r->leaving = frame->tag;
	r->result = ip_frame_has_result(frame, how) ? r->payload : NULL;
	if (how != IP_END_UNWOUND) /* else it was left before */
		leave(r, frame, end);
	r->leaving = 0;
}

static void on_run(void *context, const struct ip_thread_packets *run)
{
	struct reader *r = context;

	ip_darc_builder_run(r->builder, run - r->trace->runs);
	r->skips = r->tid && r->tid != run->tid;
	r->member = run->member;
	r->run = run - r->trace->runs;
	if (r->options && r->options->handovers)
		r->handover = ip_handovers_at(r->options->handovers, r->run, 0);
	r->began = false;
	r->open.innermost = 0;
	ip_preemption_clear(&r->preemption);
	if (r->states && !r->skips &&
	    ip_preemption_begin(
		    &r->preemption, r->states, r->interrupts,
		    ip_states_find(r->states, run->machine_tid,
				   run->begin > r->states->begin ? run->begin : r->states->begin)) <
		    0)
		r->failed = true;
}

/* Whether an operation is too early. */
static bool is_early(struct reader *r, const struct ip_darc_operation *operation)
{
	const bool first = r->since && operation->start >= r->since && !r->began;

	r->began |= first;
	return operation->start < r->since || first;
}

/* Whether it waited for what another thread had begun when other functions were live. */
static bool is_of_early(const struct reader *r, const struct ip_darc_operation *operation)
{
	const struct ip_handovers *all = r->options->handovers;
	size_t i = all && r->since ? ip_handovers_at(all, operation->run, operation->start) : 0;

	for (; all && r->since && i < all->n && all->items[i].run == operation->run &&
	       all->items[i].operation == operation->start;
	     i++)
		if (all->items[i].early)
			return true;
	return false;
}

/* Whether the kernel's events tell for how long the thread waited for a CPU; also where they tell
 * nothing of the thread at all. */
static bool is_covered(const struct reader *r, const struct ip_darc_operation *operation)
{
	const struct ip_thread_states *t = r->preemption.thread;
	size_t span;

	if (!t)
		return true;
	span = ip_states_span_at(t, operation->start);
	return operation->start >= r->states->begin &&
	       operation->start + operation->ticks <= r->states->end && span < t->nspans &&
	       t->spans[span].state != IP_THREAD_UNKNOWN;
}

/* Whether a function that serves is a point: whatever the code around it calls is called by it. */
static bool is_point(const struct reader *r, uint32_t function)
{
	const struct ip_handovers *all = r->options->handovers;

	for (size_t i = 0; all && i < all->nrules; i++)
		if (all->rules[i].server == function && all->rules[i].by_point)
			return true;
	return false;
}

static bool is_callee(void *context, uint32_t above, uint32_t function, uint32_t member,
		      uint64_t call_site)
{
	struct reader *r = context;
	const struct ip_recording *s = r->trace->session;
	const char *name = s->functions[above].linker_name;
	const struct ip_place *place =
		call_site ? ip_symbolizer_get(r->places, member, s->functions[function].module,
					      call_site)
			  : NULL;

	r->failed |= call_site && !place;
	return !place || !place->function || is_point(r, above) ||
	       (strlen(place->function) == ip_base_name_length(name) &&
		!strncmp(place->function, name, strlen(place->function)));
}

static bool on_latency(void *context, struct ip_darc_operation *operation)
{
	struct reader *r = context;
	const uint64_t ns = ip_recording_ns(r->trace->session, operation->ticks);

	if (is_early(r, operation))
		return false;
	ip_peak_bins_add(&r->latencies->bins, ns);
	ip_histogram_add(&r->latencies->durations, ns);
	return false;
}

static bool on_operation(void *context, struct ip_darc_operation *operation)
{
	struct reader *r = context;
	const uint64_t ns = ip_recording_ns(r->trace->session, operation->ticks);
	struct ip_darc_range *range = r->ranges;
	double each;

	if (is_early(r, operation) || !is_covered(r, operation) || is_of_early(r, operation))
		return false;
	r->nseen++;
	while (range < r->ranges + r->nranges && (ns < range->from_ns || ns >= range->to_ns))
		range++;
	if (range == r->ranges + r->nranges)
		return false;
	/* how many there are is not known: the first ones */
	if (!range->count && range->operations.n >= range->most) {
		range->seen++;
		return false;
	}
	/* the first of each so many */
	each = range->count > range->most ? (double)range->count / range->most : 1;
	if ((double)range->seen++ < range->operations.n * each)
		return false;
	if (ip_darc_operations_add(&range->operations, operation) < 0) {
		r->failed = true;
		return false;
	}
	return true;
}

static void on_call_ended(void *context, const struct ip_darc_call_end *call)
{
	struct reader *r = context;
	struct ip_darc_call_end told = *call;

	if (r->options->values)
		told.open = ip_open_values_of(&r->open, call->number);
	if (r->options->values && call->number == r->leaving)
		told.result = r->result;
	if (!r->failed && r->options->call_ended(r->options->context, &told) < 0)
		r->failed = true;
}

static int visit(struct reader *r, struct ip_ftree *ftree,
		 const struct ip_darc_builder_options *options, uint64_t *ret_events)
{
	static const struct ip_frames_ops ops = {.opened = on_opened,
						 .left = on_left,
						 .resumed = on_resumed,
						 .closed = on_closed,
						 .point = on_point,
						 .values = on_values};
	const struct ip_trace_visitor visitor = {.ops = &ops, .context = r, .run = on_run};
	int ret;

	r->builder = ip_darc_builder_create(ftree, options);
	if (!r->builder)
		return -1;
	ret = ip_trace_reader_visit(r->trace, &visitor, ret_events);
	if (r->latencies)
		r->latencies->left_out = ip_darc_builder_spoilt(r->builder);
	r->failed |= ip_darc_builder_failed(r->builder);
	ip_darc_builder_destroy(r->builder);
	ip_preemption_clear(&r->preemption);
	ip_open_values_clear(&r->open);
	return r->failed ? -1 : ret;
}

int ip_darc_latencies_read(struct ip_trace_reader *trace, uint32_t function, uint32_t tid,
			   uint64_t since, struct ip_darc_latencies *ret)
{
	struct reader r = {.trace = trace, .tid = tid, .since = since, .latencies = ret};
	const struct ip_darc_builder_options options = {
		.function = function, .ended = on_latency, .context = &r};
	struct ip_ftree ftree;
	int code = ip_ftree_begin(&ftree, function);

	*ret = (struct ip_darc_latencies){0};
	if (code == 0)
		code = visit(&r, &ftree, &options, &ret->events);
	ip_ftree_clear(&ftree);
	if (code == 0 && ret->durations.dropped)
		return ip_error("out of memory");
	return code;
}

void ip_darc_latencies_clear(struct ip_darc_latencies *l)
{
	ip_histogram_deinit(&l->durations);
	*l = (struct ip_darc_latencies){0};
}

uint64_t ip_darc_latencies_percentile(const struct ip_darc_latencies *l, double share)
{
	const uint64_t ns = ip_histogram_percentile(&l->durations, share, 0, UINT64_MAX);
	const unsigned row = ip_histogram_row_of(ns);

	return ip_histogram_step_from(row, ip_histogram_step_of(ns, row));
}

uint64_t ip_darc_latencies_between(const struct ip_darc_latencies *l, uint64_t from_ns,
				   uint64_t to_ns)
{
	uint64_t n = 0;

	for (unsigned row = 0; row < IP_HISTOGRAM_ROWS; row++)
		for (unsigned step = 0; l->durations.rows[row] && step < IP_HISTOGRAM_STEPS;
		     step++) {
			const uint64_t ns = ip_histogram_step_from(row, step);

			if (ns >= from_ns && ns < to_ns)
				n += l->durations.rows[row][step];
		}
	return n;
}

int ip_darc_operations_read(struct ip_trace_reader *trace, const struct ip_darc_read_options *o,
			    struct ip_ftree *ftree, struct ip_darc_range *ranges, size_t nranges,
			    uint64_t *ret_seen)
{
	int ret;
	struct reader r = {.trace = trace,
			   .tid = o->tid,
			   .ranges = ranges,
			   .nranges = nranges,
			   .states = o->waits ? o->waits->states : NULL,
			   .interrupts = o->waits ? &o->waits->interrupts : NULL,
			   .since = o->since,
			   .plain = o->plain,
			   .places = o->places,
			   .open.most = o->depth < UINT32_MAX ? o->depth + 1 : o->depth,
			   .options = o};
	const struct ip_darc_builder_options options = {.function = o->function,
							.depth = o->depth,
							.own = o->own,
							.is_callee = o->places ? is_callee : NULL,
							.ended = on_operation,
							.call_ended = o->call_ended ? on_call_ended
										    : NULL,
							.context = &r};
	uint64_t events;

	ret = visit(&r, ftree, &options, &events);
	*ret_seen = r.nseen;
	return ret;
}
