/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ColdPatch: the calls of the instrumentation functions in a linked module become
 * NOPs, and the module gets the list of its probes.
 */
#ifndef COLD_COLDPATCH_H
#define COLD_COLDPATCH_H

#include "common/probe_list.h"
#include "common/selection.h"

#include <stdbool.h>
#include <stddef.h>

enum ip_coldpatch_status {
	IP_COLDPATCH_PATCHED,
	/* has a list that fits: nothing was done but what output and list ask for */
	IP_COLDPATCH_ALREADY,
	IP_COLDPATCH_DRY_RUN,	/* could be patched; nothing was done */
	IP_COLDPATCH_NO_PROBES, /* calls no instrumentation function; nothing was done */
};

struct ip_coldpatch_options {
	const char *output; /* where the result goes; NULL: in the place of the module */
	/* file, or directory of lists by build-id, that gets the probe list as well; NULL: none */
	const char *list;
	/* symbols and debug information go; the probe list too, where it has got a file of its
	 * own */
	bool strip;
	const struct ip_selection *exclude; /* what gets no probes; NULL: all get them. Borrowed */
	bool dry_run;
	bool keep_relocs; /* leave what the linker's -q left in the file */
	/* take debug information off, where all of it is what iprobe-cc asked for (placement
	 * inline) */
	bool drop_debug;
};

struct ip_coldpatch_result {
	enum ip_coldpatch_status status;
	char build_id[2 * IP_BUILD_ID_MAX + 1]; /* hexadecimal; "" where nothing was found */
	enum ip_placement placement;
	uint32_t found_by; /* IP_FOUND_BY_... */
	size_t sites, functions;
	size_t entry, exit, tail_exit, point;
	size_t inlined; /* probes of functions inlined into others */
	/* how the functions were known; 0 where already patched */
	size_t by_code, by_debug, by_symbol;
	size_t excluded;      /* sites that were left out of the list on request */
	const char *why_none; /* of no probes: what there is that cannot serve; NULL: nothing */
	size_t other_links;   /* hard links that keep the module as it was */
};

/* 0 with *ret filled in; -1 with an error: nothing was changed. */
int ip_coldpatch(const char *path, const struct ip_coldpatch_options *options,
		 struct ip_coldpatch_result *ret);

/* Takes what the linker's -q left off a module that gets no probe list; strip: symbols and debug
 * information, too. 0 (also where there was nothing) or -1 with an error. */
int ip_coldpatch_drop_relocs(const char *path, bool strip);

const char *ip_coldpatch_status_name(enum ip_coldpatch_status status);

#endif
