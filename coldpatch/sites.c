/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The growing table of sites. See sites.h.
 */
#include "coldpatch/sites.h"

#include "common/grow.h"

#include <stdlib.h>

int cold_sites_add(struct cold_sites *s, struct cold_site site)
{
	if (ip_grow(&s->sites, s->n, sizeof(*s->sites)))
		return -1;
	s->sites[s->n++] = site;
	return 0;
}

static int compare_sites(const void *a, const void *b)
{
	uint64_t x = ((const struct cold_site *)a)->address, y = ((const struct cold_site *)b)->address;

	return x < y ? -1 : x > y;
}

void cold_sites_sort(struct cold_sites *s)
{
	if (s->n)
		qsort(s->sites, s->n, sizeof(*s->sites), compare_sites);
}

int cold_sites_add_once(struct cold_sites *to, const struct cold_sites *from, const struct cold_module *m,
			int (*refuse)(const struct cold_module *, uint64_t, const char *))
{
	for (size_t i = 0; i < from->n; i++) {
		const struct cold_site *site = &from->sites[i], *before = i ? site - 1 : NULL;

		if (before && before->address == site->address) {
			if (before->kind != site->kind)
				return refuse(m, site->address, "once as entry and once as exit");
			continue;
		}
		if (before && site->address - before->address < before->length + before->after_length)
			return refuse(m, site->address, "which overlaps another site");
		if (cold_sites_add(to, *site))
			return -1;
	}
	return 0;
}

struct cold_site *cold_sites_at(const struct cold_sites *s, uint64_t address)
{
	struct cold_site key = {.address = address};

	return s->n ? bsearch(&key, s->sites, s->n, sizeof(*s->sites), compare_sites) : NULL;
}

void cold_sites_destroy(struct cold_sites *s)
{
	free(s->sites);
	s->sites = NULL;
	s->n = 0;
}
