/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collects who ended waits, and who had CPUs, by call path; then by function.
 */
#include "analysis/wait/wait_culprits.h"

#include <stdlib.h>

#include "analysis/wait/locks/lock_holder.h"
#include "analysis/wait/wait_object.h"
#include "common/array.h"
#include "common/error.h"

#define INDEX_LEAST 256u

void ip_wait_culprits_begin(const struct ip_states *states, const struct ip_cpu_users *users,
			    struct ip_wait_culprits *ret)
{
	*ret = (struct ip_wait_culprits){.states = states, .users = users};
}

static int order(const struct ip_wait_culprit *a, const struct ip_wait_culprit *b)
{
	if (a->owner != b->owner)
		return a->owner < b->owner ? -1 : 1;
	return a->object < b->object ? -1 : a->object > b->object;
}

/* thread is an address in one array, or NULL */
static int by_who(const void *left, const void *right)
{
	const struct ip_wait_culprit *a = left, *b = right;
	const int first = order(a, b);

	if (first)
		return first;
	if (a->thread != b->thread)
		return (uintptr_t)a->thread < (uintptr_t)b->thread ? -1 : 1;
	if (a->in != b->in)
		return a->in < b->in ? -1 : 1;
	if (a->is_lock != b->is_lock)
		return a->is_lock ? -1 : 1;
	return 0;
}

static int by_ticks(const void *left, const void *right)
{
	const struct ip_wait_culprit *a = left, *b = right;
	const int first = order(a, b);

	if (first)
		return first;
	if (a->ticks != b->ticks)
		return a->ticks > b->ticks ? -1 : 1;
	return by_who(left, right);
}

static size_t slot_of(const struct ip_wait_culprits *c, const struct ip_wait_culprit *item)
{
	const uint64_t key = ((uint64_t)item->owner << 32 | item->object) +
			     ((uint64_t)(uintptr_t)item->thread >> 4) * 0x9e3779b97f4a7c15ull +
			     ((uint64_t)item->in << 1 | item->is_lock) * 0xff51afd7ed558ccdull;
	size_t at = (key ^ key >> 29) * 0x9e3779b97f4a7c15ull >> 20 & (c->index_size - 1);

	while (c->index[at] && by_who(&c->items[c->index[at] - 1], item) != 0)
		at = (at + 1) & (c->index_size - 1);
	return at;
}

/* Keeps the index at most half full. */
static int grow_index(struct ip_wait_culprits *c)
{
	const size_t size = c->index_size ? 2 * c->index_size : INDEX_LEAST;
	size_t *index;

	if (2 * (c->n + 1) <= c->index_size)
		return 0;
	index = calloc(size, sizeof(*index));
	if (!index)
		return ip_error("out of memory");
	free(c->index);
	c->index = index;
	c->index_size = size;
	for (size_t i = 0; i < c->n; i++)
		c->index[slot_of(c, &c->items[i])] = i + 1;
	return 0;
}

/* Adds to what is alike. */
static int add(struct ip_wait_culprits *c, const struct ip_wait_culprit *item)
{
	size_t at;

	if (grow_index(c) < 0)
		return -1;
	at = slot_of(c, item);
	if (c->index[at]) {
		c->items[c->index[at] - 1].ticks += item->ticks;
		return 0;
	}
	if (ip_array_grow(&c->items, c->n, sizeof(*item)) < 0)
		return -1;
	c->items[c->n++] = *item;
	c->index[at] = c->n;
	return 0;
}

/* Of a wait it is not known yet in which function the thread was. */
static int add_wait(struct ip_wait_culprits *c, const struct ip_wait_culprit *item)
{
	if (!item->wait)
		return add(c, item);
	if (ip_array_grow(&c->waits, c->nwaits, sizeof(*item)) < 0)
		return -1;
	c->waits[c->nwaits++] = *item;
	return 0;
}

static int had_cpu(void *context, const struct ip_thread_states *thread, uint64_t ticks)
{
	struct ip_wait_culprits *c = context;

	return add(c, &(struct ip_wait_culprit){.owner = c->part->node,
						.object = IP_RUN_QUEUE,
						.thread = thread,
						.in = IP_NO_FUNCTION,
						.ticks = ticks});
}

static int had_lock(void *context, const struct ip_thread_wait *wait,
		    const struct ip_thread_states *holder, uint64_t from, uint64_t to)
{
	struct ip_wait_culprits *c = context;

	return add_wait(c, &(struct ip_wait_culprit){.owner = c->part->node,
						     .object = c->part->object,
						     .thread = holder,
						     .is_lock = true,
						     .in = IP_NO_FUNCTION,
						     .ticks = to - from,
						     .wait = wait});
}

static int ended_wait(struct ip_wait_culprits *c, const struct ip_wait_part *part)
{
	const struct ip_thread_wait *waits = part->thread->waits,
				    *wait = &waits[waits[part->span->wait].last];
	const struct ip_thread_waking *waking = &wait->waking;
	struct ip_wait_culprit item = {.owner = part->node,
				       .object = part->object,
				       .in = IP_NO_FUNCTION,
				       .ticks = part->ticks};

	if (waking->tsc && !waking->context && waking->waker) {
		item.thread = ip_states_find(c->states, waking->waker, waking->tsc);
		item.wait = wait;
	}
	c->part = part;
	if (item.thread && ip_wait_is_lock(&wait->call))
		return ip_lock_holders(c->states, wait, part->from, part->from + part->ticks,
				       had_lock, c);
	return add_wait(c, &item);
}

int ip_wait_culprits_part(void *context, const struct ip_wait_part *part)
{
	struct ip_wait_culprits *c = context;

	if (!part->span || !part->thread)
		return 0;
	if (part->span->state == IP_THREAD_BLOCKED)
		return ended_wait(c, part);
	if (part->span->state != IP_THREAD_RUNNABLE)
		return 0;
	c->part = part;
	return ip_cpu_users_visit(c->users, part->span->cpu, part->from, part->from + part->ticks,
				  had_cpu, c);
}

/* From the waits of call paths to those of the functions in them. */
static int spread(struct ip_wait_culprits *c, const struct ip_calltree *tree)
{
	struct ip_wait_culprits to = {0};
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < c->n; i++)
		for (uint32_t node = c->items[i].owner; ret == 0 && node;
		     node = tree->nodes[node].parent) {
			struct ip_wait_culprit item = c->items[i];

			item.owner = tree->nodes[node].function;
			ret = add(&to, &item);
		}
	free(c->items);
	free(c->index);
	c->items = to.items;
	c->n = to.n;
	c->index = to.index;
	c->index_size = to.index_size;
	return ret;
}

bool ip_wait_culprits_need_wakers(const struct ip_wait_culprits *c)
{
	return c->nwaits > 0;
}

int ip_wait_culprits_end(struct ip_wait_culprits *c, const struct ip_wait_profile *profile,
			 const struct ip_waker_paths *wakers)
{
	for (size_t i = 0; i < c->nwaits; i++) {
		struct ip_wait_culprit *item = &c->waits[i];
		const uint32_t node = ip_waker_paths_holder(wakers, item->wait);

		if (node)
			item->in = wakers->tree->nodes[node].function;
		item->wait = NULL;
		if (add(c, item) < 0)
			return -1;
	}
	free(c->waits);
	c->waits = NULL;
	c->nwaits = 0;
	if (spread(c, profile->tree) < 0)
		return -1;
	if (c->n)
		qsort(c->items, c->n, sizeof(*c->items), by_ticks);
	return 0;
}

void ip_wait_culprits_clear(struct ip_wait_culprits *culprits)
{
	free(culprits->items);
	free(culprits->index);
	free(culprits->waits);
	*culprits = (struct ip_wait_culprits){0};
}

/* The first item that is not in front of a key, or that is behind it. */
static size_t find(const struct ip_wait_culprits *c, const struct ip_wait_culprit *key, bool behind)
{
	size_t low = 0, high = c->n;

	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		const int x = order(&c->items[middle], key);

		if (x < 0 || (behind && x == 0))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

const struct ip_wait_culprit *ip_wait_culprits_of(const struct ip_wait_culprits *culprits,
						  uint32_t function, uint32_t object, size_t *ret_n)
{
	const struct ip_wait_culprit key = {.owner = function, .object = object};
	const size_t first = find(culprits, &key, false);

	*ret_n = find(culprits, &key, true) - first;
	return culprits->items ? culprits->items + first : NULL;
}

size_t ip_wait_culprits_join(struct ip_wait_culprit *items, size_t n)
{
	size_t left = 0;

	for (size_t i = 0; i < n; i++)
		items[i].owner = items[i].object = 0;
	if (n)
		qsort(items, n, sizeof(*items), by_who);
	for (size_t i = 0; i < n; i++) {
		if (left && by_who(&items[left - 1], &items[i]) == 0)
			items[left - 1].ticks += items[i].ticks;
		else
			items[left++] = items[i];
	}
	if (left)
		qsort(items, left, sizeof(*items), by_ticks);
	return left;
}
