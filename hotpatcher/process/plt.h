/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The PLT of a prepared module: the functions of other modules that it calls by name, as functions
 * of its probe list. docs/protocols/plt.md tells why a call is seen there, and what is not seen.
 *
 * A PLT entry is code of the module's own, in its text, and has one instruction that matters: the
 * jump through the slot in which the dynamic linker keeps the function's address. That jump is a
 * site (IP_FORM_PLT). So all that makes a site live and idle again, and that compares text with
 * its file, does so with this one: the plan, stops, switched pages, restoring, verifying. To have
 * these functions in the lists of a target's modules:
 *
 *   target->plt = true;                  before its modules are loaded
 *   selections.plt = true;               before the plan is made
 *
 * The function is called "malloc@plt", has an entry alone, and stands behind the functions that
 * the list had. -f malloc means it, too (common/selection/selection.h). A session that does not
 * want them meets them where an earlier one has left some live: then they are in the list, so that
 * they are put back.
 *
 * The slot itself is only read by the code, never written by iprobe. So it does not matter whether
 * it is bound already or by its first call, whether it is read-only (RELRO), whether it leads to
 * what an IFUNC has chosen, whether data take the function's address from the same slot, and that
 * the dynamic linker writes it at the same moment.
 */
#ifndef IP_PLT_H
#define IP_PLT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hotpatcher/process/modules.h"

struct ip_plt {
	struct ip_plt_entry {
		uint64_t site; /* link-time address of the jump */
		uint64_t slot; /* the same of the pointer through which it jumps */
		const char *symbol;
	} * items; /* by site */
	size_t n;
};

/* Lists the PLT entries of a file whose slots are bound by name. Entries of other linkers' forms
 * are left out. The symbols belong to the file. The caller clears *ret. 0, or -1 with an error: out
 * of memory. */
int ip_plt_find(const struct ip_elf_file *elf, struct ip_plt *ret);
void ip_plt_clear(struct ip_plt *plt);

/* Puts the functions of the module's PLT into its list, if it has any (module->plt). 0, or -1 with
 * an error: the list is as it was. */
int ip_plt_add(struct ip_module *module);

/* Whether the PLT in memory is not that of the file: an earlier session may have left it live. */
bool ip_plt_is_changed(const struct ip_target *target, const struct ip_module *module);

/* The slot through which the PLT entry at this address of the target jumps, whether it is idle or
 * live; 0: the module's list has no such entry. */
uint64_t ip_plt_slot(const struct ip_module *module, uint64_t address);
/* The same in the list of whatever module has the address. */
uint64_t ip_plt_slot_in(const struct ip_modules *modules, uint64_t address);

#endif
