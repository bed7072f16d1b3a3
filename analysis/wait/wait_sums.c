/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hash tables of sums and objects.
 */
#include "analysis/wait/wait_sums.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/error.h"

#define LEAST 256u

static size_t mix(uint64_t value)
{
	return (value ^ value >> 29) * 0x9e3779b97f4a7c15ull >> 20;
}

static struct ip_wait_sum *slot_of(struct ip_wait_sum *slots, size_t size, uint32_t owner,
				   uint32_t object)
{
	size_t at = mix((uint64_t)owner << 32 | object) & (size - 1);

	while ((slots[at].count || slots[at].ticks) &&
	       (slots[at].owner != owner || slots[at].object != object))
		at = (at + 1) & (size - 1);
	return &slots[at];
}

static int grow(struct ip_wait_sums *sums)
{
	size_t size = sums->size ? 2 * sums->size : LEAST;
	struct ip_wait_sum *slots = calloc(size, sizeof(*slots));

	if (!slots)
		return ip_error("out of memory");
	for (size_t i = 0; i < sums->size; i++)
		if (sums->slots[i].count || sums->slots[i].ticks)
			*slot_of(slots, size, sums->slots[i].owner, sums->slots[i].object) =
				sums->slots[i];
	free(sums->slots);
	sums->slots = slots;
	sums->size = size;
	return 0;
}

int ip_wait_sums_add_sum(struct ip_wait_sums *sums, uint32_t owner, const struct ip_wait_sum *sum)
{
	const uint32_t object = sum->object;
	struct ip_wait_sum *slot;

	if (!sum->ticks && !sum->count)
		return 0;
	if (2 * (sums->n + 1) > sums->size && grow(sums) < 0)
		return -1;
	slot = slot_of(sums->slots, sums->size, owner, object);
	if (!slot->count && !slot->ticks)
		sums->n++;
	slot->owner = owner;
	slot->object = object;
	slot->ticks += sum->ticks;
	slot->count += sum->count;
	slot->idle += sum->idle;
	slot->idle_count += sum->idle_count;
	return 0;
}

int ip_wait_sums_add(struct ip_wait_sums *sums, uint32_t owner, uint32_t object, uint64_t ticks,
		     uint64_t count)
{
	const struct ip_wait_sum sum = {.object = object, .ticks = ticks, .count = count};

	return ip_wait_sums_add_sum(sums, owner, &sum);
}

int ip_wait_sums_add_part(struct ip_wait_sums *sums, uint32_t owner, uint32_t object,
			  uint64_t ticks, bool begins, bool idle)
{
	const struct ip_wait_sum sum = {.object = object,
					.ticks = ticks,
					.count = begins,
					.idle = idle ? ticks : 0,
					.idle_count = idle && begins};

	return ip_wait_sums_add_sum(sums, owner, &sum);
}

static int compare(const void *left, const void *right)
{
	const struct ip_wait_sum *a = left, *b = right;
	const uint64_t x = a->ticks - a->idle, y = b->ticks - b->idle;

	if (a->owner != b->owner)
		return a->owner < b->owner ? -1 : 1;
	if (x != y)
		return x > y ? -1 : 1;
	if (a->ticks != b->ticks)
		return a->ticks > b->ticks ? -1 : 1;
	return a->object < b->object ? -1 : a->object > b->object;
}

void ip_wait_sums_sort(struct ip_wait_sums *sums, struct ip_wait_sum **ret, size_t *ret_n)
{
	size_t n = 0;

	for (size_t i = 0; i < sums->size; i++)
		if (sums->slots[i].count || sums->slots[i].ticks)
			sums->slots[n++] = sums->slots[i];
	if (n)
		qsort(sums->slots, n, sizeof(*sums->slots), compare);
	*ret = sums->slots;
	*ret_n = n;
	*sums = (struct ip_wait_sums){0};
}

void ip_wait_sums_clear(struct ip_wait_sums *sums)
{
	free(sums->slots);
	*sums = (struct ip_wait_sums){0};
}

static size_t hash(const struct ip_wait_object *o)
{
	uint64_t value = o->kind ^ o->address << 4 ^ (uint64_t)(uint32_t)o->pid << 32;

	if (!o->text)
		return mix(value ^ (uint64_t)o->call << 16 ^ (uint64_t)(uint32_t)o->fd << 40);
	for (const char *at = o->text; *at; at++)
		value = value * 31 + (unsigned char)*at;
	return mix(value);
}

static int grow_objects(struct ip_wait_objects *objects)
{
	size_t size = objects->size ? 2 * objects->size : LEAST;
	uint32_t *index = calloc(size, sizeof(*index));

	if (!index)
		return ip_error("out of memory");
	for (size_t i = 0; i < objects->n; i++) {
		size_t at = hash(&objects->items[i]) & (size - 1);

		while (index[at])
			at = (at + 1) & (size - 1);
		index[at] = i + 1;
	}
	free(objects->index);
	objects->index = index;
	objects->size = size;
	return 0;
}

uint32_t ip_wait_objects_add(struct ip_wait_objects *objects, const struct ip_wait_object *object)
{
	size_t at;

	if (2 * (objects->n + 1) > objects->size && grow_objects(objects) < 0)
		return UINT32_MAX;
	at = hash(object) & (objects->size - 1);
	while (objects->index[at]) {
		if (ip_wait_object_same(&objects->items[objects->index[at] - 1], object))
			return objects->index[at] - 1;
		at = (at + 1) & (objects->size - 1);
	}
	if (objects->n >= UINT32_MAX - 1) {
		ip_error("too many objects that were waited for");
		return UINT32_MAX;
	}
	if (ip_array_grow(&objects->items, objects->n, sizeof(*object)) < 0)
		return UINT32_MAX;
	objects->items[objects->n] = *object;
	objects->index[at] = ++objects->n;
	return objects->n - 1;
}

void ip_wait_objects_clear(struct ip_wait_objects *objects)
{
	free(objects->items);
	free(objects->index);
	*objects = (struct ip_wait_objects){0};
}
