/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes at iprobed's socket: one a connection, which owns nothing but that. It waits for
 * the one request, looks whether it is well formed, hands its text on, and what descriptors came
 * along to the worker itself.
 *
 * Whoever can connect chooses what is sent, and among it may be a descriptor that takes its time
 * when it is closed: a file of a file system that he serves himself (FUSE), a socket that lingers.
 * Closing means: dropping the last reference, received or not, and for some the mere close(). So:
 *
 *   1. iprobed accepts a connection, asks the kernel who is at its other end, hands it to one of
 *      these, closes its own, and only then says go. What has been sent over the connection is
 *      received here, or dropped when this process ends: it may hang in that for good, by itself,
 *      and it is counted as its user's until it is gone (connections.c).
 *   2. No descriptor can come from here to iprobed. What is told goes through a pipe; iprobed's end
 *      of the pair by which it gives orders is shut down for receiving.
 *   3. The descriptors go to the worker, over a socket that iprobed makes when it has started one:
 *      the worker's end is the worker's alone by then.
 *
 * It runs as nobody, without capabilities, under a seccomp filter that knows some twenty system
 * calls; no file can be opened, no process started, no socket made. Somebody who has taken it over
 * has his own connection, which he had before: who asks is what iprobed has seen of it.
 */
#ifndef IP_RECEIVER_H
#define IP_RECEIVER_H

#include <stdint.h>
#include <sys/types.h>

/* To the front: packets of this, some with one descriptor or with text behind it. */
enum ip_receiver_order {
	IP_RECEIVER_CONNECTION, /* descriptor: the connection */
	IP_RECEIVER_GO,		/* nobody else has it open now */
	IP_RECEIVER_WORKER,	/* descriptor: where the client's are to be sent */
	IP_RECEIVER_SAY,	/* text: for the client */
	IP_RECEIVER_LAST_WORD,	/* text likewise; and then it is over */
};

/* From the front, through the pipe. */
enum ip_receiver_word {
	IP_RECEIVER_READY,
	IP_RECEIVER_REQUEST, /* size bytes of text follow */
	IP_RECEIVER_STOP,
	IP_RECEIVER_GONE, /* the client has */
};

struct ip_receiver_head {
	uint32_t what;
	uint32_t size;
};

#define IP_RECEIVER_TEXT_MAX   4096u	     /* of an order */
#define IP_RECEIVER_SILENCE_NS 5000000000ull /* how long a connection may ask for nothing */

struct ip_receiver {
	pid_t pid;
	int to;	  /* for orders */
	int from; /* what it says; does not block */
};

/* Starts one, which waits for its connection. 0, or -1 with an error. */
int ip_receiver_start(struct ip_receiver *ret);

/* An order, without waiting. fd: -1, or the one that goes with it. 0, or -1: it is not there any
 * more. */
int ip_receiver_order(const struct ip_receiver *receiver, enum ip_receiver_order order, int fd,
		      const char *text);

/* From now on this process can do no more than the front needs. 0 or -1. */
int ip_receiver_confine(void);

#endif
