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

#define BETWEEN	       IP_CONNECTION_BETWEEN
#define INHERITED_MOST 1000000000u /* descriptors that children may inherit, all together */
#define CLOSED_AT_ONCE                                                                             \
	4096 /* descriptors: nobody has more, and a range may reach to the last number */

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
		size_t at = text ? hash_text(text, strlen(text), 1) & (size - 1) : 0;

		if (!text)
			continue;
		while (slots[at])
			at = (at + 1) & (size - 1);
		slots[at] = i + 1;
	}
	free(c->by_text);
	c->by_text = slots;
	c->by_text_size = size;
	return 0;
}

/* Adds a connection. text: NULL where its name is not known yet. */
static int add(struct ip_client_connections *c, const char *text, uint32_t *ret)
{
	if (c->nclients >= IP_NOBODY - 1)
		return ip_error("the trace has too many connections");
	if (ip_array_grow(&c->clients, c->nclients, sizeof(*c->clients)) < 0)
		return -1;
	c->clients[c->nclients++] = text;
	*ret = c->nclients - 1;
	return 0;
}

/* The client of a connection by its name. accepted: the one that it was so far, without a name;
 * IP_NOBODY: none. */
static int named_client(struct ip_client_connections *c, const char *text, uint32_t accepted,
			uint32_t *ret)
{
	size_t at;

	if (2 * (c->nclients + 1) > c->by_text_size && grow_texts(c) < 0)
		return -1;
	at = hash_text(text, strlen(text), 1) & (c->by_text_size - 1);
	for (; c->by_text[at]; at = (at + 1) & (c->by_text_size - 1))
		if (!strcmp(c->clients[c->by_text[at] - 1], text)) {
			*ret = c->by_text[at] - 1;
			return 0;
		}
	if (accepted != IP_NOBODY && !c->clients[accepted]) {
		c->clients[accepted] = text;
		*ret = accepted;
	} else if (add(c, text, ret) < 0) {
		return -1;
	}
	c->by_text[at] = *ret + 1;
	return 0;
}

/* What a socket of datagrams has done first. */
enum { SERVES = 1, ASKS };

static uint64_t text_key(const char *text)
{
	return hash_text(text, strlen(text), 1) | 1;
}

static uint64_t descriptor_key(uint32_t pid, int32_t fd)
{
	return (uint64_t)pid << 32 | (uint32_t)fd;
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
	const uint32_t accepted =
		pid ? ip_number_map_get(&c->accepted, descriptor_key(pid, fd)) - 1 : IP_NOBODY;
	const char *between = d ? strstr(d->text, BETWEEN) : NULL;
	enum ip_socket_role role;
	uint32_t handed;

	*ret = IP_NOBODY;
	if (!pid || (d && d->kind != IP_WAIT_SOCKET))
		return 0;
	if (!d) {
		*ret = accepted;
		return 0;
	}
	handed = between ? ip_number_map_get(&c->handed_on, end_of(d->text, false)) : 0;
	if (handed) {
		*ret = handed - 1;
		return 0;
	}
	role = ip_service_ports_role(&c->ports, d->text);
	if (ip_client_connections_is_datagram(c, d->text)
		    ? ip_number_map_get(&c->datagrams, text_key(d->text)) != SERVES
		    : accepted == IP_NOBODY && role != IP_SOCKET_ACCEPTED)
		return 0;
	if (named_client(c, d->text, accepted, ret) < 0)
		return -1;
	/* it may have got a name in another process before */
	return accepted == IP_NOBODY || accepted == *ret
		       ? 0
		       : ip_number_map_put(&c->accepted, descriptor_key(pid, fd), *ret + 1);
}

int ip_client_connections_transfer(struct ip_client_connections *c, int32_t tid, int32_t fd,
				   uint64_t tsc, bool receives)
{
	const uint32_t pid = fd >= 0 ? c->pid_of(c->context, tid, tsc) : 0;
	const struct ip_descriptor *d =
		pid ? ip_descriptors_find(c->descriptors, pid, fd, tsc) : NULL;

	if (!d || d->kind != IP_WAIT_SOCKET || !ip_client_connections_is_datagram(c, d->text) ||
	    ip_number_map_get(&c->datagrams, text_key(d->text)))
		return 0;
	return ip_number_map_put(&c->datagrams, text_key(d->text), receives ? SERVES : ASKS);
}

bool ip_client_connections_is_datagram(const struct ip_client_connections *c, const char *text)
{
	const enum ip_socket_role role = ip_service_ports_role(&c->ports, text);

	/* a socket of unix(7) that waits for connections receives nothing */
	return role == IP_SOCKET_DATAGRAM ||
	       (role == IP_SOCKET_WAITS && !strncmp(text, "unix ", 5));
}

/* The descriptors of a process that are clients'. NULL with an error. */
static struct ip_accepted_list *list_of(struct ip_client_connections *c, uint32_t pid)
{
	const uint32_t at = ip_number_map_get(&c->by_pid, pid);
	const struct ip_accepted_list none = {0};

	if (at)
		return &c->lists[at - 1];
	if (c->nlists >= UINT32_MAX - 1) {
		ip_error("too many processes");
		return NULL;
	}
	if (ip_array_grow(&c->lists, c->nlists, sizeof(none)) < 0 ||
	    ip_number_map_put(&c->by_pid, pid, c->nlists + 1) < 0)
		return NULL;
	c->lists[c->nlists] = none;
	return &c->lists[c->nlists++];
}

/* client: IP_NOBODY: the descriptor is closed. */
static int set(struct ip_client_connections *c, uint32_t pid, int32_t fd, uint32_t client)
{
	const uint64_t key = descriptor_key(pid, fd);
	const bool was = ip_number_map_get(&c->accepted, key), is = client != IP_NOBODY;
	struct ip_accepted_list *list = was != is ? list_of(c, pid) : NULL;

	if (was != is && !list)
		return -1;
	if (is && !was) {
		if (ip_array_grow(&list->fds, list->n, sizeof(*list->fds)) < 0)
			return -1;
		list->fds[list->n++] = fd;
	} else if (was && !is) {
		for (size_t i = list->n; i--;)
			if (list->fds[i] == fd) {
				list->fds[i] = list->fds[--list->n];
				break;
			}
	}
	return was || is ? ip_number_map_put(&c->accepted, key, is ? client + 1 : 0) : 0;
}

int ip_client_connections_fork(struct ip_client_connections *c, uint32_t parent, uint32_t child)
{
	const uint32_t at = ip_number_map_get(&c->by_pid, parent);
	const struct ip_accepted_list *old =
		ip_number_map_get(&c->by_pid, child) ? list_of(c, child) : NULL;

	while (old && old->n) /* of a process that had the pid before */
		if (set(c, child, old->fds[old->n - 1], IP_NOBODY) < 0)
			return -1;
	for (size_t i = 0; at && i < c->lists[at - 1].n; i++) {
		const int32_t fd = c->lists[at - 1].fds[i];

		if (++c->inherited > INHERITED_MOST)
			return ip_error("the kernel's events have too many forks");
		if (set(c, child, fd,
			ip_number_map_get(&c->accepted, descriptor_key(parent, fd)) - 1) < 0)
			return -1;
	}
	return 0;
}

int ip_client_connections_accept(struct ip_client_connections *c, int32_t tid, int64_t fd,
				 uint64_t tsc)
{
	const uint32_t pid = c->pid_of(c->context, tid, tsc);

	uint32_t client;

	if (!pid || fd < 0 || fd > INT32_MAX)
		return 0;
	return add(c, NULL, &client) < 0 ? -1 : set(c, pid, fd, client);
}

int ip_client_connections_close(struct ip_client_connections *c, int32_t tid, uint64_t from,
				uint64_t to, uint64_t tsc)
{
	const uint32_t pid = c->pid_of(c->context, tid, tsc);

	to = to < from + CLOSED_AT_ONCE ? to : from + CLOSED_AT_ONCE;
	for (uint64_t fd = from; pid && fd <= to; fd++)
		if (set(c, pid, fd, IP_NOBODY) < 0)
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
	ip_number_map_clear(&c->by_pid);
	for (size_t i = 0; i < c->nlists; i++)
		free(c->lists[i].fds);
	free(c->lists);
	c->lists = NULL;
	c->nlists = 0;
}

void ip_client_connections_init(struct ip_client_connections *c,
				const struct ip_descriptors *descriptors,
				uint32_t (*pid_of)(const void *context, int32_t tid, uint64_t tsc),
				const void *context)
{
	*c = (struct ip_client_connections){
		.descriptors = descriptors, .pid_of = pid_of, .context = context};
	ip_service_ports_read(descriptors, &c->ports);
}

void ip_client_connections_clear(struct ip_client_connections *c)
{
	ip_client_connections_lose(c);
	ip_number_map_clear(&c->datagrams);
	free(c->clients);
	free(c->by_text);
	*c = (struct ip_client_connections){0};
}
