/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes what the page tells of waits. All of it is bounded: the functions that waited longest, the
 * heaviest call paths, the longest bars.
 *
 *   objects     their names; the last one stands for all that have no room
 *   functions   of each: index, calls, elapsed, cpu, runqueue, unknown, then for each object: its
 *               index, time, times; -1 behind the last
 *   tree        nodes as the flame graph has them. An object, a leaf, is -1 - its index
 *   threads     of each: pid, tid, and bars: each with the time since the begin of the one before
 *               and its length. A state goes on with: the state, then for running the CPU and 0, 0;
 *               for runnable the tid that had the CPU, whether it was taken away, 0; for blocked
 *               the object, the waker (-1: an interrupt, 0: not known), how long before its end
 *               that woke it. A call goes on with its number; an interrupt with its kind and line.
 *   names       of threads that others mention; call_names and interrupt_names have those of
 * numbers
 */
#include "analysis/export/html_waits.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/export/thread_bars.h"
#include "analysis/wait/wait_paths.h"
#include "analysis/wait/wait_sums.h"
#include "common/arch/syscalls.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/json.h"
#include "common/print.h"

#define FUNCTIONS 1000u
#define OBJECTS	  2000u
#define NODES	  20000u
#define BY_ONE	  20u /* objects of one function */
#define NAMES	  5000u

struct page {
	struct ip_trace_reader *trace;
	const struct ip_html_waits_options *options;
	struct ip_trace_waits *waits;
	struct ip_wait_paths *paths;
	struct ip_thread_bars *bars;
	struct ip_json j;
	struct ip_wait_objects objects; /* at first those of the paths */
	uint32_t *object_of;		/* by object: its index in the page + 1; 0: none yet */
	size_t nobject_of;
	uint32_t *listed; /* by index in the page: the object */
	size_t nlisted;
	bool others; /* an object had no room */
	struct ip_named_thread {
		int32_t tid;
		const char *name;
	} * names;
	size_t nnames;
};

static uint64_t ns(const struct page *p, uint64_t ticks)
{
	return ip_recording_ns(p->trace->session, ticks);
}

static uint64_t blocked(const struct ip_wait_parts *w)
{
	return w->elapsed - w->cpu - w->unknown;
}

/* Returns the index of an object in the page. The run queue has one, too. */
static uint32_t object_index(struct page *p, uint32_t object)
{
	if (object == IP_PATH_RUNQUEUE)
		return 0;
	if (object >= p->nobject_of) {
		p->others = true;
		return OBJECTS;
	}
	if (!p->object_of[object] && p->nlisted < OBJECTS) {
		p->listed[p->nlisted] = object;
		p->object_of[object] = ++p->nlisted;
	}
	if (p->object_of[object])
		return p->object_of[object] - 1;
	p->others = true;
	return OBJECTS;
}

static const struct ip_wait_profile *sorted;

static int by_wait(const void *left, const void *right)
{
	const uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
	const uint64_t x = blocked(&sorted->functions[a]), y = blocked(&sorted->functions[b]);

	return x != y ? (x > y ? -1 : 1) : a < b ? -1 : a > b;
}

static void put_function(struct page *p, uint32_t f, size_t at)
{
	const struct ip_wait_profile *w = p->paths->profile;
	const struct ip_wait_parts *parts = &w->functions[f];

	ip_json_uint(&p->j, NULL, p->options->shown[f]);
	ip_json_uint(&p->j, NULL, w->function_calls[f]);
	ip_json_uint(&p->j, NULL, ns(p, parts->elapsed));
	ip_json_uint(&p->j, NULL, ns(p, parts->cpu));
	ip_json_uint(&p->j, NULL, ns(p, parts->runqueue));
	ip_json_uint(&p->j, NULL, ns(p, parts->unknown));
	for (size_t n = 0; at < w->nwaits && w->waits[at].owner == f && n < BY_ONE; at++, n++) {
		ip_json_uint(&p->j, NULL, object_index(p, w->waits[at].object));
		ip_json_uint(&p->j, NULL, ns(p, w->waits[at].ticks));
		ip_json_uint(&p->j, NULL, w->waits[at].count);
	}
	ip_json_int(&p->j, NULL, -1);
}

static int put_functions(struct page *p)
{
	const struct ip_wait_profile *w = p->paths->profile;
	const uint32_t all = p->trace->session->nfunctions;
	_cleanup_free_ uint32_t *order = calloc(all + 1ul, sizeof(*order));
	_cleanup_free_ size_t *first = calloc(all + 1ul, sizeof(*first));
	uint32_t n = 0;

	if (!order || !first)
		return ip_error("out of memory");
	for (size_t i = w->nwaits; i--;)
		first[w->waits[i].owner] = i;
	for (uint32_t f = 0; f < all; f++)
		if (w->functions[f].elapsed && p->options->export->selected[f] &&
		    p->options->shown[f] != IP_HTML_NO_FUNCTION)
			order[n++] = f;
	sorted = w;
	if (n)
		qsort(order, n, sizeof(*order), by_wait);
	ip_json_array(&p->j, "functions");
	for (uint32_t i = 0; i < n && i < FUNCTIONS; i++)
		put_function(p, order[i], w->nwaits ? first[order[i]] : 0);
	ip_json_end_array(&p->j);
	ip_json_uint(&p->j, "functions_left_out", n > FUNCTIONS ? n - FUNCTIONS : 0);
	return 0;
}

static int by_weight(const void *left, const void *right)
{
	const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return a > b ? -1 : a < b;
}

/* The tree of call paths with objects as its leaves, which stand behind the last function. *ret_n:
 * the number of functions and threads. */
static struct ip_calltree *grow_tree(struct page *p)
{
	struct ip_calltree *tree = p->paths->tree;
	const uint32_t objects = p->options->nshown;

	/* a leaf is made behind all nodes: callers have lower indexes still */
	for (size_t i = 0; i < p->paths->n; i++) {
		const struct ip_wait_path *path = &p->paths->items[i];
		uint32_t node;

		if (path->object == IP_PATH_CPU || path->object == IP_PATH_UNKNOWN)
			continue;
		node = ip_calltree_child(
			tree, path->node,
			path->object == IP_PATH_RUNQUEUE ? objects : objects + 1 + path->object);
		if (node == IP_NO_NODE)
			return NULL;
		tree->nodes[node].self += path->ticks;
		tree->nodes[node].calls += path->count;
	}
	for (size_t i = 0; i < tree->n; i++)
		tree->nodes[i].total = tree->nodes[i].self;
	for (size_t i = tree->n; i-- > 1;)
		tree->nodes[tree->nodes[i].parent].total += tree->nodes[i].total;
	return tree;
}

/* The most that a node may weigh and be left out. */
static int least_weight(const struct ip_calltree *tree, uint64_t *ret)
{
	_cleanup_free_ uint64_t *weights = NULL;

	*ret = 0;
	if (tree->n <= NODES)
		return 0;
	weights = calloc(tree->n, sizeof(*weights));
	if (!weights)
		return ip_error("out of memory");
	for (size_t i = 0; i < tree->n; i++)
		weights[i] = tree->nodes[i].total;
	qsort(weights, tree->n, sizeof(*weights), by_weight);
	*ret = weights[NODES];
	return 0;
}

static int put_tree(struct page *p)
{
	const struct ip_calltree *tree = grow_tree(p);
	const uint32_t objects = p->options->nshown;
	_cleanup_free_ uint32_t *index = tree ? calloc(tree->n, sizeof(*index)) : NULL;
	uint64_t least, n = 1, left_out = 0;

	if (!tree)
		return -1;
	if (!index)
		return ip_error("out of memory");
	if (least_weight(tree, &least) < 0)
		return -1;
	ip_json_object(&p->j, "tree");
	ip_json_uint(&p->j, "width", 5);
	ip_json_array(&p->j, "nodes");
	for (size_t i = 1; i < tree->n; i++) {
		const struct ip_call_node *node = &tree->nodes[i];
		const uint32_t function = node->function;

		if (!node->total)
			continue;
		if (node->total <= least || (node->parent && !index[node->parent]) ||
		    (function < objects && p->options->shown[function] == IP_HTML_NO_FUNCTION)) {
			left_out++;
			continue;
		}
		index[i] = n++;
		if (function < objects)
			ip_json_uint(&p->j, NULL, p->options->shown[function]);
		else
			ip_json_int(&p->j, NULL,
				    -1 - (int64_t)object_index(
						 p, function == objects ? IP_PATH_RUNQUEUE
									: function - objects - 1));
		ip_json_uint(&p->j, NULL, index[node->parent]);
		ip_json_uint(&p->j, NULL, node->calls);
		ip_json_uint(&p->j, NULL, ns(p, node->total));
		ip_json_uint(&p->j, NULL, ns(p, node->self));
	}
	ip_json_end_array(&p->j);
	ip_json_uint(&p->j, "left_out", left_out);
	ip_json_end_object(&p->j);
	return 0;
}

/* A thread is mentioned: the page gets its name. */
static int mention(struct page *p, int32_t tid, uint64_t tsc)
{
	const struct ip_thread_states *t =
		tid > 0 ? ip_states_find(p->waits->states, tid, tsc) : NULL;

	if (!t || !*t->name || p->nnames == NAMES)
		return 0;
	/* most mentions are of the one before */
	for (size_t i = p->nnames; i-- && p->nnames - i < 8;)
		if (p->names[i].tid == tid)
			return 0;
	p->names[p->nnames++] = (struct ip_named_thread){tid, t->name};
	return 0;
}

/* Writes since when and for how long; *last: when the bar before began. */
static void put_times(struct page *p, const struct ip_thread_bar *bar, uint64_t *last)
{
	const uint64_t from = ns(p, bar->from - p->bars->begin),
		       to = ns(p, bar->to - p->bars->begin);

	ip_json_uint(&p->j, NULL, from - *last);
	ip_json_uint(&p->j, NULL, to - from);
	*last = from;
}

static int put_blocked(struct page *p, const struct ip_thread_bar *bar)
{
	const struct ip_bar_thread *thread = &p->bars->threads[bar->thread];
	const struct ip_thread_wait *wait = &thread->states->waits[bar->span->wait];
	const struct ip_thread_waking *waking = &wait->waking;
	struct ip_wait_object object;
	uint32_t number;

	ip_wait_object_of(wait, &p->waits->descriptors, thread->run->machine_pid, &object);
	ip_wait_object_in(&object, thread->run->member);
	number = ip_wait_objects_add(&p->objects, &object);
	if (number == UINT32_MAX)
		return -1;
	ip_json_uint(&p->j, NULL, object_index(p, number));
	ip_json_int(&p->j, NULL, !waking->tsc ? 0 : waking->context ? -1 : waking->waker);
	ip_json_uint(&p->j, NULL,
		     waking->tsc && waking->tsc < bar->to && waking->tsc >= bar->from
			     ? ns(p, bar->to - waking->tsc)
			     : 0);
	return waking->tsc && !waking->context ? mention(p, waking->waker, waking->tsc) : 0;
}

static int put_state(struct page *p, const struct ip_thread_bar *bar)
{
	ip_json_uint(&p->j, NULL, bar->state);
	if (bar->state == IP_THREAD_BLOCKED)
		return put_blocked(p, bar);
	if (bar->state == IP_THREAD_RUNNING) {
		ip_json_uint(&p->j, NULL, bar->span->cpu);
		ip_json_uint(&p->j, NULL, 0);
	} else {
		const bool runnable = bar->state == IP_THREAD_RUNNABLE;

		ip_json_int(&p->j, NULL, runnable ? bar->span->other : 0);
		ip_json_uint(&p->j, NULL, runnable && bar->span->preempted);
	}
	ip_json_uint(&p->j, NULL, 0);
	return bar->state == IP_THREAD_RUNNABLE ? mention(p, bar->span->other, bar->from) : 0;
}

/* Writes the bars of a thread in a set, and then its sums: slice and time; of states also which. */
static int put_bars(struct page *p, const char *key, const struct ip_bar_set *set, uint32_t thread,
		    size_t *at)
{
	const bool states = set == &p->bars->states;
	uint64_t last = 0;
	char sums[32];

	ip_json_array(&p->j, key);
	for (; *at < set->n && set->items[*at].thread == thread; (*at)++) {
		const struct ip_thread_bar *bar = &set->items[*at];

		put_times(p, bar, &last);
		if (states && put_state(p, bar) < 0)
			return -1;
		if (!states)
			ip_json_uint(&p->j, NULL, bar->number);
		if (set == &p->bars->interrupts)
			ip_json_int(&p->j, NULL, bar->other);
	}
	ip_json_end_array(&p->j);
	snprintf(sums, sizeof(sums), "%s_sums", key);
	ip_json_array(&p->j, sums);
	for (size_t i = 0; set->sums && i < p->bars->nslices; i++)
		for (unsigned state = 0; state < IP_THREAD_GONE; state++) {
			const uint64_t ticks =
				set->sums[(thread * p->bars->nslices + i) * (IP_THREAD_GONE + 1) +
					  state];

			if (!ticks)
				continue;
			ip_json_uint(&p->j, NULL, i);
			ip_json_uint(&p->j, NULL, ns(p, ticks));
			if (states)
				ip_json_uint(&p->j, NULL, state);
		}
	ip_json_end_array(&p->j);
	return 0;
}

static int put_threads(struct page *p)
{
	size_t state = 0, call = 0, interrupt = 0;

	ip_json_array(&p->j, "threads");
	for (uint32_t i = 0; i < p->bars->nthreads; i++) {
		ip_json_object(&p->j, NULL);
		ip_json_uint(&p->j, "pid", p->bars->threads[i].run->pid);
		ip_json_uint(&p->j, "tid", p->bars->threads[i].run->tid);
		if (put_bars(p, "states", &p->bars->states, i, &state) < 0 ||
		    put_bars(p, "calls", &p->bars->calls, i, &call) < 0 ||
		    put_bars(p, "interrupts", &p->bars->interrupts, i, &interrupt) < 0)
			return -1;
		ip_json_end_object(&p->j);
	}
	ip_json_end_array(&p->j);
	ip_json_uint(&p->j, "slices", p->bars->nslices);
	ip_json_uint(&p->j, "threads_left_out", p->bars->beyond);
	ip_json_uint(&p->j, "states_left_out", p->bars->states.left_out);
	ip_json_uint(&p->j, "calls_left_out", p->bars->calls.left_out);
	ip_json_uint(&p->j, "interrupts_left_out", p->bars->interrupts.left_out);
	return 0;
}

static int by_tid(const void *left, const void *right)
{
	const struct ip_named_thread *a = left, *b = right;

	return a->tid < b->tid ? -1 : a->tid > b->tid;
}

static void put_names(struct page *p)
{
	char key[16];

	if (p->nnames)
		qsort(p->names, p->nnames, sizeof(*p->names), by_tid);
	ip_json_object(&p->j, "names");
	for (size_t i = 0; i < p->nnames; i++) {
		if (i && p->names[i].tid == p->names[i - 1].tid)
			continue;
		snprintf(key, sizeof(key), "%" PRId32, p->names[i].tid);
		ip_json_string(&p->j, key, p->names[i].name);
	}
	ip_json_end_object(&p->j);
}

static void put_call_names(struct page *p)
{
	_cleanup_free_ bool *used = calloc(IP_KERNEL_SYSCALLS_MAX, sizeof(*used));
	char key[16];

	ip_json_object(&p->j, "call_names");
	for (size_t i = 0; used && i < p->bars->calls.n; i++) {
		const uint32_t number = p->bars->calls.items[i].number;
		const struct ip_syscall *call = ip_syscall_find(number);

		if (number >= IP_KERNEL_SYSCALLS_MAX || used[number] || !call)
			continue;
		used[number] = true;
		snprintf(key, sizeof(key), "%" PRIu32, number);
		ip_json_string(&p->j, key, call->name);
	}
	ip_json_end_object(&p->j);
}

static void put_interrupt_names(struct page *p)
{
	static const struct {
		uint16_t id;
		const char *name;
	} names[] = {{IP_KERNEL_IRQ_ENTRY, "interrupt"},
		     {IP_KERNEL_SOFTIRQ_ENTRY, "software interrupt"},
		     {IP_KERNEL_HRTIMER_ENTRY, "timer"},
		     {IP_KERNEL_TIMER_IRQ_ENTRY, "timer interrupt"}};
	char key[16];

	ip_json_object(&p->j, "interrupt_names");
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		snprintf(key, sizeof(key), "%u", names[i].id);
		ip_json_string(&p->j, key, names[i].name);
	}
	ip_json_end_object(&p->j);
}

static int put_objects(struct page *p)
{
	ip_json_array(&p->j, "objects");
	for (size_t i = 0; i < p->nlisted; i++) {
		const uint32_t object = p->listed[i];
		_cleanup_free_ char *made = NULL;
		const char *text = "runqueue";

		if (i && object < p->paths->profile->nobjects)
			text = ip_wait_paths_object(p->paths, object);
		else if (i)
			text = made = ip_trace_waits_object(p->waits, &p->objects.items[object]);
		if (!text)
			return -1;
		ip_json_string(&p->j, NULL, text);
	}
	if (p->others)
		ip_json_string(&p->j, NULL, "other objects");
	ip_json_end_array(&p->j);
	return 0;
}

/* Objects have the numbers of the profile, and those of waits outside of calls the next ones. */
static int list_objects(struct page *p)
{
	const struct ip_wait_profile *w = p->paths->profile;

	for (size_t i = 0; i < w->nobjects; i++)
		if (ip_wait_objects_add(&p->objects, &w->objects[i]) != i)
			return ip_error("out of memory");
	p->nobject_of = w->nobjects + p->bars->states.n;
	p->object_of = calloc(p->nobject_of + 1, sizeof(*p->object_of));
	p->listed = calloc(OBJECTS + 1, sizeof(*p->listed));
	p->names = calloc(NAMES, sizeof(*p->names));
	if (!p->object_of || !p->listed || !p->names)
		return ip_error("out of memory");
	p->nlisted = 1; /* the run queue */
	return 0;
}

static int put_all(struct page *p)
{
	const uint64_t end = p->waits->states->end;

	ip_json_object(&p->j, NULL);
	ip_json_uint(&p->j, "events", p->waits->states->events);
	ip_json_uint(&p->j, "lost", p->waits->states->lost);
	ip_json_uint(&p->j, "end", end > p->bars->begin ? ns(p, end - p->bars->begin) : 0);
	if (put_functions(p) < 0 || put_tree(p) < 0 || put_threads(p) < 0)
		return -1;
	put_names(p);
	put_call_names(p);
	put_interrupt_names(p);
	if (put_objects(p) < 0)
		return -1;
	ip_json_end_object(&p->j);
	return 0;
}

char *ip_html_waits(struct ip_trace_reader *trace, const struct ip_html_waits_options *options)
{
	struct page p = {.trace = trace, .options = options, .waits = options->export->waits};
	const struct ip_wait_paths_options paths = {.roots = options->export->selected,
						    .tid = options->export->tid,
						    .threads = options->threads};
	char *json = NULL;
	FILE *memory = NULL;
	size_t size;
	int ret = -1;

	p.paths = ip_wait_paths_make(trace, p.waits, &paths);
	if (p.paths)
		p.bars = ip_thread_bars_collect(trace, p.waits->states, options->export->tid);
	if (p.bars && list_objects(&p) == 0) {
		memory = open_memstream(&json, &size);
		if (!memory)
			ip_error("out of memory");
	}
	if (memory) {
		ip_json_init(&p.j, memory);
		ret = put_all(&p);
		json = ip_print_end_text(memory, &json);
	}
	ip_thread_bars_destroy(p.bars);
	ip_wait_objects_clear(&p.objects);
	ip_wait_paths_destroy(p.paths);
	free(p.object_of);
	free(p.listed);
	free(p.names);
	if (ret == 0)
		return json;
	free(json);
	return NULL;
}
