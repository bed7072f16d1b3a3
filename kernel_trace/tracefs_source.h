/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records from instances of tracefs (instance.h), one for each part.
 */
#ifndef IP_TRACEFS_SOURCE_H
#define IP_TRACEFS_SOURCE_H

#include "kernel_trace/record_source.h"
#include "kernel_trace/tracefs_place.h"

/* Removes what was left of iprobes that are gone, too. tracefs: open as long as the source is.
 * Returns NULL with an error: instances cannot be made. */
struct ip_record_source *ip_tracefs_source_create(const struct ip_tracefs *tracefs);

/* Removes instances and probes (kernel_probes.h) of iprobes that are gone. tracefs must be open,
 * and such that instances can be made (ip_tracefs_check()). */
void ip_tracefs_source_remove_left(void);

#endif
