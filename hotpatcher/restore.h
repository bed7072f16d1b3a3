/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is patched in a process, and putting it back. Needs no session and no record of what was done: the probe lists and
 * the files on disk say what each site and each byte of text has to be.
 */
#ifndef IP_RESTORE_H
#define IP_RESTORE_H

#include "hotpatcher/modules.h"
#include "hotpatcher/patch.h"

enum ip_site_state {
	IP_SITE_IDLE,
	IP_SITE_LIVE,	 /* it leads to a stub, whoever wrote it */
	IP_SITE_TRANSIT, /* a writer was killed between two pages (patch.h) */
	IP_SITE_FOREIGN, /* neither: somebody else changed it */
};

/* What a site holds; bytes: probe->length of them, as read at address. */
enum ip_site_state ip_site_state(const struct ip_target *target, const struct ip_arch *arch,
				 const struct ip_pl_probe *probe, uint64_t address, const uint8_t *bytes);

/* Calls visit for each site of the module, in the order of its list, with the bytes that it has in memory. Reads text in
 * large pieces. -1: where memory cannot be read, or as soon as visit returns it. */
int ip_each_site(const struct ip_target *target, const struct ip_module *module,
		 int (*visit)(void *, const struct ip_pl_probe *, uint64_t address, const uint8_t *bytes), void *data);

struct ip_module_state {
	size_t patched; /* sites that are live or in transit */
	size_t foreign; /* sites that hold something that is not ours, and other bytes that differ from the
			   file */
	uint64_t first_foreign;
	bool text_matches_file; /* every byte of every executable segment */
};

/* Compares one module's executable segments in memory with its file. */
int ip_module_inspect(struct ip_target *target, const struct ip_module *module, struct ip_module_state *ret);

/* Brings every site of all modules that any iprobe left live back to its idle form, in one stop, and closes
 * the gate. 0 with result->sites == 0 where there was nothing to do (no stop then). A foreign site is left alone. */
int ip_restore(struct ip_target *target, const struct ip_modules *modules, uint64_t deadline_ns,
	       struct ip_patch_result *ret);

#endif
