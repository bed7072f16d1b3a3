/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The code that a borrowed thread runs to make memory for the runtime (arch/ARCH/inject.S), as it
 * stands in the text padding of a target.
 */
#ifndef IP_INJECT_CODE_H
#define IP_INJECT_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hotpatcher/process/target.h"

struct ip_inject_header {
	uint8_t magic[10]; /* two trap instructions, and a word */
	uint32_t size;	   /* bytes of the whole code */
	uint16_t block;	   /* where the struct ip_wake begins in it */
} __attribute__((packed));

/* What the code reads behind itself. A struct ip_wake follows. */
struct ip_inject_arguments {
	uint64_t size, data, data_size; /* of the memory to make, and of its writable part */
};

/* The code begins with a struct ip_inject_header. _start: where a thread begins. _resume: where a
 * thread begins if the memory is there already. _back: from here on the code loads the thread's own
 * registers, one by one. */
extern const uint8_t ip_inject_code[], ip_inject_code_end[], ip_inject_code_start[],
	ip_inject_code_resume[], ip_inject_code_back[], ip_inject_code_arguments[];

/* Whether a thread is in code that an iprobe which died has left at address, or will come back to
 * that code from a signal handler. True also if that cannot be told. */
bool ip_inject_is_in_use(struct ip_target *target, uint64_t address, uint64_t size);

#endif
