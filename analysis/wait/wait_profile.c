/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lays the calls of threads over their states.
 */
#include "analysis/wait/wait_profile.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/callstack/open_calls.h"
#include "analysis/wait/wait_sums.h"
#include "common/error.h"

#define NOT_MADE UINT32_MAX

struct maker {
	struct ip_wait_profile *profile;
	const struct ip_states *states;
	const struct ip_descriptors *descriptors;
	const struct ip_wait_observer *observer;	 /* NULL: nobody */
	const struct ip_idle_waits *idle;		 /* NULL: none are told apart */
	const struct ip_idle_wait *idle_next, *idle_end; /* of the run: those that are not over */
	const struct ip_trace_reader *trace;
	size_t run;
	struct ip_wait_sums sums, totals;
	struct ip_wait_objects objects;
	size_t room;	   /* of arrays by node */
	uint64_t now;	   /* up to which the thread's time has been given to nodes */
	uint64_t from, to; /* of the time that counts */
	bool gone;	   /* the thread has ended */
	uint32_t pid, tid; /* tid: the wanted one; 0: all */
	uint32_t member;
	const struct ip_thread_states *thread; /* NULL: no kernel event is of this thread */
	size_t span;			       /* that now lies in, or the first one behind it */
	uint32_t *span_objects; /* by wait of the thread: the object's number; NOT_MADE: not yet */
	bool failed;
};

static uint32_t object_of_wait(struct maker *m, uint32_t wait)
{
	struct ip_wait_object object;

	if (m->span_objects[wait] != NOT_MADE)
		return m->span_objects[wait];
	ip_wait_object_of(&m->thread->waits[wait], m->descriptors, m->pid, m->thread->tid, &object);
	ip_wait_object_in(&object, m->member);
	m->span_objects[wait] = ip_wait_objects_add(&m->objects, &object);
	m->failed |= m->span_objects[wait] == UINT32_MAX;
	return m->span_objects[wait];
}

/* Whether the blocked span that m->now lies in is an idle wait. */
static bool is_idle(struct maker *m, const struct ip_thread_span *span)
{
	while (m->idle_next != m->idle_end && m->idle_next->from < span->from)
		m->idle_next++;
	return m->idle_next != m->idle_end && m->idle_next->from == span->from;
}

/* Gives a part of a span to a node. begins: the span begins there. */
static void give(struct maker *m, uint32_t node, const struct ip_thread_span *span, uint64_t ticks,
		 bool begins)
{
	struct ip_wait_parts *parts = &m->profile->own[node];
	const bool idle = span && span->state == IP_THREAD_BLOCKED && is_idle(m, span);

	parts->idle += idle ? ticks : 0;
	switch (span ? (enum ip_thread_state)span->state : IP_THREAD_UNKNOWN) {
	case IP_THREAD_RUNNING:
		parts->cpu += ticks;
		break;
	case IP_THREAD_RUNNABLE:
		parts->runqueue += ticks;
		break;
	case IP_THREAD_BLOCKED:
		m->failed = m->failed ||
			    ip_wait_sums_add_part(&m->sums, node, object_of_wait(m, span->wait),
						  ticks, begins, idle) < 0;
		break;
	default:
		parts->unknown += ticks;
	}
	if (m->observer && !m->failed) {
		const struct ip_wait_part part = {.tree = m->profile->tree,
						  .node = node,
						  .run = m->run,
						  .thread = m->thread,
						  .span = span,
						  .object = span && span->state == IP_THREAD_BLOCKED
								    ? object_of_wait(m, span->wait)
								    : 0,
						  .from = m->now,
						  .ticks = ticks,
						  .begins = begins,
						  .idle = idle};

		m->failed = m->observer->part(m->observer->context, &part) < 0;
	}
}

/* The thread's time up to ts belongs to its innermost open call. */
static void pass(void *context, const uint32_t *innermost, uint64_t ts)
{
	struct maker *m = context;
	const struct ip_thread_states *t = m->thread;
	const uint32_t node = innermost ? *innermost : 0;

	ts = ts < m->to ? ts : m->to;
	if (m->now < m->from)
		m->now = ts < m->from ? ts : m->from;
	if (ts <= m->now || m->failed)
		return;
	if (!innermost) { /* no call is open */
		m->now = ts;
		return;
	}
	m->profile->own[node].elapsed += ts - m->now;
	while (m->now < ts) {
		const struct ip_thread_span *span = NULL;
		uint64_t end = ts;

		while (t && m->span + 1 < t->nspans && t->spans[m->span + 1].from <= m->now)
			m->span++;
		if (t && t->nspans && t->spans[m->span].from <= m->now) {
			span = &t->spans[m->span];
			if (m->span + 1 < t->nspans && t->spans[m->span + 1].from < end)
				end = t->spans[m->span + 1].from;
			else if (m->span + 1 == t->nspans && m->states->end > m->now &&
				 m->states->end < end)
				end = m->states->end;
			else if (m->span + 1 == t->nspans && m->states->end <= m->now)
				span = NULL; /* recording of kernel events has ended */
		} else if (t && t->nspans && t->spans[m->span].from < end) {
			end = t->spans[m->span].from;
		}
		give(m, node, span, end - m->now, span && span->from == m->now);
		m->now = end;
	}
}

/* Makes room in the arrays by node. */
static int reserve(struct maker *m, size_t nodes)
{
	struct ip_wait_profile *p = m->profile;
	size_t room = m->room ? 2 * m->room : 1024;
	void *calls, *own;

	if (nodes <= m->room)
		return 0;
	while (room < nodes)
		room *= 2;
	calls = reallocarray(p->calls, room, sizeof(*p->calls));
	p->calls = calls ? calls : p->calls;
	own = reallocarray(p->own, room, sizeof(*p->own));
	p->own = own ? own : p->own;
	if (!calls || !own)
		return ip_error("out of memory");
	memset(p->calls + m->room, 0, (room - m->room) * sizeof(*p->calls));
	memset(p->own + m->room, 0, (room - m->room) * sizeof(*p->own));
	m->room = room;
	return 0;
}

/* A recursion is one node: so a path is no longer than there are functions. */
static uint32_t node_of(struct maker *m, uint32_t above, uint32_t function, bool inner)
{
	struct ip_calltree *tree = m->profile->tree;
	uint32_t node = above;

	while (inner && node && tree->nodes[node].function != function)
		node = tree->nodes[node].parent;
	if (inner && node)
		return node;
	node = ip_calltree_child(tree, above, function);
	return node == IP_NO_NODE || reserve(m, tree->n) < 0 ? IP_NO_NODE : node;
}

static int on_opened(void *context, const struct ip_frame *frame, const uint32_t *above,
		     uint32_t *ret)
{
	struct maker *m = context;

	if (m->failed)
		return -1;
	*ret = node_of(m, above ? *above : 0, frame->function, frame->flags & IP_FRAME_INNER);
	if (*ret == IP_NO_NODE)
		return -1;
	if (!(frame->flags & IP_FRAME_EARLIER) && frame->start >= m->from &&
	    frame->start <= m->to) {
		m->profile->calls[*ret]++;
		m->profile->function_calls[frame->function]++;
	}
	return 0;
}

/* Counts what was open at the end of the time that counts. */
static void on_closed(void *context, const struct ip_frame *frame, uint64_t end,
		      enum ip_frame_end how)
{
	struct maker *m = context;

	if (!(frame->flags & IP_FRAME_INNER) && frame->start <= m->to &&
	    (end > m->to || (how == IP_END_UNFINISHED && !m->gone)))
		m->profile->open_calls[frame->function]++;
}

static bool on_run(void *context, const struct ip_thread_packets *run)
{
	struct maker *m = context;

	m->now = 0;
	if (m->tid && m->tid != run->machine_tid && m->tid != run->tid)
		return false;
	m->span = 0;
	m->run = run - m->trace->runs;
	m->pid = run->machine_pid;
	m->gone = run->gone;
	m->member = run->member;
	m->thread = ip_states_find(m->states, run->machine_tid,
				   run->begin > m->states->begin ? run->begin : m->states->begin);
	if (m->idle) {
		size_t n;

		m->idle_next = ip_idle_waits_of(m->idle, m->run, &n);
		m->idle_end = m->idle_next + n;
	}
	free(m->span_objects);
	m->span_objects = NULL;
	m->profile->unknown_threads += !m->thread;
	if (!m->thread || !m->thread->nwaits)
		return true;
	m->span_objects = malloc(m->thread->nwaits * sizeof(*m->span_objects));
	if (!m->span_objects) {
		m->failed = true;
		ip_error("out of memory");
		return false;
	}
	memset(m->span_objects, 0xff, m->thread->nwaits * sizeof(*m->span_objects));
	return true;
}

/* Calls visit for each function on the path to a node, once. */
static int up(const struct ip_calltree *tree, uint32_t node, uint32_t *seen, uint32_t mark,
	      int (*visit)(void *context, uint32_t function), void *context)
{
	for (; node; node = tree->nodes[node].parent) {
		uint32_t function = tree->nodes[node].function;

		if (seen[function] == mark)
			continue;
		seen[function] = mark;
		if (visit(context, function) < 0)
			return -1;
	}
	return 0;
}

struct adding {
	struct maker *m;
	const struct ip_wait_parts *parts;
	const struct ip_wait_sum *wait;
};

static int add_parts(void *context, uint32_t function)
{
	const struct adding *a = context;
	struct ip_wait_parts *to = &a->m->profile->functions[function];

	to->elapsed += a->parts->elapsed;
	to->cpu += a->parts->cpu;
	to->runqueue += a->parts->runqueue;
	to->unknown += a->parts->unknown;
	to->idle += a->parts->idle;
	return 0;
}

static int add_wait(void *context, uint32_t function)
{
	const struct adding *a = context;

	return ip_wait_sums_add_sum(&a->m->totals, function, a->wait);
}

/* Adds what is innermost in each node to the functions of its path. */
static int add_up(struct maker *m)
{
	struct ip_wait_profile *p = m->profile;
	uint32_t *seen = calloc(p->session->nfunctions, sizeof(*seen)), mark = 0;
	struct adding a = {.m = m};
	int ret = seen ? 0 : ip_error("out of memory");

	for (size_t node = 1; ret == 0 && node < p->tree->n; node++) {
		a.parts = &p->own[node];
		ret = up(p->tree, node, seen, ++mark, add_parts, &a);
	}
	ip_wait_sums_sort(&m->sums, &p->own_waits, &p->nown_waits);
	for (size_t i = 0; ret == 0 && i < p->nown_waits; i++) {
		a.wait = &p->own_waits[i];
		ret = up(p->tree, a.wait->owner, seen, ++mark, add_wait, &a);
	}
	free(seen);
	ip_wait_sums_sort(&m->totals, &p->waits, &p->nwaits);
	return ret;
}

static struct ip_wait_profile *make(struct maker *maker, struct ip_trace_reader *trace)
{
	static const struct ip_open_calls_ops ops = {on_run, pass, on_opened, on_closed};
	struct ip_wait_profile *p = calloc(1, sizeof(*p));
	struct maker m = *maker;
	const size_t n = trace->session->nfunctions;
	int ret = p ? 0 : -1;

	m.profile = p;
	m.trace = trace;
	if (p) {
		p->session = trace->session;
		p->tree = ip_calltree_create();
		p->function_calls = calloc(n, sizeof(*p->function_calls));
		p->open_calls = calloc(n, sizeof(*p->open_calls));
		p->functions = calloc(n, sizeof(*p->functions));
		ret = p->tree && p->function_calls && p->open_calls && p->functions ? reserve(&m, 1)
										    : -1;
	}
	if (ret == 0) {
		ret = ip_open_calls_read(trace, &ops, &m, 0, &p->events);
		ret = m.failed ? -1 : ret;
	} else {
		ip_error("out of memory");
	}
	if (ret == 0)
		ret = add_up(&m);
	if (p) {
		p->objects = m.objects.items;
		p->nobjects = m.objects.n;
		m.objects.items = NULL;
	}
	ip_wait_objects_clear(&m.objects);
	ip_wait_sums_clear(&m.sums);
	ip_wait_sums_clear(&m.totals);
	free(m.span_objects);
	if (ret == 0)
		return p;
	ip_wait_profile_destroy(p);
	return NULL;
}

struct ip_wait_profile *ip_wait_profile_observe(struct ip_trace_reader *trace,
						const struct ip_states *states,
						const struct ip_descriptors *descriptors,
						uint32_t tid, const struct ip_idle_waits *idle,
						const struct ip_wait_observer *observer)
{
	struct maker m = {.states = states,
			  .descriptors = descriptors,
			  .observer = observer,
			  .idle = idle,
			  .to = UINT64_MAX,
			  .tid = tid};

	return make(&m, trace);
}

struct ip_wait_profile *ip_wait_profile_between(struct ip_trace_reader *trace,
						const struct ip_states *states,
						const struct ip_descriptors *descriptors,
						const struct ip_idle_waits *idle, uint64_t from,
						uint64_t to)
{
	struct maker m = {
		.states = states, .descriptors = descriptors, .idle = idle, .from = from, .to = to};

	return make(&m, trace);
}

uint64_t ip_wait_profile_idle(const struct ip_wait_profile *p)
{
	uint64_t sum = 0;

	for (size_t node = 1; node < p->tree->n; node++)
		sum += p->own[node].idle;
	return sum;
}

void ip_wait_profile_destroy(struct ip_wait_profile *p)
{
	if (!p)
		return;
	ip_calltree_destroy(p->tree);
	free(p->calls);
	free(p->own);
	free(p->own_waits);
	free(p->function_calls);
	free(p->open_calls);
	free(p->functions);
	free(p->waits);
	free(p->objects);
	free(p);
}
