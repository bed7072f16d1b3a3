/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses the source of records, and tells it what to record.
 */
#ifndef IP_SOURCE_CHOICE_H
#define IP_SOURCE_CHOICE_H

#include <stdbool.h>
#include <stddef.h>

#include "kernel_trace/record_source.h"

struct ip_event_layout;
struct ip_kernel_probes;
struct ip_tracefs;

struct ip_source_request {
	enum ip_kernel_source source;
	unsigned groups;  /* bits 1 << enum ip_kernel_group */
	bool all, target; /* the parts that are needed. Without `all`, what happens in any process
			   * is recorded of the target's threads */
	size_t size;	  /* of a buffer */
	/* events that are not written, by which it is known what a user may see, too
	 * (IP_KERNEL_SCHED_EXEC and the like); a kernel that does not tell of them is refused */
	bool unwritten;
	const struct ip_tracefs *tracefs;     /* open; borrowed */
	const struct ip_event_layout *layout; /* borrowed */
	/* of the target's part, which are checked (ip_source_check_probes()); NULL: none. Borrowed
	 */
	const struct ip_kernel_probes *probes;
};

/* What is asked for: by the option, or where that is auto by the variable IPROBE_KERNEL_SOURCE.
 * Returns 0, or -1 with an error. */
int ip_source_wanted(enum ip_kernel_source asked, enum ip_kernel_source *ret);

/* Whether probes of the kernel's functions can be recorded: by tracefs alone, if it is asked for,
 * or nothing is. Returns 0, or -1 with an error. */
int ip_source_check_probes(enum ip_kernel_source source, const struct ip_tracefs *tracefs);

/* Makes the source that is asked for, or the first that serves. Its buffers are made, and record
 * nothing yet. Returns NULL with an error: why none serves. */
struct ip_record_source *ip_source_choose(const struct ip_source_request *request);

#endif
