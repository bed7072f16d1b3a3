/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collects all calls that hand over or serve, then pairs those with the same value. Events, each of
 * which may be of several rules, are numbered, so that what a thread served when it handed
 * something over is found after that.
 */
#include "analysis/darc/handover_pairs.h"

#include <stdlib.h>

#include "analysis/read/value_key.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/selection/selection.h"

#define A_CALL UINT32_MAX /* is no function */

/* A value that was seen with a call or a point. */
struct seen {
	uint32_t rule;
	bool serves, point;
	uint64_t hash; /* of the value */
	uint64_t tsc, end;
	size_t run;
	size_t event;  /* its number, from 1 on */
	size_t source; /* of what hands over: the event that was served then; 0: none */
};

/* A call that hands over or serves, and has not ended. */
struct open_call {
	size_t seen;
	size_t frames; /* it ends when fewer are open; a point in none of them never does */
	size_t served; /* the innermost event that is served; 0: none is */
	/* A point that serves: it does so until its call ends. A_CALL: it is a call. */
	uint32_t point;
};

/* Of an event that serves. */
struct event {
	size_t outer; /* the one that was served when it began; 0: none */
	size_t pair;  /* the pair, plus 1; 0: nothing was handed over */
};

struct reader {
	const struct ip_trace_reader *trace;
	const struct ip_handover_rule *rules;
	size_t nrules, run;
	uint64_t end; /* of the run */
	const uint64_t *payload;
	struct seen *seen;
	size_t n;
	struct open_call *open;
	size_t nopen;
	struct event *events; /* by number */
	size_t nevents;
	/* What the thread has served last, within nothing else: seen from the first one up to
	 * another one; none where these are the same. */
	size_t last, last_end;
	bool failed;
};

static void close_last(struct reader *r, uint64_t ts)
{
	r->seen[r->open[--r->nopen].seen].end = ts;
}

/* So many frames stay open. */
static void close_down_to(struct reader *r, size_t frames, uint64_t ts)
{
	while (r->nopen && r->open[r->nopen - 1].frames > frames)
		close_last(r, ts);
}

/* The thread has no more events. */
static void close_all(struct reader *r)
{
	while (r->nopen)
		close_last(r, r->end);
}

/* A point comes again in the same call, as in a loop: what was served there is over. */
static void close_point(struct reader *r, uint32_t function, size_t frames, uint64_t ts)
{
	size_t first = r->nopen;

	for (size_t i = r->nopen; i && r->open[i - 1].frames >= frames; i--)
		if (r->open[i - 1].point == function)
			first = i - 1;
	/* whether the call around it, which is not known, goes on is not known either */
	for (size_t i = 0; i < first && !r->open[i].frames; i++)
		if (r->open[i].point == function)
			first = i;
	while (r->nopen > first)
		close_last(r, ts);
}

static void on_run(void *context, const struct ip_thread_packets *run)
{
	struct reader *r = context;

	close_all(r);
	r->run = run - r->trace->runs;
	r->end = run->end;
	r->last = r->last_end = 0;
}

static void on_values(void *context, const uint64_t *payload)
{
	((struct reader *)context)->payload = payload;
}

/* The event that is served now, or was served last and has this value; 0: none. */
static size_t source_of(const struct reader *r, uint64_t hash)
{
	const size_t served = r->nopen ? r->open[r->nopen - 1].served : 0;

	for (size_t i = r->last; !served && i < r->last_end; i++)
		if (r->seen[i].hash == hash)
			return r->seen[i].event;
	return served;
}

/* call: which frames are open until the serving, or the giving, ends; NULL: it is over at once. */
static void note(struct reader *r, const struct ip_handover_rule *rule, bool serves, uint64_t ts,
		 const struct open_call *call)
{
	struct ip_value value;
	struct ip_value_key key;
	struct seen seen;

	if (!ip_value_name_get(serves ? &rule->served : &rule->given, r->payload, false, &value))
		return;
	key = ip_value_key_make(&value, false);
	if (ip_array_grow(&r->seen, r->n, sizeof(*r->seen)) < 0 ||
	    ip_array_grow(&r->open, r->nopen, sizeof(*r->open)) < 0) {
		r->failed = true;
		return;
	}
	seen = (struct seen){.rule = rule - r->rules,
			     .serves = serves,
			     .point = !call || call->point != A_CALL,
			     .hash = ip_value_key_hash(&key),
			     .tsc = ts,
			     .end = ts,
			     .run = r->run,
			     .event = r->nevents};
	if (!serves)
		seen.source = source_of(r, seen.hash);
	if (call) {
		const size_t outer = r->nopen ? r->open[r->nopen - 1].served : 0;

		if (serves && outer != r->nevents)
			r->events[r->nevents].outer = outer;
		r->open[r->nopen] = *call;
		r->open[r->nopen].seen = r->n;
		r->open[r->nopen++].served = serves ? r->nevents : outer;
	}
	r->seen[r->n++] = seen;
}

static void note_all(struct reader *r, uint32_t function, uint64_t ts,
		     const struct open_call *giver, const struct open_call *server)
{
	const bool inner = r->nopen && r->open[r->nopen - 1].served;
	const size_t first = r->n;
	bool wanted = false;

	for (size_t i = 0; r->payload && i < r->nrules; i++)
		wanted |= r->rules[i].giver == function || r->rules[i].server == function;
	if (!wanted || r->failed)
		return;
	/* number 0 is none */
	r->nevents += !r->nevents;
	if (ip_array_grow(&r->events, r->nevents, sizeof(*r->events)) < 0) {
		r->failed = true;
		return;
	}
	r->events[0] = r->events[r->nevents] = (struct event){0};
	/* what a call that serves hands over itself comes from what it serves */
	for (size_t i = 0; !r->failed && i < r->nrules; i++)
		if (r->rules[i].server == function)
			note(r, &r->rules[i], true, ts, server);
	if (!inner && r->n > first) {
		r->last = first;
		r->last_end = r->n;
	}
	for (size_t i = 0; !r->failed && i < r->nrules; i++)
		if (r->rules[i].giver == function)
			note(r, &r->rules[i], false, ts, giver);
	r->nevents++;
}

static void on_opened(void *context, struct ip_frame *frame, size_t depth)
{
	const struct open_call call = {.frames = depth + 1, .point = A_CALL};
	struct reader *r = context;

	close_down_to(r, depth, frame->start);
	note_all(r, frame->function, frame->start, &call, &call);
}

static void on_point(void *context, uint32_t function, size_t depth, uint64_t ts)
{
	/* the call around the point serves */
	const struct open_call around = {.frames = depth, .point = function};

	close_point(context, function, depth, ts);
	note_all(context, function, ts, NULL, &around);
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
static int check(const struct reader *r, struct ip_handover_rule *rules, bool may_lack)
{
	for (size_t i = 0; i < r->nrules; i++)
		rules[i].was_given = rules[i].was_served = rules[i].by_point = false;
	for (size_t k = 0; k < r->n; k++) {
		struct ip_handover_rule *rule = &rules[r->seen[k].rule];

		*(r->seen[k].serves ? &rule->was_served : &rule->was_given) = true;
		rule->by_point |= r->seen[k].serves && r->seen[k].point;
	}
	for (size_t i = 0; i < r->nrules && !may_lack; i++) {
		if (!rules[i].was_given)
			return fail_without_value(r, r->rules[i].giver, r->rules[i].given.text);
		if (!rules[i].was_served)
			return fail_without_value(r, r->rules[i].server, r->rules[i].served.text);
	}
	return 0;
}

static int add(struct reader *r, struct ip_handover_pairs *ret, const struct seen *given,
	       const struct seen *served)
{
	if (ip_array_grow(&ret->items, ret->n, sizeof(*ret->items)) < 0)
		return -1;
	/* the event of what is handed over, until all pairs are known */
	ret->items[ret->n++] = (struct ip_handover_pair){.given_run = given->run,
							 .given = given->tsc,
							 .given_end = given->end,
							 .source = given->source,
							 .run = served->run,
							 .server = r->rules[served->rule].server,
							 .start = served->tsc,
							 .end = served->end};
	r->events[served->event].pair = ret->n;
	return 0;
}

static int pair(struct reader *r, struct ip_handover_pairs *ret)
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
		if (add(r, ret, given, s) < 0)
			return -1;
		given = NULL;
	}
	/* what was called directly served nothing: that is a part of the event around it */
	for (size_t i = 1; i < r->nevents; i++)
		if (!r->events[i].pair)
			r->events[i].pair = r->events[r->events[i].outer].pair;
	for (size_t i = 0; i < ret->n; i++) {
		const size_t source = ret->items[i].source;

		ret->items[i].source = source ? r->events[source].pair - 1 : IP_HANDOVER_NONE;
	}
	return 0;
}

int ip_handover_pairs_find(struct ip_trace_reader *trace, struct ip_handover_rule *rules,
			   size_t nrules, bool may_lack, struct ip_handover_pairs *ret)
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

	*ret = (struct ip_handover_pairs){0};
	close_all(&r);
	if (r.failed)
		code = -1;
	if (code == 0)
		code = check(&r, rules, may_lack);
	if (code == 0)
		code = pair(&r, ret);
	free(r.seen);
	free(r.open);
	free(r.events);
	return code;
}

void ip_handover_pairs_clear(struct ip_handover_pairs *pairs)
{
	free(pairs->items);
	*pairs = (struct ip_handover_pairs){0};
}
