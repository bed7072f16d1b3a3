/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ports of tcp at which the trace's processes accept connections, by the names of their
 * descriptors. A connection with such a port at its own end was accepted; any other one was made by
 * the process itself.
 */
#ifndef IP_SERVICE_PORTS_H
#define IP_SERVICE_PORTS_H

#include <stdbool.h>
#include <stdint.h>

#include "analysis/wait/descriptors/descriptors.h"

#define IP_CONNECTION_BETWEEN " - " /* the ends of a connection, in its name */

struct ip_service_ports {
	uint64_t bits[65536 / 64];
};

void ip_service_ports_read(const struct ip_descriptors *descriptors, struct ip_service_ports *ret);

/* Whose work a socket brings, by its name. */
enum ip_socket_role {
	IP_SOCKET_OTHER,    /* not known, or a pair */
	IP_SOCKET_WAITS,    /* it waits for connections */
	IP_SOCKET_ACCEPTED, /* a client's: its own end is one that accepts */
	IP_SOCKET_MADE,	    /* the process has connected to another one */
	IP_SOCKET_DATAGRAM, /* its peers come with each datagram */
};
enum ip_socket_role ip_service_ports_role(const struct ip_service_ports *ports, const char *name);

#endif
