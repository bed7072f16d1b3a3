/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobed's side of the socket: a process of its own, which owns nothing. It takes connections, waits for one request each, looks
 * whether it is well formed, and hands it on with the connection itself; the other process (iprobed.h) asks the kernel who is at its other
 * end, and believes nothing that it is told here.
 *
 * It runs as nobody, without capabilities, under a seccomp filter that knows some twenty system calls; no file can be opened, no
 * process started, no socket made.
 *
 * Between the two, packets (struct ip_front_packet, and a request's text behind it) over a socketpair.
 */
#ifndef IP_FRONT_H
#define IP_FRONT_H

#include <stdint.h>
#include <sys/types.h>

enum ip_front_what {
	IP_FRONT_REQUEST, /* with descriptors: the connection, then what came along */
	IP_FRONT_STOP,
	IP_FRONT_GONE, /* the connection has ended */
	IP_FRONT_DONE, /* the other way: the last word has been said */
};

struct ip_front_packet {
	uint32_t what;
	uint32_t id; /* of the connection */
};

#define IP_FRONT_CONNECTIONS 128
#define IP_FRONT_PER_USER    16

/* Starts it. listening: the socket, which stays open here, too. Its process id, or -1 with an error; *ret is our end of the pair. */
pid_t ip_front_start(int listening, int *ret);

/* Sends and receives packets with descriptors. Sizes as of sendmsg and recvmsg; received descriptors beyond max are closed. */
ssize_t ip_send_with_fds(int socket, const void *head, size_t head_size, const void *text, size_t text_size,
			 const int *fds, size_t n);
ssize_t ip_receive_with_fds(int socket, void *buffer, size_t size, int *fds, size_t max, size_t *ret_n,
			    int *ret_flags);

/* From now on this process can do no more than the front needs. 0 or -1. */
int ip_front_confine(void);

#endif
