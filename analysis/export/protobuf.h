/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of Protocol Buffers, as they are written ("Encoding", protobuf.dev): variable-length
 * numbers (wire type 0) and length-delimited fields (2) are all that exports need.
 *
 * A message is made in memory, from the first field to the last. Where that runs out it is marked,
 * and nothing more is added.
 */
#ifndef IP_PROTOBUF_H
#define IP_PROTOBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All zero: an empty one. */
struct ip_message {
	uint8_t *bytes;
	size_t n, room;
	bool failed;
};

void ip_message_deinit(struct ip_message *m);

/* Empties it; its memory stays for the next. */
void ip_message_reset(struct ip_message *m);

/* An element of a packed list, which is put as bytes of its own message. */
void ip_message_element(struct ip_message *m, uint64_t n);

/* Numbers of 0 are written, too. */
void ip_message_number(struct ip_message *m, unsigned field, uint64_t n);
void ip_message_bytes(struct ip_message *m, unsigned field, const void *bytes, size_t n);
/* Has to be UTF-8. */
void ip_message_string(struct ip_message *m, unsigned field, const char *text);
/* inner as it is now; a failure of it is m's. */
void ip_message_message(struct ip_message *m, unsigned field, const struct ip_message *inner);

#endif
