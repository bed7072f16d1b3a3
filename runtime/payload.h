/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registers as a payload hook has found them.
 */
#ifndef RT_PAYLOAD_H
#define RT_PAYLOAD_H

#include <stdint.h>

#define RT_GENERAL_REGISTERS 16
#define RT_VECTOR_REGISTERS  8
#define RT_STACK_POINTER     4 /* its number */

/* Laid out by arch/ARCH/payload.S. */
struct rt_frame {
	uint64_t vector[RT_VECTOR_REGISTERS];	/* low halves */
	uint64_t general[RT_GENERAL_REGISTERS]; /* the stack pointer is the site's */
	uint64_t flags;
};

_Static_assert(sizeof(struct rt_frame) == 200, "payload.S");

/* Records the event of a payload number with its values. kind: enum ip_probe_kind. */
void rt_record_values(const struct rt_frame *frame, uint32_t payload, uint32_t kind);

/* Reads up to size bytes of the process, at most a page, that need not be there, and returns how
 * many: up to the first page that is not. A system call: 0 where none may be made. */
uint64_t rt_read(uint64_t address, void *to, uint64_t size);

#endif
