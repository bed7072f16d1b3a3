/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the index of a run while all of its events are visited, and visits slices with it.
 */
#include "analysis/callstack/run_index.h"

#include <stdlib.h>

#include "common/array.h"
#include "common/error.h"

#define BATCH 256u

struct ip_checkpoint {
	struct ip_stream_mark mark;
	struct ip_frames_state *state; /* NULL: the run begins here */
	uint32_t packet;	       /* packets of the run before it */
	uint64_t time;		       /* TSC of the event before it; 0: the run's begin */
	uint64_t events, calls;	       /* of the run, before it */
};

/* A run that is being read. */
struct reading {
	const struct ip_trace_reader *trace;
	struct ip_stream *stream;
	struct ip_frames *frames;
	uint32_t packet;
	uint64_t events;
};

static void end_reading(struct reading *r)
{
	ip_stream_close(r->stream);
	ip_frames_destroy(r->frames);
}

/* Opens the stream of the run. The caller ends the reading even where this fails. */
static int begin_reading(const struct ip_trace_reader *t, const struct ip_thread_packets *run,
			 const struct ip_slice_visitor *v, struct reading *ret)
{
	*ret = (struct reading){.trace = t};
	ret->frames = ip_frames_create(t->session, v->ops, v->context);
	if (!ret->frames)
		return -1;
	ip_frames_set_member(ret->frames, run->member);
	return ip_trace_reader_stream(t, run->stream, &ret->stream);
}

/* Goes to the first packet of the run. */
static int skip_runs(const struct ip_trace_reader *t, const struct ip_thread_packets *run,
		     struct ip_stream *stream)
{
	struct ip_packet p;

	for (const struct ip_thread_packets *r = run; r-- > t->runs && r->stream == run->stream;)
		for (uint32_t i = 0; i < r->packets; i++)
			if (ip_trace_reader_next_packet(stream, &p) < 0)
				return -1;
	return 0;
}

/* Gives up every second checkpoint. The first one remains. */
static void thin_out(struct ip_run_index *x)
{
	size_t n = 0;

	for (size_t i = 0; i < x->n; i++) {
		if (i % 2 == 0) {
			x->checkpoints[n++] = x->checkpoints[i];
			continue;
		}
		x->bytes -= ip_frames_state_size(x->checkpoints[i].state);
		ip_frames_state_destroy(x->checkpoints[i].state);
	}
	x->n = n;
	x->every *= 2;
}

static int add_checkpoint(struct ip_run_index *x, const struct reading *r, uint64_t calls,
			  size_t *room)
{
	struct ip_checkpoint c = {.packet = r->packet, .events = r->events, .calls = calls};

	if (x->n == *room) {
		size_t grown = *room ? 2 * *room : 64;
		struct ip_checkpoint *p = reallocarray(x->checkpoints, grown, sizeof(*p));

		if (!p)
			return ip_error("out of memory");
		x->checkpoints = p;
		*room = grown;
	}
	ip_stream_mark(r->stream, &c.mark);
	if (r->events) {
		c.time = ip_frames_now(r->frames);
		c.state = ip_frames_save(r->frames);
		if (!c.state)
			return -1;
		x->bytes += ip_frames_state_size(c.state);
	}
	x->checkpoints[x->n++] = c;
	if (x->bytes > IP_RUN_INDEX_BYTES && x->n > 2)
		thin_out(x);
	return 0;
}

/* Feeds one packet. to: events behind this time are not wanted. Returns 1; 0 where the visitor or
 * to ends the reading; -1 with an error. */
static int feed_packet(struct reading *r, uint64_t to, const bool *stop)
{
	struct ip_event batch[BATCH];
	struct ip_packet p;
	ssize_t n;

	if (ip_trace_reader_next_packet(r->stream, &p) < 0)
		return -1;
	r->packet++;
	if (p.lost || p.missing)
		ip_frames_loss(r->frames);
	while ((n = ip_stream_read(r->stream, batch, BATCH)) > 0) {
		size_t wanted = 0;

		while (wanted < n && batch[wanted].ts <= to)
			wanted++;
		ip_frames_set_payloads(r->frames, ip_stream_payloads(r->stream));
		if (ip_frames_feed(r->frames, batch, wanted) < 0)
			return -1;
		r->events += wanted;
		if (wanted < n || (stop && *stop))
			return 0;
	}
	if (n == 0 && r->trace->on_packet)
		n = r->trace->on_packet(r->trace->on_packet_context, &p);
	return n < 0 ? -1 : 1;
}

static void show_open(const struct ip_slice_visitor *v, const struct ip_frames *frames, bool end)
{
	const struct ip_frame *open;
	size_t n = ip_frames_open(frames, &open);

	if (v->open && n)
		v->open(v->context, open, n, ip_frames_now(frames), end);
}

static int visit_all(struct ip_run_index *x, const struct ip_slice_visitor *v, struct reading *r)
{
	const struct ip_thread_packets *run = x->run;
	uint64_t last = 0;
	size_t room = 0;

	while (r->packet < run->packets) {
		if (!x->n || r->events - last >= x->every) {
			last = r->events;
			if (add_checkpoint(x, r, *v->calls, &room) < 0)
				return -1;
		}
		if (feed_packet(r, UINT64_MAX, NULL) < 0)
			return -1;
	}
	ip_frames_finish(r->frames, run->end);
	x->events = r->events;
	return 0;
}

int ip_run_index_make(struct ip_trace_reader *t, const struct ip_thread_packets *run,
		      const struct ip_slice_visitor *v, uint64_t every, struct ip_run_index **ret)
{
	struct ip_run_index *x = calloc(1, sizeof(*x));
	struct reading r = {0};

	if (!x)
		return ip_error("out of memory");
	x->trace = t;
	x->run = run;
	x->every = every ? every : IP_RUN_INDEX_EVERY;
	*v->calls = 0;
	if (begin_reading(t, run, v, &r) < 0 || skip_runs(t, run, r.stream) < 0 ||
	    ip_frames_begin_run(r.frames, run) < 0 || visit_all(x, v, &r) < 0) {
		end_reading(&r);
		ip_run_index_destroy(x);
		return -1;
	}
	end_reading(&r);
	*ret = x;
	return 0;
}

void ip_run_index_destroy(struct ip_run_index *x)
{
	if (!x)
		return;
	for (size_t i = 0; i < x->n; i++)
		ip_frames_state_destroy(x->checkpoints[i].state);
	free(x->checkpoints);
	free(x);
}

/* Returns the last checkpoint all of whose events are earlier than ts. */
static const struct ip_checkpoint *checkpoint_before(const struct ip_run_index *x, uint64_t ts)
{
	size_t low = 0, high = x->n;

	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (x->checkpoints[middle].time < ts)
			low = middle;
		else
			high = middle;
	}
	return &x->checkpoints[low];
}

uint64_t ip_run_index_before(const struct ip_run_index *x, uint64_t ts)
{
	return x->n ? checkpoint_before(x, ts)->time : 0;
}

uint64_t ip_run_index_cost(const struct ip_run_index *x, uint64_t from, uint64_t to)
{
	const struct ip_checkpoint *first, *last;

	if (!x->n)
		return 0;
	first = checkpoint_before(x, from);
	last = checkpoint_before(x, to < UINT64_MAX ? to + 1 : to) + 1;
	return (last < x->checkpoints + x->n ? last->events : x->events) - first->events;
}

int ip_run_index_visit(const struct ip_run_index *x, uint64_t from, uint64_t to,
		       const struct ip_slice_visitor *v)
{
	const struct ip_checkpoint *c;
	struct reading r = {0};
	int more = 1;

	if (!x->n)
		return 0;
	c = checkpoint_before(x, from);
	*v->calls = c->calls;
	if (begin_reading(x->trace, x->run, v, &r) < 0 || ip_stream_go_to(r.stream, &c->mark) < 0 ||
	    (c->state ? ip_frames_restore(r.frames, c->state)
		      : ip_frames_begin_run(r.frames, x->run)) < 0)
		more = -1;
	if (more > 0 && c->state)
		ip_frames_set_kernel(r.frames, x->run->pid, x->run->tid, ip_frames_now(r.frames));
	if (more > 0)
		show_open(v, r.frames, false);
	r.packet = c->packet;
	while (more > 0 && r.packet < x->run->packets)
		more = feed_packet(&r, to, v->stop);
	if (more > 0 && x->run->end <= to)
		ip_frames_finish(r.frames, x->run->end);
	if (more >= 0)
		show_open(v, r.frames, true);
	end_reading(&r);
	return more < 0 ? -1 : 0;
}
