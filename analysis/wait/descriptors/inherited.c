/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks up inherited descriptors. What was found once is kept: there are few, and many waits for
 * each.
 */
#include "analysis/wait/descriptors/inherited.h"

#include <stdbool.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/error.h"

#define DEPTH_MOST 64u	  /* generations */
#define KEPT_MOST  65536u /* what is found beyond is unknown */
#define INDEX_SIZE (4 * KEPT_MOST)

/* A closing, by its process. pid 0: not known. */
struct closing {
	uint32_t pid, from, to;
	uint64_t tsc;
};

struct ip_inherited {
	struct closing *closings; /* by pid, then by time */
	size_t n;
	struct ip_process_birth *births; /* by pid, then by time */
	size_t nbirths;
	/* what processes have inherited: from is their birth; text NULL: nothing that is known */
	struct ip_descriptor **kept;
	size_t nkept;
	uint32_t *index; /* open addressing, index + 1 */
	unsigned depth;	 /* generations that are being looked up */
};

static int by_pid(const void *left, const void *right)
{
	const struct closing *a = left, *b = right;

	if (a->pid != b->pid)
		return a->pid < b->pid ? -1 : 1;
	return a->tsc < b->tsc ? -1 : a->tsc > b->tsc;
}

static int by_child(const void *left, const void *right)
{
	const struct ip_process_birth *a = left, *b = right;

	if (a->pid != b->pid)
		return a->pid < b->pid ? -1 : 1;
	return a->tsc < b->tsc ? -1 : a->tsc > b->tsc;
}

struct ip_inherited *ip_inherited_create(const struct ip_machine_ids *ids,
					 const struct ip_states *states)
{
	struct ip_inherited *x = calloc(1, sizeof(*x));
	size_t nbirths;
	const struct ip_process_birth *births = ip_machine_ids_births(ids, &nbirths);

	if (x) {
		x->closings = calloc(states->nclosings + 1, sizeof(*x->closings));
		x->births = calloc(nbirths + 1, sizeof(*x->births));
		x->index = calloc(INDEX_SIZE, sizeof(*x->index));
	}
	if (!x || !x->closings || !x->births || !x->index) {
		ip_inherited_destroy(x);
		ip_error("out of memory");
		return NULL;
	}
	for (size_t i = 0; i < states->nclosings; i++) {
		const struct ip_closing *c = &states->closings[i];

		x->closings[x->n++] = (struct closing){ip_machine_ids_pid(ids, c->tid, c->tsc),
						       c->from, c->to, c->tsc};
	}
	for (; x->nbirths < nbirths; x->nbirths++)
		x->births[x->nbirths] = births[x->nbirths];
	if (x->n)
		qsort(x->closings, x->n, sizeof(*x->closings), by_pid);
	if (nbirths)
		qsort(x->births, nbirths, sizeof(*x->births), by_child);
	return x;
}

void ip_inherited_destroy(struct ip_inherited *x)
{
	if (!x)
		return;
	for (size_t i = 0; i < x->nkept; i++)
		free(x->kept[i]);
	free(x->kept);
	free(x->closings);
	free(x->births);
	free(x->index);
	free(x);
}

/* The birth of the process that had a pid at a time; NULL: it was there. */
static const struct ip_process_birth *birth_of(const struct ip_inherited *x, uint32_t pid,
					       uint64_t tsc)
{
	const struct ip_process_birth key = {.pid = pid, .tsc = tsc};
	size_t low = 0, high = x->nbirths;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (by_child(&x->births[middle], &key) <= 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low && x->births[low - 1].pid == pid ? &x->births[low - 1] : NULL;
}

/* When the process, or one that is not known (pid 0), has closed the number after a time. */
static uint64_t closed_at(const struct ip_inherited *x, uint32_t pid, int32_t fd, uint64_t after)
{
	const struct closing key = {.pid = pid, .tsc = after};
	size_t low = 0, high = x->n;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (by_pid(&x->closings[middle], &key) <= 0)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < x->n && x->closings[low].pid == pid; low++)
		if ((uint32_t)fd >= x->closings[low].from && (uint32_t)fd <= x->closings[low].to)
			return x->closings[low].tsc;
	return UINT64_MAX;
}

/* The place of a process' number in the index, or the free one where it belongs. */
static size_t slot_of(const struct ip_inherited *x, const struct ip_descriptor *what)
{
	size_t at = (what->pid * 2654435761u ^ (uint32_t)what->fd * 40503u ^ what->from * 97u) %
		    INDEX_SIZE;

	for (; x->index[at]; at = (at + 1) % INDEX_SIZE) {
		const struct ip_descriptor *d = x->kept[x->index[at] - 1];

		if (d->pid == what->pid && d->fd == what->fd && d->from == what->from)
			break;
	}
	return at;
}

static const struct ip_descriptor *keep(struct ip_inherited *x, const struct ip_descriptor *what)
{
	const size_t at = slot_of(x, what);
	struct ip_descriptor *kept;

	if (x->index[at])
		return x->kept[x->index[at] - 1];
	if (x->nkept == KEPT_MOST || ip_array_grow(&x->kept, x->nkept, sizeof(*x->kept)) < 0)
		return NULL;
	kept = malloc(sizeof(*kept));
	if (!kept)
		return NULL;
	*kept = *what;
	x->kept[x->nkept++] = kept;
	x->index[at] = x->nkept;
	return kept;
}

/* What the process that was born has from its parent under a number. */
static const struct ip_descriptor *inherit(struct ip_inherited *x,
					   const struct ip_descriptors *descriptors,
					   const struct ip_process_birth *birth, int32_t fd)
{
	const struct ip_descriptor *of_parent;
	struct ip_descriptor d = {.from = birth->tsc, .pid = birth->pid, .fd = fd};
	uint64_t own, others;

	of_parent = ip_descriptors_find(descriptors, birth->parent, fd, birth->tsc);
	if (of_parent) {
		d.kind = of_parent->kind;
		d.text = of_parent->text;
		own = closed_at(x, birth->pid, fd, birth->tsc);
		others = closed_at(x, 0, fd, birth->tsc);
		d.to = own < others ? own : others;
	}
	return keep(x, &d);
}

const struct ip_descriptor *ip_inherited_find(struct ip_inherited *x,
					      const struct ip_descriptors *descriptors,
					      const struct ip_descriptor *own, uint32_t pid,
					      int32_t fd, uint64_t tsc)
{
	const struct ip_process_birth *birth = birth_of(x, pid, tsc);
	const struct ip_descriptor *d;
	struct ip_descriptor key;
	size_t at;

	if (own && (!birth || own->from >= birth->tsc))
		return tsc < own->to ? own : NULL;
	if (!birth || x->depth == DEPTH_MOST)
		return NULL;
	key = (struct ip_descriptor){.from = birth->tsc, .pid = pid, .fd = fd};
	at = slot_of(x, &key);
	if (!x->index[at] && x->nkept == KEPT_MOST)
		return NULL;
	x->depth++;
	d = x->index[at] ? x->kept[x->index[at] - 1] : inherit(x, descriptors, birth, fd);
	x->depth--;
	return d && d->text && tsc < d->to ? d : NULL;
}
