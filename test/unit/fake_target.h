/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A target without a process, for tests of what looks at a target or writes to it. Its memory is a
 * sparse file in which address A lies at offset A; its maps are what the test says. Nothing can be
 * stopped in it, and ip_target_refresh() asks the kernel as ever: of a process that does not exist
 * it fails, and leaves no maps; of ourselves it brings our own.
 *
 *   struct ip_target *target = fake_target_open();
 *   fake_target_load(target, &module, 0x400000);
 *   ...
 *   ip_target_close(target);
 */
#ifndef TEST_FAKE_TARGET_H
#define TEST_FAKE_TARGET_H

#include "hotpatcher/process/target.h"
#include "test/unit/fake_module.h"

/* above any id that a process can have */
#define FAKE_NO_PID ((1 << 22) + 1)

/* A target for x86-64 with empty maps, without a runtime. Its pid is that of no process; a test
 * whose target has to open files, or to be alive, gives it our own. ip_target_close() closes it. */
struct ip_target *fake_target_open(void);

/* It has ended, or executed another program: its memory is gone. */
void fake_target_lose_memory(struct ip_target *target);

/* Adds one mapping, which must not overlap others. inode 0: anonymous memory. */
void fake_target_map(struct ip_target *target, uint64_t start, uint64_t size, const char *perms,
		     const char *path, uint64_t inode, uint64_t offset);
/* Removes all mappings that begin in [start, end); their memory is zero then. */
void fake_target_unmap(struct ip_target *target, uint64_t start, uint64_t end);

/* Maps a module as a loader does, with its headers at start, and its room for stubs executable. */
void fake_target_load(struct ip_target *target, const struct fake_module *module, uint64_t start);
/* Its mappings alone: memory stays as it is. */
void fake_target_map_module(struct ip_target *target, const struct fake_module *module,
			    uint64_t start);
void fake_target_unload(struct ip_target *target, const struct fake_module *module, uint64_t start);

/* Gives the target a runtime that has done nothing yet: hooks from hooks on, one every 16 bytes,
 * and a pool of that size near the executable. */
void fake_target_set_runtime(struct ip_target *target, uint64_t hooks, uint64_t pool,
			     uint64_t pool_size);

/* One byte of memory. */
uint8_t fake_target_byte(const struct ip_target *target, uint64_t address);

#endif
