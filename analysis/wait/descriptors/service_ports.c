/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the names of sockets.
 */
#include "analysis/wait/descriptors/service_ports.h"

#include <stdlib.h>
#include <string.h>

/* The port behind the last colon before end. */
static unsigned port_before(const char *text, const char *end)
{
	while (end > text && end[-1] != ':')
		end--;
	return end > text ? strtoul(end, NULL, 10) : UINT32_MAX;
}

void ip_service_ports_read(const struct ip_descriptors *descriptors, struct ip_service_ports *ret)
{
	*ret = (struct ip_service_ports){0};
	for (size_t i = 0; i < descriptors->n; i++) {
		const char *text = descriptors->items[i].text;
		unsigned port;

		if (strncmp(text, "tcp ", 4) || strstr(text, IP_CONNECTION_BETWEEN))
			continue;
		port = port_before(text, text + strlen(text));
		if (port < 65536)
			ret->bits[port / 64] |= 1ull << port % 64;
	}
}

enum ip_socket_role ip_service_ports_role(const struct ip_service_ports *ports, const char *name)
{
	const char *between = strstr(name, IP_CONNECTION_BETWEEN);
	const bool bound = !strncmp(name, "unix bound:", 11);
	unsigned port;

	if (!strncmp(name, "udp ", 4) && !between)
		return IP_SOCKET_DATAGRAM;
	if (!between)
		return bound || !strncmp(name, "tcp ", 4) ? IP_SOCKET_WAITS : IP_SOCKET_OTHER;
	if (bound) /* the other end of one that was accepted has no path */
		return between[3] == '[' ? IP_SOCKET_ACCEPTED : IP_SOCKET_OTHER;
	if (!strncmp(name, "unix ", 5))
		return strstr(between, "bound:") ? IP_SOCKET_MADE : IP_SOCKET_OTHER;
	if (!strncmp(name, "udp ", 4))
		return IP_SOCKET_MADE;
	if (strncmp(name, "tcp ", 4))
		return IP_SOCKET_OTHER;
	port = port_before(name, between);
	return port < 65536 && ports->bits[port / 64] >> port % 64 & 1 ? IP_SOCKET_ACCEPTED
								       : IP_SOCKET_MADE;
}
