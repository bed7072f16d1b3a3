/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that read and check packets of streams of the kernel before somebody asks for them.
 *
 * Each stream has a queue of packets. A stream is read by one at a time: by one of the threads, or
 * by whoever asks for its next packet and finds none. So what is handed out is the same with any
 * number of threads, and without any.
 */
#ifndef IP_KERNEL_READAHEAD_H
#define IP_KERNEL_READAHEAD_H

#include <stddef.h>

#include "analysis/read/kernel_packets.h"

struct ip_kernel_readahead;

/* Without threads, at first. streams: n of them, which stay the caller's, who does not use them
 * until the end of this; NULL: one without files. NULL with an error. */
struct ip_kernel_readahead *ip_kernel_readahead_begin(struct ip_kernel_packets *const *streams,
						      size_t n);
/* Begins to read with at most so many threads; once. Returns 0, or -1 with an error. */
int ip_kernel_readahead_use(struct ip_kernel_readahead *ahead, size_t threads);
/* As ip_kernel_packets_next() of streams[i]. *packet, which is zero or an earlier packet, is given
 * back. */
int ip_kernel_readahead_next(struct ip_kernel_readahead *ahead, size_t i,
			     struct ip_kernel_packet *packet);
void ip_kernel_readahead_end(struct ip_kernel_readahead *ahead);

#endif
