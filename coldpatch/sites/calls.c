/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Placement instrument: the calls of __cyg_profile_func_enter and __cyg_profile_func_exit in a
 * linked module. Relocations that the linker kept name the calls exactly. Without them the code is
 * decoded to find the calls. The code is decoded in any case, to find the functions' names.
 */
#include "coldpatch/sites/arch.h"
#include "coldpatch/sites/attribute.h"
#include "coldpatch/sites/find.h"
#include "common/error.h"

#include <stdlib.h>

void cold_found_destroy(struct cold_found *found)
{
	cold_sites_destroy(&found->sites);
	cold_hooks_destroy(&found->hooks);
	for (size_t i = 0; i < found->ntexts; i++)
		free(found->texts[i]);
	free(found->texts);
}

static int refuse_definition(const struct cold_module *m, const struct cold_hooks *hooks)
{
	if (hooks->shared_address)
		return ip_error(
			"%s: both instrumentation functions are one at 0x%lx, as in a static link "
			"with libc: its entries cannot be told from its exits; link it dynamically",
			m->path, (unsigned long)hooks->defined_address);
	return ip_error("%s: defines %s itself at 0x%lx: its calls belong to its own tracer",
			m->path, hooks->defined, (unsigned long)hooks->defined_address);
}

/* If no site uses a reference to a hook, the hook is called in a form that is not known: this is an
 * error. */
static int check_all_called(const struct cold_module *m, const struct cold_hooks *hooks,
			    const struct cold_sites *sites)
{
	bool called[3] = {false};

	for (size_t i = 0; i < sites->n; i++)
		called[sites->sites[i].kind == IP_PROBE_ENTRY ? COLD_HOOK_IS_ENTER
							      : COLD_HOOK_IS_EXIT] = true;
	for (size_t i = 0; i < hooks->n; i++)
		if (!called[hooks->places[i].hook])
			return ip_error("%s: refers to %s (slot 0x%lx) but calls it in no way that "
					"is understood",
					m->path,
					hooks->places[i].hook == COLD_HOOK_IS_ENTER
						? COLD_HOOK_ENTER
						: COLD_HOOK_EXIT,
					(unsigned long)hooks->places[i].address);
	return 0;
}

static int check_doubtful(const struct cold_module *m, const struct cold_hooks *hooks,
			  const struct cold_sites *sites)
{
	for (size_t i = 0; i < sites->n; i++)
		if (sites->sites[i].doubtful && !cold_site_is_known(m, hooks, &sites->sites[i]))
			return ip_error(
				"%s: the bytes at 0x%lx look like a call of an instrumentation "
				"function, but the code before them does not decode",
				m->path, (unsigned long)sites->sites[i].address);
	return 0;
}

/* i386: a call through a register may be any call, unless the register is shown to hold the offset
 * table. */
static int check_registers(const struct cold_module *m, const struct cold_sites *sites)
{
	for (size_t i = 0; i < sites->n; i++)
		if (sites->sites[i].by_register && !sites->sites[i].by_got)
			return ip_error("%s: the call at 0x%lx may be one of an instrumentation "
					"function through the offset table, or of something else; "
					"link with -Wl,-q, or build without -fno-plt",
					m->path, (unsigned long)sites->sites[i].address);
	return 0;
}

/* Whether calls may become NOPs. They may if the module defines no hook. They may also if its own
 * hooks do nothing and it is known which hook each call goes to. */
static bool serves(const struct cold_hooks *hooks, bool exact)
{
	return !hooks->defined || (hooks->empty && (exact || !hooks->shared_address));
}

static int find(struct cold_module *m, const struct cold_hooks *hooks, bool *ret_exact,
		struct cold_sites *sites)
{
	const struct cold_arch *arch = cold_arch_for_machine(m->elf->ehdr.e_machine);
	int kept = serves(hooks, true) ? cold_relocs_find(m, hooks, sites) : 0;

	if (kept < 0)
		return -1;
	*ret_exact = kept;
	if (arch->sweep(m, hooks, kept, sites)) {
		/* reports this reason, whatever the sweep has reported: it is the one that helps
		 * the user */
		if (!serves(hooks, kept))
			refuse_definition(m, hooks);
		return -1;
	}
	return sites->n && !serves(hooks, kept) ? refuse_definition(m, hooks) : 0;
}

int cold_calls_find(struct cold_module *m, struct cold_found *found)
{
	const struct cold_arch *arch = cold_arch_for_machine(m->elf->ehdr.e_machine);
	struct cold_hooks *hooks = &found->hooks;
	struct cold_sites sites = {0};
	bool exact = false;
	int result = -1;

	if (cold_hooks_find(m, hooks))
		return -1;
	if (!hooks->n)
		return 0;
	if (find(m, hooks, &exact, &sites))
		goto out;
	if (!sites.n) {
		result = hooks->defined ? 0 : check_all_called(m, hooks, &sites);
		goto out;
	}
	if ((!exact && !hooks->defined && check_all_called(m, hooks, &sites)) ||
	    cold_sites_check(m, &sites) || arch->flow(m, hooks, &sites) ||
	    check_registers(m, &sites) || check_doubtful(m, hooks, &sites))
		goto out;
	for (size_t i = 0; i < sites.n; i++)
		if (cold_sites_add(&found->sites, sites.sites[i]))
			goto out;
	if (!found->placement)
		found->placement = IP_PLACEMENT_INSTRUMENT;
	found->found_by |= exact ? IP_FOUND_BY_RELOCATIONS : IP_FOUND_BY_DECODING;
	result = 0;
out:
	cold_sites_destroy(&sites);
	return result;
}
