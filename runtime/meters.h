/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What probes do in sessions with payloads, where hooks.S leaves it to C.
 */
#ifndef IP_RT_METERS_H
#define IP_RT_METERS_H

#include <stdint.h>

#include "common/rt_abi.h"

/* A block of meters for a thread that is claiming slot; none where none is free. */
void rt_meters_take(struct ip_slot *slot);

/* Does what the number's duty is. 1: done; 0: it is to be logged. */
int rt_meters_do(struct ip_slot *slot, uint32_t number, uint32_t kind, uint64_t sp);

#endif
