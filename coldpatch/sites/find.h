/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds sites. There is one finder for each way in which a compiler or another tool makes them; a
 * module may hold sites of several kinds. A finder adds its sites, each with its form, live
 * registers and naming; or it finds nothing; or it refuses the module.
 */
#ifndef COLD_FIND_H
#define COLD_FIND_H

#include "coldpatch/elf/module.h"
#include "coldpatch/sites/hooks.h"
#include "coldpatch/sites/sites.h"
#include "common/elf/probe_list.h"

struct cold_found {
	struct cold_sites sites;
	struct cold_hooks hooks;     /* what is known of the module's stubs, for names */
	enum ip_placement placement; /* of most sites; a finder sets it if no other finder has */
	uint32_t found_by;	     /* IP_FOUND_BY_... */
	/* texts that sites point to and no section holds; malloc'ed, ntexts of them */
	char **texts;
	size_t ntexts;
	/* NOPs or calls of another tool that cannot be used, in words; NULL: none */
	const char *why_none;
};

void cold_found_destroy(struct cold_found *found);

/* Finds calls of the hooks of -finstrument-functions (placement instrument). */
int cold_calls_find(struct cold_module *module, struct cold_found *found);

/* Finds the sites in the table that a compilation wrote (site_table.h; placements fentry and
 * inline). */
int cold_site_table_find(struct cold_module *module, struct cold_found *found);

/* Finds XRay sleds: placement fentry by clang, or sleds that another tool asked for. */
int cold_xray_find(struct cold_module *module, struct cold_found *found);

/* Finds NOPs of other tools: -fpatchable-function-entry, -mnop-mcount. It runs after the finders
 * above and leaves the sites that they found alone. */
int cold_other_nops_find(struct cold_module *module, struct cold_found *found);

/* Finds points and scopes of iprobe/probe.h. It runs last: points and scopes do not decide about
 * the placement. */
int cold_points_find(struct cold_module *module, struct cold_found *found);

#endif
