/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The receivers: processes at iprobed's socket, one for each connection. A receiver owns nothing
 * but its connection. It waits for the one request, checks whether it is well formed, passes its
 * text to iprobed, and sends the descriptors that came with it directly to the worker.
 *
 * Any user who can connect chooses what is sent. This may be a descriptor that takes long to close:
 * a file of a file system that the user serves himself (FUSE), or a socket that lingers. Closing
 * means: dropping the last reference, received or not; for some descriptors any close(). So:
 *
 *   1. iprobed accepts a connection, asks the kernel who is at its other end, gives it to a
 *      receiver, closes its own descriptor, and only then sends IP_RECEIVER_GO. What has been sent
 *      over the connection is received by the receiver, or is dropped when the receiver ends. The
 *      receiver may hang in this for ever. This blocks no other process, and the receiver is
 *      counted for its user until it is gone (connections.c).
 *   2. No descriptor can come from a receiver to iprobed. The receiver's messages go through a
 *      pipe. iprobed's end of the socket pair for orders is shut down for receiving.
 *   3. The descriptors go to the worker, over a socket pair that iprobed makes when it has started
 *      the worker. By then only the worker has the worker's end open.
 *
 * A receiver runs as nobody, without capabilities, under a seccomp filter that allows some twenty
 * system calls. It can open no file, start no process, and make no socket. An attacker who has
 * taken it over has only his own connection, which he had before: iprobed itself has seen which
 * user is at its other end.
 */
#ifndef IP_RECEIVER_H
#define IP_RECEIVER_H

#include <stdint.h>
#include <sys/types.h>

/* Orders to the receiver: packets with this head, some with one descriptor or with text after
 * it. */
enum ip_receiver_command {
	IP_RECEIVER_CONNECTION, /* descriptor: the connection */
	IP_RECEIVER_GO,		/* only the receiver has it open now */
	IP_RECEIVER_WORKER,	/* descriptor: where to send the client's descriptors */
	IP_RECEIVER_EVENTS,	/* descriptor: for the client, of the reader of kernel events */
	IP_RECEIVER_SAY,	/* text for the client */
	IP_RECEIVER_LAST_WORD,	/* text for the client; then the receiver ends */
};

/* Messages from the receiver, through the pipe. */
enum ip_receiver_message {
	IP_RECEIVER_READY,
	IP_RECEIVER_REQUEST, /* size bytes of text follow */
	IP_RECEIVER_STOP,
	IP_RECEIVER_GONE, /* the client has closed the connection */
};

struct ip_receiver_header {
	uint32_t what;
	uint32_t size;
};

#define IP_RECEIVER_TEXT_MAX   4096u	     /* bytes of text in an order */
#define IP_RECEIVER_SILENCE_NS 5000000000ull /* a client must send its request within this time */

struct ip_receiver {
	pid_t pid;
	int to;	  /* socket for orders */
	int from; /* pipe for the receiver's messages; does not block */
};

/* Starts a receiver, which waits for its connection. Returns 0, or -1 with an error. */
int ip_receiver_start(struct ip_receiver *ret);

/* Sends an order, without waiting. fd: -1, or the descriptor that goes with it. Returns 0, or -1 if
 * the receiver is gone. */
int ip_receiver_command(const struct ip_receiver *receiver, enum ip_receiver_command order, int fd,
			const char *text);

/* From now on this process can do no more than a receiver needs. Returns 0 or -1. */
int ip_receiver_confine(void);

#endif
