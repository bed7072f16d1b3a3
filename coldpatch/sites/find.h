/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding sites. There is a finder for each way in which a compiler, or somebody else, makes them;
 * a module may hold sites of several. A finder adds its sites, each with its form, live registers
 * and naming, or finds nothing, or refuses the module.
 */
#ifndef COLD_FIND_H
#define COLD_FIND_H

#include "coldpatch/elf/module.h"
#include "coldpatch/sites/hooks.h"
#include "coldpatch/sites/sites.h"
#include "common/probe_list.h"

struct cold_found {
	struct cold_sites sites;
	struct cold_hooks hooks;     /* what is known of the module's stubs, for names */
	enum ip_placement placement; /* of most sites; a finder sets it where none has before */
	uint32_t found_by;	     /* IP_FOUND_BY_... */
	char **texts; /* what sites point to that is in no section; ntexts of them, malloc'ed */
	size_t ntexts;
	/* what somebody else left that cannot serve, in words; NULL: nothing */
	const char *why_none;
};

void cold_found_destroy(struct cold_found *found);

/* Calls of the hooks of -finstrument-functions (placement instrument). */
int cold_calls_find(struct cold_module *module, struct cold_found *found);

/* The table that a compilation wrote (site_table.h; placements fentry and inline). */
int cold_site_table_find(struct cold_module *module, struct cold_found *found);

/* Sleds of XRay: placement fentry by clang, or somebody else's. */
int cold_xray_find(struct cold_module *module, struct cold_found *found);

/* Other people's NOPs: -fpatchable-function-entry, -mnop-mcount. Behind the others: what they found
 * is left alone. */
int cold_other_nops_find(struct cold_module *module, struct cold_found *found);

/* Points and scopes of iprobe/probe.h. To be asked last: they do not decide about the placement. */
int cold_points_find(struct cold_module *module, struct cold_found *found);

#endif
