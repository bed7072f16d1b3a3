/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding what is patched in a process, and putting it back. This needs no session and no record
 * of what was done: the probe lists and the files on disk say what each site and each byte of text
 * has to be.
 */
#ifndef IP_RESTORE_H
#define IP_RESTORE_H

#include "hotpatcher/patch/patch.h"
#include "hotpatcher/patch/site_state.h"
#include "hotpatcher/process/modules.h"

/* Calls visit for each site of the module, in the order of its list, with the bytes that the site
 * has in memory. Reads text in large pieces. -1: memory cannot be read, or visit has returned -1,
 * which ends the walk. */
int ip_each_site(const struct ip_target *target, const struct ip_module *module,
		 int (*visit)(void *, const struct ip_pl_probe *, uint64_t address,
			      const uint8_t *bytes),
		 void *data);

struct ip_module_state {
	size_t patched; /* sites that hold bytes of iprobe's other than idle ones */
	/* sites that hold bytes of another program, and other bytes that differ from the file */
	size_t foreign;
	/* of those foreign: idle sites below a uprobe or a debugger's breakpoint: nothing of
	 * iprobe's is in them */
	size_t probed;
	uint64_t first_foreign;
	bool text_matches_file; /* every byte of every executable segment */
};

/* Compares one module's executable segments in memory with its file. If the module has been
 * unloaded meanwhile, nothing of it counts as foreign. Renews the target's maps if something is
 * foreign. */
int ip_module_inspect(struct ip_target *target, const struct ip_module *module,
		      struct ip_module_state *ret);

/* Finds a live site of the module: its address, and its bytes (ret_bytes has room for IP_SITE_MAX).
 * Returns the site's length; 0: there is none. */
unsigned ip_module_find_live(const struct ip_target *target, const struct ip_module *module,
			     uint64_t *ret_address, uint8_t *ret_bytes);

/* Makes the changes that bring back to its idle form every site of all modules that any iprobe left
 * live or in transit. The caller frees *ret. 0, or -1 with the reason. */
int ip_restore_collect(struct ip_target *target, const struct ip_modules *modules,
		       struct ip_change **ret, size_t *ret_n);

/* Brings every site of all modules that any iprobe left live back to its idle form, in as many
 * stops as deadline_ns asks for (stop_batches.h), and closes the gate. 0 with result->sites == 0:
 * there was nothing to do, and no stop. A site that another program has changed is left alone,
 * except for two forms that are known to be iprobe's (site_state.h). A site that a uprobe left
 * which came and went becomes idle as a live site does. Below a uprobe that is still there all but
 * the first byte becomes idle, in a stop of its own (patch_in_place.h): so the uprobe goes on
 * working, and leaves a NOP when it goes. */
int ip_restore(struct ip_target *target, const struct ip_modules *modules, uint64_t deadline_ns,
	       struct ip_patch_result *ret);

#endif
