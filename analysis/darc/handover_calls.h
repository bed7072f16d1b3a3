/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the threads called that served: the third reading of handovers.h.
 */
#ifndef IP_DARC_HANDOVER_CALLS_H
#define IP_DARC_HANDOVER_CALLS_H

#include "analysis/darc/handovers.h"

/* Sets meanwhile and within of all. Returns 0, or -1 with an error. */
int ip_handover_calls_read(struct ip_trace_reader *trace, struct ip_handovers *handovers);

#endif
