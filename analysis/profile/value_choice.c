/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash table of the figure of each value of each function, and what is open of each thread.
 */
#include "analysis/profile/value_choice.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/error.h"

/* Hashes, in a table with open addressing that holds IP_VALUES_OF_ALL of them. */
#define PLACES (1u << 17)

struct ip_value_choice {
	uint64_t hashes[PLACES]; /* 0: free */
};

static size_t slot_of(const struct ip_value_choice *choice, uint64_t hash)
{
	size_t at = hash & (PLACES - 1);

	while (choice->hashes[at] && choice->hashes[at] != hash)
		at = (at + 1) & (PLACES - 1);
	return at;
}

bool ip_value_choice_has(const struct ip_value_choice *choice, uint64_t hash)
{
	hash = hash ? hash : 1;
	return choice->hashes[slot_of(choice, hash)] == hash;
}

void ip_value_choice_destroy(struct ip_value_choice *choice)
{
	free(choice);
}

/* What is known of a value of a function. */
struct entry {
	uint64_t hash; /* ip_value_group_hash() */
	double figure; /* by avg: the sum of durations */
	uint32_t function;
	uint32_t calls; /* 0: the place is free; by avg and min: those with a duration, + 1 */
	uint32_t since; /* how many entries were made before it */
};

/* A call that is open. Its number + 1 is the tag of its frame. */
struct open_call {
	uint64_t hash;
	double number; /* by value */
	bool has_value;
	uint32_t free; /* the next free place + 1 */
};

struct chooser {
	const struct ip_value_groups *groups;
	const bool *selected;
	uint32_t tid, since;
	enum ip_value_order order;
	bool skip, failed;
	const uint64_t *payload; /* that came with the current event */
	struct open_call *open;
	size_t nopen;
	uint32_t free; /* the first free place + 1; 0: none */
	struct entry *entries;
	size_t size, n; /* places and entries of the table */
};

/* Returns by what an entry is compared. */
static double key_of(const struct chooser *c, const struct entry *e)
{
	return c->order == IP_VALUES_BY_AVG && e->calls > 1 ? e->figure / (e->calls - 1)
							    : e->figure;
}

struct ranked {
	double key;
	struct entry entry;
};

/* The largest first; of equal ones the one that was recorded before. */
static int by_rank(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? 1 : -1;
	return (x->entry.since > y->entry.since) - (x->entry.since < y->entry.since);
}

/* Returns the entries in their order. The caller frees them. NULL with an error: out of memory. */
static struct ranked *rank(const struct chooser *c)
{
	struct ranked *ranked = calloc(c->n + 1, sizeof(*ranked));
	size_t n = 0;

	if (!ranked) {
		ip_error("out of memory");
		return NULL;
	}
	for (size_t i = 0; i < c->size; i++)
		if (c->entries[i].calls)
			ranked[n++] = (struct ranked){key_of(c, &c->entries[i]), c->entries[i]};
	qsort(ranked, n, sizeof(*ranked), by_rank);
	return ranked;
}

static struct entry *place_of(const struct chooser *c, uint64_t hash, uint32_t function)
{
	size_t at = hash & (c->size - 1);

	while (c->entries[at].calls &&
	       (c->entries[at].hash != hash || c->entries[at].function != function))
		at = (at + 1) & (c->size - 1);
	return &c->entries[at];
}

static int grow(struct chooser *c)
{
	struct entry *old = c->entries;
	size_t size = c->size;

	c->entries = calloc(size ? 2 * size : 1u << 15, sizeof(*c->entries));
	if (!c->entries) {
		c->entries = old;
		return ip_error("out of memory");
	}
	c->size = size ? 2 * size : 1u << 15;
	for (size_t i = 0; i < size; i++)
		if (old[i].calls)
			*place_of(c, old[i].hash, old[i].function) = old[i];
	free(old);
	return 0;
}

/* Forgets the half of the entries that is last in the order. */
static int forget(struct chooser *c)
{
	struct ranked *ranked = rank(c);

	if (!ranked)
		return -1;
	memset(c->entries, 0, c->size * sizeof(*c->entries));
	c->n /= 2;
	for (size_t i = 0; i < c->n; i++)
		*place_of(c, ranked[i].entry.hash, ranked[i].entry.function) = ranked[i].entry;
	free(ranked);
	return 0;
}

/* Returns the entry of a value, which may be new. NULL with an error: out of memory. */
static struct entry *entry_of(struct chooser *c, uint64_t hash, uint32_t function)
{
	struct entry *e;

	if (c->n == IP_VALUE_CHOICE_MAX && !place_of(c, hash, function)->calls && forget(c) < 0)
		return NULL;
	if (2 * (c->n + 1) > c->size && grow(c) < 0)
		return NULL;
	e = place_of(c, hash, function);
	if (!e->calls) {
		*e = (struct entry){
			.hash = hash, .function = function, .calls = 1, .since = c->since++};
		e->figure = c->order == IP_VALUES_BY_VALUE ? -DBL_MAX : 0;
		c->n++;
	}
	return e;
}

/* Finds the value of an event. */
static bool find_value(const struct chooser *c, uint32_t function, bool at_exit,
		       struct open_call *ret)
{
	struct ip_value value;
	struct ip_value_key key;
	double to;

	*ret = (struct open_call){.number = -DBL_MAX};
	if (!c->payload || !ip_value_name_get(&c->groups->name, c->payload, at_exit, &value))
		return false;
	key = ip_value_key_make(&value, c->groups->ranges);
	if (key.kind == IP_KEY_MISSING)
		return false;
	ret->hash = ip_value_group_hash(function, &key);
	ret->has_value = true;
	if (!ip_value_key_bounds(&key, &ret->number, &to) || ret->number != ret->number)
		ret->number = -DBL_MAX;
	return true;
}

static void on_run(void *context, const struct ip_thread_packets *run)
{
	struct chooser *c = context;

	c->skip = c->tid && c->tid != run->tid;
}

static void on_values(void *context, const uint64_t *payload)
{
	((struct chooser *)context)->payload = payload;
}

static bool is_wanted(const struct chooser *c, uint32_t function)
{
	return !c->failed && !c->skip && (!c->selected || c->selected[function]);
}

static void on_opened(void *context, struct ip_frame *frame, size_t depth)
{
	struct chooser *c = context;
	struct open_call *place;

	if (!is_wanted(c, frame->function))
		return;
	if (!c->free) {
		if (c->nopen >= UINT32_MAX - 1 ||
		    ip_array_grow(&c->open, c->nopen, sizeof(*c->open)) < 0) {
			c->failed = true;
			return;
		}
		c->open[c->nopen++] = (struct open_call){0};
		c->free = c->nopen;
	}
	frame->tag = c->free;
	place = &c->open[c->free - 1];
	c->free = place->free;
	find_value(c, frame->function, false, place);
}

/* Adds a call. duration: it is among those of min to max. */
static void add(const struct chooser *c, struct entry *e, const struct ip_frame *frame,
		uint64_t ticks, bool duration, double number)
{
	switch (c->order) {
	case IP_VALUES_BY_TOTAL:
		e->figure += frame->flags & IP_FRAME_INNER ? 0 : ticks;
		break;
	case IP_VALUES_BY_SELF:
		e->figure += frame->self;
		break;
	case IP_VALUES_BY_AVG:
		e->figure += duration ? ticks : 0;
		e->calls += duration && e->calls < UINT32_MAX;
		break;
	case IP_VALUES_BY_MIN:
		if (duration && (e->calls == 1 || ticks < e->figure))
			e->figure = ticks;
		e->calls += duration && e->calls < UINT32_MAX;
		break;
	case IP_VALUES_BY_MAX:
		if (ticks > e->figure)
			e->figure = ticks;
		break;
	case IP_VALUES_BY_VALUE:
		e->figure = number;
		break;
	default:
		e->figure++;
	}
}

static void on_closed(void *context, const struct ip_frame *frame, size_t depth, uint64_t end,
		      enum ip_frame_end how)
{
	struct chooser *c = context;
	struct open_call call, result;
	bool suspect = frame->flags & IP_FRAME_SUSPECT || how == IP_END_UNKNOWN;
	struct entry *e;

	if (!frame->tag)
		return;
	call = c->open[frame->tag - 1];
	c->open[frame->tag - 1].free = c->free;
	c->free = frame->tag;
	if (ip_frame_has_result(frame, how) && find_value(c, frame->function, true, &result))
		call = result;
	if (c->failed || !call.has_value)
		return;
	e = entry_of(c, call.hash, frame->function);
	if (!e)
		c->failed = true;
	else if (!suspect || c->order != IP_VALUES_BY_MAX)
		/* a call that hangs is among the slowest, as in the reports */
		add(c, e, frame, ip_frame_ticks(frame, end), !suspect && how != IP_END_UNFINISHED,
		    call.number);
}

static void on_point(void *context, uint32_t function, size_t depth, uint64_t ts)
{
	struct chooser *c = context;
	struct open_call point;
	struct entry *e;

	if (!is_wanted(c, function) || !find_value(c, function, false, &point))
		return;
	e = entry_of(c, point.hash, function);
	if (!e)
		c->failed = true;
	else if (c->order == IP_VALUES_BY_CALLS)
		e->figure++;
	else if (c->order == IP_VALUES_BY_VALUE)
		e->figure = point.number;
}

/* Takes as many values as there may be groups. */
static int choose(const struct chooser *c, struct ip_value_choice **ret)
{
	struct ip_value_choice *choice = calloc(1, sizeof(*choice));
	uint32_t *taken = calloc(c->groups->name.session->nfunctions + 1, sizeof(*taken));
	struct ranked *ranked = rank(c);
	size_t n = 0;
	int done = ranked ? 0 : -1;

	if (!choice || !taken)
		done = ip_error("out of memory");
	for (size_t i = 0; done == 0 && i < c->n && n < IP_VALUES_OF_ALL; i++) {
		const struct entry *e = &ranked[i].entry;
		uint64_t hash = e->hash ? e->hash : 1;

		if (taken[e->function] == IP_VALUES_OF_FUNCTION)
			continue;
		taken[e->function]++;
		n++;
		choice->hashes[slot_of(choice, hash)] = hash;
	}
	free(ranked);
	free(taken);
	if (done == 0)
		*ret = choice;
	else
		ip_value_choice_destroy(choice);
	return done;
}

int ip_value_choice_find(struct ip_trace_reader *trace, const struct ip_value_groups *groups,
			 const bool *selected, uint32_t tid, const struct ip_value_matches *matches,
			 enum ip_value_order order, struct ip_value_choice **ret)
{
	static const struct ip_frames_ops ops = {
		.opened = on_opened, .closed = on_closed, .point = on_point, .values = on_values};
	struct chooser c = {.groups = groups, .selected = selected, .tid = tid, .order = order};
	const struct ip_trace_visitor visitor = {.ops = &ops, .context = &c, .run = on_run};
	uint64_t events;
	int done = ip_value_filter_visit(trace, &visitor, matches, &events);

	if (done == 0)
		done = c.failed ? -1 : choose(&c, ret);
	free(c.open);
	free(c.entries);
	return done;
}
