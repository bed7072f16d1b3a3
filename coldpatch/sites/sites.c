/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The growing table of sites. See sites.h.
 */
#include "coldpatch/sites/sites.h"

#include "coldpatch/elf/module.h"
#include "common/array.h"
#include "common/error.h"

#include <stdlib.h>

int cold_sites_add(struct cold_sites *s, struct cold_site site)
{
	if (ip_array_grow(&s->sites, s->n, sizeof(*s->sites)))
		return -1;
	s->sites[s->n++] = site;
	return 0;
}

static int compare_sites(const void *a, const void *b)
{
	uint64_t x = ((const struct cold_site *)a)->address,
		 y = ((const struct cold_site *)b)->address;

	return x < y ? -1 : x > y;
}

void cold_sites_sort(struct cold_sites *s)
{
	if (s->n)
		qsort(s->sites, s->n, sizeof(*s->sites), compare_sites);
}

int cold_sites_add_once(struct cold_sites *to, const struct cold_sites *from,
			const struct cold_module *m,
			int (*refuse)(const struct cold_module *, uint64_t, const char *))
{
	for (size_t i = 0; i < from->n; i++) {
		const struct cold_site *site = &from->sites[i], *before = i ? site - 1 : NULL;

		if (before && before->address == site->address) {
			if (before->kind != site->kind)
				return refuse(m, site->address, "once as entry and once as exit");
			continue;
		}
		if (before &&
		    site->address - before->address < before->length + before->after_length)
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

int cold_sites_check(const struct cold_module *m, const struct cold_sites *sites)
{
	const struct ip_elf_file *e = m->elf;

	for (size_t i = 0; i < sites->n; i++) {
		const struct cold_site *site = &sites->sites[i];
		const struct cold_section *s =
			cold_module_section(m, site->address, site->length + site->after_length);
		bool loaded = false;

		if (!s)
			return ip_error("%s: the site at 0x%lx leaves its section", m->path,
					(unsigned long)site->address);
		for (size_t j = 0; j < e->nloads && !loaded; j++) {
			const struct ip_elf_segment *load = &e->loads[j];
			uint64_t into = site->address - load->vaddr;

			loaded = site->address >= load->vaddr && into < load->filesz &&
				 site->length + site->after_length <= load->filesz - into &&
				 (load->flags & PF_X) &&
				 load->offset + into == s->offset + (site->address - s->address);
		}
		if (!loaded)
			return ip_error("%s: the code at 0x%lx in section %s is not what an "
					"executable segment loads there",
					m->path, (unsigned long)site->address, s->name);
	}
	return 0;
}
