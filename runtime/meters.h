/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What probes do in sessions with payloads, where hooks.S leaves it to C.
 */
#ifndef RT_METERS_H
#define RT_METERS_H

#include <stdint.h>

#include "common/abi/area.h"
#include "common/abi/meters.h"
#include "common/abi/ring.h"

/* The block of each slot; NULL: the slot has none. This table is not in the area, since another
 * process could write an address there. hooks.S reads it too. */
extern struct ip_meters *rt_blocks[IP_AREA_SLOTS] __attribute__((visibility("hidden")));

/* Block i of the session; NULL: it does not exist. */
struct ip_meters *rt_block(uint32_t i);

/* Returns `size` bytes at an offset of a block, if they lie within the area's file. The offset may
 * come from memory that another process has overwritten. If the bytes lie outside, the function
 * returns memory whose contents do not matter. size is at most RT_METERS_DUMMY. */
#define RT_METERS_DUMMY 1024u
void *rt_meters_at(struct ip_meters *m, uint64_t offset, uint64_t size);

/* Takes a block of meters for a thread that is claiming `slot`. The thread gets none if none is
 * free. */
void rt_meters_take(struct ip_slot *slot);

/* Does what the number's duty demands. Returns 1 if that is all; 0 if the event must be logged. */
int rt_meters_do(struct ip_slot *slot, uint32_t number, uint32_t kind, uint64_t sp);

#endif
