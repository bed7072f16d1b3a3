/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The anchor: where the runtime of a process says what it is and what it has
 * (common/abi/anchor.h). The runtime is a shared library, or part of a static program, or iprobe
 * has put it into the process.
 */
#ifndef IP_ANCHOR_H
#define IP_ANCHOR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct ip_elf_file;
struct ip_target;

/* Finds the anchor by the maps that were read last, and reads it: has_runtime, linked_in, injected,
 * anchor_address and anchor of the target. A process without a runtime is no error. 0, or -1 with
 * an error. */
int ip_anchor_find(struct ip_target *target);

/* Whether the process has the runtime, loaded or linked in; false also where we may not look. */
bool ip_proc_has_runtime(pid_t pid);

/* Link-time address of the anchor of a runtime that is linked into a static program. 1; 0: it has
 * none; -1 error. */
int ip_elf_linked_runtime(struct ip_elf_file *file, uint64_t *ret_address);

#endif
