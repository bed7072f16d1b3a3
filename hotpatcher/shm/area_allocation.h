/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocating memory of an area beside other work. To allocate and zero the first sub-buffers takes
 * milliseconds. No thread of the target needs them before a site is live, so a thread of iprobe
 * does it meanwhile.
 */
#ifndef IP_AREA_ALLOCATION_H
#define IP_AREA_ALLOCATION_H

#include <stdint.h>

struct ip_area_allocation;

/* Begins to allocate bytes of the file. fd is borrowed until ip_area_allocation_finish(). A little
 * memory is allocated at once, and all of it if no thread can be made: then *ret is NULL. Returns
 * 0, or errno. */
int ip_area_allocation_start(int fd, uint64_t offset, uint64_t size,
			     struct ip_area_allocation **ret);

/* Waits until all is allocated, and frees the allocation, which may be NULL. Returns 0, or errno.
 */
int ip_area_allocation_finish(struct ip_area_allocation *allocation);

#endif
