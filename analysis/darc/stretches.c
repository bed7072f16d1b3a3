/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes calls of root causes apart: a callee that has ended ends one stretch, and begins another.
 * A call of the cause tells by its end whether it is one of those that the search has looked at;
 * until then what is known of it is kept apart.
 */
#include "analysis/darc/stretches.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/error.h"

#define SLOTS (4 * IP_STRETCHES_MOST)

/* A call that is taken apart. */
struct wanted {
	const struct ip_darc_operation *operation;
	const struct ip_darc_call *call;
	bool reference, done;
};

struct sum {
	uint64_t ticks, times;
};

/* What is known of one stretch. */
struct stretch {
	uint32_t from, to;
	struct sum now; /* in the call that has not ended */
	struct sum all; /* in calls of the cause */
	/* in each call of the reference that has it */
	struct sum *reference;
	size_t nreference;
};

/* One root cause. */
struct taken {
	uint32_t node;
	struct wanted *wanted; /* by thread and begin of the operation */
	size_t nwanted, calls, references;
	size_t reference; /* operations, also those without a call */
	struct stretch *items;
	size_t n;
	uint16_t *slots; /* open addressing: index + 1 */
	/* the stretches that the call that has not ended has */
	uint32_t *touched;
	size_t ntouched;
	uint64_t left_out;
	/* that call: its operation, and the callee before; from IP_FTREE_NONE: there was none */
	size_t run;
	uint64_t operation, first_start, first_queued, last_end, last_queued;
	uint32_t first, from;
	bool wants;
};

struct reader {
	const struct ip_ftree *ftree;
	struct taken *taken;
	size_t n;
};

/* By thread and begin. */
static int order(size_t run, uint64_t start, const struct wanted *w)
{
	if (run != w->operation->run)
		return run < w->operation->run ? -1 : 1;
	return start < w->operation->start ? -1 : start > w->operation->start;
}

static int by_operation(const void *left, const void *right)
{
	const struct wanted *a = left;

	return order(a->operation->run, a->operation->start, right);
}

/* The first wanted call of an operation, or where it would be. */
static size_t find_wanted(const struct taken *t, size_t run, uint64_t start)
{
	size_t low = 0, high = t->nwanted;

	while (low < high) {
		const size_t middle = low + (high - low) / 2;

		if (order(run, start, &t->wanted[middle]) > 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* What was known of a call that has not ended is forgotten. */
static void forget(struct taken *t)
{
	for (size_t i = 0; i < t->ntouched; i++)
		t->items[t->touched[i]].now = (struct sum){0};
	t->ntouched = 0;
	t->from = t->first = IP_FTREE_NONE;
}

static void begin(struct taken *t, const struct ip_darc_call_end *call)
{
	const size_t i = find_wanted(t, call->run, call->operation);

	forget(t);
	t->run = call->run;
	t->operation = call->operation;
	t->wants = i < t->nwanted && order(t->run, t->operation, &t->wanted[i]) == 0;
}

/* The stretch between two callees. NULL with an error, or where there is no room for more of them:
 * *ret_full. */
static struct stretch *find_stretch(struct taken *t, uint32_t from, uint32_t to, bool *ret_full)
{
	uint32_t slot = (from * 2654435761u ^ to * 2246822519u) % SLOTS;

	*ret_full = false;
	for (; t->slots[slot]; slot = (slot + 1) % SLOTS) {
		struct stretch *s = &t->items[t->slots[slot] - 1];

		if (s->from == from && s->to == to)
			return s;
	}
	*ret_full = t->n == IP_STRETCHES_MOST;
	if (*ret_full || ip_array_grow(&t->items, t->n, sizeof(*t->items)) < 0)
		return NULL;
	t->items[t->n++] = (struct stretch){.from = from, .to = to};
	t->slots[slot] = t->n;
	return &t->items[t->n - 1];
}

/* A stretch has ended, of which the thread stood for some ticks. */
static int add(struct taken *t, uint32_t from, uint32_t to, uint64_t ticks, uint64_t queued)
{
	bool full;
	struct stretch *s = find_stretch(t, from, to, &full);

	if (!s) {
		t->left_out += full;
		return full ? 0 : -1;
	}
	if (!s->now.times++)
		t->touched[t->ntouched++] = s - t->items;
	s->now.ticks += ticks > queued ? ticks - queued : 0;
	return 0;
}

static uint64_t between(uint64_t from, uint64_t to)
{
	return to > from ? to - from : 0;
}

/* A callee has ended. */
static int add_callee(struct taken *t, const struct ip_darc_call_end *call)
{
	int ret = 0;

	if (t->first == IP_FTREE_NONE) {
		t->first = call->node;
		t->first_start = call->start;
		t->first_queued = call->start_queued;
	} else {
		ret = add(t, t->from, call->node, between(t->last_end, call->start),
			  between(t->last_queued, call->start_queued));
	}
	t->from = call->node;
	t->last_end = call->end;
	t->last_queued = call->end_queued;
	return ret;
}

/* The call of the cause itself has ended: of its first stretch the begin is known now. */
static int add_ends(struct taken *t, const struct ip_darc_call_end *call)
{
	if (t->first == IP_FTREE_NONE)
		return add(t, IP_FTREE_NONE, IP_FTREE_NONE, between(call->start, call->end),
			   between(call->start_queued, call->end_queued));
	if (add(t, IP_FTREE_NONE, t->first, between(call->start, t->first_start),
		between(call->start_queued, t->first_queued)) < 0)
		return -1;
	return add(t, t->from, IP_FTREE_NONE, between(t->last_end, call->end),
		   between(t->last_queued, call->end_queued));
}

static int keep(struct taken *t, const struct wanted *w)
{
	for (size_t i = 0; i < t->ntouched; i++) {
		struct stretch *s = &t->items[t->touched[i]];

		if (!w->reference) {
			s->all.ticks += s->now.ticks;
			s->all.times += s->now.times;
			continue;
		}
		if (ip_array_grow(&s->reference, s->nreference, sizeof(*s->reference)) < 0)
			return -1;
		s->reference[s->nreference++] = s->now;
	}
	t->calls += !w->reference;
	t->references += w->reference;
	return 0;
}

/* A call of the cause has ended. */
static int end(struct taken *t, const struct ip_darc_call_end *call)
{
	const uint64_t all = between(call->start, call->end),
		       stood = between(call->start_queued, call->end_queued),
		       ticks = all > stood ? all - stood : 0;
	size_t i = find_wanted(t, call->run, call->operation);
	int ret = 0;

	for (; i < t->nwanted && order(call->run, call->operation, &t->wanted[i]) == 0; i++)
		if (!t->wanted[i].done && t->wanted[i].call->start == call->start &&
		    t->wanted[i].call->ticks == ticks) {
			t->wanted[i].done = true;
			ret = add_ends(t, call) < 0 ? -1 : keep(t, &t->wanted[i]);
			break;
		}
	forget(t);
	return ret;
}

static int on_call(void *context, const struct ip_darc_call_end *call)
{
	struct reader *r = context;
	const uint32_t above = r->ftree->nodes[call->node].parent;

	for (size_t i = 0; i < r->n; i++) {
		struct taken *t = &r->taken[i];

		if (t->node != call->node && t->node != above)
			continue;
		if (t->run != call->run || t->operation != call->operation)
			begin(t, call);
		if (t->wants && (t->node == above ? add_callee(t, call) : end(t, call)) < 0)
			return -1;
	}
	return 0;
}

static int take(struct taken *t, const struct ip_darc_cause *cause, size_t nreference)
{
	*t = (struct taken){.node = cause->node,
			    .reference = nreference,
			    .operation = UINT64_MAX,
			    .first = IP_FTREE_NONE,
			    .from = IP_FTREE_NONE};
	if (cause->stop != IP_DARC_OWN) {
		t->node = IP_FTREE_NONE - 1; /* of no call */
		return 0;
	}
	t->wanted = calloc(cause->n + nreference + 1, sizeof(*t->wanted));
	t->slots = calloc(SLOTS, sizeof(*t->slots));
	t->touched = calloc(IP_STRETCHES_MOST, sizeof(*t->touched));
	if (!t->wanted || !t->slots || !t->touched)
		return ip_error("out of memory");
	for (size_t i = 0; i < cause->n + nreference; i++) {
		const bool reference = i >= cause->n;
		const struct ip_darc_sample *s =
			reference ? &cause->reference[i - cause->n] : &cause->samples[i];

		if (s->call)
			t->wanted[t->nwanted++] = (struct wanted){
				.operation = s->operation, .call = s->call, .reference = reference};
	}
	qsort(t->wanted, t->nwanted, sizeof(*t->wanted), by_operation);
	return 0;
}

static void clear(struct taken *t)
{
	for (size_t i = 0; i < t->n; i++)
		free(t->items[i].reference);
	free(t->items);
	free(t->slots);
	free(t->touched);
	free(t->wanted);
}

static int by_value(const void *left, const void *right)
{
	const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return a < b ? -1 : a > b;
}

/* The median over operations, of which some have nothing. values: room for n. */
static double median_of(const struct stretch *s, size_t n, bool times, uint64_t *values)
{
	for (size_t i = 0; i < n; i++)
		values[i] = i >= s->nreference ? 0
			    : times	       ? s->reference[i].times
					       : s->reference[i].ticks;
	qsort(values, n, sizeof(*values), by_value);
	return n ? (double)values[n / 2] : 0;
}

static double excess_of(const struct ip_stretch *s)
{
	return s->ticks - s->reference_ticks;
}

static int by_excess(const void *left, const void *right)
{
	const struct ip_stretch *a = left, *b = right;
	const double x = excess_of(a), y = excess_of(b);

	if (x != y)
		return x > y ? -1 : 1;
	return a->from != b->from ? (a->from < b->from ? -1 : 1)
	       : a->to < b->to	  ? -1
				  : a->to > b->to;
}

static int conclude(const struct taken *t, struct ip_stretches *ret)
{
	uint64_t *values = calloc(t->reference + 1, sizeof(*values));

	ret->items = calloc(t->n + 1, sizeof(*ret->items));
	if (!values || !ret->items) {
		free(values);
		return ip_error("out of memory");
	}
	for (size_t i = 0; i < t->n; i++) {
		const struct stretch *s = &t->items[i];

		if (!s->all.times && !s->nreference)
			continue;
		ret->items[ret->n++] = (struct ip_stretch){
			.from = s->from,
			.to = s->to,
			.ticks = t->calls ? (double)s->all.ticks / t->calls : 0,
			.times = t->calls ? (double)s->all.times / t->calls : 0,
			.reference_ticks = median_of(s, t->reference, false, values),
			.reference_times = median_of(s, t->reference, true, values)};
	}
	qsort(ret->items, ret->n, sizeof(*ret->items), by_excess);
	ret->calls = t->calls;
	ret->left_out = t->left_out;
	free(values);
	return 0;
}

int ip_stretches_find(struct ip_trace_reader *trace, const struct ip_trace_waits *waits,
		      struct ip_darc_search *search, struct ip_stretches **ret)
{
	const struct ip_darc_options *o = &search->options;
	const size_t n = search->causes.n, nreference = search->ranges[1].operations.n;
	struct reader r = {.ftree = &search->ftree, .n = n};
	const struct ip_darc_read_options read = {.function = o->function,
						  .tid = o->tid,
						  .depth = o->depth,
						  .waits = waits,
						  .since = o->since,
						  .places = o->places,
						  .call_ended = on_call,
						  .context = &r};
	struct ip_stretches *found;
	uint64_t seen;
	int code = 0;

	*ret = NULL;
	if (!n)
		return 0;
	r.taken = calloc(n, sizeof(*r.taken));
	found = calloc(n, sizeof(*found));
	if (!r.taken || !found)
		code = ip_error("out of memory");
	for (size_t i = 0; code == 0 && i < n; i++)
		code = take(&r.taken[i], &search->causes.items[i], nreference);
	if (code == 0)
		code = ip_darc_operations_read(trace, &read, &search->ftree, NULL, 0, &seen);
	for (size_t i = 0; code == 0 && i < n; i++)
		code = conclude(&r.taken[i], &found[i]);
	for (size_t i = 0; r.taken && i < n; i++)
		clear(&r.taken[i]);
	free(r.taken);
	if (code == 0)
		*ret = found;
	else
		ip_stretches_destroy(found, n);
	return code;
}

void ip_stretches_destroy(struct ip_stretches *stretches, size_t n)
{
	for (size_t i = 0; stretches && i < n; i++)
		free(stretches[i].items);
	free(stretches);
}
