/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns sites into probes: finds the function, file and line that each site belongs to.
 */
#ifndef COLD_ATTRIBUTE_H
#define COLD_ATTRIBUTE_H

#include "coldpatch/sites/hooks.h"
#include "coldpatch/sites/sites.h"
#include "common/elf/probe_list.h"
#include "common/selection/selection.h"

struct cold_attribution {
	size_t by_code;	  /* functions known from the hook's argument */
	size_t by_debug;  /* functions known from debug information */
	size_t by_symbol; /* functions known only from the symbol that holds the site */
	size_t inlined;
	size_t excluded; /* sites that got no probe */
};

/* Whether the code itself says which function the site belongs to. */
bool cold_site_is_known(const struct cold_module *module, const struct cold_hooks *hooks,
			const struct cold_site *site);

/* Adds a probe for each site that exclude (NULL: nothing) does not match. Returns 0, or -1 with an
 * error. */
int cold_attribute(const struct cold_module *module, const struct cold_hooks *hooks,
		   const struct cold_sites *sites, const struct ip_selection *exclude,
		   struct ip_probe_list_builder *builder, struct cold_attribution *ret);

#endif
