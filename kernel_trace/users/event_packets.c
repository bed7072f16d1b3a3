/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends events of the kernel.
 */
#include "kernel_trace/users/event_packets.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "common/error.h"

struct ip_event_packet {
	struct ip_event_message head;
	uint8_t bytes[IP_EVENT_PACKET_MAX - sizeof(struct ip_event_message)];
};

static int send_all(int socket, const void *data, size_t size)
{
	ssize_t n;

	do
		n = send(socket, data, size, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	if (n == (ssize_t)size)
		return 0;
	ip_error_errno("cannot send events to the worker");
	shutdown(socket, SHUT_RDWR);
	return -1;
}

int ip_event_send_word(int socket, enum ip_event_word word, uint64_t size, const char *text)
{
	struct ip_event_packet p = {.head = {.word = word, .size = size}};
	size_t n = text ? strnlen(text, 4096) : 0;

	if (n)
		memcpy(p.bytes, text, n);
	return send_all(socket, &p, sizeof(p.head) + n);
}

int ip_event_send(int socket, struct ip_event_writer *o)
{
	struct ip_event_message lost;

	if (o->used && send_all(socket, o->packet, sizeof(o->packet->head) + o->used) < 0)
		return -1;
	o->used = 0;
	if (!o->lost)
		return 0;
	lost = o->packet->head;
	lost.word = IP_EVENT_LOST;
	o->lost = false;
	return send_all(socket, &lost, sizeof(lost));
}

static int prepare(struct ip_event_writer *o, bool all, uint32_t cpu)
{
	if (o->packet)
		return 0;
	o->packet = calloc(1, sizeof(*o->packet));
	if (!o->packet)
		return ip_error("out of memory");
	o->packet->head =
		(struct ip_event_message){.word = IP_EVENT_EVENTS, .cpu = cpu, .all = all};
	return 0;
}

int ip_event_gather(int socket, struct ip_event_writer *o, bool all, uint32_t cpu,
		    const uint8_t *event, size_t size)
{
	if (prepare(o, all, cpu) < 0 || ((o->lost || o->used + size > sizeof(o->packet->bytes)) &&
					 ip_event_send(socket, o) < 0))
		return -1;
	memcpy(o->packet->bytes + o->used, event, size);
	o->used += size;
	return 0;
}

int ip_event_gather_loss(struct ip_event_writer *o, bool all, uint32_t cpu)
{
	if (prepare(o, all, cpu) < 0)
		return -1;
	o->lost = true;
	return 0;
}

void ip_event_writer_clear(struct ip_event_writer *o)
{
	free(o->packet);
	*o = (struct ip_event_writer){0};
}

bool ip_event_receive(int socket, struct ip_event_message *ret)
{
	struct iovec part = {.iov_base = ret, .iov_len = sizeof(*ret)};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
	ssize_t n;

	do
		n = recvmsg(socket, &message, MSG_PEEK);
	while (n < 0 && errno == EINTR);
	if (n != sizeof(*ret) || message.msg_flags & (MSG_CTRUNC | MSG_TRUNC))
		return false;
	return recv(socket, ret, sizeof(*ret), 0) == sizeof(*ret);
}
