/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds paths of system calls.
 */
#include "analysis/wait/descriptors/call_paths.h"

#include <stdlib.h>

#include "common/array.h"

static int compare(const void *left, const void *right)
{
	const struct ip_call_path *a = left, *b = right;

	if (a->tid != b->tid)
		return a->tid < b->tid ? -1 : 1;
	return a->tsc < b->tsc ? -1 : a->tsc > b->tsc;
}

int ip_call_paths_add(struct ip_call_paths *paths, const struct ip_call_path *path)
{
	if (ip_array_grow(&paths->items, paths->n, sizeof(*path)) < 0)
		return -1;
	paths->items[paths->n++] = *path;
	paths->sorted = false;
	return 0;
}

void ip_call_paths_sort(struct ip_call_paths *paths)
{
	if (paths->n && !paths->sorted)
		qsort(paths->items, paths->n, sizeof(*paths->items), compare);
	paths->sorted = true;
}

/* The first item of a thread that is not before a time. */
static size_t first_of(const struct ip_call_paths *paths, int32_t tid, uint64_t tsc)
{
	const struct ip_call_path key = {.tid = tid, .tsc = tsc};
	size_t low = 0, high = paths->n;

	while (low < high) {
		const size_t middle = (low + high) / 2;

		if (compare(&paths->items[middle], &key) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Gaps are in order of their begins, and of their ends. */
static bool is_in_gap(const struct ip_call_paths *paths, uint64_t begin, uint64_t end)
{
	size_t at = first_of(paths, 0, end);

	return at && paths->items[at - 1].tid == 0 && paths->items[at - 1].address >= begin;
}

const char *ip_call_paths_find(const struct ip_call_paths *paths, const struct ip_call_path *key,
			       uint64_t begin, uint64_t end)
{
	const struct ip_call_path *p;

	if (is_in_gap(paths, begin, end + IP_CALL_PATH_BEHIND))
		return NULL;
	for (size_t i = first_of(paths, key->tid, begin); i < paths->n; i++) {
		p = &paths->items[i];
		if (p->tid != key->tid || p->tsc > end + IP_CALL_PATH_BEHIND ||
		    p->number != key->number)
			return NULL;
		if (p->argument == key->argument)
			return p->address == key->address ? p->text : NULL;
	}
	return NULL;
}
