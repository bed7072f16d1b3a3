/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the changes of a recording and answers questions about them.
 */
#include "analysis/read/changes.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/read/session.h"
#include "common/array.h"
#include "common/error.h"

/* A bound for traces that were made to harm the reader: changes beyond it are left out. */
#define TIMES_MAX (1u << 24)

bool ip_numbers_next(const char **text, uint64_t *ret_first, uint64_t *ret_last)
{
	char *end;

	if (!isdigit((unsigned char)**text))
		return false;
	*ret_first = *ret_last = strtoull(*text, &end, 10);
	if (*end == '-') {
		if (!isdigit((unsigned char)end[1]))
			return false;
		*ret_last = strtoull(end + 1, &end, 10);
	}
	if (*end && *end != ',')
		return false;
	*text = *end ? end + 1 : end;
	return *ret_first && *ret_first <= *ret_last && *ret_last <= IP_NUMBER_MAX &&
	       (**text || !*end);
}

static int grow_off(struct ip_changes *c, size_t n)
{
	uint8_t *grown;

	if (n <= c->noff)
		return 0;
	grown = realloc(c->off, n);
	if (!grown)
		return -1;
	memset(grown + c->noff, 0, n - c->noff);
	c->off = grown;
	c->noff = n;
	return 0;
}

/* Notes that a function is removed or added. Does nothing where it is so already: the function
 * has several numbers, or it was there from the beginning. */
static int toggle(struct ip_changes *c, uint32_t function, bool removed, uint64_t tsc)
{
	if (c->off[function] == removed || c->n == TIMES_MAX)
		return 0;
	if (ip_array_grow(&c->times, c->n, sizeof(*c->times)) < 0 ||
	    ip_array_grow(&c->functions, c->n, sizeof(*c->functions)) < 0)
		return -1;
	c->off[function] = removed;
	c->times[c->n] = tsc;
	c->functions[c->n++] = function;
	return 0;
}

const char *ip_changes_add(struct ip_changes *c, const struct ip_recording *s, bool removed,
			   uint64_t tsc, const char *numbers)
{
	size_t before = c->n;

	if (tsc < c->last)
		return "changes are not in the order of time";
	c->last = tsc;
	if (grow_off(c, s->nfunctions) < 0)
		return "out of memory";
	while (*numbers) {
		uint64_t first, last;

		if (!ip_numbers_next(&numbers, &first, &last))
			return "not a list of numbers";
		for (uint64_t number = first; number <= last && number < s->nnumbers; number++)
			if (s->numbers[number].function &&
			    toggle(c, s->numbers[number].function, removed, tsc) < 0)
				return "out of memory";
	}
	if (!removed || c->n == before)
		return NULL;
	if (ip_array_grow(&c->removals, c->nremovals, sizeof(*c->removals)) < 0)
		return "out of memory";
	c->removals[c->nremovals++] = tsc;
	return NULL;
}

/* Sorts the times by function and keeps the order of time within each. */
int ip_changes_index(struct ip_changes *c, struct ip_recording *s)
{
	uint64_t *sorted;

	if (!c->n)
		return 0;
	c->starts = calloc(s->nfunctions + 2, sizeof(*c->starts));
	sorted = calloc(c->n, sizeof(*sorted));
	if (!c->starts || !sorted) {
		free(sorted);
		return ip_error("out of memory");
	}
	for (size_t i = 0; i < c->n; i++)
		c->starts[c->functions[i] + 2]++;
	for (size_t f = 2; f < s->nfunctions + 2; f++)
		c->starts[f] += c->starts[f - 1];
	for (size_t i = 0; i < c->n; i++)
		sorted[c->starts[c->functions[i] + 1]++] = c->times[i];
	free(c->times);
	c->times = sorted;
	for (size_t i = 0; i < s->nnumbers; i++)
		s->numbers[i].changes =
			s->numbers[i].function &&
			c->starts[s->numbers[i].function] < c->starts[s->numbers[i].function + 1];
	return 0;
}

void ip_changes_clear(struct ip_changes *c)
{
	free(c->removals);
	free(c->times);
	free(c->functions);
	free(c->starts);
	free(c->off);
	*c = (struct ip_changes){0};
}

bool ip_changes_is_off(const struct ip_changes *c, uint32_t function, uint64_t ts)
{
	uint32_t low, high, first;

	if (!c->starts)
		return false;
	low = first = c->starts[function];
	high = c->starts[function + 1];
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (c->times[middle] <= ts)
			low = middle + 1;
		else
			high = middle;
	}
	return (low - first) & 1;
}
