/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adds up the time of call paths.
 */
#include "analysis/wait/wait_paths.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/wait/wait_sums.h"
#include "common/array.h"
#include "common/error.h"

#define NOT_THERE (UINT32_MAX - 1) /* a node of the profile that is in no chosen call path */

/* Numbers for pairs of numbers, from 1 on. */
struct pairs {
	uint64_t *items;
	size_t n;
	uint32_t *index; /* open addressing */
	size_t size;
};

struct place {
	size_t run; /* + 1: for which the node was looked for */
	uint32_t node;
};

struct maker {
	const struct ip_wait_paths_options *options;
	const struct ip_states *states;
	struct ip_wait_paths *paths;
	struct place *places; /* by node of the profile */
	uint32_t *way;	      /* a part of a call path */
	size_t room;	      /* of both */
	struct ip_wait_sums sums;
	struct pairs targets; /* an object and a waker */
	struct pairs wakers;  /* a node and a name */
	uint32_t *names;      /* by thread: the first thread with the same name */
};

static size_t slot_of(const struct pairs *p, uint64_t pair)
{
	size_t at = ((pair ^ pair >> 29) * 0x9e3779b97f4a7c15ull >> 20) & (p->size - 1);

	while (p->index[at] && p->items[p->index[at] - 1] != pair)
		at = (at + 1) & (p->size - 1);
	return at;
}

static int grow_pairs(struct pairs *p)
{
	const size_t size = p->size ? 2 * p->size : 256;
	uint32_t *index = calloc(size, sizeof(*index));

	if (!index)
		return ip_error("out of memory");
	free(p->index);
	p->index = index;
	p->size = size;
	for (size_t i = 0; i < p->n; i++)
		p->index[slot_of(p, p->items[i])] = i + 1;
	return 0;
}

/* Returns the number of a pair; 0 with an error. */
static uint32_t number_of(struct pairs *p, uint32_t a, uint32_t b)
{
	const uint64_t pair = (uint64_t)a << 32 | b;
	size_t at;

	if (2 * (p->n + 1) > p->size && grow_pairs(p) < 0)
		return 0;
	at = slot_of(p, pair);
	if (p->index[at])
		return p->index[at];
	if (p->n >= UINT32_MAX - 1) {
		ip_error("too many different waits");
		return 0;
	}
	if (ip_array_grow(&p->items, p->n, sizeof(pair)) < 0)
		return 0;
	p->items[p->n++] = pair;
	return p->index[at] = p->n;
}

static void clear_pairs(struct pairs *p)
{
	free(p->items);
	free(p->index);
}

static int reserve(struct maker *m, uint32_t node)
{
	size_t room = m->room ? m->room : 1024;
	struct place *places;
	uint32_t *way;

	if (node < m->room)
		return 0;
	while (room <= node)
		room *= 2;
	places = reallocarray(m->places, room, sizeof(*places));
	m->places = places ? places : m->places;
	way = reallocarray(m->way, room, sizeof(*way));
	m->way = way ? way : m->way;
	if (!places || !way)
		return ip_error("out of memory");
	memset(places + m->room, 0, (room - m->room) * sizeof(*places));
	m->room = room;
	return 0;
}

/* Returns the node at which call paths of a thread begin. */
static uint32_t base_of(struct maker *m, size_t run)
{
	const struct ip_tree_threads *threads = m->options->threads;

	return threads ? ip_calltree_child(m->paths->tree, 0, threads->first + threads->of_run[run])
		       : 0;
}

/* Finds the node in our tree of one of the profile's, for a thread. NOT_THERE: in no call path that
 * was chosen. Returns 0, or -1 with an error. */
static int find_place(struct maker *m, const struct ip_wait_part *part, uint32_t *ret)
{
	const struct ip_call_node *nodes = part->tree->nodes;
	const size_t run = part->run + 1;
	uint32_t at = part->node;
	size_t n = 0;

	if (reserve(m, part->node) < 0)
		return -1;
	/* a caller has a lower index */
	for (; at && m->places[at].run != run; at = nodes[at].parent)
		m->way[n++] = at;
	while (n--) {
		const uint32_t function = nodes[m->way[n]].function;
		uint32_t made = at ? m->places[at].node : NOT_THERE;

		at = m->way[n];
		if (made == NOT_THERE && m->options->roots[function])
			made = base_of(m, part->run);
		if (made != NOT_THERE && made != IP_NO_NODE)
			made = ip_calltree_child(m->paths->tree, made, function);
		if (made == IP_NO_NODE)
			return -1;
		m->places[at] = (struct place){run, made};
	}
	*ret = m->places[part->node].node;
	return 0;
}

static uint32_t name_of(const struct maker *m, int32_t tid, uint64_t tsc)
{
	const struct ip_thread_states *t = tid ? ip_states_find(m->states, tid, tsc) : NULL;

	return t ? m->names[t - m->states->threads] : NOT_THERE;
}

/* Returns a number for who ended a wait, or had the CPU; 0 with an error. 1: nobody is known; 2: an
 * interrupt. */
static uint32_t waker_of(struct maker *m, const struct ip_wait_part *part)
{
	const struct ip_thread_waking *waking;
	const struct ip_thread_wait *waits;
	uint32_t node = 0, name;

	if (part->span->state == IP_THREAD_RUNNABLE) {
		name = name_of(m, part->span->other, part->span->from);
		return name == NOT_THERE ? 1 : number_of(&m->wakers, node, name);
	}
	waits = part->thread->waits;
	waking = &waits[waits[part->span->wait].last].waking;
	if (!waking->tsc)
		return 1;
	if (waking->context)
		return 2;
	node = ip_waker_paths_node(m->paths->wakers, waking);
	name = name_of(m, waking->waker, waking->tsc);
	return name == NOT_THERE && !node ? 1 : number_of(&m->wakers, node, name);
}

static int on_part(void *context, const struct ip_wait_part *part)
{
	struct maker *m = context;
	const uint8_t state = part->span ? part->span->state : IP_THREAD_UNKNOWN;
	uint32_t node, object = IP_PATH_UNKNOWN, waker = 0, target;

	if (find_place(m, part, &node) < 0)
		return -1;
	if (node == NOT_THERE)
		return 0;
	if (state == IP_THREAD_RUNNING)
		object = IP_PATH_CPU;
	else if (state == IP_THREAD_RUNNABLE)
		object = IP_PATH_RUNQUEUE;
	else if (state == IP_THREAD_BLOCKED)
		object = part->idle ? IP_PATH_IDLE : part->object;
	else
		m->paths->unknown += part->ticks;
	if (m->options->wakers && (state == IP_THREAD_RUNNABLE || state == IP_THREAD_BLOCKED)) {
		waker = waker_of(m, part);
		if (!waker)
			return -1;
	}
	target = number_of(&m->targets, object, waker);
	return target ? ip_wait_sums_add(&m->sums, node, target, part->ticks, part->begins) : -1;
}

static const struct ip_states *sorted;

static int by_name(const void *left, const void *right)
{
	const uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
	const int order = strncmp(sorted->threads[a].name, sorted->threads[b].name,
				  sizeof(sorted->threads[a].name));

	return order ? order : a < b ? -1 : a > b;
}

/* Threads of one name are one waker. */
static int list_names(struct maker *m)
{
	const struct ip_states *s = m->states;
	uint32_t *order = calloc(s->n + 1, sizeof(*order));

	m->names = calloc(s->n + 1, sizeof(*m->names));
	if (!order || !m->names) {
		free(order);
		return ip_error("out of memory");
	}
	for (size_t i = 0; i < s->n; i++)
		order[i] = i;
	sorted = s;
	if (s->n)
		qsort(order, s->n, sizeof(*order), by_name);
	for (size_t i = 0; i < s->n; i++) {
		const bool same =
			i && !strncmp(s->threads[order[i]].name, s->threads[order[i - 1]].name,
				      sizeof(s->threads[0].name));

		m->names[order[i]] = same ? m->names[order[i - 1]] : order[i];
	}
	free(order);
	/* the numbers of nobody and of an interrupt */
	return number_of(&m->wakers, 0, NOT_THERE) == 1 &&
			       number_of(&m->wakers, 0, NOT_THERE - 1) == 2
		       ? 0
		       : -1;
}

/* Writes the sums as the caller gets them. */
static int finish(struct maker *m)
{
	struct ip_wait_paths *p = m->paths;
	struct ip_wait_sum *all = NULL;

	ip_wait_sums_sort(&m->sums, &all, &p->n);
	p->items = calloc(p->n + 1, sizeof(*p->items));
	p->waker_list = calloc(m->wakers.n + 1, sizeof(*p->waker_list));
	if (!p->items || !p->waker_list) {
		free(all);
		return ip_error("out of memory");
	}
	for (size_t i = 0; i < p->n; i++) {
		const uint64_t target = m->targets.items[all[i].object - 1];

		p->items[i] = (struct ip_wait_path){.node = all[i].owner,
						    .object = target >> 32,
						    .waker = (uint32_t)target,
						    .ticks = all[i].ticks,
						    .count = all[i].count};
	}
	free(all);
	for (size_t i = 0; i < m->wakers.n; i++) {
		const uint32_t name = (uint32_t)m->wakers.items[i];

		p->waker_list[i + 1] = (struct ip_waker){
			.node = m->wakers.items[i] >> 32,
			.name = name < m->states->n ? m->states->threads[name].name
				: i == 1	    ? NULL
						    : ""};
	}
	p->nwakers = m->wakers.n + 1;
	return 0;
}

struct ip_wait_paths *ip_wait_paths_make(struct ip_trace_reader *trace,
					 struct ip_trace_waits *waits,
					 const struct ip_wait_paths_options *options)
{
	struct ip_wait_paths *p = calloc(1, sizeof(*p));
	struct maker m = {.options = options, .states = waits->states, .paths = p};
	const struct ip_wait_observer observer = {on_part, &m};
	int ret = p ? 0 : ip_error("out of memory");

	if (ret == 0) {
		p->tree = ip_calltree_create();
		ret = p->tree && list_names(&m) == 0 ? 0 : -1;
	}
	if (ret == 0 && options->wakers) {
		p->wakers = ip_waker_paths_read(trace, waits->states);
		ret = p->wakers ? 0 : -1;
	}
	if (ret == 0) {
		p->profile = ip_wait_profile_observe(trace, waits->states, &waits->descriptors,
						     options->tid, options->idle, &observer);
		ret = p->profile ? finish(&m) : -1;
	}
	ip_wait_sums_clear(&m.sums);
	clear_pairs(&m.targets);
	clear_pairs(&m.wakers);
	free(m.places);
	free(m.way);
	free(m.names);
	if (ret == 0) {
		p->waits = waits;
		p->texts = calloc(p->profile->nobjects + 1, sizeof(*p->texts));
		if (p->texts)
			return p;
		ip_error("out of memory");
	}
	ip_wait_paths_destroy(p);
	return NULL;
}

const char *ip_wait_paths_object(struct ip_wait_paths *p, uint32_t object)
{
	if (object >= IP_PATH_IDLE)
		return object == IP_PATH_CPU	    ? "cpu"
		       : object == IP_PATH_RUNQUEUE ? "runqueue"
		       : object == IP_PATH_IDLE	    ? "idle"
						    : "unknown";
	if (!p->texts[object])
		p->texts[object] = ip_trace_waits_object(p->waits, &p->profile->objects[object]);
	return p->texts[object];
}

void ip_wait_paths_destroy(struct ip_wait_paths *p)
{
	if (!p)
		return;
	for (size_t i = 0; p->texts && i < p->profile->nobjects; i++)
		free(p->texts[i]);
	free(p->texts);
	ip_wait_profile_destroy(p->profile);
	ip_calltree_destroy(p->tree);
	ip_waker_paths_destroy(p->wakers);
	free(p->items);
	free(p->waker_list);
	free(p);
}
