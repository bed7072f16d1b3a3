/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads one compressed packet.
 */
#include "analysis/read/unpack.h"

#include <stdlib.h>

#include "common/error.h"
#include "common/file.h"

struct ip_unpack {
	struct ip_packet_codec *codec;
	uint8_t *bytes;
	size_t room;
};

struct ip_unpack *ip_unpack_create(void)
{
	struct ip_unpack *u = calloc(1, sizeof(*u));

	if (!u) {
		ip_error("out of memory");
		return NULL;
	}
	u->codec = ip_packet_codec_create();
	if (!u->codec) {
		free(u);
		return NULL;
	}
	return u;
}

void ip_unpack_destroy(struct ip_unpack *u)
{
	if (!u)
		return;
	ip_packet_codec_destroy(u->codec);
	free(u->bytes);
	free(u);
}

size_t ip_unpack_words(const struct ip_encoded_packet_header *head)
{
	return (head->header.content_size / 8 - sizeof(head->header)) / sizeof(uint64_t);
}

const char *ip_unpack_check(const struct ip_encoded_packet_header *head)
{
	if (head->header.packet_size != head->header.content_size ||
	    ip_unpack_words(head) > IP_ENCODED_PACKET_WORDS_MAX ||
	    head->bytes > ip_encoded_packet_room(ip_unpack_words(head)))
		return "packet of an impossible size";
	if (head->form == IP_ENCODED_PACKET_PLAIN)
		return head->bytes == ip_unpack_words(head) * sizeof(uint64_t) &&
				       head->skip == IP_ENCODED_PACKET_SKIP + head->bytes
			       ? NULL
			       : "packet of an impossible size";
	return head->form == IP_ENCODED_PACKET_COLUMNS && head->skip == IP_ENCODED_PACKET_SKIP
		       ? NULL
		       : "packet that is compressed in an unknown way";
}

int ip_unpack_read(struct ip_unpack *u, int fd, const char *path, uint64_t offset,
		   const struct ip_encoded_packet_header *head, uint64_t *words)
{
	if (head->bytes > u->room) {
		uint8_t *bytes = realloc(u->bytes, head->bytes);

		if (!bytes)
			return ip_error("out of memory");
		u->bytes = bytes;
		u->room = head->bytes;
	}
	if (ip_read_at(fd, path, offset + sizeof(*head), u->bytes, head->bytes) < 0)
		return -1;
	return ip_packet_decode(u->codec, head, u->bytes, words, ip_unpack_words(head)) == 0;
}
