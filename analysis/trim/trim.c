/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses events and writes them. The records are made anew. A packet that has lost its first
 * record must again begin with an extended one, and a compact record tells only the difference
 * to the record before it.
 */
#include "analysis/trim/trim.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/trim/trim_private.h"
#include "analysis/trim/trim_write.h"
#include "common/error.h"

#define BATCH 4096u

struct chooser {
	struct ip_trace_reader *trace;
	const struct ip_trim_options *options;
	const struct ip_trim_chosen *ops;
	void *context;
	struct ip_frames *frames; /* NULL: the depth does not matter */
	size_t depth;		  /* depth of the event that was fed last */
};

void ip_trim_all(const struct ip_trace_reader *trace, struct ip_trim_options *ret)
{
	*ret = (struct ip_trim_options){.to = UINT64_MAX, .depth = SIZE_MAX};
}

uint64_t ip_trim_tsc(const struct ip_trace_reader *trace, uint64_t ns)
{
	const struct ip_recording *s = trace->session;
	unsigned __int128 ticks = (unsigned __int128)ns * s->tsc_hz / 1000000000;
	uint64_t tsc =
		ticks > UINT64_MAX - s->tsc_start ? UINT64_MAX : s->tsc_start + (uint64_t)ticks;

	/* the opposite conversion rounds, so the result may be off */
	while (tsc > s->tsc_start && ip_recording_since_start(s, tsc - 1) >= ns)
		tsc--;
	while (tsc < UINT64_MAX && ip_recording_since_start(s, tsc) < ns)
		tsc++;
	return ns ? tsc : 0;
}

/* Note the depth of an event: exactly one of these functions is called for it. Of the calls of
 * closed() only those with IP_END_EXIT count. */
static void opened(void *context, struct ip_frame *frame, size_t depth)
{
	((struct chooser *)context)->depth = depth;
}

static void closed(void *context, const struct ip_frame *frame, size_t depth, uint64_t end,
		   enum ip_frame_end how)
{
	if (how == IP_END_EXIT)
		((struct chooser *)context)->depth = depth;
}

static void other(void *context, uint32_t function, size_t depth, uint64_t ts)
{
	((struct chooser *)context)->depth = depth;
}

static bool is_chosen(const struct chooser *c, const struct ip_event *e)
{
	const struct ip_trim_options *o = c->options;
	const struct ip_recording *s = c->trace->session;

	if (e->ts < o->from || e->ts >= o->to || (c->frames && c->depth >= o->depth))
		return false;
	return !o->selected ||
	       o->selected[e->number < s->nnumbers ? s->numbers[e->number].function : 0];
}

static int choose_packet(struct chooser *c, struct ip_stream *stream)
{
	struct ip_event batch[BATCH];
	ssize_t n;

	while ((n = ip_stream_read(stream, batch, BATCH)) > 0) {
		const uint64_t *payloads = ip_stream_payloads(stream);

		if (c->frames)
			ip_frames_set_payloads(c->frames, payloads);
		for (ssize_t i = 0; i < n; i++) {
			const struct ip_event *e = &batch[i];

			if (c->frames && ip_frames_feed(c->frames, e, 1) < 0)
				return -1;
			if (is_chosen(c, e) &&
			    c->ops->event(c->context, e,
					  e->payload ? payloads + e->payload - 1 : NULL) < 0)
				return -1;
		}
	}
	return n < 0 ? -1 : 0;
}

bool ip_trim_is_wanted(const struct ip_trim_options *o, const struct ip_thread_packets *run)
{
	return !run->off && (!o->tid || o->tid == run->tid) && (!o->pid || o->pid == run->pid);
}

static int choose_run(struct chooser *c, struct ip_stream *stream,
		      const struct ip_thread_packets *run)
{
	const struct ip_trim_options *o = c->options;
	bool wanted = ip_trim_is_wanted(o, run);
	struct ip_packet p;

	if (wanted && c->ops->run(c->context, run) < 0)
		return -1;
	if (c->frames)
		ip_frames_set_member(c->frames, run->member);
	if (c->frames && wanted && ip_frames_begin_run(c->frames, run) < 0)
		return -1;
	for (uint32_t i = 0; i < run->packets; i++) {
		if (ip_trace_reader_next_packet(stream, &p) < 0)
			return -1;
		if (!wanted)
			continue;
		if (c->frames && (p.lost || p.missing))
			ip_frames_loss(c->frames);
		if (p.lost && p.begin >= o->from && p.begin < o->to &&
		    c->ops->lost(c->context, p.lost, p.begin) < 0)
			return -1;
		if (choose_packet(c, stream) < 0)
			return -1;
	}
	if (c->frames)
		ip_frames_finish(c->frames, run->end);
	return wanted && run->end < c->trace->end ? c->ops->run_end(c->context, run) : 0;
}

/* Chooses events from the runs [i, end), which belong to one stream. */
static int choose_stream(struct chooser *c, size_t i, size_t end)
{
	struct ip_trace_reader *t = c->trace;
	struct ip_stream *stream;
	int ret = 0;

	if (ip_trace_reader_stream(t, t->runs[i].stream, &stream) < 0)
		return -1;
	for (; ret == 0 && i < end; i++)
		ret = choose_run(c, stream, &t->runs[i]);
	if (ret == 0)
		ret = ip_trace_reader_damaged(t, ip_stream_damage(stream));
	if (ret == 0)
		ret = c->ops->stream_end(c->context);
	ip_stream_close(stream);
	return ret;
}

static int choose_all(struct chooser *c)
{
	const struct ip_trace_reader *t = c->trace;
	int ret = 0;

	for (size_t i = 0, end; ret == 0 && i < t->nruns; i = end) {
		bool wanted = false;

		for (end = i; end < t->nruns && t->runs[end].stream == t->runs[i].stream; end++)
			wanted |= ip_trim_is_wanted(c->options, &t->runs[end]);
		if (wanted)
			ret = choose_stream(c, i, end);
	}
	return ret;
}

int ip_trim_choose(struct ip_trace_reader *trace, const struct ip_trim_options *options,
		   const struct ip_trim_chosen *ops, void *context)
{
	static const struct ip_frames_ops frames_ops = {
		.opened = opened, .closed = closed, .orphan = other, .point = other};
	struct chooser c = {.trace = trace, .options = options, .ops = ops, .context = context};
	int ret;

	if (options->depth != SIZE_MAX) {
		c.frames = ip_frames_create(trace->session, &frames_ops, &c);
		if (!c.frames)
			return -1;
	}
	ret = choose_all(&c);
	ip_frames_destroy(c.frames);
	return ret;
}

/* The most parts that are written at once: each takes two descriptors and the memory of a
 * packet. */
#define WRITERS 128u

struct spread {
	struct ip_trim_writer *writers[WRITERS];
	const struct ip_trim_part *parts; /* n of them */
	size_t n;
	size_t at; /* index of the part of the last event */
};

/* Returns the writer of the part that ts lies in. Events of a thread are in order, so it is
 * nearly always that of the event before. */
static struct ip_trim_writer *writer_at(struct spread *s, uint64_t ts)
{
	size_t low = 0, high = s->n;

	if (ts >= s->parts[s->at].from && ts < s->parts[s->at].to)
		return s->writers[s->at];
	/* finds the last part that begins at or before ts */
	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (s->parts[middle].from <= ts)
			low = middle;
		else
			high = middle;
	}
	s->at = low;
	return s->writers[low];
}

static int write_event(void *context, const struct ip_event *e, const uint64_t *payload)
{
	return ip_trim_writer_event(writer_at(context, e->ts), e, payload);
}

static int write_lost(void *context, uint64_t n, uint64_t ts)
{
	return ip_trim_writer_lost(writer_at(context, ts), n, ts);
}

static int write_run(void *context, const struct ip_thread_packets *run)
{
	struct spread *s = context;
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < s->n; i++)
		ret = ip_trim_writer_thread(s->writers[i], run->stream, run->pid, run->tid);
	return ret;
}

/* In a part that ends before the thread ends, the thread has no end. */
static int write_run_end(void *context, const struct ip_thread_packets *run)
{
	struct spread *s = context;
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < s->n; i++)
		if (run->end < s->parts[i].to)
			ret = ip_trim_writer_thread_end(s->writers[i], run->end, run->gone);
	return ret;
}

static int write_end(void *context)
{
	struct spread *s = context;
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < s->n; i++)
		ret = ip_trim_writer_end_stream(s->writers[i]);
	return ret;
}

/* Writes at most WRITERS parts, in one reading. *ret_done: how many of them exist. */
static int write_some(struct ip_trace_reader *trace, const struct ip_trim_options *options,
		      struct ip_trim_part *parts, size_t n, size_t *ret_done)
{
	static const struct ip_trim_chosen ops = {write_event, write_lost, write_run, write_run_end,
						  write_end};
	struct ip_trim_options some = *options, one = *options;
	struct spread s = {.parts = parts};
	int ret = 0;

	some.from = parts[0].from;
	some.to = parts[n - 1].to;
	for (; ret == 0 && s.n < n; s.n += ret == 0) {
		one.from = parts[s.n].from;
		one.to = parts[s.n].to;
		ret = ip_trim_writer_create(trace, &one, parts[s.n].dir, &s.writers[s.n]);
	}
	if (ret == 0)
		ret = ip_trim_choose(trace, &some, &ops, &s);
	for (size_t i = 0; i < s.n; i++) {
		one.from = parts[i].from;
		one.to = parts[i].to;
		if (ret < 0)
			ip_trim_writer_discard(s.writers[i]);
		else
			ret = ip_trim_writer_finish(s.writers[i], &one, &parts[i].result);
		*ret_done += ret == 0;
	}
	return ret;
}

int ip_trim_write(struct ip_trace_reader *trace, const struct ip_trim_options *options,
		  struct ip_trim_part *parts, size_t n, size_t *ret_done)
{
	int ret = 0;

	*ret_done = 0;
	for (size_t i = 0; ret == 0 && i < n; i += WRITERS) {
		size_t some = n - i < WRITERS ? n - i : WRITERS;

		ret = trace->members
			      ? ip_trim_write_members(trace, options, parts + i, some, ret_done)
			      : write_some(trace, options, parts + i, some, ret_done);
	}
	return ret;
}
