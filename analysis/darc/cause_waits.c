/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lays the states of threads over the calls that are root causes. A call is found again by its
 * thread and its start.
 */
#include "analysis/darc/cause_waits.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/callstack/open_calls.h"
#include "analysis/wait/cpu_users.h"
#include "analysis/wait/wait_culprits.h"
#include "analysis/wait/waker_paths.h"
#include "common/array.h"
#include "common/error.h"

/* So many parts of a cause are told apart: behind them only kinds are. */
#define PARTS_MOST 1024u

/* A call whose time is wanted. */
struct wanted {
	size_t run;
	uint64_t start;
	uint32_t function;
	uint32_t cause;
	bool reference, whole; /* whole: with its callees */
};

struct finder {
	const struct ip_trace_reader *trace;
	struct ip_trace_waits *waits;
	struct ip_cpu_users users;
	struct ip_waker_paths *wakers;
	struct wanted *wanted; /* by run, then by start */
	size_t nwanted;
	struct ip_cause_waits *found;
	size_t run;
	uint32_t pid, member;
	const struct ip_thread_states *thread;
	uint64_t now;
	bool failed;
	/* by node: of these operations, a slow one and a usual one; NULL: by cause */
	const struct ip_darc_operation *operations[2];
	struct ip_ftree *ftree;
	size_t nnodes;
	uint32_t depth;
	struct ip_cause_waits *target; /* to which the time is added */
	bool reference;
};

const char *ip_cause_kind_name(enum ip_cause_kind kind)
{
	static const char *const names[IP_CAUSE_KINDS] = {"self",  "preempted", "interrupt",
							  "fault", "blocked",	"unknown"};

	return names[kind];
}

double ip_cause_part_excess(const struct ip_darc_cause *c, const struct ip_cause_part *p)
{
	size_t called = 0;

	for (size_t i = 0; c->reference && c->reference[i].operation; i++)
		called += c->reference[i].call != NULL;
	return (c->n ? (double)p->ticks / c->n : 0) -
	       (called ? (double)p->reference_ticks / called : 0);
}

static int order(const struct wanted *a, const struct wanted *b)
{
	if (a->run != b->run)
		return a->run < b->run ? -1 : 1;
	if (a->start != b->start)
		return a->start < b->start ? -1 : 1;
	return a->function < b->function ? -1 : a->function > b->function;
}

static int by_start(const void *left, const void *right)
{
	return order(left, right);
}

static int add_wanted(struct finder *f, const struct ip_darc_sample *samples, size_t n,
		      const struct wanted *like)
{
	for (size_t i = 0; i < n; i++) {
		struct wanted w = *like;

		if (!samples[i].call)
			continue;
		w.run = samples[i].operation->run;
		w.start = samples[i].call->start;
		if (ip_array_grow(&f->wanted, f->nwanted, sizeof(w)) < 0)
			return -1;
		f->wanted[f->nwanted++] = w;
	}
	return 0;
}

static int want_all(struct finder *f, const struct ip_ftree *ftree,
		    const struct ip_root_causes *causes)
{
	for (size_t i = 0; i < causes->n; i++) {
		const struct ip_darc_cause *c = &causes->items[i];
		struct wanted like = {.function = ftree->nodes[c->node].function,
				      .cause = i,
				      .whole = c->stop != IP_DARC_OWN ||
					       c->loop.node != IP_FTREE_NONE};
		size_t nreference = 0;

		if (add_wanted(f, c->samples, c->n, &like) < 0)
			return -1;
		while (c->reference[nreference].operation)
			nreference++;
		like.reference = true;
		if (add_wanted(f, c->reference, nreference, &like) < 0)
			return -1;
	}
	if (f->nwanted)
		qsort(f->wanted, f->nwanted, sizeof(*f->wanted), by_start);
	return 0;
}

static bool on_run(void *context, const struct ip_thread_packets *run)
{
	struct finder *f = context;
	const struct ip_states *s = f->waits->states;

	f->run = run - f->trace->runs;
	f->pid = run->machine_pid;
	f->member = run->member;
	f->now = 0;
	f->thread =
		ip_states_find(s, run->machine_tid, run->begin > s->begin ? run->begin : s->begin);
	return f->nwanted > 0 || f->operations[0];
}

/* By node: the number of a call is that of its operation, 0 or 1, times the nodes, plus its node,
 * plus 1; 0: it is in none of the two. */
static uint32_t number_by_node(struct finder *f, const struct ip_frame *frame, uint32_t above)
{
	const uint32_t node = above ? (above - 1) % f->nnodes : 0;
	uint32_t callee;

	for (uint32_t i = 0; !above && i < 2; i++)
		if (f->run == f->operations[i]->run && frame->start == f->operations[i]->start &&
		    frame->function == f->ftree->nodes[0].function)
			return i * f->nnodes + 1;
	if (!above || f->ftree->nodes[node].depth >= f->depth)
		return above;
	callee = ip_ftree_child(f->ftree, node, frame->function, 0, 0);
	f->failed |= callee == IP_FTREE_NONE;
	/* all nodes are there, but those of calls without an end */
	return callee < f->nnodes ? above - node + callee : above;
}

/* The number of a call: index + 1 in wanted, or by node; 0: its time is not wanted. */
static int on_opened(void *context, const struct ip_frame *frame, const uint32_t *above,
		     uint32_t *ret)
{
	struct finder *f = context;
	const struct wanted key = {
		.run = f->run, .start = frame->start, .function = frame->function};
	const struct wanted *w;

	if (f->operations[0]) {
		*ret = number_by_node(f, frame, above ? *above : 0);
		return f->failed ? -1 : 0;
	}
	w = bsearch(&key, f->wanted, f->nwanted, sizeof(*f->wanted), by_start);
	*ret = w ? w - f->wanted + 1 : above && *above && f->wanted[*above - 1].whole ? *above : 0;
	return f->failed ? -1 : 0;
}

static bool same(const struct ip_cause_part *a, const struct ip_cause_part *b)
{
	return a->kind == b->kind && a->thread == b->thread && a->in == b->in &&
	       a->is_lock == b->is_lock &&
	       ((a->kind != IP_CAUSE_BLOCKED && a->kind != IP_CAUSE_FAULT) ||
		ip_wait_object_same(&a->object, &b->object));
}

/* The parts that the causes with these calls have are the same. */
static void add_part(struct finder *f, const struct ip_cause_part *like, uint64_t ticks)
{
	struct ip_cause_waits *to = f->target;
	struct ip_cause_part other;
	size_t i = 0;

	while (i < to->n && !same(&to->parts[i], like))
		i++;
	if (i == to->n && i >= PARTS_MOST) {
		other = (struct ip_cause_part){.kind = like->kind, .in = IP_NO_FUNCTION};
		other.object = (struct ip_wait_object){
			.kind = like->object.kind, .fd = -1, .call = IP_NO_CALL};
		like = &other;
		for (i = 0; i < to->n && !same(&to->parts[i], like);)
			i++;
	}
	if (i == to->n) {
		if (ip_array_grow(&to->parts, to->n, sizeof(*like)) < 0) {
			f->failed = true;
			return;
		}
		to->parts[to->n++] = *like;
	}
	*(f->reference ? &to->parts[i].reference_ticks : &to->parts[i].ticks) += ticks;
}

static int had_cpu(void *context, const struct ip_thread_states *thread, uint64_t ticks)
{
	struct finder *f = context;

	add_part(f,
		 &(struct ip_cause_part){
			 .kind = IP_CAUSE_PREEMPTED, .thread = thread, .in = IP_NO_FUNCTION},
		 ticks);
	return f->failed ? -1 : 0;
}

static void add_blocked(struct finder *f, const struct ip_thread_span *span, uint64_t ticks)
{
	const struct ip_thread_wait *waits = f->thread->waits, *wait = &waits[span->wait],
				    *last = &waits[wait->last];
	const struct ip_thread_waking *waking = &last->waking;
	struct ip_cause_part part = {.kind = IP_CAUSE_BLOCKED, .in = IP_NO_FUNCTION};

	ip_wait_object_of(wait, &f->waits->descriptors, f->pid, &part.object);
	ip_wait_object_in(&part.object, f->member);
	if (part.object.kind == IP_WAIT_FAULT) {
		/* that each is of another address is of no interest */
		part.kind = IP_CAUSE_FAULT;
		part.object.address = 0;
	}
	if (part.kind == IP_CAUSE_BLOCKED && waking->tsc && !waking->context && waking->waker) {
		const uint32_t node = ip_waker_paths_holder(f->wakers, last);

		part.thread = ip_states_find(f->waits->states, waking->waker, waking->tsc);
		part.is_lock = part.thread && ip_wait_is_lock(&wait->call);
		if (node)
			part.in = f->wakers->tree->nodes[node].function;
	}
	add_part(f, &part, ticks);
}

static void add_span(struct finder *f, const struct ip_thread_span *span, uint64_t from,
		     uint64_t to)
{
	struct ip_cause_part part = {.kind = IP_CAUSE_UNKNOWN, .in = IP_NO_FUNCTION};

	switch (span ? (enum ip_thread_state)span->state : IP_THREAD_UNKNOWN) {
	case IP_THREAD_RUNNABLE:
		ip_cpu_users_visit(&f->users, span->cpu, from, to, had_cpu, f);
		return;
	case IP_THREAD_BLOCKED:
		add_blocked(f, span, to - from);
		return;
	case IP_THREAD_RUNNING:
		part.kind = IP_CAUSE_SELF;
		break;
	default:
		break;
	}
	add_part(f, &part, to - from);
}

/* To what the time of a call is added. */
static void find_target(struct finder *f, uint32_t number)
{
	if (f->operations[0]) {
		f->reference = number >= f->nnodes;
		f->target = &f->found[number % f->nnodes];
	} else {
		f->reference = f->wanted[number].reference;
		f->target = &f->found[f->wanted[number].cause];
	}
}

/* The time up to ts belongs to the innermost call. */
static void on_pass(void *context, const uint32_t *innermost, uint64_t ts)
{
	struct finder *f = context;
	const struct ip_thread_states *t = f->thread;
	const uint64_t end = f->waits->states->end;
	uint64_t now = f->now;
	size_t i;

	f->now = ts > now ? ts : now;
	if (!innermost || !*innermost || ts <= now || f->failed)
		return;
	find_target(f, *innermost - 1);
	for (i = t ? ip_states_span_at(t, now) : 0; now < ts;) {
		const bool before = !t || i >= t->nspans;
		const size_t next = before ? 0 : i + 1;
		uint64_t to = t && next < t->nspans && t->spans[next].from > now &&
					      t->spans[next].from < ts
				      ? t->spans[next].from
				      : ts;

		if (!before && now < end && to > end)
			to = end; /* behind it nothing is known */
		add_span(f, before || now >= end ? NULL : &t->spans[i], now, to);
		i = t && next < t->nspans && t->spans[next].from <= to ? next : i;
		now = to;
	}
}

static int by_excess(const void *left, const void *right, void *cause)
{
	const double a = ip_cause_part_excess(cause, left), b = ip_cause_part_excess(cause, right);

	return a != b ? (a > b ? -1 : 1) : 0;
}

static int read_all(struct finder *f, struct ip_trace_reader *trace)
{
	static const struct ip_open_calls_ops ops = {on_run, on_pass, on_opened, NULL};
	uint64_t events;

	if (ip_cpu_users_make(f->waits->states, &f->users) < 0)
		return -1;
	f->wakers = ip_waker_paths_read(trace, f->waits->states);
	if (!f->wakers || ip_open_calls_read(trace, &ops, f, 0, &events) < 0)
		return -1;
	return f->failed ? -1 : 0;
}

int ip_cause_waits_find(struct ip_trace_reader *trace, const struct ip_ftree *ftree,
			const struct ip_root_causes *causes, struct ip_trace_waits *waits,
			struct ip_cause_waits **ret)
{
	struct finder f = {.trace = trace, .waits = waits};
	int code;

	*ret = f.found = calloc(causes->n + 1, sizeof(*f.found));
	if (!f.found)
		return ip_error("out of memory");
	code = want_all(&f, ftree, causes);
	if (code == 0)
		code = read_all(&f, trace);
	for (size_t i = 0; code == 0 && i < causes->n; i++)
		if (f.found[i].n)
			qsort_r(f.found[i].parts, f.found[i].n, sizeof(*f.found[i].parts),
				by_excess, &causes->items[i]);
	ip_cpu_users_clear(&f.users);
	ip_waker_paths_destroy(f.wakers);
	free(f.wanted);
	return code;
}

static int by_difference(const void *left, const void *right)
{
	const struct ip_cause_part *a = left, *b = right;
	const double x = (double)a->ticks - (double)a->reference_ticks,
		     y = (double)b->ticks - (double)b->reference_ticks;

	return x != y ? (x > y ? -1 : 1) : 0;
}

int ip_node_waits_find(struct ip_trace_reader *trace, struct ip_ftree *ftree, uint32_t depth,
		       const struct ip_darc_operation *slow, const struct ip_darc_operation *usual,
		       struct ip_trace_waits *waits, struct ip_cause_waits **ret)
{
	struct finder f = {.trace = trace,
			   .waits = waits,
			   .operations = {slow, usual},
			   .ftree = ftree,
			   .nnodes = ftree->n,
			   .depth = depth};
	int code;

	*ret = f.found = calloc(f.nnodes, sizeof(*f.found));
	if (!f.found)
		return ip_error("out of memory");
	code = read_all(&f, trace);
	for (size_t i = 0; code == 0 && i < f.nnodes; i++)
		if (f.found[i].n)
			qsort(f.found[i].parts, f.found[i].n, sizeof(*f.found[i].parts),
			      by_difference);
	ip_cpu_users_clear(&f.users);
	ip_waker_paths_destroy(f.wakers);
	return code;
}

void ip_cause_waits_destroy(struct ip_cause_waits *waits, size_t n)
{
	for (size_t i = 0; waits && i < n; i++)
		free(waits[i].parts);
	free(waits);
}
