/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes messages of Protocol Buffers ("Encoding", protobuf.dev). Exports need only two kinds of
 * fields: variable-length numbers (wire type 0) and length-delimited fields (wire type 2).
 *
 * A message is made in memory, from the first field to the last. Where memory runs out the
 * message is marked as failed, and nothing more is added.
 */
#ifndef IP_PROTOBUF_H
#define IP_PROTOBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All zero: an empty message. */
struct ip_message {
	uint8_t *bytes;
	size_t n, room;
	bool failed;
};

void ip_message_deinit(struct ip_message *m);

/* Empties the message and keeps its memory for the next one. */
void ip_message_reset(struct ip_message *m);

/* Adds an element of a packed list. The list is a message of its own, which is then added as
 * bytes. */
void ip_message_element(struct ip_message *m, uint64_t n);

/* A number of 0 is written, too. */
void ip_message_number(struct ip_message *m, unsigned field, uint64_t n);
void ip_message_bytes(struct ip_message *m, unsigned field, const void *bytes, size_t n);
/* text must be UTF-8. */
void ip_message_string(struct ip_message *m, unsigned field, const char *text);
/* Adds inner as it is now. If inner has failed, m fails. */
void ip_message_message(struct ip_message *m, unsigned field, const struct ip_message *inner);

#endif
