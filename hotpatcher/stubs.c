/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers and stubs.
 *
 * Each (number, kind) of a module that was ever patched has one stub, at a place that stays the same for the life
 * of the process (the module's entry in the area). So a second session writes the same bytes over the same
 * stub, and a thread that is still on its way through it from the first one notices nothing. Stubs are
 * written before any site jumps to them; they are never taken away.
 *
 * A pool starts with the hooks' addresses, for stubs that a direct jump does not carry to the runtime.
 */
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/trace_format.h"
#include "hotpatcher/plan.h"

#define POOL_HEAD	   64u
#define STUBS_PER_FUNCTION (IP_NUMBERS_PER_FUNCTION * IP_STUBS_PER_NUMBER)

static uint64_t hook_of(const struct ip_rt_anchor *anchor, unsigned kind)
{
	return kind == IP_PROBE_ENTRY  ? anchor->hook_entry
	       : kind == IP_PROBE_EXIT ? anchor->hook_exit
				       : anchor->hook_tail_exit;
}

static struct ip_area_module *find_entry(const struct ip_area *area, const struct ip_module *module)
{
	uint32_t n = area->header->nmodules;

	for (uint32_t i = 0; i < n && i < IP_AREA_MODULES; i++) {
		struct ip_area_module *m = &area->modules[i];

		if (m->load_bias == module->load_bias && m->build_id_size == module->elf->build_id_size &&
		    !memcmp(m->build_id, module->elf->build_id, module->elf->build_id_size))
			return m;
	}
	return NULL;
}

uint32_t ip_plan_first_number(const struct ip_area *area, const struct ip_module *module)
{
	const struct ip_area_module *entry = find_entry(area, module);

	return entry ? entry->first_number : 0;
}

bool ip_area_has_stubs(const struct ip_area *area, uint64_t start)
{
	for (uint32_t i = 0; i < IP_AREA_MODULES; i++)
		if (area->modules[i].build_id_size && area->modules[i].load_bias == start)
			return true;
	return false;
}

static uint64_t distance(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

/* Whether every byte of the module reaches every byte of [start, start + size). */
static bool reaches(const struct ip_module *module, uint64_t start, uint64_t size, uint64_t reach)
{
	return distance(module->start, start + size) < reach && distance(module->end, start) < reach &&
	       distance(module->start, start) < reach && distance(module->end, start + size) < reach;
}

static int new_entry(struct ip_area *area, const struct ip_target *target, const struct ip_module *module,
		     const struct ip_arch *arch, struct ip_area_module **ret)
{
	const struct ip_rt_anchor *anchor = &target->anchor;
	struct ip_area_header *h = area->header;
	uint32_t nfunctions = module->list->header->nfunctions;
	uint64_t size = (uint64_t)nfunctions * STUBS_PER_FUNCTION * arch->stub_size;
	uint32_t nmodules =
		__atomic_load_n(&h->nmodules, __ATOMIC_RELAXED); /* once: the target may change it */
	uint64_t first = 1;
	struct ip_area_module *m;

	if (nmodules >= IP_AREA_MODULES)
		return ip_error("pid %d: more than %u modules have been patched: restart it", target->pid,
				IP_AREA_MODULES);
	for (uint32_t i = 0; i < nmodules; i++) {
		uint64_t end = area->modules[i].first_number +
			       (uint64_t)IP_NUMBERS_PER_FUNCTION * area->modules[i].nfunctions;

		first = end > first ? end : first;
	}
	if (first + (uint64_t)IP_NUMBERS_PER_FUNCTION * nfunctions > IP_NUMBER_MAX)
		return ip_error("%s: too many functions: a process has numbers for %u", module->path,
				IP_NUMBER_MAX / IP_NUMBERS_PER_FUNCTION);
	for (unsigned p = 0; p < IP_POOLS; p++) {
		uint64_t used = h->stubs_used[p] > POOL_HEAD ? h->stubs_used[p] : POOL_HEAD;

		if (!anchor->pools[p].size || used > anchor->pools[p].size ||
		    size > anchor->pools[p].size - used ||
		    !reaches(module, anchor->pools[p].address, anchor->pools[p].size, arch->reach))
			continue;
		m = &area->modules[nmodules];
		*m = (struct ip_area_module){.load_bias = module->load_bias,
					     .stubs = anchor->pools[p].address + used,
					     .first_number = first,
					     .nfunctions = nfunctions,
					     .build_id_size = module->elf->build_id_size};
		memcpy(m->build_id, module->elf->build_id, module->elf->build_id_size);
		h->stubs_used[p] = used + size;
		__atomic_store_n(&h->nmodules, nmodules + 1, __ATOMIC_RELEASE);
		*ret = m;
		return 0;
	}
	return ip_error("%s: no room for its stubs within a call's reach of %#lx..%#lx", module->path,
			module->start, module->end);
}

/* The pool that [address, address + size) lies in; -1: none, the area was scribbled over. */
static int pool_of(const struct ip_rt_anchor *anchor, uint64_t address, uint64_t size)
{
	for (unsigned p = 0; p < IP_POOLS; p++)
		if (address >= anchor->pools[p].address + POOL_HEAD && size <= anchor->pools[p].size &&
		    address - anchor->pools[p].address <= anchor->pools[p].size - size)
			return p;
	return -1;
}

static int write_pool_head(const struct ip_target *target, int pool)
{
	const struct ip_rt_anchor *a = &target->anchor;
	const uint64_t head[3] = {a->hook_entry, a->hook_exit, a->hook_tail_exit};

	return ip_target_write(target, a->pools[pool].address, head, sizeof(head));
}

struct writer {
	const struct ip_target *target;
	uint8_t buffer[65536];
	uint64_t address; /* of buffer[0] */
	size_t used;
};

static int writer_flush(struct writer *w)
{
	int ret = w->used ? ip_target_write(w->target, w->address, w->buffer, w->used) : 0;

	w->used = 0;
	return ret;
}

/* All stubs of one number, at their fixed place. */
static int write_stubs(struct writer *w, const struct ip_arch *arch, const struct ip_area_module *m, int pool,
		       uint32_t number)
{
	const struct ip_rt_anchor *anchor = &w->target->anchor;
	uint64_t address =
		m->stubs + IP_STUB_INDEX(number, m->first_number, IP_PROBE_ENTRY) * arch->stub_size;
	size_t size = IP_STUBS_PER_NUMBER * arch->stub_size;

	if (w->used && (w->address + w->used != address || w->used + size > sizeof(w->buffer)) &&
	    writer_flush(w) < 0)
		return -1;
	if (!w->used)
		w->address = address;
	for (unsigned kind = IP_PROBE_ENTRY; kind <= IP_PROBE_TAIL_EXIT; kind++) {
		if (arch->stub(address, hook_of(anchor, kind), anchor->pools[pool].address + 8 * (kind - 1),
			       number, w->buffer + w->used) < 0)
			return -1;
		w->used += arch->stub_size;
		address += arch->stub_size;
	}
	return 0;
}

static int by_function(const void *a, const void *b)
{
	const struct ip_plan_function *x = *(struct ip_plan_function *const *)a;
	const struct ip_plan_function *y = *(struct ip_plan_function *const *)b;

	if (x->module_index != y->module_index)
		return x->module_index < y->module_index ? -1 : 1;
	if (x->function != y->function)
		return x->function < y->function ? -1 : 1;
	return x->inlined - y->inlined;
}

static int bind_functions(struct ip_plan *plan, struct ip_target *target, struct ip_area *area,
			  const struct ip_arch *arch, struct ip_plan_function **order, struct writer *w)
{
	struct ip_area_module *m = NULL;
	int pool = -1;

	for (size_t i = 0; i < plan->nfunctions; i++)
		order[i] = &plan->functions[i];
	qsort(order, plan->nfunctions, sizeof(*order), by_function);
	for (size_t i = 0; i < plan->nfunctions; i++) {
		struct ip_plan_function *f = order[i];

		if (!i || f->module_index != order[i - 1]->module_index) {
			uint32_t nfunctions = f->module->list->header->nfunctions;

			m = find_entry(area, f->module);
			if (!m && new_entry(area, target, f->module, arch, &m) < 0)
				return -1;
			pool = pool_of(&target->anchor, m->stubs,
				       (uint64_t)nfunctions * STUBS_PER_FUNCTION * arch->stub_size);
			if (pool < 0 || m->nfunctions != nfunctions || !m->first_number ||
			    m->first_number + (uint64_t)IP_NUMBERS_PER_FUNCTION * nfunctions > IP_NUMBER_MAX)
				return ip_error("pid %d: the runtime's memory is damaged (stubs of %s)",
						target->pid, f->module->path);
			if (write_pool_head(target, pool) < 0)
				return -1;
		}
		f->number = m->first_number + IP_NUMBERS_PER_FUNCTION * f->function + f->inlined;
		if (write_stubs(w, arch, m, pool, f->number) < 0)
			return -1;
	}
	return writer_flush(w);
}

int ip_plan_bind(struct ip_plan *plan, struct ip_target *target, struct ip_area *area)
{
	const struct ip_arch *arch = ip_arch_for_machine(EM_X86_64);
	struct ip_plan_function **order = calloc(plan->nfunctions, sizeof(*order));
	struct writer *w = calloc(1, sizeof(*w));
	int ret = -1;

	if (!order || !w) {
		ip_error("out of memory");
		goto out;
	}
	w->target = target;
	if (bind_functions(plan, target, area, arch, order, w) < 0)
		goto out;
	for (size_t i = 0; i < plan->nchanges; i++) {
		struct ip_change *c = &plan->changes[i];
		const struct ip_plan_function *f = &plan->functions[plan->function_of[i]];
		const struct ip_area_module *m = find_entry(area, f->module);
		uint64_t stub;

		if (!m) {
			ip_error("pid %d: the runtime's memory is damaged (module table)", target->pid);
			goto out;
		}
		stub = m->stubs + IP_STUB_INDEX(f->number, m->first_number, c->kind) * arch->stub_size;
		if (arch->live(c->kind, c->length, c->address, stub, c->new_bytes) < 0)
			goto out;
	}
	ret = 0;
out:
	free(order);
	free(w);
	return ret;
}
