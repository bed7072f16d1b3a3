/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ColdPatch turns the calls of the instrumentation functions in a linked module into NOPs, and
 * gives the module the list of its probes.
 */
#ifndef COLD_COLDPATCH_H
#define COLD_COLDPATCH_H

#include "common/elf/probe_list.h"
#include "common/selection/selection.h"

#include <stdbool.h>
#include <stddef.h>

enum ip_coldpatch_status {
	IP_COLDPATCH_PATCHED,
	/* the module has a list that fits: only output and list were written */
	IP_COLDPATCH_ALREADY,
	IP_COLDPATCH_DRY_RUN,	/* the module could be patched; nothing was done */
	IP_COLDPATCH_NO_PROBES, /* the module calls no instrumentation function; nothing was done */
};

struct ip_coldpatch_options {
	const char *output; /* where the result goes; NULL: it replaces the module */
	/* a file, or a directory of lists by build-id; the probe list is written there, too; NULL:
	 * nowhere */
	const char *list;
	/* remove symbols and debug information; remove the probe list too if it has a file of its
	 * own */
	bool strip;
	const struct ip_selection *exclude; /* functions that get no probes; NULL: none. Borrowed */
	bool dry_run;
	bool keep_relocs; /* keep the relocations that the linker's -q left in the file */
	/* remove debug information if all of it is there only because iprobe-cc asked for it
	 * (placement inline) */
	bool drop_debug;
};

struct ip_coldpatch_result {
	enum ip_coldpatch_status status;
	char build_id[2 * IP_BUILD_ID_MAX + 1]; /* hexadecimal; "" if none was found */
	enum ip_placement placement;
	uint32_t found_by; /* IP_FOUND_BY_... */
	size_t sites, functions;
	size_t entry, exit, tail_exit, point;
	size_t inlined; /* probes of functions inlined into others */
	/* how the functions were identified; 0 if the module was already patched */
	size_t by_code, by_debug, by_symbol;
	size_t excluded; /* sites that were left out of the list on request */
	/* if there are no probes: what the module has that cannot be used; NULL: nothing */
	const char *why_none;
	size_t other_links; /* hard links to the module, which keep the unpatched file */
};

/* Patches a module. Returns 0 and fills in *ret; or -1 with an error: then nothing was changed. */
int ip_coldpatch(const char *path, const struct ip_coldpatch_options *options,
		 struct ip_coldpatch_result *ret);

/* Removes what the linker's -q left in a module that gets no probe list. strip: removes symbols and
 * debug information, too. Returns 0 (also if there was nothing to remove), or -1 with an error. */
int ip_coldpatch_drop_relocs(const char *path, bool strip);

const char *ip_coldpatch_status_name(enum ip_coldpatch_status status);

#endif
