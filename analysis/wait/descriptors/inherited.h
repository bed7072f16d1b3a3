/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process has inherited: a forked child has the descriptors that its parent had then, until
 * it closes them. Nothing is noted of them (kernel_trace/descriptor_log.h).
 */
#ifndef IP_INHERITED_H
#define IP_INHERITED_H

#include <stddef.h>
#include <stdint.h>

#include "analysis/wait/descriptors/descriptors.h"
#include "analysis/wait/machine_ids.h"

struct ip_inherited;

/* Lays out what is needed to look it up. Returns NULL with an error. */
struct ip_inherited *ip_inherited_create(const struct ip_machine_ids *ids,
					 const struct ip_states *states);
void ip_inherited_destroy(struct ip_inherited *inherited);

/* What a descriptor was at a time. own: the newest line that is noted of it; NULL: there is none.
 * Returns NULL: not known. */
const struct ip_descriptor *ip_inherited_find(struct ip_inherited *inherited,
					      const struct ip_descriptors *descriptors,
					      const struct ip_descriptor *own, uint32_t pid,
					      int32_t fd, uint64_t tsc);

#endif
