/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lays the states of threads over the calls that are root causes. A call is found again by its
 * thread and its start.
 */
#include "analysis/darc/cause_waits.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/callstack/open_calls.h"
#include "analysis/darc/cause_parts.h"
#include "common/array.h"
#include "common/error.h"

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
	struct ip_cause_parts parts;
	struct wanted *wanted; /* by run, then by start */
	size_t nwanted;
	struct ip_cause_waits *found;
	size_t run;
	uint64_t now;
	bool failed;
	/* by node: of these operations, a slow one and a usual one; NULL: by cause */
	const struct ip_darc_operation *operations[2];
	struct ip_ftree *ftree;
	size_t nnodes;
	uint32_t depth;
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
		w.run = samples[i].call->run;
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

	f->run = run - f->trace->runs;
	f->now = 0;
	ip_cause_parts_run(&f->parts, run);
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

/* The time up to ts belongs to the innermost call. */
static void on_pass(void *context, const uint32_t *innermost, uint64_t ts)
{
	struct finder *f = context;
	const uint64_t now = f->now;
	uint32_t number;

	f->now = ts > now ? ts : now;
	if (!innermost || !*innermost || ts <= now || f->parts.failed)
		return;
	number = *innermost - 1;
	if (f->operations[0])
		ip_cause_parts_add(&f->parts, &f->found[number % f->nnodes], number >= f->nnodes,
				   now, ts);
	else
		ip_cause_parts_add(&f->parts, &f->found[f->wanted[number].cause],
				   f->wanted[number].reference, now, ts);
}

static int by_excess(const void *left, const void *right, void *cause)
{
	const double a = ip_cause_part_excess(cause, left), b = ip_cause_part_excess(cause, right);

	return a != b ? (a > b ? -1 : 1) : 0;
}

static int read_all(struct finder *f, struct ip_trace_reader *trace, struct ip_trace_waits *waits)
{
	static const struct ip_open_calls_ops ops = {on_run, on_pass, on_opened, NULL};
	uint64_t events;
	int ret = ip_cause_parts_begin(&f->parts, trace, waits);

	if (ret == 0)
		ret = ip_open_calls_read(trace, &ops, f, 0, &events);
	ip_cause_parts_clear(&f->parts);
	return f->failed || f->parts.failed ? -1 : ret;
}

int ip_cause_waits_find(struct ip_trace_reader *trace, const struct ip_ftree *ftree,
			const struct ip_root_causes *causes, struct ip_trace_waits *waits,
			struct ip_cause_waits **ret)
{
	struct finder f = {.trace = trace};
	int code;

	*ret = f.found = calloc(causes->n + 1, sizeof(*f.found));
	if (!f.found)
		return ip_error("out of memory");
	code = want_all(&f, ftree, causes);
	if (code == 0)
		code = read_all(&f, trace, waits);
	for (size_t i = 0; code == 0 && i < causes->n; i++)
		if (f.found[i].n)
			qsort_r(f.found[i].parts, f.found[i].n, sizeof(*f.found[i].parts),
				by_excess, &causes->items[i]);
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
			   .operations = {slow, usual},
			   .ftree = ftree,
			   .nnodes = ftree->n,
			   .depth = depth};
	int code;

	*ret = f.found = calloc(f.nnodes, sizeof(*f.found));
	if (!f.found)
		return ip_error("out of memory");
	code = read_all(&f, trace, waits);
	for (size_t i = 0; code == 0 && i < f.nnodes; i++)
		if (f.found[i].n)
			qsort(f.found[i].parts, f.found[i].n, sizeof(*f.found[i].parts),
			      by_difference);
	return code;
}

void ip_cause_waits_destroy(struct ip_cause_waits *waits, size_t n)
{
	for (size_t i = 0; waits && i < n; i++)
		free(waits[i].parts);
	free(waits);
}
