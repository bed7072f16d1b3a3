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

/* By slot, its block; NULL: it has none. Not in the area, where others could write an address.
 * hooks.S reads it, too. */
extern struct ip_meters *rt_blocks[IP_AREA_SLOTS] __attribute__((visibility("hidden")));

/* Block i of the session; NULL: there is no such one. */
struct ip_meters *rt_block(uint32_t i);

/* size bytes at an offset of a block, as far as the area's file reaches: what names an offset
 * may be somebody else's word. Else of memory where nothing counts: size is at most
 * RT_STUB_ROOM_MAX. */
#define RT_STUB_ROOM_MAX 1024u
void *rt_meters_at(struct ip_meters *m, uint64_t offset, uint64_t size);

/* A block of meters for a thread that is claiming slot; none where none is free. */
void rt_meters_take(struct ip_slot *slot);

/* Does what the number's duty is. 1: done; 0: it is to be logged. */
int rt_meters_do(struct ip_slot *slot, uint32_t number, uint32_t kind, uint64_t sp);

#endif
