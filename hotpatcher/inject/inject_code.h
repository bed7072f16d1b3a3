/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The code that a borrowed thread runs to make room for the runtime (arch/ARCH/inject.S), as it
 * stands in a target's slack.
 */
#ifndef IP_INJECT_CODE_H
#define IP_INJECT_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hotpatcher/process/target.h"

struct ip_inject_head {
	uint8_t magic[10]; /* two traps, and a word */
	uint32_t size;	   /* of all */
	uint16_t block;	   /* where the struct ip_wake is */
} __attribute__((packed));

/* What the code reads behind itself; a struct ip_wake follows. */
struct ip_inject_facts {
	uint64_t size, data, data_size; /* of the memory to make, and of its writable part */
};

/* Its start is a struct ip_inject_head; _start: where a thread begins, _again: where the memory
 * is there already; _back: from here on the thread has its own registers again, one by one. */
extern const uint8_t ip_inject_code[], ip_inject_code_end[], ip_inject_code_start[],
	ip_inject_code_again[], ip_inject_code_back[], ip_inject_code_facts[];

/* Whether a thread is in code that an iprobe which died has left at address, or will come back
 * to it from a signal handler. True also where there is no telling. */
bool ip_inject_is_in_use(struct ip_target *target, uint64_t address, uint64_t size);

#endif
