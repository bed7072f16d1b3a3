/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How an iprobe asks the iprobe that has the session of a target to change the session.
 *
 *   The session listens on an abstract Unix socket. The socket has a name in the network namespace,
 *   and the name follows from the area (device and inode of the memfd). Another process may have
 *   taken the name before; then the session adds some letters. The client, which is the iprobe that
 *   asks, tries all names that begin with the name (/proc/net/unix). It trusts only the session
 *   itself. The session in turn obeys only an iprobe of its own user or of a user who is above it
 *   (control_peer.h).
 *
 *   Each connection carries one request and one reply. Each of them is one packet (SOCK_SEQPACKET):
 *   a struct below, followed by text. A request for a snapshot comes with an open descriptor of the
 *   directory in which the snapshot is to be made (SCM_RIGHTS). A path would not do: the session
 *   would look it up in its own root directory and mounts, which may differ from those of the
 *   client. A request for what the session's program does comes with memory for the answer, which
 *   may be longer than a packet: a write to memory never waits.
 *
 * The session must never wait for a client:
 *
 *   - The socket does not block.
 *   - One step takes a bounded number of calls and at most one request.
 *   - Connections beyond CLIENTS wait in the kernel.
 *   - A connection that sends nothing is soon closed.
 *   - A packet that is no request is answered with an error.
 *   - A reply for which there is no room is dropped together with its connection.
 */
#ifndef IP_CONTROL_SOCKET_H
#define IP_CONTROL_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hotpatcher/shm/area.h"

#define IP_CONTROL_MAGIC    0x3674736575716572ull /* "request6" */
#define IP_CONTROL_TEXT_MAX (96u << 10)		  /* bytes of text: a packet is not split */
#define IP_CONTROL_STOPS    16u

#define IP_CONTROL_DRY_RUN 0x1u
#define IP_CONTROL_ARGS	   0x2u
#define IP_CONTROL_RETVAL  0x4u
#define IP_CONTROL_SNAPSHOT                                                                        \
	0x8u /* the text: name of the directory to write, in the directory that is passed along */
#define IP_CONTROL_COUNTS 0x10u /* writes DIR/iprobe/counts now; nothing else is done */
/* writes what the session's program does into the memory (memfd) that is passed along */
#define IP_CONTROL_DESCRIBE 0x20u
#define IP_CONTROL_FLAGS    0x3fu

/* After the struct comes the selection, as ip_selection_text() makes it, without a zero byte at its
 * end. */
struct ip_control_request {
	uint64_t magic;
	uint32_t flags;
	/* the target's pid as the target itself sees it: a forked child shares the area with its
	 * parent */
	uint32_t inner_pid;
	uint32_t string_limit;
	uint32_t reserved; /* 0 */
	uint64_t max_stop_ns;
	/* of a snapshot: what ended before is left out; the time by both clocks, 0: nothing */
	uint64_t since_tsc, since_raw_ns;
};

/* Nothing was changed, and a moment later it may be: threads did not stop in time. */
#define IP_CONTROL_FAILED_NOW 2u

/* After the struct comes the text: the reason if the request failed; else the trace directory, a
 * zero byte, and the items that matched nothing. */
struct ip_control_reply {
	uint64_t magic;
	uint32_t failed; /* 0: it is done; IP_CONTROL_FAILED_NOW; else it is not */
	uint32_t iprobe_pid;
	uint64_t functions_added, functions_removed, sites_added, sites_removed;
	uint64_t functions, sites; /* live now */
	uint64_t left_out, foreign, threads, pages;
	uint64_t nstops;
	uint64_t stop_ns[IP_CONTROL_STOPS];
	uint64_t failed_stops; /* one bit for each stop of stop_ns that changed nothing */
	/* stops that have no place in stop_ns, and the longest of them */
	uint64_t more_stops, more_ns;
	uint64_t events, lost, invalid, overwritten, torn; /* of a snapshot */
};

struct ip_control;

/* Listens for the session of the area. 0, and the caller destroys *ret; -1 with an error. */
int ip_control_create(const struct ip_area *area, struct ip_control **ret);
void ip_control_destroy(struct ip_control *control);

/* The descriptor of the socket, or -1. A caller that has nothing else to do polls it for POLLIN. */
int ip_control_fd(const struct ip_control *control);

/* Carries out one request. It fills in reply, which is zero before, and text, which has room for
 * IP_CONTROL_TEXT_MAX bytes. The first *text_size bytes of the text are sent after the reply.
 * selection ends with a zero byte and contains no other. directory: the directory, or the memory of
 * IP_CONTROL_DESCRIBE, that came with the request; -1: none came. */
typedef void (*ip_control_serve)(void *context, const struct ip_control_request *request,
				 const char *selection, int directory,
				 struct ip_control_reply *reply, char *text, size_t *text_size);

/* Accepts connections, and serves one request at most. Never blocks, except for the time that serve
 * takes; serve is called once at most. control may be NULL. */
void ip_control_poll(struct ip_control *control, ip_control_serve serve, void *context);

/* Parses a packet. Returns NULL, or the reason why it is no request. *ret_selection: the text with
 * a zero byte at its end, which the caller frees. */
const char *ip_control_parse(const void *packet, size_t size, struct ip_control_request *ret,
			     char **ret_selection);

/* Wakes the session of the area, which may sleep for seconds (nap.h), so that it sees at once what
 * has been written to the area. A session that cannot be reached sees it a little later. */
void ip_control_wake(const struct ip_area *area, pid_t pid);

/* Asks the session of the area. pid: the target. by: the iprobe that must have the session, so that
 * no other one is changed which has come after it; 0: whichever has it. directory: a descriptor to
 * pass along; -1: none. 0: the session has done it; *ret_text is the text of the reply, followed by
 * a zero byte, and the caller frees it. 1: no session listens (yet). -1 with an error, which is the
 * session's own or ours. */
int ip_control_ask(const struct ip_area *area, pid_t pid, pid_t by,
		   const struct ip_control_request *request, const char *selection, int directory,
		   struct ip_control_reply *ret, char **ret_text, size_t *ret_text_size);

#endif
