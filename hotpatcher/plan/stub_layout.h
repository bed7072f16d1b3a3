/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the stubs of a module's probes lie, counted from the start of its stubs.
 *
 * It follows from the probe list alone, so that a second session, or another iprobe, writes the
 * same bytes to the same places: a thread that is still on its way through a stub notices nothing.
 */
#ifndef IP_STUB_LAYOUT_H
#define IP_STUB_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/arch/arch.h"
#include "common/elf/probe_list.h"

#define IP_STUB_ALIGN 32u /* of the start of a module's stubs: the unwinder counts on it */

struct ip_stub_layout {
	uint32_t *offsets; /* by probe, in bytes */
	uint64_t size;	   /* of all stubs */
	/* Stubs that record values, which some probes have besides: */
	uint32_t *payload_offsets; /* by probe, in bytes; 0: it has none */
	uint32_t *payloads;	   /* by probe: which of them, from 0 */
	uint32_t npayloads;
	/* Stubs with the second number of the function, for tail exits of which the call goes on
	 * (plan_choice.h): */
	uint32_t *jump_offsets; /* by probe, in bytes; 0: it has none */
};

/* Whether values can be recorded at a probe: registers are as the ABI has them, or its arguments
 * are known. */
bool ip_probe_has_values(const struct ip_pl_probe *probe);

/* Probes of one function, instance, kind and set of registers share a stub; a site of form JUMP
 * has its own. Payload stubs lie behind these; those of points are never shared, since each has
 * its arguments elsewhere. Behind those are the ones with second numbers. */
int ip_stub_layout_make(const struct ip_probe_list *list, const struct ip_arch *arch,
			struct ip_stub_layout *ret);
void ip_stub_layout_clear(struct ip_stub_layout *map);

#endif
