/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the stubs of a module's probes lie, counted from the start of the module's stubs.
 *
 * The layout follows from the probe list alone. So a second session, or another iprobe, writes the
 * same bytes to the same places, and a thread that is still in a stub notices nothing.
 */
#ifndef IP_STUB_LAYOUT_H
#define IP_STUB_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/arch/arch.h"
#include "common/elf/probe_list.h"

#define IP_STUB_ALIGN 32u /* alignment of a module's first stub: the unwinder relies on it */

struct ip_stub_layout {
	uint32_t *offsets; /* by probe, in bytes */
	uint64_t size;	   /* of all stubs, in bytes */
	/* Stubs that record values. Some probes have one in addition. The tables are NULL where the
	 * caller needs none. */
	uint32_t *payload_offsets; /* by probe, in bytes; 0: none */
	uint32_t *payloads;	   /* by probe: number of the payload, from 0 */
	uint32_t npayloads;
	/* Stubs with the function's second number, for tail exits whose call goes on
	 * (plan_choice.h): */
	uint32_t *jump_offsets; /* by probe, in bytes; 0: none */
};

/* Returns whether values can be recorded at a probe: its registers are as the ABI has them, or it
 * is a point with known arguments. */
bool ip_probe_has_values(const struct ip_pl_probe *probe);

/* Places the stubs. Probes of the same function, instance, kind and set of registers share a stub,
 * but for exits that are returns, which have one beside; a site of form JUMP or TAIL has its own.
 * The payload stubs follow after these. Points never share a payload stub, since each point has its
 * arguments in other places. The stubs with second numbers come last. values: make the tables of
 * payload stubs, too; the places are the same without them. The caller clears *ret. 0, or -1 with
 * an error. */
int ip_stub_layout_make(const struct ip_probe_list *list, const struct ip_arch *arch, bool values,
			struct ip_stub_layout *ret);
void ip_stub_layout_clear(struct ip_stub_layout *map);

#endif
