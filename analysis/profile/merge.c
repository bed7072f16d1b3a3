/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A heap of streams, ordered by the time of their next event. Each stream has a stack machine of
 * its own. All events of a stream that come before the next event of the other streams are fed
 * at once.
 */
#include "analysis/profile/merge.h"

#include <stdlib.h>

#include "analysis/read/unpack.h"
#include "common/error.h"
#include "common/file.h"

#define BATCH 128u

struct source {
	struct ip_stream *stream;
	struct ip_frames *frames;
	/* run: the current run. end: behind the stream's last run */
	const struct ip_thread_packets *run, *end;
	uint32_t packets; /* packets of the run that are still to come */
	bool begun;	  /* the first packet of the run has been read */
	bool opens;	  /* frames of the attach are to be opened before its first event */
	bool ends;	  /* the run has no more events, but calls of the kernel's functions */
	/* Time of the next event; never earlier than the event before it. */
	uint64_t key;
	size_t at, n;
	struct ip_event events[BATCH];
};

struct merge {
	struct ip_trace_reader *trace;
	const struct ip_trace_visitor *visitor;
	uint32_t tid;
	struct source **heap;
	size_t n;
	struct ip_unpack *unpack; /* shared by all compressed streams */
};

static void source_destroy(struct source *s)
{
	if (!s)
		return;
	ip_stream_close(s->stream);
	ip_frames_destroy(s->frames);
	free(s);
}

static void end_run(const struct merge *m, struct source *s)
{
	if (!s->run->off) {
		m->visitor->run(m->visitor->context, s->run);
		ip_frames_finish(s->frames, s->run->end);
	}
	s->run++;
	s->begun = s->ends = false;
}

/* Goes to the next packet of a wanted thread. Returns 1, 0 at the end, -1 with an error. */
static int next_packet(const struct merge *m, struct source *s)
{
	struct ip_packet p;

	for (;;) {
		if (s->begun && !s->packets)
			end_run(m, s);
		if (s->run == s->end)
			return 0;
		if (!s->begun) {
			s->begun = true;
			s->packets = s->run->packets;
			if (!s->run->off && (!m->tid || s->run->tid == m->tid))
				ip_frames_begin_kernel(s->frames, s->run);
			s->opens =
				s->run->stack && !s->run->off && (!m->tid || s->run->tid == m->tid);
		}
		s->packets--;
		if (ip_trace_reader_next_packet(s->stream, &p) < 0)
			return -1;
		if (s->run->off || (m->tid && s->run->tid != m->tid))
			continue;
		if (p.lost || p.missing)
			ip_frames_loss(s->frames);
		return 1;
	}
}

/* Refills the batch where it is used up, and sets the key. Returns 1, 0 at the end, -1 with an
 * error. */
static int advance(const struct merge *m, struct source *s)
{
	uint64_t ts, kernel;

	while (s->at == s->n && !s->ends) {
		ssize_t n = s->begun ? ip_stream_read(s->stream, s->events, BATCH) : 0;
		int more;

		if (n < 0)
			return -1;
		s->at = 0;
		s->n = n;
		ip_frames_set_payloads(s->frames, ip_stream_payloads(s->stream));
		s->ends = n == 0 && s->begun && !s->packets &&
			  ip_frames_kernel_next(s->frames) < s->run->end;
		if (n == 0 && !s->ends) {
			more = next_packet(m, s);
			if (more <= 0)
				return more;
		}
	}
	kernel = ip_frames_kernel_next(s->frames);
	ts = s->opens  ? m->trace->session->stacks[s->run->stack - 1].tsc
	     : s->ends ? kernel
		       : s->events[s->at].ts;
	if (kernel < ts && !s->opens)
		ts = kernel;
	if (ts > s->key)
		s->key = ts;
	return 1;
}

static bool before(const struct source *a, const struct source *b)
{
	return a->key != b->key ? a->key < b->key : a->run < b->run;
}

static void heap_down(struct merge *m, size_t i)
{
	for (;;) {
		size_t least = i, child = 2 * i + 1;
		struct source *s = m->heap[i];

		for (size_t k = child; k < child + 2 && k < m->n; k++)
			if (before(m->heap[k], m->heap[least]))
				least = k;
		if (least == i)
			return;
		m->heap[i] = m->heap[least];
		m->heap[least] = s;
		i = least;
	}
}

/* Returns the time up to which the first stream of the heap may go on. */
static uint64_t limit(const struct merge *m)
{
	uint64_t least = UINT64_MAX;

	for (size_t k = 1; k < 3 && k < m->n; k++)
		if (m->heap[k]->key < least)
			least = m->heap[k]->key;
	return least;
}

/* Drops a stream that has come to its end. Returns 0, or -1 with an error. */
static int drop(struct merge *m, struct source *s)
{
	int ret = ip_trace_reader_damaged(m->trace, ip_stream_damage(s->stream));

	source_destroy(s);
	return ret;
}

/* Adds the stream whose runs are [run, end). */
static int add(struct merge *m, const struct ip_thread_packets *run,
	       const struct ip_thread_packets *end)
{
	struct source *s = calloc(1, sizeof(*s));
	int more;

	if (!s)
		return ip_error("out of memory");
	s->run = run;
	s->end = end;
	s->frames = ip_frames_create(m->trace->session, m->visitor->ops, m->visitor->context);
	if (!s->frames ||
	    ip_trace_reader_stream_small(m->trace, run->stream, &m->unpack, &s->stream) < 0) {
		source_destroy(s);
		return -1;
	}
	ip_frames_set_member(s->frames, run->member);
	more = advance(m, s);
	if (more < 0) {
		source_destroy(s);
		return -1;
	}
	if (more == 0)
		return drop(m, s);
	m->heap[m->n++] = s;
	return 0;
}

static int add_all(struct merge *m)
{
	const struct ip_trace_reader *t = m->trace;
	int ret = 0;

	for (size_t i = 0, end; ret == 0 && i < t->nruns; i = end) {
		bool wanted = false;

		for (end = i; end < t->nruns && t->runs[end].stream == t->runs[i].stream; end++)
			wanted |= !t->runs[end].off && (!m->tid || t->runs[end].tid == m->tid);
		if (wanted)
			ret = add(m, t->runs + i, t->runs + end);
	}
	for (size_t i = m->n / 2; i-- > 0;)
		heap_down(m, i);
	return ret;
}

/* Opens what was open at the attach in the thread of the first stream. Returns 0, or -1 with an
 * error. */
static int open_earlier(struct merge *m)
{
	struct source *s = m->heap[0];

	m->visitor->run(m->visitor->context, s->run);
	s->opens = false;
	if (ip_frames_begin_run(s->frames, s->run) < 0)
		return -1;
	advance(m, s); /* its next event is there already */
	heap_down(m, 0);
	return 0;
}

/* Shows the calls of the kernel's functions that come before the next event of the first stream,
 * and before those of all others. Returns 1; 0: there are none; -1 with an error. */
static int step_kernel(struct source *s, uint64_t until)
{
	const uint64_t next = ip_frames_kernel_next(s->frames),
		       event = s->ends ? UINT64_MAX : s->events[s->at].ts,
		       end = s->ends ? s->run->end : event;

	if (next >= end)
		return 0;
	/* the one that the key tells, at least */
	until = until <= next ? next + 1 : until;
	if (ip_frames_feed_kernel(s->frames, until < end ? until : end, event) < 0)
		return -1;
	s->ends = s->ends && ip_frames_kernel_next(s->frames) < s->run->end;
	return 1;
}

/* Feeds the events of the first stream that come before the events of all others. Returns 0, or
 * -1 with an error. */
static int step(struct merge *m, uint64_t *events)
{
	struct source *s = m->heap[0];
	uint64_t until = limit(m);
	size_t n = 1;
	int more;

	m->visitor->run(m->visitor->context, s->run);
	more = step_kernel(s, until);
	if (more < 0)
		return -1;
	while (!more && s->at + n < s->n && s->events[s->at + n].ts <= until)
		n++;
	if (!more && ip_frames_feed(s->frames, s->events + s->at, n) < 0)
		return -1;
	*events += more ? 0 : n;
	s->at += more ? 0 : n;
	if (ip_frames_now(s->frames) > s->key)
		s->key = ip_frames_now(s->frames);
	more = advance(m, s);
	if (more < 0)
		return -1;
	if (more == 0) {
		m->heap[0] = m->heap[--m->n];
		if (drop(m, s) < 0)
			return -1;
	}
	if (m->n)
		heap_down(m, 0);
	return 0;
}

int ip_merge(struct ip_trace_reader *trace, uint32_t tid, const struct ip_trace_visitor *visitor,
	     const bool *stop, uint64_t *ret_events)
{
	struct merge m = {.trace = trace, .visitor = visitor, .tid = tid};
	int ret;

	*ret_events = 0;
	m.heap = calloc(trace->nstreams ? trace->nstreams : 1, sizeof(*m.heap));
	if (!m.heap)
		return ip_error("out of memory");
	ip_descriptor_limit_raise(); /* each stream needs one */
	ret = add_all(&m);
	while (ret == 0 && m.n && !*stop)
		ret = m.heap[0]->opens ? open_earlier(&m) : step(&m, ret_events);
	while (m.n)
		source_destroy(m.heap[--m.n]);
	free(m.heap);
	ip_unpack_destroy(m.unpack);
	return ret;
}
