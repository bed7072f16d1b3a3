/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which changes put sites back: those that any iprobe left live, or in transit, as far as they are
 * ours to change (restore.h). The target is only read.
 */
#ifndef IP_RESTORE_CHANGES_H
#define IP_RESTORE_CHANGES_H

#include "hotpatcher/patch/patch.h"
#include "hotpatcher/process/modules.h"

struct ip_change_list {
	struct ip_change *items;
	size_t n;
};

struct ip_restore_changes {
	struct ip_change_list whole; /* sites that become idle */
	struct ip_change_list tails; /* sites below a uprobe: all but the first byte */
	bool all_idle;		     /* every site of every module holds its idle form */
};

/* Finds them in all modules that are still mapped. Instances of functions are groups. The caller
 * clears ret, also on failure. 0, or -1 with an error. */
int ip_restore_changes_find(const struct ip_target *target, const struct ip_modules *modules,
			    struct ip_restore_changes *ret);
void ip_restore_changes_clear(struct ip_restore_changes *changes);

#endif
