/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packets made small. A compressed stream, DIR/stream-N.zst, is a sequence of them:
 *
 *   struct ip_encoded_packet_head      a skippable frame of zstd's; has the packet's header as the
 *                                      plain stream would
 *   a frame of zstd's            the packet's words in columns (or, where the head says so,
 *                                nothing: the words lie in the head's own frame, as they are)
 *
 * Columns: of each word the time and the stack pointer's bits are replaced by their difference to
 * those of the word before it (0 for the first), modulo their width, and the word's bits are put in
 * another order:
 *
 *   bits  0..28  difference of bits 3..31 (time)      bits 29..31  bits 0..2 (event id)
 *   bits 32..52  bits 32..52 (probe number) bits 53..63 difference of bits 53..63 (stack pointer)
 *
 * Then come the lowest bytes of all words, then their second bytes, and so on. Any words can be put
 * into columns and back, records or not. A call that is made again and again has equal bytes in
 * each column but one; as they lie in a plain stream it has not two words alike.
 *
 * Every packet stands for itself: a file that is cut off is good up to its last whole packet, and
 * one that is damaged (zstd's checksum tells) up to the next.
 */
#ifndef IP_PACKET_CODEC_H
#define IP_PACKET_CODEC_H

#include <stddef.h>
#include <stdint.h>

#include "common/trace_format.h"

#define IP_ENCODED_PACKET_MAGIC	    0x184d2a5eu /* one of those that zstd skips */
#define IP_ENCODED_PACKET_SUFFIX    ".zst"
#define IP_ENCODED_PACKET_WORDS_MAX 65536u /* of a packet; ours have 4095 */

enum ip_encoded_packet_form {
	IP_ENCODED_PACKET_PLAIN = 0,
	IP_ENCODED_PACKET_COLUMNS = 1,
};

struct ip_encoded_packet_head {
	uint32_t magic;
	uint32_t skip; /* bytes of the skippable frame behind this field */
	struct ip_packet_header header;
	uint32_t form;	/* enum ip_encoded_packet_form */
	uint32_t bytes; /* of what follows this head */
} __attribute__((packed));

_Static_assert(sizeof(struct ip_encoded_packet_head) == 96, "head of a compressed packet");

#define IP_ENCODED_PACKET_SKIP (sizeof(struct ip_encoded_packet_head) - 8)

/* Room that a packet of n words needs at most. */
size_t ip_encoded_packet_room(size_t n);

struct ip_packet_codec;

/* NULL with an error. One thread at a time may use it. */
struct ip_packet_codec *ip_packet_codec_create(void);
void ip_packet_codec_destroy(struct ip_packet_codec *s);

/* The packet, into out. The number of bytes. Words that cannot be made smaller stay plain. */
size_t ip_packet_encode(struct ip_packet_codec *s, const struct ip_packet_header *header,
			const uint64_t *words, size_t n, void *out);

/* The same, plain, which takes no longer than copying. */
size_t ip_packet_encode_plain(const struct ip_packet_header *header, const uint64_t *words,
			      size_t n, void *out);

/* Back: from head->bytes bytes behind the head to n words, which are as many as the header says. 0;
 * -1 (no error is set): they are damaged. */
int ip_unsqueeze(struct ip_packet_codec *s, const struct ip_encoded_packet_head *head,
		 const void *bytes, uint64_t *words, size_t n);

#endif
