/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a wait is for whether its thread is idle. idle_waits.h has the rules.
 */
#ifndef IP_IDLE_KIND_H
#define IP_IDLE_KIND_H

#include <stdbool.h>
#include <stdint.h>

#include "analysis/wait/descriptors/descriptors.h"
#include "analysis/wait/descriptors/service_ports.h"
#include "analysis/wait/thread_states.h"

enum ip_idle_kind {
	IP_IDLE_NONE,
	IP_IDLE_ASKS,	/* it counts for which one is outermost, and is never idle */
	IP_IDLE_PIPE,	/* the same, and it is idle if the calls around it never end */
	IP_IDLE_WORK,	/* it may be idle */
	IP_IDLE_SLEEPS, /* it is idle if the calls around it never end, and does not count */
	IP_IDLE_CALLED, /* no wait: the thread has asked for work, whether it was blocked or not */
};

/* descriptors: of the trace. pid: the process of the thread. */
enum ip_idle_kind ip_idle_kind_of(const struct ip_descriptors *descriptors,
				  const struct ip_service_ports *ports, uint32_t pid,
				  const struct ip_thread_wait *wait);

/* Whether a thread asks for work by the system call, which returns at once if there is some. */
bool ip_idle_call_asks(uint16_t number);

#endif
