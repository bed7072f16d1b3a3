/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts what an operation waited for in another thread into the operation (handovers.h).
 */
#ifndef IP_DARC_HANDOVER_BUILDER_H
#define IP_DARC_HANDOVER_BUILDER_H

#include "analysis/darc/handovers.h"

/* The wait becomes callees of the call that is open in the builder. handover: of all->items;
 * member: of the thread of the operation. plain: return addresses tell no nodes apart. Returns 0,
 * or -1 with an error; what the builder has against it, it tells itself. */
int ip_handover_put(struct ip_darc_builder *builder, const struct ip_handovers *all,
		    const struct ip_handover *handover, uint32_t member, bool plain);

#endif
