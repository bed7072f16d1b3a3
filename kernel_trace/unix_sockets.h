/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two ends of connections of unix(7), by the kernel's table (sock_diag(7)). Their paths are
 * not read: a process may bind any text.
 */
#ifndef IP_UNIX_SOCKETS_H
#define IP_UNIX_SOCKETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ip_unix_socket {
	uint32_t inode, peer; /* peer: of the other end; 0: it has none */
	bool bound;	      /* it has a path, as those have that were accepted */
};

struct ip_unix_sockets {
	struct ip_unix_socket *items; /* by inode */
	size_t n;
};

/* Reads the sockets of our own network namespace, at most so many. *ret: the caller frees items in
 * any case. Where the kernel has no such table it is empty. */
void ip_unix_sockets_read(size_t most, struct ip_unix_sockets *ret);

/* Writes both ends of a socket: "unix bound:[12] - [13]". Returns false: it is not there, or has no
 * other end. */
bool ip_unix_socket_name(const struct ip_unix_sockets *sockets, unsigned long inode, char *ret,
			 size_t size);

#endif
