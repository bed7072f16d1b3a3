/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Natural merge sort (Knuth, The Art of Computer Programming 3, 5.2.4, algorithm N, with all of the
 * parts known before the first pass).
 */
#include "analysis/wait/sort.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"

struct sorter {
	size_t size;
	int (*compare)(const void *, const void *);
	size_t *ends; /* of the parts, in items */
	size_t nparts;
};

/* The parts that are in order. Returns 0, or -1 with an error. */
static int find_parts(struct sorter *s, const uint8_t *items, size_t n)
{
	for (size_t i = 1; i <= n; i++) {
		if (i < n && s->compare(items + (i - 1) * s->size, items + i * s->size) <= 0)
			continue;
		if (ip_array_grow(&s->ends, s->nparts, sizeof(*s->ends)) < 0)
			return -1;
		s->ends[s->nparts++] = i;
	}
	return 0;
}

/* Merges two parts that lie one behind the other. What is equal keeps its order. */
static void merge(const struct sorter *s, const uint8_t *from, const uint8_t *middle,
		  const uint8_t *end, uint8_t *to)
{
	const uint8_t *left = from, *right = middle;

	while (left < middle && right < end) {
		const uint8_t *least = s->compare(left, right) <= 0 ? left : right;

		memcpy(to, least, s->size);
		to += s->size;
		left += least == left ? s->size : 0;
		right += least == right ? s->size : 0;
	}
	memcpy(to, left, middle - left);
	memcpy(to + (middle - left), right, end - right);
}

/* Merges each two neighbours. */
static void pass(struct sorter *s, const uint8_t *from, uint8_t *to)
{
	size_t begin = 0, n = 0;

	for (size_t i = 0; i < s->nparts; i += 2) {
		const size_t middle = s->ends[i] * s->size;
		const size_t last = i + 1 < s->nparts ? i + 1 : i;
		const size_t end = s->ends[last] * s->size;

		merge(s, from + begin, from + middle, from + end, to + begin);
		begin = end;
		s->ends[n++] = s->ends[last];
	}
	s->nparts = n;
}

void ip_sort(void *items, size_t n, size_t size, int (*compare)(const void *, const void *))
{
	struct sorter s = {.size = size, .compare = compare};
	uint8_t *from = items, *to = NULL, *more = NULL;

	if (n < 2)
		return;
	if (find_parts(&s, from, n) < 0 || (s.nparts > 1 && !(more = reallocarray(NULL, n, size))))
		qsort(items, n, size, compare);
	else
		for (to = more; s.nparts > 1;) {
			uint8_t *sorted = to;

			pass(&s, from, to);
			to = from;
			from = sorted;
		}
	if (more && from == more)
		memcpy(items, more, n * size);
	free(more);
	free(s.ends);
}
