/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the slots and stubs of the hooks. See hooks.h.
 */
#include "coldpatch/sites/hooks.h"

#include "coldpatch/sites/arch.h"
#include "common/array.h"
#include "common/error.h"

#include <stdlib.h>
#include <string.h>

const struct cold_arch *cold_arch_for_machine(uint32_t machine)
{
	static const struct cold_arch *const all[] = {&cold_arch_x86_64, &cold_arch_i386};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (all[i]->machine == machine)
			return all[i];
	return NULL;
}

const struct cold_module_code *cold_arch_module_code(uint32_t machine)
{
	const struct cold_arch *arch = cold_arch_for_machine(machine);

	return arch ? &arch->module : NULL;
}

static int add_place(const struct cold_module *m, struct cold_hooks *h, uint64_t address,
		     enum cold_hook hook, bool slot)
{
	if (cold_hook_at(h, address, slot) == hook)
		return 0;
	if (h->n == COLD_HOOKS_MAX)
		return ip_error("%s: more than %d stubs lead to the instrumentation functions",
				m->path, COLD_HOOKS_MAX);
	if (!h->n || address < h->lowest)
		h->lowest = address;
	if (!h->n || address > h->highest)
		h->highest = address;
	h->places[h->n++] =
		(struct cold_hook_place){.address = address, .hook = hook, .slot = slot};
	return 0;
}

static int find_slots(const struct cold_module *m, const struct cold_arch *arch,
		      struct cold_hooks *h)
{
	for (size_t i = 0; i < m->nrelocs; i++) {
		const struct cold_reloc *r = &m->relocs[i];
		enum cold_hook hook = r->symbol ? cold_hook_named(r->symbol) : COLD_HOOK_NONE;

		if (!hook || !r->type)
			continue;
		if (!arch->reloc_is_slot(r->type) || r->addend)
			return ip_error("%s: the data at 0x%lx holds the address of %s: calls "
					"through it cannot be turned into a NOP",
					m->path, (unsigned long)r->address, r->symbol);
		/* i386: in position-dependent code a plain call looks the same (R_386_PC32), and
		 * lld treats it as an address that is taken. */
		if (!r->defined && r->value && m->bits == 64)
			return ip_error("%s: the code takes the address of %s (0x%lx): calls "
					"through it cannot be turned into a NOP; for "
					"-mcmodel=large compile with gcc, or in placement fentry",
					m->path, r->symbol, (unsigned long)r->value);
		if (add_place(m, h, r->address, hook, true))
			return -1;
	}
	return 0;
}

static int find_definitions(const struct cold_module *m, const struct cold_arch *arch,
			    struct cold_hooks *h)
{
	uint64_t addresses[3] = {0};

	h->empty = true;

	for (size_t i = 0; i < m->nsymbols; i++) {
		enum cold_hook hook = cold_hook_named(m->symbols[i].name);
		const struct cold_section *s;

		if (!hook)
			continue;
		s = cold_module_section(m, m->symbols[i].address, 1);
		if (!s || !arch->is_empty_function(s->data + (m->symbols[i].address - s->address),
						   s->size - (m->symbols[i].address - s->address)))
			h->empty = false;
		h->defined = hook == COLD_HOOK_IS_ENTER ? COLD_HOOK_ENTER : COLD_HOOK_EXIT;
		h->defined_address = addresses[hook] = m->symbols[i].address;
		if (add_place(m, h, m->symbols[i].address, hook, false))
			return -1;
	}
	h->shared_address = h->defined && addresses[1] == addresses[2];
	return 0;
}

static int add_stub(struct cold_hooks *h, uint64_t address, uint64_t slot)
{
	if (ip_array_grow(&h->stubs, h->nstubs, sizeof(*h->stubs)))
		return -1;
	h->stubs[h->nstubs++] = (struct cold_stub){.address = address, .slot = slot};
	return 0;
}

/* Finds all stubs. Every address where a stub can be entered counts: in front of its endbr64, and
 * behind it. */
static int find_stubs(const struct cold_module *m, const struct cold_arch *arch,
		      struct cold_hooks *h)
{
	for (size_t i = 0; i < m->nsections; i++) {
		const struct cold_section *s = &m->sections[i];

		if (!s->plt)
			continue;
		for (uint64_t at = 0; at < s->size; at++) {
			enum cold_hook hook;
			uint64_t slot;

			if (!arch->stub(m, s->data + at, s->size - at, s->address + at, &slot))
				continue;
			if (add_stub(h, s->address + at, slot))
				return -1;
			hook = cold_hook_at(h, slot, true);
			if (hook && add_place(m, h, s->address + at, hook, false))
				return -1;
		}
	}
	return 0;
}

int cold_hooks_find(const struct cold_module *m, struct cold_hooks *ret)
{
	const struct cold_arch *arch = cold_arch_for_machine(m->elf->ehdr.e_machine);

	memset(ret, 0, sizeof(*ret));
	if (!arch)
		return ip_error("%s: ELF for machine %u, which coldpatch does not know", m->path,
				m->elf->ehdr.e_machine);
	if (find_slots(m, arch, ret) || find_definitions(m, arch, ret) ||
	    find_stubs(m, arch, ret)) {
		cold_hooks_destroy(ret);
		return -1;
	}
	return 0;
}

void cold_hooks_destroy(struct cold_hooks *h)
{
	free(h->stubs);
	memset(h, 0, sizeof(*h));
}

enum cold_hook cold_hook_at(const struct cold_hooks *h, uint64_t address, bool slot)
{
	if (address < h->lowest || address > h->highest)
		return COLD_HOOK_NONE;
	for (size_t i = 0; i < h->n; i++)
		if (h->places[i].address == address && h->places[i].slot == slot)
			return h->places[i].hook;
	return COLD_HOOK_NONE;
}

const char *cold_stub_name(const struct cold_module *m, const struct cold_hooks *h,
			   uint64_t address)
{
	size_t lo = 0, hi = h->nstubs;

	/* the stubs were found in ascending order, section by section */
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (h->stubs[mid].address < address)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo < h->nstubs && h->stubs[lo].address == address) {
		const struct cold_reloc *r = cold_module_reloc(m, h->stubs[lo].slot);

		return r ? r->symbol : NULL;
	}
	return NULL;
}
