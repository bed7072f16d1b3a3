/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The newest events of the kernel, in memory (a flight recorder, --overwrite). They are in
 * segments, as they are on disk (common/trace/kernel_format.h): what has no room any more is
 * dropped by whole segments, the oldest first.
 *
 * One thread adds, another one may write a trace meanwhile. What is written are the segments of the
 * moment at which that began: they stay until it is done.
 */
#ifndef IP_KERNEL_SEGMENTS_H
#define IP_KERNEL_SEGMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ip_kernel_segments;

/* most: bytes of all segments. The first segment, 0, is begun. Returns NULL with an error. */
struct ip_kernel_segments *ip_kernel_segments_create(uint64_t most);
/* Nobody may be writing. NULL is allowed. */
void ip_kernel_segments_destroy(struct ip_kernel_segments *segments);

/* Appends to a file of the newest segment. path: in the directory of a trace. Returns 0, or -1 with
 * an error: out of memory. */
int ip_kernel_segments_add(struct ip_kernel_segments *segments, const char *path, const void *data,
			   size_t size);

/* Whether the newest segment has its share: another one is to be begun. */
bool ip_kernel_segments_is_full(const struct ip_kernel_segments *segments);

/* Begins the next segment. Returns its number. */
uint32_t ip_kernel_segments_begin(struct ip_kernel_segments *segments);

/* The oldest segment that there is. */
uint32_t ip_kernel_segments_first(const struct ip_kernel_segments *segments);

/* Writes the newest segments, of at most so many bytes, into the directory of a trace. *ret_first,
 * *ret_bytes: the oldest one that was written, and how much that was. Returns 0, or -1 with an
 * error and errno. */
int ip_kernel_segments_write(struct ip_kernel_segments *segments, int dir, uint64_t most,
			     uint32_t *ret_first, uint64_t *ret_bytes);

#endif
