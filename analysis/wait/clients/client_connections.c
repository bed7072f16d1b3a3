/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds clients by the names of descriptors, and by what accept(2) has returned.
 */
#include "analysis/wait/clients/client_connections.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/error.h"

#define BETWEEN " - " /* the ends of a connection */
#define CLOSED_AT_ONCE                                                                             \
	4096 /* descriptors: nobody has more, and a range may reach to the last number */

static bool has_port(const struct ip_client_connections *c, unsigned port)
{
	return port < 65536 && c->ports[port / 64] >> port % 64 & 1;
}

/* The port behind the last colon before end. */
static unsigned port_before(const char *text, const char *end)
{
	while (end > text && end[-1] != ':')
		end--;
	return end > text ? strtoul(end, NULL, 10) : UINT32_MAX;
}

static void read_ports(struct ip_client_connections *c)
{
	for (size_t i = 0; i < c->descriptors->n; i++) {
		const char *text = c->descriptors->items[i].text;
		unsigned port;

		if (strncmp(text, "tcp ", 4) || strstr(text, BETWEEN))
			continue;
		port = port_before(text, text + strlen(text));
		if (port < 65536)
			c->ports[port / 64] |= 1ull << port % 64;
	}
}

static uint64_t hash_text(const char *text, size_t n, uint64_t value)
{
	while (n--)
		value = (value ^ (unsigned char)*text++) * 0x100000001b3ull;
	return value;
}

/* A number for a connection as its other end names it: 0 where its name has no two ends. Two
 * connections of the same number are possible, and next to impossible: 64 bits of a hash. */
static uint64_t end_of(const char *text, bool other)
{
	const char *between = strstr(text, BETWEEN), *space = strchr(text, ' ');
	const char *far = between ? between + strlen(BETWEEN) : NULL;
	uint64_t value = 0xcbf29ce484222325ull;

	if (!between || !space || space >= between)
		return 0;
	value = hash_text(text, space - text, value);
	if (other) {
		value = hash_text(far, strlen(far), value);
		return hash_text(space + 1, between - space - 1, value * 31) | 1;
	}
	value = hash_text(space + 1, between - space - 1, value);
	return hash_text(far, strlen(far), value * 31) | 1;
}

static int grow_texts(struct ip_client_connections *c)
{
	size_t size = c->by_text_size ? 2 * c->by_text_size : 256;
	size_t *slots = calloc(size, sizeof(*slots));

	if (!slots)
		return ip_error("out of memory");
	for (size_t i = 0; i < c->nclients; i++) {
		const char *text = c->clients[i];
		size_t at = (text ? hash_text(text, strlen(text), 1) : 0) & (size - 1);

		while (slots[at])
			at = (at + 1) & (size - 1);
		slots[at] = i + 1;
	}
	free(c->by_text);
	c->by_text = slots;
	c->by_text_size = size;
	return 0;
}

/* The client of a connection. text: NULL where its name is not known. */
static int add_client(struct ip_client_connections *c, const char *text, uint32_t *ret)
{
	size_t at;

	if (2 * (c->nclients + 1) > c->by_text_size && grow_texts(c) < 0)
		return -1;
	at = (text ? hash_text(text, strlen(text), 1) : 0) & (c->by_text_size - 1);
	for (; c->by_text[at]; at = (at + 1) & (c->by_text_size - 1)) {
		const char *there = c->clients[c->by_text[at] - 1];

		if (there == text || (there && text && !strcmp(there, text))) {
			*ret = c->by_text[at] - 1;
			return 0;
		}
	}
	if (c->nclients >= IP_NOBODY - 1)
		return ip_error("the trace has too many connections");
	if (ip_array_grow(&c->clients, c->nclients, sizeof(*c->clients)) < 0)
		return -1;
	c->clients[c->nclients++] = text;
	c->by_text[at] = c->nclients;
	*ret = c->nclients - 1;
	return 0;
}

static uint64_t descriptor_key(uint32_t pid, int32_t fd)
{
	return (uint64_t)pid << 32 | (uint32_t)fd;
}

/* Whether it is the end of a connection of unix(7) that waited for it: its other end has no path.
 */
static bool is_bound(const char *text)
{
	return !strncmp(text, "unix bound:", 11) && strstr(text, BETWEEN "[");
}

enum ip_wait_kind ip_client_connections_kind(const struct ip_client_connections *c, int32_t tid,
					     int32_t fd, uint64_t tsc)
{
	const uint32_t pid = fd >= 0 ? c->pid_of(c->context, tid, tsc) : 0;

	return pid ? ip_descriptors_kind(c->descriptors, pid, fd, tsc) : IP_WAIT_OTHER;
}

int ip_client_connections_find(struct ip_client_connections *c, int32_t tid, int32_t fd,
			       uint64_t tsc, uint32_t *ret)
{
	const uint32_t pid = fd >= 0 ? c->pid_of(c->context, tid, tsc) : 0;
	const struct ip_descriptor *d =
		pid ? ip_descriptors_find(c->descriptors, pid, fd, tsc) : NULL;
	const bool accepted = pid && ip_number_map_get(&c->accepted, descriptor_key(pid, fd));
	const char *between = d ? strstr(d->text, BETWEEN) : NULL;
	uint32_t handed;

	*ret = IP_NOBODY;
	if (!pid || (d && d->kind != IP_WAIT_SOCKET))
		return 0;
	if (!d)
		return accepted ? add_client(c, NULL, ret) : 0;
	handed = between ? ip_number_map_get(&c->handed_on, end_of(d->text, false)) : 0;
	if (handed) {
		*ret = handed - 1;
		return 0;
	}
	if (accepted || is_bound(d->text) ||
	    (between && !strncmp(d->text, "tcp", 3) && has_port(c, port_before(d->text, between))))
		return add_client(c, d->text, ret);
	return 0;
}

int ip_client_connections_accept(struct ip_client_connections *c, int32_t tid, int64_t fd,
				 uint64_t tsc)
{
	const uint32_t pid = c->pid_of(c->context, tid, tsc);

	if (!pid || fd < 0 || fd > INT32_MAX)
		return 0;
	return ip_number_map_put(&c->accepted, descriptor_key(pid, fd), 1);
}

int ip_client_connections_close(struct ip_client_connections *c, int32_t tid, uint64_t from,
				uint64_t to, uint64_t tsc)
{
	const uint32_t pid = c->pid_of(c->context, tid, tsc);

	to = to < from + CLOSED_AT_ONCE ? to : from + CLOSED_AT_ONCE;
	for (uint64_t fd = from; pid && fd <= to; fd++)
		if (ip_number_map_get(&c->accepted, descriptor_key(pid, fd)) &&
		    ip_number_map_put(&c->accepted, descriptor_key(pid, fd), 0) < 0)
			return -1;
	return 0;
}

int ip_client_connections_hand_on(struct ip_client_connections *c, int32_t tid, int32_t fd,
				  uint64_t tsc, uint32_t client)
{
	const uint32_t pid = fd >= 0 ? c->pid_of(c->context, tid, tsc) : 0;
	const struct ip_descriptor *d =
		pid ? ip_descriptors_find(c->descriptors, pid, fd, tsc) : NULL;
	const uint64_t other = d && d->kind == IP_WAIT_SOCKET ? end_of(d->text, true) : 0;

	if (!other || (client == IP_NOBODY && !ip_number_map_get(&c->handed_on, other)))
		return 0;
	return ip_number_map_put(&c->handed_on, other, client == IP_NOBODY ? 0 : client + 1);
}

void ip_client_connections_lose(struct ip_client_connections *c)
{
	ip_number_map_clear(&c->accepted);
	ip_number_map_clear(&c->handed_on);
}

void ip_client_connections_init(struct ip_client_connections *c,
				const struct ip_descriptors *descriptors,
				uint32_t (*pid_of)(const void *context, int32_t tid, uint64_t tsc),
				const void *context)
{
	*c = (struct ip_client_connections){
		.descriptors = descriptors, .pid_of = pid_of, .context = context};
	read_ports(c);
}

void ip_client_connections_clear(struct ip_client_connections *c)
{
	ip_client_connections_lose(c);
	free(c->clients);
	free(c->by_text);
	*c = (struct ip_client_connections){0};
}
