/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The registers at a site, as a payload hook has found them.
 */
#ifndef RT_PAYLOAD_H
#define RT_PAYLOAD_H

#include <stdint.h>

#define RT_GENERAL_REGISTERS 16
#define RT_VECTOR_REGISTERS  8
#define RT_STACK_POINTER     4 /* its number */

/* Bytes of the thread's stack that a hook with values takes at most, below the site's stack
 * pointer. docs/limits.md names it. */
#define RT_VALUES_STACK (14u * 1024)

/* arch/ARCH/payload.S fills it. */
struct rt_frame {
	uint64_t vector[RT_VECTOR_REGISTERS];	/* low halves */
	uint64_t general[RT_GENERAL_REGISTERS]; /* the stack pointer is that of the site */
	uint64_t flags;
};

_Static_assert(sizeof(struct rt_frame) == 200, "payload.S");

/* Records the event of a payload number together with its values. kind: enum ip_probe_kind. */
void rt_record_values(const struct rt_frame *frame, uint32_t payload, uint32_t kind);

/* Reads up to `size` bytes of the process, at most a page. The memory may be unmapped. Returns the
 * number of bytes up to the first page that is not mapped. This takes a system call; returns 0 if
 * hooks may not make one. */
uint64_t rt_read(uint64_t address, void *to, uint64_t size);

/* Memory to read; the layout is that of struct iovec. */
struct rt_piece {
	uintptr_t address, size;
};

/* Reads n pieces, size bytes together, one behind the other. The memory may be unmapped. Returns
 * the number of bytes up to the first one that cannot be read. This takes a system call; returns 0
 * if hooks may not make one. */
uint64_t rt_gather(const struct rt_piece *from, uint32_t n, void *to, uint64_t size);

#endif
