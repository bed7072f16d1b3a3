/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collects all calls that hand over or serve, then pairs those with the same value.
 */
#include "analysis/darc/handover_pairs.h"

#include <stdlib.h>

#include "analysis/read/value_key.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/selection/selection.h"

/* A value that was seen with a call or a point. */
struct seen {
	uint32_t rule;
	bool serves;
	uint64_t hash; /* of the value */
	uint64_t tsc, end;
	size_t run;
};

/* A call that serves, and has not ended. */
struct open_server {
	size_t seen;
	size_t depth; /* of its frame */
};

struct reader {
	const struct ip_trace_reader *trace;
	const struct ip_handover_rule *rules;
	size_t nrules, run;
	uint64_t end; /* of the run */
	const uint64_t *payload;
	struct seen *seen;
	size_t n;
	struct open_server *open;
	size_t nopen;
	bool failed;
};

static void close_down_to(struct reader *r, size_t depth, uint64_t ts)
{
	while (r->nopen && r->open[r->nopen - 1].depth >= depth)
		r->seen[r->open[--r->nopen].seen].end = ts;
}

static void on_run(void *context, const struct ip_thread_packets *run)
{
	struct reader *r = context;

	close_down_to(r, 0, r->end);
	r->run = run - r->trace->runs;
	r->end = run->end;
}

static void on_values(void *context, const uint64_t *payload)
{
	((struct reader *)context)->payload = payload;
}

/* depth: of the frame whose end is the end of the serving. */
static void note(struct reader *r, const struct ip_handover_rule *rule, bool serves, uint64_t ts,
		 size_t depth)
{
	struct ip_value value;
	struct ip_value_key key;

	if (!ip_value_name_get(serves ? &rule->served : &rule->given, r->payload, false, &value))
		return;
	key = ip_value_key_make(&value, false);
	if (ip_array_grow(&r->seen, r->n, sizeof(*r->seen)) < 0 ||
	    (serves && ip_array_grow(&r->open, r->nopen, sizeof(*r->open)) < 0)) {
		r->failed = true;
		return;
	}
	if (serves)
		r->open[r->nopen++] = (struct open_server){.seen = r->n, .depth = depth};
	r->seen[r->n++] = (struct seen){.rule = rule - r->rules,
					.serves = serves,
					.hash = ip_value_key_hash(&key),
					.tsc = ts,
					.end = ts,
					.run = r->run};
}

static void note_all(struct reader *r, uint32_t function, uint64_t ts, size_t depth)
{
	for (size_t i = 0; r->payload && !r->failed && i < r->nrules; i++) {
		if (r->rules[i].giver == function)
			note(r, &r->rules[i], false, ts, depth);
		if (r->rules[i].server == function)
			note(r, &r->rules[i], true, ts, depth);
	}
}

static void on_opened(void *context, struct ip_frame *frame, size_t depth)
{
	struct reader *r = context;

	close_down_to(r, depth, frame->start);
	note_all(r, frame->function, frame->start, depth);
}

static void on_point(void *context, uint32_t function, size_t depth, uint64_t ts)
{
	/* the call around the point serves */
	note_all(context, function, ts, depth ? depth - 1 : 0);
}

static void on_left(void *context, const struct ip_frame *frame, size_t depth, uint64_t ts)
{
	(void)frame;
	close_down_to(context, depth, ts);
}

static void on_closed(void *context, const struct ip_frame *frame, size_t depth, uint64_t end,
		      enum ip_frame_end how)
{
	(void)frame;
	(void)how;
	close_down_to(context, depth, end);
}

static int by_value(const void *left, const void *right)
{
	const struct seen *a = left, *b = right;

	if (a->rule != b->rule)
		return a->rule < b->rule ? -1 : 1;
	if (a->hash != b->hash)
		return a->hash < b->hash ? -1 : 1;
	if (a->tsc != b->tsc)
		return a->tsc < b->tsc ? -1 : 1;
	return a->serves - b->serves;
}

static int by_operation(const void *left, const void *right)
{
	const struct ip_handover *a = left, *b = right;

	if (a->run != b->run)
		return a->run < b->run ? -1 : 1;
	if (a->operation != b->operation)
		return a->operation < b->operation ? -1 : 1;
	return a->given < b->given ? -1 : a->given > b->given;
}

/* The first operation of a thread that was open at a time or begins later; n: none. */
static size_t operation_from(const struct ip_darc_operation *const *all, size_t n, size_t run,
			     uint64_t tsc)
{
	size_t low = 0, high = n;

	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		const struct ip_darc_operation *o = all[middle];

		if (o->run > run || (o->run == run && o->start + o->ticks >= tsc))
			high = middle;
		else
			low = middle + 1;
	}
	return low < n && all[low]->run == run ? low : n;
}

static int fail_without_value(const struct reader *r, uint32_t function, const char *value)
{
	const char *name = r->trace->session->functions[function].linker_name;
	_cleanup_free_ char *whole = ip_demangle(name, false);

	name = whole ? whole : name;
	return ip_error("no call of %s has a value '%s': record it, with --args '%s(%s)'", name,
			value, name, value);
}

/* Each function of the rules has to have its value: what was not recorded is not taken for what did
 * not happen. */
static int check(const struct reader *r)
{
	for (size_t i = 0; i < r->nrules; i++) {
		bool given = false, served = false;

		for (size_t k = 0; k < r->n; k++)
			if (r->seen[k].rule == i)
				*(r->seen[k].serves ? &served : &given) = true;
		if (!given)
			return fail_without_value(r, r->rules[i].giver, r->rules[i].given.text);
		if (!served)
			return fail_without_value(r, r->rules[i].server, r->rules[i].served.text);
	}
	return 0;
}

static int add(const struct reader *r, struct ip_handovers *ret, const struct seen *given,
	       const struct seen *served, const struct ip_darc_operation *o)
{
	if (ip_array_grow(&ret->items, ret->n, sizeof(*ret->items)) < 0)
		return -1;
	ret->items[ret->n++] = (struct ip_handover){.run = o->run,
						    .operation = o->start,
						    .operation_end = o->start + o->ticks,
						    .given = given->tsc,
						    .server_run = served->run,
						    .server = r->rules[served->rule].server,
						    .start = served->tsc,
						    .end = served->end};
	return 0;
}

static int pair(struct reader *r, const struct ip_darc_operation *const *operations, size_t n,
		struct ip_handovers *ret)
{
	const struct seen *given = NULL;

	if (r->n)
		qsort(r->seen, r->n, sizeof(*r->seen), by_value);
	for (const struct seen *s = r->seen; s < r->seen + r->n; s++) {
		if (!s->serves) {
			given = s;
			continue;
		}
		if (!given || given->rule != s->rule || given->hash != s->hash)
			continue;
		/* It may be waited for by an operation that begins later. One that was over before
		 * it was served has not waited for it. */
		for (size_t i = given->run == s->run
					? n
					: operation_from(operations, n, given->run, s->tsc);
		     i < n && operations[i]->run == given->run && operations[i]->start < s->end;
		     i++)
			if (add(r, ret, given, s, operations[i]) < 0)
				return -1;
		given = NULL;
	}
	if (ret->n)
		qsort(ret->items, ret->n, sizeof(*ret->items), by_operation);
	return 0;
}

int ip_handover_pairs_find(struct ip_trace_reader *trace, const struct ip_handover_rule *rules,
			   size_t nrules, const struct ip_darc_operation *const *operations,
			   size_t noperations, struct ip_handovers *ret)
{
	static const struct ip_frames_ops ops = {.opened = on_opened,
						 .left = on_left,
						 .closed = on_closed,
						 .point = on_point,
						 .values = on_values};
	struct reader r = {.trace = trace, .rules = rules, .nrules = nrules};
	const struct ip_trace_visitor visitor = {.ops = &ops, .context = &r, .run = on_run};
	uint64_t events;
	int code = ip_trace_reader_visit(trace, &visitor, &events);

	close_down_to(&r, 0, r.end);
	if (r.failed)
		code = -1;
	if (code == 0)
		code = check(&r);
	if (code == 0)
		code = pair(&r, operations, noperations, ret);
	free(r.seen);
	free(r.open);
	return code;
}
