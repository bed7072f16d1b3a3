/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pools for stubs (common/abi/anchor.h) that a target gets while it runs. The first pools are as
 * large as the modules needed that were there when iprobe put the runtime into the process. A
 * module that comes later may find no room in them, or none within reach:
 *
 *   1. The tracer looks in the maps for a place that every site of the module reaches, and that
 *      leaves the program's heap and stack room to grow.
 *   2. A borrowed thread maps the pool there (runtime/area_window.c). It replaces no mapping: if
 * the place has been taken meanwhile, nothing has changed.
 *   3. The tracer reads the anchor again, and finds the pool there.
 *
 * If the tracer is killed in between, a pool stays that the next session uses. A session's end
 * unmaps no pool, since a thread may be in a stub for as long as it gets no CPU. Only iprobe detach
 * --remove does, when no thread is in a hook or in a stub (window/late_hooks.h).
 */
#ifndef IP_STUB_POOLS_H
#define IP_STUB_POOLS_H

#include <stdbool.h>
#include <stdint.h>

#include "hotpatcher/process/modules.h"
#include "hotpatcher/process/target.h"

/* Whether a jump from every byte of the module reaches every byte of [start, start + size). reach:
 * the architecture's, in bytes. */
bool ip_stub_pools_reaches(const struct ip_module *module, uint64_t start, uint64_t size,
			   uint64_t reach);

/* A place for a pool of so many bytes, by the maps that were read last; 0: there is none. */
uint64_t ip_stub_pools_place(const struct ip_target *target, const struct ip_module *module,
			     uint64_t size, uint64_t reach);

/* Has the target map a pool for `size` bytes of stubs of the module. 0: target->anchor has it; -1
 * with the reason. */
int ip_stub_pools_add(struct ip_target *target, const struct ip_module *module, uint64_t size,
		      uint64_t reach);

#endif
