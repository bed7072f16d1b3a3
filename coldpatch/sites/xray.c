// SPDX-License-Identifier: Apache-2.0
/*
 * XRay sleds. clang makes them for -fxray-instrument at entries, returns and tail jumps. Section
 * xray_instr_map lists them in records of 32 bytes: address, function, kind, always, version. From
 * version 2 on (clang 12) both addresses are relative to their own places, so there is nothing to
 * relocate.
 *
 * iprobe-cc asks clang for sleds at returns and tail jumps only. At entries it asks for a call of
 * __fentry__, since XRay does not know no_instrument_function. If a function has no such call, its
 * exits are left alone.
 *
 * A sled is a jump over NOPs, or a return in front of NOPs. It is costly where it runs often, and
 * it is not a site, which is one NOP. It becomes a site on disk. If XRay's own runtime is linked
 * in, it may still patch a sled, as long as no other tool does: it overwrites the whole sled. Then
 * the hotpatcher refuses the site, because its bytes are not the idle form.
 */
#include "coldpatch/sites/arch.h"
#include "coldpatch/sites/find.h"
#include "common/cleanup.h"
#include "common/error.h"

#include <stdlib.h>
#include <string.h>

#define MAP_SECTION "xray_instr_map"
#define RECORD	    32
#define RUNTIME	    "__xray_init"

enum sled_kind {
	SLED_ENTRY = 0,
	SLED_EXIT = 1,
	SLED_TAIL = 2,
	SLED_ENTRY_WITH_ARGUMENT = 3, /* it logs the first argument as well */
	/* this and the kind before it are events that a program makes itself */
	SLED_LAST = 5,
};

static int refuse(const struct cold_module *m, uint64_t address, const char *why)
{
	return ip_error("%s: its XRay map names 0x%lx, %s; link it again from clean objects",
			m->path, (unsigned long)address, why);
}

static int read_record(const struct cold_module *m, const struct cold_arch *arch, uint64_t at,
		       const uint8_t *record, struct cold_sites *sites)
{
	struct cold_site site = {.naming = COLD_NAME_BY_SYMBOL};
	const struct cold_section *s;
	uint64_t to, function;
	uint8_t kind = record[16], version = record[18];

	memcpy(&to, record, 8);
	memcpy(&function, record + 8, 8);
	if (!to && !function)
		return 0; /* its code was discarded */
	if (version < 2 || kind > SLED_LAST)
		return ip_error("%s: its XRay map has a record of kind %u, version %u: compile it "
				"by clang 12 or newer",
				m->path, kind, version);
	if (kind > SLED_ENTRY_WITH_ARGUMENT)
		return 0;
	site.address = at + to;
	s = cold_module_section(m, site.address, 1);
	if (!s || !s->exec || s->plt) {
		/* If code was discarded, some linkers put 0 there, others leave the rest of the
		 * difference. */
		s = cold_module_section(m, at + 8 + function, 1);
		return s && s->exec ? refuse(m, site.address, "which is not in its code") : 0;
	}
	if (!arch->sled(s->data + (site.address - s->address),
			s->size - (site.address - s->address),
			kind == SLED_EXIT || kind == SLED_TAIL, &site))
		return refuse(m, site.address, "where there is no sled as clang makes them");
	site.argument = at + 8 + function;
	site.range = cold_module_range(m, site.address);
	site.depth = site.kind == IP_PROBE_ENTRY ? 0 : 1;
	/* the site is in front of the function's first push */
	site.frame = site.kind == IP_PROBE_ENTRY ? 8 : 0;
	return cold_sites_add(sites, site);
}

/* --- entries that are calls */

static int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static bool contains(const uint64_t *starts, size_t n, uint64_t start)
{
	return n && bsearch(&start, starts, n, sizeof(*starts), compare_u64);
}

/* Returns the address of the call that is the first instruction of the function at start, and its
 * target; 0: there is no such call. */
static uint64_t first_call(const struct cold_module *m, const struct cold_arch *arch,
			   uint64_t start, uint64_t *ret_target)
{
	const struct cold_section *s = cold_module_section(m, start, 1);
	const uint8_t *p;
	size_t left, mark;

	if (!s || !s->exec || s->plt)
		return 0;
	p = s->data + (start - s->address);
	left = s->size - (start - s->address);
	mark = arch->endbr(p, left);
	return arch->call(p + mark, left - mark, start + mark, ret_target) ? start + mark : 0;
}

/* Returns 1: it is __fentry__; 0: it is another function; -1: it has no name. */
static int is_fentry(const struct cold_module *m, const struct cold_hooks *hooks, uint64_t target)
{
	const char *name = cold_stub_name(m, hooks, target);
	const struct cold_symbol *s = cold_module_symbol(m, target);

	if (name)
		return !strcmp(name, "__fentry__");
	if (!s)
		return -1;
	for (; s < m->symbols + m->nsymbols && s->address == target; s++)
		if (!strcmp(s->name, "__fentry__"))
			return 1;
	return 0;
}

/*
 * Returns the target of the calls with which functions begin that have only exits, if that target
 * has no name (a static program, stripped). clang lets a function begin with a call only for
 * -mfentry, so all these calls must agree. Returns 0: they do not agree, or the target has a name.
 */
static uint64_t nameless_fentry(const struct cold_module *m, const struct cold_arch *arch,
				const struct cold_hooks *hooks, const uint64_t *functions, size_t n)
{
	uint64_t agreed = 0, target;

	for (size_t i = 0; i < n; i++) {
		if (!first_call(m, arch, functions[i], &target))
			continue;
		if (is_fentry(m, hooks, target) >= 0 || (agreed && agreed != target))
			return 0;
		agreed = target;
	}
	return agreed;
}

/* Adds the calls of __fentry__ with which functions begin. */
static int add_calls(const struct cold_module *m, const struct cold_arch *arch,
		     const struct cold_hooks *hooks, uint64_t nameless, struct cold_sites *sites)
{
	for (uint32_t i = 0; i < m->nranges; i++) {
		struct cold_site site = {
			.length = 5,
			.kind = IP_PROBE_ENTRY,
			.regs = IP_REGS_ENTRY,
			.naming = COLD_NAME_BY_SYMBOL,
			.range = i,
			.frame = 8,
			.argument = m->ranges[i].start,
		};
		uint64_t target;

		site.address =
			m->ranges[i].gap ? 0 : first_call(m, arch, m->ranges[i].start, &target);
		if (!site.address || (target != nameless && is_fentry(m, hooks, target) != 1))
			continue;
		if (cold_sites_add(sites, site))
			return -1;
	}
	return 0;
}

/* Adds the entries of functions that have only exit sleds. Removes exits without an entry. */
static int complete(const struct cold_module *m, const struct cold_arch *arch,
		    const struct cold_hooks *hooks, struct cold_sites *sites)
{
	_cleanup_free_ uint64_t *with = calloc(sites->n + 1, sizeof(*with)),
				*without = calloc(sites->n + 1, sizeof(*without));
	_cleanup_free_ uint64_t *calls = NULL;
	struct cold_sites found = {0};
	size_t nwith = 0, nwithout = 0, ncalls;

	if (!with || !without)
		return ip_error("out of memory");
	for (size_t i = 0; i < sites->n; i++)
		if (sites->sites[i].kind == IP_PROBE_ENTRY)
			with[nwith++] = sites->sites[i].argument;
	qsort(with, nwith, sizeof(*with), compare_u64);
	for (size_t i = 0; i < sites->n; i++)
		if (!contains(with, nwith, sites->sites[i].argument))
			without[nwithout++] = sites->sites[i].argument;
	if (!nwithout)
		return 0;
	if (add_calls(m, arch, hooks, nameless_fentry(m, arch, hooks, without, nwithout), &found))
		goto fail;
	ncalls = found.n;
	calls = calloc(ncalls + 1, sizeof(*calls));
	if (!calls) {
		ip_error("out of memory");
		goto fail;
	}
	for (size_t i = 0; i < ncalls; i++)
		calls[i] = found.sites[i].argument;
	qsort(calls, ncalls, sizeof(*calls), compare_u64);
	for (size_t i = 0; i < sites->n; i++) {
		struct cold_site *site = &sites->sites[i];

		if (contains(with, nwith, site->argument) ||
		    contains(calls, ncalls, site->argument))
			if (cold_sites_add(&found, *site))
				goto fail;
	}
	cold_sites_destroy(sites);
	*sites = found;
	return 0;
fail:
	cold_sites_destroy(&found);
	return -1;
}

static bool has_runtime(const struct cold_module *m)
{
	for (size_t i = 0; i < m->nsymbols; i++)
		if (!strcmp(m->symbols[i].name, RUNTIME))
			return true;
	return false;
}

int cold_xray_find(struct cold_module *m, struct cold_found *found)
{
	const struct cold_arch *arch = cold_arch_for_machine(m->elf->ehdr.e_machine);
	struct cold_sites sites = {0};
	int result = -1;

	for (size_t i = 0; i < m->nsections; i++) {
		const struct cold_section *s = &m->sections[i];

		if (strcmp(s->name, MAP_SECTION))
			continue;
		if (!arch || !arch->sled || s->size % RECORD) {
			ip_error("%s: its XRay map (section " MAP_SECTION ") cannot be read",
				 m->path);
			goto out;
		}
		for (uint64_t at = 0; at < s->size; at += RECORD)
			if (read_record(m, arch, s->address + at, s->data + at, &sites))
				goto out;
	}
	result = 0;
	if (sites.n && complete(m, arch, &found->hooks, &sites)) {
		result = -1;
		goto out;
	}
	if (!sites.n)
		goto out;
	cold_sites_sort(&sites);
	if (sites.n > found->sites.n)
		found->placement = IP_PLACEMENT_FENTRY;
	found->found_by |= has_runtime(m) ? IP_FOUND_BY_FOREIGN : IP_FOUND_BY_TABLE;
	result = cold_sites_add_once(&found->sites, &sites, m, refuse);
out:
	cold_sites_destroy(&sites);
	return result;
}
