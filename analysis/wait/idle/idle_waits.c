/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds idle waits. idle_waits.h has the rules.
 */
#include "analysis/wait/idle/idle_waits.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/profile/calltree.h"
#include "analysis/wait/descriptors/service_ports.h"
#include "analysis/wait/idle/idle_kind.h"
#include "common/array.h"
#include "common/error.h"

#define SHARE 10u /* a path with one wait counts from a tenth of the time on */

/* A wait that may matter, in a run. */
struct candidate {
	uint64_t from, ticks;
	uint64_t frame; /* the innermost call's number; 0: in none */
	uint32_t node, wait;
	uint32_t count; /* IP_IDLE_CALLED: so often in a row; else whether it counts */
	uint8_t kind;
	bool earlier; /* in a call that was open when the recording began */
};

/* An open call. */
struct open {
	uint64_t number;
	uint32_t node;
	bool earlier; /* it began before the recording */
};

/* The waits of a run in one call path. */
struct path {
	uint64_t ticks, count; /* without sleeps */
	uint32_t depth, full;  /* full: the path of the same place, by full_path() */
	bool seen;
	bool whole; /* of calls that began in the recording */
};

struct maker {
	const struct ip_states *states;
	const struct ip_descriptors *descriptors;
	const struct ip_trace_reader *trace;
	struct ip_idle_waits *to;
	struct ip_service_ports ports;
	struct ip_calltree *tree; /* of call paths */
	struct path *paths;	  /* by node */
	size_t npaths;
	struct open *stack;
	size_t n, room;
	uint64_t calls; /* so far, of all threads */
	const struct ip_thread_states *thread;
	size_t span; /* the next one that is to be looked at */
	size_t run;
	uint32_t pid;
	size_t asking; /* the next one of the thread */
	struct candidate *candidates;
	size_t ncandidates;
	uint64_t *unfinished; /* numbers of calls that never ended */
	size_t nunfinished;
	bool failed, begun;
	bool called; /* the run has had a call: what was before is not known to be outside of one */
};

static int add_candidate(struct maker *m, const struct candidate *c)
{
	struct candidate *last = m->ncandidates ? &m->candidates[m->ncandidates - 1] : NULL;

	if (c->kind == IP_IDLE_CALLED && last && last->kind == IP_IDLE_CALLED &&
	    last->node == c->node && last->earlier == c->earlier) {
		last->count += last->count < UINT32_MAX;
		return 0;
	}
	if (ip_array_grow(&m->candidates, m->ncandidates, sizeof(*c)) < 0)
		return -1;
	m->candidates[m->ncandidates++] = *c;
	return 0;
}

/* The thread's calls up to ts by which it asks for work. */
static void pass_askings(struct maker *m, uint64_t ts)
{
	const struct open *top = m->n ? &m->stack[m->n - 1] : NULL;
	const struct candidate c = {.node = top ? top->node : 0,
				    .kind = IP_IDLE_CALLED,
				    .count = 1,
				    .earlier = top && top->earlier};

	for (; m->thread && m->asking < m->thread->naskings &&
	       m->thread->askings[m->asking] <= ts && !m->failed;
	     m->asking++)
		m->failed = m->called && add_candidate(m, &c) < 0;
}

/* The blocked spans that end up to ts are in the innermost call that is open: while a thread is
 * blocked it calls nothing. It may have been blocked already when its open calls became known.
 * last: those that begin up to ts, too. */
static void pass(struct maker *m, uint64_t ts, bool last)
{
	const struct ip_thread_states *t = m->thread;
	const struct open *top = m->n ? &m->stack[m->n - 1] : NULL;

	pass_askings(m, ts);
	for (; t && !m->failed && m->span < t->nspans; m->span++) {
		const struct ip_thread_span *s = &t->spans[m->span];
		const uint64_t end =
			m->span + 1 < t->nspans ? t->spans[m->span + 1].from : m->states->end;
		struct candidate c = {.from = s->from,
				      .ticks = end > s->from ? end - s->from : 0,
				      .frame = top ? top->number : 0,
				      .node = top ? top->node : 0,
				      .wait = s->wait,
				      .earlier = top && top->earlier};

		if (last ? s->from >= ts : end > ts)
			return;
		if (s->state != IP_THREAD_BLOCKED || s->wait >= t->nwaits || !m->called)
			continue;
		c.kind = ip_idle_kind_of(m->descriptors, &m->ports, m->pid, &t->waits[s->wait]);
		if (c.kind == IP_IDLE_NONE || !c.ticks)
			continue;
		c.count = c.kind != IP_IDLE_SLEEPS &&
			  !ip_idle_call_asks(t->waits[s->wait].call.number);
		m->failed = add_candidate(m, &c) < 0;
	}
}

/* A recursion has one node: so a path is no longer than there are functions. */
static void push(struct maker *m, size_t depth, const struct ip_frame *frame)
{
	const bool inner = frame->flags & IP_FRAME_INNER;
	const uint32_t function = frame->function;
	uint32_t above, node;

	if (m->failed)
		return;
	if (depth >= m->room) {
		const size_t room = depth < 128 ? 256 : 2 * depth;
		struct open *stack = reallocarray(m->stack, room, sizeof(*stack));

		if (!stack) {
			m->failed = true;
			ip_error("out of memory");
			return;
		}
		memset(stack + m->room, 0, (room - m->room) * sizeof(*stack));
		m->stack = stack;
		m->room = room;
	}
	above = depth ? m->stack[depth - 1].node : 0;
	for (node = inner ? above : 0; node && m->tree->nodes[node].function != function;)
		node = m->tree->nodes[node].parent;
	if (!node)
		node = ip_calltree_child(m->tree, above, function);
	m->failed = node == IP_NO_NODE;
	m->stack[depth] = (struct open){++m->calls, node, frame->flags & IP_FRAME_EARLIER};
	m->n = depth + 1;
	m->called = true;
}

/* The first call from a time on by which a thread asks for work. */
static size_t first_asking(const struct ip_thread_states *t, uint64_t tsc)
{
	size_t low = 0, high = t->naskings;

	while (low < high) {
		const size_t middle = (low + high) / 2;

		if (t->askings[middle] < tsc)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* What the thread waits for from ts on comes next. */
static void look_from(struct maker *m, uint64_t ts)
{
	m->asking = m->thread ? first_asking(m->thread, ts) : 0;
	m->span = m->thread ? ip_states_span_at(m->thread, ts) : 0;
	if (m->thread && m->span == m->thread->nspans)
		m->span = 0;
}

static void on_opened(void *context, struct ip_frame *frame, size_t depth)
{
	struct maker *m = context;

	/* calls that were open when the recording began are known from then on, long before the
	 * run's first event if the thread slept */
	if (!m->called && frame->start < m->trace->runs[m->run].begin)
		look_from(m, frame->start);
	pass(m, frame->start, false);
	push(m, depth, frame);
}

static void on_left(void *context, const struct ip_frame *frame, size_t depth, uint64_t ts)
{
	struct maker *m = context;

	pass(m, ts, false);
	m->n = depth < m->n ? depth : m->n;
}

static void on_resumed(void *context, const struct ip_frame *frame, size_t depth, uint64_t ts)
{
	pass(context, ts, false);
	push(context, depth, frame);
}

static void on_closed(void *context, const struct ip_frame *frame, size_t depth, uint64_t end,
		      enum ip_frame_end how)
{
	struct maker *m = context;

	if (how == IP_END_UNWOUND) /* it was left before */
		return;
	pass(m, end, how == IP_END_UNFINISHED);
	if (how == IP_END_UNFINISHED && depth < m->n && !m->failed) {
		if (ip_array_grow(&m->unfinished, m->nunfinished, sizeof(*m->unfinished)) < 0)
			m->failed = true;
		else
			m->unfinished[m->nunfinished++] = m->stack[depth].number;
	}
	m->n = depth < m->n ? depth : m->n;
}

static int by_number(const void *left, const void *right)
{
	const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return a < b ? -1 : a > b;
}

static bool never_ends(const struct maker *m, uint64_t frame)
{
	return frame && m->nunfinished &&
	       bsearch(&frame, m->unfinished, m->nunfinished, sizeof(frame), by_number);
}

static uint32_t depth_of(const struct ip_calltree *tree, uint32_t node)
{
	uint32_t depth = 0;

	for (; node; node = tree->nodes[node].parent)
		depth++;
	return depth;
}

/* Whether the calls of a path are among those of the other one, in that order, and the innermost
 * ones are of the same function. */
static bool is_within(const struct ip_calltree *tree, uint32_t path, uint32_t other)
{
	if (tree->nodes[path].function != tree->nodes[other].function)
		return false;
	for (; path && other; other = tree->nodes[other].parent)
		if (tree->nodes[path].function == tree->nodes[other].function)
			path = tree->nodes[path].parent;
	return !path;
}

/* The copy of a stack lacks callers that have jumped to their callees (a tail call). So a wait that
 * the thread was in when the recording began seems to be in fewer calls than those that come after
 * it in the same place: it counts as one of these. Returns their path, or the same one. */
static uint32_t full_path(const struct maker *m, uint32_t node)
{
	uint32_t found = node;

	if (!node || m->paths[node].whole)
		return node;
	for (uint32_t i = 1; i < m->tree->n; i++)
		if (m->paths[i].seen && m->paths[i].whole && is_within(m->tree, node, i) &&
		    (found == node || m->paths[i].ticks > m->paths[found].ticks))
			found = i;
	return found;
}

static void add(struct path *p, const struct candidate *c)
{
	p->count += c->count;
	p->ticks += c->kind == IP_IDLE_SLEEPS ? 0 : c->ticks;
}

static int add_up(struct maker *m)
{
	if (m->npaths < m->tree->n) {
		struct path *paths = reallocarray(m->paths, m->tree->n, sizeof(*paths));

		if (!paths)
			return ip_error("out of memory");
		m->paths = paths;
		memset(paths + m->npaths, 0, (m->tree->n - m->npaths) * sizeof(*paths));
		m->npaths = m->tree->n;
	}
	for (size_t i = 0; i < m->ncandidates; i++) {
		const struct candidate *c = &m->candidates[i];
		struct path *p = &m->paths[c->node];

		if (!p->seen)
			*p = (struct path){.depth = depth_of(m->tree, c->node),
					   .full = IP_NO_NODE,
					   .seen = true};
		p->whole |= !c->earlier;
		if (!c->earlier)
			add(p, c);
	}
	for (size_t i = 0; i < m->ncandidates; i++) {
		struct candidate *c = &m->candidates[i];
		struct path *p = &m->paths[c->node];

		if (!c->earlier)
			continue;
		if (p->full == IP_NO_NODE)
			p->full = full_path(m, c->node);
		c->node = p->full;
		p->seen = &m->paths[c->node] == p;
		add(&m->paths[c->node], c);
	}
	return 0;
}

/* The call path of the outermost waits that may be idle; IP_NO_NODE: there is none. */
static uint32_t outermost(const struct maker *m)
{
	uint32_t depth = UINT32_MAX, found = IP_NO_NODE;
	uint64_t all = 0, level = 0;

	for (size_t i = 0; i < m->ncandidates; i++)
		all += m->candidates[i].kind == IP_IDLE_SLEEPS ? 0 : m->candidates[i].ticks;
	for (size_t i = 0; i < m->ncandidates; i++) {
		const struct path *p = &m->paths[m->candidates[i].node];

		if (p->count && p->depth < depth && (p->count > 1 || p->ticks >= all / SHARE))
			depth = p->depth;
	}
	for (size_t i = 0; i < m->ncandidates; i++) {
		const uint32_t node = m->candidates[i].node;

		level += m->paths[node].depth == depth ? m->candidates[i].ticks : 0;
		if (m->candidates[i].kind == IP_IDLE_WORK && m->paths[node].depth == depth &&
		    (found == IP_NO_NODE || m->paths[node].ticks > m->paths[found].ticks))
			found = node;
	}
	return found != IP_NO_NODE && m->paths[found].ticks >= level / 2 ? found : IP_NO_NODE;
}

/* The run is over. */
static void finish(struct maker *m)
{
	uint32_t node;

	if (!m->begun || m->failed)
		return;
	if (add_up(m) < 0) {
		m->failed = true;
		return;
	}
	if (m->nunfinished)
		qsort(m->unfinished, m->nunfinished, sizeof(*m->unfinished), by_number);
	node = outermost(m);
	for (size_t i = 0; i < m->ncandidates && !m->failed; i++) {
		const struct candidate *c = &m->candidates[i];

		m->paths[c->node].seen = false;
		/* what is in no call is in no function's time */
		if (!c->frame || c->kind == IP_IDLE_ASKS || c->kind == IP_IDLE_CALLED ||
		    !((c->kind == IP_IDLE_WORK && c->node == node) || never_ends(m, c->frame)))
			continue;
		if (ip_array_grow(&m->to->items, m->to->n, sizeof(*m->to->items)) < 0)
			m->failed = true;
		else
			m->to->items[m->to->n++] =
				(struct ip_idle_wait){c->from, c->from + c->ticks, m->run, c->wait};
	}
	m->ncandidates = m->nunfinished = 0;
}

static void on_run(void *context, const struct ip_thread_packets *run)
{
	struct maker *m = context;

	finish(m);
	m->begun = true;
	m->called = false;
	m->n = 0;
	m->run = run - m->trace->runs;
	m->pid = run->machine_pid;
	m->thread = ip_states_find(m->states, run->machine_tid,
				   run->begin > m->states->begin ? run->begin : m->states->begin);
	look_from(m, run->begin);
}

static int by_run(const void *left, const void *right)
{
	const struct ip_idle_wait *a = left, *b = right;

	if (a->run != b->run)
		return a->run < b->run ? -1 : 1;
	return a->from < b->from ? -1 : a->from > b->from;
}

int ip_idle_waits_find(struct ip_trace_reader *trace, const struct ip_states *states,
		       const struct ip_descriptors *descriptors, struct ip_idle_waits *ret)
{
	static const struct ip_frames_ops ops = {
		.opened = on_opened, .left = on_left, .resumed = on_resumed, .closed = on_closed};
	struct maker m = {.states = states,
			  .descriptors = descriptors,
			  .trace = trace,
			  .to = ret,
			  .tree = ip_calltree_create()};
	const struct ip_trace_visitor visitor = {.ops = &ops, .context = &m, .run = on_run};
	uint64_t events;
	int result;

	*ret = (struct ip_idle_waits){0};
	if (!m.tree)
		return -1;
	ip_service_ports_read(descriptors, &m.ports);
	result = ip_trace_reader_visit(trace, &visitor, &events);
	if (result == 0)
		finish(&m);
	if (ret->n)
		qsort(ret->items, ret->n, sizeof(*ret->items), by_run);
	ip_calltree_destroy(m.tree);
	free(m.paths);
	free(m.stack);
	free(m.candidates);
	free(m.unfinished);
	return m.failed ? -1 : result;
}

void ip_idle_waits_clear(struct ip_idle_waits *idle)
{
	free(idle->items);
	*idle = (struct ip_idle_waits){0};
}

const struct ip_idle_wait *ip_idle_waits_of(const struct ip_idle_waits *idle, size_t run,
					    size_t *ret_n)
{
	size_t low = 0, high = idle->n, end;

	while (low < high) {
		const size_t middle = (low + high) / 2;

		if (idle->items[middle].run < run)
			low = middle + 1;
		else
			high = middle;
	}
	for (end = low; end < idle->n && idle->items[end].run == run; end++)
		;
	*ret_n = end - low;
	return idle->items + low;
}
