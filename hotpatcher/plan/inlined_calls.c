/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds recorded functions that were inlined as well. See inlined_calls.h.
 */
#include "hotpatcher/plan/inlined_calls.h"

#include <dwarf.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/elf/probe_list.h"
#include "hotpatcher/process/debug_info.h"

#define FUNCTIONS_MAX 64u /* that are looked up */

struct wanted {
	uint64_t address; /* link-time */
	const char *name; /* for the linker */
	bool inlined;
};

static int by_address(const void *a, const void *b)
{
	const struct wanted *x = a, *y = b;

	return x->address < y->address ? -1 : x->address > y->address;
}

/* A function with code of its own that was inlined, too, is an instance of an abstract one, which
 * says so (DWARF 5, 3.3.8). */
static void on_found(void *context, size_t i, struct ip_debug_function *function)
{
	struct wanted *w = (struct wanted *)context + i;
	Dwarf_Attribute attr;
	Dwarf_Die origin;
	Dwarf_Word how;

	if (dwarf_formref_die(dwarf_attr(&function->die, DW_AT_abstract_origin, &attr), &origin) &&
	    dwarf_formudata(dwarf_attr(&origin, DW_AT_inline, &attr), &how) == 0)
		w->inlined |= how == DW_INL_inlined || how == DW_INL_declared_inlined;
}

/* Looks up the functions of one module. */
static void look_up(const struct ip_target *target, const struct ip_module *module,
		    struct wanted *wanted, size_t n)
{
	uint64_t addresses[FUNCTIONS_MAX];
	struct ip_debug_info *info;

	qsort(wanted, n, sizeof(*wanted), by_address);
	for (size_t i = 0; i < n; i++)
		addresses[i] = wanted[i].address;
	if (ip_debug_info_open(module, target->pid, &info, NULL) <= 0)
		return;
	ip_debug_info_find(info, addresses, n, on_found, wanted);
	ip_debug_info_close(info);
}

/* Adds the functions of the plan that are in the module. Returns how many there are. */
static size_t add(const struct ip_plan *plan, const struct ip_module *module, struct wanted *wanted)
{
	size_t n = 0;

	for (size_t i = 0; i < plan->nfunctions && n < FUNCTIONS_MAX; i++) {
		const struct ip_plan_function *f = &plan->functions[i];
		const struct ip_probe_list *list = f->module->list;
		const struct ip_pl_function *function = &list->functions[f->function];

		if (f->module == module && !f->silent && !f->inlined && function->address)
			wanted[n++] =
				(struct wanted){.address = function->address,
						.name = ip_probe_list_string(list, function->name)};
	}
	return n;
}

size_t ip_plan_inlined(const struct ip_target *target, const struct ip_modules *modules,
		       const struct ip_selections *selections, size_t *ret_all, char *name,
		       size_t size)
{
	struct wanted wanted[FUNCTIONS_MAX];
	struct ip_plan plan = {0};
	size_t found = 0;

	*ret_all = 0;
	if (!ip_target_alive(target) || ip_plan_match(target, modules, selections, &plan) < 0)
		return 0;
	for (size_t i = 0; i < modules->n && plan.ndistinct <= FUNCTIONS_MAX; i++) {
		const struct ip_module *module = &modules->items[i];
		size_t n = module->list && module->list->header->placement == IP_PLACEMENT_FENTRY
				   ? add(&plan, module, wanted)
				   : 0;

		if (n)
			look_up(target, module, wanted, n);
		for (size_t k = 0; k < n; k++) {
			if (wanted[k].inlined && !found++)
				snprintf(name, size, "%s", wanted[k].name);
		}
		*ret_all += n;
	}
	ip_plan_clear(&plan);
	return found;
}
