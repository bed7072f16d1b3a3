/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packets of a compressed stream (common/packet_codec.h) as their reader finds them. The file is
 * input from outside: what a head claims is checked before anything is allocated for it.
 */
#ifndef IP_UNPACK_H
#define IP_UNPACK_H

#include <stddef.h>
#include <stdint.h>

#include "common/packet_codec.h"

/* What unpacking needs, for any number of streams that are read by turns: some 200 KB. */
struct ip_unpack;

/* NULL with an error. */
struct ip_unpack *ip_unpack_create(void);
void ip_unpack_destroy(struct ip_unpack *u);

/* What is wrong with a head, or NULL. Its packet header must have been checked as any is. */
const char *ip_unpack_check(const struct ip_encoded_packet_head *head);

/* How many words the packet has. */
size_t ip_unpack_words(const struct ip_encoded_packet_head *head);

/* Reads what stands behind the head at offset of the file: the packet's words, into words. 1; 0:
 * they are damaged; -1 with an error where reading fails. */
int ip_unpack_read(struct ip_unpack *u, int fd, const char *path, uint64_t offset,
		   const struct ip_encoded_packet_head *head, uint64_t *words);

#endif
