/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows the values of threads. value_intervals.h has the rules.
 */
#include "analysis/wait/clients/value_intervals.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/error.h"

/* A call that has an id, and is open. */
struct scope {
	size_t depth;
	uint32_t before; /* for what the thread worked when it began */
};

struct reading {
	const struct ip_value_intervals_options *options;
	struct ip_value_intervals *to;
	const struct ip_trace_reader *trace;
	const struct ip_idle_wait *idle, *idle_end; /* of the run: those that are not over */
	const uint64_t *payload;		    /* of the event; NULL: it has no values */
	struct scope *scopes;
	size_t nscopes;
	uint64_t since, end;
	uint32_t id; /* IP_NOBODY: none */
	int32_t tid;
	bool begins, failed;
};

static int grow_index(struct ip_value_intervals *v)
{
	const size_t size = v->size ? 2 * v->size : 1024;
	uint32_t *index = calloc(size, sizeof(*index));

	if (!index)
		return ip_error("out of memory");
	for (size_t i = 0; i < v->n; i++) {
		size_t at = v->hashes[i] & (size - 1);

		while (index[at])
			at = (at + 1) & (size - 1);
		index[at] = i + 1;
	}
	free(v->index);
	v->index = index;
	v->size = size;
	return 0;
}

static int add_key(struct ip_value_intervals *v, const struct ip_value_key *key, uint64_t hash)
{
	struct ip_value_key copy = *key;
	uint64_t *words = NULL;
	char *text;

	if (ip_array_grow(&v->keys, v->n, sizeof(*v->keys)) < 0 ||
	    ip_array_grow(&v->texts, v->n, sizeof(*v->texts)) < 0 ||
	    ip_array_grow(&v->words, v->n, sizeof(*v->words)) < 0 ||
	    ip_array_grow(&v->hashes, v->n, sizeof(*v->hashes)) < 0)
		return -1;
	if (key->kind != IP_KEY_OTHERS && ip_value_key_copy(&copy, &words) < 0)
		return -1;
	text = ip_value_key_shown(&copy);
	if (!text) {
		free(words);
		return -1;
	}
	v->keys[v->n] = copy;
	v->words[v->n] = words;
	v->texts[v->n] = text;
	v->hashes[v->n++] = hash;
	return 0;
}

static int others(struct ip_value_intervals *v, uint32_t *ret)
{
	const struct ip_value_key key = {.kind = IP_KEY_OTHERS};

	if (!v->others) {
		if (add_key(v, &key, ip_value_key_hash(&key)) < 0)
			return -1;
		v->others = v->n;
	}
	*ret = v->others - 1;
	return 0;
}

/* The number of an id. Returns 0, or -1 with an error. */
static int id_of(struct ip_value_intervals *v, const struct ip_value *value, uint32_t *ret)
{
	const struct ip_value_key key = ip_value_key_make(value, false);
	const uint64_t hash = ip_value_key_hash(&key);
	size_t at;

	if (2 * (v->n + 1) > v->size && grow_index(v) < 0)
		return -1;
	for (at = hash & (v->size - 1); v->index[at]; at = (at + 1) & (v->size - 1)) {
		*ret = v->index[at] - 1;
		if (v->hashes[*ret] == hash && ip_value_key_equals(&v->keys[*ret], &key))
			return 0;
	}
	if (v->n >= IP_REQUEST_IDS_MOST)
		return others(v, ret);
	if (add_key(v, &key, hash) < 0)
		return -1;
	*ret = v->n - 1;
	v->index[at] = v->n;
	return 0;
}

/* From a time on the thread works for another one. */
static void work_for(struct reading *r, uint32_t id, uint64_t tsc, bool begins)
{
	struct ip_client_intervals *all = &r->to->intervals;

	tsc = tsc > r->since ? tsc : r->since;
	if (r->id != IP_NOBODY && tsc > r->since) {
		if (ip_array_grow(&all->items, all->n, sizeof(*all->items)) < 0)
			r->failed = true;
		else
			all->items[all->n++] = (struct ip_client_interval){.from = r->since,
									   .to = tsc,
									   .tid = r->tid,
									   .client = r->id,
									   .begins = r->begins};
		r->begins = false;
	}
	r->begins = begins || (r->begins && id == r->id);
	r->id = id;
	r->since = tsc;
}

/* Idle waits that began up to a time end what a point has begun. */
static void pass(struct reading *r, uint64_t tsc)
{
	for (; r->idle != r->idle_end && r->idle->from <= tsc; r->idle++)
		if (!r->options->ends && !r->nscopes && r->id != IP_NOBODY &&
		    r->idle->from >= r->since)
			work_for(r, IP_NOBODY, r->idle->from, false);
}

/* Whether the event has an id. */
static bool has_id(struct reading *r, uint32_t function, uint32_t *ret)
{
	const struct ip_value_intervals_options *o = r->options;
	struct ip_value value;

	if (!r->payload || r->failed || (o->gives && !o->gives[function]))
		return false;
	for (size_t i = 0; i < o->nnames; i++)
		if (ip_value_name_get(&o->names[i], r->payload, false, &value)) {
			r->failed = id_of(r->to, &value, ret) < 0;
			return !r->failed;
		}
	return false;
}

static void on_values(void *context, const uint64_t *payload)
{
	((struct reading *)context)->payload = payload;
}

static void on_opened(void *context, struct ip_frame *frame, size_t depth)
{
	struct reading *r = context;
	uint32_t id;

	pass(r, frame->start);
	if (!has_id(r, frame->function, &id))
		return;
	if (ip_array_grow(&r->scopes, r->nscopes, sizeof(*r->scopes)) < 0) {
		r->failed = true;
		return;
	}
	r->scopes[r->nscopes++] = (struct scope){depth, r->id};
	work_for(r, id, frame->start, true);
}

/* The calls from a depth on are over. */
static void leave(struct reading *r, size_t depth, uint64_t tsc)
{
	pass(r, tsc);
	while (r->nscopes && r->scopes[r->nscopes - 1].depth >= depth)
		work_for(r, r->scopes[--r->nscopes].before, tsc, false);
}

static void on_left(void *context, const struct ip_frame *frame, size_t depth, uint64_t ts)
{
	leave(context, depth, ts);
}

static void on_closed(void *context, const struct ip_frame *frame, size_t depth, uint64_t end,
		      enum ip_frame_end how)
{
	struct reading *r = context;

	if (how == IP_END_UNWOUND) /* it was left before */
		return;
	leave(r, depth, end);
	if (r->options->ends && r->options->ends[frame->function])
		work_for(r, IP_NOBODY, end, false);
}

static void on_point(void *context, uint32_t function, size_t depth, uint64_t ts)
{
	struct reading *r = context;
	uint32_t id;

	pass(r, ts);
	if (r->options->ends && r->options->ends[function])
		work_for(r, IP_NOBODY, ts, false);
	else if (has_id(r, function, &id))
		work_for(r, id, ts, true);
}

/* The run is over. */
static void finish(struct reading *r)
{
	pass(r, r->end);
	r->nscopes = 0;
	work_for(r, IP_NOBODY, r->end, false);
}

static void on_run(void *context, const struct ip_thread_packets *run)
{
	struct reading *r = context;
	size_t n;

	finish(r);
	r->idle = ip_idle_waits_of(r->options->idle, run - r->trace->runs, &n);
	r->idle_end = r->idle + n;
	r->tid = run->machine_tid;
	r->since = run->begin;
	r->end = run->end;
}

static int compare(const void *left, const void *right)
{
	const struct ip_client_interval *a = left, *b = right;

	if (a->tid != b->tid)
		return a->tid < b->tid ? -1 : 1;
	return a->from < b->from ? -1 : a->from > b->from;
}

int ip_value_intervals_read(struct ip_trace_reader *trace,
			    const struct ip_value_intervals_options *options,
			    struct ip_value_intervals *ret)
{
	static const struct ip_frames_ops ops = {.opened = on_opened,
						 .left = on_left,
						 .closed = on_closed,
						 .point = on_point,
						 .values = on_values};
	static const struct ip_idle_wait none[1];
	struct reading r = {.options = options,
			    .to = ret,
			    .trace = trace,
			    .idle = none,
			    .idle_end = none,
			    .id = IP_NOBODY};
	const struct ip_trace_visitor visitor = {.ops = &ops, .context = &r, .run = on_run};
	uint64_t events;
	int result;

	*ret = (struct ip_value_intervals){0};
	result = ip_trace_reader_visit(trace, &visitor, &events);
	if (result == 0)
		finish(&r);
	if (ret->intervals.n)
		qsort(ret->intervals.items, ret->intervals.n, sizeof(*ret->intervals.items),
		      compare);
	free(r.scopes);
	return r.failed ? -1 : result;
}

void ip_value_intervals_clear(struct ip_value_intervals *v)
{
	for (size_t i = 0; i < v->n; i++) {
		free(v->words[i]);
		free(v->texts[i]);
	}
	free(v->keys);
	free(v->words);
	free(v->texts);
	free(v->hashes);
	free(v->index);
	ip_client_intervals_clear(&v->intervals);
	*v = (struct ip_value_intervals){0};
}
