/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds where tail exits lead: which function with probes the jump behind such a site enters.
 *
 * This is read from the machine code and the linker's tables in the process. Direct jumps are
 * followed, also through the linker's stubs and tables. If a table entry is not bound yet, the name
 * that stands in its relocation is looked up, and counts only if exactly one module defines it.
 * Jumps through pointers are not followed: where they lead changes from call to call.
 *
 * The results are kept as long as the modules are the same (ip_jump), since plans are made often.
 * Only pointers that are not bound yet, and whose name says nothing, are looked at again.
 *
 * Only what is certain counts. A wrong jump that is followed gives a wrong time. A jump that is not
 * followed is reported as not followed.
 */
#ifndef IP_TAILS_H
#define IP_TAILS_H

#include <stdbool.h>
#include <stdint.h>

#include "hotpatcher/process/modules.h"

struct ip_tails;

/* target and modules are borrowed. The target is only read; results are kept in the jumps of the
 * modules. The caller destroys the result. NULL with an error if memory ran out. */
struct ip_tails *ip_tails_create(const struct ip_target *target, const struct ip_modules *modules);
void ip_tails_destroy(struct ip_tails *tails);

/* Whether the probe is a tail exit behind which the function leaves by a jump (not by a return,
 * which the form of the site would tell). */
static inline bool ip_probe_jumps(const struct ip_pl_probe *probe)
{
	return probe->kind == IP_PROBE_TAIL_EXIT && probe->form != IP_FORM_RETURN &&
	       !(probe->flags & IP_PROBE_INLINED);
}

/* Whether the jump behind a tail exit of the module enters a function that has an entry site as its
 * first instruction, and exit sites. *ret_module: index into the modules; *ret_function: index into
 * that module's list. */
bool ip_tails_follow(struct ip_tails *tails, const struct ip_module *module,
		     const struct ip_pl_probe *probe, uint32_t *ret_module, uint32_t *ret_function);

#endif
