/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread as it stood at one moment: its registers, and the part of its stack that its innermost
 * frames lie in. All of it is what the target has put there: nothing of it may be trusted.
 */
#ifndef IP_STACK_COPY_H
#define IP_STACK_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define IP_STACK_COPY_REGISTERS 17

struct ip_stack_copy {
	pid_t tid;
	bool narrow; /* 32-bit code */
	/* by their DWARF numbers: the 16 general ones and the program counter; of 32-bit code the
	 * first 8, and the program counter as the ninth */
	uint64_t registers[IP_STACK_COPY_REGISTERS];
	uint64_t sp;	      /* address of the first byte of the copy */
	const uint8_t *bytes; /* owned by the maker of the copy */
	size_t size;
};

#endif
