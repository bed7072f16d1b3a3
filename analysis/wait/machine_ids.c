/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the machine's ids of threads.
 */
#include "analysis/wait/machine_ids.h"

#include <stdbool.h>
#include <stdlib.h>
#include <sys/syscall.h>

#include "analysis/read/members.h"
#include "common/array.h"
#include "common/error.h"

/* A thread of the machine from a time on. */
struct life {
	uint64_t from;
	uint32_t tid, pid; /* pid 0: not known */
	uint32_t inner;	   /* in its namespace; 0: not known */
	uint32_t root;	   /* the recorded process in another namespace that it descends from */
	bool found;	   /* it was there: who has made it is not known */
};

struct ip_machine_ids {
	struct life *lives; /* by tid, then by time */
	size_t n;
	uint32_t *roots; /* processes in other namespaces, sorted */
	size_t nroots;
	struct life *inner; /* those with a root, by root, inner, time */
	size_t ninner;
	struct ip_process_birth *births;
	size_t nbirths;
};

static int compare(const void *left, const void *right)
{
	const struct life *a = left, *b = right;

	if (a->tid != b->tid)
		return a->tid < b->tid ? -1 : 1;
	return a->from < b->from ? -1 : a->from > b->from;
}

/* The newest life of a tid that began up to a time; NULL: there is none. */
static struct life *find(const struct ip_machine_ids *ids, uint32_t tid, uint64_t tsc)
{
	const struct life key = {.tid = tid, .from = tsc};
	size_t low = 0, high = ids->n;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (compare(&ids->lives[middle], &key) <= 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low && ids->lives[low - 1].tid == tid ? &ids->lives[low - 1] : NULL;
}

/* Threads that were there have lived before they were read. */
static int add_births(struct ip_machine_ids *ids, const struct ip_states *s)
{
	ids->lives = calloc(s->nbirths + 1, sizeof(*ids->lives));
	if (!ids->lives)
		return ip_error("out of memory");
	for (size_t i = 0; i < s->nbirths; i++) {
		const struct ip_thread_birth *b = &s->births[i];

		ids->lives[ids->n++] =
			(struct life){.from = b->tsc,
				      .tid = b->tid,
				      .pid = b->pid,
				      .inner = b->inner_tid,
				      .root = b->inner_tid && !b->parent ? b->pid : 0,
				      .found = !b->parent};
	}
	if (ids->n)
		qsort(ids->lives, ids->n, sizeof(*ids->lives), compare);
	for (size_t i = 0; i < ids->n; i++)
		if (ids->lives[i].found && (!i || ids->lives[i - 1].tid != ids->lives[i].tid))
			ids->lives[i].from = 0;
	return 0;
}

/* A thread that has executed a program is its process: the kernel gives it that id. */
static void find_programs(struct ip_machine_ids *ids, const struct ip_states *s)
{
	for (size_t i = 0; i < s->nclosings; i++) {
		struct life *l = s->closings[i].executes
					 ? find(ids, s->closings[i].tid, s->closings[i].tsc)
					 : NULL;

		if (l && !l->pid)
			l->pid = l->tid;
	}
}

/* What a run tells of its own namespace, where that is the machine's. */
static void take_run(struct ip_machine_ids *ids, const struct ip_thread_packets *run, uint32_t own)
{
	struct life *l = find(ids, run->tid, run->begin);

	if (l && !l->pid)
		l->pid = own;
}

/* A child belongs where its parent does, if it is no process of its own. In order of time: the
 * parent is known before its children. */
static int pass_on(struct ip_machine_ids *ids, const struct ip_states *s)
{
	for (size_t i = 0; i < s->nbirths; i++) {
		const struct ip_thread_birth *b = &s->births[i];
		struct life *child = find(ids, b->tid, b->tsc);
		const struct life *parent = b->parent ? find(ids, b->parent, b->tsc) : NULL;
		struct ip_process_birth birth;

		if (!b->parent || !child)
			continue;
		if (b->is_process == 1)
			child->pid = child->tid;
		else if (!child->pid && parent)
			child->pid = parent->pid;
		child->root = parent ? parent->root : 0;
		if (child->pid != child->tid || !parent || !parent->pid)
			continue;
		birth = (struct ip_process_birth){b->tsc, child->pid, parent->pid};
		if (ip_array_grow(&ids->births, ids->nbirths, sizeof(birth)) < 0)
			return -1;
		ids->births[ids->nbirths++] = birth;
	}
	return 0;
}

/* The recorded process of a run, by the machine's id. */
static uint32_t root_of(const struct ip_trace_reader *t, const struct ip_thread_packets *run)
{
	return t->session->members ? t->session->members->items[run->member].pid : t->session->pid;
}

static int compare_ids(const void *left, const void *right)
{
	const uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;

	return a < b ? -1 : a > b;
}

static int list_roots(struct ip_machine_ids *ids)
{
	for (size_t i = 0; i < ids->n; i++) {
		if (!ids->lives[i].root)
			continue;
		if (ip_array_grow(&ids->roots, ids->nroots, sizeof(*ids->roots)) < 0)
			return -1;
		ids->roots[ids->nroots++] = ids->lives[i].root;
	}
	if (ids->nroots)
		qsort(ids->roots, ids->nroots, sizeof(*ids->roots), compare_ids);
	return 0;
}

static bool is_elsewhere(const struct ip_machine_ids *ids, uint32_t root)
{
	return root && ids->nroots &&
	       bsearch(&root, ids->roots, ids->nroots, sizeof(root), compare_ids);
}

static int compare_inner(const void *left, const void *right)
{
	const struct life *a = left, *b = right;

	if (a->root != b->root)
		return a->root < b->root ? -1 : 1;
	if (a->inner != b->inner)
		return a->inner < b->inner ? -1 : 1;
	return a->from < b->from ? -1 : a->from > b->from;
}

static int list_inner(struct ip_machine_ids *ids)
{
	for (size_t i = 0; ids->nroots && i < ids->n; i++) {
		if (!ids->lives[i].root || !ids->lives[i].inner)
			continue;
		if (ip_array_grow(&ids->inner, ids->ninner, sizeof(*ids->inner)) < 0)
			return -1;
		ids->inner[ids->ninner++] = ids->lives[i];
	}
	if (ids->ninner)
		qsort(ids->inner, ids->ninner, sizeof(*ids->inner), compare_inner);
	return 0;
}

/* The thread that had an id in a namespace at a time: the one that began last, of those that
 * descend from the recorded process. 0: not known. */
static uint32_t find_inner(const struct ip_machine_ids *ids, uint32_t root, uint32_t inner,
			   uint64_t tsc)
{
	const struct life key = {.root = root, .inner = inner, .from = tsc};
	size_t low = 0, high = ids->ninner;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (compare_inner(&ids->inner[middle], &key) <= 0)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low || ids->inner[low - 1].root != root || ids->inner[low - 1].inner != inner)
		return 0;
	return ids->inner[low - 1].tid;
}

static void give(const struct ip_machine_ids *ids, const struct ip_trace_reader *t,
		 struct ip_thread_packets *run)
{
	const uint32_t root = root_of(t, run), own = t->process_list[run->process].own;

	if (!is_elsewhere(ids, root)) {
		run->machine_pid = own;
		run->machine_tid = run->tid;
		return;
	}
	run->machine_tid = find_inner(ids, root, run->tid, run->begin);
	run->machine_pid = find_inner(ids, root, own, run->begin);
}

static int make(struct ip_machine_ids *ids, struct ip_trace_reader *t,
		const struct ip_states *states)
{
	if (add_births(ids, states) < 0 || list_roots(ids) < 0)
		return -1;
	find_programs(ids, states);
	for (size_t i = 0; i < t->nruns; i++)
		if (!is_elsewhere(ids, root_of(t, &t->runs[i])))
			take_run(ids, &t->runs[i], t->process_list[t->runs[i].process].own);
	if (pass_on(ids, states) < 0 || list_inner(ids) < 0)
		return -1;
	for (size_t i = 0; i < t->nruns; i++)
		give(ids, t, &t->runs[i]);
	return 0;
}

struct ip_machine_ids *ip_machine_ids_create(struct ip_trace_reader *trace,
					     const struct ip_states *states)
{
	struct ip_machine_ids *ids = calloc(1, sizeof(*ids));

	if (!ids) {
		ip_error("out of memory");
		return NULL;
	}
	if (make(ids, trace, states) == 0)
		return ids;
	ip_machine_ids_destroy(ids);
	return NULL;
}

void ip_machine_ids_destroy(struct ip_machine_ids *ids)
{
	if (!ids)
		return;
	free(ids->lives);
	free(ids->roots);
	free(ids->inner);
	free(ids->births);
	free(ids);
}

uint32_t ip_machine_ids_pid(const struct ip_machine_ids *ids, int32_t tid, uint64_t tsc)
{
	const struct life *l = find(ids, tid, tsc);

	return l ? l->pid : 0;
}

const struct ip_process_birth *ip_machine_ids_births(const struct ip_machine_ids *ids,
						     size_t *ret_n)
{
	*ret_n = ids->nbirths;
	return ids->births;
}
