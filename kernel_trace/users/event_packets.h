/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the reader of kernel events sends (event_protocol.h): events are gathered to packets.
 */
#ifndef IP_EVENT_PACKETS_H
#define IP_EVENT_PACKETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernel_trace/users/event_protocol.h"

struct ip_event_packet;

/* What is to be sent of a stream. It begins as zeros. */
struct ip_event_writer {
	struct ip_event_packet *packet; /* NULL: nothing was sent yet */
	size_t used;
	bool lost; /* something is missing behind what is in the packet */
};

/* Each returns 0, or -1 with an error: then the socket is shut down, unless memory ran out. all,
 * cpu: as in the message. */
int ip_event_gather(int socket, struct ip_event_writer *writer, bool all, uint32_t cpu,
		    const uint8_t *event, size_t size);
int ip_event_gather_loss(struct ip_event_writer *writer, bool all, uint32_t cpu);
/* Sends what is gathered. */
int ip_event_send(int socket, struct ip_event_writer *writer);
void ip_event_writer_clear(struct ip_event_writer *writer);

/* text: NULL: none. */
int ip_event_send_word(int socket, enum ip_event_word word, uint64_t size, const char *text);

/* Takes what the worker asks for next. Whoever is at the other end may send descriptors along. Each
 * would be closed here, however long that takes, so such a packet is left in the socket. Returns
 * false where there is nothing more to serve. */
bool ip_event_receive(int socket, struct ip_event_message *ret);

#endif
