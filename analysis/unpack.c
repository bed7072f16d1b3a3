/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading one compressed packet.
 */
#include "analysis/unpack.h"

#include <stdlib.h>

#include "common/error.h"
#include "common/file.h"

struct ip_unpack {
	struct ip_squeezer *squeezer;
	uint8_t *bytes;
	uint64_t *words;
	size_t bytes_room, words_room;
};

struct ip_unpack *ip_unpack_create(void)
{
	struct ip_unpack *u = calloc(1, sizeof(*u));

	if (!u) {
		ip_error("out of memory");
		return NULL;
	}
	u->squeezer = ip_squeezer_create();
	if (!u->squeezer) {
		free(u);
		return NULL;
	}
	return u;
}

void ip_unpack_destroy(struct ip_unpack *u)
{
	if (!u)
		return;
	ip_squeezer_destroy(u->squeezer);
	free(u->bytes);
	free(u->words);
	free(u);
}

static size_t words_of(const struct ip_squeezed_head *head)
{
	return (head->header.content_size / 8 - sizeof(head->header)) / sizeof(uint64_t);
}

const char *ip_unpack_check(const struct ip_squeezed_head *head)
{
	if (head->header.packet_size != head->header.content_size || words_of(head) > IP_SQUEEZED_WORDS_MAX ||
	    head->bytes > ip_squeezed_room(words_of(head)))
		return "packet of an impossible size";
	if (head->form == IP_SQUEEZED_PLAIN)
		return head->bytes == words_of(head) * sizeof(uint64_t) &&
				       head->skip == IP_SQUEEZED_SKIP + head->bytes
			       ? NULL
			       : "packet of an impossible size";
	return head->form == IP_SQUEEZED_COLUMNS && head->skip == IP_SQUEEZED_SKIP
		       ? NULL
		       : "packet that is compressed in an unknown way";
}

static int make_room(void *array, size_t *room, size_t n, size_t size)
{
	void **p = array, *grown;

	if (n <= *room)
		return 0;
	grown = reallocarray(*p, n, size);
	if (!grown)
		return ip_error("out of memory");
	*p = grown;
	*room = n;
	return 0;
}

int ip_unpack_read(struct ip_unpack *u, int fd, const char *path, uint64_t offset,
		   const struct ip_squeezed_head *head, const uint64_t **ret)
{
	size_t n = words_of(head);

	*ret = NULL;
	if (make_room(&u->bytes, &u->bytes_room, head->bytes + 1, 1) < 0 ||
	    make_room(&u->words, &u->words_room, n + 1, sizeof(*u->words)) < 0 ||
	    ip_read_at(fd, path, offset + sizeof(*head), u->bytes, head->bytes) < 0)
		return -1;
	if (ip_unsqueeze(u->squeezer, head, u->bytes, u->words, n) == 0)
		*ret = u->words;
	return 0;
}
