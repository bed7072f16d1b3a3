/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The socket's file at which iprobed listens, where systemd gives no socket.
 *
 * It is removed at the end, while iprobed still listens there: another iprobed that starts
 * meanwhile finds it taken, and leaves it. The inode is not given to another file as long as the
 * socket is open. So what has its number is the file that this iprobed has made.
 */
#ifndef IP_SOCKET_FILE_H
#define IP_SOCKET_FILE_H

#include <sys/types.h>

struct ip_iprobed_socket_file {
	dev_t dev;
	ino_t ino; /* 0: there is none: systemd has made it, and keeps it */
};

/* Returns the socket, or -1 with an error: another iprobed listens there. A file that an iprobed
 * has left which was killed is removed. */
int ip_iprobed_listen(const char *path, struct ip_iprobed_socket_file *ret);

/* Removes the file, unless another one has its name by now. To be called before the socket is
 * closed. */
void ip_iprobed_socket_remove(const char *path, const struct ip_iprobed_socket_file *file);

#endif
