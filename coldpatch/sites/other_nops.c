// SPDX-License-Identifier: Apache-2.0
/*
 * NOPs of other tools, in modules that were built for uftrace, live patching and the like:
 *
 *   __patchable_function_entries   -fpatchable-function-entry=N,M: the first of N bytes of NOPs, M
 *                                  of them in front of the function. One-byte NOPs (gcc) become one
 *                                  NOP of five bytes on disk
 *   __mcount_loc                   -pg -mfentry -mnop-mcount -mrecord-mcount: a NOP of five bytes
 *                                  at each entry
 *   __return_loc                   -minstrument-return=nop5 -mrecord-return: a NOP of five bytes in
 *                                  front of returns and tail jumps
 *
 * Each is a table of absolute addresses. In a module that may be loaded anywhere, the dynamic
 * relocations hold these addresses. Where there are no exits, calls can be counted but not timed.
 */
#include "coldpatch/sites/arch.h"
#include "coldpatch/sites/find.h"
#include "common/error.h"

#include <string.h>

#define SITE	   5
#define PREFIX_MAX 4096 /* NOPs in front of a function */

enum table_kind { TABLE_PATCHABLE, TABLE_ENTRIES, TABLE_RETURNS };

static const struct {
	const char *section;
	enum table_kind kind;
} tables[] = {
	{"__patchable_function_entries", TABLE_PATCHABLE},
	{"__mcount_loc", TABLE_ENTRIES},
	{"__return_loc", TABLE_RETURNS},
};

struct foreign {
	const struct cold_module *m;
	const struct cold_arch *arch;
	struct cold_sites sites;
	bool entries, exits; /* there is at least one, in the tables that may have both */
	/* seen: entries with fewer NOPs than a site has; calls instead of NOPs */
	bool short_entries, calls;
};

/* Returns the address that the loader will write there, or that the linker has written. 0: not
 * known. */
static uint64_t address_at(const struct foreign *f, const struct cold_section *s, uint64_t at)
{
	const struct cold_reloc *r = cold_module_reloc(f->m, s->address + at);
	uint64_t address;

	if (r && f->arch->module.reloc_is_relative(r->type))
		return (uint64_t)r->addend;
	if (r && r->symbol)
		return r->defined ? r->value + (uint64_t)r->addend : 0;
	memcpy(&address, s->data + at, sizeof(address));
	return address;
}

/* Returns the start of the function that has the NOPs at address in front of it or inside; 0:
 * unknown. */
static uint64_t function_start(const struct foreign *f, const struct cold_section *s,
			       uint64_t address)
{
	const uint8_t *p = s->data + (address - s->address);
	uint64_t left = s->address + s->size - address;
	uint32_t range = cold_module_range(f->m, address);

	if (range == COLD_NONE)
		return 0;
	if (!f->m->ranges[range].gap)
		return f->m->ranges[range].start;
	/* between functions: only NOPs may lie in front of the next function */
	for (uint64_t n = 1; n < left && n < PREFIX_MAX; n++) {
		uint32_t next = cold_module_range(f->m, address + n);

		if (next != range)
			return next != COLD_NONE && f->arch->nops(p, n, n) == n ? address + n : 0;
	}
	return 0;
}

/*
 * Returns the size of the first NOPs at p if they can become a site: one instruction (clang), or as
 * many one-byte NOPs as a site has bytes (gcc). With any other mixture there may be fewer NOPs, and
 * the site would take in padding behind them.
 */
static size_t patchable_nops(const struct foreign *f, const uint8_t *p, size_t left)
{
	size_t first = f->arch->nops(p, left, 1);

	if (first >= SITE)
		return first;
	if (first != 1 || left < SITE)
		return 0;
	for (size_t i = 1; i < SITE; i++)
		if (p[i] != p[0])
			return 0;
	return SITE;
}

/* Adds the NOPs at or behind the start of their function. */
static int add_patchable(struct foreign *f, const struct cold_section *s, uint64_t address)
{
	uint64_t start = function_start(f, s, address), at = start > address ? start : address;
	size_t left = s->address + s->size - at, n;
	const uint8_t *p = s->data + (at - s->address);
	size_t mark = at == start ? f->arch->endbr(p, left) : 0;

	n = patchable_nops(f, p + mark, left - mark);
	if (!n || n - SITE > COLD_AFTER_MAX || f->arch->entered(f->m, at + mark, at + mark + n)) {
		f->short_entries = true;
		return 0;
	}
	return cold_sites_add(&f->sites, (struct cold_site){
						 .address = at + mark,
						 .length = SITE,
						 .after_length = n - SITE,
						 .kind = IP_PROBE_ENTRY,
						 .regs = IP_REGS_ENTRY,
						 .entry_only = true,
					 });
}

static int add_site(struct foreign *f, const struct cold_section *s, uint64_t address,
		    enum table_kind kind)
{
	const uint8_t *p = s->data + (address - s->address);
	size_t left = s->address + s->size - address;
	struct cold_site site = {.address = address, .length = SITE};

	/* one instruction of five bytes and no other: no jump can lead inside of it */
	if (f->arch->nops(p, left, 1) != SITE) {
		f->calls = true;
		return 0;
	}
	if (kind == TABLE_ENTRIES) {
		site.kind = IP_PROBE_ENTRY;
		site.regs = IP_REGS_ENTRY;
	} else if (f->arch->returns(p + SITE, left - SITE)) {
		site.kind = IP_PROBE_EXIT;
		site.regs = IP_REGS_RETURN;
	} else {
		site.kind = IP_PROBE_TAIL_EXIT;
		site.regs = IP_REGS_ALL;
	}
	f->entries |= kind == TABLE_ENTRIES;
	f->exits |= kind == TABLE_RETURNS;
	return cold_sites_add(&f->sites, site);
}

static int read_table(struct foreign *f, const struct cold_section *table, enum table_kind kind)
{
	for (uint64_t at = 0; table->size - at >= 8; at += 8) {
		uint64_t address = address_at(f, table, at);
		const struct cold_section *s = cold_module_section(f->m, address, 1);

		/* for discarded code the table holds a value that is not an address */
		if (!s || !s->exec || s->plt)
			continue;
		if (kind == TABLE_PATCHABLE ? add_patchable(f, s, address)
					    : add_site(f, s, address, kind))
			return -1;
	}
	return 0;
}

/* Whether the function at address has an entry already: it must not be counted twice. */
static bool has_entry(const struct cold_module *m, const struct cold_sites *taken, uint64_t address)
{
	uint32_t range = cold_module_range(m, address);
	size_t lo = 0, hi = taken->n;

	if (range == COLD_NONE)
		return false;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (taken->sites[mid].address < m->ranges[range].start)
			lo = mid + 1;
		else
			hi = mid;
	}
	for (; lo < taken->n && taken->sites[lo].address < m->ranges[range].end; lo++)
		if (taken->sites[lo].kind == IP_PROBE_ENTRY)
			return true;
	return false;
}

/* Adds the sites that no other finder has found. taken: ascending. */
static int add_new(const struct foreign *f, const struct cold_sites *taken, struct cold_sites *to)
{
	size_t next = 0;
	uint64_t end = 0; /* end of the sites before this one */

	for (size_t i = 0; i < f->sites.n; i++) {
		struct cold_site site = f->sites.sites[i];
		uint64_t reach = site.address + site.length + site.after_length;

		/* if the entries are calls, exits have no frame to close */
		if (site.kind != IP_PROBE_ENTRY && !f->entries)
			continue;

		while (next < taken->n && taken->sites[next].address < reach) {
			uint64_t e = taken->sites[next].address + taken->sites[next].length +
				     taken->sites[next].after_length;

			end = e > end ? e : end;
			next++;
		}
		if (site.address < end || (site.entry_only && has_entry(f->m, taken, site.address)))
			continue;
		if (cold_sites_add(to, site))
			return -1;
		end = reach;
	}
	return 0;
}

/* Says in words what could not be used, for a user who asks why there are no probes. */
static const char *why_none(const struct foreign *f)
{
	if (f->short_entries)
		return "its patchable entries have fewer than 5 bytes of NOPs "
		       "(-fpatchable-function-entry=5 or more)";
	if (f->calls)
		return "its entries call __fentry__ or mcount; iprobe needs NOPs (-mnop-mcount, or "
		       "use iprobe-cc)";
	for (size_t i = 0; i < f->m->nrelocs; i++) {
		const char *name = f->m->relocs[i].symbol;

		if (name && (!strcmp(name, "__fentry__") || !strcmp(name, "mcount") ||
			     !strcmp(name, "_mcount")))
			return "its functions call __fentry__ or mcount (-pg), which may use what "
			       "the calls leave; iprobe needs NOPs (use iprobe-cc)";
	}
	return NULL;
}

int cold_other_nops_find(struct cold_module *m, struct cold_found *found)
{
	struct foreign f = {.m = m, .arch = cold_arch_for_machine(m->elf->ehdr.e_machine)};
	size_t before = found->sites.n;
	struct cold_sites fresh = {0};
	int result = -1;

	if (!f.arch || !f.arch->nops)
		return 0;
	for (size_t i = 0; i < m->nsections; i++)
		for (size_t j = 0; j < sizeof(tables) / sizeof(*tables); j++)
			if (!strcmp(m->sections[i].name, tables[j].section) &&
			    read_table(&f, &m->sections[i], tables[j].kind))
				goto out;
	for (size_t i = 0; i < f.sites.n; i++) {
		struct cold_site *site = &f.sites.sites[i];

		site->range = cold_module_range(m, site->address);
		site->naming = COLD_NAME_BY_SYMBOL;
		site->depth = site->kind == IP_PROBE_ENTRY ? 0 : 1;
		/* the site is in front of the function's first push */
		site->frame = site->kind == IP_PROBE_ENTRY ? 8 : 0;
		/* if the module has exits, a function without exits does not return */
		site->entry_only |= site->kind == IP_PROBE_ENTRY && !f.exits;
	}
	cold_sites_sort(&f.sites);
	cold_sites_sort(&found->sites);
	found->why_none = why_none(&f);
	if (add_new(&f, &found->sites, &fresh))
		goto out;
	for (size_t i = 0; i < fresh.n; i++)
		if (cold_sites_add(&found->sites, fresh.sites[i]))
			goto out;
	if (fresh.n) {
		if (fresh.n > before)
			found->placement = IP_PLACEMENT_FENTRY;
		found->found_by |= IP_FOUND_BY_FOREIGN;
	}
	result = 0;
out:
	cold_sites_destroy(&fresh);
	cold_sites_destroy(&f.sites);
	return result;
}
