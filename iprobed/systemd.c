/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One datagram to systemd, and one descriptor from it: sd_notify(3), sd_listen_fds(3).
 */
#include "iprobed/systemd.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/error.h"

#define FIRST_FD 3

void ip_notify(const char *text)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	size_t n = path ? strlen(path) : 0;
	_cleanup_close_ int fd = -1;

	if (!n || n >= sizeof(address.sun_path) || (*path != '/' && *path != '@'))
		return;
	memcpy(address.sun_path, path, n);
	if (*path == '@')
		address.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd >= 0)
		(void)!sendto(fd, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&address,
			      offsetof(struct sockaddr_un, sun_path) + n);
}

int ip_notify_listening(void)
{
	const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS");
	int type = 0, accepts = 0;
	socklen_t size = sizeof(int);

	if (!pid || !fds || atoi(pid) != getpid() || atoi(fds) < 1)
		return -1;
	if (atoi(fds) > 1) {
		ip_error("systemd gives more than one socket (LISTEN_FDS=%s): one is needed", fds);
		return -2;
	}
	if (getsockopt(FIRST_FD, SOL_SOCKET, SO_TYPE, &type, &size) < 0 || type != SOCK_SEQPACKET ||
	    getsockopt(FIRST_FD, SOL_SOCKET, SO_ACCEPTCONN, &accepts, &size) < 0 || !accepts) {
		ip_error("the socket that systemd gives is not one that listens for packets "
			 "(ListenSequentialPacket=)");
		return -2;
	}
	fcntl(FIRST_FD, F_SETFD, FD_CLOEXEC);
	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_FDNAMES");
	return FIRST_FD;
}
