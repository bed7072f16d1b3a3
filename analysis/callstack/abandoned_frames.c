/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A chained hash table over an array without holes: the last entry takes the place of an entry
 * that is taken out.
 */
#include "analysis/callstack/abandoned_frames.h"

#include <stdlib.h>
#include <string.h>

#include "common/trace/trace_format.h"

#define CAPACITY_MIN 64u

static uint32_t *chain_of(const struct ip_abandoned_frames *abandoned, uint32_t function,
			  uint64_t sp)
{
	uint64_t h = (sp >> IP_SP_SHIFT ^ (uint64_t)function << 40) * 0x9e3779b97f4a7c15ull;

	return &abandoned->heads[(h >> 32) & (abandoned->capacity - 1)];
}

/* Returns the link (head or next) that leads to the entry of (function, sp); at the chain's end
 * *link is 0. */
static uint32_t *find(const struct ip_abandoned_frames *abandoned, uint32_t function, uint64_t sp)
{
	uint32_t *link = chain_of(abandoned, function, sp);

	while (*link) {
		struct ip_abandoned_frames_entry *e = &abandoned->entries[*link - 1];

		if (e->function == function && e->frame.sp == sp)
			break;
		link = &e->next;
	}
	return link;
}

static bool grow(struct ip_abandoned_frames *abandoned)
{
	size_t capacity = abandoned->capacity ? 2 * abandoned->capacity : CAPACITY_MIN;
	struct ip_abandoned_frames_entry *entries;
	uint32_t *heads;

	if (capacity > IP_ABANDONED_FRAMES_MAX)
		return false;
	heads = calloc(capacity, sizeof(*heads));
	if (!heads)
		return false;
	entries = reallocarray(abandoned->entries, capacity, sizeof(*entries));
	if (!entries) {
		free(heads);
		return false;
	}
	free(abandoned->heads);
	*abandoned = (struct ip_abandoned_frames){entries, heads, abandoned->n, capacity};
	for (size_t i = 0; i < abandoned->n; i++) {
		uint32_t *head = chain_of(abandoned, entries[i].function, entries[i].frame.sp);

		entries[i].next = *head;
		*head = i + 1;
	}
	return true;
}

void ip_abandoned_frames_deinit(struct ip_abandoned_frames *abandoned)
{
	free(abandoned->entries);
	free(abandoned->heads);
	*abandoned = (struct ip_abandoned_frames){0};
}

int ip_abandoned_frames_add(struct ip_abandoned_frames *abandoned,
			    const struct ip_abandoned_frames_entry *entry,
			    struct ip_abandoned_frames_entry *ret_old)
{
	uint32_t *link, next;

	if (abandoned->n) {
		link = find(abandoned, entry->function, entry->frame.sp);
		if (*link) {
			struct ip_abandoned_frames_entry *e = &abandoned->entries[*link - 1];

			next = e->next;
			*ret_old = *e;
			*e = *entry;
			e->next = next;
			return 1;
		}
	}
	if (abandoned->n == abandoned->capacity && !grow(abandoned))
		return -1;
	link = chain_of(abandoned, entry->function, entry->frame.sp);
	abandoned->entries[abandoned->n] = *entry;
	abandoned->entries[abandoned->n].next = *link;
	*link = ++abandoned->n;
	return 0;
}

/* Takes out the entry that link leads to. */
static void take(struct ip_abandoned_frames *abandoned, uint32_t *link,
		 struct ip_abandoned_frames_entry *ret)
{
	size_t hole = *link - 1, last = abandoned->n - 1;

	*ret = abandoned->entries[hole];
	*link = ret->next;
	if (hole != last) {
		const struct ip_abandoned_frames_entry *e = &abandoned->entries[last];

		link = find(abandoned, e->function, e->frame.sp);
		abandoned->entries[hole] = abandoned->entries[last];
		*link = hole + 1;
	}
	abandoned->n--;
}

bool ip_abandoned_frames_take(struct ip_abandoned_frames *abandoned, uint32_t function, uint64_t sp,
			      uint64_t group, struct ip_abandoned_frames_entry *ret)
{
	uint32_t *link;

	if (!abandoned->n)
		return false;
	link = find(abandoned, function, sp);
	if (!*link || (group && abandoned->entries[*link - 1].group != group))
		return false;
	take(abandoned, link, ret);
	return true;
}

bool ip_abandoned_frames_take_any(struct ip_abandoned_frames *abandoned,
				  struct ip_abandoned_frames_entry *ret)
{
	const struct ip_abandoned_frames_entry *e;

	if (!abandoned->n)
		return false;
	e = &abandoned->entries[abandoned->n - 1];
	take(abandoned, find(abandoned, e->function, e->frame.sp), ret);
	return true;
}
