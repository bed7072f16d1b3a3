/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranges: which stretches of code are functions, which of them belong together, and where data
 * starts that the code refers to. See module.h.
 */
#include "coldpatch/elf/module.h"

#include "coldpatch/elf/eh_frame.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"

#include <string.h>

static int compare_u64(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

static int add_range(struct cold_range **ranges, size_t *n, struct cold_range range)
{
	if (ip_array_grow(ranges, *n, sizeof(**ranges)))
		return -1;
	range.parent = *n;
	range.jumper = COLD_NONE;
	(*ranges)[(*n)++] = range;
	return 0;
}

/* Makes ranges of the code between the ranges, so that no byte is left out. */
static int fill_gaps(struct cold_module *m)
{
	_cleanup_free_ struct cold_range *all = NULL;
	size_t n = 0, next = 0;

	for (size_t i = 0; i < m->nsections; i++) {
		const struct cold_section *s = &m->sections[i];
		uint64_t at = s->address, end = s->address + s->size;

		if (!s->exec || s->plt)
			continue;
		while (at < end) {
			uint64_t stop = end;

			while (next < m->nranges && m->ranges[next].end <= at)
				next++;
			if (next < m->nranges && m->ranges[next].start <= at) {
				if (add_range(&all, &n, m->ranges[next]))
					return -1;
				at = m->ranges[next].end;
				continue;
			}
			if (next < m->nranges && m->ranges[next].start < end)
				stop = m->ranges[next].start;
			if (add_range(&all, &n,
				      (struct cold_range){.start = at,
							  .end = stop,
							  .symbol = COLD_NONE,
							  .gap = true}))
				return -1;
			at = stop;
		}
	}
	free(m->ranges);
	m->ranges = ip_steal_ptr(all);
	m->nranges = n;
	return 0;
}

struct range_seed {
	uint64_t start, end, lsda;
	uint32_t symbol;
};

static int compare_seeds(const void *pa, const void *pb)
{
	const struct range_seed *a = pa, *b = pb;
	int c = compare_u64(a->start, b->start);

	if (c)
		return c;
	/* the one with a symbol comes first, then the longest one */
	if ((a->symbol == COLD_NONE) != (b->symbol == COLD_NONE))
		return a->symbol == COLD_NONE ? 1 : -1;
	return -compare_u64(a->end, b->end);
}

static uint64_t section_end(const struct cold_module *m, uint64_t address)
{
	const struct cold_section *s = cold_module_section(m, address, 1);

	return s ? s->address + s->size : 0;
}

/* Ranges come from symbols. Unwind entries add the ranges that have no symbol, and say where
 * exceptions land. The code between these ranges has no name (stripped, or padding). In
 * hand-written assembly it may be data. */
int cold_ranges_make(struct cold_module *m)
{
	_cleanup_free_ struct cold_unwind *unwind = NULL;
	_cleanup_free_ struct range_seed *seeds = NULL;
	size_t nunwind = 0, nseeds = 0;

	if (cold_eh_frame_read(m, &unwind, &nunwind))
		return -1;
	for (size_t i = 0; i < m->nsymbols; i++) {
		const struct cold_symbol *s = &m->symbols[i];
		const struct cold_section *section;
		uint64_t end = s->address + s->size;

		if (i && m->symbols[i - 1].address == s->address)
			continue;
		section = cold_module_section(m, s->address, 1);
		for (size_t j = i; j < m->nsymbols && m->symbols[j].address == s->address; j++)
			if (m->symbols[j].address + m->symbols[j].size > end)
				end = m->symbols[j].address + m->symbols[j].size;
		if (end > section->address + section->size)
			end = section->address + section->size;
		if (end <= s->address)
			continue; /* no size: a label in assembly, or a symbol that wraps around */
		if (ip_array_grow(&seeds, nseeds, sizeof(*seeds)))
			return -1;
		seeds[nseeds++] = (struct range_seed){.start = s->address, .end = end, .symbol = i};
	}
	for (size_t i = 0; i < nunwind; i++) {
		if (ip_array_grow(&seeds, nseeds, sizeof(*seeds)))
			return -1;
		seeds[nseeds++] = (struct range_seed){.start = unwind[i].start,
						      .end = unwind[i].end,
						      .lsda = unwind[i].lsda,
						      .symbol = COLD_NONE};
	}
	if (nseeds)
		qsort(seeds, nseeds, sizeof(*seeds), compare_seeds);
	for (size_t i = 0; i < nseeds; i++) {
		struct cold_range *last = m->nranges ? &m->ranges[m->nranges - 1] : NULL;

		if (last && seeds[i].start < last->end) {
			/* an alias, a label inside, or the unwind entry of the same function */
			if (seeds[i].lsda && !last->lsda)
				last->lsda = seeds[i].lsda;
			if (seeds[i].end > last->end && seeds[i].end <= section_end(m, last->start))
				last->end = seeds[i].end;
			continue;
		}
		if (add_range(&m->ranges, &m->nranges,
			      (struct cold_range){.start = seeds[i].start,
						  .end = seeds[i].end,
						  .lsda = seeds[i].lsda,
						  .symbol = seeds[i].symbol}))
			return -1;
	}
	return fill_gaps(m);
}

uint32_t cold_module_range(const struct cold_module *m, uint64_t address)
{
	size_t lo = 0, hi = m->nranges;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (address < m->ranges[mid].start)
			hi = mid;
		else if (address >= m->ranges[mid].end)
			lo = mid + 1;
		else
			return mid;
	}
	return COLD_NONE;
}

int cold_module_mark(struct cold_module *m, uint64_t address)
{
	const struct cold_section *section = cold_module_section(m, address, 1);

	if (!section || section->exec)
		return 0;
	if (ip_array_grow(&m->marks, m->nmarks, sizeof(*m->marks)))
		return -1;
	m->marks[m->nmarks++] = address;
	return 0;
}

static int compare_marks(const void *a, const void *b)
{
	return compare_u64(*(const uint64_t *)a, *(const uint64_t *)b);
}

void cold_module_sort_marks(struct cold_module *m)
{
	if (m->nmarks)
		qsort(m->marks, m->nmarks, sizeof(*m->marks), compare_marks);
}

uint64_t cold_module_next_mark(const struct cold_module *m, uint64_t address)
{
	size_t lo = 0, hi = m->nmarks;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (m->marks[mid] <= address)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < m->nmarks ? m->marks[lo] : UINT64_MAX;
}

uint32_t cold_range_root(const struct cold_module *m, uint32_t range)
{
	while (m->ranges[range].parent != range)
		range = m->ranges[range].parent = m->ranges[m->ranges[range].parent].parent;
	return range;
}

void cold_range_join(struct cold_module *m, uint32_t a, uint32_t b)
{
	a = cold_range_root(m, a);
	b = cold_range_root(m, b);
	if (a < b)
		m->ranges[b].parent = a;
	else
		m->ranges[a].parent = b;
}

const char *cold_range_name(const struct cold_module *m, uint32_t range)
{
	uint32_t symbol = m->ranges[range].symbol;

	return symbol == COLD_NONE ? NULL : m->symbols[symbol].name;
}

bool cold_range_is_cold(const struct cold_module *m, uint32_t range)
{
	const char *name = cold_range_name(m, range);

	return m->ranges[range].cold || (name && strstr(name, ".cold"));
}
