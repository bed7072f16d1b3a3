/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unpacks the packets of a compressed stream (common/trace/packet_codec.h) for the reader of the
 * stream. The file is input from outside: this code checks what a head claims before it
 * allocates anything for it.
 */
#ifndef IP_UNPACK_H
#define IP_UNPACK_H

#include <stddef.h>
#include <stdint.h>

#include "common/trace/packet_codec.h"

/* The memory that unpacking needs, some 200 KB. Any number of streams that are read in turn
 * share it. */
struct ip_unpack;

/* Returns NULL with an error. */
struct ip_unpack *ip_unpack_create(void);
void ip_unpack_destroy(struct ip_unpack *u);

/* Returns what is wrong with a head, or NULL. The caller has checked the packet header in it as
 * it checks any packet header. */
const char *ip_unpack_check(const struct ip_encoded_packet_header *head);

/* Returns how many words the packet has. */
size_t ip_unpack_words(const struct ip_encoded_packet_header *head);

/* Reads the compressed bytes that follow the head, from offset of the file, and unpacks the
 * packet's words into words. Returns 1; 0 where they are damaged; -1 with an error where reading
 * fails. */
int ip_unpack_read(struct ip_unpack *u, int fd, const char *path, uint64_t offset,
		   const struct ip_encoded_packet_header *head, uint64_t *words);

#endif
