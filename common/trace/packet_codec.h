/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compression of packets. A compressed stream, DIR/stream-N.zst, is a sequence of pairs:
 *
 *   struct ip_encoded_packet_header   a skippable frame of zstd; it contains the packet's header as
 *                                   in the plain stream
 *   a frame of zstd                 the packet's words in columns. If the head says so, this frame
 *                                   is missing, and the words lie unchanged in the head's own frame
 *
 * Columns: in each word, the time and the bits of the stack pointer are replaced by their
 * difference to those of the word before it (0 for the first), modulo their width. The word's bits
 * are put into another order:
 *
 *   bits  0..28  difference of bits 3..31 (time)
 *   bits 29..31  bits 0..2 (event id)
 *   bits 32..52  bits 32..52 (probe number)
 *   bits 53..63  difference of bits 53..63 (stack pointer)
 *
 * Then come the lowest bytes of all words, then their second bytes, and so on. Any words can be put
 * into columns and back, whether they are records or not. A call that is made again and again has
 * equal bytes in each column but one. In a plain stream such calls have not even two equal words.
 *
 * Every packet stands for itself. A file that is cut off is good up to its last whole packet. A
 * file that is damaged (zstd's checksum tells) is good again from the next packet on.
 */
#ifndef IP_PACKET_CODEC_H
#define IP_PACKET_CODEC_H

#include <stddef.h>
#include <stdint.h>

#include "common/trace/trace_format.h"

#define IP_ENCODED_PACKET_MAGIC	    0x184d2a5eu /* one of the magic numbers that zstd skips */
#define IP_ENCODED_PACKET_SUFFIX    ".zst"
#define IP_ENCODED_PACKET_WORDS_MAX 65536u /* words of a packet; those of iprobe have 4095 */

enum ip_encoded_packet_form {
	IP_ENCODED_PACKET_PLAIN = 0,
	IP_ENCODED_PACKET_COLUMNS = 1,
};

struct ip_encoded_packet_header {
	uint32_t magic;
	uint32_t skip; /* bytes of the skippable frame after this member */
	struct ip_packet_header header;
	uint32_t form;	/* enum ip_encoded_packet_form */
	uint32_t bytes; /* bytes that follow this head */
} __attribute__((packed));

_Static_assert(sizeof(struct ip_encoded_packet_header) == 96, "head of a compressed packet");

#define IP_ENCODED_PACKET_SKIP (sizeof(struct ip_encoded_packet_header) - 8)

/* The largest number of bytes that a packet of n words needs. */
size_t ip_encoded_packet_room(size_t n);

struct ip_packet_codec;

/* Returns NULL with an error. Only one thread at a time may use it. */
struct ip_packet_codec *ip_packet_codec_create(void);
void ip_packet_codec_destroy(struct ip_packet_codec *s);

/* Writes the packet into out. Returns the number of bytes. Words that cannot be compressed stay
 * plain. */
size_t ip_packet_encode(struct ip_packet_codec *s, const struct ip_packet_header *header,
			const uint64_t *words, size_t n, void *out);

/* The same, but plain. It takes no longer than copying. */
size_t ip_packet_encode_plain(const struct ip_packet_header *header, const uint64_t *words,
			      size_t n, void *out);

/* The reverse: turns the head->bytes bytes after the head into n words, as many as the header says.
 * Returns 0; -1 (without an error line): the bytes are damaged. */
int ip_packet_decode(struct ip_packet_codec *s, const struct ip_encoded_packet_header *head,
		     const void *bytes, uint64_t *words, size_t n);

#endif
