/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How one iprobe asks another, which has the session of a target, to change it.
 *
 *   The session listens on an abstract Unix socket, a name in the network namespace that follows
 *   from the area (device and inode of the memfd). Anybody may have taken it before: then the
 *   session adds some letters. Who asks tries all names that begin so (/proc/net/unix), and
 *   believes none but the session itself, nor does the session obey anybody but an iprobe of its
 *   own user or of one that is above it (control_peer.h).
 *
 *   One request and one reply a connection, each one packet (SOCK_SEQPACKET), a struct below and
 *   text behind it. With a snapshot comes the directory in which it is to be made (SCM_RIGHTS),
 *   open: a path would mean to the session what its own root directory and mounts say, which may be
 *   others than those of who asks.
 *
 * The session must never wait for a client: the socket does not block, a turn takes a bounded
 * number of calls and at most one request, connections beyond CLIENTS wait in the kernel, one that
 * says nothing is closed soon, a packet that is no request is answered with an error, and a reply
 * that finds no room is dropped with its connection.
 */
#ifndef IP_CONTROL_SOCKET_H
#define IP_CONTROL_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hotpatcher/shm/area.h"

#define IP_CONTROL_MAGIC    0x3574736575716572ull /* "request5" */
#define IP_CONTROL_TEXT_MAX (96u << 10)		  /* bytes of text: a packet is not divided */
#define IP_CONTROL_STOPS    16u

#define IP_CONTROL_DRY_RUN 0x1u
#define IP_CONTROL_ARGS	   0x2u
#define IP_CONTROL_RETVAL  0x4u
#define IP_CONTROL_SNAPSHOT                                                                        \
	0x8u /* the text is the name of the directory to write, in that which comes along */
#define IP_CONTROL_COUNTS 0x10u /* writes DIR/iprobe/counts now; nothing else is done */
#define IP_CONTROL_FLAGS  0x1fu

/* Behind it: the selection, as ip_selection_text() makes it, without a zero. */
struct ip_control_request {
	uint64_t magic;
	uint32_t flags;
	/* of the target, as it sees itself: a forked child shares the area with its parent */
	uint32_t inner_pid;
	uint32_t string_limit;
	uint32_t reserved; /* 0 */
	uint64_t max_stop_ns;
};

/* Behind it: where it failed the reason; else the trace directory, a zero, and the items that
 * matched nothing. */
struct ip_control_reply {
	uint64_t magic;
	uint32_t failed;
	uint32_t iprobe_pid;
	uint64_t functions_added, functions_removed, sites_added, sites_removed;
	uint64_t functions, sites; /* live now */
	uint64_t left_out, foreign, threads, pages;
	uint64_t nstops;
	uint64_t stop_ns[IP_CONTROL_STOPS];
	uint64_t failed_stops;	      /* a bit for each of these that changed nothing */
	uint64_t more_stops, more_ns; /* that found no room there, and the longest of them */
	uint64_t events, lost, invalid, overwritten, torn; /* of a snapshot */
};

struct ip_control;

/* Listens for the session of the area. -1 with an error. */
int ip_control_create(const struct ip_area *area, struct ip_control **ret);
void ip_control_destroy(struct ip_control *control);

/* To be polled for POLLIN by who has nothing else to do. */
int ip_control_fd(const struct ip_control *control);

/* Carries out one request: fills in reply (which is zero) and text, of IP_CONTROL_TEXT_MAX
 * bytes; *text_size bytes of it go behind the reply. selection ends in a zero and holds no
 * other. directory: what came along, a directory; -1: nothing. */
typedef void (*ip_control_serve)(void *context, const struct ip_control_request *request,
				 const char *selection, int directory,
				 struct ip_control_reply *reply, char *text, size_t *text_size);

/* Never blocks, but for what serve does, which is called once at most. control may be NULL. */
void ip_control_poll(struct ip_control *control, ip_control_serve serve, void *context);

/* What a packet says: NULL, or why it is no request. *ret_selection (malloc'ed) is the text with a
 * zero. */
const char *ip_control_parse(const void *packet, size_t size, struct ip_control_request *ret,
			     char **ret_selection);

/* Asks the session of the area; pid: the target. 0: done, *ret_text (malloc'ed, a zero behind
 * it) is the reply's text; 1: nobody listens (yet); -1 with an error, the session's own or ours.
 * directory: goes along; -1: none. */
int ip_control_ask(const struct ip_area *area, pid_t pid, const struct ip_control_request *request,
		   const char *selection, int directory, struct ip_control_reply *ret,
		   char **ret_text, size_t *ret_text_size);

#endif
