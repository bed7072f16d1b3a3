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
