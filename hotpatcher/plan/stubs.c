/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers and stubs of functions.
 *
 * Once a module has been patched, its stubs keep their places for the life of the process
 * (stub_layout.h, and the module's entry in the area). So a second session writes the same bytes
 * over the same stub, and a thread that is still in the stub from the first session notices
 * nothing. A stub is written before any site jumps to it. Stubs are never removed.
 */
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "common/trace/trace_format.h"
#include "hotpatcher/plan/plan.h"
#include "hotpatcher/plan/stub_layout.h"
#include "hotpatcher/plan/stub_pools.h"
#include "hotpatcher/plan/stub_writer.h"
#include "hotpatcher/plan/window/area_window.h"
#include "hotpatcher/process/pagemap.h"

static struct ip_area_module *find_entry(const struct ip_area *area, const struct ip_module *module)
{
	uint32_t n = area->header->nmodules;

	for (uint32_t i = 0; i < n && i < IP_AREA_MODULES; i++) {
		struct ip_area_module *m = &area->modules[i];

		if (m->load_bias == module->load_bias && m->plt == module->plt &&
		    m->build_id_size == module->elf->build_id_size &&
		    !memcmp(m->build_id, module->elf->build_id, module->elf->build_id_size))
			return m;
	}
	return NULL;
}

uint32_t ip_plan_first_number(const struct ip_area *area, const struct ip_module *module)
{
	const struct ip_area_module *entry = find_entry(area, module);
	uint32_t first = entry ? __atomic_load_n(&entry->first_number, __ATOMIC_RELAXED) : 0;
	uint64_t numbers =
		module->list ? (uint64_t)IP_NUMBERS_PER_FUNCTION * module->list->header->nfunctions
			     : 0;

	/* the first number is refused if any number of the module would be too large */
	return first + numbers > IP_NUMBER_MAX ? 0 : first;
}

bool ip_area_has_stubs(const struct ip_area *area, uint64_t start)
{
	for (uint32_t i = 0; i < IP_AREA_MODULES; i++)
		if (area->modules[i].build_id_size && area->modules[i].load_bias == start)
			return true;
	return false;
}

/*
 * If a library was unloaded and is loaded again at another address, it takes over its former entry,
 * with numbers and stubs. Otherwise a program that loads and unloads libraries for days would use
 * up all entries. The stubs that are written then differ from the old ones only if they are of form
 * JUMP, which jump back into the module, or PLT, which jump through its slots. No thread can be in
 * one of those stubs: a thread in such a stub is still in a function of the library, or calls from
 * one, and the library must not be unloaded until that function returns.
 */
static struct ip_area_module *take_over_entry(struct ip_area *area, const struct ip_target *target,
					      const struct ip_module *module, uint64_t reach)
{
	uint32_t n = __atomic_load_n(&area->header->nmodules, __ATOMIC_RELAXED);
	uint8_t id[IP_BUILD_ID_MAX];

	for (uint32_t i = 0; i < n && i < IP_AREA_MODULES; i++) {
		struct ip_area_module *m = &area->modules[i];
		uint32_t pool = __atomic_load_n(&m->pool, __ATOMIC_RELAXED);
		uint64_t bias = __atomic_load_n(&m->load_bias, __ATOMIC_RELAXED);

		if (pool >= IP_POOLS || m->plt != module->plt ||
		    m->nfunctions != module->list->header->nfunctions ||
		    m->build_id_size != module->elf->build_id_size ||
		    memcmp(m->build_id, module->elf->build_id, module->elf->build_id_size) ||
		    !ip_stub_pools_reaches(module, target->anchor.pools[pool].address,
					   target->anchor.pools[pool].size, reach))
			continue;
		if (ip_modules_build_id_at(target, bias, bias, id) == module->elf->build_id_size &&
		    !memcmp(id, m->build_id, module->elf->build_id_size))
			continue; /* another copy is still mapped there */
		if (area->elsewhere && area->elsewhere(area->elsewhere_data, target, m))
			continue; /* or in another process */
		m->load_bias = module->load_bias;
		return m;
	}
	return NULL;
}

/* How much of a pool is used. A forked process with a new area (hotpatcher/inject/area_renew.h) has
 * its parent's pools, and may have its parent's stubs: a thread that is still in one must find it
 * as it was. So its stubs begin behind the last page in which there is something (no stub crosses a
 * page). *ret: bytes. 0, or -1 with an error. */
static int pool_used(const struct ip_area *area, const struct ip_target *target, unsigned pool,
		     uint64_t *ret)
{
	const uint64_t start = target->anchor.pools[pool].address,
		       size = target->anchor.pools[pool].size;
	uint64_t end;

	*ret = __atomic_load_n(&area->header->stubs_used[pool], __ATOMIC_RELAXED);
	if (*ret || !__atomic_load_n(&area->header->renewed, __ATOMIC_RELAXED) || !size)
		return 0;
	/* it is the target's word: no runtime has a larger pool, or one that begins in a page */
	if (start % 4096 || size % 4096 || size > IP_POOL_SIZE_MAX)
		return ip_error("pid %d: the runtime's memory is damaged (pools)", target->pid);
	if (ip_pagemap_filled_end(target, start, size, &end) < 0)
		return -1;
	*ret = end - start;
	return 0;
}

/* Takes room in one of the pools. 1: *m has it; 0: none has room within
 * reach; -1 with an error. */
static int take_from_pool(struct ip_area *area, const struct ip_target *target,
			  const struct ip_module *module, uint64_t size, uint64_t reach,
			  struct ip_area_module *m)
{
	const struct ip_rt_anchor *anchor = &target->anchor;

	for (unsigned p = 0; p < IP_POOLS; p++) {
		uint64_t used;

		if (pool_used(area, target, p, &used) < 0)
			return -1;
		if (used > anchor->pools[p].size)
			continue;
		used = used > IP_POOL_HEAD ? used : IP_POOL_HEAD;
		used = (used + IP_STUB_ALIGN - 1) & ~(uint64_t)(IP_STUB_ALIGN - 1);
		if (!anchor->pools[p].size || used > anchor->pools[p].size ||
		    size > anchor->pools[p].size - used ||
		    !ip_stub_pools_reaches(module, anchor->pools[p].address, anchor->pools[p].size,
					   reach))
			continue;
		m->stubs = anchor->pools[p].address + used;
		m->pool = p;
		area->header->stubs_used[p] = used + size;
		return 1;
	}
	return 0;
}

/* Takes the room that a module brings along. Its stubs of a list with the functions of the PLT have
 * the second half of it, and those of the list without them the first half: these are fewer, so
 * that they fit where the others do. False: the room is too small. */
static bool take_own_room(const struct ip_module *module, uint64_t size, struct ip_area_module *m)
{
	const uint64_t room = module->room_size;
	const uint64_t at = module->plt ? room / 2 : IP_POOL_HEAD;

	if (room < IP_POOL_HEAD || at < IP_POOL_HEAD || size > room - at ||
	    (module->plt && size > room / 2 - IP_POOL_HEAD))
		return false;
	m->stubs = module->room + at;
	m->pool = IP_POOL_OWN;
	return true;
}

static int new_entry(struct ip_area *area, struct ip_target *target, const struct ip_module *module,
		     const struct ip_arch *arch, uint64_t size, struct ip_area_module **ret)
{
	struct ip_area_header *h = area->header;
	uint32_t nfunctions = module->list->header->nfunctions;
	/* read once: the target may change it */
	uint32_t nmodules = __atomic_load_n(&h->nmodules, __ATOMIC_RELAXED);
	uint64_t first = 1;
	struct ip_area_module *m;
	int found;

	if (nmodules >= IP_AREA_MODULES)
		return ip_error("pid %d: more than %u modules have been patched: restart it",
				target->pid, IP_AREA_MODULES);
	for (uint32_t i = 0; i < nmodules; i++) {
		uint64_t end = area->modules[i].first_number +
			       (uint64_t)IP_NUMBERS_PER_FUNCTION * area->modules[i].nfunctions;

		first = end > first ? end : first;
	}
	if (first + (uint64_t)IP_NUMBERS_PER_FUNCTION * nfunctions > IP_NUMBER_MAX)
		return ip_error("%s: too many functions: a process has numbers for %u",
				module->path, IP_NUMBER_MAX / IP_NUMBERS_PER_FUNCTION);
	m = &area->modules[nmodules];
	*m = (struct ip_area_module){.load_bias = module->load_bias,
				     .first_number = first,
				     .nfunctions = nfunctions,
				     .plt = module->plt,
				     .build_id_size = module->elf->build_id_size};
	memcpy(m->build_id, module->elf->build_id, module->elf->build_id_size);
	/* The room that a module brings along is not used if the module may be unloaded: a moment
	 * later it may be other memory. */
	if (!module->may_go &&
	    ip_stub_pools_reaches(module, module->room, module->room_size, arch->reach) &&
	    take_own_room(module, size, m)) {
		found = 1;
	} else {
		found = take_from_pool(area, target, module, size, arch->reach, m);
		if (!found && ip_stub_pools_add(target, module, size, arch->reach) < 0)
			found = -1;
		else if (!found)
			found = take_from_pool(area, target, module, size, arch->reach, m);
		if (!found)
			ip_error("%s: no room for its stubs within a call's reach of %#lx..%#lx",
				 module->path, module->start, module->end);
	}
	if (found <= 0) {
		m->build_id_size = 0;
		return -1;
	}
	__atomic_store_n(&h->nmodules, nmodules + 1, __ATOMIC_RELEASE);
	*ret = m;
	return 0;
}

static uint64_t pool_address(const struct ip_rt_anchor *anchor, const struct ip_module *module,
			     const struct ip_area_module *m)
{
	return m->pool == IP_POOL_OWN ? module->room : anchor->pools[m->pool].address;
}

static void copy_entry(struct ip_area_module *to, const struct ip_area_module *from)
{
	memcpy(to, from, sizeof(*to));
	/* the compiler must not read any of it from the area again */
	__asm__ volatile("" : : "r"(to) : "memory");
}

/* Returns whether the stubs lie in the pool that their entry names. If not, the target has
 * overwritten the area. */
static bool is_in_pool(const struct ip_rt_anchor *anchor, const struct ip_module *module,
		       const struct ip_area_module *m, uint64_t size)
{
	uint64_t start, room;

	if (m->pool > IP_POOL_OWN || m->stubs % IP_STUB_ALIGN)
		return false;
	start = pool_address(anchor, module, m);
	room = m->pool == IP_POOL_OWN ? module->room_size : anchor->pools[m->pool].size;
	return m->stubs >= start + IP_POOL_HEAD && m->stubs - start <= room &&
	       size <= room - (m->stubs - start);
}

static int write_pool_head(const struct ip_target *target, uint64_t pool)
{
	const struct ip_rt_anchor *a = &target->anchor;
	uint64_t head[IP_POOL_HEAD / 8] = {0};

	for (unsigned kind = 1; kind <= IP_HOOK_KINDS; kind++) {
		for (unsigned regs = 0; regs < IP_HOOK_REGS; regs++)
			head[IP_POOL_SLOT(kind, regs) / 8] = a->hooks[kind - 1][regs];
		head[IP_POOL_JUMP_SLOT(kind) / 8] = a->jump_hooks[kind - 1];
		for (unsigned jump = 0; jump < 2; jump++)
			head[IP_POOL_PAYLOAD_SLOT(kind, jump) / 8] =
				a->payload_hooks[kind - 1][jump];
	}
	for (unsigned values = 0; values < 2; values++)
		head[IP_POOL_RETURN_SLOT(values) / 8] = a->return_hooks[values];
	head[IP_POOL_TAIL_SLOT / 8] = a->tail_hook;
	head[IP_POOL_PLT_SLOT / 8] = a->plt_hook;
	return ip_target_write(target, pool, head, sizeof(head));
}

/* Gives the module's payload stubs their numbers, which they keep. In this session the numbers have
 * no meaning at first. */
static int number_payloads(struct ip_area *area, const struct ip_area_module *m,
			   const struct ip_stub_layout *map, uint32_t *ret_first)
{
	uint32_t *first = &area->firsts[m - area->modules];
	const uint32_t said = __atomic_load_n(&area->header->npayloads, __ATOMIC_RELAXED),
		       used = said ? said : 1;

	if (!__atomic_load_n(first, __ATOMIC_RELAXED)) {
		if (used > IP_AREA_PAYLOADS || map->npayloads > IP_AREA_PAYLOADS - used)
			return ip_error(
				"too many functions to record values of: restart the process");
		*first = used;
		area->header->npayloads = used + map->npayloads;
	}
	/* read once: the target may change it */
	*ret_first = __atomic_load_n(first, __ATOMIC_RELAXED);
	if (!*ret_first || *ret_first > IP_AREA_PAYLOADS ||
	    map->npayloads > IP_AREA_PAYLOADS - *ret_first)
		return ip_error("the runtime's memory is damaged (payload numbers)");
	if (ip_area_reserve_values(area, *ret_first + map->npayloads, 0) < 0)
		return -1;
	/* only once per session: what this session has bound before must go on recording */
	if (!area->bound[m - area->modules])
		memset(area->payloads + *ret_first, 0, map->npayloads * sizeof(*area->payloads));
	area->bound[m - area->modules] = true;
	return 0;
}

/* Gives the changes [first, last), which all belong to one module, their numbers, and the writer
 * the places of their stubs. */
static int bind_module(struct ip_plan *plan, struct ip_target *target, struct ip_area *area,
		       size_t first, size_t last, struct ip_stub_writer *writer)
{
	const struct ip_arch *arch = target->arch;
	const struct ip_module *module = plan->functions[plan->function_of[first]].module;
	uint32_t nfunctions = module->list->header->nfunctions;
	struct ip_area_module *entry = find_entry(area, module), is, *m = &is;
	struct ip_stub_batch batch = {
		.first = first, .last = last, .first_program = area->nprograms - plan->nprograms};
	int ret = -1;

	if (ip_stub_layout_make(module->list, arch, plan->program_of, &batch.layout) < 0)
		return ip_error_prefix("%s", module->path);
	if (!entry && module->may_go)
		entry = take_over_entry(area, target, module, arch->reach);
	if (!entry && new_entry(area, target, module, arch, batch.layout.size, &entry) < 0)
		goto out;
	/* the target may change the entry, so the checked copy is the one that is used */
	copy_entry(&is, entry);
	if (!is_in_pool(&target->anchor, module, m, batch.layout.size) ||
	    m->nfunctions != nfunctions || !m->first_number ||
	    m->first_number + (uint64_t)IP_NUMBERS_PER_FUNCTION * nfunctions > IP_NUMBER_MAX) {
		ip_error("pid %d: the runtime's memory is damaged (stubs of %s)", target->pid,
			 module->path);
		goto out;
	}
	batch.stubs = m->stubs;
	batch.pool = pool_address(&target->anchor, module, m);
	if (write_pool_head(target, batch.pool) < 0)
		goto out;
	for (size_t i = 0; i < plan->nfunctions; i++) {
		struct ip_plan_function *f = &plan->functions[i];

		if (f->module == module)
			f->number = m->first_number + IP_NUMBERS_PER_FUNCTION * f->function +
				    f->inlined;
	}
	if (plan->program_of &&
	    number_payloads(area, entry, &batch.layout, &batch.first_payload) < 0) {
		ip_error_prefix("%s", module->path);
		goto out;
	}
	ret = ip_stub_writer_add(writer, &batch);
out:
	ip_stub_layout_clear(&batch.layout);
	return ret;
}

static int bind_modules(struct ip_plan *plan, struct ip_target *target, struct ip_area *area,
			struct ip_stub_writer *writer)
{
	size_t last;

	/* before any stub leads to a hook that reads them (runtime/area_window.c) */
	if (plan->program_of && ip_area_window_fit(target, area, 0, true) < 0)
		return -1;
	if (ip_area_reserve_values(area, 0, plan->nprograms) < 0)
		return -1;
	for (size_t i = 0; i < plan->nprograms; i++)
		ip_area_add_program(area, &plan->programs[i]);
	/* changes are ordered by module (ip_plan_select) */
	for (size_t first = 0; first < plan->nchanges; first = last) {
		uint32_t module = plan->functions[plan->function_of[first]].module_index;

		for (last = first; last < plan->nchanges; last++)
			if (plan->functions[plan->function_of[last]].module_index != module)
				break;
		if (bind_module(plan, target, area, first, last, writer) < 0)
			return -1;
	}
	return 0;
}

int ip_plan_bind_begin(struct ip_plan *plan, struct ip_target *target, struct ip_area *area,
		       struct ip_stub_writer **ret)
{
	*ret = ip_stub_writer_create(plan, target, area->payloads);
	if (!*ret)
		return -1;
	if (bind_modules(plan, target, area, *ret) < 0) {
		ip_stub_writer_destroy(ip_steal_ptr(*ret));
		return -1;
	}
	ip_stub_writer_start(*ret);
	return 0;
}

int ip_plan_bind_end(struct ip_stub_writer *writer)
{
	int ret = ip_stub_writer_finish(writer);

	ip_stub_writer_destroy(writer);
	return ret;
}

int ip_plan_bind(struct ip_plan *plan, struct ip_target *target, struct ip_area *area)
{
	struct ip_stub_writer *writer;

	return ip_plan_bind_begin(plan, target, area, &writer) < 0 ? -1 : ip_plan_bind_end(writer);
}
