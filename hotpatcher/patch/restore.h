/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is patched in a process, and putting it back. Needs no session and no record of what was
 * done: the probe lists and the files on disk say what each site and each byte of text has to be.
 */
#ifndef IP_RESTORE_H
#define IP_RESTORE_H

#include "hotpatcher/patch/patch.h"
#include "hotpatcher/patch/site_state.h"
#include "hotpatcher/process/modules.h"

/* Calls visit for each site of the module, in the order of its list, with the bytes that it has
 * in memory. Reads text in large pieces. -1: where memory cannot be read, or as soon as visit
 * returns it. */
int ip_each_site(const struct ip_target *target, const struct ip_module *module,
		 int (*visit)(void *, const struct ip_pl_probe *, uint64_t address,
			      const uint8_t *bytes),
		 void *data);

struct ip_module_state {
	size_t patched; /* sites that hold bytes of ours other than idle ones */
	/* sites that hold something that is not ours, and other bytes that differ from the file */
	size_t foreign;
	/* of those foreign: idle sites below a uprobe or a debugger's breakpoint: nothing of ours
	 * is in them */
	size_t probed;
	uint64_t first_foreign;
	bool text_matches_file; /* every byte of every executable segment */
};

/* Compares one module's executable segments in memory with its file. Of one that has been
 * unloaded meanwhile nothing is foreign. Renews the target's maps where something is. */
int ip_module_inspect(struct ip_target *target, const struct ip_module *module,
		      struct ip_module_state *ret);

/* A live site of the module: its address, and its bytes (IP_SITE_MAX). How many; 0: none. */
unsigned ip_module_find_live(const struct ip_target *target, const struct ip_module *module,
			     uint64_t *ret_address, uint8_t *ret_bytes);

/* The changes that bring every site of all modules that any iprobe left live, or in transit,
 * back to its idle form; *ret is freed by the caller. */
int ip_restore_collect(struct ip_target *target, const struct ip_modules *modules,
		       struct ip_change **ret, size_t *ret_n);

/* Brings every site of all modules that any iprobe left live back to its idle form, in as many
 * stops as deadline_ns asks for (stop_batches.h), and closes the gate. 0 with result->sites == 0
 * where there was nothing to do (no stop then). A site that somebody else has changed is left
 * alone, but for two forms that are known to be ours (site_state.h): what a uprobe left that came
 * and went becomes idle as a live site does; below a uprobe that is still there all but the first
 * byte becomes idle, in a stop of its own (patch_in_place.h), so that the uprobe works on, and
 * leaves a NOP when it goes. */
int ip_restore(struct ip_target *target, const struct ip_modules *modules, uint64_t deadline_ns,
	       struct ip_patch_result *ret);

#endif
